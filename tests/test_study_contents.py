"""A study whose data, code or base model is edited while it is under way."""

import hashlib
import json
import sys

import pytest
from small_models import byte_model

from vpo_lite import cli
from vpo_lite.files import DamagedError
from vpo_lite.studies import (
    declaration,
    results,
    runner,
    searches,
    searching,
    tables,
    under_way,
)
from vpo_lite.studies.made_from import NOW, check_alike, without_method

STUDY = """
about = "rows and rewards of one's own"
lr = [1e-3]
seeds = 2
baseline = "grpo"
measured = {checkpoints = 1, problems = 2, between = 1, validation = 2, answers = 4}
[settings]
task = "functions"
data = "rows.jsonl"
held_out_data = "others.jsonl"
validation_data = "third.jsonl"
reward_funcs = "study_scores:long,short"
model = "base"
prompts = 1
group_size = 2
steps = 1
max_new_tokens = 12
[kinds.vpo]
label = "VPO"
settings = {method = "study_method:mine"}
[kinds.grpo]
label = "GRPO"
settings = {method = "grpo", set_size = 2}
"""
METHOD = """import vpo_lite as vpo


@vpo.estimators.method(weights="one")
def mine(R, *, weights, eps, **_):
    score = (R @ weights[:, None, 0, :, None])[..., 0].max(axis=-1)
    return score, vpo.estimators.zscore(score, eps)
"""
REWARDS = """def long(completions, **_):
    return [min(len(c), 9) / 9 for c in completions]


def short(completions, **_):
    return [1 - min(len(c), 9) / 9 for c in completions]
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder in which the first seed of both kinds is done, for whoever stands in it."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        here.syspath_prepend(folder)
        byte_model("base", 16, 16, 1, 2, 2)
        (folder / "study_method.py").write_text(METHOD)
        (folder / "study_scores.py").write_text(REWARDS)
        for name, count in (("rows", 20), ("others", 4), ("third", 4)):
            rows = [{"prompt": f"{name} {i}"} for i in range(count)]
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folder / "own.toml").write_text(STUDY)
        assert cli.main(["study", "own.toml", "--out", "out", "--seeds", "1"]) == 0
        yield folder


def refused(capsys, *more, status=2):
    for name in ("study_method", "study_scores"):
        sys.modules.pop(name, None)  # as in a process of its own
    assert cli.main(["study", "own.toml", "--out", "out", *more]) == status
    return capsys.readouterr().err


FILES = {
    "data rows.jsonl": "rows.jsonl",
    "held_out_data others.jsonl": "others.jsonl",
    "validation_data third.jsonl": "third.jsonl",
    "reward_funcs study_scores:long,short": "study_scores.py",
    "method study_method:mine": "study_method.py",
}
EDITED = FILES | {"tokenizer base": "base/chat_template.jinja"}


@pytest.mark.slow
def test_a_result_says_what_it_was_made_from(begun):
    study = declaration.read("own.toml")
    kept = {k: results.read_result(study, "out", study.job(k, 1e-3, 0)) for k in study.kinds}
    sha = {name: hashlib.sha256((begun / p).read_bytes()).hexdigest() for name, p in FILES.items()}
    weights = hashlib.blake2b((begun / "base/model.safetensors").read_bytes(), digest_size=16)
    every = sha | {"model base": weights.hexdigest()}
    tokenizer = kept["vpo"].made_from.pop("tokenizer base")
    assert tokenizer == kept["grpo"].made_from.pop("tokenizer base") and len(tokenizer) == 64
    assert kept["vpo"].made_from == every
    del every["method study_method:mine"]
    assert kept["grpo"].made_from == every


@pytest.mark.slow
@pytest.mark.parametrize("how", ["one", "workers", "run"])
def test_a_study_says_once_what_is_dropped(begun, capfd, how):
    """A file that is there twice, of runs of two kinds, is said once; with workers by the parent.
    Whoever has nothing to do says nothing.
    """
    more = {
        "one": ["--kinds", "vpo", "--seeds", "1"],
        "workers": ["--seeds", "1", "--workers", "2"],
        "run": ["--run", "grpo-lr0.001-seed0"],
    }[how]
    rows = [{"prompt": f"{i}"} | ({"log_metric": 1} if i == 3 else {}) for i in range(4)]
    (begun / "lossy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (begun / "lossy.toml").write_text(STUDY.replace("others", "lossy").replace("third", "lossy"))
    said = "vpo-lite: 1 of 4 rows of lossy.jsonl dropped: functions get another log_metric"
    for times in (1, 0):
        assert cli.main(["study", "lossy.toml", "--out", f"out-{how}", *more]) == 0
        error = capfd.readouterr().err
        assert error.count(" dropped: ") == times and error.count(said) == times
    for path in (begun / f"out-{how}").glob("*.json"):
        kept = json.loads(path.read_text())["records"]
        assert kept["data"] == {"read": 20, "dropped": {}}
        for name in ("held_out_data", "validation_data"):
            assert kept[name]["read"] == 4 and [*kept[name]["dropped"].values()] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITED)
def test_no_run_begins_on_other_data_or_code(begun, capsys, monkeypatch, name):
    file = begun / EDITED[name]
    before = file.read_bytes()
    file.write_bytes(before + (b'{"prompt": "more"}\n' if "data" in name else b"# more\n"))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(runner, "Learner", lambda *_: pytest.fail("a run began"))
            told = [refused(capsys, *more) for more in ([], ["--plan"], ["--workers", "2"])]
        monkeypatch.setattr(under_way, "train", lambda *_, **__: pytest.fail("a run began"))
        told.append(refused(capsys, "--run", "vpo-lr0.001-seed1", status=1))
    finally:
        file.write_bytes(before)
        for name in ("study_method", "study_scores"):
            sys.modules.pop(name, None)
    for line in told:
        assert line.startswith("vpo-lite: out/vpo-lr0.001-seed0.json: was made when ")
        assert "had another content than it has now; put it back, or name another folder" in line
    kept = [p.name for p in (begun / "out").glob("*.json")]
    assert sorted(kept) == ["grpo-lr0.001-seed0.json", "vpo-lr0.001-seed0.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("prompts = 1", "prompts = 2", "prompts = 1, the study says 2"),
        # one option of the task: its name and values, not all of them
        ('"rows.jsonl"', '"moved.jsonl"', "data = 'rows.jsonl', the study says 'moved.jsonl'"),
        ("[settings]", "[settings]\nrepeats = 'vector'", "repeats = None, the study says 'vector'"),
    ],
)
def test_an_edited_study_is_a_wrong_request_whatever_is_asked(begun, capsys, was, now, said):
    (begun / "moved.jsonl").write_bytes((begun / "rows.jsonl").read_bytes() + b'{"prompt": "x"}\n')
    (begun / "own.toml").write_text(STUDY.replace(was, now))
    try:
        key = "vpo-lr0.001-seed0"
        asked = ([], ["--plan"], ["--commands"], ["--table"], ["--workers", "2"], ["--run", key])
        told = {refused(capsys, *more) for more in asked}
    finally:
        (begun / "own.toml").write_text(STUDY)
    cure = "change the study back, name another folder, or move this file away"
    assert told == {f"vpo-lite: out/{key}.json: was made with {said}; {cure}\n"}


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
def test_a_data_file_that_was_moved_counts_by_its_content(begun, capsys, same):
    place = begun / "rows at another place.jsonl"
    place.write_bytes((begun / "rows.jsonl").read_bytes() + b'{"prompt": "more"}\n' * (not same))
    (begun / "own.toml").write_text(STUDY.replace('"rows.jsonl"', f'"{place.name}"'))
    key = "vpo-lr0.001-seed0"
    try:
        if same:
            assert cli.main(["study", "own.toml", "--out", "out", "--run", key]) == 0
            assert capsys.readouterr().out == f"{key}: is done\n"
            assert cli.main(["study", "own.toml", "--out", "out", "--plan"]) == 0
            assert capsys.readouterr().out.count("finished") == 2
        else:
            told = refused(capsys, "--run", key)
            assert f"data = 'rows.jsonl', the study says '{place.name}'" in told
    finally:
        (begun / "own.toml").write_text(STUDY)
        place.unlink()


def test_no_run_begins_on_another_base_model(begun, capsys, monkeypatch):
    weights = begun / "base/model.safetensors"
    before = weights.read_bytes()
    monkeypatch.setattr(under_way, "train", lambda *_, **__: pytest.fail("a run began"))
    try:
        weights.write_bytes(before[:-8] + bytes(8))  # the last four parameters
        told = refused(capsys, "--kinds", "grpo", status=1)
        assert "seed0.json: was made when model base had another content than it has now" in told
    finally:
        weights.write_bytes(before)


def test_the_code_of_a_method_counts_for_that_method(begun, capsys, monkeypatch):
    """Whatever its kind is called: two settings of one method are compared. It is no reason to do
    the runs of GRPO again, nor to refuse a search with what is trained. Edited rewards are.
    """
    study = declaration.read("own.toml")
    file = begun / "study_method.py"
    before = file.read_bytes()
    try:
        file.write_bytes(before + b"# more\n")
        sys.modules.pop("study_method", None)
        grpo = [study.job("grpo", 1e-3, seed) for seed in (0, 1)]
        runner.check_sources(study, "out", grpo, download=False)
        now = runner.made_from(study.job("vpo", 1e-3, 0))
        results.check_contents(study, "out", [without_method(now)])
        with pytest.raises(DamagedError, match="method study_method:mine"):
            results.check_contents(study, "out", [now])
    finally:
        file.write_bytes(before)
        sys.modules.pop("study_method", None)
    old, new = {"rewards r:a": "1", "method m:a": "1"}, {"rewards r:a": "1", "method m:a": "2"}
    with pytest.raises(
        DamagedError, match=r"^a: .* method m:a had .* than for b; move one of these"
    ):
        check_alike([("a", old), ("b", new)])
    with pytest.raises(
        DamagedError, match=r"^a: .* rewards r:a had another content than for b; move"
    ):
        check_alike([("a", old), ("b", {"rewards r:a": "2", "method m:b": "2"})])
    check_alike([("a", {}), (NOW, new)])  # a file that is older than the field


def test_no_table_holds_runs_that_were_made_from_different_data(begun, tmp_path):
    """As two workers leave them that began before and after an edit."""
    study = declaration.read("own.toml")
    for kind in study.kinds:
        for seed in (0, 1):
            found = json.loads((begun / f"out/{kind}-lr0.001-seed0.json").read_text())
            kept = found["made_from"] | ({"data rows.jsonl": "another"} if seed else {})
            made = found | {"seed": seed, "made_from": kept}
            made["config"] = found["config"] | {"seed": seed}
            (tmp_path / f"{kind}-lr0.001-seed{seed}.json").write_text(json.dumps(made))
    for table in (tables.means, tables.markdown, tables.rates_markdown):
        with pytest.raises(DamagedError, match=r"data rows.jsonl .* than .*seed1\.json; move one"):
            table(study, tmp_path, ["any@1"])
    for path in tmp_path.glob("*seed1.json"):
        path.unlink()
    assert tables.means(study, tmp_path, ["any@1"])["vpo"]["seeds"] == 1


def test_no_search_begins_on_other_data(begun, tmp_path, monkeypatch):
    text = STUDY + '[search]\nkinds = ["vpo", "mutation"]\ncalls = 1\nproblems = 1\nseeds = 1\n'
    (tmp_path / "own.toml").write_text(text.replace("seeds = 2", "seeds = 1", 1))
    study = declaration.read(tmp_path / "own.toml")
    monkeypatch.setattr(searching, "write_once", lambda *_: pytest.fail("a search began"))
    before = (begun / "others.jsonl").read_bytes()
    try:
        (begun / "others.jsonl").write_bytes(before + b'{"prompt": "more"}\n')
        with pytest.raises(DamagedError, match=r"held_out_data others\.jsonl had another content"):
            list(searching.run_searches(study, "out"))
    finally:
        (begun / "others.jsonl").write_bytes(before)


def test_a_search_names_the_data_that_it_began_with(begun, tmp_path, monkeypatch):
    text = STUDY + '[search]\nkinds = ["vpo"]\ncalls = 1\nproblems = 1\nseeds = 1\n'
    (tmp_path / "own.toml").write_text(text.replace("seeds = 2", "seeds = 1", 1))
    (search,) = searches.searches(declaration.read(tmp_path / "own.toml"), "out")
    path, usual, expected = begun / "others.jsonl", searching.evolve, searching._reads(search)
    before = path.read_bytes()

    def edited_first(*given, **how):
        path.write_bytes(before + b'{"prompt": "more"}\n')
        return usual(*given, **how)

    monkeypatch.setattr(searching, "evolve", edited_first)
    try:
        found = searching._found(search, search.adapter("out"), lambda *_: None)
        assert found["made_from"] == expected != searching._reads(search)
    finally:
        path.write_bytes(before)
