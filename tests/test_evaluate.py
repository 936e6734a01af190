"""Evaluation and comparison: figures from their definitions, pools counted in answers."""

import hashlib
import itertools
import json
import re
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_ind

import envs
import vpo_lite as vpo
from vpo_lite import exact
from vpo_lite.cli.told import warn_of_held_out
from vpo_lite.files import DamagedError
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.sampling import sample_tokens
from vpo_lite.search import evolution, tree
from vpo_lite.tasks import Task, task_class, task_names
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training import evaluate as evaluation
from vpo_lite.training import step
from vpo_lite.training.answers import read_answers
from vpo_lite.training.compare import compare, problem_interval
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.confounders import confounders, in_one_line
from vpo_lite.training.evaluate import evaluate, held_out_seeds, sample_pools
from vpo_lite.training.folders import RunFolder, stored_settings
from vpo_lite.training.learner import Learner
from vpo_lite.training.measure import (
    means,
    objective_means,
    pool_figures,
    rollout_fields,
    step_figures,
)
from vpo_lite.training.problems import problems_of_step
from vpo_lite.training.schemas import Engine
from vpo_lite.training.side_by_side import (
    UNEVEN,
    differences,
    intervals,
    table,
    temperatures,
)
from vpo_lite.training.step import train_step

ONE_DEGREE = float(student.ppf(0.975, 1))  # 12.7: what Student's t makes of two values
TASK = MazeTask()
MAZE = envs.generate("lite-6x6", 1003)
FRONT = MAZE.pareto_front()


def completion(row):
    return " ".join(f"<route_{i}> {a} </route_{i}>" for i, a in enumerate(row, 1) if a)


def pool(answers, m):
    """Answers as one pool, read from the completions that would have written them."""
    texts = [completion(answers[i : i + m]) for i in range(0, len(answers), m)]
    return read_answers(TASK, [MAZE], [texts], m)[0]


def figures(answers, method="vpo", m=3, **changes):
    config = TrainConfig.preset("demo", method=method, m=m, maze_seed=1003, **changes)
    return pool_figures(TASK, config, pool(answers, config.answers), len(answers))


def test_the_pool_figures_are_their_definitions():
    best, junk = list(FRONT.routes), "UUDD"
    answers = [best[0], best[1], None, best[0], best[0], junk]
    f = figures(answers)
    vectors = np.array(
        [np.zeros(4) if a is None else envs.score_routes(MAZE, [a])[0] for a in answers]
    )
    whole = vpo.exact_set_reward(FRONT.rewards)
    worth = np.mean([vpo.exact_set_reward(vectors[i : i + 3]) for i in (0, 3)])
    assert f["set_reward"] == pytest.approx(worth) and f["coverage"] == pytest.approx(worth / whole)
    ceiling = max(vpo.exact_set_reward(v[None]) for v in FRONT.rewards) / whole
    assert f["coverage_best_single"] == pytest.approx(ceiling)
    reached = vectors[vectors[:, 0] > 0]
    pairs = list(itertools.combinations(reached, 2))
    assert f["diversity"] == pytest.approx(np.mean([abs(a - b).sum() for a, b in pairs]))
    pairs = list(itertools.combinations(vectors, 2))
    assert f["diversity_all"] == pytest.approx(np.mean([abs(a - b).sum() for a, b in pairs]))
    scalars = vectors.mean(1)
    assert f["best_at_k"]["3"] == pytest.approx(
        np.mean([max(c) for c in itertools.combinations(scalars, 3)])
    )
    assert f["best_of_rollout"] == pytest.approx((max(scalars[:3]) + max(scalars[3:])) / 2)
    assert (f["parse_rate"], f["valid_rate"], f["repeat_rate"]) == pytest.approx(
        (5 / 6, 4 / 6, 1 / 6)
    )
    solved = [any(np.allclose(v, point) for point in FRONT.rewards) for v in vectors]
    hits = [any(chosen) for chosen in itertools.combinations(solved, 3)]
    assert f["pass_at_k"]["3"] == pytest.approx(np.mean(hits)) and f[
        "solved_rate"
    ] == pytest.approx(np.mean(solved))
    assert f["objectives"]["gold"] == pytest.approx(vectors[:, 1].mean())
    assert f["reached"]["gold"] == vectors[:, 1].max() > 0  # a missing answer earns 0
    written = vectors[[a is not None for a in answers]]
    ranges = written.max(axis=0) - written.min(axis=0)
    assert f["spread"] == pytest.approx(dict(zip(envs.OBJECTIVES, ranges, strict=True)))


def test_tokens_and_cut_rollouts_count_for_the_whole_pool():
    """Two rollouts of three answers; four of the six answers are looked at."""
    config = TrainConfig.preset("demo", m=3, maze_seed=1003)
    whole = replace(pool(["UU"] * 6, 3), tokens=np.array([10, 14]), truncated=np.array([1, 0]))
    found = pool_figures(TASK, config, whole, 4)
    assert (found["tokens_per_answer"], found["truncated_rate"]) == ((10 + 14) / 6, 1 / 2)


def test_answers_that_fill_no_set_count_in_the_other_figures_alone():
    """Sets of three: of seven answers the last one is in none."""
    taken = [next(iter(FRONT.routes))] * 6
    whole, more = figures(taken), figures([*taken, "UUDD"])
    names = ("set_reward", "coverage")
    assert [more[name] for name in names] == [whole[name] for name in names]
    assert (whole["valid_rate"], more["valid_rate"]) == (1, pytest.approx(6 / 7))


def test_the_figures_of_a_step_are_their_definitions():
    """Two groups of two rollouts of three answers, on two mazes, in plain loops."""
    mazes = [MAZE, envs.generate("lite-6x6", 1004)]
    fronts = [maze.pareto_front() for maze in mazes]
    (a, *_, b), (c, *_, d) = (front.routes for front in fronts)
    rows = [[[a, a, None], [b, "UUDD", a]], [[c, None, None], [d, c, "UD"]]]
    texts = [[completion(row) for row in group] for group in rows]
    cut, tokens = np.array([[True, False], [False, False]]), np.array([[5, 7], [2, 9]])
    groups = read_answers(TASK, mazes, texts, 3, tokens=tokens, truncated=cut)
    assert [group.answers for group in groups] == rows
    config = TrainConfig.preset("demo", m=3, alpha=0.2, K=16)
    gains, w = np.array([[0, 0], [1, 1.5]]), np.full((1, 4), 0.25)
    f = rollout_fields(TASK, config, groups, np.array([[1, 2], [3, 6]]), gains, [None, w])
    assert (f["method"], f["alpha"], f["K"], f["m"]) == ("vpo", 0.2, 16, 3)
    assert (f["score"], f["silent_groups"], f["tokens"]) == (12 / 4, 1 / 2, 5 + 7 + 2 + 9)
    told = [(group.instance, group.texts, group.answers) for group in f["groups"]]
    assert told == list(zip(mazes, texts, rows, strict=True))
    assert f["groups"][1].weights is w and f["groups"][0].weights is None
    assert [group.advantages.tolist() for group in f["groups"]] == gains.tolist()
    worth, covered, spread, vectors = [], [], [], []
    for maze, front, group in zip(mazes, fronts, rows, strict=True):
        own = [
            [np.zeros(4) if r is None else envs.score_routes(maze, [r])[0] for r in row]
            for row in group
        ]
        worth += [vpo.exact_set_reward(row, 0.2) for row in own]
        whole = vpo.exact_set_reward(front.rewards)
        covered += [vpo.exact_set_reward(row) / whole for row in own]
        reached = [v for row in own for v in row if v[0] > 0]
        pairs = itertools.combinations(reached, 2)
        spread.append(np.mean([abs(one - other).sum() for one, other in pairs]))
        vectors += own
    assert f["set_reward"] == pytest.approx(np.mean(worth), abs=2e-3)  # 2,048 points for this alpha
    assert f["coverage"] == pytest.approx(np.mean(covered))
    assert f["diversity"] == pytest.approx(np.mean(spread))
    rates = [f[f"{name}_rate"] for name in ("parse", "valid", "solved", "repeat", "truncated")]
    assert rates == pytest.approx([9 / 12, 7 / 12, 7 / 12, 1 / 12, 1 / 4])
    by_slot = np.mean(vectors, axis=0)  # (3, 4): slots and objectives
    assert f["slots"] == pytest.approx(by_slot.mean(axis=1))
    assert f["valid_slots"] == pytest.approx((np.array(vectors)[..., 0] > 0).mean(axis=0))
    assert list(f["objectives"].values()) == pytest.approx(by_slot.mean(axis=0))
    assert list(f["objectives"]) == list(envs.OBJECTIVES)


