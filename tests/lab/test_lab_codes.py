"""Share codes and recordings: they restore exactly, or are refused in a line that says why."""

import dataclasses
import hashlib
import json
import math
import sys

import numpy as np
import pytest
from lab_harness import SMALL, WAIT
from recorded import replayed

import vpo_lite as vpo
from vpo_lite import metrics
from vpo_lite.lab import Lab, Session
from vpo_lite.lab.packing import packed
from vpo_lite.lab.recordings import SHIPPED, read, shipped
from vpo_lite.lab.recordings.__main__ import RECORDINGS
from vpo_lite.training.config import OF_THE_MACHINE
from vpo_lite.training.record import Group, StepRecord

SAID = {"message": "", "version": 0}  # what differs between a lab and its restored twin


# --- codes ----------------------------------------------------------------------------------------


def test_share_code_restores_maze_settings_and_seeds_exactly():
    lab = Lab(
        ("vpo", "maxrl"),
        maze_seed=1012,
        alpha=0.07,
        K=math.inf,
        m=5,
        lr=3e-4,
        seed=9,
        steps=17,
    )
    again = Lab.from_code(lab.share())
    assert dataclasses.replace(again.view(), **SAID) == dataclasses.replace(lab.view(), **SAID)
    assert again.share() == lab.share() and len(lab.share()) < 160
    lab.set_maze("S . G\n. # L\nD . E", budget=9)
    again = Lab.from_code(f"  {lab.share()}\n")
    assert again.maze == lab.maze and again.maze.budget == 9 and again.config == lab.config
    assert Lab.from_code(Lab(many=True).share()).many


@pytest.mark.parametrize(
    ("begin", "change"),
    [
        (dict(methods="grpo", set_size=4), dict(methods=("vpo", "grpo"))),
        (dict(methods=("vpo", "grpo"), m=5, set_size=5), dict(m=4)),
        (dict(methods=("grpo", "vpo")), dict(m=2, group_size=2)),  # sets of 3 would not fit
    ],
)
def test_a_share_code_holds_no_size_of_sets_beside_m(begin, change):
    lab = Lab(**begin)
    before = lab.view().settings
    lab.change(**change)
    assert "set_size" not in lab.view().settings.needs_fresh_run(before)
    again = Lab.from_code(lab.share())
    for one in (lab, again):
        sizes = {config.compared_size for config in one.view().settings.configs.values()}
        assert sizes == {lab.config.m} == {lab.config.set_size}


def test_single_answers_alone_are_judged_in_sets_of_m_unless_their_size_is_given():
    lab = Lab("grpo", m=2)
    assert lab.config.compared_size == 2 and lab.change(m=4).config.compared_size == 4
    lab.change(methods=("vpo", "grpo")).change(methods="grpo", m=2)
    assert lab.config.compared_size == 2 == Lab.from_code(lab.share()).config.compared_size
    own = Lab("grpo", m=2, set_size=3)
    assert own.config.compared_size == 3 == Lab.from_code(own.share()).config.compared_size


def test_share_code_keeps_the_machine_it_is_opened_on():
    code = Lab(threads=3, device="cpu", save_every=7).share()
    again = Lab.from_code(code, threads=2)
    assert (again.config.threads, again.config.device, again.config.save_every) == (2, "auto", 1)
    assert code == Lab().share()
    machine = {"device": "cpu", "keep_texts": 9, "ignore_memory": True, "micro_batch": 2}
    assert Lab(**machine).share() == code
    content = json.dumps([["vpo"], machine, {}, False]).encode()
    by_hand = Lab.from_code(f"VPO2-{packed(content, safe=True)}").config
    assert (by_hand.device, by_hand.keep_texts, by_hand.ignore_memory) == ("auto", 0, False)


# --- recordings -----------------------------------------------------------------------------------


def assert_same_runs(ours, theirs):
    """All of the records, exactly, and what is shown of them."""
    assert list(ours.runs) == list(theirs.runs)
    for a, b in zip(ours.runs.values(), theirs.runs.values(), strict=True):
        assert a.config.but(threads=None).to_json() == b.config.but(threads=None).to_json()
        for x, y in zip(a.records, b.records, strict=True):
            assert isinstance(x, StepRecord) and x == y
            for g, h in zip(x.groups, y.groups, strict=True):
                assert isinstance(g, Group) and g.instance == h.instance
                assert (g.texts, g.answers) == (h.texts, h.answers)
                assert np.array_equal(g.rewards, h.rewards)
                assert np.array_equal(g.advantages, h.advantages, equal_nan=True)
    assert ours.sentence() == theirs.sentence()
    assert ours.figure().to_json() == theirs.figure().to_json()


