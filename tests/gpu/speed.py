"""Tokens a second, against `generate` and against what the memory can deliver; parts of a step."""

import contextlib
import statistics
import time
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from here import Here, Skipped, full_rollouts, needs_trl, policy_of
from torch.utils._pytree import tree_leaves

from vpo_lite.policy import graphs, sampling
from vpo_lite.policy.decoder import DecoderView
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.sampling import HFForward, sample_tokens
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training import step as training_step
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.learner import Learner
from vpo_lite.training.step import update_policy


def bandwidth(here: Here) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    count = 2**22 if here.small else 2**30
    source = torch.ones(count, dtype=torch.uint8, device=here.device)
    target = torch.empty_like(source)
    return 2 * count / here.best(lambda: target.copy_(source), 5)


SIZES = {"1m": torch.float32, "10m": torch.float32, "0.5b": torch.bfloat16}
SMALL = {"1m": torch.float32, "tiny": torch.float32}


def rollouts(here: Here) -> dict:
    """8 prompts x 8 rollouts x 48 tokens, as in the table of notebooks/REFERENCE.md, and the gpu
    preset's 32 x 16. ``limit``: tokens a second if each step took as long as reading parameters
    and cache once.
    """
    moved, found = bandwidth(here), {}
    for size, dtype in (SMALL if here.small else SIZES).items():
        model = policy_of(size, here.device, dtype).model
        for P, G in ((2, 2),) if here.small else ((8, 8), (32, 16)):
            batch = Batch(here, model, P, G, 6 if here.small else 48)
            found[f"{size}, {P} x {G}"] = sampled(batch, moved)
            here.keep(found)
    lines = [
        f"{name}: {row['over_generate']} x generate, {row['share_of_limit']:.0%} of the limit"
        for name, row in found.items()
    ]
    return {"bandwidth": round(moved), **found, "said": "; ".join(lines)}


def sampling_time(here: Here) -> dict:
    """Where the sampler's time goes with a CUDA graph. ``tokens``: the first one, which Python
    starts kernel by kernel, and all replays.
    """
    from bench_trl import Stopwatch

    moved, found = bandwidth(here), {}
    for size in ("1m", "tiny") if here.small else ("1m", "0.5b"):
        model = policy_of(size, here.device, {**SMALL, **SIZES}[size]).model
        for P, G, T in ((2, 2, 6),) if here.small else ((8, 8, 48), (8, 8, 256), (32, 16, 256)):
            batch, watch = Batch(here, model, P, G, T), Stopwatch(here.wait)
            speed = batch.per_second(lambda batch=batch: batch.sample(DecoderView(batch.model)), 2)
            watch.wrap(DecoderView, "__init__", "parameters joined")
            watch.wrap(DecoderView, "prefill", "prompts read")
            watch.wrap(sampling, "replayed", "graph recorded")
            started = time.perf_counter()
            batch.sample(DecoderView(model))
            here.wait()
            parts = watch.take(time.perf_counter() - started)
            watch.unwrap()
            parts["tokens"] = parts.pop("optimizer and rest")  # what no part claims
            found[f"{size}, {P} x {G} x {T}"] = {
                "tokens_per_second": speed,
                "share_of_limit": round(speed / batch.limit(moved), 3),
                "split_seconds": {name: round(s, 4) for name, s in parts.items()},
            }
            here.keep(found)
    lines = []
    for name, row in found.items():
        whole, *parts = row["split_seconds"].items()
        shares = ", ".join(f"{part} {seconds / whole[1]:.0%}" for part, seconds in parts)
        lines.append(f"{name} {1000 * whole[1]:.0f} ms ({shares})")
    return {"bandwidth": round(moved), **found, "said": "; ".join(lines)}


@dataclass
class Batch:
    """P prompts of 80 tokens x G rollouts x T tokens. No rollout ends early."""

    here: Here
    model: torch.nn.Module
    P: int
    G: int
    T: int

    def __post_init__(self):
        self.prompts = [list(range(5, 85))] * self.P
        self.uniforms = np.random.default_rng(0).random((self.P, self.G, self.T))

    def sample(self, forward, T: int | None = None) -> None:
        ends = dict(eos_ids={-1}, pad_id=0)
        sample_tokens(self.model, self.prompts, self.uniforms[..., :T], forward=forward, **ends)

    def generate(self) -> None:
        ids = torch.tensor(self.prompts, device=self.here.device).repeat_interleave(self.G, 0)
        with torch.no_grad():
            self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                min_new_tokens=self.T,
                max_new_tokens=self.T,
                pad_token_id=0,
            )

    def per_second(self, work, rounds: int) -> int:
        return round(self.P * self.G * self.T / self.here.best(work, rounds))

    def limit(self, moved: float) -> float:
        """Tokens a second if each step took as long as reading parameters and cache once."""
        view, P, G, T, length = DecoderView(self.model), self.P, self.G, self.T, 80
        self.sample(view, 2)
        read = [*tree_leaves((view.parameters.layers, view.parameters.output))]
        cache = sum(x.nbytes for layer in view.cache for x in layer)
        cache_at_end = cache * (length * P + T * P * G) / (length * P + 2 * P * G)
        return P * G * moved / (sum(x.nbytes for x in read if x is not None) + cache_at_end)


