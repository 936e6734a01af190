"""The gymnasium environment that walks through a maze."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence

import gymnasium
import numpy as np
from gymnasium import spaces

from . import drawing
from ._grid import MOVES, moved, shown
from .front import front_rewards
from .generator import generate
from .layouts import Layout
from .maze import SYMBOLS, Maze
from .scoring import OBJECTIVES, check_reward_mode, reward_vectors, walk

_OBSERVATIONS = ("dict", "grid", "flat")
_PRESET, _SEED = "lite-6x6", 0  # of the constructor
Observation = dict[str, np.ndarray | int] | np.ndarray  # a dict, or a "grid" or "flat" array


class MazeEnv(gymnasium.Env):
    """A maze to walk through, with a vector reward for gold, diamonds and lava that conflict.

    ## Description
    A walker goes from S to E within a budget of moves. In generated mazes gold lies near one corner
    and diamonds near the opposite one, no route passes both, and no route is best at everything.
    `env.unwrapped.pareto_front()` returns the exact Pareto front. The environment follows the
    conventions of MO-Gymnasium.

    `import envs` registers it; `gymnasium.make("envs:envs/Maze-v0")` does so by itself. The package
    `envs` of PyPI is another one, and must not be installed beside it.

    ## Action Space
    `Discrete(4)`: 0 up, 1 down, 2 left, 3 right (U, D, L, R). A bump into a wall or the border
    spends the move.

    ## Observation Space
    `observation="dict"` (default), a `Dict` of

    | key | space | meaning |
    |---|---|---|
    | `grid` | `Box(0, 7, (rows, columns), int8)` | the symbols `. S E G D L B #` as 0-7; constant |
    | `position` | `MultiDiscrete([rows, columns])` | (row, column) of the walker, row 0 on top |
    | `steps_left` | `Discrete(budget + 1)` | moves that the budget still allows |
    | `taken` | `MultiBinary(items)` | 1 for each item visited |

    The items are gold, diamonds, lava and bonus, each in reading order. A maze without any item has
    one entry in `taken`, always 0.

    `observation="grid"`: `Box(0, 1, (8, rows, columns), float32)`, planes for convolutions: walker,
    walls, exit, gold left, diamonds left, lava not yet touched, bonus left, and the fraction of the
    budget left (constant over its plane).

    `observation="flat"`: `Box(0, 1, (rows * columns + items + 1,), float32)` for ordinary RL
    libraries: the walker's square one-hot, `taken`, and the fraction of the budget left. The maze
    never changes, so this is the full state. Agents of morl-baselines need it.

    Items and budget differ from maze to maze. So only `"grid"` has one space for all mazes of a
    size: use it for vector environments of several mazes.

    ## Reward Space
    `Box(0, 1, (4,), float64)`, paid when the episode ends, zeros before. Higher is better in every
    component. If E is not reached, all four are 0.

    | index | name | value when E is reached | range |
    |---|---|---|---|
    | 0 | completion | 1 | {0, 1} |
    | 1 | gold | fraction of the gold squares visited; 0 if there are none | [0, 1] |
    | 2 | diamond | fraction of the diamond squares visited; 0 if there are none | [0, 1] |
    | 3 | avoid_lava | 1 - fraction of the lava squares visited; 1 if there are none | [0, 1] |

    `reward_mode="convex_bonus"` turns each x of the last three into min(1, b x^2): b is 1.5 if a
    bonus square was visited, else 1. `scalarize=w` pays the number w . r instead: a plain scalar
    environment; wrappers of MO-Gymnasium would take that number for a vector. The vector is always
    in `info["vector_reward"]`, and `info["is_success"]` says whether E was reached.

    gymnasium's own vector environments and stable-baselines3 expect a number as the reward. With
    the vector, `gymnasium.make_vec("envs/Maze-v0", n)` and stable-baselines3 fail in the first
    step. `vectorization_mode="async"` fails, or gives rewards of another shape, once an episode has
    ended. There are two cures:

    - `scalarize=w` works with all of them
    - `mo_gymnasium.wrappers.vector.MOSyncVectorEnv` takes the vectors

    ## Starting State
    The walker on S, nothing taken, the whole budget left. It is the same at every reset: `seed` of
    the constructor fixes the maze, and `reset(seed=..., options=...)` changes nothing.

    ## Episode End
    Termination: the walker reaches E. Truncation: the budget runs out first. Nothing can be earned
    any more then, and the observation shows it. An agent that goes on to value a truncated state,
    as those of stable-baselines3 do, should be told `terminated or truncated`.

    ## Arguments
    - `preset`, `seed`: the maze is `envs.generate(preset, seed)`.
    - `maze`: a Maze of your own, or its text, instead of these two. `budget`: of that text; None
      means as in `envs.Maze.from_text`.
    - `reward_mode`: `"linear"` (default) or `"convex_bonus"`.
    - `scalarize`: None for the vector (default), or 4 weights for the number w . r.
    - `observation`: `"dict"` (default), `"grid"` or `"flat"`.
    - `render_mode`: None, `"ansi"`, `"rgb_array"` or `"svg"`.

    ## Credits
    The task is the maze of Vector Policy Optimization (arXiv 2605.22817), written anew, with
    layouts of its own.

    >>> import gymnasium, envs
    >>> maze = envs.Maze.from_text("S G\\nD E", budget=2)
    >>> env = gymnasium.make("envs/Maze-v0", maze=maze)
    >>> observation, info = env.reset(seed=0)
    >>> for action in (3, 1):
    ...     observation, reward, terminated, truncated, info = env.step(action)
    >>> reward.tolist(), terminated, truncated
    ([1.0, 1.0, 0.0, 1.0], True, False)
    >>> [point.tolist() for point in env.unwrapped.pareto_front()]
    [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]]
    """

    metadata = {"render_modes": ["ansi", "rgb_array", "svg"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        preset: str | Layout = _PRESET,
        seed: int = _SEED,
        *,
        maze: Maze | str | None = None,
        budget: int | None = None,
        reward_mode: str = "linear",
        scalarize: Sequence[float] | np.ndarray | None = None,
        observation: str = "dict",
        render_mode: str | None = None,
    ):
        check_reward_mode(reward_mode)
        if not isinstance(observation, str) or observation not in _OBSERVATIONS:
            raise ValueError(
                f"observation: got {shown(observation)}, expected one of {', '.join(_OBSERVATIONS)}"
            )
        modes = self.metadata["render_modes"]
        known = isinstance(render_mode, str) and render_mode in modes
        if render_mode is not None and not known:
            raise ValueError(
                f"render_mode: got {shown(render_mode)}, "
                "expected None, 'ansi', 'rgb_array' or 'svg'"
            )
        self.maze = _make_maze(preset, seed, maze, budget)
        self.reward_mode = reward_mode
        self.scalarize = None if scalarize is None else _check_weights(scalarize)
        self.observation = observation
        self.render_mode = render_mode

        groups = (self.maze.gold, self.maze.diamonds, self.maze.lava, self.maze.bonus)
        self._items = sum(groups, ())
        self._number = {square: i for i, square in enumerate(self._items)}
        self._totals = [len(group) for group in groups]
        self._ends = np.cumsum(self._totals)[:-1]
        rows = self.maze.text.splitlines()
        codes = [[SYMBOLS.index(symbol) for symbol in row.split()] for row in rows]
        self._grid = np.array(codes, dtype=np.int8)
        self.action_space = spaces.Discrete(4)
        self.observation_space = self._space()
        self.reward_space = spaces.Box(0.0, 1.0, (len(OBJECTIVES),), dtype=np.float64)
        self.reward_dim = len(OBJECTIVES)
        self._begin()
        self._over = True  # step() needs a reset() first

    def _begin(self):
        self.position = self.maze.start
        self.taken = np.zeros(max(len(self._items), 1), dtype=np.int8)
        self.route = ""
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[Observation, dict]:
        super().reset(seed=seed)
        self._begin()
        return self._observe(), {"vector_reward": np.zeros(self.reward_dim), "is_success": False}

    def step(self, action: int) -> tuple[Observation, np.ndarray | float, bool, bool, dict]:
        if self._over:
            raise gymnasium.error.ResetNeeded(
                "step() before reset(), or after the end of an episode; call reset() first"
            )
        try:
            move = tuple(MOVES)[range(4).index(operator.index(action))]
        except (TypeError, ValueError):
            raise ValueError(
                f"action: got {shown(action)}, expected 0, 1, 2 or 3 (up, down, left, right)"
            ) from None
        self.position = moved(self.position, move, self.maze.free)
        self.route += move
        if self.position in self._number:
            self.taken[self._number[self.position]] = 1

        terminated = self.position == self.maze.exit
        truncated = not terminated and len(self.route) == self.maze.budget
        self._over = terminated or truncated
        vector = np.zeros(self.reward_dim)
        if terminated:
            taken = self.taken[: len(self._items)]
            collected = [part.sum() for part in np.split(taken, self._ends)]
            vector = reward_vectors(collected, self._totals, self.reward_mode)
        reward = vector if self.scalarize is None else float(self.scalarize @ vector)
        info = {"vector_reward": vector.copy(), "is_success": terminated}
        return self._observe(), reward, terminated, truncated, info

    def pareto_front(self, gamma: float = 1.0) -> list[np.ndarray]:
        """Returns the exact front of discounted returns: a list of (4,) vectors.

        They are sorted lexicographically descending. A route of T moves returns gamma^(T - 1) times
        its reward vector, paid on its last move.

        Args:
            gamma: the discount, above 0 and at most 1.

        Raises:
            ValueError: another gamma, or too many items (see :func:`envs.pareto_front`).
        """
        if not isinstance(gamma, numbers.Real) or not 0 < gamma <= 1:
            raise ValueError(
                f"gamma: got {shown(gamma)}, expected a discount above 0 and at most 1"
            )
        return list(front_rewards(self.maze, self.reward_mode, gamma))

    def render(self) -> str | np.ndarray | None:
        if self.render_mode is None:
            return None
        draw = getattr(drawing, self.render_mode)
        visited = walk(self.maze, self.route).squares
        return draw(self.maze, [self.route], position=self.position, taken=visited)

    @property
    def steps_left(self) -> int:
        """The moves that the budget still allows, 0 to `maze.budget`."""
        return self.maze.budget - len(self.route)

    def _space(self):
        rows, columns = self.maze.shape
        items = max(len(self._items), 1)
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
        fraction_left = self.steps_left / self.maze.budget
        if self.observation == "flat":
            here = np.zeros(self.maze.shape, np.float32)
            here[self.position] = 1
            left = [np.float32(fraction_left)]
            return np.concatenate([here.ravel(), self.taken, left])
        if self.observation == "grid":
            planes = np.zeros((8, *self.maze.shape), np.float32)
            planes[0][self.position] = 1
            planes[1] = self._grid == SYMBOLS.index("#")
            planes[2][self.maze.exit] = 1
            for square, number in self._number.items():
                if not self.taken[number]:
                    planes[3 + "GDLB".index(self.maze.symbol(square))][square] = 1
            planes[7] = fraction_left
            return planes
        return {
            "grid": self._grid.copy(),
            "position": np.array(self.position),
            "steps_left": np.int64(self.steps_left),
            "taken": self.taken.copy(),
        }


def _make_maze(preset, seed, maze, budget):
    if budget is not None and not isinstance(maze, str):
        raise ValueError(f"budget: got {shown(budget)} without the text of a maze")
    if maze is None:
        return generate(preset, seed)
    for name, value, usual in (("preset", preset, _PRESET), ("seed", seed, _SEED)):
        if value != usual:
            raise ValueError(f"{name}: got {shown(value)} together with maze; give one of the two")
    if isinstance(maze, str):
        return Maze.from_text(maze, budget)
    if not isinstance(maze, Maze):
        raise ValueError(
            f"maze: got {type(maze).__name__}, expected a Maze, the text of one, or None"
        )
    return maze


def _check_weights(weights):
    try:
        array = np.array(weights, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape != (len(OBJECTIVES),) or not np.isfinite(array).all():
        raise ValueError(
            f"scalarize: got {shown(weights)}, expected {len(OBJECTIVES)} finite weights, "
            f"one for each of {OBJECTIVES}"
        )
    return array
