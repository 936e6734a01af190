"""A real JupyterLab in a real browser, offline: the server, the browser, and what a test may ask.

Waits are for facts of the page (session connected, prompts numbered), never for a time. Requests
off loopback, failed requests, console errors and page errors are collected. They fail the test at
its end.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import browser_setup

from vpo_lite.classroom.serve import SHARE

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # offline by rule, not by luck
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]
# What JupyterLab logs while a kernel that trains answers late. Its debugger gives up, which shows
# nothing. A saved output looks for its widget for two seconds, ten times a second; if all widgets
# come back between its last look and its end, it is lost until the page is loaded again (ipywidgets
# 8.1.9, its issue 4026; LOST is what a reader sees then).
OF_A_BUSY_KERNEL = ("Could not restore the debugger state", "widget model not found")
LOST = "Error displaying widget: model not found"
CONNECTED = """() => {
  const s = window.jupyterapp?.shell.currentWidget?.sessionContext, k = s?.session?.kernel;
  return Boolean(s?.isReady && k?.connectionStatus === 'connected' && k.status === 'idle'); }"""
RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
IN_KERNEL = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let text = ''; const future = kernel.requestExecute({code, store_history: false});
  future.onIOPub = (m) => {
    if (m.header.msg_type === 'stream') text += m.content.text;
    if (m.header.msg_type === 'error') text += m.content.traceback.join('\\n'); };
  await future.done; return text; }"""
FAILED_CELLS = """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.flatMap(
  (c) => (c.outputs || []).filter((o) => o.output_type === 'error').map((o) => o.evalue))"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    """A test run that is killed leaves no server behind (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def server(notebooks, command="jupyterlab", copies=0):
    """Start a Jupyter server on copies of these notebooks; yields its address.

    copies: how many more copies of each there are, NAME-1.ipynb and so on.
    """
    root = Path(tempfile.mkdtemp(prefix="vpo-browser-"))
    work = root / "work"
    work.mkdir()
    for notebook in notebooks:
        shutil.copy(notebook, work)
        for i in range(1, copies + 1):
            shutil.copy(notebook, work / f"{Path(notebook).stem}-{i}.ipynb")
    places = (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "IPYTHONDIR",
        "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR",
    )
    environment = (
        os.environ
        | {name: str(root / name.lower()) for name in places}
        | {"OMP_WAIT_POLICY": "PASSIVE"}
    )
    quiet = root / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True})
    )
    (root / "jupyter_config_dir" / "labconfig").mkdir(parents=True)
    (root / "jupyter_config_dir" / "labconfig" / "page_config.json").write_text(
        json.dumps({"buildAvailable": False, "buildCheck": False})
    )
    port = free_port()
    if command == "jupyterlab":
        arguments = [
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=",
            "--ServerApp.password=",
            f"--ServerApp.root_dir={work}",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.extension_manager=readonly",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.news_url=None",
        ]
        ready = "/api/status"
    else:
        environment["JUPYTER_PATH"] = str(SHARE)
        arguments = [
            "voila",
            str(work),
            "--no-browser",
            "--Voila.ip=127.0.0.1",
            f"--port={port}",
            "--template=offline",
        ]
        ready = "/"
    with open(root / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=work,
            preexec_fn=die_with_parent if os.name == "posix" else None,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + ready, timeout=5)
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{command} did not start: {(root / 'server.log').read_text()[-2000:]}"
                )
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        process.kill()
        shutil.rmtree(root, ignore_errors=True)


# anywidget gives a widget two seconds to start, and then an error. On a busy machine that is a test
# of the machine. So is the moment between an output's last look for its widget and its end, which a
# machine that restores in two seconds meets again and again: looking more often makes it short.
PATIENCE = """{ const timeout = AbortSignal.timeout, later = window.setTimeout;
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms === 2000 ? 60000 : ms);
  window.setTimeout = (run, ms, ...rest) => later(run, ms === 100 ? 5 : ms, ...rest); }"""


