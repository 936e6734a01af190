"""Questions of several steps: on records of a data set."""

from typing import ClassVar

from .hop_records import HopRecords
from .modes import TaskInModes


class HopsTask(TaskInModes):
    """Questions of several steps. Without a mode: records.

    >>> HopsTask().name
    'hops'
    """

    modes: ClassVar = {"faithful": HopRecords}
