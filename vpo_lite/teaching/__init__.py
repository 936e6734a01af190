"""Tools for a lesson: predictions, claims, and exercises that are checked at once.

Importing it loads no widget library and no torch.
"""

from .claims import claim_for
from .exercises import Feedback, check
from .predictions import Outcome, Prediction, predict

__all__ = ["Feedback", "Outcome", "Prediction", "check", "claim_for", "predict"]
