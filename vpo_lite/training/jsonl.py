"""The files of a run that grow line by line: metrics.jsonl, measured.jsonl, texts.jsonl."""

import contextlib
import os
from pathlib import Path

from ..files import DamagedError, parse_json, read_json_lines, replacing
from ..tasks.rows import Row
from .record import Step, StepRecord, stored_step
from .schemas import Measured

LOST_STEPS = "put the file back as it was, or start the run anew"
LOST_MEASUREMENTS = "put the file back as it was, or remove it: curves alone need it"


class _Line(Row):
    step: Step


@contextlib.contextmanager
def _cured(cure: str):
    """A context in which a DamagedError ends with what a user can do."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}; {cure}") from error


def records_of(path: Path) -> list[StepRecord]:
    """The records of metrics.jsonl: steps 1, 2, 3, ... without a gap.

    A last line that a kill cut short is left out. Raises DamagedError for anything else.
    """
    with _cured(LOST_STEPS):
        rows = read_json_lines(path, stored_step())
        for line, row in enumerate(rows, 1):
            if row.step != line:
                said = f"{path}, line {line}: field step: expected {line}, not {row.step}"
                raise DamagedError(said)
    return [StepRecord(**dict(row)) for row in rows]


def measured_of(path: Path, last: int) -> list[dict]:
    """The figures of each line of measured.jsonl, and its ``step``, of a run of ``last`` steps.

    A last line that a kill cut short is left out. Raises DamagedError for anything else, also where
    a step does not follow the one before.
    """
    with _cured(LOST_MEASUREMENTS):
        rows, before = read_json_lines(path, Measured), 0
        for line, row in enumerate(rows, 1):
            if not before < row.step <= last:
                expected = f"{before + 1} to {last}" if before < last else "no further line"
                said = f"{path}, line {line}: field step: expected {expected}, not {row.step}"
                raise DamagedError(said)
            before = row.step
    return [row.model_dump() for row in rows]


def append(path: Path, text: str) -> None:
    """Add whole lines to a file, or nothing where that fails: half a line would spoil the next."""
    before = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        with contextlib.suppress(OSError):
            os.truncate(path, before)
        raise


def cut(path: Path, step: int) -> None:
    """Remove the lines of later steps, and a last one that a kill cut short.

    Raises DamagedError for another line that cannot be read, and removes nothing then.
    """
    if not path.exists():
        return
    with replacing(path) as staging, open(path, "rb") as old, open(staging, "wb") as new:
        for number, line in enumerate(old, 1):
            if not line.endswith(b"\n"):
                break
            try:
                if parse_json(line, _Line, f"{path}, line {number}").step > step:
                    break
            except DamagedError as error:
                raise DamagedError(f"{error}; mend or remove this line") from error
            new.write(line)
