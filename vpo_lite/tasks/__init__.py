"""The problems that policies are trained on: one file per domain, all after the protocol in ``base``."""

from .base import Task, reward_matrix, task_named

__all__ = ["Task", "reward_matrix", "task_named"]
