"""A trained adapter in its folder: safetensors, JSON, and a card that names its base model."""

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import ConfigDict, Field

from ..checks import shown
from ..files import DamagedError, Schema, read_json, write_json
from . import CARD, shipped
from .hub import HubName, in_cache
from .libraries import PeftModel, hf_logging, load_peft_weights, set_peft_model_state_dict
from .weights import (
    ADAPTER_FILE,
    adapter_file,
    check_tensors,
    not_finite,
    reason,
    tensors,
    weight_files,
    writing,
)

_PEFT = "adapter_config.json"
TRIES = 20  # to put a folder in its place while others save there, too
_Rank = Annotated[int, Field(ge=1)]


class AdapterCard(Schema):
    """What an adapter was trained on.

    - base: a shipped name, a folder or a hub name, with its revision if one was named
    - fingerprint: of the base's parameters (:func:`fingerprint`); None where it is not known
    - dtype, load_in: how the base was loaded
    - weight_in_prompt: whether it was trained on prompts that show weights; None: not known
    """

    base: Annotated[str, Field(min_length=1)]
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    load_in: Literal["8bit", "4bit"] | None = None
    weight_in_prompt: bool | None = None


class _PeftConfig(Schema):
    """What is read here of the many settings in peft's own file."""

    model_config = ConfigDict(extra="ignore")
    base_model_name_or_path: str | None = None
    revision: str | None = None
    r: _Rank = 8
    rank_pattern: dict[str, _Rank] | None = None
    megatron_config: None = None  # with it peft imports the module that the file names
    alora_invocation_tokens: list[int] | None = None


def adapter_folder(path) -> Path | None:
    """The folder of a trained adapter: the path itself or adapter/ in it; None if there is none.

    One that a killed save left under another name gets its name back. Raises: ValueError for what
    cannot name a folder.
    """
    path = Path(shipped.model_name(path))
    for folder in (path / "adapter", path):
        put_back(folder)
        if _holds_adapter(folder):
            return folder
    return None


def _holds_adapter(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (_PEFT, CARD, ADAPTER_FILE))


def read_card(folder: Path, base: str | None = None) -> AdapterCard:
    """The card of an adapter's folder. For an adapter of peft's own, without a card: its base.

    base: takes the place of the one that the files name. Raises: DamagedError for a file that
    cannot be read, or that names no base where none is given.
    """
    if os.path.lexists(folder / CARD):
        card = read_json(folder / CARD, AdapterCard)
        return card.model_copy(update={"base": base or card.base})
    if not base:
        peft = read_json(folder / _PEFT, _PeftConfig)
        base = peft.base_model_name_or_path
        if base and peft.revision and base_folder(base) is None:
            base = f"{base}@{peft.revision}"
    if not base:
        raise DamagedError(
            f"{folder / _PEFT}: base_model_name_or_path names no base model; say which it is: "
            'load_policy(..., base="...")'
        )
    return AdapterCard(base=base)


def load_adapter(model, folder: Path) -> PeftModel:
    """Put a trained adapter on its base model. It can be trained further.

    Raises: ValueError unless the folder holds every tensor of the adapter and no other, of the
    right shape and finite, and for an adapter that acts on some tokens only (aLoRA).
    """
    config, path = read_json(folder / _PEFT, _PeftConfig), adapter_file(folder)
    if config.alora_invocation_tokens:
        raise ValueError(
            f"{folder / _PEFT}: names alora_invocation_tokens; such an adapter acts behind these "
            "tokens only, and here one acts on every token: train a plain LoRA adapter"
        )
    found = tensors(path)
    check_tensors(path, not_finite=not_finite(found.items()))
    widest = max((max(x.shape, default=1) for x in found.values() if x.numel()), default=0)
    if (rank := max(config.r, *(config.rank_pattern or {}).values(), 1)) > widest:
        raise DamagedError(
            f"{folder / _PEFT}: r = {shown(rank)}, but no tensor of {path.name} is as wide"
        )
    # A new adapter is first drawn at random: the caller's random stream is left as it was.
    device = str(next(model.parameters()).device)
    renamed = getattr(model, "_checkpoint_conversion_mapping", {})
    with quiet(), torch.random.fork_rng(devices=[]):
        try:
            whole = PeftModel.from_pretrained(
                model, str(folder), is_trainable=True, torch_device=device
            )
            # Once more: the call above only warns of missing tensors, and drops unexpected ones.
            found = load_peft_weights(str(folder), device=device, key_mapping=renamed)
            result = set_peft_model_state_dict(whole, found)
        except Exception as error:  # peft reads these files without checks of its own
            raise ValueError(reason(error)) from error
    trained = [(n, p) for n, p in whole.named_parameters(remove_duplicate=False) if p.requires_grad]
    # With save_embedding_layers peft writes some layers twice; the second name is not read.
    unexpected = [n for n in result.unexpected_keys if ".modules_to_save." not in n]
    missing = {n for n, _ in trained} & set(result.missing_keys)
    there = {id(p) for n, p in trained if n not in missing}  # tied: one name for both is enough
    missing = [n for n, p in trained if n in missing and id(p) not in there]
    check_tensors(path, missing=missing, unexpected=unexpected)
    return whole


