"""The maze board: the data that Python sends, and the drawing in a bare page with a stub in the
place of the kernel.
"""

from pathlib import Path

import browser_harness as harness
import pytest

import envs
from envs import walk
from vpo_lite.lab import board, drawings, player

MAZE = envs.Maze.from_text("S . G\nL # .\nD . E", budget=8)


def test_group_says_what_each_route_takes():
    drawn = drawings.group(
        MAZE, "VPO", ["RRDD", "DDRR", "RR", None, "RLRRDD"], win_shares=[0.5, 0.25, 0.25, 0, 0]
    )
    said = [
        "G 1/1  D 0/1",
        "G 0/1  D 1/1  L 1/1",
        "does not reach E",
        "not a route",
        "G 1/1  D 0/1",
    ]
    assert [r["what"] for r in drawn["routes"]] == said
    brief = [r["brief"] for r in drawn["routes"]]
    assert brief == ["G 1  D 0", "G 0  D 1  L 1", "misses E", "not a route", "G 1  D 0"]
    other = drawings.text_group("VPO", ["a"], [[0.5, 1]], ["calls/10", "does not reach"])
    assert other["routes"][0]["brief"] == "calls/10 0.5  does not reach 1", "of no maze"
    assert [r["reached"] for r in drawn["routes"]] == [True, True, False, False, True]
    assert drawn["routes"][0]["path"] == [list(p) for p in walk(MAZE, "RRDD")[0]]
    looks = {(r["colour"], r["marker"], r["dash"]) for r in drawn["routes"]}
    assert len(looks) == 5 and len({r["marker"] for r in drawn["routes"]}) == 5, (
        "nothing by colour alone"
    )


def test_text_equivalent_names_every_square_and_every_route():
    text = drawings.describe(MAZE, [drawings.group(MAZE, "VPO", ["RRDD"], win_shares=[0.4])])
    for piece in (
        "3 by 3",
        "8 moves",
        "S on a1",
        "E on c3",
        "gold on c1",
        "diamonds on a3",
        "lava on a2",
        "walls on b2",
    ):
        assert piece in text
    assert "VPO, route 1: G 1/1  D 0/1, wins 40 percent of the weights, by a1 b1 c1 c2 c3" in text


def test_the_widget_is_one_module_that_fetches_nothing():
    source = (Path(board.__file__).with_suffix(".js")).read_text()
    assert board.MazeBoard()._esm.startswith("// The maze board")
    source = source.replace("http://www.w3.org/2000/svg", "")
    assert (
        not any(word in source for word in ("import ", "http", "fetch(", "//cdn"))
        and len(source) < 30_000
    )


STUB = """
<body data-jp-theme-light="true">
<div class="vpo-lab"><div id="here"></div></div>
<script type="module">
const source = await (await fetch("board.js")).text();
const blob = new Blob([source], { type: "text/javascript" });
const { default: widget } = await import(URL.createObjectURL(blob));
const state = STATE, handlers = {};
window.model = {
  get: (name) => state[name],
  set: (name, value) => {
    state[name] = value;
    for (const f of handlers["change:" + name] || []) f();
  },
  on: (names, f) => names.split(" ").forEach((n) => (handlers[n] ||= []).push(f)),
  off: (name, f) => {
    handlers[name] = (handlers[name] || []).filter((g) => g !== f);
  },
  save_changes: () => { window.saved = (window.saved || 0) + 1; },
};
window.state = state;
window.cleanup = widget.render({ model: window.model, el: document.getElementById("here") });
</script></body>"""


@pytest.fixture(scope="module")
def chromium():
    with harness.browser() as context:
        yield context


