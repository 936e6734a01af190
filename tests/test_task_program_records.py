"""Python programs on records: which tests count, how a set is read, what passes; by hand."""

import base64
import json
import pickle
import random
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_records import config, model, refused  # noqa: F401

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.search.openevolve import metrics_of
from vpo_lite.tasks import program_records, program_texts, sandbox
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.program_records import ProgramRecords
from vpo_lite.tasks.program_texts import passes
from vpo_lite.tasks.programs import ProgramsTask
from vpo_lite.tasks.records import EXAMPLES
from vpo_lite.training.answers import read_answers

SHIPPED = EXAMPLES / "programs.jsonl"
ROW = json.loads(SHIPPED.read_text("utf-8").splitlines()[0])
SLOW = {"seconds": 20.0}  # for slow machines


def as_tests(*tests, kind="stdin"):
    return json.dumps([{"input": a, "output": b, "testtype": kind} for a, b in tests])


MIXED = f"{as_tests(('1', '2'))[:-1]}, {as_tests(('1', '2'), kind='functional')[1:]}"


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def row(tests, **changes):
    return ROW | {"private_test_cases": tests, "metadata": "{}", "starter_code": ""} | changes


@pytest.fixture
def loaded(tmp_path):
    """A function from rows to what is loaded of them."""

    def load(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return ProgramRecords().load(path)

    return load


def problem(loaded, *tests, call=None):
    kind = "functional" if call else "stdin"
    meta = json.dumps({"func_name": call})
    return loaded(row(as_tests(*tests, kind=kind), metadata=meta)).at(0)


# --- records --------------------------------------------------------------------------------------

SOLVED = (
    "class Solution:\n  def rotate(self, row: List[int], k: int) -> List[int]:\n"
    "    row = deque(row)\n    row.rotate(k)\n    return list(row)",
    "n = input()\nprint(sum(int(x) for x in input().split() if int(x) % 2 == 0))",
    "import sys\nprint(*sorted(sys.stdin.read().split(), key=len), sep='\\n')",
    "def pair(numbers, goal):\n  for i, j in combinations(range(len(numbers)), 2):\n"
    "    if numbers[i] + numbers[j] == goal: return i, j\n  return []",
    "n, steps = int(input()), 0\nwhile n > 1:\n  n = 3 * n + 1 if n % 2 else n // 2\n  steps += 1\n"
    "print(steps)",
    "class Solution:\n  def balanced(self, text):\n\n"
    "    text = ''.join(c for c in text if c in '()[]{}')\n"
    "    while text != (text := text.replace('()', '').replace('[]', '').replace('{}', '')): pass\n"
    "    return not text",
)


@pytest.mark.slow
def test_every_shipped_record_can_be_solved():
    task = ProgramRecords(**SLOW)
    problems = list(task.load(SHIPPED).usable().values())
    assert [len(task.objectives(x)) for x in problems] == [5, 5, 4, 6, 5, 6]
    assert [task.kind(x) for x in problems].count("stdin") == 3
    for R, x in zip(task.score(problems, [[code] for code in SOLVED]), problems, strict=True):
        d = len(x.tests)
        assert R.tolist() == [[1.0] * d] and task.solved(x, R).all()
        assert task.front(x).tolist() == [[1.0] * d] and task.w_star(x).tolist() == [1 / d] * d


def test_the_16_shortest_tests_count_in_order_of_length(loaded):
    """Input and output together have 8,192 characters at most; ties stay in the file's order."""
    sizes = [30, 9, 8192, 8193, 9, 5, 8191, *range(40, 52)]
    tests = [(f"{i:02}" + "x" * (size - 3), "y") for i, size in enumerate(sizes)]
    x = problem(loaded, *tests)
    kept = [int(given[:2]) for given, _ in x.tests]
    assert kept == [5, 1, 4, 0, *range(7, 19)] and len(kept) == 16
    assert ProgramRecords().objectives(x) == tuple(f"test {i}" for i in range(1, 17))


def test_private_tests_are_read_from_json_and_from_zlib_and_never_unpickled(
    loaded, tmp_path, monkeypatch
):
    monkeypatch.setattr(program_texts, "MOST_LINE", 10**6)

    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "read",)

    tests = as_tests(("1", "2"))
    bombs = [packed(pickle.dumps(Bomb(), protocol)) for protocol in range(6)]
    found = loaded(
        row(tests),
        row(packed(tests.encode())),
        *(row(packed(pickle.dumps(tests, protocol))) for protocol in range(6)),
        *map(row, bombs),
        row(packed(pickle.dumps([tests]))),
        row(base64.b64encode(pickle.dumps(Bomb())).decode()),
        row("junk!"),
        row(packed(b"[" + b" " * 10**7)),
        row("[{}]"),
        row("[]"),
        row(""),
        row(base64.b64encode(zlib.compress(tests.encode())[:-2]).decode()),
        row(packed(b"no pickle")),
    )
    assert list(found.records) == [*range(8)] and len(set(found.records.values())) == 1
    assert list(found.dropped) == [*range(8, 15), 17, 19]
    why = list(found.dropped.values())
    assert all("a pickle that holds more than a text" in w for w in why[:7])
    assert "more than 1,000,000 bytes" in why[7] and why[8] == "it has no private tests"
    assert list(found.damaged) == [15, 16, 18, 20, 21, 22]
    for (line, said), words in zip(
        found.damaged.items(),
        (
            *["neither JSON nor base64 of zlib, "] * 2,
            "field 0.input is missing; ",
            *["cut off, or empty; "] * 2,
            "neither JSON nor a readable pickle; ",
        ),
        strict=True,
    ):
        assert f", line {line + 1}: private_test_cases: {words}" in said
        assert said.endswith("with json.dumps")
    assert not (tmp_path / "read").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"question_content": " "}, "no statement"),
        ({"private_test_cases": MIXED}, "its tests are neither all 'stdin' nor all 'functional'"),
        ({"private_test_cases": as_tests(("1", "x"), kind="functional")}, "is no JSON"),
        ({"private_test_cases": as_tests(("1\nx", "2"), kind="functional")}, "is no JSON"),
        ({"private_test_cases": as_tests(("x" * 8192, "y"))}, "no test of at most 8,192"),
    ],
)
def test_rows_of_which_no_problem_can_be_made_say_why(loaded, changes, why):
    assert why in loaded(ROW | changes).dropped[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metadata": None}, "metadata: names no function, None; for functional tests write "),
        ({"metadata": "f"}, "metadata: no JSON"),
        ({"metadata": '{"func_name": "a.b"}'}, "metadata: names no function, "),
        ({"metadata": '{"func_name": "import"}'}, "metadata: names no function, "),
        ({"metadata": {"func_name": "f"}}, "field metadata should be a JSON text: write it with "),
        ({"private_test_cases": as_tests(("1", "2"), kind="other")}, "testtype 'other'; write a "),
        ({"private_test_cases": '[{"input": "1", "output": "2"}]'}, "0.testtype is missing"),
        ({"private_test_cases": '{"input": ["1"]}'}, "private_test_cases: a JSON object; write a "),
        ({"private_test_cases": []}, "field private_test_cases should be a JSON text: write it "),
    ],
)
def test_mistakes_of_a_conversion_are_damaged(loaded, changes, said):
    """They were dropped, and training went on with the other half of the file."""
    found = loaded(ROW, ROW | changes)
    assert (list(found.records), list(found.damaged), found.dropped) == ([0], [1], {})
    assert "rows.jsonl, line 2: " in found.damaged[1] and said in found.damaged[1]
    assert "json.dumps" in found.damaged[1]


