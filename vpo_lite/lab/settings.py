"""What a lab trains: its methods, their settings, and one problem or many.

`Settings` are frozen. A change makes new ones, and whatever cannot work for any of the methods is
refused when they are made.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature

from ..checks import shown
from ..estimators import METHODS
from ..messages import did_you_mean
from ..options import Option
from ..tasks.base import Task
from ..tasks.by_name import method_name
from ..tasks.registry import task_class, task_name
from ..tasks.sandbox import cores
from ..training.config import TrainConfig

MOST_RUNS = 3  # side by side
MOST_EARLIER = 4  # runs that stay as faint curves
# What acts from a run's next step on.
AT_ONCE = ("alpha", "K", "m", "set_size", "group_size", "prompts", "lr", "steps")

_MANY = Option("many", bool, None, "whether to train on many problems")
_PRESET = Option("preset", str, "demo", "name of a preset")


@dataclass(frozen=True)
class Settings:
    """The settings of one to three runs that train side by side.

    All are judged in sets of m: m single answers make a set, too. Only a lab without a method that
    writes sets may give set_size another value.

    - methods: their methods, by name
    - config: settings of the first run, without the options that single out one problem
    - chosen: those options, by name; they are kept while ``many`` is on
    - many: train on many problems although one is chosen

    >>> settings = Settings.of(("vpo", "grpo"), {"alpha": 0.3})
    >>> settings.configs["grpo"].alpha, settings.but(many=True).configs["vpo"].single
    (0.3, False)
    >>> settings.but(m=5).configs["grpo"].compared_size
    5
    """

    methods: tuple[str, ...]
    config: TrainConfig
    chosen: dict = field(default_factory=dict)
    many: bool = False

    @classmethod
    def of(cls, methods, settings: dict, *, preset: str = "demo", many: bool = False) -> "Settings":
        """From a name or names of methods, settings and task options by name, and a preset."""
        methods = checked_methods(methods)
        settings = {"threads": usual_threads()} | _plain(settings)
        many, preset = bool(_MANY.check(many)), _PRESET.check(preset)
        config = _of_the_first(methods, settings, lambda s: TrainConfig.preset(preset, **s))
        task = task_class(config.task)
        chosen = {k: v for k, v in config.task_options.items() if k in task.singles_out}
        unchosen = {o.name: o.default for o in task.options if o.name in chosen}
        return cls(methods, config.but(**unchosen), chosen, many)

    def but(self, *, methods=None, many: bool | None = None, **changes) -> "Settings":
        """A copy with some settings changed; the chosen problem stays."""
        methods = self.methods if methods is None else checked_methods(methods)
        if task_name(changes.get("task", self.config.task)) != self.config.task:
            task = shown(changes["task"])
            raise ValueError(f"task = {task}: a lab keeps its task; make another lab")
        config = _of_the_first(methods, _plain(changes), lambda s: self.config.but(**s))
        many = self.many if _MANY.check(many) is None else many
        return Settings(methods, config, self.chosen, many)

    def choosing(self, **options) -> "Settings":
        """A copy with another problem chosen. Options that single out none are changed with it."""
        single = task_class(self.config.task).singles_out
        chosen = {k: v for k, v in options.items() if k in single}
        others = {k: v for k, v in options.items() if k not in single}
        return dataclasses.replace(self, config=self.config.but(**others), chosen=chosen)

    def __post_init__(self):
        _ = self.configs  # refuses here what cannot work
        if self.many:
            self.task()  # and a problem that only waits for its turn

    @cached_property
    def configs(self) -> dict[str, TrainConfig]:
        """The settings of each method's run."""
        chosen = {} if self.many else self.chosen
        return {m: self.config.but(method=m, **chosen) for m in self.methods}

    @property
    def asks_for(self) -> tuple[str, dict, dict]:
        """What decides about the task and the problem to look at."""
        return self.config.task, self.config.task_options, self.chosen

    def task(self) -> Task:
        """The task with the chosen problem, also where ``many`` is on."""
        return self.config.but(**self.chosen).make_task()

    def of_a_run(self, method: str, began: "Settings") -> TrainConfig:
        """The settings of a run under way: those that act at once are of now, as far as they fit
        the others, which are those of ``began``.
        """
        now = {name: getattr(self.config, name) for name in _at_once(began)}
        now["set_size"] = min(self.config.set_size, self.config.group_size)
        config = began.configs[method]
        try:
            return config.but(**now)
        except ValueError:  # not all fit the others, such as k: those that do
            for name, value in [*now.items()] * 2:  # twice: set_size may wait for group_size
                with contextlib.suppress(ValueError):
                    config = config.but(**{name: value})
            return config

    def needs_fresh_run(self, began: "Settings") -> str:
        """What a run that began with other settings does not follow; "" if it follows all."""
        others = self.methods != began.methods
        changed = ["method"] * others
        noun = task_class(self.config.task).noun
        changed += [f"one {noun} or many"] * (self.many != began.many)
        now, then = (dataclasses.asdict(s.config) | s.config.task_options for s in (self, began))
        names = [n for n in now | then if n not in (*_at_once(began), *_OWN)]
        return ", ".join(changed + [n for n in names if now.get(n) != then.get(n)])


