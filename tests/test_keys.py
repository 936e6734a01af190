"""Keys of problems: the same text in every process, or a refusal."""

import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pydantic
import pytest

from vpo_lite.tasks import Task
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.records import RecordTask


def test_large_arrays_that_differ_in_the_middle_have_different_keys():
    one = np.arange(5000)
    other = one.copy()
    other[2500] = 0
    task = Task()
    assert task.key(("a", one)) != task.key(("a", other)) and task.key(one) == task.key(one.copy())
    assert task.key((1, np.zeros(3))) == "(1, array([0., 0., 0.]))"


@dataclass(frozen=True)
class Cell:
    """A problem that holds something; its repr does not show what is hidden."""

    held: object
    hidden: object = field(default=None, repr=False)


class Step(NamedTuple):
    held: object


class Model(pydantic.BaseModel):
    held: object


class Slotted:
    __slots__ = ("held", "never_set")

    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"Slotted({self.held!r})"


class Named:
    def __repr__(self):
        return "Named()"


@pytest.mark.parametrize(
    ("instance", "key"),
    [
        ("Why <f at 0xdeadbeef> and {1}?", "'Why <f at 0xdeadbeef> and {1}?'"),
        (Cell("at 0xdeadbeef> {}"), "Cell(held='at 0xdeadbeef> {}')"),
        (Cell({"a": ["<x at 0x1>"]}), "Cell(held={'a': ['<x at 0x1>']})"),
        (Cell(1, hidden={"a", "b"}), "Cell(held=1)"),
        (Cell("{}", hidden=object()), "Cell(held='{}')"),
        ((Step({"b": 1, "a": 2}), Named()), "(Step(held={'b': 1, 'a': 2}), Named())"),
        (frozenset(["a"]), "frozenset({'a'})"),
        (set(), "set()"),
        ({3, 1, 2}, "{1, 2, 3}"),  # whole numbers have one order: such keys stay as they were
        ({(0, 1)}, "{(0, 1)}"),
        ({"a": 1}.keys(), "dict_keys(['a'])"),
        (np.array(["{", 1], object), "array(['{', 1], dtype=object)"),
        (Model.model_construct(held={"b": 1}), "Model(held={'b': 1})"),
    ],
)
def test_the_key_of_what_is_the_same_in_every_process_is_its_repr(instance, key):
    assert Task().key(instance) == key


SEVERAL = frozenset(["left", "right", "up", "down"])


@pytest.mark.parametrize(
    "instance",
    [
        SEVERAL,
        set(SEVERAL),
        Cell(SEVERAL),
        Step([Cell({"walls": SEVERAL})]),
        {SEVERAL: 1},
        {frozenset(["a"]), frozenset(["b"])},
        {(1, "a"), (2, "b")},
        frozenset([SEVERAL]),
        deque([SEVERAL]),
        np.array([SEVERAL, None], object),
        SimpleNamespace(walls=[SEVERAL]),
        Model(held={"walls": SEVERAL}),
        [Slotted(SEVERAL)],
    ],
)
def test_a_set_in_an_instance_is_refused_with_the_cure(instance):
    """Its order changes with PYTHONHASHSEED, and so would the weights of its problem."""
    with pytest.raises(TaskError, match=r"the order of .* make it tuple\(sorted\(...\)\), or def"):
        Task().key(instance)


@pytest.mark.parametrize("held", [object(), len.__call__, lambda: 0, Task(), {object(): 1}])
def test_an_instance_that_shows_an_address_is_refused(held):
    for instance in (held, Cell(held), [Step(held)]):
        with pytest.raises(TaskError, match=r"define key\(instance\); .* differs from process to"):
            Task().key(instance)


def test_a_set_is_in_another_order_in_another_process():
    """What the refusal says, and that the keys of what is allowed are not."""
    code = "print({'left', 'right', 'up', 'down'}); print({(3, 1), (1, 2), 700, 2.5, 12})"
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in range(1, 6)
    ]
    of_texts, of_numbers = zip(*found, strict=True)
    assert len(set(of_texts)) > 1 and len(set(of_numbers)) == 1


@pytest.mark.parametrize("task", [Task, RecordTask])
def test_records_are_checked_as_other_problems_are(task):
    with pytest.raises(TaskError, match="the order of"):
        task().key(Cell(SEVERAL))
    assert len({task().key(x) for x in (Cell("a"), Cell("b"), Cell("a"))}) == 2


def test_the_key_of_a_record_stays_as_it_was():
    """SHA-256 of its repr, "Cell(held='a')", by sha256sum."""
    assert RecordTask().key(Cell("a")) == "b644728b9360f173"
