"""Studies: declared in one file, run one by one, resumed, shared, and read back."""

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file

import vpo_lite as vpo
from vpo_lite import cli
from vpo_lite.files import DamagedError
from vpo_lite.locks import BusyError, is_locked, lock_folder
from vpo_lite.objective import nondominated
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.randomness import integer
from vpo_lite.search.evolution import evolve
from vpo_lite.studies import (
    declaration,
    measure,
    plan,
    results,
    runner,
    searches,
    searching,
    tables,
    under_way,
)
from vpo_lite.studies.mixed import MixedRules
from vpo_lite.tasks import task_class
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.programs import PROGRAMS
from vpo_lite.training import loop
from vpo_lite.training.errors import TrainingError

pytestmark = pytest.mark.slow  # most tests share one small study that was run

SMALL = """
about = "small enough for a test"
settings = {task = "programs", operations = 2, prompts = 2, group_size = 3, steps = 3}
lr = [1e-4, 1e-3]
rates = {grpo = [1e-3]}
seeds = 2
baseline = "grpo"
measured = {checkpoints = 2, problems = 4, between = 2, validation = 3, answers = 6}
[kinds.vpo]
label = "VPO"
settings = {method = "vpo"}
[kinds.grpo]
label = "GRPO"
settings = {method = "grpo"}
[kinds.start]
label = "before training"
settings = {method = "vpo"}
trained = false
seeds = 1
[search]
kinds = ["vpo", "grpo", "start", "mutation"]
calls = 4
problems = 3
seeds = 2
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = tmp_path_factory.mktemp("study") / "small.toml"
    file.write_text(SMALL)
    return declaration.read(file)


@pytest.fixture(scope="module")
def folder(study, tmp_path_factory):
    """A finished study."""
    folder = tmp_path_factory.mktemp("done")
    list(runner.run_study(study, folder))
    return folder


# --- the declaration ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", declaration.names())
def test_every_shipped_study_can_run(name):
    study = declaration.read(name)
    for kind in study.kinds:
        assert study.job(kind, study.rates(kind)[0], 0).config.make_task() is not None


def test_a_study_says_its_runs(study, tmp_path):
    keys = [job.key for job in plan.jobs(study, tmp_path)]
    assert keys == [
        "vpo-lr0.0001-seed0",
        "vpo-lr0.001-seed0",
        "grpo-lr0.001-seed0",
        "start-lr0.0001-seed0",
    ]


def test_settings_vary_over_all_combinations(tmp_path):
    file = tmp_path / "varied.toml"
    file.write_text(
        SMALL + '[kinds.a]\nlabel = "A"\nsettings = {method = "vpo"}\n'
        "vary = {alpha = [0.5, 2], m = [1, 2, 3]}\n"
    )
    kinds = declaration.read(file).kinds
    found = [kinds[k].settings for k in kinds if k.startswith("a-")]
    assert {(s["alpha"], s["m"]) for s in found} == {(a, m) for a in (0.5, 2) for m in (1, 2, 3)}
    assert kinds["a-alpha2-m3"].label == "A, alpha = 2, m = 3"


def test_k_may_be_the_infinity_of_toml(tmp_path):
    """TOML writes it as inf. A file of a run is JSON, which has none."""
    file = tmp_path / "exact.toml"
    kind = '[kinds.{0}]\nlabel = "{0}"\nsettings = {{method = "vpo", K = {1}}}\n'
    file.write_text(SMALL + kind.format("A", "inf") + kind.format("B", '"inf"'))
    study = declaration.read(file)
    assert [study.job(name, 1e-3, 0).config.K for name in "AB"] == [math.inf, math.inf]
    file.write_text(SMALL + kind.format("A", "-inf"))
    with pytest.raises(ValueError, match=r"K should be .* a finite number or a text, not -inf"):
        declaration.read(file)


def test_a_study_like_another_replaces_what_it_states(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('like = "programs"\nseeds = 1\nlr = [1e-3]\n')
    mine, other = declaration.read(file), declaration.read("programs")
    assert mine.kinds.keys() == other.kinds.keys() and mine.rates("vpo") == [1e-3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("about", "abuot"), "field about is missing, and abuot is unknown"),
        (("seeds = 2", "seeds = 0"), "seeds"),
        (('method = "grpo"', 'method = "gppo"'), "gppo"),
        (('baseline = "grpo"', 'baseline = "nobody"'), "nobody"),
        (("rates = {grpo =", "rates = {nobody ="), "rates: 'nobody' is none of the kinds"),
        (("lr = [1e-4, 1e-3]", "lr = []"), "lr"),
        (("steps = 3", "steps = = 3"), "no TOML"),
        (("answers = 6", 'answers = 6, chosen_by = "any"'), "chosen_by should be any@k, best@k"),
        (("answers = 6", 'answers = 6, chosen_by = "best@0"'), "chosen_by"),
        (("lr = [1e-4, 1e-3]", "lr = []"), "field lr is empty"),
        (
            ("answers = 6", "answers = 6, chosen_from = 9"),
            "measured.chosen_from = 9: any@10 and sets of 3 need 10 answers; give as many or more",
        ),
        (("operations = 2", "colour = 2"), "colour"),
        (("about", 'abuot = "x"\nabout'), "abuot is unknown; did you mean about[?]$"),
        (("answers = 6", "answers = 6, prefs = 2"), "measured.prefs is unknown; there is checkpoi"),
        (("label =", "trained_ = true\nlabel ="), "kinds.vpo.trained_ .*; did you mean trained[?]"),
        (("calls = 4", "call = 4"), "search.call is unknown; did you mean calls[?]$"),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(tmp_path, change, message):
    file = tmp_path / "faulty.toml"
    file.write_text(SMALL.replace(*change, 1))
    with pytest.raises(ValueError, match=message):
        declaration.read(file)


def test_a_study_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"'nothing'.*programs"):
        declaration.read("nothing")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("mine", "mine.toml"),
        ("mien.toml", "mine.toml"),
        ("studies/mine", "studies/mine.toml"),
        ("programs2", "programs2.toml"),
        ("hops.toml", "hops"),
        ("hosp", "hops"),
    ],
)
def test_a_study_is_found_by_its_file(tmp_path, monkeypatch, typed, meant):
    monkeypatch.chdir(tmp_path)
    Path("studies").mkdir()
    for file in ("mine.toml", "programs2.toml", "studies/mine.toml"):
        Path(file).write_text(SMALL)
    with pytest.raises(ValueError) as caught:
        declaration.read(typed)
    assert str(caught.value).endswith(f"; did you mean {meant}?")


def test_a_study_like_no_other_suggests_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        declaration.read("nothing")
    assert "did you mean" not in str(caught.value)


# --- measuring ------------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_library():
    """Against evaluate, which computes the same from the same pools in another way."""
    config = vpo.TrainConfig.preset("demo", task="programs", method="vpo", threads=1)
    task, policy = config.make_task(), load_policy("pocket-programs")
    seeds = task.seeds["held_out"][:5]
    found = measure.measure(policy, task, config, seeds)
    wanted = vpo.evaluate(policy, config, problems=5)
    for k in ("1", "3", "10", "30"):
        assert found["best"].mean(0)[int(k) - 1] == pytest.approx(wanted["best_at_k"][k])
        assert found["solved"].mean(0)[int(k) - 1] == pytest.approx(wanted["pass_at_k"][k])
    for mine, its in (
        ("coverage", "coverage"),
        ("set_reward", "set_reward"),
        ("diversity", "diversity"),
        ("diversity_all", "diversity_all"),
        ("valid", "valid_rate"),
        ("parsed", "parse_rate"),
        ("repeats", "repeat_rate"),
        ("tokens", "tokens_per_answer"),
    ):
        assert found[mine].mean() == pytest.approx(wanted[its]), mine
    assert found["rollouts"][:, 0].mean() == pytest.approx(wanted["best_of_rollout"])
    per_problem = np.array(wanted["per_problem"]["coverage"])
    ceilings = [vpo.price_of_conflict(task.front(task.instance(s)), (3,))[3] for s in seeds]
    np.testing.assert_allclose(found["attained"], per_problem / ceilings)


# --- running --------------------------------------------------------------------------------------


def test_a_study_runs_every_rate_then_the_seeds_of_the_best(study, folder):
    done = {path.stem for path in folder.glob("*.json")}
    best = results.chosen_rate(study, folder, "vpo")
    other = {"0.0001", "0.001"} - {f"{best:g}"}
    assert f"vpo-lr{best:g}-seed1" in done and f"vpo-lr{other.pop()}-seed1" not in done
    assert {"grpo-lr0.001-seed0", "grpo-lr0.001-seed1", "start-lr0.0001-seed0"} < done
    assert len(done) == 6


def test_every_seed_runs_at_every_rate_where_that_is_wanted(study, tmp_path, monkeypatch):
    """Two rates with two seeds each, one rate with two, and one run before training."""
    keys = [job.key for job in plan.jobs(study, tmp_path, every_rate=True)]
    assert sorted(keys) == [
        *(f"grpo-lr0.001-seed{seed}" for seed in (0, 1)),
        "start-lr0.0001-seed0",
        *(f"vpo-lr{lr}-seed{seed}" for lr in ("0.0001", "0.001") for seed in (0, 1)),
    ]
    assert plan.total(study, tmp_path, every_rate=True) == 7 and plan.total(study, tmp_path) == 6
    assert plan.total(study, tmp_path, ["vpo"], 1, every_rate=True) == 2
    assert plan.total(study, tmp_path, ["vpo", "vpo"]) == plan.total(study, tmp_path, ["vpo"])
    monkeypatch.setattr(plan, "state", lambda _, job: "failed" * (job.config.lr == 1e-4))
    assert plan.total(study, tmp_path, ["vpo"]) == 3  # seed 1 follows at the rate that is left


def test_rates_beyond_are_tried_and_never_chosen(study, folder, tmp_path):
    """A run at the rate beyond, better than all others, is in the table and changes no choice."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL.replace("seeds = 2\n", "seeds = 2\nbeyond = {vpo = [5e-4, 1e-2]}\n", 1))
    wider, place = declaration.read(file), tmp_path / "copy"
    shutil.copytree(folder, place)
    chosen = results.chosen_rate(study, place, "vpo")
    there = {job.key for job in plan.jobs(wider, place)}
    assert there == {job.key for job in plan.jobs(study, place)}
    keys = {job.key for job in plan.jobs(wider, place, every_rate=True)}
    more = {f"vpo-lr{lr}-seed{seed}" for lr in ("0.0005", "0.01") for seed in (0, 1)}
    assert keys == more | {job.key for job in plan.jobs(study, place, every_rate=True)}
    assert more < wider.every_job().keys() and plan.total(wider, place, every_rate=True) == 11
    run = json.loads((place / "vpo-lr0.001-seed0.json").read_text())
    run["config"]["lr"], run["validation"] = 5e-4, 0.99
    (place / "vpo-lr0.0005-seed0.json").write_text(json.dumps(run))
    assert results.chosen_rate(wider, place, "vpo") == chosen
    assert list(tables.at_every_rate(wider, place, "vpo", ())) == [1e-4, 5e-4, 1e-3]
    file.write_text(file.read_text().replace("[5e-4, 1e-2]", "[1e-4]"))
    with pytest.raises(ValueError, match=r"two runs would be named vpo-lr0\.0001-seed0"):
        declaration.read(file)


