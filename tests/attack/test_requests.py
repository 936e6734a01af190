"""The command line under attack: every flag with texts that it does not expect.

A request is either taken, or refused with status 2, one line, and nothing written. Anything else is
a fault.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import seeds, tree
from printed import refused

from vpo_lite.cli import flags, main
from vpo_lite.files import DamagedError, making
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.tasks import task_class
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.errors import TrainingError
from vpo_lite.training.folders import RunFolder

TEXTS = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "1",
    "7",
    "1.5",
    "1e30",
    "9" * 400,
    "9" * 5000,
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "1e308",
    "x" * 5000,
    "a\x00b",
    "a\nb",
    "\udcff",
    "ü",
    "None",
    "[]",
    "{}",
    "../..",
    ".",
    "/",
    "/dev/null/x",
    "true",
    "cpu",
    "vpo",
    "module:Class",
    "os:system",
    "a:b:c",
    "<b>",
    "--",
)


class Accepted(BaseException):  # an Exception of this file would be one of the user's code
    """The request was taken, and work would begin."""


def asked(arguments, capsys, watched: Path) -> None:
    """Ask; where it is refused, check how."""
    before = tree(watched)
    try:
        status = main(arguments)
    except Accepted:
        capsys.readouterr()
        return
    out, err = capsys.readouterr()
    assert status in (0, 2), (status, arguments, err)
    if status == 2:
        assert out == "" and len(err.splitlines()) == 1, (arguments, err[:500])
        assert err.startswith("vpo-lite: ") and len(err) < 1000 and "Traceback" not in err
        assert tree(watched) == before, arguments


def accept(*_, **__):
    raise Accepted


@seeds(150)
def test_train_takes_a_request_or_refuses_it_in_one_line(
    tiny_policy_folder, here, monkeypatch, capsys, seed
):
    rng = random.Random(seed)
    monkeypatch.setattr("vpo_lite.cli.train._drive", accept)
    options = (*TrainConfig.options(), *task_class("maze").options)
    settings = [o.flag for o in options if o.type is not bool and o.name != "compile"]
    known = ["train", "--model", str(tiny_policy_folder), "--device", "cpu", "--out", "run"]
    flag = rng.choice([*settings, "--preset", "--out", "--resume", "--no-such-flag"])
    asked(
        [*known, *rng.choice([(flag, rng.choice(TEXTS)), (f"{flag}={rng.choice(TEXTS)}",)])],
        capsys,
        here,
    )
    for begun in here.rglob("config.json"):  # what was taken can be read again
        RunFolder(begun.parent).config()


@seeds(60)
def test_the_other_commands_take_a_request_or_refuse_it_in_one_line(
    runs, here, monkeypatch, capsys, seed
):
    rng = random.Random(seed)
    for work in ("pocket.pretrain._updates", "cli.machine.start_jupyter"):
        monkeypatch.setattr(f"vpo_lite.{work}", accept)
    monkeypatch.setattr("vpo_lite.training.evaluate._pools", accept)
    text, run = rng.choice(TEXTS), str(shutil.copytree(runs / "finished", here / "run"))
    small = ["--width", "8", "--heads", "2", "--layers", "1", "--mlp", "8", "--batch", "2"]
    options = ["--task", *(o.flag for o in MazeRecipe.options())]
    evaluated = ("--problems", "--mazes", "--answers", "--seed", "--device")
    reported = ("--problems", "--answers", "--html", "--task", "--model", "--m", "--seed", "--maze")
    request = rng.choice(
        (
            ["evaluate", run, rng.choice(evaluated), text],
            ["evaluate", text],
            ["compare", run, text],
            ["compare", run, "--html", text],
            ["report", "--problems", "1", rng.choice(reported), text],
            ["lab", rng.choice(("--port", "--browser")), text],
            ["pretrain", "--out", text, *small],
            ["pretrain", "--out", "p", *small, rng.choice(options), text],
            ["pretrain", "--out", "p", *small, rng.choice(("--threads", "--workers")), text],
            [text],
            [text, "train"],
        )
    )
    asked(request, capsys, here)


# --- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--preset="], "unknown preset ''"),
        (["train", "--out", ""], "--out: the name is empty"),
        (["train", "--out", "x" * 5000], "too long"),
        (["train", "--model", "x" * 5000], "(5,002 characters)"),
        (["train", "--threads", str(2**63)], "threads = 9223372036854775808: must be"),
        (["train", "--temperature", "1e-38"], "temperature = 1e-38: must be a finite number, 0.01"),
        (["train", "--rank", "10000000000"], "rank = 10000000000: must be"),
        (["train", "--lora-alpha", "9" * 400], "(400 characters)"),
        (["train", "--prompts", "1" + "0" * 30], "prompts = 1000"),
        (["lab", "--port", "-5"], "--port -5: must be 1 to 65535"),
        (["lab", "--port", "99999999"], "--port 99999999: must be 1 to 65535"),
        (["pretrain", "--out", "/proc/no", "--updates", "1"], "/proc/no"),
        (["pretrain", "--out", "p", "--lr", "1e20"], "lr = 1e+20: must be"),
        (["pretrain", "--out", "p", "--width", "16384", "--layers", "200"], "in all: lower width"),
        (["evaluate", "run", "--answers", "1000000"], "run: no run folder"),
    ],
)
def test_low_requests_that_0_1_0_took_or_failed_at(here, capsys, arguments, said):
    assert said in refused(capsys, *arguments)
    assert list(here.iterdir()) == []


def test_more_answers_than_can_be_measured_are_refused(finished, capsys):
    line = refused(capsys, "evaluate", finished, "--answers", "1000000", "--device", "cpu")
    assert "answers = 1000000: must be 1 to 2,000" in line


def test_m3_a_maze_with_too_many_items_is_refused_before_a_folder_is_made(here, capsys):
    (here / "maze.txt").write_text("S G G G G G\nG G G G G G\nG G G G G G\nG G G G G E\n")
    line = refused(capsys, "train", "--maze", "maze.txt", "--out", "run")
    assert "16" in line and not (here / "run").exists()


def test_a_maze_file_may_begin_with_a_byte_order_mark(here, monkeypatch, capsys):
    monkeypatch.setattr("vpo_lite.cli.train._drive", accept)
    (here / "maze.txt").write_bytes(b"\xef\xbb\xbfS G\r\nD E\r\n")
    with pytest.raises(Accepted):
        main(["train", "--maze", "maze.txt", "--out", "run"])
    assert RunFolder(here / "run").config().make_task().instance(0).text == "S G\nD E"


@pytest.mark.long
def test_a_terminal_without_the_letters_of_a_name_fails_nothing(tiny_policy_folder, tmp_path):
    sizes = ["--steps", "1", "--prompts", "1", "--group-size", "2", "--max-new-tokens", "4"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "vpo_lite.cli",
            "train",
            "--model",
            str(tiny_policy_folder),
            "--m",
            "2",
            "--maze-seed",
            "1000",
            "--device",
            "cpu",
            *sizes,
            "--out",
            str(tmp_path / "ü"),
        ],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert b"Written to " in done.stdout and done.stdout.isascii()


# --- a fault of the program is no wrong request ---------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TrainingError("loss = nan"), 1),
        (DamagedError("start.json: no JSON"), 1),
        (OSError(28, "No space left on device"), 1),
        (MemoryError("out of memory"), 1),
        (ValueError("shapes (3,) and (4,) not aligned"), None),
        (RuntimeError("expected scalar type Float"), None),
        (KeyError("name"), None),
        (TypeError("unsupported"), None),
    ],
)
def test_only_what_a_user_can_cause_is_one_line(
    tiny_policy_folder, here, monkeypatch, capsys, error, status
):
    ours = {"__name__": "vpo_lite.fails", "error": error}  # else it is the user's code that fails
    exec("def fail(*_):\n    raise error", ours)
    monkeypatch.setattr("vpo_lite.cli.train._drive", ours["fail"])
    known = ["train", "--model", str(tiny_policy_folder), "--device", "cpu", "--out", "run"]
    if status is None:
        with pytest.raises(type(error)):
            main(known)
    else:
        assert str(error).split("] ")[-1] in refused(capsys, *known, status=status)


def test_a_message_is_one_short_line_whatever_it_repeats(capsys):
    assert flags.say("a\n" + "x" * 5000 + " and the cure", 2) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 1000 and line.startswith("vpo-lite: a xxx") and line.endswith("the cure")


# --- a machine without streams, or with another alphabet ------------------------------------------


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_fails_nothing(finished, monkeypatch, closed):
    """Python has None there: `>&-` in a shell, and programs without a console on Windows."""
    monkeypatch.setattr(sys, closed, None)
    assert main(["compare", str(finished)]) == 0
    assert main(["compare", str(finished / "nothing")]) == 2
    getattr(sys, closed).close()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed, tmp_path):
    """A file of a run would also hold what C code prints."""
    code = "from vpo_lite.cli import main; main(['compare', 'x']); print(open('n', 'w').fileno(), "
    code += "file=open('number', 'w'))"
    line = f'exec "$0" -c "$1" {closed}'
    path = os.pathsep.join(sys.path)
    subprocess.run(
        ["sh", "-c", line, sys.executable, code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert int((tmp_path / "number").read_text()) > 2


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode there")
@pytest.mark.parametrize("command", ["export model RUN", "pretrain"])
def test_no_model_is_made_in_a_folder_whose_name_is_no_unicode(command, finished, tmp_path, capsys):
    command = command.replace("RUN", str(finished)).split()
    assert main([*command, "--out", f"{tmp_path}/out-\udcff"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(r"out-\udcff: its path is not UTF-8; choose another folder")
    assert list(tmp_path.iterdir()) == [finished]


def test_an_export_removes_what_a_killed_one_left_and_no_folder_of_a_user(finished, tmp_path):
    for folder in (".merged-a/other", ".merged-b/merged", ".merged-b/notes", ".other-c/merged"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".merged-d").touch()
    out, before = tmp_path / "merged", set(tmp_path.iterdir())
    with making(out) as made:  # a kill in here leaves what is copied
        (made / "model.safetensors").write_bytes(b"half a model")
        shutil.copytree(made.parent, made.parent.with_name(f"{made.parent.name[:-3]}xyz"))
    shutil.rmtree(out)
    assert set(tmp_path.iterdir()) > before
    assert main(["export", "model", str(finished), "--out", str(out)]) == 0
    assert set(tmp_path.iterdir()) == {*before, out}


def test_of_two_exports_into_one_folder_the_first_to_end_has_it(finished, tmp_path, capsys):
    out = tmp_path / "merged"
    with pytest.raises(ValueError, match=r"be written .*not empty"), making(out) as made:
        (made / "mine").touch()
        assert main(["export", "model", str(finished), "--out", str(out)]) == 0
        assert (made / "mine").exists()
        first = tree(out)
    assert tree(out) == first and "model.safetensors" in first
    assert set(tmp_path.iterdir()) == {finished, out}


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode there")
def test_a_page_shows_a_folder_whose_name_is_no_unicode(finished, tmp_path, capsys):
    """As every name with ü is where the locale is C: the message spoke of a codec."""
    odd = shutil.copytree(finished, tmp_path / os.fsdecode(b"runs-\xff"))
    page = tmp_path / "page.html"
    assert main(["compare", str(odd), "--html", str(page)]) == 0
    assert r"runs-\udcff" in page.read_text(encoding="utf-8")
