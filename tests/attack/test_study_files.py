"""Studies under attack: files that declare them, files that runs left, folders, requests.

A request for a study is done, or refused with one line: status 2 and nothing written where it was
wrong, status 1 where the work failed.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from attacks import check_error, json_text, mutated_bytes, mutated_json, seeds, tree

from vpo_lite import intervals
from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.policy import hub, loading
from vpo_lite.search import best_of
from vpo_lite.studies import declaration, results, runner, searches, tables, under_way
from vpo_lite.tasks import Option, Prompt, Task
from vpo_lite.tasks.base import TaskError
from vpo_lite.training.errors import TrainingError

SMALL = """
about = "small enough for a test"
settings = {task = "programs", operations = 2, prompts = 1, group_size = 3, steps = 2}
lr = [1e-3]
seeds = 2
baseline = "grpo"
measured = {checkpoints = 1, problems = 3, between = 2, validation = 2, answers = 4}
[kinds.vpo]
label = "VPO"
settings = {method = "vpo"}
[kinds.grpo]
label = "GRPO"
settings = {method = "grpo"}
"""
SEARCH = """
[search]
kinds = ["vpo", "grpo", "mutation"]
calls = 4
problems = 3
seeds = 2
"""
MORE = '[kinds.x]\nlabel = "X"\nsettings = {method = "vpo"}\n'

ROOT = Path(__file__).resolve().parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def written(folder, text=SMALL, name="small"):
    file = folder / f"{name}.toml"
    file.write_text(text)
    return file


def made(study, job) -> dict:
    """A result that the study accepts, with figures drawn from the job's name."""
    rng = np.random.default_rng(sum(job.key.encode()))
    problems, answers = study.problems(job), study.measured.answers
    curves = {n: rng.random((problems, answers)).round(4).tolist() for n in results.CURVES}
    single = {n: rng.random(problems).round(4).tolist() for n in results.SINGLE}
    budgets = [k for k in results.BUDGETS if k <= answers]
    kept = {f"{n}@{k}": [row[k - 1] for row in c] for n, c in curves.items() for k in budgets}
    figures = {n: np.mean(c, axis=0).tolist() for n, c in (curves | single).items()}
    return {
        "study": study.name,
        "kind": job.kind,
        "seed": job.seed,
        "config": job.config.to_json(),
        "validation": 0.5,
        "checkpoints": [
            {"step": 2, "tokens": 99, "figures": figures | dict.fromkeys(results.MEANS, 0.5)}
        ],
        "per_problem": kept | single,
        "measured": study.measured.model_dump(),
        "judged": results.judged(job),
        "answers": 9,
        "training_seconds": 1.0,
        "seconds": 1.0,
        "machine": "",
        "versions": {},
    }


@pytest.fixture
def done(here):
    """A study whose runs are finished, in the folder ``out``; without policies."""
    study = declaration.read(written(here, SMALL + SEARCH))
    (here / "out").mkdir()
    for kind in study.kinds:
        for seed in range(2):
            job = study.job(kind, 1e-3, seed)
            (here / "out" / f"{job.key}.json").write_text(json.dumps(made(study, job)))
    return study


def asked(capsys, *arguments):
    """(status, stdout) of a request; where it is refused, stderr is one short line."""
    status = main(["study", *map(str, arguments)])
    out, err = capsys.readouterr()
    if status:
        assert status in (1, 2, 130) and len(err.splitlines()) == 1 and len(err) < 1000, err
    return status, out, err


def refused(here, capsys, *arguments, status=2):
    before = tree(here)
    found, out, err = asked(capsys, *arguments)
    assert found == status and out == "" and tree(here) == before
    return err


# --- declarations ---------------------------------------------------------------------------------


