"""The picture of the README: the live panel in JupyterLab after 40 steps of VPO on maze 1000.

    .venv/bin/python tests/benchmarks/readme_picture.py

Needs Debian's chromium. Writes notebooks/images/panel.png.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import browser_harness as harness  # noqa: E402

PICTURE = ROOT / "notebooks" / "images" / "panel.png"


def main():
    notebook = ROOT / "notebooks" / "00_start_here.ipynb"
    with harness.server([notebook]) as address, harness.browser(1500, 1000) as context:
        page = harness.Page(context, address).open(notebook.name, "doc/tree")
        page.run_all()
        page.look_at(".vpo-lab")
        page.page.wait_for_selector(".js-plotly-plot .main-svg")
        page.page.locator("button.vpo-train").click()
        page.wait_text(".vpo-status", "step 40 of 40", 600_000)
        page.wait_text(".vpo-status", "finished")
        page.page.wait_for_timeout(1500)  # the routes on the board arrive with an animation
        PICTURE.parent.mkdir(exist_ok=True)
        panel = page.page.locator(".vpo-lab").first
        panel.scroll_into_view_if_needed()
        panel.screenshot(path=str(PICTURE))
        print(page.text(".vpo-words"))
        page.close()


if __name__ == "__main__":
    main()
