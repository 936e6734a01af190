"""The problems of a training step. No torch is needed, so a recording can look them up."""

from ..randomness import integer
from ..tasks.base import Task


def problems_of_step(task: Task, seed: int, step: int, prompts: int) -> list:
    """The P problems of a step (0, 1, ...), drawn from the task's training seeds."""
    seeds = task.seeds["train"]
    drawn = (integer(seed, "instance", step, str(slot)) for slot in range(prompts))
    return [task.instance(seeds[number % len(seeds)]) for number in drawn]
