"""The kernels of the panel's page: how many may run, what a page may send them, how they end."""

import contextlib
import json
import sys
import time
from pathlib import Path

MOST_PARTS = 64  # of a message


def kernels_for(most: int) -> type:
    """Returns Jupyter's manager of kernels, changed:

    - At most ``most`` kernels run, those that start included. A page beyond them is refused.
    - A kernel whose page is gone for ``cull_idle_timeout`` seconds is ended, also while it trains.
      Jupyter ends idle ones. :func:`connection_class` tells when pages come and go.
    - They are killed at once, since they have nothing to store. A kernel that ends by itself may
      first wait for a step of training, or write into the teacher's terminal, as libzmq once did.
    """
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
    from tornado.web import HTTPError

    class Kernels(AsyncMappingKernelManager):
        def __init__(self, **options):
            super().__init__(**options)
            self.starting: set[str] = set()  # ids
            self.pages: dict[str, set] = {}  # by id
            self.left: dict[str, float] = {}  # when the last page went, by id

        async def start_kernel(self, **options):
            if len(self.starting | {*self.list_kernel_ids()}) >= most:
                said = f"No place is free: at most {most} at a time. A page that was left keeps "
                said += "its place for two minutes. This page tries again by itself."
                raise HTTPError(503, reason=said)  # error.html in SHARE tries again
            own = options.setdefault("kernel_id", self.new_kernel_id())
            self.starting.add(own)
            try:
                return await super().start_kernel(**options)
            finally:
                self.starting.discard(own)

        def page_came(self, kernel_id, page):
            self.pages.setdefault(kernel_id, set()).add(page)
            self.left.pop(kernel_id, None)

        def page_went(self, kernel_id, page):
            """Also told of a page that never came."""
            self.pages.get(kernel_id, set()).discard(page)
            if not self.pages.get(kernel_id) and kernel_id in self:
                self.left[kernel_id] = time.monotonic()

        async def cull_kernel_if_idle(self, kernel_id):
            now = time.monotonic()
            if kernel_id not in self:  # it ended meanwhile
                return
            if now - self.left.get(kernel_id, now) > self.cull_idle_timeout:
                await self.shutdown_kernel(kernel_id)
            elif not self.pages.get(kernel_id):
                await super().cull_kernel_if_idle(kernel_id)

        async def shutdown_kernel(self, kernel_id, now=False, restart=False):
            """now: whatever it says, the kernel is killed."""
            await super().shutdown_kernel(kernel_id, True, restart)
            self.left.pop(kernel_id, None)
            self.pages.pop(kernel_id, None)

    return Kernels


def connection_class() -> type:
    """Returns Jupyter's connection of a page and its kernel, changed: it tells :func:`kernels_for`
    when the page comes and goes, and drops a message that is not sound: eight bytes that ask for
    many parts could keep the server busy for minutes.
    """
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    class Connection(ZMQChannelsWebsocketConnection):
        def connect(self):
            self.multi_kernel_manager.page_came(self.kernel_id, self)
            try:
                connected = super().connect()
            except BaseException:  # tornado tells nobody of a page that could not be opened
                self.went()
                raise
            if connected is not None:
                connected.add_done_callback(self.went_unless)
            return connected

        def disconnect(self):
            self.went()
            super().disconnect()

        def went(self):
            self.multi_kernel_manager.page_went(self.kernel_id, self)

        def went_unless(self, connected):
            if connected.cancelled() or connected.exception():
                self.went()

        def handle_incoming_message(self, incoming_msg):
            if is_sound(incoming_msg, v1=bool(self.subprotocol)):
                super().handle_incoming_message(incoming_msg)

    return Connection


def is_sound(message: bytes | str, *, v1: bool) -> bool:
    """Whether a message begins with the number and the offsets of parts that it really has, and has
    at most 64. A widget's has six or fewer, and its buffers.

    v1: Jupyter's protocol of this name, with numbers of 8 bytes; else the one before, with 4 bytes,
    or a text.

    >>> is_sound((2**24).to_bytes(8, "little"), v1=True)
    False
    """
    if isinstance(message, str):
        return not v1
    size, order = (8, "little") if v1 else (4, "big")
    count = int.from_bytes(message[:size], order)
    if not 0 < count <= MOST_PARTS or len(message) < size * (count + 1):
        return False
    numbers = [message[size * i : size * (i + 1)] for i in range(1, count + 1)]
    offsets = [size * (count + 1), *(int.from_bytes(n, order) for n in numbers), len(message)]
    return offsets == sorted(offsets)


def give_way() -> None:
    """Let Linux end this kernel first where memory runs out. Elsewhere it does nothing."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


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