def test_the_rate_with_the_best_validation_is_chosen(study, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    for lr, score in (("0.0001", 0.9), ("0.001", 0.1)):
        path = tmp_path / "copy" / f"vpo-lr{lr}-seed0.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"validation": score}))
    assert results.chosen_rate(study, tmp_path / "copy", "vpo") == 1e-4
    path.unlink()
    assert results.chosen_rate(study, tmp_path / "copy", "vpo") is None


@pytest.mark.parametrize(
    "figure, pool",
    [
        ("any@10", None),
        ("any@3", 4),
        *(
            pytest.param(x, None, marks=pytest.mark.long)
            for x in ("best@1", "solved@3", "set_reward")
        ),
    ],
)
def test_a_study_names_the_figure_that_chooses_its_rates(tmp_path, figure, pool):
    """Against evaluate, which computes it in another way, from the same validation problems."""
    file, place = tmp_path / "mine.toml", tmp_path / "out"
    said = f'answers = 6, chosen_by = "{figure}"' + f", chosen_from = {pool}" * bool(pool)
    file.write_text(SMALL.replace("answers = 6", said))
    mine = declaration.read(file)
    list(runner.run_study(mine, place, kinds=["start"]))
    (job,) = mine.tuning("start")
    name, _, k = figure.partition("@")
    pool = pool or max(int(k or 1), 6)
    task = job.judged.make_task()
    task.seeds = {**task.seeds, "held_out": task.seeds["validation"]}
    policy, name = load_policy("pocket-programs"), name.replace("solved", "pass")
    figures = vpo.evaluate(policy, job.judged, answers=pool, problems=3, task=task)
    wanted = figures[f"{name}_at_k"][k] if k else figures[name]
    assert results.read_result(mine, place, job).validation == pytest.approx(wanted, abs=1e-5)
    assert f"| {figure}, validation |" in tables.rates_markdown(mine, place, ())
    file.write_text(file.read_text().replace(figure, "any@1"))
    with pytest.raises(DamagedError, match=rf"chosen_by = '{figure}', the study says 'any@1'"):
        results.read_result(declaration.read(file), place, job)


def test_a_run_of_before_was_chosen_by_any_at_10(study, folder, tmp_path):
    job = study.job("vpo", 1e-3, 0)
    run = json.loads((folder / f"{job.key}.json").read_text())
    assert run["measured"].pop("chosen_by") == "any@10"
    (tmp_path / f"{job.key}.json").write_text(json.dumps(run))
    assert results.read_result(study, tmp_path, job).seed == 0


@pytest.mark.long
def test_set_rewards_at_other_alphas_are_not_compared(study, folder, tmp_path):
    asked = ["set_reward", "best@3"]
    assert tables.difference(study, folder, "vpo", "set_reward") is not None
    run = results.read_result(study, folder, study.job("start", 1e-4, 0))
    assert f"| {run.last['set_reward']:.3f}" in tables.markdown(study, folder, asked)
    file = tmp_path / "other.toml"
    file.write_text(SMALL.replace('method = "vpo"}', 'method = "vpo", alpha = 2.0}', 1))
    list(runner.run_study(declaration.read(file), tmp_path / "out"))
    other = declaration.read(file)
    assert tables.difference(other, tmp_path / "out", "vpo", "set_reward") is None
    assert tables.difference(other, tmp_path / "out", "vpo", "best@3") is not None
    heads = [tables.markdown(*of, asked).splitlines()[0] for of in ((study, folder), (other, "o"))]
    assert ["set reward |" in head for head in heads] == [True, False]
    assert "set reward (each at its alpha) | best@3" in heads[1]


def test_a_result_holds_checkpoints_and_problems(study, folder):
    run = results.read_result(study, folder, study.job("vpo", 1e-3, 0))
    assert [point.step for point in run.checkpoints] == [2, 3]
    assert run.checkpoints[0].tokens < run.checkpoints[1].tokens
    assert run.answers == 3 * 2 * 3 * 3  # steps, prompts, rollouts, answers
    kept = np.array(run.per_problem["best@3"])
    assert kept.shape == (4,) and kept.mean() == pytest.approx(run.last["best"][2], abs=1e-4)
    start = results.read_result(study, folder, study.job("start", 1e-4, 0))
    assert [point.step for point in start.checkpoints] == [0] and start.answers == 0


def test_its_adapter_is_the_policy_that_was_measured(study, folder):
    job = study.job("vpo", 1e-3, 1 if results.chosen_rate(study, folder, "vpo") == 1e-3 else 0)
    run = results.read_result(study, folder, job)
    policy, task = load_policy(folder / "policies" / job.key / "adapter"), job.config.make_task()
    again = measure.measure(
        policy, task, job.config, task.seeds["held_out"][:4], answers=6, seed=job.seed
    )
    np.testing.assert_allclose(measure.summary(again)["any"], run.last["any"], atol=1e-4)


def test_a_finished_study_does_nothing_more(study, folder):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert list(runner.run_study(study, folder)) == []
    assert before == {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}


def test_coverage_is_judged_at_other_alphas_too(study):
    config = study.job("start", 1e-4, 0).config
    task, policy = config.make_task(), load_policy("pocket-programs")
    seeds = task.seeds["held_out"][:3]
    found = measure.measure(policy, task, config, seeds, answers=6, alphas=(0.1, 1.0))
    assert found["judged"].shape == (3, 2)
    np.testing.assert_allclose(found["judged"][:, 1], found["coverage"])
    assert (found["judged"][:, 0] != found["coverage"]).any()


def test_a_run_can_be_judged_by_another_task(tmp_path):
    """Trained on mixed rewards, measured as the plain task: pools of equal policies are equal."""
    file = tmp_path / "judged.toml"
    mixed = 'task = "vpo_lite.studies.mixed:MixedRules", operations = 2, mix = 0.9,'
    file.write_text(
        SMALL.replace('task = "programs", operations = 2,', mixed).replace(
            'label = "before training"', 'label = "b"\njudged = {task = "programs", operations = 2}'
        )
    )
    study = declaration.read(file)
    job = study.job("start", 1e-4, 0)
    assert job.config.task.endswith("MixedRules") and job.judged.task == "programs"
    found = runner.run_job(study, job, tmp_path / "out")
    task, policy = job.judged.make_task(), load_policy("pocket-programs")
    plain = measure.measure(policy, task, job.judged, task.seeds["held_out"][:4], answers=6)
    assert found.last["any"] == measure.summary(plain)["any"]


def test_a_copy_that_is_not_installed_finishes_its_runs(study, tmp_path, not_installed):
    """A run was lost at its very end."""
    done = runner.run_job(study, study.job("start", 1e-4, 0), tmp_path / "out")
    assert [*done.versions] == ["torch"]


def test_mixing_keeps_the_mean_and_the_order_of_the_front():
    plain, mixed = task_class("programs")(operations=2), MixedRules(operations=2, mix=0.9)
    tests = plain.instance(3)
    assert mixed.instance(3) == tests
    (R,), (mixed_R,) = (t.score([tests], [list(PROGRAMS[:300])]) for t in (plain, mixed))
    np.testing.assert_allclose(mixed_R.mean(axis=1), R.mean(axis=1))
    np.testing.assert_allclose(mixed_R.std(axis=1), 0.1 * R.std(axis=1))
    every = mixed.score([tests], [list(PROGRAMS)])[0]
    wanted = np.unique(every[nondominated(every)].round(9), axis=0)
    np.testing.assert_allclose(np.unique(mixed.front(tests).round(9), axis=0), wanted)


def test_made_up_styles_are_one_hot_and_follow_the_text():
    task = MixedRules(fake=3)
    tests = task.instance(0)
    (R,) = task.score([tests], [list(PROGRAMS)])
    styles = R[:, len(tests.inputs) :]
    assert styles.shape[1] == 3 and (styles.sum(axis=1) == 1).all()
    assert abs(styles.mean(axis=0) - 1 / 3).max() < 0.05
    (nothing,) = task.score([tests], [[]])  # no answer of a problem could be read
    assert nothing.shape == (0, R.shape[1])
    assert len(task.objectives(tests)) == R.shape[1] == task.front(tests).shape[1]
    w = np.arange(1.0, 1 + R.shape[1])  # a whole answer has one style: the last weighs most
    best = np.hstack([np.ones((3, len(tests.inputs))), np.eye(3)]) @ w
    assert task.target(tests, w) == best.max() < w.sum()
    w[len(tests.inputs) :] *= -1  # one of these styles it must have
    assert task.target(tests, w) == (best_of := np.ones(len(tests.inputs)) @ w[:-3] + w[-3])
    assert task.target(tests, -w) == np.inf
    assert best_of < w[:-3].sum()
    w = abs(w)
    assert MixedRules(operations=2).target(tests, w[: len(tests.inputs)]) == w[:-3].sum()
    assert (task.valid(tests, R) == R[:, : len(tests.inputs)].any(axis=1)).all()


class Killed(BaseException):
    """Ends a run at once, as a kill does: nothing that follows in it runs."""


def cut_short(study, copy, job, after: int) -> Path:
    """Leave this run of a finished study as a kill after so many steps leaves it."""
    (copy / f"{job.key}.json").unlink()

    def tell(_, step, steps):
        if step == after:
            raise Killed

    with pytest.raises(Killed):
        runner.run_job(study, job, copy, tell)
    return copy / "policies" / job.key / "run"


@pytest.fixture
def states(monkeypatch):
    """Store a state after every step, as slow steps do."""
    monkeypatch.setattr(under_way, "EVERY", 0.0)


@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_a_run_that_is_cut_short_goes_on_where_it_was(
    study, folder, tmp_path, monkeypatch, states, after
):
    """After the second step it is to be measured. After its third only measuring is left."""
    copy, job = tmp_path / "copy", study.job("grpo", 1e-3, 1)
    shutil.copytree(folder, copy)
    before = json.loads((copy / f"{job.key}.json").read_text())
    place, steps = cut_short(study, copy, job, after), []
    assert place.is_dir()
    made, usual = [], runner.Learner
    monkeypatch.setattr(runner, "Learner", lambda config: made.append(config) or usual(config))
    runner.run_job(study, job, copy, lambda _, step, __: steps.append(step))
    assert steps == list(range(after + 1, 4)) and len(made) == 1  # no model is loaded twice
    now = json.loads((copy / f"{job.key}.json").read_text())
    same = ("checkpoints", "per_problem", "validation", "made_from", "answers")
    assert [now[name] for name in same] == [before[name] for name in same]
    assert now["training_seconds"] >= 0 and not place.exists()
    adapters = [x / "policies" / job.key / "adapter" for x in (folder, copy)]
    one, other = (load_file(x / "adapter_model.safetensors") for x in adapters)
    assert all((one[name] == other[name]).all() for name in one)


def test_a_run_goes_on_in_the_batches_that_fitted_when_it_began(
    study, folder, tmp_path, monkeypatch, states
):
    """Another memory that is free would cut it otherwise, and round otherwise."""
    copy, job, used = tmp_path / "copy", study.job("grpo", 1e-3, 1), []
    shutil.copytree(folder, copy)
    sizes, usual = iter((3, 2)), loop.train_step
    monkeypatch.setattr(
        under_way, "made_to_fit", lambda _, config, *__: config.but(micro_batch=next(sizes))
    )
    monkeypatch.setattr(
        loop,
        "train_step",
        lambda learner, config, step: (
            used.append(config.micro_batch) or usual(learner, config, step)
        ),
    )
    cut_short(study, copy, job, 2)
    found = runner.run_job(study, job, copy)
    assert used == [3, 3, 3] and found.config["micro_batch"] is None


def test_what_is_wrong_with_the_answers_is_one_line_that_names_the_run(
    folder, tmp_path, capsys, monkeypatch
):
    copy, file = tmp_path / "copy", tmp_path / "small.toml"
    shutil.copytree(folder, copy)
    file.write_text(SMALL)
    monkeypatch.setattr("vpo_lite.training.watch.Watch.look", lambda *_: ["odd answers"])
    for how in (["--run", "grpo-lr0.001-seed1"], []):  # alone, and among all that are left
        (copy / "grpo-lr0.001-seed1.json").unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert cli.main(["study", str(file), "--out", str(copy), *how]) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if "odd" in line]
        assert said == ["vpo-lite: run grpo-lr0.001-seed1: odd answers"]


