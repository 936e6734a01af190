"""Loading policies: a base model with a fresh adapter, or a trained adapter on its base.

Nothing is unpickled: parameters are read from safetensors, everything else from JSON.
"""

import functools
import importlib.util
import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants, snapshot_download
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import SafetensorError
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from ..randomness import integer
from . import shipped
from .adapter import adapter_folder, base_folder, fingerprint, quiet, read_card
from .policy import Policy


def load_policy(
    path_or_name="pocket-6x6",
    *,
    device: str = "auto",
    rank: int = 16,
    lora_alpha: int = 32,
    seed: int = 0,
    dtype: str = "auto",
    load_in: str | None = None,
    gradient_checkpointing: bool = False,
) -> Policy:
    """Load a policy, in evaluation mode. Only the adapter's parameters have gradients.

    - path_or_name: a shipped name, a run folder or its adapter folder, a folder with a Hugging Face
      model, or the name of one on the hub
    - device: "auto", "cpu" or "cuda" (:func:`choose_device`)
    - rank, lora_alpha, seed: of a fresh adapter and its initialisation
    - dtype: of the base's parameters: "float32", "bfloat16" or "auto". Auto is bfloat16 for a
      language model on a GPU that has it, else float32. The adapter is float32 in any case.
    - load_in: "8bit" or "4bit" quantises the base (:func:`quantisation`)
    - gradient_checkpointing: recompute layers in the backward pass (:func:`checkpoint_layers`)

    A trained adapter's base gets the dtype and load_in that the adapter was trained with, unless
    these arguments say otherwise.

    Raises: ValueError in one line when there is no such model, or when the adapter belongs to other
    parameters.
    """
    device = choose_device(device)
    folder = adapter_folder(path_or_name)
    if folder is not None:
        try:
            card = read_card(folder)
            name = card.base
            dtype = card.dtype if dtype == "auto" else dtype
            load_in = load_in or card.load_in
            base = _load_base(name, device, dtype, load_in)
            if card.fingerprint not in (None, fingerprint(name)):
                raise ValueError(f"it was trained on other weights than the {name!r} found here")
            with quiet():
                model = PeftModel.from_pretrained(base.model, folder, is_trainable=True)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RuntimeError,
            SafetensorError,
        ) as error:
            raise ValueError(f"{folder}: this adapter cannot be loaded: {error}") from error
    else:
        name = str(path_or_name)
        if shipped.folder(name) is None and Path(name).is_dir():
            name = str(Path(name).resolve())  # an adapter finds it again from any working directory
        base = _load_base(name, device, dtype, load_in)
        lora = LoraConfig(
            r=rank,
            lora_alpha=lora_alpha,
            lora_dropout=0.0,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(integer(seed, "lora"))
            model = get_peft_model(base.model, lora)
    model.eval()
    if gradient_checkpointing:
        checkpoint_layers(model)
    return Policy(model, base.tokenizer, name, base.pocket, dtype, load_in, gradient_checkpointing)


def choose_device(name: str = "auto") -> torch.device:
    """The device named "cpu", "cuda" or "cuda:1". "auto" is cuda where there is one, else cpu.

    Raises: ValueError for a device that this machine lacks, and for any other kind. Sampling needs
    double precision, which Apple's mps does not have.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    found = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if name not in (*found, *(["cuda"] if len(found) > 1 else [])):
        raise ValueError(f"device {name!r} cannot be used here: there is {', '.join(found)}")
    return torch.device(name)


# --- the base model -------------------------------------------------------------------------------


class _Base(NamedTuple):
    model: torch.nn.Module
    tokenizer: object
    pocket: dict | None


def _load_base(name: str, device: torch.device, dtype: str, load_in: str | None) -> _Base:
    folder = base_folder(name) or _from_hub(name)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ValueError(_cannot_load(name, error)) from error
    pocket = _pocket(config)
    number = _number_type(dtype, device, pocket is not None)
    quantised = {}
    if load_in is not None:
        if pocket is not None:
            raise ValueError(
                f"load_in = {load_in!r}: {name!r} is a pocket policy, a few million parameters "
                "that gain nothing from it"
            )
        quantised["quantization_config"] = quantisation(load_in, number)
        quantised["device_map"] = {"": str(device)}
    try:
        with quiet():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=number, **quantised)
            tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    except (ImportError, RuntimeError) as error:
        if load_in is None:
            raise
        raise ValueError(
            f"load_in = {load_in!r}: bitsandbytes cannot do it on {device}: {error}"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(_cannot_load(name, error)) from error
    if not quantised:
        model = model.to(device)
    # bitsandbytes has a CPU kernel without gradients, and a layer whose first pass needs no
    # gradients stays with it.
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return _Base(model, tokenizer, pocket)


def _cannot_load(name: str, error) -> str:
    return f"model {name!r}: cannot be loaded as a causal language model: {error}"


def _pocket(config) -> dict | None:
    """What a pocket policy's config says of it; None for any other model."""
    pocket = getattr(config, "vpo_pocket", None)
    board = getattr(config, "vpo_board", None)
    if pocket is None and board is not None:  # made by `vpo-lite pretrain` of version 0.1.0
        return {"board": board, "answers": 5}
    return pocket


def _number_type(dtype: str, device: torch.device, pocket: bool) -> torch.dtype:
    if dtype not in ("auto", "bfloat16", "float32"):
        raise ValueError(f"dtype = {dtype!r}: there are auto, bfloat16, float32")
    if dtype != "auto":
        return getattr(torch, dtype)
    # A pocket policy is too small to gain from half precision; an emulated bfloat16 is slow.
    on_gpu = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if on_gpu and not pocket else torch.float32


def quantisation(load_in: str, dtype: torch.dtype) -> BitsAndBytesConfig:
    """How the base's linear layers are stored.

    "8bit" is int8 (LLM.int8(), Dettmers et al. 2022). "4bit" is 4-bit NormalFloat whose scales are
    quantised too (QLoRA, Dettmers et al. 2023, section 3); products are computed in ``dtype``.
    Embeddings, norms and output head stay in ``dtype``.

    peft's ``prepare_model_for_kbit_training`` is not needed. It freezes the base, which a fresh
    adapter does. It makes norms and head float32, which they are not without quantisation either.
    It gives the inputs gradients, which only reentrant checkpointing needs.

    Raises: ValueError for another word, and, with the cure, without bitsandbytes.

    >>> quantisation("3bit", torch.float32)
    Traceback (most recent call last):
    ...
    ValueError: load_in = '3bit': there are 8bit, 4bit
    """
    if load_in not in ("8bit", "4bit"):
        raise ValueError(f"load_in = {load_in!r}: there are 8bit, 4bit")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(
            f"load_in = {load_in!r}: needs bitsandbytes; cure: pip install 'bitsandbytes>=0.46.1'"
        )
    if load_in == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def _from_hub(name: str) -> Path:
    """The folder of a hub model: from the hub's cache, else downloaded (safetensors only)."""
    wanted = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        cached_only = not _hub_in_reach()
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=cached_only))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"model {name!r}: no pocket policy ({', '.join(shipped.names()) or 'none'}), no folder "
            "with a model, not in the model hub's cache and not to be had from the hub; check the "
            "name, or connect once so that it is cached"
        ) from error


def _hub_in_reach() -> bool:
    """Whether the model hub's name resolves. Offline, the hub client would try for a minute."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
        return True
    except OSError:
        return False


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
    if torch.is_grad_enabled() and kwargs.get("past_key_values") is None:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    return forward(*args, **kwargs)
