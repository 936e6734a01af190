"""The same figures as on the CPU, and the same answers to what goes wrong."""

import contextlib
import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from here import Here, Skipped, full_rollouts, moved, policy_of
from small_models import byte_tokenizer, model_folder
from torch.nn.attention import SDPBackend, sdpa_kernel

from vpo_lite import TrainConfig
from vpo_lite.lab.session import Session
from vpo_lite.policy import graphs
from vpo_lite.policy.decoder import DecoderView, compiler_missing
from vpo_lite.policy.sampling import HFForward, pad_prompts, sample_tokens
from vpo_lite.training import memory
from vpo_lite.training.errors import TrainingError
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train
from vpo_lite.training.run import Run
from vpo_lite.training.step import train_step, update_policy

CPU = torch.device("cpu")
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]  # the second is padded


def demo(here: Here, **changes) -> TrainConfig:
    return TrainConfig.preset("demo", maze_seed=1000, **demo_settings(here) | changes)


def demo_settings(here: Here) -> dict:
    sizes = dict(prompts=2, group_size=4) if here.small else {}
    return {"device": str(here.device)} | sizes


def logits(here: Here) -> dict:
    """Decoder view and the model's own forward pass, both against the CPU, in float32."""
    found = {}
    for size in ("1m", "tiny") if here.small else ("1m", "10m"):
        seen = []
        for device in (CPU, here.device):
            model = policy_of(size, device).model
            for forward in (DecoderView(model), HFForward(model)):
                ids, mask = pad_prompts(PROMPTS, 0, device)
                rows = torch.tensor([0, 0, 1, 1], device=device)
                with torch.no_grad():
                    steps = [forward.prefill(ids, mask, rows, 9)]
                    for t in range(8):
                        steps.append(
                            forward.step(torch.tensor([20, 21, 22, 23 + t], device=device))
                        )
                seen.append(torch.stack(steps).cpu())
        # torch's max keeps a NaN; Python's passes over it
        found[size] = float(torch.stack([(x - seen[0]).abs().max() for x in seen[1:]]).max())
    assert all(gap <= 2e-4 for gap in found.values()), found
    found["said"] = f"largest gap {max(found.values()):.0e} (at most 2e-4)"
    return found


def sampler(here: Here) -> dict:
    """The same uniforms draw the same tokens, with and without a CUDA graph.

    A draw may differ where a uniform lies within the rounding of a boundary: one in some 1e5 draws.
    """
    ways = {
        "graph": DecoderView,
        "eager": lambda model: DecoderView(model, static=False),
        "model's own": HFForward,
    }
    return drawn_alike(here, ways)


def compiled(here: Here) -> dict:
    """The same through torch.compile, whose step a CUDA graph replays, too."""
    if missing := compiler_missing(here.device):
        raise Skipped(missing)
    return drawn_alike(here, {"compiled": lambda model: DecoderView(model, compiled=True)})


def drawn_alike(here: Here, ways: dict) -> dict:
    """Tokens that forward passes draw on the device, against the decoder view's on the CPU."""
    P, G, T = (2, 4, 12) if here.small else (8, 16, 48)
    uniforms = np.random.default_rng(0).random((P, G, T))
    prompts = [list(range(5, 25 + p)) for p in range(P)]
    rollouts = {}
    every = {"cpu": (CPU, DecoderView)} | {name: (here.device, way) for name, way in ways.items()}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for name, (device, way) in every.items():
            model = policy_of("1m", device).model
            drawn = sample_tokens(
                model, prompts, uniforms, eos_ids={2}, pad_id=0, temperature=0.9, forward=way(model)
            )
            rollouts[name] = moved(drawn, CPU)
    said = [str(w.message) for w in warned if "CUDA graph" in str(w.message)]
    assert not said, said[0]
    assert not graphs._BROKEN.is_set(), "an earlier recording broke: none of these was recorded"
    cpu, found = rollouts.pop("cpu"), {}
    for name, other in rollouts.items():
        T = min(cpu.tokens.shape[1], other.tokens.shape[1])
        same = (cpu.tokens[:, :T] == other.tokens[:, :T]).all(1)
        gaps = (cpu.logprobs[same, :T] - other.logprobs[same, :T]).abs().amax(1)
        gap = float(gaps.max()) if same.any() else float("nan")
        found[name] = {"same_rows": float(same.float().mean()), "logprob_gap": gap}
    least = min(way["same_rows"] for way in found.values())
    gap = max(way["logprob_gap"] for way in found.values())
    assert all(w["same_rows"] >= 0.95 and w["logprob_gap"] <= 1e-3 for w in found.values()), found
    return {**found, "said": f"rows alike {least:.3f} (least), their logprobs within {gap:.0e}"}


