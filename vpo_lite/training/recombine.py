"""Recombination: the best set found so far, as one more rollout.

A policy finds a good answer long before it writes two good ones in one rollout. VPO learns from
sets that were written, so it may settle on the first treasure meanwhile. Method `vpo_recombined`
remembers, for each problem, the best set of m answers found so far, whoever wrote them and in which
step. In each group that holds nothing better, that set replaces one rollout: the one whose score is
nearest to the group's mean, from which there is least to learn. So a rare answer is learnt from at
once, in the set where it counts, and it is not forgotten.

Answers are cut out of texts by their tags, so the task must have the usual parser. The set is a
text like those that the policy writes; its answers keep their rewards. Its tokens are not sampled,
so the gradient is no longer that of the policy's own rollouts: it leads to sets that the policy
could write. The clipped ratio starts at 1, as for all rollouts. To learn from the best that was
found before is self-imitation (Oh et al. 2018, arXiv 1806.05635), here of sets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..estimators import rollout_scores
from ..metrics import best_subset
from ..policy.policy import Policy
from ..policy.sampling import Rollouts
from ..tasks.base import Task
from ..tasks.functions import ByFunctions
from ..tasks.wording import read_numbered
from .answers import Answers
from .rollouts import last_word
from .schemas import BestAnswer, BestSets

MOST_PROBLEMS = 4096  # whose sets are kept: they stand in every state


class Recombined(NamedTuple):
    """Rewards and rollouts for training, and which rollouts gave way.

    - rewards: P arrays (G, m, d)
    - rollouts: P * G rows
    - gave_way (P, G): booleans, at most one True in a group
    """

    rewards: list[np.ndarray]
    rollouts: Rollouts
    gave_way: np.ndarray


def recombine(
    policy: Policy,
    task: Task,
    groups: Sequence[Answers],
    rollouts: Rollouts,
    rewards: Sequence[np.ndarray],
    found: BestSets,
    weights,
    alpha: float,
    limits: Sequence[int],
) -> Recombined:
    """Put the best set found so far into each group.

    - rewards: P arrays (G, m, d), those that training goes by
    - found: what earlier steps found, of the last 4,096 problems; it is brought up to date
    - weights: P arrays (K, d) that score the rollouts, or None for the exact expectation
    - limits: the token limit of a rollout of each group

    A group stays as it is where one of its rollouts is better than that set under the weights, and
    where that set would take more tokens than the limit.
    """
    written = [_written(task, group) for group in groups]
    for group, answers in zip(groups, written, strict=True):
        _remember(task, group, answers, found, alpha)
    R = [vectors.copy() for vectors in rewards]
    scores = rollout_scores("vpo", R, weights=weights, alpha=alpha)  # (P, G)
    gave_way, rows = np.zeros(scores.shape, dtype=bool), {}
    for p, group in enumerate(groups):
        best = found[task.key(group.instance)]
        best = _filled(group, written[p], best, int(scores[p].argmax()))
        if not best:
            continue
        vectors = np.array([[answer.rewards for answer in best]])
        own = None if weights is None else [weights[p]]
        worth = rollout_scores("vpo", [vectors], weights=own, alpha=alpha)[0, 0]
        first = p * len(R[p])
        theirs = rollouts.rows(slice(first, first + len(R[p])))
        text = "</think>\n\n" * policy.opens_thought + _text_of(task, best)  # else none is read
        ids = _token_ids(policy, theirs, text, len(best))
        if worth >= scores[p].max() and len(ids) <= limits[p]:
            place = int(abs(scores[p] - scores[p].mean()).argmin())
            gave_way[p, place], R[p][place], rows[first + place] = True, vectors[0], ids
    for key in list(found)[:-MOST_PROBLEMS]:  # those not met for longest
        del found[key]
    return Recombined(R, _with_rows(rollouts, rows, policy.pad_id), gave_way)


def check_task(task: Task) -> None:
    """ValueError for a task with a parser of its own: only tagged answers can be put together."""
    if type(task).parse not in (Task.parse, ByFunctions.parse):
        raise ValueError(
            f"method vpo_recombined joins answers written as <{task.tag}_1> ... </{task.tag}_1>, "
            f"but task {task.name!r} has a parser of its own: use method vpo"
        )


def _written(task: Task, group: Answers) -> dict[tuple[int, int], BestAnswer]:
    """The readable answers of a group, by rollout and slot."""
    m = group.parsed.shape[1]
    bodies = [read_numbered(text, m, task.tag) for text in group.texts]
    return {
        (g, i): BestAnswer(bodies[g][i], i, tuple(group.rewards[g, i].tolist()))
        for g, i in np.argwhere(group.parsed).tolist()
    }


def _remember(task: Task, group: Answers, answers, found: BestSets, alpha: float) -> None:
    """Keep the best set of the answers kept so far and the valid ones of this group."""
    key, m = task.key(group.instance), group.parsed.shape[1]
    kept = {answer.rewards: answer for answer in found.pop(key, ())}
    for at in map(tuple, np.argwhere(group.valid & group.parsed).tolist()):
        kept.setdefault(answers[at].rewards, answers[at])  # of equal rewards the first found stays
    pool = list(kept.values())
    chosen = best_subset(list(kept), m, alpha).indices if pool else []
    found[key] = [pool[j] for j in chosen]


def _filled(group: Answers, answers, best: list[BestAnswer], leader: int) -> list[BestAnswer]:
    """The best set with m answers, in the order of the slots that they were written in.

    Further answers of the group fill it up, first those of its best rollout. Nothing is returned
    where nothing valid was found, and where the group does not suffice to fill it.
    """
    m, taken = group.parsed.shape[1], {answer.body for answer in best}
    if not best or group.prompt.prefix:  # the tokens of a prefix are not the policy's
        return []
    best = list(best)
    for at in sorted(answers, key=lambda at: at[0] != leader):
        if len(best) < m and answers[at].body not in taken:
            best.append(answers[at])
            taken.add(answers[at].body)
    return sorted(best, key=lambda answer: answer.slot) if len(best) == m else []


def _text_of(task: Task, answers: Sequence[BestAnswer]) -> str:
    """These answers as one completion, each as it was written."""
    tagged = (f"<{task.tag}_{i}>{a.body}</{task.tag}_{i}>" for i, a in enumerate(answers, start=1))
    return " ".join(tagged)


def _token_ids(policy: Policy, rollouts: Rollouts, text: str, m: int) -> list[int]:
    """The tokens of a completion of m answers, with its end as in these rollouts of its group.

    After a word that ends a rollout nothing is sampled. Else an EOS follows: of several the one
    that ended a rollout of the group.
    """
    ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    word = last_word(policy, m)
    if word is not None and ids[-1] == policy.token_id(word):
        return ids
    lengths = rollouts.mask.sum(-1, keepdim=True)
    last = rollouts.tokens.gather(1, lengths - 1)[:, 0].tolist()
    ends = [token for token in last if token in policy.eos_ids]
    end = policy.tokenizer.eos_token_id
    return [*ids, ends[0] if ends else min(policy.eos_ids) if end is None else end]


def _with_rows(rollouts: Rollouts, written: dict[int, list[int]], pad_id: int) -> Rollouts:
    """The rollouts with other tokens in some rows. Nobody sampled these: their log-probabilities
    are NaN.
    """
    longest = max([rollouts.tokens.shape[1], *map(len, written.values())])
    wider = longest - rollouts.tokens.shape[1]
    tokens = torch.nn.functional.pad(rollouts.tokens, (0, wider), value=pad_id)
    mask = torch.nn.functional.pad(rollouts.mask, (0, wider))
    logprobs = torch.nn.functional.pad(rollouts.logprobs, (0, wider))
    truncated = rollouts.truncated.clone()
    for row, ids in written.items():
        tokens[row], mask[row], logprobs[row], truncated[row] = pad_id, False, 0.0, False
        tokens[row, : len(ids)] = torch.tensor(ids, device=tokens.device)
        mask[row, : len(ids)] = True
        logprobs[row, : len(ids)] = torch.nan
    return rollouts._replace(tokens=tokens, mask=mask, logprobs=logprobs, truncated=truncated)
