"""The methods against brute force, values by hand and what their definitions promise."""

import functools
import inspect
import math
import types
import warnings
from typing import get_type_hints

import numpy as np
import pytest
import torch
from brute_force import brute_force_max_at_k
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import vpo_lite as vpo
from vpo_lite import estimators
from vpo_lite.estimators import max_at_k_advantage, max_weights, rollout_scores, zscore


def rng(seed=0):
    return np.random.default_rng(seed)


def a_step(method, P=2, G=8, m=3, d=4, seed=0):
    """Rewards of one step in the shape that the method takes, and weights."""
    m = 1 if vpo.METHODS[method].single_answer else m
    K = 1 if vpo.METHODS[method].weights == "one" else 16
    return rng(seed).random((P, G, m, d)), rng(seed + 1).dirichlet(np.ones(d), size=(P, K))


@pytest.mark.parametrize("seed", range(5))
def test_a_recombined_group_is_compared_by_vpos_number(seed):
    R, W = a_step("vpo_recombined", seed=seed)
    for weights, alpha in ((None, 1.0), (None, 0.2), (W, 1.0)):
        how = dict(weights=weights, alpha=alpha)
        ours, vpos = (vpo.advantages(name, R, **how) for name in ("vpo_recombined", "vpo"))
        assert np.array_equal(ours, vpos)


def test_advantages_and_estimate_are_asked_alike():
    asked = [inspect.signature(f).parameters for f in (vpo.advantages, estimators.estimate)]
    assert asked[0] == asked[1]


def test_methods_that_differ_in_training_alone_say_so():
    """Outside the native trainer they would be taken for methods of their own without a word."""
    R, W = a_step("goal_conditioned")
    pair = [vpo.advantages(x, R, weights=W) for x in ("goal_conditioned", "random_weighting")]
    assert np.array_equal(*pair) and abs(pair[0]).max() > 0
    for name, like in {"vpo_recombined": "vpo", "goal_conditioned": "random_weighting"}.items():
        said = " ".join(vpo.METHODS[name].estimate.__doc__.split())
        assert f"the numbers are those of `{like}`" in said.replace("The", "the")


def test_the_table_of_methods():
    assert list(vpo.METHODS) == [
        *("vpo", "grpo", "multi_rlvr", "set_max", "max_at_k"),
        *("gdpo", "maxrl", "random_weighting", "goal_conditioned", "vpo_recombined"),
    ]
    many = {name for name in vpo.METHODS if not vpo.METHODS[name].single_answer}
    assert many == {"vpo", "multi_rlvr", "set_max", "vpo_recombined"}
    assert [name for name in vpo.METHODS if vpo.METHODS[name].weight_in_prompt] == [
        "goal_conditioned"
    ]
    drawn = {name: m.weights for name, m in vpo.METHODS.items() if m.weights != "none"}
    assert drawn == {
        **{"vpo": "many", "vpo_recombined": "many"},
        **{"random_weighting": "one", "goal_conditioned": "one"},
    }
    assert [name for name in vpo.METHODS if vpo.METHODS[name].recombines] == ["vpo_recombined"]


# ---- what all methods share ----


@pytest.mark.parametrize("method", vpo.METHODS)
def test_equal_rollouts_get_exactly_zero(method):
    R, W = a_step(method)
    R = np.repeat(
        R[:, :1] * 0.35, 8, axis=1
    )  # averages of non-dyadic numbers, which rounding would tell apart
    A = vpo.advantages(method, R, weights=W)
    assert A.shape == (2, 8) and A.dtype == np.float64 and (A == 0).all()
    tiny = R + 1e-11 * rng(5).random(R.shape)
    assert (vpo.advantages(method, tiny, weights=W) == 0).all()
    large = 1e6 * R + 1e-8 * rng(5).random(R.shape)  # a hundredth of the rounding of such rewards
    assert (vpo.advantages(method, large, weights=W) == 0).all()


@pytest.mark.parametrize("alpha, m, d", [(1.0, 5, 6), (1.0, 4, 8), (0.5, 4, 3)])
def test_exact_advantages_of_equal_sets_are_zero_where_some_or_all_need_points(alpha, m, d):
    """The mean of the other answers, less 0.001, is never the best: it changes no set reward."""
    for seed in range(12):
        answers = rng(seed).random((m - 1, d))
        sets = [np.vstack([answers, x]) for x in (answers[0], answers.mean(axis=0) - 1e-3)]
        R = np.array([[sets[0], sets[1], sets[1], sets[0]]])
        assert (vpo.advantages("vpo", R, alpha=alpha) == 0).all()
        assert (vpo.advantages("vpo", R[0], groups="aaaa", alpha=alpha) == 0).all()


@pytest.mark.parametrize("method", vpo.METHODS)
def test_scores_that_spread_less_than_the_floor_are_equal_at_any_eps(method):
    """The floor is 1e-9, whatever the rewards are made of: the head of checks.py says so."""
    R, W = a_step(method)
    found = [vpo.advantages(method, R * size, weights=W, eps=0) for size in (1, 1e-7, 1e-10)]
    unit = 1e-7 if method == "max_at_k" else 1  # it does not divide by the spread
    assert found[1] == pytest.approx(unit * found[0], rel=1e-6) and (found[0] != 0).all()
    assert (found[2] == 0).all()


def test_what_rounding_hides_depends_on_the_rewards_and_weights_of_the_group():
    """It is 1e-12 of the score that the largest rewards make without cancelling."""

    def group(spread, size=1e6, other=1e6):
        return [[[size, other]], [[size + 2 * spread, other]]]

    def silent(W, *groups):
        return (vpo.advantages("vpo", groups, weights=np.array(W, float)) == 0).all(axis=1).tolist()

    first, both = [[1, 0], [1, 0]], [[1, 1]]
    assert silent(first, group(0.5e-6), group(1.5e-6)) == [True, False]  # of 1e6
    balanced = (group(x, other=-1e6) for x in (1.5e-6, 2.5e-6))
    assert silent(both, *balanced) == [True, False]  # of 2e6
    assert silent(first, group(1.5e-6, other=1e9), group(1, 1e9)) == [False, False]
    cancelled = np.array([[[[1e6, -1e6, 0]], [[1e6 + 4e-6, -1e6, 0]]]])
    assert (vpo.advantages("vpo", cancelled) == 0).all()  # scores of 0 and 1.3e-6
    assert zscore([[1e9, 2e9], [0, 1e-6]], 0) == pytest.approx(np.array([[-1, 1], [-1, 1]]))


