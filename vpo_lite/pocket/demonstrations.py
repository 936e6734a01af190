"""What a pocket policy is shown: its words, and drawn routes through many mazes.

A square and what lies on it are one word (``b3#``: square b3 is a wall). A square alone is the word
that routes are written with (``b3``). Squares are named like those of a chess board, which is what
lets one million parameters learn to walk.
"""

import math
from typing import NamedTuple

import numpy as np
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

import envs

from ..policy.tokenizer import encode, word_tokenizer
from ..randomness import generator
from ..tasks.maze import MazeTask

SYMBOLS = ".SEGDLB#"
MOST_ROUTES = 5  # in one completion
LARGEST_BUDGET = 60  # moves
FIRST_SEED = MazeTask.seeds["pretraining"][0]


# --- words ----------------------------------------------------------------------------------------


def maze_vocabulary(board_size: int) -> list[str]:
    """Every token of the pocket policy for boards of this side length, in the order of the ids.

    >>> words = maze_vocabulary(6)
    >>> len(words), words[:4], words[-1]
    (413, ['<pad>', '<bos>', '<eos>', '<m1>'], '</route_5>')
    """
    squares = [f"{chr(ord('a') + c)}{r + 1}" for r in range(board_size) for c in range(board_size)]
    numbers = range(1, MOST_ROUTES + 1)
    return [
        *["<pad>", "<bos>", "<eos>"],
        *[f"<m{m}>" for m in numbers],
        *[f"<b{b}>" for b in range(1, LARGEST_BUDGET + 1)],
        *[f"<w{w}>" for w in range(11)],
        *[square + symbol for square in squares for symbol in SYMBOLS],
        *squares,
        *[tag for i in numbers for tag in (f"<route_{i}>", f"</route_{i}>")],
    ]


def maze_tokenizer(board_size: int) -> PreTrainedTokenizerFast:
    """The tokenizer over :func:`maze_vocabulary`.

    >>> tokenizer = maze_tokenizer(6)
    >>> tokenizer.decode(tokenizer("<m1> <b9> a1S a2.")["input_ids"])
    '<m1> <b9> a1S a2.'
    """
    return word_tokenizer(maze_vocabulary(board_size))


# --- routes ---------------------------------------------------------------------------------------


class Paths:
    """Shortest paths in one maze, found once and shared by its demonstrations.

    No path goes through the exit. ``avoid`` is a set of squares that a path must not touch.
    """

    def __init__(self, maze: "envs.Maze"):
        self.maze = maze
        rows, columns = maze.shape
        free = {(r, c) for r in range(rows) for c in range(columns)} - set(maze.walls)
        self.neighbours = {
            (r, c): [p for p in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if p in free]
            for r, c in free
        }
        self.lava = frozenset(maze.lava)
        self._found: dict = {}

    def distances(self, target, avoid: frozenset) -> dict:
        """Steps to ``target`` from every square that can reach it."""
        key = (target, avoid)
        if key not in self._found:
            found, edge = {target: 0}, [target]
            while edge:
                following = []
                for cell in edge:
                    if cell == self.maze.exit and cell != target:
                        continue
                    for other in self.neighbours[cell]:
                        if other not in found and other not in avoid:
                            found[other] = found[cell] + 1
                            following.append(other)
                edge = following
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


# --- the data set ---------------------------------------------------------------------------------


class Demonstration(NamedTuple):
    """Token ids of a prompt, and of the completion that answers it."""

    prompt: list[int]
    completion: list[int]


class Demonstrations(Dataset):
    """The demonstrations of a ``PretrainConfig``. Number i is a pure function of (seed, i)."""

    def __init__(self, config):
        self.config = config
        self.task = MazeTask(layout=config.layout)
        self.tokenizer = maze_tokenizer(config.board_size)
        self.vocabulary = self.tokenizer.get_vocab()

    def __len__(self) -> int:
        return self.config.updates * self.config.batch

    def __getitem__(self, i: int) -> Demonstration:
        config = self.config
        rng = generator(config.seed, "demonstration", 0, str(i))
        layout = self._layout(i // config.batch)
        if rng.random() < config.drawn_share:
            maze = drawn_maze(envs.PRESETS[layout].size, rng)
        else:
            maze = envs.generate(layout, FIRST_SEED + i % config.mazes)
        m = 1 + i // config.batch % MOST_ROUTES  # the same in a batch: hardly any padding
        # Some prompts show weights. They mean nothing yet, but the places of all later tokens
        # become familiar.
        weights = rng.dirichlet(np.ones(4)) if rng.random() < 0.1 else None
        routes = demonstrate(Paths(maze), m, rng)
        pocket = {"board": config.board_size}
        prompt = self.task.prompt(maze, m, weights=weights, pocket=pocket)
        words = self.task.format_walks(routes).split()
        completion = [*(self.vocabulary[word] for word in words), self.tokenizer.eos_token_id]
        return Demonstration(encode(self.tokenizer, prompt), completion)

    def _layout(self, batch: int) -> str:
        """The preset of a whole batch. Boards of one size need hardly any padding."""
        own, *smaller = self.config.layouts
        rng = generator(self.config.seed, "layout", batch)
        if smaller and rng.random() < self.config.smaller_share:
            return smaller[int(rng.integers(len(smaller)))]
        return own
