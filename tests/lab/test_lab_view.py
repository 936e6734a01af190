"""What the lab shows: moments, win shares, plots, words and pictures, as functions of a view."""

import dataclasses
import itertools
import math

import numpy as np
import plotly.graph_objects as go
import pytest
from lab_harness import SMALL, WAIT, record, until

import envs
from envs.drawing import ROUTE_COLOURS
from vpo_lite import estimators, metrics
from vpo_lite.exact import exact_set_reward
from vpo_lite.figures.parts import live
from vpo_lite.lab import Lab, words
from vpo_lite.lab.curves import COVERAGE, DIVERSITY, changes, offered, span
from vpo_lite.lab.drawings import board_groups
from vpo_lite.lab.faces import MAZE
from vpo_lite.lab.judging import win_shares
from vpo_lite.lab.plots import Plots, still
from vpo_lite.lab.view import Moment
from vpo_lite.lab.words import status_line
from vpo_lite.objective import sample_weights
from vpo_lite.training import loop
from vpo_lite.training.record import Group

KL = "KL to the start"  # measured at every fourth step


@pytest.fixture
def trained(slow):
    lab = Lab(steps=3, K=math.inf)
    lab.train()
    assert lab.join(WAIT)
    return lab


@pytest.mark.slow
def test_a_method_of_ones_own_is_drawn_beside_another(slow):
    @estimators.method()
    def worst_answer(R, *, w_star, eps, **_):
        score = estimators.scalar(R, w_star).min(axis=-1)
        return score, estimators.zscore(score, eps)

    with pytest.raises(ValueError, match="worst_answer; one of yours is there once its module is"):
        Lab(["vpo", "best_answer"])
    lab = Lab(["vpo", "worst_answer"], steps=2)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    drawn = [t for t in lab.figure().data if t.name in ("VPO", "worst_answer") and t.mode]
    curves = {t.name: t for t in drawn if t.mode == "lines+markers" and len(t.y) == 2}
    assert set(curves) == {"VPO", "worst_answer"}
    assert curves["VPO"].line.dash != curves["worst_answer"].line.dash
    assert "worst_answer, step 2" in lab.sentence()


def trace(figure, name):
    return next(t for t in figure.data if name in (t.name, t.legendgroup))


def test_runs_on_different_problems_are_never_drawn_on_one(gate, monkeypatch):
    """With many mazes one run is a step ahead for a while: its maze is another one."""
    mazes = [envs.generate("lite-6x6", seed) for seed in range(9)]

    def train(config, *, learner, tell):
        for step in range(config.steps):
            gate.permits.acquire()
            maze = mazes[0 if config.task_options.get("maze_seed") is not None else step]
            config = (yield record(config, step + 1, maze, maze.pareto_front())) or config

    monkeypatch.setattr(loop, "train", train)
    lab = Lab(("vpo", "grpo"), many=True, steps=2, maze_seed=0, layout="lite-6x6")
    lab.train()
    for steps in [(1, 0), (1, 1), (2, 1), (2, 2)]:
        gate.open(1)
        assert until(lambda s=steps: tuple(len(r.records) for r in lab.runs.values()) == s)
        view = lab.view()
        shown = view.on_show()
        assert {len(run.records) for run in shown} == {min(steps) or 1}
        assert {run.moment.instance for run in shown} == {view.instance}
        for drawn in board_groups(view):
            assert all(route["reached"] for route in drawn["routes"])
    assert lab.join(WAIT)
    lab.change(methods="vpo", seed=1).train()  # which has no step yet
    assert [run.method for run in lab.view().on_show()] == ["grpo"] and lab.sentence()
    gate.open(2)
    assert lab.join(WAIT)
    assert lab.change(many=False).view().many and "many mazes" in status_line(lab.view())
    assert not lab.view().ceilings, "they are those of one maze"
    gate.open(2)
    lab.change(methods="grpo").train()
    assert lab.join(WAIT)
    assert list(lab.runs) == ["grpo"] and not lab.view().earlier and not lab.view().many