@seeds(60)
def test_a_mutated_declaration_is_read_or_refused(here, seed):
    rng = random.Random(seed)
    file = here / "x.toml"
    file.write_bytes(mutated_bytes((SMALL + SEARCH).encode(), rng))
    try:
        study = declaration.read(file)
    except ValueError as error:
        check_error(error)
    else:
        keys = [job.key.lower() for kind in study.kinds for job in study.tuning(kind)]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SMALL.replace("[1e-3]", "[1e-3, 1e-3]"), "two runs would be named vpo-lr0.001-seed0"),
        (SMALL.replace("[1e-3]", "[1e-3, 1.0000001e-3]"), "two runs would be named"),
        (SMALL.replace("seeds = 2", "seeds = " + "9" * 5000), "no TOML"),
        ("about = " + "[" * 3000 + "]" * 3000, "no TOML"),
        (SMALL.replace("small enough", "\\ud800"), "no TOML"),
        (SMALL + MORE.replace("kinds.x", "kinds.VPO"), "two kinds are named vpo"),
        (SMALL + MORE.replace("kinds.x", "kinds.mutation"), "kind mutation"),
        (SMALL + MORE.replace("kinds.x", "kinds.search-vpo"), "search-vpo"),
        (SMALL + MORE.replace("kinds.x", f"kinds.{'x' * 300}"), "100 characters"),
        (SMALL + MORE.replace("kinds.x", 'kinds.".."'), "pattern"),
        (SMALL + MORE.replace('"X"', '"a | b"'), "kinds.x.label"),
        (SMALL + MORE + "vary = {alpha = [1.0, 1.0]}", "two kinds are named x-alpha1.0"),
        (SMALL + MORE + 'vary = {model = ["a/b"]}', "its name is part of file names"),
        (SMALL + MORE + "vary = {lr = [1e-3, 1e-2]}", "lr is given by the study itself"),
        (SMALL + MORE + "judged = {seed = 7}", "seed is given by the study itself"),
        (SMALL.replace("steps = 2", "steps = 2, threads = 4"), "threads is given by the study"),
        (SMALL + MORE + 'judged = {task = "maze"}', "made for task 'programs', not for 'maze'"),
        (
            SMALL.replace("problems = 3", "problems = 10000"),
            "measured.problems = 10,000: task 'programs' has ",
        ),
        (SMALL.replace("between = 2", "between = 9998"), "vpo: measured.between = 9,998: task 'p"),
        (SMALL.replace("validation = 2", "validation = 9998"), "measured.validation = 9,998"),
        (
            SMALL.replace("problems = 3", "problems = 9999").replace("n = 2", "n = 9999"),
            "(held_out); write measured.between = 9000; measured.validation = 9,999: task",
        ),
        (
            SMALL.replace("answers = 4", "answers = 2"),
            "measured.answers = 2: this kind is compared on sets of 3 answers",
        ),
        (SMALL.replace("answers = 4", "alphas = [1e30]"), "measured.alphas.0"),
        (
            SMALL.replace("steps = 2", "steps = [2]"),
            "field settings.steps should be true, false, a",
        ),
        (
            SMALL + MORE + "vary = {alpha = [nan]}",
            "kinds.x.vary.alpha.0 should be true, false, a f",
        ),
        (SMALL + SEARCH.replace('"vpo"', '"vqo"'), "search: kinds: 'vqo' is none of the kinds"),
        (SMALL + SEARCH.replace('"grpo"', '"vpo"'), "kinds: vpo is there twice"),
        (SMALL + SEARCH + "m = 4", "kind vpo writes 3 answers in a rollout"),
        (
            SMALL + SEARCH.replace("problems = 3", "problems = 10000"),
            "search.problems = 10,000",
        ),
    ],
)
def test_a_study_that_cannot_work_is_refused_before_it_begins(here, capsys, text, said):
    assert said in refused(here, capsys, written(here, text), "--out", "out")


def test_too_many_combinations_are_refused_at_once(here, capsys):
    values = list(range(1, 200))
    file = written(here, SMALL + MORE + f"vary = {{alpha = {values}, eps = {values}}}")
    assert "vary gives 39,603 kinds" in refused(here, capsys, file)


def test_the_form_in_the_head_of_the_module_is_a_declaration(here):
    form = re.search(r"\n\n((?:    .*\n|\n)+)", declaration.__doc__)[1]
    Path("form.toml").write_text(textwrap.dedent(form))
    study = declaration.read("form.toml")
    assert list(study.kinds) == ["vpo", "grpo_x3"] and study.seeds("vpo") == 5


def test_a_file_that_is_not_there_is_named(here, capsys):
    said = "vpo-lite: study 'mine.toml': there is no such file\n"
    assert asked(capsys, "mine.toml", "--plan")[::2] == (2, said)


def test_a_declaration_may_begin_with_a_byte_order_mark(here):
    (here / "x.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert list(declaration.read(here / "x.toml").kinds) == ["vpo", "grpo"]


def test_truth_values_and_inf_vary(here):
    vary = 'vary = {pay_repeats = [true, false], K = [4, "inf"]}'
    study = declaration.read(written(here, SMALL + MORE + vary))
    found = {k: study.job(k, 1e-3, 0).config for k in study.kinds if k.startswith("x-")}
    assert len(found) == 4 and found["x-pay_repeatsTrue-Kinf"].K == float("inf")


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plan"], "name a study"),
        (["--table"], "name a study"),
        (["small.toml", "--out", "small.toml"], "is a file; name a folder"),
        (["small.toml", "--out", "small.toml", "--table"], "is a file; name a folder"),
        (["small.toml", "--out", "/proc/no"], "/proc/no"),
        (["small.toml", "--out", "x" * 5000], "too long"),
        (["small.toml", "--out", "gone", "--table"], "no kind is finished"),
        (["small.toml", "--out", "gone", "--table", "search"], "no finished searches"),
        (["small.toml", "--out", "out", "--table", "search"], "no finished searches"),
        (["small.toml", "--out", "out", "--table", "best@1", "search"], "ask for it alone"),
        (["small.toml", "--out", "out", "--table", "best@30"], "measures 4 answers"),
        (["small.toml", "--out", "out", "--table", "x" * 5000], "(5,002 characters)"),
        (["small.toml", "--out", "out", "--table", "--kinds", "vpo"], "leave them out"),
        (["small.toml", "--out", "out", "--search"], "move vpo-lr0.001-seed0.json away"),
        (["small.toml", "--seeds", "0"], "--seeds 0: must be 1 or more"),
        # small states 2; "all these runs are finished" hid that no third seed was run
        (["small.toml", "--seeds", "3"], "small states 2; for more write seeds = 3 in its file"),
        (["small.toml", "--workers", "0"], "--workers 0: must be 1 or more"),
        (["small.toml", "--workers", "2", "--plan"], "leave it out"),
        (["small.toml", "--run", "vpo-lr0.1-seed0"], "there are vpo-lr0.001-seed0"),
        (["small.toml", "--run", "vpo-lr0.001-seed0", "--kinds", "vpo"], "leave them out"),
        (["small.toml", "--kinds", "nobody"], "has vpo, grpo"),
        (["gone.toml"], "'gone.toml'"),
    ],
)
def test_a_wrong_request_writes_nothing(here, done, capsys, arguments, said):
    assert said in refused(here, capsys, *arguments)


