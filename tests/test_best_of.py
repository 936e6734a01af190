"""Best-of-n against every subset there is, and the intervals against closed forms."""

import itertools

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from vpo_lite import intervals
from vpo_lite.metrics import best_at_k, pass_at_k, preferences
from vpo_lite.randomness import generator
from vpo_lite.search import best_of

RNG = np.random.default_rng(0)


def by_subsets(scores, k):
    """The mean of the best score over all subsets of k scores."""
    return np.mean([max(part) for part in itertools.combinations(scores, k)])


def test_best_at_is_the_mean_over_all_subsets():
    rewards, weights = RNG.random((7, 3)), RNG.dirichlet(np.ones(3), size=4)
    found = best_of.best_at(rewards, weights)
    assert found.shape == (4, 7)
    for w, row in zip(weights, found, strict=True):
        wanted = [by_subsets(rewards @ w, k) for k in range(1, 8)]
        np.testing.assert_allclose(row, wanted, atol=1e-12)
        np.testing.assert_allclose(row, [best_at_k(rewards @ w, k) for k in range(1, 8)])


def test_whole_rollouts_are_drawn_whole():
    rewards, w = RNG.random((5, 3, 2)), np.array([0.3, 0.7])
    best = (rewards @ w).max(axis=1)
    wanted = [by_subsets(best, r) for r in range(1, 6)]
    np.testing.assert_allclose(best_of.rollout_best_at(rewards, w), wanted, atol=1e-12)


def test_a_rollout_of_different_answers_gains_by_being_drawn_whole():
    """Rollouts that each hold one good answer: three answers of a rollout find it for sure."""
    rewards = np.zeros((10, 3, 1))
    rewards[:, 0] = 1.0
    assert best_of.rollout_best_at(rewards, [1.0])[0] == 1.0
    broken_up = best_of.best_at(rewards.reshape(30, 1), [1.0])[2]
    assert broken_up == pytest.approx(1 - (20 * 19 * 18) / (30 * 29 * 28))


def test_whole_rollouts_are_drawn_whole_under_each_preference():
    R, W = np.random.default_rng(0).random((4, 3, 2)), [[1, 0], [0.2, 0.8], [0, 1]]
    alone = [best_of.rollout_best_at(R, w) for w in W]
    np.testing.assert_allclose(best_of.rollout_best_at(R, W), alone)


def test_solved_at_is_pass_at_k():
    solved = np.array([True] * 4 + [False] * 8)
    wanted = [pass_at_k(12, 4, k) for k in range(1, 13)]
    np.testing.assert_allclose(best_of.solved_at(solved), wanted, atol=1e-12)


def test_choose_is_the_argmax_for_each_preference():
    rewards, weights = RNG.random((9, 4)), RNG.dirichlet(np.ones(4), size=(2, 5))
    found = best_of.choose(rewards, weights)
    assert found.shape == (2, 5)
    for i, j in np.ndindex(2, 5):
        assert all(rewards[found[i, j]] @ weights[i, j] >= r @ weights[i, j] for r in rewards)


