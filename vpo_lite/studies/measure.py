"""What a study measures of a policy: everything that a search could find in a pool of answers."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .. import metrics
from ..policy.policy import Policy
from ..policy.threads import torch_threads
from ..search import best_of
from ..tasks.base import Task
from ..training.answers import Answers
from ..training.config import TrainConfig
from ..training.contract import w_star_of
from ..training.evaluate import sample_pools
from ..training.measure import pool_figures
from .results import BUDGETS, CURVES, SINGLE


def measure(
    policy: Policy,
    task: Task,
    config: TrainConfig,
    seeds: Sequence[int],
    *,
    answers: int = 30,
    count: int = 50,
    alphas: Sequence[float] = (),
    seed: int = 0,
    temperature: float = 1.0,
) -> dict:
    """The figures of a policy on the problems with these seeds, one row for each problem.

    A pool of ``answers`` answers is sampled for each problem at this temperature; the draws
    depend on ``seed``. Returns a dict of arrays; the first axis of each is the problem:

    - best (n, answers): best@k under w*, for k = 1 .. answers
    - any (n, answers): the same under ``count`` held-out preferences, mean over them
    - solved (n, answers): pass@k
    - rollouts (n, G): best@m, best@2m, .. under w*, by whole rollouts
    - coverage, attained (n,): of the sets that methods are compared on, at alpha = 1. Coverage is
      U(set) over U(front); attained is U(set) over that of the best set of this size. NaN without a
      known front
    - judged (n, len(alphas)): coverage at these alphas, whatever alpha was trained at
    - set_reward (n,): U at the run's alpha
    - diversity, diversity_all (n,): mean L1 distance among valid answers, among all
    - valid, parsed, repeats, tokens (n,): shares of the answers; tokens per answer
    """
    instances = [task.instance(s) for s in seeds]
    with torch_threads(config.threads):
        pools = list(sample_pools(policy, task, config, instances, answers, seed, temperature))
    rows = [_figures(task, config, pool, answers, count, alphas) for pool in pools]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# This module's name of a figure that an evaluation has, too: its name there.
EVALUATED = {
    "set_reward": "set_reward",
    "diversity": "diversity",
    "diversity_all": "diversity_all",
    "valid": "valid_rate",
    "parsed": "parse_rate",
    "repeats": "repeat_rate",
    "tokens": "tokens_per_answer",
}


def _figures(
    task: Task, config: TrainConfig, pool: Answers, answers: int, count: int, alphas
) -> dict:
    evaluated = pool_figures(task, config, pool, answers)
    x, d = pool.instance, pool.rewards.shape[-1]
    rewards, _, _, _, solved = pool.pooled(answers)
    w_star, front = w_star_of(task, x), task.front(x)
    covered = attained = np.nan
    judged = np.full(len(alphas), np.nan)
    if front is not None:
        covered = evaluated["coverage"]
        points = np.asarray(front, dtype=float)
        attained = covered / best_coverage(points.tobytes(), len(points), config.compared_size)
        sets = metrics.as_sets(rewards, config.compared_size)
        judged = np.array([metrics.coverage(sets, front, alpha).mean() for alpha in alphas])
    return dict(
        best=best_of.best_at(rewards, w_star),
        any=best_of.best_at(rewards, metrics.preferences(d, count)).mean(0),
        solved=best_of.solved_at(solved),
        rollouts=best_of.rollout_best_at(pool.rewards, w_star),
        coverage=covered,
        attained=float(attained),
        judged=judged,
        **{name: evaluated[there] for name, there in EVALUATED.items()},
    )


@lru_cache(maxsize=4096)
def best_coverage(front: bytes, points: int, size: int) -> float:
    """The coverage of the best set of ``size`` answers; front: the bytes of (points, d) floats."""
    found = np.frombuffer(front).reshape(points, -1)
    return metrics.price_of_conflict(found, (size,))[size]


def summary(figures: dict) -> dict:
    """The means over problems, rounded, as a result file holds them."""
    return {
        name: [_rounded(x) for x in values.mean(0)] if values.ndim > 1 else _rounded(values.mean())
        for name, values in figures.items()
        if values.size
    }


def by_problem(figures: dict) -> dict:
    """The values of each problem, rounded: curves at the budgets 1, 3, 10 and 30, and at all
    answers, alone.
    """
    kept = {}
    for name, values in figures.items():
        if name in CURVES:
            most = values.shape[1]
            for k in sorted({most, *(k for k in BUDGETS if k < most)}):
                kept[f"{name}@{k}"] = [_rounded(x) for x in values[:, k - 1]]
        elif name in SINGLE:
            kept[name] = [_rounded(x) for x in values]
    return kept


def _rounded(x) -> float | None:
    return None if np.isnan(x) else round(float(x), 4)
