"""The figures of search show the numbers they are given, told apart without colour."""

import numpy as np
import pytest

from vpo_lite import figures
from vpo_lite.figures import search
from vpo_lite.figures.looks import STYLES
from vpo_lite.search import best_of

RISING, FLAT = np.linspace(0.1, 0.7, 30), np.linspace(0.3, 0.5, 30)
CURVES = {"vpo, m = 3": RISING, "grpo, 3 x rollouts": FLAT}
INTERVALS = {"vpo, m = 3": {1: (0.05, 0.2), 30: (0.6, 0.9)}}
POOLS = {
    "vpo": np.array([[1, 1, 0, 0.2], [1, 0, 1, 0.8], [1, 0, 1, 0.8], [0, 0, 0, 0]]),
    "grpo": np.array([[1, 0, 0.9, 0.5], [1, 0, 0.9, 0.5]]),
}
SHARE = np.linspace(0, 1, 5)
WEIGHTS = np.stack([SHARE, (1 - SHARE)], axis=1) @ np.array([[0, 1, 0, 0], [0, 0, 1, 0]])
NAMES = ["done", "gold", "gems", "safe"]


def slider():
    chosen = {label: best_of.choose(pool, WEIGHTS) for label, pool in POOLS.items()}
    curves = {label: best_of.best_at(pool, WEIGHTS) for label, pool in POOLS.items()}
    named = dict(objectives=NAMES, axes=(1, 2))
    return search.preference_slider(POOLS, WEIGHTS, chosen, curves, **named)


FIGURES = {
    "best_at_every_k": lambda: figures.best_at_k(
        CURVES, intervals=INTERVALS, marks={"VPO ahead from k = 12": 12}, title="t"
    ),
    "tokens": lambda: figures.best_at_k(
        CURVES, tokens={"vpo, m = 3": 3.0, "grpo, 3 x rollouts": 4.0}
    ),
    "preference_slider": slider,
}


@pytest.mark.parametrize("name", FIGURES)
def test_methods_are_told_apart_by_colour_and_marker_and_dash(name):
    lines = [trace for trace in FIGURES[name]().data if trace.mode == "lines+markers"]
    for trace, method in zip(lines, ("vpo", "grpo"), strict=True):
        drawn = (trace.line.color, trace.marker.symbol, trace.line.dash)
        assert drawn == STYLES[method][1:]


def test_curves_are_the_given_ones_with_markers_at_the_budgets():
    figure = FIGURES["best_at_every_k"]()
    ours, other = figure.data
    assert (ours.name, other.name) == ("VPO, m = 3", "GRPO, 3 x rollouts")
    assert list(ours.x) == list(range(1, 31)) and figure.layout.xaxis.type == "log"
    assert np.allclose(ours.y, RISING, 0, 1e-12) and np.allclose(other.y, FLAT, 0, 1e-12)
    seen = [k for k, size in zip(ours.x, ours.marker.size, strict=True) if size]
    assert seen == [1, 3, 10, 30]


def test_bars_reach_from_low_to_high_where_an_interval_is_given():
    ours, other = FIGURES["best_at_every_k"]().data
    top = np.array(ours.y) + ours.error_y.array
    bottom = np.array(ours.y) - ours.error_y.arrayminus
    assert np.allclose(np.stack([bottom, top], axis=1)[[0, 29]], [(0.05, 0.2), (0.6, 0.9)])
    assert np.isnan(top[1:29]).all() and other.error_y.array is None


def test_a_mark_is_a_line_at_its_place_with_its_text():
    figure = FIGURES["best_at_every_k"]()
    (line,), (said,) = figure.layout.shapes, figure.layout.annotations
    assert line.x0 == line.x1 == 12 and said.text == "VPO ahead from k = 12"
    assert 10**said.x == pytest.approx(12)  # plotly wants the logarithm for a text


def test_with_tokens_an_answer_lies_at_its_cost():
    figure = FIGURES["tokens"]()
    ours, other = figure.data
    assert ours.x[0] == 3 and ours.x[-1] == 90 and other.x[-1] == 120
    assert np.allclose(ours.y, RISING, 0, 1e-12) and "tokens" in figure.layout.xaxis.title.text
    for budget in (60, 90):  # the same as the library's own count
        found = best_of.at_tokens(RISING, 3.0, [budget])
        assert ours.y[list(ours.x).index(budget)] == pytest.approx(found[0])


def test_tokens_are_wanted_of_every_curve():
    with pytest.raises(ValueError, match="none for 'grpo, 3 x rollouts'; give those"):
        figures.best_at_k(CURVES, tokens={"vpo, m = 3": 3.0})


@pytest.mark.parametrize("curves", [{}, {"vpo": []}, {"vpo": [0.2], "grpo": {}}, {"vpo": 0.5}])
def test_curves_without_values_are_refused(curves):
    with pytest.raises(ValueError, match=r"expected the values at k = 1 \.\. n"):
        figures.best_at_k(curves)


def moved(figure, place):
    """The traces after the slider was moved to a place."""
    new, where = figure.layout.sliders[0].steps[place].args
    for key, values in new.items():
        for i, value in zip(where, values, strict=True):
            figure.data[i][key] = value
    return figure.data


def test_all_answers_are_drawn_with_their_number():
    ours, other, *_ = slider().data
    assert sorted(zip(ours.x, ours.y, ours.customdata, strict=True)) == [
        (0, 0, 1),
        (0, 1, 2),
        (1, 0, 1),
    ]
    assert list(other.x) == [0] and list(other.y) == [0.9] and list(other.customdata) == [2]


@pytest.mark.slow
@pytest.mark.parametrize("place", range(5))
def test_the_slider_moves_the_ring_to_the_best_answer_and_redraws_best_at_k(place):
    *_, ring, curve, other, flat = moved(slider(), place)
    w = WEIGHTS[place]
    for trace, pool in ((ring, POOLS["vpo"]), (other, POOLS["grpo"])):
        scores = [sum(a * b for a, b in zip(w, r, strict=True)) for r in pool.tolist()]
        best = pool[int(np.argmax(scores))]
        assert (trace.x[0], trace.y[0]) == (best[1], best[2])
        assert trace.text[0] == f"{max(scores):.2f}"
    scores = POOLS["vpo"] @ w
    assert curve.y[0] == pytest.approx(scores.mean()) and curve.y[-1] == pytest.approx(scores.max())
    assert list(curve.x) == [1, 2, 3, 4] and len(flat.y) == 2


@pytest.mark.slow
def test_the_slider_opens_in_the_middle_and_names_the_weight():
    figure = slider()
    (bar,) = figure.layout.sliders
    assert bar.active == 2 and [step.label for step in bar.steps] == [f"{s:.2f}" for s in SHARE]
    assert bar.currentvalue.prefix == "weight of gold: "
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("gold", "gems")
    opened, middle = figure.data[-4:], moved(slider(), 2)[-4:]
    assert [(t.x, t.y, t.text) for t in opened] == [(t.x, t.y, t.text) for t in middle]


def test_labels_that_differ_are_refused():
    with pytest.raises(ValueError, match="labels of pools, chosen, curves"):
        search.preference_slider(POOLS, WEIGHTS, {"vpo": [0]}, {"vpo": [[1.0]]})
