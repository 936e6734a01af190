"""How a task is found by its name: one that ships, or a class anywhere."""

import importlib
import inspect

from ..checks import shown
from ..options import Option
from .base import Task
from .by_name import attribute

TASKS = {  # name, which is that of a file beside this one -> the class in it
    "calls": "CallsTask",
    "chains": "ChainsTask",
    "functions": "FunctionsTask",
    "hops": "HopsTask",
    "maze": "MazeTask",
    "programs": "ProgramsTask",
}
DEFAULT = "maze"  # the task of a run that names none


def task_names() -> list[str]:
    """Names of the tasks that the package carries."""
    return list(TASKS)


def task_class(name: str) -> type[Task]:
    """The task with this name, or the class named as ``package.module:Class``.

    Raises ValueError where there is none.
    """
    if ":" not in name:
        if name not in TASKS:
            there = f"there is {', '.join(map(repr, TASKS))}, or a class as 'package.module:Class'"
            raise ValueError(f"unknown task {shown(name)}: {there}")
        return getattr(importlib.import_module(f".{name}", __package__), TASKS[name])
    found = attribute(name, "task")
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise ValueError(f"task {shown(name)}: is no class derived from vpo_lite.tasks.Task")
    if not all(isinstance(option, Option) for option in found.options):
        raise ValueError(f"task {shown(name)}: options must be a tuple of vpo_lite.tasks.Option")
    return found


def make_task(name: str, options: dict) -> Task:
    """The task with this name and these options. Raises ValueError also for a class whose own
    ``__init__`` does not take them, or does not hand them on.
    """
    cls = task_class(name)
    try:
        task = cls(**options)
    except TypeError as error:
        try:
            inspect.signature(cls).bind(**options)
        except TypeError as why:
            cure = "let __init__ take **options, and hand them to super().__init__"
            raise ValueError(f"task {cls.name!r} cannot be made ({why}); {cure}") from error
        raise
    for option in task.options:
        if not hasattr(task, option.name):
            cure = "its __init__ must call super().__init__(**options)"
            raise ValueError(f"task {cls.name!r} has no {option.name}: {cure}")
    return task


def task_name(task: str | type[Task]) -> str:
    """The name under which :func:`task_class` finds a Task class; a name stays as it is.

    Raises ValueError for what is neither a name nor a Task class.
    """
    if isinstance(task, str):
        return task
    if not (isinstance(task, type) and issubclass(task, Task)):
        wanted = "a name, 'package.module:Class' or a class derived from Task"
        raise ValueError(f"task = {shown(task)}: expected {wanted}")
    if task.__module__ == f"{__package__}.{task.name}":  # one that ships
        return task.name
    name = f"{task.__module__}:{task.__qualname__}"
    if task_class(name) is not task:
        raise ValueError(
            f"task {shown(name)}: another class has this name by now (a cell ran again, a module "
            "was loaded again, or two classes share it), and a run finds its task by the name; "
            "give the latest one, or another name"
        )
    return name
