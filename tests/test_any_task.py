"""Any task: one that the library has never heard of, whose d differs from problem to problem and
whose front nobody knows.
"""

import argparse
import importlib
import itertools
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite.checks import shown
from vpo_lite.cli import flags, main
from vpo_lite.files import DamagedError
from vpo_lite.pages import write_report
from vpo_lite.tasks import Option, Prompt, Task, task_class, task_name, task_names
from vpo_lite.tasks.base import TaskError
from vpo_lite.training.answers import read_answers, score_answers
from vpo_lite.training.contract import below_worst, check_early_problems, prompt_of
from vpo_lite.training.learner import Learner
from vpo_lite.training.resuming import check_unchanged
from vpo_lite.training.run import Run

ROOT = Path(__file__).resolve().parent.parent
TASK = '''
import numpy as np
from vpo_lite.tasks import Option, Prompt, Task


class Letters(Task):
    """Each answer is one character; it earns the one objective that its code leaves over."""

    name, noun = "letters", "row"
    options = (Option("most", int, 4, "largest number of objectives", least=2),)
    seeds = {"train": range(10_000, 20_000), "held_out": range(8)}  # few, to be measured soon

    def instance(self, seed):
        return 2 + seed % (self.most - 1)  # the number of objectives

    def objectives(self, instance):
        return tuple(f"rest {i}" for i in range(instance))

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words(f"Write {m} letters for {instance}.", system="You write letters.")

    def parse(self, instance, text, m):
        return [text[i] if i < len(text) else None for i in range(m)]

    def max_tokens(self, instance, m, pocket=None):
        return m

    def score(self, instances, answers):
        return [
            np.eye(d)[np.array([ord(a) % d for a in row], dtype=int)]
            for d, row in zip(instances, answers)
        ]
'''
exec(compile(TASK, "letters.py", "exec"), made := {"__name__": "letters_of_the_test"})
Letters = made["Letters"]


def test_a_problem_is_solved_by_all_that_there_is_and_by_nothing_less():
    """pass@k counts it. Rounding is 1e-9 here, and a thousandth is none."""

    class Fronted(Letters):
        def front(self, instance):
            return np.eye(instance)

    for task, whole in ((Letters(), [1, 1, 1]), (Fronted(), [0, 1, 0])):
        whole = np.array(whole, float)
        for less, solved in ((0, True), (1e-12, True), (1e-6, False), (1e-3, False)):
            assert task.solved(3, whole * (1 - less)).item() is solved, (task, less)


def test_a_completion_in_words_has_room_for_the_tags_of_each_answer():
    """Of 30 tokens, and 16 for <answer_1> and </answer_1>; 1 ends the text."""

    class Words(Task):
        answer_tokens = 30

    assert [Words().max_tokens(None, m) for m in (1, 3)] == [47, 139]
    Words.answer_symbols = 5  # each with two tags
    assert Words().max_tokens(None, 3, pocket={}) == 22


def test_a_learner_checks_a_K_that_is_too_large_whenever_it_comes(monkeypatch):
    config = vpo.TrainConfig.preset("demo", maze_seed=1000, K=8)
    learner = Learner(config)
    monkeypatch.setattr("vpo_lite.checks.MOST_VALUES", 255)
    with pytest.raises(ValueError, match=r"K = 64 weights for 4 objectives are 256 numbers"):
        learner.check(config.but(K=64))


