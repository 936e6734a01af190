"""README, reference and guide keep up with the code: tree, commands, pictures, links, tables."""

import importlib.util
import json
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from recorded import replayed

import vpo_lite as vpo
from envs.layouts import PRESETS
from vpo_lite.studies import declaration
from vpo_lite.tasks import task_class, task_names
from vpo_lite.training.presets import PRESETS as TRAINING_PRESETS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "benchmarks" / "results"
GUIDES = [f"notebooks/{name}.md" for name in ("REFERENCE", "STUDY", "TEACHING", "WHERE")]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *GUIDES)
TEXTS = {page: (ROOT / page).read_text() for page in PAGES}
README, REFERENCE = TEXTS["README.md"], TEXTS["notebooks/REFERENCE.md"]
FRONT = pytest.mark.parametrize("text", [README, REFERENCE], ids=["README", "REFERENCE"])
MOVING = "notebooks/images/panel.webp"


def committed():
    """The files of the repository, also those that are not added yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if (ROOT / line).exists()]


TREE = TEXTS["CONTRIBUTING.md"].partition("## The tree")[2].partition("\n## ")[0]
NAMED = {  # every name that stands before a colon
    name
    for line in TREE.splitlines()
    if ":" in line
    for name in re.findall(r"\w+", line.partition(":")[0])
}


def rooms_and_modules():
    """{the name that must stand in the tree: a file that asks for it}."""
    names = {}
    for file in committed():
        room, *parts = Path(file).parts
        if room == "notebooks" and file.endswith(".ipynb"):
            names[Path(file).stem] = file
        if room in ("envs", "vpo_lite") and file.endswith((".py", ".js")):
            package = [part for part in parts[:-1] if part in ("cli", "recordings", "sandbox")]
            names[package[-1] if package else Path(file).stem] = file
            names[parts[0].partition(".")[0] if len(parts) > 1 else room] = file
    del names["vpo_lite"]  # the folder itself
    return {name: file for name, file in names.items() if not name.startswith("__")}


def test_every_module_and_notebook_stands_in_the_tree():
    missing = {n: file for n, file in rooms_and_modules().items() if n not in NAMED}
    assert not missing, f"no line in CONTRIBUTING's tree: {missing}"


def test_the_tree_names_nothing_that_is_not_there():
    assert NAMED - {"weights"} <= set(rooms_and_modules()) | {"notebooks"}


# --- links and pictures ---------------------------------------------------------------------------


def anchors(text):
    """GitHub's names of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_lead_somewhere(page):
    found = re.findall(r"\]\(([^)]+)\)", TEXTS[page])
    found += re.findall(r'\b(?:src|srcset)="([^"]+)"', TEXTS[page])
    for link in found:
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.read_text()), link


@pytest.mark.parametrize("page", PAGES)
def test_bold_is_closed_in_the_paragraph_that_opens_it(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", TEXTS[page], flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*- )", text):
        assert paragraph.count("**") % 2 == 0, paragraph


def test_the_reference_begins_with_all_its_sections():
    contents, *sections = re.split(r"^## ", REFERENCE, flags=re.MULTILINE)
    named = set(re.findall(r"\]\(#([^)]+)\)", contents))
    assert sections and named == anchors("".join(f"## {s}" for s in sections))


def test_the_front_page_stays_short():
    """Half of its length before there was a reference."""
    assert len(README.splitlines()) <= 220 and len(README.encode()) <= 15_000


def frames(path):
    """(milliseconds of each frame, times that they are shown) of an animated WebP."""
    data, at, lasts, times = path.read_bytes(), 12, [], None
    assert (data[:4], data[8:12]) == (b"RIFF", b"WEBP")
    while at < len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"ANIM":  # background, loops
            times = struct.unpack_from("<H", data, at + 12)[0]
        if kind == b"ANMF":  # place and size of the frame in 12 bytes, then its time in 3
            lasts.append(int.from_bytes(data[at + 20 : at + 23], "little"))
        at += 8 + size + size % 2
    return lasts, times


