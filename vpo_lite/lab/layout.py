"""Where the four plots of the panel stand, and how they look."""

from ..markup import html

PLOTS = 4
TERNARY = 1  # the second plot
CURVE_AXES = {0: "", 2: "2", 3: "3"}  # plot -> number of its axes
CORNERS = ("gold", "diamond", "no lava")


def layout(width: int, large: bool, dark: bool) -> dict:
    """plotly's layout: two by two plots, or one below the other where it is narrow."""
    ink, grid, paper = ("#222222", "#E2E2E2", "#FFFFFF")
    if dark:
        ink, grid, paper = ("#EEEEEE", "#444444", "#111111")
    size, columns = (20 if large else 15), (2 if width >= (820 if large else 600) else 1)
    cell, left, right, top, bottom, gap_x, gap_y = (330 if large else 240), 70, 18, 74, 50, 84, 92
    rows = PLOTS // columns
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
            "y": 1 + (top - 8) / inner_h,
            "yanchor": "top",
            "itemsizing": "constant",
            "font": {"size": size},
        },
        "annotations": [],
    }
    wide = (inner_w - (columns - 1) * gap_x) / columns
    for i in range(PLOTS):
        row, column = divmod(i, columns)
        x = [column * (wide + gap_x) / inner_w, (column * (wide + gap_x) + wide) / inner_w]
        y = [1 - (row * (cell + gap_y) + cell) / inner_h, 1 - row * (cell + gap_y) / inner_h]
        out["annotations"].append(_title(x[0], y[1], size))
        if i == TERNARY:
            out["ternary"] = _ternary(x, y, ink, paper)
        else:
            out |= _axes(CURVE_AXES[i], x, y, ink, grid)
    for axis in ("xaxis", "yaxis"):
        out[axis] |= {"range": [-0.22, 1.25], "tickvals": [0, 0.5, 1]}
    return out


def _title(x, y, size) -> dict:
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "yshift": 6}
    anchor = {"xanchor": "left", "yanchor": "bottom", "showarrow": False}
    return place | anchor | {"font": {"size": size + 2}}


def _ternary(x, y, ink, paper) -> dict:
    domain = {"x": [x[0] + 0.02, x[1] - 0.02], "y": [y[0], y[1] - 0.04]}
    out = {"domain": domain, "sum": 1, "bgcolor": paper}
    plain = {"ticks": "", "showticklabels": False, "showgrid": False}
    for axis, text in zip("abc", CORNERS, strict=True):
        title = {"text": html("<b>{}</b>", text)}
        out[f"{axis}axis"] = plain | {"linecolor": ink, "linewidth": 2, "title": title}
    return out


def _axes(number, x, y, ink, grid) -> dict:
    """Both axes of a plot; the first has objectives on them, the others steps."""
    across, up = ("step", "") if number else ("gold", "diamonds")
    common = {"gridcolor": grid, "zeroline": False, "linecolor": ink}
    return {
        f"{letter}axis{number}": common
        | {"domain": domain, "anchor": f"{other}{number}", "title": {"text": text, "standoff": 4}}
        for letter, domain, other, text in (("x", x, "y", across), ("y", y, "x", up))
    }
