"""Which settings of a run do nothing."""

from inspect import signature

from .. import estimators
from .config import TrainConfig

CLIPS = ("clip", "clip_high", "dual_clip")


def unused(config: TrainConfig) -> list[str]:
    """The settings that do nothing in this run, by name: its method does not use them, or a step
    makes one update, in which no ratio differs from 1.

    >>> unused(TrainConfig(method="grpo", epochs=2))
    ['m', 'K', 'pay_repeats', 'k']
    >>> unused(TrainConfig(method="vpo", mini_batches=1))
    ['set_size', 'k', 'clip', 'clip_high', 'dual_clip']
    """
    method, one = estimators.METHODS[config.method], config.answers == 1
    found = {
        "m": method.single_answer,
        "set_size": not one,
        "K": method.weights != "many",
        "pay_repeats": one,  # an answer repeats an earlier one of its rollout
    }
    found |= {name: not reads(config.method, name) for name in ("k", "eps")}
    found |= dict.fromkeys(CLIPS, config.epochs == config.mini_batches == 1)
    return [name for name, does_nothing in found.items() if does_nothing]


def reads(method: str, name: str) -> bool:
    """Whether a method may read this argument of its function. One of yours may read more than it
    names.

    >>> reads("grpo", "w_star"), reads("vpo", "w_star")
    (True, False)
    """
    how = estimators.METHODS[method]
    named = name in signature(how.estimate).parameters or (name == "eps" and how.z_score)
    return named or not how.ours