class Debts(Task):
    """An answer is a debt, and a missing one owes 5 and 2."""

    def objectives(self, instance):
        return "small", "even"

    def worst(self, instance):
        return np.array([-5.0, -2.0])

    def score(self, instances, answers):
        return [np.array([[-float(a), -float(int(a) % 2)] for a in row]) for row in answers]


def test_what_was_reached_counts_from_a_missing_answer():
    texts = ["<answer_1> 3 </answer_1> <answer_2> 4 </answer_2>", "<answer_1> 2 </answer_1>"]
    (group,) = read_answers(Debts(), [0], [texts], 2)
    config = TrainConfig.preset("demo", m=2)
    found = pool_figures(Debts(), config, replace(group, answers=None), 3)
    assert found["reached"] == {"small": 5 - 2, "even": 2 - 0}
    assert found["objectives"] == {"small": -9 / 3, "even": -1 / 3}
    assert found["spread"] == {"small": 2, "even": 1}  # of 3, 4 and 2
    assert found["coverage"] is found["coverage_best_single"] is found["above_front_rate"] is None
    assert found["below_worst_rate"] == 0.0


class Scored(Task):
    """An answer is its own d rewards; the instance is d."""

    def objectives(self, instance):
        return [f"objective {i}" for i in range(instance)]

    def vector(self, instance, answer):
        return json.loads(answer)


@pytest.mark.parametrize(("d", "m", "cheap"), [(4, 5, True), (5, 3, True), (6, 5, False)])
def test_a_step_is_not_integrated_exactly_where_that_is_dear(d, m, cheap, monkeypatch):
    """With d = 6, m = 8 a call of SetReward for 512 rollouts took 2.7 s, and 0.2 s without figures.

    The pieces that are cut say what an integral costs. Evaluation stays exact.
    """
    cut, rewards = [], np.random.default_rng(0).random((2, m, d))
    whole = exact._clip
    monkeypatch.setattr(exact, "_clip", lambda V, p, h: cut.append(len(h)) or whole(V, p, h))
    task = Scored()
    texts = [task.write(d, [str(r) for r in R.tolist()]) for R in rewards]
    (group,) = read_answers(task, [d], [texts], m)
    assert np.array_equal(group.rewards, rewards)
    W = vpo.sample_weights(2**17, d, 1.0, rng=np.random.default_rng(9), method="sobol")
    sampled = np.mean([(R @ W.T).max(0).mean() for R in rewards])
    config = TrainConfig.preset("demo", m=m)
    shown = step_figures(task, 1.0, m, [group])["set_reward"]
    in_step = sum(cut)
    assert shown == pytest.approx(sampled, abs=3e-3)
    cut.clear()
    measured = pool_figures(task, config, group, 2 * m)["set_reward"]
    assert measured == pytest.approx(sampled, abs=1e-4)
    assert (shown == measured) == cheap
    assert in_step == sum(cut) if cheap else in_step < sum(cut) / 4


class Named(Task):
    """A problem is the names of its objectives."""

    def objectives(self, instance):
        return instance


def test_objectives_have_means_where_all_problems_have_the_same():
    R = np.arange(8.0).reshape(2, 2, 2)
    same = [SimpleNamespace(instance=("a", "b"), rewards=r) for r in (R, R + 1)]
    assert objective_means(Named(), same) == {"a": 3.5, "b": 4.5}  # 0, 2, 4, 6 and 1, 3, 5, 7
    assert objective_means(Named(), same[:1]) == {"a": 3.0, "b": 4.0}
    other = SimpleNamespace(instance=("a", "c"), rewards=R)
    assert objective_means(Named(), [*same, other]) == {}


def test_best_answers_are_looked_for_among_1_3_10_and_30():
    routes = [FRONT.routes[0], *["UU"] * 29]
    for name in ("best_at_k", "any_at_k", "pass_at_k"):
        assert list(figures(routes)[name]) == ["1", "3", "10", "30"]
        assert list(figures(routes[:29], m=1, method="grpo")[name]) == ["1", "3", "10"]
    chances = {"1": 1 / 30, "3": 3 / 30, "10": 10 / 30, "30": 1.0}
    assert figures(routes)["pass_at_k"] == pytest.approx(chances)


def test_means_leave_out_what_a_row_lacks():
    rows = [{"x": 1, "y": 2, "z": {"1": 1, "3": 5}}, {"x": 4, "y": None, "z": {"1": 2}}]
    assert means(rows) == {"x": 2.5, "y": None, "z": {"1": 1.5}}


def test_single_answers_are_compared_in_sets_of_the_same_size():
    """The same six answers mean the same coverage whether one rollout wrote three or three rollouts
    one each.
    """
    answers = [FRONT.routes[0], None, FRONT.routes[1], "UU", FRONT.routes[1], FRONT.routes[1]]
    multi, single = figures(answers, "vpo"), figures(answers, "grpo")
    for name in ("coverage", "set_reward", "diversity", "best_at_k", "valid_rate"):
        assert multi[name] == pytest.approx(single[name])


def test_alpha_moves_the_set_reward_and_never_the_coverage():
    answers = [FRONT.routes[0], FRONT.routes[1], None]
    low, high = figures(answers, alpha=0.1), figures(answers, alpha=20.0)
    assert low["set_reward"] > high["set_reward"]
    assert low["coverage"] == high["coverage"]


@pytest.mark.parametrize(
    ("method", "m"), [("vpo", 3), ("vpo", 4), ("grpo", 3), ("goal_conditioned", 3)]
)
def test_pools_hold_as_many_answers_whatever_wrote_them(tiny_policy_folder, method, m):
    config = TrainConfig.preset(
        "demo", method=method, m=m, maze_seed=1000, model=str(tiny_policy_folder), max_new_tokens=12
    )
    policy = load_policy(tiny_policy_folder, device="cpu")
    f = evaluate(policy, config, answers=10)
    assert f["answers"] == 10
    (one,) = sample_pools(policy, TASK, config, [MAZE], 10, 0)
    assert one.rewards.shape == (-(-10 // config.answers), config.answers, 4)
    assert evaluate(policy, config, answers=10) == f  # the draws are keyed
    assert f["problems"] == 1


@pytest.mark.parametrize("method", ["vpo", "goal_conditioned"])
def test_near_temperature_0_the_most_probable_tokens_are_measured(
    tiny_policy_folder, method, monkeypatch
):
    """The most probable ones by the logits of the model itself, token by token."""
    config = TrainConfig.preset(
        "demo", method=method, maze_seed=1000, model=str(tiny_policy_folder), max_new_tokens=6
    )
    policy, kept, asked = load_policy(tiny_policy_folder, device="cpu"), [], []
    with torch.no_grad():  # a fresh model has logits near 0
        policy.model.get_output_embeddings().weight.mul_(100)
    sample = policy.sample
    monkeypatch.setattr(
        policy, "sample", lambda p, u, t=1.0, **how: asked.extend([t, *p]) or sample(p, u, t, **how)
    )
    evaluate(policy, config, answers=6, temperature=0.01, keep=kept.append)
    assert asked[0] == 0.01 and all(x == 0.01 for x in asked if isinstance(x, float))
    if method == "vpo":
        ids = policy.encode(asked[1])
        for _ in range(6):
            with torch.no_grad():
                ids.append(policy.model(torch.tensor([ids])).logits[0, -1].argmax().item())
        assert {*kept[0].texts} == {*policy.read([ids[-6:]])}
    with pytest.raises(ValueError, match=r"temperature = 0: .*0\.01"):
        evaluate(policy, config, answers=6, temperature=0)


def test_the_numbers_of_problems_and_answers_are_the_configs_unless_they_are_given(
    tiny_policy_folder,
):
    config = TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), max_new_tokens=8, eval_problems=3, eval_answers=4
    )
    policy, told = load_policy(tiny_policy_folder, device="cpu"), []
    f = evaluate(policy, config, tell=lambda done, total: told.append((done, total)))
    assert (f["problems"], f["answers"], list(f["best_at_k"])) == (3, 4, ["1", "3"])
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    f = evaluate(policy, config, problems=2, answers=5)
    assert (f["problems"], f["answers"]) == (2, 5)
    sizes = ((3, 30), (40, 40), (3000, 2000))  # a whole set, as far as one can be measured
    for size, answers in sizes:
        single = dict(method="grpo", set_size=size, group_size=3000, eval_answers=None)
        assert config.but(**single).measured_answers == answers
    for m, set_size in ((5, 3), (1, 5)):
        with pytest.raises(ValueError, match="eval_answers = 4 with sets of 5: measure as many"):
            config.but(m=m, set_size=set_size, method="vpo" if m > 1 else "grpo")


