"""What the shipped recordings show: the findings that notebooks and REFERENCE tell."""

import json
from pathlib import Path

import numpy as np
import pytest
from recorded import ALL, replayed

import vpo_lite as vpo
from vpo_lite.lab import Lab
from vpo_lite.lab.recordings.__main__ import RECORDINGS

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PAGE = (RESULTS.parents[2] / "notebooks" / "REFERENCE.md").read_text()
TOLD = " ".join(PAGE.split())  # without line breaks
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


def last_sets(lab, method, steps=1):
    """All sets (n, m, 4) that a run wrote in its last steps."""
    records = lab.runs[method].records[-steps:]
    return np.concatenate([g.rewards for r in records for g in r.groups])


def worth(sets, alpha):
    """The mean of E_w max over sets, w ~ Dirichlet(alpha), by its definition on 20,000 weights."""
    W = np.random.default_rng(0).dirichlet(np.full(4, alpha), 20_000)
    return float(np.mean([(s @ W.T).max(axis=0).mean() for s in sets]))


@pytest.mark.parametrize("name", ALL)
def test_a_recording_has_the_settings_of_its_command(name):
    lab, (methods, settings, _) = replayed(name), RECORDINGS[name]
    assert lab.methods == ((methods,) if isinstance(methods, str) else methods)
    again = Lab(methods, **settings)
    assert lab.instance == again.instance
    for method, run in lab.runs.items():
        expected = again.settings.configs[method]
        assert len(run.records) == expected.steps == run.records[-1].step
        for setting in ("alpha", "K", "group_size", "prompts", "lr", "seed"):
            assert getattr(run.config, setting) == getattr(expected, setting), setting


def test_each_policy_is_better_at_the_alpha_that_it_was_trained_at():
    small, large = (
        last_sets(replayed(f"own_alpha/{name}"), "vpo_recombined", steps=5)
        for name in ("small", "large")
    )
    assert worth(small, 0.1) > worth(large, 0.1) + 0.02
    assert worth(large, 10) > worth(small, 10) + 0.02


def test_so_it_was_on_each_of_five_seeds():
    lines = (RESULTS / "attained.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    judged = {
        (row["run"][2], row["run"][4]): row["coverage"]
        for row in rows
        if row["run"][:2] == ["alpha", "vpo_recombined, 2 x steps"]
    }
    assert len(judged) == 10
    for seed in range(5):
        small, large = judged[0.1, seed], judged[10.0, seed]
        assert small["0.1"] > large["0.1"] + 0.02 and large["10"] > small["10"] + 0.02


def stored(study):
    """The runs of a study of tests/benchmarks/attained_study.py."""
    rows = map(json.loads, (RESULTS / "attained.jsonl").read_text().splitlines())
    return [row for row in rows if row["run"][0] == study]


def test_the_reference_tells_what_the_study_found():
    """Attained, and who is ahead: from the stored runs, in the words of the page."""
    found = {}
    for row in stored("attained"):
        _, kind, maze, m, seed = row["run"]
        if (m, seed) == (2, 0):
            share = row["coverage"]["1"], row["best_single"]
            found.setdefault(kind, {})[maze] = np.array(share) / row["ceiling"]["1"]
    plain, ours = found["vpo"], found["vpo_recombined, 2 x steps"]
    slow = found["vpo, 2 x steps"]  # what the preset does alone
    assert sorted(plain) == sorted(slow) == sorted(ours) == [*range(1600, 1640)]
    for label, runs in (
        ("VPO, preset demo", plain),
        ("VPO, preset patient (", slow),
        ("recombined VPO, preset patient", ours),
    ):
        reached, single = np.array([runs[maze] for maze in sorted(runs)]).T
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
        below = (reached < single - 1e-9).sum()
        told = [f"{reached.mean():.2f}", f"{reached.min():.2f}", f"{below} of 40"]
        assert [cell.strip() for cell in line.split("|")[2:5]] == told
    again = [row for row in stored("attained") if (*row["run"][3:],) == (2, 1)]
    share = np.array([row["coverage"]["1"] / row["ceiling"]["1"] for row in again])
    below = sum(row["coverage"]["1"] < row["best_single"] - 1e-9 for row in again)
    told = f"The variant's second seed attains {share.mean():.2f} "
    told += f"(least {share.min():.2f}, {below} of 40 below the best single answer)"
    assert len(again) == 40 and {row["run"][1] for row in again} == {"vpo_recombined, 2 x steps"}
    assert told in TOLD, told
    for one, other, told in (
        (
            ours,
            slow,
            "VPO with the same preset the variant is ahead on {} mazes and behind on {} "
            "(difference {:.2f}, 95 % interval {:.2f} to {:.2f})",
        ),
        (
            ours,
            plain,
            "VPO with preset demo it is ahead on {} and behind on {} ({:.2f}, {:.2f} to {:.2f})",
        ),
        (slow, plain, "Plain VPO gains {2:.2f} from preset patient, not significantly."),
    ):
        ahead = np.array([one[maze][0] - other[maze][0] for maze in sorted(plain)])
        spread = 2.023 * ahead.std(ddof=1) / np.sqrt(40)  # Student's t with 39 degrees of freedom
        interval = ahead.mean() - spread, ahead.mean() + spread
        told = told.format((ahead > 0).sum(), (ahead < 0).sum(), ahead.mean(), *interval)
        assert told in TOLD and (interval[0] > 0) == (one is ours), told


