"""Pictures show everything by shape and letter as well as by colour; no name breaks the SVG."""

import itertools
import xml.etree.ElementTree as ET

import gymnasium
import numpy as np
import pytest
from colour_vision import SEEN, linear
from IPython.lib.pretty import pretty

import envs
from envs import Maze, MazeEnv, drawing

SVG = "{http://www.w3.org/2000/svg}"
MAZE = Maze.from_text("S . G\n. # L\nD B E", budget=8)


def texts(picture):
    return [node.text for node in ET.fromstring(picture).iter(f"{SVG}text")]


def test_every_sign_has_its_letter_and_its_own_shape():
    picture = drawing.svg(MAZE, labels=False)
    assert sorted(texts(picture)) == sorted("SGLDBE")
    shapes = {}
    for symbol in "GDBLE":
        other = "." if symbol == "E" else "E"
        alone = drawing.svg(Maze.from_text(f"S {symbol} {other}"), labels=False)
        root = ET.fromstring(alone)
        shapes[symbol] = [
            (node.tag, len(node.get("points", "").split()), node.tag.endswith("path"))
            for node in root.iter()
        ]
    assert len({str(shape) for shape in shapes.values()}) == len(shapes), (
        "two signs differ by colour alone"
    )


def test_labels_name_the_squares():
    assert texts(drawing.svg(MAZE))[:6] == ["a", "b", "c", "1", "2", "3"]
    title = ET.fromstring(drawing.svg(MAZE))[0].text
    assert title.endswith("gold on c1; diamonds on a3; lava on c2; bonus on b3; S on a1, E on c3")


def test_routes_have_their_own_colour_dashes_and_number():
    maze = envs.generate("paper-9x9", 3)
    routes = list(maze.pareto_front().routes) + ["UUUU", "RRRR", "UURR"]
    root = ET.fromstring(drawing.svg(maze, routes, labels=False))
    lines = [node for node in root.iter(f"{SVG}polyline") if node.get("stroke") != drawing.FLOOR]
    assert len(lines) == 5
    assert len({line.get("stroke") for line in lines}) == 5
    assert len({line.get("stroke-dasharray") for line in lines}) == 5
    assert [t for t in texts(ET.tostring(root)) if t.isdigit()] == ["1", "2", "3", "4", "5"]
    # routes that start alike do not lie on one another
    assert len({line.get("points").split()[0] for line in lines}) == 5


def test_a_route_shows_where_it_ends():
    def ends(route):
        root = ET.fromstring(drawing.svg(Maze.from_text("S . E"), [route], labels=False))
        return len(list(root.iter(f"{SVG}polygon"))), len(list(root.iter(f"{SVG}path")))

    assert ends("RR") == (1, 0)  # an arrow head
    assert ends("R") == ends("") == (0, 2)  # a cross, and its halo
    assert ends("RRLL") == (1, 0)  # moves after E do not count


def test_walker_and_taken_squares():
    plain, later = drawing.svg(MAZE), drawing.svg(MAZE, position=(0, 2), taken=[(0, 2)])
    assert later.count("<circle") == plain.count("<circle") + 1
    assert later.count('opacity="0.25"') == 1 and plain.count('opacity="0.25"') == 0
    # a whole walk may be given: only items can be taken
    assert drawing.svg(MAZE, taken=[(0, 0), (0, 1), (0, 2)]) == drawing.svg(MAZE, taken=[(0, 2)])
    assert drawing.ansi(MAZE, taken=[(0, 0), (1, 0), (2, 0)], colour=False).splitlines()[1:] == [
        "1 S . G",
        "2 . # L",
        "3 d B E",
    ]


@pytest.mark.parametrize("draw", [drawing.svg, drawing.ansi, drawing.rgb_array])
def test_what_cannot_be_drawn_is_refused_alike(draw):
    """One route as a string was drawn as many, and (-1, -1) on the last square."""
    with pytest.raises(ValueError, match=r"routes: got one string.*write \[route\] for one"):
        draw(MAZE, "RRDD")
    for square in [(9, 9), (-1, -1), (0, 3), (1,), 5, "ab", (None, 1), (0.5, 1), [[0, 1]]]:
        with pytest.raises(ValueError, match=r"position: got .*on the 3 by 3 squares"):
            draw(MAZE, position=square)
    assert np.all(draw(MAZE, taken=[[0, 2]]) == draw(MAZE, taken={(0, 2)}))
    for taken in [3, None, "ab"]:
        with pytest.raises(
            ValueError, match=r"^taken: got .*, expected a list of \(row, column\)$"
        ):
            draw(MAZE, taken=taken)
    for square in [3, "ab", (0, 3), (0.5, 1), [[0], [0, 1]]]:
        with pytest.raises(ValueError, match=r"^taken: got .*on the 3 by 3 squares$"):
            draw(MAZE, taken=[square])


def test_names_are_escaped_and_counted():
    picture = drawing.svg(MAZE, ["RR", "DD"], names=["<a&b>", '"'])
    assert "<a&b>" in texts(picture) and '"' in texts(picture)
    assert drawing.svg(MAZE, ["RR", "DD"], names=[1, 2]) == drawing.svg(MAZE, ["RR", "DD"])
    for names in ["ab", 3]:
        with pytest.raises(ValueError, match=r"^names: got .*, expected a list of texts$"):
            drawing.svg(MAZE, ["RR", "DD"], names=names)
    with pytest.raises(ValueError, match="names: got 1 names for 2 routes; give one for each"):
        drawing.svg(MAZE, ["RR", "DD"], names=["one"])
    with pytest.raises(ValueError, match="routes: route 0 has the letter 'x'"):
        drawing.svg(MAZE, ["Rx"])


