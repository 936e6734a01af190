"""What surrounds TRL's trainer in a run: the processes, logs, generation settings, dropout."""

import atexit
import contextlib
import logging
import socket
import time

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from huggingface_hub import constants
from transformers import GenerationConfig

from ..policy.adapter import quiet_for_long
from ..training.errors import TrainingError


@contextlib.contextmanager
def together(team: PartialState):
    """A context that all processes leave, or none: where one raises, each of the others does, too.

    Without it they would wait for that one, for as long as torch lets them: half an hour. Nothing
    in the block may wait for another process. The others raise TrainingError, with the rank,
    machine and message of that one.
    """
    own = None
    try:
        yield
    except Exception as error:
        own = error
    told = gather_object([] if own is None else [f"{who(team)}: {_in_words(own)}"])
    if own is not None:
        raise own
    if told:
        raise TrainingError(told[0])


def _in_words(error: Exception) -> str:
    """What an error says; its class, too, unless it is one of those that are written to be read."""
    said = isinstance(error, (ValueError, TrainingError))
    return str(error) if said else f"{type(error).__name__}: {error}"


def who(team: PartialState) -> str:
    """This process in words, for an error: its rank and its machine."""
    return f"rank {team.process_index} of {team.num_processes} on {socket.gethostname()}"


def joined(*, cpu: bool) -> PartialState:
    """The group of processes, which this one leaves at its end, also where no run begins."""
    team = PartialState(cpu=cpu)
    atexit.register(leave, team)
    return team


def leave(team: PartialState) -> None:
    """Leave the group of processes, at the end of this one.

    Threads of gloo let go of the tensors of the last collective. For that they need the GIL. One
    that asks for it while Python ends would abort the process (pytorch issue 190489), which had
    trained to its end.
    """
    if torch.distributed.is_initialized():
        team.destroy_process_group()
        time.sleep(0.5)  # the GIL is free


def drop_nothing(model) -> None:
    """Dropout that a layer keeps as a number (OPT) becomes 0. TRL's own option sees modules."""
    for module in model.modules():
        for name, value in vars(module).items():
            if name.endswith(("dropout", "layerdrop")) and isinstance(value, float):
                setattr(module, name, 0.0)


@contextlib.contextmanager
def nothing_but_ends(model, ids: set[int]):
    """A context in which the model's generation settings are these ends, and nothing else.

    ``generate`` takes what TRL leaves open from them: a model's ``min_p`` would change the
    distribution that rollouts are drawn from, and the trainer knows nothing of it.
    """
    before, model.generation_config = (
        model.generation_config,
        GenerationConfig(eos_token_id=sorted(ids)),
    )
    try:
        yield
    finally:
        model.generation_config = before


@contextlib.contextmanager
def silence():
    """A context in which TRL and what it stands on print nothing, and report nothing home."""
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
