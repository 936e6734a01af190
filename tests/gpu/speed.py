"""Tokens a second, against `generate` and against what the memory can deliver; parts of a step."""

import contextlib
import importlib.util
import statistics
import time
from unittest import mock

import numpy as np
import torch
from here import Here, Skipped, policy_of
from torch.utils._pytree import tree_leaves

from vpo_lite.policy.decoder import DecoderView, compiler_missing
from vpo_lite.policy.sampling import HFForward, sample_tokens
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training import step as training_step
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.step import Learner


def bandwidth(here: Here) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    count = 2**22 if here.small else 2**30
    source = torch.ones(count, dtype=torch.uint8, device=here.device)
    target = torch.empty_like(source)
    return 2 * count / here.best(lambda: target.copy_(source), 5)


def rollouts(here: Here) -> dict:
    """8 prompts x 8 rollouts x 48 tokens, as in the table of notebooks/REFERENCE.md, and the gpu
    preset's 32 x 16. ``limit``: tokens a second if each step took as long as reading parameters
    and cache once.
    """
    moved, found = bandwidth(here), {}
    sizes = {"1m": torch.float32, "tiny": torch.float32}
    if not here.small:
        sizes = {"1m": torch.float32, "10m": torch.float32, "0.5b": torch.bfloat16}
    for size, dtype in sizes.items():
        model = policy_of(size, here.device, dtype).model
        for P, G in ((2, 2),) if here.small else ((8, 8), (32, 16)):
            found[f"{size}, {P} x {G}"] = sampled(here, model, P, G, 6 if here.small else 48, moved)
            here.keep(found)
    lines = [
        f"{name}: {row['over_generate']} x generate, {row['share_of_limit']:.0%} of the limit"
        for name, row in found.items()
    ]
    return {"bandwidth": round(moved), **found, "said": "; ".join(lines)}


def sampled(here: Here, model, P: int, G: int, T: int, moved: float) -> dict:
    prompts = [list(range(5, 85))] * P
    uniforms = np.random.default_rng(0).random((P, G, T))
    ids = torch.tensor(prompts, device=here.device).repeat_interleave(G, 0)

    def generate():
        with torch.no_grad():
            model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                min_new_tokens=T,
                max_new_tokens=T,
                pad_token_id=0,
            )

    def sample(forward):
        ends = dict(eos_ids={-1}, pad_id=0)
        return lambda: sample_tokens(model, prompts, uniforms, forward=forward(), **ends)

    ways = {
        "generate": generate,
        "model's own pass": sample(lambda: HFForward(model)),
        "view": sample(lambda: DecoderView(model, static=False)),
        "view, CUDA graph": sample(lambda: DecoderView(model)),
        "view, CUDA graph, bf16": sample(lambda: DecoderView(model, dtype=torch.bfloat16)),
    }
    slow = ("generate", "model's own pass")  # a second and more each, at 0.5b
    seconds = {n: here.best(work, 1 if here.small or n in slow else 3) for n, work in ways.items()}
    view = DecoderView(model)
    sample_tokens(model, prompts, uniforms[..., :2], eos_ids={-1}, pad_id=0, forward=view)
    read = [
        x for x in tree_leaves((view.parameters.layers, view.parameters.output)) if x is not None
    ]
    cache = sum(x.nbytes for layer in view.cache for x in layer)
    cache_at_end = cache * (len(prompts[0]) * P + T * P * G) / (len(prompts[0]) * P + 2 * P * G)
    limit = P * G * moved / (sum(x.nbytes for x in read) + cache_at_end)
    speed = {name: round(P * G * T / s) for name, s in seconds.items()}
    graph = speed["view, CUDA graph"]
    return {
        "tokens_per_second": speed,
        "limit": round(limit),
        "over_generate": round(graph / speed["generate"], 1),
        "share_of_limit": round(graph / limit, 3),
    }