@pytest.mark.parametrize("method", vpo.METHODS)
def test_advantages_add_up_to_zero_in_a_group_and_follow_the_score(method):
    R, W = a_step(method)
    estimate = estimators.estimate(method, R, weights=W)
    assert estimate.advantage.sum(axis=1) == pytest.approx([0, 0], abs=1e-9)
    assert (estimate.advantage == vpo.advantages(method, R, weights=W)).all()
    assert (estimate.score == rollout_scores(method, R, weights=W)).all()
    if method != "gdpo":  # whose advantage is no function of the score
        ranked = np.take_along_axis(estimate.advantage, estimate.score.argsort(axis=1), axis=1)
        assert (np.diff(ranked, axis=1) > -1e-12).all() and (ranked[:, -1] > ranked[:, 0]).all()


@pytest.mark.parametrize("method", vpo.METHODS)
def test_groups_do_not_know_of_each_other(method):
    R, W = a_step(method, P=3)
    together = vpo.advantages(method, R, weights=W)
    for p in range(3):
        assert vpo.advantages(method, R[p : p + 1], weights=W[p : p + 1])[0] == pytest.approx(
            together[p], abs=1e-12
        )


@pytest.mark.parametrize("method", vpo.METHODS)
@pytest.mark.parametrize("exactly", [False, True])
def test_prompts_may_differ_in_their_number_of_objectives(method, exactly):
    """A list of prompts gives each prompt what it gets alone, as an array of one prompt."""
    m = 1 if vpo.METHODS[method].single_answer else 2
    K = 1 if vpo.METHODS[method].weights == "one" else 16
    R = [rng(d).random((4, m, d)) for d in (2, 5, 3, 5, 1)]
    W = [rng(9).dirichlet(np.ones(r.shape[-1]), size=K) for r in R]
    if exactly and method == "vpo":
        W = None  # the exact expectation
    w_star = [np.arange(1.0, r.shape[-1] + 1) for r in R]
    for fixed in (None, w_star):
        found = estimators.estimate(method, R, weights=W, w_star=fixed)
        assert found.score.shape == found.advantage.shape == (5, 4)
        for p, r in enumerate(R):
            alone = estimators.estimate(
                method,
                r[None],
                weights=None if W is None else W[p][None],
                w_star=None if fixed is None else fixed[p],
            )
            assert (found.score[p] == alone.score[0]).all()
            assert (found.advantage[p] == alone.advantage[0]).all()
            assert abs(alone.advantage).max() > 0


def test_lists_of_prompts_by_hand():
    """d = 2 and d = 3 in one step; w* weights the first objective only."""
    R = [[[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[[0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 0]]]]
    R = [np.array(r, float) for r in R]
    w_star = [np.array([1.0, 0]), np.array([1.0, 0, 0])]
    scores = {
        "vpo": [[3 / 4, 1 / 2], [1 / 2, 1 / 3]],  # E max(w_1, w_2) = 1/2 in three objectives
        "multi_rlvr": [[1, 0], [0, 1]],
        "set_max": [[1, 0], [0, 1]],
    }
    for method, expected in scores.items():
        assert rollout_scores(method, R, w_star=w_star) == pytest.approx(np.array(expected))
    W = [np.array([[1.0, 0], [0.5, 0.5]]), np.array([[0, 0.5, 0.5], [1.0, 0, 0]])]
    sampled = rollout_scores("vpo", R, weights=W)
    assert sampled == pytest.approx(np.array([[3 / 4, 1 / 4], [1 / 4, 1 / 2]]))


@pytest.mark.parametrize("method", vpo.METHODS)
def test_rollouts_in_any_order_get_what_their_group_gives_them(method):
    """Groups of 5, 2 and 3 rollouts, shuffled: the labels bring them back together."""
    m = 1 if vpo.METHODS[method].single_answer else 2
    K = 1 if vpo.METHODS[method].weights == "one" else 16
    sizes, d = {"a": 5, "b": 2, "c": 3}, {"a": 2, "b": 4, "c": 4}
    blocks = {name: rng(n).random((n, m, d[name])) for name, n in sizes.items()}
    W = {name: rng(7).dirichlet(np.ones(d[name]), size=K) for name in sizes}
    w_star = {name: np.arange(1.0, d[name] + 1) for name in sizes}
    places = [(name, g) for name, n in sizes.items() for g in range(n)]
    places = [places[i] for i in rng(3).permutation(len(places))]
    order = list(dict.fromkeys(name for name, _ in places))  # as the labels first appear
    found = vpo.advantages(
        method,
        [blocks[name][g] for name, g in places],
        weights=[W[name] for name in order],
        w_star=[w_star[name] for name in order],
        k=1,
        groups=[name for name, _ in places],
    )
    assert found.shape == (10,) and abs(found).max() > 0
    for value, (name, g) in zip(found, places, strict=True):
        alone = vpo.advantages(
            method, blocks[name][None], weights=W[name][None], w_star=w_star[name], k=1
        )
        assert value == pytest.approx(alone[0, g], abs=1e-12)


@pytest.mark.parametrize("method", vpo.METHODS)
def test_weights_are_for_all_groups_or_by_their_labels(method):
    """Whatever form says them, a group gets what it gets alone."""
    m = 1 if vpo.METHODS[method].single_answer else 2
    K = 1 if vpo.METHODS[method].weights == "one" else 16
    labels = ["b", "a", "b", "a", "a", "b"]
    R, w_star = rng().random((6, m, 3)), np.array([1.0, 2.0, 3.0])
    W, v = rng(1).dirichlet(np.ones(3), size=(2, K)), np.array([w_star, w_star[::-1]])
    forms = [
        (W[0], w_star, {"a": (W[0], w_star), "b": (W[0], w_star)}),
        (W[0].tolist(), w_star.tolist(), {"a": (W[0], w_star), "b": (W[0], w_star)}),
        (W, v, {"b": (W[0], v[0]), "a": (W[1], v[1])}),  # as they first appear
        ({"a": W[0], "b": W[1]}, {"a": v[0], "b": v[1]}, {"a": (W[0], v[0]), "b": (W[1], v[1])}),
    ]
    for weights, fixed, alone in forms:
        found = vpo.advantages(method, R, groups=labels, weights=weights, w_star=fixed, k=1)
        for label, (own, target) in alone.items():
            rows = np.array(labels) == label
            expected = vpo.advantages(method, R[rows][None], weights=own[None], w_star=target, k=1)
            assert found[rows] == pytest.approx(expected[0], abs=1e-12)


def test_weights_may_be_for_all_prompts_that_differ_in_their_number_of_answers():
    R, W = [rng(m).random((4, m, 3)) for m in (1, 2)], rng(1).dirichlet(np.ones(3), size=16)
    for weights in (W, W.tolist(), np.array([W, W])):
        found = vpo.advantages("vpo", R, weights=weights, w_star=[1, 0, 0])
        for r, row in zip(R, found, strict=True):
            assert row == pytest.approx(vpo.advantages("vpo", r[None], weights=W)[0], abs=1e-12)


def test_a_group_of_one_rollout_teaches_nothing():
    rows = [[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.4]]]
    assert vpo.advantages("grpo", rows, groups=[1, 2, 1], w_star=[[1, 0]] * 2).tolist() == (
        pytest.approx([1, 0, -1], abs=1e-5)
    )


