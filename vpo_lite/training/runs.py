"""Run folders: config.json, metrics.jsonl (one line a step), summary.json, adapter/, and the state to go on from.

Every file is written beside its place and moved there, so a reader or a killed process never meets half of one.
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

STATE = "state.safetensors"


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all."""
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
    """Store the trained parameters and AdamW's moments after ``step`` updates, as safetensors."""
    tensors = {}
    for name, parameter in _trained(model):
        tensors[f"p.{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value.detach()
    staging = Path(path).with_name(f".{Path(path).name}-new")
    save_file({k: v.contiguous().cpu() for k, v in tensors.items()}, staging, {"step": str(step), **meta})
    os.replace(staging, path)


def load_state(path: Path, model, optimizer) -> int:
    """Put a stored state back; returns its step. ValueError if it belongs to another model."""
    names = dict(_trained(model))
    try:
        opened = safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: this state cannot be read ({error}); start the run anew") from error
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
    """One run on disk: config.json, metrics.jsonl, adapter/, state.safetensors, and summary.json once it is finished."""

    def __init__(self, path):
        self.path = Path(path)

    @classmethod
    def create(cls, path, config) -> "RunFolder":
        """Make the folder of a new run. Refuses, before anything is trained, a folder that holds something or cannot be
        written."""
        path = Path(path)
        if (path / "config.json").exists():
            raise ValueError(f"{path}: holds a run already; go on with --resume {path}, or choose another --out")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"{path}: exists and is no empty folder; choose another --out")
        made = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_json(path / "config.json", config.to_json())
        except OSError as error:
            if made and path.is_dir():
                path.rmdir()
            raise ValueError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
        return cls(path)

    @classmethod
    def open(cls, path) -> "RunFolder":
        """An existing run. ValueError when there is none."""
        if not (Path(path) / "config.json").is_file():
            raise ValueError(f"{path}: no run folder (one that `vpo-lite train --out` made, with config.json)")
        return cls(path)

    def config(self):
        from .config import TrainConfig

        try:
            return TrainConfig.from_json(json.loads((self.path / "config.json").read_text()))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path / 'config.json'}: no settings of a run ({error})") from error

    @property
    def finished(self) -> bool:
        return (self.path / "summary.json").is_file()

    def summary(self) -> dict:
        return json.loads((self.path / "summary.json").read_text())

    def append(self, record) -> None:
        """Add one step's line to metrics.jsonl."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record.to_json(), allow_nan=False) + "\n")

    def records(self) -> list[dict]:
        """The lines of metrics.jsonl; a last line that a killed process cut short is left out."""
        path, rows = self.path / "metrics.jsonl", []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def save(self, learner, step: int) -> None:
        """Store the state after ``step`` steps, to resume from."""
        save_state(self.path / STATE, learner.policy.model, learner.optimizer, step)

    def restore(self, learner) -> int:
        """Put the last stored state into the learner, cut metrics.jsonl back to it, and return its step (0: none)."""
        path = self.path / STATE
        step = load_state(path, learner.policy.model, learner.optimizer) if path.exists() else 0
        kept = [json.dumps(row, allow_nan=False) + "\n" for row in self.records() if row["step"] <= step]
        write_atomically(self.path / "metrics.jsonl", "".join(kept))
        return step

    def finish(self, learner, summary: dict) -> None:
        """Write the adapter, then summary.json, which marks the run as finished."""
        learner.policy.save(self.path / "adapter")
        write_json(self.path / "summary.json", summary)
        (self.path / STATE).unlink(missing_ok=True)
