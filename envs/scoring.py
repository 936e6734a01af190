"""The rules in numbers: what a route earns, for many routes on many mazes at once."""

import functools
import itertools

import numpy as np

from ._grid import MOVES, shown

OBJECTIVES = ("completion", "gold", "diamond", "avoid_lava")
REWARD_MODES = ("linear", "convex_bonus")

_MOVES = " UDLR"  # moves by number; a blank stays: what a finished route does while others still walk
_WIDTH = 32  # table entries a square: one for each pair of moves, 5 * first + second, and a few unused
_PAIRS = np.zeros(1 << 16, dtype=np.intp)  # two letters, read as one little-endian number -> the pair's number
for _first, _second in itertools.product(_MOVES, repeat=2):
    _PAIRS[ord(_first) + 256 * ord(_second)] = 5 * _MOVES.index(_first) + _MOVES.index(_second)
_LANE = 16  # items of one kind whose flags fit one lane of a word (four lanes of 16 bits: one for each kind)
_CHUNK = 1 << 17  # moves walked at once: bounds the memory, and the work arrays stay in the cache


def check_reward_mode(reward_mode):
    if not isinstance(reward_mode, str) or reward_mode not in REWARD_MODES:
        raise ValueError(f"reward_mode: got {shown(reward_mode)}, expected one of {', '.join(map(repr, REWARD_MODES))}")


