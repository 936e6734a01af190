"""The recipe for mazes: the words of a pocket policy, and drawn routes through many mazes.

A square and what lies on it are one word (``b3#``: square b3 is a wall). A square alone is the word
that routes are written with (``b3``). Squares are named like those of a chess board, which is what
lets one million parameters learn to walk.
"""

import math
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import envs

from ..options import setting
from ..randomness import generator
from ..tasks.base import Prompt, Task
from ..tasks.maze import MazeTask
from .recipe import FIRST_SEED, POCKET_ANSWERS, WEIGHTS, Recipe, some_weights

SYMBOLS = ".SEGDLB#"
LARGEST_BUDGET = 60  # moves


# --- routes ---------------------------------------------------------------------------------------


class Paths:
    """Shortest paths in one maze, found once and shared by its demonstrations.

    No path goes through the exit. ``avoid`` is a set of squares that a path must not touch.
    """

    def __init__(self, maze: "envs.Maze"):
        self.maze = maze
        self.neighbours = {
            (r, c): [p for p in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if p in maze.free]
            for r, c in maze.free
        }
        self.lava = frozenset(maze.lava)
        self._found: dict = {}

    def distances(self, target, avoid: frozenset) -> dict:
        """Steps to ``target`` from every square that can reach it."""
        key = (target, avoid)
        if key not in self._found:
            found, waiting = {target: 0}, deque([target])
            while waiting:
                cell = waiting.popleft()
                if cell == self.maze.exit and cell != target:
                    continue
                for other in self.neighbours[cell]:
                    if other not in found and other not in avoid:
                        found[other] = found[cell] + 1
                        waiting.append(other)
            self._found[key] = found
        return self._found[key]

    def walk(self, start, target, avoid: frozenset, rng) -> list:
        """A random shortest path from start to target: the squares after start."""
        steps, here, cells = self.distances(target, avoid), start, []
        while here != target:
            nearer = [n for n in self.neighbours[here] if steps.get(n, math.inf) == steps[here] - 1]
            here = nearer[int(rng.integers(len(nearer)))]
            cells.append(here)
        return cells

    def via(self, stop, avoid: frozenset, rng) -> list | None:
        """A path start - stop - exit within the budget, or None. Without a stop: to the exit."""
        maze = self.maze
        home = self.distances(maze.exit, avoid)
        if stop is None:
            if home.get(maze.start, math.inf) > maze.budget:
                return None
            return self.walk(maze.start, maze.exit, avoid, rng)
        first = self.distances(stop, avoid).get(maze.start, math.inf)
        if stop == maze.exit or first + home.get(stop, math.inf) > maze.budget:
            return None
        there = self.walk(maze.start, stop, avoid, rng)
        return there + self.walk(stop, maze.exit, avoid, rng)


def demonstrate(paths: Paths, m: int, rng) -> list[list]:
    """m routes, each a list of squares, different where that is easy.

    They go straight to the exit (45 %), by some free square (25 %), or by one treasure (30 %).
    """
    maze, routes = paths.maze, []
    free = sorted(paths.neighbours)
    for _ in range(m):
        for _attempt in range(8):
            avoid = paths.lava if rng.random() < 0.4 else frozenset()
            kind = rng.random()
            stop = None
            if kind < 0.3:
                piles = [p for p in (maze.gold, maze.diamonds) if p]
                if piles:
                    pile = sorted(piles[int(rng.integers(len(piles)))])
                    stop = pile[int(rng.integers(len(pile)))]
            elif kind < 0.55:
                stop = free[int(rng.integers(len(free)))]
            route = (
                paths.via(stop, avoid, rng)
                or paths.via(None, avoid, rng)
                or paths.via(None, frozenset(), rng)
            )
            if route not in routes:
                break
        routes.append(route)
    return routes


