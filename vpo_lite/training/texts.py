"""What rollouts wrote: texts.jsonl in a run folder, step by step, and the texts of an evaluation.

One line is one completion: problem (the task's summary of it, not the request), text, its m answers
(null where one cannot be read) and their rewards (m, d). In training also the step, the rollout's
advantage, and where a group has one weight vector, that. In an evaluation the problem's key, and
which answers are valid and solved. It is for people to read; no run depends on it.
"""

import json
from itertools import islice
from typing import Any

from ..tasks.base import Task
from .answers import Answers
from .record import Group, StepRecord

TEXTS = "texts.jsonl"


def written(record: StepRecord, task: Task, most: int) -> list[str]:
    """The lines of at most ``most`` completions of a step: the first of each group, the second of
    each group, and so on.
    """
    rounds = range(max((len(group.texts) for group in record.groups), default=0))
    there = ((group, i) for i in rounds for group in record.groups if i < len(group.texts))
    return [
        _line(
            {"step": record.step}
            | _completion(task, group, i)
            | {"advantage": float(group.advantages[i])}
            | ({} if group.weights is None else {"weights": group.weights.tolist()})
        )
        for group, i in islice(there, most)
    ]


def measured(pool: Answers, task: Task) -> list[str]:
    """The lines of one problem's pool in an evaluation: all its completions, in order."""
    return [
        _line(
            {"key": task.key(pool.instance)}
            | _completion(task, pool, i)
            | {"valid": pool.valid[i].tolist(), "solved": pool.solved[i].tolist()}
        )
        for i in range(len(pool.texts))
    ]


def _completion(task: Task, group: Group | Answers, i: int) -> dict[str, Any]:
    """What every line says of completion i of a group."""
    return {
        "problem": task.summary(group.instance),
        "text": group.texts[i],
        "answers": group.answers[i],
        "rewards": group.rewards[i].tolist(),
    }


def _line(told: dict[str, Any]) -> str:
    line = json.dumps(told, ensure_ascii=False) + "\n"
    return line.encode(errors="replace").decode()  # a lone surrogate could not be read again
