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
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if (ROOT / line).exists()]


def test_every_module_and_notebook_stands_in_the_tree():
    tree = README[README.index("## The tree") : README.index("## One letter")]
    for name in committed():
        path = Path(name)
        shown = path.parts[0] in ("vpo_lite", "envs") and path.suffix in (".py", ".js") and path.name != "__init__.py"
        if shown or path.suffix == ".ipynb":
            assert re.search(rf"(?<![\w.]){re.escape(path.name)}", tree), f"{name} has no line in the README's tree"


def test_the_tree_names_nothing_that_is_not_there():
    tree = README[README.index("## The tree") : README.index("## One letter")]
    names = {Path(n).name for n in committed()} | {part for n in committed() for part in Path(n).parts}
    for found in re.findall(r"[\w.-]+\.(?:py|js|ipynb|yml|toml|txt|md)\b", tree):
        assert found in names, f"{found} is in the README's tree and nowhere else"


@pytest.mark.parametrize("path", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_pictures_exist(path):
    assert (ROOT / path).is_file()


def test_commands_of_the_readme_parse():
    from vpo_lite.cli import _parser

    for line in re.findall(r"^vpo-lite (.+?)(?:\s+#.*)?$", README, re.MULTILINE):
        _parser().parse_args(line.split())


def test_the_python_of_the_readme_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    small = code.replace("maze_seed=1000)", "maze_seed=1000, steps=2, prompts=1, group_size=4)")
    assert small != code
    exec(small, {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]


def test_the_table_of_the_demo_is_the_one_that_was_measured():
    spec = importlib.util.spec_from_file_location("demo_study", ROOT / "tests" / "benchmarks" / "demo_study.py")
    demo_study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo_study)
    results = json.loads(demo_study.RESULTS.read_text())
    assert demo_study.readme_table(results) in README


def test_the_demo_shows_what_the_lesson_says():
    """Means over the 20 mazes: a set of three covers more than any single answer could, GRPO's collapses below that ceiling."""
    rows = {row["method"]: row for row in json.loads((RESULTS / "demo_study.json").read_text())["rows"]}
    vpo, grpo = rows["vpo"], rows["grpo"]
    assert vpo["runs"] == grpo["runs"] == 20
    assert vpo["coverage"] >= 0.93 and vpo["coverage"] >= vpo["coverage_best_single"] + 0.05
    assert grpo["coverage"] <= grpo["coverage_best_single"] + 0.03
    assert grpo["diversity"] < grpo["start"]["diversity"] / 2
    assert vpo["reach_rate"] >= vpo["start"]["reach_rate"] - 0.10


def test_no_placeholder_is_left():
    assert "<!--" not in README
