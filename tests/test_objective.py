"""Weights, the sampled set reward and the winners against their definitions."""

import numpy as np
import pytest
from scipy import stats

import vpo_lite as vpo
from vpo_lite import objective
from vpo_lite.exact import exact_set_reward
from vpo_lite.objective import _dirichlet, nondominated, winners
from vpo_lite.randomness import generator


def rng(seed=0):
    return np.random.default_rng(seed)


# ---- winners ----


def test_winners_take_the_first_of_equals():
    R = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0.4, 0.4, 0.4], [0.1, 0.1, 0.1]])
    W = vpo.sample_weights(2**15, 3, rng=rng(), method="sobol")
    who = winners(R, W)
    assert who.shape == (2**15,) and (who == (W @ R.T).argmax(axis=1)).all()
    assert set(who.tolist()) == {0, 1, 3}


@pytest.mark.parametrize(
    "second, who", [(0.5e-12, 0), (1.5e-12, 0), (2.5e-12, 1), (1e-9, 1)], ids=str
)
def test_scores_within_a_millionth_of_a_millionth_of_the_largest_are_equal(second, who):
    """The largest that this set could have under these weights is 1 * 1 + 1 * 1."""
    assert winners([[1.0, 0.0], [1.0 + second, 0.0]], [[1.0, 1.0]]).tolist() == [who]


def test_winners_keep_the_leading_dimensions():
    R, W = rng().random((4, 5, 3, 2)), rng().dirichlet([1, 1], size=(4, 7))
    who = winners(R, W)
    assert who.shape == (4, 5, 7)
    assert who[2, 3, 6] == (R[2, 3] @ W[2, 6]).argmax()


@pytest.mark.parametrize("block", [objective.BLOCK, 1])  # 1: answer by answer
def test_nondominated_against_its_definition(block, monkeypatch):
    monkeypatch.setattr(objective, "BLOCK", block)
    R = rng().integers(0, 3, (200, 5, 3))
    for r, mask in zip(R, nondominated(R), strict=True):
        for i in range(5):
            worse = any(
                (r[j] >= r[i]).all() and ((r[j] > r[i]).any() or j < i) for j in range(5) if j != i
            )
            assert mask[i] != worse


# ---- the sampled set reward ----


def test_set_reward_is_the_plain_double_loop():
    R, W = rng().random((2, 3, 4, 5)), rng(1).dirichlet(np.ones(5), size=(2, 6))
    plain = [
        [np.mean([max(w @ r for r in R[p, g]) for w in W[p]]) for g in range(3)] for p in range(2)
    ]
    assert vpo.set_reward(R, W) == pytest.approx(np.array(plain), abs=1e-14)
    assert vpo.set_reward(R, W[0]).shape == (2, 3)  # one W for all
    unshared = np.stack([W, W, W], axis=1)  # (P, G, K, d)
    assert vpo.set_reward(R, unshared) == pytest.approx(np.array(plain), abs=1e-14)


@pytest.mark.parametrize("method, slope", [("iid", -0.5), ("sobol", -0.8)])
def test_the_noise_falls_at_the_monte_carlo_rate_and_faster_under_sobol(method, slope):
    R, budgets = np.eye(3), 2 ** np.arange(4, 13, 2)
    exact = exact_set_reward(R)

    def error(K, seed):
        W = vpo.sample_weights(K, 3, rng=rng(seed), method=method)
        return vpo.set_reward(R, W) - exact

    rms = [np.sqrt(np.mean([error(K, seed) ** 2 for seed in range(60)])) for K in budgets]
    measured = np.polyfit(np.log(budgets), np.log(rms), 1)[0]
    assert measured == pytest.approx(-0.5, abs=0.1) if method == "iid" else measured < slope


# ---- the weights ----


@pytest.mark.parametrize("method", ["iid", "sobol"])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("d", [2, 4])
def test_weights_have_the_dirichlet_moments_and_marginals(method, alpha, d):
    K = 2**15
    W = vpo.sample_weights(K, d, alpha, rng=rng(1), method=method)
    assert W.shape == (K, d) and W.dtype == np.float64 and (W >= 0).all()
    assert abs(W.sum(axis=1) - 1).max() < 1e-12
    variance = (d - 1) / d**2 / (d * alpha + 1)
    tolerance = 5 * np.sqrt(variance / K)  # five standard errors
    assert W.mean(axis=0) == pytest.approx(np.full(d, 1 / d), abs=tolerance)
    assert W.var(axis=0) == pytest.approx(np.full(d, variance), rel=0.05)
    assert np.cov(W.T)[0, 1] == pytest.approx(-variance / (d - 1), rel=0.06)
    for x in np.quantile(W[:, 0], [0.2, 0.5, 0.8]):
        if 1e-6 < x < 1 - 1e-6:  # at small alpha most of the mass sits at the ends
            assert (W[:, 0] <= x).mean() == pytest.approx(
                stats.beta(alpha, (d - 1) * alpha).cdf(x), abs=0.02
            )


@pytest.mark.parametrize("method", ["iid", "sobol"])
def test_at_small_alpha_only_a_few_weights_lie_between_the_corners(method):
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
        (lambda: vpo.set_reward(np.eye(3), np.ones((4, 2)) / 2), "W has shape (4, 2)"),
        (lambda: vpo.set_reward(np.eye(3), np.zeros((0, 3))), "K >= 1"),
        (
            lambda: vpo.set_reward(np.ones((2, 5, 3, 4)), np.ones((5, 8, 4))),
            "W has shape (5, 8, 4)",
        ),
        (lambda: vpo.set_reward(np.eye(2), [[np.nan, 1]]), "W holds 1 value"),
        (lambda: winners(np.eye(2), [0.5, 0.5]), "W has shape (2,)"),
        (
            lambda: vpo.set_reward(np.eye(2), [[1, 0], [0, -1]]),
            "the first -1 in row [1]: give weigh",
        ),
        (lambda: winners(np.eye(2), [[-1e-5, 1]]), "W holds 1 negative numbers, the first -1e-05"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 10.0])
def test_a_point_in_the_corner_of_the_cube_is_a_weight(alpha):
    """A Sobol point may have the coordinate 0, whose logarithm is no number."""
    assert _dirichlet(np.zeros((1, 3)), alpha) == pytest.approx(np.full((1, 3), 1 / 3))


def test_small_weights_keep_their_ratio_where_they_are_taken_from_logs():
    """Near 0 a Gamma variable grows as u^(1/alpha). At 0.1006 it is 1e-100."""
    u = np.array([[0.0995, 0.1000], [0.1002, 0.1010], [0.1010, 0.1015]])
    ratio = np.divide(*_dirichlet(u, 0.01).T)
    assert ratio == pytest.approx((u[:, 0] / u[:, 1]) ** 100, rel=1e-9)


def test_weights_that_rounding_put_below_zero_are_weights():
    R, W = np.eye(2), np.array([[1.0, 0.0], [0.25, 0.75]])
    nearly = W + [[1e-17, -1e-17], [0.0, 0.0]]
    assert vpo.set_reward(R, nearly) == pytest.approx(vpo.set_reward(R, W), abs=1e-15)
    assert (winners(R, nearly) == [0, 1]).all()
