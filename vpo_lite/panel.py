"""The panel of a Lab: its controls, and one thread that draws every panel of the kernel.

Callbacks only pass requests on to the lab; drawing is from a snapshot (live.View), at most ten times a second.
"""

import functools
import html
import math
import re
import threading
import time
import traceback
import weakref

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
from IPython.display import display

import envs
from envs.drawing import ROUTE_COLOURS

from . import metrics
from .estimators import METHODS
from .figures import look
from .plots import COVERAGE, CURVES, DIVERSITY, Plots

PAUSE = 0.1  # seconds between two drawings

SIDE_BY_SIDE = (("vpo", "grpo"), ("vpo", "grpo", "multi_rlvr"))
WORDS = {"idle": "ready", "running": "training", "finished": "finished", "failed": "failed", "stopped": "stopped",
         "paused": "paused", "stopping": "stopping", "recorded": "a recording"}  # fmt: skip
CURVE_CHOICES = list(CURVES)


def _guarded(action):
    """A callback whose errors appear in the panel: nobody sees the traceback of a callback."""

    @functools.wraps(action)
    def call(self, *arguments):
        try:
            return action(self, *arguments)
        except Exception as error:
            self.lab._fail(error)

    return call


class Controls:
    """The knobs and buttons. A callback changes the lab's settings or leaves a request, and returns."""

    def __init__(self, lab, act):
        self.lab, self._act = lab, act
        wide, style = widgets.Layout(width="340px"), {"description_width": "105px"}

        def knob(kind, name, description, *, hint="", **options):
            made = kind(description=description, layout=wide, style=style, tooltip=hint or description, **options)
            made.add_class(f"vpo-{name}")
            made.observe(lambda change: act(self._turn, name, change["new"]), "value")
            return made

        methods = [(look(m)[0], (m,)) for m in METHODS]
        together = [names for names in dict.fromkeys([*SIDE_BY_SIDE, lab.methods]) if len(names) > 1]
        methods[3:3] = [(" + ".join(look(m)[0] for m in names), names) for names in together]
        c = lab._config
        log = {"base": 10, "readout_format": ".2g"}
        K = sorted({*(2**i for i in range(9)), c.K})
        sizes = sorted({4, 8, 16, 32, c.group_size})
        self.knobs = {
            "methods": knob(widgets.Dropdown, "methods", "Method", options=methods, value=lab.methods),
            "alpha": knob(widgets.FloatLogSlider, "alpha", "α (weightings)", min=-1.3, max=1.3, step=0.05, value=c.alpha, **log,
                          hint="Dirichlet concentration: small = one objective counts, large = all count alike"),
            "K": knob(widgets.SelectionSlider, "K", "K weightings", value=c.K,
                      options=[("∞" if k == math.inf else f"{k:g}", k) for k in sorted({*K, math.inf})]),
            "m": knob(widgets.IntSlider, "m", "m answers", min=1, max=5, value=c.m),
            "group_size": knob(widgets.SelectionSlider, "group_size", "group size G", options=sizes, value=c.group_size),
            "lr": knob(widgets.FloatLogSlider, "lr", "learning rate", min=-4.3, max=-2, step=0.05, value=c.lr, **log),
            "steps": knob(widgets.IntSlider, "steps", "steps", min=1, max=max(100, c.steps), value=c.steps),
            "seed": knob(widgets.BoundedIntText, "seed", "seed", min=0, max=2**31 - 1, value=c.seed),
            "many": knob(widgets.Dropdown, "many", "train on", value=lab.many,
                         options=[("this maze", False), ("many mazes", True)]),
        }
        self.buttons = {}
        for name, text, icon, request, hint in (
            ("train", "Train", "play", lab.train, "start, or go on after a pause"),
            ("pause", "Pause", "pause", lab.pause, "finish this step; Train goes on"),
            ("stop", "Stop", "stop", lab.stop, "finish this step; Train starts again from step 1"),
            ("reset", "Reset", "undo", lab.reset, "forget the runs; same maze, same seed"),
            ("new_maze", "New maze", "random", lab.new_maze, "the next maze"),
            ("step", "One step", "step-forward", lab.step, "one step, then pause"),
            ("reseed", "Reseed", "refresh", lab.reseed, "forget the runs; same maze, next seed"),
        ):
            button = widgets.Button(description=text, icon=icon, tooltip=hint, layout=widgets.Layout(width="auto"))
            button.add_class(f"vpo-{name}")
            button.on_click(lambda _, request=request: act(request))
            self.buttons[name] = button
        self.buttons["train"].button_style = "primary"
        self.curves = [
            widgets.Dropdown(description=f"curve {i}", options=CURVE_CHOICES, value=value, layout=wide, style=style)
            for i, value in enumerate((COVERAGE, DIVERSITY), start=1)
        ]
        self.large = widgets.Checkbox(description="large (projector)", indent=False)
        self.front = widgets.Checkbox(description="true front's routes on the board", indent=False)
        self.look = widgets.IntSlider(description="look at step", min=1, max=1, value=1, layout=wide, style=style)
        self._play = widgets.Play(min=1, max=1, value=1, interval=350, show_repeat=False, description="play the run again")
        self._play.observe(lambda change: act(self._play_on, change["new"]), "value")
        self.code = widgets.Text(description="share code", continuous_update=False, layout=wide, style=style)
        self.code.observe(lambda change: act(self._load, change["new"]), "value")
        for name, made in (("large", self.large), ("front", self.front), ("look", self.look), ("code", self.code)):
            made.add_class(f"vpo-{name}")
        for made in (*self.curves, self.large):
            made.observe(lambda _: act(lab._changed), "value")
        self.front.observe(lambda change: act(lab.show_front, change["new"]), "value")
        self.look.observe(lambda change: act(self._look, change["new"]), "value")
        self.more = widgets.ToggleButton(description="More", icon="sliders", layout=widgets.Layout(width="auto"))
        self.more.add_class("vpo-more")
        k = self.knobs
        rest = [k[n] for n in ("K", "m", "group_size", "lr", "steps", "seed", "many")]
        again = [self.buttons["step"], self.buttons["reseed"]]
        self._rest = _row([*rest, *self.curves, self.code, *again, self.large, self.front])
        self._time = _row([self._play, self.look])
        self._rest.layout.display = "none"
        self.more.observe(lambda change: setattr(self._rest.layout, "display", "" if change["new"] else "none"), "value")
        first = [self.buttons[n] for n in ("train", "pause", "stop", "reset", "new_maze")]
        self.box = widgets.VBox([_row([k["methods"], k["alpha"]]), _row([*first, self.more]), self._rest, self._time])
        self._version, self._follower = lab.view().version, None

    def _turn(self, name, value):
        if not self._is_following():
            if name == "lr":
                value = float(f"{value:.3g}")
            if name == "alpha":
                value = float(f"{value:.4g}")
            named = {name: value} if name in ("methods", "many") else {"settings": {name: value}}
            self.lab._change(**{"methods": None, "many": None, "settings": {}} | named, outside=False)

    def _is_following(self):
        """Whether this very thread is setting the knobs; what a person turns meanwhile, in another thread, counts."""
        return self._follower == threading.get_ident()

    def _load(self, code):
        if not self._is_following() and code.strip() != self.lab.share():
            self.lab.load(code)

    def _play_on(self, step):
        if not self._is_following():
            self.look.value = step

    def _look(self, step):
        if not self._is_following() and self.lab.state not in ("running", "stopping"):
            self.lab._look_at(step if step < self.look.max else None, outside=False)

    def follow(self, view):
        """Bring buttons and, after a change from outside, the knobs to the view."""
        busy, b = view.state in ("running", "stopping"), self.buttons
        _set(b["train"], description="Train anew" if view.restart else "Go on" if view.state == "paused" else "Train",
             disabled=view.state == "stopping" or (view.state == "running" and not view.restart))  # fmt: skip
        _set(b["pause"], disabled=view.state != "running")
        _set(b["stop"], disabled=view.state not in ("running", "paused"))
        _set(b["step"], disabled=busy)
        steps = max([len(run.records) for run in list(self.lab.runs.values())], default=1)
        self._follower = threading.get_ident()
        try:
            at, most = steps if self.lab._look is None else self.lab._look, max(steps, 1)
            if not self.lab._look or busy or view.version != self._version:
                _set(self.look, min=1, max=max(most, self.look.max))
                _set(self.look, value=max(at, 1))
                _set(self.look, max=most)
                _set(self._play, max=most, value=most)
            _set(self._time.layout, display="none" if busy or steps < 2 else "")
            _set(self.code, value=self.lab.share())
            if view.version != self._version:
                self._version, c = view.version, view.config
                now = {name: getattr(c, name) for name in self.knobs if hasattr(c, name)}
                for name, value in (now | {"methods": view.methods, "many": view.many}).items():
                    self._put(self.knobs[name], value)
        finally:
            self._follower = None

    def _put(self, knob, value):
        """A value into a knob, which learns it if it does not know it."""
        if hasattr(knob, "options"):
            known = [o[1] if isinstance(o, tuple) else o for o in knob.options]
            if value not in known:
                text = " + ".join(look(m)[0] for m in value) if isinstance(value, tuple) else f"{value:g}"
                knob.options = [*knob.options, (text, value)]
        elif hasattr(knob, "max") and not hasattr(knob, "base") and value > knob.max:
            knob.max = value
        _set(knob, value=value)


