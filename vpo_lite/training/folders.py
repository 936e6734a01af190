"""Run folders: what a run leaves on disk, and the state from which it goes on.

One process writes to a run at a time. Files are written beside their place and then moved there, so
a reader never meets half a file, and neither does a run that goes on after a kill. The three .jsonl
files alone grow line by line. What is read is checked field by field (schemas.py, record.py).

Longer than 350 lines because writing, reading and going on must agree on every file.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from ..checks import shortened, shown, told_of
from ..files import (
    DamagedError,
    check,
    digest,
    is_free,
    parse_json,
    read_json,
    sync,
    tidy,
    write_atomically,
    write_json,
)
from ..locks import BusyError, lock_folder
from ..markup import count
from ..messages import command, shown_path
from ..tasks.by_name import MOST_NAMES, in_modules, lies_in
from .config import TrainConfig
from .digests import digests_now, named, other_now
from .errors import TrainingError
from .jsonl import LOST_MEASUREMENTS, LOST_STEPS, append, cut, measured_of, records_of
from .record import StepRecord
from .resuming import check_unchanged
from .schemas import BestSets, Engine, Start, Summary
from .texts import TEXTS

CONFIG, METRICS, SUMMARY = "config.json", "metrics.jsonl", "summary.json"
FILES, ENGINE = "files", "engine"  # beside the settings in config.json
STATE, START, MEASURED = "state.safetensors", "start.json", "measured.jsonl"
ADAPTER_FOLDER = "adapter"
CHECKPOINTS = "checkpoints"  # another engine's states, in its form


class RunFolder:
    """One run on disk.

    - config.json: its settings; under ``files`` the SHA-256 of each data file, of your own
      method's, task's or reward's code, and of a local model's tokenizer; under ``engine`` the
      engine that is not the native one
    - metrics.jsonl: one record a line
    - texts.jsonl: some completions of each step, one a line, where the run keeps any (texts.py)
    - start.json: the figures before training, while the run is under way
    - measured.jsonl, adapter-N/: after every ``eval_every`` steps N the figures, one step a line,
      and the adapter that has them
    - state.safetensors, or checkpoints/ of another engine: the state to go on from. A finished run
      keeps it: more ``steps`` make it go on
    - adapter/, summary.json: the trained adapter and the figures, once the run is finished

    Anyone may read. To write, :meth:`create` a folder or :meth:`lock` one, and :meth:`close` it.
    Then notes says what a user should know of how the run goes on.
    """

    def __init__(self, path):
        if not isinstance(path, str | os.PathLike):
            raise ValueError(f"folder = {shown(path)}: expected a path")
        self.path = Path(path)
        self.go_on = command("train", "--resume", self.path)  # a line for a shell
        self.notes: tuple[str, ...] = ()
        self._lock = self._settings = None
        self._stored = 0  # the step that the stored state is of

    @classmethod
    def create(cls, path, config, engine: Engine | None = None) -> "RunFolder":
        """Make the folder of a new run, locked. Without an engine it is a run of the native one.

        Raises ValueError for a folder that holds something or cannot be written, DamagedError for a
        data file that cannot be read, and BusyError where another process is making the folder.
        Nothing is changed then.
        """
        folder = cls(path)
        stored, made = stored_settings(config, engine), []
        with _usable(path):
            try:
                folder.check_free()
                made = [p for p in (folder.path, *folder.path.parents) if not p.exists()]
                folder.path.mkdir(parents=True, exist_ok=True)
                folder.lock()
                folder.check_free()  # another process may have been faster
                folder.tidy()
                write_json(folder.path / CONFIG, stored)
            except BaseException:
                folder.close(remove=bool(made))
                with contextlib.suppress(OSError):  # not empty: another process works there
                    for parent in made:
                        parent.rmdir()
                raise
        return folder

    @classmethod
    def open(cls, path) -> "RunFolder":
        """The folder of an existing run. Raises ValueError where there is none."""
        folder = cls(path)
        if not os.path.isfile(folder.path / CONFIG):  # no OSError for a name that is too long
            raise ValueError(
                f"{shown_path(path)}: no run folder (one that `vpo-lite train --out` "
                f"made, with config.json){run_meant(folder.path)}"
            )
        return folder

    # --- one writer -------------------------------------------------------------------------------

    def lock(self) -> None:
        """Become the one writer, in this folder also after ``os.chdir``. Raises BusyError where
        another one is at work.
        """
        self.path = Path(os.path.abspath(self.path))
        self._lock = lock_folder(self.path)

    def _check_locked(self) -> None:
        if self._lock is None or not self._lock.held:
            raise BusyError(
                f"{self.path}: closed, replaced, or taken over by a later run; go on with: "
                f"{self.go_on}"
            )

    def close(self, *, remove: bool = False) -> None:
        """Stop writing; remove: also the file of the lock."""
        if self._lock is not None:
            self._lock.release(remove=remove)

    def check_free(self) -> None:
        """ValueError unless a run may begin here: no folder, or nothing but a killed beginning.

        :meth:`create` calls it; call it before a model is loaded, which may take minutes.
        """
        path = self.path
        with _usable(path):
            begun, free = (path / CONFIG).exists(), is_free(path, [CONFIG])
        if begun:
            raise ValueError(
                f"{path}: holds a run already; go on with: {self.go_on}, or choose another --out"
            )
        if not free:
            raise ValueError(f"{path}: exists and is no empty folder; choose another --out")

    def tidy(self) -> None:
        """Remove what a killed writer left."""
        tidy(self.path, (CONFIG, METRICS, TEXTS, SUMMARY, STATE, START, MEASURED, ADAPTER_FOLDER))
        if self.finished:
            (self.path / START).unlink(missing_ok=True)

    # --- reading ----------------------------------------------------------------------------------

    def config(self) -> TrainConfig:
        """The settings. Raises DamagedError that names the file and the setting."""
        path = self.path / CONFIG
        values = read_json(path)
        if "model_type" in values:
            cure = command("evaluate", "RUN", "--model", self.path)
            raise DamagedError(f"{self.path}: a model, no run; measure it as a run is: {cure}")
        for name in (FILES, ENGINE):
            values.pop(name, None)
        with told_of(f"{path}", DamagedError):
            self._check_code(values)
            return TrainConfig.from_json(values)

    def _check_code(self, values: dict) -> None:
        """Refuse settings that name code in this folder, which somebody else may have filled."""
        options = values.get("task_options")
        for name, value in (values | (options if isinstance(options, dict) else {})).items():
            may_name = isinstance(value, str) and len(value) <= MOST_NAMES
            names = [value, *in_modules(value)] if may_name else []
            if any(lies_in(self.path, x) for x in names):
                raise ValueError(
                    f"{name} = {shown(value)}: its code lies in the run's own folder; if you trust "
                    "it, move it out of there"
                )

    def engine(self) -> Engine:
        """The engine of the run. Raises DamagedError for an entry that is none."""
        path = self.path / CONFIG
        return check(read_json(path).get(ENGINE, {}), Engine, f"{path}: field {ENGINE}")

    def digests(self) -> dict[str, str]:
        """The SHA-256 of data files when the run began, by option, and of code, by setting: several
        with a plus sign between them where the run went on with other code.
        """
        path = self.path / CONFIG
        return check(read_json(path).get(FILES, {}), dict[str, str], f"{path}: field {FILES}")

    def check_files(self) -> None:
        """Raise DamagedError where a data file is not the one that the run began with, and where it
        or the model's folder is not there.
        """
        path, config = self.path / CONFIG, self.config()
        for name, place in {"model": config.base_model, **config.files}.items():
            if os.path.isabs(place) and not os.path.exists(place):
                raise DamagedError(
                    f"{path}: {name}: {shown_path(place)} is not there; put it back, put a link "
                    "there to its new place, or write its new path into config.json"
                )
        kept = self.digests()
        for name, file in config.files.items():
            if digest(file) != kept.get(name):
                raise DamagedError(
                    f"{file}: {name} changed since the run in {self.path} began; put it back, or "
                    "start another run"
                )

    @property
    def finished(self) -> bool:
        return (self.path / SUMMARY).is_file()

    def summary(self) -> dict:
        """The figures, as schemas.Summary names them. Raises ValueError for a run under way."""
        if not self.finished:
            raise ValueError(f"{self.path}: not finished; go on with: {self.go_on}")
        return self._replaceable(SUMMARY, Summary)

    def start(self) -> dict | None:
        """The figures before training; None before they are measured."""
        return self._replaceable(START, Start) if (self.path / START).exists() else None

    def _replaceable(self, name: str, schema: type) -> dict:
        """What a file holds that a run makes again where it is missing."""
        try:
            return read_json(self.path / name, schema).model_dump()
        except DamagedError as error:
            raise DamagedError(f"{error}; remove it, then: {self.go_on}") from error

    def measured(self) -> list[dict]:
        """The figures of each measurement during training, and its ``step``, in order.

        Raises DamagedError as :func:`~.jsonl.measured_of`, and for an adapter whose line is lost;
        not one before the first line, since whoever lost lines may have removed the file.
        """
        path, config = self.path / MEASURED, self.config()
        rows = measured_of(path, config.steps) if os.path.lexists(path) else []
        there, every = [row["step"] for row in rows], config.eval_every
        end = config.steps if self.finished else max(there, default=0)
        for step in range(min(there, default=end), end):
            due = every and step % every == 0 and step not in there
            if due and (kept := self.adapter_after(step)).is_dir():
                raise DamagedError(f"{path}: lost the line of {kept.name}; {LOST_MEASUREMENTS}")
        return rows

    def records(self) -> list[StepRecord]:
        """The records of metrics.jsonl, as :func:`~.jsonl.records_of` reads them. Raises
        DamagedError also where a finished run lacks some.
        """
        path = self.path / METRICS
        found = records_of(path)
        if self.finished and len(found) < (steps := self.config().steps):
            said = f"{path}: ends after step {len(found)} of {steps}"
            raise DamagedError(f"{said}; {LOST_STEPS}")
        return found

    # --- writing ----------------------------------------------------------------------------------

    def save_start(self, figures: dict) -> None:
        """Store the figures before training."""
        self._check_locked()
        write_json(self.path / START, figures)

    def append(self, record: StepRecord) -> None:
        """Add one step's line to metrics.jsonl."""
        self._append(METRICS, json.dumps(record.to_json(), allow_nan=False) + "\n")

    def append_texts(self, lines: list[str]) -> None:
        """Add lines to texts.jsonl."""
        self._append(TEXTS, "".join(lines))

    def adapter_after(self, step: int) -> Path:
        """Where the adapter that was measured after a step is kept."""
        return self.path / f"{ADAPTER_FOLDER}-{step}"

    def append_measured(self, learner, step: int, figures: dict) -> None:
        """Keep the adapter that was measured after a step; add its figures to measured.jsonl.

        Raises TrainingError where files of others are in the place of the adapter.
        """
        self._check_locked()
        try:
            learner.policy.save(self.adapter_after(step))
        except ValueError as error:
            raise TrainingError(str(error)) from error
        self._append(MEASURED, json.dumps({"step": step} | figures, allow_nan=False) + "\n")

    def _append(self, name: str, text: str) -> None:
        self._check_locked()
        append(self.path / name, text)

    @contextlib.contextmanager
    def kept_on_error(self, learner) -> Iterator[None]:
        """A context for the next step. Where it raises before the update, the state after the steps
        that are done is stored, unless it is already.
        """
        try:
            yield
        except (Exception, SystemExit):
            if learner.whole and learner.steps > self._stored:
                with contextlib.suppress(TrainingError):  # parameters that are not finite
                    self.save(learner)
            raise

    def save(self, learner) -> None:
        """Store the state after the steps that the learner has done."""
        from .state import save_state  # here: whoever only reads a run needs no torch

        self._check_locked()
        sync(self.path / METRICS)  # never a state without the lines that lead to it
        about = self.about(learner)
        if learner.found:
            about["found"] = json.dumps(learner.found)
        made = learner.policy.model, learner.optimizer
        save_state(self.path / STATE, *made, learner.steps, **about)
        self._stored = learner.steps

    def about(self, learner) -> dict[str, str]:
        """What to store with a state, for :func:`~.resuming.check_unchanged`."""
        if self._settings is None:
            self._settings = json.dumps(self.config().to_json())
        return {"config": self._settings, "base": learner.policy.fingerprint or ""}

    def restore(self, learner, config: TrainConfig) -> int:
        """Put the last stored state into the learner; returns its step, 0 without a state.

        config: as for :meth:`rewind`, which is called. Raises DamagedError, before anything is
        removed, for a damaged file, where lines are missing, and where the base model or the
        settings are not those that the state was trained with.
        """
        from .state import load_state, read_about

        self._check_locked()
        state, step = self.path / STATE, 0
        if state.exists():
            about = read_about(state)
            check_unchanged(self.path, about, learner, config)
            found = parse_json(about.get("found", "{}"), BestSets, f"{state}: the best sets found")
            step = load_state(state, learner.policy.model, learner.optimizer, most=config.steps)
            learner.found = found
        learner.steps = self._stored = step
        self.rewind(step, state, config)
        return step

    def rewind(self, step: int, state: Path, config: TrainConfig) -> None:
        """Make this the folder of a run that goes on after the step that the file ``state`` is of,
        0 where there is none: later lines of metrics.jsonl are removed.

        config: the settings to go on with, :meth:`config` after `~.resuming.changed`. Of a
        finished run summary.json is removed. Raises DamagedError, removing nothing, if state or
        lines are missing.
        """
        self._check_locked()
        self.measured()  # a damaged file is said before anything is removed
        before, metrics, records = self.config(), self.path / METRICS, self.records()
        gone = f"{state}: missing or damaged"
        if self.finished and step < len(records):
            raise DamagedError(
                f"{gone}, so this finished run cannot go on; begin another, with another "
                f"--seed, from what `{command('export', 'model', self.path)} --out FOLDER` writes"
            )
        if not step and len(records) > before.save_every:
            raise DamagedError(
                f"{gone}, and {metrics} goes to step {len(records)}; start the run anew"
            )
        if len(records) < step:
            raise DamagedError(
                f"{metrics}: ends after step {len(records)}, and {state} is of step {step}; start "
                "the run anew"
            )
        self.tidy()
        cut(self.path / TEXTS, step)  # first: it may refuse, and then nothing is removed
        cut(self.path / MEASURED, step)
        kept = [json.dumps(r.to_json(), allow_nan=False) + "\n" for r in records[:step]]
        write_atomically(metrics, "".join(kept))
        if lost := len(records) - step:
            steps = f"{count(lost, 'step')} after step {step}"
            self.notes += (f"{steps} left no state, and will be trained again",)
        self._settle(before, config)  # last: on a full disk a finished run stays finished

    def _settle(self, before: TrainConfig, config: TrainConfig) -> None:
        """Write the settings that changed, and make a finished run one that is under way."""
        if self.finished:
            write_json(self.path / START, self.summary()["start"])
            (self.path / SUMMARY).unlink()
        old, now, kept = before.to_json(), config.to_json(), self.digests()
        if other := other_now(kept, config):
            what = ", ".join(named(config, name) for name in other)
            self.notes += (f"changed since this run began, so its steps are of both: {what}",)
        if old != now or other:
            new = {name: value for name, value in now.items() if value != old[name]}
            new |= {FILES: kept | other} if other else {}
            write_json(self.path / CONFIG, read_json(self.path / CONFIG) | new)
            self._settings = None

    def finish(self, learner, summary: dict) -> None:
        """Write the adapter, then summary.json, which marks the run as finished."""
        self._check_locked()
        learner.policy.save(self.path / ADAPTER_FOLDER)
        write_json(self.path / SUMMARY, summary)
        self.tidy()
        self.close(remove=True)


@contextlib.contextmanager
def _usable(path) -> Iterator[None]:
    """A context in which an OSError means that no run can begin in this folder: a ValueError."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({error.strerror}); choose another --out"
        ) from error


def run_meant(path: Path) -> str:
    """What to add to a message on a path that is no run: the run that it lies in, or the runs that
    lie in it or beside it; "" without any.
    """
    for folder in (path, path.parent):
        if os.path.isfile(folder / METRICS):  # no OSError for a name that is too long
            return f"; name its run: {shown_path(folder)}"
        if there := sorted(glob(f"*/{METRICS}", root_dir=folder)):
            names = shortened(", ".join(map(os.path.dirname, there)), 200)
            return f"; the runs in {shown_path(folder)}: {names}"
    return ""


def stored_settings(config: TrainConfig, engine: Engine | None) -> dict:
    """What config.json holds. Raises DamagedError for a data file that cannot be read."""
    files = digests_now(config)
    beside = {FILES: files} if files else {}
    return config.to_json() | beside | ({ENGINE: engine.model_dump()} if engine else {})
