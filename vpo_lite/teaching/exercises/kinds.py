"""What an exercise is, and how the common kinds of answers are judged.

An exercise knows its solution and the wrong answers that people give (`Slip`), each with a hint of
its own. A judge compares an answer with the solution first, then with every slip. An answer that is
neither gets a general hint.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_finite, raised, shown
from ..predictions import COMMA

BLANK = "No answer yet: it is `...` or None. Change your line, and run this cell again."
NO_FUNCTION = "Give the function itself, without brackets."
BLANK_BODY = "The function returns nothing yet. Replace the dots by lines that end with `return`."
FINITE = "One finite number, or one array of them, is asked for."
TOLERANCE = 1e-4  # absolute and relative, of each number that a function returns


class Slip(NamedTuple):
    """A common wrong answer, and the hint that it gets."""

    answer: Any
    hint: str


@dataclass(frozen=True)
class Exercise:
    """One exercise: what it is called, what is right, and what to say to everything else.

    key       of a notebook and a letter: "02-b"
    title     a few words; the heading in the notebook ends with them
    minutes   whole minutes to spend on it
    level     1 (read off), 2 (think) or 3 (make something, mostly code)
    solution  an answer that is right
    learned   what a right answer shows, in a sentence
    judge     answer -> None where it is right, else a hint
    slips     wrong answers and their hints; where many answers are right, examples for the tests
    """

    key: str
    title: str
    minutes: int
    level: int
    solution: Any
    learned: str
    judge: Callable[[Any], str | None] = field(repr=False)
    slips: tuple[Slip, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "slips", tuple(Slip(*slip) for slip in self.slips))

    @property
    def heading(self) -> str:
        """The heading of the exercise in its notebook.

        >>> number("09-a", "Half", minutes=2, level=1, solution=0.5, hint="", learned="").heading
        '### Exercise 09-a · Half (2 minutes, ●○○)'
        """
        dots = "●" * self.level + "○" * (3 - self.level)
        minutes = "1 minute" if self.minutes == 1 else f"{self.minutes} minutes"
        return f"### Exercise {self.key} · {self.title} ({minutes}, {dots})"


def is_blank(answer) -> bool:
    """Whether nothing was answered: the dots of the empty cell, or None."""
    return answer is None or answer is ...


def numbers_of(answer) -> np.ndarray | None:
    """The numbers of an answer as an array of floats; None unless all are finite and real.

    >>> numbers_of([1, 0.5]), numbers_of(["1", "0.5"]), numbers_of(1j), numbers_of(float("nan"))
    (array([1. , 0.5]), None, None, None)
    """
    try:
        return check_finite(answer, "answer", 0)
    except Exception:  # a reader's own class may raise anything
        return None


def number(
    key: str,
    title: str,
    *,
    minutes: int,
    level: int,
    solution: float,
    hint: str,
    learned: str,
    slips: Sequence[tuple[float, str]] = (),
    tolerance: float = 0.005,
    nearly: tuple[float, str] | None = None,
) -> Exercise:
    """An exercise whose answer is a number, right within `tolerance` (in the number's unit).

    nearly: within this distance an answer that is neither right nor a slip gets this hint

    >>> half = number("09-a", "Half", minutes=2, level=1, solution=0.5, hint="Cut it in two.",
    ...               slips=[(2, "Twice is not half.")], learned="A half is 0.5.")
    >>> half.judge(0.501), half.judge(2), half.judge(7)
    (None, 'Twice is not half.', 'Cut it in two.')
    """

    def judge(answer):
        given = numbers_of(answer)
        if type(answer) is tuple and [type(part) for part in answer[:2]] == [int, int]:
            return f"{shown(answer)} {COMMA}"  # Python reads 1,728 as a tuple
        if given is None or given.size != 1 or isinstance(answer, bool | np.bool_):
            return f"A number is asked for, and this is {shown(answer)}."
        for value, said in ((solution, None), *slips):
            if abs(given.item() - value) <= tolerance:
                return said
        if nearly and abs(given.item() - solution) <= nearly[0]:
            return nearly[1]
        return hint

    return Exercise(key, title, minutes, level, solution, learned, judge, slips)


def choice(
    key: str,
    title: str,
    options: dict[str, str | None],
    *,
    minutes: int,
    level: int,
    learned: str,
    read: Callable[[str], str] = str.casefold,
) -> Exercise:
    """An exercise whose answer is one of some texts, in capital or small letters.

    options: each text with the hint that it gets; the one with None is right.
    read: texts for which it gives the same are one answer.

    >>> larger = choice("09-b", "Larger", {"3": "It is the smaller one.", "4": None},
    ...                 minutes=1, level=1, learned="4 is more than 3.")
    >>> larger.judge("4"), larger.judge("3"), larger.judge("5")
    (None, 'It is the smaller one.', "Choose one of '3', '4'. This is '5'.")
    """
    hints = {read(text): said for text, said in options.items()}
    assert len(hints) == len(options), options
    (solution,) = (text for text, said in options.items() if said is None)
    slips = tuple((text, said) for text, said in options.items() if said is not None)

    def judge(answer):
        if isinstance(answer, list | tuple) and all(isinstance(part, str) for part in answer):
            answer = ", ".join(answer)
        if not isinstance(answer, str) or (given := read(answer.strip())) not in hints:
            return f"Choose one of {', '.join(map(repr, options))}. This is {shown(answer)}."
        return hints[given]

    return Exercise(key, title, minutes, level, solution, learned, judge, slips)


def function(
    key: str,
    title: str,
    *,
    minutes: int,
    level: int,
    solution: Callable,
    cases: Callable[[], list[tuple]],
    hint: str,
    learned: str,
    slips: Sequence[tuple[Callable, str]] = (),
    not_finite: str = FINITE,
) -> Exercise:
    """An exercise whose answer is a function. It is called, and compared with the solution.

    solution, slips  functions of the same arguments
    cases            () -> the arguments of each call; each call gets copies of them
    not_finite       what is said where it returns NaN or infinity

    >>> twice = function("09-c", "Twice", minutes=1, level=3, solution=lambda x: 2 * x,
    ...                  cases=lambda: [(1.0,), (3.0,)], hint="Double it.", learned="It doubles.",
    ...                  slips=[(lambda x: x**2, "This squares.")])
    >>> twice.judge(lambda x: x + x), twice.judge(lambda x: x * x)
    (None, 'This squares.')
    >>> print(twice.judge(lambda x: x))
    Double it. In the first case it returns 1, and 2 is right.
    """

    def judge(answer):
        calls = cases()
        outputs, refused = returned(answer, calls, not_finite)
        if refused:
            return refused
        right = [np.asarray(solution(*call), dtype=float) for call in calls]
        if _agree(outputs, right):
            return None
        for wrong, said in slips:
            if _agree(outputs, [np.asarray(wrong(*call), dtype=float) for call in calls]):
                return said
        return f"{hint} {_difference(outputs, right)}"

    return Exercise(key, title, minutes, level, solution, learned, judge, slips)


def returned(
    answer, calls: Iterable[tuple], not_finite: str = FINITE
) -> tuple[list[np.ndarray], str | None]:
    """What a reader's function returns for each of these arguments, and None; or [] and a hint.

    The numbers come as arrays of floats. The function gets copies of arrays and lists.
    """
    if not callable(answer):
        return [], f"{NO_FUNCTION} This is {shown(answer)}."
    outputs = []
    for call in calls:
        try:
            with np.errstate(all="ignore"):  # the hint says what a warning of NumPy would
                output = answer(*map(_copied, call))
        except (Exception, SystemExit) as error:  # whatever the reader's own code raises
            return [], f"Your function raises an error: {raised(error, 200)}"
        if is_blank(output):
            return [], BLANK_BODY
        given = numbers_of(output)
        if given is None:
            said = not_finite if _are_numbers(output) else FINITE
            return [], f"Your function returns {shown(output)}. {said}"
        outputs.append(given)
    return outputs, None


def _are_numbers(output) -> bool:
    """Whether an output that is refused holds real numbers, so that one of them is not finite."""
    try:
        return np.asarray(output).dtype.kind == "f"
    except Exception:  # rows of several lengths; a reader's own class may raise anything
        return False


def _copied(value):
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _agree(these, those) -> bool:
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)
        for a, b in zip(these, those, strict=True)
    )


def _difference(outputs, right) -> str:
    """The first shape or number that is wrong, beside the right one."""
    at, ours, theirs = next(
        (i, ours, theirs)
        for i, (ours, theirs) in enumerate(zip(outputs, right, strict=True))
        if not _agree([ours], [theirs])
    )
    where = "In the first case" if at == 0 else f"In case {at + 1}"
    if ours.shape != theirs.shape:
        return f"{where} it returns the shape {ours.shape}, and {theirs.shape} is right."
    differs = ~np.isclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)
    place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differs)))
    entry = f" at {list(place)}" if ours.ndim else ""
    values = np.atleast_1d(ours)[place], np.atleast_1d(theirs)[place]
    told = [f"{x:.4g}" for x in values]
    if told[0] == told[1]:
        told = [f"{x:.8g}" for x in values]
    return f"{where} it returns {told[0]}{entry}, and {told[1]} is right."
