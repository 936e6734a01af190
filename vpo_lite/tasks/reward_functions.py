"""Reward functions of yours, called as TRL calls them: each is one objective, or names several."""

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from ..awaiting import awaited
from ..checks import (
    LARGEST,
    MOST_OBJECTIVES,
    check_finite,
    is_below,
    is_whole,
    raised_by,
    shown,
)
from ..messages import is_plain
from .by_name import attribute, in_modules, unwrapped
from .task_errors import BelowWorst, TaskError

SUBSTANTIAL = 0.1  # share of the answers without a reward, from which on it is said
OF_TRL = ("completion_ids", "trainer_state", "log_metric", "log_extra")  # it alone hands them over


class RewardFunctions:
    """Functions of (prompts, completions, **columns), which return one number for each completion.

    A function with an attribute ``objectives`` returns several for each: a dict with its names, or
    a list in their order. What a dict lacks is None. The attribute is a list of names, or a number
    n for the names ``function[0]`` to ``function[n - 1]``. Where these differ from row to row it is
    a function of the row's columns that returns one or the other. So a row's objectives are known
    without any answer: all processes draw the same weights for it, also where none can be read.

    - functions: one or more; a name that occurs twice gets a number. Asynchronous ones are awaited
      at the same time, after the others
    - worst: what None stands for, one number or one for each function. No function may return less:
      a missing answer, which earns it, would then be worth more. Less by 1e-6 of its size, or of 1,
      is rounding, and counts as the worst.

    Raises ValueError for what is no such function, and for a worst that is not finite or of another
    size.

    >>> def brief(completions, **columns):
    ...     return [1 / len(text) if text else None for text in completions]
    >>> found = RewardFunctions([brief, brief])
    >>> found.names, found.rewards(lambda: {"completions": ["so", ""]}, 2)
    (('brief_1', 'brief_2'), [[0.5, 0.5], [0.0, 0.0]])
    >>> found.nones  # an answer that all functions leave out is an invalid one
    {'brief_1': 0, 'brief_2': 0}
    >>> def judge(completions, **columns):
    ...     return [{"kind": 1.0, "short": 1 / len(text)} for text in completions]
    >>> judge.objectives = ["kind", "short"]
    >>> RewardFunctions([judge]).rewards(lambda: {"completions": ["so"]}, 1)
    [[1.0, 0.5]]
    """

    def __init__(self, functions: Sequence[Callable], worst: float | Sequence[float] = 0.0):
        self.functions = list(functions) if isinstance(functions, list | tuple) else [functions]
        for function in self.functions:
            if not callable(function):
                cure = "; import it, and give the function itself" * isinstance(function, str)
                raise ValueError(f"functions: {shown(function)} is no function{cure}")
            if "PreTrainedModel" in [base.__name__ for base in type(function).__mro__]:
                what = type(function).__name__
                raise ValueError(f"functions: {what} is a model: give a function that asks it")
            called = (function, type(function).__call__)
            if any(map(_yields, called)):
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
        self.vary = any(map(callable, self.declared))  # from row to row
        self.fixed = None if self.vary else self.parts({})
        both = zip(self.names, self.declared, strict=True)
        self._lacked = {name: Counter() for name, said in both if not callable(said)}  # objectives

    @property
    def declared(self) -> list:
        """What each function says of its objectives. Not kept: a lambda cannot be pickled."""
        return [_declared(function) for function in self.functions]

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

    def parts(self, columns: Mapping) -> list[tuple[str, ...]]:
        """The objectives of each function, for a row with these columns."""
        both = zip(self.names, self.declared, strict=True)
        return [(name,) if said is None else _named(name, said, columns) for name, said in both]

    def rewards(
        self, given: Callable[[], Mapping], count: int, parts: Sequence = ()
    ) -> list[list[float]]:
        """The reward vector of each answer.

        - given: makes the arguments; each function gets its own
        - parts: the :meth:`parts` of each answer's row, where they :attr:`vary`

        Raises TaskError that names the function: where it raises (KeyboardInterrupt and MemoryError
        pass), and for anything but ``count`` times its finite numbers, not below ``worst``.
        """
        parts = parts if self.vary else [self.fixed] * count
        returned = _results(self.names, (partial(f, **given()) for f in self.functions))
        found = []  # of each function, of each answer: its numbers
        for i, said in enumerate(self.declared):
            wanted, read = [part[i] for part in parts], _one if said is None else _several
            found.append(_checked(self.names[i], returned[i], self.worst[i], wanted, read))
        self.asked += count
        for part, *of_one in zip(parts, *found, strict=True):
            numbers = [x for some in of_one for x in some]
            if len(numbers) > 1 and set(numbers) == {None}:
                continue  # an invalid answer, of which `valid` tells
            for name, names, some in zip(self.names, part, of_one, strict=True):
                self.nones[name] += None in some
                if name in self._lacked and None in some:
                    named = zip(names, some, strict=True)
                    self._lacked[name].update({objective: x is None for objective, x in named})
        return [
            [
                worst if x is None else x
                for some, worst in zip(of_one, self.worst, strict=True)
                for x in some
            ]
            for of_one in zip(*found, strict=True)
        ]

    def warning_of_none(self) -> str:
        """A line on the functions that returned None for a tenth of the answers so far, or for
        more; "" where there is none. Of a function with several objectives it names those that are
        often missing, unless all are alike. An answer that all of several functions leave out is
        not counted.

        >>> found = RewardFunctions([lambda completions: [None, 1, 1]])
        >>> _ = found.rewards(lambda: {"completions": ["?", "a", "b"]}, 3)
        >>> found.warning_of_none()
        '<lambda> returned None for 33% of the answers; None counts as the worst reward'
        """
        told, asked = [], max(self.asked, 1)
        for name, count in self.nones.items():
            lacked = self._lacked.get(name, {})
            alike = len({*lacked.values()}) <= 1
            often = {} if alike else {x: n for x, n in lacked.items() if n / asked >= SUBSTANTIAL}
            told += [f"{name} returned no {shown(x)} for {n / asked:.0%}" for x, n in often.items()]
            if not often and count / asked >= SUBSTANTIAL:
                told.append(f"{name} returned None for {count / asked:.0%}")
        none = "of the answers; None counts as the worst reward"
        return f"{', '.join(told)} {none}" if told else ""


