"""How good and how varied a pool of answers is. Every docstring says when its number misleads.

Rewards are (..., n, d): n answers, d objectives, each higher = better. Leading dimensions
(problems, sets) are kept.
"""

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from .checks import check_alpha, check_finite, check_rewards, check_whole
from .estimators import max_weights
from .exact import POINTS, exact_set_reward
from .objective import nondominated

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
    "price_of_conflict",
]

TRIED = 180_000  # best_subset tries every subset if their number times m^2 is at most this


class Subset(NamedTuple):
    """What `best_subset` returns: the chosen answers' indices and their expected utility."""

    indices: np.ndarray
    value: float


def best_at_k(scores, k):
    """The expected highest score among k answers drawn from the pool without replacement.

    scores (..., n), 1 <= k <= n. Returns (...): the mean of the max over all k-subsets, computed as
    sum_j s_(j) C(j, k-1) / C(n, k) over the sorted scores, j from 0.

    Misleads when k is close to n: few subsets differ, so the variance between pools is high. Also
    across methods whose pools differ in size, or that count rollouts instead of answers.
    Source: the pass@k estimator of 2107.03374, for real scores.

    >>> round(float(best_at_k([0.0, 0.5, 1.0], 2)), 6)  # the maxima are .5, 1, 1
    0.833333
    """
    scores = np.sort(check_finite(scores, "scores", 1), axis=-1)
    n = scores.shape[-1]
    check_whole(k, "k", most=n)
    return scores @ max_weights(n, k)


def pass_at_k(n, c, k):
    """The probability that at least one of k answers solves everything, from c successes in n.

    It is 1 - C(n-c, k) / C(n, k). n and c may be arrays. Count k in ANSWERS: a rollout of three
    answers is k = 3.

    Misleads when success is easy (all methods reach 1). It says nothing of partial merit.
    Source: 2107.03374.

    >>> float(pass_at_k(4, 1, 2))
    0.5
    """
    n, c = np.asarray(n), np.asarray(c)
    if (c < 0).any() or (c > n).any() or k != int(k) or k < 1 or (k > n).any():
        raise ValueError(
            f"n = {n.tolist()}, c = {c.tolist()}, k = {k}: expected 0 <= c <= n and 1 <= k <= n"
        )
    return 1.0 - np.vectorize(lambda n, c: comb(n - c, k) / comb(n, k), otypes=[float])(n, c)


def diversity(R, valid=None):
    """The mean L1 distance between the reward vectors of two answers; 0 if all are alike.

    R (..., n, d). With `valid` (..., n) only the valid answers count. Without it all do, as in
    2605.22817: there an invalid answer is one more far-away vector, so failing raises the number.
    Returns (...); 0 where fewer than two answers count.

    The L1 distance grows with d: for rewards in [0, 1] it lies between 0 and d. Divide by d to
    compare problems that differ in d.

    Misleads if taken for quality: random answers are diverse. Read it together with coverage.

    >>> float(diversity([[1, 0], [0, 1], [1, 0]]))  # the pairs have distance 2, 0, 2
    1.3333333333333333
    >>> float(diversity([[1, 0], [0, 1], [1, 0]], valid=[True, False, True]))
    0.0
    """
    R = check_rewards(R)
    valid = np.ones(R.shape[:-1]) if valid is None else np.asarray(valid, dtype=float)
    if valid.shape != R.shape[:-1]:
        raise ValueError(
            f"valid has shape {valid.shape}: expected {R.shape[:-1]}, one truth value per answer "
            "of R"
        )
    distance = abs(R[..., :, None, :] - R[..., None, :, :]).sum(axis=-1)
    total = np.einsum("...ij,...i,...j->...", distance, valid, valid)
    count = valid.sum(axis=-1)
    return total / np.maximum(count * (count - 1), 1)


def coverage(R, front, alpha=1.0, *, points=POINTS):
    """The set reward of the answers divided by that of the true front, U(R) / U(front).

    R (..., n, d), front (f, d) the complete front. Returns (...); 1.0 means that nothing is
    missing. U is `exact_set_reward`, the function that VPO trains; `points` is passed on to it.
    Raises ValueError for a front with U(front) <= 0.

    Misleads when sets differ in size. Also where one good compromise covers most of the front:
    `price_of_conflict` gives the highest coverage of a single answer.

    >>> round(float(coverage([[1, 0]], front=[[1, 0], [0, 1]])), 4)  # 1/2 of 3/4
    0.6667
    """
    utility = _front_utility(front, alpha, np.shape(R)[-1], points)
    return exact_set_reward(R, alpha, points=points) / utility


def hypervolume(R, front=None):
    """The volume that the answers dominate, measured from the zero vector (by moocore, exact).

    R (..., n, d). With `front` (f, d) it is divided by the front's volume. Raises ValueError for a
    front of volume 0.

    Misleads when all answers have 0 in some objective: the volume is then 0, however good the
    others are. It also favours the middle of the front over its ends.

    >>> hypervolume([[1.0, 0.5], [0.5, 1.0]])
    0.75
    >>> hypervolume([[1.0, 0.5]], front=[[1.0, 0.5], [0.5, 1.0]])
    0.6666666666666666
    """
    import moocore  # imported here because it takes a moment to load

    R = check_rewards(R)
    pools, origin = R.reshape(-1, *R.shape[-2:]), np.zeros(R.shape[-1])
    volumes = [moocore.hypervolume(pool, ref=origin, maximise=True) for pool in pools]
    volume = np.array(volumes).reshape(R.shape[:-2])
    if front is not None:
        whole = hypervolume(_check_front(front, R.shape[-1]))
        if not whole > 0:
            raise ValueError(
                f"front has hypervolume {whole}: an objective is 0 on all of it; leave `front` out"
            )
        volume = volume / whole
    return volume if volume.ndim else float(volume)


