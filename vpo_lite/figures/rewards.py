"""Rewards: where answers lie, who wins where, what sets cover, and how components correlate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from .looks import ANSWERS, EDGE, FRONT, LEVEL, WIDE, by_label, see_through, stroke
from .parts import clouds, dots, finish, room

RED_TO_BLUE = [[0, "#F4A582"], [0.5, "#FFFFFF"], [1, "#92C5DE"]]  # black numbers stand out from all
SIGNED = {"colorscale": RED_TO_BLUE, "zmin": -1, "zmax": 1, "hoverongaps": False}  # a correlation


def objective_space(
    runs: Mapping[str, ArrayLike],
    front: ArrayLike | None = None,
    *,
    objectives: Sequence[str] | None = None,
    axes: tuple[int, int] = (0, 1),
    title: str = "Answers in objective space",
    width: int = 760,
) -> go.Figure:
    """Each run's answers, and the true front, in two of the d objectives.

    runs {label: (n, d)}, front (f, d) or None, objectives d names, axes which two of them. A marker
    grows with its number of answers. With d > 2 this is a projection, so a point of the front may
    look dominated. ValueError without any run or front.
    """
    figure, runs = go.Figure(), by_label(runs, "runs")
    given = [front] if front is not None else list(runs.values())
    if not given:
        raise ValueError("runs and front: both are empty; give one of them")
    d = np.shape(given[0])[-1]
    names = objectives or [f"objective {i + 1}" for i in range(d)]
    if front is not None:
        x, y = np.unique(np.asarray(front, float)[:, list(axes)], axis=0).T
        ring = {"symbol": "circle-open", "size": 26, "color": FRONT, "line_width": 3}
        figure.add_scatter(x=x, y=y, mode="markers", name="true front", marker=ring)
    clouds(figure, runs, axes)
    figure.update_xaxes(title=names[axes[0]], range=room(figure, "x", 0.07))
    figure.update_yaxes(title=names[axes[1]], range=room(figure, "y", 0.07))
    return finish(figure, title, width, 560)


def upper_envelope(
    R: ArrayLike,
    shares: ArrayLike | None = None,
    *,
    W: ArrayLike | None = None,
    objectives: Sequence[str] = ("objective 1", "objective 2"),
    title: str | None = None,
    width: int = 760,
) -> go.Figure:
    """d = 2: each answer's score is a line in w₁. The set is scored by the highest, drawn thick.

    R (m, 2). shares (m,), the win shares as from `exact_shares(R, alpha)`, go into the legend.
    W (K, 2), sampled weights, are drawn on the axis. ValueError for another d.
    """
    R = np.asarray(R, float)
    if R.ndim != 2 or R.shape[1] != 2:
        raise ValueError(f"R has shape {R.shape}: expected (m, 2) (d >= 3: weight_simplex)")
    crossings = [(b[1] - a[1]) / ((a - b) @ [1, -1]) for a in R for b in R if (a - b) @ [1, -1]]
    x = np.unique([0, 1, *[c for c in crossings if 0 < c < 1]])
    best = np.max(np.outer(x, R[:, 0]) + np.outer(1 - x, R[:, 1]), axis=1)
    figure = go.Figure()
    thick = {"color": "#929292", "width": 14}
    figure.add_scatter(x=x, y=best, mode="lines", name="best answer", line=thick)
    for i, (one, two) in enumerate(R):
        _, colour, symbol, dash = ANSWERS[i % len(ANSWERS)]
        x, y = [0, 0.5, 1], [two, (one + two) / 2, one]
        line, marker = stroke(colour, dash), {"symbol": symbol, "size": 12}
        figure.add_scatter(x=x, y=y, mode="lines+markers", name=_answer(i, shares), line=line)
        figure.data[-1].update(marker=marker)
    if W is not None:
        W, name = dots(W)
        y = np.full(len(W), R.min())
        tick = {"symbol": "line-ns-open", "size": 16, "color": "black"}
        figure.add_scatter(x=W[:, 0], y=y, mode="markers", name=name, marker=tick)
    figure.update_xaxes(title=f"w₁: weight of {objectives[0]} (the rest on {objectives[1]})")
    figure.update_yaxes(title="score w · r")
    return finish(figure, title or "Who wins where", width, 480)


def weight_simplex(
    R: ArrayLike,
    shares: ArrayLike | None = None,
    *,
    W: ArrayLike | None = None,
    objectives: Sequence[str] | None = None,
    show: Sequence[int] = (0, 1, 2),
    fixed: Mapping[int, float] | None = None,
    title: str | None = None,
    width: int = 760,
) -> go.Figure:
    """The weight simplex as a triangle: each region has the colour of the answer that wins there.

    R (m, d) with d >= 3. `show` names the three objectives at the corners. With d > 3 this is a
    slice: the weights of the other objectives are held at fixed {index: weight}, else at 0. The
    three share the weight that is left; the title says so.

    shares (m,), the win shares as from `exact_shares(R, alpha)`, go into the legend. They are those
    of the whole simplex, not of the slice. W (K, d), sampled weights, are drawn as dots if d = 3;
    with more objectives they do not lie in the slice. Raises ValueError for a `show` or `fixed`
    that gives no triangle.
    """
    R, show, fixed = np.asarray(R, float), list(show), dict(fixed or {})
    d = R.shape[-1] if R.ndim == 2 else 0
    apart = len(set(show)) == len(show) == 3 and not set(show) & set(fixed)
    there = {*show, *fixed} <= set(range(d))
    left = 1.0 - sum(fixed.values())
    if not (apart and there and min(fixed.values(), default=0.0) >= 0 and left > 0):
        raise ValueError(
            f"R has shape {R.shape}, show = {show}, fixed = {fixed}: expected d >= 3, three "
            "objectives to show, and weights of others, from 0 and below 1 in all (d = 2: "
            "upper_envelope)"
        )
    if shares is not None and np.shape(shares) != (len(R),):
        raise ValueError(f"shares has shape {np.shape(shares)}: expected one for each of {len(R)}")
    names = objectives or [f"objective {k + 1}" for k in range(d)]
    held = np.array([fixed.get(k, 0.0) for k in range(d)])
    corners = left * np.eye(d)[show] + held  # the triangle in the whole simplex, as rows
    scores = corners @ R.T  # (3, m): what each answer is worth at each corner
    figure = go.Figure()
    for i in range(len(R)):
        _, colour, symbol, _ = ANSWERS[i % len(ANSWERS)]
        region = _winning_region(scores, i)
        if not len(region) and len(R) <= 5:  # it wins nowhere: the legend says so
            none = figure.add_scatterternary(a=[None], b=[None], c=[None], mode="markers").data[-1]
            none.update(marker={"symbol": symbol, "size": 9, "color": colour}, showlegend=True)
            none.update(name=_answer(i, shares))
        if len(region):
            a, b, c = np.vstack([region, region[:1]]).T * left
            fill, edge = see_through(colour, 0.35), {"color": colour, "width": 2}
            area = figure.add_scatterternary(a=a, b=b, c=c, mode="lines", line=edge).data[-1]
            area.update(fill="toself", fillcolor=fill, name=_answer(i, shares), legendgroup=str(i))
            a, b, c = region.mean(axis=0)[:, None] * left
            marker = {"symbol": symbol, "size": 14, "color": colour, "line": EDGE}
            number = figure.add_scatterternary(a=a, b=b, c=c, mode="markers+text").data[-1]
            number.update(marker=marker, text=[f"<b>{i + 1}</b>"], textposition="top center")
            number.update(textfont_size=20, showlegend=False, legendgroup=str(i), hoverinfo="skip")
    if W is not None and d == 3:
        W, name = dots(W)
        a, b, c = W[:, show].T
        dot = {"size": 5, "color": "black", "opacity": 0.6}
        figure.add_scatterternary(a=a, b=b, c=c, mode="markers", marker=dot)
        figure.data[-1].update(name=name, cliponaxis=False)  # most stand at the edges if alpha < 1
    for axis, k in zip("abc", show, strict=True):
        name = {"text": f"<b>{names[k]}</b>", "font_size": 18}
        style = {"title": name, "showgrid": False, "tickvals": []}  # no side shows whose they are
        figure.update_layout({f"ternary_{axis}axis": style})
    rest = [f"{names[k]} held at {fixed.get(k, 0):g}" for k in range(d) if k not in show]
    title = title or "Who wins where" + (f" ({', '.join(rest)})" if rest else "")
    figure = finish(figure, title, width, 560)
    upright = {"orientation": "v", "x": 1.0, "xanchor": "right", "y": 1.0, "yanchor": "top"}
    return figure.update_layout(ternary_sum=left, legend=upright)


def weight_clouds(
    drawn: Mapping[str, ArrayLike],
    *,
    objectives: Sequence[str] | None = None,
    title: str | None = None,
    width: int = WIDE,
) -> go.Figure:
    """Sampled weights for three objectives, a triangle for each entry, side by side.

    drawn {label: W (K, 3)}. A dot grows with the number of weights within 0.025 of it. ValueError
    for none, or for another d.
    """
    if not drawn or any(np.ndim(W) != 2 or np.shape(W)[1] != 3 for W in drawn.values()):
        given = ", ".join(f"{label}: {np.shape(W)}" for label, W in drawn.items()) or "none"
        raise ValueError(f"drawn has shapes {given}: expected (K, 3) each")
    names = objectives or [f"objective {k + 1}" for k in range(3)]
    cells = dict(specs=[[{"type": "ternary"}] * len(drawn)], horizontal_spacing=0.12)
    titles = [f"{label}<br><br>{names[0]}" for label in drawn]  # beyond the dots in the corner
    figure = make_subplots(1, len(drawn), subplot_titles=titles, **cells)
    for column, (label, W) in enumerate(drawn.items(), start=1):
        rounded = (np.asarray(W, float) * 20).round() / 20
        (a, b, c), people = np.unique(rounded.T, axis=1, return_counts=True)
        marker = {"size": 3.6 * np.sqrt(people), "color": "black", "opacity": 0.6}
        dot = dict(mode="markers", marker=marker, name=label, hoverinfo="skip", cliponaxis=False)
        figure.add_scatterternary(a=a, b=b, c=c, **dot, row=1, col=column)
    clear = "rgba(0,0,0,0)"  # for the words of the figure: the titles show this name
    for axis, name in zip("abc", names, strict=True):
        font = {"size": 16, "color": clear} if axis == "a" else {"size": 16}
        text = name if axis == "a" else f"<br>{name}"
        style = {"title": {"text": text, "font": font}, "showticklabels": False}
        figure.update_ternaries({f"{axis}axis": style})
    figure = finish(figure, title, width, 400)
    figure.update_ternaries(sum=1).update_annotations(yshift=-18, font_size=16)
    return figure.update_layout(showlegend=False)


def decomposition(
    coverage: Mapping[str, float],
    correlations: Mapping[str, ArrayLike],
    *,
    objectives: Sequence[str] | None = None,
    title: str | None = None,
    width: int | None = None,
) -> go.Figure:
    """What the best few answers cover, and how the components correlate.

    coverage {label: height}, drawn as bars below a line at 1. correlations {title: (d, d)}, one
    table each, with NaN where a component is constant; {} for none. objectives: d names.
    """
    titles = ["coverage", *(f"correlation: {name}" for name in correlations)]
    figure = make_subplots(1, len(titles), subplot_titles=titles, horizontal_spacing=0.16)
    heights = list(coverage.values())
    figure.add_bar(x=list(coverage), y=heights, marker_color=ANSWERS[0].colour, row=1, col=1)
    figure.data[-1].update(text=[f"{y:.3g}" for y in heights], textposition="inside", textangle=0)
    figure.data[-1].update(showlegend=False)
    figure.add_hline(1, line=LEVEL, row=1, col=1)
    figure.update_yaxes(range=[0, 1.05], row=1, col=1)
    for column, table in enumerate(correlations.values(), start=2):
        table = np.asarray(table, float)
        names = objectives or [f"component {i + 1}" for i in range(len(table))]
        words = [["" if np.isnan(x) else f"{x:.2f}" for x in row] for row in table]
        figure.add_heatmap(x=names, y=names, z=table, text=words, **SIGNED, row=1, col=column)
        figure.data[-1].update(
            showscale=column == len(titles), texttemplate="%{text}", textfont_color="black"
        )
        figure.update_yaxes(autorange="reversed", row=1, col=column)
    return finish(figure, title, width or max(760, 360 + 420 * len(correlations)), 460)


# ---- what they share ----


def _winning_region(scores, i):
    """The polygon (v, 3), in corner coordinates, where answer i scores as high as any other.

    (0, 3) if there is none.
    """
    polygon = np.eye(3)
    for j in range(scores.shape[1]):
        gap = scores[:, i] - scores[:, j]
        if j == i or not len(polygon):
            continue
        if not gap.any():  # the same score everywhere: the first of equals wins
            polygon = polygon if i < j else polygon[:0]
            continue
        h = polygon @ gap
        corners = []
        following = np.roll(polygon, -1, axis=0), np.roll(h, -1)
        for p, hp, q, hq in zip(polygon, h, *following, strict=True):
            if hp >= 0:
                corners.append(p)
            if hp * hq < 0:  # this edge crosses the line of equal scores
                corners.append(p + hp / (hp - hq) * (q - p))
        polygon = np.reshape(corners, (-1, 3))
    area = 0.0
    if len(polygon) >= 3:
        area = np.linalg.det(np.stack([polygon.mean(axis=0), polygon[0], polygon[1]]))
    return polygon if area else np.zeros((0, 3))


def _answer(i, shares):
    return f"answer {i + 1}" + (
        f" wins {100 * float(shares[i]):.0f} %" if shares is not None else ""
    )
