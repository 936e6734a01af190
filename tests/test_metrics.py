"""The metrics against brute force, other libraries' definitions and values worked by hand."""

import itertools
from itertools import combinations

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite import metrics
from vpo_lite.metrics import as_sets, front_share, price_of_conflict


def rng(seed=0):
    return np.random.default_rng(seed)


FRONT = np.array([[1, 0], [0.6, 0.6], [0, 1]])


# ---- best@k and pass@k ----


@pytest.mark.parametrize("n, k", [(n, k) for n in range(1, 8) for k in range(1, n + 1)])
def test_best_at_k_is_the_mean_over_all_subsets_and_not_over_prefixes(n, k):
    for scores in (rng(n).random(n), rng(n).integers(0, 2, n)):
        subsets = np.mean([max(s) for s in combinations(scores, k)])
        assert vpo.best_at_k(scores, k) == pytest.approx(subsets, abs=1e-12)
        assert vpo.best_at_k(scores[::-1], k) == pytest.approx(subsets, abs=1e-12)


def test_best_at_k_keeps_leading_dimensions_and_ends_at_mean_and_max():
    scores = rng().random((3, 4, 30))
    assert vpo.best_at_k(scores, 1) == pytest.approx(scores.mean(axis=-1))
    assert vpo.best_at_k(scores, 30) == pytest.approx(scores.max(axis=-1))
    assert vpo.best_at_k(rng().random(5000), 2500) == pytest.approx(1, abs=1e-3)


def test_pass_at_k_is_best_at_k_of_successes():
    for n in range(1, 8):
        for c in range(n + 1):
            for k in range(1, n + 1):
                expected = vpo.best_at_k([1.0] * c + [0.0] * (n - c), k)
                assert vpo.pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)
    assert vpo.pass_at_k(np.array([4, 4]), np.array([0, 1]), 2).tolist() == [0, 0.5]
    assert vpo.pass_at_k(3000, 1, 1500) == 0.5
    assert vpo.pass_at_k(10_000, 2500, 1) == 0.25  # the most answers


# ---- diversity ----


def test_diversity_is_the_mean_over_pairs():
    R = rng().random((6, 4))
    pairs = [abs(a - b).sum() for a, b in combinations(R, 2)]
    assert vpo.diversity(R) == pytest.approx(np.mean(pairs))
    valid = np.array([1, 0, 1, 1, 0, 1], dtype=bool)
    pairs = [abs(a - b).sum() for a, b in combinations(R[valid], 2)]
    assert vpo.diversity(R, valid) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("d", [1, 4, 16])
def test_diversity_of_rewards_from_0_to_1_lies_between_0_and_d(d):
    assert vpo.diversity([[0] * d, [1] * d]) == d
    assert vpo.diversity([[1] * d, [1] * d]) == 0


def test_failing_raises_diversity_over_all_answers_only():
    R = np.array([[1, 0.5, 0], [1, 0.5, 0.25], [0, 0, 0]])
    assert vpo.diversity(R) > vpo.diversity(R[:2]) == vpo.diversity(R, [True, True, False])


def test_diversity_of_fewer_than_two_answers_is_zero_and_batches_agree():
    assert vpo.diversity([[1.0, 0.0]]) == 0
    R, valid = rng().random((3, 5, 2)), rng(1).random((3, 5)) < 0.5
    valid[0] = False
    together = vpo.diversity(R, valid)
    assert together.shape == (3,) and together[0] == 0
    alone = [vpo.diversity(r, v) for r, v in zip(R, valid, strict=True)]
    assert together == pytest.approx(alone)


# ---- coverage ----


def test_coverage_worked_by_hand():
    assert vpo.coverage(FRONT, FRONT) == pytest.approx(1)
    assert vpo.coverage([[1, 0], [0, 1]], FRONT) == pytest.approx(0.75 / 0.76)
    assert vpo.coverage([[0, 0]], FRONT) == 0
    for alpha in (0.2, 1.0, 7.0):
        expected = vpo.exact_set_reward([[1, 0], [0, 1]], alpha) / vpo.exact_set_reward(
            FRONT, alpha
        )
        assert vpo.coverage([[1, 0], [0, 1]], FRONT, alpha) == pytest.approx(expected, abs=1e-12)
    R = rng().random((2, 3, 4, 2))
    assert vpo.coverage(R, FRONT).shape == (2, 3)
    assert vpo.coverage(R, FRONT)[1, 2] == pytest.approx(vpo.coverage(R[1, 2], FRONT))
    assert (
        vpo.coverage([[1, 0], [0, 1]], FRONT, alpha=50)
        < 0.95
        < vpo.coverage([[1, 0], [0, 1]], FRONT, alpha=0.1)
    )


def test_expected_utility_is_the_definition_of_the_multi_objective_literature():
    """The mean over weights of the highest w . r in the front, as morl-baselines writes it."""
    W = vpo.sample_weights(4096, 4, rng=rng(), method="sobol")
    R = rng(1).random((6, 4))
    utilities = [np.max(np.array([np.dot(weight, point) for point in R])) for weight in W]
    assert vpo.set_reward(R, W) == pytest.approx(np.mean(utilities, axis=0), abs=1e-12)
    assert vpo.exact_set_reward(R) == pytest.approx(np.mean(utilities), abs=1e-3)


