"""From texts to scored answers: parse, score, mark repeats."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_finite, shown
from ..tasks.base import Prompt, Task
from ..tasks.task_errors import TaskError, called
from .contract import blamed, flags_of, worst_of

CLOSE = 1e-3
FEW = 10  # answers that differ from others of their rollout; of fewer nothing is said


class Pooled(NamedTuple):
    """n answers to one problem in one row: rewards (n, d), and booleans (n,), as in Answers."""

    rewards: np.ndarray
    parsed: np.ndarray
    repeats: np.ndarray
    valid: np.ndarray
    solved: np.ndarray


@dataclass(frozen=True)
class Answers:
    """The answers of one prompt group, with their rewards.

    - instance, prompt: the problem and the request
    - texts (G): completions, with the prompt's prefix
    - answers (G, m): parsed answers, None where missing or malformed
    - rewards (G, m, d): as measured; None has the worst vector, a repeat keeps its own
    - parsed, valid, solved (G, m): booleans
    - repeats (G, m): booleans; a repeat has the effect of an earlier answer of its rollout
    - tokens (G,): how many were sampled
    - truncated (G,): booleans; the token limit came before the end
    """

    instance: Any
    prompt: Prompt
    texts: list[str]
    answers: list[list[str | None]]
    rewards: np.ndarray
    parsed: np.ndarray
    repeats: np.ndarray
    valid: np.ndarray
    solved: np.ndarray
    tokens: np.ndarray
    truncated: np.ndarray

    def for_training(self, worst: np.ndarray, pay_repeats: bool = False) -> np.ndarray:
        """The rewards (G, m, d) for training. A repeat has the worst vector, or keeps its own."""
        if pay_repeats:
            return self.rewards
        return np.where(self.repeats[..., None], worst, self.rewards)

    def pooled(self, most: int | None = None) -> Pooled:
        """The answers of all rollouts in one row, one rollout after the other; at most so many."""
        parts = (getattr(self, name) for name in Pooled._fields)
        return Pooled(*(part.reshape(-1, *part.shape[2:])[:most] for part in parts))


def read_answers(
    task: Task,
    instances: Sequence,
    texts: Sequence[Sequence[str]],
    m: int,
    *,
    prompts: Sequence[Prompt] | None = None,
    tokens: np.ndarray | None = None,
    truncated: np.ndarray | None = None,
    known: Sequence[dict] | None = None,
) -> list[Answers]:
    """Parse and score completions from any source: texts (P, G) -> P groups.

    - prompts: a prompt's prefix is put before its completions
    - tokens, truncated (P, G): 0 and False where they are not given
    - known: as for :func:`score_answers`

    Raises TaskError where the task's parser or scorer gives what cannot work.
    """
    prompts = [Prompt()] * len(instances) if prompts is None else prompts
    shape = (len(instances), len(texts[0]))
    tokens = np.zeros(shape, dtype=int) if tokens is None else tokens
    truncated = np.zeros(shape, dtype=bool) if truncated is None else truncated
    whole = [[_joined(p, text) for text in group] for p, group in zip(prompts, texts, strict=True)]
    answers = [
        [_parsed(task, x, text, m) for text in group]
        for x, group in zip(instances, whole, strict=True)
    ]
    rewards = score_answers(task, instances, answers, known)
    return [
        Answers(
            instance=x,
            prompt=prompts[p],
            texts=whole[p],
            answers=answers[p],
            rewards=rewards[p],
            parsed=np.array([[a is not None for a in row] for row in answers[p]], dtype=bool),
            repeats=find_repeats(task, x, answers[p], rewards[p]),
            valid=flags_of(task, "valid", x, rewards[p]),
            solved=flags_of(task, "solved", x, rewards[p]),
            tokens=tokens[p],
            truncated=truncated[p],
        )
        for p, x in enumerate(instances)
    ]


def merged(groups: Sequence[Answers]) -> Answers:
    """Several groups on one instance as one group, with the prompt of the first."""
    arrays = ("rewards", "parsed", "repeats", "valid", "solved", "tokens", "truncated")
    return Answers(
        instance=groups[0].instance,
        prompt=groups[0].prompt,
        texts=[text for g in groups for text in g.texts],
        answers=[row for g in groups for row in g.answers],
        **{name: np.concatenate([getattr(g, name) for g in groups]) for name in arrays},
    )


def scored_alike(first, second) -> bool:
    """Whether the same answers earned the same twice, up to 0.001 of a reward or of 1: a model that
    judges a batch may round otherwise.

    >>> scored_alike([0.5, 20.0], [0.5004, 20.01]), scored_alike([0.5], [0.6])
    (True, False)
    """
    return np.allclose(first, second, rtol=CLOSE, atol=CLOSE)


def by_chance(task: Task, pool: Answers) -> bool:
    """Whether the answers to one problem earn other rewards when scored again, by themselves."""
    (again,) = score_answers(task, [pool.instance], [pool.answers])
    return not scored_alike(again, pool.rewards)


BY_CHANCE = (
    "scored again by themselves, the answers to the first problem earn different rewards: rewards "
    "are random, or depend on the other answers of a call, so no figure repeats exactly"
)


class Judged(NamedTuple):
    """The m answers of one text: rewards (m, d), and booleans (m,)."""

    rewards: np.ndarray
    valid: np.ndarray
    solved: np.ndarray


def judge(task: Task, asked: Sequence[tuple[Any, str, int]]) -> list[Judged]:
    """Score texts from any source: triples (instance, text, m), all in one call of the scorer.

    A missing or malformed answer has the worst vector. Every answer keeps its own vector, also a
    repeat. Raises TaskError where training would.
    """
    parsed = [[_parsed(task, x, text, m)] for x, text, m in asked]
    instances = [x for x, *_ in asked]
    return [
        Judged(R, flags_of(task, "valid", x, R), flags_of(task, "solved", x, R))
        for x, (R,) in zip(instances, score_answers(task, instances, parsed), strict=True)
    ]


def score_answers(
    task: Task, instances: Sequence, answers: Sequence, known: Sequence[dict] | None = None
) -> list[np.ndarray]:
    """Reward vectors of P groups of answers: one array (G, m, d) per group.

    - answers: P lists of G lists of m answers; None gets the worst vector. The task scores all
      groups in one call
    - known: P dicts from answers to their rewards (d,). An answer of these is not scored again, and
      they get what is scored now. None: every answer is scored, also one that is there twice

    Raises TaskError for scores of a wrong shape, and for those that are no real,
    finite, unmasked numbers of at most 1e100 in size.
    """
    flat = [[a for row in group for a in row if a is not None] for group in answers]
    asked = flat
    if known is not None:
        pairs = zip(flat, known, strict=True)
        flat = [[a for a in dict.fromkeys(texts) if a not in there] for texts, there in pairs]
    scored = called(task, "score", instances, flat)
    listed = isinstance(scored, Iterable) and getattr(scored, "ndim", 1) > 0
    if not listed:
        raise TaskError(
            f"task {task.name!r}: score(...) gave {shown(scored)}: expected a list of {len(flat)} "
            "arrays, one for each problem"
        )
    scored = list(scored)
    if len(scored) != len(flat):
        raise TaskError(
            f"task {task.name!r} gave scores of {len(scored)} problems: expected {len(flat)}"
        )
    rewards = []
    for p, (x, group, texts, vectors) in enumerate(
        zip(instances, answers, flat, scored, strict=True)
    ):
        worst = worst_of(task, x)
        R = np.tile(worst, (len(group), len(group[0]), 1))
        parsed = np.array([[a is not None for a in row] for row in group], dtype=bool)
        found = _scores(task, texts, vectors, len(worst))
        if known is not None:
            known[p].update(zip(texts, found, strict=True))
            found = [known[p][a] for a in asked[p]]
        R[parsed] = np.reshape(found, (-1, len(worst)))
        rewards.append(R)
    return rewards


def _scores(task: Task, texts: Sequence[str], vectors, d: int) -> np.ndarray:
    """The scores (n, d) that the task gave n answers of one problem."""
    expected = (len(texts), d)

    def check_shape(shape) -> None:
        if shape != expected and (texts or 0 not in shape):
            raise TaskError(f"task {task.name!r} gave scores of shape {shape}: expected {expected}")

    check_shape(getattr(vectors, "shape", expected))
    try:
        checked = check_finite(vectors, "the array", 0)
    except ValueError as error:
        for text, vector in zip(texts, _rows(vectors, len(texts)), strict=False):
            with blamed(task, f"score(...) gave answer {shown(text)} the rewards {shown(vector)}"):
                check_finite(vector, "the vector", 0)
        raise TaskError(
            f"task {task.name!r} gave scores that are no array of numbers: expected {expected} "
            f"({error})"
        ) from error
    check_shape(checked.shape)
    return checked.reshape(expected)


def _rows(vectors, count: int) -> Sequence:
    """The vectors one by one, where there is one for each answer."""
    listed = isinstance(vectors, list | tuple | np.ndarray)
    return vectors if listed and len(vectors) == count else ()


def find_repeats(
    task: Task, instance, answers: Sequence[Sequence[str | None]], rewards: np.ndarray
) -> np.ndarray:
    """Booleans (G, m): whether an answer has the effect of an earlier one of its rollout.

    rewards (G, m, d): of the answers, where their vectors tell repeats
    """
    repeats = np.zeros((len(answers), len(answers[0])), dtype=bool)
    for g, row in enumerate(answers):
        seen = set()
        for i, answer in enumerate(row):
            if answer is not None:
                effect = effect_of(task, instance, answer, rewards[g, i])
                repeats[g, i] = effect in seen
                seen.add(effect)
    return repeats


def effect_of(task: Task, instance, answer: str, rewards: np.ndarray) -> Hashable:
    """What two answers share that do the same; rewards (d,): of this answer, if these tell it."""
    if task.repeats_by_reward:  # no judge is asked twice
        return tuple(rewards.tolist())
    return same_effect_of(task, instance, answer)


def same_effect_of(task: Task, instance, answer: str) -> Hashable:
    """What the task's ``same_effect`` gives: a value that can be equal to another one."""
    effect, odd = task.same_effect(instance, answer), ""
    try:
        hash(effect)
    except TypeError:
        odd = "expected a hashable value, such as a text or a tuple"
    if effect is None:
        odd = "with None every answer would be a repeat; did you forget return?"
    parts = effect if isinstance(effect, tuple) else (effect,)
    if any(isinstance(x, float | np.floating) and np.isnan(x) for x in parts):
        odd = "NaN is not equal to itself, so no answer would be a repeat; expected another value"
    if odd:
        what = f"same_effect(instance, {shown(answer)}) = {shown(effect)}"
        raise TaskError(f"task {task.name!r}: {what}: {odd}")
    return effect


