"""Evolution with the policies of a study: search after training, at equal answers. What there is to
search with, and what was found; ``searching.py`` does it, and this file loads no torch.

Each run of the chosen learning rate gives a policy. In a call every policy gives m answers: one
rollout of a set of m, m rollouts of single answers, or m / n rollouts of sets of n. Mutations
without a policy are the baseline ``mutation``; kinds before training are the untrained policies.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field, JsonValue

from ..files import DamagedError, Schema, digest
from ..intervals import sign_test, wins_and_losses
from ..markup import markdown_table
from ..training.config import TrainConfig
from .declaration import MUTATION, Job, Study
from .made_from import Contents, check_alike
from .results import check_made, chosen, read_made, result_path, workplace
from .stated import HowSearched


class SearchResult(Schema):
    """The searches with one policy: one row for each seed, in it one value for each problem.

    - solved: answers asked for until the target was reached; None where it was not
    - tokens, candidates: of the whole search, as in a `Trace`
    - best: the best score; cells: elites in the archive at the end
    - answers: asked for in a search; budgets: asked for at each point of ``curve``
    - curve: by seed, the mean best score over problems at each budget
    - targets: the score to reach, one for each problem; None where none is known. Empty in files
      that are older than this field
    - made: calls, and the settings of the run; empty in files that are older than this field
    - policy: digest of the policy; empty without one, and in files that are older than this field
    - made_from: digests of data files and code; empty in files that are older than this field
    """

    study: str
    kind: str
    run: str
    answers: Annotated[int, Field(ge=1)]
    solved: list[list[int | None]]
    tokens: list[list[int]]
    candidates: list[list[int]]
    best: list[list[float]]
    cells: list[list[int]]
    budgets: list[int]
    curve: list[list[float]]
    seconds: float
    targets: list[float | None] = Field(default_factory=list)
    made: dict[str, JsonValue] = Field(default_factory=dict)
    policy: str = ""
    made_from: Contents = Field(default_factory=dict)

    @property
    def solved_share(self) -> np.ndarray:
        """The share of the searches on each problem that reached the target: (problems,)."""
        return _shares([self])

    @property
    def aimless(self) -> bool:
        """Whether no target is known on any problem."""
        return bool(self.targets) and all(target is None for target in self.targets)


class SearchJob(NamedTuple):
    """One policy of a study to search with; job: the run that made it, None for mutations."""

    study: Study
    kind: str
    job: Job | None

    @property
    def run(self) -> str:
        return MUTATION if self.job is None else self.job.key

    @property
    def stated(self) -> HowSearched:
        return self.study.declared.search

    @property
    def config(self) -> TrainConfig:
        """The settings that the run is judged by; mutations search in the baseline's task."""
        return (self.job or self.study.tuning(self.study.baseline)[0]).judged

    @property
    def problems(self) -> int:
        return 1 if self.config.single else self.stated.problems

    @property
    def made(self) -> dict:
        """What the search depends on, beside its problems and seeds."""
        settings = self.config.to_json()
        if self.job is None:  # mutations know the task alone
            settings = {name: settings[name] for name in ("task", "task_options")}
        return {"calls": self.stated.calls} | settings

    def file(self, folder) -> Path:
        return Path(folder) / f"search-{self.run}.json"

    def adapter(self, folder) -> Path:
        return workplace(folder, self.run) / "adapter"


def searches(study: Study, folder) -> list[SearchJob]:
    """What can be searched with: chosen runs of the kinds that the study names.

    Of more runs than the study asks for, those whose search is finished come first, then those
    whose policy is still there.
    """
    stated, found = study.declared.search, []
    if stated is None:
        raise ValueError(
            f"study {study.name}: its file has no part [search]; add one, with kinds = [..]"
        )
    runs = chosen(study, folder)
    for kind in stated.kinds:
        if kind == MUTATION:
            found.append(SearchJob(study, kind, None))
        jobs = [study.job(kind, run.config["lr"], run.seed) for run in runs.get(kind, [])]
        of_kind = [SearchJob(study, kind, job) for job in jobs]
        of_kind.sort(key=lambda s: (not s.file(folder).exists(), not s.adapter(folder).is_dir()))
        found += of_kind[: stated.policies]
    return found


def waits_for_runs(study: Study, found: list[SearchJob]) -> list[str]:
    """The kinds of which fewer runs are finished than the study searches with, by what `searches`
    found.
    """
    stated, there = study.declared.search, Counter(search.kind for search in found)
    kinds = [kind for kind in stated.kinds if kind != MUTATION]
    return [kind for kind in kinds if there[kind] < min(stated.policies, study.seeds(kind))]


