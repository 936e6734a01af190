"""What the demo shows, in notebooks/REFERENCE.md: preset `demo` on the mazes lite-6x6 with seeds
1000 to 1019, one maze at a time, seed 0.

    .venv/bin/python tests/benchmarks/demo_study.py [--out runs/demo] [--threads 1] [--mazes 20]

Three kinds of run: VPO and GRPO with equal rollouts (G = 16), and GRPO with three times as many (G
= 48). A rollout of VPO holds three answers, so the third kind has VPO's number of answers and about
its number of tokens.

Runs `vpo-lite train` for every maze and kind (finished runs are skipped, interrupted ones resumed).
Then prints what `vpo-lite compare` prints and writes tests/benchmarks/results/demo_study.json: the
same rows, and each maze's figures. The page's table is made from that file by page_table
(tests/test_docs.py holds the two together).
"""

import argparse
import json
import platform
import sys
from pathlib import Path

from vpo_lite.cli import main as vpo_lite
from vpo_lite.markup import markdown_table
from vpo_lite.training.compare import compare
from vpo_lite.training.side_by_side import table

RESULTS = Path(__file__).parent / "results" / "demo_study.json"
KINDS = {  # label of `compare` -> name in the table, flags
    "vpo": ("VPO, m = 3, G = 16", ["--method", "vpo"]),
    "grpo, group_size=16": ("GRPO, G = 16: equal rollouts", ["--method", "grpo"]),
    "grpo, group_size=48": (
        "GRPO, G = 48: equal answers",
        ["--method", "grpo", "--group-size", "48"],
    ),
}
COLUMNS = (
    "method",
    "tokens",
    "coverage: start",
    "end (95 % interval)",
    "best@1",
    "best@3",
    "best@30",
    "diversity: start",
    "end",
    "reach: start",
    "end",
)


def page_table(results: dict) -> str:
    """The results as a Markdown table."""
    lines = []
    for row in results["rows"]:
        start, (low, high) = row["start"], row["interval"]["coverage"]
        cells = [
            KINDS[row["label"]][0],
            f"{row['tokens'] / 1000:.0f} k",
            f"{start['coverage']:.2f}",
            f"**{row['coverage']:.2f}** ({low:.2f} to {high:.2f})",
            *(f"{row['best_at_k'][k]:.3f}" for k in ("1", "3", "30")),
            f"{start['diversity']:.2f}",
            f"{row['diversity']:.2f}",
            f"{start['valid_rate']:.2f}",
            f"{row['valid_rate']:.2f}",
        ]
        lines.append(cells)
    return markdown_table(COLUMNS, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mazes", type=int, default=20)
    options = parser.parse_args()
    folders = {}
    for label, (_, flags) in KINDS.items():
        for seed in range(1000, 1000 + options.mazes):
            name = "-".join([*flags[1::2], str(seed)])
            folder = folders[label, seed] = options.out / name
            if (folder / "summary.json").exists():
                continue
            begun = (folder / "config.json").exists()
            new = [*flags, "--maze-seed", str(seed), "--seed", "0", "--preset", "demo"]
            new += ["--out", str(folder), "--threads", str(options.threads), "--device", "cpu"]
            if vpo_lite(["train", *(["--resume", str(folder)] if begun else new)]):
                sys.exit(f"{folder}: the run failed")
    rows = compare(folders.values())
    print(table(rows))
    shown = (
        "coverage",
        "coverage_best_single",
        "diversity",
        "valid_rate",
        "set_reward",
        "seconds",
        "tokens",
    )
    at_start = ("coverage", "diversity", "valid_rate")
    mazes = {}
    for (label, seed), folder in folders.items():
        summary = json.loads((folder / "summary.json").read_text())
        figures = {k: summary[k] for k in shown} | {
            f"{k}_at_start": summary["start"][k] for k in at_start
        }
        mazes.setdefault(str(seed), {})[label] = {k: round(v, 4) for k, v in figures.items()}
    results = {
        "command": "python tests/benchmarks/demo_study.py",
        "machine": platform.processor() or platform.machine(),
        "threads": options.threads,
        "versions": summary["versions"],
        "rows": [{k: v for k, v in row.items() if k != "folders"} for row in rows],
        "mazes": mazes,
    }
    if options.mazes == 20:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(page_table(results))


if __name__ == "__main__":
    main()
