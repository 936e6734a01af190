"""The lab on any task: one that the library has never heard of, whose d differs from problem to
problem and whose front nobody knows.
"""

from types import SimpleNamespace
from typing import ClassVar

import ipywidgets
import numpy as np
import pytest
from ipywidgets.widgets.widget import _instances
from lab_harness import WAIT
from small_models import model_folder

import envs
from vpo_lite.lab import Lab, Session
from vpo_lite.lab.faces import Face, _face
from vpo_lite.lab.judging import win_shares
from vpo_lite.lab.layout import Page
from vpo_lite.lab.space import cloud
from vpo_lite.lab.words import status_line
from vpo_lite.policy.tokenizer import word_tokenizer
from vpo_lite.tasks import Option, Prompt, Task
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training.loop import train

SMALL = {"prompts": 3, "group_size": 4, "steps": 3, "device": "cpu", "threads": 1}
LETTERS = "abcdefgh"


class Letters(Task):
    """Each answer is one letter; it earns the one objective that its number leaves over."""

    name, noun = "letters", "row"
    options = (
        Option("most", int, 4, "largest number of objectives", least=2),
        Option("which", int, 0, "the one problem with this number of objectives", least=0),
    )
    singles_out = ("which",)

    @property
    def single(self):
        return self.which != 0

    def instance(self, seed):
        return self.which or 2 + seed % (self.most - 1)  # the number of objectives

    def objectives(self, instance):
        return tuple(f"rest {i}" for i in range(instance))

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt(symbols=f"{m} {instance}")

    def parse(self, instance, text, m):
        words = [word if word in LETTERS else None for word in text.split()]
        return (words + [None] * m)[:m]

    def max_tokens(self, instance, m, pocket=None):
        return m if pocket else 100

    def score(self, instances, answers):
        numbers = (
            [LETTERS.index(a) % d for a in row] for d, row in zip(instances, answers, strict=True)
        )
        return [np.eye(d)[row].reshape(-1, d) for d, row in zip(instances, numbers, strict=True)]


class Shops(Letters):
    """Three objectives with names, a known front, and a request with letters of HTML in it."""

    name, noun = "shops", "shop"
    options = (Option("which", int, None, "the one shop with this number", least=0),)
    seeds: ClassVar = {"held_out": range(9), "train": range(9, 99)}

    @property
    def single(self):
        return self.which is not None

    def instance(self, seed):
        return 3

    def objectives(self, instance):
        return ("fast", "cheap", "safe")

    def front(self, instance):
        return np.eye(3)

    def prompt(self, instance, m, *, weights=None, pocket=None):
        if pocket is None:
            return Prompt.words(f'asked <b>"{instance}"')
        return super().prompt(instance, m, pocket=pocket)


class Plain(Letters):
    """No option singles out a problem."""

    name, options, singles_out, single = "plain", (Option("most", int, 4, "", least=2),), (), False

    def instance(self, seed):
        return 2 + seed % 3


class Counted(Letters):
    """A task of one's own on mazes: it is not the task of mazes."""

    name, options, singles_out, single = "counted", (), (), True

    def instance(self, seed):
        return envs.generate("lite-6x6", 1000)

    def objectives(self, instance):
        return ("gold", "steps")

    def prompt(self, instance, m, *, weights=None, pocket=None):
        return Prompt.words(f"Count in {instance.text}")


class Timed(MazeTask):
    """Mazes for two objectives: gold, and few moves."""

    def objectives(self, instance):
        return ("short", "gold")

    def score(self, instances, answers):
        whole = super().score(instances, answers)
        return [
            np.array([(r[0] * (1 - len(a) / 99), r[1]) for a, r in zip(row, R, strict=True)])
            for row, R in zip(answers, whole, strict=True)
        ]

    def front(self, instance):
        return None


