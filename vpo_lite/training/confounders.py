"""What differs between compared runs of several methods, beside the method: their confounders."""

from dataclasses import fields

from ..checks import shortened
from .config import TrainConfig
from .digests import TOKENIZER
from .finished import BASE, ELSEWHERE, TEMPERATURE
from .method_settings import unused

ANSWERS = "answers sampled in training"
CLOSE = 1.1  # numbers of answers within this factor are not told apart
OF_MEASURING = (
    *("model", "seed", "alpha", "eval_problems", "eval_answers"),
    *(TOKENIZER, TEMPERATURE),
)
# The method and its own form; the task, by which problems differ: another line says that.
LEFT_OUT = {"method", "m", "set_size", "k", "whiten", "task"}


def confounders(kinds: list[tuple[TrainConfig, dict, set[int]]]) -> list[dict]:
    """For each kind of run {setting: value}, of those that differ between the kinds. A value is
    None where the method does not use the setting. Empty where there is only one method: its kinds
    are told apart by their labels.

    kinds: for each a config, its settings as they are compared, and the seeds of its runs
    """
    if len({config.method for config, _, _ in kinds}) < 2:
        return [{} for _ in kinds]
    found = [_of(*kind) for kind in kinds]
    names = dict.fromkeys(name for row in found for name in row)  # not all have a tokenizer's
    names = [name for name in names if _differ(name, [row.get(name) for row in found])]
    return [{name: row.get(name) for name in names} for row in found]


def _of(config: TrainConfig, settings: dict, seeds: set[int]) -> dict:
    """What is compared of a kind of run: how it trained, and how it was measured."""
    names = [f.name for f in fields(TrainConfig) if f.name not in LEFT_OUT]
    told = {TEMPERATURE: 1.0} | settings
    names += ["engine", BASE, TOKENIZER, TEMPERATURE]
    mine = {name: told[name] for name in names if name in told}
    mine |= dict.fromkeys(set(unused(config)) & set(mine))
    rollouts = config.steps * config.prompts * config.group_size
    mine |= {"seed": sorted(seeds), ANSWERS: rollouts * config.answers}
    if ELSEWHERE in settings:  # how it was trained is not known
        mine = {name: value for name, value in mine.items() if name in OF_MEASURING}
    return mine


def _differ(name: str, values: list) -> bool:
    known = [value for value in values if value is not None]
    if name == ANSWERS:
        return max(known) > CLOSE * min(known)
    return len({str(value) for value in known}) > 1


def in_one_line(rows: list[dict]) -> str:
    """The settings that differ, in one line; "" where none do, or the labels name them all.

    >>> rows = [{"label": "vpo", "unequal": {"steps": 40, "K": 64, "seed": [0, 1]}}]
    >>> in_one_line([*rows, {"label": "grpo", "unequal": {"steps": 1000, "K": None, "seed": [0]}}])
    'Beside the method, these differ (vpo / grpo): steps 40 / 1,000; K 64 / -; seed 0, 1 / 0.'
    """
    labels = [row["label"] for row in rows]
    names = [n for n in rows[0]["unequal"] if not all(f", {n}=" in label for label in labels)]
    if not names:
        return ""
    told = [f"{n} {' / '.join(_shown(row['unequal'][n]) for row in rows)}" for n in names]
    return f"Beside the method, these differ ({' / '.join(labels)}): {'; '.join(told)}."


def _shown(value) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if type(value) is int else shortened(str(value), 60)
