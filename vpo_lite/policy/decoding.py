"""Sampling rollouts: one prefill per distinct prompt, one decoder view of the trained weights.

The HF model with its peft adapter owns the weights and is trained by ordinary forward and backward passes. For sampling,
:class:`DecoderView` takes a snapshot of it: LoRA folded into the weights, projections fused, keys and values in tensors of
final size. Architectures that it does not know go through :class:`HFForward`, the model's own forward pass with a cache.
Both are driven by the same loop, :func:`sample_tokens`, so neither can filter tokens (top-k, top-p) behind our back.

A token is drawn by inverting the cumulative distribution at a uniform number that the caller supplies. A rollout is thus
a pure function of weights, prompt and uniforms: it does not depend on its neighbours in the batch, on the device's random
stream, or on how often anything else was sampled before.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from transformers.cache_utils import DynamicLayer

DECODED_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


class Rollouts(NamedTuple):
    """B = P * G sampled completions of P prompts, row p * G + g.

    prompts (P, L): left-padded prompt ids; prompt_mask (P, L); prompt_of (B,): which of them each row continues;
    tokens (B, T): completion ids, padded after EOS; mask (B, T): True up to and including the first EOS; logprobs (B, T):
    of the sampled tokens, 0 outside the mask.
    """

    prompts: torch.Tensor
    prompt_mask: torch.Tensor
    prompt_of: torch.Tensor
    tokens: torch.Tensor
    mask: torch.Tensor
    logprobs: torch.Tensor

    def rows(self, part) -> "Rollouts":
        """Some of the rollouts (a slice or a mask), with the prompts that they continue."""
        used, prompt_of = self.prompt_of[part].unique(return_inverse=True)
        return Rollouts(
            self.prompts[used], self.prompt_mask[used], prompt_of, self.tokens[part], self.mask[part], self.logprobs[part]
        )


def pad_prompts(prompts, pad_id: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """Left-pad lists of token ids to (P, L), with their mask."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (longest - len(p)) + list(p) for p in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], dtype=torch.bool, device=device)
    return ids, mask


@torch.no_grad()
def sample_tokens(model, prompts, uniforms, *, eos_ids, pad_id: int, temperature: float = 1.0) -> Rollouts:
    """Sample G completions for each of P prompts.

    Args: model: causal LM, with or without adapter; prompts: P lists of token ids; uniforms: (P, G, T) in [0, 1), one per
    token, T = most new tokens; eos_ids: any of these ends a completion; temperature: divides the logits, > 0.
    Returns: :class:`Rollouts`; T shrinks to the longest completion.
    """
    if not temperature > 0:
        raise ValueError(f"temperature = {temperature}: must be above 0")
    device = next(model.parameters()).device
    ids, prompt_mask = pad_prompts(prompts, pad_id, device)
    groups, copies, longest = uniforms.shape
    u = torch.as_tensor(uniforms, dtype=torch.float64, device=device).reshape(groups * copies, longest)
    ends = torch.tensor(sorted(eos_ids), device=device)
    prompt_of = torch.arange(groups, device=device).repeat_interleave(copies)
    forward = decoder_for(model)
    logits = forward.prefill(ids, prompt_mask, prompt_of, longest)
    tokens = torch.full((groups * copies, longest), pad_id, device=device)
    mask = torch.zeros_like(tokens, dtype=torch.bool)
    logprobs = torch.zeros(tokens.shape, device=device)
    alive = torch.ones(groups * copies, dtype=torch.bool, device=device)
    for t in range(longest):
        logp = F.log_softmax(logits.float() / temperature, dim=-1)
        drawn = _invert(logp, u[:, t])
        tokens[:, t] = torch.where(alive, drawn, pad_id)
        mask[:, t] = alive
        logprobs[:, t] = torch.where(alive, logp.gather(1, drawn[:, None])[:, 0], 0.0)
        alive = alive & ~torch.isin(drawn, ends)
        if t + 1 == longest or not alive.any():
            break
        logits = forward.step(tokens[:, t])
    used = t + 1
    return Rollouts(ids, prompt_mask, prompt_of, tokens[:, :used], mask[:, :used], logprobs[:, :used])


