"""A study as one TOML file: methods, settings, learning rates, seeds, and what is measured.

Shipped ones lie in ``declared/``. A file of your own has the same form:

    about = "one line: the question"
    settings = {task = "programs", operations = 2, prompts = 8, group_size = 8, steps = 160}
    lr = [4e-4, 1e-3, 2e-3]     # each kind is tuned over these, on validation problems
    rates = {vpo = [1e-3]}      # single kinds have others, where wanted
    beyond = {vpo = [4e-3]}     # tried with --every-rate alone; the choice is not among these
    seeds = 3                   # runs at the learning rate that was chosen
    baseline = "grpo_x3"        # the kind that the others are compared with
    measured = {problems = 64, between = 16, validation = 16}  # for few: see HowMeasured
    # measured = {chosen_by = "any@1"}  # the figure that chooses learning rates, instead of any@10

    [kinds.vpo]
    label = "VPO, m = 3"
    settings = {method = "vpo"}
    seeds = 5                   # more than the others, where wanted

    [kinds.grpo_x3]
    label = "GRPO, 3 x rollouts"
    settings = {method = "grpo", group_size = 24}

``like = "programs"`` takes everything from another shipped study. What stands beside it replaces a
whole entry: ``settings = {..}`` all settings, ``[kinds.a]`` all kinds.
"""

import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..checks import shortened, shown, told_of
from ..files import DamagedError, check, read_bytes
from ..messages import did_you_mean
from ..training.config import TrainConfig
from .stated import LONGEST, MOST_KINDS, NAME, Declaration, HowSearched, Kind

SPLIT_OF = {"problems": "held_out", "between": "held_out", "validation": "validation"}
DECLARED = Path(__file__).parent / "declared"
OF_THE_STUDY = ("lr", "seed", "threads")  # settings that the study itself gives to each run
RESERVED = ("search-", "failed-")  # how the names of other files begin
MUTATION = "mutation"  # in a search: mutations without a policy; no kind has this name


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
        with told_of(f"study {name}"):
            self.kinds = _expanded(declared.kinds)
            _check_named([self.baseline], self.kinds, "baseline")
            _check_named(declared.rates, self.kinds, "rates")
            _check_named(declared.beyond, self.kinds, "beyond")
        for kind in self.kinds:
            with told_of(f"study {name}, kind {kind}"):
                self._check(kind)
        if declared.search is not None:
            with told_of(f"study {name}, search"):
                self._check_search(declared.search)

    def rates(self, kind: str) -> list[float]:
        """The learning rates that this kind is tuned over."""
        rates = self.declared.rates.get(kind, self.declared.lr)
        return rates if self.kinds[kind].trained else rates[:1]

    def every_rate(self, kind: str) -> list[float]:
        """These, and those beyond them, in ascending order."""
        return sorted([*self.rates(kind), *self.declared.beyond.get(kind, [])])

    def seeds(self, kind: str) -> int:
        """Runs of this kind at the learning rate that was chosen."""
        return self.kinds[kind].seeds or self.declared.seeds

    def job(self, kind: str, lr: float, seed: int) -> Job:
        """The run of this kind with this learning rate and seed."""
        stated, declared = self.kinds[kind], self.declared
        settings = declared.settings | stated.settings | {"lr": lr, "seed": seed, "threads": 1}
        config = TrainConfig.preset(declared.preset, **settings)
        judged = config.but(**{"model": config.base_model} | stated.judged)
        return Job(kind, seed, config, judged, stated.trained)

    def tuning(self, kind: str) -> list[Job]:
        """The runs among which the learning rate of this kind is chosen: seed 0."""
        return [self.job(kind, lr, 0) for lr in self.rates(kind)]

    def every_job(self) -> dict[str, Job]:
        """All runs that it may come to, by their keys, whichever learning rates are chosen."""
        found = [
            self.job(kind, lr, seed)
            for kind in self.kinds
            for lr in self.every_rate(kind)
            for seed in range(self.seeds(kind))
        ]
        return {job.key: job for job in found}

    def problems(self, job: Job) -> int:
        """How many held-out problems a run is measured on at the end."""
        return 1 if job.judged.single else self.measured.problems

    def alike(self, kind: str, other: str) -> bool:
        """Whether two kinds are measured on the same problems, and scored alike."""
        one, two = (_judged_on(self.tuning(name)[0].judged) for name in (kind, other))
        return one == two

    def _check(self, kind: str) -> None:
        """ValueError where a run of this kind could not be done, or not be told from another."""
        stated, measured = self.kinds[kind], self.measured
        for name in OF_THE_STUDY:
            if name in self.declared.settings | stated.settings | stated.judged:
                raise ValueError(
                    f"settings: {name} is given by the study itself; leave it out"
                    + (" and write lr = [...] beside the settings" if name == "lr" else "")
                )
        jobs = [self.job(kind, lr, 0) for lr in self.every_rate(kind)]
        twice = _first_twice(job.key for job in jobs)
        if twice is not None:
            said = f"lr = {self.every_rate(kind)}: two runs would be named {twice}"
            raise ValueError(f"{said}; give rates that differ in their first six digits")
        judged = jobs[0].judged
        if measured.answers < judged.compared_size:
            raise ValueError(
                f"measured.answers = {measured.answers}: this kind is compared on sets of "
                f"{judged.compared_size} answers; measure as many or more"
            )
        needed = max(measured.chosen_k or 1, judged.compared_size)
        if measured.tuning_answers < needed:
            raise ValueError(
                f"measured.chosen_from = {measured.chosen_from}: {measured.chosen_by} and sets of "
                f"{judged.compared_size} need {needed} answers; give as many or more"
            )
        if judged.single:
            return
        asked = {f"measured.{n}": (s, getattr(measured, n)) for n, s in SPLIT_OF.items()}
        _check_problems(judged, asked)

    def _check_search(self, stated: HowSearched) -> None:
        """ValueError where a search could not be done, or not be compared with the others."""
        _check_named(stated.kinds, [*self.kinds, MUTATION], "kinds")
        twice = _first_twice(stated.kinds)
        if twice is not None:
            raise ValueError(f"kinds: {twice} is there twice")
        for kind in stated.kinds:
            config = self.tuning(self.baseline if kind == MUTATION else kind)[0].judged
            if stated.m % config.answers:
                raise ValueError(
                    f"m = {stated.m}: kind {kind} writes {config.answers} answers in a rollout; "
                    "m must be a multiple, so that all calls give equally many answers"
                )
            if not config.single:
                _check_problems(config, {"search.problems": ("held_out", stated.problems)})


