"""Whether the repr of a problem is the same text in every process, so that it can be its key."""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Number
from typing import Any

import numpy as np

_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+>")


def unstable(value, text: str) -> Any:
    """A part of a value that its repr ``text`` shows otherwise in another process, or None.

    It is a set, whose order depends on the process unless it holds numbers alone, or an object
    whose repr is its address. In a text, an address is a word like any other.

    >>> for value in ("<f at 0x1>", {"a": (1, {"b", "c"})}, {2, 1}):
    ...     print(unstable(value, repr(value)) is not None)
    False
    True
    False
    """
    if "{" not in text and " at 0x" not in text:
        return None
    parts, seen = [value], {}
    while parts:
        part = parts.pop()
        if id(part) in seen or isinstance(part, str | bytes):
            continue
        seen[id(part)], odd = part, False  # held, or its id could be another's later
        if type(part).__repr__ is object.__repr__:
            odd = True
        elif isinstance(part, set | frozenset):
            odd = len(part) > 1 and not all(map(_has_one_hash, part))
            parts += part
        elif isinstance(part, Mapping):
            parts += [*part, *part.values()]
        elif isinstance(part, list | tuple | deque):
            parts += part
        elif isinstance(part, np.ndarray):
            parts += part.flat if part.dtype.hasobject else ()
        elif is_dataclass(part) and not isinstance(part, type):
            parts += [getattr(part, field.name) for field in fields(part)]
        else:
            shown = repr(part)
            odd = _ADDRESS.search(shown) is not None
            parts += _attributes(part) if "{" in shown else ()  # it may show a set
        if odd and repr(part) in text:
            return part
    return None


def _attributes(value) -> list:
    """What an object holds, such as the fields of a pydantic model."""
    slots = (getattr(cls, "__slots__", ()) for cls in type(value).__mro__)
    names = {n for some in slots for n in ([some] if isinstance(some, str) else some)}
    return [getattr(value, name) for name in ("__dict__", *names) if hasattr(value, name)]


def _has_one_hash(value) -> bool:
    """Whether a value has the same hash in every process: a number, or a tuple of such values."""
    if isinstance(value, tuple | frozenset):
        return all(map(_has_one_hash, value))
    return isinstance(value, Number)
