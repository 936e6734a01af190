"""The maze: a frozen record, and the gymnasium environment that walks on it."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field

import numpy as np

from . import _grid
from .front import pareto_front
from .scoring import OBJECTIVES

SYMBOLS = ".SEGDLB#"
LARGEST_SIDE = 26  # square names need a letter for each column
LARGEST_BUDGET = 10_000  # far beyond any useful walk; keeps every episode finite in practice

__all__ = ["OBJECTIVES", "Maze"]


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

    def square_name(self, position):
        """The name of a square as on a chess board, but with row 1 at the top: (row 2, column 1) is ``b3``.

        >>> Maze.from_text("S . .\\n. . .\\n. . E").square_name((2, 1))
        'b3'
        """
        row, column = self._check_position(position)
        return f"{chr(ord('a') + column)}{row + 1}"

    def _check_position(self, position):
        try:
            row, column = (operator.index(x) for x in position)
        except (TypeError, ValueError):
            raise ValueError(f"position: got {position!r}, expected a (row, column) pair of integers") from None
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
        raise ValueError(f"budget: got {budget!r}, expected a whole number of steps, or None")
    if not shortest <= steps <= LARGEST_BUDGET:
        raise ValueError(
            f"budget: got {steps}, but the shortest way to E takes {shortest} step{'s' * (shortest != 1)}; "
            f"give between {shortest} and {LARGEST_BUDGET}"
        )
    return steps
