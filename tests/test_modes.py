"""One task in several modes: which class is made, and what a config keeps of it."""

from typing import ClassVar

import numpy as np
import pytest

from vpo_lite import TrainConfig
from vpo_lite.tasks import Option, Prompt, Task
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
        ({"mode": "small", "right": "x"}, "right = 'x' with mode = 'small': only mode 'large'"),
        ({"left": 2, "right": "x"}, "with mode = 'small': only mode 'large' has it"),
        ({"middle": 1}, "unknown setting 'middle'"),
        ({"shared": 0}, "shared = 0: must be a whole number, 1 or more"),
    ],
)
def test_an_option_of_another_mode_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Two(**options)


def test_a_task_in_modes_lists_every_option_once():
    assert [option.name for option in Two.options] == ["mode", "shared", "left", "right"]
    assert Two.options[0].help == "small: plain; large: plain" and Two.singles_out == ("right",)
