"""Finds a browser for the browser tests.

Chromium, Chrome and Edge all serve: on PATH, in their usual places, or as Playwright's own.
VPO_LITE_BROWSER=PATH names the one browser to use.

    python tests/browser_setup.py

says which one was found. Where there is none, it tries once to install one. `make test` runs it
before the tests. VPO_LITE_NO_BROWSER_INSTALL=1 forbids the installation.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

STAMP = (
    Path(sys.prefix) / "browser-tried"
)  # holds what the installers printed; goes with the environment
LIMIT = 240  # seconds for each command of an installation
COMMANDS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable", "msedge"),
)
LINUX = (
    *("/usr/bin/chromium", "/usr/lib/chromium/chromium", "/snap/bin/chromium"),
    *("/opt/google/chrome/chrome", "/opt/microsoft/msedge/msedge"),
)
MACOS = ("Chromium", "Google Chrome", "Microsoft Edge")
WINDOWS = (
    "Chromium/Application/chrome.exe",
    "Google/Chrome/Application/chrome.exe",
    "Microsoft/Edge/Application/msedge.exe",
)
CURE = (
    "Cure: install Chromium, Chrome or Edge, or run "
    f"`{sys.executable} -m playwright install --with-deps chromium`."
)


def must_have_one():
    """True where a missing browser is a fault: CI=true."""
    return os.environ.get("CI", "").lower() in ("1", "true")


@functools.cache
def find():
    """The path of a browser that starts, or None. The answer is kept while the process lives."""
    return next((path for path in _candidates() if _starts(path)), None)


def _candidates():
    if named := os.environ.get("VPO_LITE_BROWSER"):
        yield named
        return
    yield from filter(None, map(shutil.which, COMMANDS))
    yield from map(str, _usual_places())
    yield _playwrights_own()  # last: asking for its path starts Playwright


def _usual_places():
    if sys.platform == "darwin":
        folders = (Path("/Applications"), Path.home() / "Applications")
        return [
            folder / f"{name}.app/Contents/MacOS/{name}" for folder in folders for name in MACOS
        ]
    if sys.platform == "win32":
        names = ("ProgramFiles", "ProgramFiles(x86)", "LocalAppData")
        folders = [Path(os.environ[name]) for name in names if name in os.environ]
        return [folder / path for path in WINDOWS for folder in folders]
    return list(LINUX)


def _playwrights_own():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def _starts(path):
    """Whether the file is there and runs.

    Ubuntu's chromium-browser may be a script that only asks for a snap, and a downloaded browser
    may lack system libraries. Both fail here. On Windows the question would open a window, so
    there the file is enough.
    """
    if not Path(path).is_file() or sys.platform == "win32":
        return Path(path).is_file()
    try:
        quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
        return subprocess.run([path, "--version"], timeout=30, **quiet).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main():
    forbidden = {"VPO_LITE_NO_BROWSER_INSTALL", "VPO_LITE_BROWSER"} & set(os.environ)
    if find() is None and not STAMP.exists() and not forbidden:
        print(
            "No browser for the browser tests: trying to install one. This is done only once.",
            flush=True,
        )
        with STAMP.open("wb") as log:
            _install(log)
    print(f"browser for the browser tests: {find() or 'none'}")


def _install(log):
    """Run the installers in turn until a browser starts."""
    for command in _installers():
        done = _run(command, log)
        words = [word for word in command if not (word.startswith("-") or Path(word).is_absolute())]
        print(f"  {' '.join(words)}: {'done' if done else f'failed, see {STAMP}'}", flush=True)
        find.cache_clear()
        if done and find():
            return


def _installers():
    """Commands, each of which may make the later ones needless.

    System packages are installed by root alone, never through sudo.
    """
    playwright = [sys.executable, "-m", "playwright"]
    yield [*playwright, "install", "chromium"]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        if Path(_playwrights_own()).is_file():
            yield [*playwright, "install-deps", "chromium"]
        patience = ("Acquire::http::Timeout=10", "Acquire::https::Timeout=10", "Acquire::Retries=1")
        apt = [
            "apt-get",
            "-y",
            *(f"-o{setting}" for setting in (*patience, "DPkg::Lock::Timeout=60")),
        ]
        yield [*apt, "update"]
        # in two steps, so that the time limit ends a download and not the unpacking
        yield [*apt, "install", "--no-install-recommends", "--download-only", "chromium"]
        yield [*apt, "install", "--no-install-recommends", "chromium"]


def _run(command, log):
    """True if the command succeeded within the time limit. Its output goes into the log."""
    settings = {
        "DEBIAN_FRONTEND": "noninteractive",
        "PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": "10000",
    }
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | settings,
        start_new_session=True,
    )
    try:
        return process.wait(LIMIT) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if (
            process.poll() is None
        ):  # with its children: Playwright downloads in a process of its own
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()


if __name__ == "__main__":
    main()
