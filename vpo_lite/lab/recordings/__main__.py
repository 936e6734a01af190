"""Makes the recordings that the notebooks talk about.

    python -m vpo_lite.lab.recordings [FOLDER [NAME ...]]

All of them take some twenty minutes on two cores. FOLDER defaults to the package's own. Maze 1000
and preset demo, unless a line says otherwise.

- three_methods/seed-0, -1, -2: VPO, GRPO and Multi-RLVR side by side
- equal_answers/seed-0, -1, -2: GRPO with three times as many rollouts, so as many answers as VPO
- free_repeats/seed-0, -1, -2: Multi-RLVR without the rule that a repeated answer earns nothing
- one_person/seed-0, -1, -2: set_max, the best of three answers under the fixed weights w* alone
- few_weights/K-1, K-64: VPO with one prompt a step, and so many weights
- alpha/small, alpha/large: recombined VPO on the gallery's maze "alpha matters", m = 2, trained at
  alpha = 0.1 and at 10, in 80 steps of two prompts
- own_alpha/small, own_alpha/large: the same on its maze "alpha in training"
- stuck/seed-0: VPO and recombined VPO on the gallery's maze "stuck", m = 2
- programs/seed-0: the three methods on one set of tests of task programs
- silent_bug/a, b, c: three runs of "VPO". One of them has a bug that raises no error; notebook 04
  asks which.
"""

import contextlib
import dataclasses
import sys
from itertools import product
from pathlib import Path

import numpy as np

from ... import estimators
from .. import Lab
from . import SHIPPED

MAZE = 1000
SEEDS = range(3)
BROKEN, BUG_SEEDS = "b", {"a": 3, "b": 4, "c": 5}


def mean_inside(R, *, weights, **_):
    """VPO with one word wrong: the mean over the answers stands where the max belongs."""
    return np.einsum("pgmd,pkd->pgmk", R, weights).mean(axis=(2, 3))


@contextlib.contextmanager
def broken():
    """Inside, the name vpo means the broken estimator."""
    real = estimators.METHODS["vpo"]
    estimators.METHODS["vpo"] = dataclasses.replace(real, estimate=mean_inside)
    try:
        yield
    finally:
        estimators.METHODS["vpo"] = real


def _recordings():
    """(name, methods, settings, context) of every recording."""
    plain = contextlib.nullcontext
    for seed in SEEDS:
        how = {"maze_seed": MAZE, "seed": seed}
        yield f"three_methods/seed-{seed}", ("vpo", "grpo", "multi_rlvr"), how, plain
        yield f"equal_answers/seed-{seed}", "grpo", how | {"group_size": 48}, plain
        yield f"free_repeats/seed-{seed}", "multi_rlvr", how | {"pay_repeats": True}, plain
        yield f"one_person/seed-{seed}", "set_max", how, plain
    for K in (1, 64):
        yield f"few_weights/K-{K}", "vpo", {"maze_seed": MAZE, "K": K, "prompts": 1}, plain
    mazes = {"alpha": "alpha matters", "own_alpha": "alpha in training"}
    for (kind, maze), (name, alpha) in product(mazes.items(), (("small", 0.1), ("large", 10.0))):
        how = {"maze_seed": maze, "m": 2, "alpha": alpha, "prompts": 2, "steps": 80}
        yield f"{kind}/{name}", "vpo_recombined", how, plain
    yield "stuck/seed-0", ("vpo", "vpo_recombined"), {"maze_seed": "stuck", "m": 2}, plain
    how = {"task": "programs", "problem": 3}
    yield "programs/seed-0", ("vpo", "grpo", "multi_rlvr"), how, plain
    for name, seed in BUG_SEEDS.items():
        context = broken if name == BROKEN else plain
        yield f"silent_bug/{name}", "vpo", {"maze_seed": MAZE, "seed": seed}, context


RECORDINGS = {name: rest for name, *rest in _recordings()}


def make(name: str, folder) -> None:
    """Train, and write the recording with this name into the folder."""
    methods, settings, context = RECORDINGS[name]
    lab = Lab(methods, **settings)
    with context():
        lab.train()
        lab.join()
    if lab.state != "finished":
        raise SystemExit(f"{name}: {lab.last_error}")
    path = lab.record(Path(folder) / name, f"python -m vpo_lite.lab.recordings . {name}")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB\n{lab.sentence()}", flush=True)


if __name__ == "__main__":
    folder, *names = sys.argv[1:] or [SHIPPED]
    for name in names or RECORDINGS:
        make(name, folder)
