"""The teacher's guide and the cheat sheet say what is there: commands, places, minutes, numbers."""

import itertools
import json
import re
import tomllib
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import browser_harness as harness
import numpy as np
import pytest
from colour_vision import linear
from recorded import replayed
from test_docs import commands_in
from test_notebooks import minutes as minutes_of
from test_notebooks import read, sections

import envs
import vpo_lite as vpo
from vpo_lite import cli
from vpo_lite.cli import commands
from vpo_lite.figures.looks import look
from vpo_lite.lab import recordings
from vpo_lite.lab.buttons import BUTTONS
from vpo_lite.lab.lesson import Lesson
from vpo_lite.teaching import check
from vpo_lite.teaching.exercises import exercise
from vpo_lite.teaching.sheet import numbers, sheet

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "notebooks" / "TEACHING.md").read_text(encoding="utf-8")
SHEET = sheet()
ANSWERS = {"A": (1.0, 0.0), "B": (0.0, 1.0), "C": (0.6, 0.6), "D": (0.8, 0.3)}
PEOPLE = np.array([(0.9, 0.1), (0.5, 0.5), (0.1, 0.9)])


def section(title):
    """The text of a section, with its subsections."""
    level = re.search(rf"^(#+) {re.escape(title)}$", GUIDE, re.MULTILINE)[1]
    text = GUIDE.partition(f"\n{level} {title}\n")[2]
    return re.split(rf"^#{{1,{len(level)}}} ", text, flags=re.MULTILINE)[0]


