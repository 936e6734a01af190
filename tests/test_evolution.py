"""Evolutionary search: the archive, the conditionals and the combinations against brute force, and
searches whose outcome is known since the policy writes what it is told.
"""

import itertools
import re
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import envs
from vpo_lite.policy.loading import load_policy
from vpo_lite.search import evolution
from vpo_lite.search.archive import Archive
from vpo_lite.search.evolution import Spent, evolve
from vpo_lite.search.one_problem import Search
from vpo_lite.tasks import Prompt, Task, task_class
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.call_plans import CallPlans
from vpo_lite.tasks.hop_chains import chains_of
from vpo_lite.tasks.hop_facts import HopFacts
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.tasks.program_rules import OPERATIONS, PROGRAMS, Examples, HiddenRules
from vpo_lite.tasks.program_search import conditionals_of
from vpo_lite.tasks.records import RecordTask
from vpo_lite.tasks.wording import read_numbered, write_numbered
from vpo_lite.training.rollouts import draw_uniforms, sample_answers

TWO, THREE = HiddenRules(branches=2), HiddenRules(branches=3)
LOW_AND_HIGH = Examples(("3072", "2154", "1145", "9009"), ("2703", "4512", "5411", "0110"))
HOPS, PLANS, MAZES = HopFacts(), CallPlans(), MazeTask()


class Scripted:
    """A policy that writes what ``written(call, prompt)`` says, one token for each word."""

    most_positions = None

    def __init__(self, written, pocket=None, task="programs"):
        self.written, self.prompts, self.calls = written, [], 0
        self.pocket = {"task": task} if pocket is None else pocket or None

    def sample(self, prompts, uniforms, temperature=1.0, **how):
        self.calls += 1
        self.prompts.append(list(prompts))
        texts = [self.written(self.calls, prompt) for prompt in prompts]
        counts = torch.tensor([len(text.split()) for text in texts])
        mask = torch.arange(1 + int(counts.max())) < counts[:, None]
        return SimpleNamespace(
            mask=mask, truncated=torch.zeros(len(texts), dtype=bool), texts=texts
        )

    def texts(self, rollouts, prompts):
        return rollouts.texts


def saying(*answers, tag="program"):
    return Scripted(lambda call, prompt: write_numbered(answers, tag))


