"""Plans of tool calls: fronts and scores against brute force over texts, golden values, a parser
that takes only what is asked for.
"""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.tasks import task_class
from vpo_lite.tasks.call_plans import (
    KEYS,
    PROFILES,
    VALUES,
    CallPlans,
    Part,
    best_single,
    front_of,
)
from vpo_lite.tasks.call_records import CallRecords
from vpo_lite.tasks.registry import task_names
from vpo_lite.training.answers import read_answers

TASK = CallPlans()
HAND = (
    Part("hotel", ("nights=4", "room=b"), ("hotel_410", "hotel_041", "hotel_004")),
    Part("taxi", ("pet=no",), ("taxi_300", "taxi_030", "taxi_103", "taxi_222")),
)
PURE = tuple(
    Part(intent, ("nights=1",), tuple(f"{intent}_{p}" for p in ("400", "040", "004")))
    for intent in ("hotel", "taxi")
)
H, T = "hotel_410 nights=4 room=b", "taxi_222 pet=no"


# --- scores ---------------------------------------------------------------------------------------

HOTEL, TAXI = [1, 1, 0.25, 0], [1, 0.5, 0.5, 0.5]  # twice what the two calls add
BY_HAND = {  # plan -> which of the two calls earn
    f"{H} ; {T}": (HOTEL, TAXI),
    f"{T} ; {H}": (HOTEL, TAXI),
    f"hotel_410 room=b nights=4 ; {T}": (HOTEL, TAXI),
    H: (HOTEL,),
    T: (TAXI,),
    f"{H} ; hotel_041 nights=4 room=b": (HOTEL,),  # the taxi is left out
    f"hotel_041 nights=4 ; {H}": (HOTEL,),
    f"hotel_410 nights=5 room=b ; {T}": (TAXI,),
    f"hotel_410 nights=4 ; {T}": (TAXI,),
    f"hotel_410 ; {T}": (TAXI,),
    f"{H} pet=no ; {T}": (TAXI,),
    f"{H} room=b ; {T}": (TAXI,),
    f"hotel_440 nights=4 room=b ; {T}": (TAXI,),  # no such tool
    f"hotel_222 nights=4 room=b ; {T}": (TAXI,),  # a tool, but not of this part
    f"taxi_222 nights=4 room=b ; {T}": (TAXI,),
    "taxi_222 nights=4 room=b ; hotel_410 pet=no": (),
    f"{H} ; flight_410 pet=no": (HOTEL,),
}


@pytest.mark.parametrize("plan", BY_HAND)
def test_scores_by_hand(plan):
    expected = np.sum([np.zeros(4), *BY_HAND[plan]], axis=0) / 2
    assert TASK.read(HAND, plan) == plan
    ((found,),) = TASK.score([HAND], [[plan]])
    assert found.tolist() == expected.tolist()
    assert TASK.valid(HAND, found) == (len(BY_HAND[plan]) == 2)
    assert TASK.solved(HAND, found) == (len(BY_HAND[plan]) == 2)  # both tools win somewhere


def brute_front(request):
    """By texts: every plan of two calls, scored, compared with every other one. As quarters."""
    rows = set()
    for tools in itertools.product(*(part.tools for part in request)):
        q = [[int(sign) for sign in tool.split("_")[1]] for tool in tools]
        rows.add((2 * 4, *(a + b for a, b in zip(*q, strict=True))))  # eighths
    return {
        row
        for row in rows
        if not any(o != row and all(b >= a for a, b in zip(row, o, strict=True)) for o in rows)
    }


