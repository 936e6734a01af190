"""The knobs and buttons of the panel.

A callback changes the lab's settings or leaves a request, and returns.
"""

import math
import threading
from collections.abc import Callable

import ipywidgets as widgets

import envs

from ..estimators import METHODS
from ..figures.looks import look
from .buttons import BUTTONS, HINTS
from .curves import COVERAGE, DIVERSITY, offered
from .faces import face_of
from .gallery import GALLERY, by_name, name_of
from .view import View
from .words import is_maze

SIDE_BY_SIDE = (("vpo", "grpo"), ("vpo", "grpo", "multi_rlvr"))
# Widths are in letters: they grow with the projector's.
_FIELD = {"style": {"description_width": "8.2em"}, "layout": {"width": "23em"}}
_SHORT = {"style": {"description_width": "initial"}}
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
        self._mazes = is_maze(view)
        self.knobs = _knobs(view)
        for name, knob in self.knobs.items():
            knob.add_class(f"vpo-{name}")
            self._hear(knob, self._turn, name)
        names = (*FIRST_BUTTONS, *self._next(view.task), *MORE_BUTTONS)
        self.buttons = {name: self._button(name) for name in names}
        self.buttons["train"].button_style = "primary"
        curves = offered(face_of(view))
        self.curves = [
            widgets.Dropdown(description=f"curve {i}", options=curves, value=value, **_FIELD)
            for i, value in enumerate((COVERAGE, DIVERSITY), start=1)
        ]
        self.large = widgets.Checkbox(description="large (projector)", indent=False)
        self.told = widgets.Checkbox(description="plots in words", indent=False)
        self.routes = widgets.Dropdown(description="also draw", options=_ROUTES, **_FIELD)
        self.judge = widgets.Dropdown(description="coverage at", options=JUDGES, **_FIELD)
        self.look = widgets.IntSlider(
            description="look at step", min=1, max=1, value=1, layout=_between(14, 26), **_SHORT
        )
        self._play = widgets.Play(
            min=1, max=1, value=1, interval=350, show_repeat=False, description="play the run again"
        )
        self._play.layout.width = "7em"
        self.code = widgets.Text(description="share code", continuous_update=False, **_FIELD)
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
        self.maze = widgets.Dropdown(description="maze", layout=width, **_SHORT)
        layouts = [(f"layout {name}", name) for name in envs.PRESETS]
        self.layout = widgets.Dropdown(description="maze layout", options=layouts, **_FIELD)
        self._follow_maze(view)
        for name, asks in (("maze", self._choose), ("layout", self._lay_out)):
            chooser = getattr(self, name)
            chooser.add_class(f"vpo-{name}")
            self._hear(chooser, asks)

    def _arranged(self):
        for name, widths in FIRST_KNOBS.items():
            put(self.knobs[name].layout, **(_between(*widths) if widths else {"width": "auto"}))
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
        widget.observe(lambda change: self._act(request, *arguments, change["new"]), "value")

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

    def _choose(self, name):
        """A maze of the gallery, and the size of sets that shows its point."""
        if name != NO_NAME:
            self.lab.change(m=by_name(name).m)
            self.lab.new_maze(name)  # last: its message says what to look for

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
            self.lab.load(code)
        else:  # an earlier one was wrong
            self.lab.report(None)

    def _play_on(self, step):
        self.look.value = step

    # --- from the lab to the knobs ----------------------------------------------------------------

    def follow(self, view: View):
        """Bring buttons and, after a change from outside, the knobs to the view."""
        self._follow_state(view)
        with self._turning:
            outside = view.version > self._version
            self._version = max(view.version, self._version)
        self._follower = threading.get_ident()
        try:
            self._follow_time(view, outside)
            put(self.code, value=view.code)
            if outside:
                values = _values(view)
                for name, knob in self.knobs.items():
                    _teach(knob, values[name])
                put(self.routes, value=view.showing.routes)
                _teach(self.judge, ABOVE if view.showing.alpha is None else view.showing.alpha)
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
        draws = any(METHODS[name].weights == "many" for name in (*view.methods, *view.active))
        put(self.knobs["K"], disabled=not draws, tooltip=HINTS["K" if draws else "no K"])

    def _follow_maze(self, view):
        """The gallery, and before it the maze of now if it has no name there."""
        layout, seed = view.task.layout, view.settings.chosen.get("maze_seed")
        name = name_of(layout, seed) or NO_NAME
        options = [(named.name, named.name) for named in GALLERY]
        if name == NO_NAME:
            options.insert(0, ("your own" if seed is None else f"{seed}", NO_NAME))
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


