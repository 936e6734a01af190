"""A run of this kit on TRL: what TRL can do of it, its rows, the settings to use, and how much
memory each process needs, stated before it starts: an estimate.

TRL is the optional extra ``trl``. It is imported when a function needs it.
"""

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from .. import estimators
from ..checks import shortened, shown
from ..policy import shipped
from ..policy.decoder import DecoderView
from ..policy.policy import Policy
from ..policy.tokenizer import NO_THINKING
from ..tasks.base import Prompt, Task, TaskError, group_key
from ..training.config import TrainConfig
from ..training.contract import prompt_of
from ..training.memory import Decoder, Memory, lengths
from ..training.problems import draw_weights, seeds_of_step, token_limit
from .rewards import RolloutReward
from .trl_options import check_options, try_parts

EPS = 1e-4  # what TRL adds to the standard deviation of a group
LOSS_TYPES = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}  # by our aggregation
ONE_UPDATE = "a step is one update"
SCHEDULES = {"constant": "constant_with_warmup", "cosine": "cosine"}  # by our lr_schedule
TOKENS, WORDS = 4096, 32768  # tokens and vocabulary of one tile of TRL 1.16's output layer


def check_installed() -> None:
    """ValueError with the cure where TRL is missing, or cannot be imported."""
    if importlib.util.find_spec("trl") is None or importlib.util.find_spec("datasets") is None:
        raise ValueError('engine trl: TRL is not installed; pip install -e ".[trl]"')
    try:
        import datasets  # noqa: F401
        from trl import GRPOTrainer  # noqa: F401
    except Exception as error:  # packages that do not fit together raise anything
        why = shortened(str(error.__cause__ or error), 200)  # TRL wraps what its parts raise
        raise ValueError(
            f"engine trl: TRL cannot be imported ({why}): pip install -U numpy pyarrow datasets trl"
        ) from error


def check_config(config: TrainConfig) -> None:
    """ValueError, in one line, for settings that TRL cannot honour."""
    RolloutReward.of(config)  # refuses methods that add rollouts
    refused = {
        "whiten": config.whiten and "each process compares its own groups, not the whole batch",
        "epochs": config.epochs > 1 and ONE_UPDATE,
        "mini_batches": config.mini_batches > 1 and ONE_UPDATE,
        "rollout_dtype": config.rollout_dtype != "auto" and "sampling uses the model's dtype",
        "compile": config.compile and "sampling is TRL's",
        "sample_batch": config.sample_batch is not None and "sampling is TRL's",
        "load_in": config.load_in is not None and "we have not tried quantised parameters",
        "device": config.device not in ("auto", "cpu", "cuda")
        and "there is auto, cpu or cuda, and each process takes the GPU of its rank",
    }
    for name, why in refused.items():
        if why:
            value = shown(getattr(config, name))
            cure = "set it to 1" if why == ONE_UPDATE else "leave it out"
            raise ValueError(f"{name} = {value}: with engine trl {why}; {cure}")
    least = 1 + (config.clip if config.clip_high is None else config.clip_high)
    if config.dual_clip is not None and config.dual_clip < least:
        raise ValueError(
            f"dual_clip = {config.dual_clip:g}: engine trl bounds all ratios with it; take at "
            f"least 1 + clip_high = {least:g}"
        )


def dataset(config: TrainConfig, tokenizer, task: Task | None = None):
    """The rows of a run, as a data set of the library ``datasets``: the native trainer's problems
    in its order, step by step and slot by slot.

    - seed, slot: name the problem and its group; every process makes the problem again from them
    - step: counts from 0
    - prompt: made when the row is read. A pocket policy gets its symbols as text, after the token
      of the beginning. Any other model gets chat messages, or text if it has no chat template.

    task: the config's own, where it was made before

    With ``shuffle_dataset=False`` TRL keeps this order. It reads the same tokens as the native
    trainer.
    """
    from datasets import Dataset

    task = task or config.make_task()
    steps = [seeds_of_step(task, config.seed, i, config.prompts) for i in range(config.steps)]
    rows = [(i, slot, seed) for i, seeds in enumerate(steps) for slot, seed in enumerate(seeds)]
    columns = dict(zip(("step", "slot", "seed"), map(list, zip(*rows, strict=True)), strict=True))
    return Dataset.from_dict(columns).with_transform(_Prompts(config, tokenizer, task))


