"""The schemas of a study's file. ``declaration.py`` reads it, and describes its form."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from ..checks import LEAST_ALPHA, MOST_ALPHA
from ..files import Schema
from ..training.config import MOST_MEASURED

Count = Annotated[int, Field(ge=1, le=10_000)]
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
LONGEST = 100  # characters of a kind's name, which is part of file names
MOST_KINDS = 1_000


def _choosing(figure: str) -> str:
    if not re.fullmatch("(any|best|solved)@[1-9][0-9]{0,2}|set_reward", figure):
        raise ValueError("should be any@k, best@k or solved@k, such as any@10, or set_reward")
    return figure


Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST)]
Rates = Annotated[list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=1, max_length=100)]
Values = Annotated[list[bool | int | float | str], Field(min_length=1, max_length=MOST_KINDS)]
Settings = dict[str, bool | int | float | str]


class Kind(Schema):
    """One kind of run: a method with its settings.

    - label: its name in tables; settings: added to the study's, or in their place, one by one
    - judged: settings that are changed for measuring, such as the task
    - trained: False: the policy is measured as it is
    - seeds: runs, if not as many as the study states
    - vary {setting: values}: one kind for each combination, named by them
    """

    label: Annotated[str, Field(pattern=r"^[^|\x00-\x1f]+$")]  # a cell of a table
    settings: Settings
    judged: Settings = Field(default_factory=dict)
    trained: bool = True
    seeds: Count | None = None
    vary: dict[str, Values] = Field(default_factory=dict)


class HowMeasured(Schema):
    """What is measured: at the end on ``problems`` held-out problems, before on ``between``.

    - checkpoints: how often, over training; validation: problems that choose the learning rate
    - answers: in the pool of a problem; preferences: held-out ones, under which it is searched
    - alphas: coverage is judged at each of these, too
    - chosen_by: the figure that chooses a learning rate, on the validation problems: any@k, best@k,
      solved@k (pass@k), or set_reward. Choose it by how the policy will be used
    - chosen_from: answers to a validation problem; default: ``answers``, or as many as chosen_by
      needs. Each figure is a mean over all choices of k of them, so more are less noise. The
      studies that we ship take the fewest, 10 for any@10
    """

    checkpoints: Count = 6
    problems: Count = 200
    between: Count = 64
    validation: Count = 64
    answers: Annotated[int, Field(ge=1, le=MOST_MEASURED)] = 30
    preferences: Count = 50
    alphas: list[Annotated[float, Field(ge=LEAST_ALPHA, le=MOST_ALPHA)]] = Field(
        default_factory=list
    )
    chosen_by: Annotated[str, AfterValidator(_choosing)] = "any@10"
    chosen_from: Annotated[int | None, Field(ge=1, le=MOST_MEASURED)] = None

    @property
    def chosen_k(self) -> int | None:
        """The k of ``chosen_by``; None for set_reward."""
        _, _, k = self.chosen_by.partition("@")
        return int(k) if k else None

    @property
    def tuning_answers(self) -> int:
        """Answers to each validation problem.

        >>> HowMeasured().tuning_answers, HowMeasured(chosen_by="any@60").tuning_answers
        (30, 60)
        """
        return self.chosen_from or max(self.answers, self.chosen_k or 1)


class HowSearched(Schema):
    """The evolutionary search that follows training, with each policy of some kinds.

    - calls: in each a policy writes m answers, in one rollout or in several
    - problems: held-out ones; seeds: searches on each
    - policies: runs of each kind that are searched with, at most
    """

    kinds: Annotated[list[Name], Field(min_length=1)]
    calls: Count = 200
    m: Annotated[int, Field(ge=1, le=9)] = 3
    problems: Count = 32
    seeds: Count = 5
    policies: Count = 3


class Declaration(Schema):
    """The content of a study's file."""

    about: str
    preset: str = "demo"
    settings: Settings
    lr: Rates
    rates: dict[Name, Rates] = Field(default_factory=dict)
    beyond: dict[Name, Rates] = Field(default_factory=dict)
    seeds: Count
    baseline: Name
    measured: HowMeasured = HowMeasured()
    kinds: Annotated[dict[Name, Kind], Field(min_length=1)]
    search: HowSearched | None = None
