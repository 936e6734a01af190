"""veRL: what is exported, what its own code makes of it, and rewards and advantages through it.

The second part runs where veRL is installed (`make verl`). One test starts Ray, on this machine.
"""

import asyncio
import builtins
import contextlib
import difflib
import gc
import importlib.util
import itertools
import json
import math
import os
import re
import secrets
import subprocess
import sys
import tempfile
import tomllib
import types
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from small_models import byte_model, byte_tokenizer, model_folder
from transformers import AutoTokenizer

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.integrations import verl_export, verl_texts
from vpo_lite.integrations.rewards import RolloutReward
from vpo_lite.integrations.verl_export import export
from vpo_lite.integrations.verl_texts import FOR_REWARDS
from vpo_lite.objective import sample_weights
from vpo_lite.policy.loading import load_policy
from vpo_lite.randomness import generator
from vpo_lite.tasks.base import Prompt, Task, TaskError, group_key
from vpo_lite.tasks.wording import write_numbered
from vpo_lite.training.evaluate import evaluate, held_out_seeds
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.loss import clipped_loss, token_weights
from vpo_lite.training.problems import problems_of_step

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # where veRL is here, it warns of engines that are not
    from vpo_lite.integrations.verl import (
        OwnScores,
        RewardManagerBase,
        SetRewardManager,
        read_settings,
    )
    from vpo_lite.integrations.verl_estimator import vpo_advantage

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "tests" / "data" / "verl_own"
REFERENCE = (ROOT / "notebooks" / "REFERENCE.md").read_text()
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def config_of(preset="gpu", **changes):
    small = dict(task="calls", model=MODEL, steps=3, prompts=2, group_size=4, K=8)
    return vpo.TrainConfig.preset(preset, **(small | changes))


# --- the exported folder --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("verl") / "run"
    export(config_of(eval_problems=5), folder, gpus=4, nodes=2)
    return folder


def rows_of(file):
    from pyarrow import parquet

    return parquet.read_table(file).to_pylist()


def test_the_rows_are_the_native_trainers_problems_step_by_step(exported):
    config, rows = config_of(), rows_of(exported / "train.parquet")
    task = config.make_task()
    assert len(rows) == 6
    for step in range(3):
        instances = problems_of_step(task, config.seed, step, 2)
        for slot, (x, row) in enumerate(zip(instances, rows[2 * step :], strict=False)):
            extra = row["extra_info"]
            assert (extra["split"], extra["index"], extra["slot"]) == (
                "train",
                2 * step + slot,
                slot,
            )
            assert task.key(task.instance(extra["seed"])) == task.key(x)
            assert tuple(row["prompt"]) == task.prompt(x, 3).messages
    held_out = [row["extra_info"]["seed"] for row in rows_of(exported / "held_out.parquet")]
    assert held_out == list(held_out_seeds(task, 5))


def test_the_configuration_has_the_settings_of_the_run(exported):
    found = yaml.safe_load((exported / "vpo.yaml").read_text())
    actor, rollout = (found["actor_rollout_ref"][name] for name in ("actor", "rollout"))
    assert found["algorithm"]["vpo"] == dict(
        task="calls",
        options={},
        method="vpo",
        answers=3,
        K=8,
        alpha=1.0,
        seed=0,
        pay_repeats=False,
        eps=1e-6,
        k=None,
    )
    assert found["algorithm"]["adv_estimator"] == "grpo"
    assert found["actor_rollout_ref"]["model"]["lora_rank"] == 32
    assert (actor["optim"]["lr"], actor["kl_loss_coef"], actor["use_kl_loss"]) == (2e-4, 1e-3, True)
    assert (rollout["n"], rollout["temperature"], rollout["val_kwargs"]["n"]) == (4, 1.0, 10)
    assert found["data"]["train_batch_size"] == actor["ppo_mini_batch_size"] == 2
    assert found["data"]["shuffle"] is found["data"]["filter_overlong_prompts"] is False
    assert found["data"]["apply_chat_template_kwargs"] == {"enable_thinking": False}
    assert found["trainer"]["total_training_steps"] == 3 and found["trainer"]["total_epochs"] == 1
    assert (found["trainer"]["nnodes"], found["trainer"]["n_gpus_per_node"]) == (2, 4)
    rows = rows_of(exported / "train.parquet") + rows_of(exported / "held_out.parquet")
    longest = max(sum(len(t["content"].encode()) + 256 for t in row["prompt"]) for row in rows)
    assert found["data"]["max_prompt_length"] == longest
    told = (exported / "README.md").read_text()
    assert "RAY_ADDRESS=auto ./run.sh trainer.nnodes=2" in told
    assert f'pip install "verl[vllm,fsdp]==0.9.1" "{FOR_REWARDS[0]}"' in told
    assert os.access(exported / "run.sh", os.X_OK)


def test_a_prompt_is_as_long_as_the_chat_template_of_a_model_in_a_folder_makes_it(tmp_path):
    """veRL cuts off the beginning of a longer one: a long system message was not counted."""
    pytest.importorskip("pyarrow")
    model = byte_model(tmp_path / "model", 16, 16, 1, 2, 2)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = "A long system message. " * 50 + tokenizer.chat_template
    tokenizer.save_pretrained(model)
    export(config_of(model=str(model), steps=1, eval_problems=2), tmp_path / "run")
    rows = [r for n in ("train", "held_out") for r in rows_of(tmp_path / "run" / f"{n}.parquet")]
    how = dict(add_generation_prompt=True, tokenize=True, return_dict=False)
    longest = max(len(tokenizer.apply_chat_template(row["prompt"], **how)) for row in rows)
    found = yaml.safe_load((tmp_path / "run" / "vpo.yaml").read_text())
    assert found["data"]["max_prompt_length"] == longest > 500


@pytest.mark.skipif(os.name != "posix", reason="sh")
def test_the_launch_line_starts_in_a_folder_of_any_name(tmp_path):
    """An apostrophe ended Hydra's text."""
    place, seen = tmp_path / "it's a $b [c]", tmp_path / "bin"
    place.mkdir(), seen.mkdir()
    (place / "run.sh").write_text(verl_texts.RUN)
    (seen / "python3").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (seen / "python3").chmod(0o755)
    there = os.environ | {"PATH": f"{seen}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", place / "run.sh"], env=there, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    quoted = str(place).replace("'", "\\'")
    assert f"data.train_files='{quoted}/train.parquet'" in lines and str(place) in lines
    try:
        from hydra.core.override_parser.overrides_parser import OverridesParser
    except ImportError:
        return
    (one,) = OverridesParser.create().parse_overrides([x for x in lines if "train_files" in x])
    assert one.value() == f"{place}/train.parquet"


