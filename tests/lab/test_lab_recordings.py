"""Any run of a lab is recorded and replayed whole: many mazes, changed, paused, trained on."""

import dataclasses

import pytest
from lab_harness import SMALL, WAIT, until

from vpo_lite.lab import Lab
from vpo_lite.lab.recordings import FILE, read
from vpo_lite.lab.stretch import Track

pytestmark = pytest.mark.usefixtures("here")


def trained(lab, steps):
    lab.train(steps)
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    return lab


def assert_replays(lab):
    """Replayed, all is as it was: settings, steps, answers, what is drawn and said, in its order.
    Recorded again, it is the same file.
    """
    path = lab.record(command="a command")
    again = Lab.replay(path.parent)
    ours, theirs = lab.view(), again.view()
    assert again.share() == lab.share() and again.sentence() == lab.sentence()
    assert [r.method for r in ours.on_show()] == [r.method for r in theirs.on_show()]
    assert ours.problem == theirs.problem and ours.active == theirs.active
    assert list(lab.runs) == list(again.runs)
    for method, run in lab.runs.items():
        replayed = again.runs[method]
        assert run.config.but(model="auto", threads=None) == replayed.config.but(model="auto")
        assert run.records == replayed.records
        for a, b in zip(run.records, replayed.records, strict=True):
            for g, h in zip(a.groups, b.groups, strict=True):
                assert (g.instance, g.texts, g.answers) == (h.instance, h.texts, h.answers)
                assert (g.rewards == h.rewards).all() and (g.advantages == h.advantages).all()
        for a, b in zip(run.moments, replayed.moments, strict=True):
            assert a.answers == b.answers and (a.rewards == b.rewards).all()
    second = again.record()
    assert second != path and second.read_bytes() == path.read_bytes()
    assert again.runs and read(second.parent).command == "a command"
    return again


@pytest.mark.slow
def test_many_mazes_and_settings_changed_in_the_middle():
    lab = trained(Lab(("vpo", "grpo"), many=True, m=2, **SMALL), 1)
    trained(lab.change(alpha=0.1, K=4, m=3, group_size=4, prompts=1), 2)
    again = assert_replays(lab)
    first, second = again.records
    assert (first.alpha, first.K, first.m) == (1.0, 64, 2)
    assert (second.alpha, second.K, second.m) == (0.1, 4, 3)
    assert [len(r.groups) for r in again.records] == [2, 1]
    for run in again.runs.values():  # compared at equal answers, whatever m was
        assert [len(moment.rewards) for moment in run.moments] == [2, 3]
    assert len({g.instance for r in again.records for g in r.groups}) == 3
    lab.change(alpha=5.0, m=4)  # not trained with: the runs stay what they were
    assert_replays(lab)


@pytest.mark.long
def test_paused_then_gone_on_then_stopped():
    lab = Lab(maze_seed="compromise", **SMALL)
    lab.step().join(WAIT)
    assert lab.state == "paused" and len(assert_replays(lab).records) == 1
    trained(lab, 2)
    assert len(assert_replays(lab).records) == 2
    lab.train(1000)
    assert until(lambda: len(lab.records) >= 3)
    assert len(Lab.replay(lab.record().parent).records) >= 3, "a run under way"
    lab.train()  # the replay's making paused it
    lab.stop()
    assert lab.join(WAIT) and lab.state == "stopped"
    assert_replays(lab)


@pytest.mark.long
def test_a_replayed_run_trained_on_and_recorded():
    """Train does the runs of a recording again. Those of other methods stay beside them."""
    replayed = assert_replays(trained(Lab(("vpo", "grpo"), many=True, **SMALL), 1))
    trained(replayed, 2)
    assert [len(run.records) for run in replayed.runs.values()] == [2, 2]
    path = replayed.record()
    assert read(path.parent).command == "", "another command made these"
    trained(replayed.change(methods="multi_rlvr", m=2), 1)
    again = assert_replays(replayed)
    assert set(again.runs) == {"vpo", "grpo", "multi_rlvr"} and again.methods == ("multi_rlvr",)
    assert again.view().active == ("multi_rlvr",) and again.view().focus.method == "multi_rlvr"


@pytest.mark.slow
def test_a_recording_asks_for_no_fresh_run():
    """Train does it again from step 1 in any case."""
    again = Lab.replay("silent_bug/a").change(seed=9, methods="grpo")
    assert again.view().restart == "" and again.view().active == ("vpo",)


@pytest.mark.slow
def test_without_a_folder_nothing_is_overwritten(here):
    lab = Lab.replay("silent_bug/a")
    names = [f"vpo-maze-1000-{n}" for n in (1, 2, 3)]
    assert [lab.record().parent.name for _ in range(2)] == names[:2]
    (here / "recordings" / names[0] / FILE).write_text("mine")
    path = lab.record()
    assert path.resolve() == here / "recordings" / names[2] / FILE
    assert (here / "recordings" / names[0] / FILE).read_text() == "mine"
    message = lab.view().message
    assert str(path) in message and f"Lab.replay({str(path.parent)!r})" in message
    assert Lab.replay(path).records == lab.records


@pytest.mark.slow
def test_the_folder_says_which_problem():
    run = Lab.replay("silent_bug/a").runs["vpo"]

    def name(lab):
        lab._tracks = {"vpo": Track(dataclasses.replace(run, config=lab.config))}
        return lab.record().parent.name

    assert name(Lab(maze="S . G\n# . .\nD . E")) == "vpo-one-maze-1"
    assert name(Lab(maze_seed="fork")) == "vpo-maze-1001-1"
    assert name(Lab(many=True)) == "vpo-many-mazes-1"


@pytest.mark.slow
def test_what_cannot_be_written_leaves_no_folder(here, monkeypatch):
    lab = Lab.replay("silent_bug/a")
    monkeypatch.setattr("vpo_lite.lab.recordings.MOST_NUMBERS", 10)
    with pytest.raises(ValueError, match="train fewer steps"):
        lab.record()
    assert list((here / "recordings").iterdir()) == []
    (here / "recordings").rmdir()
    (here / "recordings").write_text("a file")
    with pytest.raises(ValueError, match="vpo-maze-1000-1: cannot be made") as found:
        lab.record()
    assert "\n" not in str(found.value) and (here / "recordings").read_text() == "a file"
    with pytest.raises(ValueError, match="no runs yet; train, and wait until a step has ended"):
        Lab().record()
