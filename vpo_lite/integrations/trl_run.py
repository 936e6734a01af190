"""A run of this kit on TRL's GRPOTrainer, in one process or in many.

The run folder is that of a native run, but for the states to resume from: they are TRL's own
checkpoints, in ``checkpoints/``. One process, the main one, writes everything else.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from transformers import GenerationConfig, PrinterCallback

from ..checks import shown
from ..estimators import METHODS
from ..files import check
from ..policy.libraries import load_peft_weights, set_peft_model_state_dict
from ..policy.threads import torch_threads
from ..policy.weights import writing
from ..training.answers import Answers
from ..training.config import TrainConfig
from ..training.folders import CHECKPOINTS, CONFIG, RunFolder
from ..training.learner import Learner
from ..training.memory import Memory, check_fits, check_measured, enough_memory, made_to_fit
from ..training.record import StepRecord
from ..training.resuming import changed
from ..training.run import AnyRun, going_on, settled
from ..training.schemas import Engine
from .trl import SetReward
from .trl_options import try_model
from .trl_setup import (
    EPS,
    check_installed,
    dataset,
    grpo_config,
    keep_logs,
    keep_whole,
    on_cpu,
    pad_within,
    trl_memory_needed,
)
from .trl_states import check_going_on, other_streams, rewound, step_of
from .trl_steps import Recorder, RunReward
from .trl_surroundings import (
    by_deepspeed,
    ends_of,
    generating,
    joined,
    no_dropout,
    silence,
    split,
    together,
    who,
    whole,
)

NAME = "trl"


class TrlRun(AnyRun):
    """One run on TRL. Make it with :meth:`begin` or :meth:`resume`, in every process alike.

    After a kill :meth:`resume` goes on from the last complete checkpoint, with the same problems
    and weights. With as many processes as before it also samples the same rollouts: TRL restores
    its random streams. We have seen bit-equal ends on the CPU, and promise none elsewhere.
    """

    packages = (*AnyRun.packages, "trl")

    def __init__(
        self,
        folder: RunFolder,
        config: TrainConfig,
        learner: Learner,
        engine: Engine,
        team: PartialState,
        first: int = 0,
    ):
        super().__init__(folder, config, learner, first)
        self.engine, self.team, self._began, self._own = engine, team, False, None
        self.main, self.processes = team.is_main_process, team.num_processes
        if config.eps != EPS and METHODS[config.method].z_score:
            self.notes += (f"eps = {config.eps:g} is not used: TRL adds {EPS:g} to the deviation",)
        if by_deepspeed(engine):
            self.notes += ("we have not tried DeepSpeed",)
        elif split(engine):
            self.notes += ("we have tried FSDP in version 2 only (--fsdp_version 2), on the CPU",)
        mixed = _mixed()
        if mixed != "no" and "bf16" not in engine.options:
            self.notes += (
                f"accelerate is configured for mixed precision ({mixed}), so updates run in it; "
                "for the model's own numbers start it with --mixed_precision no",
            )

    @classmethod
    def begin(cls, config: TrainConfig, path, options: Mapping | None = None) -> "TrlRun":
        """A new run. options: further fields of TRL's GRPOConfig, as for :func:`grpo_config`.

        Raises ValueError where TRL is missing or cannot honour the settings, for sizes that this
        machine cannot hold, and as `Run.begin`. Nothing is written then.
        """
        check_installed()
        given = {"name": NAME, "options": dict(options or {})}
        engine, folder = check(given, Engine, "engine"), None
        team = joined(engine.options, on_cpu(config))
        with together(team):
            config = settled(config)
            if team.is_main_process:
                RunFolder(path).check_free()
            made = _check_options(config, engine, team)
            learner = _learner(config)
            with silence():
                try_model(learner.policy, made)
            if whole(engine):
                needed = functools.partial(trl_memory_needed, processes=team.num_processes)
                engines = dict(needed=needed, native=False)
                config = made_to_fit(learner.policy, config, learner.task, **engines)
                check_fits(learner.policy, config, learner.task, **engines)
            check_measured(learner.policy, config, learner.task)
            one_step, tokenizer = config.but(steps=1, warmup_steps=0), learner.policy.tokenizer
            dataset(one_step, tokenizer, learner.task)[0]  # refuses what TRL cannot ask
        if cut := list(filter(None, gather_object([config.micro_batch]))):
            config = config.but(micro_batch=min(cut))  # where there is least memory
        with together(team):
            if team.is_main_process:
                folder = RunFolder.create(path, config, engine)
                rewound(folder, learner, config)
        (found,) = broadcast_object_list([folder and str(folder.path.resolve())])
        run = cls(folder or RunFolder(found), config, learner, engine, team)
        blind = gather_object([] if (run.path / CONFIG).exists() else [who(team)])
        if blind:
            run.notes += (
                f"{run.path} is not seen by {', '.join(blind)}: this run cannot be resumed; for "
                "that, name a folder on a disk that all machines share",
            )
        return run

    @classmethod
    def resume(cls, path, steps: int | None = None, **machine: Any) -> "TrlRun":
        """Go on with a run, also with another number of processes. Arguments and errors are those
        of `Run.resume`.
        """
        check_installed()
        team = joined(*_known(path))
        with contextlib.ExitStack() as opened:  # if anything fails, the folder is closed
            with together(team):
                if team.is_main_process:
                    folder, config = opened.enter_context(going_on(path, NAME, steps, machine))
                else:
                    folder, config = _seen(path, steps, machine)
                engine = folder.engine()
                schedule = engine.options.get("lr_scheduler_type", "constant")
                if config.steps != folder.config().steps and not schedule.startswith("constant"):
                    raise ValueError(
                        f"--resume {path}: its learning rate may depend on the number of steps "
                        f"(lr_scheduler_type = {shown(schedule)}), so that cannot be changed; "
                        "leave out --steps, or begin another run"
                    )
                _check_options(config, engine, team)
                learner = _learner(config)
            checkpoint = _last_checkpoint(folder, learner, config, team)
        run = cls(folder, config, learner, engine, team, step_of(checkpoint))
        run.notes += other_streams(checkpoint, team.num_processes)
        return run

    def memory(self) -> Memory | None:
        """As `AnyRun.memory`. None where vLLM samples or processes share the parameters."""
        if not whole(self.engine):
            return None
        return trl_memory_needed(
            self.learner.policy, self.config, self.learner.task, self.processes
        )

    def start(self) -> dict:
        with together(self.team):
            return super().start() if self.main else {}

    def _evaluate(self, keep: Callable[[Answers], object] | None = None) -> dict:
        self.in_step = False  # other processes, if any, wait for this one
        try:
            return super()._evaluate(keep)
        finally:
            self.in_step = True

    def train(self, tell: Callable[[StepRecord], bool]) -> bool:
        """As `AnyRun.train`. Called again, it goes on from the last complete checkpoint.

        Until it returns, the model has the generation settings that TRL samples with.
        """
        checkpoint = _last_checkpoint(self.folder, self.learner, self.config, self.team)
        self.done = step_of(checkpoint)
        with silence(), torch_threads(self.config.threads), enough_memory(self.config):
            if self._began and checkpoint is None:  # steps without a state changed the adapter
                self._build_again(_learner)
            self._began = True
            self.did(self.done)
            policy = self.learner.policy
            base, ends = policy.model.get_base_model(), sorted(ends_of(policy, self.config))
            self._own = base.generation_config
            ending = generating(base, GenerationConfig(eos_token_id=ends))
            with ending, writing(self.path, tokenizers=False):  # a reward function raises Exception
                trainer = self._trainer(tell)
                check_going_on(checkpoint, trainer.is_fsdp_enabled)
                trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
        return self.done == self.config.steps

    def measure(self) -> None:
        if self.due:
            base = self.learner.policy.model.get_base_model()
            with together(self.team), generating(base, self._own):
                if self.main:
                    with self._alone():
                        super().measure()

    def finish(self) -> dict:
        self.team.wait_for_everyone()  # each stored its random streams beside the checkpoint
        with together(self.team):
            if not self.main:
                return {}
            with self._alone():
                return super().finish()

    @contextlib.contextmanager
    def _alone(self):
        """A context in which this process needs no other one for the trained policy.

        Where the parameters are split among the processes, it loads the model once more, with the
        adapter that TRL stored last.
        """
        trained = self.learner
        try:
            if split(self.engine):
                self.learner = _learner(self.config)
                stored = self.path / CHECKPOINTS / f"checkpoint-{self.done}"
                model = self.learner.policy.model
                set_peft_model_state_dict(model, load_peft_weights(str(stored), device="cpu"))
            yield
        finally:
            self.learner = trained

    def _trainer(self, tell):
        """The stock trainer, whose adapter begins with the native trainer's values."""
        from trl import GRPOTrainer

        config, policy = self.config, self.learner.policy
        folder, processes = self.path / CHECKPOINTS, self.team.num_processes
        task, options = self.learner.task, self.engine.options
        args = grpo_config(config, folder, processes, task, **options)
        trained = {n: p.detach() for n, p in policy.model.named_parameters() if p.requires_grad}
        lora, base = policy.model.peft_config["default"], policy.model.unload()
        pad_within(policy.tokenizer, base)
        if args.disable_dropout:
            no_dropout(base)
        ends, log = ends_of(policy, config), bool(args.report_to)
        reward = RunReward(SetReward.of(config, task), policy.read, ends, log, self.team)
        trainer = GRPOTrainer(
            model=base,
            args=args,
            train_dataset=dataset(config, policy.tokenizer, task),
            reward_funcs=reward,
            processing_class=policy.tokenizer,
            peft_config=lora,
            callbacks=[Recorder(self, reward, tell)],
        )
        trainer.remove_callback(PrinterCallback)
        keep_logs(trainer, self.path)
        if trainer.is_fsdp_enabled:
            keep_whole(trainer)
        with torch.no_grad():
            for name, parameter in trainer.model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(trained[name])
        policy.model = trainer.model
        return trainer


