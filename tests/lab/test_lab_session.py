"""The lab without a screen: requests, threads, and what is refused. The same object that the panel
drives.
"""

import dataclasses
import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from lab_harness import SMALL, WAIT, FakeLearner, training_threads, until

from vpo_lite.lab import Lab
from vpo_lite.lab.curves import changes
from vpo_lite.lab.drawings import routes_on_show
from vpo_lite.lab.settings import Settings
from vpo_lite.lab.stretch import Rehearsal
from vpo_lite.lab.view import Moment
from vpo_lite.lab.words import status_line
from vpo_lite.training import loop, memory


@pytest.mark.slow
def test_trains_the_policy_and_equals_the_plain_loop():
    lab = Lab(steps=3, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert [r.step for r in lab.records] == [1, 2, 3]
    for ours, theirs in zip(lab.records, loop.train(lab.config), strict=True):
        clocks = {"seconds": 0, "rollout_seconds": 0, "scoring_seconds": 0}
        assert ours.to_json() | clocks == theirs.to_json() | clocks


@pytest.mark.slow
def test_a_run_that_failed_before_its_first_step_says_where_to_look():
    lab = Lab(steps=1, target_modules="qproj", **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "failed" and "'qproj'" in lab.last_error
    with pytest.raises(ValueError, match="vpo: no step has ended; if it failed, see last_error"):
        _ = lab.runs["vpo"].record


@pytest.mark.long
def test_training_is_cut_to_fit_where_memory_is_short(monkeypatch):
    lab, used, step = Lab(steps=2, **SMALL), [], loop.train_step
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    monkeypatch.setattr(loop, "train_step", lambda *a: used.append(a[1]) or step(*a))
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert {(c.micro_batch, c.sample_batch) for c in used} == {(1, 1)}
    assert lab.config.micro_batch is None


@pytest.mark.slow
def test_failure_of_the_policy_is_shown_and_the_lab_lives_on():
    lab = Lab(steps=2, model="no-such-model", **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "failed"
    assert "no-such-model" in lab.view().error and "Traceback" in lab.last_error
    lab.change(model="pocket-6x6", steps=1)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and lab.last_error is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "larger", [dict(layout="paper-9x9"), dict(maze="S......\n" + ".......\n" * 5 + "G.....E")]
)
def test_a_larger_board_is_walked_by_the_policy_that_reads_it(larger):
    lab = Lab(steps=1, **larger, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert lab.records[0].valid_rate > 0.5
    assert len(lab.maze.text.splitlines()) in (7, 9)


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


@pytest.mark.slow
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
    assert alphas[at + 1 :] == [0.25] * len(alphas[at + 1 :]) and alphas[: at - 1] == [1.0] * (
        at - 1
    )
    (mark,) = changes(lab.runs["vpo"])
    assert mark.text == mark.said == "α 0.25, K ∞" and mark.step in (at, at + 1, at + 2)
    assert "α 0.25, K ∞" in [
        t for trace in lab.figure().data if trace.name == "marks 0" for t in trace.text
    ]


@pytest.mark.slow
def test_the_status_line_says_what_a_turned_knob_does_at_rest(slow):
    """Words and triangle may stand below the window, and a method that is chosen trains later."""
    lab = Lab("vpo", steps=1000).train()
    assert until(lambda: lab.records)
    assert lab.stop().join(WAIT) and lab.state == "stopped"
    assert status_line(lab.view()).lower().count("stopped") == 1
    lab.change(methods="grpo")
    assert "Train starts <b>GRPO</b> from step 1" in status_line(lab.view())
    lab.change(methods="vpo")
    assert "Train starts" not in status_line(lab.view())


@pytest.mark.parametrize("recording", ["few_weights/K-1", "three_methods/seed-0"])
def test_the_status_line_says_what_the_knob_of_K_changes(recording):
    """With several methods nothing in sight moved."""
    replayed = Lab.replay(recording, panel="plain")

    def correlation(K):
        said = status_line(replayed.change(K=K).view())
        found = re.search(r"K = (\d+): correlation ([01]\.\d\d) with K = ∞", said)
        assert int(found[1]) == K
        return float(found[2])

    assert correlation(1) < correlation(2) < correlation(8) <= correlation(128)
    anew = status_line(dataclasses.replace(replayed.view(), restart="seed"))
    assert "Press <b>Train anew</b>" in anew and "correlation" not in anew, "they fit in one line"
    assert "K = ∞: all weights" in status_line(replayed.change(K="inf").view())
    assert ("seed 0" in status_line(replayed.view())) == (recording == "few_weights/K-1")


@pytest.mark.slow
def test_method_and_seed_need_a_fresh_run_and_the_panel_says_so(slow):
    lab = Lab("vpo", steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 1)
    lab.change(methods="grpo", seed=5)
    assert lab.view().restart == "method, seed" and "Train anew" in status_line(lab.view())
    assert until(lambda: len(lab.runs["vpo"].records) >= 4)
    assert {(method, seed) for method, _, _, seed, _ in slow} == {("vpo", 0)}, (
        "the run under way goes on as it began"
    )
    began = Settings.of(("vpo", "grpo"), {})
    assert began.but(m=2).but(methods="grpo").needs_fresh_run(began) == "method", "no set_size"
    assert not Settings.of("grpo", {"set_size": 2}).needs_fresh_run(Settings.of("grpo", {}))
    falls = Settings.of("vpo", {"lr_schedule": "cosine", "steps": 4})  # longer, it would rise again
    longer = falls.but(steps=8, alpha=0.5)
    assert longer.needs_fresh_run(falls) == "steps" and not falls.but(m=2).needs_fresh_run(falls)
    assert longer.of_a_run("vpo", falls) == falls.but(alpha=0.5).configs["vpo"]
    of_eight = Settings.of("max_at_k", {"k": 8})  # of groups of 4 it could not be
    now = of_eight.but(k=2, group_size=4, prompts=3)
    assert now.of_a_run("max_at_k", of_eight) == of_eight.but(prompts=3).configs["max_at_k"]
    warms_up = Settings.of("grpo", {"warmup_steps": 10, "group_size": 4, "m": 3})
    larger = warms_up.but(warmup_steps=0, steps=5, group_size=8, m=6)
    assert larger.of_a_run("grpo", warms_up) == warms_up.but(group_size=8, m=6).configs["grpo"]
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
    {"paint": lambda: lab.set_maze(lab.maze.text.replace("L", "."))}.get(
        request_, lambda: getattr(lab, request_)()
    )()
    assert lab.state == "idle" and lab.records == [] and lab.runs == {}
    said = lab.view().message
    assert until(lambda: not training_threads())
    assert lab.view().message == said != "", "the last step takes no message away"
    assert lab.state == "idle" and lab.records == [], "what the last step saw is not shown"
    assert (lab.maze != maze) == (request_ in ("new_maze", "paint"))
    assert lab.config.seed == seed + (request_ == "reseed")


@pytest.mark.slow
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
    for begin, end in zip(
        firsts, [*firsts[1:], len(steps)], strict=True
    ):  # one thread at a time, steps in order
        assert len({t for _, t in steps[begin:end]}) == 1


@pytest.mark.slow
def test_three_runs_side_by_side_keep_step(slow):
    names = ("vpo", "grpo", "multi_rlvr")
    lab = Lab(names, steps=4)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished"
    assert [(m, s) for m, s, *_ in slow] == [(m, s) for s in range(1, 5) for m in names]
    assert list(lab.runs) == list(names)
    assert [drawn.method for drawn in routes_on_show(lab.view())] == list(names)
    assert lab.sentence().count("step 4") == 3


@pytest.mark.slow
def test_runs_of_other_methods_stay_for_comparison_until_reset(slow):
    lab = Lab("vpo", steps=2)
    for method in ("vpo", "grpo", "gdpo", "maxrl"):
        lab.change(methods=method)
        lab.train()
        assert lab.join(WAIT)
    assert list(lab.runs) == ["vpo", "grpo", "gdpo", "maxrl"]
    assert [run.method for run in lab.view().on_show()] == ["maxrl", "grpo", "gdpo"], (
        "three boards at most, the active one first"
    )
    assert lab.view().focus.method == "maxrl"
    lab.reset()
    assert lab.runs == {}


@pytest.mark.slow
def test_a_second_lab_pauses_the_first_and_threads_do_not_double(slow):
    first = Lab(steps=1000)
    first.train()
    assert until(lambda: len(first.records) >= 1)
    Lab.replay("three_methods/seed-0").figure()
    second = Lab(steps=1000)
    assert first.state == "running"  # code that makes a lab, or looks at a recording, pauses none
    second.panel.draw()
    assert (
        first.join(WAIT)
        and first.state == "paused"
        and "newer panel opened" in first.view().message
    )
    second.train()
    assert until(lambda: len(second.records) >= 1)
    first.train()
    assert until(lambda: second.state == "paused") and until(lambda: len(training_threads()) == 1)
    first.close()
    second.close()


@pytest.mark.slow
def test_a_recordings_panel_pauses_nobody_and_says_what_k_would_do(slow):
    """It trains nothing. And its sentence took the K of now for that of the recorded steps."""
    first = Lab(steps=1000).train()
    recorded = Lab.replay("few_weights/K-1", panel="plain")
    assert recorded.panel is not None and first.state == "running", first.view().message
    first.stop()
    assert first.join(WAIT)
    said = " ".join(recorded.sentence().split())
    told = "1 weight, drawn anew, ranks this step's rollouts "
    assert told in said and "all weights together would (correlation 0." in said
    said = " ".join(recorded.change(K="inf").sentence().split())
    assert "With K = ∞ no weights are drawn: all weights together score this step's" in said


class Panic(BaseException):
    """As libraries in Rust raise it, such as tokenizers: it is no Exception."""


# a task may call sys.exit
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, Panic, KeyboardInterrupt])
def test_exception_in_the_middle_of_training(slow, monkeypatch, error):
    def fail(*_):
        raise error("why")

    monkeypatch.setattr(Moment, "of", classmethod(fail))
    lab = Lab(steps=5)
    lab.train()
    assert lab.join(WAIT) and lab.state == "failed"
    assert lab.view().error == f"{error.__name__}: why"
    assert f"{error.__name__}: why" in status_line(lab.view())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("can't start new thread")])
