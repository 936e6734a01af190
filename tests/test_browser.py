"""The panel in a real browser, offline. Asserts are on the page's own data, never on pixels."""

import time
from pathlib import Path

import browser_harness as harness
import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
START = NOTEBOOKS / "00_start_here.ipynb"


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A copy of 00_start_here that ends at the panel."""
    notebook = nbformat.read(START, as_version=4)
    (panel,) = (i for i, c in enumerate(notebook.cells) if c.source.startswith("lab = Lab("))
    notebook.cells = notebook.cells[: panel + 1]
    path = tmp_path_factory.mktemp("short") / START.name
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def place(short):
    with harness.server([short], copies=1) as address, harness.browser() as context:
        yield context, address


@pytest.fixture(scope="module")
def opened(place):
    page = harness.Page(*place).open(START.name, "doc/tree")
    yield page
    page.close()


@pytest.fixture
def start(opened):
    """The notebook, run anew as far as the panel. One page and one kernel serve all tests.

    Fails after the test if the page saw an error or asked for anything outside.
    """
    opened.page.wait_for_function(harness.CONNECTED)
    opened.wrong.clear()
    opened.run_all()
    opened.page.wait_for_selector(".vpo-lab .js-plotly-plot .main-svg")
    opened.page.wait_for_selector(".vpo-board svg.maze")
    opened.look_at(".vpo-status")
    yield opened
    opened.kernel("lab.close()")
    opened.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    assert not opened.wrong, opened.wrong


DATA = "document.querySelector('.js-plotly-plot').data"
DOTS = f"""() => {{ const a = Array.from({DATA}.find((t) => t.name === 'weightings').a);
  return [a.length, a.reduce((sum, x) => sum + Math.abs(x - 1 / 3), 0)]; }}"""
STATUS = "document.querySelector('.vpo-status').innerText"
SHOWN_STEP = f"Number(({STATUS}.match(/step (\\d+) of/) || [])[1])"


def turn(page, name, key, times=1):
    page.page.locator(f".vpo-{name} .noUi-handle").focus()
    for _ in range(times):
        page.page.keyboard.press(key)


def beside(page, name):
    """The number that stands beside a slider."""
    return page.page.inner_text(f".vpo-{name} .widget-readout")


def test_idle_train_turn_stop_reset(start):
    page = start.page
    assert "The true front of this maze has" in start.text(".vpo-words")
    count, spread = page.evaluate(DOTS)
    assert count == 64
    turn(start, "alpha", "Home")
    readout = page.locator(".vpo-alpha .widget-readout").first
    assert beside(start, "alpha") == "0.05"
    assert readout.evaluate("(e) => e.scrollWidth <= e.clientWidth"), "the number is cut off"
    turn(start, "alpha", "ArrowRight", 7)  # the weights moved into the corners, untrained
    page.wait_for_function(f"() => ({DOTS})()[1] > {spread * 1.3}")
    assert beside(start, "alpha") == "0.25"
    start.wait_text(".vpo-words", "At α = 0.25 the best single answer")
    turn(start, "K", "ArrowRight")
    page.wait_for_function(f"() => ({DOTS})()[0] === 128")  # a dot for each drawn weight
    assert beside(start, "K") == "128"
    assert len(start.trace("best 3", "x", "x")) == 3, "rings of the best set"
    turn(start, "m", "ArrowLeft")
    page.wait_for_function(f"() => {DATA}.find((t) => t.name === 'best 2')?.x.length === 2")
    assert beside(start, "m") == "2"
    page.locator("button.vpo-train").click()
    start.wait_text(".vpo-status", "step 3 of 40")
    assert len(start.trace("VPO", "x2", "x")) >= 3 and start.text(".vpo-words").startswith(
        "VPO, step "
    )
    before = start.kernel("print(lab.config.alpha)")
    for name, times in (("alpha", 3), ("K", 1), ("m", 2)):
        turn(start, name, "ArrowRight", times)
    marks = f"{DATA}.find((t) => t.name === 'marks 0').text.join()"
    for mark in ("α 0.5", "K 256", "m 4"):
        page.wait_for_function(f"() => {marks}.includes('{mark}')")
    start.wait_text(".vpo-words", "sets of 4 cover")
    assert start.kernel("print(lab.config.alpha)") != before
    assert start.kernel("print(lab.records[0].alpha != lab.records[-1].alpha)").strip() == "True"
    page.locator("button.vpo-stop").click()
    start.wait_text(".vpo-status", "stopped")
    assert page.locator("button.vpo-stop").is_disabled()
    page.locator("button.vpo-reset").click()
    start.wait_text(".vpo-status", "ready")
    gone = "t.name !== 'VPO' || Array.from(t.x)[0] === null"
    page.wait_for_function(f"() => {DATA}.every((t) => {gone})")
    assert start.kernel("print(lab.last_error)").strip() == "None"


@pytest.mark.long
def test_the_stop_button_of_jupyterlab_stops_training(start):
    page = start.page
    page.locator("button.vpo-train").click()
    start.wait_text(".vpo-status", "step 2 of")
    page.locator('[data-jp-item-name="interrupt"]').click()
    start.wait_text(".vpo-status", "stopped")
    page.locator("button.vpo-train").click()
    start.wait_text(".vpo-status", "step 1 of")
    page.locator("button.vpo-stop").click()
    start.wait_text(".vpo-status", "stopped")


def test_no_pointer_is_told_null(start):
    """That is what a browser shows on a widget's name where the widget has no hint."""
    start.kernel("lab.panel.controls.knobs['seed'].tooltip = None")
    start.page.locator(".vpo-more").click()
    titles = """() => [...document.querySelectorAll('.jp-OutputArea-output [title]')]
      .filter((e) => e.getClientRects().length && e.textContent.trim())
      .map((e) => [e.title, e.textContent])"""
    start.page.wait_for_selector(".vpo-seed", state="visible")
    found = start.page.evaluate(titles)
    start.page.locator(".vpo-more").click()
    assert len(found) > 12 and not [text for title, text in found if title == "null"]


