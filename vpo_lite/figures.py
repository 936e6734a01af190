"""Numbers in, plotly figures out. Nothing here computes a metric, trains, or knows a widget.

Every method has its own colour (Okabe-Ito, safe for colour-blind eyes), marker and dash, the same
in every figure. So a curve can be told apart in grey print and from the back of a room. Sizes are
explicit because JupyterLab draws a figure 700 px wide otherwise. Greek letters are Unicode because
it does not draw LaTeX in titles.

A notebook shows each figure with its words folded below it. ``in_words(figure)`` returns them.

Rewards are (n, d) arrays as everywhere. `runs` is {label: data}. A label that is the name of a
method, or begins with it, takes the look of that method.

Longer than 350 lines because notebooks find all these figures under one name, ``vpo.figures``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from .checks import shown
from .figure_parts import clouds, dots, finish, room
from .figure_parts import live as live
from .in_words import in_words as in_words
from .in_words import listed as listed
from .looks import ANSWERS, EDGE, FRONT, LEVEL, WIDE, by_label, look, note, stroke

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


def curves(
    runs: Mapping[str, Mapping[str, ArrayLike]],
    panels: Sequence[str] = ("coverage", "diversity"),
    *,
    levels: Mapping | None = None,
    x: str = "step",
    titles: Mapping[str, str] | None = None,
    width: int | None = None,
    height: int = 420,
) -> go.Figure:
    """Curves over training, with one panel per metric.

    runs {label: {"step": (T,), panel: (T,) or (seeds, T)}}; a run is left out of a panel that it
    has no data for. Several seeds are drawn as their mean, with a band from the lowest to the
    highest. x names what stands across, and its axis. levels {panel: {text: height}} adds dotted
    lines. titles {panel: text}.
    """
    titles, levels = titles or {}, levels or {}
    names = [titles.get(panel, panel.replace("_", " ")) for panel in panels]
    width = width or min(160 + 400 * len(panels), WIDE)
    beside = [_beside(levels.get(panel)) for panel in panels]
    spacing = 0.2 / len(panels) + max(beside[:-1], default=0) / (width - 110 - beside[-1])
    figure = make_subplots(1, len(panels), subplot_titles=names, horizontal_spacing=spacing)
    for position, (label, series) in enumerate(by_label(runs, "runs").items()):
        if not hasattr(series, "keys") or x not in series:
            raise ValueError(
                f"runs[{shown(label)}]: expected a dict with {shown(x)} and the panels"
            )
        begun = False
        for column, panel in enumerate(panels, start=1):
            if panel in series:
                at = dict(legend=not begun, row=1, col=column)
                _line(figure, series[x], series[panel], label, position, **at)
                begun = True
    for column, panel in enumerate(panels, start=1):
        _levels(figure, levels.get(panel), row=1, col=column)
    figure.update_xaxes(title=x)
    return _of_curves(finish(figure, None, width, height), beside[-1])


def lines(
    x: ArrayLike,
    runs: Mapping[str, ArrayLike],
    *,
    x_title: str,
    y_title: str,
    title: str | None = None,
    log_x: bool = False,
    levels: Mapping[str, float] | None = None,
    width: int = 760,
    height: int = 460,
) -> go.Figure:
    """Curves over any x: runs {label: (T,), or (n, T) drawn as mean and band}.

    levels {text: height} adds dotted lines.
    """
    figure = go.Figure()
    for position, (label, y) in enumerate(by_label(runs, "runs").items()):
        _line(figure, x, y, label, position)
    _levels(figure, levels)
    figure.update_xaxes(title=x_title, type="log" if log_x else "linear")
    if log_x and len(x) <= 12:
        figure.update_xaxes(tickvals=list(x), ticktext=[f"{value:g}" for value in x])
    figure.update_yaxes(title=y_title)
    return _of_curves(finish(figure, title, width, height), _beside(levels))


def best_at_k(
    runs: Mapping[str, Mapping],
    *,
    title: str | None = "Best of k answers",
    y_title: str = "best@k",
    width: int = 760,
) -> go.Figure:
    """best@k over k on a logarithmic axis: runs {label: {k: value}}, k in answers."""
    figure = go.Figure()
    for position, (label, values) in enumerate(by_label(runs, "runs").items()):
        k = sorted(by_label(values, "runs[LABEL]", "k"), key=int)
        budgets, heights = [int(i) for i in k], [values[i] for i in k]
        _line(figure, budgets, heights, label, position, markers=True)
    over_counts(figure, "k (answers)", {int(k) for values in runs.values() for k in values})
    figure.update_yaxes(title=y_title)
    return _of_curves(finish(figure, title, width, 460))


def over_counts(figure: go.Figure, title: str, counts: Collection[int]) -> None:
    """Give a figure a logarithmic x axis with these whole numbers, and no other, as its ticks."""
    ticks = sorted(counts)
    names = [str(count) for count in ticks]
    figure.update_xaxes(title=title, type="log", tickvals=ticks, ticktext=names)


def set_reward_against_K(
    K: Sequence[int],
    samples: Mapping[str, ArrayLike],
    exact: float,
    *,
    title: str = "Set reward against K",
    width: int = 760,
) -> go.Figure:
    """The set reward estimated from K weight vectors, over K, and its exact value as a line.

    samples {label: (len(K), repeats)}, drawn as the median with a 90 % band.
    """
    figure = go.Figure()
    K = np.asarray(K)
    for position, (label, values) in enumerate(by_label(samples, "samples").items()):
        text, colour, symbol, dash = look(label, position)
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
        _band(figure, K, low, high, colour, text)
        line, marker = stroke(colour, dash), {"symbol": symbol, "size": 9}
        figure.add_scatter(x=K, y=middle, name=text, mode="lines+markers", line=line)
        figure.data[-1].update(marker=marker, legendgroup=text)
    black = {"color": "black", "width": 2}
    figure.add_hline(exact, line=black, annotation=note(f"K = ∞: {exact:.4f}"))
    over_counts(figure, "K (sampled weights)", K.tolist())
    figure.update_yaxes(title="set reward")
    return finish(figure, title, width, 460)


def set_reward_against_alpha(
    alphas: Sequence[float],
    values: Mapping[str, ArrayLike],
    *,
    title: str = "Set reward against α",
    width: int = 760,
) -> go.Figure:
    """The set reward of several sets over alpha, from corners to centre.

    values {label: (len(alphas),)}.
    """
    x_title = "α (corners ← 1 = uniform → centre)"
    style = dict(x_title=x_title, y_title="set reward", title=title, log_x=True, width=width)
    figure = lines(alphas, values, **style)
    return figure.update_xaxes(tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])


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
            fill, edge = _see_through(colour, 0.35), {"color": colour, "width": 2}
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


def _line(figure, x, y, label, position, *, legend=True, markers=False, **where):
    text, colour, symbol, dash = look(label, position)
    y = np.asarray([np.nan if v is None else v for v in y] if np.ndim(y) == 1 else y, float)
    if y.shape[-1:] != np.shape(x):
        there = f"values of shape {y.shape} over an x axis of shape {np.shape(x)}"
        raise ValueError(f"{shown(label)}: {there}")
    y = y.round(12)  # or the axis magnifies the last bits, in which equal figures may differ
    if y.ndim == 2:
        if len(y) > 1:
            _band(figure, x, y.min(axis=0), y.max(axis=0), colour, text, **where)
        y = y.mean(axis=0)
    every = max(1, len(y) // 8)  # a few markers tell curves apart in grey print
    size = 10 if markers else [10 if i % every == 0 else 0 for i in range(len(y))]
    edge = {"color": "black", "width": 1 if markers else 0}
    marker = {"symbol": symbol, "opacity": 1, "size": size, "line": edge}
    style = {"mode": "lines+markers", "line": stroke(colour, dash), "marker": marker}
    names = {"name": text, "legendgroup": text, "showlegend": legend}
    figure.add_scatter(x=x, y=y, **style, **names, **where)


def _band(figure, x, low, high, colour, text, **where):
    x, y = np.concatenate([x, np.flip(x)]), np.concatenate([high, np.flip(low)])
    style = {"fill": "toself", "fillcolor": _see_through(colour, 0.2), "line_width": 0}
    quiet = {"mode": "lines", "hoverinfo": "skip", "showlegend": False, "legendgroup": text}
    figure.add_scatter(x=x, y=y, **style, **quiet, **where)


def _levels(figure, levels, **where):
    """Dotted lines at {text: height}, with the texts to the right of the axis: over the curves they
    would hide what they explain.
    """
    for text, height in (levels or {}).items():
        label = {"text": "<br>".join(_short_lines(text)), "font_size": 14, "align": "left"}
        at = dict(annotation=label, annotation_position="right")
        figure.add_hline(height, line=LEVEL, **at, **where)


def _short_lines(text):
    return textwrap.wrap(text, 11, break_long_words=False)


def _beside(levels):
    """The pixels that the texts of dotted lines take to the right of an axis."""
    return max((8 * len(line) for text in levels or () for line in _short_lines(text)), default=0)


def _of_curves(figure, beside=0):
    """The figure with the dash and the marker of each curve in its legend, and so much more room on
    the right.
    """
    figure.update_layout(legend_itemsizing="constant", legend_itemwidth=50)
    return figure.update_layout(margin_r=figure.layout.margin.r + beside)


def _answer(i, shares):
    return f"answer {i + 1}" + (
        f" wins {100 * float(shares[i]):.0f} %" if shares is not None else ""
    )


def _see_through(colour, opacity):
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
