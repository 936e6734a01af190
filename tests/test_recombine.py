"""Recombination: the best set that the answers of a group make takes the worst rollout's place."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import vpo_lite as vpo
from vpo_lite.policy.loading import load_policy
from vpo_lite.training import step as steps
from vpo_lite.training.recombine import recombine
from vpo_lite.training.rollouts import (
    draw_uniforms,
    longest_completion,
    read_answers,
    sample_answers,
)
from vpo_lite.training.step import Learner

G, M = 6, 2


@pytest.fixture(scope="module")
def policy():
    return load_policy("pocket-6x6", device="cpu", seed=0)


@pytest.fixture(scope="module")
def task():
    return vpo.TrainConfig.preset("demo", maze_seed=1012).make_task()


@pytest.fixture(scope="module")
def sampled(policy, task):
    """Two groups of six rollouts of two answers."""
    instances = [task.instance(0)] * 2
    tokens = longest_completion(policy, task, M, instances)
    uniforms = np.stack([draw_uniforms(G, tokens, 3, "test", 0, str(i)) for i in range(2)])
    return sample_answers(policy, task, instances, M, uniforms)


def worth(R, W):
    """(1/K) sum_j max_i w_j . r_i, written out."""
    return float(np.mean([max(w @ r for r in R) for w in W]))


def test_the_best_set_of_the_groups_answers_replaces_the_worst_rollout(policy, task, sampled):
    weights = [np.random.default_rng(i).dirichlet(np.ones(4), 4096) for i in range(2)]
    (groups, _), places = recombine(policy, task, *sampled, weights, 1.0)
    for p, (before, after, W) in enumerate(zip(sampled.groups, groups, weights, strict=True)):
        scores = [worth(R, W) for R in before.for_training(np.zeros(4))]
        assert places[p] == int(np.argmin(scores))
        valid = before.rewards[before.valid]
        best = max(worth(pair, W) for pair in itertools.combinations(valid, 2))
        assert worth(after.rewards[places[p]], W) == pytest.approx(best, abs=0.02), (
            "the set that is best for all weights is nearly the best for 4,096 of them"
        )
        assert worth(after.rewards[places[p]], W) >= max(scores)
        others = [g for g in range(G) if g != places[p]]
        assert (after.rewards[others] == before.rewards[others]).all()
        assert [after.texts[g] for g in others] == [before.texts[g] for g in others]
        # Every answer of the new set is one that somebody in the group wrote.
        written = {answer for row in before.answers for answer in row}
        assert set(after.answers[places[p]]) <= written


def test_the_tokens_are_those_of_the_text_and_nobody_sampled_them(policy, task, sampled):
    (groups, rollouts), places = recombine(policy, task, *sampled, None, 1.0)
    texts = policy.texts(rollouts)
    rows = [p * G + place for p, place in enumerate(places)]
    for p, group in enumerate(groups):
        assert texts[p * G : (p + 1) * G] == group.texts
    for row in range(2 * G):
        nobody = torch.isnan(rollouts.logprobs[row][rollouts.mask[row]])
        assert nobody.all() if row in rows else not nobody.any()
        end = rollouts.tokens[row][rollouts.mask[row]][-1].item()
        assert end == policy.tokenizer.eos_token_id or rollouts.truncated[row]
    same = [row for row in range(2 * G) if row not in rows]
    width = sampled.rollouts.tokens.shape[1]
    assert (rollouts.tokens[same, :width] == sampled.rollouts.tokens[same]).all()
    assert sampled.rollouts.logprobs.isfinite().all(), "what was sampled is left as it was"


def test_a_group_without_a_valid_answer_is_left_alone(policy, task, sampled):
    bad = [replace(g, valid=np.zeros_like(g.valid)) for g in sampled.groups]
    (groups, rollouts), places = recombine(policy, task, bad, sampled.rollouts, None, 1.0)
    assert places == [None, None] and groups == bad
    assert (rollouts.tokens == sampled.rollouts.tokens).all()


def test_a_best_set_of_one_answer_is_filled_up_with_what_can_be_read(policy, task, sampled):
    """Where one answer is best under all weights, m answers are written all the same."""
    instance = task.instance(0)
    one = sampled.groups[0]
    texts = ["<route_1> a1 </route_1> <route_2> nonsense", *one.texts[1:]]
    text = next(t for t, ok in zip(one.texts, one.valid, strict=True) if ok.any())
    alike = read_answers(task, [instance], [[text] * (G - 1) + texts[:1]], M)
    alike = [replace(g, prompt=one.prompt) for g in alike]
    rows = sampled.rollouts.rows(slice(0, G))
    (groups, _), places = recombine(policy, task, alike, rows, None, 1.0)
    assert places[0] is not None and groups[0].parsed[places[0]].all()


def test_the_record_shows_what_the_policy_wrote(monkeypatch):
    """Figures, texts and rewards are of the sampled rollouts; the one that gave way has advantage
    0, and the others are compared with the recombined set.
    """
    how = dict(maze_seed=1012, m=2, steps=1, prompts=2, group_size=8, threads=1)
    plain, ours = (
        next(vpo.train(vpo.TrainConfig.preset("demo", method=method, **how)))
        for method in ("vpo", "vpo_recombined")
    )
    assert ours.coverage == plain.coverage and ours.diversity == plain.diversity
    assert ours.sampler_gap == pytest.approx(plain.sampler_gap, abs=1e-6)
    for mine, theirs in zip(ours.groups, plain.groups, strict=True):
        assert mine.texts == theirs.texts and (mine.rewards == theirs.rewards).all()
        assert (mine.advantages == 0).sum() == 1 and not (theirs.advantages == 0).any()
        order = np.argsort(theirs.advantages)
        assert mine.advantages[order[0]] == 0, "the worst gave way"


def test_one_step_makes_the_recombined_set_likelier(policy):
    """With one clear leader in a group, the update raises the log-probability of its tokens."""
    config = vpo.TrainConfig.preset(
        "demo", method="vpo_recombined", maze_seed=1012, m=2, prompts=1, threads=1
    )
    learner, seen = Learner(config), {}
    update = steps.update_policy

    def spied(learner, config, rollouts, advantages, *rest):
        row = int(torch.isnan(rollouts.logprobs).any(1).nonzero()[0, 0])
        seen.update(row=row, rollouts=rollouts, advantage=advantages[0, row])
        return update(learner, config, rollouts, advantages, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "update_policy", spied)
        steps.train_step(learner, config, 0)
    one = seen["rollouts"].rows(slice(seen["row"], seen["row"] + 1))
    with torch.no_grad():
        with learner.policy.reference():  # the adapter began as zero: this is the policy of before
            before = learner.policy.token_logprobs(one)[0][one.mask].sum()
        after = learner.policy.token_logprobs(one)[0][one.mask].sum()
    assert seen["advantage"] > 1 and after > before
