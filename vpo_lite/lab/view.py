"""What has been seen, frozen: `Moment` (one step), `SeenRun` (one method), `View` (the whole lab).

Everything that draws or speaks takes a View. So what is shown is a pure function of what happened.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import metrics
from ..estimators import METHODS
from ..exact import exact_set_reward
from ..objective import sample_weights
from ..policy import shipped
from ..randomness import generator
from ..tasks.base import Task, group_key
from ..training.config import TrainConfig
from ..training.contract import front_of
from ..training.record import StepRecord
from .judging import POINTS, Sets, Target, agreement, best_of_k, coverages, target
from .settings import MOST_RUNS, Settings
from .showing import Showing

DOTS = 512  # weights to look at where all are meant (K = infinity)
BUDGETS = (1, 3, 10)  # k of best@k


@dataclass(frozen=True)
class Problem:
    """One problem and its true front (n, d), None where no front is known."""

    instance: Any
    front: np.ndarray | None = field(compare=False)

    @classmethod
    def of(cls, task: Task, instance) -> "Problem":
        return cls(instance, front_of(task, instance))


@dataclass(frozen=True)
class Moment:
    """What is shown of one step.

    - problem: of the step; where its prompts have different problems, the first one
    - points (n, d), counts (n,), valid (n,): distinct reward vectors, how many answers earned
      each, and whether those answers count
    - answers (m), rewards (m, d): a typical set, the one of median set reward
    - best_at_k: {k: mean best w* . r of k answers}, k = 1, 3, 10
    - sets: all sets of the step, problem by problem
    """

    problem: Problem
    points: np.ndarray
    counts: np.ndarray
    valid: np.ndarray
    answers: tuple[str | None, ...]
    rewards: np.ndarray
    best_at_k: dict[int, float]
    sets: tuple[Sets, ...]
    known: dict = field(default_factory=dict, compare=False, repr=False)  # what was asked before

    @classmethod
    def of(cls, record: StepRecord, config: TrainConfig, task: Task) -> "Moment":
        """From the record of a step, and the config that it trained with."""
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
        # No set joins answers of two groups: so they are judged as the record judged them.
        apart = [metrics.as_sets(g.rewards, config.compared_size) for g in record.groups]
        written = [Sets.of(problem.front, np.concatenate(apart[: len(groups)]))]
        for group, others in zip(record.groups[len(groups) :], apart[len(groups) :], strict=True):
            written.append(Sets.of(front_of(task, group.instance), others))
        scores = pool @ task.w_star(problem.instance)
        return cls(
            problem=problem,
            points=points,
            counts=counts,
            valid=task.valid(problem.instance, points),
            answers=tuple(answers[typical * m : (typical + 1) * m]),
            rewards=sets[typical],
            best_at_k={k: float(metrics.best_at_k(scores, k)) for k in BUDGETS if k <= len(pool)},
            sets=tuple(written),
        )

    @property
    def instance(self):
        return self.problem.instance

    def search(self, alpha: float) -> dict[int, float]:
        """What a search finds among the answers to the problem: see `judging.best_of_k`."""
        if ("search", alpha) not in self.known:
            self.known["search", alpha] = best_of_k(self.points, self.counts, alpha)
        return self.known["search", alpha]


@dataclass(frozen=True)
class SeenRun:
    """One method's run as far as it went: the settings of its last step, and records and moments
    step by step.

    faults: what is wrong with its answers or their rewards, as :func:`~vpo_lite.training.watch
    .faults` names and says it; unknown of a recording
    """

    method: str
    config: TrainConfig
    records: tuple[StepRecord, ...] = ()
    moments: tuple[Moment, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def record(self) -> StepRecord:
        """The last step's. ValueError before the first one, also of a run that failed."""
        if not self.records:
            raise ValueError(f"{self.method}: no step has ended; if it failed, see last_error")
        return self.records[-1]

    @property
    def moment(self) -> Moment:
        """The last step's."""
        return self.moments[-1]

    @property
    def used(self) -> tuple[int, int]:
        """The answers and the tokens sampled so far."""
        answers = sum(
            g.rewards.shape[0] * g.rewards.shape[1] for r in self.records for g in r.groups
        )
        return answers, sum(r.tokens for r in self.records)

    def coverages(self, alpha: float) -> list[float | None]:
        """The mean coverage of the sets of each step, judged at this alpha."""
        if alpha == 1:
            return [record.coverage for record in self.records]
        fresh = [m for m in self.moments if ("coverage", alpha) not in m.known]
        for moment, value in zip(fresh, coverages([m.sets for m in fresh], alpha), strict=True):
            moment.known["coverage", alpha] = value
        return [moment.known["coverage", alpha] for moment in self.moments]

    def until(self, step: int | None) -> "SeenRun":
        """The run as it was after this step; None: as it is."""
        done = self.records[:step], self.moments[:step]
        return SeenRun(self.method, self.config, *done, self.faults)


