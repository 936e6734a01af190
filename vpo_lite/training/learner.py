"""What a run carries from step to step: task, policy, optimizer. They must fit each other."""

import math

import torch

from .. import checks, estimators, messages
from ..policy.adapter import adapter_folder, quiet
from ..policy.decoder import DecoderView, compiler_missing
from ..policy.loading import load_policy
from ..policy.policy import Policy
from ..policy.threads import torch_threads
from ..tasks.base import Task
from .config import TrainConfig
from .contract import check_early_problems, check_fit, check_given
from .evaluate import check_config
from .problems import check_method
from .recombine import check_task
from .schemas import BestSets

# Settings that a learner is built with: another value would have no effect afterwards.
OF_THE_TASK = ("task", "task_options")
OF_THE_POLICY = ("model", "device", "rank", "lora_alpha", "dtype", "load_in")
OF_THE_POLICY += ("gradient_checkpointing", "target_modules")


class Learner:
    """What a run carries from step to step: task, policy, optimizer.

    - policy: to train, instead of the config's model
    - task: to train on, instead of the config's own

    Raises ValueError for a model that cannot be loaded, for one that cannot do the task, and for a
    name in the place of config, policy or task.

    Attributes: config, as given; built_with, names of the settings that cannot change any more;
    steps, how many it has done; whole, False while a step changes what a state holds.
    """

    def __init__(self, config: TrainConfig, policy: Policy | None = None, task: Task | None = None):
        check_config(config)
        if task is not None:
            check_given(task)
        self.config, self.steps, self.checked, self.whole = config, 0, None, True
        self.built_with = OF_THE_TASK * (task is None) + OF_THE_POLICY * (policy is None)
        self.task = task or config.make_task()
        self.task.check_machine()
        if policy is not None:
            check_fit(policy, self.task, config.answers)
        with torch_threads(config.threads):
            self.policy = policy or load_policy(
                _base_of(config.base_model),
                device=config.device,
                rank=config.rank,
                lora_alpha=config.lora_alpha,
                target_modules=config.target_modules,
                seed=config.seed,
                dtype=config.dtype,
                load_in=config.load_in,
                gradient_checkpointing=config.gradient_checkpointing,
            )
        _check_trainable(self.policy)
        if config.compile:
            _check_compile(self.policy)
        if config.rollout_dtype != "auto":
            _check_rollout_dtype(self.policy, config)
        self.found: BestSets = {}  # of a method that recombines
        self.parameters = [p for p in self.policy.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=config.lr, weight_decay=config.weight_decay
        )
        self.check(config)

    def check(self, config: TrainConfig) -> None:
        """ValueError for settings with which this policy cannot train on this task: what it cannot
        read or write, and a method that fails. Before anything runs.
        """
        if self.checked == (asked := (config.method, config.answers, config.K)):
            return
        if estimators.METHODS[config.method].recombines:
            check_task(self.task)
        pocket = self.policy.pocket
        self.task.check_policy(config.answers, pocket)
        shown = estimators.METHODS[config.method].weight_in_prompt
        check_early_problems(self.task, config.answers, pocket, shows_weights=shown)
        first = self.task.instance(self.task.seeds["train"][0])
        d, most = len(self.task.objectives(first)), checks.MOST_VALUES
        if config.K < math.inf and config.K * d > most:
            raise ValueError(
                f"K = {config.K:,} weights for {d:,} objectives are {config.K * d:,} numbers, at "
                f"most {most:,} are allowed: lower K, or K = inf"
            )
        check_method(self.task, config)
        self.policy.weight_in_prompt = shown  # a saved policy tells it to a search
        self.checked = asked


def _check_trainable(policy: Policy) -> None:
    """Raise ValueError for a base whose own quantisation gives no gradients, such as MXFP4 on a
    GPU. TRL's trainer refuses it, too.
    """
    base = policy.model.get_base_model()
    if not getattr(base, "is_quantized", False):
        return
    with quiet():
        trainable = base.hf_quantizer.is_trainable
    if not trainable:
        method = base.hf_quantizer.quantization_config.quant_method
        raise ValueError(
            f"model = {policy.base!r}: its parameters are quantised by {method.value}, through "
            "which transformers cannot train; choose a copy in bfloat16, if need be with load_in"
        )


def _check_compile(policy: Policy) -> None:
    """Raise ValueError where ``compile`` would fail, or do nothing."""
    missing = compiler_missing(policy.device) or _own_pass(policy)
    if missing:
        raise ValueError(f"compile = True: {missing}; leave it out, or fix this")


def _check_rollout_dtype(policy: Policy, config: TrainConfig) -> None:
    """Raise ValueError where ``rollout_dtype`` would do nothing."""
    if own := _own_pass(policy):
        raise ValueError(
            f"rollout_dtype = {config.rollout_dtype!r}: {own}, in the numbers of its parameters; "
            "leave it out, and choose them with dtype"
        )


def _own_pass(policy: Policy) -> str | None:
    """Says that the fast view does not know the model; None where it does."""
    if DecoderView.knows(policy.model):
        return None
    return f"{type(policy.model.get_base_model()).__name__} samples through its own forward pass"


def _base_of(model: str) -> str:
    """The model, checked to be a base model: with an adapter the reference would be wrong."""
    if adapter_folder(model) is not None:
        raise ValueError(
            f"model = {model!r}: holds a trained adapter, but training starts from a base model; "
            "to go on with a run, use --resume; to start from an adapter, make one model of it and "
            f"its base first: {messages.command('export', 'model', model, '--out', 'FOLDER')}"
        )
    return model