def test_labels_of_groups_may_be_a_tensor():
    rows, expected = [[[1.0]], [[0.2]], [[0.0]], [[0.6]]], [1, -1, -1, 1]
    for labels in (
        torch.tensor([7, 8, 7, 8]),
        list(torch.tensor([7, 8, 7, 8])),
        np.array([7, 8] * 2),
    ):
        assert vpo.advantages("vpo", rows, groups=labels) == pytest.approx(expected, abs=1e-4)
        assert isinstance(labels, get_type_hints(vpo.advantages)["groups"])  # as checkers read it


@pytest.mark.parametrize("groups", [5, [[7], [8], [7], [8]], torch.zeros(4, 2)])
def test_labels_that_are_none_are_refused(groups):
    with pytest.raises(ValueError, match=r"groups = .*: expected one label for each rollout"):
        vpo.advantages("vpo", np.zeros((4, 1, 1)), groups=groups)


@pytest.mark.parametrize("nan", [[math.nan] * 4, np.full(4, np.nan), torch.full((4,), np.nan)])
def test_labels_that_are_equal_to_none_are_refused(nan):
    """Each would be a group of its own, with advantage 0."""
    with pytest.raises(ValueError, match="groups holds NaN, which is equal to no label"):
        vpo.advantages("vpo", [[[1.0]], [[0.2]], [[0.0]], [[0.6]]], groups=nan)


@pytest.mark.parametrize("labels", [[1, 1, 2], [1, 1, 2, 2, 2], []])
def test_each_rollout_needs_a_label(labels):
    words = f"groups has {len(labels)} labels for 4 rollouts: expected as many"
    with pytest.raises(ValueError, match=words):
        vpo.advantages("vpo", np.zeros((4, 1, 1)), groups=labels)


def test_rollouts_of_one_group_have_one_shape():
    rows = [np.zeros((1, 2)), np.zeros((1, 3)), np.zeros((1, 2))]
    assert vpo.advantages("vpo", rows, groups=["a", "b", "a"]).tolist() == [0, 0, 0]
    said = (
        r"group 'a' has rollouts of the shapes .*, 3.*: .* a missing answer have the worst rewards"
    )
    with pytest.raises(ValueError, match=said):
        vpo.advantages("vpo", rows, groups=["a", "a", "a"])


def test_masked_rewards_are_refused_in_groups_too():
    R = np.ma.array([[[1.0]], [[0.2]]], mask=[[[True]], [[False]]])
    for rewards, name in ((R, "R"), (list(R), "R.0.")):
        with pytest.raises(ValueError, match=f"^{name} holds masked entries"):
            vpo.advantages("vpo", rewards, groups=[1, 1])


# ---- each method by its formula ----


def test_vpo_worked_by_hand():
    R = [[[[1, 0], [0, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 0]], [[0.6, 0.6], [0, 0]]]]
    U = np.array([3 / 4, 1 / 2, 0, 3 / 5])
    assert rollout_scores("vpo", R)[0] == pytest.approx(U, abs=1e-12)
    assert vpo.advantages("vpo", R)[0] == pytest.approx((U - U.mean()) / (U.std() + 1e-6), abs=1e-9)
    # at a large alpha all weights are 1/2
    assert rollout_scores("vpo", R, alpha=1e6)[0] == pytest.approx([0.5, 0.5, 0, 0.6], abs=1e-3)
    W = np.array([[[1, 0], [0.5, 0.5]]])
    assert rollout_scores("vpo", R, weights=W)[0] == pytest.approx([0.75, 0.75, 0, 0.6])


def test_vpo_shares_its_weights_in_the_group():
    """Equal sets: exactly 0 if the group shares the weights, noise if each rollout has its own."""
    R = np.repeat(rng().random((16, 1, 3, 3)), 8, axis=1)
    assert (
        vpo.advantages("vpo", R, weights=rng(1).dirichlet(np.ones(3), size=(16, 64))) == 0
    ).all()
    unshared = vpo.advantages("vpo", R, weights=rng(1).dirichlet(np.ones(3), size=(16, 8, 64)))
    assert abs(unshared).mean() > 0.5


