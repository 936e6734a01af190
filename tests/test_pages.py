"""The HTML report: it opens offline, and what it says is what the runs hold."""

import json
import re
import shutil
from pathlib import Path

import browser_harness
import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite import pages
from vpo_lite.cli import main
from vpo_lite.training.side_by_side import table


@pytest.fixture(scope="module")
def runs(tiny_policy_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    small = [
        "train",
        "--model",
        str(tiny_policy_folder),
        "--prompts",
        "1",
        "--group-size",
        "4",
        "--steps",
        "2",
        "--max-new-tokens",
        "16",
        "--device",
        "cpu",
        "--json",
    ]
    made = []
    for method, seed in (("vpo", 1000), ("vpo", 1001), ("grpo", 1000)):
        made.append(folder / f"{method}-{seed}")
        assert (
            main([*small, "--method", method, "--maze-seed", str(seed), "--out", str(made[-1])])
            == 0
        )
    return [str(m) for m in made]


@pytest.mark.slow
def test_the_page_is_whole_and_asks_no_network_for_anything(runs, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["compare", *runs, "--html", str(page)]) == 0
    printed, text = capsys.readouterr().out, page.read_text()
    assert f"{page}: open it in a browser" in printed
    told = "Beside the method, these differ (vpo / grpo): answers sampled in training"
    assert told in printed and told in text and "measured at temperature 1 and" in text
    assert "Sampled at" not in printed
    assert text.splitlines()[-2] == "</html>"
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)\s*=\s*["']""", markup)
    assert not re.findall(r"<script[^>]+src=", text)
    assert "3 runs of 2 kinds" in markup
    (rates,) = set(re.findall(r'"yaxis3":({.*?}),"', text))
    assert '"maxallowed":1.05' in rates, "no axis of a rate ends at 2"
    alone = tmp_path / "alone.html"
    assert main(["compare", runs[0], "--html", str(alone)]) == 0
    assert "<h1>1 run of 1 kind</h1>" in alone.read_text()
    for name in (
        "vpo-1000",
        "vpo-1001",
        "grpo-1000",
        "maze_seed=1001",
        "tokens per answer",
        "best@30",
    ):
        assert name in markup


@pytest.mark.slow
def test_another_temperature_is_named_wherever_runs_are_compared(runs, tmp_path, capsys):
    cold, page = tmp_path / "cold.json", tmp_path / "report.html"
    assert main(["evaluate", runs[0], "--temperature", "0.5", "--json"]) == 0
    cold.write_text(capsys.readouterr().out)
    assert json.loads(cold.read_text())["temperature"] == 0.5
    assert main(["compare", str(cold), runs[2]]) == 0
    printed = capsys.readouterr().out
    assert "sampled at temperature 0.5 / 1.0" in printed, "what differs beside the method"
    assert "Sampled at temperatures 0.5 and 1." in printed
    assert main(["compare", str(cold)]) == 0
    assert "Sampled at temperature 0.5." in capsys.readouterr().out
    pages.write_report(runs[:1], page, vpo.compare([cold]))
    assert "measured at temperature 0.5 and at equal" in page.read_text()
    for wrong in ("0", "nan", "hot"):
        assert main(["evaluate", runs[0], "--temperature", wrong]) == 2
        assert "temperature" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_has_the_columns_of_the_table(runs):
    """Only the page had the tokens per answer, and only the table the repeats."""
    rows = vpo.compare(runs)
    titles = re.findall(r'<th scope="col">(.*?)</th>', pages._table(rows))
    assert titles == re.split(r" {2,}", table(rows).splitlines()[0])
    assert {"repeats", "tokens per answer", "any@30"} <= {*titles}


@pytest.mark.slow
def test_the_curves_over_tokens_begin_at_none_and_count_what_was_sampled_before(runs):
    series = pages._series(vpo.compare(runs), ["diversity"])
    sampled = {}
    for folder in runs:
        lines = [
            json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()
        ]
        sampled.setdefault(lines[0]["method"], []).append(lines[0]["tokens"])
    for label, found in series.items():
        assert found["step"].tolist() == [1, 2]
        assert found[pages.TOKENS].tolist() == [0, np.mean(sampled[label]) / 1000]
        assert found["diversity"].shape == (len(sampled[label]), 2)


@pytest.mark.slow
def test_without_a_known_front_the_curves_show_the_set_reward(runs, tmp_path):
    hidden = []
    for folder in map(Path, runs):
        hidden.append(tmp_path / folder.name)
        shutil.copytree(folder, hidden[-1])
        summary = json.loads((folder / "summary.json").read_text())
        for part in (summary, summary["start"]):
            part |= {"coverage": None, "coverage_best_single": None}
            part["per_problem"]["coverage"] = [None]
        (hidden[-1] / "summary.json").write_text(json.dumps(summary))
    for folders, drawn in ((runs, "coverage"), (hidden, "set reward")):
        page = pages.write_report(folders, tmp_path / "page.html", vpo.compare(folders))
        found = re.findall(r"(coverage|set reward)\. Across: (?:step|tokens)", page.read_text())
        assert found == [drawn, drawn]


