"""Several finished runs side by side: means by kind of run; intervals over problems and seeds."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..checks import shortened
from ..intervals import Noise, noise, of_seeds, t_interval
from .config import OF_THE_MACHINE, TrainConfig
from .confounders import confounders
from .finished import ELSEWHERE, Finished, finished_runs
from .measure import means
from .schemas import FIGURES, flattened

OF_THE_METHOD = "code of method"  # the one code by which no problem and no score differs


def compare(folders: Iterable[str | os.PathLike]) -> list[dict]:
    """Mean figures of several runs, one row for each kind of run, in order of appearance.

    A file with what ``vpo-lite evaluate RUN --json`` printed stands for the folder of that run: the
    figures are those of that measurement, such as on more problems or at another alpha.

    Runs are of one kind if they differ only in seed, single problem, or machine. A data file counts
    by its content when the run began, not by its path, and so does a file with code of your own.
    Base models count by name and content. A row holds

    - label: the method, and the settings in which the kinds of that method differ, among them the
      engine; also the task, where the kinds differ in it. A model that was trained elsewhere has
      its own name, and the method as which it was asked
    - method; set: answers in a compared set; runs, problems: how many; folders
    - elsewhere: whether another program trained what was measured on the problems of these runs
    - the means of the figures of ``summary.json``, over runs; where these are on several single
      problems, each problem counts once
    - start: the same figures before training
    - tokens: sampled in training
    - per_run {figure: values}: of each run, in the order of folders, best@k and any@k among them;
      empty for runs on several single problems
    - interval {figure: (low, high)}: of the mean, 95 %, over problems, and over seeds where a row
      on these problems has two runs or more; a row of fewer than three borrows the spread of these
      rows, as if all had the same. On one problem it is over seeds alone, and None where no row
      has two runs
    - ahead {figure: (mean, low, high)}: by how much the first row is ahead of this one, paired by
      problem, with such an interval; empty for the first row, where the problems differ, and for a
      figure that cannot be compared: set rewards at another alpha, for one
    - alpha: at which its set reward is taken; temperature: at which it was sampled
    - records: by the option of each data file how many records were read, and dropped by reason;
      empty for a task without such files
    - other_problems: the settings by which this row was measured on other problems than the first
      one, such as data or eval_problems
    - unequal {setting: value}: what differs between the rows beside their methods, the answers
      sampled in training among it; empty where all rows have one method

    Raises ValueError for a folder that holds no finished run, that is given twice, or whose run
    repeats another one: of one kind, with its seed and its problem.
    """
    one = isinstance(folders, str | os.PathLike) or not isinstance(folders, Iterable)
    kinds = _kinds([folders] if one else folders)
    if not kinds:
        raise ValueError("compare: name at least one run folder")
    first, rows = kinds[0], [_row(kind, kinds) for kind in kinds]
    seeds = [{run.config.seed for run in kind.runs} for kind in kinds]
    apart = confounders([(k.config, k.settings, s) for k, s in zip(kinds, seeds, strict=True)])
    others = [_other_problems(first, kind) for kind in kinds]
    peers = [kind for kind, names in zip(kinds, others, strict=True) if not names]
    for row, kind, names, other in zip(rows, kinds, others, apart, strict=True):
        row |= {"unequal": other, "other_problems": names}
        compared = kind is not first and not names
        row["ahead"] = _ahead(first, kind, peers) if compared else {}
    return rows


@dataclass
class _Kind:
    """Runs of one kind, and their settings as they are compared."""

    runs: list[Finished]
    settings: dict

    @property
    def config(self) -> TrainConfig:
        """That of the first run."""
        return self.runs[0].config

    @cached_property
    def single(self) -> list[str | None]:
        """The key of each run's single problem; None for a run on many."""
        tasks = [run.config.make_task() for run in self.runs]
        return [task.key(task.instance(0)) if task.single else None for task in tasks]

    @cached_property
    def tables(self) -> list[dict[str, list]]:
        """Of each run {figure: one value per problem}, of the figures that all these runs have."""
        tables = [flattened(run.summary["per_problem"]) for run in self.runs]
        names = [name for name in tables[0] if all(name in table for table in tables)]
        return [{name: table[name] for name in names} for table in tables]

    @cached_property
    def by_problem(self) -> dict[str, dict]:
        """{figure: one value per problem, by its place: the mean over runs that measured it}."""
        found: dict[str, dict] = {name: {} for name in self.tables[0]}
        for key, table in zip(self.single, self.tables, strict=True):
            for name, values in found.items():
                for i, value in enumerate(table[name]):
                    values.setdefault(i if key is None else key, []).append(value)
        return {n: {place: _mean(v) for place, v in values.items()} for n, values in found.items()}

    @cached_property
    def by_run(self) -> dict[str, list[float | None]]:
        """{figure: one mean over problems for each run}; empty for runs on several single problems,
        since there a run differs by its problem, too.
        """
        if len(set(self.single)) > 1:
            return {}
        return {name: [_mean(table[name]) for table in self.tables] for name in self.tables[0]}