def test_the_name_of_a_policy_is_told_from_one():
    with pytest.raises(ValueError, match=r"policy = 'runs/a': .* give load_policy\('runs/a'\)$"):
        evaluate("runs/a", TrainConfig.preset("demo"))
    with pytest.raises(ValueError, match="config = 'runs/a': expected a TrainConfig"):
        evaluate("runs/a", "runs/a")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vpo", "goal_conditioned"])
def test_a_large_pool_is_sampled_in_pieces(tiny_policy_folder, method, monkeypatch):
    """No more rows at a time than are allowed, and the same answers as in one piece."""
    settings = dict(model=str(tiny_policy_folder), maze_seed=1000, m=1, max_new_tokens=12)
    config = TrainConfig.preset("demo", method=method, **settings)
    policy, rows = load_policy(tiny_policy_folder, device="cpu"), []
    (whole,) = sample_pools(policy, TASK, config, [MAZE], 10, 0)

    def spied(model, prompts, uniforms, **more):
        rows.append(uniforms.shape[0] * uniforms.shape[1])
        return sample_tokens(model, prompts, uniforms, **more)

    monkeypatch.setattr(evaluation, "ROWS", 4)
    monkeypatch.setattr("vpo_lite.policy.policy.sample_tokens", spied)
    (cut,) = sample_pools(policy, TASK, config, [MAZE], 10, 0)
    assert rows == [4, 4, 2]
    assert cut.texts == whole.texts and (cut.rewards == whole.rewards).all()


@pytest.mark.parametrize(
    ("pocket", "changes", "at_once", "batches"),
    [
        ({"task": "maze", "board": 6, "budget": 60}, dict(), 256, [7]),
        (None, dict(), 32, [3, 3, 1]),  # as many rows as a step has: 4 prompts of 8 rollouts
        (None, dict(sample_batch=20), 20, [2, 2, 2, 1]),
        (None, dict(sample_batch=5), 5, [1] * 7),
        (None, dict(group_size=600), 256, [7]),
    ],
)
def test_a_large_model_samples_no_more_at_a_time_than_in_training(
    monkeypatch, pocket, changes, at_once, batches
):
    """Thirty answers to each of seven mazes are ten rollouts of three."""
    calls = []

    def spied(policy, task, instances, m, uniforms, *, at_once, temperature):
        calls.append((uniforms.shape, m, at_once))
        return SimpleNamespace(groups=list(instances))

    monkeypatch.setattr(evaluation, "sample_answers", spied)
    how = dict(m=3, prompts=4, group_size=8, max_new_tokens=9) | changes
    mazes = [envs.generate("lite-6x6", seed) for seed in range(7)]
    policy = SimpleNamespace(pocket=pocket, sample=print)
    config = TrainConfig.preset("demo", **how)
    assert list(sample_pools(policy, TASK, config, mazes, 30, 0)) == mazes
    assert calls == [((batch, 10, 9), 3, at_once) for batch in batches]


@pytest.mark.parametrize("other, kept", [("lava", {"gold": 0.75, "lava": 0.5}), ("silver", {})])
def test_objectives_have_means_where_all_problems_name_the_same(monkeypatch, other, kept):
    """Otherwise gold has none, though both problems name it."""
    rows = [
        figures(["UU"] * 3) | dict.fromkeys(("objectives", "reached", "spread"), earned)
        for earned in ({"gold": 0.5, "lava": 1.0}, {"gold": 1.0, other: 0.0})
    ]
    monkeypatch.setattr(evaluation, "_pools", lambda *_: range(2))
    monkeypatch.setattr(evaluation, "pool_figures", lambda task, config, pool, n: rows[pool])
    policy = SimpleNamespace(sample=print, pocket=None)
    config = TrainConfig.preset("demo")
    f = evaluate(policy, config, problems=2, answers=3, task=TASK)
    assert f["objectives"] == f["reached"] == f["spread"] == kept


def test_a_pool_holds_1_to_2000_answers():
    for answers in (1, 2000):
        evaluation.check_answers(answers)
    for answers in (0, 2001, 2.5, True):
        with pytest.raises(ValueError, match=f"answers = {answers}: must be 1 to 2,000"):
            evaluation.check_answers(answers)
    with pytest.raises(ValueError, match="answers = 2001: must be 1 to 2,000"):
        policy = SimpleNamespace(sample=print, pocket=None)
        evaluate(policy, TrainConfig.preset("demo"), answers=2001)


def test_many_mazes_are_the_held_out_ones_and_means_over_them(tiny_policy_folder):
    config = TrainConfig.preset("demo", model=str(tiny_policy_folder), max_new_tokens=12)
    policy = load_policy(tiny_policy_folder, device="cpu")
    f = evaluate(policy, config, answers=4, problems=3)
    ceilings = [
        vpo.metrics.price_of_conflict(envs.generate("lite-6x6", s).pareto_front().rewards)[1]
        for s in range(3)
    ]
    assert f["problems"] == 3
    assert f["coverage_best_single"] == pytest.approx(np.mean(ceilings))
    for figure in ("best_at_k", "any_at_k"):
        assert {k: len(v) for k, v in f["per_problem"][figure].items()} == {"1": 3, "3": 3}
        means = {k: np.mean(v) for k, v in f["per_problem"][figure].items()}
        assert f[figure] == pytest.approx(means)


ONE_EACH = ("coverage", "set_reward", "diversity", "valid_rate")


def alike(values):
    """Figures that are the same, one value per problem."""
    return dict.fromkeys(ONE_EACH, values) | {"best_at_k": {}, "any_at_k": {"1": values}}


@pytest.fixture
def made(tmp_path):
    """Write a finished run's two files."""
    base = figures([FRONT.routes[0]] * 3)
    base["per_problem"] = alike([0.5]) | {name: [base[name]] for name in ONE_EACH}
    base |= {"answers": 3, "problems": 1, "by_chance": False, "same_effect_rate": None}

    def make(name, coverage, **settings):
        folder = tmp_path / name
        folder.mkdir()
        usual = {} if "task" in settings else {"maze_seed": 1003}
        config = TrainConfig.preset("demo", **usual | settings)
        (folder / "config.json").write_text(json.dumps(stored_settings(config, None)))
        per_problem = base["per_problem"] | {"coverage": [coverage]}
        summary = base | {
            "method": config.method,
            "steps": config.steps,
            "seconds": 1.0,
            "rollout_share": 0.5,
            "scoring_share": None,
            "tokens": 1_000,
            "truncated_in_training": 0.0,
            "coverage": coverage,
            "start": base,
            "device": "cpu",
            "versions": {},
            "records": {},
            "per_problem": per_problem,
        }
        (folder / "summary.json").write_text(json.dumps(summary))
        return folder

    return make


def test_compare_means_by_kind_and_intervals_over_mazes(made):
    folders = [
        made("a", 0.8),
        made("b", 0.9, maze_seed=1004),
        made("c", 0.5, method="grpo", maze_seed=1004),
    ]
    rows = compare(folders)
    seen = [(r["label"], r["runs"], r["problems"], round(r["coverage"], 6)) for r in rows]
    assert seen == [("vpo", 2, 2, 0.85), ("grpo", 1, 1, 0.5)]
    wide = ONE_DEGREE * 0.05  # two values: their standard error is half of their distance
    assert rows[0]["interval"]["coverage"] == pytest.approx((0.85 - wide, 0.85 + wide))
    assert rows[1]["interval"]["coverage"] is None  # one maze says nothing of others
    text = table(rows)
    vpo_line, grpo_line = (line.split() for line in text.splitlines()[2:])
    assert (
        vpo_line[-2] != "-" and grpo_line[-2] == "-"
    )  # repeats: each of its three equal routes is alone
    assert "0.850" in text
    assert len({len(line) for line in text.splitlines()}) == 1


