"""How a pocket policy for chains is made, what it is shown, and what the shipped one does."""

import json

import numpy as np
import pytest

from vpo_lite.hedging import best_sets
from vpo_lite.pocket.chains import ChainsRecipe, demonstrate
from vpo_lite.policy import shipped
from vpo_lite.tasks.ambiguous_chains import NAMES, IndependentChains, Puzzle, consistent
from vpo_lite.training.answers import read_answers

X = Puzzle(
    (("Edda",), ("Jade", "Ember"), ("Elsby", "Corham"), ("Holm",), ("Eiskamm", "Joch")),
    0.8,
    ("Edda", "Ember", "Elsby", "Holm", "Eiskamm"),
)


def test_a_prompt_with_its_answers_always_fits():
    """Weights and five chains, with <bos> and <eos>."""
    task, recipe = IndependentChains(), ChainsRecipe()
    x = task.instance(3)
    prompt = task.prompt(x, 5, weights=np.full(5, 0.2), pocket=recipe.pocket()).symbols
    words = prompt.split() + task.write(x, consistent(x)[0][:5]).split()
    known = {name.capitalize() for names in NAMES.values() for name in names} | set(words)
    assert known <= set(recipe.vocabulary()) and 2 + len(words) <= recipe.longest


def test_a_demonstration_answers_its_prompt_and_a_batch_has_one_m():
    recipe, task, open_places = ChainsRecipe(first_updates=5, batch=4, wrong_share=0), X, set()
    for i in range(80):
        prompt, text = recipe.demonstration(i)
        m = int(prompt.symbols[2])
        chains = IndependentChains().parse(task, text, m)
        assert m == 1 + i // 4 % 5 and None not in chains
        words = [w for w in prompt.symbols.split() if w[0] != "<"]
        pairs = [set(words[k : k + 2]) - {"-"} for k in range(0, 10, 2)]
        assert all(n in p for c in chains for n, p in zip(c.split(), pairs, strict=True))
        if i < 20:
            assert [len(p) for p in pairs] == [1] * 5
        else:
            open_places.add(sum(len(p) == 2 for p in pairs))
    assert open_places == {1, 2, 3, 4, 5}


def test_names_are_drawn_as_often_as_the_prior_says():
    rng = np.random.default_rng(0)
    sets = [demonstrate(X, 3, 0, 0, rng) for _ in range(2_000)]
    names = np.array([[c.split() for c in chains] for chains in sets])
    for place, (first, *_) in enumerate(X.candidates):
        share = (names[:, :, place] == first).mean()
        assert share == pytest.approx(1 if place in (0, 3) else 0.8, abs=0.02)
    wrong = np.array([c.split() for _ in range(800) for c in demonstrate(X, 3, 0.5, 0, rng)])
    assert (wrong[:, 0] != "Edda").mean() == pytest.approx(0.5 * 0.9, abs=0.04)
    fresh = [demonstrate(X, 3, 0, 1, rng) for _ in range(500)]
    assert np.mean([len(set(c)) == 3 for c in fresh]) > 0.98
    certain = X._replace(candidates=tuple(c[:1] for c in X.candidates))
    assert len(demonstrate(certain, 4, 0, 1, rng)) == 4  # there is one chain only


def test_the_figures_by_hand():
    """The gold and a repeated near guess; then two malformed chains and one with four names."""
    task, gold, near = IndependentChains(), " ".join(X.gold), "Edda Jade Elsby Holm Eiskamm"
    rows = [near, near, gold], ["x", "", "Edda Ember Elsby Holm Joch"]
    groups = [read_answers(task, [X], [[task.write(X, row)]], 3)[0] for row in rows]
    assert ChainsRecipe().figures(groups) == {
        "parse": 4 / 6,
        "right": pytest.approx((4 + 4 + 5 + 4) / 30),
        "distinct": 0,
        "coverage": pytest.approx((1 + 0.8) / 2),
        "solved": 1 / 2,
    }


@pytest.mark.slow
def test_the_shipped_policy_knows_the_candidates_and_leaves_room():
    """Its sets of three against the best ones there are, by its own held-out figures."""
    about = json.loads((shipped.folder("pocket-chains") / "pretrain.json").read_text())
    for kind, task in ChainsRecipe().measured().items():
        figures, x = about["held_out"][kind]["3"], task.instance(0)
        chains, posterior = consistent(x)
        best = best_sets(task.under_each(x, chains), posterior, 3)
        assert figures["parse"] > 0.95
        likelier = 1 - task.uncertain / 5 * (1 - task.prior)  # a policy that is always decided
        assert 0.5 * likelier < figures["right"] < likelier
        assert figures["coverage"] < best["set_reward"].expected.set_reward - 0.05
        assert figures["solved"] < best["solved"].expected.solved - 0.05
