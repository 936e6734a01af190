"""Tools for a lesson: predictions that are asked for, and exercises that are checked at once.

Importing it loads no widget library and no torch.
"""

from .exercises import Feedback, check
from .predictions import Outcome, Prediction, predict

__all__ = ["Feedback", "Outcome", "Prediction", "check", "predict"]
