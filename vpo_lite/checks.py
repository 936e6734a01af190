"""Checks of arguments. A ValueError says in one line the name, what was given, what is expected.

The functions of the core are right within these limits, and refuse what lies beyond:

    rewards and scores   real, finite, at most 1e100 in size, however small
    weights              real, finite, 0 to 1e40; w_star also below 0, at most 1e40 in size
    alpha                1e-6 to 1e6; beyond, the weights are corners or the centre to 0.1 %
    sizes                10,000 answers in a set, 4,096 objectives, 67,108,864 numbers in an array

A result is right to 1e-12 of the largest reward of its set, or it states its own error. Advantages
are the exception: scores that spread less than 1e-9 count as equal, so scale up smaller rewards.
"""

import contextlib
import os
import traceback
from collections.abc import Iterator
from numbers import Real
from pathlib import Path

import numpy as np

LARGEST = 1e100  # size of a reward or a score: squares and sums of squares stay finite
LARGEST_WEIGHT = 1e40
LEAST_ALPHA, MOST_ALPHA = 1e-6, 1_000_000
MOST_ANSWERS = 10_000
MOST_OBJECTIVES = 4_096
MOST_VALUES = 2**26  # numbers in an array: half a gigabyte
MOST_PAIRS = 10**10  # comparisons of answers in pairs, over all sets and objectives: some 10 s
MOST_POINTS = 2**20
DEEPEST = 16  # lists in lists
ROUNDING = 1e-6  # sums in float32 miss the least reward there is by a part of this
INTEGERS = 2**63  # whole numbers stay below this, as in NumPy, torch and JSON readers


def shown(value, most: int = 60) -> str:
    """A value for a message: its repr in one line, cut where it is long.

    >>> shown("G" * 5000, most=10)
    "'GGGGGGGGG… (5,002 characters)"
    """
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes out
        bits = getattr(value, "bit_length", None)
        digits = f" of {bits():,} bits" if bits else ""
        text = f"{type(value).__name__}{digits}"
    except RecursionError:
        text = f"{type(value).__name__}, nested too deep"
    except Exception as error:  # a reader's own class may raise anything
        text = f"{type(value).__name__}, whose repr raises {type(error).__name__}"
    return shortened(text, most)


