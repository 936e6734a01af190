"""The figures show the numbers they are given, in a look that can be told apart without colour."""

import re
import threading
from pkgutil import iter_modules

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite import figures, metrics
from vpo_lite.exact import exact_shares
from vpo_lite.figures import evolution, live, looks, search

R3 = np.array([[0.9, 0.1, 0.2], [0.2, 0.9, 0.1], [0.1, 0.3, 0.9], [0.5, 0.5, 0.5], [0.1, 0.1, 0.1]])
R2 = np.array([[1, 0], [0, 1], [0.6, 0.6]])
T = np.arange(1, 21)
SERIES = {
    "vpo": {"step": T, "coverage": np.stack([T, T + 2]) / 30, "diversity": T / 20},
    "grpo": {"step": T, "coverage": T / 40},
}

BARS = {"average": 0.5, "best 1": 0.8, "best 2": 1.0}
TABLES = {"all answers": [[1, 0.3], [0.3, 1]], "valid answers": [[1, np.nan], [np.nan, np.nan]]}

FIGURES = {
    "objective_space": lambda: figures.objective_space({"vpo": R2, "grpo": R2[[2, 2]]}, R2),
    "curves": lambda: figures.curves(SERIES, levels={"coverage": {"best single answer": 0.5}}),
    "lines": lambda: figures.lines(T, {"vpo": T}, x_title="x", y_title="y", levels={"level": 3}),
    "best_at_k": lambda: figures.best_at_k(
        {"vpo": {"1": 0.4, "10": 0.7}, "grpo": {1: 0.5, 10: 0.6}}
    ),
    "set_reward_against_K": lambda: figures.set_reward_against_K(
        [4, 16], {"iid": [[0, 1, 2], [1, 1, 1]]}, 1.0
    ),
    "set_reward_against_alpha": lambda: figures.set_reward_against_alpha(
        [0.1, 1, 10], {"a": [3, 2, 1]}
    ),
    "upper_envelope": lambda: figures.upper_envelope(R2, exact_shares(R2), W=[[0.3, 0.7]]),
    "weight_simplex": lambda: figures.weight_simplex(
        R3, exact_shares(R3), W=np.full((5, 3), 1 / 3)
    ),
    "weight_clouds": lambda: figures.weight_clouds({"few": R3[:3], "one": R3[3:4]}),
    "decomposition": lambda: figures.decomposition(BARS, TABLES, objectives=["a", "b"]),
}


def drawn(figure, **properties):
    return [
        trace
        for trace in figure.data
        if all(getattr(trace, key) == value for key, value in properties.items())
    ]


def texts(node):
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, (list, tuple)):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []


def test_a_view_of_a_live_figure_that_is_made_late_begins_with_what_it_shows_now():
    """plotly keeps what the first view began with: a page that is loaded again would show that."""
    figure = live(data=[dict(type="scatter", x=[i], y=[i]) for i in range(3)])
    figure.data = []
    figure.add_scatter(x=[5], y=[6], name="one")
    with figure.batch_update():
        figure.data[0].y = [7]
        figure.layout.title.text = "now"
    (drawn,) = figure._widget_data
    assert (drawn["x"], drawn["y"], drawn["name"]) == ([5], [7], "one")
    assert figure._widget_layout["title"] == {"text": "now"}
    figure.data[0].name = "two"
    assert figure._widget_data[0]["name"] == "two"


def test_a_change_is_sent_while_a_browser_reports_and_with_what_the_next_views_begin_with():
    """Else a view made between two messages, or plotly's taking the change back, would lose it."""
    figure, sent = live(data=[dict(type="scatter", x=[0], y=[0])]), []
    figure._send = lambda message, buffers=None: sent.append(message["state"])
    drawing = threading.Thread(target=lambda: figure.data[0].update(x=[7]))
    with figure.hold_trait_notifications():  # as ipywidgets takes a browser's message
        drawing.start()
        drawing.join()
    (change,) = (state for state in sent if state.get("_py2js_update"))
    assert change["_py2js_update"]["style_data"] == {"x": [[7]]}
    assert change["_widget_data"][0]["x"] == [7]


