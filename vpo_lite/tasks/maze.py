"""The maze as a language task: how m routes are asked for, read back and scored.

Prompt and parser stand side by side, since a difference between them lowers rewards without an
error. Pocket policies read squares (``b3#``: square b3 is a wall) and write the squares they visit.
Other models are asked in words and write moves. One parser turns both into moves like ``RRDD``.
"""

import re
from itertools import pairwise

import numpy as np

import envs

from ..checks import shown, told_of
from .base import Option, Prompt, Task
from .wording import numbered_form, weighed, weight_symbols, write_numbered

if not hasattr(envs, "PRESETS"):  # `python -m` looks into the current folder first
    raise ImportError(
        f"another module named envs, {envs.__spec__.origin}, hides the one of vpo_lite: set "
        "PYTHONSAFEPATH=1, start from another folder, or rename it; an installed package: pip "
        "uninstall envs, and install vpo_lite again",
        name="envs",
    )

_MOVE_WORDS = {word: word[0] for word in ("U", "UP", "D", "DOWN", "L", "LEFT", "R", "RIGHT")}
_SQUARE = re.compile(r"([a-z])([1-9][0-9]?)")
_STEPS = {(-1, 0): "U", (1, 0): "D", (0, -1): "L", (0, 1): "R"}


class MazeTask(Task):
    """Routes through a maze, for completion, gold, diamond and avoid_lava: d = 4.

    With ``maze_seed`` or ``maze`` all seeds give that one maze. Otherwise every seed gives another
    maze of the layout. A route is valid if it reaches E within the budget. It is solved if its
    reward vector is a point of the true front.

    >>> task = MazeTask(maze="S . G\\n# . .\\nD . E")
    >>> maze = task.instance(0)
    >>> task.prompt(maze, 2, pocket={"board": 3}).symbols
    '<m2> <b10> a1S b1. c1G a2# b2. c2. a3D b3. c3E'
    >>> task.parse(maze, "<route_1> b1 b2 b3 c3 </route_1> <route_2> b1 c1 c3 </route_2>", 2)
    ['RDDR', None]
    >>> task.score([maze], [["RDDR"]])[0].tolist()
    [[1.0, 0.0, 0.0, 1.0]]
    """

    name = "maze"
    noun = "maze"
    tag = "route"
    singles_out = ("maze_seed", "maze", "maze_budget")
    options = (
        Option(
            "layout",
            str,
            "lite-6x6",
            "layout of the mazes: " + ", ".join(envs.PRESETS),
            choices=tuple(envs.PRESETS),
        ),
        Option("maze_seed", int, None, "train on this one maze; without it, on many", least=0),
        Option(
            "maze",
            str,
            None,
            "train on the maze drawn in this text file, with one of .#SEGDLB per square",
            file=True,
        ),
        Option(
            "maze_budget",
            int,
            None,
            "with --maze: most moves per route; default: shortest way + twice the side",
            least=1,
        ),
        Option(
            "reward_mode",
            str,
            "linear",
            "linear: fractions of gold and diamonds taken, and of lava avoided; "
            "convex_bonus: these squared, times 1.5 after a bonus square, at most 1",
            choices=envs.REWARD_MODES,
        ),
    )

    def __init__(self, **options):
        super().__init__(**options)
        if self.maze is not None and self.maze_seed is not None:
            raise ValueError(f"maze and maze_seed = {self.maze_seed}: give one of the two")
        if self.maze is not None and re.fullmatch(r".*[^.#SEGDLB\s\ufeff].*", self.maze):
            raise ValueError(
                f"maze = {shown(self.maze)}: expected rows of .#SEGDLB; in Python give the text "
                "itself, Path(FILE).read_text()"
            )
        if self.maze is None and self.maze_budget is not None:
            raise ValueError(
                f"maze_budget = {self.maze_budget}: goes with a drawn maze; a layout sets its own"
            )
        self._one = None
        if self.maze is not None:
            with told_of("the drawn maze"):
                self._one = envs.Maze.from_text(self.maze, budget=self.maze_budget)
                self._one.pareto_front(self.reward_mode)  # refuses a maze with too many items
        elif self.maze_seed is not None:
            self._one = envs.generate(self.layout, self.maze_seed)

    @property
    def unused(self) -> tuple[str, ...]:
        return ("layout",) if self.maze is not None else ()

    @property
    def all_differ(self) -> bool:
        return self._size > 4  # of a thousand mazes of tiny-4x4 a tenth repeat others

    @property
    def pocket_policy(self) -> str:
        return "pocket-9x9" if self._size > 6 else "pocket-6x6"

    @property
    def _size(self) -> int:
        return max(self._one.shape) if self.maze is not None else envs.PRESETS[self.layout].size

    def instance(self, seed: int) -> "envs.Maze":
        return self._one if self._one is not None else envs.generate(self.layout, seed)

    def key(self, instance) -> str:
        return f"{instance.text}|{instance.budget}"

    def objectives(self, instance) -> tuple[str, ...]:
        return envs.OBJECTIVES

    def front(self, instance) -> np.ndarray:
        return instance.pareto_front(self.reward_mode).rewards

    # --- the request for m routes, and its parser -------------------------------------------------

    def prompt(self, instance, m: int, *, weights=None, pocket: dict | None = None) -> Prompt:
        """The request for m routes: symbols for a pocket policy, otherwise words.

        ``pocket["board"]`` is the side length of the boards that the pocket policy reads.
        """
        if pocket is not None:
            return Prompt(symbols=self._squares(instance, m, weights, _most(pocket, "board")))
        return Prompt.words(self._words(instance, m, weights))

    def check_policy(self, m: int, pocket: dict | None) -> None:
        super().check_policy(m, pocket)
        if pocket is None:
            return
        _check_board(self._size, _most(pocket, "board"))
        most = _most(pocket, "budget")
        if self._one is not None and self._one.budget > most:
            raise ValueError(
                f"a maze with {self._one.budget} moves does not fit this policy, which reads "
                f"budgets up to {most}: give a smaller maze_budget, or ask a model in words"
            )

    def _squares(self, maze, m, weights, board) -> str:
        rows, columns = maze.shape
        _check_board(maze.size, board)
        symbols = maze.text.replace(" ", "").splitlines()
        cells = [  # a smaller maze is a board whose remaining squares are walls
            f"{_name(r, c)}{symbols[r][c] if r < rows and c < columns else '#'}"
            for r in range(board)
            for c in range(board)
        ]
        return " ".join([f"<m{m}>", f"<b{maze.budget}>", *weight_symbols(weights), *cells])

    def _words(self, maze, m, weights) -> str:
        asked = "one route" if m == 1 else f"{m} different routes, each good in a way of its own"
        lines = [
            "You are in a maze. Find your way from S to E.",
            "",
            maze.text,
            "",
            ". is free, # is a wall, S is the start, E the exit, G gold, D a diamond, L lava"
            + (", B a bonus." if maze.bonus else "."),
            f"You move UP, DOWN, LEFT or RIGHT, at most {maze.budget} moves. "
            "A move into a wall or off the board is lost.",
            "A route counts only if it ends on E. It is good to collect gold "
            f"({len(maze.gold)} on the board), to collect diamonds ({len(maze.diamonds)}), "
            f"and to stay off the lava ({len(maze.lava)}).",
        ]
        if self.reward_mode == "convex_bonus":
            lines.append(
                "Each of these three goals counts by the square of the share that you reach"
                + (", times 1.5 (1 at most) if you visit the bonus." if maze.bonus else ".")
            )
        if weights is not None:
            lines.append(weighed("goals", envs.OBJECTIVES, weights))
        lines += [
            f"Write {asked}, as moves with blanks between them, in exactly this form:",
            numbered_form(m, self.tag),
        ]
        return "\n".join(lines)

    def read(self, instance, body: str) -> str | None:
        """The moves of one answer; None where it is malformed.

        It is written as move words, as one string of letters, or as the squares visited after S.
        Squares that are walls, off the board or not adjacent make it malformed.
        """
        words = body.replace(",", " ").split()
        if not words:  # no move at all is a route, a comma alone is not
            return None if body.strip() else ""
        moves = [_MOVE_WORDS.get(word.upper() if word.isascii() else None) for word in words]
        if all(moves):
            return "".join(moves)
        if len(words) == 1 and words[0].isascii() and set(words[0].upper()) <= set("UDLR"):
            return words[0].upper()
        here, route = instance.start, []
        for word in words:
            square = _SQUARE.fullmatch(word)
            if square is None:
                return None
            there = (int(square[2]) - 1, ord(square[1]) - ord("a"))
            step = _STEPS.get((there[0] - here[0], there[1] - here[1]))
            if step is None or there not in instance.free:
                return None
            route.append(step)
            here = there
        return "".join(route)

    def write(self, instance, answers, pocket: dict | None = None) -> str:
        """Routes as moves with blanks between them; for a pocket policy as the squares visited.

        Of squares, :meth:`parse` is the inverse for routes without bumps into walls.
        """
        if pocket is None:
            return super().write(instance, [" ".join(route) for route in answers])
        offsets = {move: step for step, move in _STEPS.items()}
        walks = []
        for route in answers:
            (row, column), cells = instance.start, []
            for move in route:
                row, column = row + offsets[move][0], column + offsets[move][1]
                cells.append((row, column))
            walks.append(cells)
        return self.format_walks(walks)

    def format_walks(self, walks) -> str:
        """Walks as a pocket policy writes them. A walk lists its squares (row, column) after S."""
        bodies = (" ".join(_name(*cell) for cell in cells) for cells in walks)
        return write_numbered(bodies, self.tag)

    def max_tokens(self, instance, m: int, pocket: dict | None = None) -> int:
        route = instance.budget + 2  # squares and the two tags
        return m * (route if pocket is not None else 4 * route + 16) + 1

    # --- scoring ----------------------------------------------------------------------------------

    def score(self, instances, answers) -> list[np.ndarray]:
        mazes = [maze for maze, routes in zip(instances, answers, strict=True) for _ in routes]
        flat = [route for routes in answers for route in routes]
        rewards = envs.score_routes(mazes, flat, reward_mode=self.reward_mode)
        return np.split(rewards, np.cumsum([len(routes) for routes in answers]))[:-1]

    def same_effect(self, instance, answer: str) -> str:
        return envs.canonical_route(instance, answer)

    def valid(self, instance, rewards: np.ndarray) -> np.ndarray:
        return np.asarray(rewards)[..., 0] > 0

    # --- search -----------------------------------------------------------------------------------

    def combine(self, instance, first: str, second: str) -> list[str]:
        """The first moves of one route and the last ones of the other, from where they meet.

        >>> task = MazeTask(maze="S . G\\n# . .\\nD . E")
        >>> task.combine(task.instance(0), "RRDLDR", "RDRD")
        ['RDDR', 'RDRLDR', 'RRDD', 'RRDLRD']
        """
        (a, seen), (b, others) = (_places(instance, route) for route in (first, second))
        found = set()
        for i, square in enumerate(seen):
            for j in (j for j, other in enumerate(others) if other == square):
                found |= {a[:i] + b[j:], b[:j] + a[i:]}
        return sorted(r for r in found - {a, b} if len(r) <= instance.budget)

    def mutate(self, instance, answer: str | None, rng) -> str:
        """A route with up to three moves replaced by up to three others; for None a random walk."""
        if answer is None:
            return "".join(rng.choice(list("UDLR"), instance.budget))
        route = envs.canonical_route(instance, answer)
        i, cut, new = rng.integers(len(route) + 1), *rng.integers(4, size=2)
        return route[:i] + "".join(rng.choice(list("UDLR"), new)) + route[i + cut :]


def _places(maze, route: str) -> tuple[str, list]:
    """The moves that count, without bumps, and the squares they pass, S first."""
    squares = envs.walk(maze, route).squares
    steps = pairwise(squares)
    return "".join(_STEPS[(r - row, c - column)] for (row, column), (r, c) in steps), squares


def _name(row: int, column: int) -> str:
    return f"{chr(ord('a') + column)}{row + 1}"


def _most(pocket: dict, what: str) -> int:
    """The largest board, or budget, that a pocket policy reads."""
    if pocket.get(what) is None:
        raise ValueError(
            "this policy does not say which mazes it reads: vpo_pocket in its config.json has no "
            f"{what}; name another model"
        )
    return pocket[what]


def _check_board(size: int, board: int) -> None:
    if size > board:
        larger = "pocket-9x9, or one" if board < size <= 9 else "one"
        raise ValueError(
            f"a maze with sides of {size} squares does not fit this policy, which reads boards up "
            f"to {board}x{board}: draw a smaller maze, or choose a model that reads it "
            f"({larger} that is asked in words)"
        )
