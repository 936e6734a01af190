"""One task in several modes: which class is made, and what a config keeps of it."""

from typing import ClassVar

import numpy as np
import pytest

from vpo_lite import TrainConfig
from vpo_lite.tasks import Option, Prompt, Task, task_class
from vpo_lite.tasks.modes import TaskInModes


class Plain(Task):
    name, about = "two", "plain"

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return ("one",)

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words(str(instance))

    def score(self, instances, answers):
        return [np.ones((len(row), 1)) for row in answers]


class Small(Plain):
    options = (Option("shared", int, 1, "of both", least=1), Option("left", int, 1, "of the first"))


class Large(Plain):
    options = (Option("shared", int, 1, "of both"), Option("right", str, None, "of the second"))
    singles_out = ("right",)


class Two(TaskInModes):
    modes: ClassVar = {"small": Small, "large": Large}


class Fast(task_class("calls").modes["plan"]):
    name = "fast calls"

    def w_star(self, instance):
        return np.array([0, 1, 0, 0])


class Both(task_class("calls")):
    """Requests where speed alone counts, or records."""

    modes: ClassVar = task_class("calls").modes | {"plan": Fast}


@pytest.mark.parametrize(
    ("options", "cls", "kept"),
    [
        ({}, Small, {}),
        ({"mode": "small"}, Small, {}),
        ({"mode": "large"}, Large, {"mode": "large"}),
        ({"right": "x"}, Large, {"right": "x"}),
        ({"mode": "large", "right": "x"}, Large, {"right": "x"}),
        ({"left": 1, "right": "x"}, Large, {"right": "x"}),  # 1 is the default: not asked for
        ({"shared": 2}, Small, {"shared": 2}),
        ({"shared": 2, "mode": "large"}, Large, {"shared": 2, "mode": "large"}),
    ],
)
def test_a_config_keeps_what_makes_the_same_task_again(tmp_path, options, cls, kept):
    assert type(Two(**options)) is cls
    config = TrainConfig.preset("demo", task=Two, model=str(tmp_path), **options)
    assert config.task_options == kept and type(config.make_task()) is cls
    again = TrainConfig.from_json(config.to_json())
    assert again == config and again.make_task().mode == Two(**options).mode


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "wild"}, "unknown mode 'wild': there are small, large"),
        (
            {"mode": "small", "right": "x"},
            "^right = 'x' with mode = 'small': only mode 'large' has it; leave out right or mode$",
        ),
        (
            {"left": 2, "right": "x"},
            "^right = 'x' with mode = 'small': only mode 'large' has it; leave out right or left$",
        ),
        ({"middle": 1}, "unknown setting 'middle'"),
        ({"shared": 0}, "shared = 0: must be a whole number, 1 or more"),
    ],
)
def test_an_option_of_another_mode_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Two(**options)


def test_a_task_in_modes_lists_every_option_once():
    assert [option.name for option in Two.options] == ["mode", "shared", "left", "right"]
    assert Two.options[0].help.startswith("small: plain; large: plain; default: the first")
    assert Two.singles_out == ("right",)


@pytest.mark.parametrize("name", ["calls", "chains", "hops", "programs"])
@pytest.mark.parametrize("own", ["w_star", "prompt", "name", "__init__"])
def test_a_class_that_would_lose_what_it_defines_is_refused_with_the_cure(name, own):
    """What is made is an object of a mode's class, so an override beside ``modes`` is never met."""
    whole = task_class(name)
    with pytest.raises(ValueError, match=f"class Mine defines {own}, which has no effect") as said:
        type("Mine", (whole,), {own: "mine"})
    for form in whole.modes.values():
        assert f"{form.__module__}.{form.__qualname__}" in str(said.value)
    with pytest.raises(ValueError, match=f"class Mine defines {own}"):
        type("Mine", (TaskInModes,), {"modes": {"small": Small}, own: "mine"})


def test_a_class_derived_from_that_of_a_mode_keeps_what_it_defines(tmp_path):
    """The cure that the refusal names, and modes of one's own."""

    config = TrainConfig.preset("demo", task=Fast, model=str(tmp_path))
    for task in (Fast(), config.make_task(), Both(), Both(problem=3)):
        assert type(task) is Fast and task.name == "fast calls"
        assert task.w_star(task.instance(0)).tolist() == [0, 1, 0, 0]
    assert type(Both(mode="faithful")) is task_class("calls").modes["faithful"]