@pytest.mark.slow
def test_recording_keeps_every_answer_and_replays_without_a_model(tmp_path, monkeypatch):
    lab = Lab(("vpo", "grpo"), steps=2, **SMALL)
    lab.train()
    assert lab.join(WAIT), lab.last_error
    path = lab.record(tmp_path / "run", "a command")
    lab.figure()  # loads scipy, whose first import looks into torch
    monkeypatch.setitem(sys.modules, "torch", None)  # whoever needs it now fails
    again = Lab.replay(tmp_path / "run")
    assert again.state == "recorded" and read(path).command == "a command"
    assert path == tmp_path / "run" / "recording.json"
    assert_same_runs(again, lab)
    again.look(1)
    assert again.sentence() != lab.sentence()


@pytest.mark.long
def test_a_replayed_recording_can_be_recorded_again(tmp_path):
    """0.1.0: AttributeError, since what it restored were no records."""
    shipped_one = Lab.replay("three_methods/seed-1")
    shipped_one.record(tmp_path / "once", "again")
    once = Lab.replay(tmp_path / "once")
    assert_same_runs(once, shipped_one)
    once.record(tmp_path / "twice", "again")
    files = [(tmp_path / name / "recording.json").read_bytes() for name in ("once", "twice")]
    assert files[0] == files[1]
    assert json.loads(files[0])["version"] == 2 and len(files[0]) < 300_000


@pytest.mark.long
def test_runs_on_many_mazes_are_recorded_too(tmp_path):
    lab = Lab("vpo", many=True, steps=2, **SMALL)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    lab.record(tmp_path)
    assert_same_runs(Lab.replay(tmp_path), lab)
    mazes = {group.instance for record in lab.records for group in record.groups}
    assert len(mazes) == 4
    path = tmp_path / "recording.json"
    stored = json.loads(path.read_text())
    stored["runs"][0]["config"]["seed"] = 5  # other mazes then
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="problems were made by another version"):
        Lab.replay(tmp_path)


@pytest.mark.slow
def test_a_recording_replaces_only_a_recording(tmp_path):
    lab = Lab.replay("silent_bug/a")
    path = lab.record(tmp_path, "first")
    assert lab.record(tmp_path, "second") == path and read(tmp_path).command == "second"
    for text in ("mine", "{}", path.read_text().replace('"command"', '"comment"')):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"^record replaces only a recording: ") as found:
            lab.record(tmp_path)
        said = str(found.value)
        assert str(path) in said and said.endswith("; choose another folder") and "\n" not in said
        assert path.read_text() == text
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match=r"choose another folder$"):
        lab.record(tmp_path)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "recording.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"choose another folder$"):
        lab.record(tmp_path / "linked")


@pytest.mark.parametrize(
    "given",
    [
        {"methods": "grpo"},
        {"alpha": 5.0},
        {"m": 2, "steps": 7},
        {"maze_seed": 4},
        {"maze": "S E"},
        {"task": "programs"},
        {"preset": "gpu"},
        {"many": True},
        {"nosuch": 1},
    ],
)
def test_what_a_code_or_a_recording_sets_is_refused_beside_it(given):
    names = ", ".join(given)
    takes = ", ".join(("panel", *OF_THE_MACHINE))
    code = Lab("grpo", alpha=0.3).share()
    for call, made in (("from_code", code), ("replay", "silent_bug/a")):
        with pytest.raises(ValueError, match=f"^'{names}': {call} takes {takes}; ") as found:
            getattr(Lab, call)(made, **given)
        assert "\n" not in str(found.value) and "use change(...)" in str(found.value)
    with pytest.raises(ValueError, match=r"^'panel': from_code takes device, threads, "):
        Session.from_code(Session().share(), panel="plain")


