"""Rows of a data set, scored by reward functions of yours: each is one objective, or several.

A row is a JSON object with a ``prompt``, a text or chat messages, and any other columns. Functions
are called as TRL calls reward functions, but for what TRL alone hands over (reward_functions.py).
"""

import copy
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, JsonValue

from ..checks import LARGEST, check_finite, shortened, shown, told_of
from ..files import DamagedError
from ..messages import shown_path
from ..options import Option, flag_of, numbers_of
from .base import Prompt, Task, TaskError
from .numbered_prompts import asking, check_prompt, other_keys
from .record_files import Loaded
from .records import RECORD_OPTIONS, Dropped, RecordTask
from .reward_functions import OF_TRL, RewardFunctions
from .rows import Row
from .wording import read_with_blanks, weighed

EXAMPLE_REWARDS = "vpo_lite.tasks.example_rewards"
EXAMPLE = f"{EXAMPLE_REWARDS}:small,many_divisors"  # for the rows that ship
HANDED = ("prompts", "completions", *OF_TRL)
LEFT_OUT = ("prompt", "completion")  # columns that functions do not see, as in TRL


def _without_nan(column):
    """Refuse NaN and infinity, of which a function would make rewards without a word."""
    inner = column.values() if isinstance(column, dict) else column
    for x in inner if isinstance(column, dict | list) else ():
        _without_nan(x)
    if isinstance(column, float) and not math.isfinite(column):
        raise ValueError("should hold finite numbers, and null where there is none")
    return column


class FunctionsRow(Row):
    """A row: its prompt, and columns of any names. Their numbers are finite, as JSON's are."""

    model_config = Row.model_config | {"extra": "allow"}
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_without_nan)]] = Field(init=False)
    prompt: JsonValue


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


