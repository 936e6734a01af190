"""A study as one TOML file: methods, settings, learning rates, seeds, and what is measured.

Shipped ones lie in ``declared/``. A file of your own has the same form:

    about = "one line: the question"
    settings = {task = "programs", operations = 2, prompts = 8, group_size = 8, steps = 160}
    lr = [4e-4, 1e-3, 2e-3]     # each kind is tuned over these, on validation problems
    seeds = 3                   # runs at the learning rate that was chosen
    baseline = "grpo_x3"        # the kind that the others are compared with

    [kinds.vpo]
    label = "VPO, m = 3"
    settings = {method = "vpo"}
    seeds = 5                   # more than the others, where wanted

``like = "programs"`` takes everything from another study; what stands beside it replaces that.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from ..checks import shown
from ..files import DamagedError, Schema, check, read_bytes
from ..training.config import TrainConfig

DECLARED = Path(__file__).parent / "declared"
Count = Annotated[int, Field(ge=1, le=10_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
Rates = Annotated[list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=1)]
Values = Annotated[list[int | float | str], Field(min_length=1)]
Settings = dict[str, bool | int | float | str]


class Kind(Schema):
    """One kind of run: a method with its settings.

    - judged: settings that are changed for measuring, such as the task
    - vary {setting: values}: one kind for each combination, named by them
    """

    label: str
    settings: Settings
    judged: Settings = Field(default_factory=dict)
    trained: bool = True
    lr: Rates | None = None
    seeds: Count | None = None
    vary: dict[str, Values] = Field(default_factory=dict)


class Measured(Schema):
    """What is measured: at the end on ``problems`` held-out problems, before on ``between``.

    - checkpoints: how often, over training; validation: problems that choose the learning rate
    - answers: in the pool of a problem; preferences: held-out ones, under which it is searched
    - alphas: coverage is judged at each of these, too
    """

    checkpoints: Count = 6
    problems: Count = 200
    between: Count = 64
    validation: Count = 64
    answers: Annotated[int, Field(ge=1, le=2_000)] = 30
    preferences: Count = 50
    alphas: list[Annotated[float, Field(gt=0)]] = Field(default_factory=list)


class Searched(Schema):
    """The evolutionary search that follows training, with each policy of some kinds.

    - calls: in each a policy writes m answers, in one rollout or in m
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
    seeds: Count
    baseline: Name
    measured: Measured = Measured()
    kinds: Annotated[dict[Name, Kind], Field(min_length=1)]
    search: Searched | None = None


class Job(NamedTuple):
    """One run: its kind, its place in the study, its whole config, and that of measuring."""

    kind: str
    seed: int
    config: TrainConfig
    judged: TrainConfig
    trained: bool

    @property
    def key(self) -> str:
        """Its name, also that of its file.

        >>> config = TrainConfig.preset("demo", lr=1e-3)
        >>> Job("vpo", 0, config, config, True).key
        'vpo-lr0.001-seed0'
        """
        return f"{self.kind}-lr{self.config.lr:g}-seed{self.seed}"


class Study:
    """A declared study. Raises ValueError for a kind whose settings cannot work."""

    def __init__(self, name: str, declared: Declaration):
        self.name, self.declared = name, declared
        self.measured, self.baseline = declared.measured, declared.baseline
        self.kinds: dict[str, Kind] = {}
        for kind, stated in declared.kinds.items():
            for found in _varied(stated):
                values = "".join(f"-{n}{v}" for n, v in found.items())
                given = stated.settings | found
                label = ", ".join([stated.label, *(f"{n} = {v}" for n, v in found.items())])
                changes = {"settings": given, "label": label, "vary": {}}
                self.kinds[kind + values] = stated.model_copy(update=changes)
        if self.baseline not in self.kinds:
            raise ValueError(
                f"study {name}: baseline = {shown(self.baseline)} is none of the kinds "
                f"{', '.join(self.kinds)}"
            )
        for kind in self.kinds:
            try:
                self.job(kind, self.rates(kind)[0], 0)
            except ValueError as error:
                raise ValueError(f"study {name}, kind {kind}: {error}") from error

    def rates(self, kind: str) -> list[float]:
        """The learning rates that this kind is tuned over."""
        stated = self.kinds[kind]
        rates = stated.lr or self.declared.lr
        return rates if stated.trained else rates[:1]

    def seeds(self, kind: str) -> int:
        """Runs of this kind at the learning rate that was chosen."""
        return self.kinds[kind].seeds or self.declared.seeds

    def job(self, kind: str, lr: float, seed: int) -> Job:
        """The run of this kind with this learning rate and seed."""
        stated, declared = self.kinds[kind], self.declared
        settings = declared.settings | stated.settings | {"lr": lr, "seed": seed, "threads": 1}
        if settings.get("K") == "inf":
            settings["K"] = math.inf
        config = TrainConfig.preset(declared.preset, **settings)
        return Job(kind, seed, config, config.but(**stated.judged), stated.trained)

    def tuning(self, kind: str) -> list[Job]:
        """The runs among which the learning rate of this kind is chosen: seed 0."""
        return [self.job(kind, lr, 0) for lr in self.rates(kind)]


def _varied(kind: Kind) -> Iterator[dict]:
    for values in itertools.product(*kind.vary.values()):
        yield dict(zip(kind.vary, values, strict=True))


def names() -> list[str]:
    """The studies that the package declares."""
    return sorted(path.stem for path in DECLARED.glob("*.toml"))


def read(name) -> Study:
    """The study with this name, or the one that a TOML file declares.

    Raises ValueError where there is none, and DamagedError, a ValueError, for a file that does not
    have the form of the module's head.
    """
    path = DECLARED / f"{name}.toml" if str(name) in names() else Path(name)
    if path.suffix != ".toml" or not path.is_file():
        raise ValueError(
            f"study {shown(str(name))}: there is {', '.join(names())}, or a file NAME.toml"
        )
    return Study(path.stem, check(_stated(path), Declaration, str(path)))


def _stated(path: Path) -> dict:
    """What a file says, after what the study says that it is like."""
    try:
        stated = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{path}: no TOML ({error})") from error
    like = stated.pop("like", None)
    if like is None:
        return stated
    base = DECLARED / f"{like}.toml"
    if like not in names() or base == path:
        raise DamagedError(f"{path}: like = {shown(like)} is no other study: {', '.join(names())}")
    return _stated(base) | stated
