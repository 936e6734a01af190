"""Run folders under attack: kills at every moment, two writers, a full disk, damaged files."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
import torch
from attacks import (
    TOO_LARGE,
    check_error,
    full_disk,
    json_text,
    mutated_bytes,
    mutated_json,
    seeds,
    tree,
)
from huggingface_hub import constants
from printed import refused
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.locks import BusyError
from vpo_lite.policy.loading import load_policy
from vpo_lite.training import run as runs_of_training
from vpo_lite.training import step as steps_of_training
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.learner import Learner
from vpo_lite.training.run import Run

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "vpo_lite.cli", "train"]
PEFT = "adapter_config.json"
FILES = ("adapter", "config.json", "metrics.jsonl", "state.safetensors", "summary.json")  # finished


# --- killed at any moment -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_around_any_operation_on_a_file_ends_as_the_whole_one(
    tiny_policy_folder, tmp_path
):
    script = Path(__file__).with_name("crashes.py")
    done = subprocess.run(
        [sys.executable, script, tiny_policy_folder, tmp_path],
        capture_output=True,
        text=True,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    begun, longer = json.loads(done.stdout)
    met = {"open .config.json", "os.rename .state.safetensors", "os.remove start.json"}
    for (*killed, last), least, parts in (
        (begun, 40, met),
        (longer, 20, met | {"os.remove summary.json"}),
    ):
        assert last["first"] == 0 and last["same"] and len(killed) > least
        operations = {re.sub(r"-\w{8}$", "", k["operation"]) for k in killed}
        assert parts <= operations  # the attack met what it was meant to meet
        for k in killed:
            assert (k["second"], k["same"]) == (0, True), k
        assert {name.split("/")[0] for name in last["names"]} == set(FILES)


@pytest.mark.parametrize("kept", [0, 1, 200, -1])
def test_a_line_cut_by_a_kill_is_written_anew(stopped, kept):
    """A kill may come between the line and the state: the state is then a step behind."""
    metrics = stopped / "metrics.jsonl"
    first, second = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(first + second + second[:kept])
    run = Run.resume(stopped)
    assert run.first == 2 and [r.step for r in run.steps()] == [3]
    assert metrics.read_text().startswith(first + second)
    assert [r.step for r in run.folder.records()] == [1, 2, 3]


def test_a_finished_run_leaves_no_temporary_file_even_if_it_was_killed_while_it_tidied(
    stopped, finished
):
    for name in ("start.json", ".lock"):
        (finished / name).touch()
        assert sorted(p.name for p in finished.iterdir()) != sorted(FILES)
        with pytest.raises(ValueError, match="this run is finished"):
            Run.resume(finished)
        assert sorted(p.name for p in finished.iterdir()) == sorted(FILES)
    left = [".config.json-x1", ".state.safetensors-new", ".metrics.jsonl-ab"]  # 0.1.0's, too
    for name in left:
        (stopped / name).touch()
    (stopped / ".adapter-old").mkdir()
    Run.resume(stopped).close()
    assert not [p for p in stopped.iterdir() if p.name.startswith((".adapter", *left))]


def test_resuming_removes_no_adapter_that_a_killed_save_had_moved_away(stopped, finished):
    (finished / "adapter").rename(stopped / ".adapter-old")
    before = tree(stopped / ".adapter-old")
    Run.resume(stopped).close()
    assert tree(stopped / "adapter") == before and not (stopped / ".adapter-old").exists()


def test_a_folder_killed_before_its_settings_stood_can_be_used_again(small_config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.json-u7f_p2xq").write_text("{")
    (tmp_path / "run" / ".lock").touch()
    folder = RunFolder.create(tmp_path / "run", small_config)
    assert sorted(p.name for p in folder.path.iterdir()) == [".lock", "config.json"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".config").touch()  # somebody's own
    with pytest.raises(ValueError, match="no empty folder"):
        RunFolder.create(tmp_path / "other", small_config)
    RunFolder.create(tmp_path / "a" / "b" / "run", small_config).close()


def test_a_folder_whose_name_is_too_long_is_refused_as_any_other(small_config, tmp_path):
    with pytest.raises(
        ValueError, match=r"cannot be written \(File name too long\); choose another"
    ):
        RunFolder.create(tmp_path / ("x" * 300), small_config)


def test_a_finished_run_that_cannot_become_longer_stays_as_it_was(finished, capsys):
    before, steps = tree(finished), RunFolder(finished).config().steps

    def line(steps):
        said = refused(capsys, "train", "--resume", finished, "--steps", steps)
        assert tree(finished) == before
        return said

    assert f"this run is finished ({steps} steps)" in line(steps)
    assert f"{steps} steps are done; --steps must be {steps} or more" in line(steps - 1)
    assert "steps = 0: must be a whole number, 1 or more" in line(0)
    own = finished / "adapter" / "tokenizer.json"  # put there by a user
    own.touch()
    before["adapter/tokenizer.json"] = b""
    assert "adapter: holds 'tokenizer.json'" in line(steps + 1)
    own.unlink()
    del before["adapter/tokenizer.json"]
    whole = before.pop("state.safetensors")
    (finished / "state.safetensors").unlink()
    assert f"vpo-lite export model {finished} --out FOLDER" in line(steps + 1)
    before["state.safetensors"] = whole[:-9]
    (finished / "state.safetensors").write_bytes(whole[:-9])
    assert "this state cannot be read" in line(steps + 1)
    state = finished / "state.safetensors"
    for place in (100, len(whole) // 2 + 1):  # the low bits of a number: still finite, of its sign
        place -= place % 4
        flipped = whole[:-place] + bytes([whole[-place] ^ 1]) + whole[len(whole) - place + 1 :]
        before["state.safetensors"] = flipped
        state.write_bytes(flipped)
        assert "its numbers are not those that were stored; start the run anew" in line(steps + 1)
    state.write_bytes(whole)
    assert main(["train", "--resume", str(finished), "--steps", str(steps + 1)]) == 0


# --- two writers ----------------------------------------------------------------------------------


def command(config, *more) -> list[str]:
    flags = ["model", "maze_seed", "steps", "prompts", "group_size", "m", "max_new_tokens"]
    values = config.to_json() | config.task_options
    return [
        *COMMAND,
        *(x for f in flags for x in (f"--{f.replace('_', '-')}", str(values[f]))),
        *("--device", "cpu", "--threads", "1", *map(str, more)),
    ]


def begun(arguments):
    return subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_h1_a_second_writer_gets_one_line_and_changes_nothing(small_config, tmp_path, capsys):
    out = tmp_path / "run"
    first = begun(command(small_config.but(steps=400), "--out", out))
    end = time.monotonic() + 120
    while not (out / "state.safetensors").exists() and time.monotonic() < end:
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    said = refused(capsys, "train", "--resume", out)
    assert first.poll() is None  # it was still at work
    first.kill()
    first.communicate()
    assert f"{out}: another process is writing there" in said
    assert [r.step for r in RunFolder(out).records()] == list(
        range(1, len(RunFolder(out).records()) + 1)
    )
    run = Run.resume(out)  # the lock died with its process
    assert next(run.steps()).step == run.first + 1


@pytest.mark.long
def test_h1_of_two_that_begin_in_one_folder_at_once_one_runs(small_config, tmp_path):
    both = [begun(command(small_config, "--out", tmp_path / "run")) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
    loser = said[0] if both[0].returncode else said[1]
    assert len(loser.splitlines()) <= 2 and re.search("another process|holds a run", loser)
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == sorted(FILES)
    assert [r.step for r in RunFolder(tmp_path / "run").records()] == [1, 2, 3]


NO_LOCKS = """
import errno, fcntl, os
def flock(file, operation):
    if operation != fcntl.LOCK_UN:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = flock
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks otherwise")
def test_one_writer_where_the_file_system_has_no_locks(tmp_path):
    """Lustre as many clusters mount it. filelock before 3.24 ended in a traceback."""
    lock = "from vpo_lite.locks import lock_folder; mine = lock_folder(sys.argv[1])"
    holds = f"import sys{NO_LOCKS}{lock}; print('held', flush=True); sys.stdin.read()"

    def tries():
        return subprocess.run(
            [sys.executable, "-c", f"import sys{NO_LOCKS}{lock}", str(tmp_path)],
            capture_output=True,
            text=True,
        )

    first = subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert first.stdout.readline().strip() == b"held"
        assert "BusyError" in tries().stderr
    finally:
        first.kill()
        first.communicate()
    done = tries()  # a process that was killed holds nothing
    assert done.returncode == 0, done.stderr


