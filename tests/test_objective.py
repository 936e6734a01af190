"""The set reward against closed forms, brute force and SciPy; every expectation is computed another way."""

import numpy as np
import pytest

import vpo_lite as vpo

GOLDEN = [
    (np.eye(2), 3 / 4),
    (np.eye(3), 11 / 18),
    (np.eye(4), 25 / 48),
    ([[1, 0], [0, 1], [0.6, 0.6]], 0.76),
    ([[0.2, 0.4, 0.9]], 0.5),
    (np.eye(4)[:3], 11 / 24),
    ([[0.5, 0.5, 0.5, 0.5]], 0.5),
]


@pytest.mark.parametrize("R, value", GOLDEN)
def test_golden_values(R, value):
    assert vpo.exact_set_reward(R) == pytest.approx(value, abs=1e-12)
    W = vpo.sample_weights(2**14, len(R[0]), rng=np.random.default_rng(0), method="sobol")
    assert vpo.set_reward(R, W) == pytest.approx(value, abs=2e-4)
