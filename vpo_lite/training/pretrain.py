"""Making a pocket policy: a small causal LM that has seen routes through many mazes, and prefers no treasure.

It stands in for a pretrained language model: it knows the format and how to walk, writes m different routes when asked
for m, and is undecided about gold, diamonds and lava, so that reinforcement learning has something to teach. The
demonstrations are drawn, never stored: demonstration i is a pure function of (seed, i), so a stopped run goes on exactly
where it was.
"""

import dataclasses
import json
import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

import envs

from ..policy.decoding import sample_tokens
from ..policy.model import quiet
from ..policy.tokenizer import MAX_M, encode_prompt, pocket_tokenizer
from ..randomness import generator, integer
from ..tasks.base import reward_matrix
from ..tasks.maze import MazeTask
from .runs import load_state, save_state, write_atomically, write_json

FIRST_SEED = envs.SEEDS["pretraining"].start  # below lie held-out and training mazes
HELD_OUT = range(500)
LARGEST_FP32 = 8_000_000  # bytes; larger weights are stored in bf16
ABOUT = "pretrain.json"  # the settings, and at the end the held-out figures


@dataclass(frozen=True)
class PretrainConfig:
    """What makes a pocket policy.

    layout: preset of the mazes; mazes: how many different ones; drawn_share: share of freely drawn boards instead (any size
    up to the preset's, any walls and items), so that hand-drawn mazes are no surprise; smaller_share: share of the batches
    that come from the presets with smaller boards instead, so that one model serves all of them; updates of ``batch``
    demonstrations; lr: AdamW's peak, linear decay; width, layers, heads, mlp: of the model; save_every: updates between two
    states to resume from.
    """

    layout: str = "lite-6x6"
    mazes: int = 80_000
    drawn_share: float = 0.15
    smaller_share: float = 0.0
    updates: int = 3_000
    batch: int = 128
    lr: float = 2e-3
    seed: int = 0
    width: int = 128
    layers: int = 4
    heads: int = 4
    mlp: int = 384
    save_every: int = 200

    def __post_init__(self):
        if self.layout not in envs.PRESETS:
            raise ValueError(f"unknown layout {self.layout!r}: there are {', '.join(map(repr, envs.PRESETS))}")
        for name in ("mazes", "updates", "batch", "width", "layers", "heads", "mlp", "save_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a whole number, 1 or more")
        if self.seed < 0 or not 0 < self.lr < math.inf:
            raise ValueError(f"seed = {self.seed}, lr = {self.lr}: seed must be 0 or more, lr a finite number above 0")
        for name in ("drawn_share", "smaller_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a share, 0 to 1")
        if self.smaller_share and len(self.layouts) == 1:
            raise ValueError(f"smaller_share = {self.smaller_share}: no preset has smaller boards than {self.layout!r}")
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(f"width = {self.width}, heads = {self.heads}: width must be an even multiple of heads")

    @property
    def board(self) -> int:
        return envs.PRESETS[self.layout].size

    @property
    def layouts(self) -> list[str]:
        """The presets that the mazes come from: ``layout`` first, then those with smaller boards if they take part."""
        smaller = [name for name, preset in envs.PRESETS.items() if preset.size < self.board] if self.smaller_share else []
        return [self.layout, *smaller]


# --- demonstrations ---------------------------------------------------------------------------------------------------


