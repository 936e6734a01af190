"""The panel fits its window: what must be seen at once is, and nothing is cut off or overlaps.

Boxes and letters are measured in a real browser, in JupyterLab as it opens, with its side bar.
"""

import json
import time

import browser_harness as harness
import nbformat
import pytest

from vpo_lite.lab.layout import share_out

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SMALL, LARGE = (1280, 720), (1920, 1080)
SIZES = (SMALL, LARGE, (900, 720), (1100, 720), (1440, 900), (2560, 1440))
STAGE = "import ipywidgets\nfrom vpo_lite import Lab\nstage = ipywidgets.VBox()\nstage"
RECORDING = "Lab.replay('three_methods/seed-0')"
QUICK = "prompts=1, group_size=8, steps=3"
TRAINED = {  # number of methods -> a lab whose methods have trained three steps
    1: f"Lab('vpo', {QUICK})",
    2: f"Lab(('vpo', 'grpo'), {QUICK})",
}

# What is on the page: the part that shows, boxes {name: [left, top, right, bottom]}, texts that are
# cut off, and the smallest letters in pixels.
MEASURE = """() => {
  const lab = document.querySelector('.vpo-lab'), plot = lab.querySelector('.js-plotly-plot');
  const box = (e) => { const r = e.getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom]; };
  const seen = (e) => e.getClientRects().length && e.getBoundingClientRect().width > 1;
  const all = (selector, inside = lab) => [...inside.querySelectorAll(selector)].filter(seen);
  const join = (boxes) => [0, 1, 2, 3].map((i) =>
    Math[i < 2 ? 'min' : 'max'](...boxes.map((b) => b[i])));
  const page = lab.closest('.jp-WindowedPanel-outer') || document.documentElement;
  const [left, top, right] = page === document.documentElement ? [0, 0, 0] : box(page);
  const view = [left, top, left + page.clientWidth, top + page.clientHeight];

  // the plots: their areas with title and axis titles
  const layout = plot._fullLayout, [x0, y0] = box(plot.querySelector('.main-svg'));
  const titles = all('.annotation text', plot).map(box), plots = {};
  const area = (x, y) => [x0 + x._offset, y0 + y._offset,
    x0 + x._offset + x._length, y0 + y._offset + y._length];
  for (const [name, n] of [['answers', ''], ['coverage', '2'], ['second', '3'], ['search', '4']]) {
    const own = area(layout[`xaxis${n}`], layout[`yaxis${n}`]);
    const above = titles.filter((t) => Math.abs(t[0] - own[0]) < 8 && t[3] < own[1] + 2 &&
      own[1] - t[3] < 40);
    plots[name] = join([own, ...above, ...all(`.g-x${n}title, .g-y${n}title`, plot).map(box)]);
  }
  plots.simplex = join(all('.ternary .toplevel, .ternarylayer', plot).map(box));

  const boards = all('.vpo-board figure').map(box), mazes = all('svg.maze').map(box);
  const controls = all(
    '.vpo-controls .widget-inline-hbox:not(.widget-play), .vpo-controls button').map(box);
  const texts = all('text', plot.querySelector('.svg-container')).filter((e) =>
    e.textContent.trim()).map((e) => [e.textContent.slice(0, 40), ...box(e)]);

  // what is cut off
  const cut = [], pen = document.createElement('canvas').getContext('2d');
  for (const e of all('.widget-label, .widget-readout, button, .what, figcaption, .share b')) {
    if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')
      cut.push(e.textContent);
  }
  for (const e of all('.share b')) {
    const range = document.createRange(); range.selectNodeContents(e);
    if (range.getBoundingClientRect().width > e.clientWidth - 2) cut.push(e.textContent);
  }
  for (const e of all('select')) {
    const style = getComputedStyle(e);
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const text = e.selectedOptions[0]?.textContent || '';
    if (!text || pen.measureText(text).width + 22 > e.clientWidth) cut.push(`choice: ${text}`);
  }
  for (const e of all('svg.maze')) {
    const [l, t, r, b] = box(e);
    for (const word of all('text', e)) {
      const w = box(word);
      if (w[0] < l - 1 || w[1] < t - 3 || w[2] > r + 1 || w[3] > b + 3) cut.push(word.textContent);
    }
  }

  // letters
  const letters = [], walker = document.createTreeWalker(lab, NodeFilter.SHOW_TEXT);
  const size = (e) => parseFloat(getComputedStyle(e).fontSize) *
    (e instanceof SVGElement ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || !seen(e)) continue;
    if (e.closest('style, option, .unseen, .modebar')) continue;
    letters.push([size(e), walker.currentNode.nodeValue.slice(0, 40)]);
  }
  for (const e of all('select, input:not([type=checkbox])')) letters.push([size(e), e.value]);
  letters.sort((a, b) => a[0] - b[0]);
  const others = { figure: box(plot.querySelector('.main-svg')) };
  all('.vpo-words').forEach((e) => { others.words = box(e); });
  others.status = box(lab.querySelector('.vpo-status'));
  return { view, plots, boards, mazes, controls, texts, cut, letters: letters.slice(0, 6), others,
    wide: page.scrollWidth - page.clientWidth,
    room: lab.clientWidth, figure: layout.width, large: lab.classList.contains('vpo-large') };
}"""