class Listed(Shops):
    """Its front is a list of lists."""

    name = "listed"

    def front(self, instance):
        return [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


class Beyond(Shops):
    """Its rewards are -2 or 6, and a shop that cannot be read earns -2 in each."""

    name = "beyond"

    def score(self, instances, answers):
        return [8 * rewards - 2 for rewards in super().score(instances, answers)]

    def worst(self, instance):
        return np.full(3, -2.0)

    def front(self, instance):
        return 8 * np.eye(3) - 2


class Unknown(Beyond):
    name = "unknown"

    def front(self, instance):
        return None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A language model of random parameters that reads numbers and writes letters."""
    folder = tmp_path_factory.mktemp("models") / "letters"
    tokenizer = word_tokenizer(["<pad>", "<bos>", "<eos>", *"123456789", *LETTERS])
    ids = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    pocket = {"answers": 5}
    return str(model_folder(folder, tokenizer, 32, 48, 2, 2, 2, vpo_pocket=pocket, **ids))


@pytest.fixture(params=[Session, Lab])
def kind(request):
    return request.param


def trained(kind, model, methods="vpo", **settings):
    session = kind(methods, model=model, **SMALL | {"task": Letters} | settings)
    session.train()
    assert session.join(WAIT) and session.state == "finished", session.last_error
    return session


@pytest.mark.slow
def test_it_trains_pauses_and_goes_on_as_the_plain_loop_does(kind, model):
    session = kind(("vpo", "grpo"), task=Letters, model=model, **SMALL)
    assert session.many is False and session.view().many, "each step draws its problems"
    for done in (1, 2, 3):
        session.step()
        assert session.join(WAIT), session.last_error
        assert [len(run.records) for run in session.runs.values()] == [done, done]
    assert session.state == "finished"
    clocks = {"seconds": 0, "rollout_seconds": 0, "scoring_seconds": 0}
    for method, run in session.runs.items():
        plain = train(session.settings.configs[method])
        for ours, theirs in zip(run.records, plain, strict=True):
            assert ours.to_json() | clocks == theirs.to_json() | clocks
    sizes = {g.rewards.shape[-1] for r in session.records for g in r.groups}
    assert len(sizes) > 1


@pytest.mark.slow
def test_a_front_may_be_a_list(model):
    """It trained, and its curves, plots and words failed."""
    session, array = (trained(Lab, model, task=task, which=1) for task in (Listed, Shops))
    assert session.runs["vpo"].coverages(0.2) == array.runs["vpo"].coverages(0.2)
    assert session.figure().to_json() and session.sentence() == array.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("task", [Beyond, Unknown])
def test_rewards_and_worths_beyond_0_and_1_lie_between_the_ends_of_the_axes(model, task):
    """All but one answer, and most of what a search found, were out of sight."""
    figure = trained(Lab, model, task=task, which=1).figure()
    seen = 0
    for trace in figure.data:
        if trace.type == "scatter" and trace.yaxis in ("y", "y4") and trace.mode != "text":
            low, high = figure.layout[f"yaxis{trace.yaxis[1:]}"].range
            left, right = figure.layout[f"xaxis{trace.xaxis[1:]}"].range
            ends = 10.0 ** np.array([left - 1e-9, right]) if trace.yaxis == "y4" else (left, right)
            for x, y in zip(trace.x, trace.y, strict=True):
                if y is not None:
                    assert ends[0] <= x <= ends[1] + 1e-9 and low <= y <= high, (trace.name, x, y)
                    seen += y > 1.5
    assert seen, "there are such"
    assert figure.layout.xaxis.tickvals is None and Lab().figure().layout.xaxis.tickvals


@pytest.mark.slow
def test_what_is_seen_needs_no_front(kind, model):
    session = trained(kind, model)
    view = session.view()
    assert view.front is None and view.ceilings == () and view.target is None
    moment, record = view.focus.moment, view.focus.record
    d = moment.instance
    assert moment.rewards.shape == (3, d) and view.weights.shape == (64, d)
    assert win_shares(moment.rewards, 1.0).sum() == pytest.approx(1)
    answered = np.array([a is not None for row in record.groups[0].answers for a in row])
    assert moment.counts[moment.valid].sum() == answered.sum()
    text = session.sentence()
    assert text.startswith("VPO, step 3: sets of 3 have set reward ")
    assert f"{record.valid_rate:.0%} of the answers are valid" in " ".join(text.split())
    assert "many rows" in status_line(view) and "maze" not in text + status_line(view)
    assert kind("vpo", task=Letters, model=model, **SMALL).sentence() == (
        "Every step draws other rows."
    )


@pytest.mark.slow
def test_its_figure_has_the_curves_that_its_panel_offers(model):
    """It drew fields of a StepRecord, in a picture of its own."""
    lab = trained(Lab, model, ("vpo", "multi_rlvr"))
    figure = lab.figure(curves=("set reward", "entropy"))
    drawn = [(t.name, list(t.y)) for t in figure.data if t.type == "scatter"]
    for method, text in (("vpo", "VPO"), ("multi_rlvr", "Multi-RLVR")):
        for curve in ("set_reward", "entropy"):
            expected = [getattr(record, curve) for record in lab.runs[method].records]
            assert (text, pytest.approx(expected, abs=1e-9)) in drawn


@pytest.mark.slow
def test_its_share_code_and_its_recording_restore_all(kind, model, tmp_path):
    session = trained(kind, model, most=5)
    again = kind.from_code(session.share(), device="cpu", threads=1)
    assert again.config == session.config and again.config.task_options == {"most": 5}
    path = session.record(tmp_path, "by hand")
    replayed = kind.replay(tmp_path)
    assert replayed.state == "recorded" and replayed.sentence() == session.sentence()
    for ours, theirs in zip(replayed.records, session.records, strict=True):
        assert ours == theirs
        for g, h in zip(ours.groups, theirs.groups, strict=True):
            assert (g.instance, g.texts, g.answers) == (h.instance, h.texts, h.answers)
            assert np.array_equal(g.rewards, h.rewards)
            assert np.array_equal(g.advantages, h.advantages)
    other = replayed.record(tmp_path / "again", "by hand")
    assert other.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_rollouts_that_are_cut_off_are_named(model):
    """Not at the task's own limit, which holds the longest answers of this small policy."""
    for asked in ({"max_new_tokens": 3}, {}):
        session = trained(Session, model, steps=1, **asked)
        record = session.records[0]
        assert record.truncated_rate > 0.5, "this model rarely writes its end within 3 tokens"
        said = f"{record.truncated_rate:.0%} of the rollouts were cut off at 3 tokens"
        assert (said in status_line(session.view())) == bool(asked)


def test_a_lab_on_another_task_has_no_maze(model):
    with pytest.raises(AttributeError, match="has no maze"):
        _ = Lab(task=Letters, model=model, **SMALL).maze


@pytest.mark.parametrize("panel", ["widgets", "plain"])
def test_a_task_of_ones_own_on_mazes_has_the_panel_of_any_other_task(model, panel):
    """The panel raised AttributeError: it asked such a task for the layout of its mazes."""
    lab = Lab("vpo", task=Counted, model=model, panel=panel, **SMALL)
    assert "Count in" in _page(lab.panel) and lab.last_error is None
    assert lab.sentence() == "The true front of this row is not known."
    for asked in (lambda: lab.set_maze("S G\nD E"), lab.new_maze):
        with pytest.raises(ValueError, match=r"has no maze; use pick\(\.\.\.\) or next_problem"):
            asked()
    lab.close()


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["widgets", "plain"])
def test_the_panel_shows_the_answers_as_text_and_what_was_asked(model, panel):
    lab = Lab(("vpo", "grpo"), task=Shops, model=model, which=3, panel=panel, **SMALL)
    shown = lab.panel
    shown.pause = 0
    assert "asked &lt;b&gt;&quot;3&quot;" in _page(shown), "the request, escaped"
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    shown.draw()
    assert lab.last_error is None and "cannot be drawn" not in shown.status.value
    for run in lab.runs.values():
        for answer in run.moment.answers:
            assert (answer or "not readable") in _page(shown)
    assert "VPO" in _page(shown) and "GRPO" in _page(shown)
    figure = shown.plots.figure
    names = ("fast", "cheap", "safe")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == names[:2]
    corners = [figure.layout.ternary[f"{axis}axis"].title.text for axis in "abc"]
    assert corners == [f"<b>{name}</b>" for name in names]
    answers = next(t for t in figure.data if t.name == "VPO" and t.xaxis == "x" and t.x[0])
    moment = lab.runs["vpo"].moment
    counted = [text for text in answers.hovertext if "fast" in text]
    assert len(counted) == moment.valid.sum()
    lab.close()


