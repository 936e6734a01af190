"""The gallery: ``python -m envs --preset paper-9x9 --seed 3`` shows a maze and its front.

It prints both, and writes a picture.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from . import PRESETS, REWARD_MODES, Maze, drawing, generate

PRESET = "lite-6x6"
OPENING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '  # of every picture of ours


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def _parser():
    parser = _Parser(
        prog="python -m envs",
        description="Print a maze and its exact Pareto front, and write its picture.",
    )
    add = parser.add_argument
    presets, modes = ", ".join(PRESETS), ", ".join(REWARD_MODES)
    add("--preset", help=f"one of {presets} (default: {PRESET})")
    add("--seed", type=int, help="which maze of the preset (default: 0)")
    add("--maze", metavar="FILE", help="a drawn maze instead: rows of . S E G D L B #")
    add("--budget", type=int, help="most moves with --maze (default: shortest path + 2 x side)")
    add("--reward-mode", default="linear", help=f"one of {modes} (default: linear)")
    add("--out", metavar="FILE", help="the picture (default: PRESET-SEED.svg; my.svg for my.txt)")
    return parser


def _named(options):
    """The name of what was asked for, and the maze."""
    if options.maze is None:
        if options.budget is not None:
            raise ValueError("--budget: needs --maze FILE; a preset sets its own budget")
        preset = PRESET if options.preset is None else options.preset
        seed = options.seed or 0
        return f"{preset}-{seed}", generate(preset, seed)
    for name in ("preset", "seed"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name}: leave it out, since --maze FILE gives the maze itself")
    return Path(options.maze).stem, Maze.from_text(_read(options.maze), options.budget)


def _read(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"--maze: cannot read {path}: {reason}") from None


def _may_write(path):
    """Whether nothing is there, or a picture as we write it, which a new one replaces."""
    if not os.path.lexists(path):
        return True
    if not path.is_file():
        return False
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(len(OPENING)) == OPENING
    except (UnicodeDecodeError, OSError):
        return False


def _write(path, picture):
    """Writes the whole picture; on a full disk the old one stays."""
    path = Path(os.path.realpath(path))  # a link stays a link
    beside = path.with_name(f".{os.getpid()}.svg")
    try:
        beside.write_text(picture, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def main(arguments=None):
    """Runs the command and returns its exit status.

    0: done. 1: the picture could not be written. 2: a wrong request; nothing is written.
    """
    if sys.stdout is None:  # it was closed; the picture is written all the same
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):  # no error for a name that the terminal cannot write
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = _parser().parse_args(arguments)
        if options.out is not None and Path(options.out).suffix.lower() != ".svg":
            raise ValueError(f"--out: {options.out}: the picture is SVG; name it FILE.svg")
        name, maze = _named(options)
        front = maze.pareto_front(options.reward_mode)
        path = Path(options.out or f"{name}.svg")
        if not path.parent.is_dir():
            raise ValueError(f"--out: {path}: there is no folder {path.parent}; make it first")
        if not _may_write(path):
            raise ValueError(f"--out: {path}: exists, and is not a picture by envs; name another")
    except ValueError as error:
        print(f"envs: {error}", file=sys.stderr)
        return 2

    diamonds = f"{len(maze.diamonds)} diamond{'s' * (len(maze.diamonds) != 1)}"
    counts = f"{len(maze.gold)} gold, {diamonds}, {len(maze.lava)} lava"
    print(f"{name}: budget {maze.budget} moves, {counts}\n")
    print(drawing.ansi(maze, colour=sys.stdout.isatty()), end="\n\n")
    print(f"Pareto front ({options.reward_mode}), each point with a shortest route:\n{front}\n")
    print(maze.describe())
    try:
        _write(path, drawing.svg(maze, front.routes))
    except OSError as error:
        print(f"envs: --out: cannot write {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"\npicture: {path}")
    return 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
        sys.exit(status)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader has gone, as `| head` does
            print(f"envs: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
