"""The record: reading drawn grids, refusing wrong ones, and describing what holds."""

import dataclasses
import random

import numpy as np
import pytest

import envs
from envs import Maze

JUNK = 2_000  # a tenth of what `make bench` tries


def test_a_drawn_grid_is_read():
    maze = Maze.from_text("S.G\n\n . #\t. \nDLE\n", budget=9)
    assert maze.text == str(maze) == "S . G\n. # .\nD L E"
    assert (maze.shape, maze.size, maze.budget) == ((3, 3), 3, 9)
    assert (maze.start, maze.exit) == ((0, 0), (2, 2))
    assert (maze.gold, maze.diamonds, maze.lava, maze.bonus, maze.walls) == (
        ((0, 2),),
        ((2, 0),),
        ((2, 1),),
        (),
        ((1, 1),),
    )
    assert maze.symbol((1, 1)) == "#" and maze.symbol((2, 0)) == "D"


def test_items_come_in_reading_order():
    maze = Maze.from_text("SGB\nGEG\nBG.")
    assert maze.gold == ((0, 1), (1, 0), (1, 2), (2, 1)) and maze.bonus == ((0, 2), (2, 0))


def test_default_budget_is_the_shortest_way_plus_two_sides():
    assert Maze.from_text("S#E\n. . .").budget == 4 + 2 * 3
    long = Maze.from_text("S" + "." * 8 + "E")
    assert long.budget == 9 + 2 * 10 and long.size == 10


@pytest.mark.parametrize(
    ("text", "budget", "message"),
    [
        (
            "S . X\n. . E",
            None,
            "text: unknown symbol 'X' at row 1, column 3; the symbols are . S E G D L B #",
        ),
        ("S . .\n. e E", None, "text: unknown symbol 'e' at row 2, column 2"),
        (
            "S . .\n. E",
            None,
            "text: row 2 has 2 symbols, but row 1 has 3; every row needs the same number",
        ),
        ("S . .\n.\n. . E", None, "text: row 2 has 1 symbol, but row 1 has 3"),
        (
            "S .\nS E",
            None,
            "text: a maze needs exactly one S (start), this one has 2 (a1 and a2)",
        ),
        (
            "S S\nS S\nS E",
            None,
            "text: a maze needs exactly one S (start), this one has 5 (a1 and b1 and a2)",
        ),
        (
            "S E\n. E",
            None,
            "text: a maze needs exactly one E (exit), this one has 2 (b1 and b2)",
        ),
        (
            ". .\n. E",
            None,
            "text: a maze needs exactly one S (start), this one has 0; put S on a free square",
        ),
        ("S .\n. .", None, "text: a maze needs exactly one E (exit), this one has 0"),
        (
            "S # .\n# . E",
            None,
            "text: no path from S (a1) to E (c2); open a wall between them",
        ),
        ("", None, "text: the grid is empty; write rows of the symbols . S E G D L B #"),
        ("  \n\t\n", None, "text: the grid is empty"),
        (None, None, "text: got NoneType, expected a string"),
        (["S E"], None, "text: got list, expected a string"),
        (
            "S" + "." * 25 + "E",
            None,
            "text: the grid has 1 rows and 27 columns; the largest has 26 of each",
        ),
        (
            "S . E",
            1,
            "budget: got 1, expected 2 (the shortest path to E) to 10,000 moves",
        ),
        ("S E", 0, "budget: got 0, expected 1 (the shortest path to E) to 10,000 moves"),
        ("S E", -5, "budget: got -5"),
        ("S E", 10**9, "budget: got 1000000000"),
        ("S E", 4.0, "budget: got 4.0, expected a whole number of moves, or None"),
        ("S E", "7", "budget: got '7'"),
        ("S E", True, "budget: got True"),
    ],
)
def test_wrong_grids_are_refused_in_one_line(text, budget, message):
    with pytest.raises(ValueError) as error:
        Maze.from_text(text, budget)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_a_changed_copy_is_the_maze_of_its_own_text_and_budget():
    """It kept the old gold, equalled the true maze of its text, and gave that one its own front."""
    maze = envs.generate("lite-6x6", 1000)
    bare = dataclasses.replace(maze, text=maze.text.replace("G", "."))
    assert maze.gold and not bare.gold and bare.pareto_front().rewards[:, 1].max() == 0
    assert envs.Maze(maze.text, maze.budget).gold == maze.gold
    with pytest.raises(ValueError, match="budget: got 3"):
        dataclasses.replace(maze, budget=3)


