"""Where mazes come from: presets, the seeded generator, and four probe mazes with known answers."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass

import numpy as np

from . import _grid
from ._grid import shown
from .front import LARGEST_ITEMS, front_rewards
from .maze import Maze

# Which seeds are for what, so that no maze of an evaluation was ever trained on
LARGEST_SEED = 2**63
SEEDS = {
    "held_out": range(10_000),
    "training": range(10_000, 1_000_000),
    "pretraining": range(1_000_000, LARGEST_SEED),
}

ATTEMPTS = 5_000  # draws before a layout is declared impossible; the presets need 1 to 17 on average
ZONE_RADIUS = 2  # treasure lies this near to its corner, in Manhattan distance
ZONE_CELLS = 6  # squares within that radius of a corner


@dataclass(frozen=True)
class Layout:
    """The recipe of a family of mazes; :func:`generate` draws from it.

    S and E lie on opposite corners of a random diagonal, gold near one of the two other corners and diamonds near the
    other. In every maze drawn: a lava-free way to E fits the budget; a way through either treasure corner fits; a way
    through both corners, in either order, does not; and no route is best at everything (the Pareto front has at least
    two points). The objectives conflict by construction.

    Attributes:
        name: part of the random key, so two layouts of one name and one seed start from the same draws.
        size: n of the n x n grid, 4 to 12.
        walls: (least, most) walls, scattered over the grid; ignored when `openings` is given.
        openings: (least, most) walls opened again in a maze grown by randomised Prim; None scatters walls instead.
        gold, diamonds, lava: (least, most) squares of each; at most 6 squares lie near a corner.
        tempting_lava: lava on a shortest way from S to E or beside treasure; False: inside, two squares off the border.
        treasure_on_corner: each treasure corner itself holds an item, so no route takes everything.
        bonus: a bonus square in the centre (it acts in the reward mode ``convex_bonus`` alone).
        slack: steps of the budget beyond the longer of the two ways through a treasure corner.
        largest_budget: the budget is cut to this; None: never.
    """

    name: str = "custom"
    size: int = 6
    walls: tuple[int, int] = (6, 9)
    openings: tuple[int, int] | None = None
    gold: tuple[int, int] = (2, 3)
    diamonds: tuple[int, int] = (2, 3)
    lava: tuple[int, int] = (2, 4)
    tempting_lava: bool = True
    treasure_on_corner: bool = True
    bonus: bool = False
    slack: int = 2
    largest_budget: int | None = None

    def __post_init__(self):
        if not isinstance(self.name, str):
            raise ValueError(f"name: got {shown(self.name)}, expected a string")
        if not isinstance(self.size, int) or not 4 <= self.size <= 12:
            raise ValueError(f"size: got {shown(self.size)}, expected a whole number from 4 to 12")
        squares = self.size**2
        most = {"walls": squares, "openings": squares, "gold": ZONE_CELLS, "diamonds": ZONE_CELLS, "lava": squares}
        for name, limit in most.items():
            span = getattr(self, name)
            if name == "openings" and span is None:
                continue
            ok = isinstance(span, tuple) and len(span) == 2 and all(isinstance(x, int) for x in span)
            if not ok or not 0 <= span[0] <= span[1] <= limit:
                raise ValueError(
                    f"{name}: got {shown(span)}, expected (least, most) with 0 <= least <= most <= {limit}"
                )
        for name in ("tempting_lava", "treasure_on_corner", "bonus"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: got {shown(getattr(self, name))}, expected True or False")
        if self.gold[1] + self.diamonds[1] + self.lava[1] > LARGEST_ITEMS:
            raise ValueError(
                f"gold, diamonds, lava: up to {self.gold[1] + self.diamonds[1] + self.lava[1]} items together, but the "
                f"exact front takes at most {LARGEST_ITEMS}; lower their upper ends"
            )
        if self.treasure_on_corner and not (self.gold[0] and self.diamonds[0]):
            raise ValueError(
                f"treasure_on_corner: needs at least one gold and one diamond, got gold={self.gold} and "
                f"diamonds={self.diamonds}; set treasure_on_corner=False"
            )
        if not isinstance(self.slack, int) or not 0 <= self.slack <= 4 * self.size:
            raise ValueError(f"slack: got {shown(self.slack)}, expected a whole number from 0 to {4 * self.size}")
        if self.largest_budget is not None and (
            not isinstance(self.largest_budget, int) or self.largest_budget < 2 * (self.size - 1)
        ):
            raise ValueError(
                f"largest_budget: got {shown(self.largest_budget)}, expected None or a whole number from "
                f"{2 * (self.size - 1)}, the shortest way between opposite corners"
            )


PRESETS = {
    layout.name: layout
    for layout in (
        Layout("tiny-4x4", size=4, walls=(1, 3), gold=(1, 1), diamonds=(1, 1), lava=(1, 1), slack=0),
        # frozen: the weights that ship are trained on it
        Layout("lite-6x6", size=6, walls=(6, 9), gold=(2, 3), diamonds=(2, 3), lava=(2, 4), slack=2, largest_budget=18),
        Layout("hard-8x8", size=8, walls=(14, 20), gold=(3, 4), diamonds=(3, 4), lava=(4, 7), slack=2),
        # the rules of the paper's own generator (arXiv 2605.22817)
        Layout(
            "paper-9x9",
            size=9,
            openings=(18, 28),
            gold=(3, 5),
            diamonds=(3, 5),
            lava=(3, 5),
            tempting_lava=False,
            treasure_on_corner=False,
            bonus=True,
            slack=7,
        ),
    )
}


def generate(preset, seed):
    """The maze of a preset and a seed: a pure function, the same on every platform and in every version.

    Args:
        preset: a name of :data:`PRESETS`, or a :class:`Layout`.
        seed: a whole number from 0. By convention (:data:`SEEDS`) 0-9,999 are held out for tests, evaluation and
            demonstrations, 10,000-999,999 are for RL training and numbers from 1,000,000 for pretraining.

    Raises:
        ValueError: an unknown preset, a seed that is no whole number from 0, or a layout that admits no maze.

    >>> maze = generate("tiny-4x4", seed=3)
    >>> print(maze)
    E . . G
    . . L .
    . . # .
    D . . S
    >>> maze.budget
    6
    """
    layout = _check_layout(preset)
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < LARGEST_SEED or isinstance(seed, bool):
        raise ValueError(f"seed: got {shown(seed)}, expected a whole number from 0 and below 2^63")
    draws = _Draws(f"{layout.name}/{number}")
    for _ in range(ATTEMPTS):
        maze = _draw(layout, draws)
        if maze is not None:
            return maze
    raise ValueError(
        f"preset: {ATTEMPTS} draws from {layout} gave no maze that keeps the rules; use fewer walls or less slack"
    )


def _check_layout(preset):
    if isinstance(preset, Layout):
        return preset
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(f"preset: got {shown(preset)}, expected a Layout or one of {', '.join(PRESETS)}")
    return PRESETS[preset]


class _Draws:
    """Whole numbers from a key: SplitMix64 (Steele, Lea and Flood 2014), seeded by a hash of the key.

    Written out here because NumPy and Python promise the same stream for ever only for their raw bits.
    """

    def __init__(self, key):
        self.state = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")

    def below(self, n):
        """A number from 0 to n - 1, evenly (up to a bias of n / 2^64)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return ((z ^ (z >> 31)) * n) >> 64

    def between(self, span):
        return span[0] + self.below(span[1] - span[0] + 1)

    def sample(self, items, n):
        """n different ones of the items, in random order."""
        items = list(items)
        for i in range(n):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]
        return items[:n]


