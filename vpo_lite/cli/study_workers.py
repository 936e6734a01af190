"""``vpo-lite study --workers``: several processes share the runs of one study. A run goes to the
process that locks it first.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

from .flags import bars, note

WORKER = "VPO_LITE_STUDY_WORKER"  # in the environment of a worker


def is_one() -> bool:
    """Whether this process is such a worker."""
    return WORKER in os.environ


def share(arguments: list[str], many: int, *, runs: int | None, done: Callable[[], int]) -> int:
    """Run ``vpo-lite ARGUMENTS`` in so many processes. Returns 1 where one of them failed, after
    printing why; what they print of their runs goes to stdout.

    - runs: what the progress bar counts to; None for no bar
    - done(): how many of them are done by now
    """
    # With -m Python would look into the current folder first: another checkout may lie there.
    main = "from vpo_lite.cli import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {main}"]
    how = dict(stdin=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1", WORKER: "1"})
    hidden = runs is None or not sys.stderr.isatty()
    with contextlib.ExitStack() as open_ones:
        logs = [
            open_ones.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            for _ in range(many)
        ]
        workers = [subprocess.Popen([*command, *arguments], stderr=log, **how) for log in logs]
        try:
            bar = open_ones.enter_context(bars()(total=runs, unit="run", disable=hidden))
            while any(worker.poll() is None for worker in workers):
                time.sleep(0.2)
                if not hidden:
                    bar.n = min(runs, done())
                    bar.refresh()
        finally:
            for worker in workers:  # after Ctrl-C
                worker.terminate()
                worker.wait()
                worker.stdin.close()
        errors = []
        for worker, log in zip(workers, logs, strict=True):
            log.seek(0)
            if worker.returncode:
                said = log.read().strip().removeprefix("vpo-lite: ")
                errors.append(said or _without_a_word(worker.returncode))
    for error in dict.fromkeys(errors):  # often all of them say the same
        note(error)
    return int(bool(errors))


def _without_a_word(status: int) -> str:
    """What is to be said of a worker that said nothing.

    >>> _without_a_word(-15).split(";")[0], _without_a_word(3).split(";")[0]
    ('a worker was ended by SIGTERM', 'a worker ended with status 3 without a message')
    """
    if status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
        how += ", as a system does that is short of memory: take fewer --workers" * (status == -9)
    else:
        how = f"ended with status {status} without a message"
    return f"a worker {how}; the same command goes on with the runs that are left"


def end_with_the_parent() -> None:
    """Let a worker end when whoever started it is gone, also by kill -9: its end of the pipe is
    closed then. What is under way is done again by the next study.
    """
    if is_one():
        threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def waiting(bar, what: str):
    """What says on the bar, or else once in a line, which run another process does."""
    told = set()

    def wait(run):
        text = f"waiting: another process {what} {run}"
        if sys.stderr.isatty():
            bar.set_description(text)
        elif run not in told and not is_one():
            told.add(run)
            note(text)

    return wait
