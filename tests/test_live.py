"""The lab without a screen: requests, states, threads, what is drawn and said. The same object that the panel drives."""

import dataclasses
import gc
import math
import threading
import time

import numpy as np
import plotly.graph_objects as go
import pytest

import envs
from vpo_lite import live, metrics, plots
from vpo_lite.live import Lab
from vpo_lite.objective import exact_shares
from vpo_lite.panel import PlainPanel, board_groups, status_line
from vpo_lite.training import loop

SMALL = {"prompts": 2, "group_size": 8}
WAIT = 120


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    """No warm-up thread: tests count threads. And nothing may be left training."""
    monkeypatch.setenv("VPO_LITE_COLD", "1")
    yield
    assert until(lambda: not training_threads())


def until(true, seconds=WAIT):
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def training_threads():
    return [t for t in threading.enumerate() if t.name == "vpo-lite training"]


@pytest.fixture
def slow(monkeypatch):
    """Training without a model: each step takes a moment and follows the settings it is sent; events tell of it."""
    real = envs.generate("lite-6x6", 1000)
    front = real.pareto_front()
    seen = []

    class Learner:
        def __init__(self, config):
            self.config = config

    def train(config, *, learner, first_step=0):
        step = first_step
        while step < config.steps:
            time.sleep(0.05)
            step += 1
            seen.append((config.method, step, config.alpha, config.seed, threading.current_thread()))
            config = (yield record(config, step, real, front)) or config

    monkeypatch.setattr("vpo_lite.training.step.Learner", Learner)
    monkeypatch.setattr(loop, "train", train)
    return seen


def record(config, step, maze, front):
    """A step record in which every rollout writes the first routes of the front."""
    from vpo_lite.training.step import Group, StepRecord

    m, G = config.answers, config.group_size
    pick = [i % len(front.routes) for i in range(m)]
    group = Group(maze, [""] * G, [[front.routes[i] for i in pick]] * G, np.array([front.rewards[pick]] * G), np.zeros(G))
    known = {
        "step": step, "method": config.method, "alpha": config.alpha, "K": config.K, "m": m, "coverage": 0.9, "diversity": 0.7,
        "objectives": {"gold": 0.5, "diamond": 0.5, "avoid_lava": 1.0}, "slots": [0.5] * m, "tokens": 10, "seconds": 0.05,
        "reach_rate": 1.0, "groups": (group,) * config.prompts,
    }  # fmt: skip
    return StepRecord(**{f.name: known.get(f.name, 0.5) for f in dataclasses.fields(StepRecord)})


# ---- with the real policy ----


