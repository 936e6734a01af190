"""The policy: one causal language model that owns the weights, a LoRA adapter that is trained, and its tokenizer.

The adapter switched off is the reference policy, so no second model is ever loaded. Adapters are stored as safetensors
and JSON; nothing is pickled.
"""

import contextlib
import functools
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import socket
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import torch
from huggingface_hub import constants, snapshot_download
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import SafetensorError
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from ..randomness import integer
from .decoding import Rollouts, completion_logits, sample_tokens, shares_prompts
from .tokenizer import encode_prompt

POCKET = Path(__file__).parent / "pocket"
_CARD = "policy.json"  # beside the adapter: which base it belongs to


def pocket_names() -> list[str]:
    """Names of the policies that the package carries."""
    return sorted(p.name for p in POCKET.iterdir() if (p / "config.json").is_file()) if POCKET.is_dir() else []


def choose_device(name: str = "auto") -> torch.device:
    """The device named "cpu", "cuda" or "cuda:1"; "auto" is cuda where there is one, else cpu.

    ValueError for one that this machine lacks, and for any other kind: sampling counts in double precision, which Apple's
    mps does not have.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    found = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if name not in (*found, *(["cuda"] if len(found) > 1 else [])):
        raise ValueError(f"device {name!r} cannot be used here: there is {', '.join(found)}")
    return torch.device(name)


@dataclass
class Policy:
    """A causal LM with one LoRA adapter. Make one with :func:`load_policy`.

    model: the peft model; base: what it was built on (a pocket name, a folder, a hub name); board: squares a side that a
    pocket policy reads, None for a model that is prompted in words; dtype, load_in: how the base was asked for, which its
    adapter keeps; checkpointing: whether the layers are recomputed in the backward pass.
    """

    model: PeftModel
    tokenizer: object
    base: str
    board: int | None
    dtype: str = "auto"
    load_in: str | None = None
    checkpointing: bool = False

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def shares_prompts(self) -> bool:
        """Whether an update runs each prompt once for all its rollouts; layers that are run again need whole rows."""
        return not self.checkpointing and shares_prompts(self.model)

    @property
    def eos_ids(self) -> set[int]:
        """Every token that ends a completion: the tokenizer's EOS and those of the model's generation settings."""
        listed = self.model.generation_config.eos_token_id
        listed = [] if listed is None else [listed] if isinstance(listed, int) else listed
        return {int(i) for i in (*listed, self.tokenizer.eos_token_id) if i is not None}

    @property
    def pad_id(self) -> int:
        return self.tokenizer.eos_token_id if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id

    def encode(self, prompt: str) -> list[int]:
        return encode_prompt(self.tokenizer, prompt, pocket=self.board is not None)

    def sample(
        self, prompts, uniforms, temperature: float = 1.0, *, dtype: str = "auto", compiled: bool = False
    ) -> Rollouts:
        """Rollouts for P prompts (texts) at uniforms (P, G, T); see :func:`vpo_lite.policy.decoding.sample_tokens`.

        dtype: "auto" counts in the weights' own, or "float32", "bfloat16".
        """
        self.model.eval()
        return sample_tokens(
            self.model, [self.encode(p) for p in prompts], uniforms,
            eos_ids=self.eos_ids, pad_id=self.pad_id, temperature=temperature,
            dtype=None if dtype == "auto" else getattr(torch, dtype), compiled=compiled,
        )

    def texts(self, rollouts: Rollouts) -> list[str]:
        """The completions as text, tags kept, padding and EOS left out."""
        ends = self.eos_ids
        pairs = zip(rollouts.tokens, rollouts.mask, strict=True)
        rows = [[t for t in row[keep].tolist() if t not in ends] for row, keep in pairs]
        return self.tokenizer.batch_decode(rows)

    def token_logprobs(self, rollouts: Rollouts, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities (B, T) of the completions' tokens and the entropies (B, T) they were drawn at, in nats.

        Scored under the distribution that sampled them: the temperature divides the logits. Values outside ``rollouts.mask``
        mean nothing.
        """
        logits = completion_logits(self.model, rollouts, share=self.shares_prompts)
        logits = logits.float()
        logp = torch.log_softmax(logits if temperature == 1 else logits / temperature, -1)
        entropy = -torch.linalg.vecdot(logp.detach().exp(), logp.detach())
        return logp.gather(-1, rollouts.tokens[..., None])[..., 0], entropy

    @contextlib.contextmanager
    def reference(self):
        """Inside, the adapter is switched off: the model is the reference policy. No gradients."""
        with torch.no_grad(), self.model.disable_adapter():
            yield

    def save(self, path) -> Path:
        """Write the adapter (safetensors + JSON) to the folder ``path``, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            with quiet():
                self.model.save_pretrained(staging, save_embedding_layers=False)
            (staging / "README.md").unlink(missing_ok=True)  # peft's empty model card
            card = {"base": self.base, "fingerprint": fingerprint(self.base), "dtype": self.dtype, "load_in": self.load_in}
            (staging / _CARD).write_text(json.dumps(card, indent=1) + "\n")
            replace_folder(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return path


def replace_folder(staging: Path, path: Path) -> None:
    """Put a finished folder in the place of an older one."""
    old = path.with_name(f".{path.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    os.chmod(staging, 0o755)
    if path.exists():
        path.rename(old)
    staging.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def fingerprint(base: str) -> str | None:
    """A hash of a local base model's weights, so that an adapter is never put on another one; None for a hub name."""
    folder = _base_folder(base)
    if folder is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest()