def test_a_folder_without_runs_has_nothing_to_search_with(here, capsys):
    file = written(here, SMALL + SEARCH.replace(', "mutation"', ""))
    assert "no finished run" in refused(here, capsys, file, "--search", "--out", "gone")


def test_the_usual_table_leaves_out_budgets_that_are_not_measured(here, done, capsys):
    status, out, _ = asked(capsys, "small.toml", "--out", "out", "--table")
    assert status == 0 and "best@1 " in out and "any@3 " in out and "@30" not in out


class Tabled(Task):
    """A task that reads a file when it makes a problem."""

    name, noun = "tabled", "row"
    options = (Option("table", str, None, "what it reads", path=True),)

    def instance(self, seed):
        return Path(self.table).read_text()[seed]

    def objectives(self, instance):
        return "a", "b"

    def prompt(self, instance, m, **_):
        return Prompt.words(instance)

    def score(self, instances, answers):
        return [np.zeros((len(row), 2)) for row in answers]


TABLED = f'task = "{__name__}:Tabled", table = "table.txt", model = "there", prompts = 1'
ABSENT = {  # what the second kind asks for, and nobody has -> what is said of it
    'model = "runs/gone"': "kind grpo: model 'runs/gone': no pocket policy",
    'model = "./runs/gone/"': "kind grpo: model './runs/gone/': no pocket policy",
    'model = "."': "kind grpo: model '.': this folder has no config.json, so it holds no model",
    'model = "half"': "kind grpo: half: holds no weights",
    'table = "gone.txt"': "kind grpo: gone.txt: cannot be read (No such file or directory)",
    'table = "."': "kind grpo: .: cannot be read (Is a directory)",
}


@pytest.mark.parametrize("absent", ABSENT)
def test_a_model_or_a_file_that_is_missing_is_found_before_the_first_run(
    here, capsys, monkeypatch, absent
):
    (here / "table.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 20_000))))
    for name in ("there", "half"):
        (here / name).mkdir()
        (here / name / "config.json").write_text("{}")
    (here / "there" / "model.safetensors").touch()
    text = SMALL.replace('task = "programs", operations = 2, prompts = 1', TABLED)
    bad = written(here, text.replace('{method = "grpo"', '{method = "grpo", ' + absent), "bad")
    good = written(here, text, "good")
    monkeypatch.setattr(runner, "run_job", lambda *_: pytest.fail("a run began"))
    for more in (["--plan"], [], ["--workers", "2"], ["--kinds", "grpo"]):
        assert ABSENT[absent] in refused(here, capsys, bad, "--out", "out", *more)
    for file, more in ((bad, ["--kinds", "vpo", "--plan"]), (bad, ["--commands"]), (good, [])):
        status, out, _ = asked(capsys, file, "--out", "out", *(more or ["--plan"]))
        assert status == 0 and "vpo-lr0.001-seed0" in out


def test_a_finished_study_needs_no_model_to_be_planned(here, capsys):
    study = declaration.read(written(here, SMALL.replace("steps = 2", 'steps = 2, model = "gone"')))
    assert "kind vpo: model 'gone'" in refused(here, capsys, "small.toml", "--out", "o", "--plan")
    (here / "o").mkdir()
    for job in study.every_job().values():
        (here / "o" / f"{job.key}.json").write_text(json.dumps(made(study, job)))
    status, out, _ = asked(capsys, "small.toml", "--out", "o", "--plan")
    assert status == 0 and out.count("finished") == 4


def test_a_plan_downloads_nothing_and_a_study_gets_its_model_before_the_first_run(
    here, capsys, monkeypatch
):
    """The hub is one that has nothing, and counts who asks."""
    asked_for = []
    monkeypatch.setattr(loading, "hub_in_reach", lambda: True)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: asked_for.append(name) or 1 / 0)
    file = written(here, SMALL.replace("steps = 2", 'steps = 2, model = "some/model"'))
    assert asked(capsys, file, "--out", "out", "--plan")[0] == 0 and asked_for == []
    assert "kind vpo: model 'some/model'" in refused(here, capsys, file, "--out", "out")
    assert asked_for == ["some/model"]


