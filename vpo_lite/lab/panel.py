"""The panel of a lab: its controls, the board, the plots, and words; and the one thread that draws.

Callbacks pass requests on to the lab. Drawing is from a frozen View, at most ten times a second for
all panels together.
"""

import math
import re
import threading
import time
import weakref

import ipywidgets as widgets
import plotly.graph_objects as go
from IPython.display import DisplayHandle, display

import envs

from ..figures.parts import bundle, live
from ..figures.words import listed
from ..markup import Html, html, joined
from ..names import custom_widgets, named
from .controls import Controls, row
from .drawings import board_groups, describe
from .knobs import put
from .layout import CSS, LEAST_LARGE, Page, share_out
from .plots import Plots
from .view import View
from .words import TRACEBACK, is_maze, sentence, status_line

PAUSE = 0.1  # seconds between two drawings
MOST_WORDS = 6_000  # letters of a problem
CLOSED = "This panel was closed. Run its cell again."


class Panel:
    """Board, plots and controls of a `Lab` as live widgets. `draw` is called by the one drawing
    thread, but for the first time.
    """

    pause = 0.0  # least seconds between two drawings, beyond the renderer's own
    spoken = "data-said"  # of words that a screen reader should tell when they change

    def __init__(self, lab):
        self.lab, self._drawing, self._last = lab, threading.Lock(), -math.inf
        self._told_at = -math.inf  # when the plots were last put in words
        self.controls = Controls(lab, self.act, self.wake)
        self.status, self.words, self.told = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.progress = widgets.FloatProgress(min=0, max=1, layout={"width": "auto"})
        self.status.add_class("vpo-status")
        self.words.add_class("vpo-words")
        self.told.add_class("vpo-told")
        self.progress.add_class("vpo-progress")
        pictures = self._pictures()
        style = widgets.HTML(str(html("<style>{}</style>", Html(CSS))), layout={"display": "none"})
        above = [self.controls.box, self.status, self.controls.time, self.progress]
        parts = [*above, *pictures, self.words, self.told, style]
        self.box = widgets.VBox(parts)
        self.box.add_class("vpo-lab")
        lab.watch(self)  # first: a change while it is drawn is drawn, too
        self.draw()

    def act(self, request, *arguments):
        """Do a request. Its error appears in the panel: nobody sees the traceback of a callback."""
        try:
            self.lab.report(None)
            request(*arguments)
        except Exception as error:
            self.lab.report(error)

    def wake(self):
        """Have the drawing thread bring everything to the lab's present state."""
        renderer.wake(self)

    def draw(self):
        """Bring everything to the lab's present state."""
        if time.monotonic() - self._last < self.pause:
            return self.wake()
        with self._drawing:
            try:
                view, large = self.lab.view(), self.controls.large.value
                self._draw(view, board_groups(view), large)
                self._write(view, large)
                self._tell(view)
            except Exception as error:
                self.lab.report(error, shown=False)  # shown, it would be drawn, and fail, again
                said = '<b title="{}">The panel cannot be drawn:</b> {}'
                self.status.value = html(said, TRACEBACK, error)
            self._last = time.monotonic()

    def _write(self, view: View, large: bool):
        (self.box.add_class if large else self.box.remove_class)("vpo-large")
        self.controls.follow(view)
        at_rest = self.controls.time.layout.display == ""
        put(self.progress.layout, display="none" if at_rest else "")  # at once: they change places
        size = Page(large).size
        # While a run trains they change every step: nobody can listen to that.
        spoken = Html("" if view.busy else self.spoken)
        said = '<div {} style="line-height:1.4;font-size:{}px">{}</div>'
        put(self.status, value=html(said, spoken, size, status_line(view)))
        words = html(said, spoken, size, _emphasised(sentence(view)))
        put(self.words, value=words)
        put(self.below, value=words)
        done = [len(run.records) for run in view.runs if run.method in view.active]
        whole = len(done) * max(view.config.steps, *done) if any(done) else 1
        put(self.progress, value=sum(done) / whole)

    def _tell(self, view: View):
        """The plots in words, where somebody asked for them; during training once a second."""
        if not self.controls.told.value:
            return put(self.told, value="")
        if not view.busy or time.monotonic() - self._told_at >= 1:
            self._told_at = time.monotonic()
            put(self.told, value=listed(self.plots.figure))

    def _pictures(self):
        from .board import MazeBoard  # needs anywidget, which a plain panel does without

        for controls in (self.controls.box, self.controls.time):
            named(controls)
        self.board = MazeBoard(editable=is_maze(self.lab.view()))
        self.board.observe(lambda change: self.act(self._paint, change["new"]), "edit")
        self.board.observe(lambda _: self.act(self.wake), ["room", "dark"])
        self.plots = Plots(live)
        self.below = widgets.HTML()  # the words stand where there is room
        self.below.add_class("vpo-words")
        self.asked = widgets.HTML()  # the problem, where no board shows it
        left = widgets.VBox([self.asked, self.board, self.below])
        pictures = row([left, self.plots.figure], align="flex-start")
        for box in (left, self.board, pictures):
            box.layout.overflow = "visible"
        return [pictures]

    def _paint(self, edit):
        try:
            self.lab.set_maze(edit["text"])
            self.board.note = ""
        except ValueError as error:
            self.board.note = str(error).removeprefix("text: ")

    def _draw(self, view: View, groups, large: bool):
        room = share_out((self.board.room or 960) - 8, len(groups), large)
        maze = view.instance if is_maze(view) else None
        text, description = maze.text if maze else "", describe(maze, groups)
        with self.board.hold_sync():
            put(self.board, text=text, groups=groups, large=large, description=description)
        put(self.asked, value=_problem(view, large))
        put(self.asked.layout, width=f"{room.board}px", display="" if self.asked.value else "none")
        put(self.board.layout, width=f"{room.board}px")
        put(self.words.layout, display="" if room.wide else "none")
        put(self.below.layout, width=f"{room.board}px", display="none" if room.wide else "")
        curves = tuple(c.value for c in self.controls.curves)
        large = large and room.plots >= LEAST_LARGE
        self.plots.draw(view, width=room.plots, large=large, dark=self.board.dark, curves=curves)

    def _ipython_display_(self):
        display(self.box)

    def close(self):
        """Take the panel off the page. The box stays, since a saved notebook may name it."""
        shown = self.box.children
        self.box.children = (widgets.HTML(CLOSED),)
        for child in shown:
            _close(child)