def _base_folder(base: str) -> Path | None:
    if base in pocket_names():
        return POCKET / base
    return Path(base) if (Path(base) / "config.json").is_file() else None


def load_policy(
    path_or_name="pocket-6x6", *, device: str = "auto", rank: int = 16, lora_alpha: int = 32, seed: int = 0,
    dtype: str = "auto", load_in: str | None = None, gradient_checkpointing: bool = False,
) -> Policy:  # fmt: skip
    """Load a policy: a base model with a fresh adapter, or a trained adapter on its base.

    Args: path_or_name: "pocket-6x6" (carried by the package), a run folder or its adapter folder, a folder with a Hugging
    Face model, or the name of one on the hub; device: "auto", "cpu", "cuda"; rank, lora_alpha: of a fresh adapter;
    seed: of its initialisation; dtype of the base weights: "bfloat16", "float32", or "auto" (bfloat16 for a language model on a
    GPU that has it, else float32); load_in: "8bit" or "4bit" quantises them (:func:`quantisation`); a trained adapter gets
    the dtype and load_in that it was trained with unless these say otherwise, and is float32 whatever the base;
    gradient_checkpointing: recompute the layers in the backward pass (:func:`checkpoint_layers`).
    Returns: :class:`Policy`, in evaluation mode (no dropout), the adapter's parameters the only ones with gradients.
    Raises: ValueError in one line when there is no such model, or when the adapter belongs to other weights.
    """
    device = choose_device(device)
    folder = adapter_folder(path_or_name)
    if folder is not None:
        try:
            card = json.loads((folder / _CARD).read_text()) if (folder / _CARD).is_file() else {}
            base = card.get("base") or json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
            dtype = card.get("dtype", "auto") if dtype == "auto" else dtype
            load_in = load_in or card.get("load_in")
            model, tokenizer = _load_base(base, device, dtype, load_in)
            if card.get("fingerprint") not in (None, fingerprint(base)):
                raise ValueError(f"it was trained on other weights than the {base!r} found here")
            with quiet():
                model = PeftModel.from_pretrained(model, folder, is_trainable=True)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            raise ValueError(f"{folder}: this adapter cannot be loaded: {error}") from error
    else:
        base = str(path_or_name)
        if base not in pocket_names() and Path(base).is_dir():
            base = str(Path(base).resolve())  # an adapter finds it again from any place
        model, tokenizer = _load_base(base, device, dtype, load_in)
        lora = LoraConfig(
            r=rank, lora_alpha=lora_alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(integer(seed, "lora"))
            model = get_peft_model(model, lora)
    model.eval()
    if gradient_checkpointing:
        checkpoint_layers(model)
    board = getattr(model.get_base_model().config, "vpo_board", None)
    return Policy(model, tokenizer, base, board, dtype, load_in, gradient_checkpointing)


def adapter_folder(path) -> Path | None:
    """The folder of a trained adapter: the path itself or the run's adapter/ in it; None where there is none."""
    for folder in (Path(path) / "adapter", Path(path)):
        if (folder / "adapter_config.json").is_file():
            return folder
    return None


def _load_base(base: str, device: torch.device, dtype: str, load_in: str | None):
    folder = _base_folder(base) or _from_hub(base)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ValueError(f"model {base!r}: cannot be loaded as a causal language model: {error}") from error
    pocket = getattr(config, "vpo_board", None) is not None
    number = _number_type(dtype, device, pocket)
    if load_in is not None and pocket:
        raise ValueError(f"load_in = {load_in!r}: {base!r} is a pocket policy, a few million weights that gain nothing from it")
    quantised = {} if load_in is None else dict(
        quantization_config=quantisation(load_in, number), device_map={"": str(device)}
    )  # fmt: skip
    try:
        with quiet():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=number, **quantised)
            tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    except (ImportError, RuntimeError) as error:
        if load_in is None:
            raise
        raise ValueError(f"load_in = {load_in!r}: bitsandbytes cannot do it on {device}: {error}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"model {base!r}: cannot be loaded as a causal language model: {error}") from error
    if not quantised:
        return model.to(device), tokenizer
    for module in model.modules():  # some CPUs have a kernel without gradients, and a first pass that needs none stays with it
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model, tokenizer


def _number_type(dtype: str, device: torch.device, pocket: bool) -> torch.dtype:
    if dtype not in ("auto", "bfloat16", "float32"):
        raise ValueError(f"dtype = {dtype!r}: there are auto, bfloat16, float32")
    # a few million parameters gain nothing from half precision; a language model on a GPU that has it, not emulates it, does
    half = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) and not pocket
    return torch.bfloat16 if dtype == "bfloat16" or (dtype == "auto" and half) else torch.float32


