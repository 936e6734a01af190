"""Several finished runs side by side: means by kind of run, intervals, and the printed table."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..intervals import bootstrap
from .config import OF_THE_MACHINE, TrainConfig
from .folders import RunFolder
from .measure import BUDGETS, means
from .schemas import FIGURES, INTERVALS


class _Finished(NamedTuple):
    """A finished run: its settings, its summary, the names of its folder and its engine."""

    config: TrainConfig
    summary: dict
    folder: str
    engine: str


def compare(folders: Iterable[str | os.PathLike]) -> list[dict]:
    """Mean figures of several runs, one row for each kind of run, in order of appearance.

    Runs are of one kind if they differ only in seed, single problem, or machine. A row holds

    - label: the method, and the settings in which the kinds of that method differ, among them the
      engine; also the task, where the kinds differ in it
    - method; set: answers in a compared set; runs, problems: how many; folders
    - the means of the figures of ``summary.json``
    - start: the same figures before training
    - tokens: sampled in training
    - interval {figure: (low, high)}: 95 % bootstrap interval over problems; None for one problem

    Raises ValueError for a folder that holds no finished run, or that is given twice.
    """
    folders = [folders] if isinstance(folders, str | os.PathLike) else folders
    kinds: dict[str, list[_Finished]] = {}
    seen = set()
    for run in map(RunFolder.open, folders):
        folder = run.path
        finished = _Finished(run.config(), run.summary(), str(folder), run.engine().name)
        if folder.resolve() in seen:
            raise ValueError(f"{folder}: given twice")
        seen.add(folder.resolve())
        kind = _kind(finished.config) | {"engine": finished.engine}
        kinds.setdefault(json.dumps(kind), []).append(finished)
    if not kinds:
        raise ValueError("compare: name at least one run folder")
    return [
        _row(runs, json.loads(kind), [json.loads(k) for k in kinds]) for kind, runs in kinds.items()
    ]


def _row(runs: list[_Finished], mine: dict, kinds: list[dict]) -> dict:
    config = runs[0].config
    rivals = [kind for kind in kinds if kind["method"] == config.method]
    names = dict.fromkeys(name for rival in rivals for name in rival)
    differing = [
        name
        for name in names
        if len({json.dumps(kind.get(name)) for kind in (kinds if name == "task" else rivals)}) > 1
    ]
    per_problem = {name: _by_problem(runs, name) for name in INTERVALS}
    return {
        "label": ", ".join(
            [config.method, *(f"{n}={_shortened(mine.get(n))}" for n in differing if n in mine)]
        ),
        "method": config.method,
        "set": config.compared_size,
        "runs": len(runs),
        "problems": len(per_problem["coverage"]),
        "folders": [run.folder for run in runs],
        **means([_compared(run.summary) for run in runs]),
        "interval": {name: bootstrap_interval(values) for name, values in per_problem.items()},
    }


def _shortened(value) -> str:
    """A setting for a label: the text of a file is a digest, so that two texts stay two labels."""
    text = str(value)
    if len(text) <= 60 and text.isprintable():
        return text
    return "text " + hashlib.sha256(text.encode()).hexdigest()[:8]


def _kind(config: TrainConfig) -> dict:
    """The settings that make a kind of run, with the task's options among them."""
    task = config.make_task()
    settings = config.to_json() | {"m": config.answers, "single": config.single}
    if config.answers > 1:
        settings["set_size"] = None  # the m answers are the set
    names = [option.name for option in task.options if option.name not in task.singles_out]
    settings |= {name: getattr(task, name) for name in names}  # defaults, too
    left_out = ("seed", "task_options", *OF_THE_MACHINE)
    return {k: v for k, v in settings.items() if k not in left_out}


def _compared(summary: dict) -> dict:
    """The figures that are averaged over runs. 0.1.0 did not count the tokens of training."""
    now, before = ({name: s[name] for name in FIGURES} for s in (summary, summary["start"]))
    return now | {"start": before, "tokens": summary.get("tokens")}


def _by_problem(runs: list[_Finished], name: str) -> list:
    """One value per problem: the mean over the runs that measured it."""
    values: dict = {}
    for run in runs:
        task = run.config.make_task()
        for i, value in enumerate(run.summary["per_problem"][name]):
            place = task.key(task.instance(0)) if task.single else i
            values.setdefault(place, []).append(value)
    return [None if None in v else float(np.mean(v)) for v in values.values()]


def bootstrap_interval(values) -> tuple[float, float] | None:
    """95 % bootstrap interval of the mean; None for fewer than two values, or where one is None.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    (0.5, 0.5)
    """
    if len(values) < 2 or any(v is None for v in values):
        return None
    low, high = bootstrap(values)
    return float(low), float(high)


def common_budgets(rows: list[dict]) -> list[str]:
    """The k of best@k that all these rows have, as their keys.

    >>> common_budgets([{"best_at_k": {"1": 0.5, "3": 0.6}}, {"best_at_k": {"1": 0.5}}])
    ['1']
    """
    return [k for k in map(str, BUDGETS) if all(k in row["best_at_k"] for row in rows)]


def table(rows: list[dict]) -> str:
    """The rows of :func:`compare` as aligned text.

    Coverage, diversity and valid are shown as ``before > after``.
    """

    def cell(row, name):
        return "-" if row.get(name) is None else f"{row[name]:.3f}"

    def moved(row, name):
        now = cell(row, name)
        return now if now == "-" or "start" not in row else f"{cell(row['start'], name)} > {now}"

    budgets = common_budgets(rows)
    columns = {
        "method": lambda row: row.get("label", row["method"]),
        "set": lambda row: str(row["set"]),
        "runs": lambda row: str(row.get("runs", 1)),
        "tokens": lambda row: "-" if row.get("tokens") is None else f"{row['tokens']:,.0f}",
        "set reward": lambda row: cell(row, "set_reward"),
        "coverage": lambda row: moved(row, "coverage"),
        "one answer": lambda row: cell(row, "coverage_best_single"),
        **{f"best@{k}": lambda row, k=k: f"{row['best_at_k'][k]:.3f}" for k in budgets},
        "diversity": lambda row: moved(row, "diversity"),
        "valid": lambda row: moved(row, "valid_rate"),
        "repeats": lambda row: cell(row, "repeat_rate"),
    }
    lines = [list(columns), *([show(row) for show in columns.values()] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    pad = [str.ljust, *[str.rjust] * (len(columns) - 1)]
    text = ["  ".join(p(c, w) for p, c, w in zip(pad, line, widths, strict=True)) for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])
