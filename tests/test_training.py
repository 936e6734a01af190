"""Training: the loss, the sign of an update, masks, determinism, resuming, and the record."""

import dataclasses
import itertools
import json
import math
import os
import shlex
import shutil
import time
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import ClassVar

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode
from transformers.utils.quantization_config import QuantizationMethod

import envs
import vpo_lite as vpo
from vpo_lite.files import DamagedError
from vpo_lite.policy.decoder import DecoderView
from vpo_lite.policy.libraries import hf_logging
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.sampling import Rollouts, completion_logits
from vpo_lite.randomness import generator
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training import learner as learner_module
from vpo_lite.training import problems
from vpo_lite.training import step as step_module
from vpo_lite.training.config import SCHEDULES
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train
from vpo_lite.training.loss import clipped_loss, entropy_bonus, kl_to_reference, token_weights
from vpo_lite.training.problems import problems_of_step, seeds_of_step
from vpo_lite.training.resuming import check_unchanged
from vpo_lite.training.rollouts import draw_uniforms, last_word, sample_answers
from vpo_lite.training.run import Run
from vpo_lite.training.step import TrainingError, draw_weights, train_step, update_policy


def config(folder, **changes):
    small = dict(
        model=str(folder),
        prompts=2,
        group_size=4,
        steps=3,
        maze_seed=1000,
        device="cpu",
        max_new_tokens=24,
    )
    return vpo.TrainConfig.preset("demo", **small | changes)


@pytest.fixture
def tiny(tiny_policy_folder):
    return lambda **changes: config(tiny_policy_folder, **changes)


# --- the loss -------------------------------------------------------------------------------------


def test_clipped_loss_by_hand():
    """Ratios 1, 1.5, 1.5 with A = 2 and 1, 1.5, 0.5 with A = -1, by PPO's definition."""
    logp = torch.log(torch.tensor([[1.0, 1.5, 1.5], [1.0, 1.5, 0.5]]))
    mask = torch.ones(2, 3, dtype=torch.bool)
    given = logp, torch.zeros(2, 3), torch.tensor([2.0, -1.0]), token_weights(mask)
    loss, clipped = clipped_loss(*given)
    gains = [2 * 1, 2 * 1.2, 2 * 1.2, -1 * 1, -1 * 1.5, -1 * 0.8]
    assert loss.item() == pytest.approx(-sum(gains) / 6)
    assert clipped == 3
    loss, clipped = clipped_loss(*given, clip=0.6)  # 0.4 to 1.6: nothing is clipped
    assert loss.item() == pytest.approx(-(2 + 3 + 3 - 1 - 1.5 - 0.5) / 6) and clipped == 0


def test_the_upper_side_of_the_clip_and_the_dual_clip_by_hand():
    """Ratios 1.25, 4, 0.5 with A = 2, and 1.25, 4, 0.5 with A = -1."""
    logp = torch.log(torch.tensor([[1.25, 4.0, 0.5], [1.25, 4.0, 0.5]]))
    mask = torch.ones(2, 3, dtype=torch.bool)
    given = logp, torch.zeros(2, 3), torch.tensor([2.0, -1.0]), token_weights(mask)
    for changes, gains, count in (
        (dict(), [2 * 1.2, 2 * 1.2, 2 * 0.5, -1.25, -4, -0.8], 3),
        (dict(clip_high=0.3), [2 * 1.25, 2 * 1.3, 2 * 0.5, -1.25, -4, -0.8], 2),
        (dict(clip_high=0.1), [2 * 1.1, 2 * 1.1, 2 * 0.5, -1.25, -4, -0.8], 3),
        (dict(dual_clip=3.0), [2 * 1.2, 2 * 1.2, 2 * 0.5, -1.25, -3, -0.8], 4),
        (dict(dual_clip=1.1), [2 * 1.2, 2 * 1.2, 2 * 0.5, -1.1, -1.1, -0.8], 5),
    ):
        loss, clipped = clipped_loss(*given, **changes)
        assert loss.item() == pytest.approx(-sum(gains) / 6, abs=1e-6), changes
        assert clipped == count, changes


