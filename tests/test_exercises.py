"""Exercises: solutions pass, blanks fail, and each listed wrong answer gets a hint of its own."""

import ast
import copy
import itertools
import json
import re
import shutil
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import envs
import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.objective import nondominated
from vpo_lite.teaching import check
from vpo_lite.teaching.course import CODE, build, solved
from vpo_lite.teaching.exercises import NOTEBOOKS, exercise, of_notebook, train_live
from vpo_lite.teaching.exercises.kinds import BLANK, BLANK_BODY

FOLDER = Path(__file__).parent.parent / "notebooks"
EXERCISES = [made for number in NOTEBOOKS for made in of_notebook(number).values()]
by_key = pytest.mark.parametrize("made", EXERCISES, ids=lambda made: made.key)


@by_key
def test_the_solution_is_right_and_says_what_it_shows(made):
    feedback = check(made.key, made.solution)
    assert feedback.right and feedback.text == made.learned
    assert repr(feedback) == f"✓ {made.key}: right. {made.learned}"


@by_key
@pytest.mark.parametrize("blank", [..., None], ids=["dots", "none"])
def test_a_blank_is_no_answer_and_no_mistake(made, blank):
    assert check(made.key, blank).text == BLANK
    assert not check(made.key, blank).right


@by_key
def test_a_function_without_a_body_is_blank_too(made):
    if callable(made.solution):
        assert check(made.key, lambda *_: ...).text == BLANK_BODY
        assert "end with `return`" in check(made.key, lambda *_: None).text


@by_key
def test_every_slip_gets_its_own_hint(made):
    hints = []
    for slip in made.slips:
        feedback = check(made.key, slip.answer)
        assert not feedback.right and feedback.text.startswith(slip.hint)
        hints.append(feedback.text)
    assert hints and len(set(hints)) >= len({slip.hint for slip in made.slips})


class Rude:
    """Raises where others look."""

    def __repr__(self):
        raise AttributeError("half made")

    def __array__(self, *_, **__):
        raise KeyError("no array")


ODD = [
    "abc",
    "75 %",
    10**400,
    [10**400] * 3,
    np.array([0.6 + 1j, 0.6, 0.2]),
    np.ma.masked,
    Rude(),
    True,
    object(),
    [],
    {},
    float("nan"),
    float("inf"),
    1 + 2j,
    np.zeros((2, 2)),
    "",
    b"x",
]
ODD += [lambda: 1, lambda *_: "text", lambda *_: 1 / 0, lambda *_: np.zeros(7), print]
ODD += [lambda *_: 10**400, lambda *_: 1j, lambda *_: Rude(), lambda *_: sys.exit(3), Rude]
ODD += [torch.zeros(3, requires_grad=True), lambda *_: torch.zeros(3, requires_grad=True)]


@by_key
def test_odd_answers_get_a_hint_and_never_an_error(made):
    for i, odd in enumerate(ODD):
        feedback = check(made.key, odd)
        told = feedback.text.strip() and "\n" not in feedback.text
        assert told and not feedback.right, f"ODD[{i}]"


@pytest.mark.parametrize("change", [np.atleast_2d, np.ravel, lambda y: y[:1], lambda y: y * np.nan])
@pytest.mark.parametrize(
    "made", [e for e in EXERCISES if callable(e.solution)], ids=lambda e: e.key
)
def test_a_function_that_is_right_in_the_first_case_only_gets_a_hint(made, change):
    """Whatever shape it returns later."""
    calls = itertools.count()

    def late(*arguments):
        y = np.asarray(made.solution(*arguments), dtype=float)
        wrong = y if next(calls) == 0 else change(np.atleast_1d(y))
        return wrong if np.shape(wrong) != y.shape or np.isnan(wrong).any() else y + 1

    feedback = check(made.key, late)
    assert not feedback.right and "\n" not in feedback.text


def test_repeats_that_are_dropped_are_told_by_their_shape():
    def without(R, effects):
        return R[[effects.index(e) for e in dict.fromkeys(effects)]]

    said = "In case 2 it returns the shape (1, 4), and (2, 4) is right."
    assert check("04-c", without).text.endswith(said)


