"""A task made of reward functions: each is one objective, and each row of a data set a problem."""

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import LARGEST, check_finite, check_number, shown
from ..tasks.base import Task, TaskError


@dataclass(frozen=True)
class Asked:
    """One row of a data set.

    - prompt: a text, or chat messages
    - columns: the other columns of the row
    - shared: what all rows of a call share, such as TRL's trainer_state
    """

    prompt: Any
    columns: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)


class OfFunctions(Task):
    """A task whose objectives are functions, called as TRL calls reward functions.

    A function takes ``prompts``, ``completions`` and every column of the rows as lists with one
    entry for each answer, all by name, and returns as many numbers. Completions have the form of
    the prompts: texts, or lists of one message of the assistant.

    - functions: one or more, not asynchronous; a name that occurs twice gets a number
    - worst: what a missing answer earns in every objective, and an answer for which a function
      returns None. No function may return less: a missing answer would then be worth more.
    - w_star: the fixed weights (d,); by default all are equal

    An instance is an :class:`Asked`. Raises ValueError for what is no such function, for a worst
    that is not finite, and for weights that do not fit.

    >>> def brief(completions, **columns):
    ...     return [1 / len(text) for text in completions]
    >>> task = OfFunctions([brief])
    >>> task.score([Asked("Why?")], [["so", "as it is"]])[0].tolist()
    [[0.5], [0.125]]
    """

    name = "functions"
    noun = "row"

    def __init__(self, functions: Sequence[Callable], *, worst: float = 0.0, w_star=None):
        super().__init__()
        functions = list(functions) if isinstance(functions, list | tuple) else [functions]
        for function in functions:
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise ValueError(
                    f"functions: {shown(function)} is no plain function of (prompts, completions, "
                    "**columns)"
                )
        if not functions:
            raise ValueError("functions: name at least one reward function")
        self.functions = functions
        self.lowest = check_number(worst, "worst", "a finite number", -LARGEST, LARGEST)
        names = [_name(function) for function in functions]
        self.names = tuple(
            f"{name}_{names[: i + 1].count(name)}" if names.count(name) > 1 else name
            for i, name in enumerate(names)
        )
        equal = np.full(len(names), 1 / len(names))
        self.weights = equal if w_star is None else check_finite(w_star, "w_star", 1)
        if self.weights.shape != (len(names),):
            raise ValueError(f"w_star: expected {len(names)} weights, one for each function")

    def key(self, instance: Asked) -> str:
        """The canonical JSON of the prompt: the same text in every process."""
        try:
            return json.dumps(instance.prompt, sort_keys=True, separators=(",", ":"))
        except TypeError as error:
            raise TaskError(
                f"prompt {shown(instance.prompt)} is no JSON, so it cannot name its group: add a "
                "column vpo_key"
            ) from error

    def objectives(self, instance) -> tuple[str, ...]:
        return self.names

    def w_star(self, instance) -> np.ndarray:
        return self.weights

    def worst(self, instance) -> np.ndarray:
        return np.full(len(self.names), self.lowest)

    def score(self, instances, answers) -> list[np.ndarray]:
        """Call every function once, with the answers of all instances."""
        asked = [x for x, texts in zip(instances, answers, strict=True) for _ in texts]
        R = np.zeros((len(asked), len(self.names)))
        if asked:
            given = {
                "prompts": [x.prompt for x in asked],
                "completions": [
                    _as_completion(x.prompt, text)
                    for x, texts in zip(instances, answers, strict=True)
                    for text in texts
                ],
                **{name: [x.columns[name] for x in asked] for name in asked[0].columns},
                **asked[0].shared,
            }
            for i, function in enumerate(self.functions):
                R[:, i] = self._numbers(i, function(**given), len(asked))
        ends = np.cumsum([len(texts) for texts in answers])[:-1]
        return np.split(R, ends)

    def _numbers(self, i: int, returned, count: int) -> list[float]:
        found = list(returned)
        if len(found) != count:
            raise TaskError(
                f"{self.names[i]} returned {len(found)} rewards for {count} answers: expected one "
                "for each answer"
            )
        numbers = [self.lowest if x is None else float(x) for x in found]
        if min(numbers) < self.lowest:
            raise TaskError(
                f"{self.names[i]} returned {min(numbers):g}, less than worst = {self.lowest:g}: a "
                "missing answer would be worth more; set worst to the least reward there is"
            )
        return numbers


def _as_completion(prompt, text: str):
    """An answer in the form in which TRL hands over completions to this prompt."""
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


def _name(function: Callable) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