# --- sets -----------------------------------------------------------------------------------------

PY, PLAIN, OPENED = "```python\n{}\n```", "```\n{}\n```", "```python\n{}"
A, B, C = "a = 1", "b = 2", "c = 3"
READ = [  # text, as read in training, as read in evaluation; m = 3
    (f"{PY}\n---\n{PY}\n---\n{PY}", [A, B, C], [A, B, C]),
    (f"First {PY} then {PY}", [A, B, None], [A, B, None]),  # no line between
    (f"{PY}\n---\n{PY}\n---\n{PY}\n---\n{PY}", [A, B, C], [A, B, C]),  # one too many
    (f"{PY}", [A, None, None], [A, None, None]),
    (f"{PY}\n---\n{{}}", [A, B, None], [A, None, None]),  # bare
    (f"{PY}\n---\n{PLAIN}", [A, B, None], [A, None, None]),
    (f"{PY}\n---\nNote\n{OPENED}", [A, B, None], [A, None, None]),  # cut off
    ("{}\n---\n{}\n ---\t\n{}", [A, B, C], [A, B, C]),
    ("{} --- {}", ["a = 1 --- b = 2", None, None], [A, B, None]),  # inside a line
    ("{}\n----\n{}", ["a = 1\n----\nb = 2", None, None], [A, "-\nb = 2", None]),
    (
        f"---\n{PLAIN}\n---\n---\n{PLAIN}",
        [A, B, None],
        ["```\na = 1\n```", "```\nb = 2\n```", None],
    ),
    (f"{PLAIN} or {PY}", [B, None, None], [B, None, None]),  # a python fence is meant
    ("```py\n{}\n```\n```PYTHON3\n{}\n```", [A, B, None], [A, B, None]),
    ("```python\n\n```\n---\n```python\n{}\n```", [None, A, None], [None, A, None]),
    ("", [None] * 3, [None] * 3),
    ("\n---\n \n---\n", [None] * 3, [None] * 3),
]


