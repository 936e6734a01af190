"""A run in its folder: figures before, steps with a state to resume from, figures after."""

import contextlib
import gc
import importlib.metadata
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from ..markup import count
from ..messages import command
from ..policy import shipped
from ..policy.adapter import check_place
from ..tasks.records import counted
from .answers import Answers, by_chance, differing, same_effect_rate
from .config import TrainConfig
from .evaluate import check_config, check_eval_every, evaluate, held_out_seeds
from .folders import ADAPTER_FOLDER, RunFolder
from .learner import Learner
from .loop import train
from .memory import (
    Memory,
    check_fits,
    check_measured,
    enough_memory,
    made_to_fit,
    memory_needed,
)
from .record import StepRecord
from .resuming import changed
from .schemas import Engine
from .texts import written


class AnyRun(ABC):
    """What a run of any engine does in its folder, before and after the steps.

    Call in order :meth:`start` (figures before training), :meth:`train`, :meth:`finish`. One
    process at a time writes to the folder; :meth:`close` lets go of it early.

    - folder, config, learner; first: steps that were done when this process took over
    - done: steps that are done
    - main: whether this process writes and prints. Of several that train together, one does.
    - processes: how many train together
    - notes: what a user should know of the engine before the first step
    - on_problem: called after each problem of an evaluation: how many are done, and of how many
    - on_measured: called after each measurement during training: its step and its figures
    """

    engine = Engine()
    main, processes = True, 1
    notes: tuple[str, ...] = ()
    in_step = True  # whether stopping at once would lose work in progress
    on_problem: Callable[[int, int], object] | None = None
    on_measured: Callable[[int, dict], object] | None = None
    packages = ("vpo_lite", "torch", "transformers", "peft")  # their versions go to summary.json

    def __init__(self, folder: RunFolder, config: TrainConfig, learner: Learner, first: int):
        self.folder, self.config, self.learner, self.first = folder, config, learner, first
        self.notes = folder.notes
        self.did(first)

    def did(self, steps: int) -> None:
        """So many steps are done."""
        self.done = self.learner.steps = steps

    def close(self) -> None:
        """Let another process go on with this run. :meth:`finish` does it, too."""
        self.folder.close()

    @property
    def path(self) -> Path:
        return self.folder.path

    def memory(self) -> Memory | None:
        """The memory that each process needs; None where nobody can say."""
        return memory_needed(self.learner.policy, self.config, self.learner.task)

    def start(self) -> dict:
        """The figures before training. They are measured once."""
        figures = self.folder.start()
        if figures is None:
            task, pools, counts = self.learner.task, [], []

            def look(pool: Answers) -> None:
                pools.extend([] if pools else [pool])
                counts.append(differing(pool))

            with self.learner.policy.reference():  # a fresh adapter changes nothing
                figures = self._evaluate(look)
            figures["by_chance"] = by_chance(task, pools[0])
            figures["same_effect_rate"] = same_effect_rate(task, counts)
            self.folder.save_start(figures)
        return figures

    def write(self, record: StepRecord) -> None:
        """Put one step on disk: its figures, and texts where the run keeps any."""
        self.folder.append(record)
        if self.config.keep_texts:
            self.folder.append_texts(written(record, self.learner.task, self.config.keep_texts))

    @property
    def due(self) -> bool:
        """Whether ``eval_every`` asks for the figures after the steps that are done."""
        every = self.config.eval_every
        return bool(every and self.done) and self.done % every == 0

    def measure(self) -> None:
        """Measure the policy where that is due. Call it before each step: what a kill cut short is
        then measured again.
        """
        if self.due and all(row["step"] != self.done for row in self.folder.measured()):
            figures = self._evaluate()
            self.folder.append_measured(self.learner, self.done, figures)
            if self.on_measured is not None:
                self.on_measured(self.done, figures)

    @abstractmethod
    def train(self, tell: Callable[[StepRecord], bool]) -> bool:
        """Train to the last step; returns whether it was reached.

        tell: called after each step, which is then on disk; True stops, and the state is stored.
        """

    @property
    def unfinished(self) -> bool:
        """Whether a step is left, or not done to its end."""
        return self.done < self.config.steps

    def finish(self) -> dict:
        """Measure the trained policy, write adapter and summary.json; returns the summary.

        Raises ValueError unless all steps are done.
        """
        if self.unfinished:
            raise ValueError(
                f"{self.path}: {self.done} of {self.config.steps} steps are done; train the "
                f"rest, or end it here: save(), then Run.resume({str(self.path)!r}, steps="
                f"{self.done})"
            )
        records = self.folder.records()
        seconds = sum(r.seconds for r in records)
        scoring = [r.scoring_seconds for r in records]
        # Not the start of a run in many processes: one of them finishes.
        start, figures = AnyRun.start(self), self._evaluate()
        summary = {
            "method": self.config.method,
            "steps": self.config.steps,
            "seconds": round(seconds, 3),
            "rollout_share": round(sum(r.rollout_seconds for r in records) / seconds, 4),
            "scoring_share": None if None in scoring else round(sum(scoring) / seconds, 4),
            "tokens": sum(r.tokens for r in records),
            "truncated_in_training": sum(r.truncated_rate for r in records) / len(records),
            **figures,
            "reach_rate": figures["valid_rate"],  # its public name in summary.json
            "start": start | {"reach_rate": start["valid_rate"]},
            "device": str(self.learner.policy.device),
            "versions": versions_of(self.packages),
            "records": counted(self.learner.task),
        }
        self.folder.finish(self.learner, summary)
        return summary

    def _build_again(self, make: Callable[[TrainConfig], Learner]) -> None:
        """A new learner. The memory of the old one is freed first: two may not fit."""
        self.learner = None
        gc.collect()  # models hold references in cycles
        with contextlib.suppress(RuntimeError):  # of torch 2.11, after a broken CUDA graph
            torch.cuda.empty_cache()  # does nothing without CUDA
        self.learner = make(self.config)

    def _evaluate(self, keep: Callable[[Answers], object] | None = None) -> dict:
        learner, config = self.learner, self.config
        how = dict(task=learner.task, tell=self.on_problem, keep=keep)
        with enough_memory(config):
            return evaluate(learner.policy, config, **how)


