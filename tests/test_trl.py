"""TRL: the reward of sets in its stock trainer, and runs of this kit on it."""

import contextlib
import dataclasses
import difflib
import importlib.util
import json
import logging
import math
import os
import pickle
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("trl")

import torch
import transformers
from brute_force import brute_force_max_at_k
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from small_models import THINKS, byte_model, byte_tokenizer, ending_tokenizer, model_folder
from transformers import GenerationConfig, GPT2LMHeadModel, OPTForCausalLM

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.integrations import trl_run, trl_steps
from vpo_lite.integrations.rewards import RolloutReward
from vpo_lite.integrations.trl import SetReward
from vpo_lite.integrations.trl_options import REFUSED as REFUSED_OPTIONS
from vpo_lite.integrations.trl_run import TrlRun
from vpo_lite.integrations.trl_setup import dataset, grpo_config
from vpo_lite.integrations.trl_states import check_going_on, other_streams
from vpo_lite.integrations.trl_surroundings import leave, silence
from vpo_lite.policy import shipped
from vpo_lite.policy.libraries import hf_logging
from vpo_lite.policy.loading import load_policy
from vpo_lite.randomness import generator
from vpo_lite.tasks.base import Prompt, Task, TaskError
from vpo_lite.tasks.functions import EXAMPLE_REWARDS
from vpo_lite.training import run as run_module
from vpo_lite.training.errors import TrainingError
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.problems import draw_weights, problems_of_step
from vpo_lite.training.run import Run
from vpo_lite.training.schemas import Engine

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "tests" / "data" / "trl"


# --- the reward function --------------------------------------------------------------------------


def correct(completions, total, **columns):
    return [float(t in _text(c)) for c, t in zip(completions, total, strict=True)]


def brief(prompts, completions, **columns):
    return [None if "?" in _text(c) else 1 / (1 + len(_text(c))) for c in completions]


def _text(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]


TEXTS = [  # of two groups, with rewards (correct, brief) worked by hand below
    ("1 + 1", "2", "<answer_1> 2 </answer_1> <answer_2> two </answer_2>"),
    ("1 + 1", "2", "<answer_1> 345 </answer_1> no more"),
    ("1 + 2", "3", "<answer_2> 3 </answer_2> <answer_1> ? </answer_1>"),
    ("1 + 1", "2", "nothing"),
]
BY_HAND = [
    [[1, 1 / 2], [0, 1 / 4]],
    [[0, 1 / 4], [0, 0]],
    [[0, 0], [1, 1 / 2]],
    [[0, 0], [0, 0]],
]


class Letters(Task):
    """Any text is m answers; an answer's rewards are its shares of vowels and of small letters."""

    name, seeds = "letters", {"train": range(100), "held_out": range(2)}

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return "vowels", "small"

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words(f"Write. {instance}")

    def parse(self, instance, text, m):
        return [text[i::m] or None for i in range(m)]

    def score(self, instances, answers):
        shares = [[[_share(t, "aeiou"), _share(t, str.islower)] for t in row] for row in answers]
        return [np.reshape(rows, (-1, 2)) for rows in shares]


def _share(text, letters):
    wanted = letters if callable(letters) else letters.__contains__
    return sum(map(wanted, text)) / len(text)


def call(reward, rows, *, chat=False, **more):
    prompts, totals, texts = (list(column) for column in zip(*rows, strict=True))
    if chat:
        prompts = [[{"role": "user", "content": p}] for p in prompts]
        texts = [[{"role": "assistant", "content": t}] for t in texts]
    return reward(prompts=prompts, completions=texts, total=totals, **more)


@pytest.mark.parametrize("chat", [False, True])
def test_functions_become_objectives(chat):
    """A set's reward is the mean over the group's weights of its best answer's w . r."""
    reward = SetReward.of_functions([correct, brief], answers=2, K=5, seed=7)
    found = call(reward, TEXTS, chat=chat)
    for (prompt, *_), R, value in zip(TEXTS, BY_HAND, found, strict=True):
        asked = [{"content": prompt, "role": "user"}] if chat else prompt
        key = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        W = vpo.sample_weights(5, 2, 1.0, rng=generator(7, "weights", 0, key))
        assert value == pytest.approx(np.mean([max(w @ r for r in np.array(R)) for w in W]))
    assert found[0] > found[1] > found[3] == 0


def test_more_answers_than_are_read_are_refused():
    most = SetReward.of_functions([correct, brief], answers=100)
    asked = most.ask({"prompt": "?"})["prompt"]
    assert "<answer_100> ... </answer_100>" in asked
    with pytest.raises(ValueError, match=r"answers = 101: m = 101: .* 1 to 100 answers"):
        SetReward.of_functions([correct, brief], answers=101)
    with pytest.raises(ValueError, match="m = 101: this policy writes 1 to 100 answers"):
        SetReward(most.task, RolloutReward(answers=101))


def test_any_part_of_a_group_in_any_process_is_scored_alike():
    reward = SetReward.of_functions([correct, brief], answers=2, K=3)
    whole = call(reward, TEXTS)
    again = pickle.loads(pickle.dumps(SetReward.of_functions([correct, brief], answers=2, K=3)))
    assert call(again, TEXTS[2:]) == whole[2:]
    assert call(again, TEXTS[2:]) != whole[2:]  # by its own count this is the next step
    state = type("State", (), {"global_step": 0})
    assert call(again, TEXTS[:2][::-1], trainer_state=state) == whole[:2][::-1]
    named = call(reward, TEXTS, trainer_state=state, vpo_key=["a", "b", "c", "b"])
    assert named != whole
    assert call(reward, TEXTS[:2], trainer_state=state, vpo_key=["a", "b"]) == named[:2]


def test_functions_are_called_as_trl_calls_them_once_per_answer():
    seen = []

    def spy(prompts, completions, total, trainer_state, **columns):
        seen.append((prompts, completions, total, trainer_state, sorted(columns)))
        return [0] * len(prompts)

    state = type("State", (), {"global_step": 3})
    ids = [[1]] * 2
    call(
        SetReward.of_functions([spy], answers=2), TEXTS[:2], trainer_state=state, completion_ids=ids
    )
    asked = ["1 + 1"] * 3
    assert seen == [(asked, ["2", "two", "345"], ["2"] * 3, state, ["log_metric"])]


def test_environments_of_trl_need_a_name_for_the_group_and_are_not_copied():
    """TRL adds what reset() says to each rollout's prompt: so prompts do not tell groups apart."""
    locked = [SimpleNamespace(lock=threading.Lock()) for _ in range(2)]  # cannot be copied
    handed = []

    def spy(completions, environments, **columns):
        handed.extend(environments)
        return [1.0] * len(completions)

    reward = SetReward.of_functions([spy], answers=2)
    texts = ["<answer_1>4</answer_1> <answer_2>5</answer_2>"] * 2
    given = dict(prompts=["2 + 2, 1st", "2 + 2, 2nd"], completions=texts, environments=locked)
    with pytest.raises(ValueError, match=r"environments: .* add a column vpo_key"):
        reward(**given)
    assert reward(**given, vpo_key=["a", "a"]) == [1, 1]
    assert [one is locked[i // 2] for i, one in enumerate(handed)] == [True] * 4


def test_a_script_may_keep_its_judge_to_itself():
    """datasets pickles what it maps with: a judge of some gigabytes was written into memory."""

    class Judge:
        def __call__(self, completions, **columns):
            return [0.0] * len(completions)

        def __reduce__(self):
            raise AssertionError("it is not pickled")

    ask = pickle.loads(pickle.dumps(SetReward.of_functions([Judge()], answers=2).ask))
    assert "<answer_2> ... </answer_2>" in ask({"prompt": "Why?"})["prompt"]


def test_a_script_is_told_once_that_a_function_often_had_no_reward():
    reward = SetReward.of_functions([correct, brief], answers=2)
    with pytest.warns(
        UserWarning, match="^brief returned None for 20% of the answers; None"
    ) as told:
        call(reward, TEXTS * 9)
        assert not told, "of 45 answers nothing is said yet"
        call(reward, TEXTS), call(reward, TEXTS)
    assert len(told) == 1 and told[0].filename == __file__
    other = SetReward.of_functions([correct, brief], answers=2)
    elsewhere = type("State", (), {"global_step": 0, "is_world_process_zero": False})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(other, TEXTS * 10, trainer_state=elsewhere)


def test_a_script_whose_functions_differ_in_scale_is_told_once():
    def length(completions, **columns):
        return [100.0 * len(text) for text in completions]

    reward = SetReward.of_functions([correct, length], answers=2)
    with pytest.warns(
        UserWarning, match="components differ in scale: length reaches 300 above .*, correct 1"
    ) as told:
        call(reward, TEXTS * 9)
        assert not told, "of 45 answers nothing is said yet"
        call(reward, TEXTS[-1:] * 5), call(reward, TEXTS)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (dict(method="goal_conditioned", answers=1), "its weights stand in the prompts"),
        (dict(m=3), "'m': of_functions takes method, answers, K, .*; m is called answers"),
        (dict(alpah=1), "'alpah': of_functions takes .*; did you mean alpha?"),
        (dict(seed="x"), "seed = 'x'"),
        (dict(seed=1.5), "seed = 1.5"),
        (dict(pay_repeats="no"), "pay_repeats = 'no': must be True or False"),
    ],
)
def test_a_reward_that_cannot_be_is_refused_when_it_is_made(how, said):
    """goal_conditioned trained random_weighting: no prompt held the weights."""
    with pytest.raises(ValueError, match=said):
        SetReward.of_functions([correct, brief], **how)


def test_what_is_no_task_and_a_row_without_a_prompt_are_named():
    with pytest.raises(ValueError, match="task = 'maze': expected a Task object"):
        SetReward("maze")
    with pytest.raises(
        ValueError, match="ask: a row has no column prompt; it has answer, question"
    ):
        SetReward.of_functions([correct]).ask({"question": "1 + 1", "answer": 2})