def _of_seeds(name: str, compared: list[_Kind], peers: list[_Kind]) -> list[Noise]:
    """What the choice of the seeds adds to the mean of a figure of one kind, or to the difference
    of two. peers: the kinds on the same problems, these too.
    """

    def known(kinds: list[_Kind]) -> list:
        found = [kind.by_run.get(name) for kind in kinds]
        return [values for values in found if values is not None and None not in values]

    return of_seeds(known(compared), known(peers))


def _kinds(folders: Iterable[str | os.PathLike]) -> list[_Kind]:
    """The runs in these folders by kind, in order of appearance."""
    kinds: dict[str, list[Finished]] = {}
    known = {}
    for finished in finished_runs(folders):
        folder, kind = finished.folder, json.dumps(_settings(finished))
        other = known.setdefault((kind, _drawn(finished)), folder)
        if other is not folder:
            raise ValueError(
                f"{folder}: the same run as {other}: same settings, seed {finished.config.seed}; "
                "leave one out, or train with another --seed"
            )
        kinds.setdefault(kind, []).append(finished)
    return [_Kind(runs, json.loads(kind)) for kind, runs in kinds.items()]


def _row(kind: _Kind, kinds: list[_Kind]) -> dict:
    runs, config, mine = kind.runs, kind.config, kind.settings
    every, elsewhere = [other.settings for other in kinds], ELSEWHERE in mine
    name = f"{Path(config.model).name}, asked as {config.method}" if elsewhere else config.method
    rivals = [s for s in every if (s["method"], ELSEWHERE in s) == (config.method, elsewhere)]
    names = dict.fromkeys(name for rival in rivals for name in rival)
    differing = [
        name
        for name in names
        if len({json.dumps(other.get(name)) for other in (every if name == "task" else rivals)}) > 1
    ]
    peers = [other for other in kinds if not _other_problems(kind, other)]
    known = {n: file for n, file in config.files.items() if n in runs[0].digests}
    files = {n: f"{Path(file).name} {runs[0].digests[n][:8]}" for n, file in known.items()}
    shown = {n: files.get(n) or _shortened(mine[n]) for n in differing if n in mine}
    return {
        "label": ", ".join([name, *(f"{n}={text}" for n, text in shown.items())]),
        "method": config.method,
        "set": config.compared_size,
        "alpha": runs[0].alpha,
        "temperature": runs[0].temperature,
        "runs": len(runs),
        "problems": len(kind.by_problem["coverage"]),
        "folders": [run.folder for run in runs],
        "elsewhere": elsewhere,
        "records": runs[0].summary["records"],
        **_means(kind),
        "per_run": kind.by_run,
        "interval": {
            name: problem_interval(list(values.values()), _of_seeds(name, [kind], peers))
            for name, values in kind.by_problem.items()
        },
    }