def test_the_keyboard_keeps_its_place_when_a_pressed_button_is_disabled(start):
    page = start.page
    focused = "document.activeElement.classList.contains"
    page.locator("button.vpo-train").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {focused}('vpo-pause')")
    start.wait_text(".vpo-status", "step 2 of")
    page.keyboard.press("Enter")
    start.wait_text(".vpo-status", "paused")
    page.wait_for_function(f"() => {focused}('vpo-train')")
    page.keyboard.press("Tab")  # from Train to Stop: Pause is disabled
    page.keyboard.press("Enter")
    start.wait_text(".vpo-status", "stopped")


def test_letters_on_the_controls_are_no_commands_of_the_notebook(start):
    """On the list of methods "m" made the panel's cell a text; on Train "x" cut it."""
    page = start.page
    cells = "() => [...document.querySelectorAll('.jp-Cell')].map((c) => c.className).join('|')"
    chosen = page.locator(".vpo-lab select").first
    before = page.evaluate(cells).count("jp-MarkdownCell"), page.locator(".jp-Cell").count()
    for place, keys in ((chosen, "am"), (page.locator("button.vpo-train"), "xdd")):
        place.focus()
        for key in keys:
            page.keyboard.press(key)
    for place in (chosen, page.locator("button.vpo-more"), page.locator(".vpo-lab svg.maze").first):
        place.focus()
        page.keyboard.press("ArrowDown")  # it went to the cell below, not to the next method
        assert place.evaluate("(e) => e === document.activeElement")
    now = page.evaluate(cells).count("jp-MarkdownCell"), page.locator(".jp-Cell").count()
    assert now == before and page.locator(".vpo-lab").count() == 1


def test_a_click_beside_a_handle_gives_the_keyboard_to_its_slider(start):
    """The notebook had it: an arrow then went to another cell."""
    page = start.page
    focused = "(name) => document.activeElement.matches(`.vpo-${name} .noUi-handle`)"
    active = """() => [...document.querySelectorAll('.jp-Cell')].findIndex((cell) =>
      cell.matches('.jp-mod-active'))"""
    start.kernel("lab.change(methods='grpo')")
    page.wait_for_selector(".vpo-K [disabled]", state="attached")
    start.look_at(".vpo-lab")
    for name in ("alpha", "K"):  # which rests: there the arrow scrolls the page
        box = page.locator(f".vpo-{name} .noUi-target").bounding_box()
        page.mouse.click(box["x"] + 5, box["y"] - 8)  # the line is four pixels high
        assert page.evaluate(focused, name), name
        before = page.evaluate(active)
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused, name) and page.evaluate(active) == before
    values = start.kernel("print(lab.config.K, lab.config.alpha)").split()
    assert values == ["64", "0.05"], "K rests; a click at the left end of alpha's line"
    page.locator(".vpo-m .widget-readout").click()
    assert page.evaluate("() => document.activeElement.matches('.vpo-m .widget-readout')")