def test_with_one_answer_and_the_exact_expectation_vpo_is_uniform_grpo():
    R = rng().random((4, 8, 1, 5))
    for alpha in (0.3, 1.0, 4.0):
        assert vpo.advantages("vpo", R, alpha=alpha) == pytest.approx(
            vpo.advantages("grpo", R), abs=1e-9
        )
    gaps = []
    for K in (64, 4096):
        W = rng(1).dirichlet(np.ones(5), size=(4, K))
        gaps.append(abs(vpo.advantages("vpo", R, weights=W) - vpo.advantages("grpo", R)).mean())
    ratio = gaps[0] / gaps[1]
    assert ratio > 3 and ratio < 20  # sqrt(64) = 8 is the Monte-Carlo rate


def test_grpo_and_multi_rlvr_worked_by_hand():
    w_star = [0.5, 0.25, 0.25]
    R = rng().random((1, 4, 1, 3))
    r = R[0, :, 0] @ w_star
    assert vpo.advantages("grpo", R, w_star=w_star)[0] == pytest.approx(
        (r - r.mean()) / (r.std() + 1e-6), abs=1e-12
    )
    R = rng().random((1, 4, 3, 3))
    r = (R[0] @ w_star).sum(axis=1)
    A = vpo.advantages("multi_rlvr", R, w_star=w_star, eps=0.1)
    assert A[0] == pytest.approx((r - r.mean()) / (r.std() + 0.1), abs=1e-12)
    both = vpo.advantages("multi_rlvr", np.concatenate([R, R]), w_star=[w_star, [1, 0, 0]])
    r = R[0, :, :, 0].sum(axis=1)
    assert both[1] == pytest.approx((r - r.mean()) / (r.std() + 1e-6), abs=1e-12)


def test_set_max_against_brute_force():
    R, w_star = rng().random((3, 6, 4, 5)), rng(1).dirichlet(np.ones(5), size=3)
    best = np.array([[max(w @ answer for answer in r) for r in R[p]] for p, w in enumerate(w_star)])
    found = estimators.estimate("set_max", R, w_star=w_star)
    assert found.score == pytest.approx(best, abs=1e-14)
    mean, std = best.mean(axis=1, keepdims=True), best.std(axis=1, keepdims=True)
    assert found.advantage == pytest.approx((best - mean) / (std + 1e-6), abs=1e-9)


def test_set_max_is_vpo_under_the_fixed_weights_alone():
    R, w_star = rng().random((2, 8, 3, 4)), [0.4, 0.3, 0.2, 0.1]
    vpo_fixed = vpo.advantages("vpo", R, weights=np.array([w_star]))
    assert vpo.advantages("set_max", R, w_star=w_star) == pytest.approx(vpo_fixed, abs=1e-12)
    one = R[:, :, :1]
    assert (vpo.advantages("set_max", one) == vpo.advantages("grpo", one)).all()


def test_set_max_does_not_pay_for_covering_what_multi_rlvr_and_vpo_tell_apart():
    """Equal best answers: set_max sees no difference. A repeat pleases only multi_rlvr."""
    best, other, poor = [1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 0]
    R = np.array([[[best, other], [best, best], [best, poor], [best, poor]]], float)
    assert (vpo.advantages("set_max", R) == 0).all()
    assert vpo.advantages("multi_rlvr", R).argmax() == 1
    assert vpo.advantages("vpo", R).argmax() == 0


@pytest.mark.parametrize("n, k", [(n, k) for n in range(2, 8) for k in range(1, n)])
def test_max_at_k_is_the_average_over_all_subsets(n, k):
    for r in (rng(n).random(n), rng(n).integers(0, 3, n) / 2, rng(n).random(n) - 5):
        if np.ptp(r) > 0:
            assert max_at_k_advantage(r[None], k)[0] == pytest.approx(
                brute_force_max_at_k(r, k), abs=1e-12
            )
            assert vpo.advantages("max_at_k", r[None, :, None, None], k=k)[0] == pytest.approx(
                brute_force_max_at_k(r, k), abs=1e-12
            )


def test_max_at_k_and_the_z_score_take_whole_numbers_and_lists():
    """Whole numbers were cut: the advantages were 0, 0 and 1."""
    expected = brute_force_max_at_k(np.array([1.0, 2.0, 3.0]), 2)
    assert expected == pytest.approx([-0.5, -0.5, 1.0])
    for r in ([1, 2, 3], np.array([1, 2, 3])):
        assert max_at_k_advantage(r, 2) == pytest.approx(expected)
        assert zscore(r, 0) == pytest.approx(np.array([-1, 0, 1]) * 1.5**0.5)


def test_scores_closer_than_four_standard_errors_are_equal():
    x, error = [[0, 3.9], [0, 4.1], [0, 0.9]], [[1, 0.5], [0.5, 1], [0.2, 0.2]]
    assert zscore(x, 0, error=error) == pytest.approx(np.array([[0, 0], [-1, 1], [-1, 1]]))


@pytest.mark.parametrize(("G", "k"), [(2, 1), (3, 2), (4, 2), (5, 2), (8, 4)])
def test_max_at_k_takes_the_best_of_half_the_group_and_of_two_at_least(G, k):
    r = rng(G).random((1, G))
    assert (max_at_k_advantage(r) == max_at_k_advantage(r, k)).all()


def test_max_at_k_stays_finite_for_large_groups_and_defaults_to_half_the_group():
    r = rng().random((1, 2000))
    A = max_at_k_advantage(r)
    assert np.isfinite(A).all() and (max_at_k_advantage(r, 1000) == A).all()
    assert A.argmax() == r.argmax() and A.sum() == pytest.approx(0, abs=1e-9)
    assert max_weights(2000, 1000).sum() == pytest.approx(1, abs=1e-12)
    assert (max_at_k_advantage(r[:, :2]) == max_at_k_advantage(r[:, :2], 1)).all()
    assert (max_at_k_advantage(r[:, :3]) == max_at_k_advantage(r[:, :3], 2)).all()