def test_a_script_whose_prompts_do_not_ask_for_the_form_is_told_once():
    """As where .map(reward.ask) is missing: of 40 answers 2 can be read, of 80 then 4."""
    reward = SetReward.of_functions([correct], answers=2)
    rows = [("1 + 1", "2", "It is 2.")] * 19 + [
        ("1 + 1", "2", "<answer_1>2</answer_1> <answer_2>3</answer_2>")
    ]
    with pytest.warns(UserWarning, match="^95% of the answers could not be read: their") as told:
        call(reward, rows)
        assert not told, "of 40 answers nothing is said yet"
        call(reward, rows), call(reward, rows)
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(SetReward.of_functions([correct], answers=2), rows[-1:] * 6 + rows)


def test_a_data_set_of_evaluation_whose_prompts_do_not_ask_is_told_too():
    """Beside the readable answers of training it went under."""
    reward = SetReward.of_functions([correct], answers=2)
    asked = reward.ask({"prompt": "1 + 1"})["prompt"]
    good = [(asked, "2", "<answer_1>2</answer_1> <answer_2>3</answer_2>")] * 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(reward, good)
    with pytest.warns(UserWarning, match="^100% .*do not ask for their form; map each data set"):
        call(reward, [("1 + 1", "2", "It is 2.")] * 30)


def test_functions_see_the_prompts_of_the_rows_as_on_the_command_line():
    """They saw the lines that ask for m answers, too: a judge's or a pattern's prompt."""
    seen = []

    def look(prompts, completions, **columns):
        seen.extend(prompts)
        return [0.0] * len(completions)

    for prompt in ("1 + 1", [{"role": "system", "content": "Be brief."}, *message("1 + 1")]):
        reward = SetReward.of_functions([look], answers=3)
        asked = reward.ask({"prompt": prompt})["prompt"]
        assert asked != prompt and asked == reward.ask({"prompt": asked})["prompt"]  # asked once
        reward([asked], ["<answer_1>2</answer_1> <answer_2>3</answer_2> <answer_3>4</answer_3>"])
        assert seen == [prompt] * 3
        seen.clear()


def message(text):
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("thinks", [True, False])
def test_a_thought_that_trl_took_out_of_a_message_is_no_answer(thinks):
    """With a response_template in the tokenizer the message has no </think>: where the prompt opens
    a thought every answer was taken for a part of it.
    """
    reward = SetReward.of_functions([correct], answers=2, thinks=thinks)
    form = "<answer_1>4</answer_1> <answer_2>5</answer_2>"
    said = {"role": "assistant", "content": form, "reasoning_content": "<answer_1>6</answer_1>?"}
    silent = {"role": "assistant", "content": form if not thinks else f"so</think>{form}"}
    found = reward([message("2 + 2")] * 2, [[said], [silent]], total=["4", "4"])
    assert found == [1, 1]
    assert reward([message("3 + 3")], [[said]], total=["6"]) == [0]


def test_a_row_without_a_key_of_its_own_has_that_of_its_prompt():
    """A column that one of two joined data sets has holds None for the rows of the other."""
    reward = SetReward.of_functions([correct, brief], answers=1, K=4, method="random_weighting")
    prompts, texts = ["1 + 1", "2 + 2", "1 + 1"], ["2", "4", "2"]
    _, keys = reward.score(prompts, texts, 0, {"total": texts, "vpo_key": [None, None, "own"]})
    _, usual = reward.score(prompts, texts, 0, {"total": texts})
    assert keys == [*usual[:2], "own"] and len({*keys}) == 3


def test_a_column_may_have_any_name():
    def mine(completions, self, **_):
        return [float(c == s) for c, s in zip(completions, self, strict=True)]

    reward = SetReward.of_functions([mine], answers=1)
    assert reward(prompts=["a", "b"], completions=["x", "y"], self=["x", "z"]) == [1, 0]


def test_settings_that_the_method_does_not_use_are_said():
    unused = {"w_star": dict(w_star=[2, 1]), "k": dict(k=2), "eps": dict(eps=1e-5)}
    for name, how in unused.items():
        with pytest.warns(UserWarning, match=f"{name}: method vpo does not use it") as told:
            SetReward.of_functions([correct, brief], **how)
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SetReward.of_functions([correct, brief], method="set_max", w_star=[2, 1])
        one = dict(answers=1, group_size=4)
        SetReward.of_functions([correct, brief], method="max_at_k", k=2, w_star=[2, 1], **one)
        SetReward.of_functions([correct, brief], method="maxrl", eps=1e-5, **one)


def test_what_is_logged():
    """Means over the rollouts of a call: here three of one group and one of another."""
    logged = {}
    reward = SetReward.of_functions([correct, brief], answers=2)
    call(reward, TEXTS, log_metric=logged.__setitem__)
    R = np.array(BY_HAND)
    assert logged["vpo/objective/correct"] == pytest.approx(R[..., 0].mean())
    assert logged["vpo/objective/brief"] == pytest.approx(R[..., 1].mean())
    assert logged["vpo/set_reward"] == pytest.approx(vpo.exact_set_reward(R).mean())
    assert logged["vpo/parse_rate"] == pytest.approx(5 / 8)
    assert logged["vpo/valid_rate"] == pytest.approx(4 / 8)
    assert "vpo/coverage" not in logged  # nobody knows the front


def test_coverage_is_logged_where_the_front_is_known():
    config = vpo.TrainConfig.preset("demo", maze_seed=1000, m=2)
    reward, logged = SetReward.of(config), {}
    x = reward.task.instance(0)
    routes = x.pareto_front().routes
    text = reward.task.write(x, routes[:1])
    columns = dict(seed=[5, 6], slot=[0, 1], log_metric=logged.__setitem__)
    found = reward(["", ""], [text, ""], **columns)
    front = x.pareto_front().rewards
    assert logged["vpo/coverage"] == pytest.approx(vpo.coverage(front[:1], front) / 2)
    assert found[0] > found[1] == 0
    with pytest.raises(ValueError, match="rows need columns seed and slot"):
        reward([""], [text])
    with pytest.raises(ValueError, match=r"task 'maze' are made by .*trl_setup\.dataset"):
        reward.ask({"prompt": "?"})


def test_asking_for_answers_goes_with_reading_them():
    reward = SetReward.of_functions([brief], answers=3)
    text = reward.ask({"prompt": "Name three."})["prompt"]
    assert text.startswith("Name three.\n\nWrite 3 different answers")
    assert reward.task.parse(None, text, 3) == ["..."] * 3
    system = {"role": "system", "content": "Be brief."}
    chat = [system, {"role": "user", "content": "Name three."}]
    asked = reward.ask({"prompt": chat})["prompt"]
    assert asked == [system, {"role": "user", "content": text}] and chat[1]["content"][-1] == "."


def low(completions, **columns):
    return [-1.0] * len(completions)


def short(completions, **columns):
    return [0.0]


async def later(completions, **columns):
    return correct(completions, **columns)


def test_a_function_may_be_asynchronous():
    found, expected = (
        call(SetReward.of_functions([f], answers=2), TEXTS) for f in (later, correct)
    )
    assert found == expected and max(found) > 0


def test_wrong_functions_are_said_in_one_line():
    with pytest.raises(TaskError, match="low returned -1, less than worst = 0"):
        call(SetReward.of_functions([low], answers=2), TEXTS)
    assert call(SetReward.of_functions([low], answers=2, worst=-2.0, K=1), TEXTS)[3] == -2
    with pytest.raises(TaskError, match="short returned 1 rewards for 5 answers"):
        call(SetReward.of_functions([short], answers=2), TEXTS)
    with pytest.raises(ValueError, match="at least one"):
        SetReward.of_functions([])
    with pytest.raises(ValueError, match="worst holds 1 values that are NaN"):
        SetReward.of_functions([low], worst=float("nan"))
    with pytest.raises(ValueError, match="2 for 1 functions"):
        SetReward.of_functions([low], w_star=[1, 2])
    twice = SetReward.of_functions([low, low, short])
    assert twice.task.objectives(None) == ("low_1", "low_2", "short")


# --- evaluation in a script -----------------------------------------------------------------------


def test_a_function_that_misses_a_column_is_told_which_there_are():
    def misspelt(completions, totel, **columns):
        return [0.0] * len(completions)

    def strict(completions):
        return [0.0] * len(completions)

    wrong = {misspelt: "'totel'.*there is total, .*prompts, completions", strict: r"\*\*columns"}
    for function, said in wrong.items():
        with pytest.raises(ValueError, match=f"{function.__name__} cannot be called.*{said}"):
            call(SetReward.of_functions([function]), TEXTS)


def test_what_trl_calls_otherwise_is_named_as_here():
    for given, ours in {"m": "answers", "reward_weights": "w_star"}.items():
        with pytest.raises(ValueError, match=f"{given} is called {ours}"):
            SetReward.of_functions([correct], **{given: 2})
    with pytest.raises(ValueError, match="'rewards:correct' is no function; import it"):
        SetReward.of_functions(["rewards:correct"])


def test_the_reward_of_a_held_out_row_does_not_depend_on_the_step():
    """Its weights were those of global_step: at K = 8 one completion scored .408, .652, .490."""

    def found(reward, step, **columns):
        state = type("State", (), {"global_step": step})
        return call(reward, TEXTS, trainer_state=state, **columns)

    sets = SetReward.of_functions([correct, brief], answers=2, K=8)
    marked = dict(vpo_held_out=[True] * len(TEXTS))
    assert found(sets, 0) != found(sets, 10)
    exact = vpo.exact_set_reward(np.array(BY_HAND)).tolist()
    assert found(sets, 0, **marked) == found(sets, 10, **marked) == pytest.approx(exact)
    single = SetReward.of_functions([correct, brief], answers=1, method="random_weighting")
    assert found(single, 0) != found(single, 10)
    assert found(single, 0, **marked) == found(single, 10, **marked)