def test_stop_right_after_train_counts(start):
    """The button stayed disabled until the kernel had drawn: half a second in which it was lost."""
    start.page.evaluate("""() => { document.querySelector('button.vpo-train').click();
      document.querySelector('button.vpo-stop').click(); }""")
    start.wait_text(".vpo-status", "stopped")
    assert start.kernel("print(lab.join(60), lab.state, lab.last_error)").split() == [
        *("True", "stopped", "None")
    ]
    start.page.wait_for_selector("button.vpo-stop:disabled")


@pytest.mark.long
def test_run_all_twice_and_a_cell_out_of_order_leave_one_panel_training(start):
    start.kernel("old = lab; old.train()")
    start.wait_text(".vpo-status", "step 1 of")
    start.run_all()
    start.look_at(".vpo-status")
    assert start.kernel("print(old.join(60), old.state)").strip() == "True paused"
    start.kernel("lab.train()")
    start.wait_text(".vpo-status", "step 1 of")
    names = "[t.name for t in threading.enumerate()]"
    code = f"import threading; print({names}.count('vpo-lite training'))"
    assert start.kernel(code).strip() == "1"
    start.kernel("lab.stop(); lab.join(60); old.close()")


def test_painting_by_click_and_by_keyboard(start):
    page = start.page
    maze = start.kernel("print(lab.maze.text)").strip()
    page.locator(".vpo-board button.edit").first.click()
    rows = [line.split() for line in maze.split("\n")]
    row, column = next(
        (r, c) for r, line in enumerate(rows) for c, s in enumerate(line) if s == "."
    )
    page.locator(f'.vpo-board svg.maze [data-r="{row}"][data-c="{column}"]').first.click()
    start.wait_text(".vpo-status", "your maze")
    walls = f"print(lab.maze.text.split().count('#'), lab.maze.symbol(({row}, {column})))"
    assert start.kernel(walls).split() == [str(maze.split().count("#") + 1), "#"]
    page.locator(".vpo-board svg.maze").first.focus()
    page.keyboard.press("g")
    square = f"dataset.text.split('\\n')[{row}].split(' ')[{column}]"
    page.wait_for_function(f"() => document.querySelector('.vpo-board').{square} === 'G'")
    deadline = time.monotonic() + 30  # the page shows its proposal before the kernel has taken it
    while start.kernel(walls).split()[1] != "G" and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert start.kernel(walls).split()[1] == "G"
    gold = start.kernel("print(*lab.maze.pareto_front().rewards[:, 1])").split()
    page.wait_for_function(f"() => {DATA}[0].x.length === {len(gold)}")
    assert start.trace("true front", "x", "x") == [float(x) for x in gold], (
        "the front of the painted maze"
    )
    start.wait_text(".vpo-board .note", "gold")
    page.keyboard.press("ArrowUp" if row else "ArrowDown")
    next_row = row - 1 if row else 1
    start.wait_text(".vpo-board .note", f"{chr(97 + column)}{next_row + 1}: ")


@pytest.mark.long
def test_a_wall_in_front_of_the_exit_is_refused_in_words(start):
    start.kernel("lab.set_maze('S . E\\n# # #\\nG . D')")
    start.wait_text(".vpo-status", "your maze")
    page = start.page
    page.locator(".vpo-board button.edit").first.click()
    page.locator('.vpo-board svg.maze [data-r="0"][data-c="1"]').first.click()
    start.wait_text(".vpo-board .note", "no path from S")
    assert start.kernel("print(lab.maze.text.splitlines()[0])").strip() == "S . E"
    page.wait_for_function(
        "() => document.querySelector('.vpo-board').dataset.text.startsWith('S . E')"
    )


@pytest.mark.long
def test_reload_during_training_brings_the_panel_back(start):
    page = start.page
    page.locator("button.vpo-train").click()
    start.wait_text(".vpo-status", "step 2 of")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    start.reload(".vpo-status").look_at(".vpo-status")
    page.wait_for_selector(".vpo-board svg.maze")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    steps = start.trace("VPO", "x2", "x")
    assert len(steps) >= 2, "the curve as it is now, not as it was when the cell ran"
    page.wait_for_function(f"() => {SHOWN_STEP} > {len(steps) + 1}")
    # status and curve come in messages of their own: the curve may follow a moment later
    deadline = time.monotonic() + 30
    while len(start.trace("VPO", "x2", "x")) <= len(steps) and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert len(start.trace("VPO", "x2", "x")) > len(steps)
    page.wait_for_function(harness.CONNECTED)
    page.locator("button.vpo-stop").click()
    start.wait_text(".vpo-status", "stopped")


