"""The rules in numbers: what a route visits, and what many routes on many mazes earn."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ._grid import MOVES, moved, shown

if TYPE_CHECKING:
    from .maze import Maze

OBJECTIVES = ("completion", "gold", "diamond", "avoid_lava")
REWARD_MODES = ("linear", "convex_bonus")

_KINDS = 4  # gold, diamonds, lava, bonus
_NUMBER = np.zeros(256, dtype=np.intp)  # letter -> 1, 2, 3, 4; 0 is no move: the walker stays
_NUMBER[[ord(move) for move in MOVES]] = range(1, 5)
_CHUNK = 1 << 17  # moves, or entries of the matrix of items taken, held in memory at once


def check_reward_mode(reward_mode):
    if not isinstance(reward_mode, str) or reward_mode not in REWARD_MODES:
        modes = ", ".join(map(repr, REWARD_MODES))
        raise ValueError(f"reward_mode: got {shown(reward_mode)}, expected one of {modes}")


def reward_vectors(collected, totals, reward_mode="linear"):
    """Returns the reward vectors (..., 4) of routes that reach E, from the items that they took.

    The mode ``linear`` pays completion 1, the fraction of the gold taken, the fraction of the
    diamonds taken, and 1 - the fraction of the lava touched. Without gold (or diamonds) on the grid
    that component is 0; without lava the last is 1. The mode ``convex_bonus`` turns each x of the
    last three into min(1, b x^2), where b is 1.5 if a bonus square was visited, otherwise 1.

    Args:
        collected: (..., 4) distinct gold, diamond, lava and bonus squares visited before E.
        totals: (..., 4) how many of each the maze has.
        reward_mode: ``linear`` or ``convex_bonus``.

    Source: the released code of the paper (arXiv 2605.22817), which disagrees with itself: its
    documents describe ``linear``, its maze generator uses ``convex_bonus``.

    >>> reward_vectors([1, 0, 1, 1], [2, 3, 4, 1]).tolist()
    [1.0, 0.5, 0.0, 0.75]
    >>> reward_vectors([1, 0, 1, 1], [2, 3, 4, 1], "convex_bonus").tolist()
    [1.0, 0.375, 0.0, 0.84375]
    """
    check_reward_mode(reward_mode)
    collected, totals = np.asarray(collected), np.asarray(totals)
    rewards = np.ones((*np.broadcast_shapes(collected.shape, totals.shape)[:-1], 4))
    for i in range(3):
        there_are = np.maximum(totals[..., i], 1)
        good = collected[..., i] if i < 2 else there_are - collected[..., i]
        rewards[..., 1 + i] = good / there_are
    if reward_mode == "convex_bonus":
        factor = np.where(collected[..., 3:] > 0, 1.5, 1.0)
        rewards[..., 1:] = np.minimum(factor * rewards[..., 1:] ** 2, 1.0)
    return rewards


def score_routes(
    mazes: Maze | Sequence[Maze], routes: Sequence[str], reward_mode: str = "linear"
) -> np.ndarray:
    """Returns the reward vectors of N routes, equal to walking each through the environment.

    Args:
        mazes: one Maze, or N of them (one for each route).
        routes: N strings of the moves U, D, L, R.
        reward_mode: ``linear`` or ``convex_bonus``; see :func:`reward_vectors`.

    Returns:
        (N, 4) float64 in [0, 1], columns as in :data:`OBJECTIVES`. A route that does not reach E
        within the budget earns the zero vector.

    Raises:
        ValueError: a route with another letter (the message names both), an unknown reward mode, or
            a number of mazes that is neither 1 nor N.

    >>> from envs import Maze
    >>> maze = Maze.from_text("S . G\\n. # .\\nD L E")
    >>> score_routes(maze, ["RRDD", "DDRR", "RR", ""]).tolist()
    [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    check_reward_mode(reward_mode)
    routes = check_routes(routes)
    rewards = np.zeros((len(routes), len(OBJECTIVES)))
    mazes = _check_mazes(mazes, len(routes))
    if not routes:
        return rewards
    numbers = {}
    maze_of = [numbers.setdefault(maze, len(numbers)) for maze in mazes]
    maze_of = np.broadcast_to(maze_of, len(routes))
    tables = _Tables(list(numbers))
    steps = max(1, min(int(tables.budget.max()), max(map(len, routes))))
    rows = max(1, _CHUNK // max(steps, _KINDS * tables.most + 1))
    for low in range(0, len(routes), rows):
        chunk = slice(low, low + rows)
        rewards[chunk] = _score(tables, maze_of[chunk], routes[chunk], steps, reward_mode)
    return rewards


def _score(tables, maze_of, routes, steps, reward_mode):
    """The reward vectors (n, 4) of n routes, where route i lies in maze ``maze_of[i]``."""
    n = len(routes)
    letters = np.array(routes, dtype=f"S{steps}").view(np.uint8).reshape(n, steps)
    letters = np.where(np.arange(steps) < tables.budget[maze_of, None], letters, 0)
    moves = _NUMBER[letters.T]

    here = tables.start[maze_of]
    item_row, route = tables.item * n, np.arange(n)
    taken = np.zeros((_KINDS * tables.most + 1) * n, dtype=bool)  # the last row: no item
    for move in moves:
        here = tables.after[here + move]
        taken[item_row[here] + route] = True
    collected = taken[:-n].reshape(_KINDS, tables.most, n).sum(axis=1).T
    reached = here == tables.exit[maze_of]
    return reward_vectors(collected, tables.totals[maze_of], reward_mode) * reached[:, None]


class _Tables:
    """The tables of several mazes, one behind the other, so that one walk goes through all of them.

    Squares are numbered 0, 5, 10, ..., so that ``after[square + move]`` is where a move leads.

    Attributes:
        after: the next square; move 0, and every move on E, stays.
        item: ``item[square]`` is kind * most + the item's place in its kind; 4 * most for none.
        most: the largest number of items of one kind.
        totals: (mazes, 4) numbers of gold, diamonds, lava and bonus squares.
        start, exit: (mazes,) squares.
        budget: (mazes,) moves.
    """

    def __init__(self, mazes):
        tables = [_table(maze) for maze in mazes]
        first = np.cumsum([0, *(len(table.after) for table in tables)])[:-1]
        self.totals = np.array([table.totals for table in tables])
        self.most = int(self.totals.max())
        self.after = np.concatenate([t.after + low for t, low in zip(tables, first, strict=True)])
        self.item = np.concatenate([table.kind * self.most + table.place for table in tables])
        self.start = np.array([table.start for table in tables]) + first
        self.exit = np.array([table.exit for table in tables]) + first
        self.budget = np.array([maze.budget for maze in mazes])


class _Table(NamedTuple):
    """What scoring needs of one maze."""

    after: np.ndarray
    kind: np.ndarray  # of the item on a square, 0-3: gold, diamonds, lava, bonus; 4 for none
    place: np.ndarray  # of the item among those of its kind
    totals: list[int]
    start: int
    exit: int


@functools.lru_cache(maxsize=512)
def _table(maze):
    stride = 1 + len(MOVES)
    squares = stride * np.arange(maze.shape[0] * maze.shape[1]).reshape(maze.shape)
    after = np.repeat(squares, stride)
    for square in maze.free - {maze.exit}:  # E ends the walk
        for i, move in enumerate(MOVES, start=1):
            after[squares[square] + i] = squares[moved(square, move, maze.free)]
    kind, place = np.full_like(after, _KINDS), np.zeros_like(after)
    groups = (maze.gold, maze.diamonds, maze.lava, maze.bonus)
    for k, group in enumerate(groups):
        for i, square in enumerate(group):
            kind[squares[square]], place[squares[square]] = k, i
    totals = [len(group) for group in groups]
    return _Table(after, kind, place, totals, squares[maze.start], squares[maze.exit])


def _check_mazes(mazes, n):
    """The mazes as a list: one, or one for each of the n routes."""
    # a maze is known by its method: the module of Maze imports this one
    if hasattr(mazes, "pareto_front"):
        return [mazes]
    try:
        mazes = list(mazes)
    except TypeError:
        raise ValueError(f"mazes: got {shown(mazes)}, expected a Maze, or a list of them") from None
    for i, maze in enumerate(mazes):
        if not hasattr(maze, "pareto_front"):
            raise ValueError(f"mazes: item {i} is a {type(maze).__name__}, expected a Maze")
    if len(mazes) != n:
        raise ValueError(
            f"mazes: got {len(mazes)} mazes for {n} routes; give one maze, or one for each route"
        )
    return mazes


def check_routes(routes):
    """The routes as a list of strings of U, D, L and R."""
    if isinstance(routes, str):
        raise ValueError("routes: got one string, expected a list of them; write [route] for one")
    try:
        routes = list(routes)
    except TypeError:
        raise ValueError(
            f"routes: got {type(routes).__name__}, expected a list of strings"
        ) from None
    try:
        if not "".join(routes).encode("ascii").translate(None, b"UDLR"):
            return routes
    except (TypeError, UnicodeEncodeError):
        pass  # the loop below finds the route to name
    for i, route in enumerate(routes):
        if not isinstance(route, str):
            raise ValueError(
                f"routes: route {i} is {shown(route)}, expected a string of the letters U, D, L, R"
            )
        if letter := _stranger(route):
            raise ValueError(
                f"routes: route {i} has the letter {letter!r}; the moves are U, D, L, R"
            )
    return routes


def _stranger(route):
    """The first letter that is no move; empty if every letter is one."""
    return route.lstrip("UDLR")[:1]


def _check_route(route):
    if not isinstance(route, str):
        raise ValueError(f"route: got {shown(route)}, expected a string of the letters U, D, L, R")
    if letter := _stranger(route):
        place = route.index(letter) + 1
        raise ValueError(f"route: letter {place} is {letter!r}; the moves are U, D, L, R")


class Walk(NamedTuple):
    """What a route visits: its squares as (row, column), S first, and whether it reaches E."""

    squares: list[tuple[int, int]]
    reached: bool


def walk(maze: Maze, route: str) -> Walk:
    """Walks a route through a maze, up to E and within the budget.

    Returns:
        Walk: the squares visited, S first, with bumps left out, and whether the last one is E.

    Raises:
        ValueError: a letter other than U, D, L, R.

    >>> from envs import Maze
    >>> walk(Maze.from_text("S . E"), "URRR")
    Walk(squares=[(0, 0), (0, 1), (0, 2)], reached=True)
    """
    squares = [maze.start]
    for square in _after_each_move(maze, route):
        if square != squares[-1]:
            squares.append(square)
    return Walk(squares, reached=squares[-1] == maze.exit)


def canonical_route(maze: Maze, route: str) -> str:
    """Returns the moves that count, bumps included: those up to E and within the budget.

    Raises:
        ValueError: a letter other than U, D, L, R.

    >>> from envs import Maze
    >>> canonical_route(Maze.from_text("S . E"), "RRLLL")
    'RR'
    """
    return route[: sum(1 for _ in _after_each_move(maze, route))]


def _after_each_move(maze, route):
    """Yields the square after each move that counts."""
    _check_route(route)
    here = maze.start
    for move in route[: maze.budget]:
        here = moved(here, move, maze.free)
        yield here
        if here == maze.exit:
            return
