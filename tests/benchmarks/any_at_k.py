"""How much do the 50 weights of any@k decide about VPO's lead over GRPO in the study?

    .venv/bin/python tests/benchmarks/any_at_k.py [--tasks paper-9x9 hops] [--seeds 2]

The study measures any@k under one draw of 50 weights. This trains VPO and GRPO of four studies once
more, at the learning rates that all seeds choose, and samples the study's 30 answers for each of
its 200 held-out problems. It then computes any@k under those 50 weights, and under 4,096 Sobol
points of Dirichlet(1). These differ by less than 0.0005 from many more, as tests/test_study_page.py
checks. So the difference is the error of the 50 weights.

Finished runs are skipped: each is a line of tests/benchmarks/results/any_at_k.jsonl. One thread.
"""

import argparse
from pathlib import Path

import numpy as np
import resumable
import study_page

from vpo_lite import sample_weights
from vpo_lite.markup import markdown_table
from vpo_lite.metrics import preferences
from vpo_lite.randomness import generator
from vpo_lite.search import best_of
from vpo_lite.studies.results import BUDGETS
from vpo_lite.training.evaluate import sample_pools
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train

RESULTS = Path(__file__).parent / "results" / "any_at_k.jsonl"
POINTS = 4096


def run(job, measured) -> dict:
    """Train, and compute any@k under both sets of weights, the mean over problems."""
    learner = Learner(job.config)
    for _ in train(job.config, learner=learner):
        pass
    task = job.judged.make_task()
    instances = [task.instance(s) for s in task.seeds["held_out"][: measured.problems]]
    pools = sample_pools(learner.policy, task, job.judged, instances, measured.answers, job.seed)
    of_50, of_all = [], []
    for pool in pools:
        rewards = pool.pooled(measured.answers)[0]
        d = rewards.shape[-1]
        rng = generator(0, "many preferences", key=int(d))
        for found, W in (
            (of_50, preferences(d)),
            (of_all, sample_weights(POINTS, d, rng=rng, method="sobol")),
        ):
            found.append(best_of.best_at(rewards, W).mean(0))
    return {
        name: {str(k): float(np.mean(found, axis=0)[k - 1]) for k in BUDGETS}
        for name, found in (("50 weights", of_50), ("4096 points", of_all))
    }


def table() -> str:
    """The results so far as a Markdown table: VPO's lead over GRPO under both sets of weights."""
    rows, lines = resumable.rows(RESULTS), []
    for name in study_page.RATED:
        its = {kind: [r for r in rows if r["run"][:2] == [name, kind]] for kind in study_page.PAIR}
        if not all(its.values()):
            continue
        for weights in ("50 weights", "4096 points"):
            vpo, grpo = (
                np.mean([[r[weights][str(k)] for k in BUDGETS] for r in its[kind]], axis=0)
                for kind in study_page.PAIR
            )
            leads = (f"{x:+.3f}" for x in vpo - grpo)
            lines.append([f"`{name}`", weights, str(len(its["vpo"])), *leads])
    return markdown_table(["task", "any@k over", "runs", *(f"k = {k}" for k in BUDGETS)], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(study_page.RATED))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    done = resumable.done(RESULTS)
    for name in options.tasks:
        study = study_page.read(name)
        for kind in study_page.PAIR:
            lr = study_page.by_all_seeds(study, kind)
            for seed in range(options.seeds):
                key = [name, kind, lr, seed]
                if key not in done:
                    job = study.job(kind, lr, seed)
                    print(resumable.add(RESULTS, key, run(job, study.measured)), flush=True)
    print(table())


if __name__ == "__main__":
    main()
