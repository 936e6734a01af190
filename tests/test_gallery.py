"""The gallery: each maze is what it is said to be, by brute force over subsets and weights."""

import importlib.util
import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import envs
import vpo_lite as vpo
from vpo_lite.exact import exact_shares
from vpo_lite.lab import Lab
from vpo_lite.lab.gallery import GALLERY, NAMES, by_name, name_of
from vpo_lite.policy.loading import load_policy
from vpo_lite.training.evaluate import sample_pools

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location(
    "gallery_search", ROOT / "tests" / "benchmarks" / "gallery_search.py"
)
search = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search)
ROUNDED = 0.005  # of a figure with two digits after the point

pytestmark = pytest.mark.usefixtures("cold")


@pytest.fixture(scope="module")
def weights():
    """{alpha: (K, 4)}, drawn independently: means over them are good to about 0.002."""
    rng = np.random.default_rng(12)
    return {alpha: rng.dirichlet([alpha] * 4, 200_000) for alpha in search.ALPHAS}


def front_of(name):
    return by_name(name).maze.pareto_front().rewards


def figures_of(name):
    return search.figures(front_of(name))


def utilities(front, size, W):
    """{subset: mean over W of its best answer}, for all subsets of this size."""
    scores = W @ front.T
    subsets = combinations(range(len(front)), min(size, len(front)))
    return {s: scores[:, s].max(axis=1).mean() for s in subsets}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_brute_force(name, weights):
    front, found = front_of(name), figures_of(name)
    for alpha, W in weights.items():
        whole = (W @ front.T).max(axis=1).mean()
        best = [max(utilities(front, size, W).values()) / whole for size in (1, 2, 3)]
        assert np.allclose(found.coverage[alpha], best, atol=0.003), alpha
    for lost, (alpha, wrong) in zip(found.loss, ((0.1, 10.0), (10.0, 0.1)), strict=True):
        at, other = (utilities(front, 2, weights[a]) for a in (alpha, wrong))
        assert abs(lost - (1 - at[max(other, key=other.get)] / max(at.values()))) < 0.004


@pytest.mark.slow
def test_a_fork_has_two_points_and_closed_forms():
    """1 + max(w_gold, w_diamond) - w_gold - w_diamond: with alpha = 1 its mean is 7 / 8."""
    for name, layout in (("fork", "lite-6x6"), ("large fork", "paper-9x9")):
        assert by_name(name).layout == layout
        assert front_of(name).tolist() == [[1, 1, 0, 1], [1, 0, 1, 1]]
        single, pair, triple = figures_of(name).coverage[1.0]
        assert single == pytest.approx((3 / 4) / (7 / 8)) and pair == triple == pytest.approx(1)
        assert all(c[1] == pytest.approx(1) for c in figures_of(name).coverage.values())
    assert "At α = 1 one answer covers 0.86" in by_name("fork").look_for
    assert abs(6 / 7 - 0.86) < ROUNDED


def test_a_compromise_wins(weights):
    front = front_of("compromise")
    (middle,) = np.flatnonzero(np.abs(front - [1, 2 / 3, 1 / 3, 1]).max(axis=1) < 1e-9)
    wins = np.bincount((weights[1.0] @ front.T).argmax(axis=1), minlength=len(front))
    share = wins[middle] / wins.sum()
    assert wins.argmax() == middle and abs(share - 0.42) < 2 * ROUNDED
    assert abs(exact_shares(front)[middle] - 0.42) < ROUNDED
    for W in weights.values():
        best = utilities(front, 1, W)
        assert max(best, key=best.get) == (middle,)
    two = front[list(vpo.best_subset(front, 2).indices)]
    assert abs(exact_shares(two).max() - 0.67) < ROUNDED
    said = "two thirds of the gold, one third of the diamonds and no lava"
    assert said in by_name("compromise").look_for and "42 %" in by_name("compromise").look_for


