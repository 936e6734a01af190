"""Questions on drawn facts: chains, rewards and fronts against a walk over all permutations, golden
values, and a parser that takes only what is asked for.
"""

import hashlib
import itertools
import random
from collections import Counter

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.exact import best_single
from vpo_lite.objective import nondominated
from vpo_lite.tasks import Task, task_class
from vpo_lite.tasks.hop_chains import FACT_SYMBOLS, PEOPLE, Fact, HopQuestion, chains_of, drawn
from vpo_lite.tasks.hop_facts import HopFacts
from vpo_lite.tasks.hop_records import HopRecords, Question
from vpo_lite.tasks.hops import HopsTask
from vpo_lite.training.answers import read_answers

TASK, WEAKEST = HopFacts(), HopFacts(along="weakest")
HAND = HopQuestion(
    "Ada",
    ("boss", "friend"),
    (
        Fact("archive", "Ada", "boss", "Ben", 10, 2),
        Fact("news", "Ada", "boss", "Ben", 1, 10),
        Fact("archive", "Ben", "friend", "Eva", 10, 0),
        Fact("news", "Ben", "friend", "Eva", 3, 10),
        Fact("rumour", "Ada", "", "Eva", 2, 1),
        Fact("archive", "Ada", "friend", "Eva", 10, 3),  # another relation
        Fact("news", "Ben", "boss", "Ivo", 0, 10),
        Fact("news", "Cleo", "friend", "Eva", 0, 10),  # another head
    ),
)


@pytest.mark.parametrize(
    ("answer", "mean", "weakest"),
    [
        ("1 3 = Eva", (1, 1, 0.1, 2 / 3), (1, 1, 0, 2 / 3)),
        ("2 4 = Eva", (1, 0.2, 1, 2 / 3), (1, 0.1, 1, 2 / 3)),
        ("2 3 = Eva", (1, 0.55, 0.5, 2 / 3), (1, 0.1, 0, 2 / 3)),
        ("1 4 = Eva", (1, 0.65, 0.6, 2 / 3), (1, 0.3, 0.2, 2 / 3)),
        ("3 1 = Eva", (1, 1, 0.1, 2 / 3), (1, 1, 0, 2 / 3)),  # in any order
        ("5 = Eva", (1, 0.2, 0.1, 1), (1, 0.2, 0.1, 1)),
        *((wrong, (0,) * 4, (0,) * 4) for wrong in ("1 3 = Ben", "5 = Ben", "1 = Ben", "3 = Eva")),
        *((wrong, (0,) * 4, (0,) * 4) for wrong in ("1 6 = Eva", "1 8 = Eva", "1 7 = Ivo")),
        *((wrong, (0,) * 4, (0,) * 4) for wrong in ("1 2 3 = Eva", "1 3 5 = Eva", "6 = Eva")),
        *((wrong, (0,) * 4, (0,) * 4) for wrong in ("1 9 = Eva", "0 = Eva", "1 rumour>Eva = Eva")),
    ],
)
def test_vectors_by_hand(answer, mean, weakest):
    for task, expected in ((TASK, mean), (WEAKEST, weakest)):
        (R,) = task.score([HAND], [[answer]])
        assert R[0].tolist() == pytest.approx(expected)
        assert task.valid(HAND, R).tolist() == [expected[0] == 1]


def test_the_fronts_by_hand():
    """Chain 2 3 is below chain 1 4, under the mean and under the weakest fact."""
    expected = {(1, 1, 0.1, 2 / 3), (1, 0.2, 1, 2 / 3), (1, 0.65, 0.6, 2 / 3), (1, 0.2, 0.1, 1)}
    found = {tuple(row) for row in TASK.front(HAND).round(9).tolist()}
    assert found == {tuple(np.round(row, 9).tolist()) for row in expected}
    R = TASK.score([HAND], [["1 3 = Eva", "2 3 = Eva", "5 = Eva", "5 = Ben"]])[0]
    assert TASK.solved(HAND, R).tolist() == [True, False, True, False]
    assert len(WEAKEST.front(HAND)) == 4 and TASK.w_star(HAND).tolist() == [0.25] * 4


