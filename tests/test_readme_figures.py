"""The README's tables of other tasks tell what the stored studies found."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OTHER_TASKS = README[README.index("## Other tasks") : README.index("**Chains are the")]
RESULTS = ROOT / "tests" / "benchmarks" / "results"
MINIATURES = ("programs", "calls", "hops")


def stored(name):
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def cells(label):
    """The other cells of the table row that begins with this label."""
    (line,) = (line for line in OTHER_TASKS.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip().strip("*") for cell in line.split("|")[2:-1]]


@pytest.mark.parametrize(
    ("label", "kind", "seeds"),
    [
        ("before training", "start, m = 3", 1),
        ("VPO, m = 3", "vpo", 3),
        ("GRPO, 3 x rollouts", "grpo, 3 x rollouts", 3),
        ("GRPO", "grpo", 3),
        ("Multi-RLVR, repeats earn nothing", "multi_rlvr", 3),
        ("Multi-RLVR, repeats paid", "multi_rlvr, repeats paid", 3),
        ("set_max", "set_max", 3),
        ("Max@k, 3 x rollouts", "max_at_k, 3 x rollouts", 3),
    ],
)
def test_coverage_of_each_method_on_each_task(label, kind, seeds):
    told = cells(label)
    for task, cell in zip(MINIATURES, told, strict=True):
        found = [row["coverage"] for row in stored(task) if row["run"][0] == kind]
        assert len(found) == seeds and cell == f"{np.mean(found):.2f}", (task, np.mean(found))


def test_the_best_single_answer_of_each_task():
    best = [stored(task)[0]["coverage_best_single"] for task in MINIATURES]
    assert cells("best single answer") == [f"{share:.2f}" for share in best]


def test_what_more_steps_bring():
    found = {row["run"][0].removesuffix(", 200 steps"): row for row in stored("hops")[-3:]}
    ours, single, paid = (
        found[kind] for kind in ("vpo", "grpo, 3 x rollouts", "multi_rlvr, repeats paid")
    )
    told = f"{ours['coverage']:.2f} against {single['coverage']:.2f} for GRPO with as many"
    assert told in OTHER_TASKS and f"answers and {paid['coverage']:.2f} for the paid" in OTHER_TASKS
    assert f"{single['diversity']:.2f}" == f"{paid['diversity']:.2f}"
    assert f"diversity {ours['diversity']:.2f} against {paid['diversity']:.2f}" in OTHER_TASKS


@pytest.mark.parametrize(
    ("label", "kind"),
    [("GRPO", "grpo"), ("Multi-RLVR", "multi_rlvr"), ("set_max", "set_max"), ("VPO", "vpo")],
)
def test_what_tables_of_probabilities_make_of_chains(label, kind):
    start = README.index("| expected of a set of three |")
    line = next(x for x in README[start:].splitlines() if x.startswith(f"| {label} |"))
    told = [float(cell.strip().strip("*")) for cell in line.split("|")[2:-1]]
    rows = stored("chains_tabular")
    mean = {
        (mode, goal): np.mean([row[goal] for row in rows if row["run"][:2] == [mode, kind]])
        for mode in ("independent", "spreading")
        for goal in ("set_reward", "best", "solved")
    }
    goals = [("independent", g) for g in ("set_reward", "best", "solved")]
    goals += [("spreading", "set_reward"), ("spreading", "solved")]
    assert np.allclose(told, [mean[goal] for goal in goals], atol=0.0051)
