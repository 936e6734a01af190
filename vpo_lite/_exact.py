"""How the set reward is integrated without sampling: the machinery behind `objective.exact_set_reward`.

Everything follows from M (m, d) with rows M_i = E[w; answer i wins]. The set reward is sum_i r_i . M_i, and since the
components of w add up to 1, those of M_i add up to the share of answer i. Each way of integrating maps sets
R (B, m, d) and their surviving answers `alive` (B, m) to N independent estimates of M (N, B, m, d); N = 1 if exact.
"""

from functools import lru_cache

import numpy as np
from scipy.special import betainc, comb

from .objective import nondominated, sample_weights, weighted

MAX_PIECES = 50_000  # a set that needs more simplices than this is integrated by Sobol points instead


def integrate(R, alpha):
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
        scores = np.where(alive[..., None], weighted(R, W), -np.inf)
        wins = scores.argmax(axis=1)[:, None] == np.arange(R.shape[1])[:, None]  # (B, m, K)
        M.append(wins @ W / len(W))
    return np.stack(M)
