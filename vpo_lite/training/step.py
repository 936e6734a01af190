"""One training step, from prompts to the LoRA update, and the record of what happened in it.

What differs from the reference configuration of the paper: one machine, LoRA instead of all weights, and by default one
epoch per batch, so that the ratio starts at exactly 1. What differs between the methods: one line, ``advantages``.
"""

import dataclasses
import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .. import estimators, metrics
from ..objective import exact_set_reward, sample_weights
from ..policy.decoding import SMALL_UPDATE, DecoderView, compiler_missing, one_thread_if_small
from ..policy.model import Policy, adapter_folder, load_policy
from ..randomness import generator, integer
from ..tasks.base import Task, for_training, group_key, reward_matrix
from .config import TRAINING_SEEDS, TrainConfig
from .loss import clipped_loss, kl_to_reference, token_weights

KL_EVERY = 4  # a KL that is only reported is estimated on every fourth rollout


class TrainingError(RuntimeError):
    """Training cannot go on; the message says at which step, on what, and what to do. Nothing was updated."""


@dataclass(frozen=True)
class Group:
    """What one prompt group wrote: its instance, texts (G), answers (G lists of m), reward vectors (G, m, d) as measured
    (repeats keep theirs), and advantages (G,)."""

    instance: Any
    texts: list[str]
    answers: list[list[str | None]]
    rewards: np.ndarray
    advantages: np.ndarray


@dataclass(frozen=True)
class StepRecord:
    """What one step saw and did. Figures are means over the step's rollouts, taken before its update.

    step: 1, 2, ...; method, alpha, K, m: as used in this step; score: the number that the method raises (U_hat for vpo);
    set_reward: exact expected best answer of a compared set at the run's alpha, K = infinity; coverage: the same at
    alpha = 1 over that of the true front (None without a known front); diversity: mean pairwise L1 among the answers that
    succeed; parse_rate, reach_rate, repeat_rate: shares of the answers asked for; objectives: means by name; slots: mean
    ``w* . r`` of the 1st, 2nd, ... answer; silent_groups: share of groups whose advantages were all 0; entropy: nats per
    token; kl: k3 to the reference, nats per token (outside the loss estimated on every fourth rollout); clip_share;
    gradient_norm before clipping; loss; tokens: sampled; seconds, rollout_seconds: of the step and its sampling;
    sampler_gap: mean |log-probability of the sampler - of the trainer| per token, nats: below 1e-4 in float32, and some 5e-3
    where bfloat16 rounds; more, and the two are not the same policy.
    """

    step: int
    method: str
    alpha: float
    K: float
    m: int
    score: float
    set_reward: float
    coverage: float | None
    diversity: float
    parse_rate: float
    reach_rate: float
    repeat_rate: float
    objectives: dict[str, float]
    slots: list[float]
    silent_groups: float
    entropy: float
    kl: float
    clip_share: float
    gradient_norm: float
    loss: float
    tokens: int
    seconds: float
    rollout_seconds: float
    sampler_gap: float = 0.0
    groups: tuple[Group, ...] = field(default=(), repr=False, compare=False)

    def to_json(self) -> dict:
        """One line of metrics.jsonl: all but the groups; K = inf is the text "inf", an undefined figure is null."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "groups"}
        values["K"] = "inf" if self.K == math.inf else self.K
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


class Learner:
    """What a run carries from step to step: policy, task, optimizer."""

    def __init__(self, config: TrainConfig, policy: Policy | None = None):
        if config.threads:
            torch.set_num_threads(config.threads)
        self.task: Task = config.make_task()
        self.policy = policy or load_policy(
            _base_of(config.base_model), device=config.device, rank=config.rank, lora_alpha=config.lora_alpha, seed=config.seed,
            dtype=config.dtype, load_in=config.load_in, gradient_checkpointing=config.gradient_checkpointing,
        )
        if config.compile:
            _check_compile(self.policy)
        self.parameters = [p for p in self.policy.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=config.lr, weight_decay=0.0)
        # a prompt that this policy cannot read is refused before anything runs
        self.policy.encode(self.prompt(config, self.task.instance(TRAINING_SEEDS[0])))

    def instances(self, config: TrainConfig, step: int) -> list:
        """The P problems of a step: the run's one maze P times, or P training mazes."""
        seeds = (integer(config.seed, "instance", step, str(slot)) for slot in range(config.prompts))
        return [self.task.instance(TRAINING_SEEDS[seed % len(TRAINING_SEEDS)]) for seed in seeds]

    def prompt(self, config: TrainConfig, instance, weights=None) -> str:
        return self.task.request(instance, config.answers, weights=weights, board=self.policy.board)


