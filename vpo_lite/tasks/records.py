"""Tasks whose problems are the records of a file: counted, split, asked for, judged.

A record is one row of a data set in its public format. Nothing is downloaded. A row that does not
fit its schema, or that can be no record of its data set, is damaged: no run begins on such a file.
A row that fits, but of which no problem can be made, is dropped and counted.
"""

import functools
import hashlib
import heapq
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import shown
from ..files import DamagedError
from ..options import Option
from .base import Task, TaskError
from .record_files import Dropped, Loaded, parted, place_in
from .registry import task_class
from .rows import Row, rows_of
from .wording import between, without_thoughts

EXAMPLES = Path(__file__).parent / "examples"  # a few invented records for each task
LONG = 8  # records whose requests are the longest, for the memory of a run

RECORD_OPTIONS = (
    Option(
        "data",
        str,
        None,
        "file of records or rows, as JSON lines or parquet (with pyarrow); default: a few invented "
        "ones, for a first try",
        path=True,
    ),
    Option(
        "held_out_data",
        str,
        None,
        "file of records to measure on; default: every tenth record of --data, not trained on",
        path=True,
    ),
    Option(
        "validation_data",
        str,
        None,
        "file of records on which a study tunes learning rates; default: none",
        path=True,
    ),
    Option(
        "repeats",
        str,
        "answer",
        "a repeat within a rollout earns the worst vector. What counts as one: answer (default): "
        "the same answer; vector: the same reward vector, as in the paper's release",
        choices=("answer", "vector"),
    ),
)


def told_before(task: Task, name: str) -> list[str]:
    """What is to be said of a task's data files before a run; of other tasks nothing."""
    return task.told(name) if isinstance(task, RecordTask) else []


def counted(task: Task) -> dict[str, dict]:
    """How many records of each data file were read, and dropped by reason; of other tasks nothing.

    >>> counted(on_records("calls")())
    {'data': {'read': 8, 'dropped': {}}}
    """
    loaded = task.loaded if isinstance(task, RecordTask) else {}
    return {name: file.counts() for name, file in loaded.items()}


