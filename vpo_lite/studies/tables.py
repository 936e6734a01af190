"""The tables of a study: means, intervals over seeds and problems, differences to the baseline."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..checks import shown
from ..intervals import Noise, noise, of_seeds, t_interval
from ..markup import markdown_table
from .declaration import Job, Study
from .results import BUDGETS, Figures, Result, check_runs, chosen, chosen_rate, read_result, state

WORDS = {  # figure -> the head of its column
    **{f"best@{k}": f"best@{k}" for k in BUDGETS},
    **{f"any@{k}": f"any@{k}" for k in BUDGETS},
    **{f"solved@{k}": f"pass@{k}" for k in BUDGETS},
    "set_reward": "set reward",
    "coverage": "coverage",
    "attained": "attained",
    "diversity": "diversity",
    "diversity_all": "diversity, all",
    "valid": "valid",
    "parsed": "read",
    "repeats": "repeats",
    "tokens": "tokens an answer",
}


def head(figure: str) -> str:
    """The head of a figure's column, at any k.

    >>> head("solved@7"), head("coverage")
    ('pass@7', 'coverage')
    """
    name, at, k = figure.partition("@")
    return f"{WORDS[f'{name}@1'].partition('@')[0]}@{k}" if at else WORDS[figure]


OF_SETS = ("set_reward", "coverage", "attained")  # compared between sets of one size alone


class Difference(NamedTuple):
    """A kind against the baseline: mean difference, 95 % interval, seeds of the one with fewer."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def sure(self) -> int:
        """1 or -1 where the whole interval lies on one side of 0, else 0. Also 0 where it is a
        point: nothing is known of its spread then.
        """
        return (self.low > 0) - (self.high < 0) if self.low < self.high else 0

    @property
    def mark(self) -> str:
        """What stands behind a number in a table: a + or a - where the difference is sure."""
        return {1: " +", 0: "", -1: " -"}[self.sure]


def value(result: Result, figure: str, checkpoint: int = -1) -> float | None:
    """One figure of a run: ``best@10``, ``any@30``, ``solved@1``, or a name as ``coverage``.

    ValueError for one that was not measured.
    """
    figures = result.checkpoints[checkpoint].figures
    name, _, k = figure.partition("@")
    found = figures.get(name)
    if isinstance(found, list) and k.isdecimal() and 1 <= int(k) <= len(found):
        return found[int(k) - 1]
    if name not in figures or k or isinstance(found, list):
        raise ValueError(f"figure {shown(figure)}: there are {', '.join(_named(figures))}")
    return found


def _named(figures: Figures) -> Iterator[str]:
    """Their names, as one asks for them."""
    for name, found in figures.items():
        yield f"{name}@1 to {name}@{len(found)}" if isinstance(found, list) else name


def measured(study: Study, figures: Sequence[str] = tuple(WORDS)) -> list[str]:
    """Those of the figures that this study measures: ``best@30`` needs 30 answers or more."""
    return [f for f in figures if int(f.partition("@")[2] or 1) <= study.measured.answers]


def means(study: Study, folder, figures: Sequence[str] | None = None) -> dict[str, dict]:
    """The means over the runs at the chosen learning rate, by kind; by default of all figures.

    Beside the figures a row has ``seeds`` (how many runs), ``lr``, ``training_tokens``,
    ``training_answers`` and ``minutes``.
    """
    figures, rows = measured(study) if figures is None else figures, {}
    for kind, results in chosen(study, folder).items():
        first = results[0]
        rows[kind] = {f: _mean([value(r, f) for r in results]) for f in figures} | {
            "seeds": len(results),
            "lr": first.config["lr"],
            "training_tokens": _mean([r.checkpoints[-1].tokens for r in results]),
            "training_answers": first.answers,
            "minutes": _mean([r.training_seconds / 60 for r in results]),
        }
    return rows


def difference(study: Study, folder, kind: str, figure: str, baseline=None) -> Difference | None:
    """How far a kind lies above the baseline in one figure that is kept for each problem.

    All runs of both kinds count, also where one has more seeds. The interval adds three sources of
    chance: the problems, paired, since both kinds were measured on the same ones; and the seeds of
    each kind. Where one has fewer than three, both borrow the spread of all kinds of the study, as
    if all had the same. Where no kind has two, the interval knows the problems only; with one
    problem it is infinite.

    None where one of the two has no finished run, and for a figure that has no value on some
    problem, such as the coverage without a known front. Also where the two are measured on other
    problems or scored otherwise, for set rewards at two alphas, and for the figures of sets
    (`OF_SETS`) where these differ in size. ValueError for a figure of which no values are kept.
    """
    found, kinds = chosen(study, folder), (kind, baseline or study.baseline)
    if not study.alike(*kinds):
        return None
    if figure == "set_reward" and len(_alphas(study, kinds)) > 1:
        return None
    if figure in OF_SETS and len(_sizes(study, kinds)) > 1:
        return None
    ours, others = (_values(found.get(one, []), figure) for one in kinds)
    if ours is None or others is None:
        return None
    gaps = ours.mean(axis=0) - others.mean(axis=0)
    sources = [noise(gaps), *_of_seeds(study, found, kinds, figure)]
    mean = float(gaps.mean())
    return Difference(mean, *t_interval(mean, sources), min(len(ours), len(others)))


def _alphas(study: Study, kinds: Iterable[str]) -> set[float]:
    """At which the set rewards of these kinds are taken."""
    return {study.tuning(kind)[0].judged.alpha for kind in kinds}


def _sizes(study: Study, kinds: Iterable[str]) -> set[int]:
    """How many answers the sets hold on which these kinds are compared."""
    return {study.tuning(kind)[0].judged.compared_size for kind in kinds}