def longest_completion(policy: Policy, task: Task, config: TrainConfig, instances) -> int:
    """Most tokens to sample for these problems: what m answers need, unless the config says."""
    if config.max_new_tokens:
        return config.max_new_tokens
    per_answer = max(task.answer_tokens(instance) for instance in instances)
    return config.answers * (per_answer if policy.board else 4 * per_answer + 16) + 1


def _check_compile(policy: Policy) -> None:
    """ValueError where ``compile`` would fail, or do nothing."""
    missing = compiler_missing(policy.device)
    if missing is None and not DecoderView.knows(policy.model):
        missing = f"{type(policy.model.get_base_model()).__name__} with these weights samples through its own forward pass"
    if missing:
        raise ValueError(f"compile = True: {missing}; leave it out, or see to that")


def _base_of(model: str) -> str:
    """Training starts from a base model: a trained adapter would be measured against the wrong start and reference."""
    if adapter_folder(model) is not None:
        raise ValueError(
            f"model = {model!r}: holds a trained adapter, and training starts from a base model; a broken-off run goes on with "
            "--resume"
        )
    return model


def train_step(learner: Learner, config: TrainConfig, step: int) -> StepRecord:
    """Sample, score, update: one step of any method. ``step`` counts from 0 and keys every random draw."""
    started, policy, task = time.perf_counter(), learner.policy, learner.task
    instances = learner.instances(config, step)                                      # P problems
    keys = [group_key(task, x, slot) for slot, x in enumerate(instances)]            # two groups on one maze draw differently
    weights = draw_weights(task, config, instances, keys, step)                      # P times (K, d), shared in a group
    shown = weights if estimators.METHODS[config.method].weight_in_prompt else [None] * len(instances)
    prompts = [learner.prompt(config, x, None if w is None else w[0]) for x, w in zip(instances, shown, strict=True)]
    shape = (config.group_size, longest_completion(policy, task, config, instances))
    uniforms = np.stack([draw_uniforms(shape, config.seed, "rollout", step, key) for key in keys])  # (P, G, T)
    how = dict(dtype=config.rollout_dtype, compiled=config.compile)
    rollouts = policy.sample(prompts, uniforms, config.temperature, **how)           # B = P * G completions
    sampled = time.perf_counter()
    texts = _grouped(policy.texts(rollouts), config.group_size)                      # P lists of G
    answers = [[task.parse(x, text, config.answers) for text in group] for x, group in zip(instances, texts, strict=True)]
    scored = [reward_matrix(task, x, group) for x, group in zip(instances, answers, strict=True)]
    R = [for_training(s, task.worst(x)) for s, x in zip(scored, instances, strict=True)]  # P times (G, m, d)
    w_star = [task.w_star(x) for x in instances]
    scores, advantages = estimators.estimate(                                        # (P, G) both
        config.method, R, weights=weights, alpha=config.alpha, w_star=w_star, k=config.k, eps=config.eps
    )
    where = f"step {step + 1}, first prompt {prompts[0]!r}"
    with one_thread_if_small(policy.model, rollouts.mask.numel(), SMALL_UPDATE):
        update = update_policy(learner, config, rollouts, advantages, where=where, longest=shape[1])
    groups = tuple(
        Group(x, t, a, s.rewards, A) for x, t, a, s, A in zip(instances, texts, answers, scored, advantages, strict=True)
    )
    return StepRecord(
        step=step + 1, method=config.method, alpha=config.alpha, K=config.K, m=config.answers, score=float(scores.mean()),
        silent_groups=float((advantages == 0).all(1).mean()), tokens=int(rollouts.mask.sum()),
        **measure(task, config, groups), repeat_rate=float(np.mean([s.repeats for s in scored])), **update,
        seconds=time.perf_counter() - started, rollout_seconds=sampled - started, groups=groups,
    )


def draw_uniforms(shape, *key) -> np.ndarray:
    """Uniforms (G, T) for the tokens of one prompt group. Token by token, so that a larger T only adds to them: what a
    prompt's neighbours need changes nothing."""
    rollouts, tokens = shape
    return generator(*key).random((tokens, rollouts)).T


def draw_weights(task: Task, config: TrainConfig, instances, keys, step: int):
    """The weights of a step: one array (K, d) per prompt group, the same for all its rollouts. None: the exact expectation,
    or a method without weights."""
    needed = estimators.METHODS[config.method].weights
    K = {"none": math.inf, "one": 1, "many": config.K}[needed]
    if K == math.inf:
        return None
    return [
        sample_weights(K, len(task.objectives(x)), config.alpha, rng=generator(config.seed, "weights", step, key))
        for x, key in zip(instances, keys, strict=True)
    ]


