"""Rows and reward functions of one's own: read, asked, scored and trained on, as with TRL."""

import asyncio
import functools
import gc
import hashlib
import json
import math
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from small_models import byte_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2Model

import vpo_lite as vpo
from vpo_lite.cli import main, records
from vpo_lite.cli.told import HARDLY_WRITES
from vpo_lite.files import DamagedError
from vpo_lite.integrations.verl_texts import readme
from vpo_lite.policy import loading
from vpo_lite.policy.loading import load_policy
from vpo_lite.randomness import generator
from vpo_lite.tasks import example_rewards
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.functions import Asked, FunctionsTask, OfFunctions
from vpo_lite.tasks.numbered_prompts import asking, without_form
from vpo_lite.tasks.reward_functions import RewardFunctions
from vpo_lite.training import evaluate as evaluation
from vpo_lite.training import memory
from vpo_lite.training.answers import judge, read_answers
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.contract import check_early_problems
from vpo_lite.training.evaluate import held_out_seeds
from vpo_lite.training.recombine import recombine

ROOT = Path(__file__).resolve().parent.parent
MODULE = """
def text(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]

def correct(completions, total, **columns):
    return [float(str(t) in text(c)) for c, t in zip(completions, total)]

def brief(prompts, completions, **columns):
    return [None if "?" in text(c) else 1 / (1 + len(text(c))) for c in completions]

def hint(completions, note, **columns):
    return [0.0 if n is None else 1.0 for n in note]

def total_or_none(completions, total, **columns):
    return [0.0 if t is None else float(t) for t in total]

def narrow(completions):
    return [0.0] * len(completions)

def low(completions, **columns):
    return [-1.0] * len(completions)

import asyncio
import functools
import queue
import signal
import sys
import threading

MAIN = threading.main_thread()

LOOPS = []

async def later(completions, total, **columns):
    LOOPS.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return [float(str(t) in text(c)) for c, t in zip(completions, total)]

class Later:
    __call__ = staticmethod(later)

later_object = Later()
later_in_part = functools.partial(later)

async def fails(completions, **columns):
    await asyncio.sleep(0)
    raise OSError("no network")

async def leaves(completions, **columns):
    raise SystemExit(3)

TWO = asyncio.Barrier(2)
CANCELLED = queue.SimpleQueue()

async def slower(completions, **columns):
    await asyncio.wait_for(TWO.wait(), 60)  # for the other
    await asyncio.sleep(0.05)
    return [1.0] * len(completions)

async def faster(completions, **columns):
    await asyncio.wait_for(TWO.wait(), 60)
    return [2.0] * len(completions)

async def fails_later(completions, **columns):
    await asyncio.wait_for(TWO.wait(), 60)
    await asyncio.sleep(0.05)
    raise OSError("later")

async def fails_sooner(completions, **columns):
    await asyncio.wait_for(TWO.wait(), 60)
    raise OSError("sooner")

def fails_at_once(completions, **columns):
    raise OSError("at once")

async def interrupts(completions, **columns):
    while sys._current_frames()[MAIN.ident].f_code.co_name != "wait":
        await asyncio.sleep(0.01)
    signal.pthread_kill(MAIN.ident, signal.SIGINT)
    await waits(completions)

async def waits(completions, **columns):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        CANCELLED.put(1)
        raise

def hard(completions, total, **columns):
    return [float(t) for t in total]

def talks(completions, **columns):
    print("scoring")
    return [0.0] * len(completions)

def changes(prompts, completions, tags, **columns):
    for given in (prompts[0], completions, tags[0]):
        given.clear()
    return [float(len(t)) for t in tags]

def sees(prompts, completions, tags, **columns):
    return [float(len(p) + len(t)) for p, t in zip(prompts, tags)]

def ids(completions, completion_ids, **columns):
    return [0.0] * len(completions)

def misspelt(completions, totl, **columns):
    return [0.0] * len(completions)

def for_even(completions, total, **columns):
    return [None if t % 2 else 1.0 for t in total]

def never(completions, **columns):
    return [None] * len(completions)

def kinds(completions, **columns):
    return [{"last": len(text(c)) / 10, "first": 1.0} for c in completions]

kinds.objectives = ["first", "last", "never"]

def tests(completions, wanted, **columns):
    return [[float(w in text(c)) for w in row] for c, row in zip(completions, wanted)]

tests.objectives = lambda wanted, **columns: len(wanted)

number = 3
"""
MODULES = {
    "broken": "f = 1\nf = nothing\n",
    "unread": "def f(:\n",
    "lacking": "import nil\n",
    "script": "raise SystemExit(3)\n",
}
SUMS = [{"prompt": f"{a} + 2 = ?", "total": a + 2} for a in range(10)]
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with ``my_rewards.py``, and a function that writes rows and makes the task."""
    for name, text in {"my_rewards": MODULE, **MODULES}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_rewards", raising=False)

    def task(rows=SUMS, reward_funcs="my_rewards:correct,brief", **options):
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return FunctionsTask(data=tmp_path / "rows.jsonl", reward_funcs=reward_funcs, **options)

    task.folder = tmp_path
    return task


def test_each_function_is_an_objective(mine):
    """Rewards worked by hand: correct finds the total, brief is 1 / (1 + characters)."""
    task = mine()
    x = task.instance(task.seeds["train"][0])
    text = "Well. <answer_2> ? </answer_2> <answer_1> it is 2 </answer_1> <answer_3> 7"
    (judged,) = judge(task, [(x, text, 3)])
    assert x.prompt == "0 + 2 = ?" and task.objectives(x) == ("correct", "brief")
    assert judged.rewards.tolist() == [[1, 1 / 8], [0, 0], [0, 0]]
    assert judged.valid.tolist() == [True, False, False]


def test_a_text_from_elsewhere_may_hold_more_than_nine_answers(mine):
    task = mine()
    x = task.instance(task.seeds["train"][0])  # 0 + 2
    answers = ["7"] * 10 + ["2", "7"]
    text = task.write(x, answers) + f"<answer_{'1' * 5000}>"
    (judged,) = judge(task, [(x, text, 12)])
    assert judged.valid.all() and judged.rewards[:, 0].tolist() == [0] * 10 + [1, 0]


def test_one_answer_is_the_whole_completion_to_the_prompt_as_it_is(mine):
    task = mine()
    x = task.instance(0)
    assert task.prompt(x, 1).messages == ({"role": "user", "content": x.prompt},)
    (judged,) = judge(task, [(x, "\n<answer_1>2</answer_1> ", 1)])
    assert judged.rewards.tolist() == [[1, 1 / 25]]  # 24 characters, with the two blanks


PARTS = [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}]
BEGUN = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because"}]


@pytest.mark.parametrize("prompt", [PARTS, BEGUN, [], None, ["Why?", "How?"]])
def test_a_prompt_that_ends_with_no_text_of_the_user_is_asked_for_one_answer_only(prompt):
    """The form would stand in the mouth of the assistant, or nowhere."""
    assert asking(prompt, 1) == prompt
    with pytest.raises(ValueError, match="expected a text, or messages of which the last one is "):
        asking(prompt, 2)


@pytest.mark.parametrize("prompt", ["Why?", [*PARTS, {"role": "user", "content": "Why?"}]])
def test_a_form_that_was_asked_for_is_replaced_and_removed(prompt):
    assert without_form(prompt) is prompt and without_form(asking(prompt, 1)) is prompt
    for m in (2, 12, 100):
        assert asking(asking(prompt, 3), m) == asking(prompt, m)
        assert without_form(asking(prompt, m)) == prompt == asking(asking(prompt, m), 1)
    asked = asking(prompt, 2, "route")
    assert without_form(asked) is asked and without_form(asked, "route") == prompt
    own = "Why?\n\nWrite 2 different answers in exactly this form:\n<answer_1> ... </answer_1>"
    assert without_form(own) is own  # one form for 2 answers: not ours


@pytest.mark.parametrize("rest", [{}, {"content": None}, {"tool_calls": [{"type": "function"}]}])
def test_a_completion_without_a_text_earns_the_worst(rest):
    """A turn of the assistant that only calls a tool."""
    trl = pytest.importorskip("vpo_lite.integrations.trl")
    reward = trl.SetReward.of_functions([lambda completions, **_: [1.0] * len(completions)])
    assert reward([BEGUN[:1]], [[{"role": "assistant"} | rest]]) == [0.0]


@pytest.mark.parametrize("m", [1, 2, 9])
@pytest.mark.parametrize("chat", [False, True])
def test_a_run_and_a_script_of_trl_ask_and_score_alike(mine, m, chat):
    trl = pytest.importorskip("vpo_lite.integrations.trl")
    rows = [
        row | {"prompt": [SYSTEM, {"role": "user", "content": row["prompt"]}]} if chat else row
        for row in SUMS
    ]
    task = mine(rows)
    method = "vpo" if m > 1 else "grpo"
    reward = trl.SetReward.of_functions(
        task.reward_functions.functions, answers=m, K=np.inf, method=method
    )
    x = task.instance(0)
    asked = reward.ask(rows[0])["prompt"]
    messages = asked if chat else [{"role": "user", "content": asked}]
    assert list(task.prompt(x, m).messages) == messages
    texts = ["<answer_1> 2 </answer_1> <answer_2> 2 ? </answer_2>", "2", "nothing"]
    completions = [[{"role": "assistant", "content": t}] for t in texts] if chat else texts
    found = reward([asked] * 3, completions, total=[2] * 3)
    R = np.array([judge(task, [(x, t, m)])[0].rewards for t in texts])
    expected = vpo.exact_set_reward(R) if m > 1 else R.mean(-1)[:, 0]
    assert np.allclose(found, expected) and len(set(found)) > 1


def runs(prompts, completions, want, **columns):
    """1 where the prompt's function, completed, returns what is wanted, as HumanEval tests it."""

    def returned(program):
        names = {}
        try:
            exec(program, names)
            return names["f"]()
        except Exception:
            return None

    return [float(returned(p + c) == w) for p, c, w in zip(prompts, completions, want, strict=True)]


