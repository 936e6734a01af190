"""From reward matrices to advantages: VPO and every baseline, each one short function.

    R (P, G, m, d)  ->  score (P, G)  ->  advantage (P, G)

P prompts, G rollouts of each, m answers in a rollout, d objectives. The score is the one number that a method sees of a
rollout; the advantage compares it with the other rollouts of the same prompt and multiplies the log-probability of
every token of the rollout. Methods differ in these few lines and nowhere else.

Sources: VPO 2605.22817; GRPO 2402.03300; Multi-RLVR 2603.24844; max@k 2510.23393, 2505.15201 (PKPO), 2606.06080;
GDPO (NVlabs), as in 2605.22817; MaxRL 2602.02710 (all arXiv numbers).
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from ._checks import check_finite, check_rewards, check_whole
from .objective import exact_set_reward, set_reward

FLOOR = 1e-9  # a group whose scores spread less than this says nothing: its advantages are exactly 0


class Estimate(NamedTuple):
    """What a method makes of one step: `score` (P, G) before the group comparison, `advantage` (P, G) after it."""

    score: np.ndarray
    advantage: np.ndarray


@dataclass(frozen=True)
class Method:
    """One row of the table of methods."""

    name: str
    estimate: Callable  # (R, *, weights, alpha, w_star, k, eps) -> (score, advantage)
    single_answer: bool = False  # the number is defined for one answer a rollout: the method forces m = 1
    weights: str = "none"  # weightings to draw for each prompt group: "none", "one" (P, 1, d), or "many" (P, K, d)
    weight_in_prompt: bool = False  # the policy is shown its weighting


METHODS: dict[str, Method] = {}  # by name, in the order of the table


def method(**properties):
    """Register the decorated function as a method under its own name; `properties` are fields of `Method`.

    The function takes R (P, G, m, d) and the keyword arguments it needs out of weights, alpha, w_star (d,) or (P, d),
    k and eps, swallows the rest, and returns (score, advantage), both (P, G).
    """

    def register(function):
        METHODS[function.__name__] = Method(function.__name__, function, **properties)
        return function

    return register


def advantages(method, R, *, weights=None, alpha=1.0, w_star=None, k=None, eps=1e-6):
    """The advantage of every rollout under `method`, one of METHODS.

    R        (P, G, m, d) rewards, or a list of P arrays (G, m, d_p) where d differs from prompt to prompt (then
             `weights` and `w_star` are lists of P as well). Methods with `single_answer` need m = 1.
    weights  for `vpo` (P, K, d), or (K, d) for all prompts: drawn once per prompt and shared by its G rollouts; None
             takes the exact expectation over w ~ Dir(alpha). ((P, G, K, d) would give each rollout its own, and the
             advantages would be noise.) For `random_weighting` and `goal_conditioned` (P, 1, d):
             one fresh weighting per prompt, the same for its G rollouts, since only rollouts of one prompt (with the
             weighting that stands in it) can be compared. The other methods ignore it.
    alpha    Dirichlet concentration of the exact expectation.
    w_star   (d,) or (P, d), the task's fixed weights; None means 1/d each.
    k        budget of `max_at_k`, 1 <= k <= G - 1; None means max(2, G // 2), at most G - 1.
    eps      added to the standard deviation (or mean) that divides.

    Returns float64 (P, G). A group whose scores have a standard deviation below 1e-9 gets exactly 0.

    >>> R = [[[[1, 0], [0, 1]], [[1, 0], [1, 0]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]]]       # only the first covers
    >>> advantages("vpo", R).round(2).tolist()
    [[1.73, -0.58, -0.58, -0.58]]
    >>> advantages("multi_rlvr", R).tolist()
    [[0.0, 0.0, 0.0, 0.0]]
    """
    return estimate(method, R, weights=weights, alpha=alpha, w_star=w_star, k=k, eps=eps).advantage


def rollout_scores(method, R, *, weights=None, alpha=1.0, w_star=None):
    """The one number per rollout before the group comparison, (P, G); arguments as for `advantages`.

    >>> rollout_scores("vpo", [[[[1, 0], [0, 1]], [[1, 0], [1, 0]]]]).tolist()
    [[0.75, 0.5]]
    """
    return estimate(method, R, weights=weights, alpha=alpha, w_star=w_star).score


def estimate(method, R, *, weights=None, alpha=1.0, w_star=None, k=None, eps=1e-6):
    """Score and advantage of every rollout in one go; arguments as for `advantages`."""
    if method not in METHODS:
        raise ValueError(f"method = {method!r}: expected one of {', '.join(METHODS)}")
    if not (isinstance(eps, Real) and 0 <= eps < np.inf):
        raise ValueError(f"eps = {eps!r}: expected a finite number of at least 0")
    if isinstance(R, (list, tuple)) and len({np.shape(r) for r in R}) > 1:  # d differs: one prompt at a time
        if len({np.shape(r)[:1] for r in R}) > 1:
            raise ValueError(f"R holds groups of {[len(r) for r in R]} rollouts: expected the same G for all prompts")
        each = zip(R, _per_prompt(weights, "weights", len(R)), _per_prompt(w_star, "w_star", len(R)), strict=True)
        parts = [
            estimate(method, [r], weights=None if W is None else [W], alpha=alpha, w_star=w, k=k, eps=eps)
            for r, W, w in each
        ]
        return Estimate(*(np.concatenate(x) for x in zip(*parts, strict=True)))
    R = check_rewards(R)
    if R.ndim != 4 or R.shape[1] == 0:
        raise ValueError(f"R has shape {R.shape}: expected (P, G, m, d), or a list of P arrays (G, m, d_p)")
    P, _, m, d = R.shape
    if METHODS[method].single_answer and m != 1:
        raise ValueError(f"R has shape {R.shape}: {method} is defined for one answer a rollout, m = 1, not m = {m}")
    if METHODS[method].weights == "one" and np.shape(weights) != (P, 1, d):
        given = "is missing" if weights is None else f"has shape {np.shape(weights)}"
        raise ValueError(f"weights {given}: {method} needs shape {(P, 1, d)}, one row of sample_weights per prompt")
    w_star = np.full(d, 1 / d) if w_star is None else check_finite(w_star, "w_star", 1)
    if w_star.shape not in {(d,), (P, d)}:
        raise ValueError(f"w_star has shape {w_star.shape}: expected {(d,)} or {(P, d)}")
    w_star = np.broadcast_to(w_star, (P, d))
    return Estimate(*METHODS[method].estimate(R, weights=weights, alpha=alpha, w_star=w_star, k=k, eps=eps))


# ---- the methods ----


@method(weights="many")
def vpo(R, *, weights, alpha, eps, **_):
    """U_hat = (1/K) sum_j max_i w_j . r_i: the max stands inside the mean, so different answers pay (2605.22817)."""
    U = exact_set_reward(R, alpha) if weights is None else set_reward(R, weights)
    return U, zscore(U, eps)


@method(single_answer=True)
def grpo(R, *, w_star, eps, **_):
    """w* . r of the one answer (2402.03300)."""
    r = scalar(R, w_star)[..., 0]
    return r, zscore(r, eps)


@method()
def multi_rlvr(R, *, w_star, eps, **_):
    """The sum of w* . r over the m answers: VPO's prompt, but the best answer m times over is best (2603.24844)."""
    r = scalar(R, w_star).sum(axis=-1)
    return r, zscore(r, eps)


@method(single_answer=True)
def max_at_k(R, *, w_star, k, **_):
    """How much an answer raises the best of k (2510.23393): see `max_at_k_advantage`."""
    r = scalar(R, w_star)[..., 0]
    return r, max_at_k_advantage(r, k)


@method(single_answer=True)
def gdpo(R, *, w_star, eps, **_):
    """Each component is compared on its own, then averaged: no objective drowns another (GDPO, as in 2605.22817)."""
    components = np.moveaxis(R[..., 0, :], -1, 0)
    return scalar(R, w_star)[..., 0], zscore(components, eps).mean(axis=0)


@method(single_answer=True)
def maxrl(R, *, w_star, eps, **_):
    """(r - mean) / (mean + eps): rare successes weigh more (2602.02710). Rewards must not be negative."""
    r = scalar(R, w_star)[..., 0]
    if (r < 0).any():
        raise ValueError(f"R gives the scalar reward {r.min():g}: maxrl divides by the mean, so it needs rewards >= 0")
    mean = r.mean(axis=-1, keepdims=True)
    return r, np.where(_flat(r), 0.0, (r - mean) / (mean + max(eps, 1e-300)))


@method(single_answer=True, weights="one")
def random_weighting(R, *, weights, eps, **_):
    """w . r with one fresh w ~ Dir(alpha) per prompt that the policy never sees (an ablation of 2605.22817)."""
    r = set_reward(R, weights)
    return r, zscore(r, eps)


@method(single_answer=True, weights="one", weight_in_prompt=True)
def goal_conditioned(R, *, weights, eps, **_):
    """The same number, but w is written into the prompt (an ablation of 2605.22817)."""
    r = set_reward(R, weights)
    return r, zscore(r, eps)


# ---- what they are made of ----


def scalar(R, w_star):
    """w* . r of every answer: R (P, G, m, d), w_star (P, d) -> (P, G, m)."""
    return np.einsum("pgmd,pd->pgm", R, w_star)


def zscore(x, eps=1e-6):
    """(x - mean) / (std + eps) over the last axis with the population std; exactly 0 where std < 1e-9.

    >>> zscore(np.array([[0.2, 0.9], [0.35, 0.35]]), eps=0).round(6).tolist()        # two rollouts: always -1 and 1
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.where(_flat(x), 0.0, centred / (x.std(axis=-1, keepdims=True) + max(eps, 1e-300)))


def max_at_k_advantage(r, k=None):
    """Mean of the max over the k-subsets with rollout i, minus the mean over those without: r (P, G) -> (P, G).

    Leave-one-out: the second mean is a baseline that does not depend on rollout i. No std. With r sorted upwards and
    the others numbered as if i were gone, other j is the max of a random subset with probability `max_weights`.
    Source: 2510.23393, 2505.15201.

    >>> max_at_k_advantage(np.array([[0.0, 0.0, 1.0]]), k=2).round(6).tolist()
    [[-0.5, -0.5, 1.0]]
    """
    G = r.shape[-1]
    k = min(max(2, G // 2), G - 1) if k is None else k
    if G < 2:
        raise ValueError(f"G = {G}: max_at_k compares a rollout with the others, so it needs at least 2 in a group")
    check_whole(k, "k", most=G - 1)
    order = r.argsort(axis=-1)
    r_sorted = np.take_along_axis(r, order, axis=-1)
    company = np.append(0.0, max_weights(G - 1, k - 1))  # other j > i has place j - 1 among the others
    with_i = r_sorted + _sum_above(r_sorted * company) - r_sorted * _sum_above(company)  # r_i + E (max others - r_i)^+
    rivals = max_weights(G - 1, k)
    without_i = _sum_below(r_sorted * np.append(rivals, 0.0)) + _sum_above(r_sorted * np.append(0.0, rivals))
    advantage = np.empty_like(r_sorted)
    np.put_along_axis(advantage, order, with_i - without_i, axis=-1)
    return np.where(_flat(r), 0.0, advantage)


def max_weights(n, k):
    """The probability that the j-th smallest of n is the max of a random k-subset: C(j, k-1) / C(n, k), j = 0..n-1.

    By recurrence from the top, where it is k / n, so nothing overflows.

    >>> max_weights(4, 2).round(6).tolist()                                        # of 6 pairs: 0, 1, 2, 3
    [0.0, 0.166667, 0.333333, 0.5]
    """
    j = np.arange(n - 1, 0, -1)
    return np.cumprod(np.append(k / n, np.maximum(j - k + 1, 0) / j))[::-1]


def _sum_below(x):
    """For each i the sum of x_j over j < i."""
    return np.cumsum(x, axis=-1) - x


def _sum_above(x):
    """For each i the sum of x_j over j > i."""
    return np.flip(np.cumsum(np.flip(x, axis=-1), axis=-1), axis=-1) - x


def _flat(x):
    return x.std(axis=-1, keepdims=True) < FLOOR


def _per_prompt(values, name, P):
    if values is None:
        return [None] * P
    if not isinstance(values, (list, tuple)) or len(values) != P:
        raise ValueError(f"{name}: R is a list of {P} prompts of different shape, so a list of {P} arrays is expected")
    return values
