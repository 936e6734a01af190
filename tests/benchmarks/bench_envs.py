"""The maze world: how fast it is, and its large test sets, ten times what `make test` takes.

    python tests/benchmarks/bench_envs.py            # prints, and writes results/envs.json
    python tests/benchmarks/bench_envs.py --speed    # the figures alone

Every ratio comes from one run on one machine. The seconds belong to the machine named beside them.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, before NumPy is loaded

import numpy as np

import envs

HERE = Path(__file__).parent
REPEATS = 30


def median_seconds(work, repeats=REPEATS):
    """Median time of a call; the first is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def generation():
    """Mazes per second, each preset, one core."""
    rates = {}
    for preset in envs.PRESETS:
        start = time.perf_counter()
        for seed in range(1_000):
            envs.generate(preset, seed)
        rates[preset] = round(1_000 / (time.perf_counter() - start))
    return rates


def fronts():
    """Milliseconds of the exact front with its witness routes, over 1,000 seeds of each preset."""
    table = {}
    for preset in envs.PRESETS:
        for mode in envs.REWARD_MODES:
            milliseconds = []
            for seed in range(1_000):
                maze = envs.generate(preset, seed)
                start = time.perf_counter()
                maze.pareto_front(mode)
                milliseconds.append(1e3 * (time.perf_counter() - start))
            quantiles = np.quantile(milliseconds, [0.5, 0.95, 1.0])
            table[f"{preset} {mode}"] = dict(
                zip(("median", "q95", "worst"), quantiles.round(3).tolist(), strict=True)
            )
    return table


def plain_simulator(maze):
    """The rules in ordinary Python, made as fast as is still ordinary: sets, tuples, no objects."""
    gold, diamonds, lava = set(maze.gold), set(maze.diamonds), set(maze.lava)
    free, start, exit_, budget = maze.free, maze.start, maze.exit, maze.budget

    def score(route):
        (row, column), stepped_on = start, set()
        for move in route[:budget]:
            if move == "U":
                there = (row - 1, column)
            elif move == "D":
                there = (row + 1, column)
            elif move == "L":
                there = (row, column - 1)
            else:
                there = (row, column + 1)
            if there in free:
                row, column = there
                if there == exit_:
                    break
                stepped_on.add(there)
        else:
            return (0.0, 0.0, 0.0, 0.0)
        return (
            1.0,
            len(stepped_on & gold) / len(gold),
            len(stepped_on & diamonds) / len(diamonds),
            1 - len(stepped_on & lava) / len(lava),
        )

    return score


def environment_walk(maze):
    env = envs.MazeEnv(maze=maze, observation="flat")

    def score(route):
        env.reset()
        reward = np.zeros(4)
        for move in route:
            _, reward, terminated, truncated, _ = env.step("UDLR".index(move))
            if terminated or truncated:
                break
        return reward

    return score


def scoring(n=4096):
    """score_routes, the environment and plain Python on n routes of one 6x6 maze; half reach E."""
    rng = np.random.default_rng(0)
    maze = envs.generate("lite-6x6", 1000)
    witnesses = maze.pareto_front().routes
    routes = [
        witnesses[rng.integers(len(witnesses))]
        if i % 2
        else "".join(rng.choice(list("UDLR"), rng.integers(8, 19)))
        for i in range(n)
    ]
    plain, stepped = plain_simulator(maze), environment_walk(maze)
    batch = envs.score_routes(maze, routes)
    np.testing.assert_allclose(batch, [plain(route) for route in routes], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(batch, [stepped(route) for route in routes])
    seconds = {
        "score_routes": median_seconds(lambda: envs.score_routes(maze, routes)),
        "plain Python": median_seconds(lambda: [plain(route) for route in routes], 10),
        "environment": median_seconds(lambda: [stepped(route) for route in routes], 3),
    }
    return {
        "routes": n,
        "milliseconds": {name: round(1e3 * value, 3) for name, value in seconds.items()},
        "routes_per_second": round(n / seconds["score_routes"]),
        "times_plain_python": round(seconds["plain Python"] / seconds["score_routes"], 1),
        "times_environment": round(seconds["environment"] / seconds["score_routes"], 1),
    }


def large_sets():
    """Runs the tests that take a sample in tests/test_envs_*.py on all of it: what was checked."""
    sys.path.insert(0, str(HERE.parent))
    import test_envs_env
    import test_envs_layouts
    import test_envs_maze
    import test_envs_rewards

    test_envs_layouts.SEEDS = range(1_000)
    for preset in test_envs_layouts.PRESETS:
        test_envs_layouts.test_every_maze_keeps_the_rules(preset)
    for preset in ("tiny-4x4", "lite-6x6", "hard-8x8"):
        test_envs_layouts.test_lava_tempts_and_treasure_lies_on_the_corners(preset)
    test_envs_rewards.MAZES = 4_000
    for mode in envs.REWARD_MODES:
        test_envs_rewards.test_front_equals_brute_force(mode)
        test_envs_env.compare_with_stepping(50_000, mode)
    test_envs_maze.JUNK = 20_000
    test_envs_maze.test_junk_texts_never_do_worse_than_a_valueerror()
    test_envs_maze.test_junk_routes_never_do_worse_than_a_valueerror()
    return {
        "rules hold on seeds of each preset": 1_000,
        "fronts equal to brute force": 2 * 4_000,
        "routes equal to stepping": 100_000,
        "random texts and routes refused or right": 40_000,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--speed", action="store_true", help="leave the large test sets out, and write nothing"
    )
    options = parser.parse_args()
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one used; "
        f"Python {platform.python_version()}, NumPy {np.__version__}",
        "mazes_per_second": generation(),
        "front_milliseconds": fronts(),
        "scoring": scoring(),
    }
    if not options.speed:
        start = time.perf_counter()
        result["large_sets"] = large_sets()
        result["large_sets_seconds"] = round(time.perf_counter() - start)
    print(json.dumps(result, indent=2))
    if not options.speed:
        (HERE / "results" / "envs.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