@pytest.fixture(scope="module", autouse=True)
def importable():
    """The class under a module name of its own, as a notebook's or a user's file would have it."""
    module = type(sys)("letters_of_the_test")
    module.Letters = Letters
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A language model of random parameters that reads and writes bytes."""
    return str(byte_model(tmp_path_factory.mktemp("models") / "bytes", 32, 48, 2, 2, 2))


def config(model, **changes):
    small = dict(
        task=Letters, model=model, prompts=3, group_size=4, steps=3, device="cpu", threads=1
    )
    return vpo.TrainConfig.preset("demo", **small | changes)


def test_the_task_is_short():
    assert len(TASK.strip().splitlines()) < 50


@pytest.mark.parametrize("method", list(vpo.METHODS))
def test_every_method_trains_on_it(model, method):
    if vpo.METHODS[method].weight_in_prompt:
        pytest.skip("this task does not show weights")
    if vpo.METHODS[method].recombines:  # it cuts answers out of texts by their tags
        with pytest.raises(ValueError, match="task 'letters' has a parser of its own: use method"):
            next(vpo.train(config(model, method=method)))
        return
    records = list(vpo.train(config(model, method=method, steps=2)))
    assert [r.step for r in records] == [1, 2]
    for record in records:
        assert record.coverage is None and record.objectives == {}
        assert 0 <= record.set_reward <= 1 and 0 <= record.diversity <= 2
    sizes = {group.rewards.shape[-1] for r in records for group in r.groups}
    assert len(sizes) > 1  # d differs from prompt to prompt


def test_a_method_that_this_task_cannot_have_is_refused_on_the_way_too(model):
    """A new learner refused both; one that was there trained them: on prompts without weights, and
    on texts cut out of answers that have no tags."""
    walk = vpo.train(config(model))
    next(walk)
    with pytest.raises(ValueError, match="does not show its weights, and this method needs them"):
        walk.send(config(model, method="goal_conditioned"))
    learner = Learner(config(model))
    with pytest.raises(ValueError, match="task 'letters' has a parser of its own: use method"):
        next(vpo.train(config(model, method="vpo_recombined"), learner=learner))


@pytest.mark.slow
def test_rewards_are_the_scorers_and_figures_are_their_definitions(model):
    (record,) = vpo.train(config(model, steps=1))
    utilities, valid = [], []
    for group in record.groups:
        d = group.instance
        for row, vectors in zip(group.answers, group.rewards, strict=True):
            expected = [np.eye(d)[ord(a) % d] if a else np.zeros(d) for a in row]
            assert np.array_equal(vectors, expected)
            utilities.append(vpo.exact_set_reward(vectors))
            valid += [a is not None for a in row]
    assert record.set_reward == pytest.approx(np.mean(utilities))
    assert record.valid_rate == record.parse_rate == pytest.approx(np.mean(valid))
    assert record.solved_rate == 0  # no character earns all objectives


def test_evaluate_and_a_policy_object(model):
    learner = Learner(config(model))
    figures = vpo.evaluate(learner.policy, config(model), problems=4, answers=6)
    assert figures["problems"] == 3 and figures["coverage"] is None
    assert figures["objectives"] == {}  # 2, 3 and 4 objectives among the problems
    assert figures["pass_at_k"]["3"] == 0
    asked = dict(problems=2, answers=6)
    of_five = vpo.evaluate(learner.policy, config(model, seed=5), **asked)
    assert of_five == vpo.evaluate(learner.policy, config(model), seed=5, **asked)  # the run's own
    assert of_five != vpo.evaluate(learner.policy, config(model), **asked)


@pytest.mark.slow
def test_a_task_with_few_problems_is_measured_on_all_of_them(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Letters, "seeds", {"train": range(3), "held_out": [7, 8]})
    run = Run.begin(config(model, steps=1), tmp_path / "few")
    assert run.start()["problems"] == 2
    list(run.steps())
    assert run.finish()["problems"] == 2
    with pytest.raises(ValueError, match="problems = 64: of the 2 held-out problems"):
        vpo.evaluate(run.learner.policy, config(model), problems=64)
    for count, status in (("2", 0), ("3", 2), ("0", 2)):
        command = ["evaluate", str(tmp_path / "few"), "--problems", count, "--answers", "3"]
        assert main(command) == status
    assert "of the 2 held-out problems" in capsys.readouterr().err


@pytest.mark.slow
def test_the_report_on_its_rewards_knows_the_closed_form(model, capsys):
    """An answer earns one objective of d, so U(all) = H_d / d, and one answer is worth 1/d."""
    asked = ["report", "--task", "letters_of_the_test:Letters", "--model", model, "--device", "cpu"]
    assert main([*asked, "--problems", "3", "--answers", "60", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = np.mean([1 / sum(1 / i for i in range(1, d + 1)) for d in (2, 3, 4)])
    assert found["coverage"]["1"] == pytest.approx(expected)
    assert found["objectives"] == [] and found["dimensions"] == 3  # 2, 3 and 4 objectives
    assert found["true_front"] is None
    assert main([*asked, "--problems", "2", "--answers", "9", "--most", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 components: rest 0, rest 1" in out and "true front" not in out


@pytest.mark.slow
def test_the_report_shows_what_was_written_and_what_it_earned(model, monkeypatch, capsys):
    monkeypatch.setattr(Letters, "parse", lambda self, x, text, m: ["a", None, "b"])
    asked = ["report", "--task", "letters_of_the_test:Letters", "--model", model, "--device", "cpu"]
    asked += ["--problems", "1", "--answers", "6"]  # d = 2: a is 97, and leaves 1 over; b is 98
    assert main([*asked, "--show", "2"]) == 0
    out = capsys.readouterr().out
    assert "The first request:\n\nYou write letters.\n\nWrite 3 letters for 2." in out
    earned = "answer 1: rest 0 0, rest 1 1\nanswer 2: cannot be read\nanswer 3: rest 0 1, rest 1 0"
    assert out.count(earned) == 2 and "Completion 2:" in out and "Completion 3:" not in out
    cure = "If this is wrong, define `valid(instance, rewards)` in the class of your task."
    assert cure in " ".join(out.split())
    assert main(asked) == 0
    assert "Completion" not in capsys.readouterr().out
    assert main([*asked, "--show", "-1"]) == 2
    assert "--show -1: must be 0 or more" in capsys.readouterr().err
    monkeypatch.setattr(Letters, "parse", lambda self, x, text, m: [None] * m)
    assert main(asked) == 0  # nothing can be read: then one is shown in any case
    out = capsys.readouterr().out
    assert "answer 3: cannot be read" in out and "try an instruct model or a larger one" in out
    monkeypatch.setattr(Letters, "parse", lambda self, x, text, m: ["a"] * m)
    monkeypatch.setattr(Letters, "worst", lambda self, x: np.eye(x)[0])
    assert main(asked) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "100.0% of the answers earned less in some objective than a missing answer does" in out


TICKS = itertools.count()
WRONG = {  # method or attribute of the task -> (what stands there, what is said of it)
    "worst": (lambda self, x: np.zeros(9), r"worst\(instance\) has shape \(9,\): expected \(3,\)"),
    "w_star": (lambda self, x: np.ones(1), r"w_star\(instance\) has shape \(1,\)"),
    "valid": (lambda self, x, r: True, r"valid\(instance, rewards\) has shape \(\)"),
    "solved": (lambda self, x, r: r > 0, r"solved\(instance, rewards\) has shape \(2, 3, 3\)"),
    "key": (
        lambda self, x: str(next(TICKS)),
        "two problems of different keys",
    ),
    "objectives": (lambda self, x: (), "named no objective"),
    "front": (lambda self, x: np.eye(9), r"front\(instance\): front has shape \(9, 9\): expected"),
    "prompt": (lambda self, x, m, **_: "write", "gave 'write': expected a Prompt"),
    "max_tokens": (lambda self, x, m, pocket=None: 0, r"max_tokens\(...\) = 0"),
    "seeds": ({"train": range(3)}, r"seeds\['held_out'\] must be"),
}
NO_SEEDS = (["a", "b"], [0.5, 1.5], np.array([0.5]), [True], ("a",))


@pytest.mark.parametrize("name", WRONG)
def test_a_task_that_cannot_work_is_refused_before_a_run_is_made(
    model, tmp_path, monkeypatch, name
):
    wrong, said = WRONG[name]
    monkeypatch.setattr(Letters, name, wrong)
    with pytest.raises(ValueError, match=f"task 'letters': .*{said}"):
        Run.begin(config(model), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", NO_SEEDS)
def test_seeds_that_are_no_whole_numbers_are_refused_before_a_run_is_made(
    model, tmp_path, monkeypatch, seeds
):
    """A text failed in the first step, and 1.5 stood for problem 1."""
    monkeypatch.setattr(Letters, "seeds", {"train": seeds, "held_out": [7]})
    said = r"task 'letters': seeds\['train'\] begins with .*: must be whole numbers"
    with pytest.raises(ValueError, match=said):
        Run.begin(config(model), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Prompt(), "either messages or symbols"),
        (Prompt(({"role": "user", "content": "x"},), "a b"), "either messages or symbols"),
        (Prompt(symbols="a b"), "this model is asked in words"),
        (Prompt(({"text": "x"},)), "a role and a content"),
    ],
)
def test_a_prompt_that_this_model_cannot_read_is_refused(model, monkeypatch, given, said):
    monkeypatch.setattr(Letters, "prompt", lambda self, x, m, **_: given)
    with pytest.raises(ValueError, match=said):
        Learner(config(model))


@pytest.mark.parametrize("parsed", [["x"], ["x"] * 4, "abc", None, ["x", None, 3]])
def test_a_parser_that_gives_anything_but_m_answers_is_named(monkeypatch, parsed):
    task = Letters()
    monkeypatch.setattr(Letters, "parse", lambda self, x, text, m: parsed)
    with pytest.raises(
        ValueError, match=r"task 'letters' parsed 'abc' as .*expected a list of m = 3"
    ):
        read_answers(task, [2], [["abc"]], 3)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([np.zeros((3, 2))], " of 1 problems: expected 2"),
        ([np.zeros((3, 2)), np.zeros((2, 3))], r"shape \(2, 3\): expected \(3, 3\)"),
        ([np.zeros((3, 2)), np.zeros((0, 3))], r"shape \(0, 3\): expected \(3, 3\)"),
        ([np.zeros((3, 2)), [[0.0], [0.0, 1.0]]], "no array of numbers: expected"),
        ([np.zeros((3, 2)), [["good"] * 9] * 2], "no array of numbers: expected"),
    ],
)
def test_scores_of_the_wrong_form_are_named(monkeypatch, scores, said):
    task = Letters()
    monkeypatch.setattr(Letters, "score", lambda self, instances, answers: scores)
    with pytest.raises(ValueError, match=f"task 'letters' gave scores.*{said}"):
        read_answers(task, [2, 3], [["abc"], ["abc"]], 3)


@pytest.mark.slow
def test_rows_of_a_comparison_name_the_task_where_it_differs_and_no_row_holds_a_file(
    model, tmp_path, monkeypatch
):
    text = Option("text", str, None, "a text file", file=True)
    monkeypatch.setattr(Letters, "options", (*Letters.options, text))

    class Others(Letters):
        name = "others"

    sys.modules[Letters.__module__].Others = Others
    Others.__module__, Others.__qualname__ = Letters.__module__, "Others"
    made = {
        "a": config(model, steps=1, method="grpo", text="line\n" * 500),
        "b": config(model, steps=1, method="grpo", most=2),
        "c": config(model, steps=1, task=Others),
    }
    for name, settings in made.items():
        run = Run.begin(settings, tmp_path / name)
        list(run.steps())
        run.finish()
    labels = [row["label"] for row in vpo.compare([tmp_path / name for name in made])]
    assert labels[0].startswith(
        "grpo, task=letters_of_the_test:Letters, eval_problems=3, most=4, text=text "
    )
    assert labels[1] == (
        "grpo, task=letters_of_the_test:Letters, eval_problems=1, most=2, text=None"
    )
    assert labels[2] == "vpo, task=letters_of_the_test:Others"
    assert max(map(len, labels)) < 100
    rows = vpo.compare([tmp_path / "a"])
    page = write_report([tmp_path / "a"], tmp_path / "r.html", rows).read_text()
    page = page[page.index("<h2>Settings") :]
    assert "(3,002 characters)" in page and page.count("line") < 100


@pytest.mark.slow
def test_a_method_that_shows_weights_needs_a_prompt_that_shows_them(model, monkeypatch):
    goals = config(model, method="goal_conditioned", steps=1)
    said = "does not show its weights.*: write weights into the request, or train random_weighting"
    with pytest.raises(ValueError, match=said):
        Learner(goals)
    monkeypatch.setattr(Letters, "instance", lambda self, seed: 1 + seed % 4)
    assert Letters().instance(Letters.seeds["train"][0]) == 1
    with pytest.raises(ValueError, match=said):  # with one objective there is nothing to show
        Learner(goals)
    monkeypatch.setattr(
        Letters, "prompt", lambda self, x, m, *, weights=None, **_: Prompt.words(f"{x} {weights}")
    )
    assert [record.step for record in vpo.train(goals)] == [1]


def test_a_prompt_without_room_for_weights_is_named_before_training(model, monkeypatch):
    monkeypatch.setattr(Letters, "prompt", lambda self, x, m: Prompt.words(x))
    with pytest.raises(
        ValueError, match=r"prompt\(instance, m\) must take weights=None and pocket"
    ):
        Learner(config(model))


def test_a_task_with_another_attribute_of_our_name_is_named_before_training(model, monkeypatch):
    """As a task of one's own may keep its functions. The end of a run asked them, and failed."""
    monkeypatch.setattr(Letters, "reward_functions", [len], raising=False)
    with pytest.raises(ValueError, match="task 'letters': reward_functions must be None or"):
        Learner(config(model))


