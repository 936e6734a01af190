"""``vpo-lite course KIND``: what a teacher takes into a class."""

from collections.abc import Callable
from typing import NamedTuple

from ..classroom import notebooks
from .flags import Parser, Wrong, path, requests


class _Kind(NamedTuple):
    help: str
    flags: Callable  # adds the kind's flags to its parser: (parser, arguments)
    run: Callable  # options -> exit status


def flags(made, arguments) -> None:
    """Add a parser for each kind. Each sets the function that runs it."""
    kinds = made.add_subparsers(dest="kind", required=True, metavar="KIND", parser_class=Parser)
    for name, kind in _KINDS.items():
        one = kinds.add_parser(name, help=kind.help, description=kind.help, allow_abbrev=False)
        one.set_defaults(run=kind.run)
        kind.flags(one, arguments)


def _sheet_flags(made, arguments) -> None:
    made.add_argument("--out", type=path, required=True, metavar="FILE", help="a page, FILE.html")


def _sheet(options) -> int:
    with requests():
        from ..teaching.sheet import write_sheet

        written = write_sheet(options.out)
    print(f"{written}: open it in a browser and print it; one page, A4 or Letter")
    return 0


def _build_flags(made, arguments) -> None:
    made.add_argument("folder", type=path, metavar="FOLDER", help="a new or an empty folder")
    made.add_argument(
        "--student",
        action="store_true",
        help="blanks without solutions, and without the teacher's guide; "
        "without this flag: solutions between nbgrader's marks, for its folder source/NAME",
    )
    made.add_argument(
        "--notebooks",
        type=path,
        metavar="FOLDER",
        help="your own copies (default: those that ship)",
    )


def _build(options) -> int:
    with requests():
        from ..teaching.course import build

        source = options.notebooks or notebooks.folder()
        if source is None:
            raise Wrong(f"the notebooks are missing; cure: {notebooks.install_command()}")
        counted = build(source, options.folder, student=options.student)
    print(
        f"{options.folder}: {len(counted)} notebooks, {sum(counted.values())} exercises "
        + ("without solutions" if options.student else "with solutions between nbgrader's marks")
    )
    if options.student:
        print(f"Open them: vpo-lite lab {options.folder}")
    return 0


_KINDS = {
    "build": _Kind("copies of the notebooks: for students, or for nbgrader", _build_flags, _build),
    "sheet": _Kind("the cheat sheet: VPO on one page, to be printed", _sheet_flags, _sheet),
}