class RecordTask(Task):
    """A task on records. Derive from it; see :mod:`vpo_lite.tasks.hop_records` for a whole one.

    Sets are written as in the paper (arXiv 2605.22817, its release): answer i stands between
    ``<response_i>`` and ``</response_i>``, the first of each, and holds the domain's own tags. A
    single answer (m = 1) is the whole completion, without a block. Thoughts of a model outside of
    the blocks are not read.

    A subclass defines ``prompt``, and ``vector`` or ``score``, as any task, :meth:`record`, and

    - gold, effect: where the defaults do not fit

    - row: the :class:`Row` that a line must fit
    - meanings: each objective, with what earns it
    - completion_tokens: most tokens of a completion with one answer, and with three (the paper's)

    A gold answer earns every reward, so the true front is the point (1, ..., 1). A record whose own
    gold answer does not is dropped. Without a gold answer the front is unknown.
    """

    about = "records from a file, asked and scored as in the paper"
    tag = "response"
    tagged_alone = False
    options = RECORD_OPTIONS
    row: type[Row]
    meanings: tuple[tuple[str, str], ...] = ()
    completion_tokens = (512, 1024)

    # --- what a domain defines --------------------------------------------------------------------

    def record(self, row: Row) -> Any:
        """The problem of a row. Raises Dropped where none can be made of it, or where it is too
        long for the model; DamagedError for what its data set never holds.
        """
        raise TaskError(f"task {self.name!r} must define record(row)")

    def gold(self, instance) -> str | None:
        """An answer that earns every reward; None where the record holds none."""
        return None

    def kind(self, instance) -> str:
        """What kind of problem it is, for counts; empty where there is one kind."""
        return ""

    def effect(self, instance, answer: str):
        """What answers of equal effect have in common; hashable. By default the answer."""
        return answer

    def held_out(self, records: list) -> list:
        """The held-out records in the order in which they are measured."""
        return records

    # --- problems ---------------------------------------------------------------------------------

    def load(self, path) -> Loaded:
        """What a file holds. It is read again only if it, or an option that :meth:`record` may ask
        for, changes.

        Raises DamagedError where it cannot be read.
        """
        try:
            there = os.stat(path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise DamagedError(f"{path}: cannot be read ({why})") from error
        if stat.S_ISDIR(there.st_mode):
            raise DamagedError(f"{path}: cannot be read (a folder); join its shards in one file")
        if not stat.S_ISREG(there.st_mode):  # a pipe could be read only once
            raise DamagedError(f"{path}: cannot be read (it is no regular file)")
        options = tuple(getattr(self, option.name) for option in self.options if not option.path)
        key = (type(self), os.fspath(path), there.st_size, there.st_mtime_ns, options)
        if (loaded := _FILES.get(key)) is None:
            loaded = _FILES[key] = _loaded(self, os.fspath(path))
            for old in [*_FILES][:-FILES_KEPT]:  # another thread may have removed it
                _FILES.pop(old, None)
        return loaded

    @property
    def path(self) -> str:
        """The file of the records."""
        if self.data is not None:
            return self.data
        examples = EXAMPLES / f"{self.name}.jsonl"
        if not examples.exists():
            raise TaskError(f"task {self.name!r} has no records of its own: name a file as data")
        return str(examples)

    @functools.cached_property
    def loaded(self) -> dict[str, Loaded]:
        """What its files hold, by option, as they were when it was first asked."""
        named = {o.name: getattr(self, o.name) for o in RECORD_OPTIONS if o.path}
        named["data"] = self.path
        return {name: self.load(path) for name, path in named.items() if path is not None}

    @functools.cached_property
    def _split(self) -> dict[str, list]:
        """The records by split: to train on, held out, and to tune on where there are such."""
        found = {name: list(file.usable().values()) for name, file in self.loaded.items()}
        records = found["data"]
        if "held_out_data" in found:
            held_out = found["held_out_data"]
        else:
            records, held_out = parted(records)
            if not records:
                dropped = self.loaded["data"].dropped.values()
                also = f" ({len(dropped)} dropped: {next(iter(dropped))})" if dropped else ""
                raise DamagedError(
                    f"{self.path}: holds one record{also}; one to train on and one to hold out are "
                    "needed: give more, or give held_out_data"
                )
        split = {"train": records, "held_out": self.held_out(held_out)}
        if "validation_data" in found:
            split["validation"] = found["validation_data"]
        return split

    @property
    def seeds(self) -> dict[str, range]:
        """Indices into the records: first those to train on, then the others, split by split."""
        ends = np.cumsum([len(records) for records in self._split.values()]).tolist()
        return {
            split: range(end - len(records), end)
            for (split, records), end in zip(self._split.items(), ends, strict=True)
        }

    def instance(self, seed: int) -> Any:
        for split, seeds in self.seeds.items():
            if seeds.start <= seed < seeds.stop:
                return self._split[split][seed - seeds.start]
        count = sum(map(len, self._split.values()))
        raise ValueError(f"problem {shown(seed)}: there are {count:,} records, 0 to {count - 1:,}")

    def remarks(self, loaded: Loaded) -> Iterator[str]:
        """What is to be said of a file's records before they are used; mostly nothing."""
        yield from ()

    def told(self, name: str) -> list[str]:
        """What is to be said of the files before a run: dropped records, and :meth:`remarks`.

        name: of the task, as in ``--task``
        """
        loaded = {one.path: one for one in self.loaded.values()}.values()
        said = (
            x for one in loaded for x in (one.told_dropped(self.noun, name), *self.remarks(one))
        )
        return list(filter(None, said))

    def asked_in_training(self, seeds: Sequence[int]) -> int:
        """How many of the records with these seeds ask the same as one to train on. Their figures
        say nothing about new problems.
        """
        measured = [self.prompt(self.instance(seed), 1).text for seed in seeds]
        known = {self.prompt(x, 1).text for x in self._split["train"]} if measured else set()
        return sum(text in known for text in measured)

    def longest_asked(self) -> list:
        """By the characters of the request for one answer, at most eight."""
        return self._longest

    @functools.cached_property
    def _longest(self) -> list:
        records = self._split["train"]
        return heapq.nlargest(LONG, records, key=lambda x: len(self.prompt(x, 1).text))

    def key(self, instance) -> str:
        return hashlib.sha256(super().key(instance).encode()).hexdigest()[:16]

    def objectives(self, instance) -> tuple[str, ...]:
        return tuple(name for name, _ in self.meanings)

    def front(self, instance) -> np.ndarray | None:
        if self.gold(instance) is None:
            return None
        return np.ones((1, len(self.objectives(instance))))

    # --- the request and the parser ---------------------------------------------------------------

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        """The m answers in a completion; None where one is missing or malformed."""
        text = without_thoughts(text, self.tag)
        if m == 1:
            return super().parse(instance, text, m)
        bodies = (between(text, f"{self.tag}_{i}") for i in range(1, m + 1))
        return [None if body is None else self.read(instance, body) for body in bodies]

    def max_tokens(self, instance, m: int, pocket: dict | None = None) -> int:
        one, three = self.completion_tokens
        return one if m == 1 else -(-m * three // 3)

    def asked_in_blocks(self, m: int, inner: str) -> str:
        """The form of m answers, each with ``inner`` in its block; of one answer, ``inner``."""
        if m == 1:
            return inner
        return "\n".join(f"<{self.tag}_{i}>\n{inner}\n</{self.tag}_{i}>" for i in range(1, m + 1))

    def weighed(self, weights) -> str:
        """What a prompt says of the weights (d,) that it shows."""
        parts = zip(self.meanings, weights, strict=True)
        goals = "\n".join(f"- {name} ({what}): {w:.2f}" for (name, what), w in parts)
        return f"This time the goals of an answer have these weights:\n{goals}"

    # --- scoring ----------------------------------------------------------------------------------

    @property
    def repeats_by_reward(self) -> bool:
        return self.repeats == "vector"

    def same_effect(self, instance, answer: str):
        if self.repeats_by_reward:
            return tuple(np.asarray(self.score([instance], [[answer]])[0][0], float).tolist())
        return self.effect(instance, answer)


def on_records(name: str) -> type[RecordTask]:
    """The class that reads records for the task with this name. ValueError where there is none.

    >>> on_records("hops").__name__
    'HopRecords'
    """
    cls = task_class(name)
    for form in (cls, *getattr(cls, "modes", {}).values()):
        if issubclass(form, RecordTask):
            return form
    raise ValueError(f"task {shown(name)} has no records: its problems are made from seeds")


_FILES: dict[tuple, Loaded] = {}  # those that were read last; settings make many tasks of a file
FILES_KEPT = 4


def _loaded(task: RecordTask, path: str) -> Loaded:
    records, dropped, damaged = {}, {}, {}
    for line, row in rows_of(path, task.row):
        if isinstance(row, DamagedError):
            damaged[line] = str(row)
            continue
        try:
            record = task.record(row)
            if record is None:
                raise TaskError(
                    f"task {task.name!r}: record(row) returned None: return the problem, or raise "
                    "Dropped"
                )
            gold = task.gold(record)
            if gold is not None and (np.asarray(task.score([record], [[gold]])[0]) != 1).any():
                raise Dropped("its own gold answer does not earn every reward")
            records[line] = record
        except Dropped as error:
            dropped[line] = str(error)
        except DamagedError as error:
            damaged[line] = f"{path}, {place_in(path, line)}: {error}"
    return Loaded(path, records, dropped, damaged)
