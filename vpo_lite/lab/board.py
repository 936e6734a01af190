"""The board: a widget that draws a maze with routes on it, animates them, and lets people paint.

The picture is made in the browser (board.js). Python sends plain data (drawings.py) and gets
proposed edits back.
"""

from pathlib import Path

import anywidget
import traitlets


class MazeBoard(anywidget.AnyWidget):
    """Maze, routes and their values. Set the traits from any one thread; ``hold_sync()`` sets
    several at once.

    - text: the grid; groups: the drawings, as made by `group`
    - description: what a screen reader says; note: a line in red
    - editable, large: switches

    From the browser come

    - edit: {"text", "count"}, a grid that somebody painted. Python accepts it by setting ``text``,
      or refuses it by setting ``note``.
    - room: pixels there are; dark: the theme
    """

    _esm = Path(__file__).with_suffix(".js")

    text = traitlets.Unicode("S E").tag(sync=True)
    groups = traitlets.List().tag(sync=True)
    description = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    editable = traitlets.Bool(False).tag(sync=True)
    large = traitlets.Bool(False).tag(sync=True)
    edit = traitlets.Dict().tag(sync=True)
    room = traitlets.Int(0).tag(sync=True)
    dark = traitlets.Bool(False).tag(sync=True)
