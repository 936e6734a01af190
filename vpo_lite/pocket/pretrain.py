"""Making a pocket policy: a small causal LM that has seen answers to many problems of one task.

It stands in for a pretrained language model. It knows the format and what an answer looks like, and
writes m of them when asked for m. It is undecided between good answers, so that reinforcement
learning has something to teach. The demonstrations are drawn, never stored, so a stopped run goes
on exactly where it was. What is shown is the recipe's matter (``recipe.py``).
"""

import dataclasses
import math
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import JsonValue
from torch.utils.data import DataLoader

from ..checks import told_of
from ..files import (
    DamagedError,
    Schema,
    check_path,
    is_free,
    read_json,
    tidy,
    write_atomically,
    write_json,
)
from ..locks import BusyError, FolderLock, lock_folder
from ..policy.adapter import quiet
from ..policy.libraries import LlamaConfig, LlamaForCausalLM
from ..policy.loading import load_policy
from ..policy.policy import Policy
from ..policy.room import size, total_memory
from ..policy.tokenizer import word_tokenizer
from ..policy.weights import writing
from ..randomness import generator, integer
from ..tasks.base import SPLITS, Task
from ..training.errors import TrainingError
from ..training.rollouts import sample_answers, token_limits
from ..training.state import load_state, save_state
from .card import model_card
from .demonstrations import Demonstration, Demonstrations
from .recipe import Recipe, recipe_class

HELD_OUT = SPLITS["held_out"][:500]
LARGEST_FP32 = 8_000_000  # bytes; larger models are stored in bf16
ABOUT = "pretrain.json"  # the settings, and at the end the held-out figures
STATE = "state.safetensors"
MODEL = "model.safetensors"  # comes last: with it the folder is finished
_FILES = (ABOUT, "README.md", STATE, MODEL)


# --- the run --------------------------------------------------------------------------------------


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    """The untrained pocket model: a standard Llama configuration, untied embeddings."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(integer(recipe.seed, "pocket"))
        model = LlamaForCausalLM(_shape(recipe))
        if parts := recipe.parts():
            _begin_with_parts(model, [parts.get(word, (word,)) for word in recipe.vocabulary()])
        return model


@torch.no_grad()
def _begin_with_parts(model: LlamaForCausalLM, parts: list[tuple[str, ...]]) -> None:
    """Make the embedding and the output row of each word (in the order of the ids) the sum of its
    parts' vectors. They are larger than in a new model, or the first updates would wipe them out.
    """
    names = sorted({name for word in parts for name in word})
    vectors = dict(zip(names, torch.randn(len(names), model.config.hidden_size), strict=True))
    rows = torch.stack([sum(vectors[n] for n in word) / len(word) ** 0.5 for word in parts])
    model.get_input_embeddings().weight.copy_(0.5 * rows)
    model.get_output_embeddings().weight.copy_(0.1 * rows)


def _shape(recipe: Recipe) -> LlamaConfig:
    tokenizer = word_tokenizer(recipe.vocabulary())
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        intermediate_size=recipe.mlp,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=recipe.longest,
        tie_word_embeddings=False,
        attention_dropout=0.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    shape.vpo_pocket = recipe.pocket()
    return shape


class Progress(NamedTuple):
    """Updates done, and the last one's loss in nats per completion token."""

    done: int
    loss: float


