"""Copies of the notebooks for a class: without the solutions, or for nbgrader.

In the notebooks an exercise is three cells: the task, a cell with a blank (`...`) that ends with
`check(...)`, and the solution, folded. `build` writes a folder of copies from them.
"""

import ast
import json
import re
from pathlib import Path

from ..checks import shortened, shown, told_of
from ..files import STAGED, Schema, check, is_free, read_json, write_files
from ..messages import shown_path
from .exercises import exercise

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # nbgrader's own words
FOLD = re.compile(r"<details>\s*<summary>Solution</summary>.+?</details>\s*", re.DOTALL)
CODE = re.compile(r"```python\n(.+?)\n```", re.DOTALL)
LINK = re.compile(rb"\[([^\]]+)\]\(TEACHING\.md[^)]*\)")  # to a page that students do not get
CALL = re.compile(r'check\("([^"]+)",.+\)')


def build(source, destination, *, student: bool = False) -> dict[str, int]:
    """Write copies of a folder's notebooks, with its pages and images. Returns {name: exercises}.

    source       the folder of the notebooks
    destination  a new or empty folder
    student      False: for a teacher who works with nbgrader. The solution stands in the cell of
                 its exercise, between nbgrader's marks, and a locked cell with the points (the
                 exercise's level) follows. The folder can be nbgrader's `source/NAME`.
                 True: the exercises are blank, and all folded solutions are gone.

    Raises ValueError if the source holds no notebook, one that cannot be read, or a link to a file
    outside of it, and if the destination is not empty or cannot be written. Nothing is written
    then.
    """
    source, destination = Path(source), Path(destination)
    notebooks = sorted(source.glob("*.ipynb")) if source.is_dir() else []
    if not notebooks:
        raise ValueError(f"{shown(str(source))} holds no notebook")
    others = [p for pattern in ("*.md", "images/*") for p in source.glob(pattern) if p.is_file()]
    for path in (*notebooks, *others):
        if not path.resolve().is_relative_to(source.resolve()):
            raise ValueError(
                f"{shown_path(path)}: a link to a file outside of the course, which students would "
                "get; put a copy there"
            )
    if not is_free(destination, [STAGED]):
        raise ValueError(f"{shown(str(destination))} is not an empty folder; name a new one")
    made, counted = {}, {}
    for path in notebooks:
        notebook = without_outputs(read_notebook(path))
        with told_of(shown_path(path)):
            copy = without_solutions(notebook) if student else for_nbgrader(notebook)
        made[path.name] = (json.dumps(copy, indent=1, ensure_ascii=False) + "\n").encode()
        counted[path.name] = sum(map(is_exercise, notebook["cells"]))
    kept = {(source / name).resolve() for name in FOR_TEACHERS}
    for path in others:
        if not (student and path.resolve() in kept):
            content = path.read_bytes()
            if student and path.suffix == ".md":
                content = LINK.sub(rb"\1", content)
            made[path.relative_to(source).as_posix()] = content
    write_files(destination, made)
    return counted


class _Part(Schema, extra="allow"):
    """A part of a notebook: what stands in it beside these fields is nobody's business here."""


class _Metadata(_Part):
    tags: list[str] | None = None


class _Cell(_Part):
    cell_type: str
    id: str
    metadata: _Metadata
    source: str | list[str]


class _Notebook(_Part):
    cells: list[_Cell]


def read_notebook(path) -> dict:
    """A notebook's JSON. Raises DamagedError, which names the path, for what is no notebook."""
    notebook = read_json(path)
    check(notebook, _Notebook, f"{path}: no notebook that this version can read")
    return notebook


FOR_TEACHERS = ("TEACHING.md",)  # it holds the answers


def without_outputs(notebook: dict) -> dict:
    """The notebook as if no cell of it had been run."""
    never_run = {"outputs": [], "execution_count": None}
    cells = [c | {k: v for k, v in never_run.items() if k in c} for c in notebook["cells"]]
    return notebook | {"cells": cells}


def without_solutions(notebook: dict) -> dict:
    """The notebook without folded solutions, and without the cells that check them.

    Raises ValueError where a solution is left, also in the place of an exercise's blank.
    """
    cells = []
    for i, cell in enumerate(notebook["cells"]):
        if is_exercise(cell):
            _check_blank(source_of(cell), f"cell {i + 1}")
        if cell["cell_type"] == "markdown":
            text = FOLD.sub("", source_of(cell)).strip()
            if "Solution</summary>" in text:
                raise ValueError(
                    f"cell {i + 1} holds a solution that is not folded, so "
                    "students would see it; fold it as in the course"
                )
            if text:
                cells.append(cell | {"source": text.splitlines(keepends=True)})
        elif not source_of(cell).startswith(
            ("# the solution, checked", "# the solutions, checked")
        ):
            cells.append(cell)
    return notebook | {"cells": cells}


