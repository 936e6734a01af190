"""Objective space: the answers of a run as markers, and the numbers of those that are listed."""

import math
from collections.abc import Sequence

import numpy as np

from ..figures.looks import FRONT, look, on_page
from ..markup import count, html
from .faces import Face
from .layout import Page
from .view import Moment, SeenRun, View

ASIDE = 0.035  # between the markers of two runs at one point, of an axis between its ends
# In parts of an axis between its ends: where answers of the first run that do not count are drawn,
# beyond the lower ends, and how far below them those of the next run.
FAILED_AT, FAILED_STEP = (-0.12, -0.24), 0.12
NONE = " "  # an empty text: after "" plotly.js never draws a later text of that point
Ends = Sequence[tuple[float, float]]  # (low, high) of the rewards across and up


def ends_of(view: View, face: Face) -> Ends:
    """What both axes must hold: 0, 1, the front, and the answers that the runs on show wrote."""
    runs = drawn_runs(view, face)
    moments = [m for run in runs for m in run.moments if m.points.shape[1] == face.d]
    points = [np.zeros(face.d), np.ones(face.d), *(m.points[m.valid] for m in moments)]
    points = np.vstack(points if view.front is None else [*points, view.front])[:, face.axes]
    return list(zip(points.min(axis=0).tolist(), points.max(axis=0).tolist(), strict=True))


def ranges(ends: Ends, runs: int) -> list[dict]:
    """Of the axes across and up, with room for the numbers beside points, and for the crosses of so
    many runs.
    """
    below, room = (0.22, -FAILED_AT[1] + FAILED_STEP * max(1, runs)), (0.42, 0.25)
    return [
        {
            "range": [low - less * (high - low), high + more * (high - low)],
            "tickvals": [0, 0.5, 1] if (low, high) == (0, 1) else None,
        }
        for (low, high), less, more in zip(ends, below, room, strict=True)
    ]


def front_colour(face: Face, vector, dark):
    return "#D55E00" if face.open(vector) else "#BBBBBB" if dark else FRONT


def cloud(face: Face, method: str, moment: Moment, i: int, n: int, ends: Ends, page: Page) -> dict:
    """The answers of run i of n in objective space: a marker for each distinct vector, larger the
    more answers earn it; open if the face says so; a cross below for those that do not count.
    """
    across, up = face.axes
    (left, low), (wide, tall) = zip(*((low, high - low) for low, high in ends), strict=True)
    aside, below = (i - (n - 1) / 2) * ASIDE, FAILED_AT[1] - FAILED_STEP * i
    text, colour, symbol, _ = look(method)
    colour = on_page(colour, page.dark)
    share = (moment.counts / moment.counts.sum()).tolist()
    drawn = {"x": [], "y": [], "text": [], "hovertext": []}
    marker = {"symbol": [], "size": [], "color": colour, "opacity": 0.85}
    line = {"color": [], "width": []}
    for p in np.flatnonzero(moment.valid):
        point = moment.points[p].tolist()
        hollow = face.open(point)
        drawn["x"].append(point[across] + aside * wide)
        drawn["y"].append(point[up] + aside * tall)
        drawn["text"].append(NONE)
        who = f"{text}, {count(moment.counts[p], 'answer')}"
        drawn["hovertext"].append(face.in_words(who, point))
        marker["symbol"].append(symbol + "-open" * hollow)
        marker["size"].append(_size(share[p]))
        line["color"].append(colour if hollow else "#000000")
        line["width"].append(3 if hollow else 1)
    if not moment.valid.all():  # one cross for all of them, whatever they earn
        lost = int(moment.counts[~moment.valid].sum())
        drawn["x"].append(left + FAILED_AT[0] * wide)
        drawn["y"].append(low + below * tall)
        drawn["text"].append(f"{lost / moment.counts.sum():.0%} {face.missed}")
        drawn["hovertext"].append(f"{text}, {count(lost, 'answer')}: {drawn['text'][-1]}")
        marker["symbol"].append("x")
        marker["size"].append(12)
        line["color"].append(colour)
        line["width"].append(0)
    font = {"size": page.size - 2, "color": page.ink}
    return {"name": text, "textfont": font, "marker": marker | {"line": line}} | drawn


def numbers(view: View, face: Face, rewards, rings: tuple[int, int], page: Page) -> dict:
    """The numbers of the answers on the board, right of their points: clear of what is drawn there.

    rings: sizes of the rings around points of the front, and around those of the best set
    """
    places, sizes = {}, {}
    asked = () if view.target is None else view.target.best

    def place(vector):
        return tuple(float(vector[i]) for i in face.axes)

    for i, vector in enumerate(rewards):
        if view.task.valid(view.instance, vector):
            places.setdefault(place(vector), []).append(str(i + 1))
    for run in drawn_runs(view, face):
        share = run.moment.counts / run.moment.counts.sum()
        for point, part in zip(run.moment.points, share, strict=True):
            sizes[place(point)] = max(_size(part), sizes.get(place(point), 0))
    for i, point in enumerate(() if view.front is None else view.front):
        sizes[place(point)] = rings[i in asked]
    return {
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "text": [html("<b>{}</b>", ",".join(n)) for n in places.values()],
        "marker_size": [sizes.get(found, 0) for found in places],
        "textfont": {"size": page.size, "color": page.ink},
    }


def drawn_runs(view: View, face: Face) -> list[SeenRun]:
    """The runs on show whose step had problems with as many objectives as the one on show."""
    return [run for run in view.on_show() if run.moment.points.shape[1] == face.d]


def _size(share: float) -> float:
    """Of the marker of so large a share of the answers: its area grows with them."""
    return 8 + 30 * math.sqrt(share)