_OWN = ("method", "task_options")  # said in their own words


def _at_once(began: Settings) -> tuple[str, ...]:
    """The settings that a run follows. Where its learning rate falls to 0 at its last step, more
    steps would let it rise again.
    """
    falls = began.config.lr_schedule != "constant"
    return tuple(name for name in AT_ONCE if not (falls and name == "steps"))


def imported(names):
    """The name or names of methods, where one that is written as ``package.module:function`` was
    imported. It is for what a person writes in Python: a share code imports nothing.
    """
    if isinstance(names, str):
        return method_name(names) if ":" in names else names
    return [imported(x) if isinstance(x, str) else x for x in names] if _several(names) else names


def checked_methods(names) -> tuple[str, ...]:
    """One name or several as a tuple. ValueError for unknown, repeated, none or too many."""
    given = names if _several(names) else (names,)
    known = {name for name in given if isinstance(name, str) and name in METHODS}
    if not 1 <= len(given) == len(known) <= MOST_RUNS:
        near = did_you_mean([x for x in given if isinstance(x, str) and x not in known], METHODS)
        raise ValueError(
            f"methods = {shown(names)}: expected one to {MOST_RUNS} different names "
            f"out of {', '.join(METHODS)}; one of yours is there once its module is imported{near}"
        )
    return tuple(given)


def _several(names) -> bool:
    return isinstance(names, Collection) and not isinstance(names, str)


def check_spelling(settings: dict, task: str, call: Callable) -> None:
    """Raise ValueError for a misspelled setting, or argument of this call: it names the one that
    was probably meant. Other unknown names are left to `TrainConfig`.
    """
    options = (*TrainConfig.options(), *task_class(task_name(task)).options)
    known = {option.name for option in options} | {*signature(call).parameters}
    for name in settings:
        if name not in {*known, *_OWN} and (near := did_you_mean([name], known.difference(_OWN))):
            raise ValueError(f"unknown setting {shown(name)}{near}")


def check_many(many: bool | None, task: str) -> None:
    """Raise ValueError for many=False where no option of the task singles out one problem."""
    if _MANY.check(many) is False and not task_class(task_name(task)).singles_out:
        said = f"no option of task {task_name(task)!r} singles out one problem"
        raise ValueError(f"many = False: {said}, so training draws many; leave many out")


def _writers(methods) -> list[str]:
    """Those of the methods that write sets."""
    return [method for method in methods if not METHODS[method].single_answer]


def _of_the_first(methods, given: dict, make: Callable[[dict], TrainConfig]) -> TrainConfig:
    """The settings of the first method's run. set_size is m; without a method that writes sets it
    may be given.
    """
    if not (writers := _writers(methods)):
        size = {"set_size": given["m"]} if "m" in given else {}
        return make(size | given | {"method": methods[0]})
    config = make(given | {"method": writers[0]})  # which takes any set_size, such as an older m
    if "set_size" in given and config.set_size != config.m:
        raise ValueError(
            f"set_size = {config.set_size}: beside a method that writes sets, single answers are "
            f"compared in sets of m = {config.m}; leave it out"
        )
    if len(writers) < len(methods) and config.m > config.group_size:
        raise ValueError(
            f"m = {config.m} with group_size = {config.group_size}: single answers are compared in "
            "sets of m, too, and a set is taken from one group"
        )
    return config.but(method=methods[0], set_size=config.m)


def usual_threads() -> int:
    """Threads of torch: at most four, and one core stays with the panel."""
    return max(1, min(4, cores() - 1))


def _plain(settings: dict) -> dict:
    """Settings with K = "inf" as a number. ValueError for two that a lab has in another form."""
    if "method" in settings:
        raise ValueError("method: a lab takes methods=, one name or several")
    if "task_options" in settings:
        raise ValueError("task_options: a lab takes each option of the task by its own name")
    return settings | {"K": math.inf} if settings.get("K") in ("inf", "∞") else settings
