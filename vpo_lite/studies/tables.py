"""The tables of a study: means, intervals over seeds and problems, differences to the baseline."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..intervals import bootstrap_crossed
from .declaration import Study
from .results import BUDGETS, Result, chosen

WORDS = {  # figure -> the head of its column
    **{f"best@{k}": f"best@{k}" for k in BUDGETS},
    **{f"any@{k}": f"any@{k}" for k in BUDGETS},
    **{f"solved@{k}": f"pass@{k}" for k in BUDGETS},
    "coverage": "coverage",
    "attained": "attained",
    "diversity": "diversity",
    "diversity_all": "diversity, all",
    "valid": "valid",
    "repeats": "repeats",
    "tokens": "tokens an answer",
}


class Difference(NamedTuple):
    """A kind against the baseline: mean difference, 95 % interval, pairs of seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def sure(self) -> int:
        """1 or -1 where the whole interval lies on one side of 0, else 0."""
        return (self.low > 0) - (self.high < 0)


def value(result: Result, figure: str, checkpoint: int = -1) -> float | None:
    """One figure of a run: ``best@10``, ``any@30``, ``solved@1``, or a name as ``coverage``."""
    name, _, k = figure.partition("@")
    found = result.checkpoints[checkpoint].figures[name]
    return found[int(k) - 1] if k else found


def measured(study: Study, figures: Sequence[str] = tuple(WORDS)) -> list[str]:
    """Those of the figures that this study measures: ``best@30`` needs 30 answers or more."""
    return [f for f in figures if int(f.partition("@")[2] or 1) <= study.measured.answers]


def means(study: Study, folder, figures: Sequence[str] | None = None) -> dict[str, dict]:
    """The means over the runs at the chosen learning rate, by kind; by default of all figures.

    Beside the figures a row has ``seeds`` (how many runs), ``lr``, ``training_tokens``,
    ``training_answers`` and ``minutes``.
    """
    return _means(chosen(study, folder), measured(study) if figures is None else figures)


def _means(found: dict[str, list[Result]], figures: Sequence[str]) -> dict[str, dict]:
    rows = {}
    for kind, results in found.items():
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

    Runs with the same seed are compared on the same problems. The interval resamples seeds and
    problems (`bootstrap_crossed`). None where one of the two has no finished run, and for a figure
    that has no value on some problem, such as the coverage without a known front.
    """
    found = chosen(study, folder)
    return _difference(found.get(kind, []), found.get(baseline or study.baseline, []), figure)


def _difference(mine: list[Result], other: list[Result], figure: str) -> Difference | None:
    by_seed = {r.seed: r.per_problem[figure] for r in other}
    pairs = [(r.per_problem[figure], by_seed[r.seed]) for r in mine if r.seed in by_seed]
    if not pairs or any(None in values for pair in pairs for values in pair):
        return None
    values = np.array([np.subtract(a, b) for a, b in pairs])
    low, high = bootstrap_crossed(values)
    return Difference(float(values.mean()), float(low), float(high), len(pairs))


def markdown(study: Study, folder, figures: Sequence[str]) -> str:
    """The means as a Markdown table, kinds in the order of the declaration.

    A mean whose difference to the baseline is sure (95 %) has a + or a - behind it.
    """
    found = chosen(study, folder)
    rows, other = _means(found, figures), found.get(study.baseline, [])
    heads = ["method", "runs", "lr", "tokens", *(WORDS[f] for f in figures)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind, row in rows.items():
        tokens = f"{row['training_tokens'] / 1000:.0f} k"
        rate = f"{row['lr']:g}" if row["training_answers"] else ""
        cells = [study.kinds[kind].label, str(row["seeds"]), rate, tokens]
        for figure in figures:
            shown = "" if row[figure] is None else f"{row[figure]:.3f}"
            cells.append(
                shown + ("" if kind == study.baseline else _mark(found[kind], other, figure))
            )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mark(mine: list[Result], other: list[Result], figure: str) -> str:
    if figure not in mine[0].per_problem:
        return ""
    found = _difference(mine, other, figure)
    return "" if found is None else {1: " +", 0: "", -1: " -"}[found.sure]


def _mean(values) -> float | None:
    return None if None in values else float(np.mean(values))
