"""What a search found is asked under any weights, saved, and read back as it was."""

import numpy as np
import pytest

from vpo_lite.files import DamagedError
from vpo_lite.policy.loading import load_policy
from vpo_lite.search import beam, evolve, most_probable
from vpo_lite.search.found import Found, Spent, best_found, pareto_front, read_found, save_found
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.tasks.program_rules import HiddenRules
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.evaluate import sample_pools

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


def test_equal_mutations_name_the_parents_that_they_came_from():
    """Those of one call all named the parent of the last."""
    asked = []

    class AlwaysMax(HiddenRules):
        def mutate(self, instance, answer, rng):
            asked.append(answer)
            return "max" if answer else super().mutate(instance, answer, rng)

    task = AlwaysMax(branches=3)
    (trace,) = evolve(None, task, [task.instance(0)], m=8, calls=2, seed=1, fresh=0, tries=0)
    assert len({*asked[8:]}) > 1 == len({one.answer for one in trace.found[8:]})
    assert [list(one.parents) for one in trace.found] == [[a] if a else [] for a in asked]


def test_a_file_that_is_damaged_or_cannot_be_written_is_told_of_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "found.jsonl"
    path.write_text('{"problem": 0}\n')
    with pytest.raises(DamagedError, match=r"found.jsonl, line 1: field answer is missing"):
        read_found(path)
    for missing in ("nowhere", "x" * 300):
        with pytest.raises(DamagedError, match=f"{missing}: there is no such file"):
            read_found(tmp_path / missing)
    with pytest.raises(DamagedError, match=r"cannot be read \(Is a directory\)"):
        read_found(tmp_path)
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "nowhere" / "found.jsonl", tmp_path, "."):
        with pytest.raises(ValueError, match="cannot be written"):
            save_found([], place)
    assert [each.name for each in tmp_path.iterdir()] == ["found.jsonl"]


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_file_that_was_cut_is_refused_and_an_end_without_a_line_break_is_not(tmp_path, kept):
    """Candidates were missing without a word, all of a file of one line."""
    traces = evolve(None, THREE, [THREE.instance(0)], m=1, calls=2, seed=0, tries=0)
    path = save_found(traces, tmp_path / "found.jsonl")
    whole = path.read_bytes()
    first, second = whole.splitlines(keepends=True)
    path.write_bytes(whole.rstrip(b"\n"))
    assert len(read_found(path)) == 2
    path.write_bytes(first + second[:kept])
    with pytest.raises(DamagedError, match=r"found.jsonl, line 2: no JSON"):
        read_found(path)


