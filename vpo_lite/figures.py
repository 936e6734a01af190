"""Numbers in, plotly figures out. Nothing here computes a metric, trains, or knows a widget.

One look for all: a method has its own colour (Okabe-Ito, safe for colour-blind eyes), marker and dash, the same in
every figure, so that a curve can be told apart in grey print and from the back of a room. Sizes are explicit because
JupyterLab draws a figure 700 px wide otherwise; Greek letters are Unicode because it does not draw LaTeX in titles.

Rewards are (n, d) arrays as everywhere; `runs` is {label: data}, and a label that is (or begins with) the name of a
method takes its look.
"""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

# name: (as people write it, colour, marker, dash)
STYLES = {
    "vpo": ("VPO", "#0072B2", "circle", "solid"),
    "grpo": ("GRPO", "#D55E00", "square", "dash"),
    "multi_rlvr": ("Multi-RLVR", "#E69F00", "triangle-up", "dot"),
    "max_at_k": ("Max@k", "#009E73", "diamond", "dashdot"),
    "gdpo": ("GDPO", "#CC79A7", "cross", "longdash"),
    "maxrl": ("MaxRL", "#56B4E9", "x", "longdashdot"),
    "random_weighting": ("random weighting", "#F0E442", "star", "2px,6px"),
    "goal_conditioned": ("goal-conditioned", "#000000", "triangle-down", "12px,3px,3px,3px"),
}
FRONT = "#555555"
EDGE = {"color": "black", "width": 1}
ANSWERS = [style[1:] for style in STYLES.values()]  # the look of answer 1, 2, ... where no method is involved


def look(label, position=0):
    """(text, colour, marker, dash) of a label: a method's own, else by its place in the figure.

    >>> look("vpo"), look("grpo, seed 1")[0]
    (('VPO', '#0072B2', 'circle', 'solid'), 'GRPO, seed 1')
    """
    for name in sorted(STYLES, key=len, reverse=True):  # "maxrl" must not be taken for a shorter name
        rest = str(label)[len(name) :]
        if str(label).startswith(name) and not rest[:1].isalnum() and rest[:1] != "_":
            text, *others = STYLES[name]
            return (text + rest, *others)
    return (str(label), *ANSWERS[position % len(ANSWERS)])