def shortened(text: str, most: int = 60) -> str:
    """A text in one line, cut where it is long. A terminal does not obey its control characters.

    >>> shortened("to   be\\nor not", 12), shortened("\\033[2J") == r"\\x1b[2J"
    ('to be or not', True)
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}… ({len(text):,} characters)"


def raised(error: BaseException, most: int = 300) -> str:
    """An error of somebody else's code in one line: its class, and what it says.

    >>> raised(KeyError("x")), raised(SystemExit())
    ("KeyError: 'x'", 'SystemExit')
    """
    try:
        said = str(error)
    except Exception as another:
        said = f"its text raises {type(another).__name__}"
    return shortened(f"{type(error).__name__}: {said}".removesuffix(": "), most)


def raised_by(error: BaseException) -> str:
    """The same of a function that was called in a ``try``, with its file and line: the last line in
    the function's own file, which says more than one of a library that it calls, or than one of
    ours between the two.

    >>> try:
    ...     exec(compile("def f():\\n    {}[1]", "own.py", "exec"), names := {}), names["f"]()
    ... except KeyError as error:
    ...     print(raised_by(error))
    KeyError: 1 (own.py, line 2)
    """
    ours = f"{Path(__file__).parent}{os.sep}"  # such as awaiting.py
    called = traceback.extract_tb(error.__traceback__)[1:]  # frame 0 holds the try
    called = [f for f in called if not f.filename.startswith(ours)] or called
    lines = [f for f in called if f.filename == called[0].filename]
    where = f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""
    return raised(error) + where


def printable(text: str) -> str:
    """A text whose control characters are written out, but for the ends of lines."""
    if text.isprintable():
        return text
    kept = "\n\u200c\u200d"  # Persian and emoji need the two joiners
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


@contextlib.contextmanager
def told_of(what: str, kind: type[Exception] = ValueError, cure: str = "") -> Iterator[None]:
    """A context in which a ValueError becomes an error of this kind, between ``what`` and ``cure``.

    >>> with told_of("row 3"):
    ...     raise ValueError("it is empty")
    Traceback (most recent call last):
    ...
    ValueError: row 3: it is empty
    """
    try:
        yield
    except ValueError as error:
        raise kind(f"{what}: {error}{cure}") from error


# ---- arrays ----


def check_rewards(R, name="R"):
    """R as float64 (..., m, d), each at most 1e100, m and d at least 1; sizes as stated above."""
    R = check_finite(R, name, 2)
    m, d = R.shape[-2:]
    if m == 0 or d == 0:
        raise ValueError(
            f"{name} has shape {R.shape}: expected (..., m, d) with at least one answer and one "
            "objective"
        )
    if m > MOST_ANSWERS or d > MOST_OBJECTIVES:
        raise ValueError(
            f"{name} has shape {R.shape}: expected (..., m, d) with at most {MOST_ANSWERS:,} "
            f"answers and {MOST_OBJECTIVES:,} objectives"
        )
    if R.size * m > MOST_PAIRS:
        raise ValueError(
            f"{name} has shape {R.shape}: comparing its answers in pairs takes {R.size * m:,} "
            f"steps, at most {MOST_PAIRS:,} are allowed; give fewer sets or answers in a call"
        )
    return R


def check_finite(x, name, ndim, largest=LARGEST):
    """x as a finite float64 array of at least ndim dimensions, no number larger than `largest`.

    x is a number, an array, a CPU tensor, or nested lists of these, of kind bool, int or float.
    Python objects pass if each is a `numbers.Real` (a Fraction is one, a Decimal is not).

    Raises ValueError for anything else: texts, dates, complex numbers, masked entries, sparse or
    structured arrays, rows of unequal length, NaN, infinity, and arrays that are too large.
    """
    if x is None:
        raise ValueError(f"{name} is None: expected an array of numbers")
    if _holds_masked(x, name):
        raise ValueError(f"{name} holds masked entries; fill them or leave their answers out")
    try:
        x = np.asarray(x)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name}{_unreadable(name, str(error))}") from None
    if x.size > MOST_VALUES:
        raise ValueError(
            f"{name} has shape {shown(x.shape)}: {x.size:,} numbers, at most {MOST_VALUES:,} are "
            "allowed"
        )
    real = x.dtype.kind in "biuf" or (
        x.dtype.kind == "O" and all(isinstance(value, Real | np.bool_) for value in x.flat)
    )
    if not real:
        kind = "objects that are no real numbers" if x.dtype.kind == "O" else f"dtype {x.dtype}"
        raise ValueError(
            f"{name} holds {shortened(kind)}: expected an array of numbers, all of them real"
        )
    if x.ndim < ndim:
        raise ValueError(
            f"{name} has shape {x.shape}: expected at least {ndim} dimensions, objectives last"
        )
    try:
        with np.errstate(over="ignore"):  # of a long double: the infinity is refused below
            x = x.astype(np.float64, copy=x.dtype.kind == "O")
    except OverflowError:
        said = f"{name} holds whole numbers beyond {largest:g}"
        raise ValueError(f"{said}: scale them down") from None
    with np.errstate(invalid="ignore"):
        size = max(x.max(initial=0), -x.min(initial=0))  # NaN where x holds one
    if not size < np.inf:
        odd = np.argwhere(~np.isfinite(x))
        first = f", the first at {odd[0].tolist()}" if x.ndim else ""
        raise ValueError(
            f"{name} holds {len(odd)} values that are NaN or infinite{first}; all must be finite"
        )
    if size > largest:
        noun = "weights" if name in ("W", "w_star", "weights") else "rewards"
        said = f"{name} holds numbers up to {size:.3g}, beyond {largest:g}"
        raise ValueError(f"{said}: scale the {noun}")
    return x


def _unreadable(name, error):
    """What to do about an array, by what NumPy or torch said of it."""
    if "unsupported ScalarType" in error:  # bfloat16 and narrower types
        return f" holds {error.split()[-1]}, a type that NumPy lacks: give its .float()"
    if "requires grad" in error or "device type tensor" in error:
        return " has gradients, or is not on the CPU: give its .detach().cpu()"
    cures = {"R": "; let a missing answer have the worst rewards"}
    cure = (cures | {"weights": "; give each prompt the same K"}).get(name.partition("[")[0], "")
    return f": expected an array of numbers, rows of equal length{cure} ({shortened(error, 120)})"


def _holds_masked(x, name, depth=0):
    """Whether a masked entry stands in x, or in an array in lists: NumPy would drop the mask."""
    if isinstance(x, np.ndarray):
        return np.ma.is_masked(x)
    if not isinstance(x, list | tuple):
        return False
    if depth > DEEPEST:
        raise ValueError(f"{name}: lists nested too deep; expected an array of numbers")
    kinds = set(map(type, x)) - {float, int}  # most lists hold numbers only
    return bool(kinds) and any(_holds_masked(part, name, depth + 1) for part in x)


def is_below(rewards, worst):
    """Which rewards lie below the worst one by more than rounding: 1e-6 of its size, or of 1.

    >>> is_below(np.array([0, 1 - 0.9 - 0.1, -1e-5]), 0).tolist()
    [False, False, True]
    """
    return rewards < worst - ROUNDING * np.maximum(1, np.abs(worst))


def check_weights(W, name):
    """W as a finite float64 array (..., K, d), at most 1e40 in size, nothing below 0."""
    W = check_finite(W, name, 2, LARGEST_WEIGHT)
    if (odd := np.argwhere(is_below(W, 0))).size:
        *row, k = odd[0].tolist()
        raise ValueError(
            f"{name} holds {len(odd)} negative numbers, the first {W[*row, k]:g} in row {row}: "
            "give weights of at least 0, and negate the rewards of an objective that is to be small"
        )
    return W


def check_flags(x, name):
    """x as a bool array, from truth values or the numbers 0 and 1."""
    x = check_finite(x, name, 0)
    if ((x != 0) & (x != 1)).any():
        raise ValueError(f"{name} holds numbers other than 0 and 1: expected truth values")
    return x.astype(bool)


# ---- single values ----


def check_number(x, name, expected, least, most):
    """x as a float from `least` to `most`; `expected` says in words what it must be."""
    try:
        value = check_finite(x, name, 0, np.inf)
    except ValueError:
        value = np.array(np.nan)
    if isinstance(x, bool | np.bool_) or value.shape or not least <= value <= most:
        raise ValueError(f"{name} = {shown(x)}: expected {expected}")
    return float(value)


def is_whole(x) -> bool:
    """Whether x is a whole number of Python or NumPy; True and False are none."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def check_whole(x, name, most=INTEGERS - 1):
    """Refuse x unless it is a whole number from 1 to `most`."""
    whole = is_whole(x)
    if not whole or not 1 <= x <= most:
        limit = f" and at most {most:,}" if most < INTEGERS - 1 or (whole and x > most) else ""
        raise ValueError(f"{name} = {shown(x)}: expected a whole number of at least 1{limit}")