def test_in_one_process_the_later_run_takes_over(stopped):
    """An interrupted notebook goes on; the run that it forgot can write no more."""
    forgotten = Run.resume(stopped)
    run = Run.resume(stopped)
    before = tree(stopped)
    with pytest.raises(
        BusyError, match="taken over by a later run; go on with: vpo-lite train --resume"
    ):
        next(forgotten.steps())
    folder, learner = forgotten.folder, forgotten.learner
    for write in (
        lambda: folder.save_start({}),
        lambda: folder.append_measured(learner, 2, {}),
        lambda: folder.save(learner),
        lambda: folder.finish(learner, {}),
        lambda: folder.restore(learner, forgotten.config),
        lambda: folder.rewind(2, stopped / "state.safetensors", forgotten.config),
    ):
        with pytest.raises(BusyError, match="taken over"):
            write()
    assert tree(stopped) == before
    assert [r.step for r in run.steps()] == [3]


# --- a full disk ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 300, 2_000, 6_000, 30_000])
def test_a_full_disk_costs_no_step_that_was_done(stopped, runs, capsys, limit):
    """The files of a run have some 0.7, 1, 3, 5 and 60 kB: each limit fails at another one."""
    before = tree(stopped)
    with full_disk(limit):
        status = main(["train", "--resume", str(stopped)])
    said = capsys.readouterr().err
    (line,) = [x for x in said.splitlines() if x.startswith("vpo-lite")]
    assert status in (1, 2) and re.search(TOO_LARGE, line), said
    assert "Traceback" not in said and not (stopped / "summary.json").exists()
    after = tree(stopped)
    assert after["config.json"] == before["config.json"]
    assert after["metrics.jsonl"].startswith(before["metrics.jsonl"])
    assert not [name for name in after if name.startswith(".")], "temporary files are left"
    assert main(["train", "--resume", str(stopped), "--json"]) == 0  # there is space again
    whole = RunFolder(runs / "finished")
    assert RunFolder(stopped).summary()["per_problem"] == whole.summary()["per_problem"]
    adapter = "adapter/adapter_model.safetensors"
    assert (stopped / adapter).read_bytes() == (whole.path / adapter).read_bytes()


