"""Runs that the lab forgot, by Reset, another problem or a code, can be shown again."""

import pytest
from lab_harness import WAIT, training_threads, until

from vpo_lite.lab import Lab
from vpo_lite.lab.controls import NO_NAME
from vpo_lite.lab.drawings import board_groups
from vpo_lite.lab.gallery import NAMES
from vpo_lite.lab.words import status_line

FORGETS = {
    "reset": lambda lab: lab.reset(),
    "reseed": lambda lab: lab.reseed(),
    "next maze": lambda lab: lab.new_maze(),
    "a named maze": lambda lab: lab.new_maze("fork"),
    "a painted maze": lambda lab: lab.set_maze("S . E\n. G .\nD . ."),
    "a code": lambda lab: lab.load(Lab("maxrl", maze_seed=1007).share()),
}


def trained(methods="vpo", steps=2, **settings):
    lab = Lab(methods, steps=steps, **settings)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    return lab


@pytest.mark.slow
@pytest.mark.parametrize("forget", FORGETS)
def test_bring_back_shows_the_runs_as_a_recording_and_train_does_them_again(slow, forget):
    lab = trained(("vpo", "grpo"), alpha=0.3)
    code, runs, said = lab.share(), lab.runs, lab.sentence()
    FORGETS[forget](lab)
    assert lab.state == "idle" and not lab.runs
    message = lab.view().message
    assert message.endswith("The runs of 2 steps are gone; Bring back shows them again."), message
    lab.change(alpha=5.0)
    assert lab.bring_back() is lab and lab.state == "recorded" and lab.share() == code
    assert lab.runs == runs and list(lab.runs) == ["vpo", "grpo"] and lab.sentence() == said
    assert lab.view().active == ("vpo", "grpo") and "gone" not in status_line(lab.view())
    before = len(slow)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and len(slow) == before + 4, "from step 1"


@pytest.mark.slow
def test_of_five_runs_of_other_methods_than_those_chosen_the_last_three_are_drawn(slow):
    """The panel could not be drawn: it has room for three."""
    lab = trained(("vpo", "grpo", "multi_rlvr"), steps=1)
    lab.change(methods=("gdpo", "maxrl")).train()
    assert lab.join(WAIT) and len(lab.runs) == 5
    lab.change(methods="set_max").reset().bring_back()
    assert lab.view().active == ("multi_rlvr", "gdpo", "maxrl") and len(lab.runs) == 5
    assert lab.figure() and len(board_groups(lab.view())) == 3


def test_there_is_nothing_to_bring_back_before_a_step_and_after_close(gate):
    lab = Lab(steps=5)
    for forget in FORGETS.values():
        forget(lab)
        assert not lab.view().forgotten and "gone" not in lab.view().message
        with pytest.raises(ValueError, match="bring_back: no runs were forgotten"):
            lab.bring_back()
    lab.train().reset()  # without a step
    assert not lab.view().forgotten
    gate.open(100)
    lab.train()
    assert until(lambda: lab.state == "finished")
    lab.close()
    assert not lab.view().forgotten, "it would keep the runs in memory"


@pytest.mark.slow
def test_only_runs_take_the_place_of_what_is_kept(slow):
    lab = trained(steps=3)
    first = lab.runs
    lab.reset().new_maze().reseed().reset()
    assert lab.view().forgotten, "these forgot nothing"
    assert lab.bring_back().runs == first and not lab.view().forgotten
    lab.new_maze().new_maze()
    assert lab.bring_back().runs == first


@pytest.mark.slow
def test_two_runs_change_places(slow):
    lab = trained(steps=3)
    first = lab.runs
    lab.reset().change(steps=1).train()
    assert lab.join(WAIT)
    second = lab.runs
    for runs in (first, second, first):
        assert lab.bring_back().runs == runs


