"""``vpo-lite COMMAND``: parse, call, print. The commands stand in a table below.

Exit status: 0; 1 if the command failed while it worked; 2 if the request was wrong. A wrong request
gets one line on stderr, and nothing is written.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from .. import __version__
from ..files import DamagedError
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
from .flags import Parser, Wrong, of_a_file, say


def main(arguments=None) -> int:
    """Run one command; returns the exit status.

    Errors that a user can cause are one line. Any other exception is a fault of the program and
    stays a traceback.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot write fails nothing
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parser(arguments).parse_args(arguments)
        return options.run(options) or 0
    except Wrong as error:
        return say(error, 2)
    except KeyboardInterrupt:
        return say("stopped", 1)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return say(of_a_file(error), 1)
    except (TrainingError, TaskError, DamagedError, MemoryError) as error:
        return say(str(error) or type(error).__name__, 1)


class _Command(NamedTuple):
    help: str
    flags: Callable  # adds the command's flags to its parser: (parser, arguments)
    run: Callable | None  # options -> exit status; None: its flags set it


def parser(arguments=()) -> argparse.ArgumentParser:
    """The parser for these arguments. Only the command that they name gets its flags.

    Some flags need a task or torch, and no other command waits for those.
    """
    made = Parser(
        prog="vpo-lite", description="Learn, try and teach Vector Policy Optimization (VPO)."
    )
    made.add_argument("--version", action="version", version=f"vpo_lite {__version__}")
    commands = made.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    for name, command in _COMMANDS.items():
        one = commands.add_parser(
            name, help=command.help, description=command.help, allow_abbrev=False
        )
        one.set_defaults(run=command.run)
        if name == chosen:
            command.flags(one, arguments)
    return made


_COMMANDS = {
    "train": _Command("train a LoRA policy, leave a run folder", train.flags, train.run),
    "report": _Command(
        "say what a task's reward vector offers VPO, before any training",
        decomposition.flags,
        decomposition.run,
    ),
    "evaluate": _Command(
        "measure a run's policy again", measure.evaluate_flags, measure.evaluate_runs
    ),
    "compare": _Command(
        "a table of several runs, means by kind of run", measure.compare_flags, measure.compare_runs
    ),
    "export": _Command(
        "a run for another engine (veRL), or recorded runs as a page (lesson)", export.flags, None
    ),
    "course": _Command("what a teacher takes into a class: the cheat sheet", course.flags, None),
    "study": _Command(
        "run a declared study: methods, learning rates and seeds, one small file a run",
        study.flags,
        study.run,
    ),
    "score": _Command(
        "score texts from any source on records", records.score_flags, records.score_answers
    ),
    "data": _Command(
        "check a file of records: what loads, what is dropped and why",
        records.data_flags,
        records.check_data,
    ),
    "pretrain": _Command("make a pocket policy from a seed", pretrain.flags, pretrain.run),
    "doctor": _Command(
        "what was found on this machine, what is missing, and the cure",
        classroom.doctor_flags,
        classroom.doctor,
    ),
    "lab": _Command("open the notebooks in JupyterLab", classroom.lab_flags, classroom.lab),
    "notebooks": _Command("copy the notebooks out of the package", classroom.notebooks_flags, None),
    "classroom": _Command(
        "serve the panel without code cells: to this machine, or with a token to a room",
        classroom.flags,
        classroom.run,
    ),
}
