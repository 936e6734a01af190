"""What is wrong with answers or their rewards is said while they are trained on: by ``vpo.train``
in warnings, by the panel in its status line, each kind once.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite.lab.session import Session
from vpo_lite.lab.words import status_line
from vpo_lite.tasks import Prompt, Task
from vpo_lite.training.watch import Watch, cut_off, faults, wrote_on

NEVER = "no answer earned more than a worthless one in b: nothing can be reinforced in it yet"
SAME = "all answers to a problem earn the same in b: this does not say which answer is better"
SCALE = "the components differ in scale: a reaches 50 above a worthless answer, b 1. Under nearly"
BELOW = "24.0% of the answers earned less in some objective than a missing answer does, so"
ABOVE = "50.0% of the answers beat the front: no point of it is as good in every objective"
SEEDS = {"train": range(10_000, 10_100), "held_out": range(4)}


class Pairs(Task):
    """Every answer is read; its rewards (a, b) are the next ones of ``earned``."""

    name, noun = "pairs", "pair"
    seeds = SEEDS
    earned = ((1, 0), (0, 1))
    known = None

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return ("a", "b")

    def front(self, instance):
        return self.known

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words("Write.")

    def parse(self, instance, text, m):
        return [None if self.earned == "none" else "x"] * m

    def max_tokens(self, instance, m, pocket=None):
        return m

    def score(self, instances, answers):
        return [np.resize(np.array(self.earned, float), (len(row), 2)) for row in answers]


def scored(task, rows, count):
    """``count`` answers of one problem, whose rewards are these rows in turn."""
    R = np.resize(np.array(rows, float), (count, 1, 2))
    return SimpleNamespace(instance=0, answers=[["x"]] * count, rewards=R)


@pytest.mark.parametrize(
    ("rows", "known", "said"),
    [
        ([(1, 0), (0, 1)], None, []),
        ([(1, 0), (0.5, 0)], None, [NEVER]),
        ([(1, 1), (0.5, 1)], None, [SAME]),
        ([(1, 1), (1, 1)], None, []),  # policies that have converged say nothing of the rewards
        ([(50, 0), (0, 1)], None, [SCALE]),
        ([(20, 0), (0, 1)], None, []),
        ([(1, 0), (0, 1), (0, -1), (1, 1)], None, [BELOW]),
        ([(1, 0), (0, 1)], [[1, 0]], [ABOVE]),
        ([(1, 0), (0, 1)], [[1, 0], [0, 1]], []),
    ],
)
def test_each_fault_is_said_once_after_fifty_answers(rows, known, said):
    task = Pairs()
    task.known = known
    watch = Watch(task)
    assert watch.look([scored(task, rows, 48)]) == [] == [*watch.now]
    found = watch.look([scored(task, rows, 2)])
    assert len(found) == len(said)
    for one, expected in zip(found, said, strict=True):
        assert one.startswith(expected)
    assert watch.look([scored(task, rows, 8)]) == [], "it was said before"
    assert len(watch.now) == len(said) and watch.asked == 58


def test_what_later_answers_mend_does_not_hold_any_more():
    watch = Watch(Pairs())
    assert watch.look([scored(watch.task, [(1, 0), (0, 0)], 60)]) == [NEVER]
    assert watch.look([scored(watch.task, [(0, 1), (1, 0)], 2)]) == [] and not watch.now


def test_one_answer_to_a_problem_says_nothing_of_equal_rewards():
    """As on an engine that scores rollout by rollout, with m = 1."""
    watch = Watch(Pairs())
    two = scored(watch.task, [(1, 1), (0, 1)], 2)
    assert watch.look([scored(watch.task, [(1, 1)], 1)] * 58) == []
    assert watch.look([two]) == [SAME]


def test_answers_that_cannot_be_read_are_told_alone():
    """Of 60 answers 54 are unread: 0.9. The rest are too few to say anything of rewards."""
    watch, few = Watch(Pairs(), unread="why?"), scored(None, [(1, 0)], 6)
    unread = SimpleNamespace(instance=0, answers=[[None]] * 54, rewards=np.zeros((54, 1, 2)))
    assert watch.look([few, unread]) == ["90% of the answers could not be read: why?"]
    small = Watch(Pairs(), small=True)
    assert small.look([few, unread]) == []
    read = Watch(Pairs())
    assert read.look([scored(None, [(1, 0)], 7), unread]) == []


def test_what_is_reached_counts_from_the_worst_vector():
    class Debts(Pairs):
        def worst(self, instance):
            return np.array([-5, -5])

    assert Watch(Debts()).look([scored(None, [(-1, -5), (-2, -5)], 60)]) == [NEVER]


def test_half_of_the_answers_may_be_repeats():
    assert not faults(Pairs(), {"same_effect_rate": 0.5})
    assert [*faults(Pairs(), {"same_effect_rate": 0.51})] == ["alike"]


def test_a_policy_made_for_its_task_may_miss_an_objective():
    small = Watch(Pairs(), small=True)
    assert small.look([scored(None, [(1, 0), (0.5, 0)], 60)]) == []
    (said,) = small.look([scored(None, [(1, 0), (50, 2)], 60)])
    assert said.startswith("the components differ in scale: a reaches 50 ")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(byte_model(tmp_path_factory.mktemp("models") / "bytes", 32, 48, 2, 2, 2))


@pytest.mark.parametrize(
    ("rows", "said"), [(((2, 0), (1, 0)), NEVER), ("none", "100% of the answers could not")]
)
def test_the_loop_warns_where_it_is_called(model, monkeypatch, rows, said):
    monkeypatch.setattr(Pairs, "earned", rows)
    if rows == "none":
        monkeypatch.setattr(Pairs, "score", lambda self, xs, rows: [[]] * len(xs))
    small = dict(task=Pairs, model=model, device="cpu", threads=1, prompts=1, group_size=12)
    config = vpo.TrainConfig.preset("demo", **small, steps=3)
    with pytest.warns(UserWarning) as told:
        for record in vpo.train(config):
            assert len(told) == (record.step > 1), "36 answers in a step"
    assert len(told) == 1 and told[0].filename == __file__
    assert str(told[0].message).startswith(said)
    kept = []
    list(vpo.train(config, tell=kept.append))
    assert kept == [str(told[0].message)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(vpo.train(config, tell=None))


@pytest.mark.slow
def test_the_panel_says_it_in_its_status_line_while_it_holds(model, monkeypatch):
    monkeypatch.setattr(Pairs, "earned", ((2, 0), (1, 0)))
    small = dict(model=model, device="cpu", threads=1, prompts=1, group_size=8, steps=3)
    session = Session(("vpo", "grpo"), task=Pairs, **small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.step().join(60)
        assert NEVER not in status_line(session.view()), "24 answers at most"
        assert session.train().join(60)
    line = str(status_line(session.view()))
    assert f"VPO: {NEVER}.<br>" in line + "<br>" and line.count("no answer earned") == 1
    monkeypatch.setattr(Pairs, "earned", ((2, 0), (1, 1)))
    assert session.train(4).join(60)
    assert session.state == "finished", session.last_error
    assert "no answer earned" not in str(status_line(session.view()))


class Untagged(Task):
    tagged_alone = False


class Lines(Task):
    def parse(self, instance, text, m):
        return text.split("\n", m - 1)


@pytest.mark.parametrize(
    "cut, read, m, task, said",
    [
        (0.6, 0.98, 1, Task, "at least 58% of the rollouts wrote on after their answer, "),
        (0.6, 0.98, 3, Task, "at least 54% of the rollouts wrote on after their 3 answers, "),
        (0.6, 0.98, 1, Untagged, "60% of the rollouts were cut off at 81 tokens: raise max_new"),
        (0.6, 0.98, 3, Lines, "60% of the rollouts were cut off at 81 tokens: raise max_new"),
        (0.6, 0.5, 1, Task, "60% of the rollouts were cut off at 81 tokens: raise max_new"),
    ],
)
def test_more_tokens_are_advised_only_where_answers_are_missing(cut, read, m, task, said):
    """A model of one's own that wrote on was to get more of them: each would have been used up."""
    config = vpo.TrainConfig(method="vpo" if m > 1 else "grpo", m=3, max_new_tokens=81)
    on = wrote_on(cut, read, m, task())
    assert cut_off(config, lambda: "81 tokens", cut=cut, on=on).startswith(said)
