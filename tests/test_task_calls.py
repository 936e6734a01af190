"""Tool calls: every rule of the scorer against vectors worked by hand."""

import json

import numpy as np
import pytest

from vpo_lite.tasks.call_records import (
    Call,
    CallRecords,
    Dialogue,
    compared,
    read_calls,
    value_match,
)
from vpo_lite.tasks.records import Dropped
from vpo_lite.training.answers import judge

THINK = "<think> so </think>"
FERRY = Call("find_ferry", {"from": "Oban", "day": 3})


def dialogue(*calls):
    return Dialogue((("system", "Tools: ..."), ("user", "Ferries?")), "", calls)


def written(*calls, think=THINK):
    body = "\n".join(json.dumps({"name": n, "parameters": p}) for n, p in calls)
    return f"{think}<tool_call>{body}</tool_call>"


def scores(x, *texts, **options):
    return CallRecords(**options).score([x], [texts])[0].tolist()


RIGHT = ("find_ferry", {"from": "Oban", "day": 3})
ON_FERRY = [  # text, (format, tool_name, arg_key, arg_value)
    (written(RIGHT), (1, 1, 1, 1)),
    (written(RIGHT, think=""), (0, 1, 1, 1)),
    (written(RIGHT, think="<THINK> so </THINK>"), (0, 1, 1, 1)),
    (written(("tide", RIGHT[1])), (1, 0, 1, 1)),
    (written(("Find-Ferry!", RIGHT[1])), (1, 1, 1, 1)),  # lower case, no punctuation
    (written(("find ferry", RIGHT[1])), (1, 0, 1, 1)),  # two words
    (written(("find_ferry", {"from": "oban", "day": "3"})), (1, 1, 1, 1)),  # a number as text
    (written(("find_ferry", {"from": "Oban", "day": "third"})), (1, 1, 1, 1 / 2)),
    (written(("find_ferry", {"from": "Oban pier", "day": 3})), (1, 1, 1, (2 / 3 + 1) / 2)),
    (written(("find_ferry", {"day": 3})), (1, 1, 2 / 3, 1 / 2)),
    (written(("find_ferry", {**RIGHT[1], "x": 1})), (1, 1, 4 / 5, 1)),  # a surplus key
    (written(("find_ferry", {})), (1, 1, 0, 0)),
    (written(RIGHT, ("tide", {"at": "Oban"})), (1, 2 / 3, 1 / 2, 1 / 2)),  # a surplus call
    (written(RIGHT, RIGHT), (1, 2 / 3, 1 / 2, 1 / 2)),
    (written(), (0, 0, 0, 0)),
    (THINK + "<response> There is one at noon. </response>", (0, 0, 0, 0)),
    ("There is one at noon.", (0, 0, 0, 0)),
    (THINK + f"<tool_call>{json.dumps([{'name': 'find_ferry'}])}</tool_call>", (1, 1, 0, 0)),
    (THINK + '<tool_call>[{"name": "find_ferry"}, {"na</tool_call>', (0, 0, 0, 0)),
    (THINK + '<tool_call>{"name": "find_ferry"} {"na</tool_call>', (1, 1, 0, 0)),
    # the first of each tag counts, wherever it stands
    ("<think>" + written(RIGHT, think="") + "</think>", (1, 1, 1, 1)),
    (written() + written(RIGHT), (0, 0, 0, 0)),
    (written(RIGHT) + written(), (1, 1, 1, 1)),
    ("<tool_call>" + written(RIGHT) + "</tool_call>", (0, 0, 0, 0)),  # its body begins with a tag
]


@pytest.mark.parametrize(("text", "expected"), ON_FERRY)
def test_vectors_on_a_record_with_a_call(text, expected):
    assert scores(dialogue(FERRY), text) == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THINK + "<response> Hello. </response>", (1, 1, 1, 1)),
        (THINK, (1, 1, 1, 1)),  # the reply itself is not read
        (THINK + "<tool_call> </tool_call>", (1, 1, 1, 1)),
        ("<response> Hello. </response>", (0, 1, 1, 1)),
        (THINK + "<tool_call> none </tool_call>", (0, 1, 1, 1)),
        (written(RIGHT), (0, 0, 0, 0)),
        (written(("list_lights", {})), (0, 0, 0, 0)),
    ],
)
def test_vectors_on_a_record_without_calls(text, expected):
    assert scores(dialogue(), text) == [pytest.approx(expected)]


