"""One training step, from prompts to the LoRA update.

What differs from the paper: one machine, and LoRA instead of all parameters. Its two updates in a
step, dual clip and weight decay are settings, which preset "paper" has. Methods differ in the call
of ``estimate``; weight_in_prompt and recombines change more.
"""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from .. import estimators
from ..checks import shown
from ..policy.policy import Policy
from ..policy.sampling import Rollouts
from ..policy.threads import SMALL_UPDATE, one_thread_if_small
from ..tasks.base import group_key
from .config import TrainConfig
from .contract import worst_of
from .errors import TrainingError
from .learner import Learner
from .loss import clipped_loss, entropy_bonus, kl_to_reference, token_weights
from .measure import rollout_fields
from .problems import draw_weights, estimate, problems_of_step, single_weights, token_limit
from .recombine import recombine
from .record import StepRecord
from .rollouts import draw_uniforms, sample_answers, token_limits

# A KL that is not in the loss is measured on steps 1, 5, 9, ...: it takes one more forward pass.
KL_EVERY = 4


@torch.inference_mode(False)  # a notebook may have turned it on around the whole loop
def train_step(learner: Learner, config: TrainConfig, step: int) -> StepRecord:
    """Do one step of any method: sample, score, update.

    step: counts from 0, and keys every random draw.
    """
    started, policy, task = time.perf_counter(), learner.policy, learner.task
    method = estimators.METHODS[config.method]
    instances = problems_of_step(task, config.seed, step, config.prompts)  # P problems
    keys = [group_key(task, x, slot) for slot, x in enumerate(instances)]
    weights = draw_weights(task, config, instances, keys, step)  # P times (K, d), shared in a group
    limits = token_limits(policy, task, config.answers, instances, config.max_new_tokens)
    draws = [(config.seed, "rollout", step, key) for key in keys]
    uniforms = draw_uniforms(config.group_size, limits, draws)  # (P, G, T)
    single = single_weights(config.method, weights, len(instances))
    groups, rollouts, scoring = sample_answers(  # P groups of G rollouts of m answers
        policy,
        task,
        instances,
        config.answers,
        uniforms,
        temperature=config.temperature,
        weights=single if method.weight_in_prompt else None,
        dtype=config.rollout_dtype,
        compiled=config.compile,
        at_once=config.sample_batch,
    )
    sampled = time.perf_counter()
    where = f"step {step + 1}, first prompt {shown(groups[0].prompt.text, 400)}"
    _check_sampled(rollouts, config, where)
    pay = config.pay_repeats
    R = [x.for_training(worst_of(task, x.instance), pay) for x in groups]  # P times (G, m, d)
    trained, gave_way = rollouts, False
    if method.recombines:
        learner.whole = False  # the best sets change
        R, trained, gave_way = recombine(
            policy, task, groups, rollouts, R, learner.found, weights, config.alpha, limits
        )
    try:
        scores, advantages = estimate(task, config, instances, R, weights)  # (P, G) both
    except ValueError as error:  # rewards that this method cannot take
        raise TrainingError(f"{error}. At {where}") from error
    measure_kl = config.kl > 0 or step % KL_EVERY == 0
    for parameters in learner.optimizer.param_groups:
        parameters |= {"lr": config.lr_at(step), "weight_decay": config.weight_decay}
    with one_thread_if_small(policy.model, trained.mask.numel(), SMALL_UPDATE):
        learner.whole = False
        update = update_policy(learner, config, trained, advantages, measure_kl, where)
        learner.whole = True
    own = np.where(gave_way, 0.0, advantages)  # nothing was learnt from a rollout that gave way
    return StepRecord(
        step=step + 1,
        **rollout_fields(task, config, groups, scores, own, single),
        **update._asdict(),
        seconds=time.perf_counter() - started,
        rollout_seconds=sampled - started,
        scoring_seconds=scoring,
    )


def _check_sampled(rollouts: Rollouts, config: TrainConfig, where: str) -> None:
    """TrainingError for NaN from the sampler: later it would look like a set that was recombined,
    which has no log-probabilities of its own.
    """
    if not rollouts.logprobs.isfinite().all():
        raise TrainingError(
            f"the sampler's log-probabilities are not finite: lower lr ({config.lr:g}), or set "
            f"rollout_dtype float32; this step changed nothing. At {where}"
        )


