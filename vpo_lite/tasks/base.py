"""Tasks: what the trainer knows of a problem.

A task owns its domain: problems from seeds, the request for m answers, their parser, and the
scorer. It knows no trainer, and the trainer knows no particular task. A new task is a file beside
this one, or a class anywhere, named as ``package.module:Class``.
"""

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import check_finite, shown
from ..options import Option
from .stable_keys import unstable
from .task_errors import TaskError, called
from .wording import read_numbered, write_numbered

MAX_ANSWERS = 100  # in a completion; a pocket policy says how many it writes

SPLITS = {
    "held_out": range(9_000),
    "validation": range(9_000, 10_000),
    "train": range(10_000, 1_000_000),
    "pretraining": range(1_000_000, 2**63),
}


@dataclass(frozen=True)
class Prompt:
    """What a policy is asked: either ``messages`` or ``symbols``.

    - messages: chat messages ``{"role": ..., "content": ...}``, in order, the user's turn last
    - symbols: blank-separated symbols for a pocket policy
    - prefix: the beginning of the completion; the policy continues it, and it counts as its text

    >>> Prompt.words("How far is it?").messages
    ({'role': 'user', 'content': 'How far is it?'},)
    """

    messages: tuple[dict[str, str], ...] = ()
    symbols: str = ""
    prefix: str = ""

    @classmethod
    def words(cls, text: str, *, system: str | None = None) -> "Prompt":
        """A prompt of one user turn, after an optional system turn."""
        head = () if system is None else ({"role": "system", "content": system},)
        return cls(messages=(*head, {"role": "user", "content": text}))

    @property
    def text(self) -> str:
        """The prompt as one readable text."""
        return self.symbols or "\n\n".join(message["content"] for message in self.messages)


