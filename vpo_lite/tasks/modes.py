"""Tasks that come in several modes under one name, such as generated problems and real records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ..checks import shown
from ..options import Option
from .base import Task


class TaskInModes(Task):
    """A task whose option ``mode`` chooses the class of what is made.

    Derive from it with ``modes``: a class for each mode. All classes have the same ``name``, and
    each has options of its own. Where no mode is named, it is the first one that has all the
    options that are given: ``hops`` with ``data`` means records. Raises ValueError for an option
    that belongs to another mode.

    What is made is an object of a mode's class. So a class that defines anything but ``modes`` is
    refused: derive from the mode's class, such as ``task_class("hops").modes["conflict"]``.

    >>> class Easy(Task):
    ...     name, about = "sums", "small numbers"
    >>> class Hard(Task):
    ...     name, about = "sums", "large numbers"
    ...     options = (Option("digits", int, 5, "digits of a number", least=1),)
    >>> class Sums(TaskInModes):
    ...     modes = {"easy": Easy, "hard": Hard}
    >>> type(Sums()).__name__, Sums(digits=9).digits, type(Sums(mode="hard")).__name__
    ('Easy', 9, 'Hard')
    >>> Sums(mode="easy", digits=9)
    Traceback (most recent call last):
    ...
    ValueError: digits = 9 with mode = 'easy': only mode 'hard' has it; leave out digits or mode
    """

    modes: ClassVar[dict[str, type[Task]]]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        forms = list(cls.modes.values())
        for name in vars(cls):
            if name != "modes" and (name == "__init__" or not name.startswith("__")):
                there = " or ".join(f"{form.__module__}.{form.__qualname__}" for form in forms)
                raise ValueError(
                    f"class {cls.__name__} defines {name}, which has no effect: a task in modes "
                    f"makes objects of its modes' classes; derive from one of them: {there}"
                )
        about = "; ".join(f"{mode}: {form.about}" for mode, form in cls.modes.items())
        about += "; default: the first of these that has the given options"
        mode = Option("mode", str, None, about, choices=tuple(cls.modes))
        own = {option.name: option for form in forms for option in form.options}
        cls.options = (mode, *own.values())
        cls.singles_out = tuple(dict.fromkeys(n for form in forms for n in form.singles_out))
        cls.name, cls.noun = forms[0].name, forms[0].noun

    def __new__(cls, **options) -> Task:
        mode, implied = cls.mode_of(options)
        form = cls.modes[mode]
        others = {option.name for option in cls.options} - {option.name for option in form.options}
        made = form(**{name: value for name, value in options.items() if name not in others})
        made.mode = mode
        made.options = (replace(cls.options[0], default=implied), *made.options)
        return made

    @classmethod
    def mode_of(cls, options: Mapping) -> tuple[str, str]:
        """The mode of a task with these options, and the one that they imply where none is named.
        ValueError for an option that belongs to another mode.
        """
        chosen, *others = cls.options
        asked = chosen.check(options.get("mode"))
        defaults = {option.name: option.default for option in others}
        meant = {k for k, v in options.items() if k in defaults and v != defaults[k]}
        has = {name: {o.name for o in form.options} for name, form in cls.modes.items()}
        implied = next((name for name in has if meant <= has[name]), next(iter(has)))
        mode = implied if asked is None else asked
        for name in sorted(meant - has[mode]):
            there = " and ".join(repr(other) for other in has if name in has[other])
            apart = {n for n in meant & has[mode] if not any({n, name} <= has[k] for k in has)}
            rival = "mode" if asked is not None else ", ".join(sorted(apart)) or "the others"
            raise ValueError(
                f"{name} = {shown(options[name])} with mode = {mode!r}: only mode {there} has it; "
                f"leave out {name} or {rival}"
            )
        return mode, implied