def walked(question, along):
    """The vector of every selection of facts that answers the question, by walking it."""
    truths, found = {f.tail for f in question.facts if f.source == "rumour"}, {}
    hops, join = len(question.relations), {"mean": lambda x: sum(x) / len(x), "weakest": min}[along]
    for k in {1, hops}:
        for cited in itertools.permutations(range(len(question.facts)), k):
            facts = [question.facts[i] for i in cited]
            at = question.start
            for fact, relation in zip(facts, question.relations, strict=False):
                at = fact.tail if (fact.head, fact.relation) == (at, relation) else None
            if facts[0].source == "rumour" and k == 1:
                (at,) = truths
            elif k < hops:
                at = None
            if at:
                levels = [join([f.trust for f in facts]) / 10, join([f.fresh for f in facts]) / 10]
                text = f"{' '.join(str(i + 1) for i in cited)} = {at}"
                found[text] = (1, *levels, (4 - k) / 3)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("hops", "along"), itertools.product((2, 3, 4), ("mean", "weakest")))
def test_scores_and_fronts_are_those_of_brute_force(hops, along):
    task = HopFacts(hops=hops, along=along)
    for seed in range(1 if hops == 4 else 3):
        x = task.instance(seed)
        found = walked(x, along)
        assert {frozenset(text.split(" = ")[0].split()) for text in found} == {
            frozenset(map(str, chain.facts)) for chain in chains_of(x)
        }
        rows = np.array(list(found.values()))
        R = task.score([x], [list(found)])[0]
        assert np.allclose(R, rows, atol=1e-9)
        better = (rows[None] >= rows[:, None] - 1e-9).all(-1) & (
            rows[None] > rows[:, None] + 1e-9
        ).any(-1)
        front = {tuple(row) for row in rows[~better.any(axis=1)].round(9).tolist()}
        assert {tuple(row) for row in task.front(x).round(9).tolist()} == front
        assert len(task.front(x)) == len(front)
        assert task.solved(x, R).tolist() == [tuple(r) in front for r in rows.round(9).tolist()]


def test_valid_is_what_the_task_itself_says_so_a_report_can_trust_it():
    """As the default would have it, but said: a report of this task distrusted its correlations."""
    task = TASK
    R = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 0.3, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    assert task.valid(None, R).tolist() == [False, True, True]
    assert type(task).valid is not Task.valid


def test_what_a_question_holds():
    """Levels by source, two or three sources for each step, one rumour, no two tails of a step."""
    rng, reports = np.random.default_rng(0), []
    bounds = {"archive": ((10, 10), (0, 3)), "news": ((0, 3), (10, 10))}
    bounds |= {"report": ((5, 6), (5, 6)), "rumour": ((0, 3), (0, 3))}
    for hops, size in itertools.product((2, 3, 4), (10, 11, 12) * 15):
        x = drawn(hops, size, rng)
        assert len(x.relations) == hops and max(size, 2 * hops + 1) <= len(x.facts) <= 13
        for fact in x.facts:
            (low, high), (old, new) = bounds[fact.source]
            assert low <= fact.trust <= high and old <= fact.fresh <= new
            assert fact.head != fact.tail and fact.symbol in FACT_SYMBOLS
        assert len({fact.symbol for fact in x.facts}) == len(x.facts)
        tails = {(f.head, f.relation): f.tail for f in x.facts}
        assert all(tails[f.head, f.relation] == f.tail for f in x.facts)
        at, chains = x.start, 1
        for relation in x.relations:
            sources = {f.source for f in x.facts if (f.head, f.relation) == (at, relation)}
            assert {"archive", "news"} <= sources <= {"archive", "news", "report"}
            chains *= len(sources)
            reports.append(len(sources) == 3)
            at = tails[at, relation]
        assert [f.tail for f in x.facts if f.source == "rumour"] == [at]
        assert len(chains_of(x)) == chains + 1 <= 82
        assert {chain.person for chain in chains_of(x)} == {at}
    assert np.mean(reports) == pytest.approx(0.3, abs=0.09)
    sizes = Counter(len(TASK.instance(seed).facts) for seed in range(9))
    assert sizes == {10: 3, 11: 3, 12: 3}