def test_masked_tokens_do_not_count_whatever_stands_there():
    logp = torch.tensor([[-1.0, -2.0, 1e4], [-3.0, -1e4, 1e4]], requires_grad=True)
    old = torch.tensor([[-1.1, -2.0, -1e4], [-3.0, 1e4, -1e4]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    loss, clipped = clipped_loss(logp, old, torch.tensor([1.0, -0.5]), token_weights(mask))
    assert clipped == 0  # the largest ratio that counts is exp(0.1)
    (loss + kl_to_reference(logp, old, token_weights(mask))).backward()
    expected = -(math.exp(0.1) * 1 + 1 * 1 - 0.5 * 1) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert (logp.grad[~mask] == 0).all()
    assert torch.isfinite(logp.grad).all()
    assert (logp.grad[mask][1:] != 0).any()


def test_an_entropy_that_is_masked_is_not_read():
    entropies = torch.tensor([[0.5, torch.nan], [0.25, 0.75]])
    bonus = entropy_bonus(entropies, token_weights(torch.tensor([[1, 0], [1, 1]]).bool()))
    assert bonus.item() == pytest.approx((0.5 + 0.25 + 0.75) / 3)


def test_k3_estimates_the_kl():
    """Mean of k3 over samples of p equals KL(p || q) = sum p log(p / q), and is never negative."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    tokens = rng.choice(6, size=(1, 200_000), p=p)
    logp, logq = (torch.as_tensor(np.log(x)[tokens]) for x in (p, q))
    estimate = kl_to_reference(logp, logq, torch.full((1, 200_000), 1 / 200_000)).item()
    assert estimate == pytest.approx((p * np.log(p / q)).sum(), rel=0.05)


# --- the update -----------------------------------------------------------------------------------


def prompt_of(learner, cfg):
    return learner.task.prompt(learner.task.instance(0), cfg.answers, pocket=learner.policy.pocket)


def update(learner, cfg, rollouts, advantages, measure_kl=True):
    return update_policy(learner, cfg, rollouts, advantages, measure_kl)._asdict()


def rollouts_of(learner, cfg, seed=0):
    uniforms = np.random.default_rng(seed).random((1, cfg.group_size, 24))
    return learner.policy.sample([prompt_of(learner, cfg)], uniforms)


def sequence_logp(learner, rollouts):
    with torch.no_grad():
        logp, _ = learner.policy.token_logprobs(rollouts)
    return (logp * rollouts.mask).sum(1)


def test_one_step_raises_the_better_rollout_and_lowers_the_worse(tiny):
    cfg = tiny(group_size=2, lr=1e-4)
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    before = sequence_logp(learner, rollouts)
    # the first rollout covers both treasures, the second repeats one
    R = np.array([[[[1, 1, 0, 1], [1, 0, 1, 1]], [[1, 1, 0, 1], [1, 1, 0, 1]]]], dtype=float)
    update(learner, cfg, rollouts, vpo.advantages("vpo", R))
    after = sequence_logp(learner, rollouts)
    assert after[0] > before[0]
    assert after[1] < before[1]


def test_identical_sets_give_exactly_zero_advantage_and_change_nothing(tiny):
    cfg = tiny()
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    R = np.tile(np.random.default_rng(0).random((1, 1, 3, 4)), (1, cfg.group_size, 1, 1))
    W = vpo.sample_weights(64, 4, rng=np.random.default_rng(1))[None]
    advantages = vpo.advantages("vpo", R, weights=W)
    assert (advantages == 0).all()
    before = sequence_logp(learner, rollouts)
    figures = update(learner, cfg, rollouts, advantages)
    assert figures["loss"] == 0 and figures["gradient_norm"] == 0
    assert torch.equal(sequence_logp(learner, rollouts), before)


@pytest.mark.slow
def test_a_run_of_gdpo_whitens_over_the_batch_where_it_is_asked_to():
    """Its advantages have the mean square 1 then. Other methods refuse the setting."""
    small = dict(prompts=2, group_size=4, steps=1, device="cpu", threads=1, eps=1e-9)
    cfg = vpo.TrainConfig.preset("demo", method="gdpo", **small)
    plain, whitened = (
        np.concatenate([g.advantages for g in train_step(Learner(c), c, 0).groups])
        for c in (cfg, cfg.but(whiten=True))
    )
    assert plain.std() != pytest.approx(1, abs=0.05)
    assert whitened == pytest.approx(plain / plain.std())
    with pytest.raises(ValueError, match=r"whiten = True: only gdpo .* not vpo"):
        cfg.but(method="vpo", whiten=True)


@pytest.mark.slow
def test_only_the_adapter_is_trained_and_without_it_the_policy_is_the_base(
    tiny, tiny_policy_folder
):
    cfg = tiny(lr=1e-2)
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    base = {n: p.clone() for n, p in learner.policy.model.named_parameters() if "lora" not in n}
    fresh = sequence_logp(Learner(cfg), rollouts)
    update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]]))
    assert all(
        torch.equal(p, base[n])
        for n, p in learner.policy.model.named_parameters()
        if "lora" not in n
    )
    assert not torch.allclose(sequence_logp(learner, rollouts), fresh, atol=1e-3)
    with learner.policy.reference():
        assert torch.allclose(sequence_logp(learner, rollouts), fresh, atol=1e-6)


@pytest.mark.slow
def test_stopping_is_trained_the_gradient_reaches_the_eos_token(tiny):
    learner = Learner(tiny())
    policy = learner.policy
    eos = policy.tokenizer.eos_token_id
    prompt = torch.tensor([policy.encode(prompt_of(learner, tiny()))])
    tokens = torch.tensor([[5, eos], [5, 6]])
    every = torch.ones(2, 2, dtype=torch.bool)
    both = torch.tensor([0, 0])
    rollouts = Rollouts(
        prompt,
        torch.ones_like(prompt, dtype=torch.bool),
        both,
        tokens,
        every,
        torch.zeros(2, 2),
        ~every[:, 0],
    )
    before, _ = policy.token_logprobs(rollouts)
    before = before.detach()[0, 1]
    for _ in range(5):
        update(learner, tiny(lr=1e-3), rollouts, np.array([[1.0, -1.0]]))
    after, _ = policy.token_logprobs(rollouts)
    assert after[0, 1] > before


def test_padding_of_prompts_changes_no_logprob(tiny):
    policy = Learner(tiny()).policy
    prompt, tokens = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[7, 8]])
    mask, first = torch.ones(1, 2, dtype=torch.bool), torch.tensor([0])
    plain, _ = policy.token_logprobs(
        Rollouts(
            prompt, torch.ones(1, 4, dtype=torch.bool), first, tokens, mask, None, ~first.bool()
        )
    )
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), 1)
    real = torch.tensor([[0, 0, 0, 1, 1, 1, 1]], dtype=torch.bool)
    left, _ = policy.token_logprobs(
        Rollouts(padded, real, first, tokens, mask, None, ~first.bool())
    )
    assert torch.allclose(plain, left, atol=1e-5)


def test_a_loss_that_is_no_number_stops_before_the_update(tiny):
    cfg = tiny()
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    before = sequence_logp(learner, rollouts)
    with pytest.raises(TrainingError, match=r"lower lr.*changed nothing"):
        update(learner, cfg, rollouts, np.array([[math.nan, 1.0, 1.0, 1.0]]))
    assert torch.equal(sequence_logp(learner, rollouts), before)


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_gradient_that_is_no_number_stops_before_the_update(tiny, monkeypatch, norm):
    cfg = tiny()
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    before = sequence_logp(learner, rollouts)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(norm))
    with pytest.raises(TrainingError, match=rf"gradient norm = {norm}: lower lr.*changed nothing"):
        update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]]))
    assert torch.equal(sequence_logp(learner, rollouts), before)


def test_aggregations_by_hand():
    """Three tokens and one token, loss -A per token: all tokens alike, all rollouts alike, or a
    constant divisor.
    """
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    logp, gain = torch.zeros(2, 3), torch.tensor([1.0, -2.0])
    each = [token_weights(mask, how, 4) for how in ("token", "sequence", "constant")]
    losses = [clipped_loss(logp, logp, gain, weights)[0].item() for weights in each]
    assert losses == pytest.approx([-(3 - 2) / 4, -(1 - 2) / 2, -(3 - 2) / 8])
    with pytest.raises(ValueError, match="aggregation = 'mean'"):
        token_weights(mask, "mean", 4)
    with pytest.raises(ValueError, match="constant needs longest"):
        token_weights(mask, "constant")


@pytest.mark.slow
def test_constant_divides_by_one_number_for_the_whole_run(tiny, monkeypatch):
    """Mazes have budgets of their own, and so had the divisor of each step."""
    seen, usual = [], step_module.token_weights
    monkeypatch.setattr(problems, "LOOKED_AT", 12)
    monkeypatch.setattr(
        step_module,
        "token_weights",
        lambda mask, how, longest: seen.append(longest) or usual(mask, how, longest),
    )
    many = dict(maze_seed=None, layout="lite-6x6", prompts=1, max_new_tokens=None)
    cfg = tiny(aggregation="constant", steps=3, **many)
    learner = Learner(cfg)
    limits = {}
    for step in range(12):
        (maze,) = problems.problems_of_step(learner.task, cfg.seed, step, 1)
        limits[step] = learner.task.max_tokens(maze, cfg.answers, learner.policy.pocket)
    assert len({limits[step] for step in range(3)}) > 1  # otherwise this shows nothing
    for step in range(3):
        train_step(learner, cfg, step)
    assert seen == [max(limits.values())] * 3
    train_step(learner, cfg.but(max_new_tokens=60), 0)  # as a panel, or train's send, may ask
    assert seen[-1] == 60
    train_step(Learner(tiny()), tiny(), 0)
    assert seen[-1] is None  # the others need none, and look at no problem


def test_the_problems_of_a_token_limit_are_drawn_once_for_a_task(tiny, monkeypatch):
    """On TRL they were drawn three times, 2 s each for mazes of many seeds."""
    monkeypatch.setattr(problems, "LOOKED_AT", 16)
    config, drawn = tiny(maze_seed=None, max_new_tokens=None, prompts=1), []
    tasks = [config.make_task() for _ in range(2)]
    for task in tasks:
        usual = task.instance
        task.instance = lambda seed, usual=usual: drawn.append(seed) or usual(seed)
        task.__class__ = type("Mine", (type(task),), {"__eq__": lambda *_: True, "__hash__": None})
    found = [problems.token_limit(task, config, None) for task in (*tasks, *tasks)]
    assert len(set(found)) == 1 and len(drawn) == 2 * problems.LOOKED_AT
    assert problems.token_limit(tasks[0], config.but(m=2), None) < found[0]


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_micro_batches_do_not_change_the_gradient(tiny, aggregation):
    """One pass over four rollouts of unequal length, and passes over one, two and three: the same
    gradients and figures.
    """
    figures, gradients = [], []
    for rows in (None, 1, 2, 3):
        cfg = tiny(micro_batch=rows, aggregation=aggregation, kl=0.1, lr=1e-8)
        learner = Learner(cfg)
        shaken(learner)  # so that the KL has a gradient
        rollouts = rollouts_of(learner, cfg)
        rollouts.mask[1, 7:] = False
        figures.append(update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]])))
        gradients.append(torch.cat([p.grad.flatten() for p in learner.parameters]))
    for other, gradient in zip(figures[1:], gradients[1:], strict=True):
        assert other == pytest.approx(figures[0], rel=1e-4, abs=1e-6)
        assert torch.allclose(gradient, gradients[0], atol=1e-6, rtol=1e-4)
    assert figures[0]["kl"] > 0 and gradients[0].abs().max() > 1e-4


def uneven(learner, cfg, lengths):
    """Rollouts of two prompts, the second longer, in groups of four, cut to these lengths."""
    prompt = prompt_of(learner, cfg)
    symbols = prompt.symbols.split()
    longer = dataclasses.replace(prompt, symbols=" ".join(symbols + symbols[-9:]))
    uniforms = np.random.default_rng(0).random((2, 4, max(lengths)))
    rollouts = learner.policy.sample([prompt, longer], uniforms)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    assert (rollouts.mask | ~mask).all()
    return rollouts._replace(mask=mask)


LENGTHS, GAIN = [24, 3, 4, 2, 5, 6, 3, 4], np.array([[1.0, -1.0, 0.5, -0.5], [0.3, -0.7, 0.9, 0.2]])


def gradient_of(cfg, gain=GAIN):
    """The gradient of an update on :func:`uneven` rollouts, and the update's FLOPs."""
    learner = Learner(cfg)
    shaken(learner)
    rollouts = uneven(learner, cfg, LENGTHS)
    with FlopCounterMode(display=False) as work:
        update(learner, cfg, rollouts, gain, measure_kl=False)
    return torch.cat([p.grad.flatten() for p in learner.parameters]), work.get_total_flops()


@pytest.mark.slow
def test_a_micro_batch_costs_no_more_than_its_own_lengths(tiny, monkeypatch):
    """Against micro-batches as wide as the step: a quarter of the work and more is saved. The
    gradient is that of the whole batch.
    """
    cfg, rows = tiny(micro_batch=2, lr=1e-8), Rollouts.rows
    whole, _ = gradient_of(tiny(lr=1e-8))
    cut, less = gradient_of(cfg)

    def uncut(self, part):
        wide = {name: getattr(self, name)[part] for name in ("tokens", "mask", "logprobs")}
        return rows(self, part)._replace(**wide)

    monkeypatch.setattr(Rollouts, "rows", uncut)
    wide, more = gradient_of(cfg)
    for gradient in (cut, wide):
        assert torch.allclose(gradient, whole, atol=1e-6, rtol=1e-4)
    assert whole.abs().max() > 1e-4 and less < 0.75 * more


def test_rows_of_like_lengths_are_in_one_micro_batch(tiny, monkeypatch):
    """A prompt is in no more of them than without sorting. A single one is the step as it is."""
    seen, score = [], Policy.token_logprobs

    def spy(self, rollouts, *rest, **how):
        seen.append((len(rollouts.prompts), rollouts.mask.sum(1).tolist()))
        assert rollouts.prompt_mask.any(0).all() and rollouts.mask.any(0).all()
        return score(self, rollouts, *rest, **how)

    monkeypatch.setattr(Policy, "token_logprobs", spy)
    for rows in (2, None):
        gradient_of(tiny(micro_batch=rows))
    assert seen == [(1, [3, 4]), (1, [5, 6]), (1, [2, 3]), (1, [4, 24]), (2, LENGTHS)]


SILENT = np.array([[1.0, -1.0, 0.5, -0.5], [0.0] * 4])


def test_a_silent_group_is_only_run_forward(tiny):
    """Its share of the backward pass is saved. Loss, figures and gradient are those of one pass
    over all tokens, written down here.
    """
    cfg = tiny(lr=1e-8)
    learner = Learner(cfg)
    shaken(learner)
    rollouts = uneven(learner, cfg, LENGTHS)
    with FlopCounterMode(display=False) as more:
        logp, entropies = learner.policy.token_logprobs(rollouts)
        with learner.policy.reference():
            reference, _ = learner.policy.token_logprobs(rollouts)
        A = torch.tensor(SILENT.reshape(-1), dtype=torch.float32)[:, None]
        loss = -((logp - logp.detach()).exp() * A)[rollouts.mask].sum() / sum(LENGTHS)
        loss.backward()
    expected = torch.cat([p.grad.flatten() for p in learner.parameters])
    learner.optimizer.zero_grad()
    with FlopCounterMode(display=False) as less:  # last: it moves the parameters
        found = update(learner, cfg, rollouts, SILENT)
    gradient = torch.cat([p.grad.flatten() for p in learner.parameters])
    expected *= min(1, 1 / expected.norm())
    assert torch.allclose(gradient, expected, atol=1e-6, rtol=1e-4)
    gap = (reference - logp)[rollouts.mask]
    assert found["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert found["entropy"] == pytest.approx(entropies[rollouts.mask].mean().item(), rel=1e-5)
    assert found["kl"] == pytest.approx((gap.exp() - gap - 1).mean().item(), rel=1e-4)
    assert found["sampler_gap"] < 1e-5 < 1e-3 < found["kl"]
    assert less.get_total_flops() < 0.9 * more.get_total_flops()


@pytest.mark.parametrize("more", [{}, dict(kl=0.1), dict(entropy=0.1)])
@pytest.mark.parametrize("rows", [None, 3])
def test_silent_rows_learn_from_a_kl_or_an_entropy_bonus(tiny, monkeypatch, more, rows):
    """Four rows of eight are silent. With a KL the reference reads all of them first."""
    ran, score = [], Policy.token_logprobs

    def spy(self, rollouts, *rest, **how):
        ran.extend([torch.is_grad_enabled()] * len(rollouts.tokens))
        return score(self, rollouts, *rest, **how)

    monkeypatch.setattr(Policy, "token_logprobs", spy)
    cfg = tiny(micro_batch=rows, **more)
    learner = Learner(cfg)
    update(learner, cfg, uneven(learner, cfg, LENGTHS), SILENT, measure_kl=cfg.kl > 0)
    read = [False] * 8 * (cfg.kl > 0)
    assert ran == read + [True] * 4 + [bool(more)] * 4


def test_where_all_groups_are_silent_the_momentum_alone_moves_the_policy(tiny):
    """By AdamW's formulas, after one update with a gradient g."""
    cfg = tiny(lr=1e-3)
    learner = Learner(cfg)
    rollouts = uneven(learner, cfg, LENGTHS)
    update(learner, cfg, rollouts, SILENT)
    kept = [(p.detach().clone(), p.grad.clone()) for p in learner.parameters]
    assert update(learner, cfg, rollouts, 0 * SILENT)["gradient_norm"] == 0
    for p, (before, g) in zip(learner.parameters, kept, strict=True):
        mean = 0.9 * 0.1 * g / (1 - 0.9**2)
        square = 0.999 * 0.001 * g**2 / (1 - 0.999**2)
        assert torch.allclose(p, before - 1e-3 * mean / (square.sqrt() + 1e-8), atol=1e-7)
    assert any((p != before).any() for p, (before, _) in zip(learner.parameters, kept, strict=True))


def test_a_forward_pass_reads_a_micro_batch(tiny, monkeypatch):
    """Four rollouts in threes: for the reference, and for the update."""
    cfg, sizes, score = tiny(micro_batch=3), [], Policy.token_logprobs
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)

    def spy(self, rollouts, *rest, **how):
        sizes.append(len(rollouts.tokens))
        return score(self, rollouts, *rest, **how)

    monkeypatch.setattr(Policy, "token_logprobs", spy)
    update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]]))
    assert sizes == [3, 1, 3, 1]


@pytest.mark.slow
def test_sampling_in_bfloat16_is_told_apart_from_the_trained_policy(tiny):
    gaps = {
        name: train_step(Learner(cfg := tiny(rollout_dtype=name)), cfg, 0).sampler_gap
        for name in ("auto", "bfloat16")
    }
    assert gaps["auto"] < 1e-5 < 1e-4 < gaps["bfloat16"] < 0.05


