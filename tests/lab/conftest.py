"""Fixtures of the lab's tests: no warm-up, and training without a model."""

import threading
import time

import pytest
from lab_harness import FakeLearner, Gate, record, training_threads, until

import envs
from vpo_lite.training import loop


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    """No warm-up thread: tests count threads. And nothing may be left training."""
    monkeypatch.setenv("VPO_LITE_COLD", "1")
    yield
    assert until(lambda: not training_threads())


@pytest.fixture
def slow(monkeypatch):
    """Training without a model: each step takes a moment and follows the settings it is sent. The
    list tells of every step: (method, step, alpha, seed, thread)."""
    maze = envs.generate("lite-6x6", 1000)
    front = maze.pareto_front()
    seen = []

    def train(config, *, learner, tell):
        while learner.steps < config.steps:
            time.sleep(0.05)
            learner.steps += 1
            thread = threading.current_thread()
            seen.append((config.method, learner.steps, config.alpha, config.seed, thread))
            config = (yield record(config, learner.steps, maze, front)) or config

    monkeypatch.setattr("vpo_lite.training.learner.Learner", FakeLearner)
    monkeypatch.setattr(loop, "train", train)
    return seen


@pytest.fixture
def gate(monkeypatch):
    made = Gate()
    monkeypatch.setattr("vpo_lite.training.learner.Learner", FakeLearner)
    monkeypatch.setattr(loop, "train", made.train)
    yield made
    made.open(1000)
