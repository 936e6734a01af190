"""The log-probability of each sampled token, and the entropy at its place, from logits.

Logits over a large vocabulary are the largest numbers of an update. Here they are worked on in
blocks, forward and backward. So beside the logits only their gradient is as large.
"""

from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

BLOCK = 2**24  # logits that are worked on at once


class TokenScores(NamedTuple):
    """Two tensors (B, T) in nats: log-probabilities of tokens, and entropies at their places."""

    logprobs: torch.Tensor
    entropies: torch.Tensor


def token_scores(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    temperature: float = 1.0,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """The scores of the tokens (B, T) under softmax(logits / temperature), logits (B, T, V).

    They are in single precision at least. Gradients flow to the logits from the log-probabilities,
    and with ``entropy_gradient`` from the entropies.

    >>> scores = token_scores(torch.zeros(1, 1, 4), torch.tensor([[2]]))
    >>> [round(x.item(), 4) for x in scores]  # log(1/4) and log(4)
    [-1.3863, 1.3863]
    """
    return TokenScores(*_Scores.apply(logits, tokens[..., None], temperature, entropy_gradient))


def bytes_held(logits: int, size: int, entropy_gradient: bool = False) -> int:
    """Bytes for so many logits of ``size`` bytes each, at the peak of their backward pass.

    They are held as they are, and their gradient beside them. On top come three copies of a block
    in single precision: its log-softmax, and two gradients. They are four where the logits are in
    half precision, and five with gradients of the entropies. The gradient of one block is no copy.

    >>> bytes_held(1000, 4), bytes_held(100 * BLOCK, 2) / (100 * BLOCK)
    (16000, 4.16)
    """
    block = min(logits, BLOCK)
    whole = size * logits * (1 + (logits > BLOCK))
    return whole + 4 * block * (5 if entropy_gradient else 3 + (size < 4))


class _Scores(torch.autograd.Function):
    """Forward without a graph; backward makes the graph of one block after the other."""

    @staticmethod
    def forward(ctx, logits, tokens, temperature, entropy_gradient):
        ctx.save_for_backward(logits, tokens)
        ctx.how = temperature, entropy_gradient
        blocks = [_scored(logits[:, cut], tokens[:, cut], *ctx.how) for cut in _cuts(logits)]
        logprobs, entropies = (torch.cat(parts, 1) for parts in zip(*blocks, strict=True))
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        logits, tokens = ctx.saved_tensors
        cuts = _cuts(logits)
        gradient = torch.empty_like(logits) if len(cuts) > 1 else None
        for cut in cuts:
            block = logits[:, cut].detach().requires_grad_()
            with torch.enable_grad():
                found = _scored(block, tokens[:, cut], *ctx.how, needed=ctx.how[1])
            given = [g[:, cut] for g in gradients[: len(found)]]
            (part,) = torch.autograd.grad(found, block, given)
            if gradient is None:  # the one block is all of it
                return part, None, None, None
            gradient[:, cut] = part
        return gradient, None, None, None


def _scored(logits, tokens, temperature, entropy_gradient, needed=True):
    """Log-probabilities and, if they are needed, entropies of a block."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logp = torch.log_softmax(logits if temperature == 1 else logits / temperature, -1)
    picked = logp.gather(-1, tokens)[..., 0]
    if not needed:
        return (picked,)
    spread = logp if entropy_gradient else logp.detach()
    return picked, -torch.linalg.vecdot(spread.exp(), spread)


def _cuts(logits) -> list[slice]:
    """Slices of the T places, of `BLOCK` logits at most if a place has no more."""
    rows, places, width = logits.shape
    length = max(1, BLOCK // max(1, rows * width))
    return [slice(t, t + length) for t in range(0, places, length)]