RUN_AGAIN = """async () => {
  const book = window.jupyterapp.shell.currentWidget.content, shared = book.model.sharedModel;
  shared.insertCell(shared.cells.length, {cell_type: 'code', source: 'lab'});
  book.activeCellIndex = shared.cells.length - 1;
  for (let i = 0; i < 2; i++) await window.jupyterapp.commands.execute('notebook:run-cell');
  book.activeCell.node.scrollIntoView(); }"""
WITHOUT_IT = """() => {
  const shared = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
  shared.deleteCell(shared.cells.length - 1); }"""


@pytest.mark.long
def test_a_cell_that_shows_the_panel_is_run_again_and_its_plots_go_on(start):
    """The view that the first run made is removed. It must not keep the others from hearing."""
    page = start.page
    page.evaluate(RUN_AGAIN)
    page.wait_for_function("() => document.querySelectorAll('.vpo-alpha').length === 2")
    plots = (
        "[...document.querySelectorAll('.jp-OutputArea-output:has(.vpo-alpha) .js-plotly-plot')]"
    )
    page.wait_for_function(f"() => {plots}.filter((e) => e.data?.length).length === 2")
    spreads = f"{plots}.map((e) => ({DOTS.replace(DATA, 'e.data')})()[1])"
    before = page.evaluate(spreads)
    page.locator(".vpo-alpha .noUi-handle").last.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => {spreads}.every((s) => s > {before[0] * 1.3})")
    page.evaluate(WITHOUT_IT)


RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


@pytest.mark.long
def test_after_a_restart_the_panel_says_to_run_its_cell_again(start):
    page = start.page
    page.evaluate(RESTART)
    page.wait_for_selector(".vpo-lab.jupyter-widgets-disconnected", state="attached")
    parts = page.locator(".vpo-lab > *")
    assert parts.count() > 3 and not any(part.is_visible() for part in parts.all())
    said = "getComputedStyle(document.querySelector('.vpo-lab'), '::before').content"
    assert "then its cell again" in page.evaluate(said)
    page.wait_for_function(harness.CONNECTED)
    start.run_all()
    page.wait_for_selector(".vpo-board svg.maze")
    assert "The kernel stopped" not in page.evaluate(said)


@pytest.mark.long
def test_a_second_browser_takes_over_the_panel_that_a_first_left(place):
    """The kernel lives on. It also holds a closed panel: if one widget of it were left that named a
    closed one, the second browser would stay at "Loading widget..." for all panels.
    """
    context, address = place
    name = f"{START.stem}-1.ipynb"
    first = harness.Page(context, address).open(name, "doc/tree")
    first.run_all()
    first.page.wait_for_selector(".vpo-board svg.maze")
    first.look_at(".vpo-status")
    first.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    first.kernel("gone = Lab(); gone.panel; gone.close()")
    first.kernel("lab.train(steps=100)")
    first.wait_text(".vpo-status", "step 1 of")
    first.page.close()

    second = harness.Page(context, address).open(name, "doc/tree")
    page = second.page
    second.look_at(".vpo-status")
    page.wait_for_selector(".vpo-board svg.maze")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    steps = len(second.trace("VPO", "x2", "x"))
    page.wait_for_function(f"() => {DATA}.find((t) => t.name === 'VPO' && t.x.length > {steps})")
    page.locator("button.vpo-stop").click()
    second.wait_text(".vpo-status", "stopped")
    _, spread = page.evaluate(DOTS)
    turn(second, "alpha", "ArrowLeft", 12)
    page.wait_for_function(f"() => ({DOTS})()[1] > {spread * 1.3}")
    second.kernel("lab.close()")
    second.wait_text(".jp-OutputArea", "This panel was closed")
    page.close()

    third = harness.Page(context, address).open(name, "doc/tree")
    third.wait_text(".jp-OutputArea", "This panel was closed")
    third.kernel("pass")  # what the page asked of the kernel at its start is answered before
    third.close()
    assert not first.wrong + second.wrong + third.wrong


@pytest.mark.long
def test_the_same_panel_under_voila(place, short):
    with harness.server([short], command="voila") as address:
        voila = harness.Page(place[0], address).open_voila(START.name)
        page = voila.page
        page.wait_for_selector(".vpo-board svg.maze")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        _, spread = page.evaluate(DOTS)
        turn(voila, "alpha", "ArrowLeft", 12)
        page.wait_for_function(f"() => ({DOTS})()[1] > {spread * 1.3}")
        page.locator("button.vpo-train").click()
        voila.wait_text(".vpo-status", "step 2 of 40")
        assert len(voila.trace("VPO", "x2", "x")) >= 2
        page.locator("button.vpo-stop").click()
        voila.wait_text(".vpo-status", "stopped")
        page.close()
        assert not voila.wrong
