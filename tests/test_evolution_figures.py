"""The figures of evolution show the numbers they are given, told apart without colour."""

import itertools

import numpy as np
import pytest

from vpo_lite.figures import evolution, looks

PASSES = {"sort": [1, 0, 0, 1], "plus": [0, 1, 1, 0]}
EARLY, LATE = [[1, 0, 0]], [[1, 0, 0], [0, 1, 1], [1, 1, 1]]
HISTORIES = {"policy": [EARLY, LATE], "mutations": [[], EARLY, EARLY + [[0, 1, 0]]]}
SOLVED = {"vpo, m = 3": [30, None, 90, 30], "grpo": [60, None, np.nan, None]}

FIGURES = {
    "passes_table": lambda: evolution.passes_table(PASSES, ["12", "34", "56", "78"]),
    "archive_grid": lambda: evolution.archive_grid({"a": LATE, "b": ()}, 3),
    "archive_growth": lambda: evolution.archive_growth(HISTORIES, 3),
    "share_solved": lambda: evolution.share_solved(SOLVED, 120),
}


def test_a_table_of_tests_has_a_tick_where_one_is_passed():
    (drawn,) = FIGURES["passes_table"]().data
    assert np.array_equal(drawn.z, list(PASSES.values())) and len(drawn.x) == 4
    assert np.array_equal(np.array(drawn.text) == "✓", np.array(drawn.z) == 1)
    assert [name.split()[0] for name in drawn.y] == ["sort", "plus"] and "2 of 4" in drawn.y[0]


@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_every_pattern_of_tests_has_a_cell_of_its_own_and_more_tests_stand_further(d):
    seen = {}
    for bits in itertools.product((0, 1), repeat=d):
        cells = evolution.archive_cells([bits], d)
        assert cells.size == 2**d and np.isfinite(cells).sum() == 1
        (place,) = zip(*np.nonzero(np.isfinite(cells)), strict=True)
        assert cells[place] == sum(bits)
        seen[place] = bits
    assert len(seen) == 2**d
    last = tuple(np.array(cells.shape) - 1)
    assert seen[last] == (1,) * d and seen[0, 0] == (0,) * d
    first = d - d // 2
    for (row, column), bits in seen.items():
        for (other, beside), more in seen.items():
            assert row <= other or sum(bits[:first]) >= sum(more[:first])
            assert column <= beside or sum(bits[first:]) >= sum(more[first:])


def test_an_archive_is_drawn_with_what_its_elites_pass_and_the_frame_of_the_solution():
    figure = FIGURES["archive_grid"]()
    paper, elites, _, empty = figure.data
    assert np.nansum(np.array(elites.z, float)) == 1 + 2 + 3
    assert np.isfinite(np.array(elites.z, float)).sum() == 3
    assert np.isnan(np.array(empty.z, float)).all() and np.shape(paper.z) == np.shape(elites.z)
    assert [a.text for a in figure.layout.annotations] == [
        "a: 3 cells, best 3 of 3",
        "b: 0 cells, best 0 of 3",
    ]
    assert [(s.x0, s.x1, s.y0, s.y1) for s in figure.layout.shapes] == [(0.5, 1.5, 2.5, 3.5)] * 2
    assert elites.y[-1] == "●●" and elites.x[-1] == "●"  # the frame is at the last of both
    assert elites.texttemplate == "%{z}"  # a number in each cell, not only a colour


def test_the_slider_shows_the_archive_after_each_call_and_the_last_of_one_that_ended():
    figure = FIGURES["archive_growth"]()
    (slider,) = figure.layout.sliders
    assert [step.label for step in slider.steps] == ["1", "2", "3"] and slider.active == 2
    states = zip([EARLY, LATE, LATE], HISTORIES["mutations"], strict=True)
    for step, archives in zip(slider.steps, states, strict=True):
        changes, words, where = step.args
        assert [figure.data[i].name for i in where] == list(HISTORIES)
        for z, rewards, text in zip(changes["z"], archives, words.values(), strict=True):
            wanted = evolution.archive_cells(rewards, 3)
            np.testing.assert_array_equal(np.array(z, float), wanted)
            assert f"{len(rewards)} cells" in text
    assert list(words) == ["annotations[0].text", "annotations[1].text"]
    for i, z in zip(where, changes["z"], strict=True):  # it opens at the last call
        np.testing.assert_array_equal(np.array(figure.data[i].z, float), np.array(z, float))


def test_the_share_solved_counts_searches_that_reached_the_target_by_then():
    vpo, grpo = FIGURES["share_solved"]().data
    assert list(vpo.x) == [0, 30, 90, 120] and list(vpo.y) == [0, 0.5, 0.75, 0.75]
    assert list(grpo.x) == [0, 60, 120] and list(grpo.y) == [0, 0.25, 0.25]
    assert vpo.line.shape == "hv"  # nothing is solved between two moments
    for trace, method in ((vpo, "vpo"), (grpo, "grpo")):
        drawn = (trace.line.color, trace.marker.symbol, trace.line.dash)
        assert drawn == looks.STYLES[method][1:] and max(trace.marker.size) > 0
    (none,) = evolution.share_solved({"a": [None, None]}, 10).data
    assert list(none.y) == [0, 0]
    (late,) = evolution.share_solved({"a": [np.inf, 3, 60, np.nan]}, 9).data
    assert (list(late.x), list(late.y)) == ([0, 3, 9], [0, 0.25, 0.25])  # 60 is beyond
    with pytest.raises(ValueError, match=r"^solved\['a'\] is empty"):
        evolution.share_solved({"a": []}, 9)


def test_without_an_archive_or_a_state_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match="archives is empty"):
        evolution.archive_grid({}, 3)
    for histories in ({}, {"a": []}):
        with pytest.raises(ValueError, match="expected at least one search"):
            evolution.archive_growth(histories, 3)


@pytest.mark.parametrize("vector", [[0, 1], [0, 1, 0.5], [0, 1, 2]])
def test_rewards_that_are_no_tests_are_refused(vector):
    with pytest.raises(ValueError, match="expected 3 numbers, each 0 or 1"):
        evolution.archive_cells([vector], 3)
