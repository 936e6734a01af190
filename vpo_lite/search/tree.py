"""Search in the tree of a policy's completions: token by token, or answer by answer.

Plain sampling reads one distribution over the next token for each token that it writes. Both
functions count their cost in such distributions and call them tokens, so they can be compared
with sampling at equal tokens.

- :func:`most_probable` finds the most probable answers. It samples nothing and repeats no answer.
  It sees no rewards before it ends.
- :func:`beam` grows sets answer by answer and goes on from the best ones. It sees rewards on the
  way.

Each step reads prompt and prefix again: no keys and values are kept. This is not counted.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..checks import check_alpha, check_whole
from ..exact import exact_set_reward
from ..policy.policy import Policy
from ..tasks.base import Task
from ..training.answers import Answers, effect_of, same_effect_of, score_answers
from ..training.contract import check_request, check_seed, prompt_of
from ..training.evaluate import ROWS
from ..training.rollouts import draw_uniforms, sample_answers
from .contract import check_budgets, check_empty, check_tags, limits_of, prompt_weights
from .found import Beam, Probable


def most_probable(
    policy: Policy,
    task: Task,
    instances: Sequence,
    *,
    answers: int,
    max_tokens: int,
    at_once: int = 1,
    max_new_tokens: int | None = None,
    weights: Sequence | None = None,
    results: list | None = None,
) -> list[Probable]:
    """The most probable answers to each problem: best-first search over tokens, with m = 1.

    A queue holds prefixes of completions. The most probable ones are read, and each next token
    makes a longer prefix. A completion ends with EOS, or with its closing tag where that is one
    token of the policy; it holds at most the tokens that one answer may need. It is returned once
    no prefix in the queue is more probable. So no completion left out is more probable than one
    that is returned. This is uniform-cost search; a token costs its negative log-probability.

    - answers: the search ends after so many of different effect; malformed ones do not count
    - max_tokens: budget for each problem; reading one prefix costs 1. It is never exceeded
    - at_once: prefixes of one problem that are read together. 1 is strictly best-first. More are
      faster, but the last of them may be read in vain.
    - max_new_tokens: of a completion; None: what one answer may need
    - weights: P arrays (d,) that the prompts show, scaled to sum 1. None: w* for a policy that was
      trained on prompts that show weights, else none
    - results: an empty list that gets the results before the first pass. After Ctrl-C it holds what
      was found: the answers are then scored, unless a second Ctrl-C comes

    A small budget may find no answer. Raises ValueError for numbers below 1, and for too few
    positions of the model.

    >>> import numpy as np, vpo_lite as vpo
    >>> from vpo_lite.tasks.programs import ProgramsTask
    >>> policy, task = vpo.load_policy("pocket-programs"), ProgramsTask()
    >>> (found,) = most_probable(policy, task, [task.instance(1)], answers=3, max_tokens=30)
    >>> found.answers, np.exp(found.logprobs).round(2).tolist(), found.spent
    (['max', 'plus', 'minus'], [0.26, 0.21, 0.19], Spent(calls=5, tokens=5, candidates=3))
    """
    check_request(policy, task, instances, 1)
    for name, number in (("answers", answers), ("max_tokens", max_tokens), ("at_once", at_once)):
        check_whole(number, name)
    check_empty(results, "results")
    shown = prompt_weights(policy, task, instances, weights)
    limits = limits_of(policy, task, 1, instances, max_new_tokens, shown)
    rows = zip(instances, shown, limits, strict=True)
    searches = [_BestFirst(policy, task, x, w, answers, max_tokens, limit) for x, w, limit in rows]
    found = [] if results is None else results
    found += [search.result for search in searches]
    try:
        _go(policy, searches, at_once)
    except BaseException:
        if results is not None:
            _score(task, searches)
        raise
    _score(task, searches)
    return found


def _go(policy: Policy, searches: Sequence["_BestFirst"], at_once: int) -> None:
    """Read prefixes until every search has ended."""
    per_pass = max(1, ROWS // at_once)
    while going := [search for search in searches if search.goes_on()]:
        for first in range(0, len(going), per_pass):
            part = going[first : first + per_pass]
            read = [search.pick(at_once) for search in part]
            logprobs = policy.next_logprobs(
                [search.prompt for search in part],
                [[prefix.ids for prefix in picked] for picked in read],
            )
            for search, picked, rows in zip(part, read, logprobs, strict=True):
                search.grow(picked, rows)


def _score(task: Task, searches: Sequence["_BestFirst"]) -> None:
    """Give all answers their rewards, in one call of the task's scorer."""
    results = [search.result for search in searches]
    for search, its in zip(searches, results, strict=True):
        its.logprobs = np.array(search.logprobs)
    instances, answers = [its.instance for its in results], [[its.answers] for its in results]
    for its, (R,) in zip(results, score_answers(task, instances, answers), strict=True):
        its.found = [one._replace(rewards=r) for one, r in zip(its.found, R, strict=True)]
        its.rewards = R


