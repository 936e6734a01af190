"""Grids as bit boards: a set of cells is one integer, and one shift moves all of them at once.

Cell (row, column) of a grid with `columns` columns is bit ``row * stride + column`` with ``stride = columns + 1``. The
extra column is never free, so a shift to the left or right cannot wrap into the next row.
"""

import reprlib

# letter -> (row step, column step); the order is the order of the actions 0-3
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def bit(position, stride):
    """The board that holds this one (row, column)."""
    return 1 << (position[0] * stride + position[1])


def board(positions, stride):
    """The board that holds these (row, column) positions."""
    cells = 0
    for row, column in positions:
        cells |= 1 << (row * stride + column)
    return cells


def positions(cells, stride):
    """The (row, column) positions on a board, in reading order."""
    found = []
    while cells:
        lowest = cells & -cells
        found.append(divmod(lowest.bit_length() - 1, stride))
        cells ^= lowest
    return tuple(found)


def neighbours(cells, stride):
    """Every cell one step away from a cell of the board (borders and walls are the caller's: ``& free``)."""
    return cells << 1 | cells >> 1 | cells << stride | cells >> stride


def wavefronts(start, free, stride):
    """Breadth-first search: yields the board of the cells at distance 0, 1, 2, ... of `start`, walking on `free`."""
    wave, unseen = start, free & ~start
    while wave:
        yield wave
        wave = neighbours(wave, stride) & unseen
        unseen ^= wave


def distance(start, target, free, stride):
    """Steps of a shortest way from board `start` to board `target` over `free`; None if there is none."""
    for steps, wave in enumerate(wavefronts(start, free, stride)):
        if wave & target:
            return steps
    return None


def shown(value):
    """A value as an error message names it: short, and on one line."""
    return " ".join(reprlib.repr(value).split())
