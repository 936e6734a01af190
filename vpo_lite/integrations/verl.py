"""VPO on veRL: a reward manager that its configuration names. No file of veRL is changed.

    reward:
      reward_manager:
        source: importlib
        name: SetRewardManager
        module: {path: pkg://vpo_lite.integrations.verl}
    algorithm:
      adv_estimator: grpo
      vpo: {task: hops, options: {}, answers: 3, K: 64, alpha: 1.0, seed: 0}

``answers`` is m, the answers in one rollout. The manager turns the rewards (m, d) of a rollout into
one number, as :class:`~vpo_lite.integrations.rewards.RolloutReward` does: veRL scores the rollouts
of a group in several processes. veRL's own estimator ``grpo`` then compares the group: std with
G - 1, eps 1e-6. The methods max_at_k and maxrl need our estimator ``vpo``, of verl_estimator.py.

Without ``task`` the run's own reward function is called, once for each answer: see
:class:`OwnScores`. ``objectives: [correct, brief]`` then names what it returns, and ``worst`` says
what a missing answer earns, if not 0. Written for veRL 0.9.1.
"""

import asyncio
import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..awaiting import awaited
from ..checks import check_finite, shown
from ..estimators import METHODS
from ..tasks.base import Task, TaskError, group_key
from ..tasks.registry import make_task
from ..tasks.wording import begun_in_thought, ends_in_thought, read_with_blanks
from ..training.contract import check_seeds, early_problems, objectives_of
from ..training.watch import Watch
from .rewards import RolloutReward

try:
    from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
except ImportError:  # everything here can be read and tested without veRL; it alone makes managers
    RewardManagerBase = object

HELD_OUT = "held_out"  # the split of rows that are measured, not trained on
UNREAD_ADVICE = (
    "do the prompts ask for their form, <answer_1> ... </answer_1>, <answer_2> and so on?"
)


class SetRewardManager(RewardManagerBase):
    """Rewards of rollouts, one at a time, for veRL's ``reward.reward_manager``.

    ``config.algorithm.vpo`` holds the settings: those of a RolloutReward (the estimator vpo reads
    ``eps`` and ``k``), and either ``task`` with its ``options``, or ``objectives`` with an optional
    ``tag`` and ``worst``. Raises ValueError for any other, and for an estimator that cannot compare
    what the method gives.

    After 50 answers it logs, once each, what makes them hard to learn from: see
    :func:`~vpo_lite.training.watch.faults`. veRL may skip a rollout whose scoring raises.
    """

    def __init__(self, config, tokenizer, compute_score=None, reward_router_address=None, **judge):
        super().__init__(config, tokenizer, compute_score)
        if compute_score is not None and reward_router_address is not None:  # as veRL's own do
            judge = {"reward_router_address": reward_router_address} | judge
            compute_score = functools.partial(compute_score, **judge)
        self.task, self.reward = read_settings(config.algorithm.get("vpo"), compute_score)
        self.reward.check_estimator(config.algorithm.get("adv_estimator"))
        self.exact = dataclasses.replace(self.reward, K=math.inf)
        self.instance = functools.lru_cache(4096)(self.task.instance)
        self.names = common_objectives(self.task)
        self.watch = Watch(self.task, unread=UNREAD_ADVICE)
        self.special = frozenset(tokenizer.all_special_ids)

    async def run_single(self, data) -> dict:
        """The reward of a rollout: ``reward_score``, and figures in ``reward_extra_info``.

        data: a DataProto; its last row counts, as in veRL's own managers.
        """
        row = data[-1]
        tokens = row.batch["responses"]
        written = row.batch["attention_mask"][-len(tokens) :].sum()
        text = self.read(tokens[:written].tolist())
        if ends_in_thought(self.tokenizer, row.batch["prompts"]):
            text = begun_in_thought(text)
        scored = await asyncio.to_thread(self.score, row.non_tensor_batch, text)
        answers = scored.answers
        for said in self.watch.look([answers]):
            logging.getLogger(__name__).warning(said)
        rates = dict(parse="parsed", valid="valid", solved="solved", repeat="repeats")
        figures = {
            f"vpo/{rate}_rate": float(np.mean(getattr(answers, name)))
            for rate, name in rates.items()
        }
        for i, name in enumerate(self.names):
            figures[f"objectives/{name}"] = float(answers.rewards[..., i].mean())
        return {"reward_score": scored.reward, "reward_extra_info": figures}

    def read(self, tokens: list[int]) -> str:
        """A completion as text, without the special tokens at its end that are no part of an answer
        or a thought. Those before stay: an answer's tags may be special tokens.
        """
        while tokens and tokens[-1] in self.special:
            mark = self.tokenizer.decode(tokens[-1:])
            if f"{self.task.tag}_" in mark or "think" in mark.lower():
                break
            tokens = tokens[:-1]
        return self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)

    def score(self, fields: Mapping, text: str):
        """The :class:`~.rewards.Scored` of a completion; fields: its row of the non-tensor batch.

        - A row that ``vpo-lite export verl`` wrote has the native trainer's weights: those of the
          seed, the step, the problem and the slot.
        - A held-out row of such an export has the exact expectation, or one fixed weight vector for
          a method that draws one; in every step the same.
        - A row of a user's own data has weights of its ``uid``, whatever its ``extra_info`` holds:
          all rollouts of the prompt share them, and no other run can draw them again. So has a row
          without a slot.
        """
        extra, steps = fields.get("extra_info") or {}, fields.get("global_steps")
        reward, step = self.reward, 0 if steps is None else int(steps) - 1  # veRL counts from 1
        if isinstance(self.task, OwnScores):  # a slot or a split is then the user's own
            x, key = fields, str(fields["uid"])
        else:
            x = self.instance(seed_of(extra))
            if extra.get("split") == HELD_OUT:
                reward, step, key = self.exact, 0, f"{HELD_OUT} {extra.get('index')}"
            elif steps is None or extra.get("slot") is None:
                key = str(fields["uid"])
            else:
                key = group_key(self.task, x, int(extra["slot"]))
        return reward.score(self.task, [x], [key], [text], step)[0]


