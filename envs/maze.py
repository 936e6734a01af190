"""The maze: a frozen record, and the gymnasium environment that walks on it."""

from __future__ import annotations

import functools
import numbers
import operator
from dataclasses import dataclass, field

import gymnasium
import numpy as np
from gymnasium import spaces

from . import _grid, drawing
from ._grid import shown
from .front import front_rewards, pareto_front
from .scoring import OBJECTIVES, check_reward_mode, reward_vectors

SYMBOLS = ".SEGDLB#"
LARGEST_SIDE = 26  # square names need a letter for each column
LARGEST_BUDGET = 10_000  # far beyond any useful walk; keeps every episode finite in practice


@dataclass(frozen=True)
class Maze:
    """A maze with gold, diamonds and lava: a grid and a step budget, and nothing that changes.

    Make one with :func:`envs.generate` or :meth:`Maze.from_text`. Two mazes are equal when their text and budget are;
    a maze can be a dictionary key, and it pickles as its text.

    Attributes:
        text: rows of symbols with blanks between, one row a line: ``. S E G D L B #``
            (floor, start, exit, gold, diamond, lava, bonus, wall).
        budget: steps that a route may take.
        shape: (rows, columns).
        start, exit: (row, column), row 0 at the top.
        gold, diamonds, lava, bonus, walls: tuples of (row, column) in reading order.

    >>> maze = Maze.from_text("S . G\\n. # .\\nD L E")
    >>> maze.size, maze.start, maze.exit, maze.gold, maze.budget
    (3, (0, 0), (2, 2), ((0, 2),), 10)
    """

    text: str
    budget: int
    shape: tuple[int, int] = field(compare=False, repr=False)
    start: tuple[int, int] = field(compare=False, repr=False)
    exit: tuple[int, int] = field(compare=False, repr=False)
    gold: tuple[tuple[int, int], ...] = field(compare=False, repr=False)
    diamonds: tuple[tuple[int, int], ...] = field(compare=False, repr=False)
    lava: tuple[tuple[int, int], ...] = field(compare=False, repr=False)
    bonus: tuple[tuple[int, int], ...] = field(compare=False, repr=False)
    walls: tuple[tuple[int, int], ...] = field(compare=False, repr=False)

    @classmethod
    def from_text(cls, text, budget=None):
        """A maze from rows of the symbols ``. S E G D L B #``; blanks between symbols and empty lines do not matter.

        Args:
            text: the grid, one row a line.
            budget: steps that a route may take; None means the shortest way to E plus 2n, n the larger side.

        Raises:
            ValueError: unknown symbol, ragged rows, no or several S or E, no way to E, a budget below the shortest
                way: one line with the row and column (counted from 1) and the cause.

        >>> Maze.from_text("SE").budget
        5
        >>> Maze.from_text("S.\\n.")
        Traceback (most recent call last):
        ...
        ValueError: text: row 2 has 1 symbol, but row 1 has 2; every row needs the same number
        """
        rows = _parse_rows(text)
        height, width = len(rows), len(rows[0])
        found = {symbol: [] for symbol in SYMBOLS}
        for r, row in enumerate(rows):
            for c, symbol in enumerate(row):
                found[symbol].append((r, c))
        for symbol, name in (("S", "start"), ("E", "exit")):
            if len(found[symbol]) != 1:
                places = " and ".join(f"row {r + 1}, column {c + 1}" for r, c in found[symbol][:3])
                raise ValueError(
                    f"text: a maze needs exactly one {symbol} ({name}), this one has {len(found[symbol])}"
                    + (f" ({places})" if places else f"; put {symbol} on a free square")
                )
        stride = width + 1
        (start,), (exit_,) = found["S"], found["E"]
        free = _grid.board(((r, c) for r in range(height) for c in range(width)), stride)
        free &= ~_grid.board(found["#"], stride)
        shortest = _grid.distance(_grid.bit(start, stride), _grid.bit(exit_, stride), free, stride)
        if shortest is None:
            raise ValueError(
                f"text: no way from S (row {start[0] + 1}, column {start[1] + 1}) to E (row {exit_[0] + 1}, "
                f"column {exit_[1] + 1}); open a wall between them"
            )
        return cls(
            text="\n".join(" ".join(row) for row in rows),
            budget=_check_budget(budget, shortest, max(height, width)),
            shape=(height, width),
            start=start,
            exit=exit_,
            gold=tuple(found["G"]),
            diamonds=tuple(found["D"]),
            lava=tuple(found["L"]),
            bonus=tuple(found["B"]),
            walls=tuple(found["#"]),
        )

    def __reduce__(self):
        return Maze.from_text, (self.text, self.budget)

    def __str__(self):
        return self.text

    def _repr_svg_(self):
        return drawing.svg(self)

    @property
    def size(self):
        """n of an n x n maze; the larger side of a drawn grid that is not square."""
        return max(self.shape)

    @functools.cached_property
    def free(self):
        """The set of squares that can be walked on, as (row, column)."""
        walls = set(self.walls)
        return frozenset((r, c) for r in range(self.shape[0]) for c in range(self.shape[1])) - walls

    def pareto_front(self, reward_mode="linear"):
        """The exact Pareto front of this maze, with a shortest route for each of its points; see `envs.pareto_front`.

        >>> front = Maze.from_text("G . D\\n. S .\\n. E .", budget=6).pareto_front()
        >>> front.rewards.tolist()
        [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]]
        """
        return pareto_front(self, reward_mode)

    def distances(self, target):
        """Steps from every square to `target` (row, column), as an int array of the maze's shape.

        Walls, and squares from which there is no way, hold -1.

        >>> Maze.from_text("S . #\\n# . E").distances((1, 2)).tolist()
        [[3, 2, -1], [-1, 1, 0]]
        """
        target = self._check_position(target)
        stride = self.shape[1] + 1
        steps = np.full(self.shape, -1)
        free = _grid.board(self.free, stride)
        for distance, wave in enumerate(_grid.wavefronts(_grid.bit(target, stride) & free, free, stride)):
            for position in _grid.positions(wave, stride):
                steps[position] = distance
        return steps

    def symbol(self, position):
        """The symbol on a square, given as (row, column)."""
        return self.text[position[0] * 2 * self.shape[1] + 2 * position[1]]

    def square_name(self, position):
        """The name of a square as on a chess board, but with row 1 at the top: (row 2, column 1) is ``b3``.

        >>> Maze.from_text("S . .\\n. . .\\n. . E").square_name((2, 1))
        'b3'
        """
        row, column = self._check_position(position)
        return f"{chr(ord('a') + column)}{row + 1}"

    def describe(self):
        """Which of the rules of the generated mazes hold here; a hand-drawn maze need not keep any.

        >>> print(Maze.from_text("S . G\\n. # .\\nD . E", budget=4).describe())
        yes  S and E lie on opposite corners
        yes  gold lies near one of the other corners, diamonds near the other
        yes  a lava-free way to E fits the budget
        yes  a way through either treasure corner fits the budget
        yes  a way through both corners, in either order, does not fit
        -    every lava tile lies on a shortest way or beside treasure
        yes  no route takes all gold and all diamonds
        yes  no route is best at everything (the front has 2 points)
        """
        from .layouts import Description  # layouts draws mazes, so it imports this module

        return Description(self)

    def _check_position(self, position):
        try:
            row, column = (operator.index(x) for x in position)
        except (TypeError, ValueError):
            raise ValueError(f"position: got {shown(position)}, expected a (row, column) pair of integers") from None
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            raise ValueError(f"position: {(row, column)} lies outside the maze of shape {self.shape}")
        return row, column


