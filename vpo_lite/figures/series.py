"""Curves: over training, over K, over alpha, and over anything else."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from ..checks import shown
from .looks import LEVEL, WIDE, by_label, look, note, see_through, stroke
from .parts import finish


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


# ---- what they share ----


def _line(figure, x, y, label, position, *, legend=True, **where):
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
    size = [10 if i % every == 0 else 0 for i in range(len(y))]
    marker = {"symbol": symbol, "opacity": 1, "size": size, "line": {"width": 0}}
    style = {"mode": "lines+markers", "line": stroke(colour, dash), "marker": marker}
    names = {"name": text, "legendgroup": text, "showlegend": legend}
    figure.add_scatter(x=x, y=y, **style, **names, **where)


def _band(figure, x, low, high, colour, text, **where):
    x, y = np.concatenate([x, np.flip(x)]), np.concatenate([high, np.flip(low)])
    style = {"fill": "toself", "fillcolor": see_through(colour, 0.2), "line_width": 0}
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
