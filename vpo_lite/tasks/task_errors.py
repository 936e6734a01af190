"""What a task does wrong: values that no trainer can use, and errors of its own code."""

from typing import Any

from ..awaiting import awaited
from ..checks import raised_by, shown


class TaskError(ValueError):
    """A task gave what no trainer can use. The message names its method, or the reward function."""


class Raised(TaskError):
    """The task's own code raised the error that is its ``__cause__``."""


class BelowWorst(TaskError):
    """A reward is below the worst: what happened, and the cure before a run has begun.

    >>> print(BelowWorst("f returned -1", "return no less"))
    f returned -1; return no less
    """

    def __str__(self) -> str:
        return "; ".join(self.args)


def is_ours(task) -> bool:
    """Whether the task's class is one of this library, which its user cannot change."""
    return of_library(type(task))


def of_library(made) -> bool:
    """Whether a class or a function is defined in this library.

    >>> of_library(TaskError), of_library(print)
    (True, False)
    """
    return made.__module__.partition(".")[0] == __package__.partition(".")[0]


def called(task, method: str, *given, **how) -> Any:
    """What this method of a task returns; where it is asynchronous, what it is awaited to be.

    Raises Raised, in one line with the call, the error, and its file and line, where the method
    raises. A TaskError and MemoryError pass unchanged. So does any error of a task of this library:
    it is a fault of ours, and its traceback says more.

    >>> class Halves:
    ...     name, __module__ = "halves", "mine"
    ...     def vector(self, instance, answer):
    ...         return [1 / int(answer)]
    >>> called(Halves(), "vector", 7, "2")
    [0.5]
    >>> try:
    ...     called(Halves(), "vector", 7, "none")
    ... except Raised as error:
    ...     print(str(error).partition(" (")[0])
    task 'halves': vector(instance, 'none') raised ValueError: invalid literal for int() with base \
10: 'none'
    """
    try:
        (result,) = awaited([getattr(task, method)(*given, **how)])
        return result()
    except (TaskError, MemoryError):  # for the latter training names settings to lower
        raise
    except Exception as error:
        if is_ours(task):
            raise
        inputs = "..." if method == "score" else ", ".join(["instance", *map(shown, given[1:])])
        raise Raised(f"task {task.name!r}: {method}({inputs}) raised {raised_by(error)}") from error
