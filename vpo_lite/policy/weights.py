"""The weights in a folder, looked at before anything is loaded: safetensors, never a pickle.

A pickle runs code when it is read. A safetensors file cannot: it is a header with names, types and
shapes, then the numbers.
"""

import contextlib
import errno
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError, safe_open

from ..checks import shortened, shown
from ..files import DamagedError, Schema, read_json
from ..markup import count
from ..messages import command
from .room import is_short

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER_FILE = "adapter_model.safetensors"
PICKLES = (".bin", ".bin.index.json", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
NO_WEIGHTS = ("training_args.bin", "optimizer.", "scheduler.", "scaler.", "rng_state")
POINTER = b"version https://git-lfs"
CONSTANTS = {  # end of a name -> dimensions: no parameters; transformers 3 and 4 saved them, too
    ".attn.bias": 4,  # the causal mask of GPT-2, (1, 1, length, length); a parameter has 1 or 2
    ".attention.bias": 4,  # of GPT-Neo and GPT-NeoX
    ".masked_bias": 0,  # what a masked score becomes
    ".rotary_emb.inv_freq": 1,  # frequencies of the positions
}
# Errors of a disk; others, such as of a network, have nothing to do with what is written.
FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}
# Modules and tensors of what a model sees or hears with, beside its language model.
SENSES = r"(.*\.)?(vision|visual|audio|multi_modal|embed_vision|embed_audio).*"
SAVE_AGAIN = (  # a cure in one line
    "python -c \"import transformers as t; [c.from_pretrained('OLD').save_pretrained('NEW') "
    'for c in (t.AutoModelForCausalLM, t.AutoTokenizer)]"'
)

_File = Annotated[str, Field(pattern=r"^[^./\\\x00][^/\\\x00]*\.safetensors$")]


class _Index(Schema):
    """An index: which file of the same folder holds which tensor."""

    model_config = ConfigDict(extra="ignore")
    weight_map: Annotated[dict[str, _File], Field(min_length=1)]


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a base model's folder, all of them there.

    Raises: DamagedError where one is missing; ValueError, with the cure, where the folder has only
    pickled weights, or none.
    """
    folder = Path(folder)
    if any(folder.glob("shard-*-model-*.safetensors")):
        raise ValueError(
            f"{folder}: a distributed checkpoint; save it with save_pretrained, as {ONE}"
        )
    if os.path.lexists(folder / ONE):
        return [_there(folder / ONE)]
    if os.path.lexists(folder / INDEX):
        names = set(read_json(folder / INDEX, _Index).weight_map.values())
        return [_there(folder / name) for name in sorted(names)]
    if pickled := _pickled(folder):
        raise ValueError(
            f"{folder}: only pickled weights ({shown(pickled)}), and a pickle can run code when it "
            f"is read; convert it where you trust it: {SAVE_AGAIN}"
        )
    if (folder / "metrics.jsonl").is_file() and not (folder / "adapter").is_dir():
        cure = command("train", "--resume", str(folder))
        raise ValueError(f"{folder}: a run that is not finished; go on with: {cure}")
    only = "only a trained adapter, in adapter/" if (folder / "adapter").is_dir() else "no weights"
    raise ValueError(f"{folder}: holds {only}; a base model has {ONE} or {INDEX}")


def adapter_file(folder: Path) -> Path:
    """The safetensors file of an adapter's folder. Errors as for :func:`weight_files`."""
    folder = Path(folder)
    if not os.path.lexists(folder / ADAPTER_FILE) and (pickled := _pickled(folder)):
        raise ValueError(
            f"only pickled weights ({shown(pickled)}), and a pickle can run code when it is read; "
            'convert it where you trust it: python -c "import torch, safetensors.torch as s; '
            f"s.save_file(torch.load('OLD', weights_only=True), '{ADAPTER_FILE}')\""
        )
    return _there(folder / ADAPTER_FILE)


def _there(path: Path) -> Path:
    if not path.is_file():
        how = "is no file that can be read" if os.path.lexists(path) else "is missing"
        raise DamagedError(f"{path}: {how}; get the complete folder again")
    return path


