"""The policies that ship with the package: names, folders, and what they say of themselves.

No torch: the command line and a config's check read this before anything is loaded.
"""

import os
import unicodedata
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from ..checks import shown
from ..files import Schema, read_json

_WEIGHTS = Path(__file__).parent.parent / "pocket" / "weights"
_Count = Annotated[int, Field(ge=1, le=10_000)]


class _Pocket(Schema):
    """What every pocket policy says of itself. What else its task needs is for the task to read."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]
    task: Annotated[str, Field(min_length=1)] | None = None  # none: of any task
    answers: Annotated[int, Field(ge=1, le=9)]
    stop: Annotated[str, Field(min_length=1)] | None = None  # ends the last of {m} answers
    board: _Count | None = None
    budget: _Count | None = None


class _Config(Schema):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=True)
    vpo_pocket: _Pocket | None = None


def names() -> list[str]:
    """Names of the policies that the package carries.

    >>> names()
    ['pocket-6x6', 'pocket-9x9', 'pocket-calls', 'pocket-chains', 'pocket-hops', 'pocket-programs']
    """
    if not _WEIGHTS.is_dir():
        return []
    return sorted(path.name for path in _WEIGHTS.iterdir() if (path / "config.json").is_file())


def folder(name: str) -> Path | None:
    """The folder of the shipped policy with this name; None for any other name."""
    return _WEIGHTS / name if name in names() else None


def name_of_folder(name: str) -> str | None:
    """The name of a base model, where it stands for a folder of this machine: a shipped policy, or
    a path. None for a name on the hub: of that an adapter's own files know the commit.

    >>> name_of_folder("pocket-6x6"), name_of_folder("Qwen/Qwen2.5-0.5B")
    ('pocket-6x6', None)
    """
    return name if Path(name).is_absolute() or name in names() else None


def model_name(value) -> str:
    """A shipped name, a folder or a hub name as text. ValueError for what can be none of these.

    >>> model_name(Path("runs") / "first")
    'runs/first'
    >>> model_name("")
    Traceback (most recent call last):
    ...
    ValueError: model = '': expected the name of a pocket policy, a folder, or a name on the hub
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text.strip() or not _can_name_a_file(text):
        raise ValueError(
            f"model = {shown(value)}: expected the name of a pocket policy, a folder, or a name on "
            "the hub"
        )
    return text


def _can_name_a_file(text: str) -> bool:
    if len(text) > 4096 or any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text):
        return False
    return all(len(part.encode()) <= 255 for part in Path(text).parts)


def description(name) -> dict | None:
    """What the pocket policy with this name, or in this folder, reads and writes; None for any
    other model.

    It is the entry ``vpo_pocket`` of its config.json: ``task``, ``answers`` (most answers in one
    rollout), ``stop`` (the token that ends the last answer, such as ``</plan_{m}>``: sampling stops
    there), and what else that task needs. Raises ValueError for a damaged entry.

    >>> description("pocket-6x6")["answers"]
    5
    """
    name = model_name(name)
    path = (folder(name) or Path(name)) / "config.json"
    try:
        read_json(path)
    except ValueError:
        return None  # loading the model says what is wrong with it
    config = read_json(path, _Config)
    return None if config.vpo_pocket is None else config.vpo_pocket.model_dump(exclude_unset=True)