def update(here: Here) -> dict:
    """Loss and gradient of one update on the same rollouts, against the CPU, in float32.

    One prompt is padded: its first rows attend to nothing, which no attention kernel may make NaN.
    """
    shape, figures, gradients = (2, 4, 30, 12) if here.small else (4, 16, 60, 48), [], []
    advantages = np.random.default_rng(0).normal(size=shape[:2])
    for device in (CPU, here.device):
        config = demo(here, kl=0.01, micro_batch=8, device=str(device))
        learner = Learner(config, policy_of("1m", device))
        rollouts = full_rollouts(shape, 200, device)
        rollouts.prompt_mask[0, :7] = False
        figures.append(update_policy(learner, config, rollouts, advantages, True))
        gradients.append(torch.cat([p.grad.flatten().cpu() for p in learner.parameters]))
    off = float((gradients[1] - gradients[0]).norm() / gradients[0].norm())
    loss = abs(figures[1].loss - figures[0].loss)
    assert off <= 1e-3 and loss <= 1e-4, f"gradient off by {off:.1e}, loss by {loss:.1e}"
    return {
        "gradient_off": off,
        "loss_off": loss,
        "figures_cpu": figures[0]._asdict(),
        "figures_device": figures[1]._asdict(),
        "said": f"gradient off by {off:.0e} of its length (at most 1e-3), loss by {loss:.0e}",
    }


def attention(here: Here) -> dict:
    """Gradients of masked attention whose scores are all far below 0, as in a head of Qwen2.5.

    On an H100 those of cuDNN are NaN at this length (pytorch issue 196678); vpo_lite switches it
    off. ``cudnn_finite``: whether it would do here, or the error that it raises. As in a padded
    prompt, the first rows attend to nothing.
    """
    length, head = 192, 64  # 64 more than a multiple of 128
    mask = torch.ones(length, length, dtype=torch.bool, device=here.device).tril()
    mask[:, :5] = False
    finite = []
    for cudnn in (False, True):
        x = 0.1 * torch.randn(3, 1, 2, length, head, generator=torch.Generator().manual_seed(0))
        x[0, ..., 0], x[1, ..., 0] = 1.0, -120 * head**0.5
        x = x.to(here.device, torch.bfloat16).requires_grad_()
        alone = sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if cudnn else contextlib.nullcontext()
        try:
            with alone:  # elsewhere torch might choose another, and "finite" would not be cuDNN's
                F.scaled_dot_product_attention(*x, mask).float().pow(2).sum().backward()
            finite.append(bool(x.grad.isfinite().all()))
        except RuntimeError as error:  # cuDNN has no plan for this shape
            if not cudnn:
                raise
            finite.append(str(error).splitlines()[0])
    ours, cudnns = finite
    assert ours is True, "gradients are not finite"
    words = {True: "finite, too", False: "not finite"}.get(cudnns, cudnns)
    return {"cudnn_finite": cudnns, "said": f"finite; with cuDNN allowed {words}"}


def steps(here: Here) -> dict:
    """Whole steps of preset demo. Where the texts are alike, the advantages are equal."""
    records = [list(train(demo(here, steps=2, device=d))) for d in ("cpu", str(here.device))]
    alike = []
    for ours, theirs in zip(records[0][0].groups, records[1][0].groups, strict=True):
        if list(ours.texts) == list(theirs.texts):
            alike.append(float(np.abs(ours.advantages - theirs.advantages).max()))
    losses = [[record.loss for record in run] for run in records]
    assert alike and max(alike) == 0, f"{len(alike)} groups alike, advantages differ by {alike}"
    off = abs(losses[1][0] - losses[0][0])
    if len(alike) == len(records[0][0].groups):
        assert off <= 1e-4, f"loss of step 1: {losses}"
    said = f"{len(alike)} groups alike, their advantages equal, loss of step 1 off by {off:.0e}"
    return {"losses_cpu": losses[0], "losses_device": losses[1], "said": said}


