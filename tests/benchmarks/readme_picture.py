"""The pictures of README and REFERENCE: the panel in JupyterLab, while VPO and GRPO train on maze
1000.

    .venv/bin/python tests/benchmarks/readme_picture.py

Both are from the recording three_methods/seed-0, so nothing is trained. Needs a browser (tests/
browser_setup.py finds it). Writes notebooks/images/panel.webp, which moves, and panel.png, a still
of the whole panel after the last step.
"""

import io
import json
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import browser_harness as harness  # noqa: E402

IMAGES = ROOT / "notebooks" / "images"
CELL = """
from vpo_lite.lab import Lab, recordings

lab = Lab.replay("three_methods/seed-0").change(methods=("vpo", "grpo"))
runs = tuple(run for method, run in lab.runs.items() if method in lab.methods)
recordings.write("pair", recordings.Recording(lab.share(), "", runs))
lab = Lab.replay("pair")
lab
"""
# Most changes happen in the first steps.
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 23, 26, 29, 32, 36, 40)
FIRST, NEXT, LAST = 1000, 300, 3000  # milliseconds that a frame stands
TIMES = 3  # then the last frame stays: a page that never rests disturbs its readers
MOVING, STILL = (1284, 1400), (1640, 1200)  # windows: two plots beside the boards, and three
TOP = 450  # pixels of the panel in the first window, down to the end of the first row of plots


def notebook(folder: Path) -> Path:
    """A notebook of one cell, which opens the panel."""
    cell = {"cell_type": "code", "id": "panel", "metadata": {}, "outputs": []}
    cell |= {"execution_count": None, "source": CELL}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / "panel.ipynb"
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}}
    path.write_text(json.dumps(content | {"cells": [cell]}))
    return path


def pictures(address: str, name: str, window: tuple[int, int], steps, height=None) -> list:
    """The panel after each of these steps."""
    with harness.browser(*window) as context:
        page = harness.Page(context, address).open(name, "doc/tree")
        page.page.emulate_media(reduced_motion="reduce")  # markers rest at the end of their routes
        page.page.add_style_tag(content=".vpo-board .tools { display: none !important }")
        page.run_all()
        page.look_at(".vpo-lab")
        page.page.wait_for_selector(".js-plotly-plot .main-svg")
        panel, shots = page.page.locator(".vpo-lab").first, []
        for step in steps:
            page.kernel(f"lab.look({step})")
            page.wait_text(".vpo-status", f"step {step} of")
            while page.trace("VPO", "x2", "x")[-1] != step:
                page.page.wait_for_timeout(50)
            page.page.wait_for_timeout(500)  # plotly and the board draw what they have been told
            shot = Image.open(io.BytesIO(panel.screenshot())).convert("RGB")
            shots.append(shot.crop((0, 0, shot.width, height or shot.height)))
        print(*page.wrong, sep="\n", end="")
        page.close()
    return shots


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = notebook(Path(folder))
        with harness.server([path]) as address:
            first, *others = pictures(address, path.name, MOVING, STEPS, TOP)
            (still,) = pictures(address, path.name, STILL, STEPS[-1:])
    IMAGES.mkdir(exist_ok=True)
    first.save(
        IMAGES / "panel.webp",
        save_all=True,
        append_images=others,
        duration=[FIRST, *[NEXT] * (len(others) - 1), LAST],
        loop=TIMES,
        lossless=True,
        method=6,
    )
    still.quantize(256).save(IMAGES / "panel.png", optimize=True)
    for file in ("panel.webp", "panel.png"):
        print(f"{file}: {(IMAGES / file).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