class _Prefix(NamedTuple):
    logprob: float
    ids: tuple[int, ...]


class _Children(NamedTuple):
    """The prefixes that continue one that was read, in order of probability: the first ones."""

    ids: tuple[int, ...]
    tokens: np.ndarray
    logprobs: np.ndarray


class _BestFirst:
    """The search for one problem.

    - queue: a heap of (-logprob, family, rank); only the most probable child of a family that is
      not read yet stands there, since the others come after it
    - complete: a heap of (-logprob, token ids) of completions that are not returned yet
    - result: without rewards; logprobs: of its answers
    """

    def __init__(self, policy: Policy, task: Task, instance, weights, answers, max_tokens, longest):
        self.task, self.instance, self.longest = task, instance, longest
        self.answers, self.max_tokens = answers, max_tokens
        self.prompt = prompt_of(task, instance, 1, weights=weights, pocket=policy.pocket)
        self.decode, self.eos_ids = policy.tokenizer.decode, policy.eos_ids
        closing = policy.tokenizer.get_vocab().get(f"</{task.tag}_1>")
        self.ends = sorted(self.eos_ids | ({closing} - {None}))
        self.families: list[_Children] = []
        self.queue: list[tuple[float, int, int]] = []
        self.complete: list[tuple[float, tuple[int, ...]]] = []
        self.result, self.logprobs, self.effects = Probable(instance, weights), [], set()

    def goes_on(self) -> bool:
        left = bool(self.queue) or not self.result.spent.calls
        return left and self.result.within(self.max_tokens, self.answers)

    def pick(self, most: int) -> list[_Prefix]:
        """Take the most probable prefixes out of the queue: at most so many, within the budget."""
        if not self.result.spent.calls:
            return [_Prefix(0.0, ())]
        picked: list[_Prefix] = []
        most = min(most, self.max_tokens - self.result.spent.tokens)
        while self.queue and len(picked) < most:
            cost, number, rank = heapq.heappop(self.queue)
            family = self.families[number]
            picked.append(_Prefix(-cost, (*family.ids, int(family.tokens[rank]))))
            self._wait(number, rank + 1)
        return picked

    def grow(self, picked: list[_Prefix], rows: torch.Tensor) -> None:
        """Put what may follow these prefixes into the queue; rows (n, V): log-probabilities."""
        self.result.pay(self.result.spent.calls + 1, len(picked))
        # Of a family so many may be read, and one more waits.
        needed = self.max_tokens - self.result.spent.tokens + 1
        for prefix, logprobs in zip(picked, rows.cpu().double(), strict=True):
            for end in self.ends:
                cost = -(prefix.logprob + logprobs[end].item())
                heapq.heappush(self.complete, (cost, (*prefix.ids, end)))
            if len(prefix.ids) + 1 < self.longest:
                logprobs[self.ends] = -torch.inf
                tokens, following = _most_probable_tokens(logprobs, needed)
                self.families.append(_Children(prefix.ids, tokens, prefix.logprob + following))
                self._wait(len(self.families) - 1, 0)
        while self.complete and (not self.queue or self.complete[0][0] <= self.queue[0][0]):
            self._return(*heapq.heappop(self.complete))

    def _wait(self, number: int, rank: int) -> None:
        logprobs = self.families[number].logprobs
        if rank < len(logprobs) and logprobs[rank] > -np.inf:
            heapq.heappush(self.queue, (-float(logprobs[rank]), number, rank))

    def _return(self, cost: float, ids: tuple[int, ...]) -> None:
        text = self.decode([i for i in ids if i not in self.eos_ids])
        (answer,) = self.task.parse(self.instance, text, 1)
        if answer is None or not self.result.within(None, self.answers):
            return
        effect = same_effect_of(self.task, self.instance, answer)
        if effect not in self.effects:
            self.effects.add(effect)
            self.logprobs.append(-cost)
            self.result.add(answer, np.empty(0))