def test_max_at_k_has_whole_groups_in_any_order():
    """Lengths of completions are the scores; two groups have one prompt."""
    reward = SetReward.of_functions([lengths], answers=1, method="max_at_k", k=2, group_size=3)
    reward = pickle.loads(pickle.dumps(reward))
    prompts, texts = list("abababaaa"), ["x" * n for n in (1, 5, 2, 5, 4, 6, 7, 8, 9)]
    found = reward(prompts=prompts, completions=texts)
    for rows in ([0, 2, 4], [1, 3, 5], [6, 7, 8]):  # a: the first three, then three more
        scores = np.array([[len(texts[i])] for i in rows])
        assert np.allclose([found[i] for i in rows], best_of_pairs(scores, np.ones(1)))
    held_out = {"vpo_held_out": [True] * 2}  # no group is compared
    assert reward(prompts=["a", "a"], completions=["xx", "x"], **held_out) == [2.0, 1.0]
    with pytest.raises(ValueError, match=r"max_at_k compares whole groups of group_size = 3.* 2 "):
        reward(prompts=["a", "a"], completions=["x", "xx"])


def lengths(completions, **columns):
    return [float(len(text)) for text in completions]


def test_a_method_of_ones_own_must_give_advantages_that_average_to_0():
    """TRL subtracts their mean: it would train something else in silence."""

    @vpo.estimators.method(single_answer=True, weights="many")
    def shifted_best(R, *, weights, k, **_):
        score = vpo.set_reward(R, weights)
        return score, score - score.mean() + (k or 0)

    try:
        made = [
            SetReward.of_functions([lengths, brief], answers=1, method="shifted_best", **how)
            for how in (dict(group_size=2), dict(group_size=2, k=1))
        ]
        rows = dict(prompts=["a", "a"], completions=["x", "xx"])
        high = made[0](**rows)
        assert high[0] == pytest.approx(-high[1]) and high[1] > 0.1
        with pytest.raises(ValueError, match=r"'shifted_best'.*average to 1, and TRL subtracts"):
            made[1](**rows)
    finally:
        del vpo.METHODS["shifted_best"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "give group_size, TRL's num_generations, and set scale_rewards='none'"),
        (dict(group_size=8, k=8), "group_size = 8: max_at_k needs at least 9 rollouts in a group"),
        (dict(group_size=1), "group_size = 1: max_at_k needs at least 2 rollouts in a group"),
        (dict(group_size="8"), "group_size = '8': expected a whole number"),
    ],
)
def test_the_size_of_whole_groups_is_checked_when_the_reward_is_made(how, said):
    with pytest.raises(ValueError, match=said):
        SetReward.of_functions([brief], answers=1, method="max_at_k", **how)


@pytest.mark.parametrize("kind", ["plain", "marked", "exact", "grpo", "earlier", "whole groups"])
def test_an_evaluation_of_unmarked_rows_is_said_once(kind):
    """A reward function is not told of it, but the log is: its next step says what to do."""
    how = dict(answers=2, K=math.inf if kind == "exact" else 4)
    how = dict(answers=1, method="grpo") if kind == "grpo" else how
    if kind == "whole groups":
        how = dict(answers=1, method="gdpo", group_size=2)
    rows = TEXTS[:2] if kind == "whole groups" else TEXTS
    reward = SetReward.of_functions([correct, brief], **how)
    log = [{"eval_reward": 0.5, "step": 1}] * (kind == "earlier")
    state = type("State", (), {"global_step": 1, "log_history": log})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(reward, rows, trainer_state=state)
        marked = {"vpo_held_out": [True] * len(rows)} if kind == "marked" else {}
        call(reward, rows, trainer_state=state, **marked)
        log.extend([{"reward": 0.5, "step": 2}] + [{"eval_reward": 0.5}] * (kind != "earlier"))
        for _ in range(3):
            call(reward, rows, trainer_state=state)
    said = [str(one.message) for one in caught]
    assert [x for x in said if "reward.ask_held_out" in x] == said
    assert len(said) == (kind in ("plain", "whole groups"))
    assert ("so 0 for every policy" in "".join(said)) == (kind == "whole groups")


def vowels(completions, **columns):
    return [sum(map(text.__contains__, "aeiou")) / 5 for text in completions]


@pytest.mark.slow
@pytest.mark.parametrize(("marked", "every"), [(True, 1), (False, 1), (False, 3)])
def test_trl_evaluates_an_unchanged_policy_alike_at_every_step(marked, every, tmp_path, recwarn):
    """lr 0 and the likeliest tokens: the same answers at every step. Rows that are not marked are
    measured with the weights of the step, and it is said, also of a single evaluation at the end.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model = model_folder(tmp_path / "model", byte_tokenizer(chat=False), 32, 48, 2, 4, 2)
    rows = Dataset.from_list([{"prompt": f"Write. {i}"} for i in range(2)])
    reward = SetReward.of_functions([brief, vowels], answers=1, K=2)
    how = dict(
        max_steps=3,
        learning_rate=0.0,
        top_k=1,
        num_generations=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_completion_length=8,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=every,
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=reward,
        args=GRPOConfig(output_dir=str(tmp_path / "out"), **how),
        train_dataset=rows.map(reward.ask),
        eval_dataset=rows.map(reward.ask_held_out if marked else reward.ask),
    )
    trainer.train()
    said = [one for one in recwarn if "reward.ask_held_out" in str(one.message)]
    assert len(said) == (not marked)
    logs = trainer.state.log_history
    trained = [log["reward"] for log in logs if "reward" in log]
    measured = [log for log in logs if "eval_reward" in log]
    assert [log["step"] for log in measured] == [*range(every, 4, every)] and len(set(trained)) == 3
    # the exact expectation over uniform weights of one answer is the mean of its objectives
    means = [
        (log["eval_vpo/objective/brief"] + log["eval_vpo/objective/vowels"]) / 2 for log in measured
    ]
    assert len(set(means)) == 1 and means[0] > 0
    rewards = [log["eval_reward"] for log in measured]
    assert rewards == pytest.approx(means, abs=1e-6) if marked else len(set(rewards)) == 3 // every


# --- the rows and the settings of a run -----------------------------------------------------------


def pocket_config(**changes):
    small = dict(steps=3, prompts=2, group_size=4, maze_seed=1000, m=2, K=4)
    return vpo.TrainConfig.preset("demo", **{**small, "device": "cpu", "threads": 1, **changes})


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("models") / "chat", 32, 48, 2, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pocket", "chat", "thinks", "plain", "weighed"])
def test_trl_reads_the_native_trainers_prompts(kind, chat_folder):
    """The same tokens for the same problems in the same order."""
    tokenizer = byte_tokenizer(chat=False) if kind == "plain" else None
    words = kind in ("chat", "thinks", "plain")
    model = str(chat_folder) if words else "auto"
    config = pocket_config(
        steps=2,
        maze_seed=None,
        model=model,
        method="goal_conditioned" if kind == "weighed" else "vpo",
        max_new_tokens=8,  # else 1,024 mazes are drawn for it
    )
    policy = load_policy(config.base_model, device="cpu")
    policy.tokenizer = tokenizer or policy.tokenizer
    if kind == "thinks":
        policy.tokenizer.chat_template = THINKS
    asked = grpo_config(config, "unused").chat_template_kwargs
    rows, task = dataset(config, policy.tokenizer), config.make_task()
    assert rows["slot"] == [0, 1] * 2 and rows["step"] == [0, 0, 1, 1]
    for row in rows:
        x = problems_of_step(task, config.seed, row["step"], config.prompts)[row["slot"]]
        assert task.key(task.instance(row["seed"])) == task.key(x)
        weights = draw_weights(task, config, [x], [f"{task.key(x)}#{row['slot']}"], row["step"])
        shown = weights[0][0] if kind == "weighed" else None
        prompt = task.prompt(x, config.answers, weights=shown, pocket=policy.pocket)
        if kind in ("chat", "thinks"):
            ids = policy.tokenizer.apply_chat_template(
                row["prompt"], add_generation_prompt=True, **asked
            )["input_ids"]
        else:
            ids = policy.tokenizer(text=row["prompt"])["input_ids"]
        assert ids == policy.encode(prompt)


def test_rows_ask_what_was_in_the_file_when_the_run_began(tmp_path):
    """An edited file changed the prompts of a run under way, but not what scored the answers."""
    data = tmp_path / "rows.jsonl"

    def write(word):
        rows = [{"prompt": f"{word} number up to {i}?", "limit": i} for i in range(1, 20)]
        data.write_text("\n".join(map(json.dumps, rows)))

    write("Which")
    functions = dict(task="functions", data=str(data), reward_funcs=f"{EXAMPLE_REWARDS}:small")
    config = vpo.TrainConfig.preset("demo", steps=1, model=str(tmp_path), **functions)
    rows = dataset(config, SimpleNamespace(chat_template="{{ messages }}"))
    write("What other")
    assert rows[0]["prompt"][0]["content"].startswith("Which number up to")
    other = pickle.loads(pickle.dumps(rows.format["format_kwargs"]["transform"]))
    assert other.task is None and other.config == config, "a data set's rows need not be copied"


class Begun(Letters):
    """Completions begin with a word of the task's."""

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return dataclasses.replace(super().prompt(instance, m), prefix="So")