def _expanded(kinds: dict[str, Kind]) -> dict[str, Kind]:
    """The kinds with one for each combination of what they vary. ValueError for a bad name."""
    many = sum(math.prod(map(len, kind.vary.values())) for kind in kinds.values())
    if many > MOST_KINDS:
        raise ValueError(f"vary gives {many:,} kinds, at most {MOST_KINDS:,} are allowed")
    found = [
        (name + "".join(f"-{n}{v}" for n, v in values.items()), kind, values)
        for name, kind in kinds.items()
        for chosen in itertools.product(*kind.vary.values())
        for values in [dict(zip(kind.vary, chosen, strict=True))]
    ]
    for name, *_ in found:
        if not re.fullmatch(NAME, name) or len(name) > LONGEST or name.startswith(RESERVED):
            raise ValueError(
                f"kind {shown(name)}: its name is part of file names: at most {LONGEST} letters, "
                f"digits, _ . and -, not {' or '.join(RESERVED)} at the beginning; "
                "where vary makes it, write the kinds one by one"
            )
        if name == MUTATION:
            raise ValueError(f"kind {name}: the search without a policy has this name; rename it")
    twice = _first_twice(name.lower() for name, *_ in found)
    if twice is not None:
        said = f"two kinds are named {twice}, upper and lower case alike"
        raise ValueError(f"{said}: they would share files")
    for i, (name, kind, values) in enumerate(found):
        label = ", ".join([kind.label, *(f"{n} = {v}" for n, v in values.items())])
        changes = {"settings": kind.settings | values, "label": label, "vary": {}}
        found[i] = name, kind.model_copy(update=changes)
    return dict(found)


def _judged_on(config: TrainConfig) -> tuple[str, dict]:
    """The task, and all of its options."""
    task = config.make_task()
    return config.task, {option.name: getattr(task, option.name) for option in task.options}


def _first_twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _check_named(names: Iterable[str], there: Iterable[str], what: str) -> None:
    if unknown := [name for name in names if name not in there]:
        raise ValueError(f"{what}: {shown(unknown[0])} is none of the kinds {', '.join(there)}")


def _check_problems(config: TrainConfig, asked: dict[str, tuple[str, int]]) -> None:
    """ValueError where a task has fewer problems than asked for: by field, split and number."""
    task, faults = config.make_task(), []
    for field, (split, count) in asked.items():
        has, there = f"task {config.task!r} has", len(task.seeds.get(split, ()))
        if split not in task.seeds:
            cure = f"name them in its seeds, as {split!r}"
            if hasattr(task, f"{split}_data"):
                cure = f'in settings write {split}_data = "FILE"'
            faults.append(f"{has} no problems for {split}, and a study needs them; {cure}")
        elif count > there:
            cure = f"{has} {there:,} problems ({split}); write {field} = {there}"
            faults.append(f"{field} = {count:,}: {cure}")
    if faults:
        raise ValueError("; ".join(dict.fromkeys(faults)))


def names() -> list[str]:
    """The studies that the package declares."""
    return sorted(path.stem for path in DECLARED.glob("*.toml"))


def read(name) -> Study:
    """The study with this name, or the one that a TOML file declares.

    Raises ValueError where there is none, DamagedError for a file not in the form of the module.
    """
    path = DECLARED / f"{name}.toml" if str(name) in names() else Path(name)
    if path.suffix != ".toml" or not path.is_file():
        typed, files = str(name).removesuffix(".toml"), map(str, path.parent.glob("*.toml"))
        near = did_you_mean([f"{typed}.toml"], files) or did_you_mean([typed], names())
        there = f"{', '.join(names())}, or a file NAME.toml"
        there = "no such file" if path.suffix == ".toml" else there
        raise ValueError(f"study {shown(str(name))}: there is {there}{near}")
    return Study(path.stem, check(_stated(path), Declaration, str(path)))


def _stated(path: Path) -> dict:
    """What a file says, after what the study says that it is like."""
    text = read_bytes(path)
    try:
        stated = tomllib.loads(  # K = inf as JSON holds it, by its name
            text.decode("utf-8-sig"), parse_float=lambda x: x if x == "inf" else float(x)
        )
    except (ValueError, RecursionError) as error:  # also a number of very many digits
        raise DamagedError(f"{path}: no TOML ({shortened(str(error), 200)})") from error
    like = stated.pop("like", None)
    if like is None:
        return stated
    base = DECLARED / f"{like}.toml"
    if like not in names() or base == path:
        raise DamagedError(
            f"{path}: like = {shown(like)}: expected another one of {', '.join(names())}"
        )
    return _stated(base) | stated