def test_options_of_the_engine_make_another_kind_but_where_it_computes_does_not(made):
    """Runs by AdamW and by SGD were seeds of one kind, or "the same run"."""

    def on_trl(name, seed=0, **options):
        folder = made(name, 0.8, seed=seed)
        config, engine = RunFolder(folder).config(), Engine(name="trl", options=options)
        (folder / "config.json").write_text(json.dumps(stored_settings(config, engine)))
        return folder

    first, other = on_trl("a"), on_trl("b", optim="sgd", dataloader_num_workers=2)
    alike = on_trl("c", 1, report_to=["tensorboard"], dataloader_num_workers=1)
    assert [(row["label"], row["runs"]) for row in compare([first, other, alike])] == [
        ("vpo", 2),
        ("vpo, engine option optim=sgd", 1),
    ]


def test_each_of_several_single_problems_counts_once_in_a_row_and_in_its_difference(made):
    """The row averaged over runs: it said +0.036 where the line below it said +0.000."""
    three = [made(f"a{seed}", 0.6, seed=seed) for seed in (0, 1, 2)]
    rows = compare([*three, made("b", 0.9, maze_seed=1004), made("c", 0.7, method="grpo")])
    assert rows[0]["coverage"] == pytest.approx(0.75)  # not (3 * 0.6 + 0.9) / 4
    low, high = rows[0]["interval"]["coverage"]
    assert (low + high) / 2 == pytest.approx(rows[0]["coverage"])
    assert compare(three)[0]["coverage"] == pytest.approx(0.6)


def test_a_narrow_terminal_gets_the_rows_as_columns(made):
    rows = compare([made("a", 0.8), made("b", 0.9, method="grpo")])
    wide, narrow = table(rows), table(rows, 80)
    head, rule, *lines = narrow.splitlines()
    assert head.split() == ["method", "vpo", "grpo"] and set(rule) == {"-"}
    assert len({len(line) for line in (head, rule, *lines)}) == 1 and len(head) <= 80
    cells = [re.split(r" {2,}", line) for line in (head, *lines)]
    turned = [re.split(r" {2,}", line) for line in wide.splitlines() if set(line) != {"-"}]
    assert list(map(list, zip(*cells, strict=True))) == turned
    assert table(rows, 200) == table(rows, 20) == wide  # the table fits; the columns would not


def test_seeds_on_one_maze_are_repetitions_and_other_settings_other_kinds(made):
    rows = compare(
        [made("a", 0.8), made("b", 0.9, seed=1), made("c", 0.7, alpha=0.1), made("d", 0.6, m=5)]
    )
    assert [(r["label"], r["runs"], r["problems"]) for r in rows] == [
        ("vpo, m=3, alpha=1.0", 2, 1),
        ("vpo, m=3, alpha=0.1", 1, 1),
        ("vpo, m=5, alpha=1.0", 1, 1),
    ]
    wide = ONE_DEGREE * 0.05  # two runs: their standard error is half of their distance
    assert rows[0]["interval"]["coverage"] == pytest.approx((0.85 - wide, 0.85 + wide))
    assert [row["per_run"]["coverage"] for row in rows] == [[0.8, 0.9], [0.7], [0.6]]
    assert rows[0]["coverage"] == pytest.approx(0.85)
    # Both borrow the spread of row a: s² = 0.005 for c's one run, half of that for a's two.
    half = ONE_DEGREE * 0.0075**0.5
    assert rows[1]["ahead"]["coverage"] == pytest.approx((0.15, 0.15 - half, 0.15 + half))
    lines = differences(rows)
    assert "the 95 % interval over seeds, on this one problem alone. Where one of two" in lines[1]
    assert (
        "coverage of each run: vpo, m=3, alpha=1.0 0.800, 0.900; vpo, m=3, alpha=0.1 0.700"
        in (lines[2])
    )
    assert lines[-2:] == [
        "vpo, m=3, alpha=1.0 - vpo, m=3, alpha=0.1: set rewards are not compared; "
        "alpha is 1 and 0.1 (cure: vpo-lite evaluate --alpha)",
        "vpo, m=3, alpha=1.0 - vpo, m=5, alpha=1.0: sets are not compared; "
        "they hold 3 and 5 answers",
    ]


def test_one_run_each_on_one_maze_has_no_interval(made):
    rows = compare([made("a", 0.8), made("b", 0.9, method="grpo")])
    assert rows[0]["interval"]["coverage"] is None and rows[1]["ahead"] == {}
    assert differences(rows) == [
        "vpo - grpo: no interval, since it takes several problems, or several seeds on one"
    ]
    mazes = [made("c", 0.7, maze_seed=1004), made("d", 0.5, maze_seed=1004, seed=1)]
    assert compare([mazes[0], *rows[0]["folders"]])[0]["per_run"] == {}  # by maze, not by seed
    seeds = compare([*mazes, *rows[0]["folders"]])[0]
    assert (seeds["per_run"], seeds["problems"], seeds["runs"]) == ({}, 2, 3)


@pytest.mark.parametrize(("lead", "said"), [(0.06, True), (0.08, False), (-0.06, True)])
def test_a_lead_that_the_weights_of_any_at_k_may_make_is_told(lead, said):
    """Specialists of one objective each are equal, and any@3 calls one of them better."""
    weights = vpo.metrics.preferences(2)
    one, other = (
        vpo.best_at_k(weights @ (0.2 + 0.8 * np.eye(2)[[i] * 3]).T, 3).mean() for i in (0, 1)
    )
    assert 0.05 < abs(one - other) < UNEVEN
    row = dict(label="vpo", ahead={}, other_problems=[], set=3, problems=9, alpha=1.0, runs=1)
    row |= dict(any_at_k={"3": 0.5}, per_run={"any@3": [0.5]}, best_at_k={"3": 0.5})
    ahead = row | dict(label="grpo", ahead={"any@3": (lead, lead - 0.01, lead + 0.01)})
    told = differences([row, ahead])
    assert any("any@3 is over 50 weights" in line for line in told) == said
    unsure = row | dict(label="grpo", ahead={"any@3": (lead, lead - 0.2, lead + 0.2)})
    assert not any("50 weights" in line for line in differences([row, unsure]))


def test_the_first_kind_is_ahead_by_the_differences_problem_by_problem(made):
    """0.2, 0.1 and 0.1: the standard error is 1/30, and Student's t has two degrees."""
    mine = {1003: 0.8, 1004: 0.9, 1005: 0.7}
    other = {1005: 0.6, 1003: 0.6, 1004: 0.8}  # in another order
    folders = [
        *(made(f"vpo{s}", x, maze_seed=s) for s, x in mine.items()),
        *(made(f"grpo{s}", x, maze_seed=s, method="grpo", alpha=0.1) for s, x in other.items()),
        made("elsewhere", 0.5, method="gdpo", maze_seed=1006),
    ]
    vpo_row, grpo_row, far = rows = compare(folders)
    assert vpo_row["ahead"] == far["ahead"] == {}
    wide = student.ppf(0.975, 2) / 30
    assert grpo_row["ahead"]["coverage"] == pytest.approx((0.4 / 3, 0.4 / 3 - wide, 0.4 / 3 + wide))
    assert "set_reward" not in grpo_row["ahead"]  # of another alpha
    first, note, seeds, alpha, _ = differences(rows)
    assert first == "vpo - grpo: coverage +0.133 (-0.010 to +0.277)"
    assert alpha.startswith("vpo - grpo: set rewards are not compared; alpha is 1 and 0.1 (")
    assert "same 3 problems" in note and seeds.endswith("how seeds differ: train several.")
    assert differences(rows[:1]) == []
    assert differences([vpo_row, far]) == [
        "vpo - gdpo: not compared; their problems differ in maze_seed"
    ]


