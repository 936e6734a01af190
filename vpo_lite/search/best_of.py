"""Best-of-n: draw n answers and keep the best. VPO's diversity serves this search.

A user has a preference: weights w over the objectives. A search of k answers finds max w . r
among them. ``best@k`` is the expected maximum. k counts answers, never rollouts: a rollout of
three answers is k = 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..checks import LARGEST, check_finite, check_flags, check_number, check_rewards
from ..estimators import max_weights

ROUNDING = 1e-9  # of an answer: 3 * 1.4 / 1.4 is a little less than 3
EQUAL = 1e-12  # of the largest value: values that differ by no more count as equal

__all__ = ["at_tokens", "best_at", "choose", "crossing", "rollout_best_at", "solved_at"]


def choose(rewards: ArrayLike, weights: ArrayLike) -> np.ndarray:
    """The index of the best answer under each preference: argmax_i w . r_i.

    rewards (n, d), weights (..., d). Returns indices (...); of equal scores the first. Raises
    ValueError for other shapes, and for values that are not finite.

    >>> choose([[1, 0], [0, 1], [0.6, 0.6]], [[0.9, 0.1], [0.5, 0.5]]).tolist()
    [0, 2]
    """
    return _scores(rewards, weights).argmax(axis=-1)


def best_at(rewards: ArrayLike, weights: ArrayLike) -> np.ndarray:
    """best@k for k = 1 .. n: the expected best score of k answers drawn from the pool.

    rewards (n, d), weights (..., d). Returns (..., n): for each k the mean of max w . r over all
    k-subsets, sum_j C(j, k - 1) / C(n, k) s_j of the sorted scores s_0 <= .. <= s_(n - 1). It is
    unbiased for k new answers that are independent of each other, as with m = 1. Answers of one
    rollout are not: of policies that write sets compare pools of one size. The last entry is the
    best score of the whole pool. Raises ValueError for other shapes. Source: the pass@k estimator
    of arXiv 2107.03374, for real scores.

    >>> best_at([[1, 0], [0, 1]], [0.75, 0.25]).tolist()  # one answer: the mean; two: the better
    [0.5, 0.75]
    """
    scores = np.sort(_scores(rewards, weights), axis=-1)
    return scores @ _subset_maxima(scores.shape[-1]).T


def rollout_best_at(rewards: ArrayLike, weights: ArrayLike) -> np.ndarray:
    """best@m, best@2m, ..: as :func:`best_at`, but whole rollouts are drawn, as in the paper.

    rewards (G, m, d), weights (..., d). Returns (..., G): entry j is for j + 1 rollouts, that is
    (j + 1) m answers. Diverse answers within rollouts score higher here than in :func:`best_at`,
    which mixes the rollouts. Raises ValueError for other shapes.

    >>> twice = [[[1, 0], [0, 1]], [[1, 0], [0, 1]]]
    >>> rollout_best_at(twice, [0.75, 0.25]).tolist()  # one rollout holds the better answer already
    [0.75, 0.75]
    >>> best_at(np.reshape(twice, (4, 2)), [0.75, 0.25])[1].round(4).item()
    0.6667
    """
    rewards = check_rewards(rewards, "rewards")
    if rewards.ndim != 3:
        raise ValueError(f"rewards has shape {rewards.shape}: expected rollouts (G, m, d)")
    scores = _scores(rewards.reshape(-1, rewards.shape[-1]), weights)
    best = np.sort(scores.reshape(*scores.shape[:-1], *rewards.shape[:2]).max(axis=-1), axis=-1)
    return best @ _subset_maxima(best.shape[-1]).T


def solved_at(solved: ArrayLike) -> np.ndarray:
    """pass@k for k = 1 .. n: the probability that at least one of k answers solves the problem.

    solved (n,): booleans, or 0 and 1. Returns (n,), the best@k of scores 0 and 1. Raises ValueError
    for other shapes and values. Source: arXiv 2107.03374.

    >>> solved_at([True, False, False, False])[:2].tolist()
    [0.25, 0.5]
    """
    solved = check_flags(solved, "solved")
    if solved.ndim != 1:
        raise ValueError(
            f"solved has shape {solved.shape}: expected one flag for each answer, (n,)"
        )
    return best_at(solved[:, None].astype(float), [1.0])


def at_tokens(curve: ArrayLike, tokens_per_answer: float, budgets: ArrayLike) -> np.ndarray:
    """A curve over k = 1 .. n as a curve over tokens: what a budget of tokens buys.

    curve (..., n), tokens_per_answer > 0, budgets (b,) in tokens. Returns (..., b): the value at
    k = floor(budget / tokens_per_answer), NaN for a budget below one answer or beyond n answers.
    ``tokens_per_answer`` of `evaluate` counts sampled tokens, not those of the prompt.
    Raises ValueError for an empty curve, and for values that are not finite.

    >>> at_tokens([0.2, 0.5], tokens_per_answer=10, budgets=[5, 10, 25]).tolist()
    [nan, 0.2, 0.5]
    """
    curve, budgets = _curve(curve, "curve"), check_finite(budgets, "budgets", 0)
    if budgets.ndim != 1:
        raise ValueError(f"budgets has shape {budgets.shape}: expected a list of them, (b,)")
    least = 1 / LARGEST  # so that no quotient overflows
    expected = f"a number above 0, {least:g} to {LARGEST:g}"
    tokens = check_number(tokens_per_answer, "tokens_per_answer", expected, least, LARGEST)
    n = curve.shape[-1]
    k = np.floor(np.clip(budgets / tokens + ROUNDING, 0, n + 1)).astype(int)
    return np.where((k >= 1) & (k <= n), curve[..., np.clip(k, 1, n) - 1], np.nan)


def crossing(first: ArrayLike, second: ArrayLike) -> int | None:
    """The least k from which the first curve stays above the second; None where it never does.

    first, second (n,): best@k for k = 1 .. n. Values that differ by rounding, 1e-12 of the largest
    value of both curves, count as equal. Raises ValueError for curves that are not finite or not
    equally long.

    >>> crossing([0.1, 0.5, 0.9], [0.3, 0.4, 0.5]), crossing([0.1, 0.2], [0.3, 0.3])
    (2, None)
    """
    first, second = _curve(first, "first"), _curve(second, "second")
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"first has shape {first.shape}, second {second.shape}: expected two curves over the "
            "same k = 1 .. n, (n,)"
        )
    above = first - second > EQUAL * np.abs([first, second]).max()
    below = np.flatnonzero(~above)
    start = below[-1] + 1 if len(below) else 0
    return int(start) + 1 if start < len(above) else None


def _curve(values, name):
    """Values over k = 1 .. n, (..., n), with n at least 1."""
    values = check_finite(values, name, 0)
    if not values.ndim or not values.shape[-1]:
        raise ValueError(
            f"{name} has shape {values.shape}: expected values for k = 1 .. n, (..., n)"
        )
    return values


def _scores(rewards, weights):
    rewards, weights = check_rewards(rewards, "rewards"), check_finite(weights, "weights", 1)
    if rewards.ndim != 2 or weights.shape[-1] != rewards.shape[-1]:
        raise ValueError(
            f"rewards has shape {rewards.shape}, weights {weights.shape}: expected one pool (n, d) "
            "and preferences (..., d)"
        )
    return weights @ rewards.T


def _subset_maxima(n):
    """Row k - 1: the share of the k-subsets in which the j-th smallest is the largest."""
    return np.stack([max_weights(n, k) for k in range(1, n + 1)])
