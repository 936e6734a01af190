"""The curves over steps that a panel can draw, by the name that it gives them."""

import itertools
import math
from typing import NamedTuple

from ..estimators import METHODS
from .faces import Face
from .judging import whole
from .view import SeenRun, View

COVERAGE, DIVERSITY = "coverage of the front", "diversity"
SEARCH = "search"  # no curve over steps: what is found among the answers of one

CURVES = {  # name -> its value, from the record and the moment of a step; None: it has none
    COVERAGE: None,  # depends on the alpha that judges
    DIVERSITY: lambda record, moment: record.diversity,
    "set reward": lambda record, moment: record.set_reward,
    "share of repeats": lambda record, moment: record.repeat_rate,
    "best@1": lambda record, moment: moment.best_at_k.get(1),
    "best@3": lambda record, moment: moment.best_at_k.get(3),
    "best@10": lambda record, moment: moment.best_at_k.get(10),
    "entropy": lambda record, moment: record.entropy,
    "KL to the start": lambda record, moment: record.kl,
}
BELOW_MARKS = 0.93  # of an axis's height; above it stand the marks of changes
MEAN = "mean "  # of an objective, whose name follows


def offered(face: Face) -> list[str]:
    """The curves to choose from, where problems have this face."""
    return [*CURVES, face.valid_curve, *(MEAN + name for name in face.means)]


def in_words(curve: str, face: Face) -> str:
    """A curve's name for readers: with the face's word for an objective, not the task's own."""
    return MEAN + face.means[curve.removeprefix(MEAN)] if curve.startswith(MEAN) else curve


def values(run: SeenRun, curve: str, alpha: float = 1.0) -> list[float | None]:
    """A curve's value at each step of a run. Coverage is judged at this alpha."""
    if curve == COVERAGE:
        return run.coverages(alpha)
    if curve in CURVES:
        return [CURVES[curve](r, m) for r, m in zip(run.records, run.moments, strict=True)]
    if curve.startswith(MEAN):
        return [record.objectives.get(curve.removeprefix(MEAN)) for record in run.records]
    return [record.valid_rate for record in run.records]


def searched(run: SeenRun, alpha: float) -> dict[int, float]:
    """What a search finds among the answers of a run's last step, by the number of answers that it
    looks at: as a share of what the whole front is worth, where that is known.
    """
    front = run.moment.problem.front
    most = 1.0 if front is None else whole(front, alpha)
    return {k: value / most for k, value in run.moment.search(alpha).items()}


def span(view: View, curve: str) -> tuple[float, float]:
    """The range of a curve's axis: wide enough for all its values, and calm while they move a
    little.
    """
    if curve == SEARCH:
        seen = [v for run in view.on_show() for v in searched(run, view.judged_at).values()]
    else:
        runs = (*view.runs, *view.earlier)
        seen = [v for run in runs for v in values(run, curve, view.judged_at) if v is not None]
    if curve in (COVERAGE, SEARCH):
        seen += view.ceilings  # dotted lines
        lowest = math.floor(min(seen, default=1) * 10) / 10
        return min(0.5, lowest), max(1.05, 1.02 * max(seen, default=1))
    lowest = min(0.0, min(seen, default=0))
    highest = lowest + (max(seen, default=0) - lowest) / BELOW_MARKS
    return lowest, max(1.05, math.ceil(5 * highest) / 5)


def last_step(view: View) -> int:
    """The right end of the axis of steps."""
    return max([view.config.steps, *(len(run.records) for run in (*view.runs, *view.earlier))])


class Change(NamedTuple):
    """A step from which on alpha, K or the size of the sets differ.

    text: what stands in a plot; "" where there is no room; said: what this step changed
    """

    step: int
    text: str
    said: str


def in_short(run: SeenRun, at: int = -1) -> tuple[str, str, str]:
    """The alpha, K and m of a run's last step, or of another one, in a few letters each. Single
    answers have no m, but sets of so many of them are judged.
    """
    record, size = run.records[at], len(run.moments[at].rewards)
    K = "∞" if record.K == math.inf else record.K
    sets = f"sets of {size}" if METHODS[run.method].single_answer else f"m {record.m}"
    return f"α {record.alpha:g}", f"K {K}", sets


def changes(run: SeenRun, near: float = 0) -> list[Change]:
    """Where alpha, K or the size of the sets that are judged differ from the step before.

    near: texts of changes that are fewer steps apart would lie on each other, and those of more
    letters sooner. So the last of these changes has one text for all, and the others have "".
    """
    found, start = [], None
    short = [in_short(run, at) for at in range(len(run.records))]
    for record, (before, now) in zip(run.records[1:], itertools.pairwise(short), strict=True):
        if now == before:
            continue
        last = found[-1] if found else None
        if last and record.step - last.step < near * max(1, len(last.text) / 9):
            found[-1] = last._replace(text="")
        else:
            start = before
        found.append(Change(record.step, _differing(now, start), _differing(now, before)))
    return found


def _differing(now: tuple[str, ...], before: tuple[str, ...]) -> str:
    return ", ".join(new for new, old in zip(now, before, strict=True) if new != old)