@pytest.mark.parametrize("kind", [np.float32, torch.tensor, np.array, Fraction])
def test_a_number_of_any_kind_is_a_number(kind):
    assert check("01-b", kind(0.75)).right


def test_a_choice_may_be_typed_in_capital_or_small_letters():
    for key, text in (("01-c", "a and b"), ("05-a", "Brevity"), ("08-c", " d ")):
        assert check(key, text).right, text
    assert "serves nobody" in check("00-c", "Far apart").text
    assert "Choose one of" in check("08-c", "E").text


def test_a_difference_that_was_cut_off_is_told_to_be_rounded():
    """0.0238 with three decimals is 0.024; nothing is wrong with the entries of 0.023."""
    assert check("06-b", 0.024).right and "round" in check("06-b", 0.023).text


def test_numbers_that_are_texts_are_no_numbers():
    assert not check("02-c", ["0.6", "0.6", "0.2"]).right
    assert not check("01-a", lambda R, W: exercise("01-a").solution(R, W).astype(str)).right
    assert not check("01-a", lambda R, W: exercise("01-a").solution(R, W) + 1j).right


@by_key
def test_its_minutes_and_its_level_are_such(made):
    assert 1 <= made.minutes <= 15 and made.level in (1, 2, 3)
    assert re.fullmatch(r"\d\d-[a-c]", made.key)


@pytest.mark.parametrize("key", ["99-a", "02-z", "", None, 2, ["02-a"]])
def test_a_key_that_no_exercise_has_is_refused(key):
    with pytest.raises(ValueError, match="exercise"):
        check(key, 1)


# ---- the solutions against another source ----


def test_vpos_advantages_are_the_librarys():
    rng = np.random.default_rng(5)
    R, W = rng.random((24, 3, 2)), vpo.sample_weights(64, 2, rng=rng)
    ours = vpo.advantages("vpo", R[None], weights=W)[0]
    assert np.allclose(exercise("01-a").solution(R, W), ours, atol=1e-4)


def test_a_group_is_scored_as_the_library_scores_it_with_the_same_weights():
    R = np.random.default_rng(6).random((5, 3, 4))
    W = np.random.default_rng(7).dirichlet(np.ones(4), size=50)
    ours = exercise("02-b").solution(R, 50, np.random.default_rng(7))
    assert np.allclose(ours, vpo.set_reward(R, W))


def test_scores_of_nothing_but_zeros_are_not_taken_for_advantages():
    told = exercise("02-b").judge(lambda R, K, rng: np.zeros(len(R)))
    assert "With 20,000 weights you get" in told and "advantages" not in told


def test_advantages_that_divide_by_zero_are_told_so():
    """Accepted, they failed in the notebook's next cell, which trains until all rollouts agree."""

    def without(R, W):
        U = (R @ W.T).max(axis=1).mean(axis=1)
        return (U - U.mean()) / U.std()

    assert "0 / 0 is no number. Add 1e-6" in check("01-a", without).text


@pytest.mark.parametrize("ours", [lambda R, W: _vpo(R, W).tolist(), lambda R, W: _tensor(R, W)])
def test_advantages_may_be_a_list_or_a_tensor(ours):
    assert check("01-a", ours).right


def _vpo(R, W):
    return vpo.advantages("vpo", R[None], weights=W)[0]


def _tensor(R, W):
    torch = pytest.importorskip("torch")
    return torch.as_tensor(_vpo(R, W))


@pytest.mark.parametrize("answer", ["B and A", "A B", "b, a", " A and B "])
def test_a_set_of_answers_has_no_order(answer):
    assert check("01-c", answer).right and not check("01-c", "A").right


@pytest.mark.parametrize("marked", [np.nan, -np.inf])
def test_rows_may_be_marked_by_numbers_that_only_floats_have(marked):
    def on_front(R):
        kept = []
        for i in range(len(R)):
            others = R.copy()
            others[i] = marked
            with np.errstate(invalid="ignore"):
                beaten = ((others >= R[i]).all(axis=1) & (others > R[i]).any(axis=1)).any()
            kept.append(not beaten)
        return np.array(kept)

    assert check("03-a", on_front).right