def test_width_scales_and_no_ids_can_clash():
    picture = drawing.svg(MAZE, ["RRDD"], width=300)
    root = ET.fromstring(picture)
    assert float(root.get("width")) == 300 and float(root.get("height")) == pytest.approx(300)
    assert drawing.svg(MAZE, ["RRDD"], width=np.int64(300)) == picture
    for width in [0, -3, True, "a", float("nan"), 1e9]:
        with pytest.raises(ValueError, match=r"^width: got .*, expected 1 to 20,000 pixels$"):
            drawing.svg(MAZE, width=width)
    assert " id=" not in picture and "url(" not in picture


def test_notebooks_show_pictures():
    assert MAZE._repr_svg_() == drawing.svg(MAZE) == drawing.svg(MAZE)._repr_svg_()
    assert type(MAZE._repr_svg_()) is str or isinstance(MAZE._repr_svg_(), str)
    assert pretty(MAZE.pareto_front()) == str(MAZE.pareto_front())  # in a terminal
    html = MAZE.pareto_front()._repr_html_()
    table = ET.fromstring(html)
    assert len(list(table.iter("tr"))) == 1 + len(MAZE.pareto_front())
    assert all(head.text for head in table.iter("th"))  # a screen reader reads it before each cell


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, two):
    bright, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_letters_can_be_read_from_the_back():
    """WCAG contrast of at least 3 : 1, the bar for large bold text."""
    for colour, under in drawing._LETTER_COLOURS.values():
        assert contrast(colour, under) >= 3, (colour, under)
    assert contrast(drawing.WALL, drawing.FLOOR) > 10


def test_colours_survive_colour_blindness():
    """Signs stay apart under simulated colour blindness (matrices of Machado et al. 2009)."""
    names = ("YELLOW", "SKY_BLUE", "VERMILLION", "GREEN", "PURPLE", "FLOOR", "WALL")
    fills = [getattr(drawing, name) for name in names]

    for name, matrix in SEEN.items():
        seen = [np.clip(np.asarray(matrix) @ linear(colour), 0, 1) for colour in fills]
        nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
        assert nearest > 0.1, name


def test_ansi():
    assert drawing.ansi(MAZE, ["DD"], position=(0, 1), taken=[(0, 2)], colour=False) == (
        "  a b c\n1 S @ g\n2 * # L\n3 D B E"
    )
    coloured = drawing.ansi(MAZE)
    assert "\x1b[1;33mG\x1b[0m" in coloured
    tall = Maze.from_text("S\n" + ".\n" * 9 + "E")
    assert drawing.ansi(tall, colour=False).splitlines()[-2:] == ["10 .", "11 E"]


def test_rgb_array():
    image = drawing.rgb_array(MAZE)
    assert image.shape == (96, 96, 3) and image.dtype == np.uint8
    tiles = {
        MAZE.symbol((r, c)): image[32 * r : 32 * r + 32, 32 * c : 32 * c + 32]
        for r in range(3)
        for c in range(3)
    }
    for one, two in itertools.combinations(tiles, 2):
        # told apart by brightness alone, so in print and by anyone
        assert np.abs(tiles[one].mean(axis=2) - tiles[two].mean(axis=2)).max() > 60, (one, two)
    walked = drawing.rgb_array(MAZE, ["RRDD"], position=(0, 0), taken=[(0, 2)])
    assert (walked[:32, :32] != image[:32, :32]).any()
    assert (walked[:32, 64:] != image[:32, 64:]).any()


def test_routes_in_an_rgb_array_differ_by_dashes_also_where_they_are_walked_twice():
    corridor = Maze.from_text("S" + " ." * 9 + " E")
    plain = drawing.rgb_array(corridor)

    def line(i, moves):
        routes = [moves if j == i else "" for j in range(len(drawing.DASHES))]
        changed = (drawing.rgb_array(corridor, routes) != plain).any(axis=(0, 2))
        return changed[32:288]  # between the letters S and E

    lines = [line(i, "R" * 10) for i in range(len(drawing.DASHES))]
    assert all((line(i, "RL" + "R" * 9 + "L" * 9) == lines[i]).all() for i in range(len(lines)))
    assert lines[0].all() and not any(other.all() for other in lines[1:])
    gaps = [(np.diff(other.astype(int)) == -1).sum() for other in lines]
    expected = 256 * np.array([0, 1 / 21, 1 / 10, 2 / 31, 1 / 34, 3 / 33, 2 / 48, 2 / 22])
    assert abs(gaps - expected).max() < 1.5, "gaps / period of DASHES"


def test_many_routes_in_an_rgb_array_stay_in_their_squares():
    plain = drawing.rgb_array(MAZE)
    for count in (8, 9, 20):
        drawn = (drawing.rgb_array(MAZE, ["RR"] * count) != plain).any(axis=-1)
        assert drawn[:32].any() and not drawn[32:].any()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array", "svg", None])
def test_rendering_follows_the_walk(mode):
    env = gymnasium.make("envs/Maze-v0", maze=MAZE, render_mode=mode)
    env.reset()
    before = env.render()
    env.step(3)
    after = env.render()
    if mode is None:
        assert before is None and after is None
    elif mode == "rgb_array":
        assert after.shape == before.shape and (after != before).any()
    else:
        assert isinstance(after, str) and after != before


def test_a_rendered_walk_shows_what_it_took():
    env = MazeEnv(maze="S G .\n. L E", render_mode="svg")
    env.reset()
    env.step(3), env.step(3)  # over the gold
    assert "taken: b1" in env.render()


def test_render_before_reset_shows_the_start():
    assert "@" in MazeEnv(maze=MAZE, render_mode="ansi").render()
