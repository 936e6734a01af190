"""Runs answers in Python, each in a process of its own that is kept from doing harm.

Every run of an answer is a fresh process. It has limits on time, memory, processes, open files and
output. Of the environment it gets only what the interpreter needs, and three streams: a file to
read from, a file to write to, ``/dev/null``. What it wrote is judged by the caller, outside; what
was expected of it never enters. So an answer has nothing to forge: whatever it does, it is right
only by writing what is right. ``inside.py`` is the part that stands inside.

How far this protects depends on the system. The first means that works is taken. Each process that
scores tests it once, before its first answer: an answer of our own tries what is forbidden.

| system | means | other files | network | ends all it started | processes |
|---|---|---|---|---|---|
| Linux with bubblewrap 0.8 or later, not as root | ``bwrap`` | unseen | none | yes | limited |
| Linux with namespaces for users, or as root | ``unshare`` | unseen | none | yes | limited |
| Linux without either, macOS, Windows | none: refused | | | | |

- Unseen: an answer sees Python's library, with what is installed into that, and the system's
  libraries. It reads nothing else and writes nowhere: files of the user, the repository and the
  records do not exist for it. Keys of the session (Kerberos, for one) are out of its reach.
- Not stopped: flaws of the kernel, as system calls are not filtered; the use of a core until the
  time limit; memory up to the limit in each of the processes that an answer may start; memory of
  System V beyond that limit with bubblewrap, and where ``/proc/sys`` cannot be written (a user on
  an older kernel, some containers).
- As root, an answer runs as a user that has no name. Elsewhere it has the user's own number, but no
  rights beyond it.
- Where namespaces for users share their count with the machine (Linux before 5.14), an answer may
  start no process or thread of its own.

Where no means works, answers are refused, unless VPO_LITE_UNSAFE_CODE is 1 in the environment. No
setting can say so: settings come with share codes and runs of others. What is then stopped: endless
loops, on Linux and macOS also more open files and larger output than allowed, on Linux more
memory. What is not: reading and changing the user's files, the network, a swarm of processes, and
processes that outlive the answer by leaving its session.

A run takes about 40 ms of a core beside the answer's own time.

Docker's default settings, and Ubuntu 24.04 for programs without a profile, forbid namespaces.
"""

import functools
import json
import marshal
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from ..base import TaskError
from . import inside
from .means import INSIDE, OPEN, SEED, Means, bubblewrap, namespaces, places

PERMISSION = "VPO_LITE_UNSAFE_CODE"  # in the environment: 1 runs answers without a sandbox
PROCESSES = 16  # of one answer, with its threads and the sandbox's own two
FILES = 64  # open at a time
MOST_OUTPUT = 2**18  # bytes
STARTING = 60  # seconds that a sandbox may take to start and to end, on a busy machine
USERS = range(61184, 65520)  # numbers without a name, by a convention of Linux


class RefusedError(TaskError):
    """This machine offers no sandbox, and answers may not run without one."""


@dataclass(frozen=True)
class Job:
    """One run of an answer.

    - code: the answer
    - given: what it reads from standard input; for a call, its arguments as one JSON text a line
    - call: the function to call; None: the answer is a program
    - harness: "python", or "release": see :class:`vpo_lite.tasks.program_records.ProgramRecords`
    """

    code: str
    given: str
    call: str | None = None
    harness: str = "python"


class Limits(NamedTuple):
    """Limits of one run: seconds of time, bytes of memory of each of its processes."""

    seconds: float = 6
    memory: int = 2**30


LIMITS = Limits()


class Outcome(NamedTuple):
    """What became of a run.

    - output: what a program wrote, or the JSON text of what a function returned; None where it
      failed, was too slow or wrote too much
    - why: in this case "failed", "too slow" or "too much output"
    """

    output: bytes | None
    why: str = ""


def run(jobs: Sequence[Job], limits: Limits = LIMITS) -> list[Outcome]:
    """Run answers, as many at a time as there are cores, also where several threads ask, and say
    what became of each.

    Raises RefusedError where this machine offers no sandbox and nobody permitted to do without, and
    TaskError where the sandbox itself fails.

    >>> [print_it, add] = run([Job("print(input()[::-1])", "abc"), Job("f = max", "3\\n5", "f")])
    >>> print_it.output, add.output
    (b'cba\\n', b'5')
    """
    means = required()

    def one(job: Job) -> Outcome:
        with _room():
            return execute(means, job, limits)

    pool = ThreadPoolExecutor(max(1, min(cores(), len(jobs))))
    try:
        return list(pool.map(one, jobs))
    finally:
        pool.shutdown(cancel_futures=True)


@functools.cache
def _room() -> threading.Semaphore:
    """As many answers as there are cores. Of more, each would take longer by the clock, which its
    time limit goes by.
    """
    return threading.Semaphore(cores())


def cores() -> int:
    """How many cores this process may use."""
    ours = getattr(os, "sched_getaffinity", None)
    return len(ours(0)) if ours else os.cpu_count() or 1


def required() -> Means:
    """The means by which answers run. Raises RefusedError where there is none and it is needed."""
    means, reasons = protection()
    if means is None and not _permitted():
        raise RefusedError(
            "answers in Python run only in a sandbox, and this machine offers none "
            f"({'; '.join(reasons)}). Cure: on Linux install bubblewrap, or allow namespaces for "
            "users; or, where the answers may read and change all your files and use the network: "
            f"set {PERMISSION}=1 in the environment"
        )
    return means or OPEN


