"""Loading policies: a base model with a fresh adapter, or a trained adapter on its base.

Nothing is unpickled and no code of a folder runs: parameters are read from safetensors, everything
else from JSON.
"""

import copy
import functools
import os
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint

from ..checks import check_truth, shown, told_of
from ..randomness import integer
from . import shipped
from .adapter import (
    adapter_folder,
    base_folder,
    check_not_moved,
    fingerprint,
    load_adapter,
    quiet,
    read_card,
)
from .base import load_base, read_config
from .decoder import decoder_for
from .fresh import ALL_LINEAR, adapter_numbers, fresh_adapter
from .hub import from_hub, hub_in_reach
from .libraries import (
    AutoModelForCausalLM,
    BaseTunerLayer,
    GradientCheckpointingLayer,
    PreTrainedConfig,
)
from .policy import Policy
from .sampling import CACHE, pad_prompts
from .weights import adapter_file, reason, weight_files

SHOWS_WEIGHTS = "vpo_weight_in_prompt"  # in config.json of a merged model whose prompts show them


@torch.inference_mode(False)  # parameters made in that mode could never be trained
def load_policy(
    path_or_name: str | os.PathLike = "pocket-6x6",
    *,
    base: str | None = None,
    device: str | torch.device = "auto",
    rank: int = 16,
    lora_alpha: float = 32,
    target_modules: str = ALL_LINEAR,
    seed: int = 0,
    dtype: str = "auto",
    load_in: str | None = None,
    gradient_checkpointing: bool = False,
) -> Policy:
    """Load a policy, in evaluation mode. Only the adapter's parameters have gradients.

    - path_or_name: a shipped name, a run folder or its adapter folder, a folder with a Hugging Face
      model, or the name of one on the hub, which may end in @REVISION
    - base: the model that a trained adapter belongs on; needed if the adapter's files name none, or
      if it has moved
    - device: "auto", "cpu", "cuda", "mps" or a torch.device (:func:`choose_device`)
    - rank, lora_alpha (at most 1e6), seed: of a fresh adapter and its initialisation
    - target_modules: of a fresh adapter, "all-linear" or names of layers (:func:`.fresh.adapted`)
    - dtype: of the base's parameters: "float32", "bfloat16" or "auto". Auto is bfloat16 for a
      language model on a GPU that has it, else float32. The adapter is float32 in any case.
    - load_in: "8bit" or "4bit" quantises the base (:func:`quantisation`)
    - gradient_checkpointing: recompute layers in the backward pass (:func:`checkpoint_layers`)

    A trained adapter's base gets the dtype and load_in that the adapter was trained with, unless
    these arguments say otherwise.

    Raises: ValueError in one line when there is no such model, when a file of it is damaged or
    missing, when it cannot fit into memory, or when the adapter belongs to other parameters.
    MemoryError where others use the memory that it needs.
    """
    name = shipped.model_name(path_or_name)
    device = choose_device(device)
    check_truth(gradient_checkpointing, "gradient_checkpointing")
    folder = adapter_folder(name)
    if folder is not None:
        with told_of(f"{folder}: this adapter cannot be loaded"):
            card = read_card(folder, base)
            name = shipped.model_name(card.base)
            check_not_moved(name)
            dtype = card.dtype if dtype == "auto" else dtype
            load_in = load_in or card.load_in
            loaded = load_base(name, device, dtype, load_in)
            if card.fingerprint not in (None, fingerprint(name)):
                raise ValueError(
                    f"it was trained on other parameters than those of {shown(name)}; name the "
                    "right model as base"
                )
            model, weight_in_prompt = load_adapter(loaded.model, folder), card.weight_in_prompt
    elif base is not None:
        raise ValueError(f"{shown(name)}: no adapter is there that belongs on {shown(base)}")
    else:
        if shipped.folder(name) is None and Path(name).is_dir():
            name = str(Path(name).resolve())  # an adapter finds it again from any working directory
        rank, lora_alpha = adapter_numbers(rank, lora_alpha)
        loaded = load_base(name, device, dtype, load_in)
        model = fresh_adapter(loaded.model, rank, lora_alpha, integer(seed, "lora"), target_modules)
        weight_in_prompt = getattr(loaded.model.config, SHOWS_WEIGHTS, False) is True
    model.eval()
    made = bool(gradient_checkpointing), weight_in_prompt
    policy = Policy(model, loaded.tokenizer, name, loaded.pocket, dtype, load_in, *made)
    _check_forward(policy, folder or name)
    if gradient_checkpointing:
        checkpoint_layers(model)
    return policy


