"""Measuring a policy: a pool of answers per maze at temperature 1, counted in answers, whatever wrote them."""

import json
from pathlib import Path

import numpy as np

from .. import estimators, metrics
from ..objective import exact_set_reward, sample_weights
from ..policy.model import Policy
from ..randomness import generator
from ..tasks.base import Task, reward_matrix
from .config import HELD_OUT_SEEDS, TrainConfig
from .step import draw_uniforms, longest_completion

ROWS = 256  # completions sampled at a time
BUDGETS = (1, 3, 10, 30)
INTERVALS = ("coverage", "set_reward", "diversity", "reach_rate")  # figures that get an interval over mazes


def evaluate(policy: Policy, config: TrainConfig, *, mazes: int = 64, answers: int = 30, seed: int = 0, task=None) -> dict:
    """Sample ``answers`` answers for each maze and report what they are worth.

    The mazes are the run's own one, or the held-out ones with seeds 0, 1, ... . A rollout of a method for single answers
    counts as one answer, one of a multi-answer method as m; the pool is cut to ``answers``. The sets that ``set_reward``
    (K = infinity, the run's alpha) and ``coverage`` (alpha = 1) are means over: one rollout, or ``set_size`` consecutive
    single answers. Every answer keeps its own vector: nothing is removed and repeats are only counted.

    Returns a dict: set_reward, coverage, coverage_best_single (the ceiling of a collapsed policy; None, as coverage, without
    a known front), diversity (among the answers that succeed), diversity_all, best_at_k {"1": ...}, parse_rate, reach_rate,
    repeat_rate, objectives {name: mean}, tokens_per_answer, answers, mazes, and per_maze {figure: one value per maze} for
    intervals.
    """
    if mazes < 1 or answers < 1:
        raise ValueError(f"mazes = {mazes}, answers = {answers}: both must be 1 or more")
    if mazes > len(HELD_OUT_SEEDS):
        raise ValueError(f"mazes = {mazes}: there are {len(HELD_OUT_SEEDS):,} held-out ones")
    task = task or config.make_task()
    instances = [task.instance(s) for s in HELD_OUT_SEEDS[: 1 if config.one_maze else mazes]]
    pools = sample_pools(policy, task, config, instances, answers, seed)
    rows = [pool_figures(task, config, x, *pool) for x, pool in zip(instances, pools, strict=True)]
    per_maze = {name: [row[name] for row in rows] for name in INTERVALS}
    return _mean(rows) | {"answers": answers, "mazes": len(rows), "per_maze": per_maze}


