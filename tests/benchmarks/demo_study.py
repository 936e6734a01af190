"""The table of the README: preset `demo` on the mazes lite-6x6 with seeds 1000 to 1019, one maze at a time, seed 0.

    .venv/bin/python tests/benchmarks/demo_study.py [--out runs/demo] [--threads 1] [--methods vpo grpo] [--mazes 20]

Runs `vpo-lite train` for every maze and method (finished runs are skipped, broken-off ones resumed), then prints what
`vpo-lite compare` prints and writes tests/benchmarks/results/demo_study.json: the same rows, and each maze's figures.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

from vpo_lite.cli import main as vpo_lite
from vpo_lite.training.evaluate import compare, table

RESULTS = Path(__file__).parent / "results" / "demo_study.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=["vpo", "grpo", "multi_rlvr"])
    parser.add_argument("--mazes", type=int, default=20)
    options = parser.parse_args()
    seeds = range(1000, 1000 + options.mazes)
    folders = {}
    for method in options.methods:
        for seed in seeds:
            folder = folders[method, seed] = options.out / f"{method}-{seed}"
            if (folder / "summary.json").exists():
                continue
            begun = (folder / "config.json").exists()
            request = ["--resume", str(folder)] if begun else [
                "--method", method, "--maze-seed", str(seed), "--seed", "0", "--preset", "demo", "--out", str(folder),
                "--threads", str(options.threads), "--device", "cpu",
            ]  # fmt: skip
            if vpo_lite(["train", *request]):
                sys.exit(f"{folder}: the run failed")
    rows = compare(folders.values())
    print(table(rows))
    shown = ("coverage", "coverage_best_single", "diversity", "reach_rate", "set_reward", "seconds")
    each = {}
    for (method, seed), folder in folders.items():
        summary = json.loads((folder / "summary.json").read_text())
        start = {f"{k}_at_start": summary["start"][k] for k in ("coverage", "diversity", "reach_rate")}
        each.setdefault(str(seed), {})[method] = {k: round(summary[k], 4) for k in shown} | {
            k: round(v, 4) for k, v in start.items()
        }
    RESULTS.write_text(json.dumps({
        "command": "python tests/benchmarks/demo_study.py", "machine": platform.processor() or platform.machine(),
        "threads": options.threads, "versions": summary["versions"], "rows": rows, "mazes": each,
    }, indent=1) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
