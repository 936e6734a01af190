"""Run folders: config.json, metrics.jsonl (one line a step), summary.json, adapter/, and the state to go on from.

Every file is written beside its place and moved there, so a reader or a killed process never meets half of one.
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
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
    with safe_open(path, "pt") as file:
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
