"""Measurements during training: the figures of a run that ended there, and training as it was."""

import json
import shutil
import signal

import pytest

import vpo_lite as vpo
from vpo_lite import pages
from vpo_lite.cli import main
from vpo_lite.cli.told import better_before
from vpo_lite.files import DamagedError
from vpo_lite.training import run as run_module
from vpo_lite.training.config import OF_THE_MACHINE
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.run import Run
from vpo_lite.training.schemas import Figures

FIGURES = set(Figures.model_fields)


@pytest.fixture
def config(small_config):
    return small_config.but(steps=5, eval_every=2, eval_answers=4, lr=0.1)


@pytest.fixture(scope="module")
def whole(small_config, tmp_path_factory):
    """A finished run of five steps, measured after two and four. Not to be changed: copy it."""
    path = tmp_path_factory.mktemp("measured") / "whole"
    trained(small_config.but(steps=5, eval_every=2, eval_answers=4, lr=0.1), path)
    return path


def trained(config, path) -> dict:
    """The summary of a run that was trained to its end."""
    run = Run.begin(config, path)
    run.start()
    for _ in run.steps():
        pass
    return run.finish()


def adapter(path) -> bytes:
    return (path / "adapter_model.safetensors").read_bytes()


@pytest.mark.slow
def test_the_figures_after_a_step_are_those_of_a_run_that_ends_there(config, tmp_path):
    config = config.but(model="pocket-6x6", max_new_tokens=None, group_size=4, lr=1e-2)
    trained(config, tmp_path / "long")
    measured = RunFolder(tmp_path / "long").measured()
    assert [row["step"] for row in measured] == [2, 4]  # after the last step stands in the summary
    short = trained(config.but(steps=2, eval_every=None), tmp_path / "short")
    assert {name: measured[0][name] for name in FIGURES} == {name: short[name] for name in FIGURES}
    assert measured[0]["set_reward"] != measured[1]["set_reward"]  # it learns at this rate
    assert adapter(tmp_path / "long/adapter-2") == adapter(tmp_path / "short/adapter")
    assert not (tmp_path / "short" / "measured.jsonl").exists()


@pytest.mark.slow
def test_a_run_whose_method_was_edited_is_neither_compared_nor_evaluated(whole, tmp_path, capsys):
    """VPO's figures stood in a row of another method."""
    shutil.copytree(whole, tmp_path / "a")
    evaluated = ["evaluate", str(tmp_path / "a"), "--device", "cpu", "--json"]
    assert main(evaluated) == 0
    (tmp_path / "again.json").write_text(capsys.readouterr().out)
    (row,) = vpo.compare([tmp_path / "again.json"])
    for code in ("utf-16", "utf-8-sig"):  # as PowerShell's > writes it
        (tmp_path / "marked.json").write_text((tmp_path / "again.json").read_text(), code)
        assert vpo.compare([tmp_path / "marked.json"]) == [row]
    settings = json.loads((tmp_path / "a" / "config.json").read_text())
    (tmp_path / "a" / "config.json").write_text(json.dumps(settings | {"method": "set_max"}))
    with pytest.raises(ValueError, match=r"a has changed since: measure it again"):
        vpo.compare([tmp_path / "again.json"])
    with pytest.raises(ValueError, match=r"method is set_max, and .* tells of vpo"):
        vpo.compare([tmp_path / "a"])
    assert main(evaluated) == 2 and "method is set_max, and " in capsys.readouterr().err


@pytest.mark.slow
def test_measuring_changes_nothing_of_the_training(config, tmp_path):
    with_it, without = tmp_path / "with", tmp_path / "without"
    figures = [trained(config, with_it), trained(config.but(eval_every=None), without)]
    assert adapter(with_it / "adapter") == adapter(without / "adapter")
    assert all(figures[0][name] == figures[1][name] for name in FIGURES)
    assert "eval_every" in OF_THE_MACHINE  # so such runs are repetitions of each other


