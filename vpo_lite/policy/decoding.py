"""Sampling rollouts: one prefill per distinct prompt, one decoder view of the trained weights.

The HF model with its peft adapter owns the weights and is trained by ordinary forward and backward passes. For sampling,
:class:`DecoderView` takes a snapshot of it: LoRA folded into the weights, projections fused, keys and values in tensors of
final size. Architectures that it does not know go through :class:`HFForward`, the model's own forward pass with a cache.
Both are driven by the same loop, :func:`sample_tokens`, so neither can filter tokens (top-k, top-p) behind our back.

A token is drawn by inverting the cumulative distribution at a uniform number that the caller supplies. A rollout is thus
a pure function of weights, prompt and uniforms: it does not depend on its neighbours in the batch, on the device's random
stream, or on how often anything else was sampled before.
"""

import contextlib
import functools
import importlib.util
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
import torch.nn.functional as F
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.other import ModulesToSaveWrapper
from transformers.cache_utils import DynamicCache, DynamicLayer

# multiplications in the largest product of a step, of an update, below which a second thread costs more than it helps
SMALL_STEP, SMALL_UPDATE = 3e7, 1e8
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
def sample_tokens(
    model, prompts, uniforms, *, eos_ids, pad_id: int, temperature: float = 1.0, dtype=None, compiled: bool = False
) -> Rollouts:
    """Sample G completions for each of P prompts.

    Args: model: causal LM, with or without adapter; prompts: P lists of token ids; uniforms: (P, G, T) in [0, 1), one per
    token, T = most new tokens; eos_ids: any of these ends a completion; temperature: divides the logits, > 0; dtype and
    compiled: of :class:`DecoderView`, without effect on other architectures.
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
    forward = decoder_for(model, dtype=dtype, compiled=compiled)
    with one_thread_if_small(model, max(groups * copies, ids.numel() // 8), SMALL_STEP):
        logits = forward.prefill(ids, prompt_mask, prompt_of, longest)
        tokens = torch.full((groups * copies, longest), pad_id, device=device)
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        logprobs = torch.zeros(tokens.shape, device=device)
        alive = torch.ones(groups * copies, dtype=torch.bool, device=device)
        for t in range(longest):
            logp = F.log_softmax(logits.float() / temperature, dim=-1)
            drawn = _invert(logp, u[:, t])
            latest = tokens[:, t] = torch.where(alive, drawn, pad_id)
            mask[:, t] = alive
            logprobs[:, t] = torch.where(alive, logp.gather(1, drawn[:, None])[:, 0], 0.0)
            alive = alive & ~torch.isin(drawn, ends)
            if t + 1 == longest or not alive.any():
                break
            logits = forward.step(latest)  # not a column of tokens, whose stride would be compiled in
    used = t + 1
    return Rollouts(ids, prompt_mask, prompt_of, tokens[:, :used], mask[:, :used], logprobs[:, :used])


_one_thread_blocks = {"inside": 0, "outside": 1}
_one_thread_lock = threading.Lock()


@contextlib.contextmanager
def one_thread_if_small(model, tokens: int, limit: float):
    """Inside, torch counts with one CPU thread if the largest matrix product over ``tokens`` takes less than ``limit``
    multiplications: hundreds of short products are done before other threads have woken up."""
    weights = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    if not weights or weights[0].device.type != "cpu" or tokens * max(w.numel() for w in weights) >= limit:
        yield
        return
    with _one_thread_lock:
        if not _one_thread_blocks["inside"]:
            # torch keeps the count per thread, and a new thread copies the process's: one that began while another was in
            # here has 1 for no reason of its own, so a fresh one is asked
            with ThreadPoolExecutor(1) as fresh:
                _one_thread_blocks["outside"] = fresh.submit(torch.get_num_threads).result()
        _one_thread_blocks["inside"] += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _one_thread_lock:
            _one_thread_blocks["inside"] -= 1
            torch.set_num_threads(_one_thread_blocks["outside"])


def _invert(logp: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Token ids (B,) at which the cumulative distribution passes u. Double precision: no token's share is rounded away."""
    cumulative = logp.double().exp().cumsum(-1)
    drawn = torch.searchsorted(cumulative, (u * cumulative[:, -1])[:, None], right=True)[:, 0]
    return drawn.clamp_(max=logp.shape[-1] - 1)


def decoder_for(model, **options):
    """The fast view (with its options) where the architecture is known, the model's own forward pass otherwise."""
    return DecoderView(model, **options) if DecoderView.knows(model) else HFForward(model)


