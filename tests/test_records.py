"""Records from a file: read, counted, split, asked for, scored and trained on."""

import copy
import gzip
import json
import pickle
import random
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from printed import refused
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.lab.session import Session
from vpo_lite.lab.words import status_line
from vpo_lite.tasks import Option, Prompt, Task, task_class
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.program_texts import passes
from vpo_lite.tasks.record_files import Loaded
from vpo_lite.tasks.records import EXAMPLES, Dropped, RecordTask, on_records
from vpo_lite.tasks.rows import Row
from vpo_lite.training.answers import judge, read_answers
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.learner import Learner
from vpo_lite.training.resuming import check_unchanged
from vpo_lite.training.run import Run

NAMES = ("calls", "hops", "chains")
EXAMPLE = {name: (EXAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines() for name in NAMES}


def examples(name):
    """A task, and the instances of the records that ship."""
    task = on_records(name)()
    return task, list(task.load(task.path).usable().values())


def in_blocks(texts):
    return "\n".join(f"<response_{i}>{t}</response_{i}>" for i, t in enumerate(texts, 1))


@pytest.fixture
def file(tmp_path):
    """A function that writes lines into a file and returns its path."""

    def write(*lines, name="records.jsonl", end="\n"):
        (tmp_path / name).write_bytes(end.join(lines).encode() + end.encode())
        return tmp_path / name

    return write


# --- the records that ship, the request, the parser -----------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_gold_answer_of_every_shipped_record_earns_everything(name):
    task, instances = examples(name)
    assert len(instances) == len(EXAMPLE[name]) >= 6
    for x in instances:
        (judged,) = judge(task, [(x, task.gold(x), 1)])
        d = len(task.objectives(x))
        assert judged.rewards.tolist() == [[1.0] * d] and judged.solved.all()
        assert task.front(x).tolist() == [[1.0] * d]


@pytest.mark.parametrize("m", range(1, 10))
@pytest.mark.parametrize("name", NAMES)
def test_the_request_asks_for_what_the_parser_reads(name, m):
    task, instances = examples(name)
    for x in instances:
        last = task.prompt(x, m).messages[-1]["content"]
        form = task.asked_in_blocks(m, task.gold(x))  # the form of the request, filled in
        assert [f"<response_{i}>" in last for i in range(1, 11)] == [
            i <= m > 1 for i in range(1, 11)
        ]
        assert [f"<response_{i}>" in form for i in range(1, 11)] == [
            i <= m > 1 for i in range(1, 11)
        ]
        (judged,) = judge(task, [(x, f"Some thoughts.\n{form}\nDone.", m)])
        assert judged.rewards.shape[0] == m and (judged.rewards == 1).all()
        assert task.max_tokens(x, m) >= m * 300


@pytest.mark.parametrize("name", NAMES)
def test_weights_stand_in_the_request_where_a_method_asks_for_that(name):
    task, (x, *_) = examples(name)
    names = task.objectives(x)
    weights = np.arange(1, len(names) + 1) / 100
    asked = task.prompt(x, 1, weights=weights).messages[-1]["content"]
    for objective, w in zip(names, weights, strict=True):
        assert any(
            f"- {objective} (" in line and f": {w:.2f}" in line for line in asked.splitlines()
        )


BODY = "<support>1</support><answer>{}</answer>"
ONE, TWO, THREE = (BODY.format(word) for word in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (in_blocks([ONE, TWO, THREE]), [ONE, TWO, THREE]),
        (f"<response_3>{THREE}</response_3><response_1>{ONE}</response_1>", [ONE, None, THREE]),
        (in_blocks([ONE, "", "junk"]), [ONE, None, None]),
        (in_blocks([ONE, TWO, THREE, ONE]), [ONE, TWO, THREE]),  # one too many
        (f"<response_1>{ONE}</response_1><response_1>{TWO}</response_1>", [ONE, None, None]),
        (f"<response_1>{ONE}<response_2>{TWO}</response_2>", [None, TWO, None]),  # never closed
        (
            f"<response_1>{ONE}<response_2>{TWO}</response_1></response_2>",  # crossed
            [f"{ONE}<response_2>{TWO}", f"{TWO}</response_1>", None],
        ),
        (f"<response_1><response_1>{ONE}</response_1>", [f"<response_1>{ONE}", None, None]),
        (f"</response_1><response_1>{ONE}</response_1>", [ONE, None, None]),
        (f"<Response_1>{ONE}</Response_1>", [None] * 3),
        (f"<response_01>{ONE}</response_01>", [None] * 3),
        (f"<response_12>{ONE}</response_12>", [None] * 3),
        (f"<response>{ONE}</response>", [None] * 3),
        (ONE, [None] * 3),
        ("", [None] * 3),
        ("<response_1>" * 100_000, [None] * 3),
    ],
)
def test_blocks_are_found_by_their_number(text, expected):
    task, (x, *_) = examples("hops")
    assert task.parse(x, text, 3) == expected


def test_blocks_beyond_nine_and_a_single_answer_without_a_block():
    task, (x, *_) = examples("hops")
    bodies = [BODY.format(i) for i in range(1, 13)]
    assert task.parse(x, in_blocks(bodies), 12) == bodies
    assert task.parse(x, f"I think: {ONE}", 1) == [f"I think: {ONE}"]


