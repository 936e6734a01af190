"""The parameters of a model as the fast view reads them: adapters added in, projections joined.

:func:`snapshot` makes them; decoder.py uses them.
"""

from typing import NamedTuple

import torch

from .libraries import BaseTunerLayer, LoraLinear, ModulesToSaveWrapper


class Linear(NamedTuple):
    """y = weight x + bias + up (down x). Without bias, or with the adapter added in: None."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    down: torch.Tensor | None
    up: torch.Tensor | None


class Layer(NamedTuple):
    norm1: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor | None
    out: Linear
    norm2: torch.Tensor
    gate_up: Linear
    down: Linear


class Parameters(NamedTuple):
    embedding: torch.Tensor
    layers: list[Layer]
    norm: torch.Tensor
    output: Linear


def is_plain(module) -> bool:
    """Whether :func:`snapshot` covers this module: not quantised, no adapter but plain LoRA."""
    if isinstance(module, ModulesToSaveWrapper):
        return False
    if isinstance(module, BaseTunerLayer):
        return _is_plain_lora(module)
    if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
        return module.weight.dtype in (torch.float32, torch.bfloat16)
    return True


def _is_plain_lora(module) -> bool:
    """Whether the adapters are A and B on a linear layer: no DoRA, no biases of their own, nothing
    that peft has merged in place.
    """
    if not isinstance(module, LoraLinear) or module.fan_in_fan_out or module.merged:
        return False
    names = [*module.lora_A, *module.lora_embedding_A]
    return all(
        name in module.lora_A and name not in module.lora_variant and not module.lora_bias.get(name)
        for name in names
    )


def snapshot(bare, dtype: torch.dtype) -> Parameters:
    """The parameters of a transformers model, its LoRA adapter included, in ``dtype``.

    Where they need no change they are the model's own tensors, not copies.
    """
    return Parameters(
        embedding=bare.get_input_embeddings().weight.detach().to(dtype),
        layers=[_layer(layer, bare.config, dtype) for layer in bare.model.layers],
        norm=bare.model.norm.weight.detach().to(dtype),
        output=_fused(dtype, bare.get_output_embeddings()),
    )


def _layer(layer, config, dtype) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return Layer(
        norm1=layer.input_layernorm.weight.detach().to(dtype),
        qkv=_fused(dtype, attention.q_proj, attention.k_proj, attention.v_proj),
        qk_norm=_stacked_norms(attention, heads, kv_heads, dtype),
        out=_fused(dtype, attention.o_proj),
        norm2=layer.post_attention_layernorm.weight.detach().to(dtype),
        gate_up=_fused(dtype, mlp.gate_proj, mlp.up_proj),
        down=_fused(dtype, mlp.down_proj),
    )


def _stacked_norms(attention, heads: int, kv_heads: int, dtype):
    """Qwen3's norms of queries and keys as one tensor (heads + kv, 1, head), else None."""
    if not hasattr(attention, "q_norm"):
        return None
    q = attention.q_norm.weight.detach().to(dtype)
    k = attention.k_norm.weight.detach().to(dtype)
    return torch.cat((q.expand(heads, 1, -1), k.expand(kv_heads, 1, -1)))


def _fused(dtype, *linears) -> Linear:
    """Several projections of one input as a single one.

    The adapters are added into the weight, or kept apart in ``down`` and ``up``: there the A of all
    projections are stacked, and their B stand on the diagonal of one matrix.
    """
    bases = [getattr(linear, "base_layer", linear) for linear in linears]
    add_in = all(base.weight.dtype == torch.float32 for base in bases)
    weights, downs, ups = [], [], []
    for linear, base in zip(linears, bases, strict=True):
        weight = base.weight.detach()
        pairs = _adapters(linear) if linear is not base and not linear.disable_adapters else []
        up = weight[:, :0]  # no column
        if pairs and add_in:
            weight = weight + sum(B @ A for A, B in pairs)
        elif pairs:
            downs += [A for A, _ in pairs]
            up = torch.cat([B for _, B in pairs], 1)
        weights.append(weight)
        ups.append(up)
    # A single projection is not copied: the output layer is large.
    weight = (torch.cat(weights) if len(weights) > 1 else weights[0]).to(dtype)
    biases = [base.bias for base in bases]
    bias = None if biases[0] is None else torch.cat(biases).detach().to(dtype)
    if not downs:
        return Linear(weight, bias, None, None)
    up = torch.block_diag(*(up.float() for up in ups)).to(dtype)
    return Linear(weight, bias, torch.cat(downs).to(dtype), up)


def _adapters(linear) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The two matrices (A, B) of each active LoRA adapter, B with its scaling."""
    return [
        (
            linear.lora_A[name].weight.detach(),
            linear.lora_B[name].weight.detach() * linear.scaling[name],
        )
        for name in linear.active_adapters
    ]
