"""One whole training step against TRL's GRPOTrainer: same model, prompts, group size, tokens and
reward, one process.

    .venv/bin/python tests/benchmarks/bench_trl.py [--threads 2] [--size 1m | 10m | both] [--rounds
    12]

Needs the extra `trl`. Writes tests/benchmarks/results/trl.json, one entry per number of threads. A
step: 8 prompts x 8 rollouts of exactly 48 new tokens, the VPO set reward, one AdamW update of a
float32 LoRA adapter on all linear layers but lm_head, no dropout, beta = kl = 0, mean over tokens
(TRL's loss_type "dapo" is our aggregation "token"). TRL runs with the settings of
`vpo_lite.integrations.trl_setup.grpo_config`. The two take turns step by step, so that a busy
neighbour meets both; TRL's time runs from the end of our step to the end of its own.

Sizes: 1m is the shipped pocket-6x6, 10m a Qwen3 of random parameters; both in float32. `make gpu`
also compares 0.5b: random parameters in the shape of Qwen2.5-0.5B, in bfloat16. Random parameters
write no routes, so a stand-in for the parser reads some into whatever they write: rewards of 0
throughout would make advantages of 0.

Checked in every run, which else stops: the models have the same parameters in the same numbers, and
the same first values of the adapter; every rollout has 48 tokens; and TRL's advantages are the
library's on the same rewards, within 1e-4. They are float32 for a base in bfloat16, too. That both
read the same tokens is for tests/test_trl.py.
"""

import argparse
import functools
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
import torch
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
    TrainerCallback,
)

from vpo_lite import advantages
from vpo_lite.integrations.rewards import RolloutReward
from vpo_lite.integrations.trl import SetReward
from vpo_lite.integrations.trl_setup import EPS, dataset, grpo_config
from vpo_lite.policy import shipped
from vpo_lite.policy.adapter import quiet
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.tokenizer import word_tokenizer
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training import step as training_step
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.learner import Learner
from vpo_lite.training.problems import draw_weights

sys.path.insert(0, str(Path(__file__).parents[1]))
from small_models import QWEN, model_folder

RESULTS = Path(__file__).parent / "results" / "trl.json"
PROMPTS, GROUP, TOKENS, WARM_UP = 8, 8, 48, 2
PARTS = ("generate", "scoring", "forward + loss", "backward", "optimizer and rest")


class FullLength(Policy):
    """A policy whose rollouts never end early: no token is an end."""

    eos_ids = frozenset({-1})


class AnyWordsAreRoutes(MazeTask):
    """The maze for a model of random weights: answer i is one of the front's routes, chosen by the
    i-th part of the text.
    """

    def parse(self, instance, text, m):
        words, routes = text.split(), front_routes(instance)
        return [routes[zlib.crc32(" ".join(words[i::m]).encode()) % len(routes)] for i in range(m)]


@functools.cache
def front_routes(maze):
    return maze.pareto_front().routes


class Stopwatch:
    """Seconds by part. Parts may nest; each second counts for the innermost.

    ``wait``: called before the clock is read; a GPU has to end what it was asked for.
    """

    def __init__(self, wait=lambda: None):
        self.parts, self.inner, self.wait = defaultdict(float), [0.0], wait
        self.wrapped = []

    def wrap(self, owner, name, part):
        """Replace the function ``owner.name`` by one that is timed as ``part``."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args, **kwargs):
            self.inner.append(0.0)
            self.wait()
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.wait()
                seconds = time.perf_counter() - started
                self.parts[part] += seconds - self.inner.pop()
                self.inner[-1] += seconds

        self.wrapped.append((owner, name, function))
        setattr(owner, name, timed)

    def unwrap(self):
        """Put the functions back, untimed."""
        while self.wrapped:
            setattr(*self.wrapped.pop())

    def take(self, whole: float = 0.0) -> dict:
        """The parts of a step that took ``whole`` seconds, and start anew; what no part claims is
        the last one's.
        """
        parts, self.parts = self.parts, defaultdict(float)
        parts[PARTS[-1]] += whole - sum(parts.values())
        return {"step": whole, **parts}


class Checked:
    """The set reward of the library, of rollouts that are as long as they should be."""

    def __init__(self, config, task):
        self.config, self.reward = config, SetReward(task, RolloutReward.of(config))

    def __call__(self, prompts, completions, completion_ids, trainer_state, seed, slot, **_):
        if any(len(ids) != TOKENS for ids in completion_ids):
            raise RuntimeError(
                f"TRL's rollouts have {sorted({len(ids) for ids in completion_ids})} tokens, not "
                f"{TOKENS}"
            )
        step, columns = trainer_state.global_step, dict(seed=seed, slot=slot)
        scored, self.keys = self.reward.score(prompts, completions, step, columns)
        self.answers, self.step = [one.answers for one in scored], step
        return [one.reward for one in scored]

    def expected(self):
        """TRL's advantages (P, G), as the library computes them group by group."""
        task, first = self.reward.task, self.answers[::GROUP]
        mazes, keys = [a.instance for a in first], self.keys[::GROUP]
        R = np.array([a.for_training(task.worst(a.instance))[0] for a in self.answers])
        W = draw_weights(task, self.config, mazes, keys, self.step)
        R, c = R.reshape(PROMPTS, GROUP, *R.shape[1:]), (1 - 1 / GROUP) ** 0.5
        return c * advantages("vpo", R, weights=np.array(W), eps=c * EPS)  # TRL's std is ours / c


