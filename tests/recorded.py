"""What ships and does not change, read once for all tests of a process."""

import functools

import pytest

from vpo_lite.lab import Lab
from vpo_lite.lab.recordings.__main__ import RECORDINGS
from vpo_lite.studies import declaration, results

ALL = [  # quick looks at one
    name if name == "three_methods/seed-0" else pytest.param(name, marks=pytest.mark.slow)
    for name in RECORDINGS
]


@functools.cache
def replayed(name):
    """The lab of this recording; not to be changed."""
    return Lab.replay(name)


@functools.cache
def chosen(name):
    """The chosen runs of a study that ships, by kind; not to be changed."""
    return results.chosen(declaration.read(name), results.SHIPPED / name)