HEAD = 'def f():\n    """Return six."""\n'
BODY = "    six = 6\n    return six\n"


@pytest.mark.parametrize("m", [1, 3])
def test_code_that_completes_a_prompt_keeps_its_indentation(mine, m, monkeypatch):
    """With and without the blanks and line ends of the form, natively, on TRL and on veRL's own
    rewards. Without its first four blanks the code is no Python.
    """
    trl = pytest.importorskip("vpo_lite.integrations.trl")
    monkeypatch.setattr("my_rewards.runs", runs, raising=False)
    task = mine([{"prompt": HEAD, "want": 6}] * 2, "my_rewards:runs")
    text = BODY
    if m > 1:
        text = (
            f"<answer_1>{BODY}</answer_1><answer_2>\n{BODY}</answer_2><answer_3> {BODY} </answer_3>"
        )
    (judged,) = judge(task, [(task.instance(0), text, m)])
    assert judged.rewards.tolist() == [[1.0]] * m and judged.solved.all()
    method = "vpo" if m > 1 else "grpo"
    reward = trl.SetReward.of_functions([runs], answers=m, method=method)
    row = reward.ask({"prompt": HEAD})
    assert reward([row["prompt"]], [text], want=[6]) == [1.0]
    assert reward([row["prompt"]], [text.replace("    six", "six")], want=[6]) == [0.0]


def test_blanks_around_an_answer_make_no_other_answer(mine):
    """Blanks alone are no answer; 2 with blanks is a repeat of 2; inner blanks count."""
    text = "<answer_1> 2 </answer_1><answer_2>\n2\t</answer_2><answer_3> \n </answer_3>"
    for task in (mine(), OfFunctions([lambda completions, **_: [1.0] * len(completions)])):
        x = task.instance(0) if isinstance(task, FunctionsTask) else Asked("Why?")
        (found,) = read_answers(task, [x], [[text + "<answer_4>2  2</answer_4>"]], 4)
        assert found.answers == [["2", "\n2\t", None, "2  2"]]
        assert found.repeats.tolist() == [[False, True, False, False]]
        assert task.parse(x, " \n", 1) == [None] and task.parse(x, " 2\n", 1) == [" 2\n"]
    (by_vector,) = read_answers(mine(repeats="vector"), [mine().instance(0)], [[text]], 3)
    assert by_vector.repeats.tolist() == [[False, False, False]]  # brief counts the blanks


def test_columns_are_handed_over_and_a_missing_one_is_none(mine):
    rows = [row | {"note": "even"} if row["total"] % 2 == 0 else row for row in SUMS]
    task = mine(rows, "my_rewards:hint")
    instances = [task.instance(seed) for seed in range(4)]
    found = task.score(instances, [["a"], ["a", "b"], [], ["c"]])
    assert [R.tolist() for R in found] == [[[1]], [[0], [0]], [], [[0]]]


@pytest.mark.parametrize("m", [1, 2, 9])
def test_what_is_written_is_read_again(mine, m):
    """A single answer has no tags, so it may hold any."""
    answers = [f"{i} <b>" for i in range(m)] if m > 1 else ["<answer_1> in it </answer_1>"]
    of_a_script = OfFunctions([lambda completions, **columns: [0.0] * len(completions)])
    for task, x in ((mine(), mine().instance(0)), (of_a_script, Asked("Why?"))):
        assert task.parse(x, task.write(x, answers), m) == answers


def test_weights_worst_and_names(mine):
    functions = "my_rewards:low, brief,my_rewards:low"
    task = mine(reward_funcs=functions, reward_weights="2, 1,0", worst_reward=-2.5)
    x = task.instance(0)
    assert task.objectives(x) == ("low_1", "brief", "low_2")
    assert task.w_star(x).tolist() == [2, 1, 0] and task.worst(x).tolist() == [-2.5] * 3
    (judged,) = judge(task, [(x, "<answer_1>?</answer_1>", 2)])
    assert judged.rewards.tolist() == [[-1, -2.5, -1], [-2.5] * 3]
    assert mine().w_star(x).tolist() == [0.5, 0.5]


def test_each_function_may_have_a_worst_reward_of_its_own(mine):
    """low returns -1 for every answer; brief None for one with a question mark."""
    task = mine(reward_funcs="my_rewards:brief,low,correct", worst_reward=" 0,-2, -0.5")
    x = task.instance(0)
    assert task.worst(x).tolist() == [0, -2, -0.5]
    (judged,) = judge(task, [(x, "<answer_1>?</answer_1> <answer_2>a</answer_2>", 3)])
    assert judged.rewards.tolist() == [[0, -1, 0], [0.5, -1, 0], [0, -2, -0.5]]
    assert judged.valid.tolist() == [True, True, False]
    with pytest.raises(TaskError, match=r"low returned -1, less than worst = -0.5: .* of each"):
        mine(reward_funcs="my_rewards:brief,low", worst_reward="0,-0.5").score([x], [["a"]])
    script = OfFunctions([lambda completions, **_: [None], len], worst=[-3, 0])
    assert script.worst(Asked("?")).tolist() == [-3, 0]
    assert OfFunctions([len, len], worst=np.float32(-1)).worst(Asked("?")).tolist() == [-1, -1]


def test_more_rows_than_are_held_out_need_a_file_of_them(mine):
    """The cure was a riddle: "at least 1 is measured and at most all"."""
    rows = [{"prompt": f"Write {i}.", "total": i} for i in range(20)]
    task = mine(rows)
    assert len(held_out_seeds(task)) == len(held_out_seeds(task, 2)) == 2
    said = "problems = 3: of the 2 held-out problems of task 'functions' give 1 to 2; more need "
    with pytest.raises(ValueError, match=f"^{said}a run with a file as --held-out-data$"):
        held_out_seeds(task, 3)
    for wrong in (0, 1.5, "x"):
        with pytest.raises(ValueError, match=r"give 1 to 2$"):
            held_out_seeds(task, wrong)
    other = mine.folder / "other.jsonl"
    other.write_text('{"prompt": "?", "total": 1}\n')
    with pytest.raises(ValueError, match=r"the 1 held-out problem of .* give 1; .* another --held"):
        held_out_seeds(mine(rows, held_out_data=str(other)), 2)


# --- functions with several objectives ------------------------------------------------------------

WANTED = [
    {"prompt": f"Write {n} letters of abc.", "wanted": list("abc"[: 1 + n % 3])} for n in range(10)
]
BOTH = "my_rewards:tests,kinds"


def test_a_function_may_have_several_objectives_and_other_ones_in_another_row(mine):
    """Worked by hand: a row wants n letters; `kinds` gives nothing for its third objective."""
    task = mine(WANTED, BOTH, worst_reward="0,-1", reward_weights="3,6")
    one, three = task.instance(0), task.instance(2)
    assert task.objectives(one) == ("tests[0]", "first", "last", "never")
    assert task.objectives(three)[:3] == ("tests[0]", "tests[1]", "tests[2]")
    assert task.w_star(three).tolist() == [1, 1, 1, 2, 2, 2]
    assert task.w_star(one).tolist() == [3, 2, 2, 2]
    assert task.worst(three).tolist() == [0, 0, 0, -1, -1, -1]
    found = task.score([one, three, one, three], [["b"], ["ca", "x"], [], []])
    assert [R.tolist() for R in found[:2]] == [
        [[0, 1, 0.1, -1]],
        [[1, 0, 1, 1, 0.2, -1], [0, 0, 0, 1, 0.1, -1]],
    ]
    assert [R.shape for R in found[2:]] == [(0, 4), (0, 6)]
    assert "first" in task.prompt(three, 1, weights=np.full(6, 1 / 6)).text
    assert mine(WANTED, BOTH).w_star(three).tolist() == pytest.approx([1 / 6] * 6)
    assert task.reward_functions.nones == {"tests": 0, "kinds": 3}


@pytest.mark.parametrize(
    ("said", "returned", "words"),
    [
        (["a", "b"], [1, 1], r"f returned 1 for one answer: expected a dict, or a list of 2, of"),
        (["a", "b"], [[1], [1, 2]], r"f returned \[1\] for one answer: .* numbers for 'a', 'b'"),
        (["a"], [{"b": 1}, {}], "f returned a number for 'b': there is 'a'"),
        (["a"], [{"a": "1"}, {}], "expected a list with one dict or list of numbers for each"),
        (["a"], [{"a": 1}], "f returned 1 rewards for 2 answers"),
        (["a"], [{"a": np.nan}, {}], "f returned nan: a reward is a finite number"),
        (["a"], [{"a": -1}, {}], "f returned -1, less than worst = 0"),
        (0, [[], []], "f.objectives = 0: expected a list of names, or how many there are, from 1"),
        ("ab", [[1, 1]] * 2, "f.objectives = 'ab': expected a list of names"),
        (lambda **_: None, [[1]] * 2, "f.objectives = None: expected a list of names"),
        (lambda wanted: 1, [[1]] * 2, "f.objectives raised TypeError: .*missing 1 required"),
    ],
)
def test_what_a_function_with_several_objectives_says_is_checked(said, returned, words):
    def f(completions, **columns):
        return returned

    f.objectives = said
    with pytest.raises(ValueError, match=words):
        OfFunctions([f]).score([Asked("x")], [["a", "b"]])


