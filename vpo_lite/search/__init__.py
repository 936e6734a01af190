"""Search with a trained policy. It changes no parameter.

- :mod:`.best_of`: the best of k answers, under any weights
- :func:`evolve`: the policy proposes answers, an archive keeps them, and the task joins pairs
- :func:`beam`: sets of answers, grown answer by answer from the best ones
- :func:`most_probable`: the most probable answers, token by token
- :func:`best_found`: of what was found, the best answer under any weights
- :func:`pareto_front`: of what was found, the answers that no other dominates
- :func:`save_found`: writes what was found to a file
- :func:`read_found`: reads it back
- :mod:`.openevolve`: `evolve` with the islands of OpenEvolve, and its own program
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

_LAZY = {"best_of": "best_of", "evolve": "evolution", "beam": "tree", "most_probable": "tree"}
_LAZY |= dict.fromkeys(("best_found", "pareto_front", "save_found", "read_found"), "found")

__all__ = [*_LAZY]

if TYPE_CHECKING:
    from . import best_of as best_of
    from .evolution import evolve as evolve
    from .found import best_found as best_found
    from .found import pareto_front as pareto_front
    from .found import read_found as read_found
    from .found import save_found as save_found
    from .tree import beam as beam
    from .tree import most_probable as most_probable
else:
    __getattr__, __dir__ = lazy(__name__, _LAZY)