@pytest.mark.slow
def test_compile_is_refused_where_it_would_fail_or_do_nothing(tiny, monkeypatch):
    for name in ("CXX", "PATH"):
        monkeypatch.setenv(name, "")
    with pytest.raises(ValueError, match=r"compile = True: no C\+\+ compiler was found"):
        Learner(tiny(compile=True))
    monkeypatch.undo()
    monkeypatch.setenv("CXX", "one")  # also where there is none
    monkeypatch.setattr(DecoderView, "knows", staticmethod(lambda model: False))
    with pytest.raises(ValueError, match=r"compile = True: LlamaForCausalLM .* own forward pass"):
        Learner(tiny(compile=True))
    monkeypatch.undo()
    monkeypatch.setattr(learner_module, "compiler_missing", lambda device: None)
    Learner(tiny(compile=True))


def test_a_number_format_of_sampling_is_refused_where_it_would_do_nothing(tiny, monkeypatch):
    monkeypatch.setattr(DecoderView, "knows", staticmethod(lambda model: False))
    words = r"rollout_dtype = 'bfloat16': LlamaForCausalLM .* own forward pass.* with dtype$"
    with pytest.raises(ValueError, match=words):
        Learner(tiny(rollout_dtype="bfloat16"))
    Learner(tiny())


@pytest.mark.slow
def test_a_second_epoch_is_clipped_against_the_sampling_policy(tiny):
    """With the first epoch alone no token can be clipped (the ratio is 1); with several large ones
    some are.
    """
    cfg = tiny(lr=3e-2, epochs=1)
    learner = Learner(cfg)
    rollouts, gain = rollouts_of(learner, cfg), np.array([[1.0, -1.0, 0.5, -0.5]])
    assert update(learner, cfg, rollouts, gain)["clip_share"] == 0

    def clipped(**changes):
        return update(Learner(cfg), cfg.but(epochs=4, **changes), rollouts, gain)["clip_share"]

    assert clipped() > 0
    assert clipped(micro_batch=1) == pytest.approx(clipped(), rel=0.1)
    assert clipped(clip=1e-3) > clipped() > clipped(clip=1, clip_high=1e5) == 0


def by_hand(learner, cfg, rollouts, gain, kept, halves):
    """Updates on these rows by PPO and AdamW as torch has them, without any of step.py; the tokens
    in ``kept`` count.
    """
    optimizer = torch.optim.AdamW(
        learner.parameters, lr=cfg.lr, weight_decay=cfg.weight_decay, betas=(0.9, 0.999), eps=1e-8
    )
    A = torch.tensor(gain.reshape(-1, 1), dtype=torch.float32)
    with torch.no_grad():
        old, _ = learner.policy.token_logprobs(rollouts)
    for rows in halves:
        optimizer.zero_grad()
        logp, _ = learner.policy.token_logprobs(rollouts)
        ratio = (logp - old).exp()
        high = cfg.clip if cfg.clip_high is None else cfg.clip_high
        worst = torch.minimum(ratio * A, ratio.clamp(1 - cfg.clip, 1 + high) * A)
        if cfg.dual_clip:  # max(., c A) where A < 0
            worst = worst.where(A >= 0, worst.clamp(min=cfg.dual_clip * A))
        counted = torch.zeros_like(kept).index_fill_(0, torch.tensor(rows), True) & kept
        (-worst[counted].sum() / counted.sum()).backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters, cfg.max_grad_norm)
        optimizer.step()
    return [p.detach().clone() for p in learner.parameters]


HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize(
    "clips",
    [dict(clip=0.2), dict(clip=1e-3), dict(clip=1e-3, clip_high=0.1, dual_clip=1.02)],
    ids=str,
)
def test_a_mini_batch_is_an_update_whose_ratio_is_to_the_policy_that_sampled(tiny, rows, clips):
    cfg = tiny(lr=1e-2, mini_batches=2, micro_batch=rows, weight_decay=0.1, kl=0.0, **clips)
    ours, theirs = Learner(cfg), Learner(cfg)
    rollouts = uneven(ours, cfg, LENGTHS)
    found = update(ours, cfg, rollouts, GAIN)
    wanted = by_hand(theirs, cfg, rollouts, GAIN, rollouts.mask, HALVES)
    for p, q in zip(ours.parameters, wanted, strict=True):
        assert torch.allclose(p, q, atol=1e-4)  # 1 % of a step; AdamW enlarges rounding
    one = by_hand(Learner(cfg), cfg, rollouts, GAIN, rollouts.mask, [list(range(8))])
    assert max(float((p - q).abs().max()) for p, q in zip(wanted, one, strict=True)) > 1e-3
    # the second update starts from another policy than the one that sampled
    assert (found["clip_share"] > 0) == (cfg.clip < 0.01) and found["sampler_gap"] < 1e-5
    symmetric = by_hand(
        Learner(cfg), cfg.but(clip_high=None, dual_clip=None), rollouts, GAIN, rollouts.mask, HALVES
    )
    moved = max(float((p - q).abs().max()) for p, q in zip(wanted, symmetric, strict=True))
    assert (moved > 1e-3) == ("dual_clip" in clips)


@pytest.mark.slow
def test_mini_batches_share_tokens_and_figures_as_they_say(tiny):
    """With lr next to 0 no update changes another: means over the updates, sums over the tokens."""
    cfg = tiny(lr=1e-9, prompts=4, group_size=2, mini_batches=4, kl=0.1)
    learner = Learner(cfg)
    shaken(learner)
    rollouts = uneven(learner, cfg, LENGTHS)
    found, losses, norms, kls = update(learner, cfg, rollouts, GAIN.reshape(4, 2)), [], [], []
    with torch.no_grad(), learner.policy.reference():
        reference, _ = learner.policy.token_logprobs(rollouts)
    for rows in ([0, 1], [2, 3], [4, 5], [6, 7]):
        learner.optimizer.zero_grad()
        logp, _ = learner.policy.token_logprobs(rollouts)
        A = torch.tensor(GAIN.reshape(-1, 1), dtype=torch.float32)
        mask, gap = rollouts.mask[rows], (reference - logp)[rows]
        kl = (gap.exp() - gap - 1)[mask].mean()
        loss = 0.1 * kl - ((logp - logp.detach()).exp() * A)[rows][mask].mean()
        loss.backward()
        losses.append(loss.item()), kls.append(kl.item())
        norms.append(torch.cat([p.grad.flatten() for p in learner.parameters]).norm().item())
    for name, values in (("loss", losses), ("kl", kls), ("gradient_norm", norms)):
        assert found[name] == pytest.approx(np.mean(values), rel=1e-4), name
    assert abs(np.subtract.outer(losses, losses))[np.triu_indices(4, 1)].min() > 1e-3


def test_a_silent_mini_batch_takes_no_step_of_its_own_but_that_of_the_momentum(tiny, monkeypatch):
    """Group 1 of two is silent, with a mini-batch of its own: it is only run forward."""
    ran, score = [], Policy.token_logprobs

    def spy(self, rollouts, *rest, **how):
        ran.append(torch.is_grad_enabled())
        return score(self, rollouts, *rest, **how)

    cfg = tiny(mini_batches=2, lr=1e-8)
    learner = Learner(cfg)
    rollouts = uneven(learner, cfg, LENGTHS)
    silent = GAIN * np.array([[1.0], [0.0]])
    with monkeypatch.context() as spied:
        spied.setattr(Policy, "token_logprobs", spy)
        found = update(learner, cfg, rollouts, silent, measure_kl=False)
    assert ran == [False, True, False]  # mini-batch 1 before any update; then both in turn
    assert all((p.grad == 0).all() for p in learner.parameters)  # of the second mini-batch
    alone = update(learner, cfg.but(mini_batches=1), rollouts.rows(np.arange(4)), GAIN[:1])
    assert found["gradient_norm"] == pytest.approx(alone["gradient_norm"] / 2, rel=1e-3) and (
        found["gradient_norm"] > 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_rollouts_that_were_cut_off_give_no_gradient_where_they_are_masked(tiny, aggregation):
    """Rows 0 and 5 are cut off. As TRL has it, they do not count among the tokens, but among the
    rows of "sequence" and "constant".
    """
    cfg = tiny(lr=1e-8, mask_truncated=True, aggregation=aggregation, kl=0.0)
    learner = Learner(cfg)
    rollouts = uneven(learner, cfg, LENGTHS)
    truncated = torch.tensor([True, False, False, False, False, True, False, False])
    found = update(learner, cfg, rollouts._replace(truncated=truncated), GAIN)
    gradient = torch.cat([p.grad.flatten() for p in learner.parameters])
    learner.optimizer.zero_grad()
    logp, _ = learner.policy.token_logprobs(rollouts)
    A = torch.tensor(GAIN.reshape(-1, 1), dtype=torch.float32)
    kept = rollouts.mask & ~truncated[:, None]
    gains = ((logp - logp.detach()).exp() * A) * kept
    longest = step_module._divisor(learner, cfg)
    loss = {
        "token": lambda: -gains.sum() / kept.sum(),
        "sequence": lambda: -(gains.sum(1) / kept.sum(1).clamp(min=1)).mean(),
        "constant": lambda: -gains.sum() / (8 * longest),
    }[aggregation]()
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in learner.parameters])
    expected *= min(1, 1 / expected.norm())
    assert found["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert torch.allclose(gradient, expected, atol=1e-6, rtol=1e-4)
    every = update(learner, cfg, rollouts._replace(truncated=truncated | True), GAIN)
    assert every["loss"] == every["gradient_norm"] == 0
    plain = update(learner, cfg.but(mask_truncated=False), rollouts, GAIN)
    assert plain["loss"] != pytest.approx(found["loss"], abs=1e-3)


def test_a_mask_leaves_a_rollouts_place_in_its_group(tiny, monkeypatch):
    """Its reward still counts in the mean and the deviation of the group."""
    cfg = tiny(steps=1, mask_truncated=True, max_new_tokens=2)
    gain = np.tile([1.0, -1.0, 0.5, -0.5], (2, 1))
    monkeypatch.setattr(step_module.estimators, "estimate", lambda *_, **__: (gain, gain))
    (record,) = train(cfg)
    assert record.truncated_rate > 0.5
    assert np.array_equal([g.advantages for g in record.groups], gain)


# --- a step ---------------------------------------------------------------------------------------


def test_a_pocket_policy_ends_where_the_last_of_m_answers_does():
    policy = types.SimpleNamespace(pocket={"stop": "</route_{m}>"})
    assert last_word(policy, 2) == "</route_2>" and last_word(policy, 12) == "</route_12>"
    for pocket in (None, {}):
        assert last_word(types.SimpleNamespace(pocket=pocket), 2) is None


def test_weights_are_shared_in_a_group_and_differ_between_groups_steps_and_seeds(tiny):
    cfg = tiny(K=8)
    learner = Learner(cfg)
    mazes = [learner.task.instance(0)] * 2
    keys = [f"{learner.task.key(x)}#{i}" for i, x in enumerate(mazes)]
    a, b = draw_weights(learner.task, cfg, mazes, keys, 0)
    assert a.shape == (8, 4)  # one set of K weights a group, none a rollout
    assert not np.allclose(a, b)
    assert not np.allclose(a, draw_weights(learner.task, cfg, mazes, keys, 1)[0])
    assert not np.allclose(a, draw_weights(learner.task, cfg.but(seed=1), mazes, keys, 0)[0])
    assert np.array_equal(a, draw_weights(learner.task, cfg, mazes[:1], keys[:1], 0)[0])
    assert draw_weights(learner.task, cfg.but(K=math.inf), mazes, keys, 0) is None


@pytest.mark.slow
def test_alpha_does_not_change_what_the_first_step_samples(tiny):
    texts = [
        train_step(Learner(tiny(alpha=a)), tiny(alpha=a), 0).groups[0].texts for a in (0.1, 10.0)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("method", list(vpo.METHODS))
def test_every_method_trains_a_step_on_the_answers_it_needs(tiny, method):
    cfg = tiny(method=method, m=3, steps=1)
    (record,) = train(cfg)
    single = vpo.METHODS[method].single_answer
    assert record.groups[0].rewards.shape == (4, 1 if single else 3, 4)
    assert record.m == (1 if single else 3)
    assert math.isfinite(record.loss)


@pytest.mark.slow
def test_a_record_reports_what_its_groups_hold(tiny):
    """Every figure recomputed from the groups, by the definitions of the spec, in plain loops."""
    cfg = vpo.TrainConfig.preset(
        "demo", steps=1, prompts=2, group_size=6, maze_seed=1001, device="cpu"
    )
    (record,) = train(cfg)
    front = envs.generate("lite-6x6", 1001).pareto_front().rewards
    reach = parsed = total = 0
    coverage, utility = [], vpo.exact_set_reward(front)
    for group in record.groups:
        for answers, vectors in zip(group.answers, group.rewards, strict=True):
            coverage.append(vpo.exact_set_reward(vectors) / utility)
            for answer, vector in zip(answers, vectors, strict=True):
                total += 1
                parsed += answer is not None
                reach += vector[0] == 1
                assert np.array_equal(
                    vector,
                    envs.score_routes(group.instance, [answer])[0]
                    if answer is not None
                    else np.zeros(4),
                )
    assert record.valid_rate == pytest.approx(reach / total)
    assert record.parse_rate == pytest.approx(parsed / total)
    assert record.coverage == pytest.approx(np.mean(coverage))
    assert record.objectives["completion"] == pytest.approx(reach / total)
    assert record.kl == 0  # the adapter is fresh: policy and reference agree exactly
    line = record.to_json()
    assert "groups" not in line
    assert json.loads(json.dumps(line))["coverage"] == record.coverage


def test_the_seconds_of_a_step_hold_those_of_its_parts(tiny):
    """Scoring is a part of the rollouts, these are a part of the step, and that of this test."""
    cfg = tiny()
    learner, started = Learner(cfg), time.perf_counter()
    record = train_step(learner, cfg, 0)
    whole = time.perf_counter() - started
    assert 0 < record.scoring_seconds < record.rollout_seconds < record.seconds < whole


@pytest.mark.slow
def test_a_records_numbers_are_its_json_flattened(tiny):
    record = next(train(tiny(steps=1, K=math.inf)))
    stored, numbers = record.to_json(), record.numbers()
    assert numbers["objectives/gold"] == stored["objectives"]["gold"]
    assert numbers["slots/1"] == stored["slots"][0] and numbers["tokens"] == stored["tokens"]
    assert all(math.isfinite(x) for x in numbers.values())
    assert "K" not in numbers and "method" not in numbers and "slots" not in numbers
    assert numbers["valid_slots/2"] == stored["valid_slots"][1] and "valid_slots" not in numbers
    without = {name: x for name, x in stored.items() if name != "valid_slots"}  # an older version's
    older = vpo.StepRecord.from_json(without)
    assert older.valid_slots is None and "valid_slots/1" not in older.numbers()
    seconds = {"seconds": 0.3, "rollout_seconds": 0.2, "scoring_seconds": 0.1}
    older = vpo.StepRecord.from_json(stored | seconds | {"scoring_seconds": None})
    assert older.scoring_seconds is None
    odd = [{"K": K} for K in (0, 2.5, True, "x")]
    for wrong in (*odd, {"scoring_seconds": 0.25}, {"rollout_seconds": 0.35}):
        with pytest.raises(DamagedError):
            vpo.StepRecord.from_json(stored | seconds | wrong)


def test_sets_of_single_answers_are_consecutive_and_whole():
    as_sets = vpo.metrics.as_sets
    rewards = np.arange(16, dtype=float).reshape(16, 1, 1)
    assert as_sets(rewards, 3)[..., 0].tolist() == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7, 8],
        [9, 10, 11],
        [12, 13, 14],
    ]
    pairs = np.arange(12, dtype=float).reshape(4, 3, 1)
    assert as_sets(pairs, 3)[..., 0].tolist() == pairs[..., 0].tolist()