@dataclass(frozen=True)
class View:
    """All that a drawing needs.

    - state: of the lab; settings: of now; code: their share code
    - task, own: the task, and the problem to look at before there is a step
    - runs: in order, up to the step that is looked at (``look``; None: the last one)
    - steps: steps of the longest run
    - active: methods of the runs under way, or of the last ones
    - earlier: runs on the same problem that fresh ones replaced, finished or not; oldest first
    - message: the last thing to say about a request; error: one line in red
    - restart: what was changed that needs a fresh run
    - showing: what of it all is drawn
    - version: counts the changes of settings, of the step looked at, and of what is drawn
    - data: what is to be said of the task's data files, a sentence each
    - forgotten: whether there are forgotten runs that `Session.bring_back` would show
    """

    state: str
    settings: Settings
    code: str
    task: Task = field(compare=False)
    own: Problem
    runs: tuple[SeenRun, ...]
    look: int | None
    steps: int
    active: tuple[str, ...]
    earlier: tuple[SeenRun, ...] = ()
    message: str = ""
    error: str = ""
    restart: str = ""
    showing: Showing = field(default_factory=Showing)
    version: int = 0
    data: tuple[str, ...] = ()
    forgotten: bool = False

    @property
    def config(self) -> TrainConfig:
        """Settings of the first run, without the options that single out one problem."""
        return self.settings.config

    @property
    def methods(self) -> tuple[str, ...]:
        return self.settings.methods

    @cached_property
    def many(self) -> bool:
        """Whether the steps on show draw different problems, or, before there is one, the steps to
        come.
        """
        trained = (run for run in self.runs if run.method in self.active and run.records)
        if self.settings.chosen and (run := next(trained, None)) is not None:
            return not run.config.task_options.keys() & set(self.task.singles_out)
        return self.settings.many or not self.task.single

    @property
    def busy(self) -> bool:
        """Whether a step is under way."""
        return self.state in ("running", "pausing", "stopping")

    @property
    def focus(self) -> SeenRun | None:
        """The first active run that has a step."""
        return next((run for run in self.on_show() if run.method in self.active), None)

    def on_show(self) -> list[SeenRun]:
        """The runs whose answers are drawn: the active ones, then the latest others while there is
        room. All are on the problem of the first one, so with many problems after the same step.
        """
        begun = [run for run in self.runs if run.records]
        others = [run.method for run in begun if run.method not in self.active]
        kept = {*self.active, *others[max(0, len(others) - MOST_RUNS + len(self.active)) :]}
        shown = [run for run in begun if run.method in kept]
        shown = sorted(shown, key=lambda run: run.method not in self.active)
        if shown and self.many:
            done = [len(run.records) for run in shown if run.method in self.active]
            step = min(done, default=None)
            shown = [run.until(step) for run in shown]
        key = self.task.key
        return [r for r in shown if key(r.moment.instance) == key(shown[0].moment.instance)]

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
    def judged_at(self) -> float:
        """The alpha that coverage is judged at."""
        return self.config.alpha if self.showing.alpha is None else self.showing.alpha

    @property
    def asked_for(self) -> int:
        """The size of the sets that the methods are asked for: m, or 1 for single answers."""
        return max(config.answers for config in self.settings.configs.values())

    @property
    def target(self) -> Target | None:
        """The best set of the problem on show at the alpha and m of now; None without a front."""
        if self.front is None:
            return None
        return target(self.front, self.asked_for, self.config.alpha)

    @property
    def ceilings(self) -> tuple[float, ...]:
        """Coverage of the best 1, 2, ... answers, up to the size of a set, as it is judged. Empty
        with many problems, or without a front.
        """
        if self.many or self.own.front is None:
            return ()
        size = max(config.compared_size for config in self.settings.configs.values())
        size = min(size, len(self.own.front))
        return target(self.own.front, size, self.judged_at).ceilings

    @cached_property
    def agreement(self) -> float | None:
        """How well K weights rank the sets of the step in focus: see `judging.agreement`. None
        where there is no step, or where the method draws no K weights.
        """
        if self.focus is None or METHODS[self.focus.method].weights != "many":
            return None
        found = [
            agreement(group.rewards, self.config.K, self.config.alpha)
            for group in self.focus.record.groups[:4]
        ]
        found = [value for value in found if value is not None]
        return float(np.mean(found)) if found else None

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights (K, d) that VPO draws for the first prompt of the step on show, at the
        settings of now. With K = infinity `DOTS` of them, to look at. Drawn once for all answers of
        a view: K may be a million.
        """
        step = self.focus.record.step - 1 if self.focus else 0
        count = DOTS if self.config.K == math.inf else self.config.K
        key = group_key(self.task, self.instance, 0)
        rng = generator(self.config.seed, "weights", step, key)
        return sample_weights(
            count, len(self.task.objectives(self.instance)), self.config.alpha, rng=rng
        )

    def token_limit(self, run: SeenRun) -> int:
        """Tokens after which the last step of a run cut its rollouts off."""
        if run.config.max_new_tokens:
            return run.config.max_new_tokens
        pocket = shipped.description(run.config.base_model)
        instances = [group.instance for group in run.record.groups]
        return max(self.task.max_tokens(x, run.record.m, pocket) for x in instances)