def test_no_module_of_the_package_hides_a_figure():
    """Once a module `curves` is loaded, `figures.curves` would be this module."""
    assert not {module.name for module in iter_modules(figures.__path__)} & {*figures.__all__}
    with pytest.raises(AttributeError, match="no attribute 'curve'"):
        getattr(figures, "curve")  # noqa: B009


def test_every_method_has_a_name_and_a_look_that_no_answer_has():
    assert list(looks.STYLES) == list(vpo.METHODS)
    assert len({style.text for style in looks.STYLES.values()}) == len(looks.STYLES)
    grey = {looks.FRONT, looks.STYLES["set_max"].colour}
    assert not grey & {answer.colour for answer in looks.ANSWERS}


def test_a_label_takes_the_look_of_the_method_it_begins_with():
    assert looks.look("vpo, m = 3")[1:] == looks.look("vpo")[1:]
    assert looks.look("vpo, m = 3")[0] == "VPO, m = 3"
    assert looks.look("maxrl")[0] == "MaxRL" and looks.look("set_max").text == "set_max"
    assert (
        looks.look("vpo_like", 1)[1:] == looks.ANSWERS[1][1:]
        and looks.look("vpo_like", 1)[0] == "vpo_like"
    )
    assert looks.look("a", 0)[1:] != looks.look("b", 1)[1:]


def test_a_label_is_drawn_alike_wherever_it_stands_and_however_its_method_is_written():
    """Random mutations had GRPO's look in one figure of a notebook and Max@k's in the next. The
    label of a study, such as "VPO, m = 3", got the look of its place."""
    for label in ("VPO, m = 3", "GRPO, 3 x rollouts", "Max@k, 3 x rollouts", "Multi-RLVR, paid"):
        (name,) = (n for n, style in looks.STYLES.items() if label.startswith(f"{style.text},"))
        assert looks.look(label, 5) == looks.STYLES[name]._replace(text=label)
    for label in ("random mutations", "before training, m = 3", "shipped policy", "before"):
        assert looks.look(label, 0) == looks.look(label, 1) and looks.look(label).text == label
    styles = [*looks.STYLES.values(), *map(looks.look, ("random mutations", "before"))]
    for part in ("marker", "dash"):
        assert len({getattr(style, part) for style in styles}) == len(styles)


def test_objective_space_shows_each_distinct_answer_once_and_the_whole_front():
    figure = figures.objective_space(
        {"vpo": R3[:2], "grpo": R3[[3, 3, 3]]}, R3, axes=(0, 2), objectives=("a", "b", "c")
    )
    (front,) = drawn(figure, name="true front")
    assert sorted(zip(front.x, front.y, strict=True)) == sorted(map(tuple, R3[:, [0, 2]]))
    (one,) = drawn(figure, name="GRPO")
    assert list(one.x) == [0.5] and list(one.y) == [0.5] and list(one.customdata) == [3]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("a", "c")
    assert figure.layout.xaxis.range[0] < 0 and figure.layout.xaxis.range[1] > 1


def test_curves_draw_the_mean_of_seeds_and_their_range():
    figure = FIGURES["curves"]()
    mean = drawn(figure, name="VPO", xaxis="x")[0]
    assert np.allclose(mean.y, (T + 1) / 30) and np.allclose(mean.x, T)
    (band,) = drawn(figure, fill="toself")
    assert np.isclose(max(band.y), 22 / 30) and np.isclose(min(band.y), 1 / 30)
    assert len(drawn(figure, name="GRPO")) == 1 and len(drawn(figure, name="VPO")) == 2
    assert [trace.name for trace in figure.data if trace.showlegend] == [
        "VPO",
        "GRPO",
    ]  # each run once in the legend
    assert "best single<br>answer" in texts(figure.layout.to_plotly_json())  # beside the axis


