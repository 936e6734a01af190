"""Running a study: one run after the other, one small JSON file for each.

A folder holds ``KEY.json`` for each finished run, and its adapter in ``policies/KEY``. What is
finished is skipped, and a run that was cut short goes on where it was (under_way.py). So a killed
study goes on with the same command, and the same command started several times shares the work: a
run belongs to the process that holds the lock of its folder. A run whose training cannot go on
leaves ``failed-KEY.json`` instead, and the study goes on without it. It is tried again without that
file, or with other settings.
"""

import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..checks import told_of
from ..files import read_json, tidy, write_atomically
from ..locks import BusyError, lock_folder
from ..policy.loading import check_there
from ..randomness import integer
from ..tasks.base import Task, TaskError
from ..tasks.records import counted
from ..tasks.sandbox import cores
from ..training.errors import TrainingError
from ..training.learner import Learner
from ..training.memory import check_fits
from ..training.problems import distinct_seeds
from ..training.record import StepRecord
from ..training.run import versions_of
from .declaration import SPLIT_OF, Job, Study
from .made_from import made_from
from .measure import by_problem, measure, summary
from .plan import jobs
from .results import (
    Failure,
    Result,
    check_contents,
    failure_path,
    judged,
    read_result,
    result_path,
    state,
    workplace,
)
from .under_way import UnderWay, discard


def check_sources(study: Study, folder, runs: Iterable[Job], *, download: bool) -> None:
    """Raise ValueError, before any of these runs begins, where a model or a data file of one is
    missing, with its kind, where fewer problems differ than are measured, and where a finished run
    was made from other data or other code.

    download: as for :func:`vpo_lite.policy.loading.check_there`
    """
    models, now = set(), {}
    for job in runs:
        with told_of(f"study {study.name}, kind {job.kind}"):
            if first := job.kind not in now:
                now[job.kind] = made_from(job)
            for model in {job.config.base_model, job.judged.base_model} - models:
                check_there(model, download=download)
                models.add(model)
            if first and not job.judged.single:
                task = job.judged.make_task()
                for field, split in SPLIT_OF.items():
                    different(task, split, getattr(study.measured, field), f"measured.{field}")
    check_contents(study, folder, now.values())


def different(task: Task, split: str, count: int, field: str) -> Sequence[int]:
    """The first seeds of a split whose problems differ. ValueError with the name of their number
    where there are fewer.
    """
    seeds = distinct_seeds(task, split, count)
    if len(seeds) < count:
        raise ValueError(
            f"{field} = {count:,}: only {len(seeds):,} of these problems of task {task.name!r} "
            f"differ ({split}), and a study measures each once; write {field} = {len(seeds)}"
        )
    return seeds


