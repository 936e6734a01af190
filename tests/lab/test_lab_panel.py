"""The panel's widgets, without a browser."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import weakref

import ipywidgets
import nbformat
import pytest
from ipywidgets.widgets.widget import _instances
from lab_harness import WAIT, until
from nbclient import NotebookClient

from vpo_lite.estimators import METHODS, method
from vpo_lite.lab import Lab
from vpo_lite.lab import panel as panels
from vpo_lite.lab.controls import ABOVE, NO_NAME
from vpo_lite.lab.drawings import board_groups
from vpo_lite.lab.panel import PlainPanel, renderer

PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(params=["widgets", "plain"])
def panel(slow, request):
    lab = Lab(steps=1000, panel=request.param)
    lab.panel.pause = 0.0  # a plain panel rests for a second between two drawings
    yield lab.panel
    lab.close()


@pytest.mark.slow
def test_panel_follows_training_and_its_controls_act(panel):
    lab, knobs, buttons = panel.lab, panel.controls.knobs, panel.controls.buttons
    buttons["train"].click()
    assert until(lambda: "training" in panel.status.value and "step 1 of" in panel.status.value)
    assert buttons["train"].disabled and not buttons["stop"].disabled
    knobs["alpha"].value = 0.2
    knobs["K"].value = math.inf
    assert lab.config.alpha == 0.2 and lab.config.K == math.inf
    assert until(lambda: lab.records[-1].alpha == 0.2)
    knobs["methods"].value = ("grpo",)
    assert until(
        lambda: buttons["train"].description == "Train anew" and not buttons["train"].disabled
    )
    buttons["pause"].click()
    assert until(lambda: lab.state == "paused") and until(lambda: not buttons["step"].disabled)
    assert until(lambda: "paused" in panel.status.value)
    assert panel.status.value.lower().count("paused") == 1, "once is enough"
    knobs["methods"].value = ("vpo",)
    assert until(lambda: buttons["train"].description == "Go on")
    count = len(lab.records)
    buttons["step"].click()
    assert lab.join(WAIT) and len(lab.records) == count + 1
    said = "Press Go on to continue"  # the name that the button has then
    assert until(lambda: said in panel.status.value) and buttons["train"].description == "Go on"
    buttons["reset"].click()
    assert until(lambda: "ready" in panel.status.value and panel.progress.value == 0)
    buttons["new_maze"].click()
    assert until(lambda: "maze 1001" in panel.status.value)


@pytest.mark.slow
def test_every_control_has_a_description(panel):
    for name, knob in panel.controls.knobs.items():
        assert knob.description, name
    for name, button in panel.controls.buttons.items():
        assert button.description and button.tooltip, name


@pytest.mark.slow
def test_controls_follow_changes_made_in_code(panel):
    panel.lab.change(alpha=0.5, K=77, m=5, steps=300, methods=("gdpo", "maxrl"))
    knobs = panel.controls.knobs
    assert until(
        lambda: knobs["alpha"].value == 0.5 and knobs["K"].value == 77 and knobs["m"].value == 5
    )
    assert until(
        lambda: knobs["steps"].value == 300 and knobs["methods"].value == ("gdpo", "maxrl")
    )
    assert panel.lab.config.K == 77, "following is no change"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knob", "shown"),
    [("K", 77), ("group_size", 20), ("alpha", 0.37), ("alpha", 150.0), ("lr", 0.0007), ("lr", 1.0)],
)
def test_a_slider_learns_a_value_and_keeps_its_order(panel, knob, shown):
    slider = panel.controls.knobs[knob]
    panel.lab.change(**{knob: shown})
    code = panel.lab.share()
    label = f"{shown:g}"  # the index is the last that the widget sets
    assert until(lambda: slider.options[slider.index][0] == label), panel.status.value
    places = [float(text.replace("∞", "inf")) for text, _ in slider.options]
    assert places == sorted(places) and places.count(shown) == 1 and slider.value == shown
    assert getattr(panel.lab.config, knob) == shown and panel.lab.share() == code


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.06, 0.37, 15.0, 20.0])
def test_the_ends_of_a_slider_stay_while_it_can_show_the_value(panel, alpha):
    """Otherwise the handle jumps when somebody moved it to an end and chooses another maze."""
    slider = panel.controls.knobs["alpha"]
    panel.lab.change(alpha=alpha)
    assert until(lambda: slider.options[slider.index][1] == alpha), slider.value
    ends = slider.options[0][1], slider.options[-1][1]
    assert ends == (0.05, 20) and panel.lab.config.alpha == alpha


@pytest.mark.slow
def test_k_is_offered_while_a_method_on_show_or_chosen_draws_k_weights(panel):
    """Under GRPO it could be turned, and changed nothing that GRPO does."""
    lab, K = panel.lab, panel.controls.knobs["K"]
    assert not K.disabled and K.tooltip == "weights drawn for each prompt"
    lab.change(methods="grpo")
    assert until(lambda: K.disabled) and "draws no K weights" in K.tooltip
    lab.change(methods=("vpo", "grpo"))
    assert until(lambda: not K.disabled)
    lab.change(methods="random_weighting")  # draws one
    assert until(lambda: K.disabled)
    lab.change(methods="vpo").train()
    assert until(lambda: lab.records)
    lab.change(methods="grpo")
    assert until(lambda: panel.controls.buttons["train"].description == "Train anew")
    assert not K.disabled, "it acts on the run under way"


@pytest.mark.slow
def test_a_knob_shows_what_is_trained_beyond_its_usual_ends(slow):
    lab = Lab(alpha=0.01, lr=0.1, seed=2**40, panel="plain")
    knobs = lab.panel.controls.knobs
    assert [knobs[name].value for name in ("alpha", "lr", "seed")] == [0.01, 0.1, 2**40]
    lab.change(alpha=150.0)
    assert until(lambda: knobs["alpha"].value == 150), knobs["alpha"].value
    assert lab.config.alpha == 150 and lab.config.lr == 0.1, "following is no change"
    lab.close()


@pytest.mark.slow
def test_the_number_beside_a_slider_is_the_one_that_is_set(panel):
    """A slider of another kind stood at 0.32 for 0.3, and made 3.2 of 3."""
    lab, alpha = panel.lab, panel.controls.knobs["alpha"]
    marks = [value for _, value in alpha.options]
    assert {0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0} <= set(marks)
    ratios = [after / before for before, after in itertools.pairwise(marks)]
    assert len(marks) == 27 and min(ratios) > 1.19 and max(ratios) < 1.34
    for value in marks:
        alpha.value = value
        assert lab.config.alpha == value and f"{value:g}" == alpha.options[alpha.index][0]
    alpha.value = 0.3
    assert until(lambda: "At α = 0.3 the best" in panel.words.value)


@pytest.mark.slow
def test_a_panel_on_a_page_without_room_is_drawn(slow):
    lab = Lab()
    panel = lab.panel
    for room in (93, 60):  # of 93 pixels 84 are the plots' margins, and eight the board's
        panel.board.room = room
        panel.draw()
        assert panel.plots.figure.layout.width == 120
    assert "cannot be drawn" not in panel.status.value and lab.last_error is None
    lab.close()


def test_group_sizes_hold_the_one_with_equal_answers(panel):
    """GRPO with G = 48 writes as many answers as VPO with 16 rollouts of 3."""
    knob = panel.controls.knobs["group_size"]
    knob.value = next(value for text, value in knob.options if text == "48")
    assert panel.lab.config.group_size == 3 * 16


@pytest.mark.slow
def test_error_in_a_callback_appears_in_the_panel(panel, capsys):
    panel.controls.knobs["seed"].observe(
        lambda change: panel.act(panel.lab.change, change["new"]), "value"
    )
    panel.act(panel.lab.change, 3)  # change() takes no positional argument
    assert until(lambda: "TypeError" in panel.status.value) and "Traceback" in panel.lab.last_error
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_an_error_takes_the_place_of_what_an_earlier_request_said(panel):
    panel.controls.code.value = Lab("vpo", alpha=0.3, seed=7).share()
    assert until(lambda: "Restored" in panel.status.value)
    panel.controls.code.value = "vpo2:broken"
    assert until(lambda: "Error" in panel.status.value) and "Restored" not in panel.status.value
    assert panel.lab.config.alpha == 0.3


@pytest.mark.slow
def test_nothing_prints_from_threads(panel, capfd):
    panel.controls.buttons["train"].click()
    assert until(lambda: len(panel.lab.records) >= 3)
    panel.lab.stop()
    panel.lab.join(WAIT)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_one_drawing_thread_for_any_number_of_panels(slow):
    labs = [Lab(steps=2) for _ in range(3)]
    for lab in labs:
        lab.panel.draw()
        lab.change(alpha=0.7)
    assert [t.name for t in threading.enumerate()].count("vpo-lite drawing") == 1
    for lab in labs:
        lab.close()


@pytest.mark.slow
def test_the_drawing_thread_holds_no_panel_while_it_waits(slow):
    class Drawn:
        done = 0

        def draw(self):
            Drawn.done += 1

    panel = Drawn()
    gone = weakref.ref(panel)
    renderer.wake(panel)
    assert until(lambda: Drawn.done)
    del panel
    assert until(lambda: gone() is None)


@pytest.mark.slow
def test_panels_are_drawn_at_most_ten_times_a_second(slow, monkeypatch):
    lab = Lab(steps=2)
    drawn = []
    monkeypatch.setattr(lab.panel, "draw", lambda: drawn.append(lab.config.alpha))
    began = time.monotonic()
    for i in range(300):
        lab.change(alpha=1 + i / 100)
        time.sleep(0.001)
    assert until(lambda: drawn and drawn[-1] == lab.config.alpha), "the last value always arrives"
    most = 2 + 10 * (time.monotonic() - began)  # the first at once, the last one when it is due
    assert len(drawn) <= most, f"{len(drawn)} drawings of 300 changes, at most {most:.1f}"
    lab.close()


@pytest.mark.parametrize("kind", ["widgets", "plain"])
def test_a_closed_panel_leaves_no_widget_that_names_a_closed_one(kind):
    """Such a widget cannot be restored, and a page that fails at one restores none."""
    before = set(_instances)
    lab = Lab(panel=kind)
    box = lab.panel.box
    lab.close()
    left = {w for i, w in _instances.items() if i not in before}
    (said,) = box.children
    assert "closed" in said.value and {box, said} <= left
    for widget in left:
        held = [v for v in widget.trait_values().values() if isinstance(v, ipywidgets.Widget)]
        held += getattr(widget, "children", ())
        assert all(w.comm is not None for w in held), widget
    assert len(left) <= 2 + 4, "the box and its text, with their layouts and styles"


@pytest.mark.slow
def test_plain_panel_where_custom_widgets_do_not_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    lab = Lab(steps=1)
    assert isinstance(lab.panel, PlainPanel) and "<svg" in lab.panel.maze.value
    lab.close()
    monkeypatch.delitem(sys.modules, "google.colab")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert isinstance(Lab(steps=1).panel, PlainPanel)


@pytest.mark.long
def test_a_plain_panel_redraws_its_figure_where_it_is():
    """Until 0.2.0 each drawing was one figure more."""
    show = """
