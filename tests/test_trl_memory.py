"""The memory that is stated before a run on TRL: worked by hand, and as TRL allocates it."""

import dataclasses
import functools
import json

import pytest

pytest.importorskip("trl")

import torch
from small_models import byte_tokenizer, config_of, model_folder
from test_memory import SHAPES, peak
from test_trl import Letters
from transformers import LlamaForCausalLM

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.integrations import trl_run, trl_setup
from vpo_lite.integrations.trl_run import TrlRun
from vpo_lite.integrations.trl_setup import trl_memory_needed
from vpo_lite.policy.loading import outline
from vpo_lite.policy.policy import Policy
from vpo_lite.tasks.base import Prompt
from vpo_lite.training import memory

HALF_LAYER, LAYER = 9088, 32 * (8 * 8 + 4 * (2 * 8 + 8 + 16) + 4 * (8 + 3 * 16) + 28 * 2) + 2048
TILE = 32 * (4 * 32768 + 6 * 4 * 27) + 4 * 32 * 8
KEYS = 4 * 16 * 4 * 16


@pytest.fixture
def by_hand(monkeypatch):
    """H = A = 8, I = 16, r = 2, two layers, two heads on one of keys, V = 27; prompts of 10 tokens
    and completions of 6. 2 x 4 rollouts, two at once.
    """
    shape = config_of(LlamaForCausalLM, 8, 16, 2, 2, 1, 27, tie_word_embeddings=False)
    policy = outline(shape, None, rank=2, dtype="float32")
    config = vpo.TrainConfig.preset(
        "demo", prompts=2, group_size=4, micro_batch=2, max_new_tokens=6, rank=2, device="cpu"
    )
    monkeypatch.setattr(trl_setup, "lengths", lambda *_: (10, 6))
    return policy, config


def test_the_memory_of_each_of_two_processes_is_the_formulas(by_hand):
    """A layer's parameters: 64 + 32 + 32 + 64 for attention, 3 x 128 for the MLP, two norms of 8.
    Its adapter: 32 + 24 + 24 + 32 and 3 x 48 numbers.
    """
    assert LAYER == 18176 and KEYS == 4096
    assert dataclasses.asdict(trl_memory_needed(*by_hand, processes=2)) == dict(
        parameters=4 * (2 * 27 * 8 + 2 * (192 + 384 + 16) + 8),
        adapter=5 * 4 * 2 * 256,
        activations=2 * LAYER + HALF_LAYER,
        logits=TILE,
        sampling=KEYS * 3 // 2 + 4 * 4 * 10 * (4 * 8 + 3 * 16 + 2 * 10),
    )


def test_one_process_samples_all_and_keeps_one_gradient(by_hand):
    alone, shared = (trl_memory_needed(*by_hand, processes=n) for n in (1, 2))
    assert (alone.adapter, alone.logits) == (4 * 4 * 2 * 256, shared.logits)
    assert alone.sampling == 2 * shared.sampling


def test_layers_that_are_recomputed_keep_their_inputs(by_hand):
    policy, config = by_hand
    need = trl_memory_needed(policy, config.but(gradient_checkpointing=True))
    assert need.activations == 2 * 4 * 32 * 8 + LAYER + HALF_LAYER


def test_on_a_gpu_completions_alone_are_projected(by_hand, monkeypatch):
    monkeypatch.setattr(Policy, "device", torch.device("cuda"))
    assert trl_memory_needed(*by_hand).logits == 12 * 4 * 32768 + 4 * 12 * 8


def test_an_update_is_cut_for_its_process_and_sampling_is_not(by_hand):
    """Of 8 rollouts two processes have 4 each: so 4, 2 and 1 at once are tried."""
    policy, config = by_hand
    needed = functools.partial(trl_memory_needed, processes=2)
    two, all_four = (needed(policy, config.but(micro_batch=n)) for n in (2, 4))
    config, how = config.but(micro_batch=None), dict(needed=needed, native=False)
    assert memory.fitted(policy, config, all_four.kept + all_four.update, **how) is config
    cut = memory.fitted(policy, config, two.kept + two.update, **how)
    assert cut == config.but(micro_batch=2)
    assert memory.fitted(policy, config, 0, **how) == config.but(micro_batch=1)


