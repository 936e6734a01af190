"""The check that `make gpu` runs: it works, in small, and notices what is wrong."""

import importlib
import json
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def check(monkeypatch):
    for folder in ("benchmarks", "gpu"):
        monkeypatch.syspath_prepend(str(ROOT / "tests" / folder))
    monkeypatch.setattr(sys, "path", list(sys.path))  # which the script changes, too
    return importlib.import_module("check")


@pytest.fixture
def run(check, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["check.py", *arguments])
        return check.main()

    return run


TRIAL = ("--device", "cpu", "--small", "--only")


def test_every_part_has_its_function(check):
    for group, part in check.chosen([]):
        assert callable(getattr(importlib.import_module(group), part))
    assert check.chosen(["nan", "effect"]) == [
        ("correctness", "nan"),
        ("effect", "demo"),
        ("effect", "learning"),
    ]


def test_without_a_gpu_it_says_so_and_stops(run, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run() == 0
    assert capsys.readouterr().out.splitlines() == [
        "no GPU: torch sees no CUDA device here, so there is nothing to check"
    ]


@pytest.mark.long
def test_parts_pass_in_small_on_the_cpu(run, tmp_path, capsys):
    """It said "written to", with status 0, where there was no folder, and the figures were lost."""
    out, parts = tmp_path / "new" / "gpu.json", ["logits", "update", "panel", "attention", "nan"]
    assert run(*TRIAL, *parts, "--out", str(out)) == 0
    found = json.loads(out.read_text())
    assert found["versions"]["torch"] == torch.__version__ and found["device"]
    assert list(found["parts"]) == parts
    assert {row["outcome"] for row in found["parts"].values()} == {"passed"}
    last = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split()[:2] for line in last] == [[part, "passed"] for part in parts]


@pytest.mark.slow
def test_the_run_that_shall_be_refused_fits_on_no_device(run, monkeypatch, tmp_path):
    """It fitted on 79 GiB. Its million problems would have been made one by one, for hours."""
    from vpo_lite.training import loop, memory

    for name in ("total_memory", "available_memory"):
        monkeypatch.setattr(memory, name, lambda device: 2**40)
    started = []
    monkeypatch.setattr(loop, "train_step", lambda *_: started.append(1))
    out = tmp_path / "gpu.json"
    assert run(*TRIAL, "oom", "--out", str(out), "--rows", str(tmp_path / "rows")) == 0
    found = json.loads(out.read_text())["parts"]["oom"]
    assert found["outcome"] == "passed" and "1,024.0 GiB in all" in found["refused"] and not started


@pytest.mark.slow
def test_a_part_that_fails_is_recorded_and_stops_no_other(run, monkeypatch, capsys, tmp_path):
    """Here the "device" has another model, and one part breaks."""
    correctness, seeds = importlib.import_module("correctness"), iter(range(100))
    plain = correctness.policy_of

    def other(size, device, *more):
        policy = plain(size, device, *more)
        with torch.no_grad():
            policy.model.get_output_embeddings().weight.mul_(1 + 0.01 * next(seeds))
        return policy

    monkeypatch.setattr(correctness, "policy_of", other)
    monkeypatch.setattr(correctness, "nan", lambda here: (here.keep({"1m": 1.5}), 1 / 0))
    out, rows = tmp_path / "gpu.json", tmp_path / "rows"
    assert run(*TRIAL, "logits", "update", "nan", "--out", str(out), "--rows", str(rows)) == 0
    outcomes = {n: row["outcome"] for n, row in json.loads(out.read_text())["parts"].items()}
    assert outcomes == {"logits": "failed", "update": "failed", "nan": "error"}
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert dict(lines) == json.loads(out.read_text())["parts"]
    assert dict(lines)["nan"]["1m"] == 1.5 and "1m" not in dict(lines)["logits"]
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().out


@pytest.mark.slow
def test_the_part_on_a_quantised_base_passes(run, tmp_path):
    """It took a policy of pocket's, which is never quantised."""
    pytest.importorskip("bitsandbytes")
    rows = tmp_path / "rows"
    assert run(*TRIAL, "quantised", "--rows", str(rows)) == 0
    ((_, row),) = map(json.loads, rows.read_text().splitlines())
    assert row["outcome"] == "passed" and set(row) >= {"8bit", "4bit"}, row