def _row(children):
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap", grid_gap="2px 14px"))


def _set(widget, **values):
    for name, value in values.items():
        if getattr(widget, name) != value:
            setattr(widget, name, value)


def sentence(view) -> str:
    """What is seen, in words and numbers; a line for each run."""
    front = view.front.rewards
    if not view.focus and view.many:
        return "Every step draws other mazes. The board shows the first maze of a step."
    if not view.focus:
        ceilings = view.ceilings
        count = f"{len(front)} points" if len(front) > 1 else "one point"
        return (
            f"The true front of this maze has {count}. The best single answer covers {ceilings[1]:.2f} of it, the best two "
            f"{ceilings[2]:.2f}: whoever always gives the same answer stays at {ceilings[1]:.2f}."
        )
    lines = []
    for method, records, moments in view.on_show():
        record, moment = records[-1], moments[-1]
        line = f"{look(method)[0]}, step {record.step}: sets of {len(moment.rewards)} cover {record.coverage:.2f} of the front"
        if moment.maze == view.seen_maze:
            held = round(float(metrics.front_share(moment.rewards, front)) * len(front))
            line += f"; a typical one holds {held} of {len(front)} points"
        lines.append(f"{line}; diversity {record.diversity:.2f}; {record.reach_rate:.0%} of the answers reach E.")
    if view.ceiling is not None:
        lines.append(f"One answer alone covers {view.ceiling:.2f} at best.")
    return "\n".join(lines)


