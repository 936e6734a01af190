"""Evolution with the policies of a study: search after training, at equal answers.

Each run of the chosen learning rate gives a policy. In a call a policy that writes sets gives one
rollout of m answers, and one that writes single answers gives m rollouts. Mutations without a
policy are the baseline ``mutation``; the kinds before training are the untrained policies.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field, JsonValue

from ..files import BusyError, DamagedError, Schema
from ..intervals import sign_test
from ..policy.loading import load_policy
from ..policy.threads import torch_threads
from ..search.evolution import Trace, evolve
from ..training.config import TrainConfig
from .declaration import MUTATION, Job, Searched, Study
from .results import check_made, chosen, read_made, workplace
from .runner import write_once

POINTS = 12  # of a curve that is kept


class Searches(Schema):
    """The searches with one policy: one row for each seed, in it one value for each problem.

    - solved: answers asked for until the target was reached; None where it was not
    - tokens, candidates: sampled and scored in the whole search
    - best: the best score; budgets: answers asked for, at each point of ``curve``
    - curve: by seed, the mean best score over problems at each budget
    - made: calls, and the settings of the run; empty in files that are older than this field
    """

    study: str
    kind: str
    run: str
    answers: Annotated[int, Field(ge=1)]
    solved: list[list[int | None]]
    tokens: list[list[int]]
    candidates: list[list[int]]
    best: list[list[float]]
    cells: list[list[int]]
    budgets: list[int]
    curve: list[list[float]]
    seconds: float
    made: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def solved_share(self) -> np.ndarray:
        """The share of the searches on each problem that reached the target: (problems,)."""
        return _shares([self])


class _Search(NamedTuple):
    """One policy to search with; job: the run that made it, None for mutations."""

    kind: str
    job: Job | None

    @property
    def run(self) -> str:
        return MUTATION if self.job is None else self.job.key


def searches(study: Study, folder) -> list[_Search]:
    """What can be searched with: chosen runs of the kinds that the study names.

    Of more runs than the study asks for, those whose search is finished come first, then those
    whose policy is still there.
    """
    stated, found = study.declared.search, []
    if stated is None:
        raise ValueError(f"study {study.name}: its file has no part [search]")
    runs = chosen(study, folder)
    for kind in stated.kinds:
        if kind == MUTATION:
            found.append(_Search(kind, None))
        jobs = [study.job(kind, run.config["lr"], run.seed) for run in runs.get(kind, [])]
        of_kind = [_Search(kind, job) for job in jobs]
        of_kind.sort(
            key=lambda s: (not _file(folder, s).exists(), not _adapter(folder, s).is_dir())
        )
        found += of_kind[: stated.policies]
    return found


def to_do(study: Study, folder) -> list[_Search]:
    """The searches that are not finished. DamagedError where the adapter of one is missing."""
    found = [s for s in searches(study, folder) if not _file(folder, s).exists()]
    for search in found:
        adapter = _adapter(folder, search)
        if search.job is not None and not adapter.is_dir():
            raise DamagedError(
                f"{adapter}: is not there, and a search needs the policy; move "
                f"{search.run}.json away and run the study again"
            )
    return found


def run_searches(study: Study, folder) -> Iterator[Searches]:
    """Do all searches that are not finished; yields each when it is.

    Raises DamagedError, before the first one, where the adapter of a run is missing.
    """
    folder = Path(folder)
    for search in to_do(study, folder):
        place = workplace(folder, search.run)
        make = partial(_found, study, search, place)
        try:
            made = write_once(_file(folder, search), place, make)
        except BusyError:
            continue
        if made:
            yield _read(study, folder, search)


def finished(study: Study, folder) -> dict[str, list[Searches]]:
    """The finished searches, by kind."""
    found: dict[str, list[Searches]] = {}
    for search in searches(study, folder):
        if _file(folder, search).exists():
            found.setdefault(search.kind, []).append(_read(study, folder, search))
    return found


def _file(folder, search: _Search) -> Path:
    return Path(folder) / f"search-{search.run}.json"


def _adapter(folder, search: _Search) -> Path:
    return workplace(folder, search.run) / "adapter"


def _read(study: Study, folder, search: _Search) -> Searches:
    """The finished search. DamagedError where it was made in another way."""
    path, stated = _file(folder, search), study.declared.search
    found = read_made(path, Searches)
    rows = [found.solved, found.tokens, found.candidates, found.best, found.cells]
    shapes = {(len(part), *map(len, part)) for part in rows}
    wanted = (stated.seeds, *[_problems(_config(study, search), stated)] * stated.seeds)
    named = (found.kind, found.run, found.answers)
    if shapes != {wanted} or named != (search.kind, search.run, stated.calls * stated.m):
        raise DamagedError(
            f"{path}: the study states another search (calls, m, problems or seeds); name another "
            "folder, or move this file away"
        )
    if found.made:
        check_made(path, found.made, _made(study, search))
    return found


def _made(study: Study, search: _Search) -> dict:
    """What a search depends on, beside its problems and seeds."""
    settings = _config(study, search).to_json()
    if search.job is None:  # mutations know the task alone
        settings = {name: settings[name] for name in ("task", "task_options")}
    return {"calls": study.declared.search.calls} | settings


def _found(study: Study, search: _Search, place: Path) -> dict:
    began, stated = time.perf_counter(), study.declared.search
    config = _config(study, search)
    task, policy = config.make_task(), None
    if search.job is not None:
        try:
            policy = load_policy(place / "adapter", device=config.device)
        except ValueError as error:
            raise DamagedError(f"search with {search.run}: {error}") from error
    m, calls, per_call = (stated.m if policy is None else config.answers), stated.calls, stated.m
    budget = dict(m=m, rollouts=per_call // m, calls=calls)
    problems = task.seeds["held_out"][: _problems(config, stated)]
    instances = [task.instance(s) for s in problems]
    rows = []
    with torch_threads(config.threads):
        for seed in range(stated.seeds):
            rows.append(evolve(policy, task, instances, seed=seed, **budget))
    budgets = np.unique(np.geomspace(1, calls, POINTS).astype(int)) * per_call
    return {
        "study": study.name,
        "kind": search.kind,
        "run": search.run,
        "answers": calls * per_call,
        "solved": [[t.solved_at and t.solved_at.calls * per_call for t in row] for row in rows],
        "tokens": [[t.tokens[-1] for t in row] for row in rows],
        "candidates": [[t.candidates[-1] for t in row] for row in rows],
        "best": [[round(t.best[-1], 4) for t in row] for row in rows],
        "cells": [[t.cells[-1] for t in row] for row in rows],
        "budgets": budgets.tolist(),
        "curve": [[_mean_best(row, b // per_call) for b in budgets.tolist()] for row in rows],
        "seconds": round(time.perf_counter() - began, 1),
        "made": _made(study, search),
    }


def _config(study: Study, search: _Search) -> TrainConfig:
    """The settings that a search's run is judged by; mutations search in the baseline's task."""
    return (search.job or study.tuning(study.baseline)[0]).judged


def _problems(config: TrainConfig, stated: Searched) -> int:
    return 1 if config.single else stated.problems


def _shares(rows: Sequence[Searches]) -> np.ndarray:
    """The share of these searches that reached the target, by problem: (problems,).

    Counted, then divided once. So equal shares are equal numbers, and the sign test sees a tie.
    """
    solved = [[x is not None for x in seed] for row in rows for seed in row.solved]
    return np.array(solved).mean(axis=0)


def _mean_best(traces: Sequence[Trace], calls: int) -> float:
    """The mean best score after so many calls; a search that ended keeps its last one."""
    return round(float(np.mean([t.best[min(calls, len(t.best)) - 1] for t in traces])), 4)


def markdown(study: Study, folder, against: str | None = None) -> str:
    """A table of the searches: share solved, answers until half are, tokens, sign test.

    The share is the mean over policies, search seeds and problems. Answers are the median over all
    searches; one that ended unsolved needs more than it had. The sign test compares the shares of
    the problems with those of the kind ``against`` (by default the baseline).
    """
    found = finished(study, folder)
    other = found.get(against or study.baseline)
    heads = ["search with", "policies", "solved", "answers until half are solved", "tokens"]
    heads += ["elites", "wins and losses", "sign test p"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind, rows in found.items():
        share = _shares(rows)
        until = [np.inf if x is None else x for row in rows for seed in row.solved for x in seed]
        half = np.median(until)
        label = study.kinds[kind].label if kind in study.kinds else "random mutations, no policy"
        cells = [label, str(len(rows)), f"{share.mean():.3f}"]
        cells.append(f"{half:.0f}" if half < np.inf else f"> {rows[0].answers}")
        cells.append(f"{np.mean([row.tokens for row in rows]):.0f}")
        cells.append(f"{np.mean([row.cells for row in rows]):.1f}")
        if other is None or rows is other:
            cells += ["", ""]
        else:
            base = _shares(other)
            wins, losses = int((share > base).sum()), int((share < base).sum())
            cells += [f"{wins} : {losses}", f"{sign_test(share, base):.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