def test_more_weights_than_can_be_drawn_are_refused_before_the_first_step(model):
    class Wide(Letters):
        def objectives(self, instance):
            return tuple(map(str, range(100)))

    cfg = config(model).but(K=1_000_000)
    with pytest.raises(ValueError, match=r"100,000,000 numbers, at most 67,108,864 .*lower K"):
        Learner(cfg, task=Wide())
    Learner(cfg.but(K=math.inf), task=Wide())


def test_a_lab_on_another_task_ignores_no_setting(model):
    small = dict(task=Letters, model=model)
    for foreign in ({"maze_seed": 3}, {"maze_seed": 1000}, {"maze": "S . E"}):
        with pytest.raises(ValueError, match="unknown setting 'maze"):
            vpo.Lab(**small, **foreign)
    with pytest.raises(ValueError, match=r"^'most': singles out no problem; .* that do: none;"):
        vpo.Lab(**small).pick(most=3)
    lab = vpo.Lab(maze_seed=1001)
    with pytest.raises(
        ValueError, match=r"^'pick\(\)': .* that do: maze_seed, maze, maze_budget; "
    ):
        lab.pick()  # it trained on many mazes then
    assert lab.config.task_options == {"maze_seed": 1001}
    with pytest.raises(ValueError, match="there is no 'gold'"):
        vpo.Lab(**small).figure(curves=("diversity", "gold"))
    with pytest.raises(ValueError, match="'zz': figure takes curves, large, dark"):
        vpo.Lab(**small).figure(zz=1)
    with pytest.raises(ValueError, match=r"^dark = 5: must be True or False"):
        vpo.Lab(**small).figure(dark=5)


