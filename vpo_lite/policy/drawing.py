"""Drawing the next token of every row, without a number that is read back from the device.

A token is drawn by inverting the cumulative distribution at a uniform number.
"""

import torch
import torch.nn.functional as F

SINGLE = ("mps",)  # devices without double precision


class Drawing:
    """B completions in the making, on their device.

    All that changes is changed in place, and the place of the next token is a tensor, too. So a
    CUDA graph can replay :meth:`draw`.

    - uniforms (P, G, T): NaN from the place on to which a row may not go
    - latest (B,): the token drawn last; unfinished (B,): rows to go on with; truncated (B,): those
      that reached their last place without an end
    - tokens, mask, logprobs (B, T): as in :class:`Rollouts`
    """

    def __init__(self, uniforms, eos_ids, pad_id: int, temperature: float, device: torch.device):
        groups, copies, longest = uniforms.shape
        shape, here = (groups * copies, longest), dict(device=device)
        self.u = _on_device(uniforms, device).reshape(shape)
        self.last = F.pad(self.u, (0, 1), value=torch.nan)[:, 1:].isnan()  # (B, T)
        self.ends = torch.tensor(sorted(eos_ids), dtype=torch.long, **here)
        self.pad_id, self.temperature = pad_id, temperature
        self.place = torch.zeros(1, dtype=torch.long, **here)
        self.latest = torch.full(shape[:1], pad_id, **here)
        self.unfinished = torch.ones(shape[:1], dtype=torch.bool, **here)
        self.truncated = torch.zeros(shape[:1], dtype=torch.bool, **here)
        self.tokens = torch.full(shape, pad_id, **here)
        self.mask = torch.zeros(shape, dtype=torch.bool, **here)
        self.logprobs = torch.zeros(shape, dtype=torch.float32, **here)
        self.left = []  # what :meth:`keep` has put aside

    def draw(self, logits) -> None:
        """Draw the next token of every row from its logits (B, V)."""
        logits = logits.float()
        if self.temperature != 1:
            logits = logits / self.temperature
        logp = F.log_softmax(logits, dim=-1)
        drawn = _draw(logp, self.u.index_select(1, self.place))
        finished = ~self.unfinished
        self.latest.copy_(drawn[:, 0].masked_fill(finished, self.pad_id))
        drawn_logp = logp.gather(1, drawn).masked_fill(finished[:, None], 0.0)
        self.tokens.index_copy_(1, self.place, self.latest[:, None])
        self.mask.index_copy_(1, self.place, self.unfinished[:, None])
        self.logprobs.index_copy_(1, self.place, drawn_logp)
        self.unfinished.logical_and_((drawn != self.ends).all(1))
        last = self.last.index_select(1, self.place)[:, 0]
        self.truncated.logical_or_(self.unfinished & last)
        self.unfinished.logical_and_(~last)
        self.place += 1

    def keep(self, rows) -> None:
        """Go on with these rows alone, in this order. The others have ended."""
        self.left.append((rows, {name: getattr(self, name) for name in DRAWN}))
        for name in (*DRAWN, "u", "last", "latest", "unfinished"):
            setattr(self, name, getattr(self, name)[rows])

    def restore(self) -> None:
        """Put what was drawn since each :meth:`keep` to where its rows stood at first."""
        while self.left:
            rows, whole = self.left.pop()
            for name, before in whole.items():
                before[rows] = getattr(self, name)
                setattr(self, name, before)


DRAWN = ("tokens", "mask", "logprobs", "truncated")


def _on_device(uniforms, device: torch.device) -> torch.Tensor:
    """Uniform numbers in the precision in which tokens are drawn: double, where there is one.

    Apple's mps has single precision only. Numbers that would be rounded to 1 become the largest
    one below it, and a token of probability below 6e-8 may never be drawn.
    """
    u = torch.as_tensor(uniforms, dtype=torch.float64)
    if device.type in SINGLE:
        u = u.float().clamp(max=1 - 2**-24)
    return u.to(device)


BLOCK = 512  # tokens


def _draw(logp: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Token ids (B, 1) at which the cumulative distribution passes u (B, 1).

    A large vocabulary is drawn from in two rounds: a block of tokens, then a token of the block. So
    double precision, which most GPUs have little of, is needed for the blocks' sums and for one
    block. Adding up a block in single precision changes its probability by a factor of 1 +- 1e-6.
    """
    size = logp.shape[-1]
    if size <= BLOCK:
        return _passed(logp.to(u.dtype).exp(), u)[0]
    logp = F.pad(logp, (0, -size % BLOCK), value=float("-inf"))
    weights = logp.exp().unflatten(-1, (-1, BLOCK))
    blocks = weights.sum(-1)
    block, upto, goal = _passed(blocks, u)
    # The share of the block's weight that lies below, in [0, 1), is uniform again.
    below = 1 - (upto.gather(1, block) - goal) / blocks.gather(1, block).to(u.dtype)
    rest = below.clamp(0, 1 - torch.finfo(u.dtype).eps / 2)
    inside = weights.gather(1, block[..., None].expand(-1, -1, BLOCK))[:, 0]
    drawn = block * BLOCK + _passed(inside, rest)[0]
    return drawn.clamp_(max=size - 1)  # of weights that are NaN


def _passed(weights: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Where the running sum of weights (B, n) passes the share u (B, 1) of the whole.

    Returns the index (B, 1), the running sum (B, n) and the goal (B, 1) that it passes there. Sums
    are in the precision of u: in double precision a rare token's weight is not rounded away.
    """
    upto = weights.to(u.dtype).cumsum(-1)
    goal = u * upto[:, -1:]
    index = torch.searchsorted(upto, goal, right=True).clamp_(max=weights.shape[-1] - 1)
    return index, upto, goal