def rows(text):
    """The cells of all rows of tables, without the lines below their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def notebook(number):
    """(text of all cells, headings) of the notebook with this number."""
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"]]
    return "\n".join(cells), set(re.findall(r"^#+ (.+)$", "\n".join(cells), re.MULTILINE))


# --- what the guide names is there ----------------------------------------------------------------


COMMANDS = {*commands_in(GUIDE), *re.findall(r"`vpo-lite ([^`]+)`", GUIDE)}


@pytest.mark.parametrize("line", sorted(COMMANDS))
def test_commands_of_the_guide_parse(line):
    commands.parser(line.split()).parse_args(line.split())


def test_no_name_in_the_guide_is_cut_by_the_end_of_a_line():
    """Else the tests below would not find it."""
    assert all(line.count("`") % 2 == 0 for line in GUIDE.replace("```", "").splitlines())


def test_the_guide_has_the_commands_of_the_day_before():
    kinds = {" ".join(line.split()[:2]) for line in commands_in(GUIDE)}
    assert {"doctor --class", "export lesson", "course sheet", "course build"} <= kinds


def test_the_lines_of_the_check_are_explained():
    from vpo_lite.classroom import check

    assert [row[0] for row in rows(section("The check"))[1:]] == list(check.CHECKS)
    assert f"less than {check.MEMORY / 2**30:g} GiB" in GUIDE


def test_the_marks_of_the_methods_are_as_told():
    told_of = [("VPO", "vpo", "solid", "circle"), ("GRPO", "grpo", "dash", "square")]
    told_of += [("Multi-RLVR", "multi_rlvr", "dot", "triangle-up")]
    for name, method, dash, marker in told_of:
        assert look(method)[:1] == (name,) and {dash, marker} < set(look(method))
    assert (
        "solid line with circles, GRPO is dashed with squares, Multi-RLVR is dotted with triangles"
        in (" ".join(GUIDE.split()))
    )


@pytest.mark.slow
def test_the_marks_in_the_other_pages_are_as_told():
    """A second run of a method has a marker of its own."""
    said = " ".join(GUIDE.split())
    more = _shown("equal_answers/seed-0", "three_methods/seed-0")
    sizes = {one.look.marker: one.run.config.group_size for one in more if one.look.text == "GRPO"}
    assert sizes == {"square": 48, "bowtie": 16}
    assert "In `more.html` the squares are GRPO with G = 48, the bow ties GRPO with G = 16." in said
    bug = _shown("silent_bug/a", "silent_bug/b", "silent_bug/c")
    assert [one.label for one in bug if one.look.marker == "square"] == ["VPO (b)"]
    assert "In `bug.html` the squares are run (b)." in said


def _shown(*names):
    return Lesson.of({name: recordings.read(name) for name in names}).shown


def test_the_sheet_comes_after_the_question_that_it_answers():
    said = " ".join(GUIDE.split())
    assert "Hand it out after the exit ticket, because it answers question 3." in said
    assert "3. You serve *one* answer" in section("Exit ticket") and "3: GRPO." in said
    assert "One answer is served, without a search: GRPO is better." in SHEET


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`(\d\d · [^`]+)`", GUIDE))))
def test_sections_of_notebooks_exist(place):
    number, _, heading = place.partition(" · ")
    assert heading in notebook(number)[1]


@pytest.mark.parametrize("key", sorted(set(re.findall(r"\b0\d-[a-z]\b", GUIDE))))
def test_exercises_exist(key):
    assert exercise(key).heading in notebook(key[:2])[0]


def test_recordings_exist():
    named = set(re.findall(r"\b([a-z_]+/(?:seed-\d|[abc]))\b", GUIDE))
    assert len(named) >= 5 and named <= set(recordings.shipped())


def test_a_pressed_name_is_on_the_panel_on_the_page_or_in_the_menu():
    """Bold words that follow a verb of the hand: press, choose, drag, move, tick, menu, at."""
    verbs = r"(?i:press|choose|drag|move|tick|menu|at|,|\.|and|out\.|pages, not JupyterLab\.)"
    named = set(re.findall(rf"{verbs} \*\*([^*.]{{1,28}})\*\*", GUIDE))
    panel = {button.text for button in BUTTONS.values()} | {"More", "GRPO", "method"}
    panel |= set(
        re.findall(r'description="([^"]+)"', (ROOT / "vpo_lite/lab/controls.py").read_text())
    )
    panel |= {"Train anew"}  # the same button: see tests/lab/test_lab_panel.py
    pressed = re.findall(r"press \*\*(Train[^*]*)\*\*", section("The class: 50 minutes"))
    assert pressed == ["Train", "Train anew"], "a change of the method renames it"
    page = (ROOT / "vpo_lite/lab/lesson/page.html").read_text(encoding="utf-8")
    menu = {"Run", "Run All Cells", "Run All Above Selected Cell"}  # of JupyterLab
    known = panel | menu | {"best set", "Step", "Play", "Who wins", "α"}
    assert all(word in page for word in ("Step ", "▶ Play", "Who wins", "α = "))
    assert {"Train", "Play", "Step", "α", "best set"} <= named <= known


def spans_of(title):
    """((first minute, last minute), what is done) of each row of a plan."""
    found = [(re.fullmatch(r"(\d+)–(\d+)", row[0]), row[1]) for row in rows(section(title))]
    return [(tuple(map(int, span.groups())), what) for span, what in found if span]


@pytest.mark.parametrize(
    ("title", "minutes"),
    [
        ("The class: 50 minutes", 50),
        ("The double period: 90 minutes", 90),
        ("The demo: 20 minutes", 20),
        ("The lab: 3 hours", 180),
    ],
)
def test_the_minutes_follow_each_other_and_add_up(title, minutes):
    spans = [span for span, _ in spans_of(title)]
    assert spans[0][0] == 0 and spans[-1][1] == minutes
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert all(begin < end for begin, end in spans)


def test_the_double_period_is_the_class_and_sections_that_fit_their_minutes():
    of_class = [span for span, _ in spans_of("The class: 50 minutes")]
    taken, named = [], 0
    for (begin, end), what in spans_of("The double period: 90 minutes"):
        if part := re.search(r"the class, minutes (\d+) to (\d+)", what):
            part = range(*map(int, part.groups()))
            assert len(part) == end - begin, what
            taken += [span for span in of_class if span[0] in part and span[1] - 1 in part]
        elif place := re.search(r"`(\d\d) · ([^`]+)`", what):
            (path,) = (ROOT / "notebooks").glob(f"{place[1]}_*.ipynb")
            (cells,) = [cells for name, cells in sections(read(path)) if name == place[2]]
            assert len(cells) > 3 and minutes_of(cells) <= end - begin, what
            named += 1
    assert taken == of_class[:-1], "all but the exit ticket, which closes the double period"
    assert named == 4 and "with four sections more" in section("The double period: 90 minutes")


def test_the_wheels_of_the_guide_are_those_of_the_package():
    """The extra and the pinned versions are there; the wheel itself is tested in packaging."""
    build, install = re.findall(r"^python -m pip (\w+ .+?)  #", GUIDE, re.MULTILINE)
    assert build == 'wheel -c constraints.txt -w wheels ".[lab]"'
    assert install == 'install --no-index --find-links wheels "vpo_lite[lab]"'
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "vpo_lite" and "lab" in project["optional-dependencies"]
    assert (ROOT / "constraints.txt").is_file()


def test_the_first_words_promise_these_minutes():
    promised = (
        "a class of 50 minutes, a double period of 90 minutes, a demo of 20 minutes, and a lab"
    )
    assert f"{promised} of 3 hours" in " ".join(GUIDE.split())
    assert len(GUIDE.splitlines()) <= 400


def test_every_vote_is_asked_once_in_the_class_and_stands_in_the_table():
    asked = [int(n) for n in re.findall(r"\*[Vv]ote (\d)\.?\*", section("The class: 50 minutes"))]
    table = [int(row[0]) for row in rows(section("The votes"))[1:]]
    assert asked == table == [1, 2, 3, 4, 5]


# --- the numbers of the guide ---------------------------------------------------------------------


@cache
def run_of(name, method):
    return replayed(name).runs[method]


def end(name, method, alpha=1.0):
    return float(run_of(name, method).coverages(alpha)[-1])


def rewards(letters):
    return np.array([ANSWERS[letter] for letter in letters])


def of_three(letters):
    """What a set is worth to the three people: each takes the best."""
    return float(np.mean([max(w @ r for r in rewards(letters)) for w in PEOPLE]))


def swapped(letters):
    return float(max(np.mean([w @ r for w in PEOPLE]) for r in rewards(letters)))


SETS = ("CCC", "ABB", "ABC")
ROLLOUTS = ("ABC", "ABB", "ACC", "CCC")


def told(pattern):
    """The numbers of the one place of the guide that fits this pattern."""
    (found,) = re.findall(pattern, " ".join(GUIDE.split()))
    return [
        float(number.replace("−", "-")) for number in ([found] if isinstance(found, str) else found)
    ]


N = r"([−+]?\d+\.?\d*)"


def near(numbers, values, digits):
    assert np.allclose(numbers, values, atol=0.5 * 10**-digits + 1e-9, rtol=0)


def test_the_first_recording_begins_and_ends_as_told():
    runs = {m: run_of("three_methods/seed-0", m).records for m in ("vpo", "grpo", "multi_rlvr")}
    near(told(rf"alike, VPO {N} and GRPO {N}\."), [runs[m][0].coverage for m in ("vpo", "grpo")], 3)
    near(told(rf"VPO covers {N}, GRPO {N}:"), [runs[m][-1].coverage for m in ("vpo", "grpo")], 3)
    near(told(rf"ends at {N}, GRPO at {N}\."), [runs[m][-1].coverage for m in ("vpo", "grpo")], 2)
    near(told(rf"It covers {N}\. \*\*All"), [runs["multi_rlvr"][-1].coverage], 3)
    spread = [runs[m][-1].diversity for m in ("multi_rlvr", "vpo")]
    near(told(rf"more diverse than VPO \({N} against {N}\)"), spread, 2)
    last = np.concatenate([group.rewards.reshape(-1, 4) for group in runs["grpo"][-1].groups])
    assert (last[:, 1:3] == [0, 1]).all(), "all routes take the diamonds"


def test_vpo_settles_on_one_set():
    """Nine of ten rollouts of the last step earn the same three vectors; at first hardly two do."""
    assert "nine of ten rollouts earn the same three reward vectors" in " ".join(GUIDE.split())
    records, most = run_of("three_methods/seed-0", "vpo").records, []
    for record in (records[0], records[-1]):
        sets = np.concatenate([group.rewards for group in record.groups]).reshape(64, -1)
        most.append(np.unique(sets, axis=0, return_counts=True)[1].max() / 64)
    assert most[0] < 0.1 and round(most[1], 1) == 0.9


def test_three_independent_draws_cover_as_much_as_the_homework_says():
    best = told(rf"about {N}, {N} and {N}, which cover {N}\.")
    worth = {
        held: float(vpo.exact_set_reward(rewards("ABC")[list(held)]))
        for held in itertools.product(range(3), repeat=3)
    }

    def covered(p):
        return sum(p[list(held)].prod() * U for held, U in worth.items()) / worth[0, 1, 2]

    parts = np.arange(51) / 50
    grid = [np.array([a, b, 1 - a - b]) for a in parts for b in parts if a + b <= 1 + 1e-9]
    near(best[:3], max(grid, key=covered), 2)
    near(best[3:], [max(map(covered, grid))], 2)


@pytest.mark.slow
def test_grpo_does_not_settle_on_the_compromise():
    """The longest walk with the best mean, in the last step of no recorded run of GRPO."""
    found = replayed("three_methods/seed-0").maze.pareto_front()
    assert found.rewards.mean(axis=1).argmax() == 1 == np.argmax([len(r) for r in found.routes])
    for part, seed in itertools.product(("three_methods", "equal_answers"), range(3)):
        groups = run_of(f"{part}/seed-{seed}", "grpo").record.groups
        last = np.concatenate([group.rewards.reshape(-1, 4) for group in groups])
        assert not (last == found.rewards[1]).all(axis=1).any()
        assert (last == found.rewards[2]).all(axis=1).mean() > 0.95  # all diamonds
    told = "Six GRPO runs were recorded. None has it among the answers of its last step."
    assert told in " ".join(GUIDE.split())


def test_the_line_is_passed_where_told():
    line = vpo.price_of_conflict(front())[1]
    above = [r.coverage > line for r in run_of("three_methods/seed-0", "vpo").records]
    first, for_good = told(r"at step (\d+), and stays above it from step (\d+) on")
    assert first == 1 + above.index(True) and for_good == len(above) + 1 - above[::-1].index(False)


@cache
def front():
    return envs.generate("lite-6x6", 1000).pareto_front().rewards


def test_three_times_the_rollouts_end_below_the_line():
    more, line = told(rf"GRPO ends at {N}, still below the best single answer, {N}\.")
    near([more, line], [end("equal_answers/seed-0", "grpo"), vpo.price_of_conflict(front())[1]], 3)
    assert more < line
    config = run_of("equal_answers/seed-0", "grpo").config
    assert config.group_size == told(r"gets G = (\d+) instead")[0]
    used = run_of("equal_answers/seed-0", "grpo").used[0]
    assert used == run_of("three_methods/seed-0", "vpo").used[0] and f"{used:,} answers" in GUIDE


def test_alpha_moves_what_is_told():
    shares = [vpo.exact_shares(front(), alpha)[1] * 100 for alpha in (0.05, 1, 20)]
    low, middle, high = told(rf"wins {N} % at the left end, {N} % at α = 1, and about {N} % at")
    near([low, middle], shares[:2], 0)
    assert abs(high - shares[2]) < 3
    grpo = [end("three_methods/seed-0", "grpo", alpha) for alpha in (0.05, 20)]
    near(told(rf"coverage rises from {N} to {N}\."), grpo, 2)
    line = [vpo.price_of_conflict(front(), (1,), alpha)[1] for alpha in (0.05, 20)]
    near(told(rf"\*best 1\* rises from {N} to {N}:"), line, 2)
    vpo_at_the_end = end("three_methods/seed-0", "vpo", 20)
    near(told(rf"right end of α VPO covers {N}, less than"), [vpo_at_the_end], 3)
    assert grpo[1] < vpo_at_the_end < line[1], "the question, and what is said of GRPO"


@pytest.mark.slow
def test_the_broken_run_is_the_one_that_is_told():
    last = {x: run_of(f"silent_bug/{x}", "vpo").records[-1] for x in "abc"}
    broken, *others = told(rf"Run \(b\): coverage {N}, the others {N} and {N}\.")
    near([broken, *others], [last[x].coverage for x in "bac"], 3)
    near(told(rf"\*highest\*, {N}\."), [last["b"].diversity], 2)
    assert (
        max(last, key=lambda x: last[x].diversity)
        == "b"
        == min(last, key=lambda x: last[x].coverage)
    )


def test_the_table_for_the_board_is_right():
    table = [
        row[1:]
        for row in rows(section("The class: 50 minutes"))
        if "person" in row[0] or "lover" in row[0]
    ]
    near(np.array(table[1:], dtype=float), PEOPLE @ rewards("ABC").T, 1)


def test_the_sets_on_the_board_and_their_swap():
    near(
        told(rf"\{{C, C, C\}} is worth {N}, \{{A, B, B\}} {N}, \{{A, B, C\}} {N}\."),
        list(map(of_three, SETS)),
        2,
    )
    everyone = [float(vpo.exact_set_reward(rewards(letters))) for letters in SETS]
    near(told(rf"If all weights are equally likely, it is {N}, {N} and {N}"), everyone, 2)
    near(told(rf"sets are then worth {N}, {N} and {N}\."), list(map(swapped, SETS)), 2)


def test_the_paper_version_of_the_exercise():
    table = rows(section("The paper version of exercise 01-a"))[1:]
    assert [row[0].replace(" ", "") for row in table] == list(ROLLOUTS)
    R = np.stack([rewards(letters) for letters in ROLLOUTS])
    ours = vpo.advantages("vpo", R[None], weights=PEOPLE)[0]
    near([float(row[1]) for row in table], list(map(of_three, ROLLOUTS)), 2)
    near([float(row[2].replace("−", "-")) for row in table], ours, 2)
    rounded = np.array([float(row[1]) for row in table])
    scores = (rounded - rounded.mean()) / np.sqrt(((rounded - rounded.mean()) ** 2).mean())
    near(told(rf"two decimals first gives {N}, {N}, {N} and {N}\."), scores, 2)


def test_the_key_of_the_exit_ticket_and_what_wrong_answers_show():
    right, *parts = told(rf"1: {N}, the mean of {N}, {N} and {N}\.")
    near([right], [of_three("BD")], 2)
    near(parts, (PEOPLE @ rewards("BD").T).max(axis=1), 2)
    wrong = {row[1]: float(row[0].removeprefix("1: ")) for row in rows(section("Exit ticket"))[1:4]}
    scores = PEOPLE @ rewards("BD").T
    near(list(wrong.values()), [swapped("BD"), scores.mean(), scores.max(axis=1).sum()], 3)
    assert np.isclose(of_three("DDB"), of_three("BD"))
    added_up = [scores[:, held].sum(axis=1).mean() for held in ([1, 1, 0], [0, 1])]
    assert 1.5 < added_up[0] / added_up[1] < 1.55  # half as much again
    assert swapped("C") > max(swapped("A"), swapped("B")), "C has the best mean"


def test_exercise_00_b_cures_what_it_is_named_for():
    assert (
        not check("00-c", "far apart").right
        and "diversity is not quality" in check("00-c", "far apart").text
    )


def test_times_are_those_that_were_measured():
    results = json.loads((ROOT / "tests/benchmarks/results/training.json").read_text())
    demo = [results[f"threads_{n}"]["demo"] for n in (1, 2)]
    vpo_seconds, grpo_seconds = told(
        rf"Forty steps of VPO take {N} s on a quiet machine, and forty of GRPO {N} s"
    )
    assert vpo_seconds in [round(d["vpo"]["seconds_for_40_steps"]) for d in demo]
    assert grpo_seconds in [round(d["grpo"]["seconds_for_40_steps"], 1) for d in demo]


def test_no_other_number_stands_in_the_guide():
    """Each decimal is computed above, or a notebook of the class says it."""
    above = {"0.707", "0.702", "0.994", "0.854", "0.940", "1.13", "0.93", "0.860", "0.901", "0.76"}
    above |= {"0.94", "0.942", "0.992", "0.991", "1.10", "0.77", "0.80", "1.09", "0.65", "0.22"}
    above |= {"1.53", "0.70", "0.55", "2.1", "12.8", "1.8", "0.50", "1.07", "0.68", "0.23"}
    above |= {"0.979", "0.73", "0.75", "0.525", "2.2", "0.38", "0.24"}
    notebooks = "".join(notebook(number)[0] for number in ("00", "01", "02", "04"))
    text = GUIDE.replace("2605.22817", "").replace("2.0:", "")
    known = above | set(re.findall(r"\d+\.\d+", notebooks))
    assert set(re.findall(r"\d+\.\d+", text)) <= known


def test_the_notebooks_own_minutes_are_told():
    for number, minutes in (
        ("00", told(r"(\d+) and \d+ minutes\. The class")),
        ("01", told(r"\d+ and (\d+) minutes\. The class")),
    ):
        time = notebook(number)[0].partition("**Time**")[2]
        assert re.search(r"marked ★ takes (\d+) minutes", time)[1] == str(int(minutes[0]))


# --- the cheat sheet ------------------------------------------------------------------------------


class Texts(HTMLParser):
    """The text of a page, and its tags with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.said, self.tags, self.attributes = "", [], {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.setdefault(tag, []).append(dict(attributes))

    def handle_data(self, data):
        self.said += "" if self.tags[-1:] == ["style"] else data


def test_the_numbers_of_the_sheet_are_closed_forms():
    said = numbers()
    assert said["specialists"] == "0.75"  # E max(w, 1 - w), w uniform
    assert said["all_three"] == f"{0.4 * 0.8 * 2 + 0.2 * 0.6:.2f}"  # by pieces of w
    assert said["ceiling"] == f"{0.6 / 0.76:.2f}" and said["largest_one"] == f"{11 / 18:.2f}"
    assert [said[f"share_{name}"] for name in "ABC"] == ["40 %", "40 %", "20 %"]
    assert said["failing"] == f"{4 * 1.2 / 10:.2f}"  # 4 of the 10 pairs are 1.2 apart


def test_the_sheet_shows_them_and_the_group_of_four():
    text = Texts(SHEET).said
    table = re.findall(r"([ABC] [ABC] [ABC])(0\.\d\d)([+−]\d\.\d\d)", text)
    U = np.array([0.76, 0.75, 0.68, 0.60])  # worth of A B C, A B B, A C C, C C C
    assert [row[0] for row in table] == ["A B C", "A B B", "A C C", "C C C"]
    near([float(row[1]) for row in table], U, 2)
    near([float(row[2].replace("−", "-")) for row in table], (U - U.mean()) / U.std(), 2)
    sets = re.findall(r"([ABC], [ABC], [ABC])(0\.\d\d)(0\.\d\d)", text)  # max inside, outside
    assert sets == [
        ("C, C, C", "0.60", "0.60"),
        ("A, B, B", "0.75", "0.50"),
        ("A, B, C", "0.76", "0.60"),
    ]
    assert "{" not in text.replace("{A, B}", "")


def test_the_picture_cuts_the_weights_where_the_winner_changes():
    """B and C cross at w = 0.4, C and A at 0.6, and the bold line is the highest score."""
    (points,) = re.findall(r"<polyline points='([^']+)'", SHEET)
    corners = np.array([[float(x) for x in point.split(",")] for point in points.split()])
    (left, bottom), (right, top) = (34, 114), (306, 14)
    w = (corners[:, 0] - left) / (right - left)
    score = (bottom - corners[:, 1]) / (bottom - top)
    assert np.allclose(w, [0, 0.4, 0.6, 1], atol=1e-3)
    assert np.allclose(score, [1, 0.6, 0.6, 1], atol=1e-3)


def test_the_sheet_asks_for_nothing_and_runs_nothing():
    page = Texts(SHEET)
    assert "script" not in page.tags and not re.findall(r"\b(?:src|href|url|import)\s*[=(]", SHEET)
    policy = page.attributes["meta"][1]["content"]
    assert policy.startswith("default-src 'none'") and "script" not in policy
    assert "://" not in SHEET


def test_the_sheet_can_be_read_by_everyone():
    page = Texts(SHEET)
    assert page.attributes["html"] == [{"lang": "en"}] and page.tags.count("h1") == 1
    (picture,) = page.attributes["svg"]
    assert picture["role"] == "img" and "40 %" in picture["aria-label"]
    assert all(cell.get("scope") in ("row", "col") for cell in page.attributes["th"])
    for colour in set(re.findall(r"(?<!background: )(#[0-9A-F]{6})", SHEET)):  # on white
        luminance = linear(colour) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) >= 4.5 and np.ptp(linear(colour)) == 0, colour


