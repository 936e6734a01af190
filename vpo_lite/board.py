"""The maze board: a widget that draws a maze with routes on it, animates them, and lets people paint the maze.

The picture is made in the browser (board.js); Python sends plain data and gets proposed edits back.
"""

from pathlib import Path

import anywidget
import traitlets

from envs.drawing import BLACK, BLUE, DASHES, ROUTE_COLOURS, walk

MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down")  # of answer 1, 2, ...
LIGHT_INK = (BLUE, BLACK)  # colours that carry white letters


class MazeBoard(anywidget.AnyWidget):
    """Maze, routes and their values. Set the traits from any one thread; use ``hold_sync()`` to set several at once.

    text: the grid; groups: one drawing for each, as made by :func:`group`; description: what a screen reader says; note: a
    line in red; editable, large: switches. From the browser come edit ({"text", "count"}: a grid that somebody painted, for
    Python to accept by setting ``text`` or to refuse by setting ``note``), room (pixels there are), dark (theme), and
    ready (the plots beside it are on the page).
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
    ready = traitlets.Bool(True).tag(sync=True)


def group(maze, title, routes, *, shares=None, colour="", thin=False):
    """One drawing of the board: n routes (move strings, or None for an answer that could not be read) and what they take.

    shares (n,): how often each answer wins, or None. Plain data, ready for ``MazeBoard.groups``.

    >>> from envs import Maze
    >>> maze = Maze.from_text("S G\\nD E")
    >>> group(maze, "VPO", ["RD"], shares=[1.0])["routes"][0]["what"]
    'G 1/1  D 0/1'
    """
    drawn = []
    for i, route in enumerate(routes):
        path, reached = ([], False) if route is None else walk(maze, route)
        colour_i = ROUTE_COLOURS[i % len(ROUTE_COLOURS)]
        drawn.append({
            "name": str(i + 1), "path": [list(square) for square in path], "reached": reached, "thin": thin,
            "colour": colour_i, "ink": "#FFFFFF" if colour_i in LIGHT_INK else BLACK,
            "dash": DASHES[i % len(DASHES)], "marker": MARKERS[i % len(MARKERS)],
            "what": in_words(maze, path, reached), "share": None if shares is None else float(shares[i]),
        })  # fmt: skip
    return {"title": title, "colour": colour, "routes": drawn, "moves": [route for route in routes if route is not None]}


def in_words(maze, path, reached):
    """What one route is worth, in a few letters: treasure taken of treasure there is, and lava touched."""
    if not path:
        return "not a route"
    if not reached:
        return "does not reach E"
    tiles = (("G", maze.gold), ("D", maze.diamonds), ("L", maze.lava))
    taken = {letter: len(set(path) & set(squares)) for letter, squares in tiles}
    parts = [f"{letter} {taken[letter]}/{len(there)}" for letter, there in tiles[:2] if there]
    parts += [f"L {taken['L']}/{len(maze.lava)}"] if taken["L"] else []
    return "  ".join(parts) or "reaches E"


def describe(maze, groups):
    """The text equivalent of the board."""
    parts = [f"Maze of {maze.shape[0]} by {maze.shape[1]} squares, {maze.budget} moves"]
    tiles = (("S", [maze.start]), ("E", [maze.exit]), ("gold", maze.gold), ("diamonds", maze.diamonds), ("lava", maze.lava),
             ("walls", maze.walls))  # fmt: skip
    parts += [f"{name} on {' '.join(map(maze.square_name, squares))}" for name, squares in tiles if squares]
    for drawn in groups:
        for route in drawn["routes"]:
            squares = " ".join(maze.square_name(square) for square in route["path"])
            wins = "" if route["share"] is None else f", wins {100 * route['share']:.0f} percent of the weightings"
            parts.append(f"{drawn['title']}, route {route['name']}: {route['what']}{wins}, by {squares or 'nothing'}")
    return ". ".join(parts) + "."
