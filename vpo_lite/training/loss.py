"""PPO's clipped loss on completion tokens, and the low-variance estimate of the KL to the reference policy."""

import torch


def clipped_loss(logp, old_logp, advantages, mask, clip: float = 0.2):
    """Token-mean clipped policy-gradient loss over the whole batch.

    L = - sum_t mask_t min(ratio_t A, clamp(ratio_t, 1 - clip, 1 + clip) A) / sum_t mask_t,  ratio = exp(logp - old_logp)

    Args: logp, old_logp: (B, T); advantages: (B,), one number for all tokens of a rollout; mask: (B, T) of completion
    tokens, EOS included. Returns: (loss, share of tokens at which the clip was active). Source: PPO (1707.06347, eq. 7) with
    the token-mean aggregation of 2605.22817's configuration.

    >>> one = torch.zeros(1, 2)
    >>> loss, clipped = clipped_loss(one, one, torch.tensor([0.5]), torch.tensor([[True, True]]))
    >>> round(loss.item(), 3), clipped
    (-0.5, 0.0)
    """
    ratio = torch.where(mask, logp - old_logp, 0.0).exp()
    gain = advantages[:, None].to(logp.dtype)
    free, clipped = ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain
    active = ((clipped < free) & mask).sum() / mask.sum()
    return -(torch.minimum(free, clipped) * mask).sum() / mask.sum(), active.item()


def kl_to_reference(logp, reference_logp, mask):
    """Token-mean of k3 = exp(q - p) - (q - p) - 1 >= 0, with p the policy's and q the reference's log-probability.

    Args: (B, T) each. Returns: a scalar, in nats per token; 0 exactly when both agree. Source: 2402.03300, eq. 4.

    >>> p = torch.zeros(1, 1)
    >>> round(kl_to_reference(p, p + 1.0, torch.tensor([[True]])).item(), 4)     # e - 2
    0.7183
    """
    gap = torch.where(mask, reference_logp - logp, 0.0)
    return (gap.exp() - gap - 1).sum() / mask.sum()