@pytest.mark.slow
def test_moment_counts_every_answer_and_shows_a_real_set():
    lab = Lab(steps=1, **SMALL)
    lab.train()
    assert lab.join(WAIT), lab.last_error
    record, moment = lab.records[0], lab.runs["vpo"].moments[0]
    pool = np.concatenate([g.rewards.reshape(-1, 4) for g in record.groups])
    assert moment.counts.sum() == len(pool) == 2 * 8 * 3
    for point, count in zip(moment.points, moment.counts, strict=True):
        assert (pool == point).all(axis=1).sum() == count
    sets = [
        (row, tuple(answers))
        for g in record.groups
        for row, answers in zip(g.rewards, g.answers, strict=True)
    ]
    assert any((row == moment.rewards).all() and answers == moment.answers for row, answers in sets)
    assert moment.best_at_k[1] == pytest.approx(pool.mean())


def test_of_sets_that_tie_the_middle_one_in_order_is_shown():
    """Permutations of one set are worth the same; their values may differ in the last bit."""
    lab = Lab(maze_seed=1003)
    front = lab.maze.pareto_front()
    task, config = lab.config.make_task(), lab.config
    orders = [np.random.default_rng(i).permutation(3) for i in range(15)]
    made = record(config, 1, lab.maze, front)
    routes = [[f"{i}"] * 3 for i in range(15)]
    vectors = np.array([[1, 0.5, 0.6, 0.03], [1, 0.93, 0.07, 0.13], [1, 0.62, 0.37, 0.51]])
    group = Group(lab.maze, [""] * 15, routes, np.array([vectors[o] for o in orders]), np.zeros(15))
    moment = Moment.of(dataclasses.replace(made, groups=(group,)), config, task)
    assert moment.answers == ("7",) * 3


@pytest.mark.slow
def test_figure_shows_the_front_the_answers_and_the_ceiling(trained):
    figure, front = trained.figure(), trained.maze.pareto_front().rewards
    assert isinstance(figure, go.Figure)
    rings = trace(figure, "true front")
    assert sorted(zip(rings.x, rings.y, strict=True)) == sorted(map(tuple, front[:, 1:3]))
    level = trace(figure, "level curve 0")
    assert level.y[1] == pytest.approx(metrics.price_of_conflict(front)[1])
    curve = next(t for t in figure.data if t.name == "VPO" and t.yaxis == "y2")
    assert list(curve.x) == [1, 2, 3] and list(curve.y) == [r.coverage for r in trained.records]
    cloud = next(t for t in figure.data if t.name == "VPO" and t.yaxis == "y")
    assert sorted(zip(cloud.x, cloud.y, strict=True)) == sorted(
        map(tuple, trained.runs["vpo"].moments[-1].points[:, 1:3])
    )


