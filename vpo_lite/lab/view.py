"""What has been seen, frozen: `Moment` (one step), `Run` (one method), `View` (the whole lab).

Everything that draws or speaks takes a View. So what is shown is a pure function of what happened.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import metrics
from ..exact import exact_set_reward, exact_shares
from ..objective import sample_weights, winners
from ..policy import shipped
from ..randomness import generator
from ..tasks.base import Task, group_key
from ..training.config import TrainConfig
from ..training.record import StepRecord
from .settings import MOST_RUNS, Settings

POINTS = 2048  # of the set rewards that have no closed form: a fraction of a step
DOTS = 512  # weights to look at where all are meant (K = infinity)
BUDGETS = (1, 3, 10)  # k of best@k


@dataclass(frozen=True)
class Problem:
    """One problem and its true front (n, d), None where no front is known."""

    instance: Any
    front: np.ndarray | None = field(compare=False)

    @classmethod
    def of(cls, task: Task, instance) -> "Problem":
        return cls(instance, task.front(instance))

    @cached_property
    def ceilings(self) -> dict[int, float] | None:
        """Coverage of the best one, two and three answers there are; None without a front."""
        return None if self.front is None else metrics.price_of_conflict(self.front)


@dataclass(frozen=True)
class Moment:
    """What is shown of one step.

    - problem: of the step; where its prompts have different problems, the first one
    - points (n, d), counts (n,), valid (n,): distinct reward vectors, how many answers earned
      each, and whether those answers count
    - answers (m), rewards (m, d): a typical set, the one of median set reward
    - best_at_k: {k: mean best score of k answers}
    """

    problem: Problem
    points: np.ndarray
    counts: np.ndarray
    valid: np.ndarray
    answers: tuple[str | None, ...]
    rewards: np.ndarray
    best_at_k: dict[int, float]

    @classmethod
    def of(cls, record: StepRecord, config: TrainConfig, task: Task) -> "Moment":
        """From the record of a step that trained after ``config``."""
        groups = record.groups if task.single else record.groups[:1]
        problem = Problem.of(task, groups[0].instance)
        pool = np.concatenate([g.rewards.reshape(-1, g.rewards.shape[-1]) for g in groups])
        answers = [answer for g in groups for rollout in g.answers for answer in rollout]
        sets = metrics.as_sets(pool, config.compared_size)
        m = sets.shape[1]
        # Rounded: sets that tie in all but their last bits keep their order.
        set_rewards = exact_set_reward(sets, points=POINTS).round(9)
        typical = int(np.argsort(set_rewards, kind="stable")[len(sets) // 2])
        points, counts = np.unique(pool, axis=0, return_counts=True)
        scores = pool @ task.w_star(problem.instance)
        return cls(
            problem=problem,
            points=points,
            counts=counts,
            valid=task.valid(problem.instance, points),
            answers=tuple(answers[typical * m : (typical + 1) * m]),
            rewards=sets[typical],
            best_at_k={k: float(metrics.best_at_k(scores, k)) for k in BUDGETS if k <= len(pool)},
        )

    @property
    def instance(self):
        return self.problem.instance


@dataclass(frozen=True)
class Run:
    """One method's run as far as it went: its settings, and records and moments step by step."""

    method: str
    config: TrainConfig
    records: tuple[StepRecord, ...] = ()
    moments: tuple[Moment, ...] = ()

    @property
    def record(self) -> StepRecord:
        """The last step's."""
        return self.records[-1]

    @property
    def moment(self) -> Moment:
        """The last step's."""
        return self.moments[-1]

    def until(self, step: int | None) -> "Run":
        """The run as it was after this step; None: as it is."""
        return Run(self.method, self.config, self.records[:step], self.moments[:step])


@dataclass(frozen=True)
class View:
    """All that a drawing needs.

    - state: of the lab; settings: of now; code: their share code
    - task, own: the task, and the problem to look at before there is a step
    - runs: in order, up to the step that is looked at (``look``; None: the last one)
    - steps: steps of the longest run
    - active: methods of the runs under way, or of the last ones
    - message: the last thing to say about a request; error: one line in red
    - restart: what was changed that needs a fresh run; front_too: draw the true front beside
    - version: counts the changes that did not come from the panel's own knobs
    """

    state: str
    settings: Settings
    code: str
    task: Task = field(compare=False)
    own: Problem
    runs: tuple[Run, ...]
    look: int | None
    steps: int
    active: tuple[str, ...]
    message: str = ""
    error: str = ""
    restart: str = ""
    front_too: bool = False
    version: int = 0

    @property
    def config(self) -> TrainConfig:
        """Settings of the first run, without the options that single out one problem."""
        return self.settings.config

    @property
    def methods(self) -> tuple[str, ...]:
        return self.settings.methods

    @cached_property
    def many(self) -> bool:
        """Whether the steps draw different problems."""
        return self.settings.many or not self.task.single

    @property
    def busy(self) -> bool:
        """Whether a step is under way."""
        return self.state in ("running", "pausing", "stopping")

    @property
    def focus(self) -> Run | None:
        """The first active run that has a step."""
        return next((run for run in self.on_show() if run.method in self.active), None)

    def on_show(self) -> list[Run]:
        """The runs whose answers are drawn: the active ones, then the latest others while there is
        room.
        """
        begun = [run for run in self.runs if run.records]
        others = [run.method for run in begun if run.method not in self.active]
        kept = {*self.active, *others[max(0, len(others) - MOST_RUNS + len(self.active)) :]}
        shown = [run for run in begun if run.method in kept]
        return sorted(shown, key=lambda run: run.method not in self.active)

    @property
    def problem(self) -> Problem:
        """What the step in focus was about, or the lab's own problem."""
        return self.focus.moment.problem if self.focus else self.own

    @property
    def instance(self):
        return self.problem.instance

    @property
    def front(self) -> np.ndarray | None:
        """The true front (n, d) of the problem on show, None where no front is known."""
        return self.problem.front

    @property
    def ceiling(self) -> float | None:
        """Coverage of the best single answer; None with many problems, or without a front."""
        return None if self.many or self.own.front is None else self.own.ceilings[1]

    def weights(self) -> np.ndarray:
        """The weights (K, d) that the step on show drew, at the settings of now. With K = infinity
        `DOTS` of them, to look at.
        """
        step = self.focus.record.step - 1 if self.focus else 0
        count = DOTS if self.config.K == math.inf else self.config.K
        key = group_key(self.task, self.instance, 0)
        rng = generator(self.config.seed, "weights", step, key)
        return sample_weights(
            count, len(self.task.objectives(self.instance)), self.config.alpha, rng=rng
        )

    def win_shares(self, rewards: np.ndarray) -> np.ndarray:
        """How often each of the answers (m, d) wins: under the K weights, or exactly with
        K = infinity.
        """
        if self.config.K == math.inf:
            return exact_shares(rewards, self.config.alpha)
        won = winners(rewards, self.weights())
        return np.bincount(won, minlength=len(rewards)) / self.config.K

    def token_limit(self, run: Run) -> int:
        """Tokens after which the last step of a run cut its rollouts off."""
        if run.config.max_new_tokens:
            return run.config.max_new_tokens
        pocket = shipped.description(run.config.base_model)
        instances = [group.instance for group in run.record.groups]
        return max(self.task.max_tokens(x, run.record.m, pocket) for x in instances)
