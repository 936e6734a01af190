"""A figure in words, made from the figure itself: title, axes, and what each trace shows.

For a reader who cannot see it, or cannot move a pointer over it. The words are made when they are
asked for, so they also hold for a figure that was changed after it was drawn. They say what a
pointer would find, of many points their range, and what each place of a slider shows.
"""

import itertools
import re
from collections import Counter

import numpy as np
import plotly.graph_objects as go

from ..markup import Html, html, joined, plain
from .hover import entry, filled, missing, number, unpacked, without_extra

KINDS = ("scatter", "scatterternary", "bar", "heatmap")  # of traces: what this package draws
LISTED = 30  # markers that are named one by one; of more their number and their range are said
ON_A_CURVE = 6  # points of a curve that are named one by one


def in_words(figure: go.Figure) -> str:
    """What a plotly figure shows, one line for the figure, each panel, trace and dotted line.

    - a curve: its first, last, least and greatest value, and markers if few; or all points if few
    - markers: each one, with what a pointer over it would show; of more than 30 their ranges
    - bars and the rows of a table: each one
    - a region of a triangle: its share of the triangle and its corners
    - a slider: what each of its places shows
    - a trace of another kind than this package draws: that it is not told

    >>> figure = go.Figure(layout={"title": "Coverage", "xaxis": {"title": "step"}})
    >>> figure = figure.add_scatter(x=[1, 2, 3], y=[0.5, 0.25, 1], name="VPO", mode="lines")
    >>> print(in_words(figure))
    Figure: Coverage.
    Across: step.
    VPO: 0.5 at 1, 0.25 at 2, 1 at 3.
    """
    figure = go.Figure(unpacked(figure.to_dict()))
    said = "\n".join([_headline(figure), *_sliders(figure), *_panels(figure), *_untold(figure)])
    notes = [plain(note.get("text") or "") for note in _listed_in(figure, "annotations")]
    return "\n".join([said, *(f"{note}." for note in notes if note not in said)])


def folded(figure) -> Html:
    """`in_words` as HTML that unfolds, by keyboard, too."""
    return html("<details><summary>In words</summary>{}</details>", listed(figure))


def listed(figure: go.Figure) -> Html:
    """The same as HTML: a list below the line of the figure."""
    first, *others = in_words(figure).splitlines()
    said = joined(html("<li>{}</li>", line) for line in others)
    return html("<p>{}</p><ul>{}</ul>", first, said)


# ---- the figure and its panels ----


def _headline(figure):
    title = plain(figure.layout.title.text or "")
    end = "" if title.endswith((".", "?", "!")) else "."
    return f"Figure: {title}{end}" if title else "Figure."


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


def _untold(figure):
    kinds = dict.fromkeys(trace.type for trace in figure.data if trace.type not in KINDS)
    return [f"Not told in words: {_list(kinds)}."] if kinds else []


def _place(trace):
    """The names of the axes that a trace is drawn on; the one name of a triangle."""
    if trace.type == "scatterternary":
        return (trace.subplot or "ternary",)
    return trace.xaxis or "x", trace.yaxis or "y"


def _listed_in(figure, name) -> list[dict]:
    """The annotations or shapes of a figure as plain data. Of a thousand plotly objects each look
    at one searches the thousand.
    """
    return figure.layout.to_plotly_json().get(name) or []


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
    for note in _listed_in(figure, "annotations"):
        x, y, text = (note.get(name) for name in ("x", "y", "text"))
        if None in (x, y, text) or not note.get("xref") == note.get("yref") == "paper":
            continue
        if left - 0.03 <= x <= right + 0.01 and top - 0.01 <= y <= top + 0.1:
            return plain(text)
    return ""