def differing(pool: Answers) -> tuple[int, int]:
    """How many answers differ in their text from all earlier ones of their rollout, without its
    first, and how many of these are repeats.
    """
    differ = again = 0
    for row, repeats in zip(pool.answers, pool.repeats, strict=True):
        seen: set[str] = set()
        for answer, repeat in zip(row, repeats.tolist(), strict=True):
            if answer is not None and answer not in seen:
                differ, again = differ + bool(seen), again + repeat
                seen.add(answer)
    return differ, again


def same_effect_rate(task: Task, counts: Iterable[tuple[int, int]]) -> float | None:
    """The share of differing answers that are repeats, from :func:`differing` of each pool; None
    for fewer than ten such answers, and for a task whose rewards tell repeats.
    """
    differ, again = (sum(column) for column in zip(*counts, strict=True))
    return None if task.repeats_by_reward or differ < FEW else again / differ


def _joined(prompt: Prompt, text: str) -> str:
    """A completion after its prompt's prefix. Symbols have a blank between them."""
    return prompt.prefix + (" " if prompt.prefix and prompt.symbols else "") + text


def _parsed(task: Task, instance, text: str, m: int) -> list[str | None]:
    """The m answers in a completion. TaskError where the task's parser gives anything else."""
    answers = called(task, "parse", instance, text, m)
    listed = isinstance(answers, list | tuple) and len(answers) == m
    if not listed or not all(a is None or isinstance(a, str) for a in answers):
        raise TaskError(
            f"task {task.name!r} parsed {shown(text)} as {shown(answers)}: expected a list of m "
            f"= {m} entries, each a text or None"
        )
    return list(answers)