def test_a_study_on_a_task_without_validation_problems_is_refused(here, capsys):
    text = SMALL.replace('"programs", operations = 2', '"hops", mode = "faithful", model = "any"')
    text = text.replace("problems = 3", "problems = 1").replace("between = 2", "between = 1")
    said = refused(here, capsys, written(here, text), "--plan")
    assert 'a study needs them; in settings write validation_data = "FILE"' in said


@pytest.mark.parametrize("mistake", ['device = "cuda:99"', "prompts = 9999"])
def test_a_run_that_cannot_begin_is_named(here, capsys, mistake):
    text = SMALL.replace("prompts = 1", mistake)
    if mistake.startswith("prompts"):
        text = text.replace("group_size = 3", "group_size = 900000")
    status, out, err = asked(capsys, written(here, text), "--out", "out")
    assert status == 1 and out == "" and "run vpo-lr0.001-seed0: " in err
    assert not list((here / "out").glob("*.json"))


def test_a_run_that_cannot_be_done_does_not_keep_others_from_it(here, done, capsys, monkeypatch):
    """The task fails in two runs. What waits for neither is done, and the end names both."""
    for path in (here / "out").glob("*.json"):
        path.unlink()

    def trained(study, job, place, tell):
        if (job.kind, job.seed) in (("vpo", 0), ("grpo", 1)):
            raise TaskError("task 'programs': a score is NaN")
        return made(study, job)

    monkeypatch.setattr(runner, "_trained", trained)
    status, out, err = asked(capsys, "small.toml", "--out", "out")
    assert status == 1 and out.startswith("grpo, lr 0.001, seed 0: ")
    assert "run vpo-lr0.001-seed0: task 'programs': a score is NaN" in err
    assert "nor could these runs be done: grpo-lr0.001-seed1" in err
    assert [p.name for p in (here / "out").glob("*.json")] == ["grpo-lr0.001-seed0.json"]


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError(28, "No space left on device"), "No space left"), (KeyboardInterrupt(), "stopped")],
)
def test_what_stops_a_run_leaves_the_finished_ones(here, done, capsys, monkeypatch, error, said):
    (here / "out" / "grpo-lr0.001-seed1.json").unlink()
    before = tree(here / "out")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(under_way, "train", fail)
    status, _, err = asked(capsys, "small.toml", "--out", "out")
    assert status == (130 if said == "stopped" else 1) and said in err
    assert {k: v for k, v in tree(here / "out").items() if "policies" not in k} == before


def test_half_a_file_of_a_killed_writer_is_removed(here, done, monkeypatch):
    job = done.job("grpo", 1e-3, 1)
    path = here / "out" / f"{job.key}.json"
    path.unlink()
    (here / "out" / f".{path.name}-0123abcd").write_text('{"stu')
    monkeypatch.setattr(runner, "Learner", lambda _: (_ for _ in ()).throw(ValueError("no model")))
    with pytest.raises(RuntimeError, match="no model"):
        runner.run_job(done, job, here / "out")
    assert not [p for p in (here / "out").iterdir() if p.name.startswith(".")]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")
def test_workers_end_with_the_study_that_started_them(here):
    """After kill -9 they would go on for hours, on every core."""

    def running(parent=None):
        """The processes of this study, or those of them that this one started."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, started_by = (place / "stat").read_text().rpartition(")")[2].split()[:2]
                ours = str(here) in (place / "environ").read_text(errors="replace")
                if ours and state != "Z" and parent in (None, int(started_by)):
                    found.append(int(place.name))
        return found

    written(here, SMALL.replace("steps = 2", "steps = 100000"))
    asked = [sys.executable, "-m", "vpo_lite.cli", "study", "small.toml", "--out", "out"]
    environment = os.environ | {"MARK": str(here), "OMP_NUM_THREADS": "1"}
    study = subprocess.Popen([*asked, "--workers", "2"], cwd=here, env=environment)
    try:
        wait_for(lambda: len(running(study.pid)) == 2)
        wait_for(lambda: len(list((here / "out").glob("policies/*/.lock"))) == 2)
        study.kill()
        study.wait()
        wait_for(lambda: not running())
    finally:
        study.kill()
        for pid in running():
            os.kill(pid, signal.SIGKILL)


def wait_for(holds, seconds=120):
    """Until this holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.1)


def test_a_plan_names_a_damaged_result(here, capsys):
    file = written(here, SMALL)
    study = declaration.read(file)
    (here / "out").mkdir()
    jobs = study.every_job()
    for key, job in jobs.items():
        (here / "out" / f"{key}.json").write_text(json.dumps(made(study, job)))
    first, *others = jobs
    last = others[-1]
    (here / "out" / f"{last}.json").write_text("{")
    status, out, err = asked(capsys, file, "--out", "out", "--plan")
    assert status == 0 and f"{last}.json: no JSON" in err
    assert f"damaged   {last}  " in out and f"finished  {first}  " in out
    assert f"1 of {len(jobs)} runs are left" in err


