"""The commands of the README where a file in use cannot be replaced, as on Windows (windows/)."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from vpo_lite import messages
from vpo_lite.locks import lock_folder

HERE = Path(__file__).parent
EMULATED = HERE / "windows"

SMALL = "--maze-seed 1000 --group-size 4 --prompts 1 --save-every 1 --eval-answers 6"
SHAPE = "--width 32 --layers 1 --heads 2 --mlp 48"
COMMANDS = f"""\
train --method vpo --steps 2 --out runs/vpo {SMALL} --keep-texts 1
train --method grpo --steps 2 --out runs/grpo {SMALL} --eval-every 1
train --resume runs/vpo --steps 3
evaluate runs/vpo
compare runs/vpo runs/grpo --html report.html
compare runs/vpo runs/grpo --html report.html
report --task hops
export model runs/vpo --out merged
export lesson three_methods/seed-0 --out lesson.html
notebooks copy course
pretrain --out pocket --updates 2 --save-every 1 --batch 2 --workers 0 {SHAPE} --device cpu
train --model pocket --steps 1 --out runs/own {SMALL}
study two.toml --out results --workers 2
"""
STUDY = """
about = "two runs"
settings = {task = "programs", operations = 2, prompts = 2, group_size = 3, steps = 1}
lr = [1e-3]
seeds = 1
baseline = "grpo"
measured = {checkpoints = 1, problems = 2, between = 2, validation = 2, answers = 6}
[kinds.vpo]
label = "VPO"
settings = {method = "vpo"}
[kinds.grpo]
label = "GRPO"
settings = {method = "grpo"}
"""
SCRIPT = """
import sys
from vpo_lite.cli import main
for line in sys.stdin:
    if main(line.split()):
        sys.exit(line)
"""


def emulated(program: str, folder: Path, text: str = "") -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(EMULATED), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        input=text,
        env=os.environ | {"PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
    )


linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="it looks into /proc")


@linux
@pytest.mark.long
def test_the_commands_of_the_readme(tmp_path):
    (tmp_path / "two.toml").write_text(STUDY)
    done = emulated(SCRIPT, tmp_path, COMMANDS)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for run in ("vpo", "grpo", "own"):
        assert (tmp_path / "runs" / run / "summary.json").is_file()
        assert not (tmp_path / "runs" / run / ".lock").exists()
    assert len(list((tmp_path / "results").glob("*.json"))) == 2
    assert (tmp_path / "report.html").is_file()


@linux
@pytest.mark.long
def test_a_policy_is_saved_where_it_came_from_and_a_room_leaves_no_folder(tmp_path):
    program = """
import os
import vpo_lite as vpo
from vpo_lite.classroom.serve import own_folder
vpo.load_policy("pocket-6x6").save("mine")
vpo.load_policy("mine").save("mine")
with own_folder() as place:
    pass
assert not place.exists()
assert os.listdir() == ["mine"], os.listdir()
"""
    done = emulated(program, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@linux
@pytest.mark.parametrize(
    "work",
    [
        "os.replace('b', 'a')",
        "os.unlink('a')",
        "os.rename('folder', 'other')",
        "os.rename('empty', 'free')",
        "shutil.rmtree('folder')",
        "os.open('folder', os.O_RDONLY)",
        "os.mkdir('a:b')",
        "open('what?', 'w')",
        "Path('nul.txt').write_text('')",
        "os.symlink('a', 'c')",
    ],
)
def test_this_windows_refuses(tmp_path, work):
    for name in ("folder", "free", "empty"):
        (tmp_path / name).mkdir()
    for name in ("a", "b", "folder/c"):
        (tmp_path / name).write_text("content")
    program = f"""
import mmap, os, shutil
from pathlib import Path
file, other = open("a"), open("folder/c", "rb")
mapped = mmap.mmap(other.fileno(), 0, access=mmap.ACCESS_READ)
other.close()
try:
    {work}
except OSError as error:
    print(type(error).__name__)
file.close()
os.unlink("a")
Path("d").write_text("x\\n")
assert Path("d").read_bytes() == b"x\\r\\n"
"""
    done = emulated(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("PermissionError", "OSError")


def test_a_lock_in_use_is_removed_once_it_is_free(tmp_path, monkeypatch):
    """Windows does not remove an open file; there another writer may come between."""
    lock, plain = lock_folder(tmp_path), Path.unlink

    def unlink(path, **how):
        if lock._lock.is_locked:
            raise PermissionError
        plain(path, **how)

    monkeypatch.setattr(Path, "unlink", unlink)
    lock.release(remove=True)
    assert not list(tmp_path.iterdir())


def test_a_command_is_quoted_as_the_shell_of_the_system_reads_it(monkeypatch):
    path = r"my runs\a"
    assert shlex.split(messages.command("train", "--resume", path))[-1] == path
    monkeypatch.setattr(messages, "WINDOWS", True)
    assert messages.command("train", "--resume", path) == r'vpo-lite train --resume "my runs\a"'
    assert messages.command("train", "--resume", r"runs\a") == r"vpo-lite train --resume runs\a"
