"""Vector Policy Optimization (VPO, arXiv 2605.22817): learn it, try it, teach it.

``import vpo_lite`` loads nothing. A name is loaded, with what it needs, when it is first used.

>>> import vpo_lite as vpo
>>> float(vpo.exact_set_reward([[1.0, 0.0], [0.0, 1.0]]))  # two specialists: E max(w, 1 - w) = 3/4
0.75
"""

import importlib
import os

# OpenMP reads this once, when torch starts it. On shared cores, threads that spin while they wait
# make a step up to 29 times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.2.0"

# name -> (module, attribute or None for the module itself); loaded on first use
_LAZY = {
    "METHODS": ("estimators", "METHODS"),
    "advantages": ("estimators", "advantages"),
    "rollout_scores": ("estimators", "rollout_scores"),
    "exact_set_reward": ("exact", "exact_set_reward"),
    "exact_shares": ("exact", "exact_shares"),
    "best_at_k": ("metrics", "best_at_k"),
    "best_subset": ("metrics", "best_subset"),
    "coverage": ("metrics", "coverage"),
    "diversity": ("metrics", "diversity"),
    "hypervolume": ("metrics", "hypervolume"),
    "pass_at_k": ("metrics", "pass_at_k"),
    "price_of_conflict": ("metrics", "price_of_conflict"),
    "sample_weights": ("objective", "sample_weights"),
    "set_reward": ("objective", "set_reward"),
    "winners": ("objective", "winners"),
    "estimators": ("estimators", None),
    "exact": ("exact", None),
    "metrics": ("metrics", None),
    "objective": ("objective", None),
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

__all__ = [*_LAZY]


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
