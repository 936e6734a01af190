"""PPO's clipped loss on completion tokens, and the low-variance estimate of the KL to the reference policy.

Every term is a sum over tokens with fixed weights (:func:`token_weights`), so a batch may be cut into micro-batches anywhere:
the gradients add up to those of the whole.
"""

import torch

from .config import AGGREGATIONS


def token_weights(mask, aggregation: str = "token", longest: int | None = None):
    """The weight (B, T) of every completion token in the loss; 0 outside ``mask`` (B, T).

    token: 1 / (tokens of the whole batch), the paper's choice: all tokens count alike. sequence: 1 / (B tokens of the row),
    GRPO's own: all rollouts count alike, so each token of a long one less (2402.03300). constant: 1 / (B longest), with
    ``longest`` the most tokens a rollout may have: no length decides about another's weight (Dr. GRPO, 2503.20783).

    >>> token_weights(torch.tensor([[True, True, True], [True, False, False]])).tolist()
    [[0.25, 0.25, 0.25], [0.25, 0.0, 0.0]]
    >>> token_weights(torch.tensor([[True, True], [True, False]]), "sequence").tolist()
    [[0.25, 0.25], [0.5, 0.0]]
    """
    mask = mask.float()
    if aggregation == "token":
        return mask / mask.sum()
    if aggregation == "sequence":
        return mask / mask.sum(1, keepdim=True) / len(mask)
    if aggregation == "constant" and longest:
        return mask / (len(mask) * longest)
    raise ValueError(f"aggregation = {aggregation!r}: expected one of {', '.join(AGGREGATIONS)} (constant needs longest)")


def clipped_loss(logp, old_logp, advantages, weights, clip: float = 0.2):
    """Clipped policy-gradient loss, summed over tokens.

    L = - sum_t weight_t min(ratio_t A, clamp(ratio_t, 1 - clip, 1 + clip) A),  ratio = exp(logp - old_logp)

    Args: logp, old_logp: (B, T); advantages: (B,), one number for all tokens of a rollout; weights: (B, T) of
    :func:`token_weights`, EOS included; tokens of weight 0 do not count, whatever stands there.
    Returns: (loss, number of tokens at which the clip was active). Source: PPO (1707.06347, eq. 7) with the token-mean
    aggregation of 2605.22817's configuration.

    >>> one = torch.zeros(1, 2)
    >>> loss, clipped = clipped_loss(one, one, torch.tensor([0.5]), token_weights(torch.tensor([[True, True]])))
    >>> round(loss.item(), 3), clipped
    (-0.5, 0)
    """
    counted = weights > 0
    ratio = torch.where(counted, logp - old_logp, 0.0).exp()
    gain = advantages[:, None].to(logp.dtype)
    free, clipped = ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain
    return -(torch.minimum(free, clipped) * weights).sum(), int(((clipped < free) & counted).sum())


def kl_to_reference(logp, reference_logp, weights):
    """k3 = exp(q - p) - (q - p) - 1 >= 0 summed over tokens, p the policy's and q the reference's log-probability.

    Args: (B, T) each. Returns: a scalar, in nats per token; 0 exactly when both agree. Source: 2402.03300, eq. 4.

    >>> p = torch.zeros(1, 1)
    >>> round(kl_to_reference(p, p + 1.0, torch.ones(1, 1)).item(), 4)     # e - 2
    0.7183
    """
    gap = torch.where(weights > 0, reference_logp - logp, 0.0)
    return ((gap.exp() - gap - 1) * weights).sum()
