"""A trained policy as one plain model, which needs neither peft nor this package."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from ..checks import check_choice, told_of
from ..files import is_free, making
from . import DTYPES, shipped
from .adapter import AdapterCard, adapter_folder, base_folder, check_not_moved, quiet, read_card
from .base import read_config
from .hub import from_hub
from .libraries import BaseTunerLayer
from .loading import SHOWS_WEIGHTS, load_policy
from .weights import writing

ENOUGH_KEPT = 0.95  # of what training added, in the type that a merged model is written in


def check_merge(path, out, base: str | None = None, dtype: str = "auto") -> AdapterCard:
    """The card of the adapter that :func:`write_merged` would merge. Raises ValueError where it
    would refuse to, before it loads the base.
    """
    check_choice(dtype, "dtype", DTYPES)
    adapter, out = adapter_folder(path), Path(out)
    if adapter is None:
        raise ValueError(f"{path}: no trained adapter is there; a finished run has one")
    if not is_free(out, ()) or not out.name:
        raise ValueError(f"{out}: exists already; choose another folder")
    card = read_card(adapter, base)
    if card.load_in is not None:
        raise ValueError(
            f"{path}: was trained on a base in {card.load_in}, whose parameters differ from those "
            "that a merged model would have; load base and adapter side by side"
        )
    with told_of(f"{path}"):
        check_not_moved(shipped.model_name(card.base))
    return card


def write_merged(
    path: str | os.PathLike,
    out: str | os.PathLike,
    *,
    base: str | None = None,
    dtype: str = "auto",
    device: str = "cpu",
    tell: Callable[[str], object] = warnings.warn,
) -> Path:
    """Write base and adapter as one model, W + (lora_alpha / rank) B A for each adapted W.

    The folder ``out`` is made whole or not at all. It holds what ``save_pretrained`` writes:
    parameters in safetensors, settings, tokenizer and chat template. Plain transformers loads it,
    and ``load_policy(out)`` puts a fresh adapter on it. Its config.json says where it was trained
    on prompts that show weights. Returns ``out``.

    - path: a run folder, or the folder of an adapter
    - base: the model that the adapter belongs on, where its files name none, or another place of it
    - dtype: of the parameters: "bfloat16", "float32", or "auto", as the base's files have them
      (float32 where they have float16)
    - device: where they are added up
    - tell: called with a text where the parameters' type rounds much of the adapter away

    The model stops as in training: at the EOS of the tokenizer and of the base's generation_config.

    Raises ValueError where no trained adapter is there, where it cannot be loaded, where it was
    trained on a quantised base, where it adapts an embedding tied to the output layer, and for an
    ``out`` that holds something.

    >>> import tempfile
    >>> from vpo_lite import load_policy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = load_policy("pocket-6x6", device="cpu").save(f"{folder}/adapter")
    ...     written = write_merged(f"{folder}/adapter", f"{folder}/merged")
    ...     load_policy(written, device="cpu").pocket["answers"]
    5
    """
    card, out = check_merge(path, out, base, dtype), Path(out)
    if dtype == "auto":
        settings = read_config(base_folder(card.base) or from_hub(card.base))
        stored = next(  # of the language model in a larger one, too; today's name, and the older
            (
                part[name]
                for part in (settings, settings.get("text_config") or {})
                for name in ("dtype", "torch_dtype")
                if part.get(name)
            ),
            None,
        )
        dtype = "bfloat16" if stored == "bfloat16" else "float32"
    with making(out) as made:
        policy = load_policy(path, base=base, dtype=dtype, device=device)
        _check_untied(policy.model)
        if (kept := share_kept(policy.model)) < ENOUGH_KEPT:
            tell(
                f"{dtype} keeps {100 * kept:.0f} % of what the adapter adds to the parameters, and "
                "rounds the rest away: choose dtype float32, or use base and adapter"
            )
        with quiet(), writing(out):
            model = policy.model.merge_and_unload()
            ends = model.generation_config.eos_token_id
            if not policy.eos_ids <= set(ends if isinstance(ends, list) else [ends]):
                model.generation_config.eos_token_id = sorted(policy.eos_ids)
            if policy.weight_in_prompt:
                setattr(model.config, SHOWS_WEIGHTS, True)
            model.save_pretrained(made)
            policy.tokenizer.save_pretrained(made)
        for file in made.iterdir():
            file.chmod(made.stat().st_mode & 0o666)
    return out


def share_kept(model) -> float:
    """How much of ΔW = (lora_alpha / rank) B A is left if W + ΔW is rounded to the type of W: the
    sum of ΔW times the rounded change, divided by that of ΔW². From 0 to about 1.
    """
    kept = whole = 0.0
    for layer in _adapted(model):
        W = getattr(layer.get_base_layer(), "weight", None)
        if W is None or not hasattr(layer, "get_delta_weight"):
            continue
        with torch.no_grad():
            for name in layer.active_adapters:
                delta = layer.get_delta_weight(name).float()
                change = (W.float() + delta).to(W.dtype).float() - W.float()
                kept, whole = kept + float((delta * change).sum()), whole + float((delta**2).sum())
    return kept / whole if whole else 1.0


def _check_untied(model) -> None:
    bare = model.get_base_model()
    ends = (bare.get_input_embeddings(), bare.get_output_embeddings())
    if getattr(bare.config, "tie_word_embeddings", False) and any(
        x in ends for x in _adapted(model)
    ):
        raise ValueError(
            "the adapter changes the embedding or the output layer, which are one tensor in this "
            "model: added up, both would change; use base and adapter"
        )


def _adapted(model) -> list:
    return [x for x in model.modules() if isinstance(x, BaseTunerLayer)]
