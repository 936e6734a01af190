"""A faster forward pass for sampling: :class:`DecoderView`, for models built like Llama.

Nothing else depends on how it works. It gives the logits of the model's own forward pass
(tests/test_decoding.py), and the loop in sampling.py runs on either.

Three things make it fast. LoRA is added into the frozen parameters once per snapshot. Projections
of the same input are one matrix product. Each prompt is read once, and the rollouts of its group
read its keys and values from one place (arXiv 2402.05099).
"""

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .sampling import Forward, HFForward, unwrapped
from .snapshot import Layer, Linear, Parameters, is_plain, snapshot

DECODED_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)


def decoder_for(model, *, dtype: torch.dtype | None = None, compiled: bool = False) -> Forward:
    """The fast view where it knows the model, else the model's own forward pass.

    dtype and compiled are those of :class:`DecoderView`; the model's own pass does not use them.
    """
    if DecoderView.knows(model):
        return DecoderView(model, dtype=dtype, compiled=compiled)
    return HFForward(model)


def compiler_missing(device: torch.device) -> str | None:
    """What torch.compile lacks on this machine, in one line; None if it lacks nothing."""
    if device.type == "cpu":
        names = ("g++", "clang++", "cl")
        found = os.environ.get("CXX") or any(shutil.which(name) for name in names)
        return None if found else "no C++ compiler was found (g++ or clang++)"
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    # Triton compiles what starts its kernels, for this Python. Images made to run a model lack it.
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "no C compiler was found (gcc or clang)"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.is_file() else f"{header} is missing (python3-dev, python3-devel)"


# --- the view ------------------------------------------------------------------------


class _Shape(NamedTuple):
    kv_heads: int
    queries_per_kv: int  # query heads that read one key/value head
    head: int  # width of a head
    eps: float  # of the norms


class _LayerCache(NamedTuple):
    """Keys and values (P, kv, L, head) of the prompts, and (B, kv, T, head) of the completions."""

    prompt_keys: torch.Tensor
    prompt_values: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