def test_an_interval_holds_the_chance_of_seeds_where_a_row_has_several_runs(made):
    """Every problem is 0.1 to 0.3 higher in VPO by run, so the means of runs decide: Welch's t."""

    def runs(method, levels):
        for seed, level in enumerate(levels):
            folder = made(f"{method}{seed}", level, method=method, maze_seed=None, seed=seed)
            summary = json.loads((folder / "summary.json").read_text())
            values = [level - 0.1, level, level + 0.1]
            summary["per_problem"] = alike([0.5] * 3) | {"coverage": values}
            (folder / "summary.json").write_text(json.dumps(summary))
            yield folder

    means = {"vpo": [0.8, 0.9, 0.85], "grpo": [0.6, 0.65, 0.7, 0.75], "gdpo": [0.7]}
    vpo_runs, grpo_runs, gdpo_run = (
        list(runs(method, means[method])) for method in ("vpo", "grpo", "gdpo")
    )
    rows = compare([*vpo_runs, *grpo_runs])
    assert [row["per_run"]["coverage"] for row in rows] == [
        pytest.approx(means[name]) for name in ("vpo", "grpo")
    ]
    wanted = ttest_ind(means["vpo"], means["grpo"], equal_var=False).confidence_interval(0.95)
    assert rows[1]["ahead"]["coverage"] == pytest.approx((0.175, *wanted))
    gap, over, each, *_ = differences(rows)
    assert gap.startswith("vpo - grpo: coverage +0.175 (+0.0") and gap.endswith("significant)")
    assert over == "In brackets: the 95 % interval over the same 3 problems, and over seeds."
    assert each == (
        "coverage of each run: vpo 0.800, 0.900, 0.850; grpo 0.600, 0.650, 0.700, 0.750."
    )
    # Beside one run of GDPO both borrow what all show: (0.005 + 0.0125) / (2 + 3), for one run.
    rows = compare([gdpo_run[0], *vpo_runs, *grpo_runs])
    shared = 0.0175 / 5
    half = student.ppf(0.975, 5) * (shared * (1 + 1 / 3)) ** 0.5
    assert rows[1]["ahead"]["coverage"] == pytest.approx((-0.15, -0.15 - half, -0.15 + half))
    assert (
        "fewer than 3 runs, both borrow the spread of all rows, as if they had the same."
        in differences(rows)[2]
    )
    # Of a row's own mean: the problems, 0.1 apart, and the seeds.
    sources = [(0.01 / 3, 2), (shared, 5)]
    variance = sum(v for v, _ in sources)
    half = student.ppf(0.975, variance**2 / sum(v**2 / n for v, n in sources)) * variance**0.5
    assert rows[0]["interval"]["coverage"] == pytest.approx((0.7 - half, 0.7 + half))
    # Where no row has two runs, nothing is known of seeds, and it is said.
    rows = compare([gdpo_run[0], vpo_runs[0]])
    assert rows[1]["ahead"]["coverage"] == pytest.approx((-0.1, -0.1, -0.1))
    assert "The interval leaves out how seeds differ: train several." in differences(rows)


def several(made, name, values, **settings):
    """Runs of seeds 0, 1, .. whose per-problem set rewards are these; there is no front."""
    for seed, row in enumerate(values):
        folder = made(f"{name}{seed}", None, maze_seed=None, task="maze", seed=seed, **settings)
        summary = json.loads((folder / "summary.json").read_text())
        summary["coverage_best_single"] = None
        summary["per_problem"] = alike([0.5] * len(row))
        summary["per_problem"] |= {"coverage": [None] * len(row), "set_reward": list(row)}
        (folder / "summary.json").write_text(json.dumps(summary))
        yield folder


def test_several_seeds_without_a_front_are_compared(made):
    """A figure that no run has is none; the others stay."""
    folders = [*several(made, "a", [[0.6, 0.5]] * 3)]
    folders += several(made, "b", [[0.4, 0.4]] * 3, method="grpo")
    rows = compare(folders)
    assert rows[0]["interval"]["coverage"] is None
    assert rows[0]["per_run"]["coverage"] == [None] * 3
    wide = ONE_DEGREE * 0.05
    assert rows[1]["ahead"]["set_reward"] == pytest.approx((0.15, 0.15 - wide, 0.15 + wide))
    lines = differences(rows)
    assert "set reward of each run: vpo 0.550, 0.550, 0.550; grpo 0.400, 0.400, 0.400." in lines
    assert not any("coverage" in line for line in lines)


def test_seeds_are_borrowed_only_from_rows_on_the_same_problems(made):
    """Runs of another maze's layout would have put their spread into these intervals."""
    one = [*several(made, "a", [[0.6, 0.5, 0.7]])]
    one += several(made, "b", [[0.4, 0.4, 0.5]], method="grpo")
    alone = compare(one)[1]["ahead"]["set_reward"]
    wild = [[-9.0, 9.0, 9.0], [90.0, 90.0, 90.0], [0.0, 0.0, 0.0]]
    others = [*several(made, "c", wild, layout="tiny-4x4")]
    rows = compare([*one, *others])
    assert rows[1]["ahead"]["set_reward"] == alone and rows[2]["other_problems"] == ["layout"]
    assert compare([*others, *one])[1]["interval"] == compare(one)[0]["interval"]
    told = differences(rows)
    assert "The interval leaves out how seeds differ: train several." in told
    assert not any("of each run" in line for line in told)


def test_a_difference_without_a_spread_is_not_called_significant(made):
    folders = [*several(made, "a", [[1.0, 1.0]]), *several(made, "b", [[0.5, 0.5]], method="grpo")]
    first = differences(compare(folders))[0]
    assert first == "vpo - grpo: set reward +0.500 (+0.500 to +0.500)"


def test_how_another_program_trained_is_not_compared():
    told = [
        TrainConfig.preset("demo", steps=n, method=name) for name, n in (("vpo", 9), ("gdpo", 8))
    ]
    ours, theirs = ((config, config.to_json(), {0}) for config in told)
    assert confounders([ours, theirs])[1]["steps"] == 8
    elsewhere = theirs[1] | {"trained elsewhere": "theirs"}
    assert confounders([ours, (theirs[0], elsewhere, {0})]) == [{}, {}]


def test_what_is_no_run_is_said_in_one_line(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"steps": 1}')
    with pytest.raises(
        ValueError, match=r"neither a run folder nor what `vpo-lite evaluate --json"
    ):
        compare(file)
    for wrong in (None, 3, [3]):
        with pytest.raises(ValueError, match=r"folder = .*: expected a path"):
            compare(wrong)


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    """A shell makes the file of `evaluate --json > FILE`, and the command then fails."""
    file = tmp_path / "vpo.json"
    file.touch()
    said = f"^{re.escape(str(file))}: it is empty: the command that should have written it failed; "
    with pytest.raises(DamagedError, match=said):
        compare(file)
    file.write_text("{")
    with pytest.raises(DamagedError, match="no JSON"):
        compare(file)


def test_a_path_in_a_run_or_around_it_is_answered_with_the_run(made, tmp_path):
    run, other, neither = made("a", 0.8), made("b", 0.7), tmp_path / "neither"
    for folder in (run, other, neither):
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    for path in ("summary.json", "metrics.jsonl", "adapter-2", "no.json"):
        with pytest.raises(ValueError, match=f"; name its run: {re.escape(str(run))}$"):
            compare([other, run / path])
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ValueError, match=f"; the runs in {tmp_path}: a, b, neither$"):
            compare(path)
    with pytest.raises(ValueError, match=r"with config\.json\)$"):
        compare(tmp_path.parent / "missing" / "a")


@pytest.mark.parametrize("order", [1, -1])
def test_a_model_in_a_folder_is_compared_with_one_that_ships(made, order):
    """Of the first a digest of its tokenizer is kept, of the other none."""
    folders = [made("a", 0.8, model="/models/own"), made("b", 0.7, method="grpo")]
    config = json.loads((folders[0] / "config.json").read_text())
    config["files"] = {"tokenizer": "ab" * 32}
    (folders[0] / "config.json").write_text(json.dumps(config))
    own, shipped = compare(folders[::order])[::order]
    assert own["unequal"]["model"] == "/models/own" and "tokenizer" not in own["unequal"]
    assert shipped["unequal"]["model"] == "pocket-6x6"


def test_what_differs_between_methods_beside_the_method_is_said(made):
    """4 prompts of 16 rollouts of 3 answers in 40 steps, against single answers in two steps."""
    ours = made("a", 0.8, eval_answers=30)
    short = made("b", 0.7, method="grpo", steps=2, eval_answers=6, lr=2e-3, seed=1, K=7)
    rows = compare([ours, short])
    told = {"steps": 40, "lr": 1e-3, "eval_answers": 30, "seed": [0]}
    assert rows[0]["unequal"] == told | {"answers sampled in training": 4 * 16 * 3 * 40}
    assert in_one_line(rows) == (
        "Beside the method, these differ (vpo / grpo): steps 40 / 2; lr 0.001 / 0.002; "
        "eval_answers 30 / 6; seed 0 / 1; answers sampled in training 7,680 / 128."
    )


