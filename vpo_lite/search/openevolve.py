"""OpenEvolve's population as the archive of an evolutionary search.

OpenEvolve is an open version of AlphaEvolve. A set of m answers gives m children a call, and
budgets are counted as everywhere. It is the optional extra ``openevolve``, and is imported when
:class:`Islands` is used.
"""

import contextlib
import importlib
import random
from collections.abc import Callable, Iterable, Iterator, MutableSet
from types import ModuleType

import numpy as np

from ..checks import check_whole
from .archive import Archive, Elite

INSPIRATIONS = 5  # sampled with each parent, as OpenEvolve does


def _openevolve(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"openevolve.{module}")
    except ImportError as error:
        raise ValueError(
            f"OpenEvolve cannot be imported ({error}); cure: pip install 'vpo_lite[openevolve]'"
        ) from error


class Islands(Archive):
    """OpenEvolve's islands as the archive of a search: ``evolve(..., archive=Islands)``.

    Every valid answer becomes a program of the island whose turn it is. Parents are drawn by
    OpenEvolve's rules: at random, from its archive, or by fitness. A call is a generation. After
    ``migration_interval`` generations the best programs of each island go to its neighbours.
    What :class:`Archive` tells (elites, coverage, QD score) is over all islands.

    - weights (d,), bins: as in :class:`Archive`. The islands' grids have the same cells: OpenEvolve
      scales features by what it has seen so far, so it is given the middles of the cells, and the
      ends 0 and 1 beforehand.
    - islands, migration_interval: as in OpenEvolve
    - database: OpenEvolve's ProgramDatabase

    Raises ValueError where OpenEvolve is not installed.
    """

    def __init__(
        self, weights, bins: int | None = None, *, islands: int = 3, migration_interval: int = 10
    ):
        super().__init__(weights, bins)
        check_whole(islands, "islands")
        check_whole(migration_interval, "migration_interval")
        names = _features(len(self.weights))
        config = _openevolve("config").DatabaseConfig(
            num_islands=int(islands),
            migration_interval=int(migration_interval),
            feature_dimensions=names,
            feature_bins=dict.fromkeys(names, self.bins),
            random_seed=None,
            log_prompts=False,
        )
        self.database = _openevolve("database").ProgramDatabase(config)
        # Its sets of random names have another order in every process, and it draws from them.
        self.database.islands = [_Ordered() for _ in range(islands)]
        self.database.archive = _Ordered()
        for name in names:
            self.database.feature_stats[name] = {"min": 0.0, "max": 1.0, "values": []}
        self.island = 0
        self._known: dict[str, Elite] = {}
        self._added = 0

    def add(self, answer: str, rewards) -> Elite | None:
        rewards = np.array(rewards, dtype=float)
        elite = Elite(answer, rewards, float(self.weights @ rewards))
        self._known[answer] = elite
        self._added += 1
        middles = (np.array(self.cell(rewards)) + 0.5) / self.bins
        features = dict(zip(_features(len(rewards)), middles.tolist(), strict=True))
        program = _openevolve("database").Program(
            id=str(self._added),
            code=answer,
            language="text",
            generation=self.database.island_generations[self.island],
            metrics={"combined_score": elite.score, **features},
        )
        self.database.add(program, target_island=self.island)
        return super().add(answer, rewards)

    def parents(self, rng, count: int = 1, fit: Callable[[str], bool] | None = None) -> list[Elite]:
        """A parent and its inspirations, in this order, at most ``count`` of those that fit."""
        if not self.database.islands[self.island]:
            return []
        with _random_from(int(rng.integers(2**63))):
            parent, others = self.database.sample_from_island(self.island, INSPIRATIONS)
        answers = dict.fromkeys(program.code for program in (parent, *others))
        return [self._known[a] for a in answers if fit is None or fit(a)][:count]

    def end_call(self) -> None:
        """The island's generation is over; migrate when it is time; the next island's turn."""
        self.database.increment_island_generation(self.island)
        if self.database.should_migrate():
            self.database.migrate_programs()
        self.island = (self.island + 1) % len(self.database.islands)


def _features(d: int) -> list[str]:
    return [f"reward_{i}" for i in range(1, d + 1)]


class _Ordered(MutableSet):
    """A set in the order in which its members came."""

    def __init__(self, members: Iterable[str] = ()):
        self._members = dict.fromkeys(members)

    def __contains__(self, member) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: str) -> None:
        self._members[member] = None

    def discard(self, member: str) -> None:
        self._members.pop(member, None)


@contextlib.contextmanager
def _random_from(seed: int) -> Iterator[None]:
    """Inside, Python's shared random stream begins at a seed; afterwards it is as it was."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