@pytest.mark.parametrize(("text", "training", "evaluation"), READ)
def test_sets_are_read_as_in_the_release(text, training, evaluation):
    text = text.format(A, B, C, "d = 4") if "{" in text else text
    for fences, expected in (("training", training), ("evaluation", evaluation)):
        task = ProgramRecords(fences=fences)
        assert task.parse(None, text, 3) == expected
        assert task.parse(None, text, 1) == expected[:1]


@pytest.mark.parametrize("m", [1, 2, 9])
def test_the_request_asks_for_what_the_parser_reads(m):
    task = ProgramRecords()
    for x in task.load(SHIPPED).usable().values():
        asked = task.prompt(x, m, weights=np.full(len(x.tests), 0.125)).text
        assert x.statement in asked and x.starter in asked and "test 2 0.12" in asked
        assert ("standard input" in asked) == (x.call is None)
        form = asked[asked.index("```") :]
        assert form == task.asked_in_blocks(m, "...")
        codes = [f"a = {i}" for i in range(m)]
        filled = form
        for code in codes:
            filled = filled.replace("...", code, 1)
        assert task.parse(x, f"Thoughts.\n{filled}\nDone.", m) == codes
    assert (task.max_tokens(x, 1), task.max_tokens(x, 3)) == (2048, 3072)


@pytest.mark.slow
def test_equal_syntax_trees_are_repeats(monkeypatch):
    task, x = ProgramRecords(**SLOW), ProgramRecords().instance(0)
    same = ["x=1", "x = 1  # one", "x = (1)"]
    assert len({task.effect(x, code) for code in same}) == 1
    assert task.effect(x, "x = 2") != task.effect(x, "x = 1") != task.effect(x, "y = 1")
    assert (
        task.effect(x, "NO  Python\nHere") == "no python here" == task.effect(x, "no python here")
    )
    for deep in ("(" * 10**4, "-" * 10**4 + "1", "[" * 10**4, "x" + ".x" * 10**4, "\0", "\ud800"):
        assert task.effect(x, deep) is not None
    texts = ["\n---\n".join(map(PY.format, ["x=1", "x = 1", "y"])), PY.format("x=1")]
    (group,) = read_answers(task, [x], [texts], 3)
    assert group.repeats.tolist() == [[False, True, False], [False] * 3]
    monkeypatch.setattr(sandbox, "execute", None)  # nothing runs a second time
    assert task.score([x], [["x = 1", "x=1"]])[0].tolist() == [[0.0] * 5] * 2


def test_a_vector_that_another_thread_removes_meanwhile_is_not_missed(monkeypatch):
    """veRL scores rollouts in several threads, and a task keeps the vectors of its last answers."""
    task, x = ProgramRecords(), ProgramRecords().instance(0)
    monkeypatch.setattr(program_records, "KEPT", 1)

    def ran(jobs, limits):
        if jobs[0].code == "new":
            task.score([x], [["of another thread"]])
        return [sandbox.Outcome(None, "failed") for _ in jobs]

    monkeypatch.setattr(program_records, "run", ran)
    task.score([x], [["old"]])
    assert task.score([x], [["old", "new"]])[0].tolist() == [[0.0] * 5] * 2


