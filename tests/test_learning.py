"""The idea, learned on a three-armed bandit: VPO's two slots split between the arms, GRPO's answers
all become one.

One prompt, one token per answer, two objectives. Every token of the vocabulary is one of three
arms, so an untrained model plays them all alike, and what it plays after training comes from the
estimator alone.
"""

from collections import Counter

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

import vpo_lite as vpo
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.policy.adapter import quiet
from vpo_lite.policy.tokenizer import word_tokenizer
from vpo_lite.tasks import Prompt, Task

ARMS = {"left": (1.0, 0.0), "right": (0.0, 1.0), "middle": (0.45, 0.45)}
ARM_OF = {word: list(ARMS)[i % 3] for i, word in enumerate(MazeRecipe().vocabulary())}


class Bandit(Task):
    """A task in its smallest form."""

    name = "maze"  # the pocket model was made for it

    def instance(self, seed):
        return "bandit"

    def key(self, instance):
        return instance

    def objectives(self, instance):
        return ("left", "right")

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt(symbols=f"<m{m}>")

    def parse(self, instance, text, m):
        played = [ARM_OF[word] for word in text.split()]
        return [played[i] if i < len(played) else None for i in range(m)]

    def score(self, instances, answers):
        return [np.array([ARMS[a] for a in row]).reshape(-1, 2) for row in answers]

    def front(self, instance):
        return np.array(list(ARMS.values()))


@pytest.fixture(scope="module")
def gambler(tmp_path_factory, tiny_policy_folder):
    """The untrained pocket model with a louder output layer: only the layers below are trained, and
    they must be heard.
    """
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(tiny_policy_folder)
        model.get_output_embeddings().weight.data.mul_(30)
        folder = tmp_path_factory.mktemp("models") / "gambler"
        model.save_pretrained(folder)
    word_tokenizer(MazeRecipe().vocabulary()).save_pretrained(folder)
    return folder


def played(model, method: str, seed: int):
    """What the last 10 of 30 steps' rollouts played, in pairs, and the set reward of the first step
    and of those.
    """
    config = vpo.TrainConfig(
        method=method,
        model=str(model),
        m=2,
        set_size=2,
        K=64,
        steps=30,
        prompts=1,
        group_size=32,
        lr=3e-3,
        max_new_tokens=2 if method == "vpo" else 1,
        device="cpu",
        seed=seed,
    )
    records = list(vpo.train(config, task=Bandit()))
    answers = [a for record in records[-10:] for row in record.groups[0].answers for a in row]
    pairs = Counter(zip(answers[::2], answers[1::2], strict=True))
    return pairs, records[0].set_reward, np.mean([record.set_reward for record in records[-10:]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_vpos_slots_split_between_the_arms_and_grpos_do_not(gambler, seed):
    """What can be had, in closed form: a pair of both extremes earns E max(w, 1 - w) = 3/4, an arm
    twice earns E w = 1/2, and independent answers are such a pair in at most half of all cases:
    5/8."""
    pairs, before, after = played(gambler, "vpo", seed)
    assert before < 0.62
    assert pairs["left", "right"] + pairs["right", "left"] > 0.9 * pairs.total()
    assert (
        max(pairs["left", "right"], pairs["right", "left"]) > 0.9 * pairs.total()
    )  # each slot has its own arm
    assert after == pytest.approx(3 / 4, abs=0.03)

    pairs, before, after = played(gambler, "grpo", seed)
    assert pairs["left", "right"] + pairs["right", "left"] < 0.6 * pairs.total()
    assert after < 5 / 8
    middles = sum(
        count * (pair.count("middle") + pair.count(None)) for pair, count in pairs.items()
    )
    assert middles < 0.1 * 2 * pairs.total()  # it did learn: the arm with the lower mean is gone
