"""The panel as a page without code, served by Voila: to this machine, or with a token to a room.

Each page that is opened starts a kernel of its own. `serve` bounds their number, and ends the
kernels of closed pages. Who opens the page can move the panel's controls and train; no code that a
page sends is run.
"""

import asyncio
import contextlib
import functools
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..checks import shown
from ..locks import LOCK, BusyError, lock_folder
from .kernels import connection_class, kernels_for, write_kernel
from .notebooks import install_command

LAB_PORT, PORT = 8888, 8866  # of JupyterLab, of the classroom
SHARE = Path(__file__).parent / "share"  # Voila's page, without what it asks of public servers
PAGES = SHARE / "voila" / "templates" / "offline"  # also what is shown without a page
LOOKING, TRAINING = 0.6, 1.0  # GiB of a viewer's kernel; measured
VIEWERS, MOST_VIEWERS = 4, 1000  # at a time: unless asked for more, and at most
FORSAKEN = 120  # seconds without a page after which a kernel is ended
STARTING = 30  # seconds that Ctrl-C waits for kernels that are starting
MOST_POSTED, MOST_MESSAGE = 2**16, 2**20  # bytes: of a request, of what a page sends its kernel
FOLDER = "vpo-classroom-"  # of a server, in the system's folder for temporary files; in it
PAGE, NOTEBOOK = "page", "vpo_lite.ipynb"
LEAST_TOKEN, MOST_TOKEN = 12, 200  # characters
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that look alike on a projector


def port_is_free(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as probe:
        if os.name == "posix":  # as servers do; on Windows it would take a port from another one
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def new_token() -> str:
    """A random token that can be read off a projector: 12 letters and digits, 59 bits.

    >>> check_token(new_token())
    """
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(3))


def check_token(token: str) -> None:
    """Refuse a token that is too short or too long, or that an address cannot hold.

    >>> check_token("abc")
    Traceback (most recent call last):
    ...
    ValueError: token 'abc': expected 12 to 200 characters, of A-Z, a-z, 0-9, - and _
    """
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{LEAST_TOKEN},{MOST_TOKEN}}}", token):
        raise ValueError(
            f"token {shown(token)}: expected {LEAST_TOKEN} to {MOST_TOKEN} characters, of A-Z, "
            "a-z, 0-9, - and _"
        )


