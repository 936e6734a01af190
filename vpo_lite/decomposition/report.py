"""What the reward vectors of sampled answers offer VPO: numbers first, then words and a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import check_alpha
from ..estimators import Rewards
from ..markup import in_lines
from . import words
from .measured import SIZES, mean, mean_table, measure, names_of, off_diagonal, problems_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FIXED = "w*·r"  # the rival that is no component


@dataclass(frozen=True)
class TargetReport:
    """Whether a number from outside the vector follows it. Means over the problems.

    Answers with equal reward vectors count with their mean target: the vector cannot tell them
    apart. Of answers that tie, each is as likely to be taken.

    - spread {1, 2, 3: target}: the best target in the set of that size that covers the weights best
      (`best_subset`; a slot that it leaves free goes to the highest w* . r)
    - highest {1, 2, 3: target}: the best target among as many answers of the highest w* . r
    - random {1, 2, 3: target}: the best target among as many answers taken at random
    - alone {component: target}: the best target among the three answers that are highest in this
      component; empty where d differs
    - best: the best target of all sampled answers
    - rival: where three answers without spreading reach most: "w*·r", or the name of a component
    - gain: spread[3] minus what the rival reaches: what spreading adds, at three answers each
    - error: the standard error of `gain` over the problems; None for one problem
    - rho: correlation with w* . r, within problems, among valid answers; None where nothing varies
    - components {component: rho}: the same with each component; empty where d differs
    """

    spread: dict[int, float]
    highest: dict[int, float]
    random: dict[int, float]
    alone: dict[str, float]
    best: float
    rival: str
    gain: float
    error: float | None
    rho: float | None
    components: dict[str, float | None]

    @property
    def reached(self) -> float:
        """What the rival's three answers reach."""
        return self.highest[3] if self.rival == FIXED else self.alone[self.rival]

    @property
    def follows(self) -> bool | None:
        """Whether spreading raises the target by over two standard errors.

        None for one problem, which has no standard error.
        """
        return None if self.error is None else self.gain > 2 * self.error + 1e-12


@dataclass(frozen=True, eq=False)
class RewardReport:
    """What `reward_report` found. ``print(report)`` says it in words, ``report.figure()`` draws it.

    - problems, answers: how many were given
    - empty: problems in which no answer earned anything; `coverage` and what follows leave them out
    - objectives: names of the d components; empty where d differs from problem to problem
    - dimensions: d, the mean where it differs
    - valid: share of the answers, of all problems
    - coverage {1, 2, 3: coverage}: of the best 1, 2, 3 answers, relative to all sampled answers
    - average: coverage of an average answer
    - lowest, highest: the problems' lowest and highest coverage of the best single answer
    - needs_a_set: of what training could gain over an average answer, the share that needs a set:
      (U(all) - U(best 1)) / (U(all) - average), sums over the problems. A constant added to all
      rewards does not change it. None if all answers are worth the same
    - under_w_star: coverage of the answer with the highest w* . r; of those that tie, the mean
    - tied: problems on which different answers tie there
    - rho_all, rho_valid: correlation of two components, mean over pairs; None where nothing varies
    - correlations_all, correlations_valid (d, d): the same pair by pair, NaN where nothing varies;
      None where d differs
    - effective: effective dimensions among valid answers; None where nothing varies
    - front: non-dominated answers, each reward vector counted once
    - reached {component: reward}: the highest sampled reward above `worst`, mean over problems;
      empty where d differs
    - target: a `TargetReport`, or None
    - alpha: of the weights
    - valid_given: whether `valid` was given
    - valid_cure: how to say which answers are valid, "" where nobody can; of the words alone

    If no answer earned anything, `coverage` is empty and the figures are None.
    """

    problems: int
    answers: int
    empty: int
    objectives: tuple[str, ...]
    dimensions: float
    valid: float
    coverage: dict[int, float]
    average: float | None
    lowest: float | None
    highest: float | None
    needs_a_set: float | None
    under_w_star: float | None
    tied: int
    rho_all: float | None
    rho_valid: float | None
    correlations_all: np.ndarray | None
    correlations_valid: np.ndarray | None
    effective: float | None
    front: float | None
    reached: dict[str, float]
    target: TargetReport | None
    alpha: float
    valid_given: bool
    valid_cure: str = "give `valid` to `vpo.reward_report`"

    @property
    def gain(self) -> float | None:
        """The most that sets can gain over the best single answer: 1 - coverage[1]."""
        return 1 - self.coverage[1] if self.coverage else None

    @property
    def verdict(self) -> str:
        """The answer in a few sentences, in lines of 100 characters."""
        return in_lines(words.verdict(self))

    def __str__(self) -> str:
        return words.text(self)

    def _repr_pretty_(self, printer, cycle) -> None:  # in IPython's terminal
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return words.page(self)

    def figure(self, **options: Any) -> Figure:
        """Coverage of the best answers, and the correlations, as a plotly figure.

        options: of :func:`vpo_lite.figures.decomposition`, such as title and width. Raises
        ValueError if no answer earned anything.
        """
        from .. import figures  # here, since it loads plotly

        if not self.coverage:
            raise ValueError("no sampled answer earned anything: there is nothing to draw")
        bars = {"average": self.average} | {f"best {m}": c for m, c in self.coverage.items()}
        tables = {"all answers": self.correlations_all, "valid answers": self.correlations_valid}
        drawn = {name: table for name, table in tables.items() if table is not None}
        return figures.decomposition(bars, drawn, **{"objectives": self.objectives} | options)

    def to_json(self) -> dict:
        """All figures and the verdict as JSON values. A NaN becomes None."""
        values = dataclasses.asdict(self)
        del values["valid_cure"]  # no figure
        values |= {"gain": self.gain, "verdict": words.verdict(self)}
        if self.target is not None:
            values["target"] |= {"follows": self.target.follows}
        return _plain(values)