def test_as_many_answers_from_a_larger_group_are_not_told_apart(made):
    """Labels say it within a method; K is no setting of GRPO; alpha is, of its set reward. In steps
    of one update no clip does anything.
    """
    ours = made("a", 0.8, K=7, clip=0.1)
    many = made("b", 0.7, method="grpo", group_size=48)
    assert compare([ours, many])[1]["unequal"] == {"group_size": 48}
    few = made("c", 0.7, method="grpo", alpha=0.1)
    rows = compare([ours, many, few])
    assert [list(row["unequal"].values()) for row in rows] == [
        [1.0, 16, 7680],
        [1.0, 48, 7680],
        [0.1, 16, 2560],
    ]
    same = compare([many, few])
    assert [row["unequal"] for row in same] == [{}, {}] and in_one_line(same) == ""
    alike = compare(
        [made("d", 0.8, group_size=48), made("e", 0.8, method="multi_rlvr", group_size=47)]
    )
    assert list(alike[0]["unequal"]) == ["group_size"]  # 2 % fewer answers
    half = compare([made("f", 0.8), made("g", 0.8, method="multi_rlvr", group_size=24)])
    assert half[1]["unequal"] == {"group_size": 24, "answers sampled in training": 24 * 4 * 40 * 3}


def test_settings_that_are_texts_or_stand_in_every_label_are_told_as_they_should(made):
    falling = made("b", 0.7, method="grpo", lr_schedule="cosine", group_size=48)
    rows = compare([made("a", 0.8), falling])
    told = "lr_schedule constant / cosine"
    assert told in in_one_line(rows)
    named = [
        {"label": f"{method}, steps={steps}", "unequal": {"steps": steps, "seed": [seed]}}
        for method, steps, seed in (("vpo", 40, 0), ("grpo", 2, 1))
    ]
    labels = "vpo, steps=40 / grpo, steps=2"
    assert in_one_line(named) == f"Beside the method, these differ ({labels}): seed 0 / 1."
    named[1]["label"] = "grpo"  # its steps stand in one label alone
    assert "steps 40 / 2; seed 0 / 1." in in_one_line(named)


def test_any_at_k_is_best_at_k_for_people_who_differ():
    """Two routes, twice each. Any three of the four answers hold both: all get the better one."""
    f = figures([FRONT.routes[0], FRONT.routes[-1]] * 2, m=2)
    scores = vpo.metrics.preferences(4) @ FRONT.rewards[[0, -1]].T
    expected = {"1": scores.mean(), "3": scores.max(axis=1).mean()}
    assert f["any_at_k"] == pytest.approx(expected)
    assert expected["1"] < expected["3"]


def test_the_figures_that_decide_are_paired_by_problem_too(made):
    """any@3: 0.30 and 0.32 ahead; best@1: 0.3 and 0.1 behind; best@3 only one of them has."""
    folders = [made("a", 0.8), made("b", 0.8, maze_seed=1004)]
    folders += [made(n, 0.8, method="grpo", maze_seed=s) for n, s in (("c", 1003), ("d", 1004))]
    any_at, best_at = (0.8, 0.82, 0.5, 0.5), (0.2, 0.4, 0.5, 0.5)
    for folder, x, y in zip(folders, any_at, best_at, strict=True):
        summary = json.loads((folder / "summary.json").read_text())
        more = {"3": [0.5]} if folder.name != "d" else {}
        summary["per_problem"] |= {"any_at_k": {"3": [x]}, "best_at_k": {"1": [y]} | more}
        (folder / "summary.json").write_text(json.dumps(summary))
    rows = compare(folders)
    wide = ONE_DEGREE * 0.01
    assert rows[0]["interval"]["any@3"] == pytest.approx((0.81 - wide, 0.81 + wide))
    assert rows[1]["ahead"]["any@3"] == pytest.approx((0.31, 0.31 - wide, 0.31 + wide))
    assert "best@3" not in rows[1]["ahead"]
    assert differences(rows)[:3] == [
        "vpo - grpo: coverage equal on all problems",
        "vpo - grpo: any@3 +0.310 (+0.183 to +0.437, significant)",
        "vpo - grpo: best@1 -0.200 (-1.471 to +1.071)",
    ]


def test_without_a_front_sets_are_compared_by_their_reward(made):
    folders = [made("a", None), made("b", None, maze_seed=1004)]
    folders += [made("c", None, method="grpo"), made("d", None, method="grpo", maze_seed=1004)]
    for folder, reward in zip(folders, (0.5, 0.6, 0.4, 0.8), strict=True):
        summary = json.loads((folder / "summary.json").read_text())
        summary |= {"set_reward": reward, "coverage_best_single": None}
        summary["per_problem"]["set_reward"] = [reward]
        (folder / "summary.json").write_text(json.dumps(summary))
    rows = compare(folders)
    before = rows[0]["start"]["set_reward"]
    assert rows[1]["ahead"]["set_reward"] == pytest.approx(
        (-0.05, -0.05 - ONE_DEGREE * 0.15, -0.05 + ONE_DEGREE * 0.15)
    )
    first, _, note = differences(rows)
    assert first == "vpo - grpo: set reward -0.050 (-1.956 to +1.856)"
    assert note.endswith("how seeds differ.")
    text = table(rows)
    assert f"{before:.3f} > 0.550" in text
    assert "coverage" not in text and "one answer" not in text


def test_data_counts_by_its_content_when_a_run_began(made, tmp_path):
    """Moved data is the same data. Data that was edited is other data, under the same path, too."""
    data, moved = tmp_path / "rows.jsonl", tmp_path / "elsewhere" / "rows.jsonl"
    data.write_text('{"prompt": "Name a prime."}\n' * 2)
    moved.parent.mkdir()
    moved.write_bytes(data.read_bytes())
    given = dict(task="functions", model="some/model")
    given |= dict(reward_funcs="vpo_lite.tasks.example_rewards:small,many_divisors")
    folders = [made("a", 0.8, **given, data=data), made("b", 0.9, seed=1, **given, data=moved)]
    before = hashlib.sha256(data.read_bytes()).hexdigest()[:8]
    data.write_text('{"prompt": "Name an odd number."}\n' * 2)
    now = hashlib.sha256(data.read_bytes()).hexdigest()[:8]
    folders += [made("c", 0.7, **given, data=data), made("d", 0.7, maze_seed=None, task="maze")]
    rows = compare(folders)
    assert [(row["runs"], row["other_problems"]) for row in rows] == [
        (2, []),
        (1, ["data"]),
        (1, ["task"]),
    ]
    assert rows[1]["ahead"] == rows[2]["ahead"] == {}
    rows = compare(folders[:3])
    named = [f"vpo, data=rows.jsonl {digest}" for digest in (before, now)]
    assert [row["label"] for row in rows] == named
    said = f"{named[0]} - {named[1]}: not compared; their problems differ in data"
    assert differences(rows) == [said]


