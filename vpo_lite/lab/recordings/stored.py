"""What the file of a recording holds: its schema, and how it becomes runs again."""

import hashlib
import json
from functools import cache, partial
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from ...checks import check_rewards, shown, told_of
from ...estimators import METHODS
from ...files import DamagedError, Schema, parse_json
from ...tasks.base import Task
from ...training.config import TrainConfig
from ...training.problems import problems_of_step
from ...training.record import Group, StepRecord
from ..codes import check_code
from ..packing import unpacked, unpacked_numbers
from ..view import Moment, SeenRun

MOST_BYTES = 2**25  # of a file, and of all its texts; the largest that ships has 0.1 MB
MOST_NUMBERS = 2**22  # rewards of all runs together
MOST_COMMAND = 1000  # characters
NONE, EMPTY = -2, -1  # numbers of the answers None and ""

Length = Annotated[int, Field(ge=1, le=MOST_NUMBERS)]
Shape = tuple[Length, Length, Length]
Command = Annotated[str, Field(max_length=MOST_COMMAND)]
Values = dict[str, JsonValue]  # of a config or a step record, which have checks of their own


class StoredRun(Schema):
    """A run. What is packed is one text. `shapes`: (G, m, d) of each group, by step.
    `set_sizes`: single answers of a compared set, by step, where they are not always the config's.
    """

    method: str
    config: Values
    records: str
    shapes: list[Annotated[list[Shape], Field(min_length=1)]]
    problems: str
    answers: str
    texts: str
    rewards: str
    advantages: str
    set_sizes: list[Length] | None = None

    @property
    def numbers(self) -> int:
        return sum(prod(shape) for step in self.shapes for shape in step)


class Stored(Schema):
    version: Literal[2]
    share: str
    command: Command
    answers: list[str]
    texts: str
    runs: Annotated[list[StoredRun], Field(min_length=1)]


inside = partial(told_of, kind=DamagedError)  # a field, or a part of a recording


def runs_of(stored: Stored) -> list[SeenRun]:
    """The runs of a recording. Raises DamagedError that names the field."""
    count = sum(run.numbers for run in stored.runs)
    if count > MOST_NUMBERS:
        raise DamagedError(f"runs: {count:,} numbers; a recording takes {MOST_NUMBERS:,}")
    texts = _json(stored.texts, list[str], "texts")
    runs = []
    for i, run in enumerate(stored.runs):
        with inside(f"runs.{i}"):
            runs.append(_run(run, stored.answers, texts))
    return runs


def checksum(task: Task, instances) -> str:
    """A short text that differs for other problems."""
    keys = json.dumps([task.key(x) for x in instances])
    return hashlib.blake2b(keys.encode(), digest_size=8).hexdigest()


# --- one run --------------------------------------------------------------------------------------


def _run(stored: StoredRun, answers: list[str], texts: list[str]) -> SeenRun:
    config, task = _config(stored)
    records = _json(stored.records, list[Values], "records")
    shapes = [shape for step in stored.shapes for shape in step]
    rollouts, asked = sum(G for G, _, _ in shapes), sum(G * m for G, m, _ in shapes)
    known = [*answers, None, ""]  # NONE and EMPTY count from the end
    of_answer = _parts(stored, "answers", "<i4", asked, least=NONE, most=len(answers) - 1)
    of_text = _parts(stored, "texts", "<i4", rollouts, least=0, most=len(texts) - 1)
    rewards = _parts(stored, "rewards", "<f8", stored.numbers)
    advantages = _parts(stored, "advantages", "<f8", rollouts, nan=True)
    groups = []
    for step, its in enumerate(stored.shapes):
        problems = problems_of_step(task, config.seed, step, len(its))
        groups.append(
            tuple(
                Group(
                    instance=instance,
                    texts=[texts[i] for i in of_text(G)],
                    answers=[[known[i] for i in row] for row in of_answer(G, m)],
                    rewards=rewards(G, m, d),
                    advantages=advantages(G),
                )
                for instance, (G, m, d) in zip(problems, its, strict=True)
            )
        )
    everything = [group for its in groups for group in its]
    if stored.problems != checksum(task, [g.instance for g in everything]):
        raise ValueError(
            "problems: its problems were made by another version; open it with that one, or train "
            "and record again"
        )
    _check_groups(task, everything)
    return _with_moments(config, task, records, groups, stored.set_sizes)


