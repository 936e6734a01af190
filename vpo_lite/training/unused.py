"""Which settings of a run its method does not use."""

from inspect import signature

from .. import estimators
from .config import TrainConfig


def unused(config: TrainConfig) -> list[str]:
    """The settings that do nothing with the method of this run, by name.

    >>> unused(TrainConfig(method="grpo"))
    ['m', 'K', 'pay_repeats', 'k']
    """
    method, one = estimators.METHODS[config.method], config.answers == 1
    found = {
        "m": method.single_answer,
        "set_size": not one,
        "K": method.weights != "many",
        "pay_repeats": one,  # an answer repeats an earlier one of its rollout
    }
    if method.estimate.__module__ == estimators.__name__:  # others may read more than they name
        found |= {name: name not in signature(method.estimate).parameters for name in ("k", "eps")}
    return [name for name, does_nothing in found.items() if does_nothing]


def alpha_is_only_measured(config: TrainConfig) -> bool:
    """Whether alpha enters no step of training, only the set reward that is measured.

    >>> alpha_is_only_measured(TrainConfig(method="grpo")), alpha_is_only_measured(TrainConfig())
    (True, False)
    """
    method = estimators.METHODS[config.method]
    return method.weights == "none" and "alpha" not in signature(method.estimate).parameters
