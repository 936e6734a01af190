"""Doing the searches that :mod:`vpo_lite.studies.searches` lists, one small JSON file for each."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..checks import told_of
from ..estimators import METHODS
from ..files import DamagedError
from ..locks import BusyError
from ..policy.loading import load_policy
from ..policy.threads import torch_threads
from ..search.evolution import Trace, evolve
from .declaration import Study
from .made_from import Contents, made_from, without_method
from .results import check_contents, workplace
from .runner import different, write_once
from .searches import SearchJob, SearchResult, finished, of_policy, read_search, to_do

POINTS = 12  # of a curve that is kept


def run_searches(
    study: Study,
    folder,
    *,
    tell: Callable = lambda *_: None,
    wait: Callable = lambda *_: None,
) -> Iterator[SearchResult]:
    """Do all searches that are not finished; yields each when it is.

    - tell(run, done, calls): called first and after each call of a search; calls over all seeds
    - wait(run): called every few seconds while the searches that are left belong to other
      processes

    Raises DamagedError, before the first one, where a finished search is damaged, was made in
    another way or with another policy, where the adapter of a run is missing, and where the data,
    or the code of task or rewards, are not those that the runs were made from.
    """
    folder = Path(folder)
    finished(study, folder)
    check_contents(study, folder, map(_reads, to_do(study, folder)))
    while left := to_do(study, folder):
        done = False
        for search in left:
            make = partial(_found, search, search.adapter(folder), tell)
            try:
                made = write_once(search.file(folder), workplace(folder, search.run), make)
            except BusyError:
                continue
            done = True
            if made:
                yield read_search(folder, search)
        if not done:
            wait(left[0].run)
            time.sleep(5)


def _reads(search: SearchJob) -> Contents:
    """What a search reads now, beside its policy."""
    job = search.job or search.study.tuning(search.study.baseline)[0]
    return without_method(made_from(job))


def _found(search: SearchJob, adapter: Path, tell: Callable) -> dict:
    began, stated, config = time.perf_counter(), search.stated, search.config
    read, task, policy, digest = _reads(search), config.make_task(), None, ""
    if search.job is not None:
        digest = of_policy(adapter)
        with told_of(f"search with {search.run}", DamagedError):
            policy = load_policy(adapter, device=config.device)
    m, calls, per_call = (stated.m if policy is None else config.answers), stated.calls, stated.m
    how = dict(m=m, rollouts=per_call // m, calls=calls, max_new_tokens=config.max_new_tokens)
    how["show_weights"] = METHODS[config.method].weight_in_prompt
    problems = different(task, "held_out", search.problems, "search.problems")
    instances = [task.instance(s) for s in problems]
    rows = []
    with torch_threads(config.threads):
        for seed in range(stated.seeds):
            now = partial(_tell, tell, search.run, seed * calls, stated.seeds * calls)
            rows.append(evolve(policy, task, instances, seed=seed, tell=now, **how))
    budgets = np.unique(np.geomspace(1, calls, POINTS).astype(int)) * per_call
    return {
        "study": search.study.name,
        "kind": search.kind,
        "run": search.run,
        "answers": calls * per_call,
        "solved": [[t.solved_at and t.solved_at.calls * per_call for t in row] for row in rows],
        "tokens": [[t.tokens[-1] for t in row] for row in rows],
        "candidates": [[t.candidates[-1] for t in row] for row in rows],
        "best": [[round(t.best[-1], 4) for t in row] for row in rows],
        "cells": [[t.cells[-1] for t in row] for row in rows],
        "targets": [_stored(max(t.target for t in of)) for of in zip(*rows, strict=True)],
        "budgets": budgets.tolist(),
        "curve": [[_mean_best(row, b // per_call) for b in budgets.tolist()] for row in rows],
        "seconds": round(time.perf_counter() - began, 1),
        "made": search.made,
        "policy": digest,
        "made_from": read,
    }


def _stored(target: float) -> float | None:
    """JSON knows no infinity: None where a search has no target."""
    return target if np.isfinite(target) else None


def _tell(tell: Callable, run: str, before: int, of: int, done: int, _calls: int) -> None:
    tell(run, before + done, of)


def _mean_best(traces: Sequence[Trace], calls: int) -> float:
    """The mean best score after so many calls; a search that ended keeps its last one."""
    return round(float(np.mean([t.best[min(calls, len(t.best)) - 1] for t in traces])), 4)