def status_line(view):
    """State, step, and time left, in words."""
    runs = [run for run in view.runs if run[0] in view.active]
    what = " + ".join(look(m)[0] for m in (view.active if runs else view.methods))
    where = "many mazes" if view.many else f"maze {view.maze_seed}" if view.maze_seed is not None else "your maze"
    parts = [f"<b>{what}</b>", WORDS[view.state], f"{where}, {view.seen_maze.budget} moves, seed {view.config.seed}"]
    done = [len(records) for _, records, _ in runs]
    if any(done):
        parts.insert(2, f"step {max(done)} of {max(view.config.steps, max(done))}")
        pace = sum(float(np.mean([r.seconds for r in records[-5:]])) for _, records, _ in runs if records)
        if view.state == "running":
            parts.insert(3, f"about {pace * (view.config.steps - min(done)):.0f} s left ({pace:.1f} s a step)")
    line = " · ".join(parts)
    if view.restart:
        line += f"<br>Changed: {html.escape(view.restart)}. That needs a fresh run: <b>Train anew</b> does it."
    elif view.message:
        line += f"<br>{html.escape(view.message)}"
    if view.error:
        line += f'<br><span style="color:#D1362F;font-weight:600">{html.escape(view.error)}</span> (traceback: lab.last_error)'
    return line


def _emphasised(text):
    """The sentence as HTML: the first words of a line in bold."""
    lines = [re.sub(r"^([^:]+, step \d+:)", r"<b>\1</b>", html.escape(line)) for line in text.splitlines()]
    return "".join(f'<p style="margin:0 0 6px">{line}</p>' for line in lines)


