"""Every notebook is committed clean, and runs at a small budget: without a screen the path for a
class, in test_course_browser.py every cell.

The cell tagged ``parameters`` says in its first line which numbers the test run lowers; they are
set to a tenth (at least 2) in a cell put behind it, and a last cell tells whether that took.

A lesson protects its predictions: each is asked for, stored, and shown against the outcome. Its
claim stays folded until the reader opens it. The sections marked with a star are a path for a
class, which needs no other cell.

An exercise is three cells: the task, a cell with a blank and `check`, and the folded solution. The
run puts each solution behind its blank, so it is checked with the notebook's own numbers.
"""

import ast
import importlib.util
import json
import re
from pathlib import Path
from textwrap import indent

import browser_setup
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from printed import without_bars
from recorded import replayed

from vpo_lite.lab import Lab
from vpo_lite.teaching import exercises
from vpo_lite.teaching.course import solved
from vpo_lite.teaching.exercises.kinds import BLANK, BLANK_BODY

BENCHMARK = Path(__file__).parent / "benchmarks" / "notebook_seconds.py"
_spec = importlib.util.spec_from_file_location(BENCHMARK.stem, BENCHMARK)
notebook_seconds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebook_seconds)
SECONDS = json.loads(notebook_seconds.RESULTS.read_text())

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
STAR = "★"
FOLD = re.compile(r"<details><summary>([^<]+)</summary>\n\n(.+?)\n\n</details>", re.DOTALL)


def read(path):
    return nbformat.read(path, as_version=4)


def assigned(cell):
    """{name: value} of the literals that a cell gives names."""
    found = {}
    for node in ast.parse(cell.source).body:
        if isinstance(node, ast.Assign):
            (target,), value = node.targets, ast.literal_eval(node.value)
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value if isinstance(target, ast.Tuple) else [value]
            found |= {name.id: one for name, one in zip(names, values, strict=True)}
    return found


def lowered(cell):
    """{name: small value} for the numbers that the parameters cell names in its first line."""
    names = re.findall(r"`(\w+)`", cell.source.splitlines()[0])
    values = assigned(cell)
    small = {name: max(2, values[name] // 10) for name in names}
    assert small and all(small[name] < values[name] for name in small), (
        f"nothing to lower in {cell.source!r}"
    )
    return small


def lower(notebook):
    """Put a cell behind the parameters that lowers them. Returns {name: small value}."""
    (at,) = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    small = lowered(notebook.cells[at])
    override = "\n".join(f"{name} = {value}" for name, value in small.items())
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(override))
    return small


PLOTLY = "application/vnd.plotly.v1+json"
WIDEST = 832  # pixels of an output beside the list of files, on a screen of 1280, with a scroll bar
LONGEST = 105  # printed characters that fit there; JupyterLab breaks a longer line inside a word


def test_there_are_notebooks():
    assert FOLDER / "00_start_here.ipynb" in NOTEBOOKS


def prepared(notebook):
    """Lower the numbers of the parameters, put its solution behind each blank of an exercise, and
    let a last cell tell whether the numbers took. Returns {name: small value}.
    """
    for i, cell in reversed(list(enumerate(notebook.cells))):
        if is_exercise(cell):
            right = solved(cell.source, solution_after(notebook, i))
            right += f"\nassert {checked(cell)[2]}.right, {checked(cell)[2]}"
            notebook.cells.insert(i + 1, nbformat.v4.new_code_cell(right))
    small = lower(notebook)
    told = ", ".join(f"{name!r}: {name}" for name in small)
    took = f"import json as _json; print(_json.dumps({{{told}}}))"
    notebook.cells.append(nbformat.v4.new_code_cell(took))
    return small


def check_outputs(cells, small):
    """What the cells of a run wrote: no warning, nothing too wide, no answer without a choice."""
    run = [c for c in cells if c.cell_type == "code"]
    assert all(c.execution_count for c in run), "a cell was not run"
    assert json.loads(run[-1].outputs[0].text) == small
    for cell in run:
        if is_exercise(cell):
            assert cell.outputs[-1].data["text/plain"] in (
                f"… {checked(cell)[0]}: {blank}" for blank in (BLANK, BLANK_BODY)
            )
    written = "".join(
        o.text for c in run for o in c.outputs if o.output_type == "stream" and o.name == "stderr"
    )
    assert without_bars(written) == ""
    figures = [o.data[PLOTLY] for c in run for o in c.outputs if PLOTLY in o.get("data", {})]
    wide = [f["layout"].get("width", 0) for f in figures]
    assert all(width <= WIDEST for width in wide), f"cut off on a projector: {wide}"
    printed = [
        o.get("text") or o.get("data", {}).get("text/plain", "")
        for c in run[:-1]
        for o in c.outputs
        if o.output_type == "stream" or set(o.get("data", {})) == {"text/plain"}
    ]
    raw = [text for text in printed if "np.float64(" in text]
    assert not raw, f"numbers without words: {raw}"
    long = [line for text in printed for line in text.splitlines() if len(line) > LONGEST]
    assert not long, f"broken inside a word on a projector: {long}"


@pytest.mark.slow
def test_the_path_for_a_class_needs_no_other_cell(monkeypatch, tmp_path):
    """Without a screen, one after another in a kernel that forgets all names between them. Where
    there is a browser, test_course_browser.py runs every cell (in `make test` of 00 alone, in
    `make test-all` of all); where there is none, they run here.
    """
    monkeypatch.setenv("VPO_LITE_COLD", "1")
    parts = []
    for path in sorted(NOTEBOOKS, key=lambda path: "01_" not in path.name):  # 01 needs no torch yet
        for whole in (False, True)[: 1 + (browser_setup.find() is None)]:
            notebook = read(path)
            notebook.cells = notebook.cells if whole else on_the_path(notebook)
            assert any(f"## {STAR} " in c.source for c in notebook.cells)
            parts.append((notebook, prepared(notebook)))
            notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=[cell for part, _ in parts for cell in part.cells]),
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path}},  # a copy of the notebook alone must run, too
        store_widget_state=False,
    )
    client.execute()
    for part, small in parts:
        check_outputs(part.cells, small)


