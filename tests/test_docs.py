"""The README keeps up with the code: its tree, its commands, its pictures, its letters."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
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


def test_no_placeholder_is_left():
    assert "<!--" not in README