def test_a_finished_run_that_a_full_disk_keeps_from_becoming_longer_stays_finished(
    finished, capsys
):
    before = tree(finished)
    with full_disk((finished / "metrics.jsonl").stat().st_size - 1):
        assert main(["train", "--resume", str(finished), "--steps", "4"]) == 2
    said = capsys.readouterr().err
    assert re.search(TOO_LARGE, said) and "Traceback" not in said
    assert tree(finished) == before


@pytest.mark.slow
def test_a_small_disk_that_is_really_full(small_config, tmp_path, capsys):
    """The same on a file system of 96 kB, where the machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file system")
    try:
        flags = command(small_config, "--out", disk / "run")[3:]
        assert main(flags) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert "No space left" in line and f"--resume {disk / 'run'}" in line
        subprocess.run([*mount[:4], "remount,size=4m", *mount[5:]], check=True)
        assert main(["train", "--resume", str(disk / "run"), "--json"]) == 0
        assert sorted(p.name for p in (disk / "run").iterdir()) == sorted(FILES)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# --- damaged files --------------------------------------------------------------------------------


def test_h2_a_resume_that_lacks_lines_of_its_metrics_is_refused(stopped, capsys):
    metrics = stopped / "metrics.jsonl"
    first, second = metrics.read_text().splitlines(keepends=True)
    damages = {
        "": "ends after step 0",
        first: "ends after step 1",
        second: "line 1: field step: expected 1, not 2",
        first + "\n" + second: "line 2: no JSON",
        first + first + second: "line 2: field step: expected 2, not 1",
        first + "[]\n": "line 2: it should be",
        first + second.replace("0.", "1e999"): "should be a finite number",
        first + second.replace('"seconds"', '"second"'): "field seconds is missing",
    }
    for text, said in damages.items():
        metrics.write_text(text)
        before = tree(stopped)
        line = refused(capsys, "train", "--resume", stopped)
        assert f"{metrics}" in line and said in line and "start the run anew" in line
        assert tree(stopped) == before
    metrics.unlink()
    assert "ends after step 0" in refused(capsys, "train", "--resume", stopped)


def test_a_page_of_a_finished_run_that_lacks_its_last_step_is_refused(finished, tmp_path, capsys):
    metrics, page = finished / "metrics.jsonl", tmp_path / "page.html"
    steps = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(steps[:-1]))
    line = refused(capsys, "compare", finished, "--html", page)
    assert f"{metrics}: ends after step {len(steps) - 1} of {len(steps)}; put the file" in line
    assert not page.exists() and main(["compare", str(finished)]) == 0  # no curves, no need of it


def test_a_state_that_is_missing_is_refused_where_there_must_be_one(stopped, capsys):
    (stopped / "state.safetensors").unlink()
    line = refused(capsys, "train", "--resume", stopped)
    assert "state.safetensors: missing" in line and "goes to step 2" in line


def changed_state(path: Path, change, step=None) -> None:
    with safe_open(path, "pt") as file:
        about = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, about | {"step": step or about["step"]})


def first_of(tensors, kind):
    return next(name for name in tensors if name.startswith(kind))


@pytest.mark.parametrize(
    ("change", "step", "said"),
    [
        (lambda t: t.update({first_of(t, "p."): torch.zeros(1)}), None, "is damaged"),
        (lambda t: t.update({first_of(t, "p."): t[first_of(t, "p.")].int()}), None, "is damaged"),
        (
            lambda t: t.update({first_of(t, "p."): t[first_of(t, "p.")] * torch.nan}),
            None,
            "damaged",
        ),
        (lambda t: t[first_of(t, "exp_avg_sq.")].sub_(1), None, "is damaged"),
        (lambda t: t.pop(first_of(t, "p.")), None, "another model"),
        (lambda t: t.pop(first_of(t, "exp_avg.")), None, "another model"),
        (lambda t: t.update(extra=torch.zeros(1)), None, "another model (1 tensors differ"),
        (lambda t: None, "999", "of step '999': expected 1 to 3"),
        (lambda t: None, "-3", "of step '-3'"),
        (lambda t: None, "x" * 5000, "of step 'xxx"),
        (lambda t: None, "3", "ends after step 2"),
    ],
)
def test_a_tampered_state_is_refused(stopped, capsys, change, step, said):
    changed_state(stopped / "state.safetensors", change, step)
    before = tree(stopped)
    assert said in refused(capsys, "train", "--resume", stopped)
    assert tree(stopped) == before


@seeds(120)
def test_a_mutated_run_is_compared_or_refused(runs, tmp_path, capsys, seed):
    """summary.json and config.json: the two files that `compare` reads."""
    rng = random.Random(seed)
    name = rng.choice(("summary.json", "config.json"))
    for file in ("summary.json", "config.json"):
        shutil.copy(runs / "finished" / file, tmp_path)
    text = (tmp_path / name).read_text()
    if rng.random() < 0.3:
        (tmp_path / name).write_bytes(mutated_bytes(text.encode(), rng))
    else:
        (tmp_path / name).write_text(json_text(mutated_json(json.loads(text), rng)))
    before = tree(tmp_path)
    status = main(["compare", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    assert tree(tmp_path) == before
    if status:
        assert status == 2 and out == "" and len(err.splitlines()) == 1 and len(err) < 1000
        assert str(tmp_path) in err
    else:
        (row,) = json.loads(out, parse_constant=pytest.fail)
        assert (0 <= row["valid_rate"] <= 1 and row["tokens"] is None) or row["tokens"] >= 0


@seeds(60)
def test_a_mutated_run_is_resumed_or_refused(runs, tmp_path, seed):
    rng = random.Random(1000 + seed)
    folder = shutil.copytree(runs / "stopped", tmp_path / "run")
    names = ["config.json", "metrics.jsonl", "start.json", "state.safetensors"]
    path = folder / rng.choice(names)
    data = path.read_bytes()
    if path.suffix != ".json" or rng.random() < 0.2:
        path.write_bytes(mutated_bytes(data, rng))
    else:
        path.write_text(json_text(mutated_json(json.loads(data), rng)))
    before = tree(folder)
    try:
        run = Run.resume(folder)
    except ValueError as error:
        check_error(error)
        assert tree(folder) == before
    else:
        records = run.folder.records()
        assert [r.step for r in records] == list(range(1, run.first + 1))
        assert all(torch.isfinite(p).all() for p in run.learner.parameters)
        run.close()


# --- what a run writes is what it reads -----------------------------------------------------------


def test_every_figure_that_is_written_is_in_the_schema(finished, stopped):
    """And under its own name: a field that the reader ignored would be lost in silence."""
    from vpo_lite.training.schemas import Start, Summary

    written = json.loads((finished / "summary.json").read_text())
    assert set(written) - {"reach_rate"} == set(Summary.model_fields)
    start = json.loads((stopped / "start.json").read_text())
    assert set(start) == set(Start.model_fields)
    read = RunFolder(finished).summary()
    assert read == {k: v for k, v in read.items() if k in written} and read["start"]
    for name, value in written.items():
        if name not in ("reach_rate", "start"):
            assert read[name] == value, name


def test_a_summary_that_was_cut_is_measured_again_as_its_error_says(finished, capsys):
    path = finished / "summary.json"
    text = path.read_text()
    path.write_text(text[:100])
    said = refused(capsys, "compare", finished)
    assert said.endswith(f"; remove it, then: vpo-lite train --resume {finished}\n"), said
    path.unlink()
    assert main(["train", "--resume", str(finished)]) == 0
    assert json.loads(path.read_text()) == json.loads(text), "seconds are those of the records"


def test_a_run_of_another_python_package_is_named(stopped, capsys):
    """An error of the task's module is not hidden behind the folder."""
    config = json.loads((stopped / "config.json").read_text())
    (stopped / "config.json").write_text(json.dumps(config | {"task": "no_such_module:Task"}))
    assert "no_such_module" in refused(capsys, "train", "--resume", stopped)
    with pytest.raises(DamagedError, match=r"config\.json: task"):
        vpo.compare([stopped])