def pretrain(
    recipe: Recipe, out, *, device, workers: int = 1, compile: bool = False
) -> Generator[Progress, None, None]:
    """Train a pocket policy into the folder ``out``; the progress after each update.

    - device: of torch
    - workers: processes that draw demonstrations
    - compile: through torch.compile, which takes some seconds first

    When the iterator is closed, it stores its state. Called again with the same recipe it goes on
    from the last stored state. At the end the folder holds the model, its tokenizer and
    ``pretrain.json``; :func:`finish` then measures it.

    Raises, before anything is written: ValueError for sizes that this machine cannot hold and for a
    folder that cannot be used, BusyError where another process works there. Later: TrainingError at
    the first loss or gradient that is not finite; the last saved state stays. BusyError if another
    call took the folder over.
    """
    out = check_folder(recipe, out)
    check_fits(recipe, device)
    out.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(out)
    check_folder(recipe, out)  # another process may have been faster
    tidy(out, _FILES)
    if (out / MODEL).exists():  # finished before
        (out / STATE).unlink(missing_ok=True)
        return (progress for progress in ())
    model = new_model(recipe).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.lr, weight_decay=0.01, betas=(0.9, 0.98)
    )
    state = out / STATE
    done = load_state(state, model, optimizer, most=recipe.updates) if state.exists() else 0
    write_json(out / ABOUT, _about(recipe))
    return _updates(recipe, out, model, optimizer, done, workers, compile, lock)


def _about(recipe: Recipe) -> dict:
    return {"task": recipe.task, "config": dataclasses.asdict(recipe)}


def _updates(recipe, out, model, optimizer, saved, workers, compile, lock) -> Generator:
    device = model.device
    data = Demonstrations(recipe)
    loader = DataLoader(
        data,
        batch_size=recipe.batch,
        sampler=range(saved * recipe.batch, len(data)),
        num_workers=workers,
        collate_fn=_collate,
        prefetch_factor=4 if workers else None,
        persistent_workers=workers > 0,
        worker_init_fn=_leave_interrupts_alone,
    )
    forward = torch.compile(model, dynamic=True) if compile else model
    half = torch.autocast(device.type, torch.bfloat16, enabled=_has_fast_bf16(device))
    model.train()
    for done, (ids, labels) in enumerate(loader, saved + 1):
        warm, left = done / 50, 1 - (done - 1) / (recipe.lr_updates or recipe.updates)
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * min(warm, left, 1.0)
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with half:
            loss = forward(input_ids=ids, labels=labels, use_cache=False).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not (math.isfinite(loss.item()) and torch.isfinite(norm)):
            raise TrainingError(
                f"update {done}: loss = {loss.item():g}, gradient norm = {norm.item():g}: "
                f"lower lr ({recipe.lr:g}), in another folder: {out} keeps its settings, and "
                + (f"the state after update {saved}" if saved else "holds no state yet")
            )
        optimizer.step()
        if done % recipe.save_every == 0:
            _check_held(lock, out)
            save_state(out / STATE, model, optimizer, done)
            saved = done
        try:
            yield Progress(done, loss.item())
        except GeneratorExit:
            if saved < done and lock.held:
                save_state(out / STATE, model, optimizer, done)
            raise
    _check_held(lock, out)
    _save_model(model.eval(), recipe, out)
    lock.release()


def _check_held(lock: FolderLock, out: Path) -> None:
    if not lock.held:
        raise BusyError(f"{out}: replaced, or taken over by another call of pretrain")


def _save_model(model, recipe: Recipe, out: Path) -> None:
    """Put model and tokenizer into the folder: whole files, the parameters last."""
    broken = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    if broken:
        raise TrainingError(
            f"{len(broken)} tensors are not finite ({broken[0]}): lower lr ({recipe.lr:g}), in "
            "another folder"
        )
    if sum(p.numel() for p in model.parameters()) * 4 > LARGEST_FP32:
        model.bfloat16()
    staging = Path(tempfile.mkdtemp(prefix=f".{MODEL}-", dir=out))
    word_tokenizer(recipe.vocabulary()).save_pretrained(staging)
    with quiet(), writing(out):
        model.cpu().save_pretrained(staging)
    for file in sorted(staging.iterdir(), key=lambda file: file.name == MODEL):
        file.chmod(out.stat().st_mode & 0o666)  # safetensors' are for the owner alone
        file.replace(out / file.name)
    staging.rmdir()
    (out / STATE).unlink(missing_ok=True)


