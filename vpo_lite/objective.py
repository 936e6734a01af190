"""The idea of Vector Policy Optimization (arXiv 2605.22817): judge a SET of answers by its best under every weighting.

    U(S) = E_{w ~ Dir(alpha)} [ max_{y in S} w . r(y) ]

The max stands INSIDE the average: each weighting picks the answer it likes best, so a set is paid for covering many
weightings and a repeated answer is paid nothing. Letters: m answers in a set, d objectives, K sampled weightings;
R is a reward matrix (..., m, d), W a matrix of weightings (K, d).

What is here: draw weightings (`sample_weights`), average over them (`set_reward`), see who wins (`winners`), and the
same without sampling noise (`exact_set_reward`, `exact_shares`). The idea needs no more than the first two; how the exact
value is found stands in `_exact.py`.
"""

import numpy as np
from scipy.special import gammaincinv, gammaln
from scipy.stats import qmc

from ._checks import check_alpha, check_finite, check_rewards, check_whole


def sample_weights(K, d, alpha=1.0, *, rng, method="iid"):
    """Draw K weightings of d objectives from the symmetric Dirichlet, w ~ Dir(alpha, ..., alpha).

    alpha = 1 is uniform on the simplex; a small alpha puts the weight on one objective, a large one on all equally.
    `rng` is a `numpy.random.Generator`. `method="sobol"` spreads the K points evenly (scrambled Sobol: the same
    distribution for each point, less noise in the mean; best when K is a power of 2; needs alpha >= 0.01).

    Returns float64 (K, d), rows on the simplex. Raises ValueError for K < 1, d < 1, alpha not positive and finite.
    Source: 2605.22817 (i.i.d.) and its public code (Sobol).

    >>> W = sample_weights(4, 3, rng=np.random.default_rng(0))
    >>> W.shape, bool(np.allclose(W.sum(axis=1), 1))
    ((4, 3), True)
    """
    check_whole(K, "K")
    check_whole(d, "d")
    alpha = check_alpha(alpha)
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng = {rng!r}: expected a numpy.random.Generator, say np.random.default_rng(0)")
    if method == "iid":
        return rng.dirichlet(np.full(d, alpha), size=K)
    if method != "sobol":
        raise ValueError(f"method = {method!r}: expected 'iid' or 'sobol'")
    if alpha < 0.01:
        raise ValueError(f"alpha = {alpha}: Sobol weights underflow below 0.01; use method='iid'")
    if d == 1:
        return np.ones((K, 1))
    dimensions = d - 1 if alpha == 1 else d
    scrambling = np.random.default_rng(rng.integers(2**63))  # SciPy spawns from it, which not every generator allows
    u = qmc.Sobol(dimensions, seed=scrambling).random_base2(int(K - 1).bit_length())[:K]
    if alpha == 1:  # the gaps between d - 1 sorted uniforms are uniform on the simplex
        return np.diff(np.sort(u, axis=1), axis=1, prepend=0.0, append=1.0)
    # normalised Gamma(alpha) variables are Dirichlet; in logs, since at small alpha they underflow
    u = np.maximum(u, 2.0**-32)
    gamma = gammaincinv(alpha, u)
    log_small = (np.log(u) + gammaln(alpha + 1)) / alpha  # the quantile near 0, where P(g) = g^alpha / Gamma(alpha + 1)
    log_gamma = np.where(gamma > 1e-100, np.log(np.maximum(gamma, 1e-100)), log_small)
    W = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return W / W.sum(axis=1, keepdims=True)


def set_reward(R, W):
    """The Monte-Carlo set reward, (1/K) sum_j max_i w_j . r_i: the number that VPO gives to one rollout.

    R (..., m, d); W (K, d), or (P, K, d) with leading dimensions that are the first ones of R. In training R is
    (P, G, m, d) and W (P, K, d): the G rollouts of a prompt are judged by the SAME weightings, so that a difference
    between their rewards is a difference between the sets. Returns float64 (...). Source: 2605.22817.

    >>> R = [[1.0, 0.0], [0.0, 1.0]]                                 # one answer for each of two objectives
    >>> W = [[1.0, 0.0], [0.5, 0.5]]
    >>> float(set_reward(R, W))                                      # mean of max(1, 0) and max(.5, .5)
    0.75
    """
    return weighted(R, W).max(axis=-2).mean(axis=-1)


