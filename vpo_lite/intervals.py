"""How sure a mean is: bootstrap intervals over problems and seeds, and the sign test."""

from functools import lru_cache

import numpy as np
from scipy.stats import binomtest

from .checks import check_finite, check_whole, shown
from .randomness import generator

RESAMPLES = 2000
MOST_RESAMPLES = 1_000_000

__all__ = ["bootstrap", "bootstrap_crossed", "sign_test"]


def bootstrap(values, level=0.95, resamples=RESAMPLES):
    """Percentile bootstrap interval of the mean over the first axis, from keyed draws.

    values (n, ...): one row per problem. Returns (low, high), each (...). The rows are drawn with
    replacement, and all figures of a row together. For a difference of two methods give the
    differences problem by problem: the interval is then paired. Source: Efron, 1979.

    >>> low, high = bootstrap([0.5, 0.5, 0.5])
    >>> float(low), float(high)
    (0.5, 0.5)
    """
    values = _checked(values, 1, level, resamples)
    picks = generator(0, "bootstrap").integers(len(values), size=(resamples, len(values)))
    counts = np.stack([np.bincount(row, minlength=len(values)) for row in picks])
    resampled = counts @ values.reshape(len(values), -1) / len(values)
    return _between(resampled.reshape(resamples, *values.shape[1:]), level)


def bootstrap_crossed(values, level=0.95, resamples=RESAMPLES):
    """The same over two axes at once: seeds and problems are both drawn with replacement.

    values (s, n, ...): a row per seed, in it one per problem. Returns (low, high), each (...). One
    seed alone says nothing of other seeds: the interval is then that of :func:`bootstrap`.
    Source: the crossed bootstrap, Owen, 2007.

    >>> low, high = bootstrap_crossed([[0.0, 0.0], [1.0, 1.0]])  # the seeds differ, the rows not
    >>> float(low), float(high)
    (0.0, 1.0)
    """
    values = _checked(values, 2, level, resamples)
    seeds, problems = values.shape[:2]
    by_seed, by_problem = _crossed_shares(seeds, problems, resamples)
    by_row = by_problem @ values.swapaxes(0, 1).reshape(problems, -1)  # a mean for each seed
    resampled = np.einsum("rs,rsx->rx", by_seed, by_row.reshape(resamples, seeds, -1))
    return _between(resampled.reshape(resamples, *values.shape[2:]), level)


@lru_cache(maxsize=8)
def _crossed_shares(seeds, problems, resamples):
    """How often each seed and each problem is drawn, as shares: (resamples, seeds) and (.., n)."""
    rng = generator(0, "crossed bootstrap")
    shares = np.empty((resamples, seeds)), np.empty((resamples, problems))
    for i in range(resamples):
        for share, n in zip(shares, (seeds, problems), strict=True):
            share[i] = np.bincount(rng.integers(n, size=n), minlength=n) / n
    return shares


def _checked(values, axes, level, resamples):
    values = check_finite(values, "values", axes)
    if 0 in values.shape[:axes]:
        raise ValueError(f"values has shape {values.shape}: expected at least one row to resample")
    if not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"level = {shown(level)}: must be between 0 and 1")
    check_whole(resamples, "resamples", MOST_RESAMPLES)
    return values


def _between(resampled, level):
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def sign_test(first, second):
    """Two-sided p-value that two methods win equally often; ties are left out.

    first, second (n,): one score per problem. Returns 1.0 where all are ties.

    >>> sign_test([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])  # 5 wins of 5: 2 / 2^5
    0.0625
    """
    first, second = (check_finite(x, "scores", 1) for x in (first, second))
    if first.shape != second.shape:
        raise ValueError(f"scores of shapes {first.shape} and {second.shape}: expected equal ones")
    wins, losses = int((first > second).sum()), int((second > first).sum())
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
