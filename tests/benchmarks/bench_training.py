"""Where a demo step's time goes, and rollouts against peft's `generate`: ratios of one process, one machine.

    .venv/bin/python tests/benchmarks/bench_training.py [--threads 2] [--rounds 5]

Writes tests/benchmarks/results/training.json. Rollouts: 8 prompts x 8 rollouts, 48 new tokens, the pocket policy with its
adapter. All samplers work on the same weights and write exactly 48 tokens a row (no row may end early), so that tokens a
second compare.
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from vpo_lite.policy.decoding import HFForward, sample_tokens
from vpo_lite.policy.model import load_policy
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.loop import train
from vpo_lite.training.step import Learner

RESULTS = Path(__file__).parent / "results" / "training.json"


def best(times):
    return min(times), statistics.median(times)


def rollouts(rounds: int) -> dict:
    policy = load_policy("pocket-6x6", device="cpu")
    for name, p in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.02)  # a trained adapter: its share of the work is there
    config = TrainConfig.preset("demo")
    learner = Learner(config, policy)
    prompts = [policy.encode(learner.prompt(config, learner.task.instance(s))) for s in range(8)]
    uniforms = np.random.default_rng(0).random((8, 8, 48))
    ids = torch.tensor([p for p in prompts for _ in range(8)])

    def generate():
        with torch.no_grad():
            policy.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
                min_new_tokens=48, max_new_tokens=48, pad_token_id=policy.pad_id,
            )  # fmt: skip

    def ours():
        sample_tokens(policy.model, prompts, uniforms, eos_ids={-1}, pad_id=policy.pad_id)

    def own_forward():
        import vpo_lite.policy.decoding as decoding

        known, decoding.decoder_for = decoding.decoder_for, HFForward
        try:
            ours()
        finally:
            decoding.decoder_for = known

    ways = {"peft generate": generate, "HF forward, shared prefill": own_forward, "decoder view": ours}
    times = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):  # interleaved: a busy neighbour meets all of them
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    reference = best(times["peft generate"])[0]
    return {
        name: {
            "seconds": round(best(t)[0], 4), "median": round(best(t)[1], 4),
            "tokens_per_second": round(64 * 48 / best(t)[0]), "ratio": round(reference / best(t)[0], 2),
        }
        for name, t in times.items()
    }  # fmt: skip


def demo(threads: int) -> dict:
    figures = {}
    for method in ("vpo", "grpo"):
        config = TrainConfig.preset("demo", method=method, maze_seed=1000, device="cpu", threads=threads)
        learner = Learner(config)
        started = time.perf_counter()
        records = list(train(config, learner=learner))
        seconds = time.perf_counter() - started
        figures[method] = {
            "steps_per_second": round(config.steps / seconds, 2), "seconds_for_40_steps": round(seconds, 1),
            "share_in_rollouts": round(sum(r.rollout_seconds for r in records) / seconds, 3),
            "tokens_per_step": round(statistics.mean(r.tokens for r in records)),
        }  # fmt: skip
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures = {
        "command": f"python tests/benchmarks/bench_training.py --threads {options.threads}",
        "machine": platform.processor() or platform.machine(), "torch": torch.__version__, "threads": options.threads,
        "rollouts": rollouts(options.rounds), "demo": demo(options.threads),
    }  # fmt: skip
    print(json.dumps(figures, indent=1))
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
