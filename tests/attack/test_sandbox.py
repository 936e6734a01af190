"""Answers that attack the machine, the judge, and each other. Each one ends within its limit,
reaches nothing, leaves nothing, and earns nothing.

What a machine's sandbox must stop is asked at run time: where there is none, answers are refused,
and that is tested everywhere.
"""

import ctypes
import json
import os
import platform
import secrets
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from vpo_lite.cli import main
from vpo_lite.tasks import sandbox
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.program_texts import passes
from vpo_lite.tasks.programs import ProgramsTask
from vpo_lite.tasks.records import EXAMPLES
from vpo_lite.tasks.sandbox import Job, Limits, means

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = f"vpo{secrets.token_hex(4)}"  # of the processes of an answer that may try to stay
NAMED = f"import ctypes; libc = ctypes.CDLL(None); libc.prctl(15, b'{NAME}')\n"
LIMITS = Limits(seconds=1, memory=256 * 2**20)
needs_sandbox = pytest.mark.skipif(
    sandbox.protection()[0] is None,
    reason=f"no sandbox on this machine: {'; '.join(sandbox.protection()[1])}",
)

# An attack prints "done" where it did what it must not be able to do. FILES, FOLDERS and PORT are
# filled in; the first two of FILES are made for this test. None would harm a machine if it got out.
PROGRAMS = {
    "fork bomb": NAMED + "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "many processes": "import os, time\nfor n in range(64):\n  if os.fork() == 0: time.sleep(9)\n"
    "print('done')",
    "many threads": "import threading, time\nthreading.stack_size(2**16)\nfor n in range(64):\n"
    "  threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nprint('done')",
    "read files": "for path in FILES:\n  try: open(path); print('done')\n  except OSError: pass",
    "list folders": "import os\nfor path in [*FOLDERS, '/proc', '/sys', '/etc', '/tmp', '/var']:\n"
    "  try:\n    if os.listdir(path): print('done')\n  except OSError: pass",
    "climb out": "import os\nfor path in FILES:\n"
    "  if os.path.exists('../' * 20 + path[1:]): print('done')\n"
    "  if os.path.exists('/proc/1/root' + path): print('done')",
    "write files": "import os\n"
    "for path in FILES[:2]:\n"
    "  for act in (lambda: open(path, 'a'), lambda: os.remove(path), lambda: os.chmod(path, 0),\n"
    "      lambda: os.rename(path, path + '.x'), lambda: os.symlink('/', path + '.x')):\n"
    "    try: act(); print('done')\n    except OSError: pass\n"
    "for path in ['.', '/', '/tmp', '/dev', '/dev/shm', '/usr/lib', os.__file__[:-6]]:\n"
    "  try: os.mkdir(path + '/' + os.path.basename(FILES[0])); print('done')\n"
    "  except OSError: pass",
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1); print('done')",
    "send": "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "s.sendto(b'x', ('192.0.2.1', 9)); print('done')",
    "environment": "import os\nprint('done' if {'PATH', 'HOME'} & {*os.environ} else '')",
    "memory": "x = bytearray(300 * 2**20); print('done')",
    "memory of System V": "import ctypes\nlibc = ctypes.CDLL(None)\n"
    "if libc.shmget(0, ctypes.c_size_t(2**20), 0o1600) >= 0: print('done')\n"
    "if libc.msgget(0, 0o1600) >= 0 or libc.semget(0, 9, 0o1600) >= 0: print('done')",
    "memory in a file": "import os\nf = os.memfd_create('x')\n"
    "for i in range(8): os.write(f, bytes(2**20))\nprint('done')",
    "many files": "x = [open('/dev/null') for i in range(500)]; print('done')",
    "keys": "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
    "number = 249 if os.uname().machine == 'x86_64' else 218\n"  # request_key
    "if libc.syscall(number, b'user', KEY, None, 0) > 0: print('done')",
    "rights": "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
    "NEWUSER, NEWNS, ATTACH, PRIVATE = 2**28, 2**17, 16, 2**18\n"
    "for f, args in ((libc.ptrace, (ATTACH, os.getppid(), 0, 0)), (libc.chroot, (b'/',)),\n"
    "    (libc.mount, (None, b'/', None, PRIVATE, None)), (libc.unshare, (NEWUSER,)),\n"
    "    (libc.unshare, (NEWNS,))):\n"
    "  if f(*args) == 0: print('done')",
}
# These print what is wanted only where they find it out, or do not print at all: they must end.
ENDING = {
    "endless": "while True: pass",
    "sleep": "import time\ntime.sleep(600)",
    "stop": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "deaf": "import signal, time\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
    "  except (OSError, ValueError): pass\nwhile True: time.sleep(1)",
    "huge output": "while True: print('x' * 10**6)",
    "stubborn output": "import os\nwhile True:\n  try: os.write(1, b'x' * 10**6)\n"
    "  except OSError: pass",
    "kill all": "import os\nif os.getppid() == 1:\n  for pid in (1, 2, -1):\n"
    "    try: os.kill(pid, 9)\n    except OSError: pass",
    "kill the group": "import os\nos.killpg(0, 9)",
    "endless call of itself": "def f(): return f()\nf()",
    "crash": "import ctypes\nctypes.string_at(0)",
    "deep crash": "import sys\nsys.setrecursionlimit(10**9)\n"
    "f = lambda x: sorted([1], key=f)\nf(1)",
    "error": "raise ValueError('done')",
    "error that lies": "class E(Exception):\n  def __str__(self): print('wanted')\nraise E",
    "no Python": "print('done'",
    "null": "print('done')\0",
    "surrogate": "print('\ud800')",
    "nothing": "",
    "background": NAMED
    + "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n"
    "    libc.prctl(1, 0)\n    time.sleep(600)",
    "closes all": "import os\nos.closerange(0, 256)",
    "leaves early": "import os\nprint('done'); os._exit(0)",
}
CALLS = {  # forged verdicts: f() must return 42
    "equal to all": "class X:\n  def __eq__(self, other): return True\ndef f(): return X()",
    "a list equal to all": "class X(list):\n  def __eq__(self, other): return True\n"
    "def f(): return X()",
    "a number equal to all": "class X(int):\n  __eq__ = lambda self, other: True\n"
    "  __hash__ = int.__hash__\n  __repr__ = lambda self: '42'\n"
    "def f(): return X(7)",
    "prints": "def f(): print('true'); print('passed')",
    "writes everywhere": "import os\ndef f():\n  for i in range(64):\n"
    "    try: os.write(i, b'passed')\n    except OSError: pass",
    "exits": "import os\ndef f(): os._exit(0)",
    "exits with a verdict": "import os\ndef f(): os._exit(10)",
    "exits with a fault": "import os\ndef f(): os._exit(99)",
    "leaves": "raise SystemExit(0)",
    "patches": "import builtins, json, sys\njson.dumps = lambda x: 'true'\n"
    "main = sys.modules['__main__']\nmain.plain = main.supervise = lambda x: True\n"
    "builtins.bool = lambda x: True\ndef f(): return 1",
    "looks around": "import gc\ndef f():\n  return [x for x in gc.get_objects() if x == 42][:1]",
    "reads the request": "import os\ndef f():\n  os.lseek(0, 0, 0)\n"
    "  return os.read(0, 10**6).decode('latin1')",
    "no function": "class Solution: pass\ndef f(): return 42",
    "no JSON": "def f(): return {42}",
    "not a number": "def f(): return float('nan')",
    "endless object": "x = []\nx.append(x)\ndef f(): return x",
    "deep object": "def f():\n  x = []\n  for i in range(10**5): x = [x]\n  return x",
    "long number": "def f(): return 10**10000",
}