def winners(R, W):
    """Which answer wins each weighting: argmax_i w_j . r_i, the first of equals. Shapes as in `set_reward`.

    Returns int64 (..., K). The share of weightings that an answer wins says what it adds to the set; it is a
    diagnosis, not a credit: VPO gives the whole set one number.

    >>> winners([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]).tolist()
    [0, 1, 0]
    """
    scores = weighted(R, W)
    best = scores.max(axis=-2, keepdims=True)
    return (scores >= best - 1e-12 * np.maximum(1, abs(best))).argmax(axis=-2)


def exact_set_reward(R, alpha=1.0, full_output=False):
    """The set reward with all weightings there are (K = infinity): E_{w ~ Dir(alpha)} max_i w . r_i, without sampling.

    R (..., m, d), every leading index is its own set. How, after dominated and repeated answers are dropped:
    - "beta": d = 2, any alpha: the upper envelope of m lines, integrated with Beta distribution functions;
    - "split": alpha = 1: the simplex is cut into the cells where one answer wins; there the max is linear;
    - "sobol": otherwise, or where the cells take more than MAX_PIECES simplices: 16,384 Sobol points ("iid" points
      below alpha = 0.01). A set with one answer left comes out exact here too: the mean of its components.

    Returns float64 (...); with `full_output=True` (value, error, method): error (...) is the rounding of the exact ways
    and the standard error over 8 scramblings of the points; method names what was used, joined by "+". Answers closer
    than 1e-12 of the largest reward count as one.

    >>> [round(float(exact_set_reward(np.eye(d))), 6) for d in (2, 3, 4)]                # H_d / d
    [0.75, 0.611111, 0.520833]
    >>> round(float(exact_set_reward([[1, 0], [0, 1], [0.6, 0.6]])), 6)
    0.76
    """
    R = check_rewards(R)
    value, _, error, method = _exact(R.reshape(-1, *R.shape[-2:]), check_alpha(alpha))
    value, error = value.reshape(R.shape[:-2]), error.reshape(R.shape[:-2])
    return (value, error, method) if full_output else value


def exact_shares(R, alpha=1.0):
    """The probability that each answer is the best one: P_w(answer i wins), the first of equals. R (..., m, d).

    Returns float64 (..., m), rows sum to 1; 0 for an answer that no weighting prefers. Exact where
    `exact_set_reward` is.

    >>> exact_shares([[1, 0], [0, 1], [0.6, 0.6], [0.5, 0.5]]).round(6).tolist()
    [0.4, 0.4, 0.2, 0.0]
    """
    R = check_rewards(R)
    return _exact(R.reshape(-1, *R.shape[-2:]), check_alpha(alpha))[1].reshape(R.shape[:-1])


def nondominated(R):
    """True for every answer that no other answer of its set beats or equals in all objectives (the first of equals).

    R (..., m, d) -> bool (..., m).

    >>> nondominated([[1, 0], [0, 1], [0, 0.5], [1, 0]]).tolist()
    [True, True, False, False]
    """
    R = check_rewards(R)
    at_least = (R[..., None, :, :] >= R[..., :, None, :]).all(axis=-1)  # [i, j]: j is at least i in every objective
    earlier = np.tri(R.shape[-2], k=-1, dtype=bool)  # [i, j]: j comes before i
    return ~(at_least & (~np.swapaxes(at_least, -1, -2) | earlier)).any(axis=-1)


def weighted(R, W):
    """w_j . r_i for all answers and weightings: (..., m, K)."""
    R, W = check_rewards(R), check_finite(W, "W", 2)
    *lead, m, d = R.shape
    *prefix, K, d_w = W.shape
    if K == 0 or d_w != d or prefix != lead[: len(prefix)]:
        raise ValueError(
            f"W has shape {W.shape}: expected (K, {d}) with K >= 1, or (..., K, {d}) whose first dimensions are those "
            f"of R, which has shape {R.shape}"
        )
    flat = R.reshape(*prefix, -1, d) @ np.swapaxes(W, -1, -2)  # one matrix product for all sets that share weightings
    return flat.reshape(*lead, m, K)


def _exact(R, alpha):
    from ._exact import integrate  # the way it is done; the idea needs none of it

    return integrate(R, alpha)
