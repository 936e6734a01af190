"""Means of shutting answers in: programs of the system that are put before the interpreter."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

INSIDE = Path(__file__).resolve().with_name("inside.py")
SEED = "0"  # of the order of sets: an answer that prints one earns the same every time
STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")  # one of them is covered by the new root


class Means(NamedTuple):
    """A means of shutting answers in.

    - name: as it is shown
    - shut: who leaves the machine's files: "done" by the command, "here" by ``inside.py``, "no"
    - command: what is put before the interpreter
    - stage: a folder that the answer's root is built on, where ``inside.py`` does that
    - user: whether the answer gets a user's number of its own
    """

    name: str
    shut: str
    command: tuple[str, ...] = ()
    stage: str = ""
    user: bool = False


OPEN = Means("no sandbox", "no")


def bubblewrap() -> Means | str:
    """The program ``bwrap``, or why it is not taken."""
    if (found := shutil.which("bwrap")) is None:
        return "not installed"
    if os.geteuid() == 0:
        return "not as root, whose number of processes it could not limit"
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()
    version = said[-1] if said else "?"
    if [int(part) for part in version.split(".") if part.isdecimal()] < [0, 8]:
        return f"version {version}, and 0.8 is needed"
    command = [found, "--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1"]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    command += ["--setenv", "PYTHONHASHSEED", SEED]
    for place in (*places(), os.path.realpath(sys.executable)):
        command += ["--ro-bind", place, place]
    command += ["--dev-bind", "/dev/null", "/dev/null", "--ro-bind", str(INSIDE), "/inside.py"]
    command += ["--remount-ro", "/", "--chdir", "/"]
    return Means(f"bubblewrap {version}", "done", tuple(command))


def namespaces() -> Means | str:
    """The program ``unshare``, or why it is not taken."""
    if not sys.platform.startswith("linux"):
        return "only on Linux"
    if (found := shutil.which("unshare")) is None:
        return "unshare is not installed"
    seen = places()
    free = [s for s in STAGES if os.path.isdir(s) and not any(p.startswith(s) for p in seen)]
    if not free:
        return f"none of {', '.join(STAGES)} is there and free of Python's files"
    command = [found, "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child"]
    if os.geteuid() == 0:
        return Means(
            "namespaces, with a user of its own", "here", tuple(command), free[0], user=True
        )
    return Means("namespaces", "here", (*command, "--user", "--map-root-user"), free[0])


def places() -> list[str]:
    """The folders that an answer sees: Python's library and the system's libraries."""
    prefixes = ("", "/usr", sys.base_prefix)
    folders = [f"{prefix}/{name}" for prefix in prefixes for name in ("lib", "lib64")]
    folders += [sysconfig.get_path("stdlib")]
    kept = []
    for folder in folders:
        if os.path.isdir(folder) and not any(f"{folder}/".startswith(f"{k}/") for k in kept):
            kept.append(folder)
    return kept