def test_trains_the_policy_and_equals_the_plain_loop():
    lab = Lab(steps=3, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert [r.step for r in lab.records] == [1, 2, 3]
    for ours, theirs in zip(lab.records, loop.train(lab.config), strict=True):
        clocks = {"seconds": 0, "rollout_seconds": 0}
        assert ours.to_json() | clocks == theirs.to_json() | clocks


def test_paused_run_goes_on_as_if_it_had_never_paused():
    whole, parts = Lab(steps=3, **SMALL), Lab(steps=3, **SMALL)
    whole.train()
    assert whole.join(WAIT)
    for _ in range(3):
        parts.step()
        assert parts.join(WAIT), parts.last_error
    assert parts.state == "finished"
    assert [r.set_reward for r in parts.records] == [r.set_reward for r in whole.records]


def test_failure_of_the_policy_is_shown_and_the_lab_lives_on():
    lab = Lab(steps=2, model="no-such-model", **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "failed"
    assert "no-such-model" in lab.view().error and "Traceback" in lab.last_error
    lab.change(model="pocket-6x6", steps=1)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and lab.last_error is None


@pytest.mark.parametrize("larger", [dict(layout="paper-9x9"), dict(maze="S......\n" + ".......\n" * 5 + "G.....E")])
def test_a_larger_board_is_walked_by_the_policy_that_reads_it(larger):
    lab = Lab(steps=1, **larger, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert lab.records[0].reach_rate > 0.5
    assert len(lab.maze.text.splitlines()) in (7, 9)


# ---- requests and states ----


def test_stop_is_honoured_within_one_step_and_train_then_starts_anew(slow):
    lab = Lab(steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 2)
    lab.stop()
    before = len(lab.records)
    assert lab.state in ("stopping", "stopped") and lab.join(WAIT) and lab.state == "stopped"
    assert len(lab.records) <= before + 1
    lab.change(steps=2)
    lab.train()
    assert lab.join(WAIT) and [r.step for r in lab.records] == [1, 2]


def test_changes_of_alpha_and_K_act_from_the_next_step_and_are_marked(slow):
    lab = Lab(steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 2)
    lab.change(alpha=0.25, K="inf")
    at = len(lab.records)
    assert until(lambda: len(lab.records) >= at + 3)
    lab.stop()
    lab.join(WAIT)
    alphas = [r.alpha for r in lab.records]
    assert alphas[at + 1 :] == [0.25] * len(alphas[at + 1 :]) and alphas[: at - 1] == [1.0] * (at - 1)
    marks = plots.changes(lab.records)
    assert len(marks) == 1 and marks[0][1] == "α 0.25, K ∞" and marks[0][0] in (at, at + 1, at + 2)
    assert "α 0.25, K ∞" in [t for trace in lab.figure().data if trace.name == "marks 0" for t in trace.text]


def test_method_and_seed_need_a_fresh_run_and_the_panel_says_so(slow):
    lab = Lab("vpo", steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 1)
    lab.change(methods="grpo", seed=5)
    assert lab.view().restart == "method, seed" and "Train anew" in status_line(lab.view())
    assert until(lambda: len(lab.runs["vpo"].records) >= 4)
    assert {(method, seed) for method, _, _, seed, _ in slow} == {("vpo", 0)}, "the run under way goes on as it began"
    lab.train()
    assert until(lambda: "grpo" in lab.runs and len(lab.runs["grpo"].records) >= 2)
    lab.stop()
    lab.join(WAIT)
    assert lab.view().restart == ""
    assert {(method, seed) for method, _, _, seed, _ in slow} == {("vpo", 0), ("grpo", 5)}


def test_train_while_training_changes_nothing(slow):
    lab = Lab(steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 1)
    lab.train()
    assert len(training_threads()) == 1 and "already" in lab.view().message
    lab.reset()


@pytest.mark.parametrize("request_", ["reset", "new_maze", "reseed", "paint"])
def test_reset_new_maze_reseed_and_painting_while_it_trains(slow, request_):
    lab = Lab(steps=1000)
    maze, seed = lab.maze, lab.config.seed
    lab.train()
    assert until(lambda: len(lab.records) >= 1)
    {"paint": lambda: lab.set_maze(lab.maze.text.replace("L", "."))}.get(request_, lambda: getattr(lab, request_)())()
    assert lab.state == "idle" and lab.records == [] and lab.runs == {}
    assert until(lambda: not training_threads())
    assert lab.state == "idle" and lab.records == [], "what the last step saw is not shown"
    assert (lab.maze != maze) == (request_ in ("new_maze", "paint"))
    assert lab.config.seed == seed + (request_ == "reseed")


def test_reset_then_train_at_once_never_trains_twice_at_a_time(slow):
    lab = Lab(steps=1000)
    for _ in range(5):
        lab.train()
        assert until(lambda: len(lab.records) >= 1)
        lab.reset()
    lab.train()
    assert until(lambda: len(lab.records) >= 1)
    assert until(lambda: len(training_threads()) == 1)
    lab.stop()
    lab.join(WAIT)
    steps = [(s, t) for _, s, _, _, t in slow]
    firsts = [i for i, (s, _) in enumerate(steps) if s == 1]
    for begin, end in zip(firsts, [*firsts[1:], len(steps)], strict=True):  # one thread at a time, steps in order
        assert len({t for _, t in steps[begin:end]}) == 1


def test_three_runs_side_by_side_keep_step(slow):
    names = ("vpo", "grpo", "multi_rlvr")
    lab = Lab(names, steps=4)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished"
    assert [(m, s) for m, s, *_ in slow] == [(m, s) for s in range(1, 5) for m in names]
    assert list(lab.runs) == list(names)
    assert [method for method, _, _ in lab.view().on_board()] == list(names)
    assert lab.sentence().count("step 4") == 3


def test_runs_of_other_methods_stay_for_comparison_until_reset(slow):
    lab = Lab("vpo", steps=2)
    for method in ("vpo", "grpo", "gdpo", "maxrl"):
        lab.change(methods=method)
        lab.train()
        assert lab.join(WAIT)
    assert list(lab.runs) == ["vpo", "grpo", "gdpo", "maxrl"]
    assert [m for m, _, _ in lab.view().on_show()] == ["maxrl", "grpo", "gdpo"], "three boards at most, the active one first"
    assert lab.view().focus[0] == "maxrl"
    lab.reset()
    assert lab.runs == {}


def test_a_second_lab_pauses_the_first_and_threads_do_not_double(slow):
    first = Lab(steps=1000)
    first.train()
    assert until(lambda: len(first.records) >= 1)
    second = Lab(steps=1000)
    assert first.join(WAIT) and first.state == "paused" and "newer panel" in first.view().message
    second.train()
    assert until(lambda: len(second.records) >= 1)
    first.train()
    assert until(lambda: second.state == "paused") and until(lambda: len(training_threads()) == 1)
    first.close()
    second.close()


def test_steps_added_after_the_end_go_on_from_there(slow):
    lab = Lab(steps=2)
    lab.train()
    assert lab.join(WAIT)
    lab.train(steps=4)
    assert lab.join(WAIT) and [r.step for r in lab.records] == [1, 2, 3, 4]


def test_exception_in_the_middle_of_training(slow, monkeypatch):
    monkeypatch.setattr(live.Moment, "of", classmethod(lambda *_: 1 / 0))
    lab = Lab(steps=5)
    lab.train()
    assert lab.join(WAIT) and lab.state == "failed"
    assert lab.view().error.startswith("ZeroDivisionError") and "ZeroDivisionError" in status_line(lab.view())


def test_interrupt_while_waiting_stops_training(slow, monkeypatch):
    lab = Lab(steps=1000)
    lab.train()
    with monkeypatch.context() as patch:
        patch.setattr(lab._thread, "join", lambda timeout=None: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            lab.join()
    assert until(lambda: lab.state == "stopped")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"alpha": 0}, "alpha"),
        ({"K": 0}, "K"),
        ({"m": 0}, "m = 0"),
        ({"methods": "ppo"}, "ppo"),
        ({"methods": ()}, "one to 3"),
        ({"methods": ("vpo", "grpo", "gdpo", "maxrl")}, "one to 3"),
        ({"methods": ("vpo", "vpo")}, "different"),
        ({"maze_seed": 3}, "new_maze"),
    ],
)
def test_wrong_settings_are_refused_and_nothing_changes(wrong, says):
    lab = Lab()
    before = lab.view()
    with pytest.raises(ValueError, match=says):
        lab.change(**wrong)
    assert lab.view() == before


