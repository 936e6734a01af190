"""Rewards on which VPO has nothing to offer: each control against closed forms and brute force."""

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.checks import MOST_OBJECTIVES
from vpo_lite.decomposition.report import FIXED
from vpo_lite.negative_controls import copies, gated, noisy_copies, random_style

P, N = 60, 30  # problems, and answers to each


@pytest.fixture
def quality():
    return np.random.default_rng(0).random((P, N))


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.mark.slow
def test_max_commutes_with_copies(quality, rng):
    """w . (q, ..., q) = q for every w, so VPO is set_max, with drawn weights and without."""
    R = copies(quality.reshape(P, 10, 3), 4)
    assert R.shape == (P, 10, 3, 4)
    fixed = vpo.advantages("set_max", R)
    assert np.allclose(vpo.advantages("vpo", R), fixed, atol=1e-9)
    W = np.stack([vpo.sample_weights(5, 4, rng=rng) for _ in range(P)])
    assert np.allclose(vpo.advantages("vpo", R, weights=W), fixed, atol=1e-9)
    assert np.allclose(vpo.set_reward(R, W), quality.reshape(P, 10, 3).max(axis=-1))
    report = vpo.reward_report(copies(quality, 4))
    assert report.coverage == pytest.approx({1: 1, 2: 1, 3: 1})
    assert report.front == 1 and report.rho_valid == pytest.approx(1)
    assert report.effective == pytest.approx(1)


def front_size(pool):
    """By comparing every two answers."""
    return sum(not ((pool >= a).all(1) & (pool > a).any(1)).any() for a in pool)


@pytest.mark.long
def test_the_front_grows_with_noise_while_one_answer_still_covers_it(quality, rng):
    fronts = []
    for noise in (0.0, 0.02, 0.05, 0.1, 0.2):
        R = noisy_copies(quality, 5, noise, rng)
        assert R.min() >= 0 and R.max() <= 1
        report = vpo.reward_report(R)
        distinct = [front_size(np.unique(pool, axis=0)) for pool in R]
        assert report.front == pytest.approx(np.mean(distinct))
        fronts.append(report.front)
        assert report.coverage[1] > 0.98 and report.verdict.startswith("Hardly anything")
        # Var q = 1/12; cutting off at 0 and 1 takes a little from the noise
        expected = (1 / 12) / (1 / 12 + noise**2)
        assert report.rho_valid == pytest.approx(expected, abs=0.03)
    assert fronts[0] == 1 and all(np.diff(fronts) > 0.5) and fronts[-1] > 5


@pytest.mark.slow
def test_a_made_up_style_passes_every_check_but_the_target(quality, rng):
    R = random_style(quality, 3, rng)
    assert (R[..., :3].sum(axis=-1) == 1).all() and np.array_equal(R[..., 3], quality)
    assert np.allclose(R[..., :3].mean(axis=(0, 1)), 1 / 3, atol=0.05)
    report = vpo.reward_report(R)
    # with quality 1: one answer is worth 2/4, all styles E max(w1, w2, w3) + 1/4 = 17/24
    assert report.coverage[1] == pytest.approx((1 / 2) / (17 / 24), abs=0.02)
    assert report.coverage[3] > 0.99 and report.rho_valid < 0 and report.effective > 2
    assert report.verdict.startswith("Much") and "no target was given" in str(report)
    asked = vpo.reward_report(R, target=quality)
    assert asked.target.follows is False and asked.target.gain == pytest.approx(0, abs=1e-9)
    said = " ".join(asked.verdict.split())
    assert "no target is gained, as far as these" in said
    same = f"as good as the best of the three highest in {FIXED}, {asked.target.reached:.3g} on"
    assert asked.target.error < 1e-9 and same in said and "standard error" not in said
    assert "adds nothing to the best of the others (w*·r)." in " ".join(str(asked).split())
    assert asked.target.highest[3] == pytest.approx(quality.max(axis=1).mean())
    rho = list(asked.target.components.values())
    assert rho[3] == pytest.approx(1) and np.allclose(rho[:3], 0, atol=0.08)


