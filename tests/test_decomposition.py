"""The report on rewards says what follows from them: against hand-worked vectors, closed forms, and
weights drawn here.
"""

import dataclasses
import itertools
import json
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from IPython.lib.pretty import pretty

import envs
import vpo_lite as vpo
from vpo_lite import files
from vpo_lite.cli import main
from vpo_lite.cli import report as report_command
from vpo_lite.decomposition import read_rewards, words
from vpo_lite.decomposition.measured import best_of_highest, correlations, effective_dimensions
from vpo_lite.markup import html
from vpo_lite.pages import write_rewards

COMPROMISE = np.array([[1, 0], [0, 1], [0.6, 0.6]])
LINE = np.linspace(0, 1, 11)
CONFLICT = np.stack([LINE, 1 - LINE], axis=-1)  # one line from (0, 1) to (1, 0)


def one_line(text):
    return " ".join(text.split())


def drawn_coverage(R, m, count=200_000):
    """Coverage of the best m answers by trying all subsets under weights drawn here."""
    W = np.random.default_rng(1).dirichlet(np.ones(R.shape[1]), count)
    scores = W @ R.T
    subsets = itertools.combinations(range(len(R)), min(m, len(R)))
    best = max(scores[:, list(subset)].max(axis=1).mean() for subset in subsets)
    return best / scores.max(axis=1).mean()


# --- hand-worked ----------------------------------------------------------------------------------


def test_three_answers_by_hand():
    """U(all) = 0.76, U(1 and 2) = 0.75; single answers are worth 0.5, 0.5, 0.6."""
    report = vpo.reward_report(COMPROMISE, w_star=[1, 0])
    assert report.coverage == pytest.approx({1: 0.6 / 0.76, 2: 0.75 / 0.76, 3: 1})
    assert report.average == pytest.approx((1.6 / 3) / 0.76)
    assert report.gain == pytest.approx(1 - 0.6 / 0.76)
    assert report.needs_a_set == pytest.approx((0.76 - 0.6) / (0.76 - 1.6 / 3))
    assert report.under_w_star == pytest.approx(0.5 / 0.76)  # w* takes (1, 0)
    assert vpo.reward_report(COMPROMISE).under_w_star == pytest.approx(0.6 / 0.76)
    assert (report.problems, report.answers, report.empty, report.front) == (1, 3, 0, 3)
    assert (report.lowest, report.highest) == (report.coverage[1],) * 2
    rho = np.corrcoef(COMPROMISE.T)[0, 1]
    assert report.rho_all == report.rho_valid == pytest.approx(rho) and rho < 0
    assert report.objectives == ("component 1", "component 2") and report.valid == 1


def test_the_average_answer_is_over_all_answers_repeats_too():
    report = vpo.reward_report([[1, 0], [1, 0], [1, 0], [0, 0.5]])
    whole = float(vpo.exact_set_reward([[1, 0], [0, 0.5]]))
    assert report.average == pytest.approx((3 * 0.5 + 0.25) / 4 / whole) and report.front == 2


def test_answers_that_tie_under_w_star_are_averaged():
    tied = vpo.reward_report([[1, 0], [0, 0.5]], w_star=[1, 2])  # worth 1/2 and 1/4 of 7/12
    assert tied.under_w_star == pytest.approx(3 / 8 / (7 / 12))
    assert tied.tied == 1 and "Here different answers tie: it does not choose" in one_line(
        str(tied)
    )
    rounded = vpo.reward_report([[0.3, 0], [0.1, 0.1]], w_star=[1, 2])  # 0.1 + 0.2 is more than 0.3
    assert rounded.tied == 1 and rounded.under_w_star < rounded.coverage[1]
    several = vpo.reward_report([[[1, 0], [0, 1], [1, 0]], [[1, 0], [0, 0.5]], [[1, 1], [1, 1]]])
    assert several.tied == 1 == several.to_json()["tied"]
    assert "On 1 problem of 3 different answers tie" in one_line(str(several))
    assert "answers tie" not in str(vpo.reward_report([[1, 0], [0, 0.5], [1, 0]]))


def test_components_that_say_the_same_beside_another_are_named():
    """From three prompts of one judge: each copy takes its share of the weights, which hides the
    conflict with brevity. Two copies alone are one quality, as the verdict says."""
    rng = np.random.default_rng(0)
    right = rng.random(200)
    copies = [right + rng.normal(0, 0.01, 200) for _ in range(2)]
    R = np.column_stack([right, *copies, 1.1 - right]).clip(0.01)
    named = dict(objectives=["judge", "again", "once more", "brief"])
    told = one_line(str(vpo.reward_report(R, **named)))
    pairs = "judge and again, judge and once more, again and once more"
    assert f"these components say the same: {pairs}. Under random weights each counts once" in told
    assert "among valid answers (from -1.00 to 0.999)" in told  # measured: -0.9997 and 0.9988
    assert "say the same:" not in str(vpo.reward_report(R[:, :3]))
    assert "say the same:" not in str(vpo.reward_report(rng.random((200, 3))))


@pytest.mark.parametrize("d", [2, 3, 4])
def test_specialists_have_the_closed_form(d):
    """U of the d unit vectors is H_d / d, that of one is 1 / d."""
    report = vpo.reward_report(np.eye(d))
    harmonic = sum(1 / i for i in range(1, d + 1))
    assert report.coverage[1] == pytest.approx(1 / harmonic)
    assert report.needs_a_set == pytest.approx(1)  # every answer is as good as the average
    if d > 2:
        assert report.rho_valid == pytest.approx(-1 / (d - 1))
        assert report.effective == pytest.approx(d - 1)  # a simplex in d - 1 dimensions


# --- against brute force --------------------------------------------------------------------------


