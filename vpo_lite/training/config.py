"""The settings of a training run. A config that cannot work is refused when it is made.

Longer than 350 lines because it is the one list of all settings.
"""

import dataclasses
import functools
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..checks import LEAST_ALPHA, MOST_ALPHA, shown
from ..estimators import METHODS, check_whiten
from ..messages import did_you_mean
from ..options import Option, device_name, options_of, setting
from ..policy import DTYPES, LOAD_IN, shipped
from ..tasks import DEFAULT, Task, make_task, task_class, task_name, task_names
from ..tasks.base import MAX_ANSWERS
from ..tasks.by_name import full_name, method_name
from .presets import PRESETS

# Choices that other modules implement. They stand here so that a config needs no torch.
AGGREGATIONS = ("token", "sequence", "constant")
SCHEDULES = ("constant", "cosine")
MOST_WEIGHTS = 1_000_000
MOST_NORM = 1e6
MOST_MEASURED = 2_000  # answers to one problem
# How and where a run is computed, not what. Runs that differ only here are repetitions.
OF_THE_MACHINE = ("device", "threads", "save_every", "keep_texts", "eval_every", "compile")
OF_THE_MACHINE += ("micro_batch", "sample_batch", "gradient_checkpointing", "ignore_memory")

_Config = TypeVar("_Config", bound=type)


def _with_task_options(config: _Config) -> _Config:
    """Let a config be made from the options of its task, too."""
    made = config.__init__

    @functools.wraps(made)
    def make(self, **settings):
        made(self, **_sorted_out(settings))

    config.__init__ = make
    return config