def sampled(batch: Batch, moved: float) -> dict:
    """Tokens a second by way, and how far the view with a CUDA graph is from the limit."""
    ways = {
        "model's own pass": lambda: HFForward(batch.model),
        "view": lambda: DecoderView(batch.model, static=False),
        "view, CUDA graph": lambda: DecoderView(batch.model),
        "view, CUDA graph, bf16": lambda: DecoderView(batch.model, dtype=torch.bfloat16),
    }
    speed = {"generate": batch.per_second(batch.generate, 1)}  # a second and more, at 0.5b
    for name, forward in ways.items():
        rounds = 1 if batch.here.small or name == "model's own pass" else 3
        speed[name] = batch.per_second(lambda forward=forward: batch.sample(forward()), rounds)
    graph, limit = speed["view, CUDA graph"], batch.limit(moved)
    return {
        "tokens_per_second": speed,
        "limit": round(limit),
        "over_generate": round(graph / speed["generate"], 1),
        "share_of_limit": round(graph / limit, 3),
    }


def sharing(here: Here) -> dict:
    """An update in which a prompt is run once for all its rollouts, as vpo_lite does, against one
    that runs whole rows: less arithmetic, but twice as many kernels to start.
    """
    found = {}
    for size, dtype in (SMALL if here.small else SIZES).items():
        policy, lines = policy_of(size, here.device, dtype), {}
        shapes = {"8 x 8": (8, 8, 80, 48), "4 x 16, long prompts": (4, 16, 256, 48)}
        for name, shape in {"2 x 2": (2, 2, 20, 6)}.items() if here.small else shapes.items():
            P, G, _, _ = shape
            config = TrainConfig.preset("demo", prompts=P, group_size=G, device=str(here.device))
            learner, rollouts = Learner(config, policy), full_rollouts(shape, 200, here.device)
            work = lambda: update_policy(learner, config, rollouts, np.ones((P, G)), False)  # noqa: B023, E731
            shared = here.best(work, 3)
            with mock.patch.object(Policy, "shares_prompts", False):
                whole = here.best(work, 3)
            lines[name] = {"shared": round(shared, 4), "whole rows": round(whole, 4)}
        found[size] = lines
        here.keep(found)
    said = [
        f"{size}, {name}: {1000 * row['shared']:.0f} ms, whole rows {1000 * row['whole rows']:.0f}"
        for size, rows in found.items()
        for name, row in rows.items()
    ]
    return {**found, "said": "; ".join(said)}


def recording(here: Here) -> dict:
    """What a recording costs where torch has cached much memory, as an update leaves it. Before it
    records, torch.cuda.graph gives all of that back to the driver, and the next update asks for it
    again. ``pool``: a recording into a pool of its own, which touches nothing else.
    """
    if here.device.type != "cuda":
        raise Skipped("only CUDA records")
    x, found = torch.ones(64, 64, device=here.device), {}
    step = lambda: x.copy_((x @ x).softmax(-1))  # noqa: E731
    step()

    def into_a_pool():
        pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin(pool=pool.id, capture_error_mode="thread_local")
            step()
            graph.capture_end()
        graph.replay()

    def now():
        graphs.replayed(step, here.device)()

    for gib in (1, 4, 16):
        fill = lambda gib=gib: [torch.empty(2**28, device=here.device) for _ in range(gib)]  # noqa: E731
        for name, record in {"torch.cuda.graph": now, "pool": into_a_pool}.items():
            torch.cuda.empty_cache()  # the first round, which does not count, fills it again
            seconds = here.best(lambda record=record, fill=fill: (record(), fill()), 3)
            found.setdefault(f"{gib} GiB cached", {})[name] = round(seconds, 4)
            here.keep(found)
    reserved = torch.cuda.memory_reserved() / 2**30
    said = "; ".join(
        f"{name}: {1000 * row['torch.cuda.graph']:.0f} ms, in a pool {1000 * row['pool']:.0f}"
        for name, row in found.items()
    )
    return {**found, "reserved_gib": round(reserved, 2), "said": said}


def step_time(here: Here) -> dict:
    """Where the time of a whole step of VPO goes: 8 prompts x 8 rollouts x 48 tokens by size, and
    the gpu preset on many mazes of 9 x 9.
    """
    from bench_trl import AnyWordsAreRoutes, FullLength

    P, G, T = (2, 4, 6) if here.small else (8, 8, 48)
    device, found = str(here.device), {}
    for size, dtype in (SMALL if here.small else SIZES).items():
        config = TrainConfig.preset(
            "demo", prompts=P, group_size=G, max_new_tokens=T, device=device
        )
        policy = policy_of(size, here.device, dtype)
        policy.__class__ = FullLength
        task = MazeTask() if size == "1m" else AnyWordsAreRoutes()
        found[size] = split(here, Learner(config, policy, task), config)
        here.keep(found)
    sizes = dict(prompts=1, group_size=G, max_new_tokens=24) if here.small else {}
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
    needs_trl(here)
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