def test_the_routes_of_a_rollout_are_a_list_of_ones_own():
    def earn_once(R, routes):
        R = R.copy()
        for i in reversed(range(len(routes))):
            if routes.pop() in routes:
                R[i] = 0
        return R

    assert check("04-c", earn_once).right


def test_one_weight_too_few_or_always_sixty_four_is_not_k():
    from vpo_lite.teaching.exercises.set_objective import score_group

    assert not check("02-b", lambda R, K, rng: score_group(R, K - 1, rng)).right
    for seed in range(5):
        always = check("02-b", lambda R, K, rng: score_group(R, 64, rng))
        assert not always.right, seed
    ones = check("02-b", lambda R, K, rng: (R @ rng.dirichlet(np.ones(3), K).T).max(1).mean(1))
    said = " ".join(ones.text.split())
    assert "one number for each objective" in said and "every number of objectives" in said
    drawn = check("02-b", lambda R, K, rng: _by_exponentials(R, K, rng))
    assert drawn.right  # another way to draw Dir(1)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda d, K, rng: rng.dirichlet(np.ones(d), 1), "you draw too few weights"),
        (lambda d, K, rng: rng.dirichlet(np.ones(d), min(K, 64)), "you draw too few weights"),
        (lambda d, K, rng: rng.dirichlet(np.ones(d), K + 1), "With K = 1 you do not draw one"),
        (lambda d, K, rng: rng.random((K, d)), "Are the weights drawn from Dir(1)? With 20,000"),
        (lambda d, K, rng: rng.dirichlet(np.full(d, 3), K), "Are the weights drawn from Dir(1)?"),
    ],
    ids=["one", "at most 64", "one more", "uniform numbers", "another alpha"],
)
def test_weights_of_another_number_or_spread_are_told(draw, said):
    """One weight was told that 20,000 were drawn, and one weight too many was right."""

    def scores(R, K, rng):
        W = draw(R.shape[-1], K, rng)
        return (R @ (W / W.sum(axis=1, keepdims=True)).T).max(axis=1).mean(axis=1)

    feedback = check("02-b", scores)
    assert not feedback.right and said in feedback.text


def test_a_group_scored_by_one_weight_without_a_mean_is_told_too():
    one = check("02-b", lambda R, K, rng: (R @ rng.dirichlet(np.ones(R.shape[-1]))).max(1))
    assert "you draw too few weights. Draw exactly K." in one.text and "you get" not in one.text


def test_a_maze_without_treasure_is_told_so():
    """It was told to open a way."""
    bare = envs.Maze.from_text("S L E\n. # .\n. . .", budget=100)
    assert "There is no treasure" in check("03-c", bare).text
    shut = envs.Maze.from_text("S L E\n. # #\n. # G", budget=100)
    assert "Open a way" in check("03-c", shut).text


def test_a_comma_of_thousands_is_told_and_other_tuples_are_no_number():
    assert "(1, 728) may be two numbers: leave out the comma" in check("04-a", (1, 728)).text
    assert "write a decimal point" in check("01-b", (0, 75)).text
    for other in ((0.9, 0.1), (1,), (True, False), [1, 728]):
        assert "comma" not in check("04-a", other).text, other


