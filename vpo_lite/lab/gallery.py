"""Named mazes on which alpha, m or the method matters, and what each of them can give.

Those that a figure tells apart were found among the first 400 demonstration mazes of lite-6x6:
``tests/benchmarks/gallery_search.py`` searches again and counts how many are of each kind.
"""

from dataclasses import dataclass

import envs

from ..checks import shown


@dataclass(frozen=True)
class NamedMaze:
    """One maze of the gallery.

    - name: what `Lab.new_maze` takes; title: three to five words; look_for: one to three sentences
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


GALLERY = (
    NamedMaze(
        "fork",
        "Two specialists, no compromise",
        "The front has two points. At α = 1 one answer covers 0.86 of it, two cover all of it.",
        m=2,
        seed=1001,
    ),
    NamedMaze(
        "compromise",
        "A compromise that wins",
        "One route takes two thirds of the gold, one third of the diamonds and no lava. It is the "
        "best of the whole front for 42 % of the weights at α = 1, of the best pair for 67 %, and "
        "the best single answer at every α.",
        m=2,
        seed=1234,
    ),
    NamedMaze(
        "alpha matters",
        "Alpha decides the pair",
        "The best pair for α = 0.1 is not the best for α = 10. The wrong pair is worth 9 % less at "
        "α = 0.1, and 7 % less at α = 10.",
        m=2,
        seed=1233,
    ),
    NamedMaze(
        "alpha in training",
        "Alpha that can be learnt",
        "The wrong pair is worth 4 % less at α = 0.1, and 6 % less at α = 10. The shipped policy "
        "finds all three routes of the front by chance. Train at α = 0.1, then at 10.",
        m=2,
        seed=1217,
    ),
    NamedMaze(
        "three needed",
        "Two answers are too few",
        "The best pair leaves a part of the front uncovered, more at a small α. The best three "
        "cover all.",
        m=3,
        seed=1106,
    ),
    NamedMaze(
        "no conflict",
        "VPO has nothing to add",
        "At α = 1 one route covers 0.98 of the front, so a set of answers can gain 0.02 at most.",
        m=2,
        seed=1247,
    ),
    NamedMaze(
        "stuck",
        "A second treasure, easily missed",
        "At α = 1 one answer covers 0.93 of the front, two could cover all but 0.003. VPO ends "
        "below 0.93, recombined VPO reaches it.",
        m=2,
        seed=1017,
    ),
    NamedMaze(
        "large fork",
        "A fork on 81 squares",
        "The fork again, on the paper's layout and with the larger policy: a step takes longer. "
        "B earns nothing here.",
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
