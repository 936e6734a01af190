"""Draw notebooks/images/tradeoff.svg: one answer or thirty, at every learning rate of the study.

    .venv/bin/python tests/benchmarks/tradeoff_picture.py

tests/test_study_page.py compares the file with what this makes of the stored runs.
"""

import itertools
from pathlib import Path

import numpy as np
import study_page

from vpo_lite.figures.looks import FRONT, STYLES
from vpo_lite.intervals import noise, t_interval
from vpo_lite.studies import tables
from vpo_lite.studies.results import SHIPPED

PICTURE = Path(__file__).parents[2] / "notebooks" / "images" / "tradeoff.svg"
LOOKS = {kind: STYLES[kind.partition("_x")[0]] for kind in study_page.THREE}
WIDTH, HEIGHT = 420, 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 34, 44  # its margins
DASHES = {
    "vpo": "",
    "grpo_x3": ' stroke-dasharray="6 4"',
    "max_at_k": ' stroke-dasharray="9 3 2 3"',
}


def points(name: str) -> tuple[dict, list]:
    """(any@1, any@30) by kind and learning rate, of rates with all seeds; and before training."""
    study, figures = study_page.read(name), ("any@1", "any@30")
    trained = {
        kind: {
            lr: tuple(row.figures.values())
            for lr, row in study_page.with_all_seeds(study, kind, figures).items()
        }
        for kind in study_page.THREE
    }
    before = tables.means(study, SHIPPED / name, figures)
    starts = [before[kind] for kind in ("start_single", "start_set")]
    return trained, [tuple(start[figure] for figure in figures) for start in starts]


def bars(name: str) -> dict:
    """By kind, at its best rate in validation: the 95 % intervals of both means, over seeds."""
    found = {}
    for kind in study_page.THREE:
        best = study_page.by_all_seeds(study_page.read(name), kind)
        runs = study_page.runs_of_all_seeds(name, (kind,))[kind][best]
        ends = np.array([run.last["any"] for run in runs])[:, [0, 29]]
        found[kind] = [t_interval(x.mean(), [noise(x)]) for x in ends.T]
    return found


def drawn() -> str:
    """The picture: a panel for each task."""
    panels = [
        f'<g transform="translate({i % 2 * WIDTH} {i // 2 * HEIGHT})">\n{_panel(name)}</g>\n'
        for i, name in enumerate(study_page.RATED)
    ]
    width, height = 2 * WIDTH, 2 * HEIGHT + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{"".join(panels)}'
        f'<g transform="translate(0 {2 * HEIGHT + 18})">\n{_legend()}</g>\n</svg>\n'
    )


