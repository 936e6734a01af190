"""The numbers of the exercises of notebooks 06 and 07 against the library and the shipped runs."""

import itertools
from functools import cache

import numpy as np
import pytest
from recorded import chosen, replayed

import vpo_lite as vpo
from vpo_lite.search import best_of
from vpo_lite.tasks.programs import ProgramsTask
from vpo_lite.teaching import check
from vpo_lite.teaching.exercises import exercise
from vpo_lite.teaching.exercises.kinds import BLANK_BODY


def hint_of(key, answer):
    """The number of the slip that this answer is taken for; None where it gets no slip's hint."""
    text = check(key, answer).text
    found = [i for i, slip in enumerate(exercise(key).slips) if text.startswith(slip.hint)]
    return found[0] if found else None


def test_best_at_k_is_the_librarys():
    scores = np.random.default_rng(3).random(7)
    ours = [exercise("06-a").solution(scores, k) for k in range(1, 8)]
    assert np.allclose(ours, best_of.best_at(scores[:, None], [1.0]))


@pytest.mark.slow
def test_six_answers_are_two_rollouts_and_miscounting_gets_its_hint():
    runs = chosen("programs")
    whole, broken, single = (
        np.mean([run.last[figure] for run in runs[kind]], axis=0)
        for kind, figure in (("vpo", "rollouts"), ("vpo", "best"), ("grpo_x3", "best"))
    )
    assert check("06-b", whole[1] - single[5]).right
    wrong = (
        whole[5] - single[5],  # k counted in rollouts
        whole[1] - single[1],
        broken[5] - single[5],
        whole[2] - single[6],  # counted from 1
        single[5] - whole[1],
        whole[1],
    )
    assert [hint_of("06-b", float(answer)) for answer in wrong] == [*range(6)]


@cache
def recorded(name, label, seed):  # (192, 4): the answers of the last step
    groups = replayed(f"{name}/seed-{seed}").runs[label].record.groups
    return np.concatenate([group.rewards.reshape(-1, 4) for group in groups])


@pytest.mark.slow
def test_so_many_answers_of_grpo_find_what_one_of_vpo_does():
    def first(seed, weights, of_vpo=0):
        pools = recorded("three_methods", "vpo", seed), recorded("equal_answers", "grpo", seed)
        ours, grpo = (best_of.best_at(pool, weights) for pool in pools)
        return next(k for k, x in enumerate(grpo, 1) if x >= ours[of_vpo] - 1e-9)

    gold, diamonds = [0.25, 0.5, 0, 0.25], [0.25, 0, 0.5, 0.25]
    assert check("06-c", first(0, gold)).right
    wrong = first(0, gold) - 1, first(0, diamonds), first(1, gold), first(0, gold, of_vpo=-1)
    assert [hint_of("06-c", k) for k in wrong] == [*range(4)]


@pytest.mark.parametrize(
    ("program", "slip"),
    [
        ("?6 plus sort : sort", None),
        ("?5 plus sort : ?2 max plus : sort", None),  # all eight
        ("?5 sort : plus sort", 0),
        ("?9 plus sort : sort", 1),
        ("max plus", 1),
        ("?2 max plus : sort", 2),
        ("?7 plus sort : sort", 3),
        ("?1 sort : plus sort", 7),
    ],
)
def test_a_program_joined_by_hand_is_judged_by_the_tests_that_it_passes(program, slip):
    task = ProgramsTask(operations=2)
    row = task.score([task.instance(3)], [[program]])[0]
    assert check("07-a", row).right is (slip is None) and hint_of("07-a", row) == slip


@pytest.mark.slow
def test_only_rows_of_programs_are_right():
    """Every row of six or more ones, against the programs joined from two or three of the rules."""
    task, rules, digits = (
        ProgramsTask(operations=2),
        ("sort", "plus sort", "max plus"),
        range(1, 10),
    )
    two = [f"?{t} {a} : {b}" for t, a, b in itertools.product(digits, rules, rules)]
    three = [f"?{t} {a} : {b}" for t, a, b in itertools.product(digits, rules, two)]
    three += [f"?{t} {b} : {a}" for t, a, b in itertools.product(digits, rules, two)]
    found = {*map(tuple, task.score([task.instance(3)], [two + three])[0])}
    for row in itertools.product((0, 1), repeat=8):
        if sum(row) >= 6:
            assert check("07-a", row).right is (row in found), row
            assert row in found or hint_of("07-a", row) == 6


def test_any_front_that_is_worth_little_is_right():
    near = np.random.default_rng(0).random(6)[:, None] * [0.005, -0.005] + [0.9, 0.4]
    assert check("07-b", near).right and vpo.price_of_conflict(near)[1] > 0.98
    with_copies = np.vstack([near[:4], near[:4]])
    assert hint_of("07-b", with_copies) == 0


def test_half_of_the_groups_are_silent_there():
    p, rng = exercise("07-c").solution, np.random.default_rng(2)
    right = rng.random((4000, 16, 3, 1)) < p  # groups, rollouts, answers
    silent = (vpo.advantages("vpo", right.astype(float)) == 0).all(axis=1).mean()
    assert abs(silent - 0.5) < 0.03
    for slip, rollouts in ((0, 1), (1, 3)):  # one answer a rollout; all three must be right
        p = exercise("07-c").slips[slip].answer
        right = rng.random((4000, 16 * rollouts)) < p
        assert abs((right.all(axis=1) | ~right.any(axis=1)).mean() - 0.5) < 0.03


@pytest.mark.parametrize("p", [0.62, 0.64, 0.67, 0.68])
def test_what_was_read_off_a_picture_is_nearly_right(p):
    said = check("07-c", p)
    assert not said.right and said.text.startswith("Nearly: ")
    assert all(not check("07-c", far).text.startswith("Nearly") for far in (0.5, 0.6, 0.71, 0.96))


@pytest.mark.parametrize(
    ("second", "right"),
    [
        (lambda n: (n / 99) ** 2, True),
        (lambda n: n == 99, True),
        (lambda n: np.sqrt(n / 99), False),  # covers 0.81
        (lambda n: 1.0, False),
    ],
)
def test_a_reward_is_judged_by_what_the_best_single_number_covers(second, right):
    assert check("08-a", second).right is right


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_asked_for_one_number(value):
    said = check("08-a", lambda n: value).text
    assert said.endswith(" Return one number for each n. NaN and infinity do not count.")
    assert "array" not in said


def test_a_reward_without_a_body_is_blank():
    assert check("08-a", lambda n: None).text == BLANK_BODY
