"""What :func:`vpo_lite.compare` found, as text: a table, and how far the first row is ahead."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..estimators import METHODS
from ..intervals import ENOUGH
from ..tasks.record_files import in_short
from .compare import problem_interval
from .measure import BUDGETS
from .schemas import flattened

UNEVEN = 0.07  # of any@k, between policies that serve other objectives: from the mean of 50 weights


def common_budgets(rows: list[dict]) -> list[str]:
    """The k of best@k and any@k that all these rows have, as their keys.

    >>> at_3 = {"1": 0.5, "3": 0.6}
    >>> common_budgets([{"best_at_k": at_3, "any_at_k": at_3}, {"best_at_k": at_3, "any_at_k": {}}])
    []
    """
    figures = [row[name] for row in rows for name in ("best_at_k", "any_at_k")]
    return [k for k in map(str, BUDGETS) if all(k in values for values in figures)]


class Cell(NamedTuple):
    """A figure of a row, the same before training, and the 95 % interval of the figure."""

    now: str
    start: str = ""
    interval: tuple[float, float] | None = None


def columns(rows: list[dict]) -> dict[str, Callable[[dict], Cell]]:
    """{title: what a row of :func:`compare` shows there}, of the table and of the page.

    Coverage is left out where no row has it. A method with one answer per rollout has no repeats,
    since repeats are counted within a rollout.
    """

    def text(value, form=".3f"):
        return "-" if value is None else f"{value:{form}}"

    def moved(name):
        def cell(row):
            now, start = row.get(name), row.get("start")
            began = "" if now is None or not start else text(start.get(name))
            return Cell(text(now), began, row.get("interval", {}).get(name))

        return cell

    def repeats(row):
        single = METHODS[row["method"]].single_answer
        return Cell("-" if single else text(row.get("repeat_rate")))

    budgets = common_budgets(rows)
    of_the_front = {
        "coverage": moved("coverage"),
        "one answer": lambda row: Cell(text(row.get("coverage_best_single"))),
    }
    most = budgets[-1]  # any@3 of sets of three is nearly the set reward
    return {
        "method": lambda row: Cell(row.get("label") or row["method"]),
        "set": lambda row: Cell(str(row["set"])),
        "runs": lambda row: Cell(str(row.get("runs", 1))),
        "tokens": lambda row: Cell(text(row.get("tokens"), ",.0f")),
        "set reward": moved("set_reward"),
        **(of_the_front if any(row["coverage"] is not None for row in rows) else {}),
        **{f"best@{k}": lambda row, k=k: Cell(text(row["best_at_k"][k])) for k in budgets},
        f"any@{most}": lambda row: Cell(text(row["any_at_k"][most])),
        "diversity": moved("diversity"),
        "valid": moved("valid_rate"),
        "repeats": repeats,
        "tokens per answer": lambda row: Cell(text(row["tokens_per_answer"], ".1f")),
    }


def table(rows: list[dict], width: int | None = None) -> str:
    """The rows of :func:`compare` as aligned text, a figure as ``before > after`` where both are
    known. Where that is wider than ``width`` characters, each row becomes a column, if these fit.
    """
    shown = columns(rows)
    cells = [[show(row) for show in shown.values()] for row in rows]
    texts = [[f"{x.start} > {x.now}" if x.start else x.now for x in line] for line in cells]
    lines = [list(shown), *texts]
    wide, narrow = _aligned(lines), _aligned(list(zip(*lines, strict=True)))
    return narrow if width and narrow.index("\n") <= width < wide.index("\n") else wide


def _aligned(lines) -> str:
    """Lines of cells in columns of one width, the first of them to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    pad = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    text = ["  ".join(p(c, w) for p, c, w in zip(pad, line, widths, strict=True)) for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def intervals(figures: dict) -> str:
    """The figures that decide, of one measurement, with their 95 % intervals over its problems, in
    one line; "" for one problem.

    >>> values = {"coverage": [None, None], "set_reward": [0.4, 0.6], "best_at_k": {"1": [0.5] * 2}}
    >>> intervals({"per_problem": values})[:72]
    'In brackets the 95 % interval over 2 problems: set reward 0.500 (-0.771 '
    """
    values = flattened(figures["per_problem"])
    problems = len(values["coverage"])
    most = [name for name in values if name.startswith("any@")][-1:]
    told = [
        f"{name.replace('_', ' ')} {np.mean(values[name]):.3f} ({found[0]:.3f} to {found[1]:.3f})"
        for name in ("coverage", "set_reward", *most, "best@1")
        if name in values and (found := problem_interval(values[name]))
    ]
    over = f"In brackets the 95 % interval over {problems:,} problems"
    return f"{over}: {', '.join(told)}." if told else ""


def temperatures(rows: list[dict]) -> str:
    """At which these rows were sampled, in words; labels and confounders say which at which.

    >>> temperatures([{"temperature": 0.6}, {"temperature": 1.0}, {"temperature": 0.6}])
    'temperatures 0.6 and 1'
    """
    found = [f"{t:g}" for t in sorted({row["temperature"] for row in rows})]
    return f"temperature{'s' * (len(found) > 1)} {' and '.join(found)}"


def dropped(rows: list[dict]) -> list[str]:
    """The records that the data files of these rows lost, as lines of text, with the row's label
    where the rows differ in them. Nothing where no row lost any.

    >>> records = {"data": {"read": 9, "dropped": {"no answer": 2}}}
    >>> dropped([{"label": "vpo", "records": records}, {"label": "grpo", "records": records}])
    ['2 of 9 records of data dropped: no answer (2).']
    """
    every = [row.get("records", {}) for row in rows]
    if not any(file["dropped"] for records in every for file in records.values()):
        return []
    lines = [
        f"{row['label']}: " * any(other != every[0] for other in every)
        + in_short(file, f"records of {name}")
        + "."
        for row, records in zip(rows, every, strict=True)
        for name, file in records.items()
    ]
    return [*dict.fromkeys(lines)]


def differences(rows: list[dict]) -> list[str]:
    """How far the first row of :func:`compare` is ahead of each other one, as lines of text.

    By coverage, or by set reward where the front is unknown; by any@k for the largest k; by best@1.
    A row that was measured on other problems, in sets of another size, or at another alpha, has a
    line that says so, and so has one run on one problem. A difference that is the same on all
    problems is not called significant: nothing is known of its spread.
    """
    lines, far, told, uneven = [], [], {}, []
    for row in rows[1:]:
        labels = f"{rows[0]['label']} - {row['label']}"
        far += [f"{labels}: {why}" for why in _not_compared(rows[0], row)]
        goal = next((n for n in ("coverage", "set_reward") if n in row["ahead"]), None)
        for name in (goal, f"any@{common_budgets(rows)[-1]}", "best@1"):
            if name in row["ahead"]:
                mean, low, high = row["ahead"][name]
                known = "" if low <= 0 <= high or low == high else ", significant"
                told[name] = name.replace("_", " ")
                gap = f"{mean:+.3f} ({low:+.3f} to {high:+.3f}{known})"
                gap = "equal on all problems" if low == high == 0 else gap
                lines.append(f"{labels}: {told[name]} {gap}")
                if known and name.startswith("any@") and abs(mean) < UNEVEN:
                    uneven = [
                        f"{told[name]} is over 50 weights, which favour some objectives: a lead "
                        f"below {UNEVEN} may come from that."
                    ]
    return [*lines, *(_of_chance(rows, told) if lines else []), *uneven, *far]


def _not_compared(first: dict, row: dict) -> list[str]:
    """What cannot be compared of two rows, and why."""
    if others := row["other_problems"]:
        return [f"not compared; their problems differ in {', '.join(others)}"]
    if first["set"] != row["set"]:
        sizes = f"they hold {first['set']} and {row['set']} answers"
        return [f"sets are not compared; {sizes}"]
    if first["problems"] == 1 and not row["ahead"]:
        return ["no interval, since it takes several problems, or several seeds on one"]
    if first["alpha"] != row["alpha"]:
        alphas = f"alpha is {first['alpha']:g} and {row['alpha']:g}"
        return [f"set rewards are not compared; {alphas} (cure: vpo-lite evaluate --alpha)"]
    return []


def _of_chance(rows: list[dict], told: dict[str, str]) -> list[str]:
    """What the intervals hold, and the figures of each run where a row has several. Rows on other
    problems are in no interval.
    """
    compared = [row for row in rows if not row["other_problems"]]
    several = rows[0]["problems"] > 1
    over = f"over the same {rows[0]['problems']} problems" if several else ""
    if not any(len(values) > 1 for row in compared for values in row["per_run"].values()):
        cure = ": train several" if any(row["runs"] == 1 for row in rows) else ""
        left = f"The interval leaves out how seeds differ{cure}."
        return [f"In brackets: the 95 % interval {over}.", left]
    seeds = f"{over}, and over seeds" if several else "over seeds, on this one problem alone"
    few = any(0 < row["runs"] < ENOUGH for row in compared)
    same = "both borrow the spread of all rows, as if they had the same"
    borrowed = f" Where one of two rows has fewer than {ENOUGH} runs, {same}." if few else ""
    lines = [f"In brackets: the 95 % interval {seeds}.{borrowed}"]
    for name, words in told.items():
        runs = [
            f"{row['label']} {', '.join(f'{value:.3f}' for value in row['per_run'][name])}"
            for row in compared
            if name in row["per_run"] and None not in row["per_run"][name]
        ]
        lines.append(f"{words} of each run: {'; '.join(runs)}.")
    return lines