# --- what a whole step hands on: mutations of the wiring must not pass ----------------------------


@pytest.fixture
def wired(monkeypatch):
    """Record what train_step hands to the estimator, the sampler and the loss."""
    seen = {"estimate": [], "sample": [], "score": []}
    estimate, sample, score = step_module.estimators.estimate, Policy.sample, Policy.token_logprobs

    def spy_estimate(method, R, **credit):
        seen["estimate"].append((method, R, credit))
        return estimate(method, R, **credit)

    def spy_sample(self, prompts, uniforms, temperature=1.0, **how):
        seen["sample"].append((prompts, uniforms, temperature, how))
        return sample(self, prompts, uniforms, temperature, **how)

    def spy_score(self, rollouts, temperature=1.0, **how):
        adapter = not any(m.disable_adapters for m in self.model.modules() if hasattr(m, "lora_A"))
        seen["score"].append((adapter, temperature))
        return score(self, rollouts, temperature, **how)

    monkeypatch.setattr(step_module.estimators, "estimate", spy_estimate)
    monkeypatch.setattr(Policy, "sample", spy_sample)
    monkeypatch.setattr(Policy, "token_logprobs", spy_score)
    return seen


@pytest.mark.slow
def test_a_step_hands_every_setting_to_where_it_belongs(tiny, wired):
    how = dict(temperature=0.5, rollout_dtype="bfloat16", sample_batch=64)
    cfg = tiny(alpha=0.3, K=7, eps=0.125, method="vpo", **how)
    learner = Learner(cfg)
    train_step(learner, cfg, 4)
    ((method, _, credit),) = wired["estimate"]
    key = learner.task.key(learner.task.instance(0))
    expected = [
        vpo.sample_weights(7, 4, 0.3, rng=generator(0, "weights", 4, f"{key}#{slot}"))
        for slot in range(2)
    ]
    assert method == "vpo" and np.array_equal(credit["weights"], expected)
    assert (credit["alpha"], credit["eps"]) == (0.3, 0.125)
    assert np.array_equal(credit["w_star"], np.full((2, 4), 0.25))
    assert [heat for _, _, heat, _ in wired["sample"]] == [0.5]
    assert [how for *_, how in wired["sample"]] == [
        {"stop": None, "dtype": "bfloat16", "compiled": False, "at_once": 64}
    ]
    assert sorted(wired["score"]) == [
        (False, 0.5),
        (True, 0.5),
    ]  # reference and policy, under what sampled them
    for cfg in (tiny(method="max_at_k", k=3), tiny(K=math.inf, alpha=4.0)):
        train_step(Learner(cfg), cfg, 0)
    assert wired["estimate"][1][2]["k"] == 3
    assert wired["estimate"][2][2]["weights"] is None and wired["estimate"][2][2]["alpha"] == 4.0


@pytest.mark.slow
def test_in_training_a_repeat_has_the_worst_vector_and_in_the_record_its_own(
    tiny, wired, monkeypatch
):
    cfg = tiny(m=2, group_size=2, prompts=1)
    learner = Learner(cfg)
    maze = learner.task.instance(0)
    best, other = maze.pareto_front().routes[0], maze.pareto_front().routes[-1]
    written = [learner.task.write(maze, row, {}) for row in ([best, best], [best, other])]
    monkeypatch.setattr(Policy, "texts", lambda self, rollouts, *_: written)
    record = train_step(learner, cfg, 0)
    vectors = envs.score_routes(maze, [best, other])
    assert np.array_equal(wired["estimate"][0][1][0], [[vectors[0], np.zeros(4)], vectors])
    assert np.array_equal(record.groups[0].rewards, [[vectors[0], vectors[0]], vectors])
    assert record.repeat_rate == 0.25
    assert record.groups[0].advantages[1] > 0 > record.groups[0].advantages[0]
    train_step(learner, cfg.but(pay_repeats=True, method="multi_rlvr"), 0)
    assert np.array_equal(wired["estimate"][1][1][0], [[vectors[0], vectors[0]], vectors])


@pytest.mark.slow
def test_sampler_and_trainer_agree_inside_a_step_at_any_temperature(tiny):
    for temperature in (1.0, 0.6):
        (record,) = train(tiny(temperature=temperature, steps=1))
        assert record.sampler_gap < 1e-4


@pytest.mark.slow
def test_two_groups_on_one_maze_two_steps_and_two_seeds_draw_differently(tiny):
    cfg = tiny(lr=1e-9)
    learner = Learner(cfg)
    first, second = (train_step(learner, cfg, step) for step in (0, 1))
    assert first.groups[0].texts != first.groups[1].texts
    assert first.groups[0].texts != second.groups[0].texts
    many = tiny(maze_seed=None)
    task = many.make_task()
    keys = [
        [task.key(x) for x in problems_of_step(task, many.seed, step, many.prompts)]
        for step in (0, 1)
    ]
    assert len({*keys[0], *keys[1]}) == 4


class Few(vpo.tasks.Task):
    seeds: ClassVar = {"train": range(100, 110)}


@pytest.mark.parametrize("prompts", [1, 4, 10, 25])
def test_few_problems_come_in_epochs_each_once_and_never_in_one_order(prompts):
    """As for rows of a data set: also where an epoch ends in the middle of a step."""
    steps = 100 // prompts
    seen = [s for step in range(steps) for s in seeds_of_step(Few(), 0, step, prompts)]
    epochs = [tuple(seen[i : i + 10]) for i in range(0, 100, 10)]
    assert all(sorted(epoch) == list(range(100, 110)) for epoch in epochs)
    assert len(set(epochs)) == 10
    assert seeds_of_step(Few(), 0, 1, prompts) == seen[prompts : 2 * prompts]  # any step alone
    assert [s for i in range(steps) for s in seeds_of_step(Few(), 1, i, prompts)] != seen


@pytest.mark.parametrize("n, in_epochs", [(2**19, True), (2**19 + 1, False)])
def test_up_to_524_288_problems_come_in_epochs(n, in_epochs, monkeypatch):
    monkeypatch.setattr(Few, "seeds", {"train": range(n)})
    independent = [vpo.randomness.integer(0, "instance", 0, str(slot)) % n for slot in range(3)]
    assert (seeds_of_step(Few(), 0, 0, 3) != independent) == in_epochs


def test_generated_problems_are_drawn_independently():
    """As before, so stored runs stay what they are. Of 990,000 problems 2,000 draws meet few twice:
    about 2000^2 / 2 / 990000 = 2.
    """
    task = MazeTask()
    assert seeds_of_step(task, 0, 0, 3) == [
        10_000 + vpo.randomness.integer(0, "instance", 0, str(slot)) % 990_000 for slot in range(3)
    ]
    drawn = [s for step in range(20) for s in seeds_of_step(task, 0, step, 100)]
    assert 0 < len(drawn) - len(set(drawn)) < 10


