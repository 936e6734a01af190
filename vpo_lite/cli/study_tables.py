"""The tables that ``vpo-lite study NAME --table`` prints."""

from ..checks import for_shell, shown
from .flags import Wrong, requests

RATES = ["any@1", "any@3", "any@30"]
FIGURES = ["best@1", "best@30", "any@1", "any@3", "any@30", "coverage", "diversity", "valid"]


def print_table(study, folder, asked: list[str]) -> None:
    """Print the table that these words ask for; none: of the usual figures."""
    from ..studies import results, searches, tables

    shipped = results.SHIPPED / study.name
    ours = f", or our results with --out {for_shell([str(shipped)])}" if shipped.is_dir() else ""
    with requests():
        if asked == ["search"]:
            if not searches.finished(study, folder):
                raise Wrong(f"{folder}: no finished searches; do them with --search{ours}")
            table = searches.markdown(study, folder)
        elif asked[:1] == ["rates"]:
            figures = _figures(study, asked[1:], RATES)
            table = tables.rates_markdown(study, folder, figures)
            if len(table.splitlines()) == 2:  # its head alone
                raise Wrong(f"{folder}: no finished run; see --plan{ours}")
        else:
            figures = _figures(study, asked, FIGURES)
            if not results.chosen(study, folder):
                raise Wrong(
                    f"{folder}: no kind is finished at every learning rate; see --plan{ours}"
                )
            table = tables.markdown(study, folder, figures)
    print(table)


def _figures(study, asked: list[str], usual: list[str]) -> list[str]:
    """The figures that were asked for, or the usual ones. Wrong for one that is not measured."""
    from ..studies import tables

    there = tables.measured(study)
    for figure in asked:
        if figure == "search":
            raise Wrong("--table search: a table of its own; ask for it alone")
        if figure not in tables.WORDS:
            raise Wrong(
                f"--table {shown(figure)}: there are {', '.join(there)}; before them rates, or "
                "search alone"
            )
        if figure not in there:
            raise Wrong(
                f"--table {figure}: study {study.name} measures {study.measured.answers} answers; "
                f"there are {', '.join(there)}"
            )
    return asked or tables.measured(study, usual)