# --- how much the facts conflict ------------------------------------------------------------------


@pytest.mark.slow
def test_no_single_answer_covers_more_than_85_hundredths():
    """By 20,000 weights that the library did not draw. Two steps: the limit binds."""
    W = np.random.default_rng(0).dirichlet(np.ones(4), 20_000)
    for task, seeds in ((TASK, 30), (WEAKEST, 20), (HopFacts(hops=4), 10), (HopFacts(hops=2), 2)):
        for seed in range(seeds):
            front = task.front(task.instance(seed))
            best = front.mean(axis=1).max() / (W @ front.T).max(axis=1).mean()
            assert best <= 0.86 and best_single(front) == pytest.approx(best, abs=0.01)
    rng = np.random.default_rng(1)
    free = [best_single(TASK.front(drawn(2, 10, rng))) for _ in range(30)]
    assert np.mean(np.array(free) > 0.85) > 0.5


def test_ceilings_of_the_best_one_two_and_three_answers():
    """What was measured before this generator was written: .84, .94, 1.0."""
    shares = [vpo.price_of_conflict(TASK.front(TASK.instance(s)), (1, 2, 3)) for s in range(6)]
    for k, expected in ((1, 0.84), (2, 0.94), (3, 1.0)):
        assert np.median([share[k] for share in shares]) == pytest.approx(expected, abs=0.025)


def test_golden_value_of_two_specialists():
    """Archive (1, 1, 0) and news (1, 0, 1): U = 5/6, the best one 2/3, so it covers .800."""
    pure = (("archive", 10, 0), ("news", 0, 10))
    path = (("Ada", "Ben"), ("Ben", "Eva"), ("Eva", "Ivo"))
    facts = [Fact(s, h, "boss", t, trust, fresh) for h, t in path for s, trust, fresh in pure]
    x = HopQuestion("Ada", ("boss",) * 3, tuple(facts))
    answers = [f"{cited} = Ivo" for cited in ("1 3 5", "2 4 6", "1 3 6")]
    for task in (TASK, WEAKEST):
        R = task.score([x], [answers])[0][:, :3]
        assert R[:2].tolist() == [[1, 1, 0], [1, 0, 1]]
        # a mixed chain lies between the two and wins no weights; the weakest link is dominated
        assert float(vpo.exact_set_reward(R)) == pytest.approx(5 / 6, abs=1e-12)
        assert best_single(R[:2]) == pytest.approx(0.8, abs=1e-12)
        assert [len(task.front(x)) for task in (TASK, WEAKEST)] == [4, 2]


@pytest.mark.parametrize(
    ("hops", "points", "U", "single"), [(4, 6, 5 / 6, 0.72), (3, 3, None, 6 / 7)]
)
def test_golden_values_of_a_citation_budget(hops, points, U, single):
    """At most two citations count, in the paper's vector (hop_1 .. hop_4, answer_f1): every pair of
    the steps is on the front. Four steps: 1 - U is the mean of the two least of four weights.
    """
    x = Question("Where?", (), tuple(range(hops)), ("Lisse",))
    pairs = itertools.combinations(range(hops), 2)
    texts = [f"<support>{i}, {j}</support><answer>Lisse</answer>" for i, j in pairs]
    R = HopRecords().score([x], [texts])[0]
    assert len(R) == points == len(R[nondominated(R)])
    U = 1 - 1 / 3 / 5 if U is None else U  # three steps: the mean of the least of three weights
    assert float(vpo.exact_set_reward(R)) == pytest.approx(U, abs=1e-9)
    assert best_single(R) == pytest.approx(single, abs=1e-9)
    if hops == 4:
        assert vpo.price_of_conflict(R, (2,))[2] == pytest.approx(0.9, abs=1e-9)