def test_a_run_goes_on_from_another_folder(tiny_policy_folder, small_config, tmp_path, monkeypatch):
    """Its base model was named by a relative path."""
    monkeypatch.chdir(tiny_policy_folder.parent)
    run = Run.begin(small_config.but(model=tiny_policy_folder.name), tmp_path / "run")
    run.close()
    monkeypatch.chdir(tmp_path)
    assert Run.resume("run").config.model == str(tiny_policy_folder.resolve())


# --- one run, used as people use it in a notebook -------------------------------------------------


def test_a_run_whose_cell_is_run_again_goes_on_after_the_last_step(small_config, tmp_path, runs):
    run = Run.begin(small_config, tmp_path / "run")
    run.start()
    steps = run.steps()
    assert next(steps).step == 1
    assert [r.step for r in run.steps()] == [2, 3]
    assert list(steps) == [] and list(run.steps()) == []  # the older walk has ended
    run.finish()
    adapter = "adapter/adapter_model.safetensors"
    assert (run.path / adapter).read_bytes() == (runs / "finished" / adapter).read_bytes()


@pytest.mark.parametrize("save_every", [1, 2, 3])
def test_a_step_that_was_interrupted_half_way_is_done_again_from_the_last_state(
    small_config, tmp_path, runs, monkeypatch, save_every
):
    """Half of the parameters were changed already, as after an interrupt of the kernel."""
    run = Run.begin(small_config.but(save_every=save_every), tmp_path / "run")
    run.start()
    real, calls = run.learner.optimizer.step, []

    def interrupted(*arguments):
        calls.append(1)
        real(*arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(run.learner.optimizer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(run.steps())
    with pytest.raises(ValueError, match="1 of 3 steps are done"):
        run.finish()
    assert [r.step for r in run.steps()] == ([2, 3] if save_every == 1 else [1, 2, 3])
    assert [r.step for r in run.folder.records()] == [1, 2, 3]
    run.finish()
    adapter = "adapter/adapter_model.safetensors"
    assert (run.path / adapter).read_bytes() == (runs / "finished" / adapter).read_bytes()


def test_the_old_model_is_gone_before_a_broken_run_loads_it_again(
    small_config, tmp_path, monkeypatch
):
    """Two would not fit where one fills the memory."""
    run = Run.begin(small_config, tmp_path / "run")
    old, seen = weakref.ref(run.learner.policy.model), []

    def interrupted(*arguments):
        raise KeyboardInterrupt

    def made(config):
        seen.append(old())
        return Learner(config)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(steps_of_training, "update_policy", interrupted)
        list(run.steps())
    monkeypatch.setattr(runs_of_training, "Learner", made)
    assert [r.step for r in run.steps()] == [1, 2, 3]
    assert seen == [None]


def test_a_folder_that_is_taken_is_said_before_a_model_is_loaded(small_config, runs, monkeypatch):
    """Which may take minutes."""

    def loaded(config):
        raise AssertionError

    monkeypatch.setattr(runs_of_training, "Learner", loaded)
    for taken, said in ((runs / "finished", "holds a run already"), ("x" * 300, "cannot be")):
        with pytest.raises(ValueError, match=said):
            Run.begin(small_config, taken)


def test_a_run_is_finished_after_its_last_step_only(small_config, tmp_path):
    run = Run.begin(small_config, tmp_path / "run")
    run.save()  # there is nothing yet
    with pytest.raises(ValueError, match="0 of 3 steps are done"):
        run.finish()
    assert not (run.path / "state.safetensors").exists()


def test_a_writer_whose_folder_was_replaced_stops(stopped, tmp_path):
    """A lock is on a file. Whoever moves the folder away and puts a copy there takes the name."""
    run = Run.resume(stopped)
    stopped.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", stopped)
    before = tree(stopped)
    with pytest.raises(BusyError, match="replaced"):
        list(run.steps())
    assert tree(stopped) == before
    assert [r.step for r in Run.resume(stopped).steps()] == [3]


def test_a_run_on_a_model_of_the_hub_goes_on_with_the_weights_that_it_began_with(
    tiny_policy_folder, small_config, tmp_path, capsys, monkeypatch
):
    """The hub's cache holds three commits of a model: the second changes its README, the third its
    weights.
    """
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub" / "models--some--tiny"
    (home / "refs").mkdir(parents=True)

    def commit(number):
        (home / "refs" / "main").write_text(number * 40)
        return shutil.copytree(tiny_policy_folder, home / "snapshots" / (number * 40))

    commit("1")
    run = Run.begin(small_config.but(model="some/tiny"), tmp_path / "run")
    run.start(), next(run.steps())
    run.close()
    (commit("2") / "README.md").write_text("new words")
    run = Run.resume(run.path)
    next(run.steps())
    run.close()
    adapter = run.learner.policy.save(tmp_path / "adapter")
    assert load_policy(adapter, device="cpu").base == "some/tiny"
    file = commit("3") / "model.safetensors"
    weights = load_file(file)
    save_file({n: w + 1 for n, w in weights.items()}, file, {"format": "pt"})
    assert "trained on other parameters than those of" in refused(
        capsys, "train", "--resume", run.path
    )
    with pytest.raises(ValueError, match="trained on other parameters than those of 'some/tiny'"):
        load_policy(adapter, device="cpu")


def test_a_run_on_a_revision_of_the_hub_stays_with_it(
    tiny_policy_folder, small_config, tmp_path, capsys, monkeypatch
):
    """The hub's cache holds commit 1, tagged v1, and commit 2 with other weights, the newest."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    home = tmp_path / "hub" / "models--some--tiny"
    (home / "refs").mkdir(parents=True)
    for number, refs in (("1", ["v1", "main"]), ("2", ["main"])):
        folder = shutil.copytree(tiny_policy_folder, home / "snapshots" / (number * 40))
        for ref in refs:
            (home / "refs" / ref).write_text(number * 40)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {n: w + 1 for n, w in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )

    def read(name):
        policy = load_policy(name, device="cpu")
        return next(policy.model.get_base_model().model.layers.parameters()), policy

    old, new = read("some/tiny@v1")[0], read("some/tiny")[0]
    assert torch.equal(old, read(str(tiny_policy_folder))[0]) and not torch.equal(old, new)
    assert torch.equal(old, read("some/tiny@" + "1" * 40)[0])
    run = Run.begin(small_config.but(model="some/tiny@v1"), tmp_path / "run")
    run.start(), next(run.steps())
    run.close()
    assert json.loads((run.path / "config.json").read_text())["model"] == "some/tiny@v1"
    run = Run.resume(run.path)
    list(run.steps()), run.finish()
    settings = json.loads((run.path / "adapter" / PEFT).read_text())
    assert settings["base_model_name_or_path"] == "some/tiny" and settings["revision"] == "1" * 40
    again, policy = read(run.path)
    assert policy.base == "some/tiny@v1" and torch.equal(again, old)
    (run.path / "adapter" / "policy.json").unlink()  # as peft alone writes an adapter
    again, policy = read(run.path / "adapter")
    assert policy.base == "some/tiny@" + "1" * 40 and torch.equal(again, old)
    newest = json.loads((read("some/tiny")[1].save(tmp_path / "new") / PEFT).read_text())
    assert newest["revision"] == "2" * 40
    for name in ("some/tiny@v2", "some/tiny@"):
        assert f"model '{name}'" in refused(capsys, "train", "--model", name)


def test_a_folder_may_have_an_at_in_its_name(
    tiny_policy_folder, small_config, tmp_path, monkeypatch
):
    folder = shutil.copytree(tiny_policy_folder, tmp_path / "some" / "tiny@v1")
    monkeypatch.chdir(tmp_path)
    run = Run.begin(small_config.but(model="some/tiny@v1", steps=1), "run")
    run.start(), list(run.steps()), run.finish()
    assert load_policy("run", device="cpu").base == str(folder)
    settings = json.loads((run.path / "adapter" / PEFT).read_text())
    assert settings["base_model_name_or_path"] == str(folder) and settings["revision"] is None


def test_a_run_goes_on_with_the_weights_and_settings_that_it_began_with(
    tiny_policy_folder, small_config, tmp_path, capsys
):
    model = shutil.copytree(tiny_policy_folder, tmp_path / "model")
    run = Run.begin(small_config.but(model=str(model)), tmp_path / "run")
    run.start(), next(run.steps())
    run.close()
    weights = load_file(model / "model.safetensors")
    name = min(weights)
    save_file(weights | {name: weights[name] + 1}, model / "model.safetensors", {"format": "pt"})
    before = tree(run.path)
    assert "trained on other parameters than those of" in refused(
        capsys, "train", "--resume", run.path
    )
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    config = json.loads((run.path / "config.json").read_text())
    for changed in (dict(seed=7), dict(method="set_max"), dict(task_options={"maze_seed": 1001})):
        (run.path / "config.json").write_text(json.dumps(config | changed))
        line = refused(capsys, "train", "--resume", run.path)
        assert f"{next(iter(changed))} changed since the run began" in line
    (run.path / "config.json").write_bytes(before["config.json"])
    assert tree(run.path) == before
    moved = model.rename(tmp_path / "elsewhere")
    longer = config | {"steps": 4, "threads": 2, "model": str(moved)}
    (run.path / "config.json").write_text(json.dumps(longer))
    assert [r.step for r in Run.resume(run.path).steps()] == [2, 3, 4]


def test_the_whole_of_python_refuses_in_one_line(finished, small_config):
    calls = (
        lambda: vpo.compare([None]),
        lambda: vpo.compare(["w" * 5000]),
        lambda: Run.begin(small_config, None),
        lambda: vpo.TrainConfig(task_options=None),
        lambda: vpo.TrainConfig(task_options={5: 1}),
        lambda: vpo.TrainConfig.from_json(None),
        lambda: next(vpo.train(None)),
        lambda: vpo.evaluate(None, small_config, problems="2"),
        lambda: vpo.evaluate(None, small_config, answers=True),
        lambda: vpo.evaluate(None, small_config, task="maze"),
        lambda: next(vpo.train(small_config.but(prompts=10**6, group_size=10**6))),
    )
    for call in calls:
        with pytest.raises(ValueError) as caught:
            call()
        check_error(caught.value)
    (one,), (same,) = vpo.compare(str(finished)), vpo.compare([finished])
    assert one["coverage"] == same["coverage"]


def test_a_line_that_a_full_disk_cuts_short_is_not_left_for_the_next_one(small_config, tmp_path):
    """The same process goes on once there is room again, as a notebook does."""
    run = Run.begin(small_config.but(eval_every=1, eval_answers=2), tmp_path / "run")
    run.start()
    file, steps = tmp_path / "run" / "measured.jsonl", run.steps()
    next(steps), next(steps)  # measured after step 1
    kept = file.read_bytes()
    with full_disk(len(kept) + 100), pytest.raises(OSError):
        run.folder._append("measured.jsonl", "x" * 1000 + "\n")
    assert file.read_bytes() == kept
    for _ in steps:
        pass
    run.finish()
    assert [row["step"] for row in run.folder.measured()] == [1, 2]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_stays_in_its_folder_where_a_reward_or_a_notebook_goes_to_another(
    resumed, small_config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run = Run.begin(small_config.but(eval_every=1, eval_answers=2, keep_texts=1), "run")
    run.start()
    if resumed:
        run.close()
        run = Run.resume(Path("run"))
    (tmp_path / "other" / "run").mkdir(parents=True)
    for _ in run.steps():
        monkeypatch.chdir(tmp_path / "other")
    run.finish()
    assert not any((tmp_path / "other" / "run").iterdir())
    assert RunFolder(tmp_path / "run").finished
    assert [row["step"] for row in RunFolder(tmp_path / "run").measured()] == [1, 2]
