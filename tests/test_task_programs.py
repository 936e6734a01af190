"""Programs as a task: operations, fronts and coverage against text and brute force, and a parser
that takes only what is asked for.
"""

import hashlib
import itertools
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import beta

import vpo_lite as vpo
from vpo_lite.exact import best_single
from vpo_lite.tasks import task_class
from vpo_lite.tasks.program_rules import (
    OPERATIONS,
    PROGRAMS,
    SIZES,
    Examples,
    outputs_of,
)
from vpo_lite.tasks.programs import ProgramsTask
from vpo_lite.training.answers import read_answers

ROOT = Path(__file__).resolve().parent.parent
TASK = ProgramsTask()
KINDS = {
    "three": ProgramsTask(),
    "two": ProgramsTask(branches=2),
    "three, longer rules": ProgramsTask(operations=3),
    "single": ProgramsTask(mode="single"),
}
HAND = Examples(("3072", "9154", "1145", "0009"), ("2703", "0265", "5411", "1110"))


# --- the operations, again, on texts --------------------------------------------------------------


def digitwise(change):
    return lambda text: "".join(str(change(int(digit)) % 10) for digit in text)


BY_TEXT = {
    "reverse": lambda t: t[::-1],
    "left": lambda t: t[1:] + t[0],
    "right": lambda t: t[-1] + t[:-1],
    "swap_first": lambda t: t[1] + t[0] + t[2:],
    "swap_last": lambda t: t[:2] + t[3] + t[2],
    "sort": lambda t: "".join(sorted(t)),
    "plus": digitwise(lambda x: x + 1),
    "minus": digitwise(lambda x: x - 1),
    "double": digitwise(lambda x: 2 * x),
    "max": lambda t: "".join(max(a, b) for a, b in zip(t, t[::-1], strict=True)),
}


def run(program, text):
    for name in program.split():
        text = BY_TEXT[name](text)
    return text


def passed(program, tests):
    return tuple(run(program, a) == b for a, b in zip(tests.inputs, tests.outputs, strict=True))


def everything():
    """All programs, written down in another way than the library does."""
    names = list(BY_TEXT)
    return [" ".join(p) for k in (1, 2, 3) for p in itertools.product(names, repeat=k)]


