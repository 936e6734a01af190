"""What a study's runs found: reading their files, choosing learning rates."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from ..files import DamagedError, Schema, read_json
from ..training.config import OF_THE_MACHINE
from .declaration import Job, Study

SHIPPED = Path(__file__).parent / "shipped"
Figures = dict[str, float | list[float | None] | None]


class Checkpoint(Schema):
    """Means over held-out problems after so many steps and tokens of training."""

    step: Annotated[int, Field(ge=0)]
    tokens: Annotated[int, Field(ge=0)]
    figures: Figures


class Result(Schema):
    """One finished run."""

    study: str
    kind: str
    seed: int
    config: dict[str, JsonValue]
    validation: float
    checkpoints: Annotated[list[Checkpoint], Field(min_length=1)]
    per_problem: dict[str, list[float | None]]
    answers: int
    training_seconds: float
    seconds: float
    machine: str
    versions: dict[str, str]

    @property
    def last(self) -> Figures:
        """The figures after training."""
        return self.checkpoints[-1].figures


def read_result(study: Study, folder, job: Job) -> Result:
    """The finished run of this job. DamagedError where it was made with other settings."""
    path = Path(folder) / f"{job.key}.json"
    found = read_json(path, Result)
    for name, value in job.config.to_json().items():
        if name not in OF_THE_MACHINE and found.config.get(name, value) != value:
            raise DamagedError(
                f"{path}: was made with {name} = {found.config[name]}, the study says {value}; "
                "name another folder, or move this file away"
            )
    return found


def finished(study: Study, folder) -> list[Result]:
    """The finished runs of a study, seed 0 with every learning rate, the others with the chosen."""
    found = []
    for kind in study.kinds:
        found += [read_result(study, folder, j) for j in study.tuning(kind) if _there(folder, j)]
        lr = chosen_rate(study, folder, kind)
        others = [] if lr is None else [study.job(kind, lr, s) for s in range(1, study.seeds(kind))]
        found += [read_result(study, folder, j) for j in others if _there(folder, j)]
    return found


def chosen_rate(study: Study, folder, kind: str) -> float | None:
    """The learning rate with the highest validation figure; None until all are finished.

    The lower one of equals.
    """
    tuning = study.tuning(kind)
    if not all(_there(folder, job) for job in tuning):
        return None
    found = {job.config.lr: read_result(study, folder, job).validation for job in tuning}
    return max(sorted(found), key=lambda lr: found[lr])


def chosen(study: Study, folder) -> dict[str, list[Result]]:
    """The runs at the chosen learning rate, by kind, in the order of their seeds."""
    rates = {kind: chosen_rate(study, folder, kind) for kind in study.kinds}
    found: dict[str, list[Result]] = {}
    for result in finished(study, folder):
        if result.config["lr"] == rates[result.kind]:
            found.setdefault(result.kind, []).append(result)
    return found


def _there(folder, job: Job) -> bool:
    return (Path(folder) / f"{job.key}.json").exists()