@pytest.mark.slow
def test_a_prefix_is_the_beginning_of_the_answers():
    """The policy goes on behind a first route that it did not write, and is scored for both."""
    policy = load_policy("pocket-6x6", device="cpu")
    task = MazeTask(maze_seed=1000)
    maze = task.instance(0)
    route = maze.pareto_front().routes[0]
    prefix = task.write(maze, [route], {}) + " <route_2>"
    uniforms = np.random.default_rng(0).random((1, 4, 60))
    group = sample_answers(policy, task, [maze], 2, uniforms, prefixes=[prefix]).groups[0]
    assert all(text.startswith(prefix + " ") for text in group.texts)
    assert [row[0] for row in group.answers] == [route] * 4
    assert np.array_equal(group.rewards[:, 0], np.tile(envs.score_routes(maze, [route]), (4, 1)))
    assert group.valid[:, 1].sum() >= 3  # what it wrote itself reaches E, too
    assert group.prompt.symbols == task.prompt(maze, 2, pocket=policy.pocket).symbols


def test_draws_do_not_depend_on_what_the_neighbours_need():
    keys = [(0, "rollout", 3, "maze"), (0, "rollout", 3, "other")]
    (short, _), (long, _) = (draw_uniforms(4, limits, keys) for limits in ((5, 9), (9, 2)))
    assert np.array_equal(short[:, :5], long[:, :5]) and np.isnan(short[:, 5:]).all()
    assert ((long >= 0) & (long < 1)).all()


@pytest.mark.slow
def test_goal_conditioned_is_shown_its_own_weights_and_the_others_none(tiny, wired):
    cfg = tiny(method="goal_conditioned", maze_seed=None)
    learner = Learner(cfg)
    train_step(learner, cfg, 0)
    ((prompts, *_),) = wired["sample"]
    weights = wired["estimate"][0][2]["weights"]
    assert len(prompts) == 2
    for prompt, w in zip(prompts, weights, strict=True):
        assert w.shape == (1, 4)
        assert " ".join(f"<w{round(10 * x)}>" for x in w[0]) in prompt.symbols
    cfg = tiny(method="random_weighting")
    train_step(Learner(cfg), cfg, 0)
    assert not any("<w" in prompt.symbols for prompt in wired["sample"][1][0])


@pytest.mark.slow
def test_the_kl_in_the_loss_pulls_back_to_the_reference(tiny):
    cfg = tiny(kl=1.0, lr=1e-3)
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    shaken(learner)
    nothing = np.zeros((1, cfg.group_size))
    kls = [update(learner, cfg, rollouts, nothing)["kl"] for _ in range(5)]
    assert kls[-1] < 0.9 * kls[0]


def shaken(learner):
    """The adapter away from zero, so that policy and reference differ."""
    with torch.no_grad():
        for name, p in learner.policy.model.named_parameters():
            if "lora_B" in name:
                p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32)).view_as(p) * 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("kl", "rows"), [(0.0, None), (0.0, 1), (0.0, 5), (1e-9, None)])
def test_the_kl_is_k3_by_hand_over_all_rollouts_whatever_the_micro_batches(tiny, kl, rows):
    cfg = tiny(group_size=6, kl=kl, micro_batch=rows, lr=1e-9)
    learner = Learner(cfg)
    shaken(learner)
    rollouts = rollouts_of(learner, cfg)
    with torch.no_grad():
        p = learner.policy.token_logprobs(rollouts)[0]
    with learner.policy.reference():
        q = learner.policy.token_logprobs(rollouts)[0]
    k3 = (torch.exp(q - p) - (q - p) - 1) * rollouts.mask
    advantages = np.random.default_rng(0).standard_normal((1, 6))
    figures = update(learner, cfg, rollouts, advantages)
    assert figures["kl"] == pytest.approx(float(k3.sum() / rollouts.mask.sum()), rel=1e-3)


@pytest.mark.slow
def test_a_kl_outside_the_loss_is_measured_on_every_fourth_step(tiny):
    assert [r.kl is None for r in train(tiny(steps=6))] == [False, True, True, True, False, True]
    assert all(r.kl is not None for r in train(tiny(steps=3, kl=0.01)))


def test_entropy_counts_the_completion_alone(tiny):
    cfg = tiny(lr=1e-9)
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    rollouts.mask[:, 3:] = False
    with torch.no_grad():
        _, entropy = learner.policy.token_logprobs(rollouts)
    figures = update(learner, cfg, rollouts, np.zeros((1, cfg.group_size)))
    assert figures["entropy"] == pytest.approx(entropy[:, :3].mean().item(), rel=1e-4)


def test_an_entropy_bonus_raises_the_entropy(tiny):
    """Without any reward the bonus alone moves the policy, and towards more entropy."""
    cfg = tiny(lr=1e-2, entropy=1.0)
    learner = Learner(cfg)
    shaken(learner)
    rollouts = rollouts_of(learner, cfg)
    nothing = np.zeros((1, cfg.group_size))
    entropies = [update(learner, cfg, rollouts, nothing)["entropy"] for _ in range(4)]
    assert all(later > earlier for earlier, later in itertools.pairwise(entropies))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 3])
def test_the_gradient_of_an_entropy_bonus_is_that_of_the_mean_entropy(tiny, rows):
    """By torch's own categorical distribution, over all tokens of the batch, however it is cut."""
    cfg = tiny(entropy=0.5, micro_batch=rows, lr=1e-9)
    learner = Learner(cfg)
    shaken(learner)
    rollouts = rollouts_of(learner, cfg)
    logits = completion_logits(learner.policy.model, rollouts, share=True)
    spread = torch.distributions.Categorical(logits=logits).entropy()
    loss = -0.5 * spread[rollouts.mask].mean()
    wanted = torch.autograd.grad(loss, learner.parameters)
    wanted = torch.cat([g.flatten() for g in wanted])
    figures = update(learner, cfg, rollouts, np.zeros((1, cfg.group_size)))
    found = torch.cat([p.grad.flatten() for p in learner.parameters])
    assert figures["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert torch.allclose(found, wanted / max(1.0, wanted.norm().item()), atol=1e-5)
    assert wanted.abs().max() > 1e-4


@pytest.mark.slow
def test_the_adapter_is_the_one_of_the_config(tiny):
    how = dict(rank=3, lora_alpha=5, target_modules="q_proj,v_proj", dtype="bfloat16")
    policies = [Learner(tiny(seed=seed, **how)).policy for seed in (1, 2)]
    lora = policies[0].model.peft_config["default"]
    assert (lora.r, lora.lora_alpha, lora.target_modules) == (3, 5, {"q_proj", "v_proj"})
    assert policies[0].model.get_base_model().dtype == torch.bfloat16
    first, second = (next(p for p in x.model.parameters() if p.requires_grad) for x in policies)
    assert not torch.equal(first, second), "another seed begins elsewhere"
    assert Learner(tiny(gradient_checkpointing=True)).policy.checkpointing


@pytest.mark.slow
def test_the_optimizer_is_the_one_of_the_config(tiny, monkeypatch):
    """AdamW's first step moves a parameter by at most lr, without weight decay; a changed lr acts
    from the next step.
    """
    gain = np.tile([1.0, -1.0, 0.5, -0.5], (2, 1))  # an untrained model's own answers all score 0
    monkeypatch.setattr(step_module.estimators, "estimate", lambda *_, **__: (gain, gain))
    cfg = tiny(steps=2, lr=1e-4)
    learner = Learner(cfg)
    assert learner.optimizer.defaults["weight_decay"] == 0
    before = state_of(learner)
    steps = train(cfg, learner=learner)
    next(steps)
    moved = max(float((p - before[n]).abs().max()) for n, p in state_of(learner).items())
    assert 0.5e-4 < moved <= 1.01e-4
    between = state_of(learner)
    steps.send(cfg.but(lr=1e-2))
    moved = max(float((p - between[n]).abs().max()) for n, p in state_of(learner).items())
    assert moved > 1e-3


@pytest.mark.parametrize("warmup", [0, 1, 3])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_learning_rate_of_each_step_is_that_of_transformers_schedules(tiny, schedule, warmup):
    config = tiny(steps=6, lr=0.01, warmup_steps=warmup, lr_schedule=schedule)
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    theirs = {
        "constant": transformers.get_constant_schedule_with_warmup(other, warmup),
        "cosine": transformers.get_cosine_schedule_with_warmup(other, warmup, 6),
    }[schedule]
    wanted = []
    for _ in range(6):
        wanted.append(theirs.get_last_lr()[0])
        other.step(), theirs.step()
    assert [config.lr_at(step) for step in range(6)] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
def test_each_step_has_the_learning_rate_of_its_place(tiny, monkeypatch):
    """The first one of a warm-up changes nothing."""
    gain = np.tile([1.0, -1.0, 0.5, -0.5], (2, 1))  # an untrained model's own answers all score 0
    monkeypatch.setattr(step_module.estimators, "estimate", lambda *_, **__: (gain, gain))
    config = tiny(steps=4, lr=0.01, warmup_steps=1, lr_schedule="cosine")
    learner, used = Learner(config), []
    step = learner.optimizer.step
    spy = lambda: used.append(learner.optimizer.param_groups[0]["lr"]) or step()  # noqa: E731
    monkeypatch.setattr(learner.optimizer, "step", spy)
    states = [state_of(learner)]
    for _ in train(config, learner=learner):
        states.append(state_of(learner))
    moved = [
        any(not torch.equal(p, before[name]) for name, p in after.items())
        for before, after in itertools.pairwise(states)
    ]
    assert moved == [False, True, True, True]
    assert used == [config.lr_at(step) for step in range(4)] and len(set(used)) == 4


@pytest.mark.parametrize("most", [1.0, 0.25, 0])  # as in TRL, 0 never scales: 1e6 is out of reach
def test_the_gradient_is_scaled_down_to_the_norm_of_the_config(tiny, monkeypatch, most):
    limits = []
    clip = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda p, limit: limits.append(limit) or clip(p, limit)
    )
    list(train(tiny(steps=1, **{"max_grad_norm": most} if most < 1 else {})))
    assert limits == [most or 1e6]


def test_weight_decay_is_adamws_and_may_change_on_the_way(tiny, monkeypatch):
    """Without a gradient a step multiplies each parameter by 1 - lr x weight_decay."""
    silent = np.zeros((2, 4))
    monkeypatch.setattr(step_module.estimators, "estimate", lambda *_, **__: (silent, silent))
    cfg = tiny(steps=2, lr=0.1, weight_decay=0.5)
    learner = Learner(cfg)
    before = state_of(learner)
    steps = train(cfg, learner=learner)
    next(steps)
    between = state_of(learner)
    assert all(torch.allclose(p, 0.95 * before[n], atol=1e-7) for n, p in between.items())
    steps.send(cfg.but(weight_decay=0.0))
    assert all(torch.equal(p, between[n]) for n, p in state_of(learner).items())


def test_training_starts_from_a_base_model(tiny, tmp_path):
    cfg = tiny()
    Learner(cfg).policy.save(tmp_path / "adapter")
    with pytest.raises(ValueError, match="holds a trained adapter"):
        Learner(cfg.but(model=str(tmp_path)))


def test_a_later_epoch_that_fails_says_so_and_makes_no_step(tiny):
    """The first epoch breaks the parameters; the second sees it before its own step."""
    cfg = tiny(epochs=3)
    learner = Learner(cfg)
    rollouts, steps = rollouts_of(learner, cfg), []

    def step():
        steps.append(1)
        for p in learner.parameters:
            p.data.fill_(math.nan)

    learner.optimizer.step = step
    with pytest.raises(TrainingError, match="this update changed nothing"):
        update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]]))
    assert len(steps) == 1


