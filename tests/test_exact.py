"""The exact set reward against closed forms, other integrators and what its definition promises."""

import tracemalloc
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
from vpo_lite import exact
from vpo_lite.exact import compared_set_rewards, exact_set_reward, exact_shares
from vpo_lite.objective import nondominated, winners


def rng(seed=0):
    return np.random.default_rng(seed)


def harmonic(d):
    return sum(1 / i for i in range(1, d + 1))


GOLDEN = [
    (np.eye(2), 3 / 4),
    (np.eye(3), 11 / 18),
    (np.eye(4), 25 / 48),
    (np.eye(6), harmonic(6) / 6),
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
    assert exact_set_reward(R) == pytest.approx(value, abs=1e-12)
    W = vpo.sample_weights(2**14, len(R[0]), rng=rng(), method="sobol")
    assert vpo.set_reward(R, W) == pytest.approx(value, abs=3e-4)


# ---- the exact value, computed another way ----


def volume_above(R):
    """E max at alpha = 1 from Qhull: the volume between the max and a ceiling over the simplex."""
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


SIZES = [(2, 5), (3, 2), (3, 6), (4, 3), (4, 12), (5, 4), (5, 5), (6, 4), (7, 3)]


@pytest.mark.parametrize("d, m", SIZES)
def test_splitting_agrees_with_the_volume_that_qhull_finds(d, m):
    for seed in range(5):
        R = rng(seed).random((m, d))
        value, error, method = exact_set_reward(R, full_output=True)
        assert method == ("beta" if d == 2 else "split") and error < 1e-11
        assert value == pytest.approx(volume_above(R), abs=1e-9)


@pytest.mark.parametrize("n, d", [(16, 4), (12, 4), (5, 5), (4, 6), (3, 7), (2, 11)])
def test_small_sets_of_pure_trade_offs_are_exact(n, d):
    """All answers lie on a sphere, so none dominates another and every one wins somewhere."""
    R = np.sqrt(rng(n).dirichlet(np.ones(d), size=(3, n)))
    found = exact_set_reward(R, full_output=True)
    assert found.method == "split" and (found.error < 1e-11).all()


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, 20.0])
def test_the_envelope_of_lines_agrees_with_numerical_integration(alpha):
    R = rng(3).random((5, 2))
    slope, start = R[:, 0] - R[:, 1], R[:, 1]
    breaks = [
        (start[j] - start[i]) / (slope[i] - slope[j]) for i in range(5) for j in range(5) if i != j
    ]
    ends = np.unique([0, 1, *[x for x in breaks if 0 < x < 1]])
    density = stats.beta(alpha, alpha).pdf

    def score(x):
        return max(x * r[0] + (1 - x) * r[1] for r in R) * density(x)

    pieces = [quad(score, low, high)[0] for low, high in pairwise(ends)]
    assert exact_set_reward(R, alpha) == pytest.approx(sum(pieces), abs=1e-7)


# ---- Sobol points where cutting would cost too much ----


def better_half(a, b, alpha):
    """E max(x, 1 - x) for x ~ Beta(a alpha, b alpha): two answers that split a + b objectives."""
    density = stats.beta(a * alpha, b * alpha).pdf
    halves = [(0, 0.5), (0.5, 1)]
    return sum(quad(lambda x: max(x, 1 - x) * density(x), *half)[0] for half in halves)


def split_objectives(a, b):
    return np.repeat(np.eye(2), [a, b], axis=1)


