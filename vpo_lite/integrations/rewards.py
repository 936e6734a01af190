"""Scores of rollouts that another engine samples: one each, without the rest of their group.

An engine may hand over half a group, or a single rollout, in any process. So a rollout's score
must depend on nothing but itself and its name: (seed, step, key of its group). The weights are
drawn from that name, as the native trainer draws them. The engine then compares the group by
z-scores. A method that compares it otherwise needs whole groups.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .. import checks, estimators
from ..tasks.base import Task, TaskError
from ..tasks.by_name import method_name
from ..tasks.wording import begun_in_thought
from ..training.answers import Answers, read_answers
from ..training.config import TrainConfig
from ..training.contract import w_star_of, worst_of
from ..training.problems import draw_weights, single_weights


class Scored(NamedTuple):
    """One rollout: its score, the answers that were read from it (a group of one), its weights (d,)
    where its method draws one vector, and its advantage where its whole group was compared.
    """

    score: float
    answers: Answers
    weights: np.ndarray | None = None
    advantage: float | None = None

    @property
    def reward(self) -> float:
        """What the engine gets: the advantage where it is known, else the score."""
        return self.score if self.advantage is None else self.advantage


def text_of(completion: str | Sequence[Mapping], thinks: bool) -> str:
    """A completion as one text: it is one, or chat messages of which the last one counts. TRL takes
    a thought out of it where the tokenizer says how. thinks: as in a RolloutReward.

    >>> text_of([{"reasoning_content": "Is it 4?", "content": "It is."}], thinks=False)
    '<think>Is it 4?</think>It is.'
    """
    if isinstance(completion, str):
        return completion
    message = completion[-1]
    content, thought = message.get("content") or "", message.get("reasoning_content")
    return f"{'' if thinks else '<think>'}{thought}</think>{content}" if thought else content


@dataclass(frozen=True)
class RolloutReward:
    """What a method gives one rollout. Picklable.

    The engine's own z-score within the group then makes the advantage, or, if :attr:`whole_groups`,
    the method's own comparison. Fields as in a TrainConfig; ``answers`` is m. ``thinks``: the
    prompts end in ``<think>``, as some chat templates write it, so a completion that does not close
    it holds no answer. Raises ValueError for a method that adds rollouts to a group, and for values
    that cannot work.

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
    k: int | None = None
    eps: float = 1e-4
    seed: int = 0
    pay_repeats: bool = False
    thinks: bool = False

    def __post_init__(self):
        object.__setattr__(self, "method", method_name(self.method))
        if estimators.METHODS[self.method].recombines:
            raise ValueError(
                f"method = {self.method!r}: it adds a rollout to a group, which another engine "
                "cannot; train natively, or take vpo"
            )
        checks.check_whole(self.answers, "answers")
        single = estimators.METHODS[self.method].single_answer
        if single and self.answers != 1:
            raise ValueError(f"answers = {self.answers}: {self.method} takes 1 answer in a rollout")
        rules = {option.name: option for option in TrainConfig.options()}
        for name in ("K", "alpha", "k", "eps", "seed", "pay_repeats"):
            object.__setattr__(self, name, rules[name].check(getattr(self, name)))
        checks.check_truth(self.thinks, "thinks")

    @classmethod
    def of(cls, config: TrainConfig) -> "RolloutReward":
        """The reward of a run with these settings."""
        same = ("method", "answers", "K", "alpha", "k", "eps", "seed", "pay_repeats")
        return cls(**{name: getattr(config, name) for name in same})

    @property
    def whole_groups(self) -> bool:
        """Whether the method compares a group by something else than the z-scores of its scores."""
        return not estimators.METHODS[self.method].z_score

    def check_group_size(self, group_size: int | None) -> None:
        """ValueError for groups of a size that the method cannot compare."""
        if group_size is None:
            raise ValueError(
                f"method = {self.method!r}: it compares whole groups by itself; give group_size, "
                "TRL's num_generations, and set scale_rewards='none' in GRPOConfig"
            )
        checks.check_whole(group_size, "group_size")
        if group_size < (least := (self.k or 1) + 1):
            raise ValueError(
                f"group_size = {group_size}: {self.method} needs at least {least} rollouts in a "
                "group"
            )

    def check_estimator(self, estimator: str) -> None:
        """ValueError for a method that this estimator of veRL cannot compare."""
        if self.whole_groups and self.method not in estimators.OF_SCORES:
            raise ValueError(
                f"method = {self.method!r}: veRL compares a group by one number for each rollout, "
                "and this method by more; train natively, or with --engine trl"
            )
        if self.whole_groups and estimator != "vpo":
            raise ValueError(
                f"estimator = {checks.shown(estimator)}: it compares z-scores, and {self.method} "
                "does not; take the estimator vpo"
            )

    def groups(self, keys: Sequence[str], group_size: int) -> list[tuple[str, int]]:
        """A label for the group of each rollout. Two groups of one prompt have the same key.

        Raises TaskError where a group is not whole.
        """
        seen, groups = Counter(), []
        for key in keys:
            groups.append((key, seen[key] // group_size))
            seen[key] += 1
        for count in seen.values():
            if count % group_size:
                raise TaskError(
                    f"{self.method} compares whole groups of group_size = {group_size}, and was "
                    f"handed {count} rollouts of one prompt: let num_generations be group_size, "
                    "and per_device_train_batch_size x gradient_accumulation_steps a multiple of it"
                )
        return groups

    def score(
        self,
        task: Task,
        instances: Sequence,
        keys: Sequence[str],
        texts: Sequence[str],
        step: int,
        groups: Sequence[Hashable] | None = None,
    ) -> list[Scored]:
        """The scores of N rollouts, each with its problem, its text and the key of its group.

        - step: counts from 0, as in the native trainer
        - groups: a label for each rollout, where they are whole groups; then the method compares
          them, and the scores come with advantages

        Raises TaskError, a ValueError, for a task whose scores cannot work.
        """
        texts = [begun_in_thought(text) if self.thinks else text for text in texts]
        read = read_answers(task, instances, [[text] for text in texts], self.answers)
        R = [one.for_training(worst_of(task, one.instance), self.pay_repeats) for one in read]
        weights = draw_weights(task, self, instances, keys, step)
        how = dict(weights=weights, w_star=[w_star_of(task, x) for x in instances])
        if groups is None:
            R = [r.repeat(2, axis=0) for r in R] if self.whole_groups else R  # one is no group
            scores = estimators.rollout_scores(self.method, R, alpha=self.alpha, **how)[:, 0]
            advantages = [None] * len(scores)
        else:
            how = {name: x and dict(zip(groups, x, strict=True)) for name, x in how.items()}
            how |= dict(alpha=self.alpha, k=self.k, eps=self.eps, groups=groups)
            scores, found = estimators.estimate(self.method, [r[0] for r in R], **how)
            self._check_centred(found, groups)
            advantages = found.tolist()
        single = single_weights(self.method, weights, len(read))
        return list(map(Scored, scores.tolist(), read, single, advantages))

    def _check_centred(self, advantages: np.ndarray, groups: Sequence[Hashable]) -> None:
        for group in () if estimators.METHODS[self.method].ours else set(groups):
            own = advantages[[one == group for one in groups]]
            if abs(own.mean()) > 1e-6 * abs(own).max():
                raise TaskError(
                    f"method {self.method!r}: the advantages of a group average to "
                    f"{own.mean():.3g}, and TRL subtracts their mean; train natively"
                )
