"""The idea of Vector Policy Optimization (arXiv 2605.22817): judge a SET of answers by its best under every weighting.

    U(S) = E_{w ~ Dir(alpha)} [ max_{y in S} w . r(y) ]

The max stands INSIDE the average: each weighting picks the answer it likes best, so a set is paid for covering many
weightings and a repeated answer is paid nothing. Letters: m answers in a set, d objectives, K sampled weightings;
R is a reward matrix (..., m, d), W a matrix of weightings (K, d).

What is here: draw weightings (`sample_weights`), average over them (`set_reward`), see who wins (`winners`), and the
same without sampling noise (`exact_set_reward`, `exact_shares`). The idea needs no more than the first two; how the exact
value is found is the second half of the file.
"""

from functools import lru_cache

import numpy as np
from scipy.special import betainc, comb, gammaincinv, gammaln
from scipy.stats import qmc

MAX_PIECES = 50_000  # a set that needs more simplices than this is integrated by Sobol points instead


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
    _check_whole(K, "K")
    _check_whole(d, "d")
    alpha = _check_alpha(alpha)
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
    return _scores(R, W).max(axis=-2).mean(axis=-1)


def winners(R, W):
    """Which answer wins each weighting: argmax_i w_j . r_i, the first of equals. Shapes as in `set_reward`.

    Returns int64 (..., K). The share of weightings that an answer wins says what it adds to the set; it is a
    diagnosis, not a credit: VPO gives the whole set one number.

    >>> winners([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]).tolist()
    [0, 1, 0]
    """
    scores = _scores(R, W)
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
    R = _check_rewards(R)
    value, _, error, method = _integrate(R.reshape(-1, *R.shape[-2:]), _check_alpha(alpha))
    value, error = value.reshape(R.shape[:-2]), error.reshape(R.shape[:-2])
    return (value, error, method) if full_output else value


def exact_shares(R, alpha=1.0):
    """The probability that each answer is the best one: P_w(answer i wins), the first of equals. R (..., m, d).

    Returns float64 (..., m), rows sum to 1; 0 for an answer that no weighting prefers. Exact where
    `exact_set_reward` is.

    >>> exact_shares([[1, 0], [0, 1], [0.6, 0.6], [0.5, 0.5]]).round(6).tolist()
    [0.4, 0.4, 0.2, 0.0]
    """
    R = _check_rewards(R)
    return _integrate(R.reshape(-1, *R.shape[-2:]), _check_alpha(alpha))[1].reshape(R.shape[:-1])


def nondominated(R):
    """True for every answer that no other answer of its set beats or equals in all objectives (the first of equals).

    R (..., m, d) -> bool (..., m).

    >>> nondominated([[1, 0], [0, 1], [0, 0.5], [1, 0]]).tolist()
    [True, True, False, False]
    """
    R = _check_rewards(R)
    at_least = (R[..., None, :, :] >= R[..., :, None, :]).all(axis=-1)  # [i, j]: j is at least i in every objective
    earlier = np.tri(R.shape[-2], k=-1, dtype=bool)  # [i, j]: j comes before i
    return ~(at_least & (~np.swapaxes(at_least, -1, -2) | earlier)).any(axis=-1)


# ---- the exact integral ----
# Everything follows from M (m, d) with rows M_i = E[w; answer i wins]. The set reward is sum_i r_i . M_i, and since the
# components of w add up to 1, those of M_i add up to the share of answer i. Each way of integrating maps sets
# R (B, m, d) and their surviving answers `alive` (B, m) to N independent estimates of M (N, B, m, d); N = 1 if exact.