def test_wrong_mazes_are_refused_and_nothing_changes():
    lab = Lab()
    maze = lab.maze
    for text in (maze.text.replace("S", "."), maze.text[:-4], "S # E", maze.text.replace(".", "G")):
        with pytest.raises(ValueError, match=r"text|maze"):
            lab.set_maze(text)
    assert lab.maze is maze


def test_painted_maze_keeps_its_budget_while_the_exit_is_in_reach():
    lab = Lab(maze="S . E\n. . .\n. . .", steps=1)
    assert lab.maze.budget == 8
    lab.set_maze("S # E\n. . .\nG . .", budget=4)
    assert (lab.maze.budget, lab.maze_seed) == (4, None)
    lab.set_maze("S # E\n. # .\n. . .")
    assert lab.maze.budget == 6 + 6, "4 moves are too few now: back to the shortest way plus 2n"


# ---- what is shown ----


@pytest.fixture
def trained(slow):
    lab = Lab(steps=3, K=math.inf)
    lab.train()
    assert lab.join(WAIT)
    return lab


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def test_moment_counts_every_answer_and_shows_a_real_set():
    lab = Lab(steps=1, **SMALL)
    lab.train()
    assert lab.join(WAIT), lab.last_error
    record, moment = lab.records[0], lab.runs["vpo"].moments[0]
    pool = np.concatenate([g.rewards.reshape(-1, 4) for g in record.groups])
    assert moment.counts.sum() == len(pool) == 2 * 8 * 3
    for point, count in zip(moment.points, moment.counts, strict=True):
        assert (pool == point).all(axis=1).sum() == count
    sets = [(row, tuple(answers)) for g in record.groups for row, answers in zip(g.rewards, g.answers, strict=True)]
    assert any((row == moment.rewards).all() and answers == moment.answers for row, answers in sets)
    assert moment.best_at_k[1] == pytest.approx(pool.mean())


