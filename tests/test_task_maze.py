"""The maze as a language task: what is asked for is what is read back, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from vpo_lite.tasks import task_class
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training.answers import read_answers, score_answers

TASK = MazeTask()
MAZE = envs.generate("lite-6x6", 3)
ROUTES = list(MAZE.pareto_front().routes)


def random_walk(maze, length, rng):
    """A walk without bumps, as moves, from the rules alone."""
    rows, columns = maze.shape
    (r, c), moves = maze.start, ""
    steps = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
    while len(moves) < length:
        move = "UDLR"[rng.integers(4)]
        there = (r + steps[move][0], c + steps[move][1])
        if 0 <= there[0] < rows and 0 <= there[1] < columns and there not in maze.walls:
            (r, c), moves = there, moves + move
    return moves


@pytest.mark.parametrize("m", range(1, 6))
@pytest.mark.parametrize("seed", range(5))
def test_written_routes_are_read_back_for_every_m(m, seed):
    rng = np.random.default_rng(seed)
    maze = envs.generate("lite-6x6", seed)
    routes = [random_walk(maze, int(rng.integers(0, 19)), rng) for _ in range(m)]
    assert TASK.parse(maze, TASK.write(maze, routes, {}), m) == routes


@pytest.mark.parametrize("m", range(1, 10))
def test_the_words_prompt_shows_exactly_the_tags_that_the_parser_reads(m):
    prompt = TASK.prompt(MAZE, m).text
    filled = prompt.splitlines()[-1].replace("...", "UP DOWN, left r")
    assert TASK.parse(MAZE, filled, m) == ["UDLR"] * m
    assert f"<route_{m + 1}>" not in prompt


def test_moves_and_squares_mean_the_same():
    maze = envs.Maze.from_text("S . .\n# # .\nE . .")
    squares = "b1 c1 c2 c3 b3 a3"
    for body in (
        squares,
        "R R D D L L",
        "right, right, down, down, left, left",
        "RRDDLL",
        "rrddll",
        "RIGHT RIGHT DOWN DOWN LEFT LEFT",
    ):
        assert TASK.parse(maze, f"<route_1> {body} </route_1>", 1) == ["RRDDLL"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [None, None, None]),
        ("<route_1> R </route_1>", ["R", None, None]),  # fewer
        ("<route_2> R </route_2> <route_1> D </route_1>", ["D", "R", None]),  # any order
        (
            "<route_1> R </route_1> <route_2> R </route_2> <route_3> R </route_3> <route_4> D "
            "</route_4>",
            ["R"] * 3,
        ),  # more
        (
            "<route_1> R </route_1> <route_1> D </route_1>",
            ["R", None, None],
        ),  # repeated tag: the first counts
        ("<route_1> R </route_1> <route_2> R R D", ["R", None, None]),  # truncated
        ("<route_1> R </route_2>", [None, None, None]),  # wrong end
        ("<route_1> , </route_1>", [None, None, None]),
        ("<route_1> </route_1>", ["", None, None]),  # an empty route is a route that goes nowhere
        ("<route_1> go RIGHT then DOWN </route_1>", [None, None, None]),  # prose
        ("I would go RIGHT RIGHT DOWN", [None, None, None]),
        ("<route_1> <route_2> D </route_2> </route_1>", [None, "D", None]),  # nested
        ("<route_1>\nRIGHT\nDOWN\n</route_1>", ["RD", None, None]),
        ("<route_0> R </route_0> <route_01> R </route_01>", [None, None, None]),
        (
            "<route_1> a9 </route_1> <route_2> z1 </route_2> <route_3> a0 </route_3>",
            [None, None, None],
        ),  # off the board
    ],
)
def test_what_is_not_exactly_the_form_is_none(text, expected):
    maze = envs.Maze.from_text("S . .\n. . .\n. . E")
    assert TASK.parse(maze, text, 3) == expected


def test_squares_that_are_walls_or_not_adjacent_make_the_answer_malformed():
    maze = envs.Maze.from_text("S # .\n. . .\n. . E")
    for squares in ("b1 c1", "a3 b3", "b2", "a1", "a2 a2"):
        assert TASK.parse(maze, f"<route_1> {squares} </route_1>", 1) == [None], squares


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.text(alphabet=st.sampled_from("<>/route_123 URDLabc1 \n\x00é"), max_size=200),
    st.integers(1, 5),
)
def test_junk_never_raises_and_always_gives_m_entries(text, m):
    answers = TASK.parse(MAZE, text, m)
    assert len(answers) == m
    assert all(a is None or set(a) <= set("UDLR") for a in answers)


def written(*routes):
    """A completion with these routes; None is left out."""
    return " ".join(f"<route_{i}> {r} </route_{i}>" for i, r in enumerate(routes, 1) if r)


def test_reward_matrix_worst_for_missing_and_marks_for_repeats():
    best = ROUTES[0]
    longer = best + "U"  # moves after E do not count: a repeat in effect
    (scored,) = read_answers(
        TASK, [MAZE], [[written(best, longer, None), written(None, best, "UUU")]], 3
    )
    assert scored.parsed.tolist() == [[True, True, False], [False, True, True]]
    assert scored.repeats.tolist() == [[False, True, False], [False, False, False]]
    assert scored.tokens.tolist() == [0, 0] and scored.truncated.tolist() == [False, False]
    vector = envs.score_routes(MAZE, [best])[0]
    assert np.array_equal(scored.rewards[0], [vector, vector, np.zeros(4)])
    trained = scored.for_training(TASK.worst(MAZE))
    assert np.array_equal(
        trained[0], [vector, np.zeros(4), np.zeros(4)]
    )  # the repeat lost its vector, its model kept it
    assert np.array_equal(trained[1], scored.rewards[1])
    assert np.array_equal(scored.for_training(TASK.worst(MAZE), True), scored.rewards)


def test_scores_that_are_no_numbers_are_refused_with_the_answer():
    class Broken(MazeTask):
        def score(self, instances, answers):
            return [np.full((len(routes), self.width), np.nan) for routes in answers]

    task = Broken()
    task.width = 4
    with pytest.raises(ValueError, match="'UD'"):
        score_answers(task, [MAZE], [[["UD"]]])
    task.width = 3
    with pytest.raises(ValueError, match=r"shape \(1, 3\): expected \(1, 4\)"):
        score_answers(task, [MAZE], [[["UD"]]])


def test_a_batch_of_mazes_is_scored_as_each_alone():
    mazes = [envs.generate("lite-6x6", seed) for seed in (0, 1, 2)]
    answers = [list(mazes[0].pareto_front().routes), [], ["UD", *mazes[2].pareto_front().routes]]
    together = TASK.score(mazes, answers)
    for maze, routes, vectors in zip(mazes, answers, together, strict=True):
        assert vectors.shape == (len(routes), 4)
        assert np.array_equal(vectors, envs.score_routes(maze, routes))


def test_solved_is_a_point_of_the_true_front_and_valid_is_reaching_e():
    front = MAZE.pareto_front().rewards
    vectors = np.vstack([front, np.zeros(4), 0.9 * front[0]])
    vectors[-1, 0] = 1
    assert TASK.solved(MAZE, vectors).tolist() == [True] * len(front) + [False, False]
    assert TASK.valid(MAZE, vectors).tolist() == [True] * len(front) + [False, True]


def test_smaller_boards_are_padded_with_walls_and_larger_ones_refused():
    small = envs.Maze.from_text("S .\n. E")
    words = TASK.prompt(small, 1, pocket={"board": 3}).symbols.split()
    assert words == ["<m1>", "<b6>", "a1S", "b1.", "c1#", "a2.", "b2E", "c2#", "a3#", "b3#", "c3#"]
    with pytest.raises(ValueError, match="sides of 8 squares does not fit"):
        TASK.prompt(envs.generate("hard-8x8", 0), 1, pocket={"board": 6})


def test_the_words_say_how_rewards_count():
    """By the square in convex_bonus, and what the bonus multiplies: what score_routes computes."""
    mazes = [envs.Maze.from_text(text, budget=5) for text in ("S G E\n. . .", "S B E\n. G .")]
    squared = MazeTask(reward_mode="convex_bonus")
    plain, bonus = (squared.prompt(maze, 2).text for maze in mazes)
    assert "by the square of the share that you reach." in plain
    assert "by the square of the share that you reach, times 1.5 (1 at most) if you" in bonus
    for maze in mazes:
        assert "square of the share" not in TASK.prompt(maze, 2).text
        rules = squared.prompt(maze, 2).text.replace("Each of these three goals counts", "\0")
        assert [x for x in rules.splitlines() if "\0" not in x] == (
            TASK.prompt(maze, 2).text.splitlines()
        )


def test_weights_are_written_into_the_prompt():
    w = np.array([0.1, 0.2, 0.3, 0.4])
    assert "<w1> <w2> <w3> <w4>" in TASK.prompt(MAZE, 1, weights=w, pocket={"board": 6}).symbols
    assert "gold 0.20" in TASK.prompt(MAZE, 1, weights=w).text


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'maze'"):
        task_class("chess")
    with pytest.raises(ValueError, match="lite-6x6"):
        MazeTask(layout="huge-99x99")


def test_the_name_of_a_drawing_in_the_place_of_the_drawing():
    """Its first letter was an unknown symbol."""
    with pytest.raises(ValueError, match=r"maze = 'maze.txt': .* Path\(FILE\)\.read_text\(\)"):
        MazeTask(maze="maze.txt")
    with pytest.raises(ValueError, match="unknown symbol 'x' at row 2, column 1"):
        MazeTask(maze="S .\nx E")
    assert MazeTask(maze="S . E").instance(0).shape == (1, 3)


def test_a_budget_that_a_pocket_policy_cannot_read_is_refused_with_the_cure():
    wide = "S . . .\n# # # .\nE . . ."
    MazeTask(maze=wide, maze_budget=60).check_policy(3, {"board": 6, "budget": 60})
    MazeTask(maze=wide, maze_budget=61).check_policy(3, None)
    with pytest.raises(
        ValueError, match=r"61 moves .* budgets up to 60: give a smaller maze_budget"
    ):
        MazeTask(maze=wide, maze_budget=61).check_policy(3, {"board": 6, "budget": 60})


@pytest.mark.parametrize("said", ({"board": 6}, {"budget": 60}))
def test_a_pocket_policy_that_does_not_say_which_mazes_it_reads_is_refused(said):
    with pytest.raises(
        ValueError, match=r"which mazes it reads: .* has no (board|budget); name an"
    ):
        MazeTask().check_policy(3, said)
