"""Tool calls: on generated requests, or on records of a data set."""

from typing import ClassVar

from .call_plans import CallPlans
from .call_records import CallRecords
from .modes import TaskInModes


class CallsTask(TaskInModes):
    """Tool calls. Without a mode: generated requests, or records where an option is theirs.

    >>> CallsTask(problem=3).tag, CallsTask(mode="faithful").tag
    ('plan', 'response')
    """

    modes: ClassVar = {"plan": CallPlans, "faithful": CallRecords}
