"""What a reader finds who sees colours otherwise, sees nothing, or uses no pointer.

Colours are read from the sources. The bars are those of WCAG 2.2: text stands out 4.5 to 1 from its
background (1.4.3), what is drawn 3 to 1 (1.4.11).
"""

import dataclasses
import itertools
import re
import time

import browser_harness as harness
import nbformat
import numpy as np
import plotly.graph_objects as go
import pytest
import test_evolution_figures
import test_figures
import test_search_figures
from colour_vision import SEEN, linear
from recorded import replayed
from test_looks import distance

import envs
from envs.drawing import _LETTER_COLOURS as LETTER_COLOURS
from envs.drawing import BLACK, DASHES, FLOOR, MARKERS, ROUTE_COLOURS
from vpo_lite import figures
from vpo_lite.figures.looks import FRONT, STYLES, WIDE, look, note, on_page
from vpo_lite.figures.parts import Drawn
from vpo_lite.figures.words import folded, in_words
from vpo_lite.lab import layout
from vpo_lite.lab.plots import Plots
from vpo_lite.markup import PACKAGE, packaged, plain

DARK = [False, True]
# Of CIE L*a*b*. 2.3 is just noticeable side by side; lines and markers are small, lie apart and are
# matched with a legend from memory. No ten colours that stand out from white reach 20 in all four.
APART = 15
RECORDING = "three_methods/seed-0"
FIGURES = {
    **test_figures.FIGURES,
    **test_search_figures.FIGURES,
    **test_evolution_figures.FIGURES,
    "lab": lambda: replayed(RECORDING).figure(),
}
by_figure = pytest.mark.parametrize("name", FIGURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIGURES if name != "lab"])
def test_every_figure_is_a_plain_figure_for_a_projector_without_latex(name):
    figure = FIGURES[name]()
    assert type(figure) is Drawn and figure.data
    widest = 1200 if name == "decomposition" else WIDE  # two tables beside the bars
    assert 700 <= figure.layout.width <= widest and 400 <= figure.layout.height <= 600
    assert figure.layout.font.size >= 16
    assert not [x for x in test_figures.texts(figure.to_dict()) if "$" in x or "\\" in x]
    assert figure.to_json() == FIGURES[name]().to_json()


def luminance(rgb):
    return float(rgb @ [0.2126, 0.7152, 0.0722])


def contrast(one, two):
    """As WCAG defines it."""
    high, low = sorted((luminance(linear(one)), luminance(linear(two))), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(colour, share, other):
    """color-mix(in srgb, colour share, other), and a colour of this opacity over another."""
    pair = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (colour, other))
    one, two = pair
    return "#" + "".join(f"{round(v):02X}" for v in share * one + (1 - share) * two)


def page_of_the_panel(dark):
    """The colours of paper, letters and triangle of the panel's plots."""
    places = layout.layout(980, layout.ORDER[2], layout.Page(dark=dark), ())
    return places["paper_bgcolor"], places["font"]["color"], places["ternary"]["bgcolor"]


# --- colours --------------------------------------------------------------------------------------


def test_contrast_of_known_colours():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)
    assert mixed("#FF0000", 0.5, "#000000") == "#800000"


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("dark", DARK)
def test_any_two_methods_are_told_apart(seen, dark):
    """All may stand in one picture."""
    pairs = {
        (a, b): distance(*(on_page(STYLES[m].colour, dark) for m in (a, b)), seen)
        for a, b in itertools.combinations(STYLES, 2)
    }
    assert min(pairs.values()) >= APART, min(pairs.items(), key=lambda pair: pair[1])


@pytest.mark.parametrize(
    "looks", [STYLES.values(), zip(ROUTE_COLOURS, MARKERS, DASHES, strict=True)]
)
def test_each_line_has_another_marker_and_another_dash(looks):
    *_, markers, dashes = zip(*looks, strict=True)
    assert len(set(markers)) == len(markers) and len(set(dashes)) == len(dashes)


@pytest.mark.parametrize("dark", DARK)
def test_what_is_drawn_stands_out_from_the_page(dark):
    paper, _, triangle = page_of_the_panel(dark)
    for method, style in STYLES.items():
        assert contrast(on_page(style.colour, dark), paper) >= 3, method
    for colour in ROUTE_COLOURS:
        assert min(contrast(colour, FLOOR), contrast(colour, triangle)) >= 3, colour
    assert contrast(FRONT, "#FFFFFF") >= 3