# --- parts ----------------------------------------------------------------------------------------


def _learner(config: TrainConfig) -> Learner:
    """Policy and task; TRL recomputes layers by its own option."""
    return Learner(config.but(gradient_checkpointing=False))


def _known(path) -> tuple[dict, bool]:
    """A run's options of TRL, and whether it goes on, on the CPU. Where its folder is not seen,
    what is there decides.
    """
    try:
        folder = RunFolder.open(path)
        return folder.engine().options, on_cpu(folder.config())
    except ValueError:  # raised again, where the other processes learn of it
        return {}, on_cpu(TrainConfig())


def _seen(path, steps: int | None, machine: dict) -> tuple[RunFolder, TrainConfig]:
    """The folder and the settings of a run, in a process that does not write to it."""
    try:
        folder = RunFolder.open(path)
    except ValueError as error:
        raise ValueError(f"{error}; all machines of a run must share its folder") from error
    return folder, changed(path, folder.config(), steps, machine)


def _last_checkpoint(
    folder: RunFolder, learner: Learner, config: TrainConfig, team: PartialState
) -> Path | None:
    """The checkpoint to go on from, in every process; the main one rewinds the folder to it."""
    found = None
    with together(team):
        if team.is_main_process:
            found = rewound(folder, learner, config)
    (checkpoint,) = broadcast_object_list([found])
    return checkpoint


def _mixed() -> str:
    """The mixed precision that accelerate is configured for: "no", "bf16" or another."""
    return os.environ.get("ACCELERATE_MIXED_PRECISION", "no")


def _check_options(config: TrainConfig, engine: Engine, team: PartialState):
    """TRL's settings. Refuses what TRL refuses, and half precision, before anything is loaded or
    written.
    """
    configured = _mixed() == "fp16" and not engine.options.get("bf16")
    if configured or engine.options.get("fp16"):
        raise ValueError(
            "fp16: its gradients overflow now and then, and a step without their norm ends the "
            "run; take --engine-options bf16=true, or accelerate launch --mixed_precision no"
        )
    with silence():
        limited = config.but(max_new_tokens=config.max_new_tokens or 1)  # no problem is drawn
        return grpo_config(limited, "unused", team.num_processes, **engine.options)