def for_nbgrader(notebook: dict) -> dict:
    """The notebook with each solution in the cell of its exercise, as nbgrader reads it.

    Raises ValueError for an exercise whose cells are not a blank, `check(...)` and a solution.
    """
    cells, skipped = [], set()
    for i, cell in enumerate(notebook["cells"]):
        if not is_exercise(cell):
            if i not in skipped:
                cells.append(cell)
            continue
        skipped.add(i + 1)
        try:
            source, key = _with_solution(cell, notebook["cells"][i + 1 : i + 2])
            level = exercise(key).level
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"cell {i + 1}: {shortened(str(error), 200)}") from error
        call = f"assert {source.splitlines()[-1]}.right"
        points = {"solution": False, "grade": True, "locked": True, "points": level}
        after = cell | {"id": f"{cell['id']}-points", "metadata": {}}
        cells.append(_graded(cell, source, key, solution=True, grade=False, locked=False))
        cells.append(_graded(after, call, f"{key}-points", **points))
    return notebook | {"cells": cells}


def _with_solution(cell, after) -> tuple[str, str]:
    """(source with its solution, key) of an exercise's cell and the list of the cell after it."""
    source, code = source_of(cell), CODE.search("".join(map(source_of, after)))
    call = CALL.fullmatch((source.splitlines() or [""])[-1])
    if call is None:
        raise ValueError('an exercise ends with check("KEY", ...)')
    if code is None:
        raise ValueError("no solution in Python stands in the cell after this exercise")
    return solved(source, code.group(1), marks=True), call.group(1)


def solved(source: str, solution: str, marks: bool = False) -> str:
    """The source of an exercise's cell with its solution in place of the blank.

    source    code with one statement that holds `...`: an assignment or a function
    solution  code that replaces this statement
    marks     put nbgrader's marks around it; in a function, around its body

    Raises ValueError unless one statement holds `...`, and SyntaxError for what is no Python.

    >>> print(solved('x = ...  # a number\\ncheck("00-a", x)', "x = 2", marks=True))
    ### BEGIN SOLUTION
    x = 2
    ### END SOLUTION
    check("00-a", x)
    """
    blank = _blank(source)
    put, lines = [solution], source.splitlines()
    if marks:
        put = _marked(solution.splitlines(), isinstance(blank, ast.FunctionDef))
    return "\n".join([*lines[: blank.lineno - 1], *put, *lines[blank.end_lineno :]])


def _check_blank(source: str, where: str) -> None:
    """ValueError for an exercise's cell that somebody filled in."""
    with told_of(where, cure="; put it back, so that students see no answer"):
        try:
            _blank(source)
        except SyntaxError:  # a magic of IPython, or what somebody has written
            if "..." not in source:
                raise ValueError("an exercise has one blank (...), and this cell has 0") from None


def _blank(source: str) -> ast.stmt:
    """The one statement of an exercise's cell that holds `...`. SyntaxError for no Python."""
    blanks = [
        statement
        for statement in ast.parse(source).body
        if any(isinstance(n, ast.Constant) and n.value is ... for n in ast.walk(statement))
    ]
    if len(blanks) != 1:
        raise ValueError(f"an exercise has one blank (...), and this cell has {len(blanks)}")
    return blanks[0]


def _marked(lines, in_function):
    defined = ast.parse("\n".join(lines)).body[-1]
    if not in_function or not isinstance(defined, ast.FunctionDef):
        return [BEGIN, *lines, END]
    body = defined.body[1:] if ast.get_docstring(defined) else defined.body
    first = body[0].lineno - 1
    indent = " " * body[0].col_offset
    return [*lines[:first], indent + BEGIN, *lines[first:], indent + END]


def is_exercise(cell: dict) -> bool:
    return "exercise" in (cell["metadata"].get("tags") or [])


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def _graded(cell, source, key, **how):
    nbgrader = {"schema_version": 3, "grade_id": key, "task": False} | how
    metadata = cell["metadata"] | {"nbgrader": nbgrader}
    return cell | {"metadata": metadata, "source": source.splitlines(keepends=True)}
