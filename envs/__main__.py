"""The gallery: ``python -m envs --preset paper-9x9 --seed 3`` prints a maze and its front, and writes a picture."""

import argparse
import sys
from pathlib import Path

from . import PRESETS, REWARD_MODES, Maze, drawing, generate


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def main(arguments=None):
    """Runs the command; returns its exit status: 0, 1 (the picture could not be written) or 2 (a wrong request)."""
    parser = _Parser(
        prog="python -m envs", description="Print a maze and its exact Pareto front, and write its picture."
    )
    parser.add_argument("--preset", default="lite-6x6", help=f"one of {', '.join(PRESETS)} (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which maze of the preset (default: %(default)s)")
    parser.add_argument("--maze", metavar="FILE", help="a drawn maze instead: rows of . S E G D L B #")
    parser.add_argument("--budget", type=int, help="steps allowed in the drawn maze (default: shortest way + 2 sides)")
    parser.add_argument("--reward-mode", default="linear", help=f"one of {', '.join(REWARD_MODES)} (default: linear)")
    parser.add_argument(
        "--out", metavar="FILE", help="where the picture goes (default: PRESET-SEED.svg, or the drawn maze's name)"
    )
    try:
        options = parser.parse_args(arguments)
        if options.maze is None:
            if options.budget is not None:
                raise ValueError("--budget: goes with --maze FILE; a preset sets its own")
            maze, name = generate(options.preset, options.seed), f"{options.preset}-{options.seed}"
        else:
            try:
                text = Path(options.maze).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(
                    f"--maze: cannot read {options.maze}: {getattr(error, 'strerror', None) or error}"
                ) from None
            maze, name = Maze.from_text(text, options.budget), Path(options.maze).stem
        front = maze.pareto_front(options.reward_mode)
    except ValueError as error:
        print(f"envs: {error}", file=sys.stderr)
        return 2

    counts = [(len(maze.gold), "gold"), (len(maze.diamonds), "diamonds"), (len(maze.lava), "lava")]
    print(f"{name}: budget {maze.budget} steps, {', '.join(f'{n} {kind}' for n, kind in counts)}\n")
    print(drawing.ansi(maze, colour=sys.stdout.isatty()), end="\n\n")
    print(f"Pareto front ({options.reward_mode}), each point with a shortest route:\n{front}\n")
    print(maze.describe())
    path = Path(options.out or f"{name}.svg")
    try:
        path.write_text(drawing.svg(maze, front.routes), encoding="utf-8")
    except OSError as error:
        print(f"envs: --out: cannot write {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"\npicture: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
