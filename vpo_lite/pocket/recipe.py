"""What makes a pocket policy: settings, and what it is shown. One recipe for each task.

A recipe is a file of this folder with the name of its task, and one class in it that derives from
:class:`Recipe`. The training loop, the card and the command line know no particular task.
"""

import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..checks import shown
from ..metrics import coverage
from ..options import Option, options_of, setting
from ..tasks.base import SPLITS, Prompt, Task
from ..tasks.registry import task_names

POCKET_ANSWERS = 5  # in one completion
FIRST_SEED = SPLITS["pretraining"][0]
WEIGHTS = tuple(f"<w{tenths}>" for tenths in range(11))  # as `weight_symbols` writes them


@dataclass(frozen=True)
class Recipe(ABC):
    """The settings that every recipe has, and what a task adds to them.

    - task: name of the task; tag: that of its answers
    - problems: what its problems are called
    - longest: most tokens of a prompt with its answers
    - stops: whether sampling ends at the closing tag of the last answer, without EOS
    - columns: shares that are measured on held-out problems -> their titles in the card

    A task adds settings as fields of its own, and defines the abstract methods.
    """

    task: ClassVar[str]
    tag: ClassVar[str]
    problems: ClassVar[str]
    longest: ClassVar[int] = 512
    stops: ClassVar[bool] = False
    columns: ClassVar[dict[str, str]] = {}

    updates: int = setting(3_000, "updates of the model", least=1, most=10**9)
    batch: int = setting(128, "demonstrations in an update", least=1, most=65_536)
    lr: float = setting(2e-3, "peak learning rate of AdamW, which then falls to 0", above=0, most=1)
    lr_updates: int | None = setting(
        None, "updates after which the learning rate would be 0; default: all", least=1, most=10**9
    )
    seed: int = setting(0, "seed of every random draw", least=0, most=2**63 - 1)
    width: int = setting(128, "width of the model", least=1, most=16_384)
    layers: int = setting(4, "layers of the model", least=1, most=200)
    heads: int = setting(
        4, "attention heads; --width is an even multiple of them", least=1, most=256
    )
    mlp: int = setting(384, "width of the model's MLP", least=1, most=65_536)
    save_every: int = setting(200, "updates between two stored states", least=1, most=10**9)

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """All settings, the task's own first; the flags of ``vpo-lite pretrain`` come from them."""
        common = {field.name for field in dataclasses.fields(Recipe)}
        return tuple(sorted(options_of(cls), key=lambda option: option.name in common))

    def __post_init__(self):
        for option in self.options():
            object.__setattr__(self, option.name, option.check(getattr(self, option.name)))
        if self.lr_updates is not None and self.lr_updates < self.updates:
            raise ValueError(
                f"lr_updates = {self.lr_updates}, updates = {self.updates}: the learning rate "
                "would be zero before the end; raise lr_updates"
            )
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"width = {self.width}, heads = {self.heads}: width must be an even multiple of "
                "heads"
            )

    @classmethod
    def from_json(cls, stored: dict) -> "Recipe":
        """The settings that pretrain.json holds. ValueError for an unknown name."""
        unknown = set(stored) - {option.name for option in cls.options()}
        if unknown:
            raise ValueError(f"unknown setting {shown(min(unknown))}")
        return cls(**stored)

    # --- what a task defines ----------------------------------------------------------------------

    @abstractmethod
    def words(self) -> list[str]:
        """The tokens of prompts and answers, in the order of the ids; `WEIGHTS` are among them."""

    def vocabulary(self) -> list[str]:
        """Every token, in the order of the ids."""
        numbers = range(1, POCKET_ANSWERS + 1)
        return [
            *["<pad>", "<bos>", "<eos>"],
            *[f"<m{m}>" for m in numbers],
            *self.words(),
            *[tag for i in numbers for tag in (f"<{self.tag}_{i}>", f"</{self.tag}_{i}>")],
        ]

    def parts(self) -> dict[str, tuple[str, ...]]:
        """The parts of words that fuse several: ``"ab"`` -> ``("a", "b")``; empty for none.

        The embedding of such a word, and its row of the output layer, begin as the sum of a random
        vector for each part. Words that share a part are then alike from the first update on.
        """
        return {}

    def pocket(self) -> dict:
        """What the policy says of itself: ``task``, ``answers``, and whatever its task reads."""
        stop = {"stop": f"</{self.tag}_{{m}}>"} if self.stops else {}
        return {"task": self.task, "answers": POCKET_ANSWERS, **stop}

    @abstractmethod
    def demonstration(self, i: int) -> tuple[Prompt, str]:
        """Number i: a prompt in symbols, and the completion. A pure function of (settings, i)."""

    @abstractmethod
    def measured(self) -> dict[str, Task]:
        """The tasks that the finished policy is measured on, by the names that the card uses."""

    def figures(self, groups: Sequence[Any]) -> dict[str, float | None]:
        """A share in [0, 1] for each of ``columns``, from the answers to held-out problems.

        groups: ``Answers`` of one rollout each. None where nothing can be counted. By default, for
        a task whose true front is known:

        - parse, valid, front: of the answers asked for, those that parse, those that count, and
          those whose rewards are a point of the true front
        - distinct: of the rollouts, those with m answers of different effect
        - coverage: mean over the rollouts, exact at alpha = 1
        """
        task = next(iter(self.measured().values()))
        full = [bool(group.parsed[0].all() and not group.repeats[0].any()) for group in groups]
        covered = [coverage(group.rewards[0], task.front(group.instance)) for group in groups]
        return {
            "parse": float(np.mean([group.parsed[0] for group in groups])),
            "valid": float(np.mean([group.valid[0] for group in groups])),
            "front": float(np.mean([group.solved[0] for group in groups])),
            "distinct": float(np.mean(full)),
            "coverage": float(np.mean(covered)),
        }

    @abstractmethod
    def story(self) -> tuple[str, str]:
        """Two paragraphs of the card, in Markdown: what the policy reads and writes, and what the
        demonstrations show.
        """


def some_weights(d: int, rng: np.random.Generator) -> np.ndarray | None:
    """Weights (d,) to show in one prompt of ten; otherwise None. Answers do not depend on them yet,
    but the policy gets used to the places of the tokens behind them.
    """
    return rng.dirichlet(np.ones(d)) if rng.random() < 0.1 else None


def recipe_names() -> list[str]:
    """Names of the tasks that have a recipe.

    >>> "programs" in recipe_names()
    True
    """
    here = Path(__file__).parent
    return [name for name in task_names() if (here / f"{name}.py").is_file()]


def recipe_class(task: str) -> type[Recipe]:
    """The recipe of the task with this name. ValueError where there is none."""
    if task not in recipe_names():
        there = ", ".join(map(repr, recipe_names()))
        raise ValueError(f"task {shown(task)}: has no recipe for a pocket policy; there is {there}")
    there = vars(importlib.import_module(f".{task}", __package__)).values()
    classes = [found for found in there if isinstance(found, type) and issubclass(found, Recipe)]
    return next(found for found in classes if found is not Recipe)