@pytest.mark.slow
def test_slots_are_spent_on_random_bits(quality, rng):
    """Three answers by quality alone hold the best there is; three that cover the bits do not."""
    R = np.concatenate([rng.integers(2, size=(*quality.shape, 3)), quality[..., None]], axis=-1)
    report = vpo.reward_report(R, target=quality)
    found, said = report.target, " ".join(report.verdict.split())
    assert said.endswith(f"The difference has a standard error of {found.error:.2g}.")
    best = quality.max(axis=1).mean()
    assert found.best == pytest.approx(best)
    assert found.rival == "component 4" and found.alone["component 4"] == pytest.approx(best)
    assert found.spread[3] < best - 0.005 and found.follows is False
    assert found.highest[3] < found.spread[3]  # w* spends even more on bits


@pytest.mark.long
@pytest.mark.parametrize("failures", [0.3, 0.5, 0.7])
def test_failures_alone_make_components_agree(failures):
    """Answers (q, 1 - q), a share of them 0: with v = 1 - failures, the covariance is
    v/6 - v^2/4 and the variance v/3 - v^2/4.
    """
    rng = np.random.default_rng(2)
    q = rng.random((40, 400))
    valid_only = np.stack([q, 1 - q], axis=-1)
    R = gated(valid_only, failures, rng)
    report = vpo.reward_report(R)
    v = 1 - failures
    expected = (v / 6 - v**2 / 4) / (v / 3 - v**2 / 4)
    assert report.rho_all == pytest.approx(expected, abs=0.02)
    assert report.rho_valid == pytest.approx(-1) and report.valid == pytest.approx(v, abs=0.02)
    assert (report.rho_all > 0) == (failures > 1 / 3)
    assert report.coverage[1] < 0.7  # the conflict is as it was


def test_draws_come_from_the_generator_alone(quality):
    def one(seed):
        rng = np.random.default_rng(seed)
        drawn = noisy_copies(quality, 2, 0.1, rng), random_style(quality, 2, rng)
        return *drawn, gated(copies(quality, 2), 0.5, rng)

    for again, same, other in zip(one(0), one(0), one(1), strict=True):
        assert np.array_equal(again, same) and not np.array_equal(again, other)


def test_the_ends_of_the_ranges_are_allowed(rng):
    ends = [0.0, 1.0]
    assert copies(ends, 2).tolist() == noisy_copies(ends, 2, 0, rng).tolist() == [[0, 0], [1, 1]]
    assert noisy_copies(ends, 2, 1, rng).shape == (2, 2)
    assert gated([ends], 0, rng).tolist() == [ends] and gated([ends], 1, rng).tolist() == [[0, 0]]
    assert random_style(ends, MOST_OBJECTIVES - 1, rng).shape == (2, MOST_OBJECTIVES)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda rng: copies([0.5, 1.5], 2),
            "numbers from 0.5 to 1.5: expected at least one number, all",
        ),
        (lambda rng: copies([0.5, -0.1], 2), "numbers from -0.1 to 0.5: expected at least one"),
        (lambda rng: copies([], 2), r"quality has shape \(0,\): expected at least one number"),
        (lambda rng: copies([0.5], 0), "d = 0: expected a whole number of at least 1"),
        (lambda rng: copies([0.5], MOST_OBJECTIVES + 1), f"at most {MOST_OBJECTIVES:,}"),
        (lambda rng: noisy_copies([0.5], 2, -1, rng), "noise = -1: expected a number from 0 to 1"),
        (lambda rng: noisy_copies([0.5], 2, 0.1, 0), "rng = 0: expected a numpy.random.Generator"),
        (lambda rng: noisy_copies([0.5], 2, 1.1, rng), "noise = 1.1: expected"),
        (lambda rng: random_style([0.5], 2.5, rng), "styles = 2.5"),
        (lambda rng: random_style([0.5], MOST_OBJECTIVES, rng), f"at most {MOST_OBJECTIVES - 1:,}"),
        (lambda rng: gated([[0.5]], 1.1, rng), "failures = 1.1: expected a share from 0 to 1"),
        (lambda rng: gated([[0.5]], -0.1, rng), "failures = -0.1: expected a share from 0 to 1"),
        (lambda rng: gated([[0.5]], 0.5, None), "rng = None: expected a numpy.random.Generator"),
    ],
)
def test_what_makes_no_rewards_is_refused(call, said, rng):
    with pytest.raises(ValueError, match=said):
        call(rng)