@pytest.mark.slow
def test_no_stopwatch_stays_on_what_later_parts_call(run, tmp_path):
    """It would make the GPU wait in the five minutes of training, too."""
    from vpo_lite.training import step

    called = (step.train_step, step.update_policy, torch.autograd.backward)
    assert run(*TRIAL, "step_time", "--rows", str(tmp_path / "rows")) == 0
    assert "passed" in (tmp_path / "rows").read_text()
    assert called == (step.train_step, step.update_policy, torch.autograd.backward)


@pytest.mark.slow
def test_what_the_sampler_and_shared_prompts_cost_is_measured(run, tmp_path):
    """Without a stopwatch, or a policy that shares no prompts, left behind."""
    from vpo_lite.policy.decoder import DecoderView
    from vpo_lite.policy.policy import Policy

    before, rows = (DecoderView.prefill, Policy.shares_prompts), tmp_path / "rows"
    assert run(*TRIAL, "sampling_time", "sharing", "--rows", str(rows)) == 0
    found = dict(map(json.loads, rows.read_text().splitlines()))
    assert {row["outcome"] for row in found.values()} == {"passed"}
    whole, *parts = found["sampling_time"]["tiny, 2 x 2 x 6"]["split_seconds"].values()
    assert sum(parts) == pytest.approx(whole, abs=1e-3) and len(parts) == 3
    assert set(found["sharing"]["tiny"]["2 x 2"]) == {"shared", "whole rows"}
    assert before == (DecoderView.prefill, Policy.shares_prompts)


SHELL = """
import json, sys, time
from pathlib import Path
command, *rest = sys.argv[1:]
if command == "train":
    resumed = rest[0] == "--resume"
    run = Path(rest[1] if resumed else rest[rest.index("--out") + 1])
    run.mkdir(exist_ok=True)
    lines = [json.dumps({"step": i}) for i in range(1, 5)]
    for i in range(3 if QUICK else 1 if resumed else 0, 4):  # quick: all steps are seen at once
        (run / "metrics.jsonl").write_text("".join(line + chr(10) for line in lines[: i + 1]))
        time.sleep(0 if resumed or QUICK else 20 * i)
    summary = {"steps": 4, "coverage": 0.5, "device": "DEVICE"}
    (run / "summary.json").write_text(json.dumps(summary))
else:
    print(json.dumps({"coverage": COVERAGE}))
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, None),
        ({"COVERAGE": "0.6"}, "coverage 0.5, evaluated again"),
        ({"DEVICE": "cuda:0"}, "cuda:0"),  # the others are a trial on the CPU
        ({"QUICK": "True"}, "4 steps"),
    ],
)
def test_a_run_is_killed_resumed_and_evaluated(check, monkeypatch, tmp_path, wrong, said):
    """Of commands that only look like vpo-lite's."""
    commands, here = importlib.import_module("commands"), importlib.import_module("here")
    code = SHELL
    for name, value in ({"QUICK": "False", "COVERAGE": "0.51"} | wrong).items():
        code = code.replace(name, value)
    (tmp_path / "shell.py").write_text(code.replace("DEVICE", "cpu"))
    started = [sys.executable, str(tmp_path / "shell.py")]
    monkeypatch.setattr(commands, "vpo_lite", lambda arguments: [*started, *arguments])
    shell = commands.Shell(here.Here(torch.device("cpu"), True, tmp_path))
    if said:
        with pytest.raises(AssertionError, match=said):
            shell.killed_and_resumed("native", 4)
    else:
        found = shell.killed_and_resumed("native", 4)
        assert 2 <= found["killed_after"] < 4 and found["coverage_off"] == pytest.approx(0.01)


