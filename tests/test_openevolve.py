"""Policies inside OpenEvolve: the real package, no network. Skipped where it is not installed."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vpo_lite.policy.loading import load_policy
from vpo_lite.search.archive import Archive
from vpo_lite.search.evolution import evolve
from vpo_lite.search.openevolve import Islands
from vpo_lite.tasks.program_rules import HiddenRules

ROOT = Path(__file__).resolve().parent.parent
TWO = HiddenRules(branches=2)


def test_without_the_package_one_line_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "openevolve.config", None)
    with pytest.raises(
        ValueError, match=r"^OpenEvolve cannot be imported .*vpo_lite\[openevolve\]"
    ):
        Islands([1.0])


@pytest.fixture(scope="module")
def openevolve():
    return pytest.importorskip("openevolve")


@pytest.fixture(scope="module")
def pocket():
    return load_policy("pocket-programs")


@pytest.mark.parametrize("bins, d", [(2, 3), (5, 2), (None, 4)])
def test_every_island_has_the_cells_of_the_archive(openevolve, bins, d):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(d))
    islands, plain = Islands(weights, bins, islands=1), Archive(weights, bins)
    for i, r in enumerate(rng.integers(-1, 12, (200, d)) / 10):
        assert (islands.add(str(i), r) is None) == (plain.add(str(i), r) is None)
    database = islands.database
    (grid,) = database.island_feature_maps
    there = {
        tuple(map(int, cell.split("-"))): database.programs[i].code for cell, i in grid.items()
    }
    assert there == {cell: elite.answer for cell, elite in plain.elites.items()}
    assert {c: e.answer for c, e in islands.elites.items()} == there
    assert (islands.coverage, islands.qd_score) == (plain.coverage, plain.qd_score)


def test_islands_take_turns_and_migrate(openevolve):
    archive = Islands([1.0, 1.0], bins=4, islands=3, migration_interval=2)
    rng = np.random.default_rng(0)
    assert archive.parents(rng) == []
    for call in range(6):
        assert archive.island == call % 3
        archive.add(f"answer {call}", [call / 8, 1 - call / 8])
        before = len(archive.database.programs)
        archive.end_call()
        came = len(archive.database.programs) > before
        assert came == (call == 3), "after two generations of the first island"
    assert archive.database.island_generations == [2, 2, 2]
    here = {archive.database.programs[i].code for i in archive.database.islands[0]}
    drawn = [archive.parents(np.random.default_rng(i), 9) for i in range(60)]
    assert {e.answer for parents in drawn for e in parents} == here and len(here) > 2
    assert all(len({e.answer for e in parents}) == len(parents) for parents in drawn)
    assert all(archive.weights @ e.rewards == e.score for parents in drawn for e in parents)
    fitting = [archive.parents(np.random.default_rng(i), fit="answer 0".__eq__) for i in range(60)]
    assert {e.answer for parents in fitting for e in parents} == {"answer 0"}
    assert archive.parents(rng, fit="never".__eq__) == []


@pytest.mark.slow
def test_a_search_on_islands_repeats_and_leaves_the_shared_random_stream(openevolve, pocket):
    problems = [TWO.instance(seed) for seed in range(4)]
    how = dict(m=3, calls=12, seed=1, archive=Islands)
    state = random.getstate()
    traces = evolve(pocket, TWO, problems, **how)
    assert random.getstate() == state
    random.seed(5)
    again = evolve(pocket, TWO, problems[::-1], **how)[::-1]
    told = [(t.tokens, t.candidates, t.best, t.cells, t.solved_at) for t in traces]
    assert told == [(t.tokens, t.candidates, t.best, t.cells, t.solved_at) for t in again]
    assert told != [
        (t.tokens, t.candidates, t.best, t.cells, t.solved_at)
        for t in evolve(pocket, TWO, problems, m=3, calls=12, seed=1)
    ]
    for trace in traces:
        assert type(trace.archive) is Islands
        assert all(
            p.metrics["combined_score"] > 0 for p in trace.archive.database.programs.values()
        )
    assert sum(trace.solved_at is not None for trace in traces) >= 2


@pytest.mark.slow
def test_it_is_the_same_in_every_process(openevolve):
    code = """
import numpy as np
from vpo_lite.search.openevolve import Islands
archive = Islands([1.0, 1.0], bins=4, migration_interval=2)
for call in range(40):
    rng = np.random.default_rng(call)
    found = archive.parents(rng, 3)
    archive.add(f"{call}", rng.random(2))
    archive.end_call()
print([e.answer for e in found], [len(i) for i in archive.database.islands])
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(told) == 1 and "[" in told.pop()
