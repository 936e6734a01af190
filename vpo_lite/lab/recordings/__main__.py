"""Makes the recordings that the notebooks talk about.

    python -m vpo_lite.lab.recordings [FOLDER [NAME ...]]

All of them take about ten minutes on two cores. FOLDER defaults to the package's own.

- three_methods/seed-0, -1, -2: VPO, GRPO and Multi-RLVR side by side on one maze, preset demo
- silent_bug/a, b, c: three runs of "VPO". One of them has a bug that raises no error; notebook 04
  asks which.
"""

import contextlib
import dataclasses
import sys
from pathlib import Path

import numpy as np

from ... import estimators
from .. import Lab
from . import SHIPPED

MAZE = 1000
SEEDS = range(3)
BROKEN, BUG_SEEDS = "b", {"a": 3, "b": 4, "c": 5}


def mean_inside(R, *, weights, eps, **_):
    """VPO with one word wrong: the mean over the answers stands where the max belongs."""
    U = np.einsum("pgmd,pkd->pgmk", R, weights).mean(axis=(2, 3))
    return U, estimators.zscore(U, eps)


@contextlib.contextmanager
def broken():
    """Inside, the name vpo means the broken estimator."""
    real = estimators.METHODS["vpo"]
    estimators.METHODS["vpo"] = dataclasses.replace(real, estimate=mean_inside)
    try:
        yield
    finally:
        estimators.METHODS["vpo"] = real


def make(name: str, folder) -> None:
    """Train, and write the recording with this name into the folder."""
    kind, which = name.split("/")
    if kind == "three_methods":
        seed = int(which.removeprefix("seed-"))
        lab = Lab(("vpo", "grpo", "multi_rlvr"), maze_seed=MAZE, seed=seed)
    else:
        lab = Lab("vpo", maze_seed=MAZE, seed=BUG_SEEDS[which])
    with broken() if which == BROKEN else contextlib.nullcontext():
        lab.train()
        lab.join()
    if lab.state != "finished":
        raise SystemExit(f"{name}: {lab.last_error}")
    path = lab.record(Path(folder) / name, f"python -m vpo_lite.lab.recordings . {name}")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB\n{lab.sentence()}", flush=True)


if __name__ == "__main__":
    folder, *names = sys.argv[1:] or [SHIPPED]
    known = [f"three_methods/seed-{s}" for s in SEEDS] + [f"silent_bug/{x}" for x in BUG_SEEDS]
    for name in names or known:
        make(name, folder)
