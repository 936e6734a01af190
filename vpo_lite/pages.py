"""Pages that open offline. Of several runs: table, curves, any@k and best@k, settings. Of rewards:
text and figure of a `RewardReport`.
"""

from pathlib import Path

import numpy as np

from .checks import shortened
from .decomposition import RewardReport, words
from .markup import Html, count, html, joined, page_path, write_page
from .training.confounders import in_one_line
from .training.folders import RunFolder
from .training.side_by_side import Cell, columns, common_budgets, differences, dropped, temperatures

_STYLE = Html("""
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1200px; margin: 2em auto;
  padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .3em .25em; text-align: right; border-bottom: 1px solid #ccc }
th:first-child, td:first-child { text-align: left }
small { color: #555 }
code { background: #f3f3f3; padding: 0 .2em }
.wide { overflow-x: auto }
pre { white-space: pre-wrap }
p, dl { max-width: 48em }
@page { size: landscape; margin: 1cm }
@media print {
  body { margin: 0 }
  .wide { overflow: visible; break-inside: avoid }
  h2, h2 + p { break-after: avoid }
  details:not([open]) { display: none }
}
""")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>vpo_lite: {}</title><style>{}</style>
<main>
<h1>{} of {}</h1>
<p>Figures are means over problems, measured at {} and at equal numbers of
<em>answers</em>. In brackets: the 95 % interval over problems, and over seeds if any row has
several runs. <em>Tokens</em>: sampled in training, mean over the runs. <em>Set reward</em>: the
expected best answer of a set, at the run's α. <em>Coverage</em>: the same at α&nbsp;=&nbsp;1,
divided by that of the true front. <em>One answer</em>: coverage of the best single answer there is.
<em>best@k</em>: the best of k answers under the fixed weights w*. <em>any@k</em>: the same under 50
weights that no training drew. <em>Repeats</em>: answers that repeat an earlier one of their
rollout.</p>
{}
{}
<h2>Over training</h2>
<p>Figures before each update. The band spans the runs of a kind.</p>
{}
<p>The same over the tokens trained on before, in thousands.</p>
{}
{}
<h2>Best of k answers</h2>
{}
<h2>Settings</h2>
{}
</main>
</html>
"""
_REWARDS = """<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>vpo_lite: rewards</title><style>{}</style>
<main>
<h1>vpo_lite: report on rewards</h1>
{}
{}
{}
{}
{}
</main>
</html>
"""
_MEASURED = """<h2>Measured over training</h2>
<p>Figures of the policy after these steps, before and after training, on the problems that are
measured. The band spans the runs of a kind.</p>
{}
"""
WIDTH = 1000  # pixels of a figure: what fits on a sheet of paper
TOKENS, ANSWERS = "tokens, thousands", "k (answers)"
LONGEST = 400  # characters of a setting; a drawn problem fits, a data file does not


def check_page(path) -> None:
    """Raise ValueError where a report cannot be written as this page, or plotly is missing."""
    page_path(path, "the report")
    _figures()


def write_report(folders, path, rows: list[dict]) -> Path:
    """Write the comparison of finished runs as an HTML file; returns its path.

    rows: what `compare` returns for these folders. Raises ValueError where plotly is missing or the
    file cannot be written.
    """
    figures = _figures()
    runs = [RunFolder(folder) for folder in folders]
    known = all(row.get("coverage_best_single") is not None for row in rows)
    ceiling = _ceiling(rows) if known else {}
    single = all(run.config().single for run in runs)  # trained on what it is measured on
    panels = ["coverage" if known else "set_reward", "diversity", "valid_rate"]
    trained = [row for row in rows if not row["elsewhere"]]
    if not trained:
        raise ValueError(
            f"{path}: draws how runs trained, and these models were trained elsewhere; name a run, "
            "too, or leave --html out"
        )
    series = _series(trained, panels)
    how = dict(levels={"coverage": ceiling if single else {}}, width=WIDTH)
    by_step, by_tokens = (figures.curves(series, panels, x=x, **how) for x in ("step", TOKENS))
    for figure in (by_step, by_tokens):  # of rates that are all 1 plotly's axis would end at 2
        figure.update_yaxes(autorangeoptions_maxallowed=1.05, col=panels.index("valid_rate") + 1)
    pictures = [_picture(f, first=f is by_step) for f in (by_step, by_tokens, _pools(rows))]
    drawn = [
        _table(rows),
        _differences(rows),
        *pictures[:2],
        _measured(trained, known, ceiling),
        pictures[2],
        _settings(runs),
    ]
    those, kinds = count(len(runs), "run"), count(len(rows), "kind")
    page = html(_PAGE, those, _STYLE, those, kinds, temperatures(rows), *drawn)
    return write_page(path, page)


def write_rewards(report: RewardReport, path, *, head="", more=(), seen=()) -> Path:
    """Write a report on rewards as an HTML file; returns its path.

    head stands above the report, the paragraphs of more below it, and the texts of seen, line by
    line as they are, below its figure. Raises ValueError where plotly is missing or the file cannot
    be written.
    """
    _figures()
    drawn = ""
    if report.coverage:
        names = [html("{}", name) for name in report.objectives]  # plotly draws tags in its texts
        drawn = _picture(report.figure(objectives=names, width=WIDTH))
    above, *below = (html("<p>{}</p>", part) for part in (head, *more))
    texts = joined(html("<pre>{}</pre>", text) for text in seen)
    parts = (above, words.page(report), joined(below), drawn, texts)
    return write_page(path, html(_REWARDS, _STYLE, *parts))


def _picture(figure, first: bool = True) -> Html:
    """A figure with its words. The first one of a page brings plotly's code."""
    from .figures.parts import CONFIG
    from .figures.words import folded

    drawn = figure.to_html(
        full_html=False, include_plotlyjs=first, include_mathjax=False, config=CONFIG
    )
    return joined([html('<div class="wide">{}</div>', Html(drawn)), folded(figure)])