@pytest.mark.long
def test_a_study_that_is_killed_goes_on_and_workers_share_the_rest(here, capfd):
    """kill -9 after the first result: two workers do the rest, the first file stays."""
    asked = ["study", str(written(here)), "--out", "out"]
    command = [sys.executable, "-m", "vpo_lite.cli", *asked]
    first, out = subprocess.Popen(command, env=ENV), here / "out"
    while first.poll() is None and not list(out.glob("*.json")):
        time.sleep(0.05)
    first.kill()
    first.wait()
    before = {p.name: p.read_bytes() for p in out.glob("*.json")}
    assert before and first.returncode == -signal.SIGKILL
    capfd.readouterr()
    (here / "vpo_lite.py").write_text("raise SystemExit('another checkout')")
    assert main([*asked, "--workers", "2"]) == 0
    told, err = capfd.readouterr()
    after = {p.name: p.read_bytes() for p in out.glob("*.json")}
    assert len(after) == 4 and after.items() >= before.items()
    assert len(told.splitlines()) == 4 - len(before)
    assert err == "vpo-lite: --table prints what came out\n"
    assert main(asked) == 0 and capfd.readouterr().out == ""  # nothing left
    assert not [p for p in out.iterdir() if p.name.startswith(".")]
    assert len(results.chosen(declaration.read(here / "small.toml"), out)["vpo"]) == 2


def test_a_run_whose_loss_is_infinite_is_left_out(here, done, capsys, monkeypatch):
    """It stops neither the study nor the choice of a learning rate; without its file it is tried
    again.
    """
    text = (SMALL + SEARCH).replace("lr = [1e-3]", "lr = [1e-3, 1e-2]", 1)
    written(here, text)

    def broken(config, **_):
        raise TrainingError("loss = nan: lower lr (0.01)")
        yield

    monkeypatch.setattr(under_way, "train", broken)
    status, out, _ = asked(capsys, "small.toml", "--out", "out")
    assert status == 0 and out.count("loss = nan") == 2  # of vpo and grpo, at lr 0.01
    assert len(list((here / "out").glob("failed-*.json"))) == 2
    found = results.chosen(declaration.read(here / "small.toml"), here / "out")
    assert [run.config["lr"] for run in found["vpo"]] == [1e-3, 1e-3]
    _, plan, _ = asked(capsys, "small.toml", "--out", "out", "--plan")
    assert (
        sorted(line.split()[0] for line in plan.splitlines()) == ["failed"] * 2 + ["finished"] * 4
    )
    _, out, err = asked(capsys, "small.toml", "--out", "out")
    assert out == "" and "left out" in err and "failed-grpo-lr0.01-seed0.json" in err
    (here / "out" / "failed-vpo-lr0.01-seed0.json").unlink()
    for told in ("loss = nan", "failed before"):  # now, and without another try
        status, out, err = asked(capsys, "small.toml", "--out", "out", "--run", "vpo-lr0.01-seed0")
        assert (status, out, err.count(told)) == (1, "", 1)


def test_a_run_that_failed_is_tried_again_with_other_settings(here, done, monkeypatch):
    job = done.job("vpo", 1e-3, 1)
    results.result_path(here / "out", job).unlink()
    failure = results.failure_path(here / "out", job)
    stated = {"study": "small", "kind": "vpo", "lr": 1e-3, "seed": 1, "error": "loss = nan"}
    for config, state in (
        (job.config.to_json(), "failed"),
        (job.config.to_json() | {"device": "cuda"}, "failed"),
        (job.config.to_json() | {"clip": 0.3}, "to do"),
    ):
        failure.write_text(json.dumps(stated | {"config": config}))
        assert results.state(here / "out", job) == state
    monkeypatch.setattr(runner, "_trained", lambda study, job, *_: made(study, job))
    assert [run.seed for run in runner.run_study(done, here / "out")] == [1]
    assert not failure.exists() and results.state(here / "out", job) == "finished"


def test_a_table_says_how_many_runs_failed(here, done):
    """A mean over the seeds that did not fail alone would flatter a method that often fails."""
    job = done.job("vpo", 1e-3, 1)
    results.result_path(here / "out", job).unlink()
    stated = {"study": "small", "kind": "vpo", "lr": 1e-3, "seed": 1, "error": "loss = nan"}
    stated["config"] = job.config.to_json()
    results.failure_path(here / "out", job).write_text(json.dumps(stated))
    rows = tables.markdown(done, here / "out", ["best@1"]).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["1, 1 failed", "2"]


