"""What all commands share: wrong requests, messages, and flags from options."""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from ..checks import shown
from ..messages import LONGEST
from ..options import Option
from ..tasks import DEFAULT, task_class
from .errors import of_a_file, of_own_code

PATIENCE = 2.0  # seconds after which a terminal is told what it waits for
HEAVY = ("torch", "vpo_lite.policy.libraries")  # modules that take seconds to load
STOPPED = 130  # exit status after Ctrl-C: 128 and the number of SIGINT, as shells have it
OF_A_PAGE = "open it in a browser; it needs no network"  # said of each page that is written
_FOR_JSON = ContextVar("stdout of a command that prints JSON", default=None)


class Wrong(ValueError):
    """The request was wrong; the message names the value and the cure."""


class Parser(argparse.ArgumentParser):
    def error(self, message):  # one line, no usage block
        if message.endswith("expected one argument"):
            flag = message.split()[1].rstrip(":")
            message += f", or {flag}=VALUE where the value begins with -"
        raise Wrong(f"{message} (see `{self.prog} --help`)")


class Command(NamedTuple):
    """A command, ``vpo-lite COMMAND``, or one of its kinds, ``vpo-lite COMMAND KIND``."""

    help: str
    flags: "Callable | dict[str, Command]"  # (parser, arguments) -> None: adds them; or its kinds
    run: Callable | None = None  # options -> exit status; of a command with kinds each has its own
    example: str = ""  # command lines, below the help


def add_commands(made, arguments, commands: dict[str, Command], what: str = "COMMAND") -> None:
    """Add a parser for each command. It sets the function that runs it; only the one that these
    arguments name gets its flags: some need a task or torch, and no other waits for those.
    """
    parsers = made.add_subparsers(
        dest=what.lower(), required=True, metavar=what, parser_class=Parser
    )
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    for name, command in commands.items():
        one = parsers.add_parser(
            name,
            help=command.help,
            description=textwrap.fill(command.help, 78),
            epilog=in_examples(command.example),
            formatter_class=argparse.RawDescriptionHelpFormatter,  # breaks no line of an example
            allow_abbrev=False,
        )
        one.set_defaults(_run=command.run, _parser=one)  # a task may have an option named run
        if name == chosen and isinstance(command.flags, dict):
            add_commands(one, arguments[1:], command.flags, "KIND")
        elif name == chosen:
            command.flags(one, arguments)


def in_examples(lines: str) -> str | None:
    """Command lines, as the end of a help page."""
    return "examples:\n" + textwrap.indent(lines, "  ") if lines else None


def say(message, status: int) -> int:
    """Print the message as :func:`note` does; returns the status with which the command ends."""
    note(message)
    return status


