"""Objective space: the answers of a run as markers, and the numbers of those on the board."""

import math

import envs

from ..looks import FRONT, look
from ..markup import html
from .view import Moment, View

ASIDE = 0.035  # between the markers of two runs at one point
FAILED_AT = (-0.12, -0.19)  # where answers of the first run that do not reach E are drawn
FAILED_STEP = 0.12  # and how far below them those of the next run


def lowest(runs: int) -> float:
    """The lower end of the axis of diamonds, with so many runs."""
    return FAILED_AT[1] - FAILED_STEP * max(1, runs)


def in_words(who, vector, count=""):
    pairs = zip(envs.OBJECTIVES, vector, strict=True)
    return f"{who}{count}: " + ", ".join(f"{n.replace('_', ' ')} {v:.2f}" for n, v in pairs)


def front_colour(vector, dark):
    return "#D55E00" if vector[3] < 1 else "#BBBBBB" if dark else FRONT


def cloud(method: str, moment: Moment, i: int, n: int, ink, size) -> dict:
    """The answers of run i of n in objective space: a marker for each distinct vector, larger the
    more answers earn it; open if they touched lava; a cross below for those that do not reach E.
    """
    aside, missed = (i - (n - 1) / 2) * ASIDE, (FAILED_AT[0], FAILED_AT[1] - FAILED_STEP * i)
    text, colour, symbol, _ = look(method)
    share = (moment.counts / moment.counts.sum()).tolist()
    drawn = {"x": [], "y": [], "text": [], "hovertext": []}
    marker = {"symbol": [], "size": [], "color": colour, "opacity": 0.85}
    line = {"color": [], "width": []}
    for p, point in enumerate(moment.points.tolist()):
        reached, lava = moment.valid[p], point[3] < 1
        drawn["x"].append(point[1] + aside if reached else missed[0])
        drawn["y"].append(point[2] + aside if reached else missed[1])
        drawn["text"].append("" if reached else f"{share[p]:.0%} miss E")
        drawn["hovertext"].append(in_words(text, point, f", {moment.counts[p]} answers"))
        marker["symbol"].append("x" if not reached else symbol + "-open" * lava)
        marker["size"].append(_size(share[p]) if reached else 12)
        line["color"].append(colour if lava or not reached else "#000000")
        line["width"].append(0 if not reached else 3 if lava else 1)
    font = {"size": size - 2, "color": ink}
    return {"name": text, "textfont": font, "marker": marker | {"line": line}} | drawn


def numbers(view: View, rewards, rings: tuple[int, int], ink, size) -> dict:
    """The numbers of the answers on the board, right of their points: clear of what is drawn there.

    rings: sizes of the rings around points of the front, and around those that are asked for
    """
    places, sizes = {}, {}
    asked = () if view.target is None else view.target.best
    for i, vector in enumerate(rewards):
        if vector[0] > 0:
            places.setdefault((float(vector[1]), float(vector[2])), []).append(str(i + 1))
    for run in view.on_show():
        share = run.moment.counts / run.moment.counts.sum()
        for point, part in zip(run.moment.points.tolist(), share, strict=True):
            sizes[point[1], point[2]] = max(_size(part), sizes.get((point[1], point[2]), 0))
    for i, point in enumerate(() if view.front is None else view.front.tolist()):
        sizes[point[1], point[2]] = rings[i in asked]
    return {
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "text": [html("<b>{}</b>", ",".join(n)) for n in places.values()],
        "marker_size": [sizes.get(place, 0) for place in places],
        "textfont": {"size": size, "color": ink},
    }


def _size(share: float) -> float:
    """Of the marker of so large a share of the answers: its area grows with them."""
    return 8 + 30 * math.sqrt(share)