def _levels(figure, place):
    """Straight lines across a panel, with the texts beside them."""
    found = {}  # position on its axis -> the axis and its texts
    for shape in _listed_in(figure, "shapes"):
        for letter, name in zip("xy", place, strict=False):
            ends = shape.get(f"{letter}0"), shape.get(f"{letter}1")
            across = shape.get("type") == "line" and shape.get(f"{letter}ref") == name
            if across and ends[0] == ends[1] is not None:
                found[letter, number(ends[0])] = []
    for note in _listed_in(figure, "annotations"):
        text = note.get("text")
        for letter, name in zip("xy", place, strict=False):
            at = note.get(letter)
            if (note.get(f"{letter}ref") or letter) == name and None not in (text, at):
                if _axis(figure, name).type == "log" and isinstance(at, int | float):
                    at = 10.0 ** min(at, 300)
                key = letter, number(at)
                found.setdefault(key, []).append(plain(text))
    for (letter, at), texts in found.items():
        line = f"A {'horizontal' if letter == 'y' else 'vertical'} line at {at}"
        yield f"{line}: {', '.join(texts)}." if texts else f"{line}."


# ---- what a trace shows ----


def _trace(trace):
    """The lines of one trace; none for an empty one, and for mere decoration."""
    if trace.type == "heatmap":
        return _rows(trace)
    if trace.type == "scatterternary":
        said = _ternary(trace)
    elif trace.type == "bar":
        said = _list(f"{number(y)} at {number(x)}" for x, y, _ in _points(trace))
    elif _is_band(trace):
        said = _band(trace)
    else:
        said = _scatter(trace)
    return [f"{_name(trace)}{said}."] if said else []


def _name(trace):
    told = trace.hovertemplate or ""
    if told and "%{" not in told:  # the same words wherever the pointer is
        name = plain(without_extra(told))
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
            return "; ".join(texts or [f"({number(x)}, {number(y)})" for x, y, _ in points])
        across, up = (sorted((point[i] for point in points), key=_order) for i in (0, 1))
        ranges = [f"{number(values[0])} to {number(values[-1])}" for values in (across, up)]
        return f"{len(points)} points, across from {ranges[0]}, up from {ranges[1]}"
    if texts or len(points) <= ON_A_CURVE:
        return "; ".join(texts) or _list(_at(trace, point) for point in points)
    first, last = points[0], points[-1]
    least, most = (choose(points, key=lambda point: _order(point[1])) for choose in (min, max))
    said = {first: ["first"]} | {point: [] for point in _marked(trace, points)} | {last: ["last"]}
    flat = number(least[1]) == number(most[1])
    for point, word in () if flat else ((least, "least"), (most, "greatest")):
        said.setdefault(point, []).append(word)
    words = {point: " and ".join(told) for point, told in said.items()}
    told = [f"{told} {_at(trace, point)}".strip() for point, told in words.items()]
    return _list([*told, "flat between"] if flat else told)


def _order(value):
    """A key that also compares numbers with names."""
    return (isinstance(value, str), value)


def _points(trace):
    """(x, y, index) of the points that are drawn: as many as the shorter list has."""
    places = zip(*_axes_of(trace.x, trace.y), itertools.count(), strict=False)
    return [(x, y, i) for x, y, i in places if not missing(x) and not missing(y)]


def _axes_of(x, y):
    """Both lists; one that is missing counts from 0, as plotly draws it."""
    most = max(len(values) for values in (x, y, ()) if values is not None)
    return [range(most) if values is None else values for values in (x, y)]


def _marked(trace, points):
    """The points between the ends that have a marker, if these are few."""
    sizes = trace.marker.size
    if sizes is None or np.ndim(sizes) == 0:
        return []
    marked = [point for point in points[1:-1] if entry(sizes, point[2])]
    return marked if len(marked) <= ON_A_CURVE else []


def _at(trace, point):
    x, y, i = point
    high, low = entry(trace.error_y.array, i), entry(trace.error_y.arrayminus, i)
    spread = ""
    if not missing(high):
        spread = f" ({number(y - (high if low is None else low))} to {number(y + high)})"
    return f"{number(y)}{spread} at {number(x)}"


