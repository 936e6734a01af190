"""One stretch of training: a thread that steps some runs in turn, until they are done or somebody
asks it to halt. And the rehearsal that loads everything beforehand.
"""

import os
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..training.config import TrainConfig
from ..training.record import StepRecord
from .settings import Settings
from .view import Moment, Run


@dataclass
class Track:
    """One method's run while it grows. It can go on while it has its learner: policy, optimizer."""

    run: Run
    learner: Any = None

    @property
    def steps(self) -> int:
        return len(self.run.records)

    def add(self, config: TrainConfig, record: StepRecord, moment: Moment) -> None:
        run = self.run
        self.run = Run(run.method, config, (*run.records, record), (*run.moments, moment))


@dataclass
class Stretch:
    """The settings that training begins with, its runs, and the request to halt.

    - once: one step of every run, instead of all that are left
    - halted: set from any thread. An Event would keep its lock for good where an interrupt comes
      while it is set
    """

    settings: Settings
    tracks: dict[str, Track]
    once: bool = False
    halted: bool = False

    def begin(
        self,
        *,
        after: Iterable[threading.Thread | None],
        config_of: Callable[[str], TrainConfig],
        seen: Callable[[Track, TrainConfig, StepRecord, Moment], None],
        ended: Callable[["Stretch", str, BaseException | None], None],
    ) -> threading.Thread:
        """Train in a thread of its own, once the threads ``after`` have ended.

        config_of(method): settings of its next step. seen(track, config, record, moment): called
        after each step. ended(stretch, how, error): how it ended, "thread_done" (all steps are
        done), "thread_left" or "thread_failed".
        """

        def work():
            try:
                for thread in after:
                    if thread is not None:
                        thread.join()
                done = not self.halted and self._train(config_of, seen)
            except BaseException as error:  # nobody sees the traceback of a thread
                ended(self, "thread_failed", error)
            else:
                ended(self, "thread_done" if done else "thread_left", None)

        thread = threading.Thread(target=work, name="vpo-lite training", daemon=True)
        thread.start()
        return thread

    def _train(self, config_of, seen) -> bool:
        """Step the runs in turn; whether all steps are done."""
        from ..training.loop import train
        from ..training.step import Learner

        for method, track in self.tracks.items():
            track.learner = track.learner or Learner(config_of(method))
        loops = {}
        while True:
            for method, track in self.tracks.items():
                if self.halted:
                    return False
                config = config_of(method)
                if track.steps >= config.steps:
                    continue
                if method in loops:
                    record = loops[method].send(config)
                else:
                    loops[method] = train(config, learner=track.learner, first_step=track.steps)
                    record = next(loops[method])
                seen(track, config, record, Moment.of(record, config, track.learner.task))
            done = all(t.steps >= config_of(m).steps for m, t in self.tracks.items())
            if done or self.once:
                return done


class Rehearsal:
    """One step of training in the background, once per process, while people look at the panel:
    torch, the policy and its kernels are loaded when Train is pressed.

    error: its traceback, None while all is well, and once it was said. VPO_LITE_COLD in the
    environment: do nothing.
    """

    def __init__(self):
        self.thread: threading.Thread | None = None
        self.error: str | None = None

    def begin(self, config: TrainConfig) -> None:
        """Rehearse a run with these settings, cut to one step on one prompt."""
        if self.thread is None and not os.environ.get("VPO_LITE_COLD"):
            thread = threading.Thread(
                target=self._run, args=(config,), name="vpo-lite warm-up", daemon=True
            )
            thread.start()
            self.thread = thread  # training waits for its end: not for one that never began

    def _run(self, config: TrainConfig) -> None:
        try:
            from ..training.loop import train

            list(train(config.but(steps=1, prompts=1, warmup_steps=0)))
        except BaseException as error:  # the session says it when somebody presses Train
            self.error = "".join(traceback.format_exception(error))


rehearsal = Rehearsal()
