"""How sure a mean is: t intervals over problems and seeds, sign test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

from .checks import check_finite

ENOUGH = 3  # runs that show how much their seeds differ
ROUNDING = 1e-12  # of the largest value: values that spread no more are equal


class Noise(NamedTuple):
    """What one source of chance adds to a mean: its variance, and the degrees of freedom of that
    estimate. No freedom: nothing is known of this source, and it adds nothing.
    """

    variance: float
    freedom: float


def noise(values) -> Noise:
    """What the choice of these n values adds to their mean: s² / n, with n - 1 degrees of freedom.

    >>> noise([1.0, 2.0, 3.0])  # s² = 1
    Noise(variance=0.3333333333333333, freedom=2)
    >>> noise([1.0])  # one value tells nothing of others
    Noise(variance=0.0, freedom=0)
    """
    values = _flat(values)
    n = len(values)
    return Noise(_squares(values) / (n - 1) / n, n - 1) if n > 1 else Noise(0.0, 0)


def pooled(groups, *sizes: int) -> Noise:
    """The noise of a mean of n values, too few to show their own spread; of several means (sizes
    n), that of their sum or difference. It is the pooled variance of other groups times Σ 1 / n.
    This is one estimate, however many means borrow it.

    >>> pooled([[1.0, 2.0, 3.0], [5.0, 5.0]], 1)  # (2 + 0) / (2 + 1)
    Noise(variance=0.6666666666666666, freedom=3)
    """
    groups = [_flat(values) for values in groups]
    freedom = sum(len(values) - 1 for values in groups)
    if not freedom:
        return Noise(0.0, 0)
    return Noise(sum(map(_squares, groups)) / freedom * sum(1 / n for n in sizes), freedom)


def of_seeds(compared, groups) -> list[Noise]:
    """What the choice of seeds adds to the mean of one kind of runs, or to the difference of two.

    - compared: of each kind the values of its runs, which differ in their seed alone. Three runs or
      more show their own spread. Where one kind has fewer, both borrow the pooled one of all
      groups: the other's own is a part of it, and would count twice
    - groups: the values of all kinds

    >>> of_seeds([[1.0, 2.0, 3.0]], []) == [noise([1.0, 2.0, 3.0])]
    True
    >>> of_seeds([[1.0], [1.0, 2.0, 3.0]], [[1.0], [2.0, 2.0], [1.0, 2.0, 3.0]])  # 2 / 3 (1 + 1/3)
    [Noise(variance=0.8888888888888888, freedom=3)]
    """
    if any(len(values) < ENOUGH for values in compared):
        return [pooled(groups, *map(len, compared))]
    return [noise(values) for values in compared]


def total(sources: Iterable[Noise]) -> Noise:
    """The noise of a mean in which several independent sources of chance add up.

    Their variances are added, and the degrees of freedom are Welch's and Satterthwaite's:
    (Σ v)² / Σ (v² / f) for sources of variance v with f degrees. A source whose variance or freedom
    is 0 adds nothing. Source: Satterthwaite, 1946; Welch, 1947.

    >>> total([Noise(1.0, 4), Noise(1.0, 4)])
    Noise(variance=2.0, freedom=8.0)
    """
    sources = [source for source in sources if source.freedom and source.variance > 0]
    if not sources:
        return Noise(0.0, 0)
    variance = sum(source.variance for source in sources)
    return Noise(variance, variance**2 / sum(s.variance**2 / s.freedom for s in sources))


def t_interval(mean: float, sources: Iterable[Noise]) -> tuple[float, float]:
    """The 95 % interval of a mean in which several independent sources of chance add up.

    It is Student's, with the variance and the degrees of freedom of :func:`total`. For few seeds
    this is as wide as it must be; a bootstrap over five seeds is too narrow. Where nothing is known
    of any source, such as with one run on one problem, it is the whole line; where what is known
    does not vary, a point.

    >>> low, high = t_interval(2.0, [noise([1.0, 2.0, 3.0])])  # t = 4.303 with 2 degrees
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    sources = [source for source in sources if source.freedom]
    if not sources:
        return -np.inf, np.inf
    spread = total(sources)
    if not spread.freedom:
        return mean, mean
    half = float(student.ppf(0.975, spread.freedom)) * spread.variance**0.5
    return mean - half, mean + half


def _flat(values):
    values = check_finite(values, "values", 1)
    if not len(values):
        raise ValueError(f"values has shape {values.shape}: expected at least one row")
    if values.ndim > 1:
        raise ValueError(f"values has shape {values.shape}: expected one number each")
    return values


def _squares(values) -> float:
    """The sum of squared distances to the mean; 0 where rounding alone tells the values apart."""
    if np.ptp(values) <= ROUNDING * abs(values).max():
        return 0.0
    return float(((values - values.mean()) ** 2).sum())


def wins_and_losses(first, second) -> tuple[int, int]:
    """On how many problems the first of two methods scores more, and on how many less. Scores that
    differ by rounding are ties.

    first, second (n,): one score per problem

    >>> wins_and_losses([0.1 + 0.2, 1, 0], [0.3, 0, 1])
    (1, 1)
    """
    first, second = (check_finite(x, "scores", 1) for x in (first, second))
    if first.shape != second.shape:
        raise ValueError(f"scores of shapes {first.shape} and {second.shape}: expected equal ones")
    gap = first - second
    gap[abs(gap) <= ROUNDING * np.maximum(abs(first), abs(second))] = 0
    return int((gap > 0).sum()), int((gap < 0).sum())


def sign_test(first, second):
    """Two-sided p-value of the hypothesis that two methods win equally often; ties are left out.

    first, second (n,): as for :func:`wins_and_losses`. Returns 1.0 where all are ties.

    >>> sign_test([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])  # 5 wins of 5: 2 / 2^5
    0.0625
    """
    wins, losses = wins_and_losses(first, second)
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
