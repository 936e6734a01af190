"""Making a pocket policy: a small causal LM that has seen routes through many mazes.

It stands in for a pretrained language model. It knows the format and how to walk, and writes m
different routes when asked for m. It is undecided about gold, diamonds and lava, so that
reinforcement learning has something to teach. The demonstrations are drawn, never stored, so a
stopped run goes on exactly where it was.
"""

import dataclasses
import math
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import JsonValue
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

from ..files import (
    BusyError,
    DamagedError,
    FolderLock,
    Schema,
    is_free,
    lock_folder,
    read_json,
    tidy,
    write_atomically,
    write_json,
)
from ..policy.adapter import quiet
from ..policy.loading import load_policy
from ..policy.policy import Policy
from ..policy.weights import writing
from ..randomness import generator, integer
from ..tasks.maze import MazeTask
from ..training.errors import TrainingError
from ..training.memory import size, total_memory
from ..training.rollouts import longest_completion, sample_answers
from ..training.state import load_state, save_state
from .card import model_card
from .config import PretrainConfig
from .demonstrations import (
    LARGEST_BUDGET,
    MOST_ROUTES,
    Demonstration,
    Demonstrations,
    maze_tokenizer,
)

HELD_OUT = MazeTask.seeds["held_out"][:500]
LARGEST_FP32 = 8_000_000  # bytes; larger models are stored in bf16
ABOUT = "pretrain.json"  # the settings, and at the end the held-out figures
_FILES = (ABOUT, "README.md", "state.safetensors", "model.safetensors")
LONGEST = 512  # tokens of a prompt with its answers
STATE = "state.safetensors"
MODEL = "model.safetensors"  # comes last: with it the folder is finished


# --- the run --------------------------------------------------------------------------------------


def new_model(config: PretrainConfig) -> LlamaForCausalLM:
    """The untrained pocket model: a standard Llama configuration, untied embeddings."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer(config.seed, "pocket"))
        return LlamaForCausalLM(_shape(config))


def _shape(config: PretrainConfig) -> LlamaConfig:
    tokenizer = maze_tokenizer(config.board_size)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        intermediate_size=config.mlp,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=False,
        attention_dropout=0.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    shape.vpo_pocket = {
        "task": MazeTask.name,
        "board": config.board_size,
        "answers": MOST_ROUTES,
        "budget": LARGEST_BUDGET,
    }
    return shape


class Progress(NamedTuple):
    """Updates done, and the last one's loss in nats per completion token."""

    done: int
    loss: float


def pretrain(
    config: PretrainConfig, out, *, device, workers: int = 1, compile: bool = False
) -> Iterator[Progress]:
    """Train a pocket policy into the folder ``out``; the progress after each update.

    - device: of torch
    - workers: processes that draw demonstrations
    - compile: through torch.compile, which takes some seconds first

    It stops cleanly when the iterator is closed. Called again with the same config it goes on from
    the last saved state. At the end the folder holds the model, its tokenizer and
    ``pretrain.json``; :func:`finish` then measures it.

    Raises, before anything is written: ValueError for sizes that this machine cannot hold and for a
    folder that cannot be used, BusyError where another process works there. Later: TrainingError at
    the first loss that is not finite; the last saved state stays.
    """
    out = check_folder(config, out)
    check_fits(config, device)
    out.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(out)
    check_folder(config, out)  # another process may have been faster
    tidy(out, _FILES)
    if (out / MODEL).exists():
        return iter(())  # finished before
    model = new_model(config).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, weight_decay=0.01, betas=(0.9, 0.98)
    )
    state = out / STATE
    done = load_state(state, model, optimizer, most=config.updates) if state.exists() else 0
    write_json(out / ABOUT, {"config": dataclasses.asdict(config)})
    return _updates(config, out, model, optimizer, done, workers, compile, lock)


def _updates(config, out, model, optimizer, done, workers, compile, lock) -> Iterator[Progress]:
    device, saved = model.device, done
    data = Demonstrations(config)
    loader = DataLoader(
        data,
        batch_size=config.batch,
        sampler=range(done * config.batch, len(data)),
        num_workers=workers,
        collate_fn=_collate,
        prefetch_factor=4 if workers else None,
        persistent_workers=workers > 0,
        worker_init_fn=_leave_interrupts_alone,
    )
    forward = torch.compile(model, dynamic=True) if compile else model
    half = torch.autocast(device.type, torch.bfloat16, enabled=_has_fast_bf16(device))
    model.train()
    for update, (ids, labels) in enumerate(loader, done):
        warm, left = (update + 1) / 50, 1 - update / config.updates
        for group in optimizer.param_groups:
            group["lr"] = config.lr * min(warm, left, 1.0)
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with half:
            loss = forward(input_ids=ids, labels=labels, use_cache=False).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not (math.isfinite(loss.item()) and torch.isfinite(norm)):
            raise TrainingError(
                f"update {update + 1}: loss = {loss.item():g}, gradient norm = {norm.item():g}: "
                f"lower lr ({config.lr:g}). {out} still holds the state after update {saved}"
            )
        optimizer.step()
        if (update + 1) % config.save_every == 0:
            _check_held(lock, out)
            save_state(out / STATE, model, optimizer, update + 1)
            saved = update + 1
        yield Progress(update + 1, loss.item())
    _check_held(lock, out)
    _save_model(model.eval(), config, out)
    lock.release()


def _check_held(lock: FolderLock, out: Path) -> None:
    if not lock.held:
        raise BusyError(f"{out}: replaced, or taken over by another call of pretrain")