@pytest.mark.slow
def test_what_belongs_to_the_machine_is_taken_beside_a_code_or_a_recording():
    here = dict(threads=2, device="cpu", save_every=3, keep_texts=1)
    for lab in (Lab.from_code(Lab().share(), **here), Lab.replay("silent_bug/a", **here)):
        assert {name: getattr(lab.config, name) for name in here} == here
    assert type(Lab.replay("silent_bug/a", panel="plain").panel).__name__ == "PlainPanel"


@pytest.mark.slow
def test_recorded_run_can_be_trained_again_live(slow):
    lab = Lab.replay("three_methods/seed-0")
    lab.change(methods="vpo", steps=2)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished" and len(lab.runs["vpo"].records) == 2


def test_wrong_recordings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="three_methods/seed-0"):
        Lab.replay("nowhere")
    for text in ('{"version": 1}', '{"version": 3}', "{", "[]"):
        (tmp_path / "recording.json").write_text(text)
        with pytest.raises(ValueError, match="no recording that this version can read") as found:
            Lab.replay(tmp_path)
        assert len(str(found.value).splitlines()) == 1
    with pytest.raises(ValueError, match="no runs yet"):
        Lab().record(tmp_path)


SHOWN = {  # of the oldest recordings, when they were made: see `digest`
    "silent_bug/a": {
        "vpo": "408447c10090d73c",
    },
    "silent_bug/b": {
        "vpo": "4a64862650658bf4",
    },
    "silent_bug/c": {
        "vpo": "e5929e15b815002b",
    },
    "three_methods/seed-0": {
        "vpo": "4977d93887f4527e",
        "grpo": "d12e70a33acc9253",
        "multi_rlvr": "ff248e32f0b2425a",
    },
    "three_methods/seed-1": {
        "vpo": "edeea7a1662be448",
        "grpo": "588dae24d7b50217",
        "multi_rlvr": "7c7c626ea8ec3753",
    },
    "three_methods/seed-2": {
        "vpo": "08b53f74845d267f",
        "grpo": "426a10021a7d20b3",
        "multi_rlvr": "1d87e159a57366b2",
    },
}


def digest(run):
    """Of all answers and rewards, coverage, diversity and set reward."""
    found = hashlib.blake2b(digest_size=8)
    for record in run.records:
        figures = [record.step, record.coverage, record.diversity, record.set_reward]
        answers = [group.answers for group in record.groups]
        found.update(json.dumps([*figures, answers]).encode())
        for group in record.groups:
            found.update(group.rewards.astype("<f8").tobytes())
    return found.hexdigest()


LENGTHY = ("programs/seed-0", "three_methods/seed-1", "three_methods/seed-2")  # like others


def test_all_recordings_are_there():
    assert shipped() == sorted(RECORDINGS) and set(shipped()) > set(SHOWN)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name in LENGTHY else name
        for name in RECORDINGS
    ],
)
def test_recordings_that_ship_are_small_whole_and_say_how_they_were_made(name):
    assert (SHIPPED / name / "recording.json").stat().st_size < 300_000
    lab = replayed(name)
    assert read(name).command == f"python -m vpo_lite.lab.recordings . {name}"
    assert lab.view().message == "", "that is of no use to a student"
    if name in SHOWN:
        assert {method: digest(run) for method, run in lab.runs.items()} == SHOWN[name]
    methods, settings, _ = RECORDINGS[name]
    assert {*lab.runs} == ({methods} if isinstance(methods, str) else {*methods})
    for run in lab.runs.values():
        assert [r.step for r in run.records] == list(range(1, settings.get("steps", 40) + 1))
        last = run.records[-1]
        front = lab.view().front
        d = front.shape[1]
        size = len(run.moments[-1].rewards)
        sets = np.concatenate([g.rewards.reshape(-1, d) for g in last.groups])
        sets = sets[: len(sets) // size * size].reshape(-1, size, d)
        reached = np.mean([(g.rewards != 0).any(axis=-1) for g in last.groups])
        # the stored figures are those of the stored answers
        assert reached == pytest.approx(last.valid_rate, abs=1e-4)
        if size == 3 and run.method != "grpo":
            assert metrics.coverage(sets, front).mean() == pytest.approx(last.coverage, abs=1e-4)


def test_the_lab_of_the_library_is_this_one():
    assert vpo.Lab is Lab and issubclass(Lab, Session)