@pytest.mark.parametrize(
    "what",
    [
        "settings",
        *(
            pytest.param(x, marks=pytest.mark.long)
            for x in ("sources", "damaged", "state", "no state")
        ),
    ],
)
def test_what_was_begun_otherwise_is_begun_anew(study, folder, tmp_path, monkeypatch, what):
    copy, job = tmp_path / "copy", study.job("grpo", 1e-3, 1)
    shutil.copytree(folder, copy)
    before = json.loads((copy / f"{job.key}.json").read_text())
    monkeypatch.setattr(under_way, "EVERY", 1e9 if what == "no state" else 0.0)
    place, steps = cut_short(study, copy, job, 2), []
    if what == "settings":
        stored = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(stored | {"lr": 0.5}))
    elif what == "sources":
        kept = json.loads((place / "measured.json").read_text())
        (place / "measured.json").write_text(json.dumps(kept | {"made_from": {"method": "0"}}))
    elif what == "state":
        (place / "state.safetensors").write_bytes(b"no state")
    elif what == "damaged":
        (place / "measured.json").write_text("{")
    runner.run_job(study, job, copy, lambda _, step, __: steps.append(step))
    assert steps == [1, 2, 3] and not place.exists()
    now = json.loads((copy / f"{job.key}.json").read_text())
    assert now["per_problem"] == before["per_problem"]


