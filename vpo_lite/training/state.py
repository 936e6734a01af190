"""The state of a run: the trained parameters and AdamW's moments, in one safetensors file."""

import contextlib
import zlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..files import DamagedError, replacing
from ..policy.weights import writing
from .errors import TrainingError

CHECKSUM = "crc32"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of AdamW, for each parameter


def save_state(path: Path, model, optimizer, step: int, **about: str) -> None:
    """Store the trained parameters and AdamW's moments after ``step`` steps.

    about: texts that are stored with them, for :func:`read_about`.

    Raises TrainingError for a value that is not finite; an earlier state stays as it is.
    """
    tensors = {}
    for name, parameter in _trained(model):
        tensors[f"p.{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value.detach()
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise TrainingError(
                f"{name} is not finite after step {step}: lower lr; the last good state was kept"
            )
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    with replacing(path) as staging, writing(path):
        mode = staging.stat().st_mode
        save_file(tensors, staging, {"step": str(step), CHECKSUM: _checksum(tensors)} | about)
        staging.chmod(mode)  # the umask's permissions, which safetensors does not follow


def read_about(path: Path) -> dict[str, str]:
    """The texts that are stored with a state. Raises DamagedError for a damaged file."""
    with _opened(path) as file:
        return file.metadata() or {}


@torch.inference_mode(False)  # the moments are changed in place later
def load_state(path: Path, model, optimizer, *, most: int) -> int:
    """Put a stored state into model and optimizer; returns its step, 1 to ``most``.

    Raises DamagedError for a file that cannot be read, for tensors that do not fit this model, and
    for numbers that no training gives. Model and optimizer are then as they were.
    """
    with _opened(path) as file:
        # Copies: these tensors are parts of the file, and Windows replaces no file that is in use.
        stored = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        about = file.metadata() or {}
    step = about.get("step", "")
    names = dict(_trained(model))
    if not step.isdecimal() or not 1 <= int(step) <= most:
        raise DamagedError(
            f"{path}: it is of step {step[:20]!r}: expected 1 to {most}; start the run anew"
        )
    expected = {f"p.{name}": p for name, p in names.items()}
    for name, parameter in names.items():
        if any(f"{key}.{name}" in stored for key in MOMENTS):
            expected |= {f"{key}.{name}": parameter for key in MOMENTS}
    strange = sorted(stored.keys() ^ expected.keys())
    if strange:
        raise DamagedError(
            f"{path}: this state was saved from another model ({len(strange)} tensors differ, "
            f"{strange[0][:60]!r} first); start the run anew"
        )
    for name, tensor in stored.items():
        like = torch.zeros(()) if name.startswith("step.") else expected[name]
        least = 0.0 if name.startswith(("step.", "exp_avg_sq.")) else -torch.inf
        fits = tensor.shape == like.shape and tensor.dtype == like.dtype
        if not fits or not torch.isfinite(tensor).all() or (tensor < least).any():
            raise DamagedError(f"{path}: tensor {name[:60]!r} is damaged; start the run anew")
    if about.get(CHECKSUM) != _checksum(stored):
        raise DamagedError(
            f"{path}: its numbers are not those that were stored; start the run anew"
        )
    with torch.no_grad():
        for name, parameter in names.items():
            parameter.copy_(stored[f"p.{name}"])
            moments = {k: stored[f"{k}.{name}"] for k in MOMENTS if f"{k}.{name}" in stored}
            if moments:  # AdamW keeps its step on the CPU
                optimizer.state[parameter] = {
                    k: v if k == "step" else v.to(parameter.device) for k, v in moments.items()
                }
    return int(step)


def _checksum(tensors: dict[str, torch.Tensor]) -> str:
    """CRC-32 of all numbers, in hex. A disk may change a byte, which every other check may pass."""
    found = 0
    for _, tensor in sorted(tensors.items()):
        found = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy(), found)
    return f"{found:08x}"


@contextlib.contextmanager
def _opened(path: Path):
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise DamagedError(
            f"{path}: this state cannot be read ({error}); start the run anew"
        ) from error


def _trained(model):
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]