def test_routes_that_differ_in_lava_are_not_sent_there():
    """They had the front's diversity, and were told to look at lava."""
    said = check("04-b", [[1, 0, 0, 1], [1, 0, 0, 0], [1, 1, 0, 0]]).text
    assert "in lava already" in said and "Look at lava" not in said
    assert "Look at lava" in check("04-b", [[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]).text


def _by_exponentials(R, K, rng):
    W = rng.exponential(size=(K, R.shape[-1]))
    return (R @ (W / W.sum(axis=1, keepdims=True)).T).max(axis=1).mean(axis=1)


def test_a_function_that_changes_its_arguments_spoils_no_case():
    def rude(R, W):
        U = (R @ W.T).max(axis=1).mean(axis=1)
        R[:], W[:] = 0, 0
        return (U - U.mean()) / (U.std() + 1e-6)

    assert check("01-a", rude).right


def test_the_front_is_the_librarys():
    R = np.unique(np.random.default_rng(8).integers(4, size=(40, 3)) / 3, axis=0)
    assert np.array_equal(exercise("03-a").solution(R), nondominated(R))


def test_the_general_hint_shows_the_first_case_and_which_row_goes():
    said = check("03-a", lambda R: np.ones(len(R))).text
    assert "[[2, 0], [0, 2], [1, 1], [1, 0], [1, 1]]: all rows but the fourth" in said
    assert said.endswith("In the first case it returns 1 at [3], and 0 is right.")


def test_numbers_that_look_alike_are_told_in_more_digits():
    """It would say: it returns 1.063 at [3], and 1.063 is right."""

    def nearly(R, W):
        U = (R @ W.T).max(axis=1).mean(axis=1)
        return 1.0002 * (U - U.mean()) / (U.std() + 1e-6)

    said = check("01-a", nearly).text
    ours, right = map(float, re.findall(r"it returns (\S+) at \[3\], and (\S+) is right", said)[0])
    assert f"{ours:.4g}" == f"{right:.4g}" and 1e-4 < abs(ours - right) < 1e-3


def test_a_drawn_maze_without_a_known_front_is_told_why():
    crowded = envs.Maze.from_text("S G G G G G\n" + "D D D D D D\n" * 2 + "L . . . . E", 100)
    feedback = check("03-c", crowded)
    assert not feedback.right and "at most 16" in feedback.text and "\n" not in feedback.text


@pytest.mark.parametrize("share", [2 / 3, 0.67])  # as it is, and as notebook 00 prints it
def test_two_thirds_may_be_written_with_two_decimals(share):
    assert check("04-b", [[1, 0.5, share, 0], [1, 0, 0, 1], [1, 1, 0, 0]]).right


def test_the_numbers_of_the_mazes_are_theirs():
    front = envs.generate("lite-6x6", 1000).pareto_front().rewards
    assert np.allclose(train_live.FRONT, front)
    assert np.isclose(train_live.SPREAD, vpo.diversity(front))
    assert np.isclose(train_live.CEILING, vpo.price_of_conflict(front)[1])
    front = envs.generate("lite-6x6", 1011).pareto_front().rewards
    for at, reward in enumerate(([1, 0, 0, 1], front[0])):  # the careful route, the best one
        assert np.isclose(exercise("03-b").slips[1 + 2 * at].answer, vpo.coverage([reward], front))


@pytest.mark.parametrize(("m", "alpha"), [(1, 1), (3, 1), (2, 10), (2, 0.1)])
def test_the_slips_of_what_is_missing_are_what_another_slider_shows(m, alpha):
    front = envs.generate("lite-6x6", 1106).pareto_front().rewards  # three needed
    feedback = check("00-b", vpo.price_of_conflict(front, (m,), alpha)[m])
    said = {(1, 1): "best single", (3, 1): "three routes", (2, 10): "α = 10", (2, 0.1): "α = 0.1"}
    assert not feedback.right and said[m, alpha] in feedback.text
    other = envs.generate("lite-6x6", 1000).pareto_front().rewards  # the maze was not changed
    for m in (1, 2):
        assert "maze 1000" in check("00-b", vpo.price_of_conflict(other)[m]).text


@pytest.mark.slow
def test_one_mark_of_the_slider_is_right_and_its_neighbours_say_where_to_go():
    marks = 10 ** np.arange(-1, 1.31, 0.1)  # notebook 02 draws it so
    off = [abs(float(vpo.exact_set_reward(np.eye(3), alpha)) - 0.5) for alpha in marks]
    at = int(np.argmin(off))
    assert [check("02-a", alpha).right for alpha in marks] == [i == at for i in range(len(marks))]
    assert "one mark further" in check("02-a", marks[at - 1]).text
    assert "back one mark" in check("02-a", marks[at + 1]).text


def test_a_search_that_never_reaches_the_score_is_told_to_take_all_answers():
    """The first 30 answers of GRPO are all diamonds, so no k is enough, and argmax gives 0."""
    never = np.full(30, 0.5) >= 0.8
    assert "192" in check("06-c", int(np.argmax(never)) + 1).text


def test_the_best_person_of_each_route_is_another_axis():
    front = envs.generate("lite-6x6", 1000).pareto_front().rewards[:, 1:3]
    scores = front @ np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]).T  # (routes, people)
    assert check("00-a", scores.max(axis=0).mean()).right
    assert "other axis" in check("00-a", scores.max(axis=1).mean()).text