def test_a_plan_says_how_much_is_left(here, done, capsys):
    """2 kinds with 2 seeds are 4 runs, and 6 at two rates: the second seed at the better rate."""
    (here / "out" / "grpo-lr0.001-seed1.json").unlink()
    _, out, err = asked(capsys, "small.toml", "--out", "out", "--plan")
    assert out.count("finished") == 3
    assert err == "vpo-lite: 1 of 4 runs are left; a finished one took 0.0 minutes on average\n"
    (here / "out" / "grpo-lr0.001-seed0.json").unlink()
    _, out, err = asked(capsys, "small.toml", "--out", "out", "--plan", "--every-rate")
    assert out.count("to do") == 2 and err.startswith("vpo-lite: 2 of 4 runs are left; ")
    written(here, (SMALL + SEARCH).replace("lr = [1e-3]", "lr = [1e-3, 1e-2]", 1))
    told = "6 of 6 runs are left, 2 of them at learning rates that are not chosen yet"
    assert asked(capsys, "small.toml", "--plan")[2] == f"vpo-lite: {told}\n"


def test_a_plan_counts_no_seeds_of_a_kind_that_failed_at_every_rate(here, done, capsys):
    """They were left for ever, at learning rates that were not chosen yet."""
    for seed in (0, 1):
        job = done.job("grpo", 1e-3, seed)
        results.result_path(here / "out", job).unlink()
    stated = {"study": "small", "kind": "grpo", "lr": 1e-3, "seed": 0, "error": "loss = nan"}
    stated["config"] = done.job("grpo", 1e-3, 0).config.to_json()
    results.failure_path(here / "out", done.job("grpo", 1e-3, 0)).write_text(json.dumps(stated))
    _, out, err = asked(capsys, "small.toml", "--out", "out", "--plan")
    assert out.count("finished") == 2 and out.count("failed") == 1
    assert err.startswith("vpo-lite: 0 of 3 runs are left; ")
    assert asked(capsys, "small.toml", "--out", "out", "--plan", "--every-rate")[2].startswith(
        "vpo-lite: 1 of 4 runs are left; "
    )


def test_a_scheduler_gets_one_command_for_each_run_that_can_be_done_now(here, done, capsys):
    """At two learning rates the other seeds wait for the choice; at one they do not."""
    (here / "out" / "grpo-lr0.001-seed1.json").unlink()
    _, out, _ = asked(capsys, "small.toml", "--out", "out", "--commands")
    assert out == "vpo-lite study small.toml --out out --run grpo-lr0.001-seed1\n"
    written(here, (SMALL + SEARCH).replace("lr = [1e-3]", "lr = [1e-3, 1e-2]", 1))
    _, out, _ = asked(capsys, "small.toml", "--out", "new", "--commands")
    keys = [line.rsplit(" ", 1)[1] for line in out.splitlines()]
    _, out, _ = asked(capsys, "small.toml", "--out", "new", "--commands", "--every-rate")
    assert len(out.splitlines()) == 8
    assert keys == [f"{kind}-lr{lr}-seed0" for kind in ("vpo", "grpo") for lr in (0.001, 0.01)]
    assert not (here / "new").exists()


@pytest.mark.parametrize(
    "dying, said",
    [
        ("import sys; sys.exit('vpo-lite: no GPU here')", "no GPU here"),
        (r"import os; os.write(2, b'caf\xe9'); os._exit(1)", "caf\N{REPLACEMENT CHARACTER}"),
        (
            "import os; os._exit(9)",
            "a worker ended with status 9 without a message; the same command goes on with the "
            "runs that are left",
        ),
    ],
    ids=["in words", "not in UTF-8", "without a word"],
)
def test_what_stops_every_worker_is_said_once(here, capsys, monkeypatch, dying, said):
    """What stops a single process stands above."""
    start, command = subprocess.Popen, [sys.executable, "-c", dying]
    monkeypatch.setattr(subprocess, "Popen", lambda _, **how: start(command, **how))
    assert main(["study", str(written(here, SMALL)), "--out", "out", "--workers", "2"]) == 1
    assert capsys.readouterr().err == f"vpo-lite: {said}\n"


# --- results --------------------------------------------------------------------------------------


@seeds(60)
def test_a_mutated_result_is_taken_or_refused(here, done, capsys, seed):
    rng = random.Random(seed)
    path = here / "out" / "vpo-lr0.001-seed1.json"
    if seed % 3:
        path.write_text(json_text(mutated_json(json.loads(path.read_text()), rng)))
    else:
        path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    status, out, err = asked(capsys, "small.toml", "--out", "out", "--table")
    assert (status, bool(out)) in ((0, True), (2, False)) and (not status or path.name in err)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "grpo"}, "kind = 'grpo', the study says 'vpo'"),
        ({"seed": 5}, "seed = 5, the study says 1"),
        ({"config": {}}, "task = 'maze', the study says 'programs'"),
        ({"per_problem": {}}, "0 problems"),
        ({"checkpoints": []}, "checkpoints"),
        ({"validation": float("nan")}, "validation"),
        ({"extra": 1}, "extra is unknown"),
    ],
)
def test_a_foreign_result_is_refused(here, done, change, said):
    job = done.job("vpo", 1e-3, 1)
    path = here / "out" / f"{job.key}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedError, match=said) as error:
        results.chosen(done, here / "out")
    check_error(error.value)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("problems = 3", "problems = 5", r"measured problems = 3, the study says 5"),
        ("answers = 4", "answers = 6", r"measured answers = 4, the study says 6"),
        ("validation = 2", "validation = 5", r"measured validation = 2, the study says 5"),
        ("between = 2,", "", r"measured between = 2, the study says 64"),
        (
            'label = "VPO"',
            'label = "V"\njudged = {temperature = 0.5}',
            r"no judged temperature, the study says 0\.5",
        ),
        ("steps = 2", "steps = 3", r"steps = 2, the study says 3"),
    ],
)
def test_a_study_that_changed_does_not_take_its_old_runs(here, done, before, after, said):
    study = declaration.read(written(here, (SMALL + SEARCH).replace(before, after, 1)))
    with pytest.raises(DamagedError, match=said):
        tables.means(study, here / "out")


