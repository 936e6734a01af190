"""The check that `make gpu` runs: it works, in small, and notices what is wrong."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "gpu"))
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


@pytest.mark.slow
def test_parts_pass_in_small_on_the_cpu(run, tmp_path, capsys):
    out = tmp_path / "gpu.json"
    assert run(*TRIAL, "logits", "--out", str(out)) == 0
    assert run(*TRIAL, "update", "nan", "--out", str(out)) == 0
    found = json.loads(out.read_text())
    assert found["versions"]["torch"] == torch.__version__ and found["device"]
    assert list(found["parts"]) == ["logits", "update", "nan"]  # of both runs
    assert {row["outcome"] for row in found["parts"].values()} == {"passed"}
    last = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split()[:2] for line in last] == [[part, "passed"] for part in ("update", "nan")]


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
    monkeypatch.setattr(correctness, "nan", lambda here: 1 / 0)
    out = tmp_path / "gpu.json"
    assert run(*TRIAL, "logits", "update", "nan", "--out", str(out)) == 1
    outcomes = {n: row["outcome"] for n, row in json.loads(out.read_text())["parts"].items()}
    assert outcomes == {"logits": "failed", "update": "failed", "nan": "error"}
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().out