def objective_space(runs, front=None, *, objectives=None, axes=(0, 1), title="Answers in objective space", width=760):
    """Each run's answers, and the true front, in two of the d objectives; a marker grows with its number of answers.

    runs {label: (n, d)}, front (f, d) or None, objectives d names, axes which two of them. With d > 2 this is a
    projection: a point of the front may look dominated.
    """
    figure = go.Figure()
    d = np.shape(front if front is not None else next(iter(runs.values())))[-1]
    names = objectives or [f"objective {i + 1}" for i in range(d)]
    if front is not None:
        points = np.unique(np.asarray(front, float)[:, list(axes)], axis=0)
        hollow = {"symbol": "circle-open", "size": 26, "color": FRONT, "line_width": 3}
        figure.add_scatter(x=points[:, 0], y=points[:, 1], mode="markers", name="true front", marker=hollow)
    for position, (label, rewards) in enumerate(runs.items()):
        text, colour, symbol, _ = look(label, position)
        points, count = np.unique(np.asarray(rewards, float)[:, list(axes)], axis=0, return_counts=True)
        size = 9 + 18 * np.sqrt(count / count.sum()) + 6 * (len(runs) - 1 - position)  # nested where runs agree
        figure.add_scatter(
            x=points[:, 0], y=points[:, 1], mode="markers", name=text, customdata=count,
            marker={"color": colour, "symbol": symbol, "size": size, "opacity": 0.85, "line": EDGE},
            hovertemplate=f"{text}: %{{customdata}} answers at (%{{x:.3f}}, %{{y:.3f}})<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title=names[axes[0]], range=_room(figure, "x"))
    figure.update_yaxes(title=names[axes[1]], range=_room(figure, "y"))
    return _finish(figure, title, width, 560)


def curves(runs, panels=("coverage", "diversity"), *, levels=None, x="step", titles=None, width=None, height=420):
    """Curves over training, one panel for each figure: runs {label: {"step": (T,), panel: (T,) or (seeds, T)}}.

    Several seeds are drawn as their mean with a band from the lowest to the highest. levels {panel: {text: height}}
    adds dotted lines, say the coverage of the best single answer; titles {panel: text}. A run without a panel is left
    out of it.
    """
    titles, levels = titles or {}, levels or {}
    figure = make_subplots(1, len(panels), subplot_titles=[titles.get(p, p.replace("_", " ")) for p in panels])
    for position, (label, series) in enumerate(runs.items()):
        shown = False
        for column, panel in enumerate(panels, start=1):
            if panel in series:
                _line(figure, series[x], series[panel], label, position, legend=not shown, row=1, col=column)
                shown = True
    for column, panel in enumerate(panels, start=1):
        for text, level in levels.get(panel, {}).items():
            figure.add_hline(level, line={"color": FRONT, "dash": "dot", "width": 2}, row=1, col=column,
                             annotation=_note(text))  # fmt: skip
    figure.update_xaxes(title=x)
    return _finish(figure, None, width or 160 + 400 * len(panels), height)


def lines(x, runs, *, x_title, y_title, title=None, log_x=False, levels=None, width=760, height=460):
    """Curves over any x: runs {label: (T,), or (n, T) drawn as mean and band}; levels {text: height} dotted lines."""
    figure = go.Figure()
    for position, (label, y) in enumerate(runs.items()):
        _line(figure, x, y, label, position)
    for text, level in (levels or {}).items():
        figure.add_hline(level, line={"color": FRONT, "dash": "dot", "width": 2},
                         annotation=_note(text))  # fmt: skip
    figure.update_xaxes(title=x_title, type="log" if log_x else "linear")
    if log_x and len(x) <= 12:
        figure.update_xaxes(tickvals=list(x), ticktext=[f"{value:g}" for value in x])
    figure.update_yaxes(title=y_title)
    return _finish(figure, title, width, height)


def best_at_k(runs, *, title="Best of k answers", y_title="best@k", width=760):
    """runs {label: {k: value}}, k in answers, on a logarithmic axis."""
    figure = go.Figure()
    for position, (label, values) in enumerate(runs.items()):
        k = sorted(values, key=int)
        _line(figure, [int(i) for i in k], [values[i] for i in k], label, position, markers=True)
    ticks = sorted({int(k) for values in runs.values() for k in values})
    figure.update_xaxes(title="k (answers)", type="log", tickvals=ticks, ticktext=[str(k) for k in ticks])
    figure.update_yaxes(title=y_title)
    return _finish(figure, title, width, 460)


def objective_means(steps, means, objectives, *, title="Mean of each objective", width=760):
    """What one run's answers earn in each objective over training: steps (T,), means (T, d), objectives d names."""
    means = dict(zip(objectives, np.transpose(means), strict=True))
    return lines(steps, means, x_title="step", y_title="mean reward", title=title, width=width)


def set_reward_against_K(K, samples, exact, *, title="Set reward against K", width=760):
    """The estimate from K weightings: samples {label: (len(K), repeats)} as median and 90 % band, exact as a line."""
    figure = go.Figure()
    K = np.asarray(K)
    for position, (label, values) in enumerate(samples.items()):
        text, colour, symbol, dash = look(label, position)
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
        _band(figure, K, low, high, colour, text)
        figure.add_scatter(x=K, y=middle, mode="lines+markers", name=text, legendgroup=text,
                           line={"color": colour, "dash": dash, "width": 3}, marker={"symbol": symbol, "size": 9},
                           )  # fmt: skip
    figure.add_hline(exact, line={"color": "black", "width": 2},
                     annotation=_note(f"K = ∞: {exact:.4f}"))  # fmt: skip
    figure.update_xaxes(title="K (sampled weightings)", type="log", tickvals=K, ticktext=[str(k) for k in K])
    figure.update_yaxes(title="set reward")
    return _finish(figure, title, width, 460)


def set_reward_against_alpha(alphas, values, *, title="Set reward against α", width=760):
    """values {label: (len(alphas),)}: which kind of set is worth more as α moves from corners to the centre."""
    figure = lines(alphas, values, x_title="α (corners ← 1 = uniform → centre)", y_title="set reward", title=title,
                   log_x=True, width=width)  # fmt: skip
    return figure.update_xaxes(tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])