MARKS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<response>",
    "</response>",
    "<support>",
    "</support>",
    "<answer>",
    "</answer>",
    "<entity_A>",
    "</ENTITY_a>",
    "<response_1>",
    "</response_1>",
    "</response_2>",
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    "\\u0000",
    ",",
    ":",
    "1e999",
    "NaN",
    "9" * 400,
    "٣",
    "²",
    "\0",
    "\ud800",
    "İ",
    "\u2028",
    "null",
    "true",
    " the ",
    "_",
    '{"name": ',
    '"parameters": ',
    "[" * 2000,
    '{"a":' * 2000,
)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_five_thousand_mutations_never_raise_and_stay_in_range(name):
    task, instances = examples(name)
    draw = random.Random(name)
    seen = set()
    for _ in range(5000):
        m, x = draw.choice((1, 2, 3, 5)), draw.choice(instances)
        text = task.asked_in_blocks(m, task.gold(draw.choice(instances)))
        for _ in range(draw.randrange(1, 9)):
            i, j = (draw.randrange(len(text) + 1) for _ in range(2))
            i, j = (min(i, j), min(max(i, j), i + 40)) if i < j else (j, min(i, j + 40))
            piece = draw.choice(
                ("", draw.choice(MARKS), chr(draw.randrange(32, 0x3000)), text[i:j] * 2)
            )
            text = text[:i] + piece + text[j if draw.random() < 0.5 else i :]
        (judged,) = judge(task, [(x, text, m)])
        d = len(task.objectives(x))
        assert judged.rewards.shape == (m, d) and judged.valid.shape == judged.solved.shape == (m,)
        assert (judged.rewards >= 0).all() and (judged.rewards <= 1).all()
        for answer in task.parse(x, text, m):
            assert answer is None or isinstance(hash(task.same_effect(x, answer)), int)
        seen.update(map(tuple, judged.rewards))
    assert len(seen) > 15  # the mutations reach far more than right and wrong


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_judged_as_in_training(name):
    task, instances = examples(name)
    x, y = instances[:2]
    text = in_blocks([task.gold(x), task.gold(y), "junk"])
    (judged,) = judge(task, [(x, text, 3)])
    (group,) = read_answers(task, [x], [[text]], 3)
    assert np.array_equal(judged.rewards, group.rewards[0])
    assert np.array_equal(judged.valid, group.valid[0])
    assert np.array_equal(judged.solved, group.solved[0])


def test_a_worst_vector_of_whole_numbers_cuts_off_no_rewards():
    class Halves(Task):
        def objectives(self, instance):
            return "a", "b"

        def worst(self, instance):
            return [0, 0]

        def vector(self, instance, answer):
            return 0.5, 0.7

    (judged,) = judge(Halves(), [(None, "<answer_1>x</answer_1>", 2)])
    assert judged.rewards.tolist() == [[0.5, 0.7], [0, 0]] and judged.valid.tolist() == [
        True,
        False,
    ]


# --- reading --------------------------------------------------------------------------------------


def test_a_file_may_have_a_byte_order_mark_other_line_ends_and_no_last_one(tmp_path):
    first, second, third = EXAMPLE["chains"][:3]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{first}\r\n{second}\n{third}".encode())
    loaded = on_records("chains")().load(path)
    assert list(loaded.records) == [0, 1, 2] and not loaded.damaged


def test_fields_that_nobody_reads_may_be_there_and_no_value_is_converted(file):
    row = json.loads(EXAMPLE["chains"][0])
    more = json.dumps(row | {"idx": None, "further": {"x": [1]}})
    wrong = json.dumps(row | {"question": "one text"})
    number = json.dumps(row | {"entities": [*row["entities"][:5], 6]})
    lacking = json.dumps({k: v for k, v in row.items() if k != "entities"})
    loaded = on_records("chains")().load(file(more, wrong, number, lacking, "{", "[]"))
    assert list(loaded.records) == [0] and list(loaded.damaged) == [1, 2, 3, 4, 5]
    said = list(loaded.damaged.values())
    for line, (message, part) in enumerate(
        zip(
            said,
            ("question", "entities.5", "entities is missing", "no JSON", "it"),
            strict=True,
        ),
        2,
    ):
        assert f"records.jsonl, line {line}: " in message and part in message
        assert "\n" not in message
    with pytest.raises(DamagedError, match="line 2: field question"):
        loaded.usable()


def test_what_is_no_text_is_damaged_and_what_is_no_file_cannot_be_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"question": ["\xff"]}\n\x80\x04K\x05.')
    loaded = on_records("chains")().load(tmp_path / "a.jsonl")  # the second line is a pickle
    assert list(loaded.damaged) == [0, 1]
    for path in (tmp_path / "none.jsonl", tmp_path, "a\0b", "x" * 5000):
        with pytest.raises(DamagedError, match="cannot be read"):
            on_records("chains")().load(path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DamagedError, match=r"empty.jsonl: holds no record .*it has no line"):
        on_records("chains")().load(tmp_path / "empty.jsonl").usable()


def test_a_record_whose_own_answer_would_not_earn_everything_is_dropped(file):
    row = json.loads(EXAMPLE["chains"][0])
    row["entities"][4] = "</entity_E>"
    loaded = on_records("chains")().load(file(EXAMPLE["chains"][0], json.dumps(row)))
    assert loaded.dropped == {1: "its own gold answer does not earn every reward"}
    assert loaded.at(0).names[0] == "Ina_Holt"
    for line, said in (
        (1, "record 1 of .* was dropped: its own"),
        (2, "has records 0 to 1"),
        (-1, "0 to 1"),
    ):
        with pytest.raises(ValueError, match=said):
            loaded.at(line)


def test_a_file_is_read_again_only_after_it_changed(file):
    path = file(*EXAMPLE["hops"][:2])
    cls = on_records("hops")
    assert cls().load(path) is cls().load(path)
    file(*EXAMPLE["hops"][:3])
    assert len(cls().load(path).records) == 3


class Marked(RecordTask):
    """Its problems depend on an option of its own."""

    name = "marked"
    row = task_class("chains").modes["faithful"].row
    options = (*RecordTask.options, Option("mark", str, "plain", "what every problem carries"))

    def record(self, row):
        return f"{self.mark} {row.question[0]}"


def test_problems_are_made_with_the_options_of_their_task(file):
    path = str(file(*EXAMPLE["chains"][:2]))
    plain, marked = Marked(data=path), Marked(data=path, mark="second")
    assert plain.instance(0).startswith("plain ") and marked.instance(0).startswith("second ")
    assert plain.load(path) is not marked.load(path)


def test_a_config_makes_its_task_once_to_ask_about_its_options(file, monkeypatch):
    made = []
    before = Task.__init__
    monkeypatch.setattr(Task, "__init__", lambda self, **o: made.append(1) or before(self, **o))
    data = str(file(*EXAMPLE["hops"]))
    config = vpo.TrainConfig(task="hops", mode="faithful", data=data, model="m")
    assert config.files == {"data": data} and not config.code and not config.single
    assert config.to_json()["model"] == config.base_model == "m" and len(made) == 1
    assert config.make_task() is not config.make_task() and len(made) == 3
    again = pickle.loads(pickle.dumps(config))
    assert again == config == copy.deepcopy(config) and len(made) == 3
    assert again.files == config.files and len(made) == 4


