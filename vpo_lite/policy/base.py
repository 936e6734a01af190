"""Loading a base model and its tokenizer from a folder that may be broken or hostile.

What the folder says is checked before anything is built: its JSON files, the headers of its
weights, and whether they fit into memory. No code of the folder runs. What was built is checked,
too: every tensor there and finite, and the tokenizer's ids inside the embedding.
"""

import contextlib
import copy
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from ..checks import shortened, shown
from ..files import DamagedError, read_json
from . import DTYPES, LOAD_IN, shipped
from .adapter import base_folder, quiet
from .hub import from_hub
from .libraries import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from .room import size, total_memory
from .weights import (
    SAVE_AGAIN,
    SENSES,
    check_tensors,
    is_constant,
    not_finite,
    reason,
    shapes,
    weight_files,
)

SMALL_JSON = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_LAYERS = re.compile(r"(num_|n_)(\w+_)?layers?")


class Base(NamedTuple):
    """A base model with its tokenizer; pocket: what a pocket policy says of itself, else None."""

    model: torch.nn.Module
    tokenizer: object
    pocket: dict | None


def load_base(name: str, device: torch.device, dtype: str, load_in: str | None) -> Base:
    """Load the base model of this name. Arguments and errors as for ``load_policy``."""
    folder = base_folder(name) or from_hub(name)
    if os.path.lexists(folder / "adapter_config.json"):
        raise ValueError(f"{_model(name)}: is a trained adapter, where a base model is needed")
    found = _read_settings(folder)
    pocket = shipped.description(folder)
    number = _number_type(dtype, device, pocket is not None)
    quantised = {}
    if load_in is not None:
        if pocket is not None:
            raise ValueError(
                f"load_in = {shown(load_in)}: {shown(name)} is a pocket policy, a few million "
                "parameters that gain nothing from it"
            )
        quantised["quantization_config"] = quantisation(load_in, number)
        quantised["device_map"] = {"": str(device)}
    with _third_party(name):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    _check_room(name, config, found, device, number, load_in)
    larger = config.get_text_config() is not config  # a model that sees or hears, too
    # A tensor that is missing is first drawn at random: the caller's random stream stays as it is.
    with _third_party(name, load_in=load_in, device=device), torch.random.fork_rng(devices=[]):
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=number,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported, and refused below
            **quantised,
        )
    odd = not_finite(model.named_parameters())
    odd += not_finite(model.named_buffers(), limits=True)
    check_tensors(
        folder,
        missing=report["missing_keys"],
        of_another_shape=[name for name, *_ in report["mismatched_keys"]],
        not_finite=odd,
    )
    check_tensors(
        folder,
        cure="get the model that they belong to, or, where they are no part of the language model "
        f"(a value head), save it without them: {SAVE_AGAIN}",
        unexpected=[
            n
            for n in report["unexpected_keys"]
            if not is_constant(n, found.get(n)) and not (larger and re.fullmatch(SENSES, n))
        ],
    )
    tokenizer = load_tokenizer(name, folder)
    _check_ids(folder, model, tokenizer, pocket)
    if not quantised:
        with _third_party(name):
            model = model.to(device)
    # bitsandbytes has a CPU kernel without gradients, and a layer whose first pass needs no
    # gradients stays with it.
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return Base(model, tokenizer, pocket)


def load_tokenizer(name: str, folder: Path | None = None):
    """The tokenizer of the base model of this name, where it was found. Errors as for
    ``load_policy``.
    """
    folder = folder or base_folder(name) or from_hub(name)
    there = any(folder.glob("tokenizer*"))
    none = "" if there else f" ({folder} holds none: save it there, tokenizer.save_pretrained)"
    with _third_party(name, f"its tokenizer cannot be loaded{none}"):
        return AutoTokenizer.from_pretrained(folder, padding_side="left", trust_remote_code=False)


def load_config(name: str):
    """The config of the base model of this name; None in a folder that holds a tokenizer alone.
    Errors as for ``load_policy``.
    """
    folder = base_folder(name) or from_hub(name)
    if not os.path.lexists(folder / "config.json"):
        return None
    read_config(folder)
    with _third_party(name):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def read_config(folder: Path) -> dict:
    """What config.json of a base model's folder says. DamagedError where it cannot be read."""
    if not os.path.lexists(folder / "config.json"):
        raise DamagedError(
            f"{_model(str(folder))}: this folder has no config.json, so it holds no model; name "
            "the folder that save_pretrained wrote"
        )
    return read_json(folder / "config.json")


def _model(name: str) -> str:
    return f"model {shown(name, 200)}"


@contextlib.contextmanager
def _third_party(name: str, what: str = "", load_in=None, device=None) -> Iterator[None]:
    """Around one call that reads a folder. It may fail in any way; here it fails in one line."""
    try:
        with quiet():
            yield
    except Exception as error:
        what = what or "cannot be loaded as a causal language model"
        what = f"{_model(name)}: {what}"
        if load_in is not None and isinstance(error, (ImportError, RuntimeError)):
            what = f"load_in = {shown(load_in)}: bitsandbytes cannot do it on {device}"
        raise ValueError(f"{what}: {reason(error)}") from error


# --- before it is built ---------------------------------------------------------------------------


