"""Conditionals: programs that a search puts together, and that no policy can write.

``?5 reverse : plus`` runs ``reverse`` if the first digit of the input is 5 or more, otherwise
``plus``. Either side may be a conditional itself. The tests of a problem come from branches that
the first digit tells apart. So with the program of each branch at hand, one conditional (two
branches) or two (three branches) pass all tests.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..checks import shown

DEEPEST = 2  # conditionals inside each other: up to four branches
MOST_OPERATIONS = 3  # in a row


class Conditional(NamedTuple):
    """What runs if the first digit of the input is ``digit`` or more, and what runs otherwise."""

    digit: int
    high: "Conditional | str"
    low: "Conditional | str"


@lru_cache(maxsize=65_536)
def read_conditional(text: str) -> Conditional | str:
    """A text as a tree of conditionals; a plain program stays as it is.

    Raises ValueError for a text that is no conditional, or one of more than two levels.

    >>> read_conditional("?3 plus : ?7 sort : left left")
    Conditional(digit=3, high='plus', low=Conditional(digit=7, high='sort', low='left left'))
    """
    words = text.split()[::-1]
    if text.count("?") < 2**DEEPEST:
        tree = _read(words)
        if tree is not None and not words and _levels(tree) <= DEEPEST:
            return tree
    raise ValueError(
        f"program {shown(text)}: expected operations, or '?t A : B' with a digit t from 1 to 9, at "
        f"most {DEEPEST} of these inside each other"
    )


def _read(words: list[str]) -> Conditional | str | None:
    """Takes a tree off the end of the reversed words; None where there is none."""
    if words and words[-1].startswith("?"):
        mark, high = words.pop(), _read(words)
        colon = words.pop() if words else ""
        low = _read(words)
        whole = re.fullmatch(r"\?[1-9]", mark, re.ASCII) and colon == ":"
        return Conditional(int(mark[1]), high, low) if whole and high and low else None
    program = []
    while words and words[-1] != ":" and not words[-1].startswith("?"):
        program.append(words.pop())
    return " ".join(program) or None


def _levels(tree: Conditional | str) -> int:
    return 0 if isinstance(tree, str) else 1 + max(_levels(tree.high), _levels(tree.low))


def run_conditional(text: str, digits: np.ndarray, rows_of: Callable) -> np.ndarray:
    """What an answer gives on n inputs: (n, ...), for each input the row of the program it runs.

    - digits (n,): first digits of the inputs
    - rows_of: from a plain program to its rows (n, ...), such as its outputs, or what it passes

    >>> rows = {"plus": np.array([1, 1, 1]), "sort": np.array([2, 2, 2])}
    >>> run_conditional("?4 plus : sort", np.array([3, 4, 5]), rows.get).tolist()
    [2, 1, 1]
    """

    def run(tree):
        if isinstance(tree, str):
            return rows_of(tree)
        high, low = run(tree.high), run(tree.low)
        return np.where((digits >= tree.digit).reshape(-1, *[1] * (high.ndim - 1)), high, low)

    return run(read_conditional(text))


def conditionals_of(first: str, second: str) -> list[str]:
    """The 18 conditionals of two answers: nine digits, both orders. Empty if one has two levels.

    >>> conditionals_of("plus", "sort")[::9]
    ['?1 plus : sort', '?1 sort : plus']
    """
    if max(_levels(read_conditional(text)) for text in (first, second)) == DEEPEST:
        return []
    orders = (first, second), (second, first)
    return [f"?{digit} {high} : {low}" for high, low in orders for digit in range(1, 10)]


def mutated(answer: str | None, operations: Sequence[str], rng) -> str:
    """An answer with one operation drawn anew, added or removed; for None a random program.

    Each row of operations keeps its length between one and three. Conditions stay as they are.
    """
    if answer is None:
        drawn = rng.integers(len(operations), size=rng.integers(1, MOST_OPERATIONS + 1))
        return " ".join(operations[i] for i in drawn)
    parts = re.split(r"(\?\d|:)", answer)  # programs stand at even places, some are empty
    place = rng.choice([i for i in range(0, len(parts), 2) if parts[i].strip()])
    words = parts[place].split()
    i, new = rng.integers(len(words)), operations[rng.integers(len(operations))]
    changes = [[*words[:i], new, *words[i + 1 :]]]
    changes += [[*words[:i], new, *words[i:]]] if len(words) < MOST_OPERATIONS else []
    changes += [[*words[:i], *words[i + 1 :]]] if len(words) > 1 else []
    parts[place] = " ".join(changes[rng.integers(len(changes))])
    return " ".join(part.strip() for part in parts if part.strip())
