"""What a run was made with, by content: SHA-256 of its data files, and of code of a user's own."""

from collections.abc import Mapping

from ..files import digest
from ..tasks.by_name import code_digest
from .config import TrainConfig

THEN = "+"  # between the digest of the code that a run began with, and of code that it went on with


def contents(config: TrainConfig) -> dict[str, str]:
    """The digests of data files by option, and of code by the setting that names it. Code without
    a source is left out. Raises DamagedError for a data file that cannot be read.
    """
    return {name: digest(file) for name, file in config.files.items()} | _code(config)


def other_code(kept: Mapping[str, str], config: TrainConfig) -> dict[str, str]:
    """For a run that goes on: what becomes of the kept digests whose code is another one now."""
    return {
        name: f"{kept[name]}{THEN}{now}"
        for name, now in _code(config).items()
        if name in kept and kept[name].rpartition(THEN)[2] != now
    }


def shortly(digests: str) -> str:
    """Digests for a label.

    >>> shortly("0123456789abcdef+fedcba9876543210")
    '01234567+fedcba98'
    """
    return THEN.join(digest[:8] for digest in digests.split(THEN))


def _code(config: TrainConfig) -> dict[str, str]:
    found = {name: code_digest(named) for name, named in config.code.items()}
    return {name: value for name, value in found.items() if value is not None}
