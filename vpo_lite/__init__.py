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

_NAMES = {  # module -> what is public of it, loaded on first use; its own name is the whole module
    "estimators": "METHODS advantages rollout_scores estimators",
    "exact": "exact_set_reward exact_shares exact",
    "metrics": "best_at_k best_subset coverage diversity hypervolume metrics pass_at_k "
    "price_of_conflict",
    "objective": "sample_weights set_reward winners objective",
    "training.config": "TrainConfig",
    "training.record": "StepRecord",
    "training.loop": "train",
    "training.evaluate": "evaluate",
    "training.compare": "compare",
    "policy.loading": "load_policy",
    "lab": "Lab",
    "tasks": "Task",
    "figures": "figures",
    "decomposition": "reward_report",
    "negative_controls": "negative_controls",
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_LAZY]


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'vpo_lite' has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    value = module if name == _LAZY[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