def test_a_sampler_that_gives_nan_stops_the_step(tiny, monkeypatch):
    """It passed for a set that was recombined, which has no log-probabilities of its own."""
    cfg, usual = tiny(), DecoderView.step
    learner = Learner(cfg)
    monkeypatch.setattr(DecoderView, "step", lambda view, tokens: usual(view, tokens) * math.nan)
    before = [p.detach().clone() for p in learner.parameters]
    said = r"the sampler's log-probabilities are not finite: lower lr .*At step 8, first prompt"
    with pytest.raises(TrainingError, match=said):
        train_step(learner, cfg, 7)
    assert all(map(torch.equal, before, learner.parameters))


def test_a_failing_step_names_itself_and_its_prompt(tiny, monkeypatch):
    nothing = np.full((2, 4), math.nan)
    monkeypatch.setattr(step_module.estimators, "estimate", lambda *_, **__: (nothing, nothing))
    cfg = tiny()
    with pytest.raises(TrainingError, match=r"At step 8, first prompt '<m3> <b"):
        train_step(Learner(cfg), cfg, 7)


@pytest.mark.slow
def test_rollouts_cut_off_at_the_limit_are_counted(tiny):
    """An untrained model ends a rollout with probability 1 / vocabulary: at two tokens nearly all
    are cut off.
    """
    (record,) = train(tiny(steps=1, max_new_tokens=2, prompts=4, group_size=16))
    ended = [text.count(" ") + 1 < 2 or "<eos>" in text for g in record.groups for text in g.texts]
    assert (
        record.truncated_rate == pytest.approx(1 - np.mean(ended), abs=0.04)
        and record.truncated_rate > 0.9
    )
    (record,) = train(
        vpo.TrainConfig.preset("demo", steps=1, prompts=1, maze_seed=1000, device="cpu")
    )
    assert record.truncated_rate < 0.1  # the shipped policy knows when to end


def test_a_learner_and_a_run_leave_torchs_threads_as_they_were(tiny):
    torch.set_num_threads(2)
    learner = Learner(tiny(threads=1))
    assert torch.get_num_threads() == 2
    inside = []
    sample = Policy.sample
    learner.policy.sample = lambda *a, **k: (
        inside.append(torch.get_num_threads()) or sample(learner.policy, *a, **k)
    )
    list(train(tiny(threads=1, steps=1), learner=learner))
    assert inside == [1] and torch.get_num_threads() == 2


# --- the loop and the run folder ------------------------------------------------------------------


def state_of(learner):
    return {
        n: p.detach().clone() for n, p in learner.policy.model.named_parameters() if p.requires_grad
    }


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_another(tiny):
    def run(**changes):
        cfg = tiny(steps=2, **changes)
        learner = Learner(cfg)
        return [r.groups[0].texts for r in train(cfg, learner=learner)], state_of(learner)

    (texts, state), (again, same), (other, _) = run(), run(), run(seed=1)
    assert texts == again
    assert all(torch.equal(state[n], same[n]) for n in state)
    assert texts != other


@pytest.mark.slow
def test_a_learner_that_goes_on_draws_what_an_uninterrupted_run_would(tiny):
    cfg = tiny(steps=4, warmup_steps=1, lr_schedule="cosine")
    whole, part = Learner(cfg), Learner(cfg)
    expected = [r.groups[0].texts for r in train(cfg, learner=whole)]
    first = list(islice(train(cfg, learner=part), 2))
    rest = list(train(cfg, learner=part))
    assert [r.step for r in rest] == [3, 4] and part.steps == 4
    assert [r.groups[0].texts for r in [*first, *rest]] == expected
    assert all(torch.equal(p, state_of(part)[n]) for n, p in state_of(whole).items())
    with pytest.raises(ValueError, match="steps = 4: the learner has done 4; ask for more"):
        next(train(cfg, learner=part))


@pytest.mark.slow
def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(tiny, tmp_path):
    cfg = tiny(steps=4, warmup_steps=1, lr_schedule="cosine")
    whole = Learner(cfg)
    records = [r.to_json() for r in train(cfg, learner=whole)]

    folder = RunFolder.create(tmp_path / "run", cfg)
    first = Learner(cfg)
    for record in train(cfg, learner=first):
        folder.append(record)
        if record.step == 2:
            folder.save(first)
        if record.step == 3:
            break  # killed after a step that was not saved
    second = Learner(folder.config())
    assert folder.restore(second, cfg) == second.steps == 2
    for record in train(cfg, learner=second):
        folder.append(record)
    assert all(torch.equal(p, state_of(second)[n]) for n, p in state_of(whole).items())
    timings = {"seconds", "rollout_seconds", "scoring_seconds"}
    lines = [{k: v for k, v in r.to_json().items() if k not in timings} for r in folder.records()]
    assert lines == [{k: v for k, v in row.items() if k not in timings} for row in records]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_may_become_longer_unless_its_learning_rate_falls_to_its_end(
    tiny, tmp_path, schedule
):
    config = tiny(steps=4, lr_schedule=schedule)
    folder = RunFolder.create(tmp_path / "run", config)
    older = {n: v for n, v in config.to_json().items() if n != "warmup_steps"}
    about = {"config": json.dumps(older | {"threads": 2})}  # a setting that came later
    check_unchanged(folder.path, about, None, config)
    if schedule == "constant":
        check_unchanged(folder.path, about, None, config.but(steps=5))
    else:
        with pytest.raises(DamagedError, match="steps changed since the run began"):
            check_unchanged(folder.path, about, None, config.but(steps=5))
        folder.close()
        with pytest.raises(ValueError, match="falls to 0 at step 4"):
            Run.resume(folder.path, steps=5)
        run = Run.begin(config, tmp_path / "whole")
        run.start()
        for _ in run.steps():
            pass
        run.finish()
        said = r"this run is finished \(4 steps\); see vpo-lite compare \S+$"
        with pytest.raises(ValueError, match=said):
            Run.resume(run.path)


@pytest.mark.slow
def test_a_run_may_end_early(tiny, tmp_path):
    run, told = Run.begin(tiny(steps=4), tmp_path / "run"), []
    run.on_problem = lambda *done: told.append(done)
    run.start()
    assert told == [(0, 1), (1, 1)]  # a run on one maze
    assert next(run.steps()).step == 1
    with pytest.raises(
        ValueError, match="1 of 4 steps are done; train the rest, or end it"
    ) as said:
        run.finish()
    run.save()
    end = str(said.value).rpartition("then ")[2]
    assert eval(end, {"Run": Run}).finish()["steps"] == 1
    assert (run.path / "adapter").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError("judge 503"), SystemExit(3), ValueError("too short")])
def test_an_error_while_a_step_is_scored_loses_no_step(tiny, tmp_path, monkeypatch, error):
    """Nothing of that step is trained on yet. With save_every = 10 up to nine steps were lost, and
    a judge was paid for them again. The resumed run equals one without the error, to the bit.
    """

    def begun(name):
        return Run.begin(tiny(steps=5, save_every=10), tmp_path / name)

    for _ in (whole := begun("whole")).steps():
        pass
    run, score = begun("failed"), MazeTask.score

    def failing(self, *given):
        if run.done == 3:
            raise error
        return score(self, *given)

    monkeypatch.setattr(MazeTask, "score", failing)
    with pytest.raises(type(error)):
        run.train(lambda record: False)
    monkeypatch.undo()
    run.close()
    again = Run.resume(run.path)
    assert again.first == 3 and [r.step for r in again.steps()] == [4, 5]
    for a, b in zip(whole.learner.parameters, again.learner.parameters, strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["update", "write", "recombine"])
def test_an_error_after_a_step_has_changed_something_stores_no_state(
    tiny, tmp_path, monkeypatch, where
):
    """A state must hold what there was after a whole step, and say how many there were."""
    method = "vpo_recombined" if where == "recombine" else "vpo"
    run = Run.begin(tiny(method=method, steps=5, save_every=2), tmp_path / "run")
    place = {"update": "update_policy", "recombine": "recombine"}
    owner, name = (run, "write") if where == "write" else (step_module, place[where])
    own = getattr(owner, name)

    def failing(*given):
        found = own(*given)
        if run.done == 3:
            raise ValueError("failed")
        return found

    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(ValueError, match="failed"):
        run.train(lambda record: False)
    monkeypatch.undo()
    run.close()
    assert Run.resume(run.path).first == 2, "of the last regular state"


@pytest.mark.slow
@pytest.mark.parametrize("first", [2, 5])
def test_a_run_that_became_longer_equals_one_that_was_so_long(tiny, tmp_path, first):
    """To the bit on the CPU. With first = 5 its last two steps have no state yet: a kill."""

    def trained(name, steps, stop=None):
        run = Run.begin(tiny(steps=steps, save_every=3), tmp_path / name)
        run.start()
        for record in run.steps():
            if record.step == stop:
                run.close()
                return run.path
        run.finish()
        return run.path

    whole = trained("whole", 4)
    path = trained("longer", 2) if first == 2 else trained("longer", 5, stop=2)
    run = Run.resume(path, steps=4)
    assert run.first == (2 if first == 2 else 0)
    assert not run.folder.finished and run.folder.config() == run.config
    assert [r.step for r in run.steps()] == list(range(run.first + 1, 5))
    run.finish()
    assert {p.name for p in path.iterdir()} == {p.name for p in whole.iterdir()}
    timings = {"seconds", "rollout_seconds", "scoring_seconds"} | {"rollout_share", "scoring_share"}
    plain = lambda row: {k: v for k, v in row.items() if k not in timings}  # noqa: E731
    one, other = map(RunFolder.open, (whole, path))
    assert plain(one.summary()) == plain(other.summary()) and one.summary()["steps"] == 4
    for a, b in zip(one.records(), other.records(), strict=True):
        assert plain(a.to_json()) == plain(b.to_json())
    assert one.config().but(save_every=1) == other.config().but(save_every=1)
    for name in ("adapter/adapter_model.safetensors", "state.safetensors"):
        a, b = (load_file(path / name) for path in (whole, path))
        assert a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [0, 2])  # before there is any state, and after
def test_a_run_may_go_on_where_it_is_computed_otherwise(tiny, tmp_path, stop):
    """On a smaller machine, say. Its settings then say what it was computed with at last."""
    config = tiny(steps=4, save_every=2, lr=1e-2)
    whole = list(train(config))
    run = Run.begin(config, tmp_path / "run")
    run.start()
    for record in run.steps() if stop else ():
        if record.step == stop:
            break
    run.close()
    other = dict(micro_batch=1, sample_batch=2, save_every=1, eval_every=3, keep_texts=1)
    run = Run.resume(run.path, **other)
    assert run.first == stop and run.config == config.but(**other) == run.folder.config()
    for record in run.steps():
        assert record.tokens == whole[record.step - 1].tokens
        assert record.loss == pytest.approx(whole[record.step - 1].loss, abs=1e-5)
    run.finish()
    assert [row["step"] for row in run.folder.measured()] == [3]
    again = Run.resume(run.path, 5, save_every=2)
    assert again.first == 4 and again.config == run.config.but(steps=5, save_every=2)
    again.close()
    stored = (run.path / "config.json").read_text()
    for setting, flag in (("alpha", "--alpha"), ("group_size", "--group-size"), ("no", "--no")):
        with pytest.raises(ValueError, match=f"leave out {flag}: it comes from the run"):
            Run.resume(run.path, 6, **{setting: 2.0})
    with pytest.raises(ValueError, match="micro_batch = 0"):
        Run.resume(run.path, 6, micro_batch=0)
    assert (run.path / "config.json").read_text() == stored


