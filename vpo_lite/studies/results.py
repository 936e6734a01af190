"""What a study's runs found: reading their files, choosing learning rates."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from ..checks import LARGEST, shown
from ..files import DamagedError, Schema, digest, read_json
from ..training.config import OF_THE_MACHINE, TrainConfig
from ..training.measure import BUDGETS
from ..training.schemas import Records
from .declaration import Job, Study
from .made_from import NOW, Contents, check_alike
from .stated import HowMeasured

SHIPPED = Path(__file__).parent / "shipped"
POLICIES = "policies"  # in a study's folder, and not committed: one folder for each run
CURVES = ("best", "any", "solved")  # kept for each problem at these k
SINGLE = ("coverage", "attained", "set_reward", "diversity")  # kept for each problem, too
MEANS = ("diversity_all", "valid", "parsed", "repeats", "tokens")  # kept as means alone
Figure = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Figures = dict[str, Figure | list[Figure | None] | None]


class Checkpoint(Schema):
    """Means over held-out problems after so many steps and tokens of training."""

    step: Annotated[int, Field(ge=0)]
    tokens: Annotated[int, Field(ge=0)]
    figures: Figures


class Result(Schema):
    """One finished run.

    - validation: the figure that chooses the learning rate, on the validation problems
    - per_problem: of the last measurement; answers: asked for in training
    - measured: what the study states of measuring; judged: settings changed for it
    - made_from: digests of data files, code and base model (made_from.py)
    - records: of the data files, how many were read and dropped, as in a run's summary.json

    In files that are older than one of the last two fields it is empty.
    """

    study: str
    kind: str
    seed: int
    config: dict[str, JsonValue]
    validation: Figure
    checkpoints: Annotated[list[Checkpoint], Field(min_length=1)]
    per_problem: dict[str, list[Figure | None]]
    measured: dict[str, JsonValue]
    judged: dict[str, JsonValue]
    answers: int
    training_seconds: float
    seconds: float
    machine: str
    versions: dict[str, str]
    made_from: dict[str, str] = Field(default_factory=dict)
    records: Records = Field(default_factory=dict)

    @property
    def last(self) -> Figures:
        """The figures after training."""
        return self.checkpoints[-1].figures


class Failure(Schema):
    """A run whose training cannot go on. It is left out until its file is removed, or the study
    states other settings for it.
    """

    study: str
    kind: str
    lr: float
    seed: int
    error: str
    config: dict[str, JsonValue]


def judged(job: Job) -> dict:
    """The settings that are changed for measuring."""
    made = job.config.to_json()
    return {name: v for name, v in job.judged.to_json().items() if v != made[name]}


def read_result(study: Study, folder, job: Job) -> Result:
    """The finished run of this job. DamagedError where it was made or measured in another way."""
    path = result_path(folder, job)
    found = read_made(path, Result)
    for name in ("kind", "seed"):
        if getattr(found, name) != getattr(job, name):
            raise _differs(path, f"{name} = {shown(getattr(found, name))}", getattr(job, name))
    check_made(path, found.config, job.config.to_json(), found.made_from)
    _check_measured(path, found, study, job)
    _check_figures(path, found, study.problems(job), study.measured.answers)
    return found.model_copy(update={"config": _with_defaults(found.config)})


def _check_measured(path, found: Result, study: Study, job: Job) -> None:
    """DamagedError where a run was measured otherwise than the study states."""
    for what, there, wanted in (
        ("measured", HowMeasured().model_dump() | found.measured, study.measured.model_dump()),
        ("judged", found.judged, judged(job)),
    ):
        for name in sorted({*there, *wanted}):
            if there.get(name) != wanted.get(name):
                made = (
                    f"{what} {name} = {shown(there[name])}"
                    if name in there
                    else f"no {what} {name}"
                )
                raise _differs(path, made, wanted.get(name))


def _check_figures(path, found: Result, problems: int, answers: int) -> None:
    """DamagedError where a figure is missing, or is of other numbers of problems or answers."""
    for name in (*SINGLE, *(f"{curve}@{k}" for curve in CURVES for k in BUDGETS if k <= answers)):
        if len(found.per_problem.get(name, ())) != problems:
            there = len(found.per_problem.get(name, ()))
            raise _differs(path, f"{there} problems ({name})", problems)
    for point in found.checkpoints:
        for name in CURVES:
            curve = point.figures.get(name)
            there = len(curve) if isinstance(curve, list) else 0
            if there != answers or None in curve:
                raise _differs(path, f"{there} answers ({name})", answers)
        for name in (*SINGLE, *MEANS):
            if name not in point.figures or isinstance(point.figures[name], list):
                raise DamagedError(f"{path}: figure {name} is missing or no number")


def read_made(path, schema):
    """A file that a study wrote. DamagedError, with the cure, where it is damaged."""
    try:
        return read_json(path, schema)
    except DamagedError as error:
        raise DamagedError(f"{error}; move this file away, and it is made again") from error


def check_made(path, made: dict, stated: dict, made_from: Mapping[str, str] = {}) -> None:
    """DamagedError where a file was made with other settings than the study states.

    A setting that the file does not name is younger than the file: it had its default. A data file
    that was moved counts by its content, where made_from holds the digest.
    """
    made = _with_defaults(made)

    def moved(name: str, there, now) -> bool:
        there_now = isinstance(now, str) and os.path.isfile(now)
        return there_now and digest(now) == made_from.get(f"{name} {there}")

    for name, value in stated.items():
        there = made.get(name)
        if name in OF_THE_MACHINE or there == value:
            continue
        if isinstance(there, dict) and isinstance(value, dict):  # task_options: one of them differs
            others = [n for n in {*there, *value} if (n, there.get(n)) not in value.items()]
            others = [n for n in others if not moved(n, there.get(n), value.get(n))]
            if not others:
                continue
            name = min(others)
            there, value = there.get(name), value.get(name)
        raise _differs(path, f"{name} = {shown(there)}", value)


def _with_defaults(made: dict) -> dict:
    return {option.name: option.default for option in TrainConfig.options()} | made


def _differs(path, made: str, stated) -> DamagedError:
    """The error for a file that was made in another way than the study says."""
    return DamagedError(
        f"{path}: was made with {made}, the study says {shown(stated)}; change the study back, "
        "name another folder, or move this file away"
    )


def chosen_rate(study: Study, folder, kind: str) -> float | None:
    """The learning rate with the highest validation figure; None until all are finished.

    The lower one of equals. A rate at which training failed is left out; None where all failed.
    """
    tuning = study.tuning(kind)
    if not all(is_done(folder, job) for job in tuning):
        return None
    done = [job for job in tuning if state(folder, job) == "finished"]
    found = {job.config.lr: read_result(study, folder, job).validation for job in done}
    return max(sorted(found), key=lambda lr: found[lr], default=None)


def chosen(study: Study, folder) -> dict[str, list[Result]]:
    """The runs at the chosen learning rate, by kind, in the order of their seeds. They are read
    once for as long as no file of the folder changes. DamagedError as for `check_runs`.
    """
    stats = {path.name: path.stat() for path in Path(folder).glob("*.json")}
    stamps = frozenset((name, x.st_ino, x.st_size, x.st_mtime_ns) for name, x in stats.items())
    return dict(_chosen(study, Path(folder), stamps))


@lru_cache(maxsize=4)
def _chosen(study: Study, folder: Path, stamps: frozenset) -> dict[str, list[Result]]:
    found = {}
    for kind in study.kinds:
        lr = chosen_rate(study, folder, kind)
        jobs = [] if lr is None else [study.job(kind, lr, s) for s in range(study.seeds(kind))]
        if jobs:
            found[kind] = [
                read_result(study, folder, job) for job in jobs if state(folder, job) == "finished"
            ]
    check_runs(study, folder, [run for runs in found.values() for run in runs])
    return found


def check_runs(study: Study, folder, runs: Iterable[Result]) -> None:
    """Raise DamagedError where two of these were made from other data, code or base models."""
    jobs = [(run, study.job(run.kind, run.config["lr"], run.seed)) for run in runs]
    check_alike((result_path(folder, job), run.made_from) for run, job in jobs)


def check_contents(study: Study, folder, about_to: Iterable[Contents]) -> None:
    """Raise DamagedError where a finished run was made from other data, code or base models than
    another one, or than what is about to begin. about_to: the contents of each that is.
    """
    paths = [result_path(folder, job) for job in study.every_job().values()]
    made = [(path, read_made(path, Result).made_from) for path in paths if path.exists()]
    check_alike([*made, *((NOW, contents) for contents in about_to)])


def result_path(folder, job: Job) -> Path:
    """The file of this run, once it is finished."""
    return Path(folder) / f"{job.key}.json"


def workplace(folder, key: str) -> Path:
    """The folder of one run's or one search's work: its lock, and of a run its adapter."""
    return Path(folder) / POLICIES / key


def failure_path(folder, job: Job) -> Path:
    """The file that says why this run failed."""
    return Path(folder) / f"failed-{job.key}.json"


def state(folder, job: Job) -> str:
    """How a run stands: "finished", "failed" or "to do"."""
    if result_path(folder, job).exists():
        return "finished"
    path = failure_path(folder, job)
    if not path.exists():
        return "to do"
    made = read_made(path, Failure).config
    try:
        check_made(path, made, job.config.to_json())
    except DamagedError:
        return "to do"
    return "failed"


def is_done(folder, job: Job) -> bool:
    """Whether there is nothing more to do for this run: it is finished, or it failed."""
    return state(folder, job) != "to do"
