"""The page of a lesson: what it holds, and what it does in a browser without a network."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import browser_harness as harness
import numpy as np
import pytest
from colour_vision import linear

from envs import walk
from vpo_lite import exact, metrics
from vpo_lite.cli import main
from vpo_lite.estimators import METHODS
from vpo_lite.lab import Lab, judging, recordings
from vpo_lite.lab.drawings import rules
from vpo_lite.lab.lesson import Lesson, _page, content, write_lesson
from vpo_lite.lab.lesson.texts import settings, words
from vpo_lite.lab.view import SeenRun
from vpo_lite.metrics import best_subset
from vpo_lite.tasks.maze import MazeTask

ALL = content.ALPHAS
FEW = [0.05, 0.1, 0.2, 1.0, 10.0, 20.0]  # values of α: to judge at all of them takes seconds a page
THREE, ALPHA = "three_methods/seed-0", ("alpha/small", "alpha/large")


def lesson_of(*names):
    return Lesson.of({name: recordings.read(name) for name in names})


@pytest.fixture(scope="module", autouse=True)
def few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "ALPHAS", FEW)
        yield


@pytest.fixture(scope="module")
def lesson():
    return lesson_of(THREE)


@pytest.fixture(scope="module")
def data(lesson):
    return json.loads(json.dumps(lesson.data()))


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    return write_lesson([THREE], tmp_path_factory.mktemp("lesson") / "lesson.html")


@pytest.fixture(scope="module")
def text(page_file):
    return page_file.read_text(encoding="utf-8")


# --- what the file holds --------------------------------------------------------------------------


@pytest.mark.slow
def test_one_small_file_that_asks_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "ALPHAS", ALL)
    told, path = [], tmp_path / "x.html"
    write_lesson([THREE], path, progress=lambda alphas: told.extend(alphas) or alphas)
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 250_000 and text.splitlines()[-2] == "</html>"
    assert told == ALL and (told[0], told[-1], len(told)) == (0.05, 20, 27)
    for address in re.findall(r"\w+://[^\"'\s`]*", text):
        assert address == "http://www.w3.org/2000/svg", "the name of SVG is no address"
    assert not re.findall(r"\b(?:src|href|url|import|fetch)\s*[=(]", text)


@pytest.mark.slow
def test_only_its_own_script_may_run_and_nothing_may_connect(text):
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(script) == 1 and text.count("<script") == 2, "the other one is data"
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and rules["script-src"] == f"'sha256-{digest}'"
    assert set(rules) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}


@pytest.mark.slow
def test_the_data_block_is_the_lessons_data(text, data):
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(block[1]) == data | {"unseen": False} and "<" not in block[1]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_every_step_is_worth_what_its_answers_are(lesson, data, alpha):
    """By 400,000 draws of w, from the groups as they were recorded."""
    drawn_w = np.random.default_rng(0).dirichlet(np.full(4, alpha), 100_000)
    W = np.concatenate([np.roll(drawn_w, i, axis=1) for i in range(4)])  # so that E w is uniform

    def worth(sets):
        points, at = np.unique(sets.reshape(-1, 4), axis=0, return_inverse=True)
        scores, at = points @ W.T, at.reshape(sets.shape[:2])
        return np.mean([scores[rows].max(axis=0).mean() for rows in at])

    now, front = data["judged_at"][data["alphas"].index(alpha)], lesson.view.front
    whole = worth(front[None])
    for one, drawn, curve in zip(lesson.shown, data["runs"], now["curves"], strict=True):
        assert len(drawn["steps"]) == len(curve) == 40
        for step in (1, 7, 40):
            moment, record = drawn["steps"][step - 1], one.run.records[step - 1]
            pools = [g.rewards.reshape(-1, 4) for g in record.groups]
            sets = np.concatenate([p[: len(p) // 3 * 3].reshape(-1, 3, 4) for p in pools])
            assert worth(sets) / whole == pytest.approx(curve[step - 1], abs=1.5e-3)
            shares = now["shares"][moment["set"]]
            best = (one.run.moments[step - 1].rewards @ W.T).argmax(axis=0)
            assert np.allclose(shares, np.bincount(best, minlength=3) / len(W), atol=2e-3)
            assert moment["diversity"] == record.diversity
            valid = sum(n for _, n, valid in moment["cloud"] if valid)
            share = valid / sum(n for _, n, _ in moment["cloud"])
            assert share == pytest.approx(record.valid_rate, abs=1e-5) == moment["valid"]


def test_the_boards_walk_the_answers_that_were_written(lesson, data):
    maze = lesson.view.instance
    for one, drawn in zip(lesson.shown, data["runs"], strict=True):
        moment = one.run.moments[4]
        for answer, (number, _) in zip(moment.answers, drawn["steps"][4]["typical"], strict=True):
            path, reached = ([], False) if answer is None else walk(maze, answer)
            shown = data["answers"][number]
            assert shown["path"] == [list(square) for square in path]
            assert shown["reached"] == reached
            assert shown["by"].split() == [maze.square_name(square) for square in path]
        rewards = [data["points"][point] for _, point in drawn["steps"][4]["typical"]]
        assert rewards == moment.rewards.tolist()


@pytest.mark.slow
def test_the_page_says_what_its_letters_mean_and_what_a_route_earns(lesson, text):
    """By these rules, on the squares of the board, the front earns what the page draws."""
    words = dict(re.findall(r"<dt>(.+?)</dt><dd>(.+?)</dd>", text, re.DOTALL))
    rules, maze = words["The maze"], lesson.view.instance
    assert "starts on S and should reach E in at most 18 moves" in rules and maze.budget == 18
    assert "G is gold, D is diamonds. L is lava" in rules
    assert "Completion: 1. Gold and diamonds: the part of" in words["Rewards of a route"]
    assert "Avoid lava: 1 minus the part" in words["Rewards of a route"]
    board = [row.split() for row in maze.text.splitlines()[-6:]]
    for route, earned in zip(maze.pareto_front().routes, maze.pareto_front().rewards, strict=True):
        visited = [board[row][column] for row, column in set(walk(maze, route).squares)]
        part = {x: visited.count(x) / sum(row.count(x) for row in board) for x in "GDL"}
        assert np.allclose(earned, [1, part["G"], part["D"], 1 - part["L"]])
    programs = _page(lesson_of("programs/seed-0"))
    assert "<dt>The maze</dt>" not in programs and "<dt>Rollout</dt>" in programs
    assert programs.index("<dt>Policy</dt>") < programs.index("<dt>Rollout</dt>"), "used there"


@pytest.mark.slow
def test_all_settings_of_a_run_are_those_of_its_first_step():
    """G and P were those of the last one."""
    one = lesson_of(THREE).shown[0]
    later = replace(one.run, config=one.run.config.but(group_size=48, prompts=9))
    assert "m = 3, G = 16, P = 4, K = 64, " in settings(one._replace(run=later))


@pytest.mark.parametrize(
    "method, there",
    [
        ("grpo", "P = 4, seed 0"),
        ("set_max", "P = 4, seed 0"),
        ("random_weighting", "P = 4, α = 1, seed 0"),
        ("max_at_k", "P = 4, k = 3, seed 0"),
    ],
)
def test_a_run_states_the_settings_that_its_method_uses(method, there):
    one = lesson_of(THREE).shown[0]
    config = one.run.config.but(method=method, k=3)
    said = settings(one._replace(run=replace(one.run, method=method, config=config)))
    assert there in said and "`" not in said


def test_a_preference_is_for_an_objective_of_the_task(text):
    said = str(words(lesson_of("programs/seed-0")))
    assert "somebody wants test 1 most of all" in said and "gold" not in said
    assert "somebody wants gold most of all" in text


@pytest.mark.parametrize("mode, earns", [("linear", False), ("convex_bonus", True)])
def test_every_letter_of_the_maze_is_explained(mode, earns):
    view = Lab(layout="paper-9x9", maze_seed=1002, reward_mode=mode).view()
    (_, letters), *_ = rules(view)
    assert view.instance.bonus and "B is a bonus square." in letters
    assert ("It earns nothing here." in letters) is not earns
    (_, letters), *_ = rules(Lab(maze_seed=1001).view())
    assert "bonus" not in letters


@pytest.mark.slow
def test_a_second_run_of_a_method_is_told_apart():
    lesson = lesson_of("few_weights/K-1", "few_weights/K-64", "equal_answers/seed-0")
    labels = [one.label for one in lesson.shown]
    assert labels == ["VPO (K = 1)", "VPO (K = 64)", "GRPO"]
    assert [one.label for one in lesson_of(*ALPHA).shown] == [
        "recombined VPO (α = 0.1)",
        "recombined VPO (α = 10)",
    ]
    more = lesson_of("equal_answers/seed-0", THREE)
    assert [one.label for one in more.shown][::2] == ["GRPO (G = 48)", "GRPO (G = 16)"]
    others = lesson_of("few_weights/K-1", THREE)  # K and the prompts of a step differ
    assert [one.label for one in others.shown][:2] == [
        "VPO (few_weights/K-1)",
        "VPO (three_methods/seed-0)",
    ]
    looks = [one.look for one in lesson.shown]
    assert looks[0].colour == looks[1].colour == "#0072B2"
    assert len({look.marker for look in looks}) == len({look.dash for look in looks}) == 3
    twice = [one.look for one in lesson_of(*ALPHA).shown]  # a circle would be VPO's
    assert [look.marker for look in twice] == ["star", "square"]
    markers = [one.look.marker for one in more.shown]  # Multi-RLVR keeps its triangles
    assert dict(zip([one.run.method for one in more.shown], markers, strict=True)) == {
        "grpo": "bowtie",
        "vpo": "circle",
        "multi_rlvr": "triangle-up",
    }


@pytest.mark.slow
def test_a_front_that_is_not_known_is_not_drawn(monkeypatch):
    monkeypatch.setattr(MazeTask, "front", lambda self, instance: None)
    lesson = lesson_of(THREE)
    data = lesson.data()
    assert data["front"] is None and data["judged"] == lesson.judged == "set reward"
    now = data["judged_at"][data["alphas"].index(1.0)]
    trained = [[record.set_reward for record in one.run.records] for one in lesson.shown]
    assert np.allclose(now["curves"], trained, rtol=0, atol=2e-5) and now["best"] == ()


@pytest.mark.slow
def test_it_opens_at_the_alpha_that_its_runs_share():
    """Also at one below 0.01, from which on the browser could draw no weights."""

    def opens_at(lesson):
        data = lesson.data()
        return data["alphas"][data["alpha"]]

    small = recordings.read(ALPHA[0])
    (run,) = small.runs
    smaller = replace(run, records=tuple(replace(one, alpha=0.005) for one in run.records))
    assert opens_at(lesson_of(ALPHA[0])) == 0.1 and opens_at(lesson_of(*ALPHA)) == 1.0
    assert opens_at(Lesson.of({"mine": small._replace(runs=(smaller,))})) == 0.005


# --- wrong requests -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no recording"),
        ([THREE, "stuck/seed-0"], "of maze 1017, 18 moves, but three_methods/seed-0 of maze 1000"),
        ([THREE, "three_methods/seed-1"], "6 runs: a lesson shows 1 to 4"),
        ([THREE, THREE], "name each recording once"),
        ([THREE, "--out", "x.pdf"], "name it FILE.html"),
        ([THREE, "--out", "."], "is a folder"),
        ([THREE, "--out", "nowhere/x.html"], "cannot be written"),
    ],
)
def test_a_wrong_request_is_one_line_and_writes_nothing(
    tmp_path, monkeypatch, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    if "--out" not in arguments:
        arguments = [*arguments, "--out", "x.html"]
    assert main(["export", "lesson", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_recording_is_named(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    whole = (recordings.SHIPPED / THREE / recordings.FILE).read_text()
    (tmp_path / "mine" / recordings.FILE).write_text(whole[: len(whole) // 2])
    page = tmp_path / "x.html"
    assert main(["export", "lesson", str(tmp_path / "mine"), "--out", str(page)]) == 2
    error = capsys.readouterr().err
    assert "mine" in error and len(error.splitlines()) == 1 and not page.exists()


@pytest.mark.slow
def test_steps_that_draw_different_problems_are_refused(monkeypatch):
    recording = recordings.read("stuck/seed-0")
    run = recording.runs[0]
    many = SeenRun(run.method, run.config.but(maze_seed=None), run.records, run.moments)
    with pytest.raises(ValueError, match=r"different mazes; a lesson shows one: .*many=False"):
        Lesson.of({"mine": recording._replace(runs=(many,))})
    monkeypatch.setattr(MazeTask, "singles_out", ())  # as a task of one's own that has no option
    with pytest.raises(ValueError, match="'maze' needs an option that singles out one, named in"):
        Lesson.of({"mine": recording._replace(runs=(many,))})


def test_a_folder_of_ones_own(tmp_path, capsys):
    recording = recordings.read("few_weights/K-64")
    recordings.write(tmp_path / "mine", recording)
    page = tmp_path / "x.html"
    assert main(["export", "lesson", str(tmp_path / "mine"), "--out", str(page)]) == 0
    assert "x.html" in capsys.readouterr().out
    assert str(tmp_path / "mine") in page.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "x.html"]


def test_a_method_without_a_docstring_has_a_page_too(tmp_path, monkeypatch):
    """As the one of the reference: it was an AttributeError."""
    method = replace(METHODS["vpo"], estimate=lambda R, **_: R)
    monkeypatch.setitem(METHODS, "vpo", method)
    write_lesson("few_weights/K-64", tmp_path / "x.html")  # one needs no list
    assert ": a method without a description" in (tmp_path / "x.html").read_text()


# --- in a browser, from the disk ------------------------------------------------------------------

in_browser = [pytest.mark.browser, pytest.mark.slow]


def opened(context, path):
    """A page from the disk, with a list of everything that went wrong or was asked for."""
    page, wrong = context.new_page(), []
    page.on("request", lambda r: r.url != path.as_uri() and wrong.append(f"asked for {r.url}"))
    page.on("console", lambda m: wrong.append(m.text))
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.goto(path.as_uri())
    page.wait_for_function("() => document.body.dataset.drawn")
    return page, wrong


@pytest.fixture(scope="module")
def context():
    with harness.browser(1280, 720) as context:
        yield context


@pytest.fixture(scope="module")
def shared(context, page_file):
    page, wrong = opened(context, page_file)
    yield page
    page.close()
    assert not wrong, wrong


@pytest.fixture
def page(shared):
    """The page as it opens: last step, the α of the runs."""
    shared.set_viewport_size({"width": 1280, "height": 720})
    shared.emulate_media(color_scheme="light", reduced_motion="no-preference")
    shared.evaluate("() => { document.documentElement.style.fontSize = ''; scrollTo(0, 0); }")
    put(shared, "step", 40)
    put(shared, "alpha", alphas(shared).index(1))
    shared.select_option("#theme", "")
    shared.select_option("#who", "0")
    return shared


FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def settled(page, act):
    """Act, and wait until the page has drawn what came of it: it draws in the next frame."""
    act()
    page.evaluate(FRAMES)


def turn(page, knob, key, times=1):
    """Move a slider by the keyboard."""
    page.focus(f"#{knob}")
    for _ in range(times):
        settled(page, lambda: page.keyboard.press(key))


def put(page, knob, value):
    """Set a slider at once, as a finger does."""
    page.evaluate(
        """([id, value]) => { const knob = document.getElementById(id);
             knob.value = value; knob.dispatchEvent(new Event('input')); }""",
        [knob, value],
    )
    page.evaluate(FRAMES)


def alphas(page):
    return page.evaluate("() => JSON.parse(document.getElementById('data').textContent).alphas")


def covered(moment, front, alpha):
    """The mean coverage of the sets of a step, as the library says."""
    [sets] = moment.sets
    return metrics.coverage(sets.rewards, front, alpha) @ sets.counts / sets.counts.sum()


def cells(page):
    """{run: the numbers of its row}"""
    rows = page.locator("#runs tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 1, 10, 20])
def test_alpha_by_keyboard_gives_the_librarys_coverage(page, lesson, alpha):
    steps = alphas(page).index(alpha) - alphas(page).index(1)
    turn(page, "alpha", "ArrowRight" if steps > 0 else "ArrowLeft", abs(steps))
    shown, front = cells(page), lesson.view.front
    for one in lesson.shown:
        assert shown[one.label][0] == f"{covered(one.run.moment, front, alpha):.3f}"
    best = [front[best_subset(front, m, alpha).indices] for m in (1, 2, 3)]
    ceilings = [float(metrics.coverage(answers, front, alpha)) for answers in best]
    words = page.inner_text("#words")
    assert f"Step 40 of 40, α = {alpha}." in words
    assert f"The best single answer covers {ceilings[0]:.3f}, the best 2 {ceilings[1]:.3f}" in words
    said = page.get_attribute("#judged svg", "aria-label")
    for one in lesson.shown:
        first, last = (covered(one.run.moments[i], front, alpha) for i in (0, -1))
        assert f"{one.label} from {first:.2f} to {last:.2f}" in said
    boards = page.locator("#board figure").all()
    for board, rewards in zip(
        boards, [*(one.run.moment.rewards for one in lesson.shown), best[-1]], strict=True
    ):
        texts = board.locator(".share b").all_inner_texts()
        shares = [int(re.sub(r"\D", "", text)) for text in texts]
        assert shares == [round(100 * share) for share in exact.exact_shares(rewards, alpha)]
    if alpha == 20:  # 4 million draws from Dir(20): 0.183, 0.715, 0.102
        assert shares == [18, 71, 10]
    if alpha == 0.05:  # 4 million draws from Dir(0.05): 0.8042
        assert f"{ceilings[0]:.3f}" == "0.804"


@pytest.mark.browser
@pytest.mark.slow
def test_the_best_set_follows_alpha(context, tmp_path):
    lesson = lesson_of(*ALPHA)
    page, wrong = opened(context, write_lesson(ALPHA, tmp_path / "alpha.html"))
    front, sizes = lesson.view.front, set()
    for alpha in (0.1, 1, 10):
        put(page, "alpha", alphas(page).index(alpha))
        best = judging.target(front, lesson.size, alpha).best
        sizes.add(best)
        held = page.inner_text("#words").split("holds ")[1].split(". Who wins")[0]
        pairs = [re.findall(r"[\d.]+", part) for part in held.split(" and ")]
        differ = np.flatnonzero(np.ptp(front, axis=0) > 1e-9)
        wanted = [[f"{front[i][k]:.2f}" for k in differ] for i in best]
        assert pairs == wanted
    assert len(sizes) > 1, "else the test could not fail"
    assert page.locator("#space circle.asked").count() == lesson.size, "thick rings"
    page.close()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
def test_the_time_slider_changes_board_numbers_and_words(page, lesson):
    for key, step in (("Home", 1), ("ArrowRight", 2), ("End", 40)):
        turn(page, "step", key)
        shown = cells(page)
        described = page.text_content("#board .text")
        for one in lesson.shown:
            moment, record = one.run.moments[step - 1], one.run.records[step - 1]
            assert shown[one.label][:2] == [f"{record.coverage:.3f}", f"{record.diversity:.2f}"]
            for i, answer in enumerate(moment.answers, start=1):
                path = [] if answer is None else walk(lesson.view.instance, answer)[0]
                squares = " ".join(map(lesson.view.instance.square_name, path))
                by = f", by {squares}" if squares else ""
                said = rf"{one.label}, route {i}: [^,]*, wins \d+ percent{by}( |$)"
                assert re.search(said, described), said
        assert page.inner_text("#words").startswith(f"Step {step} of 40, α = 1.")
        assert page.get_attribute("#step", "aria-valuetext") == f"step {step} of 40"


@pytest.mark.browser
@pytest.mark.slow
def test_that_markers_stand_side_by_side_is_said_where_there_are_several_runs(
    context, tmp_path, page
):
    said = "marks of several runs stand side by side"
    assert page.inner_text("#space figcaption").endswith(said)
    one, wrong = opened(context, write_lesson("few_weights/K-64", tmp_path / "one.html"))
    assert said not in one.inner_text("#space figcaption")
    one.close()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_for_a_vote_opens_at_step_one_and_hides_what_comes(context, tmp_path, lesson):
    path = vote(tmp_path)
    page, wrong = opened(context, path)
    first = [one.run.records[0].coverage for one in lesson.shown]
    last = [one.run.records[-1].coverage for one in lesson.shown]
    assert page.input_value("#step") == "1"
    said = page.locator("#judged svg").get_attribute("aria-label")
    assert said.endswith("at step 1: " + ends(lesson, first, first))
    turn(page, "step", "End")
    said = page.locator("#judged svg").get_attribute("aria-label")
    assert said.endswith("over 40 steps: " + ends(lesson, first, last))
    assert longest_curve(page) == 40
    turn(page, "step", "Home")
    turn(page, "step", "ArrowRight")
    assert longest_curve(page) == 2
    page.close()
    assert not wrong, wrong


def vote(folder):
    path = folder / "vote.html"
    assert main(["export", "lesson", THREE, "--out", str(path), "--unseen"]) == 0
    return path


OF_THE_FRONT = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const runs = all('#runs svg').length;
  return [all('#board figure').length - runs, all('#runs tbody tr').length - runs,
    all('#space > svg > circle').length, all('#judged .level').length,
    all('#who option').filter((o) => o.textContent.includes('best')).length,
    (document.querySelector('.stage').innerText.match(/\\bbest\\b/gi) || []).length]; }"""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("key", ["ArrowRight", "Play"])
