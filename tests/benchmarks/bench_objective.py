"""Speed of the advantages and the exact set reward, and how fast sampling noise falls.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_objective.py

Ratios are taken within one run. Prints the figures and writes results/objective.json beside this
file.
"""

import json
import os
import platform
import time
import tracemalloc
from pathlib import Path

import numpy as np
import scipy

import vpo_lite as vpo

P, G, m, d, K = 128, 8, 3, 4, 100


def seconds(function, repeats=7):
    """The best of a few runs, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def advantages_by_loop(R, W, eps=1e-6):
    """VPO as one would first write it: group by group, rollout by rollout, weights by weights."""
    advantages = []
    for group, weights in zip(R, W, strict=True):
        U = [np.mean([max(w @ r for r in answers) for w in weights]) for answers in group]
        advantages.append([(u - np.mean(U)) / (np.std(U) + eps) for u in U])
    return np.array(advantages)


def advantages_by_group(R, W, eps=1e-6):
    """The same with NumPy inside each group and a Python loop over the groups only."""
    advantages = []
    for group, weights in zip(R, W, strict=True):
        U = (group @ weights.T).max(axis=1).mean(axis=1)
        advantages.append((U - U.mean()) / (U.std() + eps))
    return np.array(advantages)


def large_sets():
    """Calls that took from 10 to 74 seconds, and up to 7 GB, when every set was cut to the end."""
    rng = np.random.default_rng(0)
    calls = {
        "128 binary sets, m = 3, d = 16": rng.integers(0, 2, (128, 3, 16)),
        "128 sets, m = 5, d = 8": rng.random((128, 5, 8)),
        "170 sets, m = 12, d = 6": rng.random((170, 12, 6)),
        "682 sets, m = 3, d = 20": rng.random((682, 3, 20)),
    }
    pools = {
        "60 answers, m = 3, d = 20": (rng.random((60, 20)), 3),
        "170 answers, m = 6, d = 12": (rng.random((170, 12)), 6),
        "682 answers, m = 20, d = 3": (np.sqrt(rng.dirichlet(np.ones(3), size=682)), 20),
    }
    report = {name: cost(lambda R=R: vpo.exact_set_reward(R)) for name, R in calls.items()}
    for name, R in calls.items():
        _, error, method = vpo.exact_set_reward(R, full_output=True)
        report[name] |= {"method": method, "largest_error": float(np.max(error))}
    for name, (pool, size) in pools.items():
        report[f"best_subset of {name}"] = cost(lambda p=pool, m=size: vpo.best_subset(p, m))
    return report


def cost(function):
    """Milliseconds, and the peak of what NumPy allocates in MB."""
    ms = 1e3 * seconds(function, repeats=3)
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"ms": ms, "peak_MB": peak / 2**20}


def drawn_and_infinite():
    """Milliseconds for the advantages of 32 groups of 16 rollouts; at alpha = 1.5 six objectives
    are averaged over points alone.
    """
    rng = np.random.default_rng(0)
    few, many = rng.random((32, 16, 3, 4)), rng.random((32, 16, 5, 6))
    W = rng.dirichlet(np.ones(4), size=(32, 64))
    calls = {
        "m = 3, d = 4, K = 64": lambda: vpo.advantages("vpo", few, weights=W),
        "m = 3, d = 4, K = inf": lambda: vpo.advantages("vpo", few),
        "m = 5, d = 6, K = inf": lambda: vpo.advantages("vpo", many),
        "m = 5, d = 6, K = inf, alpha = 1.5": lambda: vpo.advantages("vpo", many, alpha=1.5),
    }
    return {name: 1e3 * seconds(call, repeats=3) for name, call in calls.items()}


def slope(method, R, exact, budgets, seeds=100):
    def error(K, seed):
        W = vpo.sample_weights(K, d, rng=np.random.default_rng(seed), method=method)
        return float(vpo.set_reward(R, W)) - exact

    rms = [np.sqrt(np.mean([error(K, s) ** 2 for s in range(seeds)])) for K in budgets]
    return float(np.polyfit(np.log(budgets), np.log(rms), 1)[0]), rms


def main():
    rng = np.random.default_rng(0)
    R, W = rng.random((P, G, m, d)), rng.dirichlet(np.ones(d), size=(P, K))
    assert np.allclose(vpo.advantages("vpo", R, weights=W), advantages_by_loop(R, W), atol=1e-9)
    assert np.allclose(vpo.advantages("vpo", R, weights=W), advantages_by_group(R, W), atol=1e-9)
    ours = seconds(lambda: vpo.advantages("vpo", R, weights=W))
    loop = seconds(lambda: advantages_by_loop(R, W), repeats=1)
    by_group = seconds(lambda: advantages_by_group(R, W))

    sets = R.reshape(-1, m, d)
    conflict = rng.dirichlet(np.ones(d), size=(P * G, m))  # none dominates another: the most work
    few = conflict[:64]
    exact = {
        "random sets": seconds(lambda: vpo.exact_set_reward(sets)),
        "sets of pure trade-offs": seconds(lambda: vpo.exact_set_reward(conflict)),
    }
    one_by_one = (
        seconds(lambda: [vpo.exact_set_reward(r) for r in few], repeats=3) * len(sets) / len(few)
    )
    front = np.sqrt(rng.dirichlet(np.ones(d), size=30))  # on a sphere: every point wins somewhere
    fronts = {
        n: seconds(lambda n=n: vpo.exact_set_reward(front[:n]), repeats=3) for n in (3, 8, 16, 30)
    }

    corners, budgets = np.eye(d), [2**i for i in range(4, 13)]
    value = float(vpo.exact_set_reward(corners))
    iid_slope, iid = slope("iid", corners, value, budgets)
    sobol_slope, sobol = slope("sobol", corners, value, budgets)
    report = {
        "shape": {"P": P, "G": G, "m": m, "d": d, "K": K},
        "advantages": {
            "ms": ours * 1e3,
            "times_faster_than_a_plain_loop": loop / ours,
            "times_faster_than_a_loop_over_groups": by_group / ours,
        },
        "advantages_of_32_groups_of_16_ms": drawn_and_infinite(),
        "exact_set_reward_of_1024": {
            **{f"{name}, ms": t * 1e3 for name, t in exact.items()},
            "times_faster_than_one_by_one": one_by_one / exact["sets of pure trade-offs"],
        },
        "exact_set_reward_of_large_sets": large_sets(),
        "exact_set_reward_of_a_front_ms": {str(n): t * 1e3 for n, t in fronts.items()},
        "noise_of_the_set_reward": {
            "iid_slope": iid_slope,
            "sobol_slope": sobol_slope,
            "K": budgets,
            "iid_over_sobol": [a / b for a, b in zip(iid, sobol, strict=True)],
        },
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }
    text = json.dumps(report, indent=1)
    print(text)
    path = Path(__file__).parent / "results" / "objective.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
