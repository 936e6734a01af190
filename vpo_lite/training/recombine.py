"""Recombination: the best set that a group's answers make, as one more rollout.

A policy finds a good answer long before it writes two good ones in one rollout. VPO learns from
sets that were written, so it may settle on the first treasure meanwhile. Method `vpo_recombined`
puts the best set that the answers of a group make, whoever wrote them, in the place of the group's
worst rollout. So a rare answer is learnt from at once, in the set where it counts.

Answers are cut out of texts by their tags, so the task must have the usual parser. The set is a
text like those that the policy writes; its answers keep their rewards. Its tokens are not sampled,
so the gradient is no longer that of the policy's own rollouts: it leads to sets that the policy
could write. The clipped ratio starts at 1, as for all rollouts.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..estimators import rollout_scores
from ..metrics import best_subset
from ..policy.policy import Policy
from ..policy.sampling import Rollouts
from ..tasks.base import Task, read_numbered
from .rollouts import Answers, Sampled, find_repeats


def recombine(
    policy: Policy, task: Task, groups: Sequence[Answers], rollouts: Rollouts, weights, alpha: float
) -> tuple[Sampled, list[int | None]]:
    """Groups and rollouts with the recombined sets in their places, and those places.

    - weights: P arrays (K, d) that score the rollouts, or None for the exact expectation
    - the places: for each prompt the index of the rollout that gave way, or None
    """
    G = len(groups[0].texts)
    groups, places, written = list(groups), [], {}
    for p, group in enumerate(groups):
        place, chosen = _best_set(task, group, None if weights is None else [weights[p]], alpha)
        if chosen is not None:
            text = _text_of(task, group, chosen)
            ids = written[p * G + place] = _token_ids(policy, text)
            groups[p] = _with_set(task, group, place, chosen, text, len(ids))
        places.append(None if chosen is None else place)
    return Sampled(groups, _with_rows(rollouts, written, policy.pad_id)), places


def check_task(task: Task) -> None:
    """ValueError for a task with a parser of its own: only tagged answers can be put together."""
    if type(task).parse is not Task.parse:
        raise ValueError(
            f"method vpo_recombined joins answers written as <{task.tag}_1> ... </{task.tag}_1>, "
            f"but task {task.name!r} has a parser of its own: use method vpo"
        )


def _best_set(task: Task, group: Answers, weights, alpha: float):
    """The worst rollout of a group, and the best set of its valid answers: m pairs (rollout, slot).
    None instead if there are none, or if a rollout is better under the weights.

    The answers stand in the order of the slots that they were written in. A best set of fewer than
    m answers is filled up with further answers, first those of the best rollout.
    """
    R = group.for_training(task.worst(group.instance))  # (G, m, d)
    G, m, _ = R.shape
    scores = rollout_scores("vpo", [R], weights=weights, alpha=alpha)[0]
    worst, leader = int(scores.argmin()), int(scores.argmax())
    at = [(g, i) for i in range(m) for g in range(G) if group.valid[g, i]]
    if not at or group.prompt.prefix:  # the tokens of a prefix are not the policy's
        return worst, None
    vectors, first = np.unique([group.rewards[a] for a in at], axis=0, return_index=True)
    best = [at[first[i]] for i in best_subset(vectors, m, alpha).indices]
    readable = [(leader, i) for i in range(m) if group.parsed[leader, i]]
    filled = list(dict.fromkeys([*best, *readable, *at]))[:m]
    if len(filled) < m:
        return worst, None
    chosen = sorted(filled, key=lambda a: a[1])
    better = np.array([[group.rewards[a] for a in chosen]])
    if rollout_scores("vpo", [better], weights=weights, alpha=alpha)[0, 0] < scores[leader]:
        return worst, None
    return worst, chosen


def _text_of(task: Task, group: Answers, chosen) -> str:
    """These answers as one completion, each as it was written."""
    m = len(chosen)
    bodies = [read_numbered(group.texts[g], m, task.tag)[i] for g, i in chosen]
    tagged = (f"<{task.tag}_{i}>{b}</{task.tag}_{i}>" for i, b in enumerate(bodies, start=1))
    return " ".join(tagged)


def _with_set(task: Task, group: Answers, place: int, chosen, text: str, tokens: int) -> Answers:
    """The group with these answers in the place of a rollout. They keep the rewards that they have:
    scoring an answer may be slow.
    """
    names = ("rewards", "parsed", "valid", "solved", "repeats", "tokens", "truncated")
    texts, answers = [*group.texts], [*group.answers]
    arrays = {name: getattr(group, name).copy() for name in names}
    texts[place], answers[place] = text, [group.answers[g][i] for g, i in chosen]
    for name in ("rewards", "parsed", "valid", "solved"):
        arrays[name][place] = [getattr(group, name)[a] for a in chosen]
    arrays["repeats"][place] = find_repeats(task, group.instance, [answers[place]])[0]
    arrays["tokens"][place], arrays["truncated"][place] = tokens, False
    return replace(group, texts=texts, answers=answers, **arrays)


def _token_ids(policy: Policy, text: str) -> list[int]:
    """The tokens of a completion, its end included."""
    end = policy.tokenizer.eos_token_id
    ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*ids, min(policy.eos_ids) if end is None else end]


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