def test_training_that_cannot_begin_leaves_a_lab_that_can_train(slow, monkeypatch, error):
    """An interrupt may come when no thread is there yet. It was running for good, and refused."""

    def cannot(*_):
        raise error

    lab = Lab(steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(type(error)):
            lab.train()
    assert lab.state == "failed" and type(error).__name__ in lab.view().error
    assert lab.sentence().startswith(f"Error: {type(error).__name__}")
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and len(lab.records) == 2
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(type(error)):
            lab.step()
    assert lab.state == "failed" and len(lab.records) == 2, "the runs before are still there"


def test_an_interrupt_while_a_lab_halts_keeps_no_lock(slow, monkeypatch):
    """Python's Event, once its lock is taken, may be interrupted before it can give it back."""
    enter, main = threading.Condition.__enter__, threading.main_thread()

    def interrupted(self):
        entered = enter(self)
        if threading.current_thread() is main:
            raise InterruptedError
        return entered

    lab = Lab(steps=1000)
    lab.train()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Condition, "__enter__", interrupted)
        lab.pause()
        lab.stop()
    assert until(lambda: lab.state == "stopped")


def test_interrupt_while_waiting_stops_training(slow, monkeypatch):
    lab = Lab(steps=1000)
    lab.train()
    with monkeypatch.context() as patch:
        patch.setattr(
            lab._worker, "wait", lambda timeout=None: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            lab.join()
    assert until(lambda: lab.state == "stopped")


INTERRUPTED = """
def interrupted_join(lab):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        lab.join()
    except KeyboardInterrupt:
        return
    raise SystemExit("no interrupt came")
"""
STANDS_STILL = """
from lab_harness import FakeLearner, Gate, until
from vpo_lite.training import loop, step
gate = Gate()
step.Learner, loop.train = FakeLearner, gate.train
lab = Lab(steps=5).train()
assert until(lambda: gate.begun == 1)
interrupted_join(lab)
print(lab.state, lab.join(0.1))
gate.begun = 0
lab.train()
print(until(lambda: gate.begun, 0.5))
gate.open(1)
print(until(lambda: gate.begun))
gate.open(100)
print(lab.join(), lab.state, len(lab.records))
"""
TRAINS = """
import time
lab = Lab(prompts=4, group_size=16, steps=100).train()
while not lab.records:
    time.sleep(0.01)
interrupted_join(lab)
print("exits")
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="there os.kill ends the process")
@pytest.mark.parametrize(
    ("code", "prints"),
    [
        # the second run begins only once the step under way has ended
        (STANDS_STILL, ["stopping False", "0", "1", "True finished 5"]),
        (TRAINS, ["exits"]),  # a thread inside torch would abort the process
    ],
)
def test_after_an_interrupted_join_the_thread_is_still_waited_for(code, prints):
    """Python 3.11 then takes the thread for ended: join returned at once, and exit aborted."""
    head = "import os, signal, threading\nfrom vpo_lite.lab import Lab\n"
    environment = os.environ | {"VPO_LITE_COLD": "1", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", head + INTERRUPTED + code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=WAIT,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, prints), done.stderr


@pytest.mark.long
def test_when_python_ends_it_waits_for_the_step_however_long_it_takes_and_says_so():
    """After ten seconds it went, and the thread inside torch aborted the process."""
    code = """
import time
from vpo_lite.lab import Lab, session
from vpo_lite.training import loop
session.PATIENCE, train_step, began = 0.1, loop.train_step, []
def long(*given):
    began.append(True)
    time.sleep(1)
    done = train_step(*given)
    print("stepped", flush=True)
    return done
loop.train_step = long
lab = Lab(steps=3)
lab.train()
while not began:
    time.sleep(0.01)
"""
    run = dict(capture_output=True, text=True, env=os.environ | {"VPO_LITE_COLD": "1"})
    done = subprocess.run([sys.executable, "-c", code], timeout=WAIT, **run)
    said = "vpo-lite: waiting for the end of the step under way\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "stepped\n", said)


@pytest.mark.long
def test_when_python_ends_while_torch_loads_nothing_but_that_is_said():
    """Twelve finalizers of torch failed behind it."""
    code = "from vpo_lite.lab import Lab; Lab(steps=3).train()"
    run = dict(capture_output=True, text=True, env=os.environ | {"VPO_LITE_COLD": "1"})
    done = subprocess.run([sys.executable, "-c", code], timeout=WAIT, **run)
    said = "vpo-lite: waiting for the end of the step under way\n"
    assert (done.returncode, done.stdout, done.stderr) in ((0, "", said), (0, "", ""))


@pytest.mark.parametrize("request_", ["train", "step"])
def test_fresh_runs_that_fail_before_their_first_step_keep_the_failed_run(gate, request_):
    lab = Lab(steps=5)
    gate.open(3)
    lab.train()
    assert until(lambda: len(lab.records) == 3)
    gate.fails = True
    gate.open(1)
    assert lab.join(WAIT) and lab.state == "failed"
    before = lab.records
    gate.open(1)
    getattr(lab, request_)()
    assert lab.join(WAIT) and lab.state == "failed" and "as asked" in lab.view().error
    assert lab.records == before and lab.view().earlier == ()
    lab.look(3)
    gate.fails = False
    gate.open(100)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and len(lab.records) == 5
    assert [list(run.records) for run in lab.view().earlier] == [before]


def test_fresh_runs_side_by_side_that_fail_in_their_first_step_keep_the_runs_before(gate):
    lab = Lab(("vpo", "grpo"), steps=2)
    gate.open(4)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished"
    before = lab.runs
    lab.train()
    gate.open(1)
    assert until(lambda: len(lab.records) == 1), "the fresh run of the first method"
    gate.fails = True
    gate.open(1)
    assert lab.join(WAIT) and lab.state == "failed" and lab.runs == before


@pytest.mark.parametrize("halts", [["stop"], ["pause", "stop"]])
def test_fresh_runs_stopped_before_their_first_step_keep_the_runs_before(slow, monkeypatch, halts):
    lab = Lab(steps=2)
    lab.train()
    assert lab.join(WAIT)
    before = lab.records

    class Loading(FakeLearner):
        def __init__(self, config):
            super().__init__(config)
            getattr(lab, halts[0])()

    monkeypatch.setattr("vpo_lite.training.learner.Learner", Loading)
    lab.train()
    assert lab.join(WAIT)
    for halt in halts[1:]:
        assert lab.state == "paused" and lab.records == [], "it can go on"
        getattr(lab, halt)()
    assert lab.state == "stopped" and lab.records == before


def test_a_step_of_a_finished_lab_is_step_1_of_a_fresh_run(slow):
    lab = Lab(steps=2)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished"
    lab.step()
    assert lab.join(WAIT) and lab.state == "paused" and [r.step for r in lab.records] == [1]
    assert [len(run.records) for run in lab.view().earlier] == [2]


def test_a_look_at_a_step_that_no_run_has_done_is_refused(slow):
    lab = Lab(steps=2)
    with pytest.raises(ValueError, match=r"^step = 1: expected None before step 1$"):
        lab.look(1)
    lab.train()
    assert lab.join(WAIT)
    with pytest.raises(ValueError, match=r"^step = 99: expected at most 2, the steps so far$"):
        lab.look(99)
    assert lab.view().look is None and lab.look(2).view().look == 2


def test_an_unknown_argument_of_figure_is_refused_by_name():
    for lab in (Lab(), Lab(task="programs", problem=3)):
        with pytest.raises(ValueError, match=r"^'foo': figure takes curves, "):
            lab.figure(foo=1)
    with pytest.raises(ValueError, match=r"did you mean dark\?$"):
        Lab().figure(drak=True)


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
        ({"maze_seed": 3}, r"use pick\(maze_seed=3\)"),
        ({"m": 6}, "m = 6"),
        ({"methods": ("vpo", "grpo"), "group_size": 2}, "m = 3 with group_size = 2"),
        ({"task": "json:dumps"}, "keeps its task"),
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


@pytest.mark.slow
def test_a_run_that_an_edit_drops_is_named(slow):
    """One click in the editor took a training away, without a word."""
    lab = Lab(maze="S . E\n. . .\n. . .", steps=1000)
    lab.train()
    assert until(lambda: len(lab.records) >= 2)
    lab.pause()
    lab.join(WAIT)
    done = len(lab.records)
    lab.set_maze("S . E\n. . .\nG . .")
    assert f"The run of {done} steps is gone; Bring back shows it again." in status_line(lab.view())
    lab.set_maze("S . E\n. . .\nG . D")
    assert "gone" not in status_line(lab.view())


def test_a_problem_that_was_picked_is_named_once():
    """The status line has its number, so no message repeats it."""
    lab = Lab()
    assert str(status_line(lab.new_maze().view())).count("1001") == 1
    assert "Layout paper-9x9" in status_line(lab.new_maze(3, layout="paper-9x9").view())
    drawn = str(status_line(lab.set_maze("S . E\n. . .\nG . .").view()))
    assert drawn.lower().count("your maze") == drawn.count("moves") == 1
    other = Lab(task="programs").next_problem()
    said = str(status_line(other.next_problem().next_problem().view()))
    assert other.settings.chosen["problem"] == 2 and said.count("2") == 1


def test_painted_maze_keeps_its_budget_while_the_exit_is_in_reach():
    lab = Lab(maze="S . E\n. . .\n. . .", steps=1)
    assert lab.maze.budget == 8
    lab.set_maze("S # E\n. . .\nG . .", budget=4)
    assert (lab.maze.budget, lab.maze_seed) == (4, None)
    lab.set_maze("S # E\n. # .\n. . .")
    assert lab.maze.budget == 6 + 6, "4 moves are too few now: back to the shortest way plus 2n"


@pytest.mark.slow
def test_a_dropped_lab_can_be_collected(slow):
    lab = Lab(steps=1)
    lab.train()
    lab.join(WAIT)
    gone = weakref.ref(lab)
    del lab
    assert until(lambda: gc.collect() >= 0 and gone() is None, 10)


# --- faults of 0.1.0 ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "vpo", "max_at_k"])
def test_the_rehearsal_works_for_every_kind_of_method(method, monkeypatch):
    """0.1.0 rehearsed with 2 rollouts, which GRPO's sets of 3 refuse, and swallowed the error."""
    monkeypatch.delenv("VPO_LITE_COLD")
    rehearsal = Rehearsal()
    rehearsal.begin(Lab(method, warmup_steps=3, **SMALL).config)
    rehearsal.thread.join(WAIT)
    assert not rehearsal.thread.is_alive() and rehearsal.error is None


def test_no_training_waits_for_a_rehearsal_that_could_not_begin(slow, monkeypatch):
    def cannot(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.delenv("VPO_LITE_COLD")
    rehearsal, lab = Rehearsal(), Lab(steps=1)
    monkeypatch.setattr("vpo_lite.lab.session.rehearsal", rehearsal)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", cannot)
        with pytest.raises(RuntimeError):
            rehearsal.begin(lab.config)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error


def test_an_error_of_the_rehearsal_is_kept_and_said_when_train_is_pressed(request, monkeypatch):
    monkeypatch.delenv("VPO_LITE_COLD")
    rehearsal = Rehearsal()
    rehearsal.begin(Lab(model="no-such-model").config)
    rehearsal.thread.join(WAIT)
    assert "Traceback" in rehearsal.error and "no-such-model" in rehearsal.error
    monkeypatch.setattr("vpo_lite.lab.session.rehearsal", rehearsal)
    request.getfixturevalue("slow")
    lab = Lab(steps=1000)
    lab.train()
    assert "warm-up failed" in lab.view().message and "no-such-model" in lab.view().message
    assert until(lambda: len(lab.records) >= 1) and lab.view().message == ""
    lab.reset()
    lab.train()  # once was enough
    assert "warm-up" not in lab.view().message
    lab.reset()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("metod", "methods"),  # not method, which a lab does not take
        ("mny", "many"),
        ("lrr", "lr"),
        ("maze_buget", "maze_budget"),  # an option of the task
    ],
)
def test_a_misspelled_argument_is_answered_with_the_one_that_is_there(given, meant):
    lab = Lab()
    for call in (Lab, lab.change):
        with pytest.raises(ValueError, match=f"^unknown setting '{given}'; did you mean {meant}.$"):
            call(**{given: 1})
    with pytest.raises(ValueError, match=r"'pannel'; did you mean panel\?$"):
        Lab(pannel="plain")