def test_a_run_whose_task_cannot_be_found_says_so(model, tmp_path, monkeypatch):
    Run.begin(config(model), tmp_path / "a")
    monkeypatch.delitem(sys.modules, Letters.__module__)
    with pytest.raises(ValueError, match=r"config.json: task '.*:Letters': cannot be found"):
        Run.resume(tmp_path / "a")


def test_an_option_that_singles_out_a_problem_makes_the_task_single_unless_it_says_otherwise():
    class One(Letters):
        options = (Option("which", int, None, "the one row"), Option("near", int, None, "another"))
        singles_out = ("near", "which")

    assert [One().single, One(which=0).single, One(near=3).single] == [False, True, True]
    assert not Letters().single

    class Stated(One):
        single = True

    class Found(One):
        def __init__(self, **options):
            super().__init__(**options)
            self.single = self.which == 3

    assert Stated().single and [Found(which=2).single, Found(which=3).single] == [False, True]


def test_an_option_that_singles_out_a_problem_and_is_ignored_is_refused():
    """Training went on with many problems, and was measured on another, without a word."""

    class Ignored(Letters):
        options = (Option("which", int, None, "the one row", least=0), *Letters.options)
        singles_out = ("which",)

    said = (
        "^task 'letters': which = 2 means one problem for all seeds, but seeds 10000 and {} give "
        "two: let instance.seed. return that problem for every seed$"
    )
    with pytest.raises(TaskError, match=said.format(10001)):
        check_early_problems(Ignored(which=2), 3, None)
    check_early_problems(Ignored(), 3, None)

    class Heeded(Ignored):
        def instance(self, seed):
            return super().instance(seed if self.which is None else self.which)

    check_early_problems(Heeded(which=2), 3, None)

    class OnlyInTraining(Ignored):
        def instance(self, seed):
            return 2 + (seed < 10_000)

    with pytest.raises(TaskError, match=said.format(0)):
        check_early_problems(OnlyInTraining(which=2), 3, None)


@pytest.mark.parametrize("name", task_names())
def test_of_no_problems_there_are_no_rewards(name):
    assert list(task_class(name)().score([], [])) == []


def test_a_task_that_ships_has_the_name_that_the_table_says():
    assert all(task_class(name).name == name for name in task_names())
    assert task_names() == sorted(task_names())


def test_a_task_may_score_answer_by_answer():
    class OneByOne(Letters):
        score = Task.score

        def vector(self, instance, answer):
            return [float(ord(answer) % instance == i) for i in range(instance)]

    d, texts = [2, 3, 4], [["a", "b"], [], ["z"]]  # codes 97, 98 and 122
    scored = OneByOne().score(d, texts)
    assert [R.tolist() for R in scored] == [[[0, 1], [1, 0]], [], [[0, 0, 1, 0]]]
    assert [R.shape for R in scored] == [(2, 2), (0, 3), (1, 4)]
    assert {R.dtype for R in scored} == {np.dtype(float)}


ONE_STEP = ("train", "--task", "letters_of_the_test:Letters", "--steps", "1", "--prompts", "1")
ONE_STEP += ("--group-size", "2", "--device", "cpu", "--threads", "1")


@pytest.mark.parametrize("worst", [0, pytest.param(-1, marks=pytest.mark.slow)])
def test_answers_that_earn_less_than_a_missing_one_are_named(
    model, tmp_path, monkeypatch, capsys, worst
):
    """Every answer costs 1, which is less than the 0 that nothing costs by default."""
    monkeypatch.setattr(
        Letters,
        "score",
        lambda self, xs, rows: [-np.ones((len(row), x)) for x, row in zip(xs, rows, strict=True)],
    )
    monkeypatch.setattr(Letters, "worst", lambda self, x: np.full(x, float(worst)))
    asked = (*ONE_STEP, "--model", model, "--out", str(tmp_path / "run"), "--json")
    assert main(asked) == 0
    out, said = capsys.readouterr()
    share = json.loads(out)["start"]["parse_rate"] if worst == 0 else 0.0
    assert json.loads(out)["start"]["below_worst_rate"] == pytest.approx(share)
    warned = f"before training, {share:.1%} of the answers earned less in some objective than"
    assert (warned in said) == (worst == 0), said


@pytest.mark.slow
@pytest.mark.parametrize("known", [1, 2, None])
def test_answers_that_beat_the_front_are_named(model, tmp_path, monkeypatch, capsys, known):
    """An answer earns one of two objectives. A front without the second gave a wrong coverage."""
    monkeypatch.setattr(Letters, "front", lambda self, x: known and np.eye(x)[:known])
    task = ("--task", "letters_of_the_test:Letters", "--most", "2", "--model", model)
    assert main([*ONE_STEP, *task[2:], "--out", str(tmp_path / "run"), "--json"]) == 0
    out, said = capsys.readouterr()
    start = json.loads(out)["start"]
    share = {1: start["objectives"]["rest 1"], 2: 0, None: None}[known]
    assert start["above_front_rate"] == (None if share is None else pytest.approx(share))
    assert bool(share) == (known == 1) == ("beat the front" in said)
    assert main(["report", *task, "--answers", "20", "--problems", "4"]) == 0
    assert (known == 1) == ("beat the front" in capsys.readouterr().out)