@pytest.mark.slow
def test_an_interval_beyond_the_last_step_is_one_line_and_writes_nothing(
    config, runs, tmp_path, capsys
):
    said = "eval_every = 6 with steps = 5: nothing would be measured before the end"
    with pytest.raises(ValueError, match=said):
        Run.begin(config.but(eval_every=6), tmp_path / "run")
    assert not list(tmp_path.iterdir())
    Run.begin(config.but(eval_every=5), tmp_path / "run").close()  # the last step is measured
    stored = (tmp_path / "run" / "config.json").read_text()
    resume = ["train", "--resume", str(tmp_path / "run")]
    assert main([*resume, "--eval-every", "6"]) == main([*resume, "--steps", "4"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"vpo-lite: {said}; lower eval_every, or train more steps"
    assert lines[1].startswith("vpo-lite: eval_every = 5 with steps = 4") and len(lines) == 2
    assert (tmp_path / "run" / "config.json").read_text() == stored


class Killed(BaseException):
    """Ends a run as kill -9 would."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "cut",
    [pytest.param("in a measurement", marks=pytest.mark.long), "in its line", "after the state"],
)
def test_a_run_that_was_killed_measures_what_is_missing_and_nothing_twice(
    config, whole, cut, tmp_path, monkeypatch
):
    lines = (whole / "measured.jsonl").read_text()
    run = Run.begin(config, tmp_path / "run")
    run.start()
    evaluate, calls = run_module.evaluate, []

    def killed(*arguments, **more):
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        return evaluate(*arguments, **more)

    monkeypatch.setattr(run_module, "evaluate", killed)
    with pytest.raises(Killed):
        for record in run.steps():
            if cut == "after the state" and record.step == 2:
                raise Killed
    run.close()
    monkeypatch.undo()
    file = tmp_path / "run" / "measured.jsonl"
    if cut == "in its line":
        file.write_text(lines[:-9])
    again = Run.resume(tmp_path / "run")
    assert again.done == (2 if cut == "after the state" else 4)
    told = []
    again.on_measured = lambda step, figures: told.append(step)
    for _ in again.steps():
        pass
    again.finish()
    assert file.read_text() == lines
    assert told == ([2, 4] if cut == "after the state" else [4])
    for step in (2, 4):
        kept = [adapter(run / f"adapter-{step}") for run in (whole, tmp_path / "run")]
        assert kept[0] == kept[1]


@pytest.mark.slow
def test_a_run_that_became_longer_measures_where_it_had_ended(config, tmp_path):
    trained(config.but(steps=4), tmp_path / "run")
    ended = RunFolder(tmp_path / "run").summary()
    again = Run.resume(tmp_path / "run", steps=5)
    for _ in again.steps():
        pass
    again.finish()
    measured = RunFolder(tmp_path / "run").measured()
    assert [row["step"] for row in measured] == [2, 4]
    assert {name: measured[1][name] for name in FIGURES} == {name: ended[name] for name in FIGURES}


@pytest.mark.slow
def test_lines_after_the_state_are_measured_again_and_a_damaged_one_is_said(config, tmp_path):
    run = Run.begin(config.but(save_every=3), tmp_path / "run")
    run.start()
    for record in run.steps():
        if record.step == 5:
            break
    run.close()
    file = tmp_path / "run" / "measured.jsonl"
    lines = file.read_text()
    assert lines.count("\n") == 2
    again = Run.resume(tmp_path / "run")
    assert again.done == 5  # the last step has a state
    again.close()
    (tmp_path / "run" / "state.safetensors").unlink()
    file.write_text(lines.replace('"step": 2', '"step": "2"'))
    with pytest.raises(DamagedError, match=r"measured\.jsonl, line 1: field step"):
        Run.resume(tmp_path / "run")
    assert file.read_text().count("\n") == 2


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[1, 1], [2, 1], [1, 30]])
def test_lines_that_are_not_of_this_run_or_out_of_order_are_said(whole, steps, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    row = json.loads((run / "measured.jsonl").read_text().splitlines()[0])
    lines = [json.dumps(row | {"step": step}) + "\n" for step in steps]
    (run / "measured.jsonl").write_text("".join(lines))
    with pytest.raises(
        DamagedError, match=rf"line 2: field step: expected .*, not {steps[1]}; put"
    ):
        pages.write_report([run], tmp_path / "page.html", vpo.compare([run]))
    with pytest.raises(DamagedError, match="line 2: field step"):
        Run.resume(run, steps=6)
    assert (run / "measured.jsonl").read_text() == "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [2, 3])
def test_a_lost_line_is_said_and_its_cure_works(config, lost, tmp_path):
    run, page = tmp_path / "run", tmp_path / "page.html"
    trained(config.but(steps=4, eval_every=1), run)
    file = run / "measured.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    file.write_text("".join(lines[: lost - 1] + lines[lost:]))
    said = rf"measured\.jsonl: lost the line of adapter-{lost}; .* or remove it"
    with pytest.raises(DamagedError, match=said):
        pages.write_report([run], page, vpo.compare([run]))
    with pytest.raises(DamagedError, match=said):
        Run.resume(run, steps=6)
    assert not page.exists() and RunFolder(run).finished
    shutil.rmtree(run / f"adapter-{lost}")  # whoever removes an adapter may remove its line
    assert [row["step"] for row in RunFolder(run).measured()] == [n for n in (1, 2, 3) if n != lost]
    file.unlink()
    trained_on = Run.resume(run, steps=6)
    for _ in trained_on.steps():
        pass
    trained_on.finish()
    pages.write_report([run], page, vpo.compare([run]))
    assert [row["step"] for row in RunFolder(run).measured()] == [4, 5]


@pytest.mark.slow
def test_a_measurement_that_is_due_at_other_steps_now_is_not_lost(config, tmp_path):
    trained(config.but(steps=3, eval_every=1), tmp_path / "run")
    again = Run.resume(tmp_path / "run", steps=7, eval_every=3)
    for _ in again.steps():
        pass
    again.finish()
    assert [row["step"] for row in RunFolder(tmp_path / "run").measured()] == [1, 2, 3, 6]


@pytest.mark.slow
def test_the_report_draws_a_budget_that_all_measurements_have(whole, tmp_path):
    """Somebody measured fewer answers, and put the file in."""
    run = shutil.copytree(whole, tmp_path / "run")
    file, page = run / "measured.jsonl", tmp_path / "page.html"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["best_at_k"].pop("3")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pages.write_report([run], page, vpo.compare([run]))
    assert "any@1" in page.read_text().partition("Measured over training")[2]
    rows[1]["best_at_k"] = {}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DamagedError, match=r"line 2: field best_at_k should .*\b1\b"):
        pages.write_report([run], page, vpo.compare([run]))


@pytest.mark.slow
def test_the_command_line_says_what_it_measures_and_the_report_draws_it(
    small_config, tmp_path, capsys
):
    flags = {"model": small_config.model, "maze-seed": 1000, "device": "cpu", "steps": 4}
    flags |= {"prompts": 1, "group-size": 2, "m": 2, "max-new-tokens": 8, "eval-every": 1}
    flags |= {"eval-answers": 4}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    out = tmp_path / "run"
    assert main(["train", *arguments, "--out", str(out)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "measured after" in line]
    assert [line[line.index("measured") :].split(":")[0] for line in said] == [
        f"measured after step {step}" for step in (1, 2, 3)
    ]
    folder = RunFolder(out)
    for line, row in zip(said, folder.measured(), strict=True):
        assert f"set reward {row['set_reward']:.2f}" in line
        best, any_at = row["best_at_k"]["1"], row["any_at_k"]["3"]  # of four answers
        assert line.endswith(f", best@1 {best:.2f}, any@3 {any_at:.2f}")
        assert len(line[line.index("measured") :]) <= 100
    assert main(["compare", str(out), "--html", str(tmp_path / "page.html")]) == 0
    assert "Measured over training" in (tmp_path / "page.html").read_text()
    points, summary = pages._points(folder), json.loads((out / "summary.json").read_text())
    assert list(points) == [0, 1, 2, 3, 4]
    assert points[0]["coverage"] == summary["start"]["coverage"]
    assert points[4]["coverage"] == summary["coverage"]
    assert points[2] == folder.measured()[1]


@pytest.mark.slow
def test_an_adapter_that_was_measured_on_the_way_is_kept_and_can_be_measured_again(
    config, tmp_path, capsys
):
    run = tmp_path / "run"
    trained(config.but(model="pocket-6x6", max_new_tokens=None, lr=1e-2, steps=3), run)
    row = RunFolder(run).measured()[0]
    step = row.pop("step")
    assert main(["evaluate", str(run), "--adapter", f"{step}"]) == 2
    assert f"of this run there is {run}/adapter, {run}/adapter-2" in capsys.readouterr().err
    again = ["evaluate", str(run), "--adapter", str(run / f"adapter-{step}"), "--json"]
    assert main(again) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {name: printed[name] for name in row} == row
    assert printed["adapter"] == str(run / f"adapter-{step}") and printed["run"] == str(run)


@pytest.mark.slow
def test_a_model_that_was_trained_elsewhere_is_measured_and_compared(whole, tmp_path, capsys):
    """Here one of our own, merged: its figures are those of the run."""
    folder, file, page = tmp_path / "merged", tmp_path / "theirs.json", tmp_path / "page.html"
    assert main(["export", "model", str(whole), "--out", str(folder)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(whole), "--model", str(folder), "--json"]) == 0
    printed, told = capsys.readouterr()
    assert "changed since the run" not in told  # another model has another tokenizer
    file.write_text(printed)
    theirs, ours = vpo.compare([file, whole])
    for name in ("set_reward", "diversity", "valid_rate"):
        assert theirs[name] == pytest.approx(ours[name], abs=1e-6)
    assert theirs["elsewhere"] and not ours["elsewhere"] and theirs["tokens"] is None
    assert [ours["label"], theirs["label"]] == ["vpo", "merged, asked as vpo"]
    assert not ours["other_problems"]
    pages.write_report([whole, whole], page, [theirs, ours])
    with pytest.raises(
        ValueError, match=r"page\.html: draws how runs trained, .* leave --html out"
    ):
        pages.write_report([whole], page, [theirs])
    assert main(["evaluate", str(folder)]) == 2
    said = f"{folder}: a model, no run; measure it as a run is: vpo-lite evaluate RUN --model "
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_of_somebody_in_the_place_of_an_adapter_is_one_line_and_stays(
    config, tmp_path, capsys
):
    run = Run.begin(config, tmp_path / "run")
    run.start(), run.close()
    notes = tmp_path / "run" / "adapter-2" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    assert main(["train", "--resume", str(run.path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"vpo-lite: {notes.parent}: holds 'notes.txt', ") and "move it" in said
    assert notes.read_text() == "mine" and not RunFolder(run.path).measured()
    notes.unlink()
    assert main(["train", "--resume", str(run.path)]) == 0
    assert [row["step"] for row in RunFolder(run.path).measured()] == [2, 4]


@pytest.mark.parametrize("rewards, best", [([0.5, 0.7, 0.6], 2), ([0.5, 0.6, 0.7], None)])
def test_the_command_line_names_the_best_policy_where_it_is_not_the_last(
    rewards, best, runs, tmp_path
):
    folder = RunFolder(shutil.copytree(runs / "finished", tmp_path / "run"))
    summary = json.loads((folder.path / "summary.json").read_text())
    rows = [summary | {"step": s, "set_reward": r} for s, r in zip((1, 2), rewards, strict=False)]
    (folder.path / "measured.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = better_before(folder, summary | {"set_reward": rewards[-1]})
    expected = f"set reward was highest after step {best}: 0.700, at the end 0.600"
    assert said.startswith(expected) and said.endswith(f"adapter-{best}") if best else not said
    assert better_before(RunFolder(runs / "finished"), summary) == ""  # nothing was measured


@pytest.mark.slow
def test_ctrl_c_in_a_measurement_stops_at_once_and_loses_no_step(
    config, tmp_path, monkeypatch, capsys
):
    """The first Ctrl-C: a measurement of a large model takes minutes, and is made anew anyway."""
    trained(config.but(save_every=5), tmp_path / "whole")
    run, calls, evaluate = tmp_path / "run", [], run_module.evaluate
    begun = Run.begin(config.but(save_every=5), run)
    begun.start(), begun.close()

    def interrupted(*arguments, **more):
        calls.append(1)
        if len(calls) == 2:  # after step 4
            signal.raise_signal(signal.SIGINT)
        return evaluate(*arguments, **more)

    monkeypatch.setattr(run_module, "evaluate", interrupted)
    assert main(["train", "--resume", str(run)]) == 130
    assert (
        f"vpo-lite: stopped; go on with: vpo-lite train --resume {run}" in capsys.readouterr().err
    )
    monkeypatch.undo()
    assert [row["step"] for row in RunFolder(run).measured()] == [2]
    again = Run.resume(run)
    assert again.done == 4, "its state was stored, though save_every is 5"
    for _ in again.steps():
        pass
    again.finish()
    for name in ("measured.jsonl", "adapter/adapter_model.safetensors"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_report_of_runs_that_measured_nothing_on_the_way_has_no_such_part(runs, tmp_path):
    page, finished = tmp_path / "page.html", str(runs / "finished")
    pages.write_report([finished], page, vpo.compare([finished]))
    assert "Measured over training" not in page.read_text()