def save_adapter(model, card: AdapterCard, path) -> Path:
    """Write a peft model's adapter and its card to the folder ``path``, whole or not at all.

    Raises: ValueError where the path holds anything but an older adapter.
    """
    check_place(path)
    given, path = Path(path), Path(os.path.realpath(path))  # a link to a folder stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    made = staging / path.name
    try:
        made.mkdir()  # with the umask's permissions, which mkdtemp and safetensors do not follow
        for settings in model.peft_config.values():
            if isinstance(settings.target_modules, set):  # its order differs between processes
                settings.target_modules = sorted(settings.target_modules)
        if base_folder(card.base) is None:  # of the hub: its cache lies elsewhere on each machine
            hub = HubName.of(card.base)
            for settings in model.peft_config.values():
                read = Path(settings.base_model_name_or_path or "")  # SNAPSHOTS/COMMIT in the cache
                commit = read.name if read.parent.name == "snapshots" else settings.revision
                settings.base_model_name_or_path = hub.model
                settings.revision = commit or hub.revision
        with quiet(), writing(given):
            model.save_pretrained(made, save_embedding_layers=False)
        (made / "README.md").unlink(missing_ok=True)  # peft's empty model card
        write_json(made / CARD, card.model_dump())
        for file in made.iterdir():
            file.chmod(made.stat().st_mode & 0o666)
        replace_folder(made, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return given


def check_place(path) -> None:
    """Raise ValueError where a path holds anything but an older adapter. One that a killed save
    left under another name gets its name back.
    """
    path = Path(path)
    put_back(path)
    ours = {CARD, _PEFT, ADAPTER_FILE}
    others = {p.name for p in path.iterdir()} - ours if path.is_dir() else {path.name}
    if others and os.path.lexists(os.path.realpath(path)):
        raise ValueError(
            f"{path}: holds {shown(min(others))}, which saving an adapter there would remove; "
            "move it away, or choose another folder"
        )


def replace_folder(made: Path, path: Path) -> None:
    """Put a finished folder in the place of an older one, which waits under the name .NAME-old.

    That one is removed only where ``path`` stands, so a kill leaves one of the two. Others may save
    or load there meanwhile: then this tries again, and the last save stays.
    """
    old = _waiting(path)
    for left in reversed(range(TRIES)):
        try:
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)  # of a save that was killed
                path.rename(old)
            made.rename(path)
            break
        except OSError:
            put_back(path)
            if not left:
                raise
    shutil.rmtree(old, ignore_errors=True)


def put_back(path) -> None:
    """Give an adapter its name back where a killed save had renamed it and put none in its place.

    Nothing happens where the path exists.
    """
    path = Path(os.path.realpath(path))  # a link to a folder stays a link
    if not os.path.lexists(path) and _holds_adapter(old := _waiting(path)):
        with contextlib.suppress(OSError):  # a folder that cannot be written, or another was first
            old.rename(path)


def _waiting(path: Path) -> Path:
    return path.with_name(f".{path.name}-old")


def base_folder(base: str) -> Path | None:
    """The folder of a shipped or local base model; None for a hub name."""
    if (folder := shipped.folder(base)) is not None:
        return folder
    return Path(base) if Path(base).is_dir() else None


def check_not_moved(base: str) -> None:
    """Raise ValueError where an adapter's base was a folder that is not there now."""
    if Path(base).is_absolute() and not Path(base).is_dir():
        raise ValueError(
            f"its base model was the folder {shown(base, 200)}, which is not there; put it back, "
            "or name its new place as base"
        )


def fingerprint(base: str) -> str | None:
    """A hash of a base model's parameters; None for a hub name that the hub's cache lacks.

    It keeps an adapter from being put on other parameters than it was trained on. Of a folder all
    safetensors files count. The hub's cache may gain files, so of these only the loaded ones count.
    The commit of a hub model would not do: it changes with the model's README, too. Raises:
    ValueError for a folder without weights.
    """
    folder = base_folder(base)
    if folder is not None:
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{folder}: has no weights (*.safetensors) to tell this model by")
    elif (folder := in_cache(base)) is not None:
        files = weight_files(folder)
    else:
        return None
    found = ((path, path.stat()) for path in files)
    return _digest(tuple((path, there.st_size, there.st_mtime_ns) for path, there in found))


@functools.lru_cache(maxsize=16)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """The hash of what these files hold, with their sizes and times. Of 15 GB it takes seconds."""
    digest = hashlib.blake2b(digest_size=16)
    for path, *_ in files:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest()


_ONE_THREAD = threading.RLock()


@contextlib.contextmanager
def quiet():
    """Inside, transformers and peft print nothing: no progress bars, no notices, no warnings.

    One thread at a time is inside. These switches belong to the process, and so does torch's random
    stream, which is seeded there for a fresh adapter.
    """
    with _ONE_THREAD, _switched_off():
        yield


@contextlib.contextmanager
def quiet_for_long():
    """As :func:`quiet`, but other threads may load a policy meanwhile. A reward that asks a model
    in a thread would wait for the end of the training that waits for it.
    """
    switches = _switched_off()
    with _ONE_THREAD:
        switches.__enter__()
    try:
        yield
    finally:
        with _ONE_THREAD:
            switches.__exit__(None, None, None)


@contextlib.contextmanager
def _switched_off():
    level, bars = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity(logging.ERROR)
    hf_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hf_logging.set_verbosity(level)
        if bars:
            hf_logging.enable_progress_bar()