def _permitted() -> bool:
    return os.environ.get(PERMISSION) == "1"


def described() -> str:
    """What this machine's sandbox stops and what it does not, in one line."""
    means, reasons = protection()
    if means is None:
        so = "run unprotected, by" if _permitted() else "refused without"
        return f"none ({'; '.join(reasons)}); {so} {PERMISSION}=1"
    return (
        f"{means.name}; stops other files, the network, and processes that stay; limits time, "
        "memory, processes, open files, output; does not stop flaws of the kernel"
    )


# --- means ----------------------------------------------------------------------------------------


@functools.cache
def protection() -> tuple[Means | None, tuple[str, ...]]:
    """The first means that stops what it must, and why those before it were not taken."""
    reasons = []
    for find in (bubblewrap, namespaces):
        try:
            means = find()
            why = means if isinstance(means, str) else shortfall(means)
        except (OSError, TaskError) as error:
            why = str(error)
        if not why:
            return means, tuple(reasons)
        reasons.append(f"{find.__name__}: {why}")
    return None, tuple(reasons)


TRIES = """
import os, socket

def tries(secret, port):
    done = []
    folder, name = os.path.dirname(secret), os.path.basename(secret) + "-x"
    if os.path.exists(secret):
        done.append("saw a file")
    for place in (folder, "/", "/tmp", "/dev"):
        try:
            os.mkdir(place + "/" + name)
            os.rmdir(place + "/" + name)
            done.append("wrote into " + place)
        except OSError:
            pass
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        done.append("reached the network")
    except OSError:
        pass
    try:
        os.chroot("/")
        done.append("kept rights")
    except OSError:
        pass
    if os.getppid() != 1:
        done.append("ran among other processes")
    return done
"""


def shortfall(means: Means) -> str:
    """What an answer can do that it must not; empty where all is well.

    Raises TaskError where the sandbox fails.
    """
    with (
        tempfile.NamedTemporaryFile() as secret,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        known = [secret.name, server.getsockname()[1]]
        job = Job(TRIES, "\n".join(map(json.dumps, known)), "tries")
        outcome = execute(means, job, LIMITS)
    if outcome.output is None:
        return f"an answer in it {outcome.why}"
    done = json.loads(outcome.output)
    return f"an answer in it {', '.join(done)}" if done else ""


# --- one run --------------------------------------------------------------------------------------


def execute(means: Means, job: Job, limits: Limits) -> Outcome:
    """Run one answer by a means. Raises TaskError where the sandbox itself fails."""
    given = job.given.encode(errors="surrogatepass")
    request = {
        "shut": means.shut,
        "user": _user() if means.user else None,
        "seconds": limits.seconds,
        "memory": limits.memory,
        "processes": PROCESSES,
        "files": FILES,
        "output": MOST_OUTPUT,
        "code": job.code,
        "call": job.call,
        "arguments": job.given,
        "harness": job.harness,
    }
    if means.shut == "here":
        request |= {"places": places(), "stage": means.stage}
    head = marshal.dumps(request)
    known = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    script = "/inside.py" if means.shut == "done" else str(INSIDE)
    python = [os.path.realpath(sys.executable), *ALONE, "-X", "utf8", script]
    with _scratch() as told, _scratch() as written, _scratch() as complaints:
        told.write(b"%016d" % len(head) + head + given)
        told.seek(0)
        process = subprocess.Popen(
            [*means.command, *python],
            stdin=told,
            stdout=written,
            stderr=complaints,
            cwd=os.path.abspath(os.sep),
            env=known | {"PYTHONHASHSEED": SEED},
            start_new_session=True,  # Ctrl-C does not reach it
        )
        late = _wait(process, limits.seconds if means is OPEN else limits.seconds + STARTING)
        written.seek(0)
        output = written.read(MOST_OUTPUT)
        status = process.returncode
        ends = (inside.DONE, inside.FAILED, inside.LATE, *_KILLED)
        if means is not OPEN and (late or status not in ends):
            complaints.seek(0)
            said = complaints.read(10_000).decode(errors="replace").strip().split("\n")[-1]
            raise TaskError(f"the sandbox failed ({said or ('no end' if late else status)})")
    if late or status == inside.LATE:
        return Outcome(None, "too slow")
    if len(output) == MOST_OUTPUT:
        return Outcome(None, "too much output")
    return Outcome(output) if status == inside.DONE else Outcome(None, "failed")


_KILLED = (-9, 128 + 9)  # by the system, when it was short of memory
_NEEDED = ("LD_LIBRARY_PATH", "SystemRoot")  # some interpreters do not start without them
ALONE = ("-P", "-s", "-S", "-B")  # -I would be deaf to the seed of hashes, too


def _scratch():
    """A file without a name: in memory where the system has that, and removed when closed."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("sandbox"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _user() -> int:
    return USERS[int.from_bytes(os.urandom(4)) % len(USERS)]


def _wait(process: subprocess.Popen, seconds: float) -> bool:
    """Wait for a process's end, or end its session after so long; returns whether that was done."""
    late = threading.Event()

    def end():
        late.set()
        _kill(process)

    guard = threading.Timer(seconds, end)
    guard.start()
    try:
        process.wait()
    finally:
        guard.cancel()
        _kill(process)
    return late.is_set()


def _kill(process: subprocess.Popen) -> None:
    """End the session of a process, and with it what an answer without a sandbox has left."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError:
        pass  # it has ended