def test_the_picture_moves_for_some_seconds_and_rests():
    lasts, times = frames(ROOT / MOVING)
    assert MOVING in README and (ROOT / MOVING).stat().st_size < 1_000_000
    assert 15 <= len(lasts) <= 25 and 6_000 <= sum(lasts) <= 10_000
    assert lasts[-1] >= 5 * max(lasts[1:-1]) and 1 <= times <= 5


def test_the_picture_is_told_as_it_was_recorded():
    """The ends of both runs and the best single route, in the alt text and below the picture."""
    lab = replayed("three_methods/seed-0")
    runs, front = lab.runs, lab.maze.pareto_front().rewards
    (alt,) = re.findall(r'panel.webp"\nalt="([^"]+)"', README)
    below = README.partition("</picture>")[2].partition("\n## ")[0]
    best = f"{front.mean(axis=1).max() / vpo.exact_set_reward(front):.2f}"
    ends = [f"{runs[method].record.coverage:.2f}" for method in ("grpo", "vpo")]
    on_twenty = [
        "0.88",
        "0.95",
        "0.89",
        "0.75",
        "0.69",
    ]  # of the reference, whose table another test recomputes
    for text, more in ((alt, []), (below, on_twenty)):
        assert re.findall(r"\b[01]\.\d\d", text) == [*ends, best, *more]
    assert "The best single answer would cover 0.89 of the front" in REFERENCE
    for row in ("VPO, m = 3, G = 16", "GRPO, G = 48: equal answers"):
        assert re.search(rf"\| {row} \|.*\*\*0.{'95' if 'VPO' in row else '88'}\*\*", REFERENCE)
    treasures = [sorted(runs[m].moment.rewards[:, 1:3].tolist()) for m in ("grpo", "vpo")]
    assert treasures == [[[0, 1]] * 3, [[0, 1], [1, 0], [1, 0]]]  # gold, diamonds


def test_the_path_names_every_notebook_and_its_minutes():
    rows = re.findall(r"^\| \[(\d\d [^]]+)\]\((\S+)\) \| (\d+), (\d+) \|", README, re.MULTILINE)
    paths = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert [row[1] for row in rows] == [f"notebooks/{path.name}" for path in paths]
    for (name, _, *told), path in zip(rows, paths, strict=True):
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        assert first.splitlines()[0] == f"# {name[:2]} ·{name[2:]}"
        assert re.findall(r"(\d+) minutes", first.partition("**Time**")[2])[:2] == told


# --- commands and code ----------------------------------------------------------------------------


def commands_in(text):
    """The commands that a page shows: lines of their own, and in sentences those with a flag."""
    shown = re.findall(r"^vpo-lite (.+?)(?:\s+#.*)?$", text, re.MULTILINE)
    shown += re.findall(r"`(?:[^`\n]*-m vpo_lite\.cli|vpo-lite) ([^`\n]+ --[^`\n]+)`", text)
    shown = [line.replace("--task NAME", "--task hops") for line in shown]
    return [line for line in shown if "--help" not in line and ":Class" not in line]


ACTIVATE = ("`source .venv/bin/activate`", "`.venv\\Scripts\\activate`")  # Windows


@pytest.mark.parametrize("page", ["README.md", "notebooks/TEACHING.md"])
def test_a_page_says_how_a_terminal_finds_the_command_before_it_shows_one(page):
    """`make lab` installs into .venv, so the next line of a reader ended with: not found."""
    assert "\nBIN := .venv/bin\n" in (ROOT / "Makefile").read_text()
    before, *commands = re.split(r"^```bash\nvpo-lite ", TEXTS[page], flags=re.MULTILINE)
    assert commands and all(how in before for how in ACTIVATE)


@pytest.mark.slow
@FRONT
def test_commands_parse(text):
    from vpo_lite.cli.commands import parser

    shown = commands_in(text)
    assert len(shown) > 9
    for line in shown:
        parser(line.split()).parse_args(line.split())


