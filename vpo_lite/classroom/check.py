"""The check of the day before a class: what it needs, found or not on this machine.

Each check takes no arguments and returns a :class:`Checked`. The training comes last; it takes the
longest.
"""

import importlib.metadata
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..tasks import sandbox
from . import notebooks
from .serve import LAB_PORT, PORT, check_jupyter_writes, port_is_free

CORES, MEMORY = 2, 2 * 2**30  # that a class needs: JupyterLab, a kernel that trains, a browser
DISK = 2**30  # for copies of the notebooks, and for runs
PATIENCE = 120  # seconds that the training of a class may take
LAB = ("jupyterlab", "ipykernel", "ipywidgets", "plotly", "anywidget", "voila")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "microsoft-edge")
BROWSERS = ("firefox", *CHROMIUM)


class Checked(NamedTuple):
    """What a check found. cure: what to do where it is not enough."""

    enough: bool
    value: str
    cure: str


def version(package: str) -> str:
    """Version of an installed package; nothing where it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def cores() -> Checked:
    count = sandbox.cores()
    cure = "training is slow here: show a recording (vpo-lite classroom --recording NAME)"
    return Checked(count >= CORES, f"{count}; a class needs {CORES}", cure)


def memory() -> Checked:
    import torch

    from ..policy.room import available_memory, size

    free = available_memory(torch.device("cpu"))
    needed = f"a class needs {size(MEMORY)}"
    if free is None:
        return Checked(True, f"not known on this system; {needed}", "")
    return Checked(free >= MEMORY, f"{size(free)} free; {needed}", "close other programs")


def disk() -> Checked:
    """The disk of the folder in which the command was started: copies and runs go there."""
    from ..policy.room import size

    here = Path.cwd()
    free = shutil.disk_usage(here).free
    value = f"{size(free)} free in {here}; a class needs {size(DISK)}"
    try:
        with tempfile.TemporaryDirectory(dir=here):
            pass
    except OSError as error:
        return Checked(
            False, f"{here} cannot be written ({error.strerror})", "start in another folder"
        )
    return Checked(free >= DISK, value, "delete files, or start in a folder on another disk")


def browser() -> Checked:
    if sys.platform in ("darwin", "win32"):
        return Checked(True, "the system's own", "")
    found = next(filter(shutil.which, BROWSERS), "")
    cure = "install one, such as firefox or chromium; or open the address on another machine"
    return Checked(bool(found), found or "none on PATH", cure)


def packages() -> Checked:
    found = {name: version(name) for name in LAB}
    missing = [name for name, its in found.items() if not its]
    if missing:
        return Checked(False, f"{', '.join(missing)} missing", notebooks.install_command("lab"))
    try:
        check_jupyter_writes()
    except ValueError as error:
        fault, _, cure = str(error).partition("; ")
        return Checked(False, fault, cure)
    return Checked(True, ", ".join(f"{name} {its}" for name, its in found.items()), "")


def ports() -> Checked:
    uses = {LAB_PORT: "JupyterLab", PORT: "classroom"}
    free = {port: port_is_free(port) for port in uses}
    value = ", ".join(
        f"{port} ({use}) {'free' if free[port] else 'taken'}" for port, use in uses.items()
    )
    cure = f"end the program that holds {PORT}, or use --port N"
    return Checked(free[PORT], value, cure)  # JupyterLab takes the next free one


def notebooks_there() -> Checked:
    place = notebooks.folder()
    if place is None:
        return Checked(False, "none", notebooks.install_command())
    return Checked(True, f"{len(list(place.glob('*.ipynb')))} in {place}", "")


def recordings() -> Checked:
    from ..lab.recordings import read, shipped

    names, damaged = shipped(), ""
    for name in names:
        try:
            read(name)
        except ValueError as error:
            damaged = damaged or str(error)
    if damaged or not names:
        return Checked(False, damaged or "none", f"install again: {notebooks.install_command()}")
    return Checked(True, f"{len(names)} can be opened", "")


def training() -> Checked:
    """Two steps with the settings of the first notebook. The first one also warms up."""
    from ..lab import Lab
    from ..training.errors import TrainingError
    from ..training.loop import train

    cure = "close other programs, or show a recording (vpo-lite classroom --recording NAME)"
    try:
        config = Lab().config
        step = [record.seconds for record in train(config.but(steps=2))][-1]
    except (TrainingError, MemoryError) as error:
        return Checked(False, f"failed: {error}", cure)
    except (OSError, ValueError) as error:
        return Checked(False, f"failed: {error}", "vpo-lite doctor says what is missing")
    whole = step * config.steps
    value = f"{step:.1f} s a step; {config.steps} steps take about {whole:.0f} s"
    return Checked(whole <= PATIENCE, value, cure)


CHECKS: dict[str, Callable[[], Checked]] = {
    "cores": cores,
    "memory": memory,
    "disk": disk,
    "browser": browser,
    "packages": packages,
    "ports": ports,
    "notebooks": notebooks_there,
    "recordings": recordings,
    "training": training,
}
