"""The exact Pareto front of a maze, with a shortest route for each of its points."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ._grid import MOVES
from .scoring import OBJECTIVES, check_reward_mode, reward_vectors

if TYPE_CHECKING:
    from .maze import Maze

LARGEST_ITEMS = 16  # the search keeps 2^items sets of items for each square


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """The non-dominated reward vectors that routes within the budget reach.

    Attributes:
        rewards: (n, 4) float64 in [0, 1], read-only, without duplicates, sorted lexicographically
            descending; columns as in :data:`envs.OBJECTIVES`.
        routes: n move strings; route i is a shortest one that earns row i.
    """

    rewards: np.ndarray
    routes: tuple[str, ...]

    def __len__(self):
        return len(self.routes)

    def __str__(self):
        lines = ["  ".join(f"{name:>10}" for name in OBJECTIVES) + "  route"]
        for vector, route in zip(self.rewards.tolist(), self.routes, strict=True):
            lines.append("  ".join(f"{value:10.2f}" for value in vector) + f"  {route}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer, cycle):  # in IPython's terminal
        printer.text(str(self))

    def _repr_html_(self):
        style = 'style="padding: 2px 8px; text-align: right"'  # inside a widget a page gives none
        names = ("point", *OBJECTIVES, "moves", "route")
        head = "".join(f'<th scope="col" {style}>{name}</th>' for name in names)
        rows = []
        for i, (vector, route) in enumerate(
            zip(self.rewards.tolist(), self.routes, strict=True), 1
        ):
            cells = [str(i), *(f"{value:.2f}" for value in vector), str(len(route))]
            cells.append(f"<code>{route}</code>")
            rows.append("<tr>" + "".join(f"<td {style}>{cell}</td>" for cell in cells) + "</tr>")
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def pareto_front(maze: Maze, reward_mode: str = "linear") -> ParetoFront:
    """Returns every non-dominated reward vector that some route within the budget earns; exact.

    The last 1,024 fronts are kept, so asking again costs nothing.

    Args:
        maze: a Maze.
        reward_mode: ``linear`` or ``convex_bonus``; see :func:`envs.scoring.reward_vectors`.

    Returns:
        ParetoFront with rewards (n, 4) and n witness routes. It is never empty, since every maze
        has a path to E.

    Raises:
        ValueError: an unknown reward mode, or more than 16 items (gold, diamonds and lava; in
            ``convex_bonus`` a bonus counts as one more).

    Source: breadth-first search over (square, items taken); see the class `_Search` in this file.

    >>> from envs import Maze
    >>> front = pareto_front(Maze.from_text("S . G\\n. # .\\nD L E", budget=4))
    >>> front.rewards.tolist(), front.routes
    ([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]], ('RRDD', 'DDRR'))
    """
    check_reward_mode(reward_mode)  # before the cache, which takes hashable values alone
    return _pareto_front(maze, reward_mode)


@functools.lru_cache(maxsize=1024)
def _pareto_front(maze, reward_mode):
    search = _Search(maze, reward_mode)
    found = search.front()
    routes = (
        search.route(steps, items) for steps, items in zip(found.steps, found.sets, strict=True)
    )
    return ParetoFront(found.rewards, tuple(routes))


def front_rewards(maze: Maze, reward_mode: str, gamma: float) -> np.ndarray:
    """Returns the rewards (n, 4) of :func:`pareto_front` alone, discounted by `gamma`.

    A route of T moves returns gamma^(T - 1) times its reward vector, paid on its last move.
    """
    return _Search(maze, reward_mode).front(gamma).rewards


class _Best(NamedTuple):
    """A front, and for each of its n rows how a shortest route arrives at E."""

    rewards: np.ndarray  # (n, 4)
    steps: list[int]
    sets: list[int]  # the set of items taken, as a mask


class _Search:
    """Breadth-first search over (square, set of items taken).

    The items are gold, diamonds and lava, and in the mode ``convex_bonus`` the fact that a bonus
    square was visited. All sets that can be taken on the way to a square in t steps are one
    integer: bit s is set when set number s can be. A move joins the integers of the neighbours by
    OR. Stepping on item i moves every set without i up by 2^i. A state counts at its first arrival
    only, and only while E is within the budget, so a shortest route meets each vector first.
    """

    def __init__(self, maze, reward_mode):
        self.reward_mode = reward_mode
        bonus = maze.bonus if reward_mode == "convex_bonus" else ()
        self.sizes = (len(maze.gold), len(maze.diamonds), len(maze.lava), min(len(bonus), 1))
        if sum(self.sizes) > LARGEST_ITEMS:
            named = zip(self.sizes, ("gold", "diamonds", "lava", "bonus"), strict=True)
            counts = ", ".join(f"{n} {kind}" for n, kind in named if n)
            raise ValueError(
                f"maze: {sum(self.sizes)} items ({counts}), "
                f"but the exact front takes at most {LARGEST_ITEMS}; remove some"
            )
        self.maze = maze
        items = (*maze.gold, *maze.diamonds, *maze.lava)
        self.item_of = {square: i for i, square in enumerate(items)}
        # several bonus squares are one item: a bonus was visited
        self.item_of |= dict.fromkeys(bonus, len(items))
        self.without = _sets_without(sum(self.sizes))
        self.layers = []  # layers[t][square]: the sets that first arrive there after t steps

    def front(self, gamma=1.0):
        arrivals = self._arrivals()
        maze = self.maze
        totals = [len(maze.gold), len(maze.diamonds), len(maze.lava), len(maze.bonus)]
        rewards = reward_vectors(arrivals[:, :4], totals, self.reward_mode)
        rewards *= gamma ** (arrivals[:, 4:5] - 1.0)
        # best first, and among equal vectors the one with the fewest steps
        order = np.lexsort((arrivals[:, 5], arrivals[:, 4], *(-rewards.T[::-1])))
        rewards, arrivals = rewards[order], arrivals[order]
        new = np.r_[True, (rewards[1:] != rewards[:-1]).any(axis=1)]
        rewards, arrivals = rewards[new], arrivals[new]
        dominates = (rewards[:, None] >= rewards).all(-1) & ~np.eye(len(rewards), dtype=bool)
        best = ~dominates.any(axis=0)
        rewards = rewards[best]
        rewards.setflags(write=False)
        return _Best(rewards, arrivals[best, 4].tolist(), arrivals[best, 5].tolist())

    def _arrivals(self):
        """(n, 6): gold, diamonds, lava, bonus, steps and set of the first arrival of each tally."""
        maze, layers = self.maze, self.layers
        steps_left = maze.distances(maze.exit)
        near = {square: self._neighbours(square) for square in maze.free}
        seen = dict.fromkeys(maze.free, 0)
        layer = {maze.start: 1}  # the empty set is set number 0, bit 0
        seen[maze.start] = 1
        found = []
        tallies = _tallies(self.sizes)
        met = np.zeros(len(tallies.counts), dtype=bool)
        for steps in range(maze.budget + 1):
            layers.append(layer)
            at_exit = layer.get(maze.exit)
            if at_exit:
                sets = _bits(at_exit, len(tallies.of_set))
                tally, first = np.unique(tallies.of_set[sets], return_index=True)
                fresh = ~met[tally]
                met[tally[fresh]] = True
                for k, s in zip(tally[fresh], sets[first[fresh]], strict=True):
                    found.append((*tallies.counts[k], steps, s))
            layer = self._next_layer(layer, near, seen, steps_left, maze.budget - steps - 1)
            if not layer:
                break
        return np.array(found)

    def _next_layer(self, layer, near, seen, steps_left, budget):
        """The states one move on that are new, and from which E is within the budget left."""
        reached, exit_ = {}, self.maze.exit
        for square, sets in layer.items():
            if square == exit_:
                continue  # E ends the walk
            for there in near[square]:
                if steps_left[there] <= budget:
                    reached[there] = reached.get(there, 0) | sets
        following = {}
        for square, sets in reached.items():
            item = self.item_of.get(square)
            if item is not None:
                lacking = sets & self.without[item]
                sets = (sets ^ lacking) | lacking << (1 << item)
            sets &= ~seen[square]
            if sets:
                seen[square] |= sets
                following[square] = sets
        return following

    def route(self, steps, items):
        """A route that is at E with this set of items after this many steps, found backwards."""
        square, moves = self.maze.exit, ""
        for t in range(steps - 1, -1, -1):
            square, items, move = self._before(square, items, t, moves[:1])
            moves = move + moves
        return moves

    def _before(self, square, items, t, next_move):
        """The square and the items of a state at time t, and the move that leads from it to here;
        the straight one if there is a choice.
        """
        item = self.item_of.get(square)
        sets = [items] if item is None else [items & ~(1 << item), items]
        for move in (*next_move, *MOVES):
            row, column = MOVES[move]
            there = (square[0] - row, square[1] - column)
            reached = self.layers[t].get(there, 0) if there != self.maze.exit else 0
            for held in sets:
                if reached >> held & 1:
                    return there, held, move
        raise AssertionError("a state without a predecessor")

    def _neighbours(self, square):
        steps = ((square[0] + dr, square[1] + dc) for dr, dc in MOVES.values())
        return [there for there in steps if there in self.maze.free]


@functools.lru_cache(maxsize=32)
def _sets_without(n):
    """For each of n items the integer whose bit s is set when set number s lacks the item."""
    full = (1 << (1 << n)) - 1
    # blocks of 2^i ones, 2^i zeros, ...: all ones divided by (2^(2^i) + 1)
    return [full // ((1 << (1 << i)) + 1) for i in range(n)]


class _Tallies(NamedTuple):
    """A tally: all sets with equal counts of gold, diamonds, lava and bonus; they earn the same."""

    of_set: np.ndarray  # (sets,) the number of each set's tally
    counts: np.ndarray  # (tallies, 4) gold, diamonds, lava, bonus


@functools.lru_cache(maxsize=64)
def _tallies(sizes):
    sets = np.arange(1 << sum(sizes))
    columns, low = [], 0
    for size in sizes:
        columns.append(sum((sets >> low + i) & 1 for i in range(size)) + np.zeros_like(sets))
        low += size
    shape = [size + 1 for size in sizes]
    counts = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    return _Tallies(np.ravel_multi_index(columns, shape), counts)


def _bits(number, width):
    """The positions of the set bits of an integer of at most `width` bits."""
    raw = np.frombuffer(number.to_bytes((width + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))