def to_do(study: Study, folder) -> list[SearchJob]:
    """The searches that are not finished. DamagedError where the adapter of one is missing."""
    found = [s for s in searches(study, folder) if not s.file(folder).exists()]
    for search in found:
        adapter = search.adapter(folder)
        if search.job is not None and not adapter.is_dir():
            raise DamagedError(
                f"{adapter}: is not there, and a search needs the policy; move "
                f"{search.run}.json away and run the study again"
            )
    return found


def finished(study: Study, folder) -> dict[str, list[SearchResult]]:
    """The finished searches, by kind. DamagedError as for `read_search`, and where one was made
    from other data or code than a run or another search.
    """
    found: dict[str, list[SearchResult]] = {}
    made = [
        (result_path(folder, study.job(kind, run.config["lr"], run.seed)), run.made_from)
        for kind, runs in chosen(study, folder).items()
        for run in runs
    ]
    for search in searches(study, folder):
        if (path := search.file(folder)).exists():
            row = read_search(folder, search)
            found.setdefault(search.kind, []).append(row)
            made.append((path, row.made_from))
    check_alike(made)
    return found


def of_policy(adapter: Path) -> str:
    """The digest of a policy in a folder; empty where there is none."""
    return "+".join(digest(file) for file in sorted(adapter.glob("*.safetensors")))


def read_search(folder, search: SearchJob) -> SearchResult:
    """The finished search. DamagedError where it was made in another way, or with another policy
    than there is now.
    """
    path, stated = search.file(folder), search.stated
    found = read_made(path, SearchResult)
    rows = [found.solved, found.tokens, found.candidates, found.best, found.cells]
    shapes = {(len(part), *map(len, part)) for part in rows}
    wanted = (stated.seeds, *[search.problems] * stated.seeds)
    named = (found.kind, found.run, found.answers)
    if shapes != {wanted} or named != (search.kind, search.run, stated.calls * stated.m):
        raise DamagedError(
            f"{path}: the study states another search (calls, m, problems or seeds); name another "
            "folder, or move this file away"
        )
    if found.made:
        check_made(path, found.made, search.made)
    if found.policy and of_policy(search.adapter(folder)) not in ("", found.policy):
        raise DamagedError(
            f"{path}: searched with another policy than run {search.run} has now; move this file "
            "away, and search again"
        )
    return found


def _shares(rows: Sequence[SearchResult]) -> np.ndarray:
    """The share of these searches that reached the target, by problem: (problems,).

    Counted, then divided once. So equal shares are equal numbers, and the sign test sees a tie.
    """
    solved = [[x is not None for x in seed] for row in rows for seed in row.solved]
    return np.array(solved).mean(axis=0)


def markdown(study: Study, folder) -> str:
    """A table of the searches: share solved, answers until half are, best score, tokens, candidates
    (*scored*), sign test.

    The share is the mean over policies, search seeds and problems. Answers are those after
    which half of all searches were solved; one that ended unsolved needs more than it had. The sign
    test compares the shares of the problems with those of the baseline, of kinds that search on the
    same problems.
    """
    found = finished(study, folder)
    other = found.get(study.baseline)
    heads = ["search with", "policies", "solved", "answers until half are solved", "best score"]
    heads += ["tokens", "scored", "elites", "wins and losses", "sign test p"]
    lines = []
    for kind, rows in found.items():
        share = _shares(rows)
        until = [np.inf if x is None else x for row in rows for seed in row.solved for x in seed]
        half = median_low(until)  # the mean of the two in the middle would be no search's
        label = study.kinds[kind].label if kind in study.kinds else "random mutations, no policy"
        if all(row.aimless for row in rows):
            cells = [label, str(len(rows)), "no target is known", ""]
        else:
            cells = [label, str(len(rows)), f"{share.mean():.3f}"]
            cells.append(f"{half:.0f}" if half < np.inf else f"> {rows[0].answers}")
        cells.append(f"{np.mean([row.best for row in rows]):.3f}")
        cells.append(f"{np.mean([row.tokens for row in rows]):.0f}")
        cells.append(f"{np.mean([row.candidates for row in rows]):.0f}")
        cells.append(f"{np.mean([row.cells for row in rows]):.1f}")
        paired = kind == MUTATION or study.alike(kind, study.baseline)
        if other is None or rows is other or not paired:
            cells += ["", ""]
        else:
            base = _shares(other)
            wins, losses = wins_and_losses(share, base)
            cells += [f"{wins} : {losses}", f"{sign_test(share, base):.2g}"]
        lines.append(cells)
    return markdown_table(heads, lines)