OTHERWISE = {  # other values for the settings of each notebook
    "00": {"maze_seed": 1005, "steps": 6},
    "01": {"seed": 3, "steps": 60, "seeds": 4},
    "02": {"seed": 3, "repeats": 30},
    "03": {"maze_seed": 1020, "survey": 20, "walkers": 2000},
    "04": {"maze_seed": 1005, "steps": 6},
    "05": {"problem": 4, "steps": 6, "problems": 16},
    "06": {"maze_seed": 1005, "steps": 6},
    "07": {"calls": 10, "problems": 3, "hard": 4, "easy": 6},
    "08": {"steps": 8, "lessons": 60},
}


@pytest.mark.long
@by_name
def test_with_other_settings_a_notebook_runs_on(path, tmp_path):
    """Run All ended at the first claim that was about another maze."""
    notebook = read(path)
    (at,) = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    changed = OTHERWISE[path.stem[:2]]
    assert set(changed) | {"preset", "MODEL"} >= set(assigned(notebook.cells[at])), "all of them"
    settings = "\n".join(f"{name} = {value!r}" for name, value in changed.items())
    for i, cell in reversed(list(enumerate(notebook.cells))):
        if is_exercise(cell):  # later cells may use its answer, which may be none here
            right = indent(solved(cell.source, solution_after(notebook, i)), "    ")
            errors = "AssertionError, IndexError, ValueError"
            right = f"import contextlib\nwith contextlib.suppress({errors}):\n{right}"
            notebook.cells.insert(i + 1, nbformat.v4.new_code_cell(right))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(settings))
    where = {"metadata": {"path": tmp_path}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()


@by_name
def test_is_committed_clean(path):
    notebook = read(path)
    assert path.stat().st_size < 200_000
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 15, cell.source
    prose = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert len(re.findall("^# ", prose, re.MULTILINE)) == 1 and notebook.cells[0].source.startswith(
        "# "
    )
    assert sum("parameters" in c.metadata.get("tags", []) for c in notebook.cells) == 1
    opening = notebook.cells[0].source
    assert all(
        f"**{word}" in opening for word in ("You will learn", "Before this", "Time", "Hardware")
    ), "what, after what, how long, on what"


@by_name
def test_opens_in_order_of_its_name(path):
    assert read(path).cells[0].source.startswith(f"# {path.stem[:2]} ")


@by_name
def test_a_cell_that_stores_a_run_can_be_run_again(path):
    """A run refuses a folder that holds one: a reader who changes `steps` would meet an error."""
    code = (cell.source for cell in read(path).cells if cell.cell_type == "code")
    for call in (node for source in code for node in ast.walk(ast.parse(source))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Run.begin", "TrlRun.begin"):
            assert "mkdtemp" in ast.unparse(call.args[1]), ast.unparse(call)


# ---- lessons: predict, run, compare ----


def asked(source):
    """(variable, key) of each `variable = predict("key", ...)` in the source of a cell."""
    return [
        (node.targets[0].id, node.value.args[0].value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "predict"
    ]


def code_after(notebook, i):
    """The source of the first code cell after cell i."""
    return next(c.source for c in notebook.cells[i + 1 :] if c.cell_type == "code")


def folded(text):
    """(summary, content) of each fold in a Markdown text."""
    return FOLD.findall(text)


@by_name
def test_every_prediction_is_asked_for_and_shown_against_the_outcome(path):
    notebook, keys = read(path), []
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and "**Predict" in cell.source:
            assert asked(code_after(notebook, i)), f"no predict(...) after {cell.source!r}"
        if cell.cell_type != "code":
            continue
        for name, key in asked(cell.source):
            keys.append(key)
            assert cell.source.splitlines()[-1] == name, "it is shown"
            later = "\n".join(c.source for c in notebook.cells[i + 1 :] if c.cell_type == "code")
            assert f"{name}.outcome(" in later, f"{key} is never compared"
    assert keys and len(set(keys)) == len(keys)
    assert all(key.startswith(f"{path.stem[:2]}-") for key in keys)


@by_name
def test_the_check_of_a_prediction_is_folded(path):
    """Its code gives the answer away. Of a folded cell JupyterLab shows the first line."""
    for cell in (c for c in read(path).cells if c.cell_type == "code"):
        is_check = cell.source.splitlines()[0] == "# the check"
        assert is_check or ".outcome(" not in cell.source, cell.source
        assert not is_check or cell.metadata.get("jupyter") == {"source_hidden": True}, cell.source


def outcomes_lost(source):
    """Calls of `outcome` that nothing shows: neither the cell's last line nor display or print."""
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    shows = [call for call in calls if ast.unparse(call.func) in ("display", "print")]
    shows += [last for last in tree.body[-1:] if isinstance(last, ast.Expr)]
    shown = {id(part) for one in shows for part in ast.walk(one)}
    lost = [call for call in calls if id(call) not in shown]
    return [ast.unparse(call) for call in lost if ast.unparse(call.func).endswith(".outcome")]


@by_name
def test_every_outcome_is_shown(path):
    """One stood in an `if`, as a statement of its own, and no reader saw it."""
    assert outcomes_lost("if x:\n    guess.outcome(1)") == ["guess.outcome(1)"]
    assert not outcomes_lost("if x:\n    display(guess.outcome(1))\nguess.outcome(2)")
    for cell in (c for c in read(path).cells if c.cell_type == "code"):
        assert not outcomes_lost(cell.source), cell.source


@by_name
def test_exercises_stand_in_the_order_of_their_letters(path):
    code = "\n".join(c.source for c in read(path).cells if "exercise" in c.metadata.get("tags", ()))
    letters = re.findall(r'check\("\d\d-([a-z])"', code)
    assert "".join(letters) == "abc"


@by_name
def test_sliders_have_names_for_a_screen_reader(path):
    code = "\n".join(c.source for c in read(path).cells if c.cell_type == "code")
    assert ("Slider(" in code) == ("named(" in code)


@by_name
def test_every_claim_is_folded_and_then_checked(path):
    notebook, claims = read(path), 0
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            assert "**Claim" not in FOLD.sub("", cell.source), cell.source
            assert cell.source.count("<details>") == len(folded(cell.source)), cell.source
            for _, content in folded(cell.source):
                if "**Claim" in content:
                    claims += 1
                    assert "assert " in code_after(notebook, i), content
    assert claims


@by_name
def test_what_to_try_has_a_folded_solution(path):
    prose = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    for task in re.split(r"\*\*(?:Try this|Settings to find)\.\*\*", prose)[1:]:
        assert folded(task) and folded(task)[0][0] == "Solution", task


# ---- exercises: a task, a blank, a folded solution ----


def is_exercise(cell):
    return "exercise" in cell.metadata.get("tags", [])


def checked(cell):
    """(key, name of the answer, source) of the call of `check` that ends an exercise's cell."""
    call = ast.parse(cell.source).body[-1].value
    assert isinstance(call, ast.Call) and ast.unparse(call.func) == "check", cell.source
    return call.args[0].value, call.args[1].id, ast.unparse(call)


def solution_after(notebook, i):
    """The code of the folded solution in the cell after cell i."""
    ((summary, content),) = folded(notebook.cells[i + 1].source)
    (code,) = re.findall(r"```python\n(.+?)\n```", content, re.DOTALL)
    assert summary == "Solution"
    return code


@by_name
def test_has_three_exercises_each_with_its_task_and_solution(path):
    notebook = read(path)
    known = exercises.of_notebook(path.stem[:2])
    at = [i for i, cell in enumerate(notebook.cells) if is_exercise(cell)]
    assert len(at) == 3
    assert sorted(checked(notebook.cells[i])[0] for i in at) == list(known)
    for i in at:
        key, _, _ = checked(notebook.cells[i])
        task, cell, solution = notebook.cells[i - 1 : i + 2]
        assert task.source.startswith(f"{known[key].heading}\n\n")
        assert [c.id for c in (task, cell, solution)] == [
            f"ex-{key}-task",
            f"ex-{key}",
            f"ex-{key}-solution",
        ]
        assert solved(cell.source, solution_after(notebook, i)) != cell.source


def sections(notebook):
    """[heading, its cells] of each section; before the first one the heading is empty. A Markdown
    cell that begins a section is cut there."""
    found = [["", []]]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found[-1][1].append(cell)
            continue
        for text in filter(None, re.split(r"^(?=## )", cell.source, flags=re.MULTILINE)):
            if text.startswith("## "):
                found.append([text.splitlines()[0].removeprefix("## "), []])
            found[-1][1].append(NotebookNode(cell | {"source": text}))
    return found


def on_the_path(notebook):
    """The cells before the first section, and those of the sections marked with a star."""
    kept = [cells for heading, cells in sections(notebook) if heading[:1] in ("", STAR)]
    return [cell for cells in kept for cell in cells]


def minutes(cells):
    """Half a minute for a code cell, one for a prediction, 100 words a minute, and what each
    exercise says (its own text and code take no more)."""
    tasks = [c for c in cells if is_exercise(c)]
    code = [c.source for c in cells if c.cell_type == "code" and c not in tasks]
    prose = [c for c in cells if c.cell_type == "markdown" and not c.id.startswith("ex-")]
    words = sum(len(c.source.split()) for c in prose)
    stated = sum(exercises.exercise(checked(c)[0]).minutes for c in tasks)
    return len(code) / 2 + sum(len(asked(source)) for source in code) + words / 100 + stated


@by_name
def test_says_how_long_it_takes(path):
    notebook = read(path)
    told = re.search(
        r"\*\*Time\*\* (\d+) minutes.* path marked ★ takes (\d+) minutes", notebook.cells[0].source
    )
    assert told, "minutes for everything, and for the path"
    everything, short = map(int, told.groups())
    assert 0 <= everything - minutes(notebook.cells) <= 10
    assert 0 <= short - minutes(on_the_path(notebook)) <= 10
    assert short <= 50


def test_the_path_trains_what_its_text_is_about():
    """Before, the reader moves α and m: a run with those ended below the ceiling."""
    cells = {cell.id: cell.source for cell in read(NOTEBOOKS[0]).cells}
    assert "Move α." in cells["00-18"] and "set m to 2" in cells["00-18"]
    steps = cells["00-20"].partition(f"## {STAR} Train\n")[2].partition("\n1. ")[2]
    told = re.match(r"Run the panel's cell again \(α = (\d+), m = (\d+), maze (\d+)\)\.\n", steps)
    call = ast.parse(cells["00-17"]).body[0].value  # a line of Python: lab = Lab(...)
    lab = eval(ast.unparse(call), {"Lab": Lab, "maze_seed": 1000, "steps": 40})
    assert tuple(map(int, told.groups())) == (lab.config.alpha, lab.config.m, lab.maze_seed)
    recorded = replayed("three_methods/seed-0").runs["vpo"].config
    assert (recorded.alpha, recorded.m) == (lab.config.alpha, lab.config.m)


def test_the_front_page_promises_the_path_of_the_first_notebook():
    front_page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^## What you will understand after (\d+) minutes$", front_page, re.M)
    assert f"path marked ★ takes {told} minutes" in read(NOTEBOOKS[0]).cells[0].source


@by_name
def test_says_how_long_its_code_runs(path):
    assert notebook_seconds.sentence(SECONDS[path.stem]) in read(path).cells[0].source
