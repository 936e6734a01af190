"""Copies of the course, and its pages: damaged notebooks, odd places, a full disk, a kill."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import check_error, full_disk, json_text, mutated_bytes, mutated_json, seeds, tree
from printed import refused

from vpo_lite.cli import main
from vpo_lite.teaching.course import build

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "notebooks" / "01_why_diversity.ipynb"
posix = pytest.mark.skipif(os.name != "posix", reason="links, limits and signals of POSIX")


def markdown(text):
    return {"cell_type": "markdown", "id": "m", "metadata": {}, "source": text}


def exercise(source):
    return {"cell_type": "code", "id": "e", "metadata": {"tags": ["exercise"]}, "source": source}


BLANK = exercise('x = ...\ncheck("01-b", x)')
FOLD = markdown("<details><summary>Solution</summary>\n\n```python\nx = 0.75\n```\n\n</details>\n")


@pytest.fixture
def source(tmp_path):
    """A folder of notebooks, with a function that writes one."""
    folder = tmp_path / "source"
    folder.mkdir()

    def write(content):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / "mine.ipynb").write_bytes(text)
        return folder

    return write


def test_the_notebook_of_these_tests_is_a_sound_one(source, tmp_path):
    folder = source({"cells": [BLANK, FOLD]})
    assert build(folder, tmp_path / "teacher") == {"mine.ipynb": 1}
    first, points = json.loads((tmp_path / "teacher" / "mine.ipynb").read_text())["cells"]
    assert "x = 0.75" in "".join(first["source"]) and points["metadata"]["nbgrader"]["points"] == 2
    assert build(folder, tmp_path / "student", student=True) == {"mine.ipynb": 1}
    assert json.loads((tmp_path / "student" / "mine.ipynb").read_text())["cells"] == [BLANK]


@posix
def test_students_get_no_file_that_a_link_names_outside_of_the_course(source, tmp_path):
    folder = source({"cells": [BLANK, FOLD]})
    (folder / "images").mkdir()
    (tmp_path / "secret").write_bytes((folder / "mine.ipynb").read_bytes())
    for name in ("NOTES.md", "images/plot.png", "other.ipynb"):
        (link := folder / name).symlink_to(tmp_path / "secret")
        with pytest.raises(ValueError, match=f"{name}: a link to a file outside of the course"):
            build(folder, tmp_path / "student", student=True)
        assert not (tmp_path / "student").exists()
        link.unlink()
    (folder / "words.md").write_text("words")
    (folder / "answers").write_text("answers")
    (folder / "TEACHING.md").symlink_to("answers")
    (folder / "again.md").symlink_to("words.md")
    (folder / "guide.md").symlink_to("TEACHING.md")
    (linked := tmp_path / "linked").symlink_to(folder)
    build(linked, tmp_path / "student", student=True)
    written = {path.name for path in (tmp_path / "student").rglob("*")}
    assert written == {"mine.ipynb", "words.md", "again.md"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe{", "no JSON"),
        (b'{"a":' * 100_000, "no JSON"),
        ([], "should be an object"),
        ({}, "field cells is missing"),
        ({"cells": 5}, "field cells"),
        ({"cells": [{}]}, "field cells.0"),
        ({"cells": [BLANK | {"metadata": {"tags": 5}}]}, "field cells.0.metadata.tags"),
        ({"cells": [BLANK | {"source": 5}]}, "field cells.0.source"),
    ],
)
@pytest.mark.parametrize("student", [True, False])
def test_what_is_no_notebook_is_named_and_nothing_is_written(
    source, tmp_path, content, said, student
):
    folder = source(content)
    with pytest.raises(ValueError, match=said) as error:
        build(folder, tmp_path / "out", student=student)
    check_error(error.value)
    assert str(folder / "mine.ipynb") in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([BLANK], "no solution in Python"),
        ([BLANK, markdown("Try again.")], "no solution in Python"),
        ([exercise('x = 0.75\ncheck("01-b", x)'), FOLD], "one blank"),
        ([exercise('x = ...\ny = ...\ncheck("01-b", x)'), FOLD], "one blank"),
        ([exercise('%time\nx = ...\ncheck("01-b", x)'), FOLD], "invalid syntax"),
        ([exercise("x = ...\nprint(x)"), FOLD], "ends with check"),
        ([exercise(""), FOLD], "ends with check"),
        ([exercise('x = ...\ncheck("77-z", x)'), FOLD], "77-z"),
    ],
)
def test_an_exercise_that_nbgrader_cannot_have_is_named_by_its_cell(source, tmp_path, cells, said):
    """As a teacher's own notebooks are, or those of a student who has answered."""
    folder = source({"cells": [markdown("# Mine"), *cells]})
    with pytest.raises(ValueError, match=said) as error:
        build(folder, tmp_path / "out")
    check_error(error.value)
    assert "mine.ipynb: cell 2: " in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "fold",
    [
        "<details>\r\n<summary>Solution</summary>\r\nx = 0.75\r\n</details>",
        "<details><summary>Solution</summary>x = 0.75</details>\n\nGo on.",
    ],
)
def test_solutions_in_other_forms_are_taken_from_students_too(source, tmp_path, fold):
    build(source({"cells": [BLANK, markdown(fold)]}), tmp_path / "out", student=True)
    assert "0.75" not in (tmp_path / "out" / "mine.ipynb").read_text()