def test_every_tenth_record_is_held_out_and_no_step_trains_on_it(file):
    row = json.loads(EXAMPLE["chains"][0])
    lines = [json.dumps(row | {"question": [f"Sentence {i}."]}) for i in range(25)]
    task = on_records("chains")(data=str(file(*lines)))
    at = {s: [int(task.instance(i).sentences[0][9:-1]) for i in task.seeds[s]] for s in task.seeds}
    assert at["held_out"] == [4, 14, 24]
    assert sorted(at["train"] + at["held_out"]) == list(range(25))
    apart = on_records("chains")(
        data=str(file(*lines)), held_out_data=str(file(*EXAMPLE["chains"], name="b.jsonl"))
    )
    assert (len(apart.seeds["train"]), len(apart.seeds["held_out"])) == (25, 6)
    assert apart.instance(25).names[0] == "Ina_Holt"
    with pytest.raises(ValueError, match="problem 31: there are 31 records"):
        apart.instance(31)
    alone = on_records("chains")(data=str(file(lines[0])))
    with pytest.raises(DamagedError, match="holds one record; one to train"):
        alone.seeds  # noqa: B018
    row["question"] = []
    alone = on_records("chains")(data=str(file(lines[0], json.dumps(row), name="two.jsonl")))
    with pytest.raises(DamagedError, match=r"holds one record \(1 dropped: .+\); one to train"):
        alone.seeds  # noqa: B018
    assert len({task.key(task.instance(i)) for i in range(25)}) == 25
    assert task.key(task.instance(3)) == on_records("chains")(data=task.data).key(task.instance(3))


