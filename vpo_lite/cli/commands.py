"""The commands: parse, call, print. They stand in a table below."""

import argparse
import os
import sys

from .. import __version__
from ..files import DamagedError
from ..locks import BusyError
from ..messages import did_you_mean
from ..tasks import task_class, task_names
from ..tasks.base import TaskError
from ..training.errors import TrainingError
from . import (
    classroom,
    course,
    export,
    measure,
    pretrain,
    records,
    report,
    study,
    train,
)
from .errors import ended, of_a_file, of_own_code
from .flags import (
    Command,
    Parser,
    Wrong,
    add_commands,
    in_examples,
    json_alone,
    loading,
    say,
)


def run(arguments=None) -> int:
    """What :func:`vpo_lite.cli.main` does, but for Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # a stream was closed: else the first
        os.set_inheritable(number, True)  # file gets its number, and what C code prints
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot write fails nothing
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except FileNotFoundError:  # torch's own libraries would not be found, and say so
        return say("the current folder was removed; go to one that is there with cd", 2)
    try:
        with json_alone(arguments):
            options, unknown = parser(arguments).parse_known_args(arguments)
            if unknown:  # here, since argparse would name the help of `vpo-lite`
                hint = _hint([text.split("=")[0] for text in unknown], options, arguments)
                options._parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
            try:
                with loading():
                    return options._run(options) or 0
            except SystemExit as error:  # a script that takes this end for a success would go on
                return say(f"code of a task, a method or rewards {ended(error)}", 1)
    except Wrong as error:
        return say(error, 2)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return say(of_own_code(error) or of_a_file(error), 1)
    except (TrainingError, TaskError, DamagedError, BusyError, MemoryError) as error:
        return say(str(error) or type(error).__name__, 1)
    except Exception as error:
        if not (said := of_own_code(error)):
            raise
        return say(said, 1)


def _hint(unknown: list[str], options, arguments: list[str]) -> str:
    """What to add to the error on these arguments: the tasks whose options they are, or the flags
    that were probably meant.
    """
    shown = (a for a in options._parser._actions if a.help != argparse.SUPPRESS)
    flags = [flag for action in shown for flag in action.option_strings]
    if "--task" not in flags:
        return did_you_mean(unknown, flags)
    tasks = {name: {option.flag for option in task_class(name).options} for name in task_names()}
    known = [flag for flag in dict.fromkeys(unknown) if any(flag in own for own in tasks.values())]
    if not known:
        return did_you_mean(unknown, flags)
    named = ", ".join(known)
    if getattr(options, "resume", None):
        return f"; leave out {named}: the task and its options come from the run"
    most = max(len(own & {*known}) for own in tasks.values())
    fit = [name for name, own in tasks.items() if len(own & {*known}) == most]
    are = "is an option" if len(known) == 1 else "are options"
    there = f"task {fit[0]}" if len(fit) == 1 else f"the tasks {', '.join(fit)}"
    given = any(x.startswith("--task") for x in arguments)
    cure = "" if given else f"; add --task {fit[0] if len(fit) == 1 else 'NAME'}"
    return f"; {named} {are} of {there}{cure}"


def parser(arguments=()) -> argparse.ArgumentParser:
    """The parser for these arguments. Only the command that they name gets its flags."""
    made = Parser(
        prog="vpo-lite",
        description="Learn, try and teach Vector Policy Optimization (VPO).\n"
        "`vpo-lite COMMAND --help` explains a command.",
        epilog=in_examples(_FIRST),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"vpo_lite {__version__}")
    add_commands(made, arguments, _COMMANDS)
    return made


_FIRST = """\
vpo-lite doctor   # is everything there?
vpo-lite lab      # open the notebooks
vpo-lite train --task hops --problem 3 --method vpo --out runs/vpo"""

_COMMANDS = {
    "train": Command(
        "train a policy with VPO, GRPO or another method, into a run folder",
        train.flags,
        train.run,
        "vpo-lite train --task hops --problem 3 --method vpo --out runs/vpo\n"
        "vpo-lite train --task functions --data rows.jsonl --preset gpu \\\n"
        "    --reward-funcs my_rewards:correct,brief --model FOLDER --out runs/a\n"
        "vpo-lite train --resume runs/vpo",
    ),
    "report": Command(
        "say before any training what sets of answers can gain on a task or on rewards in a file",
        report.flags,
        report.run,
        "vpo-lite report --task hops --show 2\nvpo-lite report --rewards rewards.npy",
    ),
    "evaluate": Command(
        "measure the trained policy of a run again",
        measure.evaluate_flags,
        measure.evaluate_runs,
        "vpo-lite evaluate runs/vpo --problems 200 --seed 1",
    ),
    "compare": Command(
        "compare runs in a table; runs that differ only in the seed share a row",
        measure.compare_flags,
        measure.compare_runs,
        "vpo-lite compare runs/vpo runs/grpo --html report.html",
    ),
    "export": Command(
        "write a trained model, a run for veRL, or a lesson of recorded runs", export.KINDS
    ),
    "course": Command(
        "write what a class needs: copies of the notebooks, the cheat sheet", course.KINDS
    ),
    "study": Command(
        "train and compare several methods, learning rates and seeds",
        study.flags,
        study.run,
        "vpo-lite study programs --workers 2\nvpo-lite study programs --table any@30 diversity",
    ),
    "score": Command(
        "score texts from any source as answers to records",
        records.score_flags,
        records.score,
        "vpo-lite score --task hops --data records.jsonl --answers answers.jsonl",
    ),
    "data": Command(
        "check a file of records: what loads, what is dropped and why",
        records.data_flags,
        records.check_data,
        "vpo-lite data check records.jsonl --task hops",
    ),
    "pretrain": Command(
        "train a small policy from scratch, like those that ship",
        pretrain.flags,
        pretrain.run,
        "vpo-lite pretrain --task hops --out pocket-hops",
    ),
    "doctor": Command(
        "check this machine: what was found, what is missing, and the cure",
        classroom.doctor_flags,
        classroom.doctor,
        "vpo-lite doctor --class",
    ),
    "lab": Command(
        "open the notebooks in JupyterLab",
        classroom.lab_flags,
        classroom.lab,
        "vpo-lite lab course",
    ),
    "notebooks": Command("copy the notebooks out of the package", classroom.NOTEBOOKS),
    "classroom": Command(
        "serve the panel without code cells, to this machine or to a room",
        classroom.flags,
        classroom.run,
        "vpo-lite classroom --room --viewers 8",
    ),
}
