"""What the trainer asks of a task before the first step, on its first problem."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..checks import shown
from ..tasks.base import Prompt, Task


def first_problem(task: Task, m: int, pocket: dict | None, *, shows_weights: bool = False) -> Any:
    """The first training problem. Nothing is scored here.

    Raises ValueError that names the method of the task whose value cannot work: before a run is
    made, not in its first step. m, pocket: as in `Task.prompt`. shows_weights: whether the method
    needs its weights written into the prompt.
    """

    def must(holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"task {task.name!r}: {what}")

    for split in ("train", "held_out"):
        seeds = task.seeds.get(split, ())
        listed = isinstance(seeds, Sequence | np.ndarray) and len(seeds) > 0
        must(listed, f"seeds[{split!r}] must be a range or a list of one seed or more")
    seed = task.seeds["train"][0]
    first, again = task.instance(seed), task.instance(seed)
    names, tokens = task.objectives(first), task.max_tokens(first, m, pocket)
    key, prompt = task.key(first), task.prompt(first, m, pocket=pocket)
    must(key == task.key(again), f"seed {seed} gave two problems of different keys")
    must(len(names) > 0, "objectives(instance) named no objective")
    must(names == task.objectives(again), f"seed {seed} gave two lists of objectives")
    must(isinstance(prompt, Prompt), f"prompt(...) gave {shown(prompt)}: expected a Prompt")
    one_form = bool(prompt.messages) != bool(prompt.symbols)
    must(one_form, f"prompt(...) gave {shown(prompt)}: expected either messages or symbols")
    readable = pocket is not None or not prompt.symbols
    must(readable, "prompt(...) gave symbols, and this model is asked in words: give messages")
    turns = all({"role", "content"} <= set(message) for message in prompt.messages)
    must(turns, "each message of prompt(...) must have a role and a content")
    whole = isinstance(tokens, int | np.integer) and tokens >= 1
    must(whole, f"max_tokens(...) = {shown(tokens)}: must be a whole number, 1 or more")
    if shows_weights and len(names) > 1:
        first_only, last_only = np.eye(len(names))[[0, -1]]
        one = task.prompt(first, m, weights=first_only, pocket=pocket)
        other = task.prompt(first, m, weights=last_only, pocket=pocket)
        must(
            one != other, "prompt(...) does not show its weights, and this method needs them there"
        )
    sets, d = np.zeros((2, m, len(names))), len(names)
    for name, value, shape in (
        ("worst(instance)", lambda: task.worst(first), (d,)),
        ("w_star(instance)", lambda: task.w_star(first), (d,)),
        ("valid(instance, rewards)", lambda: task.valid(first, sets), (2, m)),
        ("solved(instance, rewards)", lambda: task.solved(first, sets), (2, m)),
    ):
        found = np.shape(value())
        must(found == shape, f"{name} has shape {found}: expected {shape}")
    return first