def test_preferences_are_weights_that_no_run_shares():
    found = preferences(4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all() and (found == preferences(4)).all()
    key = ("held-out preferences", 0, 4)  # frozen: stored figures were measured under these
    assert (found == generator(0, *key).dirichlet(np.ones(4), size=50)).all()
    assert abs(found.mean(axis=0) - 0.25).max() < 0.1


def test_a_budget_of_tokens_buys_whole_answers():
    curve = np.arange(1.0, 6.0)
    found = best_of.at_tokens(curve, 4.0, [3, 4, 11, 20, 24])
    np.testing.assert_array_equal(found, [np.nan, 1, 2, 5, np.nan])


def test_the_tokens_of_k_answers_buy_k_answers():
    """Also where the quotient is rounded down: as 3 * 1.4 / 1.4 is."""
    tokens, k = RNG.uniform(0.1, 10, 500), np.arange(1, 101)
    bought = [best_of.at_tokens(k, t, k * t) for t in tokens]
    assert (np.array(bought) == k).all()


def test_budgets_are_spent_on_each_curve():
    """Of several policies, or preferences: rows of more than two entries each."""
    curves = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = best_of.at_tokens(curves, 2.0, [1, 2, 5, 6, 8])
    np.testing.assert_array_equal(found, [[np.nan, 1, 2, 3, np.nan], [np.nan, 4, 5, 6, np.nan]])


@pytest.mark.parametrize(
    "tokens", [0.0, -1.0, float("nan"), float("inf"), 1e-320, None, "x", [1, 2], [1], True]
)
def test_answers_cost_tokens(tokens):
    with pytest.raises(ValueError, match=r"^tokens_per_answer = [^\n]*: expected a number above 0"):
        best_of.at_tokens([1.0], tokens, [1])


def test_a_budget_of_any_size_is_spent(recwarn):
    budgets = [-1e100, -1.0, 0.0, 2.0, 1e19, 1e100]
    for tokens in (1.0, 1e-99):
        found = best_of.at_tokens([0.2, 0.5], tokens, budgets)
        np.testing.assert_array_equal(np.isnan(found), [1, 1, 1, tokens < 1, 1, 1])
    assert not recwarn


CURVES = [[], "ab", ["a"], None, 0.5, [float("nan"), 1.0], [1.0, float("inf")], [[1.0], [1.0, 2.0]]]


@pytest.mark.parametrize("curve", CURVES)
def test_what_is_no_curve_is_refused_in_one_line(curve):
    with pytest.raises(ValueError, match=r"^curve[^\n]*$"):
        best_of.at_tokens(curve, 1.0, [1])
    with pytest.raises(ValueError, match=r"^first[^\n]*$"):
        best_of.crossing(curve, [0.0, 0.0])
    with pytest.raises(ValueError, match=r"^second[^\n]*$"):
        best_of.crossing([0.0, 0.0], curve)


@pytest.mark.parametrize(
    "first, second", [([1, 2, 3], [0, 0]), ([1, 2, 3], [0]), ([[1, 2]], [[0, 0]])]
)
def test_curves_that_cross_are_two_and_equally_long(first, second):
    with pytest.raises(ValueError, match=r"^first has shape .*: expected two curves over the same"):
        best_of.crossing(first, second)


def test_curves_that_differ_by_rounding_do_not_cross():
    assert best_of.crossing([0.1 + 0.2, 0.5], [0.3, 0.4]) == 2
    assert best_of.crossing([0.1 + 0.2, 0.5], [0.3, 0.5]) is None
    assert best_of.crossing([0.5, 0.1 + 0.2 - 0.3], [0.4, 0.0]) is None  # of the largest value
    assert best_of.crossing([0, 1], [1e13, 0]) is None  # of both curves
    assert best_of.crossing([0.3 + 1e-11, 0.5], [0.3, 0.4]) == 1
    assert best_of.crossing([3e-20, 5e-20], [2e-20, 4e-20]) == 1  # however small
    assert best_of.crossing([0, 0], [0, 0]) is None


def test_the_crossing_is_the_last_one():
    assert best_of.crossing([1, 0, 2, 3], [0, 1, 1, 1]) == 3
    assert best_of.crossing([1, 1], [0, 0]) == 1
    assert best_of.crossing([1, 0], [0, 1]) is None
    assert best_of.crossing([1, 1], [1, 0]) == 2  # equal is not above
    assert best_of.crossing([0, 1], [0, 1]) is None


@pytest.mark.parametrize(
    ("rewards", "weights"),
    [
        ([[1, 0]], [1.0]),
        ([1.0, 0.0], [1.0, 0.0]),
        ([[1, 0]], [[1, 0, 0]]),
        ([[1, 0]], 1.0),
        ([[[1, 0], [0, 1]]], [1.0, 0.0]),  # rollouts: their answers are no pool
    ],
)
def test_shapes_that_do_not_fit_are_named(rewards, weights):
    with pytest.raises(ValueError, match="shape"):
        best_of.best_at(rewards, weights)


def test_a_pool_has_no_rollouts_to_draw_whole():
    with pytest.raises(ValueError, match=r"has shape \(3, 2\): expected rollouts \(G, m, d\)"):
        best_of.rollout_best_at(np.ones((3, 2)), [0.5, 0.5])


@pytest.mark.parametrize("ask", [best_of.choose, best_of.best_at, best_of.rollout_best_at])
def test_rewards_that_cannot_be_are_named_as_the_argument_is(ask):
    with pytest.raises(ValueError, match=r"^rewards has shape \(0, 2\): expected"):
        ask(np.empty((0, 2)), [1, 1])


def test_flags_of_several_problems_are_refused():
    with pytest.raises(ValueError, match=r"solved has shape \(1, 2\)"):
        best_of.solved_at([[True, False]])


# --- intervals ------------------------------------------------------------------------------------


def test_a_t_interval_of_one_source_is_students():
    values = RNG.normal(0, 1, 4)
    low, high = intervals.t_interval(values.mean(), [intervals.noise(values)])
    wanted = ttest_1samp(values, 0).confidence_interval(0.95)
    assert [low, high] == pytest.approx(list(wanted), rel=1e-9)


def test_two_sources_are_welch():
    first, second = RNG.normal(0, 1, 3), RNG.normal(1, 4, 6)
    sources = [intervals.noise(first), intervals.noise(second)]
    found = intervals.t_interval(first.mean() - second.mean(), sources)
    wanted = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert list(found) == pytest.approx(list(wanted), rel=1e-9)


@pytest.mark.parametrize("sizes", [(3, 6), (2, 2)])
def test_a_pooled_source_is_students_for_two_groups(sizes):
    """The classical t test with equal variances: one estimate for both means."""
    first, second = RNG.normal(0, 1, sizes[0]), RNG.normal(1, 1, sizes[1])
    source = intervals.pooled([first, second], *sizes)
    found = intervals.t_interval(first.mean() - second.mean(), [source])
    wanted = ttest_ind(first, second).confidence_interval(0.95)
    assert list(found) == pytest.approx(list(wanted), rel=1e-9)


def test_two_kinds_of_two_seeds_borrow_one_estimate():
    """Students' test again. Counted as two estimates, it would have four degrees, not two."""
    runs = RNG.normal(0, 1, (2, 2))
    found = intervals.t_interval(np.subtract(*runs.mean(1)), intervals.of_seeds(runs, runs))
    assert list(found) == pytest.approx(list(ttest_ind(*runs).confidence_interval(0.95)), rel=1e-9)
    mixed = [[0.0, 1.0, 2.0, 5.0], *runs]
    assert intervals.of_seeds(mixed[:2], mixed) == [intervals.pooled(mixed, 4, 2)]
    assert intervals.of_seeds([], mixed) == []


@pytest.mark.parametrize("seeds", [(3, 1), (3, 2), (5, 1)])
def test_a_kind_with_few_seeds_beside_one_with_more(seeds):
    """Student's test with one variance: 5 of 100 equal pairs differ. With the larger kind's own
    variance beside the pooled one, which is mostly the same, 7 to 9 did.
    """
    draws = np.random.default_rng(3).normal(size=(4000, sum(seeds)))
    wrong = 0
    for drawn in draws:
        kinds = np.split(drawn, seeds[:1])
        gap = kinds[0].mean() - kinds[1].mean()
        low, high = intervals.t_interval(gap, intervals.of_seeds(kinds, kinds))
        wrong += not low < 0 < high
    assert wrong / 4000 == pytest.approx(0.05, abs=0.01)


def test_what_knows_nothing_of_a_source_leaves_it_out():
    known, unknown = intervals.noise([1.0, 2.0]), intervals.noise([1.0])
    assert intervals.t_interval(1.5, [known, unknown]) == intervals.t_interval(1.5, [known])
    assert intervals.pooled([[1.0], [2.0]], 1) == unknown == intervals.total([]) == (0.0, 0)
    assert known == (0.25, 1)  # 0.5 / 2
    assert intervals.t_interval(0.25, [unknown]) == (-np.inf, np.inf)  # one run on one problem
    alike = [0.1] * 3, [0.3 - 0.2, 0.4 - 0.3, 0.7 - 0.6]  # the mean of each is rounded
    for values in alike:
        assert intervals.t_interval(0.25, [intervals.noise(values)]) == (0.25, 0.25)
    assert intervals.pooled(alike, 1) == (0.0, 4)
    assert intervals.noise([1e6 * (0.1 + 0.2), 1e6 * 0.3]).variance == 0
    assert intervals.noise([1, 1 + 1e-10]).variance > 0


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(3, 5), (5, 5), (3, 3)])
def test_of_two_methods_that_are_alike_one_in_twenty_is_called_different(seeds):
    """Chance of seeds, of problems, and of both together; problems are shared by the methods. A
    bootstrap over so few seeds calls more of them different: STUDY.md has both figures."""
    rng, wrong, trials, n = np.random.default_rng(7), 0, 800, 100
    draws, narrow = np.random.default_rng(1), 0

    def drawn(count):  # how often each of so many is drawn, as fractions: (200, count)
        return draws.multinomial(count, np.full(count, 1 / count), size=200) / count

    for _ in range(trials):
        hard = rng.normal(0, 0.2, n)  # the same for both methods
        runs = [
            hard
            + rng.normal(0, 0.02, (s, 1))
            + rng.normal(0, 0.05, n)
            + rng.normal(0, 0.05, (s, n))
            for s in seeds
        ]
        gaps = runs[0].mean(axis=0) - runs[1].mean(axis=0)
        sources = [intervals.noise(gaps), *(intervals.noise(run.mean(axis=1)) for run in runs)]
        low, high = intervals.t_interval(gaps.mean(), sources)
        wrong += low > 0 or high < 0
        problems = drawn(n)
        ends = [np.sum(drawn(len(run)) @ run * problems, axis=1) for run in runs]
        low, high = np.percentile(ends[0] - ends[1], [2.5, 97.5])
        narrow += low > 0 or high < 0
    assert 0.03 < wrong / trials < 0.07
    assert 0.07 < narrow / trials < 0.13


def test_the_sign_test_leaves_ties_out():
    first, second = np.array([1.0, 1, 1, 0, 5, 5]), np.array([0.0, 0, 0, 1, 5, 5])
    wanted = 2 * (1 + 4) / 2**4  # 3 wins of 4: both tails
    assert intervals.sign_test(first, second) == pytest.approx(wanted)
    assert intervals.sign_test([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert intervals.sign_test([0.1 + 0.2] * 5, [0.3] * 5) == 1.0  # sums of one value in two orders
    with pytest.raises(ValueError, match="shapes"):
        intervals.sign_test([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="shape"):
        intervals.sign_test(1.0, 2.0)
