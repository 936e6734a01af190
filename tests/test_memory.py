"""The memory that is stated before training, against what optimizer, cache and autograd really
hold.
"""

import dataclasses
import functools
import gc
import json
import shutil
import weakref
from unittest import mock

import numpy as np
import pytest
import torch
from small_models import byte_tokenizer, config_of
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.policy import base
from vpo_lite.policy.decoder import DecoderView, decoder_for
from vpo_lite.policy.loading import load_policy, outline
from vpo_lite.policy.sampling import Rollouts
from vpo_lite.training import loop, memory, step
from vpo_lite.training.learner import Learner
from vpo_lite.training.memory import Decoder, available_memory, cures, fitted, memory_needed
from vpo_lite.training.run import Run
from vpo_lite.training.step import update_policy

# P, G, prompt tokens, new tokens, rank; hidden, MLP, layers, query heads, key heads, vocabulary
SHAPES = {
    "short, large vocabulary": (4, 4, 50, 30, 16, 96, 200, 3, 6, 2, 3000),
    "long prompts, deep": (3, 4, 120, 20, 8, 64, 128, 6, 4, 4, 413),
}


@pytest.fixture(
    params=[*SHAPES][:1] + [pytest.param(name, marks=pytest.mark.long) for name in [*SHAPES][1:]]
)
def shape(request):
    return SHAPES[request.param]


@pytest.fixture
def build(shape, tmp_path):
    """Makes a learner on a random language model of this shape."""
    P, G, _, _, rank, H, I, layers, heads, kv, V = shape

    def make(kind=LlamaForCausalLM, **changes):
        ids = dict(eos_token_id=2, bos_token_id=1, pad_token_id=None)
        sizes = (H, I, layers, heads, kv, V)
        settings = config_of(kind, *sizes, tie_word_embeddings=False, **ids)
        torch.manual_seed(0)
        kind(settings).save_pretrained(tmp_path / "model")
        byte_tokenizer(chat=False).save_pretrained(tmp_path / "model")
        fixed = dict(
            prompts=P,
            group_size=G,
            rank=rank,
            layout="tiny-4x4",
            maze_seed=1,
            device="cpu",
            lr=1e-5,
            m=3,
        )
        config = vpo.TrainConfig.preset("demo", model=str(tmp_path / "model"), **fixed | changes)
        return Learner(config), config

    return make


def full_rollouts(shape) -> Rollouts:
    """Completions that use every token."""
    P, G, L, T = shape[:4]
    random = torch.Generator().manual_seed(0)
    whole = lambda *size: torch.ones(size, dtype=torch.bool)  # noqa: E731
    return Rollouts(
        torch.randint(5, 400, (P, L), generator=random),
        whole(P, L),
        torch.arange(P).repeat_interleave(G),
        torch.randint(5, 400, (P * G, T), generator=random),
        whole(P * G, T),
        torch.zeros(P * G, T),
        ~whole(P * G),
    )


def stated(learner, config, shape):
    with mock.patch.object(memory, "lengths", lambda *_: shape[2:4]):
        return memory_needed(learner.policy, config, learner.task)


def update(learner, config, shape):
    advantages = np.random.default_rng(0).normal(size=shape[:2])
    update_policy(learner, config, full_rollouts(shape), advantages, config.kl > 0)


def kept_for_backward(policy, rollouts) -> int:
    """Bytes of the tensors that autograd saves, parameters and buffers left out, shared storage
    counted once.
    """
    own = {
        x.untyped_storage().data_ptr()
        for x in [*policy.model.parameters(), *policy.model.buffers()]
    }
    held = {}

    def note(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            held[tensor.untyped_storage().data_ptr()] = (
                tensor  # alive, so that no other gets its address
            )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        policy.token_logprobs(rollouts)
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())


def peak(work) -> int:
    """Most bytes allocated at one time while ``work`` runs, beyond those before it, as torch's
    allocator reports them.
    """
    gc.collect()  # what other tests left must not be freed meanwhile: it would count as less
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        work()
    events = [e for e in measured.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())  # threads report one after the other
    return int(np.cumsum([event.nbytes() for event in events]).max())