def test_a_share_below_the_worst_leaves_out_what_rounding_misses():
    """Of four answers one lies below (0, -10) by more than 1e-6 of the size."""
    R = np.array([[0, -10], [-1e-17, -10], [0, -10 - 1e-6], [0, -10.001]])
    task = Letters()
    task.worst = lambda x: np.array([0.0, -10.0])
    assert below_worst(task, 2, R) == 0.25


@pytest.mark.parametrize("large", [20, pytest.param(21, marks=pytest.mark.slow)])
def test_objectives_of_very_different_scale_are_named(model, tmp_path, monkeypatch, capsys, large):
    """A missing answer earns (1, 1), any other (1 + large, 2)."""
    monkeypatch.setattr(
        Letters,
        "score",
        lambda self, xs, rows: [np.tile([1.0 + large, 2.0], (len(row), 1)) for row in rows],
    )
    monkeypatch.setattr(Letters, "worst", lambda self, x: np.ones(x))
    asked = (*ONE_STEP, "--model", model, "--most", "2", "--out", str(tmp_path / "run"), "--json")
    assert main(asked) == 0
    out, said = capsys.readouterr()
    assert json.loads(out)["start"]["reached"] == {"rest 0": large, "rest 1": 1}
    warned = f"before training, the components differ in scale: rest 0 reaches {large} above"
    assert (warned in said) == (large > 20), said


@pytest.mark.parametrize("broken", [pytest.param(math.nan, marks=pytest.mark.slow), "down"])
def test_a_judge_that_fails_leaves_a_run_that_goes_on(model, tmp_path, monkeypatch, capsys, broken):
    def fails(self, instances, answers):
        if broken == "down":
            raise ConnectionAbortedError  # an OSError
        return [np.full((len(row), x), broken) for x, row in zip(instances, answers, strict=True)]

    out = tmp_path / "run"
    asked = (*ONE_STEP, "--model", model, "--out", str(out))
    with monkeypatch.context() as patch:
        patch.setattr(Letters, "score", fails)
        assert main(asked) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.endswith(f"then: vpo-lite train --resume {out}")
        patch.undo()
        patch.setattr(Letters, "same_effect", lambda *_: 1 / 0)  # neither parser nor scorer
        assert main(["train", "--resume", str(out)]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith("vpo-lite: ZeroDivisionError: division by zero (test_any_task.py, ")
        assert said.endswith(f"; fix this, then: vpo-lite train --resume {out}")
    assert main(["train", "--resume", str(out)]) == 0


class Faulty(Letters):
    """Each method that a task always writes raises where it is told to."""

    fault = ""

    def prompt(self, instance, m, **how):
        return super().prompt(instance, m, **how) if self.fault != "prompt" else {}["m"]

    def parse(self, instance, text, m):
        if self.fault == "read":
            return Task.parse(self, instance, f"<answer_1>{text}</answer_1>", 1)
        return super().parse(instance, text, m) if self.fault != "parse" else text.lines

    def read(self, instance, body):
        return body[99]

    def score(self, instances, answers):
        if self.fault == "vector":
            return Task.score(self, instances, answers)
        return super().score(instances, answers) if self.fault != "score" else [1 / 0]

    def vector(self, instance, answer):
        return [
            float(answer),
            0,
        ]


@pytest.mark.parametrize(
    ("fault", "said", "line"),
    [
        ("prompt", "prompt(instance, 1) raised KeyError: 'm'", '{}["m"]'),
        ("parse", "parse(instance, 'b', 1) raised AttributeError: 'str' object", "text.lines"),
        ("read", "parse(instance, 'b', 1) raised IndexError: string index", "body[99]"),
        ("score", "score(...) raised ZeroDivisionError: division by zero", "[1 / 0]"),
        ("vector", "vector(instance, 'b') raised ValueError: could not", "float(answer),"),
    ],
)
def test_an_error_of_a_tasks_own_code_names_the_call_and_its_line(monkeypatch, fault, said, line):
    """It ended in a traceback that named neither problem nor answer."""
    monkeypatch.setattr(Faulty, "fault", fault)
    text = Path(__file__).read_text(encoding="utf-8")
    number = text[: text.index(line)].count("\n") + 1
    with pytest.raises(TaskError) as caught:
        prompt_of(Faulty(), 2, 1)
        read_answers(Faulty(), [2], [["b"]], 1)
    assert str(caught.value).startswith(f"task 'letters': {said}")
    assert str(caught.value).endswith(f" (test_any_task.py, line {number})")


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (None, "did you forget return"),
        ([1], "expected a hashable value"),
        (math.nan, "NaN is not equal to itself"),
        ((1.0, "x", np.float32("nan")), "NaN is not equal to itself"),
    ],
)
def test_an_effect_that_tells_no_repeats_is_named(monkeypatch, effect, said):
    monkeypatch.setattr(Letters, "same_effect", lambda *_: effect)
    with pytest.raises(TaskError, match=f"task 'letters': same_effect.*: .*{said}"):
        read_answers(Letters(), [2], [["b"]], 1)


