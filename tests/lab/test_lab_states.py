"""The lab's table of states: every request in every state, against rules written down here."""

import pytest
from lab_harness import WAIT, FakeLearner, until

from vpo_lite.lab import Lab
from vpo_lite.lab.states import AFTER, MOVES, STATES, move

STEPS = 5
CODE = Lab(maze_seed=1007).share()
BUSY = ("running", "pausing", "stopping")
END = {"running": "finished", "pausing": "paused", "stopping": "stopped"}  # left to themselves

REQUESTS = {  # name -> (row of the table, or None for what changes no state, the call)
    "train": ("train", lambda lab: lab.train()),
    "train anew": ("train_anew", lambda lab: lab.change(seed=99).train()),
    "step": ("train", lambda lab: lab.step()),
    "step anew": ("train_anew", lambda lab: lab.change(seed=99).step()),
    "pause": ("pause", lambda lab: lab.pause()),
    "stop": ("stop", lambda lab: lab.stop()),
    "reset": ("forget", lambda lab: lab.reset()),
    "reseed": ("forget", lambda lab: lab.reseed()),
    "new maze": ("forget", lambda lab: lab.new_maze()),
    "set maze": ("forget", lambda lab: lab.set_maze("S . E\n. G .\nD . .")),
    "load": ("forget", lambda lab: lab.load(CODE)),
    "change": (None, lambda lab: lab.change(alpha=0.123)),
    "look": (None, lambda lab: lab.look(1 if lab.records else None)),
    "show": (None, lambda lab: lab.show(routes="front")),
}


def lab_in(state, gate):
    """A lab in this state. In a busy state its thread stands in step 2."""
    if state == "recorded":
        return Lab.replay("few_weights/K-1", panel="plain").change(steps=STEPS)
    lab = Lab(steps=STEPS)
    if state == "idle":
        return lab
    gate.fails, gate.begun = state == "failed", 0
    gate.open(STEPS if state == "finished" else 1)
    lab.train()
    if state in ("failed", "finished"):
        assert lab.join(WAIT)
    else:
        assert until(lambda: gate.begun == 2)
    if state in ("pausing", "paused"):
        lab.pause()
    if state in ("stopping", "stopped"):
        lab.stop()
    if state in ("paused", "stopped"):
        gate.open(1)
        assert lab.join(WAIT)
    gate.fails = False
    assert lab.state == state, lab.last_error
    return lab


def expected(state, request):
    """(state right after the request, what becomes of the runs, state when all threads ended)."""
    if request in ("reset", "reseed", "new maze", "set maze", "load"):
        return "idle", "gone", "idle"
    if request in ("change", "look", "show"):
        return state, "kept", END.get(state, state)
    if request == "pause":
        after = "pausing" if state == "running" else state  # Stop stays Stop
        return after, "kept", END.get(after, after)
    if request == "stop":
        after = "stopping" if state in BUSY else "stopped" if state == "paused" else state
        return after, "kept", END.get(after, after)
    anew, one = request.endswith("anew"), request.startswith("step")
    if state == "running" and not anew:
        return "running", "kept", "finished"  # it trains already
    goes_on = state in ("paused", "pausing") and not anew
    return "running", "kept" if goes_on else "fresh", "paused" if one else "finished"


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_every_request_in_every_state(state, request_, gate):
    row, ask = REQUESTS[request_]
    lab = lab_in(state, gate)
    # The finished lab has no steps left: Train begins again. A test of its own adds steps.
    runs, stretch = dict(lab.runs), lab.view().active
    after, becomes, end = expected(state, request_)
    ask(lab)
    assert lab.state == after
    # A change of seed needs a fresh run only where there is one to compare with.
    if row and (not row.endswith("anew") or state in (*BUSY, "paused", "finished")):
        assert move(row, state)[1] == after
    begun = {m: len(run.records) for m, run in runs.items()}
    now = {m: len(run.records) for m, run in lab.runs.items()}
    if becomes == "gone":
        assert lab.runs == {} and lab.records == []
    elif becomes == "kept":
        assert now == begun and lab.view().active == stretch
    else:
        assert now == dict.fromkeys(lab.methods, 0)
    gate.open(100)
    assert until(lambda: lab.state == end), (lab.state, lab.last_error)
    assert lab.join(WAIT) and lab.state == end
    if end == "finished" and state != "recorded":
        assert [r.step for r in lab.records] == [*range(1, STEPS + 1)]


def test_steps_added_to_a_finished_run_go_on_from_its_end(gate):
    lab = lab_in("finished", gate)
    assert move("train", "finished") == ("go_on", "running")
    before = lab.records
    gate.open(100)
    lab.train(steps=STEPS + 2)
    assert lab.join(WAIT) and [r.step for r in lab.records] == [*range(1, STEPS + 3)]
    assert lab.records[:STEPS] == before


@pytest.mark.parametrize("state", STATES)
def test_the_end_of_the_thread_in_every_state(state):
    """Only a busy lab hears of it: the thread of forgotten runs changes nothing."""
    for row in ("thread_done", "thread_left", "thread_failed"):
        after = move(row, state)[1]
        if state not in BUSY:
            assert after == state
        elif row == "thread_failed":
            assert after == "failed"
        elif state == "running":
            assert after == {"thread_done": "finished", "thread_left": "paused"}[row]
        else:
            assert after == END[state]


def test_an_error_while_it_halts_is_a_failure(gate):
    for state in ("pausing", "stopping"):
        lab = lab_in(state, gate)
        gate.fails = True
        gate.open(1)
        assert lab.join(WAIT) and lab.state == "failed" and "as asked" in lab.last_error
        gate.fails = False


def test_a_change_while_the_policy_loads_acts_from_the_first_step(slow, monkeypatch):
    """Before, that step trained with the old settings, and was judged by the new ones."""
    lab = Lab(steps=1)

    class Loading(FakeLearner):
        def __init__(self, config):
            super().__init__(config)
            lab.change(alpha=0.25, m=2)

    monkeypatch.setattr("vpo_lite.training.learner.Learner", Loading)
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    (record,), (moment,) = lab.records, lab.runs["vpo"].moments
    assert (record.alpha, record.m, len(moment.rewards)) == (0.25, 2, 2)


def test_the_table_is_whole():
    requests = {request for request, _ in MOVES}
    assert set(MOVES) == {(request, state) for request in requests for state in STATES}
    ends = {"thread_done", "thread_left", "thread_failed"}
    assert requests == {row for row, _ in REQUESTS.values() if row} | ends
    assert set(MOVES.values()) == set(AFTER), "every move is used, and none is unknown"
    assert {after for after in AFTER.values() if after} <= set(STATES)
