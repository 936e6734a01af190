"""Mistakes in a task or a method of one's own: one line that names them, and no silent end."""

import functools
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite import estimators
from vpo_lite.cli import main
from vpo_lite.cli.told import tell_of_jobs
from vpo_lite.training.config import TrainConfig

TASK = """import sys

import numpy as np

from vpo_lite.tasks import Option, Prompt, Task
from vpo_lite.tasks.records import RecordTask
from vpo_lite.tasks.rows import Row


class Good(Task):
    name = "good"
    seeds = {{"train": range(9), "held_out": range(9, 12)}}

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return "a", "b"

    def prompt(self, instance, m, **_):
        return Prompt.words(f"Say {{instance}}.")

    def parse(self, instance, text, m):
        return [text] * m

    def vector(self, instance, answer):
        return [len(answer) % 3 / 2, len(answer) % 2]


class Bad(Good):
{body}
"""


@pytest.fixture
def bad(tmp_path, monkeypatch):
    """Write a module with a task that differs from a good one in this; returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    byte_model("tiny", 16, 16, 1, 2, 2)

    def write(body: str) -> str:
        sys.modules.pop("mistaken", None)
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (tmp_path / "mistaken.py").write_text(TASK.format(body=lines))
        return "mistaken:Bad"

    return write


TRAIN = "train --model tiny --steps 1 --prompts 1 --group-size 4 --eval-problems 3 --eval-answers 3"


def train(task, *more, out="run"):
    return main([*TRAIN.split(), "--max-new-tokens", "4", "--task", task, "--out", out, *more])


@pytest.mark.parametrize("method", ["vector", "score"])
def test_a_scorer_may_be_asynchronous(bad, capsys, method):
    """A judge is asked over a network; what it raises is told as of any other scorer."""
    given = "instance, answer" if method == "vector" else "instances, answers"
    body = f"async def {method}(self, {given}):\n    return super().{method}({given})"
    assert train(bad(body), "--json") == train("mistaken:Good", "--json", out="plain") == 0
    found, plain = map(json.loads, capsys.readouterr().out.splitlines())
    assert found["set_reward"] == plain["set_reward"] > 0
    assert train(bad(f"async def {method}(self, {given}):\n    1 / 0"), out="raises") == 1
    assert f"{method}(" in (said := capsys.readouterr().err) and "ZeroDivisionError" in said


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["sys.exit()", "sys.exit(3)", "raise SystemExit('done')"])
def test_a_scorer_that_ends_the_process_does_not_end_it_in_silence(bad, capsys, ends):
    """With status 0 a job script would take a dead run for a success."""
    task = bad(f"def vector(self, instance, answer):\n    {ends}")
    assert train(task) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "code of the task or of the method ends the process: it raised SystemExit" in error
    assert re.search(
        r"\(mistaken\.py, line \d+\); fix it, then: vpo-lite train --resume run", error
    )
    report = ["report", "--task", task, "--model", "tiny", "--problems", "1", "--answers", "3"]
    assert main([*report, "--max-new-tokens", "4"]) == 1
    assert "code of a task, a method or rewards ends the process" in capsys.readouterr().err


def test_a_method_that_ends_the_process_does_not_end_it_in_silence(bad, capsys):
    task = bad("pass")
    with open("mistaken.py", "a", encoding="utf-8") as file:
        file.write("\n\nimport vpo_lite\n\n\n@vpo_lite.estimators.method()\n")
        file.write("def exits(R, **_):\n    sys.exit()\n")
    assert train(task, "--method", "mistaken:exits") == 1
    assert "ends the process: it raised SystemExit (mistaken.py, line" in capsys.readouterr().err


MISTAKES = {
    'options = ("largest",)': "options must be a tuple of vpo_lite.tasks.Option",
    'options = (Option("largest", int, 9, "n"),)\ndef __init__(self, **options):\n    pass': (
        "task 'good' has no largest: its __init__ must call super().__init__(**options)"
    ),
    "def __init__(self, a):\n    super().__init__()": (
        "task 'good' cannot be made (missing a required argument: 'a'); let __init__ take **options"
    ),
    'answer_tokens = "4"': "answer_tokens = '4': must be a whole number",
    "tag = None": "tag = None: must be a text",
    "def w_star(self, instance):\n    return [0, 0]": "w_star(instance) holds nothing but zeros",
    'def key(self, instance):\n    return "same"': "key(instance) is 'same' for problems that are",
    "def prompt(self, instance, m, **_):\n"
    '    return Prompt(messages=({"role": "system", "content": "x"},))': (
        "the last message of prompt(...) must be the user's"
    ),
    'def prompt(self, instance, m, **_):\n    return Prompt.words(" ")': "it asks nothing",
}


@pytest.mark.parametrize("body", MISTAKES)
def test_a_mistake_in_a_task_is_one_line(bad, capsys, body):
    assert train(bad(body)) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and MISTAKES[body] in error[0]


HOOKS = {
    "instance": "seed",
    "objectives": "instance",
    "prompt": "instance, m, **_",
    "parse": "instance, text, m",
    "vector": "instance, answer",
    "key": "instance",
    "w_star": "instance",
    "worst": "instance",
    "front": "instance",
    "valid": "instance, rewards",
    "solved": "instance, rewards",
    "same_effect": "instance, answer",
    "check_machine": "",
}


@pytest.mark.slow
@pytest.mark.parametrize("error", ["KeyError('gold')", "ValueError('gold')", "OSError('gold')"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_error_in_any_method_of_a_task_is_one_line_with_its_place(bad, capsys, hook, error):
    """Most were tracebacks, and the text of a ValueError stood there alone."""
    task = bad(f"def {hook}(self, {HOOKS[hook]}):\n    raise {error}")
    status, said = train(task), capsys.readouterr().err.splitlines()[-1]
    assert status == (1 if Path("run").exists() else 2)
    assert (status == 1) == said.endswith("; fix this, then: vpo-lite train --resume run")
    if hook == "check_machine" and error.startswith("ValueError"):  # it refuses by a ValueError
        assert said == "vpo-lite: gold"
        return
    kind, _, _ = error.partition("(")
    assert re.search(rf"{kind}: '?gold'? \(mistaken\.py, line \d+(, in {hook})?\)", said), said


@pytest.mark.slow
def test_a_list_that_seeds_wrap_around_is_measured_once_and_told_of(bad, capsys):
    """Without seeds of its own held-out problems were training problems, each measured often, and
    the intervals took the copies for problems.
    """
    task = bad("seeds = Task.seeds\ndef instance(self, seed):\n    return seed % 3")
    assert train(task, "--eval-problems", "60") == 0
    said = capsys.readouterr().err
    again = "3 held-out problems of 60: the others repeat one of them, and each is measured once"
    assert again in said
    assert "3 of the 3 held-out problems that are measured are trained on, too" in said
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["problems"] == len(summary["per_problem"]["set_reward"]) == 3
    assert main(["evaluate", "run", "--problems", "30"]) == 0
    assert "3 held-out problems of 30: " in capsys.readouterr().err


def test_a_study_names_what_it_lacks_and_how_many_problems_of_a_list_differ(bad, capsys):
    task = bad("seeds = Task.seeds\ndef instance(self, seed):\n    return seed % 3")
    settings = f'task = "{task}", model = "tiny", steps = 1, prompts = 1, group_size = 4'
    measured = "problems = 60, between = 3, validation = 4, answers = 3, checkpoints = 1"
    kind = "[kinds.vpo]\nlabel = 'VPO'\nsettings = {method = 'vpo'}\n"
    own = f"about = 'own'\nsettings = {{{settings}}}\nlr = [1e-3]\nseeds = 1\nbaseline = 'vpo'\n"
    Path("own.toml").write_text(f"{own}measured = {{{measured}}}\n{kind}")
    assert main(["study", "own.toml", "--plan"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        "measured.problems = 60: only 3 of these problems of task 'good' differ (held_out), and a "
        "study measures each once; write measured.problems = 3\n"
    )
    Path("own.toml").write_text(
        Path("own.toml").read_text().replace("mistaken:Bad", "mistaken:Good")
    )
    assert main(["study", "own.toml", "--plan"]) == 2
    said = capsys.readouterr().err
    assert "a study needs them; name them in its seeds, as 'validation'" in said


def test_a_setting_that_a_task_refuses_is_said_as_the_task_says_it(bad, capsys):
    body = "def __init__(self, **options):\n    raise ValueError('size = 3: must be even')"
    assert train(bad(body)) == 2
    assert capsys.readouterr().err == "vpo-lite: size = 3: must be even\n"


def test_an_error_of_ours_is_no_error_of_the_users_code(bad, monkeypatch):
    """Nor is one of a library that we call: both stay tracebacks."""
    monkeypatch.setattr("vpo_lite.cli.commands.loading", functools.partial(json.loads, "{"))
    with pytest.raises(json.JSONDecodeError):
        main(["doctor"])


def test_a_record_that_is_none_is_one_line(bad, tmp_path, capsys):
    bad("pass")
    with open("mistaken.py", "a", encoding="utf-8") as file:
        file.write(
            "\n\nclass Words(Row):\n    word: str\n\n\nclass Rows(RecordTask):\n    name = 'rows'\n"
            "    row = Words\n\n    def record(self, row):\n        pass\n"
        )
    (tmp_path / "rows.jsonl").write_text('{"word": "a"}\n')
    assert main(["data", "check", "rows.jsonl", "--task", "mistaken:Rows"]) == 2
    said = "record(row) returned None: return the problem, or raise Dropped"
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_held_out_problems_that_are_trained_on_are_said(bad, capsys):
    task = bad('seeds = {"train": [4, 5, 6], "held_out": range(5, 8)}')
    assert train(task) == 0
    said = "2 of the 3 held-out problems that are measured are trained on, too"
    assert said in capsys.readouterr().err
    assert train(bad("pass"), out="good") == 0
    assert "are trained on" not in capsys.readouterr().err


def test_a_study_tells_of_problems_in_two_of_its_splits(bad, capsys):
    stated = SimpleNamespace(measured=SimpleNamespace(problems=3, validation=2))

    def told(task, trained_on=None) -> str:
        judged = TrainConfig(task=task, model="tiny")
        config = judged if trained_on is None else judged.but(task=trained_on)
        tell_of_jobs(stated, [SimpleNamespace(config=config, judged=judged)] * 2)
        return capsys.readouterr().err

    split = '"held_out": range(5, 8), "validation": [3, 7]'
    assert told(bad(f'seeds = {{"train": [3, 5, 6], {split}}}')).splitlines() == [
        "vpo-lite: 2 of the 3 held-out problems that are measured are trained on, too: their "
        "figures say nothing about new problems",
        "vpo-lite: 1 of the 2 validation problems that are measured is trained on, too: their "
        "figures say nothing about new problems",
        "vpo-lite: 1 of the 2 validation problems is held out, too: learning rates are chosen by "
        "what is measured at the end",
    ]
    apart = bad(f'seeds = {{"train": [1], {split.replace("7", "9")}}}')
    assert told(apart) == "" == told(apart, trained_on="programs")
    assert told("programs") == ""


@pytest.mark.slow
def test_report_and_train_tell_of_rewards_by_chance(bad, capsys):
    asked = ["report", "--model", "tiny", "--problems", "2", "--answers", "6"]
    asked += ["--max-new-tokens", "4", "--task"]
    assert main([*asked, bad("pass")]) == 0 and train(bad("pass"), out="good") == 0
    assert "rewards are random" not in "".join(capsys.readouterr())
    chance = bad("def vector(self, *_):\n    return np.random.random(2)")
    assert main([*asked, chance]) == 0
    assert "rewards are random" in " ".join(capsys.readouterr().out.split())
    assert main([*asked, chance, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by_chance"] is True
    assert train(chance) == 0
    said = "before training: scored again by themselves, the answers to the first problem earn"
    assert said in capsys.readouterr().err
    assert json.loads(Path("good/summary.json").read_text())["start"]["by_chance"] is False


ALIKE = """def parse(self, instance, text, m):
    return [text + "abc"[i] for i in range(m)]