ULLAPOOL, MALLAIG = Call("tide", {"at": "Ullapool"}), Call("tide", {"at": "Mallaig"})


@pytest.mark.parametrize(
    ("given", "gold", "expected"),
    [
        ([ULLAPOOL, MALLAIG], [ULLAPOOL, MALLAIG], (1, 1, 1)),
        ([MALLAIG, ULLAPOOL], [ULLAPOOL, MALLAIG], (1, 1, 0)),  # of equals the earliest is taken
        ([ULLAPOOL], [ULLAPOOL, MALLAIG], (2 / 3, 1 / 2, 1 / 2)),
        ([MALLAIG], [ULLAPOOL, MALLAIG], (2 / 3, 1 / 2, 0)),  # the first of the record takes it
        # the name outweighs two common keys
        (
            [Call("g", {"a": 1, "b": 2}), Call("f", {})],
            [Call("f", {"a": 1, "b": 2})],
            (2 / 3, 0, 0),
        ),
        # of calls with the right name the one with more common keys
        (
            [Call("f", {"a": 1}), Call("f", {"a": 1, "b": 2})],
            [Call("f", {"a": 1, "b": 2})],
            (2 / 3, 1 / 2, 1 / 2),
        ),
        (
            [Call("g", {"y": 1})],
            [Call("f", {"x": 1})],
            (0, 0, 0),
        ),  # nothing in common: still a pair
        ([Call("g", {})], [Call("f", {})], (0, 1, 1)),  # no arguments on either side
        ([Call("f", {"x": 1})], [Call("f", {})], (1, 0, 1)),  # surplus keys cost no values
        ([Call("", {})], [Call("!", {})], (1, 1, 1)),  # names without letters are equal, too
        # ... but such a name does not outweigh a key
        (
            [Call("x", {"a": 1}), Call("", {})],
            [Call("!", {"a": 1})],
            (2 / 3, 1 / 2, 1 / 2),
        ),
        ([], [FERRY], (0, 0, 0)),
        ([FERRY], [], (0, 0, 0)),
        ([], [], (1, 1, 1)),
    ],
)
def test_names_keys_and_values_of_calls(given, gold, expected):
    assert compared(given, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("given", "gold", "expected"),
    [
        # booleans by truth value, whatever stands on the other side
        (True, True, 1),
        (False, True, 0),
        ("yes", True, 1),
        ("", False, 1),
        (0, False, 1),
        ("false", False, 0),
        (True, 2, 1),
        (False, "no", 0),
        (None, False, 1),
        # numbers
        (3, 3.0, 1),
        (3.0000000001, 3, 0),
        ("3.0000000001", 3, 1),
        ("3.00000001", 3, 0),
        ("1e3", 1000, 1),
        (" 3 ", 3, 1),
        ("three", 3, 0),
        (None, 3, 0),
        ([5], 5, 1),
        ("9" * 400, int("9" * 400), 1),
        ("8" * 400, int("9" * 400), 0),
        # lists
        (["a", "b"], ["B!", "a"], 1),
        ("a", ["a", "b"], 2 / 3),
        (["a", "a"], ["a"], 2 / 3),
        ([], [], 1),
        ([], ["a"], 0),
        ("", [], 0),
        ([1], ["1"], 1),
        ([True], ["true"], 1),
        # objects by their keys alone
        ({"x": 9}, {"x": 1}, 1),
        ({"x": 1, "y": 2}, {"x": 1}, 2 / 3),
        ("x", {"x": 1}, 0),
        ({}, {}, 1),
        ({}, {"x": 1}, 0),
        # texts by their words; articles count
        ("the pier", "pier", 2 / 3),
        ("Pier, OBAN", "oban pier", 1),
        ("", "", 1),
        ("!", "", 1),
        ("x", "", 0),
        (5, "5", 1),
        (5.0, "5", 0),
        (["a"], "a", 1),
        ("Ålesund", "ålesund", 1),
        # nothing
        (None, None, 1),
        ("", None, 1),
        ("null", None, 0),
    ],
)
def test_values(given, gold, expected):
    assert value_match(given, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ('{"name": "a"}', ["a"]),
        ('{"name": "a"}\n{"name": "b"}', ["a", "b"]),
        ('{"name": "a"},\t{"name": "b"} ,', ["a", "b"]),
        ('{"name": "a"};{"name": "b"}', ["a"]),
        ('{"name": "a"} then {"name": "b"}', ["a"]),
        ('so: {"name": "a"}', []),
        ('{"name": "a"}{"name": b}{"name": "c"}', ["a"]),
        ('{"name": "a", "parameters": {"x": "}{\\""}} {"name": "b"}', ["a", "b"]),  # in a text
        ('[{"name": "a"}, 5, {"name": "b"}]', ["a", "b"]),
        ('[{"name": "a"}, {"name": "b"}', []),
        ('[{"name": "a"}] and so on', []),
        ("[1, 2]", []),
        ('{"tool": "a"}', [""]),
        ('{"name": 5} {"name": null}', ["5", "None"]),
        ('"a"', []),
        ("[" * 100_000, []),
        ('{"a":' * 100_000, []),
        ('[{"name": "a", "parameters": {"x": ' + "9" * 5000 + "}}]", []),
        ('{"name": "a", "parameters": {"x": ' + "[" * 200 + "]" * 200 + "}}", []),
        ('{"name": "a", "parameters": {"x": ' + "[" * 90 + "]" * 90 + "}}", ["a"]),
    ],
)
def test_calls_in_a_text(text, names):
    assert [call.name for call in read_calls(text)] == names


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ('"parameters": {"x": 1}', {"x": 1}),
        ('"arguments": {"x": 1}', {"x": 1}),
        ('"parameters": {"x": 1}, "arguments": {"y": 2}', {"x": 1}),
        ('"parameters": "x", "arguments": {"y": 2}', {}),
        ('"parameters": {}, "arguments": {"y": 2}', {}),
        ('"parameters": null, "arguments": {"y": 2}', {}),
        ('"parameters": [1]', {}),
        ('"other": {"x": 1}', {}),
    ],
)
def test_arguments_of_a_call(fields, arguments):
    assert read_calls('{"name": "a", ' + fields + "}") == (Call("a", arguments),)


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [  # on a record without calls
        ("block", " ", (0, 0, 0, 0)),
        ("training", " ", (0, 1, 1, 1)),
        ("evaluation", " ", (0, 0, 0, 0)),
        ("block", "Hello.", (0, 1, 1, 1)),
        ("training", "Hello.", (0, 1, 1, 1)),
        ("evaluation", "Hello.", (1, 1, 1, 1)),
    ],
)
def test_how_a_single_answer_is_scored(how, text, expected):
    task, x = CallRecords(single_answer=how), dialogue()
    assert judge(task, [(x, text, 1)])[0].rewards.tolist() == [list(expected)]
    # in a set nothing differs between the three
    (judged,) = judge(task, [(x, f"<response_1>{text}</response_1><response_2>.</response_2>", 2)])
    first = [0, 0, 0, 0] if text == " " else [0, 1, 1, 1]
    assert judged.rewards.tolist() == [first, [0, 1, 1, 1]]