class Board:
    """Distances on one maze, found once and shared by its demonstrations. The exit is never walked through."""

    def __init__(self, maze: "envs.Maze"):
        self.maze = maze
        rows, columns = maze.shape
        free = {(r, c) for r in range(rows) for c in range(columns)} - set(maze.walls)
        self.neighbours = {
            (r, c): [p for p in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if p in free] for r, c in free
        }
        self.lava = frozenset(maze.lava)
        self._found: dict = {}

    def distances(self, target, avoid: frozenset) -> dict:
        """Steps to ``target`` from every cell that can reach it without the cells in ``avoid`` or across the exit."""
        key = (target, avoid)
        if key not in self._found:
            found, edge = {target: 0}, [target]
            while edge:
                following = []
                for cell in edge:
                    if cell == self.maze.exit and cell != target:
                        continue
                    for other in self.neighbours[cell]:
                        if other not in found and other not in avoid:
                            found[other] = found[cell] + 1
                            following.append(other)
                edge = following
            self._found[key] = found
        return self._found[key]

    def walk(self, start, target, avoid, rng) -> list:
        """A random shortest way from start to target: the cells after start."""
        steps, here, cells = self.distances(target, avoid), start, []
        while here != target:
            options = [n for n in self.neighbours[here] if steps.get(n, math.inf) == steps[here] - 1]
            here = options[int(rng.integers(len(options)))]
            cells.append(here)
        return cells

    def via(self, stop, avoid, rng) -> list | None:
        """A way start - stop - exit within the budget (stop None: straight to the exit), or None."""
        maze = self.maze
        home = self.distances(maze.exit, avoid)
        if stop is None:
            return self.walk(maze.start, maze.exit, avoid, rng) if home.get(maze.start, math.inf) <= maze.budget else None
        first = self.distances(stop, avoid).get(maze.start, math.inf)
        if stop == maze.exit or first + home.get(stop, math.inf) > maze.budget:
            return None
        return self.walk(maze.start, stop, avoid, rng) + self.walk(stop, maze.exit, avoid, rng)


def demonstrate(board: Board, m: int, rng) -> list[list]:
    """m routes (lists of cells), different where that is easy: straight ways, ways by some free cell, ways by one treasure."""
    maze, routes = board.maze, []
    free = sorted(board.neighbours)
    for _ in range(m):
        for _attempt in range(8):
            avoid = board.lava if rng.random() < 0.4 else frozenset()
            kind = rng.random()
            stop = None
            if kind < 0.3:
                piles = [p for p in (maze.gold, maze.diamonds) if p]
                if piles:
                    pile = sorted(piles[int(rng.integers(len(piles)))])
                    stop = pile[int(rng.integers(len(pile)))]
            elif kind < 0.55:
                stop = free[int(rng.integers(len(free)))]
            route = board.via(stop, avoid, rng) or board.via(None, avoid, rng) or board.via(None, frozenset(), rng)
            if route not in routes:
                break
        routes.append(route)
    return routes