@contextlib.contextmanager
def browser(width=1400, height=1000):
    """Start the browser that was found, without a network; yields Playwright's browser context."""
    from playwright.sync_api import sync_playwright

    path = browser_setup.find()
    if path is None:
        raise RuntimeError(f"no browser. {browser_setup.CURE}")
    folder = tempfile.mkdtemp(prefix="vpo-browser-")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=path,
            headless=True,
            args=ARGUMENTS,
            viewport={"width": width, "height": height},
        )
        context.add_init_script(PATIENCE)
        context.set_default_timeout(60_000)
        try:
            yield context
        finally:
            context.close()
            shutil.rmtree(folder, ignore_errors=True)


class Page:
    """One open notebook, with a log of everything that went wrong in it."""

    def __init__(self, context, address):
        self.page, self.address, self.wrong = context.new_page(), address, []
        self.page.on("request", self._request)
        self.page.on("requestfailed", self._failed)
        self.page.on(
            "response", lambda r: r.status >= 400 and self._note(f"status {r.status}", r.url)
        )
        self.page.on("console", lambda m: m.type == "error" and self._said(m.text))
        self.page.on("pageerror", lambda e: self._note("page error", str(e)))

    def _note(self, kind, text):
        self.wrong.append(f"{kind}: {text}")

    def _said(self, text):
        if not any(known in text for known in OF_A_BUSY_KERNEL):
            self._note("console", text)

    def _failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # what a page leaves behind when it is reloaded
            self._note("request failed", f"{request.url} {request.failure}")

    def _request(self, request):
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
            "127.0.0.1",
            "localhost",
        ):
            self._note("request off this machine", request.url)

    def open(self, notebook, path="lab/tree"):
        self.page.goto(f"{self.address}/{path}/{notebook}?reset")
        self.page.wait_for_function(CONNECTED)
        return self

    def reload(self, selector):
        """Load the page again, as a reader does, until it shows this; five times at most."""
        lost = f"document.body.textContent.includes('{LOST}')"
        shown = f"() => document.querySelector('{selector}') || {lost}"
        for _ in range(5):
            self.page.reload()
            self.page.wait_for_function(shown)
            if self.page.query_selector(selector):
                break
        return self

    def open_voila(self, notebook):
        self.page.goto(f"{self.address}/voila/render/{notebook}")
        return self

    def run_all(self):
        """Run All, to the end of the last cell; fails with the cells' errors."""
        self.page.evaluate(RUN_ALL)
        failed = self.page.evaluate(FAILED_CELLS)
        assert not failed, failed

    def kernel(self, code):
        """Run code in the notebook's kernel; returns what it printed."""
        return self.page.evaluate(IN_KERNEL, code)

    def look_at(self, selector):
        """Scroll to the first one as a reader would: cells out of sight have no `innerText`."""
        self.page.wait_for_selector(selector, state="attached")
        self.page.evaluate("(s) => document.querySelector(s).scrollIntoView()", selector)

    def text(self, selector):
        return self.page.locator(selector).first.inner_text()

    def wait_text(self, selector, piece, timeout=60_000):
        text = "(e.innerText || e.textContent)"  # the latter for a cell out of sight
        found = f"([s, t]) => [...document.querySelectorAll(s)].some((e) => {text}.includes(t))"
        self.page.wait_for_function(
            found, arg=[selector, piece], timeout=timeout, polling=100
        )  # not in every frame: innerText lays the page out

    def trace(self, name, axis="x", field="y"):
        """The data of the plotted traces with this name on this axis, one after another."""
        return self.page.evaluate(
            """([name, axis, field]) => { const g = document.querySelector('.js-plotly-plot');
              return g ? g.data.filter((t) => t.name === name && (t.xaxis || '') === axis)
                          .flatMap((t) => Array.from(t[field] || [])) : null; }""",
            [name, axis, field],
        )

    def close(self):
        """Close the page and end its kernel."""
        self.page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        self.page.close()