def test_figure_shows_the_front_the_answers_and_the_ceiling(trained):
    figure, front = trained.figure(), trained.maze.pareto_front().rewards
    assert isinstance(figure, go.Figure)
    rings = trace(figure, "true front")
    assert sorted(zip(rings.x, rings.y, strict=True)) == sorted(map(tuple, front[:, 1:3]))
    level = trace(figure, "level 0")
    assert level.y[0] == pytest.approx(metrics.price_of_conflict(front)[1])
    curve = next(t for t in figure.data if t.name == "VPO" and t.yaxis == "y2")
    assert list(curve.x) == [1, 2, 3] and list(curve.y) == [r.coverage for r in trained.records]
    cloud = next(t for t in figure.data if t.name == "VPO" and t.yaxis == "y")
    assert sorted(zip(cloud.x, cloud.y, strict=True)) == sorted(map(tuple, trained.runs["vpo"].moments[-1].points[:, 1:3]))


def test_win_shares_are_those_of_the_weightings_of_now(trained):
    rewards = trained.runs["vpo"].moments[-1].rewards
    for alpha in (0.1, 1.0, 10.0):
        trained.change(alpha=alpha, K=math.inf)
        assert trained.view().shares(rewards) == pytest.approx(exact_shares(rewards, alpha))
        trained.change(K=256)
        sampled = trained.view().shares(rewards)
        assert sampled.sum() == pytest.approx(1) and abs(sampled - exact_shares(rewards, alpha)).max() < 0.12
        dots = trace(trained.figure(), "weightings")
        assert len(dots.a) == 256 and np.allclose(np.add(np.add(dots.a, dots.b), dots.c), 1)


def test_sentence_says_the_numbers(trained):
    text, record = trained.sentence(), trained.records[-1]
    assert f"cover {record.coverage:.2f}" in text and "step 3" in text
    front = trained.maze.pareto_front().rewards
    held = sum(any(np.allclose(p, r) for r in trained.runs["vpo"].moments[-1].rewards) for p in front)
    assert f"holds {held} of {len(front)} points" in text
    assert f"{metrics.price_of_conflict(front)[1]:.2f}" in Lab().sentence()


def test_looking_back(trained):
    trained.look(1)
    assert trained.view().focus[1].step == 1 and "step 1" in trained.sentence()
    trained.look(None)
    assert trained.view().focus[1].step == 3


def test_every_curve_can_be_drawn(trained):
    for name in plots.CURVES:
        drawn = plots.Plots(go.Figure)
        drawn.draw(trained.view(), curves=(name, plots.DIVERSITY))
        curve = next(t for t in drawn.figure.data if t.name == "VPO" and t.yaxis == "y2")
        assert len(curve.y) == 3 and all(v is not None and math.isfinite(v) for v in curve.y), name


def test_nothing_is_sent_twice(trained):
    drawn = plots.Plots(go.Figure)
    assert drawn.draw(trained.view()) and not drawn.draw(trained.view())
    trained.change(alpha=0.3)
    assert drawn.draw(trained.view())


def test_failed_and_unreadable_answers_are_drawn_as_such(trained):
    moment = trained.runs["vpo"].moments[-1]
    vectors = np.array([[0, 0, 0, 0], [1, 1, 0, 0.5], [1, 0, 1, 1.0]])
    trained.runs["vpo"].moments[-1] = live.Moment(
        moment.maze, vectors, np.array([5, 3, 2]), (None, moment.answers[0], moment.answers[1]), vectors, {1: 0.5}
    )
    cloud = next(t for t in trained.figure().data if t.name == "VPO" and t.yaxis == "y")
    assert list(cloud.marker.symbol) == ["x", "circle-open", "circle"] and cloud.text[0] == "50% miss E"
    drawn = board_groups(trained.view())[0]["routes"]
    assert drawn[0]["what"] == "not a route" and drawn[0]["path"] == []


def test_still_picture_of_the_maze(trained):
    assert trained.picture().startswith("<svg") and trained.picture("vpo").count("polyline") >= 3
    with pytest.raises(ValueError, match="grpo"):
        trained.picture("grpo")


# ---- share codes and recordings ----


def test_share_code_restores_maze_settings_and_seeds_exactly():
    lab = Lab(("vpo", "maxrl"), maze_seed=1012, alpha=0.07, K=math.inf, m=5, lr=3e-4, seed=9, steps=17)
    again = Lab.from_code(lab.share())
    said = {"message": "", "version": 0}
    assert dataclasses.replace(again.view(), **said) == dataclasses.replace(lab.view(), **said)
    assert again.share() == lab.share() and len(lab.share()) < 160
    lab.set_maze("S . G\n. # L\nD . E", budget=9)
    again = Lab.from_code(f"  {lab.share()}\n")
    assert again.maze == lab.maze and again.maze.budget == 9 and again.config == lab.config
    assert Lab.from_code(Lab(many=True).share()).many


