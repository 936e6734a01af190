"""How fast a run on a GPU learns: any@30 and coverage against seconds of training, as one page.

    python tests/gpu/plot.py [tests/benchmarks/results/gpu.json]

Draws the points that check.py's part `learning` has stored, into learning.html beside the file. It
needs plotly, and neither a GPU nor a network.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT))

from vpo_lite import figures  # noqa: E402

RESULTS = ROOT / "tests" / "benchmarks" / "results" / "gpu.json"
CURVES = ("any@30", "coverage")


def drawn(found: dict):
    """The figure of a results file."""
    learning = found["parts"].get("learning", {})
    if "points" not in learning:
        sys.exit(f"no points of a run: part learning {learning.get('outcome', 'was not run')}")
    points, device = learning["points"], learning.get("device", found.get("device"))
    return figures.lines(
        [point["seconds"] for point in points],
        {name: [point[name] for point in points] for name in CURVES},
        x_title="seconds of training",
        y_title="mean over held-out mazes",
        title=f"{device}, {points[-1]['steps']} steps, {points[-1]['tokens']:,} tokens",
    )


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    out = path.with_name("learning.html")
    drawn(json.loads(path.read_text())).write_html(out)
    print(out)


if __name__ == "__main__":
    main()
