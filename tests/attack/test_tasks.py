"""Tasks by other authors whose methods return what no trainer can use.

A bad value on an early problem is refused before a run is made. On a later one it is a TaskError,
and the run goes on from its last step once the task is mended. What the author's own code raises
is not changed, or is the cause of a TaskError that names the call.

Longer than 350 lines because the table of bad values stands beside the tests that all read it.
"""

import json
import math
import random
import re

import numpy as np
import pytest
from attacks import NASTY, check_error, seeds, tree
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.tasks import Prompt, Task
from vpo_lite.tasks.base import TaskError
from vpo_lite.training.contract import EARLY
from vpo_lite.training.learner import Learner
from vpo_lite.training.memory import memory_needed
from vpo_lite.training.problems import problems_of_step
from vpo_lite.training.record import StepRecord
from vpo_lite.training.step import train_step

D = 3
TRAIN, HELD_OUT = range(100, 200), (0, 1)
BASE = {"train": TRAIN, "held_out": HELD_OUT}


class Fragile(Task):
    """Each answer is one character, and earns one of three objectives.

    - broken: the name of the method that gives ``value(good)`` or raises it; None: all are well
    - on: the instances on which it does
    """

    name = "fragile"
    broken, value, on = None, None, ()

    def give(self, method, instance, good):
        if method != self.broken or instance not in self.on:
            return good
        return type(self).value(good)

    @property
    def seeds(self):
        return type(self).value(BASE) if self.broken == "seeds" else BASE

    def instance(self, seed):
        return seed

    def key(self, instance):
        return self.give("key", instance, str(instance))

    def objectives(self, instance):
        return self.give("objectives", instance, ("a", "b", "c"))

    def worst(self, instance):
        return self.give("worst", instance, np.zeros(D))

    def w_star(self, instance):
        return self.give("w_star", instance, np.full(D, 1 / D))

    def front(self, instance):
        return self.give("front", instance, np.eye(D))

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return self.give("prompt", instance, Prompt.words(f"Write {m} letters."))

    def max_tokens(self, instance, m, pocket=None):
        return self.give("max_tokens", instance, m)

    def parse(self, instance, text, m):
        good = [text[i] if i < len(text) else None for i in range(m)]
        return self.give("parse", instance, good)

    def score(self, instances, answers):
        codes = [np.array([sum(map(ord, a)) % D for a in row], dtype=int) for row in answers]
        rewards = [np.eye(D)[code] for code in codes]
        return [self.give("score", x, R) for x, R in zip(instances, rewards, strict=True)]

    def same_effect(self, instance, answer):
        return self.give("same_effect", instance, answer)

    def valid(self, instance, rewards):
        return self.give("valid", instance, rewards.any(-1))

    def solved(self, instance, rewards):
        return self.give("solved", instance, (rewards >= 1).all(-1))


EARLIER = ("key", "objectives", "worst", "w_star", "front", "prompt", "max_tokens")
EARLIER += ("valid", "solved")  # looked at before a run is made
METHODS = (*EARLIER, "parse", "score", "same_effect")


def constant(value):
    return lambda good: value


def filled(number):
    return lambda good: np.full(np.shape(good), number)


