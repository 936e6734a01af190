"""The rules in numbers: what a route earns, for many routes on many mazes at once."""

import functools

import numpy as np

OBJECTIVES = ("completion", "gold", "diamond", "avoid_lava")
REWARD_MODES = ("linear", "convex_bonus")

_MOVE_CODE = np.full(256, -1, dtype=np.int8)
_MOVE_CODE[list(b"UDLR")] = range(4)
_STAY = 4  # what a finished route does while others still walk
_CHUNK = 8192  # routes walked at once: bounds the memory, and the work arrays stay in the cache


def check_reward_mode(reward_mode):
    if reward_mode not in REWARD_MODES:
        raise ValueError(f"reward_mode: got {reward_mode!r}, expected one of {', '.join(map(repr, REWARD_MODES))}")


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
    collected, totals = np.broadcast_arrays(np.asarray(collected, float), np.asarray(totals, float))
    rewards = np.ones(collected.shape)
    at_least_one = np.maximum(totals[..., :3], 1)
    rewards[..., 1:3] = collected[..., :2] / at_least_one[..., :2]
    rewards[..., 3] = (at_least_one[..., 2] - collected[..., 2]) / at_least_one[..., 2]
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
    if isinstance(routes, str):
        raise ValueError("routes: got one string, expected a list of them; write score_routes(maze, [route])")
    routes = list(routes)
    mazes, which = _distinct_mazes(mazes, len(routes))
    rewards = np.zeros((len(routes), 4))
    if not routes:
        return rewards
    boards = [_tables(maze) for maze in mazes]
    cells = max(len(board.content) for board in boards)
    offsets = cells * np.arange(len(boards))
    after = np.zeros((len(boards) * cells, 5), dtype=np.intp)
    content = np.zeros((len(boards), cells), dtype=np.int64)
    for i, board in enumerate(boards):
        after[i * cells : i * cells + len(board.content)] = board.after + i * cells
        content[i, : len(board.content)] = board.content
    start = np.array([board.start for board in boards]) + offsets
    exit_ = np.array([board.exit for board in boards]) + offsets
    budgets = np.array([maze.budget for maze in mazes])
    totals = np.array([board.totals for board in boards])

    for low in range(0, len(routes), _CHUNK):
        chunk = slice(low, low + _CHUNK)
        maze_of = which[chunk]
        moves = _move_matrix(routes[chunk], budgets[maze_of], low)  # (steps, routes)
        position = start[maze_of]
        path = np.empty(moves.shape, dtype=np.intp)
        flat = after.ravel()
        for step, move in enumerate(moves):
            position = flat[position * 5 + move]
            path[step] = position
        reached = position == exit_[maze_of]
        visited = np.zeros((len(maze_of), cells), dtype=bool)
        visited[np.arange(len(maze_of)), path - offsets[maze_of]] = True
        # each square's content is a packed count, so one sum counts all four kinds
        counts = (visited * content[maze_of]).sum(axis=1)
        collected = (counts[:, None] >> _SHIFTS) & 0xFFFF
        rewards[chunk][reached] = reward_vectors(collected, totals[maze_of], reward_mode)[reached]
    return rewards


_SHIFTS = np.array([0, 16, 32, 48])


class _Tables:
    """What the walk needs of one maze: where each move leads, and what lies there."""

    def __init__(self, maze):
        height, width = maze.shape
        walls = set(maze.walls)
        after = np.empty((height * width, 5), dtype=np.intp)
        for row in range(height):
            for column in range(width):
                here = row * width + column
                after[here] = here
                if (row, column) == maze.exit:
                    continue  # E ends the walk
                for move, (dr, dc) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
                    r, c = row + dr, column + dc
                    if 0 <= r < height and 0 <= c < width and (r, c) not in walls:
                        after[here, move] = r * width + c
        kinds = (maze.gold, maze.diamonds, maze.lava, maze.bonus)
        self.after = after
        self.content = np.zeros(height * width, dtype=np.int64)
        for shift, squares in zip(_SHIFTS.tolist(), kinds, strict=True):
            for row, column in squares:
                self.content[row * width + column] = 1 << shift
        self.totals = [len(squares) for squares in kinds]
        self.start = maze.start[0] * width + maze.start[1]
        self.exit = maze.exit[0] * width + maze.exit[1]


@functools.lru_cache(maxsize=4096)
def _tables(maze):
    return _Tables(maze)


def _distinct_mazes(mazes, n):
    """The distinct mazes, and for each of the n routes the number of its maze."""
    if hasattr(mazes, "pareto_front"):
        return [mazes], np.zeros(n, dtype=np.intp)
    mazes = list(mazes)
    if len(mazes) != n:
        raise ValueError(f"mazes: got {len(mazes)} mazes for {n} routes; give one maze, or one for each route")
    numbers = {}
    which = np.array([numbers.setdefault(maze, len(numbers)) for maze in mazes], dtype=np.intp)
    return list(numbers), which


def _move_matrix(routes, budgets, first):
    """Moves as codes, (steps, routes); _STAY after a route's end and beyond its budget."""
    for i, route in enumerate(routes, start=first):
        if not isinstance(route, str):
            raise ValueError(f"routes: route {i} is {route!r}, expected a string of the letters U, D, L, R")
    lengths = np.fromiter(map(len, routes), dtype=np.intp, count=len(routes))
    codes = _MOVE_CODE[np.frombuffer("".join(routes).encode("latin-1", "replace"), dtype=np.uint8)]
    if codes.size and codes.min() < 0:
        i = int(np.searchsorted(np.cumsum(lengths), int(np.argmin(codes)), side="right"))
        letter = next(letter for letter in routes[i] if letter not in "UDLR")
        raise ValueError(f"routes: route {first + i} has the letter {letter!r}; the moves are U, D, L, R")
    kept = np.minimum(lengths, budgets)
    moves = np.full((len(routes), max(int(kept.max()), 1)), _STAY, dtype=np.intp)
    step = np.arange(codes.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    route = np.repeat(np.arange(len(routes)), lengths)
    used = step < kept[route]
    moves[route[used], step[used]] = codes[used]
    return np.ascontiguousarray(moves.T)


def canonical_route(maze, route):
    """The moves that count: cut after E is reached, and at the budget. Routes with the same effect compare equal.

    >>> from envs import Maze
    >>> canonical_route(Maze.from_text("S . E"), "RRLLL")
    'RR'
    """
    check_route(route)
    board = _tables(maze)
    position, moves = board.start, route[: maze.budget]
    for step, move in enumerate(moves, start=1):
        position = board.after[position, "UDLR".index(move)]
        if position == board.exit:
            return moves[:step]
    return moves


def check_route(route):
    if not isinstance(route, str):
        raise ValueError(f"route: got {route!r}, expected a string of the letters U, D, L, R")
    for step, move in enumerate(route, start=1):
        if move not in "UDLR":
            raise ValueError(f"route: letter {move!r} at step {step}; the moves are U, D, L, R")
