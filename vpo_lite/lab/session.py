"""A training session on any task: train in the background, pause, go on, look at what was seen.

    session = Session("vpo", task="module:Class", model="NAME")
    session.train()      # also pause(), step(), stop(), reset(), reseed(), change(alpha=0.3)
    session.join()       # wait for it
    session.sentence()   # what is seen, in words

Training runs in one background thread. A request only changes settings or asks that thread to halt,
and returns: so no cell waits. Whatever shows the session draws a frozen `View`: so a picture never
mixes two moments. One session trains at a time in a process: another one pauses it.

What a request does in which state stands in states.py. Longer than 350 lines because this is the
one place that changes anything, under one lock.
"""

import atexit
import contextlib
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..checks import raised, shown
from ..markup import count
from ..messages import LONGEST, check_names
from ..tasks import DEFAULT
from ..tasks.records import told_before
from ..training.config import OF_THE_MACHINE, TrainConfig
from .arguments import check
from .codes import decode, encode
from .interrupt import heed
from .recordings import Recording, new_folder, read, write
from .settings import MOST_EARLIER, MOST_RUNS, Settings, check_many, check_spelling, imported
from .showing import Showing
from .states import move
from .stretch import Stretch, Track, rehearsal
from .view import Problem, SeenRun, View
from .words import printed

if TYPE_CHECKING:
    from ..training.record import StepRecord

PATIENCE = 2  # seconds without a word, when Python ends
ALL_ELSE = "the code or recording sets all else; use change(...) afterwards"
PAUSED = "Press Go on to continue."  # what Train is called then
STOPPED = "Train starts again from step 1."


class Watcher(Protocol):
    """What shows a session and follows it."""

    def wake(self) -> None:
        """Something has changed. Called from any thread; returns at once."""