SPOILT = (lambda c: c[:-1], lambda c: c[:12] + c[13:], lambda c: c[5:], lambda c: "", lambda c: c.swapcase())


@pytest.mark.parametrize("spoil", SPOILT)
def test_bad_share_code_gets_a_clear_error_and_changes_nothing(spoil):
    lab = Lab(maze_seed=1004)
    code, before = Lab(maze_seed=1012, alpha=0.3).share(), lab.view()
    with pytest.raises(ValueError, match="code"):
        lab.load(spoil(code))
    assert lab.view() == before


def test_share_code_with_impossible_settings_is_refused():
    import base64
    import json
    import zlib

    for content in ([["vpo"], 1000, {"alpha": -1}, False], [["vpo"], ["S#E", 9], {}, False], [["ppo"], 1000, {}, False]):
        code = "VPO1-" + base64.urlsafe_b64encode(zlib.compress(json.dumps(content).encode())).decode()
        with pytest.raises(ValueError, match="code"):
            Lab.from_code(code)


def test_recording_keeps_every_answer_and_replays_without_a_model(tmp_path, monkeypatch):
    lab = Lab(("vpo", "grpo"), steps=2, **SMALL)
    lab.train()
    assert lab.join(WAIT), lab.last_error
    path = lab.record(tmp_path / "run", "a command")
    monkeypatch.setitem(live.sys.modules, "torch", None)  # whoever needs it now fails
    again = Lab.replay(tmp_path / "run")
    assert again.state == "recorded" and "a command" in again.view().message and path.name == "recording.json"
    for method in ("vpo", "grpo"):
        for ours, theirs in zip(again.runs[method].records, lab.runs[method].records, strict=True):
            assert [g.answers for g in ours.groups] == [g.answers for g in theirs.groups]
            assert all((a.rewards == b.rewards).all() for a, b in zip(ours.groups, theirs.groups, strict=True))
            assert ours.coverage == pytest.approx(theirs.coverage, abs=1e-5)
    assert again.sentence() == lab.sentence()
    again.look(1)
    assert again.sentence() != lab.sentence()


def test_recorded_run_can_be_trained_again_live(slow):
    lab = Lab.replay("three_methods/seed-0")
    lab.change(methods="vpo", steps=2)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and len(lab.runs["vpo"].records) == 2


def test_wrong_recordings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="three_methods/seed-0"):
        Lab.replay("nowhere")
    (tmp_path / "recording.json").write_text('{"version": 1}')
    with pytest.raises(ValueError, match="no recording that this version can read"):
        Lab.replay(tmp_path)
    with pytest.raises(ValueError, match="train first"):
        Lab().record(tmp_path)