import json, time
from vpo_lite.lab import Lab
lab = Lab(steps=3, prompts=1, group_size=4, panel="plain")
lab.panel.pause = 0.0
display(lab.panel)
drawn = lambda: lab.panel.plots.figure.to_json()
print(drawn())
"""
    train = f"""
lab.train()
assert lab.join({WAIT})
until = time.monotonic() + {WAIT}
while "finished" not in lab.panel.status.value and time.monotonic() < until: time.sleep(0.05)
"""
    again, told = "display(lab.panel)", "print(drawn())"  # the first copy stood still
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in (show, again, train, told)]
    NotebookClient(notebook, timeout=2 * WAIT, kernel_name="python3").execute()
    outputs = [o for cell in notebook.cells for o in cell.outputs]
    figure, copy = [o.data[PLOTLY] for o in outputs if PLOTLY in o.get("data", {})]
    before, after = [json.loads(o.text) for o in outputs if o.output_type == "stream"]
    assert figure["data"] == copy["data"] == after["data"] != before["data"]


@pytest.mark.slow
def test_all_copies_of_a_plain_panel_are_one_display_and_end_together(monkeypatch):
    shown, sent = [], []

    class Handle:
        def display(self, figure, raw):
            shown.append(self)

        def update(self, figure, raw):
            sent.append(figure)

    monkeypatch.setattr(panels, "DisplayHandle", Handle)
    monkeypatch.setattr(panels, "display", lambda box: None)
    lab = Lab(panel="plain", maze_seed=1000)
    lab.panel.pause = 0.0
    for _ in range(2):
        lab.panel._ipython_display_()
    assert len(shown) == 2 and shown[0] is shown[1]
    lab.change(alpha=0.1)
    assert until(lambda: sent)
    panel = lab.panel
    lab.close()
    lab.change(alpha=0.3)
    panel.draw()  # the drawing thread may have been asked before
    assert sent[-1] == {"text/plain": "This panel was closed. Run its cell again."}


def test_a_method_that_is_defined_after_the_panel_is_refused_there():
    """It was trained, and then the panel could not be drawn any more."""
    lab = Lab(maze_seed=1000)
    made = lab.panel
    try:

        @method()
        def defined_late(R, *, eps, **_):
            scores = R.mean(axis=-1).min(axis=-1)
            return scores, scores - scores.mean(axis=1, keepdims=True)

        with pytest.raises(ValueError, match="was opened before defined_late was defined; open"):
            lab.change(methods="defined_late")
        assert lab.methods == ("vpo",) and lab.panel is made
    finally:
        METHODS.pop("defined_late", None)
        lab.close()


@pytest.mark.slow
def test_a_knob_does_not_follow_its_own_turns(panel):
    """The knob has gone further when the drawing of its last turn comes: it must not jump back."""
    controls, lab = panel.controls, panel.lab
    with panel._drawing:  # no drawing by the thread meanwhile
        controls.knobs["alpha"].value = 0.2
        late = lab.view()
        controls.knobs["alpha"].value = 0.4
        controls.follow(late)
        assert controls.knobs["alpha"].value == 0.4 and lab.config.alpha == 0.4
        controls.follow(lab.view())
        assert controls.knobs["alpha"].value == 0.4


@pytest.mark.slow
def test_a_knob_follows_a_change_in_code_right_after_its_own_turn(panel):
    controls, lab = panel.controls, panel.lab
    with panel._drawing:
        lab.change(alpha=0.7, m=4)
        controls.knobs["alpha"].value = 0.2
        controls.follow(lab.view())
    assert controls.knobs["m"].value == 4 and controls.knobs["alpha"].value == 0.2


@pytest.mark.slow
def test_the_plots_of_a_panel_that_trained_follow_it_when_there_is_a_newer_lab(slow):
    lab = Lab(steps=1)
    trace = lab.panel.plots.figure.data[lab.panel.plots.names["weightings"]]
    lab.train()
    assert lab.join(WAIT) and until(lambda: "finished" in lab.panel.status.value)
    Lab("grpo")
    lab.change(K=128)
    assert until(lambda: len(trace.a) == 128), "a dot for each weight"
    lab.close()


@pytest.mark.slow
def test_the_plots_follow_although_a_browser_left_while_it_opened_the_panel(slow):
    lab = Lab()
    trace = lab.panel.plots.figure.data[lab.panel.plots.names["weightings"]]
    lab.panel.board.set_state({"ready": False})  # a page told that it had no plots yet
    lab.change(K=128)
    assert until(lambda: len(trace.a) == 128), "those of other pages stand"
    lab.close()


@pytest.mark.slow
def test_the_slider_of_time_looks_back_and_returns(panel):
    lab, controls = panel.lab, panel.controls
    assert controls.look.max == 1000, "the end that the key End will know"
    lab.change(steps=3)
    lab.train()
    assert lab.join(WAIT) and until(lambda: controls.look.max == controls.look.value == 3)
    controls.look.value = 2
    assert lab.view().look == 2 and until(lambda: "step 2 of 3" in panel.status.value)
    assert controls.look.value == 2 and controls.look.max == 3
    controls.look.value = 3
    assert lab.view().look is None and until(lambda: "step 3 of 3" in panel.status.value)


@pytest.mark.slow
def test_the_share_code_goes_out_and_comes_in(panel):
    lab, controls = panel.lab, panel.controls
    assert until(lambda: controls.code.value == lab.share())
    controls.code.value = Lab(maze_seed=1012, alpha=0.3).share()
    assert lab.maze_seed == 1012 and until(lambda: controls.knobs["alpha"].value == 0.3)
    controls.code.value = "VPO2-nonsense"
    assert until(lambda: "no share code" in panel.status.value) and lab.maze_seed == 1012
    for _ in range(3):  # nobody took the error away
        panel._last = 0
        panel.draw()
        assert "no share code" in panel.status.value and controls.code.value == "VPO2-nonsense"


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", "VPO2-nonsense"])
def test_the_code_of_now_takes_the_error_of_a_wrong_one_away(panel, wrong):
    """The field held it already, so nothing was sent, and the error stayed beside a good code."""
    lab, code = panel.lab, panel.controls.code
    for right in (lab.share(), f" {lab.share()} "):
        code.value = wrong
        assert until(lambda: "no share code" in panel.status.value)
        panel.draw()
        assert code.value == wrong, "to type the right one is a change, which the kernel hears of"
        code.value = right
        assert until(lambda: "no share code" not in panel.status.value)
        assert until(lambda: code.value == lab.share())
    code.value = wrong
    assert until(lambda: "no share code" in panel.status.value)
    panel.controls.buttons["reset"].click()
    assert until(lambda: "Error" not in panel.status.value and code.value == lab.share())


@pytest.mark.slow
def test_a_seed_that_is_refused_says_so_and_the_seed_of_now_takes_the_error_away(panel):
    """-5 became 0 in silence, and an error of before stayed."""
    lab, seed = panel.lab, panel.controls.knobs["seed"]
    seed.value = -5
    assert until(lambda: "seed = -5: must be a whole number" in panel.status.value)
    assert lab.config.seed == 0
    panel.draw()
    assert seed.value == -5
    seed.value = 0
    assert until(lambda: "Error" not in panel.status.value)
    seed.value = -7
    assert until(lambda: "seed = -7" in panel.status.value)
    panel.controls.buttons["reset"].click()
    assert until(lambda: "Error" not in panel.status.value and seed.value == 0), "as it is"


@pytest.mark.slow
def test_an_error_names_no_code_that_an_audience_could_not_run(panel):
    panel.controls.code.value = "VPO2-nonsense"
    assert until(lambda: "no share code" in panel.status.value)
    read = re.sub(r'title="[^"]*"', "", panel.status.value)
    assert "last_error" in panel.status.value and "last_error" not in read


@pytest.mark.slow
def test_a_setting_that_cannot_work_is_refused_in_the_panel(slow):
    lab = Lab("vpo", group_size=2, panel="plain")
    lab.panel.controls.knobs["methods"].value = ("vpo", "grpo")
    assert lab.methods == ("vpo",)
    assert until(lambda: "m = 3 with group_size = 2" in lab.panel.status.value), (
        "what comes while the panel rests is drawn afterwards"
    )
    lab.panel.controls.buttons["reset"].click()
    assert until(lambda: "group_size" not in lab.panel.status.value), "gone with the next request"
    lab.close()


@pytest.mark.slow
def test_a_turn_of_a_knob_is_drawn_once_and_at_once(panel, monkeypatch):
    """A drawing of the old state before it would hold the new one back for a tenth of a second."""
    wakes = []
    monkeypatch.setattr(panel, "wake", lambda: wakes.append(panel.lab.config.alpha))
    panel.controls.knobs["alpha"].value = 0.2
    assert wakes == [0.2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["widgets", "plain"])
def test_a_change_while_the_panel_is_drawn_for_the_first_time_is_drawn(slow, monkeypatch, kind):
    """Nobody watched yet: the panel showed the state of before until something else changed."""
    lab, changed = Lab(panel=kind), []

    def groups(view):
        if not changed:
            changed.append(lab.change(alpha=0.3))
        return board_groups(view)

    monkeypatch.setattr("vpo_lite.lab.panel.board_groups", groups)
    assert until(lambda: "At α = 0.3 the best" in lab.panel.words.value)
    lab.close()


@pytest.mark.slow
def test_a_panel_that_cannot_be_drawn_says_so_and_keeps_the_traceback(panel, monkeypatch):
    monkeypatch.setattr("vpo_lite.lab.panel.board_groups", lambda view: 1 / 0)
    panel.pause = 0.0
    panel.draw()
    assert "cannot be drawn" in panel.status.value and "division by zero" in panel.status.value
    assert "ZeroDivisionError" in panel.lab.last_error


@pytest.mark.slow
def test_the_panel_works_on_a_machine_without_anywidget():
    """0.1.0 needed it for the words under the pictures, even in the panel that does without."""
    code = """
