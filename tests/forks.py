"""Processes for a test that need not load TRL anew: each is a fork of one that has loaded it.

`ended` runs commands side by side. Each is what would stand behind `python`, from -c or -m on.
"""

import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 300  # seconds of a process


@functools.cache
def loaded() -> tuple[subprocess.Popen, int]:
    """The process that has loaded TRL, and its stderr, a file. It ends with this process."""
    with tempfile.TemporaryFile() as file:
        noise = os.dup(file.fileno())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": noise, "text": True}
    return subprocess.Popen([sys.executable, __file__], **pipes), noise


def ended(commands: list[list[str]], environments: list[dict]) -> list[tuple[int, list[str]]]:
    """Run the commands at once; returns the status and the lines on stderr of each."""
    process, noise = loaded()
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, str(i))) for i in range(len(commands))]
        asked = [
            (c, os.environ | e, f) for c, e, f in zip(commands, environments, files, strict=True)
        ]
        print(json.dumps(asked), file=process.stdin, flush=True)
        statuses = json.loads(process.stdout.readline() or "[]")
        assert os.pread(noise, 5000, 0) == b""
        said = [Path(file).read_text().splitlines() for file in files]
    return list(zip(statuses, said, strict=True))


def asked_here():
    """In each fork what it shall run; never returns in the process that forks."""
    for line in sys.stdin:
        children = []
        for command in json.loads(line):
            children.append(os.fork())
            if not children[-1]:
                return command
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        print(json.dumps(statuses), flush=True)
    sys.exit()


def main():
    if sys.platform == "linux":  # elsewhere libraries may not be used after a fork
        import vpo_lite.integrations.trl_run  # noqa: F401

        assert len(os.listdir("/proc/self/task")) == 1, "a fork would lose the other threads"
        gc.freeze()  # a collection would copy every page to the fork
    (kind, what, *arguments), environment, file = asked_here()
    signal.alarm(LIMIT)
    for number, path in enumerate((os.devnull, os.devnull, file)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    if sys.platform != "linux":
        os.execve(sys.executable, [sys.executable, kind, what, *arguments], environment)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:1] = [os.getcwd(), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.argv = [kind, *arguments]
    if kind == "-m":
        return runpy.run_module(what, run_name="__main__", alter_sys=True)
    exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
