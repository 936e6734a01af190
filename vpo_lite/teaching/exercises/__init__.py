"""The exercises of the notebooks, and `check`, which answers at once and without a network.

One module holds the exercises of one notebook. It is read when one of them is checked first.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ...checks import shown
from ...markup import html, joined
from .kinds import BLANK, BLANK_BODY, Exercise, Slip, is_blank

NOTEBOOKS = {  # number of the notebook -> module with its exercises
    "00": "start_here",
    "01": "why_diversity",
    "02": "set_objective",
    "03": "the_maze",
    "04": "train_live",
    "05": "other_problems",
    "06": "search",
    "07": "evolution",
    "08": "own_model",
}


def check(key: str, answer: Any = None) -> "Feedback":
    """Say whether this answer to the exercise `key` is right, or give a hint. Returns `Feedback`.

    key     of the exercise, as its heading says: "02-b"
    answer  what the exercise asks for: a number, a text, an array or a function. None and `...` are
            no answer yet.

    An answer never raises an error: a function that does gets that told as a hint. Raises
    ValueError for a key that no exercise has.

    >>> check("02-a", 3)
    ✓ 02-a: right. From α = 3 on three specialists are worth less than one generalist.
    >>> check("02-a")
    … 02-a: No answer yet: it is `...` or None. Change your line, and run this cell again.
    >>> check("02-a", 1).right
    False
    """
    made = exercise(key)
    if is_blank(answer):
        return Feedback(key, False, BLANK)
    hint = made.judge(answer)
    return Feedback(key, True, made.learned) if hint is None else Feedback(key, False, hint)


def exercise(key: str) -> Exercise:
    """The exercise with this key. Raises ValueError if there is none."""
    if isinstance(key, str) and key[:2] in NOTEBOOKS:
        known = of_notebook(key[:2])
        if key in known:
            return known[key]
        raise ValueError(f"exercise {shown(key)}: this notebook has {', '.join(known)}")
    numbers = ", ".join(NOTEBOOKS)
    raise ValueError(f'exercise {shown(key)}: expected a key such as "02-a", of notebook {numbers}')


@cache
def of_notebook(number: str) -> dict[str, Exercise]:
    """The exercises of the notebook with this number, by key and in their order."""
    exercises = import_module(f".{NOTEBOOKS[number]}", __name__).EXERCISES
    return {made.key: made for made in exercises}


@dataclass(frozen=True)
class Feedback:
    """What `check` says of an answer. It is shown as a line of text, or as HTML in a notebook.

    key    of the exercise
    right  whether the answer is right
    text   what it shows, or a hint
    """

    key: str
    right: bool
    text: str

    @property
    def _sign(self):
        return "✓" if self.right else "…" if self.text in (BLANK, BLANK_BODY) else "✗"

    def __repr__(self):
        return f"{self._sign} {self.key}: {'right. ' if self.right else ''}{self.text}"

    def _repr_html_(self):
        word = {"✓": "Right.", "✗": "Not yet.", "…": ""}[self._sign]
        parts = self.text.split("`")  # every second one is code
        parts[1::2] = [html("<code>{}</code>", code) for code in parts[1::2]]
        return html(
            '<div role="status" class="vpo-feedback" style="border-left: 4px solid; '
            'padding: 4px 12px; font-size: 115%"><b>{} {}</b> {}</div>',
            self._sign,
            joined((self.key, word) if word else (self.key,), between=". "),
            joined(parts),
        )


__all__ = ["NOTEBOOKS", "Exercise", "Feedback", "Slip", "check", "exercise", "of_notebook"]
