"""Options of TRL's GRPOConfig that a run is given: which it can have, and whether they work.

A run measures its policy before it trains, and options cannot be changed when it goes on. So what
would fail in the first step is refused before anything is written.
"""

import dataclasses
import importlib.util
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from ..checks import shown
from ..messages import OF_TRL
from ..training.config import TrainConfig

REFUSED = {  # options of GRPOConfig with which a run would fail after its first measurement, or lie
    "accelerator_config": "the rows are read as they are written",
    "data_seed": "the rows are read as they are written",
    "do_train": "a run trains",
    "eval_on_start": "the run measures itself",
    "eval_strategy": "the run measures itself (eval_every)",
    "hub_token": "a run is not uploaded, and its folder would hold the token",
    "ignore_data_skip": "a resumed run would begin with the first problems again",
    "model_init_kwargs": "the run loads the model (model, dtype, load_in)",
    "multi_objective_aggregation": "a set has one reward, and its z-score is the method's",
    "num_iterations": "a step is one update",
    "num_train_epochs": "the run's steps decide it (--steps)",
    "push_to_hub": "a run is not uploaded",
    "remove_unused_columns": "the reward needs the columns seed and slot",
    "resume_from_checkpoint": "vpo-lite train --resume goes on with a run",
    "reward_weights": "the task's weights w* decide it (reward_weights of task functions)",
    "save_only_model": "a run goes on from the optimizer's state, too",
    "sync_ref_model": "the reference is the base, without the adapter",
    "use_liger_kernel": "it changes layers of a policy that was measured, and we have not tried it",
}
SAMPLING = {  # keys of TRL's generation_kwargs that the run's own settings decide, by their names
    "temperature": "temperature",
    "max_new_tokens": "max_new_tokens",
    "max_length": "max_new_tokens",
    "num_return_sequences": "group_size",
    "do_sample": "temperature",
    "eos_token_id": "model",
}
PLAIN = {bool, int, float, str, dict, list, type(None)}  # kinds of options that JSON tells apart


def check_options(options: Mapping[str, Any], ours: Collection[str]) -> None:
    """ValueError for an option that GRPOConfig does not know, that ``ours`` decide, that a run
    cannot have, or that has another type.
    """
    from trl import GRPOConfig

    known = {field.name: field.type for field in dataclasses.fields(GRPOConfig)}
    for name, value in options.items():
        _check_option(name, value, known, ours)


def _check_option(name: str, value, known: dict, ours: Collection[str]) -> None:
    if name not in known:
        raise ValueError(f"engine option {shown(name)}: GRPOConfig of TRL has no such field")
    if name in ours or name in ("steps_per_generation", "generation_batch_size"):
        _decided(name, OF_TRL.get(name, name))
    if name in REFUSED:
        raise ValueError(f"engine option {name}: {REFUSED[name]}; leave it out")
    if not _fits(value, known[name]):
        expected = getattr(known[name], "__name__", str(known[name]))
        raise ValueError(f"engine option {name} = {shown(value)}: expected {expected}")
    if name == "generation_kwargs" and isinstance(value, dict):
        for key in filter(SAMPLING.__contains__, value):
            _decided(f"{name}: {key}", SAMPLING[key])
    if name == "use_vllm" and value and importlib.util.find_spec("vllm") is None:
        raise ValueError("engine option use_vllm: vLLM is not installed; pip install vllm")


def _decided(name: str, by: str) -> None:
    flags = [f" ({o.flag})" for o in TrainConfig.options() if o.name == by]
    raise ValueError(
        f"engine option {name}: the run's own settings decide it{''.join(flags)}; leave it out"
    )


def _fits(value, kind) -> bool:
    """Whether an option has the type that GRPOConfig declares, as far as we can tell. It accepts
    any, and then training fails: ``max_grad_norm=null`` after the first step.
    """
    union = get_origin(kind) in (Union, UnionType)
    kinds = {get_origin(one) or one for one in (get_args(kind) if union else (kind,))}
    return type(value) in kinds or (type(value) is int and float in kinds) or not kinds <= PLAIN


def try_parts(made) -> None:
    """Make from a GRPOConfig what a step makes of it: optimizer, schedule, what changes the logits
    in sampling, and the loader of rows. Each raises its own error for a value that is out of range.
    """
    import torch
    import transformers as hf

    parameter = torch.nn.Linear(1, 1)
    kind, how = hf.Trainer.get_optimizer_cls_and_kwargs(made, parameter)
    if "params" not in how and "model" not in how:  # some optimizers take the whole model
        optimizer = kind(parameter.parameters(), **how)
        hf.get_scheduler(
            made.lr_scheduler_type,
            optimizer,
            num_warmup_steps=0,
            num_training_steps=max(made.max_steps, 1),
            scheduler_specific_kwargs=made.lr_scheduler_kwargs,
        )
    sampled = {"top_k": made.top_k, "top_p": made.top_p, "min_p": made.min_p}
    sampled |= {"repetition_penalty": made.repetition_penalty}
    sampled |= made.generation_kwargs or {}
    for name, make in {
        "top_k": hf.TopKLogitsWarper,
        "top_p": hf.TopPLogitsWarper,
        "min_p": hf.MinPLogitsWarper,
        "repetition_penalty": hf.RepetitionPenaltyLogitsProcessor,
    }.items():
        if sampled[name] is not None and (name, sampled[name]) != ("top_k", 0):  # 0 leaves it out
            make(sampled[name])
    if not made.use_vllm:
        known = hf.GenerationConfig()
        for name in sampled:
            if not hasattr(known, name):
                raise ValueError(f"generation_kwargs: {shown(name)}: generate has no such setting")
    torch.utils.data.DataLoader([0], num_workers=made.dataloader_num_workers)
    if made.importance_sampling_level not in (levels := ("token", "sequence")):
        given = shown(made.importance_sampling_level)
        raise ValueError(f"importance_sampling_level = {given}: there is {', '.join(levels)}")


def try_model(policy, made) -> None:
    """Ask the model for what only it can refuse: a loss of experts, and a token as TRL samples."""
    import torch
    from transformers import GenerationConfig

    model, experts = policy.model.get_base_model(), made.router_aux_loss_coef
    if experts and not hasattr(model.config.get_text_config(), "output_router_logits"):
        raise ValueError(
            f"engine option router_aux_loss_coef = {experts:g}: {type(model).__name__} is no "
            "mixture of experts; leave it out"
        )
    if made.generation_kwargs and not made.use_vllm:
        how = {"do_sample": True, "max_new_tokens": 1} | made.generation_kwargs
        try:
            ids = torch.zeros((1, 1), dtype=torch.long, device=policy.device)
            model.generate(ids, generation_config=GenerationConfig(**how))
        except Exception as error:  # every setting has its own
            given = shown(made.generation_kwargs)
            raise ValueError(f"engine option generation_kwargs = {given}: {error}") from error