@pytest.mark.long
def test_a_qwen2_in_bfloat16_is_compared_with_trl(check, monkeypatch):
    """As `make gpu` compares one of 0.5 B. transformers makes a tokenizer of bytes of any Qwen2's:
    both sides would have read prompts of one token.
    """
    trl, bench = pytest.importorskip("trl"), importlib.import_module("bench_trl")
    ours, theirs = set(), set()
    encode, generate = bench.Policy.encode, trl.GRPOTrainer._generate_single_turn

    def encoded(policy, prompt):
        ours.add(tuple(encode(policy, prompt)))
        return encode(policy, prompt)

    def generated(trainer, prompt_ids, *more):
        theirs.update(map(tuple, prompt_ids))
        return generate(trainer, prompt_ids, *more)

    monkeypatch.setattr(bench.Policy, "encode", encoded)
    monkeypatch.setattr(trl.GRPOTrainer, "_generate_single_turn", generated)
    watch = bench.watch_modules()
    try:
        found = bench.compare("tiny", 1, 1, watch)
    finally:
        watch.unwrap()
    lora = 2 * 16 * (64 + 48 + 48 + 64 + 80 + 80 + 80)  # 2 layers: q, k, v, o, gate, up, down
    base = 600 * 32 + 32 + 2 * (64 * 32 + 2 * 32 * 16 + 64 + 3 * 32 * 48 + 2 * 32)
    assert (found["trained"], found["parameters"]) == (lora, base + lora)
    assert found["base"] == "bfloat16" and found["largest_gap_of_advantages"] < 1e-4
    assert ours == theirs and min(map(len, ours)) > 36  # a board of 6 x 6


def test_a_process_that_can_use_its_gpu_no_more_ends_behind_the_part(
    check, run, monkeypatch, tmp_path
):
    """As after an illegal address: from then on every call of CUDA fails."""
    correctness, broken = importlib.import_module("correctness"), []

    def lost(*_):
        if broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def illegal(here):
        broken.append(True)
        lost()

    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lost)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(correctness, "logits", lambda here: {"said": "well"})
    monkeypatch.setattr(correctness, "sampler", illegal)
    monkeypatch.setattr(correctness, "update", lambda here: {"said": "never asked"})
    out, rows = tmp_path / "gpu.json", tmp_path / "rows"
    parts = ("logits", "sampler", "update")
    assert run("--only", *parts, "--out", str(out), "--rows", str(rows)) == check.BROKEN
    found = json.loads(out.read_text())["parts"]
    assert {name: row["outcome"] for name, row in found.items()} == {
        "logits": "passed",
        "sampler": "error",
    }


CHILD = """
import json, os, sys
rows, only = sys.argv[sys.argv.index("--rows") + 1], sys.argv[sys.argv.index("--only") + 1 :]
for part in only:
    if part == "update":
        os.abort()
    with open(rows, "a") as file:
        file.write(json.dumps([part, {"outcome": "passed", "seconds": 0.0}]) + chr(10))
    if part == "sampler":
        sys.exit(BROKEN)
"""


def test_what_a_dead_process_leaves_is_run_in_another(check, run, monkeypatch, tmp_path, capfd):
    """The GPU breaks behind sampler, and update ends its process."""
    child, out = tmp_path / "child.py", tmp_path / "gpu.json"
    child.write_text(CHILD.replace("BROKEN", str(check.BROKEN)))
    monkeypatch.setattr(check, "START", [sys.executable, str(child)])
    out.write_text(json.dumps({"device": "a GPU", "parts": {"trl": {"outcome": "skipped"}}}))
    assert run(*TRIAL, "logits", "sampler", "update", "nan", "oom", "--out", str(out)) == 1
    lines = capfd.readouterr().out.splitlines()[-5:]
    assert [line.split()[:2] for line in lines] == [
        ["logits", "passed"],
        ["sampler", "passed"],
        ["update", "error"],
        ["nan", "passed"],
        ["oom", "passed"],
    ]
    assert "its process ended with -6" in lines[2]
    written = json.loads(out.read_text())
    assert written["device"] == "a GPU" and list(written["parts"]) == ["trl", "update"]


HANGS = """
import fcntl, subprocess, sys, time
sys.path[:0] = [{gpu!r}]
import check, correctness

def hangs(here):
    lock = open({lock!r}, "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[lock.fileno()])

correctness.sampler = lambda here: {{"said": "well"}}
correctness.update = hangs
sys.exit(check.main())
"""