def test_valid_and_solved_and_the_fixed_weights():
    task, x = CallRecords(), dialogue(FERRY)
    R = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0.999]])
    assert task.valid(x, R).tolist() == [True, False, True, True]
    assert task.solved(x, R).tolist() == [True, False, False, False]
    assert task.w_star(x).tolist() == [0.25] * 4


def test_answers_of_equal_effect():
    task, x = CallRecords(), dialogue(FERRY)
    one = written(("f", {"a": 1, "b": 2}))
    for same in (written(("f", {"b": 2, "a": 1})), one.replace("so", "other thoughts")):
        assert task.same_effect(x, one) == task.same_effect(x, same)
    for other in (
        written(("f", {"a": 1})),
        written(("f", {"a": 1, "b": 2}), think=""),
        THINK + "<response> Hello </response>",
        THINK + "<response> Goodbye </response>",
    ):
        assert task.same_effect(x, one) != task.same_effect(x, other)
    hello, bye = (THINK + f"<response> {word} </response>" for word in ("Hello", "Goodbye"))
    assert task.same_effect(x, hello) != task.same_effect(x, bye)
    # where no call is wanted, one that is no call costs the format: no repeat of a right answer
    empty, none = dialogue(), hello.replace("<response>", "<tool_call>none</tool_call><response>")
    (vectors,) = task.score([empty], [[hello, none]])
    assert vectors.tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]
    assert task.same_effect(empty, hello) != task.same_effect(empty, none)
    by_vector = CallRecords(repeats="vector")
    assert by_vector.same_effect(x, hello) == by_vector.same_effect(x, bye)
    assert by_vector.same_effect(x, one) != by_vector.same_effect(x, hello)