def drawn_maze(largest: int, rng) -> "envs.Maze":
    """A maze as a person might draw it: sides of 3 to ``largest``, walls and items anywhere."""
    while True:
        side = int(rng.integers(3, largest + 1))
        cells = ["."] * (side * side)
        counts = {"#": int(rng.integers(0, side * side // 3)), "S": 1, "E": 1}
        counts |= {s: int(rng.integers(0, max(2, side - 1))) for s in "GDL"}
        places = rng.permutation(side * side)[: sum(counts.values())].tolist()
        for symbol, count in counts.items():
            for _ in range(count):
                if places:
                    cells[places.pop()] = symbol
        text = "\n".join(" ".join(cells[r * side : (r + 1) * side]) for r in range(side))
        try:
            usual = envs.Maze.from_text(text).budget
            budget = int(rng.integers(usual - 2 * side, usual + 1))
            return envs.Maze.from_text(text, budget=budget)
        except ValueError:  # S or E walled in
            continue


# --- the recipe -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MazeRecipe(Recipe):
    """What makes a pocket policy for mazes.

    It knows how to walk and is undecided about treasure. Freely drawn boards keep hand-drawn mazes
    from being a surprise. With smaller boards one model serves several presets.

    >>> MazeRecipe(layers=0)
    Traceback (most recent call last):
    ...
    ValueError: layers = 0: must be a whole number, 1 or more, at most 200
    """

    task: ClassVar[str] = MazeTask.name
    tag: ClassVar[str] = MazeTask.tag
    problems: ClassVar[str] = "mazes"
    columns: ClassVar[dict[str, str]] = {
        "parse": "parse",
        "reach": "reach E",
        "distinct": "rollouts with m different routes",
        "treasure": "of those that reach E: some treasure",
        "lava": "touched lava",
    }

    layout: str = setting("lite-6x6", "layout of the mazes", choices=tuple(envs.PRESETS))
    mazes: int = setting(80_000, "different mazes to learn from", least=1, most=10**9)
    drawn_share: float = setting(
        0.15,
        "fraction of the boards that are drawn freely, of any size up to the layout's, 0 to 1",
        least=0,
        most=1,
    )
    smaller_share: float = setting(
        0.0, "fraction of the batches from smaller layouts, 0 to 1", least=0, most=1
    )

    def __post_init__(self):
        super().__post_init__()
        if self.smaller_share and len(self.layouts) == 1:
            raise ValueError(
                f"smaller_share = {self.smaller_share}: no preset has smaller boards than "
                f"{self.layout!r}"
            )

    @property
    def board_size(self) -> int:
        return envs.PRESETS[self.layout].size

    @property
    def layouts(self) -> list[str]:
        """The presets of the mazes: ``layout``, then those with smaller boards if they take part.

        >>> MazeRecipe(smaller_share=0.5).layouts
        ['lite-6x6', 'tiny-4x4']
        """
        if not self.smaller_share:
            return [self.layout]
        smaller = [n for n, preset in envs.PRESETS.items() if preset.size < self.board_size]
        return [self.layout, *smaller]

    def words(self) -> list[str]:
        side = range(self.board_size)
        squares = [f"{chr(ord('a') + column)}{row + 1}" for row in side for column in side]
        return [
            *[f"<b{b}>" for b in range(1, LARGEST_BUDGET + 1)],
            *WEIGHTS,
            *[square + symbol for square in squares for symbol in SYMBOLS],
            *squares,
        ]

    def pocket(self) -> dict:
        return super().pocket() | {"board": self.board_size, "budget": LARGEST_BUDGET}

    @cached_property
    def _task(self) -> MazeTask:
        return MazeTask(layout=self.layout)

    def demonstration(self, i: int) -> tuple[Prompt, str]:
        rng = generator(self.seed, "demonstration", 0, str(i))
        layout = self._layout(i // self.batch)
        if rng.random() < self.drawn_share:
            maze = drawn_maze(envs.PRESETS[layout].size, rng)
        else:
            maze = envs.generate(layout, FIRST_SEED + i % self.mazes)
        m = 1 + i // self.batch % POCKET_ANSWERS  # the same in a batch: hardly any padding
        weights = some_weights(4, rng)
        routes = demonstrate(Paths(maze), m, rng)
        pocket = {"board": self.board_size}
        prompt = self._task.prompt(maze, m, weights=weights, pocket=pocket)
        return prompt, self._task.format_walks(routes)

    def _layout(self, batch: int) -> str:
        """The preset of a whole batch. Boards of one size need hardly any padding."""
        own, *smaller = self.layouts
        rng = generator(self.seed, "layout", batch)
        if smaller and rng.random() < self.smaller_share:
            return smaller[int(rng.integers(len(smaller)))]
        return own

    def measured(self) -> dict[str, Task]:
        return {layout: MazeTask(layout=layout) for layout in self.layouts}

    def figures(self, groups) -> dict[str, float | None]:
        """Shares of held-out mazes, one rollout each.

        - parse, reach: of the answers asked for, those that parse, and those that reach E
        - distinct: of the rollouts, those with m different routes
        - treasure: of the answers that reach E, those with some gold or diamond
        - lava: of the answers that reach E, those that touched lava

        The last two are None where no answer reaches E.
        """
        routes = [group.answers[0] for group in groups]
        valid = np.stack([group.valid[0] for group in groups])
        rewards = np.stack([group.rewards[0] for group in groups])[valid]
        return {
            "parse": float(np.mean([group.parsed[0] for group in groups])),
            "reach": float(valid.mean()),
            "distinct": float(np.mean([None not in r and len(set(r)) == len(r) for r in routes])),
            "treasure": float((rewards[:, 1:3] > 0).any(-1).mean()) if len(rewards) else None,
            "lava": float((rewards[:, 3] < 1).mean()) if len(rewards) else None,
        }

    def story(self) -> tuple[str, str]:
        also = mixed = ""
        if self.smaller_share:
            smaller = ", ".join(f"`{layout}`" for layout in self.layouts[1:])
            also = f" or of a smaller preset ({smaller})"
            mixed = (
                f" A share of {self.smaller_share} of the batches comes from the smaller presets."
            )
        return (
            f"""that reads a maze of the preset `{self.layout}`{also}
and writes m = 1 to {POCKET_ANSWERS} routes through it. It stands in for a pretrained language \
model:
it knows the format and how to walk, and is undecided about gold, diamonds and lava, so that
reinforcement learning has something to teach. It is good for nothing else.""",
            f"""on
{self.mazes:,} mazes (seeds from {FIRST_SEED:,}), of which a share of {self.drawn_share} is
replaced by freely drawn boards. Seed {self.seed}. The demonstrations go straight to the exit
(45 %), by some free square (25 %) or by one gold or diamond (30 %); 40 % avoid lava.{mixed}""",
        )
