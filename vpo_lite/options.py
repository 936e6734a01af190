"""A setting as data: name, type, default, limits and help, each written once.

The check of a config, the flags of the command line and their help all come from one `Option`.
"""

import dataclasses
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """One setting of a run or of a task.

    - name: as in Python, ``group_size``; the flag is ``--group-size``
    - type: int, float, str or bool
    - default: the value of a setting that is not given; None is allowed only as the default
    - help: one line
    - choices: the values that are allowed; empty for any
    - least, above, most: limits of a number (``above`` itself is not allowed)
    - inf: infinity is allowed beside whole numbers, on the command line as ``inf``
    - file: the flag takes the name of a text file, and the setting is its text. The text goes into
      config.json and share codes, so it must be short; for a data file take the path as a text

    >>> Option("steps", int, 40, "training steps", least=1).check(0)
    Traceback (most recent call last):
    ...
    ValueError: steps = 0: must be a whole number, 1 or more
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    inf: bool = False
    file: bool = False

    def __post_init__(self):
        if self.type not in (int, float, str, bool):
            raise ValueError(f"option {self.name}: its type must be int, float, str or bool")

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        words = {
            int: "a whole number",
            float: "a finite number",
            str: "a text",
            bool: "True or False",
        }
        limits = [f"{self.least:,} or more"] if self.least is not None else []
        limits += [f"above {self.above:,}"] if self.above is not None else []
        limits += [f"at most {self.most:,}"] if self.most is not None else []
        return ", ".join([words[self.type], *limits]) + (", or inf" if self.inf else "")

    def check(self, value):
        """The value, if it is allowed. Otherwise raises ValueError that says what is expected."""
        if (value is None and self.default is None) or (self.inf and value == math.inf):
            return value
        if self.choices and (not isinstance(value, str) or value not in self.choices):
            there = ", ".join(map(str, self.choices))
            raise ValueError(f"unknown {self.name} {value!r}: there are {there}")
        if not self._is_of_type(value) or not self._is_within_limits(value):
            raise ValueError(f"{self.name} = {value!r}: must be {self.expected}")
        return value

    def _is_of_type(self, value) -> bool:
        if isinstance(value, bool) or self.type is bool:
            return isinstance(value, bool) and self.type is bool
        if self.type is float:
            return isinstance(value, int | float) and math.isfinite(value)
        return isinstance(value, self.type)

    def _is_within_limits(self, value) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )

    def read(self, text: str):
        """The value of a flag's text; its limits are left to :meth:`check`.

        Raises ValueError for a text that is no such number, and for a file that cannot be read.

        >>> Option("K", int, 64, "weights", inf=True).read("inf")
        inf
        """
        if self.inf and text == "inf":
            return math.inf
        if self.file:
            try:
                with open(text, encoding="utf-8-sig") as file:
                    return file.read()
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or error
                raise ValueError(f"{self.flag} {text}: cannot be read as text ({why})") from error
        try:
            return self.type(text)
        except ValueError:
            kind = {int: "whole number", float: "number"}[self.type]
            raise ValueError(f"{self.flag} {text!r}: is no {kind}") from None


def setting(default, help: str, **rules):
    """A dataclass field that :func:`options_of` reads, with the help and limits of an Option."""
    return field(default=default, metadata={"help": help, **rules})


def options_of(config: type) -> tuple[Option, ...]:
    """The fields that :func:`setting` made, as options, in order."""
    return tuple(_as_option(f) for f in dataclasses.fields(config) if "help" in f.metadata)


def _as_option(made: dataclasses.Field) -> Option:
    kinds = typing.get_args(made.type) if isinstance(made.type, types.UnionType) else (made.type,)
    kind = next(k for k in kinds if k is not type(None))
    rules = dict(made.metadata)
    return Option(made.name, int if rules.get("inf") else kind, made.default, **rules)
