"""Pictures of a maze with routes on it: SVG for notebooks, RGB for videos, text for terminals.

Squares differ by shape or letter, not by colour alone. Routes differ by colour and dashes, of eight
kinds each, and in SVG they have numbers. In text they do not differ. Longer than 350 lines because
the three kinds of picture share colours and signs.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from ._grid import shown
from .scoring import check_routes, walk

if TYPE_CHECKING:
    from .maze import Maze

Square = tuple[int, int]  # (row, column)

# Okabe and Ito, "Color Universal Design" (2008)
BLACK, SKY_BLUE, GREEN = "#000000", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
FLOOR, WALL, GRID_LINE = "#FFFFFF", "#3B3B3B", "#C8C8C8"

# Of routes or answers 1, 2, ... None is a colour of an item or of a method (tests/test_looks.py);
# all are dark enough for white letters.
ROUTE_COLOURS = (
    *("#332288", "#DD1C80", "#01665E", "#8C510A", "#661100"),
    *("#7860D8", "#480048", "#9C00FC"),
)
DASHES = ("", "14 7", "3 7", "16 6 3 6", "26 8", "12 5 3 5 3 5", "26 6 10 6", "3 4 3 12")
MARKERS = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down"),
    *("hexagon", "star", "cross"),
)

# letter -> (its colour, what lies under it)
_LETTER_COLOURS = {
    "S": (BLACK, FLOOR),
    "E": (BLACK, GREEN),
    "G": (BLACK, YELLOW),
    "D": (BLACK, SKY_BLUE),
    "L": (BLACK, VERMILLION),
    "B": (BLACK, PURPLE),
}

CELL = 64  # SVG units a square; all other lengths are fractions of it
LARGEST_LANE = 7.0  # units between two routes that run side by side
LARGEST_WIDTH = 20_000  # pixels


class Picture(str):
    """SVG text that a notebook shows as a picture, with its title as the text for a screen reader.

    JupyterLab shows SVG without that text. So `_repr_html_` gives an image with it.
    """

    __slots__ = ()

    def _repr_html_(self):
        data = base64.b64encode(self.encode()).decode()
        said = re.search("<title>(.*?)</title>", self)[1]  # escaped already
        return f'<img alt="{said}" src="data:image/svg+xml;base64,{data}">'

    def _repr_svg_(self):
        return str(self)


def svg(
    maze: Maze,
    routes: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    position: Square | None = None,
    taken: Iterable[Square] = (),
    labels: bool = True,
    width: float | None = None,
) -> Picture:
    """Returns an SVG picture of a maze with routes drawn on it.

    Args:
        maze: a Maze.
        routes: move strings; each is drawn up to where it ends, with its own colour, dashes and
            number. A route that reaches E ends in an arrow head, another in a cross.
        names: short texts in place of the numbers. None numbers several routes from 1.
        position: (row, column) of a walker to draw.
        taken: squares visited; the items on them are drawn as already taken.
        labels: whether to name columns and rows along the border.
        width: width of the picture in pixels, 1 to 20,000; None leaves the natural size.

    Returns:
        Picture: a str of SVG that notebooks show as a picture.

    Raises:
        ValueError: a letter that is no move, one string in the place of the routes, a square off
            the grid, names that are not one text for each route, or another width.

    >>> from envs import Maze
    >>> svg(Maze.from_text("S G\\n. E"), ["RD"])[:41]
    '<svg xmlns="http://www.w3.org/2000/svg" v'
    """
    routes, position, taken = _drawn(maze, routes, position, taken)
    names = _checked_names(names, routes)
    is_number = isinstance(width, Real) and not isinstance(width, bool)
    if width is not None and not (is_number and 1 <= width <= LARGEST_WIDTH):
        raise ValueError(f"width: got {shown(width)}, expected 1 to {LARGEST_WIDTH:,} pixels")
    rows, columns = maze.shape
    margin = 0.5 * CELL if labels else 0.08 * CELL
    far = 0.08 * CELL
    full_width, full_height = columns * CELL + margin + far, rows * CELL + margin + far
    scale = 1 if width is None else width / full_width
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width:g} {full_height:g}" '
        f'width="{full_width * scale:g}" height="{full_height * scale:g}" role="img" '
        'style="max-width: 100%; height: auto" '
        'font-family="Helvetica, Arial, sans-serif" font-weight="bold" text-anchor="middle">',
        f"<title>{escape(_summary(maze, routes, names, position, taken))}</title>",
        f'<rect width="{full_width:g}" height="{full_height:g}" fill="{FLOOR}"/>',
    ]
    if labels:
        size = 0.3 * CELL
        for c in range(columns):
            name = maze.square_name((0, c))[0]
            parts.append(_text(margin + (c + 0.5) * CELL, 0.36 * CELL, name, size, "#555555"))
        for r in range(rows):
            y = margin + (r + 0.5) * CELL + 0.35 * size
            parts.append(_text(0.25 * CELL, y, str(r + 1), size, "#555555"))
    parts.append(f'<g transform="translate({margin:g} {margin:g})">')
    parts += [_square(maze, (r, c), taken) for r in range(rows) for c in range(columns)]
    parts.append(
        f'<rect width="{columns * CELL}" height="{rows * CELL}" '
        f'fill="none" stroke="{WALL}" stroke-width="4"/>'
    )
    parts += _routes(maze, routes, names)
    parts += _letters(maze, taken)
    if position is not None:
        x, y = _centre(position)
        parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{0.24 * CELL:g}" '
            f'fill="{BLUE}" stroke="{FLOOR}" stroke-width="4"/>'
        )
    parts.append("</g></svg>")
    return Picture("".join(parts))


def _summary(maze, routes, names, position, taken):
    """What a screen reader says of the picture."""

    def named(squares):
        return " ".join(map(maze.square_name, squares))

    parts = [f"Maze of {maze.shape[0]} by {maze.shape[1]} squares, budget {maze.budget} moves"]
    for name in ("walls", "gold", "diamonds", "lava", "bonus"):
        if squares := getattr(maze, name):
            parts.append(f"{name} on {named(squares)}")
    parts.append(f"S on {maze.square_name(maze.start)}, E on {maze.square_name(maze.exit)}")
    if taken:
        parts.append(f"taken: {named(sorted(taken))}")
    if position is not None:
        parts.append(f"walker on {named([position])}")
    numbers = range(1, len(routes) + 1)
    for name, route in zip(names or numbers, routes, strict=True):
        walked = walk(maze, route)
        end = "reaches E" if walked.reached else "does not reach E"
        parts.append(f"route {name}: {route or 'no move'}, by {named(walked.squares)}, {end}")
    return "; ".join(parts)


def _drawn(maze, routes, position, taken):
    """What all pictures are given: routes as a list, the walker's square, the items taken."""
    if position is not None:
        _check_square(maze, position, "position")
    if isinstance(taken, str) or not isinstance(taken, Iterable):
        raise ValueError(f"taken: got {shown(taken)}, expected a list of (row, column)")
    squares = list(taken)
    for square in squares:
        _check_square(maze, square, "taken")
    items = {*maze.gold, *maze.diamonds, *maze.lava, *maze.bonus}
    return check_routes(routes), position, items & set(map(tuple, squares))


