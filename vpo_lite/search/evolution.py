"""Evolutionary search with a policy as the mutation operator.

In one call the policy writes one rollout of m answers, or several. A pocket policy continues a part
of a parent's text, and writes the other answers after it. A model that is asked in words reads the
parents in its prompt. Parents come from the archive. Then the task joins pairs of its members
without the policy (:meth:`Task.combine`). So a search gains where the archive holds answers that
complement each other. Budgets are counted in calls, sampled tokens and scored candidates.
"""

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_number, check_whole, is_whole, shown
from ..policy.policy import Policy
from ..randomness import generator
from ..tasks.base import Task
from ..tasks.wording import known_answers
from ..training.answers import score_answers
from ..training.contract import (
    check_instances,
    check_policy,
    check_problem,
    check_seed,
    flags_of,
    objectives_of,
    w_star_of,
    worst_of,
)
from ..training.rollouts import draw_uniforms, sample_answers, token_limits
from .archive import Archive, Elite, check_preference
from .contract import joined_of, mutation_of, target_of

SHOWN = 2  # parents in a prompt in words
NEAR = 1e-9  # a score no more than this below the target has reached it


class Spent(NamedTuple):
    """A budget that was used up: calls, sampled tokens, scored candidates."""

    calls: int
    tokens: int
    candidates: int


@dataclass
class Trace:
    """The search on one problem. Entry c of a list is the state after call c + 1.

    - weights (d,), target: the score is w . r; the target is :meth:`Task.target`
    - tokens, candidates: sampled and scored so far
    - best: the best score so far, that of a missing answer at first
    - cells: elites in the archive
    - answer: the best one, valid or not; None before there is any
    - solved_at: what was spent when the target was reached, up to the candidate that reached it;
      None where it was not. The search ends with that call, so the lists may be shorter than
      ``calls``.
    - archive
    """

    instance: Any
    weights: np.ndarray
    target: float
    archive: Archive
    tokens: list[int] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    answer: str | None = None
    solved_at: Spent | None = None


def evolve(
    policy: Policy | None,
    task: Task,
    instances: Sequence,
    *,
    m: int,
    calls: int,
    seed: int,
    rollouts: int = 1,
    weights: Sequence | None = None,
    fresh: float = 0.25,
    tries: int = 18,
    archive: Callable[[np.ndarray], Archive] = Archive,
    temperature: float = 1.0,
) -> list[Trace]:
    """Searches each of P problems for an answer with the highest score w . r. Returns P traces.

    A call does the following. Each policy call covers all unsolved instances in one batch.

    1. The policy writes m answers in each rollout. A pocket policy begins the first one with a
       random part of a parent's text. A model that is asked in words reads up to two parents in
       its prompt. Parents are elites. Without one, or with probability ``fresh``, it begins anew.
    2. Join pairs of elites by :meth:`Task.combine`, those with the highest w . max(r, r') first.
       Ties, and the answers of one pair, come in random order. At most ``tries * m * rollouts``
       new answers are scored. The rest wait; otherwise each pair is tried once.

    Valid answers go into the archive as soon as they are scored, so step 2 joins those of step 1.

    - policy: None for the baseline without one: m * rollouts random mutations a call, by
      :meth:`Task.mutate`
    - calls: of the policy, at most
    - rollouts: per call, all from the same beginning. To compare a policy of single answers with
      one of sets of m, give the first m times as many: equal answers, and about equal tokens
    - seed: draws depend on it, on the call and on the problem, and not on the rest of the batch
    - weights: P arrays (d,), finite and not all 0; None for each problem's w*
    - tries: combinations for each answer asked for, 0 or more, so that equal numbers of answers
      have equal budgets. One pair of programs has 18.
    - archive: from the weights (d,) to an empty archive, such as ``partial(Archive, bins=5)``
    - temperature: as in :meth:`Policy.sample`

    Raises ValueError for values outside these ranges (m, calls and rollouts from 1), and for a task
    without mutations where policy is None.
    """
    if policy is not None:
        check_policy(policy)
    check_instances(task, instances)
    check_whole(m, "m")
    check_whole(calls, "calls")
    check_whole(rollouts, "rollouts")
    fresh = check_number(fresh, "fresh", "a probability, 0 to 1", 0, 1)
    if not is_whole(tries) or tries < 0:
        raise ValueError(f"tries = {shown(tries)}: expected a whole number of at least 0")
    seed = check_seed(seed)
    if not callable(archive):
        raise ValueError(
            f"archive = {shown(archive)}: expected a function from weights to an empty archive, "
            "such as the class Archive"
        )
    if weights is not None:
        count = len(weights) if hasattr(weights, "__len__") else None
        if count != len(instances):
            got = f" = {shown(weights)}" if count is None else f" holds {count} arrays"
            raise ValueError(
                f"weights{got}: expected {len(instances)} arrays, one for each problem"
            )
    given = [None] * len(instances) if weights is None else weights
    searches = [_Search(task, x, w, archive) for x, w in zip(instances, given, strict=True)]
    if policy is not None:
        task.check_policy(m, policy.pocket)
        for search, limit in zip(searches, token_limits(policy, task, m, instances), strict=True):
            search.limit = limit
    for call in range(1, calls + 1):
        active = [search for search in searches if search.trace.solved_at is None]
        if not active:
            break
        for search in active:
            search.rng = generator(seed, "evolution", call, search.key)
        if policy is None:
            answers = [search.mutations(m * rollouts, fresh) for search in active]
            _score(task, call, active, answers)
        else:
            keys = [(seed, "evolution tokens", call, search.key) for search in active]
            uniforms = draw_uniforms(rollouts, [search.limit for search in active], keys)
            begun = _begun(policy, active, fresh)
            _ask(policy, task, call, active, m, uniforms, temperature=temperature, **begun)
        most = tries * m * rollouts
        _score(task, call, active, [search.combinations(most) for search in active])
        for search in active:
            search.end_call()
    return [search.trace for search in searches]


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