@_with_task_options
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of one run. Start from :meth:`preset`, change with :meth:`but`.

    `TrainConfig.options()` explains all settings. The task's options are given like settings, and
    kept in ``task_options``. Raises ValueError for an unknown name and a value that cannot work.

    >>> TrainConfig(lrr=1e-3)
    Traceback (most recent call last):
    ...
    ValueError: unknown setting 'lrr'; did you mean lr?
    >>> TrainConfig.preset("demo", alpha=0)
    Traceback (most recent call last):
    ...
    ValueError: alpha = 0: must be a finite number, 1e-06 or more, at most 1,000,000
    """

    method: str = setting("vpo", f"method: {', '.join(METHODS)}, or package.module:function")
    task: str = setting(DEFAULT, f"task: {', '.join(task_names())}, or package.module:Class")
    task_options: dict = field(default_factory=dict, hash=False)
    model: str = setting(
        "auto", "shipped policy, folder or hub NAME[@REVISION]; auto: the task's shipped policy"
    )
    m: int = setting(
        3, "answers in one rollout; methods for single answers use 1", least=1, most=MAX_ANSWERS
    )
    set_size: int = setting(
        3, "methods for single answers: answers in a set that is measured", least=1, most=10_000
    )
    K: float = setting(
        64, "weights for each prompt; inf: the exact mean", least=1, most=MOST_WEIGHTS, inf=True
    )
    alpha: float = setting(
        1.0, "Dirichlet concentration of the weights, above 0", least=LEAST_ALPHA, most=MOST_ALPHA
    )
    k: int | None = setting(
        None,
        "max_at_k: best of N answers, 1 to G - 1; default: max(2, G // 2)",
        least=1,
        most=10**6,
    )
    steps: int = setting(40, "training steps", least=1, most=10**9)
    prompts: int = setting(4, "prompts P in a step", least=1, most=10**6)
    group_size: int = setting(
        16, "rollouts G per prompt: the group that advantages compare", least=2, most=10**6
    )
    pay_repeats: bool = setting(
        False, "a repeated answer of a rollout keeps its rewards; default: it gets the worst vector"
    )
    epochs: int = setting(
        1, "PPO epochs: passes over a step's rollouts, an update each", least=1, most=1000
    )
    mini_batches: int = setting(
        1,
        "mini-batches of whole prompts in a pass, an update each (PPO); N must divide --prompts",
        least=1,
        most=10**6,
    )
    mask_truncated: bool = setting(
        False, "rollouts cut off at the token limit give no gradient (DAPO)"
    )
    lr: float = setting(
        1e-3, "learning rate of AdamW; LoRA learns at 1e-5 to 1e-3", above=0, most=1
    )
    warmup_steps: int = setting(
        0, "first steps, in which the learning rate rises from 0 to --lr", least=0, most=10**9
    )
    lr_schedule: str = setting(
        "constant",
        "learning rate after the warm-up: constant, or cosine, which falls to 0 at the end",
        choices=SCHEDULES,
    )
    weight_decay: float = setting(0.0, "weight decay of AdamW", least=0, most=1)
    max_grad_norm: float = setting(
        1.0,
        "gradients are scaled down to this norm where theirs is larger; 0: never",
        least=0,
        most=MOST_NORM,
    )
    rank: int = setting(16, "rank of LoRA", least=1, most=4096)
    lora_alpha: int = setting(32, "LoRA's output is multiplied by N / rank", least=1, most=10**6)
    target_modules: str = setting(
        "all-linear",
        "linear layers that LoRA adapts: all-linear, or names with commas between: q_proj,v_proj",
    )
    kl: float = setting(
        0.0, "coefficient of the KL to the start model; 0: only report it", least=0, most=1e6
    )
    entropy: float = setting(
        0.0, "coefficient of an entropy bonus, which keeps sampling broad", least=0, most=1e6
    )
    clip: float = setting(0.2, "PPO's clip: ratios count in [1 - X, 1 + X]", above=0, most=1)
    clip_high: float | None = setting(
        None, "the clip's upper side, 1 + X (DAPO); default: --clip", above=0, most=1e6
    )
    dual_clip: float | None = setting(
        None,
        "where the advantage is negative, ratios count as X at most, above 1; default: no bound",
        above=1,
        most=1e6,
    )
    eps: float = setting(1e-4, "added to the divisor of advantages", above=0, most=1e6)
    whiten: bool = setting(False, "gdpo, max_at_k: also divide by the batch's deviation")
    aggregation: str = setting(
        "token",
        "what counts equally in the loss: token: all tokens; sequence: all rollouts; constant: all "
        "tokens, divided by a rollout's token limit",
        choices=AGGREGATIONS,
    )
    micro_batch: int | None = setting(
        None, "rollouts in one forward pass: less memory, the same gradient", least=1, most=10**9
    )
    sample_batch: int | None = setting(
        None,
        "rollouts sampled at a time: less memory; the same rollouts, up to rounding",
        least=1,
        most=10**9,
    )
    temperature: float = setting(
        1.0, "temperature of sampling and loss, 0.01 to 100", least=0.01, most=100
    )
    max_new_tokens: int | None = setting(
        None, "most tokens in a completion; default: what the task asks", least=1, most=10**6
    )
    dtype: str = setting(
        "auto", "number format of the base parameters: " + ", ".join(DTYPES), choices=DTYPES
    )
    load_in: str | None = setting(
        None, "quantise the base parameters: 8bit or 4bit (needs bitsandbytes)", choices=LOAD_IN
    )
    gradient_checkpointing: bool = setting(
        False, "recompute layers: less memory, more time, the same gradient"
    )
    ignore_memory: bool = setting(False, "train even if the memory needed exceeds the machine's")
    rollout_dtype: str = setting(
        "auto",
        "number format of sampling in training: auto (as the parameters), bfloat16, float32",
        choices=DTYPES,
    )
    compile: bool = setting(False, "sample through torch.compile in training: for long runs")
    eval_problems: int | None = setting(
        None,
        "held-out problems measured before and after; default: 64, or all where there are fewer",
        least=1,
        most=10**6,
    )
    eval_answers: int | None = setting(
        None,
        "answers sampled per held-out problem; default: 30, or one set if larger",
        least=1,
        most=MOST_MEASURED,
    )
    eval_every: int | None = setting(None, "measure and keep the adapter every N steps", least=1)
    seed: int = setting(0, "seed of every random draw", least=0, most=2**63 - 1)
    device: str = setting("auto", "device: auto, cpu, cuda, cuda:N or mps")
    threads: int | None = setting(
        None, "threads of torch on the CPU; default: torch decides", least=1, most=1024
    )
    save_every: int = setting(1, "steps between two states for --resume", least=1, most=10**9)
    keep_texts: int = setting(
        0, "completions of each step that texts.jsonl keeps", least=0, most=10**6
    )

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """All settings, in order, without the options of the task."""
        return _OPTIONS

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "TrainConfig":
        """The preset of this name, with ``changes``. Names: demo, patient, laptop, gpu, paper."""
        if not isinstance(name, str) or name not in PRESETS:
            raise ValueError(f"unknown preset {shown(name)}: there are {', '.join(PRESETS)}")
        try:
            return cls(**PRESETS[name] | changes)
        except ValueError as error:
            named = re.findall(r"\w+ = [\w.-]+", str(error))
            kept = [f"{k} = {v}" for k, v in PRESETS[name].items() if k not in changes]
            if theirs := [text for text in kept if text in named]:
                raise ValueError(f"{error} (preset {name} sets {', '.join(theirs)})") from None
            raise

    def but(self, **changes: Any) -> "TrainConfig":
        """A copy with settings or task options changed. Another task starts from its defaults."""
        kept = self.task_options if task_name(changes.get("task", self.task)) == self.task else {}
        return dataclasses.replace(self, **{"task_options": kept} | changes)

    def __post_init__(self):
        object.__setattr__(self, "task", task_name(self.task))
        object.__setattr__(self, "method", method_name(self.method))
        if isinstance(self.model, os.PathLike):
            object.__setattr__(self, "model", os.fspath(self.model))
        object.__setattr__(self, "device", device_name(self.device))
        for option in _OPTIONS:
            object.__setattr__(self, option.name, option.check(getattr(self, option.name)))
        if self.max_grad_norm == 0:  # never, as in TRL; others would scale gradients down to 0
            object.__setattr__(self, "max_grad_norm", MOST_NORM)
        task = self._task
        given = [o.name for o in task.options if getattr(task, o.name) != o.default]
        object.__setattr__(self, "task_options", {name: getattr(task, name) for name in given})
        if self.answers == 1 and self.set_size > (G := self.group_size):
            raise ValueError(
                f"set_size = {self.set_size} with group_size = {G}: a compared set, by default "
                f"of 3, is taken from one group; give set_size = {G}, or a larger group"
            )
        if self.eval_answers and self.eval_answers < self.compared_size:
            raise ValueError(
                f"eval_answers = {self.eval_answers} with sets of {self.compared_size}: measure as "
                "many answers or more"
            )
        if self.prompts % self.mini_batches:
            raise ValueError(
                f"mini_batches = {self.mini_batches:,} with prompts = {self.prompts:,}: each holds "
                "equally many prompts; set mini_batches = 1, or to another divisor of prompts"
            )
        if self.k is not None and self.k >= self.group_size:
            raise ValueError(
                f"k = {self.k} with group_size = {self.group_size}: max_at_k needs k < group_size"
            )
        if self.whiten:
            check_whiten(self.method)
        if self.warmup_steps >= self.steps:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps:,} with steps = {self.steps:,}: the learning "
                "rate would never reach lr; lower warmup_steps, or train more steps"
            )
        base = task.pocket_policy if self.model == "auto" else self.model
        if base is None:
            raise ValueError(
                f"model = 'auto': no shipped policy reads task {self.task!r}; name a model"
            )
        task.check_policy(self.answers, shipped.description(base))

    @property
    def base_model(self) -> str:
        """The model's name. "auto" is the shipped policy of the task.

        >>> TrainConfig().base_model
        'pocket-6x6'
        """
        return self._task.pocket_policy if self.model == "auto" else self.model

    @property
    def answers(self) -> int:
        """Answers in one rollout: m, or 1 for a method that scores single answers."""
        return 1 if METHODS[self.method].single_answer else self.m

    @property
    def update_size(self) -> int:
        """Rollouts in one update: those of a mini-batch.

        >>> TrainConfig(prompts=4, group_size=16, mini_batches=2).update_size
        32
        """
        return self.prompts // self.mini_batches * self.group_size

    @property
    def compared_size(self) -> int:
        """Answers in a compared set: those of one rollout, or ``set_size`` single answers."""
        return self.set_size if self.answers == 1 else self.answers

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        During warm-up it is lr * step / warmup_steps, so the very first step learns nothing. Then
        it stays at lr, or falls as half a cosine to 0 at ``steps``. TRL and veRL have the same.

        >>> config = TrainConfig(lr=0.4, steps=6, warmup_steps=2, lr_schedule="cosine")
        >>> [round(config.lr_at(step), 3) for step in range(6)]
        [0.0, 0.2, 0.4, 0.341, 0.2, 0.059]
        """
        if step < self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.lr_schedule == "constant":
            return self.lr
        done = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        return self.lr * 0.5 * (1 + math.cos(math.pi * done))

    @property
    def measured_answers(self) -> int:
        """Answers to each problem that is measured."""
        return self.eval_answers or min(max(30, self.compared_size), MOST_MEASURED)

    @property
    def single(self) -> bool:
        """Whether the run trains on one problem. It is then evaluated on that problem."""
        return self._task.single

    @property
    def files(self) -> dict[str, str]:
        """The data files of the task, by the option that names each."""
        return self._given("path")

    @property
    def code(self) -> dict[str, str]:
        """What the run imports by name, by the setting or option that names it."""
        named = {"task": self.task, "method": full_name(self.method)} | self._given("code")
        return {name: value for name, value in named.items() if ":" in value}

    def _given(self, kind: str) -> dict[str, str]:
        """The options of a kind that have a value."""
        names = [option.name for option in self._task.options if getattr(option, kind)]
        return {name: x for name in names if (x := getattr(self._task, name)) is not None}

    def make_task(self) -> Task:
        """The task with this run's options, made anew."""
        return make_task(self.task, self.task_options)

    _task = functools.cached_property(make_task)  # to ask about options: making one may take long

    def __getstate__(self) -> dict:  # for pickle and copy, without the task
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def to_json(self) -> dict:
        """The settings as JSON values: K = inf as "inf", model "auto" as the model's name, a method
        of yours with its module in front.
        """
        named = {"model": self.base_model, "method": full_name(self.method)}
        return dataclasses.asdict(self) | named | {"K": "inf" if self.K == math.inf else self.K}

    @classmethod
    def from_json(cls, values: dict) -> "TrainConfig":
        """The config that :meth:`to_json` wrote."""
        if not isinstance(values, dict):
            raise ValueError(f"config = {shown(values)}: expected a dict of settings")
        return cls(**values | ({"K": math.inf} if values.get("K") == "inf" else {}))


def _sorted_out(changes: dict) -> dict:
    """The changes, with the options of the task in task_options. ValueError: unknown name."""
    settings = {option.name for option in _OPTIONS} | {"task_options"}
    task = task_class(task_name(changes.get("task", DEFAULT)))
    own = {option.name for option in task.options}
    if taken := ", ".join(sorted(own & settings)):
        raise ValueError(
            f"task {task.name!r}: its option {taken} has the name of a setting; rename it"
        )
    for name in changes:
        if name not in settings and name not in own:
            there = f": there are {', '.join(sorted(settings - {'task_options'}))}; and of task "
            there += f"{task.name!r}: {', '.join(sorted(own)) or 'none'}"
            near = did_you_mean([name], settings | own)
            raise ValueError(f"unknown setting {shown(name)}{near or there}")
    given = changes.get("task_options", {})
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"task_options = {shown(given)}: must be a dict of settings by name")
    options = given | {k: v for k, v in changes.items() if k in own}
    return {k: v for k, v in changes.items() if k in settings} | {"task_options": options}


_OPTIONS = options_of(TrainConfig)
