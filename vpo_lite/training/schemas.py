"""What the files of a run folder hold: every field with its type and range."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from ..files import Schema

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[int, Field(ge=0)]
Budget = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}$")]  # k of best@k, as a key of JSON


def _with_one(best: dict[str, float]) -> dict[str, float]:
    if "1" not in best:
        raise ValueError("should have the key 1")
    return best


AtK = Annotated[dict[Budget, float], AfterValidator(_with_one)]
ByProblem = Annotated[list[float | None], Field(min_length=1)]


class Engine(Schema):
    """Which engine trains a run, and its own options: how a run is computed, not what."""

    name: str = "native"
    options: dict[str, JsonValue] = Field(default_factory=dict)


class PerProblem(Schema):
    """Figures with one value per problem; None where a problem has no known front."""

    coverage: ByProblem
    set_reward: ByProblem
    diversity: ByProblem
    valid_rate: ByProblem
    best_at_k: dict[Budget, ByProblem]
    any_at_k: dict[Budget, ByProblem]

    @model_validator(mode="after")
    def _equally_long(self):
        lengths = {name: len(values) for name, values in flattened(dict(self)).items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"lists of different length: {lengths}")
        return self


def flattened(figures: dict) -> dict:
    """Figures in one flat dict.

    >>> flattened({"coverage": 0.5, "best_at_k": {"1": 0.2, "30": 0.7}})
    {'coverage': 0.5, 'best@1': 0.2, 'best@30': 0.7}
    """
    flat = {}
    for name, value in figures.items():
        kind = name.removesuffix("_at_k")
        flat |= {name: value} if kind == name else {f"{kind}@{k}": v for k, v in value.items()}
    return flat


class Figures(Schema):
    """The figures of :func:`~vpo_lite.training.evaluate.evaluate`."""

    model_config = ConfigDict(extra="ignore")  # reach_rate, and what later versions add

    set_reward: float
    coverage: float | None
    coverage_best_single: float | None
    diversity: Positive
    diversity_all: Positive
    best_at_k: AtK
    best_of_rollout: float
    any_at_k: AtK
    pass_at_k: dict[Budget, Share]
    parse_rate: Share
    valid_rate: Share
    solved_rate: Share
    repeat_rate: Share
    below_worst_rate: Share
    above_front_rate: Share | None
    truncated_rate: Share
    objectives: dict[str, float]
    reached: dict[str, float]
    spread: dict[str, Positive]
    tokens_per_answer: Positive
    answers: Count
    problems: Count
    per_problem: PerProblem


class OfAFile(Schema):
    """How many records of a data file were read, and how many of them were dropped by reason."""

    read: Count
    dropped: dict[str, Count] = Field(default_factory=dict)


Records = dict[str, OfAFile]  # by the option that names the file


class Start(Figures):
    """start.json: the figures before training, and what is asked of a task only then.

    - by_chance: whether the rewards are random
    - same_effect_rate: among answers that differ in their text from all earlier ones of their
      rollout, the share that ``same_effect`` makes repeats; None with few such answers, and for a
      task whose rewards tell repeats
    """

    by_chance: bool
    same_effect_rate: Share | None


class Measured(Figures):
    """A line of measured.jsonl: the figures after this step, in the midst of training."""

    step: Annotated[int, Field(ge=1)]


class Summary(Figures):
    """summary.json: the figures of a finished run, and those before training."""

    method: str
    steps: Annotated[int, Field(ge=1)]
    seconds: Seconds
    rollout_share: Share
    scoring_share: Share | None
    tokens: Count
    truncated_in_training: Share
    start: Start
    device: str
    versions: dict[str, str]
    records: Records


class Evaluation(Figures):
    """What ``vpo-lite evaluate RUN --json`` prints, so that `compare` can read it in place of RUN.

    - run: its folder; adapter, model: another one that was measured on its problems
    - alpha: of the set reward; temperature: of the sampling
    - records: of its data files, as in a :class:`Summary`
    - files: digests of data and code at that time, as config.json has them
    - settings: the digest of config.json at that time
    """

    run: str
    adapter: str | None
    model: str | None = None
    alpha: float
    temperature: float = 1.0
    seed: Count
    files: dict[str, str]
    settings: str
    records: Records


OF_PROBLEMS = ("answers", "problems", "per_problem")  # no means over problems
FIGURES: Sequence[str] = tuple(n for n in Figures.model_fields if n not in OF_PROBLEMS)
PER_PROBLEM: Sequence[str] = tuple(PerProblem.model_fields)


class BestAnswer(NamedTuple):
    """An answer as it was written: its text between the tags, its slot, its rewards (d,)."""

    body: str
    slot: int
    rewards: tuple[float, ...]


# The best set found so far of each problem, by the problem's key; the latest problem comes last.
BestSets = dict[str, list[BestAnswer]]
