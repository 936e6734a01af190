"""Shared by the attacks on the lab: a recording made by hand, and what must hold after one."""

import contextlib
import dataclasses

import numpy as np
import plotly.graph_objects as go
from attacks import check_error

from vpo_lite.lab import Lab
from vpo_lite.lab.drawings import board_groups
from vpo_lite.lab.plots import Plots
from vpo_lite.lab.recordings import Recording, write
from vpo_lite.lab.view import Moment, SeenRun
from vpo_lite.lab.words import status_line
from vpo_lite.training.problems import problems_of_step
from vpo_lite.training.record import Group, StepRecord

PLOTS = Plots(go.Figure)  # one for all attacks: making it takes most of the time of a figure
METHODS = ("vpo", "grpo")
SMALL = {"layout": "tiny-4x4", "prompts": 2, "group_size": 4, "steps": 2}
FIGURES = {  # of every step; all else of a StepRecord is 0.5
    "alpha": 1.0,
    "K": 64,
    "coverage": 0.75,
    "objectives": {"completion": 1.0, "gold": 0.5, "diamond": 0.25, "avoid_lava": 1.0},
    "kl": None,
    "tokens": 10,
    "groups": (),
}


def small_recording(folder, *, many: bool = True):
    """Write a recording of two methods, two steps, on many mazes or on one. Returns its path."""
    lab = Lab(METHODS, many=many, **SMALL)
    runs = tuple(run(config) for config in lab.settings.configs.values())
    return write(folder, Recording(lab.share(), "made by hand", runs))


def run(config) -> SeenRun:
    """A run of two steps, in which rollout i begins with answer i of the front, or with none."""
    task, records = config.make_task(), []
    for step in (1, 2):
        problems = problems_of_step(task, config.seed, step - 1, config.prompts)
        groups = tuple(group(task, maze, config) for maze in problems)
        known = FIGURES | {"step": step, "method": config.method, "groups": groups}
        known |= {"m": config.answers} | dict.fromkeys(
            ("slots", "valid_slots"), [0.5] * config.answers
        )
        names = [f.name for f in dataclasses.fields(StepRecord)]
        records.append(StepRecord(**{name: known.get(name, 0.5) for name in names}))
    moments = tuple(Moment.of(record, config, task) for record in records)
    return SeenRun(config.method, config, tuple(records), moments)


def group(task, maze, config) -> Group:
    routes = [*maze.pareto_front().routes, None, ""]
    G, m = config.group_size, config.answers
    answers = [[routes[(g + i) % len(routes)] for i in range(m)] for g in range(G)]
    flat = [answer for row in answers for answer in row if answer is not None]
    rewards = np.tile(task.worst(maze), (G, m, 1))
    rewards[[[a is not None for a in row] for row in answers]] = task.score([maze], [flat])[0]
    return Group(maze, [f"text {g}" for g in range(G)], answers, rewards, np.linspace(-1, 1, G))


def draws(lab: Lab) -> None:
    """Whatever shows a lab must be able to draw it."""
    view = lab.view()
    assert lab.sentence() and status_line(view)
    if view.config.task == "maze":
        PLOTS.draw(view)
        assert PLOTS.figure.to_json() and board_groups(view) and lab.picture()
    else:
        assert lab.figure().to_json()


def snapshot(lab: Lab):
    return lab.view(), lab.state, lab.share(), lab.methods, lab.last_error, list(lab.runs)


@contextlib.contextmanager
def refused_or_works(lab: Lab):
    """The request inside ends in one line and changes nothing, or it works, and all can be drawn.

    The list that it yields is empty after a refusal.
    """
    before, worked = snapshot(lab), [True]
    try:
        yield worked
    except ValueError as error:
        worked.clear()
        check_error(error)
        assert snapshot(lab) == before
    else:
        if snapshot(lab) != before:
            draws(lab)