@pytest.mark.parametrize("dark", DARK)
def test_the_panels_figure_has_no_line_that_the_page_swallows(dark):
    """Of runs of the methods whose own colours are too dark or were too light."""
    view = replayed(RECORDING).view()
    methods = ("goal_conditioned", "vpo_recombined", "random_weighting")
    pairs = zip(view.runs, methods, strict=True)
    runs = tuple(dataclasses.replace(run, method=method) for run, method in pairs)
    plots = Plots(go.Figure)
    plots.draw(dataclasses.replace(view, runs=runs, active=methods), dark=dark)
    paper, ink, _ = page_of_the_panel(dark)
    assert contrast(ink, paper) >= 4.5 and plots.figure.layout.font.color == ink
    drawn = [t for t in plots.figure.data if t.type == "scatter" and set(t.x) - {None}]
    assert {look(method).text for method in methods} <= {trace.name for trace in drawn}
    for trace in drawn:
        for colour in (trace.line.color, trace.marker.color):
            for one in [colour] if isinstance(colour, str) else colour or []:
                assert one.startswith("rgba") or contrast(one, paper) >= 3, (trace.name, one)


def test_a_note_can_be_read_and_hides_no_curve():
    share = float(note("best 1")["bgcolor"].removesuffix(")").split(",")[-1])
    for style in STYLES.values():
        covered = mixed("#FFFFFF", share, style.colour)
        assert contrast(covered, "#FFFFFF") >= 1.5, "the curve below it is seen"
        assert share >= 0.4, "its letters stand out from a curve"


@by_figure
def test_the_figures_lines_and_letters_stand_out_from_white(name):
    for trace in FIGURES[name]().data:
        if trace.type == "heatmap":
            scale = [colour for _, colour in trace.colorscale or ()]
            if trace.texttemplate:
                assert trace.textfont.color == "black"
                assert min(contrast(colour, "#000000") for colour in scale) >= 4.5
        elif trace.type in ("scatter", "scatterternary"):
            drawn = trace.line.color if "lines" in (trace.mode or "lines") else trace.marker.color
            if isinstance(drawn, str) and drawn.startswith("#"):
                assert contrast(drawn, "#FFFFFF") >= 3, (trace.name, drawn)


def rule(source, selector):
    """The declarations of a CSS rule."""
    return re.search(rf"(?:^|\n){re.escape(selector)} {{([^}}]*)}}", source)[1]


@pytest.mark.parametrize("dark", DARK)
def test_letters_on_the_board_can_be_read(dark):
    source = packaged("lab/board.js")
    where = ".vpo-board.dark" if dark else ".vpo-board"
    paper, ink, _ = page_of_the_panel(dark)
    red = re.search("color: (#\\w+)", rule(source, f"{where} .note.wrong"))[1]
    assert contrast(red, paper) >= 4.5
    caption = re.search(r"(\d+)%, (\w+)", rule(source, f"{where} figcaption"))
    share, other = int(caption[1]) / 100, {"black": "#000000", "white": "#FFFFFF"}[caption[2]]
    for method, style in STYLES.items():
        assert contrast(mixed(style.colour, share, other), paper) >= 4.5, method
    ring = "svg.maze:focus-visible"
    edge = re.search(f"{re.escape(where)} {re.escape(ring)}[^{{]*{{[^}}]*(#\\w+)", source)[1]
    assert contrast(edge, paper) >= 3
    bar = float(re.search(r"opacity: ([\d.]+)", rule(source, ".vpo-board .share i"))[1])
    under = "#424242" if dark else "#EEEEEE"  # JupyterLab's --jp-layout-color2
    for colour in ROUTE_COLOURS:
        assert contrast("#FFFFFF" if dark else ink, mixed(colour, bar, under)) >= 4.5, colour
    assert contrast(re.search(r'"font-size": named, fill: "(#\w+)"', source)[1], FLOOR) >= 4.5


