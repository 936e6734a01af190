"""From problems to scored answers: ask, sample, read."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..policy.policy import Policy
from ..policy.sampling import Rollouts
from ..randomness import generator
from ..tasks.base import Prompt, Task
from .answers import Answers, read_answers
from .contract import check_problem, prompt_of, tokens_of


class Sampled(NamedTuple):
    """One :class:`Answers` per prompt, the rollouts from which they were read, and how long it took
    to read and score them.
    """

    groups: list[Answers]
    rollouts: Rollouts
    scoring_seconds: float


def sample_answers(
    policy: Policy,
    task: Task,
    instances: Sequence,
    m: int,
    uniforms: np.ndarray,
    *,
    weights=None,
    prefixes: Sequence[str] | None = None,
    notes: Sequence[str] | None = None,
    stop: str | None = None,
    temperature: float = 1.0,
    dtype: str = "auto",
    compiled: bool = False,
    at_once: int | None = None,
    known: Sequence[dict] | None = None,
) -> Sampled:
    """Ask the policy for m answers to each of P problems, G times, and score them.

    - uniforms (P, G, T): in [0, 1), one for each token that may be sampled; NaN after them
    - weights: P arrays (d,) that the prompts show, or None
    - prefixes: P beginnings of the completions, or None
    - notes: P texts appended to requests in words, or None
    - stop: a token that ends a rollout, too; None for the one that the policy names, if any
    - temperature, dtype, compiled, at_once: as in :meth:`Policy.sample`
    - known: as for :func:`score_answers`

    Returns a :class:`Sampled`: P groups with rewards (G, m, d), and P * G rollouts. Raises
    TaskError for what the task gives that cannot work.
    """
    weights = [None] * len(instances) if weights is None else weights
    prompts = [
        prompt_of(task, x, m, weights=w, pocket=policy.pocket)
        for x, w in zip(instances, weights, strict=True)
    ]
    if prefixes is not None:
        prompts = [replace(p, prefix=text) for p, text in zip(prompts, prefixes, strict=True)]
    if notes is not None:
        prompts = [noted(p, note) for p, note in zip(prompts, notes, strict=True)]
    stop = last_word(policy, m) if stop is None else stop
    how = dict(stop=stop, dtype=dtype, compiled=compiled, at_once=at_once)
    rollouts = policy.sample(prompts, uniforms, temperature, **how)
    texts, G = policy.texts(rollouts, prompts), np.shape(uniforms)[1]
    started = time.perf_counter()
    groups = read_answers(
        task,
        instances,
        [texts[i : i + G] for i in range(0, len(texts), G)],
        m,
        prompts=prompts,
        tokens=rollouts.mask.sum(-1).cpu().numpy().reshape(-1, G),
        truncated=rollouts.truncated.cpu().numpy().reshape(-1, G),
        known=known,
    )
    return Sampled(groups, rollouts, time.perf_counter() - started)


def last_word(policy: Policy, m: int) -> str | None:
    """The token with which the last of m answers ends, where the policy names one.

    Nothing after it is read or trained.
    """
    word = (policy.pocket or {}).get("stop")
    return None if word is None else word.replace("{m}", str(m))


def token_limits(
    policy: Policy, task: Task, m: int, instances, limit: int | None = None
) -> list[int]:
    """Check each problem, and give the token limit of a rollout on it: ``limit``, or what m answers
    may need. Whoever samples begins here. TaskError for a problem that no trainer can use.
    """
    for x in instances:
        check_problem(task, x)
    return [limit or tokens_of(task, x, m, policy.pocket) for x in instances]


def draw_uniforms(rollouts: int, limits: Sequence[int], keys: Sequence[tuple]) -> np.ndarray:
    """Uniforms (P, G, T) for the tokens of P prompt groups, NaN behind the limit of each.

    keys: (seed, purpose, step, key) of each group. Those of a group are drawn token by token, so a
    larger limit only adds some, and they do not depend on the rest of the batch.

    >>> draw_uniforms(1, [1, 2], [(0, "rollout", 0, "a"), (0, "rollout", 0, "c")]).round(2).tolist()
    [[[0.92, nan]], [[0.75, 0.82]]]
    """
    uniforms = np.full((len(limits), rollouts, max(limits)), np.nan)
    for row, limit, key in zip(uniforms, limits, keys, strict=True):
        row[:, :limit] = generator(*key).random((limit, rollouts)).T
    return uniforms


def noted(prompt: Prompt, note: str) -> Prompt:
    """A request in words with a note at its end."""
    *turns, last = prompt.messages
    content = f"{last['content']}\n\n{note}" if note else last["content"]
    return replace(prompt, messages=(*turns, {**last, "content": content}))
