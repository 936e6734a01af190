"""The figures of scored answers, in training and in evaluation. They need no model."""

from collections.abc import Sequence

import numpy as np

from .. import metrics
from ..exact import exact_set_reward
from ..tasks.base import Task
from .answers import Answers
from .config import TrainConfig
from .contract import above_front, below_worst, coverage_of, objectives_of, w_star_of, worst_of
from .record import Group

BUDGETS = (1, 3, 10, 30)  # k of best@k and pass@k, in answers
# How the sets of a step are valued. Nobody trains on these figures, so sets that the exact integral
# would cut into many pieces are averaged over points: tests/benchmarks/bench_step_figures.py.
STEP = {"points": 2048, "pieces": 4096}


def rollout_fields(
    task: Task, config: TrainConfig, groups: Sequence[Answers], scores, advantages, weights
) -> dict:
    """What a :class:`~.record.StepRecord` says of the rollouts of a step, whatever engine trains.

    scores, advantages: (P, G); weights: of each group its vector (d,), or None
    """
    rows = zip(groups, advantages, weights, strict=True)
    return dict(
        method=config.method,
        alpha=config.alpha,
        K=config.K,
        m=config.answers,
        score=float(scores.mean()),
        silent_groups=float((advantages == 0).all(1).mean()),
        tokens=sum(int(group.tokens.sum()) for group in groups),
        **step_figures(task, config.alpha, config.compared_size, groups),
        groups=tuple(Group(g.instance, g.texts, g.answers, g.rewards, A, w) for g, A, w in rows),
    )


def step_figures(task: Task, alpha: float, size: int, groups: Sequence[Answers]) -> dict:
    """The means over the groups of a step, named as in a :class:`~.record.StepRecord`.

    alpha: of the set rewards; size: answers in a set

    Set reward and coverage are exact where that is cheap: up to five answers with four objectives
    or three with five, and far more where rewards are 0 or 1. Otherwise the sets are averaged over
    points, with an error of some 1e-3 for a set. Evaluation has the exact figures (`pool_figures`).
    """
    set_rewards, coverages, diversities = [], [], []
    for group in groups:
        sets = metrics.as_sets(group.rewards, size)
        set_rewards.append(exact_set_reward(sets, alpha, **STEP).mean())
        found = coverage_of(task, task.front(group.instance), sets, **STEP)
        if found is not None:
            coverages.append(found.mean())
        pool = group.pooled()
        diversities.append(metrics.diversity(pool.rewards, pool.valid))
    w_star = [w_star_of(task, g.instance) for g in groups]
    slots = [(g.rewards @ w).mean(0) for g, w in zip(groups, w_star, strict=True)]
    return dict(
        set_reward=float(np.mean(set_rewards)),
        coverage=float(np.mean(coverages)) if coverages else None,
        diversity=float(np.mean(diversities)),
        parse_rate=float(np.mean([g.parsed for g in groups])),
        valid_rate=float(np.mean([g.valid for g in groups])),
        solved_rate=float(np.mean([g.solved for g in groups])),
        repeat_rate=float(np.mean([g.repeats for g in groups])),
        truncated_rate=float(np.mean([g.truncated for g in groups])),
        objectives=objective_means(task, groups),
        slots=np.mean(slots, axis=0).tolist(),
        valid_slots=np.mean([g.valid.mean(0) for g in groups], axis=0).tolist(),
    )


def objective_means(task: Task, groups: Sequence[Answers]) -> dict[str, float]:
    """Mean reward by objective; empty where the objectives differ from problem to problem."""
    names = objectives_of(task, groups[0].instance)
    if any(objectives_of(task, g.instance) != names for g in groups):
        return {}
    return _by_name(names, np.mean([g.rewards.mean((0, 1)) for g in groups], axis=0))


def _by_name(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def pool_figures(task: Task, config: TrainConfig, pool: Answers, answers: int) -> dict:
    """The figures of one pool, cut to ``answers`` answers, named as in evaluate."""
    x, d, names = pool.instance, pool.rewards.shape[-1], objectives_of(task, pool.instance)
    rewards, parsed, repeats, valid, solved = pool.pooled(answers)
    sets = metrics.as_sets(rewards, config.compared_size)
    front = task.front(x)
    covered = coverage_of(task, front, sets)
    w_star = w_star_of(task, x)
    scores = rewards @ w_star
    wishes = metrics.preferences(d) @ rewards.T  # (50, answers)
    budgets = [k for k in BUDGETS if k <= len(rewards)]
    return dict(
        set_reward=float(exact_set_reward(sets, config.alpha).mean()),
        coverage=None if covered is None else float(covered.mean()),
        coverage_best_single=None if front is None else metrics.price_of_conflict(front, (1,))[1],
        diversity=float(metrics.diversity(rewards, valid)),
        diversity_all=float(metrics.diversity(rewards)),
        best_at_k={str(k): float(metrics.best_at_k(scores, k)) for k in budgets},
        best_of_rollout=float((pool.rewards @ w_star).max(axis=1).mean()),
        any_at_k={str(k): float(metrics.best_at_k(wishes, k).mean()) for k in budgets},
        pass_at_k={
            str(k): float(metrics.pass_at_k(len(rewards), int(solved.sum()), k)) for k in budgets
        },
        parse_rate=float(parsed.mean()),
        valid_rate=float(valid.mean()),
        solved_rate=float(solved.mean()),
        repeat_rate=float(repeats.mean()),
        below_worst_rate=below_worst(task, x, rewards),
        above_front_rate=above_front(front, rewards),
        truncated_rate=float(pool.truncated.mean()),
        objectives=_by_name(names, rewards.mean(0)),
        reached=_by_name(names, rewards.max(0) - worst_of(task, x)),
        spread=_by_name(names, np.ptp(rewards[parsed], axis=0) if parsed.any() else np.zeros(d)),
        tokens_per_answer=float(pool.tokens.sum() / pool.parsed.size),
    )


def gathered(values: Sequence) -> list | dict:
    """Values of problems as one list; of dicts of values, a dict of lists.

    >>> gathered([0.5, None]), gathered([{"1": 0.2, "3": 0.4}, {"1": 0.1, "3": 0.3}])
    ([0.5, None], {'1': [0.2, 0.1], '3': [0.4, 0.3]})
    """
    if isinstance(values[0], dict):
        return {k: [v[k] for v in values] for k in values[0]}
    return list(values)


def means(rows: Sequence[dict]) -> dict:
    """Means of dicts of figures, key by key; None where a figure is None in any row.

    An inner dict keeps the keys that all rows have.
    """

    def merge(values):
        if any(v is None for v in values):
            return None
        if isinstance(values[0], dict):
            return {
                k: merge([v[k] for v in values]) for k in values[0] if all(k in v for v in values)
            }
        return float(np.mean(values))

    return {k: merge([row[k] for row in rows]) for k in rows[0]}
