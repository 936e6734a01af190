"""Searches the mazes of the gallery, and counts how many mazes are of each kind.

    .venv/bin/python tests/benchmarks/gallery_search.py

Looks at the 400 mazes 1000 to 1399 of lite-6x6; all are held out from training. Half a minute on
one core. Writes tests/benchmarks/results/gallery.json. The gallery (vpo_lite/lab/gallery.py) shows
of each kind the maze with the highest score, the first one of equals. Its mazes "stuck" and "alpha
in training" have no score: what a policy learns on them is a property of training.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import envs
from vpo_lite.exact import exact_set_reward, exact_shares
from vpo_lite.lab.gallery import GALLERY
from vpo_lite.metrics import best_subset, price_of_conflict

RESULTS = Path(__file__).parent / "results" / "gallery.json"
LAYOUT, SEEDS = "lite-6x6", range(1000, 1400)
ALPHAS = (0.1, 1.0, 10.0)
SIZES = (1, 2, 3)  # answers in a set


class Figures(NamedTuple):
    """What few answers can give on one maze, exactly.

    - coverage {alpha: (best single, best pair, best triple)}: of the true front, from 0 to 1
    - loss (small, large): the share of utility lost at alpha = 0.1 by the best pair for 10, and at
      10 by the best pair for 0.1
    """

    coverage: dict[float, tuple[float, float, float]]
    loss: tuple[float, float]


def figures(front) -> Figures:
    """The figures of a maze with this true front (n, 4)."""
    coverage = {a: tuple(price_of_conflict(front, SIZES, a).values()) for a in ALPHAS}
    small, _, large = ALPHAS
    return Figures(coverage, (_lost(front, small, large), _lost(front, large, small)))


def _lost(front, alpha: float, wrong: float) -> float:
    """The share of utility at alpha that the best pair for another alpha loses."""
    value = exact_set_reward(front[best_subset(front, 2, wrong).indices], alpha)
    return max(0.0, 1 - float(value) / best_subset(front, 2, alpha).value)


class Kind(NamedTuple):
    """The mazes whose score is at least ``least``; the score is computed from front and figures."""

    score: Callable
    least: float
    says: str


def fork(front, found) -> float:
    """What the best single answer leaves of a front that has two points, no more."""
    return 1 - found.coverage[1.0][0] if len(front) == 2 else 0.0


def compromise(front, found) -> float:
    """The highest win share of a point with neither the most gold nor the most diamonds."""
    middle = (front[:, 1:3] < front[:, 1:3].max(axis=0)).all(axis=1)
    return float(max(exact_shares(front)[middle], default=0.0))


KINDS = {
    "fork": Kind(fork, 0.1, "the front has two points, and no answer covers more than 0.9"),
    "compromise": Kind(compromise, 0.25, "a point between the ends wins 25 % of the weights"),
    "alpha matters": Kind(
        lambda front, found: min(found.loss), 0.03, "the wrong pair loses 3 %, both ways"
    ),
    "three needed": Kind(
        lambda front, found: found.coverage[1.0][2] - found.coverage[1.0][1],
        0.02,
        "the third answer adds 0.02 of coverage",
    ),
    "no conflict": Kind(
        lambda front, found: found.coverage[1.0][0], 0.97, "one answer covers 0.97"
    ),
}


def search() -> dict:
    """All numbers, as plain data."""
    fronts = {seed: envs.generate(LAYOUT, seed).pareto_front().rewards for seed in SEEDS}
    found = {seed: figures(front) for seed, front in fronts.items()}
    kinds = {}
    for name, kind in KINDS.items():
        scores = {seed: round(kind.score(fronts[seed], found[seed]), 9) for seed in SEEDS}
        count = sum(score >= kind.least for score in scores.values())
        first = max(scores, key=scores.get)
        kinds[name] = {"means": kind.says, "count": count, "highest": first}
    return {
        "command": "python tests/benchmarks/gallery_search.py",
        "layout": LAYOUT,
        "seeds": [SEEDS[0], SEEDS[-1]],
        "mazes": len(SEEDS),
        "best_pair_differs": sum(min(f.loss) > 1e-6 for f in found.values()),
        "kinds": kinds,
        "gallery": {named.name: plain(named) for named in GALLERY},
    }


def plain(named) -> dict:
    """A maze of the gallery and its figures."""
    found = figures(named.maze.pareto_front().rewards)
    coverage = {f"{a:g}": [round(c, 4) for c in row] for a, row in found.coverage.items()}
    loss = [round(loss, 4) for loss in found.loss]
    return {"layout": named.layout, "seed": named.seed, "coverage": coverage, "loss": loss}


def main():
    results = search()
    for name, kind in results["kinds"].items():
        print(f"{name}: {kind['count']} of {results['mazes']} ({kind['means']})")
    print(f"the best pair at 0.1 is not that at 10: {results['best_pair_differs']}")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
