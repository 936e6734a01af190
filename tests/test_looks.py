"""Answers and methods are told apart by their colours, also by colour-blind readers."""

import itertools

import numpy as np
import pytest
from colour_vision import SEEN, linear

from envs.drawing import MARKERS, ROUTE_COLOURS
from vpo_lite.estimators import METHODS, Method
from vpo_lite.figures.looks import ANSWERS, STYLES, look


def lab(rgb):
    """CIE L*a*b* under D65."""
    xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    ) @ np.clip(rgb, 0, 1)
    x, y, z = (
        c ** (1 / 3) if c > (6 / 29) ** 3 else c / (3 * (6 / 29) ** 2) + 4 / 29
        for c in xyz / [0.95047, 1.0, 1.08883]
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(a, b, seen="normal"):
    first, second = (lab(np.array(SEEN[seen]) @ linear(colour)) for colour in (a, b))
    return float(np.linalg.norm(first - second))


def test_distance_of_known_colours():
    assert distance("#000000", "#FFFFFF") == pytest.approx(100, abs=0.01)
    assert lab(linear("#FF0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    assert distance("#FF0000", "#00AA00") > 100 > 60 > distance("#FF0000", "#00AA00", "protanopia")


def test_no_other_blue_curve_has_a_round_marker_like_vpos():
    """Recombined VPO, a darker blue, had hexagons: on a projector they were VPO's circles."""
    vpo = STYLES["vpo"]
    blue = [name for name, style in STYLES.items() if distance(vpo.colour, style.colour) < 40]
    assert {"vpo", "vpo_recombined"} <= set(blue) and vpo.marker == "circle"
    round_ = {"circle", "hexagon", "hexagon2", "pentagon", "octagon"}
    assert [name for name in blue if STYLES[name].marker in round_] == ["vpo"]


@pytest.mark.parametrize("method", STYLES)
def test_no_answer_has_the_colour_of_a_method(method):
    near = {c: distance(c, STYLES[method].colour) for c in ROUTE_COLOURS}
    assert min(near.values()) >= 20, near


def test_an_answer_has_one_colour_in_the_panel_and_in_figures_and_no_label_that_of_a_method():
    """Figures drew answer 1 as VPO and answer 2 as GRPO, and two runs of VPO, K = 1 and K = 64."""
    drawn = [look(f"K = {2**i}", i) for i in range(8)]
    for styles in (drawn, ANSWERS):
        assert tuple(style.colour for style in styles) == ROUTE_COLOURS
        assert tuple(style.marker for style in styles) == MARKERS
    assert len({style.dash for style in drawn}) == 8


def test_methods_of_ones_own_are_told_apart_wherever_they_are_drawn(monkeypatch):
    """The first curve of a report was drawn as VPO, and two in the panel alike."""
    for name in ("mine", "mine_too"):
        monkeypatch.setitem(METHODS, name, Method(name, len))
    drawn = [look(label, i) for i, label in enumerate(["mine", "vpo", "mine_too", "grpo"])]
    assert [style.text for style in drawn] == ["mine", "VPO", "mine_too", "GRPO"]
    for part in ("colour", "marker", "dash"):
        assert len({getattr(style, part) for style in drawn}) == 4
    assert look("mine, seed 1", 5) == look("mine")._replace(text="mine, seed 1")
    monkeypatch.setitem(STYLES, "mine", look("gdpo")._replace(text="My own"))
    assert look("mine") == look("gdpo")._replace(text="My own")


@pytest.mark.parametrize("seen", SEEN)
def test_answers_differ_from_each_other(seen):
    pairs = {(a, b): distance(a, b, seen) for a, b in itertools.combinations(ROUTE_COLOURS, 2)}
    assert min(pairs.values()) >= 15, pairs
    assert len(set(MARKERS)) == len(ROUTE_COLOURS)


@pytest.mark.parametrize("colour", ROUTE_COLOURS)
def test_white_numbers_are_readable_on_every_answer(colour):
    luminance = float(linear(colour) @ [0.2126, 0.7152, 0.0722])
    assert 1.05 / (luminance + 0.05) >= 4  # the contrast of WCAG; 3 is asked of bold letters