def _config(stored: StoredRun) -> tuple[TrainConfig, Task]:
    with inside("config"):
        options = stored.config.get("task_options")
        check_code(stored.config | (options if isinstance(options, dict) else {}))
        method = stored.config.get("method")
        if method != stored.method:
            raise ValueError(f"method {shown(method)}, but the run is of {shown(stored.method)}")
        if method not in METHODS:  # where a name holds a module, a config would import that
            raise ValueError(f"unknown method {shown(method)}: if it is yours, import it first")
        config = TrainConfig.from_json(stored.config)
        return config, config.make_task()


def _check_groups(task: Task, groups: list[Group]) -> None:
    """Refuse rewards, advantages and answers that the task and its training cannot have given."""
    seen = set()
    for group in groups:
        d, key = len(task.objectives(group.instance)), task.key(group.instance)
        check_rewards(group.rewards, "rewards")
        if group.rewards.shape[-1] != d:
            raise ValueError(f"shapes: d = {group.rewards.shape[-1]}, but the task has {d}")
        unknown = np.isnan(group.advantages)  # all of them, in the oldest recordings that ship
        if unknown.any() and not unknown.all():
            raise ValueError("advantages: NaN beside numbers")
        answers = {answer for row in group.answers for answer in row} - {None}
        for answer in () if task.repeats_by_reward else answers:  # which would be scored, or run
            if (key, answer) not in seen:
                with inside("answers"):
                    task.same_effect(group.instance, answer)  # refuses what no parser reads
                seen.add((key, answer))


def _with_moments(
    config: TrainConfig, task: Task, records: list[dict], groups: list, sizes: list | None
) -> SeenRun:
    """The run with what was shown of each step; m, G and sizes of sets may have changed."""
    if not 0 < len(records) == len(groups):
        raise ValueError(f"records: {len(records)} steps, but shapes of {len(groups)}")
    sizes = [config.set_size] * len(records) if sizes is None else sizes
    if len(sizes) != len(records):
        raise ValueError(f"set_sizes: of {len(sizes)} steps, but there are {len(records)}")
    config_of = cache(lambda m, G, size: config.but(m=m, group_size=G, set_size=size))
    whole, moments = [], []
    for step, (values, its) in enumerate(zip(records, groups, strict=True), start=1):
        with inside(f"records, step {step}"):
            record = StepRecord.from_json(values, its)
            if (record.step, record.method) != (step, config.method):
                raise ValueError(f"is step {shown(record.step)} of {shown(record.method)}")
            G, m = its[0].rewards.shape[:2]
            if any(group.rewards.shape[:2] != (G, m) for group in its):
                raise ValueError("its groups have different shapes")
            of_then = config_of(m, G, sizes[step - 1])
            if not m == record.m == of_then.answers:
                raise ValueError(f"m = {shown(record.m)}, but its rollouts have {m} answers")
            whole.append(record)
            moments.append(Moment.of(record, of_then, task))
    return SeenRun(config.method, config, tuple(whole), tuple(moments))


# --- packed parts ---------------------------------------------------------------------------------


def _json(text: str, schema: Any, field: str) -> Any:
    with inside(field):
        plain = unpacked(text, most=MOST_BYTES)
    return parse_json(plain, schema, field)


def _parts(stored, field: str, dtype: str, count: int, *, nan: bool = False, **limits):
    """A function that returns the next of a field's numbers, in the shape asked for."""
    with inside(field):
        numbers = unpacked_numbers(getattr(stored, field), dtype, count, **limits)
        if np.isinf(numbers).any() or (np.isnan(numbers).any() and not nan):
            raise ValueError("expected finite numbers")
    at = 0

    def part(*shape):
        nonlocal at
        at += prod(shape)
        return numbers[at - prod(shape) : at].reshape(shape)

    return part
