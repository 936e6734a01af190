"""The seeded generator, and four probe mazes with known answers.

The module is not called `generate`: then ``import envs.generate as g`` would give the function.
"""

from __future__ import annotations

import functools
import hashlib
import operator

from . import _grid
from ._grid import shown
from .describe import ZONE_RADIUS
from .front import pareto_front
from .layouts import FROZEN, LARGEST_SEED, PRESETS, Layout
from .maze import Maze

ATTEMPTS = (
    5_000  # draws before a layout is declared impossible; the presets need 1 to 18 on average
)


def generate(preset: str | Layout, seed: int) -> Maze:
    """Returns the maze of a preset and a seed, the same on every platform and in every version.

    Args:
        preset: a name of :data:`envs.PRESETS`, or a :class:`envs.Layout`.
        seed: a whole number from 0 and below 2^63. By convention (:data:`envs.SEEDS`) 0-9,999 are
            held out, 10,000-999,999 are for RL training, and numbers from 1,000,000 are for
            pretraining.

    Raises:
        ValueError: an unknown preset, a seed out of range, or a layout that admits no maze.

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
    return _generate(layout, number)


@functools.lru_cache(maxsize=256)  # a run asks for its maze often
def _generate(layout, seed):
    draws = _Draws(f"{layout.name}/{seed}")
    for _ in range(ATTEMPTS):
        maze = _draw(layout, draws)
        if maze is not None:
            return maze
    raise ValueError(
        f"preset: {ATTEMPTS} draws from {layout} gave no maze that keeps the rules; "
        "use fewer walls, openings, treasure or lava, or less slack, or a larger largest_budget"
    )


def _check_layout(preset):
    if isinstance(preset, Layout):
        return preset
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(
            f"preset: got {shown(preset)}, expected a Layout or one of {', '.join(PRESETS)}"
        )
    return PRESETS[preset]


class _Draws:
    """Random whole numbers from a key: SplitMix64 (Steele, Lea and Flood 2014), seeded by a hash.

    NumPy and Python promise the same stream in every version only for their raw bits.
    """

    def __init__(self, key):
        digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
        self.state = int.from_bytes(digest, "little")

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
    """One attempt: a maze, or None if the draw breaks a rule. Sets of squares are masks (_grid)."""
    n, stride = layout.size, layout.size + 1
    grid = ((1 << n) - 1) * sum(1 << (row * stride) for row in range(n))  # every square
    diagonals = [(0, 0), (n - 1, n - 1)], [(0, n - 1), (n - 1, 0)]
    first = draws.below(2)
    ends = (draws.sample(diagonals[i], 2) for i in (first, 1 - first))
    corners = [_grid.bit(corner, stride) for pair in ends for corner in pair]
    start, exit_, gold_corner, diamond_corner = corners
    centre = _grid.bit((n // 2, n // 2), stride) if layout.bonus else 0

    free = _floor(layout, grid, _grid.union(corners) | centre, draws)
    # A walk ends on E, so it reaches nothing through E. The presets, which are frozen, ignore this.
    frozen = layout in FROZEN
    reached = free if frozen else free and _grid.reached(start, free & ~exit_, stride)
    budget = free and _budget(layout, start, exit_, gold_corner, diamond_corner, free, reached)
    if not budget:
        return None
    room = free & ~(start | exit_ | centre)
    gold = _treasure(layout, layout.gold, gold_corner, grid, room, draws)
    diamonds = _treasure(layout, layout.diamonds, diamond_corner, grid, room & ~(gold or 0), draws)
    if gold is None or diamonds is None or (gold | diamonds) & ~reached:
        return None
    lava = _lava(layout, start, exit_, gold | diamonds, free, room, draws)
    if lava is None:
        return None
    safe = _grid.distance(start, exit_, free & ~lava, stride)
    if safe is None or safe > budget:
        return None

    symbols = [["#"] * n for _ in range(n)]
    layers = {".": free, "S": start, "E": exit_, "G": gold, "D": diamonds, "L": lava, "B": centre}
    for symbol, mask in layers.items():
        for row, column in _grid.squares(mask, stride):
            symbols[row][column] = symbol
    maze = Maze.from_text("\n".join(" ".join(row) for row in symbols), budget)
    # a front of one point: one route is best at everything, nothing conflicts
    return maze if len(pareto_front(maze).rewards) > 1 else None


def _floor(layout, grid, kept_free, draws):
    """The squares that are not walls, or None if there is no room for the walls, or if too few can
    be opened.
    """
    stride = layout.size + 1
    if layout.openings is None:
        places = _grid.single_bits(grid & ~kept_free)
        count = draws.between(layout.walls)
        return grid & ~_grid.union(draws.sample(places, count)) if count <= len(places) else None
    free = _prim(grid, stride, draws)
    walls = _grid.single_bits(grid & ~free)
    places = [wall for wall in walls if _degree(wall, free, stride) >= 2]
    if len(places) < layout.openings[0]:
        return None
    count = draws.between(layout.openings)
    return free | _grid.union(draws.sample(places, min(count, len(places)))) | kept_free


def _budget(layout, start, exit_, gold_corner, diamond_corner, free, reached):
    """The budget; None if a square cannot be reached, a corner does not fit, or both fit.

    free: squares without walls; reached: those that a walk from S reaches before it ends on E.
    """
    stride = layout.size + 1
    from_exit = list(_grid.wavefronts(exit_, free, stride))
    if sum(from_exit) != free or not (gold_corner & reached and diamond_corner & reached):
        return None
    from_gold = list(_grid.wavefronts(gold_corner, reached, stride))
    from_diamond = list(_grid.wavefronts(diamond_corner, reached, stride))
    between = _steps(from_gold, diamond_corner)
    gold_start, gold_exit = _steps(from_gold, start), _steps(from_exit, gold_corner)
    diamond_start, diamond_exit = _steps(from_diamond, start), _steps(from_exit, diamond_corner)
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
        on_path = _on_shortest_path(start, exit_, free, stride)
        where = on_path | _grid.neighbours(treasure, stride)
    else:
        inside = range(2, n - 2)
        where = _grid.mask(((r, c) for r in inside for c in inside), stride)
    places = _grid.single_bits(where & room & ~treasure)
    if len(places) < layout.lava[0]:
        return None
    count = draws.between(layout.lava)
    if not layout.tempting_lava:
        count = min(count, len(places))  # as the paper's generator does
    return _grid.union(draws.sample(places, count)) if count <= len(places) else None


def _treasure(layout, span, corner, grid, free, draws):
    """The mask of the items near a corner, or None if there is no room."""
    stride = layout.size + 1
    zone = corner
    for _ in range(ZONE_RADIUS):
        zone |= _grid.neighbours(zone, stride) & grid
    zone &= free
    count = draws.between(span)
    chosen = corner if layout.treasure_on_corner else 0
    places = _grid.single_bits(zone & ~chosen)
    wanted = count - bool(chosen)
    if wanted > len(places):
        return None
    return chosen | _grid.union(draws.sample(places, wanted))


def _prim(grid, stride, draws):
    """Randomised Prim on single squares: a square opens when exactly one open square touches it."""
    squares = _grid.single_bits(grid)
    free = squares[draws.below(len(squares))]
    frontier = _grid.single_bits(_grid.neighbours(free, stride) & grid)
    while frontier:
        i = draws.below(len(frontier))
        frontier[i], frontier[-1] = frontier[-1], frontier[i]
        square = frontier.pop()
        if square & free or _degree(square, free, stride) != 1:
            continue
        free |= square
        frontier += _grid.single_bits(_grid.neighbours(square, stride) & grid & ~free)
    return free


def _on_shortest_path(start, target, free, stride):
    """The squares of all shortest paths between two squares."""
    forth = list(_grid.wavefronts(start, free, stride))
    steps = _steps(forth, target)
    back = list(_grid.wavefronts(target, free, stride))
    return _grid.union(forth[t] & back[steps - t] for t in range(steps + 1))


def _degree(square, free, stride):
    return (_grid.neighbours(square, stride) & free).bit_count()


def _steps(waves, target):
    return next(steps for steps, wave in enumerate(waves) if wave & target)


# Mazes small enough to know the answer without a search. A method that fails here is broken.
PROBES = {
    "one_step": Maze.from_text("S E", budget=3),
    "gold_only": Maze.from_text("S . .\n. # .\nG . E", budget=4),
    "lava_short_cut": Maze.from_text("S L E\n. # .\n. . .", budget=6),
    "gold_or_diamond": Maze.from_text("S . G\n. # .\nD . E", budget=4),
}
