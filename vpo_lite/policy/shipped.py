"""The policies that ship with the package: names, folders, and what they say of themselves.

No torch: the command line and a config's check read this before anything is loaded.
"""

import json
from pathlib import Path

_WEIGHTS = Path(__file__).parent.parent / "pocket" / "weights"


def names() -> list[str]:
    """Names of the policies that the package carries.

    >>> names()
    ['pocket-6x6', 'pocket-9x9']
    """
    if not _WEIGHTS.is_dir():
        return []
    return sorted(path.name for path in _WEIGHTS.iterdir() if (path / "config.json").is_file())


def folder(name: str) -> Path | None:
    """The folder of the shipped policy with this name; None for any other name."""
    return _WEIGHTS / name if name in names() else None


def description(name: str) -> dict | None:
    """What the pocket policy with this name, or in this folder, reads and writes; None for any
    other model.

    It is the entry ``vpo_pocket`` of its config.json: ``task``, ``answers`` (most answers in one
    rollout), and what else that task needs.

    >>> description("pocket-6x6")["answers"]
    5
    """
    path = (folder(name) or Path(name)) / "config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("vpo_pocket")
    except (OSError, ValueError, AttributeError):
        return None  # loading the model says what is wrong with it
