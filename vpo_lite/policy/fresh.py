"""A fresh LoRA adapter on a base model."""

import re
import sys
from collections.abc import Collection

import torch

from ..checks import check_number, check_whole, shown
from .adapter import quiet
from .libraries import Conv1D, LoraConfig, get_peft_model
from .room import size, total_memory
from .weights import SENSES, reason

MOST_RANK, MOST_LORA_ALPHA = 2**20, 1e6
ALL_LINEAR = "all-linear"


def adapter_numbers(rank, lora_alpha) -> tuple[int, float]:
    """Both as Python's own numbers, which the adapter's JSON file can hold. ValueError for others.

    >>> import numpy as np
    >>> adapter_numbers(np.int64(2), np.float32(0.5))
    (2, 0.5)
    """
    check_whole(rank, "rank", MOST_RANK)
    expected = f"a number above 0, at most {MOST_LORA_ALPHA:,.0f}"
    alpha = check_number(lora_alpha, "lora_alpha", expected, sys.float_info.min, MOST_LORA_ALPHA)
    return int(rank), int(alpha) if alpha.is_integer() else alpha


def adapted(layers: Collection[str], target_modules: str) -> dict[str, list[str]]:
    """Which of these linear layers LoRA adapts, by the name in ``target_modules`` that asks for it.

    - target_modules: "all-linear", or names with commas between; a name stands for every layer
      whose own name is it, or ends with a dot and it

    Raises: ValueError for a name that no layer has.

    >>> layers = ["0.attn.q_proj", "0.attn.v_proj", "1.attn.q_proj"]
    >>> adapted(layers, "q_proj")
    {'q_proj': ['0.attn.q_proj', '1.attn.q_proj']}
    """
    if target_modules == ALL_LINEAR:
        return {ALL_LINEAR: list(layers)}
    if not isinstance(target_modules, str):
        raise ValueError(f"target_modules = {shown(target_modules)}: expected a text")
    found = {}
    for name in target_modules.replace(" ", "").split(","):
        found[name] = [layer for layer in layers if f".{layer}".endswith(f".{name}")] * bool(name)
        if not found[name]:
            there = ", ".join(sorted({layer.rpartition(".")[2] for layer in layers}))
            raise ValueError(
                f"target_modules = {shown(target_modules)}: no linear layer that LoRA can adapt is "
                f"called {shown(name)}; there are {there}, or {ALL_LINEAR}"
            )
    return found


def fresh_adapter(base, rank: int, lora_alpha: float, seed: int, target_modules: str):
    """LoRA on linear layers, never on the output head: A random from the seed, B zero.

    Raises: ValueError where it could not be trained in all of the device's memory: the adapter, its
    gradients and AdamW's two moments in float32; and for names that no layer has.
    """
    layers = {n: m for n, m in base.named_modules() if isinstance(m, torch.nn.Linear | Conv1D)}
    # Routers return tuples; what sees or hears never runs here.
    left_out = [x for x in (r".*router", SENSES) if any(re.fullmatch(x, n) for n in layers)]
    excluded = "|".join(left_out)
    head = base.get_output_embeddings()
    free = [n for n, m in layers.items() if not re.fullmatch(excluded, n) and m is not head]
    names = adapted(free, target_modules)
    shapes = [_sides(layers[n]) for n in {n for found in names.values() for n in found}]
    need, total = 4 * 4 * rank * sum(map(sum, shapes)), total_memory(base.device)
    if total is not None and need > total:
        raise ValueError(
            f"rank = {shown(rank)}: the adapter and its optimizer need {size(need)}, and "
            f"{base.device} has {size(total)} in all; choose a smaller rank"
        )
    lora = LoraConfig(
        r=rank,
        lora_alpha=lora_alpha,
        lora_dropout=0.0,
        target_modules=ALL_LINEAR if target_modules == ALL_LINEAR else list(names),
        exclude_modules=excluded or None,
        task_type="CAUSAL_LM",
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        # peft draws on the CPU; a GPU's stream is not ours
        torch.default_generator.manual_seed(seed)
        try:
            return get_peft_model(base, lora)
        except Exception as error:  # a model that peft cannot put LoRA on
            raise ValueError(
                f"{type(base).__name__}: LoRA cannot be put on it: {reason(error)}"
            ) from error


def _sides(layer) -> tuple[int, int]:
    """Inputs and outputs of a linear layer, quantised or not."""
    if isinstance(layer, Conv1D):
        return tuple(layer.weight.shape)
    return layer.in_features, layer.out_features
