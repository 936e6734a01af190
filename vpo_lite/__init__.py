"""Vector Policy Optimization (VPO, arXiv 2605.22817): learn it, try it, teach it.

The NumPy functions are bound at once; everything that needs torch, plotly or ipywidgets is loaded when it is first used,
so that ``import vpo_lite`` stays light.

>>> import vpo_lite as vpo
>>> round(float(vpo.exact_set_reward([[1.0, 0.0], [0.0, 1.0]])), 4)     # two specialists: E max(w, 1 - w) = 3/4
0.75
"""

import importlib
import os

# Read once, when OpenMP starts with torch: waiting threads that spin make a step up to 29 times slower on shared cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from .estimators import METHODS, advantages, rollout_scores
from .metrics import (
    best_at_k,
    best_subset,
    coverage,
    diversity,
    hypervolume,
    pass_at_k,
    price_of_conflict,
)
from .objective import exact_set_reward, exact_shares, sample_weights, set_reward, winners

__version__ = "0.1.0"

# name -> (module, attribute or None for the module itself); loaded on first use
_LAZY = {
    "TrainConfig": ("training.config", "TrainConfig"),
    "StepRecord": ("training.step", "StepRecord"),
    "train": ("training.loop", "train"),
    "evaluate": ("training.evaluate", "evaluate"),
    "compare": ("training.evaluate", "compare"),
    "load_policy": ("policy.model", "load_policy"),
    "live": ("live", None),
    "figures": ("figures", None),
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
