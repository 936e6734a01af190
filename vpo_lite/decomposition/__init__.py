"""Does a decomposition of the reward offer VPO anything? Asked before any training.

- report: `reward_report`, and what it returns
- measured: its numbers, problem by problem
- words: its text
"""

from .report import RewardReport, TargetReport, reward_report

__all__ = ["RewardReport", "TargetReport", "reward_report"]