def test_the_launch_line_runs_on_linux_wherever_it_was_written(tmp_path, monkeypatch):
    """On Windows a text is written with other line ends, and `#!/bin/sh\\r` is no shell."""
    pytest.importorskip("pyarrow")
    write = Path.write_text

    def on_windows(path, text, encoding=None, errors=None, newline=None):
        return write(path, text, encoding, errors, "\r\n" if newline is None else newline)

    monkeypatch.setattr(Path, "write_text", on_windows)
    export(config_of(steps=1, eval_problems=1), tmp_path / "run")
    for name in ("run.sh", "vpo.yaml", "README.md"):
        assert b"\r" not in (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (dict(K=float("inf")), "algorithm.vpo.K", float("inf")),
        (dict(kl=0.0), "actor.use_kl_loss", False),
        (dict(lr=1e-5), "actor.optim.lr", 1e-5),
        (dict(aggregation="sequence"), "actor.loss_agg_mode", "seq-mean-token-mean"),
        (dict(aggregation="constant", max_new_tokens=7), "actor.loss_scale_factor", 7),
        (dict(micro_batch=2), "actor.use_dynamic_bsz", False),
        (dict(micro_batch=3), "actor.ppo_micro_batch_size_per_gpu", 2),  # of 8 rollouts
        (dict(micro_batch=2), "ref.log_prob_micro_batch_size_per_gpu", 2),
        (dict(steps=300), "trainer.save_freq", 30),
        (dict(steps=40, save_every=1), "trainer.save_freq", 4),
        (dict(steps=19, save_every=1), "trainer.save_freq", 2),  # after 2, 4, ..., 18, and the last
        (dict(steps=40, save_every=7), "trainer.save_freq", 7),
        (dict(steps=40), "trainer.test_freq", 4),
        (dict(steps=40, eval_every=7), "trainer.test_freq", 7),
        (dict(method="grpo"), "rollout.val_kwargs.n", 30),
        (dict(method="grpo", eval_answers=12), "rollout.val_kwargs.n", 12),
        (dict(m=5, eval_answers=12), "rollout.val_kwargs.n", 3),
        (dict(method="grpo"), "algorithm.vpo.answers", 1),
        (dict(temperature=1.2), "rollout.temperature", 1.2),
        (dict(temperature=1.2), "rollout.val_kwargs.temperature", 1.0),  # as the native evaluation
        (dict(task="programs", operations=2), "algorithm.vpo.options", {"operations": 2}),
        (dict(clip=0.3), "actor.clip_ratio_low", 0.3),
        (dict(clip=0.3), "actor.clip_ratio_high", 0.3),
        (dict(clip_high=0.28), "actor.clip_ratio_low", 0.2),
        (dict(clip_high=0.28), "actor.clip_ratio_high", 0.28),
        ({}, "actor.clip_ratio_c", 1e6),
        (dict(dual_clip=3), "actor.clip_ratio_c", 3.0),
        ({}, "actor.ppo_mini_batch_size", 2),
        (dict(mini_batches=2), "actor.ppo_mini_batch_size", 1),
        (dict(mini_batches=2, micro_batch=3), "actor.ppo_micro_batch_size_per_gpu", 2),  # of 4
        (dict(weight_decay=0.01), "actor.optim.weight_decay", 0.01),
        (dict(max_grad_norm=0.5), "actor.optim.clip_grad", 0.5),
        ({}, "model.target_modules", "all-linear"),
        (dict(target_modules="q_proj, v_proj"), "model.target_modules", ["q_proj", "v_proj"]),
        (dict(warmup_steps=2), "actor.optim.lr_warmup_steps", 2),
        (dict(lr_schedule="cosine"), "actor.optim.lr_scheduler_type", "cosine"),
    ],
)
def test_a_setting_goes_where_veRL_reads_it(changes, place, value):
    from vpo_lite.integrations.verl_texts import configuration

    config = config_of(**changes)
    lengths = (500, config.max_new_tokens or 100)
    found = yaml.safe_load(configuration(config, lengths, 1, 1, "grpo"))
    for name in place.split("."):
        found = found[name] if name in found else found["actor_rollout_ref"][name]
    assert found == value


def test_the_list_of_translations_names_every_setting():
    said = verl_export.__doc__
    for option in vpo.TrainConfig.options():
        name = {"m": "(m)"}.get(option.name, option.name)
        assert name in said, f"{option.name}: say where it goes"