def _parse_rows(text):
    """Rows of symbols as strings, checked: a rectangle of known symbols."""
    if not isinstance(text, str):
        raise ValueError(f"text: got {type(text).__name__}, expected a string with one row of the grid on each line")
    rows = ["".join(line.split()) for line in text.splitlines()]
    rows = [row for row in rows if row]
    if not rows:
        raise ValueError(f"text: the grid is empty; write rows of the symbols {' '.join(SYMBOLS)}")
    for r, row in enumerate(rows, start=1):
        for c, symbol in enumerate(row, start=1):
            if symbol not in SYMBOLS:
                raise ValueError(
                    f"text: unknown symbol {symbol!r} at row {r}, column {c}; the symbols are {' '.join(SYMBOLS)}"
                )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"text: row {r} has {len(row)} symbol{'s' * (len(row) != 1)}, but row 1 has {len(rows[0])}; "
                "every row needs the same number"
            )
    if max(len(rows), len(rows[0])) > LARGEST_SIDE:
        raise ValueError(
            f"text: the grid has {len(rows)} rows and {len(rows[0])} columns; the largest has {LARGEST_SIDE} of each"
        )
    return rows


def _check_budget(budget, shortest, size):
    if budget is None:
        return shortest + 2 * size
    try:
        steps = operator.index(budget)
    except TypeError:
        steps = None
    if steps is None or isinstance(budget, bool):
        raise ValueError(f"budget: got {shown(budget)}, expected a whole number of steps, or None")
    if not shortest <= steps <= LARGEST_BUDGET:
        raise ValueError(
            f"budget: got {steps}, but the shortest way to E takes {shortest} step{'s' * (shortest != 1)}; "
            f"give between {shortest} and {LARGEST_BUDGET}"
        )
    return steps