@pytest.mark.slow
def test_a_maze_task_with_other_objectives_has_axes_of_its_own():
    """Its answers were left out of the plot, or stood under the names of the four objectives."""
    lab = Lab("vpo", task=Timed, maze_seed=1000, **SMALL | {"prompts": 1, "steps": 1})
    lab.train()
    assert lab.join(WAIT) and lab.state == "finished", lab.last_error
    figure = lab.figure()
    assert {figure.layout.xaxis.title.text, figure.layout.yaxis.title.text} == {"gold", "short"}
    answers = next(t for t in figure.data if t.name == "VPO" and t.xaxis == "x")
    assert any("short" in text for text in answers.hovertext)
    lab.close()


def test_answers_that_do_not_count_are_one_cross_whatever_they_earn():
    face = Face(names=("a", "b"), axes=(0, 1), axis_names=("a", "b"), corners=None)
    points = np.array([[1, 0], [0.5, 0], [0, 0.5], [0, 1]])
    valid, counts = np.array([True, False, False, True]), np.array([4, 1, 2, 13])
    moment = SimpleNamespace(points=points, valid=valid, counts=counts)
    drawn = cloud(face, "vpo", moment, 0, 1, [(0, 1), (0, 1)], Page())
    assert drawn["text"] == [" ", " ", "15% are not valid"]
    assert drawn["marker"]["symbol"][-1] == "x"
    assert [drawn["x"][:2], drawn["y"][:2]] == [[1, 0], [0, 1]]
    assert drawn["hovertext"][-1] == "VPO, 3 answers: 15% are not valid"
    moment.counts = np.array([1, 1, 0, 13])
    said = cloud(face, "vpo", moment, 0, 1, [(0, 1), (0, 1)], Page())["hovertext"]
    assert [text.partition(":")[0] for text in said] == [
        f"VPO, {count}" for count in ("1 answer", "13 answers", "1 answer")
    ]


