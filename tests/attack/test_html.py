"""Hostile texts on every page: no tag and no attribute may come from the data."""

import dataclasses
import json
from html.parser import HTMLParser

import pytest
from lab_attacks import FIGURES, group

import envs
from vpo_lite import TrainConfig
from vpo_lite.figures.looks import look
from vpo_lite.lab import Lab
from vpo_lite.lab.lesson import Lesson, _page
from vpo_lite.lab.panel import PlainPanel, _emphasised
from vpo_lite.lab.recordings import read
from vpo_lite.lab.view import SeenRun
from vpo_lite.lab.words import status_line
from vpo_lite.markup import Html, html, joined
from vpo_lite.pages import write_report
from vpo_lite.training.record import StepRecord

PLAIN = "harmless"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</script><script>alert(1)</script>",
    "</title></style><body onload=alert(1)>",
    "<!--",
    "--><b>",
    "<a href='javascript:alert(1)'>x</a>",
    "&lt;b&gt;<b>&#60;b&#62;",
    "{} {0} {x} %s %(x)s",
    "]]><x>",
    "<\x01b>",
    "\u2028<b>\u2029",
)


class Skeleton(HTMLParser):
    """The tags of a page with their attributes, in order; texts and scripts apart."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.scripts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, attributes))

    def handle_endtag(self, tag):
        self.tags.append(("/" + tag, []))

    def handle_comment(self, data):
        self.tags.append(("!--", data))

    def handle_decl(self, decl):
        self.tags.append(("!", decl))

    def handle_data(self, data):
        inside = self.cdata_elem in ("script", "style")  # from Python 3.14 on it may be a title
        (self.scripts if inside else self.texts).append(data)


def assert_only_text(page, text, shown=None):
    """page(text) has the tags of page(PLAIN), and shows the text as it is, or as what is given."""
    hostile, plain = Skeleton(page(text)), Skeleton(page(PLAIN))
    assert hostile.tags == plain.tags
    assert (shown or text) in "".join(hostile.texts)
    return hostile


pytestmark = pytest.mark.usefixtures("cold")


def test_the_skeleton_finds_what_is_not_escaped():
    for text in HOSTILE[:3]:
        with pytest.raises(AssertionError):
            assert_only_text(lambda t: f"<p>{t}</p>", text)
    with pytest.raises(AssertionError):
        assert_only_text(lambda t: f"<p title='{t}'>{t}</p>", HOSTILE[3])


@pytest.mark.parametrize("text", HOSTILE)
def test_the_one_place_escapes(text):
    assert_only_text(lambda t: html("<p>{}</p>", t), text)
    assert_only_text(lambda t: html("<p title=\"{}\" class='{}'>{}</p>", PLAIN, PLAIN, t), text)
    assert_only_text(lambda t: joined([t, html("<br>"), t], between=t), text)
    attributes = [("title", text), ("class", text)]
    assert Skeleton(html("<p title=\"{}\" class='{}'>x</p>", text, text)).tags[0][1] == attributes
    assert html("{}", html("{}", text)) == html("{}", text), "once is enough"
    assert joined([Html(text)]) == text


@pytest.fixture(scope="module")
def recording():
    return read("few_weights/K-64")


@pytest.mark.parametrize("text", HOSTILE)
def test_the_page_of_a_lesson(recording, few_alphas, text):
    """Names and commands: in the texts, and in the data that the page's script reads."""

    def page(t):
        both = {t: recording._replace(command=t), "other": recording}
        return _page(Lesson.of(both))

    hostile = assert_only_text(page, text)
    data = json.loads(hostile.scripts[1])  # after the style sheet
    assert data["runs"][0]["label"].startswith("VPO (")
    assert hostile.scripts[1:] != Skeleton(page(PLAIN)).scripts[1:]


@pytest.mark.parametrize("text", HOSTILE)
def test_m6_the_status_line_and_the_sentence(text):
    lab = Lab.replay("silent_bug/a")
    view, run = lab.view(), lab.view().runs[0]

    def named(t):
        other = SeenRun(t, run.config, run.records, run.moments)
        return dataclasses.replace(view, runs=(other,), active=(t,))

    pages = (
        lambda t: status_line(named(t)),
        lambda t: status_line(dataclasses.replace(view, message=t)),
        lambda t: status_line(dataclasses.replace(view, error=t)),
        lambda t: status_line(dataclasses.replace(view, restart=t)),
        lambda t: status_line(dataclasses.replace(view, state=t)),
    )
    said = "".join(text.replace(":", "").splitlines())  # a colon or a new line ends what is bold
    assert_only_text(lambda t: _emphasised(f"{t}, step 3: it ends"), said)
    assert_only_text(lambda t: _emphasised(f"A sentence; {t}"), said)
    for page in pages:
        assert_only_text(page, text)
    # a title of a board's group is drawn as HTML by the plain panel
    assert_only_text(lambda t: html("<b>{}</b>", look(t).text), text)


@pytest.fixture
def panel():
    lab = Lab(panel="plain")
    lab.panel.pause = 0
    yield lab.panel
    lab.close()


