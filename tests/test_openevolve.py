"""Policies inside OpenEvolve: the real package, no network. Skipped where it is not installed."""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_models import byte_model

from vpo_lite.policy.loading import load_policy
from vpo_lite.search.archive import Archive
from vpo_lite.search.evolution import evolve
from vpo_lite.search.openevolve import Islands, PolicyClient, metrics_of, run_stock
from vpo_lite.tasks import Task
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.program_rules import HiddenRules
from vpo_lite.training.rollouts import sample_answers

ROOT = Path(__file__).resolve().parent.parent
TWO = HiddenRules(branches=2)


def test_without_the_package_one_line_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "openevolve.config", None)
    with pytest.raises(
        ValueError, match=r"^OpenEvolve cannot be imported .*pip install -e '\.\[openevolve\]'$"
    ):
        Islands([1.0])


@pytest.mark.parametrize(
    "task, said",
    [
        (TWO, "^task = .*: expected a name, 'package.module:Class' or a class"),
        (HiddenRules, "nope"),
    ],
)
def test_a_task_of_a_stock_run_is_a_name_or_a_class(tmp_path, task, said):
    """The class itself is taken: what is refused then is the policy."""
    how = dict(m=1, iterations=1, seed=0, folder=tmp_path)
    with pytest.raises(ValueError, match=said):
        run_stock("nope", task, 0, **how)


def test_metrics_are_the_rewards_of_the_text_and_malformed_ones_the_worst():
    x = TWO.instance(3)
    right = metrics_of("programs", {"branches": 2}, 3, f" {x.rules[0]}\n")
    passed = TWO.score([x], [[x.rules[0]]])[0][0]
    assert [right[f"reward_{i + 1}"] for i in range(len(passed))] == passed.tolist()
    assert right["combined_score"] == pytest.approx(passed.mean()) and 0 < passed.mean() < 1
    wrong = metrics_of("programs", {"branches": 2}, 3, "no program at all")
    assert set(wrong) == set(right) and set(wrong.values()) == {0.0}


class Numbers(Task):
    """Of one's own: an answer is a number above 0. It has no say in what else a search gives it."""

    def instance(self, seed):
        return 0

    def objectives(self, x):
        return ("large", "small")

    def vector(self, x, answer):
        return [float(answer), 1 / float(answer)]


def test_metrics_of_an_answer_that_ones_own_scorer_cannot_read_are_the_worst():
    """Any other error of the scorer is none of the answer's."""
    name = f"{__name__}:Numbers"
    found = [metrics_of(name, {}, 0, x)["combined_score"] for x in ("2", "nought")]
    assert found == [1.25, 0]
    with pytest.raises(TaskError, match=r"vector\(instance, '0'\) raised ZeroDivisionError"):
        metrics_of(name, {}, 0, "0")


def indented(completions, **columns):
    return [float(text.startswith("    ") and text.endswith("\n")) for text in completions]


