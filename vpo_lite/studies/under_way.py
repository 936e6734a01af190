"""A run of a study that is under way: what a kill leaves of it, and how the next process goes on.

Until the result of a run is written, its workplace holds a run folder, as ``vpo-lite train`` makes
one, with what was measured so far. A run that goes on ends as one that was never stopped: on the
CPU bit for bit.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..files import Schema, read_json, write_json
from ..training.config import TrainConfig
from ..training.folders import RunFolder
from ..training.learner import Learner
from ..training.loop import train
from ..training.memory import made_to_fit
from ..training.record import StepRecord
from .results import Checkpoint

EVERY = 20.0  # seconds between two states: a kill costs these, and the step that it falls into
RUN, MEASURED = "run", "measured.json"


class _Kept(Schema):
    """What was measured so far, what the run is made from, and the batches that fitted into memory
    when it began: with others it would round otherwise.
    """

    made_from: dict[str, str]
    checkpoints: list[Checkpoint]
    micro_batch: int | None = None
    sample_batch: int | None = None


class UnderWay:
    """The training of one run, in a workplace whose lock the caller holds. It goes on with what
    lies there, unless that was begun with other settings or from other sources, or is damaged.

    - make: builds the learner
    - made_from: digests of data, code and base model
    - learner: after the steps that are done, of which there are records
    - checkpoints: what was measured after some of them
    """

    def __init__(
        self,
        place: Path,
        config: TrainConfig,
        made_from: dict[str, str],
        make: Callable[[], Learner],
    ):
        self.config, self._made_from, self.checkpoints = config, made_from, []
        self._folder = RunFolder(place / RUN)
        kept = self._begun()
        try:
            self.learner = make()
            if kept is not None:
                try:
                    self._folder.restore(self.learner, config)
                except ValueError:  # damaged; the learner may have been changed
                    kept, self.learner = None, make()
            if kept is None:
                self.close()
                discard(place)
                self._folder = RunFolder.create(place / RUN, config)
                self._used = made_to_fit(self.learner.policy, config, self.learner.task)
                self._keep()
            else:
                batches = {"micro_batch": kept.micro_batch, "sample_batch": kept.sample_batch}
                self._used = config.but(**{name: n for name, n in batches.items() if n})
                self.checkpoints = [point.model_dump() for point in kept.checkpoints]
            self.records = self._folder.records()
        except BaseException:
            self.close()
            raise

    def _begun(self) -> _Kept | None:
        """What was measured of the run that lies there, whose folder is locked now; None where
        none does, or not this one.
        """
        try:
            self._folder = RunFolder.open(self._folder.path)
            self._folder.lock()
            kept = read_json(self._folder.path / MEASURED, _Kept)
            began, now = self._folder.config().to_json(), self.config.to_json()
        except ValueError:
            return None
        return kept if kept.made_from == self._made_from and began == now else None

    def train(self, tell: Callable[[str], object]) -> Iterator[StepRecord]:
        """The steps that are left. Each is on disk before it is given. Where scoring fails, the
        state after the last whole step is on disk, too.

        tell: called with what is wrong with the answers, as in ``vpo_lite.train``
        """
        if self.learner.steps == self.config.steps:  # killed while it was measured
            return
        saved = time.monotonic()
        walk = train(self._used, learner=self.learner, fit=False, tell=tell)
        while True:
            with self._folder.kept_on_error(self.learner):
                record = next(walk, None)
            if record is None:
                return
            self._folder.append(record)
            self.records.append(record)
            if time.monotonic() - saved >= EVERY or record.step == self.config.steps:
                self._folder.save(self.learner)
                saved = time.monotonic()
            yield record

    @property
    def tokens(self) -> int:
        """Those sampled in the steps that are done."""
        return sum(record.tokens for record in self.records)

    def add(self, figures: dict) -> None:
        """Keep what was measured after the steps that are done."""
        step = len(self.records)
        self.checkpoints.append({"step": step, "tokens": self.tokens, "figures": figures})
        self._folder.save(self.learner)
        self._keep()

    def _keep(self) -> None:
        kept = {"made_from": self._made_from, "checkpoints": self.checkpoints}
        kept |= {name: getattr(self._used, name) for name in ("micro_batch", "sample_batch")}
        write_json(self._folder.path / MEASURED, kept)

    def close(self) -> None:
        """Write no more. What lies there stays, for the next process."""
        self._folder.close(remove=True)


def discard(place: Path) -> None:
    """Remove what is under way in a workplace: its result is written, or it cannot go on."""
    shutil.rmtree(place / RUN, ignore_errors=True)
