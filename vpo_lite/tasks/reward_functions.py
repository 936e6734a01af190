"""Reward functions of yours, called as TRL calls them: each is one objective."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..checks import LARGEST, check_finite, is_below, raised_by, shown
from .base import TaskError
from .by_name import attribute, in_modules, unwrapped

SUBSTANTIAL = 0.1  # share of the answers without a reward, from which on it is said
OF_TRL = ("completion_ids", "trainer_state", "log_metric", "log_extra")  # it alone hands them over


class RewardFunctions:
    """Functions of (prompts, completions, **columns), which return one number for each completion.

    - functions: one or more, not asynchronous; a name that occurs twice gets a number
    - worst: what None stands for, one number or one for each function. No function may return less:
      a missing answer, which earns it, would then be worth more. Less by 1e-6 of its size, or of 1,
      is rounding, and counts as the worst.

    Raises ValueError for what is no such function, and for a worst that is not finite or of another
    size.

    >>> def brief(completions, **columns):
    ...     return [1 / len(text) if text else None for text in completions]
    >>> found = RewardFunctions([brief, brief])
    >>> found.names, found.rewards(lambda: {"completions": ["so", ""]}, 2).tolist()
    (('brief_1', 'brief_2'), [[0.5, 0.5], [0.0, 0.0]])
    >>> found.nones  # an answer that all functions leave out is an invalid one
    {'brief_1': 0, 'brief_2': 0}
    """

    def __init__(self, functions: Sequence[Callable], worst: float | Sequence[float] = 0.0):
        self.functions = list(functions) if isinstance(functions, list | tuple) else [functions]
        for function in self.functions:
            if not callable(function):
                raise ValueError(f"functions: {shown(function)} is no function")
            if "PreTrainedModel" in [base.__name__ for base in type(function).__mro__]:
                what = type(function).__name__
                raise ValueError(f"functions: {what} is a model: give a function that asks it")
            called = (function, type(function).__call__)
            if any(map(inspect.iscoroutinefunction, called)):
                raise ValueError(f"functions: {_name(function)} is asynchronous: give a plain one")
            if any(map(inspect.isgeneratorfunction, called)):
                raise ValueError(
                    f"functions: {_name(function)} yields its rewards: let it return a list"
                )
        if not self.functions:
            raise ValueError("functions: name at least one reward function")
        lowest, d = check_finite(worst, "worst", 0), len(self.functions)
        if lowest.shape not in ((), (d,)):
            raise ValueError(
                f"worst: {lowest.size} numbers for {d} functions; give one number, or one for each"
            )
        self.worst = np.broadcast_to(lowest, d).tolist()
        names = [_name(function) for function in self.functions]
        self.names = tuple(
            f"{name}_{names[: i + 1].count(name)}" if names.count(name) > 1 else name
            for i, name in enumerate(names)
        )
        if len(set(self.names)) < d:
            raise ValueError(
                f"functions: {', '.join(names)}: equal names are numbered, which gives "
                f"{', '.join(self.names)}; rename one"
            )
        self.asked, self.nones = 0, dict.fromkeys(self.names, 0)  # answers; those without a reward

    @classmethod
    def named(cls, text: str, worst: float | Sequence[float]) -> "RewardFunctions":
        """Those with the names in a text, between commas: ``package.module:function``. A name
        without a module is in the module before it.
        """
        names = in_modules(text)
        if not all(":" in name for name in names):
            raise ValueError(f"reward_funcs = {shown(text)}: expected package.module:function")
        return cls([attribute(name, "reward function") for name in names], worst)

    def check_call(self, given: Mapping, whose: str) -> None:
        """Raise ValueError where a function cannot be called with these arguments, by name."""
        for name, function in zip(self.names, self.functions, strict=True):
            try:
                inspect.signature(function).bind(**given)
            except TypeError as error:
                cure = "let it take **columns"
                if "missing a required argument" in str(error):
                    cure = f"there is {', '.join(given)}"
                for name_of_trl in OF_TRL:
                    if repr(name_of_trl) in str(error):
                        cure = f"only TRL hands over {name_of_trl}"
                raise ValueError(
                    f"{name} cannot be called with prompts, completions and the columns of "
                    f"{whose} ({error}); {cure}"
                ) from error
            except ValueError:
                pass  # a function of C that tells nobody what it takes

    def rewards(self, given: Callable[[], Mapping], count: int) -> np.ndarray:
        """The rewards (count, d). given: makes the arguments; each function gets its own.

        Raises TaskError that names the function: where it raises (KeyboardInterrupt and MemoryError
        pass), and for anything but ``count`` finite numbers that are not below ``worst``.
        """
        rows = zip(self.names, self.functions, self.worst, strict=True)
        found = [
            _checked(name, _called(name, function, given()), worst, count)
            for name, function, worst in rows
        ]
        self.asked += count
        for of_one in zip(*found, strict=True):
            if len(of_one) > 1 and set(of_one) == {None}:
                continue  # an invalid answer, of which `valid` tells
            for name, x in zip(self.names, of_one, strict=True):
                self.nones[name] += x is None
        rewards = [
            [worst if x is None else x for x in some]
            for some, worst in zip(found, self.worst, strict=True)
        ]
        return np.array(rewards, float).T

    def warning_of_none(self) -> str:
        """A line on the functions that returned None for a tenth of the answers so far, or for
        more; "" where there is none. An answer that all of several functions leave out is not
        counted.

        >>> found = RewardFunctions([lambda completions: [None, 1, 1]])
        >>> _ = found.rewards(lambda: {"completions": ["?", "a", "b"]}, 3)
        >>> found.warning_of_none()
        '<lambda> returned None for 33% of the answers; None counts as the worst reward'
        """
        shares = {name: n / max(self.asked, 1) for name, n in self.nones.items()}
        told = [
            f"{name} returned None for {x:.0%}" for name, x in shares.items() if x >= SUBSTANTIAL
        ]
        none = "of the answers; None counts as the worst reward"
        return f"{', '.join(told)} {none}" if told else ""


def _called(name: str, function: Callable, given: Mapping):
    try:
        return function(**given)
    except (KeyboardInterrupt, MemoryError):  # for the latter training names settings to lower
        raise
    except BaseException as error:  # SystemExit would end a run without a word; panics of Rust
        raise TaskError(f"{name} raised {raised_by(error)}") from error


def _checked(name: str, returned, worst: float, count: int) -> list[float | None]:
    odd = f"{name} returned {shown(returned)}: expected a list with one number for each answer"
    try:
        there = len(returned) if _is_listed(returned) else None
        found = [None if x is None else _number(x) for x in returned] if there == count else None
    except Exception as error:  # a class of the reader's own, or a tensor, may raise anything
        raise TaskError(odd) from error
    if there is None:
        raise TaskError(odd)
    if found is None:
        raise TaskError(
            f"{name} returned {there} rewards for {count} answers: expected one for each answer"
        )
    numbers = [x for x in found if x is not None]
    for x in numbers:
        if not math.isfinite(x) or abs(x) > LARGEST:
            raise TaskError(
                f"{name} returned {x:g}: a reward is a finite number, or None for the worst"
            )
    if is_below(least := min(numbers, default=worst), worst):
        raise TaskError(
            f"{name} returned {least:.9g}, less than worst = {worst:g}: a missing answer would "
            "be worth more; return no less, or begin anew with the least reward of each function "
            "as --worst-reward=A,B (in Python worst_reward; of SetReward.of_functions: worst)"
        )
    return [x if x is None else max(x, worst) for x in found]


def _is_listed(returned) -> bool:
    """Whether a value is a list, a tuple, an array or a tensor. An iterator might never end."""
    if isinstance(returned, str | bytes):
        return False
    return isinstance(returned, Sequence) or getattr(returned, "ndim", 0) > 0


def _number(x) -> float:
    if isinstance(x, str | bytes | np.complexfloating):  # NumPy would drop the imaginary part
        raise TypeError("no real number")
    return float(x)


def _name(function: Callable) -> str:
    function = unwrapped(function)
    return getattr(function, "__name__", type(function).__name__)
