"""Moves on the grid, and sets of squares as bit masks: one shift moves every square of a set.

Square (row, column) of a grid with `columns` columns is bit ``row * stride + column``, where
``stride = columns + 1``. No square lies in the extra column, so a shift cannot wrap into the next
row.
"""

import functools
import operator
import reprlib

# letter -> (row step, column step); the order is the order of the actions 0-3
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def moved(square, move, free):
    """The (row, column) that a move leads to; the same square where a wall or border blocks it."""
    there = (square[0] + MOVES[move][0], square[1] + MOVES[move][1])
    return there if there in free else square


def bit(square, stride):
    """The mask of one (row, column)."""
    return 1 << (square[0] * stride + square[1])


def mask(squares, stride):
    """The mask of these (row, column) squares."""
    return union(bit(square, stride) for square in squares)


def union(masks):
    return functools.reduce(operator.or_, masks, 0)


def single_bits(mask):
    """One mask for each square of a mask, in reading order."""
    bits = []
    while mask:
        lowest = mask & -mask
        bits.append(lowest)
        mask ^= lowest
    return bits


def squares(mask, stride):
    """The (row, column) squares of a mask, in reading order."""
    return tuple(divmod(one.bit_length() - 1, stride) for one in single_bits(mask))


def neighbours(mask, stride):
    """Every square one step away from the mask; the caller takes out walls and borders."""
    return mask << 1 | mask >> 1 | mask << stride | mask >> stride


def wavefronts(start, free, stride):
    """Breadth-first search on `free`: yields the mask at distance 0, 1, 2, ... from `start`."""
    wave, unseen = start, free & ~start
    while wave:
        yield wave
        wave = neighbours(wave, stride) & unseen
        unseen ^= wave


def reached(start, free, stride):
    """The mask of the squares that a path from `start` over `free` leads to."""
    return union(wavefronts(start, free, stride))


def distance(start, target, free, stride):
    """Steps of a shortest path from `start` to `target` over `free`; None if there is none."""
    for steps, wave in enumerate(wavefronts(start, free, stride)):
        if wave & target:
            return steps
    return None


def shown(value):
    """A value as an error message names it: short, and on one line."""
    return " ".join(reprlib.repr(value).split())
