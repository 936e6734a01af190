"""The states of a run on TRL: its checkpoints, and the one to go on from."""

import json
import pickle
import zipfile
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from ..files import DamagedError, read_bytes, read_json, write_json
from ..training.config import TrainConfig
from ..training.folders import CHECKPOINTS, RunFolder
from ..training.learner import Learner
from ..training.resuming import check_unchanged

PLAIN, FSDP = "optimizer.pt", "optimizer.bin"  # the optimizer, by who shares the parameters
STATE = "trainer_state.json"
ABOUT = "about.json"  # in checkpoints/: the settings and the base model that they belong to


def rewound(folder: RunFolder, learner: Learner, config: TrainConfig) -> Path | None:
    """The last complete checkpoint, None where there is none; the folder is rewound to it.

    config: as for :meth:`RunFolder.rewind`. Raises DamagedError, before anything is changed, for
    what cannot be gone on with.
    """
    where = folder.path / CHECKPOINTS
    if known := (where / ABOUT).exists():
        check_unchanged(folder.path, read_json(where / ABOUT, dict[str, str]), learner, config)
    complete = [path for path in where.glob("checkpoint-*") if _is_complete(path)]
    last = max(complete, key=step_of, default=None)
    if last is not None:
        if step_of(last) > config.steps:
            raise DamagedError(
                f"{last}: it is of step {step_of(last)}: expected 1 to {config.steps}; start the "
                "run anew"
            )
        _check_readable(last)
    state = last
    if last is None:  # what a run that cannot go on misses: all states, or the end of the last one
        cut = max(where.glob("checkpoint-*"), key=step_of, default=None)
        state = where if cut is None else cut / STATE
    folder.rewind(step_of(last), state, config)
    if not known:  # a new run, or one that was killed before it had any state
        where.mkdir(exist_ok=True)
        write_json(where / ABOUT, folder.about(learner))
    return last


def _is_complete(path: Path) -> bool:
    """Whether TRL finished writing a checkpoint: it writes this file last."""
    try:
        state = json.loads(read_bytes(path / STATE))
    except ValueError:  # DamagedError is one, and so is what json raises
        return False
    return isinstance(state, dict) and state.get("global_step") == step_of(path)


def step_of(path: Path | None) -> int:
    """The step that a checkpoint is of; without one it is 0."""
    if path is None:
        return 0
    step = path.name.rpartition("-")[2]
    return int(step) if step.isdecimal() else -1


def check_going_on(checkpoint: Path | None, fsdp: bool) -> None:
    """ValueError for a checkpoint whose optimizer TRL would pass over, and begin a fresh one."""
    if checkpoint is not None and fsdp != (checkpoint / FSDP).exists():
        before, now = ("without", "with") if fsdp else ("with", "without")
        raise ValueError(
            f"{checkpoint}: it was trained {before} FSDP, and cannot go on {now} it; launch it as "
            "before"
        )


def other_streams(checkpoint: Path | None, processes: int) -> tuple[str, ...]:
    """A note where so many processes do not find their random streams in a checkpoint: TRL then
    goes on with others.
    """
    if checkpoint is None:
        return ()
    names = [f"rng_state_{i}.pth" for i in range(processes)] if processes > 1 else ["rng_state.pth"]
    if not (missing := [name for name in names if not (checkpoint / name).exists()]):
        return ()
    there = sorted(path.name for path in checkpoint.glob("rng_state*.pth"))
    return (
        f"{checkpoint} holds {', '.join(there) or 'no random streams'}, and not "
        f"{', '.join(missing)}: from here on other rollouts are sampled than without the stop",
    )


def _check_readable(path: Path) -> None:
    """DamagedError for a state that TRL could not read. Nothing is unpickled but numbers."""
    optimizer = FSDP if (path / FSDP).exists() else PLAIN
    files = {"adapter_model.safetensors": load_file} | dict.fromkeys(
        (optimizer, "scheduler.pt"), _load_numbers
    )
    for streams in path.glob("rng_state*.pth"):
        if not zipfile.is_zipfile(streams):
            raise DamagedError(
                f"{streams}: damaged; remove it: the run then goes on with other random streams"
            )
    for name, load in files.items():
        try:
            load(path / name)
        except (OSError, ValueError, RuntimeError, SafetensorError, EOFError) as error:
            why = str(error).partition("\n")[0]
            raise DamagedError(
                f"{path / name}: this state cannot be read ({why}); start the run anew"
            ) from error
        except pickle.UnpicklingError as error:
            raise DamagedError(
                f"{path / name}: holds more than numbers, or is damaged; start the run anew"
            ) from error


def _load_numbers(path: Path):
    return torch.load(path, map_location="cpu", weights_only=True)