def reward_report(
    R: Rewards,
    valid: Rewards | None = None,
    w_star: Rewards | None = None,
    target: Rewards | None = None,
    *,
    worst: Rewards | None = None,
    alpha: float = 1.0,
    objectives: Sequence[str] | None = None,
    progress: Callable[[Iterable], Iterable] | None = None,
) -> RewardReport:
    """Say, from the rewards of sampled answers, what a vector reward offers over a scalar one.

    R        rewards: (n, d), the answers to one problem. Or (P, n, d), or a list of P arrays
             (n_p, d_p): several problems, which may differ in n and d. Every figure is taken within
             a problem and then averaged over the problems. Figures by component are left out where
             d differs.
    valid    truth values like R without its last axis: which answers count at all. None: those that
             differ from `worst`. Then `rho_valid` is too low, and the report says so: leaving out
             (0, 0) makes two independent rewards of 0 and 1 pull apart.
    w_star   the fixed weights of the scalar reward: (d,), or P of them. None means 1/d each.
    target   numbers like `valid`: what people say of the answers, tests passed, or any other
             measure that is no component of R.
    worst    the rewards of a worthless answer: (d,), or P of them, or one number for all. Rewards
             are measured from there. None means 0.
    alpha    the Dirichlet concentration of the weights.
    objectives  names of the d components.
    progress    a function that wraps the loop over the problems, such as tqdm.

    The best m answers are those of `best_subset`. Their coverage is U(best m) / U(all answers),
    where U is `exact_set_reward`. A policy that always gives one answer covers no more than the
    best single answer does.

    Effective dimensions are the participation ratio (sum l)^2 / sum l^2 of the eigenvalues l of the
    covariance matrix of the valid answers' rewards: from 1 to d (Gao et al. 2017, bioRxiv 214262).

    The verdict is "much" where the best single answer covers less than 0.85, "hardly anything" from
    0.95 on, and "something" in between. Two points of reference: in the demo (notebooks/
    REFERENCE.md) it covers 0.89, where VPO ends at 0.95 and GRPO at 0.88. With one quality and
    little noise (`negative_controls.noisy_copies`) it covers 0.99. Where one component reaches over
    20 times as far as another, the verdict begins with the advice to rescale.

    Returns a `RewardReport`. Raises ValueError, in one line, for shapes and values that do not fit,
    and for rewards below `worst`.

    Misleads where a worthless answer earns more than 0, since coverage is measured from 0: give
    `worst`, or go by `needs_a_set`. Also where few answers were sampled, and where nobody needs
    what the components measure: give `target`.

    >>> report = reward_report([[1, 0], [0, 1], [0.6, 0.6]])
    >>> {m: round(share, 4) for m, share in report.coverage.items()}
    {1: 0.7895, 2: 0.9868, 3: 1.0}
    >>> report.verdict[:4], report.front
    ('Much', 3.0)
    >>> reward_report([[0.1, 0.1], [0.5, 0.5], [0.9, 0.9]]).verdict[:15]  # one quality, twice
    'Hardly anything'
    """
    alpha = check_alpha(alpha)
    problems = problems_of(R, valid, w_star, target, worst)
    sizes = [x.rewards.shape[1] for x in problems]
    same = min(sizes) == max(sizes)
    names = names_of(objectives, sizes[0] if same else None)
    rows = [measure(x, alpha) for x in (progress(problems) if progress else problems)]
    full = [row for row in rows if row.coverage]
    best = [row.coverage[1] for row in full]
    tables = [[row.correlations_all for row in full], [row.correlations_valid for row in full]]
    return RewardReport(
        problems=len(rows),
        answers=sum(len(x.rewards) for x in problems),
        empty=len(rows) - len(full),
        objectives=names,
        dimensions=float(np.mean(sizes)),
        valid=float(np.concatenate([x.valid for x in problems]).mean()),
        coverage={m: mean(row.coverage[m] for row in full) for m in SIZES if full},
        average=mean(row.average for row in full),
        lowest=min(best, default=None),
        highest=max(best, default=None),
        needs_a_set=_needs_a_set(full),
        under_w_star=mean(row.under_w_star for row in full),
        tied=sum(row.tied > 1 for row in full),
        rho_all=mean(map(off_diagonal, tables[0])),
        rho_valid=mean(map(off_diagonal, tables[1])),
        correlations_all=mean_table(tables[0]) if same and full else None,
        correlations_valid=mean_table(tables[1]) if same and full else None,
        effective=mean(row.effective for row in full),
        front=mean(row.front for row in full),
        reached=_reached(problems, names) if full else {},
        target=_of_targets([row.target for row in full], names),
        alpha=alpha,
        valid_given=valid is not None,
    )


