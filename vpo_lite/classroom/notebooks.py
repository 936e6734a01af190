"""The notebooks: where they are, in a repository and in an installed package, and their copies."""

import os
from pathlib import Path

from ..files import STAGED, is_free, write_files
from ..messages import shown_path

PACKAGE = Path(__file__).resolve().parent.parent
FIRST = "00_start_here.ipynb"
COPIED = ("*.ipynb", "*.md", "images/*")  # what belongs to the course; not what a reader left there


def folder() -> Path | None:
    """The folder of the notebooks: inside an installed package, or in the repository; None where
    there is neither.
    """
    inside, beside = PACKAGE / "notebooks", PACKAGE.parent / "notebooks"
    return next((place for place in (inside, beside) if (place / FIRST).is_file()), None)


def in_repository() -> bool:
    """Whether this is a checkout, where the notebooks are edited, and not an installed package."""
    return (PACKAGE.parent / "pyproject.toml").is_file()


def install_command(extra: str = "") -> str:
    """The command that installs what is missing.

    >>> install_command("lab").startswith("pip install ")
    True
    """
    extras = f"[{extra}]" if extra else ""
    return f'pip install -e ".{extras}"' if in_repository() else f'pip install "vpo_lite{extras}"'


def names(place: Path) -> list[str]:
    """The files of the course in a folder, by their paths inside it."""
    found = {path for pattern in COPIED for path in place.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(place).as_posix() for path in found)


def copy(destination) -> list[str]:
    """Copy the notebooks into a new or empty folder, or complete an earlier copy there.

    Returns the names that were written. Raises ValueError, and writes nothing, where a file differs
    from ours or cannot be written, and for a folder that holds other things only.
    """
    source, destination = folder(), Path(destination)
    if source is None:
        raise ValueError(f"the notebooks are missing; cure: {install_command()}")
    if os.path.lexists(destination) and not destination.is_dir():
        raise ValueError(f"{shown_path(destination)}: is no folder; name a new one")
    wanted = names(source)
    there = [name for name in wanted if os.path.lexists(destination / name)]
    if not there and not is_free(destination, [STAGED]):
        raise ValueError(
            f"{shown_path(destination)}: holds other files; name a new or an empty folder"
        )
    for name in there:
        found = destination / name
        if not found.is_file() or found.read_bytes() != (source / name).read_bytes():
            raise ValueError(
                f"{shown_path(found)}: differs from the one that ships, and is kept; nothing was "
                "copied; name a new folder"
            )
    missing = [name for name in wanted if name not in there]
    if missing:
        write_files(destination, {name: (source / name).read_bytes() for name in missing})
    return missing
