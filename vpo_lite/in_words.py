"""A figure in words, made from the figure itself: title, axes, and what each trace shows.

For a reader who cannot see it, or cannot move a pointer over it. The words are made when they are
asked for, so they also hold for a figure that was changed after it was drawn. They say whatever a
pointer would find, and what each place of a slider shows.
"""

import re
from collections import Counter

import numpy as np
import plotly.graph_objects as go

from .markup import Html, html, joined, plain

KINDS = ("scatter", "scatterternary", "bar", "heatmap")  # of traces: what this package draws
LISTED = 30  # markers that are named one by one; of more their number and their range are said
ON_A_CURVE = 6  # points of a curve that are named one by one

__all__ = ["folded", "in_words", "listed"]


def in_words(figure) -> str:
    """What a plotly figure shows, one line for the figure, each panel, trace and dotted line.

    - a curve: its first, last, least and greatest value; all of them if they are few
    - markers, bars and the rows of a table: each one, with what a pointer over it would show
    - a region of a triangle: its share of the triangle and its corners
    - a slider: what each of its places shows

    >>> figure = go.Figure(layout={"title": "Coverage", "xaxis": {"title": "step"}})
    >>> figure = figure.add_scatter(x=[1, 2, 3], y=[0.5, 0.25, 1], name="VPO", mode="lines")
    >>> print(in_words(figure))
    Figure: Coverage.
    Across: step.
    VPO: 0.5 at 1, 0.25 at 2, 1 at 3.
    """
    said = "\n".join([_headline(figure), *_sliders(figure), *_panels(figure)])
    notes = [plain(note.text or "") for note in figure.layout.annotations]
    return "\n".join([said, *(f"{note}." for note in notes if note not in said)])


def folded(figure) -> Html:
    """The same as HTML that opens on demand, by keyboard, too."""
    return html("<details><summary>In words</summary>{}</details>", listed(figure))


def listed(figure) -> Html:
    """The same as HTML: a list below the line of the figure."""
    first, *others = in_words(figure).splitlines()
    said = joined(html("<li>{}</li>", line) for line in others)
    return html("<p>{}</p><ul>{}</ul>", first, said)


# ---- the figure and its panels ----


def _headline(figure):
    title = plain(figure.layout.title.text or "")
    return f"Figure: {title}." if title else "Figure."


def _panels(figure):
    """The lines of each panel, in the order in which the panels are first drawn on."""
    panels = {}
    for trace in figure.data:
        if trace.visible is not False and trace.type in KINDS:
            panels.setdefault(_place(trace), []).append(trace)
    for place, traces in panels.items():
        yield from _axes(figure, place)
        for trace in traces:
            yield from _trace(trace)
        yield from _levels(figure, place)


def _place(trace):
    """The names of the axes that a trace is drawn on; the one name of a triangle."""
    if trace.type == "scatterternary":
        return (trace.subplot or "ternary",)
    return trace.xaxis or "x", trace.yaxis or "y"


def _axis(figure, name):
    return figure.layout[f"{name[0]}axis{name[1:]}"]


def _axes(figure, place):
    """What stands above and beside a panel."""
    if len(place) == 1:
        corners = figure.layout[place[0]]
        names = [plain(corners[f"{letter}axis"].title.text or letter) for letter in "abc"]
        area, said = corners.domain, f"A triangle with the corners {', '.join(names)}"
    else:
        axes = [_axis(figure, name) for name in place]
        area = {"x": axes[0].domain, "y": axes[1].domain}
        said = "; ".join(
            f"{way}: {plain(axis.title.text)}{', on a logarithmic axis' * (axis.type == 'log')}"
            for way, axis in zip(("across", "up"), axes, strict=True)
            if axis.title.text
        )
    said = ". ".join(filter(None, [_title_above(figure, area), said[:1].upper() + said[1:]]))
    return [f"{said}."] if said else []


def _title_above(figure, area):
    """The text that stands at the upper edge of this part of the figure."""
    (left, right), (_, top) = area["x"] or (0, 1), area["y"] or (0, 1)
    for note in figure.layout.annotations:
        within = left - 0.03 <= note.x <= right + 0.01 if note.xref == "paper" else False
        if within and note.yref == "paper" and top - 0.01 <= note.y <= top + 0.1 and note.text:
            return plain(note.text)
    return ""


