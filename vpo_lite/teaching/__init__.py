"""Tools for a lesson: a prediction that is asked for, stored, and shown against the outcome.

Importing it loads no widget library and no torch.
"""

from .predictions import Outcome, Prediction, predict

__all__ = ["Outcome", "Prediction", "predict"]