def test_curves_leave_gaps_where_a_figure_is_undefined():
    figure = figures.curves(
        {"vpo": {"step": [1, 2, 3], "coverage": [0.5, None, 0.7]}}, ("coverage",)
    )
    assert np.isnan(figure.data[0].y[1]) and figure.data[0].y[2] == 0.7


def test_best_at_k_sorts_budgets_as_numbers():
    figure = figures.best_at_k({"vpo": {"10": 0.7, "1": 0.4, "3": 0.6}})
    assert list(figure.data[0].x) == [1, 3, 10] and list(figure.data[0].y) == [0.4, 0.6, 0.7]


def test_equal_figures_are_drawn_equal_whatever_their_last_bits():
    """Else the axis shows the 1e-16 between two sums that should be equal."""
    pool = metrics.best_at_k([0.75] * 30, 1), metrics.best_at_k([0.75] * 30, 3)
    assert pool[0] != pool[1]
    drawn = figures.best_at_k({"vpo": {1: pool[0], 3: pool[1]}}).data[0].y
    assert drawn.tolist() == [0.75, 0.75]
    line = figures.lines([1, 3], {"vpo": pool}, x_title="k", y_title="best@k").data[0]
    assert line.y.tolist() == [0.75, 0.75]


def test_set_reward_against_K_draws_median_band_and_exact_line():
    samples = np.random.default_rng(0).random((2, 1000))
    figure = figures.set_reward_against_K([4, 16], {"iid": samples}, 0.5)
    (line,) = drawn(figure, name="iid")
    assert np.allclose(line.y, np.median(samples, axis=1))
    (band,) = drawn(figure, fill="toself")
    assert max(band.y) == pytest.approx(0.95, abs=0.03) and min(band.y) == pytest.approx(
        0.05, abs=0.03
    )
    assert figure.layout.shapes[0].y0 == 0.5


def test_the_envelope_is_the_max_of_the_lines():
    figure = FIGURES["upper_envelope"]()
    (envelope,) = drawn(figure, name="best answer")
    x = np.asarray(envelope.x)
    assert np.allclose(
        envelope.y, np.max(np.outer(x, R2[:, 0]) + np.outer(1 - x, R2[:, 1]), axis=1)
    )
    assert {0.4, 0.6} <= set(np.round(x, 9))  # where the winner changes
    assert drawn(figure, name="answer 3 wins 20 %")


def test_a_cloud_counts_the_weights_at_each_place():
    W = np.array([[0.5, 0.5, 0.0], [0.51, 0.49, 0.0], [0.0, 0.2, 0.8]])
    figure = figures.weight_clouds({"all": W, "last": W[2:]}, objectives=("a", "b", "c"))
    places = [[*zip(t.a, t.b, t.c, strict=True)] for t in figure.data]
    assert places == [[(0, 0.2, 0.8), (0.5, 0.5, 0)], [(0, 0.2, 0.8)]]
    sizes = figure.data[0].marker.size
    assert sizes[1] / sizes[0] == pytest.approx(2**0.5), "areas are counts"
    assert "last c" not in texts(figure.layout.to_plotly_json()) and "corners a, b, c" in (
        figures.in_words(figure)
    )
    for odd in ({}, {"all": W[:, :2]}, {"all": W[0]}):
        with pytest.raises(ValueError, match=r"expected \(K, 3\) each"):
            figures.weight_clouds(odd)


def test_an_answer_that_wins_nowhere_is_in_the_legend_of_the_simplex():
    """Of three equal answers two vanished, as if m were 1."""
    figure = figures.weight_simplex(np.full((3, 3), 0.5), np.array([1.0, 0, 0]))
    shown = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert shown == [f"answer {i} wins {share} %" for i, share in ((1, 100), (2, 0), (3, 0))]


