"""Shared by all tests: quiet threads, no network, one pocket policy per session.

Without a browser the browser tests are skipped, and the run ends with one line that names the
cure. Under CI=true they fail.
"""

import gc
import importlib.metadata
import os
import shutil
import signal

# before torch is imported: spinning threads starve shared cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"
# What is expected here are the CPU's numbers. `make gpu` is for a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# The programs that are run here are ours.
os.environ["VPO_LITE_UNSAFE_CODE"] = "1"

import browser_setup
import pytest

# A suite behind `&` of a script is begun with Ctrl-C ignored. The tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny_policy_folder(tmp_path_factory):
    """An untrained pocket model, a twentieth of the shipped one: for tests of mechanics, not of
    skill.
    """
    from vpo_lite.pocket.maze import MazeRecipe
    from vpo_lite.pocket.pretrain import new_model
    from vpo_lite.policy.tokenizer import word_tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny"
    new_model(MazeRecipe(width=32, layers=2, heads=2, mlp=48)).save_pretrained(folder)
    word_tokenizer(MazeRecipe().vocabulary()).save_pretrained(folder)
    return folder


@pytest.fixture
def cold(monkeypatch):
    """No warm-up thread beside a lab."""
    monkeypatch.setenv("VPO_LITE_COLD", "1")


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The current folder, which is a new one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def few_alphas(monkeypatch):
    """To judge a lesson at all α takes seconds a page."""
    monkeypatch.setattr("vpo_lite.lab.lesson.content.ALPHAS", [0.1, 1.0, 10.0])


@pytest.fixture(scope="session")
def small_config(tiny_policy_folder):
    from vpo_lite import TrainConfig

    small = dict(steps=3, prompts=1, group_size=2, m=2, max_new_tokens=8)
    here = dict(model=str(tiny_policy_folder), maze_seed=1000, device="cpu", threads=1)
    return TrainConfig.preset("demo", **small, **here)


@pytest.fixture(scope="session")
def runs(small_config, tmp_path_factory):
    """Two run folders, not to be changed: one stopped after step 2 of 3, one finished."""
    from vpo_lite.training.run import Run

    root = tmp_path_factory.mktemp("runs")
    run = Run.begin(small_config, root / "stopped")
    run.start()
    steps = run.steps()
    next(steps), next(steps)
    run.close()
    shutil.copytree(root / "stopped", root / "finished")
    run = Run.resume(root / "finished")
    for _ in run.steps():
        pass
    run.finish()
    return root


def _methods_as_they_were():
    """A method that a test registers is gone after it: later tests go through all methods."""
    from vpo_lite import METHODS

    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


methods_of_the_test = pytest.fixture(autouse=True)(_methods_as_they_were)
methods_of_the_module = pytest.fixture(autouse=True, scope="module")(_methods_as_they_were)


@pytest.fixture
def not_installed(monkeypatch):
    """This package as a copy in PYTHONPATH: it has no metadata of its own."""
    distribution = importlib.metadata.distribution

    def found(name):
        if name == "vpo_lite":
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(importlib.metadata, "distribution", found)


@pytest.fixture
def stopped(runs, tmp_path):
    """A copy of the stopped run."""
    return shutil.copytree(runs / "stopped", tmp_path / "stopped")


@pytest.fixture
def finished(runs, tmp_path):
    """A copy of the finished run."""
    return shutil.copytree(runs / "finished", tmp_path / "finished")


def pytest_collection_finish():
    """What is imported stays. The garbage collector looks at what the tests make alone."""
    gc.freeze()


# Modules with the longest tests. They come first: at the end nothing would run beside them.
LONG = ("test_course_browser.py", "test_browser.py", "test_one_screen.py", "test_lesson.py")
LONG += ("test_twin.py", "test_notebooks.py", "test_trl.py", "test_gpu_check.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


without_browser = []  # the browser tests that this run could not run


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item):
    if item.get_closest_marker("browser") and browser_setup.find() is None:
        without_browser.append(item.nodeid)
        if browser_setup.must_have_one():
            pytest.fail("no browser", pytrace=False)
        pytest.skip("no browser")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's summary: the line comes last
def pytest_terminal_summary(terminalreporter):
    result = yield
    if without_browser:
        ending = "failed, because CI=true" if browser_setup.must_have_one() else "were skipped"
        line = f"No browser: {len(without_browser)} browser tests {ending}. {browser_setup.CURE}"
        terminalreporter.write_line(line, yellow=True)
    return result
