"""What an objective asks for, and how a run is judged: against brute force and closed forms."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import envs
from vpo_lite import metrics
from vpo_lite.exact import exact_set_reward
from vpo_lite.lab import Lab, judging
from vpo_lite.lab.judging import Sets, agreement, best_of_k, coverages, target, whole
from vpo_lite.lab.showing import ROUTES, Showing
from vpo_lite.objective import sample_weights

ALPHAS = (0.1, 1.0, 10.0)
FRONT = np.array([[1, 0], [0, 1], [0.6, 0.6]])


@pytest.fixture(scope="module")
def recording():
    return Lab.replay("three_methods/seed-0")


def pool(n=12, d=3, seed=0):
    """Distinct reward vectors and how many answers earned each."""
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.integers(1, 5, n)


# --- target ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_target_is_the_best_of_all_subsets(m, alpha):
    front = envs.generate("lite-6x6", 1233).pareto_front().rewards
    found = target(front, m, alpha)
    values = {
        chosen: float(exact_set_reward(front[list(chosen)], alpha))
        for chosen in itertools.combinations(range(len(front)), m)
    }
    slack = 1e-9 if alpha == 1 else 2e-3  # exact there, else over points
    assert values[found.best] == pytest.approx(max(values.values()), abs=slack)
    most = float(exact_set_reward(front, alpha))
    for size, ceiling in enumerate(found.ceilings, start=1):
        subsets = itertools.combinations(range(len(front)), size)
        best = max(float(exact_set_reward(front[list(s)], alpha)) for s in subsets)
        assert ceiling == pytest.approx(best / most, abs=slack)
    assert len(found.ceilings) == m


def test_target_of_one_answer_is_the_best_mean_at_every_alpha():
    for alpha in ALPHAS:
        assert target(FRONT, 1, alpha).best == (2,)


def test_target_holds_no_more_than_the_front_and_its_ceilings_end_at_one():
    found = target(FRONT, 5, 1.0)
    assert found.best == (0, 1, 2) and len(found.ceilings) == 5
    assert found.ceilings[2:] == pytest.approx([1, 1, 1])
    assert list(found.ceilings) == sorted(found.ceilings)


# --- sets and coverage ----------------------------------------------------------------------------


def test_sets_keep_what_was_written_whatever_its_order():
    a, b, c = FRONT
    sets = Sets.of(FRONT, np.array([[a, b], [b, a], [c, c], [a, b], [a, c]]))
    held = {
        tuple(sorted(map(tuple, rewards.tolist()))): int(n)
        for rewards, n in zip(sets.rewards, sets.counts, strict=True)
    }
    assert held == {((0, 1), (1, 0)): 3, ((0.6, 0.6), (0.6, 0.6)): 1, ((0.6, 0.6), (1, 0)): 1}
    assert sets.counts.sum() == 5 and sets.front is FRONT


def test_coverages_are_means_over_sets_then_over_problems():
    a, b, c = FRONT
    other = np.array([[1.0, 0.5]])
    first = Sets.of(FRONT, np.array([[a, b], [c, c]]))
    second = Sets.of(other, np.array([[[1.0, 0.5], [0.0, 0.0]], [[0.5, 0.25], [0.5, 0.25]]]))
    on_first = (0.75 + 0.6) / 2 / float(exact_set_reward(FRONT, 1.0))  # E max(w, 1 - w) = 3/4
    on_second = (1 + 0.5) / 2
    found = coverages([[first], [second], [first, second]], 1.0)
    # the front's own value comes from POINTS Sobol points where it has no closed form
    assert found == pytest.approx([on_first, on_second, (on_first + on_second) / 2], abs=1e-4)


def test_coverage_is_unknown_where_one_front_is():
    known, unknown = Sets.of(FRONT, FRONT[None]), Sets.of(None, FRONT[None])
    assert coverages([[known], [unknown], [known, unknown]], 1.0) == [pytest.approx(1), None, None]
    assert coverages([], 1.0) == []


@pytest.mark.slow
def test_coverages_at_alpha_one_are_those_of_the_records(recording):
    for run in recording.runs.values():
        found = coverages([moment.sets for moment in run.moments], 1.0)
        said = [record.coverage for record in run.records]
        assert found == pytest.approx(said, abs=1e-4), run.method
        assert run.coverages(1.0) == said


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_coverages_at_another_alpha_are_those_of_every_single_set(recording, alpha):
    run = recording.runs["multi_rlvr"]
    record, moment = run.records[4], run.moments[4]
    front = recording.maze.pareto_front().rewards
    judged = [
        metrics.coverage(metrics.as_sets(group.rewards, 3), front, alpha) for group in record.groups
    ]
    assert coverages([moment.sets], alpha)[0] == pytest.approx(np.mean(judged), abs=1e-3)
    assert run.coverages(alpha)[4] != pytest.approx(record.coverage, abs=1e-3)


# --- search ---------------------------------------------------------------------------------------


def test_the_best_of_one_is_the_mean_of_the_pool_under_uniform_weights():
    points, counts = pool()
    mean = (points.mean(axis=1) * counts).sum() / counts.sum()
    for alpha in ALPHAS:
        assert best_of_k(points, counts, alpha)[1] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_best_of_all_is_the_exact_value_of_the_pool(alpha):
    points, _ = pool(n=20)
    found = best_of_k(points, np.ones(20, dtype=int), alpha)
    assert max(found) == 20
    assert found[20] == pytest.approx(float(exact_set_reward(points, alpha)), abs=0.01)
    assert found[20] == pytest.approx(whole(points, alpha), abs=1e-9)


def test_the_best_of_k_is_a_mean_over_all_subsets_and_grows():
    points = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [0.2, 0.1]])
    counts = np.array([2, 1, 1, 1])
    found = best_of_k(points, counts, 1.0)
    answers = np.repeat(points, counts, axis=0)
    for k in (1, 2, 3, 5):
        subsets = itertools.combinations(range(5), k)
        values = [float(exact_set_reward(answers[list(s)], 1.0)) for s in subsets]
        assert found[k] == pytest.approx(np.mean(values), abs=0.01)
    assert list(found) == [1, 2, 3, 5]  # not more than the pool holds
    assert list(found.values()) == sorted(found.values())


def test_a_search_never_finds_more_than_the_front_holds(recording):
    for run in recording.runs.values():
        front = run.moment.problem.front
        for alpha in ALPHAS:
            found = run.moment.search(alpha)
            assert max(found.values()) <= whole(front, alpha) + 1e-9


# --- agreement ------------------------------------------------------------------------------------


def test_agreement_rises_with_K_and_is_one_without_sampling():
    R = np.random.default_rng(0).random((12, 3, 4))
    found = [agreement(R, K, 1.0) for K in (1, 4, 16, 64, 256)]
    assert found == sorted(found) and found[0] < 0.9 < found[-1] < 1
    assert agreement(R, math.inf, 1.0) == 1.0


def test_the_agreement_draws_fewer_times_where_K_is_large(monkeypatch):
    drawn = []

    def draw(K, *given, **how):
        drawn.append(K)
        return sample_weights(K, *given, **how)

    monkeypatch.setattr(judging, "sample_weights", draw)
    R = np.random.default_rng(0).random((8, 3, 2))
    for K, times in ((64, 16), (10**6, 1)):
        found = agreement(R, K, 1.25)
        assert (drawn, found == pytest.approx(1, abs=1e-4)) == ([K] * times, K > 64)
        drawn.clear()


def test_agreement_is_unknown_where_all_sets_are_worth_the_same():
    assert agreement(np.full((4, 2, 3), 0.5), 16, 1.0) is None
    assert agreement(np.array([[[1.0, 0], [0, 1]], [[0, 1.0], [1, 0]]]), math.inf, 1.0) is None
    R = np.array([[[1.0, 0, 0], [0, 1, 1], [0, 1, 1]]] * 2)
    R[1, 2] = 0.25  # below the mean of the other two, so it is never the best
    assert agreement(R, 16, 2.0) is None


# --- showing --------------------------------------------------------------------------------------


def test_showing_refuses_what_it_does_not_know_in_one_line():
    for changes, piece in (
        ({"routes": "lava"}, "answers, best set, front"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": "high"}, "alpha"),
        ({"colour": "red"}, "'colour'"),
    ):
        with pytest.raises(ValueError, match=piece) as caught:
            Showing().but(**changes)
        assert "\n" not in str(caught.value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Showing().routes = "front"


def test_show_changes_what_is_drawn_and_nothing_else():
    lab = Lab(("vpo", "grpo"))
    settings, code = lab.settings, lab.share()
    for routes in ROUTES:
        lab.show(routes=routes)
        assert lab.view().showing == Showing(routes=routes)
    lab.show(alpha=0.3)
    assert lab.view().showing == Showing("front", 0.3)
    assert lab.view().judged_at == 0.3 and lab.config.alpha == 1
    assert lab.settings is settings and lab.share() == code


def test_a_refused_show_changes_nothing():
    lab = Lab()
    before = lab.view()
    with pytest.raises(ValueError, match="unknown routes"):
        lab.show(alpha=0.3, routes="lava")
    after = lab.view()
    assert (after.showing, after.version) == (before.showing, before.version)


@pytest.mark.slow
def test_coverage_is_judged_at_the_alpha_of_now_or_at_the_one_chosen(recording):
    lab = Lab.replay("three_methods/seed-0")
    front = lab.maze.pareto_front().rewards
    lab.change(alpha=0.1)
    expected = metrics.price_of_conflict(front, (1, 2, 3), 0.1)
    assert lab.view().ceilings == pytest.approx(list(expected.values()), abs=2e-3)
    lab.show(alpha=1.0)
    expected = metrics.price_of_conflict(front, (1, 2, 3), 1.0)
    assert lab.view().ceilings == pytest.approx(list(expected.values()))
    assert lab.view().judged_at == 1.0