class PlainPanel(Panel):
    """The same panel without custom widgets: the maze as a picture, the figure drawn anew at most
    once a second, after a change.
    """

    pause = 1.0
    spoken = 'role="status"'

    def _pictures(self):
        self.plots, self.maze = Plots(go.Figure), widgets.HTML()
        self._handle, self._shown = DisplayHandle(), False  # one for all copies on the page
        self.below = self.words  # there is one place for words
        return [self.maze]

    def _draw(self, view: View, groups, large: bool):
        parts = []
        for drawn in groups:
            if is_maze(view):
                moves = drawn["moves"]
                picture = Html(envs.drawing.svg(view.instance, moves, width=420 if large else 330))
            else:
                picture = _texts(drawn)
            parts.append(html("<div><b>{}</b><br>{}</div>", drawn["title"], picture))
        side_by_side = '{}<div style="display:flex;flex-wrap:wrap;gap:16px">{}</div>'
        put(self.maze, value=html(side_by_side, _problem(view, large), joined(parts)))
        curves = tuple(c.value for c in self.controls.curves)
        changed = self.plots.draw(view, large=large, curves=curves)
        if changed and self._shown:
            self._handle.update(bundle(self.plots.figure), raw=True)

    def _ipython_display_(self):
        display(self.box)
        with self._drawing:
            self._handle.display(bundle(self.plots.figure), raw=True)
            self._shown = True

    def close(self):
        super().close()
        with self._drawing:  # a drawing under way would show the figure again
            if self._shown:
                self._handle.update({"text/plain": CLOSED}, raw=True)
            self._shown = False


def _close(widget):
    """Close a widget with all that it holds. One that stayed open and named a closed one would stop
    a second browser from restoring any widget of the kernel.
    """
    held = [value for value in widget.trait_values().values() if isinstance(value, widgets.Widget)]
    held += getattr(widget, "children", ())
    widget.close()
    for inner in held:
        _close(inner)


def panel_for(lab, kind: str) -> Panel:
    """A panel of this kind: "widgets", "plain", or "auto", which is plain where a FigureWidget and
    the board cannot be shown: without anywidget, and in Colab.
    """
    if kind == "auto":
        kind = "widgets" if custom_widgets() else "plain"
    return PlainPanel(lab) if kind == "plain" else Panel(lab)


def _problem(view: View, large: bool) -> Html:
    """The problem in words; nothing for a maze, which is drawn."""
    if is_maze(view):
        return html("")
    words = view.task.summary(view.instance)
    style = (
        f"font-size:{Page(large).size}px;line-height:1.35;white-space:pre-wrap;max-height:13em;"
        "overflow:auto;border-left:3px solid #0072B2;padding-left:8px;margin-bottom:6px"
    )
    template = (
        '<div class="vpo-problem" role="group" tabindex="0" aria-label="the problem" style="{}">'
        "{}</div>"
    )
    return html(template, style, words if len(words) <= MOST_WORDS else f"{words[:MOST_WORDS]} …")


def _texts(drawn: dict) -> Html:
    """The answers of a group, a line each."""
    lines = []
    for route in drawn["routes"]:
        share = route["win_share"]
        parts = route["text"], route["what"], "" if share is None else f" · wins {share:.0%}"
        lines.append(html("<li><code>{}</code> {}{}</li>", *parts))
    return html("<ol>{}</ol>", joined(lines))


def _emphasised(text: str) -> Html:
    """The sentence as HTML: the beginning of a line that is about a step in bold."""
    lines = []
    for line in text.splitlines():
        found = re.match(r"[^:]+, step \d+:", line)
        end = found.end() if found else 0
        bold = html("<b>{}</b>", line[:end]) if found else ""
        lines.append(html('<p style="margin:0 0 6px">{}{}</p>', bold, line[end:]))
    return joined(lines)


class _Renderer:
    """The one thread that draws. The latest state wins; all panels together are drawn at most ten
    times a second.
    """

    def __init__(self):
        self._dirty, self._event = weakref.WeakSet(), threading.Event()
        self._lock, self._thread = threading.Lock(), None

    def wake(self, panel):
        with self._lock:
            self._dirty.add(panel)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="vpo-lite drawing", daemon=True
                )
                self._thread.start()
        self._event.set()

    def _run(self):
        while self._event.wait():
            self._event.clear()
            with self._lock:
                panels = list(self._dirty)
                self._dirty.clear()
            started = time.monotonic()
            for panel in panels:
                panel.draw()
            panels = panel = None  # hold none while waiting
            time.sleep(max(0.0, PAUSE - (time.monotonic() - started)))


renderer = _Renderer()
