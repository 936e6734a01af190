"""The README keeps up with the code: its tree, its commands, its pictures, its letters."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "benchmarks" / "results"
README = (ROOT / "README.md").read_text()


def committed():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [line for line in listed.splitlines() if (ROOT / line).exists()]


TREE = README[README.index("## The tree") : README.index("## One letter")]
NAMED = {  # every name that stands before a colon
    name
    for line in TREE.splitlines()
    if ":" in line
    for name in re.findall(r"\w+", line.partition(":")[0])
}


def rooms_and_modules():
    """{the name that must stand in the tree: a file that asks for it}."""
    names = {}
    for file in committed():
        room, *parts = Path(file).parts
        if room == "notebooks" and file.endswith(".ipynb"):
            names[Path(file).stem] = file
        if room in ("envs", "vpo_lite") and file.endswith((".py", ".js")):
            package = [part for part in parts[:-1] if part in ("cli", "recordings", "sandbox")]
            names[package[-1] if package else Path(file).stem] = file
            names[parts[0].partition(".")[0] if len(parts) > 1 else room] = file
    del names["vpo_lite"]  # the folder itself
    return {name: file for name, file in names.items() if not name.startswith("__")}


def test_every_module_and_notebook_stands_in_the_tree():
    missing = {n: file for n, file in rooms_and_modules().items() if n not in NAMED}
    assert not missing, f"no line in the README's tree: {missing}"


def test_the_tree_names_nothing_that_is_not_there():
    assert NAMED - {"weights"} <= set(rooms_and_modules()) | {"notebooks"}


@pytest.mark.parametrize("path", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_pictures_exist(path):
    assert (ROOT / path).is_file()


def test_commands_of_the_readme_parse():
    from vpo_lite.cli import parser

    for line in re.findall(r"^vpo-lite (.+?)(?:\s+#.*)?$", README, re.MULTILINE):
        parser(line.split()).parse_args(line.split())


def test_the_python_of_the_readme_runs(capsys):
    code = "".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    small = code.replace("maze_seed=1000)", "maze_seed=1000, steps=2, prompts=1, group_size=4)")
    assert small != code
    exec(small, {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]


def test_the_table_of_the_demo_is_the_one_that_was_measured():
    spec = importlib.util.spec_from_file_location(
        "demo_study", ROOT / "tests" / "benchmarks" / "demo_study.py"
    )
    demo_study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo_study)
    results = json.loads(demo_study.RESULTS.read_text())
    assert demo_study.readme_table(results) in README


def test_the_demo_shows_what_the_lesson_says():
    """Means over the 20 mazes: a set of three covers more than any single answer could. GRPO's
    collapses at that ceiling, with VPO's rollouts and with VPO's answers and tokens alike."""
    rows = {
        row["label"]: row for row in json.loads((RESULTS / "demo_study.json").read_text())["rows"]
    }
    vpo, grpo, more = rows["vpo"], rows["grpo, group_size=16"], rows["grpo, group_size=48"]
    assert vpo["runs"] == grpo["runs"] == more["runs"] == 20
    assert vpo["coverage"] >= 0.93 and vpo["coverage"] >= vpo["coverage_best_single"] + 0.05
    assert 0.7 < more["tokens"] / vpo["tokens"] < 1.3 and grpo["tokens"] < 0.5 * vpo["tokens"]
    for single in (grpo, more):
        assert single["coverage"] <= single["coverage_best_single"] + 0.03
        assert single["diversity"] < single["start"]["diversity"] / 2
    assert vpo["valid_rate"] >= vpo["start"]["valid_rate"] - 0.10


def test_no_placeholder_is_left():
    assert "<!--" not in README
