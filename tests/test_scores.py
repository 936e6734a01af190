"""Scores of sampled tokens: blocks of logits against plain autograd, and the memory they hold."""

import pytest
import torch
from test_memory import peak

from vpo_lite.policy import scores
from vpo_lite.policy.scores import bytes_held, token_scores

B, T, V = 3, 7, 11


def drawn(dtype=torch.float64, shape=(B, T, V)):
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(shape, generator=random, dtype=torch.float64)
    tokens = torch.randint(shape[-1], shape[:2], generator=random)
    return logits.to(dtype).requires_grad_(), tokens


def plainly(logits, tokens, temperature):
    """The same by probabilities alone: p / sum p, log p of the token, and - sum p log p."""
    p = torch.exp(logits / temperature)
    p = p / p.sum(-1, keepdim=True)
    return p.gather(-1, tokens[..., None])[..., 0].log(), -(p * p.log()).sum(-1)


@pytest.mark.parametrize("block", [1, 2 * B * V, 3 * B * V + 5, 4 * B * V, 10**6])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_blocks_give_the_scores_and_gradients_of_the_whole(
    monkeypatch, block, temperature, entropy_gradient
):
    monkeypatch.setattr(scores, "BLOCK", block)
    logits, tokens = drawn()
    weights = torch.linspace(-1, 2, B * T, dtype=torch.float64).view(B, T)
    found = token_scores(logits, tokens, temperature, entropy_gradient=entropy_gradient)
    expected = plainly(logits, tokens, temperature)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    assert found.entropies.requires_grad is entropy_gradient

    def gradient(logprobs, entropies):
        loss = (weights * logprobs).sum() + entropy_gradient * (weights**2 * entropies).sum()
        return torch.autograd.grad(loss, logits, retain_graph=True)[0]

    assert torch.allclose(gradient(*found), gradient(*expected), atol=1e-12)


def test_the_derivative_is_that_of_finite_differences(monkeypatch):
    monkeypatch.setattr(scores, "BLOCK", 2 * B * V)
    logits, tokens = drawn()
    one = lambda x: token_scores(x, tokens, 0.7, entropy_gradient=True)  # noqa: E731
    assert torch.autograd.gradcheck(lambda x: tuple(one(x)), (logits,))


def test_half_precision_is_scored_in_single_precision():
    logits, tokens = drawn(torch.bfloat16)
    found = token_scores(logits, tokens)
    expected = torch.log_softmax(logits.detach().double(), -1).gather(-1, tokens[..., None])[..., 0]
    assert found.logprobs.dtype == torch.float32
    assert torch.allclose(found.logprobs.double(), expected, atol=1e-6)
    (gradient,) = torch.autograd.grad(found.logprobs.sum(), logits)
    p = torch.softmax(logits.detach().double(), -1)
    exact = torch.nn.functional.one_hot(tokens, V) - p
    assert gradient.dtype == torch.bfloat16
    assert torch.allclose(gradient.double(), exact, atol=2**-8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("entropy_gradient", [False, True])
@pytest.mark.parametrize("blocks", [1, 8])
def test_the_memory_is_as_stated(monkeypatch, dtype, entropy_gradient, blocks):
    shape = (2, 64, 4_000)
    count = shape[0] * shape[1] * shape[2]
    monkeypatch.setattr(scores, "BLOCK", count // blocks)
    logits, tokens = drawn(dtype, shape)

    def update():
        found = token_scores(logits, tokens, entropy_gradient=entropy_gradient)
        torch.autograd.grad(found.logprobs.sum() + entropy_gradient * found.entropies.sum(), logits)

    update()
    held = logits.nbytes + peak(update)
    assert held == pytest.approx(bytes_held(count, dtype.itemsize, entropy_gradient), rel=0.1)
    if blocks == 8:  # what it is for: 16 bytes a logit without blocks
        assert held < (1 if entropy_gradient else 0.75) * 16 * count