def check_there(path_or_name, *, download: bool) -> None:
    """Raise ValueError, in one line, where there is no such model, or a file of it is missing.

    Nothing is loaded.

    - path_or_name: as for :func:`load_policy`
    - download: get a model of the hub now that its cache lacks. Without it, such a name passes
      where the hub can be reached.
    """
    name = shipped.model_name(path_or_name)
    folder = adapter_folder(name)
    if folder is not None:
        adapter_file(folder)
        name = shipped.model_name(read_card(folder).base)
    base = base_folder(name)
    if base is None and (download or not hub_in_reach()):
        base = from_hub(name)
    if base is not None:
        read_config(base)
        weight_files(base)


def outline(
    config: PreTrainedConfig,
    tokenizer,
    *,
    rank: int = 16,
    lora_alpha: float = 32,
    target_modules: str = ALL_LINEAR,
    dtype: str = "bfloat16",
    load_in: str | None = None,
    gradient_checkpointing: bool = False,
) -> Policy:
    """A policy on torch's meta device: tensors have shapes and no values, so it takes no memory and
    cannot be run. ``vpo_lite.training.memory.memory_needed`` tells from it what a run would need.

    - config: of a transformers model, such as ``AutoConfig.from_pretrained(name)``
    - tokenizer: counts the tokens of a prompt
    - rank, lora_alpha, target_modules, gradient_checkpointing: as for :func:`load_policy`
    - dtype: of the base's parameters, "float32" or "bfloat16"
    - load_in: "4bit" or "8bit" packs linear layers as bitsandbytes does. The scales, about 3 % of
      4 bit, are left out.

    >>> from transformers import LlamaConfig
    >>> shape = LlamaConfig(vocab_size=10, hidden_size=4, intermediate_size=6, num_hidden_layers=1,
    ...     num_attention_heads=1, tie_word_embeddings=True)
    >>> sum(p.numel() for p in outline(shape, None).model.get_base_model().parameters()
    ...     if not p.requires_grad)  # 10 x 4 embedded, 4 x 4 x 4 and 3 x 4 x 6 linear, 3 norms of 4
    188
    """
    if dtype not in ("bfloat16", "float32") or load_in not in (None, "4bit", "8bit"):
        raise ValueError(
            f"dtype = {shown(dtype)}, load_in = {shown(load_in)}: there are bfloat16 and float32; "
            "None, 4bit and 8bit"
        )
    rank, lora_alpha = adapter_numbers(rank, lora_alpha)
    with torch.device("meta"):
        base = AutoModelForCausalLM.from_config(
            copy.deepcopy(config), dtype=getattr(torch, dtype), trust_remote_code=False
        )
        model = fresh_adapter(base, rank, lora_alpha, 0, target_modules)
        for layer in model.modules() if load_in else ():
            if isinstance(layer, BaseTunerLayer):
                count = layer.get_base_layer().weight.numel() // (2 if load_in == "4bit" else 1)
                packed = torch.empty(count, dtype=torch.uint8)
                layer.get_base_layer().weight = torch.nn.Parameter(packed, requires_grad=False)
    name = config.name_or_path or type(config).__name__
    return Policy(model, tokenizer, name, None, dtype, load_in, gradient_checkpointing)


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device named "cpu", "cuda", "cuda:1" or "mps" (an Apple GPU).

    "auto" is cuda where there is one, else cpu. It is never mps: we have not run on one yet, and it
    draws tokens in single precision. A torch.device is taken like its name.

    Raises: ValueError for a device that this machine lacks, and for any other kind.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    name = str(name) if isinstance(name, torch.device) else name
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    cards = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    found = ["cpu", *cards, *(["mps"] if torch.backends.mps.is_available() else [])]
    if not isinstance(name, str) or name not in (*found, *(["cuda"] if cards else [])):
        raise ValueError(f"device {shown(name)} cannot be used here: there is {', '.join(found)}")
    return torch.device(name)