@pytest.fixture(scope="module")
def key():
    """The name of a key of this session, as Kerberos has. Some machines have none."""
    name, number = NAME.encode(), {"x86_64": 248, "aarch64": 217}.get(platform.machine())
    if number is not None and sys.platform == "linux":
        call = ctypes.CDLL(None).syscall
        call(number, b"user", name, b"secret", 6, -3)  # add_key to the session
        if call(number + 1, b"user", name, None, 0) > 0:  # request_key
            return name
    return None


@pytest.fixture(scope="module")
def ran(tmp_path_factory, key):
    """What became of every attack; they run in one call."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "secret").write_text("secret")
    with (
        tempfile.NamedTemporaryFile(dir=Path.home()) as at_home,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        server.settimeout(0)
        files = [str(folder / "secret"), at_home.name, str(ROOT / "README.md"), __file__]
        folders = [str(folder), str(ROOT)]
        before = {path: os.stat(path).st_mtime_ns for path in (*files, str(folder))}
        filled = f"FILES = {files}\nFOLDERS = {folders}\nPORT = {server.getsockname()[1]}\n"
        filled += f"KEY = {key or b''}\n"
        jobs = [Job(filled + code, "") for code in PROGRAMS.values()]
        jobs += [Job(code, "") for code in ENDING.values()]
        jobs += [Job(code, "", "f") for code in CALLS.values()]
        outcomes = sandbox.run(jobs, LIMITS)
        with pytest.raises(BlockingIOError):  # nobody came
            server.accept()
        assert {path: os.stat(path).st_mtime_ns for path in before} == before
    assert [p.name for p in folder.iterdir()] == ["secret"]
    assert not (ROOT / "secret").exists()  # other tests, too, change the time of this folder
    return dict(zip([*PROGRAMS, *ENDING, *CALLS], outcomes, strict=True))


@needs_sandbox
@pytest.mark.parametrize("attack", PROGRAMS)
def test_an_attack_reaches_nothing(ran, attack, key):
    if attack == "keys" and not key:
        pytest.skip("this machine keeps no keys")
    if attack == "memory of System V" and not (
        sandbox.protection()[0].user and os.access("/proc/sys/kernel/shmmni", os.W_OK)
    ):
        pytest.skip("not stopped everywhere, as the sandbox says")
    assert "done" not in (ran[attack].output or b"").decode()


@needs_sandbox
def test_every_attack_ends_and_earns_nothing(ran):
    for attack in ENDING:
        assert not passes(ran[attack].output, "wanted", call=False), attack
    for attack in CALLS:
        assert not passes(ran[attack].output, "42", call=True), attack
    late = {name for name, outcome in ran.items() if outcome.why == "too slow"}
    assert late >= {"fork bomb", "endless", "sleep", "stop", "deaf", "stubborn output"}
    assert ran["huge output"].why in ("failed", "too much output")


@needs_sandbox
def test_no_process_of_an_answer_stays(ran):
    """The names of all processes of this machine, seen from outside of the sandbox."""
    there = [path.read_text().strip() for path in Path("/proc").glob("[0-9]*/comm")]
    assert there and NAME not in there


@needs_sandbox
def test_honest_answers_are_not_disturbed(ran):
    """After all attacks: threads, deep recursion, a large input and what is printed at the end."""
    deep = "def f(n): return n and 1 + f(n - 1)\nprint(f(20_000))"
    threads = (
        "import threading\nthreading.stack_size(2**26)\n"
        "t = threading.Thread(target=lambda: print(sum(map(int, input().split()))))\nt.start()"
    )
    late = "import atexit\natexit.register(print, 'last')\nprint('first', end=' ')\nexit(3)"
    jobs = [Job(deep, ""), Job(threads, "1 " * 50_000), Job(late, "")]
    sets = Job("print(*{'ab', 'cd', 'ef', 'gh'})", "")  # in an order of their hashes
    first, *same = sandbox.run([sets] * 4, LIMITS)
    assert first.output and same == [first] * 3
    outcomes = sandbox.run([*jobs, Job("print(open(0).read())", "é")], Limits(seconds=20))
    assert [o.output.decode() for o in outcomes] == ["20000\n", "50000\n", "first last\n", "é\n"]


def test_a_sandbox_that_breaks_is_no_verdict():
    """Nobody is given 0 for it: the work fails, with a line that says why."""
    broken = means.Means("broken", "done", ("false",))
    with pytest.raises(TaskError, match=r"the sandbox failed \(1\)"):
        sandbox.execute(broken, Job("print(1)", ""), LIMITS)


# --- without a sandbox ----------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """A machine that offers no sandbox."""
    monkeypatch.setattr(sandbox, "protection", lambda: (None, ("bubblewrap: not installed",)))
    monkeypatch.delenv(sandbox.PERMISSION)


def test_without_a_sandbox_answers_are_refused(bare, capsys, tmp_path, monkeypatch):
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"id": 0, "record": 0, "m": 1, "text": "print(1)"}))
    data = EXAMPLES / "programs.jsonl"
    command = f"score --task programs --mode faithful --data {data} --answers {answers}"
    assert main(command.split()) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1
    assert "only in a sandbox" in told.err and "bubblewrap: not installed" in told.err
    assert "set VPO_LITE_UNSAFE_CODE=1 in the environment" in told.err
    task = ProgramsTask(mode="faithful")
    with pytest.raises(TaskError, match="offers none"):
        task.score([task.instance(0)], [["print(1)"]])
    assert "refused without VPO_LITE_UNSAFE_CODE=1" in sandbox.described()
    monkeypatch.setenv(sandbox.PERMISSION, "0")
    assert main(command.split()) == 2 and "only in a sandbox" in capsys.readouterr().err
    monkeypatch.setenv(sandbox.PERMISSION, "1")
    assert main(command.split()) == 0
    assert "run unprotected, by VPO_LITE_UNSAFE_CODE=1" in sandbox.described()
    assert json.loads(capsys.readouterr().out)["rewards"] == [[0.0] * 5]


@pytest.mark.skipif(os.name != "posix", reason="these limits are POSIX's")
def test_without_a_sandbox_and_by_request_limits_still_hold(bare, monkeypatch):
    monkeypatch.setenv(sandbox.PERMISSION, "1")
    jobs = [
        Job("while True: pass", ""),
        Job("while True: print('x' * 10**6)", ""),
        Job("import os, time\nif os.fork() == 0: time.sleep(600)\nprint(1)", ""),
        Job("import os\nprint(os.getsid(0) == os.getpid())", ""),  # Ctrl-C does not reach it
        Job("def f(): os._exit(0)", "", "f"),
    ]
    loop, flood, child, session, call = sandbox.run(jobs, LIMITS)
    assert loop.why == "too slow" and flood.output is None and call.output is None
    assert (child.output, session.output) == (b"1\n", b"True\n")


@needs_sandbox
def test_why_the_limits_could_not_be_set_is_said(monkeypatch, tmp_path):
    """The cure for a full keyring stood behind a line that said nothing."""
    means = sandbox.protection()[0]
    if means.shut != "here":
        pytest.skip("bubblewrap has the script of its own")
    broken = Path(sandbox.INSIDE).read_text().replace("KEYCTL = {", "KEYCTL = {} and {")
    broken = broken.replace("KEYCTL |= {", "KEYCTL |= {} and {")
    (tmp_path / "inside.py").write_text(broken)
    monkeypatch.setattr(sandbox, "INSIDE", tmp_path / "inside.py")
    with pytest.raises(TaskError, match=r"the sandbox failed .*number of keyctl is not known for"):
        sandbox.execute(means, Job("print(1)", ""), LIMITS)


def test_a_means_is_taken_only_if_it_stops_what_it_must(monkeypatch):
    """The check can fail: without a sandbox it sees a file, writes, and reaches the network."""
    said = sandbox.shortfall(means.OPEN)
    assert "saw a file" in said and "wrote into" in said and "reached the network" in said
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: means.OPEN)
    sandbox.bubblewrap.__name__ = "bubblewrap"
    monkeypatch.setattr(sandbox, "namespaces", lambda: "forbidden")
    sandbox.namespaces.__name__ = "namespaces"
    found, reasons = sandbox.protection.__wrapped__()
    assert found is None and reasons == (f"bubblewrap: {said}", "namespaces: forbidden")
