"""Where a demo step's time goes, and rollouts against peft's `generate`: ratios of one process, one
machine.

    .venv/bin/python tests/benchmarks/bench_training.py [--threads 2] [--rounds 7]

Writes tests/benchmarks/results/training.json, one entry per number of threads. Rollouts: 8 prompts
x 8 rollouts, 48 new tokens, from the pocket policy (1 M parameters) and a Qwen3 of random weights
(10 M), with adapters. All samplers work on the same weights and write exactly 48 tokens a row (no
row may end early), so that tokens a second compare.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import vpo_lite  # noqa: F401  before torch: it sets how OpenMP's threads wait

# isort: split
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3ForCausalLM

from vpo_lite.policy.decoder import decoder_for
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.sampling import sample_tokens
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

sys.path.insert(0, str(Path(__file__).parents[1]))
from small_models import config_of

RESULTS = Path(__file__).parent / "results" / "training.json"


def sized(size: str) -> Policy:
    """The pocket policy, or a Qwen3 of ten million random weights with its tokenizer; the adapters'
    B are not zero.
    """
    policy = load_policy("pocket-6x6", device="cpu")
    if size == "10m":
        torch.manual_seed(0)
        sizes = (320, 960, 9, 8, 4, len(policy.tokenizer))
        shape = config_of(Qwen3ForCausalLM, *sizes, head_dim=40, tie_word_embeddings=False)
        lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        policy = Policy(
            get_peft_model(Qwen3ForCausalLM(shape), lora).eval(),
            policy.tokenizer,
            "random",
            policy.pocket,
        )
    for name, p in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.02)  # a trained adapter: its share of the work is there
    return policy


def rollouts(size: str, rounds: int) -> dict:
    """Ways to sample 8 x 8 rollouts of exactly 48 tokens; what each needs before its first sample
    is its ``warm_up``.
    """
    policy = sized(size)
    config = TrainConfig.preset("demo")
    learner = Learner(config, policy)
    task = learner.task
    asked = [task.prompt(task.instance(s), config.answers, pocket=policy.pocket) for s in range(8)]
    prompts = [policy.encode(prompt) for prompt in asked]
    uniforms = np.random.default_rng(0).random((8, 8, 48))
    ids = torch.tensor([p for p in prompts for _ in range(8)])

    def generate():
        with torch.no_grad():
            policy.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                temperature=1.0,
                min_new_tokens=48,
                max_new_tokens=48,
                pad_token_id=policy.pad_id,
            )

    def sample(forward=None):
        ends = dict(eos_ids={-1}, pad_id=policy.pad_id)
        sample_tokens(policy.model, prompts, uniforms, forward=forward, **ends)

    def view(**how):
        return lambda: sample(decoder_for(policy.model, **how))

    half = dict(dtype=torch.bfloat16)
    ways = {
        "peft generate": generate,
        "HF forward, shared prefill": sample,
        "decoder view": view(),
        "decoder view, bf16": view(**half),
        "decoder view, compiled": view(compiled=True),
        "decoder view, bf16, compiled": view(compiled=True, **half),
    }
    times, warm_up = {name: [] for name in ways}, {}
    for name, way in ways.items():
        started = time.perf_counter()
        way()
        warm_up[name] = time.perf_counter() - started
    for _ in range(rounds):  # interleaved: a busy neighbour meets all of them
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    reference = times["peft generate"]
    return {
        name: {
            "seconds": round(min(t), 4),
            "median": round(statistics.median(t), 4),
            "warm_up": round(warm_up[name], 1),
            "tokens_per_second": round(64 * 48 / min(t)),
            "ratio": round(min(reference) / min(t), 2),
            "ratio_of_medians": round(statistics.median(reference) / statistics.median(t), 2),
        }
        for name, t in times.items()
    }


def demo(threads: int) -> dict:
    figures = {}
    for method in ("vpo", "grpo"):
        config = TrainConfig.preset(
            "demo", method=method, maze_seed=1000, device="cpu", threads=threads
        )
        learner = Learner(config)
        started = time.perf_counter()
        records = list(train(config, learner=learner))
        seconds = time.perf_counter() - started
        figures[method] = {
            "steps_per_second": round(config.steps / seconds, 2),
            "seconds_for_40_steps": round(seconds, 1),
            "share_in_rollouts": round(sum(r.rollout_seconds for r in records) / seconds, 3),
            "tokens_per_step": round(statistics.mean(r.tokens for r in records)),
        }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures = {
        "command": f"python tests/benchmarks/bench_training.py --threads {options.threads} "
        f"--rounds {options.rounds}",
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "threads": options.threads,
        "rollouts": {size: rollouts(size, options.rounds) for size in ("1m", "10m")},
        "demo": demo(options.threads),
    }
    print(json.dumps(figures, indent=1))
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**kept, f"threads_{options.threads}": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
