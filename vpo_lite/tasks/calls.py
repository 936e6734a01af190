"""Tool calls: on records of a data set."""

from typing import ClassVar

from .call_records import CallRecords
from .modes import TaskInModes


class CallsTask(TaskInModes):
    """Tool calls. Without a mode: records.

    >>> CallsTask().name
    'calls'
    """

    modes: ClassVar = {"faithful": CallRecords}
