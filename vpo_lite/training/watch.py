"""What is wrong with the answers of a training, said while it runs, each once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..odd_rewards import always_equal, differ_in_scale, never_earned
from ..policy import shipped
from ..tasks.base import Task
from ..tasks.task_errors import of_library
from .config import TrainConfig
from .contract import (
    above_front,
    below_worst,
    front_of,
    objectives_of,
    warning_of_front,
    warning_of_worst,
    worst_of,
)

ENOUGH = 50  # answers, before anything is said of them
UNREAD_SHARE = 0.9  # share of the answers that cannot be read, from which on it is said
MOST_ALIKE = 0.5  # share of differing answers that are repeats, above which it is said
MANY = 0.1  # share of the rollouts that were cut off, above which it is said


class HasAnswers(Protocol):
    """Answers to one problem: a :class:`~.record.Group` or :class:`~.answers.Answers`."""

    instance: Any
    answers: Sequence[Sequence[str | None]]  # (G, m)
    rewards: np.ndarray  # (G, m, d)


def faults(task: Task, figures: Mapping, *, small: bool = False) -> dict[str, str]:
    """What these figures of answers say against the rewards: a sentence for each kind of fault.

    - figures: reached, spread, below_worst_rate and above_front_rate, as ``vpo.evaluate`` gives
      them, and same_effect_rate, as start.json holds it; a missing one is passed over
    - small: the policy is made for its task: what it misses says nothing against the rewards

    >>> from vpo_lite.tasks import task_class
    >>> faults(task_class("programs")(), {"reached": {"brief": 50.0, "correct": 1.0}})["scale"][:42]
    'the components differ in scale: brief reac'
    """
    reached, spread = figures.get("reached") or {}, figures.get("spread") or {}
    said = {}
    if task.reward_functions:
        said["none"] = task.reward_functions.warning_of_none()
    if below := figures.get("below_worst_rate"):
        said["worst"] = warning_of_worst(task, below)
    elif not small:
        said["never"] = never_earned(reached)
    if not small:
        said["same"] = always_equal({k: x for k, x in spread.items() if reached.get(k, 0) > 0})
    if above := figures.get("above_front_rate"):
        said["front"] = warning_of_front(task, above)
    said["scale"] = differ_in_scale(reached)
    if (same := figures.get("same_effect_rate") or 0) > MOST_ALIKE:
        said["alike"] = (
            f"{same:.0%} of the answers that differ in their text from the earlier ones of their "
            f"rollout are repeats all the same, by same_effect of task {task.name!r}: is it equal "
            "only for answers that do the same?"
        )
    return {kind: words for kind, words in said.items() if words}


def wrote_on(truncated: float, read: float, m: int, task: Task) -> float:
    """At least this share of the rollouts was cut off although all m answers were there; 0 for a
    single answer without tags, and for a parser of a user's own: both may read what has no end.

    truncated: share of the rollouts that were cut off; read: share of the answers that could be
    read. Each other rollout that was cut off lacks an answer, so they are at most m (1 - read).

    >>> round(wrote_on(0.99, 0.88, 3, Task()), 2)
    0.63
    """
    if not of_library(type(task).parse) or (m == 1 and not task.tagged_alone):
        return 0.0
    return max(truncated - m * (1 - read), 0.0)


def cut_off(
    config: TrainConfig, limit: Callable[[], str], *, cut: float = 0.0, on: float = 0.0
) -> str:
    """What to say where this share of the rollouts was cut off, or wrote on; "" for nothing.

    More tokens do not help rollouts that write on. A task's own limit for a small policy holds the
    longest answers: more would not help, unless mask_truncated leaves out what was cut off. limit:
    gives the token limit in words.

    >>> cut_off(TrainConfig(), str, cut=0.63), cut_off(TrainConfig(), str, on=0.63)[:60]
    ('', 'at least 63% of the rollouts wrote on after their 3 answers,')
    >>> cut_off(TrainConfig(max_new_tokens=7), lambda: "7 tokens", cut=0.63)
    '63% of the rollouts were cut off at 7 tokens: raise max_new_tokens'
    """
    longest = not config.max_new_tokens and shipped.description(config.base_model) is not None
    if on > MANY and (longest or on > cut / 2):
        answers = "answer" if config.answers == 1 else f"{config.answers} answers"
        return (
            f"at least {on:.0%} of the rollouts wrote on after their {answers}, up to the token "
            "limit. No reward sees this, but it costs tokens: kl above 0 works against it"
        )
    if cut > MANY and (config.mask_truncated or not longest):
        return f"{cut:.0%} of the rollouts were cut off at {limit()}: raise max_new_tokens"
    return ""


HARDLY_READ = (
    "the model hardly writes the requested form; try an instruct model, or a larger max_new_tokens"
)


@dataclass
class Watch:
    """Looks at the answers of a training as they come, and says each kind of fault once.

    - task: that scored them
    - small: as in :func:`faults`
    - unread: what to say of a policy of which nine in ten answers cannot be read

    Attributes: asked, how many answers were seen; now, what holds of them, as in :func:`faults`.

    Nothing is said of fewer than 50 answers, or of the rewards of fewer than 50 that were read.
    """

    task: Task
    small: bool = False
    unread: str = HARDLY_READ
    asked: int = field(default=0, init=False)
    now: dict[str, str] = field(default_factory=dict, init=False)
    _read: int = field(default=0, init=False)
    _below: float = field(default=0.0, init=False)  # answers below the worst vector
    _above: float = field(default=0.0, init=False)  # and above the front
    _reached: dict[str, float] = field(default_factory=dict, init=False)
    _spread: dict[str, float] = field(default_factory=dict, init=False)
    _said: set[str] = field(default_factory=set, init=False)

    def look(self, groups: Iterable[HasAnswers]) -> list[str]:
        """Add these answers; returns what is to be said for the first time."""
        for group in groups:
            self._add(group)
        if self.asked < ENOUGH:
            return []
        self.now = self._faults()
        fresh = [kind for kind in self.now if kind not in self._said]
        self._said.update(fresh)
        return [self.now[kind] for kind in fresh]

    def _add(self, group: HasAnswers) -> None:
        task, x = self.task, group.instance
        read = np.array([[a is not None for a in row] for row in group.answers], dtype=bool)
        rewards = group.rewards.reshape(read.size, -1)
        self.asked += read.size
        self._read += int(read.sum())
        self._below += below_worst(task, x, rewards) * read.size
        self._above += (above_front(front_of(task, x), rewards) or 0) * read.size
        found = [(self._reached, rewards.max(0) - worst_of(task, x))]
        if read.sum() > 1:
            found.append((self._spread, np.ptp(group.rewards[read], axis=0)))
        for seen, fresh in found:
            for name, value in zip(objectives_of(task, x), fresh.tolist(), strict=True):
                seen[name] = max(value, seen.get(name, value))

    def _faults(self) -> dict[str, str]:
        unread = 1 - self._read / self.asked
        many, said = unread >= UNREAD_SHARE, {}
        if many and not self.small:
            said["unread"] = f"{unread:.0%} of the answers could not be read: {self.unread}"
        if self._read < ENOUGH:
            return said
        rewards = {
            "reached": self._reached,
            "spread": self._spread,
            "below_worst_rate": self._below / self.asked,
            "above_front_rate": self._above / self.asked,
        }
        return said | faults(self.task, rewards, small=self.small or many)
