"""A trained adapter in its folder: safetensors, JSON, and a card that names its base model."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from . import shipped

_CARD = "policy.json"


@dataclass(frozen=True)
class AdapterCard:
    """What an adapter was trained on.

    - base: a shipped name, a folder or a hub name
    - fingerprint: of the base's parameters (:func:`fingerprint`); None where it is not known
    - dtype, load_in: how the base was loaded
    """

    base: str
    fingerprint: str | None = None
    dtype: str = "auto"
    load_in: str | None = None


def adapter_folder(path) -> Path | None:
    """The folder of a trained adapter: the path itself or adapter/ in it; None if there is none."""
    for folder in (Path(path) / "adapter", Path(path)):
        if (folder / "adapter_config.json").is_file():
            return folder
    return None


def read_card(folder: Path) -> AdapterCard:
    """The card of an adapter's folder. For an adapter of peft's own, without a card: its base."""
    if (folder / _CARD).is_file():
        return AdapterCard(**json.loads((folder / _CARD).read_text()))
    peft_config = json.loads((folder / "adapter_config.json").read_text())
    return AdapterCard(peft_config["base_model_name_or_path"])


def save_adapter(model, card: AdapterCard, path) -> Path:
    """Write a peft model's adapter and its card to the folder ``path``, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with quiet():
            model.save_pretrained(staging, save_embedding_layers=False)
        (staging / "README.md").unlink(missing_ok=True)  # peft's empty model card
        (staging / _CARD).write_text(json.dumps(dataclasses.asdict(card), indent=1) + "\n")
        replace_folder(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path


def replace_folder(staging: Path, path: Path) -> None:
    """Put a finished folder in the place of an older one."""
    old = path.with_name(f".{path.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    os.chmod(staging, 0o755)
    if path.exists():
        path.rename(old)
    staging.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def base_folder(base: str) -> Path | None:
    """The folder of a shipped or local base model; None for a hub name."""
    if (folder := shipped.folder(base)) is not None:
        return folder
    return Path(base) if (Path(base) / "config.json").is_file() else None


def fingerprint(base: str) -> str | None:
    """A hash of a local base model's parameters; None for a hub name.

    It keeps an adapter from being put on other parameters than it was trained on.
    """
    folder = base_folder(base)
    if folder is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def quiet():
    """Inside, transformers and peft print nothing: no progress bars, no notices, no warnings."""
    from transformers.utils import logging as hf_logging

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