class Alternate(TrainerCallback):
    """Runs one step of ours after each of TRL's, and times both."""

    def __init__(self, our_step, check, watch):
        self.our_step, self.check, self.watch = our_step, check, watch
        self.theirs, self.ours = [], []

    def on_train_begin(self, *_, **__):
        self.watch.take()
        self.started = time.perf_counter()

    def on_step_end(self, args, state, control, **_):
        self.watch.wait()
        self.theirs.append(self.watch.take(time.perf_counter() - self.started))
        self.check()
        self.watch.take()
        started = time.perf_counter()
        record = self.our_step(state.global_step - 1)
        self.watch.wait()
        self.ours.append(self.watch.take(time.perf_counter() - started))
        if record.tokens != PROMPTS * GROUP * TOKENS:
            raise RuntimeError(
                f"our rollouts have {record.tokens} tokens, not {PROMPTS * GROUP * TOKENS}"
            )
        self.started = time.perf_counter()


def random_model(size: str, folder, device: str = "cpu"):
    """A folder with a model of random parameters, made on the device, that reads what pocket-6x6
    reads: "10m", a Qwen3 in float32, or a size of QWEN, in bfloat16. Each of its tokens is a word.
    """
    words = tokenizer_of(shipped.folder("pocket-6x6")).get_vocab()
    words = sorted(words, key=words.get)
    if size == "10m":
        sizes, more = (320, 896, 9, 8, 4), dict(kind=Qwen3ForCausalLM, head_dim=40)
    else:
        *sizes, vocabulary = QWEN[size]
        words += [f"word{i}" for i in range(len(words), vocabulary)]
        more = dict(kind=Qwen2ForCausalLM, dtype=torch.bfloat16)
    tokenizer = word_tokenizer(words)
    more |= dict(tie_word_embeddings=size != "10m", max_position_embeddings=512)
    more |= dict(bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id)
    with torch.device(device):
        described = dict(vpo_pocket=shipped.description("pocket-6x6"))
        return model_folder(folder, tokenizer, *sizes, **more, **described)


def tokenizer_of(folder):
    """The tokenizer in a folder, as it was saved. AutoTokenizer makes another of it where the model
    is a Qwen2: one that splits into bytes, and so reads no word.
    """
    return PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left")


def trl_trainer(folder, policy, config, reward, output):
    from peft import LoraConfig
    from trl import GRPOTrainer

    lora = LoraConfig(
        r=config.rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=policy.model.dtype),
        processing_class=policy.tokenizer,
        args=grpo_config(config, output, generation_kwargs={"min_new_tokens": TOKENS}),
        train_dataset=dataset(config, policy.tokenizer),
        reward_funcs=reward,
        peft_config=lora,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def start_alike(ours, theirs):
    """Give TRL's adapter our values, so that both train the same policy. Returns the number of
    parameters: all, trained.
    """
    both = [dict(model.named_parameters()) for model in (ours, theirs)]
    about = [{(n, p.shape, p.dtype, p.requires_grad) for n, p in of.items()} for of in both]
    if about[0] != about[1]:
        raise RuntimeError(f"the models differ: {sorted(map(str, about[0] ^ about[1]))[:4]}")
    trained = {name: p for name, p in both[0].items() if p.requires_grad}
    with torch.no_grad():
        for name, p in trained.items():
            both[1][name].copy_(p)
    return sum(p.numel() for p in ours.parameters()), sum(p.numel() for p in trained.values())


def watch_modules(wait=lambda: None) -> Stopwatch:
    """A stopwatch on what is called through its module: our step, and what both sides call of
    torch.
    """
    watch = Stopwatch(wait)
    watch.wrap(
        training_step, "train_step", "scoring"
    )  # and the step's record; the parts below are taken out of it
    watch.wrap(training_step, "update_policy", "forward + loss")
    watch.wrap(torch.autograd, "backward", "backward")
    watch.wrap(torch.nn.utils, "clip_grad_norm_", PARTS[-1])
    return watch