def test_the_reference_tells_what_the_study_found_with_three_answers():
    found = {}
    for row in stored("attained"):
        _, kind, maze, m, seed = row["run"]
        if (m, seed) == (3, 0):
            share = row["coverage"]["1"] / row["ceiling"]["1"]
            found.setdefault(kind, {})[maze] = share
    both = [[runs[maze] for maze in range(1600, 1610)] for runs in found.values()]
    (plain, ours), (low, high) = np.mean(both, axis=1), np.min(both, axis=1)
    told = f"VPO attains {plain:.2f} and the variant {ours:.2f} (least {low:.2f} and {high:.2f})"
    assert list(found) == ["vpo", "vpo_recombined, 2 x steps"] and told in TOLD, told


def test_the_reference_tells_what_each_alpha_is_good_for():
    rows = [row for row in stored("alpha") if row["run"][1] != "vpo"]
    mean = {
        (trained, judged): np.mean(
            [row["coverage"][judged] for row in rows if row["run"][2] == trained]
        )
        for trained in (0.1, 10.0)
        for judged in ("0.1", "10")
    }
    assert len(rows) == 10
    for text in (
        f"Judged at α = 0.1, the policy trained at 0.1 covers {mean[0.1, '0.1']:.2f}, the one "
        f"trained at 10 covers {mean[10.0, '0.1']:.2f}.",
        f"Judged at α = 10, the policy trained at 10 covers {mean[10.0, '10']:.3f}, the one "
        f"trained at 0.1 covers {mean[0.1, '10']:.2f}.",
    ):
        assert text in TOLD, text


def test_with_one_prompt_a_step_one_weight_is_too_few_and_four_are_enough():
    rows = [json.loads(line) for line in (RESULTS / "attained.jsonl").read_text().splitlines()]
    end = {}
    for row in rows:
        if row["run"][0] == "weights":
            end.setdefault(row["run"][2], []).append(row["coverage"]["1"])
    assert [len(values) for values in end.values()] == [3] * 4
    assert 0.92 < min(end[1]) and max(end[1]) < 0.955
    others = end[4] + end[64] + end["inf"]
    assert 0.965 < min(others) and max(others) < 0.995


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_repeat_rule_the_sum_keeps_diversity_and_without_it_it_does_not(seed):
    ruled = replayed(f"three_methods/seed-{seed}").runs["multi_rlvr"].records
    free = replayed(f"free_repeats/seed-{seed}").runs["multi_rlvr"].records
    assert replayed(f"free_repeats/seed-{seed}").config.pay_repeats
    assert ruled[-1].diversity > 1 > 0.1 > free[-1].diversity
    assert ruled[-1].coverage > free[-1].coverage


@pytest.mark.parametrize("seed", SEEDS)
def test_grpo_collapses_with_as_many_answers_as_vpo(seed):
    run = replayed(f"equal_answers/seed-{seed}")
    ours = replayed(f"three_methods/seed-{seed}").runs["vpo"]
    assert run.runs["grpo"].used[0] == ours.used[0] == 40 * 4 * 48
    front = run.maze.pareto_front().rewards
    best_single = front.mean(axis=1).max() / vpo.exact_set_reward(front)
    assert run.records[-1].coverage < best_single < ours.records[-1].coverage
    assert run.records[-1].diversity < 0.1


@pytest.mark.slow
def test_on_the_maze_called_stuck_only_the_recombined_sets_pass_the_best_single_answer():
    lab = replayed("stuck/seed-0")
    front = lab.maze.pareto_front().rewards
    best_single = front.mean(axis=1).max() / vpo.exact_set_reward(front)
    plain, recombined = (
        vpo.coverage(last_sets(lab, method), front).mean() for method in ("vpo", "vpo_recombined")
    )
    assert plain < best_single < recombined


def test_one_weight_makes_a_noisier_curve_with_one_prompt_a_step():
    one, many = (replayed(f"few_weights/K-{K}").records for K in (1, 64))
    noise = [np.abs(np.diff([r.coverage for r in run[20:]])).mean() for run in (one, many)]
    assert noise[0] > noise[1]