@pytest.mark.slow
def test_alpha_matters_both_ways(weights):
    front, found = front_of("alpha matters"), figures_of("alpha matters")
    small, large = (utilities(front, 2, weights[alpha]) for alpha in (0.1, 10.0))
    pairs = [max(u, key=u.get) for u in (small, large)]
    assert pairs[0] != pairs[1]
    assert abs(found.loss[0] - 0.09) < ROUNDED and abs(found.loss[1] - 0.07) < ROUNDED
    assert 1 - small[pairs[1]] / small[pairs[0]] > 0.085
    assert 1 - large[pairs[0]] / large[pairs[1]] > 0.06
    assert "9 %" in by_name("alpha matters").look_for and "7 %" in by_name("alpha matters").look_for


def test_three_answers_are_needed():
    """Three points that each win a quarter of the weights or more; any pair leaves one out."""
    front, coverage = front_of("three needed"), figures_of("three needed").coverage
    assert len(front) == 3 and exact_shares(front).min() > 0.25
    assert abs(coverage[1.0][1] - 0.96) < ROUNDED and abs(coverage[0.1][1] - 0.90) < ROUNDED
    assert coverage[1.0][2] == pytest.approx(1) and by_name("three needed").m == 3
    said = by_name("three needed").look_for
    assert "more at a small α" in said and "0.96" not in said, "exercise 00-b asks for it"


def test_without_conflict_a_set_gains_next_to_nothing():
    single, pair, triple = figures_of("no conflict").coverage[1.0]
    assert abs(single - 0.98) < ROUNDED and triple - single < 0.02 and pair == pytest.approx(1)
    assert re.findall(r"0\.\d+", by_name("no conflict").look_for) == ["0.98", "0.02"]


def test_on_the_maze_to_train_alpha_on_the_wrong_pair_loses_both_ways():
    loss = figures_of("alpha in training").loss
    assert [round(100 * lost) for lost in loss] == [4, 6]
    said = by_name("alpha in training").look_for
    assert "worth 4 % less at α = 0.1, and 6 % less at α = 10" in said


@pytest.mark.slow
def test_the_shipped_policy_finds_all_routes_of_the_maze_to_train_alpha_on():
    maze = by_name("alpha in training").maze
    config = vpo.TrainConfig.preset("demo", maze_seed=1217, m=2, threads=1)
    policy = load_policy(config.base_model, device="cpu", seed=0)
    (pool,) = sample_pools(policy, config.make_task(), config, [maze], 1000, 0)
    found = pool.rewards.reshape(-1, 4)
    for point in maze.pareto_front().rewards:
        assert np.isclose(found, point).all(axis=1).mean() > 0.002, point


def test_on_the_maze_to_get_stuck_on_a_pair_would_cover_more():
    single, pair, _ = figures_of("stuck").coverage[1.0]
    assert abs(single - 0.93) < ROUNDED and 1 - 0.0035 < pair < 1 - 0.0025
    assert re.findall(r"0\.\d+", by_name("stuck").look_for) == ["0.93", "0.003", "0.93"]


def test_names_and_words():
    assert len(set(NAMES)) == len(GALLERY)
    for named in GALLERY:
        assert 3 <= len(named.title.split()) <= 5, named.title
        assert 1000 <= named.seed < 2000, "held out, as every demonstration maze"
        assert by_name(named.name) is named and name_of(named.layout, named.seed) == named.name
    assert name_of("hard-8x8", 1001) is None and name_of("lite-6x6", None) is None


# --- the committed search -------------------------------------------------------------------------


@pytest.mark.slow
def test_the_results_are_those_of_the_gallery():
    results = json.loads(search.RESULTS.read_text())
    assert results["gallery"] == {named.name: search.plain(named) for named in GALLERY}
    assert results["mazes"] == 400 and results["best_pair_differs"] == 86
    for name, kind in results["kinds"].items():
        assert kind["highest"] == by_name(name).seed
    assert {*results["kinds"], "alpha in training", "stuck", "large fork"} == set(NAMES)