@pytest.mark.parametrize(
    ("step", "whole", "left"), [(1, True, [2, 3]), (1, False, [1, 2, 3]), (0, True, [1, 2, 3])]
)
def test_no_step_is_lost_where_scoring_fails(
    study, folder, tmp_path, monkeypatch, step, whole, left
):
    """Unless the step may have changed some of the parameters."""
    copy, job = tmp_path / "copy", study.job("grpo", 1e-3, 1)
    shutil.copytree(folder, copy)
    path = copy / f"{job.key}.json"
    before, steps = json.loads(path.read_text()), []
    path.unlink()
    monkeypatch.setattr(under_way, "EVERY", 1e9)
    with monkeypatch.context() as patched:
        usual = loop.train_step

        def failing(learner, config, now):
            if now == step:
                learner.whole = whole
                raise TaskError("no answer from the judge")
            return usual(learner, config, now)

        patched.setattr(loop, "train_step", failing)
        said = f"run {job.key}: no answer from the judge; fix this, and the same command goes on"
        with pytest.raises(TrainingError, match=f"^{said}$"):
            runner.run_job(study, job, copy)
    runner.run_job(study, job, copy, lambda _, done, __: steps.append(done))
    assert steps == left
    assert json.loads(path.read_text())["per_problem"] == before["per_problem"]


def test_a_run_that_cannot_go_on_leaves_nothing_under_way(study, folder, tmp_path, monkeypatch):
    copy, job = tmp_path / "copy", study.job("grpo", 1e-3, 1)
    shutil.copytree(folder, copy)
    place = cut_short(study, copy, job, 1)

    def infinite(*_):
        raise TrainingError("the loss is inf")

    def discarded(workplace):  # another process may begin the run anew as soon as it is free
        locked.append(is_locked(workplace))
        under_way.discard(workplace)

    locked = []
    monkeypatch.setattr("vpo_lite.training.loop.train_step", infinite)
    monkeypatch.setattr(runner, "discard", discarded)
    assert isinstance(runner.run_job(study, job, copy), results.Failure)
    assert locked == [True] and not place.exists()