@pytest.mark.parametrize(
    ("changes", "more", "words"),
    [
        (dict(model="auto"), {}, "model = 'pocket-calls': a pocket policy.*name a Hugging"),
        (dict(method="max_at_k"), {}, "'grpo': it compares z-scores, and max_at_k does not.* vpo"),
        (dict(method="gdpo"), dict(estimator="vpo"), "'gdpo': veRL compares.*--engine trl"),
        (dict(method="vpo_recombined"), {}, "adds a rollout"),
        (dict(method="goal_conditioned"), {}, "goal_conditioned.*weights stand in the prompts"),
        (dict(eps=1e-4), {}, "eps = 0.0001: veRL's grpo has 1e-6.*estimator vpo"),
        (dict(model="some/tiny@v1"), {}, "some/tiny@v1.: veRL cannot be told a revision"),
        (dict(load_in="4bit"), {}, "load_in = '4bit': cannot be handed"),
        (dict(compile=True), {}, "compile = True"),
        (dict(rank=1024), {}, "rank = 1024: vLLM.* 512"),
        ({}, dict(gpus=3), "the 8 rollouts of an update do not divide among 3 GPUs"),
        (dict(mini_batches=2), dict(gpus=8), "the 4 rollouts of an update .* 8 GPUs"),
        (dict(mask_truncated=True), {}, "mask_truncated = True: cannot be handed"),
        ({}, dict(gpus=0), "gpus = 0"),
        ({}, dict(nodes=0), "nodes = 0"),
        ({}, dict(estimator="gae"), "gae"),
        (dict(eval_problems=0), {}, "eval_problems = 0"),
        (dict(steps=3, eval_every=4), {}, "eval_every = 4 with steps = 3"),
    ],
)
def test_what_veRL_cannot_keep_is_refused_and_nothing_is_written(tmp_path, changes, more, words):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=words) as caught:
        export(config_of(**changes), tmp_path / "out", **more)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_model_folder_that_veRL_could_not_ask_is_refused(tmp_path):
    """Without a chat template every prompt would raise on the cluster."""
    pytest.importorskip("pyarrow")
    model = model_folder(tmp_path / "base", byte_tokenizer(chat=False), 32, 48, 2, 4, 2)
    with pytest.raises(ValueError, match="base': its tokenizer has no chat template, and veRL"):
        export(config_of(model=str(model)), tmp_path / "out")
    for file in model.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ValueError, match=r"base holds none: save it there, tokenizer.save_pretr"):
        export(config_of(model=str(model)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_eps_needs_the_estimator_vpo(tmp_path):
    pytest.importorskip("pyarrow")
    export(config_of(eps=1e-4, eval_problems=1), tmp_path / "out", estimator="vpo")
    found = yaml.safe_load((tmp_path / "out" / "vpo.yaml").read_text())["algorithm"]
    assert (found["adv_estimator"], found["vpo"]["eps"]) == ("vpo", 1e-4)


def test_max_at_k_is_exported_with_its_budget(tmp_path):
    pytest.importorskip("pyarrow")
    config = config_of(method="max_at_k", k=3, eps=1e-4, eval_problems=1)
    export(config, tmp_path / "out", estimator="vpo")
    found = yaml.safe_load((tmp_path / "out" / "vpo.yaml").read_text())["algorithm"]
    _, reward = read_settings(found["vpo"])
    assert reward == RolloutReward.of(config) and (reward.k, reward.answers) == (3, 1)
    reward.check_estimator(found["adv_estimator"])
    with pytest.raises(ValueError, match="estimator = 'grpo'"):
        reward.check_estimator("grpo")


class Begun(Task):
    """A task that begins its completions after the 20th problem."""

    name = "begun"
    made = 0

    def instance(self, seed):
        Begun.made += 1
        return Begun.made

    def objectives(self, instance):
        return ("good",)

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt(({"role": "user", "content": "Go."},), prefix="x" if instance > 20 else "")

    def key(self, instance):
        return "same"


def test_a_folder_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    config = config_of(task=Begun, steps=30)
    with pytest.raises(ValueError, match="begins its completions"):
        export(config, tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(ValueError, match="exists already"):
        export(config_of(), tmp_path / "full")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    export(config_of(eval_problems=1), tmp_path / "empty")
    assert {p.name for p in (tmp_path / "empty").iterdir()} == set(verl_export.FILES)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # an empty folder is replaced, and nobody may stand in it
    with pytest.raises(ValueError, match=r"^\.: name the folder to make, such as verl$"):
        export(config_of(eval_problems=1), ".")
    assert not list((tmp_path / "here").iterdir())


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    export(config_of(eval_problems=1), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert {p.name for p in (tmp_path / "there").iterdir()} == set(verl_export.FILES)


@pytest.mark.parametrize("why", ["read-only", "full", "a file is in the way"])
def test_what_cannot_be_written_is_said_of_the_folder_that_was_named(why, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    out, words = tmp_path / "deep" / "out", "Read-only file system"
    if why == "read-only":
        monkeypatch.setattr(tempfile, "mkdtemp", _raises(OSError(30, words, ".out-x1")))
    elif why == "full":
        words = "[Errno 28] Error writing bytes"
        monkeypatch.setattr(verl_export, "_write_rows", _raises(OSError(words)))
    else:
        (tmp_path / "deep").touch()
        words = "File exists"
    with pytest.raises(ValueError) as refused:
        export(config_of(eval_problems=1), out)
    assert str(refused.value) == f"{out}: cannot be written ({words})"
    assert [p for p in tmp_path.rglob("*") if p.is_dir() or p.name != "deep"] == []


def _raises(error):
    def raises(*_, **more):
        raise error

    return raises


def test_too_many_held_out_problems_are_refused_before_any_row_is_made(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(verl_export, "_row", _raises(AssertionError("a row was made")))
    with pytest.raises(ValueError, match="eval_problems = 1000000: of the 9,000 held-out"):
        export(config_of(eval_problems=10**6), tmp_path / "out")


def test_an_export_tells_how_far_it_is(tmp_path):
    pytest.importorskip("pyarrow")
    told = []
    export(config_of(eval_problems=3), tmp_path / "out", tell=lambda *now: told.append(now))
    trained = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out/train.parquet")
    total = trained.num_rows + 3
    assert told == [(done, total) for done in range(total + 1)]


def test_the_command_exports_and_says_what_is_wrong_in_one_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    command = (
        f"export verl --task calls --model {MODEL} --steps 2 --prompts 2 --eval-problems 3 --out"
    )
    assert main([*command.split(), str(tmp_path / "a")]) == 0
    out, err = capsys.readouterr()
    assert "train.parquet (4 rows), held_out.parquet (3 rows)" in out
    assert f"vpo-lite: {MODEL} is no folder here" in err and "max_prompt_length" in err
    assert RunFolder(tmp_path / "a").config().eval_problems == 3  # evaluate measures the same ones
    assert main([*command.split(), str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    imported = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main([*command.split(), str(tmp_path / "b")]) == 2
    assert "writing parquet needs pyarrow (" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_export_names_the_module_of_a_method_of_ones_own(tmp_path, monkeypatch):
    """A worker of veRL has imported nothing of the user's before it reads the settings."""
    pytest.importorskip("pyarrow")
    (tmp_path / "of_the_export.py").write_text(
        "import vpo_lite as vpo\n\n\n@vpo.estimators.method(z_score=True)\n"
        "def exported_too(R, **_):\n    return R.mean(axis=(2, 3))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    named = "of_the_export:exported_too"
    export(config_of(method=named, eval_problems=3), tmp_path / "out")
    assert f"The module of `{named}` must be importable" in (tmp_path / "out/README.md").read_text()
    del vpo.METHODS["exported_too"], sys.modules["of_the_export"]
    settings = yaml.safe_load((tmp_path / "out/vpo.yaml").read_text())["algorithm"]["vpo"]
    assert settings["method"] == named and read_settings(settings)[1].method == "exported_too"


# --- settings, own rewards, the estimator: without veRL -------------------------------------------


class Unscored(Begun):
    def check_machine(self):
        raise ValueError("no sandbox here")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(task="hops", answer=3), "algorithm.vpo.answer: unknown"),
        (dict(task="hops", worst=-1), "algorithm.vpo.worst: unknown; beside task there are opt"),
        (dict(objectives=["a"], options={}), "options: unknown; beside objectives there are tag"),
        (None, "name either a task, or the objectives"),
        (dict(task="hops", objectives=["a"]), "name either a task, or the objectives"),
        (dict(task="hops", method="goal_conditioned", answers=1), "weights stand in the prompts"),
        (dict(task="hops", answers=101), "m = 101: this policy writes 1 to 100 answers"),
        (dict(task="hops", K=0), "K = 0"),
        (dict(task=f"{__name__}:Unscored"), "no sandbox here"),
        (dict(objectives=["a"]), "reward.custom_reward_function: name a function"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        read_settings(settings)


@pytest.mark.parametrize("objectives", ["brief", []])
def test_objectives_are_a_list_of_names(objectives):
    with pytest.raises(ValueError, match=r"objectives = .*: expected a list of names"):
        read_settings(dict(objectives=objectives), lambda **_: {"brief": 1.0})


def test_own_rewards_are_asked_for_one_answer_at_a_time():
    task = OwnScores(lambda solution_str, **_: {"a": len(solution_str), "b": 0.5}, ["b", "a"])
    row = {"data_source": "x", "reward_model": {"ground_truth": "4"}}
    assert task.parse(row, "<answer_2> hi </answer_2>", 3) == [None, "hi", None]
    code = "    return 4\n"  # after a prompt that ends inside of a function
    assert task.parse(row, code, 1) == [code] and task.parse(row, " \n", 1) == [None]
    assert task.parse(row, f"<answer_1>{code}</answer_1>", 2) == [code, None]
    assert task.same_effect(row, " hi\n") == task.same_effect(row, "hi")
    assert [r.tolist() for r in task.score([row, row], [["hi", "you"], []])] == [
        [[0.5, 2.0], [0.5, 3.0]],
        [],
    ]
    wrong = OwnScores(lambda **_: 0.5, ["a"])
    with pytest.raises(
        ValueError, match=r"returned 0.5: expected a dict with a number for each of a"
    ):
        wrong.score([row], [["hi"]])
    for value in (None, "much"):
        task = OwnScores(lambda value=value, **_: {"a": 1, "b": value}, ["a", "b"])
        with pytest.raises(TaskError, match=f"returned b = {value!r}: expected a number"):
            task.score([row], [["hi"]])


def test_own_rewards_may_be_asynchronous():
    """As veRL's own managers allow; the answers of a rollout are judged at the same time."""
    waiting = asyncio.Semaphore(0)

    async def compute_score(solution_str, **_):
        if solution_str == "first":
            await waiting.acquire()  # until the second answer is judged
        waiting.release()
        return {"a": float(len(solution_str))}

    row = {"data_source": "x", "reward_model": {"ground_truth": "4"}}
    task = OwnScores(compute_score, ["a"])
    assert [r.tolist() for r in task.score([row, row], [["first", "no"], []])] == [[[5], [2]], []]


def test_own_rewards_may_be_below_0():
    """Without worst a missing answer, which earns 0, beat every wrong one."""

    def compute_score(solution_str, **_):
        return {"right": 1 if solution_str == "4" else -1, "brief": -len(solution_str) / 10}

    row = {"data_source": "x", "reward_model": {"ground_truth": "4"}, "uid": "u"}
    given = dict(objectives=["right", "brief"], answers=2, K=math.inf, worst=[-1, -5])
    task, reward = read_settings(given, compute_score)
    assert task.worst(row).tolist() == [-1, -5]
    texts = ["", "<answer_1> 5 </answer_1> <answer_2> 6 </answer_2>"]
    none, wrong = (reward.score(task, [row], ["u"], [text], 0)[0].reward for text in texts)
    assert [none, wrong] == pytest.approx([-3, -0.55])
    assert read_settings(given | dict(worst=-5), compute_score)[0].worst(row).tolist() == [-5, -5]
    for worst in ([1, 2, 3], "low", None, math.nan):
        with pytest.raises(ValueError, match=r"algorithm\.vpo\.worst"):
            read_settings(given | dict(worst=worst), compute_score)


@pytest.mark.parametrize("method", ["vpo", "grpo"])
def test_one_answer_is_the_whole_completion(method):
    """As in functions and on TRL: else a configuration for GRPO would earn 0 throughout. Its blanks
    are handed over, as by veRL's own managers.
    """
    given = dict(objectives=["right"], answers=1, method=method)
    task, reward = read_settings(given, lambda solution_str, **_: {"right": solution_str == "4"})
    row = {"data_source": "x", "reward_model": {"ground_truth": "4"}, "uid": "u"}
    for text, earned in (("4", 1), (" 4 ", 0), (" ", 0)):
        assert reward.score(task, [row], ["u"], [text], 0)[0].reward == earned


@pytest.mark.parametrize(
    "extra",
    [{"slot": 3}, {"slot": "hotel-area"}, {"split": "held_out", "index": 0, "slot": 1}],
    ids=["number", "text", "split"],
)
def test_columns_of_own_data_never_change_the_weights(extra):
    """veRL puts fields of a single rollout into a row, and a slot may be that of a dialogue."""

    def compute_score(solution_str, **_):
        return {"long": len(solution_str) / 9, "short": 1 / len(solution_str)}

    manager = object.__new__(SetRewardManager)  # its own start needs veRL
    manager.task, manager.reward = read_settings(
        dict(objectives=["long", "short"], answers=2, K=4), compute_score
    )
    row = {"data_source": "x", "reward_model": {"ground_truth": ""}, "uid": "u", "global_steps": 3}
    text = "<answer_1> a </answer_1> <answer_2> too long </answer_2>"
    W = sample_weights(4, 2, 1.0, rng=generator(0, "weights", 2, "u"))
    expected = (W @ [[1 / 9, 8 / 9], [1, 1 / 8]]).max(1).mean()
    for session in range(3):
        fields = row | {"extra_info": {**extra, "turn": session}, "session_id": session}
        assert manager.score(fields, text).reward == pytest.approx(expected, abs=1e-12)
    assert abs(manager.score({**fields, "uid": "v"}, text).reward - expected) > 1e-3


@pytest.mark.slow
def test_rewards_need_no_library_of_models():
    """veRL's extra for vLLM pins an older transformers than a policy of ours is loaded with. So the
    exported README installs vpo_lite without its dependencies, and these few by name."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(FOR_REWARDS) < set(required)
    left_out = {re.match(r"\w+", x)[0] for x in required if x not in FOR_REWARDS}
    left_out -= {"numpy", "torch"}  # veRL has them
    code = f"""
import sys
for name in {sorted(left_out)}:
    sys.modules[name] = None  # its import is an error
from vpo_lite.integrations.verl import SetRewardManager, read_settings
for name in ("maze", "calls", "hops", "chains", "programs"):
    manager = object.__new__(SetRewardManager)  # its own start needs veRL
    manager.task, manager.reward = read_settings(dict(task=name, answers=2, K=4))
    manager.instance = manager.task.instance
    fields = dict(uid="u", extra_info=dict(seed=3), global_steps=1)
    print(name, manager.score(fields, "<answer_1> none </answer_1>").reward)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "transformers" in left_out and len(done.stdout.splitlines()) == 5


def test_the_estimator_is_the_librarys_advantage_in_any_order_of_groups():
    rng = np.random.default_rng(0)
    groups = np.array(list("abcabcaaba"), dtype=object)  # c has two, and one group has one rollout
    groups[-1] = "alone"
    rewards = torch.zeros(10, 5)
    mask = (torch.arange(5) < torch.tensor(rng.integers(1, 6, (10, 1)))).float()
    rewards[torch.arange(10), mask.sum(1).long() - 1] = torch.tensor(rng.random(10)).float()
    found, returns = vpo_advantage(rewards, mask, groups, {"vpo": {"eps": 1e-3}})
    total = rewards.sum(1).double().numpy()
    for name in "abc":
        own = total[groups == name]
        expected = (total - own.mean()) / (own.std() + 1e-3)
        rows = groups == name
        assert np.allclose(found[rows], expected[rows, None] * mask.numpy()[rows], atol=1e-6)
    assert (found[-1] == 0).all() and torch.equal(found, returns)


def test_the_estimator_compares_what_has_no_z_scores_in_its_own_way():
    """max_at_k by hand: of 0, 0, 1 the best of two is 1 in all pairs that hold the last."""
    rewards, mask = torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, 1.0], [0.0, 0.0]]), torch.ones(4, 2)
    groups = ["a", "b", "a", "a"]
    settings = {"vpo": {"method": "max_at_k", "k": 2, "eps": 9.0}}
    with pytest.raises(ValueError, match=r"group 'b': G = 1: max_at_k.*at least 2"):
        vpo_advantage(rewards, mask, groups, settings)
    kept = [0, 2, 3]
    found, _ = vpo_advantage(rewards[kept], mask[kept], ["a"] * 3, settings)
    assert found.tolist() == [[-0.5, -0.5], [1, 1], [-0.5, -0.5]]
    found, _ = vpo_advantage(rewards, mask, groups, {"vpo": {"method": "maxrl", "eps": 0.5}})
    by_mean = (np.array([0, 1, 0]) - 1 / 3) / (1 / 3 + 0.5)
    assert np.allclose(found[kept, 0], by_mean) and found[1, 0] == 0


def test_equal_rewards_teach_exactly_nothing():
    rewards = torch.full((12, 1), 0.7)  # their mean in float32 is not 0.7
    found, _ = vpo_advantage(rewards, torch.ones(12, 1), ["a"] * 12)
    assert rewards.mean() != rewards[0] and (found == 0).all()


# --- with the package -----------------------------------------------------------------------------


class Letters:
    """A tokenizer of one token for each letter."""

    eos_token, all_special_ids = "", ()

    @staticmethod
    def decode(ids, **_):
        return "".join(chr(i) for i in ids)


@pytest.fixture(scope="module")
def verl():
    """The package. Skips where it is not installed."""
    if importlib.util.find_spec("verl") is None:
        pytest.skip("veRL is not installed: make verl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("verl.trainer.ppo.ray_trainer")  # the others come with it
    return sys.modules["verl"]


def composed(folder, name, *overrides):
    from hydra import compose, initialize_config_dir

    with warnings.catch_warnings(), initialize_config_dir(str(folder), version_base=None):
        warnings.simplefilter("ignore")
        return compose(name, list(overrides))


def one_rollout(text, prompt="ask", **fields):
    """A rollout as veRL hands it to a manager: a DataProto of one row."""
    from tensordict import TensorDict
    from verl import DataProto

    tokens = {"prompts": prompt, "responses": text}
    batch = {name: torch.tensor([[ord(c) for c in t]]) for name, t in tokens.items()}
    batch["attention_mask"] = torch.ones(1, len(prompt) + len(text), dtype=torch.long)
    columns = {name: np.array([value], dtype=object) for name, value in fields.items()}
    return DataProto(batch=TensorDict(batch, batch_size=1), non_tensor_batch=columns)


def managed(config, rollouts=()):
    """The manager that veRL loads for a configuration, and what it says of some rollouts."""
    from verl.trainer.ppo.reward import load_reward_manager

    async def run():
        manager = load_reward_manager(config, Letters())
        return manager, [await manager.run_single(data) for data in rollouts]

    return asyncio.run(run())


@pytest.mark.slow
def test_the_exported_configuration_composes_with_veRLs_own(verl, exported):
    from torch.utils.data import SequentialSampler
    from verl.trainer.ppo.utils import create_rl_sampler, need_critic, need_reference_policy
    from verl.utils.config import validate_config

    # the last check for vLLM imports vLLM, which is not here
    config = composed(exported, "vpo", "actor_rollout_ref.rollout.name=sglang")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not need_critic(config) and need_reference_policy(config)
        validate_config(config, use_reference_policy=True, use_critic=False)
    assert config.actor_rollout_ref.actor.clip_ratio_c == 1e6
    assert config.actor_rollout_ref.actor.strategy == "fsdp"  # veRL's own is still there
    assert isinstance(create_rl_sampler(config.data, [0] * 6), SequentialSampler)


@pytest.mark.slow
def test_the_manager_is_loaded_by_its_path_and_gives_a_rollout_its_reward(verl, exported):
    settings = composed(exported, "vpo")
    manager, _ = managed(settings)
    assert type(manager).__name__ == "SetRewardManager"
    assert isinstance(manager, RewardManagerBase) and RewardManagerBase is not object
    config, rows = config_of(), rows_of(exported / "train.parquet")
    task, row = config.make_task(), rows[3]  # step 1, slot 1
    x = task.instance(row["extra_info"]["seed"])
    text = task.write(x, plans_of(task, x)[:6:2])
    fields = {name: row[name] for name in ("data_source", "reward_model", "extra_info")}
    _, [found] = managed(settings, [one_rollout(text, **fields, uid="u", global_steps=2)])
    key = group_key(task, x, 1)
    [expected] = RolloutReward.of(config).score(task, [x], [key], [text], 1)
    assert found["reward_score"] == expected.reward > 0
    figures = found["reward_extra_info"]
    rates = [figures[f"vpo/{name}_rate"] for name in ("parse", "valid", "repeat")]
    assert rates == [1, 1, 0]
    means = expected.answers.rewards.mean((0, 1))
    for i, name in enumerate(task.objectives(x)):
        assert figures[f"objectives/{name}"] == pytest.approx(means[i])
    assert all(type(value) is float for value in figures.values())

    def reward(extra=row["extra_info"], **named):
        named = {"uid": "u", "global_steps": 2, **named}
        data = one_rollout(text, **(fields | {"extra_info": extra}), **named)
        return managed(settings, [data])[1][0]["reward_score"]

    extra = row["extra_info"]
    assert reward(uid="v") == found["reward_score"] != reward(global_steps=3)
    assert reward({**extra, "slot": 0}) != found["reward_score"]
    anywhere = {k: v for k, v in extra.items() if k != "slot"}
    assert reward(anywhere) == reward(anywhere) != reward(anywhere, uid="v")
    assert (
        reward(global_steps=None) == reward(global_steps=None) != reward(uid="v", global_steps=None)
    )
    held_out = reward({**extra, "split": "held_out"})
    exact = float(vpo.exact_set_reward(expected.answers.rewards)[0])
    assert held_out == pytest.approx(exact, abs=1e-12)
    assert held_out == reward({**extra, "split": "held_out"}, global_steps=9)
    with pytest.raises(ValueError, match="no seed of a problem"):
        reward({})


def plans_of(task, x):
    """All plans that serve a request: each pair of tools."""
    return [
        f"{task.call(x[0], i)} ; {task.call(x[1], j)}"
        for i in range(len(x[0].tools))
        for j in range(len(x[1].tools))
    ]


@pytest.fixture(scope="module")
def batch(verl, exported):
    """Two groups of four rollouts, mixed, as veRL scores them: the batch, and the oracle's U."""
    from tensordict import TensorDict
    from verl import DataProto

    config, rows = config_of(), rows_of(exported / "train.parquet")[2:4]  # step 1
    task, rng = config.make_task(), np.random.default_rng(1)
    rollouts, U, uid = [], [], []
    for n in range(8):
        row = rows[n % 2]
        x, slot = task.instance(row["extra_info"]["seed"]), n % 2
        picked = rng.permutation(plans_of(task, x))[: rng.integers(1, 4)].tolist()
        fields = {name: row[name] for name in ("data_source", "reward_model", "extra_info")}
        text = write_numbered(picked, task.tag) if n else "nothing that can be read"
        rollouts.append(one_rollout(text, **fields, uid=f"u{slot}", global_steps=2))
        uid.append(f"u{slot}")
        W = sample_weights(8, 4, 1.0, rng=generator(0, "weights", 1, group_key(task, x, slot)))
        R = np.zeros((3, 4))
        if n:
            R[: len(picked)] = task.score([x], [picked])[0]
        U.append((W @ R.T).max(1).mean())
    manager, found = managed(composed(exported, "vpo"), rollouts)
    U = np.array(U)
    assert np.allclose([f["reward_score"] for f in found], U, atol=1e-12) and np.std(U) > 0.05
    length = torch.tensor(rng.integers(1, 7, 8))
    mask = torch.arange(6) < length[:, None]
    tensors = {
        "prompts": torch.zeros(8, 2, dtype=torch.long),
        "responses": torch.zeros(8, 6, dtype=torch.long),
        "attention_mask": torch.cat([torch.ones(8, 2, dtype=torch.bool), mask], 1).long(),
        "response_mask": mask.long(),
    }
    data = DataProto(
        batch=TensorDict(tensors, batch_size=8),
        non_tensor_batch={"uid": np.array(uid, dtype=object)},
    )
    scores = [f["reward_score"] for f in found]
    data.batch["token_level_rewards"] = type(manager).assemble_rm_scores(data, scores)
    return data, U, np.array(uid)


EVERY, DROPPED = list(range(8)), [7, 0, 2, 3, 4]  # a filter left 3 and 2 of the rollouts


@pytest.mark.slow
@pytest.mark.parametrize("kept", [EVERY, DROPPED], ids=["all", "unequal groups"])
def test_veRLs_own_grpo_gives_the_advantages_with_its_convention(batch, kept):
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data, U, uid = batch[0][kept], batch[1][kept], batch[2][kept]
    found = compute_advantage(data, "grpo").batch["advantages"].numpy()
    for group in set(uid):
        rows = uid == group
        expected = (U[rows] - U[rows].mean()) / (U[rows].std(ddof=1) + 1e-6)
        tokens = data.batch["response_mask"].numpy()[rows]
        assert np.allclose(found[rows], expected[:, None] * tokens, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [EVERY, DROPPED], ids=["all", "unequal groups"])
def test_the_estimator_vpo_gives_the_librarys_advantages_through_veRL(batch, kept):
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data, U, uid = batch[0][kept], batch[1][kept], batch[2][kept]
    found = compute_advantage(data, "vpo", config={"vpo": {"eps": 1e-6}}).batch["advantages"]
    library = vpo.advantages("grpo", U[:, None, None], groups=list(uid))
    expected = library[:, None] * data.batch["response_mask"].numpy()
    assert np.allclose(found, expected, atol=1e-6) and np.abs(found).max() > 0.5
    own = {"vpo": {"method": "max_at_k", "k": 1}}
    found = compute_advantage(data, "vpo", config=own).batch["advantages"].numpy()
    for group in set(uid):  # k = 1: how far it lies above the mean of the others
        rows = np.flatnonzero(uid == group)
        others = [U[rows[rows != row]].mean() for row in rows]
        tokens = data.batch["response_mask"].numpy()[rows]
        assert np.allclose(found[rows], (U[rows] - others)[:, None] * tokens, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, dict(dual_clip=3), dict(clip_high=0.5, dual_clip=1.2)])
def test_the_native_loss_is_veRLs_under_the_exported_settings(verl, tmp_path, changes):
    """Ratios of e^-2 to e^2, and advantages of both signs: the loss, and how often a clip acts."""
    from verl.trainer.ppo.core_algos import get_policy_loss_fn

    config = config_of(clip=0.1, **changes)
    export(config, tmp_path / "run")
    actor = composed(tmp_path / "run", "vpo").actor_rollout_ref.actor
    actor = types.SimpleNamespace(**actor, get=actor.get, global_batch_info={})
    rng = torch.Generator().manual_seed(0)
    old, mask = -torch.rand(6, 50, generator=rng), torch.rand(6, 50, generator=rng) < 0.8
    logp = old + torch.linspace(-2, 2, 50)
    A = torch.tensor([2.0, -1.0, 0.5, -0.3, 0.0, -2.0])
    how = dict(response_mask=mask.float(), loss_agg_mode=actor.loss_agg_mode, config=actor)
    theirs, figures = get_policy_loss_fn("vanilla")(old, logp, A[:, None].expand(6, 50), **how)
    clips = config.clip, config.clip_high, config.dual_clip
    ours, clipped = clipped_loss(logp, old, A, token_weights(mask), *clips)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    shares = figures["actor/pg_clipfrac"], figures["actor/pg_clipfrac_lower"]
    assert clipped.item() / int(mask.sum()) == pytest.approx(sum(shares), rel=1e-5)
    assert shares[0] > 0.2 and (shares[1] > 0) == ("dual_clip" in changes)


@pytest.mark.slow
def test_veRL_finds_the_estimator_by_the_packages_entry_point(verl, tmp_path, monkeypatch):
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    assert ADV_ESTIMATOR_REGISTRY.pop("vpo") is vpo_advantage  # it was imported above
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = tmp_path / "vpo_lite-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vpo_lite\nVersion: 0.0\n")
    named = "".join(f"{n} = {v}\n" for n, v in project["entry-points"]["verl.plugins"].items())
    (info / "entry_points.txt").write_text(f"[verl.plugins]\n{named}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, vpo_advantage.__module__)
    for variable, value in (("PLUGINS", "auto"), ("MODULES", vpo_advantage.__module__)):
        monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
        monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "")
        sys.modules.pop(vpo_advantage.__module__, None)
        importlib.reload(verl)
        assert "vpo" not in ADV_ESTIMATOR_REGISTRY
        monkeypatch.setenv(f"VERL_USE_EXTERNAL_{variable}", value)
        importlib.reload(verl)  # what a new process does as it starts
        assert ADV_ESTIMATOR_REGISTRY.pop("vpo").__module__ == vpo_advantage.__module__
    ADV_ESTIMATOR_REGISTRY["vpo"] = vpo_advantage


@pytest.mark.slow
def test_veRLs_ray_workers_give_the_librarys_rewards(verl, tmp_path, monkeypatch):
    """Two of its processes share the rollouts of every group, as in a training."""
    import ray
    from verl import DataProto
    from verl.experimental.reward_loop.reward_loop import RewardLoopManager

    model = byte_model(tmp_path / "base", 32, 48, 2, 4, 2)
    config = config_of(model=str(model))
    export(config.but(eval_problems=2), tmp_path / "run")
    task, tokenizer = config.make_task(), AutoTokenizer.from_pretrained(model)
    texts, columns, expected, parsed = [], defaultdict(list), [], []
    for n, row in enumerate(rows_of(tmp_path / "run" / "train.parquet")[2:4] * 4):  # step 1
        x, slot = task.instance(row["extra_info"]["seed"]), n % 2
        texts.append(write_numbered(plans_of(task, x)[n : n + 3], task.tag) if n else "no plan")
        row |= dict(uid=f"u{slot}", global_steps=2)
        for name in ("data_source", "reward_model", "extra_info", "uid", "global_steps"):
            columns[name].append(row[name])
        key = group_key(task, x, slot)
        [scored] = RolloutReward.of(config).score(task, [x], [key], [texts[-1]], 1)
        expected.append(scored.reward)
        parsed.append(scored.answers.parsed.mean())
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    ends = torch.tensor([[len(row)] for row in ids])
    written = (torch.arange(max(map(len, ids))) < ends).long()
    tensors = {
        "prompts": torch.ones(8, 2, dtype=torch.long),
        "responses": torch.tensor([row + [0] * (written.shape[1] - len(row)) for row in ids]),
        "attention_mask": torch.cat([torch.ones(8, 2, dtype=torch.long), written], 1),
    }
    columns = {name: np.array(values, dtype=object) for name, values in columns.items()}
    data = DataProto.from_dict(tensors, columns)
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else one is written into ~/.ray
    here = dict(num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1")
    with tempfile.TemporaryDirectory() as short, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(**here, _temp_dir=short)  # tmp_path is too long for the names of sockets
        try:
            manager = RewardLoopManager(composed(tmp_path / "run", "vpo", "reward.num_workers=2"))
            found = manager.compute_rm_score(data)
            asked = [
                worker.__ray_call__.remote(
                    lambda worker: (os.getpid(), worker.reward_manager.names)
                )
                for worker in manager.reward_loop_workers
            ]
            processes = dict(ray.get(asked))
        finally:
            ray.shutdown()
            gc.collect()  # its processes have ended late: their objects warn, and here may
    assert len(processes) == 2 and os.getpid() not in processes
    assert set(processes.values()) == {task.objectives(task.instance(0))}
    rewards = found.batch["rm_scores"].numpy()
    last = ends.numpy() - 1  # veRL pays a rollout at its last token
    assert np.array_equal(np.take_along_axis(rewards, last, 1)[:, 0], np.float32(expected))
    assert np.count_nonzero(rewards) == 7 and np.std(expected[1:]) > 0.05
    assert found.non_tensor_batch["vpo/parse_rate"].tolist() == parsed


JUDGE = """
def tests(completions, wanted, **columns):
    return [[float(w in c[0]["content"]) for w in row] for c, row in zip(completions, wanted)]

tests.objectives = lambda wanted, **columns: len(wanted)
"""


@pytest.mark.slow
def test_functions_whose_objectives_differ_from_row_to_row_are_exported(
    verl, tmp_path, monkeypatch
):
    """The early rows have three, later ones two. veRL takes equal figures of all rollouts."""
    pytest.importorskip("pyarrow")
    (tmp_path / "judging.py").write_text(JUDGE)
    monkeypatch.syspath_prepend(tmp_path)
    chat = [{"role": "user", "content": "Write letters."}]
    rows = [{"prompt": chat, "wanted": list("abc" if n < 10 else "ab")} for n in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = dict(data=str(tmp_path / "rows.jsonl"), reward_funcs="judging:tests")
    config = config_of(task="functions", m=2, max_new_tokens=8, steps=9, **options)
    export(config.but(eval_problems=2), tmp_path / "run")
    written = rows_of(tmp_path / "run" / "train.parquet")
    text, task = "<answer_1>a</answer_1> <answer_2>bc</answer_2>", config.make_task()
    rollouts = [
        one_rollout(text, **row | dict(prompt="ask", uid="u", global_steps=1 + n // 2))
        for n, row in enumerate(written)
    ]
    _, found = managed(composed(tmp_path / "run", "vpo"), rollouts)
    sizes, figures = set(), set()
    for n, (row, one) in enumerate(zip(written, found, strict=True)):
        x = task.instance(row["extra_info"]["seed"])
        d = len(x.columns["wanted"])
        key = group_key(task, x, row["extra_info"]["slot"])
        W = sample_weights(8, d, 1.0, rng=generator(config.seed, "weights", n // 2, key))
        R = np.array([[1, 0, 0], [0, 1, 1]])[:, :d]
        assert one["reward_score"] == pytest.approx((W @ R.T).max(1).mean())
        sizes.add(d)
        figures.add(tuple(one["reward_extra_info"]))
    assert sizes == {2, 3} and len(figures) == 1


# --- a user's own configuration -------------------------------------------------------------------


def test_the_reference_shows_the_three_lines_that_change():
    before, after = ((OWN / f"{name}.yaml").read_text() for name in ("before", "after"))
    changed = [
        line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"
    ]
    assert len(changed) == 3
    for line in changed:
        assert f"{line[0]}{line[2:]}" in REFERENCE.splitlines()


@pytest.mark.slow
def test_a_users_own_configuration_rewards_sets_of_answers(verl, monkeypatch):
    monkeypatch.chdir(OWN)
    row = dict(data_source="sums", reward_model={"ground_truth": "4"}, extra_info={}, uid="u")
    _, [single] = managed(composed(OWN, "before"), [one_rollout("4", **row)])
    assert single["reward_score"] == 1.0
    settings = composed(OWN, "after")
    text = "<answer_1> 4 </answer_1> <answer_2> it is four </answer_2> <answer_3> no </answer_3>"
    rollouts = [one_rollout(text, **row, global_steps=1), one_rollout("4", **row, global_steps=1)]
    _, [found, missed] = managed(settings, rollouts)
    assert found["reward_score"] == pytest.approx(1.0)  # the first answer is best in both
    assert found["reward_extra_info"]["objectives/correct"] == pytest.approx(1 / 3)
    assert found["reward_extra_info"]["objectives/brief"] == pytest.approx((1 + 1 / 3 + 1) / 3)
    assert missed["reward_score"] == 0 and missed["reward_extra_info"]["vpo/parse_rate"] == 0
    for prompt, asked in (("ask", 1.0), ("ask<think>\n", 0.0)):  # cut off in its thoughts
        data = one_rollout(text, prompt, **row, global_steps=1)
        assert managed(settings, [data])[1][0]["reward_score"] == pytest.approx(asked)
    apart = "<answer_1> it is 4 </answer_1> <answer_2> no </answer_2>"  # neither is best in both
    data = one_rollout(apart, **row, global_steps=1)
    W = sample_weights(64, 2, 1.0, rng=generator(0, "weights", 0, "u"))
    expected = np.maximum(W @ [0.0, 1 / 3], W @ [0.0, 1.0]).mean()
    assert managed(settings, [data])[1][0]["reward_score"] == pytest.approx(expected)


@pytest.mark.slow
def test_a_reward_function_is_called_as_veRLs_own_manager_calls_it(verl):
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

    seen = []

    def compute_score(**asked):
        seen.append(asked)
        return {"score": 1.0, "good": 1.0}

    config = OmegaConf.create({"algorithm": {"vpo": {"objectives": ["good"], "answers": 1}}})
    row = dict(data_source="sums", reward_model={"ground_truth": "4"}, uid="u", global_steps=1)
    row |= {"__num_turns__": 2, "tool_extra_fields": {"calls": 3}, "reward_scores": {"a": 1}}

    async def run():
        for make, judge in itertools.product(
            (NaiveRewardManager, SetRewardManager), ("", "judge:1")
        ):
            named = dict(reward_router_address=judge, reward_model_tokenizer="its") if judge else {}
            manager = make(config, Letters(), compute_score, **named)
            for extra in ({"mine": 0}, {}):
                await manager.run_single(one_rollout("4", **row, extra_info=extra))

    asyncio.run(run())
    assert seen[:4] == seen[4:] and seen[0]["extra_info"]["calls"] == 3
    assert "reward_router_address" not in seen[0]
    assert (seen[2]["reward_router_address"], seen[2]["reward_model_tokenizer"]) == (
        "judge:1",
        "its",
    )


@pytest.mark.slow
@pytest.mark.parametrize("thought", ["", "[THINK]<answer_1> 7 </answer_1>[/THINK]"])
def test_tags_and_marks_that_are_special_tokens_are_read(verl, thought):
    """A draft in a thought was paid, and where the answers' tags were special none was found."""
    from omegaconf import OmegaConf
    from tensordict import TensorDict
    from verl import DataProto

    tokenizer = byte_tokenizer(chat=True)
    tags = [f"<{end}answer_{i}>" for i in (1, 2) for end in ("", "/")]
    marks = {"additional_special_tokens": [*tags, "[THINK]", "[/THINK]", "<|done|>"]}
    tokenizer.add_special_tokens(marks)
    text = f"{thought}<answer_1> 4 </answer_1> and <answer_2> 5 </answer_2>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids += 2 * [tokenizer.convert_tokens_to_ids("<|done|>")] + [tokenizer.eos_token_id]
    batch = {"prompts": [5, 6], "responses": ids, "attention_mask": [1] * (2 + len(ids))}
    row = dict(data_source="x", reward_model={"ground_truth": "4"}, uid="u", global_steps=1)
    columns = {name: np.array([value], dtype=object) for name, value in row.items()}
    data = DataProto(
        batch=TensorDict({k: torch.tensor([v]) for k, v in batch.items()}, batch_size=1),
        non_tensor_batch=columns,
    )
    config = OmegaConf.create({"algorithm": {"vpo": {"objectives": ["good"], "answers": 2}}})
    seen = []

    async def run():
        judge = lambda solution_str, **_: seen.append(solution_str) or {"good": 1.0}  # noqa: E731
        manager = SetRewardManager(config, tokenizer, judge)
        return manager.read(ids), await manager.run_single(data)

    read, found = asyncio.run(run())
    assert read == text and found["reward_score"] == 1 and seen == ["4", "5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reward", "said"),
    [
        ("It is 4.", 1, "100% of the answers could not be read: do the prompts ask for their form"),
        ("<answer_1>4</answer_1> <answer_2>5</answer_2>", -1, "let algorithm.vpo.worst of task"),
        ("<answer_1>4</answer_1> <answer_2>5</answer_2>", 1, None),
    ],
)
def test_what_is_wrong_with_answers_is_logged_once(verl, caplog, text, reward, said):
    from omegaconf import OmegaConf

    settings = {"objectives": ["good", "long"], "answers": 2}
    config = OmegaConf.create({"algorithm": {"vpo": settings}})
    row = dict(data_source="sums", reward_model={"ground_truth": "4"}, uid="u", global_steps=1)

    async def run():
        manager = SetRewardManager(
            config, Letters(), lambda solution_str, **_: {"good": reward, "long": ord(solution_str)}
        )
        for _ in range(24):
            await manager.run_single(one_rollout(text, **row))
        assert not caplog.records, "of 48 answers nothing is said yet"
        for _ in range(9):
            await manager.run_single(one_rollout(text, **row))

    asyncio.run(run())
    told = [x.getMessage() for x in caplog.records if x.name == "vpo_lite.integrations.verl"]
    told = [x for x in told if "differ in scale" not in x and "earn the same" not in x]
    assert len(told) == (said is not None) and (not said or said in told[0])


# --- the way back ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An exported run of a small model, and in it a checkpoint as veRL's FSDP workers store one."""
    pytest.importorskip("pyarrow")
    place = tmp_path_factory.mktemp("back")
    model = byte_model(place / "base", 32, 48, 2, 4, 2)
    config = config_of(model=str(model), rank=4, lora_alpha=12, max_new_tokens=8)
    export(config.but(eval_problems=2), place / "run")
    policy = load_policy(model, rank=4, lora_alpha=12, device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, policy.model.parameters()):
            parameter.copy_((0.3 * torch.randn_like(parameter)).bfloat16())
    actor = place / "run" / "checkpoints" / "global_step_3" / "actor"
    (actor / "huggingface").mkdir(parents=True)
    torch.save(policy.model.state_dict(), actor / "model_world_size_1_rank_0.pt")
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
    about = {"r": 4, "lora_alpha": 12, "task_type": "CAUSAL_LM"}
    (actor / "lora_train_meta.json").write_text(json.dumps(about))
    policy.model.get_base_model().config.save_pretrained(actor / "huggingface")
    policy.tokenizer.save_pretrained(actor / "huggingface")
    return place / "run", policy


@pytest.mark.slow
def test_an_adapter_without_a_base_is_measured_with_the_runs_settings(trained, tmp_path, capsys):
    """The form in which veRL's merger leaves an adapter: peft's, without the name of the base."""
    run, policy = trained
    policy.model.save_pretrained(tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    kept = json.loads(file.read_text()) | {"base_model_name_or_path": None}
    file.write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=r"names no base model; say which it is: load_policy\(.."):
        load_policy(tmp_path / "adapter", device="cpu")
    asked = ["evaluate", str(run), "--problems", "2", "--answers", "6", "--json"]
    assert main([*asked, "--device", "cpu", "--adapter", str(tmp_path / "adapter")]) == 0
    config = config_of(model=policy.base, max_new_tokens=8)
    expected = evaluate(policy, config, problems=2, answers=6)
    expected, printed = json.loads(json.dumps(expected)), json.loads(capsys.readouterr().out)
    assert {name: printed[name] for name in expected} == expected


@pytest.mark.parametrize(
    "command, words",
    [
        ("evaluate {run}", "README.md there says how to get the adapter from veRL"),
        ("evaluate {run} --adapter {base}", "holds no trained adapter; of this run there is none"),
        (
            "compare {run}",
            "trained by veRL; its README.md says how to get the adapter; compare the",
        ),
        ("train --resume {run}", "vpo-lite export verl writes such a run, and its run.sh trains"),
        ("train --engine verl", "vpo-lite export verl writes such a run, and its run.sh trains it"),
    ],
)
def test_an_exported_run_says_how_it_goes_on(trained, command, words, capsys):
    run, policy = trained
    assert main(command.format(run=run, base=policy.base).split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_what_veRL_trained_comes_back(verl, trained, capsys):
    """The two lines of the folder's README, with veRL's own merger."""
    run, policy = trained
    lines = [line.strip() for line in (run / "README.md").read_text().splitlines()]
    [merge] = [line for line in lines if "verl.model_merger" in line]
    [measure] = [line for line in lines if line.startswith("vpo-lite evaluate")]
    there = os.environ | {"PYTHONPATH": str(Path(verl.__file__).parents[1])}
    command = [sys.executable, *merge.split()[1:]]
    done = subprocess.run(command, cwd=run, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = load_policy(run / "merged" / "lora_adapter", base=policy.base, device="cpu")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        logits = found.model(ids).logits
        assert torch.equal(logits, policy.model(ids).logits)
        with policy.reference():
            assert not torch.equal(logits, policy.model(ids).logits)
    with contextlib.chdir(run):
        assert main([*measure.split()[1:], "--device", "cpu"]) == 0
    assert "coverage" in capsys.readouterr().out
