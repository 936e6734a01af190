"""The whole course in a browser, as a student walks through it: open, run all, answer exercises."""

import browser_harness as harness
import nbformat
import pytest
from test_notebooks import NOTEBOOKS, check_outputs, prepared, read

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
CHOOSE = """(id) => { const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = notebook.widgets.findIndex((c) => c.model.id === id);
  notebook.mode = 'edit'; }"""


NARROW = """() => [...document.querySelectorAll('.widget-container')]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).length"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A JupyterLab on the notebooks at the small budget, each exercise with its solution in a cell
    behind the blank, and a browser of a projector's size. Also {name: its small numbers}.
    """
    folder, small = tmp_path_factory.mktemp("course"), {}
    for path in NOTEBOOKS:
        notebook = read(path)
        small[path.name] = prepared(notebook)
        nbformat.write(notebook, folder / path.name)
    with (
        harness.server(sorted(folder.glob("*.ipynb"))) as address,
        harness.browser(1280, 720) as context,
    ):
        yield context, address, small


def answer(page, key, text):
    """Type this into the blank of an exercise, and run its cell, by keyboard alone."""
    page.page.evaluate(CHOOSE, f"ex-{key}")
    for keys in ("Control+a", "Delete"):
        page.page.keyboard.press(keys)
    page.page.keyboard.insert_text(f'answer = {text}\ncheck("{key}", answer)')
    page.page.keyboard.press("Control+Enter")


def exercise_in_both_ways(page):
    """Answer one exercise as a student who swaps max and mean, and then rightly."""
    page.look_at("[role=status]")
    page.wait_text("[role=status]", "… 00-a Not answered yet.")
    answer(page, "00-a", "(front[:, 1:3] @ three.T).mean(axis=1).max()")
    page.wait_text("[role=status]", "✗ 00-a. Not yet. This is the best single route")
    answer(page, "00-a", "(front[:, 1:3] @ three.T).max(axis=0).mean()")
    page.wait_text("[role=status]", "✓ 00-a. Right. First each person chooses")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs_and_an_exercise_answers(place, path):
    context, address, small = place
    page = harness.Page(context, address).open(path.name)
    page.run_all()  # fails with the errors of the cells
    cells = [nbformat.from_dict(cell) for cell in page.page.evaluate(CELLS)]
    check_outputs(cells, small[path.name])
    shown = {key for cell in cells for o in cell.get("outputs", ()) for key in o.get("data", ())}
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= shown
    if path == NOTEBOOKS[0]:
        exercise_in_both_ways(page)
    if "slider.observe" in path.read_text():
        page.look_at(".widget-readout")
        assert page.page.evaluate(NARROW) == 0, "sliders are cut off"
    page.close()
    assert not page.wrong, page.wrong