def read_settings(settings, compute_score=None) -> tuple[Task, RolloutReward]:
    """Task and reward of ``algorithm.vpo``. ValueError for settings that cannot work."""
    given = dict(settings or {})
    if ("task" in given) == ("objectives" in given):
        raise ValueError(
            "algorithm.vpo: name either a task, or the objectives that your own reward function "
            "returns"
        )
    kind, *others = ("task", "options") if "task" in given else ("objectives", "tag", "worst")
    rewards = [f.name for f in dataclasses.fields(RolloutReward) if f.name != "thinks"]
    for name in given:
        if name not in (known := [*others, *rewards]) and name != kind:
            raise ValueError(
                f"algorithm.vpo.{name}: unknown; beside {kind} there are {', '.join(known)}"
            )
    reward = RolloutReward(**{name: given[name] for name in rewards if name in given})
    if METHODS[reward.method].weight_in_prompt:
        raise ValueError(
            f"algorithm.vpo.method = {reward.method}: its weights stand in the prompts, and veRL's "
            "data is written before a step draws them; train natively"
        )
    if "task" in given:
        task = make_task(given["task"], given.get("options") or {})
        task.check_machine()
    else:
        own = {name: given[name] for name in others if name in given}
        task = OwnScores(compute_score, given["objectives"], **own)
    task.check_policy(reward.answers, None)
    return task, reward


def seed_of(extra: Mapping) -> int:
    """The seed of a row's problem. ValueError where the row has none."""
    if extra.get("seed") is None:
        raise ValueError(
            f"extra_info = {shown(dict(extra))}: holds no seed of a problem; write the data with "
            "`vpo-lite export verl`, or name objectives instead of a task"
        )
    return int(extra["seed"])