def _pickled(folder: Path) -> str | None:
    """The name of a file with pickled weights; None where there is none."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(NO_WEIGHTS)]
    return next((name for name in names if name.endswith(PICKLES)), None)


def shapes(files) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in some safetensors files, from their headers.

    Raises: DamagedError for a file that is cut, no safetensors, or holds a tensor of another one.
    """
    found = {}
    for path in files:
        with _readable(path) as file:
            here = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        if twice := found.keys() & here.keys():
            raise DamagedError(f"{path}: holds {shown(min(twice))}, as another file does")
        found |= here
    return found


def tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of one safetensors file, on the CPU. Errors as for :func:`shapes`."""
    with _readable(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _readable(path: Path):
    try:
        with open(path, "rb") as file:
            begin = file.read(len(POINTER))
        if begin != POINTER:
            return safe_open(path, "pt")
    except Exception as error:  # the reader's own errors share no class
        raise DamagedError(
            f"{path}: no whole safetensors file ({reason(error)}); get it again"
        ) from error
    raise DamagedError(f"{path}: a pointer of git-lfs, not the weights; cure: git lfs pull")


def not_finite(named_tensors, *, limits: bool = False) -> list[str]:
    """Names of the tensors, from (name, tensor) pairs, that hold NaN or infinity. limits: infinity
    is allowed, as in buffers with limits (Gemma 4).

    >>> pairs = [("a", torch.ones(2)), ("b", torch.tensor([1.0, float("inf")]))]
    >>> not_finite(pairs), not_finite(pairs, limits=True)
    (['b'], [])
    """
    floating = [(n, x) for n, x in named_tensors if x.is_floating_point() and x.numel()]
    floating = [(n, x) for n, x in floating if x.dtype.itemsize > 1]  # torch cannot order float8
    ends = {n: torch.stack(x.detach().aminmax()) for n, x in floating}  # NaN is at both
    return [n for n, x in ends.items() if (x.isnan() if limits else ~x.isfinite()).any()]


def is_constant(name: str, shape: tuple[int, ...] | None) -> bool:
    """Whether this tensor of a file is one of the CONSTANTS. A model without it needs it not.

    >>> is_constant("h.0.attn.bias", (1, 1, 8, 8)), is_constant("h.0.attn.bias", (8,))
    (True, False)
    """
    if shape is None:
        return False
    return any(name.endswith(end) and len(shape) == n for end, n in CONSTANTS.items())


def check_tensors(where, *, cure: str = "get complete weights", **faults) -> None:
    """Raise a DamagedError that counts the tensors of every fault, and names three of each.

    >>> check_tensors("a/b", missing=[], unexpected=["x", "y"])
    Traceback (most recent call last):
    ...
    vpo_lite.files.DamagedError: a/b: 2 tensors unexpected (first 'x', 'y'); get complete weights
    """
    found = [
        f"{count(len(names), 'tensor')} {fault.replace('_', ' ')} "
        f"(first {', '.join(map(shown, sorted(names)[:3]))})"
        for fault, names in faults.items()
        if names
    ]
    if found:
        raise DamagedError(f"{where}: {', '.join(found)}; {cure}")


def reason(error: BaseException) -> str:
    """Why another library failed, in one line. Raises: MemoryError where memory ran out.

    >>> reason(KeyError("x")), reason(ValueError("too long"))
    ("KeyError: 'x'", 'too long')
    """
    text = shortened(str(error), 300)
    if is_short(error):
        traceback.clear_frames(error.__traceback__)  # they hold what was loaded so far
        raise MemoryError(
            f"out of memory as a model was loaded ({text}): end what else uses it, or choose "
            "load_in 4bit, dtype bfloat16 or a smaller model"
        ) from error
    plain = isinstance(error, (OSError, ValueError)) and text
    return text if plain else f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def writing(path: str | os.PathLike, *, tokenizers: bool = True) -> Iterator[None]:
    """A context in which a full disk is an OSError that names ``path``, as any error of writing
    safetensors or a tokenizer is.

    tokenizers: that library raises Exception itself, which code of others may, too
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    except Exception as error:
        if type(error) not in (SafetensorError, *[Exception] * tokenizers):
            raise
        raise OSError(f"{os.fspath(path)} cannot be written: {error}") from error