def upper_envelope(R, shares=None, *, W=None, objectives=("objective 1", "objective 2"), title=None, width=760):
    """d = 2: the score of each answer is a line in w₁, and the set is judged by the highest, drawn thick.

    R (m, 2); shares (m,), say `exact_shares(R, alpha)`, for the legend; W (K, 2) sampled weightings, drawn on the axis.
    """
    R = np.asarray(R, float)
    crossings = [(b[1] - a[1]) / ((a - b) @ [1, -1]) for a in R for b in R if (a - b) @ [1, -1]]
    x = np.unique([0, 1, *[c for c in crossings if 0 < c < 1]])
    best = np.max(np.outer(x, R[:, 0]) + np.outer(1 - x, R[:, 1]), axis=1)
    figure = go.Figure()
    figure.add_scatter(x=x, y=best, mode="lines", name="best answer", line={"color": "#BBBBBB", "width": 14})
    for i, (one, two) in enumerate(R):
        colour, symbol, dash = ANSWERS[i % len(ANSWERS)]
        figure.add_scatter(
            x=[0, 0.5, 1], y=[two, (one + two) / 2, one], mode="lines+markers", name=_answer(i, shares),
            line={"color": colour, "dash": dash, "width": 3}, marker={"symbol": symbol, "size": 12},
        )  # fmt: skip
    if W is not None:
        tick = {"symbol": "line-ns-open", "size": 16, "color": "black"}
        low = np.full(len(W), R.min())
        figure.add_scatter(x=np.asarray(W)[:, 0], y=low, mode="markers", name="sampled weightings", marker=tick)
    figure.update_xaxes(title=f"w₁: weight of {objectives[0]} (the rest on {objectives[1]})")
    figure.update_yaxes(title="score w · r")
    return _finish(figure, title or "Who wins where", width, 480)


def weight_simplex(R, shares=None, *, W=None, objectives=None, show=(0, 1, 2), fixed=None, title=None, width=760):
    """The simplex of weightings as a triangle, each region in the colour of the answer that wins there.

    R (m, d) with d >= 3, `show` the three objectives at the corners; the weights of the others are held at
    fixed {index: weight}, 0 unless given, and the three share what is left (the title says so). shares (m,), say
    `exact_shares(R, alpha)`, for the legend: of all weightings, not of this slice; W (K, d) sampled weightings, drawn as
    dots (only for d = 3: with more objectives they do not lie in the slice).
    """
    R, show, fixed = np.asarray(R, float), list(show), dict(fixed or {})
    d = R.shape[1]
    if d < 3 or len(set(show)) != 3 or set(show) & set(fixed) or not 0 <= sum(fixed.values()) < 1:
        raise ValueError(f"R has shape {R.shape}, show = {show}, fixed = {fixed}: expected d >= 3, three objectives to "
                         "show, and weights below 1 in all for the others; d = 2 has upper_envelope")  # fmt: skip
    names = objectives or [f"objective {k + 1}" for k in range(d)]
    left = 1.0 - sum(fixed.values())
    held = np.array([fixed.get(k, 0.0) for k in range(d)])
    corners = left * np.eye(d)[show] + held  # the triangle in the whole simplex, as rows
    scores = corners @ R.T  # (3, m): what each answer is worth at each corner
    figure = go.Figure()
    for i in range(len(R)):
        colour, symbol, _ = ANSWERS[i % len(ANSWERS)]
        region = _winning_region(scores, i)
        if len(region):
            outline = np.vstack([region, region[:1]]) * left
            figure.add_scatterternary(
                a=outline[:, 0], b=outline[:, 1], c=outline[:, 2], mode="lines", fill="toself", name=_answer(i, shares),
                fillcolor=_see_through(colour, 0.35), line={"color": colour, "width": 2}, legendgroup=str(i),
            )  # fmt: skip
            centre = region.mean(axis=0) * left
            figure.add_scatterternary(
                a=centre[:1], b=centre[1:2], c=centre[2:], mode="markers+text", text=[f"<b>{i + 1}</b>"],
                textposition="top center", textfont_size=20, showlegend=False, legendgroup=str(i), hoverinfo="skip",
                marker={"symbol": symbol, "size": 14, "color": colour, "line": EDGE},
            )  # fmt: skip
    if W is not None and d == 3:
        a, b, c = np.asarray(W, float)[:, show].T
        figure.add_scatterternary(a=a, b=b, c=c, mode="markers", name="sampled weightings",
                                  marker={"size": 5, "color": "black", "opacity": 0.6})  # fmt: skip
    for axis, k in zip("abc", show, strict=True):
        title_of_axis = {"text": f"<b>{names[k]}</b>", "font_size": 18}
        figure.update_layout({f"ternary_{axis}axis": {"title": title_of_axis, "ticks": "outside", "showgrid": False}})
    rest = [k for k in range(d) if k not in show]
    held_text = ", ".join(f"{names[k]} held at {fixed.get(k, 0):g}" for k in rest)
    title = title or "Who wins where" + (f" ({held_text})" if rest else "")
    figure = _finish(figure, title, width, 560)
    upright = {"orientation": "v", "x": 1.0, "xanchor": "right", "y": 1.0, "yanchor": "top"}
    return figure.update_layout(ternary_sum=left, legend=upright)