@pytest.mark.slow
def test_the_search_finds_what_it_found(monkeypatch):
    """On a part of its mazes: those of the gallery, and a few more."""
    whole = json.loads(search.RESULTS.read_text())
    seeds = [kind["highest"] for kind in whole["kinds"].values()] + [1000, 1004, 1017, 1320]
    monkeypatch.setattr(search, "SEEDS", sorted(seeds))
    results = search.search()
    for name, kind in results["kinds"].items():
        assert kind["highest"] == whole["kinds"][name]["highest"]
        assert 1 <= kind["count"] < len(seeds), "a kind that all mazes have is none"


# --- opening them ---------------------------------------------------------------------------------


def test_a_lab_opens_a_maze_by_its_name():
    lab = Lab(maze_seed="alpha matters")
    assert lab.maze == envs.generate("lite-6x6", 1233) and lab.maze_name == "alpha matters"
    assert lab.new_maze(1000).maze_name is None and lab.new_maze().maze_name == "fork", "1001"
    lab.new_maze("large fork")
    assert lab.maze == envs.generate("paper-9x9", 1002) and lab.maze_name == "large fork"
    assert lab.config.model == "auto" and lab.config.base_model == "pocket-9x9"
    assert "A fork on 81 squares" in lab.view().message
    assert lab.config.m == 3 and lab.view().message.endswith(" Try m = 2.")
    lab.new_maze("three needed")
    assert lab.config.base_model == "pocket-6x6" and lab.maze.size == 6
    assert "Try" not in lab.view().message, "m is 3 already"
    assert lab.set_maze("S . G\n# . .\nD . E").maze_name is None


def test_a_share_code_carries_it():
    lab = Lab("grpo").new_maze("large fork")
    again = Lab.from_code(lab.share())
    assert again.maze == lab.maze and again.maze_name == "large fork"
    assert again.config.base_model == "pocket-9x9"
    assert Lab(maze_seed="fork").share() == Lab(maze_seed=1001).share()


def test_unknown_names_are_refused_in_one_line_that_lists_them():
    lab = Lab()
    before = lab.view()
    for request in (lab.new_maze, lambda name: Lab(maze_seed=name), by_name):
        with pytest.raises(ValueError, match=r"maze_seed = 'forks': .*'alpha matters'") as found:
            request("forks")
        assert "\n" not in str(found.value)
    assert lab.view() == before


def test_a_layout_and_a_seed_in_one_request():
    lab = Lab(many=True)
    versions = lab.view().version
    lab.new_maze(1003, layout="paper-9x9")
    assert lab.maze == envs.generate("paper-9x9", 1003) and lab.view().version == versions + 1
    assert lab.config.base_model == "pocket-9x9" and lab.many and "paper-9x9" in lab.view().message
    lab.new_maze(layout="tiny-4x4")
    assert lab.maze == envs.generate("tiny-4x4", 1004) and lab.config.base_model == "pocket-6x6"
    assert lab.new_maze().maze == envs.generate("tiny-4x4", 1005), "the layout stays"
    assert lab.new_maze(7).maze == envs.generate("tiny-4x4", 7)


@pytest.mark.parametrize(
    ("seed", "layout", "match"),
    [
        ("fork", "paper-9x9", "leave layout out"),
        (1000, "nine", "unknown layout 'nine': there are tiny-4x4"),
        (1000, 9, "unknown layout 9: there are"),
        (-1, "paper-9x9", "maze_seed = -1"),
    ],
)
def test_what_cannot_be_opened_changes_nothing(seed, layout, match):
    lab = Lab()
    before = lab.view()
    with pytest.raises(ValueError, match=match) as found:
        lab.new_maze(seed, layout=layout)
    assert lab.view() == before and "\n" not in str(found.value)


def test_a_named_model_that_cannot_read_the_layout_is_refused():
    lab = Lab(model="pocket-6x6")
    with pytest.raises(ValueError, match="boards up to 6x6"):
        lab.new_maze(1000, layout="paper-9x9")
    assert lab.maze.size == 6
