"""How much memory a run needs, stated before it starts. It is an estimate."""

import contextlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..estimators import METHODS
from ..policy.decoder import DecoderView
from ..policy.policy import Policy
from ..policy.room import available_memory, is_short, size, total_memory
from ..policy.scores import bytes_held
from .config import TrainConfig
from .contract import early_problems
from .evaluate import held_out_seeds
from .rollouts import token_limits


@dataclass(frozen=True)
class Memory:
    """Bytes that a run needs on its device.

    - parameters: of the base
    - adapter: LoRA, its gradients and AdamW's two moments
    - activations: what one forward pass keeps for the backward pass
    - logits: everything of the size of the completions' logits
    - sampling: keys and values of the rollouts sampled at once, what is drawn for each token, and
      the sampler's copies of parameters. The model's own forward pass, which samples for quantised
      and for unknown models, copies none
    """

    parameters: int
    adapter: int
    activations: int
    logits: int
    sampling: int

    @property
    def kept(self) -> int:
        return self.parameters + self.adapter

    @property
    def update(self) -> int:
        return self.activations + self.logits

    @property
    def peak(self) -> int:
        """Sampling and update take turns."""
        return self.kept + max(self.update, self.sampling)

    def __str__(self):
        parts = {
            "parameters": self.parameters,
            "adapter and optimizer": self.adapter,
            "sampling": self.sampling,
            "update": self.update,
        }
        listed = ", ".join(f"{name} {size(count)}" for name, count in parts.items())
        return f"about {size(self.peak)} ({listed})"


def _largest(shape, name: str) -> int:
    """The largest value of a setting, which may differ from layer to layer (Gemma 3n, Gemma 4, the
    latter as ``global_NAME`` in transformers 5.10); 0 where there is none.
    """
    names = name, f"global_{name}"
    layers = getattr(shape, "per_layer_config", None) or [shape]
    layers = layers.values() if isinstance(layers, Mapping) else layers
    found = [getattr(layer, n, None) or 0 for layer in layers for n in names]
    return max(max(x) if isinstance(x, list | tuple) else x for x in found)


