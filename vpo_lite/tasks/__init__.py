"""The problems that policies are trained on: one file per domain, with one class of tasks."""

from ..options import Option
from .base import Prompt, Task
from .registry import task_class, task_name, task_names
from .wording import numbered_form

DEFAULT = "maze"  # the task of a run that names none

__all__ = [
    "DEFAULT",
    "Option",
    "Prompt",
    "Task",
    "numbered_form",
    "task_class",
    "task_name",
    "task_names",
]
