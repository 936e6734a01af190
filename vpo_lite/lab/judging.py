"""What the objective asks for at one alpha, and how much of it the sets of a run reach.

The weights that judge need not be those that a step trained with: a run is judged again when
somebody moves alpha.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import metrics
from ..exact import POINTS as MANY
from ..exact import compared_set_rewards, exact_set_reward, exact_shares
from ..objective import sample_weights, sampling_method, set_reward
from ..randomness import generator

POINTS = 2048  # of set rewards without a closed form: judging a run takes some hundredths of a s
SEARCHERS = 64  # preferences; each counts d times, its weights shifted by 0 to d - 1 places
BUDGETS = (1, 2, 3, 5, 10, 20, 30)  # answers that a search may look at
SAME = 1e-9  # set rewards that differ by less teach nothing
REPETITIONS = 16  # draws of K weights that `agreement` averages over
MOST_DRAWN = 2**18  # weights in all of these: with a large K one draw is precise, and takes long
MOST_KEPT = 2**20  # numbers in draws that are kept for the next group: 8 MB


class Target(NamedTuple):
    """The best sets of 1, 2, ... m answers that a front holds, at one alpha.

    - best: the indices of the best m answers; fewer, where more add nothing
    - ceilings: coverage of the best 1, 2, ... m answers
    """

    best: tuple[int, ...]
    ceilings: tuple[float, ...]


def target(front: np.ndarray, m: int, alpha: float, points: int = POINTS) -> Target:
    """The best sets of a front (f, d): exactly for d = 2, and at alpha = 1 up to the piece limit;
    else over `points` points. From large fronts answers are added one by one: see
    `metrics.best_subset`.

    Over points a set that is worth 0.001 less may take the place of the best one. Which single
    answer is best does not depend on alpha, since E w is uniform at every alpha. How much of the
    front it covers does.

    >>> found = target(np.array([[1, 0], [0, 1], [0.6, 0.6]]), 2, 1.0)
    >>> found.best, [round(c, 4) for c in found.ceilings]
    ((0, 1), [0.7895, 0.9868])
    """
    front = np.ascontiguousarray(front, dtype=float)
    return _target(front.tobytes(), front.shape, m, alpha, points)


@lru_cache(maxsize=512)
def _target(data: bytes, shape: tuple[int, int], m: int, alpha: float, points: int) -> Target:
    front = np.frombuffer(data).reshape(shape)
    single = metrics.best_subset(front, 1)
    sizes = range(2, m + 1)
    found = [single] + [metrics.best_subset(front, s, alpha, points=points) for s in sizes]
    most = float(exact_set_reward(front, alpha, points=points))
    ceilings = (min(1.0, subset.value / most) if most > 0 else 1.0 for subset in found)
    return Target(tuple(map(int, found[-1].indices)), tuple(ceilings))


class Sets(NamedTuple):
    """The sets that a step wrote on one problem: the distinct ones, and how often each.

    front (f, d), or None where no front is known; rewards (n, m, d); counts (n,)
    """

    front: np.ndarray | None
    rewards: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, front: np.ndarray | None, sets: np.ndarray) -> "Sets":
        """From sets (N, m, d) as written. The order of answers in a set changes no set reward."""
        points, at = np.unique(sets.reshape(-1, sets.shape[-1]), axis=0, return_inverse=True)
        distinct, counts = np.unique(
            np.sort(at.reshape(sets.shape[:2]), axis=1), axis=0, return_counts=True
        )
        return cls(front, points[distinct], counts)


def coverages(
    steps: Sequence[Sequence[Sets]], alpha: float, points: int = POINTS
) -> list[float | None]:
    """The mean coverage of the sets of each step at this alpha; None without a known front.

    Sets of all steps on one front are judged in one call.

    >>> front = np.array([[1, 0], [0, 1], [0.6, 0.6]])
    >>> step = [Sets.of(front, np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0.6, 0.6]] * 2]))]
    >>> round(coverages([step], 1.0)[0], 4)       # 2/3 of 0.9868 and 1/3 of 0.7895
    0.9211
    """
    alike = {}  # sets that one call can judge: those of one front and one size
    for step, parts in enumerate(steps):
        for sets in parts:
            if sets.front is not None:
                kind = (sets.front.tobytes(), sets.rewards.shape[1:])
                alike.setdefault(kind, []).append((step, sets))
    sums, judged = np.zeros(len(steps)), np.zeros(len(steps), dtype=int)
    for found in alike.values():
        rewards = np.concatenate([sets.rewards for _, sets in found])
        # Most sets come again in later steps: each is judged once.
        flat = rewards.reshape(len(rewards), -1)
        _, first, at = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        distinct = metrics.coverage(rewards[first], found[0][1].front, alpha, points=points)
        covered = distinct[at.reshape(-1)]
        parts = np.split(covered, np.cumsum([len(sets.counts) for _, sets in found])[:-1])
        for (step, sets), part in zip(found, parts, strict=True):
            sums[step] += part @ sets.counts / sets.counts.sum()
            judged[step] += 1
    return [
        float(total / n) if 0 < n == len(parts) else None
        for total, n, parts in zip(sums, judged, steps, strict=True)
    ]


def many_points(d: int) -> int:
    """Points of what is not drawn live; fewer with many objectives, where each call takes up to
    seconds.
    """
    return MANY if d <= 16 else POINTS


def win_shares(R: np.ndarray, alpha: float) -> np.ndarray:
    """How often each answer of the sets R (..., m, d) wins over all weights: (..., m).

    >>> win_shares(np.array([[1, 0], [0, 1], [0.6, 0.6]]), 1.0).round(2)
    array([0.4, 0.4, 0.2])
    """
    return exact_shares(R, alpha, points=many_points(R.shape[-1]))


def best_of_k(points: np.ndarray, counts: np.ndarray, alpha: float) -> dict[int, float]:
    """What a search finds that draws k answers and keeps the best: {k: expected utility}.

    The preference w ~ Dirichlet(alpha) is known to the search, but not to the policy. The mean is
    over preferences and, without bias, over all subsets of k answers.

    points (n, d), counts (n,): distinct reward vectors of a pool, and how many answers earned each

    >>> best_of_k(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 5]), 1.0)[1]
    0.5
    """
    weights = _searchers(points.shape[1], alpha)  # (S, d)
    scores = np.repeat(weights @ points.T, counts, axis=1)
    budgets = [k for k in BUDGETS if k <= scores.shape[1]]
    return {k: round(float(metrics.best_at_k(scores, k).mean()), 12) for k in budgets}


def whole(front: np.ndarray, alpha: float) -> float:
    """What a search finds that looks at the whole front (f, d), for the same preferences."""
    return float((_searchers(front.shape[1], alpha) @ front.T).max(axis=1).mean())


@lru_cache(maxsize=64)
def _searchers(d: int, alpha: float) -> np.ndarray:
    W = sample_weights(
        SEARCHERS, d, alpha, rng=generator(0, "searchers"), method=sampling_method(alpha)
    )
    return np.concatenate([np.roll(W, i, axis=1) for i in range(d)])  # so that E w is uniform


def agreement(R: np.ndarray, K: float, alpha: float) -> float | None:
    """How well the advantages of K shared weights agree with the exact ones: their correlation.

    R (G, m, d): the rewards of one group. 1: the same order and the same distances. Returns None
    for a group that teaches nothing, because all its sets are worth the same.

    >>> R = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5]] * 2])
    >>> agreement(R, 4, 1.0) < agreement(R, 256, 1.0) <= agreement(R, np.inf, 1.0) == 1
    True
    """
    # Advantages are these, shifted and scaled.
    exact = compared_set_rewards(R, alpha, points=POINTS).value
    if np.ptp(exact) < SAME:
        return None
    if K == np.inf:
        return 1.0
    d = R.shape[-1]
    kept = REPETITIONS * K * d <= MOST_KEPT
    weights = (_draws if kept else _draws.__wrapped__)(K, d, alpha)
    drawn = set_reward(np.broadcast_to(R, (len(weights), *R.shape)), weights)  # (n, G)
    told = drawn[np.ptp(drawn, axis=1) >= SAME]  # weights that see no difference agree with nothing
    exact, told = (x - x.mean(axis=-1, keepdims=True) for x in (exact, told))
    lengths = np.linalg.norm(told, axis=1) * np.linalg.norm(exact)
    return float((told @ exact / lengths).sum() / len(drawn))


@lru_cache(maxsize=2)
def _draws(K: int, d: int, alpha: float) -> np.ndarray:
    """Weights (n, K, d), drawn n times."""
    several = range(max(1, min(REPETITIONS, MOST_DRAWN // K)))
    return np.stack(
        [sample_weights(K, d, alpha, rng=generator(0, "agreement", i)) for i in several]
    )
