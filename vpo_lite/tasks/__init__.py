"""The problems that policies are trained on: each domain is a class in the file with its name."""

from ..options import Option
from .base import Prompt, Task
from .registry import DEFAULT, make_task, task_class, task_name, task_names
from .wording import numbered_form, read_numbered

__all__ = [
    "DEFAULT",
    "Option",
    "Prompt",
    "Task",
    "make_task",
    "numbered_form",
    "read_numbered",
    "task_class",
    "task_name",
    "task_names",
]