def _levels(figure, place):
    """Straight lines across a panel, with the texts beside them."""
    found = {}  # position on its axis -> the axis and its texts
    for shape in figure.layout.shapes:
        for letter, name in zip("xy", place, strict=False):
            ends = shape[f"{letter}0"], shape[f"{letter}1"]
            if shape.type == "line" and shape[f"{letter}ref"] == name and ends[0] == ends[1]:
                found[letter, _number(float(ends[0]))] = []
    for note in figure.layout.annotations:
        for letter, name in zip("xy", place, strict=False):
            if (note[f"{letter}ref"] or letter) == name and note.text:
                at = note[letter]
                logarithmic = _axis(figure, name).type == "log"
                key = letter, _number(10.0**at if logarithmic else at)
                found.setdefault(key, []).append(plain(note.text))
    for (letter, at), texts in found.items():
        line = f"A line {'across at height' if letter == 'y' else 'up at'} {at}"
        yield f"{line}: {', '.join(texts)}." if texts else f"{line}."


# ---- what a trace shows ----


def _trace(trace):
    """The lines of one trace; none for an empty one, and for mere decoration."""
    if trace.type == "heatmap":
        return _rows(trace)
    if trace.type == "scatterternary":
        said = _ternary(trace)
    elif trace.type == "bar":
        said = _list(f"{_number(y)} at {_number(x)}" for x, y in zip(trace.x, trace.y, strict=True))
    elif _is_band(trace):
        said = _band(trace)
    else:
        said = _scatter(trace)
    return [f"{_name(trace)}{said}."] if said else []


def _name(trace):
    told = trace.hovertemplate or ""
    if told and "%{" not in told:  # the same words wherever the pointer is
        name = _without_extra(told)
    else:
        name = plain(trace.name or "")
    if not name and _is_band(trace):
        name = f"{plain(trace.legendgroup or '')}, band".removeprefix(", ")
    return f"{name}: " if name else ""


def _is_band(trace):
    return trace.type == "scatter" and trace.fill == "toself"


def _scatter(trace):
    points = _points(trace)
    texts = _texts(trace, points)
    if not points or trace.mode == "text":  # what is written beside other lines
        return ""
    if "lines" not in (trace.mode or "lines"):
        if len(points) <= LISTED:
            return "; ".join(texts or [f"({_number(x)}, {_number(y)})" for x, y, _ in points])
        across, up = (sorted(point[i] for point in points) for i in (0, 1))
        ranges = [f"{_number(values[0])} to {_number(values[-1])}" for values in (across, up)]
        return f"{len(points)} points, across from {ranges[0]}, up from {ranges[1]}"
    if texts or len(points) <= ON_A_CURVE:
        return "; ".join(texts) or _list(_at(trace, point) for point in points)
    first, last = points[0], points[-1]
    least, most = (choose(points, key=lambda point: point[1]) for choose in (min, max))
    said = {first: ["first"]} | {point: [] for point in _marked(trace, points)} | {last: ["last"]}
    for point, word in ((least, "least"), (most, "greatest")):
        said.setdefault(point, []).append(word)
    words = {point: " and ".join(told) for point, told in said.items()}
    return _list(f"{told} {_at(trace, point)}".strip() for point, told in words.items())


def _points(trace):
    """(x, y, index) of the points that are drawn."""
    if trace.x is None or trace.y is None:
        return []
    places = zip(trace.x, trace.y, range(len(trace.y)), strict=True)
    return [(x, y, i) for x, y, i in places if not _missing(x) and not _missing(y)]


def _marked(trace, points):
    """The points between the ends that have a marker, if these are few."""
    sizes = trace.marker.size
    if sizes is None or np.ndim(sizes) == 0:
        return []
    marked = [point for point in points[1:-1] if sizes[point[2]]]
    return marked if len(marked) <= ON_A_CURVE else []


def _at(trace, point):
    x, y, i = point
    high, low = trace.error_y.array, trace.error_y.arrayminus
    spread = ""
    if high is not None and not _missing(high[i]):
        spread = f" ({_number(y - low[i])} to {_number(y + high[i])})"
    return f"{_number(y)}{spread} at {_number(x)}"