def test_letters_on_squares_and_markers_can_be_read():
    """E and L were white on green and red."""
    source = packaged("lab/board.js")
    named = dict(BLACK=BLACK, FLOOR=FLOOR)
    drawn = re.findall(r'letter\(x, y, "(\w)", (\w+), (?:"(#\w+)"|(\w+))\)', source)
    assert {letter for letter, *_ in drawn} == {*"SEGDBL"} == {*LETTER_COLOURS}
    for letter, ink, colour, name in drawn:
        assert (named[ink], colour or named[name]) == LETTER_COLOURS[letter]
    for letter, (ink, under) in LETTER_COLOURS.items():
        assert contrast(ink, under) >= 4.5, letter
    for colour in ROUTE_COLOURS:
        assert contrast("#FFFFFF", colour) >= 4.5, colour


@pytest.mark.parametrize("dark", DARK)
def test_focus_and_errors_of_the_panel_stand_out(dark):
    paper = page_of_the_panel(dark)[0]
    rules = packaged("names.css") + layout.CSS
    dark_rules = re.findall(r'\[data-jp-theme-light="false"\][^{]*{([^}]*)}', rules)
    plain_rules = re.findall(
        r"\n(?:\.|:is\(\.)vpo-lab[^{]*(?:focus-visible|vpo-error) {([^}]*)}", rules
    )
    outline, error = (re.search(r"#\w+", text)[0] for text in (dark_rules if dark else plain_rules))
    assert contrast(outline, paper) >= 3 and contrast(error, paper) >= 4.5


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_the_lessons_colours_stand_out(theme):
    """Its lines have an edge in the ink of the page."""
    found = dict(
        re.findall(r"--(\w+): (#\w+)", rule("\n" + packaged("lab/lesson/page.css"), theme))
    )
    for under in ("paper", "shade"):
        for ink in ("ink", "quiet"):
            assert contrast(found[ink], found[under]) >= 4.5
    assert contrast(found["accent"], found["paper"]) >= 3


def test_what_else_the_keyboard_reaches_says_what_it_is():
    """Without a role the name of an element is not read out (ARIA 1.2, 5.2.8.6)."""
    files = [p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".html", ".js")]
    tags = [t for p in files for t in re.findall(r"<[^<>]*tabindex[^<>]*>", p.read_text("utf-8"))]
    assert len(tags) == 3 and all(" role=" in t and " aria-label=" in t for t in tags), tags


def test_less_motion_where_that_is_asked_for():
    """Whatever moves by itself asks; the walkers are watched in test_lesson.py."""
    for file in ("lab/board.js", "lab/lesson/page.css", "lab/lesson/page.js"):
        source = packaged(file)
        moves = len(re.findall(r"transition:(?! none)|animation:|@keyframes", source))
        assert not moves or "@media (prefers-reduced-motion: reduce)" in source, file


# --- figures in words -----------------------------------------------------------------------------


def labels(figure):
    """Every text of a figure that a reader sees."""
    layout = figure.layout
    yield from (note.text for note in layout.annotations)
    yield layout.title.text
    for name in layout:
        if name[1:].startswith("axis"):
            yield layout[name].title.text
        elif name.startswith("ternary"):
            yield from (layout[name][f"{letter}axis"].title.text for letter in "abc")
    named = [trace for trace in figure.data if trace.type != "heatmap"]
    yield from (trace.name for trace in named if trace.showlegend is not False)
    for trace in figure.data:
        yield from [] if trace.type != "heatmap" else map(str, [*trace.x, *trace.y])


def heard(text):
    """A text as the words have it: without tags, in one line."""
    return plain(text or "")


@pytest.mark.slow
@by_figure
def test_every_label_is_in_the_words(name):
    figure = FIGURES[name]()
    said = in_words(figure)
    for label in labels(figure):
        if trace_is_empty(figure, label):
            continue
        assert heard(label) in said, label


def trace_is_empty(figure, label):
    """Whether a row or column of a table, or a trace, shows nothing: then it is not told."""
    for trace in figure.data:
        if trace.type == "heatmap" and label in map(str, [*trace.x, *trace.y]):
            z = np.array(trace.z, float)
            rows = np.isfinite(z).any(axis=1)
            columns = np.isfinite(z).any(axis=0)
            told = dict(zip(map(str, trace.y), rows, strict=True))
            told |= dict(zip(map(str, trace.x), columns, strict=True))
            if not told.get(label, True):
                return True
    return False