@dataclass
class _Prompts:
    """Adds the column ``prompt`` to rows that are read together. It keeps its task: one that was
    made later would read a data file as it is by then, and answers are scored as it was.
    """

    config: TrainConfig
    tokenizer: Any
    task: Task | None = None  # made anew in another process

    def __reduce__(self):
        return _Prompts, (self.config, self.tokenizer)

    def __call__(self, rows: dict) -> dict:
        task = self.task = self.task or self.config.make_task()
        config = self.config
        pocket, made = shipped.description(config.base_model), {}
        for step, slot, seed in zip(rows["step"], rows["slot"], rows["seed"], strict=True):
            if (step, slot) not in made:
                x = task.instance(seed)
                shown_weights = self._weights(task, x, step, slot)
                prompt = prompt_of(task, x, config.answers, weights=shown_weights, pocket=pocket)
                made[step, slot] = self._in_trls_form(task, prompt)
        prompts = [made[at] for at in zip(rows["step"], rows["slot"], strict=True)]
        return {**rows, "prompt": prompts}

    def _weights(self, task: Task, x, step: int, slot: int):
        if not estimators.METHODS[self.config.method].weight_in_prompt:
            return None
        return draw_weights(task, self.config, [x], [group_key(task, x, slot)], step)[0][0]

    def _in_trls_form(self, task: Task, prompt: Prompt):
        if prompt.prefix:
            raise TaskError(
                f"task {task.name!r} begins completions with a prefix, which TRL cannot: train "
                "natively"
            )
        if prompt.symbols:
            return f"{self.tokenizer.bos_token or '<bos>'} {prompt.symbols}"
        if self.tokenizer.chat_template:
            return list(prompt.messages)
        text = prompt.text + "\n"
        if self.tokenizer(text)["input_ids"][-1:] == [self.tokenizer.eos_token_id]:
            raise TaskError(
                "this model's tokenizer ends a prompt with EOS, which TRL keeps: train natively"
            )
        return text


def grpo_config(
    config: TrainConfig, output_dir, processes: int = 1, task: Task | None = None, /, **options
):
    """TRL's settings for a run: as close to the native trainer as TRL comes.

    - processes: how many share a step's prompts x group_size rollouts
    - task: the config's own, where it was made before
    - options: further fields of GRPOConfig, such as ``use_vllm=True``; not those that the run's
      own settings decide

    What differs from the native trainer:

    - standard deviation: TRL divides by G - 1 (Bessel), we by G. Its advantages are ours times
      sqrt((G - 1) / G): 0.97 at G = 16.
    - eps: TRL adds 1e-4 to that deviation, whatever ``config.eps`` says.
    - max_at_k, maxrl, gdpo, and methods of yours without z-scores: the reward function compares the
      groups, with ``config.eps``, and ``scale_rewards="none"`` leaves its advantages as they are.
      Each process then needs whole groups.
    - rollouts: sampled by ``generate``, or by vLLM, from torch's random stream, not from keyed
      draws. So two runs of one seed see the same problems and weights, but other rollouts.
    - prompts: padded on the left, and run once for each rollout. The native trainer runs each
      prompt once for its whole group.
    - token limit: one for the whole run. Without ``max_new_tokens`` it is the largest that the
      first 1,024 problems need; the native trainer asks the problems of each step.
    - dropout: switched off. TRL updates the model in training mode, the native trainer in
      evaluation mode. A base with dropout (GPT-2: 0.1) would score other numbers than it sampled.
    - loss_type: ``dapo``, ``grpo`` or ``dr_grpo`` for our aggregation ``token``, ``sequence`` or
      ``constant``. These agree.
    - kl, entropy: the same estimators (``beta``, ``entropy_coef``). At kl = 0 nothing measures the
      KL, and records hold None.

    Returns a GRPOConfig. Raises ValueError for settings that TRL cannot honour, for rollouts that
    the processes cannot share, and for an option that is unknown or decided by the run.
    """
    from transformers.integrations import get_reporting_integration_callbacks
    from trl import GRPOConfig

    check_config(config)
    local, at_once = shared(config, processes)
    whole_groups = not estimators.METHODS[config.method].z_score
    if whole_groups and local % config.group_size:
        raise ValueError(
            f"prompts = {config.prompts} on {processes} processes: {config.method} compares whole "
            f"groups; set prompts to a multiple of {processes}"
        )
    cpu, pocket = on_cpu(config), shipped.description(config.base_model)
    ours = dict(
        output_dir=str(output_dir),
        max_steps=config.steps,
        seed=config.seed % 2**32,
        shuffle_dataset=False,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=local // at_once,
        num_generations=config.group_size,
        max_completion_length=token_limit(task or config.make_task(), config, pocket),
        temperature=config.temperature,
        beta=config.kl,
        epsilon=config.clip,
        epsilon_high=config.clip_high,
        delta=config.dual_clip,
        mask_truncated_completions=config.mask_truncated,
        loss_type=LOSS_TYPES[config.aggregation],
        scale_rewards="none" if whole_groups else "group",
        learning_rate=config.lr,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        gradient_checkpointing=config.gradient_checkpointing,
        save_strategy="steps",
        save_steps=config.save_every,
        logging_strategy="steps",
        logging_steps=1,
        use_cpu=cpu,
        **({"entropy_coef": config.entropy} if config.entropy else {}),
    )
    recommended = dict(
        top_p=1.0,
        top_k=0,
        disable_dropout=True,
        lr_scheduler_type=SCHEDULES[config.lr_schedule],
        warmup_steps=config.warmup_steps,
        bf16=False,  # the base's own numbers, and a float32 adapter, as in the native trainer
        chat_template_kwargs=dict(NO_THINKING),  # as the native trainer asks
        dataloader_pin_memory=not cpu,
        ddp_find_unused_parameters=False,
        logging_nan_inf_filter=False,
        save_total_limit=1,
        report_to=[],
        log_level_replica="error",  # else every process but the first prints notices
        disable_tqdm=True,
    )
    check_options(options, ours)
    try:
        made = GRPOConfig(**ours | recommended | options)
        for tracker in get_reporting_integration_callbacks(made.report_to):
            tracker()  # raises where its package is missing
        try_parts(made)
        return made
    except (AttributeError, TypeError, ImportError, RuntimeError, ValueError) as error:
        raise ValueError(f"engine options {shown(options)}: {error}") from error


