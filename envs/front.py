"""The exact Pareto front of a maze, with a shortest route for each of its points."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from . import _grid
from .scoring import OBJECTIVES, check_reward_mode, reward_vectors

LARGEST_ITEMS = 16  # the search keeps 2^items sets of items for each square


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """The non-dominated reward vectors that routes within the budget reach.

    Attributes:
        rewards: (n, 4) float64, without duplicates, sorted lexicographically descending; columns as in OBJECTIVES.
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

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in ("", *OBJECTIVES, "steps", "route"))
        rows = (
            f"<tr><td>{i}</td>"
            + "".join(f"<td>{value:.2f}</td>" for value in vector)
            + f"<td>{len(route)}</td><td><code>{route}</code></td></tr>"
            for i, (vector, route) in enumerate(zip(self.rewards.tolist(), self.routes, strict=True), start=1)
        )
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def pareto_front(maze, reward_mode="linear"):
    """Every non-dominated reward vector that some route within the budget earns; exact, by dynamic programming.

    A state of the search is a square with the set of items touched so far (gold, diamonds, lava; in the mode
    ``convex_bonus`` also whether a bonus square was visited). The sets that can be in hand on a square after t steps
    are kept as the bits of one integer: bit s is set when the set numbered s can be. Walking is then OR with the
    neighbours, and stepping on item i moves every set without i up by 2^i. A state counts at its first arrival only,
    and only while E is still within the budget, so each vector is met first by one of its shortest routes.

    Args:
        maze: a Maze.
        reward_mode: ``linear`` or ``convex_bonus``.

    Returns:
        ParetoFront with rewards (n, 4) and n witness routes; it is never empty, since every maze has a way to E.

    Raises:
        ValueError: more than 16 items (gold, diamonds and lava; a bonus counts as one in ``convex_bonus``).

    >>> from envs import Maze
    >>> front = pareto_front(Maze.from_text("S . G\\n. # .\\nD L E", budget=4))
    >>> front.rewards.tolist(), front.routes
    ([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]], ('RRDD', 'DDRR'))
    """
    search = _Search(maze, reward_mode)
    rewards, steps, items = search.front()
    routes = tuple(search.route(*ends) for ends in zip(steps, items, strict=True))
    return ParetoFront(rewards, routes)


def front_rewards(maze, reward_mode="linear", gamma=1.0):
    """The vectors (n, 4) of :func:`pareto_front` alone, without routes; with `gamma` the front of discounted returns.

    A route of T steps returns gamma^(T - 1) times its reward vector, which is paid on its last step.
    """
    return _Search(maze, reward_mode).front(gamma)[0]


