"""How far do the policies of the study come with another temperature?

    .venv/bin/python tests/benchmarks/temperatures.py [--kinds vpo grpo_x3] [--seeds 0 1]

The study trains and measures at temperature 1. A lower temperature makes a single answer better, a
higher one makes answers more different, and neither needs training. This measures a policy as the
study does, at several temperatures: any@k of 30 answers to each of the 200 held-out problems, and
the validation figure that chooses a learning rate in the study, any@10 of 10 answers to each of 64
validation problems. By default it is the policy before training, asked for one answer and for sets.
Others are trained first, at the learning rate that all seeds choose, at temperature 1.

Finished runs are skipped: each is a line of results/temperatures.jsonl. One thread.
"""

import argparse
import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import resumable
import study_page

from vpo_lite.markup import markdown_table
from vpo_lite.policy.policy import Policy
from vpo_lite.studies.measure import measure
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train
from vpo_lite.training.measure import BUDGETS

RESULTS = Path(__file__).parent / "results" / "temperatures.jsonl"
KINDS = ("start_single", "start_set")


def job_of(study, kind: str, seed: int):
    """The run with this kind's policy; of a trained one at the rate that all seeds choose."""
    if not study.kinds[kind].trained:
        return study.tuning(kind)[0]
    return study.job(kind, study_page.by_all_seeds(study, kind), seed)


def policy_of(study, kind: str, seed: int) -> Policy:
    """The policy of this kind, trained where it is one."""
    config = job_of(study, kind, seed).config
    learner = Learner(config)
    if study.kinds[kind].trained:
        for _ in train(config, learner=learner):
            pass
    return learner.policy


def at_temperature(study, kind: str, seed: int, policy: Policy, temperature: float) -> dict:
    """Its validation figure, and any@k problem by problem, if it samples at this temperature."""
    config, stated = job_of(study, kind, seed).judged, study.measured
    task = config.make_task()

    def figures(split: str, problems: int, answers: int) -> np.ndarray:  # (problems, answers)
        seeds, how = task.seeds[split][:problems], dict(answers=answers, temperature=temperature)
        return measure(policy, task, config, seeds, **how)["any"]

    chosen_by = figures("validation", stated.validation, stated.chosen_from)[:, -1]
    found = figures("held_out", stated.problems, stated.answers)
    any_at_k = {str(k): found[:, k - 1].tolist() for k in BUDGETS}
    return {"validation": float(chosen_by.mean()), "any": any_at_k}


def runs() -> dict[tuple, list[dict]]:
    """The measured policies, one for each seed, by (task, kind, temperature)."""
    found = defaultdict(list)
    for row in resumable.rows(RESULTS):
        found[tuple(row["run"][:3])].append(row)
    return dict(found)


def table() -> str:
    """The results so far as a Markdown table, in the order of tasks, kinds and temperatures."""
    labels = dict(zip(KINDS, ("before training, m = 1", "before training, m = 3"), strict=True))
    labels |= study_page.SHORT
    rows, order, lines = runs(), ([*study_page.RATED], [*labels]), []
    for run in sorted(rows, key=lambda run: (*map(list.index, order, run[:2]), run[2])):
        found = [row["validation"] for row in rows[run]]
        ends = [[np.mean(row["any"][str(k)]) for row in rows[run]] for k in BUDGETS]
        cells = [f"{np.mean(x):.3f}" for x in (found, *ends)]
        lines.append([f"`{run[0]}`", labels[run[1]], f"{run[2]:g}", str(len(found)), *cells])
    heads = ["task", "policy", "temperature", "runs", "validation", *(f"any@{k}" for k in BUDGETS)]
    return markdown_table(heads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=study_page.RATED)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.6, 0.8, 1.0, 1.2, 1.5])
    options = parser.parse_args()
    for seed, name, kind in itertools.product(options.seeds, options.tasks, options.kinds):
        wanted = [[name, kind, temperature, seed] for temperature in options.temperatures]
        wanted = [run for run in wanted if run not in resumable.done(RESULTS)]
        study = study_page.read(name)
        policy = policy_of(study, kind, seed) if wanted else None
        for run in wanted:
            found = at_temperature(study, kind, seed, policy, run[2])
            resumable.add(RESULTS, run, found)
            ends = [round(float(np.mean(x)), 3) for x in found["any"].values()]
            print(*run, round(found["validation"], 3), ends, flush=True)


if __name__ == "__main__":
    main()
