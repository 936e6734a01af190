"""Named mazes on which alpha, m or the method matters, and what each of them can give.

They were found among the first 400 demonstration mazes of lite-6x6:
``tests/benchmarks/gallery_search.py`` searches again and counts how many are of each kind.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

import envs

from .. import metrics
from ..checks import shown
from ..exact import exact_set_reward

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
    """The figures of a maze with this true front (n, 4).

    ValueError for a front of another shape.

    >>> fork = figures([[1, 1, 0, 1], [1, 0, 1, 1]])
    >>> {alpha: [round(c, 3) for c in found[:2]] for alpha, found in fork.coverage.items()}
    {0.1: [0.773, 1.0], 1.0: [0.857, 1.0], 10.0: [0.945, 1.0]}
    >>> fork.loss
    (0.0, 0.0)
    """
    front = np.asarray(front, dtype=float)
    if front.ndim != 2 or front.shape[1] != len(envs.OBJECTIVES):
        raise ValueError(f"front has shape {front.shape}: expected (n, {len(envs.OBJECTIVES)})")
    coverage = {a: tuple(metrics.price_of_conflict(front, SIZES, a).values()) for a in ALPHAS}
    return Figures(
        coverage=coverage,
        loss=(_lost(front, ALPHAS[0], ALPHAS[-1]), _lost(front, ALPHAS[-1], ALPHAS[0])),
    )


def _lost(front, alpha: float, wrong: float) -> float:
    """The share of utility at alpha that the best pair for another alpha loses."""
    value = exact_set_reward(front[metrics.best_subset(front, 2, wrong).indices], alpha)
    return max(0.0, 1 - float(value) / metrics.best_subset(front, 2, alpha).value)


@dataclass(frozen=True)
class NamedMaze:
    """One maze of the gallery.

    - name: what `Lab.new_maze` takes; title: three to five words; look_for: one sentence
    - m: answers in a set that show it
    - layout and seed: of the generated maze
    """

    name: str
    title: str
    look_for: str
    m: int
    seed: int
    layout: str = "lite-6x6"

    @property
    def maze(self) -> envs.Maze:
        return envs.generate(self.layout, self.seed)

    @property
    def figures(self) -> Figures:
        """Computed when asked for the first time: some 50 ms."""
        return _figures(self.layout, self.seed)


@cache
def _figures(layout: str, seed: int) -> Figures:
    return figures(envs.generate(layout, seed).pareto_front().rewards)


GALLERY = (
    NamedMaze(
        "fork",
        "Two specialists, no compromise",
        "The front has two points; one answer covers 0.86 of it, two answers cover all of it.",
        m=2,
        seed=1001,
    ),
    NamedMaze(
        "compromise",
        "A compromise that wins",
        "One route takes two thirds of the gold, one third of the diamonds and no lava; it is the "
        "best for 42 % of the weights, and the best single answer at every alpha shown here.",
        m=2,
        seed=1234,
    ),
    NamedMaze(
        "alpha matters",
        "Alpha decides the pair",
        "The best pair for alpha = 0.1 differs from that for 10. The wrong one loses 9 % of the "
        "utility at 0.1, and 7 % at 10.",
        m=2,
        seed=1233,
    ),
    NamedMaze(
        "alpha in training",
        "Alpha that can be learnt",
        "The wrong pair loses 4 % of the utility at 0.1, and 6 % at 10; the shipped policy finds "
        "all three routes of the front by chance. Train at 0.1, then at 10.",
        m=2,
        seed=1217,
    ),
    NamedMaze(
        "three needed",
        "Two answers are too few",
        "The best pair covers 0.96 of the front (0.90 at alpha = 0.1); the best three cover all.",
        m=3,
        seed=1106,
    ),
    NamedMaze(
        "no conflict",
        "VPO has nothing to add",
        "One route covers 0.98 of the front, so a set of answers can gain 0.02 at most.",
        m=2,
        seed=1247,
    ),
    NamedMaze(
        "stuck",
        "A second treasure, easily missed",
        "Two answers could cover all but 0.003 of the front, and one covers 0.93: VPO ends below "
        "that one; recombined VPO reaches it.",
        m=2,
        seed=1017,
    ),
    NamedMaze(
        "large fork",
        "A fork on nine squares",
        "The fork again, on the paper's layout and with the larger policy: a step takes longer.",
        m=2,
        seed=1002,
        layout="paper-9x9",
    ),
)
NAMES = tuple(named.name for named in GALLERY)


def by_name(name: str) -> NamedMaze:
    """The maze of the gallery with this name. ValueError that lists the names.

    >>> by_name("alpha matters").seed
    1233
    """
    for named in GALLERY:
        if named.name == name:
            return named
    names = ", ".join(map(repr, NAMES))
    raise ValueError(f"maze_seed = {shown(name)}: expected a whole number, or one of {names}")


def name_of(layout: str, seed: int | None) -> str | None:
    """The name of a generated maze in the gallery; None for one that has no name there.

    >>> name_of("lite-6x6", 1233), name_of("paper-9x9", 1233)
    ('alpha matters', None)
    """
    return next((n.name for n in GALLERY if (n.layout, n.seed) == (layout, seed)), None)