def area(trace, total=1.0):
    """Share of the triangle that an outline in ternary coordinates covers."""
    corners = np.stack([trace.a, trace.b], axis=1) / total
    (x, y), (u, v) = corners.T, np.roll(corners, -1, axis=0).T
    return abs((x * v - u * y).sum())


@pytest.mark.slow
def test_the_regions_of_the_simplex_have_the_exact_shares_as_areas():
    for seed in range(5):
        R = np.random.default_rng(seed).random((5, 3))
        figure = figures.weight_simplex(R, W=np.full((7, 3), 1 / 3))
        areas = {trace.legendgroup: area(trace) for trace in figure.data if trace.fill == "toself"}
        for i, share in enumerate(exact_shares(R)):
            assert areas.get(str(i), 0) == pytest.approx(share, abs=1e-9)
        assert len(drawn(figure, name="sampled weights")[0].a) == 7


def test_of_many_weights_two_thousand_are_drawn_over_all_their_range_and_it_is_said():
    """The first coordinate rises evenly from row to row, and so it does in what is drawn."""
    rising = np.linspace(0, 1, 50_001)
    (ticks,) = drawn(
        figures.upper_envelope(R2, W=np.stack([rising, 1 - rising], 1)), mode="markers"
    )
    assert ticks.name == "sampled weights: 2,000 of 50,001"
    assert ticks.x == pytest.approx(np.linspace(0, 1, 2000), abs=1e-4) and len(ticks.y) == 2000
    W = np.stack([rising, 1 - rising, 0 * rising], 1)
    (dots,) = drawn(figures.weight_simplex(R3, W=W), name=ticks.name)
    assert list(dots.a) == list(ticks.x) and len(dots.c) == 2000
    (all_,) = drawn(figures.upper_envelope(R2, W=W[:2000, :2]), name="sampled weights")
    assert len(all_.x) == 2000


def test_a_slice_through_four_objectives_says_what_is_held():
    R = np.hstack([np.ones((5, 1)), R3])
    figure = figures.weight_simplex(
        R, show=(1, 2, 3), fixed={0: 0.25}, objectives=("done", "gold", "gems", "safe")
    )
    assert "done held at 0.25" in figure.layout.title.text and figure.layout.ternary.sum == 0.75
    for axis in (figure.layout.ternary.aaxis, figure.layout.ternary.baxis):
        assert axis.tickvals == (), "no number says which objective its side counts"
    same = figures.weight_simplex(
        R3
    )  # the first objective is equal for all, so the slice has the same regions
    for ours, theirs in zip(drawn(figure, fill="toself"), drawn(same, fill="toself"), strict=True):
        assert np.allclose(np.divide(ours.a, 0.75), theirs.a)


def test_without_anything_to_draw_the_words_say_what_to_give():
    with pytest.raises(ValueError, match="runs and front: both are empty; give one of them"):
        figures.objective_space({})
    assert len(figures.objective_space({}, np.eye(2)).data) == 1
    for R in (R3, R2[0]):
        with pytest.raises(ValueError, match=r"expected \(m, 2\) \(d >= 3: weight_simplex\)"):
            figures.upper_envelope(R)


def test_equal_answers_share_no_region():
    figure = figures.weight_simplex(R3[[0, 0, 1]])
    assert [trace.legendgroup for trace in drawn(figure, fill="toself")] == ["0", "2"]