def test_answers_of_several_threads_share_the_cores(monkeypatch):
    """With more at a time than there are cores, answers would be too slow that are not."""
    monkeypatch.setattr(sandbox, "cores", lambda: 2)
    monkeypatch.setattr(sandbox, "required", lambda: None)
    sandbox._room.cache_clear()
    at_once, most, all_here = [], [], threading.Barrier(3)

    def execute(means, job, limits):
        at_once.append(job)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.remove(job)

    def score(name):
        all_here.wait()
        sandbox.run([sandbox.Job(name, str(i)) for i in range(4)])

    monkeypatch.setattr(sandbox, "execute", execute)
    threads = [threading.Thread(target=score, args=[name]) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sandbox._room.cache_clear()
    assert len(most) == 12 and max(most) == 2


@pytest.mark.slow
def test_5000_mutations_of_sets_are_read_within_bounds():
    """m entries, each a part of the text; of the untouched ones all."""
    rng, tasks = random.Random(0), [ProgramRecords(fences=f) for f in ("training", "evaluation")]
    signs = ["```", "---", "\n", "\n---\n", "python", "`", "-", " ", "\r", "\0", "é", "\ud800", "{"]
    for _ in range(5_000):
        m = rng.randint(1, 9)
        forms = [rng.choice((PY, PLAIN, OPENED, "{}")) for _ in range(m)]
        text = "\n---\n".join(f.format(f"x{i} = 1") for i, f in enumerate(forms))
        for _ in range(rng.randint(1, 8)):
            i, j = sorted(rng.choices(range(len(text) + 1), k=2))
            text = rng.choice(
                (
                    text[:i] + rng.choice(signs) + text[i:],
                    text[:i] + text[min(j, i + 5) :],
                    text[:j] + text[i:j][:60] + text[j:],
                )
            )
        for task in tasks:
            answers = task.parse(None, text, m)
            assert len(answers) == m and all(a is None or (a and a in text) for a in answers)
            task.effect(None, answers[0] or "")


# --- what passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "wanted", "same"),
    [
        ("1\n", "1", True),
        ("1 \t\n2\r\n\n \n", "1\n2", True),
        ("1", "1\n\n\n", True),
        (" 1", "1", False),  # blanks before
        ("\n1", "1", False),
        ("1\n\n2", "1\n2", False),
        ("1  2", "1 2", False),
        ("1.0", "1", False),
        ("YES", "Yes", False),
        ("", "", True),
        ("\ufffd", "?", False),
    ],
)
def test_outputs_are_compared_line_by_line(output, wanted, same):
    assert passes(output.encode(), wanted, call=False) is same


@pytest.mark.parametrize(
    ("output", "wanted", "same"),
    [
        ("[1, 2]", "[1,2]", True),
        ("1.0", "1", True),
        ("true", "1", True),  # as in Python
        ('"1"', "1", False),
        ('{"b": 1, "a": [2]}', '{"a": [2], "b": 1}', True),
        ("[2, 1]", "[1, 2]", False),
        ("null", "null", True),
        ("NaN", "NaN", False),
        ("", "1", False),
        ("1 2", "1", False),
        ("[" * 10**5, "[]", False),
        ("1" * 10**5, "1", False),
    ],
)
def test_results_are_compared_as_json(output, wanted, same):
    assert passes(output.encode(), wanted, call=True) is same
    assert passes(None, wanted, call=True) is False


def scored(x, codes, **options):
    """The vectors of some answers, which run in one call."""
    return ProgramRecords(**SLOW | options).score([x], [codes])[0].astype(int).tolist()


@pytest.mark.slow
def test_functions_by_hand(loaded):
    x = problem(loaded, ('[1]\n"a"', '[1,"a"]'), ("[]\nnull", "[[],null]"), call="f")
    assert scored(
        x,
        [
            "def f(a, b): return (a[0] if a else a, b)",
            "class Solution:\n  def f(self, a, b): return [1, 'a']",
            "class Solution: pass\ndef f(a, b): return [1, 'a']",  # it does not have it
            "f = lambda a, b: print('[1]') or [[], None]",
            "def f(a, b): return [1, 'a']\nif __name__ == '__main__': f = None",
            "def f(a, b): return {1: a}",
            "def f(a): return [1, 'a']",
            "def f(a, b): return [1, 'a'] if a else exit()",
            "def g(a, b): return [1, 'a']",
            "import no_such_module\ndef f(a, b): return [1, 'a']",
            "def f(a: List[int], b: Optional[str]): return [Counter(a)[1] or math.inf, b]",
        ],
    ) == [[1, 1], [1, 0], [0, 0], [0, 1], [1, 0], [0, 0], [0, 0], [1, 0], [0, 0], [0, 0], [1, 0]]


@pytest.mark.slow
def test_programs_by_hand(loaded):
    x = problem(loaded, ("3\n4\n", "7"), ("1\n2", "3\n"))
    codes = [
        "print(int(input()) + int(input()))",
        "import sys\nprint(sum(map(int, sys.stdin)))",
        "print(sum(map(int, open(0))), end='   \\n\\n')",
        "def main(): print(sum(int(input()) for _ in 'ab'))\nif __name__ == '__main__': main()",
        "print(7)\nraise SystemExit(1)",
        "print(3)\nraise ValueError",
        "import sys\nprint(sum(map(int, sys.stdin.buffer)))",
        "print(3)\nexit()\nprint(4)",
        "print(3)\nif True: exit()",
    ]
    common = [[1, 1], [1, 1], [1, 1], [1, 1], [1, 0], [0, 0]]
    assert scored(x, codes) == [*common, [0, 0], [0, 0], [0, 1]]
    assert scored(x, codes, harness="python") == [*common, [1, 1], [0, 1], [0, 1]]


