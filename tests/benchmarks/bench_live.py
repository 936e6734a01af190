"""From a key press on the alpha slider to the redrawn plot, in JupyterLab in chromium: median and
95th percentile.

    python tests/benchmarks/bench_live.py [MOVES]

Measured inside the page (key press to plotly's redraw), 100 moves 300 ms apart, once idle and once
while VPO trains with the preset demo. Targets: 100 and 250 ms. Writes results/live.json.
"""

import json
import os
import platform
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import browser_harness as harness

WATCH = """() => {
  window.times = []; let pressed = null;
  document.querySelector('.vpo-alpha').addEventListener('keydown', () => {
    pressed = performance.now();
  }, true);
  const plot = document.querySelector('.js-plotly-plot');
  const dots = () => Array.from(plot.data.find((t) => t.name === 'weightings').a);
  let last = JSON.stringify(dots());
  plot.on('plotly_afterplot', () => {
    const now = JSON.stringify(dots());
    if (pressed !== null && now !== last) {
      window.times.push(performance.now() - pressed);
      pressed = null;
    }
    last = now;
  });
}"""


def measure(page, moves):
    page.page.evaluate("() => { window.times.length = 0; }")
    page.page.locator(".vpo-alpha .noUi-handle").focus()
    for i in range(moves):
        page.page.keyboard.press("ArrowLeft" if i // 12 % 2 else "ArrowRight")
        page.page.wait_for_timeout(300)
    times = page.page.evaluate("() => window.times")
    return {
        "moves": moves,
        "drawn": len(times),
        "median_ms": round(float(np.median(times)), 1),
        "p95_ms": round(float(np.quantile(times, 0.95)), 1),
    }


def main(moves=100):
    notebook = Path(__file__).parents[2] / "notebooks" / "00_start_here.ipynb"
    with harness.server([notebook]) as address, harness.browser() as context:
        page = harness.Page(context, address).open(notebook.name, "doc/tree")
        page.run_all()
        page.page.wait_for_selector(".js-plotly-plot .main-svg")
        page.page.wait_for_timeout(5000)
        page.page.evaluate(WATCH)
        result = {"idle": measure(page, moves)}
        page.kernel("lab.train(steps=1000)")
        page.wait_text(".vpo-status", "step 2 of")
        result["training"] = measure(page, moves)
        seconds = "print(sum(r.seconds for r in lab.records) / len(lab.records))"
        result["seconds_a_step_meanwhile"] = round(float(page.kernel(seconds)), 2)
        page.kernel("lab.close()")
        assert not page.wrong, page.wrong
    result["machine"] = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    (Path(__file__).parent / "results" / "live.json").write_text(
        json.dumps(result, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