class Session:
    """One to three methods that train side by side, on one problem or on many.

    methods: a name of ``vpo_lite.METHODS``, or up to three; one of yours may be named as
    ``package.module:function``, too. preset and further settings: see `TrainConfig`; options of the
    task are settings, too. many: train on many problems although the options single out one, which
    is then the one to look at before; without such options there are always many.

    Attributes:

    - state: see states.py
    - settings, methods: of now
    - config, records: of the first method's run
    - many: as it was given; `View.many` says whether the steps draw different problems
    - instance: the problem to look at before there is a step
    - runs: {method: SeenRun}
    - last_error: a traceback as text, or None

    >>> session = Session(("vpo", "grpo"), alpha=0.3)
    >>> session.state, session.config.alpha, session.methods
    ('idle', 0.3, ('vpo', 'grpo'))
    """

    unshared: tuple[str, ...] = ()  # arguments that belong to no share code, beside OF_THE_MACHINE
    _training = staticmethod(lambda: None)  # weak reference to the last session that trained
    _one_trainer = threading.Lock()

    def __init__(
        self,
        methods: str | Sequence[str] = "vpo",
        *,
        preset: str = "demo",
        many: bool | None = None,
        **settings: Any,
    ):
        self._lock = threading.RLock()
        self._watchers: list[Watcher] = []
        self._state, self._stretch, self._worker = "idle", None, None
        self._tracks: dict[str, Track] = {}
        self._before: tuple | None = None  # what fresh runs replaced: see `_give_way`
        self._forgotten: Recording | None = None  # the runs that were forgotten last
        self._message, self._farewell, self._error, self.last_error = "", PAUSED, "", None
        self._earlier: tuple[SeenRun, ...] = ()
        self._look, self._showing, self._version = None, Showing(), 0
        self._made_by = ""  # the command of the recording whose runs are shown
        self.settings = None
        check_spelling(settings, settings.get("task", DEFAULT), type(self))
        check_many(many, settings.get("task", DEFAULT))
        self._take(Settings.of(imported(methods), settings, preset=preset, many=many))

    # --- requests; each returns at once -----------------------------------------------------------

    def train(self, steps: int | None = None) -> Self:
        """Start, go on after a pause, or do the steps that were added after the last one.

        steps: how many a run has in all, from now on; None: as many as before.

        Fresh runs start from step 1: after Stop, after an error, where no steps are left, and with
        changed settings that need them. The runs before stay as faint curves. Fresh runs that fail
        or are stopped before each method has done a step give way to the runs before.
        """
        if steps is not None:
            self.change(steps=steps)
        return self._train()

    def step(self) -> Self:
        """One step of every run, then pause. Where `train` would start fresh runs, this is their
        step 1: on a finished lab, too.
        """
        return self._train(once=True)

    def pause(self, message: str = PAUSED) -> Self:
        """Finish the step under way, to go on later."""
        return self._halt("pause", message)

    def pause_other(self, why: str) -> "Session | None":
        """Pause the session that trained last, if it is another one; returns it, else None."""
        other = Session._training()
        if other in (None, self):
            return None
        other.pause(f"{why}. {PAUSED}")
        return other

    def stop(self) -> Self:
        """Finish the step under way; Train then starts from step 1."""
        return self._halt("stop", STOPPED)

    def reset(self) -> Self:
        """Forget all runs; the same problem and seed. `bring_back` shows them again."""
        with self._lock:
            gone = self._forget()
            seed, noun = self.settings.config.seed, self._task.noun
            self._say(gone or f"Reset: seed {seed}, the same {noun}.")
        return self

    def bring_back(self) -> Self:
        """Show again what was forgotten last: by reset, another seed or problem, or a share code.
        It shows settings and runs as `replay` shows a recording: Train does the runs again, live.
        Runs that are on show are forgotten for them. ValueError where no runs were forgotten.
        """
        with self._lock:
            kept = self._forgotten
            if kept is None:
                raise ValueError("bring_back: no runs were forgotten, so none can be shown again")
            self._forget(self._decoded(kept.share))
            if self._forgotten is kept:
                self._forgotten = None
            self._show_recording(kept)
            self._say("")
        return self

    def reseed(self, seed: int | None = None) -> Self:
        """Reset with another seed: the next one, or the one given."""
        with self._lock:
            seed = self.settings.config.seed + 1 if seed is None else seed
            gone = self._forget(self.settings.but(seed=seed))
            self._say(gone or f"Reset: seed {seed}, the same {self._task.noun}.")
        return self

    def pick(self, message: str = "", **chosen: Any) -> Self:
        """Choose the one problem that these options of the task single out. Forgets all runs. With
        ``many`` it is only the one to look at before. Further options of the task are changed with
        it. ValueError for those alone, and for other settings: use `change`.
        """
        check(message=message)
        with self._lock:
            known = [option.name for option in self._task.options]
            others = [name for name in chosen if name not in known]
            if not set(chosen) & set(self._task.singles_out):
                others = list(chosen) or ["pick()"]
            if others:
                said, there = shown(", ".join(others)), ", ".join(self._task.singles_out) or "none"
                raise ValueError(
                    f"{said}: singles out no problem; options of task {self._task.name!r} that do: "
                    f"{there}; for others use change(...)"
                )
            gone = self._forget(self.settings.choosing(**chosen))
            self._say(" ".join(filter(None, [message, gone])))
        return self

    def next_problem(self) -> Self:
        """The problem with the next number; the first held-out one, where none was chosen. Forgets
        all runs.

        ValueError for a task in which no number singles out a problem.
        """
        with self._lock:
            name = self._task.numbered
            if name is None:
                said = f"task {self._task.name!r} has no option that singles out a problem"
                raise ValueError(f"{said} by its number")
            number = self.settings.chosen.get(name)
            number = self._task.seeds["held_out"][0] if number is None else number + 1
            return self.pick(**{name: number})

    def change(
        self,
        *,
        methods: str | Sequence[str] | None = None,
        many: bool | None = None,
        **settings: Any,
    ) -> Self:
        """Change settings. ValueError: nothing is changed.

        alpha, K, m, set_size, lr, group_size, prompts and steps act from the next step of a run
        under way. All others act in the next fresh run, and so does steps where the learning rate
        falls to 0 at the last one.
        """
        with self._lock:
            singled = [name for name in settings if name in self._task.singles_out]
            if singled:
                how = ", ".join(f"{name}={shown(settings[name])}" for name in singled)
                raise ValueError(f"{', '.join(singled)}: another problem; use pick({how})")
            check_spelling(settings, self.settings.config.task, self.change)
            check_many(many, self.settings.config.task)
            changed = self.settings.but(methods=imported(methods), many=many, **settings)
            if changed != self.settings:
                self._take(changed)
                self._say("")
        return self

    def look(self, step: int | None = None) -> Self:
        """Show the runs as they were after this step; None: as they are. ValueError for a step that
        no run has done.
        """
        check(step=step)
        with self._lock:
            done = self.view().steps
            if step is not None and step > done:
                expected = f"at most {done}, the steps so far" if done else "None before step 1"
                raise ValueError(f"step = {step}: expected {expected}")
            self._look = step
            self._version += 1
            self._changed()
        return self

    def show(self, **changes: Any) -> Self:
        """Change what is drawn: routes="answers", "best set" or "front"; alpha=None or a number, at
        which coverage is judged. See `Showing`. ValueError: nothing is changed.
        """
        with self._lock:
            self._showing = self._showing.but(**changes)
            self._version += 1
            self._changed()
        return self

    def report(self, error: BaseException | None, *, shown: bool = True) -> None:
        """Keep an error for ``last_error`` and show it in one line, instead of the message of an
        earlier request; None takes the line away.
        """
        with self._lock:
            if error is not None:
                self.last_error = "".join(traceback.format_exception(error))
            said = "" if error is None else raised(error, LONGEST)
            if shown and said != self._error:
                self._error, self._message = said, "" if said else self._message
                self._changed()

    # --- share codes and recordings ---------------------------------------------------------------

    def share(self) -> str:
        """A short code of problem, settings and seeds. `from_code` restores them exactly, offline.

        >>> code = Session("grpo", alpha=0.3, seed=7).share()
        >>> again = Session.from_code(code)
        >>> again.methods, again.config.alpha, again.config.seed
        (('grpo',), 0.3, 7)
        """
        return self._code

    @classmethod
    def from_code(cls, code: str, **options: Any) -> Self:
        """The session that a share code describes. ValueError for a code that is none.

        options: of this machine (threads, device, ...: `config.OF_THE_MACHINE`), and panel of a
        `Lab`. The code sets all others, so another option is a ValueError.
        """
        check_names("from_code", options, [*cls.unshared, *OF_THE_MACHINE], ALL_ELSE)
        return cls(**options).load(code)

    def load(self, code: str) -> Self:
        """Take over problem, settings and seeds of a share code; forgets all runs. ValueError:
        nothing is changed.
        """
        with self._lock:
            gone = self._forget(self._decoded(code))
            self._say(" ".join(filter(None, ["Restored from its code.", gone])))
        return self

    def record(self, folder: str | os.PathLike | None = None, command: str = "") -> Path:
        """Write the runs, with all answers of all steps, for `replay`. Returns the file's path.

        folder: to write recording.json into; an earlier recording there is replaced, any other file
        is not. None: recordings/METHODS-PROBLEM-N in the current folder, N counting up, so that
        nothing is overwritten. command: what made the runs, for a lesson to say; without it those
        of a recording keep theirs. ValueError where there are no runs.
        """
        check(command=command)
        with self._lock:
            runs = tuple(run for run in self.runs.values() if run.records)
            recording = Recording(self.share(), command or self._made_by, runs)
        if not runs:
            raise ValueError(
                "record: there are no runs yet; train, and wait until a step has ended"
            )
        if folder is not None:
            path = write(folder, recording)
        else:
            folder = new_folder("-".join([*(run.method for run in runs), self._name_of_problem()]))
            try:
                path = write(folder, recording)
            except ValueError:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                raise
        with self._lock:
            again = f"{type(self).__name__}.replay({str(path.parent)!r})"
            self._say(f"Recorded in {path}. {again} shows it again.")
        return path

    @classmethod
    def replay(cls, folder: str | os.PathLike, **options: Any) -> Self:
        """A session that shows recorded runs, without any model. Train does them again, live; what
        was changed during a recorded run then holds from its first step on.

        folder: as written by `record`, or the name of a recording that the package carries.
        ValueError if it is none. options: those of `from_code`.
        """
        check_names("replay", options, [*cls.unshared, *OF_THE_MACHINE], ALL_ELSE)
        recording = read(folder)
        session = cls(**options).load(recording.share)
        session._show_recording(recording)
        session._message = ""
        return session

    # --- what one can ask -------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return self._state

    @property
    def methods(self) -> tuple[str, ...]:
        return self.settings.methods

    @property
    def many(self) -> bool:
        return self.settings.many

    @property
    def config(self) -> TrainConfig:
        """The settings of the first method's run."""
        return self.settings.configs[self.methods[0]]

    @property
    def instance(self) -> Any:
        """The problem to look at before there is a step."""
        return self._own.instance

    @property
    def runs(self) -> dict[str, SeenRun]:
        """The runs so far, by method."""
        return {method: track.run for method, track in self._tracks.items()}

    @property
    def records(self) -> list["StepRecord"]:
        """The step records of the first method's run."""
        return list(self.runs[self.methods[0]].records) if self.methods[0] in self.runs else []

    def join(self, timeout: float | None = None) -> bool:
        """Wait until training ends or pauses. False if it still runs after ``timeout`` seconds. An
        interrupt stops it. An error ends it, too: ``state`` is then "failed", and ``last_error``
        tells it.
        """
        check(timeout=timeout)
        try:
            return self._worker is None or self._worker.wait(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise

    def view(self) -> View:
        """A snapshot of everything that is shown."""
        with self._lock:
            return View(
                state=self._state,
                settings=self.settings,
                code=self._code,
                task=self._task,
                own=self._own,
                runs=tuple(track.run.until(self._look) for track in self._tracks.values()),
                look=self._look,
                steps=max((track.steps for track in self._tracks.values()), default=0),
                active=tuple(self._stretch.tracks if self._stretch else self._tracks),
                message=self._message,
                error=self._error,
                restart=self._restart(),
                showing=self._showing,
                earlier=self._earlier,
                version=self._version,
                data=self._data,
                forgotten=self._forgotten is not None,
            )

    def sentence(self) -> str:
        """What is seen, in words and numbers, in lines of 100 characters."""
        return printed(self.view())

    def watch(self, watcher: Watcher) -> None:
        """Tell this one of every change."""
        self._watchers.append(watcher)

    def check_settings(self, settings: Settings) -> None:
        """Raise ValueError for settings that work, but not here. Nothing is changed yet."""

    def close(self) -> None:
        """Stop, forget all runs, and tell nobody any more."""
        with self._lock:
            self._watchers.clear()
            self._forget()
            self._forgotten = None

    # --- inside; the lock is held where state changes ---------------------------------------------

    def _move(self, request: str) -> str:
        done, self._state = move(request, self._state)
        return done

    def _take(self, settings: Settings) -> None:
        """Make these the settings of now; the problem to look at follows them. An error changes
        nothing: all that may raise one stands before the first assignment.
        """
        self.check_settings(settings)
        before, code = self.settings, encode(settings)
        if before is None or settings.asks_for != before.asks_for:
            task = settings.task()
            own = Problem.of(task, task.instance(task.seeds["train"][0]))
            self._task, self._own = task, own
            self._data = tuple(told_before(task, settings.config.task))
        self.settings, self._code = settings, code
        self._version += 1

    def _restart(self) -> str:
        """What was changed that the runs of the last stretch do not follow; "" if nothing."""
        if self._stretch is None or self._state in ("stopped", "failed", "recorded"):
            return ""
        return self.settings.needs_fresh_run(self._stretch.settings)

    def _train(self, once=False):
        with Session._one_trainer, self._lock:
            try:
                done = self._move("train_anew" if self._restart() else "train")
                if done == "refuse":
                    self._say("It is training already.")
                    return self
                self._begin(done, once)
            except BaseException as error:  # an interrupt, or no thread can be started
                if self._stretch is not None:
                    self._stretch.halted = True
                self._move("thread_failed")  # else it would be running, and refuse, for good
                self._give_way()
                self.report(error)
                raise
        heed(_interrupted, while_=_trains)
        return self

    def _begin(self, done, once):
        """Train in a new thread, after the move ``done``."""
        before, other = self._stretch, self.pause_other("Another lab trains now")
        if before is not None:
            before.halted = True
        steps = self.settings.config.steps
        if done == "go_on" and any(t.steps < steps for t in before.tracks.values()):
            tracks = before.tracks
        else:
            tracks = self._fresh_tracks()
        self._look, self._error, self.last_error = None, "", None
        self._stretch = stretch = Stretch(self.settings, tracks, once)
        self._say(self._first_words())
        worker = stretch.worker(
            after=[rehearsal.thread, self._worker, other and other._worker],
            config_of=lambda method: self.settings.of_a_run(method, stretch.settings),
            seen=self._saw,
            ended=self._ended,
        )
        Session._training = weakref.ref(self)
        try:
            worker.start()
        finally:
            if worker.ident is not None:  # it runs, even if an interrupt came meanwhile
                self._worker = worker

    def _fresh_tracks(self) -> dict[str, Track]:
        """New runs; those of other methods on the same problem stay, for comparison, but cannot go
        on.
        """
        self._give_way()
        tracks = {m: Track(SeenRun(m, config)) for m, config in self.settings.configs.items()}
        asked = next(iter(self.settings.configs.values())).task_options
        for track in self._tracks.values():
            track.learner = None
        replaced = [t.run for m, t in self._tracks.items() if m in tracks and t.steps]
        self._before = (self._tracks, self._earlier, self._made_by) if replaced else None
        self._made_by = ""
        earlier = [*self._earlier, *replaced]
        earlier = [run for run in earlier if run.config.task_options == asked]
        self._earlier = tuple(earlier[-MOST_EARLIER:])
        others = {m: t for m, t in self._tracks.items() if m not in tracks}
        others = {m: t for m, t in others.items() if t.run.config.task_options == asked}
        self._tracks = others | tracks
        return tracks

    def _give_way(self) -> None:
        """Put back what fresh runs replaced, unless each of them has done a step."""
        if self._before and not all(t.steps for t in self._stretch.tracks.values()):
            (self._tracks, self._earlier, self._made_by), self._before = self._before, None

    def _first_words(self) -> str:
        error, rehearsal.error = rehearsal.error, None
        if error:
            return f"The warm-up failed: {error.splitlines()[-1]}"
        if "torch" not in sys.modules:
            return "Loading the policy …"
        return f"Making the first step's {self._task.noun}s …" if self.view().many else ""

    def _halt(self, request, message):
        check(message=message)
        with self._lock:
            done = self._move(request)
            if done == "end":
                self._give_way()
                self._say(message)
            elif done != ".":
                self._farewell = message
                self._stretch.halted = True
                self._say("Finishing this step …")
        return self

    def _forget(self, settings=None) -> str:
        """Drop all runs, after a change to these settings; only `bring_back` can show them then.
        Returns that they are gone, in words; "" where there were none. An error changes nothing.
        """
        share = self._code
        if settings is not None:
            self._take(settings)
        self._give_way()  # fresh runs without a step are less than those that they replaced
        runs, made_by = tuple(run for run in self.runs.values() if run.records), self._made_by
        if runs:
            self._forgotten = Recording(share, made_by, runs)
        self._move("forget")
        if self._stretch is not None:
            self._stretch.halted = True  # what its last step still sees goes into runs nobody shows
        self._stretch, self._tracks, self._look = None, {}, None
        self._earlier, self._made_by, self._before = (), "", None
        self._error, self.last_error = "", None
        done = count(max((len(run.records) for run in runs), default=0), "step")
        if len(runs) > 1:
            return f"The runs of {done} are gone; Bring back shows them again."
        return f"The run of {done} is gone; Bring back shows it again." if runs else ""

    def _decoded(self, code: str) -> Settings:
        """The settings of a share code, with this session's own where they are of the machine."""
        machine = {name: getattr(self.settings.config, name) for name in OF_THE_MACHINE}
        return decode(code, machine=machine)

    def _show_recording(self, recording: Recording) -> None:
        """Show these runs, where there are none, under the settings of their share code."""
        tracks = self._tracks = {run.method: Track(run) for run in recording.runs}
        last = {m: tracks[m] for m in self.methods if m in tracks}
        last = last or dict([*tracks.items()][-MOST_RUNS:])  # other methods were chosen meanwhile
        self._stretch = Stretch(self.settings, last)
        self._state, self._made_by = "recorded", recording.command

    def _name_of_problem(self) -> str:
        """For a folder: "many-NOUNs", "NOUN-1000", or "one-NOUN"."""
        noun, number = self._task.noun, self.settings.chosen.get(self._task.numbered)
        if self.view().many:
            return f"many-{noun}s"
        return f"one-{noun}" if number is None else f"{noun}-{number}"

    def _say(self, message):
        self._message = message
        self._changed()

    def _changed(self):
        for watcher in self._watchers:
            watcher.wake()

    def _saw(self, track, config, record, moment):
        with self._lock:
            track.add(config, record, moment)
            if track is self._tracks.get(track.run.method):  # else it was forgotten meanwhile
                self._message = ""
            self._changed()

    def _ended(self, stretch, how, error):
        with self._lock:
            if stretch is not self._stretch:
                return
            done = self._move(how)
            halted = stretch.halted
            if done != "rest":
                self._give_way()
            if error is not None:
                self.report(error)
            paused = self._farewell if halted else f"One step. {PAUSED}"
            self._say({"rest": paused, "end": self._farewell}.get(done, ""))


def _trains() -> Session | None:
    """The session that has a step under way."""
    session = Session._training()
    return session if session is not None and session.view().busy else None


def _interrupted(*_):
    """Of a signal. Another thread stops the session: a signal handler must not wait for a lock."""

    def stop():
        session = _trains()
        if session is not None:
            session.stop()

    threading.Thread(target=stop, name="vpo-lite interrupt", daemon=True).start()


# weakref runs all finalizers in one atexit hook, and its first finalizer registers that hook. Made
# before the hook below, it runs after it: when training has ended. Otherwise finalizers
# of a torch that was still being loaded failed, with a traceback each.
weakref.finalize(Session, int)


@atexit.register
def _stop_before_exit():
    """Stop training and wait for the step under way: a thread inside torch while the interpreter
    ends would abort the process. An interrupt ends the waiting.
    """
    session = Session._training()
    if session is not None:
        session.stop()
        if not session.join(PATIENCE):
            print("vpo-lite: waiting for the end of the step under way", file=sys.stderr)
            session.join()