def test_a_decomposition_is_drawn_as_bars_and_tables_of_numbers():
    figure = FIGURES["decomposition"]()
    bars, everyone, valid = figure.data
    assert (list(bars.x), list(bars.y)) == (list(BARS), list(BARS.values()))
    assert list(bars.text) == ["0.5", "0.8", "1"] and figure.layout.shapes[0].y0 == 1
    assert np.array_equal(everyone.z, TABLES["all answers"]) and list(everyone.y) == ["a", "b"]
    assert everyone.text[0][1] == "0.30" and valid.text[0][1] == ""  # a number in every cell
    assert [trace.xaxis for trace in figure.data] == ["x", "x2", "x3"]  # each in a panel of its own
    assert (everyone.zmin, everyone.zmax) == (valid.zmin, valid.zmax) == (-1, 1)
    said = texts(figure.to_dict())
    assert {"correlation: all answers", "correlation: valid answers"} <= set(said)
    assert len(figures.decomposition(BARS, {}).data) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"R": R2},
        {"R": R3, "show": (0, 1, 1)},
        {"R": R3[0]},
        {"R": R3, "show": (0, 1, 3)},
        {"R": np.eye(4), "show": (0, 1, 2), "fixed": {3: 1.0}},
        {"R": np.eye(4), "fixed": {9: 0.4}},  # 0.4 of the weight had vanished
        {"R": np.eye(5), "fixed": {3: -0.3, 4: 0.5}},
    ],
)
def test_a_simplex_that_cannot_be_drawn_is_refused(arguments):
    with pytest.raises(ValueError, match="expected d >= 3"):
        figures.weight_simplex(**arguments)


@pytest.mark.parametrize(
    "draw, said",
    [
        (lambda: figures.objective_space([[1, 0]]), "runs = [[1, 0]]: expected a dict by label"),
        (lambda: figures.curves([1, 2]), "runs = [1, 2]: expected a dict by label"),
        (
            lambda: figures.curves({"vpo": {"coverage": [1, 2]}}),
            "runs['vpo']: expected a dict with 'step'",
        ),
        (lambda: figures.curves({"vpo": [1, 2]}), "runs['vpo']: expected a dict with 'step'"),
        (
            lambda: figures.curves({"vpo": {"step": [1, 2, 3], "coverage": [1, 2]}}),
            "'vpo': values of shape (2,) over an x axis of shape (3,)",
        ),
        (
            lambda: figures.lines([1, 2], {"a": [1, 2, 3]}, x_title="x", y_title="y"),
            "'a': values of shape (3,) over an x axis of shape (2,)",
        ),
        (
            lambda: figures.weight_simplex(np.eye(3), [0.5, 0.5]),
            "shares has shape (2,): expected one",
        ),
        (
            lambda: figures.lines([1, 2], {"a": 0.5}, x_title="x", y_title="y"),
            "'a': values of shape () over an x axis of shape (2,)",
        ),
        (lambda: figures.set_reward_against_K([1], [1], 1), "samples = [1]: expected a dict by"),
        (
            lambda: figures.best_at_k([[0.2, 0.5]]),
            "curves = [[0.2, 0.5]]: expected a dict by label, {label: data}",
        ),
        (
            lambda: search.preference_slider([[[1, 0]]], [[0.5, 0.5]], [0], [[1]]),
            "pools = [[[1, 0]]]: expected a dict by label",
        ),
        (lambda: evolution.archive_grid([[1, 0]], 2), "archives = [[1, 0]]: expected a"),
        (lambda: evolution.archive_growth([[]], 2), "histories = [[]]: expected a dict"),
        (lambda: evolution.share_solved([30], 120), "solved = [30]: expected a dict by"),
        (lambda: evolution.passes_table([[1]], ["a"]), "programs = [[1]]: expected a di"),
    ],
)
def test_a_slip_is_one_line(draw, said):
    """Some were errors of Python's own, and lines of unequal length were drawn."""
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        draw()


def test_a_table_with_columns_by_name_is_drawn():
    """As pandas reads metrics.jsonl: it is no Mapping."""

    class Table:
        def __init__(self, **columns):
            self.columns = columns
            self.keys, self.items = columns.keys, columns.items

        def __contains__(self, name):
            return name in self.columns

        def __getitem__(self, name):
            return self.columns[name]

    figure = figures.curves({"vpo": Table(step=[1, 2], coverage=[0.5, 0.75])}, ("coverage",))
    assert list(figure.data[0].y) == [0.5, 0.75]
    figure = figures.lines([1, 2], Table(a=[3, 4]), x_title="x", y_title="y")
    assert list(figure.data[0].y) == [3, 4]