def _bare(model):
    """The PreTrainedModel inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def shares_prompts(model) -> bool:
    """Whether a prompt's keys and values can be continued by several rows with gradients: plain caches, no sliding windows
    or recurrent layers."""
    layers = DynamicCache(config=_bare(model).config.get_text_config()).layers
    return {type(layer) for layer in layers} <= {DynamicLayer}


def completion_logits(model, rollouts: Rollouts, *, share: bool | None = None) -> torch.Tensor:
    """The model's logits (B, T, V) at every completion token, for training: gradients flow through prompt and completion.

    With ``share`` each prompt is run once, and its G completions continue its keys and values, as in sampling: the same
    logits and gradients as G whole rows (tests/test_decoding.py), and 1 / G of the prompt's work (2506.05433). None: where
    the model can (:func:`shares_prompts`).
    """
    ids, mask, prompt_of, tokens = rollouts.prompts, rollouts.prompt_mask, rollouts.prompt_of, rollouts.tokens
    if shares_prompts(model) if share is None else share:
        forward = HFForward(model)
        first = forward.prefill(ids, mask, prompt_of)[:, None]
        return first if tokens.shape[1] == 1 else torch.cat((first, forward.steps(tokens[:, :-1])), 1)
    attention = torch.cat((mask[prompt_of], rollouts.mask), 1).long()
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    out = model(
        input_ids=torch.cat((ids[prompt_of], tokens), 1), attention_mask=attention, position_ids=positions, use_cache=False,
        logits_to_keep=tokens.shape[1] + 1,
    )
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

    Args: model: in fp32 or bf16, with or without LoRA; dtype: to count in, None = the model's own; compiled: each step as
    one torch.compile kernel (3 to 10 s for the first step of a new batch shape; see :func:`compiler_missing`).

    From fp32 weights LoRA is folded in before they are rounded to ``dtype``; beside half-precision weights it stays apart, or
    the sum would round it away. Logits equal the HF model's to 1e-5 in fp32 (tests/test_decoding.py).
    """

    @staticmethod
    def knows(model) -> bool:
        bare = _bare(model)
        if type(bare).__name__ not in DECODED_ARCHITECTURES:
            return False
        config = bare.config
        scaled = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default") in ("dynamic", "longrope")
        windowed = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        weights = [module.weight for module in bare.modules() if isinstance(module, torch.nn.Linear | torch.nn.Embedding)]
        plain = all(w.dtype in (torch.float32, torch.bfloat16) for w in weights)  # not quantised
        plain = plain and all(_plain_lora(module) for module in bare.modules() if isinstance(module, BaseTunerLayer))
        plain = plain and not any(isinstance(module, ModulesToSaveWrapper) for module in bare.modules())
        return plain and config.hidden_act in ("silu", "swish") and not scaled and not windowed

    def __init__(self, model, *, dtype: torch.dtype | None = None, compiled: bool = False):
        bare = _bare(model)
        config = bare.config
        dtype = dtype or bare.dtype
        as_is = lambda w: None if w is None else w.detach().to(dtype)  # noqa: E731
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        head = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.shape = _Shape(kv_heads, heads // kv_heads, head, config.rms_norm_eps)
        self.dtype, self.rotary = dtype, bare.model.rotary_emb
        self.run = _compiled_step() if compiled else _step
        self.compiled = compiled
        layers = []
        for layer in bare.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            layers.append({
                "norm1": as_is(layer.input_layernorm.weight),
                "qkv": _fused(dtype, attention.q_proj, attention.k_proj, attention.v_proj),
                "qk_norm": _stacked_norms(attention, heads, kv_heads, dtype),
                "out": _fused(dtype, attention.o_proj),
                "norm2": as_is(layer.post_attention_layernorm.weight),
                "gate_up": _fused(dtype, mlp.gate_proj, mlp.up_proj),
                "down": _fused(dtype, mlp.down_proj),
            })
        self.weights = {
            "embedding": as_is(bare.get_input_embeddings().weight), "layers": layers,
            "norm": as_is(bare.model.norm.weight), "output": _fused(dtype, bare.get_output_embeddings()),
        }

    def prefill(self, ids, mask, prompt_of, new_tokens: int) -> torch.Tensor:
        """Run P prompts once, make room for the B rows that continue them, return the next token's logits (B, V).

        Rows of one prompt stand together, equally many of each: ``prompt_of`` is 0, .., 0, 1, .., 1, ...
        """
        shape, length, rows = self.shape, ids.shape[1], len(prompt_of)
        x = F.embedding(ids, self.weights["embedding"])
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        # compiled, all sizes are rounded up, so that lengths that differ a little share one kernel
        margin, room = (-length % 16, new_tokens + -new_tokens % 16) if self.compiled else (0, new_tokens)
        turns = self.rotary(x, torch.arange(margin + length + room, device=ids.device)[None])
        self.turns = [table[0] for table in turns]  # cos and sin (places, head) by position
        causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        # padded queries may look at themselves: a row of nothing but -inf would be NaN
        seen = (causal & mask[:, None, :]) | torch.eye(length, dtype=torch.bool, device=ids.device)
        self.cache = []
        for layer in self.weights["layers"]:
            q, k, v = _project(shape, layer, x, *(table[positions][:, None] for table in self.turns))
            out = F.scaled_dot_product_attention(
                q, k.repeat_interleave(shape.share, 1), v.repeat_interleave(shape.share, 1), seen[:, None]
            )
            own = (k.new_zeros(rows, shape.kv_heads, room, shape.head) for _ in "kv")
            self.cache.append((*(F.pad(part, (0, 0, margin, 0)).contiguous() for part in (k, v)), *own))
            x = _finish(shape, layer, x, out.transpose(1, 2).flatten(2))
        self.written, self.position = 0, mask.sum(-1)[prompt_of]
        self.bias = None  # (P, 1, 1, length): -inf on left padding
        if self.compiled or not mask.all():
            bias = torch.zeros(mask.shape, dtype=self.dtype, device=ids.device).masked_fill_(~mask, float("-inf"))
            self.bias = F.pad(bias, (margin, 0), value=float("-inf"))[:, None, None]
        return _logits(shape, self.weights, x[:, -1])[prompt_of]

    @torch.no_grad()
    def step(self, tokens) -> torch.Tensor:
        """Append one token to every row; the next token's logits (B, V)."""
        at = self.written
        self.written += 1
        if self.compiled:  # a number would be compiled into the kernel
            at = torch.full((1,), at, device=tokens.device)
        logits = self.run(self.shape, self.weights, self.cache, tokens, *self.turns, self.position, at, self.bias)
        self.position = self.position + 1
        return logits


class _Shape(NamedTuple):
    kv_heads: int
    share: int  # query heads that read one key/value head
    head: int  # width of a head
    eps: float


def _step(shape, weights, cache, tokens, cos, sin, position, at, bias):
    """One token for every row. Weights are arguments, so that a compiled step serves every snapshot.

    A row attends to its prompt, whose keys and values its group shares (read once for all of them, as in 2402.05099), and to
    what it has written itself: its own places up to ``at``, a number, or (compiled: one shape for all steps) a tensor.
    """
    x = F.embedding(tokens[:, None], weights["embedding"])
    cos, sin = cos[position][:, None, None], sin[position][:, None, None]
    rows, groups = len(tokens), len(cache[0][0])
    kv, share, head = shape.kv_heads, shape.share, shape.head
    by_prompt = lambda t: t.view(groups, rows // groups, kv, share, -1).transpose(1, 2).flatten(2, 3)  # noqa: E731
    by_row = lambda t: t.view(groups, kv, rows // groups, share, -1).transpose(1, 2).flatten(0, 1)  # noqa: E731
    for layer, (prompt_key, prompt_value, key, value) in zip(weights["layers"], cache, strict=True):
        q, k, v = _project(shape, layer, x, cos, sin)
        if isinstance(at, int):
            key[:, :, at], value[:, :, at] = k[:, :, 0], v[:, :, 0]
            key, value = key[:, :, : at + 1], value[:, :, : at + 1]
        else:
            key.index_copy_(2, at, k)
            value.index_copy_(2, at, v)
        q = q.reshape(rows, kv, share, head) * head**-0.5
        asked = by_prompt(q) @ prompt_key.transpose(-1, -2)
        asked = by_row(asked if bias is None else asked + bias)
        own = q @ key.transpose(-1, -2)
        if not isinstance(at, int):
            own = own.masked_fill(torch.arange(own.shape[-1], device=own.device) > at, float("-inf"))
        share_of = torch.cat((asked, own), -1).softmax(-1, dtype=torch.float32).to(x.dtype)
        asked, own = share_of.split([asked.shape[-1], own.shape[-1]], -1)
        out = by_row(by_prompt(asked) @ prompt_value) + own @ value
        x = _finish(shape, layer, x, out.flatten(1)[:, None])
    return _logits(shape, weights, x[:, -1])


@functools.cache
def _compiled_step():
    return torch.compile(_step, dynamic=False)


def compiler_missing(device: torch.device) -> str | None:
    """What torch.compile lacks on this machine, in one line; None if it has all that it needs."""
    if device.type == "cpu":
        found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("cl")
        return None if found else "no C++ compiler was found (g++ or clang++)"
    return None if importlib.util.find_spec("triton") else "the package triton is not installed"


def _project(shape, layer, x, cos, sin):
    """Rotated queries (B, heads, S, head), rotated keys and values (B, kv, S, head)."""
    rows, steps, width = x.shape
    h = F.rms_norm(x, (width,), layer["norm1"], shape.eps)
    qkv = _linear(h, layer["qkv"]).view(rows, steps, -1, shape.head).transpose(1, 2)
    qk, v = qkv[:, : -shape.kv_heads], qkv[:, -shape.kv_heads :]
    if layer["qk_norm"] is not None:
        qk = F.rms_norm(qk, (shape.head,), None, shape.eps) * layer["qk_norm"]
    half = shape.head // 2  # rotary position embedding in the half-split layout of Llama
    qk = qk * cos + torch.cat((-qk[..., half:], qk[..., :half]), -1) * sin
    return qk[:, : -shape.kv_heads], qk[:, -shape.kv_heads :], v


def _finish(shape, layer, x, attended) -> torch.Tensor:
    """Output projection, residual, and the gated MLP."""
    x = x + _linear(attended, layer["out"])
    gate, up = _linear(F.rms_norm(x, (x.shape[-1],), layer["norm2"], shape.eps), layer["gate_up"]).chunk(2, -1)
    return x + _linear(F.silu(gate) * up, layer["down"])


def _logits(shape, weights, x) -> torch.Tensor:
    return _linear(F.rms_norm(x, (x.shape[-1],), weights["norm"], shape.eps), weights["output"])


def _linear(x, parts) -> torch.Tensor:
    """One fused projection; its adapter, where it is kept apart, added."""
    weight, bias, down, up = parts
    y = F.linear(x, weight, bias)
    return y if down is None else y + F.linear(F.linear(x, down), up)


def _plain_lora(module) -> bool:
    """Whether a module's adapters are A and B on a linear layer and nothing more: no DoRA, no biases of their own."""
    names = [*module.lora_A, *module.lora_embedding_A] if isinstance(module, LoraLinear) else [None]
    return isinstance(module, LoraLinear) and all(
        n in module.lora_A and n not in module.lora_variant and not module.fan_in_fan_out and not module.lora_bias.get(n)
        for n in names
    )


def _stacked_norms(attention, heads: int, kv_heads: int, dtype):
    """Qwen3's norms of queries and keys as one weight (heads + kv, 1, head); None for models without."""
    if not hasattr(attention, "q_norm"):
        return None
    q, k = attention.q_norm.weight.detach().to(dtype), attention.k_norm.weight.detach().to(dtype)
    return torch.cat((q.expand(heads, 1, -1), k.expand(kv_heads, 1, -1)))


def _fused(dtype, *linears):
    """Several projections of one input as a single one: weight, bias, and what is kept apart of their adapters (A, B)."""
    bases = [getattr(linear, "base_layer", linear) for linear in linears]
    adapters = [
        [(linear.lora_A[n].weight, linear.lora_B[n].weight * linear.scaling[n]) for n in linear.active_adapters]
        if linear is not base and not linear.disable_adapters else []
        for linear, base in zip(linears, bases, strict=True)
    ]
    fold = all(base.weight.dtype == torch.float32 for base in bases)
    weights, downs, ups = [], [], []
    for base, pairs in zip(bases, adapters, strict=True):
        weight = base.weight.detach()
        weights.append(weight + sum(B.detach() @ A.detach() for A, B in pairs) if pairs and fold else weight)
        downs += [A.detach() for A, _ in pairs if not fold]
        ups.append(torch.cat([B.detach() for _, B in pairs], 1) if pairs and not fold else weights[-1][:, :0])
    biases = [base.bias for base in bases]
    weight = (torch.cat(weights) if len(weights) > 1 else weights[0]).to(dtype)  # the output layer is not copied
    bias = None if biases[0] is None else torch.cat(biases).detach().to(dtype)
    if not downs:
        return weight, bias, None, None
    return weight, bias, torch.cat(downs).to(dtype), torch.block_diag(*(up.float() for up in ups)).to(dtype)