def test_two_chains_that_exclude_each_other_are_not_independent():
    right = {"AB": 0.6 * 0.6, "ab": 0.4 * 0.4}
    assert check("05-b", sum(right.values())).right
    assert "independent" in check("05-b", 1 - np.prod([1 - p for p in right.values()])).text


def test_the_answers_to_one_prompt_are_a_quarter_of_a_step():
    assert "four prompts" in check("04-a", 9 * 16 * 3).text


def test_the_second_of_two_equal_routes_is_not_paid():
    rewards, routes = np.ones((3, 2)), ("U", "R", "U")
    assert exercise("04-c").solution(rewards, routes).tolist() == [[1, 1], [1, 1], [0, 0]]


def test_the_headroom_is_what_the_report_leaves_of_the_best_single_answer():
    R = np.random.default_rng(9).random((1, 9, 4))
    ours = exercise("05-c").solution(R[0])
    assert np.isclose(ours, 1 - vpo.reward_report(R).coverage[1])


# ---- what is shown ----


def test_feedback_is_a_sign_and_a_word_not_only_a_colour():
    right, wrong, blank = (check("01-b", answer)._repr_html_() for answer in (0.75, 0.5, ...))
    assert "✓ 01-b. Right." in right and "✗ 01-b. Not yet." in wrong and "… 01-b" in blank
    assert all('role="status"' in text for text in (right, wrong, blank))


def test_what_a_reader_wrote_is_escaped():
    for answer in ("<b>x", "`<b>x`"):
        assert "<b>x" not in check("01-b", answer)._repr_html_()


def test_code_in_a_hint_is_set_as_code():
    assert "Or ask <code>vpo.price_of_conflict</code>." in check("00-b", 0.5)._repr_html_()
    assert "end with <code>return</code>." in check("01-a", lambda R, W: None)._repr_html_()


# ---- where the guide sends students without the cells before ----

ALONE = {  # {notebook: (section, exercise)}, after the first two code cells
    "01": ("★ Write it yourself", "01-a"),
    "02": ("★ Why a group shares its weights", "02-b"),
}


@pytest.mark.slow
@pytest.mark.parametrize("solves", [True, False], ids=["right", "blank"])
@pytest.mark.parametrize("number", ALONE)
def test_a_section_that_the_guide_names_runs_alone(number, solves, monkeypatch, tmp_path):
    """The cell after exercise 01-a raised a NameError, whatever the answer."""
    monkeypatch.chdir(tmp_path)  # predictions are stored here
    section, key = ALONE[number]
    guide = (FOLDER / "TEACHING.md").read_text(encoding="utf-8")
    assert "first two code cells" in guide and f"`{number} · {section}`" in guide
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    cells = [(c["cell_type"], "".join(c["source"])) for c in cells_of(path)]
    heading = f"## {section}"
    begin = next(i for i, (_, text) in enumerate(cells) if heading in text.splitlines())
    later = enumerate(cells[begin + 1 :], begin + 1)
    end = next(i for i, (_, text) in later if re.search("^## ", text, re.MULTILINE))
    run = [text for kind, text in cells if kind == "code"][:2]
    run += [text for kind, text in cells[begin:end] if kind == "code"]
    solution = CODE.search("\n".join(text for _, text in cells[begin:end]))[1]
    there, seen = {}, 0
    for source in run:
        if solves and f'check("{key}"' in source and "..." in source:
            source = solved(source, solution)
            seen += 1
        exec(source, there)
    assert seen == solves