def _most_probable_tokens(logprobs: torch.Tensor, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many tokens with their log-probabilities, in order; of equal ones the first.

    A vocabulary of 150,000 is not sorted for them.
    """
    most = min(most, len(logprobs))
    tokens = (logprobs >= logprobs.topk(most).values[-1]).nonzero()[:, 0]
    found = logprobs[tokens].sort(descending=True, stable=True)
    return tokens[found.indices][:most].numpy(), found.values[:most].numpy()


class _Set(NamedTuple):
    """A completion with some of m answers, their effects, and its rewards (m, d)."""

    text: str
    answers: list[str | None]
    effects: frozenset
    rewards: np.ndarray


def beam(
    policy: Policy,
    task: Task,
    instances: Sequence,
    *,
    m: int,
    width: int,
    branches: int,
    alpha: float = 1.0,
    seed: int = 0,
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    max_tokens: int | None = None,
    max_candidates: int | None = None,
    weights: Sequence | None = None,
    results: list | None = None,
) -> list[Beam]:
    """Beam search over sets of m answers, one answer a step.

    Each of at most ``width`` prefixes holds j whole answers. From each, ``branches`` next answers
    are sampled, up to the closing tag. The ``width`` prefixes with the highest set rewards go on,
    the best first. Of prefixes whose answers have the same effects only the first counts. A
    completion that ended too early competes with them unchanged.

    - alpha: concentration of the weights in the set reward
    - temperature: divides the logits
    - max_new_tokens: of one answer; None: what it may need
    - max_tokens, max_candidates: budgets of each problem. Once one is spent no prefix goes on, so
      the branches of the last may exceed it, and sets may hold fewer than m answers. In all at most
      branches * (1 + (m - 1) * width) answers are sampled.
    - weights: as in :func:`most_probable`
    - results: an empty list that gets the results before the first step. After Ctrl-C or an error
      of the scorer it holds what was found, and the sets of the last whole step

    Draws are keyed by (seed, "beam", j, (instance, prefix)): other problems change nothing. Raises
    ValueError for values below 1, for a policy that writes a closing tag as several tokens, and for
    too few positions of the model.

    >>> import vpo_lite as vpo
    >>> from vpo_lite.tasks.programs import ProgramsTask
    >>> policy, task = vpo.load_policy("pocket-programs"), ProgramsTask()
    >>> (found,) = beam(policy, task, [task.instance(1)], m=3, width=2, branches=3)
    >>> found.texts[0]
    '<program_1> plus </program_1> <program_2> minus </program_2> <program_3> max </program_3>'
    >>> found.set_rewards.round(2).tolist(), found.spent
    ([0.54, 0.46], Spent(calls=3, tokens=46, candidates=15))
    """
    check_request(policy, task, instances, m)
    for name, number in (("width", width), ("branches", branches)):
        check_whole(number, name)
    check_budgets(max_tokens=max_tokens, max_candidates=max_candidates)
    check_empty(results, "results")
    alpha, seed = check_alpha(alpha), check_seed(seed)
    tags = [f"</{task.tag}_{j}>" for j in range(1, m + 1)]
    check_tags(policy, tags)
    shown = prompt_weights(policy, task, instances, weights)
    limits = limits_of(policy, task, m, instances, max_new_tokens, shown)
    results = [] if results is None else results
    results += [Beam(x, w) for x, w in zip(instances, shown, strict=True)]
    beams = [[_Set("", [], frozenset(), np.empty(0))] for _ in instances]
    for j, tag in enumerate(tags):
        end = tags[j - 1] if j else ""
        rows = []
        for p, result in enumerate(results):
            if result.within(max_tokens, max_candidates):
                rows += [(p, s) for s in beams[p] if s.text.endswith(end)]
                beams[p] = [s for s in beams[p] if not s.text.endswith(end)]
        step = max(1, ROWS // branches)
        for part in (rows[i : i + step] for i in range(0, len(rows), step)):
            keys = [(seed, "beam", j, (task.key(instances[p]), s.text)) for p, s in part]
            uniforms = draw_uniforms(branches, [limits[p] for p, _ in part], keys)
            how = dict(weights=[shown[p] for p, _ in part], prefixes=[s.text for _, s in part])
            how |= dict(stop=tag, temperature=temperature)
            asked = [instances[p] for p, _ in part]
            groups = sample_answers(policy, task, asked, m, uniforms, **how).groups
            for (p, prefix), group in zip(part, groups, strict=True):
                if not results[p].within(max_tokens, max_candidates):
                    beams[p].append(prefix)
                    continue
                beams[p] += _sets(task, group)
                for row, R, tokens in zip(group.answers, group.rewards, group.tokens, strict=True):
                    results[p].pay(j + 1, int(tokens))
                    if row[j] is not None:
                        results[p].add(row[j], R[j], [a for a in row[:j] if a is not None])
        best = [_best(sets, width, alpha) for sets in beams]
        beams = [kept for kept, _ in best]
        for result, (kept, values) in zip(results, best, strict=True):
            result.texts, result.answers, _, rewards = map(list, zip(*kept, strict=True))
            result.rewards, result.set_rewards = np.stack(rewards), values
    return results


def _sets(task: Task, group: Answers) -> list[_Set]:
    """The completions of a group as sets."""
    made = []
    for text, row, R in zip(group.texts, group.answers, group.rewards, strict=True):
        written = [(a, r) for a, r in zip(row, R, strict=True) if a is not None]
        effects = frozenset(effect_of(task, group.instance, a, r) for a, r in written)
        made.append(_Set(text, row, effects, R))
    return made


def _best(sets: Sequence[_Set], width: int, alpha: float) -> tuple[list[_Set], np.ndarray]:
    """The sets with the highest set rewards, one for each set of effects, best first; and these
    rewards.
    """
    first: dict[frozenset, _Set] = {}
    for found in sets:
        first.setdefault(found.effects, found)
    kept = list(first.values())
    values = exact_set_reward(np.stack([s.rewards for s in kept]), alpha)
    order = np.argsort(-values, kind="stable")[:width]  # of equal ones the first
    return [kept[i] for i in order], values[order]
