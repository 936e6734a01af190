"""Run folders: what a run leaves on disk, and the state from which it goes on.

Files are written beside their place and then moved there. So a reader never meets half a file, and
neither does a run that goes on after a kill. metrics.jsonl alone grows line by line.
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .config import TrainConfig
from .measure import FIGURES
from .record import StepRecord, renamed

STATE = "state.safetensors"


def write_atomically(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path = Path(path)
    handle, staging = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    except BaseException:
        Path(staging).unlink(missing_ok=True)
        raise


def write_json(path: Path, value) -> None:
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def save_state(path: Path, model, optimizer, step: int, **meta) -> None:
    """Store the trained parameters and AdamW's moments after ``step`` updates."""
    tensors = {}
    for name, parameter in _trained(model):
        tensors[f"p.{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value.detach()
    staging = Path(path).with_name(f".{Path(path).name}-new")
    save_file(
        {k: v.contiguous().cpu() for k, v in tensors.items()}, staging, {"step": str(step), **meta}
    )
    os.replace(staging, path)


def load_state(path: Path, model, optimizer) -> int:
    """Put a stored state into model and optimizer; returns its step.

    Raises ValueError for a file that cannot be read, or that was saved from another model.
    """
    names = dict(_trained(model))
    try:
        opened = safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path}: this state cannot be read ({error}); start the run anew"
        ) from error
    with opened as file:
        stored = set(file.keys())
        if {f"p.{n}" for n in names} != {k for k in stored if k.startswith("p.")}:
            raise ValueError(f"{path}: this state was saved from another model")
        with torch.no_grad():
            for name, parameter in names.items():
                parameter.copy_(file.get_tensor(f"p.{name}"))
                moments = {}
                for key in ("step", "exp_avg", "exp_avg_sq"):
                    if f"{key}.{name}" in stored:
                        value = file.get_tensor(f"{key}.{name}")
                        moments[key] = value if key == "step" else value.to(parameter.device)
                if moments:
                    optimizer.state[parameter] = moments
        return int(file.metadata()["step"])


def _trained(model):
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


class RunFolder:
    """One run on disk.

    - config.json: its settings
    - metrics.jsonl: one record a line
    - start.json: the figures before training, while the run is under way
    - state.safetensors: the state to resume from, while the run is under way
    - adapter/, summary.json: the trained adapter and the figures, once the run is finished
    """

    def __init__(self, path):
        self.path = Path(path)

    @classmethod
    def create(cls, path, config) -> "RunFolder":
        """Make the folder of a new run.

        Raises ValueError for a folder that holds something or cannot be written.
        """
        path = Path(path)
        if (path / "config.json").exists():
            raise ValueError(
                f"{path}: holds a run already; go on with --resume {path}, or choose another --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"{path}: exists and is no empty folder; choose another --out")
        made = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_json(path / "config.json", config.to_json())
        except OSError as error:
            if made and path.is_dir():
                path.rmdir()
            raise ValueError(
                f"{path}: cannot be written ({error.strerror}); choose another --out"
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path) -> "RunFolder":
        """The folder of an existing run. Raises ValueError where there is none."""
        if not (Path(path) / "config.json").is_file():
            raise ValueError(
                f"{path}: no run folder (one that `vpo-lite train --out` made, with config.json)"
            )
        return cls(path)

    def config(self) -> TrainConfig:
        path = self.path / "config.json"
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: no settings of a run ({error})") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path}: no settings of a run")
        try:
            return TrainConfig.from_json(values)
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from error

    @property
    def finished(self) -> bool:
        return (self.path / "summary.json").is_file()

    def summary(self) -> dict:
        """The figures of a finished run. Raises ValueError for any other run."""
        try:
            stored = json.loads((self.path / "summary.json").read_text())
            summary = _figures(stored) | {"start": _figures(stored["start"])}
            for figures in (summary, summary["start"]):
                missing = [name for name in (*FIGURES, "per_problem") if name not in figures]
                if missing:
                    raise ValueError(f"{missing[0]} is missing")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            made = "one that `vpo-lite train --out` made, with config.json and summary.json"
            raise ValueError(f"{self.path}: no finished run ({made}): {error}") from error
        return summary

    def start(self) -> dict | None:
        """The figures before training; None before they are measured."""
        path = self.path / "start.json"
        return _figures(json.loads(path.read_text())) if path.exists() else None

    def save_start(self, figures: dict) -> None:
        write_json(self.path / "start.json", figures)

    def append(self, record: StepRecord) -> None:
        """Add one step's line to metrics.jsonl."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record.to_json(), allow_nan=False) + "\n")

    def records(self) -> list[StepRecord]:
        """The records of metrics.jsonl, without a last line that a kill cut short."""
        path, records = self.path / "metrics.jsonl", []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                values = json.loads(line)
            except ValueError:
                break
            records.append(StepRecord.from_json(values))
        return records

    def save(self, learner, step: int) -> None:
        """Store the state after ``step`` steps."""
        save_state(self.path / STATE, learner.policy.model, learner.optimizer, step)

    def restore(self, learner) -> int:
        """Put the last stored state into the learner; returns its step, 0 without a state.

        Later lines of metrics.jsonl are removed.
        """
        path = self.path / STATE
        step = load_state(path, learner.policy.model, learner.optimizer) if path.exists() else 0
        kept = [
            json.dumps(r.to_json(), allow_nan=False) + "\n"
            for r in self.records()
            if r.step <= step
        ]
        write_atomically(self.path / "metrics.jsonl", "".join(kept))
        return step

    def finish(self, learner, summary: dict) -> None:
        """Write the adapter, then summary.json, which marks the run as finished."""
        learner.policy.save(self.path / "adapter")
        write_json(self.path / "summary.json", summary)
        for name in (STATE, "start.json"):
            (self.path / name).unlink(missing_ok=True)


def _figures(stored: dict) -> dict:
    """Stored figures under today's names. 0.1.0 named ``per_problem`` after its only task."""
    figures = renamed(stored)
    for name in [name for name in figures if name.startswith("per_")]:
        figures["per_problem"] = renamed(figures.pop(name))
    return figures
