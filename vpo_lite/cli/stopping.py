"""How a command that works step by step hears that it should stop."""

import contextlib
import os
import signal
from collections.abc import Callable

from .flags import STOPPED


@contextlib.contextmanager
def patient(asked: list[int], in_step: Callable[[], bool] = lambda: True, unit: str = "step"):
    """A context in which a request to stop lets the step finish: Ctrl-C, and in a run of one
    process SIGTERM and SIGHUP, which a cluster sends and a terminal that closes. The same signal
    again stops at once, and so does the first one between two steps: a measurement is made anew
    when the run goes on.

    - asked: gets the signals that came; whoever does the steps ends when it holds one
    - in_step: whether stopping at once would lose work in progress
    - unit: what a step is called
    """
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]
    told = f"\nvpo-lite: stopping after this {unit}; Ctrl-C again stops at once\n".encode()

    def ask(signum, frame):
        again = signum in asked
        asked.append(signum)
        if signum == getattr(signal, "SIGHUP", None):  # a closed terminal takes no text
            for stream in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        if again or not in_step():
            raise KeyboardInterrupt
        if signum == signal.SIGINT and 2 in terminals:  # a print might interrupt another one
            os.write(2, told)

    before = {number: signal.signal(number, ask) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[int]:
    """Those that ask a run to stop. Not one that is ignored, as SIGHUP is under `nohup` and SIGINT
    behind `&` of a script, and none that a library in C has taken. A launcher ends its processes by
    SIGTERM when one of them has failed.
    """
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    names = ("SIGINT", *("SIGTERM", "SIGHUP") * alone)
    there = [n for name in names if (n := getattr(signal, name, None)) is not None]
    return [n for n in there if signal.getsignal(n) not in (None, signal.SIG_IGN)]


def exit_status(asked: list[int]) -> int:
    """The exit status after a signal, as shells have it."""
    return 128 + asked[0] if asked else STOPPED