import sys
sys.modules["anywidget"] = None
from vpo_lite.lab import Lab
lab = Lab("vpo", steps=1)
print(type(lab.panel).__name__, "svg" in lab.panel.maze.value, lab.panel.status.value[:400])
"""
    environment = os.environ | {"VPO_LITE_COLD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.startswith("PlainPanel True") and "ready" in done.stdout, done.stderr


@pytest.mark.slow
def test_a_maze_of_the_gallery_is_chosen_with_the_m_that_shows_its_point(panel):
    controls, lab = panel.controls, panel.lab
    controls.maze.value = "alpha matters"
    assert lab.maze_name == "alpha matters" and lab.config.m == 2
    assert until(lambda: controls.knobs["m"].value == 2)
    assert until(lambda: "Alpha decides the pair" in panel.status.value), "what to look for"
    controls.maze.value = "three needed"
    assert lab.maze_name == "three needed" and lab.config.m == 3
    controls.buttons["new_maze"].click()
    assert until(lambda: controls.maze.value == NO_NAME)
    assert controls.maze.options[0] == ("1107", NO_NAME), "the maze of now, which has no name"
    lab.new_maze("fork")
    assert until(lambda: controls.maze.value == "fork"), "it follows what code does"


@pytest.mark.slow
def test_another_layout_keeps_the_seed_and_takes_the_policy_that_reads_it(panel):
    panel.controls.layout.value = "paper-9x9"
    assert panel.lab.config.task_options["layout"] == "paper-9x9" and panel.lab.maze_seed == 1000
    assert panel.lab.config.base_model == "pocket-9x9"
    panel.lab.new_maze(1003, layout="lite-6x6")
    assert until(lambda: panel.controls.layout.value == "lite-6x6")


@pytest.mark.slow
def test_a_maze_that_the_policy_cannot_read_changes_nothing_and_its_choosers_come_back(slow):
    """m was that of the refused maze, and the chooser of layouts stayed at the refused one."""
    lab = Lab(model="pocket-6x6")
    controls, status = lab.panel.controls, lab.panel.status
    for chooser, wrong in ((controls.maze, "large fork"), (controls.layout, "paper-9x9")):
        before, settings = chooser.value, lab.settings
        chooser.value = wrong
        assert until(lambda: "does not fit this policy" in status.value)
        assert lab.settings == settings
        controls.knobs["alpha"].index += 1  # a request that works
        assert until(lambda c=chooser, b=before: c.value == b), chooser.value
        assert until(lambda: "does not fit" not in status.value)
    lab.close()


@pytest.mark.slow
def test_what_is_drawn_is_asked_of_the_lab_and_follows_it(panel):
    controls = panel.controls
    controls.judge.value, controls.routes.value = 1.0, "front"
    assert panel.lab.view().showing.alpha == 1 and panel.lab.view().showing.routes == "front"
    panel.lab.show(alpha=None, routes="best set")
    assert until(lambda: controls.judge.value == ABOVE and controls.routes.value == "best set")
    panel.lab.show(alpha=0.25)
    assert until(lambda: controls.judge.value == 0.25), "a value that the knob has to learn"


@pytest.mark.slow
def test_record_writes_a_file_and_says_where(panel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel.controls.buttons["record"].click()
    assert until(lambda: "no runs yet" in panel.status.value)
    panel.lab.change(steps=1).train()
    assert panel.lab.join(WAIT), panel.lab.last_error
    panel.controls.buttons["record"].click()
    assert until(lambda: "recordings/vpo-maze-1000-1" in panel.status.value)
    assert list(tmp_path.glob("recordings/*/recording.json"))
