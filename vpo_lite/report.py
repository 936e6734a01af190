"""Several runs as one HTML page that opens without a network: the table with intervals, the curves, best@k, the settings."""

import html
from pathlib import Path

import numpy as np

from .training.evaluate import BUDGETS, INTERVALS
from .training.runs import RunFolder, write_atomically

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .3em .8em; text-align: right; border-bottom: 1px solid #ccc }
th:first-child, td:first-child { text-align: left }
small { color: #555 }
code { background: #f3f3f3; padding: 0 .2em }
"""
_SHOWN = {"set_reward": "set reward", "coverage": "coverage", "diversity": "diversity", "reach_rate": "reach"}


def write_report(folders, path, rows: list[dict]) -> Path:
    """Write the comparison of finished runs to the HTML file ``path``.

    Args: folders: the runs; path: the file; rows: of :func:`vpo_lite.training.evaluate.compare` for these folders.
    Raises: ValueError when plotly is missing or the file cannot be written.
    """
    try:
        from . import figures
    except ImportError as error:
        raise ValueError(f'--html needs plotly ({error}); cure, in the repository: pip install -e ".[lab]"') from error
    runs = [RunFolder(folder) for folder in folders]
    shown = ("step", "coverage", "diversity", "reach_rate")
    series = {
        row["label"]: [_columns(RunFolder(folder).records(), shown) for folder in row["folders"]] for row in rows
    }  # fmt: skip
    known = all(row.get("coverage_best_single") is not None for row in rows)
    ceiling = {"best single answer": float(np.mean([row["coverage_best_single"] for row in rows]))} if known else {}
    panels = [*(["coverage"] if known else []), "diversity", "reach_rate"]
    curves = figures.curves(_stacked(series), panels=panels, levels={"coverage": ceiling}, width=1150)
    pools = figures.best_at_k({row["label"]: row["best_at_k"] for row in rows}, width=1150)
    parts = [
        f"<h1>{len(runs)} runs of {len(rows)} kinds</h1>",
        "<p>Figures are means over mazes at temperature 1, at equal numbers of <em>answers</em>; in brackets the 95 % "
        "bootstrap interval over mazes. Coverage: expected best answer of a set over that of the true front, α = 1. "
        "<em>One answer</em>: what the best single answer there is would cover.</p>",
        _table(rows),
        "<h2>Over training</h2><p>Before each update; the band spans the runs of a method.</p>",
        curves.to_html(full_html=False, include_plotlyjs=True, include_mathjax=False),
        "<h2>Best of k answers</h2>",
        pools.to_html(full_html=False, include_plotlyjs=False, include_mathjax=False),
        "<h2>Settings</h2>", _settings(runs),
    ]  # fmt: skip
    page = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>vpo_lite: {len(runs)} runs</title>'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )
    try:
        write_atomically(Path(path), page)
    except OSError as error:
        raise ValueError(f"--html {path}: cannot be written ({error.strerror})") from error
    return Path(path)


def _columns(records: list[dict], names) -> dict:
    return {name: [record[name] for record in records] for name in names}


def _stacked(series: dict) -> dict:
    """{method: {name: (runs, steps)}}, cut to the shortest run of the method."""
    stacked = {}
    for method, runs in series.items():
        steps = min(len(run["step"]) for run in runs)
        stacked[method] = {
            name: np.array([run[name][:steps] for run in runs], dtype=float) for name in runs[0] if name != "step"
        } | {"step": np.array(runs[0]["step"][:steps])}
    return stacked


def _table(rows: list[dict]) -> str:
    def cell(row, name):
        if row.get(name) is None:
            return "-"
        interval = row["interval"].get(name) if name in INTERVALS else None
        return f"{row[name]:.3f}" + (f" <small>({interval[0]:.3f}, {interval[1]:.3f})</small>" if interval else "")

    budgets = [k for k in map(str, BUDGETS) if all(k in row["best_at_k"] for row in rows)]
    head = ["method", "set", "runs", *_SHOWN.values(), "one answer", *(f"best@{k}" for k in budgets), "tokens per answer"]
    body = [
        [
            html.escape(row["label"]), str(row["set"]), str(row["runs"]), *(cell(row, name) for name in _SHOWN),
            cell(row, "coverage_best_single"), *(f"{row['best_at_k'][k]:.3f}" for k in budgets),
            f"{row['tokens_per_answer']:.1f}",
        ]
        for row in rows
    ]  # fmt: skip
    lines = ["<tr>" + "".join(f"<th>{h}</th>" for h in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{c}</td>" for c in line) + "</tr>" for line in body]
    return f"<table>{''.join(lines)}</table>"


def _settings(runs) -> str:
    lines = []
    for run in runs:
        config = run.config()
        usual = type(config)().to_json()
        changed = {k: v for k, v in config.to_json().items() if v is not None and v != usual[k]}
        shown = " ".join(f"{k}={v!r}" for k, v in {"method": config.method, **changed}.items())
        lines.append(f"<li>{html.escape(run.path.name)}: <code>{html.escape(shown)}</code></li>")
    return f"<ul>{''.join(lines)}</ul>"
