"""One stretch of training: a thread that steps some runs in turn, until they are done or somebody
asks it to halt. And the rehearsal that loads everything beforehand.
"""

import math
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..training.config import TrainConfig
from ..training.record import StepRecord
from .settings import Settings
from .view import Moment, SeenRun

LOOK = 0.01  # seconds between two looks whether a worker has ended


class Worker(threading.Thread):
    """A thread that says itself when it has ended. Wait for it with `wait`, never with ``join``: in
    Python 3.11 an interrupted ``join`` marks a thread as ended that still runs.

    over: whether its work has ended. An Event would keep its lock for good where an interrupt
    comes while the lock is taken.
    """

    over = False

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.over = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended. False if it still runs after ``timeout`` seconds. One that was
        never started has ended.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while self.ident is not None and not self.over:
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK)
        return True


@dataclass
class Track:
    """One method's run while it grows. It can go on while it has its learner: policy, optimizer.

    watch: a `training.watch.Watch` on its answers
    """

    run: SeenRun
    learner: Any = None
    watch: Any = None

    @property
    def steps(self) -> int:
        return len(self.run.records)

    def add(self, config: TrainConfig, record: StepRecord, moment: Moment) -> None:
        self.watch.look(record.groups)
        records, moments = (*self.run.records, record), (*self.run.moments, moment)
        self.run = SeenRun(self.run.method, config, records, moments, self.watch.now)


@dataclass
class Stretch:
    """The settings that training begins with, its runs, and the request to halt.

    - once: one step of every run, instead of all that are left
    - halted: set from any thread
    """

    settings: Settings
    tracks: dict[str, Track]
    once: bool = False
    halted: bool = False

    def worker(
        self,
        *,
        after: Iterable[Worker | None],
        config_of: Callable[[str], TrainConfig],
        seen: Callable[[Track, TrainConfig, StepRecord, Moment], None],
        ended: Callable[["Stretch", str, BaseException | None], None],
    ) -> Worker:
        """A thread that trains, to be started. It waits until the workers ``after`` have ended.

        config_of(method): settings of its next step. seen(track, config, record, moment): called
        after each step. ended(stretch, how, error): how it ended, "thread_done" (all steps are
        done), "thread_left" or "thread_failed".
        """

        def work():
            try:
                for worker in after:
                    if worker is not None:
                        worker.wait()
                done = not self.halted and self._train(config_of, seen)
            except BaseException as error:  # nobody sees the traceback of a thread
                ended(self, "thread_failed", error)
            else:
                ended(self, "thread_done" if done else "thread_left", None)

        return Worker(target=work, name="vpo-lite training", daemon=True)

    def _train(self, config_of, seen) -> bool:
        """Step the runs in turn; whether all steps are done."""
        from ..training.learner import Learner
        from ..training.loop import train
        from ..training.watch import Watch

        for method, track in self.tracks.items():
            learner = track.learner = track.learner or Learner(config_of(method))
            small = learner.policy.pocket is not None
            track.watch = track.watch or Watch(learner.task, small=small)
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
                    loops[method] = train(config, learner=track.learner, tell=None)
                    record = next(loops[method])
                seen(track, config, record, Moment.of(record, config, track.learner.task))
            done = all(t.steps >= config_of(m).steps for m, t in self.tracks.items())
            if done or self.once:
                return done


class Rehearsal:
    """One step of training in the background, once per process, while people look at the panel:
    torch, the policy and its kernels are loaded when Train is pressed.

    error: its traceback; None if there was none, and after a session has shown it. VPO_LITE_COLD in
    the environment: do nothing.
    """

    def __init__(self):
        self.thread: Worker | None = None
        self.error: str | None = None

    def begin(self, config: TrainConfig) -> None:
        """Rehearse a run with these settings, cut to one step on one prompt."""
        if self.thread is None and not os.environ.get("VPO_LITE_COLD"):
            thread = Worker(target=self._run, args=(config,), name="vpo-lite warm-up", daemon=True)
            thread.start()
            self.thread = thread  # training waits for its end: not for one that never began

    def _run(self, config: TrainConfig) -> None:
        try:
            from ..training.loop import train

            list(train(config.but(steps=1, prompts=1, warmup_steps=0), tell=None))
        except BaseException as error:  # the session says it when somebody presses Train
            self.error = "".join(traceback.format_exception(error))


rehearsal = Rehearsal()