def _integrate(R, alpha):
    """Value (B,), shares (B, m), error (B,) and the ways used, for sets R (B, m, d)."""
    B, m, d = R.shape
    points = ("sobol" if alpha >= 0.01 else "iid", _points)
    ways = [("beta", _envelope)] if d == 2 else [("split", _split), points] if alpha == 1 else [points]
    value, share, error, used = np.full(B, np.nan), np.zeros((B, m)), np.zeros(B), []
    for name, way in ways:
        left = np.flatnonzero(np.isnan(value))  # a way answers NaN for a set that is too much for it
        for part in np.array_split(left, -(-len(left) * m // 2048)) if len(left) else []:  # bounds the memory
            value[part], share[part], error[part] = _integrate_by(way, R[part], alpha)
        used += [name] if np.isfinite(value[left]).any() else []
    return value, share, error, "+".join(used)


def _integrate_by(way, R, alpha):
    scale = abs(R).max(axis=(1, 2))
    grid = 2.0 ** np.ceil(np.log2(np.maximum(scale, 1e-200)) - 40)[:, None, None]
    on_grid = np.round(R / grid) * grid  # answers closer than 1e-12 of the largest reward become one answer
    alive = nondominated(on_grid)
    M = way(on_grid, alive, alpha)
    middle = (R * alive[..., None]).sum(axis=1) / alive.sum(axis=1)[:, None]  # (B, d); E w . middle = mean(middle)
    gains = np.einsum("nbid,bid->nb", M, R - middle[:, None])  # so M is only asked for the rest
    share = M.mean(axis=0).sum(axis=-1)
    noise = gains.std(axis=0, ddof=1) / np.sqrt(len(M)) if len(M) > 1 else 0.0
    error = noise + scale * (abs(1 - share.sum(axis=-1)) + 1e-13)
    best_single, ideal = R.mean(axis=-1).max(axis=-1), R.max(axis=1).mean(axis=-1)  # no noise leads out of these
    return np.clip(middle.mean(axis=-1) + gains.mean(axis=0), best_single, ideal), share, error


def _envelope(R, alive, alpha):
    """d = 2. Answer i is the line r_i2 + x (r_i1 - r_i2) over x = w_1 ~ Beta(alpha, alpha) and wins an interval."""
    slope, start = R[..., 0] - R[..., 1], R[..., 1]
    steeper = slope[:, None, :] - slope[:, :, None]  # [i, j]: by how much line j is steeper than line i
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (start[:, :, None] - start[:, None, :]) / steeper
    low = np.where(steeper < 0, crossing, 0.0).max(axis=-1).clip(max=1)
    high = np.where(steeper > 0, crossing, 1.0).min(axis=-1)
    high = np.where(alive, np.maximum(low, high), low)  # of parallel lines only the highest is alive
    share = betainc(alpha, alpha, high) - betainc(alpha, alpha, low)
    first = (betainc(alpha + 1, alpha, high) - betainc(alpha + 1, alpha, low)) / 2  # E[x; i wins], as E[x] = 1/2
    return np.stack([first, share - first], axis=-1)[None]


def _split(R, alive, alpha=1):
    """alpha = 1. Start every surviving answer with the whole simplex and clip away what each rival wins."""
    B, m, d = R.shape
    s, i = np.nonzero(alive)  # the set and the answer that a simplex belongs to
    V = np.tile(np.eye(d), (len(s), 1, 1))  # its vertices, as rows
    volume = np.ones(len(s))  # its share of the whole simplex
    gave_up = np.zeros(B, dtype=bool)
    distance = abs(R[:, :, None] - R[:, None]).sum(axis=-1)
    nearest = np.where(alive[:, None], distance, np.inf).argsort(axis=-1)  # near rivals leave least, so they clip first
    for t in range(alive.sum(axis=1).max()):
        j = nearest[s, i, t]
        normal = np.where(alive[s, j, None], R[s, i] - R[s, j], 0.0)  # i is at least j where w . normal >= 0
        h = np.einsum("nvd,nd->nv", V, normal)
        h[abs(h) < 1e-14 * abs(R[s]).max(axis=(1, 2))[:, None]] = 0.0
        above, below = (h > 0).sum(axis=1), (h < 0).sum(axis=1)
        pieces = np.bincount(s, np.where(below == 0, 1, comb(above + below - 1, below)), minlength=B)
        gave_up |= pieces > MAX_PIECES
        go = ~gave_up[s]
        V, volume, source = _clip(V[go], volume[go], h[go])
        s, i = s[go][source], i[go][source]
    M = np.zeros((B, m, d))
    np.add.at(M, (s, i), volume[:, None] * V.mean(axis=1))  # the mean over a simplex is the mean of its vertices
    M[gave_up] = np.nan
    return M[None]


def _clip(V, volume, h):
    """The parts of simplices where a linear function is not negative; h (N, d) holds its values at the vertices V.

    A simplex with a vertex a above zero and a vertex b below is cut in two at the point p of the edge a-b where the
    function is zero: once p replaces b, once a. Both have one vertex on the wrong side fewer; repeat until none is.
    Returns the vertices and volumes of the pieces, and which simplex each came from.
    """
    source, kept = np.arange(len(V)), []
    while len(V):
        low, high = h.min(axis=1), h.max(axis=1)
        inside, mixed = low >= 0, (low < 0) & (high > 0)
        kept.append((V[inside], volume[inside], source[inside]))
        V, volume, source, h, low, high = (x[mixed] for x in (V, volume, source, h, low, high))
        n, a, b = np.arange(len(V)), h.argmax(axis=1), h.argmin(axis=1)
        t = high / (high - low)
        p = V[n, a] + t[:, None] * (V[n, b] - V[n, a])
        upper, lower, h_upper, h_lower = V, V.copy(), h, h.copy()
        upper[n, b], h_upper[n, b] = p, 0.0
        lower[n, a], h_lower[n, a] = p, 0.0
        V, h = np.concatenate([upper, lower]), np.concatenate([h_upper, h_lower])
        volume, source = np.concatenate([t * volume, (1 - t) * volume]), np.concatenate([source, source])
    return tuple(np.concatenate(x) for x in zip(*kept, strict=True)) if kept else (V, volume, source)


@lru_cache(maxsize=16)
def _quadrature(d, alpha, scramblings=8, points=2048):
    method = "sobol" if alpha >= 0.01 else "iid"
    return np.stack(
        [sample_weights(points, d, alpha, rng=np.random.default_rng(n), method=method) for n in range(scramblings)]
    )


def _points(R, alive, alpha):
    """Any d and alpha: the winners at 8 scramblings of 2048 Sobol points."""
    M = []
    for W in _quadrature(R.shape[-1], alpha):
        scores = np.where(alive[..., None], _scores(R, W), -np.inf)
        wins = scores.argmax(axis=1)[:, None] == np.arange(R.shape[1])[:, None]  # (B, m, K)
        M.append(wins @ W / len(W))
    return np.stack(M)


# ---- checks at the boundary ----


def _scores(R, W):
    """w_j . r_i for all answers and weightings: (..., m, K)."""
    R, W = _check_rewards(R), _check_finite(W, "W", 2)
    *lead, m, d = R.shape
    *prefix, K, d_w = W.shape
    if K == 0 or d_w != d or prefix != lead[: len(prefix)]:
        raise ValueError(
            f"W has shape {W.shape}: expected (K, {d}) with K >= 1, or (..., K, {d}) whose first dimensions are those "
            f"of R, which has shape {R.shape}"
        )
    flat = R.reshape(*prefix, -1, d) @ np.swapaxes(W, -1, -2)  # one matrix product for all sets that share weightings
    return flat.reshape(*lead, m, K)


def _check_rewards(R, name="R"):
    R = _check_finite(R, name, 2)
    if R.shape[-2] == 0 or R.shape[-1] == 0:
        raise ValueError(f"{name} has shape {R.shape}: expected (..., m, d) with at least one answer and one objective")
    return R


def _check_finite(x, name, ndim):
    try:
        x = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected an array of numbers, rows of equal length") from None
    if x.ndim < ndim:
        raise ValueError(f"{name} has shape {x.shape}: expected at least {ndim} dimensions, objectives last")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} holds {(~np.isfinite(x)).sum()} values that are NaN or infinite; all must be finite")
    return x


def _check_whole(x, name, most=None):
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)) or x < 1 or (most is not None and x > most):
        limit = f" and at most {most}" if most else ""
        raise ValueError(f"{name} = {x!r}: expected a whole number of at least 1{limit}")


def _check_alpha(alpha):
    try:
        alpha = float(alpha)
    except (TypeError, ValueError):
        raise ValueError(f"alpha = {alpha!r}: expected one positive number") from None
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha = {alpha}: expected a positive finite number (1 is uniform over the weightings)")
    return 1.0 if abs(alpha - 1) < 1e-12 else alpha  # a logarithmic slider says 1.0000000000000002
