"""How good and how varied a pool of answers is. Every docstring says when its number misleads.

Rewards are (..., n, d): n answers, d objectives, each higher = better. Leading dimensions
(problems, sets) are kept.

Longer than 350 lines because each metric stands beside its limits, so that one file is the
reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, permutations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .checks import (
    MOST_ANSWERS,
    check_alpha,
    check_finite,
    check_flags,
    check_points,
    check_rewards,
    check_whole,
    shown,
)
from .estimators import max_weights
from .exact import PIECE_LIMIT, POINTS, exact_set_reward
from .objective import BLOCK, nondominated, sample_weights, sampling_method
from .randomness import generator

__all__ = [
    "as_sets",
    "best_at_k",
    "best_subset",
    "coverage",
    "diversity",
    "front_share",
    "hypervolume",
    "nondominated",
    "pass_at_k",
    "preferences",
    "price_of_conflict",
]

NEAR = 64  # sets that are compared once more where a sum over points may tell them apart
TRIED = 180_000  # best_subset tries every subset if their number times m^2 is at most this
GREEDY = 8_000  # and values n answers m times, exactly, if n m^2 is at most this
MOST_BOXES = 5 * 10**8  # n^(d/2), the cost of the hypervolume of n answers: some 5 s
MOST_COLUMNS = 31  # objectives that moocore takes


class Subset(NamedTuple):
    """What `best_subset` returns: the chosen answers' indices and their expected utility."""

    indices: np.ndarray
    value: float


def best_at_k(scores: ArrayLike, k: int) -> np.ndarray:
    """The expected highest score among k answers drawn from the pool without replacement.

    scores (..., n), 1 <= k <= n, else ValueError. Returns (...): the mean of the max over all
    k-subsets, computed as sum_j s_(j) C(j, k-1) / C(n, k) over the sorted scores, j from 0.

    Misleads when k is close to n: few subsets differ, so the variance between pools is high. Also
    across methods whose pools differ in size, or that count rollouts instead of answers.
    Source: the pass@k estimator of 2107.03374, for real scores.

    >>> round(float(best_at_k([0.0, 0.5, 1.0], 2)), 6)  # the maxima are .5, 1, 1
    0.833333
    """
    scores = np.sort(check_finite(scores, "scores", 1), axis=-1)
    n = scores.shape[-1]
    if not n:
        raise ValueError(f"scores has shape {scores.shape}: there is no answer to draw")
    check_whole(k, "k", most=n)
    return scores @ max_weights(n, k)


def preferences(d: int, count: int = 50) -> np.ndarray:
    """Held-out preferences (count, d): what people may ask for, drawn from Dirichlet(1).

    They are the same for every policy and every problem with d objectives, and no training draws
    them: the key of the draw is their own. any@k is the mean of best@k under them.

    Misleads when any@k is compared with best@k or coverage: the mean of so few weights is not
    uniform. In our study this moves any@k by up to 0.03, and differences between methods by 0.006.
    Policies that serve other objectives than each other may differ by 0.07 from this alone.

    >>> preferences(3).shape, round(float(preferences(3, 2).sum()), 6)
    ((50, 3), 2.0)
    >>> any_at_1 = best_at_k(preferences(3) @ np.eye(3), 1).mean()  # of three specialists
    >>> round(float(any_at_1), 6)
    0.333333
    """
    check_whole(count, "count")
    return sample_weights(count, d, rng=generator(0, "held-out preferences", key=int(d)))


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> np.ndarray:
    """The probability that at least one of k answers solves everything, from c successes in n.

    It is 1 - C(n-c, k) / C(n, k). n, c and k are whole numbers, or arrays of them, up to 10,000;
    returns their common shape. Raises ValueError unless c <= n and 1 <= k <= n. Count k in ANSWERS:
    a rollout of three answers is k = 3.

    Misleads when success is easy (all methods reach 1). It says nothing of partial merit.
    Source: 2107.03374.

    >>> float(pass_at_k(4, 1, 2))
    0.5
    """
    numbers = [check_finite(x, name, 0) for x, name in ((n, "n"), (c, "c"), (k, "k"))]
    try:
        numbers = np.broadcast_arrays(*numbers)
    except ValueError:
        shapes = ", ".join(shown(x.shape) for x in numbers)
        raise ValueError(f"n, c and k have the shapes {shapes}: expected shapes that fit") from None
    whole = all((x == np.floor(x)).all() for x in numbers)
    n_, c_, k_ = numbers
    fit = (0 <= c_) & (c_ <= n_) & (1 <= k_) & (k_ <= n_) & (n_ <= MOST_ANSWERS)
    if not whole or not fit.all():
        raise ValueError(
            f"n = {shown(n)}, c = {shown(c)}, k = {shown(k)}: expected whole numbers with "
            f"0 <= c <= n, 1 <= k <= n and n <= {MOST_ANSWERS:,}"
        )
    return 1.0 - np.vectorize(_all_fail, otypes=[float])(*numbers)