def network_address() -> str:
    """The address of this machine in its network; its name where there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # chooses an interface, and sends nothing
            return probe.getsockname()[0]
        except OSError:
            return socket.gethostname()


def cell(code: str | None = None, recording=None, *, room: bool = False) -> str:
    """The Python of the page: a share code's session, a recording, or the first notebook's panel.

    Raises ValueError for a code or a recording that cannot be opened.

    >>> print(cell(recording="stuck/seed-0"))
    from vpo_lite import Lab
    lab = Lab.replay('stuck/seed-0')
    controls = lab.panel.controls
    controls.large.value = True
    controls.buttons.pop("record").layout.display = "none"
    lab
    """
    from ..lab import codes, recordings

    made = "Lab()"
    if code is not None:
        codes.decode(code)
        made = f"Lab.from_code({code!r})"
    elif recording is not None:
        recordings.read(recording)
        file = recordings.find(recording)
        ships = file.is_relative_to(recordings.SHIPPED)
        made = f"Lab.replay({str(recording if ships else file.parent.resolve())!r})"
    lines = [
        "from vpo_lite import Lab",
        f"lab = {made}",
        "controls = lab.panel.controls",
        "controls.large.value = True",
        # It would write into a folder that is deleted at the end.
        'controls.buttons.pop("record").layout.display = "none"',
    ]
    if room:  # a stranger's code may name a file or a model of this machine
        lines += ["controls.code.unobserve_all()", 'controls.code.layout.display = "none"']
        lines[:0] = ["from vpo_lite.classroom import kernels", "kernels.give_way()"]
    return "\n".join([*lines, "lab"])


def announcement(port: int, token: str | None, viewers: int) -> str:
    """What the server opens, to whom, and how to stop it. token: of a room; None: this machine."""
    if token is None:
        opened = [f"http://127.0.0.1:{port}/", "reach    this machine only, every account on it"]
    else:
        opened = [
            f"http://{network_address()}:{port}/?token={token}",
            f"opens    port {port} on every network interface of this machine, not encrypted",
            "reach    everyone who can connect to this machine and has the token; the address "
            "holds it,",
            "         and the page without it asks for it",
            "allows   moving the panel's controls and training; no code, no share codes, no files",
        ]
    viewed = (
        f"viewers  at most {viewers} at a time; each has a kernel of its own: {LOOKING:g} GiB, "
        f"{TRAINING:g} GiB while it trains"
    )
    return "\n  ".join([*opened, viewed, "stop     Ctrl-C here ends the server and all kernels"])


def check_jupyter_writes() -> None:
    """Raise ValueError where Jupyter cannot write its own files. Without them JupyterLab does not
    start, and each page of Voila shows an error.
    """
    from jupyter_core.paths import jupyter_data_dir, jupyter_runtime_dir

    for variable, folder in (
        ("JUPYTER_DATA_DIR", jupyter_data_dir()),
        ("JUPYTER_RUNTIME_DIR", jupyter_runtime_dir()),
    ):
        try:
            os.makedirs(folder, 0o700, exist_ok=True)  # as Jupyter makes them
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(2**16))
        except OSError as error:
            why = f"Jupyter cannot write there ({error.strerror})"
            cure = f"make room, or name another folder in {variable}"
            raise ValueError(f"{folder}: {why}; {cure}") from error


def check_can_serve(port: int, token: str | None) -> None:
    """Refuse where Voila is missing, Jupyter cannot write or the port is taken. Loads Voila, which
    takes seconds.
    """
    try:
        import voila.app  # noqa: F401
    except ImportError as error:
        raise ValueError(f"voila is not installed; cure: {install_command('lab')}") from error
    check_jupyter_writes()
    if not port_is_free(port, _listens_to(token)):
        raise ValueError(
            f"port {port} is taken, or not allowed to this account; name another one with --port"
        )


def _listens_to(token: str | None) -> str:
    return "127.0.0.1" if token is None else "0.0.0.0"


def serve(source: str, *, port: int, token: str | None, viewers: int, browser: bool) -> None:
    """Serve this cell until the process is interrupted.

    token: serve to the network, and only who has it; None: serve this machine. browser: open a
    window, too.
    """
    from traitlets.config import Config

    if token is not None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # no viewer makes a kernel fetch a model
    with own_folder() as folder:
        paths = filter(None, [str(SHARE), str(folder), os.environ.get("JUPYTER_PATH")])
        os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
        write_kernel(folder / "kernels" / "python3")
        (folder / PAGE / NOTEBOOK).write_text(json.dumps(_notebook(source)), encoding="utf-8")
        # A page that waits for a place asks every 5 s: each refusal would be a line with the token.
        # Anybody could print tracebacks with addresses of no page.
        for name in ("access", "application", "general"):
            logging.getLogger(f"tornado.{name}").setLevel(logging.CRITICAL)
        app = _server().instance(config=Config(_settings(folder, port, token, viewers, browser)))
        app.initialize([])
        app.start()


def _server() -> type:
    """Voila's application, which ends its kernels with it, and asks for the token in our words."""
    from tornado.ioloop import IOLoop
    from tornado.web import HTTPError
    from voila.app import Voila

    class Classroom(Voila):
        def listen(self):
            """Until Ctrl-C, which stops the loop between two pieces of work. Raised inside one it
            may be lost, or break what the end waits for.
            """
            loop = IOLoop.current()

            def stop(*_):
                signal.signal(signal.SIGINT, signal.default_int_handler)  # again: at once
                loop.asyncio_loop.call_soon_threadsafe(loop.stop)

            loop.add_callback(signal.signal, signal.SIGINT, stop)
            for log in (self.log, logging.getLogger("asyncio")):
                log.addFilter(_is_no_dead_kernel)
            # Else everybody in the network could fill this machine's memory, or hold its sockets.
            limits = dict(max_body_size=MOST_POSTED, body_timeout=30, idle_connection_timeout=60)
            self.app.listen = functools.partial(self.app.listen, **limits)
            super().listen()

        def stop(self):
            """End all kernels. One that starts just now cannot be ended before it has started."""
            end = time.monotonic() + STARTING
            while time.monotonic() < end:
                with contextlib.suppress(HTTPError):
                    self.ioloop.run_sync(lambda: self.kernel_manager.shutdown_all(now=True))
                    break
                self.ioloop.run_sync(lambda: asyncio.sleep(0.1))
            super().stop()

        def init_settings(self):
            """With our page that asks for the token: Jupyter's explains passwords, and another
            command.
            """
            settings = super().init_settings()
            settings["jinja2_env"].loader.searchpath.insert(0, str(PAGES))
            return settings

    return Classroom


