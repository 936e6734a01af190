"""How good and how varied a pool of answers is. Every docstring says when its number misleads.

Rewards are (..., n, d): n answers, d objectives, each higher = better; leading dimensions (mazes, sets) are kept.
"""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

from ._checks import check_alpha, check_finite, check_rewards, check_whole
from .estimators import max_weights
from .objective import exact_set_reward, nondominated

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
    "pool_report",
    "price_of_conflict",
]


def best_at_k(scores, k):
    """Expected highest score among k answers drawn from the pool without replacement: the mean over all k-subsets.

    scores (..., n), 1 <= k <= n. Returns (...). sum_j s_(j) C(j, k-1) / C(n, k) over the sorted scores, j from 0.
    Misleads when k nears n (few distinct subsets: high variance across pools), and across methods whose pools differ in
    size or whose k counts rollouts rather than answers. Source: the pass@k estimator of 2107.03374, for real scores.

    >>> round(float(best_at_k([0.0, 0.5, 1.0], 2)), 6)                             # maxima .5, 1, 1
    0.833333
    """
    scores = np.sort(check_finite(scores, "scores", 1), axis=-1)
    n = scores.shape[-1]
    check_whole(k, "k", most=n)
    return scores @ max_weights(n, k)


def pass_at_k(n, c, k):
    """Probability that at least one of k answers solves everything, 1 - C(n-c, k) / C(n, k), from c successes in n.

    n, c may be arrays. Count k in ANSWERS: a rollout of three answers is k = 3. Misleads when success is easy (all
    methods reach 1) and says nothing of partial merit. Source: 2107.03374.

    >>> float(pass_at_k(4, 1, 2))
    0.5
    """
    n, c = np.asarray(n), np.asarray(c)
    if (c < 0).any() or (c > n).any() or k != int(k) or k < 1 or (k > n).any():
        raise ValueError(f"n = {n.tolist()}, c = {c.tolist()}, k = {k}: expected 0 <= c <= n and 1 <= k <= n")
    return 1.0 - np.vectorize(lambda n, c: comb(n - c, k) / comb(n, k), otypes=[float])(n, c)


def diversity(R, success=None):
    """Mean pairwise L1 distance between the reward vectors of the answers; 0 = all alike.

    R (..., n, d). With `success` (..., n) only answers that succeed count; without it all do, as in 2605.22817, where a
    failure is one more far-away vector, so that failing raises the number. 0 where fewer than two answers are left.
    Misleads when taken for quality: random answers are diverse. Read it beside coverage.

    >>> float(diversity([[1, 0], [0, 1], [1, 0]]))                                 # pairs 2, 0, 2
    1.3333333333333333
    >>> float(diversity([[1, 0], [0, 1], [1, 0]], success=[True, False, True]))
    0.0
    """
    R = check_rewards(R)
    success = np.ones(R.shape[:-1]) if success is None else np.asarray(success, dtype=float)
    if success.shape != R.shape[:-1]:
        raise ValueError(f"success has shape {success.shape}: expected {R.shape[:-1]}, one truth value per answer of R")
    distance = abs(R[..., :, None, :] - R[..., None, :, :]).sum(axis=-1)
    total = np.einsum("...ij,...i,...j->...", distance, success, success)
    count = success.sum(axis=-1)
    return total / np.maximum(count * (count - 1), 1)


def coverage(R, front, alpha=1.0):
    """Share of the true front's expected utility that the answers reach: U(R) / U(front); 1.0 = nothing is missing.

    R (..., n, d), front (f, d) the complete front. U is `exact_set_reward`, the function that VPO trains.
    Misleads when compared across sets of different size, and where one good compromise already covers most: look at
    `price_of_conflict` for the ceiling of a single answer. Needs a front with positive utility.

    >>> round(float(coverage([[1, 0]], front=[[1, 0], [0, 1]])), 4)                # 1/2 of 3/4
    0.6667
    """
    return exact_set_reward(R, alpha) / _front_utility(front, alpha, np.shape(R)[-1])


def hypervolume(R, front=None):
    """Volume between the zero vector and the answers: what they dominate of the positive orthant (moocore).

    R (..., n, d). With `front` (f, d) divided by the front's. Exact. Misleads when an objective is 0 for the whole pool
    (the volume is 0 then, however good the rest), and it favours the middle of the front over its ends.

    >>> hypervolume([[1.0, 0.5], [0.5, 1.0]]), hypervolume([[1.0, 0.5]], front=[[1.0, 0.5], [0.5, 1.0]])
    (0.75, 0.6666666666666666)
    """
    import moocore  # only here: loading it takes a moment

    R = check_rewards(R)
    volume = np.array(
        [moocore.hypervolume(pool, ref=np.zeros(R.shape[-1]), maximise=True) for pool in R.reshape(-1, *R.shape[-2:])]
    ).reshape(R.shape[:-2])
    if front is not None:
        whole = hypervolume(_check_front(front, R.shape[-1]))
        if not whole > 0:
            raise ValueError(f"front has hypervolume {whole}: an objective is 0 on all of it; leave `front` out")
        volume = volume / whole
    return volume if volume.ndim else float(volume)


def front_share(R, front):
    """Share of the distinct points of the true front that the answers hit exactly (to 1e-9): R (..., n, d) -> (...).

    Misleads on fronts with many near-equal points: missing one of ten neighbours costs as much as missing a whole end.

    >>> float(front_share([[1, 0], [0.4, 0.4]], front=[[1, 0], [0, 1]]))
    0.5
    """
    return _hits(R, front).any(axis=-2).mean(axis=-1)


