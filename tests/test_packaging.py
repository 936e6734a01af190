"""What is promised about installing: conda and pip agree, packages carry their data, imports stay in their layers."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def parse(requirement):
    name, ranges = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", requirement).groups()
    return {"pytorch": "torch"}.get(name.lower(), name.lower()), ranges.replace(" ", "")


def test_environment_yml_lists_what_pyproject_lists_in_the_same_ranges():
    pip_part = next(d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict))
    conda = dict(parse(d) for d in [*CONDA["dependencies"], *pip_part] if isinstance(d, str) and not d.startswith("-e"))
    assert conda.pop("python") == PROJECT["requires-python"]
    conda.pop("pip")
    wanted = dict(parse(d) for d in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"])
    assert conda == wanted
    assert "-e .[lab]" in pip_part


def test_every_package_that_was_asked_for_is_there():
    names = {parse(d)[0] for d in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"]}
    assert {"jupyterlab", "torch", "transformers", "peft", "plotly", "ipywidgets", "gymnasium"} <= names


def test_constraints_stay_within_the_ranges():
    from packaging.specifiers import SpecifierSet

    ranges = dict(parse(d) for d in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"])
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        name, version = line.split("==")
        assert name not in ranges or SpecifierSet(ranges[name]).contains(version), line


def test_the_top_level_is_what_was_asked_for():
    for name in ("notebooks", "vpo_lite", "envs", "tests", "environment.yml", "README.md"):
        assert (ROOT / name).exists(), name


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, vpo_lite; "
        "heavy = {'torch', 'transformers', 'peft', 'plotly', 'ipywidgets', 'gymnasium'} & set(sys.modules); "
        "assert not heavy, heavy; assert vpo_lite.TrainConfig.preset('demo').steps == 40"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_waiting_threads_do_not_spin_whichever_module_comes_first():
    code = "import os, vpo_lite.training.runs, sys; assert 'torch' in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    clean = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "PASSIVE"


# --- the layers of the design: which module may import which ------------------------------------------------------------

NUMPY_CORE = {"objective", "estimators", "metrics", "randomness", "_exact", "_checks"}
MAY_IMPORT = {  # first part of a module's path in vpo_lite -> the parts that it may import
    "_checks": set(),
    "_exact": NUMPY_CORE,
    "objective": NUMPY_CORE,
    "estimators": NUMPY_CORE,
    "metrics": NUMPY_CORE,
    "randomness": set(),
    "tasks": {*NUMPY_CORE, "tasks"},
    "policy": {*NUMPY_CORE, "tasks", "policy"},
    "training": {*NUMPY_CORE, "tasks", "policy", "training"},
    "search": {*NUMPY_CORE, "tasks", "policy", "training", "search"},
    "integrations": {*NUMPY_CORE, "tasks", "policy", "training", "integrations"},
    "figures": NUMPY_CORE,
    "board": set(),
    "recordings": {*NUMPY_CORE, "live"},
    "report": {*NUMPY_CORE, "training", "figures"},
    "plots": {*NUMPY_CORE, "figures"},
    "panel": {*NUMPY_CORE, "figures", "plots", "board"},
    "live": {*NUMPY_CORE, "tasks", "policy", "training", "figures", "plots", "panel", "board"},
}
OUTSIDE = {  # packages that only these parts may import
    "torch": {"policy", "training", "search", "integrations", "live", "cli"},
    "ipywidgets": {"board", "panel"},
    "anywidget": {"board", "panel", "live"},
    "plotly": {"figures", "plots", "panel", "live"},  # report.py goes through figures
    "envs": {"tasks", "training", "board", "plots", "panel", "live", "cli"},
}


def imports_of(path, package):
    """Top modules imported in a file, with relative imports resolved against ``package``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{module}.{alias.name}", module) for alias in node.names)


def library_files():
    return sorted((ROOT / "vpo_lite").rglob("*.py"))


@pytest.mark.parametrize("path", library_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_layers(path):
    relative = path.relative_to(ROOT)
    package = ".".join(relative.parts[:-1])
    part = relative.parts[1].removesuffix(".py")
    for name, _ in imports_of(path, package):
        top, *rest = name.split(".")
        if top in OUTSIDE:
            assert part in OUTSIDE[top], f"{relative} imports {top}"
        if top == "vpo_lite" and part in MAY_IMPORT and rest:
            inner = rest[0]
            assert inner in MAY_IMPORT[part] | {part} or not (ROOT / "vpo_lite" / inner).exists(), (
                f"{relative} imports {name}"
            )
            if (ROOT / "vpo_lite" / f"{inner}.py").exists():
                assert inner in MAY_IMPORT[part] | {part}, f"{relative} imports {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "envs").rglob("*.py")), ids=lambda p: p.name)
def test_envs_stands_on_its_own(path):
    allowed = {"numpy", "gymnasium", "envs"} | set(sys.stdlib_module_names)
    for name, _ in imports_of(path, "envs"):
        assert name.split(".")[0] in allowed, f"envs/{path.name} imports {name}"


def test_train_step_fits_one_screen_and_reads_in_the_order_of_the_data():
    tree = ast.parse((ROOT / "vpo_lite" / "training" / "step.py").read_text())
    step = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "train_step")
    assert step.end_lineno - step.lineno < 60
    calls = [ast.unparse(n.func) for n in ast.walk(step) if isinstance(n, ast.Call)]
    source = ast.unparse(step)
    stages = [
        "learner.prompt",
        "policy.sample",
        "task.parse",
        "reward_matrix",
        "for_training",
        "estimators.estimate",
        "update_policy",
    ]
    assert set(stages) <= set(calls)
    places = [source.index(f"{name}(") for name in stages]
    assert places == sorted(places)