@pytest.fixture
def page(chromium, tmp_path):
    import json

    groups = [
        drawings.group(MAZE, "VPO", ["RRDD", "DDRR", None], win_shares=[0.5, 0.5, 0]),
        drawings.group(MAZE, "GRPO", ["RRDD"] * 3),
    ]
    state = {
        "text": MAZE.text,
        "groups": groups,
        "description": drawings.describe(MAZE, groups),
        "note": "",
        "editable": True,
        "large": False,
        "edit": {},
        "room": 0,
        "dark": False,
    }
    source = Path(board.__file__).with_suffix(".js").read_text()
    html = STUB.replace("STATE", json.dumps(state))
    page = chromium.new_page()
    wrong = []
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
    page.route(
        "**/board.js", lambda route: route.fulfill(body=source, content_type="text/javascript")
    )
    page.route("**/page.html", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.route("**/favicon.ico", lambda route: route.fulfill(body=""))
    page.goto("http://127.0.0.1/page.html")
    page.wait_for_selector("svg.maze text")
    page.wait_for_function("() => document.querySelector('.vpo-board').dataset.drawn")
    yield page
    page.close()
    assert not wrong, wrong


browser = pytest.mark.browser


@browser
def test_draws_every_square_route_and_value(page):
    assert page.locator("figure").count() == 2
    first = page.locator("figure").first
    assert first.locator("rect[data-r]").count() == 9
    assert first.locator("g.routes polyline").count() == 4, (
        "two routes, each with its halo; nothing for the unreadable one"
    )
    assert first.locator("li .what").all_inner_texts() == [
        "G 1/1 D 0/1",
        "G 0/1 D 1/1 L 1/1",
        "not a route",
    ]
    assert "wins 50%" in first.locator("li").first.inner_text()
    assert "gold on c1" in page.locator(".text").text_content()
    assert first.locator("svg.maze").get_attribute("aria-label") == (
        "VPO: in words below the boards"
    ), "the words would be read out once for each board"


@browser
def test_paints_by_pointer_and_proposes_the_grid(page):
    page.locator("button.edit").click()
    page.locator('button[data-tool="D"]').click()
    page.locator('figure >> nth=0 >> [data-r="0"][data-c="1"]').click()
    assert (
        page.evaluate("() => state.edit.text") == "S D G\nL # .\nD . E"
        and page.evaluate("() => saved") >= 1
    )
    page.locator('button[data-tool="S"]').click()
    page.locator('figure >> nth=0 >> [data-r="2"][data-c="1"]').click()
    assert page.evaluate("() => state.edit.text") == ". D G\nL # .\nD S E", "S moves"
    page.locator('button[data-tool="#"]').click()
    before = page.evaluate("() => state.edit.count")
    page.locator('figure >> nth=0 >> [data-r="2"][data-c="2"]').click()
    assert (
        page.evaluate("() => state.edit.count") == before
        and "moved" in page.locator(".note").inner_text()
    )


@browser
def test_works_with_the_keyboard_alone(page):
    page.keyboard.press("Tab")
    while not page.evaluate("() => document.activeElement.matches('svg.maze')"):
        page.keyboard.press("Tab")
    page.keyboard.press("g")
    assert page.evaluate("() => state.edit.text") is None, "no painting by accident"
    page.keyboard.press("Enter")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".note").inner_text() == "c2: floor"
    for key, symbol in (("w", "#"), ("g", "G"), ("d", "D"), ("l", "L"), (" ", ".")):
        page.keyboard.press(key)
        assert page.evaluate("() => state.edit.text.split('\\n')[1].split(' ')[2]") == symbol
    page.keyboard.press("e")
    assert page.evaluate("() => state.edit.text") == "S . G\nL # E\nD . ."
    page.keyboard.press("Escape")
    before = page.evaluate("() => state.edit.count")
    page.keyboard.press("g")
    assert page.evaluate("() => state.edit.count") == before


@browser
def test_tab_leaves_the_editor_and_only_what_can_be_edited_is_reached(page):
    """Every key was swallowed: who drew by keyboard alone came out of the board never again."""
    reached = "() => document.activeElement.closest('svg.maze, button')?.dataset.tool ?? 'board'"
    page.locator("button.edit").click()
    assert page.evaluate(reached) == "board"
    for key, place in (("Tab", "toggle"), ("Tab", "#"), ("Shift+Tab", "toggle")):
        page.keyboard.press(key)
        assert page.evaluate(reached) == place
    page.keyboard.press("Tab")
    assert page.locator("[role=group] button[aria-pressed=true]").inner_text() == "wall"
    page.keyboard.press("Escape")
    assert page.evaluate(reached) == "board" and page.locator("button").count() == 1
    assert page.locator("svg.maze[tabindex]").count() == 1, "of two boards one can be edited"
    page.evaluate("() => { model.set('editable', false); }")
    page.locator("svg.maze[tabindex]").wait_for(state="detached")