@lru_cache(maxsize=4096)
def _all_fail(n, c, k):
    n, c, k = int(n), int(c), int(k)
    return comb(n - c, k) / comb(n, k)


def diversity(R: ArrayLike, valid: ArrayLike | None = None) -> np.ndarray:
    """The mean L1 distance between the reward vectors of two answers; 0 if all are alike.

    R (..., n, d). With `valid` (..., n), booleans or 0 and 1, only the valid answers count. Without
    it all do, as in 2605.22817: there an invalid answer is one more far-away vector, so failing
    raises the number. Returns (...); 0 where fewer than two answers count.

    The L1 distance grows with d: for rewards in [0, 1] it lies between 0 and d. Divide by d to
    compare problems that differ in d.

    Misleads if taken for quality: random answers are diverse. Read it together with coverage.

    >>> float(diversity([[1, 0], [0, 1], [1, 0]]))  # the pairs have distance 2, 0, 2
    1.3333333333333333
    >>> float(diversity([[1, 0], [0, 1], [1, 0]], valid=[True, False, True]))
    0.0
    """
    R = check_rewards(R)
    valid = np.ones(R.shape[:-1]) if valid is None else check_flags(valid, "valid").astype(float)
    if valid.shape != R.shape[:-1]:
        raise ValueError(
            f"valid has shape {valid.shape}: expected {R.shape[:-1]}, one truth value per answer "
            "of R"
        )
    n, total = R.shape[-2], 0.0
    rows = max(1, BLOCK // max(R.size, 1))  # all of them, but for large pools
    for low in range(0, n, rows):
        i = slice(low, low + rows)
        distance = abs(R[..., i, None, :] - R[..., None, :, :]).sum(axis=-1)
        total = total + np.einsum("...ij,...i,...j->...", distance, valid[..., i], valid)
    count = valid.sum(axis=-1)
    return total / np.maximum(count * (count - 1), 1)


def coverage(
    R: ArrayLike,
    front: ArrayLike,
    alpha: float = 1.0,
    *,
    points: int = POINTS,
    pieces: int = PIECE_LIMIT,
) -> np.ndarray:
    """The set reward of the answers divided by that of the true front, U(R) / U(front).

    R (..., n, d), front (f, d) the complete front. Returns (...); 1.0 means that nothing is
    missing. U is `exact_set_reward`, the function that VPO trains; `points` is passed on to it,
    and `pieces` for R.
    Raises ValueError for a front with U(front) <= 0.

    Misleads when sets differ in size. Also where one good compromise covers most of the front:
    `price_of_conflict` gives the highest coverage of a single answer.

    >>> round(float(coverage([[1, 0]], front=[[1, 0], [0, 1]])), 4)  # 1/2 of 3/4
    0.6667
    """
    R = check_rewards(R)
    utility = _front_utility(front, alpha, R.shape[-1], points)
    return _ratio(exact_set_reward(R, alpha, points=points, pieces=pieces), utility, "coverage")


def hypervolume(R: ArrayLike, front: ArrayLike | None = None) -> np.ndarray:
    """The volume that the answers dominate, measured from the zero vector (by moocore, exact).

    R (..., n, d) with d at most 31. Returns (...), a float for one pool. With `front` (f, d) it is
    divided by the front's volume.

    Raises ValueError for a front of volume 0, for a volume beyond the range of a float (scale the
    rewards), and for too many answers: the cost of n of them grows with n^(d/2).

    Misleads when each answer has 0 in some objective, whichever it is: the volume is then 0,
    however good its other rewards are. It also favours the middle of the front over its ends.

    >>> hypervolume([[1.0, 0.5], [0.5, 1.0]])
    0.75
    >>> hypervolume([[1.0, 0.5]], front=[[1.0, 0.5], [0.5, 1.0]])
    0.6666666666666666
    """
    R = check_rewards(R)
    d = R.shape[-1]
    if d > MOST_COLUMNS:
        raise ValueError(
            f"R has shape {R.shape}: hypervolume takes up to {MOST_COLUMNS} objectives"
        )
    if front is not None:
        front = _check_front(front, d)
    # A power of two in each objective changes no digit of the volume, but keeps its products finite
    both = R.reshape(-1, d) if front is None else np.concatenate([R.reshape(-1, d), front])
    units = np.frexp(abs(both).max(axis=0, initial=0))[1]
    pools = np.ldexp(R, -units).reshape(-1, *R.shape[-2:])
    volume = np.array([_volume(pool) for pool in pools]).reshape(R.shape[:-2])
    if front is None:
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(volume, int(units.sum()))
        volume = _in_range(scaled, (R > 0).all(axis=-1).any(axis=-1), "hypervolume")
    else:
        whole = _volume(np.ldexp(front, -units))
        if not whole > 0:
            raise ValueError(
                f"front has hypervolume {whole}: each of its points is 0 in an objective; leave "
                "`front` out"
            )
        volume = _ratio(volume, whole, "hypervolume")
    return volume if volume.ndim else float(volume)


def _volume(pool):
    """The volume above 0 of one pool (n, d), by moocore."""
    import moocore  # imported here because it takes a moment to load

    d = pool.shape[1]

    def costly(n):
        return float(n) ** (d / 2) > MOST_BOXES

    above = pool[(pool > 0).all(axis=1)]
    if costly(len(above)) and costly(n := nondominated(above).sum()):
        raise ValueError(
            f"R has {n:,} non-dominated answers in d = {d}: their exact hypervolume takes too "
            "long; give fewer"
        )
    return moocore.hypervolume(pool, ref=np.zeros(d), maximise=True)


def _ratio(value, whole, name):
    """value / whole, or ValueError where that is no number."""
    with np.errstate(over="ignore", under="ignore"):
        return _in_range(value / whole, value != 0, name)


def _in_range(result, nonzero, name):
    """The result, or ValueError if it is too large for a float, or too small for all its digits."""
    small = (abs(result) < np.finfo(float).tiny) & nonzero
    if not np.isfinite(result).all() or small.any():
        raise ValueError(f"R gives a {name} beyond the range of a float: scale the rewards")
    return result


def front_share(R: ArrayLike, front: ArrayLike) -> np.ndarray:
    """The part of the true front's points that the answers hit exactly, from 0 to 1.

    Exactly means to 1e-9 of the front's largest reward, and for float32 or float16 to four times
    their rounding.

    R (..., n, d), front (f, d). Returns (...). Repeated points of the front count once.

    Misleads on fronts with many nearly equal points: missing one of ten neighbours costs as much
    as missing a whole end.

    >>> float(front_share([[1, 0], [0.4, 0.4]], front=[[1, 0], [0, 1]]))
    0.5
    """
    given, R = R, check_rewards(R)
    rounding = max(_rounding(given), _rounding(front))
    front = _check_front(front, R.shape[-1])
    front = front[nondominated(front)]
    near = max(1e-9, 4 * rounding) * abs(front).max()
    hit = sum((abs(R - point).max(axis=-1) <= near).any(axis=-1).astype(float) for point in front)
    return hit / len(front)


def _rounding(x: ArrayLike) -> float:
    """How far apart 1 and the next number are in which x is given; 0 for whole numbers."""
    kind = np.asarray(x).dtype
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def best_subset(rewards: ArrayLike, m: int, alpha: float = 1.0, *, points: int = POINTS) -> Subset:
    """The m answers of a pool that together have the highest expected utility, and that utility.

    rewards (n, d). Returns a `Subset`: (indices, value). Fewer than m indices come back if fewer
    answers are non-dominated, since more would add nothing.

    Every subset of the non-dominated answers is tried if there are few enough (for m = 3, up to
    20,000). Otherwise answers are added one by one, each time the one that raises the utility most.
    For rewards >= 0 utility is submodular and grows, so this choice reaches at least 1 - 1/e of the
    best value. For large pools and m this choice is made over a fixed number of Sobol points, which
    bounds its time. The value is that of `exact_set_reward` in any case; points: as there. Of sets
    that are worth the same the first counts.

    Misleads when alpha differs from what people will ask of the answers.

    >>> indices, value = best_subset([[1, 0], [0.5, 0.5], [0, 1], [0.1, 0.8]], m=2)
    >>> indices.tolist(), value
    ([0, 2], 0.75)
    """
    rewards = check_rewards(rewards, "rewards")
    check_whole(m, "m")
    alpha = check_alpha(alpha)
    if rewards.ndim != 2:
        raise ValueError(f"rewards has shape {rewards.shape}: expected one pool (n, d)")
    pool = np.flatnonzero(nondominated(rewards))
    m = min(m, len(pool))
    if comb(len(pool), m) * m**2 <= TRIED:
        subsets = np.array(list(combinations(pool, m)))
    elif len(pool) * m**2 <= GREEDY:
        subsets = np.array([[]], dtype=int)
        for _ in range(m):
            subsets = np.array([[*subsets[0], i] for i in pool if i not in subsets[0]])
            values = exact_set_reward(rewards[subsets], alpha, points=points)
            subsets = subsets[[values.argmax()]]
    else:
        subsets = pool[_greedy(rewards[pool], m, alpha)][None]
    values = exact_set_reward(rewards[subsets], alpha, points=points)
    slack = 1e-12 * abs(rewards).max()
    best = (values >= values.max() - slack).argmax()  # the first of equals, whatever the rounding
    if alpha != 1:  # a sum over points may tell sets apart that are worth the same
        near = np.argsort(-values, kind="stable")[:NEAR]
        near = np.sort(near[values[near] >= values.max() - 1e-3 * abs(rewards).max()])
        if len(near) > 1:
            fair = _in_all_orders(rewards[subsets[near]], alpha, points)
            best = near[(fair >= fair.max() - slack).argmax()]
    return Subset(np.sort(subsets[best]), float(values[best]))


def _in_all_orders(sets: np.ndarray, alpha: float, points: int) -> np.ndarray:
    """Set rewards (S,) of sets (S, m, d), over the same points in every order of their components,
    as the Dirichlet distribution has them; from d = 5 on in d orders.
    """
    d = sets.shape[-1]
    orders = permutations(range(d)) if d < 5 else (np.roll(range(d), i) for i in range(d))
    found = [exact_set_reward(sets[..., list(order)], alpha, points=points) for order in orders]
    return np.mean(found, axis=0)


def _greedy(R, m, alpha):
    """m rows of R (n, d), each the one that raises the mean of the best over K points most.

    A step costs BLOCK scores, and after K steps no row raises it: the rest come in their order.
    """
    K = 2 ** min(14, max(8, (BLOCK // len(R)).bit_length() - 1))
    rng = np.random.default_rng(0)
    W = sample_weights(K, R.shape[1], alpha, rng=rng, method=sampling_method(alpha))
    scores, best, chosen = R @ W.T, np.full(K, -np.inf), []
    while len(chosen) < m:
        means = np.maximum(scores, best).mean(axis=1)
        if means.max() <= best.mean():
            break
        chosen.append(int(means.argmax()))
        best = np.maximum(best, scores[chosen[-1]])
    others = np.setdiff1d(np.arange(len(R)), chosen)
    return np.append(np.array(chosen, dtype=int), others[: m - len(chosen)])


def price_of_conflict(
    front: ArrayLike, sizes: Sequence[int] = (1, 2, 3), alpha: float = 1.0
) -> dict[int, float]:
    """{number of answers: coverage} of the best few answers, as `best_subset` finds them.

    front (f, d). The entry 1 is called `coverage_best_single`. It is the ceiling of a policy that
    has collapsed onto one answer, however well it was trained. Close to 1 it means that the
    objectives hardly conflict, so a set has nothing to gain.

    >>> price = price_of_conflict([[1, 0], [0, 1], [0.6, 0.6]])
    >>> {m: round(coverage, 4) for m, coverage in price.items()}
    {1: 0.7895, 2: 0.9868, 3: 1.0}
    """
    utility = _front_utility(front, alpha)
    if not isinstance(sizes, Sequence | np.ndarray) or isinstance(sizes, str | bytes):
        raise ValueError(f"sizes = {shown(sizes)}: expected a list of whole numbers")
    for m in sizes:
        check_whole(m, "sizes")
    return {
        int(m): float(_ratio(best_subset(front, m, alpha).value, utility, "coverage"))
        for m in sizes
    }


def as_sets(rewards: np.ndarray, size: int) -> np.ndarray:
    """The sets (n, size, d) that methods are compared on, from one group's rewards, (G, m, d) or,
    in one row, (G m, d).

    Consecutive answers form a set. So a set is one rollout when m = size. Answers that do not
    fill a set are left out; a group with fewer than `size` answers becomes one smaller set.

    >>> as_sets(np.arange(5.0)[:, None], 2)[..., 0].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    rewards = check_rewards(rewards, "rewards")
    check_whole(size, "size")
    flat = rewards.reshape(-1, rewards.shape[-1])
    if len(flat) == 0:
        raise ValueError(f"rewards has shape {rewards.shape}: expected at least one answer")
    size = min(size, len(flat))
    whole = len(flat) // size
    return flat[: whole * size].reshape(whole, size, -1)


def _check_front(front, d=None):
    front = check_rewards(front, "front")
    if front.ndim != 2 or (d is not None and front.shape[1] != d):
        raise ValueError(
            f"front has shape {front.shape}: expected (f, {d or 'd'}), the complete front of one "
            "instance"
        )
    return front


def _front_utility(front, alpha, d=None, points=POINTS):
    front, alpha, points = _check_front(front, d), check_alpha(alpha), check_points(points)
    kept = _cached_utility if front.size <= 4096 else _cached_utility.__wrapped__
    utility = kept(front.tobytes(), front.shape, alpha, points)  # a run asks every step
    if not utility > 0:
        raise ValueError(
            f"front has expected utility {utility}: coverage needs a front worth more than 0"
        )
    return utility


@lru_cache(maxsize=1024)
def _cached_utility(data, shape, alpha, points):
    return float(exact_set_reward(np.frombuffer(data).reshape(shape), alpha, points=points))