SEARCHES = {
    "evolve": lambda *what, **how: evolve(*what, m=2, calls=3, seed=0, **how),
    "beam": lambda *what, **how: beam(*what, m=2, width=2, branches=3, **how),
    "most_probable": lambda *what, **how: most_probable(*what, answers=4, max_tokens=40, **how),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_is_saved_with_the_weights_that_it_had(tmp_path, name):
    policy, instances = load_policy("pocket-programs", device="cpu"), [THREE.instance(0)] * 2
    for weights in (None, [np.arange(1, THREE.w_star(x).size + 1) for x in instances]):
        results = SEARCHES[name](policy, THREE, instances, weights=weights)
        rows = read_found(save_found(results, tmp_path / "found.jsonl"))
        assert [r.problem for r in rows] == [p for p, r in enumerate(results) for _ in r.found]
        for row, one in zip(rows, (one for r in results for one in r.found), strict=True):
            assert (row.answer, row.rewards) == (one.answer, one.rewards.tolist())
            assert (row.call, row.tokens, row.candidates) == one.spent
            assert row.parents == list(one.parents)
            if weights is None and name != "evolve":
                assert row.weights is None
            else:
                expected = THREE.w_star(instances[0]) if weights is None else weights[0]
                shown = np.array(row.weights) / sum(row.weights)
                np.testing.assert_allclose(shown, expected / np.sum(expected))
        for result in results:
            assert result.spent.candidates == len(result.found) > 0
            for smaller, larger in zip(result.found, result.found[1:], strict=False):
                assert all(np.array(larger.spent) >= smaller.spent)


KEPT = {"evolve": "traces", "beam": "results", "most_probable": "results"}
STOPPED = [("evolve", 0), ("evolve", 2), ("beam", 0), ("beam", 1), ("most_probable", 0)]


@pytest.mark.parametrize(("name", "calls"), [*STOPPED, ("most_probable", 4)])
def test_what_was_found_before_an_interrupt_is_kept(name, calls, monkeypatch):
    policy, instances = load_policy("pocket-programs", device="cpu"), [THREE.instance(0)] * 2
    whole = SEARCHES[name](policy, THREE, instances)
    method, left = "next_logprobs" if name == "most_probable" else "sample", [*range(calls)]
    call = getattr(type(policy), method)

    def interrupted(*arguments, **settings):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return call(*arguments, **settings)

    monkeypatch.setattr(type(policy), method, interrupted)
    kept = []
    with pytest.raises(KeyboardInterrupt):
        SEARCHES[name](policy, THREE, instances, **{KEPT[name]: kept})
    for cut, result in zip(kept, whole, strict=True):
        part = result.found[: len(cut.found)]
        assert cut.spent.calls == calls and bool(part) == bool(calls)
        assert len(part) < len(result.found)
        for one, same in zip(cut.found, part, strict=True):
            assert one.rewards.tolist() == same.rewards.tolist()
            assert one._replace(rewards=0) == same._replace(rewards=0)
        if name == "beam":  # after a step two sets of one answer, the second is missing
            assert [len(row) - row.count(None) for row in cut.answers] == [1, 1][: 2 * calls]
            assert len(cut.texts) == len(cut.rewards) == len(cut.set_rewards) == 2 * calls
        if name == "most_probable":
            assert cut.answers == result.answers[: len(part)]
            assert cut.logprobs.tolist() == result.logprobs[: len(part)].tolist()
            assert len(cut.rewards) == len(part)
    with pytest.raises(ValueError, match=rf"^{KEPT[name]} = \['x'\]: expected an empty list$"):
        SEARCHES[name](policy, THREE, instances, **{KEPT[name]: ["x"]})


def pools(policy, task, instances):
    return list(sample_pools(policy, task, TrainConfig(task="programs"), instances, 3, 0))


@pytest.mark.parametrize("ask", [*SEARCHES.values(), pools], ids=[*SEARCHES, "pools"])
def test_a_problem_of_another_task_is_named(ask, monkeypatch):
    """An error of the task itself, about a problem of its own, stays what it is."""
    policy, own = load_policy("pocket-programs", device="cpu"), THREE.instance(0)
    said = (
        r"^instances\[1\] = Maze\(text=.*: no problem of task 'programs', whose problems are "
        r"Examples; give task.instance\(seed\)$"
    )
    with pytest.raises(ValueError, match=said) as caught:
        ask(policy, THREE, [own, MazeTask().instance(1000)])
    assert "no attribute" in str(caught.value.__cause__)
    monkeypatch.setattr(HiddenRules, "prompt", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(policy, THREE, [own])


def test_the_best_under_any_weights_and_the_front_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        R = rng.integers(0, 5, (40, d)) / 4  # with many ties
        found = [Found(str(i), row, Spent(1, 1, i + 1)) for i, row in enumerate(R)]
        for w in rng.normal(size=(20, d)):
            scores = [sum(w * row) for row in R]
            best = best_found(found, w)
            assert scores[int(best.answer)] == pytest.approx(max(scores))
            assert not any((R[: int(best.answer)] == best.rewards).all(axis=-1))
        expected = {
            i
            for i in range(40)
            if not any((R[j] >= R[i]).all() and (R[j] > R[i]).any() for j in range(40))
            and not any((R[j] == R[i]).all() for j in range(i))
        }
        front = pareto_front(found)
        assert {int(one.answer) for one in front} == expected
        rows = [one.rewards.tolist() for one in front]
        assert rows == sorted(rows, reverse=True)
    assert best_found([], [1, 1]) is None and pareto_front([]) == []


def test_a_tiny_difference_beside_a_huge_reward_dominates():
    """The sums of these rewards are equal in floating point."""
    spent = Spent(1, 1, 1)
    found = [Found("a", [1e99, 0.0], spent), Found("b", [1e99, 1.0], spent)]
    assert [one.answer for one in pareto_front(found)] == ["b"]


def test_what_is_asked_of_candidates_that_cannot_be_compared_is_refused(tmp_path):
    traces = evolve(None, THREE, [THREE.instance(s) for s in (0, 1)], m=2, calls=2, seed=0)
    rows = read_found(save_found(traces, tmp_path / "found.jsonl"))
    said = (
        r"candidates of 2 problems: give those of one, such as \[c for c in found if c.problem == 0"
    )
    with pytest.raises(ValueError, match=said):
        pareto_front(rows)
    first = [row for row in rows if row.problem == 0]
    weights = np.eye(len(first[0].rewards))[0]
    assert best_found(first, weights).answer == best_found(traces[0].found, weights).answer
    with pytest.raises(ValueError, match=r"weights = 1.0: expected numbers"):
        best_found(first, 1.0)
    with pytest.raises(ValueError, match="expected one pool"):
        best_found(first, [1.0, 2.0])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r, path: save_found(r, path), r"^results = Trace\(.*; \[result\] for one$"),
        (lambda r, path: save_found(r.found, path), "expected the list that a search returns"),
        (lambda r, path: best_found(r, [1, 1]), "expected candidates; give result.found$"),
        (lambda r, path: best_found([r], [1, 1]), "expected candidates; give result.found$"),
        (lambda r, path: pareto_front([r]), "expected candidates; give result.found$"),
    ],
)
def test_what_is_given_in_the_place_of_candidates_or_results_is_named(tmp_path, ask, said):
    (trace,) = evolve(None, THREE, [THREE.instance(0)], m=2, calls=2, seed=0)
    with pytest.raises(ValueError, match=said) as caught:
        ask(trace, tmp_path / "x")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert not (tmp_path / "x").exists()


def test_a_search_may_go_on_after_its_target_for_other_weights():
    """Under its own weights it has found all there is; under others it finds more."""
    x = THREE.instance(0)
    first = np.eye(len(THREE.w_star(x)))[0]  # one test passes: that is soon reached
    how = dict(m=2, calls=30, seed=0, weights=[first])
    (ended,), (went_on,) = (evolve(None, THREE, [x], until_solved=u, **how) for u in (True, False))
    assert ended.solved_at == went_on.solved_at and ended.spent.calls < 30 == went_on.spent.calls
    for one, same in zip(ended.found, went_on.found, strict=False):
        assert (one.answer, one.spent) == (same.answer, same.spent)
    equal = np.ones(len(first))
    less, more = (max(one.rewards @ equal for one in t.found) for t in (ended, went_on))
    assert less < more == best_found(went_on.found, equal).rewards @ equal