@pytest.mark.slow
def test_adapter_and_optimizer_are_what_they_hold(build, shape):
    learner, config = build()
    need = stated(learner, config, shape)
    update(learner, config, shape)
    moments = sum(x.nbytes for state in learner.optimizer.state.values() for x in state.values())
    held = sum(p.nbytes + p.grad.nbytes for p in learner.parameters) + moments
    assert need.adapter == pytest.approx(held, rel=0.01)  # AdamW's step counters come on top


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype, rollout_dtype",
    [("float32", "auto"), ("bfloat16", "auto"), ("float32", "bfloat16"), ("bfloat16", "float32")],
)
def test_the_sampler_copies_what_is_no_part_of_the_model(build, shape, dtype, rollout_dtype):
    learner, config = build(Qwen2ForCausalLM, dtype=dtype, rollout_dtype=rollout_dtype)
    model = learner.policy.model
    base = {p.data_ptr(): p.nbytes for p in model.parameters() if not p.requires_grad}
    assert stated(learner, config, shape).parameters == sum(base.values())
    number = getattr(torch, dtype if rollout_dtype == "auto" else rollout_dtype)
    leaves = pytree.tree_leaves(decoder_for(model, dtype=number).parameters)
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    own = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
    copied = sum(size for place, size in own.items() if place not in base)
    found = Decoder.of(learner.policy, config.rank).copied(number.itemsize)
    assert found <= copied < 1.05 * found  # biases and the queries' and keys' norms come on top
    assert stated(learner, config, shape).sampling > found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LlamaForCausalLM, Qwen2ForCausalLM])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_the_layers_keep_is_what_autograd_saves(build, shape, kind, dtype):
    learner, config = build(kind, dtype=dtype)
    need, (P, G, _, T), V = stated(learner, config, shape), shape[:4], shape[-1]
    saved = kept_for_backward(learner.policy, full_rollouts(shape))
    layers = learner.policy.model.get_base_model().config.num_hidden_layers
    activations = need.activations * layers / (layers + 0.5)  # without the gradients on their way
    logits = P * G * T * V * getattr(torch, dtype).itemsize
    assert (activations + logits) / saved == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kl": 0.1, "micro_batch": 4},
        {"entropy": 0.1},
        {"dtype": "bfloat16"},
        {"gradient_checkpointing": True},
        {"gradient_checkpointing": True, "micro_batch": 4, "dtype": "bfloat16"},
        {"mini_batches": "one prompt each", "kl": 0.1},
    ],
    ids=str,
)
def test_the_update_peaks_within_a_factor_of_one_and_a_half(build, shape, changes):
    changes = changes | ({"mini_batches": shape[0]} if "mini_batches" in changes else {})
    learner, config = build(**changes)
    work = lambda: update(learner, config, shape)  # noqa: E731
    work()  # gradients are freed at the start of an update, moments stay
    measured = peak(work) - sum(p.nbytes for p in learner.parameters)
    need = stated(learner, config, shape)
    assert 1 / 1.5 < (need.activations + need.logits) / measured < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gemma2", "mixtral", "qwen3_moe"])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_experts_and_attention_in_plain_operations_count(kind, dtype, tmp_path):
    """A third was stated for rows of this length in Gemma 2, whose softcapped attention keeps
    a number for each pair of tokens. Of experts the width of one was counted.
    """
    shape = (2, 4, 240, 30, 16, 96, 200, 3, 6, 2, 3000)
    P, G, _, _, rank, H, I, layers, heads, kv, V = shape
    settings = AutoConfig.for_model(
        kind,
        hidden_size=H,
        intermediate_size=I,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=16,
        vocab_size=V,
        num_experts=8,
        num_local_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=120,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        **dict(eos_token_id=2, bos_token_id=1, pad_token_id=None),
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(settings).save_pretrained(tmp_path)
    byte_tokenizer(chat=False).save_pretrained(tmp_path)
    given = dict(prompts=P, group_size=G, rank=rank, device="cpu", m=3, dtype=dtype)
    config = vpo.TrainConfig.preset("demo", model=str(tmp_path), **given)
    learner = Learner(config)
    need, attention = stated(learner, config, shape), learner.policy.model.config
    assert attention._attn_implementation == ("eager" if kind == "gemma2" else "sdpa")
    logits = P * G * shape[3] * V * getattr(torch, dtype).itemsize
    saved = kept_for_backward(learner.policy, full_rollouts(shape)) - logits
    assert 1 / 1.3 < need.activations * layers / (layers + 0.5) / saved < 1.3


@pytest.mark.slow
def test_a_kl_in_the_loss_takes_no_more_memory(build, shape):
    """The reference is read before the policy. It was read while the policy's logits were kept."""
    peaks, needs = [], []
    for kl in (0.0, 0.1):
        given = (*build(kl=kl), shape)
        update(*given)
        peaks.append(peak(functools.partial(update, *given)))
        needs.append(stated(*given))
    assert peaks[1] == pytest.approx(peaks[0], rel=0.02) and needs[1] == needs[0]


@pytest.mark.slow
def test_the_knobs_lower_what_they_are_said_to_lower(build, shape):
    need = stated(*build(), shape)
    for changes, part in (
        ({"micro_batch": 4}, "activations"),
        ({"micro_batch": 4}, "logits"),
        ({"mini_batches": shape[0]}, "activations"),
        ({"target_modules": "q_proj"}, "adapter"),
        ({"gradient_checkpointing": True}, "activations"),
        ({"dtype": "bfloat16"}, "parameters"),
        ({"rank": 2}, "adapter"),
        ({"sample_batch": 4}, "sampling"),
    ):
        assert getattr(stated(*build(**changes), shape), part) < getattr(need, part), changes
    assert stated(*build(), (*shape[:3], shape[3] - 5)).peak < need.peak
    config = build()[1]
    nothing = dict(parameters=0, adapter=0, activations=0, logits=0, sampling=0)
    first = lambda **part: cures(memory.Memory(**nothing | part), config)[0]  # noqa: E731
    assert "micro_batch" in first(logits=9) and "4bit" in first(parameters=9)
    copies = first(parameters=9, sampling=10)  # of the parameters, mostly
    assert copies == "load_in 4bit" != first(parameters=4, sampling=10)
    assert first(logits=9, sampling=10) == f"set sample_batch below {shape[0] * shape[1]}"
    sampled = memory.Memory(**nothing | dict(sampling=1))
    assert not any("sample_batch" in cure for cure in cures(sampled, config, native=False))
    alone = cures(sampled, config.but(sample_batch=1))
    assert "prompts" in alone[0]


@pytest.mark.long
@pytest.mark.parametrize("at_once", [None, 8, 2])
@pytest.mark.parametrize("fast", [True, False])
def test_sampling_peaks_within_a_factor_of_one_and_a_half(build, shape, fast, at_once, monkeypatch):
    learner, config = build(sample_batch=at_once)
    P, G, L, T = shape[:4]
    random = np.random.default_rng(0)
    prompts, uniforms = random.integers(5, 400, (P, L)).tolist(), random.random((P, G, T))
    policy = learner.policy
    monkeypatch.setattr(policy, "encode", lambda ids: ids)
    monkeypatch.setattr(type(policy), "eos_ids", set())
    if not fast:
        monkeypatch.setattr(DecoderView, "knows", lambda model: False)
    measured = peak(lambda: policy.sample(prompts, uniforms, at_once=at_once))
    need = stated(learner, config, shape)
    assert 1 / 1.5 < need.sampling / (measured + uniforms.nbytes) < 1.5


@pytest.mark.slow
def test_what_no_machine_of_this_size_can_hold_is_refused_with_the_numbers(
    tiny_policy_folder, tmp_path, capsys
):
    """Before anything is written. 0.1.0 began such a run, and never ended it."""
    sizes = (
        ["--prompts", "1000000", "--group-size", "1000"],
        ["--prompts", "10000", "--max-new-tokens", "1000000"],
    )
    for flags in sizes:
        out = tmp_path / "run"
        arguments = ["--model", str(tiny_policy_folder), "--device", "cpu", "--out", str(out)]
        assert main(["train", *arguments, *flags]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "GiB in all: lower prompts (" in line and not out.exists()
        assert "micro_batch" not in line and "sample_batch" not in line  # they are not enough


def test_a_request_too_long_for_this_machine_is_named(tiny_policy_folder, tmp_path, monkeypatch):
    """One long row of a data set fills the memory, whatever the other settings are."""
    config = vpo.TrainConfig.preset("demo", model=str(tiny_policy_folder), device="cpu")
    policy = Learner(config).policy
    monkeypatch.setattr(memory, "lengths", lambda policy, config, task: (1_000_000, 8))
    said = r"for requests of up to 1,000,000 tokens, and cpu has .* or shorten the requests"
    with pytest.raises(ValueError, match=said):
        memory.check_fits(policy, config)


@pytest.mark.slow
def test_who_knows_better_than_the_estimate_trains(tiny_policy_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "total_memory", lambda device: 1)
    config = vpo.TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), maze_seed=1000, device="cpu", steps=1, prompts=1
    )
    with pytest.raises(ValueError, match=r"in all: .*; this is an estimate, and ignore_memory"):
        Run.begin(config, tmp_path / "run")
    run = Run.begin(config.but(ignore_memory=True), tmp_path / "run")
    assert run.train(lambda record: False)