# Objectives with equal columns act as one whose weight is their sum: n of them under Dir(1/n) are
# one under Dir(1).
KNOWN = {
    "eye(8)": (np.eye(8), 1.0, harmonic(8) / 8),
    "eye(16)": (np.eye(16), 1.0, harmonic(16) / 16),
    "eye(32)": (np.eye(32), 1.0, harmonic(32) / 32),
    "8 + 8": (split_objectives(8, 8), 1.0, better_half(8, 8, 1.0)),
    "5 + 11": (split_objectives(5, 11), 1.0, better_half(5, 11, 1.0)),
    "2 + 2, alpha 3": (split_objectives(2, 2), 3.0, better_half(2, 2, 3.0)),
    "3 x 2, alpha 1/2": (np.repeat(np.eye(3), 2, axis=1), 1 / 2, 11 / 18),
    "4 x 4, alpha 1/4": (np.repeat(np.eye(4), 4, axis=1), 1 / 4, 25 / 48),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("points", [1024, 16_384, 65_536])
def test_the_stated_error_is_honest(name, points):
    R, alpha, truth = KNOWN[name]
    value, error, method = exact_set_reward(R, alpha, full_output=True, points=points)
    assert method == "sobol"
    assert 0 < error < 0.02 * np.sqrt(1024 / points)
    assert abs(value - truth) < 5 * error


@pytest.mark.slow
def test_the_stated_error_is_neither_too_small_nor_too_large_on_average():
    """Two answers that are worth p and q on objectives of their own: max(p x, q (1 - x))."""
    ratios = []
    for seed in range(200):
        a, b = rng(seed).integers(2, 5, size=2)
        p, q = rng(seed + 1).uniform(0.5, 2, size=2)
        R = np.array([[p], [q]]) * split_objectives(a, b)[:, rng(seed).permutation(a + b)]
        a, b, turn = 2 * a, 2 * b, q / (p + q)  # at alpha = 2, x ~ Beta(2 a, 2 b)
        truth = p * a / (a + b) * stats.beta(a + 1, b).sf(turn)  # E[x; x > turn] in closed form
        truth += q * b / (a + b) * stats.beta(a, b + 1).cdf(turn)
        value, error, _ = exact_set_reward(R, 2.0, full_output=True)
        ratios.append((value - truth) / error)
    assert 0.7 < np.sqrt(np.mean(np.square(ratios))) < 1.8  # 1.2 for t with 7 degrees of freedom
    assert np.max(np.abs(ratios)) < 6


def test_fewer_pieces_mean_more_points():
    """Three answers of d = 6 are cut into at most 300 simplices; 64 * 3 / 36 are not enough."""
    R = rng().random((3, 6))
    whole = exact_set_reward(R, full_output=True)
    some = exact_set_reward(R, full_output=True, pieces=64)
    assert (whole.method, some.method) == ("split", "sobol")
    assert 0 < abs(some.value - whole.value) < 5 * some.error
    assert exact_set_reward(R[:1], full_output=True, pieces=1).method == "split"
    front = np.eye(6)
    found = vpo.coverage(R, front, pieces=64)
    assert found == some.value / exact_set_reward(front) and found != vpo.coverage(R, front)
    for pieces in (0, 2**15 + 1, 1.5):
        with pytest.raises(ValueError, match=f"pieces = {pieces}"):
            exact_set_reward(R, pieces=pieces)


def test_the_error_over_points_is_the_standard_error_of_eight_scramblings():
    R = np.eye(4)[:3] + rng().random((3, 4)) / 9  # each answer is the best somewhere
    value, error, _ = exact_set_reward(R, 2.0, full_output=True, points=1024)
    weights = (vpo.sample_weights(128, 4, 2.0, rng=rng(i), method="sobol") for i in range(8))
    means = [vpo.set_reward(R - R.mean(axis=0), W) for W in weights]  # E[w . mean] is known
    assert value == pytest.approx(R.mean() + np.mean(means), abs=1e-12)
    assert error == pytest.approx(stats.sem(means), abs=1e-12)


@pytest.mark.slow
def test_points_come_with_an_honest_error_against_many_more():
    R = rng().random((20, 3, 4))
    value, error, method = exact_set_reward(R, alpha=2.0, full_output=True)
    assert "sobol" in method and (error < 2e-3).all()
    W = vpo.sample_weights(2**17, 4, 2.0, rng=rng(99), method="sobol")
    assert (abs(value - vpo.set_reward(R, W)) < 6 * error + 2e-5).all()
    one = R[:, :1]
    found = exact_set_reward(one, alpha=2.0, full_output=True)
    assert found.value == pytest.approx(one.mean(axis=(1, 2)), abs=1e-14)
    assert found.method == "split" and (found.error < 1e-12).all()
    assert exact_set_reward(np.eye(4), alpha=0.001, full_output=True).method == "iid"


def test_too_many_pieces_fall_back_to_points_and_say_so():
    R = rng().random((2, 6, 4))
    expected = exact_set_reward(R)
    R[1] = np.sort(R[1], axis=0)  # one answer dominates: no cut is needed
    expected[1] = R[1, -1].mean()
    value, error, method = exact_set_reward(R, full_output=True, pieces=16)  # one for each answer
    assert method == "split+sobol"
    assert value[1] == pytest.approx(expected[1], abs=1e-12) and error[1] < 1e-12
    assert abs(value[0] - expected[0]) < 6 * error[0] + 1e-5 and error[0] > 1e-9
    assert exact_set_reward(np.eye(16), full_output=True, pieces=16)[2] == "sobol"


def peak_megabytes(R):
    tracemalloc.start()
    exact_set_reward(R)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


@pytest.mark.slow
@pytest.mark.parametrize(
    "R",
    [
        rng().integers(0, 2, (128, 3, 16)).astype(float),
        rng().random((64, 12, 6)),
        rng().random((2000, 2, 20)),
        rng().random((1, 1500, 3)),
    ],
    ids=lambda R: str(R.shape),
)
def test_the_memory_of_a_call_is_bounded(R):
    assert peak_megabytes(R) < 100


@pytest.mark.slow
def test_the_kept_weights_are_bounded(monkeypatch):
    exact._weights.cache_clear()
    for d in (4, 5, 64):
        exact_set_reward(np.eye(d), 2.0)
    kept = exact._weights.cache_info()
    assert kept.currsize == 2 * exact.SCRAMBLINGS  # those for d = 64 are too large to keep
    assert kept.maxsize * exact.CACHED * 8 <= 2**25
    before = kept.misses
    exact_set_reward(np.eye(4), 2.0)
    assert exact._weights.cache_info().misses == before


# ---- sets in company ----


@pytest.mark.slow
def test_a_set_is_worth_the_same_alone_and_in_company():
    some = rng().random((500, 3, 4))
    counted = rng(1).integers(0, 2, (500, 3, 4))
    R = np.concatenate([some, counted, 1e6 * rng(2).random((24, 3, 4))])
    together = exact_set_reward(R)
    alone = np.array([exact_set_reward(r) for r in R])
    assert together == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert together.shape == (1024,)
    reshaped = exact_set_reward(R.reshape(4, 256, 3, 4))
    assert reshaped == pytest.approx(together.reshape(4, 256), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape, alpha", [((40, 4, 8), 1.0), ((40, 9, 6), 1.0), ((40, 4, 4), 0.5)])
def test_neither_value_nor_error_depends_on_the_other_sets(shape, alpha):
    """Some sets are cut and some are averaged over points, whoever is in the call."""
    R = rng(5).integers(0, 4, shape) / 4
    R[20:] = R[:20]  # every set twice
    value, error, method = exact_set_reward(R, alpha, full_output=True)
    assert method == "split+sobol"
    assert (error[:20] == error[20:]).all() and (value[:20] == value[20:]).all()
    for r, v, e, shares in zip(R[:20], value, error, exact_shares(R, alpha), strict=False):
        alone = exact_set_reward(r, alpha, full_output=True)
        assert alone.value == pytest.approx(v, abs=1e-14)
        assert alone.error == pytest.approx(e, abs=1e-14)
        assert exact_shares(r, alpha) == pytest.approx(shares, abs=1e-14)


def test_one_large_set_does_not_change_a_small_one():
    small = np.vstack([np.eye(4), np.zeros((36, 4))])
    large = np.sqrt(rng().dirichlet(np.ones(4), size=40))
    value, error, _ = exact_set_reward(np.stack([large, small]), full_output=True)
    assert value[1] == pytest.approx(25 / 48, abs=1e-12) and error[1] < 1e-11
    assert exact_shares(np.stack([large, small]))[1, :4] == pytest.approx([1 / 4] * 4, abs=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_answers_that_differ_by_rounding_only_count_once(d):
    base = rng().random(d)
    R = np.stack([base, base, base])
    R[1, 0], R[1, 1] = np.nextafter(R[1, 0], 2), np.nextafter(R[1, 1], -1)
    R[2, 1], R[2, 0] = np.nextafter(R[2, 1], 2), np.nextafter(R[2, 0], -1)
    assert nondominated(R).all()  # to the last bit they are three trade-offs
    assert exact_set_reward(R) == pytest.approx(base.mean(), abs=1e-12)
    assert exact_shares(R).tolist() == [1, 0, 0]


def test_small_and_large_rewards_keep_their_relative_precision():
    R = rng().random((3, 4))
    for factor in (1e-300, 1e-150, 1e-9, 1e9, 1e99):
        scaled = exact_set_reward(R * factor) / factor
        assert scaled == pytest.approx(exact_set_reward(R), rel=1e-12)
    assert exact_set_reward(np.eye(2) * 2.0**-1060) == 0.75 * 2.0**-1060  # a subnormal number


def test_alpha_one_survives_the_rounding_of_a_logarithmic_slider():
    assert exact_set_reward(np.eye(3), np.nextafter(1.0, 2), full_output=True).method == "split"


def test_an_empty_batch_gives_an_empty_result():
    for d in (2, 4):
        assert exact_set_reward(np.zeros((0, 3, d))).shape == (0,)
        assert exact_shares(np.zeros((0, 3, d))).shape == (0, 3)


def two_kinds(d, m, seed):
    """Two sets with the same best score for every w: one has an answer more, which never wins.

    It lies below a mean of the others, and none of them dominates it.
    """
    answers = rng(seed).random((m - 1, d))
    means = rng(seed + 1).dirichlet(np.ones(m - 1), size=1000) @ answers - 1e-3
    never_best = next(y for y in means if not (answers >= y).all(axis=1).any())
    return np.stack([np.vstack([answers, answers[:1]]), np.vstack([answers, never_best])])


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, m, alpha, used",
    [
        (4, 5, 1.0, {"split"}),
        (6, 5, 1.0, {"split", "split+sobol"}),
        (8, 5, 1.0, {"sobol"}),
        (4, 5, 2.0, {"sobol"}),
        (4, 5, 0.005, {"iid"}),
    ],
)
def test_a_group_is_computed_alike_so_equal_sets_are_equal(d, m, alpha, used):
    """An exact value beside one over points, and points around another middle, tell them apart."""
    found = set()
    for seed in range(12):
        sets = two_kinds(d, m, seed)[[0, 1, 0, 1]]
        alone = exact_set_reward(sets, alpha, full_output=True)
        U = compared_set_rewards(sets, alpha).value
        assert np.ptp(U) < 1e-14
        assert (abs(U - alone.value) < 6 * alone.error.max()).all()
        found.add(alone.method)
    assert found == used


def halves(d, G, seed):
    """G sets of two answers: one earns a random half of the objectives, one the other half. By
    symmetry all are worth the same.
    """
    R = np.zeros((G, 2, d))
    for i, r in enumerate(R):
        half = rng(100 * seed + i).permutation(d)[: d // 2]
        r[0, half] = r[1, np.setdiff1d(np.arange(d), half)] = 1
    return R


MIRRORED = np.array([[3, 1, 0, 0], [0, 2, 1, 0], [0, 0, 1, 3]]) / 3


@pytest.mark.parametrize(
    "sets, alpha",
    [*((halves(16, 8, seed), 1.0) for seed in range(5)), *((halves(6, 8, 0), a) for a in (0.3, 3))]
    + [([MIRRORED, MIRRORED[:, ::-1]], 0.3)],
)
def test_sets_that_are_equal_by_symmetry_have_no_advantages(sets, alpha):
    """The points see them differ by some 1e-4, and a z-score would blow that up to 1."""
    U, error, method = compared_set_rewards(sets, alpha)
    assert method == "sobol" and 1e-7 < np.ptp(U) and (np.ptp(U) < 4 * error.max())
    assert (vpo.advantages("vpo", [sets], alpha=alpha, eps=0) == 0).all()
    better = [*sets, np.minimum(np.array(sets[0]) + 0.01, 1.01)]  # by 1 %: that is no noise
    A = vpo.advantages("vpo", [better], alpha=alpha, eps=0)[0]
    assert A[-1] > 0.8 * len(sets) ** 0.5 and (A[:-1] < 0).all()


def test_the_error_of_compared_sets_is_that_of_their_differences():
    """Points that fall badly for all sets of a group move none of them against the others."""
    R = rng(5).random((6, 4, 8))
    R[1:] = R[0] + 1e-3 * R[1:]
    _, error, _ = compared_set_rewards(R, alpha=2.0)
    alone = exact_set_reward(R, 2.0, full_output=True).error
    assert (error < alone / 20).all() and (error > 0).all()
    weights = [vpo.sample_weights(2048, 8, 2.0, rng=rng(i), method="sobol") for i in range(8)]
    U = np.array([vpo.set_reward(R, W) for W in weights])
    apart = (U - U.mean(axis=1, keepdims=True)).std(axis=0, ddof=1) / 8**0.5
    assert error == pytest.approx(apart, rel=1e-6)


def test_a_group_over_points_is_the_mean_of_the_same_points():
    """Without a middle, the values differ from those by the same number for the whole group."""
    R = rng(2).random((7, 4, 5))
    R[3, 1:] = 0  # one answer is left, which alone would be exact
    weights = [vpo.sample_weights(2048, 5, 2.0, rng=rng(i), method="sobol") for i in range(8)]
    plain = vpo.set_reward(R, np.concatenate(weights))
    U = compared_set_rewards(R, alpha=2.0).value
    inside = np.delete(np.arange(7), 3)  # that one lies between bounds that are equal
    assert np.ptp((U - plain)[inside]) < 1e-14
    assert U[3] == pytest.approx(R[3, 0].mean(), abs=1e-14)


def test_groups_that_are_exact_keep_their_values_beside_others():
    """The second group is mixed, and the first is not: neither knows of the other."""
    exact_ones, mixed = rng(1).random((2, 5, 6)), two_kinds(6, 5, seed=6)
    exact_ones[:, 3:] = 0.0
    assert exact_set_reward(exact_ones, full_output=True).method == "split"
    assert exact_set_reward(mixed, full_output=True).method == "split+sobol"
    U = compared_set_rewards([exact_ones, mixed, 1e-200 * exact_ones]).value
    assert (U[0] == exact_set_reward(exact_ones)).all()
    assert (U[2] == exact_set_reward(1e-200 * exact_ones)).all()
    assert (U[1] == compared_set_rewards(mixed).value).all()
    assert compared_set_rewards(np.zeros((2, 0, 3, 4))).value.shape == (2, 0)


def test_the_unit_of_a_set_does_not_tell_it_from_its_group():
    sets = two_kinds(8, 5, seed=3)
    sets[1, 4, 0] = -1000.0  # the largest reward of the set is that of an answer that never wins
    U = compared_set_rewards(sets).value
    assert nondominated(sets[1]).all() and np.ptp(U) < 1e-12
    assert abs(U - exact_set_reward(sets[0])).max() < 0.01  # the middle lies far away


def test_a_group_is_computed_alike_though_it_is_worked_on_in_parts(monkeypatch):
    sets = two_kinds(6, 5, seed=6)[[0, 1, 0, 1]]
    monkeypatch.setattr(exact, "MEMORY", 1)  # each set is a part
    assert np.ptp(compared_set_rewards(sets).value) < 1e-14


def test_a_set_that_needs_points_spares_its_group_the_cutting(monkeypatch):
    cut = []
    clip = exact._clip
    monkeypatch.setattr(exact, "_clip", lambda V, *a: cut.append(len(a[-1])) or clip(V, *a))
    sets = np.repeat(two_kinds(6, 5, seed=6), [7, 1], axis=0)
    exact_set_reward(sets)
    alone, cut[:] = sum(cut), []
    compared_set_rewards(sets)
    assert sum(cut) < 0.8 * alone


# ---- win shares ----


def test_win_shares_match_counted_winners_and_go_to_the_first_of_equals():
    R = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0.4, 0.4, 0.4], [0.1, 0.1, 0.1]])
    W = vpo.sample_weights(2**15, 3, rng=rng(), method="sobol")
    shares = exact_shares(R)
    counted = np.bincount(winners(R, W), minlength=5) / len(W)
    assert shares == pytest.approx(counted, abs=1e-3)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert (shares[[2, 4]] == 0).all()
    assert exact_shares(np.eye(3)) == pytest.approx([1 / 3] * 3, abs=1e-12)  # by symmetry
    assert (exact_shares(R, alpha=0.5)[[2, 4]] == 0).all()
    assert exact_shares(np.eye(3), alpha=0.5) == pytest.approx([1 / 3] * 3, abs=2e-3)


