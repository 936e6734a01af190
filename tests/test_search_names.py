"""What `vpo_lite.search` names, without loading it before it is needed."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vpo_lite.search as search


def test_the_searches_are_at_hand_and_the_help_names_each():
    from vpo_lite.search.evolution import evolve
    from vpo_lite.search.found import best_found, pareto_front, read_found, save_found
    from vpo_lite.search.tree import beam, most_probable

    there = (evolve, beam, most_probable, best_found, pareto_front, save_found, read_found)
    assert all(getattr(search, each.__name__) is each for each in there)
    assert set(search.__all__) == {"best_of", *(each.__name__ for each in there)}
    helped = search.__doc__.replace("`.", "`")
    assert all(f"`{name}`:" in helped for name in search.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'evolv'"):
        search.evolv  # noqa: B018


@pytest.mark.slow
def test_to_name_the_package_loads_no_torch():
    code = "import sys, vpo_lite.search; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "answers, best", [([["a", None], ["b", "c"]], (0.5, "c")), ([[None] * 2] * 2, None)]
)
def test_the_example_of_the_reference_takes_a_pool_in_which_nothing_can_be_read(answers, best):
    page = (Path(__file__).parents[1] / "notebooks" / "REFERENCE.md").read_text()
    code = page[page.index("written = [answer for rollout") :].partition("```")[0]
    rewards = np.array([[[0.1, 0], [9.0, 0]], [[0.2, 0], [0.5, 0]]])
    found = {"pool": SimpleNamespace(answers=answers, rewards=rewards)}
    exec(code, found)
    assert found["found"] == best
