"""How a figure is shown: its size and fonts, its words below it, its buttons.

finish      the layout that all still figures have
Drawn       a figure that a notebook shows with its words folded below it
live        a figure that code and sliders change while it is shown
bundle      a figure that is shown once and updated in its place, where no widget serves
dots        as many sampled weights as a page can draw
"""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio

from .in_words import folded, in_words

CONFIG = {"showSendToCloud": False, "displaylogo": False}  # no button sends a figure anywhere

MOST_DOTS = 2_000  # weights in one figure; a browser stalls at a million

__all__ = ["CONFIG", "Drawn", "bundle", "dots", "finish", "live"]


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
    class Live(go.FigureWidget):
        _esm = f"{go.FigureWidget._esm}\n{Path(__file__).with_name('live.js').read_text()}"

    return Live


def _keep_for_views(change) -> None:
    """After a change was sent to the views there are: what the next ones begin with."""
    if change.new is not None:
        change.owner._widget_data = deepcopy(change.owner._data)
        change.owner._widget_layout = deepcopy(change.owner._layout_obj._props)


def live(*args: Any, **parts: Any) -> "go.FigureWidget":  # as text: looking it up brings ipywidgets
    """A figure that code and sliders change while it is shown. Takes what `FigureWidget` takes.

    A view begins with what the figure holds at that moment. With plotly alone a cell that is run
    again, or a page that is loaded again, begins with an old state, which later changes do not fit.
    """
    made = _live_figure()(*args, **parts)
    made.set_trait("_config", CONFIG)
    made.observe(_keep_for_views, [name for name in made.keys if name.startswith("_py2js_")])
    return made


def bundle(figure: go.Figure) -> dict:
    """The figure as IPython's display takes it: {MIME type: content}, for whichever notebook this
    is. A figure that is displayed as it is displays itself, each time anew: none can be updated.
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


def dots(W) -> tuple[np.ndarray, str]:
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