# --- requests and answers -------------------------------------------------------------------------

PINNED = {0: "12c156655e07c335", 1: "f83b5cefd0ce60b2", 1000: "15e776d46d68e0c4"}


@pytest.mark.parametrize("seed", PINNED)
def test_pinned_problems(seed):
    """Policies and runs depend on them: a change of the generator needs a task of another name."""
    symbols = TASK.prompt(TASK.instance(seed), 3, pocket={}).symbols
    assert hashlib.sha256(symbols.encode()).hexdigest()[:16] == PINNED[seed]


def test_symbols_by_hand():
    x = HopQuestion("Ada", ("boss", "friend"), HAND.facts[3:5])
    asked = "<m3> Ada.boss? 2.friend news:Ben.friend>Eva t3f10 rumour>Eva t2f1"
    assert TASK.prompt(x, 3, pocket={}).symbols == asked
    weighed = TASK.prompt(x, 3, weights=np.array([0.5, 0.06, 0.04, 0.4]), pocket={}).symbols
    assert weighed == asked.replace("<m3>", "<m3> <w5> <w1> <w0> <w4>")


@pytest.mark.parametrize("m", (1, 3, 9))
def test_words_say_everything_and_ask_for_the_tags_that_the_parser_reads(m):
    text = TASK.prompt(HAND, m, weights=np.array([0.5, 0.06, 0.04, 0.4])).text
    assert "Who is the friend of the boss of Ada?" in text and "trust 0.06" in text
    assert "\n4. news (trust 0.3, fresh 1.0): the friend of Ben is Eva\n" in text
    assert "\n5. rumour (trust 0.2, fresh 0.1): the answer is Eva\n" in text
    filled = text.splitlines()[-1].replace("...", "2, [4] = eva")
    assert TASK.parse(HAND, filled, m) == ["2 4 = Eva"] * m
    assert f"<answer_{m + 1}>" not in text and "weakest" in WEAKEST.prompt(HAND, m).text
    first, *lines = TASK.summary(HAND).splitlines()
    assert first == HAND.text and lines == text.splitlines()[2 : 2 + len(HAND.facts)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("1 3 Eva", "1 3 = Eva"),
        ("1,3=EVA", "1 3 = Eva"),
        ("news:Ada.boss>Ben archive:Ben.friend>Eva", "2 3 = Eva"),
        ("rumour>Eva", "5 = Eva"),
        ("2 archive:Ben.friend>Eva", "2 3 = Eva"),
        ("rumour>Eva = Ben", "5 = Ben"),
        ("rumour>Ivo", "rumour>Ivo = Ivo"),  # no fact of the prompt: it earns nothing
        ("999 = Eva", "999 = Eva"),
        *((junk, None) for junk in ("", "  ", "= Eva", "Eva", "1 3", "1 3 = Eve", "1 3 = Eva.")),
        *(
            (junk, None)
            for junk in ("1 Ben 3 = Eva", "-1 = Eva", "1.0 = Eva", "１ = Eva", "² = Eva")
        ),
        *((junk, None) for junk in ("1" * 5_000 + " = Eva", "news:Ada.boss>Ada", "rumour>Eva x")),
    ],
)
def test_what_is_read(body, expected):
    text = f"<answer_1> {body} </answer_1> <answer_2> 1 3 = Eva </answer_2>"
    assert TASK.parse(HAND, text, 3) == [expected, "1 3 = Eva", None]
    (answers,) = read_answers(TASK, [HAND], [[text]], 3)
    assert answers.rewards.shape == (1, 3, 4) and answers.valid[0].tolist()[1:] == [True, False]


