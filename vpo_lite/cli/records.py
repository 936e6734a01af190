"""``vpo-lite data check`` and ``vpo-lite score``: records from a file, and answers to them."""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from ..checks import raised, shortened, shown
from ..files import DamagedError
from ..markup import count
from ..messages import LONGEST
from ..tasks import task_class
from ..tasks.base import MAX_ANSWERS, TaskError
from ..tasks.functions import FunctionsTask
from ..tasks.modes import TaskInModes
from ..tasks.record_files import parted, told_parted
from ..tasks.records import RecordTask, on_records
from ..tasks.rows import Row, rows_of
from . import lengths
from .columns import lines_by_kind, oddities
from .flags import (
    Wrong,
    add_number,
    add_task_options,
    at_home,
    given,
    note,
    path,
    print_json,
    progress,
    requests,
)

TOGETHER = 256  # texts that are scored in one call
ALONE = 64  # records that `data check` scores one by one, to compare: a judge can take seconds
SHOWN = 3  # damaged lines
LISTED = 5  # dropped lines of one reason
BAR = dict(unit="record", delay=2, leave=False)
TASK = "task that reads the records; with it, --help lists the options of the task"


class _Asked(Row):
    """One line of a file of answers."""

    id: str | int
    record: int
    m: int
    text: str


def data_flags(made, arguments) -> None:
    made.add_argument("action", choices=("check",), help="the one thing to do with a file")
    made.add_argument("file", type=path, metavar="FILE", help="records, as JSON lines or parquet")
    made.add_argument("--task", required=True, metavar="NAME", help=TASK)
    made.add_argument(
        "--model",
        type=at_home,
        metavar="NAME",
        help="also count the tokens of each request, and those too long for it",
    )
    add_number(made, "--m", "answers that a request asks for", default=3)
    made.add_argument(
        "--score",
        metavar="TEXT",
        help="also score TEXT as an answer to each record, and name those on which this fails",
    )
    made.add_argument("--json", action="store_true", help="print all counts as JSON")
    add_task_options(made, arguments)


def check_data(options) -> int:
    """Print what loads, what is dropped and why. Status 1 where a line is damaged, where no record
    can be used, and where the scorer fails on one.
    """
    with requests():
        cls = on_records(options.task)
        chosen, whole = given(cls.options, options), task_class(options.task)
        if issubclass(whole, TaskInModes):  # refuses an option of another mode
            whole.mode_of(given(whole.options, options) | {"data": os.fspath(options.file)})
        given_any = bool(chosen) or options.score is not None
        whole_task = given_any and not _rows_alone(cls, chosen, options.score)
        data = os.fspath(options.file) if whole_task else None
        make = partial(cls, **chosen | {"data": data}) if given_any else cls
        task = make()
        task.check_policy(options.m, None)
        loaded = task.load(options.file)
        if whole_task and loaded.records and not loaded.damaged:
            task.check_machine()
        longest = {}
        if options.model:
            longest = lengths.counted(task, loaded.records, options.model, options.m, BAR)
        repeated, seen = _repeated(task, loaded.records)
    kinds = Counter(kind for x in loaded.records.values() if (kind := task.kind(x)))
    rows = loaded.records if isinstance(task, FunctionsTask) else {}
    columns = lines_by_kind({line: x.columns for line, x in rows.items()})
    reasons = loaded.reasons()
    counts = {
        "records": len(loaded.records),
        "kinds": dict(sorted(kinds.items())),
        "dropped": {why: len(lines) for why, lines in reasons.items()},
        "dropped_lines": {why: [i + 1 for i in lines] for why, lines in reasons.items()},
        "damaged": len(loaded.damaged),
        "repeated": len(repeated),
        "held_out_seen": len(seen),
        "columns": {n: {kind: len(x) for kind, x in of.items()} for n, of in columns.items()},
        **longest,
    }
    failed, together, fatal = {}, "", False
    if options.score is not None:
        failed, found, together = _failures(task, loaded, options.score)
        fatal = bool(together)
        if not fatal:  # a task of its own: the answers that it counts are others
            together, fatal = _in_one_call(make(), loaded, options.score, found)
        counts |= {"failed": len(failed), "together": together or None}
    functions = task.reward_functions
    if functions and functions.asked:
        counts["none"] = functions.nones
    status = int(bool(loaded.damaged or failed or fatal) or not loaded.records)
    if options.json:
        first = {"first_damaged": loaded.damaged}
        first |= {} if options.score is None else {"first_failed": failed}
        print_json(counts | {name: next(iter(x.values()), None) for name, x in first.items()})
    else:
        what = (counts, repeated, seen, failed, together, columns)
        print("\n".join(_told(task, loaded, options.model, *what)))
    return status


