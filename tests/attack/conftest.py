"""Runs to attack: small, trained once."""

import shutil

import pytest

from vpo_lite import TrainConfig
from vpo_lite.training.run import Run


@pytest.fixture(scope="session")
def small_config(tiny_policy_folder):
    small = dict(steps=3, prompts=1, group_size=2, m=2, max_new_tokens=8)
    here = dict(model=str(tiny_policy_folder), maze_seed=1000, device="cpu", threads=1)
    return TrainConfig.preset("demo", **small, **here)


@pytest.fixture(scope="session")
def runs(small_config, tmp_path_factory):
    """Two run folders, not to be changed: one stopped after step 2 of 3, one finished."""
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


@pytest.fixture
def stopped(runs, tmp_path):
    """A copy of the stopped run."""
    return shutil.copytree(runs / "stopped", tmp_path / "stopped")


@pytest.fixture
def finished(runs, tmp_path):
    """A copy of the finished run."""
    return shutil.copytree(runs / "finished", tmp_path / "finished")
