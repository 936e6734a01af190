"""Where board and plots of the panel stand, and how the plots look."""

from typing import NamedTuple

from ..markup import html

TERNARY = "simplex"
AXES = {"answers": "", "curve 0": "2", "curve 1": "3", "search": "4"}  # plot -> number of its axes
ORDER = {  # columns -> plots, row by row
    1: ("answers", "curve 0", "simplex", "curve 1", "search"),
    2: ("answers", "curve 0", "simplex", "curve 1", "search"),
    3: ("answers", "curve 0", "search", "simplex", "curve 1"),
}
CORNERS = ("gold", "diamond", "no lava")
GAP = 34  # pixels between board and plots, with what the boxes around them take
WIDE = 1100  # pixels of room from which on there is more than one screen needs
LARGE = 1.3  # of all lengths, with large letters
# Of the controls. The board has its own.
CSS = """
.vpo-lab .widget-readout { min-width: 34px; }
.vpo-lab.vpo-large { --jp-widgets-font-size: 18px; --jp-widgets-inline-height: 38px; }
.vpo-lab.vpo-large :is(button, select, input, .widget-label, .widget-readout) { font-size: 18px; }
"""


class Room(NamedTuple):
    """Widths in pixels of the board and of the plots. wide: the words stand above the plots, not
    below the board.
    """

    board: int
    plots: int
    wide: bool


def share_out(room: int, groups: int, large: bool = False) -> Room:
    """The widths for so many boards in a room of this many pixels.

    >>> share_out(844, 1), share_out(500, 1)
    (Room(board=264, plots=546, wide=False), Room(board=400, plots=500, wide=False))
    """
    scale = LARGE if large else 1
    wide = room >= WIDE * scale
    boards = {1: 340, 2: 490} if wide else {1: 264, 2: 350}
    board = round(scale * boards.get(groups, 470 if wide else 272))
    if room < 720 * scale:
        return Room(min(room, round(400 * scale)), room, False)
    return Room(board, room - board - GAP, wide and not large)


def layout(width: int, large: bool = False, dark: bool = False) -> dict:
    """plotly's layout of the five plots: as many columns as the width allows.

    The annotations are the titles, in the order of `ORDER`, and last the note under the simplex.
    """
    ink, grid, paper = ("#222222", "#E2E2E2", "#FFFFFF")
    if dark:
        ink, grid, paper = ("#EEEEEE", "#444444", "#111111")
    scale = LARGE if large else 1
    size, columns = (20 if large else 15), columns_of(width, large)
    cell, legend, titles, below = (
        round(scale * x) for x in (236, 26 if width > 520 else 48, 46, 42)
    )
    left, right, gap_x = (round(scale * x) for x in (56, 16, 58))
    top, gap_y, rows = legend + titles, below + titles, -(-len(ORDER[columns]) // columns)
    bottom = below + round(scale * 16)
    height = top + rows * cell + (rows - 1) * gap_y + bottom
    inner_w, inner_h = width - left - right, height - top - bottom
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
            "y": 1 + (top - 2) / inner_h,
            "yanchor": "top",
            "itemsizing": "constant",
            "font": {"size": size if width > 700 else size - 2},
        },
        "annotations": [],
    }
    wide = (inner_w - (columns - 1) * gap_x) / columns
    for i, name in enumerate(ORDER[columns]):
        row, column = divmod(i, columns)
        x = [column * (wide + gap_x) / inner_w, (column * (wide + gap_x) + wide) / inner_w]
        y = [1 - (row * (cell + gap_y) + cell) / inner_h, 1 - row * (cell + gap_y) / inner_h]
        out["annotations"].append(_text(x[0], y[1], size, "bottom", yshift=4))
        if name == TERNARY:
            out["ternary"] = _ternary(x, y, ink, paper)
            note = _text((x[0] + x[1]) / 2, y[0], size - 3, "top", "center", yshift=-12)
        else:
            out |= _axes(name, x, y, ink, grid)
    out["annotations"].append(note)
    for axis in ("xaxis", "yaxis"):
        out[axis] |= {"range": [-0.22, 1.25], "tickvals": [0, 0.5, 1]}
    return out


def columns_of(width: int, large: bool = False) -> int:
    """How many plots stand side by side."""
    scale = LARGE if large else 1
    return 3 if width >= 860 * scale else 2 if width >= 440 * scale else 1


def _text(x, y, size, yanchor, xanchor="left", yshift=0) -> dict:
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "yshift": yshift}
    anchor = {"xanchor": xanchor, "yanchor": yanchor, "showarrow": False, "align": xanchor}
    return place | anchor | {"font": {"size": size}}


def _ternary(x, y, ink, paper) -> dict:
    domain = {"x": [x[0] + 0.02, x[1] - 0.02], "y": [y[0] + 0.03, y[1] - 0.04]}
    out = {"domain": domain, "sum": 1, "bgcolor": paper}
    plain = {"ticks": "", "showticklabels": False, "showgrid": False}
    for axis, text in zip("abc", CORNERS, strict=True):
        title = {"text": html("<b>{}</b>", text)}
        out[f"{axis}axis"] = plain | {"linecolor": ink, "linewidth": 2, "title": title}
    return out


def _axes(name, x, y, ink, grid) -> dict:
    """Both axes of a plot."""
    number = AXES[name]
    across, up = {
        "answers": ("gold", "diamonds"),
        "search": ("answers looked at, k", ""),
    }.get(name, ("step", ""))
    common = {"gridcolor": grid, "zeroline": False, "linecolor": ink}
    axes = {
        f"{letter}axis{number}": common
        | {"domain": domain, "anchor": f"{other}{number}", "title": {"text": text, "standoff": 4}}
        for letter, domain, other, text in (("x", x, "y", across), ("y", y, "x", up))
    }
    if name == "search":
        ticks = [1, 3, 10, 30]
        axes[f"xaxis{number}"] |= {"type": "log", "range": [-0.06, 1.55], "tickvals": ticks}
    return axes
