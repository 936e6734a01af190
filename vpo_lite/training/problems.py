"""The problems of a training step and their weights. No torch is needed: recordings and other
engines look them up, too.
"""

import math

from .. import estimators
from ..objective import sample_weights
from ..randomness import generator, integer
from ..tasks.base import Task
from .contract import objectives_of


def seeds_of_step(task: Task, seed: int, step: int, prompts: int) -> list[int]:
    """The seeds of the P problems of a step (0, 1, ...), drawn from the task's training seeds."""
    seeds = task.seeds["train"]
    drawn = (integer(seed, "instance", step, str(slot)) for slot in range(prompts))
    return [int(seeds[number % len(seeds)]) for number in drawn]


def problems_of_step(task: Task, seed: int, step: int, prompts: int) -> list:
    """The P problems of a step (0, 1, ...)."""
    return [task.instance(s) for s in seeds_of_step(task, seed, step, prompts)]


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