def _rows_alone(cls: type, chosen: dict, text: str | None) -> bool:
    """Whether rows are counted without the functions that would score them."""
    named = {"reward_funcs", "reward_weights", "worst_reward"}
    return issubclass(cls, FunctionsTask) and text is None and not named & chosen.keys()


def _told(
    task, loaded, model, counts: dict, repeated, seen, failed: dict, together: str, columns
) -> Iterator[str]:
    """What a file of records holds, as lines of text."""
    named = loaded.named
    listed = ", ".join(f"{kind}: {n:,}" for kind, n in counts["kinds"].items())
    yield f"{loaded.path}: {count(counts['records'], task.noun)}{f' ({listed})' if listed else ''}"
    if task.held_out_data is None and loaded.records and not loaded.damaged:
        yield told_parted(len(loaded.records), task.noun)
    if "request_tokens" in counts:
        yield from lengths.told(counts, task.noun, model, named)
    for why, lines in loaded.reasons().items():
        yield f"{len(lines):,} dropped: {why} ({_listed(named, lines)})"
    yield from task.remarks(loaded)
    if repeated:
        yield f"{len(repeated):,} ask the same as an earlier one (first: {named(repeated[0])})"
    if seen:
        held_out = loaded if task.held_out_data is None else task.load(task.held_out_data)
        yield (
            f"{len(seen):,} held-out {task.noun}s ask the same as one to train on (first: "
            f"{held_out.named(seen[0])}): their figures say nothing about new {task.noun}s"
        )
    yield from oddities(columns, task.noun, named)
    for line, message in _each_once(failed):
        yield f"{named(line)} cannot be scored: {message}"
    if "failed" in counts:
        yield f"{counts['failed']:,} of {counts['records']:,} cannot be scored"
    if together:
        yield f"scored many in one call, as training does: {together}"
    if not (loaded.records or loaded.dropped or loaded.damaged):
        yield "the file is empty: no run can use it"
    if task.reward_functions and (none := task.reward_functions.warning_of_none()):
        yield none
    for message in list(loaded.damaged.values())[:SHOWN]:
        yield f"damaged: {message}"
    if loaded.damaged:
        yield f"{len(loaded.damaged):,} damaged in all: no run can use this file"


def _listed(named, lines: list[int]) -> str:
    """The first lines by their numbers, and how many more there are.

    >>> _listed(lambda i: f"line {i + 1}", [*range(9)])
    'lines 1, 2, 3, 4, 5 and 4 more; --json lists all'
    """
    word, _, _ = named(lines[0]).partition(" ")
    numbers = ", ".join(str(line + 1) for line in lines[:LISTED])
    more = f" and {len(lines) - LISTED:,} more; --json lists all" if len(lines) > LISTED else ""
    return f"{word}{'s' * (len(lines) > 1)} {numbers}{more}"


def _repeated(task, records: dict) -> tuple[list[int], list[int]]:
    """Records that ask the same as an earlier one; held-out ones that ask the same as one to train
    on.
    """

    def asked(records: dict) -> dict[int, str]:
        bar = progress(records.items(), desc="comparing", **BAR)
        return {line: task.prompt(x, 1).text for line, x in bar}

    texts = asked(records)
    first = {text: line for line, text in reversed(texts.items())}
    repeated = [line for line, text in texts.items() if first[text] != line]
    if task.held_out_data is None:
        train, lines = parted(list(texts))
        held_out = {line: texts[line] for line in lines}
    else:
        train, held_out = list(texts), asked(task.load(task.held_out_data).records)
    known = {texts[line] for line in train}
    return repeated, [line for line, text in held_out.items() if text in known]


def _failures(task, loaded, text: str) -> tuple[dict[int, str], dict[int, np.ndarray], str]:
    """What the scorer raises at this answer, what rewards (d,) it gives, by record, and what it
    raised for many records in one call, but for none of these alone.
    """
    failed, found, fallen, lines = {}, {}, [], list(loaded.records)
    calls = [lines[i : i + TOGETHER] for i in range(ALONE, len(lines), TOGETHER)]
    calls = [*calls[::-1], *([line] for line in lines[:ALONE][::-1])]
    with progress(total=len(lines), desc="scoring", **BAR) as bar:
        while calls:
            some = calls.pop()
            try:
                found.update(_rewards(task, loaded, some, [text]))
            except Exception as error:  # the task's own code can fail in any way
                if half := len(some) // 2:
                    fallen.append((some, _said(error)))
                    calls += some[half:], some[:half]
                    continue
                failed[some[0]] = _said(error)
            bar.update(len(some))
    return failed, found, next((why for x, why in fallen if not failed.keys() & set(x)), "")