def update_policy(learner: Learner, config: TrainConfig, rollouts, advantages, *, where: str, longest: int = 0) -> dict:
    """Ascend the clipped objective, ``config.epochs`` times; returns the last pass's figures. ``longest``: most tokens that
    a rollout could have had. A loss that is no number stops the run before the update."""
    rows, mask = config.micro_batch or len(rollouts.tokens), rollouts.mask
    parts = [slice(i, i + rows) for i in range(0, len(mask), rows)]
    weights = token_weights(mask, config.aggregation, longest or mask.shape[1])
    gain = torch.as_tensor(advantages.reshape(-1), device=mask.device)
    told = torch.arange(len(mask), device=mask.device) % (1 if config.kl else KL_EVERY) == 0  # rows that the KL is taken on
    before = [None] * len(parts)  # (old, reference) log-probabilities of each part
    kept = [p.detach().clone() for p in learner.parameters] if config.epochs > 1 else []
    gap = 0.0
    for _ in range(config.epochs):
        learner.optimizer.zero_grad(set_to_none=True)
        total = kl_total = entropy_total = clipped_total = 0.0
        for i, part in enumerate(parts):
            some = rollouts.rows(part)
            logp, entropy = learner.policy.token_logprobs(some, config.temperature)
            if before[i] is None:
                before[i] = logp.detach(), _reference_logprobs(learner.policy, some, told[part], config)
                gap += ((logp.detach() - rollouts.logprobs[part]).abs() * mask[part]).sum().item()
            old_logp, reference_logp = before[i]
            loss, clipped = clipped_loss(logp, old_logp, gain[part], weights[part], config.clip)
            kl = kl_to_reference(logp[told[part]], reference_logp, weights[part][told[part]])
            loss = loss + config.kl * kl if config.kl else loss
            loss.backward()
            total, kl_total, clipped_total = total + loss.item(), kl_total + kl.item(), clipped_total + clipped
            entropy_total += (entropy * mask[part]).sum().item()
        norm = torch.nn.utils.clip_grad_norm_(learner.parameters, 1.0)
        if not (math.isfinite(total) and torch.isfinite(norm)):
            learner.optimizer.zero_grad(set_to_none=True)
            with torch.no_grad():
                for p, value in zip(learner.parameters, kept, strict=False):
                    p.copy_(value)
            raise TrainingError(
                f"loss = {total:g}, gradient norm = {norm.item():g}: lower lr ({config.lr:g}) or raise kl ({config.kl:g}); the "
                f"adapter is as it was before this step. At {where}"
            )
        learner.optimizer.step()
    tokens = int(mask.sum())
    return dict(
        loss=total, kl=kl_total * (weights.sum() / weights[told].sum()).item(), clip_share=clipped_total / tokens,
        gradient_norm=norm.item(), entropy=entropy_total / tokens, sampler_gap=gap / tokens,
    )


def _reference_logprobs(policy: Policy, rollouts, told, config: TrainConfig):
    """The reference policy's log-probabilities (told, T) of some of the rows: a pass that costs a third of the update."""
    if not told.any():
        return rollouts.logprobs[told]
    with policy.reference():
        return policy.token_logprobs(rollouts.rows(told), config.temperature)[0]


def measure(task: Task, config: TrainConfig, groups) -> dict:
    """The figures of a step that need no model: exact set reward and coverage of the compared sets, diversity, rates."""
    set_rewards, coverages, diversities = [], [], []
    for group in groups:
        sets = metrics.as_sets(group.rewards, config.compared_size)
        set_rewards.append(exact_set_reward(sets, config.alpha).mean())
        front = task.front(group.instance)
        if front is not None:
            coverages.append(metrics.coverage(sets, front).mean())
        pool = group.rewards.reshape(-1, group.rewards.shape[-1])
        diversities.append(metrics.diversity(pool, success=task.succeeded(pool)))
    names = task.objectives(groups[0].instance)
    same = all(task.objectives(g.instance) == names for g in groups)
    w_star = [task.w_star(g.instance) for g in groups]
    return dict(
        set_reward=float(np.mean(set_rewards)),
        coverage=float(np.mean(coverages)) if coverages else None,
        diversity=float(np.mean(diversities)),
        parse_rate=float(np.mean([a is not None for g in groups for row in g.answers for a in row])),
        reach_rate=float(np.mean([task.succeeded(g.rewards) for g in groups])),
        objectives=dict(zip(names, _mean_vector(groups), strict=True)) if same else {},
        slots=[float(x) for x in np.mean([(g.rewards @ w).mean(0) for g, w in zip(groups, w_star, strict=True)], axis=0)],
    )


def _mean_vector(groups) -> list[float]:
    return [float(x) for x in np.mean([g.rewards.mean((0, 1)) for g in groups], axis=0)]


def _grouped(rows: list, size: int) -> list[list]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]