@pytest.mark.parametrize("text", HOSTILE)
def test_the_panel_shows_messages_errors_and_commands_as_texts(panel, text):
    assert isinstance(panel, PlainPanel)
    lab = panel.lab

    def after(request):
        def page(t):
            request(t)
            panel.draw()
            return panel.status.value + panel.words.value + panel.maze.value

        return page

    assert_only_text(after(lambda t: lab.pick(t, maze_seed=1003)), text)
    if text.splitlines() == [text]:
        written_out = text.replace("\x01", "\\x01")
        assert_only_text(after(lambda t: lab.report(ValueError(t))), text, written_out)
        lab.report(None)
    panel.act(lab.load, text)
    panel.act(lab.set_maze, text)
    panel.act(lambda: lab.change(model=5, alpha=text))
    panel.draw()
    assert {tag for tag, _ in Skeleton(panel.status.value).tags} <= {
        *("div", "/div", "b", "/b", "br", "span", "/span")
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_the_panel_that_cannot_be_drawn(panel, text, monkeypatch):
    def page(t):
        def fails():
            raise RuntimeError(t)

        with monkeypatch.context() as patch:
            patch.setattr(panel.lab, "view", fails)
            panel.draw()
        return panel.status.value

    assert_only_text(page, text)


@pytest.mark.parametrize("text", HOSTILE)
def test_svg_of_a_maze(text):
    maze = envs.Maze.from_text("S . G\n. # L\nD . E")
    assert_only_text(lambda t: envs.drawing.svg(maze, ["RRDD"], names=[t]), text)
    with pytest.raises(ValueError):
        envs.drawing.svg(maze, [text])
    with pytest.raises(ValueError):
        envs.Maze.from_text(f"S . E\n{text}")


# --- the report -----------------------------------------------------------------------------------


def a_run(folder, text):
    """A finished run's folder, made by hand, with the text wherever its settings take one."""
    folder.mkdir(parents=True)
    config = TrainConfig.preset("demo", model=text, maze_seed=1000, steps=2, prompts=1)
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    task, lines = config.make_task(), []
    for step in (1, 2):
        groups = (group(task, task.instance(0), config),)
        known = FIGURES | {"step": step, "method": "vpo", "groups": groups, "m": 3}
        known |= {"slots": [0.5] * 3, "valid_slots": [0.5] * 3, "solved_rate": 0.5}
        names = [f.name for f in dataclasses.fields(StepRecord)]
        record = StepRecord(**{name: known.get(name, 0.5) for name in names})
        lines.append(json.dumps(record.to_json()) + "\n")
    (folder / "metrics.jsonl").write_text("".join(lines))
    return folder


def row(label, folder):
    figures = dict.fromkeys(("set_reward", "coverage", "diversity", "valid_rate"), 0.5)
    return {
        **{
            "label": label,
            "method": "vpo",
            "set": 3,
            "runs": 1,
            "tokens": 1234.0,
            "folders": [str(folder)],
        },
        "elsewhere": False,
        **figures,
        "coverage_best_single": 0.5,
        "interval": {"coverage": (0.4, 0.6)},
        "ahead": {"coverage": (0.1, 0.0, 0.2)},
        "other_problems": [],
        "unequal": {"model": label},
        "best_at_k": {"1": 0.3, "3": 0.5, "10": 0.7},
        "any_at_k": {"1": 0.3, "3": 0.5, "10": 0.7},
        "problems": 2,
        "alpha": 1.0,
        "temperature": 1.0,
        "per_run": {},
        "tokens_per_answer": 11.5,
    }


def report(folder, texts) -> Skeleton:
    """The page of one run for each text, which is its folder's name, its model and its label."""
    folder.mkdir()
    named = [text.replace("/", "|") for text in texts]
    runs = [a_run(folder / str(i) / n, texts[i]) for i, n in enumerate(named)]
    rows = [row(f"vpo, {text}", run) for text, run in zip(texts, runs, strict=True)]
    path = write_report(runs, folder / "page.html", rows)
    return Skeleton(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_report_shows_labels_settings_and_folders_as_texts(tmp_path):
    texts = [text for text in HOSTILE if "\x01" not in text]  # no model has it in its name
    hostile = report(tmp_path / "hostile", texts)
    plain = report(tmp_path / "plain", [f"{PLAIN} {i}" for i in range(len(texts))])

    def shape(page):  # plotly names its figures by random ids
        return [
            (tag, [(k, v) for k, v in attributes if k != "id"] if tag == "div" else attributes)
            for tag, attributes in page.tags
            if "written by vpo-lite" not in str(attributes)
        ]

    assert shape(hostile) == shape(plain)
    shown = "".join(hostile.texts)
    for text in texts:
        assert f"VPO, {text}" in shown or f"vpo, {text}" in shown
        assert f"{text.replace('/', '|')}: " in shown
    assert len(hostile.scripts) >= 2 and len(hostile.scripts) == len(plain.scripts)
    drawn = "".join(hostile.scripts[1:])
    assert "alert(1)" in drawn, "the labels are in plotly's JSON"
    for text in ("<script", "\\u003cscript", "\\u003cimg", "\\u003csvg", "\\u003ca href"):
        assert text not in drawn, "and plotly, which draws some tags, gets them escaped"
