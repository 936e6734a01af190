"""What a file of records holds: problems, dropped and damaged rows; which records are held out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checks import shown
from ..files import DamagedError
from ..markup import count
from ..messages import command, shown_path

HELD_OUT_EVERY = 10  # without held_out_data every tenth record is held out, from the last one on
SHOWN = 3  # reasons in one line
KEPT = 20  # reasons in a run's folder


class Dropped(ValueError):
    """A row fits its schema, but no problem can be made of it. The message says why."""


@dataclass(frozen=True)
class Loaded:
    """What a file of records holds, by 0-based line (parquet: by 0-based row).

    - records: the problems
    - dropped: why no problem can be made of a row
    - damaged: what is wrong with a line that does not fit, or can be no record of its data set
    """

    path: str
    records: dict[int, Any]
    dropped: dict[int, str]
    damaged: dict[int, str]

    def named(self, record: int) -> str:
        """Where a record stands, as an editor counts."""
        return place_in(self.path, record)

    def reasons(self) -> dict[str, list[int]]:
        """The dropped lines by reason, the most frequent reason first.

        >>> Loaded("a.jsonl", {}, {1: "too long", 2: "no answer", 5: "no answer"}, {}).reasons()
        {'no answer': [2, 5], 'too long': [1]}
        """
        found: dict[str, list[int]] = {}
        for line, why in self.dropped.items():
            found.setdefault(why, []).append(line)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    def told_dropped(self, noun: str, task: str) -> str:
        """How many records were dropped, and why, in one line; "" where none was.

        >>> Loaded("a.jsonl", {0: "x"}, {1: "its answer is empty"}, {}).told_dropped("row", "hops")
        '1 of 2 rows of a.jsonl dropped: its answer is empty (1); list them with: vpo-lite data \
check a.jsonl --task hops'
        """
        if not self.dropped:
            return ""
        said = in_short(self.counts(), f"{noun}s of {shown_path(self.path)}")
        return (
            f"{said}; list them with: {command('data', 'check', Path(self.path), '--task', task)}"
        )

    def counts(self) -> dict[str, Any]:
        """How many records were read, and how many were dropped by reason. Beyond twenty reasons
        the rarest are counted together.

        >>> Loaded("a.jsonl", {0: "x"}, {1: "its answer is empty"}, {}).counts()
        {'read': 2, 'dropped': {'its answer is empty': 1}}
        """
        dropped = {why: len(lines) for why, lines in self.reasons().items()}
        others = [dropped.pop(why) for why in [*dropped][KEPT:]]
        dropped |= {"other reasons": sum(others)} if others else {}
        read = len(self.dropped) + len(self.records) + len(self.damaged)
        return {"read": read, "dropped": dropped}

    def usable(self) -> dict[int, Any]:
        """The problems. Raises DamagedError for a damaged line, and for a file without problems."""
        for message in self.damaged.values():
            raise DamagedError(message)
        if not self.records:
            why = next(iter(self.dropped.values()), "it has no line")
            raise DamagedError(f"{self.path}: holds no record that can be used ({why})")
        return self.records

    def at(self, line: int) -> Any:
        """The problem of one line. Raises ValueError that says why there is none."""
        if line in self.usable():
            return self.records[line]
        if line in self.dropped:
            raise ValueError(f"record {line} of {self.path} was dropped: {self.dropped[line]}")
        last = max((*self.records, *self.dropped))
        if line in range(last):
            raise ValueError(f"record {line}: {self.named(line)} of {self.path} is empty")
        raise ValueError(f"record {shown(line)}: {self.path} has records 0 to {last}")


def in_short(counts: dict[str, Any], what: str) -> str:
    """What :meth:`Loaded.counts` holds, in one line. what: the records, in words.

    >>> in_short({"read": 9, "dropped": {"no answer": 2, "no question": 1}}, "rows of data")
    '3 of 9 rows of data dropped: no answer (2), no question (1)'
    >>> in_short({"read": 9, "dropped": {}}, "rows of data")
    '0 of 9 rows of data dropped'
    """
    dropped = counts["dropped"]
    reasons = [f"{why} ({number:,})" for why, number in dropped.items()]
    more = [f"and {len(reasons) - SHOWN} more reasons"] * (len(reasons) > SHOWN)
    said = f"{sum(dropped.values()):,} of {counts['read']:,} {what} dropped"
    return ": ".join([said, ", ".join([*reasons[:SHOWN], *more])][: 1 + bool(reasons)])


def place_in(path: str, record: int) -> str:
    """Where a record stands in its file, as an editor counts.

    >>> place_in("a.jsonl", 0), place_in("a.parquet", 0)
    ('line 1', 'row 1')
    """
    return f"{'row' if path.lower().endswith('.parquet') else 'line'} {record + 1}"


def told_parted(records: int, noun: str) -> str:
    """How many of these records :func:`parted` trains on, and how many it holds out, in one line.

    >>> told_parted(60, "row"), told_parted(2, "row")[:27]
    ('54 rows train, 6 are held out (--held-out-data names others)', '1 row trains, 1 is held out')
    >>> told_parted(1, "row")
    'no run can use one row alone; with --held-out-data it trains on it'
    """
    if records == 1:
        return f"no run can use one {noun} alone; with --held-out-data it trains on it"
    train, held_out = map(len, parted([*range(records)]))
    return (
        f"{count(train, noun)} train{'s' * (train == 1)}, {held_out:,} "
        f"{'is' if held_out == 1 else 'are'} held out (--held-out-data names others)"
    )


def parted(records: list) -> tuple[list, list]:
    """The records to train on, and those to hold out: every tenth, counted from the last one.

    >>> parted([*"abcdefghijk"])
    (['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'], ['a', 'k'])
    """
    last = len(records) - 1
    kept = [(x, (last - i) % HELD_OUT_EVERY == 0) for i, x in enumerate(records)]
    return [x for x, held_out in kept if not held_out], [x for x, held_out in kept if held_out]
