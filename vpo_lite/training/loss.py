"""PPO's clipped loss on completion tokens, and the KL to the reference policy.

Every term is a sum over tokens with fixed token weights. So a batch may be cut into micro-batches
anywhere: their gradients add up to the gradient of the whole batch.
"""

import torch

from .config import AGGREGATIONS


def token_weights(mask, aggregation: str = "token", longest: int | None = None):
    """Token weights (B, T) of the loss; 0 outside ``mask`` (B, T), whose rows may be empty.

    - token: 1 / (tokens of the batch). All tokens count alike (2605.22817).
    - sequence: 1 / (B x tokens of the row). All rollouts count alike (GRPO, 2402.03300).
    - constant: 1 / (B x longest), with ``longest`` the most tokens a rollout may have. No length
      changes another token's weight (Dr. GRPO, 2503.20783).

    Raises ValueError for another name, and for constant without ``longest``.

    >>> token_weights(torch.tensor([[True, True, True], [True, False, False]])).tolist()
    [[0.25, 0.25, 0.25], [0.25, 0.0, 0.0]]
    >>> token_weights(torch.tensor([[True, True], [True, False]]), "sequence").tolist()
    [[0.25, 0.25], [0.5, 0.0]]
    """
    mask = mask.float()
    if aggregation == "token":
        return mask / mask.sum().clamp(min=1)
    if aggregation == "sequence":
        return mask / mask.sum(1, keepdim=True).clamp(min=1) / len(mask)
    if aggregation == "constant" and longest:
        return mask / (len(mask) * longest)
    raise ValueError(
        f"aggregation = {aggregation!r}: expected one of {', '.join(AGGREGATIONS)} (constant "
        "needs longest)"
    )


def clipped_loss(
    logp,
    old_logp,
    advantages,
    weights,
    clip: float = 0.2,
    clip_high: float | None = None,
    dual_clip: float | None = None,
):
    """PPO's clipped loss, and the number of tokens at which a clip was active, as two scalars.

    L = - sum_t token_weight_t min(ratio_t A, clamp(ratio_t, 1 - clip, 1 + clip_high) A)
    with ratio_t = exp(logp_t - old_logp_t)

    - logp, old_logp: (B, T)
    - advantages: (B,), one number for all tokens of a rollout
    - weights: (B, T), the token weights, EOS included; where they are 0, nothing is read
    - clip_high: the upper side (DAPO, 2503.14476); default: as ``clip``
    - dual_clip: where A < 0, the minimum is at least dual_clip A (1912.09729). Beyond that ratio
      a token has no gradient

    Source: 1707.06347, eq. 7.

    >>> one = torch.zeros(1, 2)
    >>> weights = token_weights(torch.tensor([[True, True]]))
    >>> loss, clipped = clipped_loss(one, one, torch.tensor([0.5]), weights)
    >>> round(loss.item(), 3), clipped.item()
    (-0.5, 0)
    >>> bad = one + 2.0, one, torch.tensor([-0.5]), weights  # ratio e^2 = 7.389
    >>> [round(clipped_loss(*bad, dual_clip=c)[0].item(), 3) for c in (None, 3.0)]
    [3.695, 1.5]
    """
    counted = weights > 0
    ratio = torch.where(counted, logp - old_logp, 0.0).exp()
    gain = advantages[:, None].to(logp.dtype)
    high = clip if clip_high is None else clip_high
    free = ratio * gain
    objective = torch.minimum(free, ratio.clamp(1 - clip, 1 + high) * gain)
    if dual_clip is not None:
        objective = torch.where(gain < 0, objective.maximum(dual_clip * gain), objective)
    return -(objective * weights).sum(), (objective != free).sum()


def kl_to_reference(logp, reference_logp, weights):
    """The KL to the reference policy: k3 = exp(q - p) - (q - p) - 1 >= 0, summed over tokens.

    p and q are the log-probabilities of policy and reference. All arguments are (B, T). The scalar
    is 0 exactly when both agree, and in nats per token if the weights sum to 1: not with
    "constant". Source: 2402.03300, eq. 4.

    >>> p = torch.zeros(1, 1)
    >>> round(kl_to_reference(p, p + 1.0, torch.ones(1, 1)).item(), 4)     # e - 2
    0.7183
    """
    gap = torch.where(weights > 0, reference_logp - logp, 0.0)
    return ((gap.exp() - gap - 1) * weights).sum()


def entropy_bonus(entropies, weights):
    """The entropy of the tokens' distributions, summed over tokens: what an entropy bonus adds.

    entropies (B, T) in nats, token weights (B, T). The scalar: nats per token if the weights sum to
    1. Adding beta times it to the objective keeps a policy from putting all probability on one
    token (1602.01783). It knows no rewards: it spreads tokens, not outcomes.

    >>> uniform = torch.full((1, 2), 2.0).log()  # two tokens, each a fair coin: log 2 nats
    >>> round(entropy_bonus(uniform, torch.tensor([[0.5, 0.5]])).item(), 4)
    0.6931
    """
    return (torch.where(weights > 0, entropies, 0.0) * weights).sum()