def test_win_shares_over_points_add_up_to_one_even_where_answers_tie():
    shares = exact_shares(np.eye(16)[::-1])
    assert shares == pytest.approx([1 / 16] * 16, abs=8e-3)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    R = np.array([[1, 0.5, 0], [1, 0, 0.7]])  # at alpha = 0.001 a third of the weights is (1, 0, 0)
    shares = exact_shares(R, alpha=0.001)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert shares == pytest.approx([2 / 3, 1 / 3], abs=0.02)  # ties are won by the first
    both = exact_shares([R, R[::-1]], alpha=0.001)
    assert (both == [shares, exact_shares(R[::-1], alpha=0.001)]).all()


def test_win_shares_take_as_many_points_as_they_are_told():
    R, alpha = np.eye(20), 0.5
    few = exact_shares(R, alpha, points=16)
    whole = few * 16 * exact.SCRAMBLINGS  # each share is a number of points
    assert whole == pytest.approx(whole.round(), abs=1e-9)
    assert exact_shares(R, alpha) == pytest.approx([1 / 20] * 20, abs=0.01)
    with pytest.raises(ValueError, match="points = 17"):
        exact_shares(R, alpha, points=17)


# ---- properties ----

eighths = st.integers(0, 8).map(lambda x: x / 8)
rewards = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=eighths)
alphas = st.sampled_from([0.2, 1.0, 3.0])