@pytest.mark.slow
def test_many_objectives_are_covered_as_the_price_of_conflict_says():
    """The whole was valued over a quarter of the points: 0.981 stood here, and 0.980 there."""
    rng = np.random.default_rng(0)
    R, W = rng.random((2, 6, 8)), rng.dirichlet(np.ones(8), 200_000)
    covered = vpo.reward_report(R).coverage
    prices = [vpo.price_of_conflict(pool) for pool in R]
    for m in (1, 2, 3):
        assert covered[m] == pytest.approx(np.mean([price[m] for price in prices]), abs=1e-12)
        drawn = []
        for pool in R:
            scores = W @ pool.T
            sets = [list(chosen) for chosen in itertools.combinations(range(6), m)]
            best = max(scores[:, chosen].max(axis=1).mean() for chosen in sets)
            drawn.append(best / scores.max(axis=1).mean())
        assert covered[m] == pytest.approx(np.mean(drawn), abs=1e-3)


@pytest.mark.slow
def test_several_problems_of_different_d_against_drawn_weights():
    rng = np.random.default_rng(0)
    pools = [rng.random((n, d)) ** 2 for n, d in ((6, 2), (9, 3), (7, 4))]
    report = vpo.reward_report(pools)
    for m in (1, 2, 3):
        expected = np.mean([drawn_coverage(R, m) for R in pools])
        assert report.coverage[m] == pytest.approx(expected, abs=0.003)
    best = [drawn_coverage(R, 1) for R in pools]
    assert (report.lowest, report.highest) == pytest.approx((min(best), max(best)), abs=0.003)
    fronts = [sum(not any((b > a).all() for b in R) for a in R) for R in pools]  # no ties in these
    assert report.front == pytest.approx(np.mean(fronts))
    rho = [np.corrcoef(R.T)[np.triu_indices(R.shape[1], 1)].mean() for R in pools]
    assert report.rho_all == pytest.approx(np.mean(rho))
    assert (report.problems, report.answers, report.dimensions) == (3, 22, 3)
    assert report.objectives == () and report.correlations_all is None


def test_correlations_and_dimensions_are_those_of_numpy():
    rng = np.random.default_rng(0)
    X = rng.random((40, 5)) @ rng.random((5, 5))
    assert np.allclose(correlations(X), np.corrcoef(X.T))
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T))
    assert effective_dimensions(X) == pytest.approx(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())
    assert effective_dimensions(1e90 * X) == pytest.approx(effective_dimensions(X))
    assert np.allclose(correlations(1e-90 * X), np.corrcoef(X.T))
    assert abs(correlations(np.outer(rng.random(9), rng.random(99)))).max() == 1  # not 1 + 2e-16
    X[:, 2] = 0.3  # a component that never varies, but for rounding, correlates with nothing
    X[0, 2] = 0.1 + 0.2
    assert np.isnan(correlations(X)[2]).all() and np.isnan(correlations(X)[:, 2]).all()
    assert np.isnan(correlations(X[:2])).all() and np.isnan(effective_dimensions(X[:1]))
    assert np.isnan(effective_dimensions(np.where(np.eye(9, 3), 0.1 + 0.2, 0.3)))


def test_the_best_target_of_the_highest_scores_by_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, m = rng.integers(1, 7), rng.integers(1, 7)
        targets, scores = rng.random(n), rng.integers(1, 4, size=n).astype(float)
        subsets = list(itertools.combinations(range(n), min(m, n)))
        top = max(scores[list(s)].sum() for s in subsets)
        best = [targets[list(s)].max() for s in subsets if scores[list(s)].sum() == top]
        least = rng.choice([-np.inf, 0.6])
        for size in (1, 1e-15, 1e15):  # scores that differ by rounding tie, of whatever size
            rounded = size * (scores + 1e-14 * rng.random(n))
            found = best_of_highest(targets, rounded, m, least)
            assert found == pytest.approx(np.mean(np.maximum(best, least)))


# --- what is taken within a problem, and where rewards are measured from --------------------------


def test_easy_and_hard_problems_do_not_hide_a_conflict():
    """Over both problems together the components rise with each other; within each they do not."""
    problems = np.stack([CONFLICT, CONFLICT + 3])
    assert np.corrcoef(problems.reshape(-1, 2).T)[0, 1] > 0.8
    report = vpo.reward_report(problems)
    assert report.rho_all == pytest.approx(-1) and report.effective == pytest.approx(1)
    assert report.correlations_valid == pytest.approx(np.array([[1, -1], [-1, 1]]))


def test_worst_is_where_rewards_are_measured_from():
    report = vpo.reward_report(CONFLICT)
    for shift in (-1, 100):
        moved = vpo.reward_report(CONFLICT + shift, worst=[shift, shift])
        once = vpo.reward_report(CONFLICT + shift, worst=shift)  # one number for all
        assert str(once) == str(moved)
        assert moved.coverage == pytest.approx(report.coverage)
    far = vpo.reward_report(CONFLICT + 100)
    assert far.coverage[1] > 0.99 and far.needs_a_set == pytest.approx(report.needs_a_set)
    assert "go by 'needs a set'" in str(far) and "go by 'needs a set'" not in str(report)
    two = [CONFLICT, CONFLICT * [1, 0.1]]
    moved = vpo.reward_report([two[0] + 7, two[1] + 9], worst=[[7, 7], [9, 9]])
    assert moved.needs_a_set == pytest.approx(vpo.reward_report(two).needs_a_set)
    assert vpo.reward_report(np.add(two, 9)).needs_a_set == pytest.approx(moved.needs_a_set)


