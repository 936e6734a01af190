"""What each method makes of uncertain chains: the honest negative, in both modes.

    .venv/bin/python tests/benchmarks/chains_study.py [--seeds 3] [--kinds vpo grpo] [--modes ...]

Every run starts from pocket-chains and trains on many chains with three uncertain places, prior 0.6
(the task's defaults). Then it is measured on 64 held-out ones, ten sets of three answers each. Both
modes have the same problems and prompts. A problem's figures are expectations over its 8 possible
golds, not those of the one gold that was drawn:

- E_w max: the set reward, which VPO trains
- best@3: the largest mean of a reward vector in the set
- solved: the chance that the set holds the gold chain

The rows "best for ..." are the best sets of three there are, by enumeration (vpo_lite.hedging).
`start` is the policy before any training. A rollout of grpo and max_at_k holds one answer, so `3 x
rollouts` writes as many answers as a method with m = 3; a set is then three rollouts.

A gold chain says little about the next one, so 60 steps of 256 rollouts show the beginning only:
GRPO collapses, Multi-RLVR avoids repeats by unlikely names, VPO and set_max hardly move. Where
training leads is in chains_tabular.py.

Finished runs are skipped: each is a line of tests/benchmarks/results/chains.jsonl. One thread.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import resumable

import vpo_lite as vpo
from vpo_lite.hedging import Expected, best_sets, expected_rewards
from vpo_lite.markup import markdown_table
from vpo_lite.tasks.ambiguous_chains import consistent
from vpo_lite.training.evaluate import sample_pools
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

RESULTS = Path(__file__).parent / "results" / "chains.jsonl"
MODES = ("independent", "spreading")
COMMON = {"task": "chains", "steps": 60, "prompts": 64, "group_size": 4, "lr": 5e-3}
KINDS = {
    "start, m = 1": {"method": "grpo", "steps": 0},
    "start, m = 3": {"method": "vpo", "steps": 0},
    "grpo": {"method": "grpo"},
    "vpo": {"method": "vpo"},
    "set_max": {"method": "set_max"},
    "multi_rlvr": {"method": "multi_rlvr"},
    "grpo, 3 x rollouts": {"method": "grpo", "group_size": 12},
    "max_at_k, 3 x rollouts": {"method": "max_at_k", "group_size": 12},
}
HEADS = ("E_w max", "best@3", "solved")
SIZE, PROBLEMS, ANSWERS = 3, 64, 30


def run(mode: str, seed: int, **settings) -> dict:
    """Train, and measure on held-out problems."""
    settings = COMMON | settings
    steps = settings.pop("steps")
    config = vpo.TrainConfig.preset(
        "demo", mode=mode, threads=1, seed=seed, steps=max(steps, 1), **settings
    )
    learner, began = Learner(config), time.perf_counter()
    records = list(train(config, learner=learner)) if steps else []
    seconds = time.perf_counter() - began
    return {
        **judged(learner.policy, config),
        "curve": [record.set_reward for record in records],
        "answers": len(records) * config.prompts * config.group_size * config.answers,
        "tokens": sum(record.tokens for record in records),
        "seconds": seconds,
    }


def judged(policy, config) -> dict:
    """The expected figures of the policy's sets of three, and what its answers are like.

    - parse, repeats: shares of the answers; a repeat stands twice in its set
    - likelier: by the order in the set, the share of its names that are the likelier candidate
    """
    task = config.make_task()
    problems = [task.instance(seed) for seed in task.seeds["held_out"][:PROBLEMS]]
    found, parsed, repeats, likelier = [], [], [], []
    for pool in sample_pools(policy, task, config, problems, ANSWERS, seed=0):
        x = pool.instance
        texts = [answer for row in pool.answers for answer in row]
        there = np.array([text is not None for text in texts])
        chains, posterior = consistent(x)
        R = np.zeros((len(chains), len(texts), len(task.objectives(x))))
        R[:, there] = task.under_each(x, [text for text in texts if text is not None])
        sets = R.reshape(len(chains), -1, SIZE, R.shape[-1]).swapaxes(0, 1)
        found.append([values.mean() for values in expected_rewards(sets, posterior)])
        first = [
            [a == b[0] for a, b in zip((t or "- - - - -").split(), x.candidates, strict=True)]
            for t in texts
        ]
        likelier.append(np.reshape(first, (-1, SIZE, len(x.candidates))).mean(axis=(0, 2)))
        parsed.append(there.mean())
        rows = [texts[i : i + SIZE] for i in range(0, len(texts), SIZE)]
        repeats.append(np.mean([1 - len(set(row)) / SIZE for row in rows]))
    return {
        **dict(zip(Expected._fields, np.mean(found, axis=0).tolist(), strict=True)),
        "parse": float(np.mean(parsed)),
        "repeats": float(np.mean(repeats)),
        "likelier": np.mean(likelier, axis=0).tolist(),
    }


def ceilings(mode: str) -> dict[str, np.ndarray]:
    """What the best sets of three are worth, by the goal that they are best for."""
    task = vpo.TrainConfig.preset("demo", task="chains", mode=mode).make_task()
    worth = {goal: [] for goal in Expected._fields}
    for seed in task.seeds["held_out"][:PROBLEMS]:
        chains, posterior = consistent(x := task.instance(seed))
        for goal, best in best_sets(task.under_each(x, chains), posterior, SIZE).items():
            worth[goal].append(best.expected)
    heads = zip(Expected._fields, HEADS, strict=True)
    return {f"best for {head}": np.mean(worth[goal], axis=0) for goal, head in heads}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    options = parser.parse_args()
    done = resumable.done(RESULTS)
    for seed, kind, mode in itertools.product(range(options.seeds), options.kinds, options.modes):
        if [mode, kind, seed] in done or (seed and kind.startswith("start")):
            continue
        found = run(mode, seed, **KINDS[kind])
        found = resumable.add(RESULTS, [mode, kind, seed], found)
        shown = (*Expected._fields, "repeats", "likelier", "seconds")
        print(mode, kind, seed, {name: found[name] for name in shown}, flush=True)
    for mode in options.modes:
        print(f"\n{mode}\n\n{table(mode)}")


def table(mode: str) -> str:
    """The results so far as a Markdown table: means over the seeds, with their range."""
    rows = [row for row in resumable.rows(RESULTS) if row["run"][0] == mode]
    heads = ["method", "seeds", "tokens", *HEADS, "repeats"]
    lines = []
    for kind in KINDS:
        its = [row for row in rows if row["run"][1] == kind]
        if its:
            spans = [[row[goal] for row in its] for goal in Expected._fields]
            cells = [f"{np.mean(v):.3f} ({min(v):.3f} to {max(v):.3f})" for v in spans]
            tokens = f"{np.mean([row['tokens'] for row in its]) / 1000:.0f} k"
            repeats = f"{np.mean([row['repeats'] for row in its]):.2f}"
            lines.append([kind, str(len(its)), tokens, *cells, repeats])
    for name, values in ceilings(mode).items():
        lines.append([name, "", "", *(f"{v:.3f}" for v in values), ""])
    return markdown_table(heads, lines)


if __name__ == "__main__":
    main()
