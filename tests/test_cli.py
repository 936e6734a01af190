"""The command line: a run from start to table, resuming, and one line with status 2 for every wrong
request.
"""

import argparse
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from printed import refused, without_bars

import envs
import vpo_lite as vpo
from vpo_lite.cli import flags, main, stopping, told
from vpo_lite.cli import train as train_command
from vpo_lite.cli.commands import _COMMANDS, parser
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.method_settings import unused

ROOT = Path(__file__).resolve().parent.parent


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def small(tiny_policy_folder):
    return [
        "train",
        "--model",
        str(tiny_policy_folder),
        "--maze-seed",
        "1000",
        "--prompts",
        "2",
        "--group-size",
        "4",
        "--steps",
        "3",
        "--max-new-tokens",
        "16",
        "--device",
        "cpu",
    ]


@pytest.mark.slow
def test_the_texts_of_an_evaluation_give_its_figures(tmp_path, capsys, monkeypatch):
    """From the file alone, without the functions that made the figures."""
    monkeypatch.chdir(tmp_path)
    small = "train --maze-seed 1000 --steps 1 --prompts 1 --group-size 2 --m 2 --json --device cpu"
    assert main([*small.split(), "--out", "run"]) == 0
    capsys.readouterr()
    asked = ["evaluate", "run", "--answers", "10", "--device", "cpu", "--json", "--texts"]
    assert main([*asked, "ä.jsonl"]) == 0
    figures = json.loads(capsys.readouterr().out)
    rows = [json.loads(line) for line in Path("ä.jsonl").read_text("utf-8").splitlines()]
    fields = ["key", "problem", "text", "answers", "rewards", "valid", "solved"]
    assert len(rows) == 5 and all(list(row) == fields for row in rows)  # 5 rollouts of m = 2
    task = RunFolder.open("run").config().make_task()
    maze = task.instance(0)
    assert {row["key"] for row in rows} == {task.key(maze)}
    assert "\n<route_1> ... </route_1>" in rows[0]["problem"]
    answers = [answer for row in rows for answer in row["answers"]]
    R = np.array([vector for row in rows for vector in row["rewards"]])
    written = [answer for answer in answers if answer is not None]
    assert len(written) > 5
    known = [i for i, answer in enumerate(answers) if answer is not None]
    np.testing.assert_allclose(R[known], envs.score_routes(maze, written))
    assert figures["objectives"] == pytest.approx(
        dict(zip(envs.OBJECTIVES, R.mean(0), strict=True))
    )
    assert figures["best_at_k"]["10"] == pytest.approx((R @ task.w_star(maze)).max())
    assert figures["parse_rate"] == np.mean([answer is not None for answer in answers])
    for name in ("valid", "solved"):
        assert figures[f"{name}_rate"] == np.mean([row[name] for row in rows])
    for file, said in {"ä.jsonl": "exists already", "absent/a.jsonl": "no folder absent"}.items():
        assert main([*asked, file]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert sorted(os.listdir()) == ["run", "ä.jsonl"]


@pytest.mark.slow
def test_an_evaluation_judges_at_another_alpha(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "train --steps 1 --prompts 1 --group-size 2 --eval-problems 2 --device cpu --out run"
    assert main([*small.split(), "--eval-answers", "9"]) == 0
    capsys.readouterr()
    asked = ["evaluate", "run", "--answers", "60", "--device", "cpu", "--json", "--alpha"]
    found = {}
    for alpha in ("1e-6", "1e5"):
        assert main([*asked, alpha, "--texts", alpha]) == 0
        found[alpha] = json.loads(capsys.readouterr().out)["set_reward"]
    rows = [json.loads(line)["rewards"] for line in Path("1e5").read_text().splitlines()]
    assert len(rows) == 2 * 20 and Path("1e5").read_bytes() == Path("1e-6").read_bytes()
    alone = np.mean([np.max(R, axis=0) for R in rows])  # w is one objective
    equal = np.mean([np.mean(R, axis=1).max() for R in rows])  # w is (1/3, 1/3, 1/3)
    assert found == pytest.approx({"1e-6": alone, "1e5": equal}, abs=1e-3) and alone > equal + 0.01
    assert main([*asked, "0"]) == 2 and "alpha = 0.0: must be" in capsys.readouterr().err


@pytest.mark.slow
def test_two_runs_of_one_second_have_folders_of_their_own(small, tmp_path, capsys, monkeypatch):
    """The second one was refused: its folder was there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "20261128-120000")
    short = [*small, "--steps", "1", "--eval-answers", "3"]
    for _ in range(3):
        assert main(short) == 0
    assert sorted(os.listdir("runs")) == [f"20261128-120000-vpo{x}" for x in ("", "-2", "-3")]
    assert capsys.readouterr().out.endswith("20261128-120000-vpo-3\n"), "it says which"
    # Another process took the folder while the model was being loaded.
    names = iter(f"runs/20261128-120000-vpo{x}" for x in ("-3", "-4"))
    monkeypatch.setattr(train_command, "_new_folder", lambda method: Path(next(names)))
    assert main(short) == 0 and capsys.readouterr().out.endswith("-4\n")


@pytest.mark.slow
def test_nothing_but_our_own_lines_is_printed(small, tmp_path):
    """No warning of a library: about names, for example, that transformers has replaced."""
    commands = [[*small, "--steps", "1", "--threads", "1", "--out", str(tmp_path / "native")]]
    commands += [[*commands[0][:-1], str(tmp_path / "trl"), "--engine", "trl"]]
    commands += [["evaluate", str(tmp_path / "native"), "--mazes", "1", "--answers", "3"]]
    if not importlib.util.find_spec("trl"):
        del commands[1]
    code = f"import sys; from vpo_lite.cli import main; sys.exit(max(map(main, {commands})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = re.split(r"[\r\n]+", without_bars(done.stderr))
    said = [line for line in lines if line and "step" not in line]
    ours = ("memory: ", "vpo-lite: ", "measuring the ")
    assert [line for line in said if not line.startswith(ours)] == []
    assert len(said) >= 3 * len(commands) - 2


@pytest.mark.slow
def test_train_leaves_a_run_folder_and_prints_a_table(small, tmp_path, capsys):
    out = tmp_path / "runs" / "a"
    assert main([*small, "--out", str(out)]) == 0
    table, progress = capsys.readouterr()
    for word in ("vpo", "coverage", "best@30", "diversity", str(out)):
        assert word in table
    summary = json.loads((out / "summary.json").read_text())
    before, after = (row["objectives"]["gold"] for row in (summary["start"], summary))
    assert re.search(rf"^mean of each objective: .*gold {before:.3f} > {after:.3f},", table, re.M)
    told = [progress.find(x) for x in ("before training", "3/3", "measuring the trained policy")]
    assert told == sorted(told) and told[0] >= 0
    assert sorted(p.name for p in out.iterdir()) == [
        "adapter",
        "config.json",
        "metrics.jsonl",
        "state.safetensors",
        "summary.json",
    ]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    summary = json.loads((out / "summary.json").read_text())
    promised = {
        "method",
        "steps",
        "seconds",
        "set_reward",
        "coverage",
        "coverage_best_single",
        "diversity",
        "diversity_all",
        "best_at_k",
        "parse_rate",
        "reach_rate",
        "valid_rate",
        "repeat_rate",
        "objectives",
        "start",
    }
    assert promised <= set(summary)
    assert set(summary["best_at_k"]) == {"1", "3", "10", "30"}
    assert set(summary["start"]) >= promised - {"method", "steps", "seconds", "start"}
    assert {p.suffix for p in (out / "adapter").iterdir()} == {".json", ".safetensors"}

    assert main(["evaluate", str(out), "--device", "cpu", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["coverage"] == pytest.approx(summary["coverage"])
    assert main(["evaluate", str(out), "--mazes", "3", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == 1  # the run's own maze
    assert main(["compare", str(out)]) == 0
    assert "vpo" in capsys.readouterr().out
    assert main(["compare", str(out), str(out)]) == 2
    assert "given twice" in capsys.readouterr().err
    assert main(["train", "--resume", str(out)]) == 2
    assert "finished" in capsys.readouterr().err
    steps = str(summary["steps"] + 1)
    assert main(["train", "--resume", str(out), "--steps", steps, "--json"]) == 0
    longer = json.loads(capsys.readouterr().out)
    assert longer["steps"] == summary["steps"] + 1 and longer["start"] == summary["start"]
    assert main([*small, "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_as_the_uninterrupted_one(small, tmp_path):
    command = [*small, "--threads", "1", "--out"]
    command[command.index("--steps") + 1] = "12"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*command, str(whole)]) == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "vpo_lite.cli", *command, str(killed)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    metrics = killed / "metrics.jsonl"
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= 3:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.json").exists()
    assert main(["train", "--resume", str(killed), "--save-every", "5"]) == 0
    assert json.loads((killed / "config.json").read_text())["save_every"] == 5
    a, b = (json.loads((f / "summary.json").read_text()) for f in (whole, killed))
    timings = {"seconds", "rollout_share", "scoring_share"}
    assert {k: v for k, v in a.items() if k not in timings} == {
        k: v for k, v in b.items() if k not in timings
    }
    adapter = "adapter/adapter_model.safetensors"
    assert (whole / adapter).read_bytes() == (killed / adapter).read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    "name", ["SIGINT", *(pytest.param(n, marks=pytest.mark.long) for n in ("SIGTERM", "SIGHUP"))]
)
def test_a_signal_finishes_the_step_and_says_how_to_go_on(small, tmp_path, name):
    """Ctrl-C, what a cluster sends before it ends a job, and what a terminal sends that closes."""
    number = getattr(signal, name)
    command = [sys.executable, "-m", "vpo_lite.cli", *small, "--out", str(tmp_path / "run")]
    command[command.index("--steps") + 1] = "500"
    command += ["--save-every", "400"]

    def begin():
        signal.signal(number, signal.SIG_DFL)  # `nohup` hands down that SIGHUP is ignored

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, preexec_fn=begin, **pipes)
    end = time.monotonic() + 120
    metrics = tmp_path / "run" / "metrics.jsonl"
    while time.monotonic() < end and not (metrics.exists() and metrics.read_text()):
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"vpo-lite train --resume {tmp_path / 'run'}" in errors
    assert "Traceback" not in errors
    from safetensors import safe_open

    with safe_open(tmp_path / "run" / "state.safetensors", "pt") as file:
        done = int(file.metadata()["step"])
    assert done == len(metrics.read_text().splitlines())
    assert errors.endswith(f"--resume {tmp_path / 'run'}; --steps {done} ends it there\n")
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", str(done), "--json"]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == done


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_signal_that_is_ignored_stays_ignored():
    """`vpo-lite train &` in a script: a Ctrl-C for what runs in front is not meant for it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert signal.SIGINT not in stopping._signals()
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.SIGINT in stopping._signals()


@pytest.mark.slow
@pytest.mark.parametrize("early", ["numpy", "pydantic", "torch"])
def test_ctrl_c_while_a_library_is_loaded_is_one_line(early, tmp_path):
    """The library raises what Ctrl-C raises. What the script of the package runs, runs here."""
    (tmp_path / f"{early}.py").write_text("raise KeyboardInterrupt")
    script = "import sys; from vpo_lite.cli import main; sys.exit(main())"
    train = [sys.executable, "-c", script, "train", "--out", str(tmp_path / "run")]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(train, env=os.environ | paths, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "vpo-lite: stopped\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="a terminal is made as on Linux")
def test_a_terminal_is_told_that_the_step_under_way_is_finished_first(monkeypatch, capfd):
    """Of a large model it takes minutes, and a second Ctrl-C would lose it."""
    monkeypatch.setattr(os, "isatty", lambda stream: True)
    asked = []
    with stopping.patient(asked):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    told = "\nvpo-lite: stopping after this step; Ctrl-C again stops at once\n"
    assert (asked, capfd.readouterr().err) == ([signal.SIGINT] * 2, told)


@pytest.mark.slow
def test_ctrl_c_after_the_last_file_of_a_run_does_not_ask_for_a_resume_that_is_refused(
    small, tmp_path, capsys, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_command, "_print_summary", interrupted)
        assert main([*small, "--steps", "1", "--out", str(tmp_path / "run")]) == 130
    said = without_bars(capsys.readouterr().err).splitlines()[-1]
    see = "vpo-lite: stopped; the run is finished; see vpo-lite "
    assert said.startswith(see)
    assert main(said.removeprefix(see).split()) == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the folder that somebody is in")
def test_a_current_folder_that_was_removed_is_said(tmp_path, monkeypatch, capsys):
    """As by a clone that was made anew while a terminal stood in the old one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir("gone")
    (tmp_path / "gone").rmdir()
    assert "the current folder was removed" in refused(capsys, "compare", tmp_path)


@pytest.mark.slow
def test_an_m_that_does_nothing_is_said_where_sets_would_differ_in_size(small, tmp_path, capsys):
    one = [*small, "--steps", "1"]
    given = {
        "not used": ["--method", "grpo", "--m", "2"],
        "as asked": ["--method", "grpo", "--m", "2", "--set-size", "2"],
        "as usual": ["--method", "grpo"],
        "used": ["--method", "vpo", "--m", "2"],
    }
    said = {}
    for name, more in given.items():
        assert main([*one, *more, "--out", str(tmp_path / name)]) == 0
        said[name] = capsys.readouterr().err.count("--m; --set-size 2 measures it in sets of 2")
    assert said == {"not used": 1, "as asked": 0, "as usual": 0, "used": 0}


@pytest.mark.parametrize(
    "method, given, said",
    [
        (
            "grpo",
            "--m 5 --alpha 0.1 --K 7 --k 3 --pay-repeats",
            "does not use --m, --K, --k, --pay-repeats; --set-size 5 measures it in sets of 5; "
            "--alpha changes only its measured set reward, not its training",
        ),
        ("vpo", "--m 2 --alpha 0.1 --K 7 --pay-repeats", ""),
        ("vpo", "--k 3 --set-size 2", "does not use --set-size, --k"),
        ("max_at_k", "--k 3 --eps 0.01", "does not use --eps"),
        ("random_weighting", "--alpha 0.1 --K 7", "does not use --K"),
        ("gdpo", "--eps 0.01 --set-size 2 --seed 3", ""),
    ],
)
def test_settings_that_the_method_does_not_use_are_said_in_one_line(method, given, said, capsys):
    arguments = ["train", "--method", method, *given.split()]
    settings = vpo.TrainConfig.options()
    chosen = flags.given_settings(settings, parser(arguments).parse_args(arguments))
    told.warn_of_unused(vpo.TrainConfig.preset("demo", **chosen), chosen)
    line = f"vpo-lite: method {method}: {said}\n"
    assert capsys.readouterr().err == (line if said else "")


IN_VAIN = "vpo-lite: {} nothing in steps of one update: --mini-batches 1, --epochs 1\n"


@pytest.mark.parametrize(
    "given, said",
    [
        ("--dual-clip 3", IN_VAIN.format("--dual-clip does")),
        ("--clip 0.1 --clip-high 0.3", IN_VAIN.format("--clip, --clip-high do")),
        ("--clip 0.1 --epochs 2", ""),
        ("--dual-clip 3 --mini-batches 2", ""),
        ("--epochs 1", ""),
    ],
)
def test_a_clip_that_does_nothing_is_said(given, said, capsys):
    """In the first update after sampling, the ratio of new to old probability is 1."""
    arguments = ["train", *given.split()]
    settings = vpo.TrainConfig.options()
    chosen = flags.given_settings(settings, parser(arguments).parse_args(arguments))
    told.warn_of_unused(vpo.TrainConfig.preset("demo", **chosen), chosen)
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "given, flags",
    [
        ("--maze FILE --layout hard-8x8 --eval-problems 9", "--layout, --eval-problems do nothing"),
        ("--maze FILE --layout lite-6x6", "--layout does nothing"),
        ("--maze FILE --maze-budget 9 --eval-problems 1", ""),
        ("--maze-seed 3 --layout hard-8x8 --eval-problems 9", "--eval-problems does nothing"),
        ("--layout hard-8x8 --eval-problems 9", ""),
    ],
)
@pytest.mark.slow
def test_settings_that_do_nothing_beside_one_problem_are_said_in_one_line(
    given, flags, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("drawn.txt").write_text("S . G\n# . .\nD . E\n")
    monkeypatch.setattr(train_command, "_drive", lambda *_: 0)
    arguments = given.replace("FILE", "drawn.txt").split()
    assert main(["train", *arguments, "--out", "run"]) == 0
    line = f"vpo-lite: there is one maze to train on and to measure: {flags}\n"
    assert capsys.readouterr().err == (line if flags else "")
    if flags == "--layout does nothing":
        assert main(["report", *arguments, "--answers", "4", "--json"]) == 0
        assert capsys.readouterr().err == line


@pytest.mark.parametrize("method", [m for m in vpo.METHODS if vpo.METHODS[m].weights != "one"])
def test_what_is_called_unused_changes_no_advantage_and_all_else_does(method, capsys):
    config = vpo.TrainConfig(method=method)
    R = np.random.default_rng(0).random((2, 6, config.answers, 3))
    said = {name: name in unused(config) for name in ("k", "eps")}
    told.warn_of_unused(config, ["alpha"])
    said["alpha"] = "--alpha changes only" in capsys.readouterr().err
    changed = {"k": 3, "eps": 0.5, "alpha": 0.1}
    usual = {"k": 2, "eps": 1e-6, "alpha": 1.0}
    base = vpo.advantages(method, R, **usual)
    for name, value in changed.items():
        same = np.array_equal(base, vpo.advantages(method, R, **usual | {name: value}))
        assert same == said[name], name


def finished(config, *silent: float):
    """A run with these shares of silent groups in its steps."""
    records = [SimpleNamespace(silent_groups=share) for share in silent]
    learner = SimpleNamespace(task=config.make_task())
    folder = SimpleNamespace(records=lambda: records)
    return SimpleNamespace(config=config, learner=learner, folder=folder)


@pytest.mark.parametrize(
    "silent, kl, said", [((1, 1), 0, True), ((1, 0.9), 0, False), ((1, 1), 1, False)]
)
def test_a_run_that_trained_nothing_says_so(silent, kl, said, capsys):
    figures = {"parse_rate": 1, "valid_rate": 1, "truncated_rate": 0, "truncated_in_training": 0}
    told.warn_after_training(
        figures | {"start": figures}, finished(vpo.TrainConfig(kl=kl), *silent)
    )
    assert ("differ in their score, so nothing was trained: " in capsys.readouterr().err) is said


@pytest.mark.parametrize(
    "before, now, said", [(0.8, 0.1, True), (0.8, 0.3, False), (0.1, 0, False)]
)
def test_a_first_step_that_reads_other_texts_says_so(before, now, said, capsys):
    told.warn_of_first_step({"parse_rate": before}, SimpleNamespace(parse_rate=now))
    assert (f"in step 1 {now:.1%} of the answers could be" in capsys.readouterr().err) is said


CUT = "in training, 80% of the rollouts were cut off at the token limit (9): raise max_new_tokens"
FELL = (
    "{} before training, {} after it: the updates damaged the policy; lower --lr, now 0.001, or {}"
)


@pytest.mark.parametrize(
    "read, valid, kl, said",
    [
        ((1, 0.4), (1, 0), 0, ("100.0% of the answers could be read", "40.0%", "add --kl")),
        ((1, 1), (0.5, 0.2), 2, ("50.0% of the answers were valid", "20.0%", "raise --kl, now 2")),
        ((1, 0.51), (0.8, 0.41), 0, None),  # more than half is left
        ((0.1, 0.0), (0.1, 0.0), 0, None),  # it never wrote the format
    ],
)
def test_a_policy_that_training_damaged_is_not_cured_by_more_tokens(
    read, valid, kl, said, monkeypatch, capsys
):
    monkeypatch.setattr(told, "_token_limit", lambda run: 9)
    before, after = ({"parse_rate": read[i], "valid_rate": valid[i]} for i in (0, 1))
    run = finished(vpo.TrainConfig(kl=kl, model="asked/in-words"))
    cut = {"truncated_rate": 0.0, "truncated_in_training": 0.8}
    told.warn_after_training(after | {"start": before} | cut, run)
    assert capsys.readouterr().err == f"vpo-lite: {FELL.format(*said) if said else CUT}\n"


@pytest.mark.parametrize(
    "read, method, said",
    [
        (0.9, "vpo", "at least 70% of the rollouts wrote on after their 3 answers,"),
        (0.67, "vpo", None),  # each that was cut off may lack all three
        (1.0, "grpo", "at least 100% of the rollouts wrote on after their answer,"),  # it has tags
    ],
)
def test_rollouts_that_write_on_after_their_answers_are_not_cured_by_more_tokens(
    read, method, said, monkeypatch, capsys
):
    """Ten rollouts of three answers that were all cut off: with 27 answers read at least seven
    have all of theirs. A shipped policy may come to this, too.
    """
    monkeypatch.setattr(told, "_token_limit", lambda run: 9)
    figures = {"parse_rate": read, "valid_rate": read, "truncated_rate": 1.0}
    figures |= {"start": figures, "truncated_in_training": 0.0}
    run = finished(vpo.TrainConfig(method=method))
    told.warn_after_training(figures, run)
    found = capsys.readouterr().err
    assert found == "" if said is None else f"after training, {said} up to the token" in found


LEFT_OUT = CUT.replace("(9)", "(9), which --mask-truncated leaves out")


@pytest.mark.parametrize(
    "settings, said",
    [
        ({}, ""),
        ({"max_new_tokens": 9}, f"vpo-lite: {CUT}\n"),
        ({"mask_truncated": True}, f"vpo-lite: {LEFT_OUT}\n"),
    ],
)
def test_the_longest_answers_of_a_small_policy_fit_so_more_tokens_are_not_the_cure(
    settings, said, monkeypatch, capsys
):
    monkeypatch.setattr(told, "_token_limit", lambda run: 9)
    run = SimpleNamespace(config=vpo.TrainConfig(**settings))
    told.warn_of_truncation(run, "in training", cut=0.8)
    assert capsys.readouterr().err == said


@pytest.mark.slow
def test_a_learning_rate_that_destroys_the_policy_is_named(tmp_path, capsys):
    train = "train --lr 1 --steps 4 --maze-seed 1000 --prompts 2 --group-size 4 --device cpu"
    assert main([*train.split(), "--eval-answers", "9", "--out", str(tmp_path / "run")]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "vpo-lite: " in line]
    assert len(said) == 1 and "lower --lr, now 1, or add --kl" in said[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "code", "told"),
    [
        (Terminal, "time.sleep(0.5)", "loading torch, transformers and peft\n"),
        (Terminal, "", ""),
        (io.StringIO, "time.sleep(0.5)", ""),
    ],
    ids=["a terminal that waits", "one that does not", "a log"],
)
def test_a_terminal_is_told_what_it_waits_for(stream, code, told, tmp_path, monkeypatch):
    """`vpo-lite train` said nothing for its first five to ten seconds."""
    (tmp_path / "a_slow_one.py").write_text(f"import time\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(flags, "HEAVY", ("a_slow_one",))
    monkeypatch.setattr(flags, "PATIENCE", 0.1)
    monkeypatch.setattr(sys, "stderr", stream())
    with flags.loading():
        importlib.import_module("a_slow_one")
        time.sleep(0.3)
    assert sys.stderr.getvalue() == told
    del sys.modules["a_slow_one"]


@pytest.mark.parametrize("stream, least, most", [(io.StringIO(), 5, 7), (Terminal(), 20, 22)])
def test_a_bar_is_drawn_at_each_step_on_a_terminal_and_every_five_seconds_in_a_log(
    stream, least, most, monkeypatch
):
    """Twenty steps of a second each, by a clock of the test."""
    monkeypatch.setattr("sys.stderr", stream)
    with flags.progress(total=20) as bar:
        start = bar.last_print_t
        for step in range(1, 21):
            bar._time = lambda now=start + step: now
            bar.update()
    assert least <= stream.getvalue().count("\r") <= most
    assert "20/20" in stream.getvalue()


def test_every_setting_and_every_option_of_the_task_has_a_flag_with_help():
    import dataclasses

    from vpo_lite.tasks.maze import MazeTask
    from vpo_lite.training.config import TrainConfig

    shown = parser(["train"])._subparsers._group_actions[0].choices["train"].format_help()
    names = {f.name for f in dataclasses.fields(TrainConfig)} - {"task_options"}
    for name in (*names, *(option.name for option in MazeTask.options)):
        assert re.search(rf"^  --{name.replace('_', '-')}\s", shown, re.MULTILINE), name
    assert all(o.help for o in (*TrainConfig.options(), *MazeTask.options))


KINDS = ["export model", "export verl", "export lesson", "course build", "course sheet"]


def test_every_flag_of_every_command_has_a_help():
    for asked in (*_COMMANDS, *KINDS, "notebooks copy"):
        for command in _parsers(parser(asked.split())):
            assert all(a.help for a in _flags(command)), command.prog


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["", *_COMMANDS, *KINDS, "notebooks copy"])
def test_a_page_of_help_fits_80_columns_and_its_examples_parse(asked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*asked.split(), "--help"])
    text, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    long = [x for x in (text + examples).splitlines() if len(x) > 80]
    assert all("--plan |" in x for x in long), long  # argparse does not break such a group
    lines = re.findall(r"^  vpo-lite (.+?)(?: +#.*)?$", examples.replace("\\\n", ""), re.MULTILINE)
    assert lines or asked in ("export", "course", "notebooks")  # these list their kinds
    for line in lines:
        assert line.startswith(asked)
        parser(line.split()).parse_args(line.split())


@pytest.mark.parametrize("preset", ["demo", "gpu"])
def test_the_help_of_train_states_the_defaults_of_the_preset(preset, capsys):
    from vpo_lite.training.config import TrainConfig

    with pytest.raises(SystemExit):
        main(["train", "--preset", preset, "--help"])
    text = " ".join(capsys.readouterr().out.partition(f"preset {preset}:\n")[2].split())
    config = TrainConfig.preset(preset)
    for name in ("steps", "prompts", "group-size", "K", "lr", "rank", "kl", "eps", "save-every"):
        value = getattr(config, name.replace("-", "_"))
        assert re.search(rf"--{name} [NX] [^()]*\(default: {value:g}\)", text), name


def _parsers(one):
    """A parser and the parsers of its commands."""
    inner = [a for a in one._actions if isinstance(a, argparse._SubParsersAction)]
    return [one, *(p for a in inner for made in a.choices.values() for p in _parsers(made))]


def _flags(one):
    return [a for a in one._actions if not isinstance(a, argparse._SubParsersAction)]


WRONG = {
    "method": (["--method", "ppo"], "'ppo'"),
    "preset": (["--preset", "huge"], "'huge'"),
    "task": (["--task", "chess"], "'chess'"),
    "layout": (["--layout", "x"], "'x'"),
    "m": (["--m", "0"], "m = 0"),
    "m too large for the policy": (["--m", "6"], "m = 6: this policy writes 1 to 5 answers"),
    "m no number": (["--m", "three"], "'three'"),
    "K": (["--K", "0"], "K = 0"),
    "alpha 0": (["--alpha", "0"], "alpha = 0"),
    "alpha below": (["--alpha", "-2"], "alpha = -2"),
    "alpha nan": (["--alpha", "nan"], "alpha = nan"),
    "model": (["--model", "no/such"], "no/such"),
    "device": (["--device", "abacus"], "'abacus'"),
    "dtype": (["--dtype", "float16"], "'float16'"),
    "load in": (["--load-in", "2bit"], "'2bit'"),
    "load in with a pocket policy": (["--load-in", "4bit"], "pocket"),
    "maze file": (["--maze", "nowhere.txt"], "nowhere.txt"),
    "board too large": (
        ["--layout", "hard-8x8", "--maze-seed", "1", "--model", "pocket-6x6"],
        "boards up to 6x6",
    ),
    "option": (["--colour", "red"], "unrecognized arguments: --colour red (see"),
    "option misspelt": (["--stpes=3", "--group_size", "4"], "mean --steps, --group-size? (see"),
    "options by their letters": (["--G", "8", "--P=2"], "mean --group-size, --prompts? (see"),
    "option of another task": (
        ["--task", "hops", "--layout", "x"],
        "--layout is an option of task maze (see",
    ),
    "options of a task that is not named": (
        ["--data", "x", "--reward-funcs", "a:b"],
        "--data, --reward-funcs are options of task functions; add --task functions (see",
    ),
    "an option of several tasks": (["--problem", "3"], "programs; add --task NAME (see"),
    "resume with an option of a task": (["--resume", ".", "--data", "x"], "leave out --data: the"),
    "K by another name": (["--K", "infinity"], "'infinity': is no whole number, and not inf"),
    "one by its letter": (["-G", "8"], "did you mean --group-size? (see"),
    "one by TRL's name": (["--epsilon-high", "0.3"], "did you mean --clip-high? (see"),
    "a value that looks like an option": (["--layout", "-x"], "or --layout=VALUE where"),
    "resume": (["--resume", "."], "no run folder"),
    "resume with more": (["--resume", ".", "--alpha", "2"], "leave out --alpha"),
    "resume with a preset": (["--resume", ".", "--preset", "gpu"], "leave out --preset"),
    "lr beyond numbers": (["--lr", "1e300"], "at most 1"),
    "K beyond memory": (["--K", "10000000000000"], "at most 1,000,000"),
    "a device of another kind": (["--device", "meta"], "'meta'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_get_one_line_status_2_and_write_nothing(
    case, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    arguments, said = WRONG[case]
    assert main(["train", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S . S\n. . E", "S"),
        ("S # E\n. # .", "E"),
        ("S . .\n. E", "row"),
        ("S ? E", "?"),
        ("", "empty"),
        (". . .\n. . E", "S"),
    ],
    ids=["two S", "no way", "ragged", "unknown symbol", "empty", "no S"],
)
def test_drawn_mazes_that_are_none_are_refused(text, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("maze.txt").write_text(text)
    assert main(["train", "--maze", "maze.txt"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and said in error
    assert ("the drawn maze: " in error) == (said != "?")  # that one is no text of a maze
    assert [p.name for p in tmp_path.iterdir()] == ["maze.txt"]


@pytest.mark.slow
def test_a_drawn_maze_is_trained_on(small, tmp_path):
    (tmp_path / "maze.txt").write_text("S . G\n. # .\nD . E\n")
    small = [a for a in small if a not in ("--maze-seed", "1000")]
    assert (
        main(
            [*small, "--maze", str(tmp_path / "maze.txt"), "--out", str(tmp_path / "run"), "--json"]
        )
        == 0
    )
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["task_options"]["maze"] == "S . G\n. # .\nD . E\n"


def test_a_full_disk_is_reported_before_training(small, tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vpo_lite.training.folders.write_json", full)
    assert main([*small, "--out", str(tmp_path / "run")]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_file_in_the_place_of_the_folder_is_reported_before_training(small, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        assert main([*small, "--out", str(out)]) == 2
        assert str(out) in capsys.readouterr().err


def test_other_commands_refuse_in_one_line_too(tmp_path, capsys):
    for arguments in (
        [],
        ["evaluate", str(tmp_path)],
        ["compare", str(tmp_path)],
        ["pretrain", "--out", str(tmp_path / "x"), "--updates", "0"],
        ["dance"],
        ["pretrain"],
        ["pretrain", "--out", str(tmp_path / "x"), "--layout", "none"],
    ):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_damaged_files_of_a_run_are_named_in_one_line(small, tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*small, "--out", str(out), "--json"]) == 0
    weights = out / "adapter" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    capsys.readouterr()
    assert main(["evaluate", str(out), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "adapter cannot be loaded" in error and len(error.splitlines()) == 1
    (out / "summary.json").unlink()
    (out / "state.safetensors").write_bytes(b"not a state")
    assert main(["train", "--resume", str(out)]) == 2
    error = capsys.readouterr().err
    assert "state cannot be read" in error and len(error.splitlines()) == 1
    (out / "config.json").write_text("[]")
    assert main(["train", "--resume", str(out)]) == 2
    assert "config.json: it should be an object, not []" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_repeats_the_one_that_closed_the_run(small, tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*small, "--seed", "5", "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(out), "--device", "cpu", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(out), "--device", "cpu", "--problems", "1"]) == 0
    assert without_bars(capsys.readouterr().err) == "measuring the policy\n"
    assert main(["evaluate", str(out), "--device", "cpu", "--problems", "7"]) == 0
    said = "measured on that one: --problems 7 does nothing"
    assert said in capsys.readouterr().err
    assert all(
        again[name] == pytest.approx(summary[name])
        for name in ("tokens_per_answer", "parse_rate", "coverage")
    )


@pytest.mark.slow
def test_an_evaluation_is_refused_before_anything_is_measured(small, tmp_path, capsys):
    """A seed below 0 was read too late. An adapter of another task's model was taken for one of the
    run's, and exported as such.
    """
    out, other = tmp_path / "run", tmp_path / "other"
    assert main([*small, "--model", "pocket-6x6", "--out", str(out), "--json"]) == 0
    vpo.load_policy("pocket-hops", device="cpu").save(other)
    capsys.readouterr()
    assert main(["evaluate", str(out), "--seed", "-1"]) == 2
    assert capsys.readouterr().err.startswith("vpo-lite: seed = -1: must be a whole number")
    assert main(["evaluate", str(out), "--threads", "0"]) == 2
    assert capsys.readouterr().err.startswith("vpo-lite: threads = 0: ")
    for file in other.iterdir():
        (out / "adapter" / file.name).write_bytes(file.read_bytes())
    for asked in (
        ["evaluate", str(out)],
        ["export", "model", str(out), "--out", str(tmp_path / "x")],
    ):
        assert main(asked) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        said = "it was trained on other parameters than those of 'pocket-6x6'; name the right "
        assert error.endswith(said + "model as base")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "run"]


@pytest.mark.slow
def test_an_evaluation_has_the_threads_that_are_asked_for(small, tmp_path, capsys, monkeypatch):
    from vpo_lite.training import evaluate

    seen, usual, out = [], evaluate.torch_threads, str(tmp_path / "run")
    assert main([*small, "--threads", "1", "--out", out, "--json"]) == 0
    monkeypatch.setattr(evaluate, "torch_threads", lambda n: seen.append(n) or usual(n))
    for more in ([], ["--threads", "2"]):
        assert main(["evaluate", out, "--device", "cpu", "--json", *more]) == 0
    assert seen == [1, 2]


def test_the_cure_for_a_folder_that_begins_with_a_dash_can_be_typed(tmp_path):
    from vpo_lite.training.folders import RunFolder

    assert RunFolder("-a b").go_on == "vpo-lite train --resume './-a b'"
    assert RunFolder("runs/-a").go_on == "vpo-lite train --resume runs/-a"


def test_a_reader_that_goes_away_makes_no_request_wrong():
    """`vpo-lite study | head -1` said that a file cannot be written."""
    from vpo_lite.cli.flags import requests

    with pytest.raises(BrokenPipeError), requests():
        raise BrokenPipeError


def test_the_help_of_an_evaluation_names_one_flag_for_its_problems(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    out = capsys.readouterr().out
    assert "--problems N" in out and "--mazes" not in out and "set of test" not in out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["envs.py", "envs/__init__.py"])
def test_another_module_named_envs_in_the_current_folder_is_named(name, tmp_path):
    """`accelerate launch -m vpo_lite.cli` looks there first. It ended in a traceback."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x = 1")

    def started(**more):
        return subprocess.run(
            [sys.executable, "-m", "vpo_lite.cli", "train", "--layout", "none"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | more,
            capture_output=True,
            text=True,
        )

    ran = started()
    (line,) = ran.stderr.splitlines()
    assert ran.returncode == 2 and f"{tmp_path / name}, hides the one of vpo_lite" in line
    assert "set PYTHONSAFEPATH=1" in line
    assert "unknown layout 'none'" in started(PYTHONSAFEPATH="1").stderr


@pytest.mark.slow
def test_a_run_measures_as_many_problems_and_answers_as_it_was_told(small, tmp_path, capsys):
    out, numbers = tmp_path / "run", ["--eval-problems", "2", "--eval-answers", "3"]
    many = [flag for flag in small if flag not in ("--maze-seed", "1000")]
    assert main([*many, *numbers, "--out", str(out)]) == 0
    assert "measuring the trained policy" in capsys.readouterr().err
    summary = json.loads((out / "summary.json").read_text())
    for figures in (summary, summary["start"]):
        assert (figures["problems"], figures["answers"]) == (2, 3)
        assert len(figures["per_problem"]["coverage"]) == 2
    assert main(["evaluate", str(out), "--device", "cpu", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["answers"] == 3 and again["coverage"] == pytest.approx(summary["coverage"])
    new = ["--out", str(tmp_path / "new"), "--eval-problems", "9001"]
    assert main([*many, *new]) == 2
    said = "eval_problems = 9001: of the 9,000 held-out problems of task 'maze'"
    assert said in capsys.readouterr().err and not (tmp_path / "new").exists()


@pytest.mark.slow
def test_an_evaluation_of_fewer_answers_than_a_set_names_the_sets_it_measured(
    small, tmp_path, capsys
):
    """One rollout of m = 3 is cut to one answer. The table said that the sets were of three."""
    assert main([*small, "--out", str(tmp_path / "run")]) == 0
    for answers, size in ((1, 1), (2, 2), (5, 3)):
        capsys.readouterr()
        command = ["evaluate", str(tmp_path / "run"), "--device", "cpu"]
        assert main([*command, "--answers", str(answers)]) == 0
        out, err = capsys.readouterr()
        names, *_, row = out.splitlines()
        told = f"coverage are of sets of {size}, and those of the run of sets of 3"
        assert (told in err) == (size < 3)
        assert row.split()[names.split().index("set")] == str(size)
        assert main([*command, "--answers", str(answers), "--json"]) == 0  # before it is compared
        said = "`vpo-lite compare` cannot read this, it compares sets of 3"
        assert (said in capsys.readouterr().err) == (size < 3)


def test_doctor_names_versions_and_threads(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in (
        "python 3.",
        "torch 2.",
        "jupyterlab 4.",
        f"pyarrow {importlib.metadata.version('pyarrow')} (parquet",
        "threads:",
        "pocket policies: pocket-6x6",
        "sandbox for answers in Python: ",
        "ready",
    ):
        assert word in out


@pytest.mark.long
def test_pretrain_resumes_where_it_was_killed_and_ends_the_same(tmp_path):
    from vpo_lite.policy.threads import torch_threads

    code = (
        "import torch\n"
        "from vpo_lite.pocket.maze import MazeRecipe\n"
        "from vpo_lite.pocket.pretrain import pretrain\n"
        "torch.set_num_threads(1)\n"
        "c = MazeRecipe(updates=6, batch=4, width=32, layers=1, heads=2, mlp=32, save_every=2)\n"
        "for done, loss in pretrain(c, folder, device=torch.device('cpu'), workers=0):\n"
        "    if done == killed_at: import os; os._exit(9)\n"
    )
    begun = f"folder, killed_at = {str(tmp_path / 'cut')!r}, 5\n{code}"
    assert subprocess.run([sys.executable, "-c", begun], cwd=ROOT).returncode == 9
    with torch_threads(1):
        for name in ("whole", "cut"):
            exec(code, {"folder": str(tmp_path / name), "killed_at": None})
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_pretrain_finishes_its_update_at_ctrl_c_and_goes_on_there(tmp_path, capsys, monkeypatch):
    import torch

    from vpo_lite.pocket import pretrain

    monkeypatch.setattr(pretrain, "HELD_OUT", range(2))
    sizes = dict(updates=4, batch=2, width=32, layers=1, heads=2, mlp=32, workers=0, threads=1)
    options = [x for name, size in sizes.items() for x in (f"--{name}", str(size))]
    clip, updates = torch.nn.utils.clip_grad_norm_, []

    def interrupted(*given):  # in the middle of the third update
        updates.append(given)
        if len(updates) == 3:
            signal.raise_signal(signal.SIGINT)
        return clip(*given)

    def pretrained(name):
        return main(["pretrain", "--device", "cpu", "--out", str(tmp_path / name), *options])

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", interrupted)
    assert pretrained("cut") == 130
    said = without_bars(capsys.readouterr().err).splitlines()[-1]
    assert said == "vpo-lite: stopped after 3 updates; the same command goes on there"
    assert pretrained("cut") == 0 and len(updates) == 4
    assert pretrained("whole") == 0 and len(updates) == 8
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_pretrain_makes_a_standard_folder_with_its_figures(tmp_path, capsys, monkeypatch):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from vpo_lite.pocket import pretrain
    from vpo_lite.pocket.maze import MazeRecipe
    from vpo_lite.policy.loading import load_policy

    monkeypatch.setattr(pretrain, "LARGEST_FP32", 100_000)  # bytes; the model below has more
    monkeypatch.setattr(pretrain, "HELD_OUT", range(2))
    out, shape = tmp_path / "p", ["--width", "32", "--layers", "1", "--heads", "2", "--mlp", "48"]
    arguments = [
        "pretrain",
        "--out",
        str(out),
        "--updates",
        "2",
        "--batch",
        "2",
        "--workers",
        "0",
        "--device",
        "cpu",
    ]
    assert main([*arguments, *shape, "--smaller-share", "0.5"]) == 0
    captured = capsys.readouterr()
    assert captured.err.endswith("measuring the policy\n")
    figures = json.loads(captured.out)
    assert {name: set(by_m) for name, by_m in figures.items()} == {
        "lite-6x6": {"1", "3", "5"},
        "tiny-4x4": {"1", "3", "5"},
    }
    config = AutoModelForCausalLM.from_pretrained(out).config
    assert (
        config.vpo_pocket["board"],
        config.hidden_size,
        config.num_hidden_layers,
        config.intermediate_size,
    ) == (6, 32, 1, 48)
    assert {str(w.dtype) for w in load_file(out / "model.safetensors").values()} == {
        "torch.bfloat16"
    }
    assert str(load_policy(out, device="cpu").model.dtype) == "torch.float32"
    assert AutoTokenizer.from_pretrained(out)("<m1> a1S")["input_ids"]
    card = (out / "README.md").read_text()
    assert (
        "held-out" in card
        and "`tiny-4x4` | 3 |" in card
        and "--smaller-share 0.5" in card
        and "--mlp 48" in card
    )
    assert main(["pretrain", "--out", str(out), "--updates", "3", "--device", "cpu"]) == 2
    assert "other settings" in capsys.readouterr().err
    about = json.loads((out / "pretrain.json").read_text())
    for name in (
        "smaller_share",
        "width",
        "layers",
        "heads",
        "mlp",
    ):  # a folder that was begun before there was this setting
        del about["config"][name]
    (out / "pretrain.json").write_text(json.dumps(about))
    assert pretrain.check_folder(MazeRecipe(updates=2, batch=2), out) == out


@pytest.mark.slow
def test_demonstrations_come_from_smaller_boards_in_whole_batches_and_only_when_asked():
    from vpo_lite.pocket.demonstrations import Demonstrations
    from vpo_lite.pocket.maze import MazeRecipe

    def size(row):  # of the board behind a prompt: the squares that are not beyond it
        prompt = demonstrations.tokenizer.decode(row[0]).split()
        return max(
            int(square[1])
            for square in prompt
            if square[0] in "abcdefghi" and square[-1] in ".SEGDL"
        )

    demonstrations = Demonstrations(
        MazeRecipe(layout="paper-9x9", smaller_share=0.5, drawn_share=0, batch=2)
    )
    sizes = [size(demonstrations[i]) for i in range(160)]
    assert sizes[::2] == sizes[1::2] and set(sizes) == {4, 6, 8, 9}
    assert 0.25 < sizes.count(9) / 160 < 0.75
    demonstrations = Demonstrations(MazeRecipe(layout="paper-9x9", drawn_share=0, batch=2))
    assert {size(demonstrations[i]) for i in range(20)} == {9}


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        (
            "--smaller-share",
            "2",
            "smaller_share = 2.0: must be a finite number, 0 or more, at most 1",
        ),
        ("--heads", "3", "width = 128, heads = 3: width must be an even multiple of heads"),
        ("--layers", "0", "layers = 0"),
        ("--threads", "0", "--threads 0: expected 1 to 1024"),  # an error of torch, and a folder
        ("--workers", "-1", "--workers -1: expected 0 to 1024"),
    ],
)
def test_a_pocket_policy_that_cannot_be_is_refused(tmp_path, capsys, flag, value, message):
    assert main(["pretrain", "--out", str(tmp_path / "p"), flag, value]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_pretraining_without_a_compiler_is_refused_before_anything_is_written(
    tmp_path, capsys, monkeypatch
):
    for name in ("CXX", "PATH"):
        monkeypatch.setenv(name, "")
    assert main(["pretrain", "--out", str(tmp_path / "p"), "--device", "cpu", "--compile"]) == 2
    assert "no C++ compiler was found" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


COMMANDS = (
    "train",
    "report",
    "evaluate",
    "compare",
    "export verl",
    "export lesson",
    "course build",
    "course sheet",
    "study",
    "score --task hops",
    "data --task hops",
    "pretrain",
    "lab",
    "notebooks copy",
    "classroom",
)


@pytest.mark.parametrize("line", ["score --help", "compare --json -h"])
def test_the_help_of_a_command_that_prints_json_is_on_stdout(line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    out, err = capsys.readouterr()
    assert ended.value.code == 0 and out.startswith("usage: vpo-lite ") and err == ""


def test_a_tilde_is_the_home_folder_in_every_flag_of_a_file(tmp_path, monkeypatch):
    """A shell leaves it in --out=~/x. What takes a file is known by the word that help shows."""
    monkeypatch.setenv("HOME", str(tmp_path))
    files = {"FILE", "FOLDER", "RUN", "DEST", "RECORDING", "NAME|FOLDER"}
    seen = set()
    for line in COMMANDS:
        arguments = line.split()
        command = parser(arguments)
        for word in (a for a in arguments if a not in ("--task", "hops")):
            (kinds,) = command._subparsers._group_actions
            command = kinds.choices[word]
        for action in command._actions:
            takes = action.metavar in files or action.dest == "model"
            if takes or (line, action.dest) == ("study", "name"):
                assert str(action.type("~/a b")) == f"{tmp_path}/a b", (line, action.dest)
                assert str(action.type("a~")) == "a~" and str(action.type("./~")) != str(tmp_path)
                seen.add((line, action.dest))
    assert {("train", "out"), ("train", "maze"), ("train", "model"), ("study", "name")} < seen
    assert len(seen) > 20


def test_a_bar_has_no_lock_that_outlives_a_killed_command():
    """The lock of tqdm's own is a semaphore, of which Python 3.14 tells on stderr if it is left."""
    with flags.bars()(disable=True) as bar:
        assert not hasattr(bar.get_lock(), "mp_lock") and not hasattr(bar.get_lock(), "locks")