def test_only_valid_answers_count_for_the_second_correlation():
    R = np.concatenate([CONFLICT, np.zeros((30, 2))])
    valid = np.arange(len(R)) < 11
    for report in (vpo.reward_report(R), vpo.reward_report(R, valid)):
        assert report.valid == pytest.approx(11 / 41)
        assert report.rho_all == pytest.approx(np.corrcoef(R.T)[0, 1]) and report.rho_all > 0
        assert report.rho_valid == pytest.approx(-1) and report.effective == pytest.approx(1)
        assert effective_dimensions(R) > 1.2  # failures add a direction
        few = "are valid" if report.valid_given else "earned anything"
        assert f"only 27 % of the answers {few}" in " ".join(str(report).split())
        assert ("Trust the first number" in str(report)) == report.valid_given
    unsaid, cure = "answers without any reward count as invalid", "give `valid` to"
    blind = vpo.reward_report(R)
    assert all(said in " ".join(str(blind).split()) for said in (unsaid, cure))
    assert unsaid not in str(report) and "valid_cure" not in blind.to_json()
    nobody = dataclasses.replace(blind, valid_cure="")
    told = one_line(str(nobody))
    assert unsaid not in str(nobody) and "leaves out all answers without any reward" in told
    assert vpo.reward_report(R + 1, worst=[1, 1]).valid == pytest.approx(11 / 41)


def test_what_earned_nothing_is_not_taken_for_a_failure():
    """Two independent rewards of 0 and 1. Without (0, 0) they correlate by -0.5, exactly: of three
    equally likely vectors (0, 1), (1, 0), (1, 1) the covariance is -1/9 and each variance 2/9. So
    the report does not say that they pull against each other.
    """
    R = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25, float)
    report = vpo.reward_report(R)
    assert report.rho_all == pytest.approx(0, abs=1e-12)
    assert report.rho_valid == pytest.approx(-0.5)
    text = " ".join(str(report).split())
    assert "Trust neither" in text and "Trust the first" not in text
    everything = vpo.reward_report(R[1::2], np.ones(50))  # (0, 1) and (1, 1)
    assert "Trust" not in str(everything) and "Trust" not in str(vpo.reward_report(R + 1))
    low = vpo.reward_report([[1, 1], [2, 2], [3, 3], [0, 9], [0, 8]], [1, 1, 1, 0, 0])
    assert low.rho_all < 0 < low.rho_valid and "raise the second" not in str(low)
    assert "Trust the first number: failures count in the second." in " ".join(str(low).split())
    assert "75 % of them with some reward" in text
    assert vpo.reward_report(R, np.ones(100)).rho_valid == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_problems_without_any_reward_are_left_out():
    report = vpo.reward_report([COMPROMISE, np.zeros((5, 2))])
    assert report.empty == 1 and report.valid == pytest.approx(3 / 8)
    assert report.coverage == pytest.approx(vpo.reward_report(COMPROMISE).coverage)
    assert "1 problem left out" in str(report)
    nothing = vpo.reward_report(np.zeros((2, 5, 3)), target=np.ones((2, 5)))
    assert nothing.verdict.startswith("Nothing can be said yet")
    single = vpo.reward_report(np.random.default_rng(0).random((50, 1, 3)))  # covers all of itself
    assert single.verdict.startswith("Nothing can be said yet: one answer to each problem")
    assert nothing.coverage == {} and nothing.gain is nothing.needs_a_set is nothing.rho_all is None
    assert nothing.target is None and "2 problems left out" in str(nothing)
    with pytest.raises(ValueError, match="nothing to draw"):
        nothing.figure()
    half = vpo.reward_report([[[1, 0], [0, 2]], np.zeros((2, 2))])
    assert half.reached == {"component 1": 1, "component 2": 2}


def test_alpha_is_that_of_the_weights():
    """With weights in the corners only, U(all) = 1 and one compromise is worth 0.6."""
    report = vpo.reward_report(COMPROMISE, alpha=1e-6)
    assert report.coverage[1] == pytest.approx(0.6, abs=1e-4)
    assert "alpha = 1e-06" in str(report) and "alpha" not in str(vpo.reward_report(COMPROMISE))
    alike = vpo.reward_report(COMPROMISE, alpha=100)  # the compromise is then one of the best two
    assert alike.coverage[2] > 0.99 and float(vpo.exact_set_reward(np.eye(2), 100)) < 0.55


# --- the target -----------------------------------------------------------------------------------


def test_a_target_follows_where_its_gain_is_beyond_two_standard_errors():
    rng = np.random.default_rng(0)
    R, targets = rng.random((6, 8, 2)), rng.random((6, 8))
    found = vpo.reward_report(R, target=targets).target
    each = [vpo.reward_report(R[p], target=targets[p]).target for p in range(6)]
    gains = [one.spread[3] - (one.alone | {"w*·r": one.highest[3]})[found.rival] for one in each]
    assert found.reached == max(found.highest[3], *found.alone.values())
    assert found.gain == pytest.approx(np.mean(gains))
    assert found.error == pytest.approx(np.std(gains, ddof=1) / 6**0.5)
    for errors, follows in ((1.9, False), (2.1, True)):
        assert dataclasses.replace(found, gain=errors * found.error).follows is follows


def wishes(count=30, compromise=0.34):
    """Three specialists and a compromise; each problem asks for one of the three objectives."""
    R = np.concatenate([np.eye(3), np.full((1, 3), compromise)])
    targets = np.stack([R[:, i % 3] for i in range(count)])
    return np.tile(R, (count, 1, 1)), targets


@pytest.mark.slow
def test_a_target_that_asks_for_the_components_follows():
    """Three specialists hold what any problem asks for, two of them 2/3 of it. The three highest in
    w* . r are the compromise and two of them: they miss it once in three times, 2/3 + 0.34/3.
    """
    R, target = wishes()
    report = vpo.reward_report(R, target=target)
    # two specialists: E max(w1, w2) = 1/2; one and the compromise: 0.34 + 0.66^3 / 3 = 0.436
    assert report.target.spread == pytest.approx({1: 0.34, 2: 2 / 3, 3: 1})
    assert report.target.highest[3] == pytest.approx((2 + 0.34) / 3)
    assert report.target.best == 1 and report.target.gain == pytest.approx((1 - 0.34) / 3)
    assert report.target.follows
    assert "The target gains, too" in one_line(report.verdict)
    # of 4 answers one has target 1, one 0.34, two 0; three are drawn: 3/4 hold the 1
    assert report.target.random[3] == pytest.approx(3 / 4 + 0.34 / 4)


