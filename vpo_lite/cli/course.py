"""``vpo-lite course KIND``: what a teacher takes into a class."""

from ..classroom import notebooks
from ..messages import command
from .flags import Command, Wrong, path, requests


def _sheet_flags(made, arguments) -> None:
    made.add_argument("--out", type=path, required=True, metavar="FILE", help="new page, FILE.html")


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
        help="leave out solutions and the teacher's guide (default: keep the solutions, between "
        "nbgrader's marks, for its folder source/NAME)",
    )
    made.add_argument(
        "--notebooks",
        type=path,
        metavar="FOLDER",
        help="your own copies of the notebooks (default: those that ship)",
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
        print(f"Open them: {command('lab', options.folder)}")
    return 0


KINDS = {
    "build": Command(
        "copy the notebooks for students, or for nbgrader",
        _build_flags,
        _build,
        "vpo-lite course build student --student",
    ),
    "sheet": Command(
        "write the cheat sheet: VPO on one page, to print",
        _sheet_flags,
        _sheet,
        "vpo-lite course sheet --out sheet.html",
    ),
}
