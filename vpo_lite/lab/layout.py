"""Where board and plots of the panel stand, and how the plots look."""

from collections.abc import Sequence
from typing import NamedTuple

AXES = {"answers": "", "curve 0": "2", "curve 1": "3", "search": "4"}  # plot -> number of its axes
ORDER = {  # columns -> plots, row by row
    # Only the first is in sight beside a board with large letters: the one that training moves.
    1: ("curve 0", "answers", "simplex", "curve 1", "search"),
    2: ("answers", "curve 0", "simplex", "curve 1", "search"),
    3: ("answers", "curve 0", "simplex", "search", "curve 1"),
}
LEAST = 120  # pixels of room: with less, plotly has no place for a plot
NARROW = 200  # pixels of plots, below which texts right of them are cut off rather than the plots
GAP = 34  # pixels between board and plots, with what the boxes around them take
BESIDE, WIDE = 720, 1080  # pixels of room from which on plots stand beside boards; and words below
BOARDS = {  # least room -> width of all boards together, for 1, 2, and 3 or more
    BESIDE: (264, 272, 272),
    WIDE: (340, 490, 272),
    1200: (340, 490, 600),  # three in a row: such a window may be low
    1400: (340, 490, 470),
    1900: (440, 640, 720),
}
BUTTONS_LESS = ["zoom", "pan", "select", "lasso", "zoomin", "zoomout", "autoscale"]
_TERNARY_AXES = ("aaxis", "baxis", "caxis")
LARGE = 1.3  # of all lengths, with large letters
LEAST_LARGE = 400  # pixels of plots, below which large letters would be cut off
# from which on plots stand beside one board with large letters
BESIDE_LARGE = round(LARGE * 264) + GAP + LEAST_LARGE
LETTER = 0.63  # mean width of a letter, in font sizes
# Of the controls, with names.css. The board has its own.
CSS = """
.vpo-lab .jupyter-widgets { font-size: 13px; }
.vpo-lab .widget-readout { min-width: 2.6em; }
.vpo-lab .vpo-K .widget-readout { min-width: 2em; }
.vpo-lab .vpo-m .widget-readout { min-width: 1.3em; }
.vpo-lab .vpo-lr .widget-readout { min-width: 4em; } /* 0.0015 */
/* The line of a slider is four pixels high: a pointer that misses it by a few hits it, too. */
.vpo-lab .noUi-base::before { content: ""; position: absolute; inset: -12px 0; }
/* Always as wide as with their longest text: else the buttons beside them would jump. */
.vpo-lab :is(.vpo-train, .vpo-reset)::after { content: "Train anew"; display: block; height: 0;
  overflow: hidden; visibility: hidden; padding-left: 1.3em; }
.vpo-lab .vpo-reset::after { content: "Bring back"; padding-left: 1.35em; }
.vpo-lab.vpo-large :is(.vpo-train, .vpo-reset)::after { padding: 0; }
.vpo-lab.jupyter-widgets-disconnected > * { display: none; }
.vpo-lab.jupyter-widgets-disconnected::before { color: inherit; font: 15px sans-serif;
  content: "The kernel stopped, and this panel with it. Run the cells above, then its cell again.";
}
/* As high as the sliders of time, which take its place: else all below would jump. */
.vpo-lab .vpo-progress { height: calc(var(--jp-widgets-inline-height) + 4px); flex: none; margin: 0;
  align-items: center; }
.vpo-lab .vpo-progress .progress { height: 10px; }
.vpo-lab .vpo-status div { overflow: hidden; }
.vpo-lab .vpo-status .vpo-line { margin-left: -0.7em; overflow: visible; }
.vpo-lab .vpo-part { display: inline-block; padding-left: 0.7em; }
.vpo-lab .vpo-dot { display: inline-block; width: 0.7em; margin-left: -0.7em; }
.vpo-lab.vpo-large :is(.vpo-part:has(.vpo-aside), .widget-button > i, .widget-toggle-button > i) {
  display: none; }
.vpo-lab .vpo-error { color: #B3261E; font-weight: 600; }
[data-jp-theme-light="false"] .vpo-lab .vpo-error { color: #FF9C8F; }
.vpo-lab .widget-inline-hbox { max-width: 100%; }
.vpo-lab .widget-inline-hbox > .widget-label { min-width: max-content; }
@media (forced-colors: active) {
  .vpo-lab .progress { border: 1px solid; }
  .vpo-lab .progress-bar { forced-color-adjust: none; background: Highlight; }
}
.vpo-lab.vpo-large { --jp-widgets-font-size: 18px; --jp-widgets-inline-height: 38px;
  --jp-widgets-slider-handle-size: 24px; --jp-widgets-slider-track-thickness: 6px; }
/* What the chooser and the gaps leave is for the sliders. */
.vpo-lab.vpo-large .vpo-controls { --vpo-gap: 8px; }
.vpo-lab.vpo-large .vpo-controls button { padding: 0 7px; }
.vpo-lab.vpo-large .vpo-methods select { field-sizing: content; }
.vpo-lab.vpo-large .jupyter-widgets,
.vpo-lab.vpo-large :is(button, select, input, .widget-label, .widget-readout) { font-size: 18px; }
"""