@pytest.mark.slow
def test_a_target_that_is_noise_does_not_follow():
    rng = np.random.default_rng(0)
    R, target = rng.random((200, 12, 3)), rng.random((200, 12))
    found = vpo.reward_report(R, target=target).target
    assert not found.follows and abs(found.gain) < 4 * found.error
    for reached in (found.spread, found.highest, found.random):  # E max of m uniform numbers
        assert list(reached.values()) == pytest.approx([1 / 2, 2 / 3, 3 / 4], abs=0.06)
    assert abs(found.rho) < 0.06 and all(abs(rho) < 0.06 for rho in found.components.values())


def test_equal_reward_vectors_count_with_their_mean_target():
    R = [[1, 0], [1, 0], [0, 1]]
    found = vpo.reward_report(R, target=[0.0, 0.8, 0.1]).target
    assert found.best == pytest.approx(0.4) and found.spread[3] == pytest.approx(0.4)
    assert found.random[3] == pytest.approx(0.4)


def test_slots_that_nothing_covers_go_to_the_highest_score():
    """One answer dominates all, so it covers the weights alone; the others fill the set."""
    R, target = [[1, 1], [0.2, 0.2], [0.5, 0.5], [0.1, 0.1]], [0.1, 0.6, 0.3, 0.9]
    found = vpo.reward_report(R, target=target).target
    assert found.spread == found.highest == pytest.approx({1: 0.1, 2: 0.3, 3: 0.6})


def test_the_target_is_correlated_among_valid_answers():
    R = np.concatenate([CONFLICT, np.zeros((30, 2))])
    target = np.concatenate([LINE, np.full(30, 5.0)])  # what failed is liked most
    found = vpo.reward_report(R, target=target).target
    assert list(found.components.values()) == pytest.approx([1, -1])
    assert np.corrcoef(target, R[:, 0])[0, 1] < 0


def test_one_problem_cannot_tell_a_target_from_chance():
    R, target = wishes(1)
    found = vpo.reward_report(R[0], target=target[0])
    assert found.target.error is None and found.target.follows is None
    assert "cannot tell this from chance" in one_line(found.verdict)


def test_the_correlation_of_the_target_is_that_of_numpy():
    rng = np.random.default_rng(0)
    R, w = rng.random((20, 3)), np.array([0.5, 0.3, 0.2])
    target = R @ [1, 0, -1] + 0.1 * rng.random(20)
    found = vpo.reward_report(R, target=target, w_star=w, objectives=["a", "b", "c"]).target
    assert found.rho == pytest.approx(np.corrcoef(target, R @ w)[0, 1])
    for i, name in enumerate("abc"):
        assert found.components[name] == pytest.approx(np.corrcoef(target, R[:, i])[0, 1])
        assert found.alone[name] == pytest.approx(target[np.argsort(-R[:, i])[:3]].max())
    assert found.highest[3] == pytest.approx(target[np.argsort(-(R @ w))[:3]].max())


# --- words, figure, JSON --------------------------------------------------------------------------


def three_levels():
    """Coverages of the best answer: 2/3, about 0.91, and 1."""
    yield np.eye(2), "Much, as far"
    yield [[1, 0], [0, 1], [0.75, 0.75]], "Something, as far"
    yield [[0.5, 0.5], [1, 1]], "Hardly anything:"


def test_the_verdict_is_wrapped_for_a_screen_and_not_in_json():
    report = vpo.reward_report(np.eye(2))
    assert max(map(len, report.verdict.splitlines())) <= 100 < len(report.verdict)
    assert report.to_json()["verdict"] == one_line(report.verdict)


@pytest.mark.parametrize(("R", "beginning"), three_levels())
def test_the_verdict_has_three_levels(R, beginning):
    report = vpo.reward_report(R)
    assert report.verdict.startswith(beginning)
    assert f"covers {words.number(report.coverage[1])} of what" in one_line(report.verdict)
    assert ("can gain nothing over" in one_line(report.verdict)) == (report.coverage[1] == 1)


def test_the_text_fits_a_terminal_and_holds_the_numbers():
    rng = np.random.default_rng(0)
    R, names = rng.random((4, 9, 3)), ["cost", "speed", "safety"]
    text = str(vpo.reward_report(R, target=rng.random((4, 9)), objectives=names))
    assert max(map(len, text.splitlines())) <= 100
    for said in ("36 answers to 4 problems", "cost, speed, safety", "noise makes it larger"):
        assert said in " ".join(text.split())
    assert "no target was given" not in text and "no target was given" in str(vpo.reward_report(R))


def test_components_of_different_scale_are_named():
    """2,000 and 1 above (0, -1): whoever weighs the second 1000 to 1 still hears the first."""
    beware = "the components differ in scale: cost reaches 2,000 above a worthless answer, style 1."
    R = [[[1000, 0.0], [0, -1]], [[3000, 0], [0, 0]]]
    report = vpo.reward_report(R, worst=[0, -1], objectives=("cost", "style"))
    assert report.reached == {"cost": 2000, "style": 1} and beware in " ".join(str(report).split())
    assert report.verdict.startswith("Rescale first, since the components differ in scale: cost ")
    assert "As they are, hardly anything: the" in " ".join(report.verdict.split())
    assert report.to_json()["verdict"].startswith("Rescale first")  # who decides by it alone
    R = np.array(R) / [1000, 1]
    report = vpo.reward_report(R, worst=[0, -1], objectives=("cost", "style"))
    assert report.reached == {"cost": 2, "style": 1} and "differ in scale" not in str(report)
    assert vpo.reward_report([[[1.0]], [[1.0, 2]]]).reached == {}  # d differs


