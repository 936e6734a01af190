"""What a search asks of a task's values, and of a policy: what cannot work is a TaskError."""

from collections.abc import Iterable

import numpy as np

from ..checks import check_number, check_whole, shown
from ..messages import is_plain
from ..policy.policy import Policy
from ..tasks.base import Task, TaskError
from ..training.contract import blamed, prompt_of
from ..training.rollouts import token_limits


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


def limits_of(policy: Policy, task: Task, m: int, instances, limit: int | None) -> list[int]:
    """The token limit of one answer to each problem: ``limit``, or what it may need. TaskError
    where the model has too few positions for m of them.
    """
    if limit is not None:
        check_whole(limit, "max_new_tokens")
    limits = token_limits(policy, task, 1, instances, limit)
    for x, most in zip(instances, limits, strict=True) if policy.most_positions else ():
        asked = policy.encode(prompt_of(task, x, m, pocket=policy.pocket))
        policy.check_room(len(asked), m * most)
    return limits
