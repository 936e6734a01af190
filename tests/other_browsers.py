"""The notebooks, the panel, the classroom and the lesson page in Firefox and in WebKit, offline.

    pip install --target FOLDER selenium marionette_driver  # apart: one brings a plugin of pytest
    PYTHONPATH=FOLDER python tests/other_browsers.py firefox webkit

The tests run in chromium, since Playwright drives only builds of its own of the others. Here
Marionette drives the installed Firefox, and WebDriver that of WebKitGTK, the engine of Safari. On
Debian they come with

    apt-get install firefox-esr webkit2gtk-driver xvfb

The last lines say what was seen. Exit status 1: something differed. `--only PART ...` runs some.
"""

import argparse
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import browser_harness as harness

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
WIDTH, HEIGHT = 1280, 720  # of the page
END, HOME, LEFT, RIGHT = "\ue010", "\ue011", "\ue012", "\ue014"  # keys, as WebDriver writes them
LONG = 900  # seconds for a notebook
MINI = "/usr/lib/*/webkit2gtk-4*/MiniBrowser"


class Firefox:
    """The installed Firefox, headless."""

    def __init__(self):
        from marionette_driver.marionette import Marionette

        found = shutil.which("firefox-esr") or shutil.which("firefox")
        log = Path(tempfile.mkdtemp(prefix="vpo-other-")) / "firefox.log"  # it replaces this file
        self.driver = Marionette(bin=found, headless=True, gecko_log=str(log))
        self.driver.start_session()
        self.name = "Firefox " + self.driver.session_capabilities["browserVersion"]
        self.driver.set_window_rect(width=WIDTH, height=HEIGHT + 85)  # with its bars

    def open(self, address):
        self.driver.navigate(address)

    def ask(self, code, *given):
        """The value of JavaScript that ends in ``return``; ``arguments`` holds what is given."""
        return self.driver.execute_script(code, list(given), sandbox=None)

    def press(self, selector, keys):
        self.driver.find_element("css selector", selector).send_keys(keys)

    def click(self, selector):
        self.ask("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        time.sleep(2)  # until cells that came into sight are laid out: the click hits a place
        self.driver.find_element("css selector", selector).click()

    def picture(self, path):
        Path(path).write_bytes(base64.b64decode(self.driver.screenshot(full=False)))

    def quit(self):
        self.driver.quit()
        self.driver = None  # it complains where Python ends before it


class WebKit(Firefox):
    """WebKitGTK's small browser, on a screen of its own."""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.webkitgtk.service import Service

        self.screen = subprocess.Popen(
            ["Xvfb", ":77", "-screen", "0", "1400x900x24"], stderr=subprocess.DEVNULL
        )
        os.environ["DISPLAY"] = ":77"
        time.sleep(1)
        options = webdriver.WebKitGTKOptions()
        options.binary_location = str(next(Path("/").glob(MINI.lstrip("/"))))
        options.add_argument("--automation")
        service = Service(shutil.which("WebKitWebDriver"))
        self.driver = webdriver.WebKitGTK(options=options, service=service)
        self.name = "WebKitGTK " + self.driver.capabilities["browserVersion"]
        self.driver.set_window_rect(0, 0, WIDTH, HEIGHT + 40)

    def open(self, address):
        self.driver.get(address)

    def ask(self, code, *given):
        return self.driver.execute_script(code, *given)

    def picture(self, path):
        self.driver.save_screenshot(path)

    def quit(self):
        self.driver.quit()
        self.screen.terminate()


def wait(browser, code, seconds=60.0):
    """Until this JavaScript is true."""
    deadline = time.monotonic() + seconds
    while not browser.ask(f"return Boolean({code})"):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {code}")
        time.sleep(0.3)


def text(selector):
    return f"(document.querySelector('{selector}')?.textContent || '')"


def lesson(browser, folder):
    """The page of a lesson, opened from the disk: its sliders by keys, and Play."""
    page = folder / "lesson.html"
    command = "export lesson three_methods/seed-0 --unseen --out"
    command = [sys.executable, "-m", "vpo_lite.cli", *command.split(), page]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    browser.open(page.as_uri())
    wait(browser, "document.querySelector('#step')")
    browser.press("#step", END)
    wait(browser, f"{text('#words')}.includes('Step 40 of 40')", 10)
    said = browser.ask(f"return {text('#words')}")
    assert "VPO 0.994, GRPO 0.854" in said, said
    browser.press("#alpha", END)
    wait(browser, f"{text('#words')}.includes('VPO 0.979')", 10)
    browser.press("#step", HOME)
    browser.click("#play")
    wait(browser, "Number(document.querySelector('#step').value) > 3", 20)
    browser.picture(str(folder / "lesson.png"))
    return "keys move both sliders; VPO 0.994, GRPO 0.854; Play plays"


def train(browser, folder, part):
    """Train in the panel that is on the page; says how it ended."""
    wait(browser, "document.querySelector('.vpo-board svg.maze')", LONG)
    wait(browser, "document.querySelector('.js-plotly-plot .main-svg')", 60)
    browser.click("button.vpo-train")
    wait(browser, f"{text('.vpo-status')}.includes('step 3 of')", 120)
    browser.press(".vpo-lab .noUi-handle", RIGHT)  # alpha
    wait(browser, f"{text('.vpo-lab .widget-readout')}.trim() === '1.2'", 30)
    browser.press(".vpo-lab .noUi-handle", LEFT)
    wait(browser, f"{text('.vpo-status')}.includes('finished')", LONG)
    browser.picture(str(folder / f"{part}.png"))
    curve = browser.ask(
        "return Array.from(document.querySelector('.js-plotly-plot').data"
        ".filter((t) => t.name === 'VPO' && t.xaxis === 'x2')[0].y)"
    )
    assert len(curve) == 40 and curve[-1] > 0.95, curve
    return f"VPO trained for 40 steps, coverage {curve[0]:.2f} to {curve[-1]:.2f}"


def paint(browser):
    """Edit the maze by letters, as a reader does."""
    before = browser.ask("return document.querySelector('.vpo-board').dataset.text")
    browser.click(".vpo-board button.edit")
    browser.press(".vpo-board svg.maze", RIGHT)
    browser.press(".vpo-board svg.maze", "g")
    changed = f"document.querySelector('.vpo-board').dataset.text !== {json.dumps(before)}"
    wait(browser, changed, 10)


def panel(browser, folder):
    """Notebook 00 in JupyterLab: run all, train, edit."""
    with harness.server(NOTEBOOKS[:1]) as address:
        run_all(browser, address, NOTEBOOKS[0])
        browser.ask("document.querySelector('.vpo-lab').scrollIntoView()")
        said = train(browser, folder, "panel")
        paint(browser)
    return f"{said}; a letter paints a square"


def classroom(browser, folder):
    """`vpo-lite classroom`: the panel as a page of Voila."""
    port = harness.free_port()
    command = [sys.executable, "-m", "vpo_lite.cli", "classroom", "--port", str(port)]
    command += ["--browser", "no"]
    with open(folder / "classroom.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            deadline = time.monotonic() + 120
            while b"http" not in (folder / "classroom.log").read_bytes():
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.3)
            browser.open(f"http://127.0.0.1:{port}")
            return train(browser, folder, "classroom")
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()


def run_all(browser, address, notebook):
    """Open a notebook in JupyterLab and run its cells; fails with their errors."""
    browser.open(f"{address}/lab/tree/{notebook.name}?reset")
    wait(browser, f"({harness.CONNECTED})()", 180)
    browser.ask("window.jupyterapp.shell.collapseLeft()")
    browser.ask(f"window.ran = 0; ({harness.RUN_ALL})().then(() => {{ window.ran = 1; }})")
    wait(browser, "window.ran", LONG)
    failed = browser.ask(f"return ({harness.FAILED_CELLS})()")
    assert not failed, f"{notebook.stem}: {failed}"


def notebooks(browser, folder):
    """All notebooks: every cell runs, every widget is shown."""
    scroller = "window.jupyterapp.shell.currentWidget.content.node"
    scroller = f"({scroller}.querySelector('.jp-WindowedPanel-outer') || {scroller})"
    for notebook in NOTEBOOKS:
        with harness.server([notebook]) as address:
            run_all(browser, address, notebook)
            for screen in range(100):
                time.sleep(0.3)  # what scrolls into sight is drawn
                lost = browser.ask(f"return document.body.textContent.includes('{harness.LOST}')")
                assert not lost, f"{notebook.stem}, screen {screen}: {harness.LOST}"
                browser.picture(str(folder / f"{notebook.stem[:2]}-{screen:02}.png"))
                there = browser.ask(f"return {scroller}.scrollTop")
                browser.ask(f"{scroller}.scrollTop += 560")
                if browser.ask(f"return {scroller}.scrollTop") == there:
                    break
        print(f"{browser.name}: {notebook.stem} ran", flush=True)
    return f"{len(NOTEBOOKS)} notebooks ran, no cell failed, no widget was lost"


PARTS = {part.__name__: part for part in (lesson, panel, classroom, notebooks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("browsers", nargs="+", choices=("firefox", "webkit"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--pictures", metavar="FOLDER", help="keep the pictures here")
    asked = parser.parse_args()
    told, failed = [], False
    for kind in asked.browsers:
        for part in asked.only:
            folder = Path(asked.pictures or tempfile.mkdtemp(prefix="vpo-other-")) / kind
            folder.mkdir(parents=True, exist_ok=True)
            browser = {"firefox": Firefox, "webkit": WebKit}[kind]()
            try:
                said = PARTS[part](browser, folder)
            except Exception as error:
                failed, said = True, f"FAILED: {error}"
                with contextlib.suppress(Exception):
                    browser.picture(str(folder / f"{part}-failed.png"))
            finally:
                told.append(f"{browser.name}, {part}: {said}")
                print(told[-1], flush=True)
                browser.quit()
    print("\n".join(["", *told]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