ARRAYS = {  # of vectors and of rewards
    "NaN": filled(np.nan),
    "infinite": filled(-np.inf),
    "too large": filled(1e200),
    "masked": lambda good: np.ma.masked_array(good, mask=np.ones(np.shape(good))),
    "texts": lambda good: np.asarray(good).astype(str),
    "dates": lambda good: np.full(np.shape(good), "2020-01-01", dtype="datetime64[D]"),
    "complex": lambda good: np.asarray(good) + 0j,
    "one short": lambda good: np.asarray(good)[..., :-1],
    "deeper": lambda good: np.asarray(good)[None],
    "ragged": lambda good: [[1.0], [1.0, 2.0]],
    "None": constant(None),
}
FLAGS = {
    "numbers": lambda good: good.astype(float),
    "one": constant(True),
    "NaN": filled(np.nan),
    "texts": lambda good: good.astype(str),
    "masked": ARRAYS["masked"],
    "None": constant(None),
    "deeper": lambda good: good[..., None],
}
SURROGATE = Prompt.words("\ud800")
BAD = {
    "key": {"None": constant(None), "NaN": constant(np.nan), "NUL": constant("a\0")},
    "objectives": {
        "None": constant(None),
        "text": constant("abc"),
        "twice": constant(("a", "a", "b")),
        "number": constant(("a", 1, "b")),
        "surrogate": constant(("a", "\ud800", "b")),
        "NUL": constant(("a", "\0", "b")),
        "none": constant(()),
        "unhashable": constant((["a"], "b", "c")),
    },
    "worst": ARRAYS,
    "w_star": ARRAYS,
    "front": {k: v for k, v in ARRAYS.items() if k not in ("None", "deeper")}
    | {"deeper": lambda good: good[None], "empty": constant([]), "worthless": filled(0.0)},
    "prompt": {
        "text": constant("write"),
        "empty": constant(Prompt()),
        "surrogate": constant(SURROGATE),
        "no content": constant(Prompt(({"role": "user"},))),
        "content": constant(Prompt(({"role": "user", "content": 5},))),
        "no list": constant(Prompt(5)),
        "no mapping": constant(Prompt((5,))),
        "symbols": constant(Prompt(symbols="a b")),
    },
    "max_tokens": {
        "none": constant(0),
        "part": constant(2.5),
        "text": constant("3"),
        "truth": constant(True),
        "many": constant(2**40),
    },
    "valid": FLAGS,
    "solved": FLAGS,
    "parse": {"text": constant("abc"), "None": constant(None), "short": constant([None])},
    "score": ARRAYS,
    "same_effect": {"list": constant([]), "in a tuple": constant(([],))}
    | {"None": constant(None), "NaN": constant(math.nan), "NaN in a tuple": constant((math.nan,))},
}
SEEDS = {
    "None": None,
    "a list": [1, 2],
    "a number": {**BASE, "train": 5},
    "text": {**BASE, "held_out": "abc"},
    "empty": {**BASE, "train": []},
    "uncounted": {**BASE, "train": range(2**64)},
    "no split": {"train": TRAIN},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A language model of random parameters that reads and writes bytes."""
    return str(byte_model(tmp_path_factory.mktemp("models") / "bytes", 16, 16, 1, 2, 2))


def config_of(model, **changes):
    small = dict(prompts=2, group_size=4, steps=2, device="cpu", threads=1, rank=2)
    return vpo.TrainConfig.preset("demo", task=Fragile, model=model, **small | changes)


@pytest.fixture(scope="module")
def learner(model):
    return Learner(config_of(model))


def later_problems():
    """Problems of the second step that neither the first step nor the contract looks at."""
    steps = [problems_of_step(Fragile(), 0, step, 2) for step in (0, 1)]
    found = set(steps[1]) - set(steps[0]) - set(TRAIN[:EARLY])
    assert found
    return found


def break_it(monkeypatch, method, value, on=(*TRAIN, *HELD_OUT)):
    monkeypatch.setattr(Fragile, "broken", method)
    monkeypatch.setattr(Fragile, "value", staticmethod(value))
    monkeypatch.setattr(Fragile, "on", on)


def command(model, out):
    small = ["--prompts", "2", "--group-size", "4", "--steps", "2", "--threads", "1", "--rank", "2"]
    task = ["--task", "test_tasks:Fragile", "--model", model, "--device", "cpu"]
    return ["train", *task, *small, "--json", "--out", str(out)]


def cases(methods):
    return pytest.mark.parametrize(
        ("method", "case"), [(name, case) for name in methods for case in BAD[name]]
    )


def one_line(capsys, method):
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "task 'fragile'" in error and len(error) < 1000
    said = {"score": "scor", "parse": "parsed"}.get(method, method)
    assert said in error, error


@cases(EARLIER)
def test_a_bad_value_on_the_first_problem_is_refused_before_anything_is_written(
    model, learner, monkeypatch, method, case
):
    break_it(monkeypatch, method, BAD[method][case])
    with pytest.raises(TaskError) as caught:
        Learner(config_of(model), policy=learner.policy)
    check_error(caught.value)
    assert "task 'fragile'" in str(caught.value) and method in str(caught.value)


@pytest.mark.parametrize("method", [*EARLIER, "seeds"])
def test_the_command_line_says_it_in_one_line_with_status_2(
    model, monkeypatch, tmp_path, capsys, method
):
    value = constant(SEEDS["None"]) if method == "seeds" else list(BAD[method].values())[-1]
    break_it(monkeypatch, method, value)
    assert main(command(model, tmp_path / "run")) == 2
    one_line(capsys, method)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("case", SEEDS)
def test_seeds_that_hold_no_problems_are_refused(model, learner, monkeypatch, case):
    break_it(monkeypatch, "seeds", constant(SEEDS[case]))
    with pytest.raises(TaskError, match=r"task 'fragile': seeds") as caught:
        Learner(config_of(model), policy=learner.policy)
    check_error(caught.value)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """The summary of a run of the task in its right mind, without timings."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(command(model, out)) == 0
    return summary_of(out)


def summary_of(folder):
    summary = json.loads((folder / "summary.json").read_text())
    return {
        k: v for k, v in summary.items() if k not in ("seconds", "rollout_share", "scoring_share")
    }


@pytest.mark.parametrize(
    "method",
    [m if m in ("score", "prompt") else pytest.param(m, marks=pytest.mark.long) for m in METHODS],
)
def test_on_a_later_problem_the_run_stops_in_one_line_and_goes_on_once_mended(
    model, whole, monkeypatch, tmp_path, capsys, method
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        break_it(patch, method, next(iter(BAD[method].values())), later_problems())
        assert main(command(model, out)) == 1
        one_line(capsys, method)
        assert len((out / "metrics.jsonl").read_text().splitlines()) == 1
        before = tree(out)
        assert main(["train", "--resume", str(out), "--json"]) == 1
        one_line(capsys, method)
        assert tree(out) == before
    assert main(["train", "--resume", str(out), "--json"]) == 0
    assert summary_of(out) == whole


@cases(METHODS)
def test_every_bad_value_on_a_later_problem_is_a_task_error(
    model, learner, monkeypatch, method, case
):
    config = config_of(model)
    break_it(monkeypatch, method, BAD[method][case], later_problems())
    ready = Learner(config, policy=learner.policy)
    assert train_step(ready, config, 0).step == 1
    with pytest.raises(TaskError) as caught:
        train_step(ready, config, 1)
    check_error(caught.value)
    assert "task 'fragile'" in str(caught.value)


def test_a_score_that_is_no_number_is_named_with_its_answer(model, learner, monkeypatch):
    def one_bad(good):
        return [[str(x) for x in row] if i == 1 else list(row) for i, row in enumerate(good)]

    break_it(monkeypatch, "score", one_bad)
    with pytest.raises(TaskError, match=r"score\(...\) gave answer '.*' the rewards \['"):
        run_once(learner, config_of(model))


def test_a_worthless_front_is_told_to_be_none_and_none_has_no_coverage(model, learner, monkeypatch):
    break_it(monkeypatch, "front", filled(0.0))
    with pytest.raises(TaskError, match=r"front\(instance\): .*; return None"):
        run_once(learner, config_of(model))
    break_it(monkeypatch, "front", constant(None))
    figures, record = run_once(learner, config_of(model))
    assert figures["coverage"] is None and record.coverage is None


@pytest.mark.parametrize("kind", [KeyError, ValueError])
@pytest.mark.parametrize("method", METHODS)
def test_what_the_authors_code_raises_is_kept(model, learner, monkeypatch, method, kind):
    raised = kind("mine")

    def fail(good):
        raise raised

    break_it(monkeypatch, method, fail)
    named = method in ("prompt", "parse", "score")  # as an error of a reward function
    with pytest.raises(TaskError if named else kind) as caught:
        run_once(learner, config_of(model))
    assert (caught.value.__cause__ if named else caught.value) is raised
    if named:
        said = rf"task 'fragile': {method}\(.*\) raised {kind.__name__}: '?mine'? \(test_tasks.py"
        assert re.match(said, str(caught.value))


def run_once(learner, config):
    """What a run does with a task, without its folder."""
    ready = Learner(config, policy=learner.policy)
    memory_needed(ready.policy, config, ready.task)
    figures = vpo.evaluate(ready.policy, config, answers=3, task=ready.task)
    return figures, train_step(ready, config, 0)


@seeds(100)
def test_any_value_of_any_method_is_a_working_step_or_one_task_error(
    model, learner, monkeypatch, seed
):
    rng = random.Random(f"tasks {seed}")
    method = (*METHODS, "seeds")[seed % (len(METHODS) + 1)]
    known = [*BAD[method].values()] if method in BAD else [*map(constant, SEEDS.values())]
    value = rng.choice((constant(rng.choice(NASTY)), within(rng), rng.choice(known)))
    break_it(monkeypatch, method, value, rng.choice(((*TRAIN, *HELD_OUT), TRAIN, HELD_OUT)))
    try:
        figures, record = run_once(learner, config_of(model))
    except TaskError as error:
        check_error(error)
        assert "task 'fragile'" in str(error)
        return
    assert json.dumps(figures, allow_nan=False)
    assert StepRecord.from_json(json.loads(json.dumps(record.to_json()))).step == 1


def within(rng):
    """A change that puts a nasty value in one place of a good one."""
    nasty, at, split = rng.choice(NASTY), rng.randrange(D), rng.choice(list(BASE))

    def change(good):
        if isinstance(good, dict):
            return {**good, split: nasty}
        parts = good.tolist() if isinstance(good, np.ndarray) else good
        if not isinstance(parts, list | tuple) or not parts:
            return nasty
        parts = list(parts)
        parts[at % len(parts)] = nasty
        return parts

    return change
