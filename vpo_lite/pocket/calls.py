"""The recipe for plans of tool calls: the words of a pocket policy, and plans for many requests.

A tool with its three qualities is one word: ``hotel_410``. So is an argument with its value. The
model then needs no table from names to qualities: it finds the tools of a part, copies one of them,
and copies the arguments.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..options import setting
from ..randomness import generator
from ..tasks.base import Prompt, Task
from ..tasks.call_plans import KEYS, PROFILES, VALUES, CallPlans, front_of, plans_of
from .recipe import FIRST_SEED, POCKET_ANSWERS, WEIGHTS, Recipe, some_weights

_VALUES = {key: v for keys in KEYS.values() for key, v in zip(keys, VALUES, strict=True)}


def demonstrate(request, m: int, plain_share, wrong_share, distinct_share, rng) -> list[str]:
    """m plans that are undecided between those on the front, and about them.

    A plan is one on the front, or another one (``plain_share``); each of its calls is then spoilt
    with probability ``wrong_share``. The plans on the front come in random order, one after the
    other (``distinct_share`` of the sets), or each is drawn anew.
    """
    plans, front = plans_of(request), front_of(request)
    on_front = (plans[:, None] == front).all(axis=-1).any(axis=-1)
    order, others = rng.permutation(np.flatnonzero(on_front)), np.flatnonzero(~on_front)
    in_turn, used, texts = rng.random() < distinct_share, 0, []
    for _ in range(m):
        if len(others) and rng.random() < plain_share:
            plan = others[rng.integers(len(others))]
        else:
            plan = order[used % len(order) if in_turn else rng.integers(len(order))]
            used += 1
        tools = divmod(int(plan), len(request[1].tools))
        right = [[p.tools[t], *p.arguments] for p, t in zip(request, tools, strict=True)]
        calls = [
            spoilt(call, other, rng) if rng.random() < wrong_share else call
            for call, other in zip(right, request[::-1], strict=True)
        ]
        calls = [call for call in calls if call] or right[:1]  # not both are left out
        texts.append(" ; ".join(map(" ".join, calls)))
    return texts


def spoilt(call: list[str], other, rng) -> list[str]:
    """A call that serves nothing: left out (empty), with a tool of the other part, with one
    argument missing, or with another value.
    """
    kind, which = rng.integers(4), 1 + rng.integers(len(call) - 1)
    if kind == 0:
        return []
    if kind == 1:
        return [other.tools[rng.integers(len(other.tools))], *call[1:]]
    if kind == 2:
        return [*call[:which], *call[which + 1 :]]
    key, _, value = call[which].partition("=")
    values = [v for v in _VALUES[key] if v != value]
    return [*call[:which], f"{key}={values[rng.integers(len(values))]}", *call[which + 1 :]]


@dataclass(frozen=True)
class CallsRecipe(Recipe):
    """What makes a pocket policy for plans of calls.

    It knows how to find the tools of a part and to pass on its arguments. It is undecided which
    tools to take, whether to take the same again, and sometimes gets a call wrong.

    >>> CallsRecipe(wrong_share=2)
    Traceback (most recent call last):
    ...
    ValueError: wrong_share = 2: must be a finite number, 0 or more, at most 1
    """

    task: ClassVar[str] = CallPlans.name
    tag: ClassVar[str] = CallPlans.tag
    problems: ClassVar[str] = "requests"
    longest: ClassVar[int] = 96
    stops: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "parse": "parse",
        "valid": "serve both parts",
        "front": "on the front",
        "distinct": "rollouts with m different plans",
        "coverage": "coverage of a rollout",
    }

    plain_share: float = setting(
        0.15, "fraction of the plans that are not on the front", least=0, most=1
    )
    wrong_share: float = setting(0.2, "fraction of the calls that serve nothing", least=0, most=1)
    distinct_share: float = setting(
        0.5, "fraction of the sets that repeat no plan of the front", least=0, most=1
    )
    first_updates: int = setting(
        400, "updates at the beginning that show one or two plans of the front", least=0, most=10**9
    )
    last_updates: int = setting(
        100, "updates at the end that show half as many wrong calls", least=0, most=10**9
    )
    updates: int = setting(900, "updates of the model", least=1, most=10**9)

    def words(self) -> list[str]:
        return [
            *WEIGHTS,
            ";",
            *KEYS,
            *[f"{key}={value}" for key, values in _VALUES.items() for value in values],
            *[f"{intent}_{profile}" for intent in KEYS for profile in PROFILES],
        ]

    @cached_property
    def _task(self) -> CallPlans:
        return CallPlans()

    def demonstration(self, i: int) -> tuple[Prompt, str]:
        """Number i. All of a batch have the same m."""
        batch = i // self.batch
        rng = generator(self.seed, "demonstration", 0, str(i))
        request = self._task.instance(FIRST_SEED + i)
        first = batch < self.first_updates
        m = 1 + batch % (2 if first else POCKET_ANSWERS)
        weights = some_weights(4, rng)
        prompt = self._task.prompt(request, m, weights=weights, pocket=self.pocket())
        wrong = self.wrong_share / (2 if batch >= self.updates - self.last_updates else 1)
        shares = (0, 0, 1) if first else (self.plain_share, wrong, self.distinct_share)
        return prompt, self._task.write(request, demonstrate(request, m, *shares, rng))

    def measured(self) -> dict[str, Task]:
        return {"two parts": self._task}

    def story(self) -> tuple[str, str]:
        return (
            f"""that reads a generated
request of the task calls and writes m = 1 to {POCKET_ANSWERS} plans for it. It stands in for a
pretrained language model: it knows the format, finds the tools of each part and passes on its
arguments. It is undecided which tools to take and sometimes gets a call wrong, so that
reinforcement learning has something to teach. It is good for nothing else.""",
            f"""on
drawn requests (seeds from {FIRST_SEED:,}). Seed {self.seed}. A plan is drawn from those on the
front, or with probability {self.plain_share} from the others. Each of its calls then serves nothing
with probability {self.wrong_share}: it is left out, has a tool of the other part, lacks an argument
or has another value. In a share of {self.distinct_share} of the sets no plan of the front is shown
again. The first {self.first_updates} updates show one or two different plans of the front, and the
last {self.last_updates} half as many wrong calls.""",
        )