def test_torchs_lack_of_memory_is_one_line_with_the_cures():
    config = vpo.TrainConfig.preset("demo")
    said = r"lower prompts \(4\), .*, or shorten the requests$"
    with pytest.raises(MemoryError, match=said), memory.enough_memory(config):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="must match the size"), memory.enough_memory(config):
        torch.zeros(2) + torch.zeros(3)  # a fault of the program stays what it is


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("CUDA error: out of memory\nCompile with ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_what_filled_a_gpu_is_given_back_while_the_error_is_kept(error):
    """A notebook keeps the last error, and with it the tensors of every function that it left. The
    next run, with the cure, then found no memory either.
    """
    held = []

    def update():
        activations = torch.zeros(3)
        held.append(weakref.ref(activations))
        raise error

    config = vpo.TrainConfig.preset("demo")
    with pytest.raises(MemoryError, match="lower prompts") as kept, memory.enough_memory(config):
        update()
    assert kept.value.__cause__ is error and held[0]() is None


@pytest.mark.slow
def test_what_the_sampler_copied_is_gone_when_the_update_begins(tiny_policy_folder, monkeypatch):
    config = vpo.TrainConfig.preset("demo", model=str(tiny_policy_folder), device="cpu")
    views, still, usual = [], [], DecoderView.prefill

    def prefill(view, *given):
        views.append(weakref.ref(view))
        return usual(view, *given)

    def updated(*given):
        still.append([ref() for ref in views])
        return update_policy(*given)

    monkeypatch.setattr(DecoderView, "prefill", prefill)
    monkeypatch.setattr(step, "update_policy", updated)
    next(loop.train(config))
    assert len(still) == 1 and set(still[0]) == {None}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["prefill", "step"])
