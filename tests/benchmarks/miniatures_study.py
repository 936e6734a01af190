"""What each method makes of a generated task, at equal answers and about equal tokens.

    .venv/bin/python tests/benchmarks/miniatures_study.py programs [--seeds 3] [--kinds vpo grpo]
    .venv/bin/python tests/benchmarks/miniatures_study.py calls --one 5 [--kinds vpo grpo]

Every run starts from the task's shipped policy and trains on many problems. Then it is measured on
64 held-out ones, 30 answers each. `start` is the policy before any training, asked for single
answers and for sets of three.

A rollout of grpo and max_at_k holds one answer, so `3 x rollouts` writes as many answers as a
method with m = 3, and some tokens more: each has an end of its own. Multi-RLVR stands twice:
as the library trains it, an answer that repeats another one of its rollout earns nothing; with
`repeats paid` it keeps its rewards.

With --one N each run trains on a single problem instead, as the live panel does with preset demo,
and is measured on it: problems 0 to N - 1.

Finished runs are skipped: each is a line of tests/benchmarks/results/TASK.jsonl. One thread.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import resumable

import vpo_lite as vpo
from vpo_lite.markup import markdown_table
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

RESULTS = Path(__file__).parent / "results"
MANY = {"steps": 60, "prompts": 8, "group_size": 8, "lr": 1e-3}
ONE = {"steps": 40, "prompts": 4, "group_size": 16, "lr": 1e-3}  # preset demo
KINDS = {
    "start, m = 1": {"method": "grpo", "steps": 0},
    "start, m = 3": {"method": "vpo", "steps": 0},
    "vpo": {"method": "vpo"},
    "grpo, 3 x rollouts": {"method": "grpo", "rollouts": 3},
    "multi_rlvr": {"method": "multi_rlvr"},
    "multi_rlvr, repeats paid": {"method": "multi_rlvr", "pay_repeats": True},
    "set_max": {"method": "set_max"},
    "grpo": {"method": "grpo"},
    "max_at_k, 3 x rollouts": {"method": "max_at_k", "rollouts": 3},
}
COLUMNS = {
    "coverage": "coverage",
    "valid_rate": "valid",
    "solved_rate": "on the front",
    "repeat_rate": "repeats",
    "diversity": "diversity",
}


def run(seed: int, rollouts: int = 1, **settings) -> dict:
    """Train, and measure on held-out problems, or on the one that was trained on."""
    settings["group_size"] *= rollouts
    steps = settings.pop("steps")
    config = vpo.TrainConfig.preset("demo", threads=1, seed=seed, steps=max(steps, 1), **settings)
    learner, began = Learner(config), time.perf_counter()
    records = list(train(config, learner=learner)) if steps else []
    seconds = time.perf_counter() - began
    figures = vpo.evaluate(learner.policy, config)
    kept = ("coverage_best_single", "set_reward", "diversity_all", "best_at_k", *COLUMNS)
    return {
        **{name: figures[name] for name in kept},
        "coverage_of_each": figures["per_problem"]["coverage"],
        "curve": [record.set_reward for record in records],
        "answers": len(records) * config.prompts * config.group_size * config.answers,
        "tokens": sum(record.tokens for record in records),
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", help="programs, calls or hops")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=MANY["steps"])
    parser.add_argument("--one", type=int, metavar="N", default=0)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    results = RESULTS / f"{options.task}.jsonl"
    done = resumable.done(results)
    for key, seed, settings in jobs(options):
        if key in done:
            continue
        found = resumable.add(results, key, run(seed, task=options.task, **settings))
        print(key, {name: found[name] for name in (*COLUMNS, "tokens", "seconds")}, flush=True)
    print(table(results))


def jobs(options):
    """(key, seed, settings) of each run, in the order in which they are done."""
    if options.one:
        for problem, kind in itertools.product(range(options.one), options.kinds):
            yield [f"{kind}, one problem", problem], 0, ONE | {"problem": problem} | KINDS[kind]
        return
    longer = "" if options.steps == MANY["steps"] else f", {options.steps} steps"
    for seed, kind in itertools.product(range(options.seeds), options.kinds):
        if not (seed and kind.startswith("start")):
            yield [kind + longer, seed], seed, MANY | {"steps": options.steps} | KINDS[kind]


def table(results: Path) -> str:
    """The results so far as a Markdown table: means over seeds or problems, coverage with its
    range.
    """
    rows = resumable.rows(results)
    heads = ["method", "runs", "tokens", *COLUMNS.values(), "best@1", "best@3", "best@30"]
    lines = []
    kinds = dict.fromkeys(row["run"][0] for row in rows)
    for kind in sorted(kinds, key=lambda kind: ("steps" in kind, "problem" in kind, kind)):
        its = [row for row in rows if row["run"][0] == kind]
        values = [f"{np.mean([row[name] for row in its]):.2f}" for name in COLUMNS]
        covered = [row["coverage"] for row in its]
        values[0] += f" ({min(covered):.3f} to {max(covered):.3f})"
        best = [f"{np.mean([row['best_at_k'][k] for row in its]):.3f}" for k in ("1", "3", "30")]
        tokens = np.mean([row["tokens"] for row in its]) / 1000
        lines.append([kind, str(len(its)), f"{tokens:.0f} k", *values, *best])
    return markdown_table(heads, lines)


if __name__ == "__main__":
    main()
