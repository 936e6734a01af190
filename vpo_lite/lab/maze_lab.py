"""`Lab`: a session with what belongs to mazes, and the panel of the notebooks.

lab = Lab()          # in a notebook: the panel; anywhere: the same object without a screen
lab.train()          # Train; also pause(), step(), stop(), reset(), reseed(), new_maze()
lab.join()           # wait for it
lab.figure()         # a still picture
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import envs

from ..checks import shown
from ..figures.looks import WIDE
from ..messages import check_names
from ..tasks import DEFAULT
from ..tasks.maze import MazeTask
from ..tasks.registry import task_class, task_name
from .arguments import check, check_curves
from .curves import COVERAGE, DIVERSITY, offered
from .drawings import routes_on_show
from .faces import face_of
from .gallery import by_name, name_of
from .session import Session
from .settings import Settings
from .stretch import rehearsal
from .words import is_maze

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from .panel import Panel

DEMONSTRATION = range(1000, 2000)  # New maze goes through these; all are held out from training
PANELS = ("auto", "widgets", "plain")


class Lab(Session):
    """A training session with a panel. All of it works without a screen, too.

    - methods: a name of ``vpo_lite.METHODS``, or up to three that train side by side; yours may be
      named as ``package.module:function``, too
    - maze_seed: the generated maze to train on, by default 1000, or its name in the gallery
      (gallery.py)
    - maze: a drawn one instead, as text. Beside it maze_seed is refused, and layout without many
    - many: train on many mazes; the maze is then the one to look at before
    - panel: "widgets", "plain" (pictures drawn anew, where custom widgets do not work), "auto"
    - preset and further settings: see `TrainConfig`

    Another task, given by ``task=``, has the same panel with its answers as text. Further
    attributes: see `Session`; maze; maze_seed, None for a drawn maze; maze_name, its name in the
    gallery, or None.

    >>> lab = Lab(maze_seed=1000)
    >>> lab.state, lab.maze_seed, lab.config.alpha, lab.methods
    ('idle', 1000, 1.0, ('vpo',))
    >>> lab.new_maze("alpha matters").maze_seed
    1233
    """

    unshared = ("panel",)

    def __init__(
        self,
        methods: str | Sequence[str] = "vpo",
        *,
        preset: str = "demo",
        maze_seed: int | str | None = None,
        maze: str | envs.Maze | None = None,
        many: bool | None = None,
        panel: str = "auto",
        **settings: Any,
    ):
        if panel not in PANELS:
            raise ValueError(f"panel = {shown(panel)}: expected {', '.join(map(repr, PANELS))}")
        self._panel, self._panel_kind = None, panel
        if issubclass(task_class(task_name(settings.get("task", DEFAULT))), MazeTask):
            if maze is None:
                settings |= _generated(maze_seed, settings.get("layout"))
            else:
                _check_alone(maze_seed, None if many else settings.get("layout"))
                settings |= _chosen(_maze(maze, settings.get("maze_budget")))
        else:  # options of that task, or refused
            settings |= {} if maze is None else {"maze": maze}
            settings |= {} if maze_seed is None else {"maze_seed": maze_seed}
        super().__init__(methods, preset=preset, many=many, **settings)

    # --- mazes ------------------------------------------------------------------------------------

    @property
    def maze(self) -> envs.Maze:
        """The maze to train on, or, with many, the one to look at before."""
        if not is_maze(self.view()):
            raise AttributeError(f"task {self.config.task!r} has no maze")
        return self.instance

    @property
    def maze_seed(self) -> int | None:
        """Seed of the generated maze; None for a drawn one."""
        return self.settings.chosen.get("maze_seed")

    @property
    def maze_name(self) -> str | None:
        """Its name in the gallery; None for a maze that has none."""
        return name_of(getattr(self.view().task, "layout", ""), self.maze_seed)

    def new_maze(self, seed: int | str | None = None, *, layout: str | None = None) -> Self:
        """Another generated maze: the next of the demonstration mazes, the one with this seed, or
        the one of this name in the gallery. layout: its layout, if it is to change, too. The model
        "auto" is then the smallest policy that reads the board. Forgets all runs. ValueError:
        nothing is changed.
        """
        _maze_of(self)
        if seed is None:
            before = self.maze_seed if self.maze_seed in DEMONSTRATION else DEMONSTRATION[-1]
            seed = DEMONSTRATION[(DEMONSTRATION.index(before) + 1) % len(DEMONSTRATION)]
        chosen = _generated(seed, layout)
        message = f"Layout {layout}." if layout else ""  # the status line has the number
        if isinstance(seed, str):
            named = by_name(seed)
            message = f"{named.title}. {named.look_for}"
            message += f" Try m = {named.m}." * (named.m != self.config.m)
        return self.pick(message, **chosen)

    def set_maze(self, text: str | envs.Maze, budget: int | None = None) -> Self:
        """A drawn maze, as text or Maze. Without a budget a Maze has its own, and a text that of
        now if the shortest way to E still fits. Forgets all runs, unless it is the same maze.
        ValueError for a text that is no maze: nothing is changed.
        """
        maze = _maze(text, budget, usual=_maze_of(self).budget)
        if maze != self.maze:
            self.pick(**_chosen(maze))
        return self

    # --- pictures ---------------------------------------------------------------------------------

    def figure(self, width: int = WIDE, **how: Any) -> "Figure":
        """A still picture of the plots. how: curves, the names of two; large, for a projector;
        dark, light on dark.
        """
        check_names("figure", how, ("curves", "large", "dark"))
        return _plots(self.view(), width, **how)

    def picture(self, method: str | None = None, width: int = 380) -> envs.drawing.Picture:
        """The maze with the answers of a typical set as SVG: of a method, or of the first run;
        before there is a run, with the best set. ValueError for a method without answers.
        """
        check(width=width)
        _maze_of(self)
        view = self.view()
        for drawn in routes_on_show(view):
            if method in (None, drawn.method):
                routes = [route for route in drawn.routes if route is not None]
                return envs.drawing.svg(view.instance, routes, width=width)
        there = f"there are runs of {', '.join(self.runs)}" if self.runs else "train it first"
        raise ValueError(f"method = {shown(method)}: no answers on show; {there}")

    @property
    def panel(self) -> "Panel":
        """The panel, made once; ``panel.box`` is its widget. Another lab that trains pauses then,
        unless this one shows a recording.
        """
        if self._panel is None:
            from .panel import panel_for

            if self.state != "recorded":
                self.pause_other("A newer panel opened")
            self._panel = panel_for(self, self._panel_kind)
            rehearsal.begin(self.config)
        return self._panel

    def check_settings(self, settings: Settings) -> None:
        """Refuse another task while the panel is open, and a method that was defined since."""
        task = settings.config.task
        drawn = settings.methods if self._panel is None else self._panel.plots.methods
        if late := [method for method in settings.methods if method not in drawn]:
            said = f"methods: this panel was opened before {', '.join(late)} was defined"
            raise ValueError(f"{said}; open a new one")
        if self._panel is not None and task != self.config.task:
            said = f"this panel shows task {self.config.task!r}; for task {task!r} use "
            raise ValueError(f"{said}Lab.from_code(code)")

    def _ipython_display_(self):
        from IPython.display import display  # there is one: it has just called

        display(self.panel)

    def close(self) -> None:
        """Stop, forget all runs, and take the panel off the page."""
        super().close()
        if self._panel is not None:
            self._panel.close()
            self._panel = None


def _plots(view, width, *, curves=(COVERAGE, DIVERSITY), large=False, dark=False) -> "Figure":
    from .plots import SHOWN, still

    check(width=width, large=large, dark=dark)
    check_curves(curves, offered(face_of(view)))
    if len(curves) != SHOWN:
        raise ValueError(f"curves = {shown(curves)}: expected {SHOWN} names")
    return still(view, width=width, curves=curves, large=large, dark=dark)


def _maze_of(lab: Lab) -> envs.Maze:
    if not is_maze(lab.view()):
        raise ValueError(f"task {lab.config.task!r} has no maze; use pick(...) or next_problem()")
    return lab.instance


def _maze(text, budget=None, *, usual: int | None = None) -> envs.Maze:
    """A maze from text, or a maze. The usual budget is given up where the shortest way to E no
    longer fits it.
    """
    if isinstance(text, envs.Maze):
        if budget is None:
            return text
        text = text.text
    maze = envs.Maze.from_text(text, budget)
    fits = usual is not None and budget is None and usual >= maze.distances(maze.exit)[maze.start]
    return envs.Maze.from_text(text, usual) if fits else maze


def _check_alone(maze_seed, layout) -> None:
    """Refuse beside a drawn maze what would choose a generated one."""
    for name, value in {"maze_seed": maze_seed, "layout": layout}.items():
        if value is not None:
            raise ValueError(f"maze and {name} = {shown(value)}: give one of the two")


def _generated(seed, layout: str | None = None) -> dict:
    """The options of the task that single out this maze: by its seed, or by its name. None: the
    first of the demonstration mazes.
    """
    seed = DEMONSTRATION[0] if seed is None else seed
    if isinstance(seed, str):
        named = by_name(seed)
        if layout not in (None, named.layout):
            said = f"layout = {shown(layout)}: the maze {named.name!r} is of {named.layout}"
            raise ValueError(f"{said}; leave layout out")
        seed, layout = named.seed, named.layout
    return {"maze_seed": seed} | ({} if layout is None else {"layout": layout})


def _chosen(maze: envs.Maze) -> dict:
    """The options of the task that single out this maze."""
    return {"maze": maze.text, "maze_budget": maze.budget}