def test_gdpo_worked_by_hand():
    R = np.array(
        [[[[0, 5.0]], [[1, 5.0]], [[0, 5.0]], [[1, 5.0]]]]
    )  # the second objective says nothing
    assert vpo.advantages("gdpo", R, eps=0)[0] == pytest.approx([-0.5, 0.5, -0.5, 0.5])
    shared = vpo.advantages("gdpo", R, eps=0.5)[0]  # 0.5 of a deviation of 0.5 + 0.5
    assert shared == pytest.approx([-0.25, 0.25, -0.25, 0.25])
    R[0, :, 0, 1] = [0, 0, 100, 100]  # a hundred times larger, and no more important
    assert vpo.advantages("gdpo", R, eps=0)[0] == pytest.approx([-1, 0, 0, 1])
    assert vpo.advantages("grpo", R, eps=0)[0] == pytest.approx([-1, -1, 1, 1], abs=0.03)


def test_gdpo_whitens_over_the_whole_batch_where_it_is_asked_to():
    """Also where groups differ in size and prompts in d. A silent group stays silent."""
    R = rng().random((3, 4, 1, 2))
    R[1] = 0.25
    A = vpo.advantages("gdpo", R, eps=0)
    wanted = (A - A.mean()) / A.std()  # as in TRL's normalize_then_sum, with the population's std
    whitened = vpo.advantages("gdpo", R, eps=0, whiten=True)
    assert whitened == pytest.approx(wanted, abs=1e-12) and (whitened[1] == 0).all()
    assert vpo.advantages("gdpo", R, eps=1.0, whiten=True) == pytest.approx(
        vpo.advantages("gdpo", R, eps=1.0) / (vpo.advantages("gdpo", R, eps=1.0).std() + 1)
    )
    rows, labels = R.reshape(-1, 1, 2)[[0, 5, 9, 1, 2, 8]], [0, 1, 2, 0, 0, 2]
    A = vpo.advantages("gdpo", rows, groups=labels, eps=0)
    whitened = vpo.advantages("gdpo", rows, groups=labels, eps=0, whiten=True)
    assert whitened == pytest.approx(A / A.std(), abs=1e-12) and whitened[1] == 0
    lists = [R[0], np.concatenate((R[2], R[2, ::-1]), -1)]
    A = vpo.advantages("gdpo", lists, eps=0)
    assert vpo.advantages("gdpo", lists, eps=0, whiten=True) == pytest.approx(A / A.std())
    assert (vpo.advantages("gdpo", R[1:2], eps=0, whiten=True) == 0).all()
    with pytest.raises(ValueError, match=r"whiten = True: only gdpo .* not grpo"):
        vpo.advantages("grpo", R, whiten=True)


def test_max_at_k_may_be_whitened_and_equal_successes_leave_nothing():
    """Its advantages are not scaled: a thousandth of a z-score in a large group, beside which a KL
    in the loss decides. Where k rollouts always hold a success, rounding is no advantage.
    """
    R = rng().random((3, 48, 1, 1))
    A = vpo.advantages("max_at_k", R, k=12)
    found = estimators.estimate("max_at_k", R, k=12, w_star=[2], eps=0, whiten=True)
    assert found.advantage == pytest.approx(A / np.sqrt((A**2).mean()))
    assert found.score == pytest.approx(2 * R[..., 0, 0])
    often = (np.arange(48) < 29).astype(float).reshape(1, 48, 1, 1)
    assert (vpo.advantages("max_at_k", often, k=24) == 0).all()
    assert (vpo.advantages("max_at_k", often[:, 20:], k=2) != 0).all()


@pytest.mark.parametrize(("d", "m"), [(300, 5), (40, 32), (520, 3)])
def test_many_objectives_raise_no_warning(d, m):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vpo.exact_set_reward(rng().random((2, m, d)))


def test_a_partial_function_is_no_method():
    """It ended in Python's own error."""
    with pytest.raises(ValueError, match=r"'partial\(...\)' has no name to be asked for by: def"):
        vpo.estimators.method()(functools.partial(lambda R, **_: R, 1))


def test_maxrl_worked_by_hand():
    R = np.array([0, 0, 0, 1.0])[None, :, None, None]
    assert vpo.advantages("maxrl", R, eps=0)[0] == pytest.approx(
        [-1, -1, -1, 3]
    )  # a rare success counts 1 / rate - 1
    assert (vpo.advantages("maxrl", 0 * R, eps=0) == 0).all()
    assert vpo.advantages("maxrl", R, eps=0.25)[0] == pytest.approx([-0.5, -0.5, -0.5, 1.5])
    rounded = vpo.advantages("maxrl", R - 6e-8, eps=0.25)[0]  # a zero of float32
    assert rounded == pytest.approx([-0.5, -0.5, -0.5, 1.5], abs=1e-6)


@pytest.mark.parametrize("method", ["random_weighting", "goal_conditioned"])
def test_one_weight_vector_for_each_prompt(method):
    R = rng().random((2, 4, 1, 3))
    W = rng(1).dirichlet(np.ones(3), size=(2, 1))
    r = np.einsum("pgd,pd->pg", R[:, :, 0], W[:, 0])
    assert rollout_scores(method, R, weights=W) == pytest.approx(r)
    assert vpo.advantages(method, R, weights=W) == pytest.approx(zscore(r))


def test_a_group_of_two_has_no_size_only_a_sign():
    for seed in range(10):
        A = vpo.advantages("vpo", rng(seed).random((1, 2, 3, 4)), eps=0)
        assert abs(A) == pytest.approx(np.ones((1, 2)), abs=1e-9)


