"""What a run will need in memory, stated before it starts: exact where shapes decide, an estimate for the update."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..estimators import METHODS
from ..policy.decoding import DecoderView
from ..policy.model import Policy
from .config import TRAINING_SEEDS, TrainConfig
from .evaluate import BUDGETS, ROWS
from .step import longest_completion


@dataclass(frozen=True)
class Memory:
    """Bytes that a run needs on its device.

    weights: of the base, without the scales of quantised ones (3 % of 4-bit weights); adapter: LoRA, its gradients and
    AdamW's two moments; view: the sampler's own copy of the weights; folding: its largest weight once more, while it is
    made; cache: keys and values of all rollouts at full length; prefill: of the prompts' forward pass; draw: the next
    token's distribution; activations: what the layers keep for the backward pass; backward: what one layer adds while
    gradients pass through it; logits: all that has the size of the completions' logits.
    """

    weights: int
    adapter: int
    view: int
    folding: int
    cache: int
    prefill: int
    draw: int
    activations: int
    backward: int
    logits: int

    @property
    def sampling(self) -> int:
        return self.view + max(self.folding, self.cache + max(self.prefill, self.draw))

    @property
    def update(self) -> int:
        return self.activations + max(self.backward, self.logits)

    @property
    def peak(self) -> int:
        """Sampling and update take turns; the rest stays."""
        return self.weights + self.adapter + max(self.sampling, self.update)

    def __str__(self):
        parts = {
            "weights": self.weights, "adapter and optimizer": self.adapter, "sampling": self.sampling, "update": self.update
        }  # fmt: skip
        return f"about {size(self.peak)} ({', '.join(f'{name} {size(n)}' for name, n in parts.items())})"


def size(count: float) -> str:
    """A number of bytes in a reader's unit.

    >>> size(800), size(3 * 2**20), size(1.5 * 2**30)
    ('1 MiB', '3 MiB', '1.5 GiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{max(1, round(count / 2**20))} MiB"


def memory_needed(
    policy: Policy, config: TrainConfig, task=None, *, prompt_tokens: int | None = None, new_tokens: int | None = None
) -> Memory:
    """What training ``policy`` after ``config`` will need.

    Args: task: the config's own; prompt_tokens L and new_tokens T: of the longest prompt and completion, by default as this
    task and the policy's tokenizer make them (from eight problems).

    Weights, adapter with its optimizer, view and cache follow from shapes. The rest is an estimate for decoders of the Llama
    kind with a LoRA of rank r on every linear layer. With b = micro_batch rollouts of u prompts, N = u L + b T tokens
    (N = b (L + T) under gradient checkpointing, which runs whole rows), H hidden, A = heads x head width, I the MLP's width
    and s bytes a number (4 or 2), the update keeps in every layer

        N [8 H + 4 (c H + A + I) + s (a A + 3 I) + 28 r] + 2 s A (b (L + T) + u L)

    inputs of the two norms and of the adapters in float32 (c, a = 2, 1 in float32; 5, 2 in half precision, where each
    adapter makes a copy of its own), queries, attended values, three inner tensors of the MLP; and keys and values once for
    every query head. Frozen weights need no inputs. Checkpointing keeps s N H a layer, and all the rest of one layer at a
    time. Gradients on their way through a layer are taken to be half of what it keeps. To this, or in its place, come four
    float32 tensors (b, T, V) for V words, five with ``kl``: logits, their log-softmax, and what its entropy, its gradient
    and the reference policy take: the largest part for real vocabularies. Workspaces of the matrix kernels are not counted
    (bfloat16 on a CPU lays out one weight at a time anew, the output head included).
    tests/test_memory.py holds the estimate against the tensors that autograd really keeps, and against measured peaks.
    """
    prompt, new = _lengths(policy, config, task) if None in (prompt_tokens, new_tokens) else (0, 0)
    L, T = prompt_tokens or prompt, new_tokens or new
    bare = policy.model.get_base_model()
    shape = bare.config.get_text_config()
    H, layers, heads = shape.hidden_size, shape.num_hidden_layers, shape.num_attention_heads
    head = getattr(shape, "head_dim", None) or H // heads
    A, I, V = heads * head, getattr(shape, "intermediate_size", None) or 4 * H, shape.vocab_size
    s = bare.dtype.itemsize
    trained = [p for p in policy.model.parameters() if p.requires_grad]

    prompts, rows = _sampled_at_once(config)
    sampler = s if config.rollout_dtype == "auto" else getattr(torch, config.rollout_dtype).itemsize
    view, folding, places = 0, 0, rows * (L + T)
    if DecoderView.knows(policy.model):  # all that bears an adapter is copied, the embeddings only for another dtype
        parts = [m.base_layer for m in bare.modules() if hasattr(m, "base_layer")]
        parts += [bare.get_input_embeddings(), bare.get_output_embeddings()] if sampler != s else []
        sizes = [part.weight.numel() for part in parts]
        view, folding = sampler * sum(sizes), s * max(sizes)
        fill = 16 if config.compile else 1
        places = prompts * -(-L // fill) * fill + rows * -(-T // fill) * fill  # a prompt's are shared by its rollouts
    cache = 2 * layers * places * (getattr(shape, "num_key_value_heads", None) or heads) * head * sampler

    b = min(config.micro_batch or config.prompts * config.group_size, config.prompts * config.group_size)
    u = -(-b // config.group_size)
    shared = policy.shares_prompts
    N = u * L + b * T if shared else b * (L + T)
    c, a = (2, 1) if s == 4 else (5, 2)
    layer = N * (8 * H + 4 * (c * H + A + I) + s * (a * A + 3 * I) + 28 * config.rank)
    layer += 2 * s * A * (b * (L + T) + (u * L if shared else 0))
    return Memory(
        weights=_bytes([p for p in policy.model.parameters() if not p.requires_grad] + list(policy.model.buffers())),
        adapter=(5 if config.epochs > 1 else 4) * _bytes(trained) + 4 * len(trained),  # AdamW counts steps in 4 bytes each
        view=view, folding=folding, cache=cache, prefill=sampler * prompts * L * (4 * H + 3 * A + 3 * I),
        draw=24 * rows * V,  # logits, log-softmax, and its sum in double precision
        activations=layers * (layer if shared else s * N * H), backward=layer // 2 if shared else layer + layer // 2,
        logits=(5 if config.kl else 4) * 4 * b * T * V,
    )


def fitted(policy: Policy, config: TrainConfig, available: int, task=None) -> TrainConfig:
    """``config`` with the largest micro_batch, halved from all rollouts down to 1, whose update fits into ``available`` bytes;
    as it is where it names one, or where all rollouts fit at once."""
    rows = config.prompts * config.group_size
    if config.micro_batch:
        return config
    while True:
        need = memory_needed(policy, config.but(micro_batch=rows), task)
        if rows == 1 or need.weights + need.adapter + need.update <= available:
            return config if rows == config.prompts * config.group_size else config.but(micro_batch=rows)
        rows = -(-rows // 2)


def available_memory(device: torch.device) -> int | None:
    """Bytes that this process can have in all on the device: what is free and what it holds; None if nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
        held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, StopIteration):  # no Linux
        return None
    try:  # a container's own limit, which the machine's figures do not show
        group = Path("/sys/fs/cgroup")
        limit = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, next(limit) - next(limit))
    except (OSError, ValueError):  # "max": no limit
        pass
    return free + held


def cures(need: Memory, config: TrainConfig) -> list[str]:
    """The settings that would lower this need, those that act on its largest part first."""
    rows = config.prompts * config.group_size
    lower = f"lower max_new_tokens ({config.max_new_tokens or 'as the task asks'})"
    update = [f"set micro_batch below {config.micro_batch or rows}"] if (config.micro_batch or rows) > 1 else []
    update += [] if config.gradient_checkpointing else ["turn on gradient_checkpointing"]
    sampling = [f"lower group_size ({config.group_size}) or prompts ({config.prompts})"]
    base = [] if config.load_in == "4bit" else ["load_in 4bit"]
    first = update if need.update >= need.sampling else sampling
    heavy = need.weights + need.view > max(need.update, need.sampling - need.view)  # a quantised base is not copied either
    return [*base, *first, lower] if heavy else [*first, lower, *base]


def _bytes(tensors) -> int:
    """Of tensors, shared storage counted once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def _lengths(policy: Policy, config: TrainConfig, task) -> tuple[int, int]:
    task = task or config.make_task()
    instances = [task.instance(seed) for seed in TRAINING_SEEDS[: 1 if config.one_maze else 8]]
    shown = METHODS[config.method].weight_in_prompt
    flat = [np.full(d, 1 / d) if shown else None for d in (len(task.objectives(x)) for x in instances)]
    prompts = [task.request(x, config.answers, weights=w, board=policy.board) for x, w in zip(instances, flat, strict=True)]
    return max(len(policy.encode(p)) for p in prompts), longest_completion(policy, task, config, instances)


def _sampled_at_once(config: TrainConfig) -> tuple[int, int]:
    """Prompts and rollouts in one sampling pass: of a step or of the evaluation, whichever is more."""
    copies = -(-BUDGETS[-1] // config.answers)
    mazes = 1 if config.one_maze else max(1, ROWS // copies)
    return max((config.prompts, config.prompts * config.group_size), (mazes, mazes * copies), key=lambda pair: pair[1])