BY_HAND = {  # what 3072 and 8915 become
    "reverse": ("2703", "5198"),
    "left": ("0723", "9158"),
    "right": ("2307", "5891"),
    "swap_first": ("0372", "9815"),
    "swap_last": ("3027", "8951"),
    "sort": ("0237", "1589"),
    "plus": ("4183", "9026"),
    "minus": ("2961", "7804"),
    "double": ("6044", "6820"),
    "max": ("3773", "8998"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_by_hand(name):
    found = OPERATIONS[name](np.array([[3, 0, 7, 2], [8, 9, 1, 5]]))
    assert tuple("".join(map(str, row)) for row in found.tolist()) == BY_HAND[name]


def test_all_1110_programs_do_what_their_words_say():
    assert len(PROGRAMS) == 1110 and sorted(PROGRAMS) == sorted(everything())
    inputs = ["3072", "9154", "0009", "8915"]
    found = outputs_of(np.array([[int(x) for x in text] for text in inputs]))
    for program, rows in zip(PROGRAMS, found.tolist(), strict=True):
        assert ["".join(map(str, row)) for row in rows] == [run(program, t) for t in inputs]


@pytest.mark.parametrize("m", [1, 3])
def test_the_words_explain_every_operation_as_it_is(m):
    lines = TASK.prompt(HAND, m).text.splitlines()
    for name in OPERATIONS:
        (line,) = [line for line in lines if line.startswith(name + " ")]
        assert line.endswith(f": 3072 becomes {BY_HAND[name][0]}")


# --- problems -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_fronts_and_scores_are_those_of_brute_force(kind):
    task = KINDS[kind]
    for seed in range(6):
        tests = task.instance(seed)
        rows = {passed(program, tests) for program in everything()}
        front = {
            row
            for row in rows
            if not any(
                other != row and all(b >= a for a, b in zip(row, other, strict=True))
                for other in rows
            )
        }
        found = {tuple(bool(x) for x in point) for point in task.front(tests).tolist()}
        assert found == front and len(task.front(tests)) == len(front)
        some = random.Random(seed).sample(PROGRAMS, 40)
        assert task.score([tests], [some])[0].tolist() == [list(passed(p, tests)) for p in some]
        solved = task.solved(tests, task.score([tests], [some])[0])
        assert solved.tolist() == [passed(p, tests) in front for p in some]


@pytest.mark.parametrize("kind", KINDS)
def test_tests_come_from_rules_told_apart_by_the_first_digit(kind):
    task = KINDS[kind]
    for seed in range(60):
        tests = task.instance(seed)
        rules = 1 if task.mode == "single" else task.branches or 3
        counts = [tests.branch.count(b) for b in range(rules)]
        assert len(set(tests.rules)) == rules and max(counts) - min(counts) <= 1
        assert len(tests.inputs) == sum(counts) == SIZES[rules][seed % len(SIZES[rules])]
        ranges = []
        for b in range(rules):
            first = [int(t[0]) for t, c in zip(tests.inputs, tests.branch, strict=True) if c == b]
            ranges.append((min(first), max(first)))
        for (_, most), (least, _) in itertools.pairwise(sorted(ranges)):
            assert most < least
        for text, wanted, b in zip(tests.inputs, tests.outputs, tests.branch, strict=True):
            assert run(tests.rules[b], text) == wanted and len(text) == 4


@pytest.mark.slow
def test_no_single_answer_covers_more_than_85_hundredths_over_400_seeds():
    """By 40,000 weights that the library did not draw; and the limit binds on some seeds."""
    weights = {n: np.random.default_rng(n).exponential(size=(40_000, n)) for n in range(4, 9)}
    best = []
    for kind in ("three", "two"):
        for seed in range(200):
            front = KINDS[kind].front(KINDS[kind].instance(seed))
            W = weights[front.shape[1]]
            W = W / W.sum(axis=1, keepdims=True)
            whole = (W @ front.T).max(axis=1).mean()
            best.append(front.mean(axis=1).max() / whole)
            assert best_single(front) == pytest.approx(best[-1], abs=0.01)
    assert max(best) <= 0.86 and not any(
        (KINDS["two"].front(KINDS["two"].instance(s)) == 1).all(1).any() for s in range(200)
    )
    rejected = Examples(
        ("1234", "2345", "3456", "4567", "9876"), ("2345", "3456", "4567", "5678", "6789")
    )  # plus four times, sort once
    assert best_single(KINDS["two"].front(rejected)) > 0.85


def test_in_mode_single_one_rule_passes_all_and_is_the_front():
    for seed in range(20):
        tests = KINDS["single"].instance(seed)
        assert KINDS["single"].front(tests).tolist() == [[1.0] * len(tests.inputs)]
        assert KINDS["single"].score([tests], [list(tests.rules)])[0].all()


def test_d_differs_from_problem_to_problem():
    assert [len(TASK.objectives(TASK.instance(s))) for s in range(6)] == [5, 6, 7, 8, 5, 6]
    assert TASK.objectives(HAND) == ("test 1", "test 2", "test 3", "test 4")
    assert TASK.w_star(HAND).tolist() == [0.25] * 4 and TASK.worst(HAND).tolist() == [0.0] * 4


def test_golden_values_of_two_branches():
    """b ~ Beta(n1, n2): U = E max(b, 1 - b). As fractions; and the integral by SciPy."""

    def larger(b, n1, n2):
        return max(b, 1 - b) * beta.pdf(b, n1, n2)

    for n1, n2, U, best in (
        (3, 3, "21/32", "16/21"),
        (4, 2, "17/24", "16/17"),
        (2, 2, "11/16", "8/11"),
    ):
        pair = np.array([[1.0] * n1 + [0.0] * n2, [0.0] * n1 + [1.0] * n2])
        assert float(vpo.exact_set_reward(pair)) == pytest.approx(float(Fraction(U)), abs=1e-12)
        assert best_single(pair) == pytest.approx(float(Fraction(best)), abs=1e-12)
        assert best_single(pair[:, ::-1]) == best_single(pair[::-1]) == best_single(pair)
        numeric = integrate.quad(larger, 0, 1, args=(n1, n2), points=[0.5])
        assert numeric[0] == pytest.approx(float(Fraction(U)), abs=1e-9)


def test_golden_value_of_three_branches():
    """2 + 2 + 2 tests: E max of Dirichlet(2, 2, 2), by numerical integration of its density."""
    front = np.kron(np.eye(3), np.ones((1, 2)))

    def density(y, x):
        return 120 * x * y * (1 - x - y) * max(x, y, 1 - x - y)

    numeric = integrate.dblquad(density, 0, 1, 0, lambda x: 1 - x, epsabs=1e-7)[0]
    assert float(vpo.exact_set_reward(front)) == pytest.approx(numeric, abs=1e-6)
    assert best_single(front) == pytest.approx(1 / 3 / numeric, abs=1e-6)


@pytest.mark.slow
def test_the_generator_is_a_pure_function_of_the_seed_in_every_process():
    code = (
        "import hashlib\n"
        "from vpo_lite.tasks.programs import ProgramsTask\n"
        "kinds = ({}, {'branches': 2}, {'operations': 2}, {'mode': 'single'})\n"
        "made = [repr(ProgramsTask(**k).instance(s)) for s in (3, 2**62, 0) for k in kinds]\n"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    kinds = ({}, {"branches": 2}, {"operations": 2}, {"mode": "single"})
    made = [repr(ProgramsTask(**k).instance(s)) for s in (3, 2**62, 0) for k in kinds]
    assert said == {hashlib.sha256(repr(made).encode()).hexdigest().encode() + b"\n"}


PINNED = {
    0: "8726>2678 9663>8226 9658>8206 2340>3402 6109>0169",
    1: "1522>0411 0406>6446 4107>5218 1797>0686 0147>7447 9723>0834",
    1000: "3665>6365 8724>7248 2894>4289 9857>8579 2695>5269",
}


@pytest.mark.parametrize("seed", PINNED)
def test_pinned_problems(seed):
    """Policies and runs depend on them: a change of the generator needs a task of another name."""
    assert TASK.instance(seed).text == PINNED[seed]


# --- requests and answers -------------------------------------------------------------------------


def test_symbols_by_hand():
    two = Examples(HAND.inputs[:1], HAND.outputs[:1])
    assert TASK.prompt(two, 3, pocket={}).symbols == "<m3> a32 b07 c70 d23"
    shown = TASK.prompt(HAND, 1, weights=np.array([0.5, 0.06, 0.04, 0.4]), pocket={}).symbols
    assert [word for word in shown.split() if word[1] == "w"] == ["<w5>", "<w1>", "<w0>", "<w4>"]
    assert "test 2 0.06" in TASK.prompt(HAND, 1, weights=[0.5, 0.06, 0.04, 0.4]).text
    assert "test 2: 9154>0265" in TASK.prompt(HAND, 1).text


@pytest.mark.parametrize("m", range(1, 10))
def test_the_words_ask_for_exactly_the_tags_that_the_parser_reads(m):
    text = TASK.prompt(HAND, m).text
    filled = text.splitlines()[-1].replace("...", "left, Sort plus")
    assert TASK.parse(HAND, filled, m) == ["left sort plus"] * m
    assert f"<program_{m + 1}>" not in text


@pytest.mark.parametrize("m", range(1, 10))
def test_written_programs_are_read_back(m):
    programs = random.Random(m).sample(PROGRAMS, m)
    assert TASK.parse(HAND, TASK.write(HAND, programs), m) == programs
    words = 1 + len(TASK.write(HAND, programs).split())
    assert words <= TASK.max_tokens(HAND, m, {})


JUNK = (
    "",
    "   ",
    ",,,",
    "none",
    "reverse left sort plus",
    "reverse+left",
    "réverse",
    "ＲＥＶＥＲＳＥ",
    "\u0130",
    "3072>2703",
    "reverse <b>left</b>",
    "x" * 100_000,
    "sort " * 50_000,
    "\ud800",
    "__import__('os')",
)


@pytest.mark.parametrize("body", JUNK, ids=range(len(JUNK)))
def test_junk_is_no_answer_and_earns_the_worst_vector(body):
    text = f"<program_1> {body} </program_1> <program_2> plus </program_2>"
    assert TASK.parse(HAND, text, 3) == [None, "plus", None]
    (answers,) = read_answers(TASK, [HAND], [[text]], 3)
    assert answers.rewards[0].tolist() == [[0] * 4, [0, 1, 0, 1], [0] * 4]
    assert answers.valid[0].tolist() == [False, True, False]


def test_only_programs_are_scored():
    with pytest.raises(ValueError, match="program 'jump': expected one to 3 of reverse, left"):
        TASK.score([HAND], [["jump"]])
    assert [part.shape for part in TASK.score([HAND, HAND], [[], ["plus"]])] == [(0, 4), (1, 4)]


def test_programs_of_equal_outputs_are_repeats():
    rows = [["plus", "minus plus plus", "reverse"], ["left right", "right left", "left"]]
    (answers,) = read_answers(TASK, [HAND], [[TASK.write(HAND, row) for row in rows]], 3)
    assert answers.repeats.tolist() == [[False, True, False], [False, True, False]]


def test_5000_mutations_of_answers_are_read_as_a_person_would():
    """Each mutated text gives m entries, and each of them is a program that stands in the text."""
    rng = random.Random(0)
    signs = "<>/_ ,.\n\t0123456789abcdefgprogmstuvwxéΩ\u00a0\u2028\ud800\0"
    for _ in range(5_000):
        m = rng.randint(1, 9)
        text = list(TASK.write(HAND, rng.choices(PROGRAMS, k=m)))
        for _ in range(rng.randint(1, 12)):
            i = rng.randrange(len(text) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                text[i:i] = rng.choice(signs)
            elif kind == 1:
                del text[i : i + rng.randint(1, 5)]
            elif kind == 2:
                text[i : i + 1] = rng.choice(signs)
            else:
                j = rng.randrange(len(text) + 1)
                text[i:i] = text[min(i, j) : max(i, j)][:60]
        text = "".join(text)
        answers = TASK.parse(HAND, text, m)
        assert len(answers) == m
        spaced = " ".join(text.replace(",", " ").split())
        for i, answer in enumerate(answers, 1):
            if answer is None:
                continue
            assert 1 <= len(answer.split()) <= 3 and set(answer.split()) <= set(BY_TEXT)
            assert answer in spaced and f"<program_{i}>" in spaced and f"</program_{i}>" in spaced


# --- options --------------------------------------------------------------------------------------


def test_it_is_found_by_name_and_its_options_become_settings():
    assert task_class("programs") is ProgramsTask
    config = vpo.TrainConfig.preset("demo", task="programs", branches=2)
    assert config.task_options == {"branches": 2} and config.base_model == "pocket-programs"
    assert not config.single
    with pytest.raises(
        ValueError, match=r"branches = 2 with mode = 'single': .* leave out branches or mode$"
    ):
        ProgramsTask(mode="single", branches=2)
    for wrong in ({"branches": 4}, {"operations": 0}, {"operations": 4}, {"mode": "maze"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ProgramsTask(**wrong)
    with pytest.raises(ValueError, match="m = 6: this policy writes 1 to 5 answers"):
        vpo.TrainConfig.preset("demo", task="programs", m=6)
    with pytest.raises(ValueError, match="made for task 'maze', not for 'programs'"):
        vpo.TrainConfig.preset("demo", task="programs", model="pocket-6x6")


@pytest.mark.slow
def test_held_out_problems_are_none_of_those_that_a_policy_learns_from():
    seeds = TASK.seeds
    assert not set(seeds["held_out"]) & set(seeds["validation"])
    texts = {TASK.instance(s).text for s in seeds["held_out"][:300]}
    assert len(texts) == 300
    assert not texts & {TASK.instance(s).text for s in seeds["train"][:300]}


def test_one_problem_can_be_singled_out():
    one, many = ProgramsTask(problem=7), ProgramsTask()
    assert one.single and not many.single and one.numbered == "problem"
    assert one.instance(10_000) == one.instance(3) == many.instance(7) != many.instance(3)


def test_the_panel_shows_the_tests_by_their_numbers():
    tests = ProgramsTask().instance(0)
    first, *lines = ProgramsTask().summary(tests).splitlines()
    assert "many of these tests" in first and len(lines) == len(tests.inputs)
    assert lines[1] == f"test 2: {tests.inputs[1]} > {tests.outputs[1]}"
