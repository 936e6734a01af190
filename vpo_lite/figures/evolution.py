"""Figures of evolution: an archive as it fills, who passes which test, who solves how much by when.

Numbers in, plotly figures out, in the looks of `figures`. An archive of problems made of tests is
given as the rewards (n, d) of its elites, each 0 or 1. Then a cell of reward space is a pattern of
passed tests, and there are 2^d.
"""

import itertools

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..checks import check_finite, shown
from .looks import FRONT, WIDE, by_label, look, stroke
from .parts import finish

PASSED = [[0, "#E3EEF6"], [1, "#4CA3D9"]]  # light to dark, and black numbers stand out from all
EMPTY = "#F1F1F1"  # a cell without an elite
MARKERS = 6  # on a curve


def passes_table(programs, tests, *, title=None):
    """Which program passes which test: a table with a tick for each test that is passed.

    programs {name: (d,)} of 0 and 1, from top to bottom; tests d names. The number of passed tests
    stands behind a program's name.
    """
    passed = np.array([_bits(row, len(tests)) for row in by_label(programs, "programs").values()])
    names = [
        f"{name}  <b>{row.sum()} of {len(row)}</b> "
        for name, row in zip(programs, passed, strict=True)
    ]
    ticks = np.where(passed == 1, "✓", "")
    drawn = go.Heatmap(x=list(tests), y=names, z=passed, text=ticks, texttemplate="%{text}")
    drawn.update(colorscale=PASSED, zmin=0, zmax=1, showscale=False, xgap=3, ygap=3)
    drawn.update(
        textfont={"size": 22, "color": "black"}, hovertemplate="%{y}: test %{x}<extra></extra>"
    )
    figure = finish(go.Figure(drawn), title, WIDE, 420)
    figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)
    return figure.update_xaxes(title="test", type="category", showgrid=False)


def archive_cells(rewards, d):
    """The archive as a table: the number of passed tests in each cell that holds an elite.

    rewards (n, d) of 0 and 1, n may be 0. Returns (2^a, 2^b), NaN for empty cells: the rows are the
    patterns of the first a = d - d // 2 tests, the columns those of the other b. Patterns that pass
    more tests stand further up and right, so the last row and column pass all tests.

    >>> archive_cells([[0, 1, 1], [1, 1, 1]], 3)
    array([[nan, nan],
           [nan,  2.],
           [nan, nan],
           [nan,  3.]])
    """
    first, then = _halves(d)
    cells = np.full((2**first, 2**then), np.nan)
    rows, columns = _patterns(first), _patterns(then)
    for vector in rewards:
        bits = tuple(_bits(vector, d).tolist())
        row, column = rows.index(bits[:first]), columns.index(bits[first:])
        cells[row, column] = sum(bits)
    return cells


def archive_grid(archives, d, *, height=500):
    """Archives side by side, each as its cells of reward space, with what their elites pass.

    archives {label: (n, d)} of 0 and 1. A cell shows how many tests its elite passes. The dotted
    frame is the cell of all tests: the solution. A later state differs only in the traces' ``z``
    and in the layout's annotations, so a figure on the screen can take these over. ValueError
    without an archive.
    """
    if not by_label(archives, "archives"):
        raise ValueError("archives is empty: give one at least")
    figure = make_subplots(1, len(archives), subplot_titles=list(archives), horizontal_spacing=0.14)
    rows, columns = (["".join("○●"[bit] for bit in p) for p in _patterns(k)] for k in _halves(d))
    size = 18 if d < 8 else 11
    for position, (label, rewards) in enumerate(archives.items(), start=1):
        empty = np.zeros((len(rows), len(columns)))
        paper = go.Heatmap(x=columns, y=rows, z=empty, colorscale=[[0, EMPTY], [1, EMPTY]])
        paper.update(showscale=False, xgap=2, ygap=2, hoverinfo="skip", name="empty cells")
        figure.add_trace(paper, row=1, col=position)
        drawn = go.Heatmap(x=columns, y=rows, z=_drawn(rewards, d), name=label)
        drawn.update(zmin=0, zmax=d, colorscale=PASSED, showscale=False, xgap=2, ygap=2)
        drawn.update(
            texttemplate="%{z}", textfont={"size": size, "color": "black"}, hoverongaps=False
        )
        drawn.hovertemplate = "tests ●: %{y}, %{x}<br>%{z} passed<extra></extra>"
        figure.add_trace(drawn, row=1, col=position)
        frame = {"color": FRONT, "width": 4, "dash": "dot"}
        x, y = len(columns) - 1, len(rows) - 1
        corner = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
        figure.add_shape(type="rect", line=frame, **corner, row=1, col=position)
        figure.layout.annotations[position - 1].text = _told(label, rewards, d)
    first = len(rows[0])
    figure.update_xaxes(title=f"tests {first + 1} to {d} (● passed)", tickangle=-90)
    figure.update_yaxes(title=f"tests 1 to {first}", col=1)
    figure.update_xaxes(showgrid=False, tickfont_size=14 if d < 8 else 10)
    figure.update_yaxes(showgrid=False, tickfont_size=14 if d < 8 else 10)
    return finish(figure, None, WIDE, height)


