"""Programs for tests: small ones that are made up, and Python on the records of a data set."""

from typing import ClassVar

from .modes import TaskInModes
from .program_records import ProgramRecords
from .program_rules import PROGRAMS as PROGRAMS
from .program_rules import HiddenRules, SingleRule
from .program_rules import passes_of as passes_of


class ProgramsTask(TaskInModes):
    """Programs that pass tests. Without a mode: made up, for tests of several hidden rules.

    >>> ProgramsTask().mode, ProgramsTask(mode="single").rules, ProgramsTask(branches=2).rules
    ('conflict', 1, 2)
    """

    modes: ClassVar = {"conflict": HiddenRules, "single": SingleRule, "faithful": ProgramRecords}
