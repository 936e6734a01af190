"""What an error says in one line: of a file, or of code that the user named."""

import os
import traceback
from pathlib import Path
from types import FrameType

from ..checks import raised
from ..messages import shown_path
from ..tasks.own_code import of_user
from ..tasks.task_errors import TaskError

# Functions of a task that raise ValueError where a setting cannot work.
REFUSING = ("__init__", "check_policy", "check_machine")


def of_a_file(error: OSError) -> str:
    """What an error of the operating system says, with the name of the file."""
    if error.filename is None or error.strerror is None:
        return (
            f"a file cannot be read or written: {error.strerror}" if error.strerror else str(error)
        )
    return f"{shown_path(os.fsdecode(error.filename))}: {error.strerror}"


def ended(error: SystemExit) -> str:
    """What code that ends the process did, with its file and line."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(at.filename).name}, line {at.lineno}"
    return f"ends the process: it raised {raised(error)} ({where})"


def of_own_code(error: Exception) -> str:
    """An error of code that the user named, such as a task's: what was raised, and the file, line
    and function. "" for any other error: no call on its way is in code of the user, or it is the
    ValueError of a function whose task it is to refuse a setting.

    Code of the user is what neither this library, nor Python, nor an installed package holds.
    """
    calls = traceback.walk_tb(error.__traceback__)
    own = [(frame.f_code, line) for frame, line in calls if _of_user(frame)]
    if not own or isinstance(error, TaskError):  # which names the method already
        return ""
    if isinstance(error, ValueError) and own[0][0].co_name in REFUSING:
        return ""
    code, line = own[-1]
    return f"{raised(error)} ({Path(code.co_filename).name}, line {line}, in {code.co_name})"


def _of_user(frame: FrameType) -> bool:
    return of_user(frame.f_code.co_filename, str(frame.f_globals.get("__name__")))