def compare(size: str, threads: int, rounds: int, watch: Stopwatch, device: str = "cpu") -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        with quiet():
            folder = shipped.folder("pocket-6x6")
            if size != "1m":
                folder = random_model(size, f"{scratch}/model", device)
        config = TrainConfig.preset(
            "demo",
            steps=WARM_UP + rounds,
            prompts=PROMPTS,
            group_size=GROUP,
            max_new_tokens=TOKENS,
            device=device,
            threads=threads,
            save_every=WARM_UP + rounds,
        )
        how = dict(rank=config.rank, lora_alpha=config.lora_alpha, device=device)
        how |= dict(dtype="bfloat16" if size in QWEN else "float32")
        policy = load_policy(folder, **how)
        policy.__class__, policy.tokenizer = FullLength, tokenizer_of(folder)
        torch.set_num_threads(threads)
        learner = Learner(config, policy, MazeTask() if size == "1m" else AnyWordsAreRoutes())
        reward = Checked(config, learner.task)
        with quiet():
            trainer = trl_trainer(folder, policy, config, reward, f"{scratch}/trl")
        parameters, trained = start_alike(policy.model, trainer.model)

        watch.wrap(policy, "sample", "generate")
        watch.wrap(learner.optimizer, "step", PARTS[-1])
        watch.wrap(trainer, "_generate_single_turn", "generate")
        watch.wrap(trainer, "_generate_and_score_completions", "scoring")
        watch.wrap(trainer, "compute_loss", "forward + loss")
        gaps = []  # between TRL's advantages and ours

        def check_advantages():
            expected = reward.expected()
            theirs = np.array(list(trainer._logs["advantages"])[-PROMPTS * GROUP :]).reshape(
                PROMPTS, GROUP
            )
            gaps.append(float(np.abs(theirs - expected).max()))
            if gaps[-1] > 1e-4 or not expected.any():
                raise RuntimeError(
                    f"TRL's advantages are off by {gaps[-1]:.2g} from ours, which reach "
                    f"{expected.max():.2g}"
                )

        turns = Alternate(
            lambda step: training_step.train_step(learner, config, step), check_advantages, watch
        )
        trainer.add_callback(turns)
        with quiet():
            trainer.train()
    times = {"vpo_lite": turns.ours[WARM_UP:], "trl": turns.theirs[WARM_UP:]}
    best = {side: min(t["step"] for t in steps) for side, steps in times.items()}
    median = {side: statistics.median(t["step"] for t in steps) for side, steps in times.items()}
    return {
        "parameters": parameters,
        "trained": trained,
        "base": how["dtype"],
        "rounds": rounds,
        "ratio_of_best": round(best["trl"] / best["vpo_lite"], 2),
        "ratio_of_medians": round(median["trl"] / median["vpo_lite"], 2),
        "largest_gap_of_advantages": float(f"{max(gaps):.1e}"),
        **{
            side: {
                "seconds": round(best[side], 4),
                "median": round(median[side], 4),
                "split_median_seconds": {
                    p: round(statistics.median(t[p] for t in steps), 4) for p in PARTS
                },
                "split_share": {
                    p: round(sum(t[p] for t in steps) / sum(t["step"] for t in steps), 3)
                    for p in PARTS
                },
            }
            for side, steps in times.items()
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", choices=("1m", "10m", "both"), default="both")
    parser.add_argument(
        "--rounds",
        type=int,
        default=12,
        help="timed steps of each side at 1m; a third of them at 10m",
    )
    options = parser.parse_args()
    if importlib.util.find_spec("trl") is None:
        print('TRL is not installed; to run this benchmark: pip install -e ".[trl]"')
        return
    torch.set_num_threads(options.threads)
    sizes = ("1m", "10m") if options.size == "both" else (options.size,)
    rounds = {"1m": options.rounds, "10m": max(2, options.rounds // 3)}
    watch = watch_modules()
    command = f"--threads {options.threads} --size {options.size} --rounds {options.rounds}"
    figures = {
        "command": f"python tests/benchmarks/bench_trl.py {command}",
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "threads": options.threads,
        **{name: version(name) for name in ("torch", "transformers", "peft", "trl")},
        "step": f"{PROMPTS} prompts x {GROUP} rollouts x {TOKENS} tokens, LoRA, fp32, AdamW",
        "sizes": {size: compare(size, options.threads, rounds[size], watch) for size in sizes},
    }
    print(json.dumps(figures, indent=1))
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**kept, f"threads_{options.threads}": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
