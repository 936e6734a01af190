"""What each method asks for on uncertain chains, where nothing else limits it: a tabular policy.

    .venv/bin/python tests/benchmarks/chains_tabular.py [--seeds 3]

The policy is a table: one softmax over all consistent chains for each of the m answers of a set,
independent of each other. It begins at the posterior. Each step draws one gold chain of one problem
(the task's defaults: three uncertain places, prior 0.6), samples a group of sets, and takes the
policy gradient of the library's advantages. A repeat within a set earns nothing, as in training,
unless the kind says that repeats are paid.

The figures are exact: expectations over all 512 sets of three, and over the 8 golds. For one answer
(grpo, max_at_k) the three are drawn from the same softmax. chains_study.py does the same with a
language model, which learns far less in its few steps.

Finished runs are skipped: each is a line of tests/benchmarks/results/chains_tabular.jsonl.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
import resumable
from chains_study import HEADS, MODES, SIZE

import vpo_lite as vpo
from vpo_lite.hedging import Expected, best_sets, expected_rewards
from vpo_lite.markup import markdown_table
from vpo_lite.objective import sample_weights
from vpo_lite.tasks.ambiguous_chains import consistent
from vpo_lite.tasks.chains import ChainsTask

RESULTS = Path(__file__).parent / "results" / "chains_tabular.jsonl"
STEPS, GROUP, K, LR = 3_000, 8, 64, 0.1
PAID = "multi_rlvr, repeats paid"
KINDS = {  # method, answers in a rollout, rollouts
    "grpo": ("grpo", 1, GROUP),
    "grpo, 3 x rollouts": ("grpo", 1, SIZE * GROUP),
    "multi_rlvr": ("multi_rlvr", SIZE, GROUP),
    PAID: ("multi_rlvr", SIZE, GROUP),
    "set_max": ("set_max", SIZE, GROUP),
    "max_at_k, 3 x rollouts": ("max_at_k", 1, SIZE * GROUP),
    "vpo": ("vpo", SIZE, GROUP),
}


def problem(mode: str):
    """Rewards (golds, chains, d) of every chain under every gold, and the posterior."""
    task = ChainsTask(mode=mode)
    x = task.instance(0)
    chains, posterior = consistent(x)
    return task.under_each(x, chains), posterior


def run(mode: str, kind: str, seed: int) -> dict:
    """Train a table, and what its sets of three are worth."""
    method, m, rollouts = KINDS[kind]
    R, posterior = problem(mode)
    rng, logits = np.random.default_rng(seed), np.log(np.tile(posterior, (m, 1)))
    extra = {"k": SIZE} if method == "max_at_k" else {}
    for _ in range(STEPS):
        gold, p = rng.choice(len(posterior), p=posterior), softmax(logits)
        chosen = np.column_stack([rng.choice(len(row), rollouts, p=row) for row in p])
        repeat = np.array([[c in row[:j] for j, c in enumerate(row)] for row in chosen.tolist()])
        zeroed = repeat[..., None] & (kind != PAID)
        rewards = np.where(zeroed, 0.0, R[gold, chosen])[None]
        if method == "vpo":
            extra = {"weights": sample_weights(K, R.shape[-1], 1.0, rng=rng)[None]}
        advantages = vpo.advantages(method, rewards, **extra)[0]
        for slot in range(m):
            won = np.bincount(chosen[:, slot], advantages, minlength=p.shape[1])
            logits[slot] += LR * (won - advantages.sum() * p[slot]) / rollouts
    p = softmax(logits)
    sets = np.array(list(itertools.product(range(p.shape[1]), repeat=SIZE)))
    chance = np.prod([p[slot % m, sets[:, slot]] for slot in range(SIZE)], axis=0)
    worth = expected_rewards(R[:, sets].swapaxes(0, 1), posterior)
    return {goal: float(x @ chance) for goal, x in worth._asdict().items()}


def softmax(logits):
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    done = resumable.done(RESULTS)
    for seed, kind, mode in itertools.product(range(options.seeds), KINDS, MODES):
        if [mode, kind, seed] not in done:
            print(resumable.add(RESULTS, [mode, kind, seed], run(mode, kind, seed)), flush=True)
    for mode in MODES:
        print(f"\n{mode}\n\n{table(mode)}")


def table(mode: str) -> str:
    """The results so far as a Markdown table: means over the seeds, with their range."""
    rows = [row for row in resumable.rows(RESULTS) if row["run"][0] == mode]
    lines = []
    for kind in KINDS:
        its = [row for row in rows if row["run"][1] == kind]
        spans = [[row[goal] for row in its] for goal in Expected._fields]
        cells = [f"{np.mean(v):.3f} ({min(v):.3f} to {max(v):.3f})" for v in spans if v]
        lines += [[kind, str(len(its)), *cells]] if its else []
    for goal, best in best_sets(*problem(mode), SIZE).items():
        values = (f"{v:.3f}" for v in best.expected)
        lines.append([f"best for {HEADS[Expected._fields.index(goal)]}", "", *values])
    return markdown_table(["method", "seeds", *HEADS], lines)


if __name__ == "__main__":
    main()