def test_a_page_for_a_vote_hides_the_front_until_training_is_shown(context, tmp_path, key):
    """On the way to the rules of the maze a class read which routes are best: the vote's answer."""
    page, wrong = opened(context, vote(tmp_path))
    assert page.evaluate(OF_THE_FRONT) == [0] * 6
    assert "best" not in page.text_content("#board .text")
    turn(page, "alpha", "ArrowRight")  # it shows other people, and no step
    assert page.evaluate(OF_THE_FRONT) == [0] * 6
    if key == "Play":
        settled(page, lambda: page.click("#play"))
        assert page.input_value("#step") == "1"
        settled(page, lambda: page.click("#play"))
    else:
        turn(page, "step", key)
        turn(page, "step", "Home")
    assert page.evaluate(OF_THE_FRONT)[:5] == [1, 1, 6, 3, 1], "three routes, each with two rings"
    assert "The best set of 3 holds" in page.inner_text("#words")
    page.close()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
def test_the_first_step_of_a_vote_is_drawn_alike_whatever_comes(context, tmp_path, lesson, data):
    """Answers that are worth 3, and others worth -1, at a later step: they lie off the axes."""
    far = {"points": [*data["points"], [3.0] * data["d"], [-1.0] * data["d"]]}
    runs = json.loads(json.dumps(data["runs"]))
    for step, point in ((7, len(data["points"])), (8, len(data["points"]) + 1)):
        runs[0]["steps"][step] |= {"cloud": [[point, 1, True]], "diversity": 9.0}
    curves = [[list(curve) for curve in now["curves"]] for now in data["judged_at"]]
    for its in curves:
        its[0][7:9] = [3.0, -1.0]
    far["judged_at"] = [
        now | {"curves": its} for now, its in zip(data["judged_at"], curves, strict=True)
    ]
    drawn = {}
    for name, told in (("as it is", data), ("another", data | far | {"runs": runs})):
        page_text = str(_page(lesson, unseen=True))
        block = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page_text)[1]
        path = tmp_path / f"{name}.html"
        path.write_text(page_text.replace(block, json.dumps(told | {"unseen": True})), "utf-8")
        page, wrong = opened(context, path)
        drawn[name] = []
        for key in ("Home", "End"):
            turn(page, "step", key)
            figures = ("#space svg", "#judged svg", "#diversity svg")
            drawn[name].append([page.locator(figure).inner_html() for figure in figures])
        page.close()
        assert not wrong, wrong
    assert drawn["as it is"][0] == drawn["another"][0]
    for one, other in zip(drawn["as it is"][1], drawn["another"][1], strict=True):
        assert one != other, "else the test could not fail"


