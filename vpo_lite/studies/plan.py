"""Which runs a study comes to, and which of them can be done next. Loads no torch."""

from collections.abc import Iterator

from .declaration import Job, Study
from .results import chosen_rate


def jobs(study: Study, folder, kinds=None, seeds: int | None = None) -> Iterator[Job]:
    """The runs that can be done next, kind by kind: all learning rates of seed 0, then other seeds
    at the rate that was chosen. It is chosen when it is asked for, so while the runs are done.

    - kinds: these alone, in their order; seeds: at most so many
    """
    for kind in study.kinds if kinds is None else kinds:
        yield from study.tuning(kind)
        lr = chosen_rate(study, folder, kind)
        if lr is not None:
            most = study.seeds(kind) if seeds is None else min(seeds, study.seeds(kind))
            yield from (study.job(kind, lr, seed) for seed in range(1, most))


def every_job(study: Study) -> dict[str, Job]:
    """All runs that the study may come to, by their keys, whichever learning rates are chosen."""
    found = [
        study.job(kind, lr, seed)
        for kind in study.kinds
        for lr in study.rates(kind)
        for seed in range(study.seeds(kind))
    ]
    return {job.key: job for job in found}
