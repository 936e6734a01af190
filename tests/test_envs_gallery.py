"""`python -m envs`: what it prints and writes, and that a wrong request changes nothing."""

import errno
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from unittest import mock

import pytest

import envs
from envs.__main__ import main

ROOT = Path(__file__).parents[1]


def test_prints_the_maze_its_front_and_writes_the_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--preset", "paper-9x9", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    maze = envs.generate("paper-9x9", 3)
    front = maze.pareto_front()
    assert "paper-9x9-3: budget 25 moves, 4 gold, 5 diamonds, 5 lava" in printed
    assert (
        envs.drawing.ansi(maze, colour=False) in printed
        and str(front) in printed
        and str(maze.describe()) in printed
    )
    assert (tmp_path / "paper-9x9-3.svg").read_text() == envs.drawing.svg(maze, front.routes)
    ET.parse(tmp_path / "paper-9x9-3.svg")
    assert main(["--preset", "tiny-4x4"]) == 0
    assert " moves, 1 gold, 1 diamond, 1 lava" in capsys.readouterr().out


def test_front_table():
    front = envs.PROBES["gold_or_diamond"].pareto_front()
    assert str(front).splitlines() == [
        "completion        gold     diamond  avoid_lava  route",
        "      1.00        1.00        0.00        1.00  RRDD",
        "      1.00        0.00        1.00        1.00  DDRR",
    ]


def test_a_name_that_the_terminal_cannot_write_fails_nothing(tmp_path):
    (tmp_path / "höhle.txt").write_text("S E")
    command = [sys.executable, "-m", "envs", "--maze", "höhle.txt"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith(b"h\\xf6hle: budget")
    assert (tmp_path / "höhle.svg").exists()


def test_a_drawn_maze(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("S . G\n. # .\nD . E\n")
    out = tmp_path / "picture.svg"
    assert main(["--maze", str(tmp_path / "mine.txt"), "--budget", "4", "--out", str(out)]) == 0
    assert "RRDD" in capsys.readouterr().out and out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "huge"], "preset: got 'huge', expected a Layout or one of tiny-4x4"),
        (["--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["--seed", "-1"], "seed: got -1"),
        (["--sed", "1"], "unrecognized arguments: --sed 1"),
        (["--budget", "9"], "--budget: needs --maze FILE; a preset sets its own budget"),
        (["--preset", ""], "preset: got ''"),
        (
            ["--maze", "good.txt", "--seed", "0"],
            "--seed: leave it out, since --maze FILE gives the maze itself",
        ),
        (
            ["--maze", "good.txt", "--preset", "huge"],
            "--preset: leave it out, since --maze FILE gives",
        ),
        (["--maze", "good.txt"], "--out: good.svg: exists, and is not a picture by envs"),
        (["--out", "no/such.svg"], "--out: no/such.svg: there is no folder no; make it first"),
        (["--out", "bytes.svg"], "--out: bytes.svg: exists, and is not a picture by envs"),
        (["--reward-mode", "x"], "reward_mode: got 'x'"),
        (["--maze", "nowhere.txt"], "--maze: cannot read nowhere.txt: No such file or directory"),
        (["--maze", "."], "--maze: cannot read .: Is a directory"),
        (["--maze", "wrong.txt"], "text: a maze needs exactly one S (start), this one has 2"),
        (["--maze", "bytes.txt"], "--maze: cannot read bytes.txt: 'utf-8' codec can't decode"),
    ],
)
def test_wrong_requests_exit_with_two_and_one_line(
    tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.txt").write_text("S S E")
    (tmp_path / "bytes.txt").write_bytes(b"S\xff E")
    (tmp_path / "bytes.svg").write_bytes(b"S\xff E")
    (tmp_path / "good.txt").write_text("S G E")
    (tmp_path / "good.svg").write_text("<svg>mine</svg>")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert (
        captured.out == ""
        and captured.err.startswith(f"envs: {message}")
        and captured.err.count("\n") == 1
    )
    made = ["bytes.svg", "bytes.txt", "good.svg", "good.txt", "wrong.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == made
    assert (tmp_path / "good.svg").read_text() == "<svg>mine</svg>"


def test_a_picture_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("envs.__main__._write", mock.Mock(side_effect=OSError(28, "No space left")))
    assert main(["--out", str(tmp_path / "such.svg")]) == 1
    assert "such.svg: No space left" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "status", "said"),
    [
        (">/dev/full", 1, "envs: the output cannot be written: No space left on device\n"),
        (">&-", 0, ""),  # closed: the picture is what was asked for
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_output_that_goes_nowhere(to, status, said, tmp_path):
    """Both were tracebacks."""
    line = f"{shlex.quote(sys.executable)} -m envs --out a.svg {to}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (status, said)
    assert status or (tmp_path / "a.svg").exists()


def test_a_picture_does_not_take_the_place_of_its_maze(tmp_path, capsys):
    (drawn := tmp_path / "mine.txt").write_text("S . E")
    assert main(["--maze", str(drawn), "--out", str(drawn)]) == 2
    assert "mine.txt: the picture is SVG; name it FILE.svg" in capsys.readouterr().err
    assert drawn.read_text() == "S . E"
    assert main(["--maze", str(drawn), "--out", str(tmp_path / "mine.SVG")]) == 0


def on_a_full_disk(path, text, encoding):
    path.write_bytes(text.encode(encoding)[:1024])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_picture_takes_the_place_of_an_earlier_one_as_a_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--seed", "1", "--out", "a.svg"]) == main(["--seed", "2", "--out", "b.svg"]) == 0
    first = Path("a.svg").read_text()
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", on_a_full_disk)
        assert main(["--seed", "2", "--out", "a.svg"]) == 1
    assert "--out: cannot write a.svg: No space left on device" in capsys.readouterr().err
    assert Path("a.svg").read_text() == first and len(os.listdir()) == 2
    assert main(["--seed", "2", "--out", "a.svg"]) == 0
    assert Path("a.svg").read_text() == Path("b.svg").read_text() != first


@pytest.mark.skipif(os.name != "posix", reason="POSIX links and rights")
def test_a_link_stays_a_link_and_a_picture_keeps_its_rights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkdir("there")
    assert main(["--out", "there/a.svg"]) == 0
    os.chmod("there/a.svg", 0o600)
    os.symlink("there/a.svg", "link.svg")
    assert main(["--seed", "2", "--out", "link.svg"]) == 0
    assert os.path.islink("link.svg") and os.stat("there/a.svg").st_mode & 0o777 == 0o600
    assert "lite-6x6-2" in capsys.readouterr().out and len(os.listdir("there")) == 1
    os.mkfifo("pipe.svg")  # nothing is waited for
    os.mkdir("folder.svg")
    for name in ("pipe.svg", "folder.svg"):
        assert main(["--out", name]) == 2
    refused = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("builtins.open", refused)  # a file of another user, which may be anything
    assert main(["--out", "there/a.svg"]) == 2


@pytest.mark.skipif(os.name != "posix", reason="POSIX pipes")
def test_a_reader_that_goes_away_is_no_fault(tmp_path):
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -u -m envs | head -1",
        shell=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("\n") == 1 and done.stderr == ""


@pytest.mark.slow
def test_it_is_a_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "envs", "--preset", "none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.startswith("envs: preset: got 'none'")