def note(message) -> None:
    """Print one line on stderr, cut in the middle where it is long."""
    line = " ".join(str(message).split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    print(f"vpo-lite: {line}", file=sys.stderr)


@contextlib.contextmanager
def json_alone(arguments):
    """A context in which a command that prints JSON has stdout for that alone. What the code of a
    task or of a reward function prints goes to stderr.
    """
    prints_json = "--json" in arguments or arguments[:1] == ["score"]
    if not prints_json or {"-h", "--help"} & set(arguments):
        yield
        return
    token = _FOR_JSON.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _FOR_JSON.reset(token)


def print_json(value) -> None:
    """Print a value as one line of JSON, on stdout."""
    print(json.dumps(value), file=_FOR_JSON.get())


@contextlib.contextmanager
def requests():
    """A context in which nothing is written yet: a ValueError, and a file that cannot be used, mean
    that the request was wrong.
    """
    try:
        yield
    except (Wrong, BrokenPipeError):  # the reader of our output has gone, as `| head` does
        raise
    except ValueError as error:
        raise Wrong(of_own_code(error) or str(error)) from error
    except OSError as error:
        raise Wrong(of_own_code(error) or of_a_file(error)) from error
    except Exception as error:
        if not (said := of_own_code(error)):
            raise
        raise Wrong(said) from error


def add_options(made, options: tuple[Option, ...], defaults: Mapping[str, Any] = {}) -> None:
    """Add a flag for each option. `given` reads the texts. The help states its default: that of
    ``defaults``, by the option's name, or else the option's own.
    """
    for option in options:
        default, help = defaults.get(option.name, option.default), option.help
        if option.type is not bool and default is not None and "default" not in help:
            help += f" (default: {default:g})" if option.type is float else f" (default: {default})"
        help = help.replace("%", "%%")
        if option.type is bool:
            made.add_argument(
                option.flag,
                dest=option.name,
                action="store_const",
                const=not option.default,
                help=help,
            )
        else:
            is_file = option.file or option.path
            metavar = "FILE" if is_file else {int: "N", float: "X", str: "NAME"}[option.type]
            kind = at_home if is_file or option.name == "model" else None  # it may be a folder
            made.add_argument(option.flag, type=kind, metavar=metavar, help=help)


def add_task_options(made, arguments, default: str | None = None) -> None:
    """Add a flag for each option of the task that ``--task`` names among the arguments; without it
    the default's, or none. Raises Wrong for one that a command has already.
    """
    name = named(made, "--task", default, arguments)
    if name is None:
        return
    with requests():
        task = task_class(name)
    try:
        add_options(made.add_argument_group(f"options of task {task.name}"), task.options)
    except argparse.ArgumentError as error:
        raise Wrong(
            f"task {task.name!r}: its option {error.argument_name} is there twice, or has the name "
            f"of a flag of `{made.prog}`; rename it"
        ) from error


def add_number(made, flag: str, help: str, *, default: int | None = None) -> None:
    """Add a flag that takes a whole number."""
    if default is not None and "default" not in help:
        help += f" (default: {default})"
    made.add_argument(flag, type=whole, default=default, metavar="N", help=help)


def add_device(made) -> None:
    """Add the flag of the device, for a command that takes it without the settings of a run."""
    help = "device: auto, cpu, cuda, cuda:N or mps (default: auto)"
    made.add_argument("--device", default="auto", metavar="NAME", help=help)


def add_settings(made, arguments, settings: tuple[Option, ...], preset: str) -> None:
    """Add a flag for each setting of a run, with the default of the preset that ``--preset`` names
    among the arguments (else ``preset``), and for each option of the task that ``--task`` names.
    """
    from ..training.config import TrainConfig

    name = named(made, "--preset", preset, arguments)
    with requests():
        defaults = dataclasses.asdict(TrainConfig.preset(name))
    title = f"settings, with the defaults of preset {name}"
    add_options(made.add_argument_group(title), settings, defaults)
    add_task_options(made, arguments, DEFAULT)


def given_settings(settings: tuple[Option, ...], namespace) -> dict:
    """The values of the flags that :func:`add_settings` made and that were given."""
    task = task_class(DEFAULT if namespace.task is None else namespace.task)
    return given((*settings, *task.options), namespace)


def named(made, flag: str, default: str | None, arguments) -> str | None:
    """The text of a flag that is read before all others, since it decides about flags."""
    early = Parser(prog=made.prog, add_help=False, allow_abbrev=False)
    early.add_argument(flag, dest="early", default=default)
    return early.parse_known_args(arguments)[0].early


def given(options: tuple[Option, ...], namespace) -> dict:
    """The values of the flags that were given."""
    texts = {option: getattr(namespace, option.name) for option in options}
    return {
        o.name: o.read(t) if isinstance(t, str) else t for o, t in texts.items() if t is not None
    }


def whole(text: str) -> int:
    """A flag's whole number, for argparse."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no whole number") from None


def at_home(text: str) -> str:
    """A flag's file or folder, or a name, with a leading ``~`` replaced, for argparse. A shell
    replaces it in ``--out ~/x``, and leaves it in ``--out=~/x``.
    """
    return os.path.expanduser(text)


def path(text: str) -> Path:
    """A flag's file or folder, for argparse. A leading ``~`` is the home folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(at_home(text))


def progress(*loop, **how):
    """A bar of tqdm on stderr. It is drawn at most ten times a second, in a log file at most every
    five seconds.
    """
    every = 0.1 if sys.stderr.isatty() else 5
    return bars()(*loop, file=sys.stderr, dynamic_ncols=True, mininterval=every, **how)


@functools.cache
def bars():
    """tqdm, with a lock among threads. Its own is one among processes, too: from Python 3.14 on it
    leaves a warning on stderr behind a command that is killed.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())
    return tqdm


def terminal_width() -> int | None:
    """The characters of a line of the terminal; None where stdout is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextlib.contextmanager
def loading():
    """A context in which a terminal is told if torch and what builds on it are loading for long."""

    def tell():
        specs = [getattr(sys.modules.get(name), "__spec__", None) for name in HEAVY]
        if any(getattr(spec, "_initializing", False) for spec in specs):  # as importlib marks it
            print("loading torch, transformers and peft", file=sys.stderr)

    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def measuring(quiet: bool):
    """A function that is told how many problems are done, and of how many. It shows a bar if they
    take over two seconds. The call after the last problem begins a new bar.
    """
    bars = []

    def tell(done: int, total: int) -> None:
        if not bars:
            how = dict(unit="problem", leave=False, delay=2)
            bars.append(progress(total=total, disable=quiet, **how))
        bars[0].update(done - bars[0].n)
        if done == total:
            bars.pop().close()

    try:
        yield tell
    finally:
        for bar in bars:
            bar.close()
