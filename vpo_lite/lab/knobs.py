"""The knobs of the panel, one for each setting, and how a knob learns a value."""

import math

import ipywidgets as widgets

from ..estimators import METHODS
from ..figures.looks import look
from .buttons import HINTS
from .view import View

SIDE_BY_SIDE = (("vpo", "grpo"), ("vpo", "grpo", "multi_rlvr"))
# Widths are in letters: they grow with the projector's.
FIELD = {"style": {"description_width": "8.2em"}, "layout": {"width": "23em"}}
SHORT = {"style": {"description_width": "initial"}}


def knobs_of(view: View) -> dict[str, widgets.Widget]:
    """The knobs by the name of their setting, at the values of now."""
    methods = [(look(m).text, (m,)) for m in METHODS]
    together = [names for names in dict.fromkeys([*SIDE_BY_SIDE, view.methods]) if len(names) > 1]
    methods[3:3] = [(_in_words(names), names) for names in together]
    made = {
        "methods": widgets.Dropdown(description="method", options=methods, **SHORT),
        "alpha": _slider("α", _round_numbers(0.05, 20), **SHORT),
        "K": _slider("K", [*(2**i for i in range(9)), math.inf], **SHORT),
        "m": widgets.IntSlider(description="m", min=1, max=5, **SHORT),
        "group_size": _slider("group size G", [4, 8, 16, 32, 48], **FIELD),
        "lr": _slider("learning rate", _round_numbers(5e-5, 1e-2), **FIELD),
        "steps": widgets.IntSlider(description="steps", min=1, max=100, **FIELD),
        "seed": widgets.IntText(description="seed", **FIELD),  # a bounded one corrects in silence
    }
    if view.task.singles_out:
        noun = view.task.noun
        problems = [(f"this {noun}", False), (f"many {noun}s", True)]
        made["many"] = widgets.Dropdown(description="train on", options=problems, **FIELD)
    for name, knob in made.items():
        knob.tooltip = HINTS.get(name, "")
        teach(knob, values_of(view)[name])
    return made


def _slider(name: str, values, **how) -> widgets.SelectionSlider:
    """A slider whose marks are these values: the number beside it is the one that is set."""
    options = [(_in_words(value), value) for value in values]
    return widgets.SelectionSlider(description=name, options=options, **how)


def between(least: float, most: float) -> dict[str, str]:
    """A layout's width, from so many letters to so many, as there is room in its row."""
    return {"flex": f"1 1 {least}em", "max_width": f"min(100%, {most}em)"}


def _round_numbers(low: float, high: float) -> list[float]:
    """Ten numbers for each power of ten, of two digits at most."""
    digits = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
    numbers = [float(f"{digit}e{power}") for power in range(-5, 2) for digit in digits]
    return [number for number in numbers if low <= number <= high]


def values_of(view: View) -> dict:
    """What the knobs are to show."""
    names = ("alpha", "K", "m", "group_size", "lr", "steps", "seed")
    values = {name: getattr(view.config, name) for name in names}
    return values | {"methods": view.methods, "many": view.settings.many}


def teach(knob, value):
    """A value into a knob, which learns it if it does not know it."""
    if hasattr(knob, "options"):
        if value not in [known for _, known in knob.options]:
            options = [*knob.options, (_in_words(value), value)]
            if isinstance(knob, widgets.SelectionSlider):  # it goes from left to right
                options.sort(key=lambda option: option[1])
            knob.options = options
    elif hasattr(knob, "max") and value > knob.max:
        knob.max = value
    put(knob, value=value)


def _in_words(value) -> str:
    if isinstance(value, tuple):
        return " + ".join(look(method).text for method in value)
    return "∞" if value == math.inf else f"{value:g}"


def put(widget, **values):
    """Set traits of a widget that differ: equal values send no message."""
    for name, value in values.items():
        if getattr(widget, name) != value:
            setattr(widget, name, value)