def test_the_samplers_cache_is_given_back_while_the_error_is_kept(
    where, tiny_policy_folder, monkeypatch
):
    """Frames are cleared, but not what a closure of theirs holds."""
    config = vpo.TrainConfig.preset("demo", model=str(tiny_policy_folder), device="cpu")
    learner, held, usual = Learner(config), [], getattr(DecoderView, where)

    def filled(view, *given):
        usual(view, *given)
        held[:] = [weakref.ref(view)]
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(DecoderView, where, filled)
    with pytest.raises(MemoryError, match="lower") as kept:
        next(loop.train(config, learner=learner, fit=False))
    gc.collect()
    assert kept.value.__cause__ is not None and held[0]() is None


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] can't allocate memory: you tried to"),
    ],
)
def test_a_full_device_is_no_fault_of_the_model_that_is_loaded(
    error, quantised, tiny_policy_folder, tmp_path, monkeypatch
):
    """On a shared GPU, for one. It said that bitsandbytes or the model could not do it."""
    model, held = shutil.copytree(tiny_policy_folder, tmp_path / "model"), []
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"vpo_pocket": None}))

    def fill(*_, **__):
        loaded = torch.zeros(3)
        held.append(weakref.ref(loaded))
        raise error

    monkeypatch.setattr(base, "quantisation", lambda *_: None)
    monkeypatch.setattr(base.AutoModelForCausalLM, "from_pretrained", fill)
    with pytest.raises(MemoryError, match="out of memory as a model was loaded") as kept:
        load_policy(model, device="cpu", load_in="4bit" if quantised else None)
    assert "\n" not in str(kept.value) and "bitsandbytes" not in str(kept.value)
    assert held[0]() is None


