"""Chains of entities: generated with candidates, and on records of a data set."""

from typing import ClassVar

from .ambiguous_chains import IndependentChains, SpreadingChains
from .chain_records import ChainRecords
from .modes import TaskInModes


class ChainsTask(TaskInModes):
    """Chains of entities. Without a mode: generated ones, or records where ``data`` is given.

    >>> ChainsTask().mode, ChainsTask(data="records.jsonl").mode
    ('independent', 'faithful')
    """

    modes: ClassVar = {
        "independent": IndependentChains,
        "spreading": SpreadingChains,
        "faithful": ChainRecords,
    }
