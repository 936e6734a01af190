"""Which runs a study comes to, and which of them can be done next. Loads no torch."""

from collections.abc import Iterator

from .declaration import Job, Study
from .results import chosen_rate, state


def jobs(
    study: Study, folder, kinds=None, seeds: int | None = None, every_rate: bool = False
) -> Iterator[Job]:
    """The runs that can be done next, kind by kind: all learning rates of seed 0, then other seeds
    at the chosen rate. The rate is chosen when the iterator gets there, so do each run before the
    next.

    - kinds: these alone, in their order; one that is named twice counts once
    - seeds: at most so many
    - every_rate: every seed at every rate, also at those beyond
    """
    for kind in study.kinds if kinds is None else dict.fromkeys(kinds):
        most = _seeds(study, kind, seeds)
        if every_rate:
            rates = study.every_rate(kind)
            yield from (study.job(kind, lr, seed) for lr in rates for seed in range(most))
            continue
        yield from study.tuning(kind)
        if (lr := chosen_rate(study, folder, kind)) is not None:
            yield from (study.job(kind, lr, seed) for seed in range(1, most))


def total(
    study: Study, folder, kinds=None, seeds: int | None = None, every_rate: bool = False
) -> int:
    """How many runs :func:`jobs` comes to, once the learning rates are chosen. Where all of a kind
    failed, no other seed follows.
    """
    found = 0
    for kind in study.kinds if kinds is None else dict.fromkeys(kinds):
        most = _seeds(study, kind, seeds)
        if every_rate:
            found += len(study.every_rate(kind)) * most
            continue
        tuning = study.tuning(kind)
        found += len(tuning)
        if not all(state(folder, job) == "failed" for job in tuning):
            found += most - 1
    return found


def _seeds(study: Study, kind: str, most: int | None) -> int:
    return study.seeds(kind) if most is None else min(most, study.seeds(kind))
