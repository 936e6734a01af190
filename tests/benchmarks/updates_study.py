"""Several updates from the rollouts of one step (--mini-batches, --epochs), in
notebooks/REFERENCE.md: preset `demo` on the mazes lite-6x6 with seeds from 1000 on, seed 0.

    .venv/bin/python tests/benchmarks/updates_study.py [--out runs/updates] [--mazes 11]

Every kind samples the same number of rollouts, and at first the same ones. Runs `vpo-lite train`
for every maze and kind (finished runs are skipped, interrupted ones resumed). Then writes
tests/benchmarks/results/updates.json: by kind the coverage of each maze in the rollouts of steps
11, 21 and 40, so after 10, 20 and 39 steps of training. The page's table is made from that file by
page_table.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from vpo_lite.cli import main as vpo_lite
from vpo_lite.intervals import noise, t_interval
from vpo_lite.markup import markdown_table
from vpo_lite.training.folders import RunFolder

RESULTS = Path(__file__).parent / "results" / "updates.json"
KINDS = {  # name in the table -> flags
    "VPO, 1 update a step": ["--method", "vpo"],
    "VPO, 2 mini-batches": ["--method", "vpo", "--mini-batches", "2"],
    "VPO, 4 mini-batches": ["--method", "vpo", "--mini-batches", "4"],
    "VPO, 1 update, twice the rate": ["--method", "vpo", "--lr", "0.002"],
    "VPO, 1 update, four times the rate": ["--method", "vpo", "--lr", "0.004"],
    "GRPO, 1 update a step": ["--method", "grpo"],
    "GRPO, 4 mini-batches": ["--method", "grpo", "--mini-batches", "4"],
}
AFTER = ("10", "20", "39")  # steps


def page_table(results: dict) -> str:
    """The results as a Markdown table: means, and how far each is ahead of one update a step."""
    lines = []
    for name, found in results["coverage"].items():
        first = next(kind for kind in KINDS if kind.split(",")[0] == name.split(",")[0])
        cells = [name]
        for after in AFTER:
            ahead = np.array(found[after]) - results["coverage"][first][after]
            low, high = t_interval(ahead.mean(), [noise(ahead)])
            said = f" ({ahead.mean():+.3f}: {low:+.3f} to {high:+.3f})" * (name != first)
            cells.append(f"{np.mean(found[after]):.3f}{said}")
        lines.append([*cells, f"{np.mean(found['clip share']):.4f}"])
    return markdown_table(["method", *(f"after {n} steps" for n in AFTER), "clipped tokens"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/updates"))
    parser.add_argument("--mazes", type=int, default=11)
    options = parser.parse_args()
    found = {name: {key: [] for key in (*AFTER, "clip share")} for name in KINDS}
    for seed in range(1000, 1000 + options.mazes):
        for name, flags in KINDS.items():
            folder = options.out / "-".join([*flags[1::2], str(seed)])
            begun = (folder / "config.json").exists()
            new = [*flags, "--maze-seed", str(seed), "--seed", "0", "--preset", "demo"]
            new += ["--out", str(folder), "--threads", "1", "--device", "cpu"]
            new += ["--eval-answers", "3"]  # the figures are those of training
            done = (folder / "summary.json").exists()
            if not done and vpo_lite(["train", *(["--resume", str(folder)] if begun else new)]):
                sys.exit(f"{folder}: the run failed")
            records = RunFolder.open(folder).records()
            for after in AFTER:
                found[name][after].append(round(records[int(after)].coverage, 4))
            share = np.mean([record.clip_share for record in records])
            found[name]["clip share"].append(round(float(share), 5))
    results = {
        "command": "python tests/benchmarks/updates_study.py",
        "mazes": list(range(1000, 1000 + options.mazes)),
        "coverage": found,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(page_table(results))


if __name__ == "__main__":
    main()