def test_fronts_and_scores_are_those_of_brute_force():
    for seed in range(40):
        request = TASK.instance(seed)
        front = brute_front(request)
        found = TASK.front(request) * 8
        assert {tuple(map(int, row)) for row in found.tolist()} == front
        assert len(found) == len(front) and (found == found.round()).all()
        tools = list(itertools.product(*(part.tools for part in request)))
        plans = [
            " ; ".join(" ".join((t, *p.arguments)) for t, p in zip(pair, request, strict=True))
            for pair in tools
        ]
        R = TASK.score([request], [plans])[0]
        rows = [tuple(int(x) for x in row) for row in (8 * R).tolist()]
        assert TASK.solved(request, R).tolist() == [row in front for row in rows]
        assert TASK.valid(request, R).all() and {*rows} >= front


def test_leaving_a_part_out_is_no_trade_off():
    """Each plan of one call is worse in every objective that it earns, and never better."""
    for seed in range(40):
        request = TASK.instance(seed)
        front = TASK.front(request)
        for part in request:
            for tool in part.tools:
                ((row,),) = TASK.score([request], [[" ".join((tool, *part.arguments))]])
                assert row[0] == 0.5 and not TASK.valid(request, row)
                assert ((front >= row).all(axis=1) & (front[:, 0] > row[0])).any()


# --- problems -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_requests_have_the_tools_and_arguments_that_are_told():
    kinds, sizes, rounders, tools = set(), set(), [], set()
    keys = [key for row in KEYS.values() for key in row]
    assert len(set(keys)) == len(keys)  # a key tells its intent
    for seed in range(300):
        request = TASK.instance(seed)
        first, second = (list(KEYS).index(part.intent) for part in request)
        assert first < second
        for part in request:
            given = [a.split("=") for a in part.arguments]
            places = [KEYS[part.intent].index(key) for key, _ in given]
            assert 1 <= len(given) <= 3 and places == sorted(set(places))
            assert all(v in VALUES[k] for k, (_, v) in zip(places, given, strict=True))
            profiles = [
                [int(q) for q in tool.removeprefix(part.intent + "_")] for tool in part.tools
            ]
            special = [p for p in profiles if p != [2, 2, 2]]
            assert sorted(p.index(max(p)) for p in special) == [0, 1, 2]
            assert all(max(p) in (3, 4) and sorted(p)[1] <= 1 for p in special)
            rounders.append(len(special) < len(profiles))
            kinds.add(tuple(places)), sizes.add(len(part.tools)), tools.update(part.tools)
    assert len(kinds) == 7 and sizes == {3, 4} and len(tools) == len(KEYS) * len(PROFILES)
    assert 0.1 < np.mean(rounders) < 0.4  # drawn with .5; an all-rounder covers much by itself


@pytest.mark.slow
def test_no_single_plan_covers_more_than_85_hundredths():
    """By 8,000 weights that the library did not draw; and the limit binds on some requests."""
    W = np.random.default_rng(0).exponential(size=(8_000, 4))
    W = W / W.sum(axis=1, keepdims=True)
    shares, sizes = [], []
    for seed in range(80):
        request = TASK.instance(seed)
        front = TASK.front(request)
        shares.append(front.mean(axis=1).max() / (W @ front.T).max(axis=1).mean())
        sizes.append(len(front))
        assert best_single(request) == pytest.approx(shares[-1], abs=0.005)
        assert best_single(request) == pytest.approx(vpo.metrics.price_of_conflict(front)[1])
    assert max(shares) < 0.855 and max(shares) > 0.845
    assert 6 <= min(sizes) and max(sizes) <= 16 and 8 <= np.median(sizes) <= 10
    assert best_single(HAND) > 0.85  # this one would be drawn anew


def test_golden_values_of_pure_specialists():
    """One-hot tools: E max over three of four components that add up to 1 is 3/4 * 11/18."""
    whole = Fraction(1, 4) + Fraction(3, 4) * Fraction(11, 18)
    assert whole == Fraction(17, 24)
    front = front_of(PURE)
    assert len(front) == 6
    assert float(vpo.exact_set_reward(front)) == pytest.approx(float(whole), abs=1e-12)
    assert front.mean(axis=1).max() == 0.5
    assert best_single(PURE) == pytest.approx(float(Fraction(1, 2) / whole), abs=1e-12)
    three = [row for row in front if 1 in row[1:]]
    assert vpo.coverage(np.array(three), front) == pytest.approx(1)  # mixed plans win nothing


