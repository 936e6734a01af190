"""A task that says it has one problem, such as one whose option is named in ``singles_out``."""

from ..checks import shown
from ..tasks.base import Task
from ..tasks.task_errors import TaskError


def check_single(task: Task) -> None:
    """TaskError where `task.single` holds and ``instance`` gives several problems: a run would
    train on all of them, and be measured on one.

    >>> class One(Task):
    ...     single = True
    ...     def instance(self, seed):
    ...         return seed % 2
    >>> check_single(One())
    Traceback (most recent call last):
    ...
    vpo_lite.tasks.task_errors.TaskError: task 'task': single = True means one problem for all \
seeds, but seeds 10000 and 10001 give two: let instance(seed) return that problem for every seed
    """
    if not task.single:
        return
    train, held_out = task.seeds["train"], task.seeds["held_out"]
    seeds = [int(seed) for seed in (*train[:2], train[-1], held_out[0])]
    keys = [task.key(task.instance(seed)) for seed in seeds]
    for seed, key in zip(seeds, keys, strict=True):
        if key != keys[0]:
            values = {name: getattr(task, name, None) for name in task.singles_out}
            given = [f"{name} = {shown(x)}" for name, x in values.items() if x is not None]
            raise TaskError(
                f"task {task.name!r}: {', '.join(given) or 'single = True'} means one problem for "
                f"all seeds, but seeds {seeds[0]} and {seed} give two: let instance(seed) return "
                "that problem for every seed"
            )