# ---- copies of the course ----


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    made = tmp_path_factory.mktemp("course")
    counted = build(FOLDER, made / "student", student=True), build(FOLDER, made / "teacher")
    return made, counted


def cells_of(path):
    return json.loads(path.read_text())["cells"]


def test_students_get_every_blank_and_no_solution(copies):
    made, (counted, _) = copies
    for path in FOLDER.glob("*.ipynb"):
        ours, theirs = cells_of(path), cells_of(made / "student" / path.name)
        text = json.dumps(theirs)
        assert "Solution</summary>" not in text and "the solution, checked" not in text
        tagged = [c for c in ours if "exercise" in c["metadata"].get("tags", [])]
        assert [c for c in theirs if "exercise" in c["metadata"].get("tags", [])] == tagged
        assert counted[path.name] == len(tagged)
        claims = json.dumps(ours).count("**Claim.**")
        assert text.count("**Claim.**") == claims  # what is learned stays


class Shape(ast.NodeTransformer):
    """Code without names and keyword arguments: `U.std(axis=1)` and `x.std()` are alike."""

    def visit_Name(self, node):
        return ast.Name("x", ast.Load())

    def visit_Call(self, node):
        self.generic_visit(node)
        node.keywords = []
        return node


def shape_of(node):
    """The shape of an expression; None where it computes nothing or has less than six parts."""
    shape = Shape().visit(copy.deepcopy(node))
    parts = [part for part in ast.walk(shape) if isinstance(part, ast.expr)]
    computes = any(isinstance(part, ast.Call | ast.BinOp) for part in parts)
    return ast.unparse(shape) if computes and len(parts) >= 6 else None


