"""One writer at a time for a folder, also where the file system has no locks (filelock 3.24)."""

import contextlib
import os
import weakref
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


class BusyError(ValueError):
    """Another process writes to this folder."""


class FolderLock:
    """The right to write to a folder, as :func:`lock_folder` gives it."""

    def __init__(self, folder: Path, lock: FileLock):
        self._path, self._lock, self._file = folder / LOCK, lock, _identity(folder / LOCK)

    @property
    def held(self) -> bool:
        """Whether this process may still write: the folder was not replaced by another one."""
        return self._lock.is_locked and _identity(self._path) == self._file

    def release(self, *, remove: bool = False) -> None:
        """Let others write; remove: leave no file behind."""
        remove = remove and self.held
        with contextlib.suppress(PermissionError):  # Windows removes no open file, this or another
            if remove:  # before it is free: afterwards it may be another one's
                self._path.unlink(missing_ok=True)
                remove = False
        self._lock.release()
        if remove:
            with contextlib.suppress(OSError):
                self._path.unlink()


# By text: a Path cannot be compared any more when Python ends, and locks may go only then.
_held: weakref.WeakValueDictionary[str, FolderLock] = weakref.WeakValueDictionary()


def lock_folder(folder) -> FolderLock:
    """Become the one writer of a folder. ``release()`` ends it, and so does the process's end.

    The operating system keeps the lock, on the file ``.lock``; the file alone means nothing. Only
    where the file system has no locks does filelock write into the file whose it is. A lock that
    this process holds already is taken over: its ``held`` is False from then on. So an interrupted
    notebook can go on with its run.

    Raises BusyError where another process holds it.
    """
    place = os.path.realpath(folder)
    if (mine := _held.get(place)) is not None:
        mine.release()
    lock = lock_of(place)
    try:
        lock.acquire()
    except Timeout as busy:
        raise BusyError(f"{folder}: another process is writing there; wait until it ends") from busy
    _held[place] = made = FolderLock(Path(place), lock)
    return made


def is_locked(folder) -> bool:
    """Whether a process, this or another, writes to a folder now."""
    if not Path(folder, LOCK).exists():
        return False
    try:
        with lock_of(folder):
            return False
    except Timeout:
        return True
    except OSError:  # the folder may be read only, so nobody writes there
        return False


def lock_of(folder) -> FileLock:
    """The lock itself, not yet acquired."""
    return FileLock(Path(folder, LOCK), timeout=0, thread_local=False, is_singleton=False)


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        there = os.stat(path)
        return there.st_dev, there.st_ino
    return None
