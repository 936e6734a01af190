"""Which runs a study comes to, and which of them can be done next. Loads no torch."""

from collections.abc import Iterator

from .declaration import Job, Study
from .results import chosen_rate


def jobs(
    study: Study, folder, kinds=None, seeds: int | None = None, every_rate: bool = False
) -> Iterator[Job]:
    """The runs that can be done next, kind by kind: all learning rates of seed 0, then other seeds
    at the rate that was chosen. It is chosen when it is asked for, so while the runs are done.

    - kinds: these alone, in their order
    - seeds: at most so many
    - every_rate: other seeds at the other rates, too
    """
    for kind in study.kinds if kinds is None else kinds:
        yield from study.tuning(kind)
        rates = study.rates(kind) if every_rate else [chosen_rate(study, folder, kind)]
        for lr in rates:
            if lr is not None:
                yield from (study.job(kind, lr, s) for s in range(1, _seeds(study, kind, seeds)))


def total(study: Study, kinds=None, seeds: int | None = None, every_rate: bool = False) -> int:
    """How many runs :func:`jobs` comes to, once the learning rates are chosen."""
    found = 0
    for kind in study.kinds if kinds is None else kinds:
        rates = len(study.rates(kind))
        found += rates + (rates if every_rate else 1) * (_seeds(study, kind, seeds) - 1)
    return found


def _seeds(study: Study, kind: str, most: int | None) -> int:
    return study.seeds(kind) if most is None else min(most, study.seeds(kind))


def every_job(study: Study) -> dict[str, Job]:
    """All runs that the study may come to, by their keys, whichever learning rates are chosen."""
    found = [
        study.job(kind, lr, seed)
        for kind in study.kinds
        for lr in study.rates(kind)
        for seed in range(study.seeds(kind))
    ]
    return {job.key: job for job in found}