def test_a_new_method_is_one_function_with_a_decorator():
    @estimators.method(z_score=True)
    def worst_answer(R, *, w_star, **_):
        return estimators.scalar(R, w_star).min(axis=-1)

    @estimators.method()
    def above_the_median(R, *, w_star, **_):
        r = estimators.scalar(R, w_star).min(axis=-1)
        return r, r - np.median(r, axis=-1, keepdims=True)

    R = rng().random((2, 4, 3, 2))
    r = R.mean(axis=-1).min(axis=-1)
    assert {"worst_answer", "above_the_median"} <= set(estimators.METHODS)
    assert vpo.advantages("worst_answer", R) == pytest.approx(zscore(r))
    assert vpo.advantages("worst_answer", R, eps=0.5) == pytest.approx(zscore(r, 0.5))
    assert vpo.estimators.rollout_scores("worst_answer", R) == pytest.approx(r)
    ordered = np.sort(vpo.advantages("above_the_median", R), axis=-1)
    assert ordered[:, 1] == pytest.approx(-ordered[:, 2])  # the two in the middle


@pytest.mark.parametrize("weights", ["none", "one", "many"])
def test_scores_that_differ_by_rounding_alone_are_equal_in_a_method_of_ones_own_too(weights):
    """Its rewards of 1e9 cancel: what is left of them, some 1e-7, is rounding."""

    @estimators.method(weights=weights, z_score=True)
    def cancelled(R, **_):
        R *= 2  # works in place
        return R[..., 0, 0] - R[..., 0, 1]

    R = np.stack([x := 1e9 + rng().random((1, 4, 1)), x + 1e-7 * rng(1).random(x.shape)], axis=-1)
    W = None if weights == "none" else np.ones((1, 1, 2)) / 2
    assert not vpo.advantages("cancelled", R, weights=W).any()
    assert vpo.advantages("cancelled", R * [1, 0.5], weights=W).any()
    if weights == "many":
        assert not vpo.advantages("cancelled", R).any()


RETURNED = {  # by a method of a reader's own, for R (2, 4, 3, 3)
    "no pair": (lambda R: R[..., 0, 0], "each (2, 4); for scores alone write method(z_score=True)"),
    "one per answer": (lambda R: (R[..., 0, 0], R[..., 0]), "has shape (2, 4, 3): expected (2, 4)"),
    "one per prompt": (lambda R: (R[:, 0, 0, 0],) * 2, "has shape (2,): expected (2, 4)"),
    "NaN": (
        lambda R: (R[..., 0, 0], R[..., 0, 0] * np.nan),
        "advantage of method 'mine' holds 8 v",
    ),
    "nothing": (lambda R: (R[:0, 0, 0, 0],) * 2, "has shape (0,): expected (2, 4)"),
    "too much": (lambda R: (R[..., 0, 0], 0 * R[..., 0, 0] - 2e30), "is up to 2e+30: a loss in fl"),
}


@pytest.mark.parametrize("returned, words", RETURNED.values(), ids=RETURNED)
def test_what_a_method_of_ones_own_returns_is_checked(returned, words):
    """One advantage per answer went into training, and its rows into other rollouts."""

    @estimators.method()
    def mine(R, **_):
        return returned(R)

    with pytest.raises(ValueError) as error:
        estimators.estimate("mine", R3)
    assert words in str(error.value) and "'mine'" in str(error.value)


def test_a_method_of_scores_alone_returns_nothing_else():
    @estimators.method(z_score=True)
    def paired(R, **_):
        return R[..., 0, 0], R[..., 0, 0]

    with pytest.raises(ValueError, match=r"'paired' returned shape \(2, 2, 4\): .* alone, \(2, "):
        estimators.estimate("paired", R3)


def test_a_method_of_ones_own_has_a_name_of_its_own():
    """A second "grpo" would train under the name of the first."""

    def grpo(R, **_):
        return np.zeros(R.shape[:2]), np.zeros(R.shape[:2])

    with pytest.raises(ValueError, match=r"'grpo' of vpo_lite\.estimators is there already: give"):
        estimators.method()(grpo)
    grpo.__name__ = "my_grpo"
    assert estimators.method()(estimators.method()(grpo)) is grpo  # its cell may run again
    elsewhere = types.FunctionType(grpo.__code__, {"__name__": "others"}, "my_grpo")
    with pytest.raises(ValueError, match=f"method 'my_grpo' of {__name__} is there already"):
        estimators.method()(elsewhere)
    in_a_cell = types.FunctionType(grpo.__code__, {"__name__": "__main__"}, "moved")
    moved = types.FunctionType(grpo.__code__, {"__name__": "others"}, "moved")
    estimators.method()(in_a_cell)
    assert estimators.method()(moved) is estimators.METHODS["moved"].estimate  # cell became a file
    with pytest.raises(ValueError, match="weights = 'several': expected one of none, one, many"):
        estimators.method(weights="several")(grpo)
    with pytest.raises(ValueError, match="z_score = 'no': expected True or False"):
        estimators.method(z_score="no")


def test_what_a_method_lacks_is_said_when_it_is_registered():
    with pytest.raises(ValueError, match="method 'bare' must take \\*\\*_ as its last parameter"):

        @estimators.method()
        def bare(R, eps):
            return R[..., 0, 0], R[..., 0, 0]

    with pytest.raises(ValueError, match="method 'typo' = 'wstar': expected one of weights, alpha"):

        @estimators.method()
        def typo(R, *, wstar, temperature=0.1, **_):
            return R[..., 0, 0], R[..., 0, 0]

    with pytest.raises(ValueError, match="'singel_answer': expected one of single_answer, weights"):
        estimators.method(singel_answer=True)
    with pytest.raises(ValueError, match=r"^method\(<function .*write @method\(\), with parenth"):

        @estimators.method
        def zero(R, **_):
            return np.zeros(R.shape[:2]), np.zeros(R.shape[:2])

    assert not {"zero", "typo"} & set(estimators.METHODS)

    @estimators.method()
    def warm(R, w_star, *, temperature=0.1, **_):
        return estimators.scalar(R, w_star)[..., 0], np.full(R.shape[:2], temperature)

    assert (vpo.advantages("warm", R3) == 0.1).all()


