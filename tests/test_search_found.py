"""What a search found is saved, and read back as it was."""

import pytest

from vpo_lite.files import DamagedError
from vpo_lite.policy.loading import load_policy
from vpo_lite.search import evolve
from vpo_lite.search.found import read_found, save_found
from vpo_lite.tasks.program_rules import HiddenRules

THREE = HiddenRules(branches=3)


@pytest.mark.parametrize("name", [None, "pocket-programs"])
def test_every_candidate_comes_back_with_where_it_came_from(tmp_path, name):
    policy = name and load_policy(name, device="cpu")
    instances = [THREE.instance(seed) for seed in (0, 1, 2)]
    traces = evolve(policy, THREE, instances, m=2, calls=4, seed=0, fresh=0, tries=3)
    rows = read_found(save_found(traces, tmp_path / "found.jsonl"))
    for p, (trace, x) in enumerate(zip(traces, instances, strict=True)):
        of = [row for row in rows if row.problem == p]
        assert [row.candidates for row in of] == list(range(1, trace.spent.candidates + 1))
        scores = THREE.score([x], [[row.answer for row in of]])[0]
        assert [row.rewards for row in of] == scores.tolist()
        assert max(scores @ trace.weights) == pytest.approx(trace.best[-1])
        assert {tuple(row.weights) for row in of} == {tuple(trace.weights.tolist())}
        assert of[-1].call == trace.spent.calls and of[-1].tokens == trace.spent.tokens
        before = set()
        for row in of:
            assert set(row.parents) <= before and len(row.parents) <= 2
            if len(row.parents) == 2:
                assert row.answer in THREE.combine(x, *row.parents)
            before.add(row.answer)
    assert {len(row.parents) for row in rows} == {0, 1, 2}


def test_a_file_that_is_damaged_or_cannot_be_written_is_told_of_in_one_line(tmp_path):
    path = tmp_path / "found.jsonl"
    path.write_text('{"problem": 0}\n')
    with pytest.raises(DamagedError, match=r"found.jsonl, line 1: field answer is missing"):
        read_found(path)
    with pytest.raises(DamagedError, match="nowhere: there is no such file"):
        read_found(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot be written"):
        save_found([], tmp_path / "nowhere" / "found.jsonl")