def test_a_component_that_tells_no_valid_answers_apart_is_named():
    """A constant judge, also where a failed answer earns nothing; but not one that never pays."""
    fair = np.array([[0.2, 0.9, 0.5], [0.9, 0.1, 0.5], [0.4, 0.4, 0.5], [0.0, 0.0, 0.0]])
    names = ("correct", "brief", "judge")
    said = one_line(str(vpo.reward_report([fair, fair], objectives=names)))
    assert "all valid answers to a problem earn the same in judge: this does not" in said
    for other in (fair * [1, 1, 0], np.vstack([fair, [0.1, 0.1, 0.7]])):
        said = one_line(str(vpo.reward_report([other], objectives=names)))
        assert "earn the same" not in said
    of_one_problem = [fair, np.vstack([fair, [0.1, 0.1, 0.7]])]
    assert "earn the same" not in one_line(str(vpo.reward_report(of_one_problem, objectives=names)))


def test_json_holds_every_figure_and_no_nan():
    R = np.array([[1, 0, 1], [0, 1, 1], [0.6, 0.6, 1]])
    report = vpo.reward_report(np.stack([R, R]), target=np.ones((2, 3)))
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    fields = {f.name for f in dataclasses.fields(report)} - {"valid_cure"}  # words, no figure
    assert set(found) == fields | {"gain", "verdict"}
    assert found["coverage"]["1"] == report.coverage[1] and found["target"]["follows"] is False
    assert found["correlations_all"][2] == [None, None, None]


def test_the_figure_shows_the_numbers():
    R = np.concatenate([CONFLICT, np.zeros((4, 2))])
    report = vpo.reward_report(R, objectives=["a", "b"])
    bars, everyone, valid = report.figure().data
    assert list(bars.y) == [report.average, *report.coverage.values()]
    assert np.allclose(everyone.z, report.correlations_all)
    assert np.allclose(valid.z, report.correlations_valid) and list(valid.x) == ["a", "b"]
    different = vpo.reward_report([np.eye(2), np.eye(3)])
    assert len(different.figure().data) == 1  # no table where the components differ


def test_in_a_terminal_ipython_shows_the_words():
    report = vpo.reward_report(CONFLICT)
    assert pretty(report) == str(report) and repr(report).startswith("RewardReport(")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "<b>", "{} %s", "a & b"])
def test_pages_show_names_as_texts(name, tmp_path):
    report = vpo.reward_report(CONFLICT, objectives=[name, "other"])
    assert html("{}", name) in report._repr_html_()
    asked = dict(head=f"head {name}", more=[f"more {name}"], seen=[f"seen\n {name}"])
    page = write_rewards(report, tmp_path / "page.html", **asked).read_text(encoding="utf-8")
    for tag, said in (("p", f"head {name}"), ("p", f"more {name}"), ("pre", f"seen\n {name}")):
        assert f"<{tag}>{html('{}', said)}</{tag}>" in page
    assert name.count("<") == 0 or name not in page


def test_a_reward_below_worst_by_rounding_counts_as_worst():
    """An answer that earns the worst in all components is no valid one."""
    exact, rounded = (vpo.reward_report([[1, low], [low, 1], [low, low]]) for low in (0, -1e-17))
    assert rounded.to_json() == exact.to_json() and exact.valid == pytest.approx(2 / 3)


def test_progress_wraps_the_problems():
    seen = []
    vpo.reward_report(np.stack([np.eye(2)] * 3), progress=lambda x: seen.append(len(x)) or x)
    assert seen == [3]


