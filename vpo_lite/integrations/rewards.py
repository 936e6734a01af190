"""Rewards of rollouts that another engine samples: one each, without the rest of their group.

An engine may hand over half a group, or a single rollout, in any process. So a rollout's reward
must depend on nothing but itself and its name: (seed, step, key of its group). The weights are
drawn from that name, as the native trainer draws them. The engine then compares the group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import checks, estimators
from ..tasks.base import Task
from ..tasks.by_name import method_name
from ..tasks.wording import begun_in_thought
from ..training.answers import Answers, read_answers
from ..training.config import TrainConfig
from ..training.contract import w_star_of, worst_of
from ..training.problems import draw_weights, single_weights


class Scored(NamedTuple):
    """One rollout: its reward, the answers that were read from it (a group of one), and its
    weights (d,) where its method draws one vector.
    """

    reward: float
    answers: Answers
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class RolloutReward:
    """What a method gives one rollout, before it is compared with its group. Picklable.

    The engine's own z-score within the group then makes the advantage. Fields as in a TrainConfig;
    ``answers`` is m. ``thinks``: the prompts end in ``<think>``, as some chat templates write it,
    so a completion that does not close it holds no answer. Raises ValueError for a method that
    compares a group in another way, and for values that cannot work.

    >>> from vpo_lite.tasks.programs import ProgramsTask
    >>> from vpo_lite.training.config import TrainConfig
    >>> reward = RolloutReward.of(TrainConfig.preset("demo", task="programs", K=8))
    >>> reward.answers, reward.K
    (3, 8)
    """

    method: str = "vpo"
    answers: int = 3
    K: float = 64
    alpha: float = 1.0
    seed: int = 0
    pay_repeats: bool = False
    thinks: bool = False

    def __post_init__(self):
        object.__setattr__(self, "method", method_name(self.method))
        comparable = [n for n, m in estimators.METHODS.items() if m.z_score and not m.recombines]
        if self.method not in comparable:
            there = ", ".join(comparable)
            raise ValueError(
                f"method = {checks.shown(self.method)}: another engine compares rollouts by the "
                f"z-score of their rewards, so there is {there}, and yours with "
                "@method(z_score=True); train the others natively"
            )
        checks.check_whole(self.answers, "answers")
        single = estimators.METHODS[self.method].single_answer
        if single and self.answers != 1:
            raise ValueError(f"answers = {self.answers}: {self.method} takes 1 answer in a rollout")
        rules = {option.name: option for option in TrainConfig.options()}
        for name in ("K", "alpha", "seed", "pay_repeats"):
            object.__setattr__(self, name, rules[name].check(getattr(self, name)))
        checks.check_truth(self.thinks, "thinks")

    @classmethod
    def of(cls, config: TrainConfig) -> "RolloutReward":
        """The reward of a run with these settings."""
        return cls(
            config.method, config.answers, config.K, config.alpha, config.seed, config.pay_repeats
        )

    def score(
        self,
        task: Task,
        instances: Sequence,
        keys: Sequence[str],
        texts: Sequence[str],
        step: int,
    ) -> list[Scored]:
        """The rewards of N rollouts, each with its problem, its text and the key of its group.

        step: counts from 0, as in the native trainer. Raises TaskError, a ValueError, for a task
        whose scores cannot work.
        """
        texts = [begun_in_thought(text) if self.thinks else text for text in texts]
        groups = read_answers(task, instances, [[text] for text in texts], self.answers)
        R = [g.for_training(worst_of(task, g.instance), self.pay_repeats) for g in groups]
        weights = draw_weights(task, self, instances, keys, step)
        found = estimators.rollout_scores(
            self.method,
            R,
            weights=weights,
            alpha=self.alpha,
            w_star=[w_star_of(task, x) for x in instances],
        )
        single = single_weights(self.method, weights, len(groups))
        return [Scored(float(s), g, w) for s, g, w in zip(found[:, 0], groups, single, strict=True)]
