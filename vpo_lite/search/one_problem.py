"""The state of an evolutionary search on one problem (:mod:`.evolution`)."""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..checks import shown
from ..tasks.base import Task
from ..tasks.wording import known_answers
from ..training.contract import (
    check_problem,
    flags_of,
    front_of,
    objectives_of,
    worst_of,
)
from .archive import Archive, Elite
from .contract import joined_of, mutation_of, target_of, weights_of
from .found import Result, Spent

SHOWN = 2  # parents in a prompt in words
NEAR = 1e-9  # a score no more than this below the target has reached it


@dataclass
class Trace(Result):
    """A :class:`Result` with what happened on the way. Entry c of a list is the state after call
    c + 1.

    - target: the score is w . r; the target is :meth:`Task.target`, and infinity where none is
      known. It becomes infinity where it assumed rewards of at most 1, and one is above
    - tokens: sampled so far
    - candidates: answers so far that could be read, of the policy and joined ones. One that comes
      twice counts twice, and is scored once
    - best: the best score so far, that of a missing answer at first
    - cells: elites in the archive
    - answer: the best one, valid or not; None before there is any
    - solved_at: the :class:`Spent` when the target was reached; None where it was not. The search
      then ends with that call unless it has to go on, so the lists may be shorter than ``calls``.
    - archive
    """

    weights: np.ndarray
    target: float
    archive: Archive
    tokens: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    answer: str | None = None
    solved_at: Spent | None = None


def _beyond(vector: np.ndarray, weights: np.ndarray) -> bool:
    """Whether some reward is better than any from 0 to 1, under its weight."""
    return bool(((vector > 1 + NEAR) & (weights > 0) | (vector < -NEAR) & (weights < 0)).any())


def written(task: Task, instance, answer: str, pocket: dict) -> str:
    """An answer as the policy writes it; "" where no text parses back to it."""
    text = task.write(instance, [answer], pocket)
    return text if task.parse(instance, text, 1) == [answer] else ""


def beginning(text: str, rng) -> str:
    """A random part of a written answer: its opening tag and one word or more, without the end.

    >>> text = "<program_1> left sort plus </program_1>"
    >>> sorted({beginning(text, np.random.default_rng(i)) for i in range(50)}, key=len)[::2]
    ['<program_1> left', '<program_1> left sort plus']
    """
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return text[: ends[rng.integers(1, max(2, len(ends) - 1))]]


