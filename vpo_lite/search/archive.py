"""An archive of answers in reward space: the best one of each cell of a fixed grid."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..checks import LARGEST_WEIGHT, check_finite, check_whole, shown

CELLS = 1_024  # a grid has about so many, but two at least for each objective
OUTSIDE = (
    "rewards below 0 or above 1: the archive's cells divide 0 to 1, so such rewards share the "
    "outermost cells. Without a known front a search that meets rewards above 1 knows no target, "
    "and never counts as solved. Scale the rewards to 0 to 1"
)
ROUNDING = 1e-9  # of a cell: 0.29 * 100 is a little less than 29


class Elite(NamedTuple):
    """The best answer of a cell, its rewards (d,), and its score w . r."""

    answer: str
    rewards: np.ndarray
    score: float


def check_preference(weights) -> np.ndarray:
    """Returns the weights (d,) of a score w . r, checked: finite, at most 1e40, not all 0.

    >>> check_preference([0, 0])
    Traceback (most recent call last):
    ...
    ValueError: weights = [0, 0]: expected numbers (d,), one for each objective, not all 0
    """
    checked = check_finite(weights, "weights", 0, LARGEST_WEIGHT)
    if checked.ndim != 1 or not checked.any():
        raise ValueError(
            f"weights = {shown(weights)}: expected numbers (d,), one for each objective, not all 0"
        )
    return checked


class Archive:
    """The best answer found in each cell of a fixed grid over the rewards: MAP-Elites (Mouret and
    Clune, arXiv 1504.04909).

    - weights (d,): an answer's score is w . r
    - bins: cells for each objective, of equal width over [0, 1]. A reward outside belongs to the
      outer cell; a warning says so once. None: as many as 1,024 cells allow, two at least. Rewards
      of 0 and 1, such as passed tests, then have a cell for each different vector.

    Of equal scores the shortest answer stays, of these the first. Otherwise long answers, which
    cannot be joined further, would displace the short ones they are made of.

    Raises ValueError for bins below 1, for weights or rewards that are not d finite numbers, and
    for weights that are all 0.

    >>> archive = Archive([0.5, 0.5], bins=2)
    >>> found = [("a", [0.1, 0.6]), ("b", [0.2, 0.5]), ("c", [0.3, 0.9]), ("d", [1, 0])]
    >>> [archive.add(answer, rewards) is not None for answer, rewards in found]
    [True, False, True, True]
    >>> [elite.answer for elite in archive.elites.values()], archive.coverage, archive.qd_score
    (['c', 'd'], 0.5, 1.1)
    """

    def __init__(self, weights, bins: int | None = None):
        self.weights = check_preference(weights)
        if bins is not None:
            check_whole(bins, "bins")
        d = len(self.weights)
        self.bins = max(2, int(CELLS ** (1 / d))) if bins is None else int(bins)
        self.elites: dict[tuple[int, ...], Elite] = {}

    def cell(self, rewards) -> tuple[int, ...]:
        """The cell of a reward vector (d,): d whole numbers, each 0 to bins - 1."""
        checked = check_finite(rewards, "rewards", 0)
        if checked.shape != self.weights.shape:
            raise ValueError(
                f"rewards has shape {checked.shape}: expected {self.weights.shape}, one number for "
                "each weight"
            )
        places = checked * self.bins + ROUNDING
        return tuple(np.clip(places, 0, self.bins - 1).astype(int).tolist())

    def add(self, answer: str, rewards) -> Elite | None:
        """Keeps the answer if it is its cell's best. Returns its elite, else None."""
        cell = self.cell(rewards)
        rewards = np.array(rewards, dtype=float)  # a copy: the caller may fill its array anew
        if rewards.min() < -ROUNDING or rewards.max() > 1 + ROUNDING:
            warnings.warn(OUTSIDE, stacklevel=2)
        score = float(self.weights @ rewards)
        old = self.elites.get(cell)
        if old and (score, -len(answer)) <= (old.score, -len(old.answer)):
            return None
        self.elites[cell] = Elite(answer, rewards, score)
        return self.elites[cell]

    def parents(self, rng, count: int = 1, fit: Callable[[str], bool] | None = None) -> list[Elite]:
        """Different elites, each as likely as any other; at most ``count``.

        fit: only answers for which it is true
        """
        there = [e for e in self.elites.values() if fit is None or fit(e.answer)]
        return [there[i] for i in rng.permutation(len(there))[:count]]

    def end_call(self) -> None:
        """Called after each call. An archive with generations counts one."""

    @property
    def coverage(self) -> float:
        """The fraction of cells with an elite, 0 to 1. It is not the `coverage` of a front."""
        return len(self.elites) / self.bins ** len(self.weights)

    @property
    def qd_score(self) -> float:
        """The sum of the elites' scores. With scores above 0 it grows with number and quality."""
        return float(sum(elite.score for elite in self.elites.values()))
