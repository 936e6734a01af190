"""What Windows refuses, refused on Linux, wherever code of this repository asks for it.

Python loads this file as it starts, where its folder is on PYTHONPATH. On Windows

- no file is replaced, moved or removed that is open or mapped into memory, in this process or in
  another one, and no folder with such a file in it, or in which a process works;
- no folder takes the place of another one, and none can be opened as a file;
- names hold no ``<>:"|?*`` and do not end with a dot or a space; some words are no names;
- links need a privilege;
- a text file's lines end with ``\\r\\n`` where it does not say otherwise.

Its own encoding of texts is not here: set PYTHONUTF8=0 and a locale for that. Each refusal is an
OSError with the errno that Python has on Windows. It is no Windows: paths, signals, the console and
the libraries are Linux's.
"""

import builtins
import errno
import io
import os
import shutil
import sys
import tempfile

OURS = ("vpo_lite", "envs", "__main__")
PLAIN = {name: getattr(os, name) for name in ("open", "mkdir")}
RESERVED = {"con", "prn", "aux", "nul"} | {f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10)}

shutil._use_fd_functions = False  # Windows removes a tree by its paths


def asked_by_us() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module in OURS:
            return True
        if module == "filelock" or frame.f_code is tempfile.TemporaryFile.__code__:
            return False  # there they open the file so that it may be removed
        frame = frame.f_back
    return False


def user_of(path: str) -> str | None:
    """The process that has this file open or mapped, or one in this folder."""
    path = os.path.realpath(path)

    def is_it(other):
        return other == path or other.startswith(path + os.sep)

    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            held = [f"/proc/{process}/cwd"]
            held += [f"/proc/{process}/fd/{n}" for n in os.listdir(f"/proc/{process}/fd")]
            with PLAIN_OPEN(f"/proc/{process}/maps", "rb") as file:
                mapped = [os.fsdecode(line.split(None, 5)[-1].strip()) for line in file]
        except OSError:  # it ended
            continue
        for link in held:
            try:
                mapped.append(os.readlink(link))
            except OSError:
                continue
        if any(map(is_it, mapped)):
            return process
    return None


def refuse(number: int, path, why: str):
    raise OSError(number, f"{os.strerror(number)} ({why})", os.fsdecode(path))


def check_unused(path) -> None:
    if not os.path.islink(path) and os.path.exists(path) and (process := user_of(path)):
        refuse(errno.EACCES, path, f"in use by process {process}")


def check_name(path) -> None:
    if isinstance(path, int) or os.fsdecode(path).startswith(("/proc/", "/dev/", "/sys/")):
        return
    for part in os.fsdecode(path).split("/"):
        odd = set('<>:"|?*') & set(part) or any(c < " " for c in part)
        if odd or (part.strip(".") and part[-1] in ". ") or part.split(".")[0].lower() in RESERVED:
            refuse(errno.EINVAL, path, "no name for a file")


def guarded(name: str, paths: int):
    plain = getattr(os, name)

    def call(*args, **kwargs):
        if asked_by_us():
            for path in args[:paths]:
                check_unused(path)
            if paths == 2 and os.path.isdir(args[0]) and os.path.lexists(args[1]):
                refuse(errno.EACCES, args[1], "there already")
        return plain(*args, **kwargs)

    return call


for _name, _paths in (("replace", 2), ("rename", 2), ("unlink", 1), ("remove", 1), ("rmdir", 1)):
    setattr(os, _name, guarded(_name, _paths))

PLAIN_OPEN = io.open


def open_(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **more):
    if asked_by_us() and set(mode) & set("wax"):
        check_name(file)
        if "b" not in mode and newline is None:
            newline = "\r\n"
    return PLAIN_OPEN(file, mode, buffering, encoding, errors, newline, *rest, **more)


def os_open(path, flags, *args, **kwargs):
    if asked_by_us():
        if os.path.isdir(path):
            refuse(errno.EACCES, path, "a folder")
        if flags & os.O_CREAT:
            check_name(path)
    return PLAIN["open"](path, flags, *args, **kwargs)


def mkdir(path, *args, **kwargs):
    if asked_by_us():
        check_name(path)
    return PLAIN["mkdir"](path, *args, **kwargs)


def link(source, target, *args, **kwargs):
    refuse(errno.EPERM, target, "a required privilege is not held")


builtins.open = io.open = open_
os.open, os.mkdir, os.symlink, os.link = os_open, mkdir, link, link