# --- the archive ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:rewards below 0 or above 1")
@pytest.mark.parametrize("bins, d", [(2, 3), (5, 2), (7, 1), (None, 4)])
def test_an_archive_is_the_best_answer_of_each_cell(bins, d):
    rng = np.random.default_rng(d)
    R = rng.integers(-1, 22, (400, d)) / 20  # some outside of [0, 1], many ties
    weights = rng.dirichlet(np.ones(d))
    archive = Archive(weights, bins)
    names = [f"{i:0{rng.integers(3, 6)}}" for i in range(len(R))]
    for name, r in zip(names, R, strict=True):
        archive.add(name, r)
    n = archive.bins
    assert n == bins or (bins is None and n**d <= 1024 < (n + 1) ** d)

    def number(r):  # in twentieths, so without rounding
        return tuple(min(max(round(20 * x) * n // 20, 0), n - 1) for x in r)

    cells = {}
    for i, r in enumerate(R):
        cells.setdefault(number(r), []).append(i)
    best = {
        c: max(ids, key=lambda i: (weights @ R[i], -len(names[i]), -i)) for c, ids in cells.items()
    }
    assert {c: int(e.answer) for c, e in archive.elites.items()} == best
    assert archive.coverage == len(best) / n**d
    assert archive.qd_score == pytest.approx(sum(weights @ R[i] for i in best.values()))


def test_passed_tests_have_a_cell_for_each_vector_however_many_tests_there_are():
    for d in (1, 4, 8, 12):
        archive = Archive(np.ones(d))
        vectors = list(itertools.product([0, 1], repeat=d))[:300]
        assert len({archive.cell(v) for v in vectors}) == len(vectors)
    bins = {1: 1024, 2: 32, 5: 4, 10: 2, 12: 2}  # whole roots of 1,024, and two at least
    assert {d: Archive(np.ones(d)).bins for d in bins} == bins


def test_an_elite_keeps_its_rewards_when_the_callers_array_is_filled_anew():
    archive, rewards = Archive([0.5, 0.5], bins=2), np.zeros(2)
    for answer, values in (("a", (0, 1)), ("b", (1, 0))):
        rewards[:] = values
        archive.add(answer, rewards)
    assert [e.rewards.tolist() for e in archive.elites.values()] == [[0, 1], [1, 0]]


def test_rewards_outside_of_the_grid_share_the_outer_cells_and_a_warning_says_so(recwarn):
    archive = Archive([0.5, 0.5], bins=4)
    archive.add("a", [-1e-12, 1 + 1e-12])  # rounding
    assert not recwarn
    for rewards in ([-0.1, 0.5], [0.5, 1.1]):
        with pytest.warns(UserWarning, match="the archive's cells divide 0 to 1"):
            archive.add("b", rewards)
    assert {archive.cell([low, 0.5]) for low in (-0.1, -5.0, 0.0)} == {(0, 2)}


def test_cells_are_those_of_the_decimal_numbers():
    archive = Archive([1.0], bins=100)
    assert [archive.cell([k / 100]) for k in range(101)] == [(min(k, 99),) for k in range(101)]


def test_parents_are_different_and_each_is_as_likely():
    archive = Archive([1.0], bins=4)
    for i in range(4):
        archive.add(str(i), [i / 4])
    assert len(archive.parents(np.random.default_rng(0))) == 1
    rng = np.random.default_rng(0)
    drawn = [tuple(e.answer for e in archive.parents(rng, 2)) for _ in range(2_000)]
    counts = {pair: drawn.count(pair) for pair in set(drawn)}
    assert len(counts) == 12 and all(abs(c - 2000 / 12) < 60 for c in counts.values())
    assert {e.answer for e in archive.parents(rng, 9)} == set("0123")
    assert [e.answer for e in archive.parents(rng, 9, fit="2".__eq__)] == ["2"]
    assert Archive([1.0]).parents(rng) == []


@pytest.mark.parametrize(
    "weights", [[], [0.0, 0.0], [[1, 2]], 1.0, [np.nan, 1], [np.inf, 1], ["a"], None, "ab"]
)
def test_an_archive_needs_weights_that_judge(weights):
    with pytest.raises(ValueError, match=r"^weights [^\n]*$"):
        Archive(weights)


@pytest.mark.parametrize(
    "rewards", [[np.nan, 1], [np.inf, 1], [1], [1, 1, 1], [[1, 1]], 1.0, [], ["a", "b"], None]
)
def test_an_archive_keeps_nothing_but_finite_rewards_one_for_each_weight(rewards, recwarn):
    archive = Archive([1, 1])
    for use in (archive.cell, partial(archive.add, "a")):
        with pytest.raises(ValueError, match=r"^rewards [^\n]*$"):
            use(rewards)
    assert not archive.elites and not recwarn


# --- conditionals ---------------------------------------------------------------------------------

BY_TEXT = {
    "reverse": lambda t: t[::-1],
    "left": lambda t: t[1:] + t[0],
    "sort": lambda t: "".join(sorted(t)),
    "plus": lambda t: "".join(str((int(x) + 1) % 10) for x in t),
}


def interpreted(text, given):
    """What an answer makes of an input, read from left to right with a stack of open questions."""
    words, out = text.split(), given

    def skip(i):  # the place after the expression that begins at i
        if words[i][0] != "?":
            while i < len(words) and words[i] != ":" and words[i][0] != "?":
                i += 1
            return i
        return skip(skip(i + 1) + 1)

    i = 0
    while words[i][0] == "?":
        i = i + 1 if given[0] >= words[i][1] else skip(i + 1) + 1
    for word in words[i : skip(i)]:
        out = BY_TEXT[word](out)
    return out


def drawn_conditional(rng, levels):
    if levels == 0 or rng.random() < 0.2:
        return " ".join(rng.choice(list(BY_TEXT), rng.integers(1, 4)))
    sides = (drawn_conditional(rng, levels - 1) for _ in range(2))
    return f"?{rng.integers(1, 10)} {' : '.join(sides)}"


def test_conditionals_do_what_an_interpreter_of_texts_does():
    rng = np.random.default_rng(3)
    texts = [drawn_conditional(rng, 2) for _ in range(200)]
    assert sum(text.count("?") == 3 for text in texts) > 20
    for text in texts:
        inputs = tuple("".join(map(str, row)) for row in rng.integers(0, 10, (6, 4)))
        wanted = [interpreted(text, x) for x in inputs]
        right = rng.random(6) < 0.5
        outputs = (w if r else f"{9999 - int(w):04}" for w, r in zip(wanted, right, strict=True))
        tests = Examples(inputs, tuple(outputs))
        assert TWO.score([tests], [[text]])[0].tolist() == [right.tolist()]
        effect = np.frombuffer(TWO.same_effect(tests, text), np.int8).reshape(6, 4)
        assert ["".join(map(str, row)) for row in effect] == wanted


@pytest.mark.parametrize(
    "text",
    [
        "?5 plus",
        "?5 plus :",
        "?5 : plus",
        "?0 plus : sort",
        "?10 plus : sort",
        "plus : sort",
        "? plus : sort",
        "?5 plus : sort : left",
        "?5 plus ?4 sort : left",
        "?5 plus : nothing",
        "?1 ?2 ?3 plus : sort : left : plus",
        "?1 plus : " * 2_000 + "sort",
        "",
    ],
)
def test_what_is_no_conditional_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"^program .*expected [^\n]*$"):
        TWO.score([LOW_AND_HIGH], [[text]])


def test_no_policy_can_write_a_conditional():
    for text in ("?5 plus : sort", "?5 ?2 plus : left : sort"):
        assert TWO.score([LOW_AND_HIGH], [[text]])[0].shape == (1, 4)
        assert TWO.parse(LOW_AND_HIGH, TWO.write(LOW_AND_HIGH, [text]), 1) == [None]


def test_two_members_give_eighteen_conditionals_and_nothing_deeper_than_two():
    found = conditionals_of("plus", "left sort")
    assert set(found) == {
        f"?{t} {a} : {b}"
        for t in range(1, 10)
        for a, b in itertools.permutations(["plus", "left sort"])
    }
    assert len(found) == 18
    assert len(conditionals_of(found[0], found[9])) == 18
    assert conditionals_of(conditionals_of(found[0], "plus")[0], "sort") == []


@pytest.mark.slow
@pytest.mark.parametrize("task", [TWO, THREE])
def test_the_hidden_rules_under_conditionals_pass_all_tests_and_no_program_does(task):
    for seed in range(12):
        x = task.instance(seed)
        assert not (task.score([x], [list(PROGRAMS)])[0] == 1).all(axis=1).any()
        one = [c for a, b in itertools.combinations(x.rules, 2) for c in task.combine(x, a, b)]
        two = [c for a in one for rule in x.rules for c in task.combine(x, a, rule)]
        scores = task.score([x], [one if task is TWO else two])[0]
        assert (scores == 1).all(axis=1).any()
        assert task.target(x, np.full(len(x.inputs), 0.5)) == len(x.inputs) / 2


def test_without_a_front_the_target_is_the_best_of_rewards_from_0_to_1(monkeypatch):
    monkeypatch.setattr(TWO, "front", lambda instance: None)
    weights = np.array([[1, 1], [1, -1], [-1, 0]])
    assert [Task.target(TWO, TWO.instance(0), w) for w in weights] == [2, 1, 0]


def test_a_mutation_of_programs_changes_one_operation():
    rng = np.random.default_rng(0)
    starts = {TWO.mutate(LOW_AND_HIGH, None, rng) for _ in range(2_000)}
    assert {len(start.split()) for start in starts} == {1, 2, 3} and starts <= set(PROGRAMS)
    for text in ("plus", "plus sort left", "?5 plus sort : ?3 left : reverse left sort"):
        words, lengths = text.split(), set()
        for _ in range(300):
            new = TWO.mutate(LOW_AND_HIGH, text, rng)
            TWO.same_effect(LOW_AND_HIGH, new)  # it can be read
            given = new.split()
            lengths.add(len(given) - len(words))
            one_off = [
                words[:i] + put + words[i + cut :]
                for i in range(len(words) + 1)
                for cut in (0, 1)
                for put in ([], *([name] for name in OPERATIONS))
            ]
            assert given in one_off
        assert lengths == {"plus": {0, 1}, "plus sort left": {-1, 0}}.get(text, {-1, 0, 1})


# --- combinations of other tasks ------------------------------------------------------------------


@pytest.mark.parametrize("seed", [7, 8, 10])
def test_routes_are_joined_where_they_meet(seed):
    maze = envs.generate("lite-6x6", seed)
    steps = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}

    def place(moves):
        return tuple(np.sum([maze.start, *(steps[move] for move in moves)], axis=0))

    some = set()
    for a, b in itertools.combinations(maze.pareto_front().routes, 2):
        wanted = {
            head[:i] + tail[j:]
            for head, tail in ((a, b), (b, a))
            for i in range(len(head) + 1)
            for j in range(len(tail) + 1)
            if place(head[:i]) == place(tail[:j]) and i + len(tail) - j <= maze.budget
        } - {a, b}
        assert set(MAZES.combine(maze, a, b)) == wanted
        some |= wanted
    assert some


def test_random_changes_of_routes_are_routes():
    maze, rng = envs.generate("lite-6x6", 7), np.random.default_rng(0)
    route = maze.pareto_front().routes[0]
    assert len(MAZES.mutate(maze, None, rng)) == maze.budget
    for _ in range(200):
        new = MAZES.mutate(maze, route, rng)
        assert abs(len(new) - len(route)) <= 3 and set(new) <= set("UDLR")
        start = next(
            (i for i, (p, q) in enumerate(zip(new, route, strict=False)) if p != q), len(route)
        )
        end = next(
            (i for i, (p, q) in enumerate(zip(new[::-1], route[::-1], strict=False)) if p != q),
            len(route),
        )
        assert start + end >= len(route) - 3, "at most a stretch of three moves is gone"


def test_two_chains_exchange_their_ends_and_stay_chains():
    x = HOPS.instance(3)
    chains = [c for c in chains_of(x) if len(c.facts) == 3]
    texts = [chain.answer for chain in chains]
    for (a, first), (b, second) in itertools.combinations(zip(chains, texts, strict=True), 2):
        made = HOPS.combine(x, first, second)
        facts = {a.facts[:k] + b.facts[k:] for k in (1, 2)}
        facts |= {b.facts[:k] + a.facts[k:] for k in (1, 2)}
        assert {tuple(map(int, text.split(" = ")[0].split())) for text in made} == facts
        assert (HOPS.score([x], [made])[0][:, 0] == 1).all()
    rumour = next(c for c in chains_of(x) if len(c.facts) == 1)
    assert HOPS.combine(x, rumour.answer, texts[0]) == []


def test_two_plans_exchange_a_call():
    x = PLANS.instance(0)
    (a, b), (c, d) = ([PLANS.call(part, i) for i in (0, 1)] for part in x)
    wanted = {f"{a} ; {d}", f"{b} ; {c}"}
    assert set(PLANS.combine(x, f"{a} ; {c}", f"{b} ; {d}")) == wanted
    assert set(PLANS.combine(x, f"{c} ; {a}", f"{d} ; {b}")) == wanted, "in any order of the calls"
    assert PLANS.combine(x, a, f"{b} ; {d}") == [f"{a} ; {d}"]


def test_every_task_reads_what_it_writes():
    x, maze = HOPS.instance(3), envs.generate("lite-6x6", 7)
    chains = [chain.answer for chain in chains_of(x)[:3]]
    plans = [" ; ".join(PLANS.call(p, i) for p in PLANS.instance(0)) for i in (0, 1)]
    routes = list(maze.pareto_front().routes[:2])
    for task, instance, answers in (
        (HOPS, x, chains),
        (PLANS, PLANS.instance(0), plans),
        (MAZES, maze, routes),
        (TWO, LOW_AND_HIGH, ["plus", "left sort"]),
    ):
        for pocket in (None, {}):
            text = task.write(instance, answers, pocket)
            assert task.parse(instance, text, len(answers)) == answers
    assert MAZES.write(maze, ["RD"]) == "<route_1> R D </route_1>"
    assert HOPS.write(x, [chains[0]], {}).split()[1] in {fact.symbol for fact in x.facts}
    with_code = task_class("programs").modes["faithful"]
    assert with_code.write(None, None, ["x = 1", "y"]) == (
        "```python\nx = 1\n```\n---\n```python\ny\n```"
    )
    for_records = RecordTask.__new__(RecordTask)
    for answers in (["one"], ["one", "two"]):
        text = for_records.write(None, answers)
        assert ("<" in text) == (len(answers) > 1)
        if len(answers) > 1:
            assert [a.strip() for a in read_numbered(text, 2, for_records.tag)] == answers


# --- searches whose outcome is known --------------------------------------------------------------


@pytest.mark.slow
def test_with_both_rules_twenty_candidates_are_enough_and_with_one_none():
    for seed in range(12):
        x = TWO.instance(seed)
        (trace,) = evolve(saying(*x.rules), TWO, [x], m=2, calls=3, seed=seed)
        calls, tokens, candidates = trace.solved_at
        assert calls == 1 and 3 <= candidates <= 20
        assert tokens == trace.tokens[-1] == len(write_numbered(x.rules, "program").split())
        assert trace.best == [trace.target] and np.isclose(trace.target, 1)
        assert (TWO.score([x], [[trace.answer]])[0] == 1).all()
        (alone,) = evolve(saying(x.rules[0]), TWO, [x], m=1, calls=20, seed=seed)
        assert alone.solved_at is None and alone.candidates == list(range(1, 21))
        assert alone.cells == [1] * 20 and alone.answer == x.rules[0]


def test_three_rules_need_a_conditional_in_a_conditional():
    for seed in range(9):
        x = THREE.instance(seed)
        (trace,) = evolve(saying(*x.rules), THREE, [x], m=3, calls=10, seed=seed)
        assert trace.solved_at is not None and trace.solved_at.calls > 1
        assert trace.answer.count("?") >= 2


def test_a_trace_by_hand():
    """reverse passes the first three tests, plus the last; nothing else is ever written."""
    policy = Scripted(
        lambda call, prompt: write_numbered([["sort"], ["reverse"], ["plus"]][call - 1], "program")
    )
    (trace,) = evolve(policy, TWO, [LOW_AND_HIGH], m=1, calls=3, seed=0, tries=0)
    assert trace.best == [0.0, 0.75, 0.75] and trace.cells == [0, 1, 2]
    assert trace.tokens == [3, 6, 9] and trace.candidates == [1, 2, 3]
    assert (trace.answer, trace.solved_at, trace.target) == ("reverse", None, 1.0)
    policy.calls = 0
    (trace,) = evolve(policy, TWO, [LOW_AND_HIGH], m=1, calls=9, seed=0, weights=[[1, 1, 1, 0]])
    assert trace.solved_at == Spent(calls=2, tokens=6, candidates=2) and trace.best == [0, 3]


def test_the_rollouts_of_a_call_are_its_children():
    """Three rollouts of one answer bring what one rollout of three answers brings."""
    texts = [write_numbered([name], "program") for name in ("sort", "reverse", "plus")]

    class Three(Scripted):
        def sample(self, prompts, uniforms, temperature=1.0, **how):
            assert np.shape(uniforms)[:2] == (1, 3)
            return super().sample(prompts * 3, uniforms, temperature, **how)

    policy = Three(lambda call, prompt: texts.pop(0))
    (single,) = evolve(policy, TWO, [LOW_AND_HIGH], m=1, calls=1, rollouts=3, seed=0, tries=6)
    policy = saying("sort", "reverse", "plus")
    (whole,) = evolve(policy, TWO, [LOW_AND_HIGH], m=3, calls=1, seed=0, tries=6)
    assert single.candidates == whole.candidates and single.best == whole.best
    assert single.archive.elites.keys() == whole.archive.elites.keys()
    assert single.tokens == whole.tokens == [9]


def test_an_answer_that_is_malformed_costs_tokens_and_is_no_candidate():
    (trace,) = evolve(saying("plus", "what", "sort"), TWO, [LOW_AND_HIGH], m=3, calls=2, seed=0)
    assert trace.candidates == [2, 4] and trace.tokens == [9, 18]


class Endless(HiddenRules):
    """Nothing reaches the target. ``asked`` holds all that was to be scored, call after call."""

    def target(self, instance, weights):
        return 99.0

    def score(self, instances, answers):
        self.__dict__.setdefault("asked", []).append([list(row) for row in answers])
        return super().score(instances, answers)


@pytest.mark.parametrize("tries, m", [(0, 2), (5, 2), (3, 3)])
def test_the_cap_holds_and_every_combination_is_scored_once(tries, m):
    task = Endless(branches=2)
    x = task.instance(1)
    policy = saying(*x.rules, x.rules[0])
    (trace,) = evolve(policy, task, [x], m=m, calls=40, seed=0, tries=tries)
    made = [row for (row,) in task.asked[1::2]]
    assert len(trace.tokens) == len(made) == 40
    flat = [answer for row in made for answer in row]
    assert all(len(row) <= tries * m for row in made) and len(set(flat)) == len(flat)
    assert np.diff(trace.candidates).tolist() == [m + len(row) for row in made[1:]]
    assert trace.candidates[0] == m + tries * m
    first_pair = set(conditionals_of(*x.rules))
    assert set(flat[:18]) == (first_pair if tries else set()), "one pair after the other"


def test_pairs_that_complement_each_other_come_first():
    task = Endless(branches=3)
    x = task.instance(0)
    some = ["plus", "sort", "left", "reverse", *x.rules]
    valid = [a for a in some if task.score([x], [[a]])[0].any()]
    evolve(saying(*some), task, [x], m=7, calls=1, seed=0, tries=30)
    ((made,),) = task.asked[-1:]
    passed = dict(zip(valid, task.score([x], [valid])[0], strict=True))

    def together(text):
        first, second = text.split(" ", 1)[1].split(" : ")
        return np.maximum(passed[first], passed[second]).sum()

    counts = [together(text) for text in made]
    assert len(set(counts)) > 1 and counts == sorted(counts, reverse=True)


@pytest.mark.slow
def test_the_policy_goes_on_from_a_part_of_a_parent_that_it_can_write():
    task = Endless(branches=2)
    x = task.instance(0)
    policy = saying(*x.rules)
    evolve(policy, task, [x], m=2, calls=200, seed=0, fresh=0.5)
    first, *prefixes = [prompt.prefix for (prompt,) in policy.prompts]
    words = [f"<program_1> {rule}".split() for rule in x.rules]
    parts = {" ".join(w[:k]) for w in words for k in range(2, len(w) + 1)}
    parts |= {"<program_1>"} if any(len(w) == 2 for w in words) else set()
    assert first == "" and set(prefixes) - {""} <= parts
    assert {p.split()[1] for p in prefixes if " " in p} == {w[1] for w in words}
    assert 60 < prefixes.count("") < 140, "half of them begin anew"
    evolve(policy, task, [x], m=2, calls=5, seed=0, fresh=1.0)
    assert {prompt.prefix for (prompt,) in policy.prompts[-5:]} == {""}


def test_models_asked_in_words_are_shown_parents_with_their_rewards():
    policy = Scripted(lambda call, prompt: write_numbered(["reverse"], "program"), pocket={})
    assert policy.pocket is None
    evolve(policy, TWO, [LOW_AND_HIGH], m=1, calls=2, seed=0, fresh=0.0)
    (first,), (second,) = policy.prompts
    assert first == TWO.prompt(LOW_AND_HIGH, 1)
    assert second.text.startswith(first.text + "\n\nThese answers are known")
    assert second.text.endswith(
        "<program_1> reverse </program_1>\ntest 1 1.00, test 2 1.00, test 3 1.00, test 4 0.00"
    )
    assert second.prefix == ""


# --- budgets, seeds and batches with a real policy ------------------------------------------------


@pytest.fixture(scope="module")
def pocket():
    return load_policy("pocket-programs")


def told(trace):
    return trace.tokens, trace.candidates, trace.best, trace.cells, trace.answer, trace.solved_at


@pytest.mark.slow
def test_a_batch_of_problems_is_each_problem_alone_and_a_seed_repeats(pocket):
    task = HiddenRules(operations=2)
    problems = [task.instance(seed) for seed in range(5)]
    how = dict(m=2, calls=8, seed=4)
    together = evolve(pocket, task, problems, **how)
    alone = [evolve(pocket, task, [x], **how)[0] for x in problems[::-1]][::-1]
    assert [told(t) for t in together] == [told(t) for t in alone]
    other = evolve(pocket, task, problems, m=2, calls=8, seed=5)
    assert [told(t) for t in together] != [told(t) for t in other]
    assert any(t.candidates[-1] > 16 for t in together), "some answers were joined"


@pytest.mark.slow
@pytest.mark.slow
def test_always_anew_and_without_joining_it_is_plain_sampling(pocket):
    """The uniforms of the calls in one draw give the same answers for the same tokens."""
    instances = [TWO.instance(seed) for seed in (0, 1)]
    how = dict(m=3, calls=4, seed=5, fresh=1, tries=0, until_solved=False)
    traces = evolve(pocket, TWO, instances, **how)
    for x, trace in zip(instances, traces, strict=True):
        limits = [TWO.max_tokens(x, 3, pocket.pocket)]
        keys = [[(5, "evolution tokens", call, TWO.key(x))] for call in (1, 2, 3, 4)]
        uniforms = np.concatenate([draw_uniforms(1, limits, key) for key in keys], axis=1)
        (plain,) = sample_answers(pocket, TWO, [x], 3, uniforms).groups
        written = [answer for row in plain.answers for answer in row]
        assert [one.answer for one in trace.found] == [a for a in written if a is not None]
        assert trace.tokens == plain.tokens.cumsum().tolist() and trace.spent.calls == 4


def test_tokens_and_candidates_are_those_that_were_sampled_and_scored(pocket, monkeypatch):
    task, groups = Endless(branches=2), []
    sample = evolution.sample_answers

    def recording(*arguments, **settings):
        found = sample(*arguments, **settings)
        groups.append((found, settings["prefixes"]))
        return found

    monkeypatch.setattr(evolution, "sample_answers", recording)
    problems = [task.instance(seed) for seed in range(3)]
    traces = evolve(pocket, task, problems, m=2, calls=10, seed=0, fresh=0.2)
    masks = [found.rollouts.mask.sum(-1).tolist() for found, _ in groups]
    written = np.sum([[g.parsed.sum() for g in found.groups] for found, _ in groups], axis=0)
    assert [t.tokens for t in traces] == np.cumsum(masks, axis=0).T.tolist()
    for p, trace in enumerate(traces):
        assert trace.candidates[-1] == written[p] + sum(len(b[p]) for b in task.asked[1::2])
        asked = [answer for batch in task.asked for answer in batch[p]]
        assert len(asked) == len(set(asked)) < trace.candidates[-1], "each is scored once"
        assert trace.best == sorted(trace.best)
    begun = [(f.groups[p], prefixes[p]) for f, prefixes in groups for p in range(3)]
    assert any(prefix.count(" ") for _, prefix in begun)
    assert all(group.texts[0].startswith(prefix) for group, prefix in begun)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, task", [("pocket-6x6", MAZES), ("pocket-hops", HOPS), ("pocket-calls", PLANS)]
)
def test_other_tasks_are_searched_too(name, task):
    problems = [task.instance(seed) for seed in range(4)]
    traces = evolve(load_policy(name), task, problems, m=3, calls=12, seed=0)
    for x, trace in zip(problems, traces, strict=True):
        best = float(np.max(task.front(x) @ task.w_star(x)))
        assert trace.target == best and trace.best[-1] <= best + 1e-12
        assert (trace.solved_at is None) == (trace.best[-1] < best - 1e-9)
        (score,) = task.score([x], [[trace.answer]])[0] @ task.w_star(x)
        assert score == pytest.approx(trace.best[-1])
    assert sum(trace.solved_at is not None for trace in traces) >= 2