class Update(NamedTuple):
    """Figures of the last pass over a step's rollouts, named as in a StepRecord. Loss, KL and
    gradient norm are means over its mini-batches.
    """

    loss: float
    kl: float | None
    clip_share: float
    gradient_norm: float
    entropy: float
    sampler_gap: float


def _divisor(learner: Learner, config: TrainConfig) -> int | None:
    """What the aggregation "constant" divides by: one number for a whole run, as in TRL."""
    if config.aggregation != "constant":
        return None
    return token_limit(learner.task, config, learner.policy.pocket)


@torch.enable_grad()  # a notebook, or the code of a reward, may have turned gradients off
def update_policy(
    learner: Learner,
    config: TrainConfig,
    rollouts: Rollouts,
    advantages: np.ndarray,
    measure_kl: bool,
    where: str = "a step",
) -> Update:
    """Take ``config.epochs`` passes over the rollouts. Each mini-batch is one step of AdamW on

        clipped_loss + kl * kl_to_reference - entropy * entropy_bonus

    whose gradient, summed over the micro-batches, is scaled down to norm max_grad_norm. Where kl
    and entropy are 0, a group whose advantages are all 0 has no gradient. It is only run forward,
    for the figures. With mask_truncated the tokens of a rollout that was cut off do not count.

    - advantages: (P, G), one number for all tokens of a rollout
    - measure_kl: whether the KL to the reference is computed
    - where: step and prompt, for an error

    Raises TrainingError if loss or gradient is not finite. That update changes no parameter.
    """
    policy, batches = learner.policy, _mini_batches(learner, config, rollouts, advantages)
    parts = [part for batch in batches for part in batch]
    if measure_kl:  # here, because no backward pass holds memory yet
        with policy.reference():
            for part in parts:
                part.reference = policy.token_logprobs(part.rollouts, config.temperature)[0]
    with torch.no_grad():  # before an update: the first mini-batch reads its own in its first pass
        for part in (part for batch in batches[1:] for part in batch):
            part.old = policy.token_logprobs(part.rollouts, config.temperature)[0]
    for _ in range(config.epochs):
        done = [_take_step(learner, config, batch, where) for batch in batches]
    losses, norms, found = zip(*done, strict=True)
    kls, clips, entropies = zip(*(one for batch in found for one in batch), strict=True)
    tokens = int(rollouts.mask.sum())
    return Update(
        loss=sum(losses) / len(batches),
        kl=_sum(kls) / len(batches) if measure_kl else None,
        clip_share=_sum(clips) / tokens,
        gradient_norm=sum(norms) / len(batches),
        entropy=_sum(entropies) / tokens,
        sampler_gap=_sampler_gap(parts),
    )