def panel(here: Here) -> dict:
    """Two methods in a session, as the live panel trains them in a thread of its own. This thread
    uses the device, too. Each method does what it does alone.
    """
    session = Session(("vpo", "grpo"), maze_seed=1000, **demo_settings(here), steps=3)
    session.train()
    x, products = torch.rand(256, 256, device=here.device), 0
    while session.view().busy:
        x, products = (x @ x).softmax(-1), products + 1
    session.join()
    assert session.last_error is None, session.last_error
    off, alike = 0.0, []
    for method, run in session.runs.items():
        pairs = [*zip(run.records, train(run.config), strict=True)]
        for threaded, alone in pairs:
            off = max(off, abs(threaded.loss - alone.loss))
            groups = zip(threaded.groups, alone.groups, strict=True)
            alike += [list(a.texts) == list(b.texts) for a, b in groups]
        assert len(pairs) == 3, f"{method} did {len(pairs)} steps of 3"
    # A draw that is rounded differently changes what comes after it.
    assert np.mean(alike) >= 0.9 and off <= 1e-2, f"{np.mean(alike):.2f} alike, loss off by {off}"
    said = f"{np.mean(alike):.0%} of the groups as alone, losses within {off:.0e}"
    return {"alike": float(np.mean(alike)), "losses_off": off, "products": products, "said": said}


def bf16(here: Here) -> dict:
    """How far a sampler in bfloat16 is from the policy in float32, in nats a token."""
    gaps = {}
    for dtype in ("float32", "bfloat16"):
        (record,) = train(demo(here, steps=1, rollout_dtype=dtype))
        gaps[dtype] = record.sampler_gap
    assert gaps["float32"] < 1e-4 and gaps["bfloat16"] < 0.05, gaps
    return {
        **gaps,
        "said": f"gap {gaps['bfloat16']:.4f} nats a token; float32 {gaps['float32']:.0e}",
    }


def resume(here: Here) -> dict:
    """A run that is killed after step 2 of 4, and goes on, against one that is not killed."""
    config = demo(here, steps=4)
    whole, killed = here.scratch / "whole", here.scratch / "killed"
    run = Run.begin(config, whole)
    uninterrupted = [record.loss for record in run.steps()]
    run.close()
    code = (
        "import json, os, signal, sys\n"
        "from vpo_lite import TrainConfig\n"
        "from vpo_lite.training.run import Run\n"
        "run = Run.begin(TrainConfig.from_json(json.loads(sys.argv[1])), sys.argv[2])\n"
        "for record in run.steps():\n"
        "    if record.step == 2: os.kill(os.getpid(), signal.SIGKILL)"
    )
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, json.dumps(config.to_json()), str(killed)],
        env={**os.environ, **paths},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, f"the run ended with {ended.returncode}"
    again = Run.resume(killed)
    losses = [record.loss for record in again.steps()]
    again.close()
    pairs = zip(run.learner.parameters, again.learner.parameters, strict=True)
    gap = max(float((a - b).detach().abs().max()) for a, b in pairs)
    off = max(abs(a - b) for a, b in zip(losses, uninterrupted[2:], strict=True))
    assert len(losses) == 2 and off <= 1e-3, f"losses {losses} after {uninterrupted}"
    return {
        "bit_equal": gap == 0,
        "parameters_off": gap,
        "losses_off": off,
        "said": "bit-equal" if gap == 0 else f"parameters within {gap:.0e}, losses {off:.0e}",
    }


def nan(here: Here) -> dict:
    """A parameter that is not a number ends the run in one line, before anything is changed."""
    config = demo(here, steps=1)
    learner = Learner(config)
    with torch.no_grad():
        learner.parameters[0].view(-1)[0] = torch.nan
    before = [p.detach().clone() for p in learner.parameters]
    try:
        train_step(learner, config, 0)
    except TrainingError as error:
        said = str(error)
    else:
        raise AssertionError("the step ended without an error")
    same = all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(before, learner.parameters, strict=True)
    )
    assert same and "\n" not in said and "lower lr" in said, said
    return {"said": said[:60] + " ..."}