class Panel:
    """Board, plots and controls as live widgets. ``draw`` is called by the one drawing thread."""

    pause = 0.0  # least seconds between two drawings, beyond the renderer's own

    def __init__(self, lab):
        self.lab, self._drawing, self._last = lab, threading.Lock(), -math.inf
        self.controls = Controls(lab, self.act)
        self.status, self.words = widgets.HTML(), widgets.HTML()
        self.progress = widgets.FloatProgress(min=0, max=1, layout=widgets.Layout(width="auto", height="10px"))
        for name, made in (("status", self.status), ("words", self.words), ("progress", self.progress)):
            made.add_class(f"vpo-{name}")
        self.box = widgets.VBox([self.controls.box, self.status, self.progress, *self._pictures()])
        self.box.add_class("vpo-lab")
        self.draw()

    @_guarded
    def act(self, request, *arguments):
        self.lab._error = ""
        request(*arguments)

    def draw(self):
        """Bring everything to the lab's present state."""
        if time.monotonic() - self._last < self.pause:
            return renderer.wake(self)
        with self._drawing:
            try:
                view = self.lab.view()
                self._draw(view, board_groups(view), self.controls.large.value)
                self._write(view, 20 if self.controls.large.value else 15)
            except Exception as error:
                self.lab.last_error = "".join(traceback.format_exception(error))
                self.status.value = f"<b>The panel cannot be drawn:</b> {html.escape(str(error))} (traceback: lab.last_error)"
            self._last = time.monotonic()

    def _write(self, view, size):
        self.controls.follow(view)
        role = f'<div role="status" style="line-height:1.4;font-size:{size}px">'
        _set(self.status, value=f"{role}{status_line(view)}</div>")
        _set(self.words, value=f"{role}{_emphasised(sentence(view))}</div>")
        done = [len(records) for method, records, _ in view.runs if method in view.active]
        _set(self.progress, value=sum(done) / (len(done) * max(view.config.steps, *done)) if any(done) else 0.0)

    def _pictures(self):
        from .board import MazeBoard

        self.board = MazeBoard(editable=True)
        self.board.observe(lambda change: self.act(self._paint, change["new"]), "edit")
        self.board.observe(lambda change: self.act(self.lab._changed), ["room", "dark", "ready"])
        self.plots = Plots(go.FigureWidget)
        right = widgets.VBox([self.words, self.plots.figure])
        right.layout.overflow = self.board.layout.overflow = "visible"
        return [_row([self.board, right])]

    def ask_whether_seen(self):
        """The page may just be dropping this panel (its cell was run again): hold the plots until the board answers."""
        self.board.ready = False

    def _paint(self, edit):
        try:
            self.lab.set_maze(edit["text"])
            self.board.note = ""
        except ValueError as error:
            self.board.note = str(error).removeprefix("text: ")

    def _draw(self, view, groups, large):
        from .board import describe

        room = (self.board.room or 960) - 8
        beside = room >= 860 and len(groups) <= 2
        left = min({1: 330, 2: 270}.get(len(groups), 290 * len(groups)) * (1.25 if large else 1), room)
        right = int(room - left - 16) if beside else room
        with self.board.hold_sync():
            _set(self.board, text=view.seen_maze.text, groups=groups, large=large, description=describe(view.seen_maze, groups))
        _set(self.board.layout, width=f"{left:.0f}px")
        _set(self.words.layout, width=f"{right}px", min_height="84px")
        curves = tuple(c.value for c in self.controls.curves)
        if not self.board.ready:  # the plots are about to appear; they take changes from then on
            return
        self.plots.draw(view, width=right, large=large, dark=self.board.dark, curves=curves)
        figure = self.plots.figure  # what a browser reload shows: plotly would go back to the first state
        figure._widget_data = [trace.to_plotly_json() for trace in figure.data]
        figure._widget_layout = figure.layout.to_plotly_json()

    def display(self):
        display(self.box)

    def close(self):
        for made in (self.box, self.board, self.plots.figure):  # first off the page
            made.close()


class PlainPanel(Panel):
    """The same panel without custom widgets: the maze as a picture, the figure drawn anew once a second."""

    pause = 1.0

    def _pictures(self):
        self.plots, self.maze, self._handle = Plots(go.Figure), widgets.HTML(), None
        return [self.maze, self.words]

    def ask_whether_seen(self):
        """Nothing to ask: a picture can always be changed."""

    def _draw(self, view, groups, large):
        parts = []
        for drawn in groups:
            picture = envs.drawing.svg(view.seen_maze, drawn["moves"], width=420 if large else 330)
            parts.append(f"<div><b>{html.escape(drawn['title'])}</b><br>{picture}</div>")
        _set(self.maze, value=f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(parts)}</div>')
        changed = self.plots.draw(view, large=large, curves=tuple(c.value for c in self.controls.curves))
        if changed and self._handle is not None:
            self._handle.update(self.plots.figure)

    def display(self):
        display(self.box)
        self._handle = display(self.plots.figure, display_id=True)

    def close(self):
        self.maze.close()
        self.box.close()


def board_groups(view):
    """The drawings of the board: one for each run that is shown, or the true front."""
    from .board import group

    front = (None, view.front.routes[: len(ROUTE_COLOURS) + 1], view.front.rewards[: len(ROUTE_COLOURS) + 1])
    sets = view.on_board()
    if sets[0][0] is None:
        sets = [front]
    elif view.front_too:
        sets = [*sets, front]
    out = []
    for method, routes, rewards in sets:
        title, colour = ("true front", "") if method is None else look(method)[:2]
        if method is not None:
            title += f": a typical set of {len(routes)}"
        out.append(group(view.seen_maze, title, routes, shares=view.shares(rewards), colour=colour, thin=method is None))
    return out


class _Renderer:
    """The one thread that draws. The latest state wins; all panels together are drawn at most ten times a second."""

    def __init__(self):
        self._dirty, self._event, self._lock, self._thread = weakref.WeakSet(), threading.Event(), threading.Lock(), None

    def wake(self, panel):
        with self._lock:
            self._dirty.add(panel)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="vpo-lite drawing", daemon=True)
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
            panels = None  # hold none while waiting
            time.sleep(max(0.0, PAUSE - (time.monotonic() - started)))


renderer = _Renderer()