def check_fits(recipe: Recipe, device: torch.device) -> None:
    """Raise ValueError, with the numbers, for a model that needs more memory than there is at all.

    A parameter, its gradient and AdamW's two moments take 16 bytes. A token of the batch keeps
    about 16 width + 4 mlp numbers in each layer, and 3 per word of the vocabulary for the logits,
    of 4 bytes each.
    """
    with torch.device("meta"):
        model = LlamaForCausalLM(_shape(recipe))
    tokens = recipe.batch * recipe.longest
    per_token = recipe.layers * (16 * recipe.width + 4 * recipe.mlp) + 3 * model.config.vocab_size
    need = 16 * sum(p.numel() for p in model.parameters()) + 4 * tokens * per_token
    if (there := total_memory(device)) and need > there:
        raise ValueError(
            f"this model needs about {size(need)} to train, and {device} has {size(there)} in all: "
            f"lower width ({recipe.width}), layers ({recipe.layers}), mlp ({recipe.mlp}) or batch "
            f"({recipe.batch})"
        )


class About(Schema):
    """pretrain.json."""

    task: str
    config: dict[str, JsonValue]
    held_out: dict[str, dict[str, dict[str, float | None]]] | None = None


def check_folder(recipe: Recipe, out) -> Path:
    """The folder to train in. ValueError unless it is empty, new, or holds the same run."""
    check_path(out)
    out = Path(out)
    if (out / ABOUT).is_file():
        stored = read_json(out / ABOUT, About)
        with told_of(f"{out / ABOUT}", DamagedError):
            before = _about(recipe_class(stored.task).from_json(stored.config))
        changed = [
            f"{name} = {there!r} there, {now!r} now"
            for name, there, now in _differences(before, _about(recipe))
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


def _differences(before: dict, now: dict) -> Iterator[tuple]:
    """What was set otherwise: name, value then, value now. Other tasks have other settings."""
    if before["task"] != now["task"]:
        yield "task", before["task"], now["task"]
        return
    for name, value in now["config"].items():
        if before["config"][name] != value:
            yield name, before["config"][name], value


def _collate(rows: list[Demonstration]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (B, T), padded on the right, and labels (B, T): -100 on prompts and padding."""
    longest = max(len(row.prompt) + len(row.completion) for row in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for i, row in enumerate(rows):
        start, end = len(row.prompt), len(row.prompt) + len(row.completion)
        ids[i, :end] = torch.tensor(row.prompt + row.completion)
        labels[i, start:end] = torch.tensor(row.completion)
    return ids, labels


def _leave_interrupts_alone(worker: int) -> None:
    """Ctrl-C is for the main process, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_fast_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()


# --- what it can do -------------------------------------------------------------------------------


def held_out_figures(
    policy: Policy, recipe: Recipe, task: Task, seeds, *, sizes=(1, 3, 5), seed: int = 0
) -> dict:
    """Figures on the problems with these seeds: one rollout each at temperature 1.

    Returns for every m in ``sizes``, as text, the recipe's figures: a dict of shares in [0, 1].
    """
    instances = [task.instance(s) for s in seeds]
    figures = {}
    for m in sizes:
        # One limit and one stream for all: the figures in the shipped cards were drawn so.
        longest = max(token_limits(policy, task, m, instances))
        uniforms = generator(seed, "held-out", m).random((len(instances), 1, longest))
        figures[str(m)] = recipe.figures(
            sample_answers(policy, task, instances, m, uniforms).groups
        )
    return figures


def finish(recipe: Recipe, out, device) -> dict:
    """Measure a finished pocket policy on held-out problems.

    Writes the figures and the model card into its folder, and returns the figures by the names of
    ``recipe.measured()``.
    """
    out = Path(out)
    lock = lock_folder(out)
    policy = load_policy(out, device=str(device), dtype="float32")
    figures = {
        name: held_out_figures(policy, recipe, task, HELD_OUT)
        for name, task in recipe.measured().items()
    }
    write_json(out / ABOUT, _about(recipe) | {"held_out": figures})
    parameters = sum(p.numel() for p in policy.model.parameters() if not p.requires_grad)
    write_atomically(out / "README.md", model_card(recipe, out.name, parameters, figures, HELD_OUT))
    lock.release(remove=True)
    return figures