@pytest.mark.slow
def test_random_mutation_needs_no_policy():
    problems = [TWO.instance(seed) for seed in range(6)]
    traces = evolve(None, TWO, problems, m=3, calls=150, seed=0)
    assert {t for trace in traces for t in trace.tokens} == {0}
    assert sum(trace.solved_at is not None for trace in traces) >= 3
    assert [told(t) for t in traces[:2]] == [
        told(t) for t in evolve(None, TWO, problems[:2], m=3, calls=150, seed=0)
    ]
    (maze_trace,) = evolve(None, MAZES, [envs.generate("lite-6x6", 7)], m=20, calls=40, seed=0)
    assert maze_trace.best[-1] > maze_trace.best[0]


class Unknown(Task):
    name = "unknown"

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return "one", "two"

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words("?")

    def score(self, instances, answers):
        return [np.full((len(row), 2), 0.5) for row in answers]


class Pairs(Unknown):
    """An answer is its two rewards. Two answers give nine, none of them any good."""

    name = "pairs"

    def combine(self, instance, first, second):
        return [f"{first} & {second} & {i}" for i in range(9)]

    def target(self, instance, weights):
        return 99.0

    def score(self, instances, answers):
        self.__dict__.setdefault("asked", []).append([list(row) for row in answers])
        return [
            np.array([[0, 0] if "&" in a else a.split() for a in row], float).reshape(-1, 2)
            for row in answers
        ]


