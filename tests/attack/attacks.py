"""What all attacks share: how many, what is changed, and what must hold afterwards.

A case is one change of one file, text or argument, drawn from a seed. `make test` runs some
1,700. `make bench` runs the same tests with VPO_LITE_ATTACKS=12: more than 20,000 cases.
"""

import contextlib
import copy
import json
import os
import random
from pathlib import Path

import pytest

TIMES = int(os.environ.get("VPO_LITE_ATTACKS", "1"))
LONGEST = 1000  # characters of an error message, whatever was given

NASTY = (  # values that stand for "of the wrong type, or far outside"
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    -0.5,
    0.5,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "0",
    "inf",
    "x" * 5000,
    "a\nb",
    "\x00",
    "\ud800",
    "<script>alert(1)</script>",
    "../../etc",
    [],
    [[]],
    [1, "2", None],
    {},
    {"a": {"b": []}},
)


def seeds(count: int):
    """A parametrisation over ``count`` cases in `make test`, and TIMES as many in `make bench`."""
    return pytest.mark.parametrize("seed", range(count * TIMES))


@contextlib.contextmanager
def full_disk(limit: int):
    """In here no file may grow beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits of a process")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mutated_json(value, rng: random.Random):
    """A copy of a JSON value with one place changed: removed, renamed, doubled or made nasty."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return rng.choice(NASTY)
    holder, key = rng.choice(places)
    how = rng.choice(("nasty", "nasty", "nasty", "remove", "add", "swap", "scale"))
    if how == "nasty":
        holder[key] = rng.choice(NASTY)
    elif how == "remove":
        del holder[key]
    elif how == "add" and isinstance(holder, dict):
        holder[f"{key}_too"] = holder[key]
    elif how == "add":
        holder.insert(key, copy.deepcopy(holder[key]))
    elif how == "swap":
        other, its = rng.choice(places)
        holder[key] = copy.deepcopy(other[its])
    elif isinstance(holder[key], (int, float)):
        holder[key] = holder[key] * rng.choice((-1, 1000, 1e300, 1e-300))
    else:
        holder[key] = [holder[key]]
    return value


def _places(value):
    """(holder, key) of everything inside a JSON value."""
    if not isinstance(value, (dict, list)):
        return
    for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        yield from _places(part)


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """A copy of some bytes that is cut, or has a part flipped, doubled, lost or overwritten."""
    if not data:
        return bytes([rng.randrange(256)])
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    flipped = bytes(x ^ (1 << rng.randrange(8)) for x in data[a : a + 3])
    return rng.choice(
        (
            data[:a],
            data[:a] + flipped + data[a + 3 :],
            data[:b] + data[a:b] + data[b:],
            data[:a] + data[b:],
            data[:a] + bytes(min(b - a, 4096)) + data[b:],
            data[:a] + b'{["\xff\x00' + data[a:],
            b"",
        )
    )


def json_text(value) -> str:
    """JSON of a mutated value; NaN, infinity and lone surrogates are written as Python does."""
    return json.dumps(value)


def check_error(error: BaseException, kind=ValueError) -> None:
    """An error that a user may see: of this kind, one line, short."""
    assert isinstance(error, kind), repr(error)[:500]
    text = str(error)
    assert text.strip(), "an empty message"
    assert "\n" not in text, text[:500]
    assert len(text) <= LONGEST, f"{len(text)} characters: {text[:300]}"


# How a full disk is said. dill, which TRL brings, asks for a temporary folder when it is imported.
TOO_LARGE = "File too large|No usable temporary directory"


def tree(folder) -> dict:
    """Every file below a folder with its content, to compare before and after. Locks apart."""
    folder = Path(folder)
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
        if p.name != ".lock"
    }