class Task:
    """A family of problems with vector-valued rewards. Derive from it and override what differs.

    An *instance* is one prompt's problem: a question, a program. Its number of objectives d may
    differ from prompt to prompt, as with the test cases of a program. Every task overrides
    :meth:`instance`, :meth:`objectives`, :meth:`prompt`, and :meth:`vector` or :meth:`score`.

    - name: as in ``--task``
    - noun: what one problem is called
    - about: what its problems are, in a few words
    - options: each :class:`Option` becomes an attribute and a flag
    - tag: answers are written as ``<tag_1> ... </tag_1> <tag_2> ...``
    - tagged_alone: whether a single answer (m = 1) has its tags, too; else it is the completion
    - answer_tokens: tokens that one answer may need, without its tags
    - answer_symbols: the same for a pocket policy
    - seeds: ranges of seeds, by split
    - singles_out: names of the options that single out one problem; `single` where one has a value
    - unused: names of the options that do nothing beside the value of such a one
    - pocket_policy: name of the shipped policy that reads these problems, or None
    - repeats_by_reward: whether answers with the same reward vector have the same effect. Training
      then reads repeats off the rewards, and does not ask :meth:`same_effect`
    - worst_set_by: what sets the reward of a missing answer, for a warning to name
    - all_differ: whether each seed gives another problem. Else they are compared before they are
      measured; so are those of a class that is not of this library
    - reward_functions: the :class:`~.reward_functions.RewardFunctions` that score the answers, or
      None for a task that scores them itself

    A task of n records replaces ``seeds`` by ranges that are indices into them: ``train`` and
    ``held_out`` are needed, ``validation`` is for tuning. A run makes the task several times, so
    ``__init__`` and ``seeds`` should be cheap. Raises ValueError for an unknown option or a value
    that cannot work.

    >>> class Sums(Task):
    ...     name, options = "sums", (Option("largest", int, 9, "largest number", least=1),)
    >>> Sums(largest=5).largest, Sums().largest
    (5, 9)
    >>> Sums(largest=0)
    Traceback (most recent call last):
    ...
    ValueError: largest = 0: must be a whole number, 1 or more
    """

    name = "task"
    noun = "problem"
    about = ""
    options: tuple[Option, ...] = ()
    tag = "answer"
    tagged_alone = True
    answer_tokens = 64
    answer_symbols: int | None = None
    seeds: dict[str, Sequence[int]] = SPLITS
    singles_out: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    pocket_policy: str | None = None
    repeats_by_reward: bool = False
    worst_set_by = "worst(instance)"
    all_differ: bool = False
    reward_functions: Any = None  # its class imports this module

    def __init__(self, **options: Any):
        known = [option.name for option in self.options]
        taken = [name for name in known if hasattr(Task, name)]
        if taken or len(set(known)) < len(known):
            raise ValueError(
                f"task {self.name!r}: every option needs a name of its own, and none that Task "
                f"uses ({', '.join(taken) or 'one is there twice'})"
            )
        for name in options:
            if name not in known:
                there = f"the options of task {self.name!r} are {', '.join(known) or 'none'}"
                raise ValueError(f"unknown setting {shown(name)}: {there}")
        for option in self.options:
            setattr(self, option.name, option.check(options.get(option.name, option.default)))

    @cached_property
    def single(self) -> bool:
        """Whether every seed gives the same problem; a run is then evaluated on it."""
        return any(getattr(self, name, None) is not None for name in self.singles_out)

    @property
    def numbered(self) -> str | None:
        """The option that singles out one problem by a whole number; None where there is none."""
        found = [o.name for o in self.options if o.name in self.singles_out and o.type is int]
        return found[0] if found else None

    # --- problems ---------------------------------------------------------------------------------

    def instance(self, seed: int) -> Any:
        """The problem with this seed. The same seed always gives the same problem."""
        raise TaskError(f"task {self.name!r} must define instance(seed)")

    def longest_asked(self) -> Sequence:
        """Training problems with the longest requests, a few, where the task can tell. The memory
        that a run needs is stated for them and for the first problems.
        """
        return ()

    def key(self, instance: Any) -> str:
        """A text that identifies the instance in every process. It keys the random draws.

        By default its repr. Raises TaskError where that differs from process to process: for a set,
        unless it holds numbers alone, and for an object that shows its address.
        """
        with np.printoptions(threshold=sys.maxsize):  # or "..." stands for most of a large array
            text = repr(instance)
            odd = unstable(instance, text)
        if isinstance(odd, set | frozenset):
            raise TaskError(
                f"task {self.name!r}: the order of {shown(odd)} differs from process to process; "
                "make it tuple(sorted(...)), or define key(instance)"
            )
        if odd is not None:
            raise TaskError(
                f"task {self.name!r}: define key(instance); {shown(odd)} differs from process to "
                "process"
            )
        return text

    def objectives(self, instance: Any) -> tuple[str, ...]:
        """Names of the d objectives. Higher is better."""
        raise TaskError(f"task {self.name!r} must define objectives(instance)")

    def w_star(self, instance: Any) -> np.ndarray:
        """The fixed weights (d,) of the scalar reward, which GRPO and best@k use."""
        d = len(self.objectives(instance))
        return np.full(d, 1 / d)

    def worst(self, instance: Any) -> np.ndarray:
        """The reward vector (d,) of a missing or malformed answer."""
        return np.zeros(len(self.objectives(instance)))

    def front(self, instance: Any) -> np.ndarray | None:
        """The true Pareto front (n, d); None where it is unknown."""
        return None

    def summary(self, instance: Any) -> str:
        """The problem as a panel and texts.jsonl show it, in a few lines. By default the request
        for one answer, in words.
        """
        return self.prompt(instance, 1).text

    # --- the request for m answers, and their parser ----------------------------------------------

    def prompt(
        self,
        instance: Any,
        m: int,
        *,
        weights: np.ndarray | None = None,
        pocket: dict | None = None,
    ) -> Prompt:
        """The request for m answers.

        - weights (d,): shown in the prompt, where a method asks for that
        - pocket: what the pocket policy reads (see :meth:`check_policy`). None: ask in words, with
          ``Prompt.words(text, system=...)``; :func:`numbered_form` says how to write m answers.
        """
        raise TaskError(f"task {self.name!r} must define prompt(instance, m)")

    def parse(self, instance: Any, text: str, m: int) -> list[str | None]:
        """The m answers in a completion; None where one is missing or malformed.

        Answer i is what :meth:`read` makes of the first complete ``<tag_i> ... </tag_i>``. What a
        model thinks outside of them is not read. A single answer without tags is the whole
        completion, with its thoughts.
        """
        if m == 1 and not self.tagged_alone:
            return [self.read(instance, text)]
        bodies = read_numbered(text, m, self.tag)
        return [None if body is None else self.read(instance, body) for body in bodies]

    def read(self, instance: Any, body: str) -> str | None:
        """The answer between two tags; None where it is malformed."""
        return body.strip() or None

    def write(self, instance: Any, answers: Sequence[str], pocket: dict | None = None) -> str:
        """The inverse of :meth:`parse`: answers as a policy writes them. pocket: as in `prompt`."""
        if len(answers) == 1 and not self.tagged_alone:
            return answers[0]
        return write_numbered(answers, self.tag)

    def max_tokens(self, instance: Any, m: int, pocket: dict | None = None) -> int:
        """Most tokens that a completion with m answers may need."""
        if pocket is not None and self.answer_symbols is not None:
            return m * (self.answer_symbols + 2) + 1  # each with two tags
        return m * (self.answer_tokens + 16) + 1

    def check_policy(self, m: int, pocket: dict | None) -> None:
        """Raise ValueError where this policy cannot be asked for m answers.

        pocket: what a pocket policy says of itself in its config.json: ``task`` (name), ``answers``
        (largest m), and whatever its task needs. None for a model that is asked in words.
        """
        if pocket is not None and pocket.get("task", self.name) != self.name:
            raise ValueError(
                f"this policy was made for task {shown(pocket['task'])}, not for {self.name!r}; "
                "name another model"
            )
        most = (pocket or {}).get("answers", MAX_ANSWERS)
        if not 1 <= m <= most:
            raise ValueError(f"m = {m}: this policy writes 1 to {most} answers in one rollout")

    def check_machine(self) -> None:
        """Raise ValueError where this machine cannot score answers. A run asks before it begins."""

    # --- scoring ----------------------------------------------------------------------------------

    def score(self, instances: Sequence, answers: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Reward vectors of parsed answers: one array (n_i, d_i) for each instance.

        Native training calls it once for all answers of a step, TRL once in each process, veRL once
        for each rollout. So a task may score in worker processes. These should ignore SIGINT:
        Ctrl-C reaches them too, and the step under way is still finished. An instance without
        parsed answers gets an empty list. By default :meth:`vector` of each.
        """
        return [self._vectors(x, row) for x, row in zip(instances, answers, strict=True)]

    def _vectors(self, instance, answers: Sequence[str]) -> np.ndarray:
        d, found = len(self.objectives(instance)), []
        for answer in answers:
            vector, why = called(self, "vector", instance, answer), ""
            try:
                numbers = check_finite(vector, "the vector", 0)
            except ValueError as error:
                why = f" ({error})"
            if why or numbers.shape != (d,):
                given = f"vector(instance, {shown(answer)}) gave {shown(vector)}"
                raise TaskError(f"task {self.name!r}: {given}: expected d = {d} numbers{why}")
            found.append(numbers)
        return np.array(found).reshape(-1, d)

    def vector(self, instance: Any, answer: str) -> Sequence[float]:
        """The reward vector (d,) of one parsed answer, where answers are scored one by one."""
        raise TaskError(f"task {self.name!r} must define score(instances, answers) or vector")

    def same_effect(self, instance: Any, answer: str) -> Hashable:
        """A value, not None, equal for answers of equal effect. The later of two is a repeat."""
        return answer

    def valid(self, instance: Any, rewards: np.ndarray) -> np.ndarray:
        """Booleans (...): which reward vectors (..., d) are of answers that count at all.

        By default those that differ from the worst vector. Diversity is measured among these.
        """
        return (np.asarray(rewards) != self.worst(instance)).any(axis=-1)

    def solved(self, instance: Any, rewards: np.ndarray) -> np.ndarray:
        """Booleans (...): which reward vectors (..., d) are of answers that solve the problem.

        By default those that are a point of the true front; where it is unknown, those with every
        reward at 1. pass@k counts these.
        """
        front = self.front(instance)
        if front is None:
            return (np.asarray(rewards) >= 1 - 1e-9).all(axis=-1)
        return (abs(np.asarray(rewards)[..., None, :] - front).max(axis=-1) < 1e-9).any(axis=-1)

    # --- search (vpo_lite/search) -----------------------------------------------------------------

    def combine(self, instance: Any, first: str, second: str) -> Sequence[str]:
        """Answers that are made of parts of two answers. By default there are none.

        They are scored as they are, without :meth:`parse` and :meth:`read`: give each in the form
        that these return. So do for :meth:`mutate`.
        """
        return ()

    def mutate(self, instance: Any, answer: str | None, rng: np.random.Generator) -> str | None:
        """An answer with a random change; for None a random answer.

        A task that overrides it gives an answer in each call. Without it there is no search without
        a policy.
        """
        return None

    def target(self, instance: Any, weights: np.ndarray) -> float:
        """The score w . r at which a search has reached its goal; infinity where it has none.

        By default the best on the true front, and infinity for weights below 0: the best answer
        need not be there. Without a front it is that of the best rewards from 0 to 1; a search that
        meets a better one then has no goal. Override it where you know more.
        """
        front = self.front(instance)
        if front is None:
            return float(np.maximum(weights, 0).sum())
        return np.inf if np.min(weights) < 0 else float(np.max(front @ weights))


def group_key(task: Task, instance, slot: int) -> str:
    """The key of a prompt group's random draws: its instance and its slot in the batch."""
    return f"{task.key(instance)}#{slot}"
