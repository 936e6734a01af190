"""The numbers of a `reward_report`: its input checked, then each problem measured by itself."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..checks import LARGEST_WEIGHT, check_finite, check_flags, check_rewards, is_below, shown
from ..exact import exact_set_reward
from ..messages import is_plain
from ..metrics import best_at_k, best_subset
from ..objective import nondominated

SIZES = (1, 2, 3)  # answers in a set
FEWEST = 3  # answers that a correlation needs: that of two is always -1 or 1
POINTS = 4096  # to choose sets that have no closed form: a quarter of those that value them


class Problem(NamedTuple):
    """Checked input: rewards (n, d) from `worst`, valid (n,), w_star (d,), target (n,) or None."""

    rewards: np.ndarray
    valid: np.ndarray
    w_star: np.ndarray
    target: np.ndarray | None


class Target(NamedTuple):
    """One problem's part of a `TargetReport`; alone and components: one number per component."""

    spread: dict[int, float]
    highest: dict[int, float]
    random: dict[int, float]
    alone: np.ndarray
    best: float
    rho: float
    components: np.ndarray


class Decomposition(NamedTuple):
    """One problem's part of a `RewardReport`; `coverage` is empty if nothing was earned."""

    coverage: dict[int, float]
    average: float
    utility: float  # of all answers
    under_w_star: float
    tied: int  # different vectors that are highest under w*
    correlations_all: np.ndarray
    correlations_valid: np.ndarray
    effective: float
    front: int
    target: Target | None


# ---- what is given ----


def problems_of(R, valid, w_star, target, worst) -> list[Problem]:
    """The checked problems. Arguments as in `reward_report`."""
    pools = _pools(R)
    one = len(pools) == 1 and depth(R) == 2
    parts = zip(
        pools,
        _split(valid, "valid", len(pools), one),
        _split(target, "target", len(pools), one),
        _split(w_star, "w_star", len(pools), depth(w_star) == 1),
        _split(worst, "worst", len(pools), depth(worst) <= 1),
        strict=True,
    )
    return [_problem(f"R[{p}]" if len(pools) > 1 else "R", *part) for p, part in enumerate(parts)]


def _pools(R) -> list:
    axes = depth(R)
    if axes not in (2, 3) or len(R) == 0:
        cure = "; make (P, n, d) of rollouts: R.reshape(P, G * m, d)" if axes == 4 else ""
        raise ValueError(
            f"R = {shown(R)}: expected rewards (n, d), (P, n, d), or a list of arrays (n_p, "
            f"d_p){cure}"
        )
    return [R] if axes == 2 else list(R)


def depth(x) -> int:
    """The number of axes of an array, or of lists of arrays; rows may differ in length."""
    axes = 0
    while isinstance(x, list | tuple) and len(x) and axes < 9:
        x, axes = x[0], axes + 1
    return axes + getattr(x, "ndim", 0)


def _split(x, name, P, same) -> list:
    """x for each of P problems; same: one value is given, for all of them."""
    if x is None or same:
        return [x] * P
    if not isinstance(x, Sequence) and not hasattr(x, "shape"):
        raise ValueError(f"{name} = {shown(x)}: expected {P:,} parts, one for each problem of R")
    if depth(x) == 0 or len(x) != P:
        count = "no" if depth(x) == 0 else f"{len(x):,}"
        raise ValueError(f"{name} has {count} parts: expected {P:,}, one for each problem of R")
    return list(x)


def _problem(name, rewards, valid, target, w_star, worst) -> Problem:
    rewards = check_rewards(rewards, name)
    if rewards.ndim != 2:
        raise ValueError(f"{name} has shape {rewards.shape}: expected (n, d), answers of a problem")
    n, d = rewards.shape
    worst = check_finite(0 if worst is None else worst, "worst", 0)
    worst = _shaped(worst if worst.shape else np.full(d, worst), "worst", d)
    w_star = np.full(d, 1 / d) if w_star is None else w_star
    w_star = _shaped(check_finite(w_star, "w_star", 0, LARGEST_WEIGHT), "w_star", d)
    if not w_star.any():
        raise ValueError(
            f"w_star = {shown(w_star.tolist())} for {name}: expected at least one weight other "
            "than 0"
        )
    below = is_below(rewards, worst)
    if below.any():
        raise ValueError(
            f"{name} holds a reward of {rewards[below][0]:g}, below worst: coverage is measured "
            "from there; give worst = the rewards of a worthless answer (--worst=A,B), say the "
            "lowest of each component"
        )
    rewards = np.maximum(rewards, worst)  # what lies below it by rounding
    if valid is None:
        valid = (rewards != worst).any(axis=1)
    valid = _shaped(check_flags(valid, "valid"), "valid", n)
    if target is not None:
        target = _shaped(check_finite(target, "target", 0), "target", n)
    return Problem(rewards - worst, valid, w_star, target)


def _shaped(x, name, size):
    if x.shape != (size,):
        raise ValueError(f"{name} has shape {x.shape}: expected ({size},) for a problem of R")
    return x


def names_of(objectives, d) -> tuple[str, ...]:
    """The names of the components, by default numbers; none where d is None, since it differs."""
    if objectives is None:
        return tuple(f"component {i + 1}" for i in range(d or 0))
    if d is None:
        raise ValueError(
            f"objectives = {shown(objectives)}: d differs from problem to problem; leave them out"
        )
    listed = isinstance(objectives, Sequence) and not isinstance(objectives, str | bytes)
    if not listed or len(objectives) != d or not all(map(is_plain, objectives)):
        raise ValueError(f"objectives = {shown(objectives)}: expected {d} texts")
    if len(set(objectives)) < d:
        raise ValueError(f"objectives = {shown(objectives)}: each name may stand there once")
    return tuple(objectives)