def test_written_answers_are_read_back_and_equal_citations_are_repeats():
    text = TASK.write(HAND, ["1 3 = Eva", "5 = Eva", "3 1 = Ben"], {})
    assert text.split()[1:3] == [HAND.facts[0].symbol, HAND.facts[2].symbol]
    assert TASK.parse(HAND, text, 3) == ["1 3 = Eva", "5 = Eva", "3 1 = Ben"]
    row = "<answer_1>1 3=Eva</answer_1><answer_2>3 1=Eva</answer_2><answer_3>1 4=Eva</answer_3>"
    (answers,) = read_answers(TASK, [HAND], [[row]], 3)
    assert answers.repeats.tolist() == [[False, True, False]]
    longest = TASK.write(HAND, ["1 1 1 1 = Ben"] * 5, {})
    assert len(longest.split()) + 1 <= TASK.max_tokens(HAND, 5, {})
    with pytest.raises(ValueError, match="answer 'jump': expected numbers of facts, = and a"):
        TASK.score([HAND], [["jump"]])
    assert [part.shape for part in TASK.score([HAND, HAND], [[], ["5 = Eva"]])] == [(0, 4), (1, 4)]


@pytest.mark.slow
def test_2000_mutations_of_answers_are_read_as_a_person_would():
    rng, bodies = random.Random(0), ("1 3 = Eva", "rumour>Eva", "2, 4 = Ben")
    signs = "<>/_ ,.=[]\n\t0123456789aeno:Évé\u00a0\u2028\ud800\0²"
    for _ in range(2_000):
        m = rng.randint(1, 9)
        text = list(
            " ".join(f"<answer_{i}> {rng.choice(bodies)} </answer_{i}>" for i in range(1, m))
        )
        for _ in range(rng.randint(1, 9)):
            i = rng.randrange(len(text) + 1)
            text[i : i + rng.randint(0, 3)] = rng.choice(signs)
        text = "".join(text)
        answers = TASK.parse(HAND, text, m)
        assert len(answers) == m
        for i, answer in enumerate(answers, 1):
            if answer is None:
                continue
            cited, _, person = answer.rpartition(" = ")
            assert person in PEOPLE and person.lower() in text.lower()
            assert all(w in FACT_SYMBOLS or (w.isdecimal() and len(w) <= 3) for w in cited.split())
            assert f"<answer_{i}>" in text and f"</answer_{i}>" in text
        (R,) = TASK.score([HAND], [[a for a in answers if a is not None]])
        assert set(R[:, 0].tolist()) <= {0.0, 1.0}


# --- options --------------------------------------------------------------------------------------


def test_drawn_facts_are_the_default_and_records_come_with_their_options(tmp_path):
    assert task_class("hops") is HopsTask
    assert isinstance(HopsTask(), HopFacts) and isinstance(HopsTask(hops=4), HopFacts)
    assert isinstance(HopsTask(mode="faithful"), HopRecords)
    assert isinstance(HopsTask(data=str(tmp_path)), HopRecords)
    with pytest.raises(ValueError, match="hops = 4 with mode = 'faithful': only mode 'conflict'"):
        HopsTask(mode="faithful", hops=4)
    for wrong in ({"hops": 1}, {"hops": 5}, {"along": "best"}, {"problem": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            HopsTask(**wrong)


@pytest.mark.slow
def test_one_problem_can_be_singled_out_and_the_others_differ():
    one = HopsTask(problem=7)
    assert one.single and not TASK.single and one.numbered == "problem"
    assert one.instance(10_000) == TASK.instance(7) != TASK.instance(3)
    keys = {
        TASK.key(TASK.instance(s))
        for split in ("held_out", "train")
        for s in TASK.seeds[split][:40]
    }
    assert len(keys) == 80
