"""notebooks/STUDY.md tells what the stored runs found: its tables, and every number in its text."""

import importlib.util
import re
from pathlib import Path

import pytest

from vpo_lite.studies import declaration

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location(
    "study_page", ROOT / "tests" / "benchmarks" / "study_page.py"
)
study_page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(study_page)
PAGE = study_page.PAGE.read_text()
TABLES = list(study_page.TABLE.finditer(PAGE))


@pytest.mark.parametrize("found", TABLES, ids=lambda found: f"{found[2]} {found[3]}")
def test_a_table_is_what_its_command_prints(found):
    assert found[4] == study_page.table(found[2], found[3].split())


def test_every_command_on_the_page_names_a_study_that_is_declared():
    named = re.findall(r"vpo-lite study ([a-z][\w-]*)", PAGE)
    assert len(TABLES) >= 3 and set(named) <= set(declaration.names())