def interval(study: Study, folder, kind: str, figure: str) -> tuple[float, float] | None:
    """The 95 % interval of a kind's mean over problems and seeds; None without a finished run, and
    where some problem has no value.
    """
    found = chosen(study, folder)
    values = _values(found.get(kind, []), figure)
    if values is None:
        return None
    sources = [noise(values.mean(axis=0)), *_of_seeds(study, found, [kind], figure)]
    return t_interval(float(values.mean()), sources)


def _of_seeds(
    study: Study, found: dict[str, list[Result]], kinds: Iterable[str], figure: str
) -> list[Noise]:
    """What the choice of the seeds adds to the mean of a kind, or to the difference of two.

    Seeds of an untrained kind choose its answers alone. Several problems show this chance, too: it
    would be counted twice.
    """
    read = {k: _values(runs, figure) for k, runs in found.items()}
    means = {
        kind: values.mean(axis=1)
        for kind, values in read.items()
        if values is not None and (study.kinds[kind].trained or values.shape[1] == 1)
    }
    return of_seeds([means[k] for k in kinds if k in means], means.values())


def _values(runs: list[Result], figure: str) -> np.ndarray | None:
    """(seeds, problems), or None where there are none or one has no value."""
    for run in runs:
        if figure not in run.per_problem:
            there = ", ".join(run.per_problem)
            raise ValueError(f"figure {shown(figure)}: problem by problem there are {there}")
    values = [run.per_problem[figure] for run in runs]
    return None if not values or any(None in row for row in values) else np.array(values, float)


def markdown(study: Study, folder, figures: Sequence[str]) -> str:
    """The means as a Markdown table, kinds in the order of the declaration.

    A mean that differs significantly (95 %) from the baseline has a + or a - behind it. Runs that
    failed at the learning rate that was chosen are in no mean, so their number stands beside.
    """
    found, words = chosen(study, folder), {figure: head(figure) for figure in {*figures, *OF_SETS}}
    if len(_alphas(study, study.kinds)) > 1:
        words["set_reward"] += " (each at its alpha)"
    if len(_sizes(study, study.kinds)) > 1:
        words |= {figure: f"{words[figure]} (sets of different sizes)" for figure in OF_SETS}
    heads = ["method", "runs", "lr", "tokens", *(words[f] for f in figures)]
    lines = []
    for kind, row in means(study, folder, figures).items():
        tokens = row["training_tokens"]
        tokens = f"{tokens / 1000:.0f} k" if tokens >= 10_000 else f"{tokens:.0f}"
        rate = f"{row['lr']:g}" if row["training_answers"] else ""
        _, failed = ended(study, folder, kind, row["lr"])
        cells = [study.kinds[kind].label, _runs(row["seeds"], failed), rate, tokens]
        for figure in figures:
            shown = "" if row[figure] is None else f"{row[figure]:.3f}"
            if kind != study.baseline and figure in found[kind][0].per_problem:
                gap = difference(study, folder, kind, figure)
                shown += "" if gap is None else gap.mark
            cells.append(shown)
        lines.append(cells)
    return markdown_table(heads, lines)


def ended(study: Study, folder, kind: str, lr: float) -> tuple[list[Job], int]:
    """The finished runs of a kind at a learning rate, and how many failed."""
    jobs = [study.job(kind, lr, seed) for seed in range(study.seeds(kind))]
    states = [state(folder, job) for job in jobs]
    finished = [job for job, how in zip(jobs, states, strict=True) if how == "finished"]
    return finished, states.count("failed")


def _runs(finished: int, failed: int) -> str:
    """For a cell: those that stand in the means, and those that do not."""
    return f"{finished}, {failed} failed" if failed else str(finished)


class AtRate(NamedTuple):
    """The runs of a kind at one learning rate: how many finished and failed, and means over those
    that finished.

    - validation: of the figure that the rate is chosen by, on the validation problems; None where
      all failed
    - figures: those that were asked for; None where a run has no value, and where all failed
    """

    runs: int
    failed: int
    validation: float | None
    figures: dict[str, float | None]


def at_every_rate(study: Study, folder, kind: str, figures) -> dict[float, AtRate]:
    """The runs of a kind that ended, by learning rate, in ascending order. DamagedError where two
    of them were made from other data, code or base models.
    """
    rows, read = {}, []
    for lr in study.every_rate(kind):
        jobs, failed = ended(study, folder, kind, lr)
        done = [read_result(study, folder, job) for job in jobs]
        if done or failed:
            means = {f: _mean([value(run, f) for run in done]) for f in figures}
            validation = _mean([run.validation for run in done])
            rows[lr] = AtRate(len(done), failed, validation, means)
            read += done
    check_runs(study, folder, read)
    return rows


def rates_markdown(study: Study, folder, figures: Sequence[str]) -> str:
    """Each trained kind at each learning rate, as a Markdown table; a * follows the rate that was
    chosen, by seed 0 alone.
    """
    heads = [
        "method",
        "lr",
        "runs",
        f"{study.measured.chosen_by}, validation",
        *map(head, figures),
    ]
    lines = []
    for kind in filter(lambda kind: study.kinds[kind].trained, study.kinds):
        best = chosen_rate(study, folder, kind)
        for lr, row in at_every_rate(study, folder, kind, figures).items():
            star = " *" if lr == best else ""
            numbers = [row.validation, *row.figures.values()]
            cells = ["" if x is None else f"{x:.3f}" for x in numbers]
            runs = _runs(row.runs, row.failed)
            lines.append([study.kinds[kind].label, f"{lr:g}{star}", runs, *cells])
    return markdown_table(heads, lines)


def _mean(values) -> float | None:
    return None if not values or None in values else float(np.mean(values))