def test_a_damaged_file_is_named_with_its_cure(here, done, capsys):
    path = here / "out" / "vpo-lr0.001-seed1.json"
    path.write_text("{")
    for request in ((), ("--plan",), ("--table",)):
        status, _, err = asked(capsys, "small.toml", "--out", "out", *request)
        assert (status != 0) == (request != ("--plan",))
        assert not status or (str(path.name) in err and "move this file away" in err)


def test_a_setting_that_is_younger_than_a_result_had_its_default(here, done):
    job = done.job("vpo", 1e-3, 1)
    path = here / "out" / f"{job.key}.json"
    found = json.loads(path.read_text())
    del found["config"]["entropy"]
    path.write_text(json.dumps(found))
    assert results.read_result(done, here / "out", job).config["entropy"] == 0.0


def test_a_figure_without_a_value_is_an_empty_cell(here, done):
    for path in (here / "out").glob("*.json"):
        found = json.loads(path.read_text())
        found["per_problem"]["coverage"] = [None, 0.5, 0.5]
        found["checkpoints"][-1]["figures"]["coverage"] = None
        path.write_text(json.dumps(found))
    assert tables.difference(done, here / "out", "vpo", "coverage") is None
    row = tables.markdown(done, here / "out", ["coverage"]).splitlines()[2]
    assert row.endswith("|  |")


def test_a_table_reads_each_file_few_times(here, done, monkeypatch):
    read = []
    real = results.read_json
    monkeypatch.setattr(results, "read_json", lambda *a: (read.append(a[0]), real(*a))[1])
    files = list((here / "out").glob("*.json"))
    table = tables.markdown(done, here / "out", tables.measured(done))
    assert 0 < len(read) <= 2 * len(files)
    read.clear()
    assert tables.difference(done, here / "out", "vpo", "best@1") and not read
    for path in files:
        text = path.read_text()
        path.write_text(re.sub(r'("training_seconds": )[^,]*', r"\g<1>6000.0", text))
    assert {row["minutes"] for row in tables.means(done, here / "out").values()} == {100.0}
    assert read and tables.markdown(done, here / "out", tables.measured(done)) == table


# --- searches -------------------------------------------------------------------------------------


@pytest.fixture
def found(here, done):
    """The finished study, with finished searches."""
    for search in searches.searches(done, here / "out"):
        rows = [[1, 2, 3], [1, 2, 3]]
        row = {
            "study": "small",
            "kind": search.kind,
            "run": search.run,
            "answers": 12,
            "solved": [[None, 3, 6], [None, None, 12]],
            **dict.fromkeys(("tokens", "candidates", "cells"), rows),
            "best": [[0.5, 1.0, 1.0], [0.5, 0.5, 1.0]],
            "budgets": [3, 12],
            "curve": [[0.1, 0.8], [0.2, 0.7]],
            "seconds": 1.0,
        }
        (here / "out" / f"search-{search.run}.json").write_text(json.dumps(row))
    return done


def test_the_table_of_searches_is_that_of_the_files(here, found, capsys):
    status, out, _ = asked(capsys, "small.toml", "--out", "out", "--table", "search")
    assert status == 0 and out.count("| 0.500 |") == 3 and "| 0 : 0 | 1 |" in out


@seeds(40)
def test_a_mutated_search_is_taken_or_refused(here, found, capsys, seed):
    rng = random.Random(seed)
    path = here / "out" / "search-mutation.json"
    path.write_text(json_text(mutated_json(json.loads(path.read_text()), rng)))
    status, out, err = asked(capsys, "small.toml", "--out", "out", "--table", "search")
    assert (status, bool(out)) in ((0, True), (2, False)) and (not status or path.name in err)


@pytest.mark.parametrize("change", ["calls = 4", "problems = 3", "seeds = 2"])
def test_a_search_of_a_study_that_changed_is_refused(here, found, change):
    text = SMALL + SEARCH.replace(change, change[:-1] + "1")
    with pytest.raises(DamagedError, match="states another search"):
        searches.finished(declaration.read(written(here, text)), here / "out")