def _is_no_dead_kernel(record: logging.LogRecord) -> bool:
    """Whether to print it. A page that is closed while it loads, or met by Ctrl-C, would print a
    traceback.
    """
    error = record.exc_info[1] if record.exc_info else ""
    return "Kernel died" not in f"{record.msg} {error}"


def _settings(folder: Path, port: int, token: str | None, viewers: int, browser: bool) -> dict:
    """Voila's settings, by class. folder: as made by :func:`own_folder`; others: of `serve`."""
    return {
        "Voila": {
            "notebook_path": str(folder / PAGE / NOTEBOOK),
            "connection_dir_root": str(folder),
            "config_file_paths": [],  # nobody's own settings open more than was said
            "ip": _listens_to(token),
            "port": port,
            "port_retries": 0,
            "token": token or "",
            "open_browser": browser,
            "log_level": logging.ERROR,
            "tornado_settings": {
                # Without a token, only what is addressed to this machine is answered.
                "allow_remote_access": token is not None,
                # A page that closes ends its kernel by a request without an XSRF token,
                # which would be refused. It names the kernel by its random id.
                "disable_check_xsrf": True,
                "websocket_max_message_size": MOST_MESSAGE,
            },
            "kernel_websocket_connection_class": connection_class(),
        },
        "VoilaConfiguration": {
            "template": "offline",
            "allow_template_override": "NO",
            "allow_theme_override": "NO",  # its name is written into the page as it comes
            "multi_kernel_manager_class": kernels_for(viewers),
        },
        # Else a viewer may set a password, which is written into this account's settings.
        "PasswordIdentityProvider": {"allow_password_change": False},
        "MappingKernelManager": {"cull_idle_timeout": FORSAKEN, "cull_interval": 15},
    }


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A temporary folder of this process, locked while it lives. It is deleted at the end.

    A killed process leaves its folder behind, without the lock. The next call deletes it.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        with contextlib.suppress(OSError, BusyError):
            if _may_be_left_behind(left):
                lock_folder(left).release()
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=FOLDER) as made:
        lock, folder = lock_folder(made), Path(made)
        (folder / PAGE).mkdir()  # after the lock: a folder without a page may not be locked yet
        try:
            yield folder
        finally:
            lock.release()


def _may_be_left_behind(folder: Path) -> bool:
    """Whether `own_folder` finished making it, for this account."""
    there = folder.lstat()
    ours = not hasattr(os, "getuid") or there.st_uid == os.getuid()
    made = (folder / LOCK).exists() and (folder / PAGE).exists()
    return stat.S_ISDIR(there.st_mode) and ours and made


def _notebook(source: str) -> dict:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    code = {"cell_type": "code", "id": "panel", "metadata": {}, "outputs": []}
    return {
        "cells": [code | {"execution_count": None, "source": source}],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
