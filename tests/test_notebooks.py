"""Every notebook runs from top to bottom without a screen, at a small budget, and is committed
clean.

The cell tagged ``parameters`` says in its first line which numbers the test run lowers; they are
set to a tenth (at least 2) in a cell put behind it, and a last cell tells whether that took.
"""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def lowered(cell):
    """{name: small value} for the numbers that the parameters cell names in its first line."""
    names = re.findall(r"`(\w+)`", cell.source.splitlines()[0])
    values = {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(cell.source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    small = {name: max(2, values[name] // 10) for name in names}
    assert small and all(small[name] < values[name] for name in small), (
        f"nothing to lower in {cell.source!r}"
    )
    return small


def test_there_are_notebooks():
    assert FOLDER / "00_start_here.ipynb" in NOTEBOOKS


@pytest.mark.slow
@by_name
def test_runs_without_a_screen(path, monkeypatch):
    monkeypatch.setenv("VPO_LITE_COLD", "1")
    notebook = read(path)
    (at,) = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    small = lowered(notebook.cells[at])
    before = len(notebook.cells)
    override = "\n".join(f"{name} = {value}" for name, value in small.items())
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(override))
    took = (
        "import json as _json; print(_json.dumps({"
        + ", ".join(f"{n!r}: {n}" for n in small)
        + "}))"
    )
    notebook.cells.append(nbformat.v4.new_code_cell(took))
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": FOLDER}},
        store_widget_state=False,
    )
    client.execute()
    assert json.loads(notebook.cells[-1].outputs[0].text) == small
    run = [c for c in notebook.cells if c.cell_type == "code"]
    assert len(notebook.cells) == before + 2 and all(c.execution_count for c in run), (
        "a cell was not run"
    )
    written = [
        o.text for c in run for o in c.outputs if o.output_type == "stream" and o.name == "stderr"
    ]
    assert not written, written


@by_name
def test_is_committed_clean(path):
    notebook = read(path)
    assert path.stat().st_size < 200_000
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 15, cell.source
    prose = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert len(re.findall("^# ", prose, re.MULTILINE)) == 1 and notebook.cells[0].source.startswith(
        "# "
    )
    assert sum("parameters" in c.metadata.get("tags", []) for c in notebook.cells) == 1
    opening = notebook.cells[0].source
    assert all(f"**{word}" in opening for word in ("You will learn", "Time", "Hardware")), (
        "what, how long, on what"
    )


@by_name
def test_opens_in_order_of_its_name(path):
    assert read(path).cells[0].source.startswith(f"# {path.stem[:2]} ")