def _invert(logp: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Token ids (B,) at which the cumulative distribution passes u. Double precision: no token's share is rounded away."""
    cumulative = logp.double().exp().cumsum(-1)
    drawn = torch.searchsorted(cumulative, (u * cumulative[:, -1])[:, None], right=True)[:, 0]
    return drawn.clamp_(max=logp.shape[-1] - 1)


def decoder_for(model):
    """The fast view where the architecture is known, the model's own forward pass otherwise."""
    return DecoderView(model) if DecoderView.knows(model) else HFForward(model)


def _bare(model):
    """The PreTrainedModel inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def completion_logits(model, rollouts: Rollouts, *, share: bool = True) -> torch.Tensor:
    """The model's logits (B, T, V) at every completion token, for training: gradients flow through prompt and completion.

    With ``share`` each prompt is run once, and its G completions continue its keys and values, as in sampling: the same
    logits and gradients as G whole rows (tests/test_decoding.py), and 1 / G of the prompt's work. Models whose cache cannot
    be shared so (sliding windows, recurrent layers) get whole rows, as does ``share=False``.
    """
    if share:
        forward = HFForward(model)
        first = forward.prefill(rollouts.prompts, rollouts.prompt_mask, rollouts.prompt_of)
        if forward.shared:
            rest = forward.steps(rollouts.tokens[:, :-1]) if rollouts.tokens.shape[1] > 1 else first[:, None][:, :0]
            return torch.cat((first[:, None], rest), 1)
    ids = torch.cat((rollouts.prompts[rollouts.prompt_of], rollouts.tokens), 1)
    attention = torch.cat((rollouts.prompt_mask[rollouts.prompt_of], rollouts.mask), 1).long()
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    length = rollouts.tokens.shape[1]
    out = model(input_ids=ids, attention_mask=attention, position_ids=positions, use_cache=False, logits_to_keep=length + 1)
    return out.logits[:, :-1]


class HFForward:
    """The same calls as :class:`DecoderView`, by the model's own forward pass and cache; differentiable."""

    def __init__(self, model):
        self.model = model

    def prefill(self, ids, mask, prompt_of, new_tokens: int = 0) -> torch.Tensor:
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        out = self.model(
            input_ids=ids, attention_mask=mask.long(), position_ids=positions, use_cache=True, logits_to_keep=1
        )
        self.cache = out.past_key_values
        kinds = {type(layer) for layer in getattr(self.cache, "layers", ())}
        self.shared = kinds == {DynamicLayer}
        self.cache.batch_select_indices(prompt_of)
        self.mask = mask.long()[prompt_of]
        self.next_position = mask.sum(-1, keepdim=True)[prompt_of]
        return out.logits[prompt_of, -1]

    def steps(self, tokens) -> torch.Tensor:
        """Append S tokens to every row; the logits (B, S, V) after each."""
        count = tokens.shape[1]
        self.mask = F.pad(self.mask, (0, count), value=1)
        out = self.model(
            input_ids=tokens, attention_mask=self.mask, past_key_values=self.cache, use_cache=True,
            position_ids=self.next_position + torch.arange(count, device=tokens.device),
        )
        self.next_position = self.next_position + count
        return out.logits

    def step(self, tokens) -> torch.Tensor:
        """Append one token to every row; the next token's logits (B, V)."""
        return self.steps(tokens[:, None])[:, -1]


class DecoderView:
    """A snapshot of a Llama- or Qwen-style model for sampling; make a new one after each update of the weights.

    Logits equal the HF model's to 1e-5 in fp32 (tests/test_decoding.py).
    """

    @staticmethod
    def knows(model) -> bool:
        bare = _bare(model)
        if type(bare).__name__ not in DECODED_ARCHITECTURES:
            return False
        config = bare.config
        scaled = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default") in ("dynamic", "longrope")
        windowed = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        # in half precision the adapter's part would be rounded away when it is folded into the weights
        exact = next(model.parameters()).dtype == torch.float32 and config.hidden_act in ("silu", "swish")
        return exact and not scaled and not windowed

    def __init__(self, model):
        bare = _bare(model)
        config = self.config = bare.config
        self.kv_heads = config.num_key_value_heads
        self.share = config.num_attention_heads // self.kv_heads  # query heads that read one key/value head
        self.head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps = config.rms_norm_eps
        self.embedding = bare.get_input_embeddings().weight
        self.output = _folded(bare.get_output_embeddings())
        self.final_norm = bare.model.norm.weight
        self.rotary = bare.model.rotary_emb
        self.layers = []
        for layer in bare.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            self.layers.append({
                "norm1": layer.input_layernorm.weight,
                "qkv": _fused(attention.q_proj, attention.k_proj, attention.v_proj),
                "q_norm": getattr(getattr(attention, "q_norm", None), "weight", None),
                "k_norm": getattr(getattr(attention, "k_norm", None), "weight", None),
                "out": _folded(attention.o_proj),
                "norm2": layer.post_attention_layernorm.weight,
                "gate_up": _fused(mlp.gate_proj, mlp.up_proj),
                "down": _folded(mlp.down_proj),
            })

    def prefill(self, ids, mask, prompt_of, new_tokens: int) -> torch.Tensor:
        """Run P prompts once, lay out the cache for the B rows that continue them, return the next token's logits (B, V)."""
        length = ids.shape[1]
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        # padded queries may look at themselves: a row of nothing but -inf would be NaN
        seen = (causal & mask[:, None, :]) | torch.eye(length, dtype=torch.bool, device=ids.device)
        self.keys, self.values = [], []
        x = F.embedding(ids, self.embedding)
        cos, sin = self._turns(x, positions)
        for layer in self.layers:
            q, k, v = self._project(layer, x, cos, sin)
            out = F.scaled_dot_product_attention(
                q.flatten(1, 2), k.repeat_interleave(self.share, 1), v.repeat_interleave(self.share, 1), seen[:, None]
            )
            for store, new in ((self.keys, k), (self.values, v)):
                full = new.new_zeros(len(prompt_of), self.kv_heads, length + new_tokens, self.head)
                full[:, :, :length] = new[prompt_of]
                store.append(full)
            x = self._finish(layer, x, out.transpose(1, 2).flatten(2))
        self.length = length
        self.position = mask.sum(-1, keepdim=True)[prompt_of]
        self.bias = None  # -inf on left padding
        if not mask.all():
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=ids.device).masked_fill_(~mask, float("-inf"))
            self.bias = F.pad(bias, (0, new_tokens))[prompt_of][:, None, None]
        return self._logits(x)[prompt_of]

    def step(self, tokens) -> torch.Tensor:
        """Append one token to every row; the next token's logits (B, V)."""
        x = F.embedding(tokens[:, None], self.embedding)
        cos, sin = self._turns(x, self.position)
        at, self.length = self.length, self.length + 1
        for i, layer in enumerate(self.layers):
            q, k, v = self._project(layer, x, cos, sin)
            self.keys[i][:, :, at] = k[:, :, 0]
            self.values[i][:, :, at] = v[:, :, 0]
            scores = q[:, :, :, 0] @ self.keys[i][:, :, : self.length].transpose(-1, -2) * self.head**-0.5
            if self.bias is not None:
                scores = scores + self.bias[..., : self.length]
            out = scores.softmax(-1) @ self.values[i][:, :, : self.length]
            x = self._finish(layer, x, out.flatten(1)[:, None])
        self.position = self.position + 1
        return self._logits(x)

    def _turns(self, x, positions):
        cos, sin = self.rotary(x, positions)
        return cos[:, None], sin[:, None]

    def _project(self, layer, x, cos, sin):
        """Rotated queries (B, kv, share, S, head), keys and values (B, kv, S, head)."""
        rows, steps, width = x.shape
        h = F.rms_norm(x, (width,), layer["norm1"], self.eps)
        qkv = F.linear(h, *layer["qkv"]).view(rows, steps, -1, self.head).transpose(1, 2)
        q, k, v = qkv.split([self.kv_heads * self.share, self.kv_heads, self.kv_heads], 1)
        if layer["q_norm"] is not None:
            q = F.rms_norm(q, (self.head,), layer["q_norm"], self.eps)
            k = F.rms_norm(k, (self.head,), layer["k_norm"], self.eps)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        return q.reshape(rows, self.kv_heads, self.share, steps, self.head), k, v

    def _finish(self, layer, x, attended) -> torch.Tensor:
        """Output projection, residual, and the gated MLP."""
        x = x + F.linear(attended, *layer["out"])
        h = F.rms_norm(x, (x.shape[-1],), layer["norm2"], self.eps)
        gate, up = F.linear(h, *layer["gate_up"]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, *layer["down"])

    def _logits(self, x) -> torch.Tensor:
        return F.linear(F.rms_norm(x[:, -1], (x.shape[-1],), self.final_norm, self.eps), *self.output)


def _rotate(x, cos, sin):
    """Rotary position embedding in the half-split layout of Llama."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def _folded(linear) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weight and bias of a linear layer, its active LoRA adapters added in."""
    base = getattr(linear, "base_layer", linear)
    weight = base.weight.detach()
    if base is not linear and not linear.disable_adapters:
        for name in linear.active_adapters:
            weight = weight + linear.get_delta_weight(name).to(weight.dtype)
    return weight, base.bias


def _fused(*linears) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Several projections of one input as a single one."""
    weights, biases = zip(*map(_folded, linears), strict=True)
    return torch.cat(weights), torch.cat(biases) if biases[0] is not None else None