def test_the_releases_harness_leaves_out_exits_of_functions_too(loaded):
    x = problem(loaded, ("1", "2"), call="f")
    codes = [
        "def f(x): return x + 1\nexit()",
        "exit(1)\ndef f(x): return x + 1",
        "def f(x): return x + exit()",
    ]
    assert scored(x, codes) == [[1], [1], [0]]
    assert scored(x, codes, harness="python") == [[0], [0], [0]]


@pytest.mark.slow
def test_a_test_has_its_own_time(loaded):
    x = problem(loaded, ("0", "0"), ("99", "0"))
    code = "import time\ntime.sleep(float(input()))\nprint(0)"
    assert scored(x, [code], seconds=1.0) == [[1, 0]]


# --- the mode -------------------------------------------------------------------------------------


def test_the_modes_of_programs(tmp_path):
    assert ProgramsTask().mode == "conflict" and ProgramsTask(mode="single").mode == "single"
    for options in ({"data": "x.jsonl"}, {"memory": 2048}):
        assert ProgramsTask(**options).mode == "faithful"
    with pytest.raises(ValueError, match="branches = 2 with mode = 'faithful': only mode 'con"):
        ProgramsTask(mode="faithful", branches=2)
    with pytest.raises(ValueError, match="no shipped policy reads task 'programs'; name a model"):
        vpo.TrainConfig.preset("demo", task="programs", mode="faithful")
    for wrong in ({"seconds": 0.0}, {"memory": 1}, {"harness": "x"}, {"fences": "x"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ProgramsTask(**wrong)


@pytest.mark.slow
def test_data_check_and_score(tmp_path, capsys):
    data, answers = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    pickled = json.dumps(row(packed(pickle.dumps(["[]"]))))
    data.write_text(f"{SHIPPED.read_text('utf-8')}{pickled}\n{pickled}\n", encoding="utf-8")
    assert main(["data", "check", str(data), "--task", "programs"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"{data}: 6 problems (functional: 3, stdin: 3)"
    assert second == "5 problems train, 1 is held out (--held-out-data names others)"
    assert third.startswith("2 dropped: its private tests are a pickle")
    text = "\n---\n".join(map(PY.format, [SOLVED[4], "print(0)"]))
    answers.write_text(json.dumps({"id": "a", "record": 4, "m": 3, "text": text}))
    command = f"score --task programs --mode faithful --data {data} --answers {answers}"
    assert main(command.split()) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rewards"] == [[1] * 5, [1, 0, 0, 0, 0], [0] * 5]
    assert (result["valid"], result["solved"]) == ([True, True, False], [True, False, False])
    answers.write_text(json.dumps({"id": "a", "record": 6, "m": 1, "text": ""}))
    assert "was dropped: its private tests are a pickle" in refused(capsys, *command.split())


@pytest.mark.slow
def test_a_model_is_trained_on_them(model, monkeypatch):  # noqa: F811
    options = dict(mode="faithful")
    (record,) = vpo.train(config(model, "programs", **options))
    assert record.groups[0].rewards.shape[:2] == (2, 2)
    monkeypatch.setattr(sandbox, "protection", lambda: (None, ("none",)))
    monkeypatch.delenv(sandbox.PERMISSION)
    with pytest.raises(ValueError, match="only in a sandbox"):  # before anything is sampled
        next(vpo.train(config(model, "programs", mode="faithful")))


def test_where_there_is_no_sandbox_nothing_is_sampled(
    model,  # noqa: F811
    finished,
    monkeypatch,
    capsys,
):
    """The finished run is made one on these records, which is not read any further."""
    settings = json.loads((finished / "config.json").read_text())
    settings |= {"task": "programs", "task_options": {"mode": "faithful"}, "model": str(model)}
    (finished / "config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(sandbox, "protection", lambda: (None, ("none",)))
    monkeypatch.delenv(sandbox.PERMISSION)
    asked = [
        "report",
        "--task",
        "programs",
        "--mode",
        "faithful",
        "--model",
        str(finished / "none"),
    ]
    for command in (asked, ["evaluate", str(finished)]):
        assert "only in a sandbox" in refused(capsys, *command)
    with pytest.raises(TaskError, match="only in a sandbox"):
        metrics_of("programs", {"mode": "faithful"}, 0, "print(1)")