def _figures():
    """The package of figures. ValueError where plotly is missing."""
    try:
        from . import figures
        from .figures import parts as parts  # loads plotly, which the package itself does not
    except ImportError as error:
        raise ValueError(
            f'--html needs plotly ({error}); cure, in the repository: pip install -e ".[lab]"'
        ) from error
    return figures


def _ceiling(rows: list[dict]) -> dict[str, float]:
    """The coverage of the best single answer to the problems that are measured; nothing where the
    rows are measured on different ones.
    """
    if any(row["other_problems"] for row in rows):
        return {}
    return {"best single answer": rows[0]["coverage_best_single"]}


def _series(rows: list[dict], names) -> dict:
    """{label: {name: (runs, steps)}}, cut to the shortest run of the label; tokens are a mean."""
    series = {}
    for row in rows:
        runs = [RunFolder(folder).records() for folder in row["folders"]]
        steps = range(min(map(len, runs)))
        tokens = np.array([[run[i].tokens for i in steps] for run in runs])
        before = (tokens.cumsum(axis=1) - tokens).mean(axis=0)
        at = {"step": np.array([runs[0][i].step for i in steps]), TOKENS: before / 1000}
        series[_label(row)] = at | {
            name: np.array([[getattr(run[i], name) for i in steps] for run in runs], dtype=float)
            for name in names
        }
    return series


def _measured(rows: list[dict], known: bool, ceiling: dict[str, float]) -> Html:
    """The figures that the runs measured over training; nothing where none did."""
    series, goal = {}, "coverage" if known else "set_reward"
    found = [[_points(RunFolder(folder)) for folder in row["folders"]] for row in rows]
    every = [figures for runs in found for run in runs for figures in run.values()]
    k = common_budgets(every)[-1]
    for row, runs in zip(rows, found, strict=True):
        steps = sorted(set.intersection(*(set(points) for points in runs)))
        if steps:
            figures = [[points[step] for step in steps] for points in runs]
            series[_label(row)] = {
                "step": np.array(steps),
                goal: np.array([[f[goal] for f in run] for run in figures], float),
                f"any@{k}": np.array([[f["any_at_k"][k] for f in run] for run in figures]),
            }
    if not series:
        return Html("")
    panels = [goal, f"any@{k}"]
    how = dict(levels={goal: ceiling}, width=WIDTH)
    return html(_MEASURED, _picture(_figures().curves(series, panels, **how), first=False))


def _pools(rows: list[dict]):
    """any@k and best@k over k, side by side on one scale: both are weighted means of rewards."""
    kinds, series = ("any", "best"), {}
    for row in rows:
        budgets = common_budgets([row])
        values = {f"{kind}@k": [row[f"{kind}_at_k"][k] for k in budgets] for kind in kinds}
        series[_label(row)] = {ANSWERS: [int(k) for k in budgets]} | values
    figure = _figures().curves(series, [f"{kind}@k" for kind in kinds], x=ANSWERS, width=WIDTH)
    every = {k for values in series.values() for k in values[ANSWERS]}
    _figures().over_counts(figure, ANSWERS, every)
    return figure.update_yaxes(matches="y")


def _points(run: RunFolder) -> dict[int, dict]:
    """The figures of a run by the step after which they were measured, 0 for before training.
    Nothing where none were measured on the way.
    """
    between = {row["step"]: row for row in run.measured()}
    if not between:
        return {}
    summary = run.summary()
    return {0: summary["start"]} | between | {summary["steps"]: summary}


def _label(row: dict) -> Html:
    """A row's label for plotly, which draws tags in its texts, too."""
    return html("{}", row["label"])


def _table(rows: list[dict]) -> Html:
    shown = columns(rows)
    body = [[_cell(show(row)) for show in shown.values()] for row in rows]
    lines = [html("<tr>{}</tr>", joined(html('<th scope="col">{}</th>', name) for name in shown))]
    for first, *others in body:
        cells = joined(html("<td>{}</td>", cell) for cell in others)
        lines.append(html('<tr><th scope="row">{}</th>{}</tr>', first, cells))
    scrolls = '<div class="wide" role="region" tabindex="0" aria-label="the runs">{}</div>'
    return html(scrolls, html("<table>{}</table>", joined(lines)))


def _cell(cell: Cell) -> Html:
    bounds = [f"{bound:.3f}" for bound in cell.interval or ()]
    return html("{}{}", cell.now, html(" <small>({}, {})</small>", *bounds) if bounds else "")


def _differences(rows: list[dict]) -> Html:
    told = [line for line in (in_one_line(rows), *differences(rows), *dropped(rows)) if line]
    lines = [html("<li>{}</li>", line) for line in told]
    return html("<ul>{}</ul>", joined(lines)) if lines else Html("")


def _settings(runs) -> Html:
    lines = []
    for run in runs:
        config = run.config()
        usual = type(config)().to_json()
        settings = config.to_json()
        changed = {k: v for k, v in settings.items() if v is not None and v != usual[k]}
        changed |= changed.pop("task_options", {})
        texts = {k: repr(v) for k, v in {"method": config.method, **changed}.items()}
        shown = " ".join(f"{k}={shortened(text, LONGEST)}" for k, text in texts.items())
        lines.append(html("<li>{}: <code>{}</code></li>", run.path.name, shown))
    return html("<ul>{}</ul>", joined(lines))
