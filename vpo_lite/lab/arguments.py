"""The arguments of a lab's requests. Each is checked by an `Option`, as the settings are."""

import threading

from ..checks import shown
from ..figures.looks import WIDE
from ..options import Option
from .layout import LEAST

_OPTIONS = {
    option.name: option
    for option in (
        Option("step", int, None, "the step to look at", least=1, most=10**9),
        Option("message", str, "", "what to say"),
        Option("command", str, "", "what made a recording"),
        Option("width", int, WIDE, "pixels", least=LEAST, most=20_000),
        Option("large", bool, False, "for a projector"),
        Option("dark", bool, False, "light on dark"),
        Option("timeout", float, None, "seconds", least=0, most=threading.TIMEOUT_MAX),
    )
}


def check(**given) -> None:
    """Raise ValueError for an argument that no request can take.

    >>> check(step=3, message="")
    >>> check(step="x")
    Traceback (most recent call last):
    ...
    ValueError: step = 'x': must be a whole number, 1 or more, at most 1,000,000,000
    """
    for name, value in given.items():
        _OPTIONS[name].check(value)


def check_curves(names, known) -> None:
    """Raise ValueError unless these are names, one or more, out of ``known``."""
    listed = isinstance(names, list | tuple) and names
    unknown = [n for n in names if not (isinstance(n, str) and n in known)] if listed else [names]
    if unknown:
        raise ValueError(f"curves: there is no {shown(unknown[0])}; there are {', '.join(known)}")