@dataclass(frozen=True)
class Decoder:
    """The sizes of a policy's model, by the letters of :func:`memory_needed`.

    - layers, heads, V: how many layers, query heads and tokens of the vocabulary
    - cached: numbers in the keys and values of one token, over all layers
    - experts, E: how many a token goes through in a mixture of experts, 0 without; their width
    - eager: whether attention runs in plain operations, which keep a number for each pair of tokens
    - base, trained: bytes of the parameters that stay as they are, and of those that are trained
    """

    H: int
    A: int
    I: int
    s: int
    r: int
    layers: int
    heads: int
    V: int
    cached: int
    experts: int
    E: int
    eager: bool
    base: int
    trained: int

    @classmethod
    def of(cls, policy: Policy, rank: int) -> "Decoder":
        bare = policy.model.get_base_model()
        shape = bare.config.get_text_config()
        heads = _largest(shape, "num_attention_heads")
        head = _largest(shape, "head_dim") or shape.hidden_size // heads
        kv_heads = _largest(shape, "num_key_value_heads") or heads
        I = _largest(shape, "intermediate_size") or 4 * shape.hidden_size
        parameters = list(policy.model.parameters())
        return cls(
            H=shape.hidden_size,
            A=heads * head,
            I=I,
            s=bare.dtype.itemsize,
            r=rank,
            layers=shape.num_hidden_layers,
            heads=heads,
            V=shape.vocab_size,
            cached=2 * shape.num_hidden_layers * kv_heads * head,
            experts=_largest(shape, "num_experts_per_tok"),
            E=_largest(shape, "moe_intermediate_size") or I,
            eager=shape._attn_implementation == "eager",
            base=_bytes([p for p in parameters if not p.requires_grad]),
            trained=_bytes([p for p in parameters if p.requires_grad]),
        )

    def activations(self, N: int, attended: int, pairs: int, checkpointing: bool) -> int:
        """What one forward pass over N tokens keeps, and the gradients on their way.

        attended: tokens whose keys and values are read; pairs: of a token that reads and one that
        is read
        """
        H, A, I, s = self.H, self.A, self.I, self.s
        c, a = (2, 1) if s == 4 else (5, 2)
        mlp = 4 * I + 3 * s * I
        if self.experts:
            mlp = s * self.experts * (7 * self.E + 4 * H)
        layer = N * (8 * H + 4 * (c * H + A) + s * a * A + mlp + 28 * self.r)
        layer += 2 * s * A * attended + 8 * self.eager * self.heads * pairs
        kept = s * N * H * self.layers + layer if checkpointing else layer * self.layers
        return kept + layer // 2

    def copied(self, size: int) -> int:
        """The sampler's copies of parameters, for numbers of ``size`` bytes."""
        H, A, I, r = self.H, self.A, self.I, self.r
        C = self.cached // self.layers  # width of keys and values together
        if self.s == 4:  # LoRA is added to each projection
            apart, changed = 0, A * H + I * H
        else:
            apart, changed = r * (7 * H + 4 * A + 3 * C + 5 * I), 0
        joined = H * (A + C) + 2 * H * I
        if size != self.s:
            return size * (self.base // self.s + self.layers * apart)
        return size * self.layers * (joined + changed + apart)

    def reading(self, prompts: int, L: int) -> int:
        """One layer's numbers while prompts of L tokens are read, without gradients."""
        pair = 12 if self.eager else self.s
        mlp = self.experts * (3 * self.E + self.H) if self.experts else 3 * self.I
        return prompts * L * (self.s * (4 * self.H + mlp) + pair * self.heads * L)


def memory_needed(policy: Policy, config: TrainConfig, task=None) -> Memory:
    """The memory that training ``policy`` needs: an estimate for decoders of the Llama kind.

    Let b rollouts, a micro-batch or a whole mini-batch, continue u prompts. The longest prompt has
    L tokens, the longest completion T. One forward pass runs N = u L + b T tokens, or N = b (L + T)
    under gradient checkpointing, which runs whole rows. A layer keeps for the backward pass

        N [8 H + 4 (c H + A + I) + s (a A + 3 I) + 28 r] + 2 s A (b (L + T) + u L)  bytes

    - H: the width; A: heads x head width; I: the MLP's width; r: the rank of LoRA
    - s: bytes of a number, 4 or 2; c, a: 2, 1 in float32 and 5, 2 in half precision

    A mixture of experts keeps s e (7 E + 4 H) bytes a token in the place of 4 I + 3 s I, where each
    token goes through e experts of width E. Attention in plain operations keeps 8 bytes more for
    each head and pair of tokens. Families differ: there the estimate may be twice too high.

    Checkpointing keeps s N H for each layer, and the whole of one layer at a time. Gradients take
    half a layer more. For logits over V tokens see :func:`.scores.bytes_held`. A KL adds none: the
    reference is read first, without gradients.

    Sampling holds R = sample_batch rollouts of p prompts at once. A layer keeps keys and values of
    R T + p L tokens, or of R (L + T) in the model's own pass. 21 bytes go to every token that may
    be drawn in the step. On top come one layer's p L (4 H + 3 I + L heads) numbers while the
    prompts are read (of experts e (3 E + H) for 3 I; in plain operations 12 bytes for each of the
    L heads), and later 24 bytes for each logit of one token. The sampler's copies are gone
    when the update begins: all parameters in another number format, else the projections that it
    joins, H (A + C) + 2 H I numbers of a layer (C: the width of keys and values). In float32 it
    adds LoRA to the others, too: A H + I H. In half precision LoRA stands apart, beside zeros:
    r (7 H + 4 A + 3 C + 5 I).
    tests/test_memory.py compares this with what autograd keeps and torch allocates.
    """
    L, T = lengths(policy, config, task or config.make_task())
    model = Decoder.of(policy, config.rank)
    rows = config.prompts * config.group_size
    b = min(config.micro_batch or rows, config.update_size)
    u = -(-b // config.group_size)
    shared, fast = policy.shares_prompts, DecoderView.knows(policy.model)
    N = u * L + b * T if shared else b * (L + T)
    attended = b * (L + T) + (u * L if shared else 0)
    pairs = u * L * L + b * T * (L + T) if shared else b * (L + T) ** 2
    R = min(config.sample_batch or rows, rows)
    p = max(1, R // config.group_size)
    R = min(R, p * config.group_size)  # whole groups, or rollouts of one group
    cached = R * T + p * L if fast else R * (L + T)
    drawing = max(model.reading(p, L), 24 * R * model.V)
    own = config.rollout_dtype == "auto" or not fast
    size = model.s if own else getattr(torch, config.rollout_dtype).itemsize
    copies = model.copied(size) if fast else 0
    return Memory(
        parameters=model.base,
        adapter=4 * model.trained,
        activations=model.activations(N, attended, pairs, policy.checkpointing),
        logits=bytes_held(b * T * model.V, model.s, bool(config.entropy)),
        sampling=size * model.cached * cached + 21 * rows * T + drawing + copies,
    )


def fitted(
    policy: Policy,
    config: TrainConfig,
    available: int,
    task=None,
    needed=memory_needed,
    native: bool = True,
) -> TrainConfig:
    """The config with a micro_batch and a sample_batch that fit into ``available`` bytes.

    For each, all rollouts are halved until they fit, down to 1. What the config names itself stays,
    and so does what fits as it is. needed, native: as for :func:`check_fits`; another engine takes
    no sample_batch.
    """
    need, most = needed(policy, config, task), {o.name: o.most for o in config.options()}
    for name, part in (("micro_batch", "update"), ("sample_batch", "sampling"))[: 1 + native]:
        if getattr(config, name):
            continue
        rows = config.update_size if name == "micro_batch" else config.prompts * config.group_size
        rows = min(rows, most[name])
        while rows > 1 and need.kept + getattr(need, part) > available:
            rows = -(-rows // 2)
            config = config.but(**{name: rows})
            need = needed(policy, config, task)
    return config


def made_to_fit(policy: Policy, config: TrainConfig, task, **engine) -> TrainConfig:
    """The config as :func:`fitted` cuts it for the memory that is available now."""
    found = available_memory(policy.device)
    return fitted(policy, config, found, task, **engine) if found else config


def check_fits(
    policy: Policy, config: TrainConfig, task=None, needed=memory_needed, native: bool = True
) -> None:
    """Raise ValueError, with numbers and cures, where a run needs more positions than the model
    has, or more memory than the device has in all, unless ``ignore_memory`` is set.

    needed: as :func:`memory_needed`, of the engine that trains; native: whether that is ours
    """
    task = task or config.make_task()
    longest, new = lengths(policy, config, task)
    policy.check_room(longest, new)
    need, there = needed(policy, config, task), total_memory(policy.device)
    if there and need.peak > there and not config.ignore_memory:
        smallest = config.but(micro_batch=1, sample_batch=1)
        least = needed(policy, smallest, task)
        worst = (least, smallest) if least.peak > there else (need, config)
        cure = cures(*worst, native)
        raise ValueError(
            f"this run needs {need} for requests of up to {longest:,} tokens, and {policy.device} "
            f"has {size(there)} in all: {', or '.join(cure)}; this is an estimate, and "
            "ignore_memory trains all the same"
        )


@contextlib.contextmanager
def enough_memory(config: TrainConfig):
    """A context in which torch's ways to run out of memory are a MemoryError with the cures.

    What was under way is given back, also while a notebook keeps the error.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_short(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold the tensors that filled the memory
        first = str(error).splitlines()[0]
        raise MemoryError(
            f"out of memory ({first}): lower prompts ({config.prompts}), group_size "
            f"({config.group_size}) or max_new_tokens, set micro_batch and sample_batch, or "
            "shorten the requests"
        ) from error


def cures(need: Memory, config: TrainConfig, native: bool = True) -> list[str]:
    """What lowers this need, as texts. Those that act on its larger part come first.

    native: whether our own engine trains; another takes neither sample_batch nor load_in
    """
    rows = config.prompts * config.group_size
    base = ["load_in 4bit"] if native and config.load_in != "4bit" else []
    if need.sampling > need.update:
        sampled = config.sample_batch or rows
        return [
            *(base if 2 * need.parameters > need.sampling else []),
            *([f"set sample_batch below {sampled:,}"] if native and sampled > 1 else []),
            f"lower prompts ({config.prompts:,})",
            f"group_size ({config.group_size:,})",
            f"max_new_tokens ({config.max_new_tokens or 'as the task asks'})",
            "shorten the requests",
        ]
    rows = config.micro_batch or config.update_size
    update = [f"set micro_batch below {rows:,}"] if rows > 1 else []
    update += [] if config.gradient_checkpointing else ["turn on gradient_checkpointing"]
    update += [f"lower max_new_tokens ({config.max_new_tokens or 'as the task asks'})"]
    return [*base, *update] if need.parameters > need.update else [*update, *base]


def _bytes(tensors) -> int:
    """Of tensors, shared storage counted once. On the meta device all storages have address 0."""
    held = {t.untyped_storage().data_ptr() or id(t): t.untyped_storage().nbytes() for t in tensors}
    return sum(held.values())


def check_measured(policy: Policy, config: TrainConfig, task) -> None:
    """Raise TaskError where a held-out problem, which a run measures, has a longer request than the
    model has positions: before anything is written.
    """
    if policy.most_positions:
        seeds = held_out_seeds(task, config.eval_problems)
        policy.check_room(*lengths(policy, config, task, [task.instance(s) for s in seeds]))


def lengths(policy: Policy, config: TrainConfig, task, instances=None) -> tuple[int, int]:
    """Tokens of the longest prompt and completion of these problems; by default of the first ones
    to train on, and of those with the longest requests, where the task can tell.
    """
    m = config.answers
    instances = instances or [*early_problems(task), *task.longest_asked()]
    shown = METHODS[config.method].weight_in_prompt
    prompts = [
        task.prompt(x, m, weights=np.full(d, 1 / d) if shown else None, pocket=policy.pocket)
        for x, d in ((x, len(task.objectives(x))) for x in instances)
    ]
    longest = max(token_limits(policy, task, m, instances, config.max_new_tokens))
    return max(len(policy.encode(prompt)) for prompt in prompts), longest
