"""What all parts of the check share: device, sizes, models of random parameters, a clock."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from bench_training import sized
from peft import LoraConfig, get_peft_model
from small_models import QWEN, config_of
from transformers import Qwen2ForCausalLM

from vpo_lite.policy.decoder import compiler_missing
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.sampling import Rollouts

ROOT = Path(__file__).resolve().parents[2]


class Skipped(Exception):
    """This part cannot run here; the text says why."""


@dataclass(frozen=True)
class Here:
    """Where the parts run.

    - small: with sizes that a CPU computes in seconds
    - scratch: a folder that is removed afterwards
    - learn: seconds that the part learning takes
    - keep: stores figures of a part that is not done, in case it is cut short
    """

    device: torch.device
    small: bool
    scratch: Path
    learn: float = 300
    keep: Callable[[dict], None] = lambda figures: None

    def wait(self) -> None:
        """Until the device has done all that it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def best(self, work: Callable, rounds: int) -> float:
        """The seconds of the fastest of ``rounds`` runs, after one that does not count."""
        work()
        times = []
        for _ in range(rounds):
            self.wait()
            started = time.perf_counter()
            work()
            self.wait()
            times.append(time.perf_counter() - started)
        return min(times)


def needs_trl(here: Here) -> None:
    """Skip this part where TRL, or what its kernels in Triton need, is missing."""
    if missing := [p for p in ("trl", "datasets") if importlib.util.find_spec(p) is None]:
        raise Skipped(f"not installed: {', '.join(missing)}")
    if missing := compiler_missing(here.device):
        raise Skipped(missing)


def policy_of(size: str, device, dtype: torch.dtype = torch.float32) -> Policy:
    """A policy with an adapter that is not zero: pocket-6x6 ("1m"), or of random parameters."""
    torch.manual_seed(0)
    if size in ("1m", "10m"):
        policy = sized(size)
        policy.model.to(device)
        return policy
    pocket = load_policy("pocket-6x6", device="cpu")
    config = config_of(
        Qwen2ForCausalLM,
        *QWEN[size],
        tie_word_embeddings=True,
        bos_token_id=pocket.tokenizer.bos_token_id,
        eos_token_id=pocket.tokenizer.eos_token_id,
        pad_token_id=pocket.tokenizer.pad_token_id,
        dtype=dtype,
    )
    # A large model is made where it stays. Random numbers differ from device to device.
    with torch.device("cpu" if size == "tiny" else device):
        base = Qwen2ForCausalLM._from_config(config)
        lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(base, lora).eval()
        for name, p in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(p, std=0.02)
    return Policy(model.to(device), pocket.tokenizer, "random", pocket.pocket)


def full_rollouts(shape, vocabulary: int, device) -> Rollouts:
    """P x G completions of T tokens each to prompts of L tokens, drawn at random."""
    P, G, L, T = shape
    random = np.random.default_rng(0)
    ids = lambda *size: torch.as_tensor(random.integers(5, vocabulary, size), device=device)  # noqa: E731
    whole = lambda *size: torch.ones(size, dtype=torch.bool, device=device)  # noqa: E731
    return Rollouts(
        ids(P, L),
        whole(P, L),
        torch.arange(P, device=device).repeat_interleave(G),
        ids(P * G, T),
        whole(P * G, T),
        torch.zeros(P * G, T, device=device),
        whole(P * G),
    )


def moved(rollouts: Rollouts, device) -> Rollouts:
    return Rollouts(*(tensor.to(device) for tensor in rollouts))
