"""Pretraining under attack: losses that are not finite, two writers, damaged folders."""

import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from attacks import TOO_LARGE, full_disk, json_text, mutated_bytes, mutated_json, seeds, tree

from vpo_lite.cli import main
from vpo_lite.pocket import pretrain as module
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.pocket.pretrain import pretrain
from vpo_lite.policy.adapter import fingerprint

ROOT = Path(__file__).resolve().parents[2]
TINY = dict(updates=6, batch=2, width=16, layers=1, heads=2, mlp=16, save_every=2)
FLAGS = [x for k, v in TINY.items() for x in (f"--{k.replace('_', '-')}", str(v))]
HERE = ["--workers", "0", "--device", "cpu", "--threads", "1"]


def worked(out, updates=None):
    """Train to the end, or to this update."""
    work = pretrain(MazeRecipe(**TINY), out, device=torch.device("cpu"), workers=0)
    for done, _ in work:
        if done == updates:
            work.close()
    return out


def refused(capsys, out, status=2):
    assert main(["pretrain", "--out", str(out), *FLAGS, *HERE]) == status
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if line.startswith("vpo-lite: ")]
    assert len(said) == 1 and len(said[0]) < 1000 and "Traceback" not in "".join(lines)
    assert status == 1 or len(lines) == 1
    return said[0]


def test_m2_the_first_loss_that_is_not_finite_ends_it_and_the_last_good_state_stays(
    tmp_path, monkeypatch, capsys
):
    whole = worked(tmp_path / "whole")
    real, calls = module.new_model, []

    def spoilt(config):
        model = real(config)

        def spoil(module, arguments, output):
            calls.append(1)
            if len(calls) == 5:
                output.loss = output.loss * math.nan
            return output

        model.register_forward_hook(spoil)
        return model

    monkeypatch.setattr(module, "new_model", spoilt)
    out = tmp_path / "cut"
    line = refused(capsys, out, status=1)
    assert "update 5: loss = nan" in line and "lower lr" in line
    assert line.endswith(f"folder: {out} keeps its settings, and the state after update 4")
    assert len(calls) == 5 and not (out / "model.safetensors").exists()
    monkeypatch.setattr(module, "new_model", real)
    worked(out)
    name = "model.safetensors"
    assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_parameters_that_are_not_finite_are_never_written(tmp_path, monkeypatch):
    class Spoiling(torch.optim.AdamW):
        def step(self, *arguments):
            super().step(*arguments)
            with torch.no_grad():
                self.param_groups[0]["params"][0][0] = math.inf

    monkeypatch.setattr(torch.optim, "AdamW", Spoiling)
    config = MazeRecipe(**TINY | dict(updates=1))  # its last loss is finite
    with pytest.raises(
        module.TrainingError, match=r"1 tensors are not finite .*: lower lr \(0\.00.*\), in another"
    ):
        list(pretrain(config, tmp_path / "a", device=torch.device("cpu"), workers=0))
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [".lock", "pretrain.json"]


def test_a_second_process_gets_one_line(tmp_path, capsys):
    out = worked(tmp_path / "p", updates=3)
    hold = (
        "import sys, time\n"
        "from vpo_lite.locks import lock_folder\n"
        "lock = lock_folder(sys.argv[1])\n"
        "print(1, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(out)], cwd=ROOT, stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout.readline() == b"1\n"
            before = tree(out)
            assert "another process is writing there" in refused(capsys, out)
            assert tree(out) == before
        finally:
            other.kill()
    worked(out)
    assert (out / "model.safetensors").exists()


def test_what_a_killed_writer_left_is_removed(tmp_path):
    out = worked(tmp_path / "p", updates=3)
    (out / ".model.safetensors-x").mkdir()
    (out / ".model.safetensors-x" / "config.json").touch()
    (out / ".state.safetensors-y").touch()
    worked(out)
    names = {p.name for p in out.iterdir()}
    assert {"config.json", "model.safetensors", "pretrain.json", "tokenizer.json"} <= names
    assert not [name for name in names if name.startswith((".m", ".s")) or name.startswith("state")]
    digest = fingerprint(str(out))
    (out / "state.safetensors").touch()  # killed between the last move and the removal of the state
    worked(out)
    assert not (out / "state.safetensors").exists() and fingerprint(str(out)) == digest


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return tree(worked(tmp_path_factory.mktemp("pretraining") / "p", updates=3))


@seeds(40)
def test_a_damaged_folder_goes_on_or_is_refused_and_stays(
    begun, tmp_path, monkeypatch, capsys, seed
):
    rng = random.Random(seed)
    monkeypatch.setattr(module, "_updates", lambda *_: (x for x in ()))
    monkeypatch.setattr(module, "finish", lambda *_: {})
    files = dict(begun)
    name = rng.choice(sorted(files))
    if name == "pretrain.json" and rng.random() < 0.8:
        files[name] = json_text(mutated_json(json.loads(files[name]), rng)).encode()
    else:
        files[name] = mutated_bytes(files[name], rng)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    before = tree(tmp_path)
    status = main(["pretrain", "--out", str(tmp_path), *FLAGS, *HERE])
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("vpo-lite: ")]
    assert status in (0, 2) and len(lines) == (status == 2), err
    if status == 2:
        assert len(err.splitlines()) == 1 and len(err) < 1000 and out == ""
        assert tree(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 2_000, 20_000])
def test_a_full_disk_is_one_line_and_costs_no_saved_state(tmp_path, capsys, limit):
    """No file may grow beyond so many bytes; the state has about 60 kB."""
    out = worked(tmp_path / "p", updates=3)
    before = tree(out)
    with full_disk(limit):
        status = main(["pretrain", "--out", str(out), *FLAGS, *HERE])
    said = capsys.readouterr().err
    (line,) = [x for x in said.splitlines() if x.startswith("vpo-lite")]
    assert status in (1, 2) and re.search(TOO_LARGE, line), said
    assert "Traceback" not in said and tree(out) == before
