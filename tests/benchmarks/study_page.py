"""Write the tables of notebooks/STUDY.md again, from the stored runs.

    .venv/bin/python tests/benchmarks/study_page.py

A table stands below a line <!-- vpo-lite study NAME --table FIGURE ... --> and is what this command
prints of the runs in vpo_lite/studies/shipped/NAME. tests/test_study_page.py compares.
"""

import re
from pathlib import Path

from vpo_lite.studies import declaration, searches, tables
from vpo_lite.studies.results import SHIPPED

PAGE = Path(__file__).parents[2] / "notebooks" / "STUDY.md"
TABLE = re.compile(r"(<!-- vpo-lite study (\S+) --table (.+?) -->\n)((?:\|.*\n)*)")


def table(name: str, figures: list[str]) -> str:
    """The table that the command prints, as lines."""
    study, folder = declaration.read(name), SHIPPED / name
    if figures == ["search"]:
        return searches.markdown(study, folder) + "\n"
    return tables.markdown(study, folder, figures) + "\n"


def written(page: str) -> str:
    """The page with every table as the stored runs give it."""
    return TABLE.sub(lambda found: found[1] + table(found[2], found[3].split()), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
