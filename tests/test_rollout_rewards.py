"""Rewards for other engines: a rollout alone gets what the native trainer gives it in its group."""

import dataclasses
import pickle

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.estimators import rollout_scores, zscore
from vpo_lite.integrations.rewards import RolloutReward
from vpo_lite.tasks.base import group_key
from vpo_lite.tasks.functions import Asked, OfFunctions
from vpo_lite.training.learner import Learner
from vpo_lite.training.step import train_step

COMPARABLE = [n for n, method in vpo.METHODS.items() if method.z_score and not method.recombines]
OF_TASKS = {"maze": dict(layout="lite-6x6"), "programs": {}}  # of programs, d differs


@pytest.mark.parametrize("method", vpo.METHODS)
def test_comparable_are_the_methods_that_take_a_z_score_of_their_own_score(method):
    m = 1 if vpo.METHODS[method].single_answer else 3
    R = np.random.default_rng(0).random((3, 6, m, 4))
    W = np.random.default_rng(1).dirichlet(np.ones(4), (3, 1))
    score = rollout_scores(method, R, weights=W)
    alike = np.allclose(vpo.advantages(method, R, weights=W), zscore(score))
    recombines = vpo.METHODS[method].recombines  # it needs the whole group before it is compared
    assert (method in COMPARABLE) == (alike and not recombines)


def test_a_method_of_ones_own_says_that_its_advantage_is_a_z_score(tmp_path, monkeypatch):
    """Named with its module, as in another process, which has not imported it yet."""
    (tmp_path / "compared.py").write_text("""
import vpo_lite as vpo


@vpo.estimators.method(z_score=True)
def first_answer(R, *, w_star, **_):
    return vpo.estimators.scalar(R, w_star)[..., 0]


@vpo.estimators.method()
def last_answer(R, *, w_star, eps, **_):
    score = vpo.estimators.scalar(R, w_star)[..., -1]
    return score, score - score.mean()
""")
    monkeypatch.syspath_prepend(tmp_path)
    reward = RolloutReward(method="compared:first_answer", answers=2)
    assert reward.method == "first_answer"
    task = OfFunctions([lambda completions, **_: [float(text) for text in completions]])
    said = "<answer_1> 0.25 </answer_1> <answer_2> 0.5 </answer_2>"
    (scored,) = reward.score(task, [Asked("Why?")], ["a"], [said], step=0)
    assert scored.reward == 0.25
    assert not reward.whole_groups
    reward = RolloutReward(method="last_answer", answers=2)
    given = task, [Asked("Why?")] * 2, ["a", "a"], [said, said.replace("5 <", "<")], 0
    assert reward.whole_groups and [one.reward for one in reward.score(*given)] == [0.5, 0.0]
    compared = reward.score(*given, groups=["a", "a"])
    assert [(one.score, one.reward) for one in compared] == [(0.5, 0.25), (0.0, -0.25)]


@pytest.mark.slow
@pytest.mark.parametrize("method", COMPARABLE)
@pytest.mark.parametrize("task", ["maze", pytest.param("programs", marks=pytest.mark.long)])
def test_each_rollout_alone_has_the_native_trainers_reward(task, method):
    config = vpo.TrainConfig.preset(
        "demo", task=task, method=method, prompts=2, group_size=4, K=8, **OF_TASKS[task]
    )
    learner = Learner(config)
    reward = pickle.loads(pickle.dumps(RolloutReward.of(config)))
    learnt = False
    for step in range(3):
        record = train_step(learner, config, step)
        rows = [  # rollouts of both groups, mixed
            (group, slot, g) for g in range(4) for slot, group in enumerate(record.groups)
        ]
        found = [
            reward.score(
                learner.task,
                [group.instance],
                [group_key(learner.task, group.instance, slot)],
                [group.texts[g]],
                step,
            )[0].reward
            for group, slot, g in rows
        ]
        advantages = zscore(np.array(found).reshape(4, 2).T, config.eps)
        expected = [group.advantages for group in record.groups]
        assert np.allclose(advantages, expected, atol=1e-12)
        learnt = learnt or np.any(expected)
    assert learnt


def test_weights_belong_to_the_seed_the_step_and_the_group():
    task = vpo.TrainConfig.preset("demo").make_task()
    x = task.instance(task.seeds["train"][0])
    routes = " ".join(
        f"<route_{i}> {' '.join(moves)} </route_{i}>"
        for i, moves in enumerate(x.pareto_front().routes[:2], 1)
    )

    def one(key="a", step=0, **changes):
        reward = RolloutReward(answers=2, K=1, **changes)
        return reward.score(task, [x], [key], [routes], step)[0].reward

    assert one() == one()
    assert len({one(), one(key="b"), one(step=1), one(seed=1)}) == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (dict(method="vpo_recombined"), "'vpo_recombined': it adds a rollout.*natively"),
        (dict(method="grpo"), "answers = 3: grpo takes 1 answer"),
        (dict(answers=0), "answers = 0: expected a whole number of at least 1"),
        (dict(answers="3"), "answers = '3': expected a whole number of at least 1"),
        (dict(K=0), "K = 0"),
        (dict(K=8.5), "K = 8.5: must be a whole number"),
        (dict(alpha=0.0), "alpha = 0"),
    ],
)
def test_a_reward_that_cannot_work_is_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        RolloutReward(**fields)


def test_a_whole_number_of_weights_may_be_a_float_as_in_a_run():
    assert RolloutReward(K=8.0) == RolloutReward(K=8)
    assert repr(RolloutReward(K=8.0).K) == repr(vpo.TrainConfig(K=8.0).K) == "8"


def test_what_is_left_out_is_as_in_a_run():
    config = vpo.TrainConfig()
    for field in dataclasses.fields(RolloutReward):
        if field.name not in ("answers", "thinks"):  # of a preset; seen in the prompts
            assert field.default == getattr(config, field.name), field.name
