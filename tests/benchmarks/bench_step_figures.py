"""What the displayed set reward of a step costs, and its error: 32 groups of 16 rollouts.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_step_figures.py

For each d and m, of rewards drawn uniformly or as 0 and 1, it prints

- the seconds of `step_figures` as a step computes it, of the same with evaluation's limits, and of
  the advantages with K = 64
- the share of sets that a step still integrates exactly
- the error of a set (root mean square), and that of the mean over the step
"""

from time import perf_counter

import numpy as np

import vpo_lite as vpo
from vpo_lite.tasks.base import Prompt, Task
from vpo_lite.training import measure
from vpo_lite.training.answers import Answers

GROUPS, G = 32, 16
SIZES = [(4, 3), (4, 5), (5, 3), (5, 5), (5, 8), (6, 3), (6, 5), (6, 8), (8, 3), (8, 5), (12, 5)]
EVALUATION = {"points": vpo.exact.POINTS, "pieces": vpo.exact.PIECE_LIMIT}


class Numbers(Task):
    name = "numbers"

    def __init__(self, d: int):
        super().__init__()
        self.d = d

    def objectives(self, instance):
        return [f"objective {i}" for i in range(self.d)]


def seconds(function) -> float:
    """The best of three."""
    times = []
    for _ in range(3):
        began = perf_counter()
        function()
        times.append(perf_counter() - began)
    return min(times)


def groups_of(R: np.ndarray) -> list[Answers]:
    m = R.shape[2]
    flags = np.ones((G, m), dtype=bool)
    return [
        Answers(
            instance=None,
            prompt=Prompt.words("?"),
            texts=[""] * G,
            answers=[["a"] * m] * G,
            rewards=rewards,
            parsed=flags,
            repeats=~flags,
            valid=flags,
            solved=~flags,
            tokens=np.ones(G, dtype=int),
            truncated=np.zeros(G, dtype=bool),
        )
        for rewards in R
    ]


def main():
    print(
        "rewards   d m | step, evaluation's limits, K = 64 | exact | error: of a set, of the mean"
    )
    for kind in ("uniform", "0 and 1"):
        rng = np.random.default_rng(0)
        for d, m in SIZES:
            R = rng.random((GROUPS, G, m, d))
            print(
                f"{kind:8} {d:2} {m} | {costs(R if kind == 'uniform' else np.round(R))}", flush=True
            )


def costs(R: np.ndarray) -> str:
    m, d = R.shape[2:]
    task, groups, limits = Numbers(d), groups_of(R), measure.STEP
    W = vpo.sample_weights(64, d, 1.0, rng=np.random.default_rng(0))
    times = []
    for measure.STEP in (EVALUATION, limits):
        times.insert(0, seconds(lambda: measure.step_figures(task, 1.0, m, groups)))
    times.append(seconds(lambda: vpo.advantages("vpo", R, weights=[W] * GROUPS)))
    shown = vpo.exact_set_reward(R, full_output=True, **limits)
    off = shown.value - vpo.exact_set_reward(R, points=2**17)
    told = " ".join(f"{x:.3f}" for x in times)
    exact, error = np.mean(shown.error < 1e-9), np.sqrt(np.mean(off**2))
    return f"{told} | {exact:.2f} | {error:.0e} {abs(off.mean()):.0e}"


if __name__ == "__main__":
    main()