def U(R, alpha=1.0):
    return float(exact_set_reward(R, alpha))


def slack(R, alpha):
    """What sampling may cost where there is no closed form: some ten standard errors."""
    return 1e-10 if alpha == 1 or R.shape[1] <= 2 else 4e-3


@pytest.mark.slow
@settings(max_examples=60)
@given(R=rewards, alpha=alphas, data=st.data())
def test_order_and_repetition_of_answers_do_not_matter(R, alpha, data):
    order = data.draw(st.permutations(range(len(R))))
    again = data.draw(st.integers(0, len(R) - 1))
    assert U(R[::-1], alpha) == pytest.approx(U(R, alpha), abs=1e-10)
    assert U(R[order], alpha) == pytest.approx(U(R, alpha), abs=1e-10)
    assert U(np.vstack([R, R[again]]), alpha) == pytest.approx(U(R, alpha), abs=1e-10)


@pytest.mark.slow
@settings(max_examples=60)
@given(R=rewards, alpha=alphas, data=st.data())
def test_one_more_answer_never_lowers_the_set_reward(R, alpha, data):
    new = data.draw(arrays(np.float64, (1, R.shape[1]), elements=eighths))
    assert U(np.vstack([R, new]), alpha) >= U(R, alpha) - slack(R, alpha)