@pytest.mark.long
def test_a_part_that_hangs_is_ended_and_the_next_one_runs(check, run, monkeypatch, tmp_path, capfd):
    """With the process that it waits for, which holds a lock as long as it lives."""
    fcntl = pytest.importorskip("fcntl")
    lock, out = tmp_path / "lock", tmp_path / "gpu.json"
    code = HANGS.format(gpu=str(ROOT / "tests" / "gpu"), lock=str(lock))
    monkeypatch.setattr(check, "START", [sys.executable, "-c", code])
    monkeypatch.setattr(check, "LIMIT", 1.5)  # on a busy machine a part may start late
    monkeypatch.setattr(check, "LIMITS", {"attention": 60})
    parts = ("sampler", "update", "attention")
    assert run(*TRIAL, *parts, "--slower", "4", "--out", str(out)) == 1
    found = json.loads(out.read_text())["parts"]
    assert {name: row["outcome"] for name, row in found.items()} == {
        "sampler": "passed",
        "update": "error",
        "attention": "passed",
    }
    assert found["update"]["said"] == "not done after 6 s" and found["update"]["seconds"] == 6
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError while one of them lives
    assert "in hangs" in capfd.readouterr().err  # where it was


CUT_SHORT = """
import sys, time
sys.path[:0] = [{gpu!r}]
import check, correctness, effect

def learns(here):
    here.keep({{"points": [here.learn]}})
    time.sleep(600)

correctness.sampler = lambda here: {{"said": "well"}}
effect.learning = learns
sys.exit(check.main())
"""


@pytest.mark.long
def test_a_part_that_is_cut_short_leaves_what_it_kept(check, run, monkeypatch, tmp_path, capfd):
    out = tmp_path / "gpu.json"
    code = CUT_SHORT.format(gpu=str(ROOT / "tests" / "gpu"))
    monkeypatch.setattr(check, "START", [sys.executable, "-c", code])
    monkeypatch.setattr(check, "LIMITS", {"learning": 4})
    # the first part of a process has longer
    assert run(*TRIAL, "sampler", "learning", "--learn", "7", "--out", str(out)) == 1
    found = json.loads(out.read_text())
    learning = found["parts"]["learning"]
    assert (learning["outcome"], learning["said"]) == ("error", "not done after 4 s")
    assert learning["points"] == [7.0] and learning["device"] == found["device"]


@pytest.mark.slow
def test_when_the_time_of_the_command_is_over_nothing_goes_on(check, tmp_path):
    rows = tmp_path / "rows"
    wanted = [("correctness", "logits"), ("speed", "trl")]
    found = check.run_apart(wanted, ["no such command"], rows, None, within=-1)
    assert {part: row["outcome"] for part, row in found.items()} == {
        "logits": "skipped",
        "trl": "skipped",
    }
    sleeps, end = [sys.executable, "-c", "import time; time.sleep(600)"], time.monotonic() + 0.3
    assert check.run_limited(sleeps, rows, {"logits": 500}, end) == (None, "logits")


@pytest.mark.slow
def test_the_run_of_five_minutes_can_be_drawn(check, monkeypatch, tmp_path):
    plot = importlib.import_module("plot")
    point = {"steps": 0, "seconds": 0.0, "tokens": 0, "any@30": 0.5, "coverage": 0.25}
    later = {"steps": 9, "seconds": 50.5, "tokens": 1234, "any@30": 0.75, "coverage": 0.5}
    found = {"device": "a GPU", "parts": {"learning": {"points": [point, later]}}}
    figure = plot.drawn(found)
    heights = {line.name: list(line.y) for line in figure.data if line.name in plot.CURVES}
    assert heights == {"any@30": [0.5, 0.75], "coverage": [0.25, 0.5]}
    assert list(figure.data[0].x) == [0, 50.5]
    (tmp_path / "gpu.json").write_text(json.dumps(found))
    monkeypatch.setattr(sys, "argv", ["plot.py", str(tmp_path / "gpu.json")])
    plot.main()
    assert "a GPU, 9 steps, 1,234 tokens" in (tmp_path / "learning.html").read_text()
    with pytest.raises(SystemExit, match="part learning was not run"):
        plot.drawn({"parts": {}})