def test_parquet_without_pyarrow_says_how_to_get_it(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DamagedError, match=r"needs pyarrow .*or write the rows as JSON lines"):
        on_records("hops")().load(file("x", name="a.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_parquet_holds_the_same_records_as_json_lines(file, tmp_path, name):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [json.loads(line) for line in EXAMPLE[name]]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    task = on_records(name)()
    assert (
        task.load(tmp_path / "a.parquet").records == task.load(EXAMPLES / f"{name}.jsonl").records
    )
    parquet.write_table(pyarrow.table({"question": [1, 2]}), tmp_path / "b.parquet")
    assert list(task.load(tmp_path / "b.parquet").damaged) == [0, 1]
    with pytest.raises(DamagedError, match="cannot be read as parquet"):
        task.load(file("junk", name="c.parquet"))


# --- the command line -----------------------------------------------------------------------------


def test_data_check_counts_what_loads_and_what_is_dropped_and_why(file, capsys):
    good, other = (json.loads(line) for line in EXAMPLE["hops"][:2])
    rows = [good, good | {"answerable": False}, other, other | {"answerable": False}]
    path = file(*map(json.dumps, [*rows, good | {"answer": " "}]))
    assert main(["data", "check", str(path), "--task", "hops"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: 2 questions (2 hops: 2)",
        "1 question trains, 1 is held out (--held-out-data names others)",
        "2 dropped: it is marked as not answerable (lines 2, 4)",
        "1 dropped: its answer is empty (line 5)",
    ]
    assert main(["data", "check", str(path), "--task", "hops", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts == {
        "records": 2,
        "kinds": {"2 hops": 2},
        "dropped": {"it is marked as not answerable": 2, "its answer is empty": 1},
        "dropped_lines": {"it is marked as not answerable": [2, 4], "its answer is empty": [5]},
        "damaged": 0,
        "repeated": 0,
        "held_out_seen": 0,
        "columns": {},
        "first_damaged": None,
    }


def test_data_check_lists_the_first_dropped_lines_and_counts_the_rest(file, capsys):
    good = json.loads(EXAMPLE["hops"][0])
    lost = json.dumps(good | {"answerable": False})
    path = file(json.dumps(good), *[lost] * 7)
    assert main(["data", "check", str(path), "--task", "hops"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "no run can use one question alone; with --held-out-data it trains on it",
        "7 dropped: it is marked as not answerable (lines 2, 3, 4, 5, 6 and 2 more; --json lists "
        "all)",
    ]
    assert main(["data", "check", str(path), "--task", "hops", "--json"]) == 0
    (lines,) = json.loads(capsys.readouterr().out)["dropped_lines"].values()
    assert lines == [2, 3, 4, 5, 6, 7, 8]


def test_files_in_another_form_are_named_with_the_cure(file, tmp_path, capsys):
    task = on_records("hops")()
    text = "\n".join(EXAMPLE["hops"]).encode()
    surrogate = EXAMPLE["hops"][0].replace("Where", "Where \\ud83d").encode()
    for content, said in (
        (gzip.compress(text), ": is compressed with gzip; unpack the file with gunzip"),
        (b"PAR1" + bytes(9), ": is parquet; give the file a name that ends in .parquet"),
    ):
        path = tmp_path / "a.jsonl"
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=re.escape(f"{path}{said}")):
            task.load(path)
    path.write_bytes(surrogate + b"\n" + text)
    assert task.load(path).damaged == {
        0: f"{path}, line 1: no JSON: a lone surrogate; it is half of a character, such as "
        "\\ud83d alone; remove it"
    }
    with pytest.raises(DamagedError, match=r"a folder\); join its shards in one file"):
        task.load(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--model", "pocket-hops"], "--model pocket-hops: reads the symbols of its own task"),
        (["--m", "0"], "m = 0: this policy writes 1 to 100 answers"),
        (["--m", "101"], "m = 101: this policy writes 1 to 100 answers"),
    ],
)
def test_data_check_refuses_what_no_run_could_do(file, capsys, given, said):
    """A shipped policy ended it with an error of its tokenizer."""
    path = file(json.dumps(json.loads(EXAMPLE["hops"][0])))
    assert main(["data", "check", str(path), "--task", "hops", *given]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_data_check_names_what_is_asked_twice_and_what_is_held_out_but_known(file, capsys):
    """Of 12 records those at 1 and 11 are held out; 3 and 7 ask the same as 1, and 6 as 5."""
    words = [*"abcbefeyhijk"]
    words[6], words[7] = "f", "b"
    path = file(*(json.dumps({"word": word}) for word in words))
    named = ["--task", f"{__name__}:Asks"]
    assert main(["data", "check", str(path), *named]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "3 ask the same as an earlier one (first: line 4)" in lines
    noun = Asks.noun
    assert (
        f"1 held-out {noun}s ask the same as one to train on (first: line 2): their figures say "
        f"nothing about new {noun}s"
    ) in lines
    other = file('{"word": "z"}', '{"word": "k"}', name="other.jsonl")
    more = [*named, "--held-out-data", str(other), "--json"]
    assert main(["data", "check", str(path), *more]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["repeated"], counts["held_out_seen"]) == (3, 1)  # k


def test_data_check_fails_on_damaged_lines_and_where_nothing_loads(file, capsys):
    path = file(EXAMPLE["calls"][0], *["junk"] * 5, EXAMPLE["calls"][5])
    assert main(["data", "check", str(path), "--task", "calls"]) == 1
    first, *damaged, last = capsys.readouterr().out.splitlines()
    assert first == f"{path}: 2 requests (1 call: 1, reply only: 1)"
    assert [line[: -len(line.partition(": no JSON")[2])] for line in damaged] == [
        f"damaged: {path}, line {i}: no JSON" for i in (2, 3, 4)
    ]
    assert last == "5 damaged in all: no run can use this file"
    path = file('{"a": "b', name="cut.jsonl")  # the only line that is named is that of the file
    assert main(["data", "check", str(path), "--task", "calls"]) == 1
    assert "line 1: no JSON (EOF while parsing a string at column 8)" in capsys.readouterr().out
    lost = json.loads(EXAMPLE["hops"][0]) | {"answerable": False}
    assert main(["data", "check", str(file(json.dumps(lost))), "--task", "hops"]) == 1
    assert main(["data", "check", str(file("{}")), "--task", "hops", "--json"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert json.loads(out[-1])["damaged"] == 1


def test_wrong_requests_get_one_line(file, capsys, tmp_path):
    path = file(*EXAMPLE["hops"])
    default = vpo.TrainConfig().task
    for command, said in (
        (["data", "check", tmp_path / "none", "--task", "hops"], "cannot be read"),
        (["data", "check", path], "--task"),
        (["data", "look", path, "--task", "hops"], "look"),
        (["data", "check", path, "--task", "hop"], "unknown task 'hop'"),
        (["data", "check", path, "--task", "hops", "--mode", "conflict"], "only mode 'faithful'"),
        (["data", "check", path, "--task", "hops", "--hops", "4"], "only mode 'faithful' has it"),
        (["data", "check", path, "--task", default], "has no records"),
        (["score", "--task", "hops"], "--answers"),
        (["score", "--answers", path], "--task"),
        (["score", "--task", default, "--answers", path], "has no records"),
        (["score", "--task", "hops", "--answers", path], "--data FILE: name the records"),
        (["score", "--task", "hops", "--data", path, "--answers", "none"], "cannot be read"),
        (["score", "--task", "hops", "--answers", path, "--mode", "wild"], "unknown mode 'wild'"),
        (["score", "--task", "hops", "--answers", path, "--data", tmp_path], "cannot be read"),
    ):
        assert said in refused(capsys, *command), command


def answer(**changed):
    return json.dumps({"id": "a", "record": 0, "m": 2, "text": ""} | changed)


def test_score_prints_a_line_for_each_answer_in_order(file, capsys):
    data = file(*EXAMPLE["hops"])
    right = "<support>0, 1</support><answer>Lisse</answer>"
    half = "<support>1</support><answer>in Lisse</answer>"
    four = "<support>0, 1, 2, 3</support><answer>Lake Tarn</answer>"
    answers = file(
        answer(text=in_blocks([half, right])),
        answer(id=7, record=3, m=1, text=four, logprob=-3.5),
        answer(id="a", m=3, text=in_blocks([right])),
        name="answers.jsonl",
    )
    command = [
        "score",
        "--task",
        "hops",
        "--mode",
        "faithful",
        "--data",
        data,
        "--answers",
        answers,
    ]
    assert main([str(c) for c in command]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == ["a", 7, "a"]
    assert {tuple(row) for row in rows} == {("id", "objectives", "rewards", "valid", "solved")}
    assert rows[0]["objectives"] == ["hop_1", "hop_2", "hop_3", "hop_4", "answer_f1"]
    assert rows[0]["rewards"] == [pytest.approx([0, 1, 1, 1, 2 / 3]), [1, 1, 1, 1, 1]]
    assert (rows[0]["valid"], rows[0]["solved"]) == ([True, True], [False, True])
    assert rows[1]["rewards"] == [[1, 0, 0, 1, 1]]  # of 2, 6, 4 and 0 the first and the last
    assert rows[2]["rewards"] == [[1] * 5, [0] * 5, [0] * 5]
    assert (rows[2]["valid"], rows[2]["solved"]) == ([True, False, False], [True, False, False])
    loose = [*map(str, command), "--citations", "loose"]
    assert main(loose) == 0 and len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("junk", "no JSON"),
        ("[]", "it "),
        (answer(record=8), "record 8: .*has records 0 to 7"),
        (answer(record=-1), "record -1"),
        (answer(record=10**30), "record 10000"),
        (answer(record="0"), "field record"),
        (answer(record=True), "field record"),
        (answer(record=None), "field record"),
        (answer(m=0), "m = 0: must be 1 to 100"),
        (answer(m=101), "m = 101"),
        (answer(m=1.5), "field m"),
        (answer(text=None), "field text"),
        (answer(text=["a"]), "field text"),
        (answer(id=None), "field id"),
        (answer(id={"x": 1}), "field id"),
        ('{"id": "a", "record": 0, "m": 1}', "field text is missing"),
        ('{"id": "a", "record": 0, "m": 1, "text": "\\ud800"}', "no JSON"),
    ],
)
def test_a_bad_line_of_answers_is_named_and_nothing_is_printed(file, capsys, bad, said):
    answers = file(answer(), bad, answer(), name="answers.jsonl")
    data = EXAMPLES / "hops.jsonl"
    line = refused(capsys, "score", "--task", "hops", "--data", data, "--answers", answers)
    assert re.search(f"answers.jsonl, line 2: .*{said}", line)


def test_empty_lines_are_no_records_and_the_others_keep_their_numbers(file, capsys):
    """Of data and of answers: record counts all lines of the data, as an editor does less one."""
    one, two = EXAMPLE["hops"][:2]
    data = file("", one, " \t", two, "junk", "", name="data.jsonl")
    loaded = on_records("hops")().load(data)
    assert list(loaded.records) == [1, 3] and "data.jsonl, line 5: no JSON" in loaded.damaged[4]
    data = file("", one, " \t", two, name="data.jsonl")
    answers = file("", answer(record=1), "", answer(record=3), name="answers.jsonl")
    asked = ["score", "--task", "hops", "--data", str(data), "--answers", str(answers)]
    assert main(asked) == 0 and len(capsys.readouterr().out.splitlines()) == 2
    assert main(["data", "check", str(data), "--task", "hops"]) == 0
    file("", answer(record=1), "", answer(record=2), name="answers.jsonl")
    capsys.readouterr()
    assert f"line 4: record 2: line 3 of {data} is empty" in refused(capsys, *asked)


def test_an_answer_to_a_dropped_record_and_damaged_data_are_refused(file, capsys):
    lost = json.dumps(json.loads(EXAMPLE["hops"][0]) | {"answerable": False})
    data, answers = file(EXAMPLE["hops"][0], lost), file(answer(record=1), name="answers.jsonl")
    command = ("score", "--task", "hops", "--data", data, "--answers", answers)
    assert "line 1: record 1 of" in (line := refused(capsys, *command)) and "not answerable" in line
    file(EXAMPLE["hops"][0], "junk")
    assert "records.jsonl, line 2: no JSON" in refused(capsys, *command)


# --- training -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A language model of random parameters that reads and writes bytes."""
    folder = tmp_path_factory.mktemp("models") / "bytes"
    return str(byte_model(folder, 16, 24, 1, 2, 2, max_position_embeddings=8192))


def config(model, name, **changes):
    small = dict(task=name, mode="faithful", model=model, prompts=1, group_size=2, m=2, steps=1)
    here = dict(set_size=2, device="cpu", threads=1, max_new_tokens=12)
    return vpo.TrainConfig.preset("demo", **small | here | changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_asked_trained_and_measured_on_each_task(model, tmp_path, name, capsys):
    data = tmp_path / "records.jsonl"
    data.write_text("\n".join(EXAMPLE[name]), encoding="utf-8")
    command = f"train --task {name} --data {data} --model {model} --steps 1 --prompts 1 --m 2"
    command += f" --group-size 2 --max-new-tokens 12 --device cpu --threads 1 --out {tmp_path}/run"
    assert main(command.split()) == 0
    assert "vpo" in capsys.readouterr().out
    assert main(["evaluate", f"{tmp_path}/run", "--device", "cpu", "--answers", "2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["problems"] == 1 and figures["parse_rate"] <= 1
    assert list(figures["objectives"]) == list(on_records(name)().objectives(None))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["grpo", "goal_conditioned", "multi_rlvr"])
def test_other_methods_learn_on_them(model, name, method):
    (record,) = vpo.train(config(model, name, method=method, mode="faithful"))
    d = len(on_records(name)().objectives(None))
    assert record.groups[0].rewards.shape == (2, 2 if method == "multi_rlvr" else 1, d)


def test_rewards_reach_the_update(model, monkeypatch):
    """A model that wrote the gold answer in half of its rollouts would learn from them."""
    task, (x, y, *_) = examples("calls")
    answers = [in_blocks([task.gold(x), "junk"]), in_blocks([task.gold(y), "junk"])]
    (group,) = read_answers(task, [x], [answers], 2)
    rewards = group.for_training(task.worst(x))
    advantages = vpo.advantages("vpo", rewards[None])
    assert rewards[:, 0].tolist() == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert advantages[0, 0] > 0.9 and advantages[0, 1] < -0.9


@pytest.mark.slow
def test_a_run_goes_on_with_the_data_that_it_began_with(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = Path("records.jsonl")  # as a relative path
    data.write_text("\n".join(EXAMPLE["chains"]), encoding="utf-8")
    run = Run.begin(config(model, "chains", data=data, steps=2), "run")
    stored = json.loads(Path("run/config.json").read_text())
    assert stored["task_options"] == {"data": str(tmp_path / "records.jsonl")}
    run.start(), next(run.steps())
    run.close()
    before = {p: p.read_bytes() for p in Path("run").iterdir()}
    whole = data.read_bytes()
    monkeypatch.chdir("/")
    data = tmp_path / data
    data.write_bytes(whole + b"\n" + EXAMPLE["chains"][0].encode())
    line = refused(capsys, "train", "--resume", tmp_path / "run")
    assert f"{data}: data changed since the run in {tmp_path}/run began; put it back" in line
    data.unlink()
    assert "records.jsonl is not there" in refused(capsys, "train", "--resume", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert {p: p.read_bytes() for p in Path("run").iterdir()} == before
    data.write_bytes(whole)
    again = Run.resume("run")
    assert [record.step for record in again.steps()] == [2]
    again.finish()
    data.write_bytes(whole + b"\n")
    assert "changed since the run" in refused(capsys, "evaluate", "run", "--answers", "2")
    data.unlink()
    assert vpo.compare(["run"])[0]["runs"] == 1  # its figures are there without the data


def test_a_run_goes_on_where_its_data_has_moved_and_not_without_them(model, file, tmp_path):
    """Its digest says that they are the same; the task's other options stay what they were."""
    made = config(model, "chains", data=file(*EXAMPLE["chains"]))

    def unchanged(**options):
        about = {"config": json.dumps(made.to_json() | {"task_options": options})}
        check_unchanged(tmp_path, about, None, made)

    unchanged(data="/another/place/records.jsonl")
    for options in ({}, {"data": made.files["data"], "most": 3}):
        with pytest.raises(DamagedError, match="task_options changed since the run began"):
            unchanged(**options)


def test_data_that_cannot_be_read_is_refused_before_a_model_is_loaded(tmp_path, capsys, file):
    for data, said in (("none.jsonl", "cannot be read"), (file("junk"), "line 1: no JSON")):
        options = ["--data", tmp_path / data, "--model", tmp_path, "--out", tmp_path / "run"]
        assert said in refused(capsys, "train", "--task", "hops", *options)
    assert not (tmp_path / "run").exists()


def test_a_run_without_the_fingerprint_of_its_data_is_refused(model, file, tmp_path):
    Run.begin(config(model, "chains", data=file(*EXAMPLE["chains"])), tmp_path / "run").close()
    path = tmp_path / "run" / "config.json"
    stored = json.loads(path.read_text())
    for files, said in (({}, "data changed"), ({"data": 5}, "field files"), ([], "field files")):
        path.write_text(json.dumps(stored | {"files": files}))
        with pytest.raises(DamagedError, match=said):
            Run.resume(tmp_path / "run")
    path.write_text(json.dumps(stored))
    assert Run.resume(tmp_path / "run").done == 0


def test_an_option_with_the_name_of_a_flag_of_score_is_refused(monkeypatch, file, capsys):
    cls = task_class("chains")
    clash = Option("answers", str, None, "no")
    monkeypatch.setattr(cls, "options", (*cls.options, clash))
    line = refused(capsys, "score", "--task", "chains", "--answers", file("x"))
    assert "its option --answers" in line and "flag of `vpo-lite score`" in line


def test_a_path_is_a_text_and_an_option_of_its_own_kind():
    option = Option("data", str, None, "records", path=True)
    assert option.check(Path("a") / "b") == "a/b" and option.read("a/b") == "a/b"
    with pytest.raises(ValueError, match="data = 5: must be a text"):
        option.check(5)
    for wrong in (dict(type=int, path=True), dict(type=str, path=True, file=True)):
        with pytest.raises(
            ValueError, match="set at most one of file, path and code, with type str"
        ):
            Option("data", default=None, help="", **wrong)


class Word(Row):
    word: str


class Cut(RecordTask):
    """Short, or much of the word: no answer earns both, and no record holds a gold answer."""

    name, row = "cut", Word
    meanings = (("short", "few letters"), ("whole", "many letters of the word"))

    def record(self, row):
        if len(row.word) > 9:
            raise Dropped("its word is longer than 9 letters")
        return row.word

    def vector(self, instance, answer):
        return [1 - len(answer) / 9, len(answer) / 9]


class Asks(Cut):
    completion_tokens = 20, 60

    def prompt(self, instance, m, **_):
        return Prompt.words(f"Cut {instance} {m} times.")


def test_records_without_gold_answers_claim_no_front(file):
    task = Cut(data=str(file('{"word": "hops"}', '{"word": "chains"}')))
    x = task.instance(0)
    assert task.front(x) is None  # (1, 1) is out of reach, and nothing says what is not
    rewards = task.score([x], [["", "hop"]])[0]
    assert rewards[0].tolist() == [1, 0] and not task.solved(x, rewards).any()
    assert [task.same_effect(x, a) for a in ("hop", "hop ")] == ["hop", "hop "]


class Listed(Asks):
    """Its scores are plain lists, and the word itself is the gold answer."""

    def gold(self, instance):
        return instance

    def score(self, instances, answers):
        return [
            [[float(a == x)] * 2 for a in row] for x, row in zip(instances, answers, strict=True)
        ]


def test_scores_may_be_plain_lists_wherever_they_are_read(file, capsys):
    data = file('{"word": "no"}', '{"word": "hops"}')
    task = Listed(data=str(data), repeats="vector")
    x = task.instance(0)
    assert task.same_effect(x, "no") != task.same_effect(x, "on") == task.same_effect(x, "oh")
    answers = file(answer(m=2, text="junk"), answer(id="b", m=1, text="no"), name="answers.jsonl")
    named = ["--task", f"{__name__}:Listed"]
    assert main(["data", "check", str(data), *named, "--score", "no"]) == 0
    assert "0 of 2 cannot be scored" in capsys.readouterr().out
    assert main(["score", *named, "--data", str(data), "--answers", str(answers)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["rewards"] for row in rows] == [[[0, 0], [0, 0]], [[1, 1]]]


def test_repeats_of_equal_rewards_ask_the_scorer_once(file, monkeypatch):
    """A slow judge was asked again for each answer, one by one."""
    task = Listed(data=str(file('{"word": "no"}', '{"word": "hops"}')), repeats="vector")
    x, real, calls = task.instance(0), Listed.score, []
    monkeypatch.setattr(Listed, "score", lambda *a: calls.append(a) or real(*a))
    (group,) = read_answers(task, [x], [[in_blocks(["no", "on", "oh"]), in_blocks(["no"])]], 3)
    assert len(calls) == 1
    assert group.repeats.tolist() == [[False, False, True], [False] * 3]


def test_a_failure_of_the_scorer_is_one_line(file, capsys, monkeypatch):
    def score(*_):
        raise TaskError("no judge\nis there")

    monkeypatch.setattr(Asks, "score", score)
    data = file('{"word": "no"}')
    named = ["--task", f"{__name__}:Asks", "--score", "no"]
    assert main(["data", "check", str(data), *named]) == 1
    assert "line 1 cannot be scored: no judge is there\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[[0.5]]], r"scores of shape (1, 1): expected (1, 2)"),
        ([[0.5]], r"scores of shape (1,): expected (1, 2)"),
        ([[[0.5, float("nan")]]], "values that are NaN or infinite"),
        ([[[0.5, "0.5"]]], "expected an array of numbers"),
        ([], "gave scores of 0 problems: expected 1"),
    ],
)
def test_scores_that_would_stop_a_run_fail_in_a_check_and_in_score(
    file, capsys, monkeypatch, scores, said
):
    monkeypatch.setattr(Asks, "score", lambda self, instances, answers: scores)
    data, named = file('{"word": "no"}', '{"word": "hops"}'), ["--task", f"{__name__}:Asks"]
    assert main(["data", "check", str(data), *named, "--score", "no"]) == 1
    out = capsys.readouterr().out
    assert f"{said}" in out and "2 of 2 cannot be scored" in out
    answers = file(answer(m=1, text="no"), name="answers.jsonl")
    assert main(["score", *named, "--data", str(data), "--answers", str(answers)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"vpo-lite: {answers}, line 1: task 'cut'")
    assert said in err and err.count("\n") == 1


def test_records_to_tune_on_are_a_split_of_their_own(file):
    data = file(*(f'{{"word": "{c}"}}' for c in "abcdefghijkl"))
    tuned = file('{"word": "x"}', '{"word": "much too long"}', '{"word": "y"}', name="tuned.jsonl")
    plain, task = Cut(data=str(data)), Cut(data=str(data), validation_data=str(tuned))
    assert list(plain.seeds) == ["train", "held_out"]
    words = {split: [task.instance(s) for s in seeds] for split, seeds in task.seeds.items()}
    assert words == {"train": list("acdefghijk"), "held_out": ["b", "l"], "validation": ["x", "y"]}
    for seed in (-1, 14):
        with pytest.raises(ValueError, match=f"problem {seed}: there are 14 records"):
            task.instance(seed)


def test_a_check_counts_the_tokens_of_the_requests(file, model, capsys):
    """As the policy reads them: with its chat template, for the records that can be used."""
    data = str(file('{"word": "no"}', '{"word": "much too long"}', '{"word": "chains"}'))
    short, long = (Prompt.words(f"Cut {word} 2 times.") for word in ("no", "chains"))
    policy = vpo.load_policy(model, device="cpu")
    tokens = [len(policy.encode(prompt)) for prompt in (short, long)]
    mean = round(sum(tokens) / 2)
    assert mean < tokens[1]
    asked = ["data", "check", data, "--task", f"{__name__}:Asks", "--m", "2", "--model", model]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["request_tokens"], found["longest_request"]) == (tokens[1], 2)
    assert found["mean_request_tokens"] == mean and found["new_tokens"] == 40
    assert main(asked) == 0
    said = f"{tokens[1]} tokens in the longest request (line 3), {mean} on average; up to 40"
    assert said in capsys.readouterr().out
    assert "model 'nowhere'" in refused(capsys, *asked[:-1], "nowhere")


@pytest.mark.parametrize("kind", ["rotary", "longrope", "fits"])
def test_a_check_says_which_requests_are_too_long_for_the_model(
    file, model, tmp_path, capsys, kind
):
    """40 tokens follow, as training counts them. The long request ends one position too late."""
    rows = ['{"word": "no"}', '{"word": "chains"}', '{"word": "hop"}']
    asked = ["data", "check", str(file(*rows)), "--task", f"{__name__}:Asks", "--m", "2"]
    folder = shutil.copytree(model, tmp_path / "short")
    config = json.loads((folder / "config.json").read_text())
    policy = vpo.load_policy(model, device="cpu")
    tokens = len(policy.encode(Prompt.words("Cut chains 2 times.")))
    most, there = tokens + 39 + (kind == "fits"), "there its answers may be worse"
    config["max_position_embeddings"] = 10**5 if kind == "longrope" else most
    if kind == "longrope":
        of_kind = dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=most)
        factors = [1.0] * (config["hidden_size"] // config["num_attention_heads"] // 2)
        config["rope_parameters"] = of_kind | dict(long_factor=factors, short_factor=factors)
        there = "training refuses them"
    (folder / "config.json").write_text(json.dumps(config))
    assert main([*asked, "--model", str(folder)]) == 0
    said = (
        f"1 of 3 problems are too long: requests of up to {tokens} tokens and 40 new ones need "
        f"more than the {most} positions that {folder} was made for; {there}: shorten the requests"
    )
    assert (said in capsys.readouterr().out) == (kind != "fits")
    assert main([*asked, "--model", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["positions"], found["beyond"]) == (most, int(kind != "fits"))


def test_a_task_without_its_own_parts_says_which(model):
    class Bare(RecordTask):
        name = "bare"

    with pytest.raises(ValueError, match="task 'bare' must define record"):
        Bare().record(None)
    assert Bare().gold(None) is None  # a record may hold no answer
    with pytest.raises(ValueError, match="no shipped policy reads task 'calls'; name a model"):
        vpo.TrainConfig.preset("demo", task="calls", mode="faithful")
    assert Learner(config(model, "calls")).task.path.endswith("calls.jsonl")


@pytest.mark.slow
def test_a_run_a_report_and_an_export_tell_of_dropped_records(file, tmp_path, capsys, monkeypatch):
    """Of 20 records every second one is dropped, and one more of a file of its own."""
    good = json.loads(EXAMPLE["hops"][0])
    rows = [good | {"question": f"Who is {i}?", "answerable": i % 2 == 0} for i in range(20)]
    rows[4]["answer"] = " "
    data = file(*map(json.dumps, rows))
    held_out = file(*map(json.dumps, rows[:2]), name="held_out.jsonl")
    told = (
        f"11 of 20 questions of {data} dropped: it is marked as not answerable (10), its answer is "
        f"empty (1); list them with: vpo-lite data check {data} --task hops"
    )
    other = f"1 of 2 questions of {held_out} dropped: it is marked as not answerable (1); list "
    model = byte_model(tmp_path / "model", 16, 32, 1, 2, 2)
    task = f"--task hops --data {data} --held-out-data {held_out} --model {model}"
    asked = f"{task} --max-new-tokens 4"
    small = "--steps 1 --prompts 1 --group-size 2 --eval-problems 1 --eval-answers 3"
    assert main(f"train {asked} {small} --out {tmp_path / 'run'}".split()) == 0
    error = capsys.readouterr().err
    assert error.count(f"vpo-lite: {told}\n") == 1 and error.count(f"vpo-lite: {other}") == 1
    assert error.index(told) < error.index("measuring the policy before training")
    given = dict(task="hops", data=str(data), held_out_data=str(held_out), model=str(model))
    fixed = dict(max_new_tokens=4, steps=1, prompts=1, group_size=2)
    said = []  # in Python, before the first step
    assert next(vpo.train(vpo.TrainConfig.preset("demo", **given, **fixed), tell=said.append))
    assert said[0] == told and said[1].startswith(other) and len(said) == 2
    assert main(f"report {asked} --answers 3 --problems 1".split()) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count(told) == 1 and out.count(other) == 1
    assert main(f"report {asked} --answers 3 --problems 1 --json".split()) == 0
    assert capsys.readouterr().err.count(f"vpo-lite: {told}\n") == 1
    pytest.importorskip("pyarrow")
    assert main(f"export verl {asked} {small} --out {tmp_path / 'verl'}".split()) == 0
    assert capsys.readouterr().err.count(told) == 1


def test_nothing_is_told_where_no_record_is_dropped(file):
    assert on_records("hops")(data=str(file(*EXAMPLE["hops"]))).told("hops") == []


def test_beyond_twenty_reasons_the_rarest_are_counted_together():
    why = {i: f"reason {max(0, i - 3)}" for i in range(30)}  # reason 0 four times, 26 others once
    counts = Loaded("a", {40: "x"}, why, {41: "damaged"}).counts()
    assert counts["read"] == 32 and len(counts["dropped"]) == 21
    assert counts["dropped"]["reason 0"] == 4 and counts["dropped"]["other reasons"] == 7
    assert sum(counts["dropped"].values()) == 30


@pytest.mark.slow
def test_a_run_keeps_what_was_dropped_for_comparisons(file, tmp_path, capsys):
    """Of 20 records three are dropped; a second run has other data, of which none is dropped."""
    good = json.loads(EXAMPLE["hops"][0])
    rows = [good | {"question": f"Who is {i}?", "answerable": i not in (3, 5)} for i in range(20)]
    whole = file(*(json.dumps(r | {"answerable": True}) for r in rows[:11]), name="whole.jsonl")
    rows[4]["answer"] = " "
    data = file(*map(json.dumps, rows))
    kept = {"it is marked as not answerable": 2, "its answer is empty": 1}
    model = byte_model(tmp_path / "model", 16, 32, 1, 2, 2)
    task = f"--task hops --model {model} --max-new-tokens 4"
    small = "--steps 1 --prompts 1 --group-size 2 --eval-problems 1 --eval-answers 3"
    a, b = tmp_path / "a", tmp_path / "b"
    for out, path in ((a, data), (b, whole)):
        assert main(f"train {task} {small} --data {path} --out {out}".split()) == 0
    assert RunFolder(a).summary()["records"] == {"data": {"read": 20, "dropped": kept}}
    assert RunFolder(b).summary()["records"] == {"data": {"read": 11, "dropped": {}}}
    capsys.readouterr()

    said = "3 of 20 records of data dropped: it is marked as not answerable (2), its answer is "
    page = tmp_path / "page.html"
    assert main(f"compare {a} --html {page}".split()) == 0
    assert f"\n{said}empty (1).\n" in capsys.readouterr().out
    assert f"<li>{said}empty (1).</li>" in page.read_text("utf-8")
    assert main(f"compare {b}".split()) == 0
    assert "dropped" not in capsys.readouterr().out
    assert main(f"compare {a} {b}".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    first, second = (line for line in lines if "dropped" in line)
    assert first.startswith("vpo, data=records.jsonl ") and first.endswith(f": {said}empty (1).")
    assert second.startswith("vpo, data=whole.jsonl ")
    assert second.endswith(": 0 of 11 records of data dropped.")

    assert main(f"evaluate {a} --json".split()) == 0
    measured = capsys.readouterr()
    assert json.loads(measured.out)["records"] == RunFolder(a).summary()["records"]
    assert measured.err.count("3 of 20 questions of ") == 1
    again = tmp_path / "again.json"
    again.write_text(measured.out)
    assert vpo.compare([again])[0]["records"] == vpo.compare([a])[0]["records"]
    assert main(f"train --resume {a} --steps 2".split()) == 0
    assert RunFolder(a).summary()["records"] == {"data": {"read": 20, "dropped": kept}}


@pytest.mark.slow
def test_the_panel_says_what_is_dropped(file):
    row = json.loads(EXAMPLE["hops"][0])
    data = file(*(json.dumps(row | {"answerable": i != 3}) for i in range(12)))
    made = dict(task="hops", data=str(data), model="nowhere")
    line = str(status_line(Session(**made).view()))
    assert line.count("Data: 1 of 12 questions of ") == 1 and "data check" in line
    data.write_text((json.dumps(row) + "\n") * 12)
    assert "Data:" not in str(status_line(Session(**made).view()))


def test_the_example_lines_of_the_reference_are_records(file, tmp_path):
    """Each field that is read is there, and without any of those that are needed no line fits."""
    text = Path(__file__).parents[1].joinpath("notebooks", "REFERENCE.md").read_text("utf-8")
    section = text.partition("## Records of the paper's data sets")[2]
    lines = section.partition("```json\n")[2].partition("\n```")[0].splitlines()
    optional = {"answer_aliases", "answerable", "question_title", "starter_code", "metadata"}
    tasks = ("calls", "hops", "chains", "programs", "programs")
    named = dict(re.findall(r"^\| `(calls|hops|chains|programs)` \| (.*?) \|", section, re.M))
    assert list(named) == list(dict.fromkeys(tasks))
    for task, line in zip(tasks, lines, strict=True):
        cls = on_records(task)
        row = json.loads(line)
        (x,) = cls().load(file(line)).records.values()
        assert cls().prompt(x, 3).text and set(row) <= set(cls.row.model_fields)
        for name in cls.row.model_fields:
            assert f"`{name}`" in named[task] or f"`{name}." in named[task]
        for name in set(row) - optional:
            lacking = {k: v for k, v in row.items() if k != name}
            assert list(cls().load(file(json.dumps(lacking))).damaged) == [0]


def test_programs_compare_a_result_exactly():
    """As the reference says of 0.1 + 0.2."""
    assert json.dumps(0.1 + 0.2) == "0.30000000000000004"
    assert not passes(b"0.30000000000000004", "0.3", call=True)
    assert passes(b"0.30 ", "0.30\n", call=False) and not passes(b"0.3", "0.30", call=False)
