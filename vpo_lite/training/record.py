"""The record of one training step, as a run writes it and a panel shows it."""

import dataclasses
import functools
import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, PlainValidator, create_model, model_validator

from ..estimators import METHODS
from ..files import Schema, check
from .schemas import Count, Positive, Seconds, Share


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"unknown method; there are {', '.join(METHODS)}")
    return name


def _weights(K) -> float:
    if K == "inf":
        return math.inf
    if not isinstance(K, int) or isinstance(K, bool) or K < 1:
        raise ValueError('should be a whole number of at least 1, or "inf"')
    return K


Method = Annotated[str, AfterValidator(_known_method)]
Step = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Group:
    """One prompt group: its problem, and what its G rollouts wrote.

    - instance: the problem
    - texts (G): the completions
    - answers (G, m): None where missing or malformed
    - rewards (G, m, d): as measured; a repeat keeps its own
    - advantages (G,)
    - weights (d,): of a method that draws one weight vector for each group
    """

    instance: Any
    texts: list[str]
    answers: list[list[str | None]]
    rewards: np.ndarray
    advantages: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class StepRecord:
    """One training step. Its figures are means over its rollouts, from before its update. Loss, KL,
    clip share, gradient norm and entropy are those of its last pass, where ``epochs`` is above 1.

    Rates are shares, 0 to 1.

    - step: 1, 2, ...
    - method, alpha, K, m: as used in this step
    - score: mean score of a rollout (U_hat for vpo, w* . r for grpo)
    - set_reward: expected best answer of a compared set at the run's alpha, K = infinity; where
      that is not cheap to integrate, off by some 1e-3 for a set, and by less than 1e-3 as a mean
    - coverage: the same at alpha = 1 over that of the true front, mean over the problems with a
      known front; None without any
    - diversity: mean pairwise L1 distance among valid answers, 0 to d
    - parse_rate, valid_rate, solved_rate, repeat_rate: of the answers asked for
    - truncated_rate: of the rollouts, those cut off at the token limit
    - objectives: means by name, empty where names differ from problem to problem
    - slots: mean ``w* . r`` of the 1st, 2nd, ... answer
    - valid_slots: the same of the valid rate; None in a run of an older version. An answer that
      wins under no weights earns its set nothing, so it may cease to be valid.
    - silent_groups: share of groups whose advantages were all 0 (TRL: frac_reward_zero_std)
    - entropy: nats per token
    - kl: k3 to the reference, weighted as the loss: nats per token, less with "constant"; None on
      steps that do not measure it
    - clip_share: share of the tokens at which the clip was active (clip fraction)
    - loss: what the update minimises: clipped loss + kl term - entropy bonus
    - gradient_norm: before clipping
    - tokens: how many were sampled
    - seconds, rollout_seconds: of the step, and of its sampling and scoring
    - scoring_seconds: of reading and scoring the answers alone; of several processes the slowest.
      None in a run of an older version.
    - sampler_gap: mean |log-probability of sampler - of trainer| per token, in nats. Below 1e-4 in
      float32, about 5e-3 in bfloat16; above that the two are not the same policy.
    - groups: what was written; not stored
    """

    step: Step
    method: Method
    alpha: Annotated[float, Field(gt=0)]
    K: Annotated[float, PlainValidator(_weights)]
    m: Step
    score: float
    set_reward: float
    coverage: float | None
    diversity: Positive
    parse_rate: Share
    valid_rate: Share
    repeat_rate: Share
    objectives: dict[str, float]
    slots: Annotated[list[float], Field(min_length=1)]
    silent_groups: Share
    entropy: float | None
    kl: float | None
    clip_share: Share
    gradient_norm: Positive
    loss: float
    tokens: Count
    seconds: Seconds
    rollout_seconds: Seconds
    sampler_gap: Positive | None = 0.0
    solved_rate: Share | None = None
    truncated_rate: Share = 0.0
    scoring_seconds: Seconds | None = None
    valid_slots: list[Share] | None = None
    groups: tuple[Group, ...] = field(default=(), repr=False, compare=False)

    def to_json(self) -> dict:
        """One line of metrics.jsonl: all but the groups.

        K = inf is the text "inf", and a figure that is not finite is null.
        """
        values = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "groups"
        }
        values["K"] = "inf" if self.K == math.inf else self.K
        return {
            k: None if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in values.items()
        }

    def numbers(self) -> dict[str, float]:
        """The step's finite numbers by flat names, as trackers (TensorBoard, W&B) take them.

        >>> from vpo_lite import TrainConfig, train
        >>> config = TrainConfig.preset("demo", steps=1, prompts=1, group_size=4)
        >>> [name for name in next(train(config)).numbers() if "/" in name][4:]
        ['slots/1', 'slots/2', 'slots/3', 'valid_slots/1', 'valid_slots/2', 'valid_slots/3']
        """
        values = self.to_json()
        slots = {
            f"{name}/{i}": x
            for name in ("slots", "valid_slots")
            for i, x in enumerate(values.pop(name) or [], 1)
        }
        means = {f"objectives/{name}": x for name, x in values.pop("objectives").items()}
        numbers = {name: x for name, x in values.items() if isinstance(x, int | float)}
        return numbers | means | slots

    @classmethod
    def from_json(cls, values: dict, groups: tuple[Group, ...] = ()) -> "StepRecord":
        """The record that :meth:`to_json` wrote.

        Raises DamagedError that names the field, for a type or a range that no step has.
        """
        return cls(**dict(check(values, stored_step(), "a step")), groups=groups)


@functools.cache
def stored_step() -> type[Schema]:
    """The schema of a line of metrics.jsonl: the fields of a StepRecord without the groups."""
    fields = {
        f.name: (f.type, ... if f.default is dataclasses.MISSING else f.default)
        for f in dataclasses.fields(StepRecord)
        if f.name != "groups"
    }
    return create_model("StoredStep", __base__=_Step, **fields)


class _Step(Schema):
    @model_validator(mode="after")
    def _each_is_a_part_of_the_next(self):
        if self.rollout_seconds > self.seconds:
            raise ValueError(f"rollout_seconds {self.rollout_seconds} of {self.seconds} seconds")
        if (self.scoring_seconds or 0) > self.rollout_seconds:
            raise ValueError(
                f"scoring_seconds {self.scoring_seconds} of {self.rollout_seconds} rollout_seconds"
            )
        return self
