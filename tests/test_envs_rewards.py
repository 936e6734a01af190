"""Batch scoring and the exact front, against plain brute force."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

import envs

MAZES = 400  # a tenth of what `make bench` takes
STEP = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def plain_score(text, budget, route, convex=False):
    """The rules of a maze, written as plainly as possible; shares nothing with the package."""
    rows = [line.split() for line in text.splitlines()]
    where = {}
    for r, row in enumerate(rows):
        for c, symbol in enumerate(row):
            where.setdefault(symbol, []).append((r, c))
    here, stepped_on = where["S"][0], set()
    for move in route[:budget]:
        r, c = here[0] + STEP[move][0], here[1] + STEP[move][1]
        if 0 <= r < len(rows) and 0 <= c < len(rows[0]) and rows[r][c] != "#":
            here = (r, c)
        stepped_on.add(here)
        if rows[here[0]][here[1]] == "E":
            break
    if rows[here[0]][here[1]] != "E":
        return (0.0, 0.0, 0.0, 0.0)

    def share(symbol, if_none):
        return (
            len(stepped_on & set(where[symbol])) / len(where[symbol])
            if symbol in where
            else if_none
        )

    parts = [share("G", 0.0), share("D", 0.0), 1.0 - share("L", 0.0)]
    if convex:
        factor = 1.5 if stepped_on & set(where.get("B", [])) else 1.0
        parts = [min(1.0, factor * part**2) for part in parts]
    return (1.0, *parts)


def random_maze(rng, rows, columns, budget, items):
    """A random drawn maze with a way to E, full of things, or None."""
    symbols = np.full(rows * columns, ".")
    order = rng.permutation(rows * columns)
    symbols[order[0]], symbols[order[1]] = "S", "E"
    walls = rng.integers(0, rows * columns // 3)
    symbols[order[2 : 2 + walls]] = "#"
    some = order[2 + walls : 2 + walls + items]
    symbols[some] = rng.choice(list("GGDDLLB"), len(some))
    text = "\n".join(" ".join(row) for row in symbols.reshape(rows, columns))
    try:
        return envs.Maze.from_text(text, budget)
    except ValueError:
        return None


def random_mazes(seed, n):
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        rows, columns = rng.integers(2, 6, 2)
        maze = random_maze(
            rng, rows, columns, budget=int(rng.integers(3, 11)), items=int(rng.integers(2, 15))
        )
        if maze is not None:
            found.append(maze)
    return found


def all_routes(maze):
    """Every route without bumps that ends on E within the budget, shortest first."""
    walks, finished = [(maze.start, "")], []
    for _ in range(maze.budget):
        longer = []
        for (r, c), route in walks:
            for move, (dr, dc) in STEP.items():
                there = (r + dr, c + dc)
                if there == maze.exit:
                    finished.append(route + move)
                elif there in maze.free:
                    longer.append((there, route + move))
        walks = longer
    return finished


def brute_force_front(maze, convex):
    """{non-dominated vector: length of its shortest route}, by scoring every route there is."""
    shortest = {}
    for route in all_routes(maze):
        vector = plain_score(maze.text, maze.budget, route, convex)
        shortest.setdefault(tuple(round(x, 12) for x in vector), len(route))
    dominated = {
        v
        for v in shortest
        for w in shortest
        if w != v and all(a >= b for a, b in zip(w, v, strict=True))
    }
    return {v: steps for v, steps in shortest.items() if v not in dominated}


@pytest.mark.slow
@pytest.mark.parametrize("reward_mode", ["linear", "convex_bonus"])
def test_front_equals_brute_force(reward_mode):
    sizes = []
    for maze in random_mazes(seed=0, n=MAZES):
        front = maze.pareto_front(reward_mode)
        expected = brute_force_front(maze, convex=reward_mode == "convex_bonus")
        vectors = [tuple(row) for row in np.round(front.rewards, 12).tolist()]
        assert vectors == sorted(expected, reverse=True)
        for vector, route in zip(vectors, front.routes, strict=True):
            score = plain_score(maze.text, maze.budget, route, reward_mode == "convex_bonus")
            assert score == pytest.approx(vector, abs=1e-12)
            assert len(route) == expected[vector], "not a shortest witness"
        sizes.append(len(front))
    assert max(sizes) >= 4, "the mazes are too easy to prove anything"


@pytest.mark.parametrize("preset", sorted(envs.PRESETS))
@pytest.mark.parametrize("reward_mode", ["linear", "convex_bonus"])
def test_witnesses_earn_the_front(preset, reward_mode):
    for seed in range(30):
        maze = envs.generate(preset, seed)
        front = maze.pareto_front(reward_mode)
        np.testing.assert_array_equal(
            envs.score_routes(maze, front.routes, reward_mode), front.rewards
        )
        assert all(envs.canonical_route(maze, route) == route for route in front.routes)
        assert front.rewards.dtype == np.float64 and not front.rewards.flags.writeable


def test_no_route_beats_the_front():
    """Random walks of presets too large for brute force: nothing they earn is above the front."""
    rng = np.random.default_rng(1)
    reached = 0
    for preset in ("lite-6x6", "hard-8x8", "paper-9x9"):
        for seed in range(10):
            maze = envs.generate(preset, seed)
            steps = maze.distances(maze.exit)
            routes = []
            for _ in range(100):  # walks that mostly do not stray too far to come home
                here, route = maze.start, ""
                while here != maze.exit and len(route) < maze.budget:
                    left = maze.budget - len(route) - 1
                    ways = [
                        (move, there)
                        for move, (dr, dc) in STEP.items()
                        if (there := (here[0] + dr, here[1] + dc)) in maze.free
                        and steps[there] <= left
                    ]
                    move, here = ways[rng.integers(len(ways))]
                    route += move
                routes.append(route)
            scores = envs.score_routes(maze, routes)
            front = maze.pareto_front().rewards
            covered = (front[None] >= scores[:, None] - 1e-12).all(-1).any(1)
            assert covered.all()
            reached += int(scores[:, 0].sum())
    assert reached > 1000


PROBE_FRONTS = {
    "one_step": ([[1, 0, 0, 1]], ("R",)),
    "gold_only": ([[1, 1, 0, 1]], ("DDRR",)),
    "lava_short_cut": ([[1, 0, 0, 1]], ("DDRRUU",)),
    "gold_or_diamond": ([[1, 1, 0, 1], [1, 0, 1, 1]], ("RRDD", "DDRR")),
}


@pytest.mark.parametrize("name", PROBE_FRONTS)
def test_probe_mazes_have_their_known_answers(name):
    front = envs.PROBES[name].pareto_front()
    rewards, routes = PROBE_FRONTS[name]
    assert front.rewards.tolist() == rewards and front.routes == routes
    assert set(envs.PROBES) == set(PROBE_FRONTS)


def test_the_lava_short_cut_costs_what_it_should():
    maze = envs.PROBES["lava_short_cut"]
    assert envs.score_routes(maze, ["RR"]).tolist() == [[1, 0, 0, 0]]
    tight = envs.Maze.from_text(maze.text, budget=5)  # one step short of the detour
    assert tight.pareto_front().rewards.tolist() == [[1, 0, 0, 0]]


def test_front_waits_for_no_budget():
    """A budget beyond any need costs nothing: the search ends when nothing new is reached."""
    maze = envs.generate("lite-6x6", 1000)
    long = envs.Maze.from_text(maze.text, budget=10_000)
    assert long.pareto_front().rewards.tolist() == [[1, 1, 1, 1]]
    assert 18 < len(long.pareto_front().routes[0]) < 60


def test_sixteen_items_are_the_most():
    text = "S . . .\n" + "\n".join(["G D L G"] * 4) + "\n. . . E"
    front = envs.Maze.from_text(text, budget=40).pareto_front()
    assert len(front) >= 1
    with pytest.raises(ValueError) as error:
        envs.Maze.from_text(text.replace("S .", "S L")).pareto_front()
    assert "17 items (8 gold, 4 diamonds, 5 lava)" in str(error.value) and "at most 16" in str(
        error.value
    )


def test_a_bonus_counts_once_and_only_in_its_mode():
    maze = envs.Maze.from_text("S G G .\n. . . E\nB . B .", budget=12)
    assert maze.pareto_front().rewards.tolist() == [[1, 1, 0, 1]]
    assert maze.pareto_front("convex_bonus").rewards.tolist() == [[1, 1, 0, 1]]
    full = envs.Maze.from_text("S G G G G G\nB D D D D D\nB L L L L L\n. . . . . E", budget=12)
    assert len(full.pareto_front("convex_bonus")) > 1  # 15 items and two bonus squares: 16
    half = envs.Maze.from_text("S . G E G\n. B . . .", budget=5)
    # 1.5 * (1/2)^2 with the bonus, 1/4 without
    assert envs.score_routes(half, ["DRURR", "RRR"], "convex_bonus").tolist() == [
        [1, 0.375, 0, 1],
        [1, 0.25, 0, 1],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("reward_mode", ["linear", "convex_bonus"])
def test_scores_equal_the_plain_rules(reward_mode):
    """10,000 random routes on many mazes in one call."""
    rng = np.random.default_rng(2)
    mazes = random_mazes(seed=3, n=60) + [envs.generate("lite-6x6", seed) for seed in range(40)]
    chosen = [mazes[i] for i in rng.integers(len(mazes), size=10_000)]
    routes = ["".join(rng.choice(list("UDLR"), rng.integers(0, 25))) for _ in chosen]
    for i in range(
        0, 10_000, 4
    ):  # random walks rarely arrive: every fourth is a way home with a detour
        front = chosen[i].pareto_front()
        home = front.routes[rng.integers(len(front))]
        cut = rng.integers(len(home) + 1)
        routes[i] = (
            home[:cut]
            + rng.choice(["", "UD", "LR", "RL", "U"])
            + home[cut:]
            + rng.choice(["", "LLU"])
        )
    scores = envs.score_routes(chosen, routes, reward_mode)
    expected = [
        plain_score(maze.text, maze.budget, route, reward_mode == "convex_bonus")
        for maze, route in zip(chosen, routes, strict=True)
    ]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)
    assert 0.2 < np.mean(scores[:, 0]) < 0.8 and len(np.unique(scores, axis=0)) > 20


def test_one_maze_or_one_each():
    maze = envs.generate("lite-6x6", 2)
    routes = [*maze.pareto_front().routes, "", "U"]
    one = envs.score_routes(maze, routes)
    np.testing.assert_array_equal(one, envs.score_routes([maze] * len(routes), routes))
    assert one.shape == (len(routes), 4) and one.dtype == np.float64
    assert envs.score_routes(maze, []).shape == (0, 4)
    assert envs.score_routes([], []).shape == (0, 4)
    assert envs.score_routes(maze, np.array(routes)).tolist() == one.tolist()


def test_more_items_than_fit_one_word():
    """A drawn maze may hold hundreds of items, too many for a front but not for a score."""
    rng = np.random.default_rng(6)
    rows = rng.choice(list(".GGDDLB"), (20, 20))
    rows[0, 0], rows[19, 19] = "S", "E"
    maze = envs.Maze.from_text("\n".join(" ".join(row) for row in rows), budget=200)
    assert len(maze.gold) + len(maze.diamonds) > 130
    routes = [
        "".join(rng.permutation(list("RD" * 19 + "UDLR" * 20))) + "R" * 19 + "D" * 19
        for _ in range(100)
    ]
    scores = envs.score_routes(maze, routes)
    np.testing.assert_allclose(
        scores, [plain_score(maze.text, 200, route) for route in routes], rtol=0, atol=1e-12
    )
    assert scores[:, 0].mean() > 0.5 and scores[:, 1].max() > 0.1


def test_many_routes_take_bounded_memory():
    """What scoring holds beyond the routes and their rewards does not grow with their number."""
    maze = envs.generate("lite-6x6", 1000)

    def peak(n):
        routes = ["RRDDLLUURRDDLLUURR"] * n
        tracemalloc.start()
        scores = envs.score_routes(maze, routes)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most - scores.nbytes - 2 * 18 * n  # the letters, joined and as bytes

    assert peak(60_000) - peak(30_000) < 30_000 * 18  # less than a byte a move


def test_a_front_is_found_once_and_cannot_change():
    maze = envs.generate("lite-6x6", 1000)
    front = maze.pareto_front()
    again = envs.Maze.from_text(maze.text, maze.budget)
    assert again is not maze and again.pareto_front() is front is envs.pareto_front(again, "linear")
    assert maze.pareto_front("convex_bonus") is not front
    assert envs.Maze.from_text(maze.text, maze.budget + 1).pareto_front() is not front
    with pytest.raises(ValueError, match="read-only"):
        front.rewards[0, 0] = 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        front.routes = ()
    with pytest.raises(TypeError):
        front.routes[0] = "R"


@pytest.mark.slow
def test_a_walk_is_what_the_rules_say():
    """Its squares are those that plain moves reach, bumps left out, up to E and the budget."""
    rng = np.random.default_rng(8)
    reached = 0
    for maze in random_mazes(seed=9, n=50):
        routes = ["".join(rng.choice(list("UDLR"), 12)) for _ in range(20)]
        for route in [*routes, *maze.pareto_front().routes]:
            here, squares = maze.start, [maze.start]
            for move in route[: maze.budget]:
                there = (here[0] + STEP[move][0], here[1] + STEP[move][1])
                if there in maze.free and here != maze.exit:
                    squares.append(here := there)
            walk = envs.walk(maze, route)
            assert walk.squares == squares and walk.reached == (here == maze.exit)
            assert walk.reached == envs.score_routes(maze, [route])[0, 0]
            reached += walk.reached
    assert 60 < reached < 600
    with pytest.raises(ValueError, match="route: letter 2 is 'x'"):
        envs.walk(maze, "Rx")


def test_canonical_routes_compare_effects():
    maze = envs.Maze.from_text("S . E\n# G .", budget=5)
    assert envs.canonical_route(maze, "RRUUUU") == "RR"
    assert envs.canonical_route(maze, "LLLLLRR") == "LLLLL"
    assert envs.canonical_route(maze, "") == ""
    assert envs.canonical_route(maze, "RL") == "RL"
    rng = np.random.default_rng(4)
    for seed in range(20):
        maze = envs.generate("tiny-4x4", seed)
        routes = ["".join(rng.choice(list("UDLR"), 12)) for _ in range(50)] + list(
            maze.pareto_front().routes
        )
        cut = [envs.canonical_route(maze, route) for route in routes]
        np.testing.assert_array_equal(envs.score_routes(maze, routes), envs.score_routes(maze, cut))
        assert all(route.startswith(short) for route, short in zip(routes, cut, strict=True))


@pytest.mark.parametrize(
    ("mazes", "routes", "message"),
    [
        (1, ["RD", "RDx"], "routes: route 1 has the letter 'x'; the moves are U, D, L, R"),
        (1, ["RD", "", "ré", "z"], "routes: route 2 has the letter 'r'"),
        (1, ["RD\u4e2d"], "routes: route 0 has the letter '\u4e2d'"),
        (1, ["R D"], "routes: route 0 has the letter ' '"),
        (1, ["RD", None], "routes: route 1 is None, expected a string"),
        (
            1,
            "RD",
            "routes: got one string, expected a list of them; write [route] for one",
        ),
        (3, ["RD", "RD"], "mazes: got 3 mazes for 2 routes; give one maze, or one for each route"),
        (None, ["RD"], "mazes: got None, expected a Maze, or a list of them"),
        (["x"], ["RD"], "mazes: item 0 is a str, expected a Maze"),
        (1, 7, "routes: got int, expected a list of strings"),
    ],
)
def test_bad_routes_are_refused_with_their_index(mazes, routes, message):
    maze = envs.PROBES["gold_or_diamond"]
    given = {1: maze, 3: [maze] * 3}.get(mazes, mazes) if not isinstance(mazes, list) else mazes
    with pytest.raises(ValueError) as error:
        envs.score_routes(given, routes)
    assert message in str(error.value)


def test_the_index_is_right_in_later_chunks():
    maze = envs.PROBES["one_step"]
    routes = ["R"] * 20_000
    routes[19_990] = "Q"
    with pytest.raises(ValueError, match="route 19990 has the letter 'Q'"):
        envs.score_routes(maze, routes)


def test_unknown_reward_mode():
    maze, message = (
        envs.PROBES["one_step"],
        "reward_mode: got 'convex', expected one of 'linear', 'convex_bonus'",
    )
    with pytest.raises(ValueError, match=message):
        maze.pareto_front("convex")
    with pytest.raises(ValueError, match=message):
        envs.score_routes(maze, [], "convex")


def test_missing_kinds():
    nothing = envs.Maze.from_text("S . E")
    assert envs.score_routes(nothing, ["RR", "R"]).tolist() == [[1, 0, 0, 1], [0, 0, 0, 0]]
    assert envs.score_routes(nothing, ["RR"], "convex_bonus").tolist() == [[1, 0, 0, 1]]