def front_share(R, front):
    """The part of the true front's points that the answers hit exactly (to 1e-9), from 0 to 1.

    R (..., n, d), front (f, d). Returns (...). Repeated points of the front count once.

    Misleads on fronts with many nearly equal points: missing one of ten neighbours costs as much
    as missing a whole end.

    >>> float(front_share([[1, 0], [0.4, 0.4]], front=[[1, 0], [0, 1]]))
    0.5
    """
    return _hits(R, front).any(axis=-2).mean(axis=-1)


def best_subset(rewards, m, alpha=1.0):
    """The m answers of a pool that together have the highest expected utility, and that utility.

    rewards (n, d). Returns a `Subset`: (indices, value). Fewer than m indices come back if fewer
    answers are non-dominated, since more would add nothing.

    Every subset of the non-dominated answers is tried if there are few enough (for m = 3, up to
    20,000). Otherwise answers are added one by one, each time the one that raises the utility most.
    Utility is submodular, so this greedy choice reaches at least 1 - 1/e of the best value.

    Misleads when alpha differs from what people will ask of the answers.

    >>> indices, value = best_subset([[1, 0], [0.5, 0.5], [0, 1], [0.1, 0.8]], m=2)
    >>> indices.tolist(), value
    ([0, 2], 0.75)
    """
    rewards = check_rewards(rewards, "rewards")
    check_whole(m, "m")
    if rewards.ndim != 2:
        raise ValueError(f"rewards has shape {rewards.shape}: expected one pool (n, d)")
    pool = np.flatnonzero(nondominated(rewards))
    m = min(m, len(pool))
    if comb(len(pool), m) * m**2 <= TRIED:
        subsets = np.array(list(combinations(pool, m)))
    else:
        subsets = np.array([[]], dtype=int)
        for _ in range(m):
            subsets = np.array([[*subsets[0], i] for i in pool if i not in subsets[0]])
            subsets = subsets[[exact_set_reward(rewards[subsets], alpha).argmax()]]
    values = exact_set_reward(rewards[subsets], alpha)
    best = (values >= values.max() - 1e-12).argmax()  # the first of equals, whatever the rounding
    return Subset(np.sort(subsets[best]), float(values[best]))


def price_of_conflict(front, sizes=(1, 2, 3), alpha=1.0):
    """The highest coverage that few answers can reach: {number of answers: coverage}.

    front (f, d). The entry 1 is called `coverage_best_single`. It is the ceiling of a policy that
    has collapsed onto one answer, however well it was trained. Close to 1 it means that the
    objectives hardly conflict, so a set has nothing to gain.

    >>> price = price_of_conflict([[1, 0], [0, 1], [0.6, 0.6]])
    >>> {m: round(coverage, 4) for m, coverage in price.items()}
    {1: 0.7895, 2: 0.9868, 3: 1.0}
    """
    utility = _front_utility(front, alpha)
    return {int(m): best_subset(front, m, alpha).value / utility for m in sizes}


def as_sets(rewards: np.ndarray, size: int) -> np.ndarray:
    """The sets (n, size, d) that methods are compared on, from one group's rewards (G, m, d).

    Consecutive answers form a set. So a set is one rollout when m = size. Answers that do not
    fill a set are left out; a group with fewer than `size` answers becomes one smaller set.

    >>> as_sets(np.arange(5.0).reshape(5, 1, 1), 2)[..., 0].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    flat = rewards.reshape(-1, rewards.shape[-1])
    size = min(size, len(flat))
    whole = len(flat) // size
    return flat[: whole * size].reshape(whole, size, -1)


def _hits(R, front):
    """Which answer is which distinct point of the front: (..., n, f)."""
    R = check_rewards(R)
    front = _check_front(front, R.shape[-1])
    front = front[nondominated(front)]
    return abs(R[..., :, None, :] - front).max(axis=-1) < 1e-9


def _check_front(front, d=None):
    front = check_rewards(front, "front")
    if front.ndim != 2 or (d is not None and front.shape[1] != d):
        raise ValueError(
            f"front has shape {front.shape}: expected (f, {d or 'd'}), the complete front of one "
            "instance"
        )
    return front


def _front_utility(front, alpha, d=None, points=POINTS):
    front, alpha = _check_front(front, d), check_alpha(alpha)
    utility = _cached_utility(front.tobytes(), front.shape, alpha, points)  # a run asks every step
    if not utility > 0:
        raise ValueError(
            f"front has expected utility {utility}: coverage needs a front worth more than 0"
        )
    return utility


@lru_cache(maxsize=4096)
def _cached_utility(data, shape, alpha, points):
    return float(exact_set_reward(np.frombuffer(data).reshape(shape), alpha, points=points))
