"""How long the panel takes: from a key press on a slider to the redrawn plot, and from Train to the
first step drawn, in JupyterLab in chromium.

    python tests/benchmarks/bench_live.py [MOVES]

- In the page: key press to plotly's redraw, for alpha and m, MOVES moves 300 ms apart, on a
  recording of three methods, before training, and while VPO trains with the preset demo.
- In Python alone: `Panel.draw` after a change of alpha, on the same recording. An alpha that was
  not seen before is judged anew for all steps.

Target: 100 ms when idle. Other programs on the machine make all of it slower: the load average of
before and after stands in the result. Writes results/live.json.
"""

import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import browser_harness as harness

RECORDING = "Lab.replay('three_methods/seed-0')"
STAGE = "import ipywidgets\nfrom vpo_lite import Lab\nstage = ipywidgets.VBox()\nstage"
WATCH = """() => {
  window.times = []; window.pressed = null;
  document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
  document.querySelector('.js-plotly-plot').on('plotly_afterplot', () => {
    if (window.pressed !== null) window.times.push(performance.now() - window.pressed);
    window.pressed = null;
  });
}"""
FIRST_STEP = """() => new Promise((done) => {
  const pressed = performance.now(), plot = document.querySelector('.js-plotly-plot');
  const first = () => plot.data.some((t) => t.name === 'VPO' && Array.from(t.x)[0] === 1);
  plot.on('plotly_afterplot', () => { if (first()) done(performance.now() - pressed); });
  document.querySelector('button.vpo-train').click();
})"""


def quantiles(times):
    return {
        "drawn": len(times),
        "p50_ms": round(float(np.median(times)), 1),
        "p95_ms": round(float(np.quantile(times, 0.95)), 1),
    }


def measure(page, knob, moves, there=12):
    """Moves of a slider, as many one way as the other."""
    page.page.evaluate("() => { window.times.length = 0; }")
    page.page.locator(f".vpo-{knob} .noUi-handle").focus()
    for i in range(moves):
        page.page.keyboard.press("ArrowLeft" if i // there % 2 else "ArrowRight")
        page.page.wait_for_timeout(300)
    return {"moves": moves} | quantiles(page.page.evaluate("() => window.times"))


def both(page, moves):
    return {"alpha": measure(page, "alpha", moves), "m": measure(page, "m", moves // 2, there=2)}


def put(page, lab):
    page.kernel(f"stage.children = []; lab = {lab}; stage.children = [lab.panel.box]")
    page.page.wait_for_selector(".vpo-board svg.maze")
    page.page.wait_for_selector(".js-plotly-plot .main-svg")
    page.page.wait_for_timeout(5000)
    page.page.evaluate(WATCH)


def in_the_browser(moves):
    folder = Path(tempfile.mkdtemp())
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    cells = [nbformat.v4.new_code_cell(STAGE)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "live.ipynb")
    with (
        harness.server([folder / "live.ipynb"]) as address,
        harness.browser(1280, 720) as context,
    ):
        page = harness.Page(context, address).open("live.ipynb")
        page.run_all()
        put(page, RECORDING)
        result = {"a_recording_of_three_methods": both(page, moves)}
        put(page, "Lab()")
        result["before_training"] = both(page, moves)
        page.kernel("lab.change(alpha=1, m=3, steps=1000)")
        result["train_to_first_step_drawn_ms"] = round(page.page.evaluate(FIRST_STEP))
        result["training"] = both(page, moves)
        seconds = "print(sum(r.seconds for r in lab.records) / len(lab.records))"
        result["seconds_a_step_meanwhile"] = round(float(page.kernel(seconds)), 2)
        page.kernel("lab.close()")
        assert not page.wrong, page.wrong
    return result


def in_python(moves):
    """`Panel.draw` alone, after changes of alpha."""
    os.environ["VPO_LITE_COLD"] = "1"
    from vpo_lite import Lab

    lab = Lab.replay("three_methods/seed-0")
    panel = lab.panel
    panel.board.room = 844
    panel.draw()
    lab._watchers.clear()  # the drawing thread would draw, too

    def drawn(alphas):
        for alpha in alphas:
            lab.change(alpha=float(f"{alpha:.4g}"))
            began = time.perf_counter()
            panel.draw()
            yield 1000 * (time.perf_counter() - began)

    fresh = list(drawn(10 ** np.random.default_rng(0).uniform(-1.3, 1.3, moves)))
    return {
        "alpha_not_seen_before": quantiles(fresh),
        "alpha_seen_before": quantiles(list(drawn([0.3, 1.0] * (moves // 2)))[2:]),
    }


def main(moves=60):
    began = os.getloadavg()[0]
    result = {"panel_draw_in_python": in_python(moves)} | in_the_browser(moves)
    cores = len(os.sched_getaffinity(0))
    result["machine"] = f"{platform.machine()}, {cores} cores, shared with other programs"
    result["load_average_before_and_after"] = [round(x, 1) for x in (began, os.getloadavg()[0])]
    (Path(__file__).parent / "results" / "live.json").write_text(
        json.dumps(result, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