def _check_forward(policy: Policy, where) -> None:
    """Run the model once, and its cache as sampling does: two rows for each of two prompts.

    Settings that no reader checks show here, and models that cannot be sampled. Models of the
    RoBERTa kind count positions from the padding token's id on. Padded prompts are asked with
    positions from 0 on, where these would answer otherwise than they were trained.
    """
    token, count = min(policy.eos_ids), policy.embedded
    padded = pad_prompts([[token], [token, token]], policy.pad_id, policy.device)
    prompt_of = torch.tensor([0, 0, 1, 1], device=policy.device)
    try:
        with quiet(), torch.no_grad():
            logits = policy.model(input_ids=padded.ids).logits
    except Exception as error:
        raise ValueError(f"{where}: the model cannot be run: {reason(error)}") from error
    fits = logits.shape[:2] == padded.ids.shape and 0 < logits.shape[-1] <= count
    if not fits or not logits.isfinite().all():
        raise ValueError(
            f"{where}: the model gives no finite logits for its {count:,} tokens "
            f"(shape {tuple(logits.shape)}); its config.json or its weights are damaged"
        )
    name = type(policy.model.get_base_model()).__name__
    forward = decoder_for(policy.model)
    try:
        with quiet(), torch.no_grad():
            from_0 = torch.arange(2, device=policy.device).expand(2, 2)
            placed = policy.model(input_ids=padded.ids, position_ids=from_0).logits
            first = forward.prefill(*padded, prompt_of, 2)
            second = forward.step(first.argmax(-1))
    except Exception as error:  # a model without a cache, or with one of another kind
        raise ValueError(
            f"{where}: {name} keeps no cache that sampling can use ({reason(error)}); "
            "choose another model"
        ) from error
    # The same kernels read the same numbers, so a difference is no rounding.
    if (logits - placed).abs().max() > 0.1 * logits.float().std():
        raise ValueError(
            f"{where}: {name} does not count its positions from 0, so padded prompts cannot be "
            "sampled; choose another model"
        )
    if not (first.isfinite().all() and second.isfinite().all()):
        raise ValueError(f"{where}: the model gives no finite logits for a padded prompt")


# --- gradient checkpointing -----------------------------------------------------------------------


def checkpoint_layers(model) -> None:
    """Make every decoder layer recompute itself in the backward pass (Chen et al. 2016).

    The gradient is the same. It takes less memory and one more forward pass. It acts whenever
    gradients are recorded. The library's own switch acts only in training mode, which brings
    dropout along and takes the cache away from sampling.

    Raises: ValueError for a model without layers that can be recomputed.
    """
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    if not layers:
        name = type(model.get_base_model()).__name__
        raise ValueError(
            f"gradient_checkpointing = True: {name} has no layers that can be recomputed; "
            "leave it out"
        )
    for layer in layers:
        layer.forward = functools.partial(_recomputed, layer.forward)


def _recomputed(forward, *args, **kwargs):
    # A layer that is handed a cache runs plainly: a second pass would write its keys twice.
    if torch.is_grad_enabled() and all(kwargs.get(name) is None for name in CACHE):
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    return forward(*args, **kwargs)
