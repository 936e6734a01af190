"""How a pocket policy for programs is made: what it is shown, and what is measured of it."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import vpo_lite as vpo
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.pocket.pretrain import pretrain
from vpo_lite.pocket.programs import ProgramsRecipe, demonstrate
from vpo_lite.pocket.recipe import recipe_class, recipe_names
from vpo_lite.policy import shipped
from vpo_lite.tasks.program_rules import Examples
from vpo_lite.tasks.programs import PROGRAMS, ProgramsTask
from vpo_lite.training.answers import read_answers


def test_there_is_a_recipe_for_each_task_that_has_a_policy():
    read = {shipped.description(name).get("task", "maze") for name in shipped.names()}
    assert recipe_names() == sorted(read) and {"maze", "programs"} <= read
    assert recipe_class("programs") is ProgramsRecipe and recipe_class("maze") is MazeRecipe
    with pytest.raises(ValueError, match=r"task 'chess': has no recipe .* there is .*'maze'"):
        recipe_class("chess")


def test_a_prompt_with_its_answers_always_fits():
    """8 tests with weights, 5 programs of 3 operations, <bos>, <m5> and <eos>."""
    tests = ProgramsTask().instance(3)
    task, recipe = ProgramsTask(), ProgramsRecipe()
    prompt = task.prompt(tests, 5, weights=np.full(8, 1 / 8), pocket=recipe.pocket()).symbols
    words = prompt.split() + task.write(None, PROGRAMS[-5:]).split()
    assert set(words) <= set(recipe.vocabulary()) and 2 + len(words) <= recipe.longest


def test_a_demonstration_answers_its_prompt_and_a_batch_has_one_m():
    recipe, task = ProgramsRecipe(first_updates=8, batch=3), ProgramsTask()
    for i in range(60):
        prompt, text = recipe.demonstration(i)
        m = int(prompt.symbols[2])
        assert m == 1 + i // 3 % 5
        assert None not in task.parse(None, text, m) and task.parse(None, text, m + 1)[m] is None
        if i < 24:  # of the first 8 updates: each program is a hidden rule
            words = [word for word in prompt.symbols.split() if word[0] in "abcd"]
            cut = [words[k : k + 4] for k in range(0, len(words), 4)]
            tests = Examples(
                tuple("".join(w[1] for w in four) for four in cut),
                tuple("".join(w[2] for w in four) for four in cut),
            )
            assert task.score([tests], [task.parse(None, text, m)])[0].any(axis=1).all()


@pytest.mark.slow
def test_rules_are_shown_as_often_as_the_settings_say():
    rng, rules = np.random.default_rng(0), ("plus", "minus", "sort")
    sets = [demonstrate(rules, 3, 0.65, 0.5, rng) for _ in range(4_000)]
    shown = np.mean([program in rules for programs in sets for program in programs])
    # the others: one operation (70 %), which is one of the three rules in 3 of 10 cases
    assert shown == pytest.approx(0.65 + 0.35 * 0.7 * 0.3, abs=0.015)
    assert {len(p.split()) for programs in sets for p in programs} == {1, 2}
    in_turn = [demonstrate(rules, 3, 1, 1, rng) for _ in range(600)]
    assert all(set(programs) == set(rules) for programs in in_turn)
    assert len({tuple(programs) for programs in in_turn}) == 6
    drawn = [demonstrate(rules, 3, 1, 0, rng) for _ in range(4_000)]
    assert np.mean([len(set(p)) == 3 for p in drawn]) == pytest.approx(2 / 9, abs=0.03)
    assert demonstrate(["left"], 4, 1, 1, rng) == ["left"] * 4


def test_the_figures_by_hand():
    """Two problems. A rule, the same by another name, one that is malformed; and three rules."""
    recipe, task = ProgramsRecipe(), ProgramsTask()
    tests = Examples(("3072", "9154", "1146"), ("2703", "0265", "1164"))
    rows = ["reverse", "minus plus reverse", "jump"], ["plus", "swap_last", "reverse"]
    groups = [read_answers(task, [tests], [[task.write(tests, row)]], 3)[0] for row in rows]
    front = np.eye(3)
    assert recipe.figures(groups) == {
        "parse": 5 / 6,
        "valid": 5 / 6,
        "front": 5 / 6,
        "distinct": 1 / 2,
        "coverage": pytest.approx((float(vpo.coverage(front[:1], front)) + 1) / 2),
    }


def test_a_rate_that_would_be_zero_later_is_that_of_a_longer_run(tmp_path):
    """4 updates of a rate that falls over 8 are the first 4 of 8, to the last bit."""
    small = dict(batch=2, width=16, layers=1, heads=2, mlp=16, save_every=4, first_updates=1)
    whole = ProgramsRecipe(updates=8, lr_updates=8, **small)
    part = ProgramsRecipe(updates=4, lr_updates=8, **small)
    work = pretrain(whole, tmp_path / "8", device=torch.device("cpu"), workers=0)
    for done, _ in work:
        if done == 4:
            work.close()
    list(pretrain(part, tmp_path / "4", device=torch.device("cpu"), workers=0))
    state = load_file(tmp_path / "8" / "state.safetensors")
    model = load_file(tmp_path / "4" / "model.safetensors")
    assert len(model) > 5
    for name, tensor in model.items():
        assert torch.equal(state[f"p.{name}"], tensor), name
    with pytest.raises(ValueError, match=r"lr_updates = 8, updates = 9: .* raise lr_updates"):
        ProgramsRecipe(updates=9, lr_updates=8)
