"""Every random draw depends on its name alone: (seed, purpose, step, key).

The name, such as ("weights", step 7, problem 1003), is hashed into the key of a counter-based
generator. There is no shared state. So the native trainer, TRL and veRL draw the same weights, and
a resumed run draws what the uninterrupted run would have drawn. One more draw in one place changes
no other draw.
"""

import hashlib
import json
from typing import Any

import numpy as np

from .checks import is_whole, shown


def generator(seed: int, purpose: str, step: int = 0, key: Any = "") -> np.random.Generator:
    """A `numpy.random.Generator` (Philox) for one purpose. Same arguments, same numbers, anywhere.

    seed     a whole number.
    purpose  a word: "weights", "sampling", "init".
    step     a whole number.
    key      whatever else tells draws apart: a string, a number, None, or tuples, lists and dicts
             of these.

    Raises ValueError for arguments of another type, for NaN and for infinity.

    >>> generator(0, "weights", step=3, key=("problem", 1003)).integers(0, 1000, 3).tolist()
    [158, 815, 43]
    """
    return np.random.Generator(np.random.Philox(key=_hash(seed, purpose, step, key)))


def integer(seed: int, purpose: str, step: int = 0, key: Any = "") -> int:
    """A whole number in [0, 2^63) for one purpose, such as the seed of a torch generator.

    Arguments and errors as for `generator`.

    >>> integer(0, "sampling", step=3)
    825431389122603760
    """
    return _hash(seed, purpose, step, key) & (2**63 - 1)


def _hash(seed, purpose, step, key):
    """128 bits of BLAKE2b over the canonical JSON of the arguments."""
    arguments = [seed, purpose, step, key]
    fit = is_whole(seed) and isinstance(purpose, str) and is_whole(step)
    try:
        name = fit and json.dumps(
            arguments, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
        )
    except (TypeError, ValueError, RecursionError):  # the last: nested too deep
        name = None
    if not name:
        given = ", ".join(shown(x) for x in arguments)
        raise ValueError(
            f"seed, purpose, step, key = {given}: expected numbers, strings and tuples: a whole "
            "number, a word, a whole number, and a key of any of them"
        )
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")


def _plain(x):
    if isinstance(x, (np.integer, np.floating)):
        return x.item()
    raise TypeError
