"""A run as files that veRL starts from: data, configuration, launch lines. veRL need not be here.

    train.parquet      the native trainer's problems: step by step, slot by slot
    held_out.parquet   the problems that are measured
    vpo.yaml           every setting of the run, over veRL's own ``ppo_trainer`` configuration
    run.sh, README.md  the launch lines of one node and of a Ray cluster; the way back
    config.json        the settings as this kit reads them, for ``vpo-lite evaluate``

Where the settings of a TrainConfig go (``actor_rollout_ref.`` is left out; a test reads this list):

- method, answers of a rollout (m), K, alpha, seed, pay_repeats: algorithm.vpo
- eps, k: algorithm.vpo, for the estimator vpo; veRL's grpo has eps 1e-6 and no
  setting for it
- task, task options: algorithm.vpo, and the data
- model, rank, lora_alpha, target_modules, gradient_checkpointing: model.path, .lora_rank,
  .lora_alpha, .target_modules, .enable_gradient_checkpointing
- steps, prompts, group_size: trainer.total_training_steps, data.train_batch_size, rollout.n
- epochs, mini_batches, clip, clip_high, dual_clip: actor.ppo_epochs, .ppo_mini_batch_size,
  .clip_ratio, .clip_ratio_high, .clip_ratio_c
- entropy: actor.entropy_coeff
- lr, warmup_steps, lr_schedule, weight_decay, max_grad_norm: actor.optim.lr, .lr_warmup_steps,
  .lr_scheduler_type, .weight_decay, .clip_grad
- kl, aggregation: actor.use_kl_loss, .kl_loss_coef, .loss_agg_mode; micro_batch: ..._per_gpu there
- temperature, max_new_tokens: rollout.temperature, data.max_response_length
- dtype, rollout_dtype: actor.fsdp_config.model_dtype, rollout.dtype; auto leaves veRL's
- save_every: trainer.save_freq, but at most ten checkpoints are stored: each holds the whole model
- load_in, compile, sample_batch, ignore_memory, device, threads, mask_truncated, whiten: refused,
  since veRL has nothing like them or decides itself
- keep_texts: not used; veRL has trainer.rollout_data_dir
- eval_problems, eval_answers: the held-out data, and rollout.val_kwargs.n; eval_every:
  trainer.test_freq, by default ten times in a run
- set_size: for ``vpo-lite evaluate`` (config.json)
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..checks import check_choice, check_whole, shown
from ..estimators import METHODS
from ..files import is_free, making, write_json
from ..policy import shipped
from ..policy.base import load_tokenizer
from ..policy.hub import HubName
from ..policy.tokenizer import encode
from ..tasks.base import Prompt, Task
from ..training.config import TrainConfig
from ..training.contract import check_early_problems, check_problem, prompt_of, tokens_of
from ..training.evaluate import held_out_seeds
from ..training.folders import CONFIG, stored_settings
from ..training.problems import seeds_of_step
from ..training.run import settled
from ..training.schemas import Engine
from .rewards import RolloutReward
from .verl_texts import RUN, configuration, readme

ESTIMATORS = ("grpo", "vpo")
REFUSED = ("load_in", "compile", "sample_batch", "ignore_memory", "device", "threads")
REFUSED += ("mask_truncated", "whiten")
MOST_RANK = 512
TEMPLATE = 256  # tokens that a chat template that is not here may add to each turn of a prompt
FILES = ("train.parquet", "held_out.parquet", "vpo.yaml", "run.sh", "README.md", CONFIG)


def export(
    config: TrainConfig,
    out,
    *,
    gpus: int = 1,
    nodes: int = 1,
    estimator: str = "grpo",
    tell: Callable[[int, int], object] | None = None,
) -> dict[str, int]:
    """Write the folder ``out``, whole or not at all; returns the number of problems by file.

    - gpus, nodes: GPUs of a node, nodes of the cluster
    - estimator: "grpo", veRL's own, or "vpo" (:mod:`~.verl_estimator`)
    - tell: called first, and after each problem that is written, with the number of those that are
      done, and of all

    Raises ValueError for settings that veRL cannot keep, for a folder that holds something, and
    where pyarrow is missing. Nothing is written then.
    """
    check_whole(gpus, "gpus")
    check_whole(nodes, "nodes")
    check_settings(config, estimator, gpus * nodes)
    out = Path(out)
    if not is_free(out, FILES):
        raise ValueError(f"{out}: exists already; choose another folder")
    if not out.name:  # the folder itself takes the place of an empty one
        raise ValueError(f"{out}: name the folder to make, such as {out / 'verl'}")
    config = settled(config)
    tokenizer = load_tokenizer(config.model) if Path(config.model).is_dir() else None
    if tokenizer is not None and not tokenizer.chat_template:
        raise ValueError(
            f"model = {shown(config.model, 200)}: its tokenizer has no chat template, and veRL "
            "asks in chat messages; name an instruct model, or train natively"
        )
    task, stored = config.make_task(), stored_settings(config, Engine(name="verl"))
    check_early_problems(task, config.answers, None)
    held_out = held_out_seeds(task, config.eval_problems, "eval_problems")
    rows = {
        "train.parquet": training_rows(config, task),
        "held_out.parquet": held_out_rows(config, task, held_out),
    }
    parquet, total = _pyarrow(), config.steps * config.prompts + len(held_out)
    done = itertools.count(1)
    told = (lambda: tell(next(done), total)) if tell else (lambda: None)
    if tell:
        tell(0, total)
    with making(out) as made:
        length = partial(_longest, tokenizer)
        files = {n: _write_rows(parquet, made / n, x, length, told) for n, x in rows.items()}
        prompt = max(file.prompt for file in files.values())
        response = max(file.tokens for file in files.values())
        lengths = (prompt, config.max_new_tokens or response)
        count = {name: file.problems for name, file in files.items()}
        write_json(made / CONFIG, stored)
        texts = {
            "vpo.yaml": configuration(config, lengths, gpus, nodes, estimator),
            "run.sh": RUN,
            "README.md": readme(config, gpus, nodes, count),
        }
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8", newline="\n")  # sh takes no other
        (made / "run.sh").chmod(0o755 & (made.stat().st_mode | 0o600))
    return count


# --- what can be exported -------------------------------------------------------------------------


def check_settings(config: TrainConfig, estimator: str, gpus: int) -> None:
    """Raise ValueError, in one line, for a setting that veRL cannot keep."""
    check_choice(estimator, "estimator", ESTIMATORS)
    RolloutReward.of(config).check_estimator(estimator)
    if METHODS[config.method].weight_in_prompt:
        raise ValueError(
            f"method = {config.method!r}: its weights stand in the prompts, and veRL's data is "
            "written before a step draws them; train natively"
        )
    if config.task.startswith("__main__:"):
        raise ValueError(
            f"task = {config.task!r}: veRL's processes cannot import a class of a notebook or a "
            "script; write it into a file, and name it FILE:Class"
        )
    if shipped.description(config.base_model) is not None:
        raise ValueError(
            f"model = {config.base_model!r}: a pocket policy reads symbols, and veRL asks in chat "
            "messages; name a Hugging Face model, such as Qwen/Qwen2.5-0.5B-Instruct"
        )
    if not Path(config.model).is_dir() and HubName.of(config.model).revision is not None:
        raise ValueError(
            f"model = {config.model!r}: veRL cannot be told a revision; get it as a folder (hf "
            "download NAME --revision REVISION --local-dir FOLDER), and name that"
        )
    defaults = {option.name: option.default for option in TrainConfig.options()}
    for name in REFUSED:
        if getattr(config, name) != defaults[name]:
            raise ValueError(
                f"{name} = {shown(getattr(config, name))}: cannot be handed to veRL; leave it out"
            )
    if estimator == "grpo" and config.eps != 1e-6:
        raise ValueError(
            f"eps = {config.eps:g}: veRL's grpo has 1e-6 and no setting for it; take eps = 1e-6, "
            "or the estimator vpo"
        )
    if config.rank > MOST_RANK:
        raise ValueError(
            f"rank = {config.rank}: vLLM, which samples for veRL, takes at most {MOST_RANK}; "
            "lower rank"
        )
    if config.update_size % gpus:
        raise ValueError(
            f"the {config.update_size:,} rollouts of an update do not divide among {gpus} GPUs: "
            "change prompts, group_size or mini_batches"
        )


def _pyarrow():
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(
            f"writing parquet needs pyarrow ({error}): pip install -U pyarrow, or pip install "
            "'vpo_lite[verl]'"
        ) from error
    return pyarrow, parquet


# --- data -----------------------------------------------------------------------------------------


def training_rows(config: TrainConfig, task: Task) -> Iterator[tuple[dict, int]]:
    """Each problem of each step, in order, as a row of veRL's data and the tokens it may need."""
    for step in range(config.steps):
        for slot, seed in enumerate(seeds_of_step(task, config.seed, step, config.prompts)):
            yield _row(config, task, seed, "train", step * config.prompts + slot, slot)