def run_study(
    study: Study,
    folder,
    *,
    kinds=None,
    seeds: int | None = None,
    every_rate: bool = False,
    tell: Callable = lambda *_: None,
    wait: Callable = lambda *_: None,
) -> Iterator[Result | Failure]:
    """Do all runs that are not finished; yields each when it is.

    A run that cannot be done here is left out; TrainingError names it after the others.
    DamagedError for a finished run that was made otherwise than the study states.

    - kinds, seeds, every_rate: as for :func:`vpo_lite.studies.plan.jobs`
    - tell(key, step, steps): called after each training step
    - wait(key): called every few seconds while the runs that are left belong to other processes
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stopped: dict[str, TrainingError] = {}
    while True:
        done, busy = False, None
        for job in jobs(study, folder, kinds, seeds, every_rate):
            stands = state(folder, job)
            if stands == "finished":
                read_result(study, folder, job)  # refuses one that was made otherwise
            if stands != "to do" or job.key in stopped:
                continue
            try:
                found = run_job(study, job, folder, tell)
            except BusyError:
                busy = busy or job.key
                continue
            except TrainingError as error:
                stopped[job.key] = error
                continue
            done = True
            yield found
        if not done and not busy:
            break
        if not done:
            wait(busy)
            time.sleep(5)
    if stopped:
        first, *others = stopped
        more = f"; nor could these runs be done: {', '.join(others)}" if others else ""
        raise TrainingError(f"{stopped[first]}{more}") from stopped[first]


def run_job(study: Study, job: Job, folder, tell: Callable = lambda *_: None) -> Result | Failure:
    """Train and measure one run, and write its file.

    Raises BusyError where another process does, TrainingError where it cannot be done here, and
    DamagedError where finished runs were made from other data, code or base models.
    """
    folder, place = Path(folder), workplace(folder, job.key)
    failed = failure_path(folder, job)
    stated = dict(study=study.name, kind=job.kind, lr=job.config.lr, seed=job.seed)
    stated["config"] = job.config.to_json()

    def make() -> dict:
        try:
            return _trained(study, job, folder, tell)
        except _Failed as error:
            write_atomically(failed, json.dumps(stated | {"error": str(error)}) + "\n")
            discard(place)
            raise
        except TaskError as error:
            cure = "fix this, and the same command goes on"
            raise TrainingError(f"run {job.key}: {error}; {cure}") from error

    try:
        write_once(result_path(folder, job), place, make)
    except _Failed:
        return read_json(failed, Failure)
    discard(place)
    failed.unlink(missing_ok=True)  # of other settings, or of another machine
    return read_result(study, folder, job)


class _Failed(Exception):
    """Training cannot go on, on any machine."""


def write_once(path: Path, place: Path, make: Callable[[], dict]) -> bool:
    """Make a result and write its file, unless it is there; returns whether it was made.

    place: the folder whose lock the work belongs to. Raises BusyError where another process has it.
    """
    place.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(place)
    try:
        tidy(path.parent, [path.name])  # a file that a killed writer left
        missing = not path.exists()
        if missing:
            write_atomically(path, json.dumps(make(), allow_nan=False) + "\n")
        return missing
    finally:
        lock.release()


def _trained(study: Study, job: Job, folder: Path, tell) -> dict:
    config, read = job.config, made_from(job)

    def make() -> Learner:
        learner = Learner(config)
        check_fits(learner.policy, config, learner.task)
        return learner

    with told_of(f"run {job.key}", TrainingError):  # no such model, too little memory, ..
        job.judged.make_task().check_machine()
        work = UnderWay(workplace(folder, job.key), config, read, make)
    try:
        return _measured(study, job, folder, tell, work, read)
    finally:
        work.close()


def _measured(study: Study, job: Job, folder: Path, tell, work: UnderWay, read: dict) -> dict:
    """Train to the end and measure on the way; returns what the result file holds."""
    began, config, stated = time.perf_counter(), job.config, study.measured
    learner, task = work.learner, job.judged.make_task()
    if weights := learner.policy.fingerprint:
        read = read | {f"model {config.base_model}": weights}
    check_contents(study, folder, [read])
    steps = config.steps if job.trained else 0
    marks = {round(steps * i / stated.checkpoints) for i in range(1, stated.checkpoints)} - {0}
    marks -= {steps, *(point["step"] for point in work.checkpoints)}

    def measured(split, count, answers=stated.answers, alphas=()):
        seeds, draws = distinct_seeds(task, split, count), job.seed
        if task.single:  # every split is its one problem: the rate is chosen by other answers
            seeds, draws = seeds[:1], integer(job.seed, split) if split == "validation" else draws
        asked = dict(answers=answers, count=stated.preferences, alphas=alphas, seed=draws)
        return measure(learner.policy, task, job.judged, seeds, **asked)

    def warn(said: str) -> None:
        warnings.warn(f"run {job.key}: {said}", stacklevel=2)

    walk = work.train(warn) if steps else iter(())
    while True:
        if len(work.records) in marks:  # also where the run was cut short before it was measured
            work.add(summary(measured("held_out", stated.between)))
        if (record := _next(walk)) is None:
            break
        tell(job.key, record.step, steps)
    last = measured("held_out", stated.problems, alphas=stated.alphas)
    end = {"step": steps, "tokens": work.tokens, "figures": summary(last)}
    name, k = stated.chosen_by.partition("@")[0], stated.chosen_k
    chosen_by = measured("validation", stated.validation, answers=stated.tuning_answers)[name]
    learner.policy.save(workplace(folder, job.key) / "adapter")
    return {
        "study": study.name,
        "kind": job.kind,
        "seed": job.seed,
        "config": config.to_json(),
        "validation": round(float(np.mean(chosen_by[:, k - 1] if k else chosen_by)), 5),
        "checkpoints": [*work.checkpoints, end],
        "per_problem": by_problem(last),
        "measured": stated.model_dump(),
        "judged": judged(job),
        "answers": config.prompts * config.group_size * config.answers * steps,
        "training_seconds": round(sum(record.seconds for record in work.records), 1),
        "seconds": round(time.perf_counter() - began, 1),
        "machine": f"{platform.machine()}, {cores()} cores, {learner.policy.device}",
        "versions": versions_of(("vpo_lite", "torch")),
        "made_from": read,
        "records": counted(learner.task),
    }


def _next(walk: Iterator) -> StepRecord | None:
    """The next step of training; None at its end."""
    try:
        return next(walk, None)
    except TrainingError as error:  # the loss is not finite, or a method cannot take the rewards
        raise _Failed(str(error)) from error