def _panel(name: str) -> str:
    trained, starts = points(name)
    found = [p for row in trained.values() for p in row.values()] + starts
    spans = bars(name)
    found += [end for span in spans.values() for end in zip(*span, strict=True)]
    low, high = ([f(p[i] for p in found) for i in (0, 1)] for f in (min, max))
    margins = [0.12 * (b - a) for a, b in zip(low, high, strict=True)]
    low = [a - margin for a, margin in zip(low, margins, strict=True)]
    high = [b + margin for b, margin in zip(high, margins, strict=True)]

    def place(point) -> tuple[float, float]:
        x, y = ((p - a) / (b - a) for p, a, b in zip(point, low, high, strict=True))
        across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return round(LEFT + x * across, 1), round(HEIGHT - BOTTOM - y * up, 1)

    parts = [_text(WIDTH / 2, 20, f"<tspan font-weight='bold'>{name}</tspan>", "middle")]
    parts.append(
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{HEIGHT - TOP - BOTTOM}" fill="none" stroke="#999999"/>'
    )
    for axis in (0, 1):
        for tick in _ticks(low[axis], high[axis]):
            x, y = place((tick, low[1]) if axis == 0 else (low[0], tick))
            if axis == 0:
                parts += [_line(x, y, x, y + 4), _text(x, y + 17, f"{tick:g}", "middle")]
            else:
                parts += [_line(x - 4, y, x, y), _text(x - 7, y + 4, f"{tick:g}", "end")]
    parts.append(_text(WIDTH / 2, HEIGHT - 8, "any@1: one answer", "middle"))
    parts.append(
        f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "any@30: thirty answers</text>"
    )
    study = study_page.read(name)
    lines = {kind: [place(p) for p in rates.values()] for kind, rates in trained.items()}
    crosses = {}
    for kind, (across, up) in spans.items():
        x, y = trained[kind][study_page.by_all_seeds(study, kind)]
        ends = [[(end, y) for end in across], [(x, end) for end in up]]
        crosses[kind] = [[place(end) for end in pair] for pair in ends]
    taken = [_box(x, y, 8, 8) for line in lines.values() for x, y in line]
    taken += [_box(*place(p), 8, 8) for p in starts]
    taken += [
        _box(x + t * (x2 - x), y + t * (y2 - y), 3, 3)
        for line in [*lines.values(), *itertools.chain(*crosses.values())]
        for (x, y), (x2, y2) in itertools.pairwise(line)
        for t in np.linspace(0, 1, 40)
    ]
    for kind, rates in trained.items():
        look, places = LOOKS[kind], lines[kind]
        parts.append(
            f'<polyline points="{" ".join(f"{x},{y}" for x, y in places)}" fill="none" '
            f'stroke="{look.colour}" stroke-width="2"{DASHES[kind]}/>'
        )
        best = study_page.by_all_seeds(study, kind)
        parts += [_line(*one, *other, look.colour) for one, other in crosses[kind]]
        for (lr, _), (x, y) in zip(rates.items(), places, strict=True):
            fill = look.colour if lr == best else "white"
            parts.append(_marker(kind, x, y, look.colour, fill))
            if lr in (min(rates), max(rates)):
                words = f"{lr:g}"
                box = _free(x, y, 7.5 * len(words), taken)
                taken.append(box)
                across, down = (box[0] + box[2]) / 2, box[3] - 2
                parts.append(_text(across, down, words, "middle", look.colour))
    parts += [_marker("start", *place(p), FRONT, "white") for p in starts]
    return "\n".join(parts) + "\n"


def _box(x: float, y: float, half_width: float, half_height: float) -> tuple[float, ...]:
    """Left, top, right, bottom."""
    return x - half_width, y - half_height, x + half_width, y + half_height


def _free(x: float, y: float, width: float, taken: list) -> tuple[float, ...]:
    """The place for a label near a point where it covers least of what is taken; the nearest."""
    frame = (LEFT + 2, TOP + 2, WIDTH - RIGHT - 2, HEIGHT - BOTTOM - 2)
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    places = [
        _box(x + (width / 2 + far) * np.cos(a), y + (6 + far) * np.sin(a), width / 2, 7)
        for far in (9, 13, 18, 24)
        for a in angles
    ]
    places = [p for p in places if _covered(p, frame) >= (p[2] - p[0]) * (p[3] - p[1]) - 1e-6]
    return min(places, key=lambda place: sum(_covered(place, other) for other in taken))


def _covered(one: tuple, other: tuple) -> float:
    """The area that two boxes share."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0) * max(down, 0)


def _legend() -> str:
    parts = []
    for x, kind in zip((110, 190, 280), study_page.THREE, strict=True):
        colour = LOOKS[kind].colour
        parts += [_marker(kind, x, -4, colour, colour), _text(x + 12, 0, LOOKS[kind].text)]
    parts += [_marker("start", 372, -4, FRONT, "white"), _text(384, 0, "before training")]
    parts.append(_text(500, 0, "numbers: learning rate; filled: best in validation"))
    parts.append(_text(500, 16, "crosses: 95 % intervals over seeds"))
    return "\n".join(parts) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between low and high: three to six."""
    step = next(s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / s < 6)
    first, last = int(low // step) + 1, int(high // step)
    return [round(i * step, 3) for i in range(first, last + 1)]


def _marker(kind: str, x: float, y: float, colour: str, fill: str) -> str:
    how = f'fill="{fill}" stroke="{colour}" stroke-width="2"'
    if kind == "vpo":
        return f'<circle cx="{x}" cy="{y}" r="5" {how}/>'
    if kind == "grpo_x3":
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" {how}/>'
    if kind == "max_at_k":
        return f'<path d="M{x} {y - 7:.1f}l7 7l-7 7l-7 -7z" {how}/>'
    return f'<path d="M{x} {y - 6:.1f}l6 11h-12z" {how}/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#999999") -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawn())
    print(PICTURE)
