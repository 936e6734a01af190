"""A finished run as it is compared: from its folder, or from what an evaluation of it printed."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..checks import told_of
from ..files import DamagedError, check, digest, read_json
from ..messages import command
from ..policy import CARD
from .config import TrainConfig
from .digests import TOKENIZER, shortly
from .folders import ADAPTER_FOLDER, CONFIG, RunFolder, run_meant
from .schemas import Engine, Evaluation

ALPHA, TEMPERATURE = "judged at alpha", "sampled at temperature"
ELSEWHERE = "trained elsewhere"
BASE = "content of model"  # by its parameters
# How options of TRL begin that say where a run computes and what it logs.
PLACES_AND_LOGS = (
    *("dataloader_", "ddp_", "deepspeed", "disable_tqdm", "fsdp", "gradient_checkpointing", "hub_"),
    *("log", "project", "push_to_hub", "report_to", "run_name", "save_", "torch_compile"),
    *("trackio", "use_vllm", "vllm_"),
)


class Finished(NamedTuple):
    """A finished run: its settings, its summary, the name of its folder, its engine, the digests
    of its data files and its code, by setting, and the fingerprint of its base model.

    measured: how it was measured once more, beside the numbers of problems and answers
    """

    config: TrainConfig
    summary: dict
    folder: str
    engine: Engine
    digests: dict[str, str]
    base: str | None = None
    measured: Mapping = MappingProxyType({})

    @property
    def alpha(self) -> float:
        """Of its set reward."""
        return self.measured.get(ALPHA, self.config.alpha)

    @property
    def temperature(self) -> float:
        """Of the sampling when it was measured."""
        return self.measured.get(TEMPERATURE, 1.0)

    def options(self) -> dict:
        """The options of its task, defaults too; of a data file the digest, and those of code."""
        task = self.config.make_task()
        found = {option.name: getattr(task, option.name) for option in task.options}
        data = {name: value for name, value in self.digests.items() if name in self.config.files}
        return found | data | self.code()

    def of_the_engine(self) -> dict:
        """The engine's name and its options, but those that say where it computes and logs."""
        told = {n: v for n, v in self.engine.options.items() if not n.startswith(PLACES_AND_LOGS)}
        return {"engine": self.engine.name} | {f"engine option {n}": v for n, v in told.items()}

    def code(self) -> dict[str, str]:
        """The digests of its code, under the names that labels give them."""
        others = {*self.config.files, TOKENIZER}
        return {f"code of {n}": shortly(v) for n, v in self.digests.items() if n not in others}

    def model(self) -> dict[str, str]:
        """What tells its base model from another one of that name, under such names."""
        found = {} if self.base is None else {BASE: self.base[:8]}
        if TOKENIZER in self.digests:
            found[TOKENIZER] = shortly(self.digests[TOKENIZER])
        return found


def finished_runs(paths: Iterable[str | os.PathLike]) -> list[Finished]:
    """These runs. A run without an adapter is taken to have the base model of the others, if they
    agree on one of that name.
    """
    seen, found, bases = set(), [], {}
    for given in paths:
        path = RunFolder(given).path  # refuses what is no path
        if (real := os.path.realpath(path)) in seen:
            raise ValueError(f"{path}: given twice")
        seen.add(real)
        found.append(_read(path))
        bases.setdefault(found[-1].config.base_model, set()).add(found[-1].base)
    only = {model: those - {None} for model, those in bases.items() if len(those - {None}) == 1}
    return [
        run._replace(base=run.base or next(iter(only.get(run.config.base_model, ())), None))
        for run in found
    ]


def _read(path: Path) -> Finished:
    """A finished run, from its folder or from the file of another measurement."""
    if not os.path.isfile(path):  # no OSError for a name that is too long
        run = RunFolder.open(path)
        return _of_folder(run, run.config(), _summary(run))
    try:
        stored = read_json(path)
    except DamagedError as error:
        if os.path.getsize(path) == 0:  # a shell makes the file of `> FILE` before the command runs
            raise DamagedError(
                f"{path}: it is empty: the command that should have written it failed; run it "
                "again, and see what it says"
            ) from error
        raise DamagedError(f"{error}{run_meant(path)}") from error
    if "run" not in stored:
        raise ValueError(
            f"{path}: neither a run folder nor what `vpo-lite evaluate --json` printed"
            f"{run_meant(path)}"
        )
    again = check(stored, Evaluation, str(path))
    with told_of(f"{path}"):
        run = RunFolder.open(again.run)
        if again.settings != digest(run.path / CONFIG):
            raise ValueError(f"the run in {run.path} has changed since: measure it again")
        config = run.config().but(eval_answers=again.answers)
        config = config.but(model=again.model) if again.model else config
    measured = {"adapter": _within(again.adapter, again.run)} if again.adapter else {}
    measured |= {ELSEWHERE: True} if again.model else {}
    if again.alpha != config.alpha:
        measured[ALPHA] = again.alpha
    if again.temperature != 1:
        measured[TEMPERATURE] = again.temperature
    own = run.finished and not (again.adapter or again.model)
    tokens = run.summary()["tokens"] if own else None
    found = _of_folder(run, config, again.model_dump() | {"tokens": tokens})
    now = {name: value for name, value in again.files.items() if name != "method"}
    base = None if again.model else found.base
    return found._replace(digests=found.digests | now, base=base, measured=measured)


def _within(adapter: str, run: str) -> str:
    """An adapter by its name in the folder of its run, so that seeds differ in nothing else."""
    path = Path(adapter)
    return path.relative_to(run).as_posix() if path.is_relative_to(run) else adapter


def _summary(run: RunFolder) -> dict:
    if run.engine().name == "verl" and not run.finished:
        raise ValueError(
            f"{run.path}: trained by veRL; its README.md says how to get the adapter; compare the "
            f"file of: {command('evaluate', run.path, '--adapter', 'ADAPTER', '--json')}"
        )
    return run.summary()


def check_method(run: RunFolder, config: TrainConfig) -> None:
    """Raise ValueError where another method is set than the one that trained a finished run."""
    if run.finished and (trained := run.summary()["method"]) != config.method:
        raise ValueError(
            f"{run.path / CONFIG}: method is {config.method}, and summary.json there tells of "
            f"{trained}: one of them was edited; put it back"
        )


def _of_folder(run: RunFolder, config: TrainConfig, summary: dict) -> Finished:
    check_method(run, config)
    card = run.path / ADAPTER_FOLDER / CARD
    base = read_json(card).get("fingerprint") if card.exists() else None
    return Finished(config, summary, str(run.path), run.engine(), run.digests(), base)