def _begun(policy: Policy, active: Sequence["_Search"], fresh: float) -> dict:
    """What the policy is given of the parents: beginnings of its text, or notes in the prompts."""
    if policy.pocket is not None:
        return {"prefixes": [search.prefix(policy.pocket, fresh) for search in active]}
    return {"notes": [search.note(fresh) for search in active]}


def _ask(
    policy: Policy, task: Task, call: int, active: Sequence["_Search"], m, uniforms, **how
) -> None:
    """Sample and score m answers in each rollout of each search, in one batch. Arguments as those
    of :func:`sample_answers`.
    """
    instances = [search.trace.instance for search in active]
    groups = sample_answers(policy, task, instances, m, uniforms, **how).groups
    for search, group in zip(active, groups, strict=True):
        for row, R, spent in zip(group.answers, group.rewards, group.tokens, strict=True):
            search.take(call, row, R, int(spent))


def _score(task: Task, call: int, active: Sequence["_Search"], answers) -> None:
    """Score a list of answers for each search, in one call of the task's scorer."""
    rewards = score_answers(task, [s.trace.instance for s in active], [[row] for row in answers])
    for search, row, R in zip(active, answers, rewards, strict=True):
        search.take(call, row, R[0])


class _Search:
    """The state of the search on one problem. ``rng`` is set for each call."""

    def __init__(self, task: Task, instance, weights, archive):
        check_problem(task, instance)
        w_star = w_star_of(task, instance)
        weights = w_star if weights is None else check_preference(weights)
        if weights.shape != w_star.shape:
            raise ValueError(
                f"weights of shape {weights.shape}: expected {w_star.shape}, one for each objective"
            )
        self.task, self.key = task, task.key(instance)
        self.limit = 0  # tokens of a rollout, where a policy writes them
        target = target_of(task, instance, weights)
        empty = archive(weights)
        if not isinstance(empty, Archive):
            raise ValueError(f"archive(weights) gave {shown(empty)}: expected an Archive")
        self.trace = Trace(instance, weights, target, empty)
        self.best = float(weights @ worst_of(task, instance))
        self.tokens = self.candidates = 0
        self.scored: set[str] = set()
        self.texts: dict[str, str] = {}
        self.pairs: list[tuple[float, float, Elite, Elite]] = []  # a heap

    # --- where a call begins ----------------------------------------------------------------------

    def prefix(self, pocket: dict, fresh: float) -> str:
        """The opening tag of a parent and some of its words; empty to begin anew."""
        parents = self._parents(fresh, fit=lambda answer: self._text(answer, pocket))
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

    def note(self, fresh: float) -> str:
        """Parents with their rewards; empty to begin anew."""
        task, instance = self.task, self.trace.instance
        parents = self._parents(fresh, count=SHOWN)
        if not parents:
            return ""
        known = [(task.write(instance, [e.answer]), e.rewards) for e in parents]
        return known_answers(objectives_of(task, instance), known)

    def mutations(self, m: int, fresh: float) -> list[str]:
        """m random changes of parents, or random answers."""
        found = []
        for _ in range(m):
            parents = self._parents(fresh)
            parent = parents[0].answer if parents else None
            found.append(mutation_of(self.task, self.trace.instance, parent, self.rng))
        if None in found:
            raise ValueError(
                f"policy = None: task {shown(self.task.name)} knows no random mutations; override "
                "its mutate(instance, answer, rng), or give a policy"
            )
        return found

    def combinations(self, most: int) -> list[str]:
        """At most so many new answers, from the most promising pairs whose elites are still there.

        Once the target is reached there are none.
        """
        found: dict[str, None] = {}
        there = {id(elite) for elite in self.trace.archive.elites.values()}
        while self.pairs and len(found) < most and self.trace.solved_at is None:
            pair = heapq.heappop(self.pairs)
            first, second = pair[2:]
            if not {id(first), id(second)} <= there:
                continue
            joined = joined_of(self.task, self.trace.instance, first.answer, second.answer)
            new = [a for a in dict.fromkeys(joined) if a not in self.scored and a not in found]
            room = most - len(found)
            found |= dict.fromkeys(new[i] for i in self.rng.permutation(len(new))[:room])
            if len(new) > room:
                heapq.heappush(self.pairs, pair)
        return list(found)

    # --- what it brings ---------------------------------------------------------------------------

    def take(self, call: int, answers: Sequence[str | None], rewards, tokens: int = 0) -> None:
        """Count scored answers with their rewards (n, d), and keep the valid ones."""
        trace, task = self.trace, self.task
        self.tokens += tokens
        valid = flags_of(task, "valid", trace.instance, rewards)
        for answer, vector, counts in zip(answers, rewards, valid, strict=True):
            if answer is None:
                continue
            self.candidates += 1
            self.scored.add(answer)
            score = float(trace.weights @ vector)
            if trace.answer is None or score > self.best:
                self.best, trace.answer = score, answer
            if score >= trace.target - NEAR and trace.solved_at is None:
                trace.solved_at = Spent(call, self.tokens, self.candidates)
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
        trace.tokens.append(self.tokens)
        trace.candidates.append(self.candidates)
        trace.best.append(self.best)
        trace.cells.append(len(trace.archive.elites))
        trace.archive.end_call()
