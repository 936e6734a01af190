"""The plots of the live panel in one plotly figure: objective space, the simplex by winner, two curves over steps."""

import itertools
import math

import numpy as np
import plotly.graph_objects as go

import envs
from envs.drawing import ROUTE_COLOURS

from .figures import FRONT, STYLES, look
from .objective import winners

MOST_RUNS = 3  # side by side


def _curve(name):
    return lambda record, moment: getattr(record, name)


# what can be plotted over steps: text -> figure of one step
CURVES = {
    "coverage of the front": _curve("coverage"),
    "diversity": _curve("diversity"),
    "set reward": _curve("set_reward"),
    "share that reaches E": _curve("reach_rate"),
    "share of repeats": _curve("repeat_rate"),
    **{f"best@{k}": lambda record, moment, k=k: moment.best_at_k.get(k) for k in (1, 3, 10)},
    **{f"mean {n}": lambda record, moment, n=n: record.objectives.get(n) for n in ("gold", "diamond", "avoid_lava")},
    "entropy": _curve("entropy"),
    "KL to the start": _curve("kl"),
}
COVERAGE, DIVERSITY = list(CURVES)[:2]


class Plots:
    """The plots in one plotly figure that is made once and changed: objective space, simplex, two curves.

    figure_class: go.Figure, or go.FigureWidget for a live one. Only what differs from the last drawing is sent.
    """

    def __init__(self, figure_class):
        self.names, traces = {}, []

        def trace(name, kind=go.Scatter, **look_of):
            self.names[name] = len(traces)
            traces.append(kind(name=name, showlegend=False, **look_of))

        trace("true front", mode="markers", xaxis="x", yaxis="y", hoverinfo="text",
              marker={"symbol": "circle-open", "size": 30, "color": FRONT, "line": {"width": 3}})  # fmt: skip
        for i in range(MOST_RUNS):
            trace(f"answers {i}", mode="markers+text", xaxis="x", yaxis="y", hoverinfo="text", textposition="middle right")
        trace("typical", mode="text", xaxis="x", yaxis="y", hoverinfo="skip", textposition="top center")
        trace("weightings", go.Scatterternary, mode="markers", hoverinfo="skip", subplot="ternary")
        for c, axis in enumerate(("2", "3")):
            where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
            trace(f"level {c}", mode="lines+text", hoverinfo="skip", textposition="bottom left",
                  line={"color": FRONT, "dash": "dot", "width": 2}, **where)  # fmt: skip
            trace(f"marks {c}", mode="lines+text", hoverinfo="skip", textposition="top right",
                  line={"color": "#999999", "width": 1.5}, **where)  # fmt: skip
            for method, (text, colour, symbol, dash) in STYLES.items():
                hover = f"{text}, step %{{x}}: %{{y:.3f}}<extra></extra>"
                trace(f"{method} {c}", mode="lines+markers", legendgroup=method, hovertemplate=hover, marker={"symbol": symbol},
                      line={"color": colour, "dash": dash, "width": 3.5}, **where)  # fmt: skip
        layout = {"uirevision": "keep", "hovermode": "closest", "template": "plotly_white"}
        self.figure = figure_class(data=traces, layout=layout)
        self._sent, self._layout = {}, {}

    def draw(self, view, *, width=980, large=False, dark=False, curves=(COVERAGE, DIVERSITY)):
        """Bring the figure to this view; returns whether anything was changed."""
        data, layout = self._traces(view, large, dark, curves), _layout(width, large, dark)
        self._axes(view, layout, curves)
        changes = {}
        for name, values in data.items():
            sent = self._sent.setdefault(name, {})
            changes[name] = {k: v for k, v in values.items() if sent.get(k, _NEVER) != v}
            sent.update(changes[name])
        fresh = {k: v for k, v in layout.items() if self._layout.get(k, _NEVER) != v}
        self._layout |= fresh
        if not fresh and not any(changes.values()):
            return False
        with self.figure.batch_update():
            for name, values in changes.items():
                if values:
                    self.figure.data[self.names[name]].update(values)
            if fresh:
                self.figure.update_layout(fresh)
        return True

    def _traces(self, view, large, dark, curves):
        ink, size = ("#FFFFFF" if dark else "#000000"), (20 if large else 15)
        # an empty trace holds one gap: with nothing at all plotly.js writes errors to the page's console
        out = {name: {"x": [None], "y": [None], "showlegend": False} for name in self.names if name != "weightings"}
        front = view.front.rewards
        out["true front"] |= {
            "x": front[:, 1].tolist(), "y": front[:, 2].tolist(), "showlegend": True,
            "text": [_in_words("true front", r) for r in front],
            "marker_color": [_front_colour(r, dark) for r in front], "marker_size": 40 if large else 30,
        }  # fmt: skip
        runs = view.on_show()
        for i, (method, _, moments) in enumerate(runs):
            out[f"answers {i}"] |= _cloud(method, moments[-1], (i - (len(runs) - 1) / 2) * 0.035, ink, size)
        typical = view.focus[2].rewards if view.focus else front
        if view.focus:
            out["typical"] |= _numbers(typical, ink, size)
        out["weightings"] = _dots(view, typical)
        for c, curve in enumerate(curves):
            self._curves(view, c, curve, out, ink, size)
        return out

    def _curves(self, view, c, curve, out, ink, size):
        last = max([view.config.steps, *[len(records) for _, records, _ in view.runs]])
        if curve == COVERAGE and view.ceiling is not None:
            text = f"best single answer {view.ceiling:.2f}"
            font = {"size": size - 1, "color": ink}
            out[f"level {c}"] |= {"x": [1, last], "y": [view.ceiling] * 2, "text": ["", text], "textfont": font}
        low, high = _span(view, curve)
        marks = {"x": [None], "y": [None], "text": [""]}
        for method, records, moments in view.runs:
            if not records:
                continue
            values = [CURVES[curve](record, moment) for record, moment in zip(records, moments, strict=True)]
            out[f"{method} {c}"] |= {
                "x": [r.step for r in records], "y": values, "name": look(method)[0], "showlegend": c == 0,
                "opacity": 1.0 if method in view.active else 0.55,
                "marker_size": [9 if i == len(records) - 1 or i % 5 == 0 else 0 for i in range(len(records))],
            }  # fmt: skip
            if view.focus and method == view.focus[0]:
                for step, text in changes(records):
                    marks["x"] += [step, step, None]
                    marks["y"] += [low, low + 0.93 * (high - low), None]
                    marks["text"] += ["", text, ""]
        out[f"marks {c}"] |= marks | {"textfont": {"size": size - 2, "color": ink}}

    def _axes(self, view, layout, curves):
        last = max([view.config.steps, *[len(records) for _, records, _ in view.runs]])
        for axis, curve in zip(("2", "3"), curves, strict=True):
            layout[f"xaxis{axis}"]["range"] = [0.5, last + 0.5]
            layout[f"yaxis{axis}"]["range"] = list(_span(view, curve))
        who = look(view.focus[0])[0] if view.focus else "the front"
        where = f"of {who}: {view.config.K} weightings" if view.config.K != math.inf else f"of {who}: all weightings"
        named = [f"<b>{curve[0].upper()}{curve[1:]}</b>" for curve in curves]
        lava = " (open: over lava)" if view.seen_maze.lava else ""
        for i, text in enumerate([f"<b>Answers</b>{lava}", f"<b>Who wins</b> {where}", *named]):
            layout["annotations"][i]["text"] = text