def _needs_a_set(rows) -> float | None:
    left = sum(row.utility * (1 - row.coverage[1]) for row in rows)
    room = sum(row.utility * (1 - row.average) for row in rows)
    return float(left / room) if room > 1e-9 * sum(row.utility for row in rows) else None


def _reached(problems, names) -> dict[str, float]:
    highest = [x.rewards.max(axis=0) for x in problems if x.rewards.any()]
    return {name: mean(row[i] for row in highest) for i, name in enumerate(names)}


def _of_targets(rows, names) -> TargetReport | None:
    if not rows or rows[0] is None:
        return None
    last = SIZES[-1]
    rivals = {FIXED: [row.highest[last] for row in rows]}
    rivals |= {name: [row.alone[i] for row in rows] for i, name in enumerate(names)}
    rival = max(rivals, key=lambda name: mean(rivals[name]))
    gains = np.array([row.spread[last] for row in rows]) - rivals[rival]
    by_size = ("spread", "highest", "random")
    return TargetReport(
        **{
            name: {m: mean(getattr(row, name)[m] for row in rows) for m in SIZES}
            for name in by_size
        },
        alone={name: mean(row.alone[i] for row in rows) for i, name in enumerate(names)},
        best=mean(row.best for row in rows),
        rival=rival,
        gain=mean(gains),
        error=float(gains.std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else None,
        rho=mean(row.rho for row in rows),
        components={n: mean(row.components[i] for row in rows) for i, n in enumerate(names)},
    )


def _plain(value):
    """The value as JSON writes it."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, float) and np.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