def test_a_solution_that_students_would_see_is_refused(source, tmp_path):
    shown = markdown("<details open><summary>Solution</summary>\n\nx = 0.75\n\n</details>")
    with pytest.raises(ValueError, match="cell 2 holds a solution"):
        build(source({"cells": [BLANK, shown]}), tmp_path / "out", student=True)
    assert not (tmp_path / "out").exists()


@seeds(40)
def test_a_changed_notebook_is_copied_or_refused(source, tmp_path, seed):
    rng, data = random.Random(seed), SHIPPED.read_bytes()
    changed = mutated_bytes(data, rng) if seed % 2 else mutated_json(json.loads(data), rng)
    folder = source(changed if seed % 2 else json_text(changed).encode())
    try:
        build(folder, tmp_path / "out", student=bool(seed % 3))
    except ValueError as error:
        check_error(error)
        assert not (tmp_path / "out").exists()
    else:
        json.loads((tmp_path / "out" / "mine.ipynb").read_text())


# --- places ---------------------------------------------------------------------------------------


@posix
def test_a_link_to_an_empty_folder_and_the_current_one_are_filled(source, tmp_path, monkeypatch):
    folder = source({"cells": []})
    for name in ("real", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("real")
    build(folder, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "mine.ipynb").is_file()
    monkeypatch.chdir(tmp_path / "here")
    build(folder, ".")
    assert os.listdir() == ["mine.ipynb"], "the shell still stands in this folder"


@posix
@pytest.mark.parametrize("name", ["loop", "dangling", "file", "file/x", "a" * 300])
def test_a_place_that_is_no_folder_is_one_line(tmp_path, capsys, name):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_text("kept")
    before = sorted(os.listdir(tmp_path))
    refused(capsys, "course", "build", tmp_path / name)
    refused(capsys, "notebooks", "copy", tmp_path / name)
    refused(capsys, "course", "sheet", "--out", tmp_path / name / "x.html")
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "file").read_text() == "kept"


@posix
@pytest.mark.parametrize("kind", [["course", "sheet"], ["export", "lesson", "stuck/seed-0"]])
def test_a_page_keeps_a_link_and_replaces_one_that_leads_round(few_alphas, tmp_path, kind):
    (tmp_path / "link.html").symlink_to("real.html")
    (tmp_path / "loop.html").symlink_to("loop.html")
    for name in ("link.html", "loop.html"):
        assert main([*kind, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "real.html").is_file()
    assert "<html" in (tmp_path / "loop.html").read_text()


# --- a full disk, and a kill ----------------------------------------------------------------------


@posix
@pytest.mark.parametrize("kind", [["course", "build"], ["notebooks", "copy"]])
def test_a_full_disk_is_one_line_and_leaves_nothing_behind(tmp_path, capsys, kind):
    with full_disk(20_000):
        assert main([*kind, str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path / "out") in said
    assert not (tmp_path / "out").exists() or tree(tmp_path / "out") == {}


KILL = """
import os, sys
from vpo_lite.cli import main
seen = 0
def watch(event, arguments):
    global seen
    if event in ("os.rename", "os.mkdir") or (event == "open" and arguments[2] & os.O_CREAT):
        seen += str(arguments[0]).startswith(sys.argv[2])
        if seen == int(sys.argv[1]):
            os._exit(9)
sys.addaudithook(watch)
sys.exit(main(sys.argv[3:]))
"""


@posix
@pytest.mark.parametrize("kind", [["course", "build"], ["notebooks", "copy"]])
@pytest.mark.parametrize(
    "count", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3, 5, 12))]
)
def test_what_was_killed_can_be_done_again(tmp_path, kind, count):
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILL, str(count), str(tmp_path), *kind, str(out)]
    assert subprocess.run(command).returncode == 9
    assert not out.exists() or all(path.name[0] == "." for path in out.iterdir())
    assert main([*kind, str(out)]) == 0
    assert main([*kind, str(tmp_path / "whole")]) == 0
    assert tree(out) == tree(tmp_path / "whole")


@pytest.mark.parametrize("folder, page", [(".", "x.html"), ("sub", "sub/x.html"), ("/", "/x.html")])
def test_a_folder_in_the_place_of_a_page_is_met_with_a_page_inside_it(
    tmp_path, capsys, monkeypatch, folder, page
):
    """At `.` the hint was /x.html."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert main(["course", "sheet", "--out", folder]) == 2
    assert capsys.readouterr().err.strip().endswith(f"is a folder; name a file in it: {page}")