@browser
def test_letters_on_the_buttons_paint_too_and_never_reach_the_notebook(page):
    """JupyterLab deletes the cell at "d d"."""
    page.evaluate(
        "() => { window.heard = []; addEventListener('keydown', (e) => heard.push(e.key)); }"
    )
    on_the_board = "() => document.activeElement.matches('svg.maze')"
    page.locator("button.edit").click()
    assert page.evaluate(on_the_board)
    page.locator('button[data-tool="G"]').click()
    assert not page.evaluate(on_the_board)
    for key in ("ArrowRight", "d", "z"):
        page.keyboard.press(key)
        assert page.evaluate(on_the_board)
    assert page.evaluate("() => state.edit.text.split('\\n')[0]") == "S D G"
    assert page.evaluate("() => heard") == []
    page.locator("button.edit").focus()
    page.keyboard.press(" ")  # presses the button, as everywhere
    assert page.locator("button.edit").inner_text() == "✎ Edit maze"
    page.keyboard.press("d")  # not while nothing is edited
    assert page.evaluate("() => state.edit.count") == 1
    assert page.evaluate("() => heard") == [" ", "d"]


@browser
def test_a_refused_edit_goes_back_to_what_holds(page):
    page.locator("button.edit").click()
    page.locator('figure >> nth=0 >> [data-r="0"][data-c="1"]').click()
    page.wait_for_function(
        "() => document.querySelector('.vpo-board').dataset.text.startsWith('S # G')"
    )
    page.evaluate("() => model.set('note', 'no path from S')")
    page.wait_for_function(
        "() => document.querySelector('.vpo-board').dataset.text.startsWith('S . G')"
    )
    assert page.locator(".note.wrong").inner_text() == "no path from S"


@browser
def test_a_refusal_is_told_until_something_else_is(page):
    """It stood under every later maze, and the arrow keys no longer told the squares. A note that
    is written anew, with the same words, may be read out again."""
    wrong, note = page.locator(".note.wrong"), page.locator(".note")
    page.locator("button.edit").click()
    page.evaluate("() => model.set('note', 'no path from S')")
    assert wrong.inner_text() == "no path from S"
    page.keyboard.press("ArrowRight")
    assert note.inner_text() == "b1: floor" and wrong.count() == 0
    page.evaluate("() => { model.set('note', ''); model.set('note', 'no path from E'); }")
    assert wrong.inner_text() == "no path from E"
    page.evaluate(
        """() => {
        window.written = 0;
        new MutationObserver((all) => { written += all.length; })
          .observe(document.querySelector('.note'), { childList: true, subtree: true });
        model.set('description', 'once more');
      }"""
    )
    page.wait_for_function("() => document.querySelector('.text').textContent === 'once more'")
    assert page.evaluate("() => written") == 0
    page.evaluate("() => model.set('text', 'S . G\\n. # .\\nD . E')")
    page.wait_for_function("() => !document.querySelector('.note.wrong')")


@browser
def test_an_answer_to_one_edit_does_not_undo_the_next(page):
    """Who drew a wall quickly lost a third of its squares, in Python, too."""
    drawn = "(text) => document.querySelector('.vpo-board').dataset.text === text"
    page.locator("button.edit").click()
    for row, column in ((0, 1), (1, 2), (2, 1)):
        page.locator(f'figure >> nth=0 >> [data-r="{row}"][data-c="{column}"]').click()
    first, second, third = "S # G\nL # .\nD . E", "S # G\nL # #\nD . E", "S # G\nL # #\nD # E"
    assert page.evaluate("() => state.edit.text") == third
    for answer in (first, second, third):
        page.evaluate("(text) => model.set('text', text)", answer)
        page.wait_for_function(drawn, arg=third)
    other = "S . .\nL # .\nD . E"
    page.evaluate("(text) => model.set('text', text)", other)  # another maze was chosen
    page.wait_for_function(drawn, arg=other)


@browser
def test_a_finger_scrolls_the_page_and_shift_enter_runs_the_cell(page):
    """Unless a maze is being painted. A lesson on a phone stood still under a finger on a board."""
    touch = "() => getComputedStyle(document.querySelector('svg.maze')).touchAction"
    page.evaluate(
        "() => { window.heard = []; addEventListener('keydown', (e) => heard.push(e.key)); }"
    )
    page.locator("svg.maze >> nth=0").click()
    page.keyboard.press("Shift+Enter")
    assert page.evaluate("() => heard") == ["Shift", "Enter"]
    assert page.locator("button.edit").get_attribute("aria-pressed") == "false"
    assert page.evaluate(touch) == "auto"
    page.locator("button.edit").click()
    assert page.evaluate(touch) == "none"
    page.evaluate("() => model.set('editable', false)")
    assert page.evaluate(touch) == "auto"