def reward_vectors(collected, totals, reward_mode="linear"):
    """Reward vectors (..., 4) of routes that reach E, from what they stepped on.

    Args:
        collected: (..., 4) numbers of distinct gold, diamond, lava and bonus squares stepped on before E.
        totals: (..., 4) how many of each the maze has.
        reward_mode: ``linear``: completion 1, the shares of gold and of diamonds, and 1 - the share of lava.
            ``convex_bonus``: the last three squared, times 1.5 if a bonus square was visited, at most 1. Without gold
            (or diamonds) on the grid that component is 0, without lava the last is 1.

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
        rewards[..., 1 + i] = (collected[..., i] if i < 2 else there_are - collected[..., i]) / there_are
    if reward_mode == "convex_bonus":
        factor = np.where(collected[..., 3:] > 0, 1.5, 1.0)
        rewards[..., 1:] = np.minimum(factor * rewards[..., 1:] ** 2, 1.0)
    return rewards


def score_routes(mazes, routes, reward_mode="linear"):
    """Reward vectors of N routes at once, equal to walking each of them through the environment.

    Args:
        mazes: one Maze, or N of them (one for each route).
        routes: N strings of the moves U, D, L, R.
        reward_mode: ``linear`` or ``convex_bonus``; see :func:`reward_vectors`.

    Returns:
        (N, 4) float64 in [0, 1], columns as in :data:`OBJECTIVES`. A route that does not reach E within the budget
        earns the zero vector.

    Raises:
        ValueError: a route with another letter (its index and the letter), or as many mazes as neither 1 nor N.

    >>> from envs import Maze
    >>> maze = Maze.from_text("S . G\\n. # .\\nD L E")
    >>> score_routes(maze, ["RRDD", "DDRR", "RR", ""]).tolist()
    [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    check_reward_mode(reward_mode)
    routes = _check_routes(routes)
    mazes, which = _distinct_mazes(mazes, len(routes))
    rewards = np.zeros((len(routes), len(OBJECTIVES)))
    world = _World(mazes)
    budgets = np.array([maze.budget for maze in mazes], dtype=np.intp)
    steps = int(budgets.max(initial=0))
    if steps > 32:  # below, blanks cost less than looking for the longest route
        steps = min(steps, max(map(len, routes), default=0))
    rows = max(_CHUNK // max(steps, 1), 1)
    for low in range(0, len(routes), rows):
        chunk = slice(low, low + rows)
        maze_of = which[chunk] if len(mazes) > 1 else [0]  # one maze for all is broadcast
        reached, collected = world.walk(maze_of, _pairs_of_moves(routes[chunk], budgets[maze_of], steps))
        rewards[chunk] = reward_vectors(collected, world.totals[maze_of], reward_mode) * reached[:, None]
    return rewards


class _World:
    """The tables of several mazes, one behind the other, so that one walk goes through all of them."""

    def __init__(self, mazes):
        tables = [_tables(maze) for maze in mazes]
        sizes = [table.after.size for table in tables]
        first = np.cumsum([0, *sizes], dtype=np.intp)[:-1]
        words = max((len(table.flags) for table in tables), default=1)
        self.after = np.zeros(sum(sizes), dtype=np.intp)
        self.flags = np.zeros((words, sum(sizes)), dtype=np.int64)
        for table, low, size in zip(tables, first, sizes, strict=True):
            self.after[low : low + size] = table.after + low
            self.flags[: len(table.flags), low : low + size] = table.flags
        self.start = np.array([table.start for table in tables], dtype=np.intp) + first
        self.exit = np.array([table.exit for table in tables], dtype=np.intp) + first
        self.totals = np.array([table.totals for table in tables])

    def walk(self, maze_of, pairs):
        """Walks n routes, given as (steps, n) pairs of moves: whether each ends on E (n,), and its counts (n, 4)."""
        here = np.broadcast_to(self.start[maze_of], pairs.shape[1:])
        touched = np.zeros((len(self.flags), len(here)), dtype=np.int64)
        for pair in pairs:
            entry = here + pair
            here = self.after.take(entry, mode="clip")
            for word, flags in zip(touched, self.flags, strict=True):
                word |= flags.take(entry, mode="clip")
        lanes = touched.view(np.uint16).reshape(len(touched), -1, 4)
        return here == self.exit[maze_of], _count_bits(lanes).sum(axis=0, dtype=np.intp)


def _count_bits(numbers):
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return np.bitwise_count(numbers)
    parts = np.ascontiguousarray(numbers)[..., None].view(np.uint8)
    return np.unpackbits(parts, axis=-1).sum(axis=-1)


class _Tables:
    """What the walk needs of one maze: where each pair of moves leads, and what is touched on the way.

    A square is numbered row * columns + column, times _WIDTH, so that adding a pair of moves gives a table entry.

    Attributes:
        step: (squares, 5) the square, unscaled, that each single move leads to; blanks, and all moves on E, stay.
        after: (squares * _WIDTH,) the square that each pair leads to.
        flags: (words, squares * _WIDTH) the flags of the items that the pair touches; each kind has its own 16 bits.
        totals: how many gold, diamond, lava and bonus squares there are.
        start, exit: squares.
    """

    def __init__(self, maze):
        number = np.arange(maze.shape[0] * maze.shape[1]).reshape(maze.shape)
        self.step = np.repeat(number.ravel()[:, None], len(_MOVES), axis=1)
        for row, column in maze.free - {maze.exit}:  # E ends the walk
            for move, (dr, dc) in MOVES.items():
                if (row + dr, column + dc) in maze.free:
                    self.step[number[row, column], _MOVES.index(move)] = number[row + dr, column + dc]
        groups = (maze.gold, maze.diamonds, maze.lava, maze.bonus)
        self.totals = [len(group) for group in groups]
        words = max(-(-max(self.totals) // _LANE), 1)
        lanes = np.zeros((words, number.size, 4), dtype=np.uint16)
        for kind, group in enumerate(groups):
            for i, square in enumerate(group):
                lanes[i // _LANE, number[square], kind] = 1 << i % _LANE
        flag = lanes.view(np.int64)[..., 0]  # (words, squares)

        twice = self.step[self.step]  # (squares, 5, 5)
        touched = flag[:, self.step][..., None] | flag[:, twice]
        self.after = _padded(twice * _WIDTH)
        self.flags = np.array([_padded(word) for word in touched])
        self.start, self.exit = number[maze.start] * _WIDTH, number[maze.exit] * _WIDTH


def _padded(table):
    """(squares, 5, 5) as (squares * _WIDTH,)."""
    entries = np.zeros((len(table), _WIDTH), dtype=table.dtype)
    entries[:, :25] = table.reshape(-1, 25)
    return entries.ravel()


@functools.lru_cache(maxsize=512)
def _tables(maze):
    return _Tables(maze)


def _distinct_mazes(mazes, n):
    """The distinct mazes, and for each of the n routes the number of its maze."""
    if hasattr(mazes, "pareto_front"):
        return [mazes], np.zeros(n, dtype=np.intp)
    try:
        mazes = list(mazes)
    except TypeError:
        raise ValueError(f"mazes: got {shown(mazes)}, expected a Maze, or a list of them") from None
    for i, maze in enumerate(mazes):
        if not hasattr(maze, "pareto_front"):
            raise ValueError(f"mazes: item {i} is a {type(maze).__name__}, expected a Maze")
    if len(mazes) != n:
        raise ValueError(f"mazes: got {len(mazes)} mazes for {n} routes; give one maze, or one for each route")
    numbers = {}
    which = np.array([numbers.setdefault(maze, len(numbers)) for maze in mazes], dtype=np.intp)
    return list(numbers), which


def _check_routes(routes):
    """The routes as a list of strings of U, D, L and R."""
    if isinstance(routes, str):
        raise ValueError("routes: got one string, expected a list of them; write score_routes(maze, [route])")
    try:
        routes = list(routes)
    except TypeError:
        raise ValueError(f"routes: got {type(routes).__name__}, expected a list of strings") from None
    try:
        strange = "".join(routes).encode("ascii").translate(None, b"UDLR")
    except (TypeError, UnicodeEncodeError):
        strange = True
    if strange:  # find out which one it is only when there is one
        for i, route in enumerate(routes):
            if not isinstance(route, str):
                raise ValueError(f"routes: route {i} is {shown(route)}, expected a string of the letters U, D, L, R")
            for letter in route:
                if letter not in "UDLR":
                    raise ValueError(f"routes: route {i} has the letter {letter!r}; the moves are U, D, L, R")
    return routes


def _pairs_of_moves(routes, budgets, steps):
    """Moves two by two, (pairs, routes); blanks after a route's end and beyond its budget."""
    width = steps + steps % 2
    padded = (f"%-{width}.{steps}s" * len(routes) % tuple(routes)).encode("ascii")
    letters = np.frombuffer(padded, dtype=np.uint8).reshape(len(routes), width)
    if budgets.min() < steps:
        letters = np.where(np.arange(width) < budgets[:, None], letters, np.uint8(ord(" ")))
    return _PAIRS[np.ascontiguousarray(letters.view("<u2").T)]


def canonical_route(maze, route):
    """The moves that count: cut after E is reached, and at the budget. Routes with the same effect compare equal.

    >>> from envs import Maze
    >>> canonical_route(Maze.from_text("S . E"), "RRLLL")
    'RR'
    """
    check_route(route)
    table = _tables(maze)
    position, moves = table.start // _WIDTH, route[: maze.budget]
    for step, move in enumerate(moves, start=1):
        position = table.step[position, _MOVES.index(move)]
        if position * _WIDTH == table.exit:
            return moves[:step]
    return moves


def check_route(route):
    if not isinstance(route, str):
        raise ValueError(f"route: got {shown(route)}, expected a string of the letters U, D, L, R")
    for step, move in enumerate(route, start=1):
        if move not in "UDLR":
            raise ValueError(f"route: letter {move!r} at step {step}; the moves are U, D, L, R")