class DecoderView:
    """A snapshot of a model for sampling. Make a new one after each update of the parameters.

    - model: in fp32 or bf16, with or without LoRA
    - dtype: to compute in; None for the model's own
    - compiled: every step is one torch.compile kernel. The first step of a new batch shape then
      takes 3 to 10 s (see :func:`compiler_missing`). After eight shapes in one process torch
      compiles no more: later ones are sampled without. Runs of the package's tasks have one to
      three in training, since lengths are rounded up to 16.
    - static: all steps have one shape, as torch.compile and CUDA graphs need it. A row then always
      attends to all T places, the unwritten ones masked. None: on a GPU, and where compiled.

    LoRA is added to fp32 parameters before these are rounded to ``dtype``. Beside half-precision
    parameters it stays apart, because the sum would round it away. In fp32 the logits equal the
    model's to 1e-5 (tests/test_decoding.py).
    """

    @staticmethod
    def knows(model) -> bool:
        """Whether this class computes what the model computes. Exotic settings: False."""
        bare = unwrapped(model)
        if type(bare).__name__ not in DECODED_ARCHITECTURES:
            return False
        config = bare.config
        rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
        kinds = getattr(config, "layer_types", None) or ()
        if rope in ("dynamic", "longrope") or any(kind != "full_attention" for kind in kinds):
            return False
        if config.model_type == "mistral" and config.sliding_window is not None:
            return False
        if config.hidden_act not in ("silu", "swish"):
            return False
        return all(is_plain(module) for module in bare.modules())

    def __init__(
        self,
        model,
        *,
        dtype: torch.dtype | None = None,
        compiled: bool = False,
        static: bool | None = None,
    ):
        bare = unwrapped(model)
        config = bare.config
        dtype = dtype or bare.dtype
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        head = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.shape = _Shape(kv_heads, heads // kv_heads, head, config.rms_norm_eps)
        self.dtype, self.compiled = dtype, compiled
        self.static = compiled or bare.device.type == "cuda" if static is None else static
        self.rotary = bare.model.rotary_emb
        self.run = _compiled_step() if compiled else _step
        self.parameters = snapshot(bare, dtype)

    def prefill(self, ids, mask, prompt_of, new_tokens: int) -> torch.Tensor:
        """Read P prompts (P, L) and make room for the B rows that continue them.

        Rows of one prompt stand together, equally many of each: ``prompt_of`` is 0, .., 0, 1, .., 1
        and so on. Returns the next token's logits (B, V).
        """
        shape, length, rows = self.shape, ids.shape[1], len(prompt_of)
        x = F.embedding(ids, self.parameters.embedding)
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        # Compiled, all sizes are rounded up to 16s: lengths that differ a little share one kernel.
        margin, spare = (-length % 16, -new_tokens % 16) if self.compiled else (0, 0)
        room = new_tokens + spare
        places = torch.arange(margin + length + room, device=ids.device)[None]
        cos, sin = self.rotary(x, places)
        # (places, head): :func:`_project` takes the sign of rotated halves from the sine
        half = shape.head // 2
        self.cos, self.sin = cos[0], torch.cat((-sin[0][:, :half], sin[0][:, half:]), -1)
        causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        # Padded queries may look at themselves: a row of nothing but -inf would be NaN.
        itself = torch.eye(length, dtype=torch.bool, device=ids.device)
        seen = (causal & mask[:, None, :]) | itself
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        self.cache = []
        for layer in self.parameters.layers:
            q, k, v = _project(shape, layer, x, cos, sin)
            attended = F.scaled_dot_product_attention(
                q,
                k.repeat_interleave(shape.queries_per_kv, 1),
                v.repeat_interleave(shape.queries_per_kv, 1),
                seen[:, None],
            )
            own = (rows, shape.kv_heads, room, shape.head)
            self.cache.append(
                _LayerCache(
                    prompt_keys=F.pad(k, (0, 0, margin, 0)).contiguous(),
                    prompt_values=F.pad(v, (0, 0, margin, 0)).contiguous(),
                    keys=k.new_zeros(own),
                    values=v.new_zeros(own),
                )
            )
            x = _finish(shape, layer, x, attended.transpose(1, 2).flatten(2))
        self.place, self.position = 0, mask.sum(-1)[prompt_of]
        if self.static:  # a plain number would be recorded with the step
            self.place = torch.zeros(1, dtype=torch.long, device=ids.device)
        self.bias = None  # (B, 1, 1, margin + L + T): -inf on left padding
        if self.static or not mask.all():
            bias = torch.zeros(mask.shape, dtype=self.dtype, device=ids.device)
            bias.masked_fill_(~mask, float("-inf"))
            bias = F.pad(F.pad(bias, (margin, 0), value=float("-inf")), (0, room))
            self.bias = bias[prompt_of][:, None, None]
        return _logits(shape, self.parameters, x[:, -1])[prompt_of]

    @torch.no_grad()
    def step(self, tokens) -> torch.Tensor:
        """Append one token (B,) to every row. Returns the next token's logits (B, V)."""
        logits = self.run(
            self.shape,
            self.parameters,
            self.cache,
            tokens,
            self.cos,
            self.sin,
            self.position,
            self.place,
            self.bias,
        )
        self.place += 1
        self.position += 1
        return logits

    def keep(self, rows, prompts) -> None:
        """Go on with these rows alone, equally many of each of these prompts."""
        for i, kept in enumerate(self.cache):  # one layer at a time, for the memory
            self.cache[i] = _LayerCache(
                kept.prompt_keys[prompts],
                kept.prompt_values[prompts],
                kept.keys[rows],
                kept.values[rows],
            )
        self.position = self.position[rows]
        self.bias = None if self.bias is None else self.bias[rows]


# --- one token for every row ----------------------------------------------------------------------


def _step(shape, parameters, cache, tokens, cos, sin, position, place, bias):
    """The next token's logits (B, V) after one token (B,) for every row.

    A row attends to its prompt, whose keys and values its group reads from one place, and to the
    places up to ``place`` that it has written itself. Parameters are arguments, so that one
    compiled step serves every snapshot. ``place`` is then a tensor of one number, and all steps
    have one shape.
    """
    x = F.embedding(tokens[:, None], parameters.embedding)
    cos, sin = cos[position][:, None, None], sin[position][:, None, None]
    rows, groups = len(tokens), len(cache[0].prompt_keys)
    one_shape, before = not isinstance(place, int), cache[0].prompt_keys.shape[2]
    if one_shape:  # places that come later are masked
        places = torch.arange(-before, cache[0].keys.shape[2], device=tokens.device)
        bias = bias.masked_fill(places > place, float("-inf"))
    elif bias is not None:
        bias = bias[..., : before + place + 1]
    for layer, kept in zip(parameters.layers, cache, strict=True):
        q, k, v = _project(shape, layer, x, cos, sin)
        keys, values = kept.keys, kept.values
        if one_shape:
            keys.index_copy_(2, place, k)
            values.index_copy_(2, place, v)
        else:
            keys[:, :, place], values[:, :, place] = k[:, :, 0], v[:, :, 0]
            keys, values = keys[:, :, : place + 1], values[:, :, : place + 1]
        q = q.reshape(rows, shape.kv_heads, shape.queries_per_kv, shape.head) * shape.head**-0.5
        to_prompt = _by_prompt(shape, groups, q) @ kept.prompt_keys.transpose(-1, -2)
        to_prompt, to_own = _by_row(shape, rows, to_prompt), q @ keys.transpose(-1, -2)
        scores = torch.cat((to_prompt, to_own), -1)
        scores = scores if bias is None else scores + bias
        attention = scores.softmax(-1, dtype=torch.float32).to(x.dtype)
        to_prompt, to_own = attention.split([to_prompt.shape[-1], to_own.shape[-1]], -1)
        attended = _by_prompt(shape, groups, to_prompt) @ kept.prompt_values
        attended = _by_row(shape, rows, attended) + to_own @ values
        x = _finish(shape, layer, x, attended.flatten(1)[:, None])
    return _logits(shape, parameters, x[:, -1])


def _by_prompt(shape, groups: int, x) -> torch.Tensor:
    """(B, kv, queries, n) as (P, kv, rows of the prompt * queries, n)."""
    x = x.view(groups, -1, shape.kv_heads, shape.queries_per_kv, x.shape[-1])
    return x.transpose(1, 2).flatten(2, 3)


def _by_row(shape, rows: int, x) -> torch.Tensor:
    """The inverse of :func:`_by_prompt`."""
    groups = len(x)
    x = x.view(groups, shape.kv_heads, rows // groups, shape.queries_per_kv, x.shape[-1])
    return x.transpose(1, 2).flatten(0, 1)


@functools.cache
def _compiled_step():
    return torch.compile(_step, dynamic=False)


def _project(shape, layer: Layer, x, cos, sin) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries (B, heads, S, head), keys and values (B, kv, S, head); the first two rotated."""
    rows, steps, width = x.shape
    h = F.rms_norm(x, (width,), layer.norm1, shape.eps)
    qkv = _linear(h, layer.qkv).view(rows, steps, -1, shape.head).transpose(1, 2)
    qk, v = qkv[:, : -shape.kv_heads], qkv[:, -shape.kv_heads :]
    if layer.qk_norm is not None:
        qk = F.rms_norm(qk, (shape.head,), None, shape.eps) * layer.qk_norm
    half = shape.head // 2  # rotary position embedding in the half-split layout of Llama
    qk = qk * cos + torch.cat((qk[..., half:], qk[..., :half]), -1) * sin
    return qk[:, : -shape.kv_heads], qk[:, -shape.kv_heads :], v


def _finish(shape, layer: Layer, x, attended) -> torch.Tensor:
    """Output projection, residual, and the gated MLP."""
    x = x + _linear(attended, layer.out)
    h = F.rms_norm(x, (x.shape[-1],), layer.norm2, shape.eps)
    gate, up = _linear(h, layer.gate_up).chunk(2, -1)
    return x + _linear(F.silu(gate) * up, layer.down)


def _logits(shape, parameters: Parameters, x) -> torch.Tensor:
    h = F.rms_norm(x, (x.shape[-1],), parameters.norm, shape.eps)
    return _linear(h, parameters.output)


def _linear(x, linear: Linear) -> torch.Tensor:
    y = F.linear(x, linear.weight, linear.bias)
    if linear.down is None:
        return y
    return y + F.linear(F.linear(x, linear.down), linear.up)