def quantisation(load_in: str, dtype: torch.dtype) -> BitsAndBytesConfig:
    """How the base's linear layers are stored: int8 (LLM.int8(), Dettmers et al. 2022) or 4-bit NormalFloat with its scales
    quantised too (QLoRA, Dettmers et al. 2023, section 3). Embeddings, norms and output head are kept in ``dtype``, and 4-bit
    weights are multiplied in it; what peft's ``prepare_model_for_kbit_training`` adds is not needed here: freezing (a fresh
    adapter does), float32 norms and head (as little as without quantisation) and gradients of the inputs (for reentrant
    checkpointing only). Raises ValueError, with the cure, without bitsandbytes.

    >>> quantisation("3bit", torch.float32)
    Traceback (most recent call last):
    ...
    ValueError: load_in = '3bit': there are 8bit, 4bit
    """
    if load_in not in ("8bit", "4bit"):
        raise ValueError(f"load_in = {load_in!r}: there are 8bit, 4bit")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(f"load_in = {load_in!r}: needs bitsandbytes; cure: pip install 'bitsandbytes>=0.46.1'")
    if load_in == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def checkpoint_layers(model) -> None:
    """Make every decoder layer recompute itself in the backward pass (Chen et al. 2016) instead of keeping what it computed:
    the same gradient, less memory, one more forward pass. Acts whenever gradients are recorded.

    The library's own switch acts only while layers are in training mode, which brings dropout along and takes the cache away
    from sampling; here nothing but the recording of gradients decides. A layer that is handed a cache is run plainly: a
    second pass would write its keys twice.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        name = type(model.get_base_model()).__name__
        raise ValueError(f"gradient_checkpointing = True: {name} has no layers that can be recomputed; leave it out")
    for layer in layers:
        layer.forward = functools.partial(_recomputed, layer.forward)


def _recomputed(forward, *args, **kwargs):
    if torch.is_grad_enabled() and kwargs.get("past_key_values") is None:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    return forward(*args, **kwargs)


def _from_hub(name: str) -> Path:
    """The folder of a hub model: from the hub's cache, else downloaded (weights as safetensors only)."""
    wanted = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=not _hub_in_reach()))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"model {name!r}: no pocket policy ({', '.join(pocket_names()) or 'none'}), no folder with a model, not in the "
            "model hub's cache and not to be had from the hub; check the name, or connect once so that it is cached"
        ) from error


def _hub_in_reach() -> bool:
    """Whether the model hub's name resolves: offline, the hub client would try for a minute."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
        return True
    except OSError:
        return False


@contextlib.contextmanager
def quiet():
    """Loading prints nothing: progress bars and notices of the libraries would land in the panel's or table's way."""
    from transformers.utils import logging as hf_logging

    level, bars = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity(logging.ERROR)
    hf_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hf_logging.set_verbosity(level)
        if bars:
            hf_logging.enable_progress_bar()
