"""Every random draw is a pure function of (seed, purpose, step, key): no shared state, no order, no process.

A name such as ("weights", step 7, maze 1003) is hashed into the key of a counter-based generator. So the native
trainer, TRL and veRL draw the same weightings, a resumed run draws what the uninterrupted one would have, and drawing
one more number somewhere changes nothing elsewhere.
"""

import hashlib
import json

import numpy as np


def generator(seed, purpose, step=0, key=""):
    """A `numpy.random.Generator` (Philox) for one purpose.

    seed and step are whole numbers, purpose a word ("weights", "sampling", "init"), key what else tells draws apart: a
    string, a number, or a tuple of these. Same arguments, same numbers, on every machine. ValueError for anything else.

    >>> generator(0, "weights", step=3, key=("maze", 1003)).integers(0, 1000, 3).tolist()
    [141, 109, 641]
    """
    return np.random.Generator(np.random.Philox(key=_hash(seed, purpose, step, key)))


def integer(seed, purpose, step=0, key=""):
    """A whole number in [0, 2^63) for one purpose: the seed of a torch generator, say. Arguments as for `generator`.

    >>> integer(0, "sampling", step=3)
    825431389122603760
    """
    return _hash(seed, purpose, step, key) & (2**63 - 1)


def _hash(seed, purpose, step, key):
    """128 bits of BLAKE2b over the canonical JSON of the arguments."""
    try:
        arguments = [seed, purpose, step, key]
        name = json.dumps(arguments, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        raise ValueError(
            f"seed, purpose, step, key = {seed!r}, {purpose!r}, {step!r}, {key!r}: expected numbers, strings and tuples"
        ) from None
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")


def _plain(x):
    if isinstance(x, (np.integer, np.floating)):
        return x.item()
    raise TypeError
