"""Questions of several steps: on drawn facts that conflict, or on records of a data set."""

from typing import ClassVar

from .hop_facts import HopFacts
from .hop_records import HopRecords
from .modes import TaskInModes


class HopsTask(TaskInModes):
    """Questions of several steps. Without a mode and without data: drawn facts.

    >>> type(HopsTask()).__name__, type(HopsTask(mode="faithful")).__name__
    ('HopFacts', 'HopRecords')
    """

    modes: ClassVar = {"conflict": HopFacts, "faithful": HopRecords}