def _draw(layout, draws):
    """One attempt: a maze, or None if the draw breaks a rule. Boards (see _grid) hold sets of squares."""
    n, stride = layout.size, layout.size + 1
    grid = ((1 << n) - 1) * sum(1 << (r * stride) for r in range(n))  # every square
    diagonals = [(0, 0), (n - 1, n - 1)], [(0, n - 1), (n - 1, 0)]
    first = draws.below(2)
    ends = (draws.sample(diagonals[i], 2) for i in (first, 1 - first))
    start, exit_, gold_corner, diamond_corner = (_grid.bit(corner, stride) for pair in ends for corner in pair)
    centre = _grid.bit((n // 2, n // 2), stride) if layout.bonus else 0

    free = _floor(layout, grid, start | exit_ | gold_corner | diamond_corner | centre, draws)
    budget = free and _budget(layout, start, exit_, gold_corner, diamond_corner, free)
    if not budget:
        return None
    room = free & ~(start | exit_ | centre)
    gold = _treasure(layout, layout.gold, gold_corner, grid, room, draws)
    diamonds = _treasure(layout, layout.diamonds, diamond_corner, grid, room & ~(gold or 0), draws)
    if gold is None or diamonds is None:
        return None
    lava = _lava(layout, start, exit_, gold | diamonds, free, room, draws)
    if lava is None:
        return None
    safe = _grid.distance(start, exit_, free & ~lava, stride)
    if safe is None or safe > budget:
        return None

    symbols = [["#"] * n for _ in range(n)]
    layers = {".": free, "S": start, "E": exit_, "G": gold, "D": diamonds, "L": lava, "B": centre}
    for symbol, squares in layers.items():
        for row, column in _grid.positions(squares, stride):
            symbols[row][column] = symbol
    maze = Maze.from_text("\n".join(" ".join(row) for row in symbols), budget)
    return maze if len(front_rewards(maze)) > 1 else None  # one route best at everything: no conflict


def _floor(layout, grid, kept_free, draws):
    """The squares that are not walls, or None if there is no room for the walls."""
    stride = layout.size + 1
    if layout.openings is None:
        squares = _single_bits(grid & ~kept_free)
        count = draws.between(layout.walls)
        return grid & ~_union(draws.sample(squares, count)) if count <= len(squares) else None
    free = _prim(grid, stride, draws)
    squares = [square for square in _single_bits(grid & ~free) if _degree(square, free, stride) >= 2]
    count = draws.between(layout.openings)
    return free | _union(draws.sample(squares, min(count, len(squares)))) | kept_free


def _budget(layout, start, exit_, gold_corner, diamond_corner, free):
    """The budget, or None if a square cannot be reached, if a corner does not fit, or if both fit."""
    from_gold = list(_grid.wavefronts(gold_corner, free, layout.size + 1))
    if sum(from_gold) != free:
        return None
    from_diamond = list(_grid.wavefronts(diamond_corner, free, layout.size + 1))
    gold_start, gold_exit, between = (_steps(from_gold, corner) for corner in (start, exit_, diamond_corner))
    diamond_start, diamond_exit = (_steps(from_diamond, corner) for corner in (start, exit_))
    longer = max(gold_start + gold_exit, diamond_start + diamond_exit)
    both = between + min(gold_start + diamond_exit, diamond_start + gold_exit)
    budget = longer + layout.slack
    if layout.largest_budget is not None:
        budget = min(budget, layout.largest_budget)
    return budget if longer <= budget < both else None


def _lava(layout, start, exit_, treasure, free, room, draws):
    """Lava where the layout wants it, or None if there are too few places."""
    n, stride = layout.size, layout.size + 1
    if layout.tempting_lava:
        where = _on_shortest_way(start, exit_, free, stride) | _grid.neighbours(treasure, stride)
    else:
        where = _union(_grid.bit((r, c), stride) for r in range(2, n - 2) for c in range(2, n - 2))
    places = _single_bits(where & room & ~treasure)
    count = draws.between(layout.lava)
    if not layout.tempting_lava:
        count = min(count, len(places))  # as the paper's generator does
    return _union(draws.sample(places, count)) if count <= len(places) else None


def _treasure(layout, span, corner, grid, free, draws):
    """Items near a corner as a board, or None if there is no room."""
    stride = layout.size + 1
    zone = corner
    for _ in range(ZONE_RADIUS):
        zone |= _grid.neighbours(zone, stride) & grid
    zone &= free
    count = draws.between(span)
    chosen = corner if layout.treasure_on_corner else 0
    places = _single_bits(zone & ~chosen)
    wanted = count - bool(chosen)
    return chosen | _union(draws.sample(places, wanted)) if wanted <= len(places) else None


def _prim(grid, stride, draws):
    """Randomised Prim on single squares: a square is opened when exactly one open square touches it."""
    cells = _single_bits(grid)
    free = cells[draws.below(len(cells))]
    frontier = _single_bits(_grid.neighbours(free, stride) & grid)
    while frontier:
        i = draws.below(len(frontier))
        frontier[i], frontier[-1] = frontier[-1], frontier[i]
        cell = frontier.pop()
        if cell & free or _degree(cell, free, stride) != 1:
            continue
        free |= cell
        frontier += _single_bits(_grid.neighbours(cell, stride) & grid & ~free)
    return free


def _on_shortest_way(start, target, free, stride):
    """The squares of all shortest ways between two squares."""
    forth = list(_grid.wavefronts(start, free, stride))
    steps = _steps(forth, target)
    on_way = 0
    back = list(_grid.wavefronts(target, free, stride))[: steps + 1]
    for wave, other in zip(forth[: steps + 1], reversed(back), strict=True):
        on_way |= wave & other
    return on_way


def _degree(cell, free, stride):
    return (_grid.neighbours(cell, stride) & free).bit_count()


def _steps(waves, target):
    return next(steps for steps, wave in enumerate(waves) if wave & target)


def _single_bits(cells):
    bits = []
    while cells:
        lowest = cells & -cells
        bits.append(lowest)
        cells ^= lowest
    return bits


def _union(bits):
    cells = 0
    for one in bits:
        cells |= one
    return cells


class Description(dict):
    """The rules of the generated mazes, rule by rule: True, False, or None where the question does not arise."""

    def __init__(self, maze):
        rows, columns = maze.shape
        corners = [(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)]
        opposite = {maze.start, maze.exit} in ({corners[0], corners[3]}, {corners[1], corners[2]})
        treasure = self._treasure_corners(maze, [c for c in corners if c not in (maze.start, maze.exit)])
        from_start, to_exit = maze.distances(maze.start), maze.distances(maze.exit)
        countable = len(maze.gold) + len(maze.diamonds) + len(maze.lava) <= LARGEST_ITEMS
        front = front_rewards(maze) if countable else None

        stride = columns + 1
        ends = [_grid.bit(position, stride) for position in (maze.start, maze.exit)]
        safe = _grid.distance(*ends, _grid.board(maze.free - set(maze.lava), stride), stride)

        either = both = None
        if opposite and treasure:
            ways = [self._sum(from_start[corner], to_exit[corner]) for corner in treasure]
            either = max(ways) <= maze.budget
            between = maze.distances(treasure[0])[treasure[1]]
            orders = [self._sum(from_start[a], between, to_exit[b]) for a, b in (treasure, treasure[::-1])]
            both = min(orders) > maze.budget

        items = maze.gold + maze.diamonds
        shortest = from_start[maze.exit]
        tempting = all(
            self._sum(from_start[tile], to_exit[tile]) == shortest or any(_near(tile, item) == 1 for item in items)
            for tile in maze.lava
        )
        takes_all = best_at_all = None
        points = f"is not computed above {LARGEST_ITEMS} items"
        if countable:
            takes_all = (front[:, 1:3] == 1).all(axis=1).any()
            best_at_all = len(front) == 1
            points = f"has {len(front)} point{'s' * (len(front) != 1)}"
        rules = {
            "S and E lie on opposite corners": opposite,
            "gold lies near one of the other corners, diamonds near the other": treasure is not None if items else None,
            "a lava-free way to E fits the budget": safe is not None and safe <= maze.budget,
            "a way through either treasure corner fits the budget": either,
            "a way through both corners, in either order, does not fit": both,
            "every lava tile lies on a shortest way or beside treasure": tempting if maze.lava else None,
            "no route takes all gold and all diamonds": _not(takes_all) if maze.gold and maze.diamonds else None,
            f"no route is best at everything (the front {points})": _not(best_at_all),
        }
        super().__init__({rule: None if holds is None else bool(holds) for rule, holds in rules.items()})

    @staticmethod
    def _treasure_corners(maze, corners):
        """(gold corner, diamond corner), or None if the treasure lies otherwise."""
        for gold, diamonds in zip(corners, corners[::-1], strict=True):
            at_gold = [_near(gold, item) <= ZONE_RADIUS for item in maze.gold]
            at_diamonds = [_near(diamonds, item) <= ZONE_RADIUS for item in maze.diamonds]
            if gold != diamonds and at_gold and at_diamonds and all(at_gold + at_diamonds):
                return gold, diamonds
        return None

    @staticmethod
    def _sum(*steps):
        """The length of a way made of parts; infinite if a part does not exist (-1)."""
        return np.inf if min(steps) < 0 else sum(steps)

    def __str__(self):
        return "\n".join(f"{ {True: 'yes', False: 'no', None: '-'}[holds]:4} {rule}" for rule, holds in self.items())


def _not(truth):
    return None if truth is None else not truth


def _near(a, b):
    """Manhattan distance, walls or not."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


# Mazes small enough to know the answer without a search: if a method fails here, look no further.
PROBES = {
    "one_step": Maze.from_text("S E", budget=3),
    "gold_only": Maze.from_text("S . .\n. # .\nG . E", budget=4),
    "lava_short_cut": Maze.from_text("S L E\n. # .\n. . .", budget=6),
    "gold_or_diamond": Maze.from_text("S . G\n. # .\nD . E", budget=4),
}
