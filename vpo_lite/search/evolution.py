"""Evolutionary search with a policy as the mutation operator.

In one call the policy writes one rollout of m answers, or several. A pocket policy continues a part
of a parent's text, and writes the other answers after it. A model that is asked in words reads the
parents in its prompt. Parents come from the archive. Then the task joins pairs of its members
without the policy (:meth:`Task.combine`). So a search gains where the archive holds answers that
complement each other. Budgets are counted in calls, sampled tokens and scored candidates.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..checks import check_number, check_truth, check_whole, is_whole, shown
from ..policy.policy import Policy
from ..randomness import generator
from ..tasks.base import Task
from ..tasks.task_errors import Raised, TaskError
from ..training.answers import score_answers
from ..training.contract import check_request, check_seed, prompt_of
from ..training.rollouts import draw_uniforms, noted, sample_answers, token_limits
from ..training.watch import ENOUGH, UNREAD_SHARE
from .archive import Archive
from .contract import check_budgets, check_empty, one_each, shows_weights, to_show
from .found import Spent
from .one_problem import Search, Trace

__all__ = ["Spent", "Trace", "evolve"]

NO_TARGET = (
    "weights below 0: no target is known, since the best answer need not be on the front, so no "
    "search counts as solved; a task may override target(instance, weights)"
)


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
    max_new_tokens: int | None = None,
    max_tokens: int | None = None,
    max_candidates: int | None = None,
    until_solved: bool = True,
    show_weights: bool | None = None,
    traces: list | None = None,
    tell: Callable[[int, int], object] | None = None,
) -> list[Trace]:
    """Searches each of P problems for an answer with the highest score w . r. Returns P traces.

    A call does the following. Each policy call covers all unsolved instances in one batch.

    1. The policy writes m answers in each rollout. A pocket policy begins the first one with a
       random part of a parent's text. A model that is asked in words reads up to two parents in
       its prompt, fewer where they exceed the model's positions. Parents are elites. Without one,
       or with probability ``fresh``, it begins anew.
    2. Join pairs of elites by :meth:`Task.combine`, those with the highest w . max(r, r') first.
       Ties, and the answers of one pair, come in random order. At most ``tries * m * rollouts``
       new answers are scored. The rest wait; otherwise each pair is tried once.

    Valid answers go into the archive as soon as they are scored, so step 2 joins those of step 1.
    An answer that comes again is not scored again.

    - policy: None for the baseline without one: m * rollouts random mutations a call, by
      :meth:`Task.mutate`
    - calls: of the policy, at most
    - rollouts: per call, all from the same beginning. To compare a policy of single answers with
      one of sets of m, give the first m times as many: equal answers, and about equal tokens
    - seed: draws depend on it, on the call and on the problem, and not on the rest of the batch.
      So a problem that is there twice gets two equal traces: to repeat a search take another seed
    - weights: P arrays (d,), finite and not all 0; None for each problem's w*
    - tries: combinations for each answer asked for, 0 or more, so that equal numbers of answers
      have equal budgets. One pair of programs has 18.
    - archive: from the weights (d,) to an empty archive, such as ``partial(Archive, bins=5)``
    - temperature: as in :meth:`Policy.sample`
    - max_new_tokens: of a rollout; None: what m answers may need, as in training
    - max_tokens, max_candidates: budgets of each problem, in sampled tokens and in candidates. Once
      one is spent no call begins on this problem, so its last call may go beyond. `Trace.spent`
      says how much was spent. None: no limit but calls
    - until_solved: whether the search on a problem ends when its target is reached. False: it goes
      on, such as for answers under other weights (:func:`.found.best_found`)
    - show_weights: whether prompts show the weights of the search, scaled to sum 1. A policy of a
      method such as ``goal_conditioned`` needs them, and no weight may then be below 0. None: as
      the policy was trained, which its adapter or our merged model says; give
      True for a model that another tool merged
    - traces: an empty list that gets the traces before the first call. After Ctrl-C or an error of
      the scorer it holds what was found
    - tell: called first, and after each call, with the number of calls that are done, and of all

    A warning says once if hardly any answer can be read, and if weights are below 0. Raises
    ValueError for values outside these ranges (m, calls and rollouts from 1), and for a task
    without mutations where policy is None.
    """
    check_request(policy, task, instances, m, optional=True)
    check_whole(calls, "calls")
    check_whole(rollouts, "rollouts")
    fresh = check_number(fresh, "fresh", "a probability, 0 to 1", 0, 1)
    if not is_whole(tries) or tries < 0:
        raise ValueError(f"tries = {shown(tries)}: expected a whole number of at least 0")
    seed = check_seed(seed)
    check_budgets(
        max_new_tokens=max_new_tokens, max_tokens=max_tokens, max_candidates=max_candidates
    )
    if policy is None and max_tokens is not None:
        raise ValueError(
            f"max_tokens = {shown(max_tokens)}: without a policy no token is sampled; give "
            "max_candidates"
        )
    check_truth(until_solved, "until_solved")
    if show_weights is not None:
        check_truth(show_weights, "show_weights")
    check_empty(traces, "traces")
    if not callable(archive):
        raise ValueError(
            f"archive = {shown(archive)}: expected a function from weights to an empty archive, "
            "such as the class Archive"
        )
    rows = zip(instances, one_each(weights, instances), strict=True)
    searches = [Search(task, x, w, archive, until_solved) for x, w in rows]
    found = [] if traces is None else traces
    found += [search.trace for search in searches]
    if any(trace.target == np.inf and trace.weights.min() < 0 for trace in found):
        warnings.warn(NO_TARGET, stacklevel=2)
    if policy is not None:
        if show_weights is None:
            show_weights = shows_weights(policy, "give show_weights=True or False")
        limits = token_limits(policy, task, m, instances, max_new_tokens)
        for search, limit in zip(searches, limits, strict=True):
            search.limit = limit
            search.shown = to_show(search.trace.weights) if show_weights else None
    unread = False
    if tell is not None:
        tell(0, calls)
    for call in range(1, calls + 1):
        left = [search for search in searches if not search.done]
        active = [s for s in left if s.trace.within(max_tokens, max_candidates)]
        if not active:
            break
        for search in active:
            search.rng = generator(seed, "evolution", call, search.key)
        if policy is None:
            answers = [search.mutations(m * rollouts, fresh) for search in active]
            _score(task, call, active, answers, "mutate")
        else:
            keys = [(seed, "evolution tokens", call, search.key) for search in active]
            uniforms = draw_uniforms(rollouts, [search.limit for search in active], keys)
            begun = _begun(policy, task, m, active, fresh, uniforms.shape[-1])
            _ask(policy, task, call, active, m, uniforms, temperature=temperature, **begun)
            unread = unread or _warn_of_unread(policy, searches)
        most = tries * m * rollouts
        _score(task, call, active, [search.combinations(most) for search in active], "combine")
        for search in active:
            search.end_call()
        if tell is not None:
            tell(call, calls)
    return found


def _begun(
    policy: Policy, task: Task, m: int, active: Sequence[Search], fresh: float, new: int
) -> dict:
    """What the policy is given of the parents: beginnings of its text, or notes in the prompts.

    new: tokens that it may write after a prompt
    """
    if policy.pocket is not None:
        return {"prefixes": [search.prefix(policy.pocket, fresh) for search in active]}
    return {"notes": [*map(partial(_note, policy, task, m, fresh, new), active)]}


def _note(policy: Policy, task: Task, m: int, fresh: float, new: int, search: Search) -> str:
    """The first of the notes with which the prompt fits into the positions of the model."""
    notes, most = search.notes(fresh), policy.most_positions
    if most is None or len(notes) == 1:
        return notes[0]
    prompt = prompt_of(task, search.trace.instance, m, weights=search.shown)
    fits = (note for note in notes if len(policy.encode(noted(prompt, note))) + new <= most)
    found = next(fits, "")
    search.parents = search.parents[: len(notes) - 1 - notes.index(found)]
    if found != notes[0]:
        warnings.warn(
            f"a prompt with its parents and {new:,} new tokens need more than the model's "
            f"{most:,} positions, so it shows fewer parents or none: lower max_new_tokens",
            stacklevel=4,
        )
    return found


def _ask(
    policy: Policy, task: Task, call: int, active: Sequence[Search], m, uniforms, **how
) -> None:
    """Sample and score m answers in each rollout of each search, in one batch. Arguments as those
    of :func:`sample_answers`.
    """
    instances = [search.trace.instance for search in active]
    how |= dict(weights=[s.shown for s in active], known=[s.known for s in active])
    groups = sample_answers(policy, task, instances, m, uniforms, **how).groups
    for search, group in zip(active, groups, strict=True):
        for row, R, spent in zip(group.answers, group.rewards, group.tokens, strict=True):
            search.asked += m
            search.read += sum(answer is not None for answer in row)
            search.take(call, row, R, [search.parents] * m, int(spent))


def _warn_of_unread(policy: Policy, searches: Sequence[Search]) -> bool:
    """Whether it was said that hardly any answer can be read, as training says it."""
    asked = sum(search.asked for search in searches)
    if policy.pocket is not None or asked < ENOUGH:
        return False
    unread = 1 - sum(search.read for search in searches) / asked
    if unread >= UNREAD_SHARE:
        warnings.warn(
            f"{unread:.0%} of the answers could not be read: the model hardly writes the requested "
            "form; prompts of a search hold parents, too: try fresh=1, which leaves them out",
            stacklevel=3,
        )
    return unread >= UNREAD_SHARE


def _score(
    task: Task, call: int, active: Sequence[Search], answers: Sequence[list[str]], made: str
) -> None:
    """Score a list of answers for each search, in one call of the task's scorer.

    made: the method of the task that gave them
    """
    instances, known = [s.trace.instance for s in active], [s.known for s in active]
    try:
        rewards = score_answers(task, instances, [[row] for row in answers], known)
    except Exception as error:
        if isinstance(error, Raised) or not isinstance(error, TaskError):  # which names the answer
            _name_answer(error, task, instances, answers, made)
        raise
    for search, row, R in zip(active, answers, rewards, strict=True):
        search.take(call, row, R[0], search.origins)


def _name_answer(error: Exception, task: Task, instances, answers, made: str) -> None:
    """Add to the scorer's error which answer it is about: the first that raises by itself."""
    for x, row in zip(instances, answers, strict=True):
        for answer in row:
            try:
                score_answers(task, [x], [[[answer]]])
            except Exception:
                error.add_note(
                    f"task {task.name!r}: raised when scoring {shown(answer)}, which {made}(...) "
                    "gave; it must give answers in the form that parse(...) returns"
                )
                return
