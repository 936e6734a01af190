"""What the board draws, as plain data: mazes with the routes of a view on them, and in words."""

from collections.abc import Sequence
from typing import NamedTuple

from envs import walk
from envs.drawing import DASHES, FLOOR, MARKERS, ROUTE_COLOURS

from ..looks import look
from .view import View

MOST_ROUTES = len(ROUTE_COLOURS) + 1  # of the true front


class Routes(NamedTuple):
    """Routes to draw: those of a method's typical set, or points of the true front (method None)
    with a title.
    """

    method: str | None
    title: str
    routes: Sequence[str | None]
    rewards: Sequence


def routes_on_show(view: View) -> list[Routes]:
    """What is drawn: a typical set of each run on show, and what is to stand beside it. Before
    there is a run, the best set.
    """
    sets = [Routes(r.method, "", r.moment.answers, r.moment.rewards) for r in view.on_show()]
    beside = view.showing.routes
    if beside == "front" or not (sets or view.target):
        front = view.instance.pareto_front(view.task.reward_mode)
        sets.append(Routes(None, "true front", front.routes, front.rewards))
    elif beside == "best set" or not sets:
        front, best = view.instance.pareto_front(view.task.reward_mode), view.target.best
        title = f"asked for: best {view.asked_for}"
        sets.append(Routes(None, title, [front.routes[i] for i in best], view.front[list(best)]))
    return sets


def board_groups(view: View) -> list[dict]:
    """The drawings of the board, ready for ``MazeBoard.groups``."""
    out, drawn = [], routes_on_show(view)
    for method, title, routes, rewards in drawn:
        colour, thin = "", method is None
        if thin:
            routes, rewards = routes[:MOST_ROUTES], rewards[:MOST_ROUTES]
        else:
            text, colour, *_ = look(method)
            title = text if len(drawn) > 1 else f"{text}: a typical set"
        won = view.win_shares(rewards)
        out.append(group(view.instance, title, routes, win_shares=won, colour=colour, thin=thin))
    return out


def group(
    maze, title: str, routes, *, win_shares=None, colour: str = "", thin: bool = False
) -> dict:
    """One drawing of the board: n routes (move strings, or None for an answer that could not be
    read) and what they take.

    win_shares (n,): how often each answer wins, or None. The result is plain data, ready for
    ``MazeBoard.groups``.

    >>> from envs import Maze
    >>> maze = Maze.from_text("S G\\nD E")
    >>> group(maze, "VPO", ["RD"], win_shares=[1.0])["routes"][0]["what"]
    'G 1/1  D 0/1'
    """
    drawn = []
    for i, route in enumerate(routes):
        path, reached = ([], False) if route is None else walk(maze, route)
        drawn.append(
            {
                "name": str(i + 1),
                "path": [list(square) for square in path],
                "reached": reached,
                "thin": thin,
                "colour": ROUTE_COLOURS[i % len(ROUTE_COLOURS)],
                "ink": FLOOR,
                "dash": DASHES[i % len(DASHES)],
                "marker": MARKERS[i % len(MARKERS)],
                "what": in_words(maze, path, reached),
                "win_share": None if win_shares is None else float(win_shares[i]),
            }
        )
    moves = [route for route in routes if route is not None]
    return {"title": title, "colour": colour, "routes": drawn, "moves": moves}


def in_words(maze, path, reached: bool) -> str:
    """What one route is worth, in a few letters: treasure taken of treasure there is, and lava
    touched.
    """
    if not path:
        return "not a route"
    if not reached:
        return "does not reach E"
    tiles = (("G", maze.gold), ("D", maze.diamonds), ("L", maze.lava))
    taken = {letter: len(set(path) & set(squares)) for letter, squares in tiles}
    parts = [f"{letter} {taken[letter]}/{len(there)}" for letter, there in tiles[:2] if there]
    parts += [f"L {taken['L']}/{len(maze.lava)}"] if taken["L"] else []
    return "  ".join(parts) or "reaches E"


def describe(maze, groups) -> str:
    """The text equivalent of the board."""
    rows, columns = maze.shape
    parts = [f"Maze of {rows} by {columns} squares, {maze.budget} moves"]
    tiles = {
        "S": [maze.start],
        "E": [maze.exit],
        "gold": maze.gold,
        "diamonds": maze.diamonds,
        "lava": maze.lava,
        "walls": maze.walls,
    }
    parts += [
        f"{name} on {' '.join(map(maze.square_name, squares))}"
        for name, squares in tiles.items()
        if squares
    ]
    for drawn in groups:
        for route in drawn["routes"]:
            squares = " ".join(maze.square_name(square) for square in route["path"])
            share = route["win_share"]
            wins = "" if share is None else f", wins {100 * share:.0f} percent of the weights"
            name = f"{drawn['title']}, route {route['name']}"
            parts.append(f"{name}: {route['what']}{wins}, by {squares or 'nothing'}")
    return ". ".join(parts) + "."
