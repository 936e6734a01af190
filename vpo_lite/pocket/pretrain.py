"""Making a pocket policy: a small causal LM that has seen routes through many mazes.

It stands in for a pretrained language model. It knows the format and how to walk, and writes m
different routes when asked for m. It is undecided about gold, diamonds and lava, so that
reinforcement learning has something to teach. The demonstrations are drawn, never stored, so a
stopped run goes on exactly where it was.
"""

import dataclasses
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

import envs

from ..options import Option, options_of, setting
from ..policy.adapter import quiet
from ..policy.loading import load_policy
from ..policy.policy import Policy
from ..randomness import generator, integer
from ..tasks.maze import MazeTask
from ..training.folders import load_state, save_state, write_atomically, write_json
from ..training.rollouts import longest_completion, sample_answers
from .card import model_card
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


@dataclass(frozen=True)
class PretrainConfig:
    """What makes a pocket policy.

    Freely drawn boards keep hand-drawn mazes from being a surprise. With smaller boards one model
    serves several presets.

    >>> PretrainConfig(layers=0)
    Traceback (most recent call last):
    ...
    ValueError: layers = 0: must be a whole number, 1 or more
    """

    layout: str = setting("lite-6x6", "preset of the mazes", choices=tuple(envs.PRESETS))
    mazes: int = setting(80_000, "different mazes to learn from", least=1)
    drawn_share: float = setting(
        0.15,
        "share of freely drawn boards of any size up to the preset's",
        least=0,
        most=1,
    )
    smaller_share: float = setting(
        0.0, "share of batches from the presets with smaller boards", least=0, most=1
    )
    updates: int = setting(3_000, "number of updates", least=1)
    batch: int = setting(128, "demonstrations in an update", least=1)
    lr: float = setting(2e-3, "AdamW's peak learning rate, with linear decay", above=0)
    seed: int = setting(0, "of every random draw", least=0)
    width: int = setting(128, "width of the model", least=1)
    layers: int = setting(4, "layers of the model", least=1)
    heads: int = setting(4, "attention heads; width is an even multiple of them", least=1)
    mlp: int = setting(384, "width of the model's MLP", least=1)
    save_every: int = setting(200, "updates between two states to resume from", least=1)

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """All settings, in order; the flags of ``vpo-lite pretrain`` come from them."""
        return options_of(cls)

    def __post_init__(self):
        for option in self.options():
            option.check(getattr(self, option.name))
        if self.smaller_share and len(self.layouts) == 1:
            raise ValueError(
                f"smaller_share = {self.smaller_share}: no preset has smaller boards than "
                f"{self.layout!r}"
            )
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"width = {self.width}, heads = {self.heads}: width must be an even multiple of "
                "heads"
            )

    @property
    def board_size(self) -> int:
        return envs.PRESETS[self.layout].size

    @property
    def layouts(self) -> list[str]:
        """The presets of the mazes: ``layout``, then those with smaller boards if they take part.

        >>> PretrainConfig(smaller_share=0.5).layouts
        ['lite-6x6', 'tiny-4x4']
        """
        if not self.smaller_share:
            return [self.layout]
        smaller = [n for n, preset in envs.PRESETS.items() if preset.size < self.board_size]
        return [self.layout, *smaller]


# --- the run --------------------------------------------------------------------------------------


def new_model(config: PretrainConfig) -> LlamaForCausalLM:
    """The untrained pocket model: a standard Llama configuration, untied embeddings."""
    tokenizer = maze_tokenizer(config.board_size)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        intermediate_size=config.mlp,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=512,
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer(config.seed, "pocket"))
        return LlamaForCausalLM(shape)


class Progress(NamedTuple):
    """Updates done, and the last one's loss in nats per completion token."""

    done: int
    loss: float


def pretrain(
    config: PretrainConfig, out, *, device, workers: int = 1, compile: bool = False
) -> Iterator[Progress]:
    """Train a pocket policy into the folder ``out``, and yield the progress after each update.

    - device: of torch
    - workers: processes that draw demonstrations
    - compile: through torch.compile, which takes some seconds first

    It stops cleanly when the generator is closed. Called again with the same config it goes on from
    the last saved state. At the end the folder holds the model, its tokenizer and
    ``pretrain.json``; :func:`finish` then measures it.
    """
    out = check_folder(config, out)
    out.mkdir(parents=True, exist_ok=True)
    state = out / "state.safetensors"
    if (out / "model.safetensors").exists():
        return  # finished before
    model = new_model(config).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, weight_decay=0.01, betas=(0.9, 0.98)
    )
    done = load_state(state, model, optimizer) if state.exists() else 0
    write_json(out / ABOUT, {"config": dataclasses.asdict(config)})
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
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (update + 1) % config.save_every == 0:
            save_state(state, model, optimizer, update + 1)
        yield Progress(update + 1, loss.item())
    model.eval()
    maze_tokenizer(config.board_size).save_pretrained(out)
    if sum(p.numel() for p in model.parameters()) * 4 > LARGEST_FP32:
        model.bfloat16()
    with quiet():
        model.cpu().save_pretrained(out)
    state.unlink(missing_ok=True)


def check_folder(config: PretrainConfig, out) -> Path:
    """The folder to train in. ValueError unless it is empty, new, or holds the same run."""
    out = Path(out)
    if (out / ABOUT).is_file():
        stored = json.loads((out / ABOUT).read_text())["config"]
        before = dataclasses.asdict(PretrainConfig(**stored))
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
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
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
    policy = load_policy(out, device=str(device), dtype="float32")
    figures = {name: held_out_figures(policy, name, seeds=HELD_OUT) for name in config.layouts}
    write_json(out / ABOUT, {"config": dataclasses.asdict(config), "held_out": figures})
    parameters = sum(p.numel() for p in policy.model.parameters() if not p.requires_grad)
    write_atomically(out / "README.md", model_card(config, out.name, parameters, figures, HELD_OUT))
    return figures