WRONG = {
    "a text": (dict(R="rewards"), r"R = 'rewards': expected rewards \(n, d\)"),
    "one vector": (dict(R=[1, 2]), r"expected rewards \(n, d\)"),
    "four axes": (dict(R=np.zeros((2, 2, 2, 2))), r"\(P, n, d\) of rollouts: R\.reshape\(P, "),
    "no problem": (dict(R=np.zeros((0, 4, 2))), r"expected rewards \(n, d\)"),
    "no answer": (dict(R=[np.eye(2), np.zeros((0, 2))]), r"R\[1\] has shape \(0, 2\)"),
    "NaN": (dict(R=[[1, np.nan]]), "R holds 1 values that are NaN"),
    "below worst": (dict(R=[[1, -0.5]]), r"R holds a reward of -0.5, below worst: .*give worst"),
    "valid": (dict(R=np.eye(2), valid=[1, 1, 1]), r"valid has shape \(3,\): expected \(2,\)"),
    "valid 2": (dict(R=np.eye(2), valid=[1, 2]), "valid holds numbers other than 0 and 1"),
    "valid P": (dict(R=[np.eye(2)] * 3, valid=[[1, 1]]), "valid has 1 parts: expected 3, one for"),
    "valid one": (dict(R=[np.eye(2)] * 3, valid=True), "valid = True: expected 3 parts"),
    "target": (dict(R=np.eye(2), target=[1]), r"target has shape \(1,\): expected \(2,\)"),
    "w_star": (dict(R=np.eye(2), w_star=[1, 0, 0]), r"w_star has shape \(3,\): expected \(2,\)"),
    "w_star d": (dict(R=[np.eye(2), np.eye(3)], w_star=[1, 0]), r"w_star has shape \(2,\)"),
    "w_star 0": (dict(R=np.eye(2), w_star=[0, 0]), r"w_star = \[0.0, 0.0\] for R: expected at "),
    "worst": (dict(R=np.eye(2), worst="0"), "worst holds dtype"),
    "alpha": (dict(R=np.eye(2), alpha=0), "alpha = 0: expected one positive number"),
    "names": (dict(R=np.eye(2), objectives=["a"]), r"objectives = \['a'\]: expected 2 texts"),
    "a name": (dict(R=np.eye(2), objectives="ab"), "objectives = 'ab': expected 2 texts"),
    "twice": (dict(R=np.eye(2), objectives=["a", "a"]), "each name may stand there once"),
    "d differs": (dict(R=[np.eye(2), np.eye(3)], objectives=["a", "b"]), "differs from problem"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_in_one_line(case):
    arguments, said = WRONG[case]
    with pytest.raises(ValueError, match=said) as error:
        vpo.reward_report(**arguments)
    assert len(str(error.value).splitlines()) == 1


# --- on mazes, and as a command -------------------------------------------------------------------


@pytest.mark.slow
def test_exact_fronts_of_mazes_against_drawn_weights():
    fronts = [envs.generate("lite-6x6", seed).pareto_front().rewards for seed in range(6)]
    report = vpo.reward_report(fronts, objectives=envs.OBJECTIVES)
    for m in (1, 2, 3):
        expected = np.mean([drawn_coverage(front, m) for front in fronts])
        assert report.coverage[m] == pytest.approx(expected, abs=0.003)
        exact = np.mean([vpo.price_of_conflict(front)[m] for front in fronts])
        assert report.coverage[m] == pytest.approx(exact)
    assert report.front == pytest.approx(np.mean([len(np.unique(f, axis=0)) for f in fronts]))
    assert np.isnan(report.correlations_all[0]).all()  # every route of a front reaches E
    assert report.valid == 1


ASKED = ["report", "--problems", "4", "--answers", "20", "--device", "cpu", "--threads", "1"]


@pytest.mark.slow
def test_the_command_says_what_the_shipped_policys_answers_show(capsys):
    """The answers are sampled again, and scored by envs; weights are drawn."""
    from vpo_lite.policy.loading import load_policy
    from vpo_lite.tasks.maze import MazeTask
    from vpo_lite.training.evaluate import sample_pools

    assert main([*ASKED, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    config, task = vpo.TrainConfig.preset("demo", threads=1, device="cpu"), MazeTask()
    mazes = [envs.generate("lite-6x6", seed) for seed in range(4)]
    policy = load_policy("pocket-6x6", device="cpu")
    pools = list(sample_pools(policy, task, config, mazes, 20, 0))
    rewards = []
    for maze, pool in zip(mazes, pools, strict=True):
        routes = [route for row in pool.answers for route in row][:20]
        scored = envs.score_routes(maze, [route or "" for route in routes])
        rewards.append(np.where([[route is not None] for route in routes], scored, 0.0))
    assert found["answers"] == 80
    assert found["valid"] == pytest.approx(np.mean([R[:, 0] > 0 for R in rewards]))
    for m in (1, 2, 3):
        expected = np.mean([drawn_coverage(R[vpo.objective.nondominated(R)], m) for R in rewards])
        assert found["coverage"][str(m)] == pytest.approx(expected, abs=0.004)
    rho = []
    for R in rewards:
        valid = R[R[:, 0] > 0, 1:]
        valid = valid[:, valid.std(axis=0) > 0]
        table = np.corrcoef(valid.T)
        rho.append(np.mean(table[np.triu_indices(len(table), 1)]))
    assert found["rho_valid"] == pytest.approx(np.mean(rho))
    fronts = [maze.pareto_front().rewards for maze in mazes]
    expected = np.mean([drawn_coverage(front, 1) for front in fronts])
    assert found["true_front"]["coverage"]["1"] == pytest.approx(expected, abs=0.003)
    utility = [
        vpo.exact_set_reward(R) / vpo.exact_set_reward(f)
        for R, f in zip(rewards, fronts, strict=True)
    ]
    assert found["true_front"]["sampled"] == pytest.approx(np.mean(utility))


@pytest.mark.slow
def test_a_run_in_the_place_of_the_model_brings_its_task(capsys, tmp_path):
    """It was asked about mazes, whatever it had trained on."""
    run, few = str(tmp_path / "run"), ("--problems", "2", "--answers", "6", "--json")
    short = ("--steps", "1", "--prompts", "1", "--group-size", "2", "--eval-problems", "2")
    settings = ("--task", "programs", "--operations", "2", "--m", "2", "--threads", "1")
    assert main(["train", *settings, *short, "--eval-answers", "6", "--out", run, "--json"]) == 0

    def told(*asked):
        capsys.readouterr()
        assert main(["report", "--model", run, *asked, *few]) == 0
        return json.loads(capsys.readouterr().out)

    alone = told()
    assert alone["task"] == "programs"
    assert alone == told("--task", "programs", "--operations", "2", "--m", "2")
    assert alone != told("--m", "3") == told("--task", "programs", "--operations", "2")


@pytest.mark.slow
def test_a_run_whose_prompts_show_weights_is_asked_with_weights(capsys, tmp_path):
    run, few = str(tmp_path / "run"), "--maze-seed 1000 --steps 1 --prompts 1 --group-size 3"
    few = ["train", "--method", "goal_conditioned", *few.split(), "--eval-answers", "3"]
    assert main([*few, "--threads", "1", "--out", run, "--json"]) == 0
    capsys.readouterr()
    assert main(["report", "--model", run, "--answers", "4", "--show", "1"]) == 0
    request = capsys.readouterr().out.partition("The first request:")[2]
    assert re.match(r"\s+<m1> <b\d+>( <w\d+>){4} a1", request)


@pytest.mark.slow
def test_the_command_in_words_and_as_a_page(capsys, tmp_path):
    page = tmp_path / "rewards.html"
    assert main([*ASKED, "--maze-seed", "1000", "--html", str(page)]) == 0
    out = without_line_on_page(capsys.readouterr().out, page)
    assert "20 answers to each of 1 held-out problem, seed 0" in out
    assert "completion, gold, diamond, avoid_lava" in " ".join(out.split()) and "true front" in out
    text = page.read_text()
    assert "<h1>vpo_lite: report on rewards</h1>" in text and text.splitlines()[-2] == "</html>"
    assert " ".join(out.split()) in words_on(page)
    assert 'src="http' not in text.split("<script")[0]


def words_on(page):
    """The words of a page, in their order, without tags and scripts."""
    text = re.sub(r"(?s)<(style|script)[^>]*>.*?</\1>", " ", page.read_text(encoding="utf-8"))
    return " ".join(unescape(re.sub("<[^>]*>", " ", text)).split())


def without_line_on_page(out, page):
    said = f"\n\n{page}: open it in a browser; it needs no network\n"
    assert out.endswith(said)
    return out.removesuffix(said)


def stored(folder, R, kind):
    file = folder / f"R.{kind}"
    np.save(file, R) if kind == "npy" else file.write_text(json.dumps(np.asarray(R).tolist()))
    return str(file)


def test_rewards_that_were_read_do_not_change_with_their_file(tmp_path):
    np.save(tmp_path / "R.npy", np.ones((3, 2)))
    R = read_rewards(tmp_path / "R.npy")
    np.save(tmp_path / "R.npy", np.zeros((3, 2)))
    assert R.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_report_whose_page_cannot_be_written_is_printed_all_the_same(
    form, capsys, tmp_path, monkeypatch
):
    asked = ["report", "--rewards", stored(tmp_path, np.eye(2), "npy"), *form]
    assert main(asked) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(files.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert main([*asked, "--html", str(tmp_path / "page.html")]) == 1
    out, err = capsys.readouterr()
    assert out == whole and err.splitlines() == [
        f"vpo-lite: {tmp_path / 'page.html'}: cannot be written (full)"
    ]


@pytest.mark.parametrize("why", ["no folder", "read-only", "no plotly"])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_sampled(
    why, capsys, tmp_path, monkeypatch
):
    page = tmp_path / "page.html"
    if why == "no folder":
        page = tmp_path / "nowhere" / "page.html"
    elif why == "read-only":
        monkeypatch.setattr(files.os, "access", lambda *_: False)
    else:
        monkeypatch.delattr(vpo, "figures")  # it is loaded here, if it was not
        monkeypatch.setitem(sys.modules, "vpo_lite.figures", None)
    monkeypatch.setattr(report_command, "_of_a_task", None)  # fails if it is called
    assert main([*ASKED, "--html", str(page)]) == 2
    out, err = capsys.readouterr()
    wanted = "needs plotly" if why == "no plotly" else f"{page}: cannot be written"
    assert out == "" and len(err.splitlines()) == 1 and wanted in err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "json"])
def test_the_command_reads_rewards_from_a_file(kind, capsys, tmp_path):
    """Two specialists in two rollouts are worth E max(w, 1 - w) = 3/4 together and 1/2 each; of the
    other problem's answers the best is worth all."""
    R = [[[[1, 0], [0, 0]], [[0, 0], [0, 1]]], [[[1, 1], [0, 1]], [[0.5, 0], [0, 0]]]]
    file = stored(tmp_path, R, kind)
    assert main(["report", "--rewards", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rewards"], found["problems"], found["answers"]) == (file, 2, 8)
    assert found["coverage"]["1"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["coverage"]["2"] == found["coverage"]["3"] == pytest.approx(1)
    lower = stored(tmp_path, np.asarray(R) - [1, 2], kind)
    for worst in (["--worst", "-1", "-2"], ["--worst=-1,-2"]):
        assert main(["report", "--rewards", lower, *worst, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == found
    alike = stored(tmp_path, np.asarray(R) - 3, kind)
    assert main(["report", "--rewards", alike, "--worst=-3", "--json"]) == 0  # one for all
    assert json.loads(capsys.readouterr().out)["coverage"] == pytest.approx(found["coverage"])
    single = stored(tmp_path, np.asarray(R[0]).reshape(-1, 2) - 3, kind)  # (n, d)
    assert main(["report", "--rewards", single, "--worst=-3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coverage"]["1"] == pytest.approx(2 / 3)
    page = tmp_path / "page.html"
    one = stored(tmp_path, R[0], kind)  # (P, n, d): two problems of one answer that earns anything
    assert main(["report", "--rewards", one, "--alpha", "0.3", "--html", str(page)]) == 0
    out = without_line_on_page(capsys.readouterr().out, page)
    assert f"{one}: 4 answers to 2 problems." in out and " ".join(out.split()) in words_on(page)
    assert "(alpha = 0.3)" in out and out.count("Hardly anything") == 2


def test_problems_of_a_json_file_may_differ_in_all_sizes(tmp_path):
    (tmp_path / "R.json").write_text("[[[[1, 0]], [[0, 1], [0, 0]]], [[[1, 0, 0]]]]")
    assert read_rewards(tmp_path / "R.json") == [[[1, 0], [0, 1], [0, 0]], [[1, 0, 0]]]


HEADER, LARGER = b"(3, 4, 5, 2), }        ", b"(300000000, 4, 5, 2), }"
FILES = {  # name -> what it holds, and what is said
    "nan.npy": (lambda f: np.save(f, [[1, np.nan]]), "R holds 1 values that are NaN"),
    "nan.json": (lambda f: f.write_text("[[NaN, 1]]"), "R holds 1 values that are NaN"),
    "inf.json": (lambda f: f.write_text("[[1e999, 1]]"), "R holds 1 values that are NaN"),
    "huge.npy": (
        lambda f: np.save(f, np.full((3, 2, 2), 1e200)),
        "R[0] holds numbers up to 1e+200",
    ),
    "huge.json": (lambda f: f.write_text("[[1" + "0" * 400 + "]]"), "R holds whole numbers beyond"),
    "one.npy": (lambda f: np.save(f, np.ones(3)), "number of axes of R: 1; expected (n, d)"),
    "five.npy": (lambda f: np.save(f, np.ones((1, 1, 1, 1, 1))), "number of axes of R: 5;"),
    "none.npy": (lambda f: np.save(f, np.ones((0, 3))), "expected rewards (n, d)"),
    "noanswer.npy": (lambda f: np.save(f, np.ones((2, 0, 3, 2))), "at least one answer"),
    "complex.npy": (lambda f: np.save(f, np.ones((2, 2), complex)), "R holds dtype complex128"),
    "pickle.npy": (
        lambda f: np.save(f, np.array([[{}]], object), True),
        "no .npy file with numbers",
    ),
    "cut.npy": (
        lambda f: (np.save(f, np.ones((9, 2))), f.write_bytes(f.read_bytes()[:-5])),
        "no .npy file with numbers",
    ),
    "more.npy": (  # its header asks for 100 GB
        lambda f: (
            np.save(f, np.ones((3, 4, 5, 2))),
            f.write_bytes(f.read_bytes().replace(HEADER, LARGER)),
        ),
        "no .npy file with numbers (mmap length is greater than file size)",
    ),
    "json.npy": (
        lambda f: f.write_text("[[1, 2]]"),
        "no .npy file with numbers (it begins otherwise)",
    ),
    "empty.npy": (lambda f: f.touch(), "no .npy file with numbers (No data left in file)"),
    "folder.npy": (lambda f: f.mkdir(), "cannot be read (Is a directory)"),
    "zip.npy": (lambda f: (np.savez(f, R=1), Path(f"{f}.npz").rename(f)), "holds several arrays"),
    "gone.npy": (lambda f: None, "cannot be read (No such file or directory)"),
    "gone.json": (lambda f: None, "cannot be read (No such file or directory)"),
    "below.npy": (lambda f: np.save(f, [[-1, 0]]), "holds a reward of -1, below worst"),
    "dict.json": (lambda f: f.write_text('{"R": 1}'), "should be a valid array"),
    "text.json": (lambda f: f.write_text('[["a", "b"]]'), "R holds dtype <U1"),
    "null.json": (lambda f: f.write_text("[[null, 1]]"), "objects that are no real numbers"),
    "ragged.json": (lambda f: f.write_text("[[1, 0], [1]]"), "rows of equal length"),
    "uneven.json": (lambda f: f.write_text("[[[[1, 0]], 5]]"), "lists of unequal depth"),
    "deep.json": (lambda f: f.write_text("[" * 5000 + "]" * 5000), "no JSON (recursion limit"),
    "rewards.npz": (lambda f: np.savez(f, R=1), "a file FILE.npy or FILE.json"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_holds_no_rewards_is_one_line_with_status_2(name, capsys, tmp_path):
    make, said = FILES[name]
    make(file := tmp_path / name)
    assert main(["report", "--rewards", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and f"{file}: " in err and said in err


def test_rewards_far_from_0_are_told_to_make_a_high_coverage_say_little():
    """The same conflict, with 3 added to all rewards: VPO's z-scores are the same."""
    x = np.random.default_rng(0).random((4, 24, 1))
    R = np.concatenate([x, 1 - x], axis=-1)
    near, far = vpo.reward_report(R), vpo.reward_report(R + 3)
    assert near.coverage[1] < 0.85 < far.coverage[1] < 0.95
    said = "answer covers 0.94 already, so a high coverage says little"
    assert said in one_line(str(far)) and "says little" not in str(near)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--worst", "1"], "--worst: only with --rewards"),
        (["--rewards", "R.npy", "--worst=1,1,1"], "worst has shape (3,): expected (2,)"),
        (
            ["--rewards", "R.npy", "--worst", "1;1"],
            "worst = '1;1': expected numbers with commas between",
        ),
        (["--rewards", "R.npy", "--worst", "nan", "0"], "worst holds 1 values that are NaN"),
        (["--rewards", "R.npy", "--task", "hops", "--answers", "3"], "leave out answers, task"),
        (["--rewards", "R.npy", "--alpha", "0"], "vpo-lite: alpha = 0"),
        (["--rewards", "R.npy", "--html", "page.pdf"], "'page.pdf': the report is a page; name it"),
        (["--rewards", "R.npy", "--html", "."], "'.' is a folder; name a file in it"),
        (["--rewards", ""], "the name is empty"),
    ],
)
def test_a_wrong_request_with_a_file_is_one_line(wrong, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("R.npy", np.eye(2))
    assert main(["report", *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and said in err
    assert [p.name for p in tmp_path.iterdir()] == ["R.npy"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--answers", "0"], "answers = 0: must be 1 to 2,000"),
        (["--problems", "0"], "problems = 0: of the 9,000 held-out problems of task 'maze'"),
        (["--html", "page.pdf"], "the report is a page; name it FILE.html"),
        (["--html", "nowhere/page.html"], "cannot be written"),
        (["--task", "no_such"], "unknown task 'no_such'"),
        (["--model", "no/such/model"], "no/such/model"),
        (["--m", "9"], "this policy writes 1 to 5 answers in one rollout"),
        (["--lr", "1"], "unrecognized arguments: --lr 1 (see `vpo-lite report --help`)"),
        (["--task"], "see `vpo-lite report --help`"),
    ],
)
def test_a_wrong_request_is_one_line_with_status_2(wrong, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["report", "--problems", "1", "--answers", "3", "--device", "cpu"]
    assert main([*small, *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err.splitlines()[-1] and not list(tmp_path.iterdir())