def archive_growth(histories, d):
    """An `archive_grid` with a slider over the calls of the search; it opens at the last one.

    histories {label: [(n, d), ...]}: the elites' rewards after call 1, 2, ... A search that ended
    earlier keeps its last state. The slider lies inside the figure, so it moves without a kernel.
    ValueError without a search, and for one without a call.
    """
    if not histories or not all(map(len, by_label(histories, "histories").values())):
        states = {label: len(each) for label, each in histories.items()}
        raise ValueError(
            f"histories holds {shown(states)} states: expected at least one search, each with at "
            "least one state"
        )
    calls = max(map(len, histories.values()))

    def after(call):
        return {label: states[min(call, len(states)) - 1] for label, states in histories.items()}

    figure = archive_grid(after(calls), d, height=600)
    where = [i for i, trace in enumerate(figure.data) if trace.name in histories]
    steps = []
    for call in range(1, calls + 1):
        z = [_drawn(rewards, d) for rewards in after(call).values()]
        words = [_told(label, rewards, d) for label, rewards in after(call).items()]
        told = {f"annotations[{i}].text": text for i, text in enumerate(words)}
        steps.append({"method": "update", "args": [{"z": z}, told, where], "label": str(call)})
    current = {"prefix": "after call ", "font": {"size": 20}}
    slider = {"steps": steps, "active": calls - 1, "currentvalue": current, "pad": {"t": 70}}
    return figure.update_layout(sliders=[slider], margin_b=60)


def share_solved(solved, budget, *, title=None):
    """The share of searches that reached their target, over the answers that they asked for.

    solved {label: (n,)}: answers until the search reached its target; None, NaN, infinity, or a
    number beyond the budget where it did not. budget: the answers that each could ask for. A label
    that begins with the name of a method takes its look. ValueError for a label without searches.

    >>> figure = share_solved({"vpo": [30, 60, None, 90]}, 120)
    >>> figure.data[0].x.tolist(), figure.data[0].y.tolist()
    ([0.0, 30.0, 60.0, 90.0, 120.0], [0.0, 0.25, 0.5, 0.75, 0.75])
    """
    figure = go.Figure()
    for position, (label, answers) in enumerate(by_label(solved, "solved").items()):
        text, colour, symbol, dash = look(label, position)
        answers = np.array(answers, dtype=float)
        if not answers.size:
            raise ValueError(f"solved[{label!r}] is empty: expected one number for each search")
        moments = np.unique(answers[answers <= budget])
        x = np.array([0, *moments, budget], dtype=float)
        y = np.array([(answers <= moment).mean() for moment in x])
        every = max(1, len(x) // MARKERS)
        size = [12 if i % every == 0 else 0 for i in range(len(x))]
        line = stroke(colour, dash) | {"shape": "hv"}
        figure.add_scatter(x=x, y=y, name=text, mode="lines+markers", line=line)
        figure.data[-1].marker = {"symbol": symbol, "size": size, "opacity": 1}
    figure.update_xaxes(title="answers asked for", range=[0, budget * 1.02])
    figure.update_yaxes(title="share of searches that solved", rangemode="tozero")
    return finish(figure, title, WIDE, 480).update_layout(legend_itemsizing="constant")


def _halves(d):
    """The tests of the rows and those of the columns."""
    return d - d // 2, d // 2


def _patterns(k):
    """All rows of k bits, those with fewer ones first."""
    return sorted(itertools.product((0, 1), repeat=k), key=lambda bits: (sum(bits), bits))


def _bits(vector, d):
    vector = check_finite(vector, "rewards", 1)
    if vector.shape != (d,) or not np.isin(vector, (0, 1)).all():
        raise ValueError(f"rewards = {shown(vector.tolist())}: expected {d} numbers, each 0 or 1")
    return vector.astype(int)


def _drawn(rewards, d):
    """The cells as lists with None for NaN, which JSON does not know."""
    cells = archive_cells(rewards, d)
    return np.where(np.isnan(cells), None, cells).tolist()


def _told(label, rewards, d):
    best = max((int(sum(vector)) for vector in rewards), default=0)
    return f"{label}: {len(rewards)} cells, best {best} of {d}"
