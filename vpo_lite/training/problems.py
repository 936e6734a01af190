"""The problems of a training step, their weights and advantages. No torch is needed: recordings
and other engines look them up, too.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from .. import estimators
from ..checks import told_of
from ..objective import sample_weights
from ..randomness import generator, integer
from ..tasks.base import Task, group_key
from ..tasks.task_errors import is_ours
from .config import TrainConfig
from .contract import objectives_of, tokens_of, w_star_of, worst_of

TRIED = 4  # seeds for each problem that shall differ
LOOKED_AT = 1024  # problems of a run that its one token limit is taken from
MOST_IN_EPOCHS = 2**19  # training seeds; of more, two draws of one problem are rare


def all_differ(task: Task) -> bool:
    """Whether each seed gives another problem: nobody need look (tests/test_evaluate.py)."""
    return is_ours(task) and task.all_differ


def distinct_seeds(task: Task, split: str, count: int) -> Sequence[int]:
    """The first ``count`` seeds of a split whose problems differ, by their key; fewer where the
    first 4 ``count`` seeds do not give so many.

    >>> class Listed(Task):
    ...     __module__ = "mine"
    ...     def instance(self, seed):
    ...         return ("tea", "boats", "rain")[seed % 3]
    >>> distinct_seeds(Listed(), "held_out", 60)
    [0, 1, 2]
    """
    seeds = task.seeds[split]
    if all_differ(task):
        return seeds[:count]
    known = vars(task).setdefault("_distinct_seeds", {})  # a problem may take long to make
    if (split, count) not in known:
        first: dict[str, int] = {}
        for seed in seeds[: TRIED * count]:
            first.setdefault(task.key(task.instance(int(seed))), int(seed))
            if len(first) == count:
                break
        known[split, count] = [*first.values()]
    return known[split, count]


def seeds_of_step(task: Task, seed: int, step: int, prompts: int) -> list[int]:
    """The seeds of the P problems of a step (0, 1, ...), out of the task's training seeds.

    Training goes through them in epochs: each once, every time in another order. Tasks with more
    than 524,288 of them, such as those that generate their problems, draw each independently.

    >>> class Rows(Task):
    ...     seeds = {"train": range(3)}
    >>> [seeds_of_step(Rows(), 0, step, 2) for step in range(3)]  # two epochs
    [[0, 2], [1, 0], [1, 2]]
    """
    seeds = task.seeds["train"]
    n = len(seeds)
    if n > MOST_IN_EPOCHS:
        drawn = [integer(seed, "instance", step, str(slot)) % n for slot in range(prompts)]
    else:
        places = range(step * prompts, (step + 1) * prompts)
        drawn = [_order(seed, place // n, n)[place % n] for place in places]
    return [int(seeds[number]) for number in drawn]


@functools.lru_cache(maxsize=4)
def _order(seed: int, epoch: int, n: int) -> np.ndarray:
    """The order of n problems in an epoch (0, 1, ...)."""
    return generator(seed, "order", epoch).permutation(n)


def problems_of_step(task: Task, seed: int, step: int, prompts: int) -> list:
    """The P problems of a step (0, 1, ...)."""
    return [task.instance(s) for s in seeds_of_step(task, seed, step, prompts)]


def token_limit(task: Task, config: TrainConfig, pocket: dict | None) -> int:
    """One token limit for all rollouts of a run, however long it is: ``max_new_tokens``, or the
    most that m answers to one of its first 1,024 problems may need.

    Drawing so many may take seconds, so it is done once for a task object.
    """
    if config.max_new_tokens:
        return config.max_new_tokens
    asked = (config.seed, config.prompts, config.answers, str(pocket))
    known = vars(task).setdefault("_token_limits", {})
    if asked not in known:
        known[asked] = _longest(task, config, pocket)
    return known[asked]


def _longest(task: Task, config: TrainConfig, pocket: dict | None) -> int:
    count = 1 if task.single else LOOKED_AT
    steps = range(-(-count // config.prompts))
    seeds = [s for i in steps for s in seeds_of_step(task, config.seed, i, config.prompts)]
    looked_at = (task.instance(seed) for seed in dict.fromkeys(seeds[:count]))
    return max(tokens_of(task, x, config.answers, pocket) for x in looked_at)


def draw_weights(task: Task, how, instances, keys, step: int):
    """The weights of a step: one array (K, d) per prompt group, shared by its G rollouts.

    how: a config, or whatever has its ``method``, ``K``, ``alpha`` and ``seed``. Returns None for
    the exact expectation and for a method without weights.
    """
    needed = estimators.METHODS[how.method].weights
    K = {"none": math.inf, "one": 1, "many": how.K}[needed]
    if K == math.inf:
        return None
    return [
        sample_weights(
            K, len(objectives_of(task, x)), how.alpha, rng=generator(how.seed, "weights", step, key)
        )
        for x, key in zip(instances, keys, strict=True)
    ]


def single_weights(method: str, weights, groups: int) -> list:
    """What each group has one of: its weight vector (d,) for a method that draws just one, or None.

    weights: as :func:`draw_weights` gives them, for so many groups
    """
    one = estimators.METHODS[method].weights == "one"
    return [W[0] for W in weights] if one else [None] * groups


def estimate(task: Task, config: TrainConfig, instances, R, weights) -> estimators.Estimate:
    """Score and advantage (P, G) of every rollout under a run's method.

    R: P times the rewards (G, m, d); weights: as :func:`draw_weights` gives them
    """
    return estimators.estimate(
        config.method,
        R,
        weights=weights,
        alpha=config.alpha,
        w_star=[w_star_of(task, x) for x in instances],
        k=config.k,
        eps=config.eps,
        whiten=config.whiten,
    )


def check_method(task: Task, config: TrainConfig) -> None:
    """ValueError for a method that fails on a group without any answer, whose rewards are all the
    worst: maxrl where they are negative, or one of a reader's own. Training may meet such a group
    in any step; this says it before the policy is measured.
    """
    ours = estimators.METHODS[config.method].ours
    if ours and config.method != "maxrl":  # the others take any finite rewards
        return
    x = task.instance(task.seeds["train"][0])
    R = np.tile(worst_of(task, x), (config.group_size, config.answers, 1))
    weights = draw_weights(task, config, [x], [group_key(task, x, 0)], 0)
    with told_of("for a group in which no answer can be read"):
        estimate(task, config, [x], [R], weights)
