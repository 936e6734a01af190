"""Every setting of a training run, checked when it is made: a config that cannot work is never built."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import envs

from ..estimators import METHODS
from ..tasks import Task, task_named

AGGREGATIONS = ("token", "sequence", "constant")  # what training/loss.py knows; named here so that a config needs no torch
DTYPES, LOAD_IN = ("auto", "bfloat16", "float32"), ("8bit", "4bit")  # what policy/model.py knows
HELD_OUT_SEEDS, TRAINING_SEEDS = envs.SEEDS["held_out"], envs.SEEDS["training"]  # the rest: training/pretrain.py

_PRESETS: dict[str, dict[str, Any]] = {
    # one maze, live, CPU
    "demo": dict(steps=40, prompts=4, group_size=16, K=64, m=3, lr=1e-3, rank=16, lora_alpha=32, kl=0.0, eps=1e-4),
    # many mazes, CPU, minutes
    "laptop": dict(steps=250, prompts=16, group_size=8, K=64, m=3, lr=4e-4, rank=16, lora_alpha=32, kl=1e-3, eps=1e-4),
    # many mazes or a Hugging Face model, one GPU
    "gpu": dict(steps=300, prompts=32, group_size=16, K=100, m=3, lr=2e-4, rank=32, lora_alpha=64, kl=1e-3, eps=1e-6),
    # the paper's settings as far as one machine can: 2 epochs over 1,000 mazes at 128 prompts a step
    "paper": dict(steps=16, prompts=128, group_size=8, K=100, m=3, lr=1e-5, rank=64, lora_alpha=128, kl=1e-3, eps=1e-6),
}


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run. Start from :meth:`preset`; change one with ``dataclasses.replace`` or :meth:`but`.

    method: a name of ``vpo_lite.METHODS``; task, layout, reward_mode: the problem; maze_seed: train on that one maze;
    maze: text of a hand-drawn maze to train on instead (``maze_budget``: its budget, None = shortest way + 2n); neither:
    many mazes. model: pocket name, folder or hub name; "auto" is the smallest pocket policy that reads the board. m: answers
    in a rollout (methods for single answers take 1); set_size: how many single answers make the set that they are compared
    on. K: weights drawn per prompt group, or ``math.inf`` for the exact expectation; alpha: Dirichlet concentration; k: of
    max_at_k, 1..G-1 (None: max(2, G // 2)). steps; prompts P and group_size G per step; epochs over each step's rollouts.
    lr: AdamW, constant; rank, lora_alpha: LoRA; kl: coefficient of the KL to the reference in the loss (0: only reported);
    clip: PPO's ratio clip; eps: beside the group's spread; aggregation of tokens in the loss: "token", "sequence" or
    "constant" (training/loss.py); micro_batch: rollouts in one forward pass (less memory, the same gradient), None = all, or
    on the command line as many as fit into memory; temperature: of sampling and scoring; max_new_tokens: None = what m
    answers need.
    dtype of the base weights (the adapter's is always float32): "auto" (bfloat16 for a language model on a GPU that has it),
    "bfloat16", "float32"; load_in: "8bit" or "4bit" quantises them, None = as they are; gradient_checkpointing: run the
    layers again in the backward pass (less memory, the same gradient); rollout_dtype: what sampling counts in, "auto" = the
    weights' own, or "bfloat16", "float32" (the sampler is then no longer quite the trained policy: see
    StepRecord.sampler_gap); compile: sample through torch.compile (some seconds of compilation, then faster: for long runs).
    seed: of every draw; device: "auto", "cpu", "cuda"; threads: of torch on the CPU, None = as torch decides;
    save_every: steps between two saved states.

    >>> TrainConfig.preset("demo", method="grpo").answers      # GRPO scores one answer a rollout
    1
    >>> TrainConfig.preset("demo", alpha=0)
    Traceback (most recent call last):
    ...
    ValueError: alpha = 0: the Dirichlet concentration must be a finite number above 0, 1 draws all weightings alike
    """

    method: str = "vpo"
    task: str = "maze"
    layout: str = "lite-6x6"
    reward_mode: str = "linear"
    maze_seed: int | None = None
    maze: str | None = None
    maze_budget: int | None = None
    model: str = "auto"
    m: int = 3
    set_size: int = 3
    K: float = 64
    alpha: float = 1.0
    k: int | None = None
    steps: int = 40
    prompts: int = 4
    group_size: int = 16
    epochs: int = 1
    lr: float = 1e-3
    rank: int = 16
    lora_alpha: int = 32
    kl: float = 0.0
    clip: float = 0.2
    eps: float = 1e-4
    aggregation: str = "token"
    micro_batch: int | None = None
    temperature: float = 1.0
    max_new_tokens: int | None = None
    dtype: str = "auto"
    load_in: str | None = None
    gradient_checkpointing: bool = False
    rollout_dtype: str = "auto"
    compile: bool = False
    seed: int = 0
    device: str = "auto"
    threads: int | None = None
    save_every: int = 1

    @classmethod
    def preset(cls, name: str, **changes) -> "TrainConfig":
        """The settings with this name, with ``changes``. Names: demo, laptop, gpu, paper."""
        if name not in _PRESETS:
            raise ValueError(f"unknown preset {name!r}: there are {', '.join(_PRESETS)}")
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise ValueError(f"unknown setting {unknown[0]!r}: there are {', '.join(sorted(known))}")
        return cls(**_PRESETS[name] | changes)

    def but(self, **changes) -> "TrainConfig":
        """A copy with some settings changed."""
        return dataclasses.replace(self, **changes)

    def __post_init__(self):
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}: there are {', '.join(METHODS)}")
        for name in ("m", "set_size", "steps", "prompts", "epochs", "rank", "lora_alpha", "save_every"):
            self._whole(name, 1)
        self._whole("group_size", 2, "an advantage compares the rollouts of one group")
        for name in ("threads", "max_new_tokens", "maze_budget", "micro_batch"):
            if getattr(self, name) is not None:
                self._whole(name, 1)
        self._whole("seed", 0)
        if self.answers == 1 and self.set_size > self.group_size:
            raise ValueError(
                f"set_size = {self.set_size} with group_size = {self.group_size}: a compared set is taken from one group"
            )
        if self.K != math.inf:
            self._whole("K", 1, "or inf for the exact expectation")
            if self.K > 1_000_000:
                raise ValueError(f"K = {self.K}: at most 1,000,000 sampled weights; inf is the exact expectation")
        self._number("alpha", "the Dirichlet concentration must be a finite number above 0, 1 draws all weightings alike")
        for name in ("lr", "temperature", "clip", "eps"):
            self._number(name, "must be a finite number above 0")
        if self.lr > 1:
            raise ValueError(f"lr = {self.lr!r}: must be at most 1; LoRA learns at 1e-5 to 1e-3")
        if self.kl != 0:
            self._number("kl", "must be a finite number, 0 or above")
        if self.k is not None:
            self._whole("k", 1, "it counts answers of one group")
            if self.k >= self.group_size:
                raise ValueError(f"k = {self.k} with group_size = {self.group_size}: max_at_k needs 1 <= k <= G - 1")
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"unknown aggregation {self.aggregation!r}: there are {', '.join(AGGREGATIONS)}")
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}: there are {', '.join(DTYPES)}")
        if self.load_in not in (None, *LOAD_IN):
            raise ValueError(f"unknown load_in {self.load_in!r}: there are {', '.join(LOAD_IN)}; None is no quantisation")
        if self.rollout_dtype not in DTYPES:
            raise ValueError(f"unknown rollout_dtype {self.rollout_dtype!r}: there are {', '.join(DTYPES)}")
        for name in ("gradient_checkpointing", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be True or False")
        if self.reward_mode not in ("linear", "convex_bonus"):
            raise ValueError(f"unknown reward_mode {self.reward_mode!r}: there are 'linear', 'convex_bonus'")
        if self.maze is not None and self.maze_seed is not None:
            raise ValueError(f"maze and maze_seed = {self.maze_seed}: give one of the two")
        if self.maze_seed is not None:
            self._whole("maze_seed", 0)
        self.make_task()  # refuses unknown tasks and layouts, and drawn mazes that are none

    def _whole(self, name: str, least: int, why: str = "") -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} = {value!r}: must be a whole number, {least} or more" + (f" ({why})" if why else ""))

    def _number(self, name: str, rule: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise ValueError(f"{name} = {value!r}: {rule}")

    @property
    def base_model(self) -> str:
        """The model's name, "auto" resolved.

        >>> TrainConfig().base_model, TrainConfig(layout="paper-9x9").base_model
        ('pocket-6x6', 'pocket-9x9')
        """
        if self.model != "auto":
            return self.model
        size = envs.PRESETS[self.layout].size if self.maze is None else max(self._drawn().shape)
        return "pocket-9x9" if size > 6 else "pocket-6x6"

    @property
    def answers(self) -> int:
        """Answers that one rollout really asks for: m, or 1 for a method whose number needs a single answer."""
        return 1 if METHODS[self.method].single_answer else self.m

    @property
    def compared_size(self) -> int:
        """Answers in the sets that methods are compared on: one rollout's, or ``set_size`` single ones."""
        return self.set_size if self.answers == 1 else self.answers

    @property
    def one_maze(self) -> bool:
        """Whether the run trains on one maze (its own evaluation ground) instead of many."""
        return self.maze is not None or self.maze_seed is not None

    def make_task(self) -> Task:
        """The task with this run's options."""
        maze = None
        if self.maze is not None:
            maze = self._drawn()
        elif self.maze_seed is not None and self.task == "maze" and self.layout in envs.PRESETS:
            maze = envs.generate(self.layout, self.maze_seed)
        return task_named(self.task, layout=self.layout, maze=maze, reward_mode=self.reward_mode)

    def _drawn(self) -> "envs.Maze":
        return envs.Maze.from_text(self.maze, budget=self.maze_budget)

    def to_json(self) -> dict:
        """As plain JSON values (K = inf is the text "inf", the model has its name)."""
        return dataclasses.asdict(self) | {"K": "inf" if self.K == math.inf else self.K, "model": self.base_model}

    @classmethod
    def from_json(cls, values: dict) -> "TrainConfig":
        return cls(**values | {"K": math.inf if values.get("K") == "inf" else values.get("K", 64)})