def test_a_row_without_objectives_is_refused_before_a_run(mine):
    """It would have stopped the run in the step that first asks it."""
    words = r"rows.jsonl, line 9: tests.objectives = 0: expected a list of names, or how many"
    task = mine(WANTED[:8] + [{"prompt": "?", "wanted": []}] + WANTED[9:], BOTH)
    with pytest.raises(ValueError, match=words):
        task.check_machine()
    mine(WANTED, BOTH).check_machine()
    held_out = mine.folder / "held.jsonl"
    held_out.write_text('{"prompt": "?", "wanted": ["a"]}\n{"prompt": "?"}\n')
    words = "held.jsonl, line 2: tests.objectives raised TypeError: .* has no len"
    with pytest.raises(ValueError, match=words):
        mine(WANTED, BOTH, held_out_data=str(held_out)).check_machine()


def test_names_that_two_functions_give_are_refused(mine):
    words = "each name may stand there once"
    with pytest.raises(ValueError, match=words):
        check_early_problems(mine(WANTED, "my_rewards:kinds,kinds"), 2, None)
    check_early_problems(mine(WANTED, BOTH), 2, None)


def test_a_script_of_trl_has_several_objectives_of_a_function_too(mine):
    """Any part of a group, in any process, has the weights of its row: also one without answers."""
    trl = pytest.importorskip("vpo_lite.integrations.trl")
    functions = mine(WANTED, BOTH).reward_functions.functions
    reward = trl.SetReward.of_functions(functions, answers=2, K=4, worst=[0, -1])
    state, logged = type("State", (), {"global_step": 3}), {}
    texts = ["<answer_1>a</answer_1> <answer_2>bc</answer_2>", "nothing", "<answer_1>b</answer_1>"]
    wanted = [["a", "b"], ["a", "b"], ["a"]]  # the last row asks the same, and wants less
    how = dict(trainer_state=state)
    found = reward(["Write."] * 3, texts, wanted=wanted, log_metric=logged.__setitem__, **how)
    again = pickle.loads(pickle.dumps(reward))
    for i in range(3):
        assert again(["Write."], texts[i : i + 1], wanted=wanted[i : i + 1], **how) == [found[i]]
    names = ["tests[0]", "tests[1]", "first", "last", "never"]
    key = f'"Write." {json.dumps(names, separators=(",", ":"))}'
    W = vpo.sample_weights(4, 5, 1.0, rng=generator(0, "weights", 3, key))
    R = np.array([[1, 0, 1, 0.1, -1], [0, 1, 1, 0.2, -1]])
    assert found[0] == pytest.approx((W @ R.T).max(1).mean())
    assert found[1] == pytest.approx((W @ [0, 0, -1, -1, -1]).mean())
    assert logged["vpo/objective/first"] == pytest.approx((1 + 1 - 1 - 1 + 1 - 1) / 6)
    assert "vpo/objective/tests[1]" not in logged  # one row lacks it
    with pytest.raises(
        TaskError, match=r"vpo_key = 'k': there for rows of objectives .* of its own"
    ):
        reward(["Write."] * 3, texts, wanted=wanted, vpo_key=["k"] * 3)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "trl"])
def test_a_run_whose_rows_differ_in_their_objectives(mine, command, capsys, engine):
    if engine == "trl":
        pytest.importorskip("trl")
    mine(WANTED)
    how = f"--reward-funcs {BOTH} --m 1 --method vpo --engine {engine}"
    assert command(f"{how} --prompts 6", "run") == 0  # of nine: not all want equally many letters
    summary = json.loads((mine.folder / "run" / "summary.json").read_text())
    assert summary["steps"] == 2 and 0 < summary["set_reward"] < 1
    lines = (mine.folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["objectives"] for line in lines] == [{}, {}]
    capsys.readouterr()
    (mine.folder / "answers.jsonl").write_text('{"id": 1, "record": 2, "text": "ab", "m": 1}\n')
    judged = f"score --task functions --data rows.jsonl --reward-funcs {BOTH}"
    assert main(f"{judged} --answers answers.jsonl".split()) == 0
    found = json.loads(capsys.readouterr().out)
    names = ["tests[0]", "tests[1]", "tests[2]", "first", "last", "never"]
    assert (found["objectives"], found["rewards"]) == (names, [[1, 1, 0, 1, 0.2, 0]])
    asked = f"report --task functions --data rows.jsonl --reward-funcs {BOTH} --model model --m 1"
    assert main(f"{asked} --max-new-tokens 8 --device cpu --answers 4 --show 1".split()) == 0
    assert "never 0" in capsys.readouterr().out


def test_the_example_of_the_reference(capsys):
    """The comments beside its last lines say what they give."""
    page = (ROOT / "notebooks" / "REFERENCE.md").read_text("utf-8")
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "judge.obj" in c)
    exec(code, known := {})
    for line in code.splitlines()[-2:]:
        made, _, told = line.partition("  # ")
        assert np.array_equal(eval(made, known), eval(told))


@pytest.mark.parametrize("worst", [0.0, -3e6])
def test_a_reward_below_the_worst_by_rounding_is_the_worst(worst):
    """1 - 0.9 - 0.1 is -2.8e-17. A sum in float32 may miss by 6e-8 of its size."""
    size = max(1, -worst)

    def score(completions, **columns):
        return [worst + size * float(text) for text in completions]

    task = OfFunctions([score], worst=worst)
    x, missed = Asked("?"), [str(1 - 0.9 - 0.1), "-6e-8", "0.5", "0"]
    R = np.array(task.score([x], [missed])[0])
    assert R.tolist() == [[worst], [worst], [worst + size / 2], [worst]]
    assert task.valid(x, R).tolist() == [False, False, True, False]
    with pytest.raises(TaskError, match="less than worst"):
        task.score([x], [["0.5", "-1e-5"]])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (-2, {"worst_reward": -2.0}),  # as runs of earlier versions store it
        ("-2", {"worst_reward": -2.0}),
        ("0", {}),
        ("0,-2", {"worst_reward": "0,-2"}),
    ],
)
def test_a_config_keeps_the_worst_rewards(mine, given, kept):
    options = dict(data=mine().data, reward_funcs="my_rewards:brief,low")
    ours = TrainConfig.preset("demo", task="functions", model="some/model", **options)
    config = ours.but(worst_reward=given)
    assert {k: v for k, v in config.task_options.items() if k not in options} == kept
    again = TrainConfig.from_json(json.loads(json.dumps(config.to_json())))
    worst = [x.make_task().reward_functions.worst for x in (again, config)]
    assert again == config and worst[0] == worst[1]


def test_weights_are_shown_where_a_method_needs_them(mine):
    task = mine()
    text = task.prompt(task.instance(0), 1, weights=[0.25, 0.75]).text
    assert text.endswith("This time the goals weigh: correct 0.25, brief 0.75.")


def test_rows_that_fit_no_prompt_are_damaged_and_names_of_ours_dropped(mine):
    ends = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    picture = [{"role": "user", "content": [{"type": "image"}]}]
    bad = [{"total": 1}, {"prompt": 3}, {"prompt": []}, {"prompt": ends}, {"prompt": picture}]
    bad += [{"prompt": " \n"}, {"prompt": [{"role": "user", "content": ""}]}]
    task = mine([*bad, {"prompt": "x", "completions": "y"}, {"prompt": "x", "completion": "y"}])
    loaded = task.load(task.path)
    assert list(loaded.damaged) == [0, 1, 2, 3, 4, 5, 6] and list(loaded.dropped) == [7]
    assert "field prompt is missing" in loaded.damaged[0]
    assert "line 2: field prompt should be a text, or a list of {" in loaded.damaged[1]
    assert "should end with a message of the user" in loaded.damaged[3]
    assert all("field prompt should ask something, not " in loaded.damaged[i] for i in (5, 6))
    assert "rename this column" in loaded.dropped[7]
    assert dict(loaded.records[8].columns) == {}  # TRL keeps completion to itself, too
    with pytest.raises(DamagedError, match="line 1"):
        task.instance(0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(reward_funcs=None), r"data without reward_funcs \(--reward-funcs\): name the rows"),
        (dict(reward_funcs="my_rewards:absent"), "module my_rewards has no 'absent'"),
        (dict(reward_funcs="my_rewards:corect"), r"has no 'corect'; did you mean correct\?$"),
        (dict(reward_funcs="absent:f"), "'absent.py' lies"),
        (dict(reward_funcs="pack/absent:f"), "in the folder of absent.py, and name it as absent:"),
        (dict(reward_funcs="/a/b.py:f"), "start in the folder of b.py, and name it as b:Name"),
        (dict(reward_funcs="my_rewards:brief.f"), "module my_rewards has no 'brief.f'"),
        (dict(reward_funcs="script:f"), r"ends the process .* \(exit 3\); put .*__main__"),
        (dict(reward_funcs="broken:f"), r"NameError: name 'nothing'.*, line 2 of .*broken.py\)"),
        (dict(reward_funcs="unread:f"), r"SyntaxError: .*unread.py, line 1"),
        (dict(reward_funcs="lacking:f"), r"imported \(ModuleNotFoundError: No module named 'nil'"),
        (dict(reward_funcs="correct"), "reward_funcs = 'correct': expected package.module:fun"),
        (dict(reward_funcs="my_rewards:number"), "3 is no function"),
        (dict(reward_funcs=[len]), "<built-in function len>]: must be a text, package.module:name"),
        (dict(reward_funcs=[len, math.hypot]), "; write 'builtins:len,math:hypot'$"),
        (dict(reward_funcs=[lambda completions: 1]), "package.module:name$"),
        (dict(reward_weights=[2, 1]), "must be a text; write '2,1'$"),
        (
            dict(held_out_data=[{"prompt": "?"}]),
            "must be the path of a file: write these rows into one",
        ),
        (dict(reward_weights="1,x"), "reward_weights = '1,x': expected numbers"),
        (dict(reward_weights="0,0"), "nothing but zeros"),
        (dict(reward_weights="1"), r"weights w\*: 1 for 2 functions; give one each"),
        (dict(reward_weights="1,nan"), "w_star holds 1 values that are NaN"),
        (dict(worst_reward="0,x"), "worst_reward = '0,x': expected numbers with commas between"),
        (dict(worst_reward="0,nan"), "worst_reward = nan: must be a finite number"),
        (dict(worst_reward="0,-1,0"), "worst: 3 numbers for 2 functions; give one number, or one"),
        (dict(worst_reward=[0, -1]), r"worst_reward = \[0, -1\]: .*between commas, as a text"),
    ],
)
def test_what_cannot_work_is_refused_when_the_task_is_made(mine, options, words):
    with pytest.raises(ValueError, match=words):
        mine(**options)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_dataset_of_hugging_face_is_written_as_rows(mine, kind):
    made = pytest.importorskip("datasets").Dataset.from_list([row | {"note": None} for row in SUMS])
    getattr(made, f"to_{kind}")(f"theirs.{kind}")
    ours, task = mine(), FunctionsTask(data=f"theirs.{kind}", reward_funcs="my_rewards:correct")
    for seed in range(9):
        found, expected = task.instance(seed), ours.instance(seed)
        assert found.prompt == expected.prompt
        assert found.columns == {**expected.columns, "note": None}


