"""The HTML report: it opens offline, and what it says is what the runs hold."""

import re

import pytest

from vpo_lite.cli import main


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


def test_the_page_is_whole_and_asks_no_network_for_anything(runs, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["compare", *runs, "--html", str(page)]) == 0
    text = page.read_text()
    assert text.rstrip().endswith("</html>")
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)\s*=\s*["']""", markup)
    assert not re.findall(r"<script[^>]+src=", text)
    assert "3 runs of 2 kinds" in markup
    for name in (
        "vpo-1000",
        "vpo-1001",
        "grpo-1000",
        "maze_seed=1001",
        "tokens per answer",
        "best@30",
    ):
        assert name in markup


def test_a_page_that_cannot_be_written_is_said_in_one_line(runs, tmp_path, capsys):
    assert main(["compare", *runs, "--html", str(tmp_path / "nowhere" / "report.html")]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and "cannot be written" in error


@pytest.mark.parametrize(("name", "said"), [("a.pdf", "name it FILE.html"), ("", "is a folder")])
def test_a_page_with_another_name_or_a_folder_is_refused_first(name, said, tmp_path, capsys):
    assert main(["compare", "no_run", "--html", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and said in error and not list(tmp_path.iterdir())