def test_pairs_wait_until_the_cap_allows_them_and_end_with_their_elites():
    first, later = ["0.1 0.9", "0.9 0.1"], ["0.1 0.9", "0.9 0.2"]
    policy = Scripted(
        lambda call, prompt: write_numbered(first if call < 3 else later, "answer"), pocket={}
    )
    task = Pairs()
    evolve(policy, task, [1], m=2, calls=20, seed=0, tries=2, archive=partial(Archive, bins=2))
    made = [row for (row,) in task.asked[1::2]]
    assert [len(row) for row in made] == [4, 4, 4, 4, 1] + 15 * [0]
    of = [{answer.rpartition(" & ")[0] for answer in row} for row in made]
    assert of[:2] == [{"0.1 0.9 & 0.9 0.1"}] * 2
    assert of[2:5] == [{"0.1 0.9 & 0.9 0.2"}] * 3, "the ninth of the first pair is never tried"


class Costly(Unknown):
    """A missing answer has the worst vector (-1, -3)."""

    name = "costly"

    def worst(self, instance):
        return np.array([-1.0, -3.0])


def test_before_any_answer_the_best_score_is_that_of_a_missing_one():
    texts = ["nothing to read", write_numbered(["a"], "answer")]
    policy = Scripted(lambda call, prompt: texts[call - 1], pocket={})
    (trace,) = evolve(policy, Costly(), [1], m=1, calls=2, seed=0, weights=[[0.5, 0.25]])
    assert trace.best == [0.5 * -1 + 0.25 * -3, 0.75 * 0.5] and trace.cells == [0, 1]


