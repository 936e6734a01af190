"""Chains of entities: on records of a data set."""

from typing import ClassVar

from .chain_records import ChainRecords
from .modes import TaskInModes


class ChainsTask(TaskInModes):
    """Chains of entities. Without a mode: records.

    >>> ChainsTask().name
    'chains'
    """

    modes: ClassVar = {"faithful": ChainRecords}