def _shortened(value) -> str:
    """A setting for a label: a long path is its last name, the text of a file no name, each with a
    digest, so that two stay two labels.
    """
    text = str(value)
    if len(text) <= 60 and text.isprintable():
        return text
    what = Path(text).name if os.path.isabs(text) and text.isprintable() else "text"
    return f"{shortened(what)} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _settings(run: Finished) -> dict:
    """The settings that make a kind of run: its engine, the task's options, the digest of a data
    file for its path, and how many problems and answers were measured.
    """
    config = run.config
    settings = {
        **config.to_json(),
        "method": config.method,
        "m": config.answers,
        "set_size": config.set_size if config.answers == 1 else None,  # else the m answers
        "eval_problems": len(run.summary["per_problem"]["coverage"]),
        "eval_answers": config.measured_answers,
        "single": config.single,
        **run.options(),
        **run.of_the_engine(),
        **run.model(),
        **run.measured,
    }
    left_out = {"seed", "task_options", *OF_THE_MACHINE, *config.make_task().singles_out}
    return {name: value for name, value in settings.items() if name not in left_out}


def _drawn(run: Finished) -> str:
    """What tells runs of one kind apart: their seed, and their single problem."""
    task = run.config.make_task()
    return json.dumps([run.config.seed, *(getattr(task, name) for name in task.singles_out)])


def _compared(summary: dict) -> dict:
    """The figures that are averaged over runs. What was measured once more has none from before
    training.
    """
    start = summary.get("start")
    before = start and {name: start[name] for name in FIGURES}
    now = {name: summary[name] for name in FIGURES}
    return now | {"start": before, "tokens": summary.get("tokens")}


def _means(kind: _Kind) -> dict:
    """The mean figures of the runs; each of several single problems counts once."""
    parts: dict[str | None, list[dict]] = {}
    for run, key in zip(kind.runs, kind.single, strict=True):
        parts.setdefault(key, []).append(_compared(run.summary))
    return means([means(part) for part in parts.values()])


def _mean(values: list) -> float | None:
    return None if None in values else float(np.mean(values))


def _ahead(first: _Kind, other: _Kind, peers: list[_Kind]) -> dict:
    """{figure: (mean, low, high)} of the differences on the problems that both kinds measured.
    peers: as for :func:`_of_seeds`
    """
    found = {}
    size = first.config.compared_size != other.config.compared_size
    alpha = first.runs[0].alpha != other.runs[0].alpha
    for name in [name for name in first.by_problem if name in other.by_problem]:
        a, b = first.by_problem[name], other.by_problem[name]
        unequal = {"set_reward": size or alpha, "coverage": size}.get(name, False)
        if unequal or a.keys() != b.keys() or None in {*a.values(), *b.values()}:
            continue
        differences = [a[place] - b[place] for place in a]
        seeds = _of_seeds(name, [first, other], peers)
        if interval := problem_interval(differences, seeds):
            found[name] = (float(np.mean(differences)), *interval)
    return found


def _other_problems(first: _Kind, kind: _Kind) -> list[str]:
    """The settings by which two kinds are measured on other problems, or scored otherwise. Two
    modes of a task have options of their own, which say no more than the mode.
    """
    if first.config.task != kind.config.task:
        return ["task"]
    one, other = first.config.make_task(), kind.config.make_task()
    free = one.singles_out if one.single == other.single else ()  # two single problems are paired
    here, there = first.runs[0].options(), kind.runs[0].options()
    both = [n for n in here if n in there and n not in (*free, OF_THE_METHOD)]
    differing = [name for name in both if here[name] != there[name]]
    same = first.by_problem["coverage"].keys() == kind.by_problem["coverage"].keys()
    if differing or same:
        return differing
    seen = [[run.config.make_task() for run in k.runs] for k in (first, kind)]
    values = [{n: {getattr(task, n) for task in tasks} for n in free} for tasks in seen]
    return [n for n in free if values[0][n] != values[1][n]] or ["eval_problems"]


def problem_interval(values, seeds: Iterable[Noise] = ()) -> tuple[float, float] | None:
    """95 % t interval of the mean; None where one value is None, or where nothing shows a spread.

    - values: one for each problem
    - seeds: what the choice of seeds adds

    >>> problem_interval([0.5, 0.5, 0.5]), problem_interval([0.5])
    ((0.5, 0.5), None)
    """
    if any(value is None for value in values):
        return None
    sources = [noise(values), *seeds]
    known = any(source.freedom for source in sources)
    return t_interval(float(np.mean(values)), sources) if known else None