def test_what_an_evaluation_printed_stands_for_its_run(made, tmp_path):
    """On three problems instead of one, and at one alpha for runs that trained at two."""
    alphas = {"a": 0.1, "b": 1.0}
    many = dict(maze_seed=None, task="maze")
    runs = {name: made(name, 0.1, alpha=alpha, **many) for name, alpha in alphas.items()}

    def measured(name, values, **how):
        summary = json.loads((runs[name] / "summary.json").read_text())
        figures = {n: v for n, v in summary.items() if n not in ("start", "tokens")}
        figures["per_problem"] = alike([0.5] * len(values))
        figures["per_problem"] |= {"coverage": values, "set_reward": values}
        figures |= {"set_reward": sum(values) / len(values), "coverage": 0.7, "answers": 60}
        settings = hashlib.sha256((runs[name] / "config.json").read_bytes()).hexdigest()
        told = {"run": str(runs[name]), "alpha": alphas[name], "seed": 0, "files": {}, **figures}
        told |= {"adapter": None, "settings": settings}
        file = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps(told | how))
        return file

    first, second = [0.5, 0.7, 0.6], [0.4, 0.7, 0.4]
    at_own = [measured("a", first), measured("b", second)]
    rows = compare(at_own)
    assert [row["alpha"] for row in rows] == [0.1, 1.0] and "set_reward" not in rows[1]["ahead"]
    at_one = [measured("a", first, alpha=1.0), measured("b", second)]
    rows = compare(at_one)
    assert [row["label"] for row in rows] == [
        "vpo, alpha=0.1, judged at alpha=1.0",
        "vpo, alpha=1.0",
    ]
    wide = student.ppf(0.975, 2) / 30 * 3**0.5  # differences 0.1, 0.0, 0.2
    assert rows[1]["ahead"]["set_reward"] == pytest.approx((0.1, 0.1 - wide, 0.1 + wide))
    assert [row["problems"] for row in rows] == [3, 3] and rows[0]["alpha"] == rows[1]["alpha"] == 1
    assert rows[0]["folders"] == [str(runs["a"])] and rows[0]["start"] is None
    assert rows[0]["coverage"] == 0.7 and "0.700" in table(rows) and ">" not in table(rows)
    # An adapter of the run is another kind; so is what was scored by other code or on other data.
    rows = compare([measured("b", first, adapter="/adapter-20"), at_one[1]])
    assert [(row["label"], row["runs"]) for row in rows] == [
        ("vpo, adapter=/adapter-20", 1),
        ("vpo", 1),
    ]
    assert [row["tokens"] for row in rows] == [None, 1_000]
    # So is what was sampled at another temperature.
    rows = compare([measured("b", first, temperature=0.6), at_one[1]])
    told = ["vpo, sampled at temperature=0.6", "vpo"]
    assert [row["label"] for row in rows] == told and temperatures(rows) == "temperatures 0.6 and 1"
    inside = measured("b", first, adapter=str(runs["b"] / "adapter-20"))
    assert (
        compare([inside])[0]["label"] == "vpo"
        and "adapter=adapter-20" in (compare([inside, at_one[1]])[0]["label"])
    )
    rows = compare([measured("b", first, files={"task": "1" * 64}), at_one[1]])
    assert [row["runs"] for row in rows] == [1, 1]
    other = measured("b", first, settings="0" * 64)
    with pytest.raises(ValueError, match=r"b has changed since: measure it again"):
        compare([other])
    for files in ([at_one[0], at_one[0]], [at_one[1], at_own[1]]):
        with pytest.raises(ValueError, match=r"given twice|the same run as"):
            compare(files)
    with pytest.raises(DamagedError, match=r"\.json: field coverage is missing"):
        compare([_without(at_one[0], "coverage")])
    with pytest.raises(ValueError, match=r"a\d+\.json: .*: no run folder"):
        compare([measured("a", first, run=str(tmp_path / "gone"))])
    with pytest.raises(ValueError, match=r"json: eval_answers = 2 with sets of 3"):
        compare([measured("a", first, answers=2)])


def _without(file, name):
    """The file without a field."""
    kept = {n: v for n, v in json.loads(file.read_text()).items() if n != name}
    file.write_text(json.dumps(kept))
    return file


def test_an_evaluation_tells_how_sure_its_figures_are():
    values = [0.3, 0.5, 0.4, 0.7]
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    per_problem = {"coverage": [None] * 4, "set_reward": values, "valid_rate": [1.0] * 4}
    per_problem |= {"any_at_k": {"1": [0.1] * 4, "30": values}, "best_at_k": {"1": [0.5] * 4}}
    span = f"0.475 ({low:.3f} to {high:.3f})"
    assert intervals({"per_problem": per_problem}) == (
        f"In brackets the 95 % interval over 4 problems: set reward {span}, any@30 {span}, "
        "best@1 0.500 (0.500 to 0.500)."
    )
    assert intervals({"per_problem": {"coverage": [0.5], "set_reward": [0.5]}}) == ""


def test_a_base_model_counts_by_its_content(made):
    """Its folder may hold other parameters later. A run whose adapter was removed is taken to be of
    the only base model of that name, if there is only one.
    """
    given = dict(model="some/model", task="programs")
    folders = [made(name, 0.8, seed=i, **given) for i, name in enumerate("abcd")]

    def card(folder, fingerprint):
        (folder / "adapter").mkdir()
        content = {"base": "some/model", "fingerprint": fingerprint}
        (folder / "adapter" / "policy.json").write_text(json.dumps(content))

    card(folders[0], "1" * 32)
    assert [row["runs"] for row in compare(folders)] == [4]
    card(folders[1], "2" * 32)
    rows = compare(folders)
    contents = [", content of model=11111111", ", content of model=22222222", ""]
    assert [(row["label"], row["runs"]) for row in rows] == [
        (f"vpo{content}", runs) for content, runs in zip(contents, (1, 1, 2), strict=True)
    ]
    assert all(row["unequal"] == {} and row["other_problems"] == [] for row in rows)
    other = made("e", 0.7, method="grpo", **given)
    card(other, "2" * 32)
    said = in_one_line(compare([folders[0], other]))
    assert "content of model 11111111 / 22222222" in said


def test_runs_measured_on_unequally_many_problems_are_not_compared_and_it_is_said(made):
    """How many were measured counts, not how that was asked for."""
    many = dict(maze_seed=None, task="maze")
    folders = [
        made("a", 0.8, **many),
        made("b", 0.9, eval_problems=1, eval_answers=30, seed=1, **many),
    ]
    folders += [made("c", 0.5, eval_problems=2, **many)]
    summary = json.loads((folders[2] / "summary.json").read_text())
    summary["per_problem"] = alike([0.5] * 2)
    (folders[2] / "summary.json").write_text(json.dumps(summary))
    rows = compare(folders)
    assert [(row["label"], row["runs"]) for row in rows] == [
        ("vpo, eval_problems=1", 2),
        ("vpo, eval_problems=2", 1),
    ]
    assert differences(rows) == [
        "vpo, eval_problems=1 - vpo, eval_problems=2: not compared; "
        "their problems differ in eval_problems"
    ]


def test_the_size_of_a_set_makes_a_kind_where_answers_are_written_alone(made):
    """It says how a policy of single answers is measured. A set of VPO is its rollout."""
    sizes = [(f"{method}{n}", method, n) for method in ("grpo", "vpo") for n in (3, 5)]
    folders = [made(name, 0.5, method=m, set_size=n, seed=n) for name, m, n in sizes]
    assert [(row["label"], row["set"], row["runs"]) for row in compare(folders)] == [
        ("grpo, set_size=3", 3, 1),
        ("grpo, set_size=5", 5, 1),
        ("vpo", 3, 2),
    ]


def test_two_modes_of_a_task_are_other_problems(made):
    """It raised AttributeError: a mode was asked for the options of the other one."""
    folders = [made(mode, 0.5, task="programs", mode=mode) for mode in ("single", "conflict")]
    for one, other in (folders, folders[::-1]):
        rows = compare([one, other])
        assert [row["other_problems"] for row in rows] == [[], ["mode"]] and not rows[1]["ahead"]
        assert differences(rows)[0].endswith(": not compared; their problems differ in mode")


def test_compare_refuses_what_is_no_run_and_what_is_given_twice(made):
    folder = made("a", 0.8)
    with pytest.raises(ValueError, match="given twice"):
        compare([folder, folder])
    with pytest.raises(ValueError, match="at least one"):
        compare([])
    for text in ("{}", "[]", "{", '{"start": {}}'):
        (folder / "summary.json").write_text(text)
        with pytest.raises(DamagedError, match=r"summary\.json: (it|field|no JSON)"):
            compare([folder])
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json: it should be an object"):
        compare([folder])


@pytest.mark.slow
def test_evaluation_is_at_temperature_one_and_every_goal_gets_its_own_prompt(
    tiny_policy_folder, monkeypatch
):
    policy = load_policy(tiny_policy_folder, device="cpu")
    config = TrainConfig.preset(
        "demo", model=str(tiny_policy_folder), maze_seed=1000, max_new_tokens=12
    )
    assert evaluate(policy, config, answers=6) == evaluate(
        policy, config.but(temperature=2.0), answers=6
    )
    prompts = []
    sample = type(policy).sample
    monkeypatch.setattr(
        type(policy),
        "sample",
        lambda self, p, u, *t, **k: (
            prompts.append([x.symbols for x in p]) or sample(self, p, u, *t, **k)
        ),
    )
    for alpha in (0.05, 50.0):
        evaluate(policy, config.but(method="goal_conditioned", alpha=alpha), answers=6)
    sharp, flat = (
        [max(int(w) for w in re.findall(r"<w(\d+)>", p)) for p in batch] for batch in prompts
    )
    assert len(prompts[0]) == 6 and len(set(prompts[0])) > 1
    assert (
        np.mean(sharp) > 7 and max(flat) <= 5
    )  # small alpha: one objective each; large: all alike


