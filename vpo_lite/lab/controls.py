"""The knobs and buttons of the panel.

A callback changes the lab's settings or leaves a request, and returns.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import ipywidgets as widgets

import envs

from ..estimators import METHODS
from .buttons import BUTTONS, HINTS
from .curves import COVERAGE, DIVERSITY, in_words, offered
from .faces import face_of
from .gallery import GALLERY, by_name, name_of
from .knobs import FIELD, SHORT, between, knobs_of, put, teach, values_of
from .view import View
from .words import is_maze

NO_NAME = ""  # of a maze that the gallery does not name. A chooser shows no text for None
ABOVE = ""  # judges at the α that training uses
JUDGES = (("the α above", ABOVE), ("α = 1", 1.0))

# Choosers are as wide as what they offer; sliders share what a row has left, from least to most.
FIRST_KNOBS = {"methods": None, "alpha": (7.5, 14.2), "K": (7.5, 13.2), "m": (6, 11)}
FIRST_BUTTONS = ("train", "pause", "stop", "reset")
MORE_BUTTONS = ("step", "reseed", "record")
MORE_KNOBS = ("group_size", "lr", "steps", "seed", "many")


class Controls:
    """The knobs and buttons of a `Lab`. act(request, *arguments): does a request and shows its
    errors; redraw(): brings the pictures up to date.
    """

    def __init__(self, lab, act: Callable, redraw: Callable):
        self.lab, self._pass_on, view = lab, act, lab.view()
        # The knobs follow a change of settings that did not come from them: `_version` is the last
        # one that they show. The lock makes a request and its version one thing.
        self._version, self._turning = view.version, threading.Lock()
        self._follower = None  # the thread that sets the knobs
        self._mazes, self._unnamed = is_maze(view), []
        # What was refused stands in its field while the error does: a browser says nothing of a
        # field that is given the value which it had, so to correct it must be a change.
        self._refused, self._wrong_code = False, None
        self.knobs = knobs_of(view)
        for name, knob in self.knobs.items():
            knob.add_class(f"vpo-{name}")
            self._hear(knob, self._turn, name)
        names = (*FIRST_BUTTONS, *self._next(view.task), *MORE_BUTTONS)
        self.buttons = {name: self._button(name) for name in names}
        self.buttons["train"].button_style = "primary"
        face = face_of(view)
        curves = [(in_words(curve, face), curve) for curve in offered(face)]
        self.curves = [
            widgets.Dropdown(description=f"curve {i}", options=curves, value=value, **FIELD)
            for i, value in enumerate((COVERAGE, DIVERSITY), start=1)
        ]
        self.large = widgets.Checkbox(description="large (projector)", indent=False)
        self.told = widgets.Checkbox(description="plots in words", indent=False)
        self.routes = widgets.Dropdown(description="also draw", options=_ROUTES, **FIELD)
        self.judge = widgets.Dropdown(description="coverage at", options=JUDGES, **FIELD)
        self.look = widgets.IntSlider(
            description="look at step", min=1, max=1, value=1, layout=between(14, 26), **SHORT
        )
        self._play = widgets.Play(
            min=1, max=1, value=1, interval=350, show_repeat=False, description="play the run again"
        )
        self._play.layout.width = "7em"
        self.code = widgets.Text(description="share code", continuous_update=False, **FIELD)
        self.more = widgets.ToggleButton(
            description="More", icon="sliders", layout={"width": "auto"}
        )
        for name in ("large", "told", "routes", "judge", "look", "code", "more"):
            getattr(self, name).add_class(f"vpo-{name}")
        self.more.tooltip, self.look.tooltip = HINTS["more"], HINTS["look"]
        if self._mazes:
            self._add_maze(view)
        for switch in (self.large, self.told, *self.curves):
            switch.observe(lambda _: self._act(redraw), "value")
        self._hear(self.routes, self._show_routes)
        self._hear(self.judge, self._judge_at)
        self._hear(self.look, self._look_at)
        self._hear(self._play, self._play_on)
        self._hear(self.code, self._load)
        self.more.observe(lambda change: self._show_more(change["new"]), "value")
        self.box = self._arranged()
        self.box.add_class("vpo-controls")

    # --- making them ------------------------------------------------------------------------------

    def _button(self, name):
        text, icon, hint = BUTTONS[name]
        button = widgets.Button(description=text, icon=icon, tooltip=hint, layout={"width": "auto"})
        button.add_class(f"vpo-{name}")
        button.on_click(lambda _: self._press(name))
        return button

    def _press(self, name):
        if name in self.buttons:  # what is taken away may still be pressed by a page that hid it
            if name == "reset" and _brings_back(self.lab.view()):
                name = "bring_back"
            self._act(getattr(self.lab, name))
            self._follow_state(self.lab.view())  # now: a drawing may come half a second later

    def _next(self, task) -> list[str]:
        """The button for another problem, where there is one."""
        if self._mazes:
            return ["new_maze"]
        return [] if task.numbered is None else ["next_problem"]

    def _add_maze(self, view):
        """What chooses a maze."""
        # It gives way where its row is full: a row more would move the board.
        width = {"flex": "1 1 12em", "min_width": "0", "max_width": "max-content"}
        self.maze = widgets.Dropdown(description="maze", layout=width, **SHORT)
        layouts = [(f"layout {name}", name) for name in envs.PRESETS]
        self.layout = widgets.Dropdown(description="maze layout", options=layouts, **FIELD)
        self._follow_maze(view)
        for name, asks in (("maze", self._choose), ("layout", self._lay_out)):
            chooser = getattr(self, name)
            chooser.add_class(f"vpo-{name}")
            self._hear(chooser, asks)

    def _arranged(self):
        for name, widths in FIRST_KNOBS.items():
            put(self.knobs[name].layout, **(between(*widths) if widths else {"width": "auto"}))
        first = [self.knobs[name] for name in FIRST_KNOBS]
        buttons = [*(self.buttons[name] for name in FIRST_BUTTONS), self.more]
        again = [self.buttons[name] for name in MORE_BUTTONS]
        buttons += [self.buttons[name] for name in self._next(self.lab.view().task)]
        knobs = [self.knobs[name] for name in MORE_KNOBS if name in self.knobs]
        if self._mazes:
            buttons.append(self.maze)
            knobs.append(self.layout)
        shown = [self.judge, self.routes, *self.curves]
        self._rest = row([*shown, *knobs, self.code, *again, self.large, self.told])
        self._show_more(False)
        self.time = row([self._play, self.look])
        self.time.add_class("vpo-controls")
        return widgets.VBox([row(first), row(buttons), self._rest])

    def _show_more(self, on):
        self._rest.layout.display = "" if on else "none"

    # --- from the knobs to the lab ----------------------------------------------------------------

    def _hear(self, widget, request, *arguments):
        """Do this request when a person changes the widget; its new value is the last argument."""

        def ask(change):
            try:
                request(*arguments, change["new"])
            except ValueError:
                self._refused = True
                raise

        widget.observe(lambda change: self._act(ask, change), "value")

    def _act(self, request, *arguments):
        """Do what a person asks for. What this very thread sets to follow the lab is no request;
        it would also take away the error that is being shown. What a person turns meanwhile, in
        another thread, counts.
        """
        if self._follower != threading.get_ident():
            self._pass_on(request, *arguments)

    def _turn(self, name, value):
        self._ask(self.lab.change, **{name: value})

    def _show_routes(self, routes):
        self._ask(self.lab.show, routes=routes)

    def _judge_at(self, alpha):
        self._ask(self.lab.show, alpha=None if alpha == ABOVE else alpha)

    def _look_at(self, step):
        view = self.lab.view()
        if not view.busy:
            self._ask(self.lab.look, step if step < view.steps else None)

    def _choose(self, maze):
        """A maze of the gallery, and the size of sets that shows its point; or an earlier one."""
        if isinstance(maze, Unnamed):
            self.lab.pick(layout=maze.layout, **dict(maze.chosen))
        elif maze != NO_NAME:
            before = self.lab.config.m
            self.lab.change(m=by_name(maze).m)
            try:
                self.lab.new_maze(maze)  # last: its message says what to look for
            except ValueError:
                self.lab.change(m=before)
                raise

    def _lay_out(self, layout):
        if layout != self.lab.view().task.layout:
            self.lab.new_maze(self.lab.maze_seed or 0, layout=layout)

    def _ask(self, request, *arguments, **settings):
        """A request whose effect the knobs show already: they need not follow it."""
        with self._turning:
            before = self.lab.view().version
            request(*arguments, **settings)
            if before == self._version and self.lab.view().version == before + 1:
                self._version += 1

    def _load(self, code):
        if code.strip() != self.lab.view().code:
            self._wrong_code = code
            self.lab.load(code)
            self._wrong_code = None

    def _play_on(self, step):
        self.look.value = step

    # --- from the lab to the knobs ----------------------------------------------------------------

    def follow(self, view: View):
        """Bring buttons and, after a change from outside, the knobs to the view."""
        self._follow_state(view)
        with self._turning:
            outside = view.version > self._version or (self._refused and not view.error)
            self._version = max(view.version, self._version)
            self._refused = self._refused and not outside
        self._follower = threading.get_ident()
        try:
            self._follow_time(view, outside)
            if not view.error or self.code.value != self._wrong_code:
                put(self.code, value=view.code)
            if outside:
                values = values_of(view)
                for name, knob in self.knobs.items():
                    teach(knob, values[name])
                put(self.routes, value=view.showing.routes)
                teach(self.judge, ABOVE if view.showing.alpha is None else view.showing.alpha)
                if self._mazes:
                    self._follow_maze(view)
        finally:
            self._follower = None

    def _follow_state(self, view):
        buttons, running = self.buttons, view.state == "running"
        text = "Train anew" if view.restart else "Go on" if view.state == "paused" else "Train"
        trains = view.busy and not (running and view.restart)
        put(buttons["train"], description=text, disabled=trains)
        put(buttons["pause"], disabled=not running)
        put(buttons["stop"], disabled=view.state not in ("running", "paused"))
        put(buttons["step"], disabled=view.busy)
        text, icon, hint = BUTTONS["bring_back" if _brings_back(view) else "reset"]
        put(buttons["reset"], description=text, icon=icon, tooltip=hint)
        draws = any(METHODS[name].weights == "many" for name in (*view.methods, *view.active))
        put(self.knobs["K"], disabled=not draws, tooltip=HINTS["K" if draws else "no K"])

    def _follow_maze(self, view):
        """The gallery, and before it the maze of now if it has no name there, and the one without a
        name that was shown before: to return to it.
        """
        layout, seed = view.task.layout, view.settings.chosen.get("maze_seed")
        name = name_of(layout, seed) or NO_NAME
        options = [(named.name, named.name) for named in GALLERY]
        shown = Unnamed(layout, tuple(sorted(view.settings.chosen.items())))
        others = [maze for maze in self._unnamed if maze != shown and not (maze.own and shown.own)]
        self._unnamed = others[-1:]  # of a maze that is painted square by square none but the last
        options[:0] = [(maze.text(layout), maze) for maze in self._unnamed]
        if name == NO_NAME:
            options.insert(0, (shown.text(layout), NO_NAME))
            self._unnamed.append(shown)
        if tuple(options) != self.maze.options:
            self.maze.options = options
        put(self.maze, value=name)
        if any(layout == value for _, value in self.layout.options):
            put(self.layout, value=layout)

    def _follow_time(self, view, outside):
        # The key End goes to the end that a slider had when it was first shown.
        most = view.steps or max(view.config.steps, 1)
        if not view.look or view.busy or outside:
            at = view.steps if view.look is None else view.look
            put(self.look, min=1, max=max(most, self.look.max))
            put(self.look, value=max(at, 1))
            put(self.look, max=most)
            put(self._play, max=most, value=most)
        put(self.time.layout, display="none" if view.busy or view.steps < 2 else "")


class Unnamed(NamedTuple):
    """A maze that the gallery does not name. chosen: the options that single it out, as pairs."""

    layout: str
    chosen: tuple[tuple[str, Any], ...]

    @property
    def own(self) -> bool:
        """Whether somebody drew it."""
        return dict(self.chosen).get("maze_seed") is None

    def text(self, layout: str) -> str:
        """In the list, while mazes of this layout are shown."""
        if self.own:
            return "your own"
        seed = dict(self.chosen)["maze_seed"]
        return f"{seed}" if self.layout == layout else f"{seed}, {self.layout}"


def _brings_back(view: View) -> bool:
    """Whether Reset, which has nothing to do, stands back for Bring back."""
    return view.forgotten and view.state == "idle" and not view.runs


_ROUTES = (
    ("nothing else", "answers"),
    ("the best set", "best set"),
    ("the true front", "front"),
)


def row(children, align: str = "center"):
    """Widgets side by side, wrapped where it is narrow."""
    layout = widgets.Layout(
        flex_flow="row wrap", grid_gap="2px var(--vpo-gap, 14px)", align_items=align
    )
    return widgets.HBox(children, layout=layout)
