"""Checks of arguments. A ValueError says in one line the name, what was given, what is expected."""

import numpy as np


def shown(value, most: int = 60) -> str:
    """A value for a message: its repr in one line, cut where it is long.

    >>> shown("G" * 5000, most=10)
    "'GGGGGGGGG… (5,002 characters)"
    """
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes out
        text = f"{type(value).__name__} of {value.bit_length():,} bits"
    return shortened(text, most)


def shortened(text: str, most: int = 60) -> str:
    """A text in one line, cut where it is long.

    >>> shortened("to   be\\nor not")
    'to be or not'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}… ({len(text):,} characters)"


def check_rewards(R, name="R"):
    """R as float64 (..., m, d), finite, m and d at least 1."""
    R = check_finite(R, name, 2)
    if R.shape[-2] == 0 or R.shape[-1] == 0:
        raise ValueError(
            f"{name} has shape {R.shape}: expected (..., m, d) with at least one answer and one "
            "objective"
        )
    return R


def check_finite(x, name, ndim):
    """x as a finite float64 array of at least ndim dimensions."""
    try:
        x = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        message = f"{name}: expected an array of numbers, rows of equal length"
        raise ValueError(message) from None
    if x.ndim < ndim:
        raise ValueError(
            f"{name} has shape {x.shape}: expected at least {ndim} dimensions, objectives last"
        )
    if not np.isfinite(x).all():
        raise ValueError(
            f"{name} holds {(~np.isfinite(x)).sum()} values that are NaN or infinite; all must be "
            "finite"
        )
    return x


def check_whole(x, name, most=None):
    """Refuse x unless it is a whole number from 1 to `most`."""
    whole = isinstance(x, (int, np.integer)) and not isinstance(x, bool)
    if not whole or x < 1 or (most is not None and x > most):
        limit = f" and at most {most}" if most else ""
        raise ValueError(f"{name} = {x!r}: expected a whole number of at least 1{limit}")


def check_alpha(alpha):
    """alpha as a positive float."""
    try:
        alpha = float(alpha)
    except (TypeError, ValueError):
        raise ValueError(f"alpha = {alpha!r}: expected one positive number") from None
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(
            f"alpha = {alpha}: expected a positive finite number (1 draws weights uniformly)"
        )
    return 1.0 if abs(alpha - 1) < 1e-12 else alpha  # a logarithmic slider: 1.0000000000000002


def check_points(points):
    """points as an int: a power of two, at least 16, since they come in 8 scramblings."""
    whole = isinstance(points, (int, np.integer)) and not isinstance(points, bool)
    if not whole or points < 16 or points & (points - 1):
        raise ValueError(f"points = {points!r}: expected a power of two, at least 16")
    return int(points)