def test_metrics_of_reward_functions_are_those_of_the_text_with_its_blanks(tmp_path):
    """They were of the stripped text: code that completes a prompt had lost its indentation."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "def f(x):"}\n' * 2)
    options = {"data": str(rows), "reward_funcs": f"{__name__}:indented"}
    for text, reward in (("    return x\n", 1), ("return x", 0), (" \n", 0)):
        assert metrics_of("functions", options, 0, text)["reward_1"] == reward


def test_metrics_of_a_route_do_not_depend_on_blanks_around_it():
    route = "UP UP UP LEFT LEFT LEFT LEFT LEFT UP UP"  # to E, over lava
    found = [metrics_of("maze", {}, 1000, text)["reward_1"] for text in (route, f" {route}\n")]
    assert found == [1, 1]


def test_a_model_that_is_asked_in_words_is_shown_the_parent_that_openevolve_chose(
    tmp_path, monkeypatch
):
    """It was asked the problem alone: every child was independent of the search."""
    asked = []

    def spied(policy, task, instances, m, uniforms, *, notes):
        asked.append(notes[0])
        return sample_answers(policy, task, instances, m, uniforms, notes=notes)

    monkeypatch.setattr("vpo_lite.search.openevolve.sample_answers", spied)
    monkeypatch.setattr("vpo_lite.search.openevolve.token_limits", lambda *_: [8])
    model = str(byte_model(tmp_path / "model", 16, 32, 1, 2, 1))
    x = TWO.instance(1)
    right = x.rules[0]
    for parent in ("nothing yet", right):
        client = PolicyClient(model, "programs", '{"branches": 2}', 1, 2, 0)
        asyncio.run(client.generate(f"# Current Program\n```text\n{parent}\n```"))
    rewards = TWO.score([x], [[right]])[0][0]
    line = ", ".join(f"{n} {r:.2f}" for n, r in zip(TWO.objectives(x), rewards, strict=True))
    assert asked[0] == "" and f"{TWO.write(x, [right])}\n{line}" in asked[1]


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["# Current Program\n```text\nnothing yet\n```", "no program"])
def test_before_there_is_an_answer_every_policy_begins_anew(prompt, monkeypatch):
    """A route cannot be written from the text that OpenEvolve starts with: it was a KeyError."""
    begun = []

    def spied(policy, task, instances, m, uniforms, *, prefixes):
        begun.append(prefixes)
        return sample_answers(policy, task, instances, m, uniforms, prefixes=prefixes)

    monkeypatch.setattr("vpo_lite.search.openevolve.sample_answers", spied)
    client = PolicyClient("pocket-6x6", "maze", "{}", 1, 2, 0)
    asyncio.run(client.generate(prompt))
    assert begun == [[""]]


def test_a_limit_of_tokens_holds_for_each_rollout(tmp_path, monkeypatch):
    widths = []

    def spied(policy, task, instances, m, uniforms, **how):
        widths.append(uniforms.shape)
        return sample_answers(policy, task, instances, m, uniforms, **how)

    monkeypatch.setattr("vpo_lite.search.openevolve.sample_answers", spied)
    client = PolicyClient("pocket-programs", "programs", "{}", 1, 2, 0, max_new_tokens=3)
    asyncio.run(client.generate("no program"))
    assert widths == [(1, 1, 3)] and client.last_usage == {"completion_tokens": 3}
    how = dict(m=1, iterations=1, seed=0, folder=tmp_path / "run", max_new_tokens=0)
    with pytest.raises(ValueError, match="max_new_tokens = 0: expected a whole number"):
        run_stock("pocket-programs", "programs", 1, **how)


@pytest.fixture(scope="module")
def openevolve():
    return pytest.importorskip("openevolve")


@pytest.fixture(scope="module")
def pocket():
    return load_policy("pocket-programs")


@pytest.mark.filterwarnings("ignore:rewards below 0 or above 1")
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


def test_more_answers_than_the_policy_writes_are_refused_before_a_process_starts(tmp_path):
    """In the worker it would be an error of each call, and the search would go on with nothing."""
    how = dict(iterations=8, seed=0, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="m = 6: this policy writes 1 to 5 answers"):
        run_stock("pocket-programs", "programs", 1, m=6, **how)
    with pytest.raises(ValueError, match="this policy was made for task 'maze'"):
        run_stock("pocket-6x6", "programs", 1, m=1, **how)
    with pytest.raises(ValueError, match="model 'nope': no pocket policy"):
        run_stock("nope", "programs", 1, m=1, **how)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_openevolves_own_program_runs_with_a_policy_and_leaves_nothing_behind(
    openevolve, tmp_path, m
):
    root, handlers = logging.getLogger(), list(logging.getLogger().handlers)
    states = random.getstate(), np.random.get_state()[1].tolist(), root.level
    signals = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    threads = os.environ.get("OMP_NUM_THREADS")
    how = dict(m=m, iterations=8, seed=0, options={"branches": 2}, folder=tmp_path / "run")
    result = run_stock("pocket-programs", "programs", 1, **how)
    assert (random.getstate(), np.random.get_state()[1].tolist(), root.level) == states
    assert root.handlers == handlers and os.environ.get("OMP_NUM_THREADS") == threads
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == signals
    x = TWO.instance(1)
    (score,) = TWO.score([x], [[result.best_code]])[0].mean(axis=1)
    assert result.best_score == pytest.approx(score) and score > 0
    assert result.metrics == metrics_of("programs", {"branches": 2}, 1, result.best_code)
