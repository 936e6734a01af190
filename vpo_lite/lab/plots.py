"""The plots of a panel in one plotly figure: objective space, two curves over steps, what a search
finds, and the weight simplex by winner.
"""

import math

import numpy as np
import plotly.graph_objects as go

from ..estimators import METHODS
from ..figures.looks import FRONT, WIDE, look, on_page
from ..figures.parts import MOST_DOTS, Drawn, dots
from ..markup import html
from ..objective import winners
from .ceilings import HOVERED, blank_levels, draw_levels, in_one_text
from .curves import (
    BELOW_MARKS,
    COVERAGE,
    DIVERSITY,
    SEARCH,
    changes,
    in_short,
    in_words,
    last_step,
    searched,
    span,
    values,
)
from .drawings import MARKERS, ROUTE_COLOURS
from .faces import Face, face_of
from .layout import AXES, Page, layout, on, order
from .settings import MOST_EARLIER, MOST_RUNS
from .space import NONE, cloud, drawn_runs, ends_of, front_colour, numbers, ranges
from .view import View

SHOWN = 2  # curves over steps at a time
RINGS, RINGS_LARGE = (30, 40), (40, 52)  # around points of the front; around the best set
SEARCHED = (10**-0.06, 10**1.55)  # ends of the axis of answers that a search looks at
ASIDE = 23  # letters: in a narrower figure nothing stands beside a title
_NEVER = object()


def still(view: View, *, width: int = WIDE, **how) -> go.Figure:
    """A still picture of a view. how: see `Plots.draw`."""
    plots = Plots(Drawn)
    plots.draw(view, width=width, **how)
    return plots.figure


class Plots:
    """The plots in one plotly figure that is made once and changed.

    figure_class: Drawn for a still picture, `live` for widgets, go.Figure for the plain panel. Only
    what differs from the last drawing is sent.
    """

    def __init__(self, figure_class):
        self.names: dict[str, int] = {}
        self.methods = tuple(METHODS)  # a method that is defined later has no traces
        traces = []
        for kind, name, drawn in _blank_traces():
            self.names[name] = len(traces)
            traces.append(kind(name=name, showlegend=False, **drawn))
        first = {"uirevision": "keep", "hovermode": "closest", "template": "plotly_white"}
        self.figure = figure_class(data=traces, layout=first)
        self._sent, self._layout = {}, {}

    def draw(
        self, view: View, *, width=WIDE, large=False, dark=False, curves=(COVERAGE, DIVERSITY)
    ) -> bool:
        """Bring the figure to this view; returns whether anything was changed."""
        face, page = face_of(view), Page(large, dark)
        data = self._traces(view, face, page, curves)
        legend = [
            drawn.get("name", name) for name, drawn in data.items() if drawn.get("showlegend")
        ]
        plots = order(width, large, simplex=face.corners is not None)
        places = layout(width, plots, page, legend)
        _name_axes(view, face, places, curves, plots, 16 if large else 13)
        changed = {}
        for name, drawn in data.items():
            sent = self._sent.setdefault(name, {})
            changed[name] = {k: v for k, v in drawn.items() if sent.get(k, _NEVER) != v}
            sent.update(changed[name])
        fresh = {k: v for k, v in places.items() if self._layout.get(k, _NEVER) != v}
        before, self._layout = self._layout, self._layout | fresh
        if not fresh and not any(changed.values()):
            return False
        with self.figure.batch_update():
            for name, drawn in changed.items():
                if drawn:
                    self.figure.data[self.names[name]].update(drawn)
            known, texts = before.get("annotations", ()), fresh.pop("annotations", ())
            if len(known) == len(texts):  # one by one: that is faster
                for i, (old, text) in enumerate(zip(known, texts, strict=True)):
                    if old != text:
                        self.figure.layout.annotations[i].update(text)
            elif texts:  # as a whole: an update keeps those that there are no more
                self.figure.layout.annotations = texts
            if fresh:
                self.figure.update_layout(fresh)
        return True

    def _traces(self, view, face, page, curves):
        rings = RINGS_LARGE if page.large else RINGS
        # An empty trace holds one gap: with nothing at all plotly.js writes errors to the console.
        gap = {"x": [None], "y": [None], "showlegend": False}
        out = {name: dict(gap) for name in self.names if name != "weightings"}
        across, up = face.axes
        typical = np.empty((0, face.d))
        if view.front is not None:
            # Open points come last: the legend has the colour of the first point.
            front = np.array(sorted(view.front, key=face.open))
            out["true front"] |= {
                "x": front[:, across].tolist(),
                "y": front[:, up].tolist(),
                "showlegend": True,
                "text": [face.in_words("true front", r) for r in front],
                "marker_color": [front_colour(face, r, page.dark) for r in front],
                "marker_size": rings[0],
            }
            typical = asked = view.front[list(view.target.best)]
            out["best set"] |= {
                "name": f"best {len(asked)}",
                "x": asked[:, across].tolist(),
                "y": asked[:, up].tolist(),
                "showlegend": True,
                "text": [face.in_words(f"best {len(asked)}", r) for r in asked],
                "marker_color": page.ink,
                "marker_size": rings[1],
            }
        runs, ends = drawn_runs(view, face), ends_of(view, face)
        clouds = [
            cloud(face, run.method, run.moment, i, len(runs), ends, page)
            for i, run in enumerate(runs)
        ]
        clouds.sort(key=lambda drawn: -max(drawn["marker"]["size"]))  # a large marker hides none
        for i, drawn in enumerate(clouds):
            out[f"answers {i}"] |= drawn
        for i, run in enumerate(runs):
            out[f"search {i}"] |= _search(view, run, page.dark)
        if view.focus:
            typical = view.focus.moment.rewards
        out["typical"] |= numbers(view, face, typical, rings, page)
        out["weightings"] = _dots(view, face, typical)
        low, high = span(view, SEARCH)
        draw_levels(view, "search", SEARCHED, high - low, out, page)
        for c, curve in enumerate(curves):
            _draw_curve(view, c, curve, out, page)
        return out


