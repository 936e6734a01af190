"""Vector Policy Optimization (arXiv 2605.22817) scores a SET of answers by its best answer.

    U(S) = E_{w ~ Dir(alpha)} [ max_{y in S} w . r(y) ]

The weights w say how much each objective counts. For every w the set is scored by the answer that
is best for that w, because the max stands INSIDE the mean. So a set gains from answers that suit
different w, and gains nothing from a repeated answer.

Letters: m answers in a set, d objectives, K weight vectors drawn. R (..., m, d) is a reward
matrix, W (K, d) holds the weights.

This file draws weights (`sample_weights`), averages over them (`set_reward`) and names the winners
(`winners`). The same without sampling noise is in `exact.py`.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, gammaln

from .checks import (
    MOST_OBJECTIVES,
    MOST_VALUES,
    check_alpha,
    check_choice,
    check_drawn,
    check_rewards,
    check_rng,
    check_weights,
    check_whole,
)

BLOCK = 2**22  # numbers that are worked on at once, so that memory is bounded


def sample_weights(
    K: int, d: int, alpha: float = 1.0, *, rng: np.random.Generator, method: str = "iid"
) -> np.ndarray:
    """Draw K weight vectors for d objectives from the symmetric Dirichlet, w ~ Dir(alpha).

    Returns float64 (K, d). Each row is at least 0 and adds up to 1.

    alpha   from 1e-6 to 1e6. 1 is uniform on the simplex. A small alpha puts most weight on one
            objective. A large alpha weights all objectives about equally.
    rng     a `numpy.random.Generator`.
    method  "iid" draws independent rows. "sobol" spreads the rows evenly (scrambled Sobol points):
            every row has the same distribution, and the mean over rows is less noisy. It is best
            when K is a power of 2, and needs alpha >= 0.01.

    Raises ValueError for K < 1, d < 1 or > 4,096, K d above 67,108,864, an alpha or method that is
    not listed, and another kind of rng.
    Source: 2605.22817 (iid) and its public code (Sobol).

    >>> W = sample_weights(4, 3, rng=np.random.default_rng(0))
    >>> W.shape, bool(np.allclose(W.sum(axis=1), 1))
    ((4, 3), True)
    """
    check_whole(K, "K")
    check_whole(d, "d", most=MOST_OBJECTIVES)
    check_drawn(K, d)
    alpha = check_alpha(alpha)
    check_choice(method, "method", ("iid", "sobol"))
    check_rng(rng)
    if method == "iid":
        return rng.dirichlet(np.full(d, alpha), size=K)
    if sampling_method(alpha) == "iid":
        raise ValueError(f"alpha = {alpha}: Sobol weights underflow below 0.01; use method='iid'")
    if d == 1:
        return np.ones((K, 1))
    dimensions = d - 1 if alpha == 1 else d
    u = _sobol_points(K, dimensions, rng=rng)
    if alpha == 1:  # the gaps between d - 1 sorted uniforms are uniform on the simplex
        return np.diff(np.sort(u, axis=1), axis=1, prepend=0.0, append=1.0)
    for rows in np.array_split(u, -(-u.size // BLOCK)):
        rows[:] = _dirichlet(rows, alpha)
    return u


def sampling_method(alpha: float) -> str:
    """The method of `sample_weights` that has less noise at this alpha.

    >>> sampling_method(0.01), sampling_method(0.009)  # Sobol weights underflow below 0.01
    ('sobol', 'iid')
    """
    return "sobol" if alpha >= 0.01 else "iid"


def _sobol_points(K: int, dimensions: int, *, rng: np.random.Generator) -> np.ndarray:
    """K scrambled Sobol points (K, dimensions) in the unit cube: those that weights are made of."""
    from scipy.stats import qmc  # half of the time of `import vpo_lite`, and needed here alone

    scrambling = np.random.default_rng(rng.integers(2**63))  # SciPy spawns from it; not all can
    return qmc.Sobol(dimensions, seed=scrambling).random_base2(int(K - 1).bit_length())[:K]


def _dirichlet(u, alpha):
    """Points of the unit cube (K, d) as weights: normalised Gamma(alpha) variables are Dirichlet.

    They are taken in logs, since at small alpha they underflow.
    """
    u = np.maximum(u, 2.0**-32)
    gamma = gammaincinv(alpha, u)
    # near 0, P(g) = g^alpha / Gamma(alpha + 1)
    log_small = (np.log(u) + gammaln(alpha + 1)) / alpha
    log_gamma = np.where(gamma > 1e-100, np.log(np.maximum(gamma, 1e-100)), log_small)
    W = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return W / W.sum(axis=1, keepdims=True)


def set_reward(R: ArrayLike, W: ArrayLike) -> np.ndarray:
    """The sampled set reward, (1/K) sum_j max_i w_j . r_i: the one number VPO gives to a rollout.

    R (..., m, d), at most 1e100 in size. W (K, d), or (..., K, d) whose leading dimensions are the
    first ones of R; 0 to 1e40. The rows need not add up to 1. Returns float64 (...). Raises
    ValueError for other values.

    In training R is (P, G, m, d) and W is (P, K, d): the G rollouts of a prompt are scored with
    the SAME weights. Then a difference between two rewards is a difference between two sets, not
    between two draws of weights. Source: 2605.22817.

    >>> R = [[1.0, 0.0], [0.0, 1.0]]  # two answers, each good at one of two objectives
    >>> W = [[1.0, 0.0], [0.5, 0.5]]
    >>> float(set_reward(R, W))  # the mean of max(1, 0) and max(0.5, 0.5)
    0.75
    """
    return _reduced(*_fitting(R, W), lambda scores, R, W: scores.max(axis=-2).mean(axis=-1))


def winners(R: ArrayLike, W: ArrayLike) -> np.ndarray:
    """The answer that wins under each weight vector: argmax_i w_j . r_i, the first of equals.

    Shapes as in `set_reward`. Returns int64 (..., K), numbers of answers from 0. Scores that differ
    by less than 1e-12 of the largest that their set could have are equal.

    An answer's win share is how often it wins, not what it adds: of two equal answers the first
    wins always. It only explains the set reward and is not used in training: VPO gives the whole
    set one number.

    >>> winners([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]).tolist()
    [0, 1, 0]
    """
    return _reduced(*_fitting(R, W), _first_of_the_best)


def _first_of_the_best(scores, R, W):
    weight = abs(W).sum(axis=-1)  # (..., K)
    between = (1,) * (scores.ndim - W.ndim)
    weight = weight.reshape(*W.shape[:-2], *between, 1, W.shape[-2])
    largest = abs(R).max(axis=(-2, -1))[..., None, None] * weight
    return (scores >= scores.max(axis=-2, keepdims=True) - 1e-12 * largest).argmax(axis=-2)


def nondominated(R: ArrayLike) -> np.ndarray:
    """Which answers are non-dominated, counting each repeated answer once.

    An answer is dominated if another answer of its set is at least as good in every objective and
    better in one. Of equal answers the first is kept. R (..., m, d). Returns bool (..., m).

    >>> nondominated([[1, 0], [0, 1], [0, 0.5], [1, 0]]).tolist()
    [True, True, False, False]
    """
    R = check_rewards(R)
    m = R.shape[-2]
    kept = np.empty(R.shape[:-1], dtype=bool)
    for rows in np.array_split(np.arange(m), min(m, -(-R.size * m // (8 * BLOCK)) or 1)):
        one, all_ = R[..., rows, None, :], R[..., None, :, :]
        at_least = (all_ >= one).all(axis=-1)  # [i, j]: j is as good as i
        at_most = np.swapaxes(at_least, -1, -2) if len(rows) == m else (one >= all_).all(axis=-1)
        earlier = np.arange(m) < rows[:, None]  # [i, j]: j comes before i
        kept[..., rows] = ~(at_least & (~at_most | earlier)).any(axis=-1)
    return kept


def _fitting(R, W):
    """R and W as checked arrays whose shapes go together."""
    R, W = check_rewards(R), check_weights(W, "W")
    *lead, m, d = R.shape
    *prefix, K, d_w = W.shape
    if K == 0 or d_w != d or prefix != lead[: len(prefix)]:
        raise ValueError(
            f"W has shape {W.shape}: expected (K, {d}) with K >= 1, or (..., K, {d}) whose first "
            f"dimensions are those of R, which has shape {R.shape}"
        )
    if m * K > MOST_VALUES:
        raise ValueError(
            f"W has shape {W.shape}: {m:,} answers under K = {K:,} weights have {m * K:,} scores, "
            f"at most {MOST_VALUES:,} are allowed"
        )
    return R, W


def _reduced(R, W, reduce):
    """What `reduce` makes of the scores w_j . r_i (..., m, K); in halves where they are many."""
    *lead, m, d = R.shape
    *prefix, K, _ = W.shape
    if R.size // d * K <= MOST_VALUES:  # always so for a single set: see `_fitting`
        answers = prod(lead[len(prefix) :]) * m  # -1 would fail for no sets
        flat = R.reshape(*prefix, answers, d) @ np.swapaxes(W, -1, -2)  # one product per W
        return reduce(flat.reshape(*lead, m, K), R, W)
    if len(R) == 1:
        return _reduced(R[0], W[0] if prefix else W, reduce)[None]
    halves = (slice(0, len(R) // 2), slice(len(R) // 2, None))
    parts = [_reduced(R[half], W[half] if prefix else W, reduce) for half in halves]
    return np.concatenate(parts)
