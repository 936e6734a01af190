"""Do tree search and VPO add up? Ways to spend equal tokens on one problem.

    .venv/bin/python tests/benchmarks/tree_study.py programs [--seeds 2] [--adapters FOLDER]
    .venv/bin/python tests/benchmarks/tree_study.py maze

The policies are the shipped one, and for programs those that grpo (m = 1) and vpo (m = 3) make of
it on many problems. Each answers the same held-out problems in these ways:

- sampling, m = 1 and m = 3: rollouts as long as they fit into the budget
- most probable: `search.tree.most_probable`, at the same budget
- beam: `search.tree.beam` with m = 3, by the set reward at alpha = 1. WAYS says how wide. It
  spends what it spends, so it stands beside sampling with m = 3 of at least as many tokens on the
  same problem.

- enumeration: no policy, only the grammar. All programs are tried, shorter ones first and in random
  order among equals. A tree search that reads one prefix for each program gets as far.

A way ends with a pool of answers. Reported are the coverage of the best 3 of the pool, the best
w* . r in it, the tokens, and the answers. `set` is the coverage of the best rollout, or of the
best set in the beam. Sampling, too, stops at the last closing tag, so no way pays for an EOS.

Trained policies are kept in the folder --adapters. Finished runs are skipped: each is a line of
vpo_lite/studies/shipped/tree.jsonl, which notebook 07 reads. One thread.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import resumable

import vpo_lite as vpo
from vpo_lite import metrics
from vpo_lite.markup import markdown_table
from vpo_lite.randomness import generator
from vpo_lite.search.tree import beam, most_probable
from vpo_lite.studies.results import SHIPPED
from vpo_lite.tasks.programs import PROGRAMS
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train
from vpo_lite.training.rollouts import draw_uniforms, sample_answers, token_limits

RESULTS = SHIPPED / "tree.jsonl"
SIZE = 3  # answers in the sets that are compared
WAYS = {  # task -> its options, held-out problems, {budget: (width, branches) of the beam},
    # rollouts at most (they spend the largest budget but for a few tokens), prefixes read together
    "programs": ({"operations": 2}, 100, {30: (1, 2), 90: (3, 4), 270: (4, 9)}, 90, 3),
    "maze": ({"layout": "paper-9x9"}, 20, {120: (1, 2), 360: (2, 4), 720: (3, 5)}, 64, 8),
}
TRAINED = {"grpo": {"group_size": 24}, "vpo": {"group_size": 8}}  # about equal tokens


def trained(task: str, method: str, seed: int, folder: Path):
    """The policy that the method makes of the shipped one in 120 steps, from the folder if it is
    there.
    """
    path = folder / f"{task}-{method}-{seed}"
    if not path.exists():
        how = dict(steps=120, prompts=8, lr=1e-3, seed=seed, threads=1) | TRAINED[method]
        config = vpo.TrainConfig.preset("demo", task=task, method=method, **WAYS[task][0], **how)
        learner = Learner(config)
        for _ in train(config, learner=learner):
            pass
        learner.policy.save(path)
    return vpo.load_policy(str(path))


def run(task_name: str, policy, seed: int) -> dict:
    """All ways at all budgets, for one policy."""
    options, problems, budgets, rollouts, at_once = WAYS[task_name]
    task = vpo.TrainConfig.preset("demo", task=task_name, **options).make_task()
    instances = [task.instance(s) for s in task.seeds["held_out"][:problems]]
    began = time.perf_counter()
    sampled = {m: sample(policy, task, instances, m, rollouts, seed) for m in (1, SIZE)}
    likely = most_probable(
        policy, task, instances, answers=10**6, max_tokens=max(budgets), at_once=at_once
    )
    found = {}
    for budget, (width, branches) in budgets.items():
        rows = {m: [within(g, budget) for g in sampled[m]] for m in sampled}
        for m, its in rows.items():
            found[f"sampling, m = {m}", budget] = its
        found["most probable", budget] = [
            (rewards_of(x, budget), None, min(x.spent.tokens, budget)) for x in likely
        ]
        beams = beam(policy, task, instances, m=SIZE, width=width, branches=branches, seed=seed)
        found["beam", budget] = [(rewards_of(b), b.rewards[:1], b.spent.tokens) for b in beams]
        found["sampling, the beam's tokens", budget] = [
            within(g, b.spent.tokens, or_more=True)
            for g, b in zip(sampled[SIZE], beams, strict=True)
        ]
    return {
        "ways": {
            f"{way}, {budget}": figures(task, instances, rows)
            for (way, budget), rows in found.items()
        },
        "seconds": time.perf_counter() - began,
    }


def rewards_of(result, budget: float = np.inf) -> np.ndarray:
    """The rewards (n, d) of what a search found with so many tokens."""
    return np.array([one.rewards for one in result.found if one.spent.tokens <= budget])


def enumeration() -> dict:
    """What search in the tree of all programs finds without a policy: one program for each token
    but two, for the prefixes that hold no operation.
    """
    options, problems, budgets, _, _ = WAYS["programs"]
    task = vpo.TrainConfig.preset("demo", task="programs", **options).make_task()
    instances = [task.instance(s) for s in task.seeds["held_out"][:problems]]
    pools = []
    for x in instances:
        mixed = generator(0, "tree study", 0, task.key(x)).permutation(PROGRAMS).tolist()
        pools.append(task.score([x], [sorted(mixed, key=lambda program: len(program.split()))])[0])
    return {
        "ways": {
            f"enumeration, {budget}": figures(
                task, instances, [(pool[: budget - 2], None, budget) for pool in pools]
            )
            for budget in budgets
        }
    }


def sample(policy, task, instances, m: int, rollouts: int, seed: int) -> list:
    """One group of plain rollouts for each problem, up to the last closing tag."""
    groups = []
    for x in instances:
        limits = token_limits(policy, task, m, [x])
        uniforms = draw_uniforms(rollouts, limits, [(seed, "tree study", m, task.key(x))])
        stop = f"</{task.tag}_{m}>"
        groups += sample_answers(policy, task, [x], m, uniforms, stop=stop).groups
    return groups


def within(group, budget: int, *, or_more: bool = False) -> tuple:
    """(answers (n, d), rollouts (G, m, d), tokens) of the first rollouts that fit into a budget.

    or_more: with the one that fills it or exceeds it.
    """
    spent = group.tokens.cumsum()
    count = int((spent <= budget).sum())
    if or_more:
        count = min(int((spent < budget).sum()) + 1, len(spent))
    sets, parsed = group.rewards[:count], group.parsed[:count]
    tokens = int(spent[count - 1]) if count else 0
    return sets[parsed], sets if group.rewards.shape[1] > 1 else None, tokens


def figures(task, instances, rows) -> dict:
    """Means over problems of what one way found, and the coverage on each problem."""
    covered, sets, scores = [], [], []
    for x, (pool, rollouts, _) in zip(instances, rows, strict=True):
        pool = pool if len(pool) else task.worst(x)[None]
        best = pool[metrics.best_subset(pool, SIZE).indices]
        covered.append(float(metrics.coverage(best, task.front(x))))
        scores.append(float((pool @ task.w_star(x)).max()))
        if rollouts is not None:
            found = metrics.coverage(rollouts, task.front(x)) if len(rollouts) else [0.0]
            sets.append(float(np.max(found)))
    return {
        "coverage": float(np.mean(covered)),
        "set": float(np.mean(sets)) if sets else None,
        "best_w_star": float(np.mean(scores)),
        "tokens": float(np.mean([tokens for _, _, tokens in rows])),
        "answers": float(np.mean([len(pool) for pool, _, _ in rows])),
        "coverage_of_each": covered,
    }


def table() -> str:
    """The results as a Markdown table: means over problems and seeds."""
    columns = ("coverage", "set", "best_w_star", "tokens", "answers")
    lines = []
    rows = resumable.rows(RESULTS)
    for kind in dict.fromkeys(tuple(row["run"][:2]) for row in rows):
        its = [row["ways"] for row in rows if tuple(row["run"][:2]) == kind]
        for way in sorted(its[0], key=lambda way: int(way.rpartition(" ")[2])):
            shown = [
                f"{np.mean([ways[way][c] for ways in its]):.3f}" if its[0][way][c] else ""
                for c in columns
            ]
            lines.append([", ".join(kind), way, *shown])
    return markdown_table(["task, policy", "way, budget", *columns], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=list(WAYS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--adapters", type=Path, default=Path(tempfile.gettempdir()) / "vpo-lite-tree-study"
    )
    options = parser.parse_args()
    done = resumable.done(RESULTS)
    methods = ("grpo", "vpo") if options.task == "programs" else ()
    if options.task == "programs" and ["programs", "no policy", 0] not in done:
        resumable.add(RESULTS, ["programs", "no policy", 0], enumeration())
    jobs = [("shipped", 0), *((kind, s) for s in range(options.seeds) for kind in methods)]
    for kind, seed in jobs:
        key = [options.task, kind, seed]
        if key not in done:
            if kind == "shipped":
                shipped = {"programs": "pocket-programs", "maze": "pocket-9x9"}
                policy = vpo.load_policy(shipped[options.task])
            else:
                policy = trained(options.task, kind, seed, options.adapters)
            found = resumable.add(RESULTS, key, run(options.task, policy, seed))
            print(key, round(found["seconds"]), "s", flush=True)
    print(table())


if __name__ == "__main__":
    main()
