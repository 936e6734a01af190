"""How long the code of each notebook runs, from top to bottom, without a screen, and how long its
panel then trains if somebody clicks.

    python tests/benchmarks/notebook_seconds.py [NUMBER ...]

Writes results/notebooks.json, {name: {"seconds", "slowest": [seconds, id of the cell], "panel"}},
with the machine, and the sentence in each notebook's first cell that tells it.
"""

import json
import math
import os
import platform
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
RESULTS = Path(__file__).parent / "results" / "notebooks.json"
TOLD = re.compile(r"The code runs for .+? \(measured on two cores\)\.")
CLICK = """
import time
for panel in (globals().get("lab"), globals().get("live")):
    if getattr(panel, "state", None) == "idle":
        began = time.perf_counter()
        panel.train()
        assert panel.join(900), panel.last_error
        print(time.perf_counter() - began)
"""


def seconds_of(path: Path) -> dict:
    """Seconds of all code cells together, of the slowest one with its id, and of the panel."""
    notebook, took = nbformat.read(path, as_version=4), {}
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", store_widget_state=False)
    click = nbformat.v4.new_code_cell(CLICK)
    notebook.cells.append(click)
    with client.setup_kernel():
        for i, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                began = time.perf_counter()
                client.execute_cell(cell, i)
                took[cell.id] = time.perf_counter() - began
    del took[click.id]
    slowest = max(took, key=took.get)
    total = round(sum(took.values()), 1)
    found = {"seconds": total, "slowest": [round(took[slowest], 1), slowest]}
    trained = sum(float(line) for o in click.outputs for line in o.text.split())
    return found | ({"panel": round(trained, 1)} if trained else {})


def about(seconds: float) -> str:
    """Rounded up.

    >>> about(31), about(89), about(101)
    ('40 seconds', '90 seconds', '2 minutes')
    """
    if seconds <= 90:
        return f"{10 * math.ceil(seconds / 10)} seconds"
    return f"{math.ceil(seconds / 60)} minutes"


def sentence(found: dict) -> str:
    """What the first cell of a notebook says of these seconds."""
    panel = (
        f", and its panel trains for {about(found['panel'])} if you click"
        if "panel" in found
        else ""
    )
    return f"The code runs for {about(found['seconds'])}{panel} (measured on two cores)."


def main(numbers) -> None:
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}"
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not numbers or path.stem[:2] in numbers:
            found[path.stem] = seconds_of(path)
            print(path.stem, found[path.stem], flush=True)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
            path.write_text(TOLD.sub(sentence(found[path.stem]), path.read_text(), count=1))


if __name__ == "__main__":
    main(sys.argv[1:])