def test_lengths_are_those_of_the_task_and_the_tokenizer(tiny_policy_folder):
    config = vpo.TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), maze_seed=1000, device="cpu"
    )
    learner = Learner(config)
    maze = learner.task.instance(0)
    prompt = learner.policy.encode(learner.task.prompt(maze, 3, pocket=learner.policy.pocket))
    expected = (len(prompt), 3 * (maze.budget + 2) + 1)
    assert memory.lengths(learner.policy, config, learner.task) == expected


@pytest.mark.slow
def test_an_update_that_does_not_fit_at_once_is_cut_into_micro_batches(
    tiny_policy_folder, tmp_path, monkeypatch, capsys
):
    """The largest half of a half of all 64 rollouts that fits; a micro_batch of the user's own
    stays; the run stores it.
    """
    config = vpo.TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), maze_seed=1000, device="cpu", steps=1
    )
    policy = Learner(config).policy

    def need(rows):
        return memory_needed(policy, config.but(micro_batch=rows)).peak

    assert fitted(policy, config, need(64)) is config
    assert [fitted(policy, config, need(rows)).micro_batch for rows in (63, 32, 31)] == [32, 32, 16]
    half = config.but(mini_batches=2)  # of 32 rollouts
    assert fitted(policy, half, need(32)) is half
    assert fitted(policy, half, need(31)).micro_batch == 16
    least = fitted(policy, config, 0)
    assert (least.micro_batch, least.sample_batch) == (1, 1)
    own = fitted(policy, config.but(micro_batch=50, sample_batch=60), 0)
    assert (own.micro_batch, own.sample_batch) == (50, 60)
    monkeypatch.setattr(memory, "available_memory", lambda device: need(16))
    arguments = [
        "--model",
        str(tiny_policy_folder),
        "--maze-seed",
        "1000",
        "--device",
        "cpu",
        "--steps",
        "1",
    ]
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 0
    assert "16 rollouts in one forward pass" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["micro_batch"] == 16


def test_sampling_that_does_not_fit_at_once_is_cut_and_the_update_is_not(tiny_policy_folder):
    """Many short rollouts to a long prompt, in a model that is small: it said to lower prompts."""
    config = vpo.TrainConfig.preset("demo", model=str(tiny_policy_folder), device="cpu")
    policy = Learner(config).policy
    sizes = dict(parameters=1, adapter=1, activations=3, logits=2)

    def needed(policy, config, task):
        return memory.Memory(**sizes, sampling=config.sample_batch or 64)

    fits = {room: fitted(policy, config, room, needed=needed) for room in (66, 65, 34, 33)}
    assert [(c.micro_batch, c.sample_batch) for c in fits.values()] == [
        (None, None),
        (None, 32),
        (None, 32),
        (None, 16),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5, pytest.param(2, marks=pytest.mark.long)])
def test_rollouts_are_the_same_however_many_are_sampled_at_a_time(rows, tiny_policy_folder):
    """Also where the prompts differ in length, and a group is cut. The records agree, and so do
    the parameters after the updates.
    """
    task = dict(model=str(tiny_policy_folder), device="cpu", threads=1, layout="lite-6x6")
    config = vpo.TrainConfig.preset("demo", **task, steps=2, prompts=3, group_size=4)
    ends = []
    for cut in (config, config.but(sample_batch=rows)):
        learner = Learner(cut)
        records = list(vpo.train(cut, learner=learner))
        ends.append((records, [p.detach() for p in learner.parameters]))
    (whole, p), (parts, q) = ends
    assert [g.texts for r in whole for g in r.groups] == [g.texts for r in parts for g in r.groups]
    assert len({len(g.texts[0]) for r in whole for g in r.groups}) > 1
    for one, other in zip(whole, parts, strict=True):
        assert one.tokens == other.tokens and one.truncated_rate == other.truncated_rate
        assert abs(one.loss - other.loss) < 1e-5 and other.sampler_gap < 1e-5
    assert max((a - b).abs().max() for a, b in zip(p, q, strict=True)) < 1e-5


