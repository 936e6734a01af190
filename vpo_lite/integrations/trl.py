"""VPO with TRL's stock GRPOTrainer: a reward function that scores sets.

Nothing of TRL is subclassed or replaced, and nothing here imports it. ``trl_setup`` has the rows
and the settings of a run of this kit, ``trl_run`` the run.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from ..checks import shown, told_of
from ..estimators import METHODS
from ..messages import check_names
from ..tasks.base import Task, TaskError, group_key
from ..tasks.functions import Asked, OfFunctions
from ..tasks.numbered_prompts import asking, without_form
from ..training.answers import Answers, merged
from ..training.config import TrainConfig
from ..training.contract import check_given
from ..training.measure import step_figures
from ..training.method_settings import reads
from ..training.watch import Watch
from .rewards import RolloutReward, Scored, text_of

LOGGED = (
    "set_reward",
    "coverage",
    "diversity",
    "parse_rate",
    "valid_rate",
    "solved_rate",
    "repeat_rate",
)
UNREAD_ADVICE = (
    "the model hardly writes the requested form, or max_completion_length cuts its answers off; "
    "raise that, or take an instruct model"
)
UNASKED = (
    "their prompts do not ask for their form; map each data set: dataset.map(reward.ask), and that "
    "of evaluation with reward.ask_held_out"
)
HELD_OUT = "vpo_held_out"  # the column of rows that are measured, not trained on
RENAMED = {"m": "answers", "reward_weights": "w_star", "num_generations": "group_size"}
USED_BY = {"w_star": "grpo", "k": "max_at_k", "eps": "maxrl"}  # settings, and a method with each
UNMARKED = (
    "TRL evaluated rows without the column vpo_held_out: eval_reward {}; map the eval_dataset with "
    "reward.ask_held_out in place of reward.ask"
)
DRAWN = "changes with the weights that each step draws, even if the policy does not"
CENTRED = "is a mean of advantages, so 0 for every policy"


@dataclass
class SetReward:
    """A reward function for the stock GRPOTrainer: each rollout's set reward, or another score.

    TRL may call it with any part of a group, in any process. The weights of a group depend on the
    seed, the step and the group's key alone, so all processes draw the same. The step is
    ``trainer_state.global_step``, or without one the number of earlier calls.

    - task: whose answers the completions hold. Rows need the columns seed and slot, as those of
      :func:`~.trl_setup.dataset`. Functions (:meth:`of_functions`) are handed all columns.
    - reward: the method, with its settings
    - group_size: TRL's ``num_generations``. A method that compares a group otherwise than by
      z-scores needs it: max_at_k, maxrl, gdpo. Its rewards are the advantages, which average to 0.
      So TRL's settings need ``scale_rewards="none"``: its default silently makes z-scores of them,
      which a reward function cannot see. And each process must score whole groups.

    A column ``vpo_key`` names a row's group. Without it the key is the problem's and its slot, or
    the canonical JSON of the prompt. The object can be pickled if its task can.

    TRL does not tell a reward function that it evaluates. A column ``vpo_held_out`` of true values
    does: :attr:`ask_held_out` adds it. Such rows have their score: with the exact expectation (K =
    infinity), or with one fixed weight vector for a method that draws one; in every step the same.
    Where the log of TRL has an evaluation, or rows come after the last step, and none had the
    column, the main process warns once.

    Raises ValueError for more answers than the task's parser reads: 100 between numbered tags.

    After 50 answers the main process warns, once each, of what makes them hard to learn from: see
    :func:`~vpo_lite.training.watch.faults`. So it does where nine in ten cannot be read. Answers to
    prompts that do not ask for the form of :attr:`ask` are looked at by themselves.

    It logs means through TRL's ``log_metric``: ``vpo/coverage``, ``vpo/valid_rate`` and so on, as
    in a StepRecord, and ``vpo/objective/NAME``. A set is one rollout here, also of one answer.

    >>> def correct(completions, answer, **columns):
    ...     return [float(a in text) for text, a in zip(completions, answer)]
    >>> def brief(completions, **columns):
    ...     return [1 / (1 + len(text)) for text in completions]
    >>> reward = SetReward.of_functions([correct, brief], answers=2, K=float("inf"))
    >>> texts = ["<answer_1> 4 </answer_1> <answer_2> 5 </answer_2>", "4"]
    >>> reward(prompts=["2 + 2 = ?"] * 2, completions=texts, answer=["4", "4"])
    [0.75, 0.0]
    """

    task: Task
    reward: RolloutReward = field(default_factory=RolloutReward)
    group_size: int | None = None
    calls: int = field(default=0, init=False)
    watch: Watch = field(init=False)
    watch_unasked: Watch = field(init=False)
    _logged: int | None = field(default=None, init=False)  # entries in TRL's log at the first call
    _to_mark: bool = field(default=True, init=False)  # whether evaluations may lack the column

    def __post_init__(self):
        check_given(self.task)
        with told_of(f"answers = {self.reward.answers}"):
            self.task.check_policy(self.reward.answers, None)
        if self.reward.whole_groups:
            self.reward.check_group_size(self.group_size)
        self.watch = Watch(self.task, unread=UNREAD_ADVICE)
        self.watch_unasked = Watch(self.task, unread=UNASKED)

    @classmethod
    def of(cls, config: TrainConfig, task: Task | None = None) -> "SetReward":
        """The reward of a run with these settings, for the rows of :func:`~.trl_setup.dataset`.

        task: the config's own, where it was made before
        """
        return cls(task or config.make_task(), RolloutReward.of(config), config.group_size)

    @classmethod
    def of_functions(
        cls,
        functions: Sequence[Callable],
        *,
        answers: int = 3,
        worst: float | Sequence[float] = 0.0,
        w_star=None,
        group_size: int | None = None,
        **how,
    ) -> "SetReward":
        """The reward of TRL's own reward functions: each is an objective.

        Each is called once for all answers.

        - answers: m; let ``dataset.map(reward.ask)`` ask for them
        - functions, worst, w_star: as in :class:`~vpo_lite.tasks.functions.OfFunctions`
        - group_size: as in the class
        - how: settings of :class:`~.rewards.RolloutReward`, such as alpha, K and seed
        """
        known = [one.name for one in fields(RolloutReward)] + ["worst", "w_star", "group_size"]
        renamed = [f"{name} is called {ours}" for name, ours in RENAMED.items() if name in how]
        check_names("of_functions", how, known, ", ".join(renamed))
        reward = RolloutReward(answers=answers, **how)
        if METHODS[reward.method].weight_in_prompt:
            raise ValueError(
                f"method = {reward.method!r}: its weights stand in the prompts, and your rows are "
                "written before a step draws them; train it with vpo-lite train --engine trl"
            )
        made = cls(OfFunctions(functions, worst=worst, w_star=w_star), reward, group_size)
        given = how if w_star is None else how | {"w_star": w_star}
        for name in sorted(given.keys() & USED_BY):
            read = reads(reward.method, name) and (name != "eps" or reward.whole_groups)
            if not read:
                warnings.warn(
                    f"{name}: method {reward.method} does not use it here; leave it out, or name "
                    f"another method, such as {USED_BY[name]} with answers=1",
                    stacklevel=2,
                )
        return made

    @property
    def ask(self) -> "Asking":
        """A function that asks for m answers in a row's prompt; for ``Dataset.map``, which pickles
        it: so it holds no reward function, and no model of one. With m = 1 the prompt stays as it
        is, and the whole completion is the answer.

        >>> reward = SetReward.of_functions([len], answers=2)
        >>> print(reward.ask({"prompt": "Name a prime."})["prompt"])
        Name a prime.
        <BLANKLINE>
        Write 2 different answers in exactly this form:
        <answer_1> ... </answer_1> <answer_2> ... </answer_2>
        """
        return self._asking("ask")

    @property
    def ask_held_out(self) -> "Asking":
        """As :attr:`ask`, for the rows of an ``eval_dataset``: it also adds the column by which
        their rewards do not depend on the step.

        >>> SetReward.of_functions([len], answers=1).ask_held_out({"prompt": "Name a prime."})
        {'prompt': 'Name a prime.', 'vpo_held_out': True}
        """
        return replace(self._asking("ask_held_out"), held_out=True)

    def _asking(self, name: str) -> "Asking":
        if self.task.reward_functions is None:
            raise ValueError(
                f"{name}: is for rows scored by functions; those of task {self.task.name!r} are "
                "made by vpo_lite.integrations.trl_setup.dataset"
            )
        return Asking(self.reward.answers, self.task.tag)

    def __call__(
        self,
        /,
        prompts: Sequence,
        completions: Sequence,
        trainer_state=None,
        log_metric: Callable | None = None,
        log_extra: Callable | None = None,
        completion_ids=None,
        **columns,
    ) -> list[float]:
        """One reward for each completion: a text, or chat messages of which the last one counts."""
        step = self.calls if trainer_state is None else trainer_state.global_step
        self.calls += 1
        shared = {"trainer_state": trainer_state, "log_metric": log_metric}
        scored, keys = self.score(prompts, completions, step, columns, shared)
        if getattr(trainer_state, "is_world_process_zero", True):
            said = self._look(prompts, scored, keys)
            for one in [*said, *self._unmarked(trainer_state, columns)]:
                warnings.warn(one, stacklevel=2)
        if log_metric is not None:
            self.log(grouped(scored, keys), log_metric)
        return [one.reward for one in scored]

    def score(
        self, prompts, completions, step: int, columns: Mapping, shared: Mapping | None = None
    ) -> tuple[list[Scored], list[str]]:
        """What a call computes: for each rollout its reward and answers, and the key of its group.

        - columns: lists with one entry for each completion
        - shared: what functions are given beside the columns
        """
        texts = [text_of(completion, self.reward.thinks) for completion in completions]
        if isinstance(self.task, OfFunctions):
            rows = [
                {name: values[i] for name, values in columns.items()} for i in range(len(texts))
            ]
            if "environments" in columns and "vpo_key" not in columns:
                raise TaskError(
                    "environments: TRL adds their own words to each prompt, so prompts do not tell "
                    "which rollouts share their weights; add a column vpo_key with a text for each "
                    "row"
                )
            own = [without_form(p, self.task.tag) for p in prompts]
            instances = [Asked(p, row, shared or {}) for p, row in zip(own, rows, strict=True)]
            if self.calls == 1:
                handed = self.task.handed(instances[:1], [""])
                self.task.reward_functions.check_call(handed, "the data set")
            keys = [self.task.key(Asked(p, row)) for p, row in zip(prompts, rows, strict=True)]
        else:
            instances, keys = self._problems(columns)
        given, reward = columns.get("vpo_key") or keys, self.reward
        keys = [key if own is None else own for own, key in zip(given, keys, strict=True)]
        self._check_alike(instances, keys)
        groups = None
        if any(columns.get(HELD_OUT, ())):
            reward, step, keys = replace(reward, K=math.inf), 0, [f"{HELD_OUT} {k}" for k in keys]
        elif reward.whole_groups:
            groups = reward.groups(keys, self.group_size)
        return reward.score(self.task, instances, keys, texts, step, groups), keys

    def _check_alike(self, instances: Sequence, keys: Sequence[str]) -> None:
        functions, names = self.task.reward_functions, {}
        for x, key in zip(instances, keys, strict=True) if functions and functions.vary else ():
            found = self.task.objectives(x)
            if names.setdefault(key, found) != found:
                raise TaskError(
                    f"vpo_key = {shown(key)}: there for rows of objectives {shown(names[key])} and "
                    f"{shown(found)}; give each row a key of its own"
                )

    def log(self, groups: Sequence[Answers], log_metric: Callable) -> None:
        """Hand the means over the rollouts of some groups, or parts of groups, to TRL's
        ``log_metric(name, value)``. A figure that a group lacks is left out.
        """
        rows, task = [], self.task
        for group in groups:
            figures = step_figures(task, self.reward.alpha, self.reward.answers, [group])
            objectives = {f"objective/{name}": x for name, x in figures["objectives"].items()}
            rows.append({name: figures[name] for name in LOGGED} | objectives)
        rollouts = [len(group.texts) for group in groups]
        for name in rows[0]:
            values = [row.get(name) for row in rows]
            if None not in values:
                log_metric(f"vpo/{name}", float(np.average(values, weights=rollouts)))

    def _look(self, prompts, scored: Sequence[Scored], keys: Sequence[str]) -> list[str]:
        """What is to be said for the first time of these rollouts."""
        asks = isinstance(self.task, OfFunctions) and self.reward.answers > 1
        unasked = [asks and without_form(p, self.task.tag) is p for p in prompts]
        said = []
        for watch, which in ((self.watch, False), (self.watch_unasked, True)):
            chosen = [i for i, one in enumerate(unasked) if one == which]
            said += watch.look(grouped([scored[i] for i in chosen], [keys[i] for i in chosen]))
        return said

    def _unmarked(self, state, columns: Mapping) -> list[str]:
        """What is to be said, once, after an evaluation whose rows had no column vpo_held_out."""
        log = getattr(state, "log_history", None) or []
        if self._logged is None:
            self._logged = len(log)  # a resumed run knows of evaluations before this process
            draws, asks = METHODS[self.reward.method].weights, self.task.reward_functions
            self._to_mark = draws != "none" and (draws, self.reward.K) != ("many", math.inf)
            self._to_mark |= self.reward.whole_groups
            self._to_mark &= asks is not None
        self._to_mark &= HELD_OUT not in columns
        found = any(name.startswith("eval_") for row in log[self._logged :] for name in row)
        found |= 0 < getattr(state, "max_steps", 0) <= state.global_step  # training is over
        if not (self._to_mark and found):
            return []
        self._to_mark = False
        return [UNMARKED.format(CENTRED if self.reward.whole_groups else DRAWN)]

    def _problems(self, columns: Mapping) -> tuple[list, list[str]]:
        if not {"seed", "slot"} <= set(columns):
            raise ValueError(
                f"task {self.task.name!r}: the rows need columns seed and slot, as those of "
                "vpo_lite.integrations.trl_setup.dataset(config, tokenizer)"
            )
        made = {seed: self.task.instance(seed) for seed in dict.fromkeys(columns["seed"])}
        instances = [made[seed] for seed in columns["seed"]]
        slots = zip(instances, columns["slot"], strict=True)
        return instances, [group_key(self.task, x, slot) for x, slot in slots]


@dataclass(frozen=True)
class Asking:
    """Asks for m answers between these tags in the prompt of a row: a text, or messages.

    held_out: adds the column that marks rows of evaluation
    """

    answers: int
    tag: str
    held_out: bool = False

    def __call__(self, row: Mapping) -> dict:
        if "prompt" not in row:
            raise ValueError(f"ask: a row has no column prompt; it has {', '.join(sorted(row))}")
        asked = {"prompt": asking(row["prompt"], self.answers, self.tag)}
        return asked | ({HELD_OUT: True} if self.held_out else {})


def grouped(scored: Sequence[Scored], keys: Sequence[str]) -> list[Answers]:
    """The answers of rollouts in any order, one :class:`Answers` for each key, in order of
    appearance.
    """
    found: dict[str, list[Answers]] = {}
    for one, key in zip(scored, keys, strict=True):
        found.setdefault(key, []).append(one.answers)
    return [merged(rollouts) for rollouts in found.values()]