def _yields(function: Callable) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _results(names: Sequence[str], calls: Iterable[Callable]) -> list:
    """What the calls return. Asynchronous ones run at the same time, after the others."""
    returned = []
    try:
        for name, call in zip(names, calls, strict=True):
            returned.append(_told(name, call))
    except BaseException:
        for one in filter(inspect.iscoroutine, returned):
            one.close()  # else Python warns that it was never awaited
        raise
    return [_told(name, result) for name, result in zip(names, awaited(returned), strict=True)]


def _told(name: str, call: Callable):
    try:
        return call()
    except (KeyboardInterrupt, MemoryError):  # for the latter training names settings to lower
        raise
    except BaseException as error:  # SystemExit would end a run without a word; panics of Rust
        raise TaskError(f"{name} raised {raised_by(error)}") from error


def _declared(function: Callable):
    """What a function says of its objectives: names, how many, or a function of a row's columns."""
    said = getattr(function, "objectives", None)
    return getattr(unwrapped(function), "objectives", None) if said is None else said


def _named(name: str, said, columns: Mapping) -> tuple[str, ...]:
    if callable(said):
        (said,) = _results([f"{name}.objectives"], [partial(said, **columns)])
    if is_whole(said) and 1 <= said <= MOST_OBJECTIVES:
        return tuple(f"{name}[{i}]" for i in range(said))
    if isinstance(said, list | tuple) and said and all(map(is_plain, said)):
        return tuple(said)
    raise TaskError(
        f"{name}.objectives = {shown(said)}: expected a list of names, or how many there are, from "
        "1; or a function of a row's columns that returns one of these"
    )


def _checked(
    name: str, returned, worst: float, wanted: Sequence[tuple[str, ...]], read: Callable
) -> list[list[float | None]]:
    """The numbers of each answer. wanted: their names; read: makes them of what stands for one."""
    count, kind = len(wanted), "number" if read is _one else "dict or list of numbers"
    odd = f"{name} returned {shown(returned)}: expected a list with one {kind} for each answer"
    try:
        there = len(returned) if _is_listed(returned) else None
        found = None
        if there == count:
            found = [read(name, x, names) for x, names in zip(returned, wanted, strict=True)]
    except TaskError:
        raise
    except Exception as error:  # a class of the reader's own, or a tensor, may raise anything
        raise TaskError(odd) from error
    if there is None:
        raise TaskError(odd)
    if found is None:
        raise TaskError(
            f"{name} returned {there} rewards for {count} answers: expected one for each answer"
        )
    numbers = [x for some in found for x in some if x is not None]
    for x in numbers:
        if not math.isfinite(x) or abs(x) > LARGEST:
            raise TaskError(
                f"{name} returned {x:g}: a reward is a finite number, or None for the worst"
            )
    if is_below(least := min(numbers, default=worst), worst):
        raise BelowWorst(
            f"{name} returned {least:.9g}, less than worst = {worst:g}: a missing answer would "
            "be worth more",
            "return no less, or name the least reward of each function as --worst-reward=A,B (in "
            "Python worst_reward; of SetReward.of_functions: worst)",
        )
    return [[x if x is None else max(x, worst) for x in some] for some in found]


def _one(name: str, x, names: tuple[str, ...]) -> list[float | None]:
    if isinstance(x, Mapping) or (_is_listed(x) and len(x) > 1):
        named = shown(list(x)) if isinstance(x, Mapping) else len(x)
        raise TaskError(
            f"{name} returned {shown(x)} for one answer: expected a number; where it has several "
            f"objectives, write {name}.objectives = {named} below it"
        )
    return [None if x is None else _number(x)]


def _several(name: str, x, names: tuple[str, ...]) -> list[float | None]:
    known = ", ".join(map(shown, names))
    if isinstance(x, Mapping):
        if other := [key for key in x if key not in names]:
            raise TaskError(f"{name} returned a number for {shown(other[0])}: there is {known}")
        x = [x.get(key) for key in names]
    elif x is None:
        x = [None] * len(names)
    elif not _is_listed(x) or len(x) != len(names):
        raise TaskError(
            f"{name} returned {shown(x)} for one answer: expected a dict, or a list of "
            f"{len(names)}, of numbers for {known}"
        )
    return [None if one is None else _number(one) for one in x]


def _is_listed(returned) -> bool:
    """Whether a value is a list, a tuple, an array or a tensor. An iterator might never end."""
    if isinstance(returned, str | bytes):
        return False
    return isinstance(returned, Sequence) or getattr(returned, "ndim", 0) > 0


def _number(x) -> float:
    if isinstance(x, str | bytes | np.complexfloating):  # NumPy would drop the imaginary part
        raise TypeError("no real number")
    return float(x.detach() if hasattr(x, "detach") else x)  # of gradients torch would warn


def _name(function: Callable) -> str:
    function = unwrapped(function)
    return getattr(function, "__name__", type(function).__name__)