class Reachable(Pairs):
    name = "reachable"

    def target(self, instance, weights):
        return 0.6


def test_once_the_target_is_reached_nothing_is_joined():
    policy = Scripted(lambda call, p: write_numbered(["0.1 0.9", "0.9 0.3"], "answer"), pocket={})
    task = Reachable()
    (trace,) = evolve(policy, task, [1], m=2, calls=5, seed=0)
    assert trace.solved_at == Spent(calls=1, tokens=8, candidates=2)
    assert trace.candidates == [2] and task.asked == [[["0.1 0.9", "0.9 0.3"]], [[]]]


def test_the_first_of_equal_answers_counts():
    policy = Scripted(lambda call, p: write_numbered(["0.9 0.3", "0.3 0.9"], "answer"), pocket={})
    (trace,) = evolve(policy, Reachable(), [1], m=2, calls=5, seed=0)
    assert trace.solved_at == Spent(calls=1, tokens=8, candidates=1)
    assert trace.answer == "0.9 0.3" and trace.candidates == [2]
    policy = Scripted(lambda call, p: write_numbered(["0 0"], "answer"), pocket={})
    (trace,) = evolve(policy, Pairs(), [1], m=1, calls=1, seed=0)
    assert trace.answer == "0 0", "though a missing answer earns as much"


class Overlapping(Pairs):
    """Two pairs out of three elites give half the same answers."""

    name = "overlapping"

    def combine(self, instance, first, second):
        joined = self.__dict__.setdefault("joined", [])
        joined.append((first, second))
        assert len(joined) < 20, "a pair is tried again and again"
        return [f"& {2 * len(joined) + i}" for i in range(4)]


def test_an_answer_that_two_pairs_give_is_scored_once():
    """Three pairs: & 2 to & 5, & 4 to & 7, & 6 to & 9. Nine may be scored, eight are different."""
    names = ["0.1 0.9", "0.9 0.1", "0.5 0.5"]
    policy = Scripted(lambda call, p: write_numbered(names, "answer"), pocket={})
    task = Overlapping()
    evolve(policy, task, [1], m=3, calls=1, seed=0, tries=3)
    assert len(task.joined) == 3
    assert sorted(task.asked[1][0]) == [f"& {i}" for i in range(2, 10)]


class Changed(Pairs):
    """A mutation notes what it begins from, and moves the rewards by a hundredth."""

    name = "changed"

    def mutate(self, instance, answer, rng):
        self.__dict__.setdefault("begun", []).append(answer)
        return f"{rng.random():.2f} 0.5" if answer is None else answer.replace("0.5", "0.51")


def test_a_mutation_begins_from_an_elite_or_anew():
    for fresh, least, most in ((0.0, 0, 0), (0.5, 70, 130), (1.0, 200, 200)):
        task = Changed()
        evolve(None, task, [1], m=2, calls=101, seed=0, tries=0, fresh=fresh)
        (first, second), rest = task.begun[:2], task.begun[2:]
        assert first is None and second is None, "the archive is empty"
        assert least <= rest.count(None) <= most
        written = {answer for (row,) in task.asked for answer in row}
        assert set(rest) - {None} <= written


