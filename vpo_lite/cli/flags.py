"""What all commands share: wrong requests, messages, and flags from options."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from ..checks import shortened, shown
from ..options import Option

LONGEST = 900  # characters of a message


class Wrong(ValueError):
    """The request was wrong; the message names the value and the cure."""


class Parser(argparse.ArgumentParser):
    def error(self, message):  # one line, no usage block
        raise Wrong(f"{message} (see `{self.prog} --help`)")


def say(message, status: int) -> int:
    """Print one line on stderr, cut in the middle where it is long; returns the status."""
    line = " ".join(str(message).split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    print(f"vpo-lite: {line}", file=sys.stderr)
    return status


def of_a_file(error: OSError) -> str:
    """What an error of the operating system says, with the name of the file."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{shortened(os.fsdecode(error.filename), 200)}: {error.strerror}"


@contextlib.contextmanager
def requests():
    """A context in which nothing is written yet: a ValueError, and a file that cannot be used, mean
    that the request was wrong.
    """
    try:
        yield
    except Wrong:
        raise
    except ValueError as error:
        raise Wrong(str(error)) from error
    except OSError as error:
        raise Wrong(of_a_file(error)) from error


def add_options(made, options: tuple[Option, ...]) -> None:
    """Add a flag for each option. `given` reads the texts."""
    for option in options:
        if option.type is bool:
            made.add_argument(option.flag, action="store_const", const=True, help=option.help)
        else:
            metavar = "FILE" if option.file else {int: "N", float: "X", str: "NAME"}[option.type]
            made.add_argument(option.flag, metavar=metavar, help=option.help.replace("%", "%%"))


def named(flag: str, default: str, arguments) -> str:
    """The text of a flag that is read before all others, since it decides about flags."""
    early = Parser(prog="vpo-lite", add_help=False, allow_abbrev=False)
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


def path(text: str) -> Path:
    """A flag's file or folder, for argparse."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)
