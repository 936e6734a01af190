"""What a run was made with, by content: SHA-256 of its data files, of code of a user's own, and of
how a model in a folder reads and writes texts.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ..files import digest
from ..policy import shipped
from ..tasks.own_code import code_digest
from .config import TrainConfig

THEN = "+"  # between the digest of the code that a run began with, and of code that it went on with
TOKENIZER = "tokenizer"
# Beside its weights, what decides how a model is asked and where its answers end
READS = ("tokenizer*", "chat_template*", "vocab*", "merges*", "special_tokens_map.json", "*.model")
READS += ("added_tokens.json", "generation_config.json", "config.json")


def digests_now(config: TrainConfig) -> dict[str, str]:
    """The digests of data files by option, of code by the setting that names it, and that of
    ``tokenizer`` for a model in a folder. Code without a source is left out. Raises DamagedError
    for a file that cannot be read.
    """
    return {name: digest(file) for name, file in config.files.items()} | _may_change(config)


def other_now(kept: Mapping[str, str], config: TrainConfig) -> dict[str, str]:
    """For a run that goes on: what becomes of the kept digests whose code or tokenizer is another
    one now.
    """
    return {
        name: f"{kept[name]}{THEN}{now}"
        for name, now in _may_change(config).items()
        if name in kept and kept[name].rpartition(THEN)[2] != now
    }


def named(config: TrainConfig, name: str) -> str:
    """In words, what one of these digests is of.

    >>> named(TrainConfig(), "tokenizer")
    'tokenizer, chat template or settings of pocket-6x6'
    """
    if name == TOKENIZER:
        return f"tokenizer, chat template or settings of {config.base_model}"
    return f"code of {config.code[name]}"


def shortly(digests: str) -> str:
    """Digests for a label.

    >>> shortly("0123456789abcdef+fedcba9876543210")
    '01234567+fedcba98'
    """
    return THEN.join(digest[:8] for digest in digests.split(THEN))


def _may_change(config: TrainConfig) -> dict[str, str]:
    """What a run may go on with in another form."""
    found = {name: code_digest(value) for name, value in config.code.items()}
    found[TOKENIZER] = _tokenizer(config.base_model)
    return {name: value for name, value in found.items() if value is not None}


def _tokenizer(base: str) -> str | None:
    """None for what vpo_lite ships, and for models of the hub, whose files nobody edits."""
    if shipped.folder(base) is not None or not os.path.isdir(base):
        return None
    files = sorted({file for pattern in READS for file in Path(base).glob(pattern)})
    whole = hashlib.sha256()
    for file in filter(Path.is_file, files):
        whole.update(f"{file.name} {digest(file)}\n".encode())
    return whole.hexdigest()