class Page(NamedTuple):
    """How plots and words are drawn: for a projector, and light on dark."""

    large: bool = False
    dark: bool = False

    @property
    def size(self) -> int:
        """Of letters, in pixels."""
        return 20 if self.large else 15

    @property
    def ink(self) -> str:
        """The colour of what stands out most."""
        return "#FFFFFF" if self.dark else "#000000"


class Room(NamedTuple):
    """Widths in pixels of the boards and of the plots. wide: the words stand below both, not below
    the boards.
    """

    board: int
    plots: int
    wide: bool


def share_out(room: int, groups: int, large: bool = False) -> Room:
    """The widths for so many boards in a room of this many pixels, `LEAST` or more.

    >>> share_out(844, 1), share_out(500, 1)
    (Room(board=264, plots=546, wide=False), Room(board=400, plots=500, wide=False))
    >>> share_out(844, 1, large=True)  # a projector of 1280 x 720, with JupyterLab's side bar
    Room(board=343, plots=467, wide=False)
    """
    room, scale = max(room, LEAST), LARGE if large else 1
    if room < (BESIDE_LARGE if large and groups == 1 else BESIDE * scale):
        return Room(room if groups > 1 else min(room, round(400 * scale)), room, False)
    least = max([pixels for pixels in BOARDS if room >= pixels * scale], default=BESIDE)
    board = BOARDS[least][min(groups, 3) - 1]
    board = round(scale * (max(board, 400) if large and groups > 1 else board))
    return Room(board, room - board - GAP, least >= WIDE)


def on(name) -> dict:
    """Of a trace: the axes of this plot."""
    return {"xaxis": f"x{AXES[name]}", "yaxis": f"y{AXES[name]}"}


def order(width: int, large: bool, simplex: bool) -> tuple[str, ...]:
    """The plots, row by row."""
    return tuple(p for p in ORDER[columns_of(width, large)] if simplex or p != "simplex")