def test_w_star_is_the_mean_and_the_worst_is_nothing():
    assert TASK.objectives(HAND) == ("served", "speed", "price", "privacy")
    assert TASK.w_star(HAND).tolist() == [0.25] * 4 and TASK.worst(HAND).tolist() == [0.0] * 4


PINNED = {
    0: "taxi seats=0 pet=yes taxi_041 taxi_104 taxi_401 ; "
    "music shelf=i loop=yes music_003 music_141 music_222 music_401",
    1: "flight bags=3 meal=yes flight_411 flight_130 flight_003 ; "
    "music shelf=e music_014 music_040 music_401",
    1000: "hotel room=h hotel_222 hotel_104 hotel_140 hotel_300 ; "
    "taxi zone=d pet=no taxi_130 taxi_013 taxi_310",
}


@pytest.mark.parametrize("seed", PINNED)
def test_pinned_requests(seed):
    """Policies and runs depend on them: a change of the generator needs a task of another name."""
    assert TASK.key(TASK.instance(seed)) == PINNED[seed]


@pytest.mark.slow
def test_held_out_requests_are_none_of_those_that_a_policy_learns_from():
    seeds = TASK.seeds
    texts = {TASK.key(TASK.instance(s)) for s in seeds["held_out"][:100]}
    others = [*seeds["train"][:100], *seeds["pretraining"][:100]]
    assert len(texts) == 100 and not texts & {TASK.key(TASK.instance(s)) for s in others}


# --- requests and answers -------------------------------------------------------------------------


def test_symbols_by_hand():
    hotel = "hotel nights=4 room=b hotel_410 hotel_041 hotel_004"
    taxi = "taxi pet=no taxi_300 taxi_030 taxi_103 taxi_222"
    assert TASK.prompt(HAND, 3, pocket={}).symbols == f"<m3> {hotel} ; {taxi}"
    shown = TASK.prompt(HAND, 1, weights=[0.5, 0.06, 0.04, 0.4], pocket={}).symbols
    assert shown == f"<m1> <w5> <w1> <w0> <w4> {hotel} ; {taxi}"


@pytest.mark.parametrize("m", [1, 9])
def test_the_words_tell_the_request_and_ask_for_the_tags_that_the_parser_reads(m):
    lines = TASK.prompt(HAND, m).text.splitlines()
    assert "Part 1: hotel with nights=4 room=b" in lines
    assert "- taxi_103: speed 0.25, price 0.00, privacy 0.75" in lines
    filled = lines[-1].replace("...", "Hotel_410 nights=4, room=b;taxi_222\npet=no")
    assert TASK.parse(HAND, filled, m) == [f"{H} ; {T}"] * m
    assert f"<plan_{m + 1}>" not in lines[-1]
    assert "price 0.06" in TASK.prompt(HAND, m, weights=[0.5, 0.4, 0.06, 0.04]).text
    example = next(line for line in lines if line.startswith("Write a call")).split(": ")[1]
    assert TASK.same_effect(HAND, example) == ("hotel_410", None)


def test_the_panel_shows_both_parts_with_their_tools():
    lines = TASK.summary(HAND).splitlines()
    assert len(lines) == 1 + 4 + 5 and lines[1] == "hotel with nights=4, room=b"
    assert lines[2] == "hotel_410: speed 1.00, price 0.25, privacy 0.00"


JUNK = (
    "",
    ";",
    "none",
    f"{H} ; {T} ; {T}",
    f"{H} ;; {T}",
    f"; {T}",
    "nights=4 room=b",
    "hotel_410(nights=4)",
    "hotel_410 nights = 4",
    "hotel_410 nights",
    "hotel_41 nights=4",
    "hotel_410 room=é",
    "hôtel_410",
    "hotel_４１０",
    "hotel_410 <b>nights=4</b>",
    "x" * 100_000,
    "a=b " * 50_000,
    "\ud800",
)


