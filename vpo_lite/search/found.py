"""What a search found and spent. Every search returns a :class:`Result` for each problem.

Its candidates are kept, so that one search serves every preference: :func:`best_found` asks for the
best one under any weights. :func:`save_found` writes them to a file, one a line, in JSON.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..checks import check_rewards, shown
from ..files import DamagedError, Schema, not_written, read_json_lines, write_atomically
from ..objective import nondominated
from ..training.schemas import Count
from .archive import check_preference
from .best_of import choose


class Spent(NamedTuple):
    """What was spent on a problem.

    - calls: of the policy
    - tokens: sampled, or of :func:`most_probable` next-token distributions
    - candidates: answers that could be read, one that comes twice counts twice
    """

    calls: int
    tokens: int
    candidates: int


class Found(NamedTuple):
    """A candidate: an answer that a search scored.

    - rewards (d,)
    - spent: when it was found, itself included. A rollout counts whole, also the answers behind the
      candidate. The other rollouts of its call count if they come before it. Of an answer that was
      joined from two, all rollouts of the call count.
    - parents: the answers that it was grown or joined from
    """

    answer: str
    rewards: np.ndarray
    spent: Spent
    parents: Sequence[str] = ()


@dataclass
class Result:
    """What a search found on one problem.

    - weights (d,): of the search: those of its score, or those that the prompt showed; None where
      it had none
    - found: every candidate, a :class:`Found`, in order. Those within a smaller budget are the ones
      with ``spent.tokens`` up to it.
    - spent: the :class:`Spent` of the whole search
    """

    instance: Any
    weights: np.ndarray | None
    found: list[Found] = field(default_factory=list, kw_only=True)
    spent: Spent = field(default=Spent(0, 0, 0), kw_only=True)

    def within(self, max_tokens: int | None, max_candidates: int | None) -> bool:
        """Whether neither budget is spent. None: no limit."""
        budgets = ((self.spent.tokens, max_tokens), (self.spent.candidates, max_candidates))
        return all(most is None or spent < most for spent, most in budgets)

    def pay(self, call: int, tokens: int) -> None:
        """Count tokens that were sampled in a call."""
        self.spent = self.spent._replace(calls=call, tokens=self.spent.tokens + tokens)

    def add(self, answer: str, rewards: np.ndarray, parents: Sequence[str] = ()) -> None:
        """Count a candidate, and keep it."""
        self.spent = self.spent._replace(candidates=self.spent.candidates + 1)
        self.found.append(Found(answer, rewards, self.spent, parents))


@dataclass
class Probable(Result):
    """The n most probable answers to one problem, in order of probability. ``found`` holds them.

    - answers: as the task parsed them; no two have the same effect
    - rewards (n, d)
    - logprobs (n,): of the completion's tokens, its end included, in nats
    """

    rewards: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    logprobs: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def answers(self) -> list[str]:
        return [one.answer for one in self.found]


@dataclass
class Beam(Result):
    """The n sets of m answers to one problem that a beam search ended with, best first.

    ``found`` holds every readable answer, also those of dropped prefixes. The parents of an answer
    are those before it in its set.

    - texts (n): completions
    - answers (n): lists of m answers, as the task parsed them; None where one is missing
    - rewards (n, m, d): a missing answer has the worst vector
    - set_rewards (n,): E_w max_y w . r(y) at the alpha of the search
    """

    texts: list[str] = field(default_factory=list)
    answers: list[list[str | None]] = field(default_factory=list)
    rewards: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    set_rewards: np.ndarray = field(default_factory=lambda: np.empty(0))


# --- asking afterwards ----------------------------------------------------------------------------


class Candidate(Schema):
    """A line of a file of :func:`save_found`: a :class:`Found` with what it belongs to.

    - problem: its place among the problems of the search, from 0
    - weights (d,): those of the :class:`Result`
    - call, tokens, candidates: its :class:`Spent`
    """

    problem: Count
    answer: str
    rewards: list[float]
    weights: list[float] | None
    call: Count
    tokens: Count
    candidates: Count
    parents: list[str]


Kept = TypeVar("Kept", Found, Candidate)


def best_found(found: Sequence[Kept], weights) -> Kept | None:
    """The candidate with the highest score w . r; of equal ones the first, None of none.

    - found: candidates of one problem, of :attr:`Result.found` or :func:`read_found`; also those of
      several searches, ``one.found + other.found``
    - weights (d,): any, whatever those of the search were

    Raises ValueError for weights that are not d finite numbers or all 0, and for candidates of
    several problems.

    >>> spent = Spent(1, 2, 3)
    >>> found = [Found("a", [1, 0], spent), Found("b", [0, 1], spent), Found("c", [0, 0.9], spent)]
    >>> best_found(found, [0.3, 0.7]).answer, [one.answer for one in pareto_front(found)]
    ('b', ['a', 'b'])
    """
    weights = check_preference(weights)
    rewards = _rewards(found)
    return found[int(choose(rewards, weights))] if len(rewards) else None


def pareto_front(found: Sequence[Kept]) -> list[Kept]:
    """The candidates that no other dominates; of equal rewards the first. In order of rewards, the
    highest of the first objective first. Arguments and errors as of :func:`best_found`.
    """
    rewards = _rewards(found)
    front = np.flatnonzero(nondominated(rewards)) if len(rewards) else ()
    return [found[i] for i in sorted(front, key=lambda i: tuple(rewards[i]), reverse=True)]


def _rewards(found: Sequence) -> np.ndarray:
    """The rewards (n, d) of candidates of one problem."""
    if not isinstance(found, Sequence) or not all(hasattr(one, "rewards") for one in found):
        raise ValueError(f"found = {shown(found)}: expected candidates; give result.found")
    problems = {getattr(one, "problem", 0) for one in found}
    if len(problems) > 1:
        raise ValueError(
            f"candidates of {len(problems)} problems: give those of one, such as "
            "[c for c in found if c.problem == 0]"
        )
    return check_rewards([one.rewards for one in found], "rewards") if found else np.empty((0, 0))


# --- in a file ------------------------------------------------------------------------------------


def save_found(results: Sequence[Result], path) -> Path:
    """Write all candidates of a search to a file, whole or not at all. Returns its path.

    Raises ValueError where it cannot be written.

    >>> import tempfile
    >>> from vpo_lite.search import evolve
    >>> from vpo_lite.tasks.programs import ProgramsTask
    >>> task = ProgramsTask()
    >>> traces = evolve(None, task, [task.instance(1)], m=2, calls=2, seed=0, tries=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = read_found(save_found(traces, f"{folder}/found.jsonl"))
    >>> len(found), found[-1].call, found[-1].candidates
    (4, 2, 4)
    """
    if not isinstance(results, Sequence) or not all(isinstance(r, Result) for r in results):
        raise ValueError(
            f"results = {shown(results)}: expected the list that a search returns; [result] for one"
        )
    rows = [
        Candidate(
            problem=p,
            answer=one.answer,
            rewards=one.rewards.tolist(),
            weights=None if result.weights is None else result.weights.tolist(),
            call=one.spent.calls,
            tokens=one.spent.tokens,
            candidates=one.spent.candidates,
            parents=list(one.parents),
        )
        for p, result in enumerate(results)
        for one in result.found
    ]
    try:
        write_atomically(path, "".join(row.model_dump_json() + "\n" for row in rows))
    except OSError as error:
        raise ValueError(not_written(path, error)) from error
    return Path(path)


def read_found(path) -> list[Candidate]:
    """The candidates of a file of :func:`save_found`. Raises DamagedError for any other, and where
    there is none.
    """
    if not os.path.lexists(path):
        raise DamagedError(f"{path}: there is no such file")
    return read_json_lines(path, Candidate, whole=True)