@pytest.mark.parametrize("name", ["later", "later_object", "later_in_part"])
def test_a_function_may_be_asynchronous(mine, name):
    """TRL takes these, too. A client with open connections works on one loop only, also in a
    notebook, whose thread has a loop that runs.
    """
    task = mine(reward_funcs=f"my_rewards:{name},brief")
    x, answers = task.instance(0), ["2", "no"]
    expected = [[float(str(x.columns["total"]) in a), 1 / (1 + len(a))] for a in answers]
    assert task.score([x], [answers])[0].tolist() == expected

    async def notebook():
        return task.score([x], [answers])[0].tolist(), asyncio.get_running_loop()

    found, own = asyncio.run(notebook())
    assert found == expected
    first, second = sys.modules["my_rewards"].LOOPS
    assert first is second is not own


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fails", r"fails raised OSError: no network \(my_rewards.py, line \d+\)"),
        ("leaves", "leaves raised SystemExit: 3"),
    ],
)
def test_an_asynchronous_function_that_fails_is_named(mine, name, words):
    task = mine(reward_funcs=f"my_rewards:{name}")
    for _ in range(2):  # the second call waits for nothing, either
        with pytest.raises(TaskError, match=words):
            task.score([task.instance(0)], [["4"]])


def test_asynchronous_functions_run_at_the_same_time(mine):
    """Each waits for the other to begin. Rewards keep the order of the functions."""
    task = mine(reward_funcs="my_rewards:slower,correct,faster")
    x = task.instance(0)
    answers = [str(x.columns["total"]), "no"]
    for _ in range(2):
        assert task.score([x], [answers])[0].tolist() == [[1.0, 1.0, 2.0], [1.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("fails_later,fails_sooner", "^fails_later raised OSError: later "),
        ("fails_sooner,fails_later", "^fails_sooner raised OSError: sooner "),
        ("slower,fails_at_once,faster", "^fails_at_once raised OSError: at once "),
    ],
)
@pytest.mark.filterwarnings("error")  # of a coroutine that was never awaited
def test_of_several_functions_that_fail_the_first_is_named(mine, names, said):
    task = mine(reward_funcs=f"my_rewards:{names}")
    with pytest.raises(TaskError, match=said):
        task.score([task.instance(0)], [["4"]])
    gc.collect()


def test_an_interrupt_ends_all_asynchronous_functions(mine):
    task = mine(reward_funcs="my_rewards:interrupts,waits")
    with pytest.raises(KeyboardInterrupt):
        task.score([task.instance(0)], [["4"]])
    ended = sys.modules["my_rewards"].CANCELLED
    assert [ended.get(timeout=60) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("json", r"is .*json/__init__\.py; rename your json\.py"),
        ("time", "is built in; rename your"),
    ],
)
def test_a_file_that_a_module_of_python_hides_is_named(mine, name, words):
    (mine.folder / f"{name}.py").write_text("def f(completions): ...")
    with pytest.raises(ValueError, match=f"module {name} {words}"):
        mine(reward_funcs=f"{name}:f")


def test_empty_lines_are_no_rows(mine):
    task = mine()
    with open(task.path, "a") as file:
        file.write("\n  \n")
    assert len(task.load(task.path).usable()) == 10
    with open(task.path, "a") as file:
        file.write('{"prompt": "What?"}\n')
    assert list(task.load(task.path).usable()) == [*range(10), 12]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("NaN", "nan"),
        ("-Infinity", "-inf"),
        ("[1.5, NaN]", r"\[1.5, nan\]"),
        ('{"a": [NaN]}', r"{'a': \[nan\]}"),
    ],
)
def test_nan_in_a_column_is_named_with_row_and_field_before_a_function_sees_it(mine, column, shown):
    task = mine()
    with open(task.path, "a") as file:
        file.write(f'{{"prompt": "What?", "goal": {column}, "other": 1}}\n')
    words = f"line 11: field goal should hold finite numbers, and null where .* not {shown}$"
    with pytest.raises(DamagedError, match=words):
        task.instance(0)


def test_functions_without_rows_are_refused(mine):
    with pytest.raises(ValueError, match="reward_funcs without data"):
        FunctionsTask(reward_funcs="my_rewards:brief")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([-1.0, 0.0], "f returned -1, less than worst = 0"),
        ([0.0], "f returned 1 rewards for 2 answers"),
        ([0.0, float("nan")], "f returned nan: a reward is a finite number"),
        ([float("nan"), -5.0], "f returned nan"),
        ([1e200, 0.0], "f returned 1e"),
        (None, "f returned None: expected a list with one number for each answer"),
        (0.5, "f returned 0.5: expected a list"),
        (["0.7", "0.2"], "f returned .'0.7', '0.2'.: expected a list"),
        ({1: 0.5, 2: 0.5}, "f returned {1: 0.5"),
        ({0.5, 1.0}, "f returned {0.5, 1.0}: expected a list"),  # in no order
        ([10**400, 0], "f returned .1000.*: expected a list"),
        ([(0.5, 1), (1, 1)], r"f returned \(0.5, 1\) for one .* write f.objectives = 2 below it"),
        ([{"a": 1}, {"a": 0}], r"f returned {'a': 1} for one .* write f.objectives = .'a'. below"),
        (b"01", "f returned b'01': expected a list"),
        ("01", "f returned '01': expected a list"),
        (np.float64(1), r"f returned (np.float64\()?1.0\)?: expected a list"),  # NumPy 1 says 1.0
        (iter([0.5, 1.0]), "f returned <list_iterator .*: expected a list"),  # others never end
    ],
)
def test_what_a_function_returns_is_checked(returned, words):
    def f(completions, **columns):
        return returned

    with pytest.raises(TaskError, match=words):
        OfFunctions([f]).score([Asked("x")], [["a", "b"]])


@pytest.mark.parametrize(
    "returned", [np.array([1, 0]), (True, False), torch.tensor([1, 0]), list(np.float32([1, 0]))]
)
def test_numbers_of_any_kind_are_taken(returned):
    task = OfFunctions([lambda completions, **columns: returned])
    assert task.score([Asked("x")], [["a", "b"]])[0].tolist() == [[1], [0]]


def test_a_function_that_ends_the_process_is_named():
    """sys.exit(0) in a judge would end a training as if it were done."""

    def leaves(completions, **columns):
        sys.exit(0)

    words = r"leaves raised SystemExit: 0 \(test_task_functions\.py, line \d+\)"
    with pytest.raises(TaskError, match=words):
        RewardFunctions([leaves]).rewards(lambda: {"completions": ["a", "b"]}, 2)


def test_a_function_that_yields_is_refused_before_it_runs():
    def walks(completions, **columns):
        while True:
            yield 1.0

    with pytest.raises(ValueError, match="walks yields its rewards: let it return a list"):
        OfFunctions([functools.partial(walks)])


def test_a_model_in_the_place_of_a_function_is_refused_before_training():
    """TRL takes one. Here it failed at the first answer, deep in its own code."""
    judge = GPT2Model(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=8))
    with pytest.raises(ValueError, match="GPT2Model is a model: give a function that asks it"):
        OfFunctions([judge])
    assert OfFunctions([judge.get_input_embeddings]).objectives(None) == ("get_input_embeddings",)