def notebook(folder, name, code):
    cells = [nbformat.v4.new_code_cell(code), nbformat.v4.new_markdown_cell("below\n\n" * 60)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path = folder / name
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("screen")


@pytest.fixture(scope="module")
def browser():
    with harness.browser(*SMALL) as context:
        yield context


@pytest.fixture(scope="module")
def page(folder, browser):
    """One notebook with an empty stage, on which each test puts its lab."""
    stage = notebook(folder, "stage.ipynb", STAGE)
    with harness.server([stage]) as address:
        page = harness.Page(browser, address).open(stage.name)
        page.run_all()
        yield page
        page.close()
        assert not page.wrong, page.wrong


def put(page, lab, trained=False):
    """This lab alone on the stage, after training where that is asked."""
    code = f"stage.children = []\nlab = {lab}\nstage.children = [lab.panel.box]\n"
    code += "lab.train(); print(lab.join(120), lab.last_error)" if trained else "print(True, None)"
    assert page.kernel(code).strip() == "True None"
    page.page.wait_for_selector(".vpo-board svg.maze")
    page.page.wait_for_selector(".js-plotly-plot .main-svg")


STATE = """panel, board = lab.panel, lab.panel.board
lengths = [(t.name, len(t.x)) for t in panel.plots.figure.data if getattr(t, 'x', None)]
print(lab.state, board.room, panel.status.value, lengths)"""
IN_PAGE = """() => [...document.querySelectorAll('.js-plotly-plot')].map((plot) =>
  plot.data.map((t) => [t.name, (t.x || []).length].join(' ')).join())"""


def wait(page, condition, argument=None):
    """Until this is so in the page; if it never is, say what kernel and page hold."""
    from playwright.sync_api import TimeoutError

    try:
        page.page.wait_for_function(condition, arg=argument)
    except TimeoutError as error:
        found = f"in the kernel: {page.kernel(STATE)}, in the page: {page.page.evaluate(IN_PAGE)}"
        raise AssertionError(f"never came: {condition}; {found}") from error


def measure(page, size):
    """What `MEASURE` says in a window of this size, once the page has come to rest."""
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    page.page.evaluate("() => document.querySelector('.vpo-lab').scrollIntoView()")
    before, drawn, end = None, page.page.evaluate(MEASURE), time.monotonic() + 60
    while drawn != before or not answered(drawn):
        assert time.monotonic() < end, f"no rest at {size}: {drawn['room']}, {drawn['figure']}"
        page.page.wait_for_timeout(100)
        before, drawn = drawn, page.page.evaluate(MEASURE)
    return drawn


def answered(drawn):
    """Whether the kernel has given the plots the width that is theirs in this window."""
    room = share_out(drawn["room"] - 8, len(drawn["boards"]), drawn["large"])
    return drawn["figure"] == room.plots


def inside(box, frame, slack=1.0):
    left, top, right, bottom = frame
    return (
        box[0] >= left - slack
        and box[1] >= top - slack
        and box[2] <= right + slack
        and box[3] <= bottom + slack
    )


def meet(a, b, slack=1.0):
    return min(a[2], b[2]) - max(a[0], b[0]) > slack and min(a[3], b[3]) - max(a[1], b[1]) > slack


def faults(drawn):
    """What is cut off, or lies on something else."""
    out = [f"cut off: {text!r}" for text in drawn["cut"]]
    across = [drawn["view"][0], -1e9, drawn["view"][2], 1e9]
    boxes = {f"board {i}": box for i, box in enumerate(drawn["boards"])}
    boxes |= {f"control {i}": box for i, box in enumerate(drawn["controls"])} | drawn["others"]
    names = list(boxes)
    out += [f"{name} leaves the window" for name in names if not inside(boxes[name], across)]
    for i, a in enumerate(names):
        out += [f"{a} lies on {b}" for b in names[i + 1 :] if meet(boxes[a], boxes[b])]
    texts = [(text, box) for text, *box in drawn["texts"]]
    for i, (text, box) in enumerate(texts):
        if not inside(box, drawn["others"]["figure"], 2):
            out.append(f"{text!r} leaves the figure")
        # a text's box is some pixels higher than its letters
        out += [f"{text!r} lies on {other!r}" for other, b in texts[i + 1 :] if meet(box, b, 5)]
    return out + ["the page is wider than its window"] * (drawn["wide"] > 1)


def must_be_seen(drawn, size):
    """The names of what must be seen at once in a window of this size, and is not."""
    plots = ("answers", "coverage") if size == SMALL else tuple(drawn["plots"])
    parts = {name: drawn["plots"][name] for name in plots}
    parts |= {f"board {i}": box for i, box in enumerate(drawn["boards"])}
    parts |= {f"control {i}": box for i, box in enumerate(drawn["controls"])}
    assert drawn["boards"] and len(drawn["controls"]) >= 11
    return [name for name, box in parts.items() if not inside(box, drawn["view"])]


def check(page, boards, sizes=SIZES, large=False):
    """All sizes; then those that matter with large letters, without and with More."""
    wrong = []
    for size in sizes:
        drawn = measure(page, size)
        assert len(drawn["boards"]) == boards
        wrong += [(size, fault) for fault in faults(drawn)]
        if size in (SMALL, LARGE):
            wrong += [(size, f"{name} is not in sight") for name in must_be_seen(drawn, size)]
    for more in (False, True) if large else ():
        page.kernel(
            f"lab.panel.controls.large.value = True; lab.panel.controls.more.value = {more}"
        )
        page.page.wait_for_selector(".vpo-lab.vpo-large .vpo-board.large")
        for size in (SMALL, LARGE):
            drawn = measure(page, size)
            said = (size, "large", "More" if more else "")
            wrong += [(*said, f"{text!r}: {px}") for px, text in drawn["letters"] if px < 15.99]
            wrong += [(*said, fault) for fault in faults(drawn)]
            if boards == 1 and not more:
                wrong += [(*said, text) for text in large_out_of_sight(drawn)]
    assert not wrong, "\n".join(map(str, wrong))


def large_out_of_sight(drawn):
    """With large letters: the whole maze, and beside it most of the curve that training moves."""
    (maze,), coverage, bottom = drawn["mazes"], drawn["plots"]["coverage"], drawn["view"][3]
    if maze[3] > bottom:
        yield f"{maze[3] - bottom:.0f} pixels of the maze are not in sight"
    if bottom - coverage[1] < 0.7 * (coverage[3] - coverage[1]):
        yield "most of the coverage is not in sight"


def test_before_training(page):
    put(page, "Lab()")
    drawn = measure(page, SMALL)
    _, top, _, bottom = drawn["plots"]["simplex"]
    assert drawn["view"][3] - top > 0.4 * (bottom - top), (
        "on the triangle one sees K, and only there"
    )
    check(page, boards=1, large=True)
    page.kernel("lab.panel.controls.large.value = False; lab.change(lr=0.0015)")
    page.page.wait_for_selector(".vpo-lab:not(.vpo-large) .vpo-lr .widget-readout >> text=0.0015")
    assert not faults(measure(page, SMALL)), "with More open"


ROWS = """() => {
  const page = document.querySelector('.vpo-lab').closest('.jp-WindowedPanel-outer');
  const boxes = [...document.querySelectorAll('.vpo-lab .vpo-controls > * > *')]
    .map((e) => e.getBoundingClientRect()).filter((box) => box.width);
  const middles = boxes.map((box) => (box.top + box.bottom) / 2).sort((a, b) => a - b);
  const more = document.querySelector('.vpo-status').getBoundingClientRect().top;
  return [middles.filter((y, i) => !i || y - middles[i - 1] > 8).length,
    (more - page.getBoundingClientRect().top) / page.clientHeight]; }"""


def test_large_letters_leave_the_window_to_the_pictures(page):
    """More had a row of its own; at a zoom of 150 % the controls filled the window."""
    put(page, "Lab()")
    page.kernel("lab.panel.controls.large.value = True")
    page.page.wait_for_selector(".vpo-lab.vpo-large .vpo-board.large")
    measure(page, SMALL)
    assert page.page.evaluate(ROWS)[0] == 2
    zoomed = SMALL[0] * 2 // 3, SMALL[1] * 2 // 3
    assert not faults(measure(page, zoomed))
    rows, part = page.page.evaluate(ROWS)
    assert rows == 4 and part < 0.5


WIDTHS = """() => { const wide = (s) => [...document.querySelectorAll(`.vpo-lab ${s}`)]
    .filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect().width);
  return { lines: wide('.vpo-controls > .widget-hbox:first-child .noUi-target'),
    train: wide('button.vpo-train'), maze: wide('.vpo-maze select') }; }"""


def test_large_letters_leave_the_sliders_room(page):
    """Their lines were 45 to 80 pixels long: three for each value of alpha."""
    put(page, "Lab()")
    page.kernel("lab.panel.controls.large.value = True")
    page.page.wait_for_selector(".vpo-lab.vpo-large .vpo-board.large")
    measure(page, SMALL)
    lines = page.page.evaluate(WIDTHS)["lines"]
    assert len(lines) == 3 and min(lines) > 110, lines
    handle = page.page.locator(".vpo-alpha .noUi-handle").bounding_box()
    assert handle["width"] == handle["height"] == 24
    page.kernel("lab.change(methods=('vpo', 'grpo', 'multi_rlvr'))")  # the longest choice
    drawn = measure(page, SMALL)
    lines = page.page.evaluate(WIDTHS)["lines"]
    assert min(lines) > 60 and not faults(drawn), lines
    page.kernel("lab.panel.controls.more.value = True")
    measure(page, SMALL)
    columns = page.page.evaluate("""() => new Set([...document.querySelectorAll(
      '.vpo-judge, .vpo-routes, .vpo-layout')].map((e) => e.getBoundingClientRect().left)).size""")
    assert columns == 2, "More was one column, as high as the window"


@pytest.mark.parametrize("large", [False, True])
def test_no_control_moves_when_train_becomes_train_anew(page, large):
    put(page, f"Lab('vpo', {QUICK})", trained=True)
    page.kernel(f"lab.panel.controls.large.value = {large}")
    page.page.wait_for_selector(f".vpo-lab{'.vpo-large' * large} .vpo-board{'.large' * large}")
    before = measure(page, SMALL)["controls"]
    for code, text in (("lab.change(seed=1)", "Train anew"), ("lab.step()", "Go on")):
        page.kernel(code + "; lab.join(60)")
        page.page.wait_for_selector(f"button.vpo-train:enabled >> text={text}")
        after = measure(page, SMALL)["controls"]
        assert after[:11] == before[:11], text  # all but those of time


@pytest.mark.parametrize("large", [False, True])
def test_no_control_moves_and_the_keyboard_stays_when_reset_becomes_bring_back(page, large):
    put(page, "Lab.replay('few_weights/K-1')")
    page.kernel(f"lab.panel.controls.large.value = {large}")
    page.page.wait_for_selector(f".vpo-lab{'.vpo-large' * large} .vpo-board{'.large' * large}")
    before = measure(page, SMALL)["controls"]
    page.page.focus("button.vpo-reset")
    for said, text in (("ready", "Bring back"), ("a recording", "Reset"), ("ready", "Bring back")):
        page.page.keyboard.press("Enter")
        page.wait_text(".vpo-status", said)
        page.page.wait_for_selector(f"button.vpo-reset >> text={text}")
        drawn = measure(page, SMALL)
        assert drawn["controls"][:11] == before[:11] and not faults(drawn), text
        assert page.page.evaluate("() => document.activeElement.matches('.vpo-reset')")


DOTS = """() => {
  const edge = document.querySelector('.vpo-status .vpo-line').parentElement
    .getBoundingClientRect().left, dots = [...document.querySelectorAll('.vpo-status .vpo-dot')];
  const seen = dots.filter((e) => e.getBoundingClientRect().right > edge + 1);
  const ends = seen.filter((e) => { const part = e.parentElement.getBoundingClientRect();
    return part.left < edge - 1; });
  return [dots.length, seen.length, ends.length]; }"""


def test_no_line_of_the_status_begins_or_ends_with_a_dot(page):
    put(page, "Lab()")
    page.kernel("lab.panel.controls.large.value = True")
    page.page.wait_for_selector(".vpo-lab.vpo-large .vpo-board.large")
    measure(page, SMALL)
    assert page.page.evaluate(DOTS) == [2, 2, 0], "method, state and maze fit"
    page.kernel("lab.new_maze('alpha in training')")  # what to look for takes three lines
    page.wait_text(".vpo-status", "by chance")
    measure(page, SMALL)
    assert page.page.evaluate(DOTS) == [3, 2, 0]
    assert page.page.evaluate(
        "() => document.querySelector('.vpo-status').innerText.includes("
        "'VPO ·\\u00a0ready ·\\u00a0maze 1217')"
    )


MODEBAR = """() => { const box = (e) => e.getBoundingClientRect();
  const plot = document.querySelector('.vpo-lab .js-plotly-plot');
  const bar = [...plot.querySelectorAll('.modebar-btn')].map(box);
  const texts = [...plot.querySelectorAll('text')].filter((e) => e.textContent.trim()).map(box);
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return [bar.length, texts.filter((text) => bar.some((button) => meet(text, button))).length]; }"""


@pytest.mark.parametrize("large", [False, True])
def test_the_toolbar_of_the_plots_lies_on_no_text(page, large):
    """Its nine buttons lay on the legend from three methods on."""
    put(page, RECORDING)
    page.kernel(f"lab.panel.controls.large.value = {large}")
    page.page.wait_for_selector(f".vpo-lab{'.vpo-large' * large} .vpo-board{'.large' * large}")
    for size in (SMALL, (1440, 900)):
        measure(page, size)
        page.page.hover(".vpo-lab .js-plotly-plot")
        assert page.page.evaluate(MODEBAR) == [2, 0], size


@pytest.mark.long
def test_a_recording_of_three_methods(page):
    put(page, RECORDING)
    check(page, boards=3, large=True)


@pytest.mark.parametrize("methods", [pytest.param(1, marks=pytest.mark.long), 2])
def test_after_training(page, methods):
    put(page, TRAINED[methods], trained=True)
    check(page, boards=methods, sizes=(SMALL, LARGE), large=methods <= 2)
    page.kernel("lab.change(K=128)")
    page.wait_text(".vpo-status", "K = 128: correlation")
    _, top, _, bottom = measure(page, SMALL)["others"]["status"]
    assert bottom - top < 30, "a second line, with large letters"


BOARD_AT = """() => { const top = (s) => document.querySelector(s).getBoundingClientRect().top;
  return top('.vpo-board figure') - top('.vpo-lab'); }"""


@pytest.mark.parametrize("large", [False, True])
def test_the_board_stays_where_it_is_when_training_begins_changes_and_ends(page, large):
    """Else the eye loses the route that it follows, at each press of Train and Stop."""
    put(page, "Lab('vpo', prompts=1, group_size=8, steps=100)")
    page.kernel(f"lab.panel.controls.large.value = {large}")
    page.page.wait_for_selector(f".vpo-lab{'.vpo-large' * large} .vpo-board{'.large' * large}")
    measure(page, SMALL)
    places = [page.page.evaluate(BOARD_AT)]
    page.page.click("button.vpo-train")
    page.wait_text(".vpo-status", "step 2")
    places.append(page.page.evaluate(BOARD_AT))
    page.kernel("lab.change(methods='grpo')")
    page.wait_text(".vpo-status", "Train anew")
    places.append(page.page.evaluate(BOARD_AT))
    page.page.click("button.vpo-pause")
    page.wait_text(".vpo-status", "paused")
    page.page.wait_for_selector(".vpo-look", state="visible")
    page.page.wait_for_selector(".vpo-progress", state="hidden")  # a message later
    places.append(page.page.evaluate(BOARD_AT))
    page.kernel("lab.change(methods='vpo')")
    page.page.click("button.vpo-stop")
    page.page.wait_for_selector(".vpo-look", state="visible")
    page.page.wait_for_selector(".vpo-progress", state="hidden")  # a message later
    page.wait_text(".vpo-status", "stopped")
    measure(page, SMALL)
    places.append(page.page.evaluate(BOARD_AT))
    assert max(places) - min(places) < 1.5, places


@pytest.mark.long
def test_an_earlier_run_stays_as_a_faint_curve(page):
    put(page, TRAINED[1], trained=True)
    first = page.kernel("print([r.coverage for r in lab.records])")
    code = "lab.change(alpha=0.3); lab.train(); print(lab.join(120), lab.last_error)"
    assert page.kernel(code).strip() == "True None"
    find = "document.querySelector('.js-plotly-plot').data.find((t) => t.name === 'earlier 0 0')"
    wait(page, f"() => Array.from({find}?.x || []).length === 3")
    curve = page.page.evaluate(
        f"() => {{ const t = {find}; return [t.opacity, t.hovertemplate]; }}"
    )
    assert curve[0] < 0.5 and "VPO before: α 1, K 64, m 3" in curve[1]
    page.kernel("lab.show(alpha=1.0)")  # judged as its records judged it
    said = json.loads(first)
    wait(
        page, f"(said) => Array.from({find}.y).every((y, i) => Math.abs(y - said[i]) < 1e-9)", said
    )


def test_a_figure_changes_although_its_module_loads_slowly(page):
    """anywidget passes nothing on to a widget whose module takes more than two seconds."""
    page.kernel("""
from vpo_lite.figures.parts import live
slow = live(data=[dict(type="scatter", x=[0], y=[0], name="slow")])
slow._bundle = "await new Promise((r) => setTimeout(r, 2500));" + slow._bundle
stage.children = [slow]""")
    page.page.wait_for_selector(".js-plotly-plot .main-svg")
    page.kernel("slow.data[0].update(x=[1, 2, 3], y=[1, 2, 3])")
    plot = "document.querySelector('.js-plotly-plot')"
    page.page.wait_for_function(f"() => {plot}.data[0].x.length === 3")
    assert page.kernel("print(slow._js2py_traceDeltas)").strip() == "{}", "no view reports"


TEXTS = """() => { const plot = document.querySelector('.js-plotly-plot');
  return plot.data.filter((t) => /^answers|^VPO|^GRPO|^Multi/.test(t.name) && t.text).map((t) =>
    [Array.from(t.text), [...plot.querySelectorAll(`.trace${t.uid} text`)].map((e) =>
      e.textContent)].map((texts) => texts.filter((text) => text.trim()).join())); }"""


@pytest.mark.long
def test_the_texts_beside_points_stay_when_the_points_change(page):
    """The share that misses E: its point stands elsewhere in the list after each step."""
    put(page, RECORDING)
    seen = set()
    for step in range(1, 13):
        page.kernel(f"lab.look({step})")
        page.wait_text(".vpo-status", f"step {step} of 40")
        page.page.wait_for_function(f"() => ({TEXTS})().every(([said, drawn]) => said === drawn)")
        seen |= {said for said, _ in page.page.evaluate(TEXTS)} - {""}
    assert len(seen) > 12


@pytest.mark.long
def test_a_narrow_window_with_large_letters_cuts_no_answer(page):
    put(page, RECORDING)
    page.kernel("lab.panel.controls.large.value = True")
    page.page.wait_for_selector(".vpo-board.large")
    drawn = measure(page, (640, 800))
    assert drawn["others"]["figure"][2] - drawn["others"]["figure"][0] < 320, "the side bar is open"
    wrong = [fault for fault in faults(drawn) if "choice: " not in fault]
    assert len(drawn["boards"]) == 3 and not wrong, wrong


@pytest.mark.long
def test_forced_colours_leave_the_controls_an_edge(page):
    """The system then takes away all backgrounds: of tracks of sliders, and of buttons."""
    put(page, "Lab()")
    page.page.emulate_media(forced_colors="active")
    edges = page.page.evaluate("""() => [...document.querySelectorAll(
      '.vpo-lab .noUi-target, .vpo-controls button')].map((e) => getComputedStyle(e))
      .map((style) => [style.borderTopWidth, style.borderTopStyle])""")
    page.page.emulate_media(forced_colors="none")
    assert len(edges) > 10 and {tuple(edge) for edge in edges} == {("1px", "solid")}


@pytest.mark.long
def test_the_same_under_voila(folder, browser):
    path = notebook(folder, "voila.ipynb", f"from vpo_lite import Lab\nlab = {RECORDING}\nlab")
    with harness.server([path], command="voila") as address:
        page = harness.Page(browser, address).open_voila(path.name)
        page.page.wait_for_selector(".vpo-board svg.maze")
        page.page.wait_for_selector(".js-plotly-plot .main-svg")
        check(page, boards=3, sizes=(SMALL, LARGE, (900, 720)))
        page.page.emulate_media(media="print")
        whole, panel = page.page.evaluate("""() => [document.documentElement.scrollHeight,
          document.querySelector('.vpo-lab').getBoundingClientRect().height]""")
        assert whole > panel > 800, "a printed page has all of the panel"
        page.page.close()


def test_a_maze_that_somebody_draws_has_its_tools_in_sight(page):
    """They stood below the board, and so did why a square could not be painted."""
    page.kernel("""
import envs
from vpo_lite.lab.player import Canvas
stage.children = [Canvas(envs.generate("lite-6x6", 1000))]""")
    page.page.set_viewport_size(dict(zip(("width", "height"), SMALL, strict=True)))
    page.page.click(".vpo-canvas button.edit")
    page.page.click(".vpo-canvas button[data-tool='.']")
    page.page.evaluate("() => document.querySelector('.vpo-canvas').scrollIntoView()")
    page.page.locator(".vpo-canvas svg.maze").click(position={"x": 60, "y": 60})  # E
    page.wait_text(".vpo-canvas .note", "E can be moved")
    for part in ("svg.maze", "button.edit", ".note", "button[data-tool='E']"):
        box = page.page.locator(f".vpo-canvas {part}").bounding_box()
        assert 0 < box["y"] and box["y"] + box["height"] < SMALL[1] - 30, part
