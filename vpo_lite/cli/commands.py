"""The commands: parse, call, print. They stand in a table below."""

import argparse
import os
import sys
from difflib import get_close_matches

from .. import __version__
from ..files import BusyError, DamagedError
from ..tasks.base import TaskError
from ..training.errors import TrainingError
from . import (
    classroom,
    course,
    decomposition,
    export,
    measure,
    pretrain,
    records,
    study,
    train,
)
from .flags import Command, Parser, Wrong, add_commands, json_alone, of_a_file, say


def run(arguments=None) -> int:
    """What :func:`vpo_lite.cli.main` does, but for Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: the first file would get its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot write fails nothing
            stream.reconfigure(errors="backslashreplace")
    try:
        with json_alone(arguments):
            options, unknown = parser(arguments).parse_known_args(arguments)
            if unknown:  # here, since argparse would name the help of `vpo-lite`
                flags = list(options._parser._option_string_actions)
                near = [get_close_matches(text.split("=")[0], flags, 1, 0.7) for text in unknown]
                meant = ", ".join(flag for found in near for flag in found)
                hint = f"; did you mean {meant}?" if meant else ""
                options._parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
            return options._run(options) or 0
    except Wrong as error:
        return say(error, 2)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return say(of_a_file(error), 1)
    except (TrainingError, TaskError, DamagedError, BusyError, MemoryError) as error:
        return say(str(error) or type(error).__name__, 1)


def parser(arguments=()) -> argparse.ArgumentParser:
    """The parser for these arguments. Only the command that they name gets its flags."""
    made = Parser(
        prog="vpo-lite", description="Learn, try and teach Vector Policy Optimization (VPO)."
    )
    made.add_argument("--version", action="version", version=f"vpo_lite {__version__}")
    add_commands(made, arguments, _COMMANDS, "COMMAND")
    return made


_COMMANDS = {
    "train": Command("train a LoRA policy, leave a run folder", train.flags, train.run),
    "report": Command(
        "say what a reward vector offers VPO, before any training: a task's, or of a file",
        decomposition.flags,
        decomposition.run,
    ),
    "evaluate": Command(
        "measure a run's policy again", measure.evaluate_flags, measure.evaluate_runs
    ),
    "compare": Command(
        "a table of several runs, means by kind of run", measure.compare_flags, measure.compare_runs
    ),
    "export": Command(
        "a trained model in one piece, a run for another engine (veRL), or recorded runs as a page "
        "(lesson)",
        export.flags,
        None,
    ),
    "course": Command(
        "what a teacher takes into a class: copies of the notebooks, the cheat sheet",
        course.flags,
        None,
    ),
    "study": Command(
        "run a declared study: methods, learning rates and seeds, one small file a run",
        study.flags,
        study.run,
    ),
    "score": Command(
        "score texts from any source on records", records.score_flags, records.score_answers
    ),
    "data": Command(
        "check a file of records: what loads, what is dropped and why",
        records.data_flags,
        records.check_data,
    ),
    "pretrain": Command("make a pocket policy from a seed", pretrain.flags, pretrain.run),
    "doctor": Command(
        "what was found on this machine, what is missing, and the cure",
        classroom.doctor_flags,
        classroom.doctor,
    ),
    "lab": Command("open the notebooks in JupyterLab", classroom.lab_flags, classroom.lab),
    "notebooks": Command("copy the notebooks out of the package", classroom.notebooks_flags, None),
    "classroom": Command(
        "serve the panel without code cells: to this machine, or with a token to a room",
        classroom.flags,
        classroom.run,
    ),
}