def pad_within(tokenizer, model) -> None:
    """Pad with the end where the model has no row for the tokenizer's own padding, as some models
    with an added one. TRL would look it up; the native trainer never does.
    """
    if (tokenizer.pad_token_id or 0) >= model.get_input_embeddings().weight.shape[0]:
        tokenizer.pad_token = tokenizer.eos_token


def keep_logs(trainer, folder) -> None:
    """Let TensorBoard write into ``folder``/tensorboard. Its own choice is the folder of the
    checkpoints, which a finished run removes. TENSORBOARD_LOGGING_DIR names another.
    """
    from transformers.integrations import TensorBoardCallback

    for tracker in trainer.callback_handler.callbacks:
        if isinstance(tracker, TensorBoardCallback):
            tracker.logging_dir = tracker.logging_dir or os.path.join(folder, "tensorboard")


def keep_whole(trainer) -> None:
    """With FSDP: a checkpoint holds whole parameters, and not the share of each process."""
    plugin = trainer.accelerator.state.fsdp_plugin
    plugin.state_dict_config = plugin.optim_state_dict_config = None  # made for the default type
    plugin.set_state_dict_type("FULL_STATE_DICT")


def shared(config: TrainConfig, processes: int) -> tuple[int, int]:
    """The rollouts of each process in an update, and how many of them one forward pass runs.

    Raises ValueError for rollouts that the processes cannot share.
    """
    rollouts = config.update_size
    if rollouts % processes:
        raise ValueError(
            f"prompts x group_size = {rollouts} rollouts cannot be shared by {processes} "
            "processes: change prompts or group_size"
        )
    local = rollouts // processes
    most = min(config.micro_batch or local, local)
    return local, max(n for n in range(1, most + 1) if local % n == 0)


def on_cpu(config: TrainConfig) -> bool:
    """Whether the run is on the CPU: it asks for that, or there is nothing else."""
    import torch

    return config.device == "cpu" or not torch.cuda.is_available()


def trl_memory_needed(policy: Policy, config: TrainConfig, task=None, processes: int = 1) -> Memory:
    """The memory that each process of a run on TRL needs, by the letters of
    :func:`vpo_lite.training.memory.memory_needed`.

    A process samples R = P G / processes rollouts, and runs b of them at once in the update.

    - parameters: the base
    - adapter: LoRA, its gradients and AdamW's two moments. Of several processes, each keeps the
      gradients once more, to send them.
    - activations: those of N = b (L + T) tokens in whole rows
    - logits: TRL projects n tokens onto the vocabulary tile by tile: n = N, on a GPU n = b T. A
      tile has t = min(n, 4096) rows of 32,768 numbers, whatever the vocabulary is. Without a GPU
      six more of t min(V, 32768) numbers in float32 come on top. The gradient takes 4 n H bytes.
    - sampling: keys and values of R (L + T) tokens, one layer's twice, and either the numbers of
      one layer while the prompts are read or four numbers for each logit of one token. What is
      measured is sampled natively, with the sampler's copies. The larger of the two counts.

    It holds for TRL 1.16 with ``generate`` and whole parameters in every process.
    tests/test_trl_memory.py compares it with what the trainer allocates on the CPU.
    """
    task = task or config.make_task()
    L, T = lengths(policy, config, task)[0], token_limit(task, config, policy.pocket)
    model = Decoder.of(policy, config.rank)
    rows, b = shared(config, processes)
    N, gpu = b * (L + T), policy.device.type == "cuda"
    n = b * T if gpu else N
    tile = model.s * WORDS + (0 if gpu else 6 * 4 * min(model.V, WORDS))
    keys = model.s * model.cached * rows * (L + T)
    sampling = keys + keys // model.layers + max(model.reading(rows, L), 16 * rows * model.V)
    return Memory(
        parameters=model.base,
        adapter=(4 + (processes > 1)) * model.trained,
        activations=model.activations(N, N, b * (L + T) ** 2, config.gradient_checkpointing),
        logits=min(n, TOKENS) * tile + 4 * n * model.H,
        sampling=max(sampling, model.copied(model.s) if DecoderView.knows(policy.model) else 0),
    )
