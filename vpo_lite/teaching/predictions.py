"""Ask the reader for a prediction, keep it, and show it beside the outcome.

A prediction lives in the kernel under its key, so running its cell again keeps the choice. In
JupyterLab it is shown as choices, or as a field for a number. Without ipywidgets it is shown as
text. Nothing waits for a choice, so a notebook also runs from top to bottom without one.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..checks import LARGEST, check_choice, check_number, shown
from ..markup import html
from ..messages import is_plain

KEPT: dict[str, "Prediction"] = {}  # by key, for as long as the kernel lives
NUMBER = "a finite number"
# 1,728 is 1728 to some, 1.728 to others
TWO_NUMBERS = re.compile(r"(?<!\d)[1-9]\d{0,2},\d{3}(?!\d)")

COMMA = "may be two numbers: leave out the comma of thousands, or write a decimal point."


def predict(key: str, question: str, options: Sequence[str] | None = None) -> "Prediction":
    """Ask for a prediction. Returns the `Prediction`, which a notebook shows as choices.

    key       a text that no other prediction has, say "01-fills". The same key and question again
              return the same prediction with its choice; another question begins anew.
    question  the text of the question.
    options   two or more texts to choose from, each one different. None asks for a number.

    Raises ValueError for a key, question or options that are no such texts.

    >>> guess = predict("doctest", "Which is larger?", ["3/4", "11/18"])
    >>> guess.value is None
    True
    >>> guess.value = "11/18"  # what a click does
    >>> guess.outcome("3/4")
    Which is larger? You predicted 11/18. The outcome is 3/4.
    >>> predict("doctest", "Which is larger?", ["3/4", "11/18"]).value
    '11/18'
    """
    _check_text(key, "key")
    _check_text(question, "question")
    if options is not None:
        if not isinstance(options, list | tuple) or len(options) < 2:
            raise ValueError(f"options = {shown(options)}: expected a list of two or more texts")
        for option in options:
            _check_text(option, "options")
        if len(set(options)) < len(options):
            raise ValueError(f"options = {shown(options)}: expected texts that all differ")
        options = tuple(options)
    kept = KEPT.get(key)
    if kept is None or (kept.question, kept.options) != (question, options):
        KEPT[key] = Prediction(question, options)
    return KEPT[key]


class Prediction:
    """A question, the options to choose from (None: a number), and the choice made so far.

    `value` is the choice: an option or a float, None until there is one. It can be set, which does
    what a click does. Raises ValueError for a value that the question does not allow.
    """

    def __init__(self, question: str, options: tuple[str, ...] | None):
        self.question, self.options, self._value = question, options, None

    @property
    def value(self) -> str | float | None:
        return self._value

    @value.setter
    def value(self, value: str | float | None) -> None:
        self._keep(value)
        if "_widget" in vars(self):  # it is shown already
            number = "" if value is None else repr(self._value).removesuffix(".0")
            self._widget.children[1].value = number if self.options is None else self._value

    def _keep(self, value):
        self._value = None if value is None else self._checked(value, "value")

    def outcome(self, value: str | float) -> "Outcome":
        """What was predicted, beside what came out: one of the options, or a number.

        Raises ValueError for a value that could not have been predicted.
        """
        return Outcome(self.question, self.value, self._checked(value, "outcome"))

    def _checked(self, value, name):
        if self.options is None:
            return check_number(value, name, NUMBER, -LARGEST, LARGEST) + 0.0  # -0 is 0
        check_choice(value, name, self.options)
        return str(value)

    def __repr__(self):
        choices = NUMBER if self.options is None else " | ".join(self.options)
        return f"{self.question} [{choices}] Your prediction: {_text(self.value) or 'none yet'}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        try:
            bundle = self._widget._repr_mimebundle_()
        except ImportError:  # no ipywidgets: the base installation has none
            return {"text/plain": repr(self)}
        return bundle | {"text/plain": repr(self)}

    @cached_property
    def _widget(self):
        import ipywidgets as widgets

        note = widgets.HTML()
        if self.options is None:
            field = widgets.Text(
                _text(self.value),
                description="prediction",
                tooltip="your answer",
                placeholder="a number",
                continuous_update=False,
            )
        else:
            field = widgets.RadioButtons(  # these tell a screen reader which one is chosen
                options=self.options, value=self.value, layout={"width": "auto"}
            )

        def store(_):
            given = field.value
            try:
                self._keep(typed(given) if self.options is None else given)
            except ValueError:
                said = f"Please type {NUMBER}, such as 0.95, 95 % or 3/4."
                if TWO_NUMBERS.search(given):
                    said = f"{given} {COMMA}"
                said += "" if self.value is None else f" {_text(self.value)} is still stored."
            else:
                kept = f"Stored: {_text(self.value)}. You can still change it."
                said = "Nothing is stored." if self.value is None else kept
            note.value = html('<span role="status">{}</span>', said)

        field.observe(store, "value")
        return widgets.VBox([widgets.HTML(html("<b>{}</b>", self.question)), field, note])


def typed(text: str) -> float | None:
    """The number that a reader typed; None for nothing. A comma is a decimal comma. Raises
    ValueError for what is no number, and for "1,728", which may be two.

    >>> [typed(text) for text in ("0.95", "0,95", "95 %", "3/4", "\u22123", " ")]
    [0.95, 0.95, 0.95, 0.75, -3.0, None]
    """
    if TWO_NUMBERS.search(text):
        raise ValueError(f"{shown(text)}: may be two numbers")
    text = text.strip().replace(",", ".").replace("\N{MINUS SIGN}", "-")
    number, percent, rest = text.partition("%")
    top, slash, bottom = number.partition("/")
    if not text:
        return None
    below = float(bottom) if slash else 1.0
    if rest or not below:
        raise ValueError(f"{shown(text)}: expected {NUMBER}")
    return float(top) / below / (100 if percent else 1)


CLOSE = 0.05  # the relative error up to which a predicted number is called close


@dataclass(frozen=True)
class Outcome:
    """A question, what was predicted (None: nothing was) and what came out, as one sentence.

    Two numbers are the same if they are once rounded: to three digits, from 1000 on to whole
    numbers. Within 5 % they are close.

    >>> Outcome("What fills the slots?", None, "C C C")
    What fills the slots? You made no prediction. The outcome is C C C.
    >>> Outcome("0.1 + 0.2", 0.3, 0.1 + 0.2)
    0.1 + 0.2: You predicted 0.3. That is the outcome.
    >>> Outcome("The noise", 4.0, 3.9)
    The noise: You predicted 4. That is close: the outcome is 3.9.
    """

    question: str
    predicted: str | float | None
    value: str | float

    @property
    def right(self) -> bool:
        return self.predicted is not None and _text(self.predicted) == _text(self.value)

    @property
    def close(self) -> bool:
        numbers = isinstance(self.predicted, float) and not isinstance(self.value, str)
        return numbers and math.isclose(self.predicted, self.value, rel_tol=CLOSE)

    @property
    def sentence(self) -> str:
        value = _text(self.value)
        if self.predicted is None:
            return f"You made no prediction. The outcome is {value}."
        if self.right:
            after = "That is the outcome."
        elif self.close:
            after = f"That is close: the outcome is {value}."
        else:
            after = f"The outcome is {value}."
        return f"You predicted {_text(self.predicted)}. {after}"

    def __repr__(self):
        return f"{self.question}{' ' if self.question[-1] in '?.' else ': '}{self.sentence}"

    def _repr_html_(self):
        sign = "✓" if self.right else "≈" if self.close else "→"
        return html("<p>{}<br><b>{} {}</b></p>", self.question, sign, self.sentence)


def _text(value):
    """A value as it is shown: a number with three digits, from 1000 on without its fraction.

    >>> _text(0.12345), _text(12345.6), _text(None)
    ('0.123', '12346', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if 999.5 <= abs(value) < 1e15 else f"{value:.3g}"


def _check_text(text, name):
    if not is_plain(text) or not text.strip() or len(text.splitlines()) > 1:
        raise ValueError(f"{name} = {shown(text)}: expected a text of one line")