@pytest.mark.slow
def test_a_rollout_ends_where_its_own_problem_says_whoever_else_is_sampled(tiny_policy_folder):
    """A policy that never ends writes on to its limit. Beside a larger maze it wrote further, so
    its last answer could count or not.
    """
    config = TrainConfig.preset("demo", model=str(tiny_policy_folder))
    policy = load_policy(tiny_policy_folder, device="cpu")
    mazes = sorted((envs.generate("lite-6x6", s) for s in range(12)), key=lambda z: z.budget)
    small, large = mazes[0], mazes[-1]
    alone, (beside, other) = (
        list(sample_pools(policy, TASK, config, those, 30, 0))
        for those in ([small], [small, large])
    )
    assert alone[0].texts == beside.texts and (alone[0].truncated == beside.truncated).all()
    assert np.array_equal(alone[0].rewards, beside.rewards)
    assert alone[0].truncated.any() and other.tokens.max() > alone[0].tokens.max()
    limits = [TASK.max_tokens(maze, config.answers, policy.pocket) for maze in (small, large)]
    assert alone[0].tokens.max() == limits[0] < other.tokens.max() == limits[1]


@pytest.mark.slow
@pytest.mark.parametrize("module", [step, evolution, tree])
def test_training_and_searches_ask_for_so_many_tokens_as_each_problem_may_need(module, monkeypatch):
    """Not as many as the largest of a batch."""
    policy, seen, usual = load_policy("pocket-6x6", device="cpu"), [], module.draw_uniforms
    monkeypatch.setattr(
        module,
        "draw_uniforms",
        lambda n, limits, keys: seen.append(limits) or usual(n, limits, keys),
    )
    config = TrainConfig.preset("demo", prompts=4, group_size=2, m=2, device="cpu")
    mazes, m = problems_of_step(TASK, config.seed, 0, 4), 2
    if module is step:
        train_step(Learner(config, policy=policy, task=TASK), config, 0)
    elif module is evolution:
        evolution.evolve(policy, TASK, mazes, m=m, calls=1, seed=0)
    else:
        m = 1  # the token limit of one route more
        tree.beam(policy, TASK, mazes, m=1, width=1, branches=2)
    limits = [TASK.max_tokens(maze, m, policy.pocket) for maze in mazes]
    assert seen[0] == limits and len(set(limits)) > 1


def test_one_problem_in_the_place_of_a_list_is_refused(tiny_policy_folder):
    config = TrainConfig.preset("demo", model=str(tiny_policy_folder))
    policy = load_policy(tiny_policy_folder, device="cpu")
    with pytest.raises(ValueError, match=r"expected a list of problems; \[x\] for one problem x"):
        next(sample_pools(policy, TASK, config, MAZE, 3, 0))


@pytest.mark.parametrize(
    ("pocket", "said"),
    [
        ({"task": "hops"}, "this policy was made for task 'hops', not for 'maze'; name another"),
        ({"task": "maze", "answers": 2}, "m = 3: this policy writes 1 to 2 answers"),
    ],
)
def test_a_policy_that_does_not_fit_the_task_is_refused_as_training_refuses_it(pocket, said):
    """It had no token for a part of the request, and the task was blamed."""
    policy = SimpleNamespace(sample=print, pocket=pocket)
    with pytest.raises(ValueError, match=said):
        evaluate(policy, TrainConfig(m=3), problems=1, answers=3, task=TASK)
    with pytest.raises(ValueError, match=said):
        sample_pools(policy, TASK, TrainConfig(m=3), [MAZE], 3, 0)


def test_repeats_beyond_the_cut_do_not_count():
    best, other = FRONT.routes[:2]
    answers = [
        best,
        other,
        "UU",
        None,
        best,
        None,
        None,
        best,
    ]  # the only repeat is the eighth answer
    config = TrainConfig.preset("demo", m=4, maze_seed=1003)
    assert pool_figures(TASK, config, pool(answers, 4), 8)["repeat_rate"] == 1 / 8
    assert pool_figures(TASK, config, pool(answers, 4), 6)["repeat_rate"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("problems", [2, 3, 10, 64])
def test_of_runs_that_are_alike_one_line_in_twenty_is_called_significant(problems):
    """On few problems, too: a percentile bootstrap over two calls half of them so."""
    gaps = np.random.default_rng(0).normal(0, 0.1, (1000, problems))
    wrong = np.mean([low > 0 or high < 0 for low, high in map(problem_interval, gaps)])
    assert 0.03 < wrong < 0.07
    wanted = ttest_1samp(gaps[0], 0).confidence_interval(0.95)
    assert problem_interval(gaps[0]) == pytest.approx(tuple(wanted), rel=1e-9)
    assert problem_interval([0.25]) is problem_interval([0.5, None, 0.4]) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *((dict(answers=n), f"answers = {n!r}: must be 1 to 2,000") for n in (0, -1, 1.5, 2_001)),
        (dict(answers=float("nan")), "answers = nan: must be 1 to 2,000"),
        (dict(answers="x"), "answers = 'x': must be 1 to 2,000"),
        (dict(instances=[]), "instances = []: give at least one problem"),
        (dict(instances=[3]), "instances[0] = 3: expected a problem; give task.instance(3)"),
        (dict(seed=-1), "seed = -1: must be a whole number, 0 or more"),
        (dict(seed=None), "seed = None: must be a whole number, 0 or more"),
        (dict(config="demo"), "config = 'demo': expected a TrainConfig"),
        (dict(task="maze"), "task = 'maze': expected a Task object"),
    ],
)
def test_a_search_of_ones_own_is_refused_before_its_first_pool(wrong, said):
    """Not when the first pool is asked for: that may be far from the call."""
    policy = SimpleNamespace(sample=print, pocket={"task": "maze", "board": 6, "budget": 60})
    right = dict(policy=policy, task=TASK, config=TrainConfig(), instances=[MAZE])
    with pytest.raises(ValueError) as caught:
        sample_pools(**right | dict(answers=3, seed=0) | wrong)
    assert str(caught.value) == said


class Wrapped(Task):
    """Problems 0, 1, 1, 2, 2, 2, ...: the n-th is there n + 1 times."""

    all_differ = True  # as a class that is made from one of ours inherits it
    seeds = MappingProxyType({"train": range(5), "held_out": np.arange(40)})

    def instance(self, seed):
        return int((np.sqrt(8 * seed + 1) - 1) / 2)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, [0]),
        (2, [0, 1]),
        (4, [0, 1, 3, 6]),
        (8, [0, 1, 3, 6, 10, 15, 21, 28]),  # the first 32 seeds hold eight problems
        (9, [0, 1, 3, 6, 10, 15, 21, 28]),  # the first 36 hold no more: 36 begins the ninth
        (None, [0, 1, 3, 6, 10, 15, 21, 28, 36]),
    ],
)
def test_a_problem_is_measured_once_however_often_it_is_held_out(wanted, found):
    """Of each problem the first seed, as many as asked for, out of four times as many seeds."""
    assert held_out_seeds(Wrapped(), wanted) == found


OURS = [(name, {}) for name in ("maze", "programs", "calls", "hops", "chains")]
OURS += [("maze", {"layout": name}) for name in ("hard-8x8", "paper-9x9")]
OURS += [("programs", {"mode": "single"}), ("chains", {"uncertain": 1})]  # those with fewest


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OURS)
def test_no_problem_of_ours_is_held_out_twice_or_trained_on(name, options):
    """So `train` need not look. Stored figures are of the first held-out seeds."""
    assert {*task_names()} - {"functions"} == {"maze", "programs", "calls", "hops", "chains"}
    task = task_class(name)(**options)
    assert task.all_differ and [*held_out_seeds(task, 200)] == [*range(200)]
    key = {
        split: [task.key(task.instance(s)) for s in task.seeds[split][:400]]
        for split in ("held_out", "train")
    }
    assert len({*key["held_out"], *key["train"]}) == 800


@pytest.mark.slow
def test_a_tiny_maze_is_measured_once_and_said_to_be_trained_on(capsys):
    """Few mazes fit into four squares by four: of 200 held-out seeds four repeat a maze, and many
    give one that is trained on.
    """
    task = task_class("maze")(layout="tiny-4x4")
    seeds = held_out_seeds(task, 200)
    assert len({task.key(task.instance(seed)) for seed in seeds}) == 200 < seeds[-1]
    warn_of_held_out(task, 200)
    said = capsys.readouterr().err
    assert "of the 200 held-out mazes that are measured are trained on, too" in said
    assert said.startswith("vpo-lite: at least "), "of 990,000 training seeds a second sees few"
