"""The plots of a maze panel in one plotly figure: objective space, two curves over steps, what a
search finds, and the weight simplex by winner.
"""

import math

import numpy as np
import plotly.graph_objects as go

import envs
from envs.drawing import MARKERS, ROUTE_COLOURS

from ..looks import FRONT, STYLES, look
from ..markup import html
from ..objective import winners
from .curves import COVERAGE, DIVERSITY, changes, last_step, span, values
from .judging import whole
from .layout import AXES, ORDER, columns_of, layout
from .settings import MOST_EARLIER, MOST_RUNS
from .view import Moment, View

SHOWN = 2  # curves over steps at a time
TOGETHER = 0.03  # lines of the ceilings that are nearer than this share their text
FAILED_AT = -0.12  # where answers that do not reach E are drawn, in both objectives
ASIDE = 0.035  # between the markers of two runs at one point
_NEVER = object()


def still(view: View, *, width: int = 980, **how) -> go.Figure:
    """A still picture of a view. how: see `Plots.draw`."""
    plots = Plots(go.Figure)
    plots.draw(view, width=width, **how)
    return plots.figure


class Plots:
    """The plots in one plotly figure that is made once and changed.

    figure_class: go.Figure, or go.FigureWidget for a live one. Only what differs from the last
    drawing is sent.
    """

    def __init__(self, figure_class):
        self.names: dict[str, int] = {}
        traces = []
        for kind, name, drawn in _blank_traces():
            self.names[name] = len(traces)
            traces.append(kind(name=name, showlegend=False, **drawn))
        first = {"uirevision": "keep", "hovermode": "closest", "template": "plotly_white"}
        self.figure = figure_class(data=traces, layout=first)
        self._sent, self._layout = {}, {}

    def draw(
        self, view: View, *, width=980, large=False, dark=False, curves=(COVERAGE, DIVERSITY)
    ) -> bool:
        """Bring the figure to this view; returns whether anything was changed."""
        data = self._traces(view, large, dark, curves)
        places = layout(width, large, dark)
        _name_axes(view, places, curves, ORDER[columns_of(width, large)], 16 if large else 13)
        changed = {}
        for name, drawn in data.items():
            sent = self._sent.setdefault(name, {})
            changed[name] = {k: v for k, v in drawn.items() if sent.get(k, _NEVER) != v}
            sent.update(changed[name])
        fresh = {k: v for k, v in places.items() if self._layout.get(k, _NEVER) != v}
        self._layout |= fresh
        if not fresh and not any(changed.values()):
            return False
        with self.figure.batch_update():
            for name, drawn in changed.items():
                if drawn:
                    self.figure.data[self.names[name]].update(drawn)
            if fresh:
                self.figure.update_layout(fresh)
        return True

    def _traces(self, view, large, dark, curves):
        ink, size = ("#FFFFFF" if dark else "#000000"), (20 if large else 15)
        # An empty trace holds one gap: with nothing at all plotly.js writes errors to the console.
        gap = {"x": [None], "y": [None], "showlegend": False}
        out = {name: dict(gap) for name in self.names if name != "weightings"}
        out["true front"] |= {
            "x": view.front[:, 1].tolist(),
            "y": view.front[:, 2].tolist(),
            "showlegend": True,
            "text": [_in_words("true front", r) for r in view.front],
            "marker_color": [_front_colour(r, dark) for r in view.front],
            "marker_size": 40 if large else 30,
        }
        if view.target is not None:
            asked = view.front[list(view.target.best)]
            out["asked for"] |= {
                "x": asked[:, 1].tolist(),
                "y": asked[:, 2].tolist(),
                "showlegend": True,
                "text": [_in_words(f"best {view.asked_for}", r) for r in asked],
                "marker_color": ink,
                "marker_size": 52 if large else 40,
            }
        runs = view.on_show()
        for i, run in enumerate(runs):
            aside = (i - (len(runs) - 1) / 2) * ASIDE
            out[f"answers {i}"] |= _cloud(run.method, run.moment, aside, ink, size)
            out[f"search {i}"] |= _search(view, run)
        typical = view.front if view.target is None else view.front[list(view.target.best)]
        if view.focus:
            typical = view.focus.moment.rewards
            out["typical"] |= _numbers(typical, ink, size)
        out["weightings"] = _dots(view, typical)
        _draw_levels(view, "search", 30, out, ink, size)
        for c, curve in enumerate(curves):
            _draw_curve(view, c, curve, out, ink, size)
        return out