def longest_curve(page):
    """The most points that a curve of coverage is drawn through."""
    points = "() => [...document.querySelectorAll('#judged polyline')].map((p) => p.points.length)"
    return max(page.evaluate(points))


def ends(lesson, first, last):
    pairs = zip(lesson.shown, first, last, strict=True)
    return ", ".join(f"{one.label} from {a:.2f} to {b:.2f}" for one, a, b in pairs)


@pytest.mark.browser
@pytest.mark.slow
def test_play_walks_through_the_steps_and_pause_stops_it(page):
    page.click("#play")
    page.wait_for_function(
        "() => document.getElementById('words').textContent.startsWith('Step 3')"
    )
    assert page.get_attribute("#words", "aria-live") == "off"
    page.click("#play")
    assert page.inner_text("#play").endswith("Play")
    assert page.get_attribute("#words", "aria-live") == "polite"
    step = page.input_value("#step")
    page.wait_for_timeout(1100)
    assert page.input_value("#step") == step


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("letters", [100, 200])
def test_the_sliders_stay_where_they_are_when_play_becomes_pause(page, letters):
    page.evaluate(f"() => {{ document.documentElement.style.fontSize = '{letters}%'; }}")
    places = []
    for text in ("Play", "Pause", "Play"):
        assert text in page.inner_text("#play")
        places.append([page.locator(f"#{knob}").bounding_box() for knob in ("step", "alpha")])
        settled(page, lambda: page.click("#play"))
    settled(page, lambda: page.click("#play"))
    assert places[0] == places[1] == places[2]


