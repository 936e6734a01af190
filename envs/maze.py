"""The maze: a frozen record of a grid and a budget of moves."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from . import _grid, drawing
from ._grid import shown
from .describe import Description
from .front import ParetoFront, pareto_front

SYMBOLS = ".SEGDLB#"
LARGEST_SIDE = 26  # square names need a letter for each column
LARGEST_BUDGET = 10_000  # far beyond any useful walk; keeps every episode short enough to wait for


@dataclass(frozen=True)
class Maze:
    """A maze with gold, diamonds and lava: a grid and a budget of moves, immutable.

    Make one with :func:`envs.generate` or :meth:`Maze.from_text`. All else follows from text and
    budget, so two mazes are equal when these are. A maze can be a dictionary key, and it pickles as
    its text and budget.

    Attributes:
        text: rows of symbols with blanks between, one row a line: ``. S E G D L B #``
            (floor, start, exit, gold, diamond, lava, bonus, wall).
        budget: the most moves of a route.
        shape: (rows, columns).
        start, exit: (row, column), row 0 at the top.
        gold, diamonds, lava, bonus, walls: tuples of (row, column) in reading order.

    >>> maze = Maze.from_text("S . G\\n. # .\\nD L E")
    >>> maze.size, maze.start, maze.exit, maze.gold, maze.budget
    (3, (0, 0), (2, 2), ((0, 2),), 10)
    """

    text: str
    budget: int
    shape: tuple[int, int] = field(init=False, compare=False, repr=False)
    start: tuple[int, int] = field(init=False, compare=False, repr=False)
    exit: tuple[int, int] = field(init=False, compare=False, repr=False)
    gold: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    diamonds: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    lava: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    bonus: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    walls: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)

    @classmethod
    def from_text(cls, text: str, budget: int | None = None) -> Self:
        """Returns the maze that rows of the symbols ``. S E G D L B #`` draw.

        Blanks between symbols, empty lines and a byte-order mark at the start do not matter.

        Args:
            text: the grid, one row a line, at most 26 x 26.
            budget: the most moves of a route, at most 10,000. None means the length of the
                shortest path to E plus 2n, where n is the larger side.

        Raises:
            ValueError: an unknown symbol, rows of unequal length, a larger grid, no or several S or
                E, no path to E, or a budget outside its range. Messages name squares as
                `square_name` does, but those on symbols and rows give row and column, from 1.

        >>> Maze.from_text("SE").budget
        5
        >>> Maze.from_text("S.\\n.")
        Traceback (most recent call last):
        ...
        ValueError: text: row 2 has 1 symbol, but row 1 has 2; every row needs the same number
        """
        return cls(text, budget)

    def __post_init__(self):
        rows = _parse_rows(self.text)
        height, width = len(rows), len(rows[0])
        found = {symbol: [] for symbol in SYMBOLS}
        for r, row in enumerate(rows):
            for c, symbol in enumerate(row):
                found[symbol].append((r, c))
        for symbol, name in (("S", "start"), ("E", "exit")):
            if len(found[symbol]) != 1:
                places = " and ".join(map(_name, found[symbol][:3]))
                more = f" ({places}); keep one" if places else f"; put {symbol} on a free square"
                raise ValueError(
                    f"text: a maze needs exactly one {symbol} ({name}), "
                    f"this one has {len(found[symbol])}{more}"
                )
        stride = width + 1
        (start,), (exit_,) = found["S"], found["E"]
        free = _grid.mask(
            (square for symbol, squares in found.items() if symbol != "#" for square in squares),
            stride,
        )
        shortest = _grid.distance(_grid.bit(start, stride), _grid.bit(exit_, stride), free, stride)
        if shortest is None:
            raise ValueError(
                f"text: no path from S ({_name(start)}) to E ({_name(exit_)}); "
                "open a wall between them"
            )
        self.__dict__.update(
            text="\n".join(" ".join(row) for row in rows),
            budget=_check_budget(self.budget, shortest, max(height, width)),
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

    def _repr_html_(self):
        return drawing.svg(self)._repr_html_()

    @property
    def size(self) -> int:
        """n of an n x n maze; the larger side of a drawn grid that is not square."""
        return max(self.shape)

    @functools.cached_property
    def free(self) -> frozenset[tuple[int, int]]:
        """The set of squares that can be walked on, as (row, column)."""
        rows, columns = self.shape
        return frozenset((r, c) for r in range(rows) for c in range(columns)) - set(self.walls)

    def pareto_front(self, reward_mode: str = "linear") -> ParetoFront:
        """Returns the exact Pareto front of this maze; see :func:`envs.pareto_front`.

        >>> front = Maze.from_text("G . D\\n. S .\\n. E .", budget=6).pareto_front()
        >>> front.rewards.tolist()
        [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]]
        """
        return pareto_front(self, reward_mode)

    def distances(self, target: tuple[int, int]) -> np.ndarray:
        """Returns the moves from every square to `target`, as an int array of the maze's shape.

        Walls, and squares without a path to the target, hold -1. Paths may lead through E, where a
        walk would end.

        Args:
            target: (row, column).

        Raises:
            ValueError: a target outside the maze.

        >>> Maze.from_text("S . #\\n# . E").distances((1, 2)).tolist()
        [[3, 2, -1], [-1, 1, 0]]
        """
        target = self._check_position(target)
        stride = self.shape[1] + 1
        steps = np.full(self.shape, -1)
        free = _grid.mask(self.free, stride)
        waves = _grid.wavefronts(_grid.bit(target, stride) & free, free, stride)
        for distance, wave in enumerate(waves):
            for square in _grid.squares(wave, stride):
                steps[square] = distance
        return steps

    def symbol(self, position: tuple[int, int]) -> str:
        """Returns the symbol on a square, given as (row, column). ValueError outside the maze.

        >>> Maze.from_text("S G\\n. E").symbol((0, 1))
        'G'
        """
        row, column = self._check_position(position)
        return self.text[row * 2 * self.shape[1] + 2 * column]

    def square_name(self, position: tuple[int, int]) -> str:
        """Returns the name of a square as on a chess board, but with row 1 at the top.

        >>> Maze.from_text("S . .\\n. . .\\n. . E").square_name((2, 1))
        'b3'
        """
        return _name(self._check_position(position))

    def describe(self) -> Description:
        """Returns which rules of the generated mazes hold: a dict that prints as a table.

        The values are True, False, or None where a rule does not apply. A hand-drawn maze need not
        keep any rule. ``paper-9x9`` need not keep the rules on every lava tile and on
        all gold and all diamonds.

        >>> print(Maze.from_text("S . G\\n. # .\\nD . E", budget=4).describe())
        yes  S and E lie on opposite corners
        yes  gold lies near one of the other corners, diamonds near the other
        yes  a lava-free path to E fits the budget
        yes  a path through either treasure corner fits the budget
        yes  a path through both corners, in either order, does not fit
        -    every lava tile lies on a shortest path or beside treasure
        yes  no route takes all gold and all diamonds
        yes  no route is best at everything (the front has 2 points)
        """
        return Description(self)

    def _check_position(self, position):
        try:
            row, column = (operator.index(x) for x in position)
        except (TypeError, ValueError):
            raise ValueError(
                f"position: got {shown(position)}, expected a (row, column) pair of integers"
            ) from None
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            raise ValueError(
                f"position: got {(row, column)}, expected a row below {self.shape[0]} and a column "
                f"below {self.shape[1]}, both from 0"
            )
        return row, column


def _name(square):
    row, column = square
    return f"{chr(ord('a') + column)}{row + 1}"


def _parse_rows(text):
    """Rows of symbols as strings, checked: a rectangle of known symbols."""
    if not isinstance(text, str):
        raise ValueError(
            f"text: got {type(text).__name__}, "
            "expected a string with one row of the grid on each line"
        )
    rows = ["".join(line.split()) for line in text.removeprefix("\ufeff").splitlines()]
    rows = [row for row in rows if row]
    symbols = " ".join(SYMBOLS)
    if not rows:
        raise ValueError(f"text: the grid is empty; write rows of the symbols {symbols}")
    for r, row in enumerate(rows, start=1):
        for c, symbol in enumerate(row, start=1):
            if symbol not in SYMBOLS:
                raise ValueError(
                    f"text: unknown symbol {symbol!r} at row {r}, column {c}; "
                    f"the symbols are {symbols}"
                )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"text: row {r} has {len(row)} symbol{'s' * (len(row) != 1)}, "
                f"but row 1 has {len(rows[0])}; every row needs the same number"
            )
    if max(len(rows), len(rows[0])) > LARGEST_SIDE:
        raise ValueError(
            f"text: the grid has {len(rows)} rows and {len(rows[0])} columns; "
            f"the largest has {LARGEST_SIDE} of each"
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
        raise ValueError(f"budget: got {shown(budget)}, expected a whole number of moves, or None")
    if not shortest <= steps <= LARGEST_BUDGET:
        raise ValueError(
            f"budget: got {steps}, expected {shortest} (the shortest path to E) to "
            f"{LARGEST_BUDGET:,} moves"
        )
    return steps
