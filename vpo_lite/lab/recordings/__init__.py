"""Recordings: all that the runs of a lab wrote, in one file that replays without a model.

A file of version 2 holds every text, answer, reward and advantage as it was. Problems are stored as
the seeds of the run, with a checksum. A file of 0.1.0 (version 1) holds answers only, on one
problem; their rewards are scored again, and texts and advantages are missing.
"""

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...tasks.base import Task
from ...training.config import TrainConfig
from ...training.problems import problems_of_step
from ...training.record import Group, StepRecord
from ..view import Moment, Run

SHIPPED = Path(__file__).parent
FILE = "recording.json"
_NONE, _EMPTY = -2, -1  # numbers of the answers None and ""


class Recording(NamedTuple):
    """What a recording holds: the lab's share code, the command that made it, and the runs."""

    share: str
    command: str
    runs: tuple[Run, ...]


def shipped() -> list[str]:
    """Names of the recordings that the package carries."""
    return sorted(p.parent.relative_to(SHIPPED).as_posix() for p in SHIPPED.rglob(FILE))


def write(folder, recording: Recording) -> Path:
    """Write ``folder``/recording.json, whole or not at all. Returns its path."""
    from ...training.folders import write_atomically  # loads torch, which reading does not need

    runs = [run for run in recording.runs if run.records]
    groups = [group for run in runs for record in run.records for group in record.groups]
    answers = sorted({a for g in groups for row in g.answers for a in row if a})
    texts = sorted({text for g in groups for text in g.texts})
    numbers = {a: i for i, a in enumerate(answers)} | {"": _EMPTY, None: _NONE}
    text_numbers = {text: i for i, text in enumerate(texts)}
    content = {
        "version": 2,
        "share": recording.share,
        "command": recording.command,
        "answers": answers,
        "texts": _packed(json.dumps(texts).encode()),
        "runs": [_written(run, numbers, text_numbers) for run in runs],
    }
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content) + "\n")
    return path


def read(folder) -> Recording:
    """The recording in a folder, or the one of this name that the package carries. ValueError if
    there is none.
    """
    path = next((p for p in (Path(folder), SHIPPED / folder) if (p / FILE).is_file()), None)
    if path is None:
        known = ", ".join(shipped())
        raise ValueError(f"{folder}: no recording; the package carries {known}")
    try:
        stored = json.loads((path / FILE).read_text(encoding="utf-8"))
        if stored["version"] not in (1, 2):
            raise ValueError(f"it has version {stored['version']}")
        if stored["version"] == 1:
            runs = [_run_of_010(stored["routes"], run) for run in stored["runs"]]
        else:
            texts = json.loads(_unpacked(stored["texts"]))
            runs = [_run(stored["answers"], texts, run) for run in stored["runs"]]
    except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        raise ValueError(
            f"{path / FILE}: no recording that this version can read ({error})"
        ) from error
    return Recording(stored["share"], stored["command"], tuple(runs))


# --- one run --------------------------------------------------------------------------------------


def _written(run: Run, numbers: dict, text_numbers: dict) -> dict:
    groups = [group for record in run.records for group in record.groups]
    task = run.config.make_task()
    records = [record.to_json() for record in run.records]
    return {
        "method": run.method,
        "config": run.config.but(threads=None).to_json(),
        "records": _packed(json.dumps(records).encode()),
        "shapes": [[list(g.rewards.shape) for g in record.groups] for record in run.records],
        "problems": _checksum(task, [g.instance for g in groups]),
        "answers": _array([numbers[a] for g in groups for row in g.answers for a in row], "<i4"),
        "texts": _array([text_numbers[text] for g in groups for text in g.texts], "<i4"),
        "rewards": _array(np.concatenate([g.rewards.ravel() for g in groups]), "<f8"),
        "advantages": _array(np.concatenate([g.advantages for g in groups]), "<f8"),
    }


def _run(answers: list[str], texts: list[str], stored: dict) -> Run:
    config = TrainConfig.from_json(stored["config"])
    task = config.make_task()
    known = [*answers, None, ""]  # _NONE and _EMPTY count from the end
    numbers, text_numbers = _parts(stored["answers"], "<i4"), _parts(stored["texts"], "<i4")
    rewards, advantages = _parts(stored["rewards"], "<f8"), _parts(stored["advantages"], "<f8")
    records = []
    for values, shapes in zip(
        json.loads(_unpacked(stored["records"])), stored["shapes"], strict=True
    ):
        problems = problems_of_step(task, config.seed, values["step"] - 1, len(shapes))
        groups = tuple(
            Group(
                instance=instance,
                texts=[texts[i] for i in text_numbers(G)],
                answers=[[known[i] for i in row] for row in numbers(G, m)],
                rewards=rewards(G, m, d),
                advantages=advantages(G),
            )
            for instance, (G, m, d) in zip(problems, shapes, strict=True)
        )
        records.append(StepRecord.from_json(values, groups))
    if stored["problems"] != _checksum(task, [g.instance for r in records for g in r.groups]):
        raise ValueError(f"{stored['method']}: its problems were made by another version")
    return _with_moments(stored["method"], config, task, records)


def _run_of_010(answers: list[str], stored: dict) -> Run:
    config = TrainConfig.from_json(stored["config"])
    task = config.make_task()
    instance = task.instance(task.seeds["train"][0])
    known = [*answers, None, ""]
    scored = task.score([instance], [answers])[0]
    vectors = np.vstack([scored, [task.worst(instance)] * 2])
    numbers = _parts(stored["answers"], "<i2")
    records = []
    for values, (P, G, m) in zip(stored["records"], stored["shapes"], strict=True):
        groups = tuple(
            Group(
                instance=instance,
                texts=[""] * G,
                answers=[[known[i] for i in row] for row in group],
                rewards=vectors[group],
                advantages=np.full(G, np.nan),
            )
            for group in numbers(P, G, m)
        )
        records.append(StepRecord.from_json(values, groups))
    return _with_moments(stored["method"], config, task, records)


def _with_moments(method: str, config: TrainConfig, task: Task, records: list) -> Run:
    """The run with what was shown of each step; m and G may have changed on the way."""
    moments = []
    for record in records:
        group_size = len(record.groups[0].rewards)
        moments.append(Moment.of(record, config.but(m=record.m, group_size=group_size), task))
    return Run(method, config, tuple(records), tuple(moments))


# --- packing --------------------------------------------------------------------------------------


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _array(values: Sequence, dtype: str) -> str:
    return _packed(np.asarray(values, dtype).tobytes())


def _parts(packed: str, dtype: str):
    """A function that returns the next part of the packed numbers in the shape asked for."""
    numbers, at = np.frombuffer(_unpacked(packed), dtype), 0

    def part(*shape):
        nonlocal at
        at += math.prod(shape)
        return numbers[at - math.prod(shape) : at].reshape(shape)

    return part


def _checksum(task: Task, instances) -> str:
    keys = json.dumps([task.key(x) for x in instances])
    return hashlib.blake2b(keys.encode(), digest_size=8).hexdigest()
