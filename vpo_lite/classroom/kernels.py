"""The kernels of the panel's page: how many may run, how they begin, and how they end."""

import json
import sys
import time
from pathlib import Path

STARTING = 30  # seconds after which a kernel that has not appeared is no longer waited for


class Bound:
    """Voila's prelaunch hook that refuses a page when as many kernels run as are allowed.

    A kernel is on Voila's list only once it has started, so the pages let in before count, too.
    """

    def __init__(self, most: int):
        self.most, self._begun, self._starting = most, 0, []

    def __call__(self, handler, notebook=None, cwd=None):
        from tornado.web import HTTPError

        now, kernels = time.monotonic(), handler.kernel_manager
        running = kernels.list_kernel_ids()
        waited_for = self._starting[kernels.begun - self._begun :]
        self._begun = kernels.begun
        self._starting = [since for since in waited_for if now - since < STARTING]
        if len(running) + len(self._starting) >= self.most:
            said = f"No place is free: at most {self.most} at a time. A page that was left keeps "
            said += "its place for two minutes. This page tries again by itself."
            raise HTTPError(503, reason=said)  # error.html in SHARE tries again
        self._starting.append(now)


def ended_at_once() -> type:
    """Returns Jupyter's manager of kernels, changed to kill them at once: those of closed and of
    forsaken pages. They have nothing to store. A kernel that ends by itself may first wait for a
    step of training, or write into the teacher's terminal, as libzmq once did.
    """
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

    class Kernels(AsyncMappingKernelManager):
        begun = 0  # how many have started, of those that have ended, too

        async def start_kernel(self, *arguments, **options):
            kernel_id = await super().start_kernel(*arguments, **options)
            self.begun += 1
            return kernel_id

        async def shutdown_kernel(self, kernel_id, now=False, restart=False):
            """now: whatever it says, the kernel is killed."""
            await super().shutdown_kernel(kernel_id, True, restart)

    return Kernels


def write_kernel(folder: Path) -> None:
    """Write this Python as Jupyter's kernel into ``folder``. It says nothing in the teacher's
    terminal: neither that its connection, which stays on this machine, is not encrypted, nor how it
    was ended while it began.
    """
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": [*command, "--log-level=CRITICAL"], "display_name": "Python 3"}
    folder.mkdir(parents=True)
    text = json.dumps(spec | {"language": "python"})
    (folder / "kernel.json").write_text(text, encoding="utf-8")