def test_the_command_that_goes_on_with_a_run_can_be_pasted(tiny, tmp_path):
    folder = RunFolder.create(tmp_path / "my run's", tiny())
    with pytest.raises(ValueError, match="not finished") as error:
        folder.summary()
    _, _, pasted = str(error.value).rpartition("go on with: ")
    assert shlex.split(pasted) == ["vpo-lite", "train", "--resume", str(folder.path)]


@pytest.mark.skipif(os.name == "nt", reason="permissions as POSIX has them")
def test_whoever_may_read_a_run_may_resume_it(tiny, tmp_path):
    """Files of safetensors are the owner's alone, whatever the umask says."""
    before = os.umask(0o027)
    try:
        cfg = tiny(steps=1)
        folder = RunFolder.create(tmp_path / "run", cfg)
        learner = Learner(cfg)
        (record,) = train(cfg, learner=learner)
        folder.append(record)
        folder.save(learner)
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in folder.path.iterdir() if p.suffix}
    assert modes == dict.fromkeys(("config.json", "metrics.jsonl", "state.safetensors"), 0o640)


@pytest.mark.slow
def test_a_copy_that_is_not_installed_finishes_its_runs(tiny, tmp_path, not_installed):
    run = Run.begin(tiny(steps=1), tmp_path / "run")
    assert run.train(lambda _: False)
    versions = run.finish()["versions"]
    assert versions["peft"] == peft.__version__ and "vpo_lite" not in versions


@pytest.mark.slow
@pytest.mark.parametrize("rest", ['{"step": 2, "lo', "\n \n"], ids=["half", "empty lines"])
def test_what_follows_the_last_whole_line_is_dropped(tiny, tmp_path, rest):
    folder = RunFolder.create(tmp_path / "run", tiny())
    (record,) = train(tiny(steps=1))
    folder.append(record)
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write(rest)
    assert folder.records() == [record]


@pytest.mark.slow
def test_texts_that_are_kept_and_survive_a_kill(tiny, tmp_path):
    """Three of each step's completions, by turns of the groups; a killed run ends with the same."""
    config = tiny(steps=4, prompts=2, group_size=2, keep_texts=3, save_every=2)
    whole, killed = (Run.begin(config, tmp_path / name) for name in ("whole", "killed"))
    records = list(whole.steps())
    expected = [
        [record.step, g.texts[i], g.answers[i], g.rewards[i].tolist(), g.advantages[i]]
        for record in records
        for g, i in ((record.groups[0], 0), (record.groups[1], 0), (record.groups[0], 1))
    ]
    names = ("step", "text", "answers", "rewards", "advantage")
    lines = (whole.path / "texts.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [[line[name] for name in names] for line in found] == expected
    task = config.make_task()
    assert found[1]["problem"] == task.summary(records[0].groups[1].instance)

    assert [r.step for r in islice(killed.steps(), 3)] == [1, 2, 3]  # a state after step 2
    with open(killed.path / "texts.jsonl", "a") as file:
        file.write('{"step": 4, "pro')
    killed.close()
    again = Run.resume(killed.path)
    assert again.notes == ("1 step after step 2 left no state, and will be trained again",)
    assert len((killed.path / "texts.jsonl").read_text().splitlines()) == 2 * 3
    assert [r.step for r in again.steps()] == [3, 4]
    assert (killed.path / "texts.jsonl").read_text().splitlines() == lines
    assert not any("weights" in line for line in found)  # a group has K of them here


@pytest.mark.slow
def test_texts_that_are_damaged_are_named_and_none_is_lost(tiny, tmp_path):
    run = Run.begin(tiny(steps=4, keep_texts=1, save_every=2), tmp_path / "run")
    assert len(list(islice(run.steps(), 3))) == 3
    run.close()
    texts = run.path / "texts.jsonl"
    first, _, third = texts.read_bytes().splitlines(keepends=True)
    texts.write_bytes(first + b'{"step": 2, oops\n' + third)
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    with pytest.raises(DamagedError, match=r"texts.jsonl, line 2: .*; mend or remove this line"):
        Run.resume(run.path)
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before
    texts.write_bytes(first + third)
    assert [r.step for r in Run.resume(run.path).steps()] == [3, 4]
    steps = [json.loads(line)["step"] for line in texts.read_text().splitlines()]
    assert steps == [1, 3, 4]


@pytest.mark.slow
def test_a_name_that_is_no_text_is_written_so_that_it_can_be_read_again(
    tiny, tmp_path, monkeypatch
):
    """As os.listdir names a file that is not UTF-8: its line could not be read at a resume."""
    monkeypatch.setattr(MazeTask, "summary", lambda self, maze: "caf\udce9")
    run = Run.begin(tiny(steps=2, keep_texts=1), tmp_path / "run")
    assert len(list(islice(run.steps(), 1))) == 1
    run.save(), run.close()
    assert [r.step for r in Run.resume(run.path).steps()] == [2]
    lines = (run.path / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["problem"] for line in lines] == ["caf?"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["random_weighting", "goal_conditioned"])
def test_kept_texts_name_the_weights_from_which_their_advantages_follow(tiny, method, tmp_path):
    config = tiny(steps=1, prompts=2, group_size=4, method=method, keep_texts=8, maze_seed=None)
    run = Run.begin(config, tmp_path / "run")
    list(run.steps())
    lines = list(map(json.loads, (run.path / "texts.jsonl").read_text().splitlines()))
    assert len({tuple(line["weights"]) for line in lines}) == 2  # one vector for each group
    for group in (lines[::2], lines[1::2]):
        w = np.array(group[0]["weights"])
        assert w.sum() == pytest.approx(1) and all(line["weights"] == w.tolist() for line in group)
        s = np.array([line["rewards"][0] for line in group]) @ w
        z = (s - s.mean()) / (s.std() + config.eps)
        assert [line["advantage"] for line in group] == pytest.approx(z, abs=1e-9)


@pytest.mark.slow
def test_breaking_off_and_changing_on_the_way(tiny):
    cfg = tiny(steps=10)
    steps = train(cfg)
    assert next(steps).alpha == 1.0
    assert steps.send(cfg.but(alpha=5.0, K=math.inf, m=2)).alpha == 5.0
    third = next(steps)
    assert (third.step, third.alpha, third.K, third.m) == (3, 5.0, math.inf, 2)
    steps.close()
    with pytest.raises(StopIteration):
        next(steps)


def test_a_learner_takes_no_other_task_and_no_name_of_settings(tiny):
    learner = Learner(tiny())
    with pytest.raises(ValueError, match="a learner has its task"):
        next(train(tiny(), learner=learner, task=MazeTask(maze_seed=7)))
    with pytest.raises(ValueError, match="config = 'demo': expected a TrainConfig"):
        next(train("demo", learner=learner))


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(task="hops"), "task = 'hops': expected a Task object"),
        (dict(learner="x"), "learner = 'x': expected a Learner"),
        (dict(fit="no"), "fit = 'no': expected True or False"),
    ],
)
def test_training_says_what_it_was_given_in_the_wrong_place(tiny, wrong, said):
    with pytest.raises(ValueError) as caught:
        next(train(tiny(), **wrong))
    assert str(caught.value) == said