class ByFunctions(Task):
    """Answers to rows, scored by reward functions: the request, the parser and the scorer.

    An instance is an :class:`Asked`. A subclass says which there are, and calls :meth:`use`.
    """

    tagged_alone = False

    def use(self, functions: RewardFunctions, w_star) -> None:
        """Score with these functions. w_star: one weight for each, or None for equal ones."""
        self.reward_functions, d = functions, len(functions.names)
        self.weights = np.full(d, 1 / d) if w_star is None else check_finite(w_star, "w_star", 1)
        if self.weights.shape != (d,):
            raise ValueError(f"weights w*: {self.weights.size} for {d} functions; give one each")
        if (self.weights < 0).any():
            raise ValueError(
                f"w_star = {shown(self.weights.tolist())}: expected 0 or more; let a function "
                "return less for what shall be avoided"
            )
        if not self.weights.any():
            raise ValueError("w_star (--reward-weights) is nothing but zeros: give one above 0")

    def parts(self, instance) -> list[tuple[str, ...]]:
        """The objectives of each function."""
        functions = self.reward_functions
        if not functions.vary:
            return functions.fixed
        names = self.columns_of([instance])
        return functions.parts({name: instance.columns.get(name) for name in names})

    def objectives(self, instance) -> tuple[str, ...]:
        return tuple(name for part in self.parts(instance) for name in part)

    def w_star(self, instance) -> np.ndarray:
        """A function's weight is divided equally among its objectives."""
        counts = [len(part) for part in self.parts(instance)]
        return np.repeat(self.weights / counts, counts)

    def worst(self, instance) -> np.ndarray:
        return np.repeat(self.reward_functions.worst, [len(p) for p in self.parts(instance)])

    def columns_of(self, asked: Sequence[Asked]) -> Sequence[str]:
        """The columns that functions are handed with answers to these rows: by default theirs."""
        return list(dict.fromkeys(name for x in asked for name in x.columns))

    # --- the request ------------------------------------------------------------------------------

    def prompt(
        self, instance: Asked, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        goals = "" if weights is None else weighed("goals", self.objectives(instance), weights)
        asked = asking(instance.prompt, m, self.tag, goals)
        if isinstance(asked, str):
            return Prompt.words(asked)
        return Prompt(messages=tuple({k: t[k] for k in ("role", "content")} for t in asked))

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        """As functions see them: with their blanks, as TRL hands over a completion."""
        return read_with_blanks(text, m, self.tag)

    def effect(self, instance, answer: str) -> str:
        return answer.strip()

    # --- scoring ----------------------------------------------------------------------------------

    def score(self, instances, answers) -> list[np.ndarray]:
        """Call every function once, with the answers of all instances."""
        asked = [x for x, texts in zip(instances, answers, strict=True) for _ in texts]
        texts = [text for some in answers for text in some]
        parts = [self.parts(x) for x in instances]
        of_each = [p for p, some in zip(parts, answers, strict=True) for _ in some]
        found = iter(())
        if asked:
            handed = functools.partial(self.handed, asked, texts)
            found = iter(self.reward_functions.rewards(handed, len(asked), of_each))
        return [
            np.array([next(found) for _ in some], float).reshape(len(some), sum(map(len, part)))
            for some, part in zip(answers, parts, strict=True)
        ]

    def handed(self, asked: Sequence[Asked], texts: Sequence[str]) -> dict:
        """What a function is called with, for one answer to each row."""
        completions = [_as_completion(x.prompt, text) for x, text in zip(asked, texts, strict=True)]
        own = {name: [x.columns.get(name) for x in asked] for name in self.columns_of(asked)}
        live = "environments"  # of TRL: they hold what cannot be copied
        return {
            **{name: x if name == live else [*map(copy.deepcopy, x)] for name, x in own.items()},
            **asked[0].shared,
            "prompts": [copy.deepcopy(x.prompt) for x in asked],
            "completions": completions,
        }


class _Numbers(Option):
    """An option of one number, or of a text with several between commas."""

    @property
    def expected(self) -> str:
        return f"{super().expected}; or several between commas, as a text"

    def check(self, value):
        if not isinstance(value, str):
            return super().check(value)
        numbers = [Option.check(self, x) for x in numbers_of(self.name, value)]
        return value if len(numbers) > 1 else numbers[0]

    def read(self, text: str):
        return text if "," in text else super().read(text)


class FunctionsTask(ByFunctions, RecordTask):
    """Rows of a file, whose objectives are functions, called as TRL calls reward functions.

    A function takes ``prompts``, ``completions`` and every other column of the rows as lists with
    one entry for each answer, all by name, and returns as many finite numbers; None is the worst
    reward. It gets copies, and the rows' own prompts. A row that lacks a column has None there.
    Completions have the form of the prompts: texts, or lists of one message of the assistant.

    A function that names several ``objectives`` returns as many numbers for each answer: see
    :class:`~.reward_functions.RewardFunctions`.

    A completion holds m answers, each between its ``<answer_i>`` and ``</answer_i>``; the prompt
    then asks for that form in its last lines. With m = 1 the prompt stays as it is, and the whole
    completion, with its blanks, is the answer. A prompt that is a text is asked as one
    message of the user.

    Without ``data`` and ``reward_funcs`` a few rows and two functions of ours serve for a first
    try. Raises ValueError for one of the two alone, for a name behind which no plain function
    stands, and for weights that do not fit.

    >>> task = FunctionsTask()
    >>> x = task.instance(0)
    >>> x.prompt, dict(x.columns), task.objectives(x)
    ('Name a whole number from 1 to 12.', {'limit': 12}, ('small', 'many_divisors'))
    >>> task.score([x], [["6", "12", "many"]])[0].round(2).tolist()
    [[0.5, 0.67], [0.0, 1.0], [0.0, 0.0]]
    """

    name = "functions"
    noun = "row"
    about = "rows of a file, scored by reward functions of yours"
    tag = "answer"
    row = FunctionsRow
    options = (
        Option(
            "reward_funcs",
            str,
            None,
            "reward functions as TRL calls them, one per objective: package.module:first,second, "
            "or whole names between commas",
            code=True,
        ),
        Option(
            "reward_weights",
            str,
            None,
            "w*, one number per function, between commas; default: all equal. best@k uses it, and "
            "so do methods that train on w*.r; vpo and gdpo do not",
        ),
        _Numbers(
            "worst_reward",
            float,
            0.0,
            "what a missing answer earns: one number, or one per function, between commas; no "
            "function may return less",
            least=-LARGEST,
            most=LARGEST,
        ),
        *RECORD_OPTIONS,
    )

    def __init__(self, **options):
        super().__init__(**options)
        if (self.data is None) != (self.reward_funcs is None):
            given = ("data", "reward_funcs")
            there, absent = given if self.reward_funcs is None else given[::-1]
            named = "name the rows and the functions that score them"
            raise ValueError(f"{there} without {absent} ({flag_of(absent)}): {named}")
        given, worst = self.reward_weights, self.worst_reward
        weights = None if given is None else numbers_of("reward_weights", given)
        worst = numbers_of("worst_reward", worst) if isinstance(worst, str) else worst
        named = EXAMPLE if self.reward_funcs is None else self.reward_funcs
        functions = RewardFunctions.named(named, worst)
        self.use(functions, weights)

    def record(self, row: FunctionsRow) -> Asked:
        try:
            check_prompt(row.prompt)
        except ValueError as error:
            raise DamagedError(f"field prompt {error}") from error
        for name in HANDED:
            if name in row.model_extra:
                raise Dropped(f"functions get another {name}: rename this column")
        columns = {name: x for name, x in row.model_extra.items() if name not in LEFT_OUT}
        return Asked(row.prompt, columns)

    def remarks(self, loaded: Loaded) -> Iterator[str]:
        found = {line: other_keys(x.prompt) for line, x in loaded.records.items()}
        lines = [line for line, keys in found.items() if keys]
        if lines:
            keys = ", ".join(dict.fromkeys(key for line in lines for key in found[line]))
            yield (
                f"{len(lines):,} of {len(found):,} rows of {shown_path(loaded.path)} have messages "
                f"with {shortened(keys, 100)} (first: {loaded.named(lines[0])}): a request holds "
                "role and content alone; write into the content what the policy is to read"
            )

    def key(self, instance: Asked) -> str:
        return hashlib.sha256(repr((instance.prompt, instance.columns)).encode()).hexdigest()[:16]

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of all rows, in the order in which they appear."""
        rows = (x for file in self.loaded.values() for x in file.records.values())
        return tuple(dict.fromkeys(name for x in rows for name in x.columns))

    def columns_of(self, asked: Sequence[Asked]) -> Sequence[str]:
        return self.columns  # so that a row that lacks one has None there

    def check_machine(self) -> None:
        """Raise ValueError where a function does not take what it is handed, and for a row without
        objectives.
        """
        first = self.instance(self.seeds["train"][0])
        self.reward_functions.check_call(self.handed([first], [""]), self.path)
        files = {self.path, self.held_out_data or self.path} if self.reward_functions.vary else ()
        for loaded in map(self.load, sorted(files)):
            for record, x in loaded.records.items():
                with told_of(f"{loaded.path}, {loaded.named(record)}"):
                    self.objectives(x)


class OfFunctions(ByFunctions):
    """Functions that are given as they are, and rows that come with the answers.

    - functions, worst: as in :class:`RewardFunctions`
    - w_star: the fixed weights, one for each function; by default all are equal. A function's
      weight is divided equally among its objectives.

    Raises ValueError for what is no such function, and for a worst or weights that do not fit.

    >>> def brief(completions, **columns):
    ...     return [1 / len(text) for text in completions]
    >>> task = OfFunctions([brief])
    >>> task.score([Asked("Why?")], [["so", "as it is"]])[0].tolist()
    [[0.5], [0.125]]
    """

    name = "reward functions"
    same_effect = ByFunctions.effect

    def __init__(
        self, functions: Sequence[Callable], *, worst: float | Sequence[float] = 0.0, w_star=None
    ):
        super().__init__()
        self.use(RewardFunctions(functions, worst), w_star)

    def key(self, instance: Asked) -> str:
        """The canonical JSON of the prompt, and of the objectives where they vary: the same text in
        every process.
        """
        named = [self.objectives(instance)] if self.reward_functions.vary else []
        try:
            texts = [instance.prompt, *named]
            return " ".join(json.dumps(x, sort_keys=True, separators=(",", ":")) for x in texts)
        except TypeError as error:
            raise TaskError(
                f"prompt {shown(instance.prompt)} is no JSON, so it cannot name its group: add a "
                "column vpo_key"
            ) from error


def _as_completion(prompt, text: str):
    """An answer in the form in which TRL hands over completions to this prompt."""
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
