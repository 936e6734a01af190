"""The room of the lab: who knows what of whom, and what is loaded when."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vpo_lite
from vpo_lite.lab import Lab
from vpo_lite.lab.buttons import BUTTONS

ROOM = Path(vpo_lite.__file__).parent / "lab"


def privates_of_self(source):
    return set(re.findall(r"\bself\.(_[a-z]\w*)", source))


def test_the_lab_of_mazes_uses_nothing_inside_the_session():
    session, lab = ((ROOM / f"{n}.py").read_text() for n in ("session", "maze_lab"))
    assert privates_of_self(session) & privates_of_self(lab) == set()
    assert privates_of_self(lab) == {"_panel", "_panel_kind"}


def test_every_button_asks_for_what_a_lab_can_do():
    assert all(callable(getattr(Lab, request)) for request in BUTTONS)


def python(code):
    environment = os.environ | {"VPO_LITE_COLD": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_a_lab_without_a_screen_needs_no_widgets_and_no_plotly(tmp_path):
    code = f"""
import sys
for name in ("ipywidgets", "anywidget", "plotly", "IPython", "traitlets"):
    sys.modules[name] = None  # importing it fails
from vpo_lite.lab import Lab
lab = Lab("vpo", steps=1, prompts=1, group_size=4)
assert "torch" not in sys.modules
lab.train()
assert lab.join() and lab.state == "finished", lab.last_error
lab.record({str(tmp_path)!r})
again = Lab.replay({str(tmp_path)!r})
assert again.sentence() == lab.sentence() and again.picture() == lab.picture()
try:
    lab.figure()
except ImportError as error:
    print(error.name)
"""
    assert python(code).startswith("plotly")


@pytest.mark.slow
def test_looking_at_a_recording_loads_no_torch():
    code = """
import sys
from vpo_lite.lab import Lab
lab = Lab.replay("silent_bug/a")
lab.figure(), lab.picture(), lab.sentence()
print("torch" in sys.modules, "ipywidgets" in sys.modules)
"""
    assert python(code) == "False False"
