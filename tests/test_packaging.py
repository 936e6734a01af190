"""What is promised about installing: conda and pip agree, and a missing browser is no riddle."""

import ast
import atexit
import gc
import importlib
import os
import re
import select
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import browser_setup
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
    conda = dict(
        parse(d)
        for d in [*CONDA["dependencies"], *pip_part]
        if isinstance(d, str) and not d.startswith("-e")
    )
    assert conda.pop("python") == PROJECT["requires-python"]
    conda.pop("pip")
    wanted = dict(
        parse(d) for d in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"]
    )
    assert conda == wanted
    assert "-e .[lab]" in pip_part


def test_every_package_that_was_asked_for_is_there():
    names = {parse(d)[0] for d in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"]}
    assert {
        "jupyterlab",
        "torch",
        "transformers",
        "peft",
        "plotly",
        "ipywidgets",
        "gymnasium",
    } <= names


def test_the_lower_bounds_that_were_tried_are_those_that_are_required():
    """A bound that changes was not tried: the sentence is then to be written anew."""
    text = " ".join((ROOT / "notebooks" / "WHERE.md").read_text().split())
    tried = re.search(r"passed on Python (\S+) with ([^:]*?)\. JupyterLab", text)
    versions = dict(re.findall(r"([a-z]+) (\d+\.\d+)", tried[2].lower()))
    required = (parse(d) for d in PROJECT["dependencies"])
    assert versions == {name: re.match(r">=([\d.]+)", ranges)[1] for name, ranges in required}
    assert PROJECT["requires-python"] == f">={tried[1]}"


def test_constraints_stay_within_the_ranges():
    from packaging.specifiers import SpecifierSet

    extras = [d for extra in PROJECT["optional-dependencies"].values() for d in extra]
    ranges = dict(
        parse(d) for d in PROJECT["dependencies"] + extras if not d.startswith("vpo_lite[")
    )
    assert {"torch", "ruff", "openevolve", "trl"} <= set(ranges)
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines
    for line in lines:
        name, version = line.split("==")
        assert name not in ranges or SpecifierSet(ranges[name]).contains(version), line
    needed = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"]
    pinned = {line.split("==")[0] for line in lines}
    assert {parse(d)[0] for d in needed} <= pinned  # a class has the versions that were tested


def test_the_version_is_the_same_in_all_places():
    import vpo_lite

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert vpo_lite.__version__ == PROJECT["version"] == cited


def test_the_top_level_is_what_was_asked_for():
    for name in ("notebooks", "vpo_lite", "envs", "tests", "environment.yml", "README.md"):
        assert (ROOT / name).exists(), name


@pytest.mark.long
def test_all_public_names_are_imported_at_once_without_the_extras():
    """It failed: `figures` needs plotly, which a base install lacks."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(('plotly', 'ipywidgets', 'anywidget')); "
        "from vpo_lite import *; import vpo_lite; "
        "print(train is vpo_lite.train, 'figures' in dir())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


@pytest.mark.long
def test_waiting_threads_do_not_spin_whichever_module_comes_first():
    code = (
        "import os, vpo_lite.training.step, sys; assert 'torch' in sys.modules; "
        "print(os.environ['OMP_WAIT_POLICY'])"
    )
    clean = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "PASSIVE"


def test_train_step_fits_one_screen_and_reads_in_the_order_of_the_data():
    tree = ast.parse((ROOT / "vpo_lite" / "training" / "step.py").read_text())
    step = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "train_step")
    assert step.end_lineno - step.lineno < 60
    calls = [ast.unparse(n.func) for n in ast.walk(step) if isinstance(n, ast.Call)]
    source = ast.unparse(step)
    stages = [
        "draw_weights",
        "draw_uniforms",
        "sample_answers",
        "for_training",
        "estimate",
        "update_policy",
        "StepRecord",
    ]
    assert all(any(call.endswith(stage) for call in calls) for stage in stages)
    places = [source.index(f"{name}(") for name in stages]
    assert places == sorted(places)


# --- the wheel ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A bare folder into which the wheel of this repository was installed, without a network."""
    pytest.importorskip("hatchling")
    made, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    python = [sys.executable, "-m"]
    build = [*python, "hatchling", "build", "--target", "wheel", "--directory", str(made)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = made.glob("*.whl")
    install = [*python, "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, "--target", str(site), str(wheel)], check=True, capture_output=True)
    return site


def from_the_wheel(site, cwd, *arguments):
    """`vpo-lite` with these arguments, as installed in that folder and nowhere else."""
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-P", "-m", "vpo_lite.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_wheel_carries_the_course(site, tmp_path):
    """All that a class needs, read where it was installed: notebooks, recordings, Voila's page."""
    listed = from_the_wheel(site, tmp_path, "notebooks", "copy", "course")
    assert listed.returncode == 0, listed.stderr
    for name in ("00_start_here.ipynb", "STUDY.md", "images/panel.png"):
        copied, ours = tmp_path / "course" / name, ROOT / "notebooks" / name
        assert copied.read_bytes() == ours.read_bytes()
    count = len([*(ROOT / "notebooks").glob("*.ipynb")])
    assert len([*(tmp_path / "course").glob("*.ipynb")]) == count
    for inside in ("classroom/share", "lab/recordings", "pocket/weights", "lab/board.js"):
        ours, theirs = ROOT / "vpo_lite" / inside, site / "vpo_lite" / inside
        files = [p.relative_to(ours) for p in ours.rglob("*.*") if "__pycache__" not in p.parts]
        assert all((theirs / file).is_file() for file in files) and theirs.exists()
    assert all((site / package / "py.typed").is_file() for package in ("vpo_lite", "envs"))


@pytest.mark.slow
def test_an_installed_lab_names_the_cure_in_one_line(site, tmp_path):
    done = from_the_wheel(site, tmp_path, "lab")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "vpo-lite notebooks copy" in done.stderr


# --- the browser for the browser tests ---------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any browser; returns the one folder on its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VPO_LITE_BROWSER", raising=False)
    monkeypatch.delenv("VPO_LITE_NO_BROWSER_INSTALL", raising=False)
    monkeypatch.setattr(browser_setup, "_usual_places", lambda: [])
    monkeypatch.setattr(browser_setup, "_playwrights_own", lambda: str(tmp_path / "none"))
    monkeypatch.setattr(browser_setup, "STAMP", tmp_path / "stamp")
    browser_setup.find.cache_clear()
    yield tmp_path
    browser_setup.find.cache_clear()


def script(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(0o755)
    return str(path)


@posix
@pytest.mark.parametrize("name", browser_setup.COMMANDS)
def test_a_browser_of_any_name_on_the_path_is_found(bare, name):
    assert browser_setup.find() is None
    path = script(bare / name)
    browser_setup.find.cache_clear()
    assert browser_setup.find() == path


@posix
def test_a_browser_that_does_not_start_is_passed_over(bare, monkeypatch):
    script(bare / "chromium-browser", "echo 'please install the snap'", "exit 1")
    usual = script(bare / "in-a-usual-place")
    monkeypatch.setattr(browser_setup, "_usual_places", lambda: [bare / "missing", Path(usual)])
    assert browser_setup.find() == usual


@posix
def test_a_named_browser_is_the_only_one_that_counts(bare, monkeypatch):
    script(bare / "chromium")
    mine = script(bare / "mine")
    monkeypatch.setenv("VPO_LITE_BROWSER", mine)
    assert browser_setup.find() == mine
    browser_setup.find.cache_clear()
    monkeypatch.setenv("VPO_LITE_BROWSER", str(bare / "missing"))
    assert browser_setup.find() is None


@posix
def test_installing_is_tried_once_and_a_later_browser_is_still_found(bare, monkeypatch, capsys):
    failing = script(bare / "installer", "echo noise", "echo noise >&2", "exit 1")
    monkeypatch.setattr(browser_setup, "_installers", lambda: [[failing, "this"]])
    browser_setup.main()
    first = capsys.readouterr()
    assert "  this: failed, see" in first.out and first.out.endswith(
        "browser for the browser tests: none\n"
    )
    assert "noise" not in first.out + first.err
    assert browser_setup.STAMP.read_text() == "noise\nnoise\n"
    browser_setup.main()
    assert capsys.readouterr().out == "browser for the browser tests: none\n"
    path = script(bare / "chromium")
    browser_setup.find.cache_clear()
    browser_setup.main()
    assert capsys.readouterr().out == f"browser for the browser tests: {path}\n"


@posix
def test_installing_ends_with_the_first_browser_that_starts(bare, monkeypatch, capsys):
    chromium = f"printf '#!/bin/sh' > {bare}/chromium; /bin/chmod +x {bare}/chromium"
    useless, useful, late = (
        script(bare / "useless"),
        script(bare / "useful", chromium),
        script(bare / "late", f"echo > {bare}/too-late"),
    )
    monkeypatch.setattr(browser_setup, "_installers", lambda: [[useless], [useful], [late]])
    browser_setup.main()
    assert capsys.readouterr().out.endswith(f"browser for the browser tests: {bare}/chromium\n")
    assert not (bare / "too-late").exists()


@pytest.mark.parametrize("variable", ["VPO_LITE_NO_BROWSER_INSTALL", "VPO_LITE_BROWSER"])
def test_installing_can_be_forbidden(bare, monkeypatch, capsys, variable):
    monkeypatch.setattr(browser_setup, "_installers", lambda: pytest.fail("tried to install"))
    monkeypatch.setenv(variable, "1")
    browser_setup.main()
    assert capsys.readouterr().out == "browser for the browser tests: none\n"
    assert not browser_setup.STAMP.exists(), "a later run without the variable still tries"


@pytest.mark.slow
@posix
def test_an_installer_over_its_time_is_ended_with_its_children(bare, monkeypatch):
    slow = script(bare / "slow", "/bin/sleep 60 &", "wait")
    monkeypatch.setattr(browser_setup, "LIMIT", 0.5)
    read, write = os.pipe()
    with os.fdopen(write, "wb") as log:
        assert browser_setup._run([slow], log) is False
    ended, _, _ = select.select([read], [], [], 20)  # the pipe ends when its last holder does
    assert ended and os.read(read, 1) == b""
    os.close(read)


PAGE = """
import pytest

def test_plain():
    pass

@pytest.mark.browser
@pytest.mark.parametrize("i", [1, 2])
def test_page(i):
    raise SystemError("ran without a browser")
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_ci", [False, True])
def test_a_missing_browser_is_one_line_at_the_end_and_a_failure_in_ci(tmp_path, in_ci):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser")
    (tmp_path / "test_page.py").write_text(PAGE)
    environment = os.environ | {
        "VPO_LITE_BROWSER": str(tmp_path / "none"),
        "PYTHONPATH": str(ROOT / "tests"),
        "CI": "true" if in_ci else "",
    }
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "test_page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    *_, line, counts = done.stdout.splitlines()
    outcome = "failed, because CI=true" if in_ci else "were skipped"
    assert line.startswith(f"No browser: 2 browser tests {outcome}. Cure: install Chromium")
    assert done.stdout.count("Cure:") == 1
    assert f" 1 passed, {'2 errors' if in_ci else '2 skipped'} in " in counts
    assert done.returncode == (1 if in_ci else 0)


@pytest.mark.long
def test_threads_may_come_in_by_different_doors():
    """A panel warms up while a cell loads a policy. transformers does not lock what it loads late,
    so one of them met half of it in nearly every run."""
    code = """
import importlib, sys, threading, time
sys.setswitchinterval(1e-5)
def enter(door, late):
    time.sleep(late)
    try:
        importlib.import_module(door)
    except ImportError as error:
        print(door, error)
doors = "training.loop", "policy.loading", "pocket.maze", "policy.tokenizer"
given = [(f"vpo_lite.{door}", 0.2 * i) for i, door in enumerate(doors)]
threads = [threading.Thread(target=enter, args=one) for one in given]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.fixture
def collector():
    yield
    gc.enable()


@pytest.mark.parametrize("on", [True, False])
def test_libraries_are_loaded_without_the_garbage_collector_and_leave_it_as_it_was(
    on, collector, monkeypatch
):
    from transformers.pytorch_utils import Conv1D

    from vpo_lite.policy import libraries

    class Watching(types.ModuleType):
        def __getattr__(self, name):
            if name != "Conv1D":  # the import system asks for names of its own, too
                raise AttributeError(name)
            seen.append(gc.isenabled())
            return Conv1D

    (gc.enable if on else gc.disable)()
    seen = []
    monkeypatch.setitem(sys.modules, "transformers.pytorch_utils", Watching("watching"))
    importlib.reload(libraries)
    assert (seen, gc.isenabled()) == ([False], on)
    monkeypatch.setitem(sys.modules, "transformers.pytorch_utils", None)
    with pytest.raises(ImportError, match="pytorch_utils"):
        importlib.reload(libraries)
    assert gc.isenabled() == on


def test_only_a_command_that_ends_with_its_process_leaves_its_garbage(tmp_path, monkeypatch):
    from vpo_lite.cli import main

    at_the_end = []
    monkeypatch.setattr(atexit, "register", at_the_end.append)
    given = ["notebooks", "copy", str(tmp_path / "in")]
    assert main(given) == 0 and gc.freeze not in at_the_end
    monkeypatch.setattr(sys, "argv", ["vpo-lite", *given[:2], str(tmp_path / "alone")])
    assert main() == 0 and gc.freeze in at_the_end


@pytest.mark.slow
def test_the_files_that_may_be_copied_make_a_package_of_their_own(tmp_path):
    """They import each other relatively: side by side with a script they are no package."""
    text = (ROOT / "notebooks" / "REFERENCE.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"^- (You can copy .*?)\n\n", text, re.DOTALL | re.MULTILINE)
    found = " ".join(found.split())
    names = re.findall(r"`(\w+\.py)`", found)
    assert len(names) == 4 and "these four files into one folder, as a package" in found
    (tmp_path / "my_folder").mkdir()
    for name in names:
        shutil.copy(ROOT / "vpo_lite" / name, tmp_path / "my_folder")
    code = """import sys
sys.modules["vpo_lite"] = None  # not to be found
from my_folder.estimators import advantages
rows = [[[1, 0], [0, 1]], [[1, 0], [1, 0]]]
assert advantages("vpo", [rows]).round(2).tolist() == [[1.0, -1.0]]
roots = {name.split(".")[0] for name in sys.modules}
assert {"my_folder", "numpy", "scipy"} <= roots and not roots & {"torch", "pydantic", "envs"}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