@pytest.mark.browser
@pytest.mark.slow
def test_who_wins_shows_the_set_that_is_chosen(page, lesson):
    triangle = page.locator("#winners svg")
    settled(page, lambda: page.select_option("#who", label="GRPO"))
    assert triangle.get_attribute("aria-label") == "answer 1 wins 100 %"
    settled(page, lambda: page.select_option("#who", label="best set"))
    shares = exact.exact_shares(lesson.view.front)
    said = ", ".join(f"answer {i} wins {s:.0%}" for i, s in enumerate(shares, 1))
    assert triangle.get_attribute("aria-label").replace(" %", "%") == said
    assert [t for t in triangle.locator("text").all_text_contents() if t.isdigit()] == [
        "1",
        "2",
        "3",
    ]
    assert triangle.locator("polygon, circle").count() > 100, "a dot for each w"
    place = {t.text_content(): t.bounding_box() for t in triangle.locator("text").all()}
    gold, diamond, lava = (place[name] for name in ("gold", "diamonds", "avoid lava"))
    assert gold["y"] + 50 < diamond["y"] == lava["y"], "as in the panel: gold is above"
    assert diamond["x"] + 50 < gold["x"] < lava["x"] - 50, "diamonds left, avoid lava right"
    assert gold["y"] < place["1"]["y"] < place["2"]["y"] < place["3"]["y"], (
        "from the top: where all gold wins, the compromise, all diamonds"
    )