def test_a_method_of_ones_own_gets_the_weights_of_each_prompt_and_its_errors_name_it():
    seen = []

    @estimators.method(weights="many")
    def own(R, *, weights, **_):
        seen.append((R.shape, weights.shape))
        return (score := np.einsum("pgmd,pkd->pg", R, weights)), score

    W = rng(1).dirichlet(np.ones(2), size=7)
    vpo.advantages("own", rng(2).random((3, 4, 2, 2)), weights=W)
    vpo.advantages("own", rng(2).random((3, 2, 2)), weights=W, groups=["a", "b", "a"])
    assert seen == [((3, 4, 2, 2), (3, 7, 2)), ((1, 2, 2, 2), (1, 7, 2)), ((1, 1, 2, 2), (1, 7, 2))]

    @estimators.method()
    def large(R, **_):
        raise MemoryError("too large")

    with pytest.raises(MemoryError, match=r"^too large$"):
        vpo.advantages("large", R3)

    @estimators.method()
    def faulty(R, **_):
        return np.ones(3) + np.ones(4), None

    line = faulty.__code__.co_firstlineno + 2
    with pytest.raises(
        ValueError,
        match=rf"method 'faulty' raised ValueError: .*\(test_estimators.py, line {line}\)",
    ):
        vpo.advantages("faulty", R3)


def test_a_method_of_ones_own_trains_though_the_settings_were_loaded_before_it(
    small_config,
):
    """Its choices were those of the moment in which TrainConfig was loaded."""

    @estimators.method()
    def zero(R, **_):
        return np.zeros(R.shape[:2]), np.zeros(R.shape[:2])

    (record,) = vpo.train(small_config.but(method="zero", steps=1))
    assert (record.method, record.score, record.silent_groups) == ("zero", 0, 1)
    with pytest.raises(ValueError, match=r"unknown method 'none of them': there are vpo, .*, zero"):
        small_config.but(method="none of them")


# ---- properties ----

steps = arrays(np.float64, (2, 5, 1, 3), elements=st.integers(0, 16).map(lambda x: x / 16))


@pytest.mark.slow
@settings(max_examples=40)
@given(R=steps, order=st.permutations(range(5)), method=st.sampled_from(list(vpo.METHODS)))
def test_the_order_of_rollouts_does_not_matter(R, order, method):
    W = rng(1).dirichlet(np.ones(3), size=(2, 1))
    A = vpo.advantages(method, R, weights=W)
    assert vpo.advantages(method, R[:, order], weights=W) == pytest.approx(A[:, order], abs=1e-9)


@pytest.mark.slow
@settings(max_examples=40)
@given(R=steps, shift=st.integers(0, 5), factor=st.sampled_from([0.5, 3.0]))
def test_the_unit_and_zero_of_the_rewards_do_not_matter_to_a_z_score(R, shift, factor):
    W = rng(1).dirichlet(np.ones(3), size=(2, 1))
    for method in (
        "vpo",
        "grpo",
        "multi_rlvr",
        "set_max",
        "gdpo",
        "random_weighting",
        "goal_conditioned",
    ):
        A = vpo.advantages(method, R, weights=W, eps=0)
        assert vpo.advantages(method, factor * R + shift, weights=W, eps=0) == pytest.approx(
            A, abs=1e-7
        )


# ---- errors ----