def _save_model(model, config: PretrainConfig, out: Path) -> None:
    """Put model and tokenizer into the folder: whole files, the parameters last."""
    broken = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    if broken:
        raise TrainingError(f"{len(broken)} tensors are not finite ({broken[0]}): lower lr")
    if sum(p.numel() for p in model.parameters()) * 4 > LARGEST_FP32:
        model.bfloat16()
    staging = Path(tempfile.mkdtemp(prefix=f".{MODEL}-", dir=out))
    maze_tokenizer(config.board_size).save_pretrained(staging)
    with quiet(), writing():
        model.cpu().save_pretrained(staging)
    for file in sorted(staging.iterdir(), key=lambda file: file.name == MODEL):
        file.replace(out / file.name)
    staging.rmdir()
    (out / STATE).unlink(missing_ok=True)


def check_fits(config: PretrainConfig, device: torch.device) -> None:
    """Raise ValueError, with the numbers, for a model that needs more memory than there is at all.

    Parameters, gradients and AdamW's moments take 16 bytes each. A token of the batch keeps about
    16 H + 4 I numbers in each layer, and 3 V for the logits, of 4 bytes.
    """
    with torch.device("meta"):
        model = LlamaForCausalLM(_shape(config))
    tokens = config.batch * LONGEST
    per_token = config.layers * (16 * config.width + 4 * config.mlp) + 3 * model.config.vocab_size
    need = 16 * sum(p.numel() for p in model.parameters()) + 4 * tokens * per_token
    there = total_memory(device)
    if there and need > there:
        raise ValueError(
            f"this model needs about {size(need)} to train, and {device} has {size(there)} in all: "
            f"lower width ({config.width}), layers ({config.layers}), mlp ({config.mlp}) or batch "
            f"({config.batch})"
        )


class About(Schema):
    """pretrain.json."""

    config: dict[str, JsonValue]
    held_out: dict[str, dict[str, dict[str, float | None]]] | None = None


def check_folder(config: PretrainConfig, out) -> Path:
    """The folder to train in. ValueError unless it is empty, new, or holds the same run."""
    out = Path(out)
    if (out / ABOUT).is_file():
        stored = read_json(out / ABOUT, About).config
        try:
            before = dataclasses.asdict(PretrainConfig.from_json(stored))
        except ValueError as error:
            raise DamagedError(f"{out / ABOUT}: {error}") from error
        now = dataclasses.asdict(config)
        changed = [
            f"{name} = {before[name]!r} there, {value!r} now"
            for name, value in now.items()
            if before[name] != value
        ]
        if changed:
            raise ValueError(
                f"{out}: holds a run with other settings ({', '.join(changed)}); choose another "
                "folder"
            )
    elif not is_free(out, [ABOUT]):
        raise ValueError(
            f"{out}: exists and is no folder that pretraining began in; choose another --out"
        )
    return out


class _Batch(NamedTuple):
    """Token ids (B, T), padded on the right, and labels (B, T): -100 on prompts and padding."""

    ids: torch.Tensor
    labels: torch.Tensor


def _collate(rows: list[Demonstration], pad: int = 0) -> _Batch:
    longest = max(len(row.prompt) + len(row.completion) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    labels = torch.full((len(rows), longest), -100)
    for i, row in enumerate(rows):
        start, end = len(row.prompt), len(row.prompt) + len(row.completion)
        ids[i, :end] = torch.tensor(row.prompt + row.completion)
        labels[i, start:end] = torch.tensor(row.completion)
    return _Batch(ids, labels)


def _leave_interrupts_alone(worker: int) -> None:
    """Ctrl-C is for the main process, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_fast_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()


# --- what it can do -------------------------------------------------------------------------------


def held_out_figures(
    policy: Policy, layout: str, *, seeds=HELD_OUT, sizes=(1, 3, 5), seed: int = 0
) -> dict:
    """Figures on mazes that were never trained on: one rollout each at temperature 1.

    Returns for every m in ``sizes``, as text, a dict of shares in [0, 1]:

    - parse, reach: of the answers asked for, those that parse, and those that reach E
    - distinct: of the rollouts, those with m different routes
    - treasure: of the answers that reach E, those with some gold or diamond
    - lava: of the answers that reach E, those that touched lava

    The last two are None where no answer reaches E.
    """
    task = MazeTask(layout=layout)
    mazes = [task.instance(s) for s in seeds]
    figures = {}
    for m in sizes:
        longest = longest_completion(policy, task, m, mazes)
        uniforms = generator(seed, "held-out", m).random((len(mazes), 1, longest))
        groups = sample_answers(policy, task, mazes, m, uniforms).groups
        routes = [group.answers[0] for group in groups]
        valid = np.stack([group.valid[0] for group in groups])
        rewards = np.stack([group.rewards[0] for group in groups])[valid]
        figures[str(m)] = {
            "parse": float(np.mean([group.parsed[0] for group in groups])),
            "reach": float(valid.mean()),
            "distinct": float(np.mean([None not in r and len(set(r)) == m for r in routes])),
            "treasure": float((rewards[:, 1:3] > 0).any(-1).mean()) if len(rewards) else None,
            "lava": float((rewards[:, 3] < 1).mean()) if len(rewards) else None,
        }
    return figures


def finish(config: PretrainConfig, out, device) -> dict:
    """Measure a finished pocket policy on held-out mazes.

    Writes the figures and the model card into its folder, and returns the figures by layout.
    """
    out = Path(out)
    lock = lock_folder(out)
    policy = load_policy(out, device=str(device), dtype="float32")
    figures = {name: held_out_figures(policy, name, seeds=HELD_OUT) for name in config.layouts}
    write_json(out / ABOUT, {"config": dataclasses.asdict(config), "held_out": figures})
    parameters = sum(p.numel() for p in policy.model.parameters() if not p.requires_grad)
    write_atomically(out / "README.md", model_card(config, out.name, parameters, figures, HELD_OUT))
    lock.release(remove=True)
    return figures
