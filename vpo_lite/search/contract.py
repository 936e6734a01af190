"""What a search asks of a task's values, and of a policy: what cannot work is a TaskError."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from ..checks import check_number, check_whole, shown
from ..messages import is_plain
from ..policy.policy import Policy
from ..tasks.base import Task, TaskError
from ..training.contract import blamed, prompt_of, w_star_of
from ..training.rollouts import token_limits
from .archive import check_preference

UNKNOWN = (
    "the files of this adapter do not say whether it was trained on prompts that show weights, so "
    "the search shows none; {cure}"
)


def target_of(task: Task, instance, weights: np.ndarray) -> float:
    """The score at which a search has reached its goal; infinity where it has none."""
    target = task.target(instance, weights)
    if isinstance(target, float) and target == np.inf:
        return target
    with blamed(task, "target(instance, weights)"):
        return check_number(target, "the score", "a number", -np.inf, np.inf)


def joined_of(task: Task, instance, first: str, second: str) -> list[str]:
    """The answers that are made of parts of two answers."""
    joined = task.combine(instance, first, second)
    several = isinstance(joined, Iterable) and not isinstance(joined, str)
    found = list(joined) if several else []
    if not several or not all(map(is_plain, found)):
        given = shown(found if several else joined)
        raise TaskError(f"task {task.name!r}: combine(...) gave {given}: expected answers, texts")
    return found


def mutation_of(task: Task, instance, answer: str | None, rng: np.random.Generator) -> str:
    """An answer with a random change. ValueError where the task knows no mutations."""
    if type(task).mutate is Task.mutate:
        raise ValueError(
            f"policy = None: task {shown(task.name)} knows no random mutations; override its "
            "mutate(instance, answer, rng), or give a policy"
        )
    mutation = task.mutate(instance, answer, rng)
    if not is_plain(mutation):
        given = f"mutate(instance, {shown(answer)}, rng) gave {shown(mutation)}"
        raise TaskError(f"task {task.name!r}: {given}: expected an answer, a text")
    return mutation


def shows_weights(policy: Policy, cure: str) -> bool:
    """Whether the policy was trained on prompts that show weights. A warning where nothing says so.

    cure: how the caller can say it
    """
    known = getattr(policy, "weight_in_prompt", False)
    if known is None:
        warnings.warn(UNKNOWN.format(cure=cure), stacklevel=4)
    return bool(known)


def to_show(weights: np.ndarray) -> np.ndarray:
    """The weights as training shows them in a prompt: none below 0, scaled to sum 1."""
    if weights.min() < 0:
        raise ValueError(
            f"weights = {shown(weights.tolist())}: with show_weights none may be below 0, since "
            "training shows none"
        )
    return weights / weights.sum()


def check_budgets(**most: int | None) -> None:
    """ValueError for a budget that is no whole number of at least 1. None: no limit."""
    for name, number in most.items():
        if number is not None:
            check_whole(number, name)


def check_empty(given, name: str) -> None:
    """ValueError unless a list that a search fills is empty, or None."""
    if given is not None and (not isinstance(given, list) or given):
        raise ValueError(f"{name} = {shown(given)}: expected an empty list")


def one_each(weights: Sequence | None, instances: Sequence) -> Sequence:
    """What is given as weights for each problem: an array, or None. ValueError unless there is one
    for each.
    """
    n = len(instances)
    if weights is None:
        return [None] * n
    arrays = hasattr(weights, "__len__") and all(hasattr(w, "__len__") for w in weights)
    if not arrays or len(weights) != n:
        got = f" holds {len(weights)} arrays" if arrays else f" = {shown(weights)}"
        raise ValueError(
            f"weights{got}: expected {n} arrays, one for each problem; [w] * {n} gives all the same"
        )
    return weights


def weights_of(task: Task, instance, given) -> np.ndarray:
    """The weights (d,) that are given for a problem, checked; w* where none are."""
    w_star = w_star_of(task, instance)
    weights = w_star if given is None else check_preference(given)
    if weights.shape != w_star.shape:
        raise ValueError(
            f"weights of shape {weights.shape}: expected {w_star.shape}, one for each objective"
        )
    return weights


def prompt_weights(policy: Policy, task: Task, instances: Sequence, weights) -> list:
    """What the prompt of each problem shows: the weights given, or w* where the policy was trained
    on prompts that show weights; else None.
    """
    if weights is None and not shows_weights(policy, "give weights if it was"):
        return [None] * len(instances)
    rows = zip(instances, one_each(weights, instances), strict=True)
    return [to_show(weights_of(task, x, given)) for x, given in rows]


def check_tags(policy: Policy, tags: Sequence[str]) -> None:
    """ValueError where the policy writes one of these closing tags as several tokens."""
    vocabulary = policy.tokenizer.get_vocab()
    for tag in tags:
        if tag not in vocabulary:
            raise ValueError(
                f"closing tag {shown(tag)} is not a single token of this policy, so sampling "
                "cannot stop there; use a pocket policy of this task, or add it to the tokenizer"
            )


def limits_of(
    policy: Policy, task: Task, m: int, instances, limit: int | None, weights: Sequence
) -> list[int]:
    """The token limit of one answer to each problem: ``limit``, or what it may need. TaskError
    where the model has too few positions for m of them.
    """
    check_budgets(max_new_tokens=limit)
    limits = token_limits(policy, task, 1, instances, limit)
    rows = zip(instances, weights, limits, strict=True)
    for x, w, most in rows if policy.most_positions else ():
        asked = policy.encode(prompt_of(task, x, m, weights=w, pocket=policy.pocket))
        policy.check_room(len(asked), m * most)
    return limits