def test_a_route_of_the_front_goes_straight_where_it_can():
    """Pictures would show stairs."""
    for n in (4, 6):
        grid = [["."] * n for _ in range(n)]
        grid[0][0], grid[-1][-1] = "S", "E"
        maze = envs.Maze.from_text("\n".join(" ".join(row) for row in grid), budget=2 * n)
        (route,) = maze.pareto_front().routes
        assert route in ("R" * (n - 1) + "D" * (n - 1), "D" * (n - 1) + "R" * (n - 1))


def test_numpy_budgets_are_numbers():
    assert Maze.from_text("S E", np.int64(3)) == Maze.from_text("S E", 3)


def test_distances():
    maze = Maze.from_text("S . # .\n# . # .\nE . # .")
    assert maze.distances(maze.exit).tolist() == [[4, 3, -1, -1], [-1, 2, -1, -1], [0, 1, -1, -1]]
    assert maze.distances((0, 3)).tolist() == [[-1, -1, -1, 0], [-1, -1, -1, 1], [-1, -1, -1, 2]]
    assert maze.distances((1, 0)).max() == -1  # nobody walks to a wall
    with pytest.raises(
        ValueError,
        match=r"position: got \(3, 0\), expected a row below 3 and a column below 4, both from 0",
    ):
        maze.distances((3, 0))


def test_squares_are_named_as_the_policy_names_them():
    maze = Maze.from_text("S . .\n. . .\n. . E")
    assert [maze.square_name(p) for p in ((0, 0), (0, 2), (2, 1))] == ["a1", "c1", "b3"]
    assert Maze.from_text("S" + "." * 24 + "E").square_name((0, 25)) == "z1"
    for wrong in ((0, -1), (0, 3), 5, (1,), "ab", (0.5, 1)):
        with pytest.raises(ValueError, match="position: "):
            maze.square_name(wrong)
        with pytest.raises(ValueError, match="position: "):
            maze.symbol(wrong)


@pytest.mark.parametrize("preset", sorted(envs.PRESETS))
def test_generated_mazes_describe_themselves_as_keeping_the_rules(preset):
    for seed in range(10):
        rules = envs.generate(preset, seed).describe()
        may_be_false = ("every lava tile", "no route takes all") if preset == "paper-9x9" else ()
        assert all(
            holds is True for rule, holds in rules.items() if not rule.startswith(may_be_false)
        ), str(rules)


def test_a_drawn_maze_says_which_rules_it_breaks():
    rules = Maze.from_text("S . . .\n. G . .\n. L . .\n. . D E").describe()
    assert list(rules.values()) == [True, False, True, None, None, True, False, False]
    assert (
        str(rules).splitlines()[1]
        == "no   gold lies near one of the other corners, diamonds near the other"
    )
    inside = Maze.from_text("S . . G\n. . . .\n. . E .\nD . . .").describe()  # three corners left
    assert list(inside.values())[:2] == [False, True]
    both = Maze.from_text("S . G\n. . .\nD . E", budget=20).describe()
    assert list(both.values()) == [True, True, True, True, False, None, False, False]
    between = Maze.from_text("S . G\n# . #\nD . E", budget=8).describe()  # in one order, in 8 steps
    assert list(between.values())[:5] == [True, True, True, True, False]
    aside = Maze.from_text("S L E\n. . .\n. . L\nG . .").describe()  # one of two on the path
    assert list(aside.values())[:6] == [False, False, True, None, None, False]
    burning = Maze.from_text("S L E", budget=2).describe()
    assert list(burning.values()) == [True, None, False, None, None, True, None, False]
    for kind in "GD":  # treasure of one kind alone
        one = Maze.from_text(f"S . {kind}\n. . .\n. . E").describe()
        assert list(one.values()) == [True, False, True, None, None, None, None, False]
    strewn = Maze.from_text("S . . G\n. D . .\n. . . .\n. . . .\nD . . E")  # one diamond near S
    assert list(strewn.describe().values())[:5] == [True, False, True, None, None]
    row = Maze.from_text("G D S E .").describe()  # both near one corner
    assert list(row.values())[:2] == [False, False]
    walled = Maze.from_text("S . . G #\n. . . . .\n. . . . .\nD . . . E", budget=40)
    assert list(walled.describe().values())[:5] == [True, True, True, False, True]


def test_a_maze_with_too_many_items_still_describes_itself():
    rules = Maze.from_text(
        "S G G G G G G G G\n. D D D D D D D D\n. L . . . . . . E", budget=40
    ).describe()
    assert list(rules.values())[-2:] == [None, None]
    assert str(rules).endswith(
        "-    no route is best at everything (the front is not computed above 16 items)"
    )