def _check_square(maze, given, name):
    rows, columns = maze.shape
    try:
        square = np.asarray(given)
    except ValueError:  # rows of unequal length
        square = np.empty(0)
    whole = square.shape == (2,) and square.dtype.kind in "iu"
    if not (whole and 0 <= square[0] < rows and 0 <= square[1] < columns):
        raise ValueError(
            f"{name}: got {shown(given)}, expected (row, column) on the {rows} by {columns} squares"
        )


def _checked_names(names, routes):
    """The names as a list, one for each route; None where none were given."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"names: got {shown(names)}, expected a list of texts")
    names = list(names)
    if len(names) != len(routes):
        raise ValueError(
            f"names: got {len(names)} names for {len(routes)} routes; give one for each"
        )
    return names


def _centre(position):
    return (position[1] + 0.5) * CELL, (position[0] + 0.5) * CELL


def _text(x, y, text, size, colour, halo=None):
    """A text; with a halo of the given colour, so that it can be read on top of a line."""
    place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}"'
    if halo:
        place += f' stroke="{halo}" stroke-width="5" stroke-linejoin="round" paint-order="stroke"'
    return f"<text {place}>{escape(str(text))}</text>"


def _square(maze, position, taken):
    """One square: its floor, and the sign of what lies on it."""
    x, y = position[1] * CELL, position[0] * CELL
    cx, cy = _centre(position)
    symbol = maze.symbol(position)
    base = f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
    if symbol == "#":
        return f'{base} fill="{WALL}" stroke="{WALL}"/>'
    sign = ""
    if symbol == "S":
        ring = f'cx="{cx:g}" cy="{cy:g}" r="{0.36 * CELL:g}"'
        sign = f'<circle {ring} fill="none" stroke="{BLACK}" stroke-width="5"/>'
    elif symbol == "E":
        inset, side = 0.1 * CELL, 0.8 * CELL
        place = f'x="{x + inset:g}" y="{y + inset:g}" width="{side:g}" height="{side:g}" rx="6"'
        sign = f'<rect {place} fill="{GREEN}" stroke="{BLACK}" stroke-width="4"/>'
    elif symbol == "L":
        quarter = CELL / 4 - 1.5
        wave = f"q{quarter / 2:g} {-0.11 * CELL:g} {quarter:g} 0" + f" t{quarter:g} 0" * 3
        waves = " ".join(f"M{x + 3:g} {cy + dy * CELL:g} {wave}" for dy in (-0.3, 0.36))
        sign = (
            f'{base} fill="{VERMILLION}"/>'
            f'<path d="{waves}" fill="none" stroke="{FLOOR}" stroke-width="3.5"/>'
        )
    elif symbol == "G":
        sign = f'<circle cx="{cx:g}" cy="{cy:g}" r="{0.34 * CELL:g}" fill="{YELLOW}" {_RIM}/>'
    elif symbol == "D":
        r = 0.43 * CELL
        corners = f"{cx:g},{cy - r:g} {cx + r:g},{cy:g} {cx:g},{cy + r:g} {cx - r:g},{cy:g}"
        sign = f'<polygon points="{corners}" fill="{SKY_BLUE}" {_RIM}/>'
    elif symbol == "B":
        angles = np.pi * (np.arange(10) / 5 - 0.5)
        radii = np.where(np.arange(10) % 2, 0.25, 0.47) * CELL
        tips = zip(cx + radii * np.cos(angles), cy + radii * np.sin(angles), strict=True)
        star = " ".join(f"{px:.1f},{py:.1f}" for px, py in tips)
        sign = f'<polygon points="{star}" fill="{PURPLE}" {_RIM}/>'
    floor = f'{base} fill="{FLOOR}" stroke="{GRID_LINE}" stroke-width="1"/>'
    return floor + (f'<g opacity="{0.25 if position in taken else 1}">{sign}</g>' if sign else "")


def _letters(maze, taken):
    """The letters of all signs; drawn last, so that no route hides one."""
    for position in (maze.start, maze.exit, *maze.gold, *maze.diamonds, *maze.lava, *maze.bonus):
        symbol = maze.symbol(position)
        x, y = _centre(position)
        colour, halo = _LETTER_COLOURS[symbol]
        if position in taken:
            colour, halo = "#777777", FLOOR
        yield _text(x, y + 0.125 * CELL, symbol, 0.36 * CELL, colour, halo)


_RIM = f'stroke="{BLACK}" stroke-width="3" stroke-linejoin="round"'


def _routes(maze, routes, names):
    """Routes as polylines, each moved a little along the diagonal, so that they stay apart."""
    names = names or [str(i + 1) if len(routes) > 1 else "" for i in range(len(routes))]
    lane = min(LARGEST_LANE, 0.5 * CELL / max(len(routes), 1))
    parts, badges = [], []
    for i, route in enumerate(routes):
        walked = walk(maze, route)
        shift = (i - (len(routes) - 1) / 2) * lane
        points = [(x + shift, y + shift) for x, y in map(_centre, walked.squares)]
        if walked.reached:  # stop at the edge of E: its letter and the arrow heads stay visible
            (x0, y0), (x1, y1) = points[-2:]
            points[-1] = (x0 + 0.45 * (x1 - x0), y0 + 0.45 * (y1 - y0))
        colour, dashes = ROUTE_COLOURS[i % len(ROUTE_COLOURS)], DASHES[i % len(DASHES)]
        line = " ".join(f"{x:g},{y:g}" for x, y in points)
        shared = f'points="{line}" fill="none" stroke-linejoin="round" stroke-linecap="round"'
        parts.append(f'<polyline {shared} stroke="{FLOOR}" stroke-width="8" opacity="0.85"/>')
        dashed = f'stroke-dasharray="{dashes or "none"}"'
        parts.append(f'<polyline {shared} stroke="{colour}" stroke-width="4.5" {dashed}/>')
        badges.append(_end(points, walked.reached, colour))
        if names[i] and len(points) > 1:
            # number i + 1 of n stands (i + 1) / (n + 1) of the way along: badges rarely meet
            at = min(len(points) - 1, 1 + (i + 1) * (len(points) - 2) // (len(routes) + 1))
            (x0, y0), (x1, y1) = points[at - 1], points[at]
            badges.append(_badge((x0 + x1) / 2, (y0 + y1) / 2, names[i], colour))
    return parts + badges


def _badge(x, y, name, colour):
    """The number of a route, on a disc of its colour."""
    ring = f'stroke="{FLOOR}" stroke-width="3"'
    disc = f'<circle cx="{x:g}" cy="{y:g}" r="12" fill="{colour}" {ring}/>'
    return disc + _text(x, y + 5.5, name, 16, FLOOR)


def _end(points, reached, colour):
    """An arrow head where E is reached, a cross where the route ends elsewhere."""
    x, y = points[-1]
    if not reached:
        a = 0.14 * CELL
        falling, rising = f"l{2 * a:g} {2 * a:g}", f"l{2 * a:g} {-2 * a:g}"
        cross = f"M{x - a:g} {y - a:g} {falling} M{x - a:g} {y + a:g} {rising}"
        return (
            f'<path d="{cross}" stroke="{FLOOR}" stroke-width="11" fill="none"/>'
            f'<path d="{cross}" stroke="{colour}" stroke-width="6" fill="none"/>'
        )
    (x0, y0) = points[-2]
    dx, dy = np.sign(x - x0), np.sign(y - y0)
    a = 0.17 * CELL
    tips = (x + a * dx, y + a * dy), (x - a * dy, y + a * dx), (x + a * dy, y - a * dx)
    corners = " ".join(f"{px:g},{py:g}" for px, py in tips)
    return f'<polygon points="{corners}" fill="{colour}" stroke="{FLOOR}" stroke-width="2"/>'


_TERMINAL = {"S": "1", "E": "1;32", "G": "1;33", "D": "1;36", "L": "1;31", "B": "1;35", "#": "90"}


def ansi(
    maze: Maze,
    routes: Sequence[str] = (),
    *,
    position: Square | None = None,
    taken: Iterable[Square] = (),
    colour: bool = True,
) -> str:
    """Returns the maze as text for a terminal.

    The walker is ``@``, floor on a route is ``*``, and taken items are in lower case. ``colour``
    adds the terminal's colour codes. Raises ValueError as :func:`svg` does.

    >>> from envs import Maze
    >>> maze = Maze.from_text("S . G\\n. # .\\nD . E")
    >>> print(ansi(maze, ["RRD"], position=(1, 2), taken=[(0, 2)], colour=False))
      a b c
    1 S * g
    2 . # @
    3 D . E
    """
    routes, position, taken = _drawn(maze, routes, position, taken)
    rows = [row.split() for row in maze.text.splitlines()]
    for route in routes:
        for r, c in walk(maze, route).squares:
            if rows[r][c] == ".":
                rows[r][c] = "*"
    for r, c in taken:
        rows[r][c] = rows[r][c].lower()
    if position is not None:
        rows[position[0]][position[1]] = "@"
    margin = len(str(len(rows)))
    columns = [maze.square_name((0, c))[0] for c in range(maze.shape[1])]
    lines = [" ".join([" " * margin, *columns])]
    paint = _paint if colour else str
    for number, row in enumerate(rows, start=1):
        lines.append(" ".join([f"{number:{margin}}", *map(paint, row)]))
    return "\n".join(lines)


def _paint(symbol):
    code = _TERMINAL.get(symbol.upper())
    return f"\x1b[{code}m{symbol}\x1b[0m" if code and symbol != "." else symbol


# the letters of the RGB array, 5 x 7 dots
_LETTERS = {
    "S": "01110 10001 10000 01110 00001 10001 01110",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "G": "01110 10001 10000 10111 10001 10001 01110",
    "D": "11110 10001 10001 10001 10001 10001 11110",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "B": "11110 10001 10001 11110 10001 10001 11110",
}
_SIDE = 32  # pixels a square


def rgb_array(
    maze: Maze,
    routes: Sequence[str] = (),
    *,
    position: Square | None = None,
    taken: Iterable[Square] = (),
) -> np.ndarray:
    """Returns the maze as an RGB image, uint8 of shape (32 * rows, 32 * columns, 3).

    The signs are those of :func:`envs.drawing.svg`. Routes are thin lines, of its colours and
    dashes, without numbers and ends. Raises ValueError as :func:`envs.drawing.svg` does.

    >>> from envs import Maze
    >>> rgb_array(Maze.from_text("S . E")).shape
    (32, 96, 3)
    """
    routes, position, taken = _drawn(maze, routes, position, taken)
    rows, columns = maze.shape
    image = np.full((rows * _SIDE, columns * _SIDE, 3), 255, dtype=np.uint8)
    squares = [(r, c) for r in range(rows) for c in range(columns)]
    for r, c in squares:
        _sign(_tile(image, (r, c)), maze.symbol((r, c)), (r, c) in taken)
    lane = min(4, 0.85 * _SIDE / max(len(routes), 1))  # many routes, too, stay in their squares
    for i, route in enumerate(routes):
        shift = round((i - (len(routes) - 1) / 2) * lane)
        colour = _rgb(ROUTE_COLOURS[i % len(ROUTE_COLOURS)])
        middle = _SIDE // 2 + shift
        middles = [(r * _SIDE + middle, c * _SIDE + middle) for r, c in walk(maze, route).squares]
        drawn = _dashes(DASHES[i % len(DASHES)])
        for (y0, x0), (y1, x1) in itertools.pairwise(middles):
            for part in np.linspace(0, 1, _SIDE, endpoint=False):
                y, x = round(y0 + part * (y1 - y0)), round(x0 + part * (x1 - x0))
                if drawn[(y + x) % len(drawn)]:  # a way walked twice keeps its gaps
                    image[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = colour
    for square in squares:
        _letter(_tile(image, square), maze.symbol(square), square in taken)
    if position is not None:
        tile = _tile(image, position)
        tile[_RADIUS < 10] = 255
        tile[_RADIUS < 8] = _rgb(BLUE)
    return image


def _dashes(pattern: str) -> np.ndarray:
    """Where a line in one of DASHES is drawn, pixel by pixel, over one period."""
    lengths = [int(length) for length in pattern.split()] or [1]
    return np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)


_Y, _X = np.mgrid[:_SIDE, :_SIDE] - (_SIDE - 1) / 2
_RADIUS = np.hypot(_X, _Y)


def _rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _tile(image, position):
    r, c = position
    return image[r * _SIDE : (r + 1) * _SIDE, c * _SIDE : (c + 1) * _SIDE]


def _sign(tile, symbol, taken):
    tile[[0, -1]] = tile[:, [0, -1]] = _rgb(GRID_LINE)
    square, diamond = np.maximum(abs(_X), abs(_Y)), abs(_X) + abs(_Y)
    star = np.minimum(diamond, square + 5)
    shapes = {
        "#": [(square < 99, WALL)],
        "S": [(_RADIUS < 14, BLACK), (_RADIUS < 12, FLOOR)],
        "E": [(square < 14, BLACK), (square < 12, GREEN)],
        "G": [(_RADIUS < 13.5, BLACK), (_RADIUS < 12, YELLOW)],
        "D": [(diamond < 15.5, BLACK), (diamond < 13.5, SKY_BLUE)],
        "L": [(square < 99, VERMILLION), (abs(abs(_Y) - 12.5 - 1.5 * np.sin(_X / 2)) < 1, FLOOR)],
        "B": [(star < 16, BLACK), (star < 14, PURPLE)],
    }
    for mask, colour in shapes.get(symbol, ()):
        tile[mask] = _rgb(colour)
    if taken:
        tile[:] = 255 - (255 - tile.astype(int)) // 4


def _letter(tile, symbol, taken):
    if symbol not in _LETTERS:
        return
    dots = np.array([[dot == "1" for dot in row] for row in _LETTERS[symbol].split()])
    letter = np.kron(dots, np.ones((2, 2), dtype=bool))
    top, left = (_SIDE - letter.shape[0]) // 2, (_SIDE - letter.shape[1]) // 2
    part = tile[top : top + letter.shape[0], left : left + letter.shape[1]]
    part[letter] = _rgb("#999999" if taken else _LETTER_COLOURS[symbol][0])