class MazeEnv(gymnasium.Env):
    """A maze to walk, with a vector reward: gold, diamonds and lava pull against each other.

    ## Description
    A walker goes from S to E within a step budget. Gold lies near one corner and diamonds near the opposite one, and in
    generated mazes no route passes both corners, so there is no best route: there is a Pareto front, and
    `env.unwrapped.pareto_front()` gives it exactly. Follows the conventions of MO-Gymnasium.

    ## Action Space
    `Discrete(4)`: 0 up, 1 down, 2 left, 3 right (U, D, L, R). A bump into a wall or the border spends the step.

    ## Observation Space
    `observation="dict"` (default), a `Dict` of

    | key | space | meaning |
    |---|---|---|
    | `grid` | `Box(0, 7, (rows, columns), int8)` | the symbols `. S E G D L B #` as 0-7; does not change |
    | `position` | `MultiDiscrete([rows, columns])` | (row, column) of the walker, row 0 at the top |
    | `steps_left` | `Discrete(budget + 1)` | steps that the budget still allows |
    | `taken` | `MultiBinary(items)` | 1 for each item stepped on: gold, diamonds, lava, bonus, each in reading order |

    (A maze without any item has one entry in `taken`, always 0.)

    `observation="grid"`: `Box(0, 1, (8, rows, columns), float32)`, planes for convolutions: walker, walls, exit, gold
    left, diamonds left, lava not yet touched, bonus left, and the share of the budget left (constant over its plane).

    `observation="flat"`: `Box(0, 1, (rows * columns + items + 1,), float32)` for ordinary RL libraries: the walker's
    square one-hot, `taken`, and the share of the budget left. The maze never changes, so this is the full state.

    ## Reward Space
    `Box(0, 1, (4,), float64)`, paid when the episode ends, zeros before. All higher = better.

    | index | name | value when E is reached | direction and range | E not reached |
    |---|---|---|---|---|
    | 0 | completion | 1 | maximise, {0, 1} | 0 |
    | 1 | gold | share of the gold squares stepped on; 0 if there are none | maximise, [0, 1] | 0 |
    | 2 | diamond | share of the diamond squares stepped on; 0 if there are none | maximise, [0, 1] | 0 |
    | 3 | avoid_lava | 1 - share of the lava squares stepped on; 1 if there are none | maximise, [0, 1] | 0 |

    `reward_mode="convex_bonus"` squares the last three and multiplies them by 1.5 if a bonus square was visited, with
    1 as the most. `scalarize=w` pays the number w . r instead, a plain scalar environment. The vector is always in
    `info["vector_reward"]`, and `info["is_success"]` says whether E was reached.

    ## Starting State
    The walker on S, nothing taken, the whole budget left. The same at every reset: `seed` of the constructor fixes the
    maze, `reset(seed=...)` changes nothing.

    ## Episode End
    Termination: the walker reaches E. Truncation: the budget is spent elsewhere.

    ## Arguments
    - `preset`, `seed`: the maze is `envs.generate(preset, seed)`; or `maze`: a Maze of your own (also its text).
    - `reward_mode`: `"linear"` (default) or `"convex_bonus"`.
    - `scalarize`: None for the vector (default), or 4 weights for the number w . r.
    - `observation`: `"dict"` (default), `"grid"` or `"flat"`.
    - `render_mode`: None, `"ansi"`, `"rgb_array"` or `"svg"`.

    ## Credits
    The task is the maze of Vector Policy Optimization (arXiv 2605.22817), written anew, with layouts of its own.

    >>> import gymnasium, envs
    >>> env = gymnasium.make("envs/Maze-v0", maze="S G\\nD E", scalarize=None)
    >>> observation, info = env.reset(seed=0)
    >>> for action in (3, 1):
    ...     observation, reward, terminated, truncated, info = env.step(action)
    >>> reward.tolist(), terminated, truncated
    ([1.0, 1.0, 0.0, 1.0], True, False)
    >>> [point.tolist() for point in env.unwrapped.pareto_front()]
    [[1.0, 1.0, 1.0, 1.0]]
    """

    metadata = {"render_modes": ["ansi", "rgb_array", "svg"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        preset="lite-6x6",
        seed=0,
        *,
        maze=None,
        reward_mode="linear",
        scalarize=None,
        observation="dict",
        render_mode=None,
    ):
        check_reward_mode(reward_mode)
        if not isinstance(observation, str) or observation not in _OBSERVATIONS:
            raise ValueError(f"observation: got {shown(observation)}, expected one of {', '.join(_OBSERVATIONS)}")
        if render_mode is not None and not (
            isinstance(render_mode, str) and render_mode in self.metadata["render_modes"]
        ):
            raise ValueError(f"render_mode: got {shown(render_mode)}, expected None, 'ansi', 'rgb_array' or 'svg'")
        self.maze = _make_maze(preset, seed, maze)
        self.reward_mode = reward_mode
        self.scalarize = None if scalarize is None else _check_weights(scalarize)
        self.observation = observation
        self.render_mode = render_mode

        self._tiles = self.maze.gold + self.maze.diamonds + self.maze.lava + self.maze.bonus
        self._number = {position: i for i, position in enumerate(self._tiles)}
        self._totals = [len(x) for x in (self.maze.gold, self.maze.diamonds, self.maze.lava, self.maze.bonus)]
        self._ends = np.cumsum(self._totals)[:-1]
        codes = [[SYMBOLS.index(symbol) for symbol in row.split()] for row in self.maze.text.splitlines()]
        self._grid = np.array(codes, dtype=np.int8)
        self.action_space = spaces.Discrete(4)
        self.observation_space = self._space()
        self.reward_space = spaces.Box(0.0, 1.0, (len(OBJECTIVES),), dtype=np.float64)
        self.reward_dim = len(OBJECTIVES)
        self._begin()
        self._over = True  # step() needs a reset() first

    def _begin(self):
        self.position = self.maze.start
        self.taken = np.zeros(max(len(self._tiles), 1), dtype=np.int8)
        self.route = ""
        self._over = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._begin()
        return self._observe(), {"vector_reward": np.zeros(self.reward_dim), "is_success": False}

    def step(self, action):
        if self._over:
            raise gymnasium.error.ResetNeeded("step() after the end of an episode; call reset() first")
        try:
            move = "UDLR"[range(4).index(operator.index(action))]
        except (TypeError, ValueError):
            raise ValueError(f"action: got {shown(action)}, expected 0, 1, 2 or 3 (up, down, left, right)") from None
        row, column = (x + dx for x, dx in zip(self.position, _grid.MOVES[move], strict=True))
        if (row, column) in self.maze.free:
            self.position = (row, column)
        self.route += move
        if self.position in self._number:
            self.taken[self._number[self.position]] = 1

        terminated = self.position == self.maze.exit
        truncated = not terminated and len(self.route) == self.maze.budget
        self._over = terminated or truncated
        vector = np.zeros(self.reward_dim)
        if terminated:
            collected = [part.sum() for part in np.split(self.taken[: len(self._tiles)], self._ends)]
            vector = reward_vectors(collected, self._totals, self.reward_mode)
        reward = vector if self.scalarize is None else float(self.scalarize @ vector)
        info = {"vector_reward": vector.copy(), "is_success": terminated}
        return self._observe(), reward, terminated, truncated, info

    def pareto_front(self, gamma=1.0):
        """The exact front of discounted returns: a list of (4,) vectors, sorted lexicographically descending.

        The return of a route of T steps is gamma^(T - 1) times its reward vector, since that is paid on the last step.
        """
        if not isinstance(gamma, numbers.Real) or not 0 < gamma <= 1:
            raise ValueError(f"gamma: got {shown(gamma)}, expected a discount above 0 and at most 1")
        return list(front_rewards(self.maze, self.reward_mode, gamma))

    def render(self):
        if self.render_mode is None:
            return None
        visited, _ = drawing.walk(self.maze, self.route)
        draw = {"ansi": drawing.ansi, "rgb_array": drawing.rgb_array, "svg": drawing.svg}[self.render_mode]
        return draw(self.maze, [self.route], position=self.position, taken=visited)

    @property
    def steps_left(self):
        return self.maze.budget - len(self.route)

    def _space(self):
        rows, columns = self.maze.shape
        items = max(len(self._tiles), 1)
        if self.observation == "flat":
            return spaces.Box(0, 1, (rows * columns + items + 1,), np.float32)
        if self.observation == "grid":
            return spaces.Box(0, 1, (8, rows, columns), np.float32)
        return spaces.Dict(
            grid=spaces.Box(0, len(SYMBOLS) - 1, (rows, columns), np.int8),
            position=spaces.MultiDiscrete([rows, columns]),
            steps_left=spaces.Discrete(self.maze.budget + 1),
            taken=spaces.MultiBinary(items),
        )

    def _observe(self):
        share_left = self.steps_left / self.maze.budget
        if self.observation == "flat":
            here = np.zeros(self.maze.shape, np.float32)
            here[self.position] = 1
            return np.concatenate([here.ravel(), self.taken.astype(np.float32), [np.float32(share_left)]])
        if self.observation == "grid":
            planes = np.zeros((8, *self.maze.shape), np.float32)
            planes[0][self.position] = 1
            planes[1] = self._grid == SYMBOLS.index("#")
            planes[2][self.maze.exit] = 1
            for tile, number in self._number.items():
                if not self.taken[number]:
                    planes[3 + "GDLB".index(SYMBOLS[self._grid[tile]])][tile] = 1
            planes[7] = share_left
            return planes
        return {
            "grid": self._grid.copy(),
            "position": np.array(self.position),
            "steps_left": np.int64(self.steps_left),
            "taken": self.taken.copy(),
        }


_OBSERVATIONS = ("dict", "grid", "flat")


def _make_maze(preset, seed, maze):
    if maze is None:
        from .layouts import generate  # layouts draws mazes, so it imports this module

        return generate(preset, seed)
    if isinstance(maze, str):
        return Maze.from_text(maze)
    if not isinstance(maze, Maze):
        raise ValueError(f"maze: got {type(maze).__name__}, expected a Maze, the text of one, or None")
    return maze


def _check_weights(weights):
    try:
        array = np.array(weights, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape != (len(OBJECTIVES),) or not np.isfinite(array).all():
        raise ValueError(
            f"scalarize: got {shown(weights)}, expected {len(OBJECTIVES)} finite weights, one for each of {OBJECTIVES}"
        )
    return array