def test_the_request_leaves_the_records_words_as_they_are():
    task = CallRecords()
    x = task.instance(0)
    single = task.prompt(x, 1).messages
    assert [(t["role"], t["content"]) for t in single] == list(x.turns)
    first, last = task.prompt(x, 3).messages
    assert first["content"] == x.turns[0][1]
    assert last["content"].startswith(x.turns[1][1]) and "<response_3>" in last["content"]


ROW = {
    "prompt": [{"role": "user", "content": "Ferries?"}],
    "reward_model": {"ground_truth": '<tool_call>{"name": "a"}</tool_call>'},
}


@pytest.mark.parametrize(
    ("prompt", "truth", "why"),
    [
        ([], None, "its last turn is not the user's"),
        ([{"role": "system", "content": "x"}], None, "its last turn is not the user's"),
        (
            None,
            "<think> hm </think>",
            "it has neither calls in <tool_call> nor a reply in <response>",
        ),
        (
            None,
            "There is no ferry.",
            "it has neither calls in <tool_call> nor a reply in <response>",
        ),
        (
            None,
            "<response> </response>",
            "it has neither calls in <tool_call> nor a reply in <response>",
        ),
    ],
)
def test_rows_that_are_dropped(prompt, truth, why):
    row = {
        "prompt": ROW["prompt"] if prompt is None else prompt,
        "reward_model": ROW["reward_model"] if truth is None else {"ground_truth": truth},
    }
    with pytest.raises(Dropped, match=why):
        CallRecords().record(CallRecords.row.model_validate(row))
    assert CallRecords().record(CallRecords.row.model_validate(ROW)).calls == (Call("a", {}),)


GOOD = '{"name": "a", "parameters": {"x": 1}}'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("a(1)", "holds what is no call"),
        (f"{GOOD}; {GOOD}", "holds what is no call"),
        ('{"name": "a", "parameters": {"x": True}}', "holds what is no call"),
        (f"{GOOD} and more", "holds what is no call"),
        (f"[{GOOD}] and more", "holds what is no call"),
        ("[1]", "holds what is no call"),
        ('{"name": "a", "arguments": "{\\"x\\": 1}"}', "without an object of parameters"),
        ('{"name": "a", "args": {"x": 1}}', "without an object of parameters"),
        ('{"type": "function", "function": {"name": "a", "arguments": {}}}', "without a name"),
        ('{"tool": "a", "parameters": {}}', "without a name"),
        ('{"name": " ", "parameters": {}}', "without a name"),
        (f"{GOOD}</tool_call><tool_call>{GOOD}", "is there twice"),
    ],
)
def test_records_whose_own_calls_are_half_readable_are_dropped(body, said, tmp_path):
    """They would become the truth. In a model's answer the same text keeps its lenient reading."""
    row = ROW | {"reward_model": {"ground_truth": f"<tool_call> {body} </tool_call>"}}
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(row)}\n")
    loaded = CallRecords().load(path)
    assert (list(loaded.records), list(loaded.dropped), loaded.damaged) == ([0], [1], {})
    assert loaded.dropped[1].startswith("its <tool_call> ") and said in loaded.dropped[1]
    assert loaded.dropped[1].endswith('{"name": text, "parameters": object}, one a line')


@pytest.mark.parametrize(
    "body", [GOOD, f"{GOOD}\n{GOOD}", f"{GOOD}, {GOOD},", f"[{GOOD}]", '{"name": "a"}']
)
def test_a_records_own_calls_in_the_forms_of_toolrl_are_read(body):
    row = ROW | {"reward_model": {"ground_truth": f"<tool_call>\n{body}\n</tool_call>"}}
    calls = CallRecords().record(CallRecords.row.model_validate(row)).calls
    assert calls == read_calls(body) and len(calls) == body.count("name")


def test_calls_that_are_not_closed_are_dropped():
    row = ROW | {"reward_model": {"ground_truth": f"<tool_call> {GOOD}"}}
    with pytest.raises(Dropped, match="its <tool_call> is not closed"):
        CallRecords().record(CallRecords.row.model_validate(row))