def test_functions_whose_numbered_names_clash_are_refused_with_the_cure():
    def f(completions, **columns):
        return [0.5 for _ in completions]

    def f_1(completions, **columns):
        return [0.5 for _ in completions]

    words = "f, f, f_1: equal names are numbered, which gives f_1, f_2, f_1; rename one"
    with pytest.raises(ValueError, match=words):
        RewardFunctions([f, f, f_1])
    assert RewardFunctions([f, f_1]).names == ("f", "f_1")


def test_functions_get_copies(mine):
    """What one changes is seen by no other function, no other answer, no later step, no prompt."""
    rows = [{"prompt": [{"role": "user", "content": "x"}], "tags": ["a", "b"]} for _ in range(3)]
    task = mine(rows, "my_rewards:changes,sees")
    x = task.instance(0)
    key = task.key(x)
    for _ in range(2):
        (R,) = task.score([x], [["one", "two"]])
        assert R.tolist() == [[0, 3], [2, 3]]
    assert task.key(x) == key and task.prompt(x, 1).text == "x"


def test_a_column_that_few_rows_have_is_handed_over_in_every_call(mine):
    task = mine([*SUMS[:5], *({"prompt": "none"} for _ in range(5))], "my_rewards:total_or_none")
    first, last = task.instance(0), task.instance(8)
    assert (first.prompt, last.prompt) == ("0 + 2 = ?", "none")
    assert task.score([last], [["a"]])[0].tolist() == [[0]]
    assert task.score([first], [["a"]])[0].tolist() == [[2]]
    mine([{"prompt": "none"}, *SUMS], "my_rewards:total_or_none").check_machine()


def test_an_answer_within_an_answer_is_no_answer(mine):
    task = mine()
    text = "<answer_1> <answer_2> 2 </answer_2> </answer_1>"
    assert task.parse(task.instance(0), text, 2) == [None, "2"]


def test_problems_have_one_key_in_every_process(mine):
    task = mine()
    keys = [task.key(task.instance(seed)) for seed in range(9)]
    again = mine(SUMS[1:9][::-1])
    assert len(set(keys)) == 9
    assert again.key(again.instance(0)) == keys[8]
    assert OfFunctions([len]).key(again.instance(0)) == '"8 + 2 = ?"'


def test_the_functions_that_ship_against_brute_force():
    task = FunctionsTask()
    for x in map(task.instance, range(11)):
        limit = x.columns["limit"]
        divisors = [sum(n % i == 0 for i in range(1, n + 1)) for n in range(1, limit + 1)]
        numbers = range(1, limit + 1)
        (R,) = task.score([x], [[*map(str, numbers), "0", str(limit + 1), "two"]])
        expected = [
            [1 - n / limit, d / max(divisors)] for n, d in zip(numbers, divisors, strict=True)
        ]
        assert np.allclose(R[:limit], expected) and (R[limit:] == 0).all()
    assert example_rewards.small(completions=["5"], limit=[10]) == [0.5]


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def command(mine):
    mine()
    byte_model(mine.folder / "model", 32, 48, 2, 4, 2)
    task = "--task functions --data rows.jsonl --reward-funcs my_rewards:correct,brief"
    small = "--model model --steps 2 --prompts 2 --group-size 4 --max-new-tokens 8 --threads 1"
    return lambda more, out: main(f"train {task} {small} --device cpu {more} --out {out}".split())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "trl"])
def test_a_run_of_either_engine(mine, command, engine, capsys):
    if engine == "trl":
        pytest.importorskip("trl")
    assert command(f"--method grpo --engine {engine}", "run") == 0
    parts = "9 rows train, 1 is held out (--held-out-data names others)"
    assert capsys.readouterr().err.splitlines().count(parts) == 1
    summary = json.loads((mine.folder / "run" / "summary.json").read_text())
    assert summary["steps"] == 2 and set(summary["objectives"]) == {"correct", "brief"}
    assert summary["objectives"]["brief"] > 0  # any text is an answer, and is brief


@pytest.mark.slow
def test_an_evaluation_names_the_file_that_it_measured(mine, command, capsys, monkeypatch):
    """Rows that were edited while the model was loaded were named as those of the figures."""
    assert command("", "run") == 0
    rows, seen = mine.folder / "rows.jsonl", []
    before = hashlib.sha256(rows.read_bytes()).hexdigest()
    loaded, measured = loading.load_policy, evaluation.evaluate

    def edited_first(*given, **how):
        rows.write_text(rows.read_text().replace("?", "??"))
        return loaded(*given, **how)

    def watched(*given, **how):
        return measured(*given, **how | {"keep": lambda pool: seen.append(pool.instance.prompt)})

    monkeypatch.setattr(loading, "load_policy", edited_first)
    monkeypatch.setattr(evaluation, "evaluate", watched)
    capsys.readouterr()
    assert main(["evaluate", "run", "--answers", "3", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["data"] == before
    assert seen and not any("??" in prompt for prompt in seen)


@pytest.mark.slow
def test_a_model_trained_elsewhere_is_measured(mine, command):
    """Here by peft alone. any@1 is the mean of w.r over answers and the held-out weights."""
    base = AutoModelForCausalLM.from_pretrained("model")
    get_peft_model(base, LoraConfig(init_lora_weights=False)).save_pretrained("theirs")
    options = dict(task="functions", data="rows.jsonl", reward_funcs="my_rewards:correct,brief")
    small = dict(model="model", max_new_tokens=8, device="cpu", eval_answers=6)
    config = TrainConfig(method="grpo", **options, **small)
    first, found = (vpo.evaluate(load_policy(p), config) for p in ("model", "theirs"))
    w = vpo.metrics.preferences(2).mean(axis=0)
    means = found["objectives"]
    assert found["any_at_k"]["1"] == pytest.approx(w @ [means["correct"], means["brief"]])
    assert found["any_at_k"] != first["any_at_k"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "kept"), [("=-1,-2", "-1,-2"), (" 0,-1", "0,-1"), (" -1", -1.0), ("=-1,x", None)]
)
def test_the_worst_rewards_are_named_on_the_command_line(mine, command, capsys, flag, kept):
    status = command(f"--reward-funcs my_rewards:brief,low --worst-reward{flag} --m 1", "run")
    if kept is None:
        assert status == 2 and "worst_reward = '-1,x': expected numbers" in capsys.readouterr().err
        return
    stored = json.loads((mine.folder / "run" / "config.json").read_text())
    assert status == 0 and stored["task_options"]["worst_reward"] == kept
    assert main(["train", "--resume", "run", "--steps", "3"]) == 0


@pytest.mark.slow
def test_the_best_answers_of_several_rollouts_make_a_set(mine, command):
    """Of four answers one is right, another is brief: these two are what the set needs."""
    policy = load_policy(str(mine.folder / "model"), device="cpu", rank=2)
    task = mine()
    x = task.instance(0)
    texts = [task.write(x, answers) for answers in (["2, I say", "no, no"], ["x", "nothing"])]
    (group,) = read_answers(task, [x], [texts], 2)
    rollouts = policy.sample([task.prompt(x, 2)], np.full((1, 2, 90), 0.5))
    found = recombine(policy, task, [group], rollouts, [group.rewards], {}, None, 1.0, [200])
    (place,) = np.flatnonzero(found.gave_way).tolist()
    assert sorted(found.rewards[0][place].tolist()) == [[0, 1 / 2], [1, 1 / 9]]
    row = found.rollouts.rows(slice(place, place + 1))
    text = policy.tokenizer.decode(row.tokens[0][row.mask[0].bool()], skip_special_tokens=True)
    assert set(task.parse(x, text, 2)) == {"2, I say", "x"}
    assert command("--method vpo_recombined --m 2", "run") == 0


def test_memory_is_stated_for_the_longest_request_wherever_it_stands(mine, command, monkeypatch):
    """Of nine rows to train on the last is the longest; the tenth is held out, and longer."""
    policy = load_policy(str(mine.folder / "model"), device="cpu", rank=2)
    rows = [{"prompt": "?" * n, "total": n} for n in (*range(1, 9), 60, 99)]
    task = mine(rows)
    how = dict(data=str(mine.folder / "rows.jsonl"), reward_funcs="my_rewards:correct,brief")
    model = str(mine.folder / "model")
    config = TrainConfig.preset("demo", task="functions", model=model, max_new_tokens=8, **how)
    longest = task.instance(8)
    assert len(longest.prompt) == 60
    expected = len(policy.encode(task.prompt(longest, config.m)))
    assert memory.lengths(policy, config, task) == (expected, 8)
    monkeypatch.setattr(memory, "total_memory", lambda device: 1000)
    with pytest.raises(ValueError, match=f"for requests of up to {expected:,} tokens"):
        memory.check_fits(policy, config, task)


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [0, 1])
def test_requests_beyond_the_positions_of_a_rotary_model_are_warned_of(
    mine, command, beyond, capsys
):
    """Rotary positions have no end, so nothing fails; but beyond them no model was trained."""
    folder, task = mine.folder / "model", mine()
    policy = load_policy(str(folder), device="cpu", rank=2)
    longest = max(len(policy.encode(task.prompt(task.instance(i), 1))) for i in range(9))
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = most = longest + 8 - beyond  # the command draws 8 tokens
    (folder / "config.json").write_text(json.dumps(config))
    assert command("--method grpo", "run") == 0
    words = f"requests of up to {longest} tokens and 8 new ones need more than the {most} positions"
    assert (words in capsys.readouterr().err) == bool(beyond)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "trl"])
