"""The set reward against closed forms, other integrators and the properties that its definition promises."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.integrate import quad
from scipy.spatial import ConvexHull, HalfspaceIntersection

import vpo_lite as vpo
from vpo_lite import _exact
from vpo_lite.objective import exact_shares, nondominated, winners
from vpo_lite.randomness import generator


def rng(seed=0):
    return np.random.default_rng(seed)


GOLDEN = [
    (np.eye(2), 3 / 4),
    (np.eye(3), 11 / 18),
    (np.eye(4), 25 / 48),
    (np.eye(6), sum(1 / i for i in range(1, 7)) / 6),
    ([[1, 0], [0, 1], [0.6, 0.6]], 0.76),
    ([[0.2, 0.4, 0.9]], 0.5),
    ([[0.7]], 0.7),
    ([[0.7], [0.9]], 0.9),
    (np.eye(4)[:3], 11 / 24),  # three specialists of four lose to ...
    ([[0.5, 0.5, 0.5, 0.5]], 0.5),  # ... one flat answer
    (-np.eye(2), -1 / 4),  # E max(-w, -(1 - w)) = -E min
    (np.zeros((3, 4)), 0.0),
]


@pytest.mark.parametrize("R, value", GOLDEN)
def test_golden_values(R, value):
    assert vpo.exact_set_reward(R) == pytest.approx(value, abs=1e-12)
    W = vpo.sample_weights(2**14, len(R[0]), rng=rng(), method="sobol")
    assert vpo.set_reward(R, W) == pytest.approx(value, abs=3e-4)


# ---- the exact value, computed another way ----


def volume_above(R):
    """E max at alpha = 1 from Qhull: the volume between the graph of the max and a ceiling over the simplex."""
    m, d = R.shape
    ceiling = R.max() + 1
    corner = np.hstack([-np.eye(d - 1), np.zeros((d - 1, 2))])  # w_k >= 0
    full = np.hstack([np.ones(d - 1), 0, -1])  # the last weight is 1 - the others >= 0
    planes = np.hstack([R[:, :-1] - R[:, -1:], -np.ones((m, 1)), R[:, -1:]])  # z >= w . r_i
    top = np.hstack([np.zeros(d - 1), 1, -ceiling])
    inside = np.append(np.full(d - 1, 1 / d), ceiling - 0.5)
    body = HalfspaceIntersection(np.vstack([corner, full, planes, top]), inside)
    floor = 1 / np.prod(np.arange(1, d))  # the volume of the simplex in d - 1 coordinates
    return ceiling - ConvexHull(body.intersections).volume / floor


@pytest.mark.parametrize("d, m", [(2, 5), (3, 2), (3, 6), (4, 3), (4, 12), (5, 4)])
def test_splitting_agrees_with_the_volume_that_qhull_finds(d, m):
    for seed in range(5):
        R = rng(seed).random((m, d))
        value, error, method = vpo.exact_set_reward(R, full_output=True)
        assert method == ("beta" if d == 2 else "split") and error < 1e-11
        assert value == pytest.approx(volume_above(R), abs=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, 20.0])
def test_the_envelope_of_lines_agrees_with_numerical_integration(alpha):
    R = rng(3).random((5, 2))
    breaks = [(b[1] - a[1]) / (a[0] - a[1] - b[0] + b[1]) for a in R for b in R if a[0] - a[1] != b[0] - b[1]]
    ends = np.unique([0, 1, *[x for x in breaks if 0 < x < 1]])
    density = stats.beta(alpha, alpha).pdf
    pieces = [
        quad(lambda x: max(x * r[0] + (1 - x) * r[1] for r in R) * density(x), lo, hi)[0] for lo, hi in pairwise(ends)
    ]
    assert vpo.exact_set_reward(R, alpha) == pytest.approx(sum(pieces), abs=1e-7)


def test_elsewhere_sobol_points_come_with_an_honest_error():
    R = rng().random((20, 3, 4))
    value, error, method = vpo.exact_set_reward(R, alpha=2.0, full_output=True)
    assert method == "sobol" and (error < 2e-3).all()
    W = vpo.sample_weights(2**17, 4, 2.0, rng=rng(99), method="sobol")
    assert (abs(value - vpo.set_reward(R, W)) < 6 * error + 2e-5).all()
    one = R[:, :1]
    assert vpo.exact_set_reward(one, alpha=2.0) == pytest.approx(one.mean(axis=(1, 2)), abs=1e-14)
    assert vpo.exact_set_reward(R, alpha=0.001, full_output=True)[2] == "iid"


def test_too_many_pieces_fall_back_to_points_and_say_so(monkeypatch):
    R = rng().random((2, 6, 4))
    exact = vpo.exact_set_reward(R)
    R[1] = np.sort(R[1], axis=0)  # one answer dominates: no cut is needed
    exact[1] = R[1, -1].mean()
    monkeypatch.setattr(_exact, "MAX_PIECES", 5)
    value, error, method = vpo.exact_set_reward(R, full_output=True)
    assert method == "split+sobol"
    assert value[1] == pytest.approx(exact[1], abs=1e-12)
    assert abs(value[0] - exact[0]) < 6 * error[0] + 1e-5 and error[0] > 1e-9
    assert vpo.exact_set_reward(np.eye(16), full_output=True)[2] == "sobol"


def test_a_set_is_worth_the_same_alone_and_in_company():
    R = np.concatenate([rng().random((500, 3, 4)), rng(1).integers(0, 2, (500, 3, 4)), 1e6 * rng(2).random((24, 3, 4))])
    together = vpo.exact_set_reward(R)
    alone = np.array([vpo.exact_set_reward(r) for r in R])
    assert together == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert together.shape == (1024,)
    assert vpo.exact_set_reward(R.reshape(4, 256, 3, 4)) == pytest.approx(together.reshape(4, 256), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_answers_that_differ_by_rounding_only_count_once(d):
    base = rng().random(d)
    R = np.stack([base, base, base])
    R[1, 0], R[1, 1] = np.nextafter(R[1, 0], 2), np.nextafter(R[1, 1], -1)
    R[2, 1], R[2, 0] = np.nextafter(R[2, 1], 2), np.nextafter(R[2, 0], -1)
    assert nondominated(R).all()  # to the last bit they are three trade-offs
    assert vpo.exact_set_reward(R) == pytest.approx(base.mean(), abs=1e-12)
    assert exact_shares(R).tolist() == [1, 0, 0]


def test_small_and_large_rewards_keep_their_relative_precision():
    R = rng().random((3, 4))
    for factor in (1e-150, 1e-9, 1e9, 1e150):
        assert vpo.exact_set_reward(R * factor) / factor == pytest.approx(vpo.exact_set_reward(R), rel=1e-12)


def test_alpha_one_survives_the_rounding_of_a_logarithmic_slider():
    assert vpo.exact_set_reward(np.eye(3), alpha=np.nextafter(1.0, 2), full_output=True)[2] == "split"


def test_an_empty_batch_gives_an_empty_result():
    assert vpo.exact_set_reward(np.zeros((0, 3, 4))).shape == (0,)


# ---- winners and shares ----


def test_winners_take_the_first_of_equals_and_shares_match_them():
    R = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0.4, 0.4, 0.4], [0.1, 0.1, 0.1]])
    W = vpo.sample_weights(2**15, 3, rng=rng(), method="sobol")
    who = winners(R, W)
    assert who.shape == (2**15,) and (who == (W @ R.T).argmax(axis=1)).all()
    shares = exact_shares(R)
    assert shares == pytest.approx(np.bincount(who, minlength=5) / len(W), abs=1e-3)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert (shares[[2, 4]] == 0).all()
    assert exact_shares(np.eye(3)) == pytest.approx([1 / 3] * 3, abs=1e-12)  # by symmetry
    assert (exact_shares(R, alpha=0.5)[[2, 4]] == 0).all()
    assert exact_shares(np.eye(3), alpha=0.5) == pytest.approx([1 / 3] * 3, abs=2e-3)


def test_winners_keep_the_leading_dimensions():
    R, W = rng().random((4, 5, 3, 2)), rng().dirichlet([1, 1], size=(4, 7))
    who = winners(R, W)
    assert who.shape == (4, 5, 7)
    assert who[2, 3, 6] == (R[2, 3] @ W[2, 6]).argmax()


def test_nondominated_against_its_definition():
    R = rng().integers(0, 3, (200, 5, 3))
    for r, mask in zip(R, nondominated(R), strict=True):
        for i in range(5):
            worse = any((r[j] >= r[i]).all() and ((r[j] > r[i]).any() or j < i) for j in range(5) if j != i)
            assert mask[i] != worse


# ---- the Monte-Carlo set reward ----


def test_set_reward_is_the_plain_double_loop():
    R, W = rng().random((2, 3, 4, 5)), rng(1).dirichlet(np.ones(5), size=(2, 6))
    plain = [[np.mean([max(w @ r for r in R[p, g]) for w in W[p]]) for g in range(3)] for p in range(2)]
    assert vpo.set_reward(R, W) == pytest.approx(np.array(plain), abs=1e-14)
    assert vpo.set_reward(R, W[0]).shape == (2, 3)  # one W for all
    unshared = np.stack([W, W, W], axis=1)  # (P, G, K, d)
    assert vpo.set_reward(R, unshared) == pytest.approx(np.array(plain), abs=1e-14)


@pytest.mark.parametrize("method, slope", [("iid", -0.5), ("sobol", -0.8)])
def test_the_noise_falls_at_the_monte_carlo_rate_and_faster_under_sobol(method, slope):
    R, budgets = np.eye(3), 2 ** np.arange(4, 13, 2)
    exact = vpo.exact_set_reward(R)
    rms = [
        np.sqrt(np.mean([(vpo.set_reward(R, vpo.sample_weights(K, 3, rng=rng(s), method=method)) - exact) ** 2
                         for s in range(60)]))
        for K in budgets
    ]  # fmt: skip
    measured = np.polyfit(np.log(budgets), np.log(rms), 1)[0]
    assert measured == pytest.approx(-0.5, abs=0.1) if method == "iid" else measured < slope


# ---- the weightings ----


@pytest.mark.parametrize("method", ["iid", "sobol"])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("d", [2, 4])
def test_weights_have_the_dirichlet_moments_and_marginals(method, alpha, d):
    K = 2**15
    W = vpo.sample_weights(K, d, alpha, rng=rng(1), method=method)
    assert W.shape == (K, d) and W.dtype == np.float64 and (W >= 0).all()
    assert W.sum(axis=1) == pytest.approx(np.ones(K), abs=1e-12)
    variance = (d - 1) / d**2 / (d * alpha + 1)
    tolerance = 5 * np.sqrt(variance / K)  # five standard errors
    assert W.mean(axis=0) == pytest.approx(np.full(d, 1 / d), abs=tolerance)
    assert W.var(axis=0) == pytest.approx(np.full(d, variance), rel=0.05)
    assert np.cov(W.T)[0, 1] == pytest.approx(-variance / (d - 1), rel=0.06)
    for x in np.quantile(W[:, 0], [0.2, 0.5, 0.8]):
        if 1e-6 < x < 1 - 1e-6:  # at small alpha most of the mass sits at the ends
            assert (W[:, 0] <= x).mean() == pytest.approx(stats.beta(alpha, (d - 1) * alpha).cdf(x), abs=0.02)


@pytest.mark.parametrize("method", ["iid", "sobol"])
def test_at_small_alpha_only_a_few_weightings_lie_between_the_corners(method):
    W = vpo.sample_weights(2**16, 2, 0.01, rng=rng(2), method=method)
    between = np.diff(stats.beta(0.01, 0.01).cdf([0.1, 0.9]))[0]  # 2 %
    assert ((W[:, 0] > 0.1) & (W[:, 0] < 0.9)).mean() == pytest.approx(between, abs=0.003)


def test_sobol_takes_any_K_and_is_random_only_through_its_generator():
    W = vpo.sample_weights(100, 4, rng=rng(7), method="sobol")
    assert W.shape == (100, 4)
    assert (vpo.sample_weights(100, 4, rng=rng(7), method="sobol") == W).all()
    assert (vpo.sample_weights(100, 4, rng=rng(8), method="sobol") != W).any()
    assert (vpo.sample_weights(5, 1, rng=rng(), method="sobol") == 1).all()
    assert np.isfinite(vpo.sample_weights(2**16, 2, 0.01, rng=rng(), method="sobol")).all()


def test_sobol_works_with_the_keyed_generators_and_draws_anew_each_time():
    keyed = generator(0, "weights")
    first, second = (vpo.sample_weights(8, 3, rng=keyed, method="sobol") for _ in range(2))
    assert (first != second).any()
    assert (first == vpo.sample_weights(8, 3, rng=generator(0, "weights"), method="sobol")).all()


def test_extreme_alpha_stays_finite():
    for alpha in (1e-8, 1e-3, 1e6):
        W = vpo.sample_weights(200, 3, alpha, rng=rng())
        assert np.isfinite(W).all() and W.sum(axis=1) == pytest.approx(np.ones(200))
        assert np.isfinite(vpo.exact_set_reward(np.eye(3), alpha))
        assert np.isfinite(vpo.exact_set_reward(np.eye(2), alpha))


# ---- properties ----

eighths = st.integers(0, 8).map(lambda x: x / 8)
rewards = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=eighths)
alphas = st.sampled_from([0.2, 1.0, 3.0])


def U(R, alpha=1.0):
    return float(vpo.exact_set_reward(R, alpha))


def slack(R, alpha):
    """What sampling may cost where there is no closed form: some ten standard errors."""
    return 1e-10 if alpha == 1 or R.shape[1] <= 2 else 4e-3


@settings(max_examples=60, deadline=None)
@given(R=rewards, alpha=alphas, data=st.data())
def test_order_and_repetition_of_answers_do_not_matter(R, alpha, data):
    order = data.draw(st.permutations(range(len(R))))
    again = data.draw(st.integers(0, len(R) - 1))
    assert U(R[::-1], alpha) == pytest.approx(U(R, alpha), abs=1e-10)
    assert U(R[order], alpha) == pytest.approx(U(R, alpha), abs=1e-10)
    assert U(np.vstack([R, R[again]]), alpha) == pytest.approx(U(R, alpha), abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(R=rewards, alpha=alphas, data=st.data())
def test_one_more_answer_never_lowers_the_set_reward(R, alpha, data):
    new = data.draw(arrays(np.float64, (1, R.shape[1]), elements=eighths))
    assert U(np.vstack([R, new]), alpha) >= U(R, alpha) - slack(R, alpha)


@settings(max_examples=60, deadline=None)
@given(R=rewards, alpha=alphas, data=st.data())
def test_the_names_of_the_objectives_do_not_matter(R, alpha, data):
    columns = data.draw(st.permutations(range(R.shape[1])))
    assert U(R[:, columns], alpha) == pytest.approx(U(R, alpha), abs=slack(R, alpha))


@settings(max_examples=60, deadline=None)
@given(R=rewards, alpha=alphas, shift=st.integers(-4, 4), factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_shift_and_positive_factor_pass_through(R, alpha, shift, factor):
    assert U(factor * R + shift, alpha) == pytest.approx(factor * U(R, alpha) + shift, abs=1e-9 * factor)


@settings(max_examples=60, deadline=None)
@given(R=rewards, alpha=alphas)
def test_between_the_best_single_answer_and_the_ideal_point(R, alpha):
    assert R.mean(axis=1).max() - 1e-10 <= U(R, alpha) <= R.max(axis=0).mean() + 1e-10


@settings(max_examples=30, deadline=None)
@given(R=rewards)
def test_the_limits_of_alpha(R):
    corners, centre = R.max(axis=0).mean(), R.mean(axis=1).max()
    assert U(R, 1e-5) == pytest.approx(corners, abs=0.02 + 8 * float(vpo.exact_set_reward(R, 1e-5, True)[1]))
    assert U(R, 1e5) == pytest.approx(centre, abs=0.01)


# ---- errors ----


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: vpo.sample_weights(0, 3, rng=rng()), "K = 0"),
        (lambda: vpo.sample_weights(2.5, 3, rng=rng()), "K = 2.5"),
        (lambda: vpo.sample_weights(4, 0, rng=rng()), "d = 0"),
        (lambda: vpo.sample_weights(4, 3, 0.0, rng=rng()), "alpha = 0.0"),
        (lambda: vpo.sample_weights(4, 3, -1, rng=rng()), "alpha = -1"),
        (lambda: vpo.sample_weights(4, 3, np.nan, rng=rng()), "alpha = nan"),
        (lambda: vpo.sample_weights(4, 3, np.inf, rng=rng()), "alpha = inf"),
        (lambda: vpo.sample_weights(4, 3, [1, 2, 3], rng=rng()), "one positive number"),
        (lambda: vpo.sample_weights(4, 3, 0.005, rng=rng(), method="sobol"), "below 0.01"),
        (lambda: vpo.sample_weights(4, 3, rng=rng(), method="halton"), "halton"),
        (lambda: vpo.sample_weights(4, 3, rng=7), "rng = 7"),
        (lambda: vpo.exact_set_reward([[1, np.nan]]), "R holds 1 value"),
        (lambda: vpo.exact_set_reward([[1, np.inf]]), "R holds 1 value"),
        (lambda: vpo.exact_set_reward([1, 0]), "R has shape (2,)"),
        (lambda: vpo.exact_set_reward(np.zeros((0, 3))), "R has shape (0, 3)"),
        (lambda: vpo.exact_set_reward(np.zeros((3, 0))), "R has shape (3, 0)"),
        (lambda: vpo.exact_set_reward([[1, 0], [1]]), "rows of equal length"),
        (lambda: vpo.exact_set_reward([["a", "b"]]), "array of numbers"),
        (lambda: vpo.exact_set_reward([[1, 0]], alpha=0), "alpha = 0"),
        (lambda: vpo.set_reward(np.eye(3), np.ones((4, 2)) / 2), "W has shape (4, 2)"),
        (lambda: vpo.set_reward(np.eye(3), np.zeros((0, 3))), "K >= 1"),
        (lambda: vpo.set_reward(np.ones((2, 5, 3, 4)), np.ones((5, 8, 4))), "W has shape (5, 8, 4)"),
        (lambda: vpo.set_reward(np.eye(2), [[np.nan, 1]]), "W holds 1 value"),
        (lambda: winners(np.eye(2), [0.5, 0.5]), "W has shape (2,)"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)