def held_out_rows(
    config: TrainConfig, task: Task, seeds: Sequence[int]
) -> Iterator[tuple[dict, int]]:
    """The held-out problems of the native evaluation."""
    for index, seed in enumerate(seeds):
        yield _row(config, task, int(seed), "held_out", index, 0)


def _row(config, task, seed: int, split: str, index: int, slot: int) -> tuple[dict, int]:
    x = task.instance(seed)
    check_problem(task, x)
    prompt = prompt_of(task, x, config.answers)
    if prompt.prefix:
        raise ValueError(
            f"task {task.name!r}: begins its completions, which veRL's rollouts cannot; train "
            "natively"
        )
    row = {
        "data_source": task.name,
        "prompt": [{k: turn[k] for k in ("role", "content")} for turn in prompt.messages],
        "reward_model": {"style": "rule", "ground_truth": ""},  # veRL asks for one; we have seeds
        "extra_info": {"split": split, "index": index, "seed": seed, "slot": slot},
    }
    return row, tokens_of(task, x, config.answers, None)


def _longest(tokenizer, turns: list[dict]) -> int:
    """An upper bound on a prompt's tokens: counted, or its bytes where the tokenizer is not here. A
    token has at least a byte.
    """
    if tokenizer is not None:
        return len(encode(tokenizer, Prompt(messages=tuple(turns))))
    return sum(len(turn["content"].encode()) + TEMPLATE for turn in turns)


class _Written(NamedTuple):
    """Of a file: how many problems, the most tokens of a prompt, and of its rollout."""

    problems: int
    prompt: int
    tokens: int


def _write_rows(modules, path: Path, rows, length, told) -> _Written:
    pyarrow, parquet = modules
    text, whole = pyarrow.string(), pyarrow.int64()
    schema = pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
            "reward_model": pyarrow.struct({"style": text, "ground_truth": text}),
            "extra_info": pyarrow.struct(
                {"split": text, "index": whole, "seed": whole, "slot": whole}
            ),
        }
    )
    count = longest = tokens = 0
    batch = []

    def flush():
        file.write_table(pyarrow.Table.from_pylist(batch, schema))
        batch.clear()

    with parquet.ParquetWriter(path, schema) as file:
        for row, needed in rows:
            batch.append(row)
            count, tokens = count + 1, max(tokens, needed)
            longest = max(longest, length(row["prompt"]))
            told()
            if len(batch) == 1024:
                flush()
        flush()
    return _Written(count, longest, tokens)