def test_a_run_goes_on_where_model_and_data_have_moved(mine, command, engine, capsys):
    """Their new places are written into config.json; their content must be the same."""
    if engine == "trl":
        pytest.importorskip("trl")
    assert command(f"--method grpo --engine {engine}", "run") == 0
    config = mine.folder / "run" / "config.json"
    for name, setting in (("rows.jsonl", "data"), ("model", "model")):
        place = mine.folder / name
        moved = place.rename(place.with_name(f"moved-{name}"))
        for asked in ("evaluate run", "train --resume run --steps 3"):
            capsys.readouterr()
            assert main(asked.split()) == 2
            assert f"config.json: {setting}: {place} is not there" in capsys.readouterr().err
        place.symlink_to(moved)  # the cure that leaves config.json as it is
        assert main(["evaluate", "run", "--device", "cpu"]) == 0
        place.unlink()
        config.write_text(config.read_text().replace(json.dumps(str(place)), f'"{moved}"'))
    assert main(["evaluate", "run", "--device", "cpu"]) == 0
    assert main(["train", "--resume", "run", "--steps", "3"]) == 0
    moved = mine.folder / "moved-rows.jsonl"
    moved.write_text(moved.read_text() + '{"prompt": "What?"}')
    assert main(["train", "--resume", "run", "--steps", "4"]) == 2
    assert "data changed since the run" in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_function_prints_does_not_mix_with_json(mine, command, capsys):
    assert command("--reward-funcs my_rewards:talks --m 1 --json", "run") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["steps"] == 2 and "scoring" in err.splitlines()
    (mine.folder / "answers.jsonl").write_text('{"id": "a", "record": 0, "m": 1, "text": "2"}')
    given = "--data rows.jsonl --reward-funcs my_rewards:talks,correct --answers answers.jsonl"
    assert main(f"score --task functions {given}".split()) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rewards"] == [[0.0, 1.0]] and err == "scoring\n"


def test_tokens_are_counted_for_one_answer_or_more(mine, capsys):
    """Its form for no answer has no line, and up to 0 tokens would follow."""
    mine()
    model = byte_model(mine.folder / "model", 16, 32, 1, 2, 2)
    given = ["data", "check", "rows.jsonl", "--task", "functions", "--model", str(model), "--m"]
    assert main([*given, "0"]) == main([*given, "-2"]) == 2
    assert "m = 0: this policy writes 1 to 100 answers" in capsys.readouterr().err
    assert main([*given, "1"]) == 0


def test_rows_are_counted_without_functions_and_scored_with_them(mine, capsys):
    mine()
    check = "data check rows.jsonl --task functions"
    for more in ("", " --repeats vector", " --held-out-data rows.jsonl"):
        assert main(f"{check}{more}".split()) == 0, more
        assert capsys.readouterr().out.startswith("rows.jsonl: 10 rows\n")
    assert main(f"{check} --held-out-data rows.jsonl --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["held_out_seen"]) == (10, 10)
    for command in (f"{check} --score 4", f"{check} --worst-reward=-1", "report --task functions"):
        more = " --data rows.jsonl" * command.startswith("report")
        assert main(f"{command}{more}".split()) == 2
        assert "data without reward_funcs (--reward-funcs)" in capsys.readouterr().err


def test_a_row_on_which_a_function_fails_is_found_before_training(mine, capsys):
    mine([*SUMS, {"prompt": "What?"}])
    check = "data check rows.jsonl --task functions --reward-funcs my_rewards"
    assert main(f"{check}:total_or_none --score 4".split()) == 0
    assert "\n0 of 11 cannot be scored\n" in capsys.readouterr().out
    assert main(f"{check}:hard --score 4".split()) == 1
    out = capsys.readouterr().out
    line = 1 + MODULE.splitlines().index("    return [float(t) for t in total]")
    said = "line 11 cannot be scored: hard raised TypeError: float() argument"
    assert said in out and f"(my_rewards.py, line {line})\n" in out
    assert "\n1 of 11 cannot be scored\n" in out
    assert main(f"{check}:hard --score 4 --json".split()) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == 1 and found["first_failed"].startswith("hard raised TypeError")
    assert main(f"{check}:narrow".split()) == 2
    assert "let it take **columns" in capsys.readouterr().err


CALLS = """import random


def whole(completions, **_):
    return [1.0]


def chance(completions, **_):
    return [random.random() for _ in completions]


def ranked(completions, **_):
    return [i / len(completions) for i in range(len(completions))]


def longest(completions, **_):
    return [len(c) / max(map(len, completions)) for c in completions]


def first(completions, prompts, **_):
    pairs = list(zip(prompts, completions))
    return [float(pair not in pairs[:i]) for i, pair in enumerate(pairs)]


def rounded(completions, **_):
    return [0.5 + 1e-4 * (len(completions) > 1)] * len(completions)


def strict(completions, **_):
    return [int(c) / 9 for c in completions]
"""


def test_data_check_also_scores_rows_in_one_call_as_training_does(mine, capsys):
    """Scored one by one, a function that returns one number for a whole call has no fault, and one
    that compares the answers of a call gives the same to equal answers.
    """
    mine([*SUMS, {"prompt": "What?"}])
    (mine.folder / "calls.py").write_text(CALLS)
    sys.modules.pop("calls", None)
    check = "data check rows.jsonl --task functions --score 4 --reward-funcs calls:"
    many, by_chance = "\nscored many in one call, as training does: ", "rewards are random, or"
    said = {
        "whole": (1, "whole returned 1 rewards for 11 answers: expected one for each answer"),
        "chance": (0, "chance gives 0."),
        "ranked": (0, "ranked gives 0.0909091 instead of 0 in line 2; rewards are random, or"),
        "longest": (0, f"longest gives 0.333333 instead of 1 in line 1; {by_chance}"),
    }
    for name, (status, message) in said.items():
        assert main(f"{check}{name}".split()) == status
        out = capsys.readouterr().out
        assert many + message in out and "\n0 of 11 cannot be scored\n" in out
        assert main(f"{check}{name} --json".split()) == status
        assert json.loads(capsys.readouterr().out)["together"][:9] == message[:9]
    for name in ("rounded", "strict", "first"):  # strict reads no text but numbers
        assert main(f"{check}{name}".split()) == 0 and many not in capsys.readouterr().out


def test_data_check_scores_a_large_file_in_few_calls(mine, capsys):
    """A judge can take seconds for a call: only the first rows are asked about one by one. A call
    that fails is halved, so each row that fails is found, and a failure of no row is said as well.
    """
    mine([{"prompt": f"{i}?", "n": i} for i in range(1_000)])
    (mine.folder / "calls.py").write_text(
        "sizes = []\n\n\n"
        "def f(completions, n, **_):\n    sizes.append(len(n))\n"
        "    return [1 / (x not in (70, 900)) for x in n]\n\n\n"
        "def g(completions, n, **_):\n    return [1 / (len(n) != 168) for _ in n]\n"
    )
    sys.modules.pop("calls", None)
    check = "data check rows.jsonl --task functions --score 4 --reward-funcs calls:"
    assert main(f"{check}f".split()) == 1
    out = capsys.readouterr().out
    assert "line 71 cannot be scored: f raised ZeroDivisionError" in out
    assert "\n2 of 1,000 cannot be scored\n" in out
    assert len(sys.modules["calls"].sizes) < 64 + 50
    assert main(f"{check}g".split()) == 1  # 1,000 = 64 + 3 * 256 + 168
    out = capsys.readouterr().out
    assert "\n0 of 1,000 cannot be scored\nscored many in one call, as training does: g ra" in out


def test_a_fault_of_every_row_is_told_once(mine, capsys):
    mine([{"prompt": f"{i}?"} for i in range(5)])
    (mine.folder / "calls.py").write_text(
        "def f(prompts, **_):\n"
        "    raise KeyError(f'a{prompts[0]}.5e-3' if prompts[0] < '4' else 'b')\n"
    )
    sys.modules.pop("calls", None)
    check = "data check rows.jsonl --task functions --score 4 --reward-funcs calls:f"
    assert main(check.split()) == 1
    lines = [x for x in capsys.readouterr().out.splitlines() if "cannot be scored" in x]
    assert [line.split(":")[0] for line in lines] == [
        "line 1 cannot be scored",
        "line 5 cannot be scored",
        "5 of 5 cannot be scored",
    ]


@pytest.mark.slow
def test_a_run_tells_of_held_out_rows_that_are_trained_on(mine, capsys):
    """Every tenth row is held out, from the last one on: here the first row once more."""
    rows = [{"prompt": f"What is {i}?", "answer": str(i)} for i in range(10)]
    mine([{"prompt": "Who?"}, *rows, {"prompt": "What is 3?"}])
    model = byte_model(mine.folder / "model", 16, 32, 1, 2, 2)
    command = "train --task functions --data rows.jsonl --reward-funcs my_rewards:brief --steps 1"
    command += f" --prompts 1 --group-size 2 --eval-answers 3 --max-new-tokens 4 --model {model}"
    assert main([*command.split(), "--out", "seen"]) == 0
    told = "1 of the 2 held-out rows that are measured asks the same as one to train on"
    assert told in capsys.readouterr().err
    assert main([*command.split(), "--eval-problems", "1", "--out", "first"]) == 0
    assert "ask the same" not in capsys.readouterr().err  # "What is 0?" is measured alone


@pytest.mark.slow
def test_a_run_tells_of_a_function_that_says_nothing(mine, capsys, monkeypatch):
    """Whatever the model writes earns the same in one objective, and not in the other."""
    mine([{"prompt": f"{i}?"} for i in range(20)])
    (mine.folder / "calls.py").write_text(
        "def flat(completions, **_):\n    return [0.5] * len(completions)\n\n\n"
        "def ends(completions, **_):\n    return [float(c[-1:] < 'n') for c in completions]\n"
    )
    sys.modules.pop("calls", None)
    model = byte_model(mine.folder / "model", 16, 32, 1, 2, 2)
    command = "train --task functions --data rows.jsonl --steps 1 --prompts 1 --group-size 4 --m 1"
    command += f" --eval-problems 2 --eval-answers 9 --max-new-tokens 6 --model {model}"
    for functions, told in (("flat,ends", True), ("ends", False), ("flat", False)):
        given = ["--reward-funcs", f"calls:{functions}", "--out", functions]
        assert main([*command.split(), *given]) == 0
        said = "before training, all answers to a problem earn the same in flat: this does not say"
        assert (said in capsys.readouterr().err) == told


def test_no_weight_is_negative(mine):
    """Random weights are not: VPO would maximise what w* has to be low."""
    with pytest.raises(ValueError, match=r"w_star = \[-1\.0, 2\.0\]: expected 0 or more"):
        mine(reward_funcs="my_rewards:correct,brief", reward_weights="-1,2")


def test_data_check_tells_of_columns_that_rows_lack_or_fill_with_several_kinds(mine, capsys):
    """A function that compares the answer 3 with the text "3" never pays, and nothing said so."""
    rows = [{"prompt": "x", "answer": str(n), "of": n, "never": None} for n in range(4)]
    rows += [{"prompt": "x", "answer": 3, "of": 0.5}, {"prompt": "x", "of": True}]
    rows += [{"prompt": "x", "answer": None, "of": 1, "never": None}]
    mine(rows)
    check = "data check rows.jsonl --task functions --reward-funcs my_rewards:brief"
    assert main(check.split()) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("column")]
    assert told == [
        "column answer: none in 2 of 7 rows (first: line 6); functions get None there",
        'column answer: text in 4 rows, number in 1 (first: line 5); "1" and 1 are not equal',
        "column of: number in 6 rows, truth value in 1 (first: line 6)",
    ]
    assert main(f"{check} --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == {
        "answer": {"text": 4, "number": 1, "none": 2},
        "of": {"number": 6, "truth value": 1},
        "never": {"none": 7},
    }


