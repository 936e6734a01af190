"""The interrupt of a notebook's kernel, for training in a thread.

JupyterLab's stop button sends it as SIGINT. ipykernel lets a running cell hear it, and ignores it
between two cells. So it would never reach a thread that trains.
"""

import signal
import sys
from collections.abc import Callable

AGAIN = 0.2  # seconds until the next look, while a cell runs


def heed(handler: Callable, while_: Callable[[], object]) -> None:
    """From now on an interrupt between two cells calls ``handler(signal, frame)``. One that arrives
    while a cell runs interrupts that cell.

    Only the kernel's thread may change a signal, and a cell puts back the handler that it found. So
    the kernel's event loop does it after the cell, if ``while_()`` is still true. Any thread may
    call this. Outside of ipykernel it does nothing.
    """
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython and ipython.get_ipython(), "kernel", None)
    loop = getattr(kernel, "io_loop", None)

    def look():
        found = signal.getsignal(signal.SIGINT)
        if found is signal.SIG_IGN:
            signal.signal(signal.SIGINT, handler)
        elif found is not handler and while_():
            loop.call_later(AGAIN, look)

    if loop is not None:
        loop.add_callback(look)
