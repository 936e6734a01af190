"""Do the stored runs of a study repeat?

    .venv/bin/python tests/benchmarks/repeats.py paper-9x9 vpo --lr 1e-3 --seeds 0 1 --machine 3

Trains these runs with today's code, also for seeds that the study has not, and appends each to
results/repeats.jsonl: any@k at every checkpoint, measured as in the study.

- --machine: a name of your own. The same run differs between machines, by rounding.
- --shared-limit: every rollout of a step may have as many tokens as the problem with the highest
  limit allows, as before 27 November. Today a rollout ends at the limit of its own problem.
- --cosine: the learning rate falls to 0 at the end, as half a cosine. In the study it is constant.

Finished runs are skipped. One thread; some six minutes a run of paper-9x9. STUDY.md has the table.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import resumable

from vpo_lite.markup import markdown_table
from vpo_lite.studies.declaration import read
from vpo_lite.studies.results import SHIPPED
from vpo_lite.studies.runner import run_job
from vpo_lite.training import step
from vpo_lite.training.measure import BUDGETS

RESULTS = Path(__file__).parent / "results/repeats.jsonl"
STORED = "stored"  # in the place of a limit: the study's own runs
TOLD = {
    STORED: "stored runs, of 23 to 26 November",
    "shared": "today's code, with the old limit",
    "own": "today's code",
    "cosine": "today's code, with a rate that falls to 0",
}
COMPARED = (  # the learning rates that were chosen, and others where the rate falls
    ("VPO", "vpo", 1e-3),
    ("VPO, lr 0.002", "vpo", 2e-3),
    ("GRPO", "grpo_x3", 2e-4),
    ("GRPO, lr 0.0004", "grpo_x3", 4e-4),
)
FALLING = (  # task, method, its kind, learning rates: the chosen one first
    ("hard-8x8", "VPO", "vpo", (1e-3,)),
    ("hard-8x8", "GRPO", "grpo_x3", (1e-4, 2e-4)),
    ("programs", "VPO", "vpo", (1e-3, 4e-4)),
    ("programs", "GRPO", "grpo_x3", (2.5e-5, 5e-5)),
    ("hops", "VPO", "vpo", (2e-3,)),
    ("hops", "GRPO", "grpo_x3", (4e-4, 1e-3)),
)
LATE = 0.5  # of the steps: the second half of training


def share_limit() -> None:
    """Give all rollouts of a training step the highest token limit of its problems."""
    own = step.token_limits

    def shared(policy, task, m, instances, limit=None):
        return [max(own(policy, task, m, instances, limit))] * len(instances)

    step.token_limits = shared


def ends(study: str, kind: str, lr: float, limit: str, k: int, late: bool = False) -> np.ndarray:
    """any@k at the end of each of these runs; late: its mean over the second half's checkpoints."""
    stem = f"{kind}-lr{lr:g}-seed"
    if limit == STORED:
        found = [json.loads(x.read_text()) for x in sorted((SHIPPED / study).glob(f"{stem}*.json"))]
        runs = [[(x["step"], x["figures"]["any"]) for x in one["checkpoints"]] for one in found]
    else:
        found = [row for row in resumable.rows(RESULTS) if row["run"][0] == study]
        found = [x for x in found if x["run"][1].startswith(stem) and x["run"][2] == limit]
        runs = [[(x["step"], x["any"]) for x in one["checkpoints"]] for one in found]
    least = [run[-1][0] * (LATE if late else 1) for run in runs]
    return np.array(
        [
            np.mean([curve[k - 1] for at, curve in run if at >= first])
            for run, first in zip(runs, least, strict=True)
        ]
    )


def mean_and_spread(x: np.ndarray) -> str:
    """The mean over runs; of several with their standard deviation."""
    return f"{x.mean():.3f}" + (f" ± {x.std(ddof=1):.3f}" if len(x) > 1 else "")


def table() -> str:
    """The repeated runs of VPO and GRPO on paper-9x9 beside the stored ones, in Markdown."""
    heads = ["runs of", "", "runs", "any@1", "any@30", "any@1, second half", "any@30, second half"]
    lines = []
    for name, kind, lr in COMPARED:
        for limit, told in TOLD.items():
            of = "paper-9x9", kind, lr, limit
            chosen = (kind, lr) in (("vpo", 1e-3), ("grpo_x3", 2e-4))
            if (n := len(ends(*of, 1))) and (chosen or limit == "cosine"):
                cells = [ends(*of, k, late) for late in (False, True) for k in (1, 30)]
                lines.append([name, told, str(n), *map(mean_and_spread, cells)])
    return markdown_table(heads, lines)


def falling() -> str:
    """Runs of the other tasks whose rate falls, beside the study's, whose rate stays, in Markdown.

    A row for each learning rate, in the order of FALLING; means, and standard deviations over runs.
    """
    heads = ["task", "method", "lr", "rate", "runs", *(f"any@{k}" for k in BUDGETS)]
    lines = []
    for study, name, kind, rates in FALLING:
        for lr in rates:
            for limit, told in ((STORED, "stays"), ("cosine", "falls")):
                found = [ends(study, kind, lr, limit, k) for k in BUDGETS]
                shown = [str(len(found[0])), *map(mean_and_spread, found)]
                lines.append([f"`{study}`", name, f"{lr:g}", told, *shown])
    return markdown_table(heads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study")
    parser.add_argument("kind")
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--machine", required=True)
    changed = parser.add_mutually_exclusive_group()
    changed.add_argument("--shared-limit", action="store_true")
    changed.add_argument("--cosine", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/repeats"))
    options = parser.parse_args()
    study, limit = read(options.study), "own"
    if options.shared_limit:
        limit = "shared"
        share_limit()
    elif options.cosine:
        limit = "cosine"
        study.declared.settings["lr_schedule"] = "cosine"
    folder = options.out / f"{options.study}-{limit}"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        job = study.job(options.kind, options.lr, seed)
        run = [study.name, job.key, limit, options.machine]
        if run in resumable.done(RESULTS):
            continue
        found = run_job(study, job, folder, lambda key, at, of: print(key, at, of, end="\r"))
        points = [
            {"step": x.step, "tokens": x.tokens, "any": x.figures["any"]} for x in found.checkpoints
        ]
        resumable.add(RESULTS, run, {"checkpoints": points})
        print(*run, "any@1", points[-1]["any"][0], "any@30", points[-1]["any"][29])


if __name__ == "__main__":
    main()
