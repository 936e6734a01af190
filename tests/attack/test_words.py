"""Figures in words: figures that this package did not draw, copies of those that it drew, hostile
texts. Nobody sees a figure because its words could be told, and nobody must miss it because not.
"""

import copy
import pickle

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from vpo_lite import figures
from vpo_lite.figures.parts import Drawn
from vpo_lite.figures.words import folded, in_words
from vpo_lite.markup import plain

SCRIPT = "<script>alert(1)</script>"


def of(*traces, **layout):
    return go.Figure(traces, layout)


def a_slider(**step):
    one = go.Scatter(x=[1], y=[1], name="one")
    return of(one, sliders=[{"steps": [{"label": "there", **step}] if step else []}])


def with_line(*traces, **line):
    return of(*traces).add_vline(**line)


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (of(), "Figure."),
        (of(go.Scatter(), go.Bar(), go.Heatmap()), "Figure."),
        (of(go.Scatter(y=[3, 4])), "3 at 0, 4 at 1."),
        (of(go.Bar(y=[3, np.nan])), "3 at 0."),
        (of(go.Heatmap(z=[[1, None], [2, 3]])), "0: 1 at 0.\n1: 2 at 0, 3 at 1."),
        (of(go.Scatter(x=[1, 2, 3], y=[5, 6])), "5 at 1, 6 at 2."),
        (of(go.Bar(x=["a"], y=[5, 6])), "5 at a."),
        (of(go.Scatter(x=[1, 2], y=[1, 2], text=["a"], mode="text+markers")), "a at (1, 1)."),
        (of(go.Scatter(x=[1, 2], y=[1, 2], hovertext="both")), "both."),
        (of(go.Scatter(x=[1], y=[2], error_y={"array": [0.5]})), "2 (1.5 to 2.5) at 1."),
        (of(go.Scatter(x=[1], y=[1e300])), "1e+300 at 1."),
        (of(go.Scatter(x=[*range(9)], y=[1, "a", *range(7)])), "greatest a at 1"),
        (of(go.Histogram(x=[1]), go.Pie(values=[1])), "Not told in words: histogram, pie."),
        (with_line(go.Bar(x=["a", "b"], y=[1, 2]), x="a"), "A vertical line at a."),
        (
            with_line(go.Scatter(x=["2026-01-01"], y=[1]), x="2026-05-01"),
            "A vertical line at 2026-05-01.",
        ),
        (of(go.Scatter(x=[1], y=[1]), annotations=[{"text": "q", "xref": "paper"}]), "q."),
        (
            of(go.Scatterternary(a=[0] * 3, b=[0] * 3, c=[0] * 3, fill="toself")),
            "corners (0, 0, 0)",
        ),
        (a_slider(), "one: 1 at 1."),
        (a_slider(method="animate", args=[["frame"]]), "opens at  there."),
        (a_slider(method="skip", args=[{}]), "opens at  there."),
        (a_slider(method="restyle", args=["visible", True]), "opens at  there."),
        (a_slider(method="update"), "opens at  there."),
    ],
)
def test_a_figure_of_another_hand_is_told(figure, said):
    assert said in in_words(figure)
    assert folded(figure).startswith("<details>")


def test_a_format_that_only_plotly_knows_shows_the_number():
    told = {"text": ["a"], "hovertemplate": "%{text} costs %{y:$,.2f}"}
    assert "a costs 3" in in_words(of(go.Scatter(x=[1], y=[3], **told)))


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda figure: pickle.loads(pickle.dumps(figure)),
        lambda figure: pio.from_json(figure.to_json()),
        go.FigureWidget,
        Drawn,
    ],
)
def test_a_copy_has_the_same_words(copied):
    """Plotly packs its arrays where it copies or stores a figure."""
    drawn = figures.lines(np.arange(9), {"vpo": np.arange(9) ** 2}, x_title="x", y_title="y")
    drawn.add_heatmap(z=np.eye(3), x=list("abc"), y=list("def"))
    assert "greatest 64 at 8" in in_words(drawn) and "d: 1 at a" in in_words(drawn)
    assert in_words(copied(drawn)) == in_words(drawn)


@pytest.mark.parametrize(
    "figure",
    [
        of(go.Scatter(x=[1], y=[1], name=SCRIPT), title=SCRIPT, xaxis_title=SCRIPT),
        of(go.Scatter(x=[1], y=[1], text=[SCRIPT], hovertemplate="%{text}")),
        of(go.Scatter(x=[1], y=[1], customdata=["&lt;script&gt;"], hovertemplate="%{customdata}")),
        of(go.Bar(x=[SCRIPT], y=[1])),
        of(go.Scatter(x=[1], y=[1]), annotations=[{"text": SCRIPT, "x": 1, "y": 1}]),
        a_slider(method="skip", label=SCRIPT),
    ],
)
def test_no_tag_comes_from_a_figure(figure):
    assert "<script" not in folded(figure)


def test_a_text_of_two_lines_is_one_line():
    told = go.Scatter(x=[1], y=[1], text=["a\nb<br>c"], hovertemplate="%{text}")
    assert in_words(of(told)) == "Figure.\na b c."


def test_tags_are_taken_away_in_one_pass():
    """Each of these begins a tag, and none ends one."""
    assert plain("<a" * 200_000) == "<a" * 200_000
