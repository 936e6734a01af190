"""Does a decomposition of the reward offer VPO anything? Asked before any training.

- report: `reward_report`, and what it returns
- measured: its numbers, problem by problem
- stored: rewards from a file
- words: its text
"""

from .report import RewardReport, TargetReport, reward_report
from .stored import read_rewards

__all__ = ["RewardReport", "TargetReport", "read_rewards", "reward_report"]