def _in_one_call(task, loaded, text: str, found: dict[int, np.ndarray]) -> tuple[str, bool]:
    """What is to be said where the scorer gets many answers in one call, as training asks it to,
    and whether no run could go on; "" where all is well. found: the rewards of each record alone.

    Between the answers stand others, whose rewards are left out: a scorer may compare the answers
    of a call, and equal ones would not show it.
    """
    from ..training.answers import scored_alike

    some = list(found)[:ALONE]
    if not some:
        return "", False
    try:
        beside = _rewards(task, loaded, some, [text])
    except Exception as error:  # the task's own code can fail in any way
        return _said(error), True
    with contextlib.suppress(Exception):  # it may not read the other answers
        beside += _rewards(task, loaded, some, [text, "", f"{text} {text}", text])
    for line, rewards in beside:
        if not scored_alike(rewards, found[line]):
            i = int(np.argmax(abs(rewards - found[line])))
            name = task.objectives(loaded.records[line])[i]
            return (
                f"{name} gives {rewards[i]:g} instead of {found[line][i]:g} in "
                f"{loaded.named(line)}; rewards are random, or depend on the other answers of a "
                "call"
            ), False
    return "", False


def _rewards(task, loaded, lines: list[int], texts: list[str]) -> list[tuple[int, np.ndarray]]:
    """The rewards (d,) of the first text, by record, where all are scored in one call."""
    from ..training.answers import judge

    judged = judge(task, [(loaded.records[line], text, 1) for line in lines for text in texts])
    return [(line, judged[i * len(texts)].rewards[0]) for i, line in enumerate(lines)]


def _said(error: Exception) -> str:
    ours = isinstance(error, TaskError)
    return shortened(str(error), LONGEST) if ours else raised(error, LONGEST)


def _each_once(failed: dict[int, str]) -> Iterator[tuple[int, str]]:
    """The first few failures that differ in more than their numbers."""
    first = {}
    for line, message in sorted(failed.items()):
        first.setdefault(re.sub(r"[0-9.]+(e[+-]?[0-9]+)?", "", message), (line, message))
    yield from list(first.values())[:SHOWN]


def score_flags(made, arguments) -> None:
    made.add_argument("--task", required=True, metavar="NAME", help=TASK)
    made.add_argument(
        "--answers",
        type=path,
        required=True,
        metavar="FILE",
        help='answers to score, as JSON lines {"id": "a", "record": 0, "m": 3, "text": "..."}; '
        "record counts the lines of the data from 0",
    )
    made.add_argument("--json", action="store_true", help="no effect: the output is always JSON")
    add_task_options(made, arguments)


def score(options) -> int:
    """Print one JSON line for each line of answers, in their order."""
    from ..training.answers import judge

    with requests():
        on_records(options.task)  # refuses a task without records
        cls = task_class(options.task)
        task = cls(**given(cls.options, options))
        if not isinstance(task, RecordTask) or task.data is None:
            raise Wrong("--data FILE: name the records that the answers belong to")
        task.check_machine()
        loaded, asked = task.load(task.path), []
        loaded.usable()
        for line, row in rows_of(options.answers, _Asked):
            if isinstance(row, DamagedError):
                raise row
            asked.append((row.id, _problem(loaded, row, f"{options.answers}, line {line + 1}")))
        if not asked:
            raise Wrong(f"{options.answers}: holds no answer to score")
    (most, times), *_ = Counter(name for name, _ in asked).most_common(1)
    if times > 1:
        note(f"id {shown(most)} is there {times} times: only their order tells the results apart")
    with progress(total=len(asked), desc="scoring", **BAR) as bar:
        for first in range(0, len(asked), TOGETHER):
            some = asked[first : first + TOGETHER]
            try:
                found = judge(task, [a for _, a in some])
            except TaskError as error:
                last = first + len(some)
                where = f"lines {first + 1} to {last}" if len(some) > 1 else f"line {last}"
                raise TaskError(f"{options.answers}, {where}: {error}") from error
            for (name, (x, *_)), judged in zip(some, found, strict=True):
                result = {
                    "id": name,
                    "objectives": list(task.objectives(x)),
                    "rewards": judged.rewards.tolist(),
                    "valid": judged.valid.tolist(),
                    "solved": judged.solved.tolist(),
                }
                print_json(result)
            bar.update(len(some))
    return 0


def _problem(loaded, row: _Asked, where: str) -> tuple:
    """The instance, text and m that one line of answers asks to score."""
    if not 1 <= row.m <= MAX_ANSWERS:
        raise Wrong(f"{where}: m = {shown(row.m)}: must be 1 to {MAX_ANSWERS}")
    try:
        return loaded.at(row.record), row.text, row.m
    except ValueError as error:
        raise Wrong(f"{where}: {error}") from error