def same_effect(self, instance, answer):
    {}"""


@pytest.mark.slow
def test_a_same_effect_that_makes_most_answers_repeats_is_said_before_training(bad, capsys):
    """Of three answers with three texts the second and the third do what the first does."""
    asked = ["report", "--model", "tiny", "--problems", "3", "--answers", "15"]
    asked += ["--max-new-tokens", "4", "--task"]
    said = "100% of the answers that differ in their text from the earlier ones of their rollout"
    assert train(bad(ALIKE.format("return 0")), "--eval-answers", "15") == 0
    error = capsys.readouterr().err
    assert f"before training, {said} are repeats all the same, by same_effect of task" in error
    start = json.loads(Path("run/summary.json").read_text())["start"]
    assert start["same_effect_rate"] == 1
    assert main([*asked, "mistaken:Bad"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())

    half = bad(ALIKE.format("return answer[-1] == 'c'"))  # the second repeats, the third does not
    assert train(half, "--eval-answers", "15", out="half") == 0
    assert "same_effect" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_same_effect_without_return_is_refused(bad, capsys):
    assert train(bad(ALIKE.format("answer.strip()"))) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "= None: with None every answer would be a repeat; did you forget return?" in error


def test_a_method_says_whether_it_takes_single_answers():
    with pytest.raises(ValueError, match="single_answer = 'no': expected True or False"):
        estimators.method(single_answer="no")


def test_a_method_without_a_name_is_refused():
    with pytest.raises(ValueError, match=r"method '<lambda>' has no name .*: define it with def"):
        estimators.method()(lambda R, **_: (R, R))


def test_a_wrong_property_is_named_with_the_line_of_its_file(bad, capsys):
    task = bad("pass")
    with open("mistaken.py", "a+", encoding="utf-8") as file:
        file.write('\n\nimport vpo_lite\n@vpo_lite.estimators.method(weights="some")\n')
        file.seek(0)
        line = len(file.readlines())
        file.write("def odd(R, **_):\n    return R, R\n")
    assert train(task) == 2
    error = capsys.readouterr().err
    assert "weights = 'some': expected one of" in error and f", line {line} of " in error
    assert error.endswith("mistaken.py)\n")


def test_an_advantage_that_float32_cannot_hold_is_refused():

    @estimators.method()
    def huge(R, **_):
        score = R.mean(axis=(2, 3))
        return score, score * 1e200

    R = np.ones((1, 2, 1, 2))
    with pytest.raises(ValueError, match=r"advantage of method 'huge' is up to 1e\+200: a loss in"):
        vpo.advantages("huge", R)
    assert vpo.advantages("huge", R * 1e-180) == pytest.approx(np.full((1, 2), 1e20))


def test_an_empty_file_of_answers_is_said(tmp_path, capsys):
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n")
    data = tmp_path / "rows.jsonl"
    data.write_text('{"prompt": "a", "limit": 3}\n' * 2)
    given = ["score", "--task", "functions", "--data", str(data), "--answers", str(answers)]
    funcs = ["--reward-funcs", "vpo_lite.tasks.example_rewards:small"]
    assert main([*given, *funcs, "--json"]) == 2
    assert "holds no answer to score" in capsys.readouterr().err
    one = '{"id": "a", "record": 0, "m": 1, "text": "2"}\n'
    for content, told in ((one * 2, "id 'a' is there 2 times"), (one, "")):
        answers.write_text(content)
        assert main([*given, *funcs]) == 0
        out, err = capsys.readouterr()
        assert (
            told in err and len(out.splitlines()) == content.count("\n") and bool(err) == bool(told)
        )