# ---- what they share ----


def _winning_region(scores, i):
    """The polygon (v, 3), in corner coordinates, where answer i scores as high as any other; (0, 3) if there is none."""
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
        for p, q, hp, hq in zip(polygon, np.roll(polygon, -1, axis=0), h, np.roll(h, -1), strict=True):
            if hp >= 0:
                corners.append(p)
            if hp * hq < 0:  # this edge crosses the line of equal scores
                corners.append(p + hp / (hp - hq) * (q - p))
        polygon = np.reshape(corners, (-1, 3))
    area = len(polygon) >= 3 and abs(np.linalg.det(np.stack([polygon.mean(axis=0), polygon[0], polygon[1]])))
    return polygon if area else np.zeros((0, 3))


def _line(figure, x, y, label, position, *, legend=True, markers=False, **where):
    text, colour, symbol, dash = look(label, position)
    y = np.asarray([np.nan if v is None else v for v in y] if np.ndim(y) == 1 else y, float)
    if y.ndim == 2:
        if len(y) > 1:
            _band(figure, x, y.min(axis=0), y.max(axis=0), colour, text, **where)
        y = y.mean(axis=0)
    every = max(1, len(y) // 8)  # a few markers tell curves apart in grey print
    size = 10 if markers else [10 if i % every == 0 else 0 for i in range(len(y))]
    marker = {"symbol": symbol, "opacity": 1, "size": size,
                  "line": {"color": "black", "width": 1 if markers else 0}}  # fmt: skip
    figure.add_scatter(x=x, y=y, mode="lines+markers", name=text, legendgroup=text, showlegend=legend,
                       line={"color": colour, "dash": dash, "width": 3}, marker=marker, **where)  # fmt: skip


def _band(figure, x, low, high, colour, text, **where):
    x, y = np.concatenate([x, np.flip(x)]), np.concatenate([high, np.flip(low)])
    figure.add_scatter(x=x, y=y, fill="toself", fillcolor=_see_through(colour, 0.2), line_width=0, mode="lines",
                       hoverinfo="skip", showlegend=False, legendgroup=text, **where)  # fmt: skip


def _note(text):
    return {"text": text, "font_size": 14, "showarrow": False, "bgcolor": "rgba(255,255,255,0.8)"}


def _finish(figure, title, width, height):
    figure.update_layout(
        template="plotly_white", width=width, height=height, font_size=16, uirevision="keep",
        title={"text": title, "x": 0.02, "y": 0.97, "yanchor": "top"} if title else None,
        margin={"l": 80, "r": 30, "t": 100 if title else 90, "b": 70},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    if not title:
        figure.update_layout(legend_y=1.1)
    return figure


def _answer(i, shares):
    return f"answer {i + 1}" + (f" wins {100 * float(shares[i]):.0f} %" if shares is not None else "")


def _see_through(colour, opacity):
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _room(figure, axis):
    """A range that holds [0, 1] and all points, with room for the markers."""
    values = np.concatenate([[0.0, 1.0], *[np.asarray(trace[axis], float) for trace in figure.data]])
    margin = 0.07 * np.ptp(values)
    return [values.min() - margin, values.max() + margin]