def _blank_traces():
    """(kind, name, how it is drawn) of every trace, in the order of drawing."""
    answers = {"mode": "markers+text", "hoverinfo": "text", "textposition": "middle right"}
    place = {"xaxis": "x", "yaxis": "y"}
    answers |= place
    ring = {"symbol": "circle-open", "color": FRONT, "line": {"width": 3}}
    # Each a group of its own in the legend: else plotly.js puts one below the other.
    rings = {"mode": "markers", "hoverinfo": "text"} | place
    yield go.Scatter, "true front", rings | {"marker": ring, "legendgroup": "front"}
    target = ring | {"line": {"width": 5}}
    yield go.Scatter, "best set", rings | {"marker": target, "legendgroup": "best set"}
    for i in range(MOST_RUNS):
        yield go.Scatter, f"answers {i}", answers
    clear = {"color": "rgba(0,0,0,0)", "line": {"width": 0}}  # holds its text off
    numbered = answers | {"hoverinfo": "skip", "marker": clear, "cliponaxis": False}
    yield go.Scatter, "typical", numbered
    on_triangle = {"mode": "markers", "hoverinfo": "skip", "subplot": "ternary"}
    yield go.Scatterternary, "weightings", on_triangle
    yield from blank_levels("search")
    for i in range(MOST_RUNS):
        yield go.Scatter, f"search {i}", {"mode": "lines+markers"} | on("search")
    for c in range(SHOWN):
        place = on(f"curve {c}")
        yield from blank_levels(f"curve {c}")
        thin = {"color": "#888888", "width": 1.5}
        said = {"mode": "text", "hoverinfo": "skip", "textposition": "top right"}
        hovered = {"mode": "lines", "line": thin, "hovertemplate": "%{text}<extra></extra>"}
        yield go.Scatter, f"mark lines {c}", hovered | place
        yield go.Scatter, f"marks {c}", said | place  # apart: plotly.js loses texts at gaps
        for i in range(MOST_EARLIER):
            faint = {"mode": "lines", "opacity": 0.4, "connectgaps": True}
            yield go.Scatter, f"earlier {c} {i}", faint | place
        for method in METHODS:  # yours, too, if it was there before the panel
            text, colour, symbol, dash = look(method)
            drawn = {
                "mode": "lines+markers",
                "legendgroup": method,
                "hovertemplate": html("{}, step %{{x}}: %{{y:.3f}}<extra></extra>", text),
                "marker": {"symbol": symbol},
                "line": {"color": colour, "dash": dash, "width": 3.5},
                "connectgaps": True,  # the KL is not measured at every step
            }
            yield go.Scatter, f"{method} {c}", drawn | place


def _search(view: View, run, dark: bool) -> dict:
    """What a search finds among the answers of a run's step, as a share of the whole front."""
    text, colour, symbol, dash = look(run.method)
    colour = on_page(colour, dark)
    found = searched(run, view.judged_at)
    said = html("{}, best of %{{x}}: %{{y:.3f}}<extra></extra>", text)
    return {
        "x": list(found),
        "y": list(found.values()),
        "name": text,
        "hovertemplate": said,
        "marker": {"symbol": symbol, "size": 9, "color": colour},
        "line": {"color": colour, "dash": dash, "width": 3.5},
    }


