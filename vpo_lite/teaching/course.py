"""Copies of the notebooks for a class: without the solutions, or for nbgrader.

In the notebooks an exercise is three cells: the task, a cell with a blank (`...`) that ends with
`check(...)`, and the solution, folded. `build` writes a folder of copies from them.
"""

import ast
import json
import re
import shutil
from pathlib import Path

from ..checks import shown
from .exercises import exercise

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # nbgrader's own words
FOLD = re.compile(r"<details><summary>Solution</summary>\n\n(.+?)\n\n</details>\n*", re.DOTALL)
CODE = re.compile(r"```python\n(.+?)\n```", re.DOTALL)


def build(source, destination, *, student: bool = False) -> dict[str, int]:
    """Write copies of a folder's notebooks, with its pages and images. Returns {name: exercises}.

    source       the folder of the notebooks
    destination  a new or empty folder
    student      False: for a teacher who works with nbgrader. The solution stands in the cell of
                 its exercise, between nbgrader's marks, and a locked cell with the points (the
                 exercise's level) follows. The folder can be nbgrader's `source/NAME`.
                 True: the exercises are blank, and all folded solutions are gone.

    Raises ValueError if the source holds no notebook, or the destination is not empty.
    """
    source, destination = Path(source), Path(destination)
    notebooks = sorted(source.glob("*.ipynb")) if source.is_dir() else []
    if not notebooks:
        raise ValueError(f"{shown(str(source))} holds no notebook")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise ValueError(f"{shown(str(destination))} is not an empty folder; name a new one")
    destination.mkdir(parents=True, exist_ok=True)
    counted = {}
    for path in notebooks:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        made = without_solutions(notebook) if student else for_nbgrader(notebook)
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        (destination / path.name).write_text(text, encoding="utf-8")
        counted[path.name] = sum(map(is_exercise, notebook["cells"]))
    for path in (*source.glob("*.md"), *source.glob("images")):
        if path.name not in FOR_TEACHERS or not student:
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, destination / path.name)
    return counted


FOR_TEACHERS = ("TEACHING.md",)  # it holds the answers


def without_solutions(notebook: dict) -> dict:
    """The notebook without folded solutions, and without the cells that check them."""
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = FOLD.sub("", source_of(cell)).strip()
            cells += [cell | {"source": text.splitlines(keepends=True)}] * bool(text)
        elif not source_of(cell).startswith(
            ("# the solution, checked", "# the solutions, checked")
        ):
            cells.append(cell)
    return notebook | {"cells": cells}


def for_nbgrader(notebook: dict) -> dict:
    """The notebook with each solution in the cell of its exercise, as nbgrader reads it."""
    cells, skipped = [], set()
    for i, cell in enumerate(notebook["cells"]):
        if not is_exercise(cell):
            cells += [cell] * (i not in skipped)
            continue
        fold = source_of(notebook["cells"][i + 1])
        skipped.add(i + 1)
        source = solved(source_of(cell), CODE.search(fold).group(1), marks=True)
        call = source.splitlines()[-1]
        key = ast.parse(call).body[0].value.args[0].value
        cells.append(
            _graded(cell, source, key, {"solution": True, "grade": False, "locked": False})
        )
        points = {"solution": False, "grade": True, "locked": True, "points": exercise(key).level}
        cells.append(_graded(cell, f"assert {call}.right", f"{key}-points", points))
    return notebook | {"cells": cells}


def solved(source: str, solution: str, marks: bool = False) -> str:
    """The source of an exercise's cell with its solution in place of the blank.

    source    code with one statement that holds `...`: an assignment or a function
    solution  code that replaces this statement
    marks     put nbgrader's marks around it; in a function, around its body

    >>> print(solved('x = ...  # a number\\ncheck("00-a", x)', "x = 2", marks=True))
    ### BEGIN SOLUTION
    x = 2
    ### END SOLUTION
    check("00-a", x)
    """
    (blank,) = (
        statement
        for statement in ast.parse(source).body
        if any(isinstance(n, ast.Constant) and n.value is ... for n in ast.walk(statement))
    )
    put = (
        _marked(solution.splitlines(), isinstance(blank, ast.FunctionDef)) if marks else [solution]
    )
    lines = source.splitlines()
    return "\n".join([*lines[: blank.lineno - 1], *put, *lines[blank.end_lineno :]])


def _marked(lines, in_function):
    if not in_function:
        return [BEGIN, *lines, END]
    defined = ast.parse("\n".join(lines)).body[-1]
    body = defined.body[1:] if ast.get_docstring(defined) else defined.body
    first = body[0].lineno - 1
    indent = " " * body[0].col_offset
    return [*lines[:first], indent + BEGIN, *lines[first:], indent + END]


def is_exercise(cell: dict) -> bool:
    return "exercise" in cell["metadata"].get("tags", [])


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def _graded(cell, source, key, how):
    nbgrader = {"schema_version": 3, "grade_id": key, "task": False} | how
    return cell | {
        "id": f"{cell['id']}-points" if how["grade"] else cell["id"],
        "metadata": cell["metadata"] | {"nbgrader": nbgrader}
        if not how["grade"]
        else {"nbgrader": nbgrader},
        "source": source.splitlines(keepends=True),
    }