def test_coverage_of_many_objectives_uses_the_same_points_above_and_below():
    front = np.eye(16)
    for points in (1024, 16_384):
        assert vpo.coverage(front, front, points=points) == 1
    truth = 1 / sum(1 / i for i in range(1, 17))  # one specialist: 1 / 16, all of them: H_16 / 16
    assert vpo.coverage(front[:1], front) == pytest.approx(truth, rel=5e-3)
    few, many = (vpo.coverage(front[:8], front, points=n) for n in (1024, 16_384))
    assert few != many and few == pytest.approx(many, rel=0.03)


# ---- hypervolume ----


def test_hypervolume_against_a_staircase_in_two_dimensions():
    for seed in range(10):
        R = rng(seed).random((8, 2))
        stairs, height = 0.0, 0.0
        for x, y in sorted(
            R.tolist(), reverse=True
        ):  # from the right: each step adds what is above the last height
            stairs += x * max(0.0, y - height)
            height = max(height, y)
        assert vpo.hypervolume(R) == pytest.approx(stairs)


def test_hypervolume_counts_the_cells_of_a_grid_in_four_dimensions():
    R = rng().integers(0, 4, (5, 4))
    cells = np.stack(np.meshgrid(*[np.arange(3)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    assert vpo.hypervolume(R) == (cells[:, None] < R).all(axis=-1).any(axis=1).sum()
    assert vpo.hypervolume(np.stack([R, 2 * R])) == pytest.approx(
        vpo.hypervolume(R) * np.array([1, 16])
    )


def test_hypervolume_of_the_front_is_one():
    assert vpo.hypervolume([[0, 1], [1, 0]]) == 0
    assert vpo.hypervolume(FRONT, FRONT) == 1
    assert vpo.hypervolume([[0.6, 0.6]], FRONT) == pytest.approx(
        1.0
    )  # the ends have volume 0: it favours the middle


# ---- the front and subsets of it ----


def test_front_share_counts_distinct_points():
    assert front_share(FRONT, FRONT) == 1
    assert front_share([[1, 0], [1, 0], [0.6, 0.59]], FRONT) == pytest.approx(1 / 3)
    assert front_share([[1, 0]], np.vstack([FRONT, FRONT])) == pytest.approx(1 / 3)
    assert front_share(np.stack([FRONT, FRONT * 0]), FRONT).tolist() == [1, 0]
    for kind in (np.float32, np.float16):  # no number of theirs is within 1e-9 of 0.9
        assert front_share(np.array([[0.1, 0.9]], kind), [[0.1, 0.9]]) == 1
        assert front_share([[0.1, 0.9]], np.array([[0.1, 0.9]], kind)) == 1
        assert front_share(np.array([[0.1, 0.89]], kind), [[0.1, 0.9]]) == 0
    for missing, share in ((1.8e-9, 0.5), (2.2e-9, 0)):  # "exactly" is to 1e-9 of 2
        assert front_share([[2 - missing, 0]], [[2, 0], [0, 2]]) == share


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_best_subset_against_all_subsets(m, alpha):
    R = rng(m).random((7, 2))
    indices, value = vpo.best_subset(R, m, alpha)
    everything = [float(vpo.exact_set_reward(R[list(s)], alpha)) for s in combinations(range(7), m)]
    assert value == pytest.approx(max(everything), abs=1e-12)
    assert value == pytest.approx(float(vpo.exact_set_reward(R[indices], alpha)))
    assert len(indices) <= m and (np.diff(indices) > 0).all()


@pytest.mark.parametrize("poor", [0, 10])  # more answers: 78 pairs, of which few are compared
@pytest.mark.parametrize("alpha", [0.3, 0.7, 2.5, 4.5, 9.0])
def test_of_sets_that_differ_in_the_order_of_objectives_the_first_is_the_best(alpha, poor):
    """With the first two objectives swapped the pairs (2, 0) and (2, 1) are the same, and so are
    the weights. A sum over points told them apart, now so and now so.
    """
    R = np.array([[1, 0.2, 0.3, 1], [0.2, 1, 0.3, 1], [0.7, 0.7, 1, 0.5]])
    R = np.vstack([*R, *([-i, -i, 0, 1 + i / 100] for i in range(1, poor + 1))])
    best = metrics.best_subset(R, 2, alpha, points=2048)
    assert best.indices.tolist() == [0, 2]
    assert best.value == vpo.exact_set_reward(R[[0, 2]], alpha, points=2048)
    again = metrics.best_subset(R[:, [1, 0, 3, 2]], 2, alpha, points=2048)
    assert again.indices.tolist() == [0, 2]


@pytest.mark.parametrize("second, best", [(0.1 + 0.2, 0), (0.3 + 1e-10, 1)])
def test_of_sets_that_rounding_tells_apart_the_first_is_the_best(second, best):
    assert vpo.best_subset([[0, 0.3], [second, 0]], 1).indices.tolist() == [best]


def test_best_subset_of_many_answers_is_greedy_and_keeps_its_promise():
    corners = np.vstack([np.sqrt(rng().dirichlet(np.ones(3), size=60))])
    indices, value = vpo.best_subset(corners, 6)
    assert len(indices) == 6
    assert value == pytest.approx(float(vpo.exact_set_reward(corners[indices])))
    assert value > (1 - 1 / np.e) * float(vpo.exact_set_reward(corners))
    assert value >= vpo.best_subset(corners, 2)[1]


def test_greedy_takes_answers_that_add_nothing_last_and_in_their_order():
    R = np.array([[0.1, 0.2], [0, 1], [0.3, 0.3], [1, 0]])
    order = metrics._greedy(R, 4, 1.0).tolist()
    assert set(order[:2]) == {1, 3} and order[2:] == [0, 2]


def test_best_subset_is_a_record_of_indices_and_value():
    best = vpo.best_subset(FRONT, 2)
    assert best.indices.tolist() == [0, 2] and best.value == pytest.approx(0.75, abs=1e-12)


def test_as_sets_cuts_a_group_into_runs_of_answers():
    rewards = np.arange(14.0).reshape(7, 1, 2)
    sets = as_sets(rewards, 3)
    assert sets.shape == (2, 3, 2) and sets.reshape(-1).tolist() == list(range(12))
    assert (as_sets(rewards.reshape(1, 7, 2), 7) == rewards.reshape(1, 7, 2)).all()
    assert as_sets(rewards, 9).shape == (1, 7, 2)
    assert as_sets(rewards[:1], 9).tolist() == [[[0, 1]]]


def test_price_of_conflict_ends_at_one():
    price = price_of_conflict(FRONT)
    assert price == pytest.approx({1: 0.6 / 0.76, 2: 0.75 / 0.76, 3: 1.0})
    assert price_of_conflict([[0.5, 0.5]]) == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_price_of_conflict_is_judged_at_its_alpha(alpha):
    """Against every pair: specialists for a small α, the compromise for a large one."""
    whole = vpo.exact_set_reward(FRONT, alpha)
    worth = {
        m: max(vpo.exact_set_reward(pick, alpha) for pick in itertools.combinations(FRONT, m))
        for m in (1, 2)
    }
    found = price_of_conflict(FRONT, (1, 2), alpha)
    assert found == pytest.approx({m: value / whole for m, value in worth.items()})
    other = price_of_conflict(FRONT, (1, 2))
    assert abs(found[1] - other[1]) > 0.01 and abs(found[2] - other[2]) > 0.001


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: vpo.best_at_k([1, 2, 3], 4), "k = 4"),
        (lambda: vpo.best_at_k([], 1), "there is no answer to draw"),
        (lambda: vpo.best_at_k([1, np.nan], 1), "scores holds 1"),
        (lambda: vpo.best_at_k(3.0, 1), "scores has shape ()"),
        (lambda: vpo.pass_at_k(4, 5, 1), "c = 5"),
        (lambda: vpo.pass_at_k(4, 1, 5), "k = 5"),
        (lambda: vpo.pass_at_k([4, 4], [1, 5], 1), "c = [1, 5]"),
        (lambda: vpo.diversity([1, 2]), "R has shape (2,)"),
        (lambda: vpo.diversity(FRONT, [True]), "valid has shape (1,)"),
        (lambda: vpo.coverage(FRONT, FRONT[:, :1]), "front has shape (3, 1)"),
        (lambda: vpo.coverage(FRONT, FRONT * 0), "more than 0"),
        (lambda: vpo.coverage(FRONT, FRONT[0]), "front has shape (2,)"),
        (lambda: vpo.coverage(FRONT, FRONT, alpha=-2), "alpha = -2"),
        (lambda: vpo.hypervolume(FRONT, [[1, 0]]), "hypervolume 0"),
        (lambda: vpo.hypervolume([[[1e-160] * 2], [[1] * 2]]), "beyond the range of a float"),
        (lambda: vpo.hypervolume([[[1e-200] * 2], [[1] * 2]]), "beyond the range of a float"),
        (lambda: vpo.hypervolume([[[1e90] * 4], [[1] * 4]]), "beyond the range of a float"),
        (lambda: metrics.preferences(2, 0), "count = 0"),
        (lambda: front_share(FRONT, np.ones((1, 3))), "front has shape (1, 3)"),
        (lambda: price_of_conflict(FRONT, "12"), "sizes = '12': expected a list"),
        (lambda: price_of_conflict(FRONT, b""), "sizes = b'': expected a list"),
        (lambda: vpo.best_subset(FRONT, 0), "m = 0"),
        (lambda: vpo.best_subset(FRONT[None], 1), "rewards has shape (1, 3, 2)"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


def test_the_names_that_the_package_exports():
    assert all(
        getattr(vpo, name) is getattr(metrics, name)
        for name in ("best_at_k", "coverage", "best_subset")
    )