def common_objectives(task: Task) -> tuple[str, ...]:
    """The objectives that can be logged; none where they differ from problem to problem."""
    if isinstance(task, OwnScores):
        return task.names
    if task.reward_functions and task.reward_functions.vary:
        return ()
    check_seeds(task)
    names = {objectives_of(task, x) for x in early_problems(task)}
    return names.pop() if len(names) == 1 else ()


class OwnScores(Task):
    """Rows of a user's own data, whose answers the run's own reward function scores one by one.

    The prompts ask for m answers in numbered tags, as `numbered_form(m, tag)` of
    ``vpo_lite/tasks/wording.py`` says. With m = 1 the whole completion is the answer. The function
    is called as veRL calls it, with one answer as ``solution_str``, and returns a dict with a
    number for each objective. It may be asynchronous. A missing answer has ``worst``, one number or
    one for each objective: none should be lower, or the policy learns to write no answers.

    >>> def brief(data_source, solution_str, ground_truth, extra_info):
    ...     return {"correct": solution_str == ground_truth, "brief": 1 / len(solution_str)}
    >>> row = {"data_source": "sums", "reward_model": {"ground_truth": "4"}}
    >>> OwnScores(brief, ["correct", "brief"]).score([row], [["4", "four"]])[0].tolist()
    [[1.0, 1.0], [0.0, 0.25]]
    """

    name = "own"
    noun = "row"
    tagged_alone = False
    worst_set_by = "algorithm.vpo.worst"

    def __init__(
        self,
        compute_score: Callable,
        objectives: Sequence[str],
        tag: str = "answer",
        worst: float | Sequence[float] = 0.0,
    ):
        super().__init__()
        if not callable(compute_score):
            raise ValueError("reward.custom_reward_function: name a function")
        names = () if isinstance(objectives, str) else tuple(objectives)  # its letters, else
        if not names:
            raise ValueError(
                f"algorithm.vpo.objectives = {shown(objectives)}: expected a list of names"
            )
        listed = isinstance(worst, Sequence) and not isinstance(worst, str)  # one of OmegaConf, too
        lowest = check_finite(list(worst) if listed else worst, self.worst_set_by, 0)
        if lowest.shape not in ((), (len(names),)):
            raise ValueError(
                f"{self.worst_set_by} = {shown(lowest.tolist())}: expected one number, or one for "
                f"each of {', '.join(names)}"
            )
        self.compute_score, self.names, self.tag = compute_score, names, tag
        self.lowest = np.broadcast_to(lowest, len(names)).astype(float)

    def objectives(self, instance) -> tuple[str, ...]:
        return self.names

    def worst(self, instance) -> np.ndarray:
        return self.lowest

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        return read_with_blanks(text, m, self.tag)

    def same_effect(self, instance, answer: str) -> str:
        return answer.strip()

    def score(self, instances, answers) -> list[np.ndarray]:
        return [
            np.array(self._of(x, texts)).reshape(-1, len(self.names))
            for x, texts in zip(instances, answers, strict=True)
        ]

    def _of(self, fields: Mapping, answers: Sequence[str]) -> list[list[float]]:
        found = [self._called(fields, answer) for answer in answers]
        return [self._numbers(result()) for result in awaited(found)]

    def _called(self, fields: Mapping, answer: str):
        extra = dict(fields.get("extra_info") or {}) | dict(fields.get("tool_extra_fields") or {})
        extra["num_turns"] = fields.get("__num_turns__")
        extra["rollout_reward_scores"] = fields.get("reward_scores", {})
        return self.compute_score(
            data_source=fields["data_source"],
            solution_str=answer,
            ground_truth=fields["reward_model"]["ground_truth"],
            extra_info=extra,
        )

    def _numbers(self, found) -> list[float]:
        if not isinstance(found, Mapping) or not set(self.names) <= set(found):
            raise TaskError(
                f"the reward function returned {shown(found)}: expected a dict with a number for "
                f"each of {', '.join(self.names)}"
            )
        return [self._number(name, found[name]) for name in self.names]

    def _number(self, name: str, value) -> float:
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            said = f"the reward function returned {name} = {shown(value)}: expected a number"
            raise TaskError(said) from error