def made_by_all(study, folder) -> None:
    """Files of the searches with all policies of the study."""
    for search in searches.searches(study, folder):
        rows = dict.fromkeys(("tokens", "candidates", "cells"), [[1, 2, 3]] * 2)
        row = {"study": "small", "kind": search.kind, "run": search.run, "answers": 12, **rows}
        row |= {"solved": [[None] * 3] * 2, "best": [[0.5] * 3] * 2, "budgets": [12]}
        row |= {"curve": [[0.5]] * 2, "seconds": 1.0, "made": search.made}
        (folder / f"search-{search.run}.json").write_text(json.dumps(row))


def test_a_search_with_the_policy_of_other_settings_is_refused(here, done):
    """The runs were made again with more steps, and their searches were not. Mutations know no
    policy, so theirs stays.
    """
    made_by_all(done, here / "out")
    assert len(searches.finished(done, here / "out")) == 3
    study = declaration.read(written(here, (SMALL + SEARCH).replace("steps = 2", "steps = 5")))
    for kind in study.kinds:
        for seed in range(2):
            job = study.job(kind, 1e-3, seed)
            (here / "out" / f"{job.key}.json").write_text(json.dumps(made(study, job)))
    with pytest.raises(DamagedError, match="made with steps = 2, the study says 5"):
        searches.finished(study, here / "out")
    for path in (here / "out").glob("search-*-lr*.json"):
        path.unlink()
    assert list(searches.finished(study, here / "out")) == ["mutation"]


def test_a_search_names_the_kinds_whose_runs_are_not_finished(here, done, capsys):
    """It searched without them, and said that all had come out."""
    made_by_all(done, here / "out")
    search = ("small.toml", "--search", "--out", "out")
    assert "not finished" not in asked(capsys, *search)[2]
    (here / "out" / "grpo-lr0.001-seed1.json").unlink()
    err = asked(capsys, *search)[2]
    assert "leaving out policies of unfinished runs: grpo; see --plan" in err


def test_a_setting_younger_than_a_search_had_its_default(here, done):
    made_by_all(done, here / "out")
    paths = list((here / "out").glob("search-*-lr*.json"))
    for path in paths:
        found = json.loads(path.read_text())
        assert found["made"].pop("steps") == 2
        found["made"].pop("temperature")  # the default
        path.write_text(json.dumps(found))
    with pytest.raises(DamagedError, match=r"made with steps = [0-9]{2,}, the study says 2"):
        searches.finished(done, here / "out")
    for path in paths:
        found = json.loads(path.read_text())
        path.write_text(json.dumps(found | {"made": found["made"] | {"steps": 2}}))
    assert len(searches.finished(done, here / "out")) == 3


def test_a_search_is_judged_like_its_run(here):
    """A policy of spoilt rewards is searched with in the task that it is measured on."""
    spoilt = 'settings = {method = "vpo", task = "vpo_lite.studies.mixed:MixedRules", mix = 1.0}\n'
    spoilt += 'judged = {task = "programs", operations = 2}'
    text = SMALL.replace('settings = {method = "vpo"}', spoilt, 1) + SEARCH
    study = declaration.read(written(here, text))
    search = searches.SearchJob(study, "vpo", study.job("vpo", 1e-3, 0))
    assert search.config.task == "programs"


def test_a_damaged_adapter_is_named(here, done, capsys):
    for key in ("vpo-lr0.001-seed0", "vpo-lr0.001-seed1", "grpo-lr0.001-seed0"):
        (here / "out" / "policies" / key / "adapter").mkdir(parents=True)
    (here / "out" / "policies" / "grpo-lr0.001-seed1" / "adapter").mkdir(parents=True)
    status, _, err = asked(capsys, "small.toml", "--out", "out", "--search")
    assert status == 1 and "search with vpo-lr0.001-seed0: " in err


# --- intervals and best-of-n ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: intervals.noise([[0.5, 0.5]]),
        lambda: intervals.noise([]),
        lambda: intervals.noise([0.5, float("inf")]),
        lambda: intervals.pooled([[0.5], [None]], 1),
        lambda: intervals.sign_test([1], [1, 2]),
        lambda: best_of.solved_at(["yes"]),
        lambda: best_of.solved_at([0.5]),
        lambda: best_of.solved_at([[True]]),
    ],
)
def test_what_no_interval_can_use_is_refused(call):
    with pytest.raises(ValueError) as error:
        call()
    check_error(error.value)


def test_of_one_problem_and_one_seed_nothing_is_sure(here):
    """One value tells nothing of its spread, so no interval may leave 0 out."""
    text = SMALL.replace("seeds = 2", "seeds = 1").replace("problems = 3", "problems = 1")
    study = declaration.read(written(here, text.replace("between = 2", "between = 1")))
    for kind, found in (("vpo", 0.75), ("grpo", 0.5)):
        job = study.job(kind, 1e-3, 0)
        run = made(study, job)
        run["per_problem"]["best@1"] = [found]
        (here / f"{job.key}.json").write_text(json.dumps(run))
    gap = tables.difference(study, here, "vpo", "best@1")
    assert gap.mean == 0.25 and gap.sure == 0 and [gap.low, gap.high] == [-np.inf, np.inf]
    assert " + |" not in tables.markdown(study, here, ["best@1"])
