"""Vector Policy Optimization (VPO, arXiv 2605.22817): learn it, try it, teach it.

``import vpo_lite`` loads nothing. A name is loaded, with what it needs, when it is first used.

>>> import vpo_lite as vpo
>>> float(vpo.exact_set_reward([[1.0, 0.0], [0.0, 1.0]]))  # two specialists: E max(w, 1 - w) = 3/4
0.75
"""

import os
from typing import TYPE_CHECKING

from .lazy import lazy

# OpenMP reads this once, when torch starts it. On shared cores, threads that spin while they wait
# make a step several times slower.
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
    "training.learner": "Learner",
    "training.run": "Run",
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
__all__.remove("figures")  # needs plotly, an extra: `from vpo_lite import *` would fail without it

if TYPE_CHECKING:  # the same for editors and type checkers, which cannot follow __getattr__
    from . import estimators as estimators
    from . import exact as exact
    from . import figures as figures
    from . import metrics as metrics
    from . import negative_controls as negative_controls
    from . import objective as objective
    from .decomposition import reward_report as reward_report
    from .estimators import METHODS as METHODS
    from .estimators import advantages as advantages
    from .estimators import rollout_scores as rollout_scores
    from .exact import exact_set_reward as exact_set_reward
    from .exact import exact_shares as exact_shares
    from .lab import Lab as Lab
    from .metrics import best_at_k as best_at_k
    from .metrics import best_subset as best_subset
    from .metrics import coverage as coverage
    from .metrics import diversity as diversity
    from .metrics import hypervolume as hypervolume
    from .metrics import pass_at_k as pass_at_k
    from .metrics import price_of_conflict as price_of_conflict
    from .objective import sample_weights as sample_weights
    from .objective import set_reward as set_reward
    from .objective import winners as winners
    from .policy.loading import load_policy as load_policy
    from .tasks import Task as Task
    from .training.compare import compare as compare
    from .training.config import TrainConfig as TrainConfig
    from .training.evaluate import evaluate as evaluate
    from .training.learner import Learner as Learner
    from .training.loop import train as train
    from .training.record import StepRecord as StepRecord
    from .training.run import Run as Run
else:
    __getattr__, __dir__ = lazy(__name__, _LAZY)