RECORDED = sorted(path.parent.relative_to(live.RECORDINGS).as_posix() for path in live.RECORDINGS.rglob("recording.json"))


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_that_ship_are_small_whole_and_say_how_they_were_made(name):
    assert (live.RECORDINGS / name / "recording.json").stat().st_size < 300_000
    lab = Lab.replay(name)
    assert lab.view().message == f"Made by: python -m vpo_lite.recordings . {name}"
    for run in lab.runs.values():
        assert [r.step for r in run.records] == list(range(1, 41))
        last = run.records[-1]
        front = lab.maze.pareto_front().rewards
        size = len(run.moments[-1].rewards)
        sets = np.concatenate([g.rewards.reshape(-1, 4) for g in last.groups])
        sets = sets[: len(sets) // size * size].reshape(-1, size, 4)
        reached = np.mean([g.rewards[..., 0] > 0 for g in last.groups])
        assert reached == pytest.approx(last.reach_rate, abs=1e-4), "the stored figures are those of the stored answers"
        if size == 3 and run.method != "grpo":
            assert metrics.coverage(sets, front).mean() == pytest.approx(last.coverage, abs=1e-4)


# ---- the panel's widgets, without a browser ----


@pytest.fixture(params=["widgets", "plain"])
def panel(slow, request):
    lab = Lab(steps=1000, panel=request.param)
    yield lab.panel
    lab.close()


def test_panel_follows_training_and_its_controls_act(panel):
    lab, knobs, buttons = panel.lab, panel.controls.knobs, panel.controls.buttons
    buttons["train"].click()
    assert until(lambda: "training · step" in panel.status.value), panel.status.value
    assert buttons["train"].disabled and not buttons["stop"].disabled
    knobs["alpha"].value = 0.2
    knobs["K"].value = math.inf
    assert lab.config.alpha == 0.2 and lab.config.K == math.inf
    assert until(lambda: lab.records[-1].alpha == 0.2)
    knobs["methods"].value = ("grpo",)
    assert until(lambda: buttons["train"].description == "Train anew" and not buttons["train"].disabled)
    buttons["pause"].click()
    assert until(lambda: lab.state == "paused") and until(lambda: not buttons["step"].disabled)
    assert until(lambda: "paused" in panel.status.value)
    knobs["methods"].value = ("vpo",)
    assert until(lambda: buttons["train"].description == "Go on")
    count = len(lab.records)
    buttons["step"].click()
    assert lab.join(WAIT) and len(lab.records) == count + 1
    buttons["reset"].click()
    assert until(lambda: "ready" in panel.status.value and panel.progress.value == 0)
    buttons["new_maze"].click()
    assert until(lambda: "maze 1001" in panel.status.value)


def test_every_control_has_a_description(panel):
    for name, knob in panel.controls.knobs.items():
        assert knob.description, name
    for name, button in panel.controls.buttons.items():
        assert button.description and button.tooltip, name


def test_controls_follow_changes_made_in_code(panel):
    panel.lab.change(alpha=0.5, K=77, m=5, steps=300, methods=("gdpo", "maxrl"))
    knobs = panel.controls.knobs
    assert until(lambda: knobs["alpha"].value == 0.5 and knobs["K"].value == 77 and knobs["m"].value == 5)
    assert until(lambda: knobs["steps"].value == 300 and knobs["methods"].value == ("gdpo", "maxrl"))
    assert panel.lab.config.K == 77, "following is no change"


def test_error_in_a_callback_appears_in_the_panel(panel, capsys):
    panel.controls.knobs["seed"].observe(lambda change: panel.act(panel.lab.change, change["new"]), "value")
    panel.act(panel.lab.change, 3)  # change() takes no positional argument
    assert until(lambda: "TypeError" in panel.status.value) and "Traceback" in panel.lab.last_error
    assert capsys.readouterr() == ("", "")


def test_nothing_prints_from_threads(panel, capfd):
    panel.controls.buttons["train"].click()
    assert until(lambda: len(panel.lab.records) >= 3)
    panel.lab.stop()
    panel.lab.join(WAIT)
    assert capfd.readouterr() == ("", "")


def test_one_drawing_thread_for_any_number_of_panels(slow):
    labs = [Lab(steps=2) for _ in range(3)]
    for lab in labs:
        lab.panel.draw()
        lab.change(alpha=0.7)
    assert [t.name for t in threading.enumerate()].count("vpo-lite drawing") == 1
    for lab in labs:
        lab.close()


def test_panels_are_drawn_at_most_ten_times_a_second(slow, monkeypatch):
    lab = Lab(steps=2)
    drawn = []
    monkeypatch.setattr(lab.panel, "draw", lambda: drawn.append(lab.config.alpha))
    for i in range(300):
        lab.change(alpha=1 + i / 100)
        time.sleep(0.001)
    assert until(lambda: drawn and drawn[-1] == lab.config.alpha), "the last value always arrives"
    assert len(drawn) < 100, "300 changes, far fewer drawings"
    lab.close()


def test_a_dropped_lab_can_be_collected(slow):
    lab = Lab(steps=1)
    lab.train()
    lab.join(WAIT)
    import weakref

    gone = weakref.ref(lab)
    del lab
    assert until(lambda: gc.collect() >= 0 and gone() is None, 10)


def test_plain_panel_where_custom_widgets_do_not_work(monkeypatch):
    monkeypatch.setitem(live.sys.modules, "google.colab", object())
    lab = Lab(steps=1)
    assert isinstance(lab.panel, PlainPanel) and "<svg" in lab.panel.maze.value
    lab.close()
    monkeypatch.delitem(live.sys.modules, "google.colab")
    monkeypatch.setitem(live.sys.modules, "anywidget", None)
    assert isinstance(Lab(steps=1).panel, PlainPanel)


def test_plain_panel_redraws_its_figure(slow):
    lab = Lab(steps=3, panel="plain")
    updates = []
    panel = lab.panel
    panel._handle = type("Handle", (), {"update": lambda self, figure: updates.append(len(figure.data))})()
    panel.pause = 0.0
    lab.train()
    assert lab.join(WAIT) and until(lambda: "finished" in panel.status.value) and updates
    lab.close()
