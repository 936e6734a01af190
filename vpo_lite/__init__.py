"""Vector Policy Optimization (VPO, arXiv 2605.22817): learn it, try it, teach it.

``import vpo_lite`` loads the NumPy functions only. Everything that needs torch, plotly or
ipywidgets is loaded when it is first used.

>>> import vpo_lite as vpo
>>> float(vpo.exact_set_reward([[1.0, 0.0], [0.0, 1.0]]))  # two specialists: E max(w, 1 - w) = 3/4
0.75
"""

import importlib
import os

# OpenMP reads this once, when torch starts it. On shared cores, threads that spin while they wait
# make a step up to 29 times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from .estimators import METHODS, advantages, rollout_scores
from .exact import exact_set_reward, exact_shares
from .metrics import (
    best_at_k,
    best_subset,
    coverage,
    diversity,
    hypervolume,
    pass_at_k,
    price_of_conflict,
)
from .objective import sample_weights, set_reward, winners

__version__ = "0.2.0"

# name -> (module, attribute or None for the module itself); loaded on first use
_LAZY = {
    "TrainConfig": ("training.config", "TrainConfig"),
    "StepRecord": ("training.record", "StepRecord"),
    "train": ("training.loop", "train"),
    "evaluate": ("training.evaluate", "evaluate"),
    "compare": ("training.compare", "compare"),
    "load_policy": ("policy.loading", "load_policy"),
    "Lab": ("lab", "Lab"),
    "Task": ("tasks", "Task"),
    "figures": ("figures", None),
    "reward_report": ("decomposition", "reward_report"),
    "negative_controls": ("negative_controls", None),
}

__all__ = [
    "METHODS",
    "advantages",
    "best_at_k",
    "best_subset",
    "coverage",
    "diversity",
    "exact_set_reward",
    "exact_shares",
    "hypervolume",
    "pass_at_k",
    "price_of_conflict",
    "rollout_scores",
    "sample_weights",
    "set_reward",
    "winners",
    *_LAZY,
]


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'vpo_lite' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(f".{module_name}", __name__)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