def _mini_batches(
    learner: Learner, config: TrainConfig, rollouts: Rollouts, advantages: np.ndarray
) -> list[list["_Part"]]:
    """The rollouts as mini-batches of whole prompts, each in micro-batches."""
    mask = rollouts.mask
    counted = mask & ~rollouts.truncated[:, None] if config.mask_truncated else mask
    gain = torch.from_numpy(advantages.reshape(-1)).float().to(mask.device)
    lengths = mask.sum(1).cpu().numpy().reshape(advantages.shape)
    learns = advantages.any(1) | (config.kl > 0 or config.entropy > 0)  # (P,)
    batches, (P, G) = [], advantages.shape
    for prompts in np.split(np.arange(P), config.mini_batches):
        rows = slice(prompts[0] * G, (prompts[-1] + 1) * G)
        weights = token_weights(counted[rows], config.aggregation, _divisor(learner, config))
        size, parts = len(weights), []
        for cut in _cuts(lengths[prompts], learns[prompts], config.micro_batch or size):
            at = cut + rows.start
            some = rollouts if len(cut) == len(mask) else rollouts.rows(at)
            used = weights[cut, : some.mask.shape[1]]
            parts.append(_Part(some, gain[at], used, bool(learns[at[0] // G])))
        batches.append(parts)
    return batches


def _take_step(learner: Learner, config: TrainConfig, batch: list["_Part"], where: str) -> tuple:
    """One step of AdamW. Returns loss and gradient norm, and of each micro-batch its parts of the
    KL, of the clipped tokens and of the entropies. To read these now would be to wait.
    """
    learns = any(part.learns for part in batch)
    for p in learner.parameters:  # AdamW leaves out a parameter whose gradient is None
        p.grad = None if learns else torch.zeros_like(p)
    found = []
    for part in batch:
        with torch.set_grad_enabled(part.learns):
            found.append(_add_gradient(learner.policy, config, part))
    norm = torch.nn.utils.clip_grad_norm_(learner.parameters, config.max_grad_norm)
    loss, norm = _sum([one[0] for one in found]), norm.item()
    if not (math.isfinite(loss) and math.isfinite(norm)):
        learner.optimizer.zero_grad(set_to_none=True)
        raise TrainingError(
            f"loss = {loss:g}, gradient norm = {norm:g}: lower lr ({config.lr:g}) or "
            f"raise kl ({config.kl:g}); this update changed nothing. At {where}"
        )
    learner.optimizer.step()
    return loss, norm, [one[1:] for one in found]


def _cuts(lengths: np.ndarray, learns: np.ndarray, most: int) -> list[np.ndarray]:
    """The rows of micro-batches of ``most`` rollouts, those of like lengths (P, G) together.

    No micro-batch mixes groups that learn (P,) with others. The rows of a group stay together, so
    that as few parts as possible run its prompt. Rows that fit into one part keep their order.

    >>> lengths, both = np.array([[9, 2, 8, 3], [4, 1, 4, 1]]), np.array([True, True])
    >>> [rows.tolist() for rows in _cuts(lengths, both, 2)]
    [[5, 7], [4, 6], [1, 3], [2, 0]]
    >>> [rows.tolist() for rows in _cuts(lengths, np.array([False, True]), 8)]
    [[4, 5, 6, 7], [0, 1, 2, 3]]
    """
    group, longest = np.indices(lengths.shape)[0], lengths.max(1, keepdims=True) + 0 * lengths
    order = np.lexsort([x.reshape(-1) for x in (lengths, group, longest)])
    learn = learns[order // lengths.shape[1]]
    kinds = [rows for rows in (order[learn], order[~learn]) if len(rows)]
    kinds = [np.sort(rows) if len(rows) <= most else rows for rows in kinds]
    return [rows[i : i + most] for rows in kinds for i in range(0, len(rows), most)]


@dataclass
class _Part:
    """A micro-batch of b rollouts.

    - gain (b,), weights (b, T): advantages, and token weights in the loss of the whole batch
    - learns: whether it has a gradient
    - reference, old (b, T): log-probabilities under the reference, and under the policy in the
      first pass
    """

    rollouts: Rollouts
    gain: torch.Tensor
    weights: torch.Tensor
    learns: bool = True
    reference: torch.Tensor | None = None
    old: torch.Tensor | None = None


def _add_gradient(policy: Policy, config: TrainConfig, part: _Part) -> tuple[torch.Tensor, ...]:
    """Add a micro-batch's gradient, where it has one, to that of the parameters.

    Returns its parts of the loss and of the KL, and its sums of clipped tokens and of the tokens'
    entropies. These scalars stay on the device: to read one is to wait for it.
    """
    logp, entropy = policy.token_logprobs(
        part.rollouts, config.temperature, entropy_gradient=config.entropy > 0
    )
    if part.old is None:
        part.old = logp.detach()
    clips = config.clip, config.clip_high, config.dual_clip
    loss, clipped = clipped_loss(logp, part.old, part.gain, part.weights, *clips)
    kl = torch.zeros_like(loss)
    if part.reference is not None:
        drawn = part.weights * ~part.rollouts.logprobs.isnan()  # of a set that was put in, none is
        kl = kl_to_reference(logp, part.reference, drawn)
        loss = loss + config.kl * kl if config.kl else loss
    if config.entropy:
        loss = loss - config.entropy * entropy_bonus(entropy, part.weights)
    if part.learns:
        loss.backward()
    return loss.detach(), kl.detach(), clipped, (entropy.detach() * part.rollouts.mask).sum()


def _sampler_gap(parts: list[_Part]) -> float:
    """The mean distance of the policy's log-probabilities to the sampler's, over the tokens that it
    drew: none of a recombined set.
    """
    gaps, drawn = [], []
    for part in parts:
        sampled, mask = part.rollouts.logprobs, part.rollouts.mask
        gaps.append(((part.old - sampled).nan_to_num(0.0).abs() * mask).sum())
        drawn.append((mask & ~sampled.isnan()).sum())
    return _sum(gaps) / max(_sum(drawn), 1)


def _sum(scalars) -> float:
    """The sum of scalars on a device, in double precision. They are read together."""
    return sum(torch.stack(scalars).tolist())
