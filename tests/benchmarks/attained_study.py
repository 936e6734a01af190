"""How much of what m answers could cover does VPO reach? And what do alpha and K do to it?

    .venv/bin/python tests/benchmarks/attained_study.py attained [--mazes 40] [--seeds 2]
    .venv/bin/python tests/benchmarks/attained_study.py alpha
    .venv/bin/python tests/benchmarks/attained_study.py weights

attained: mazes 1600, 1601, ... of lite-6x6, none of which was used to choose any setting; m = 2 and
3; `vpo` at preset demo, and `vpo` and `vpo_recombined` at preset patient: the same number of
answers in twice as many steps, sampled at temperature 1.2. attained = coverage of the sets of the
trained policy, at temperature 1, over that of the best m answers there are. --m, --seeds and --kind
choose a part.

alpha: `vpo` and, at preset patient, `vpo_recombined`, trained at alpha = 0.1 and at 10 on the
gallery's maze "alpha in training", five seeds; each policy is judged at both.

weights: `vpo` with one prompt a step and K = 1, 4, 64 and infinity on maze 1000, three seeds.

Finished runs are skipped: each is a line of tests/benchmarks/results/attained.jsonl. One thread.
"""

import argparse
import itertools
import math
import time
from pathlib import Path

import numpy as np
import resumable

import vpo_lite as vpo
from vpo_lite.markup import markdown_table
from vpo_lite.training.evaluate import sample_pools
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

RESULTS = Path(__file__).parent / "results" / "attained.jsonl"
FIRST = 1600
SETS = 64  # sampled from each trained policy
KINDS = {
    "vpo": {"method": "vpo"},
    "vpo, 2 x steps": {"method": "vpo", "preset": "patient"},
    "vpo_recombined, 2 x steps": {"method": "vpo_recombined", "preset": "patient"},
}


def run(preset="demo", **settings) -> dict:
    """Train, sample 64 sets, and judge them at three alphas."""
    config = vpo.TrainConfig.preset(preset, threads=1, **settings)
    learner, began = Learner(config), time.perf_counter()
    records = list(train(config, learner=learner))
    seconds = time.perf_counter() - began
    task = config.make_task()
    maze = task.instance(0)
    (pool,) = sample_pools(learner.policy, task, config, [maze], SETS * config.m, 0)
    front = maze.pareto_front().rewards
    covered, ceiling = {}, {}
    for alpha in (0.1, 1.0, 10.0):
        best = vpo.best_subset(front, config.m, alpha).value
        covered[f"{alpha:g}"] = float(vpo.coverage(pool.rewards, front, alpha).mean())
        ceiling[f"{alpha:g}"] = best / float(vpo.exact_set_reward(front, alpha))
    return {
        "coverage": covered,
        "ceiling": ceiling,
        "best_single": float(front.mean(axis=1).max() / vpo.exact_set_reward(front)),
        "curve": [record.coverage for record in records],
        "tokens": sum(record.tokens for record in records),
        "seconds": seconds,
    }


def jobs(study: str, mazes: int, seeds: int, sizes, kinds):
    """(key, settings) of each run, in the order in which they are done."""
    if study == "attained":
        for seed, m, maze in itertools.product(range(seeds), sizes, range(FIRST, FIRST + mazes)):
            for kind in kinds:
                yield [study, kind, maze, m, seed], {"maze_seed": maze, "m": m} | KINDS[kind]
    elif study == "alpha":
        for kind in sorted({*kinds} - {"vpo, 2 x steps"}):
            for seed in range(5):
                for alpha in (0.1, 10.0):
                    how = {"maze_seed": 1217, "m": 2, "alpha": alpha}
                    yield [study, kind, alpha, 2, seed], how | KINDS[kind]
    else:
        for seed in range(3):
            for K in (1, 4, 64, math.inf):
                name = "inf" if K == math.inf else K
                yield (
                    [study, "vpo", name, 3, seed],
                    {"maze_seed": 1000, "K": K, "prompts": 1, "method": "vpo"},
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("attained", "alpha", "weights"))
    parser.add_argument("--mazes", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--m", type=int, nargs="*", default=(2, 3))
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    done = resumable.done(RESULTS)
    for key, settings in jobs(options.study, options.mazes, options.seeds, options.m, options.kind):
        if key in done:
            continue
        found = resumable.add(RESULTS, key, run(seed=key[-1], **settings))
        print(key, {k: v for k, v in found.items() if k != "curve"}, flush=True)
    print(table(options.study))


def table(study: str) -> str:
    """The results so far as a Markdown table."""
    rows = [row for row in resumable.rows(RESULTS) if row["run"][0] == study]
    lines = []
    if study == "attained":
        heads = ["m", "method", "runs", "attained: mean", "least", "tokens"]
        for m in (2, 3):
            for kind in KINDS:
                its = [row for row in rows if row["run"][1] == kind and row["run"][3] == m]
                if its:
                    found = np.array([row["coverage"]["1"] / row["ceiling"]["1"] for row in its])
                    tokens = np.mean([row["tokens"] for row in its]) / 1000
                    spread = [f"{found.mean():.3f}", f"{found.min():.3f}"]
                    lines.append([str(m), kind, str(len(its)), *spread, f"{tokens:.0f} k"])
        return markdown_table(heads, lines)
    heads = ["method", "trained with", "seed", "judged at 0.1", "at 1", "at 10"]
    for row in rows:
        _, kind, value, _, seed = row["run"]
        judged = (f"{row['coverage'][a]:.3f}" for a in ("0.1", "1", "10"))
        lines.append([kind, str(value), str(seed), *judged])
    return markdown_table(heads, lines)


if __name__ == "__main__":
    main()