def sample_pools(policy: Policy, task: Task, config: TrainConfig, instances, answers: int, seed: int) -> list[tuple]:
    """For every instance the reward vectors (rollouts, m, d) with marks, texts and token count of its pool."""
    m = config.answers
    copies = -(-answers // m)
    conditioned = estimators.METHODS[config.method].weight_in_prompt
    longest = longest_completion(policy, task, config, instances)
    pools = []
    step = max(1, ROWS // copies)
    for first in range(0, len(instances), step):
        batch = instances[first : first + step]
        keys = [(seed, "evaluation", first + i, task.key(x)) for i, x in enumerate(batch)]
        uniforms = np.stack([draw_uniforms((copies, longest), *key) for key in keys])
        if conditioned:  # one fresh weighting per answer, so every answer has a prompt of its own
            prompts = [
                task.request(x, m, weights=w, board=policy.board)
                for x, (_, _, i, key) in zip(batch, keys, strict=True)
                for w in sample_weights(
                    copies, len(task.objectives(x)), config.alpha, rng=generator(seed, "evaluation weights", i, key)
                )
            ]
            uniforms = uniforms.reshape(-1, 1, longest)
        else:
            prompts = [task.request(x, m, board=policy.board) for x in batch]
        rollouts = policy.sample(prompts, uniforms)
        texts, lengths = policy.texts(rollouts), rollouts.mask.sum(-1).tolist()
        for i, x in enumerate(batch):
            rows = slice(i * copies, (i + 1) * copies)
            parsed = [task.parse(x, text, m) for text in texts[rows]]
            pools.append((reward_matrix(task, x, parsed), parsed, sum(lengths[rows]), answers))
    return pools


def pool_figures(task: Task, config: TrainConfig, instance, scored, parsed, tokens: int, answers: int) -> dict:
    """The figures of one instance's pool."""
    d = scored.rewards.shape[-1]
    pool = scored.rewards.reshape(-1, d)[:answers]
    sets = metrics.as_sets(pool[:, None], config.compared_size)
    success = task.succeeded(pool)
    flat = [answer for row in parsed for answer in row][:answers]
    front = task.front(instance)
    best = pool @ task.w_star(instance)
    return dict(
        set_reward=float(exact_set_reward(sets, config.alpha).mean()),
        coverage=None if front is None else float(metrics.coverage(sets, front).mean()),
        coverage_best_single=None if front is None else metrics.price_of_conflict(front, (1,))[1],
        diversity=float(metrics.diversity(pool, success)),
        diversity_all=float(metrics.diversity(pool)),
        best_at_k={str(k): float(metrics.best_at_k(best, k)) for k in BUDGETS if k <= len(pool)},
        parse_rate=sum(a is not None for a in flat) / len(flat),
        reach_rate=float(success.mean()),
        repeat_rate=float(scored.repeats.reshape(-1)[:answers].mean()),
        objectives=dict(zip(task.objectives(instance), map(float, pool.mean(0)), strict=True)),
        tokens_per_answer=tokens / scored.parsed.size,
    )


def _mean(rows: list[dict]) -> dict:
    """Means of equal dicts of figures, key by key."""

    def merge(values):
        if isinstance(values[0], dict):
            return {k: merge([v[k] for v in values]) for k in values[0] if all(k in v for v in values)}
        return None if any(v is None for v in values) else float(np.mean(values))

    return {k: merge([r[k] for r in rows]) for k in rows[0]}


# --- comparing runs ---------------------------------------------------------------------------------------------------

_FIGURES = (
    "set_reward", "coverage", "coverage_best_single", "diversity", "diversity_all", "best_at_k", "parse_rate", "reach_rate",
    "repeat_rate", "objectives", "tokens_per_answer",
)  # fmt: skip
_REPETITIONS = (
    "seed", "maze_seed", "maze", "maze_budget", "device", "threads", "save_every", "micro_batch", "gradient_checkpointing",
    "compile",
)  # fmt: skip


def compare(folders) -> list[dict]:
    """Means of the summaries of several runs, one row for each kind of run, in order of appearance.

    Runs are of one kind if their settings differ in nothing but seeds, mazes and machine. A row holds label (the method, and
    the settings in which the kinds of that method differ), method, set (answers in a compared set), runs, mazes, folders, the
    means of the figures of ``summary.json``, ``start`` with those before training, and ``interval`` {figure: (low, high)}, the
    95 % bootstrap interval over mazes (None for a single maze). Raises ValueError naming a folder that is no finished run,
    or that is given twice.
    """
    kinds: dict[str, list[tuple]] = {}
    seen = set()
    for folder in folders:
        config, summary = _finished(Path(folder))
        if Path(folder).resolve() in seen:
            raise ValueError(f"{folder}: given twice")
        seen.add(Path(folder).resolve())
        kinds.setdefault(json.dumps(_kind(config)), []).append((config, summary, folder))
    if not kinds:
        raise ValueError("compare: name at least one run folder")
    rows = []
    for kind, runs in kinds.items():
        config = runs[0][0]
        mine = json.loads(kind)
        rivals = [json.loads(k) for k in kinds if json.loads(k)["method"] == config.method]
        differing = [name for name in mine if len({json.dumps(rival[name]) for rival in rivals}) > 1]
        label = ", ".join([config.method, *(f"{name}={mine[name]}" for name in differing)])
        figures = _mean([_only(s) | {"start": _only(s["start"])} for _, s, _ in runs])
        per_maze = {name: _by_maze(runs, name) for name in INTERVALS}
        intervals = {name: bootstrap_interval(values) for name, values in per_maze.items()}
        rows.append(
            {"label": label, "method": config.method, "set": config.compared_size, "runs": len(runs)}
            | {"mazes": len(per_maze["coverage"]), "folders": [str(f) for _, _, f in runs]} | figures | {"interval": intervals}
        )  # fmt: skip
    return rows


def _finished(folder: Path) -> tuple[TrainConfig, dict]:
    try:
        config = TrainConfig.from_json(json.loads((folder / "config.json").read_text()))
        summary = json.loads((folder / "summary.json").read_text())
        if not all(name in figures for figures in (summary, summary["start"]) for name in (*_FIGURES, "per_maze")):
            raise ValueError("figures are missing")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{folder}: no finished run (a folder that `vpo-lite train --out` made, with config.json and summary.json): {error}"
        ) from error
    return config, summary


def _kind(config: TrainConfig) -> dict:
    settings = config.to_json() | {"m": config.answers, "one_maze": config.one_maze}
    settings["set_size"] = settings["set_size"] if config.answers == 1 else None  # else the m answers are the set
    return {k: v for k, v in settings.items() if k not in _REPETITIONS}


def _only(figures: dict) -> dict:
    return {name: figures[name] for name in _FIGURES}


def _by_maze(runs, name: str) -> list:
    """One value per maze: the mean over the runs that measured it. Runs on one maze are repetitions, not mazes."""
    values: dict = {}
    for config, summary, _ in runs:
        for i, value in enumerate(summary["per_maze"][name]):
            place = (config.maze, config.maze_budget, config.maze_seed) if config.one_maze else i
            values.setdefault(place, []).append(value)
    return [None if None in v else float(np.mean(v)) for v in values.values()]


def bootstrap_interval(values, level: float = 0.95, resamples: int = 2000) -> tuple[float, float] | None:
    """Percentile bootstrap interval of the mean; None for fewer than two values, or where one is unknown. Keyed draws.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    (0.5, 0.5)
    """
    if len(values) < 2 or any(v is None for v in values):
        return None
    picks = generator(0, "bootstrap").integers(len(values), size=(resamples, len(values)))
    means = np.asarray(values, dtype=float)[picks].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def table(rows: list[dict]) -> str:
    """The rows of :func:`compare` as aligned text; ``start -> end`` for the figures that training moves."""

    def cell(row, name):
        value = row.get(name)
        return "-" if value is None else f"{value:.3f}"

    def moved(row, name):
        if row.get(name) is None:
            return "-"
        return f"{row['start'][name]:.3f} > {row[name]:.3f}" if "start" in row else f"{row[name]:.3f}"

    budgets = [k for k in map(str, BUDGETS) if all(k in row["best_at_k"] for row in rows)]
    header = ["method", "set", "runs", "set reward", "coverage", "one answer", *[f"best@{k}" for k in budgets],
              "diversity", "reach", "repeats"]  # fmt: skip
    lines = [header] + [
        [
            row.get("label", row["method"]), str(row["set"]), str(row.get("runs", 1)), cell(row, "set_reward"),
            moved(row, "coverage"), cell(row, "coverage_best_single"), *[f"{row['best_at_k'][k]:.3f}" for k in budgets],
            moved(row, "diversity"), moved(row, "reach_rate"), cell(row, "repeat_rate"),
        ]
        for row in rows
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    pad = [str.ljust, *[str.rjust] * (len(header) - 1)]
    text = ["  ".join(p(c, w) for p, c, w in zip(pad, line, widths, strict=True)) for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])