@pytest.mark.slow
def test_the_panel_of_many_problems_of_several_sizes_is_drawn_at_every_step(model):
    lab = Lab(("vpo", "grpo"), task=Letters, model=model, **SMALL)
    shown, sizes = lab.panel, set()
    shown.pause = 0
    for _ in range(SMALL["steps"]):
        lab.step()
        assert lab.join(WAIT)
        shown.draw()
        assert lab.last_error is None, lab.last_error
        d = lab.view().instance
        sizes.add(d)
        assert shown.plots.figure.data[-1] is not None
        simplex = next(t for t in shown.plots.figure.data if t.name == "weightings")
        assert simplex.visible == (d == 3), "with three objectives, and with no other number"
        room = np.ptp(shown.plots.figure.layout.ternary.domain.x)
        assert (room > 0.05) == (d == 3), "else plotly.js draws an empty triangle over all"
    assert len(sizes) > 1
    lab.close()


def test_one_problem_is_refused_where_no_option_singles_one_out():
    """It was accepted, and the lab trained on many."""
    said = "many = False: no option of task '.*:Plain' singles out one problem"
    for lab in (Lab, Session):
        with pytest.raises(ValueError, match=said):
            lab(task=Plain, model="any", many=False)
    always = Session(task=Plain, model="any", many=True)
    with pytest.raises(ValueError, match=said):
        always.change(many=False)
    assert always.view().many and Session(task=Plain, model="any").view().many
    assert Session.from_code(Session(task=Plain, model="any").share()).view().many
    assert not Session(task=Letters, model="any", which=4, many=False).view().many


