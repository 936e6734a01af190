"""Rewards that mislead, made on purpose; on most of them VPO has nothing to offer.

A vector of rewards is only a claim that an answer can be good in several ways. `copies`,
`noisy_copies` and `random_style` make a vector whose claim is false in a known way. `gated` hides a
true conflict behind failures. Give its result to :func:`vpo_lite.reward_report`, or train on it,
and see which figures notice.

`quality` (..., n) is one true number per answer, from 0 to 1. All draws come from `rng`, a
`numpy.random.Generator`. They return float64 rewards (..., n, d): from 0 to 1, but `gated` takes
rewards of any range and adds 0 to it. Raises ValueError for a quality outside 0 to 1, and for other
values that do not fit.

>>> quality = [0.2, 0.9]
>>> copies(quality, 3).tolist()
[[0.2, 0.2, 0.2], [0.9, 0.9, 0.9]]
>>> random_style(quality, 2, np.random.default_rng(0)).tolist()  # a style each, then the quality
[[0.0, 1.0, 0.2], [0.0, 1.0, 0.9]]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .checks import (
    MOST_OBJECTIVES,
    check_finite,
    check_number,
    check_rewards,
    check_rng,
    check_whole,
)


def copies(quality: ArrayLike, d: int) -> np.ndarray:
    """One quality, d times: every component says the same.

    Shows that random weights are then void. Weights add up to 1, so w . r is the quality under
    every w, and VPO is the method `set_max`. The best single answer covers everything.
    """
    quality = _check_quality(quality)
    check_whole(d, "d", most=MOST_OBJECTIVES)
    return np.repeat(quality[..., None], d, axis=-1)


def noisy_copies(quality: ArrayLike, d: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """One quality, d times, each with noise of its own: normal, of standard deviation `noise`.

    Cut off at 0 and 1. Shows that noise looks like a front: the number of non-dominated answers
    grows with it, while the best single answer still covers nearly everything.
    """
    rewards = copies(quality, d)
    noise = check_number(noise, "noise", "a number from 0 to 1", 0, 1)
    return np.clip(rewards + noise * check_rng(rng).standard_normal(rewards.shape), 0, 1)


def random_style(quality: ArrayLike, styles: int, rng: np.random.Generator) -> np.ndarray:
    """Each answer has one of several styles at random (one-hot), and then its quality.

    d is styles + 1.

    Shows that a decomposition can be made up. The styles exclude each other, so correlations,
    coverage and diversity all look like a real conflict. Only a target outside the vector, such as
    what people say of the answers, tells that nobody asked for styles.
    """
    quality = _check_quality(quality)
    check_whole(styles, "styles", most=MOST_OBJECTIVES - 1)
    style = check_rng(rng).integers(styles, size=quality.shape)
    return np.concatenate([np.eye(styles)[style], quality[..., None]], axis=-1)


def gated(rewards: ArrayLike, failures: float, rng: np.random.Generator) -> np.ndarray:
    """The rewards (..., n, d), with all components 0 for a share `failures` of the answers.

    Shows that a correlation over all answers misleads. A failure loses every component at once, and
    this lifts the correlation above 0 although the valid answers conflict.

    >>> gated([[1.0, 0.0], [0.0, 1.0]], 1.0, np.random.default_rng(0)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    rewards = check_rewards(rewards, "rewards")
    failures = check_number(failures, "failures", "a share from 0 to 1", 0, 1)
    failed = check_rng(rng).random(rewards.shape[:-1]) < failures
    return np.where(failed[..., None], 0.0, rewards)


def _check_quality(quality):
    quality = check_finite(quality, "quality", 1)
    if quality.size == 0 or quality.min() < 0 or quality.max() > 1:
        span = f" and numbers from {quality.min():g} to {quality.max():g}" if quality.size else ""
        raise ValueError(
            f"quality has shape {quality.shape}{span}: expected at least one number, "
            "all from 0 to 1"
        )
    return quality
