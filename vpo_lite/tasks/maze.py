"""The maze as a language task: how m routes are asked for, read back and scored.

The prompt and its parser stand side by side on purpose: a drift between them deflates rewards without any error.
The pocket policies read squares (``b3#``: square b3 is a wall) and write the squares they visit; any other model is
asked in words and answers with moves. Both are parsed by the same function, and both end as move strings like ``RRDD``.
"""

import functools
import re

import numpy as np

import envs

MAX_ANSWERS = 9
_TAGGED = re.compile(r"<route_([1-9])>([^<>]*)</route_\1>")
_MOVE_WORDS = {"U": "U", "UP": "U", "D": "D", "DOWN": "D", "L": "L", "LEFT": "L", "R": "R", "RIGHT": "R"}
_SQUARE = re.compile(r"([a-z])([1-9][0-9]?)")
_STEPS = {(-1, 0): "U", (1, 0): "D", (0, -1): "L", (0, 1): "R"}


class MazeTask:
    """Routes through gold, diamonds and lava: d = 4 objectives (completion, gold, diamond, avoid_lava).

    Args: layout: preset that :meth:`instance` draws from; maze: one hand-drawn maze instead (every seed gives it);
    reward_mode: "linear" or "convex_bonus" (see envs).

    >>> task = MazeTask()
    >>> maze = envs.Maze.from_text("S . G\\n# . .\\nD . E")
    >>> print(task.request(maze, 2, board=3))
    <m2> <b10> a1S b1. c1G a2# b2. c2. a3D b3. c3E
    >>> task.parse(maze, "<route_1> b1 b2 b3 c3 </route_1> <route_2> b1 c1 c3 </route_2>", 2)
    ['RDDR', None]
    >>> task.score(maze, ["RDDR"]).tolist()
    [[1.0, 0.0, 0.0, 1.0]]
    """

    name = "maze"

    def __init__(self, layout: str = "lite-6x6", maze: "envs.Maze | None" = None, reward_mode: str = "linear"):
        if maze is None and layout not in envs.PRESETS:
            raise ValueError(f"unknown layout {layout!r}: there are {', '.join(map(repr, envs.PRESETS))}")
        self.layout, self.maze, self.reward_mode = layout, maze, reward_mode

    def instance(self, seed: int) -> "envs.Maze":
        return self.maze if self.maze is not None else envs.generate(self.layout, seed)

    def key(self, instance) -> str:
        return f"{instance.text}|{instance.budget}"

    def objectives(self, instance) -> tuple[str, ...]:
        return envs.OBJECTIVES

    def w_star(self, instance) -> np.ndarray:
        return np.full(len(envs.OBJECTIVES), 1 / len(envs.OBJECTIVES))

    def worst(self, instance) -> np.ndarray:
        return np.zeros(len(envs.OBJECTIVES))

    # --- the request for m routes, and its parser -------------------------------------------------------------------

    def request(self, instance, m: int, *, weights=None, board: int | None = None) -> str:
        """The prompt: squares for a pocket policy whose board has ``board`` squares a side, words otherwise."""
        if not 1 <= m <= MAX_ANSWERS:
            raise ValueError(f"m = {m}: a maze prompt can ask for 1 to {MAX_ANSWERS} routes")
        return self._squares(instance, m, weights, board) if board else self._words(instance, m, weights)

    def _squares(self, maze, m, weights, board) -> str:
        rows, columns = maze.shape
        if max(rows, columns) > board:
            raise ValueError(
                f"a {rows}x{columns} maze does not fit this policy, which reads boards up to {board}x{board}: "
                "draw a smaller maze, or choose a model that reads it (pocket-9x9, or one that is asked in words)"
            )
        symbols = maze.text.replace(" ", "").splitlines()
        cells = [  # a smaller maze is a board whose remaining squares are walls
            f"{_name(r, c)}{symbols[r][c] if r < rows and c < columns else '#'}" for r in range(board) for c in range(board)
        ]
        shown = [] if weights is None else [f"<w{round(10 * float(w))}>" for w in weights]
        return " ".join([f"<m{m}>", f"<b{maze.budget}>", *shown, *cells])

    def _words(self, maze, m, weights) -> str:
        form = " ".join(f"<route_{i}> ... </route_{i}>" for i in range(1, m + 1))
        asked = "one route" if m == 1 else f"{m} different routes, each good in a way of its own"
        lines = [
            "You are in a maze. Find your way from S to E.",
            "",
            maze.text,
            "",
            ". is free, # is a wall, S is the start, E the exit, G gold, D a diamond, L lava"
            + (", B a bonus." if maze.bonus else "."),
            f"You move UP, DOWN, LEFT or RIGHT, at most {maze.budget} moves. A move into a wall or off the board is lost.",
            f"A route counts only if it ends on E. It is good to collect gold ({len(maze.gold)} on the board), to collect "
            f"diamonds ({len(maze.diamonds)}), and to stay off the lava ({len(maze.lava)}).",
        ]
        if weights is not None:
            wanted = ", ".join(f"{n} {w:.2f}" for n, w in zip(envs.OBJECTIVES, weights, strict=True))
            lines.append(f"This time the goals weigh: {wanted}.")
        lines += [f"Write {asked}, as moves with blanks between them, in exactly this form:", form]
        return "\n".join(lines)

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        """Read m routes back, as move strings.

        Answer i is what stands in the first complete ``<route_i> ... </route_i>``; nothing is fished out of free prose.
        None: no such pair (missing, truncated), other words in it, or a walk over squares that are walls, off the board
        or not adjacent. Tags numbered above m are not read.
        """
        found: dict[int, str] = {}
        for match in _TAGGED.finditer(text):
            found.setdefault(int(match[1]), match[2])
        return [self._moves(instance, found[i]) if i in found else None for i in range(1, m + 1)]

    def format(self, instance, routes) -> str:
        """Write routes (move strings) the way a pocket policy does; the inverse of :meth:`parse` for walks without bumps."""
        return self.format_walks(_walk(instance, route) for route in routes)

    def format_walks(self, walks) -> str:
        """The same for walks given as lists of the squares (row, column) after S."""
        parts = []
        for i, cells in enumerate(walks, 1):
            parts += [f"<route_{i}>", *(_name(*cell) for cell in cells), f"</route_{i}>"]
        return " ".join(parts)

    def _moves(self, maze, body: str) -> str | None:
        words = body.replace(",", " ").split()
        moves = [_MOVE_WORDS.get(word.upper()) for word in words]
        if all(moves):
            return "".join(moves)
        if len(words) == 1 and set(words[0]) <= set("UDLR"):
            return words[0]
        (rows, columns), here, route = maze.shape, maze.start, []
        for word in words:
            square = _SQUARE.fullmatch(word)
            if square is None:
                return None
            there = (int(square[2]) - 1, ord(square[1]) - ord("a"))
            step = _STEPS.get((there[0] - here[0], there[1] - here[1]))
            if step is None or there in maze.walls or not (there[0] < rows and there[1] < columns):
                return None
            route.append(step)
            here = there
        return "".join(route)

    # --- scoring ----------------------------------------------------------------------------------------------------

    def same_effect(self, instance, answer: str) -> str:
        return envs.canonical_route(instance, answer)

    def score(self, instance, answers) -> np.ndarray:
        return envs.score_routes(instance, list(answers), reward_mode=self.reward_mode)

    def succeeded(self, rewards: np.ndarray) -> np.ndarray:
        return np.asarray(rewards)[..., 0] > 0

    def front(self, instance) -> np.ndarray:
        return _front(instance, self.reward_mode)

    def answer_tokens(self, instance) -> int:
        return instance.budget + 2


@functools.lru_cache(maxsize=1024)
def _front(maze, reward_mode: str) -> np.ndarray:
    """A run asks for the same front for every group at every step."""
    return maze.pareto_front(reward_mode=reward_mode).rewards


def _name(row: int, column: int) -> str:
    return f"{chr(ord('a') + column)}{row + 1}"


def _walk(maze, route: str) -> list[tuple[int, int]]:
    """The cells visited after the start, by a route that never bumps."""
    offsets = {move: step for step, move in _STEPS.items()}
    row, column = maze.start
    cells = []
    for move in route:
        row, column = row + offsets[move][0], column + offsets[move][1]
        cells.append((row, column))
    return cells