_NEVER = object()


def changes(records):
    """Where alpha, K or m differ from the step before: [(step, text)].

    >>> changes([])
    []
    """
    found = []
    for before, now in itertools.pairwise(records):
        texts = [f"α {now.alpha:g}"] if now.alpha != before.alpha else []
        texts += ["K " + ("∞" if now.K == math.inf else f"{now.K}")] if now.K != before.K else []
        texts += [f"m {now.m}"] if now.m != before.m else []
        if texts:
            found.append((now.step, ", ".join(texts)))
    return found


def _span(view, curve):
    """The range of a curve's axis: wide enough for all its values and calm while they move a little."""
    values = [CURVES[curve](r, m) for _, records, moments in view.runs for r, m in zip(records, moments, strict=True)]
    values = [v for v in values if v is not None]
    if curve == COVERAGE:
        return min(0.5, math.floor(min(values, default=1) * 10) / 10), 1.05
    return min(0.0, min(values, default=0)), max(1.05, math.ceil(5 * max(values, default=0) + 0.2) / 5)


def _in_words(who, vector, count=""):
    names = [f"{name.replace('_', ' ')} {value:.2f}" for name, value in zip(envs.OBJECTIVES, vector, strict=True)]
    return f"{who}{count}: {', '.join(names)}"


def _front_colour(vector, dark):
    return "#D55E00" if vector[3] < 1 else "#BBBBBB" if dark else FRONT


def _cloud(method, moment, aside, ink, size):
    """The answers of one step in objective space: a marker for each distinct vector, larger the more answers earn it; open
    if they touched lava; a cross at the corner for those that do not reach E."""
    text, colour, symbol, _ = look(method)
    share = moment.counts / moment.counts.sum()
    failed = moment.points[:, 0] <= 0
    lava = moment.points[:, 3] < 1
    return {
        "name": text, "text": [f"{s:.0%} miss E" if f else "" for s, f in zip(share, failed, strict=True)],
        "x": [-0.12 + aside if f else x + aside for x, f in zip(moment.points[:, 1].tolist(), failed, strict=True)],
        "y": [-0.12 + 2 * aside if f else y + aside for y, f in zip(moment.points[:, 2].tolist(), failed, strict=True)],
        "hovertext": [_in_words(text, p, f", {n} answers") for p, n in zip(moment.points, moment.counts, strict=True)],
        "textfont": {"size": size - 2, "color": ink},
        "marker": {
            "symbol": ["x" if f else symbol + "-open" if b else symbol for f, b in zip(failed, lava, strict=True)],
            "size": [12 if f else 8 + 30 * math.sqrt(s) for s, f in zip(share.tolist(), failed, strict=True)],
            "color": colour, "opacity": 0.85,
            "line": {"color": [colour if b or f else "#000000" for f, b in zip(failed, lava, strict=True)],
                     "width": [0 if f else 3 if b else 1 for f, b in zip(failed, lava, strict=True)]},
        },
    }  # fmt: skip


