"""Recordings: all that the runs of a lab wrote, in one file that replays without a model.

The file holds every text, answer, reward and advantage as it was. Problems are stored as the seeds
of the run, with a checksum. The oldest that ship, of one problem, lack texts and advantages.

A recording may come from a stranger. So every field has a schema (stored.py), what is unpacked is
bounded, and reading imports no code.
"""

import itertools
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...checks import shown, told_of
from ...files import not_written, parse_json, read_bytes, write_atomically
from ...messages import did_you_mean, shown_path
from ..codes import decode
from ..packing import packed, packed_numbers
from ..view import SeenRun
from .stored import (
    EMPTY,
    MOST_BYTES,
    MOST_COMMAND,
    MOST_NUMBERS,
    NONE,
    Stored,
    checksum,
    inside,
    runs_of,
)

SHIPPED = Path(__file__).parent
FILE = "recording.json"


class Recording(NamedTuple):
    """What a recording holds: the lab's share code, the command that made it, and the runs."""

    share: str
    command: str
    runs: tuple[SeenRun, ...]


def shipped() -> list[str]:
    """Names of the recordings that the package carries."""
    return sorted(p.parent.relative_to(SHIPPED).as_posix() for p in SHIPPED.rglob(FILE))


def write(folder, recording: Recording) -> Path:
    """Write ``folder``/recording.json, whole or not at all. Returns its path.

    An earlier recording is replaced. Raises ValueError where another file stands in its place,
    where it cannot be written, and for runs too large to be read back.
    """
    path = _folder(folder) / FILE
    if os.path.lexists(path):
        with told_of("record replaces only a recording", cure="; choose another folder"):
            _read(path)
    runs = [run for run in recording.runs if run.records]
    groups = [group for run in runs for record in run.records for group in record.groups]
    answers = sorted({a for g in groups for row in g.answers for a in row if a})
    texts = sorted({text for g in groups for text in g.texts})
    numbers = {a: i for i, a in enumerate(answers)} | {"": EMPTY, None: NONE}
    text_numbers = {text: i for i, text in enumerate(texts)}
    all_texts = json.dumps(texts).encode()
    content = {
        "version": 2,
        "share": recording.share,
        "command": recording.command,
        "answers": answers,
        "texts": packed(all_texts),
        "runs": [_written(run, numbers, text_numbers) for run in runs],
    }
    content = json.dumps(content) + "\n"
    if len(recording.command) > MOST_COMMAND:
        raise ValueError(f"command = {shown(recording.command)}: at most {MOST_COMMAND} characters")
    count, size = sum(g.rewards.size for g in groups), max(len(content), len(all_texts))
    if count > MOST_NUMBERS or size > MOST_BYTES:
        raise ValueError(
            f"record: {count:,} rewards and {size:,} bytes of text are too many; a recording takes "
            f"{MOST_NUMBERS:,} and {MOST_BYTES:,}: train fewer steps"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise ValueError(not_written(path, error)) from error
    return path


def new_folder(name: str) -> Path:
    """Make the folder recordings/NAME-N in the current folder, with the first N that is free.

    What is no letter (a to z) or digit becomes "-", and NAME is cut to 100 characters. Raises
    ValueError where it cannot be made.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:100]
    for number in itertools.count(1):
        folder = Path("recordings") / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            if os.path.lexists(folder):
                continue
            raise ValueError(f"{folder}: cannot be made ({error.strerror or error})") from error
        return folder


def find(folder) -> Path:
    """The file of the recording in a folder, or of the one of this name that the package carries.

    Raises ValueError where there is none.

    >>> find("stuck/seed-0").relative_to(SHIPPED).as_posix()
    'stuck/seed-0/recording.json'
    """
    folder = _folder(folder)
    folder = folder.parent if folder.name == FILE else folder  # the path that `write` returned
    for path in (folder / FILE, SHIPPED / folder / FILE):
        if os.path.isfile(path):
            return path
    what, known = f"{shown(str(folder))}: no recording", shipped()
    if os.path.isfile(folder / "config.json"):
        raise ValueError(
            f"{what}, but a run of vpo-lite train; lab.record() makes one, in a notebook"
        )
    meant = did_you_mean([folder.as_posix()], known)
    raise ValueError(f"{what}{meant or '; the package carries ' + ', '.join(known)}")


def read(folder) -> Recording:
    """The recording in a folder, or the one of this name that the package carries.

    Raises ValueError where there is none, and DamagedError that names file and field for one that
    is damaged or of another version.
    """
    return _read(find(folder))


def _read(path: Path) -> Recording:
    data = read_bytes(path, most=MOST_BYTES)
    what = f"{shown_path(path)}: no recording that this version can read"
    stored = parse_json(data, Stored, what)
    with inside(what):
        runs = runs_of(stored)
        with inside("share"):
            task = decode(stored.share).config.task
        methods = [run.method for run in runs]
        if len(set(methods)) < len(methods) or any(run.config.task != task for run in runs):
            raise ValueError(
                f"runs: of {shown(methods)} on {task}: expected each method once, on one task"
            )
    return Recording(stored.share, stored.command, tuple(runs))


def _folder(name) -> Path:
    path = os.fspath(name) if isinstance(name, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"folder = {shown(name)}: expected the path of a folder")
    return Path(path)


def _written(run: SeenRun, numbers: dict, text_numbers: dict) -> dict:
    groups = [group for record in run.records for group in record.groups]
    task = run.config.make_task()
    records = [record.to_json() for record in run.records]
    answers = [numbers[a] for g in groups for row in g.answers for a in row]
    sizes = [len(moment.rewards) for moment in run.moments]
    usual = run.config.answers > 1 or set(sizes) == {run.config.set_size}
    return {
        "method": run.method,
        "config": run.config.but(threads=None).to_json() | {"method": run.method},  # no module
        "records": packed(json.dumps(records).encode()),
        "shapes": [[list(g.rewards.shape) for g in record.groups] for record in run.records],
        "problems": checksum(task, [g.instance for g in groups]),
        "answers": packed_numbers(answers, "<i4"),
        "texts": packed_numbers([text_numbers[text] for g in groups for text in g.texts], "<i4"),
        "rewards": packed_numbers(np.concatenate([g.rewards.ravel() for g in groups]), "<f8"),
        "advantages": packed_numbers(np.concatenate([g.advantages for g in groups]), "<f8"),
    } | ({} if usual else {"set_sizes": sizes})