def best_of_all(front, m, alpha):
    """The best m rows of a front, the first of equals, and their share of what the whole front is
    worth. The weights come in every order of the objectives, so equals are equal.
    """
    orders = [list(order) for order in itertools.permutations(range(front.shape[1]))]
    subsets = [list(s) for s in itertools.combinations(range(len(front)), m)]
    values = [np.mean([exact_set_reward(front[s][:, o], alpha) for o in orders]) for s in subsets]
    most = float(exact_set_reward(front, alpha))
    first = next(i for i, value in enumerate(values) if value > max(values) - 1e-9)
    return front[subsets[first]], max(values) / most


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("m", [2, 3])
def test_before_training_alpha_and_m_move_rings_ceilings_and_simplex(alpha, m):
    lab = Lab(maze_seed=1233)
    drawn = Plots(go.Figure)
    drawn.draw(lab.view())
    figure, before = drawn.figure, list(trace(drawn.figure, "weightings").a)
    lab.change(alpha=alpha, m=m)
    assert drawn.draw(lab.view())
    front = lab.maze.pareto_front().rewards
    chosen, _ = best_of_all(front, m, alpha)
    rings = trace(figure, "best set")
    assert sorted(zip(rings.x, rings.y, strict=True)) == sorted(map(tuple, chosen[:, 1:3]))
    levels = sorted({y for y in trace(figure, "level curve 0").y if y is not None})
    expected = [best_of_all(front, size, alpha)[1] for size in range(1, lab.view().asked_for + 1)]
    assert levels == pytest.approx(sorted(set(expected)), abs=2e-3)
    for name in ("level curve 0", "level search"):  # words stand at points alone
        x = [value for value in trace(figure, name).x if value is not None]
        gaps = np.diff(np.log(x))
        assert gaps[gaps > 0].max() < 0.05 * math.log(max(x) / min(x))
    dots = trace(figure, "weightings")
    assert list(dots.a) != before
    W = lab.view().weights
    scores = W @ chosen.T
    sure = np.diff(np.sort(scores, axis=1)[:, -2:]).ravel() > 1e-12
    colours = np.array([ROUTE_COLOURS[i] for i in scores.argmax(axis=1)])
    assert sure.mean() > 0.9  # at a small alpha some weights see no difference
    assert np.array(dots.marker.color)[sure].tolist() == colours[sure].tolist()
    numbers = trace(figure, "typical")
    assert sorted(zip(numbers.x, numbers.y, strict=True)) == sorted(map(tuple, chosen[:, 1:3]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [go.Figure, live])
def test_a_problem_without_a_simplex_takes_the_texts_of_it_away(kind):
    with_simplex, without = Lab().view(), Lab(task="programs").view()
    once, again = Plots(kind), Plots(kind)
    once.draw(without)
    for view in (with_simplex, without):
        again.draw(view)
    texts = [[note.text for note in p.figure.layout.annotations] for p in (once, again)]
    assert texts[0] == texts[1] and len(texts[0]) == 4
    assert kind is go.Figure or len(again.figure._widget_layout["annotations"]) == 4
    again.draw(with_simplex)
    assert len(again.figure.layout.annotations) == 6, "five titles, and the note below it"


@pytest.mark.slow
def test_on_maze_1233_the_best_pair_depends_on_alpha():
    front = Lab(maze_seed=1233).maze.pareto_front().rewards
    assert (best_of_all(front, 2, 0.1)[0] != best_of_all(front, 2, 10.0)[0]).any()


@pytest.mark.slow
def test_win_shares_are_over_all_weights_at_the_alpha_of_now_whatever_K(trained):
    rewards = trained.maze.pareto_front().rewards
    for alpha in (0.1, 1.0, 10.0):
        W = np.random.default_rng(0).dirichlet([alpha] * 4, 100_000)
        counted = np.bincount((W @ rewards.T).argmax(axis=1), minlength=len(rewards)) / len(W)
        assert len(rewards) > 1 and counted.max() < 0.9
        for K in (math.inf, 1, 256):
            trained.change(alpha=alpha, K=K)
            front = board_groups(trained.show(routes="front").view())[-1]["routes"]
            assert [r["win_share"] for r in front] == pytest.approx(counted, abs=0.01)
        dots = trace(trained.figure(), "weightings")
        assert len(dots.a) == 256 and np.allclose(np.add(np.add(dots.a, dots.b), dots.c), 1)


def test_routes_of_a_large_front_keep_the_win_shares_they_have_in_the_whole_front():
    """The fourth of the eight on the board won too many of the weights: among these eight."""
    lab = Lab(layout="hard-8x8", maze_seed=1030)
    lab.show(routes="front")
    (drawn,) = board_groups(lab.view())
    R = lab.maze.pareto_front().rewards
    W = np.random.default_rng(0).dirichlet([1] * 4, 100_000)
    won = np.bincount((W @ R.T).argmax(axis=1), minlength=len(R)) / len(W)
    assert drawn["title"] == "true front: 8 of 9"
    assert [r["win_share"] for r in drawn["routes"]] == pytest.approx(won[:8], abs=0.01)
    assert round(won[3], 2) == 0.21


def test_a_coverage_above_one_is_on_the_axis(trained, monkeypatch):
    """Of a front that is not complete."""
    assert span(trained.view(), COVERAGE) == (0.5, 1.05)
    monkeypatch.setattr("vpo_lite.lab.curves.values", lambda run, *_: [0.31, None, 1.5])
    low, high = span(trained.view(), COVERAGE)
    assert low == pytest.approx(0.3) and 1.5 < high < 1.6


def test_what_a_search_finds_is_on_its_axis():
    """One answer of this step covers less than half of the front, and the sets more."""
    lab = Lab.replay("three_methods/seed-1").look(37)
    figure = lab.figure()
    traces = [t for t in figure.data if t.type == "scatter" and t.yaxis == "y4"]
    found = [min(t.y) for t in traces if t.name in ("VPO", "GRPO")]
    assert figure.layout.yaxis4.range[0] < min(found) < 0.5 == figure.layout.yaxis2.range[0]


def test_no_curve_runs_through_the_marks_of_changes(trained, monkeypatch):
    """The letters of a mark begin at 93 % of the height. A diversity of 1.15 ran through them."""
    for peak in (0.5, 1, 1.05, 1.15, 1.19, 1.9, 40):
        for lowest in (0, -0.3):
            monkeypatch.setattr("vpo_lite.lab.curves.values", lambda *_: [lowest, peak])  # noqa: B023
            low, high = span(trained.view(), DIVERSITY)
            assert low == lowest and peak <= low + 0.93 * (high - low) + 1e-9, (peak, high)


def test_win_shares_of_many_objectives_take_fewer_points(monkeypatch):
    """A drawing took up to seconds."""
    asked = []
    monkeypatch.setattr(
        "vpo_lite.lab.judging.exact_shares", lambda R, _, points: asked.append(points)
    )
    for d in (16, 17):
        win_shares(np.eye(d), 1.0)
    assert asked == [16_384, 2_048]


@pytest.mark.slow
def test_of_a_million_weights_two_thousand_are_drawn(trained):
    trained.change(alpha=1.0, K=1_000_000)
    figure = trained.figure()
    assert (
        len(trace(figure, "weightings").a) == len(trace(figure, "weightings").marker.color) == 2000
    )
    assert "of VPO: 2,000 of 1,000,000 weights" in figure.to_json()
    view = trained.view()
    assert len(view.weights) == 1_000_000
    trained.change(K=64)
    assert "of VPO: 64 weights" in trained.figure().to_json()
    assert "of best 1: 1 weight<" in Lab(m=1, K=1).figure().to_json().replace("\\u003c", "<")


@pytest.mark.slow
def test_a_view_draws_its_weights_once(trained, monkeypatch):
    counts = []

    def counted(K, d, alpha, *, rng):
        counts.append(K)
        return sample_weights(K, d, alpha, rng=rng)

    monkeypatch.setattr("vpo_lite.lab.view.sample_weights", counted)
    view = trained.change(K=256).view()
    board_groups(view)
    Plots(go.Figure).draw(view)
    assert counts == [256]


def test_sentence_says_the_numbers(trained):
    text, record = trained.sentence(), trained.records[-1]
    assert f"cover {record.coverage:.2f}" in text and "step 3" in text
    front = trained.maze.pareto_front().rewards
    held = sum(
        any(np.allclose(p, r) for r in trained.runs["vpo"].moments[-1].rewards) for p in front
    )
    said = f"; a typical set holds {held} of the {len(front)} routes of the true front"
    assert said in " ".join(text.split())
    assert f"{metrics.price_of_conflict(front)[1]:.2f}" in Lab().sentence()
    both = "covers 0.90 of the front, the best 2 cover more than 0.99, the best 3 cover 1.00."
    assert both in " ".join(Lab(maze_seed=1000).sentence().split()), "two miss a part of the front"
    alone = " ".join(Lab(m=1, alpha=20).sentence().split())  # its coverage does depend on α
    assert "At α = 20" in alone and "the best one is the same at every α" in alone
    most = " ".join(
        words.sentence(with_last_step(trained.view(), record={"coverage": 0.997})).split()
    )
    assert "sets of 3 cover more than 0.99 of the front" in most, "1.00 is the whole front"
    assert "of it" not in text, "the sentences before are about something else"
    answers, tokens = trained.runs["vpo"].used
    assert tokens < 10_000 and f"{answers:,} answers, {tokens:,} tokens" in " ".join(text.split())


def test_a_set_holds_routes_of_a_mazes_front_and_points_of_another_one():
    two, one = Lab(maze_seed="fork").view(), Lab(maze="S . E\n. . .\n. . .").view()
    assert words._of_the_front(two, 1) == "holds 1 of the 2 routes of the true front"
    assert words._of_the_front(one, 1) == "holds the one route of the true front"
    assert words._of_the_front(one, 0) == "misses the one route of the true front"
    said = " ".join(Lab.replay("programs/seed-0").sentence().split())
    assert "a typical set holds 3 of the 3 points of the true front" in said


@pytest.mark.parametrize(
    ("agreement", "said"),
    [(0.955, "almost as"), (0.9, "roughly as"), (0.64, "quite differently than"), (-0.1, "quite")],
)
def test_how_k_weights_rank_the_rollouts_is_said_without_k_infinity(agreement, said):
    for K, begin in ((64, "64 weights, drawn anew, rank"), (1, "1 weight, drawn anew, ranks")):
        told = words._of_the_weights(Lab(K=K).view(), agreement)
        assert told.startswith(f"{begin} this step's rollouts {said}") and "∞" not in told
        assert told.endswith(f"all weights together would (correlation {agreement:.2f}).")


def test_looking_back(trained):
    trained.look(1)
    assert trained.view().focus.record.step == 1 and "step 1" in trained.sentence()
    trained.look(None)
    assert trained.view().focus.record.step == 3


@pytest.mark.slow
def test_every_curve_can_be_drawn(trained):
    for name in offered(MAZE):
        drawn = Plots(go.Figure)
        drawn.draw(trained.view(), curves=(name, DIVERSITY))
        curve = next(t for t in drawn.figure.data if t.name == "VPO" and t.yaxis == "y2")
        assert len(curve.y) == 3 and curve.connectgaps, name
        assert [v is None for v in curve.y] == [False, name == KL, name == KL], name
        assert all(math.isfinite(v) for v in curve.y if v is not None), name


@pytest.mark.parametrize(("steps", "every"), [(3, 1), (9, 1), (10, None)])
def test_no_tick_stands_on_half_a_step(steps, every):
    """plotly's own choice: 0.5, 1, 1.5 for three steps."""
    axis = still(Lab(steps=steps).view()).layout.xaxis2
    assert axis.range == (0.5, steps + 0.5) and axis.dtick == every


@pytest.mark.slow
def test_nothing_is_sent_twice(trained):
    drawn = Plots(go.Figure)
    assert drawn.draw(trained.view()) and not drawn.draw(trained.view())
    trained.change(alpha=0.3)
    assert drawn.draw(trained.view())


def with_last_step(view, *, moment=None, record=None):
    """The view with another last step of its only run."""
    (run,) = view.runs
    changed = {}
    if moment is not None:
        changed["moments"] = (*run.moments[:-1], dataclasses.replace(run.moment, **moment))
    if record is not None:
        changed["records"] = (*run.records[:-1], dataclasses.replace(run.record, **record))
    return dataclasses.replace(view, runs=(dataclasses.replace(run, **changed),))


def run_with(run, alphas, Ks, sizes):
    """A run of so many steps, with this alpha, K and m at each."""
    records, moments = [], []
    for step, (alpha, K, m) in enumerate(zip(alphas, Ks, sizes, strict=True), start=1):
        records.append(dataclasses.replace(run.record, step=step, alpha=alpha, K=K, m=m))
        rewards = np.resize(run.moment.rewards, (m, run.moment.rewards.shape[1]))
        moments.append(dataclasses.replace(run.moment, rewards=rewards))
    return dataclasses.replace(run, records=tuple(records), moments=tuple(moments))


@pytest.mark.slow
def test_texts_of_changes_do_not_lie_on_each_other(trained):
    """A slider that is drawn from α 1 to α 7 sets some values on its way, a step for each."""
    (run,) = (view := trained.view()).runs
    alphas = [1, 1, 1, 1.3, 2.5, 7, 7, 7, 7, 7, 7, 7, 0.5, 0.5]  # of steps 1, 2, ...
    sizes = [3, 3, 3, 3, 3, 3, 2, *[2] * 7]
    run = run_with(run, alphas, [64] * 14, sizes)
    drawn = still(dataclasses.replace(view, runs=(run,)))
    marks, lines = trace(drawn, "marks 0"), trace(drawn, "mark lines 0")
    assert sorted({step for step in lines.x if step is not None}) == [4, 5, 6, 7, 13]
    assert None not in marks.x[1:], "plotly.js loses texts at gaps"
    texts = {step: text for step, text in zip(marks.x, marks.text, strict=True) if text.strip()}
    assert texts == {7: "α 7, m 2", 13: "α 0.5"}
    assert "" not in marks.text, "plotly.js never draws a later text of that point"
    hints = {step: text for step, text in zip(lines.x, lines.text, strict=True) if step}
    said = {4: "α 1.3", 5: "α 2.5", 6: "α 7", 7: "m 2", 13: "α 0.5"}
    assert hints == {s: f"VPO, from step {s} on: {text}" for s, text in said.items()}, (
        "each its own"
    )


def test_a_long_text_of_a_change_holds_the_next_one_further_off(trained):
    """With α, K and m it is as long as nine steps."""

    (run,) = trained.view().runs
    alphas = [1.0, 1.0, *[3.0] * 9]
    short = run_with(run, alphas, [64] * 11, [*[3] * 10, 5])
    assert changes(short, near=40 / 6) == [(3, "α 3", "α 3"), (11, "m 5", "m 5")]
    long = run_with(run, alphas, [64, 64, *[1] * 9], [3, 3, *[2] * 8, 5])
    both = [(3, "", "α 3, K 1, m 2"), (11, "α 3, K 1, m 5", "m 5")]
    assert changes(long, near=40 / 6) == both


@pytest.mark.slow
def test_single_answers_that_are_judged_in_larger_sets_are_marked(slow):
    """GRPO's m stays 1: its curve went over to sets of 3 without a mark, beside VPO's sets of 2."""
    lab = Lab(("vpo", "grpo"), m=2, steps=4)
    lab.step()
    assert lab.join(WAIT)
    lab.change(m=3).train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    vpo, grpo = (lab.runs[method] for method in ("vpo", "grpo"))
    assert changes(vpo) == [(2, "m 3", "m 3")]
    assert changes(grpo) == [(2, "sets of 3", "sets of 3")]
    lab.change(methods="grpo", m=2).step()
    assert lab.join(WAIT)
    lab.change(m=3).step()
    assert lab.join(WAIT)
    drawn = lab.figure()
    assert trace(drawn, "marks 0").text[1:] == ("sets of 3",)
    assert "GRPO, from step 2 on: sets of 3" in trace(drawn, "mark lines 0").text
    before = [t.hovertemplate for t in drawn.data if t.name == "earlier 0 0"]
    assert before == ["GRPO before: α 1, K 64, sets of 3<extra></extra>"]


@pytest.mark.slow
def test_the_legend_and_the_dotted_lines_say_how_many_answers(trained):
    for methods, m, best in (
        (("vpo",), 3, "best 3"),
        (("vpo",), 1, "best 1"),
        ("grpo", 3, "best 1"),
    ):
        lab = Lab(methods, m=m)
        rings = next(t for t in lab.figure().data if t.legendgroup == "best set")
        assert rings.name == best and rings.showlegend and rings.text[0].startswith(f"{best}: ")
    texts = [text for text in trace(trained.figure(), "level text curve 0").text if text]
    assert texts == ["best 1", "best 2–3"]


@pytest.mark.slow
def test_that_markers_stand_side_by_side_is_said_where_there_are_several_runs(trained):
    def captions(lab):
        return "".join(note.text for note in lab.figure().layout.annotations)

    said = "markers side by side"
    assert said not in captions(trained) and said not in captions(Lab())
    assert captions(Lab.replay("three_methods/seed-0")).count(said) == 1


@pytest.mark.slow
def test_failed_and_unreadable_answers_are_drawn_as_such(trained):
    view = trained.view()
    vectors = np.array([[0, 0, 0, 0], [1, 1, 0, 0.5], [1, 0, 1, 1.0]])
    shown = {
        "points": vectors,
        "counts": np.array([5, 3, 2]),
        "valid": trained.view().task.valid(trained.maze, vectors),
        "answers": (None, *view.focus.moment.answers[:2]),
        "rewards": vectors,
    }
    view = with_last_step(view, moment=shown)
    cloud = next(t for t in still(view).data if t.name == "VPO" and t.yaxis == "y")
    assert list(cloud.marker.symbol) == ["circle-open", "circle", "x"]
    assert cloud.text[2] == "50% miss E"
    drawn = board_groups(view)[0]["routes"]
    assert drawn[0]["what"] == "not a route" and drawn[0]["path"] == []


def test_many_rollouts_that_were_cut_off_are_named_with_the_limit_and_the_cure(trained):
    said = "of the rollouts were cut off at"
    few = with_last_step(trained.view(), record={"truncated_rate": 0.1})
    assert said not in status_line(few)
    many = with_last_step(trained.view(), record={"truncated_rate": 0.38, "parse_rate": 0.8})
    run = many.runs[0]
    # 3 routes of pocket-6x6: the squares of each, two tags; and one token for the end of all
    assert many.token_limit(run) == 3 * (trained.maze.budget + 2) + 1
    assert said not in status_line(many)  # the longest answers fit: more tokens would not help
    asked = dataclasses.replace(run, config=run.config.but(max_new_tokens=7))
    now = status_line(dataclasses.replace(many, runs=(asked,)))
    assert f"VPO: 38% {said} 7 tokens: raise max_new_tokens." in now


def test_rollouts_that_write_on_after_their_answers_are_named(trained):
    said = "VPO: at least 32% of the rollouts wrote on after their 3 answers"
    on = {"truncated_rate": 0.38, "parse_rate": 0.98}  # one in 50 answers is missing: 6 % of 3
    assert said in status_line(with_last_step(trained.view(), record=on))
    less = with_last_step(trained.view(), record=on | {"parse_rate": 0.9})
    assert "wrote on" not in status_line(less)


def test_still_picture_of_the_maze(trained):
    assert trained.picture().startswith("<svg") and trained.picture("vpo").count("polyline") >= 3
    with pytest.raises(ValueError, match="grpo"):
        trained.picture("grpo")


def test_the_legend_of_the_front_has_the_colour_of_points_without_lava():
    """plotly takes the legend's colour from the first point; on this maze that one is over lava."""
    lab = Lab(maze_seed="alpha matters", m=2)
    front = lab.maze.pareto_front().rewards
    assert front[0, 3] < 1
    rings = trace(lab.figure(), "true front")
    clean = {(gold, diamond) for _, gold, diamond, lava in front if lava == 1}
    assert (rings.x[0], rings.y[0]) in clean
    assert len(set(rings.marker.color)) == 2 and sorted(rings.x) == sorted(front[:, 1])


@pytest.mark.slow
def test_of_answers_at_one_point_the_smaller_marker_lies_on_the_larger_one():
    """All of GRPO's answers lie on one point, and about half of VPO's: drawn later, they show."""
    figure = Lab.replay("three_methods/seed-0").figure()
    drawn = [t for t in figure.data if np.ndim(t.marker.size) and t.name in ("VPO", "GRPO")][:2]
    at = {t.name: t.marker.size[np.argmax(np.array(t.y, float))] for t in drawn}
    assert [*at] == ["GRPO", "VPO"] and at["GRPO"] == 38 > 30 > at["VPO"]


@pytest.mark.parametrize("large", [False, True])
def test_the_least_width_can_be_drawn_and_a_narrower_one_is_refused_in_one_line(large):
    lab = Lab()
    assert lab.figure(width=120, large=large).layout.width == 120
    with pytest.raises(ValueError, match=r"^width = 119: must be a whole number, 120 or more"):
        lab.figure(width=119, large=large)