@pytest.mark.slow
@FRONT
def test_the_python_runs(text, capsys):
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    trains = "vpo.train(" in code
    small = code.replace("maze_seed=1000)", "maze_seed=1000, steps=2, prompts=1, group_size=4)")
    assert trains == (small != code) == (text is REFERENCE)
    there = {}
    exec(small, there)
    if trains:
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]
        assert there["answers"] == [" 7 ", None] and there["rewards"] == [[1, 1], [0, 0]]
        assert there["judged"].rewards.tolist() == [[1, 0.25], [0, 0]]
        best, answer = there["found"]  # of a search of one's own
        asked = there["task"], [there["task"].instance(0)]
        assert len(there["written"]) == 30 and best == max(there["earned"][:, 0])
        assert asked[0].score(asked[1], [[answer]])[0][0, 0] == best
        drawn = {t.name: (len(t.y), t.error_y.array[29] > 0) for t in there["figure"].data}
        assert drawn == {"VPO, m = 3": (30, True), "GRPO, 3 x rollouts": (30, True)}
        assert len(there["rows"]) == 1 + 2 * 5 * 30  # two kinds, five seeds, k = 1 to 30
    else:
        assert there["A"].shape == (there["P"], there["G"]) and abs(there["A"].mean()) < 1e-9


def test_the_study_can_be_declared(tmp_path):
    (declared,) = re.findall(r"```toml\n(.*?)```", REFERENCE, re.DOTALL)
    (tmp_path / "mine.toml").write_text(declared)
    study = declaration.read(tmp_path / "mine.toml")
    assert [study.rates(kind) for kind in study.kinds] == [[4e-4, 1e-3]] * 2
    assert study.job("grpo_x3", 1e-3, 0).config.group_size == 24


