"""Which rules of the generated mazes a maze keeps; a hand-drawn one need not keep any."""

from __future__ import annotations

import itertools
import math

from . import _grid
from .front import LARGEST_ITEMS, pareto_front

ZONE_RADIUS = 2  # treasure lies this near to its corner, in Manhattan distance


class Description(dict):
    """Rule -> True, False, or None where it does not apply; see :meth:`envs.Maze.describe`."""

    def __init__(self, maze):
        super().__init__(_rules(maze))

    def __str__(self):
        words = {True: "yes", False: "no", None: "-"}
        return "\n".join(f"{words[holds]:4} {rule}" for rule, holds in self.items())


def _rules(maze):
    rows, columns = maze.shape
    corners = [(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)]
    opposite = {maze.start, maze.exit} in ({corners[0], corners[3]}, {corners[1], corners[2]})
    treasure = _treasure_corners(maze, [c for c in corners if c not in (maze.start, maze.exit)])
    either = both = None
    if opposite and treasure:
        either = max(_steps(maze, corner) for corner in treasure) <= maze.budget
        orders = (treasure, reversed(treasure))
        both = min(_steps(maze, *order) for order in orders) > maze.budget

    none_takes_all = none_is_best = None
    points = f"is not computed above {LARGEST_ITEMS} items"
    if len(maze.gold) + len(maze.diamonds) + len(maze.lava) <= LARGEST_ITEMS:
        front = pareto_front(maze).rewards
        none_takes_all = not (front[:, 1:3] == 1).all(axis=1).any()
        none_is_best = len(front) > 1
        points = f"has {len(front)} point{'s' * (len(front) != 1)}"

    items = maze.gold + maze.diamonds
    return {
        "S and E lie on opposite corners": opposite,
        "gold lies near one of the other corners, diamonds near the other": (
            treasure is not None if items else None
        ),
        "a lava-free path to E fits the budget": _safe_steps(maze) <= maze.budget,
        "a path through either treasure corner fits the budget": either,
        "a path through both corners, in either order, does not fit": both,
        "every lava tile lies on a shortest path or beside treasure": (
            _lava_tempts(maze) if maze.lava else None
        ),
        "no route takes all gold and all diamonds": (
            none_takes_all if maze.gold and maze.diamonds else None
        ),
        f"no route is best at everything (the front {points})": none_is_best,
    }


def _treasure_corners(maze, corners):
    """The corners of gold and of diamonds, in this order; None if the treasure lies otherwise."""
    if not maze.gold or not maze.diamonds:
        return None
    for gold, diamonds in itertools.permutations(corners, 2):
        if (
            gold != diamonds
            and all(_apart(gold, item) <= ZONE_RADIUS for item in maze.gold)
            and all(_apart(diamonds, item) <= ZONE_RADIUS for item in maze.diamonds)
        ):
            return gold, diamonds
    return None


def _steps(maze, *stops):
    """Steps of a shortest path from S to E through these squares in this order, or infinity. It
    ends on E, so it passes E nowhere before.
    """
    before = itertools.pairwise((maze.start, *stops))
    steps = [_path(*leg, maze.free - {maze.exit}, maze) for leg in before]
    return sum(steps) + _path(stops[-1], maze.exit, maze.free, maze)


def _safe_steps(maze):
    """Steps of a shortest path from S to E that avoids the lava, or infinity."""
    return _path(maze.start, maze.exit, maze.free - set(maze.lava), maze)


def _path(square, target, free, maze):
    """Steps of a shortest path over the free squares, or infinity."""
    stride = maze.shape[1] + 1
    ends = (_grid.bit(end, stride) for end in (square, target))
    steps = _grid.distance(*ends, _grid.mask(free, stride), stride)
    return math.inf if steps is None else steps


def _lava_tempts(maze):
    from_start, to_exit = maze.distances(maze.start), maze.distances(maze.exit)
    on_path = from_start + to_exit == from_start[maze.exit]  # -2 where there is no path
    treasure = maze.gold + maze.diamonds
    return all(
        bool(on_path[square]) or any(_apart(square, item) == 1 for item in treasure)
        for square in maze.lava
    )


def _apart(a, b):
    """Manhattan distance, walls or not."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
