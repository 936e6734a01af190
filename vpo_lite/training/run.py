"""A run in its folder: figures before, steps with a state to resume from, figures after."""

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from ..policy import shipped
from .config import TrainConfig
from .contract import check_seeds
from .evaluate import evaluate
from .folders import RunFolder
from .loop import train
from .memory import available_memory, check_fits, enough_memory, fitted
from .record import StepRecord
from .step import Learner

_VERSIONS = ("vpo_lite", "torch", "transformers", "peft")


class Run:
    """One run in its folder. Make it with :meth:`begin` or :meth:`resume`.

    Call in order :meth:`start` (figures before training), :meth:`steps`, :meth:`finish`. After a
    kill :meth:`resume` goes on. On the CPU the result is bit-equal to an uninterrupted run. One
    process at a time writes to the folder; :meth:`close` lets go of it early.
    """

    def __init__(self, folder: RunFolder, config: TrainConfig, learner: Learner, first: int):
        self.folder, self.config, self.learner, self.first = folder, config, learner, first
        self.done = first  # steps
        self._walk, self._broken = None, False

    @classmethod
    def begin(cls, config: TrainConfig, path) -> "Run":
        """A new run. Its update is cut into micro-batches if it would not fit into memory.

        Raises ValueError for a model that cannot be loaded, for sizes that this machine cannot
        hold, and for a folder that cannot be used. Nothing is written then.
        """
        if shipped.folder(config.base_model) is None and Path(config.base_model).is_dir():
            config = config.but(model=str(Path(config.base_model).resolve()))  # found from anywhere
        config = config.but(**{o: str(Path(file).resolve()) for o, file in config.files.items()})
        check_seeds(config.make_task())  # data that cannot be read is said before a model is loaded
        learner = Learner(config)
        found = available_memory(learner.policy.device)
        config = fitted(learner.policy, config, found, learner.task) if found else config
        check_fits(learner.policy, config, learner.task)
        folder = RunFolder.create(path, config)
        return cls(folder, config, learner, folder.restore(learner))

    @classmethod
    def resume(cls, path) -> "Run":
        """Go on with a run.

        Raises ValueError where there is none, where it is finished or damaged, where its data
        changed, and where another process writes to it. Nothing is changed then.
        """
        folder = RunFolder.open(path)
        folder.lock()
        try:
            config = folder.config()
            if folder.finished:
                folder.tidy()
                raise ValueError(f"--resume {path}: this run is finished ({config.steps} steps)")
            folder.start(), folder.records()  # a damaged file is said before a model is loaded
            folder.check_files()
            learner = Learner(config)
            return cls(folder, config, learner, folder.restore(learner))
        except BaseException:
            folder.close(remove=folder.finished)
            raise

    def close(self) -> None:
        """Let another process go on with this run. :meth:`finish` does it, too."""
        self.folder.close()

    @property
    def path(self) -> Path:
        return self.folder.path

    def start(self) -> dict:
        """The figures before training. They are measured once."""
        figures = self.folder.start()
        if figures is None:
            with self.learner.policy.reference():  # a fresh adapter changes nothing
                figures = self._evaluate()
            self.folder.save_start(figures)
        return figures

    def steps(self) -> Iterator[StepRecord]:
        """Train to the last step, one record at a time. Each is on disk before it is returned.

        Called again, also after an error or an interrupt, it goes on where training stopped. A
        caller that stops early calls :meth:`save`, so that no step is lost.
        """
        if self._walk is not None:
            self._walk.close()
        if self._broken:  # a step may have changed half of the parameters
            self.learner = Learner(self.config)
            self.done = self.folder.restore(self.learner)
            self._broken = False
        self._walk = self._steps()
        return self._walk

    def _steps(self) -> Iterator[StepRecord]:
        walk = train(self.config, learner=self.learner, first_step=self.done)
        while True:
            self._broken = True
            record = next(walk, None)
            if record is None:
                self._broken = False
                return
            self.folder.append(record)
            self.done = record.step
            if self.done % self.config.save_every == 0 or self.done == self.config.steps:
                self.save()
            self._broken = False
            yield record

    def save(self) -> None:
        """Store the state after the steps that are done."""
        if self.done:
            self.folder.save(self.learner, self.done)

    def finish(self) -> dict:
        """Measure the trained policy, write adapter and summary.json; returns the summary.

        Raises ValueError unless all steps are done.
        """
        if self.done < self.config.steps or self._broken:
            raise ValueError(f"{self.path}: {self.done} of {self.config.steps} steps are done")
        records = self.folder.records()
        seconds = sum(r.seconds for r in records)
        start, figures = self.start(), self._evaluate()
        summary = {
            "method": self.config.method,
            "steps": self.config.steps,
            "seconds": round(seconds, 3),
            "rollout_share": round(sum(r.rollout_seconds for r in records) / seconds, 4),
            "tokens": sum(r.tokens for r in records),
            "truncated_in_training": sum(r.truncated_rate for r in records) / len(records),
            **figures,
            "reach_rate": figures["valid_rate"],  # the name of 0.1.0
            "start": start | {"reach_rate": start["valid_rate"]},
            "device": str(self.learner.policy.device),
            "versions": {name: importlib.metadata.version(name) for name in _VERSIONS},
        }
        self.folder.finish(self.learner, summary)
        return summary

    def _evaluate(self) -> dict:
        learner, seed = self.learner, self.config.seed
        with enough_memory(self.config):
            return evaluate(learner.policy, self.config, seed=seed, task=learner.task)