# --- as TRL allocates it --------------------------------------------------------------------------


class Long(Letters):
    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words("z" * 60)


def settings(folder, shape, **changes):
    P, G, _, T, rank, *sizes, _ = shape
    model = model_folder(folder / "model", byte_tokenizer(chat=False), *sizes, bos_token_id=1)
    few = dict(task=Long, m=2, prompts=P, group_size=G, max_new_tokens=T, rank=rank, steps=2)
    return vpo.TrainConfig.preset("demo", model=str(model), device="cpu", **few | changes)


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "changes", [{}, {"micro_batch": 4}, {"gradient_checkpointing": True, "dtype": "bfloat16"}]
)
def test_a_step_peaks_within_a_factor_of_one_and_a_half(name, changes, tmp_path):
    """Sampling and update of the first step."""
    run = TrlRun.begin(settings(tmp_path, SHAPES[name], **changes), tmp_path / "run")
    need, made, peaks = run.memory(), run._trainer, []

    def measured(tell):
        trainer = made(tell)
        step = trainer.training_step

        def training_step(*args):
            out = []
            peaks.append(peak(lambda: out.append(step(*args))))
            return out[0]

        trainer.training_step = training_step
        return trainer

    run._trainer = measured
    run.train(lambda record: record.step == 1)
    run.close()
    assert 1 / 1.5 < max(need.activations + need.logits, need.sampling) / max(peaks) < 1.5


# --- what is said ---------------------------------------------------------------------------------

TRAIN = "train --engine trl --device cpu --maze-seed 1000 --steps 1 --prompts 1 --group-size 2"


@pytest.mark.slow
def test_the_command_line_states_it_and_names_cures_that_trl_has(tmp_path, monkeypatch, capsys):
    assert main([*TRAIN.split(), "--out", str(tmp_path / "a")]) == 0
    (line,) = [x for x in capsys.readouterr().err.splitlines() if "memory" in x]
    assert line.startswith("memory: about ") and "may not be enough" not in line
    assert json.loads((tmp_path / "a" / "config.json").read_text())["micro_batch"] is None
    monkeypatch.setattr(memory, "available_memory", lambda device: 1)
    assert main([*TRAIN.split(), "--out", str(tmp_path / "b")]) == 0
    said = capsys.readouterr().err
    assert "1 rollout in one forward pass: this may not be enough; turn on gradient_check" in said
    assert "4bit" not in said and "sample_batch" not in said
    assert json.loads((tmp_path / "b" / "config.json").read_text())["micro_batch"] == 1


@pytest.mark.slow
def test_what_no_machine_of_this_size_can_hold_is_refused_before_anything_is_written(
    tmp_path, capsys
):
    flags = [*TRAIN.split(), "--max-new-tokens", "1000000"]
    assert main([*flags, "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "GiB in all: " in line and "4bit" not in line and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_who_knows_better_than_the_estimate_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "total_memory", lambda device: 1)
    config = settings(tmp_path, SHAPES["long prompts, deep"])
    with pytest.raises(ValueError, match="this is an estimate, and ignore_memory trains all the"):
        TrlRun.begin(config, tmp_path / "run")
    TrlRun.begin(config.but(ignore_memory=True), tmp_path / "run").close()


@pytest.mark.slow
def test_nothing_is_said_where_parameters_are_split_or_another_program_samples(
    tmp_path, monkeypatch
):
    run = TrlRun.begin(settings(tmp_path, SHAPES["long prompts, deep"]), tmp_path / "run")
    run.close()
    assert run.memory()
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert run.memory() is None
    monkeypatch.delenv("ACCELERATE_USE_FSDP")
    for name in ("use_vllm", "deepspeed"):
        run.engine = trl_run.Engine(name="trl", options={name: True})
        assert run.memory() is None