@pytest.mark.browser
@pytest.mark.slow
def test_all_can_be_reached_and_seen_by_keyboard(page):
    page.focus("#theme")
    reached = []
    for _ in range(5):
        style = "getComputedStyle(document.activeElement)"
        assert page.evaluate(f"() => {style}.outlineStyle") == "solid"
        reached.append(page.evaluate("() => document.activeElement.id || 'board'"))
        page.keyboard.press("Tab")
        while page.evaluate("() => !!document.activeElement.closest('#board')"):
            page.keyboard.press("Tab")
    assert reached == ["theme", "play", "step", "alpha", "who"]
    for knob in ("step", "alpha"):
        assert page.evaluate(f"() => document.getElementById('{knob}').labels.length") == 1
    assert page.locator("svg[role=img]").count() >= 4 + 4
    assert page.locator("svg[role=img]:not([aria-label])").count() == 0


FRAMES = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"


@pytest.mark.browser
@pytest.mark.slow
def test_walkers_rest_where_less_motion_is_asked_for(page):
    place = "() => document.querySelector('#board g.walkers').innerHTML"

    def moved():
        put(page, "step", 1)
        put(page, "step", 40)
        page.wait_for_timeout(150)
        page.evaluate(FRAMES)  # the board draws in a frame of its own
        first = page.evaluate(place)
        for _ in range(12):
            page.wait_for_timeout(250)
            page.evaluate(FRAMES)
            if page.evaluate(place) != first:
                return True
        return False

    assert moved()
    page.emulate_media(reduced_motion="reduce")
    assert not moved()