@pytest.mark.parametrize(
    ("methods", "settings", "says"),
    [
        (("vpo", "grpo"), {"group_size": 2}, "m = 3 with group_size = 2"),
        (("vpo", "grpo"), {"set_size": 2}, "sets of m = 3; leave it out"),
        (("grpo", "max_at_k"), {"k": 16}, "k = 16 with group_size = 16"),
        ("vpo", {"m": 6}, "m = 6"),
        ("vpo", {"layout": "paper-9x9", "model": "pocket-6x6"}, "does not fit this policy"),
        ("vpo", {"panel": "large"}, "panel"),
        ("vpo", {"maze": "S G\nD E", "maze_seed": 5}, "maze and maze_seed = 5: give one"),
        ("vpo", {"maze": "S G\nD E", "maze_seed": 1000}, "maze and maze_seed = 1000: give one"),
        ("vpo", {"maze": "S E", "layout": "hard-8x8"}, "maze and layout = 'hard-8x8': give one"),
        ("vpo", {"maze": "S E", "maze_seed": "fork", "many": True}, "maze_seed = 'fork'"),
    ],
)
def test_settings_that_cannot_work_for_one_of_the_methods_are_refused_at_once(
    methods, settings, says
):
    with pytest.raises(ValueError, match=says):
        Lab(methods, **settings)


@pytest.mark.slow
def test_training_and_looking_leave_the_threads_of_torch_alone():
    import torch

    before = torch.get_num_threads()
    lab = Lab(steps=1, threads=1 if before != 1 else 2, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    assert torch.get_num_threads() == before


def test_a_change_of_the_layout_changes_the_maze_on_show_too():
    lab = Lab()
    lab.change(layout="paper-9x9")
    assert lab.maze.shape == (9, 9) and lab.config.make_task().instance(0) == lab.maze


def test_a_drawn_maze_may_stand_beside_the_layout_of_many_mazes():
    lab = Lab(maze="S G\nD E", layout="hard-8x8", many=True)
    assert lab.maze.shape == (2, 2)
    assert lab.settings.configs["vpo"].make_task().instance(0).shape == (8, 8)
