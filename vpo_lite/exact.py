"""The set reward without sampling noise, as if infinitely many weights were drawn (K = infinity).

    U(S) = E_{w ~ Dir(alpha)} [ max_{y in S} w . r(y) ]

Each answer wins in one region of the weight simplex. In that region the max is w . r_i, which is
linear in w. So we only need one vector per region, M_i = E[w; answer i wins], a row of M (m, d):

    U = sum_i M_i . r_i
    win share of answer i = P(answer i wins) = sum of the components of M_i   (those of w sum to 1)

Two methods find M exactly: `_envelope` for d = 2 and `_cut` for alpha = 1. The cost of cutting
explodes with d, so every set has a piece limit. A set beyond it is averaged over Sobol points, and
the result states its standard error. The limit depends on the set alone, not on the machine and
not on the other sets in the call. Large calls are computed in parts, which bounds the memory.

Sets whose values are compared must not mix both: `compared_set_rewards` computes a group alike.

Longer than 350 lines because the exact methods and the points behind them make one integral.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, comb

from .checks import (
    check_alpha,
    check_drawn,
    check_points,
    check_rewards,
    check_truth,
    check_whole,
)
from .objective import nondominated, sample_weights, sampling_method

PIECE_LIMIT = 2**15  # n answers may be cut into n PIECE_LIMIT / d^2 pieces, fewer if n > 16
POINTS = 16_384  # Sobol points for a set that is not integrated exactly
SCRAMBLINGS = 8  # the points come in 8 independent scramblings; their spread gives the error
MEMORY = 2**23  # bytes that the largest array may take; about five such arrays live at once
WORK = 2**34  # scores that a call may compute over points: more than a minute
CACHED = 2**15  # numbers in a scrambling that is kept for later calls; 128 are at most (32 MB)


class ExactReward(NamedTuple):
    """What `exact_set_reward` returns with `full_output=True`: one value and error per set."""

    value: np.ndarray
    error: np.ndarray
    method: str


class Integrals(NamedTuple):
    """Of B sets of m answers: value (B,), win_shares (B, m), error (B,), and the methods used."""

    value: np.ndarray
    win_shares: np.ndarray
    error: np.ndarray
    method: str


class Sampled(NamedTuple):
    """Means over points: gains (SCRAMBLINGS, B), one row per scrambling, and win_shares (B, n)."""

    gains: np.ndarray
    win_shares: np.ndarray


class Pieces(NamedTuple):
    """N simplices: corners (N, d), as row numbers in a table of vertices; volume (N,), the whole
    weight simplex having 1; and region (N,), the number of the region that each is part of."""

    corners: np.ndarray
    volume: np.ndarray
    region: np.ndarray


@overload
def exact_set_reward(
    R: ArrayLike,
    alpha: float = 1.0,
    full_output: Literal[False] = False,
    *,
    points: int = POINTS,
    pieces: int = PIECE_LIMIT,
) -> np.ndarray: ...


@overload
def exact_set_reward(
    R: ArrayLike,
    alpha: float = 1.0,
    *,
    full_output: Literal[True],
    points: int = POINTS,
    pieces: int = PIECE_LIMIT,
) -> ExactReward: ...


def exact_set_reward(
    R: ArrayLike,
    alpha: float = 1.0,
    full_output: bool = False,
    *,
    points: int = POINTS,
    pieces: int = PIECE_LIMIT,
) -> np.ndarray | ExactReward:
    """The expected set reward, E_{w ~ Dir(alpha)} max_i w . r_i: exact where that is affordable.

    R (..., m, d), at most 1e100 in size; every leading index is a set of its own. alpha from 1e-6
    to 1e6. Returns float64 (...). With `full_output=True` it returns an `ExactReward`: (value,
    error, method). Raises ValueError for other values.

    Dominated and repeated answers are dropped first. Answers that round to the same multiple of
    some 1e-12 of the largest reward count as repeated. `method` names what was used for the sets,
    joined by "+":

    - "beta": d = 2, any alpha. The max is the upper envelope of m lines. It is integrated with
      the distribution functions of Beta(alpha, alpha) and Beta(alpha + 1, alpha).
    - "split": alpha = 1, or only one answer left. The weight simplex is cut into smaller
      simplices that have one winner each.
    - "sobol": all other sets. The mean over `points` Sobol points ("iid" points if alpha < 0.01).

    With alpha = 1, n answers are cut into at most 32,768 n / d^2 simplices (fewer if n > 16).
    That is enough for 16 answers at d = 4, for 5 at d = 5, for 4 at d = 6 and for 3 at d = 7.
    Beyond that it depends on the rewards: simple ones (0 and 1) need fewer simplices. `pieces`,
    a whole number from 1 to 32,768, lowers this limit: more sets are then averaged over points.

    `error` (...) bounds the rounding of an exact value. For points it is the standard error over 8
    scramblings. `points` is a power of two, 16 to 1,048,576. Fewer are faster and less accurate.
    Too many sets times points (2^34 scores) raise ValueError.

    >>> [round(float(exact_set_reward(np.eye(d))), 6) for d in (2, 3, 4)]  # H_d / d
    [0.75, 0.611111, 0.520833]
    >>> round(float(exact_set_reward([[1, 0], [0, 1], [0.6, 0.6]])), 6)
    0.76
    >>> exact_set_reward(np.eye(16), full_output=True).method
    'sobol'
    """
    R = check_rewards(R)
    check_whole(pieces, "pieces", most=PIECE_LIMIT)
    check_truth(full_output, "full_output")
    sets, alpha, points = R.reshape(-1, *R.shape[-2:]), check_alpha(alpha), check_points(points)
    found = integrate(sets, alpha, points, pieces=pieces)
    reward = _shaped(found, R.shape[:-2])
    return reward if full_output else reward.value


def compared_set_rewards(R: ArrayLike, alpha: float = 1.0, *, points: int = POINTS) -> ExactReward:
    """The expected set rewards of sets that are compared in groups, R (..., G, m, d).

    Arguments as for `exact_set_reward`. Returns an `ExactReward` with value and error (..., G). If
    all sets of a group are exact, the values are those of `exact_set_reward`. Otherwise the whole
    group is averaged over the same points. So sets that have the same best score for every w are
    equal, up to rounding, however many answers they hold. Sets whose values are equal for another
    reason, such as two that differ in the order of the objectives, are equal only up to `error`,
    which is that of the difference from the group's mean.

    The last answer of the second set never wins, since it is below the mean of the two others:

    >>> R = np.array([[[4, 0, 0], [0, 4, 4], [0, 4, 4]], [[4, 0, 0], [0, 4, 4], [1, 1, 1]]])
    >>> U = compared_set_rewards(R, alpha=2.0).value
    >>> bool(abs(U[0] - U[1]) < 1e-12)
    True
    """
    R = check_rewards(R)
    if R.ndim < 3:
        raise ValueError(f"R has shape {R.shape}: expected (..., G, m, d), groups of G sets")
    sets, G = R.reshape(-1, *R.shape[-2:]), R.shape[-3]
    found = integrate(sets, check_alpha(alpha), check_points(points), compared=max(G, 1))
    return _shaped(found, R.shape[:-2])


def _shaped(found: Integrals, shape: tuple[int, ...]) -> ExactReward:
    return ExactReward(found.value.reshape(shape), found.error.reshape(shape), found.method)


def exact_shares(R: ArrayLike, alpha: float = 1.0, *, points: int = POINTS) -> np.ndarray:
    """The win share of each answer: the probability over w ~ Dir(alpha) that it is the best.

    R (..., m, d). Returns float64 (..., m), which add up to 1 for each set. Of equal answers the
    first one wins. An answer that is never the best gets 0. alpha, `points` and errors: as in
    `exact_set_reward`.

    >>> exact_shares([[1, 0], [0, 1], [0.6, 0.6], [0.5, 0.5]]).round(6).tolist()
    [0.4, 0.4, 0.2, 0.0]
    """
    R = check_rewards(R)
    found = integrate(R.reshape(-1, *R.shape[-2:]), check_alpha(alpha), check_points(points))
    return found.win_shares.reshape(R.shape[:-1])


def best_single(front: ArrayLike) -> float:
    """The coverage of the best single point of a front (f, d) at alpha = 1, by `exact_set_reward`.

    >>> round(best_single(np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])), 3)  # .5 of 21/32
    0.762
    """
    ordered = np.asarray(front, dtype=float)  # neither order changes the coverage: put them alike
    ordered = ordered[np.argsort(ordered.sum(axis=1), kind="stable")]
    ordered = ordered[:, np.lexsort(ordered)]
    return _best_single(ordered.tobytes(), ordered.shape)


@lru_cache(maxsize=4096)
def _best_single(front: bytes, shape: tuple[int, int]) -> float:
    points = np.frombuffer(front).reshape(shape)
    return float(points.mean(axis=1).max() / exact_set_reward(points))


def integrate(
    R: np.ndarray, alpha: float, points: int, compared: int = 1, pieces: int = PIECE_LIMIT
) -> Integrals:
    """The `Integrals` of the sets R (B, m, d). Groups of `compared` sets are computed alike; their
    errors are those of the differences from the mean of the group. pieces: as PIECE_LIMIT.
    """
    B, m, d = R.shape
    # A power of two changes no digit. So a set is as good at 1e-300 or 1e100 as it is at 1.
    unit = np.frexp(_of_group(abs(R).max(axis=(1, 2), initial=0), compared))[1]
    R = np.ldexp(R, -unit[:, None, None])
    scale = abs(R).max(axis=(1, 2))
    grid = 2.0 ** np.ceil(np.log2(np.where(scale > 0, scale, 1)) - 40)[:, None, None]
    on_grid = np.round(R / grid) * grid  # answers that differ by rounding become equal
    useful = np.empty((B, m), dtype=bool)
    for part in _parts(np.full(B, m * m * d)):
        useful[part] = nondominated(on_grid[part])
    n = useful.sum(axis=1)
    kept = np.argsort(~useful, axis=1, kind="stable")[:, : n.max(initial=1)]  # these come first
    alive = np.arange(kept.shape[1]) < n[:, None]  # False: only there to fill the array
    answers, on_grid = (np.take_along_axis(x, kept[..., None], axis=1) for x in (R, on_grid))
    # E[w . middle] is known, so only the rest is integrated.
    middle = (answers * alive[..., None]).sum(axis=1) / n[:, None]  # (B, d)

    if d == 2:
        exact_method, M = "beta", _envelope(on_grid, alive, alpha)
    else:
        exact_method, M = "split", np.full(answers.shape, np.nan)
        fit = (n == 1) | (alpha == 1)  # a single answer wins everywhere, whatever alpha
        M[fit] = _cut(on_grid[fit], alive[fit], compared, pieces)
    gain, shares = np.einsum("bid,bid->b", M, answers - middle[:, None]), M.sum(axis=-1)
    error = scale * (abs(1 - shares.sum(axis=-1)) + 1e-13)

    left = _of_group(np.isnan(gain), compared)
    if left.any():
        same = middle[left].reshape(-1, compared, d).mean(axis=1)
        middle[left] = same.repeat(compared, axis=0)
        check_drawn(points // SCRAMBLINGS, d, "points / 8")
        if (work := n[left].sum() * points) > WORK:
            raise ValueError(
                f"R has {left.sum():,} sets that need points: {work:,} scores, at most {WORK:,} "
                f"are allowed; give fewer sets in a call, or fewer than points = {points:,}"
            )
    gains = np.empty((SCRAMBLINGS, B))
    for size in np.unique(n[left]):
        sets = np.flatnonzero(left & (n == size))
        sampled = _over_points(answers[sets, :size] - middle[sets, None], alpha, points)
        gains[:, sets] = sampled.gains
        gain[sets] = sampled.gains.mean(axis=0)
        shares[sets] = np.pad(sampled.win_shares, [(0, 0), (0, kept.shape[1] - size)])
    gains = gains[:, left]
    if compared > 1:
        groups = gains.reshape(SCRAMBLINGS, -1, compared)
        gains = (groups - groups.mean(axis=-1, keepdims=True)).reshape(gains.shape)
    error[left] = gains.std(axis=0, ddof=1) / np.sqrt(SCRAMBLINGS) + 1e-13 * scale[left]

    best_single, ideal = R.mean(axis=-1).max(axis=-1), R.max(axis=1).mean(axis=-1)
    value = np.clip(middle.mean(axis=-1) + gain, best_single, ideal)  # U lies between these two
    win_shares = np.zeros((B, m))
    np.put_along_axis(win_shares, kept, shares, axis=1)
    methods = [exact_method] * (not left.all()) + [sampling_method(alpha)] * bool(left.any())
    return Integrals(np.ldexp(value, unit), win_shares, np.ldexp(error, unit), "+".join(methods))


def _of_group(x, compared):
    """The largest value, or any truth, of the group of each set: x (B,) -> (B,)."""
    return x.reshape(-1, compared).max(axis=1).repeat(compared)


# ---- exactly ----


def _envelope(R, alive, alpha):
    """M (B, m, 2) for d = 2: the answers are lines over x = w_1 ~ Beta(alpha, alpha).

    Answer i is the line r_i2 + x (r_i1 - r_i2). It wins on an interval of x.
    """
    M = np.empty(R.shape)
    m = R.shape[1]
    for part in _parts(np.full(len(R), 8 * m**2)):
        slope, start = R[part, :, 0] - R[part, :, 1], R[part, :, 1]
        low, high = np.empty(slope.shape), np.empty(slope.shape)  # the x at which i wins
        for i in np.array_split(np.arange(m), -(-8 * m**2 // MEMORY)):  # one, but for large sets
            steeper = slope[:, None, :] - slope[:, i, None]  # [i, j]: how much steeper j is than i
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = (start[:, i, None] - start[:, None, :]) / steeper
            low[:, i] = np.where(steeper < 0, crossing, 0.0).max(axis=-1).clip(max=1)
            high[:, i] = np.where(steeper > 0, crossing, 1.0).min(axis=-1)
        high = np.where(alive[part], np.maximum(low, high), low)
        share = betainc(alpha, alpha, high) - betainc(alpha, alpha, low)
        first = betainc(alpha + 1, alpha, high) - betainc(alpha + 1, alpha, low)
        M[part, :, 0] = first / 2  # E[x; i wins], where E[x] = 1/2
        M[part, :, 1] = share - first / 2
    return M


def _cut(R, alive, compared, pieces):
    """M (B, m, d) for alpha = 1. NaN where a set, or one of its group, exceeds its piece limit."""
    d, n = R.shape[-1], alive.sum(axis=1)
    limit = np.maximum(1, pieces / d**2 * np.minimum(n, 256 / np.maximum(n - 1, 1)))
    per_cut = comb(d - 1, (d - 1) // 2)  # the most pieces that one cut can make of a simplex
    with np.errstate(over="ignore"):  # of many objectives; the limit is smaller
        most = np.minimum(limit, n * per_cut ** np.minimum(n - 1.0, 30.0))
    fit = np.flatnonzero(n <= limit)
    m = n[fit].max(initial=1)
    M = np.full(R.shape, np.nan)
    for part in _parts(8 * d * np.maximum(m * m, most[fit])):
        sets = fit[part]
        M[sets, :m] = _cut_part(R[sets, :m], alive[sets, :m], limit[sets], sets // compared)
        M[sets, m:] = 0.0
    return M


def _cut_part(R, alive, limit, group):
    """Every answer starts with the whole simplex. Each rival then cuts away what it wins."""
    B, m, d = R.shape
    s, i = np.nonzero(alive)  # region number g is what answer i[g] of set s[g] still wins
    V = np.tile(np.eye(d), (len(s), 1))  # the vertices of all pieces, as rows
    home = np.repeat(np.arange(len(s)), d)  # the region that each vertex belongs to
    corners = np.arange(len(V)).reshape(-1, d)
    pieces = Pieces(corners, volume=np.ones(len(s)), region=np.arange(len(s)))
    tiny = 1e-14 * abs(R).max(axis=(1, 2))[s]
    distance = abs(R[:, :, None] - R[:, None]).sum(axis=-1)
    distance = np.where(alive[:, None], distance, np.inf)
    nearest = distance.argsort(axis=-1, kind="stable")  # near rivals leave least, so they cut first
    above, below = np.arange(d + 1)[:, None], np.arange(d + 1)
    made_of_one = np.where(below == 0, 1, comb(above + below - 1, below))
    cuts = np.maximum(alive.sum(axis=1) - 1, 1)
    gave_up = np.zeros(B, dtype=bool)
    for t in range(1, m):  # the nearest of all, number 0, is the answer itself
        j = nearest[s, i, t]
        normal = np.where(alive[s, j, None], R[s, i] - R[s, j], 0.0)
        h = np.einsum("qd,qd->q", V, normal[home])  # i is at least as good as j where h >= 0
        h = np.where(abs(h) < tiny[home], 0.0, h)[pieces.corners]
        made = made_of_one[(h > 0).sum(axis=1), (h < 0).sum(axis=1)]
        made = np.bincount(s[pieces.region], made, minlength=B)
        gave_up |= made > limit * np.minimum(1, t / cuts)  # later cuts add as many, or more
        gave_up = np.isin(group, group[gave_up])
        go = ~gave_up[s[pieces.region]]
        V, pieces = _clip(V, Pieces(*(x[go] for x in pieces)), h[go])
        used = np.zeros(len(V), dtype=bool)
        used[pieces.corners] = True
        V, pieces = V[used], pieces._replace(corners=(np.cumsum(used) - 1)[pieces.corners])
        home = np.empty(len(V), dtype=int)
        home[pieces.corners] = pieces.region[:, None]
    M = np.zeros((B, m, d))
    centres = V[pieces.corners].mean(axis=1)  # the mean of w over a simplex is its centre
    np.add.at(M, (s[pieces.region], i[pieces.region]), pieces.volume[:, None] * centres)
    M[gave_up] = np.nan
    return M


def _clip(V, pieces, h):
    """Keep the parts of the pieces where a linear function is not negative.

    h (N, d) holds the values of the function at the corners of the N pieces. Take a piece with a
    corner a above zero and a corner b below. It is cut in two at the point p of the edge a-b where
    the function is zero: in one half p replaces b, in the other p replaces a. Both halves have
    one nonzero corner fewer. This is repeated until no piece has corners on both sides. Returns
    the vertices V with the points p added, and the pieces that are left.
    """
    corners, volume, region = pieces
    points, known, kept = [V], len(V), []
    while True:
        low, high = h.min(axis=1), h.max(axis=1)
        inside, mixed = low >= 0, (low < 0) & (high > 0)
        kept.append(Pieces(corners[inside], volume[inside], region[inside]))
        if not mixed.any():
            break
        corners, volume, region = corners[mixed], volume[mixed], region[mixed]
        h, low, high = h[mixed], low[mixed], high[mixed]
        n, a, b = np.arange(len(h)), h.argmax(axis=1), h.argmin(axis=1)
        t = high / (high - low)
        from_a, to_b = V[corners[n, a]], V[corners[n, b]]  # never a new point: there h is 0
        points.append(from_a + t[:, None] * (to_b - from_a))
        upper, lower, h_upper, h_lower = corners, corners.copy(), h, h.copy()
        upper[n, b], h_upper[n, b] = known + n, 0.0
        lower[n, a], h_lower[n, a] = known + n, 0.0
        known += len(n)
        corners, h = np.concatenate([upper, lower]), np.concatenate([h_upper, h_lower])
        volume = np.concatenate([t * volume, (1 - t) * volume])
        region = np.concatenate([region, region])
    return np.concatenate(points), Pieces(*(np.concatenate(x) for x in zip(*kept, strict=True)))


# ---- over points ----


def _over_points(R, alpha, points):
    """Any d and alpha: the mean of max_i w . r_i over each scrambling, for sets R (B, n, d)."""
    B, n, d = R.shape
    K = points // SCRAMBLINGS
    draw = _weights if K * d <= CACHED else _weights.__wrapped__
    gains, wins = np.empty((SCRAMBLINGS, B)), np.zeros((B, n))
    for scrambling in range(SCRAMBLINGS):
        W = draw(scrambling, K, d, alpha).T
        for part in _parts(np.full(B, 8 * n * K)):
            scores = R[part] @ W  # (b, n, K), one product per set: its rounding is its own
            best = scores.max(axis=1)
            gains[scrambling, part] = best.mean(axis=-1)
            free = np.ones(best.shape, dtype=bool)
            for i in range(n):  # the first of equals wins; argmax takes three times as long
                won = free & (scores[:, i] == best)
                wins[part, i] += won.sum(axis=-1)
                free &= ~won
    return Sampled(gains, wins / points)


@lru_cache(maxsize=128)  # 16 pairs of d and alpha: d may differ from prompt to prompt
def _weights(scrambling, K, d, alpha):
    rng = np.random.default_rng(scrambling)
    return sample_weights(K, d, alpha, rng=rng, method=sampling_method(alpha))


def _parts(sizes):
    """Index arrays of consecutive sets that fit into MEMORY together; sizes are bytes per set."""
    full = np.cumsum(sizes) // MEMORY
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(full)) + 1)
