"""A setting as data: name, type, default, limits and help, each written once.

The check of a config, the flags of the command line and their help all come from one `Option`.
"""

import dataclasses
import math
import os
import re
import types
import typing
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .checks import INTEGERS, shortened, shown
from .messages import is_plain

DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?|mps")
MOST_TEXT = 2**20  # characters that a file option reads


@dataclass(frozen=True)
class Option:
    """One setting of a run or of a task.

    - name: as in Python, ``group_size``; the flag is ``--group-size``. A bool that is True by
      default has a flag that turns it off, ``--no-name``
    - type: int (below 2^63), float, str (no NUL, no lone surrogate) or bool
    - default: the value of a setting that is not given; None is allowed only as the default
    - help: one line; a page of help adds the default, unless the line has the word
    - choices: the values that are allowed; empty for any
    - least, above, most: limits of a number (``above`` itself is not allowed)
    - inf: infinity is allowed beside whole numbers, on the command line as ``inf``; a float that
      is whole counts as one
    - file: the flag takes the name of a text file, and the setting is its text, of a million
      characters at most. The text goes into config.json and share codes, so it must be short
    - code: the setting names what is imported, as package.module:name. Every machine of a run needs
      that module
    - path: the setting is the path of a data file, which is read when it is needed. A run keeps the
      file's SHA-256 and refuses to go on with other data

    >>> Option("steps", int, 40, "training steps", least=1).check(0)
    Traceback (most recent call last):
    ...
    ValueError: steps = 0: must be a whole number, 1 or more
    """

    name: str
    type: type
    default: Any
    help: str
    choices: Collection = field(default=(), hash=False)
    least: float | None = None
    above: float | None = None
    most: float | None = None
    inf: bool = False
    file: bool = False
    path: bool = False
    code: bool = False

    def __post_init__(self):
        if self.type not in (int, float, str, bool):
            raise ValueError(f"option {self.name}: its type must be int, float, str or bool")
        if self.file + self.path + self.code > (self.type is str):
            raise ValueError(
                f"option {self.name}: set at most one of file, path and code, with type str"
            )

    @property
    def flag(self) -> str:
        off = "no_" if self.type is bool and self.default is True else ""
        return flag_of(off + self.name)

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        words = {
            int: "a whole number",
            float: "a finite number",
            str: "a text, package.module:name" if self.code else "a text",
            bool: "True or False",
        }
        limits = [f"{self.least:,} or more"] if self.least is not None else []
        limits += [f"above {self.above:,}"] if self.above is not None else []
        limits += [f"at most {self.most:,}"] if self.most is not None else []
        return ", ".join([words[self.type], *limits]) + (", or inf" if self.inf else "")

    def check(self, value: Any) -> Any:
        """The value, if it is allowed; a number of NumPy becomes Python's, a path becomes a text.

        Raises ValueError that says what is expected.
        """
        value = value.item() if isinstance(value, np.generic) else value
        value = os.fspath(value) if self.path and isinstance(value, os.PathLike) else value
        if value is None and self.default is None:
            return value
        if self.inf and isinstance(value, str | float) and value in ("inf", math.inf):
            return math.inf
        if self.inf and isinstance(value, float) and value.is_integer() and abs(value) < INTEGERS:
            value = int(value)
        if self.choices and not (self._is_of_type(value) and value in self.choices):
            there = shortened(", ".join(map(str, self.choices)), 500)
            raise ValueError(f"unknown {self.name} {shown(value)}: there are {there}")
        if not self._is_of_type(value) or not self._is_within_limits(value):
            raise ValueError(f"{self.name} = {shown(value)}: must be {self._expected_of(value)}")
        return float(value) if self.type is float else value  # 1 and 1.0 are stored the same

    def _expected_of(self, value) -> str:
        if self.type is int and isinstance(value, int) and abs(value) >= INTEGERS:
            return f"{self.expected}, and below 2^63 in size"
        if self.type is str and isinstance(value, str):
            return f"{self.expected} without NUL and lone surrogates"
        if self.path and isinstance(value, list | tuple):
            return "the path of a file: write these rows into one, as JSON, a row in each line"
        text = _as_text(value) if self.type is str else ""
        return self.expected + (f"; write {text!r}" if text else "")

    def _is_of_type(self, value) -> bool:
        if isinstance(value, bool) or self.type is bool:
            return isinstance(value, bool) and self.type is bool
        if self.type is str:
            return is_plain(value)
        if isinstance(value, int):
            return abs(value) < INTEGERS
        return self.type is float and isinstance(value, float) and math.isfinite(value)

    def _is_within_limits(self, value) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )

    def read(self, text: str) -> Any:
        """The value of a flag's text; its limits are left to :meth:`check`.

        Raises ValueError for a text that is no such number, and for a file that cannot be read.

        >>> Option("K", int, 64, "weights", inf=True).read("inf")
        inf
        """
        if not isinstance(text, str):
            raise ValueError(f"{self.flag} {shown(text)}: expected a text")
        if self.file:
            return self._read_file(text)
        if self.inf and text == "inf":
            return math.inf
        try:
            return _TRUTH[text] if self.type is bool else self.type(text)
        except (ValueError, KeyError):
            kind = {int: "whole number", float: "number", bool: "truth value"}[self.type]
            kind += ", and not inf" * self.inf
            raise ValueError(f"{self.flag} {shown(text)}: is no {kind}") from None

    def _read_file(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read(MOST_TEXT + 1)
        except (OSError, ValueError) as error:  # the latter: no UTF-8, or a name with NUL
            why = getattr(error, "strerror", None) or shortened(str(error), 200)
            raise ValueError(
                f"{self.flag} {shown(path)}: cannot be read as text ({why})"
            ) from error
        if len(text) > MOST_TEXT or not is_plain(text):
            why = f"more than {MOST_TEXT:,} characters" if len(text) > MOST_TEXT else "a NUL byte"
            raise ValueError(f"{self.flag} {shown(path)}: cannot be read as text (it holds {why})")
        return text


def _as_text(value) -> str:
    """How a text names this: a list with commas, a function by its module; "" where it cannot.

    >>> _as_text(["q_proj", "v_proj"]), _as_text([2, 1]), _as_text(math.hypot), _as_text(3)
    ('q_proj,v_proj', '2,1', 'math:hypot', '')
    """
    if callable(value):
        name = getattr(value, "__qualname__", "<>")
        return "" if "<" in name else f"{getattr(value, '__module__', '')}:{name}"
    if not isinstance(value, list | tuple):
        return ""
    plain = (str, int, float)
    parts = [f"{x}" if isinstance(x, plain) else callable(x) and _as_text(x) for x in value]
    return ",".join(parts) if all(parts) else ""


_TRUTH = {"True": True, "False": False}


def flag_of(name: str) -> str:
    """How the command line writes a name.

    >>> flag_of("group_size")
    '--group-size'
    """
    return f"--{name.replace('_', '-')}"


def device_name(value: Any) -> Any:
    """The text of a torch.device. A text stays as it is, if it may name a device of some machine.

    >>> device_name("gpu")
    Traceback (most recent call last):
    ...
    ValueError: unknown device 'gpu': there are auto, cpu, cuda, cuda:N, mps
    """
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("torch", "device"):  # by name: this needs no torch
        value = str(value)
    if isinstance(value, str) and not DEVICE.fullmatch(value):
        raise ValueError(f"unknown device {shown(value)}: there are auto, cpu, cuda, cuda:N, mps")
    return value


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


def numbers_of(name: str, text: str) -> list[float]:
    """The numbers of a comma-separated text. ValueError for anything else.

    >>> numbers_of("worst", "-1,0.5")
    [-1.0, 0.5]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} = {shown(text)}: expected numbers with commas between") from None