@pytest.mark.slow
def test_its_controls_are_those_that_mean_something_here(model):
    lab = Lab(task=Shops, model=model, **SMALL)
    controls = lab.panel.controls
    there = {widget.description for widget in _all_of(controls.box) if hasattr(widget, "value")}
    assert not there & {"maze", "maze layout"}
    texts = {text for text, *_ in controls.knobs["many"].options}
    assert texts == {"this shop", "many shops"}
    curves = [text for text, *_ in controls.curves[0].options]
    assert "share of valid answers" in curves
    assert not [text for text in curves if "gold" in text or "E" in text]
    for number in (0, 1):  # the first of the held-out problems, and the one after it
        controls.buttons["next_problem"].click()
        assert lab.settings.chosen == {"which": number}, lab.last_error
    lab.close()
    with pytest.raises(ValueError, match="no option that singles out a problem by its number"):
        Lab(task=Plain, model=model, **SMALL).next_problem()


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["widgets", "plain"])
def test_a_closed_panel_of_another_task_leaves_no_widget_open(model, panel):
    before = set(_instances)
    lab = Lab(task=Plain, model=model, panel=panel, **SMALL)
    assert lab.panel.box.children
    lab.close()
    assert len(set(_instances) - before) <= 2 + 4, "the box and its text, with their looks"


def test_the_axes_are_the_two_objectives_that_pull_hardest_against_each_other():
    rng = np.random.default_rng(0)
    for d in (2, 3, 5):
        front = rng.random((7, d))
        pulls = {
            (i, j): np.cov(front[:, i], front[:, j])[0, 1]
            for i in range(d)
            for j in range(i + 1, d)
        }
        assert _face(tuple("abcde"[:d]), front).axes == min(pulls, key=pulls.get)
    fixed = np.array([[1.0, 0, 1, 0.2, 5], [1, 1, 0, 0.7, 5]])
    assert _face(tuple("abcde"), fixed).corners == (1, 2, 3), "those that differ"
    assert _face(tuple("abcd"), np.eye(4)).corners is None
    assert _face(("one",), np.ones((1, 1))).axes == (0, 0)


def _page(panel) -> str:
    """All that stands in the HTML of a panel, and what its board got."""
    texts = [w.value for w in _all_of(panel.box) if isinstance(w, ipywidgets.HTML)]
    board = [str(panel.board.groups)] if hasattr(panel, "board") else []
    return "\n".join([*texts, *board])


def _all_of(box):
    yield box
    for inner in getattr(box, "children", ()):
        yield from _all_of(inner)


def test_the_options_that_single_out_a_problem_stand_apart():
    one = Session("vpo", task=Letters, model="any", which=4, most=3)
    assert one.settings.chosen == {"which": 4} and one.config.task_options == {
        "most": 3,
        "which": 4,
    }
    assert one.config.single and one.instance == 4 and not one.view().many
    one.change(many=True)
    assert one.config.task_options == {"most": 3} and one.view().many
    assert one.instance == 4, "kept, to look at and to return to"
    one.change(many=False).pick("Problem 5.", which=5)
    assert one.config.task_options["which"] == 5 and one.instance == 5
    assert one.view().message == "Problem 5."
    with pytest.raises(ValueError, match=r"which: another problem; use pick\(which=6\)"):
        one.change(which=6)
    with pytest.raises(ValueError, match="which = -1"):
        one.pick(which=-1)
    assert one.instance == 5
    again = Session.from_code(one.share())
    assert again.settings.chosen == {"which": 5} and again.config.task_options["most"] == 3