def _texts(trace, points):
    """What stands at these points, or appears under a pointer: each text once. Empty where that is
    nothing but their numbers.
    """
    told, found, name = trace.hovertemplate or "", [], plain(trace.name or "")
    for x, y, i in points:
        own = {"text": _of(trace.text, i), "customdata": _of(trace.customdata, i)}
        if "%{text" in told or "%{customdata" in told:
            found.append(_filled(told, x=x, y=y, **own))
            if own["text"] and "%{text" not in told:
                found[-1] += f", {plain(own['text'])}"
        elif _of(trace.hovertext, i):
            shown = plain(own["text"] or "")
            found.append(", ".join(filter(None, [plain(trace.hovertext[i]), shown])))
        elif own["text"] and "text" in (trace.mode or ""):
            found.append(f"{plain(own['text'])} at ({_number(x)}, {_number(y)})")
        elif own["text"] and trace.hoverinfo == "text":
            found.append(plain(own["text"]))
    return list(dict.fromkeys(re.sub(f"^{re.escape(name)}[,:] ", "", text) for text in found))


def _filled(template, **values):
    """plotly's template of a hover text with these values."""

    def value(match):
        name, _, how = match[1].partition(":")
        return f"{values[name]:{how}}" if name in values else ""

    return re.sub(r"%\{([^}]+)\}", value, _without_extra(template))


def _without_extra(template):
    return plain(re.sub(r"<extra>.*?</extra>", "", template))


def _band(trace):
    """A band is drawn as its upper edge and then, backwards, its lower one."""
    edges = {}
    for x, y, _ in _points(trace):
        edges.setdefault(x, []).append(y)
    ends = list(edges)[:: max(1, len(edges) - 1)]
    return _list(
        f"{_number(min(edges[x]))} to {_number(max(edges[x]))} at {_number(x)}" for x in ends
    )


def _ternary(trace):
    points = [p for p in zip(trace.a, trace.b, trace.c, strict=True) if not any(map(_missing, p))]
    if not points or (trace.hoverinfo == "skip" and not trace.name):
        return ""
    if trace.fill != "toself":
        if len(points) > ON_A_CURVE:
            return f"{len(points)} points{_kinds(trace.marker.symbol)}"
        return _list(f"({_list(map(_number, point))})" for point in points)
    total = sum(points[0])
    (x, y), (u, v) = np.array(points).T[:2] / total, np.roll(points, -1, axis=0).T[:2] / total
    ends = _list(f"({_list(map(_number, point))})" for point in dict.fromkeys(points))
    return f"{abs((x * v - u * y).sum()):.0%} of the triangle, corners {ends}"


def _kinds(symbols):
    """How many markers there are of each kind, where kinds differ."""
    if symbols is None or isinstance(symbols, str) or len(set(symbols)) < 2:
        return ""
    return ": " + _list(f"{count} {kind}" for kind, count in Counter(symbols).most_common())


def _rows(trace):
    """The rows of a table, from top to bottom as it is given."""
    if trace.hoverinfo == "skip":
        return []
    lines = []
    for row, values in zip(trace.y, trace.z, strict=True):
        cells = [
            f"{_number(value)} at {_number(column)}"
            for column, value in zip(trace.x, values, strict=True)
            if not _missing(value)
        ]
        if cells:
            lines.append(f"{_number(row)}: {_list(cells)}.")
    return lines


# ---- sliders ----


def _sliders(figure):
    """What each place of a slider shows: the texts that it changes, or else the traces."""
    for slider in figure.layout.sliders:
        prefix = plain(slider.currentvalue.prefix or "")
        yield f"A slider; it opens at {prefix} {slider.steps[slider.active or 0].label}."
        for step in slider.steps:
            there = go.Figure(figure)
            getattr(there, f"plotly_{step.method}")(*step.args)
            if step.method == "update":
                pairs = zip(there.layout.annotations, step.args[1], strict=False)
                said = [plain(note.text) for note, _ in pairs]
            else:
                said = [line.rstrip(".") for i in step.args[1] for line in _trace(there.data[i])]
            yield f"{prefix} {step.label}: {'; '.join(said)}."


# ---- numbers ----


def _number(value):
    """Three digits; a name as it is."""
    if not np.issubdtype(type(value), np.number):
        return plain(str(value))
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(value):.3g}"


def _missing(value):
    return value is None or value != value  # so is NaN


def _of(values, i):
    """Entry i; a single text holds for all."""
    return None if values is None else values if isinstance(values, str) else values[i]


def _list(parts):
    return ", ".join(parts)