# Every text that shows: its letters, their colour, and the colour under them.
TEXTS = """() => {
  const out = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const others = 'script, .unseen, option, noscript, svg.maze, .answers, svg [style]';
  const paper = (e) => getComputedStyle(e).backgroundColor;
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.nodeValue.trim();
    if (!text || e.closest(others) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), ink = e instanceof SVGElement ? style.fill : style.color;
    let under = e;
    while (!paper(under).startsWith('rgb(')) under = under.parentElement;
    out.push([text.slice(0, 30), ink, paper(under)]);
  }
  return out; }"""


def contrast(ink, paper):
    """As WCAG defines it."""

    def luminance(colour):
        values = [float(v) for v in re.findall(r"[\d.]+", colour)[:3]]
        if colour.startswith("color("):
            values = [255 * v for v in values]
        return float(
            linear("#" + "".join(f"{round(v):02x}" for v in values)) @ [0.2126, 0.7152, 0.0722]
        )

    high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_both_themes_can_be_read(page, dark):
    """The device's theme, or the one that is chosen; texts stand out 4.5 to 1, edges 3 to 1."""
    page.select_option("#theme", "dark" if dark else "light")
    chosen = page.evaluate(TEXTS)
    page.select_option("#theme", "")
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.wait_for_function(
        f"() => document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'"
    )
    page.wait_for_function(
        f"() => !!document.querySelector('.vpo-board.dark') === {str(dark).lower()}"
    )
    texts = page.evaluate(TEXTS)
    assert texts == chosen and len(texts) > 60
    faint = [t for t in texts if contrast(*t[1:]) < 4.5]
    assert not faint, faint
    ink = page.evaluate("() => getComputedStyle(document.querySelector('#judged .edge')).stroke")
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert contrast(ink, paper) > 3, "the edge of every line and marker"


