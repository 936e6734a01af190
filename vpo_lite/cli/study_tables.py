"""The tables that ``vpo-lite study NAME --table`` prints."""

from ..checks import shown
from ..messages import for_shell
from .flags import Wrong, note, requests
from .told import LEAST_READ

RATES = ["any@1", "any@3", "any@30"]
FIGURES = ["best@1", "best@30", "any@1", "any@3", "any@30", "coverage", "diversity", "valid"]


def print_table(study, folder, asked: list[str]) -> None:
    """Print the table that these words ask for; none: of the usual figures."""
    from ..studies import results, searches, tables

    shipped = results.SHIPPED / study.name
    ours = f", or our results with --out {for_shell([str(shipped)])}" if shipped.is_dir() else ""
    with requests():
        if asked == ["search"]:
            found = searches.finished(study, folder)
            if not found:
                raise Wrong(f"{folder}: no finished searches; do them with --search{ours}")
            table = searches.markdown(study, folder)
            if study.baseline not in found:
                note(f"nothing is compared: {study.baseline} has no finished search")
            else:
                note("the sign test counts problems; it leaves out how runs differ by their seeds")
        elif asked[:1] == ["rates"]:
            figures = _figures(study, asked[1:], RATES)
            table = tables.rates_markdown(study, folder, figures)
            if len(table.splitlines()) == 2:  # its head alone
                raise Wrong(f"{folder}: no finished run; see --plan{ours}")
            _tell_of_unequal(study, folder)
        else:
            figures = _figures(study, asked, FIGURES)
            found = results.chosen(study, folder)
            if not found:
                raise Wrong(
                    f"{folder}: no kind is finished at every learning rate; see --plan{ours}"
                )
            table = tables.markdown(study, folder, figures)
            _tell_of_missing(study, folder, found)
            if study.baseline in found:
                _tell_of_chance(study, found)
            _tell_of_figures(study, folder, found, figures)
    print(table)


def _tell_of_missing(study, folder, found) -> None:
    """Say which kinds have no row or lack runs, and that nothing is marked without the baseline."""
    from ..studies import tables
    from ..studies.results import state

    missing = {k: study.tuning(k) for k in study.kinds if k not in found}
    failed = [k for k, jobs in missing.items() if {state(folder, j) for j in jobs} == {"failed"}]
    for why, kinds in (
        ("failed at every learning rate", failed),
        ("not finished at every learning rate", [k for k in missing if k not in failed]),
    ):
        if kinds:
            note(f"left out, since {why}: {', '.join(kinds)}")
    waits = []
    for kind, rows in found.items():
        done, failures = tables.ended(study, folder, kind, rows[0].config["lr"])
        if len(done) + failures < study.seeds(kind):
            waits.append(f"{kind} has {len(rows)} of {study.seeds(kind)}")
    if waits:
        note(f"not all runs are finished: {', '.join(waits)}")
    if study.baseline in missing:
        note(f"nothing is marked + or -: the baseline {study.baseline} is left out")
    elif other := [kind for kind in found if not study.alike(kind, study.baseline)]:
        note(
            f"never marked + or -, since measured on other problems than {study.baseline} or "
            f"scored otherwise: {', '.join(other)}"
        )


def _tell_of_chance(study, found) -> None:
    """Say what + and - leave out or borrow where there are few runs, and what one problem means."""
    from ..intervals import ENOUGH

    runs = {kind: len(rows) for kind, rows in found.items() if study.kinds[kind].trained}
    if max(runs.values(), default=0) < 2:
        note("+ and - leave out how seeds differ, since no kind has two runs")
    elif few := [kind for kind, many in runs.items() if many < ENOUGH]:
        note(
            f"where a kind has fewer than {ENOUGH} runs, + and - borrow the spread of all kinds, "
            f"as if they had the same: {', '.join(few)}"
        )
    if study.tuning(study.baseline)[0].judged.single:
        note("learning rates are chosen on the one problem of this table, by other answers to it")


def _tell_of_figures(study, folder, found, figures: list[str]) -> None:
    """Say why cells are blank or not marked, and of which kinds hardly an answer could be read."""
    from ..studies import tables

    kept = next(run for rows in found.values() for run in rows).per_problem
    rows = tables.means(study, folder, {*figures, "parsed"})
    blank = [f for f in figures if any(row[f] is None for row in rows.values())]
    if blank:
        note(f"blank where the true front of a problem is not known: {', '.join(blank)}")
    if without := [f for f in figures if "@" in f and f not in kept]:
        k = ", ".join(name.partition("@")[2] for name in kept if name.startswith("any@"))
        note(
            f"never marked + or -: {', '.join(without)}; single problems are kept at k = {k} alone"
        )
    if few := [kind for kind, row in rows.items() if row["parsed"] < LEAST_READ]:
        note(
            f"of these kinds fewer than {LEAST_READ:.0%} of the answers could be read, so + and - "
            f"say little of methods: {', '.join(few)}"
        )


def _tell_of_unequal(study, folder) -> None:
    """Say which kinds have more runs at one learning rate than at another."""
    from ..studies import tables

    runs = {
        kind: {row.runs for row in tables.at_every_rate(study, folder, kind, ()).values()}
        for kind in study.kinds
    }
    if kinds := [kind for kind, numbers in runs.items() if len(numbers) > 1]:
        note(
            "means at some rates are over fewer runs than at others, and --every-rate makes them "
            f"equal: {', '.join(kinds)}"
        )


def _figures(study, asked: list[str], usual: list[str]) -> list[str]:
    """The figures that were asked for, or the usual ones. Wrong for one that is not measured."""
    from ..studies import tables

    there = tables.measured(study)
    for figure in asked:
        if figure == "search":
            raise Wrong("--table search: a table of its own; ask for it alone")
        name, at, k = figure.partition("@")
        of_k = at and k.isdecimal() and k[0] != "0" and f"{name}@1" in there
        if figure not in tables.WORDS and not of_k:
            raise Wrong(
                f"--table {shown(figure)}: there are {', '.join(there)}; also --table rates "
                "[FIGURE ...] and --table search"
            )
        if not tables.measured(study, [figure]):
            raise Wrong(
                f"--table {figure}: study {study.name} measures {study.measured.answers} answers; "
                f"there are {', '.join(there)}"
            )
    most = min(study.measured.answers, 30)
    return asked or [
        *dict.fromkeys(tables.measured(study, [f.replace("@30", f"@{most}") for f in usual]))
    ]
