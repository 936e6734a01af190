"""Sampling completions, and scoring them again for training.

Sampling is one loop over tokens, :func:`sample_tokens`. In each round a forward pass gives the
logits of every row's next token, and the loop draws that token. The forward pass is the model's
own, :class:`HFForward`, or a faster one with the same two methods. The loop sees all logits, so no
top-k or top-p can filter tokens unnoticed.

A token is drawn at a uniform number that the caller supplies (drawing.py). A rollout is thus a pure
function of parameters, prompt and uniforms, whose number limits its length. Up to the rounding of
logits it does not depend on its neighbours in the batch, on the device's random stream, or on what
was sampled before.
"""

import functools
import inspect
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F

from .drawing import Drawing
from .graphs import replayed
from .libraries import DynamicCache, DynamicLayer
from .threads import SMALL_STEP, one_thread_if_small


class Rollouts(NamedTuple):
    """B = P * G sampled completions of P prompts. Rollout g of prompt p is row p * G + g.

    - prompts (P, L): prompt ids, left-padded; prompt_mask (P, L): False on padding
    - prompt_of (B,): the prompt that each row continues
    - tokens (B, T): completion ids, padded after EOS
    - mask (B, T): True up to and including the token that ends it: EOS or ``stop``
    - logprobs (B, T): of the sampled tokens, in nats; 0 outside the mask
    - truncated (B,): True where the limit was reached before an EOS
    """

    prompts: torch.Tensor
    prompt_mask: torch.Tensor
    prompt_of: torch.Tensor
    tokens: torch.Tensor
    mask: torch.Tensor
    logprobs: torch.Tensor
    truncated: torch.Tensor

    @classmethod
    def joined(
        cls, parts: Sequence["Rollouts"], prompts: "PaddedPrompts", pad_id: int
    ) -> "Rollouts":
        """Rollouts that were sampled part by part, in order, equally many of each prompt (P, L)."""
        longest = max(part.tokens.shape[1] for part in parts)

        def whole(name, fill=0):  # (B, T)
            rows = [getattr(part, name) for part in parts]
            return torch.cat([F.pad(r, (0, longest - r.shape[1]), value=fill) for r in rows])

        tokens = whole("tokens", pad_id)
        of = torch.arange(len(prompts.ids), device=tokens.device)
        return cls(
            prompts.ids,
            prompts.mask,
            of.repeat_interleave(len(tokens) // len(of)),
            tokens,
            whole("mask", False),
            whole("logprobs"),
            torch.cat([part.truncated for part in parts]),
        )

    def rows(self, part) -> "Rollouts":
        """The rollouts in ``part`` (a slice, a mask or indices), with the prompts they continue.

        Both are cut to the longest among them.
        """
        used, prompt_of = self.prompt_of[part].unique(return_inverse=True)
        prompt_mask, mask = self.prompt_mask[used], self.mask[part]
        begin = prompt_mask.shape[1] - int(prompt_mask.sum(1).max())  # padding is on the left
        end = int(mask.sum(1).max())
        return Rollouts(
            self.prompts[used, begin:],
            prompt_mask[:, begin:],
            prompt_of,
            self.tokens[part, :end],
            mask[:, :end],
            self.logprobs[part, :end],
            self.truncated[part],
        )


class PaddedPrompts(NamedTuple):
    """Prompt ids (P, L), padded on the left, and their mask (P, L), False on padding."""

    ids: torch.Tensor
    mask: torch.Tensor


def pad_prompts(prompts, pad_id: int, device) -> PaddedPrompts:
    """Lists of token ids as one left-padded tensor.

    >>> padded = pad_prompts([[5, 6, 7], [8]], 0, "cpu")
    >>> padded.ids.tolist(), padded.mask.tolist()[1]
    ([[5, 6, 7], [0, 0, 8]], [False, False, True])
    """
    longest = max(map(len, prompts))
    ids = [[pad_id] * (longest - len(p)) + list(p) for p in prompts]
    mask = [[False] * (longest - len(p)) + [True] * len(p) for p in prompts]
    return PaddedPrompts(torch.tensor(ids, device=device), torch.tensor(mask, device=device))


class Forward(Protocol):
    """What the sampling loop asks of a forward pass. B rows continue P prompts.

    ``static``: whether every step after the first has the same shapes, keeps its state in place and
    reads nothing back from the device. A CUDA graph can then replay it (graphs.py).
    """

    static: bool

    def prefill(self, ids, mask, prompt_of, new_tokens: int) -> torch.Tensor:
        """Read the padded prompts (P, L). Returns each row's next-token logits (B, V)."""

    def step(self, tokens) -> torch.Tensor:
        """Append one token (B,) to every row. Returns the next token's logits (B, V)."""

    def keep(self, rows, prompts) -> None:
        """Go on with these rows alone, equally many of each of these prompts. Called unless static.

        Both are indices into those that there are now.
        """


@torch.no_grad()
def sample_tokens(
    model,
    prompts,
    uniforms,
    *,
    eos_ids,
    pad_id: int,
    temperature: float = 1.0,
    forward: Forward | None = None,
) -> Rollouts:
    """Sample G completions for each of P prompts. T of the result is the longest completion.

    - model: a causal LM, with or without adapter
    - prompts: P lists of token ids
    - uniforms (P, G, T): in [0, 1), one for each token that a completion may have at most; NaN
      behind them
    - eos_ids: any of these tokens ends a completion
    - pad_id: fills prompts on the left and completions after their end
    - temperature: divides the logits, above 0
    - forward: what computes the logits; None for the model's own forward pass

    On a GPU nothing is read back while a token is drawn. Every 8 tokens (``LOOK_EVERY``) the loop
    looks whether all rows have ended. The rollouts do not depend on that number. On the CPU rows
    that have ended are left out, as soon as that halves the work (:func:`_leave_out`).
    """
    forward = forward or HFForward(model)
    device = next(model.parameters()).device
    padded = pad_prompts(prompts, pad_id, device)
    groups, copies, longest = uniforms.shape
    rows, every = groups * copies, LOOK_EVERY.get(device.type, 8)
    prompt_of = torch.arange(groups, device=device).repeat_interleave(copies)
    drawing = Drawing(uniforms, eos_ids, pad_id, temperature, device)
    # Prompts are read once and steps are many, so a prompt token counts an eighth.
    with one_thread_if_small(model, max(rows, padded.ids.numel() // 8), SMALL_STEP):
        drawing.draw(forward.prefill(padded.ids, padded.mask, prompt_of, longest))

        # No closure: the frames of an error would keep what it holds (memory.enough_memory).
        advance = functools.partial(_advance, forward, drawing)
        for t in range(1, longest):
            if t % every == 0:
                if not drawing.unfinished.any():
                    break
                if device.type == "cpu" and not forward.static:  # it reads numbers back
                    groups = _leave_out(forward, drawing, groups)
            if t == 2 and forward.static:  # the first step has run every kernel once
                advance = replayed(advance, device)
            advance()
    drawing.restore()
    tokens, mask, logprobs = drawing.tokens, drawing.mask, drawing.logprobs
    used = int(mask.any(0).sum())  # a row is in the mask up to its end
    return Rollouts(
        padded.ids,
        padded.mask,
        prompt_of,
        tokens[:, :used],
        mask[:, :used],
        logprobs[:, :used],
        truncated=drawing.truncated,
    )


def _advance(forward: Forward, drawing: Drawing) -> None:
    drawing.draw(forward.step(drawing.latest))


def _leave_out(forward: Forward, drawing: Drawing, groups: int) -> int:
    """Leave out rows that have ended, where half of them or more can go. Returns the groups left.

    Each group that goes on keeps as many rows as the one with most to do.
    """
    unfinished = drawing.unfinished.view(groups, -1)
    counts = unfinished.sum(1)
    left, most = counts.nonzero()[:, 0], int(counts.max())
    if 2 * most * len(left) > unfinished.numel():
        return groups
    first = unfinished[left].long().argsort(dim=1, descending=True, stable=True)[:, :most]
    rows = (left[:, None] * unfinished.shape[1] + first).reshape(-1)
    forward.keep(rows, left)
    drawing.keep(rows)
    return len(left)


# {device: tokens between two looks whether all rows have ended}, elsewhere 8. On a GPU a look waits
# for all that was asked for, and takes longer than a token in vain.
LOOK_EVERY = {"cpu": 1}


# --- the model's own forward pass -----------------------------------------------------------------


class HFForward:
    """A :class:`Forward` by the model's own forward pass and cache; gradients flow through it.

    With the attention that transformers chooses by itself (sdpa or eager), no step reads a number
    back from a GPU, whether prompts are padded or not (tests/test_device_paths.py).
    """

    static = False  # the cache grows with every token

    def __init__(self, model):
        self.model, self.cache_name = model, cache_name(model)

    def prefill(self, ids, mask, prompt_of, new_tokens: int = 0) -> torch.Tensor:
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        self.mask = None if mask.all() else mask.long()
        self.cache = None  # of an earlier batch: two may not fit into memory
        out = self.model(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
        )
        self.cache = getattr(out, self.cache_name)
        self.cache.reorder_cache(prompt_of)  # of layers with a recurrent state, too
        if self.mask is not None:
            self.mask = self.mask[prompt_of]
            # transformers reads at every token whether a mask holds nothing but ones, since it
            # could then do without. It does not where the step may be compiled.
            for layer in self.cache.layers:
                if not layer.is_compileable:
                    layer.is_compileable = True
        self.next_position = mask.sum(-1, keepdim=True)[prompt_of]
        return out.logits[prompt_of, -1]

    def step(self, tokens) -> torch.Tensor:
        return self.steps(tokens[:, None])[:, -1]

    def keep(self, rows, prompts=None) -> None:
        self.cache.reorder_cache(rows)
        self.next_position = self.next_position[rows]
        self.mask = None if self.mask is None else self.mask[rows]

    def steps(self, tokens) -> torch.Tensor:
        """Append S tokens (B, S) to every row. Returns the logits (B, S, V) after each."""
        count = tokens.shape[1]
        if self.mask is not None:
            self.mask = F.pad(self.mask, (0, count), value=1)
        out = self.model(
            input_ids=tokens,
            attention_mask=self.mask,
            use_cache=True,
            position_ids=self.next_position + torch.arange(count, device=tokens.device),
            **{self.cache_name: self.cache},
        )
        self.next_position = self.next_position + count
        return out.logits


def unwrapped(model):
    """The transformers model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


CACHE = ("cache", "past_key_values")  # as transformers names it since 5.24, and before


def cache_name(model) -> str:
    """What the model's forward pass calls its cache, as an argument and in its output."""
    names = inspect.signature(unwrapped(model).forward).parameters
    return next((name for name in CACHE if name in names), CACHE[-1])


# --- scoring completions for training -------------------------------------------------------------


def shares_prompts(model) -> bool:
    """Whether several rows can continue one prompt's keys and values with gradients.

    That needs a plain cache: no sliding windows, no recurrent layers.
    """
    layers = DynamicCache(config=unwrapped(model).config.get_text_config()).layers
    return {type(layer) for layer in layers} <= {DynamicLayer}


def completion_logits(model, rollouts: Rollouts, *, share: bool) -> torch.Tensor:
    """The logits (B, T, V) at every completion token, for training.

    Gradients flow through prompt and completion. With ``share`` each prompt is run once and its G
    completions continue its keys and values, as in sampling. That takes 1 / G of the prompts' work
    (arXiv 2506.05433). Logits and gradients are those of G whole rows (tests/test_decoding.py).
    """
    tokens, prompt_of = rollouts.tokens, rollouts.prompt_of
    if share:
        forward = HFForward(model)
        first = forward.prefill(rollouts.prompts, rollouts.prompt_mask, prompt_of)[:, None]
        if tokens.shape[1] == 1:
            return first
        return torch.cat((first, forward.steps(tokens[:, :-1])), 1)
    attention = torch.cat((rollouts.prompt_mask[prompt_of], rollouts.mask), 1).long()
    out = model(
        input_ids=torch.cat((rollouts.prompts[prompt_of], tokens), 1),
        attention_mask=attention,
        position_ids=(attention.cumsum(-1) - 1).clamp(min=0),
        use_cache=False,
        logits_to_keep=tokens.shape[1] + 1,
    )
    return out.logits[:, :-1]