def best_subset(rewards, m, alpha=1.0):
    """The m answers of a pool that together have the highest expected utility: (indices (<= m,), value).

    rewards (n, d). Exact, by trying all subsets of the non-dominated answers, up to 20,000 of them; above that greedily
    (utility is submodular, so greedy reaches at least 1 - 1/e of the best). Fewer than m indices come back where fewer
    are non-dominated: more would add nothing. Misleads when alpha is not what people will ask of the answers.

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
    if comb(len(pool), m) <= 20_000:
        subsets = np.array(list(combinations(pool, m)))
    else:
        subsets = np.array([[]], dtype=int)
        for _ in range(m):
            subsets = np.array([[*subsets[0], i] for i in pool if i not in subsets[0]])
            subsets = subsets[[exact_set_reward(rewards[subsets], alpha).argmax()]]
    values = exact_set_reward(rewards[subsets], alpha)
    best = (values >= values.max() - 1e-12).argmax()  # the first of equals, whatever the rounding
    return np.sort(subsets[best]), float(values[best])


def price_of_conflict(front, sizes=(1, 2, 3), alpha=1.0):
    """What few answers can reach at best, as a share of the front's utility: {number of answers: coverage}.

    front (f, d). The entry 1 is `coverage_best_single`: the ceiling of a policy that has collapsed on one answer,
    however well it was trained. Close to 1 means that the objectives hardly conflict: a set has nothing to gain.

    >>> {m: round(share, 4) for m, share in price_of_conflict([[1, 0], [0, 1], [0.6, 0.6]]).items()}
    {1: 0.7895, 2: 0.9868, 3: 1.0}
    """
    utility = _front_utility(front, alpha)
    return {int(m): best_subset(front, m, alpha)[1] / utility for m in sizes}


def as_sets(rewards: np.ndarray, size: int) -> np.ndarray:
    """The sets that methods are compared on, (n, size, d), from one group's vectors (G, m, d): each rollout's m answers
    when m = size, else runs of ``size`` consecutive answers; what does not fill a set is left out."""
    flat = rewards.reshape(-1, rewards.shape[-1])
    size = min(size, len(flat))
    whole = len(flat) // size
    return flat[: whole * size].reshape(whole, size, -1)


def pool_report(R, front=None, *, success=None, w_star=None, alpha=1.0, ks=(1, 3, 10, 30)):
    """All figures of one pool of answers R (n, d) in a dict; those that need the true front only if it is given.

    Keys: answers, distinct, nondominated, nondominated_share, expected_utility, diversity_all, best_at_k {k: value} for
    the k up to n, under w* (d,), None = 1/d each; with `success` (n,) also diversity (among them) and success_rate;
    with `front` (f, d) also front_size, coverage, coverage_best_single, front_share, witnesses (answers on the front),
    and hypervolume (over the front's; None where that is 0).

    >>> report = pool_report([[1, 0], [0, 1], [0, 1]], front=[[1, 0], [0, 1], [0.6, 0.6]], ks=(1, 3))
    >>> report["distinct"], report["nondominated"], round(report["coverage"], 4), report["best_at_k"]
    (2, 2, 0.9868, {1: 0.5, 3: 0.5})
    """
    R = check_rewards(R)
    if R.ndim != 2:
        raise ValueError(f"R has shape {R.shape}: pool_report takes one pool (n, d)")
    n, d = R.shape
    w_star = np.full(d, 1 / d) if w_star is None else check_finite(w_star, "w_star", 1)
    if w_star.shape != (d,):
        raise ValueError(f"w_star has shape {w_star.shape}: expected {(d,)}")
    undominated = int(nondominated(R).sum())
    report = {
        "answers": n,
        "distinct": len(np.unique(R, axis=0)),
        "nondominated": undominated,
        "nondominated_share": undominated / n,
        "expected_utility": float(exact_set_reward(R, alpha)),
        "diversity_all": float(diversity(R)),
        "best_at_k": {int(k): float(best_at_k(R @ w_star, k)) for k in ks if k <= n},
    }
    if success is not None:
        report["diversity"] = float(diversity(R, success))
        report["success_rate"] = float(np.mean(success))
    if front is not None:
        report["front_size"] = int(nondominated(_check_front(front, d)).sum())
        report["coverage"] = float(coverage(R, front, alpha))
        report["coverage_best_single"] = price_of_conflict(front, (1,), alpha)[1]
        report["front_share"] = float(front_share(R, front))
        report["witnesses"] = int(_hits(R, front).any(axis=-1).sum())
        report["hypervolume"] = hypervolume(R, front) if hypervolume(front) > 0 else None
    return report


def _hits(R, front):
    """Which answer is which distinct point of the front: (..., n, f)."""
    R = check_rewards(R)
    front = _check_front(front, R.shape[-1])
    front = front[nondominated(front)]
    return abs(R[..., :, None, :] - front).max(axis=-1) < 1e-9


def _check_front(front, d=None):
    front = check_rewards(front, "front")
    if front.ndim != 2 or (d is not None and front.shape[1] != d):
        raise ValueError(f"front has shape {front.shape}: expected (f, {d or 'd'}), the complete front of one instance")
    return front


def _front_utility(front, alpha, d=None):
    front, alpha = _check_front(front, d), check_alpha(alpha)
    utility = _cached_utility(front.tobytes(), front.shape, alpha)  # a run asks for the same front at every step
    if not utility > 0:
        raise ValueError(f"front has expected utility {utility}: coverage needs a front worth more than 0")
    return utility


@lru_cache(maxsize=4096)
def _cached_utility(data, shape, alpha):
    return float(exact_set_reward(np.frombuffer(data).reshape(shape), alpha))
