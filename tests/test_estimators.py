"""The eight methods against brute force, by-hand values and the properties that their definitions promise."""

import numpy as np
import pytest

import vpo_lite as vpo

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("method", vpo.METHODS)
def test_equal_rollouts_get_exactly_zero(method):
    m = 1 if vpo.METHODS[method].single_answer else 3
    R = np.tile(RNG.random((2, 1, m, 4)), (1, 8, 1, 1))
    W = vpo.sample_weights(2, 4, rng=RNG)[:, None]
    A = vpo.advantages(method, R, weights=W)
    assert A.shape == (2, 8) and A.dtype == np.float64 and (A == 0).all()