@pytest.mark.slow
def test_the_best_single_answer_is_drawn_for_the_problems_that_all_rows_have(runs, tmp_path):
    """The mean of two mazes' was the ceiling of none."""
    alike = [runs[0], runs[2]]  # VPO and GRPO on maze 1000; runs[1] is on maze 1001
    ceiling = vpo.compare(alike)[0]["coverage_best_single"]
    assert vpo.compare(runs)[0]["coverage_best_single"] != ceiling
    for folders, drawn in ((alike, True), (runs, False)):
        page = pages.write_report(folders, tmp_path / "page.html", vpo.compare(folders)).read_text()
        levels = re.findall('"y0":([0-9.]+),"y1":([0-9.]+)', page)
        assert ((str(ceiling), str(ceiling)) in levels) is drawn and bool(levels) is drawn


@pytest.mark.slow
def test_any_k_stands_beside_best_k(runs):
    rows = vpo.compare(runs)
    for i, row in enumerate(rows):
        row["any_at_k"] = {k: 0.1 * i + 0.01 * int(k) for k in row["best_at_k"]}
    drawn = {(line.name, line.xaxis): line for line in pages._pools(rows).data}
    assert len(drawn) == 2 * len(rows)
    for row in rows:
        name = row["method"].upper()
        for axis, values in (("x", row["any_at_k"]), ("x2", row["best_at_k"])):
            line = drawn[name, axis]
            assert dict(zip(map(str, line.x), line.y, strict=True)) == pytest.approx(values)


WIDE = """() => { const seen = document.documentElement, inside = [];
  for (const e of document.querySelectorAll('.wide')) inside.push(e.scrollWidth - e.clientWidth);
  return [seen.scrollWidth - seen.clientWidth, Math.max(...inside)]; }"""


@pytest.mark.browser
@pytest.mark.slow
def test_on_a_projector_all_is_seen_and_in_a_narrow_window_tables_and_figures_scroll(
    runs, tmp_path, capsys
):
    compared, rewards = tmp_path / "compared.html", tmp_path / "rewards.html"
    np.save(tmp_path / "R.npy", np.random.default_rng(0).random((3, 20, 4)))
    assert main(["compare", *runs, "--html", str(compared)]) == 0
    assert main(["report", "--rewards", str(tmp_path / "R.npy"), "--html", str(rewards)]) == 0
    with browser_harness.browser(1280, 720) as context:
        page = context.new_page()
        for path in (compared, rewards):
            page.goto(path.as_uri())
            page.wait_for_selector(".main-svg")
            assert page.evaluate(WIDE) == [0, 0]
            assert page.locator("main h1").count() == 1, "what a screen reader jumps to"
            page.set_viewport_size({"width": 640, "height": 800})
            whole, inside = page.evaluate(WIDE)
            assert whole == 0 and inside > 300, "the page does not scroll sideways, its parts do"
            page.set_viewport_size({"width": 1280, "height": 720})


def test_a_page_that_cannot_be_written_is_said_in_one_line(runs, tmp_path, capsys):
    assert main(["compare", *runs, "--html", str(tmp_path / "nowhere" / "report.html")]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "cannot be written" in error


@pytest.mark.parametrize(("name", "said"), [("a.pdf", "name it FILE.html"), ("", "is a folder")])
def test_a_page_with_another_name_or_a_folder_is_refused_first(name, said, tmp_path, capsys):
    assert main(["compare", "no_run", "--html", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and said in error and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "request_for",
    [
        ["course", "sheet", "--out"],
        ["export", "lesson", "few_weights/K-64", "--out"],
        ["compare", "no_run", "--html"],
        ["report", "--rewards", "no_rewards.npy", "--html"],
    ],
)
def test_no_page_takes_the_place_of_a_file_that_the_kit_did_not_write(
    request_for, tmp_path, capsys
):
    page = tmp_path / "notes.html"
    for content in (b"my notes", b"", b"\xff", b"<!-- written by vpo-lite: 0123456789abcdef -->"):
        page.write_bytes(content)
        assert main([*request_for, str(page)]) == 2
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1 and "notes.html" in error
        assert "vpo-lite did not write it" in error and "name another file" in error
        assert page.read_bytes() == content and list(tmp_path.iterdir()) == [page]


@pytest.mark.slow
def test_a_page_is_written_again_unless_somebody_changed_it(few_alphas, tmp_path, capsys):
    page = tmp_path / "class.html"
    sheet, lesson = ["course", "sheet"], ["export", "lesson", "few_weights/K-64"]
    assert main([*sheet, "--out", str(page)]) == 0
    first = page.read_bytes()
    page.write_bytes(first.replace(b"\n", b"\r\n"))  # as Windows ends lines, or git
    assert main([*sheet, "--out", str(page)]) == 0
    assert page.read_bytes() == first
    assert main([*lesson, "--out", str(page)]) == 0, "another page of the kit"
    page.write_text(page.read_text().replace("Play", "Press here"))
    changed = page.read_bytes()
    for command in (sheet, lesson):
        assert main([*command, "--out", str(page)]) == 2
        assert "it was changed since" in capsys.readouterr().err
    assert page.read_bytes() == changed
