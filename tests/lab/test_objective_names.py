"""Each objective has one spelling wherever a reader meets it: plots, curves, lesson page, rules."""

import re

from vpo_lite.lab import Lab
from vpo_lite.lab.drawings import rules
from vpo_lite.lab.faces import MAZE
from vpo_lite.lab.lesson import Lesson
from vpo_lite.lab.recordings import read

NAMES = ("completion", "gold", "diamonds", "avoid lava")


def test_each_objective_has_one_spelling():
    assert MAZE.names == NAMES
    assert set(MAZE.axis_names) | set(MAZE.corner_names) | set(MAZE.means.values()) == {*NAMES[1:]}
    view = Lab().view()
    (_, earned) = rules(view)[-1]
    said = [name for name in NAMES if re.search(rf"\b{name}\b", earned, re.IGNORECASE)]
    assert said == list(NAMES) and "No lava" not in earned
    data = Lesson.of({"one": read("few_weights/K-1")}).data(lambda alphas: alphas[:0])
    assert tuple(data["names"]) == NAMES and set(data["corner_names"]) <= set(NAMES)


def test_a_curve_is_offered_and_titled_in_words_and_keeps_the_tasks_name_in_code():
    lab = Lab(panel="plain")
    assert dict(lab.panel.controls.curves[0].options)["mean avoid lava"] == "mean avoid_lava"
    titles = [
        note.text
        for note in lab.figure(curves=("mean diamond", "mean avoid_lava")).layout.annotations
    ]
    assert any("<b>Mean diamonds</b>" in text for text in titles)
    assert any("<b>Mean avoid lava</b>" in text for text in titles)
    assert not any("avoid_lava" in text for text in titles)
    lab.close()
