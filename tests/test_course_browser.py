"""The whole course in a browser, as a student walks through it: open, run all, answer exercises,
play and draw by hand.
"""

import browser_harness as harness
import nbformat
import pytest
from test_notebooks import NOTEBOOKS, check_outputs, prepared, read

import envs

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CHOSEN = [  # of the others make test runs the path for a class
    NOTEBOOKS[0],
    *(pytest.param(path, marks=pytest.mark.long) for path in NOTEBOOKS[1:]),
]
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
    page.wait_text("[role=status]", "… 00-a No answer yet")
    answer(page, "00-a", "(front[:, 1:3] @ three.T).mean(axis=1).max()")
    page.wait_text("[role=status]", "✗ 00-a. Not yet. This is the best single route")
    answer(page, "00-a", "(front[:, 1:3] @ three.T).max(axis=0).mean()")
    page.wait_text("[role=status]", "✓ 00-a. Right. First each person chooses")


KEYS = {"U": "ArrowUp", "D": "ArrowDown", "L": "ArrowLeft", "R": "ArrowRight"}


def play_and_draw_by_hand(notebook):
    """Buttons and arrow keys walk, clicks draw, the front follows."""
    page, maze = notebook.page, envs.generate("lite-6x6", 1011)

    # one button for the focus, then arrow keys alone
    notebook.look_at(".play button")
    page.locator(".play button", has_text="again").click()
    route = maze.pareto_front().routes[0]
    for move in route:
        page.keyboard.press(KEYS[move])
    notebook.wait_text(
        ".play", "You are on E: completion 1.00, gold 1.00, diamond 0.00, avoid_lava 1.00"
    )
    assert notebook.kernel("print(player.route)").strip() == route
    page.keyboard.press("Backspace")
    assert len(route) == maze.budget
    notebook.wait_text(".play", "1 move left")
    page.keyboard.press(KEYS["L"])  # away from E, with the last step
    notebook.wait_text(".play", "0 moves left: this route misses E and earns four zeros")
    page.locator(".play button", has_text="again").click()
    page.locator(".play button", has_text="up").click()
    notebook.wait_text(".play", f"{maze.budget - 1} moves left")
    assert page.locator(".play svg circle").count() > 0

    # a wall on the square before E, by a click: the board, the table and Python agree
    notebook.look_at(".vpo-board")
    board = page.locator(".vpo-board")
    board.locator("button.edit").click()
    board.locator("button", has_text="wall").click()
    board.locator("svg.maze").scroll_into_view_if_needed()
    assert maze.symbol((0, 4)) == "."
    board.locator('svg.maze [data-r="0"][data-c="4"]').click()
    drawn = maze.text[:8] + "#" + maze.text[9:]
    front = envs.Maze.from_text(drawn, 18).pareto_front()
    notebook.wait_text(".vpo-board figcaption", f"{len(front)} best results")
    assert notebook.kernel("print(canvas.text)").strip() == drawn
    assert page.locator(".widget-html table tr").count() == 1 + len(front)


@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: path.stem)
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
    if path.stem == "03_the_maze":
        play_and_draw_by_hand(page)
    if "slider.observe" in path.read_text():
        page.look_at(".widget-readout")
        assert page.page.evaluate(NARROW) == 0, "sliders are cut off"
        said = page.kernel("knobs['m'].value = 1; print('in words:', told.value)")
        assert "Traceback" not in said and "K = 64" in said.partition("in words:")[2], said
    assert not page.wrong, page.wrong  # a widget that is still made while its kernel ends fails
    page.close()
