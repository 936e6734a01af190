"""The texts of an exported run: veRL's configuration, the launch line, how to go on."""

import dataclasses
import json
import math
from pathlib import Path

from ..policy.fresh import ALL_LINEAR
from ..policy.tokenizer import NO_THINKING
from ..tasks.by_name import full_name
from ..training.config import TrainConfig
from .rewards import RolloutReward
from .trl_setup import shared

OUT_OF_REACH = 1e6  # veRL's bound on ratios cannot be switched off
LOSSES = {
    "token": "token-mean",
    "sequence": "seq-mean-token-mean",
    "constant": "seq-mean-token-sum-norm",
}


def configuration(
    config: TrainConfig, lengths: tuple[int, int], gpus: int, nodes: int, estimator: str
) -> str:
    """veRL's configuration of this run, as YAML. lengths: most tokens of a prompt, a completion."""
    prompt, response = lengths
    own = dataclasses.asdict(RolloutReward.of(config))
    del own["thinks"]  # the manager sees how a prompt ends
    own["method"] = full_name(config.method)  # the workers import its module
    tenth = -(-config.steps // 10)  # rounded up: so no more than ten fit into the steps
    values = dict(
        estimator=estimator,
        vpo="\n".join(f"    {name}: {as_yaml(value)}" for name, value in own.items()),
        task=as_yaml(config.task),
        options=as_yaml(config.task_options),
        prompts=config.prompts,
        thinking=as_yaml(NO_THINKING),
        prompt=prompt,
        response=response,
        model=as_yaml(config.base_model),
        rank=config.rank,
        lora_alpha=config.lora_alpha,
        target_modules=as_yaml(_modules(config.target_modules)),
        checkpointing=as_yaml(config.gradient_checkpointing),
        epochs=config.epochs,
        mini_batch=config.prompts // config.mini_batches,
        clip=as_yaml(config.clip),
        clip_high=as_yaml(config.clip if config.clip_high is None else config.clip_high),
        dual_clip=as_yaml(OUT_OF_REACH if config.dual_clip is None else config.dual_clip),
        max_grad_norm=as_yaml(config.max_grad_norm),
        aggregation=LOSSES[config.aggregation],
        longest=response if config.aggregation == "constant" else "null",
        entropy=as_yaml(config.entropy),
        use_kl=as_yaml(config.kl > 0),
        kl=as_yaml(config.kl),
        lr=as_yaml(config.lr),
        weight_decay=as_yaml(config.weight_decay),
        warmup=config.warmup_steps,
        schedule=config.lr_schedule,
        dynamic=as_yaml(config.micro_batch is None),
        micro_batch=as_yaml(config.micro_batch and shared(config, gpus * nodes)[1]),
        tokens=max(16384, prompt + response),
        model_dtype={"auto": "fp32", "bfloat16": "bfloat16", "float32": "fp32"}[config.dtype],
        G=config.group_size,
        temperature=as_yaml(config.temperature),
        rollout_dtype="float32" if config.rollout_dtype == "float32" else "bfloat16",
        seed=config.seed % 2**31,
        pool=-(-config.measured_answers // config.answers),
        steps=config.steps,
        measured=config.eval_every or tenth,
        save=max(tenth, config.save_every),
        nodes=nodes,
        gpus=gpus,
        name=as_yaml(f"{config.make_task().name}-{config.method}"),
    )
    return _CONFIGURATION.format(**values)


def _modules(target_modules: str) -> str | list[str]:
    """Names with commas between, as the list that peft asks for; "all-linear" as it is."""
    names = target_modules.replace(" ", "").split(",")
    return names if names != [ALL_LINEAR] else ALL_LINEAR


def as_yaml(value) -> str:
    """A value as YAML 1.1 reads it.

    >>> as_yaml(1e-05), as_yaml(math.inf), as_yaml(None), as_yaml({"n": True})
    ('1.0e-05', '.inf', 'null', '{"n": true}')
    """
    if isinstance(value, float) and math.isinf(value):
        return ".inf"
    if isinstance(value, float) and "e" in (text := repr(value)) and "." not in text:
        return text.replace("e", ".0e")  # 1e-05 would be read as a text
    return json.dumps(value, ensure_ascii=False)


_CONFIGURATION = """\
# A run of vpo_lite on veRL. Start it with run.sh. What is not here stays as veRL has it.
defaults:
  - ppo_trainer
  - _self_

hydra:
  searchpath: [pkg://verl.trainer.config]

algorithm:
  # grpo is veRL's: std with G - 1, eps 1e-6. vpo has the std of the paper and the eps below; of
  # max_at_k and maxrl it makes their own advantages.
  adv_estimator: {estimator}
  vpo:
    task: {task}
    options: {options}
{vpo}

reward:
  reward_manager:
    source: importlib
    name: SetRewardManager
    module:
      path: pkg://vpo_lite.integrations.verl

data:
  train_files: train.parquet
  val_files: held_out.parquet
  # The rows are the steps in order: never shuffle, filter or cut them.
  shuffle: false
  filter_overlong_prompts: false
  apply_chat_template_kwargs: {thinking}
  train_batch_size: {prompts}
  # The tokens of the longest prompt. Where the model was not here: its bytes, and 256 for each turn
  # of a chat template. veRL cuts off the beginning of a longer one.
  max_prompt_length: {prompt}
  max_response_length: {response}

actor_rollout_ref:
  model:
    path: {model}
    lora_rank: {rank}
    lora_alpha: {lora_alpha}
    target_modules: {target_modules}
    enable_gradient_checkpointing: {checkpointing}
  actor:
    # Prompts in an update.
    ppo_mini_batch_size: {mini_batch}
    ppo_epochs: {epochs}
    clip_ratio: {clip}
    clip_ratio_low: {clip}
    clip_ratio_high: {clip_high}
    # The bound on the ratio of bad rollouts. Without dual_clip: 1.0e+6, which is out of reach.
    clip_ratio_c: {dual_clip}
    loss_agg_mode: {aggregation}
    loss_scale_factor: {longest}
    entropy_coeff: {entropy}
    use_kl_loss: {use_kl}
    kl_loss_coef: {kl}
    kl_loss_type: low_var_kl
    use_dynamic_bsz: {dynamic}
    ppo_micro_batch_size_per_gpu: {micro_batch}
    ppo_max_token_len_per_gpu: {tokens}
    optim:
      lr: {lr}
      lr_warmup_steps: {warmup}
      lr_scheduler_type: {schedule}
      weight_decay: {weight_decay}
      clip_grad: {max_grad_norm}
    fsdp_config:
      model_dtype: {model_dtype}
  ref:
    log_prob_micro_batch_size_per_gpu: {micro_batch}
  rollout:
    name: vllm
    n: {G}
    temperature: {temperature}
    dtype: {rollout_dtype}
    seed: {seed}
    tensor_model_parallel_size: 1
    # With LoRA the engine reads the base parameters itself.
    load_format: safetensors
    log_prob_micro_batch_size_per_gpu: {micro_batch}
    # {pool} rollouts for each held-out problem, at temperature 1, as in the native evaluation.
    val_kwargs:
      n: {pool}
      do_sample: true
      temperature: 1.0

trainer:
  total_epochs: 1
  total_training_steps: {steps}
  save_freq: {save}
  test_freq: {measured}
  nnodes: {nodes}
  n_gpus_per_node: {gpus}
  logger: [console]
  project_name: vpo_lite
  experiment_name: {name}
"""

RUN = """\
#!/bin/sh
# One node, or the first node of a cluster (README.md). To change more: ./run.sh trainer.test_freq=5
set -e
here="$(cd "$(dirname "$0")" && pwd)"
said="$(printf %s "$here" | sed "s/'/\\\\\\\\'/g")" # between the quotes of Hydra
exec python3 -m verl.trainer.main_ppo --config-path "$here" --config-name vpo \\
  "data.train_files='$said/train.parquet'" "data.val_files='$said/held_out.parquet'" \\
  "trainer.default_local_dir='$said/checkpoints'" "hydra.run.dir='$said/hydra'" "$@"
"""


# What vpo_lite needs to score rollouts, without a model; the bounds are those of pyproject.toml.
FOR_REWARDS = ("gymnasium>=1.0,<2", "scipy>=1.11", "pydantic>=2.8", "filelock>=3.24")

MERGE = (
    "python3 -m verl.model_merger merge --backend fsdp "
    "--local_dir checkpoints/global_step_{steps}/actor --target_dir merged"
)


def readme(config: TrainConfig, gpus: int, nodes: int, count: dict[str, int]) -> str:
    named = config.code.values()
    own = "".join(f"The module of `{x}` must be importable there.\n" for x in named)
    own += "So set PYTHONPATH before `ray start` and `./run.sh`.\n" if named else ""
    folder = Path(config.base_model).is_absolute()
    own += f"The model folder `{config.base_model}` must be readable there.\n" * folder
    data = "".join(f"The data file `{f}` must be readable there.\n" for f in config.files.values())
    train, held_out = (
        f"{count[name]:,} problems" for name in ("train.parquet", "held_out.parquet")
    )
    return f"""\
# {config.make_task().name}, {config.method}: {config.steps} steps on veRL

`vpo-lite export verl` wrote this folder:

- `vpo.yaml`: the settings, over veRL's own
- `train.parquet`: {train}, in the order of the steps
- `held_out.parquet`: {held_out} that are measured, not trained on
- `run.sh`: the launch line
- `config.json`: the settings as `vpo-lite evaluate` reads them

On every node, in a clone of vpo_lite, on Python 3.11 or 3.12, and in an environment of its own:

    pip install "verl[vllm,fsdp]==0.9.1" {" ".join(f'"{x}"' for x in FOR_REWARDS)}
    pip install --no-deps -e .

The extra `fsdp` brings flash-attn, which veRL's models use unless told otherwise. `--no-deps`,
because vLLM's extra of veRL pins transformers 5.9.0, and vpo_lite needs 5.10 to load a model. Its
rewards load no model.

{own}{data}
One node with {gpus} GPU{"s" if gpus > 1 else ""}:

    ./run.sh trainer.nnodes=1

A Ray cluster of {max(nodes, 2)} such nodes, with this folder at the same place on all of them:

    ray start --head                            # on the first node
    ray start --address=ADDRESS:6379            # on each other node, with the address of the first
    RAY_ADDRESS=auto ./run.sh trainer.nnodes={max(nodes, 2)}  # on the first node

The same seed gives the native trainer's problems and weights. What is sampled differs, and so does
the start of LoRA. The rows are the steps: do not shuffle them, and train one epoch.

Measure the end as a native run is measured, on the same problems. The first line stores the adapter
in bfloat16. The second needs another environment, with vpo_lite and all its dependencies
(`pip install -e .`):

    {MERGE.format(steps=config.steps)}
    vpo-lite evaluate . --adapter merged/lora_adapter

veRL prints its figures. For W&B, too, add `"trainer.logger=[console,wandb]"` to `./run.sh`.
`vpo/valid_rate`, `vpo/solved_rate` and `objectives/...` are means over the answers of a rollout. On
held-out problems the reward is exact (K = infinity).
"""
