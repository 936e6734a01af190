"""A run goes on with the base model and the settings that its state was trained with."""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import JsonValue

from ..files import DamagedError, parse_json
from ..options import flag_of
from .config import OF_THE_MACHINE, TrainConfig

MAY_CHANGE = (*OF_THE_MACHINE, "model", "steps")  # the same run, elsewhere or longer


def check_changes(path, names: Iterable[str]) -> None:
    """Raise ValueError for settings that the run in ``path`` cannot go on with in another value."""
    if others := sorted(set(names) - {"steps", *OF_THE_MACHINE}):
        may = ", ".join(map(flag_of, OF_THE_MACHINE))
        raise ValueError(
            f"--resume {path}: leave out {', '.join(map(flag_of, others))}: it comes from the run; "
            f"--steps may change, and what says how it is computed: {may}; "
            "with other settings begin another run, on the model that `vpo-lite export model "
            f"{path} --out FOLDER` writes"
        )


def changed(path, config: TrainConfig, steps: int | None, machine: dict) -> TrainConfig:
    """The settings with which the run in ``path`` goes on: with other ``steps``, and others of
    OF_THE_MACHINE. Raises ValueError as :func:`check_changes`, and for values that cannot work.
    """
    check_changes(path, machine)
    return config.but(**machine, **({} if steps is None else {"steps": steps}))


def check_unchanged(folder: Path, about: dict[str, str], learner, config: TrainConfig) -> None:
    """Raise DamagedError where settings or base model are not those of ``about``, the texts stored
    with a state in a run's folder (:meth:`RunFolder.about <.folders.RunFolder.about>`).
    """
    if (base := about.get("base")) and base != learner.policy.fingerprint:  # "": not known
        raise DamagedError(
            f"{folder}: its state was trained on other parameters than those of "
            f"{config.base_model!r} now; put the model back, or start another run"
        )
    what = f"{folder}: the settings of its state"
    before = parse_json(about.get("config", ""), dict[str, JsonValue], what)
    before = {o.name: o.default for o in config.options()} | before  # a newer setting: its default
    now = json.loads(json.dumps(config.to_json()))
    if isinstance(options := before.get("task_options"), dict):  # check_files knows the data
        options.update((n, f) for n, f in config.files.items() if n in options)
    free = [n for n in MAY_CHANGE if n != "steps" or config.lr_schedule == "constant"]
    others = [n for n in now if n not in free and now[n] != before.get(n)]
    if others:
        raise DamagedError(
            f"{folder / 'config.json'}: {', '.join(others)} changed since the run began; put it "
            "back, or start another run"
        )