def test_what_stands_beside_a_point_and_under_a_pointer_is_told_once():
    words = in_words(replayed(RECORDING).figure())
    assert words.count("2% miss E") == words.count("4% miss E") == 1


@by_figure
def test_what_appears_under_a_pointer_is_in_the_words(name):
    """Coordinates stand on the axes; every other fact must be said."""
    figure = FIGURES[name]()
    said, facts = in_words(figure), 0
    for trace in figure.data:
        told = (trace.hovertemplate or "").replace("<extra></extra>", "").replace("%{", "{")
        if trace.hoverinfo == "skip":
            continue
        if "{text" in told or "{customdata" in told:
            fields = {field: trace[field] for field in ("x", "y", "text", "customdata")}
            known = {field: values for field, values in fields.items() if values is not None}
            found = [
                told.format(**dict(zip(known, point, strict=True)))
                for point in zip(*known.values(), strict=True)
                if None not in point
            ]
        else:
            found = trace.hovertext if trace.hovertext is not None else ()
        facts += len(found)
        for text in found:
            assert re.sub(f"^{re.escape(trace.name)}[,:] ", "", heard(text)) in said, text
    assert facts or name not in ("objective_space", "preference_slider", "lab")


def test_a_long_curve_is_told_by_its_ends_and_extremes_and_a_short_one_in_full():
    y = np.linspace(0.3, 0.6, 20)
    y[[4, 9]] = 0.1, 0.95
    runs = {"vpo": y, "nothing": [np.nan] * 20}
    drawn = figures.lines(test_figures.T, runs, x_title="x", y_title="y")
    assert in_words(drawn).splitlines() == [
        "Figure.",
        "Across: x; up: y.",
        "VPO: first 0.3 at 1, last 0.6 at 20, least 0.1 at 5, greatest 0.95 at 10.",
    ]
    flat = {"vpo": 0.5 + 1e-9 * np.sin(test_figures.T)}  # noise that no reader sees
    drawn = figures.lines(test_figures.T, flat, x_title="x", y_title="y", title="Flat?")
    assert in_words(drawn).splitlines() == [
        "Figure: Flat?",
        "Across: x; up: y.",
        "VPO: first 0.5 at 1, last 0.5 at 20, flat between.",
    ]
    few = figures.lines([1, 2], {"vpo": [1, 3]}, x_title="x", y_title="y", levels={"top": 2.5})
    assert "VPO: 1 at 1, 3 at 2." in in_words(few)
    assert "A horizontal line at 2.5: top." in in_words(few)


@pytest.mark.slow
def test_bands_intervals_marks_and_regions_are_told():
    assert "VPO, band: 0.0333 to 0.1 at 1, 0.667 to 0.733 at 20." in in_words(FIGURES["curves"]())
    said = in_words(FIGURES["best_at_every_k"]())
    assert "first and least 0.1 (0.05 to 0.2) at 1" in said
    assert "A vertical line at 12: VPO ahead from k = 12." in said
    thirds = in_words(figures.weight_simplex(np.eye(3)))
    assert "answer 1: 33% of the triangle, corners (1, 0, 0), (0.5, 0.5, 0), (0.333" in thirds


def test_the_words_are_those_of_the_figure_as_it_is_now():
    drawn = figures.lines([1, 2], {"vpo": [1, 3]}, x_title="x", y_title="y")
    drawn.update_yaxes(title="height").data[0].y = [5, 7]
    assert "up: height" in in_words(drawn) and "5 at 1, 7 at 2" in in_words(drawn)


@pytest.mark.slow
def test_every_place_of_a_slider_is_told():
    said = in_words(FIGURES["preference_slider"]()).splitlines()
    places = [line for line in said if line.startswith("weight of gold: ")]
    assert len(places) == 5
    assert places[0].startswith("weight of gold: 0.00: VPO: 1.00 at (0, 1); ")
    assert places[4].startswith("weight of gold: 1.00: VPO: 1.00 at (1, 0); ")
    growing = in_words(FIGURES["archive_growth"]()).splitlines()
    assert len([line for line in growing if line.startswith("after call ")]) >= 2


