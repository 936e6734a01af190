"""The ceilings of the best 1, 2, ... answers: dotted lines across a plot, each with its text."""

import numpy as np
import plotly.graph_objects as go

from ..figures.looks import FRONT
from .layout import on

LEVEL = 1e-9  # more answers that add less than this get no line of their own
TOGETHER = 0.055  # ceilings that are nearer than this share of the axis share their text
HOVERED = 25  # points of a line with a hint: hints stand at points alone


def blank_levels(plot):
    """The traces of the levels of a plot, without data."""
    place = on(plot) | {"hovertemplate": "%{text}<extra></extra>"}
    dotted = {"mode": "lines", "line": {"color": FRONT, "dash": "dot", "width": 2}}
    yield go.Scatter, f"level {plot}", dotted | place
    # Outside, where no curve runs; and apart: plotly.js loses texts at gaps.
    said = {"mode": "text", "textposition": "middle right", "cliponaxis": False}
    yield go.Scatter, f"level text {plot}", said | on(plot) | {"hoverinfo": "skip"}


def draw_levels(view, plot, ends, height, out, page):
    """The ceilings of the best 1, 2, ... answers as dotted lines between the ends of the axis; on
    the right the numbers of answers. height: of the plot, in the unit of the ceilings.
    """
    lines = {"x": [None], "y": [None], "text": [""]}
    texts = {"x": [ends[1]], "y": [None], "text": [""]}
    first = 1  # of those that share a text
    for i, level in enumerate(view.ceilings, start=1):
        following = view.ceilings[i] if i < len(view.ceilings) else np.inf
        if following - level >= LEVEL:
            lines["x"] += [*np.geomspace(*ends, HOVERED).tolist(), None]
            lines["y"] += [level] * HOVERED + [None]
            lines["text"] += [f"the best {i}: {level:.3f}"] * HOVERED + [""]
        if following - level >= TOGETHER * height:
            texts["x"].append(ends[1])
            texts["y"].append(level)
            texts["text"].append(f"best {in_one_text(first, i)}")
            first = i + 1
    out[f"level {plot}"] |= lines | {"line_color": "#AAAAAA" if page.dark else FRONT}
    out[f"level text {plot}"] |= texts | {"textfont": {"size": page.size - 2, "color": page.ink}}


def in_one_text(first: int, last: int) -> str:
    """
    >>> in_one_text(2, 3), in_one_text(1, 1)
    ('2–3', '1')
    """
    return f"{first}" if first == last else f"{first}–{last}"