class Search:
    """The state of the search on one problem. ``rng`` is set for each call.

    until_solved: whether it ends when the target is reached
    """

    def __init__(self, task: Task, instance, weights, archive, until_solved: bool):
        check_problem(task, instance)
        weights = weights_of(task, instance, weights)
        self.task, self.key, self.until_solved = task, task.key(instance), until_solved
        self.limit = 0  # tokens of a rollout, where a policy writes them
        self.shown: np.ndarray | None = None  # weights in the prompt
        self.asked = self.read = 0  # answers of the policy
        target = target_of(task, instance, weights)
        empty = archive(weights)
        if not isinstance(empty, Archive):
            raise ValueError(f"archive(weights) gave {shown(empty)}: expected an Archive")
        self.trace = Trace(instance, weights, target, empty)
        self.best = float(weights @ worst_of(task, instance))
        self.assumed = type(task).target is Task.target and front_of(task, instance) is None
        self.parents: list[str] = []  # of what the policy writes in this call
        self.origins: list[list[str]] = []  # the parents of each answer that the task made last
        self.known: dict[str, np.ndarray] = {}  # the rewards of every answer that was scored
        self.texts: dict[str, str] = {}
        self.pairs: list[tuple[float, float, Elite, Elite]] = []  # a heap

    # --- where a call begins ----------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the target that ends the search is reached."""
        return self.until_solved and self.trace.solved_at is not None

    def prefix(self, pocket: dict, fresh: float) -> str:
        """The opening tag of a parent and some of its words; empty to begin anew."""
        parents = self._parents(fresh, fit=lambda answer: self._text(answer, pocket))
        self.parents = [elite.answer for elite in parents]
        return beginning(self._text(parents[0].answer, pocket), self.rng) if parents else ""

    def _parents(self, fresh: float, **asked) -> list[Elite]:
        """Elites to begin from; with probability ``fresh`` none. asked: of `Archive.parents`."""
        anew = self.rng.random() < fresh
        return [] if anew else self.trace.archive.parents(self.rng, **asked)

    def _text(self, answer: str, pocket: dict) -> str:
        """What :func:`written` gives, kept."""
        if answer not in self.texts:
            self.texts[answer] = written(self.task, self.trace.instance, answer, pocket)
        return self.texts[answer]

    def notes(self, fresh: float) -> list[str]:
        """Texts for the prompt, in order of preference: two parents with their rewards, the first
        of them, and nothing. To begin anew nothing alone.
        """
        task, instance = self.task, self.trace.instance
        parents = self._parents(fresh, count=SHOWN)
        self.parents = [elite.answer for elite in parents]
        known = [(task.write(instance, [e.answer]), e.rewards) for e in parents]
        names = objectives_of(task, instance)
        return [known_answers(names, known[:n]) for n in range(len(known), 0, -1)] + [""]

    def mutations(self, m: int, fresh: float) -> list[str]:
        """m random changes of parents, or random answers."""
        found, self.origins = [], []
        for _ in range(m):
            parents = [elite.answer for elite in self._parents(fresh)]
            parent = parents[0] if parents else None
            found.append(mutation_of(self.task, self.trace.instance, parent, self.rng))
            self.origins.append(parents)
        return found

    def combinations(self, most: int) -> list[str]:
        """At most so many new answers, from the most promising pairs whose elites are still there.

        Once the search is done there are none.
        """
        found: dict[str, list[str]] = {}
        there = {id(elite) for elite in self.trace.archive.elites.values()}
        if len(self.pairs) > len(there) ** 2:  # the elites of most are gone
            self.pairs = [pair for pair in self.pairs if {*map(id, pair[2:])} <= there]
            heapq.heapify(self.pairs)
        while self.pairs and len(found) < most and not self.done:
            pair = heapq.heappop(self.pairs)
            first, second = pair[2:]
            if not {id(first), id(second)} <= there:
                continue
            joined = joined_of(self.task, self.trace.instance, first.answer, second.answer)
            new = [a for a in dict.fromkeys(joined) if a not in self.known and a not in found]
            room = most - len(found)
            made = [new[i] for i in self.rng.permutation(len(new))[:room]]
            found |= {answer: [first.answer, second.answer] for answer in made}
            if len(new) > room:
                heapq.heappush(self.pairs, pair)
        self.origins = list(found.values())
        return list(found)

    # --- what it brings ---------------------------------------------------------------------------

    def take(
        self, call: int, answers: Sequence[str | None], rewards, parents, tokens: int = 0
    ) -> None:
        """Count scored answers with their rewards (n, d), and keep the valid ones.

        parents: of each answer
        """
        trace, task = self.trace, self.task
        trace.pay(call, tokens)
        valid = flags_of(task, "valid", trace.instance, rewards)
        rows = zip(answers, rewards, parents, valid, strict=True)
        for answer, vector, its, counts in rows:
            if answer is None:
                continue
            trace.add(answer, vector, its)
            if self.assumed and _beyond(vector, trace.weights):
                trace.target = np.inf
            score = float(trace.weights @ vector)
            if trace.answer is None or score > self.best:
                self.best, trace.answer = score, answer
            if score >= trace.target - NEAR and trace.solved_at is None:
                trace.solved_at = trace.spent
            if counts:
                self._keep(answer, vector)

    def _keep(self, answer: str, rewards) -> None:
        """Add an answer to the archive, and its pairs with all others to those that wait."""
        new = self.trace.archive.add(answer, rewards)
        if new is None or type(self.task).combine is Task.combine:  # which joins nothing
            return
        for other in self.trace.archive.elites.values():
            if other is not new:
                promise = float(self.trace.weights @ np.maximum(new.rewards, other.rewards))
                heapq.heappush(self.pairs, (-promise, self.rng.random(), other, new))

    def end_call(self) -> None:
        """Write down where the search stands."""
        trace = self.trace
        trace.tokens.append(trace.spent.tokens)
        trace.candidates.append(trace.spent.candidates)
        trace.best.append(self.best)
        trace.cells.append(len(trace.archive.elites))
        trace.archive.end_call()
