"""The table of the README: preset `demo` on the mazes lite-6x6 with seeds 1000 to 1019, one maze at a time, seed 0.

    .venv/bin/python tests/benchmarks/demo_study.py [--out runs/demo] [--threads 1] [--methods vpo grpo] [--mazes 20]

Runs `vpo-lite train` for every maze and method (finished runs are skipped, broken-off ones resumed), then prints what
`vpo-lite compare` prints and writes tests/benchmarks/results/demo_study.json: the same rows, and each maze's figures. The
README's table is made from that file by readme_table (tests/test_docs.py holds the two together).
"""

import argparse
import json
import platform
import sys
from pathlib import Path

from vpo_lite.cli import main as vpo_lite
from vpo_lite.training.evaluate import compare, table

RESULTS = Path(__file__).parent / "results" / "demo_study.json"


def readme_table(results: dict) -> str:
    """The results as a Markdown table."""
    names = {"vpo": "VPO, m = 3", "grpo": "GRPO, 3 sampled answers", "multi_rlvr": "Multi-RLVR, m = 3"}
    columns = ["method", "coverage: start", "end (95 % interval)", "best@1", "best@3", "best@30", "diversity: start", "end"]
    head = "| " + " | ".join([*columns, "reach: start", "end"]) + " |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for row in results["rows"]:
        start, (low, high) = row["start"], row["interval"]["coverage"]
        cells = [
            names[row["method"]], f"{start['coverage']:.2f}", f"**{row['coverage']:.2f}** ({low:.2f} to {high:.2f})",
            *(f"{row['best_at_k'][k]:.3f}" for k in ("1", "3", "30")),
            f"{start['diversity']:.2f}", f"{row['diversity']:.2f}", f"{start['reach_rate']:.2f}", f"{row['reach_rate']:.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=["vpo", "grpo"])
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
    results = {
        "command": "python tests/benchmarks/demo_study.py", "machine": platform.processor() or platform.machine(),
        "threads": options.threads, "versions": summary["versions"], "rows": rows, "mazes": each,
    }  # fmt: skip
    if options.mazes == 20:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(readme_table(results))


if __name__ == "__main__":
    main()