@browser
def test_many_changes_are_drawn_together_and_the_last_one_stays(page):
    drawn = "() => Number(document.querySelector('.vpo-board').dataset.drawn)"
    before = page.evaluate(drawn)
    page.evaluate(
        "() => { for (let i = 0; i < 500; i++) model.set('description', 'number ' + i); }"
    )
    page.wait_for_function("() => document.querySelector('.text').textContent === 'number 499'")
    assert page.evaluate(drawn) - before < 20


@browser
def test_follows_the_theme_and_tells_python(page):
    assert page.evaluate("() => state.dark") is False
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    page.wait_for_function("() => state.dark === true")
    assert page.locator(".vpo-board.dark").count() == 1


@browser
def test_walkers_rest_after_their_laps_and_nothing_is_left_after_cleanup(page):
    place = "() => document.querySelector('g.walkers').innerHTML"
    page.wait_for_function("() => performance.now() > 5500")
    first = page.evaluate(place)
    page.wait_for_timeout(200)
    assert page.evaluate(place) == first and first, "they stand still and are there"
    there = page.evaluate("() => document.querySelector('.vpo-lab').clientWidth")
    assert page.evaluate("() => state.room") == there > 0
    drawn = "() => document.querySelector('.vpo-board').dataset.drawn"
    before = page.evaluate(drawn)
    page.evaluate("() => { cleanup(); document.querySelector('.vpo-lab').style.width = '500px'; }")
    page.evaluate("() => model.set('groups', [])")
    page.wait_for_timeout(200)
    assert page.evaluate("() => state.room") == there, "a board that is gone tells nothing"
    assert page.evaluate(drawn) == before, "and hears nothing"


@browser
def test_resting_markers_hide_no_letter_and_not_one_another(page):
    """On a small board: three routes that meet, with diamonds where their middles are."""
    maze = envs.Maze.from_text("S . . . .\n. # D # .\n. . D . E", budget=12)
    groups = [drawings.group(maze, "GRPO", ["DDRRRR", "DDRRRR", "RRDDRR"], win_shares=[1, 0, 0])]
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("() => { document.querySelector('.vpo-lab').style.width = '150px'; }")
    page.evaluate(
        "([text, groups]) => { model.set('text', text); model.set('groups', groups); }",
        [maze.text, groups],
    )
    page.wait_for_function("() => document.querySelectorAll('g.walkers text').length === 3")
    page.wait_for_timeout(300)
    found = page.evaluate(
        """() => [...document.querySelectorAll("g.walkers text")].map((t) => {
          const size = Number(t.getAttribute("font-size")); return [Number(t.getAttribute("x")),
            Number(t.getAttribute("y")) - 0.34 * size, size]; })"""
    )
    rows = [line.split() for line in maze.text.splitlines()]
    assert [rows[int(y // 64)][int(x // 64)] for x, y, _ in found] == ["."] * 3
    apart = [
        ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5 / a[2]
        for i, a in enumerate(found)
        for b in found[:i]
    ]
    assert min(apart) > 1.5


@browser
def test_keys_move_a_player_that_stands_in_its_box_only_later(chromium):
    """As on a page that is loaded again."""
    page = chromium.new_page()
    page.evaluate(
        """async (source) => {
          const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          const { default: widget } = await import(url);
          window.moves = [];
          window.el = document.createElement("div");
          widget.render({ el, model: { send: (move) => moves.push(move) } }); }""",
        player.Keys._esm,
    )
    page.wait_for_timeout(50)
    page.evaluate(
        """() => { document.body.innerHTML = '<div class="play"></div>';
          document.querySelector(".play").append(el); }"""
    )
    press = "el.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true }))"
    page.wait_for_function(f"() => {{ {press}; return moves[0] === 'U'; }}", timeout=10_000)
    page.close()


@browser
def test_sharp_at_any_width(page):
    for width in (300, 800, 1900):
        page.set_viewport_size({"width": width, "height": 700})
        box = page.locator("svg.maze").first.bounding_box()
        assert box["width"] <= width and abs(box["width"] / box["height"] - 1) < 0.05