def test_a_learner_and_a_run_say_it_too(tiny, tmp_path):
    wrong = {
        "config = 'demo': expected a TrainConfig": dict(config="demo"),
        "policy = 'a': expected a policy; give load_policy('a')": dict(policy="a"),
        "task = 'maze': expected a Task object": dict(task="maze"),
    }
    for said, given in wrong.items():
        with pytest.raises(ValueError) as caught:
            Learner(**{"config": tiny()} | given)
        assert str(caught.value) == said
    with pytest.raises(ValueError, match="config = 'demo': expected a TrainConfig"):
        vpo.Run.begin("demo", tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, other",
    [
        ("task", dict(task="hops", model="pocket-hops")),
        ("task_options", dict(maze_seed=12)),
        ("rank", dict(rank=2)),
        ("dtype", dict(dtype="bfloat16")),
        ("device", dict(device="auto")),
        ("gradient_checkpointing", dict(gradient_checkpointing=True)),
        ("target_modules", dict(target_modules="q_proj")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_that_a_learner_was_built_with_does_not_change_in_silence(tiny, name, other):
    config = tiny(steps=3)
    learner = Learner(config)
    before = trained(learner)
    with pytest.raises(ValueError, match=f"^{name} = .*: this learner was built with "):
        next(train(config.but(**other), learner=learner))
    assert all(map(torch.equal, before, trained(learner)))
    steps = train(config, learner=learner)
    next(steps)
    with pytest.raises(ValueError, match=f"^{name} = .*: this learner was built with "):
        steps.send(config.but(**other))


def test_what_a_learner_was_given_does_not_bind_its_settings(tiny):
    """Its own task and policy: the settings' task and model have no part in it."""
    made = Learner(tiny())
    given = Learner(tiny(), policy=made.policy, task=made.task)
    (record,) = train(tiny(steps=1, model="pocket-9x9", rank=2), learner=given)
    assert record.step == 1


def test_a_base_whose_quantisation_cannot_be_trained_is_refused(tiny):
    """A stand-in for MXFP4, which needs a GPU and kernels. TRL's trainer asks the same of it."""
    policy = load_policy("pocket-6x6", device="cpu")
    base = policy.model.get_base_model()
    for trainable in (True, False):
        found = types.SimpleNamespace(quant_method=QuantizationMethod.MXFP4)
        base.hf_quantizer = types.SimpleNamespace(is_trainable=trainable, quantization_config=found)
        base.is_quantized = True
        if trainable:
            Learner(tiny(), policy=policy)
    with pytest.raises(ValueError, match=r"quantised by mxfp4, .* choose a copy in bfloat16"):
        Learner(tiny(), policy=policy)


def trained(learner):
    return [p.detach().clone() for p in learner.parameters]


@pytest.mark.slow
def test_inference_mode_around_a_training_changes_nothing(tiny):
    """Around all of it, or around the making of the learner alone."""
    learners = [Learner(tiny())]
    list(train(tiny(), learner=learners[0]))
    with torch.inference_mode():
        learners.append(Learner(tiny()))
        list(train(tiny(), learner=learners[1]))
        learners.append(Learner(tiny()))
    list(train(tiny(), learner=learners[2]))
    usual, *others = map(trained, learners)
    assert all(torch.equal(a, b) for other in others for a, b in zip(usual, other, strict=True))


@pytest.mark.slow
def test_a_run_that_is_resumed_in_inference_mode_trains_on(tiny, tmp_path):
    run = Run.begin(tiny(), tmp_path / "run")
    assert not run.train(lambda record: record.step == 1)
    run.close()
    with torch.inference_mode():
        run = Run.resume(tmp_path / "run")
    assert run.train(lambda record: False)


@pytest.mark.slow
def test_adapters_come_back_and_refuse_other_weights(tiny, tiny_policy_folder, tmp_path):
    cfg = tiny(lr=1e-2)
    learner = Learner(cfg)
    rollouts = rollouts_of(learner, cfg)
    update(learner, cfg, rollouts, np.array([[1.0, -1.0, 0.5, -0.5]]))
    folder = learner.policy.save(tmp_path / "adapter")
    assert {f.suffix for f in folder.iterdir()} == {".json", ".safetensors"}
    again = load_policy(folder, device="cpu")
    with torch.no_grad():
        assert torch.equal(
            again.token_logprobs(rollouts)[0], learner.policy.token_logprobs(rollouts)[0]
        )
    card = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(card | {"fingerprint": "0" * 32}))
    with pytest.raises(ValueError, match="other parameters than those of"):
        load_policy(folder, device="cpu")


def test_an_adapter_belongs_to_the_weights_that_it_was_trained_on(tiny_policy_folder, tmp_path):
    """Other weights came into the base's folder after the run had noted the fingerprint."""
    base = shutil.copytree(tiny_policy_folder, tmp_path / "base")
    policy = load_policy(base, device="cpu")
    assert policy.fingerprint is not None
    (weights,) = base.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\x00\x40")  # the last number: 2.0
    with pytest.raises(ValueError, match="other parameters than those of"):
        load_policy(policy.save(tmp_path / "adapter"), device="cpu")


@pytest.mark.slow
def test_loading_a_policy_twice_gives_equal_fresh_adapters(tiny_policy_folder):
    a, b = (load_policy(tiny_policy_folder, seed=3, device="cpu") for _ in range(2))
    c = load_policy(tiny_policy_folder, seed=4, device="cpu")
    pick = lambda p: next(v for n, v in p.model.named_parameters() if "lora_A" in n)  # noqa: E731
    assert torch.equal(pick(a), pick(b))
    assert not torch.equal(pick(a), pick(c))


@pytest.mark.slow
def test_threads_that_load_at_once_get_the_adapters_of_their_seeds():
    """A panel warms up in a thread of its own while a cell loads a policy. Torch's random stream,
    the filters of warnings and the libraries' verbosity belong to all threads together.
    """

    def adapter(seed):
        policy = load_policy("pocket-6x6", seed=seed, device="cpu")
        return [p.detach() for name, p in policy.model.named_parameters() if "lora_A" in name]

    def shared():
        levels = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
        return torch.get_rng_state().tolist(), list(warnings.filters), levels

    alone, before = [adapter(seed) for seed in (0, 1)], shared()
    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(adapter, (0, 1)))
        for ours, theirs in zip(alone, together, strict=True):
            assert all(map(torch.equal, ours, theirs))
        assert shared() == before


def test_torchs_own_random_streams_are_left_alone(tiny, monkeypatch):
    """On the CPU and on GPUs: torch.manual_seed would seed them all."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    list(train(tiny(steps=1)))
    assert torch.equal(torch.rand(3), expected) and not seeded


# --- learning -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_vpo_learns_to_hold_both_treasures_where_grpo_cannot():
    """The probe maze gold_or_diamond has two best answers. Its exact numbers say what can be had: a
    set may hold both, one answer covers less. Twelve small steps of VPO must end above that
    ceiling."""
    maze = envs.PROBES["gold_or_diamond"]
    front = maze.pareto_front().rewards
    ceiling = vpo.coverage(front[[vpo.best_subset(front, 1)[0][0]]], front)
    cfg = vpo.TrainConfig.preset(
        "demo",
        maze=maze.text,
        maze_budget=maze.budget,
        m=2,
        prompts=2,
        group_size=16,
        steps=12,
        lr=2e-3,
        device="cpu",
    )
    records = list(train(cfg))
    assert records[-1].coverage > max(ceiling, records[0].coverage)


# --- configs --------------------------------------------------------------------------------------


def test_the_presets_are_the_ones_of_the_design():
    table = {
        "demo": (40, 4, 16, 64, 3, 1e-3, 16, 32, 0, 1e-4, 1, 1),
        "patient": (80, 2, 16, 64, 3, 1e-3, 16, 32, 0, 1e-4, 1.2, 1),
        "laptop": (250, 16, 8, 64, 3, 4e-4, 16, 32, 1e-3, 1e-4, 1, 1),
        "gpu": (300, 32, 16, 100, 3, 2e-4, 32, 64, 1e-3, 1e-6, 1, 10),
        "paper": (16, 128, 8, 100, 3, 1e-5, 64, 128, 1e-3, 1e-6, 1, 10),
    }
    for name, row in table.items():
        c = vpo.TrainConfig.preset(name)
        assert (
            c.steps,
            c.prompts,
            c.group_size,
            c.K,
            c.m,
            c.lr,
            c.rank,
            c.lora_alpha,
            c.kl,
            c.eps,
            c.temperature,
            c.save_every,
        ) == row
    release = dict(mini_batches=2, dual_clip=3, weight_decay=0.01)  # spec/domains.md
    for name, value in release.items():
        others = {n: getattr(vpo.TrainConfig.preset(n), name) for n in table if n != "paper"}
        assert getattr(vpo.TrainConfig.preset("paper"), name) == value, name
        assert set(others.values()) == {getattr(vpo.TrainConfig(), name)}, name


def test_a_config_takes_the_smallest_pocket_policy_that_reads_the_board():
    config = vpo.TrainConfig.preset("demo")
    model = lambda **changes: config.but(**changes).base_model  # noqa: E731
    assert [model(layout=name) for name in ("tiny-4x4", "lite-6x6", "hard-8x8", "paper-9x9")] == [
        "pocket-6x6",
        "pocket-6x6",
        "pocket-9x9",
        "pocket-9x9",
    ]
    wide = "S.....E"
    assert (
        model(maze=wide)
        == model(maze=" ".join(wide))
        == model(maze="\n".join(wide))
        == "pocket-9x9"
    )
    assert (
        model(maze="\nS . .\n. . E\n")
        == model()
        == model(layout="paper-9x9", maze="S . E")
        == "pocket-6x6"
    )
    assert model(layout="paper-9x9", model="other") == "other"
    stored = config.but(layout="paper-9x9").to_json()
    assert (
        stored["model"] == "pocket-9x9" and vpo.TrainConfig.from_json(stored).model == "pocket-9x9"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(method="ppo"), "unknown method 'ppo'.*vpo, grpo"),
        (dict(task="chess"), "unknown task 'chess'"),
        (dict(layout="x"), "unknown layout 'x'.*lite-6x6"),
        (dict(m=0), "m = 0"),
        (dict(m=2.0), "m = 2.0"),
        (dict(m=True), "m = True"),
        (dict(K=0), "K = 0.*inf"),
        (dict(K=2.5), "K = 2.5"),
        (dict(K=10**13), "at most 1,000,000"),
        (dict(lr=1e300), "at most 1"),
        (dict(method="grpo", set_size=5, group_size=4), "set_size = 5 with group_size = 4"),
        (dict(method="grpo", group_size=2), "by default of 3, .*; give set_size = 2,"),
        (dict(alpha=0.0), "alpha = 0.0"),
        (dict(alpha=-1), "alpha = -1"),
        (dict(alpha=math.nan), "alpha = nan"),
        (dict(alpha=math.inf), "alpha = inf"),
        (dict(group_size=1), "group_size = 1.*2 or more"),
        (dict(lr=-1e-3), "lr = -0.001"),
        (dict(kl=-1.0), "kl = -1.0"),
        (dict(k=16), "k = 16 with group_size = 16"),
        (dict(reward_mode="cubic"), "cubic"),
        (dict(aggregation="mean"), "unknown aggregation 'mean'"),
        (dict(micro_batch=0), "micro_batch = 0"),
        (dict(mini_batches=3), "mini_batches = 3 with prompts = 4: .* set mini_batches = 1, or"),
        (dict(mini_batches=3), "or to another divisor of prompts .preset demo sets prompts = 4.$"),
        (dict(mini_batches=8), "mini_batches = 8 with prompts = 4"),
        (dict(dual_clip=1.0), "dual_clip = 1.0: must be .* above 1"),
        (dict(max_grad_norm=-1), "max_grad_norm = -1"),
        (dict(clip=1.5), "clip = 1.5: must be .* at most 1$"),  # 1 - clip would bound nothing
        (dict(weight_decay=-0.1), "weight_decay = -0.1"),
        (dict(warmup_steps=40), "warmup_steps = 40 with steps = 40"),
        (dict(lr_schedule="linear"), "unknown lr_schedule 'linear': there are constant, cosine"),
        (dict(maze="S E\nS ."), "S"),
        (dict(maze="S # E\n. # ."), "no path"),
        (dict(maze="S . .\n. E"), "row"),
        (dict(maze="S E", maze_seed=3), "one of the two"),
        (dict(seed=-1), "seed = -1"),
        (dict(typo=1), "unknown setting 'typo'"),
    ],
)
def test_configs_that_cannot_work_are_refused_with_the_value(changes, message):
    with pytest.raises(ValueError, match=message):
        vpo.TrainConfig.preset("demo", **changes)


def test_a_refusal_names_the_values_that_are_the_presets_own():
    with pytest.raises(ValueError, match="; set mini_batches = 1, or to") as caught:
        vpo.TrainConfig.preset("paper", prompts=33)
    assert str(caught.value).endswith(" (preset paper sets mini_batches = 2)")
    with pytest.raises(ValueError) as caught:
        vpo.TrainConfig.preset("paper", prompts=33, mini_batches=2)
    assert "preset" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lrr": 3}, "unknown setting 'lrr'; did you mean lr?"),
        ({"G": 8}, "unknown setting 'G'; did you mean group_size?"),
        ({"P": 8}, "unknown setting 'P'; did you mean prompts?"),
        ({"beta": 0.1}, "unknown setting 'beta'; did you mean kl?"),
        ({"num_generations": 8}, "unknown setting 'num_generations'; did you mean group_size?"),
        ({"maze_sed": 3}, "unknown setting 'maze_sed'; did you mean maze_seed?"),
    ],
)
def test_a_mistyped_setting_is_answered_with_the_nearest_one(changes, said):
    for made in (vpo.TrainConfig, vpo.TrainConfig.preset("demo").but):
        with pytest.raises(ValueError) as caught:
            made(**changes)
        assert str(caught.value) == said


def test_a_config_takes_the_options_of_its_task_like_a_preset():
    plain = vpo.TrainConfig(task="hops", hops=2)
    assert plain.task_options == {"hops": 2} and plain == vpo.TrainConfig().but(task="hops", hops=2)


def test_numbers_of_numpy_are_settings_and_become_pythons():
    given = dict(seed=np.int64(3), alpha=np.float32(0.5), maze_seed=np.int32(7), compile=np.False_)
    config = vpo.TrainConfig.preset("demo", **given)
    assert config == vpo.TrainConfig.preset("demo", seed=3, alpha=0.5, maze_seed=7)
    assert json.loads(json.dumps(config.to_json()))["seed"] == 3


def test_a_setting_is_stored_the_same_whether_it_was_written_1_or_1_0():
    """`compare` tells kinds of runs apart by what is stored."""
    whole, real = (
        json.dumps(vpo.TrainConfig(alpha=one, kl=zero, K=K).to_json())
        for one, zero, K in ((1, 0, 8), (1.0, 0.0, 8.0))
    )
    assert whole == real and '"alpha": 1.0, ' in whole and '"K": 8, ' in whole


def test_configs_are_frozen_and_survive_json():
    c = vpo.TrainConfig.preset("demo", K=math.inf, maze_seed=7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.alpha = 2
    assert vpo.TrainConfig.from_json(json.loads(json.dumps(c.to_json()))) == c.but(
        model="pocket-6x6"
    )  # auto by name


def test_seed_ranges_do_not_touch(tiny):
    from vpo_lite.pocket.pretrain import HELD_OUT

    learner = Learner(tiny(maze_seed=None))
    seeds = learner.task.seeds
    assert seeds["held_out"].stop <= seeds["validation"].start
    assert seeds["validation"].stop <= seeds["train"].start
    assert seeds["train"].stop <= seeds["pretraining"].start
    assert HELD_OUT.stop <= seeds["held_out"].stop
    assert (seeds["train"], seeds["pretraining"]) == (
        envs.SEEDS["training"],
        envs.SEEDS["pretraining"],
    )
    drawn = []
    learner.task.instance = drawn.append
    problems_of_step(learner.task, 0, 3, 50)
    assert all(seed in seeds["train"] for seed in drawn)
    assert len(set(drawn)) == 50