def expressions(code):
    """(shape, code) of each expression."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.expr)]
    return [(shape, ast.unparse(node)) for node in nodes if (shape := shape_of(node))]


def core(code):
    """The shapes of what the statements of a solution assign or return."""
    nodes = [
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assign | ast.Return)
    ]
    return {shape for node in nodes if (shape := shape_of(node.value))}


def test_expressions_that_differ_in_names_and_axes_have_one_shape():
    assert core("y = (scores @ people.T).max(axis=2)\nz = len(y)") == {"(x @ x.T).max()"}
    one_line = expressions("U = (R @ W.T).max(axis=1).mean(axis=1)")
    assert ("(x @ x.T).max()", "(R @ W.T).max(axis=1)") in one_line


@pytest.mark.slow
def test_no_cell_that_students_get_before_an_exercise_or_in_its_notebook_solves_it(copies):
    """The cell with four bugs in the score of 01-a held the right score, too."""
    made, _ = copies
    there, found = {}, []
    for path in sorted(FOLDER.glob("*.ipynb")):
        for cell in cells_of(made / "student" / path.name):
            if cell["cell_type"] == "code":
                for shape, text in expressions("".join(cell["source"])):
                    there.setdefault(shape, f"{cell['id']}: {text}")
        for cell in cells_of(path):
            if re.fullmatch(r"ex-.+-solution", cell["id"]):
                code = CODE.search("".join(cell["source"]))[1]
                found += [(cell["id"], there[shape]) for shape in core(code) if shape in there]
    assert not found


def test_an_exercise_that_the_teacher_solved_is_no_blank_for_students(tmp_path):
    """It went to the students, with its answer and "right"."""
    book = json.loads((FOLDER / "01_why_diversity.ipynb").read_text(encoding="utf-8"))
    (cell,) = [c for c in book["cells"] if c["id"] == "ex-01-a"]
    cell["source"] = [line.replace("...", "return 0") for line in cell["source"]]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "01.ipynb").write_text(json.dumps(book), encoding="utf-8")
    for student in (True, False):
        with pytest.raises(ValueError, match=r"01\.ipynb: cell \d+: an exercise has one blank"):
            build(tmp_path / "in", tmp_path / "out", student=student)
    cell["source"] = ["%time\n", "x = (0.7\n", 'check("01-a", x)']  # no Python, and no blank
    (tmp_path / "in" / "01.ipynb").write_text(json.dumps(book), encoding="utf-8")
    with pytest.raises(ValueError, match=r"has 0; put it back, so that students see no answer"):
        build(tmp_path / "in", tmp_path / "out", student=True)
    assert not (tmp_path / "out").exists()
    cell["source"] = ["%time\n", "x = ...\n", 'check("01-a", x)']
    (tmp_path / "in" / "01.ipynb").write_text(json.dumps(book), encoding="utf-8")
    assert build(tmp_path / "in", tmp_path / "out", student=True) == {"01.ipynb": 3}


def test_copies_hold_no_output_and_students_no_link_to_the_guide(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "in")
    path = tmp_path / "in" / "01_why_diversity.ipynb"
    book = json.loads(path.read_text(encoding="utf-8"))
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            text = {"output_type": "stream", "name": "stdout", "text": ["seen in class"]}
            cell |= {"outputs": [text], "execution_count": 3}
    path.write_text(json.dumps(book), encoding="utf-8")
    for student in (True, False):
        build(tmp_path / "in", tmp_path / str(student), student=student)
        written = (tmp_path / str(student) / path.name).read_text(encoding="utf-8")
        assert "seen in class" not in written and '"execution_count": 3' not in written
    page = (tmp_path / "True" / "REFERENCE.md").read_text(encoding="utf-8")
    assert "TEACHING.md" not in page and "serve the panel | [lesson]" in page
    assert "TEACHING.md" in (tmp_path / "False" / "REFERENCE.md").read_text(encoding="utf-8")


def test_a_teacher_gets_solutions_between_nbgraders_marks_and_cells_with_points(copies):
    made, (_, counted) = copies
    for path in sorted((made / "teacher").glob("*.ipynb")):
        cells = cells_of(path)
        graded = [c for c in cells if "nbgrader" in c["metadata"]]
        assert len(graded) == 2 * counted[path.name]
        ids = [c["metadata"]["nbgrader"]["grade_id"] for c in graded]
        assert len(set(ids)) == len(ids)
        assert len({c["id"] for c in cells}) == len(cells)
        for cell, points in zip(graded[::2], graded[1::2], strict=True):
            source = "".join(cell["source"])
            assert source.count("### BEGIN SOLUTION") == source.count("### END SOLUTION") == 1
            assert cell["metadata"]["nbgrader"]["solution"]
            key = cell["metadata"]["nbgrader"]["grade_id"]
            about = points["metadata"]["nbgrader"]
            assert about["grade"] and about["locked"] and about["points"] == exercise(key).level
            assert "".join(points["source"]).startswith(f'assert check("{key}"')


def test_pages_and_pictures_go_along_but_not_the_answers_to_students(copies):
    made, _ = copies
    assert (made / "student" / "STUDY.md").is_file() and (made / "student" / "images").is_dir()
    assert not (made / "student" / "TEACHING.md").exists()


def test_marks_stand_inside_a_function():
    blank = 'def f(x):\n    """Twice."""\n    ...\n\n\ncheck("00-a", f)'
    solution = 'def f(x):\n    """Twice."""\n    y = 2 * x\n    return y'
    assert solved(blank, solution, marks=True) == (
        'def f(x):\n    """Twice."""\n    ### BEGIN SOLUTION\n    y = 2 * x\n    return y\n'
        '    ### END SOLUTION\n\n\ncheck("00-a", f)'
    )


def test_the_command_writes_a_students_folder(tmp_path, capsys):
    assert main(["course", "build", str(tmp_path / "class"), "--student"]) == 0
    made = f"{len(NOTEBOOKS)} notebooks, {3 * len(NOTEBOOKS)} exercises without solutions"
    assert made in capsys.readouterr().out
    assert (tmp_path / "class" / "01_why_diversity.ipynb").is_file()
    assert main(["course", "build", str(tmp_path / "class")]) == 2  # it is not empty
    assert "not an empty folder" in capsys.readouterr().err
    assert main(["course", "build", str(tmp_path / "b"), "--notebooks", str(tmp_path / "no")]) == 2


def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="not an empty folder"):
        build(FOLDER, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ValueError, match="holds no notebook"):
        build(tmp_path, tmp_path / "new")
