"""What uneven lengths cost on the CPU: ratios of one process, one machine.

    .venv/bin/python tests/benchmarks/bench_lengths.py [--threads 1] [--rounds 2]

Writes tests/benchmarks/results/lengths.json: the least CPU seconds of each case, with and without
what saves work on uneven lengths, and their ratio. "Without" runs every row to the end of the
longest, pads micro-batches to the width of the step, and runs silent groups backward, too. The
policy is the pocket policy of 1 M parameters.

- sampling: 8 prompts x 8 rollouts, of 32 tokens; and of 32 but one, which has 400
- update: those rollouts in micro-batches of 8; and those of 32 tokens, half of the groups silent
- demo: the forty steps of preset `demo`
"""

import argparse
import contextlib
import json
import platform
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np

import vpo_lite  # noqa: F401  before torch: it sets how OpenMP's threads wait

# isort: split
import torch

from vpo_lite.policy import sampling
from vpo_lite.policy.decoder import decoder_for
from vpo_lite.policy.sampling import Rollouts, sample_tokens
from vpo_lite.training import step
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

sys.path.insert(0, str(Path(__file__).parent))
from bench_training import sized

RESULTS = Path(__file__).parent / "results" / "lengths.json"
ROWS = Rollouts.rows


@contextlib.contextmanager
def without():
    """The library without what saves work on uneven lengths."""

    def uncut(rollouts, part):
        wide = {name: getattr(rollouts, name)[part] for name in ("tokens", "mask", "logprobs")}
        return ROWS(rollouts, part)._replace(**wide)

    def as_sampled(lengths, learns, most):
        learns[:] = True
        rows = np.arange(lengths.size)
        return [rows[i : i + most] for i in range(0, len(rows), most)]

    with (
        mock.patch.object(sampling, "_leave_out", lambda forward, drawing, groups: groups),
        mock.patch.object(Rollouts, "rows", uncut),
        mock.patch.object(step, "_cuts", as_sampled),
    ):
        yield


def cases(threads: int) -> dict:
    config = TrainConfig.preset("demo", maze_seed=1000, device="cpu", threads=threads)
    policy = sized("1m")
    learner = Learner(config, policy)
    task = learner.task
    asked = [task.prompt(task.instance(s), config.answers, pocket=policy.pocket) for s in range(8)]
    prompts = [policy.encode(prompt) for prompt in asked]
    even = np.full((8, 8, 400), np.nan)
    even[..., :32] = np.random.default_rng(0).random((8, 8, 32))
    one_long = even.copy()
    one_long[3, 3] = np.random.default_rng(1).random(400)

    def sample(uniforms) -> Rollouts:
        return sample_tokens(
            policy.model,
            prompts,
            uniforms,
            eos_ids={-1},
            pad_id=policy.pad_id,
            forward=decoder_for(policy.model),
        )

    gain = np.random.default_rng(2).normal(size=(8, 8))
    half = gain * (np.arange(8) % 2)[:, None]
    short, uneven = sample(even[..., :32]), sample(one_long)
    small = config.but(micro_batch=8)
    return {
        "sampling, 64 x 32": lambda: sample(even[..., :32]),
        "sampling, 63 x 32 and 1 x 400": lambda: sample(one_long),
        "update, 63 x 32 and 1 x 400": lambda: step.update_policy(
            learner, small, uneven, gain, False
        ),
        "update, half of the groups silent": lambda: step.update_policy(
            learner, config, short, half, False
        ),
        "demo, forty steps": lambda: list(train(config)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures = {}
    for name, case in cases(options.threads).items():
        times = {"with": [], "without": []}
        for _ in range(options.rounds):  # in turns: a busy neighbour meets both
            for which, how in (("with", contextlib.nullcontext), ("without", without)):
                with how():
                    started = time.process_time()  # the machine may have other work
                    case()
                    times[which].append(time.process_time() - started)
        least = {which: round(min(found), 4) for which, found in times.items()}
        figures[name] = {**least, "ratio": round(least["without"] / least["with"], 2)}
    found = {
        "command": f"python tests/benchmarks/bench_lengths.py --threads {options.threads} "
        f"--rounds {options.rounds}",
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "cases": figures,
    }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
