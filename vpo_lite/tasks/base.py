"""What the trainer knows of a problem: the Task protocol, and the way from answers to the reward matrix.

A task owns its objectives, its request for m answers together with the parser of those m answers, and its scorer.
It knows no trainer, and the trainer knows no task: adding a domain is one file beside this one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Task(Protocol):
    """One family of prompts with vector-valued rewards.

    An *instance* is one prompt's problem (a maze, a question). The number of objectives d belongs to the instance, since
    it may differ from prompt to prompt (test cases of a program); nothing outside a task fixes it.
    """

    name: str

    def instance(self, seed: int) -> Any:
        """The problem with this seed; a pure function."""

    def key(self, instance: Any) -> str:
        """A short text that identifies the instance in every process (random draws are keyed by it)."""

    def objectives(self, instance: Any) -> tuple[str, ...]:
        """Names of the d objectives, each higher = better."""

    def w_star(self, instance: Any) -> np.ndarray:
        """The fixed weights (d,) of the scalar reward that GRPO is trained on and best@k is counted in."""

    def worst(self, instance: Any) -> np.ndarray:
        """The vector (d,) of a missing or malformed answer."""

    def request(self, instance: Any, m: int, *, weights=None, board: int | None = None) -> str:
        """The prompt that asks for m answers; ``weights`` (d,) are written into it where a method shows them."""

    def parse(self, instance: Any, text: str, m: int) -> list[str | None]:
        """Exactly m entries: the answer, or None where it is missing or malformed. Inverse of :meth:`request`'s format."""

    def same_effect(self, instance: Any, answer: str) -> Hashable:
        """Equal for two answers that are the same in effect: the second of them is a repeat."""

    def score(self, instance: Any, answers: Sequence[str]) -> np.ndarray:
        """Reward vectors (N, d) of N parsed answers."""

    def succeeded(self, rewards: np.ndarray) -> np.ndarray:
        """Which reward vectors (..., d) belong to answers that solve the basic problem: booleans (...)."""

    def front(self, instance: Any) -> np.ndarray | None:
        """The true Pareto front (n, d), or None where nobody knows it."""

    def answer_tokens(self, instance: Any) -> int:
        """How many tokens one answer of the pocket policy may need, tags included."""


@dataclass(frozen=True)
class Scored:
    """One prompt group after scoring: ``rewards`` (G, m, d), and per answer (G, m) whether it parsed and repeats an
    earlier answer of its rollout."""

    rewards: np.ndarray
    parsed: np.ndarray
    repeats: np.ndarray


def reward_matrix(task: Task, instance, answers: Sequence[Sequence[str | None]]) -> Scored:
    """Score the m answers of each of G rollouts on one instance: R (G, m, d).

    Missing and malformed answers (None) get the task's worst vector. Repeats keep their own vector here and are only
    marked; :func:`for_training` is where they lose it (spec: a repeat teaches nothing, but is no failure when measured).

    Args: answers: G lists of m entries. Returns: :class:`Scored`. Raises: ValueError when the lists differ in length.
    """
    groups, m = len(answers), len(answers[0]) if answers else 0
    if any(len(row) != m for row in answers):
        raise ValueError(f"answers: every rollout needs the same m, got lengths {sorted({len(row) for row in answers})}")
    parsed = np.array([[a is not None for a in row] for row in answers], dtype=bool).reshape(groups, m)
    rewards = np.tile(np.asarray(task.worst(instance), dtype=np.float64), (groups, m, 1))
    flat = [a for row in answers for a in row if a is not None]
    if flat:
        rewards[parsed] = task.score(instance, flat)
    if not np.isfinite(rewards).all():
        g, i = np.argwhere(~np.isfinite(rewards).all(-1))[0]
        raise ValueError(f"task {task.name!r} scored answer {answers[g][i]!r} as {rewards[g, i]}; scores must be finite")
    repeats = np.zeros((groups, m), dtype=bool)
    for g, row in enumerate(answers):
        seen = set()
        for i, answer in enumerate(row):
            if answer is not None:
                effect = task.same_effect(instance, answer)
                repeats[g, i] = effect in seen
                seen.add(effect)
    return Scored(rewards, parsed, repeats)


def for_training(scored: Scored, worst: np.ndarray) -> np.ndarray:
    """The reward matrix that training sees, (G, m, d): repeats get the worst vector, too."""
    return np.where(scored.repeats[..., None], worst, scored.rewards)


def group_key(task: Task, instance, slot: int) -> str:
    """What keys the draws of one prompt group: its instance and its slot in the batch."""
    return f"{task.key(instance)}#{slot}"


def task_named(name: str, **options) -> Task:
    """The task with this name. Raises ValueError, with the names there are, for an unknown one."""
    if name == "maze":
        from .maze import MazeTask

        return MazeTask(**options)
    raise ValueError(f"unknown task {name!r}: there is 'maze'")