class _Search:
    """Breadth-first search over (square, set of items), all sets of a square in one integer."""

    def __init__(self, maze, reward_mode):
        check_reward_mode(reward_mode)
        self.reward_mode = reward_mode
        groups = [maze.gold, maze.diamonds, maze.lava, maze.bonus if reward_mode == "convex_bonus" else ()]
        self.sizes = (len(groups[0]), len(groups[1]), len(groups[2]), min(len(groups[3]), 1))
        if sum(self.sizes) > LARGEST_ITEMS:
            named = zip(self.sizes, ("gold", "diamonds", "lava", "bonus"), strict=True)
            raise ValueError(
                f"maze: {sum(self.sizes)} items ({', '.join(f'{n} {name}' for n, name in named if n)}), but the exact "
                f"front takes at most {LARGEST_ITEMS}; remove some"
            )
        self.maze = maze
        self.item_of = {}
        for position in (*groups[0], *groups[1], *groups[2]):
            self.item_of[position] = len(self.item_of)
        for position in groups[3]:  # several bonus squares, one fact: a bonus was visited
            self.item_of[position] = sum(self.sizes[:3])
        self.without = _sets_without(sum(self.sizes))
        self.layers = []  # layers[t][square] = sets first in hand there after t steps

    def front(self, gamma=1.0):
        """Rewards (n, 4) of the front, and for each row the steps and the set of items of a shortest route to it."""
        arrivals = self._arrivals()  # one row for each kind of arrival: gold, diamonds, lava, bonus, steps, set
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
        return rewards, *arrivals[best, 4:].T.tolist()

    def _arrivals(self):
        maze, layers = self.maze, self.layers
        steps_left = maze.distances(maze.exit)
        near = {square: self._neighbours(square) for square in maze.free}
        seen = dict.fromkeys(maze.free, 0)
        layer = {maze.start: 1}  # the empty set is set number 0, bit 0
        seen[maze.start] = 1
        found = []
        kinds, counts = _kinds(self.sizes)
        met = np.zeros(len(counts), dtype=bool)
        for steps in range(maze.budget + 1):
            layers.append(layer)
            at_exit = layer.get(maze.exit)
            if at_exit:
                sets = _bits(at_exit, len(kinds))
                kind, first = np.unique(kinds[sets], return_index=True)
                fresh = ~met[kind]
                met[kind[fresh]] = True
                for k, s in zip(kind[fresh], sets[first[fresh]], strict=True):
                    found.append((*counts[k], steps, s))
            budget = maze.budget - steps - 1
            reached = {}
            for square, sets in layer.items():
                if square == maze.exit:
                    continue  # E ends the walk
                for there in near[square]:
                    if steps_left[there] <= budget:
                        reached[there] = reached.get(there, 0) | sets
            layer = {}
            for square, sets in reached.items():
                item = self.item_of.get(square)
                if item is not None:
                    lacking = sets & self.without[item]
                    sets = (sets ^ lacking) | lacking << (1 << item)
                sets &= ~seen[square]
                if sets:
                    seen[square] |= sets
                    layer[square] = sets
            if not layer:
                break
        return np.array(found)

    def route(self, steps, items):
        """A route that is at E with this set of items after this many steps, walked backwards through the layers."""
        square, moves = self.maze.exit, ""
        for t in range(steps - 1, -1, -1):
            square, items, move = self._before(square, items, t, moves[:1])
            moves = move + moves
        return moves

    def _before(self, square, items, t, next_move):
        """Square and set of items at time t from which one move led here; straight on if it can be, for the picture."""
        item = self.item_of.get(square)
        sets = [items] if item is None else [items & ~(1 << item), items]
        for move in (*next_move, *_grid.MOVES):
            row, column = _grid.MOVES[move]
            there = (square[0] - row, square[1] - column)
            reached = self.layers[t].get(there, 0) if there != self.maze.exit else 0
            for held in sets:
                if reached >> held & 1:
                    return there, held, move
        raise AssertionError("a state without a predecessor")

    def _neighbours(self, square):
        steps = ((square[0] + dr, square[1] + dc) for dr, dc in _grid.MOVES.values())
        return [there for there in steps if there in self.maze.free]


@functools.lru_cache(maxsize=32)
def _sets_without(n):
    """For each of n items the integer whose bit s is set when the set numbered s lacks the item."""
    full = (1 << (1 << n)) - 1
    # blocks of 2^i ones, 2^i zeros, ...: all ones divided by (2^(2^i) + 1)
    return [full // ((1 << (1 << i)) + 1) for i in range(n)]


@functools.lru_cache(maxsize=64)
def _kinds(sizes):
    """For each set the number of its kind, and for each kind its (gold, diamonds, lava, bonus) counts."""
    sets = np.arange(1 << sum(sizes))
    columns, low = [], 0
    for size in sizes:
        part = (sets >> low) & ((1 << size) - 1)
        columns.append(sum((part >> i) & 1 for i in range(size)) + np.zeros_like(sets))
        low += size
    kinds = np.ravel_multi_index(columns, [size + 1 for size in sizes])
    counts = np.stack(np.unravel_index(np.arange(np.prod([size + 1 for size in sizes])), [s + 1 for s in sizes]), 1)
    return kinds, counts


def _bits(number, width):
    """The positions of the set bits of an integer of at most `width` bits."""
    raw = np.frombuffer(number.to_bytes((width + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))