@pytest.mark.slow
def test_a_loop_with_a_learner_of_its_own_is_cut_to_fit_as_a_run_is(
    tiny_policy_folder, monkeypatch
):
    """And so are the settings that are sent to it, and training a learner of one's own."""
    config = vpo.TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), maze_seed=1000, device="cpu", max_new_tokens=8
    )
    learner = Learner(config)
    need = memory_needed(learner.policy, config.but(micro_batch=16)).peak
    monkeypatch.setattr(memory, "available_memory", lambda device: need)
    used = []
    step = loop.train_step
    monkeypatch.setattr(loop, "train_step", lambda *a: used.append(a[1]) or step(*a))
    steps = vpo.train(config)
    next(steps), steps.send(config.but(alpha=2.0)), next(steps)
    assert [c.micro_batch for c in used] == [16] * 3
    assert [c.alpha for c in used] == [1.0, 2.0, 2.0]
    next(vpo.train(config, learner=learner))
    assert used[-1].micro_batch == 16
    next(vpo.train(config, learner=learner, fit=False))
    assert used[-1] == config and learner.steps == 2


@pytest.mark.slow
def test_a_resumed_run_uses_what_the_run_used_whatever_memory_there_is_now(
    tiny_policy_folder, tmp_path, monkeypatch
):
    config = vpo.TrainConfig.preset(
        "demo",
        model=str(tiny_policy_folder),
        maze_seed=1000,
        device="cpu",
        steps=2,
        prompts=1,
        group_size=4,
    )
    run = Run.begin(config, tmp_path / "run")
    run.start()
    next(run.steps())
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    again = Run.resume(tmp_path / "run")
    assert again.config.micro_batch is None and again.first == 1
    used, step = [], loop.train_step
    monkeypatch.setattr(loop, "train_step", lambda *a: used.append(a[1]) or step(*a))
    next(again.steps())
    assert used == [again.config]


def test_available_memory_is_between_what_is_held_and_the_machine():
    found = available_memory(torch.device("cpu"))
    assert found is None or 2**26 < found < 2**46


@pytest.mark.slow
def test_the_command_line_states_it_and_warns(tiny_policy_folder, tmp_path, capsys, monkeypatch):
    train = [
        "train",
        "--model",
        str(tiny_policy_folder),
        "--maze-seed",
        "1",
        "--prompts",
        "1",
        "--group-size",
        "3",
        "--steps",
        "1",
        "--max-new-tokens",
        "8",
        "--device",
        "cpu",
        "--out",
    ]
    assert main([*train, str(tmp_path / "a")]) == 0
    (line,) = [x for x in capsys.readouterr().err.splitlines() if "memory" in x]
    assert (
        line.startswith("memory: about ")
        and "available on cpu" in line
        and "may not be enough" not in line
    )
    assert main([*train, str(tmp_path / "b"), "--json"]) == 0
    assert "memory" not in capsys.readouterr().err
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    assert (
        main([*train, str(tmp_path / "c"), "--json", "--micro-batch", "3"]) == 0
    )  # a warning, no refusal
    (line,) = [x for x in capsys.readouterr().err.splitlines() if "memory" in x]
    assert (
        "may not be enough" in line
        and "micro_batch below 3" in line
        and "max_new_tokens (8)" in line
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"dtype": "bfloat16", "rank": 4}, {"gradient_checkpointing": True}], ids=str
)
def test_an_outline_needs_what_the_model_itself_needs(build, shape, changes):
    learner, config = build(Qwen2ForCausalLM, **changes)
    bare = learner.policy.model.get_base_model().config
    same = {n: changes[n] for n in ("rank", "gradient_checkpointing") if n in changes}
    same |= dict(rank=config.rank, dtype=changes.get("dtype", "float32"))
    policy = outline(bare, learner.policy.tokenizer, **same)
    assert all(p.is_meta for p in policy.model.parameters())
    assert memory_needed(policy, config) == memory_needed(learner.policy, config)


