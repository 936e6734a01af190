"""What the trainer asks of a task's values: before the first step, and wherever it uses them.

A value that cannot work is a TaskError that names the task and the method. So is an exception in a
prompt, parser or scorer of a user's task; an exception in other methods passes through unchanged.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from .. import metrics
from ..checks import (
    LARGEST,
    LARGEST_WEIGHT,
    MOST_OBJECTIVES,
    check_finite,
    check_rewards,
    check_whole,
    is_below,
    is_whole,
    shown,
    told_of,
)
from ..messages import is_encodable, is_plain
from ..options import Option
from ..tasks.base import Prompt, Task
from ..tasks.reward_functions import RewardFunctions
from ..tasks.task_errors import TaskError, called
from .single import check_single

EARLY = 8  # training problems that are looked at before a run is made, as for its memory
NO_FRONT = "; return None where there is no such front"
MOST_TOKENS = 10**6  # as for max_new_tokens
NEEDS_OPTIONS = (
    "prompt(instance, m) must take weights=None and pocket=None by name, too; **_ as its last "
    "parameter takes both"
)


def check_given(task) -> None:
    """ValueError for what is often given in the place of a task: its name."""
    if not isinstance(task, Task):
        raise ValueError(f"task = {shown(task)}: expected a Task object")


def check_fit(policy, task, m: int) -> None:
    """ValueError unless the policy can be asked for m answers to a problem of the task, and for
    what is often given in its place: its name, or a model without tokenizer.
    """
    if not callable(getattr(policy, "sample", None)):
        named = isinstance(policy, str | os.PathLike)
        cure = (
            f"give load_policy({shown(os.fspath(policy), 200)})"
            if named
            else "save it, and give load_policy(folder)"
        )
        raise ValueError(f"policy = {shown(policy)}: expected a policy; {cure}")
    check_given(task)
    task.check_policy(m, policy.pocket)


def check_request(policy, task, instances, m: int, *, optional: bool = False) -> None:
    """ValueError unless m answers to each of these problems can be asked for, and for what is often
    given in their place: one problem, an empty list, seeds, problems of another task.

    A seed is a whole number where no early problem is one. A problem is another task's if the task
    cannot read it, and gives no problem of its type. optional: whether None stands for no policy.
    """
    check_whole(m, "m")
    if policy is not None or not optional:
        check_fit(policy, task, m)
    check_given(task)
    listed = isinstance(instances, Sequence | np.ndarray) and getattr(instances, "ndim", 1) > 0
    if not listed or isinstance(instances, str | tuple):  # many a problem is a tuple itself
        raise ValueError(
            f"instances = {shown(instances)}: expected a list of problems; [x] for one problem x"
        )
    if not len(instances):
        raise ValueError("instances = []: give at least one problem")
    numbers = [i for i, x in enumerate(instances) if is_whole(x)]
    if numbers and not any(map(is_whole, early_problems(task))):
        first, seed = numbers[0], shown(int(instances[numbers[0]]))
        raise ValueError(
            f"instances[{first}] = {seed}: expected a problem; give task.instance({seed})"
        )
    for i, x in enumerate(instances):
        try:
            task.key(x), task.objectives(x), task.prompt(x, 1)
        except Exception as error:  # of a problem of its own the search tells
            own = dict.fromkeys(type(early).__name__ for early in early_problems(task))
            if type(x).__name__ not in own:
                raise ValueError(
                    f"instances[{i}] = {shown(x)}: no problem of task {task.name!r}, whose "
                    f"problems are {', '.join(own)}; give task.instance(seed)"
                ) from error


def check_seed(seed) -> int:
    """A seed of random draws, 0 or more, as TrainConfig takes it. ValueError for any other."""
    return Option("seed", int, 0, "seed of every random draw", least=0).check(seed)


def early_problems(task: Task) -> list:
    """The first training problems, at most eight; a task of one problem has that one."""
    return [task.instance(seed) for seed in task.seeds["train"][: 1 if task.single else EARLY]]


def check_early_problems(
    task: Task, m: int, pocket: dict | None, *, shows_weights: bool = False
) -> None:
    """TaskError, a ValueError, that names the method whose value cannot work: before a run is made,
    not in its first step. Nothing is scored here.

    m, pocket: as in `Task.prompt`. shows_weights: whether the method needs its weights written into
    the prompt.
    """
    check_seeds(task)
    check_single(task)
    tokens = f"answer_tokens = {shown(task.answer_tokens)}: must be a whole number"
    _must(is_whole(task.answer_tokens), task, tokens)
    _must(isinstance(task.tag, str), task, f"tag = {shown(task.tag)}: must be a text")
    _must(_takes_options(task.prompt), task, NEEDS_OPTIONS)
    named = "reward_functions must be None or RewardFunctions; give yours another name"
    _must(isinstance(task.reward_functions, RewardFunctions | None), task, named)
    instances = early_problems(task)
    asked: dict[str, Prompt] = {}
    for x in instances:
        check_problem(task, x)
        prompt, key = prompt_of(task, x, m, pocket=pocket), task.key(x)
        tokens_of(task, x, m, pocket)
        alike = asked.setdefault(key, prompt) == prompt  # it says which draws a problem gets
        _must(alike, task, f"key(instance) is {shown(key)} for problems that are not alike")
    seed = task.seeds["train"][0]
    first, again = instances[0], task.instance(seed)
    names, same = objectives_of(task, first), f"seed {shown(seed)} gave two"
    _must(task.key(first) == task.key(again), task, f"{same} problems of different keys")
    _must(names == objectives_of(task, again), task, f"{same} lists of objectives")
    several = [x for x in instances if len(task.objectives(x)) > 1]  # one has but one weight
    if shows_weights and several:
        some, x = np.eye(len(task.objectives(several[0])))[[0, -1]], several[0]
        one, other = (prompt_of(task, x, m, weights=w, pocket=pocket) for w in some)
        lacking = "prompt(...) does not show its weights, and this method needs them there: "
        cure = "write weights into the request, or train random_weighting"
        _must(one != other, task, lacking + cure)
    sets = np.zeros((2, m, len(names)))
    coverage_of(task, task.front(first), sets)  # first, because `solved` compares with the front
    flags_of(task, "valid", first, sets)
    flags_of(task, "solved", first, sets)


# --- one check for each value ---------------------------------------------------------------------


def blamed(task: Task, what: str, cure: str = "") -> AbstractContextManager[None]:
    """A context in which a ValueError about a value that the method ``what`` gave is a TaskError.

    No method of the task is called in it, since the task's own errors stay what they are.
    """
    return told_of(f"task {task.name!r}: {what}", TaskError, cure)


def check_seeds(task: Task) -> None:
    """TaskError unless the task has problems for training and for evaluation."""
    kind = f"seeds = {shown(task.seeds)}: must map 'train' and 'held_out' to seeds"
    _must(isinstance(task.seeds, Mapping), task, kind)
    for split in ("train", "held_out"):
        seeds = task.seeds.get(split, ())
        listed = isinstance(seeds, Sequence | np.ndarray) and not isinstance(seeds, str | bytes)
        one_or_more = f"seeds[{split!r}] must be a range or a list of one seed or more"
        _must(listed and getattr(seeds, "ndim", 1) == 1 and len(seeds[:1]) > 0, task, one_or_more)
        _must(
            not isinstance(seeds, range) or _is_counted(seeds), task, f"{one_or_more}, below 2^63"
        )
        said = f"seeds[{split!r}] begins with {shown(seeds[0])}: must be whole numbers"
        _must(is_whole(seeds[0]), task, said)


def check_problem(task: Task, instance) -> None:
    """TaskError for a key, objectives, a worst vector or fixed weights that cannot work."""
    key = task.key(instance)
    _must(is_plain(key), task, f"key(instance) = {shown(key)}: expected a text without NUL")
    objectives_of(task, instance)
    worst_of(task, instance)
    w_star_of(task, instance)


def objectives_of(task: Task, instance) -> tuple[str, ...]:
    """The names of the d objectives, all different."""
    names = task.objectives(instance)
    what = f"objectives(instance) = {shown(names)}"
    listed = isinstance(names, tuple | list)
    _must(listed, task, f"{what}: expected a tuple of texts")
    _must(len(names) > 0, task, "objectives(instance) named no objective")
    many = f"objectives(instance) named {len(names):,}, at most {MOST_OBJECTIVES:,} are allowed"
    _must(len(names) <= MOST_OBJECTIVES, task, many)
    _must(all(map(is_plain, names)), task, f"{what}: expected texts without NUL")
    _must(len(set(names)) == len(names), task, f"{what}: each name may stand there once")
    return tuple(names)


def worst_of(task: Task, instance) -> np.ndarray:
    """The reward vector (d,) of a missing answer, finite."""
    return _vector(task, "worst", instance, "rewards", LARGEST)


def below_worst(task: Task, instance, rewards: np.ndarray) -> float:
    """The share of rewards (..., d) that are below a missing answer's in some objective, by more
    than rounding.
    """
    return float(is_below(rewards, worst_of(task, instance)).any(axis=-1).mean())


def warning_of_worst(task: Task, share: float) -> str:
    """What to say where this share of the answers earned less than a missing one, without a stop.

    >>> from vpo_lite.tasks import task_class
    >>> warning_of_worst(task_class("programs")(), 0.5).split(",")[0]
    '50.0% of the answers earned less in some objective than a missing answer does'
    """
    return (
        f"{share:.1%} of the answers earned less in some objective than a missing answer does, so "
        f"training may teach the policy to write none: let {task.worst_set_by} of task "
        f"{task.name!r} give the least that an answer can earn"
    )


def above_front(front, rewards: np.ndarray) -> float | None:
    """The share of rewards (n, d) that no point of a front (f, d) reaches in every objective, up to
    rounding; None where there is no front. It is 0 for a complete front.

    >>> above_front([[1, 0], [0, 1]], np.array([[0, 1], [0, 0], [0.5, 0.5], [0, 1 + 1e-9]]))
    0.25
    """
    if front is None:
        return None
    reached = [(~is_below(np.asarray(front), r)).all(axis=-1).any() for r in rewards]
    return 1 - float(np.mean(reached))


def warning_of_front(task: Task, share: float) -> str:
    """What to say where no point of the front reaches this share of the answers."""
    return (
        f"{share:.1%} of the answers beat the front: no point of it is as good in every objective, "
        "so coverage and its ceiling are wrong; let front(instance) of task "
        f"{task.name!r} give the complete front, or None"
    )


def w_star_of(task: Task, instance) -> np.ndarray:
    """The fixed weights (d,), finite, not all 0."""
    weights = _vector(task, "w_star", instance, "weights", LARGEST_WEIGHT)
    _must(weights.any(), task, "w_star(instance) holds nothing but zeros: all answers are equal")
    return weights


def front_of(task: Task, instance) -> np.ndarray | None:
    """The true front (f, d); None where the task knows none."""
    front = task.front(instance)
    with blamed(task, "front(instance)", NO_FRONT):
        return None if front is None else check_rewards(front, "the front")


def coverage_of(task: Task, front, sets: np.ndarray, **options) -> np.ndarray | None:
    """Coverage (...) of sets (..., m, d) by a front that the task gave; None where it gave None.

    options: as in :func:`vpo_lite.metrics.coverage`. TaskError for a front that cannot work.
    """
    if front is None:
        return None
    with blamed(task, "front(instance)", NO_FRONT):
        return metrics.coverage(sets, front, **options)


def flags_of(task: Task, method: str, instance, rewards: np.ndarray) -> np.ndarray:
    """What ``valid`` or ``solved`` says of rewards (..., d): booleans (...)."""
    found = getattr(task, method)(instance, rewards)
    what, expected = f"{method}(instance, rewards)", rewards.shape[:-1]
    with blamed(task, what):
        check_finite(found, "the value", 0)
    flags = np.asarray(found)
    _must(flags.shape == expected, task, f"{what} has shape {flags.shape}: expected {expected}")
    _must(flags.dtype == bool, task, f"{what} holds {flags.dtype}: expected booleans")
    return flags


def prompt_of(task: Task, instance, m: int, *, weights=None, pocket=None) -> Prompt:
    """The request for m answers: texts, either in messages or in symbols."""
    prompt = called(task, "prompt", instance, m, weights=weights, pocket=pocket)
    what = f"prompt(...) gave {shown(prompt)}"
    _must(isinstance(prompt, Prompt), task, f"{what}: expected a Prompt")
    one_form = bool(prompt.messages) != bool(prompt.symbols)
    _must(one_form, task, f"{what}: expected either messages or symbols")
    turns = prompt.messages if isinstance(prompt.messages, tuple | list) else (None,)
    turns = [dict(turn) if isinstance(turn, Mapping) else {} for turn in turns]
    whole = all({"role", "content"} <= set(turn) for turn in turns)
    _must(whole, task, "each message of prompt(...) must have a role and a content")
    asks = not turns or turns[-1]["role"] == "user"
    _must(asks, task, "the last message of prompt(...) must be the user's")
    texts = [prompt.symbols, prompt.prefix, *(t[k] for t in turns for k in ("role", "content"))]
    written = all(isinstance(t, str) and is_encodable(t) for t in texts)
    _must(written, task, f"{what}: expected texts without lone surrogates")
    _must(prompt.symbols.strip() or turns[-1]["content"].strip(), task, f"{what}: it asks nothing")
    readable = pocket is not None or not prompt.symbols
    in_words = "prompt(...) gave symbols, and this model is asked in words: give messages"
    _must(readable, task, in_words)
    return prompt


def tokens_of(task: Task, instance, m: int, pocket: dict | None) -> int:
    """Most tokens that m answers may need, 1 to a million."""
    tokens = task.max_tokens(instance, m, pocket)
    with blamed(task, "its token limit"):
        check_whole(tokens, "max_tokens(...)", most=MOST_TOKENS)
    return int(tokens)


def _must(holds: bool, task: Task, what: str) -> None:
    if not holds:
        raise TaskError(f"task {task.name!r}: {what}")


def _vector(task: Task, method: str, instance, kind: str, largest: float) -> np.ndarray:
    """What ``worst`` or ``w_star`` says: a finite vector (d,) of this kind."""
    value, what = getattr(task, method)(instance), f"{method}(instance)"
    with blamed(task, what):
        vector = check_finite(value, kind, 0, largest)
    expected = (len(objectives_of(task, instance)),)
    _must(vector.shape == expected, task, f"{what} has shape {vector.shape}: expected {expected}")
    return vector


def _takes_options(prompt) -> bool:
    try:
        inspect.signature(prompt).bind(None, 1, weights=None, pocket=None)
        return True
    except TypeError:
        return False


def _is_counted(seeds: range) -> bool:
    try:
        return len(seeds) > 0
    except OverflowError:
        return False
