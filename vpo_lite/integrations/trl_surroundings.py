"""What surrounds TRL's trainer in a run: the processes, logs, generation settings, dropout."""

import atexit
import contextlib
import functools
import logging
import signal
import socket
import threading
import time
from collections.abc import Mapping
from datetime import timedelta

import torch
from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from huggingface_hub import constants
from transformers import GenerationConfig

from ..checks import check_whole
from ..policy.adapter import quiet_for_long
from ..policy.policy import Policy
from ..training.config import TrainConfig
from ..training.errors import TrainingError
from ..training.rollouts import last_word
from ..training.schemas import Engine

STEP = 1800  # seconds that communication within a step may wait: TRL's default
PATIENCE = timedelta(days=1)
STOPPED = "Ctrl-C"


@contextlib.contextmanager
def together(team: PartialState):
    """A context that all processes leave, or none: where one raises, each of the others does, too.

    The others wait for the slowest one up to a day: one process evaluates for all, and a judge may
    take hours. Nothing in the block may wait for another process. The others raise TrainingError,
    with the rank, machine and message of the one that failed, or KeyboardInterrupt where Ctrl-C
    stopped it.

    A process that is killed says nothing. Its launcher (torchrun, accelerate) then ends the others
    on its machine. Those on other machines end once their connections to it break. A machine that
    leaves the network without a word is waited for: here up to a day, within a step as long as the
    engine option ``ddp_timeout`` says.
    """
    own = None
    try:
        yield
    except BaseException as error:
        own = error
    said = STOPPED if isinstance(own, KeyboardInterrupt) else f"{who(team)}: {_in_words(own)}"
    told = _heard(None if own is None else said)
    if own is not None:
        raise own
    if told:
        raise KeyboardInterrupt if told[0] == STOPPED else TrainingError(told[0])


def _heard(words: str | None) -> list[str]:
    """What all processes have to say, in the order of their ranks."""
    if not torch.distributed.is_initialized():
        return []
    found = [None] * torch.distributed.get_world_size()
    with _undisturbed():
        torch.distributed.all_gather_object(found, words, group=_patient())
    return [said for said in found if said is not None]


@contextlib.contextmanager
def _undisturbed():
    """A context at whose end Ctrl-C takes effect: a process that leaves half-way through a
    collective would take its words with it.
    """
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C goes to the main one
        yield
        return
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


@functools.cache
def _patient():
    """The same processes once more. By default NCCL lets a group wait for ten minutes, gloo for
    thirty, and then aborts the process.
    """
    return torch.distributed.new_group(timeout=PATIENCE)


def _in_words(error: BaseException) -> str:
    """What an error says; its class, too, unless it is one of those that are written to be read."""
    said = isinstance(error, (ValueError, TrainingError))
    return str(error) if said else f"{type(error).__name__}: {error}"


def who(team: PartialState) -> str:
    """This process in words, for an error: its rank and its machine."""
    return f"rank {team.process_index} of {team.num_processes} on {socket.gethostname()}"


def joined(options: Mapping, cpu: bool) -> PartialState:
    """The group of processes; this one leaves it at exit, even if no run begins.

    options: of TRL. Their ``ddp_timeout`` is set here: TRL ignores it once a group exists.
    """
    seconds = options.get("ddp_timeout", STEP)
    check_whole(seconds, "engine option ddp_timeout", most=10**9)
    team = PartialState(cpu=cpu, timeout=timedelta(seconds=seconds))
    atexit.register(leave, team)
    _heard(None)  # they connect with the limit of a step, so before one of them works for long
    return team


def leave(team: PartialState) -> None:
    """Leave the group of processes, at the end of this one.

    Threads of gloo let go of the tensors of the last collective. For that they need the GIL. One
    that asks for it while Python ends would abort the process (pytorch issue 190489), which had
    trained to its end.
    """
    if torch.distributed.is_initialized():
        team.destroy_process_group()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C; the first one ended the run
        time.sleep(0.5)  # the GIL is free


def whole(engine: Engine) -> bool:
    """Whether every process holds all parameters and samples itself: its memory is then known."""
    return not split(engine) and not engine.options.get("use_vllm")


def split(engine: Engine) -> bool:
    """Whether FSDP or DeepSpeed trains: they may split the parameters among the processes."""
    fsdp = parse_flag_from_env("ACCELERATE_USE_FSDP") or bool(engine.options.get("fsdp"))
    return fsdp or by_deepspeed(engine)


def by_deepspeed(engine: Engine) -> bool:
    """Whether accelerate, or an option of TRL, asks for DeepSpeed."""
    return parse_flag_from_env("ACCELERATE_USE_DEEPSPEED") or bool(engine.options.get("deepspeed"))


def no_dropout(model) -> None:
    """Dropout that a layer keeps as a number (OPT) becomes 0. TRL's own option sees modules."""
    for module in model.modules():
        for name, value in vars(module).items():
            if name.endswith(("dropout", "layerdrop")) and isinstance(value, float):
                setattr(module, name, 0.0)


def ends_of(policy: Policy, config: TrainConfig) -> set[int]:
    """The tokens that end a rollout: also the word that ends its last answer."""
    word = last_word(policy, config.answers)
    return policy.eos_ids | (set() if word is None else {policy.token_id(word)})


@contextlib.contextmanager
def generating(model, settings: GenerationConfig):
    """A context in which the model has these generation settings.

    ``generate`` takes what TRL leaves open from them: a model's ``min_p`` would change the
    distribution that rollouts are drawn from, and the trainer knows nothing of it.
    """
    before, model.generation_config = model.generation_config, settings
    try:
        yield
    finally:
        model.generation_config = before


@contextlib.contextmanager
def silence():
    """A context in which TRL and its dependencies print nothing and send no telemetry."""
    loggers = [logging.getLogger(name) for name in ("trl", "accelerate")]
    levels = [logger.level for logger in loggers]
    told, constants.HF_HUB_DISABLE_TELEMETRY = constants.HF_HUB_DISABLE_TELEMETRY, True
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with quiet_for_long():
            yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = told
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