R1, R3 = np.ones((2, 4, 1, 3)), np.ones((2, 4, 3, 3))
BF16 = torch.ones(2, 4, 3, 3, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: vpo.advantages("ppo", R1), "method = 'ppo'"),
        (lambda: vpo.advantages("vpo", R3[0]), "R has shape (4, 3, 3)"),
        (lambda: vpo.advantages("vpo", R3[0]), "(N, m, d), give groups="),
        (lambda: vpo.advantages("vpo", None), "R is None"),
        (lambda: vpo.advantages("vpo", np.ones((2, 0, 3, 3))), "R has shape (2, 0, 3, 3)"),
        (lambda: vpo.advantages("vpo", np.ones((2, 4, 0, 3))), "R has shape (2, 4, 0, 3)"),
        (lambda: vpo.advantages("vpo", R3 * np.nan), "R holds 72 values"),
        (
            lambda: vpo.advantages("vpo", [[[[1.0, 0.0]], [[0.5, np.nan]]]]),
            "R[0] holds 1 values that are NaN or infinite, the first at [1, 0, 1]; all must be fin",
        ),
        (lambda: vpo.advantages("vpo", BF16), "R holds BFloat16, a type that NumPy lacks: give "),
        (lambda: vpo.advantages("vpo", list(BF16)), "R[0] holds BFloat16"),
        (lambda: vpo.advantages("vpo", R3, weights=BF16), "weights holds BFloat16"),
        (
            lambda: vpo.advantages("vpo", R3, weights=[np.ones((5, 3)), np.ones((6, 3))]),
            "weights: expected an array of numbers, rows of equal length; give each prompt the sam",
        ),
        (
            lambda: vpo.advantages("vpo", torch.ones(2, 4, 3, 3, requires_grad=True)),
            "R has gradients, or is not on the CPU: give its .detach().cpu()",
        ),
        (
            lambda: vpo.advantages("vpo", list(torch.ones(2, 4, 3, 3, device="meta"))),
            "R[0] has gradients, or is not on the CPU: give its .detach().cpu()",
        ),
        (
            lambda: vpo.advantages("vpo", [[[[1, 0], [0, 1]], [[1, 0]]]] * 2),
            "R[0]: expected an array of numbers, rows of equal length; let a missing answer have t",
        ),
        (
            lambda: vpo.advantages("vpo", R3, weights=np.ones((3, 5, 3))),
            "weights has shape (3, 5, 3): vpo needs (K, 3) for each prompt, or for all; R has",
        ),
        (lambda: vpo.advantages("vpo", R3, weights=np.ones((0, 3))), "weights has shape (0, 3)"),
        (
            lambda: vpo.advantages("vpo", R3, weights=[[[1, 0, 0]], [[0.5, -0.25, 0.75]]]),
            "weights holds 1 negative numbers, the first -0.25 in row [1, 0]: give weights of at",
        ),
        (
            lambda: vpo.advantages("random_weighting", R1, weights=-np.ones((2, 1, 3))),
            "weights holds 6 negative numbers, the first -1 in row [0, 0]",
        ),
        (
            lambda: vpo.advantages(
                "vpo",
                R3[0],
                groups="aabb",
                weights={"a": 2 * [[1, 0, 0]], "b": [[0, 0, 1], [1, 1, -1]]},
            ),
            "group 'b': weights holds 1 negative numbers, the first -1 in row [1]",
        ),
        (
            lambda: vpo.advantages("vpo", R3, weights=np.zeros((5, 3))),
            "weights holds nothing but zeros: all scores would be equal",
        ),
        (
            lambda: vpo.advantages("vpo", R3, weights=[[[0, 1, 0]], [[0, 0, 0]]]),
            "weights holds nothing but zeros for prompt 1: all scores",
        ),
        (
            lambda: vpo.advantages("random_weighting", R1, weights=np.zeros((2, 1, 3))),
            "weights holds nothing but zeros: all",
        ),
        (
            lambda: vpo.advantages("grpo", R1, w_star=[[0, 0, 0], [0, 1, 0]]),
            "w_star holds nothing but zeros for prompt 0: all scores",
        ),
        (
            lambda: vpo.advantages(
                "set_max", R3[0], groups="aabb", w_star={"a": [1] * 3, "b": [0] * 3}
            ),
            "group 'b': w_star holds nothing but zeros: all scores",
        ),
        (lambda: vpo.advantages("vpo", R3, alpha=-1), "alpha = -1"),
        (lambda: vpo.advantages("grpo", R3), "m = 1, not m = 3"),
        (lambda: vpo.advantages("grpo", R1, w_star=[1, 0]), "w_star has shape (2,)"),
        (lambda: vpo.advantages("grpo", R1, eps=-1), "eps = -1"),
        (lambda: vpo.advantages("grpo", R1, eps=np.nan), "eps = nan"),
        (lambda: vpo.advantages("max_at_k", R1, k=4), "k = 4"),
        (lambda: vpo.advantages("max_at_k", R1, k=0), "k = 0"),
        (lambda: vpo.advantages("max_at_k", R1[:, :1]), "G = 1"),
        (lambda: vpo.advantages("maxrl", -R1), "rewards >= 0"),
        (lambda: vpo.advantages("maxrl", [[[[-1.0]], [[1.0]]]]), "rewards >= 0"),
        (lambda: vpo.advantages("random_weighting", R1), "weights is missing"),
        (
            lambda: vpo.advantages("goal_conditioned", R1, weights=np.ones((2, 7, 3))),
            "weights has shape (2, 7, 3)",
        ),
        (
            lambda: vpo.advantages("vpo", [R3[0], R3[0, :, :, :2]], weights=np.ones((3, 5, 3))),
            "weights has shapes [(5, 3), (5, 3), (5, 3)]: expected one array (K, d) for all, or a "
            "list of 2, one for each prompt or group",
        ),
        (
            lambda: vpo.advantages("vpo", [R3[0], R3[0, :, :, :2]], weights=np.ones((2, 5, 3))),
            "prompt 1: weights has shape (5, 3): vpo needs (K, 2) for each prompt",
        ),
        (  # what it asks for is what helps
            lambda: vpo.advantages("random_weighting", np.ones((4, 1, 2)), groups="aaaa"),
            "group 'a': weights is missing: random_weighting needs one row of sample_weights, "
            "(1, 2), for each prompt",
        ),
        (
            lambda: vpo.advantages("set_max", R3[0], groups=[0, 0, 1, 1], w_star=[0.5, 0.5]),
            "w_star has shape (1, 2)",
        ),
        (
            lambda: vpo.advantages("max_at_k", R1[0], groups="aaab"),
            "group 'b': G = 1: max_at_k compares a rollout with the others",
        ),
        (
            lambda: vpo.advantages("set_max", R3[0], groups=[0, 0, 1, 1], w_star=0.5),
            "w_star has shape ()",
        ),
        (
            lambda: vpo.advantages("set_max", R3[0], groups=[0, 0, 1, 1], w_star=[[1, 0, 0]] * 3),
            "w_star has shapes [(3,), (3,), (3,)]: expected one array (d,) for all, or a list of 2",
        ),
        (
            lambda: vpo.advantages("vpo", R3[0], groups="aabb", weights={"a": [[1, 0, 0]]}),
            "weights has no entry for group 'b'",
        ),
        (
            lambda: vpo.advantages("vpo", R3[:1], groups="aabb"),
            f"R has shape {R3[:1].shape}: with groups= expected (N, m, d), with a row for each",
        ),
        (
            lambda: vpo.advantages("vpo", [R3[0, 0], R3[0, 0, 0]], groups="ab"),
            "R[1] has shape (3,): with groups= expected (m, d)",
        ),
        (lambda: vpo.advantages("vpo", [R3[0], R3[0, :3]]), "same G"),
        (lambda: vpo.advantages("gdpo", R3, whiten="no"), "whiten = 'no': expected True or False"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["vpo", "grpo", "set_max"])
def test_an_objective_that_no_answer_of_a_prompt_earns_changes_no_advantage(method):
    """As where a reward function of several does not concern this prompt."""
    R = np.random.default_rng(0).random((2, 6, 1 if method == "grpo" else 3, 2))
    more = np.concatenate([R, np.zeros((*R.shape[:3], 1))], axis=3)
    found, expected = (vpo.advantages(method, one, eps=1e-12) for one in (more, R))
    np.testing.assert_allclose(found, expected, atol=1e-9)
