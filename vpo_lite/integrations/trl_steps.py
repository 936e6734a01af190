"""What a run on TRL keeps of each step: its record, from what TRL scored and logged."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback

from ..estimators import METHODS, zscore
from ..files import sync
from ..training.errors import TrainingError
from ..training.folders import METRICS
from ..training.measure import rollout_fields
from ..training.record import StepRecord
from ..training.run import AnyRun
from .rewards import Scored
from .trl import SetReward, grouped
from .trl_setup import EPS
from .trl_surroundings import together


class RunReward:
    """The reward of a run; it keeps what it scored last, for the record of the step. It reads the
    tokens itself, since TRL's texts lack special tokens: an answer's tags may be such.

    read: gives the texts of completions by their tokens
    - rollouts: (slot, Scored) of each rollout of this process, with its tokens
    - seconds: how long this process scored them
    - ended: when all processes had, by time.perf_counter()
    """

    def __init__(
        self,
        reward: SetReward,
        read: Callable[[list[list[int]]], list[str]],
        ends: set[int],
        log: bool,
        team: PartialState,
    ):
        self.reward, self.read, self.ends, self.log, self.team = reward, read, ends, log, team

    def __call__(
        self, prompts, completions, completion_ids, trainer_state, log_metric, seed, slot, **_
    ) -> list[float]:
        began, columns = time.perf_counter(), {"seed": seed, "slot": slot}
        step = trainer_state.global_step
        with together(self.team):  # a judge may fail in one process alone
            scored, keys = self.reward.score(prompts, self.read(completion_ids), step, columns)
            self.seconds = time.perf_counter() - began
        self.ended = time.perf_counter()
        if self.log:
            self.reward.log(grouped(scored, keys), log_metric)
        self.rollouts = [
            (place, self._counted(one, ids))
            for place, one, ids in zip(slot, scored, completion_ids, strict=True)
        ]
        return [one.reward for one in scored]

    def _counted(self, one: Scored, ids: list[int]) -> Scored:
        tokens, cut = np.array([len(ids)]), np.array([ids[-1] not in self.ends])
        return one._replace(answers=replace(one.answers, tokens=tokens, truncated=cut))


class Recorder(TrainerCallback):
    """Writes the record of each step, before TRL stores its state, and asks whether to go on."""

    def __init__(self, run: AnyRun, reward: RunReward, tell: Callable[[StepRecord], bool]):
        self.run, self.reward, self.tell = run, reward, tell

    def on_step_begin(self, args, state, control, **_):
        self.run.measure()
        self.began = time.perf_counter()

    def on_log(self, args, state, control, logs, **_):
        if "loss" not in logs:  # the last log is of the whole training
            return
        run, step = self.run, state.global_step
        loss, norm = logs["loss"], logs["grad_norm"]
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingError(
                f"step {step}: loss = {loss:g}, gradient norm = {norm:g}: lower lr "
                f"({run.config.lr:g}) or raise kl ({run.config.kl:g}); the state before is kept"
            )
        rollouts, stop = gather_object(self.reward.rollouts), [False]
        slowest = max(gather_object([self.reward.seconds]))
        run.did(step)
        with together(self.reward.team):  # the disk may be full
            if run.main:
                sampled = self.reward.ended - self.began
                times = dict(
                    seconds=time.perf_counter() - self.began,
                    rollout_seconds=sampled,
                    scoring_seconds=min(slowest, sampled),  # another process may have begun earlier
                )
                record = record_of(run, step, rollouts, logs, times)
                run.write(record)
                stop = [bool(self.tell(record)) and step < run.config.steps]
        broadcast_object_list(stop)  # all processes stop after the same step
        if stop[0]:
            control.should_save = control.should_training_stop = True
        if run.due:
            control.should_save = True  # a measurement may be stopped, and no step is lost
        if control.should_save and run.main:
            sync(run.path / METRICS)  # never a state without the lines that lead to it


def record_of(run: AnyRun, step: int, rollouts: list, logs: Mapping, times: Mapping) -> StepRecord:
    """The record of a step, from all its rollouts, in any order, and from what TRL logged."""
    config, task = run.config, run.learner.task
    rollouts = sorted(rollouts, key=lambda rollout: rollout[0])  # by slot
    groups = grouped([scored for _, scored in rollouts], [slot for slot, _ in rollouts])
    single = [scored.weights for _, scored in rollouts[:: len(rollouts) // len(groups)]]
    scores = np.array([scored.score for _, scored in rollouts]).reshape(len(groups), -1)
    if METHODS[config.method].z_score:
        c = math.sqrt(1 - 1 / config.group_size)  # TRL divides by std / c + EPS
        advantages = c * zscore(scores, c * EPS)
    else:
        advantages = np.reshape([scored.advantage for _, scored in rollouts], scores.shape)
    return StepRecord(
        step=step,
        **rollout_fields(task, config, groups, scores, advantages, single),
        loss=logs["loss"],
        gradient_norm=logs["grad_norm"],
        entropy=logs["entropy"],
        kl=logs.get("kl"),
        clip_share=logs["clip_ratio/region_mean"],
        sampler_gap=None,
        **times,
    )