# Boxes of the parts of the page, and of the texts of each figure; texts that are cut off.
PARTS = (
    "h1, header label, .intro, #play, .knob, #board, #words, .numbers, #space, #winners, #judged, "
    "#diversity, .texts section"
)
LAYOUT = """(parts) => {
  const all = (selector, e = document) => [...e.querySelectorAll(selector)];
  const box = (e) => { const r = e.getBoundingClientRect();
    return [r.left, r.top + scrollY, r.right, r.bottom + scrollY]; };
  const named = (e) => [e.id || e.textContent.trim().slice(0, 20), ...box(e)];
  const bounded = 'button, select, .knob span, #runs th, #runs td, #board figcaption';
  const cut = all(bounded).filter((e) => e.scrollWidth > e.clientWidth + 1);
  return { parts: all(parts).map(named), cut: cut.map((e) => e.textContent),
    texts: all('.right figure').map((f) => all('svg text:not([style])', f).map(named)),
    wide: document.documentElement.scrollWidth, window: innerWidth }; }"""


def meet(a, b, slack):
    return min(a[2], b[2]) - max(a[0], b[0]) > slack and min(a[3], b[3]) - max(a[1], b[1]) > slack


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("letters", [100, 200])
@pytest.mark.parametrize("size", [(1280, 720), (390, 844), (844, 390), (640, 360), (1920, 1080)])
def test_nothing_overlaps_or_is_cut_off(page, size, letters):
    """A projector, a phone both ways, a projector at 200 % zoom; letters twice as large."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate(f"() => {{ document.documentElement.style.fontSize = '{letters}%'; }}")
    page.wait_for_timeout(300)  # sizes are watched
    turn(page, "step", "ArrowLeft")
    found = page.evaluate(LAYOUT, PARTS)
    assert len(found["parts"]) == 16 and len(found["texts"]) == 4
    wrong = [f"cut off: {text}" for text in found["cut"]]
    wrong += [f"{found['wide']} wide"] * (found["wide"] > found["window"])
    for group, slack in ((found["parts"], 1), *((texts, 3) for texts in found["texts"])):
        for i, (name, *box) in enumerate(group):
            wrong += [f"{name} leaves the window"] * (box[0] < -1 or box[2] > found["window"] + 1)
            wrong += [f"{name} lies on {b[0]}" for b in group[i + 1 :] if meet(box, b[1:], slack)]
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
def test_on_a_phone_each_run_has_one_line_of_the_table(page):
    """Names stood below their markers, and one was broken in two."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(FRAMES)
    tall = page.evaluate(
        """() => [...document.querySelectorAll('#runs tbody tr')].map(
             (row) => row.getBoundingClientRect().height)"""
    )
    assert len(tall) == 4 and max(tall) < 30, tall


