"""Checks at the boundary: one message each, with the name, what was given and what was expected."""

import numpy as np


def check_rewards(R, name="R"):
    R = check_finite(R, name, 2)
    if R.shape[-2] == 0 or R.shape[-1] == 0:
        raise ValueError(f"{name} has shape {R.shape}: expected (..., m, d) with at least one answer and one objective")
    return R


def check_finite(x, name, ndim):
    try:
        x = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected an array of numbers, rows of equal length") from None
    if x.ndim < ndim:
        raise ValueError(f"{name} has shape {x.shape}: expected at least {ndim} dimensions, objectives last")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} holds {(~np.isfinite(x)).sum()} values that are NaN or infinite; all must be finite")
    return x


def check_whole(x, name, most=None):
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)) or x < 1 or (most is not None and x > most):
        limit = f" and at most {most}" if most else ""
        raise ValueError(f"{name} = {x!r}: expected a whole number of at least 1{limit}")


def check_alpha(alpha):
    try:
        alpha = float(alpha)
    except (TypeError, ValueError):
        raise ValueError(f"alpha = {alpha!r}: expected one positive number") from None
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha = {alpha}: expected a positive finite number (1 is uniform over the weightings)")
    return 1.0 if abs(alpha - 1) < 1e-12 else alpha  # a logarithmic slider says 1.0000000000000002