# ---- one problem ----


def measure(x: Problem, alpha: float) -> Decomposition:
    """All figures of one problem."""
    vectors, which = np.unique(x.rewards, axis=0, return_inverse=True)  # equal answers are one
    which = which.reshape(-1)
    kept = np.flatnonzero(nondominated(vectors))
    front = vectors[kept]
    whole = float(exact_set_reward(front, alpha))
    scores = vectors @ x.w_star
    coverage, average, under_w_star, tied, target = {}, np.nan, np.nan, 1, None
    if whole > 0:
        best = {m: best_subset(front, m, alpha, points=POINTS) for m in SIZES}
        worth = {m: float(exact_set_reward(front[s.indices], alpha)) for m, s in best.items()}
        coverage = {m: min(1.0, value / whole) for m, value in worth.items()}
        average = x.rewards.mean() / whole
        highest = scores >= scores.max() - 1e-12 * abs(scores).max()
        under_w_star = vectors[highest].mean() / whole
        tied = int(highest.sum())  # GRPO has no reason to choose among them
        if x.target is not None:
            chosen = {m: kept[found.indices] for m, found in best.items()}
            target = _follow(x, vectors, which, scores, chosen)
    valid = x.rewards[x.valid]
    return Decomposition(
        coverage=coverage,
        average=average,
        utility=whole,
        under_w_star=under_w_star,
        tied=tied,
        correlations_all=correlations(x.rewards),
        correlations_valid=correlations(valid),
        effective=effective_dimensions(valid),
        front=len(front),
        target=target,
    )


def _follow(x: Problem, vectors, which, scores, chosen) -> Target:
    """The target of a problem. which (n,): the vector of each answer; chosen {m: indices}."""
    targets = np.bincount(which, x.target) / np.bincount(which)
    spread = {}
    for m, indices in chosen.items():
        others = np.setdiff1d(np.arange(len(targets)), indices)
        found, free = targets[indices].max(), min(m - len(indices), len(others))
        spread[m] = best_of_highest(targets[others], scores[others], free, found) if free else found
    pool = targets[which]
    seen = np.column_stack([x.target, scores[which], x.rewards])[x.valid]
    rho = correlations(seen)[0]
    return Target(
        spread=spread,
        highest={m: best_of_highest(targets, scores, m) for m in SIZES},
        random={m: best_at_k(pool, min(m, len(pool))) for m in SIZES},
        alone=np.array([best_of_highest(targets, column, SIZES[-1]) for column in vectors.T]),
        best=targets.max(),
        rho=rho[1],
        components=rho[2:],
    )


def best_of_highest(targets, scores, m, least=-np.inf) -> float:
    """The expected best target of the m answers with the highest scores, at least `least`.

    targets (n,), scores (n,). Where answers tie for the last slots, all choices are as likely. Of
    fewer than m answers, all are taken.

    >>> best_of_highest(np.array([0.0, 1, 0, 5]), np.array([9, 7, 7, 1]), 2)  # {0, 1} or {0, 0}
    0.5
    """
    m = min(m, len(scores))
    last, near = np.sort(scores)[-m], 1e-12 * abs(scores).max()
    above, tied = scores > last + near, abs(scores - last) <= near
    least = max(least, targets[above].max(initial=-np.inf))
    return float(best_at_k(np.maximum(targets[tied], least), m - int(above.sum())))


def correlations(X) -> np.ndarray:
    """Pearson's correlations of the columns of X (n, c): (c, c), NaN where a column is constant.

    All are NaN for fewer than 3 rows.

    >>> correlations(np.array([[1.0, 0, 5], [0, 1, 5], [2, -1, 5]])).round(9).tolist()
    [[1.0, -1.0, nan], [-1.0, 1.0, nan], [nan, nan, nan]]
    """
    n, c = X.shape
    if n < FEWEST:
        return np.full((c, c), np.nan)
    size = abs(X).max(axis=0)
    X = X / np.where(size > 0, size, 1)
    X = X - X.mean(axis=0)
    length = np.sqrt((X**2).sum(axis=0))
    flat = length <= 1e-12 * np.sqrt(n)
    X = np.where(flat, np.nan, X / np.where(flat, 1, length))
    return np.clip(X.T @ X, -1, 1)


def effective_dimensions(X) -> float:
    """The participation ratio of the covariance of X (n, d): (sum l)^2 / sum l^2, from 1 to d.

    l are the eigenvalues; their sum is the trace, and the sum of their squares is the squared
    Frobenius norm. NaN for fewer than 3 rows, and where nothing varies.

    >>> effective_dimensions(np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]]))  # all directions alike
    2.0
    """
    if len(X) < FEWEST:
        return np.nan
    X = X / (abs(X).max() or 1)
    X = X - X.mean(axis=0)
    if abs(X).max() <= 1e-12:
        return np.nan
    covariance = X.T @ X
    return float(np.trace(covariance) ** 2 / (covariance**2).sum())


# ---- means over problems ----


def mean(values: Iterable) -> float | None:
    """The mean without NaN and None; None where nothing is left."""
    found = [float(v) for v in values if v is not None and not np.isnan(v)]
    return float(np.mean(found)) if found else None


def off_diagonal(table) -> float | None:
    """The mean over pairs of different components."""
    return mean(table[~np.eye(len(table), dtype=bool)])


def mean_table(tables) -> np.ndarray:
    """The mean (d, d) of each entry over the problems where it is a number; else NaN."""
    tables = np.asarray(tables)
    count = (~np.isnan(tables)).sum(axis=0)
    total = np.where(count > 0, np.nansum(tables, axis=0), np.nan)
    return total / np.maximum(count, 1)