@pytest.mark.slow
def test_an_outline_knows_the_sizes_of_published_models_and_packs_linear_layers():
    """Qwen2.5-0.5B: 494,032,768 parameters on its model card's weights; by hand below. Packed
    parameters are sampled by the model's own pass, which needs no copy.
    """
    H, I, layers, heads, kv, V = 896, 4864, 24, 14, 2, 151_936
    sizes = (H, I, layers, heads, kv, V)
    config = config_of(Qwen2ForCausalLM, *sizes, tie_word_embeddings=True)
    linear = layers * (2 * H * H + 2 * H * kv * 64 + 3 * H * I)
    others = V * H + layers * (H + 2 * kv * 64 + 2 * H) + H  # embedding, biases, norms
    assert linear + others == 494_032_768
    asked = vpo.TrainConfig.preset("gpu", task="hops", model="none", max_new_tokens=8)
    joined = layers * (H * H + 2 * H * kv * 64 + 2 * H * I)
    for load_in, each in ((None, 2), ("8bit", 1), ("4bit", 0.5)):
        policy = outline(config, byte_tokenizer(chat=True), load_in=load_in)
        assert memory_needed(policy, asked).parameters == each * linear + 2 * others, load_in
        if load_in is None:
            apart = layers * 16 * (7 * H + 4 * H + 3 * 2 * kv * 64 + 5 * I)
            assert Decoder.of(policy, 16).copied(2) == 2 * (joined + apart)
    with pytest.raises(ValueError, match="load_in = '3bit': there are"):
        outline(config, None, load_in="3bit")
    wide = outline(config, None, rank=2**20)  # adapter and optimizer: 8 TiB, more than there is
    assert 16 * sum(p.numel() for p in wide.model.parameters() if p.requires_grad) > 2**43


def test_a_cure_is_what_can_still_be_changed():
    config = vpo.TrainConfig.preset("demo", prompts=4, group_size=8)
    changed = dict(micro_batch=1, gradient_checkpointing=True, load_in="4bit", max_new_tokens=8)

    def said(change=None, native=True, **part):
        parts = dict(parameters=0, adapter=0, activations=0, logits=0, sampling=0)
        return cures(memory.Memory(**parts | part), config.but(**change or {}), native)

    update = ["set micro_batch below 32", "turn on gradient_checkpointing"]
    update += ["lower max_new_tokens (as the task asks)"]
    assert said(logits=9) == [*update, "load_in 4bit"]
    assert said(parameters=9) == ["load_in 4bit", *update] and said(native=False) == update
    assert said(changed, logits=9) == said(changed, parameters=9) == ["lower max_new_tokens (8)"]
    assert said({"micro_batch": 4}, logits=9)[0] == "set micro_batch below 4"
    assert "load_in 4bit" not in said(changed, parameters=9, sampling=10)


def test_where_nobody_knows_the_memory_a_run_is_neither_cut_nor_refused(
    tiny_policy_folder, monkeypatch
):
    """As on Windows, and on a Mac: the system has no file that tells it."""
    for name in ("available_memory", "total_memory"):
        monkeypatch.setattr(memory, name, lambda device: None)
    config = vpo.TrainConfig.preset("demo", model=str(tiny_policy_folder), device="cpu")
    learner = Learner(config)
    assert memory.made_to_fit(learner.policy, config, learner.task) is config
    memory.check_fits(learner.policy, config)


def test_memory_is_printed_in_one_line():
    need = memory.Memory(**{field.name: 2**30 for field in dataclasses.fields(memory.Memory)})
    assert str(need) == (
        "about 4.0 GiB (parameters 1.0 GiB, adapter and optimizer 1.0 GiB, sampling 1.0 GiB, "
        "update 2.0 GiB)"
    )