def check_truth(x, name):
    """Refuse x unless it is True or False: a text such as "no" would count as true."""
    if not isinstance(x, bool | np.bool_):
        raise ValueError(f"{name} = {shown(x)}: expected True or False")


def check_choice(x, name, choices):
    """Refuse x unless it is one of these words."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} = {shown(x)}: expected one of {', '.join(choices)}")


def check_alpha(alpha):
    """alpha as a float from 1e-6 to 1e6."""
    expected = f"one positive number, {LEAST_ALPHA} to {MOST_ALPHA:,} (1 draws weights uniformly)"
    alpha = check_number(alpha, "alpha", expected, LEAST_ALPHA, MOST_ALPHA)
    return 1.0 if abs(alpha - 1) < 1e-12 else alpha  # a logarithmic slider: 1.0000000000000002


def check_rng(rng):
    """Refuse rng unless it is a `numpy.random.Generator`; returns it."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng = {shown(rng)}: expected a numpy.random.Generator, say np.random.default_rng(0)"
        )
    return rng


def check_points(points):
    """points as an int: a power of two, at least 16, since they come in 8 scramblings."""
    if not is_whole(points) or not 16 <= points <= MOST_POINTS or points & (points - 1):
        raise ValueError(
            f"points = {shown(points)}: expected a power of two, at least 16, at most "
            f"{MOST_POINTS:,}"
        )
    return int(points)


def check_drawn(K, d, name="K"):
    """Refuse K weight vectors of d numbers that no memory holds."""
    if K * d > MOST_VALUES:
        raise ValueError(
            f"{name} = {K:,} with d = {d:,}: {K * d:,} numbers, at most {MOST_VALUES:,} are allowed"
        )
