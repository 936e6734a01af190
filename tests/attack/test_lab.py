"""The Lab's requests under attack: one line and nothing changed, or it works and can be drawn."""

import json
import random
import threading

import numpy as np
import pytest
from attacks import NASTY, check_error, seeds
from lab_attacks import METHODS, draws, refused_or_works, small_recording, snapshot

from vpo_lite.lab import Lab, Session
from vpo_lite.lab.settings import Settings
from vpo_lite.tasks import Prompt, Task
from vpo_lite.training.config import TrainConfig

MAZE = "S . G\n. # L\nD . E"
MORE = (  # beside NASTY
    np.array([1.0, 2.0]),
    np.nan,
    {1, 2},
    b"bytes",
    object(),
    ["vpo", "vpo"],
    [["vpo"]],
    10**5000,
    "maze\n" * 3,
    "os:path",
)
VALUES = (*NASTY, *MORE)


@pytest.fixture(autouse=True)
def cold(monkeypatch, tmp_path):
    """No warm-up, and a folder of its own, three deep: some values are paths upwards."""
    monkeypatch.setenv("VPO_LITE_COLD", "1")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return small_recording(tmp_path_factory.mktemp("lab")).parent


SETTINGS = [o.name for o in TrainConfig.options()] + ["layout", "reward_mode", "methods", "many"]
REQUESTS = {  # of a lab that shows a recording
    **{f"change({n})": lambda lab, v, n=n: lab.change(**{n: v}) for n in SETTINGS},
    "change(maze_seed)": lambda lab, v: lab.change(maze_seed=v),
    "change(task_options)": lambda lab, v: lab.change(task_options=v),
    "change(zz)": lambda lab, v: lab.change(zz=v),
    "change(method)": lambda lab, v: lab.change(method=v),
    "look": lambda lab, v: lab.look(v),
    "reseed": lambda lab, v: lab.reseed(v),
    "new_maze": lambda lab, v: lab.new_maze(v),
    "set_maze": lambda lab, v: lab.set_maze(v),
    "set_maze(budget)": lambda lab, v: lab.set_maze(MAZE, budget=v),
    "pick(maze)": lambda lab, v: lab.pick(maze=v, maze_budget=9),
    "pick(maze_budget)": lambda lab, v: lab.pick(maze=MAZE, maze_budget=v),
    "pick(zz)": lambda lab, v: lab.pick(zz=v),
    "pick(message)": lambda lab, v: lab.pick(v, maze_seed=1005),
    "show": lambda lab, v: lab.show(routes=v),
    "show alpha": lambda lab, v: lab.show(alpha=v),
    "pause": lambda lab, v: lab.pause(v),
    "load": lambda lab, v: lab.load(v),
    "record": lambda lab, v: lab.record(v),
    "record(command)": lambda lab, v: lab.record("folder", v),
    "join": lambda lab, v: lab.join(v),
    "figure": lambda lab, v: lab.figure(v),
    "figure(curves)": lambda lab, v: lab.figure(curves=v),
    "figure(large)": lambda lab, v: lab.figure(large=v),
    "figure(dark)": lambda lab, v: lab.figure(dark=v),
    "figure(curves, one)": lambda lab, v: lab.figure(curves=(v, "entropy")),
    "picture": lambda lab, v: lab.picture(v),
    "picture(width)": lambda lab, v: lab.picture(width=v),
}
MADE = {  # a lab from such a value
    **{f"Lab({n})": lambda v, n=n: Lab(**{n: v}) for n in SETTINGS},
    "Lab(preset)": lambda v: Lab(preset=v),
    "Lab(panel)": lambda v: Lab(panel=v),
    "Lab(maze)": lambda v: Lab(maze=v),
    "Lab(maze_seed)": lambda v: Lab(maze_seed=v),
    "Lab(maze, maze_budget)": lambda v: Lab(maze=MAZE, maze_budget=v),
    "Lab(methods of)": lambda v: Lab(methods=[v]),
    "Lab(task_options)": lambda v: Lab(task_options=v),
    "Lab(method)": lambda v: Lab(method=v),
    "Lab.from_code": lambda v: Lab.from_code(v),
    "Lab.replay": lambda v: Lab.replay(v),
    "Session(methods)": lambda v: Session(v),
    "Settings.of": lambda v: Settings.of("vpo", {}, many=v, preset=v),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_nasty_value_is_one_line_or_works(request_, recording):
    lab, refused = Lab.replay(recording), 0
    for value in VALUES:
        if lab.state != "recorded" or lab.view().settings.many is not True:
            lab = Lab.replay(recording)
        with refused_or_works(lab) as worked:
            REQUESTS[request_](lab, value)
        refused += not worked
    assert refused, "some value is wrong for every request"
    assert threading.active_count() < 20


@pytest.mark.parametrize("made", MADE)
def test_a_lab_made_from_a_nasty_value_is_one_line_or_works(made):
    refused = 0
    for value in VALUES:
        try:
            lab = MADE[made](value)
        except ValueError as error:
            check_error(error)
            refused += 1
        else:
            if isinstance(lab, Session):
                draws(lab) if isinstance(lab, Lab) else lab.sentence()
    assert refused, "some value is wrong for every argument"


@seeds(60)
def test_requests_in_any_order(seed, recording):
    rng, lab = random.Random(f"lab {seed}"), Lab.replay(recording)
    good = (1, 2, 0.3, "vpo", "grpo", ("gdpo", "vpo"), MAZE, True, None, 1003, "hard-8x8", "inf")
    for _ in range(6):
        request = REQUESTS[rng.choice(list(REQUESTS))]
        with refused_or_works(lab):
            request(lab, rng.choice(good if rng.random() < 0.7 else VALUES))


@pytest.mark.parametrize("alpha", [1e-300, 5e-324, 1e-6, 1e6, 1e100, 1e308])
@pytest.mark.parametrize("K", [64, "inf"])
def test_every_alpha_that_a_lab_takes_can_be_drawn(alpha, K, recording):
    lab = Lab.replay(recording)
    with refused_or_works(lab):
        lab.change(alpha=alpha, K=K)


def test_a_request_that_fails_late_changes_nothing(recording, monkeypatch):
    """The front, the problem or the code of new settings may be what fails."""
    lab = Lab.replay(recording)
    for name in ("encode", "Problem"):
        with monkeypatch.context() as patch:
            patch.setattr(f"vpo_lite.lab.session.{name}", None)
            before = snapshot(lab)
            for request in (lambda: lab.new_maze(1007), lambda: lab.change(layout="hard-8x8")):
                with pytest.raises((TypeError, AttributeError)):
                    request()
                assert snapshot(lab) == before
    draws(lab)


# --- another task ---------------------------------------------------------------------------------


class Corners(Task):
    """One answer, one objective each: for a lab that knows no maze."""

    name, noun = "corners", "corner"

    def instance(self, seed):
        return seed % 3

    def objectives(self, instance):
        return ("first", "second")

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words("a or b?")

    def score(self, instances, answers):
        return [np.eye(2)[[a == "b" for a in row]] for row in answers]


def test_a_code_of_another_task_is_refused_while_a_panel_of_mazes_is_open():
    code = Session("vpo", task=Corners, model="any").share()
    lab = Lab(panel="plain", maze_seed=1012)
    panel = lab.panel
    panel.pause = 0
    with refused_or_works(lab) as worked:
        lab.load(code)
    assert not worked and lab.maze_seed == 1012
    panel.controls.code.value = code
    panel.draw()
    assert "this panel shows task &#x27;maze&#x27;" in panel.status.value
    assert "cannot be drawn" not in panel.status.value
    lab.close()
    lab.load(code)  # without a panel
    draws(lab)
    other = Lab(panel="plain")
    other.panel.pause = 0
    assert other.load(Lab(("vpo", "grpo"), maze_seed=1003).share())
    other.panel.draw()
    assert "maze 1003" in other.panel.status.value
    other.close()


def test_what_belongs_to_mazes_is_refused_on_another_task():
    lab = Lab(task=Corners, model="any")
    for request in (
        lambda: lab.set_maze(MAZE),
        lambda: lab.new_maze(1003),
        lambda: lab.picture(),
        lambda: lab.figure(large="tall"),
        lambda: lab.figure(curves=("objectives",)),
        lambda: lab.figure(curves=()),
    ):
        with refused_or_works(lab) as worked:
            request()
        assert not worked
    draws(lab)


def test_what_was_good_stays_good(recording):
    lab = Lab.replay(recording)
    lab.look(1).look(None).show(routes="front").show(routes="answers", alpha=2)
    assert lab.join(0) and lab.join() and lab.figure(width=400, curves=("entropy", "best@1"))
    assert lab.picture("grpo", width=230) and lab.methods == METHODS
    assert Lab(["vpo"]).methods == ("vpo",) and Lab("grpo", many=None).many is False
    assert lab.set_maze(MAZE, budget=9).maze.budget == 9
    assert lab.set_maze("S # E\n. . .").maze.budget == 9, "kept, since it fits"
    assert lab.set_maze(lab.maze, budget=7).maze.budget == 7
    assert lab.set_maze("S " + ". " * 4 + "E\n" + ". " * 6, budget=None).maze.budget == 7
    assert json.loads(json.dumps(lab.share())) == lab.share()


def test_sizes_that_no_machine_holds_end_a_lab_in_one_line():
    """As a share code from a stranger may ask for. The lab can be used afterwards."""
    lab = Lab("vpo", threads=1)
    lab.change(group_size=10**6, prompts=10**6)
    lab.train()
    lab.join(120)
    assert lab.state == "failed"
    said = lab.view().error
    assert "this run needs about" in said and "in all: lower prompts" in said
    lab.change(group_size=2, prompts=1, steps=1)
    lab.train()
    lab.join(120)
    assert lab.state == "finished"
