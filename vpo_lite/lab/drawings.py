"""What the board draws, as plain data, and in words: routes on a maze, or answers as text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from envs import Maze, walk
from envs.drawing import DASHES, FLOOR, MARKERS, ROUTE_COLOURS

from ..checks import shortened
from ..figures.looks import look
from .faces import face_of
from .judging import win_shares
from .view import View
from .words import is_maze

MOST_ROUTES = len(ROUTE_COLOURS)  # of the true front
MOST_NAMED = 4  # objectives whose names stand beside their numbers
LONGEST_ANSWER = 600  # letters


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
    there is a run, the best set, or the front where that is asked for. Of a front only a maze knows
    the answers; others have None.
    """
    sets = [Routes(r.method, "", r.moment.answers, r.moment.rewards) for r in view.on_show()]
    beside = view.showing.routes
    if view.front is None or (sets and beside == "answers"):
        return sets
    answers = of_front(view)
    if beside == "front":
        return [*sets, Routes(None, "true front", answers, view.front)]
    best = list(view.target.best)
    title = f"best set of {len(best)}"
    return [*sets, Routes(None, title, [answers[i] for i in best], view.front[best])]


def of_front(view: View) -> Sequence[str | None]:
    """The answers on the true front: a maze's routes. Other tasks know none: None for each."""
    if is_maze(view):
        return view.instance.pareto_front(view.task.reward_mode).routes
    return [None] * len(view.front)


def board_groups(view: View) -> list[dict]:
    """The drawings of the board, ready for ``MazeBoard.groups``."""
    out, drawn, face = [], routes_on_show(view), face_of(view)
    for method, title, routes, rewards in drawn:
        colour, thin = "", method is None
        fits = np.shape(rewards)[1] == face.d  # else they are of another problem
        shares = win_shares(rewards, view.config.alpha) if fits else None
        if thin:
            if len(routes) > MOST_ROUTES:
                title += f": {MOST_ROUTES} of {len(routes)}"
            routes, rewards = routes[:MOST_ROUTES], rewards[:MOST_ROUTES]
        else:
            text, colour, *_ = look(method)
            title = text if len(drawn) > 1 else f"{text}: a typical set"
        how = dict(colour=colour, thin=thin, win_shares=shares)
        out.append(group_of(view, title, routes, rewards, face.names if fits else (), **how))
    return out


def group_of(view: View, title: str, answers, rewards, names, **how) -> dict:
    """One drawing of n answers to the problem on show, with their rewards (n, d): as routes where
    it is a maze, else as texts.

    names: of the objectives; how: see `group`
    """
    if is_maze(view):
        return group(view.instance, title, answers, **how)
    return text_group(title, answers, rewards, names, **how)


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
        what, brief = (in_words(maze, path, reached, brief) for brief in (False, True))
        drawn.append(
            _answer(i, what, brief, win_shares, thin)
            | {"path": [list(square) for square in path], "reached": reached}
        )
    moves = [route for route in routes if route is not None]
    return {"title": title, "colour": colour, "routes": drawn, "moves": moves}


def text_group(
    title: str,
    answers: Sequence[str | None],
    rewards,
    names: Sequence[str],
    *,
    win_shares=None,
    colour: str = "",
    thin: bool = False,
) -> dict:
    """The same for n answers that are shown as text, with their rewards (n, d).

    names: of the objectives; without names their numbers stand alone. thin: these are points of the
    front, whose answers nobody wrote.

    >>> made = text_group("VPO", ["left sort", None], [[1, 0], [0, 0]], ("test 1", "test 2"))
    >>> [(route["text"], route["what"]) for route in made["routes"]]
    [('left sort', 'test 1 1  test 2 0'), ('not readable', 'test 1 0  test 2 0')]
    """
    drawn = []
    for i, (answer, vector) in enumerate(zip(answers, rewards, strict=True)):
        text = "" if thin else "not readable" if answer is None else answer
        what = _numbers(vector, names)
        drawn.append(
            _answer(i, what, what, win_shares, thin)
            | {"path": [], "reached": True, "text": shortened(text, LONGEST_ANSWER)}
        )
    return {"title": title, "colour": colour, "routes": drawn, "moves": []}


def _answer(i: int, what: str, brief: str, win_shares, thin: bool) -> dict:
    """How answer i is drawn. what: what it is worth; brief: the same where there is little room."""
    return {
        "name": str(i + 1),
        "thin": thin,
        "colour": ROUTE_COLOURS[i % len(ROUTE_COLOURS)],
        "ink": FLOOR,
        "dash": DASHES[i % len(DASHES)],
        "marker": MARKERS[i % len(MARKERS)],
        "what": what,
        "brief": brief,
        "win_share": None if win_shares is None else float(win_shares[i]),
    }


def _numbers(vector, names: Sequence[str]) -> str:
    """A reward vector in a few letters: with names where they are few."""
    values = [f"{value:.2f}".rstrip("0").rstrip(".") for value in vector]
    if 0 < len(names) <= MOST_NAMED:
        return "  ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
    return " ".join(values)


def in_words(maze, path, reached: bool, brief: bool = False) -> str:
    """What one route is worth, in a few letters: treasure taken of treasure there is, and lava
    touched. brief: without what there is.
    """
    if not path:
        return "not a route"
    if not reached:
        return "misses E" if brief else "does not reach E"
    tiles = (("G", maze.gold), ("D", maze.diamonds), ("L", maze.lava))
    taken = {letter: len(set(path) & set(squares)) for letter, squares in tiles}
    parts = [
        f"{letter} {taken[letter]}" + ("" if brief else f"/{len(there)}")
        for letter, there in tiles
        if taken[letter] or (there and letter != "L")
    ]
    return "  ".join(parts) or "reaches E"


def describe(maze: Maze | None, groups) -> str:
    """The text equivalent of the board: of a maze, or of answers as text."""
    parts = [] if maze is None else _tiles(maze)
    for drawn in groups:
        for route in drawn["routes"]:
            share, title = route["win_share"], drawn["title"]
            won = "" if share is None else f", wins {100 * share:.0f} percent of the weights"
            if maze is None:
                text = f"{route['text']}: " if route["text"] else ""
                parts.append(f"{title}, answer {route['name']}: {text}{route['what']}{won}")
            else:
                by = " ".join(map(maze.square_name, route["path"])) or "nothing"
                parts.append(f"{title}, route {route['name']}: {route['what']}{won}, by {by}")
    return ". ".join(parts or ["No answers yet"]) + "."


def _tiles(maze) -> list[str]:
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
    return parts + [
        f"{name} on {' '.join(map(maze.square_name, squares))}"
        for name, squares in tiles.items()
        if squares
    ]


def rules(view: View) -> tuple[tuple[str, str], ...]:
    """What the letters of a maze mean, and what its routes earn; nothing for other tasks."""
    if not is_maze(view):
        return ()
    letters = (
        "The maze",
        "A route starts on S and should reach E in at most "
        f"{view.instance.budget} moves. G is gold, D is diamonds. L is lava: a route can cross it, "
        "but loses reward. Dark squares are walls."
        + " B is a bonus square." * bool(view.instance.bonus)
        + " It earns nothing here."
        * (bool(view.instance.bonus) and view.task.reward_mode == "linear"),
    )
    rewards = (
        "Rewards of a route",
        "Four numbers. Completion: 1. Gold and diamonds: the part of the gold squares, and of the "
        "diamond squares, that it visits. Avoid lava: 1 minus the part of the lava squares that it "
        "visits. A route that misses E earns four zeros.",
    )
    return (letters, rewards) if view.task.reward_mode == "linear" else (letters,)
