"""A goal-conditioned policy reads the weights of a search in its prompt, as in its training."""

import json
import warnings

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.policy import CARD
from vpo_lite.policy.merged import write_merged
from vpo_lite.search import beam, evolve, most_probable
from vpo_lite.tasks.program_rules import HiddenRules
from vpo_lite.training.learner import Learner

SEARCHES = {
    "evolve": lambda *what, **how: evolve(*what, m=1, calls=1, seed=0, **how),
    "beam": lambda *what, **how: beam(*what, m=1, width=1, branches=2, **how),
    "most_probable": lambda *what, **how: most_probable(*what, answers=1, max_tokens=9, **how),
}


class Watched(HiddenRules):
    """Keeps the weights that the prompts for the policy were asked to show."""

    def __init__(self):
        super().__init__(branches=2)
        self.asked = []

    def prompt(self, instance, m, *, weights=None, pocket=None):
        if pocket is not None:
            self.asked.append(None if weights is None else np.round(weights, 9).tolist())
        return super().prompt(instance, m, weights=weights, pocket=pocket)


def saved(folder, method):
    config = vpo.TrainConfig(task="programs", method=method, m=2, device="cpu")
    return Learner(config).policy.save(folder)


def shown_by(search, policy, **how):
    """The different weights that the prompts of a search showed, and what it warned of."""
    task = Watched()
    x = task.instance(0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SEARCHES[search](policy, task, [x], **how)
    return [w for i, w in enumerate(task.asked) if w not in task.asked[:i]], said


@pytest.mark.slow
def test_every_search_shows_the_weights_that_a_saved_policy_was_trained_on(tmp_path):
    goal = vpo.load_policy(saved(tmp_path / "goal", "goal_conditioned"), device="cpu")
    plain = vpo.load_policy(saved(tmp_path / "plain", "vpo"), device="cpu")
    task = HiddenRules(branches=2)
    d = len(task.objectives(task.instance(0)))
    even, first = [round(1 / d, 9)] * d, [1.0, *[0.0] * (d - 1)]
    for search in SEARCHES:
        assert shown_by(search, goal) == ([even], [])
        given = [np.array(first) * 2]
        assert shown_by(search, goal, weights=given)[0] == [first]
        assert shown_by(search, plain) == ([None], [])
    assert shown_by("evolve", goal, show_weights=False) == ([None], [])
    for search in ("beam", "most_probable"):
        with pytest.raises(ValueError, match="weights holds 2 arrays: expected 1 arrays"):
            shown_by(search, plain, weights=[first, first])
        with pytest.raises(ValueError, match=r"weights of shape \(1,\): expected \(\d,\)"):
            shown_by(search, plain, weights=[[1.0]])
        with pytest.raises(ValueError, match="none may be below 0"):
            shown_by(search, plain, weights=[[-1.0, *first[1:]]])


@pytest.mark.slow
def test_an_adapter_that_does_not_say_how_it_was_trained_is_told_of(tmp_path):
    folder = saved(tmp_path / "old", "goal_conditioned")
    card = json.loads((folder / CARD).read_text())
    assert card.pop("weight_in_prompt") is True
    (folder / CARD).write_text(json.dumps(card))
    policy = vpo.load_policy(folder, device="cpu")
    for search in SEARCHES:
        weights, (said,) = shown_by(search, policy)
        assert weights == [None] and said.filename == __file__
        assert "do not say whether it was trained on prompts that show weights" in str(said.message)
    assert shown_by("evolve", policy, show_weights=False) == ([None], [])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["goal_conditioned", "vpo"])
def test_a_merged_model_says_whether_its_prompts_show_weights(tmp_path, method):
    merged = write_merged(saved(tmp_path / "run", method), tmp_path / "merged")
    policy = vpo.load_policy(merged, device="cpu")
    goal = method == "goal_conditioned"
    assert (shown_by("evolve", policy)[0] != [None]) == goal == policy.weight_in_prompt
    again = vpo.load_policy(policy.save(tmp_path / "again"), device="cpu")
    assert again.weight_in_prompt == goal
