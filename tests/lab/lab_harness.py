"""Shared by the tests of the lab: training without a model, and waiting."""

import dataclasses
import threading
import time
from types import SimpleNamespace

import numpy as np

import envs
from vpo_lite.training.record import Group, StepRecord

SMALL = {"prompts": 2, "group_size": 8}
WAIT = 120  # seconds


def until(true, seconds=WAIT):
    """What ``true()`` says in the end."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def training_threads():
    return [t for t in threading.enumerate() if t.name == "vpo-lite training"]


class FakeLearner:
    def __init__(self, config):
        self.config, self.task, self.steps = config, config.make_task(), 0
        self.policy = SimpleNamespace(pocket={})


def record(config, step, maze, front):
    """A step record in which every rollout writes the first routes of the front."""
    m, G = config.answers, config.group_size
    pick = [i % len(front.routes) for i in range(m)]
    routes = [front.routes[i] for i in pick]
    group = Group(
        maze, ["text"] * G, [routes] * G, np.array([front.rewards[pick]] * G), np.zeros(G)
    )
    known = {
        "step": step,
        "method": config.method,
        "alpha": config.alpha,
        "K": config.K,
        "m": m,
        "coverage": 0.9,
        "diversity": 0.7,
        "objectives": {"gold": 0.5, "diamond": 0.5, "avoid_lava": 1.0},
        "slots": [0.5] * m,
        "valid_slots": [1.0] * m,
        "tokens": 10,
        "seconds": 0.05,
        "valid_rate": 1.0,
        "truncated_rate": 0.0,
        "kl": 0.1 if step % 4 == 1 else None,
        "groups": (group,) * config.prompts,
    }
    return StepRecord(**{f.name: known.get(f.name, 0.5) for f in dataclasses.fields(StepRecord)})


class Gate:
    """Training that stands still until the test lets a step through."""

    def __init__(self):
        self.permits, self.fails, self.begun = threading.Semaphore(0), False, 0
        self.maze = envs.generate("lite-6x6", 1000)

    def train(self, config, *, learner, tell):
        front = self.maze.pareto_front()
        while learner.steps < config.steps:
            self.begun = learner.steps + 1
            self.permits.acquire()
            if self.fails:
                raise RuntimeError("as asked")
            learner.steps += 1
            config = (yield record(config, learner.steps, self.maze, front)) or config

    def open(self, steps):
        self.permits.release(steps)
