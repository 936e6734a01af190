"""What the columns of a file's rows hold: a look for those who search a mistake in their data."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

NONE = "none"


def kind(value: Any) -> str:
    """The kind of a JSON value.

    >>> [kind(x) for x in ("a", 1, 0.5, True, [1], {}, None)]
    ['text', 'number', 'number', 'truth value', 'list', 'object', 'none']
    """
    if isinstance(value, bool):  # which Python counts among the numbers
        return "truth value"
    if isinstance(value, int | float):
        return "number"
    named = {str: "text", list: "list", dict: "object", type(None): NONE}
    return named.get(type(value), type(value).__name__)


def lines_by_kind(rows: Mapping[int, Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """{column: {kind: its lines}}; a row that lacks a column has none there.

    >>> lines_by_kind({0: {"a": "x"}, 1: {"a": 2}, 2: {}})
    {'a': {'text': [0], 'number': [1], 'none': [2]}}
    """
    names = dict.fromkeys(name for row in rows.values() for name in row)
    found: dict[str, dict[str, list[int]]] = {name: {} for name in names}
    for line, row in rows.items():
        for name, kinds in found.items():
            kinds.setdefault(kind(row.get(name)), []).append(line)
    return found


def oddities(
    found: Mapping[str, Mapping[str, list[int]]], noun: str, named: Callable[[int], str]
) -> Iterator[str]:
    """Lines on columns that some rows lack, and on those of several kinds. named: says where a row
    stands.

    >>> found = {"a": {"text": [0, 3], "number": [1], "none": [2]}}
    >>> for line in oddities(found, "row", "line {}".format):
    ...     print(line)
    column a: none in 1 of 4 rows (first: line 2); functions get None there
    column a: text in 2 rows, number in 1 (first: line 1); "1" and 1 are not equal
    """
    for name, kinds in found.items():
        count = sum(map(len, kinds.values()))
        there = {kind: lines for kind, lines in kinds.items() if kind != NONE}
        if there and NONE in kinds:
            lines = kinds[NONE]
            where = f"{len(lines):,} of {count:,} {noun}s (first: {named(lines[0])})"
            yield f"column {name}: none in {where}; functions get None there"
        if len(there) > 1:
            (most, lines), *others = sorted(there.items(), key=lambda item: -len(item[1]))
            told = [f"{most} in {len(lines):,} {noun}s"]
            told += [f"{kind} in {len(x):,} (first: {named(x[0])})" for kind, x in others]
            unequal = '; "1" and 1 are not equal' * ({"text", "number"} <= set(there))
            yield f"column {name}: {', '.join(told)}{unequal}"
