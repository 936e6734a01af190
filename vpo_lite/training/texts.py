"""What rollouts wrote, step by step: texts.jsonl in a run folder.

One line is one completion: step, problem, text, its m answers (null where one cannot be read),
their rewards (m, d), the rollout's advantage, and where a group has one weight vector, that. It
is for people to read; no run depends on it.
"""

import json
from itertools import islice
from pathlib import Path

from ..files import DamagedError, parse_json, replacing
from ..tasks.base import Task
from ..tasks.rows import Row
from .record import Step, StepRecord

TEXTS = "texts.jsonl"


class _Line(Row):
    step: Step


def written(record: StepRecord, task: Task, most: int) -> list[str]:
    """The lines of at most ``most`` completions of a step: the first of each group, the second of
    each group, and so on.
    """
    rounds = range(max((len(group.texts) for group in record.groups), default=0))
    there = ((group, i) for i in rounds for group in record.groups if i < len(group.texts))
    return [
        json.dumps(
            {
                "step": record.step,
                "problem": task.summary(group.instance),
                "text": group.texts[i],
                "answers": group.answers[i],
                "rewards": group.rewards[i].tolist(),
                "advantage": float(group.advantages[i]),
                **({} if group.weights is None else {"weights": group.weights.tolist()}),
            },
            ensure_ascii=False,
        )
        + "\n"
        for group, i in islice(there, most)
    ]


def cut(path: Path, step: int) -> None:
    """Remove the lines of later steps, and what follows a line that is damaged or cut short."""
    if not path.exists():
        return
    with replacing(path) as staging, open(path, "rb") as old, open(staging, "wb") as new:
        for line in old:
            try:
                if not line.endswith(b"\n") or parse_json(line, _Line, str(path)).step > step:
                    break
            except DamagedError:
                break
            new.write(line)