def test_a_reset_while_it_trains_keeps_the_steps_that_were_shown(gate):
    lab = Lab(steps=5).train()
    gate.open(2)
    assert until(lambda: gate.begun == 3)
    shown = lab.records
    lab.reset()
    gate.open(1)
    assert until(lambda: not training_threads())
    lab.bring_back()
    assert len(shown) == 2 and lab.records == shown and lab.state == "recorded"


def test_fresh_runs_without_a_step_do_not_take_the_place_of_those_before(gate):
    gate.open(3)
    lab = Lab(steps=3).train()
    assert lab.join(WAIT)
    done = lab.records
    gate.begun = 0
    lab.train()
    assert until(lambda: gate.begun == 1) and not lab.records
    lab.reset()
    gate.open(1)
    assert until(lambda: not training_threads())
    assert lab.bring_back().records == done


def test_a_recording_that_is_brought_back_keeps_its_command(tmp_path):
    lab = Lab.replay("few_weights/K-1")
    made_by = lab.record(tmp_path).read_bytes()
    assert b"vpo_lite.lab.recordings" in made_by
    lab.reset().bring_back()
    assert lab.record(tmp_path).read_bytes() == made_by


# --- in the panel ---------------------------------------------------------------------------------


@pytest.fixture
def panel(slow):
    lab = trained(panel="plain")
    lab.panel.pause = 0.0
    yield lab.panel
    lab.close()


@pytest.mark.slow
def test_reset_becomes_bring_back_while_it_has_nothing_to_do(panel):
    lab, button = panel.lab, panel.controls.buttons["reset"]
    there = button.description, button.icon, button.tooltip
    assert there[0] == "Reset"
    runs = lab.runs
    button.click()
    assert not lab.runs and button.description == "Bring back", "at once, with what it does then"
    assert button.icon == "undo" and "forgotten" in button.tooltip and not button.disabled
    assert until(lambda: "Bring back shows it again" in panel.status.value)
    button.click()
    assert lab.runs == runs and lab.state == "recorded"
    assert (button.description, button.icon, button.tooltip) == there
    panel.controls.buttons["new_maze"].click()
    assert lab.maze_seed == 1001 and button.description == "Bring back"
    lab.train()
    assert lab.join(WAIT) and until(lambda: button.description == "Reset"), "there are runs now"
    assert lab.view().forgotten and lab.runs != runs


@pytest.mark.slow
def test_the_maze_that_was_shown_before_stays_in_the_list(panel):
    """1000 was gone as soon as another one was shown: nobody could return to it."""
    lab, chooser = panel.lab, panel.controls.maze

    def unnamed():
        with panel._drawing:  # not while the list changes
            return [text for text, value in chooser.options if value not in NAMES]

    assert unnamed() == ["1000"]
    lab.new_maze(1002)
    assert until(lambda: unnamed() == ["1002", "1000"]) and chooser.value == NO_NAME
    chooser.value = dict(chooser.options)["1000"]
    assert lab.maze_seed == 1000 and lab.config.m == 3
    assert until(lambda: unnamed() == ["1000", "1002"]) and chooser.value == NO_NAME
    chooser.value = "fork"
    assert until(lambda: unnamed() == ["1000"]) and lab.maze_name == "fork"
    chooser.value = "compromise"
    assert until(lambda: chooser.value == "compromise") and unnamed() == ["1000"]
    lab.new_maze(3, layout="paper-9x9")
    assert until(lambda: unnamed() == ["3", "1000, lite-6x6"])
    chooser.value = dict(chooser.options)["1000, lite-6x6"]
    assert lab.view().task.layout == "lite-6x6" and lab.maze_seed == 1000
    assert until(lambda: unnamed() == ["1000", "3, paper-9x9"])
    for text in ("S . E\n. . .\nG . .", "S . E\n. . .\nG . D"):  # painted square by square
        lab.set_maze(text)
        assert until(lambda: unnamed() == ["your own", "1000"])
        panel.draw()
    lab.new_maze(1002)
    assert until(lambda: unnamed() == ["1002", "your own"])
    chooser.value = dict(chooser.options)["your own"]
    assert lab.maze.text == text