def drawn_maze(size: int, rng) -> "envs.Maze":
    """A board as a person might draw it: any size up to ``size``, any places, none to many walls and items."""
    while True:
        side = int(rng.integers(3, size + 1))
        cells = ["."] * (side * side)
        counts = {"#": int(rng.integers(0, side * side // 3)), "S": 1, "E": 1}
        counts |= {s: int(rng.integers(0, max(2, side - 1))) for s in "GDL"}
        places = rng.permutation(side * side)[: sum(counts.values())].tolist()
        for symbol, count in counts.items():
            for _ in range(count):
                if places:
                    cells[places.pop()] = symbol
        text = "\n".join(" ".join(cells[r * side : (r + 1) * side]) for r in range(side))
        try:
            longest = envs.Maze.from_text(text)
            return envs.Maze.from_text(text, budget=int(rng.integers(longest.budget - 2 * side, longest.budget + 1)))
        except ValueError:  # S or E walled in
            continue


class Demonstrations(Dataset):
    """Demonstration i as (prompt ids, completion ids); a pure function of (seed, i)."""

    def __init__(self, config: PretrainConfig):
        self.config = config
        self.task = MazeTask(config.layout)
        self.tokenizer = pocket_tokenizer(config.board)
        self.vocabulary = self.tokenizer.get_vocab()

    def __len__(self) -> int:
        return self.config.updates * self.config.batch

    def __getitem__(self, i: int) -> tuple[list[int], list[int]]:
        rng = generator(self.config.seed, "demonstration", 0, str(i))
        layout = self._layout(i // self.config.batch)
        if rng.random() < self.config.drawn_share:
            maze = drawn_maze(envs.PRESETS[layout].size, rng)
        else:
            maze = envs.generate(layout, FIRST_SEED + i % self.config.mazes)
        m = 1 + i // self.config.batch % MAX_M  # the same in a batch: hardly any padding
        # some prompts show weights that mean nothing yet, so that the places of all later tokens are familiar
        weights = rng.dirichlet(np.ones(4)) if rng.random() < 0.1 else None
        routes = demonstrate(Board(maze), m, rng)
        prompt = encode_prompt(
            self.tokenizer, self.task.request(maze, m, weights=weights, board=self.config.board), pocket=True
        )
        words = self.task.format_walks(routes).split()
        return prompt, [*(self.vocabulary[w] for w in words), self.tokenizer.eos_token_id]

    def _layout(self, batch: int) -> str:
        """Whole batches share a board size: hardly any padding."""
        own, *smaller = self.config.layouts
        rng = generator(self.config.seed, "layout", batch)
        return smaller[int(rng.integers(len(smaller)))] if smaller and rng.random() < self.config.smaller_share else own


def _collate(rows, pad: int = 0):
    """Right-pad to (B, T): ids, and labels that are -100 on prompts and padding."""
    longest = max(len(p) + len(c) for p, c in rows)
    ids = torch.full((len(rows), longest), pad)
    labels = torch.full((len(rows), longest), -100)
    for row, (prompt, completion) in enumerate(rows):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        labels[row, len(prompt) : end] = torch.tensor(completion)
    return ids, labels


# --- the run ----------------------------------------------------------------------------------------------------------


def new_model(config: PretrainConfig) -> LlamaForCausalLM:
    """The untrained pocket model: a standard Llama configuration, untied embeddings."""
    tokenizer = pocket_tokenizer(config.board)
    shape = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=config.width, intermediate_size=config.mlp,
        num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.heads,
        max_position_embeddings=512, tie_word_embeddings=False, attention_dropout=0.0,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )
    shape.vpo_board = config.board
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer(config.seed, "pocket"))
        return LlamaForCausalLM(shape)


def pretrain(
    config: PretrainConfig, out, *, device, workers: int = 1, compile: bool = False
) -> Iterator[tuple[int, float]]:
    """Train a pocket policy into the folder ``out``; yields (updates done, loss in nats per completion token).

    Stops cleanly when the generator is closed, and goes on from the last saved state when it is called again with the same
    config. At the end the folder holds the model, its tokenizer and ``pretrain.json``; :func:`finish` then measures it.
    ``compile``: through torch.compile, which takes some seconds first.
    """
    out = check_folder(config, out)
    out.mkdir(parents=True, exist_ok=True)
    state = out / "state.safetensors"
    if (out / "model.safetensors").exists():
        return  # finished before
    model = new_model(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.01, betas=(0.9, 0.98))
    done = load_state(state, model, optimizer) if state.exists() else 0
    write_json(out / ABOUT, {"config": dataclasses.asdict(config)})
    data = Demonstrations(config)
    order = range(done * config.batch, len(data))
    loader = DataLoader(
        data, batch_size=config.batch, sampler=order, num_workers=workers, collate_fn=_collate,
        prefetch_factor=4 if workers else None, persistent_workers=workers > 0, worker_init_fn=_leave_interrupts_alone,
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
        yield update + 1, loss.item()
    model.eval()
    pocket_tokenizer(config.board).save_pretrained(out)
    if sum(p.numel() for p in model.parameters()) * 4 > LARGEST_FP32:
        model.bfloat16()
    with quiet():
        model.cpu().save_pretrained(out)
    state.unlink(missing_ok=True)


def check_folder(config: PretrainConfig, out) -> Path:
    """The folder to train in: an empty or new one, or one where the same run was begun. ValueError otherwise."""
    out = Path(out)
    if (out / ABOUT).is_file():
        stored = json.loads((out / ABOUT).read_text())["config"]
        before, now = dataclasses.asdict(PretrainConfig(**stored)), dataclasses.asdict(config)
        if before != now:
            changed = ", ".join(f"{k} = {before.get(k)!r} there, {v!r} now" for k, v in now.items() if before.get(k) != v)
            raise ValueError(f"{out}: holds a run with other settings ({changed}); choose another folder")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: exists and is no folder that pretraining began in; choose another --out")
    return out


def _leave_interrupts_alone(worker: int) -> None:
    """Ctrl-C is for the main process, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_fast_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


# --- what it can do ---------------------------------------------------------------------------------------------------


def held_out_figures(
    model, tokenizer, layout: str, seeds=HELD_OUT, sizes=(1, 3, 5), seed: int = 0, board: int | None = None
) -> dict:
    """Sampled at temperature 1 on unseen mazes, one rollout each, for every m in ``sizes`` (``board``: what the model reads):

    ``parse`` and ``reach``: shares of the answers asked for; ``distinct``: share of rollouts whose m move strings all
    differ; ``treasure``: share of the answers that reach E with some gold or diamond; ``lava``: ... that touched lava (None
    where none reach it).
    """
    task, board = MazeTask(layout), board or envs.PRESETS[layout].size
    mazes = [task.instance(s) for s in seeds]
    figures = {}
    for m in sizes:
        prompts = [encode_prompt(tokenizer, task.request(z, m, board=board), pocket=True) for z in mazes]
        longest = m * max(map(task.answer_tokens, mazes)) + 1
        uniforms = generator(seed, "held-out", m).random((len(mazes), 1, longest))
        rollouts = sample_tokens(
            model, prompts, uniforms, eos_ids={tokenizer.eos_token_id}, pad_id=tokenizer.pad_token_id
        )
        texts = tokenizer.batch_decode([row[keep] for row, keep in zip(rollouts.tokens, rollouts.mask, strict=True)])
        answers = [task.parse(z, text, m) for z, text in zip(mazes, texts, strict=True)]
        scored = [reward_matrix(task, z, [row]) for z, row in zip(mazes, answers, strict=True)]
        rewards = np.concatenate([s.rewards for s in scored])
        reach = rewards[..., 0] > 0
        figures[str(m)] = {
            "parse": float(np.mean([s.parsed for s in scored])),
            "reach": float(reach.mean()),
            "distinct": float(np.mean([None not in row and len(set(row)) == m for row in answers])),
            "treasure": float((rewards[reach][:, 1:3] > 0).any(-1).mean()) if reach.any() else None,
            "lava": float((rewards[reach][:, 3] < 1).mean()) if reach.any() else None,
        }
    return figures


def finish(config: PretrainConfig, out, device) -> dict:
    """Measure a finished pocket policy on the held-out mazes; writes its figures and its model card, returns the figures."""
    out = Path(out)
    with quiet():
        model = LlamaForCausalLM.from_pretrained(out, dtype=torch.float32).to(device).eval()
    tokenizer = pocket_tokenizer(config.board)
    figures = {layout: held_out_figures(model, tokenizer, layout, board=config.board) for layout in config.layouts}
    write_json(out / ABOUT, {"config": dataclasses.asdict(config), "held_out": figures})
    default = PretrainConfig()
    changed = [
        f"--{f.name.replace('_', '-')} {getattr(config, f.name)}" for f in dataclasses.fields(config)
        if getattr(config, f.name) != getattr(default, f.name)
    ]
    shown = ("parse", "reach", "distinct", "treasure", "lava")
    rows = [
        f"| `{layout}` | {m} | " + " | ".join("-" if f[k] is None else f"{100 * f[k]:.1f} %" for k in shown) + " |"
        for layout, by_m in figures.items() for m, f in by_m.items()
    ]
    also = f" or of a smaller preset ({', '.join(f'`{name}`' for name in config.layouts[1:])})" if config.smaller_share else ""
    mixed = f" A share of {config.smaller_share} of the batches comes from the smaller presets." if config.smaller_share else ""
    count = sum(p.numel() for p in model.parameters())
    card = f"""# {out.name}

A causal language model with {count / 1e6:.2f} million parameters ({config.layers} layers of width {config.width}, Llama
architecture) that reads a maze of the preset `{config.layout}`{also} and writes m = 1 to {MAX_M} routes through it.
It stands in for a pretrained language model: it knows the format and how to walk, and is undecided about gold, diamonds and
lava, so that reinforcement learning has something to teach. It is good for nothing else.

Made by `{" ".join(["vpo-lite pretrain --out", out.name, *changed])}` from drawn demonstrations: {config.updates:,} updates of
{config.batch} demonstrations on {config.mazes:,} mazes (seeds from {FIRST_SEED:,}), of which a share of {config.drawn_share} is
replaced by freely drawn boards. Seed {config.seed}. The demonstrations go straight to the exit (45 %), by some free square
(25 %) or by one gold or diamond (30 %); 40 % avoid lava.{mixed}

Sampled at temperature 1 on {len(HELD_OUT)} held-out mazes (seeds {HELD_OUT[0]} to {HELD_OUT[-1]}), one rollout each:

| mazes | m | parse | reach E | rollouts with m different routes | of those that reach E: some treasure | touched lava |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Licence: Apache-2.0. Made from no data but the generator's.
"""
    write_atomically(out / "README.md", card)
    return figures