def test_an_error_in_a_task_of_ours_keeps_its_traceback(monkeypatch):
    """It is a fault of the library. Too little memory is nobody's: training names the cure."""
    maze = task_class("maze")(maze_seed=1000)
    monkeypatch.setattr(type(maze), "parse", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        read_answers(maze, [maze.instance(0)], [["b"]], 1)

    def full(self, instances, answers):
        raise MemoryError

    monkeypatch.setattr(Letters, "score", full)
    with pytest.raises(MemoryError):
        read_answers(Letters(), [2], [["b"]], 1)


def test_a_vector_of_a_wrong_length_is_refused_with_its_shape():
    class Short(Letters):
        score = Task.score

        def vector(self, instance, answer):
            return [1.0, 0.0]

    said = r"vector\(instance, 'a'\) gave \[1.0, 0.0\]: expected d = 4 numbers$"
    with pytest.raises(TaskError, match=said):
        score_answers(Short(), [4], [[["a"], ["b"]]])


@pytest.mark.parametrize(
    "vector",
    [["0.5 points", "1"], ["1", "0"], {"rest 0": 1}, [1, [0]], [None, 0], None, 0.5, [1, 0, 0]],
    ids=repr,
)
def test_a_vector_that_is_none_is_named_with_its_answer(vector):
    """The first vector of a step was blamed, and texts of numbers were taken."""

    class Odd(Letters):
        score = Task.score

        def vector(self, instance, answer):
            return vector if answer == "b" else [1, 0]

    said = (
        rf"^task 'letters': vector\(instance, 'b'\) gave {re.escape(shown(vector))}: expected d = 2"
    )
    with pytest.raises(TaskError, match=said):
        score_answers(Odd(), [2], [[["a"], ["b"]]])


@pytest.mark.parametrize("scores", [None, 0.5])
def test_scores_that_are_no_list_are_named(scores):
    class Odd(Letters):
        def score(self, instances, answers):
            return scores

    with pytest.raises(TaskError, match=rf"score\(...\) gave {scores}: expected a list of 1 array"):
        score_answers(Odd(), [2], [[["a"], ["b"]]])


def test_a_class_that_gave_its_name_away_trains_no_other(model):
    """A run finds its task by the name, and so another class was trained, without a word."""
    globals()["Renamed"] = first = type("Renamed", (Letters,), {"__module__": __name__})
    try:
        assert config(model, task=first).task == f"{__name__}:Renamed"
        globals()["Renamed"] = type("Renamed", (Letters,), {"__module__": __name__})
        with pytest.raises(ValueError, match="another class has this name by now"):
            config(model, task=first)
    finally:
        del globals()["Renamed"]

    class Inside(Letters):
        pass

    with pytest.raises(ValueError, match="defined inside of a function; define it outside"):
        config(model, task=Inside)


def test_a_task_that_scores_nothing_says_what_it_lacks():
    class Bare(Letters):
        score = Task.score

    with pytest.raises(ValueError, match=r"'letters' must define score\(instances, answers\)"):
        Bare().score([2], [["a"]])


def test_a_model_in_words_writes_up_to_a_hundred_answers_and_all_are_read(model):
    """A pocket policy has words for the numbers that it was trained on, and for no others."""
    task = config(model, task="functions", m=100).make_task()
    x, answers = task.instance(0), [str(i) for i in range(1, 101)]
    assert "<answer_100> ... </answer_100>" in task.prompt(x, 100).text
    assert task.parse(x, task.write(x, answers), 100) == answers
    with pytest.raises(ValueError, match=r"m = 101: .*at most 100"):
        config(model, m=101)
    with pytest.raises(ValueError, match="m = 101: this policy writes 1 to 100 answers"):
        task.check_policy(101, None)
    with pytest.raises(ValueError, match="m = 10: this policy writes 1 to 5 answers"):
        vpo.TrainConfig.preset("demo", task="programs", m=10)


@pytest.mark.parametrize("name", ["maze", "programs", "calls", "hops", "chains"])
def test_generated_problems_are_asked_for_many_answers_in_words(name, model):
    task = vpo.TrainConfig.preset("demo", task=name, model=model, m=12).make_task()
    text = task.prompt(task.instance(0), 12).text
    assert "12 " in text and f"<{task.tag}_12> ... </{task.tag}_12>" in text


def test_a_step_with_twelve_answers_trains_on_all_of_them(model):
    (record,) = vpo.train(config(model, m=12, steps=1))
    assert {group.rewards.shape[1] for group in record.groups} == {12}
    late = [a for group in record.groups for row in group.answers for a in row[9:]]
    assert set(late) - {None} and record.gradient_norm > 0


@pytest.mark.slow
def test_a_run_is_made_compared_and_resumed_from_python(model, tmp_path):
    run = Run.begin(config(model), tmp_path / "a")
    run.start()
    assert [r.step for r in run.steps()] == [1, 2, 3]
    summary = run.finish()
    cut = Run.begin(config(model), tmp_path / "b")
    cut.start()
    next(cut.steps())  # and is heard of no more
    again = Run.resume(tmp_path / "b")
    assert again.first == 1
    list(again.steps())
    other = again.finish()
    timings = {"seconds", "rollout_share", "scoring_share"}
    assert {k: v for k, v in summary.items() if k not in timings} == {
        k: v for k, v in other.items() if k not in timings
    }
    (row,) = vpo.compare([tmp_path / "a"])
    assert row["coverage"] is None and row["set_reward"] == summary["set_reward"]
    assert row["pass_at_k"] == summary["pass_at_k"]
    with pytest.raises(ValueError, match=r"b: the same run as .*a: same settings, seed 0; leave"):
        vpo.compare([tmp_path / "a", tmp_path / "b"])


@pytest.mark.long
def test_the_command_line_takes_it_by_module_and_class_and_a_kill_loses_nothing(
    model, tmp_path, monkeypatch, capsys
):
    """A process of its own is killed: it finds the class in the folder in which it starts."""
    (tmp_path / "letters.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = [
        "train",
        "--task",
        "letters:Letters",
        "--most",
        "3",
        "--model",
        model,
        "--prompts",
        "2",
        "--group-size",
        "4",
    ]
    small += ["--steps", "30", "--threads", "1", "--device", "cpu", "--json", "--out"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    assert main([*small, "whole"]) == 0
    whole = capsys.readouterr().out
    command = [sys.executable, "-m", "vpo_lite.cli", *small, "cut"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-3, stderr=-3)
    metrics, end = tmp_path / "cut" / "metrics.jsonl", time.monotonic() + 120
    while time.monotonic() < end and not (
        metrics.exists() and metrics.read_text().count("\n") >= 3
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut" / "summary.json").exists()
    assert main(["train", "--resume", "cut", "--json"]) == 0
    a, b = json.loads(whole), json.loads(capsys.readouterr().out)
    timings = {"seconds", "rollout_share", "scoring_share"}
    assert {k: v for k, v in a.items() if k not in timings} == {
        k: v for k, v in b.items() if k not in timings
    }
    stored = json.loads((tmp_path / "cut" / "config.json").read_text())
    assert (stored["task"], stored["task_options"]) == ("letters:Letters", {"most": 3})
    assert main(["compare", "cut"]) == 0 and "vpo" in capsys.readouterr().out
    del sys.modules["letters"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--task", "letters_of_the_test:Letters", "--most", "1"],
            "most = 1: must be a whole number, 2 or more",
        ),
        (["--task", "letters_of_the_test:Letters"], "no shipped policy reads task"),
        (["--task", "letters_of_the_test:Nothing"], "cannot be found"),
        (["--task", "nowhere_at_all:Letters"], "cannot be found"),
        (["--task", "json:dumps"], "no class derived from"),
        (["--most", "3"], "--most"),
    ],
)
def test_wrong_tasks_and_options_get_one_line_and_status_2(
    arguments, said, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and said in error
    assert list(tmp_path.iterdir()) == []


METHOD = """

import vpo_lite as vpo


@vpo.estimators.method()
def beside_the_task(R, *, eps, **_):
    score = R.mean(axis=(2, 3))
    return score, vpo.estimators.zscore(score, eps)
"""


@pytest.mark.slow
def test_the_command_line_trains_by_a_method_in_the_file_of_the_task(
    model, tmp_path, monkeypatch, capsys
):
    """As the reference says. In a file beside it the method is unknown."""
    (tmp_path / "task_and_method.py").write_text(TASK + METHOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run = (
        "--model {} --prompts 2 --group-size 2 --steps 1 --eval-problems 1 --eval-answers 3 --out r"
    )
    asked = ["train", "--method", "beside_the_task", *run.format(model).split()]
    assert main(asked) == 2 and "unknown method" in capsys.readouterr().err
    assert main([*asked, "--task", "task_and_method:Letters"]) == 0
    stored = json.loads((tmp_path / "r" / "config.json").read_text())
    assert stored["method"] == "task_and_method:beside_the_task"
    assert main(["train", "--resume", "r", "--steps", "2"]) == 0


@pytest.mark.slow
def test_a_run_names_the_module_of_a_method_of_ones_own(model, tmp_path, monkeypatch, capsys):
    """Another process finds the method again: to resume, evaluate and compare the run."""
    (tmp_path / "my_methods.py").write_text(f"{METHOD}\n\ndef plain(R, **_): pass\n")
    (tmp_path / "others.py").write_text(METHOD)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("from my_methods import beside_the_task as ours")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def in_another_process():
        vpo.METHODS.pop("beside_the_task", None)
        sys.modules.pop("my_methods", None)

    in_another_process()
    task = ["--task", "letters_of_the_test:Letters", "--model", model]
    small = "--prompts 2 --group-size 2 --steps 1 --eval-problems 1 --eval-answers 3 --out r"
    asked = ["train", "--method", "my_methods:beside_the_task", *task, *small.split()]
    assert main(asked) == 0
    stored = json.loads((tmp_path / "r" / "config.json").read_text())
    assert stored["method"] == "my_methods:beside_the_task"
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["method"] == "beside_the_task"
    for later in (["train", "--resume", "r", "--steps", "2"], ["evaluate", "r"], ["compare", "r"]):
        in_another_process()
        assert main(later) == 0
        assert "beside_the_task   " in capsys.readouterr().out
    assert vpo.TrainConfig(method="package:ours").to_json()["method"] == stored["method"]
    assert set(stored.pop("files")) == {"method", "tokenizer"}  # the class of this task has no file
    made = vpo.TrainConfig.from_json(stored)
    assert made.method == "beside_the_task" and made.to_json() == stored
    assert made.but(method="vpo").to_json()["method"] == "vpo"
    with pytest.raises(ValueError, match="'beside_the_task' of my_methods is there already"):
        importlib.import_module("others")
    vpo.METHODS.pop("beside_the_task")
    importlib.import_module("others")  # registers its own under this name
    for name, said in {
        "my_methods:plain": "method 'my_methods:plain': decorate it with @vpo.estimators.method()",
        "my_methods:absent": "cannot be found; module my_methods has no 'absent'",
        "beside_them": "or yours as 'package.module:function'",
    }.items():
        assert main(["train", "--steps", "1", "--method", name]) == 2
        assert said in capsys.readouterr().err, name
    in_another_process()
    (tmp_path / "my_methods.py").write_text(METHOD.replace("eps,", "epsilon,"))
    assert main(["compare", "r"]) == 2
    error = capsys.readouterr().err
    assert "= 'epsilon': expected one of" in error and "line 6 of " in error
    assert error.strip().endswith("my_methods.py)")
    (tmp_path / "my_methods.py").unlink()
    assert main(["compare", "r"]) == 2
    assert "config.json: method 'my_methods:beside_the_task': cannot" in capsys.readouterr().err


def test_a_method_inside_a_class_is_recorded_with_its_class(tmp_path, monkeypatch):
    """Recorded without it, no other process found the method: the run could not be resumed."""
    method = METHOD.replace("beside_the_task", "held").strip().replace("\n", "\n    ")
    head, method = method.split("@", 1)
    text = f"{head.strip()}\n\n\nclass Mine:\n    @staticmethod\n    @{method}\n"
    (tmp_path / "methods_in_a_class.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    stored = vpo.TrainConfig(method="methods_in_a_class:Mine.held").to_json()
    assert stored["method"] == "methods_in_a_class:Mine.held"
    del vpo.METHODS["held"], sys.modules["methods_in_a_class"]  # another process
    made = vpo.TrainConfig.from_json(stored)
    assert made.method == "held" and made.to_json() == stored and made.but(m=2).method == "held"
    check_unchanged(tmp_path, {"config": json.dumps(stored)}, None, made)
    with pytest.raises(DamagedError, match="method changed since the run began"):
        check_unchanged(tmp_path, {"config": json.dumps(stored | {"method": "vpo"})}, None, made)


def test_a_config_keeps_what_differs_from_the_defaults_and_another_task_starts_anew(model):
    made = config(model, most=3)
    assert (made.task, made.task_options) == ("letters_of_the_test:Letters", {"most": 3})
    assert made.but(most=4).task_options == {} and made.but(alpha=2.0).task_options == {"most": 3}
    assert made.but(task=vpo.TrainConfig().task, model="auto").task_options == {}
    assert vpo.TrainConfig.from_json(json.loads(json.dumps(made.to_json()))) == made
    with pytest.raises(ValueError, match=r"unknown setting 'layout'.*of task 'letters': most"):
        config(model, layout="lite-6x6")


def test_names_lead_back_to_the_class():
    assert task_class(task_name(Letters))(most=5).most == 5
    assert task_name("letters:Letters") == "letters:Letters"


@pytest.mark.parametrize(
    "options",
    [
        (Option("alpha", float, 1.0, "no"),),
        (Option("resume", str, None, "no"),),
        (Option("score", float, 1.0, "no"),),
        (Option("most", int, 4, "yes"), Option("most", int, 5, "no")),
    ],
    ids=lambda options: options[-1].name,
)
def test_clashing_options_get_one_line_and_status_2(options, capsys, monkeypatch):
    monkeypatch.setattr(Letters, "options", options)
    assert main(["train", "--task", "letters_of_the_test:Letters", "--model", "none"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and options[-1].name in error and "letters" in error


def test_a_flag_turns_a_setting_on_or_off_whatever_its_default_is():
    options = Option("shown", bool, False, "show it"), Option("sure_of", bool, True, "be sure")
    parser = argparse.ArgumentParser()
    flags.add_options(parser, options)

    def read(*arguments):
        return flags.given(options, parser.parse_args(arguments))

    assert read() == {}
    assert read("--shown", "--no-sure-of") == {"shown": True, "sure_of": False}


def test_the_help_of_a_setting_may_hold_a_percent_sign():
    """Before, that of an on-off setting broke --help: argparse formats every help with %."""
    parser = argparse.ArgumentParser()
    options = Option("all", bool, False, "all 100 % of it"), Option("share", int, 5, "5 % of it")
    flags.add_options(parser, options)
    assert "all 100 % of it" in parser.format_help() and "5 % of it" in parser.format_help()


def test_an_option_may_have_the_name_of_what_the_command_line_keeps_for_itself(capsys, monkeypatch):
    monkeypatch.setattr(Letters, "options", (Option("run", int, 4, "how far", least=1),))
    monkeypatch.setattr(Letters, "instance", lambda self, seed: 1 + self.run)
    asked = ["train", "--task", "letters_of_the_test:Letters", "--model", "none"]
    assert main([*asked, "--run", "0"]) == 2
    assert "run = 0: must be a whole number, 1 or more" in capsys.readouterr().err
    assert main(asked) == 2
    assert "none" in capsys.readouterr().err  # the model


def test_odd_types_are_refused_in_words(model):
    with pytest.raises(ValueError, match="option most: its type must be int, float, str or bool"):
        Option("most", list, None, "no")
    with pytest.raises(ValueError, match="task_options = None: must be a dict"):
        config(model, task_options=None)
    with pytest.raises(ValueError, match="cannot be found"):
        config(model, task="..x:Y")
    lab = vpo.Lab(task=Letters, model=model)
    assert lab.change(task=Letters, most=5).config.task_options == {"most": 5}


def test_the_choices_of_an_option_may_be_numbers():
    size, share = (
        Option("size", int, 4, "a side", choices=(4, 6)),
        Option("share", float, 0.5, "a part", choices=(0.5, 1.0)),
    )
    assert [size.check(x) for x in (4, np.int64(6))] == [4, 6] and share.check(1) == 1
    for wrong in (5, "4", True, [4]):
        with pytest.raises(ValueError, match=r"unknown size .*: there are 4, 6"):
            size.check(wrong)


def test_a_whole_float_is_a_K_and_a_torch_device_a_device(model):
    plain = config(model, K=64, device="cpu")
    same = config(model, K=64.0, device=torch.device("cpu"))
    assert same == plain and same.to_json() == plain.to_json() and hash(same) == hash(plain)
    assert json.dumps(same.K) == "64" and config(model, K=np.float32(7)).K == 7
    assert config(model, device=torch.device("cuda", 1)).device == "cuda:1"
    assert len({plain, same, config(model, K=math.inf)}) == 2
    for wrong in (64.5, math.nan, -math.inf, -0.0, 1e300, True, "64"):
        with pytest.raises(
            ValueError, match=r"^K = .*: must be a whole number, 1 or more, at most"
        ):
            config(model, K=wrong)
    with pytest.raises(ValueError, match=r"^steps = 3.0: must be a whole number"):
        config(model, steps=3.0)
    for wrong in ("gpu", "cuda:", "cpu:0", "CPU", "", torch.device("meta")):
        with pytest.raises(
            ValueError, match=r"^unknown device .*: there are auto, cpu, cuda, cuda:N"
        ):
            config(model, device=wrong)
    for right in ("auto", "cpu", "cuda", "cuda:3", "mps"):
        assert config(model, device=right).device == right
    with pytest.raises(ValueError, match=r"^device = .*: must be a text"):
        config(model, device=torch.float32)


def test_an_option_may_not_take_the_name_of_a_setting(model, monkeypatch):
    monkeypatch.setattr(Letters, "options", (Option("alpha", float, 1.0, "no"),))
    with pytest.raises(ValueError, match="its option alpha has the name of a setting"):
        config(model)


def test_prompts_are_chat_messages_in_order():
    prompt = Prompt.words("Now?", system="Be brief.")
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert prompt.text == "Be brief.\n\nNow?"