@pytest.mark.slow
@settings(max_examples=60)
@given(R=rewards, alpha=alphas, data=st.data())
def test_the_names_of_the_objectives_do_not_matter(R, alpha, data):
    columns = data.draw(st.permutations(range(R.shape[1])))
    assert U(R[:, columns], alpha) == pytest.approx(U(R, alpha), abs=slack(R, alpha))


@pytest.mark.slow
@settings(max_examples=60)
@given(R=rewards, alpha=alphas, shift=st.integers(-4, 4), factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_shift_and_positive_factor_pass_through(R, alpha, shift, factor):
    moved = U(factor * R + shift, alpha)
    assert moved == pytest.approx(factor * U(R, alpha) + shift, abs=1e-9 * factor)


@settings(max_examples=60)
@given(R=rewards, alpha=alphas)
def test_between_the_best_single_answer_and_the_ideal_point(R, alpha):
    best_single, ideal = R.mean(axis=1).max(), R.max(axis=0).mean()
    assert best_single - 1e-10 <= U(R, alpha) <= ideal + 1e-10


@settings(max_examples=30)
@given(R=rewards)
def test_the_limits_of_alpha(R):
    corners, centre = R.max(axis=0).mean(), R.mean(axis=1).max()
    error = float(exact_set_reward(R, 1e-5, True).error)
    assert U(R, 1e-5) == pytest.approx(corners, abs=0.02 + 8 * error)
    assert U(R, 1e5) == pytest.approx(centre, abs=0.01)


# ---- errors ----


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: exact_set_reward([[1, np.nan]]), "R holds 1 value"),
        (lambda: exact_set_reward([[1, np.inf]]), "R holds 1 value"),
        (lambda: exact_set_reward([1, 0]), "R has shape (2,)"),
        (lambda: exact_set_reward(np.zeros((0, 3))), "R has shape (0, 3)"),
        (lambda: exact_set_reward(np.zeros((3, 0))), "R has shape (3, 0)"),
        (lambda: exact_set_reward([[1, 0], [1]]), "rows of equal length"),
        (lambda: exact_set_reward([["a", "b"]]), "array of numbers"),
        (lambda: exact_set_reward([[1, 0]], alpha=0), "alpha = 0"),
        (lambda: exact_set_reward(np.eye(3), points=1000), "points = 1000"),
        (lambda: exact_set_reward(np.eye(3), points=8), "points = 8"),
        (lambda: exact_set_reward(np.eye(3), points=64.0), "points = 64.0"),
        (lambda: exact_set_reward(np.eye(3), points=True), "points = True"),
        (lambda: exact_set_reward(np.eye(3), full_output="no"), "full_output = 'no': expected"),
        (lambda: exact_shares([1, 0]), "R has shape (2,)"),
        (lambda: compared_set_rewards([[1, 0]]), "R has shape (1, 2): expected (..., G, m, d)"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)