@pytest.mark.browser
@pytest.mark.slow
def test_boards_and_figures_of_four_runs_fit_a_projector(context, tmp_path):
    """The last answers, and the words below the curves, were cut off."""
    page, wrong = opened(
        context, write_lesson([THREE, "equal_answers/seed-0"], tmp_path / "4.html")
    )
    page.set_viewport_size({"width": 1280, "height": 720})
    page.evaluate(FRAMES)
    ends = page.evaluate(
        """() => [...document.querySelectorAll('#board figure, .right svg')].map(
             (part) => part.getBoundingClientRect().bottom)"""
    )
    assert len(ends) == 5 + 4 + 4 and max(ends) <= 720, "boards, markers in the table, figures"
    page.close()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["programs/seed-0", "no front"])
def test_other_recordings_open_too(context, tmp_path, monkeypatch, name):
    if name == "no front":
        monkeypatch.setattr(MazeTask, "front", lambda self, instance: None)
        name = THREE
    lesson, path = lesson_of(name), tmp_path / "other.html"
    path.write_text(_page(lesson), encoding="utf-8")
    page, wrong = opened(context, path)
    record, run = lesson.shown[0].run.record, cells(page)["VPO"]
    assert run[0] == f"{record.coverage if lesson.known else record.set_reward:.3f}"
    assert ("best" in page.inner_text("#words")) == lesson.known
    turn(page, "alpha", "Home")
    turn(page, "step", "Home")
    assert page.locator("#winners svg *").count() > 3
    page.close()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("worth", [0, 0.5])
def test_sets_that_are_worth_the_same_at_each_step_are_drawn(context, tmp_path, text, data, worth):
    """A curve at one height, where no front sets a scale: a policy that finds nothing."""
    flat = data | {"front": None, "points": [[worth] * data["d"] for _ in data["points"]]}
    none = {"best": [], "ceilings": [], "best_shares": [], "curves": [[worth] * 40] * 3}
    flat["judged_at"] = [now | none for now in data["judged_at"]]
    block = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text)[1]
    (tmp_path / "flat.html").write_text(text.replace(block, json.dumps(flat)))
    page, wrong = opened(context, tmp_path / "flat.html")
    drawn = page.locator("#judged svg").inner_html()
    assert "polyline" in drawn and "NaN" not in drawn and "Infinity" not in drawn
    page.close()
    assert not wrong, wrong