@pytest.mark.parametrize(
    "method, value, said",
    [
        ("combine", "0.9 0.9", "gave '0.9 0.9': expected answers, texts"),  # taken letter by letter
        ("combine", ["0.9 0.9", None], "expected answers, texts"),
        ("combine", [["0.9"]], "expected answers, texts"),
        ("combine", None, "gave None: expected answers, texts"),
        ("mutate", 0.5, "expected an answer, a text"),
        ("mutate", "\ud800", "expected an answer, a text"),
        ("target", "0.9", "the score = '0.9': expected a number"),
        ("target", np.ones(2), "expected a number"),
        ("target", None, "expected a number"),
        ("target", float("nan"), "expected a number"),
    ],
)
def test_what_a_task_of_ones_own_gives_a_search_is_checked(monkeypatch, method, value, said):
    monkeypatch.setattr(Changed, method, lambda self, *given: value)
    policy = Scripted(
        lambda call, prompt: write_numbered(["0.1 0.9", "0.9 0.1"], "answer"), pocket={}
    )
    with pytest.raises(TaskError, match=f"^task 'changed': {method}\\(.*{re.escape(said)}"):
        evolve(None if method == "mutate" else policy, Changed(), [1], m=2, calls=2, seed=0)


def test_a_search_may_have_no_goal_and_answers_may_come_one_by_one(monkeypatch):
    monkeypatch.setattr(Changed, "target", lambda self, *given: np.inf)
    monkeypatch.setattr(
        Changed, "combine", lambda self, x, first, second: (f"{first} & {i}" for i in range(2))
    )
    task = Changed()
    (trace,) = evolve(None, task, [1], m=2, calls=3, seed=0, fresh=1.0)
    assert trace.target == np.inf and trace.solved_at is None and len(trace.best) == 3
    assert any("&" in answer for (row,) in task.asked for answer in row)


def test_an_archive_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"archive\(weights\) gave None: expected an Archive"):
        evolve(None, Changed(), [1], m=2, calls=1, seed=0, archive=lambda weights: None)


class Generations(Archive):
    ended = 0

    def end_call(self):
        self.ended += 1


def test_every_call_is_a_generation_of_the_archive():
    policy = Scripted(lambda call, prompt: write_numbered(["0.1 0.9"], "answer"), pocket={})
    (trace,) = evolve(policy, Pairs(), [1], m=1, calls=4, seed=0, archive=Generations)
    assert trace.archive.ended == 4


def test_a_prompt_in_words_shows_two_parents_of_three():
    answers = ["0.1 0.1", "0.9 0.1", "0.1 0.9"]  # a cell each
    policy = Scripted(lambda call, prompt: write_numbered(answers, "answer"), pocket={})
    how = dict(fresh=0.0, tries=0, archive=partial(Archive, bins=2))
    (trace,) = evolve(policy, Pairs(), [1], m=3, calls=9, seed=0, **how)
    assert trace.cells == [3] * 9
    first, *others = [prompt.text for (prompt,) in policy.prompts]
    shown = [frozenset(a for a in answers if f"> {a} <" in text) for text in others]
    assert "known" not in first and {len(pair) for pair in shown} == {2}
    assert set().union(*shown) == set(answers)


@pytest.mark.slow
def test_the_settings_that_are_left_out():
    """A call in four begins anew, 18 combinations for each answer, tokens at temperature 1."""
    task, temperatures = Pairs(), []

    class Warm(Scripted):
        def sample(self, prompts, uniforms, temperature, **how):
            temperatures.append(temperature)
            return super().sample(prompts, uniforms, temperature, **how)

    names = [f"0.{i} 0.{9 - i}" for i in range(6)]
    policy = Warm(lambda call, prompt: write_numbered(names, "answer"), pocket={})
    (trace,) = evolve(policy, task, [1], m=6, calls=400, seed=0)
    joined = 15 * 9  # of all pairs
    assert trace.candidates[:2] == [6 + 6 * 18, 12 + joined]
    begun = sum("known" not in prompt.text for (prompt,) in policy.prompts[1:])
    assert abs(begun - 400 / 4) < 35, "four standard deviations"
    evolve(policy, task, [1], m=6, calls=1, seed=0, temperature=0.5)
    assert temperatures == [1.0] * 400 + [0.5]


def test_a_task_that_knows_nothing_of_search_is_searched_by_its_policy_alone():
    policy = Scripted(lambda call, prompt: write_numbered(["a", "b"], "answer"), pocket={})
    (trace,) = evolve(policy, Unknown(), [1], m=2, calls=3, seed=0)
    assert trace.target == 1.0 and trace.candidates == [2, 4, 6] and trace.best == [0.5] * 3
    with pytest.raises(ValueError, match=r"policy = None: task 'unknown' knows no random"):
        evolve(None, Unknown(), [1], m=2, calls=3, seed=0)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(m=0), "m = 0: "),
        (dict(m=0, policy=None), "m = 0: "),
        (dict(policy=saying("a")), "made for task 'programs', not for 'unknown'"),
        (dict(rollouts=0), "rollouts = 0: "),
        (dict(calls=2.5), "calls = 2.5: "),
        (dict(fresh=1.5), "fresh = 1.5: expected a probability, 0 to 1"),
        (dict(tries=-1), "tries = -1: "),
        (dict(until_solved="no"), "^until_solved = 'no': expected True or False$"),
        (dict(until_solved=None), "^until_solved = None: expected True or False$"),
        (dict(show_weights="no"), "^show_weights = 'no': expected True or False$"),
        (dict(archive=partial(Archive, bins=0)), "bins = 0: "),
        (dict(policy="pocket-6x6"), "policy = 'pocket-6x6': expected a policy; give load_policy"),
        (dict(policy=torch.nn.Linear(1, 1)), "expected a policy; save it, and give load_policy"),
        (dict(task="maze"), "task = 'maze': expected a Task object"),
        (dict(instances=1), "instances = 1: expected a list of problems"),
        (dict(instances="x"), "instances = 'x': expected a list of problems"),
        (dict(instances=[]), r"instances = \[\]: give at least one problem"),
        (dict(seed=-1), "^seed = -1: must be a whole number, 0 or more$"),
        (dict(seed=None), "^seed = None: must be a whole number, 0 or more$"),
        (
            dict(archive=5),
            "archive = 5: expected a function from weights to an empty archive, such",
        ),
        (
            dict(weights=[[0, 0.0]]),
            r"weights = \[0, 0.0\]: expected numbers \(d,\), one for each objective, not all 0",
        ),
        (dict(weights=[]), r"weights holds 0 arrays: expected 1 arrays, one for each problem"),
        (dict(weights=5), "weights = 5: expected 1 arrays, one for each problem"),
        (
            dict(weights=[0.5]),
            r"weights = \[0.5\]: expected 1 arrays, one for each problem; \[w\] \* 1 gives all the",
        ),
        (
            dict(weights=[[1.0]]),
            r"weights of shape \(1,\): expected \(2,\), one for each objective",
        ),
        (dict(weights=[[1.0, np.nan]]), "weights holds 1 values that are NaN"),
    ],
)
def test_what_cannot_work_is_refused(wrong, said):
    right = dict(policy=Scripted(lambda call, prompt: "", pocket={}), task=Unknown())
    right |= dict(instances=[1], m=1, calls=1, seed=0)
    with pytest.raises(ValueError, match=said):
        evolve(**right | wrong)