@pytest.mark.slow
def test_junk_texts_never_do_worse_than_a_valueerror():
    """Each of the random texts becomes a maze or a ValueError in one line."""
    rng = random.Random(0)
    outcomes = {"maze": 0, "refused": 0}
    for _ in range(JUNK):
        outcomes[junk_text(rng)] += 1
    assert min(outcomes.values()) > 0.1 * JUNK


def junk_text(rng):
    """Half of the texts are grids with a mistake at most, half are anything."""
    if rng.random() < 0.5:
        rows, columns = rng.randint(1, 7), rng.randint(1, 7)
        cells = [rng.choice("....GDLB##") for _ in range(rows * columns)]
        cells[rng.randrange(len(cells))], cells[rng.randrange(len(cells))] = "S", "E"
        lines = ["".join(cells[i : i + columns]) for i in range(0, len(cells), columns)]
        text = rng.choice(["\n", "\r\n", "\n\n", " \n"]).join(lines)
    else:
        alphabet = rng.choice(
            [".SEGDLB#", ".SEGDLB# \n\t", "\x00\u2028\u4e2d\U0001f600 .SE\n", "aU1-é\x1c"]
        )
        text = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 60)))
    budget = rng.choice(
        [None, None, None, 0, 7, 10**4, -1, 10**30, 2.5, float("nan"), "9", b"", [3], True]
    )
    try:
        maze = Maze.from_text(text, budget)
    except ValueError as error:
        assert str(error) and "\n" not in str(error), repr(text)
        return "refused"
    assert Maze.from_text(maze.text, maze.budget) == maze
    try:
        maze.pareto_front()
    except ValueError as error:
        assert "at most 16" in str(error)
    return "maze"


STRANGE = [
    *(None, True, -1, 2.5, float("nan"), 10**5000, np.float32(1), object(), int, lambda: 0),
    *("", "x" * 10_000, b"UD", "\n", np.array("U")),
    *([], [1, [2]], [[]], {}, {"a": 1}, (0, 0), (1, 2, 3, 4), range(3), np.zeros((40, 40))),
]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: Maze.from_text(x),
        lambda x: Maze.from_text("S E", x),
        lambda x: envs.generate(x, 0),
        lambda x: envs.generate("tiny-4x4", x),
        lambda x: envs.PROBES["one_step"].pareto_front(x),
        lambda x: envs.PROBES["one_step"].distances(x),
        lambda x: envs.PROBES["one_step"].square_name(x),
        lambda x: envs.score_routes(x, ["R"]),
        lambda x: envs.score_routes(envs.PROBES["one_step"], x),
        lambda x: envs.score_routes(envs.PROBES["one_step"], [x]),
        lambda x: envs.score_routes(envs.PROBES["one_step"], ["R"], x),
        lambda x: envs.canonical_route(envs.PROBES["one_step"], x),
        lambda x: envs.drawing.svg(envs.PROBES["one_step"], [x]),
        lambda x: envs.MazeEnv(maze=x),
        lambda x: envs.MazeEnv(scalarize=x),
        lambda x: envs.MazeEnv(observation=x),
        lambda x: envs.MazeEnv(render_mode=x),
        lambda x: envs.MazeEnv().pareto_front(x),
        *(
            lambda x, name=field.name: envs.Layout(**{name: x})
            for field in dataclasses.fields(envs.Layout)
        ),
    ],
)
def test_strange_arguments_are_refused_in_one_short_line(call):
    for strange in STRANGE:
        try:
            call(strange)
        except ValueError as error:
            assert "\n" not in str(error) and 10 < len(str(error)) < 400, strange


def test_junk_routes_never_do_worse_than_a_valueerror():
    rng = random.Random(1)
    maze = envs.generate("lite-6x6", 1)
    refused = 0
    for _ in range(JUNK):
        route = "".join(
            rng.choice("UDLR" if rng.random() < 0.8 else "UDLRudlr \n%\x00\u4e2d\ud800")
            for _ in range(8)
        )
        routes = ["UU", route, rng.choice(["", "R", 7, None, b"UD", ["U"]])]
        try:
            scores = envs.score_routes(maze, routes)
            assert scores.shape == (3, 4) and set(route) <= set("UDLR")
        except ValueError as error:
            assert str(error).startswith(("routes: route 1", "routes: route 2"))
            refused += 1
        try:
            assert route.startswith(envs.canonical_route(maze, route))
        except ValueError as error:
            assert str(error).startswith("route: letter")
    assert 0.1 * JUNK < refused < 0.999 * JUNK
