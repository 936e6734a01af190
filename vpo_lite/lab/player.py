"""A maze by hand: walk through it with buttons or arrow keys, or draw one and see its front."""

import anywidget
import ipywidgets as widgets

import envs

from ..checks import shown
from ..markup import count, html
from ..names import named
from .board import MazeBoard
from .drawings import describe, group

MOVES = {
    "U": "▲ up",
    "D": "▼ down",
    "L": "◀ left",
    "R": "▶ right",
    "back": "⌫ back",
    "again": "↺ again",
}


class Keys(anywidget.AnyWidget):
    """Nothing to see: it sends the arrow keys and Backspace that are pressed in the player."""

    _esm = """
    const MOVES = {ArrowUp: "U", ArrowDown: "D", ArrowLeft: "L", ArrowRight: "R",
                   Backspace: "back"};
    export default { render({ model, el }) {
      const press = (event) => {
        if (!MOVES[event.key]) return;
        event.preventDefault(); event.stopPropagation();  // or the notebook would scroll
        model.send(MOVES[event.key]);
      };
      let waiting;
      const begin = () => {  // on a page that is loaded again it stands in its box only later
        const box = el.closest(".play");
        if (box) box.addEventListener("keydown", press);
        else waiting = setTimeout(begin, 100);
      };
      begin();
      return () => clearTimeout(waiting);
    } }"""


def _checked(maze) -> envs.Maze:
    if not isinstance(maze, envs.Maze):
        raise ValueError(f"maze = {shown(maze)}: expected a Maze, say envs.Maze.from_text(text)")
    return maze


class Player(widgets.VBox):
    """A maze to walk through with buttons or arrow keys. ValueError for what is no Maze.

    - route: the moves so far, as a string of U, D, L and R
    - reached: whether it ends on E
    - rewards (4,): what it earns

    >>> from envs import Maze
    >>> player = Player(Maze.from_text("S G\\nD E"))
    >>> player.go("R"), player.go("D")
    (None, None)
    >>> player.route, player.reached, player.rewards.tolist()
    ('RD', True, [1.0, 1.0, 0.0, 1.0])
    """

    def __init__(self, maze):
        self.maze, self.route = _checked(maze), ""
        self._picture, self._verdict, keys = widgets.HTML(), widgets.HTML(), Keys()
        buttons = []
        for move, text in MOVES.items():
            buttons.append(widgets.Button(description=text, layout={"width": "6.5em"}))
            buttons[-1].on_click(lambda _, move=move: self.go(move))
        keys.on_msg(lambda _, move, buffers: self.go(move))
        moves = widgets.HBox([*buttons, keys], layout={"flex_flow": "row wrap"})
        super().__init__([moves, self._verdict, self._picture])
        self.add_class("play")
        named(self)
        self.go("again")

    def go(self, move):
        """Make a move (U, D, L or R), take one "back", or start "again"."""
        longer = {"back": self.route[:-1], "again": ""}.get(move, self.route + move)
        # moves after E, or beyond the budget, do not count
        self.route = envs.canonical_route(self.maze, longer)
        squares, self.reached = envs.walk(self.maze, self.route)
        self.rewards = envs.score_routes(self.maze, [self.route])[0]
        drawn = dict(position=squares[-1], taken=squares, width=420)
        self._picture.value = envs.drawing.svg(self.maze, [self.route], **drawn)
        pairs = zip(envs.OBJECTIVES, self.rewards, strict=True)
        earned = ", ".join(f"{name} {reward:.2f}" for name, reward in pairs)
        left = self.maze.budget - len(self.route)
        said = f"{count(left, 'move')} left"
        if self.reached:
            said = f"You are on E: {earned}"
        elif left == 0:
            said += ": this route misses E and earns four zeros"
        self._verdict.value = html("<div data-said><b>{}</b> {}</div>", said, self.route)


class Canvas(widgets.VBox):
    """A maze to draw, with its exact front under it.

    - maze, front: what is drawn, and its front
    - note: why the last drawing was refused, or ""

    >>> from envs import Maze
    >>> canvas = Canvas(Maze.from_text("S G\\nD E", budget=2))
    >>> len(canvas.front)
    2
    >>> canvas.draw("S G\\n. .")  # a maze without E is refused
    >>> "exactly one E" in canvas.note, len(canvas.front)
    (True, 2)
    """

    def __init__(self, maze):
        _checked(maze)
        self.board, self._table = MazeBoard(editable=True), widgets.HTML()
        self._budget = widgets.IntSlider(
            description="budget", value=maze.budget, min=1, max=max(40, maze.budget)
        )
        self._show(maze.text)
        self.board.observe(lambda change: self.draw(change["new"]["text"]), "edit")
        self._budget.observe(lambda change: self.draw(self.text), "value")
        super().__init__([self.board, self._budget, self._table])
        self.add_class("vpo-canvas")
        named(self)

    @property
    def text(self):
        return self.board.text

    @property
    def note(self):
        return self.board.note

    def draw(self, text):
        """Show this grid and its front; if it is refused, keep the last one and say why."""
        try:
            self._show(text)
        except ValueError as error:
            self.board.note = str(error)

    def _show(self, text):
        maze = envs.Maze.from_text(text, self._budget.value)
        front = maze.pareto_front()
        self.maze, self.front = maze, front
        with self.board.hold_sync():
            self.board.text, self.board.note = maze.text, ""
            self.board.groups = [group(maze, count(len(front), "best result"), front.routes)]
            self.board.description = describe(maze, self.board.groups)
        self._table.value = front._repr_html_()