# --- the demo -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo_study", "updates_study"])
def test_a_table_of_the_demo_is_the_one_that_was_measured(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tests/benchmarks/{name}.py")
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    assert study.page_table(json.loads(study.RESULTS.read_text())) in REFERENCE


def test_what_is_said_of_several_updates_a_step_follows_from_their_results():
    found = json.loads((RESULTS / "updates.json").read_text())["coverage"]

    def ahead(kind, other, after):
        gap = np.array(found[kind][after]) - found[other][after]
        half = scipy.stats.t.ppf(0.975, len(gap) - 1) * gap.std(ddof=1) / len(gap) ** 0.5
        return gap.mean(), gap.mean() - half, gap.mean() + half

    four, one = "VPO, 4 mini-batches", "VPO, 1 update a step"
    assert len(found[one]["39"]) == 11
    assert all(ahead(four, one, after)[1] > 0 for after in ("10", "20", "39"))
    assert [round(x, 3) for x in ahead(four, "VPO, 1 update, four times the rate", "39")] == (
        [0.015, -0.004, 0.034]
    )
    grpo = "GRPO, 4 mini-batches", "GRPO, 1 update a step"
    assert all(low < 0 < high for _, low, high in (ahead(*grpo, n) for n in ("10", "20", "39")))


def test_the_demo_shows_what_the_lesson_says():
    """Means over the 20 mazes: a set of three covers more than any single answer could. GRPO's
    collapses at that ceiling, with VPO's rollouts and with VPO's answers and tokens alike."""
    rows = {
        row["label"]: row for row in json.loads((RESULTS / "demo_study.json").read_text())["rows"]
    }
    vpo, grpo, more = rows["vpo"], rows["grpo, group_size=16"], rows["grpo, group_size=48"]
    assert vpo["runs"] == grpo["runs"] == more["runs"] == 20
    assert vpo["coverage"] >= 0.93 and vpo["coverage"] >= vpo["coverage_best_single"] + 0.05
    assert 0.7 < more["tokens"] / vpo["tokens"] < 1.3 and grpo["tokens"] < 0.5 * vpo["tokens"]
    for single in (grpo, more):
        assert single["coverage"] <= single["coverage_best_single"] + 0.03
        assert single["diversity"] < single["start"]["diversity"] / 2
    assert vpo["valid_rate"] >= vpo["start"]["valid_rate"] - 0.10


def on_twenty_mazes(label):
    """(coverage, ceiling, diversity) of the kind of run with this label, (mazes,) each."""
    mazes = json.loads((RESULTS / "demo_study.json").read_text())["mazes"]
    assert len(mazes) == 20 and next(iter(mazes)) == "1000"
    names = ("coverage", "coverage_best_single", "diversity")
    return (np.array([maze[label][name] for maze in mazes.values()]) for name in names)


def where_it_ends(label):
    """{place: on how many of the twenty mazes}, with respect to the ceiling."""
    covered, ceiling, _ = on_twenty_mazes(label)
    ahead = covered - ceiling
    return {"at": sum(abs(ahead) < 1e-3), "below": sum(ahead < -1e-3), "above": sum(ahead > 1e-3)}


def written(name):
    """The text of a document of the notebooks' folder, in one line."""
    text = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    if name.endswith("ipynb"):
        text = " ".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return " ".join(text.split())


def test_where_grpo_ends_on_twenty_mazes_is_told_as_it_was_measured():
    few, more = (where_it_ends(f"grpo, group_size={size}") for size in (16, 48))
    covered, ceiling, spread = on_twenty_mazes("grpo, group_size=48")
    assert covered[0] < ceiling[0]  # the maze of the notebooks
    assert (spread[covered > ceiling + 1e-3] > 0).all()  # there its answers still differ
    by_vpo, _, _ = on_twenty_mazes("vpo")
    means = [f"{values.mean():.2f}" for values in (covered, ceiling, by_vpo)]
    passed, far = where_it_ends("vpo")["above"], sum(by_vpo > ceiling + 0.02)

    start, live, guide = map(written, ("00_start_here.ipynb", "04_train_live.ipynb", "TEACHING.md"))
    assert f"On {few['at']} of twenty mazes GRPO ends at the ceiling" in start
    places = f"on {more['at']}, below it on {more['below']}, and above it on {more['above']}"
    assert f"ends at the ceiling {places}, where its answers still differ" in live
    assert f"ends at the line {places}, where its answers still differ" in guide
    grpo, single, ours = means
    assert f"It covers {grpo} on average, and the ceiling is {single}. VPO covers {ours}" in live
    assert f"covers {grpo} on average, the best single answer {single}, VPO {ours}" in guide
    assert f"above the ceiling on {passed} mazes, by more than 0.02 on {far} of them" in live

    page = " ".join(REFERENCE.partition("## What the demo shows")[2].split())
    assert f"on {passed} of the 20 mazes, by more than 0.02 on {far} of them" in page
    told = "On {at} mazes it ends at the ceiling, on {below} below it, on {above} above"
    assert told.format(**few) in page
    told = "it ends at the ceiling on {at} mazes, on {below} below it, on {above} above"
    assert told.format(**more) in page and f"notebooks is one of the {more['below']}." in page


def test_the_reference_names_every_method_and_layout():
    table = REFERENCE.partition("## The methods")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (1 answer|m answers) \|", table, re.MULTILINE)
    single = {True: "1 answer", False: "m answers"}
    assert rows == [(name, single[way.single_answer]) for name, way in vpo.METHODS.items()]
    layouts = REFERENCE.partition("**Layouts of the maze**")[2].partition("\n\n")[0]
    assert re.findall(r"`([a-z]+-\d+x\d+)`", layouts) == list(PRESETS)


def test_the_reference_names_every_option_of_a_run_and_of_the_tasks():
    options = [
        *vpo.TrainConfig.options(),
        *(o for n in task_names() for o in task_class(n).options),
    ]
    missing = {option.flag for option in options} - set(re.findall(r"--[\w-]+", REFERENCE))
    assert not missing, missing


def test_the_table_of_presets_is_what_they_set():
    names = ["steps", "prompts", "group_size", "K", "lr", "rank", "kl", "temperature"]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([\d. |]+) \|$", REFERENCE, re.MULTILINE)
    assert [name for name, _ in rows] == list(TRAINING_PRESETS)
    for name, row in rows:
        config = vpo.TrainConfig.preset(name)
        assert [float(x) for x in row.split(" | ")] == [getattr(config, x) for x in names]
        assert (config.m, config.alpha) == (3, 1)


def test_no_placeholder_is_left():
    assert "<!--" not in README + REFERENCE