def test_a_policy_of_another_task_is_refused_before_a_problem_is_looked_at(pocket):
    """No maze can be read as tests of programs, nor the other way round."""
    with pytest.raises(ValueError, match=r"made for task 'programs', not for 'maze'"):
        evolve(pocket, MAZES, [TWO.instance(0)], m=1, calls=1, seed=0)


def test_seeds_are_no_problems_unless_the_problems_of_the_task_are_numbers():
    """Those of `Unknown` are: 1, and 1 as NumPy has it."""
    how = dict(m=1, calls=1, seed=0)
    for seeds in ([TWO.instance(1), 3], [TWO.instance(1), np.int64(3)]):
        with pytest.raises(ValueError) as caught:
            evolve(None, TWO, seeds, **how)
        said = "instances[1] = 3: expected a problem; give task.instance(3)"
        assert str(caught.value) == said
    policy = Scripted(lambda call, prompt: write_numbered(["a"], "answer"), pocket={})
    for number in (1, np.int64(1)):
        (trace,) = evolve(policy, Unknown(), [number], **how)
        assert trace.answer == "a"


# --- what a search keeps, tells and refuses -------------------------------------------------------


def in_words(*answers):
    return Scripted(lambda call, prompt: write_numbered(answers, "answer"), pocket={})


class Crowded(Scripted):
    """A model of few positions: a token for each word of a prompt."""

    most_positions = 40

    def encode(self, prompt):
        return prompt.text.split()


@pytest.mark.parametrize("new, parents", [(10, 2), (11, 1), (18, 1), (19, 0)])
def test_parents_that_do_not_fit_into_the_model_are_left_out(new, parents):
    """The request is one word. The note begins with 13 and has 8 for each parent."""
    text = write_numbered(["0.1 0.9", "0.9 0.1"], "answer")
    policy = Crowded(lambda call, prompt: text, pocket={})
    how = dict(calls=2, seed=0, fresh=0, tries=0, max_new_tokens=new)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (trace,) = evolve(policy, Pairs(), [1], m=2, **how)
    shown = policy.prompts[1][0].text
    assert len(trace.best) == 2 and shown.count("one 0.") == parents
    assert len(shown.split()) == 1 + 13 * (parents > 0) + 8 * parents
    assert {len(one.parents) for one in trace.found if one.spent.calls == 2} == {parents}
    assert [w.filename for w in said] == [__file__] * (parents < 2)
    assert all("40 positions, so it shows fewer parents" in str(w.message) for w in said)


def test_a_limit_of_tokens_holds_for_each_rollout():
    widths = []

    class Limited(Scripted):
        def sample(self, prompts, uniforms, temperature=1.0, **how):
            widths.append(uniforms.shape)
            return super().sample(prompts, uniforms, temperature, **how)

    policy = Limited(lambda call, prompt: write_numbered(["0.1 0.9"], "answer"), pocket={})
    evolve(policy, Pairs(), [1], m=1, calls=2, seed=0, max_new_tokens=7)
    assert widths == [(1, 1, 7)] * 2
    with pytest.raises(ValueError, match="max_new_tokens = 0: "):
        evolve(policy, Pairs(), [1], m=1, calls=2, seed=0, max_new_tokens=0)


class Shows(Pairs):
    name = "shows"

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words(f"weights {None if weights is None else weights.tolist()}")


def test_a_policy_that_reads_weights_in_its_prompt_is_shown_those_of_the_search():
    policy = in_words("0.1 0.9")
    how = dict(m=1, calls=1, seed=0)
    evolve(policy, Shows(), [1, 2], weights=[[1, 3], [2, 2]], show_weights=True, **how)
    evolve(policy, Shows(), [1], weights=[[1, 3]], **how)
    asked = [[prompt.text for prompt in prompts] for prompts in policy.prompts]
    assert asked == [["weights [0.25, 0.75]", "weights [0.5, 0.5]"], ["weights None"]]
    with pytest.raises(ValueError, match=r"weights = \[2.0, -1.0\]: with show_weights none may be"):
        evolve(policy, Shows(), [1], weights=[np.array([2, -1])], show_weights=True, **how)


def test_weights_below_0_have_no_target_where_it_is_not_known():
    """A program that passes the second test only scores -3 * 0 + 1; the front does not hold it."""
    x = TWO.instance(0)
    weights = np.ones(len(TWO.objectives(x)))
    assert TWO.target(x, weights) == len(weights)
    weights[0] = -3
    assert TWO.target(x, weights) == np.inf
    maze = MAZES.instance(0)
    assert MAZES.target(maze, -np.ones(len(MAZES.objectives(maze)))) == np.inf
    with pytest.warns(UserWarning, match="weights below 0: no target is known"):
        (trace,) = evolve(None, TWO, [x], m=3, calls=4, seed=0, weights=[weights])
    assert trace.solved_at is None and len(trace.best) == 4


class Scaled(Changed):
    """Rewards are 0 to 100, or another multiple."""

    name, target, scale = "scaled", Task.target, 100

    def score(self, instances, answers):
        return [self.scale * rewards for rewards in super().score(instances, answers)]


@pytest.mark.filterwarnings("ignore:rewards below 0 or above 1")
@pytest.mark.parametrize(
    "scale, weights, target",
    [(100, [0.5, 0.5], np.inf), (100, [0, -1], 0), (-1, [0.5, 0.5], 1), (-1, [0, -1], np.inf)],
)
def test_rewards_beyond_an_assumed_target_leave_none(scale, weights, target, monkeypatch):
    """Under a weight below 0 it is those below 0."""
    monkeypatch.setattr(Scaled, "scale", scale)
    (trace,) = evolve(None, Scaled(), [1], m=2, calls=5, seed=0, weights=[weights])
    assert (trace.target, trace.solved_at) == (target, None)
    assert len(trace.best) == 5


def test_a_task_that_states_its_target_keeps_it(monkeypatch):
    monkeypatch.setattr(Scaled, "target", lambda self, x, w: 70.0)
    with pytest.warns(UserWarning, match="never counts as solved"):
        (trace,) = evolve(None, Scaled(), [1], m=2, calls=50, seed=0)
    assert trace.target == 70.0 and trace.solved_at is not None


