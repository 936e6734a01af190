"""How a figure is shown: its size and fonts, its words below it, its buttons.

finish      the layout that all still figures have
Drawn       a figure that a notebook shows with its words folded below it
live        a figure that code and sliders change while it is shown
bundle      a figure that is shown once and updated in its place, where no widget serves
dots        as many sampled weights as a page can draw
clouds      answers in two objectives; room: an axis that holds them
"""

from __future__ import annotations  # read at once, go.FigureWidget would bring ipywidgets

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
from numpy.typing import ArrayLike

from .looks import EDGE, look
from .words import folded, in_words

CONFIG = {"showSendToCloud": False, "displaylogo": False}  # no button sends a figure anywhere

MOST_DOTS = 2_000  # weights in one figure; a browser stalls at a million


class Drawn(go.Figure):
    """A plotly figure. A notebook shows it with its words folded below it."""

    def show(self, *args, **options):
        super().show(*args, **{"config": CONFIG} | options)

    def _ipython_display_(self):
        if pio.renderers.render_on_display and pio.renderers.default:
            self.show()
        else:
            super()._ipython_display_()
        from IPython.display import display  # there is one: it has just called

        display({"text/html": folded(self), "text/plain": in_words(self)}, raw=True)


@cache
def _live_figure() -> type:
    from traitlets import Unicode

    class Live(go.FigureWidget):
        _esm = Path(__file__).with_name("live.js")
        _bundle = Unicode(str(go.FigureWidget._esm)).tag(sync=True)
        _one_change = threading.RLock()

        def notify_change(self, change):
            """Send one message: the change, for open views, and the state that new views begin
            with. With two, a view made in between would miss the change.
            """
            if not change.name.startswith("_py2js_") or change.new is None:
                return super().notify_change(change)
            with self._one_change, self.hold_sync():
                self._widget_data = deepcopy(self._data)
                self._widget_layout = deepcopy(self._layout_obj._props)
                super().notify_change(change)

        @contextmanager
        def hold_trait_notifications(self):
            """Hold nothing. A browser's message would hold back another thread's change, which
            plotly resets when it is due to be sent: the change would be lost.
            """
            yield

    return Live


def live(*args: Any, **parts: Any) -> go.FigureWidget:
    """A figure that code and sliders change while it is shown. Takes what `FigureWidget` takes.

    A view begins with what the figure holds at that moment. With plotly alone a cell that is run
    again, or a page that is loaded again, begins with an old state, which later changes do not fit.
    Changes may come from any thread.
    """
    made = _live_figure()(*args, **parts)
    made.set_trait("_config", CONFIG)
    return made


def bundle(figure: go.Figure) -> dict:
    """The figure as IPython's display takes it: {MIME type: content}, for any notebook. Displayed
    directly, a figure draws itself anew each time, so it cannot be updated.
    """
    return figure._repr_mimebundle_()


def finish(figure: go.Figure, title: str | None, width: int, height: int) -> Drawn:
    """The figure with its size, fonts, margins, title, legend and words, as all have them."""
    figure = Drawn(figure)
    figure.update_layout(template="plotly_white", width=width, height=height, font_size=16)
    figure.update_layout(
        uirevision="keep",
        title={"text": title, "x": 0.02, "y": 0.97, "yanchor": "top"} if title else None,
        margin={"l": 80, "r": 30, "t": 100 if title else 90, "b": 70},
        legend={"orientation": "h", "x": 0, "y": 1.02 if title else 1.1, "yanchor": "bottom"},
    )
    return figure


def dots(W: ArrayLike) -> tuple[np.ndarray, str]:
    """The weights to draw out of W (K, d), and their name in a legend: all up to `MOST_DOTS`, else
    so many of them, evenly spread over the rows.

    >>> W, name = dots(np.ones((1_000_000, 3)))
    >>> W.shape, name, dots([[0.3, 0.7]])[1]
    ((2000, 3), 'sampled weights: 2,000 of 1,000,000', 'sampled weights')
    """
    W = np.asarray(W, float)
    if len(W) <= MOST_DOTS:
        return W, "sampled weights"
    rows = np.linspace(0, len(W) - 1, MOST_DOTS).astype(int)
    return W[rows], f"sampled weights: {MOST_DOTS:,} of {len(W):,}"


def clouds(figure: go.Figure, runs: Mapping[str, ArrayLike], axes: tuple[int, int]) -> None:
    """Draw runs {label: rewards (n, d)} in two objectives: a marker for each distinct pair, which
    grows with its number of answers.
    """
    for position, (label, rewards) in enumerate(runs.items()):
        text, colour, symbol, _ = look(label, position)
        rewards = np.asarray(rewards, float)[:, list(axes)]
        points, count = np.unique(rewards, axis=0, return_counts=True)
        nested = 6 * (len(runs) - 1 - position)  # so that runs can be seen where they agree
        size = 9 + 18 * np.sqrt(count / count.sum()) + nested
        marker = {"color": colour, "symbol": symbol, "size": size, "opacity": 0.85, "line": EDGE}
        hover = text + ": %{customdata} × at (%{x:.3f}, %{y:.3f})<extra></extra>"
        figure.add_scatter(x=points[:, 0], y=points[:, 1], mode="markers", name=text, marker=marker)
        figure.data[-1].update(customdata=count, hovertemplate=hover)


def room(figure: go.Figure, letter: str, share: float) -> list[float]:
    """A range for the axes x or y that holds [0, 1] and all points, with this share of it as room
    on either side.
    """
    values = np.concatenate(
        [[0.0, 1.0], *[np.asarray(trace[letter], float) for trace in figure.data]]
    )
    margin = share * np.ptp(values)
    return [values.min() - margin, values.max() + margin]
