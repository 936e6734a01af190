"""Figures of search after training: numbers in, plotly figures out, in the looks of `figures`.

They draw what `vpo_lite.search.best_of` computes; nothing here computes a score. Rewards are (n, d)
arrays. A label that begins with the name of a method takes the look of that method.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from ..checks import shown
from .looks import LEVEL, WIDE, by_label, look, note, stroke
from .parts import clouds, finish, room

BUDGETS = (1, 3, 10, 30)
FEW = 12  # points of a curve up to which each has a marker


def best_at_k(
    curves: Mapping[str, Mapping | ArrayLike],
    *,
    intervals: Mapping[str, Mapping[int, tuple[float, float]]] | None = None,
    tokens: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    title: str | None = None,
    y_title: str = "best@k",
) -> go.Figure:
    """best@k over k on a logarithmic axis, one curve for each method.

    curves {label: {k: value}}, or {label: (n,)}, the values at k = 1 .. n. A marker stands at each
    of a few k, of many at 1, 3, 10 and 30.

    - intervals {label: {k: (low, high)}}: bars at these k
    - tokens {label: tokens of one answer}: the axis then counts tokens, k times those of an answer
    - marks {text: x}: a dotted line at x, where curves cross

    ValueError for a label without tokens where others have some, and without any value.

    >>> figure = best_at_k({"vpo": [0.2, 0.5]}, tokens={"vpo": 3.5})
    >>> figure.data[0].x.tolist(), figure.data[0].y.tolist()
    ([3.5, 7.0], [0.2, 0.5])
    """
    curves, intervals, marks = by_label(curves, "curves"), intervals or {}, marks or {}
    missing = sorted(set(curves) - set(tokens)) if tokens else []
    if missing:
        raise ValueError(f"tokens: none for {shown(missing[0])}; give those of every curve")
    lists = [v for v in curves.values() if not isinstance(v, Mapping)]
    if any(np.ndim(v) != 1 for v in lists) or not all(map(len, curves.values())) or not curves:
        raise ValueError(f"curves = {shown(curves)}: expected the values at k = 1 .. n by label")
    figure = go.Figure()
    for position, (label, values) in enumerate(curves.items()):
        text, colour, symbol, dash = look(label, position)
        values = values if isinstance(values, Mapping) else dict(enumerate(values, start=1))
        at = sorted(values, key=int)
        k, y = np.array([int(i) for i in at]), np.array([values[i] for i in at], float)
        x, y = k * tokens[label] if tokens else k, y.round(12)  # else the axis shows the last bits
        figure.add_scatter(x=x, y=y, name=text, mode="lines+markers", line=stroke(colour, dash))
        figure.data[-1].update(marker=_at_budgets(symbol, k, every=len(k) <= FEW))
        if label in intervals:
            spans = [intervals[label].get(int(i), (np.nan, np.nan)) for i in k]
            low, high = np.transpose(spans)
            bars = {"array": high - y, "arrayminus": y - low, "thickness": 2, "width": 5}
            figure.data[-1].update(error_y=bars)
    for text, x in marks.items():
        figure.add_vline(x, line=LEVEL)
        figure.add_annotation(x=np.log10(x), xshift=6, y=0.02, yref="paper", xanchor="left")
        figure.layout.annotations[-1].update(note(text))
    reached = np.concatenate([trace.x for trace in figure.data])
    ticks = [a * 10**b for b in range(9) for a in (1, 2, 3, 5)]
    ticks = [tick for tick in ticks if reached.min() <= tick <= reached.max()]
    figure.update_xaxes(title="tokens written" if tokens else "k (answers)", type="log")
    figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks])
    figure.update_yaxes(title=y_title)
    return finish(figure, title, WIDE, 540).update_layout(legend_itemsizing="constant")


def preference_slider(pools, weights, chosen, curves, *, objectives=None, axes=(0, 1)):
    """A slider of preferences: which answer of each pool is chosen, and best@k, under each of them.

    The slider lies inside the figure, so it also moves where no kernel runs. It opens in the
    middle. On the left each pool lies in two of the d objectives, a ring around the chosen answer
    with its score; a marker grows with its number of answers. On the right is best@k.

    - pools {label: (n, d)}: the answers' rewards
    - weights (s, d): the preferences, one for each place of the slider
    - chosen {label: (s,)}: the index of the chosen answer, as from `best_of.choose`
    - curves {label: (s, n)}: best@k under each preference, as from `best_of.best_at`
    - objectives d names; axes which two are drawn, the slider names the weight of the first

    ValueError for pools, choices and curves with different labels.
    """
    parts = {"pools": pools, "chosen": chosen, "curves": curves}
    labels = [sorted(by_label(part, name)) for name, part in parts.items()]
    if not pools or not labels[0] == labels[1] == labels[2]:
        raise ValueError(
            f"labels of pools, chosen, curves are {shown(labels)}: expected the same, one or more"
        )
    weights = np.asarray(weights, float)
    names = objectives or [f"objective {i + 1}" for i in range(weights.shape[1])]
    start = len(weights) // 2
    space = "answers, and the chosen ones"
    figure = make_subplots(1, 2, subplot_titles=[space, "best@k under this preference"])
    clouds(figure, pools, axes)
    figure.for_each_trace(lambda trace: trace.update(legendgroup=trace.name))
    for letter, axis in zip("xy", axes, strict=True):
        place = {"title": names[axis], "range": room(figure, letter, 0.3)}  # for rings, and scores
        figure.layout[f"{letter}axis"].update(place)
    still = len(figure.data)
    moving = [
        _chosen_and_curve(pools, weights, chosen, curves, axes, s) for s in range(len(weights))
    ]
    for position, label in enumerate(pools):
        text, colour, symbol, dash = look(label, position)
        ring = {"symbol": "circle-open", "size": 46 + 14 * position, "color": colour}
        ring["line"] = {"width": 4, "color": colour}
        place = ("top center", "bottom center")[position % 2]
        letters = {"size": 20, "color": colour}
        figure.add_scatter(mode="markers+text", marker=ring, textposition=place, textfont=letters)
        figure.add_scatter(mode="lines+markers", line=stroke(colour, dash), row=1, col=2)
        k = range(1, np.shape(curves[label])[1] + 1)
        figure.data[-1].update(marker=_at_budgets(symbol, k))
        for trace in figure.data[-2:]:
            trace.update(name=text, legendgroup=text, showlegend=False, cliponaxis=False)
    for trace, *now in zip(figure.data[still:], *moving[start].values(), strict=True):
        trace.update(dict(zip(moving[start], now, strict=True)))
    where = list(range(still, len(figure.data)))
    steps = [
        {"method": "restyle", "args": [new, where], "label": f"{w[axes[0]]:.2f}"}
        for new, w in zip(moving, weights, strict=True)
    ]
    told = {"prefix": f"weight of {names[axes[0]]}: ", "font": {"size": 20}}
    slider = {"steps": steps, "active": start, "currentvalue": told, "pad": {"t": 60}}
    everything = np.concatenate([np.ravel(values) for values in curves.values()])
    margin = 0.05 * max(np.ptp(everything), 0.1)
    span = [everything.min() - margin, everything.max() + margin]
    ticks = [k for k in BUDGETS if k <= max(np.shape(values)[1] for values in curves.values())]
    figure.update_xaxes(title="k (answers)", type="log", tickvals=ticks, row=1, col=2)
    figure.update_yaxes(title="score w · r", range=span, row=1, col=2)
    figure = finish(figure, None, WIDE, 570)
    return figure.update_layout(sliders=[slider], margin_b=40)


def _at_budgets(symbol, budgets, every=False):
    """A marker at k = 1, 3, 10 and 30 of these k, or at every one; none elsewhere."""
    size = [12 if every or k in BUDGETS else 0 for k in budgets]
    edge = {"color": "black", "width": [1 if s else 0 for s in size]}
    return {"symbol": symbol, "size": size, "opacity": 1, "line": edge}


def _chosen_and_curve(pools, weights, chosen, curves, axes, s):
    """What changes at place s of the slider: x, y and text of the ring and the curve of each."""
    new = {"x": [], "y": [], "text": []}
    for label, rewards in pools.items():
        best = np.asarray(rewards, float)[int(chosen[label][s])]
        curve = [float(v) for v in curves[label][s]]
        new["x"] += [[float(best[axes[0]])], list(range(1, len(curve) + 1))]
        new["y"] += [[float(best[axes[1]])], curve]
        new["text"] += [[f"{weights[s] @ best:.2f}"], None]
    return new