def _blank_traces():
    """(kind, name, how it is drawn) of every trace, in the order of drawing."""
    answers = {"mode": "markers+text", "hoverinfo": "text", "textposition": "middle right"}
    place = {"xaxis": "x", "yaxis": "y"}
    ring = {"symbol": "circle-open", "size": 30, "color": FRONT, "line": {"width": 3}}
    yield go.Scatter, "true front", {"mode": "markers", "hoverinfo": "text", "marker": ring} | place
    target = ring | {"size": 40, "line": {"width": 5}}
    yield (
        go.Scatter,
        "asked for",
        {"mode": "markers", "hoverinfo": "text", "marker": target} | place,
    )
    for i in range(MOST_RUNS):
        yield go.Scatter, f"answers {i}", answers | place
    numbers = {"mode": "text", "hoverinfo": "skip", "textposition": "top center"}
    yield go.Scatter, "typical", numbers | place
    dots = {"mode": "markers", "hoverinfo": "skip", "subplot": "ternary"}
    yield go.Scatterternary, "weightings", dots
    yield from _blank_levels("search")
    for i in range(MOST_RUNS):
        yield go.Scatter, f"search {i}", {"mode": "lines+markers"} | _on("search")
    for c in range(SHOWN):
        place = _on(f"curve {c}")
        yield from _blank_levels(f"curve {c}")
        thin = {"color": "#999999", "width": 1.5}
        said = {"mode": "lines+text", "hoverinfo": "skip", "textposition": "top right"}
        yield go.Scatter, f"marks {c}", said | {"line": thin} | place
        for i in range(MOST_EARLIER):
            faint = {"mode": "lines", "opacity": 0.4, "connectgaps": True}
            yield go.Scatter, f"earlier {c} {i}", faint | place
        for method, (text, colour, symbol, dash) in STYLES.items():
            drawn = {
                "mode": "lines+markers",
                "legendgroup": method,
                "hovertemplate": html("{}, step %{{x}}: %{{y:.3f}}<extra></extra>", text),
                "marker": {"symbol": symbol},
                "line": {"color": colour, "dash": dash, "width": 3.5},
                "connectgaps": True,  # the KL is not measured at every step
            }
            yield go.Scatter, f"{method} {c}", drawn | place


def _blank_levels(plot):
    plain, place = {"hoverinfo": "skip"}, _on(plot)
    dotted = {"mode": "lines", "line": {"color": FRONT, "dash": "dot", "width": 2}}
    yield go.Scatter, f"level {plot}", plain | dotted | place
    said = {"mode": "text", "textposition": "top left"}  # apart: plotly.js loses texts at gaps
    yield go.Scatter, f"level text {plot}", plain | said | place


def _on(name) -> dict:
    return {"xaxis": f"x{AXES[name]}", "yaxis": f"y{AXES[name]}"}


def _draw_levels(view, plot, last, out, ink, size):
    """The ceilings of the best 1, 2, ... answers as dotted lines from 1 to last."""
    lines, texts = {"x": [None], "y": [None]}, {"x": [last], "y": [None], "text": [""]}
    for i, level in enumerate(view.ceilings, start=1):
        following = view.ceilings[i] if i < len(view.ceilings) else np.inf
        if following - level < 1e-9:
            continue  # more answers add nothing: one line says it
        lines["x"] += [1, last, None]
        lines["y"] += [level, level, None]
        if following - level >= TOGETHER:
            texts["x"].append(last)
            texts["y"].append(level)
            texts["text"].append(f"best {i}: {level:.2f}")
    out[f"level {plot}"] |= lines
    out[f"level text {plot}"] |= texts | {"textfont": {"size": size - 2, "color": ink}}


def _search(view: View, run) -> dict:
    """What a search finds among the answers of a run's step, as a share of the whole front."""
    text, colour, symbol, dash = look(run.method)
    found = run.moment.search(view.judged_at)
    front = run.moment.problem.front
    most = 1.0 if front is None else whole(front, view.judged_at)
    said = html("{}, best of %{{x}}: %{{y:.3f}}<extra></extra>", text)
    return {
        "x": list(found),
        "y": [value / most for value in found.values()],
        "name": text,
        "hovertemplate": said,
        "marker": {"symbol": symbol, "size": 9, "color": colour},
        "line": {"color": colour, "dash": dash, "width": 3.5},
    }


def _draw_curve(view, c, curve, out, ink, size):
    last, (low, high) = last_step(view), span(view, curve)
    if curve == COVERAGE:
        _draw_levels(view, f"curve {c}", last, out, ink, size)
    for i, run in enumerate(view.earlier):
        out[f"earlier {c} {i}"] |= {
            "x": [r.step for r in run.records],
            "y": values(run, curve, view.judged_at),
            "line": {"color": look(run.method).colour, "width": 2},
            "hovertemplate": html("{}<extra></extra>", _earlier(run)),
        }
    marks = {"x": [None], "y": [None], "text": [""]}
    for run in view.runs:
        if not run.records:
            continue
        end = len(run.records) - 1
        out[f"{run.method} {c}"] |= {
            "x": [r.step for r in run.records],
            "y": values(run, curve, view.judged_at),
            "name": look(run.method).text,
            "showlegend": c == 0,
            "opacity": 1.0 if run.method in view.active else 0.55,
            "marker_size": [9 if i == end or i % 5 == 0 else 0 for i in range(end + 1)],
        }
        if view.focus and run.method == view.focus.method:
            for step, text in changes(run.records):
                marks["x"] += [step, step, None]
                marks["y"] += [low, low + 0.93 * (high - low), None]
                marks["text"] += ["", text, ""]
    out[f"marks {c}"] |= marks | {"textfont": {"size": size - 2, "color": ink}}