def _draw_curve(view, c, curve, out, page):
    last, (low, high) = last_step(view), span(view, curve)
    if curve == COVERAGE:
        draw_levels(view, f"curve {c}", (0.5, last + 0.5), high - low, out, page)
    for i, run in enumerate(view.earlier):
        before = f"{look(run.method).text} before: {', '.join(in_short(run))}"
        out[f"earlier {c} {i}"] |= {
            "x": [r.step for r in run.records],
            "y": values(run, curve, view.judged_at),
            "line": {"color": on_page(look(run.method).colour, page.dark), "width": 2},
            "hovertemplate": html("{}<extra></extra>", before),
        }
    top, lines = low + BELOW_MARKS * (high - low), {"x": [None], "y": [None], "text": [""]}
    marks = {"x": [None], "y": [None], "text": [NONE]}
    for run in view.runs:
        if not run.records:
            continue
        end = len(run.records) - 1
        out[f"{run.method} {c}"] |= {
            "x": [r.step for r in run.records],
            "y": values(run, curve, view.judged_at),
            "name": look(run.method).text,
            "line_color": on_page(look(run.method).colour, page.dark),
            "showlegend": c == 0,
            "opacity": 1.0 if run.method in view.active else 0.55,
            "marker_size": [9 if i == end or i % 5 == 0 else 0 for i in range(end + 1)],
        }
        if view.focus and run.method == view.focus.method:
            for step, text, said in changes(run, near=last / 6):
                lines["x"] += [step] * HOVERED + [None]
                lines["y"] += [*np.linspace(low, top, HOVERED).tolist(), None]
                told = f"{look(run.method).text}, from step {step} on: {said}"
                lines["text"] += [told] * HOVERED + [""]
                marks["x"].append(step)
                marks["y"].append(top)
                marks["text"].append(text or NONE)
    out[f"mark lines {c}"] |= lines
    out[f"marks {c}"] |= marks | {"textfont": {"size": page.size - 2, "color": page.ink}}


def _name_axes(view, face, places, curves, plots, small):
    """Ranges, titles and subtitles that depend on the view."""
    last = last_step(view)
    for c, curve in enumerate(curves):
        steps = places[f"xaxis{AXES[f'curve {c}']}"]
        steps["range"], steps["dtick"] = [0.5, last + 0.5], 1 if last < 10 else None  # whole steps
        places[f"yaxis{AXES[f'curve {c}']}"]["range"] = list(span(view, curve))
    places[f"yaxis{AXES['search']}"]["range"] = list(span(view, SEARCH))
    places[f"xaxis{AXES['search']}"]["range"] = [math.log10(end) for end in SEARCHED]
    across, up = ranges(ends_of(view, face), len(view.on_show()))
    places["xaxis"] |= across
    places["yaxis"] |= up
    best = view.asked_for if view.target is None else len(view.target.best)
    who = look(view.focus.method).text if view.focus else f"best {best}"
    K = view.config.K
    drawn = "all" if K == math.inf else f"{MOST_DOTS:,} of {K:,}" if K > MOST_DOTS else f"{K:,}"
    judged = f"at α = {view.judged_at:g}"
    if view.ceilings:
        judged += f" · dotted: best {in_one_text(1, len(view.ceilings))}"
    hollow = f" · open: {face.hollow[1]}" if face.hollow else ""
    several = len(drawn_runs(view, face)) > 1 and places["width"] >= ASIDE * small
    aside = " · markers side by side" if several else ""
    said = {
        "answers": ("Answers", aside, f"size: count{hollow}"),
        "simplex": ("Who wins", "", f"of {who}: {drawn} weight{'' if K == 1 else 's'}"),
        "search": ("Best of k answers", "", judged),
    }
    for c, curve in enumerate(curves):
        name = in_words(curve, face)
        name = f"{name[0].upper()}{name[1:]}"
        said[f"curve {c}"] = (name, "", judged if curve == COVERAGE else "")
    title = '<b>{}</b>{}<br><span style="font-size:{}px">{}</span>'
    beside = '<span style="font-size:{}px">{}</span>'
    for annotation, name in zip(places["annotations"], plots, strict=False):
        text, right, below = said[name]
        right = html(beside, small, right) if right else ""
        annotation["text"] = html(title, text, right, small, below or " ")
    if face.corners is not None:
        note = places["annotations"][-1]
        note["text"] = face.note
        for axis, name in zip("abc", face.corner_names, strict=True):
            places["ternary"][f"{axis}axis"]["title"] = {"text": html("<b>{}</b>", name)}
    across, up = places["xaxis"]["title"], places["yaxis"]["title"]
    across["text"], up["text"] = face.axis_names


def _dots(view: View, face: Face, rewards) -> dict:
    """The weights on the triangle of the face's three objectives, each in the colour of the answer
    that scores best under it.

    Points of the front are alike in all other objectives, so who wins among them depends on these
    three weights alone. Their shares of the rest are again Dirichlet distributed: the triangle
    loses nothing. Other answers may differ there, too.
    """
    if face.corners is None or not len(rewards):
        return {"a": [None], "b": [None], "c": [None], "visible": face.corners is not None}
    W, _ = dots(view.weights)
    rest = W[:, face.corners] / np.maximum(W[:, face.corners].sum(axis=1, keepdims=True), 1e-12)
    won = winners(rewards, W)
    return {
        "visible": True,
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