def quantised(here: Here) -> dict:
    """A base in 8 and 4 bit: one step, and the sampler's log-probabilities against the policy's."""
    if importlib.util.find_spec("bitsandbytes") is None:
        raise Skipped("bitsandbytes is not installed")
    # A Llama whose rows hold whole blocks of 64 weights, as those of real models do.
    folder = model_folder(here.scratch / "wide", byte_tokenizer(chat=False), 128, 256, 2, 4, 2)
    size, gaps = dict(prompts=2, group_size=4, max_new_tokens=16), {}
    for bits in ("8bit", "4bit"):
        (record,) = train(demo(here, steps=1, model=str(folder), load_in=bits, **size))
        gaps[bits] = record.sampler_gap
        here.keep(gaps)
    # The model's own pass samples row by row what the update computes at once: LLM.int8() and bf16
    # round them differently.
    assert max(gaps.values()) < 0.1, gaps
    return {**gaps, "said": f"sampler gap {gaps['8bit']:.3f} and {gaps['4bit']:.3f} nats a token"}


MEMORY = {  # size -> dtype, (P, G, L, T), micro_batch
    "1m": (torch.float32, (4, 16, 80, 48), None),
    "0.5b": (torch.bfloat16, (4, 8, 256, 128), 8),
    "3b": (torch.bfloat16, (4, 8, 256, 128), 8),
    "tiny": (torch.float32, (2, 4, 20, 8), None),
}


def _memory_of(here: Here, size: str) -> dict:
    dtype, shape, micro_batch = MEMORY[size]
    P, G, L, T = shape
    config = demo(here, prompts=P, group_size=G, micro_batch=micro_batch)
    if here.device.type == "cuda":
        gc.collect()  # a model that goes while another is measured would be taken off its peak
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    learner = Learner(config, policy_of(size, here.device, dtype))
    with mock.patch.object(memory, "lengths", lambda *_: (L, T)):
        need = memory.memory_needed(learner.policy, config, learner.task)
    model = learner.policy.model
    prompts = np.random.default_rng(0).integers(5, 200, (P, L)).tolist()
    uniforms = np.random.default_rng(0).random((P, G, T))
    sample_tokens(model, prompts, uniforms, eos_ids={-1}, pad_id=0, forward=DecoderView(model))
    rollouts = full_rollouts(shape, 200, here.device)
    for _ in range(2):  # AdamW's moments are there from the second update on
        update_policy(learner, config, rollouts, np.ones((P, G)), False)
    measured = torch.cuda.max_memory_allocated() - before if here.device.type == "cuda" else None
    return {
        "stated": need.peak,
        "measured": measured,
        "ratio": None if measured is None else round(need.peak / measured, 2),
    }


def stated_memory(here: Here) -> dict:
    """The memory that a run states before it starts, against the most that was allocated."""
    sizes = ("1m", "tiny") if here.small else ("1m", "0.5b", "3b")
    found = {}
    for size in sizes:
        found[size] = _memory_of(here, size)
        here.keep(found)
    ratios = {size: row["ratio"] for size, row in found.items()}
    if here.device.type != "cuda":
        return {**found, "said": "stated; only CUDA counts what is allocated"}
    # Below some 100 MiB, cuBLAS's workspaces and the allocator's rounding count as much.
    assert all(1 / 1.5 < r < 1.5 for size, r in ratios.items() if size != "1m"), ratios
    return {
        **found,
        "said": "stated / measured: " + ", ".join(f"{k} {v}" for k, v in ratios.items()),
    }


def oom(here: Here) -> dict:
    """Too large a run is refused before it starts; too little memory is one line with the cure."""
    # A thousand million rollouts: no device holds their tokens. A million prompts of 16 fit on an
    # H100, and to make the problems takes hours.
    config = demo(here, prompts=1_000_000, group_size=1000)
    try:
        next(train(config))
    except ValueError as error:
        refused = str(error)
    else:
        raise AssertionError("a step of a thousand million rollouts was not refused")
    assert "\n" not in refused and "lower prompts" in refused, refused
    if here.device.type != "cuda":
        return {"refused": refused, "said": "refused in one line; only CUDA can be made short"}
    learner = Learner(demo(here), policy_of("10m", here.device))
    total = torch.cuda.get_device_properties(here.device).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**28) / total)
    before = torch.cuda.memory_allocated()
    try:
        many = demo(here, prompts=64, group_size=64, micro_batch=64)
        next(train(many, learner=learner, fit=False))
    except MemoryError as error:
        short, held = str(error), torch.cuda.memory_allocated() - before
    else:
        raise AssertionError("4,096 rollouts at once found room where there is none")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "\n" not in short and "lower prompts" in short, short
    assert held <= 2**27, f"the error holds {held:,} bytes"  # of 2**28 that could be had
    return {"refused": refused, "short": short, "held": held, "said": short[:70] + " ..."}