@pytest.mark.parametrize("calls, m, told", [(7, 7, 0), (10, 5, 1), (60, 5, 1)])
def test_answers_that_cannot_be_read_are_told_of_once_from_fifty_on(calls, m, told):
    policy = Scripted(lambda call, prompt: "nothing to read", pocket={})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        evolve(policy, Unknown(), [1], m=m, calls=calls, seed=0)
    assert len(said) == told
    assert all("100% of the answers could not be read" in str(w.message) for w in said)


@pytest.mark.parametrize("read, told", [(1, 1), (2, 0)])
def test_nine_in_ten_unreadable_answers_are_told_of(read, told):
    policy = in_words(*["0.1 0.9"] * read)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        evolve(policy, Pairs(), [1], m=10, calls=5, seed=0, tries=0)
    assert len(said) == told


class Failing(Changed):
    """The third call of the scorer ends in this error."""

    name, error = "failing", RuntimeError("the judge is down")

    def score(self, instances, answers):
        if len(self.__dict__.setdefault("asked", [])) == 4:
            raise self.error
        return super().score(instances, answers)


@pytest.mark.parametrize("error", [RuntimeError("the judge is down"), KeyboardInterrupt()])
def test_what_was_found_before_an_error_is_kept(monkeypatch, error):
    monkeypatch.setattr(Failing, "error", error)
    traces, told = [], []
    with pytest.raises(TaskError if isinstance(error, Exception) else KeyboardInterrupt):
        how = dict(traces=traces, tell=lambda *now: told.append(now))
        evolve(None, Failing(), [1, 2], m=2, calls=5, seed=0, **how)
    assert told == [(0, 5), (1, 5), (2, 5)]
    assert [len(trace.best) for trace in traces] == [2, 2]
    whole = evolve(None, Changed(), [1, 2], m=2, calls=2, seed=0)
    assert [told_of(t) for t in traces] == [told_of(t) for t in whole]
    with pytest.raises(ValueError, match=r"traces = \['x'\]: expected an empty list"):
        evolve(None, Changed(), [1], m=2, calls=2, seed=0, traces=["x"])


def told_of(trace):
    return trace.best, trace.candidates, trace.answer, trace.solved_at


def test_most_pairs_that_wait_are_of_elites_that_are_there(monkeypatch):
    """In a long search the others filled the memory."""
    waiting, combinations = [], Search.combinations

    def spy(self, most):
        found = combinations(self, most)
        waiting.append((len(self.pairs), len(self.trace.archive.elites)))
        return found

    monkeypatch.setattr(Search, "combinations", spy)
    few = partial(Archive, bins=2)
    evolve(None, Changed(), [1], m=2, calls=40, seed=0, tries=0, archive=few)
    assert max(waiting)[0] > 1 and all(pairs <= n**2 for pairs, n in waiting)


def test_equal_problems_give_equal_traces_and_another_seed_others():
    first, second = evolve(None, Changed(), [1, 1], m=2, calls=4, seed=0)
    (other,) = evolve(None, Changed(), [1], m=2, calls=4, seed=1)
    assert told_of(first) == told_of(second) != told_of(other)


def test_a_task_that_gives_no_mutation_once_is_named_with_the_answer(monkeypatch):
    monkeypatch.setattr(
        Changed, "mutate", lambda self, x, answer, rng: None if answer else "0.5 0.5"
    )
    said = r"^task 'changed': mutate\(instance, '0.5 0.5', rng\) gave None: expected an answer"
    with pytest.raises(TaskError, match=said):
        evolve(None, Changed(), [1], m=2, calls=9, seed=0)


def test_a_reward_that_is_no_number_is_told_of_without_a_note(monkeypatch):
    """The message names the answer already, and the form of the answer is not at fault."""
    monkeypatch.setattr(Changed, "score", lambda self, x, answers: [np.full((2, 2), np.nan)])
    with pytest.raises(TaskError, match=r"gave answer '0.\d+ 0.5' the rewards") as caught:
        evolve(None, Changed(), [1], m=2, calls=1, seed=0)
    assert not hasattr(caught.value, "__notes__")


def test_an_answer_of_the_tasks_own_that_its_scorer_cannot_take_is_named(monkeypatch):
    """The scorer splits an answer into two numbers."""
    monkeypatch.setattr(Changed, "mutate", lambda self, x, answer, rng: "zzz" if answer else "1 0")
    with pytest.raises(ValueError, match="could not convert") as caught:
        evolve(None, Changed(), [1], m=2, calls=9, seed=0)
    (note,) = caught.value.__notes__
    assert note.startswith("task 'changed': raised when scoring 'zzz', which mutate(...) gave")
    monkeypatch.setattr(Changed, "combine", lambda self, x, first, second: ["yyy"])
    with pytest.raises(ValueError) as caught:
        evolve(in_words("0.1 0.9", "0.9 0.1"), Changed(), [1], m=2, calls=1, seed=0)
    assert "scoring 'yyy', which combine(...) gave" in caught.value.__notes__[0]


def test_an_answer_that_comes_again_is_scored_once_and_counts_each_time():
    task = Pairs()
    policy = in_words("0.1 0.9", "0.1 0.9", "0.9 0.1")
    (trace,) = evolve(policy, task, [1], m=3, calls=4, seed=0, tries=0)
    assert trace.candidates == [3, 6, 9, 12]
    assert [row for (row,) in task.asked if row] == [["0.1 0.9", "0.9 0.1"]]


def test_a_search_ends_when_its_tokens_or_candidates_are_spent():
    task = Unreached()
    how = dict(m=2, calls=9, seed=0, fresh=1)

    def searched(**budget):
        policy = in_words("0 0", "0 1")  # 8 tokens and 2 candidates a call
        (trace,) = evolve(policy, task, [1], **how, **budget)
        return trace.spent, policy.calls

    assert searched() == (Spent(9, 72, 18), 9)
    assert searched(max_tokens=24) == (Spent(3, 24, 6), 3)
    assert searched(max_tokens=25) == (Spent(4, 32, 8), 4)  # the last call goes beyond
    assert searched(max_candidates=5) == (Spent(3, 24, 6), 3)
    assert searched(max_tokens=24, max_candidates=3) == (Spent(2, 16, 4), 2)
    for name in ("max_tokens", "max_candidates"):
        with pytest.raises(ValueError, match=f"{name} = 0: expected a whole number"):
            searched(**{name: 0})
    with pytest.raises(ValueError, match="max_tokens = 9: without a policy no token is sampled"):
        evolve(None, task, [1], m=1, calls=1, seed=0, max_tokens=9)


class Unreached(Task):
    """Answers are two numbers, their rewards; no target is known."""

    name, tag = "unreached", "answer"

    def instance(self, seed):
        return seed

    def objectives(self, instance):
        return ("a", "b")

    def prompt(self, instance, m, **_):
        return Prompt.words("Write.")

    def vector(self, instance, answer):
        return [float(part) for part in answer.split()]

    def target(self, instance, weights):
        return np.inf