def test_a_notebook_shows_the_words_below_the_figure(monkeypatch):
    shown = []
    for way in ("_ipython_display_", "show"):  # which of them depends on plotly's renderer
        monkeypatch.setattr(go.Figure, way, lambda self, **_: shown.append("figure"))
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    figure = figures.lines([1, 2], {"<b>": [1, 3]}, x_title="x", y_title="y")
    assert isinstance(figure, Drawn)
    figure._ipython_display_()
    first, words = shown
    assert first == "figure" and words["text/plain"] == in_words(figure)
    assert words["text/html"] == folded(figure)
    assert words["text/html"].startswith("<details><summary>In words</summary>")
    assert go.FigureWidget(figure).data[0].name == figure.data[0].name


# --- pictures of a maze ---------------------------------------------------------------------------


def test_a_picture_names_its_squares_and_routes_and_carries_them_as_text():
    maze = envs.Maze.from_text("S . G\n# . L\nD . E", budget=8)
    drawn = envs.drawing.svg(
        maze, ["RRDD", "RD"], names=["A", "B"], position=(1, 1), taken=[(0, 2)]
    )
    title = re.search("<title>(.*)</title>", drawn)[1]
    for piece in (
        "walls on a2",
        "taken: c1",
        "walker on b2",
        "route A: RRDD, by a1 b1 c1 c2 c3, reaches E",
        "route B: RD, by a1 b1 b2, does not reach E",
    ):
        assert piece in title
    assert drawn._repr_html_().startswith(f'<img alt="{title}" src="data:image/svg+xml;base64,')
    assert 'alt="Maze of 3 by 3' in maze._repr_html_()


# --- in JupyterLab, by keyboard and for a screen reader -------------------------------------------

CELLS = (
    "import envs\nfrom vpo_lite import figures\nfrom vpo_lite.lab import Lab\n"
    "from vpo_lite.lab.player import Canvas\nmaze = envs.generate('lite-6x6', 1000)\nmaze",
    "figures.best_at_k({'vpo': {1: 0.25, 10: 0.75}})",
    "Canvas(maze)",
    "lab = Lab('vpo', prompts=1, group_size=8, steps=3)\nlab",
    "import ipywidgets as widgets\nfrom vpo_lite.names import named\n"
    "knobs = [widgets.FloatLogSlider(1.0, min=-1, max=1, step=0.5, description='alpha'),\n"
    "         widgets.SelectionSlider(options=[4, 16], description='K')]\n"
    "named(widgets.VBox([widgets.HBox(knobs)]))",
    "from vpo_lite.teaching import predict\n"
    "guess = predict('k', 'Which?', ['left', 'right'])\nguess",
    "guess.outcome('right')",
)
CLAIM = "<details><summary>Claim</summary>\n\n**Claim.** Right.\n\n</details>"
AGAIN = """async (first) => {  // run two cells again, one after the other
  const {shell, commands} = window.jupyterapp, book = shell.currentWidget.content;
  for (const i of [first, first + 1]) {
    book.activeCellIndex = i; await commands.execute('notebook:run-cell'); } }"""
FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e), r = e.getBoundingClientRect();
  const own = e.closest('[class*="vpo-"]:not(.vpo-controls)');
  return { top: r.top + r.height / 2, left: r.left, inside: !!e.closest('.vpo-controls'),
    name: (own?.className.match(/vpo-[a-z_A-Z]+/g) || []).pop() || e.tagName,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 }; }"""
NAMELESS = re.compile(
    r"- (slider|button|combobox|textbox|checkbox|spinbutton|img)(?: \[|:|$)", re.M
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    cells = [nbformat.v4.new_code_cell(code) for code in CELLS]
    cells.append(nbformat.v4.new_markdown_cell(CLAIM))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path = tmp_path_factory.mktemp("access") / "access.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    with harness.server([path]) as address, harness.browser(1280, 720) as context:
        opened = harness.Page(context, address).open(path.name, "doc/tree")
        opened.run_all()
        yield opened
        opened.close()
        assert not opened.wrong, opened.wrong


def output(notebook, cell):
    """The output of a cell, as a screen reader has it."""
    place = f".jp-CodeCell >> nth={cell}"
    notebook.page.locator(place).scroll_into_view_if_needed()
    return notebook.page.locator(f"{place} >> .jp-OutputArea").first


def tab(notebook, until, most=60):
    """Press Tab until this JavaScript condition holds; returns what had the focus on the way."""
    met = []
    for _ in range(most):
        if notebook.page.evaluate(f"() => {{ const e = document.activeElement; return {until}; }}"):
            return met
        notebook.page.keyboard.press("Tab")
        met.append(notebook.page.evaluate(FOCUS))
    raise AssertionError(f"not reached by Tab: {until}; met {met}")


def wait_in_kernel(notebook, code, wanted):
    deadline = time.monotonic() + 60
    while (found := notebook.kernel(f"print({code})").strip()) != wanted:
        assert time.monotonic() < deadline, f"{code} is {found}, not {wanted}"
        notebook.page.wait_for_timeout(100)


@pytest.mark.browser
@pytest.mark.long
def test_a_screen_reader_gets_the_picture_and_the_figure_and_the_keyboard_opens_it(notebook):
    assert 'img "Maze of 6 by 6 squares, budget 18 moves; walls on b2' in (
        output(notebook, 0).aria_snapshot()
    )
    below = output(notebook, 1)
    notebook.page.wait_for_selector(".js-plotly-plot .main-svg")
    assert "VPO: 0.25 at 1" not in below.aria_snapshot(), "folded"
    below.locator(".modebar-btn").last.focus()
    tab(notebook, "e.matches('summary')")
    assert notebook.page.evaluate(FOCUS)["ring"]
    notebook.page.keyboard.press("Enter")
    assert 'listitem: "VPO: 0.25 at 1, 0.75 at 10."' in below.aria_snapshot()


@pytest.mark.browser
@pytest.mark.slow
def test_every_control_has_a_name_and_is_reached_by_tab_in_reading_order(notebook):
    drawn = output(notebook, 2)
    notebook.page.wait_for_selector(".vpo-canvas .noUi-handle[aria-label=budget]")
    assert not NAMELESS.findall(drawn.aria_snapshot())
    panel = output(notebook, 3)
    page = notebook.page
    page.wait_for_selector(".vpo-lab .noUi-handle[aria-label=α]")
    page.locator(".vpo-methods select").focus()
    met = [page.evaluate(FOCUS), *tab(notebook, "e.closest('.vpo-more')")]
    page.keyboard.press("Enter")  # More
    page.wait_for_selector(".vpo-code input")
    assert not [line for line in NAMELESS.findall(panel.aria_snapshot()) if line != "img"], (
        "plotly's own pictures have no names: their words stand below"
    )
    met += tab(notebook, "e.closest('.vpo-told')")
    assert all(one["ring"] for one in met), [one["name"] for one in met if not one["ring"]]
    order = list(dict.fromkeys(one["name"] for one in met))
    assert order[:4] == ["vpo-methods", "vpo-alpha", "vpo-K", "vpo-m"] and len(order) > 20, order
    for before, after in itertools.pairwise(met):
        same_row = abs(after["top"] - before["top"]) < 12
        assert after["left"] > before["left"] if same_row else after["top"] > before["top"]


@pytest.mark.browser
@pytest.mark.slow
def test_sliders_in_a_named_box_have_names_and_tell_their_values(notebook):
    drawn, page = output(notebook, 4), notebook.page
    page.wait_for_selector(".vpo-named .noUi-handle[aria-label=K][aria-valuetext='4']")
    assert not NAMELESS.findall(drawn.aria_snapshot())
    assert drawn.get_by_role("textbox", name="alpha, typed").inner_text() != ""
    typed = drawn.locator(".widget-readout")  # what is typed beside K, ipywidgets ignores
    assert [e.get_attribute("contenteditable") for e in typed.all()] == ["true", "false"]
    assert typed.nth(1).inner_text() == "4"
    assert drawn.get_by_role("textbox", name="K, typed").count() == 0
    page.locator(".noUi-handle[aria-label=alpha]").focus()
    page.keyboard.press("ArrowRight")  # 10^0.5 = 3.16
    page.wait_for_selector(".noUi-handle[aria-label=alpha][aria-valuetext='3.16']")


@pytest.mark.browser
@pytest.mark.slow
def test_each_kind_of_control_works_by_keyboard(notebook):
    """The board is used by keyboard in test_board.py, the lesson in test_lesson.py."""
    page, press = notebook.page, notebook.page.keyboard.press
    output(notebook, 3)
    page.wait_for_selector(".vpo-lab .noUi-handle[aria-label=α]")
    for knob, setting in (("alpha", "lab.config.alpha < 1"), ("K", "lab.config.K == 32")):
        page.locator(f".vpo-{knob} .noUi-handle").focus()
        press("ArrowLeft")
        wait_in_kernel(notebook, setting, "True")
        shown = page.inner_text(f".vpo-{knob} .widget-readout")
        page.wait_for_selector(f".vpo-{knob} .noUi-handle[aria-valuetext='{shown}']")
    page.locator(".vpo-methods select").focus()
    press("G")  # the first method with this letter
    wait_in_kernel(notebook, "lab.methods", "('grpo',)")
    if not page.locator(".vpo-code input").is_visible():
        page.locator("button.vpo-more").focus()
        press("Space")
    page.locator(".vpo-seed input").focus()
    for key in ("Control+a", "7", "Enter"):
        press(key)
    wait_in_kernel(notebook, "lab.config.seed", "7")
    code = notebook.kernel("lab.change(seed=5); print(lab.code); lab.change(seed=6)").strip()
    page.locator(".vpo-code input").focus()
    press("Control+a")
    page.keyboard.insert_text(code)
    press("Enter")
    wait_in_kernel(notebook, "lab.config.seed", "5")
    page.locator(".vpo-told input").focus()
    press("Space")
    notebook.wait_text(".vpo-told", "Best of k answers")
    page.locator("button.vpo-train").focus()
    press("Enter")
    wait_in_kernel(notebook, "lab.join(60), len(lab.records)", "True 3")
    notebook.wait_text(".vpo-told", "GRPO: ")
    notebook.wait_text(".vpo-said", "finished")
    assert page.locator(".vpo-lab [role=status].vpo-said").count() == 1, "one voice"
    page.wait_for_selector(".vpo-look .noUi-handle[aria-label='look at step']")
    for name in ("play or pause", "back to the first step"):
        page.wait_for_selector(f".widget-play button[aria-label='{name}'][title='{name}']")
    page.locator(".vpo-look .noUi-handle").focus()
    press("ArrowLeft")
    notebook.wait_text(".vpo-words", "GRPO, step 2:")
    page.locator(".widget-play button").first.focus()
    press("Enter")
    notebook.wait_text(".vpo-words", "GRPO, step 3:")
    assert page.get_attribute("button.vpo-more", "aria-pressed") == "true"


@pytest.mark.browser
@pytest.mark.slow
def test_the_keyboard_chooses_a_prediction_and_a_claim_stays_folded(notebook):
    asked, page = output(notebook, 5), notebook.page
    notebook.wait_text(".jp-RenderedHTML", "You made no prediction. The outcome is right.")
    page.locator(".jp-MarkdownCell summary").scroll_into_view_if_needed()
    assert not page.get_by_text("Right.", exact=True).is_visible()
    asked.get_by_label("right").focus()
    assert page.evaluate(FOCUS)["ring"]
    page.keyboard.press("Space")
    notebook.wait_text(".widget-html", "Stored: right.")
    assert 'radio "right" [checked]' in asked.aria_snapshot()
    page.evaluate(AGAIN, 5)  # the first cell again keeps the choice
    notebook.wait_text(".jp-RenderedHTML", "You predicted right. That is the outcome.")


@pytest.mark.browser
@pytest.mark.slow
def test_no_button_of_a_figure_sends_it_anywhere(notebook):
    titles = "() => [...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)"
    notebook.page.locator(".js-plotly-plot").nth(1).scroll_into_view_if_needed()
    found = notebook.page.evaluate(titles)
    assert sum("Download" in (title or "") for title in found) == 2, "a figure, and the panel"
    assert not [t for t in found if t and ("Share" in t or "Cloud" in t or "Plotly" in t)], found