_ROUTES = (
    ("nothing else", "answers"),
    ("the best set", "best set"),
    ("the true front", "front"),
)


def _knobs(view: View) -> dict[str, widgets.Widget]:
    """The knobs by the name of their setting, at the values of now."""
    methods = [(look(m).text, (m,)) for m in METHODS]
    together = [names for names in dict.fromkeys([*SIDE_BY_SIDE, view.methods]) if len(names) > 1]
    methods[3:3] = [(_in_words(names), names) for names in together]
    made = {
        "methods": widgets.Dropdown(description="method", options=methods, **_SHORT),
        "alpha": _slider("α", _round_numbers(0.05, 20), **_SHORT),
        "K": _slider("K", [*(2**i for i in range(9)), math.inf], **_SHORT),
        "m": widgets.IntSlider(description="m", min=1, max=5, **_SHORT),
        "group_size": _slider("group size G", [4, 8, 16, 32, 48], **_FIELD),
        "lr": _slider("learning rate", _round_numbers(5e-5, 1e-2), **_FIELD),
        "steps": widgets.IntSlider(description="steps", min=1, max=100, **_FIELD),
        "seed": widgets.BoundedIntText(description="seed", min=0, max=2**31 - 1, **_FIELD),
    }
    if view.task.singles_out:
        noun = view.task.noun
        problems = [(f"this {noun}", False), (f"many {noun}s", True)]
        made["many"] = widgets.Dropdown(description="train on", options=problems, **_FIELD)
    for name, knob in made.items():
        knob.tooltip = HINTS.get(name, "")
        _teach(knob, _values(view)[name])
    return made


def _slider(name: str, values, **how) -> widgets.SelectionSlider:
    """A slider whose marks are these values: the number beside it is the one that is set."""
    options = [(_in_words(value), value) for value in values]
    return widgets.SelectionSlider(description=name, options=options, **how)


def _between(least: float, most: float) -> dict[str, str]:
    """A layout's width, from so many letters to so many, as there is room in its row."""
    return {"flex": f"1 1 {least}em", "max_width": f"min(100%, {most}em)"}


def _round_numbers(low: float, high: float) -> list[float]:
    """Ten numbers for each power of ten, of two digits at most."""
    digits = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
    numbers = [float(f"{digit}e{power}") for power in range(-5, 2) for digit in digits]
    return [number for number in numbers if low <= number <= high]


def _values(view: View) -> dict:
    """What the knobs are to show."""
    names = ("alpha", "K", "m", "group_size", "lr", "steps", "seed")
    values = {name: getattr(view.config, name) for name in names}
    return values | {"methods": view.methods, "many": view.settings.many}


def _teach(knob, value):
    """A value into a knob, which learns it if it does not know it."""
    if hasattr(knob, "options"):
        if value not in [known for _, known in knob.options]:
            options = [*knob.options, (_in_words(value), value)]
            if isinstance(knob, widgets.SelectionSlider):  # it goes from left to right
                options.sort(key=lambda option: option[1])
            knob.options = options
    elif hasattr(knob, "max") and value > knob.max:
        knob.max = value
    put(knob, value=value)


def _in_words(value) -> str:
    if isinstance(value, tuple):
        return " + ".join(look(method).text for method in value)
    return "∞" if value == math.inf else f"{value:g}"


def row(children, align: str = "center"):
    """Widgets side by side, wrapped where it is narrow."""
    layout = widgets.Layout(
        flex_flow="row wrap", grid_gap="2px var(--vpo-gap, 14px)", align_items=align
    )
    return widgets.HBox(children, layout=layout)


def put(widget, **values):
    """Set traits of a widget that differ: equal values send no message."""
    for name, value in values.items():
        if getattr(widget, name) != value:
            setattr(widget, name, value)