class Run(AnyRun):
    """One run of the native trainer. Make it with :meth:`begin` or :meth:`resume`.

    After a kill :meth:`resume` goes on. On the CPU the result is bit-equal to an uninterrupted run.
    So is that of a run which was made longer.
    """

    _walk: Iterator[StepRecord] | None = None
    in_step = False  # also after an error or an interrupt in a step

    @classmethod
    def begin(cls, config: TrainConfig, path: str | os.PathLike) -> "Run":
        """A new run. micro_batch and sample_batch are set where update or sampling would not fit
        into memory.

        Raises ValueError for a model that cannot be loaded, for sizes that this machine cannot
        hold, and for a folder that cannot be used. Nothing is written then.
        """
        config = settled(config)
        RunFolder(path).check_free()
        learner = Learner(config)
        config = made_to_fit(learner.policy, config, learner.task)
        check_fits(learner.policy, config, learner.task)
        check_measured(learner.policy, config, learner.task)
        folder = RunFolder.create(path, config)
        return cls(folder, config, learner, folder.restore(learner, config))

    @classmethod
    def resume(cls, path: str | os.PathLike, steps: int | None = None, **machine: Any) -> "Run":
        """Go on with a run. steps: its steps in all; more than it had make it longer, even if it is
        finished; as many as are done end it. machine: settings of how it is computed, such as
        device or micro_batch (`config.OF_THE_MACHINE`), that shall differ from the run's.

        Raises ValueError where there is none, where all its steps are done, where it is damaged,
        where its data changed, where another engine began it, where its learning rate falls to 0 at
        the step that was its last, where its adapter's folder holds files of others, and where
        another process writes to it. Nothing is changed then.
        """
        with going_on(path, cls.engine.name, steps, machine) as (folder, config):
            learner = Learner(config)
            return cls(folder, config, learner, folder.restore(learner, config))

    def train(self, tell: Callable[[StepRecord], bool]) -> bool:
        try:
            for record in self.steps():
                if tell(record) and record.step < self.config.steps:
                    self.save()
                    return False
        except KeyboardInterrupt:
            if not self.in_step:  # but in a measurement, say: no step is lost
                self.save()
            raise
        return True

    def steps(self) -> Iterator[StepRecord]:
        """Train to the last step, one record at a time. Each is on disk before it is returned.

        Called again, also after an error or an interrupt, it goes on where training stopped. A
        caller that stops early calls :meth:`save`, so that no step is lost.
        """
        if self._walk is not None:
            self._walk.close()
        if self.in_step:  # a step may have changed half of the parameters
            self._build_again(Learner)
            self.done = self.folder.restore(self.learner, self.config)
            self.in_step = False
        self._walk = self._steps()
        return self._walk

    def _steps(self) -> Iterator[StepRecord]:
        # fit: as `begin` cut it, a resumed run rounds as an uninterrupted one.
        # tell: the command line has said it before the first step.
        walk = train(self.config, learner=self.learner, fit=False, tell=None)
        while self.done < self.config.steps:
            with self.folder.kept_on_error(self.learner):
                self.measure()
                self.in_step = True
                record = next(walk)
            self.write(record)
            self.done = record.step
            if self.done % self.config.save_every == 0 or self.done == self.config.steps:
                self.save()
            self.in_step = False
            yield record

    def save(self) -> None:
        """Store the state after the steps that are done."""
        if self.done:
            self.folder.save(self.learner)

    @property
    def unfinished(self) -> bool:
        return self.in_step or super().unfinished


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed. A copy in PYTHONPATH is not."""
    versions = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def settled(config: TrainConfig) -> TrainConfig:
    """The config of a new run: a model's folder and data files are found from anywhere.

    Data that cannot be read, too few held-out problems, and an ``eval_every`` beyond the last step
    are refused here, before a model loads.
    """
    check_config(config)
    if shipped.folder(config.base_model) is None and Path(config.base_model).is_dir():
        config = config.but(model=str(Path(config.base_model).resolve()))
    config = config.but(**{o: str(Path(file).resolve()) for o, file in config.files.items()})
    held_out_seeds(config.make_task(), config.eval_problems, "eval_problems")
    check_eval_every(config)
    return config


@contextlib.contextmanager
def going_on(
    path, engine: str, steps: int | None, machine: dict
) -> Iterator[tuple[RunFolder, TrainConfig]]:
    """A context with the locked folder of a run that this engine began and that has steps to go,
    and with its settings.

    If the block raises, the folder is closed. Raises ValueError as :meth:`Run.resume` says.
    """
    folder = RunFolder.open(path)
    folder.lock()
    try:
        config, done = folder.config(), len(folder.records())
        before, config = config.steps, changed(path, config, steps, machine)
        check_eval_every(config)
        constant = config.lr_schedule == "constant"
        if folder.finished and config.steps == before:
            folder.tidy()
            longer = "; --steps makes it longer" * constant
            seen = f"see {command('compare', folder.path)}"
            raise ValueError(
                f"--resume {path}: this run is finished ({count(before, 'step')}); {seen}{longer}"
            )
        if config.steps < done:
            raise ValueError(
                f"--resume {path}: {done} steps are done; --steps must be {done} or more"
            )
        if config.steps != before and not constant:
            raise ValueError(
                f"--resume {path}: its learning rate falls to 0 at step {before} (lr_schedule = "
                f"{config.lr_schedule}), so its steps cannot be changed; leave out --steps, or "
                "begin another run"
            )
        if folder.engine().name != engine:
            raise ValueError(
                f"{path}: engine {folder.engine().name} began this run; go on with: {folder.go_on}"
            )
        check_place(folder.path / ADAPTER_FOLDER)
        folder.start()  # a damaged file is said before a model is loaded
        folder.check_files()
        yield folder, config
    except BaseException:
        folder.close(remove=folder.finished)
        raise