def _texts(trace, points):
    """What stands at these points, or appears under a pointer: each text once. Empty where that is
    nothing but their numbers.
    """
    told, found, name = trace.hovertemplate or "", [], plain(trace.name or "")
    for x, y, i in points:
        own = {"text": entry(trace.text, i), "customdata": entry(trace.customdata, i)}
        if "%{text" in told or "%{customdata" in told:
            found.append(filled(told, x=x, y=y, **own))
            if own["text"] and "%{text" not in told:
                found[-1] += f", {plain(own['text'])}"
        elif hovertext := entry(trace.hovertext, i):
            said, shown = plain(hovertext), plain(own["text"] or "")
            found.append(said if shown in said else f"{said}, {shown}")
        elif own["text"] and "text" in (trace.mode or ""):
            found.append(f"{plain(own['text'])} at ({number(x)}, {number(y)})")
        elif own["text"] and trace.hoverinfo == "text":
            found.append(plain(own["text"]))
    return list(dict.fromkeys(re.sub(f"^{re.escape(name)}[,:] ", "", text) for text in found))


def _band(trace):
    """A band is drawn as its upper edge and then, backwards, its lower one."""
    edges = {}
    for x, y, _ in _points(trace):
        edges.setdefault(x, []).append(y)
    ends = list(edges)[:: max(1, len(edges) - 1)]
    return _list(f"{number(min(edges[x]))} to {number(max(edges[x]))} at {number(x)}" for x in ends)


def _ternary(trace):
    corners = [() if values is None else values for values in (trace.a, trace.b, trace.c)]
    points = [p for p in zip(*corners, strict=False) if not any(map(missing, p))]
    if not points or (trace.hoverinfo == "skip" and not trace.name):
        return "nowhere" if trace.showlegend else ""  # an answer that wins for no weights
    if trace.fill != "toself":
        if len(points) > ON_A_CURVE:
            return f"{len(points)} points{_kinds(trace.marker.symbol)}"
        return _list(f"({_list(map(number, point))})" for point in points)
    total = sum(points[0]) or 1
    (x, y), (u, v) = np.array(points).T[:2] / total, np.roll(points, -1, axis=0).T[:2] / total
    ends = _list(f"({_list(map(number, point))})" for point in dict.fromkeys(points))
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
    for row, values in zip(*_axes_of(trace.y, () if trace.z is None else trace.z), strict=False):
        cells = [
            f"{number(value)} at {number(column)}"
            for column, value in zip(*_axes_of(trace.x, values), strict=False)
            if not missing(value)
        ]
        if cells:
            lines.append(f"{number(row)}: {_list(cells)}.")
    return lines


# ---- sliders ----


def _sliders(figure):
    """What each place of a slider shows: the texts that it changes, or else the traces."""
    for slider in figure.layout.sliders:
        prefix = plain(slider.currentvalue.prefix or "")
        for step in slider.steps[slider.active or 0 :][:1]:
            yield f"A slider; it opens at {prefix} {plain(step.label or '')}."
        for step in slider.steps:
            said = "; ".join(_at_step(figure, step))
            yield f"{prefix} {plain(step.label or '')}{said and ': '}{said}."


def _at_step(figure, step):
    """What a place of a slider changes: the texts, or else the traces that it names."""
    if len(step.args or ()) < 2 or not isinstance(step.args[0], dict):
        return []
    if step.method not in ("update", "restyle"):
        return []
    there = go.Figure(figure)
    getattr(there, f"plotly_{step.method}")(*step.args)
    if step.method == "update":
        pairs = zip(there.layout.annotations, step.args[1], strict=False)
        return [plain(note.text or "") for note, _ in pairs]
    return [line.rstrip(".") for i in step.args[1] for line in _trace(there.data[i])]


def _list(parts):
    return ", ".join(parts)