def _read_settings(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a folder's weights. DamagedError for settings that could not be loaded.

    transformers falls back silently where a smaller JSON file is broken.
    """
    config = read_config(folder)
    for path in (folder / name for name in SMALL_JSON):
        if os.path.lexists(path):
            read_json(path)
    found = shapes(weight_files(folder))
    if config.get("transformers_weights") is not None:
        raise DamagedError(f"{folder / 'config.json'}: names other weights (transformers_weights)")
    for key, value in _entries(config):
        wrong = None
        if "attn_implementation" in key and "/" in str(value):
            wrong = "would load code from the hub"
        if _LAYERS.fullmatch(key) and isinstance(value, (int, float)) and value > len(found):
            wrong = f"but the weights have {len(found):,} tensors in all"
        if wrong:
            where = f"{folder / 'config.json'}: {shortened(key)} = {shown(value)}"
            raise DamagedError(f"{where}, {wrong}")
    return found


def _entries(value) -> Iterator[tuple[str, object]]:
    """(key, value) of every entry in a JSON value, at any depth."""
    for key, part in value.items() if isinstance(value, dict) else ():
        yield key, part
        yield from _entries(part)
    for part in value if isinstance(value, list) else ():
        yield from _entries(part)


def _check_room(name, config, found, device, number: torch.dtype, load_in) -> None:
    """Refuse a model whose config asks for more than its weights hold, or than memory can."""
    with _third_party(name), torch.device("meta"):  # shapes without numbers
        empty = AutoModelForCausalLM.from_config(copy.deepcopy(config), trust_remote_code=False)
    asked = sum(p.numel() for p in empty.parameters())
    held = sum(torch.Size(shape).numel() for shape in found.values())
    packed = getattr(config, "quantization_config", None) is not None  # several in one number
    if asked > (16 if packed else 2) * held:
        raise ValueError(
            f"{_model(name)}: config.json asks for {asked:,} parameters, the weights hold "
            f"{held:,}; get the complete folder again"
        )
    head = empty.get_output_embeddings()
    linear = [m for m in empty.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    small = sum(m.weight.numel() for m in linear) if load_in or packed else 0
    need = (asked - small) * number.itemsize + small * (1 if load_in == "8bit" else 0.5)
    # What is not quantised is read into the machine's memory before it goes to a GPU.
    for place in {device, device if load_in else torch.device("cpu")}:
        total = total_memory(place)
        if total is not None and need > total:
            raise ValueError(
                f"{_model(name)}: its parameters need {size(need)}, and {place} has "
                f"{size(total)} in all; choose load_in 4bit, dtype bfloat16 or a smaller model"
            )


# --- after it is built ----------------------------------------------------------------------------


def _check_ids(folder: Path, model, tokenizer, pocket) -> None:
    """Refuse a tokenizer that does not belong to the model, and a model that never ends.

    A few tokens may have been added without a row of the embedding. ``Policy.encode`` refuses them.
    """
    count = model.get_input_embeddings().weight.shape[0]
    with _third_party(str(folder), "its tokenizer cannot be used"):
        ids = list(tokenizer.get_vocab().values())
        tokenizer("")
        tokenizer.batch_decode([ids[:1]])
    # Where the files are missing, transformers makes a tokenizer of nothing but special tokens.
    if set(ids) <= set(tokenizer.added_tokens_decoder):
        raise DamagedError(
            f"{folder}: its tokenizer reads no text; get tokenizer.json again, or save the model's "
            "tokenizer there: tokenizer.save_pretrained"
        )
    if min(ids) < 0 or sum(i >= count for i in ids) > len(ids) / 10:
        raise DamagedError(
            f"{folder}: the tokenizer has ids from {min(ids):,} to {max(ids):,}, and the model "
            f"embeds {count:,}; they belong to different models"
        )
    ends = getattr(model.generation_config, "eos_token_id", None)
    ends = ends if isinstance(ends, list) else [ends]
    ends = [i for i in (*ends, tokenizer.eos_token_id) if i is not None]
    if not ends:
        raise DamagedError(
            f"{folder}: no token ends a text; name one: eos_token in tokenizer_config.json"
        )
    if pocket is not None and tokenizer.bos_token_id is None:
        raise DamagedError(
            f"{folder}: no token begins a text; name one: bos_token in tokenizer_config.json"
        )
    wrong = [i for i in ends if type(i) is not int or not 0 <= i < count]
    if wrong:
        raise DamagedError(
            f"{folder}: {shown(wrong[0])} ends a text, and the model's tokens are 0 to "
            f"{count - 1:,}; see eos_token_id in generation_config.json, eos_token in "
            "tokenizer_config.json"
        )


# --- number types ---------------------------------------------------------------------------------


def _number_type(dtype: str, device: torch.device, pocket: bool) -> torch.dtype:
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {shown(dtype)}: there are {', '.join(DTYPES)}")
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
    if load_in not in LOAD_IN:
        raise ValueError(f"load_in = {shown(load_in)}: there are {', '.join(LOAD_IN)}")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(
            f"load_in = {shown(load_in)}: needs bitsandbytes; "
            "cure: pip install 'bitsandbytes>=0.46.1'"
        )
    if load_in == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