@pytest.mark.slow
def test_a_task_that_begins_completions_is_refused(chat_folder, tmp_path):
    config = vpo.TrainConfig.preset("demo", task=Begun, model=str(chat_folder), device="cpu")
    with pytest.raises(TaskError, match="begins completions with a prefix, which TRL cannot"):
        TrlRun.begin(config, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_tokenizer_that_ends_a_prompt_is_refused(tmp_path):
    tokenizer = ending_tokenizer()
    folder = model_folder(tmp_path / "model", tokenizer, 32, 48, 2, 4, 2)
    small = SIZES | dict(task=Letters, model=str(folder), max_new_tokens=4)
    config = vpo.TrainConfig.preset("demo", **small)
    with pytest.raises(TaskError, match="ends a prompt with EOS, which TRL keeps: train natively"):
        TrlRun.begin(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Longer(Letters):
    """The prompts of a step differ in length, so that the shorter one is padded."""

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words("Write. " * (1 + instance))


@pytest.mark.slow
def test_a_run_reads_the_tokens_that_trl_leaves_out(tmp_path):
    """TRL's texts lack special tokens. Where the tags of answers are such, training found none."""
    tokenizer = byte_tokenizer(chat=True)
    tags = [f"<{end}answer_{i}>" for i in (1, 2) for end in ("", "/")]
    tokenizer.add_special_tokens({"additional_special_tokens": tags})
    folder = model_folder(tmp_path / "model", tokenizer, 32, 48, 2, 4, 2)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "2 + 2", "limit": 9}\n{"prompt": "3 + 3", "limit": 9}\n')
    functions = dict(data=str(rows), reward_funcs="vpo_lite.tasks.example_rewards:small")
    small = SIZES | dict(task="functions", model=str(folder), max_new_tokens=4, m=2)
    config = vpo.TrainConfig.preset("demo", **small, **functions)
    policy = load_policy(config.base_model, device="cpu")
    text = "So <answer_1> 4 </answer_1> or <answer_2> 12 </answer_2>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    ends = {tokenizer.eos_token_id}
    assert "answer" not in tokenizer.decode(ids, skip_special_tokens=True)
    team = trl_run.PartialState()
    reward = trl_steps.RunReward(SetReward.of(config), policy.read, ends, False, team)
    state = SimpleNamespace(global_step=0)
    asked = dict(trainer_state=state, log_metric=None, seed=[0, 0], slot=[0, 0])
    reward(["?", "?"], ["", ""], completion_ids=[[*ids, *ends], ids[:-1]], **asked)
    (_, whole), (_, cut) = reward.rollouts
    assert [list(one.answers.answers[0]) for one in (whole, cut)] == [["4", "12"], ["4", None]]
    assert [one.answers.truncated.item() for one in (whole, cut)] == [False, True]
    assert whole.answers.texts[0].strip() == text


@pytest.mark.slow
def test_a_tokenizer_whose_padding_has_no_row_in_the_model_trains(chat_folder, tmp_path):
    """As of models with an added [PAD]. TRL looked it up: a traceback after the measurement."""
    folder = shutil.copytree(chat_folder, tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(folder)
    small = SIZES | dict(task=Longer, model=str(folder), max_new_tokens=4, steps=1, prompts=2)
    run = TrlRun.begin(vpo.TrainConfig.preset("demo", **small), tmp_path / "run")
    rows = run.learner.policy.model.get_input_embeddings().weight.shape[0]
    assert run.learner.policy.tokenizer.pad_token_id >= rows
    run.start()
    assert run.train(lambda record: True) and run.done == run.learner.steps == 1
    run.close()


@pytest.mark.parametrize("warmup", [0, 2])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_learning_rate_of_a_step_is_the_native_trainers(schedule, warmup):
    config = pocket_config(steps=5, lr=0.01, warmup_steps=warmup, lr_schedule=schedule)
    args, steps = grpo_config(config, "unused"), config.steps
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    numbers = args.get_warmup_steps(steps), steps  # as transformers' Trainer makes its schedule
    rates = transformers.get_scheduler(args.lr_scheduler_type, optimizer, *numbers)
    for step in range(steps):
        assert rates.get_last_lr()[0] == pytest.approx(config.lr_at(step), rel=1e-12)
        optimizer.step(), rates.step()


def test_the_recommended_settings():
    args = grpo_config(pocket_config(micro_batch=3, kl=0.1, aggregation="sequence"), "unused")
    batch = args.per_device_train_batch_size, args.gradient_accumulation_steps
    assert batch == (2, 4) and args.generation_batch_size == 8  # the largest divisor of 8 up to 3
    assert (args.loss_type, args.beta, args.num_generations) == ("grpo", 0.1, 4)
    task, pocket = pocket_config().make_task(), shipped.description("pocket-6x6")
    assert args.max_completion_length == task.max_tokens(task.instance(0), 2, pocket)
    assert args.scale_rewards == "group"
    with pytest.raises(ValueError, match="= 8 rollouts cannot be shared by 3 processes"):
        grpo_config(pocket_config(), "unused", 3)


def test_methods_that_compare_whole_groups_need_them_in_each_process():
    config = pocket_config(method="max_at_k")  # two prompts, groups of 4
    for processes in (1, 2):
        args = grpo_config(config, "unused", processes)
        assert args.scale_rewards == "none"
    with pytest.raises(ValueError, match=r"prompts = 2 on 4 processes: max_at_k.*multiple of 4"):
        grpo_config(config, "unused", 4)


@pytest.mark.slow
def test_the_token_limit_is_that_of_the_run_and_not_of_its_first_problems(monkeypatch):
    """TRL has one for all steps, and cut the last answer where a later maze needs more."""
    many = pocket_config(maze_seed=None, layout="hard-8x8", prompts=1, steps=1, max_new_tokens=None)
    task, pocket = many.make_task(), shipped.description("pocket-6x6")
    steps = [problems_of_step(task, many.seed, step, 1)[0] for step in range(120)]
    needed = [task.max_tokens(maze, many.answers, pocket) for maze in steps]
    assert needed[0] < max(needed)  # the run may be made longer
    monkeypatch.setattr("vpo_lite.training.problems.LOOKED_AT", 120)
    assert grpo_config(many, "unused").max_completion_length == max(needed)


REFUSED = {
    "whiten": dict(method="gdpo", whiten=True),
    "vpo_recombined": dict(method="vpo_recombined"),
    "epochs": dict(epochs=2),
    "mini_batches": dict(mini_batches=2),
    "rollout_dtype": dict(rollout_dtype="bfloat16"),
    "compile": dict(compile=True),
    "sample_batch": dict(sample_batch=4),
    "load_in": dict(load_in="4bit"),
    "device": dict(device="cuda:1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_trl_cannot_honour_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}.*(natively|leave it out|set it to 1)"):
        grpo_config(pocket_config(**REFUSED[name]), "unused")


def test_options_with_which_a_run_would_fail_late_are_refused_at_once():
    """They are fields of this TRL's GRPOConfig, else another line would refuse them."""
    for name, why in REFUSED_OPTIONS.items():
        with pytest.raises(ValueError) as refused:
            grpo_config(pocket_config(), "unused", 1, **{name: True})
        assert str(refused.value) == f"engine option {name}: {why}; leave it out"
    for key, flag in {"temperature": " (--temperature)", "eos_token_id": " (--model)"}.items():
        with pytest.raises(ValueError) as refused:  # in silence it sampled otherwise
            grpo_config(pocket_config(), "unused", 1, generation_kwargs={key: 1})
        said = f"generation_kwargs: {key}: the run's own settings decide it{flag}; leave it out"
        assert str(refused.value) == f"engine option {said}"
    made = grpo_config(pocket_config(), "unused", 1, generation_kwargs={"min_new_tokens": 3})
    assert made.generation_kwargs == {"min_new_tokens": 3}


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("generation_kwargs", 5, {}),
        ("lr_scheduler_kwargs", 3, None),
        ("report_to", 7, ["none"]),
        ("min_p", "x", 1),
        ("top_k", True, 5),
        ("top_k", 1.5, 0),
        ("adam_epsilon", None, 1e-6),
        ("log_completions", 1, False),
    ],
)
def test_an_option_of_another_type_is_refused_at_once(name, wrong, right):
    """A run measured its policy first, and could then never go on."""
    with pytest.raises(ValueError, match=f"^engine option {name} = .*: expected "):
        grpo_config(pocket_config(), "unused", 1, **{name: wrong})
    grpo_config(pocket_config(), "unused", 1, **{name: right})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"adam_beta1": 2}, "Invalid beta parameter"),
        ({"adam_epsilon": -1}, "Invalid epsilon value"),
        ({"top_k": -5}, "`top_k` has to be a strictly positive integer"),
        ({"top_p": 2}, "`top_p` has to be a float"),
        ({"min_p": 2}, "`min_p` has to be a float"),
        ({"repetition_penalty": 0}, "`penalty` has to be a strictly positive float"),
        ({"generation_kwargs": {"min_p": 2}}, "`min_p` has to be a float"),
        ({"generation_kwargs": {"bogus": 1}}, "generate has no such setting"),
        ({"importance_sampling_level": "bogus"}, "there is token, sequence"),
        ({"dataloader_num_workers": -1}, "num_workers option should be non-negative"),
        (
            {"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"bogus": 2}},
            "unexpected keyword argument 'bogus'",
        ),
    ],
    ids=str,
)
def test_an_option_out_of_its_range_is_refused_at_once(options, said):
    """The first step failed, after the policy was measured, and so did each that went on."""
    with pytest.raises(ValueError, match=f"^engine options .*{re.escape(said)}"):
        grpo_config(pocket_config(), "unused", 1, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0, "min_p": 0.1, "top_p": 0.9, "repetition_penalty": 1.1},
        {"optim": "adafactor", "lr_scheduler_type": "linear"},
        {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-5}},
        {"importance_sampling_level": "sequence", "dataloader_num_workers": 1},
        {"generation_kwargs": '{"min_new_tokens": 3}'},
    ],
    ids=str,
)
def test_options_that_work_are_taken(options):
    made = grpo_config(pocket_config(), "unused", 1, **options)
    assert all(getattr(made, name) == value for name, value in options.items()) or (
        made.generation_kwargs == {"min_new_tokens": 3}
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["adam_epsilon=Infinity"], "options.adam_epsilon.float should be a finite number"),
        (["top_p=0.9", "top_p=0.8"], "--engine-options 'top_p': given twice"),
    ],
)
def test_an_option_of_the_command_line_is_refused_in_one_line(options, said, tmp_path, capsys):
    train = ["train", "--engine", "trl", "--out", str(tmp_path / "run")]
    assert main([*train, "--engine-options", *options]) == 2
    err = capsys.readouterr().err
    assert said in err and len(err.splitlines()) == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "magic"], "--engine 'magic': there are native, trl"),
        (["--engine-options", "a=1"], "the native engine has none"),
        (["--engine", "trl", "--engine-options", "a"], "expected NAME=VALUE"),
        (["--engine", "trl", "--engine-options", "a=1"], "GRPOConfig of TRL has no such field"),
        (["--engine", "trl", "--engine-options", "beta=1"], "settings decide it (--kl); leave"),
        (["--engine", "trl", "--engine-options", "temperature=1"], "decide it (--temperature);"),
        (["--engine", "trl", "--engine-options", "output_dir=a"], "own settings decide it; leave"),
        (["--engine", "trl", "--engine-options", "processes=2"], "of TRL has no such field"),
        (["--engine", "trl", "--engine-options", "config=1"], "of TRL has no such field"),
        (["--engine", "trl", "--engine-options", "use_vllm=true"], "vLLM is not installed"),
        (["--engine", "trl", "--engine-options", "top_p=a"], "top_p = 'a': expected float"),
        (["--engine", "trl", "--engine-options", "adam_epsilon=null"], "None: expected float"),
        (["--engine", "trl", "--engine-options", "delta=2"], "decide it (--dual-clip); leave"),
        (["--engine", "trl", "--engine-options", "top_k=true"], "top_k = True: expected int"),
        (["--engine", "trl", "--engine-options", "project=[1]"], "project = [1]: expected str"),
        (["--engine", "trl", "--engine-options", "ddp_timeout=a"], "ddp_timeout = 'a': expected"),
        (["--engine", "trl", "--engine-options", "report_to=nil"], "nil is not supported, only"),
        (["--engine", "trl", "--compile"], "compile = True: with engine trl"),
        # these failed after the first measurement, and again whenever the run went on
        (
            ["--engine", "trl", "--engine-options", 'generation_kwargs={"min_new_tokens": "x"}'],
            "engine option generation_kwargs = {'min_new_tokens': 'x'}: ",
        ),
        (
            ["--engine", "trl", "--engine-options", "router_aux_loss_coef=0.1"],
            "router_aux_loss_coef = 0.1: LlamaForCausalLM is no mixture of experts; leave it out",
        ),
    ],
)
def test_a_wrong_request_is_one_line_and_writes_nothing(options, words, tmp_path, capsys):
    assert main(["train", *options, "--device", "cpu", "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_without_trl_the_cure_is_said(tmp_path, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "trl" else found(name, *rest),
    )
    assert main(["train", "--engine", "trl", "--out", str(tmp_path / "run")]) == 2
    assert 'pip install -e ".[trl]"' in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_trl_that_cannot_be_imported_says_why(tmp_path, capsys, monkeypatch):
    """As where pyarrow, which datasets imports, wants another NumPy than is there."""
    (tmp_path / "datasets.py").write_text("raise ImportError('pyarrow requires NumPy 2')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    assert main(["train", "--engine", "trl", "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and not (tmp_path / "run").exists()
    assert "TRL cannot be imported (pyarrow requires NumPy 2): pip install -U numpy" in err


# --- a run in one process -------------------------------------------------------------------------


def by_hand(config, group, weights):
    """TRL's advantages of a group (G,): Bessel's deviation, eps 1e-4. Other methods compare it
    themselves.
    """
    if config.method in OF_WHOLE_GROUPS:
        return OF_WHOLE_GROUPS[config.method](group.rewards[:, 0], weights[0])
    score = [np.mean([max(w @ r for r in R) for w in weights]) for R in group.rewards]
    return (score - np.mean(score)) / (np.std(score, ddof=1) + 1e-4)


def best_of_pairs(R, w):
    return np.array(brute_force_max_at_k(R @ w, 2))


def each_objective(R, w):
    """gdpo: z-scores (population, eps 1e-4) of the objectives, averaged; silent where alike."""
    z = [(x - x.mean()) / (x.std() + 1e-4) if np.ptp(x) > 1e-9 else 0 * x for x in R.T]
    return np.mean(z, axis=0)


def by_the_mean(R, w):
    return (R @ w - np.mean(R @ w)) / (np.mean(R @ w) + 1e-4)


OF_WHOLE_GROUPS = {"max_at_k": best_of_pairs, "gdpo": each_objective, "maxrl": by_the_mean}


def keys(config, step):
    task = config.make_task()
    problems = problems_of_step(task, config.seed, step, config.prompts)
    return task, problems, [f"{task.key(x)}#{slot}" for slot, x in enumerate(problems)]


def adapter_of(model):
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    return {name: parameter.detach().clone() for name, parameter in trained.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        pytest.param(dict(m=1, micro_batch=2), marks=pytest.mark.long),
        dict(method="grpo", kl=0.1),
        pytest.param(dict(method="random_weighting"), marks=pytest.mark.long),
        dict(method="max_at_k", k=2),
        pytest.param(dict(method="gdpo", micro_batch=2), marks=pytest.mark.long),
        pytest.param(dict(method="maxrl"), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_the_stock_trainer_has_our_advantages(changes, tmp_path):
    config = pocket_config(pay_repeats=True, **changes)
    run = TrlRun.begin(config, tmp_path / "run")
    assert run.notes == ()
    gaps, sizes, held = [], [], {}

    def compare(record):
        theirs = np.array(held["trainer"]._logs["advantages"]).reshape(2, 4)
        task, problems, names = keys(config, record.step - 1)
        W = draw_weights(task, config, problems, names, record.step - 1)
        W = [task.w_star(x)[None] for x in problems] if W is None else W
        ours = [by_hand(config, g, w) for g, w in zip(record.groups, W, strict=True)]
        shown = [w[0] if config.method == "random_weighting" else None for w in W]
        assert all(np.array_equal(g.weights, w) for g, w in zip(record.groups, shown, strict=True))
        assert np.allclose([group.advantages for group in record.groups], ours, atol=1e-12)
        gaps.append(abs(theirs - ours).max())
        sizes.append(abs(theirs).max())
        return False

    made, native = run._trainer, adapter_of(run.learner.policy.model)

    def looked_at(tell):
        trainer = held["trainer"] = made(tell)
        begun = adapter_of(trainer.model)
        assert begun.keys() == native.keys()
        assert all(torch.equal(begun[name], native[name]) for name in native)
        return trainer

    run._trainer = looked_at
    assert run.train(compare)
    run.close()
    assert len(gaps) == 3 and max(gaps) < 5e-6 < max(sizes)


LEFT = dict(min_p=0.5, no_repeat_ngram_size=2, suppress_tokens=[5, 6], do_sample=True)
WITH_DROPOUT = {  # in modules, and as numbers
    GPT2LMHeadModel: dict(n_positions=256, n_embd=32, n_layer=2, n_head=4),
    OPTForCausalLM: dict(
        **dict(max_position_embeddings=256, hidden_size=32, word_embed_proj_dim=32, ffn_dim=48),
        **dict(num_hidden_layers=2, num_attention_heads=4, attention_dropout=0.1, layerdrop=0.1),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WITH_DROPOUT, ids=lambda kind: kind.__name__)
def test_what_a_model_says_of_sampling_and_dropout_stays_out(kind, tmp_path, monkeypatch):
    """TRL samples from the policy as it is, and trains it as it is, like the native trainer."""
    tokenizer = byte_tokenizer(chat=True)
    settings = dict(eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=0)
    torch.manual_seed(0)
    sizes = WITH_DROPOUT[kind] | dict(vocab_size=len(tokenizer))
    model = kind(kind.config_class(**sizes, **settings))
    model.generation_config = GenerationConfig(eos_token_id=[tokenizer.eos_token_id, 0], **LEFT)
    model.save_pretrained(tmp_path / "model"), tokenizer.save_pretrained(tmp_path / "model")
    small = SIZES | dict(steps=2, task=Letters, model=str(tmp_path / "model"), max_new_tokens=4)
    run = TrlRun.begin(vpo.TrainConfig.preset("demo", **small), tmp_path / "run")
    base, seen = run.learner.policy.model.get_base_model(), []
    before, generate = base.generation_config, kind.generate

    def spied(model, *args, generation_config, **more):
        asked, _ = model._prepare_generation_config(generation_config)
        seen.append(({name: getattr(asked, name) for name in LEFT}, asked.eos_token_id))
        ids = torch.tensor([[5, 6, 7, 8]])
        training, evaluating = (model.train(mode)(ids).logits for mode in (True, False))
        assert torch.equal(training, evaluating)
        assert not any(m.p for m in model.modules() if isinstance(m, torch.nn.Dropout))
        return generate(model, *args, generation_config=generation_config, **more)

    monkeypatch.setattr(kind, "generate", spied)
    assert before.min_p == 0.5 and run.train(lambda record: False)
    run.close()
    plain = dict(min_p=None, no_repeat_ngram_size=0, suppress_tokens=None, do_sample=True)
    assert [named for named, _ in seen] == [plain] * 2
    assert all(set(ends) == {tokenizer.eos_token_id, 0} for _, ends in seen)
    assert run.learner.policy.model.get_base_model().generation_config is before


@pytest.fixture(scope="module")
def tiny(chat_folder):
    small = dict(task=Letters, model=str(chat_folder), max_new_tokens=8)
    return vpo.TrainConfig.preset("demo", **small, **SIZES, lr=0.01)


SIZES = dict(steps=3, prompts=1, group_size=4, m=2, K=4, device="cpu", threads=1)


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """A finished run of the command line. Not to be changed."""
    path = tmp_path_factory.mktemp("trl") / "run"
    flags = SIZES | dict(task=tiny.task, model=tiny.model, max_new_tokens=8, lr=0.01)
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    assert main(["train", "--engine", "trl", *arguments, "--out", str(path), "--json"]) == 0
    return path


def files(path):
    return {p.name for p in path.iterdir()}


@pytest.mark.slow
def test_a_run_leaves_the_folder_of_a_native_run(trained, tiny, tmp_path, capsys):
    assert files(trained) == {
        *("config.json", "metrics.jsonl", "summary.json", "adapter", "checkpoints")
    }
    assert files(trained / "checkpoints") >= {"about.json", "checkpoint-3"}
    folder = RunFolder.open(trained)
    assert folder.config() == tiny and folder.engine().name == "trl"
    records = folder.records()
    assert [r.step for r in records] == [1, 2, 3]
    assert all(
        0 < r.scoring_seconds < r.rollout_seconds < r.seconds and r.tokens <= 32 for r in records
    )
    assert all(r.kl is None and r.sampler_gap is None and r.entropy > 0 for r in records)
    assert any(r.gradient_norm > 0 for r in records)
    summary = folder.summary()
    assert "trl" in summary["versions"] and summary["steps"] == 3
    capsys.readouterr()
    assert main(["evaluate", str(trained), "--json", "--device", "cpu"]) == 0
    again = json.loads(capsys.readouterr().out)
    measured = again.keys() - {
        "run",
        "adapter",
        "alpha",
        "seed",
        "temperature",
        "files",
        "settings",
    }
    assert {n: again[n] for n in measured} == {n: summary[n] for n in measured}
    assert again["run"] == str(trained) and len(measured) > 20

    native = Run.begin(tiny, tmp_path / "native")
    assert native.start() == summary["start"]  # of the same policy
    assert native.train(lambda record: False)
    native.finish()
    assert main(["compare", str(trained), str(tmp_path / "native"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in rows] == ["vpo, engine=trl", "vpo, engine=native"]
    assert main(["train", "--resume", str(trained)]) == 2
    assert "this run is finished (3 steps)" in capsys.readouterr().err


TENSORBOARD = """
import json, pathlib

class SummaryWriter:
    def __init__(self, log_dir):
        self.file = pathlib.Path(log_dir) / "scalars.jsonl"
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def add_scalar(self, name, value, step):
        with self.file.open("a") as file:
            print(json.dumps([name, value, step]), file=file)

    def nothing(self, *args, **kwargs): pass
    add_text = flush = close = nothing
"""


@pytest.mark.long
def test_a_tracker_gets_the_figures_of_each_step_and_its_log_stays(
    tiny, tmp_path, monkeypatch, capsys
):
    """By a stand-in for tensorboardX, which transformers takes where there is no tensorboard."""
    run, options = tmp_path / "run", {"report_to": "tensorboard"}
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    absent = "transformers.integrations.integration_utils.is_tensorboard_available"
    with monkeypatch.context() as without:
        without.setattr(absent, lambda: False)
        with pytest.raises(ValueError, match="requires tensorboard to be installed"):
            TrlRun.begin(tiny, run, options)
        assert not run.exists()
    (tmp_path / "tensorboardX.py").write_text(TENSORBOARD)
    monkeypatch.syspath_prepend(tmp_path)
    started = TrlRun.begin(tiny, run, options)
    started.start(), started.train(lambda record: False), started.finish()
    lines = (run / "tensorboard" / "scalars.jsonl").read_text().splitlines()
    logged = {(name, step): value for name, value, step in map(json.loads, lines)}
    for record in RunFolder.open(run).records():
        assert logged["train/vpo/valid_rate", record.step] == pytest.approx(record.valid_rate)


@pytest.mark.slow
def test_the_adapter_is_one_of_peft(trained, tiny):
    policy = load_policy(trained, device="cpu")
    ids = torch.tensor([policy.encode(policy_prompt(tiny))])
    with torch.no_grad():
        ours = policy.model(ids).logits
        theirs = AutoPeftModelForCausalLM.from_pretrained(trained / "adapter")(ids).logits
        with policy.reference():
            before = policy.model(ids).logits
    assert torch.equal(ours, theirs) and not torch.equal(ours, before)


def policy_prompt(config):
    task = config.make_task()
    pocket = shipped.description(config.base_model)
    return task.prompt(task.instance(0), config.answers, pocket=pocket)


CLOCKS = dict.fromkeys(("seconds", "rollout_seconds", "scoring_seconds"), 1)


def check_same(one, other):
    """Two runs left the same lines, but for the seconds, and the same adapter."""
    its, others = (
        [dataclasses.replace(r, **CLOCKS) for r in RunFolder(path).records()]
        for path in (one, other)
    )
    assert its == others
    adapter = "adapter/adapter_model.safetensors"
    assert (one / adapter).read_bytes() == (other / adapter).read_bytes()


def finished(config, path, *options):
    """A run that was trained to its end."""
    run = TrlRun.begin(config, path, *options)
    run.start()
    assert run.train(lambda record: False)
    run.finish()
    return path


class Killed(BaseException):
    """Ends a run as kill -9 would: nothing after the last write happens."""


def cut(config, path, after, by=Killed):
    """A run that is killed in step ``after``: its line is written, its state is not."""

    def tell(record):
        if record.step == after and by is Killed:
            raise Killed
        return record.step == after

    run = TrlRun.begin(config, path)
    with contextlib.suppress(Killed):
        assert not run.train(tell)
    run.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("by", [Killed, pytest.param("asked to stop", marks=pytest.mark.long)])
def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(trained, tiny, by, tmp_path, capfd):
    """On the CPU, with as many processes: the same lines but for the seconds, the same adapter."""
    path = cut(tiny, tmp_path / "run", 2, by)
    half = path / "checkpoints" / "checkpoint-3"  # TRL was writing it
    half.mkdir()
    (half / "trainer_state.json").write_text('{"global_')
    capfd.readouterr()
    assert main(["train", "--resume", str(path), "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["steps"] == 3
    assert re.fullmatch("vpo-lite: in training, .* were cut off .*\n", err)  # TRL says nothing
    assert files(path) == files(trained)
    check_same(trained, path)


@pytest.mark.slow
def test_random_streams_that_are_missing_or_damaged_are_said(tiny, tmp_path):
    path = cut(tiny, tmp_path / "run", 2, "asked to stop")
    streams = path / "checkpoints" / "checkpoint-2" / "rng_state.pth"
    whole = streams.read_bytes()
    streams.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedError, match=r"rng_state.pth: damaged; remove it: the run then"):
        TrlRun.resume(path)
    streams.rename(streams.with_name("rng_state_0.pth"))
    (streams.with_name("rng_state_0.pth")).write_bytes(whole)
    run = TrlRun.resume(path)
    run.close()
    (note,) = [note for note in run.notes if "rng_state" in note]
    assert "holds rng_state_0.pth, and not rng_state.pth: from here on other rollouts" in note
    assert other_streams(streams.parent, 1) == (note,) and other_streams(None, 1) == ()
    assert "not rng_state_1.pth:" in other_streams(streams.parent, 2)[0]
    streams.write_bytes(whole)
    assert other_streams(streams.parent, 1) == ()


@pytest.mark.long
def test_figures_measured_on_the_way_are_those_of_a_run_that_ends_there(tiny, trained, tmp_path):
    """And TRL trains as it would without: its generation settings end an answer elsewhere."""
    path = finished(tiny.but(eval_every=1), tmp_path / "run")
    check_same(trained, path)
    measured = RunFolder(path).measured()
    assert [row.pop("step") for row in measured] == [1, 2]
    for steps, row in enumerate(measured, 1):
        shorter = finished(tiny.but(steps=steps), tmp_path / f"{steps}")
        ended = RunFolder(shorter).summary()
        assert row == {name: ended[name] for name in row}
        kept = [path / f"adapter-{steps}", shorter / "adapter"]
        assert len({(p / "adapter_model.safetensors").read_bytes() for p in kept}) == 1


@pytest.mark.long
def test_ctrl_c_in_a_measurement_stops_at_once_and_loses_no_step(
    tiny, trained, tmp_path, monkeypatch, capsys
):
    """The first Ctrl-C, as in a native run; the second one would stop a step, too."""
    path, calls, evaluate = tmp_path / "run", [], run_module.evaluate
    TrlRun.begin(tiny.but(eval_every=2, save_every=5), path).close()

    def interrupted(*arguments, **more):
        calls.append(1)
        if len(calls) == 2:  # after step 2
            signal.raise_signal(signal.SIGINT)
        return evaluate(*arguments, **more)

    monkeypatch.setattr(run_module, "evaluate", interrupted)
    assert main(["train", "--resume", str(path)]) == 130
    said = f"vpo-lite: stopped; go on with: vpo-lite train --resume {path}\n"
    assert capsys.readouterr().err.endswith(said) and len(calls) == 2
    monkeypatch.undo()
    run = TrlRun.resume(path)
    assert run.done == run.first == run.learner.steps == 2, "its state was stored"
    run.start(), run.train(lambda record: False), run.finish()
    assert [row["step"] for row in run.folder.measured()] == [2]
    check_same(trained, path)


@pytest.mark.long
def test_a_run_that_became_longer_equals_one_that_was_so_long(trained, tiny, tmp_path, capsys):
    path = finished(tiny.but(steps=2), tmp_path / "run", {"lr_scheduler_type": "linear"})
    assert main(["train", "--resume", str(path), "--steps", "3"]) == 2
    assert "lr_scheduler_type = 'linear'" in capsys.readouterr().err and RunFolder(path).finished
    path = finished(tiny.but(steps=2), tmp_path / "other")
    assert main(["train", "--resume", str(path), "--steps", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 3
    assert RunFolder(path).config() == tiny and files(path) == files(trained)
    check_same(trained, path)
    shutil.rmtree(path / "checkpoints")  # its user needed the room
    assert main(["train", "--resume", str(path), "--steps", "4"]) == 2
    assert f"vpo-lite export model {path} --out FOLDER" in capsys.readouterr().err
    assert files(path) == files(trained) - {"checkpoints"}, "nothing is changed"


@pytest.mark.long
def test_a_run_may_go_on_in_smaller_batches(trained, tiny, tmp_path):
    path = cut(tiny, tmp_path / "run", 2, "asked to stop")
    run = TrlRun.resume(path, micro_batch=2, eval_every=1)
    assert run.config == tiny.but(micro_batch=2, eval_every=1) == run.folder.config()
    run.start()
    assert run.train(lambda record: False)
    run.finish()
    assert [row["step"] for row in RunFolder(path).measured()] == [2]
    one, other = (RunFolder(p).records() for p in (trained, path))
    assert [r.tokens for r in one] == [r.tokens for r in other]
    assert other[2].loss == pytest.approx(one[2].loss, abs=1e-5)
    a, b = (load_file(p / "adapter" / "adapter_model.safetensors") for p in (trained, path))
    assert all((a[name] - b[name]).abs().max() < 1e-5 for name in a)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["asked to stop", pytest.param("an error before any state", marks=pytest.mark.long)]
)
def test_training_that_is_called_again_goes_on(trained, tiny, ending, tmp_path):
    """As a native run does: each step once, the same lines and adapter as in one go."""

    def tell(record):
        if ending != "asked to stop":
            raise OSError("the disk is full")
        return record.step == 2

    run = TrlRun.begin(tiny, tmp_path / "run")
    run.start()
    with contextlib.suppress(OSError):
        assert not run.train(tell)
    assert run.done == (2 if ending == "asked to stop" else 1)
    assert run.train(lambda record: False) and run.done == run.learner.steps == 3
    run.finish()
    check_same(trained, run.path)


@pytest.mark.slow
def test_a_run_that_cannot_go_on_says_why_and_stays_as_it_was(tiny, tmp_path, capsys):
    path = cut(tiny, tmp_path / "run", 2)
    with pytest.raises(ValueError, match="engine trl began this run"):
        Run.resume(path)
    last = path / "checkpoints" / "checkpoint-1"

    def refused(words):
        before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
        assert main(["train", "--resume", str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and len(err.splitlines()) == 1 and words in err, err
        assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before

    def damaged(file, content, words):
        kept = file.read_bytes()
        file.write_bytes(content(kept))
        refused(words)
        file.write_bytes(kept)

    half = lambda content: content[: len(content) // 2]  # noqa: E731
    for name in ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt"):
        damaged(last / name, half, f"{name}: this state cannot be read")
    stranger = pickle.dumps(print, protocol=2)
    damaged(last / "optimizer.pt", lambda _: stranger, "optimizer.pt: holds more than numbers")
    damaged(path / "config.json", lambda text: text.replace(b'"K": 4', b'"K": 5'), "K changed")
    damaged(path / "config.json", lambda text: text.replace(b'"trl"', b'"no"'), "--engine 'no'")
    damaged(path / "config.json", lambda text: text.replace(b'"trl"', b"1"), "field engine")
    (last / "trainer_state.json").unlink()
    refused(f"{last.name}/trainer_state.json: missing or damaged, and")


@pytest.mark.slow
def test_another_thread_loads_a_policy_while_trl_trains():
    """As rewards may do that ask a model. It waited for the end of the training."""
    before = hf_logging.get_verbosity(), list(warnings.filters)
    pool = ThreadPoolExecutor(1)
    with silence():
        loading = pool.submit(load_policy, "pocket-6x6", device="cpu")
        loaded = wait([loading], timeout=60).done
        assert hf_logging.get_verbosity() == logging.ERROR
    assert loaded and loading.result().pocket["answers"] == 5
    assert (hf_logging.get_verbosity(), list(warnings.filters)) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configured", "options"), [("bf16", {}), ("no", {}), ("bf16", {"bf16": True})]
)
def test_mixed_precision_that_accelerate_is_configured_for_is_said(
    configured, options, tiny, tmp_path, monkeypatch
):
    """It comes from a file of the user's, which other projects share, and changes the updates."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", configured)
    run = TrlRun.begin(tiny, tmp_path / "run", options)
    run.close()
    said = [note for note in run.notes if f"mixed precision ({configured})" in note]
    assert len(said) == (configured == "bf16" and not options)


@pytest.mark.parametrize(
    ("configured", "options"), [("no", {"fp16": True}), ("fp16", {}), ("fp16", {"fp16": True})]
)
def test_half_precision_is_refused(configured, options, tiny, tmp_path, monkeypatch):
    """Its scaler skips a step whose gradients overflow; a run ended there, and blamed lr."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", configured)
    with pytest.raises(ValueError, match=r"^fp16: .* take --engine-options bf16=true"):
        TrlRun.begin(tiny, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("who", "said"), [("split", "tried FSDP in version 2 only"), ("by_deepspeed", "not tried Deep")]
)
def test_what_we_tried_of_split_parameters_is_said(who, said, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(trl_run, who, lambda engine: True)
    run = TrlRun.begin(tiny, tmp_path / "run")
    run.close()
    assert len(run.notes) == 1 and said in run.notes[0]


@pytest.mark.slow
def test_a_thought_that_the_template_opens_is_none_of_the_answers(tiny, tmp_path):
    """TRL's completions do not say that their prompts ended in <think>."""
    tokenizer = byte_tokenizer(chat=True)
    tokenizer.chat_template = THINKS.replace("<think>\n\n</think>\n\n", "<think>\n")
    more = dict(tie_word_embeddings=False, bos_token_id=1)
    model = model_folder(tmp_path / "thinker", tokenizer, 32, 48, 2, 2, 2, **more)
    run, seen = TrlRun.begin(tiny.but(model=str(model), steps=1), tmp_path / "run"), []
    assert run.train(lambda record: seen.extend(record.groups[0].texts))
    run.close()
    assert len(seen) == 4 and all(text.startswith("<think>") for text in seen)


@pytest.mark.slow
def test_a_run_may_warm_up(tiny, tmp_path):
    run = TrlRun.begin(tiny.but(warmup_steps=2), tmp_path / "run")
    rates = []
    assert run.train(lambda record: rates.append(record.gradient_norm))
    run.close()
    assert len(rates) == 3


@pytest.mark.slow
def test_a_run_of_fewer_steps_than_are_done_is_refused(tiny, tmp_path, capsys):
    path = cut(tiny, tmp_path / "run", 2, "asked to stop")
    config = path / "config.json"
    config.write_text(config.read_text().replace('"steps": 3', '"steps": 1'))
    assert main(["train", "--resume", str(path)]) == 2
    assert "2 steps are done; --steps must be 2 or more" in capsys.readouterr().err
    (path / "metrics.jsonl").write_text("")
    assert main(["train", "--resume", str(path)]) == 2
    assert "checkpoint-2: it is of step 2: expected 1 to 1" in capsys.readouterr().err


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_run_before_it_is_stored(tiny, tmp_path, monkeypatch):
    run = TrlRun.begin(tiny.but(eps=1e-6), tmp_path / "run")
    assert run.notes == ("eps = 1e-06 is not used: TRL adds 0.0001 to the deviation",)
    made = trl_steps.Recorder.on_log

    def broken(self, args, state, control, logs, **rest):
        made(self, args, state, control, {**logs, "grad_norm": float("nan")}, **rest)

    monkeypatch.setattr(trl_steps.Recorder, "on_log", broken)
    with pytest.raises(TrainingError, match=r"step 1: loss = .*gradient norm = nan: lower lr"):
        run.train(lambda record: False)
    run.close()
    assert not list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))


# --- a script of somebody's own -------------------------------------------------------------------


def changed():
    """The lines that the example changes, as in a diff."""
    before, after = ((EXAMPLE / f"{name}.py").read_text() for name in ("before", "after"))
    lines = difflib.ndiff(*(text.splitlines()[1:] for text in (before, after)))
    return [line for line in lines if line[:2] in ("- ", "+ ") and line[2:]]


def test_the_reference_shows_the_lines_that_the_example_changes():
    page = (ROOT / "notebooks" / "REFERENCE.md").read_text()
    (shown,) = (d for d in re.findall(r"```diff\n(.*?)```", page, re.DOTALL) if "SetReward." in d)
    lines = [line[0] + " " + line[1:].strip() for line in shown.splitlines() if line[0] in "-+"]
    assert lines == [line[:2] + line[2:].strip() for line in changed()]
    assert sum(line[0] == "+" for line in lines) == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's settings are the script's, warnings and all
@pytest.mark.parametrize("name", ["before", "after"])
def test_the_example_trains(name, chat_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, str(chat_folder), str(tmp_path)])
    trainer = runpy.run_path(str(EXAMPLE / f"{name}.py"))["trainer"]
    first = trainer.state.log_history[0]
    assert trainer.state.global_step == 2 and first["completions/mean_length"] > 1
    assert ("vpo/objective/correct" in first) == (name == "after")
    prompt = trainer.train_dataset[0]["prompt"]
    assert ("<answer_3> ... </answer_3>" in prompt) == (name == "after")


# --- several processes ----------------------------------------------------------------------------


def both(*arguments: list[str], module=("-m", "vpo_lite.cli", "train"), lines=1) -> list[tuple]:
    """Status and last line on stderr of `vpo-lite train ARGUMENTS`, one process for each list.

    lines: for more than one, the last lines, as a list
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            [sys.executable, *module, *asked],
            env=os.environ | where | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, asked in enumerate(arguments)
    ]
    try:
        said = [process.communicate(timeout=300)[1].splitlines() for process in started]
    finally:
        for process in started:
            process.kill()
    ends = [(p.returncode, all[-lines:]) for p, all in zip(started, said, strict=True)]
    return ends if lines > 1 else [(status, last) for status, (last,) in ends]


PATIENT = """
import sys, time
from datetime import timedelta
import torch
from torch.distributed.distributed_c10d import _set_pg_timeout
from vpo_lite.integrations.trl_surroundings import joined, together

team = joined({"ddp_timeout": 77}, cpu=True)
every = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
if every.options._timeout != timedelta(seconds=77):
    sys.exit("ddp_timeout is not heeded")
_set_pg_timeout(timedelta(seconds=1))  # of a step
with together(team):
    if team.is_main_process:
        time.sleep(4)
sys.exit("both went on")
"""


@pytest.mark.long
def test_one_process_may_evaluate_for_longer_than_a_step_may_wait():
    assert both([], [], module=("-c", PATIENT)) == [(1, "both went on")] * 2


IN_TURN = """
import contextlib, io, json, sys
from vpo_lite.cli import main
for asked in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(["train", *asked])
    print(json.dumps([status, said.getvalue().splitlines()[-1]]), file=sys.stderr)
sys.exit("all were refused")
"""


def in_turn(*pairs) -> list[list[tuple[int, str]]]:
    """As `both`, for one pair of commands after another in the same two processes."""
    lists = [[json.dumps(asked)] for asked in zip(*pairs, strict=True)]
    ended = both(*lists, module=("-c", IN_TURN), lines=len(pairs) + 1)
    assert [(status, last) for status, (*_, last) in ended] == [(1, "all were refused")] * 2
    return list(zip(*([json.loads(line) for line in said[:-1]] for _, said in ended), strict=True))


@pytest.mark.long
def test_what_one_process_refuses_ends_all_and_begins_nothing(tmp_path):
    """A folder or a model that one machine lacks, and a folder that another run writes to."""
    config = pocket_config(maze_seed=1000, m=2, prompts=1, group_size=4)
    begun, locked, missing, new = (str(tmp_path / n) for n in ("run", "locked", "missing", "new"))
    for path in (begun, locked):
        RunFolder.create(path, config, Engine(name="trl")).close()
    asked = ["--engine", "trl", "--device", "cpu", "--out", new]
    folder = RunFolder.open(locked)
    folder.lock()
    try:
        lacks, leads, held, without = in_turn(
            (["--resume", begun], ["--resume", missing]),
            (["--resume", missing], ["--resume", begun]),
            (["--resume", locked], ["--resume", locked]),
            (asked, [*asked, "--model", str(tmp_path / "model")]),
        )
    finally:
        folder.close()
    why = f"{missing}: no run folder"
    (main, main_said), (other, other_said) = lacks
    assert (main, other) == (1, 2) and other_said.startswith(f"vpo-lite: {why}")
    assert main_said.startswith("vpo-lite: rank 1 of 2 on ") and f": {why}" in main_said
    assert main_said.endswith("all machines of a run must share its folder")
    assert leads[0][1].startswith(f"vpo-lite: {why}")
    (main, main_said), (other, other_said) = held
    assert (main, other) == (2, 1)
    assert "another process" in main_said and "another process" in other_said
    assert other_said.startswith("vpo-lite: rank 0 of 2 on ")
    (main, main_said), (other, other_said) = without
    assert (main, other) == (1, 2) and not Path(new).exists()
    assert "model" in other_said and main_said.endswith(other_said.removeprefix("vpo-lite: "))
    assert main_said.startswith("vpo-lite: rank 1 of 2 on ")


def test_a_second_ctrl_c_at_the_end_of_a_process_prints_no_traceback(monkeypatch):
    left = []
    team = type("Team", (), {"destroy_process_group": lambda self: left.append(True)})
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(time, "sleep", lambda seconds: signal.raise_signal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    try:
        leave(team())
    finally:
        signal.signal(signal.SIGINT, before)
    assert left == [True]


STOPPED = """
import json, os, signal, sys
from pathlib import Path
from vpo_lite.cli import main
from vpo_lite.training import run

folder, rank, evaluate, calls = Path(sys.argv[1]), os.environ["RANK"], run.evaluate, []
folder.joinpath(rank).write_text(str(os.getpid()))

def interrupted(*arguments, tell, **more):
    calls.append(1)
    def told(done, total):
        if done == 1 and len(calls) in (1, 3, 5):  # before training, after step 1, at the end
            for pid in ("1", "0"):
                os.kill(int(folder.joinpath(pid).read_text()), signal.SIGINT)
    return evaluate(*arguments, tell=told, **more)

run.evaluate, out = interrupted, str(folder / "run")
sizes = "--steps=2 --group-size=4 --prompts=1 --m=2 --maze-seed=1000 --eval-every=1 --threads=1"
begin = ["--engine=trl", "--device=cpu", "--save-every=9", *sizes.split(), "--out", out]
ends = [main(["train", "--json", *asked]) for asked in (begin, *[["--resume", out]] * 3)]
print(json.dumps([ends, len(calls)]), file=sys.stderr)
"""


@pytest.mark.long
def test_ctrl_c_in_a_measurement_stops_all_processes(tmp_path):
    """A launcher sends it to all of them. The one that measures says how to go on."""
    main, other = both([str(tmp_path)], [str(tmp_path)], module=("-c", STOPPED), lines=9)
    stopped = f"vpo-lite: stopped; go on with: vpo-lite train --resume {tmp_path / 'run'}"
    assert (main[1].count(stopped), other[1].count(stopped)) == (3, 0), main[1] + other[1]
    ends = [130, 130, 130, 0]
    assert (main[0], json.loads(main[1][-1])) == (0, [ends, 6]), main[1]
    assert (other[0], json.loads(other[1][-1])) == (0, [ends, 0]), other[1]


TOOK = []  # seconds of each call of the judge


def slow_judge(completions, **columns):
    began = time.perf_counter()
    time.sleep(0.05)
    TOOK.append(time.perf_counter() - began)
    return [1 / (1 + len(text)) for text in completions]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Run, TrlRun])
def test_the_time_of_a_judge_is_told_apart_from_that_of_sampling(kind, chat_folder, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"Say {i}."}) + "\n" for i in range(20)))
    asked = dict(task="functions", data=str(rows), reward_funcs=f"{__name__}:slow_judge")
    small = SIZES | dict(steps=2, method="grpo", m=1, max_new_tokens=8, eval_problems=1)
    config = vpo.TrainConfig.preset("demo", **asked, **small, model=str(chat_folder))
    run = kind.begin(config, tmp_path / "run")
    run.start(), TOOK.clear()
    assert run.train(lambda record: False) and len(TOOK) == 2
    summary, records = run.finish(), RunFolder(run.path).records()
    for record, took in zip(records, TOOK, strict=False):
        assert took < record.scoring_seconds < record.rollout_seconds < record.seconds
    scoring, sampling = (
        sum(getattr(r, name) for r in records) / sum(r.seconds for r in records)
        for name in ("scoring_seconds", "rollout_seconds")
    )
    assert summary["scoring_share"] == pytest.approx(scoring, abs=1e-3)
    assert summary["rollout_share"] == pytest.approx(sampling, abs=1e-3)


JUDGE = """
import os
from vpo_lite.tasks.maze import MazeTask

class Judged(MazeTask):
    def score(self, instances, answers):
        if os.environ["RANK"] == "1":
            raise ConnectionError("the judge is away")
        return super().score(instances, answers)
"""


@pytest.mark.long
def test_a_judge_that_fails_in_one_process_ends_all(tmp_path, monkeypatch):
    (tmp_path / "judge.py").write_text(JUDGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    asked = ["--engine", "trl", "--device", "cpu", "--task", "judge:Judged", "--steps", "2"]
    asked += ["--maze-seed", "1000", "--out", str(tmp_path / "run")]
    main, other = both(asked, asked)
    assert main[0] == other[0] == 1
    said = "task 'maze': score(...) raised ConnectionError: the judge is away (judge.py, line 8)"
    assert other[1].startswith(f"vpo-lite: {said}; fix this, then: ")
    assert main[1].startswith("vpo-lite: rank 1 of 2 on ")
    assert main[1].endswith(f": {said}")


FULL = """
import errno, sys
from vpo_lite.cli import main
from vpo_lite.training.folders import RunFolder

def full(self, record):
    raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

RunFolder.append = full
sys.exit(main(["train", *sys.argv[1:]]))
"""


@pytest.mark.long
def test_a_disk_that_is_full_ends_all_processes_with_the_reason(tmp_path):
    asked = ["--engine", "trl", "--device", "cpu", "--steps", "2", "--maze-seed", "1000"]
    asked += ["--eval-answers", "3", "--out", str(tmp_path / "run")]
    main, other = both(asked, asked, module=("-c", FULL))
    why = "vpo-lite: metrics.jsonl: No space left on device; fix this, then: "
    assert main[0] == other[0] == 1 and main[1].startswith(why)
    assert other[1].startswith("vpo-lite: rank 0 of 2 on ")
    assert other[1].endswith(": [Errno 28] No space left on device: 'metrics.jsonl'")


def in_two_processes(name, folder):
    """What a script of tests/ found in two processes. Each has a launcher of its own, as on two
    machines that share a disk.
    """
    script = Path(__file__).with_name(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1"]
    launch += ["--master_addr=127.0.0.1", f"--master_port={port}"]
    settings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    machines = [
        subprocess.Popen(
            [*launch, f"--node_rank={rank}", str(script), str(folder)],
            env=settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [machine.communicate(timeout=500)[1] for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    for machine, stderr in zip(machines, said, strict=True):
        assert machine.returncode == 0, stderr[-3000:]
        assert "[transformers]" not in stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.long
def test_two_processes_that_share_each_group_have_our_advantages(tmp_path):
    """By TRL's own gathering; weights that each process draws for itself are caught."""
    found = in_two_processes("trl_two_processes.py", tmp_path)
    assert found["processes"] == 2 and found["rows"] == [3, 3] and found["group"] == 6
    assert max(found["keyed"]) < 5e-6 < 1e-2 < max(found["own generators"])
    assert len(found["whole groups"]) == 2 and max(found["whole groups"]) < 5e-6
    assert len(found["keyed"]) == 2 and found["size"] > 0.1
    assert files(tmp_path / "run") >= {"summary.json", "adapter", "checkpoints"}
    assert found["resumed"] == [3]
    assert [row["step"] for row in RunFolder(tmp_path / "run").measured()] == [1, 2]
    assert load_policy(tmp_path / "run", device="cpu").model is not None


@pytest.mark.parametrize("before", [True, False])
def test_a_run_goes_on_with_fsdp_if_it_began_so(before, tmp_path):
    """TRL would not find the optimizer of the other kind, and go on with a fresh one."""
    (tmp_path / ("optimizer.bin" if before else "optimizer.pt")).touch()
    check_going_on(tmp_path, before)
    check_going_on(None, before)  # a run without a state begins either way
    words = r"trained with FSDP, .* without it" if before else r"trained without FSDP, .* with it"
    with pytest.raises(ValueError, match=words):
        check_going_on(tmp_path, not before)


@pytest.mark.long
def test_parameters_that_fsdp_splits_end_as_whole_ones_do(tmp_path):
    """Also after the run was stopped and resumed. In a measurement the main process waited for ever
    for parameters that the other one held.
    """
    shares = in_two_processes("trl_fsdp.py", tmp_path)
    assert set(shares["whole"]) == {1} and set(shares["split"]) == {0.5}
    whole, split = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "split")
    assert [row["step"] for row in split.measured()] == [1, 2]
    assert split.measured() == whole.measured()
    for step in ("adapter-1", "adapter-2", "adapter"):
        expected = load_file(whole.path / step / "adapter_model.safetensors")
        found = load_file(split.path / step / "adapter_model.safetensors")
        assert found.keys() == expected.keys()
        for name, matrix in expected.items():
            torch.testing.assert_close(found[name], matrix, rtol=0, atol=1e-6)
    assert abs(matrix).max() > 1e-3
    ends = [json.loads((run.path / "summary.json").read_text()) for run in (whole, split)]
    assert ends[0]["coverage"] == ends[1]["coverage"]
