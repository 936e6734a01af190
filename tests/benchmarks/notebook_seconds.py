"""How long the cells of each notebook run, from top to bottom, without a screen.

    python tests/benchmarks/notebook_seconds.py [NUMBER ...]

Writes results/notebooks.json: {name: {"seconds", "slowest": [seconds, id of the cell]}, ...} and
the machine. Buttons are not pressed: what a panel trains only on a click is not in it. The first
cell of each notebook tells the seconds; tests/test_notebooks.py compares the two.
"""

import json
import os
import platform
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = Path(__file__).parent / "results" / "notebooks.json"


def seconds_of(path: Path) -> dict:
    """Seconds of all code cells together, and of the slowest one with its id."""
    notebook, took = nbformat.read(path, as_version=4), {}
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", store_widget_state=False)
    with client.setup_kernel():
        for i, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                began = time.perf_counter()
                client.execute_cell(cell, i)
                took[cell.id] = time.perf_counter() - began
    slowest = max(took, key=took.get)
    total = round(sum(took.values()), 1)
    return {"seconds": total, "slowest": [round(took[slowest], 1), slowest]}


def main(numbers) -> None:
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}"
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if not numbers or path.stem[:2] in numbers:
            found[path.stem] = seconds_of(path)
            print(path.stem, found[path.stem], flush=True)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