@pytest.mark.parametrize("line", re.findall(r"vpo-lite ([^<`]+)</code>", SHEET))
def test_commands_of_the_sheet_parse(line):
    commands.parser(line.split()).parse_args(line.split())


def test_the_sheet_says_what_its_short_words_mean():
    text = " ".join(Texts(SHEET).said.split())
    for riddle in ("counts votes", "who asks", "only the budget", "the same;"):
        assert riddle not in text
    assert text.index("+ 1e-6) # 4 z-score") < text.index("The z-score runs over")
    assert "so the majority wins, even against a better set." in text


def test_the_sheet_names_five_commands():
    assert len(re.findall(r"<code>vpo-lite ", SHEET)) == 5


def test_the_command_writes_the_sheet_and_refuses_what_is_no_page(tmp_path, capsys):
    out = tmp_path / "sheet.html"
    assert cli.main(["course", "sheet", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").rpartition("<!--")[0] == SHEET
    capsys.readouterr()
    for wrong in (tmp_path, tmp_path / "sheet.txt", tmp_path / "none" / "sheet.html"):
        assert cli.main(["course", "sheet", "--out", str(wrong)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.html"]


@pytest.mark.browser
@pytest.mark.slow
def test_the_sheet_prints_on_one_page(tmp_path):
    out = tmp_path / "sheet.html"
    out.write_text(SHEET, encoding="utf-8")
    with harness.browser() as context:
        page = harness.Page(context, "")
        page.page.goto(out.as_uri())
        for paper in ("A4", "Letter"):
            printed = page.page.pdf(format=paper)
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, paper
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        for width, height in ((1280, 720), (390, 844), (320, 640)):  # a projector, two phones
            page.page.set_viewport_size({"width": width, "height": height})
            assert page.page.locator("body").evaluate(f"() => {wide}") <= 0, width
        assert page.wrong == []