@pytest.mark.parametrize("body", JUNK, ids=range(len(JUNK)))
def test_junk_is_no_answer_and_earns_the_worst_vector(body):
    text = f"<plan_1> {body} </plan_1> <plan_2> {T} </plan_2>"
    assert TASK.parse(HAND, text, 3) == [None, T, None]
    (answers,) = read_answers(TASK, [HAND], [[text]], 3)
    assert answers.rewards[0].tolist() == [[0] * 4, [0.5, 0.25, 0.25, 0.25], [0] * 4]
    assert answers.valid[0].tolist() == [False, False, False]


def test_only_plans_are_scored():
    with pytest.raises(ValueError, match=r"plan 'jump': .* such as 'hotel_410 nights=4 room=b ; "):
        TASK.score([HAND], [["jump"]])
    assert [part.shape for part in TASK.score([HAND, HAND], [[], [H]])] == [(0, 4), (1, 4)]


def test_plans_with_the_same_tools_are_repeats():
    rows = [[f"{H} ; {T}", f"{T} ; {H}", H], [H, "taxi_222", T]]
    (answers,) = read_answers(TASK, [HAND], [[TASK.write(HAND, row) for row in rows]], 3)
    assert answers.repeats.tolist() == [[False, True, False], [False, False, False]]


@pytest.mark.slow
def test_3000_mutations_of_answers_are_read_as_a_person_would():
    """Each mutated text gives m entries, and each of them is a plan that stands in the text."""
    rng = random.Random(0)
    signs = "<>/_ ;,=\n\t0123456789abcdhoteluxéΩ\u00a0\u2028\ud800\0"
    read = 0
    for _ in range(3_000):
        m = rng.randint(1, 9)
        text = list(TASK.write(HAND, rng.choices([f"{H} ; {T}", T, f"{T} ; {H}"], k=m)))
        for _ in range(rng.randint(1, 12)):
            i, kind = rng.randrange(len(text) + 1), rng.randrange(3)
            if kind == 0:
                text[i:i] = rng.choice(signs)
            elif kind == 1:
                del text[i : i + rng.randint(1, 5)]
            else:
                j = rng.randrange(len(text) + 1)
                text[i:i] = text[min(i, j) : max(i, j)][:60]
        text = "".join(text)
        answers = TASK.parse(HAND, text, m)
        assert len(answers) == m
        spaced = " ".join(text.replace(",", " ").replace(";", " ; ").split())
        for i, answer in enumerate(answers, 1):
            if answer is None:
                continue
            read += 1
            calls = [call.split() for call in answer.split(" ; ")]
            assert 1 <= len(calls) <= 2 and all(a.count("=") == 1 for c in calls for a in c[1:])
            assert answer in spaced and f"<plan_{i}>" in spaced and f"</plan_{i}>" in spaced
            assert TASK.score([HAND], [[answer]])[0].shape == (1, 4)
    assert read > 3_000


# --- options --------------------------------------------------------------------------------------


def test_the_mode_follows_from_the_options():
    calls = task_class("calls")
    assert isinstance(calls(), CallPlans) and isinstance(calls(problem=7), CallPlans)
    assert isinstance(calls(mode="faithful"), CallRecords)
    assert isinstance(calls(repeats="vector"), CallRecords)
    assert "call_plans" not in task_names() and "calls" in task_names()
    with pytest.raises(ValueError, match="problem = 3 with mode = 'faithful': only mode 'plan'"):
        calls(mode="faithful", problem=3)
    one, many = calls(problem=7), calls()
    assert one.single and not many.single and calls.singles_out == ("problem",)
    assert one.instance(10_000) == one.instance(3) == many.instance(7) != many.instance(3)