def step_time(here: Here) -> dict:
    """Where the time of a whole step of VPO goes: 8 prompts x 8 rollouts x 48 tokens by size, and
    the gpu preset on many mazes of 9 x 9.
    """
    from bench_trl import AnyWordsAreRoutes, FullLength

    P, G, T = (2, 4, 6) if here.small else (8, 8, 48)
    device, found = str(here.device), {}
    dtypes = {"1m": torch.float32, "tiny": torch.float32}
    if not here.small:
        dtypes = {"1m": torch.float32, "10m": torch.float32, "0.5b": torch.bfloat16}
    for size, dtype in dtypes.items():
        config = TrainConfig.preset(
            "demo", prompts=P, group_size=G, max_new_tokens=T, device=device
        )
        policy = policy_of(size, here.device, dtype)
        policy.__class__ = FullLength
        task = MazeTask() if size == "1m" else AnyWordsAreRoutes()
        found[size] = split(here, Learner(config, policy, task), config)
        here.keep(found)
    sizes = dict(prompts=P, group_size=G) if here.small else {}
    config = TrainConfig.preset("gpu", layout="paper-9x9", device=device, **sizes)
    found["preset gpu"] = split(here, Learner(config), config)
    lines = []
    for name, row in found.items():
        parts = row["split_median_seconds"]
        shares = ", ".join(f"{p} {s / sum(parts.values()):.0%}" for p, s in parts.items())
        lines.append(f"{name} {1000 * row['seconds']:.0f} ms ({shares})")
    return {**found, "said": "; ".join(lines)}


def split(here: Here, learner: Learner, config: TrainConfig) -> dict:
    """Seconds of the fastest step, and of its parts.

    ``seconds_cache_kept``: where torch keeps the memory that it has cached when a CUDA graph is
    recorded. It gives it back to the driver, and the update has to ask for it again. What earlier
    recordings used is kept, too, and not used again.
    """
    from bench_trl import PARTS

    count = 2 if here.small else 7
    with watched(here) as watch:
        watch.wrap(learner.policy, "sample", "generate")
        watch.wrap(learner.optimizer, "step", PARTS[-1])
        parts = timed(here, watch, learner, config, range(count))
        with mock.patch.object(torch.cuda, "empty_cache", lambda: None):
            kept = timed(here, watch, learner, config, range(count, 2 * count))
    return {
        "seconds": round(min(row["step"] for row in parts), 4),
        "seconds_cache_kept": round(min(row["step"] for row in kept), 4),
        "split_median_seconds": {
            p: round(statistics.median(row.get(p, 0) for row in parts), 4) for p in PARTS
        },
    }


def timed(here: Here, watch, learner: Learner, config: TrainConfig, steps: range) -> list[dict]:
    """The parts of each step but the first, in seconds; ``step`` is the whole."""
    parts = []
    for step in steps:
        watch.take()
        started = time.perf_counter()
        training_step.train_step(learner, config, step)
        here.wait()
        parts.append(watch.take(time.perf_counter() - started))
    return parts[1:]


@contextlib.contextmanager
def watched(here: Here):
    """A stopwatch on what a step calls. It comes off: a GPU has to wait whenever it is read."""
    from bench_trl import watch_modules

    watch = watch_modules(here.wait)
    try:
        yield watch
    finally:
        watch.unwrap()


def trl(here: Here) -> dict:
    """Whole steps against TRL's GRPOTrainer, as tests/benchmarks/bench_trl.py compares them.

    Both as users get them: on a GPU TRL fuses AdamW into one kernel, and computes logits by pieces.
    """
    if missing := [p for p in ("trl", "datasets") if importlib.util.find_spec(p) is None]:
        raise Skipped(f"not installed: {', '.join(missing)}")
    if missing := compiler_missing(here.device):  # TRL has kernels in Triton
        raise Skipped(missing)
    import bench_trl

    rounds, found = {"1m": 8, "10m": 8, "0.5b": 4}, {}
    if here.small:
        rounds = {"1m": 1, "tiny": 1}
    with watched(here) as watch:
        for size, count in rounds.items():
            found[size] = bench_trl.compare(size, 1, count, watch, str(here.device))
            here.keep(found)
    said = ", ".join(f"{size} {row['ratio_of_best']} x" for size, row in found.items())
    return {**found, "said": f"as fast as TRL: {said}"}