def _numbers(rewards, ink, size):
    """The numbers of the answers on the board, beside their points."""
    places = {}
    for i, vector in enumerate(rewards):
        if vector[0] > 0:
            places.setdefault((float(vector[1]), float(vector[2])), []).append(str(i + 1))
    return {
        "x": [x for x, _ in places], "y": [y + 0.055 for _, y in places],
        "text": [f"<b>{','.join(n)}</b>" for n in places.values()], "textfont": {"size": size + 2, "color": ink},
    }  # fmt: skip


def _dots(view, rewards):
    """The weightings on the triangle gold - diamond - no lava, each in the colour of the answer that it likes best.

    All answers that reach E complete alike, so who wins among them depends on the other three weights alone, and their
    shares of the rest are again Dirichlet distributed: the triangle loses nothing.
    """
    W = view.weightings()
    rest = W[:, 1:] / np.maximum(W[:, 1:].sum(axis=1, keepdims=True), 1e-12)
    won = winners(rewards, W)
    return {
        "a": rest[:, 0].tolist(), "b": rest[:, 1].tolist(), "c": rest[:, 2].tolist(),
        "marker": {
            "color": [ROUTE_COLOURS[i % len(ROUTE_COLOURS)] for i in won], "symbol": [_MARKERS[i % len(_MARKERS)] for i in won],
            "size": 6 if len(W) > 200 else 9, "opacity": 0.8, "line": {"width": 0.8, "color": "#FFFFFF"},
        },
    }  # fmt: skip


_MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down")


def _layout(width, large, dark):
    """Places and looks, top key by top key; two by two, or one below the other where it is narrow."""
    ink, grid, paper = ("#EEEEEE", "#444444", "#111111") if dark else ("#222222", "#E2E2E2", "#FFFFFF")
    size, columns = (20 if large else 15), (2 if width >= (820 if large else 600) else 1)
    cell, left, right, top, gap_x, gap_y = (330 if large else 240), 70, 18, 74, 84, 92
    rows = 4 // columns
    height = top + rows * cell + (rows - 1) * gap_y + 50
    inner_w, inner_h = width - left - right, height - top - 50
    legend = {"orientation": "h", "x": 0, "y": 1 + (top - 8) / inner_h, "yanchor": "top", "itemsizing": "constant"}
    layout = {
        "width": width, "height": height, "font": {"size": size, "color": ink}, "paper_bgcolor": paper, "plot_bgcolor": paper,
        "margin": {"l": left, "r": right, "t": top, "b": 50}, "legend": legend | {"font": {"size": size}},
    }  # fmt: skip
    wide = (inner_w - (columns - 1) * gap_x) / columns
    titles = []
    for i in range(4):
        row, column = divmod(i, columns)
        x = [column * (wide + gap_x) / inner_w, (column * (wide + gap_x) + wide) / inner_w]
        y = [1 - (row * (cell + gap_y) + cell) / inner_h, 1 - row * (cell + gap_y) / inner_h]
        titles.append({"x": x[0], "y": y[1], "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
                       "yshift": 6, "showarrow": False, "font": {"size": size + 2}})  # fmt: skip
        if i == 1:
            corner = {"ticks": "", "showticklabels": False, "showgrid": False, "linecolor": ink, "linewidth": 2}
            inside = {"x": [x[0] + 0.02, x[1] - 0.02], "y": [y[0], y[1] - 0.04]}
            layout["ternary"] = {"domain": inside, "sum": 1, "bgcolor": paper}
            for axis, text in zip("abc", ("gold", "diamond", "no lava"), strict=True):
                layout["ternary"][f"{axis}axis"] = corner | {"title": {"text": f"<b>{text}</b>"}}
            continue
        n = {0: "", 2: "2", 3: "3"}[i]
        common = {"gridcolor": grid, "zeroline": False, "linecolor": ink}
        names = ("step", "") if n else ("gold", "diamonds")
        for letter, span, other, text in (("x", x, "y", names[0]), ("y", y, "x", names[1])):
            title = {"text": text, "standoff": 4}
            layout[f"{letter}axis{n}"] = common | {"domain": span, "anchor": f"{other}{n}", "title": title}
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"range": [-0.22, 1.25], "tickvals": [0, 0.5, 1]}
    layout["annotations"] = titles
    return layout
