"""Rewards that another program measured, from its file."""

import os
from pathlib import Path

import numpy as np

from ..checks import MOST_VALUES, shortened
from ..files import DamagedError, read_json
from ..messages import shown_path
from .measured import depth


def read_rewards(path: str | os.PathLike) -> np.ndarray | list:
    """The rewards R in a file FILE.npy or FILE.json, as :func:`reward_report` takes them.

    The file holds (n, d), (P, n, d) or (P, G, m, d): an array, or lists of lists. The G sets of m
    answers to a problem become its n = G m answers. In JSON, problems may differ in G, m, n and d.

    Raises DamagedError, a ValueError, for any other file. The numbers themselves are not checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "R.json"
    ...     _ = file.write_text("[[[[1, 0], [0, 1]], [[0.6, 0.6]]]]")  # P = 1, G = 2
    ...     read_rewards(file)
    [[[1, 0], [0, 1], [0.6, 0.6]]]
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".npy", ".json"):
        raise DamagedError(f"{shown_path(path)}: expected rewards in a file FILE.npy or FILE.json")
    R = _array(path) if kind == ".npy" else read_json(path, list)
    axes = depth(R)
    if axes not in (2, 3, 4):
        raise DamagedError(
            f"{shown_path(path)}: number of axes of R: {axes}; expected (n, d), (P, n, d) or "
            "(P, G, m, d)"
        )
    if axes < 4:
        return R
    if isinstance(R, np.ndarray):
        return R.reshape(len(R), -1, R.shape[-1])
    try:
        return [[answer for group in problem for answer in group] for problem in R]
    except TypeError:  # a number stands where a group should
        raise DamagedError(
            f"{shown_path(path)}: holds lists of unequal depth; expected R (P, G, m, d)"
        ) from None


def _array(path: Path) -> np.ndarray:
    try:  # mapped: a header that asks for more than the file holds takes no memory
        R = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        why = error.strerror or shortened(str(error), 200)
        raise DamagedError(f"{shown_path(path)}: cannot be read ({why})") from error
    except Exception as error:  # NumPy reads the header without checks of its own
        why = shortened(str(error), 200)
        # NumPy's guess for all that does not begin as such a file, in its older and newer words
        if "containing pickled" in why or "contains pickled" in why:
            why = "it begins otherwise"
        raise DamagedError(f"{shown_path(path)}: no .npy file with numbers ({why})") from error
    if not isinstance(R, np.ndarray):  # an .npz under another name
        R.close()
        raise DamagedError(f"{shown_path(path)}: holds several arrays; expected one, R")
    if R.size > MOST_VALUES:
        raise DamagedError(
            f"{shown_path(path)}: holds {R.size:,} numbers, at most {MOST_VALUES:,} are allowed"
        )
    return np.array(R)  # a copy: the file may be written anew while R is in use