NONE = "of the answers; None counts as the worst reward"


def test_rows_for_which_a_function_has_no_reward_are_counted(mine, capsys):
    mine()
    check = "data check rows.jsonl --task functions --reward-funcs my_rewards:correct,for_even"
    assert main(f"{check} --score 4".split()) == 0
    assert f"\nfor_even returned None for 50% {NONE}\n" in capsys.readouterr().out
    assert main(f"{check} --score 4 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["none"] == {"correct": 0, "for_even": 5}
    assert main(check.split()) == 0 and "None" not in capsys.readouterr().out


def test_an_answer_that_all_functions_leave_out_is_invalid_and_not_counted():
    one, other = (lambda **_: [None, None, 1, 1]), (lambda **_: [None, 1, 1, 1])
    both = RewardFunctions([one, other])
    assert both.rewards(dict, 4) == [[0, 0], [0, 1], [1, 1], [1, 1]]
    assert list(both.nones.values()) == [1, 0]
    alone = RewardFunctions([one])
    alone.rewards(dict, 4)
    assert list(alone.nones.values()) == [2]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([{"kind": 1}] * 4, "judge returned no 'short' for 100%"),
        ([None, {"kind": 1, "short": 1}] * 2, "judge returned None for 50%"),  # of both alike
        (
            [None, None, {"kind": 1, "short": 1}, {"kind": 1}],
            "judge returned no 'kind' for 50%, judge returned no 'short' for 75%",
        ),
        ([{"kind": 1, "short": 1}] * 4, ""),
    ],
)
def test_the_objective_that_a_function_leaves_out_is_named(returned, said):
    def judge(completions, **columns):
        return returned

    def of_rows(completions, **columns):
        return [[1.0]] * 4

    judge.objectives = ["kind", "short"]
    for objectives in (1, lambda **columns: 1):  # these vary from row to row
        of_rows.objectives = objectives
        found = RewardFunctions([judge, of_rows])
        found.rewards(lambda: {"completions": "abcd"}, 4, [found.parts({})] * 4)
        assert found.warning_of_none() == (f"{said} {NONE}" if said else "")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "trl"])
def test_a_run_says_once_how_often_a_function_had_no_reward(mine, command, capsys, engine):
    if engine == "trl":
        pytest.importorskip("trl")
    functions = "--reward-funcs my_rewards:correct,never --method grpo"
    assert command(f"{functions} --engine {engine}", "run") == 0
    err = capsys.readouterr().err
    assert err.count("returned None") == 1
    assert f"vpo-lite: before training, never returned None for 100% {NONE}\n" in err


@pytest.mark.slow
def test_a_report_says_how_often_a_function_had_no_reward(mine, command, capsys):
    """Ten answers to each of the two held-out prompts."""
    mine([{"prompt": f"Write {i}.", "total": i} for i in range(20)])
    asked = "report --task functions --data rows.jsonl --model model --m 1 --max-new-tokens 8"
    asked += " --device cpu --answers 10 --reward-funcs my_rewards:correct"
    assert main(f"{asked},never".split()) == 0
    assert f"\n\nnever returned None for 100% {NONE}.\n" in capsys.readouterr().out
    assert main(f"{asked},never --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["none"] == {"correct": 0, "never": 20}
    assert main(asked.split()) == 0 and "None" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_says_first_how_few_answers_were_read_and_how_many_cut_off(mine, command, capsys):
    """Random parameters never write three answers in eight tokens; a single answer is any text."""
    mine([{"prompt": f"Write {i}.", "total": i} for i in range(20)])
    asked = "report --task functions --data rows.jsonl --model model --max-new-tokens 8"
    asked += " --device cpu --answers 9 --reward-funcs my_rewards:correct"
    assert main(asked.split()) == 0
    first = capsys.readouterr().out.split("\n\n")[0]
    assert " Only 0% of the answers could be read; the others earned what a missing one" in first
    assert f" The model {HARDLY_WRITES}." in first and "an instruct model" in first
    assert re.search(r" \d+% of the rollouts were cut off at the token limit: raise --max", first)
    assert main(f"{asked} --m 1 --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parse_rate"] == 1 and 0.1 < found["truncated_rate"] <= 1
    assert main(f"{asked} --m 1".split()) == 0
    first, rest = capsys.readouterr().out.split("\n\n", 1)
    assert "could be read" not in first and HARDLY_WRITES not in first
    assert "count as invalid" not in rest  # rows have no class in which to say otherwise


@pytest.mark.slow
def test_a_run_names_the_function_that_raises_and_its_own_line(mine, command, capsys):
    """The error comes from a library that the function calls."""
    text = "import json\n\ndef judge(completions, **columns):\n    return json.load(None)\n"
    (mine.folder / "away.py").write_text(text)
    assert command("--reward-funcs my_rewards:brief,away:judge --method grpo", "run") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("vpo-lite: judge raised AttributeError: ")
    assert "(away.py, line 4); fix this, then: vpo-lite train --resume run" in said


@pytest.mark.slow
def test_a_reward_below_the_worst_has_one_cure_here_and_one_in_another_run(mine, command, capsys):
    """A run cannot be resumed with another worst reward, nor begun anew in its own folder."""
    assert command("--reward-funcs my_rewards:low --method grpo", "run") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        "vpo-lite: low returned -1, less than worst = 0: a missing answer would be worth more; "
        "change the function, then: vpo-lite train --resume run; or start in another --out with "
        "the least reward of each function as --worst-reward=A,B"
    )
    assert command("--reward-funcs my_rewards:low --method grpo --worst-reward=-1", "other") == 0
    check = "data check rows.jsonl --task functions --reward-funcs my_rewards:low --score 4"
    assert main(check.split()) == 1  # there is no run yet
    said = "return no less, or name the least reward of each function as --worst-reward=A,B"
    assert said in capsys.readouterr().out


def test_memory_that_a_function_lacks_is_no_mistake_of_its_own():
    def full(completions, **columns):
        raise MemoryError

    with pytest.raises(MemoryError):
        RewardFunctions([full]).rewards(lambda: {"completions": ["a"]}, 1)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rows.csv", "prompt,total\nWhat?,1\n", "a table of texts; write the rows as JSON lines"),
        ("rows.json", '[{"prompt": "What?"}]', "line 1: a JSON list; write one object on each"),
    ],
)
def test_rows_in_another_format_are_refused_with_the_cure(mine, capsys, name, text, words):
    (mine.folder / name).write_text(text)
    assert main(f"data check {name} --task functions".split()) in (1, 2)
    assert words in "".join(capsys.readouterr())
    with pytest.raises(DamagedError, match=words):
        FunctionsTask(data=mine.folder / name, reward_funcs="my_rewards:brief").instance(0)


def test_rows_beside_a_damaged_line_are_scored(mine, capsys):
    mine([*SUMS, {"promt": "What?", "total": 1}])
    check = "data check rows.jsonl --task functions --reward-funcs my_rewards:correct --score 4"
    assert main(check.split()) == 1
    out = capsys.readouterr().out
    assert "\n0 of 10 cannot be scored\n" in out and "line 11: field prompt is missing" in out