def _earlier(run) -> str:
    now = run.record
    K = "∞" if now.K == math.inf else f"{now.K:g}"
    return f"{look(run.method).text} before: α {now.alpha:g}, K {K}, m {now.m}"


def _name_axes(view, places, curves, order, small):
    """Ranges, titles and subtitles that depend on the view."""
    last = last_step(view)
    for c, curve in enumerate(curves):
        places[f"xaxis{AXES[f'curve {c}']}"]["range"] = [0.5, last + 0.5]
        places[f"yaxis{AXES[f'curve {c}']}"]["range"] = list(span(view, curve))
    places[f"yaxis{AXES['search']}"]["range"] = list(span(view, COVERAGE))
    who = look(view.focus.method).text if view.focus else f"best {view.asked_for}"
    drawn = "all" if view.config.K == math.inf else f"{view.config.K:,}"
    judged = f"judged at α = {view.judged_at:g}"
    lava = " · open: over lava" if view.instance.lava else ""
    said = {
        "answers": ("Answers", f"size: how many{lava}"),
        "simplex": ("Who wins", f"of {who}: {drawn} weights"),
        "search": ("Best of k answers", judged),
    }
    for c, curve in enumerate(curves):
        name = f"{curve[0].upper()}{curve[1:]}"
        said[f"curve {c}"] = (name, judged if curve == COVERAGE else "")
    title = '<b>{}</b><br><span style="font-size:{}px">{}</span>'
    for annotation, name in zip(places["annotations"], order, strict=False):
        text, below = said[name]
        annotation["text"] = html(title, text, small, below or " ")
    places["annotations"][-1]["text"] = html("every route to E completes:<br>no corner for that")


def _in_words(who, vector, count=""):
    pairs = zip(envs.OBJECTIVES, vector, strict=True)
    return f"{who}{count}: " + ", ".join(f"{n.replace('_', ' ')} {v:.2f}" for n, v in pairs)


def _front_colour(vector, dark):
    return "#D55E00" if vector[3] < 1 else "#BBBBBB" if dark else FRONT


def _cloud(method: str, moment: Moment, aside: float, ink, size) -> dict:
    """The answers of one step in objective space: a marker for each distinct vector, larger the
    more answers earn it; open if they touched lava; a cross at the corner for those that do not
    reach E.
    """
    text, colour, symbol, _ = look(method)
    share = (moment.counts / moment.counts.sum()).tolist()
    drawn = {"x": [], "y": [], "text": [], "hovertext": []}
    marker = {"symbol": [], "size": [], "color": colour, "opacity": 0.85}
    line = {"color": [], "width": []}
    for i, point in enumerate(moment.points.tolist()):
        reached, lava = moment.valid[i], point[3] < 1
        drawn["x"].append((point[1] if reached else FAILED_AT) + aside)
        drawn["y"].append(point[2] + aside if reached else FAILED_AT + 2 * aside)
        drawn["text"].append("" if reached else f"{share[i]:.0%} miss E")
        drawn["hovertext"].append(_in_words(text, point, f", {moment.counts[i]} answers"))
        marker["symbol"].append("x" if not reached else symbol + "-open" * lava)
        marker["size"].append(8 + 30 * math.sqrt(share[i]) if reached else 12)
        line["color"].append(colour if lava or not reached else "#000000")
        line["width"].append(0 if not reached else 3 if lava else 1)
    font = {"size": size - 2, "color": ink}
    return {"name": text, "textfont": font, "marker": marker | {"line": line}} | drawn


def _numbers(rewards, ink, size) -> dict:
    """The numbers of the answers on the board, beside their points."""
    places = {}
    for i, vector in enumerate(rewards):
        if vector[0] > 0:
            places.setdefault((float(vector[1]), float(vector[2])), []).append(str(i + 1))
    return {
        "x": [x for x, _ in places],
        "y": [y + 0.055 for _, y in places],
        "text": [html("<b>{}</b>", ",".join(n)) for n in places.values()],
        "textfont": {"size": size + 2, "color": ink},
    }


def _dots(view: View, rewards) -> dict:
    """The weights on the triangle gold - diamond - no lava, each in the colour of the answer that
    scores best under it.

    All answers that reach E complete alike, so who wins among them depends on the other three
    weights alone. Their shares of the rest are again Dirichlet distributed: the triangle loses
    nothing.
    """
    W = view.weights()
    rest = W[:, 1:] / np.maximum(W[:, 1:].sum(axis=1, keepdims=True), 1e-12)
    won = winners(rewards, W)
    return {
        "a": rest[:, 0].tolist(),
        "b": rest[:, 1].tolist(),
        "c": rest[:, 2].tolist(),
        "marker": {
            "color": [ROUTE_COLOURS[i % len(ROUTE_COLOURS)] for i in won],
            "symbol": [MARKERS[i % len(MARKERS)] for i in won],
            "size": 6 if len(W) > 200 else 9,
            "opacity": 0.8,
            "line": {"width": 0.8, "color": "#FFFFFF"},
        },
    }
