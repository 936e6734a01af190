"""What a set of answers is worth where the truth is uncertain, and the best sets there are.

Exactly one of g possible truths holds, truth t with probability posterior[t]. It decides the reward
vector of every answer. The objectives do not conflict: the right answer earns every reward. A
policy that knows only the posterior can only hedge. So the yardstick is not the true front, but the
best *expected* reward of m answers. It depends on the goal:

- ``set_reward``: E_w max_y w . r(y), which VPO trains (arXiv 2605.22817)
- ``best``: the largest mean of a reward vector in the set: best@m, and what set_max rewards,
  for equal weights w*
- ``solved``: the chance that an answer earns every reward

The best sets of these goals can differ. All sets are tried, so the best ones are exact.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from .checks import check_rewards, check_whole, shown
from .exact import exact_set_reward

MOST_SETS = 50_000  # sets that a search may try: C(32, 3) = 4,960 and C(32, 4) = 35,960 fit


class Expected(NamedTuple):
    """Expectations over the truth, each in [0, 1] for rewards in [0, 1]; see the module's head."""

    set_reward: np.ndarray
    best: np.ndarray
    solved: np.ndarray


class BestSet(NamedTuple):
    """The set that is best for one goal: the numbers of its m answers, and what it is worth."""

    answers: tuple[int, ...]
    expected: Expected


def expected_rewards(R, posterior, alpha: float = 1.0) -> Expected:
    """What sets of m answers are worth, by all three goals, in expectation over the truth.

    - R (..., g, m, d): the reward vectors of the set under each of g truths
    - posterior (g,): their probabilities

    Returns three arrays (...). Raises ValueError for probabilities that do not add up to 1.

    One binary question that is answered both ways: the set is always right.

    >>> R = [[[1.0], [0.0]], [[0.0], [1.0]]]
    >>> [float(x) for x in expected_rewards(R, [0.6, 0.4])]
    [1.0, 1.0, 1.0]
    >>> [round(float(x), 6) for x in expected_rewards(np.array(R)[:, :1], [0.6, 0.4])]
    [0.6, 0.6, 0.6]
    """
    R = check_rewards(R)
    if R.ndim < 3:
        raise ValueError(f"R has shape {R.shape}: expected (..., g, m, d), a set under each truth")
    p = _probabilities(posterior, R.shape[-3])
    solved = (R >= 1 - 1e-9).all(axis=-1).any(axis=-1)
    return Expected(_set_rewards(R, alpha) @ p, R.mean(axis=-1).max(axis=-1) @ p, solved @ p)


def best_sets(R, posterior, m: int, alpha: float = 1.0) -> dict[str, BestSet]:
    """The best set of m different answers for each goal, by trying all of them.

    - R (g, n, d): the reward vector of each of n answers under each of g truths
    - posterior (g,): the probabilities of the truths

    Of equally good sets it is the first in the order of the answers. Raises ValueError for more
    than 50,000 sets.

    Two binary questions, each answered 0 with probability 0.6; answers 00, 01, 10, 11:

    >>> truth = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> R = (truth[:, None] == truth).astype(float)
    >>> found = best_sets(R, [0.36, 0.24, 0.24, 0.16], m=2)
    >>> {goal: (s.answers, round(float(s.expected.solved), 6)) for goal, s in found.items()}
    {'set_reward': ((0, 3), 0.52), 'best': ((0, 1), 0.6), 'solved': ((0, 1), 0.6)}
    """
    R = check_rewards(R)
    if R.ndim != 3:
        raise ValueError(f"R has shape {R.shape}: expected (g, n, d), truths by answers by rewards")
    check_whole(m, "m", most=R.shape[1])
    if (count := comb(R.shape[1], m)) > MOST_SETS:
        raise ValueError(
            f"m = {m}: {count:,} sets of {R.shape[1]} answers, at most {MOST_SETS:,} are tried; "
            "lower m"
        )
    sets = np.array(list(combinations(range(R.shape[1]), m)))
    worth = expected_rewards(R[:, sets].swapaxes(0, 1), posterior, alpha)
    chosen = {goal: int((x >= x.max() - 1e-12).argmax()) for goal, x in worth._asdict().items()}
    return {
        goal: BestSet(tuple(sets[i].tolist()), Expected(*(x[i] for x in worth)))
        for goal, i in chosen.items()
    }


def _set_rewards(R, alpha):
    """exact_set_reward(R), with one integral for all sets that differ only in the order of their
    components: the weights are exchangeable.
    """
    order = np.lexsort(np.moveaxis(R, -2, 0), axis=-1)
    alike = np.take_along_axis(R, order[..., None, :], axis=-1).reshape(-1, *R.shape[-2:])
    as_bytes = np.ascontiguousarray(alike).reshape(len(alike), -1).view(f"V{alike[0].nbytes}")
    _, first, which = np.unique(as_bytes.ravel(), return_index=True, return_inverse=True)
    return exact_set_reward(alike[first], alpha)[which].reshape(R.shape[:-2])


def _probabilities(posterior, g):
    p = np.asarray(posterior, dtype=float)
    if p.shape != (g,) or not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
        raise ValueError(
            f"posterior = {shown(posterior)}: expected {g} probabilities that add up to 1, one for "
            "each truth"
        )
    return p