def test_a_run_whose_learner_cannot_be_made_is_free_for_another_process(study, folder, tmp_path):
    """Its folder stayed locked for as long as the error was kept."""
    copy, job = tmp_path / "copy", study.job("grpo", 1e-3, 1)
    shutil.copytree(folder, copy)
    place = cut_short(study, copy, job, 1).parent

    def cannot():
        raise ValueError("too little memory")

    with pytest.raises(ValueError, match="too little memory") as kept:
        under_way.UnderWay(place, job.config, {}, cannot)
    locks = "import sys; from vpo_lite.locks import lock_folder; lock_folder(sys.argv[1])"
    command = [sys.executable, "-c", locks, str(place / under_way.RUN)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and kept.value is not None, done.stderr


def test_a_run_that_another_process_does_is_left_to_it(
    study, folder, tmp_path, capsys, monkeypatch
):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "grpo-lr0.001-seed1.json").unlink()
    job, file = study.job("grpo", 1e-3, 1), tmp_path / "small.toml"
    file.write_text(SMALL)
    holds = (
        "import sys; from vpo_lite.locks import lock_folder; "
        "lock = lock_folder(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    place = str(copy / "policies" / job.key)
    other = subprocess.Popen(
        [sys.executable, "-c", holds, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline().strip() == b"held"
        with pytest.raises(ValueError, match="another process"):
            runner.run_job(study, job, copy)
        assert cli.main(["study", str(file), "--out", str(copy), "--run", job.key]) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "another process is writing there" in said
        asked = ["study", str(file), "--out", str(copy)]
        assert cli.main([*asked, "--plan"]) == 0
        assert f"running   {job.key}  " in capsys.readouterr().out
        assert cli.main([*asked, "--commands"]) == 0 and capsys.readouterr().out == ""
        waits = []

        def let_go(seconds):
            waits.append(seconds)
            if len(waits) == 3:
                other.communicate()

        monkeypatch.setattr(runner.time, "sleep", let_go)
        assert cli.main(asked) == 0 and len(waits) == 3
        out, said = capsys.readouterr()
        assert out.startswith("grpo, lr 0.001, seed 1: ")
        assert said.count(f"waiting: another process does {job.key}\n") == 1  # no terminal
    finally:
        other.kill()
        other.wait()
    assert runner.run_job(study, job, copy).seed == 1
    lock_folder(place).release()  # it was let go


def test_a_study_writes_into_no_folder_of_something_else(tmp_path, capsys):
    """It put its results between what was there."""
    file, out = tmp_path / "small.toml", tmp_path / "other"
    file.write_text(SMALL)
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    key = "grpo-lr0.001-seed1"
    assert cli.main(["study", str(file), "--out", str(out), "--run", key]) == 2
    assert "other: holds files of something else; name a new folder" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_result_of_other_settings_is_refused(study, folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "grpo-lr0.001-seed0.json"
    found = json.loads(path.read_text())
    found["config"]["steps"] = 99
    path.write_text(json.dumps(found))
    with pytest.raises(DamagedError, match="steps = 99, the study says 3"):
        list(runner.run_study(study, copy))
    path.write_text("{")
    with pytest.raises(DamagedError, match=r"grpo-lr0\.001-seed0"):
        list(runner.run_study(study, copy))


# --- tables ---------------------------------------------------------------------------------------


def test_means_are_over_the_runs_of_the_chosen_rate(study, folder):
    rows = tables.means(study, folder, ["best@3", "coverage"])
    runs = results.chosen(study, folder)["grpo"]
    assert rows["grpo"]["seeds"] == len(runs) == 2
    assert rows["grpo"]["best@3"] == pytest.approx(np.mean([r.last["best"][2] for r in runs]))


def test_the_rates_of_a_kind_stand_side_by_side(study, folder, tmp_path, capsys):
    """By hand: two runs of GRPO at its one rate, and of VPO the rate with the higher validation."""
    place = tmp_path / "copy"
    shutil.copytree(folder, place)
    for key, score in {"vpo-lr0.0001-seed0": 0.9, "vpo-lr0.001-seed0": 0.1}.items():
        path = place / f"{key}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"validation": score}))
    for seed, score in enumerate((0.25, 0.75)):
        path = place / f"grpo-lr0.001-seed{seed}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"validation": score}))
    for path in place.glob("vpo-*-seed1.json"):
        path.unlink()
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(place), "--table", "rates"]
    assert cli.main([*asked, "any@3"]) == 0
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["method", "lr", "runs", "any@10, validation", "any@3"]
    assert [line[:4] for line in lines[2:]] == [
        ["VPO", "0.0001 *", "1", "0.900"],
        ["VPO", "0.001", "1", "0.100"],
        ["GRPO", "0.001 *", "2", "0.500"],
    ]
    runs = [results.read_result(study, place, study.job("grpo", 1e-3, s)) for s in (0, 1)]
    assert lines[-1][4] == f"{np.mean([run.last['any'][2] for run in runs]):.3f}"
    assert cli.main([*asked]) == 0 and "| any@1 | any@3 |" in capsys.readouterr().out
    assert cli.main(["study", "programs", "--out", str(tmp_path / "no"), "--table", "rates"]) == 2
    assert "no finished run; see --plan, or our results" in capsys.readouterr().err


def test_rates_of_unequal_runs_are_told_of(study, folder, tmp_path, capsys):
    """VPO has two seeds at the rate that was chosen, and one at the other; GRPO has one rate."""
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(folder), "--table", "rates"]
    assert cli.main(asked) == 0
    assert capsys.readouterr().err == (
        "vpo-lite: means at some rates are over fewer runs than at others, and --every-rate makes "
        "them equal: vpo\n"
    )


def test_a_table_says_what_its_marks_hold(study, folder, tmp_path, capsys):
    """SMALL has two runs of each trained kind."""
    asked = ["study", str(tmp_path / "small.toml"), "--table", "any@3", "--out"]
    (tmp_path / "small.toml").write_text(SMALL)
    assert cli.main([*asked, str(folder)]) == 0
    assert capsys.readouterr().err == (
        "vpo-lite: where a kind has fewer than 3 runs, + and - borrow the spread of all kinds, as "
        "if they had the same: vpo, grpo\n"
    )
    place = shutil.copytree(folder, tmp_path / "copy")
    for path in place.glob("*-seed1.json"):
        path.unlink()
    assert cli.main([*asked, str(place)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "vpo-lite: not all runs are finished: vpo has 1 of 2, grpo has 1 of 2",
        "vpo-lite: + and - leave out how seeds differ, since no kind has two runs",
    ]


def test_a_table_may_ask_for_any_number_of_answers(study, folder, tmp_path, capsys):
    """Six are measured: by default all six are shown, where 30 would be."""
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(folder), "--table"]
    assert cli.main(asked) == 0
    head, _, vpo_row, *_ = capsys.readouterr().out.splitlines()
    names = head.strip("| ").split(" | ")
    assert names[4:9] == ["best@1", "best@6", "any@1", "any@3", "any@6"]
    runs = results.chosen(study, folder)["vpo"]
    mean = np.mean([run.last["any"][5] for run in runs])
    assert vpo_row.strip("| ").split(" | ")[8].split(" ")[0] == f"{mean:.3f}"
    assert cli.main([*asked, "solved@4", "any@6"]) == 0
    out, err = capsys.readouterr()
    assert " | pass@4 | any@6 |" in out
    assert "never marked + or -: solved@4; single problems are kept at k = 1, 3, 6 alone" in err
    assert runs[0].per_problem.keys() >= {"any@1", "any@3", "any@6"}
    for figure in ("any@7", "any@0", "any@x", "valid@1"):
        assert cli.main([*asked, figure]) == 2
        assert f"--table {figure}: " in capsys.readouterr().err.replace("'", "")


def test_on_one_problem_other_answers_choose_the_rate(tmp_path, capsys):
    """It was chosen by the very answers that the table shows."""
    file = tmp_path / "one.toml"
    small = SMALL.split("[kinds.start]")[0].replace("steps = 3", "steps = 1, problem = 7")
    file.write_text(small.replace("seeds = 2", "seeds = 1").replace("answers = 6", "answers = 12"))
    one = declaration.read(file)
    for run in runner.run_study(one, tmp_path / "out"):
        assert run.validation != pytest.approx(run.per_problem["any@10"][0], abs=1e-4)
    job = one.job("grpo", 1e-3, 0)
    kept = results.read_result(one, tmp_path / "out", job)
    policy = load_policy(tmp_path / "out/policies" / job.key / "adapter")
    asked = dict(answers=12, problems=1, seed=integer(0, "validation"))
    wanted = vpo.evaluate(policy, job.judged, **asked)["any_at_k"]["10"]
    assert kept.validation == pytest.approx(wanted, abs=1e-5)
    assert cli.main(["study", str(file), "--out", str(tmp_path / "out"), "--table", "any@10"]) == 0
    said = "learning rates are chosen on the one problem of this table, by other answers to it"
    assert said in capsys.readouterr().err


def test_a_table_tells_of_blank_figures_and_of_answers_that_cannot_be_read(
    study, folder, tmp_path, capsys
):
    place = shutil.copytree(folder, tmp_path / "copy")
    for seed in range(2):
        path = results.result_path(place, study.job("grpo", 1e-3, seed))
        found = json.loads(path.read_text())
        found["checkpoints"][-1]["figures"] |= {"coverage": None, "parsed": 0.03}
        path.write_text(json.dumps(found))
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(place), "--table"]
    assert cli.main([*asked, "any@3", "coverage"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        "vpo-lite: blank where the true front of a problem is not known: coverage",
        "vpo-lite: of these kinds fewer than 10% of the answers could be read, so + and - say "
        "little of methods: grpo",
    ]
    assert cli.main([*asked, "parsed"]) == 0
    assert "| GRPO | 2 | 0.001 | " in (out := capsys.readouterr().out) and " | 0.030 |" in out


def test_kinds_that_are_measured_on_other_problems_are_not_compared(
    study, folder, searched, tmp_path, capsys
):
    """As pairs they would be, problem by problem: + and -, wins and losses."""
    assert tables.difference(study, folder, "start", "any@3") is not None
    (tmp_path / "small.toml").write_text(
        SMALL.replace("trained = false", "trained = false\njudged = {operations = 3}")
    )
    other = declaration.read(tmp_path / "small.toml")
    place = shutil.copytree(folder, tmp_path / "copy")
    path = results.result_path(place, other.job("start", 1e-4, 0))
    changed = {"judged": {"task_options": {"operations": 3}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert tables.difference(other, place, "start", "any@3") is None
    assert tables.difference(other, place, "start", "any@3", "start") is not None
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(place), "--table"]
    assert cli.main([*asked, "any@3"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "vpo-lite: never marked + or -, since measured on other problems than grpo or scored "
        "otherwise: start"
    )
    for kind in ("start", "mutation"):
        for file in place.glob(f"search-{kind}*.json"):
            found = json.loads(file.read_text())
            if kind == "start":
                found["made"]["task_options"] = {"operations": 3}
            file.write_text(json.dumps(found))
    lines = [line.strip("| ").split(" | ") for line in searches.markdown(other, place).splitlines()]
    compared = {line[0]: line[8:] for line in lines[2:]}
    assert compared["before training"] == [] and len(compared["random mutations, no policy"]) == 2


def test_a_figure_that_is_not_there_is_named_with_those_that_are(study, folder):
    run = results.chosen(study, folder)["vpo"][0]
    for figure in ("any@0", "any@7", "any@x", "any", "coverage@1", "speed"):
        with pytest.raises(ValueError, match=rf"^figure '{figure}': there are .*any@1 to any@6, "):
            tables.value(run, figure)
    assert tables.value(run, "any@6") == run.last["any"][5]
    with pytest.raises(ValueError, match=r"^figure 'any@5': problem by problem there are best@1, "):
        tables.difference(study, folder, "vpo", "any@5")


def with_values(study, folder, place, values):
    """A copy of a finished study in which best@3 has these values: {kind: a row for each seed}."""
    shutil.copytree(folder, place)
    for kind, rows in values.items():
        lr = results.chosen_rate(study, folder, kind)
        for seed, row in enumerate(rows):
            path = results.result_path(place, study.job(kind, lr, seed))
            found = json.loads(path.read_text())
            found["per_problem"]["best@3"] = [float(x) for x in row]
            path.write_text(json.dumps(found))
    return place


def test_a_difference_is_paired_by_problem_and_counts_the_seeds_of_both(study, folder, tmp_path):
    """Hard problems are hard for both, so only seeds are left: two of each kind, pooled.

    By hand: s² = (0.02² / 2 + 0.01² / 2) / 2, variance s² / 2 + s² / 2, and Student's test of two
    pairs has 2 degrees of freedom: t = 4.303.
    """
    count = len(results.chosen(study, folder)["vpo"][0].per_problem["best@3"])
    hard = np.linspace(0, 0.5, count)
    values = {"vpo": [hard + 0.25, hard + 0.27], "grpo": [hard, hard + 0.01]}
    place = with_values(study, folder, tmp_path / "apart", values)
    found = tables.difference(study, place, "vpo", "best@3")
    half = 4.302653 * np.sqrt((0.02**2 / 2 + 0.01**2 / 2) / 2)
    assert found.mean == pytest.approx(0.255) and found.seeds == 2 and found.sure == 1
    assert [found.low, found.high] == pytest.approx([0.255 - half, 0.255 + half], rel=1e-6)
    assert "+ |" in tables.markdown(study, place, ["best@3"]).splitlines()[2]
    low, high = tables.interval(study, place, "vpo", "best@3")
    assert low < hard.mean() + 0.26 - half < hard.mean() + 0.26 + half < high  # the problems count


def test_a_difference_within_the_spread_of_seeds_is_not_sure(study, folder, tmp_path):
    count = len(results.chosen(study, folder)["vpo"][0].per_problem["best@3"])
    values = {"vpo": np.full((2, count), [[0.5], [0.3]]), "grpo": np.full((2, count), 0.35)}
    place = with_values(study, folder, tmp_path / "near", values)
    found = tables.difference(study, place, "vpo", "best@3")
    assert found.mean == pytest.approx(0.05) and found.sure == 0
    assert "+ |" not in tables.markdown(study, place, ["best@3"])


def found_by_hand(monkeypatch, **values):
    """Tables of finished runs whose any@10 is this: {kind: (seeds, problems)}."""
    runs = {
        kind: [SimpleNamespace(per_problem={"any@10": list(row)}) for row in rows]
        for kind, rows in values.items()
    }
    monkeypatch.setattr(tables, "chosen", lambda *_: runs)


def test_on_one_problem_the_seeds_of_an_untrained_kind_count(study, monkeypatch):
    """It had an interval of width 0 there. By hand: s² = 0.02² / 2, both means from two runs, and
    Student's t of two kinds of which one has a spread: pooled, 2 degrees of freedom, 4.303.
    """
    found_by_hand(monkeypatch, start=[[0.5], [0.52]], grpo=[[0.4], [0.4]])
    gap = tables.difference(study, "", "start", "any@10")
    half = 4.302653 * np.sqrt(0.02**2 / 2 / 2)  # of (s² + 0) / 2, for each of two means
    assert (gap.low, gap.high) == pytest.approx((0.11 - half, 0.11 + half), rel=1e-6)
    assert gap.sure == 1
    # On several problems the gaps hold this chance: it is not counted twice.
    found_by_hand(monkeypatch, start=[[0.5, 0.3], [0.6, 0.4]], grpo=[[0.4, 0.2], [0.4, 0.2]])
    assert tables.difference(study, "", "start", "any@10")[1:3] == pytest.approx((0.15, 0.15))


def test_a_difference_without_any_spread_is_not_sure(study, monkeypatch):
    """Two seeds that found the same on one problem were marked, though their spread is unknown."""
    found_by_hand(monkeypatch, vpo=[[0.5], [0.5]], grpo=[[0.4], [0.4]])
    gap = tables.difference(study, "", "vpo", "any@10")
    assert gap.low == gap.high == pytest.approx(0.1) and gap.sure == 0


@pytest.mark.long
def test_sets_of_other_sizes_are_not_compared(study, folder, tmp_path):
    """Five answers cover more than three, whatever was trained."""
    file = tmp_path / "other.toml"
    small = SMALL.split("[search]")[0]
    file.write_text(small.replace('method = "vpo"}', 'method = "vpo", m = 2}', 1))
    list(runner.run_study(declaration.read(file), tmp_path / "out"))
    other = declaration.read(file)
    for figure in tables.OF_SETS:
        assert tables.difference(other, tmp_path / "out", "vpo", figure) is None
        assert tables.difference(study, folder, "vpo", figure) is not None
    assert tables.difference(other, tmp_path / "out", "vpo", "any@3") is not None
    heads = [tables.markdown(s, "o", ["coverage", "any@3"]).splitlines()[0] for s in (study, other)]
    assert [head.split(" | ")[4] for head in heads] == [
        "coverage",
        "coverage (sets of different sizes)",
    ]


def test_a_table_says_what_it_leaves_out_and_that_nothing_is_marked(
    study, folder, tmp_path, capsys
):
    place = shutil.copytree(folder, tmp_path / "copy")
    for seed in (0, 1):
        results.result_path(place, study.job("grpo", 1e-3, seed)).unlink()
    failure = {"study": "small", "kind": "vpo", "seed": 0, "error": "loss = nan"}
    for lr in (1e-4, 1e-3):
        job = study.job("vpo", lr, 0)
        results.result_path(place, job).unlink()
        stated = failure | {"lr": lr, "config": job.config.to_json()}
        results.failure_path(place, job).write_text(json.dumps(stated))
    (tmp_path / "small.toml").write_text(SMALL)
    asked = ["study", str(tmp_path / "small.toml"), "--out", str(place), "--table"]
    assert cli.main([*asked, "any@3"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3 and err.splitlines() == [
        "vpo-lite: left out, since failed at every learning rate: vpo",
        "vpo-lite: left out, since not finished at every learning rate: grpo",
        "vpo-lite: nothing is marked + or -: the baseline grpo is left out",
    ]
    assert cli.main([*asked, "rates"]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    seeds = sum(results.result_path(place, study.job("vpo", 1e-3, s)).exists() for s in (0, 1))
    assert [row[:3] for row in rows][-1] == ["VPO", "0.001", f"{seeds}, 1 failed"]
    assert cli.main(["study", "programs", "--table", "search", "--out", "no"]) == 2


# --- evolution with the policies ------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(study, folder):
    """The finished study after its searches, by kind."""
    first = list(searching.run_searches(study, folder))
    assert len(first) == 2 + 2 + 1 + 1 and list(searching.run_searches(study, folder)) == []
    return searches.finished(study, folder)


def test_all_policies_are_asked_for_equally_many_answers(searched):
    assert {row.answers for rows in searched.values() for row in rows} == {4 * 3}
    assert [len(rows) for rows in searched.values()] == [2, 2, 1, 1]
    for rows in searched.values():
        assert all(row.budgets[-1] == 12 and np.shape(row.solved) == (2, 3) for row in rows)


def test_a_search_is_the_one_that_evolve_does(study, folder, searched):
    job = study.job("start", 1e-4, 0)
    task, policy = job.config.make_task(), load_policy("pocket-programs")
    instances = [task.instance(s) for s in task.seeds["held_out"][:3]]
    traces = evolve(policy, task, instances, m=3, calls=4, seed=1)
    (row,) = searched["start"]
    assert row.tokens[1] == [t.tokens[-1] for t in traces] and min(row.tokens[1]) > 0
    assert row.best[1] == pytest.approx([t.best[-1] for t in traces], abs=1e-4)
    assert row.curve[1][-1] == pytest.approx(np.mean([t.best[-1] for t in traces]), abs=1e-4)
    assert set(np.ravel(searched["mutation"][0].tokens)) == {0}


def test_searches_that_were_made_otherwise_are_refused_before_another_begins(
    folder, searched, tmp_path
):
    copy, file = tmp_path / "copy", tmp_path / "small.toml"
    shutil.copytree(folder, copy)
    file.write_text(SMALL.replace("calls = 4", "calls = 5"))
    with pytest.raises(DamagedError, match="the study states another search"):
        list(searching.run_searches(declaration.read(file), copy))
    file.write_text(SMALL)
    (copy / "search-mutation.json").write_text("")
    with pytest.raises(DamagedError, match=r"search-mutation\.json"):
        list(searching.run_searches(declaration.read(file), copy))


def test_a_search_with_a_policy_that_is_gone_is_not_shown(study, folder, searched, tmp_path):
    """Runs that were done again have other policies, and the old searches stood beside them."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    run = searched["vpo"][0].run
    assert searched["vpo"][0].policy and not searched["mutation"][0].policy
    adapter = copy / "policies" / run / "adapter/adapter_model.safetensors"
    before = adapter.read_bytes()
    adapter.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    said = rf"search-{run}\.json: searched with another policy than run {run} has now; move this"
    for asked in (searches.markdown, lambda *given: list(searching.run_searches(*given))):
        with pytest.raises(DamagedError, match=said):
            asked(study, copy)
    shutil.rmtree(adapter.parent)  # as in what we ship
    assert searches.markdown(study, copy) == searches.markdown(study, folder)


def test_a_search_on_other_data_is_not_shown(study, folder, searched, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = next(copy.glob("search-vpo*.json"))
    names = {"method mine:vote": "1", "data rows.jsonl": "1"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made_from": names}))
    searches.markdown(study, copy)
    other = copy / "search-mutation.json"
    names = {"data rows.jsonl": "2"}
    other.write_text(json.dumps(json.loads(other.read_text()) | {"made_from": names}))
    with pytest.raises(DamagedError, match=r"data rows\.jsonl had another content than for"):
        searches.markdown(study, copy)


def test_a_search_that_another_process_does_is_waited_for(
    study, folder, searched, tmp_path, monkeypatch
):
    copy, waited = tmp_path / "copy", []
    shutil.copytree(folder, copy)
    run = searched["start"][0].run
    (copy / f"search-{run}.json").unlink()
    once = searching.write_once

    def busy(*given):
        if len(waited) < 2:
            raise BusyError("another process has it")
        return once(*given)

    monkeypatch.setattr(searching, "write_once", busy)
    monkeypatch.setattr(searching.time, "sleep", lambda seconds: None)
    found = searching.run_searches(study, copy, wait=waited.append)
    assert [row.run for row in found] == [run]
    assert waited == [run, run]


def test_a_search_takes_a_policy_that_is_still_there(study, folder, searched, tmp_path):
    copy, file = tmp_path / "copy", tmp_path / "small.toml"
    shutil.copytree(folder, copy)
    file.write_text(SMALL + "policies = 1\n")
    one = declaration.read(file)
    taken = lambda: next(s.run for s in searches.searches(one, copy) if s.kind == "vpo")  # noqa: E731
    first, second = (row.run for row in searched["vpo"])
    assert taken() == first
    (copy / f"search-{first}.json").unlink()
    assert taken() == second  # its search is finished
    (copy / f"search-{second}.json").unlink()
    assert taken() == first
    shutil.rmtree(copy / "policies" / first)
    assert taken() == second  # its policy is there


def test_the_table_counts_wins_problem_by_problem(study, folder, searched, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for row in searched["vpo"] + searched["grpo"]:
        path = copy / f"search-{row.run}.json"
        found = json.loads(path.read_text())
        found["solved"] = [[6, 6, None]] * 2 if row.kind == "vpo" else [[None, 9, None]] * 2
        path.write_text(json.dumps(found))
    lines = searches.markdown(study, copy).splitlines()
    vpo_line = next(line for line in lines if line.startswith("| VPO |"))
    assert "| 2 | 0.667 | 6 |" in vpo_line and "| 1 : 0 | 1 |" in vpo_line  # one win, two ties
    cells = dict(
        zip(*(line.strip("| ").split(" | ") for line in (lines[0], vpo_line)), strict=True)
    )
    rows = searched["vpo"]
    assert cells["scored"] == f"{sum(sum(map(sum, r.candidates)) for r in rows) / 12:.0f}"
    assert cells["best score"] == f"{sum(sum(map(sum, r.best)) for r in rows) / 12:.3f}"


@pytest.mark.parametrize(
    "changes, most", [({"max_new_tokens": 2}, 2), ({"method": "goal_conditioned", "m": 1}, 99)]
)
def test_a_search_obeys_the_settings_of_its_runs(
    study, folder, searched, monkeypatch, changes, most
):
    """The token limit, and the weights in the prompts of a goal-conditioned policy."""
    lengths, prompts, told = [], [], []
    real = Policy.sample

    def spied(self, asked, uniforms, *given, **how):
        lengths.append(uniforms.shape[-1])
        prompts.extend(prompt.symbols for prompt in asked)
        return real(self, asked, uniforms, *given, **how)

    monkeypatch.setattr(Policy, "sample", spied)
    search = searches.SearchJob(study, "start", study.job("start", 1e-4, 0))
    monkeypatch.setattr(searches.SearchJob, "config", search.config.but(**changes))
    made = searching._found(search, search.adapter(folder), lambda *now: told.append(now))
    assert told[0] == (search.run, 0, 8) and told[-1] == (search.run, 8, 8)
    assert max(lengths) <= most and None not in made["targets"]
    assert {"<w" in prompt for prompt in prompts} == {"method" in changes}


@pytest.mark.filterwarnings("always:hardly any answer")
def test_the_command_says_how_far_a_search_is(folder, searched, tmp_path, monkeypatch, capsys):
    """Its bar is told each of 4 calls with 2 seeds, and a warning is one line."""
    from vpo_lite.cli import study as command

    copy, file, seen = tmp_path / "copy", tmp_path / "small.toml", []
    shutil.copytree(folder, copy)
    file.write_text(SMALL)
    (copy / "search-mutation.json").unlink()
    progress, evolve_once = command.progress, searching.evolve

    def watched(**how):
        assert how["disable"] is False, "also in a log file"
        bar = progress(**how)
        update = bar.update
        bar.update = lambda n=1: (update(n), seen.append((bar.n, bar.total, bar.desc)))
        return bar

    def warning(*given, **how):
        warnings.warn("hardly any answer", stacklevel=1)
        return evolve_once(*given, **how)

    monkeypatch.setattr(command, "progress", watched)
    monkeypatch.setattr(searching, "evolve", warning)
    assert cli.main(["study", str(file), "--out", str(copy), "--search"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("mutation: solved ")
    assert "vpo-lite: hardly any answer\n" in printed.err and ".py" not in printed.err
    assert [n for n, *_ in seen] == sorted(n for n, *_ in seen)
    assert {(0, 8), (4, 8), (8, 8)} <= {(n, total) for n, total, _ in seen}
    assert {desc for *_, desc in seen} == {"search with mutation: "}


def test_a_search_without_a_target_shows_its_best_score(study, folder, searched, monkeypatch):
    row = searched["vpo"][0].model_copy(update={"targets": [None] * 3, "solved": [[None] * 3] * 2})
    monkeypatch.setattr(searches, "finished", lambda *_: {"vpo": [row], "grpo": [row]})
    line = searches.markdown(study, folder).splitlines()[2]
    assert f"| no target is known |  | {np.mean(row.best):.3f} |" in line


def test_equal_shares_of_solved_searches_are_a_tie(study, folder, searched, monkeypatch):
    """3 of 5, 2 of 5, 1 of 5 are as much as 2 of 5 three times: 6 of 15."""

    def solving(row, share):
        solved = [[6 if seed < share else None] for seed in range(5)]
        return row.model_copy(update={"solved": solved})

    ours, others = searched["vpo"][0], searched["grpo"][0]
    found = {
        "vpo": [solving(ours, share) for share in (3, 2, 1)],
        "grpo": [solving(others, 2)] * 3,
    }
    monkeypatch.setattr(searches, "finished", lambda *_: found)
    lines = searches.markdown(study, folder).splitlines()
    vpo_line = next(line for line in lines if line.startswith("| VPO |"))
    assert "| 0.400 |" in vpo_line and "| 0 : 0 | 1 |" in vpo_line


def test_a_study_without_searches_says_so(tmp_path):
    file = tmp_path / "none.toml"
    file.write_text(SMALL[: SMALL.index("[search]")])
    with pytest.raises(ValueError, match="no part \\[search\\]"):
        searches.searches(declaration.read(file), tmp_path)


def test_the_command_line_runs_and_plans(study, tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    out = ["--out", str(tmp_path / "out")]
    assert cli.main(["study", str(file), *out, "--kinds", "start"]) == 0
    printed = capsys.readouterr()
    assert "any@6" in printed.out and printed.err == "vpo-lite: --table prints what came out\n"
    assert cli.main(["study", str(file), *out, "--kinds", "start"]) == 0
    assert capsys.readouterr() == (
        "",
        "vpo-lite: all these runs are finished\nvpo-lite: --table prints what came out\n",
    )
    assert cli.main(["study", str(file), *out, "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["to", "to", "to", "finished"]
    assert cli.main(["study"]) == 0 and "programs: " in capsys.readouterr().out
    assert cli.main(["study", str(file), "--kinds", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["out", "small.toml"]


def test_a_table_of_nothing_says_where_our_results_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["study", "programs", "--table", "any@30"]) == 2
    said = capsys.readouterr().err
    assert "no kind is finished" in said
    folder = shlex.split(said)[-1]
    assert cli.main(["study", "programs", "--table", "any@30", "--out", folder]) == 0
    assert "any@30" in capsys.readouterr().out
    assert cli.main(["study", "programs", "--table", "search"]) == 2
    assert said[said.index(", or our") :] in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