def layout(width: int, plots: Sequence[str], page: Page, entries: Sequence[str]) -> dict:
    """plotly's layout of these plots: as many columns as the width allows.

    entries: the texts of the legend. The annotations are the titles, in the order of the plots, and
    last the note under the simplex.
    """
    ink, grid, paper, triangle = ("#222222", "#E2E2E2", "#FFFFFF", "#FFFFFF")
    if page.dark:  # the triangle stays light: dots in the dark colours of answers lie on it
        ink, grid, paper, triangle = ("#EEEEEE", "#444444", "#111111", "#DDDDDD")
    scale = LARGE if page.large else 1
    size, columns = page.size, columns_of(width, page.large)
    # Right of a plot stand the texts of its dotted lines, and the numbers of the next one's axis.
    tight = columns == 2 and "simplex" in plots  # those with dotted lines are in the last column
    room = 66 if width >= NARROW * scale else 28
    left, right, gap_x = (round(scale * x) for x in (56, room, 70 if tight else 96))
    inner_w = width - left - right
    wide = (inner_w - (columns - 1) * gap_x) / columns
    legend = legend_rows(entries, inner_w, size) * (size + 10)
    cell = round(min(max(204 * scale, 0.6 * wide), 320 * scale))
    titles, below = round(46 * scale), round(44 * scale)
    top, gap_y, rows = legend + titles, below + titles, -(-len(plots) // columns)
    bottom = below + round(scale * 10)
    height = top + rows * cell + (rows - 1) * gap_y + bottom
    inner_h = height - top - bottom
    out = {
        "width": width,
        "height": height,
        "font": {"size": size, "color": ink},
        "paper_bgcolor": paper,
        "plot_bgcolor": paper,
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1 + top / inner_h,
            "yanchor": "top",
            "itemsizing": "constant",
            "traceorder": "grouped",  # else as wide as the widest entry each
            "tracegroupgap": 2,
            "font": {"size": size},
        },
        "annotations": [],
        # In the right margin, where no legend reaches. What is left out is done with the pointer.
        "modebar": {"orientation": "v", "remove": BUTTONS_LESS},
    }
    note = []
    for i, name in enumerate(plots):
        row, column = divmod(i, columns)
        x = [column * (wide + gap_x) / inner_w, (column * (wide + gap_x) + wide) / inner_w]
        y = [1 - (row * (cell + gap_y) + cell) / inner_h, 1 - row * (cell + gap_y) / inner_h]
        out["annotations"].append(_text(x[0], y[1], size, "bottom", yshift=4))
        if name == "simplex":
            corners = [10 / inner_w, 18 * scale / inner_h, 24 * scale / inner_h]
            out["ternary"] = _ternary(x, y, corners, ink, triangle)
            note = [_text((x[0] + x[1]) / 2, y[0], size - 3, "top", "center", yshift=-12)]
        else:
            out |= _axes(name, x, y, ink, grid)
    out["annotations"] += note
    out.setdefault("ternary", _hidden_ternary())
    return out


def columns_of(width: int, large: bool) -> int:
    """How many plots stand side by side: a title must fit above each."""
    scale = LARGE if large else 1
    return 3 if width >= 860 * scale else 2 if width >= 515 * scale else 1


def legend_rows(entries: Sequence[str], width: int, size: int) -> int:
    """How many rows a legend takes that fills one after another.

    >>> legend_rows(["true front", "VPO"], 300, 15), legend_rows(["true front"] * 3, 300, 15)
    (1, 2)
    """
    rows, filled = 1, 0
    for entry in entries:
        wide = 50 + LETTER * size * len(entry)
        rows, filled = (rows + 1, wide) if filled + wide > width else (rows, filled + wide)
    return rows


def _text(x, y, size, yanchor, xanchor="left", yshift=0) -> dict:
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "yshift": yshift}
    anchor = {"xanchor": xanchor, "yanchor": yanchor, "showarrow": False, "align": xanchor}
    return place | anchor | {"font": {"size": size}}


def _ternary(x, y, corners, ink, paper) -> dict:
    """corners: the room for their names: at the sides, below, above."""
    side, below, above = corners
    domain = {"x": [x[0] + side, x[1] - side], "y": [y[0] + below, y[1] - above]}
    out = {"domain": domain, "sum": 1, "bgcolor": paper}
    plain = {"ticks": "", "showticklabels": False, "showgrid": False}
    for axis in _TERNARY_AXES:
        out[axis] = plain | {"linecolor": ink, "linewidth": 2, "showline": True, "title": {}}
    return out


def _hidden_ternary() -> dict:
    """Out of sight: plotly.js draws the triangle even where none of its traces is visible."""
    nothing = {"ticks": "", "showticklabels": False, "showgrid": False, "showline": False}
    axis = nothing | {"title": {"text": ""}}
    corner = {"x": [0, 0.001], "y": [0, 0.001]}
    return {"domain": corner, "bgcolor": "rgba(0,0,0,0)", **dict.fromkeys(_TERNARY_AXES, axis)}


def _axes(name, x, y, ink, grid) -> dict:
    """Both axes of a plot."""
    number = AXES[name]
    across = {"answers": "", "search": "answers looked at, k"}.get(name, "step")
    common = {"gridcolor": grid, "zeroline": False, "linecolor": ink}
    axes = {
        f"{letter}axis{number}": common
        | {"domain": domain, "anchor": f"{other}{number}", "title": {"text": text, "standoff": 4}}
        for letter, domain, other, text in (("x", x, "y", across), ("y", y, "x", ""))
    }
    if name == "search":
        axes[f"xaxis{number}"] |= {"type": "log", "tickvals": [1, 3, 10, 30]}
    return axes