@pytest.mark.slow
def test_a_function_that_no_answer_satisfies_is_named_before_training(mine, command, capsys):
    never = "no answer earned more than a worthless one in never: "
    functions = "--reward-funcs my_rewards:brief,never --method grpo"
    assert command(functions, "run") == 0
    err = capsys.readouterr().err
    assert f"vpo-lite: before training, {never}" in err
    of_the_run = "--task functions --data rows.jsonl --model model --m 1 --max-new-tokens 8"
    assert main(f"report {of_the_run} --reward-funcs my_rewards:brief,never".split()) == 0
    assert never in " ".join(capsys.readouterr().out.split())


def test_functions_of_a_notebook_are_named_by_its_module(mine, monkeypatch):
    """IPython and Python alike run what is typed in the module ``__main__``."""
    of_the_notebook = lambda completions, **columns: [0.5] * len(completions)  # noqa: E731
    monkeypatch.setattr(sys.modules["__main__"], "of_the_cell", of_the_notebook, raising=False)
    task = mine(reward_funcs="__main__:of_the_cell")
    assert task.score([task.instance(0)], [["a"]])[0].tolist() == [[0.5]]


def test_an_exported_run_says_which_modules_a_cluster_needs(mine):
    ours = TrainConfig.preset("demo", task="functions", model=mine.folder)
    functions = ours.but(data=mine().data, reward_funcs="my_rewards:correct")
    assert functions.code == {"reward_funcs": "my_rewards:correct"} and ours.code == {}
    words = readme(functions, 1, 1, {"train.parquet": 1, "held_out.parquet": 1})
    assert "The module of `my_rewards:correct` must be importable there.\nSo set PYTHON" in words
    assert f"The data file `{mine.folder / 'rows.jsonl'}` must be readable there.\n" in words
    assert f"The model folder `{mine.folder}` must be readable there.\n" in words
    named = readme(ours.but(model="some/model"), 1, 1, {"train.parquet": 1, "held_out.parquet": 1})
    assert "model folder" not in named


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("narrow", "'total'); let it take **columns"),
        ("ids", "only TRL hands over completion_ids"),
        ("misspelt", "'totl'); there is total, prompts, completions"),
    ],
)
def test_a_function_that_cannot_be_called_is_named_before_the_run(
    mine, command, capsys, name, words
):
    assert command(f"--reward-funcs my_rewards:brief,{name}", "run") == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{name} cannot be called" in said and words in said
    assert not (mine.folder / "run").exists()


@pytest.mark.parametrize(
    "text",
    [json.dumps(SUMS), json.dumps(SUMS, indent=1), json.dumps(SUMS[0], indent=1), "prompt,total"],
    ids=["a list", "a list in lines", "an object in lines", "a table"],
)
def test_a_file_that_is_no_json_lines_is_told_the_form(text, mine, capsys):
    """What data sets are often stored as. The line that is wrong in a good file stays as it was."""
    (mine.folder / "other.json").write_text(text + "\n")
    given = ["--task", "functions", "--reward-funcs", "my_rewards:brief", "--data"]
    form = "; write one object on each line\n"
    model = byte_model(mine.folder / "model", 16, 32, 1, 2, 2)
    capsys.readouterr()
    assert main(["train", *given, "other.json", "--model", str(model), "--out", "run"]) == 2
    assert (said := capsys.readouterr().err).endswith(form) and "other.json, line 1: " in said
    assert main(["data", "check", "other.json", *given[:-1]]) == 1
    assert form in capsys.readouterr().out
    (mine.folder / "other.json").write_text('{"total": 3}\n')
    assert main(["data", "check", "other.json", *given[:-1]]) == 1
    assert "line 1: field prompt is missing; there is total\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"prompt": "1?"}\n'.encode("utf-16"), "line 1: is no UTF-8 text; save the file as UTF-8"),
        ('{"prompt": "1?"}\n'.encode("utf-16-le"), "line 1: is no UTF-8 text; save the"),
        ('{"prompt": "Été?"}\n'.encode("latin-1"), "line 1: is no UTF-8 text; save the"),
        (b'{"prompt": "1?"}\r{"prompt": "2?"}\r', "line 1: no JSON .*; write one object on each"),
        (b'{"prompt": "1?", "total": 1, "total": 2}\n', "line 1: field total is there twice; keep"),
        (b'{"prompt": "1?", "t": [{"a": 1, "a": 1}]}\n', "line 1: field a is there twice; keep"),
        (b'{"question": "1?", "answer": 1}\n', "prompt is missing; there is question, answer\n"),
        (b"", "the file is empty: no run can use it\n"),
    ],
)
def test_rows_that_cannot_be_used_are_said_with_the_cure(mine, capsys, content, words):
    (mine.folder / "other.jsonl").write_bytes(content)
    assert main(["data", "check", "other.jsonl", "--task", "functions"]) == 1
    assert re.search(words, capsys.readouterr().out)


def test_files_that_were_joined_may_each_begin_with_a_mark(mine):
    rows = "".join(json.dumps(row) + "\r\n" for row in SUMS).encode("utf-8-sig")
    (mine.folder / "two.jsonl").write_bytes(rows + rows)
    loaded = FunctionsTask().load(mine.folder / "two.jsonl")
    assert len(loaded.records) == 2 * len(SUMS) and not loaded.damaged


@pytest.mark.parametrize("spell", [json.dumps, str])
def test_messages_that_are_spelled_in_a_text_are_refused(mine, spell):
    """A policy was asked the JSON text of the messages, without a word."""
    messages = [{"role": "user", "content": "What is 1 + 1?"}]
    task = mine([{"prompt": messages}, {"prompt": spell(messages)}, {"prompt": "[{'a': 1}] = ?"}])
    loaded = task.load(task.path)
    assert (list(loaded.records), list(loaded.damaged)) == ([0, 2], [1])
    said = loaded.damaged[1]
    assert ", line 2: field prompt should be messages, not a text of them, " in said
    assert said.endswith(": write the list itself, without json.dumps or str")


CALL = {"type": "function", "function": {"name": "f", "arguments": {}}}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"role": "assistant", "content": None}, "has content None in message 2: write what it"),
        ({"role": "user", "content": [{"type": "text"}]}, "has content [{'type': 'text'}] in me"),
        ({"role": 3, "content": "b"}, "has role 3 in message 2: write what it holds as one text"),
        ({"role": "tool", "content": "4"}, "not with message 2 of role 'tool': write what it says"),
        ({"content": "b"}, "has {'content': 'b'} as message 2: expected {"),
        (["b"], "has ['b'] as message 2: expected {"),
    ],
)
def test_a_message_that_no_request_can_hold_is_named(mine, second, said):
    first = {"role": "user", "content": "a"}
    task = mine([{"prompt": [first]}, {"prompt": [first, second]}])
    loaded = task.load(task.path)
    assert (list(loaded.records), list(loaded.damaged)) == ([0], [1])
    assert ", line 2: field prompt " in loaded.damaged[1] and said in loaded.damaged[1]


def test_keys_of_messages_that_no_request_holds_are_told_once(mine, command, capsys):
    """A null is none: parquet writes it for the messages that lack a key."""
    called = [
        {"role": "user", "content": "a", "name": None},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "user", "content": "b", "name": "Ann"},
    ]
    plain = [{"role": "user", "content": "a", "name": None}]
    task = mine([{"prompt": plain, "total": i} for i in range(11)] + [{"prompt": called}])
    (said,) = task.told("functions")
    assert said == (
        f"1 of 12 rows of {task.path} have messages with tool_calls, name (first: line 12): a "
        "request holds role and content alone; write into the content what the policy is to read"
    )
    assert main(["data", "check", task.path, "--task", "functions"]) == 0
    assert capsys.readouterr().out.splitlines().count(said) == 1
    assert [sorted(t) for t in task.prompt(task.load(task.path).at(11), 1).messages] == [
        ["content", "role"]
    ] * 3


def test_a_score_that_fails_names_the_lines(mine, capsys, monkeypatch):
    """Rows 0 to 9; brief gives None, which is the worst, to what holds a question mark."""
    monkeypatch.setattr(records, "TOGETHER", 2)
    mine([*SUMS[:4], {"prompt": "?", "total": "nan"}, *SUMS[5:]])
    asked = [{"id": i, "record": i, "m": 1, "text": "x"} for i in range(10)]
    (mine.folder / "answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in asked))
    scored = ["score", "--task", "functions", "--reward-funcs", "my_rewards:hard"]
    assert main([*scored, "--data", "rows.jsonl", "--answers", "answers.jsonl"]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == [0, 1, 2, 3]
    assert err == (
        "vpo-lite: answers.jsonl, lines 5 to 6: hard returned nan: a reward is a finite number, or "
        "None for the worst\n"
    )


def test_scoring_and_counting_show_a_bar_on_stderr_where_they_take_long(mine, capsys, monkeypatch):
    monkeypatch.setitem(records.BAR, "delay", 0)
    mine()
    (mine.folder / "answers.jsonl").write_text('{"id": 1, "record": 0, "m": 1, "text": "2"}\n')
    given = ["--task", "functions", "--reward-funcs", "my_rewards:brief"]
    assert main(["score", *given, "--data", "rows.jsonl", "--answers", "answers.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rewards"] == [[1 / 2]] and "scoring: " in err
    model = byte_model(mine.folder / "model", 16, 32, 1, 2, 2)
    capsys.readouterr()
    assert main(["data", "check", "rows.jsonl", *given, "--model", str(model)]) == 0
    assert "counting: " in capsys.readouterr().err
