"""What rollouts wrote, step by step: texts.jsonl in a run folder.

One line is one completion: step, problem (the task's summary of it, not the request), text, its m
answers (null where one cannot be read), their rewards (m, d), the rollout's advantage, and where a
group has one weight vector, that. It is for people to read; no run depends on it.
"""

import json
from itertools import islice

from ..tasks.base import Task
from .record import StepRecord

TEXTS = "texts.jsonl"


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
