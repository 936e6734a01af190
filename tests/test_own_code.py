"""Methods, tasks and rewards of a user's own: known by their content, and tried before training."""

import hashlib
import importlib
import json
import linecache
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from small_models import byte_model

import vpo_lite as vpo
from vpo_lite import estimators
from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.lab.codes import decode
from vpo_lite.lab.packing import packed
from vpo_lite.lab.session import Session
from vpo_lite.tasks.by_name import in_modules
from vpo_lite.tasks.own_code import code_digest
from vpo_lite.training.digests import digests_now, other_now
from vpo_lite.training.folders import RunFolder
from vpo_lite.training.problems import check_method
from vpo_lite.training.run import Run

METHOD = """import vpo_lite as vpo


@vpo.estimators.method(weights="many")
def {name}(R, *, weights, eps, **_):
    score = (R @ weights.swapaxes(1, 2)[:, None]).max(axis=2).mean(axis=-1)
    return score, vpo.estimators.zscore(score, eps)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a module with a method into the current folder; it is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str = METHOD):
        vpo.METHODS.pop(name, None)
        sys.modules.pop(f"in_{name}", None)
        file = tmp_path / f"in_{name}.py"
        file.write_text(text.format(name=name), encoding="utf-8")
        return file

    return write


def edited(file, text: str) -> None:
    """As a process sees it that starts after an edit."""
    file.write_text(text, encoding="utf-8")
    sys.modules.pop(file.stem, None)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def of_the_method(folder) -> str:
    return RunFolder.open(folder).digests()["method"]


@pytest.mark.slow
def test_a_run_keeps_the_digest_of_the_code_and_goes_on_with_other_code(own, small_config):
    file = own("meant")
    run = Run.begin(small_config.but(method="in_meant:meant"), "run")
    before = sha256(file.read_bytes())
    assert of_the_method("run") == before and run.notes == ()
    run.start()
    next(run.steps())
    run.close()
    again = Run.resume("run")
    assert again.notes == () and of_the_method("run") == before
    again.close()
    edited(file, f"{file.read_text()}\n# mended\n")
    now = sha256(file.read_bytes())
    assert now != before
    for said in (
        ("changed since this run began, so its steps are of both: code of in_meant:meant",),
        (),  # not again, as nothing has changed since
    ):
        again = Run.resume("run")
        assert again.notes == said
        assert of_the_method("run") == f"{before}+{now}"
        again.close()
    again = Run.resume("run")
    list(again.steps())
    again.finish()
    other = Run.begin(small_config.but(method="meant", seed=1), "other")
    other.start(), list(other.steps()), other.finish()
    rows = vpo.compare(["run", "other"])
    assert [row["label"] for row in rows] == [
        f"meant, code of method={before[:8]}+{now[:8]}",
        f"meant, code of method={now[:8]}",
    ]
    assert rows[1]["other_problems"] == [] and rows[1]["runs"] == 1


@pytest.mark.slow
def test_the_command_says_that_the_code_changed(own, small_config, capsys):
    file = own("edited")
    run = Run.begin(small_config.but(method="in_edited:edited", steps=1, eval_problems=1), "run")
    run.start(), list(run.steps()), run.finish()
    edited(file, f"{file.read_text()}#")
    assert main(["train", "--resume", "run", "--steps", "2"]) == 0
    assert "its steps are of both: code of in_edited:edited\n" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_says_that_the_scorer_changed(own, tmp_path, capsys):
    """The method is asked nothing in an evaluation."""
    head = (
        "def {name}(completions, **_):\n    return [float(len(c) > {least}) for c in completions]\n"
    )
    file = own("scores", head.replace("{least}", "3"))
    method = own("asked")
    Path("rows.jsonl").write_text('{"prompt": "Name a prime."}\n' * 4, encoding="utf-8")
    model = byte_model(tmp_path / "model", 16, 32, 1, 2, 2)
    run = (
        f"train --task functions --data rows.jsonl --reward-funcs in_scores:scores --model {model}"
    )
    small = (
        "--steps 1 --prompts 1 --group-size 2 --m 1 --set-size 2 --max-new-tokens 8 --device cpu"
    )
    asked = f"{run} {small} --eval-answers 4 --method in_asked:asked --out run --json"
    assert main(asked.split()) == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "--json"]) == 0
    assert "changed" not in capsys.readouterr().err
    edited(method, f"{method.read_text()}#")
    edited(file, file.read_text().replace("> 3", "> 4"))
    assert main(["evaluate", "run", "--json"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "changed" in line]
    assert len(said) == 1 and said[0].endswith("the present version: code of in_scores:scores")


def test_the_files_of_a_users_own_count_that_a_file_imports(tmp_path, monkeypatch):
    """In a package, from others that it imports itself, and for a value alone; not those of Python
    or of installed packages, nor what a function imports when it is called.
    """
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_package" / "sub").mkdir(parents=True)
    texts = {
        "own_package/__init__": "",
        "own_package/judge": "import json\nimport numpy as np\nfrom . import scale\n"
        "from .sub.names import NAMES\n\ndef score():\n    import own_late\n    return own_late\n",
        "own_package/scale": "try:\n    import own_root.absent\n"
        "except ImportError:\n    import own_root\n",
        "own_package/sub/__init__": "# a package",
        "own_package/sub/names": "NAMES = ['a']\n",
        "own_root": "FACTOR = 2\n",
        "own_late": "",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    order = ["judge", "__init__", "scale", "sub/__init__", "sub/names"]
    files = [*(f"own_package/{name}" for name in order), "own_root"]
    whole = "".join(texts[name] for name in files).encode()
    assert code_digest("own_package.judge:score") == sha256(whole)
    from own_package.judge import score

    score()  # it is imported now
    assert code_digest("own_package.judge:score") == sha256(whole)
    edited(tmp_path / "own_root.py", "FACTOR = 3\n")
    importlib.reload(sys.modules["own_package.scale"])
    assert code_digest("own_package.judge:score") == sha256(whole.replace(b"R = 2", b"R = 3"))
    for name in [name for name in sys.modules if name.startswith("own_")]:
        monkeypatch.delitem(sys.modules, name)


def test_code_that_was_edited_after_its_import_is_refused(own, small_config):
    """It ran as it was, under the digest of what the file had become."""
    file = own("loaded")
    before = file.read_text()
    config = small_config.but(method="in_loaded:loaded")
    Run.begin(config, "first").close()
    file.write_text(before + "# other\n")
    said = r"in_loaded\.py: was edited after this process .*\.reload on in_loaded; or put the"
    with pytest.raises(DamagedError, match=said):
        Run.begin(config, "second")
    assert not Path("second").exists()
    importlib.reload(sys.modules["in_loaded"])
    Run.begin(config, "third").close()
    assert of_the_method("third") == sha256(file.read_bytes()) != of_the_method("first")
    file.write_text(before)
    with pytest.raises(DamagedError):
        code_digest("in_loaded:loaded")


def test_the_digest_is_of_the_files_that_define_what_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    texts = {
        "defines_ab": "import functools\n\n\ndef a(): ...\n\n\nclass B: ...\n\n\n"
        "made = functools.partial(a)\nheld = B()\n",
        "defines_c": "from defines_ab import a as renamed\n\n\ndef c(): ...\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    ab, c = (text.encode() for text in texts.values())
    for name in ("a", "B", "made", "held"):
        assert code_digest(f"defines_ab:{name}") == sha256(ab), name
    assert code_digest("defines_c:renamed") == sha256(ab)
    assert code_digest("defines_c:c") == sha256(c + ab)  # what it imports counts, too
    assert code_digest("defines_ab:a,B, defines_c:c") == sha256(ab + c)  # each file once
    assert code_digest("vpo_lite.tasks.example_rewards:small,many_divisors") is None  # it ships
    assert code_digest("math:hypot") is None  # no source


def test_the_digest_of_what_a_cell_defines_is_that_of_its_source(monkeypatch):
    """As IPython runs it: a file that is only in linecache, in a module without one."""
    text, name = "def in_a_cell(R, **_):\n    return R, R\n", "/tmp/ipykernel_1/2.py"
    module = type(math)("a_notebook")
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    monkeypatch.setitem(sys.modules, "a_notebook", module)
    exec(compile(text, name, "exec"), vars(module))
    assert code_digest("a_notebook:in_a_cell") == sha256(text.encode())


@pytest.mark.slow
def test_a_models_tokenizer_template_and_settings_count_by_their_content(
    small_config, tmp_path, capsys
):
    """A template that was edited between two seeds asks otherwise: these are two kinds of runs."""
    model = byte_model(tmp_path / "model", 16, 32, 1, 2, 2)
    config = small_config.but(model=str(model), steps=1, eval_problems=1, max_new_tokens=4)
    reads = [p for p in sorted(model.iterdir()) if p.suffix != ".safetensors"]
    assert {"tokenizer.json", "config.json", "chat_template.jinja"} <= {p.name for p in reads}
    listed = "".join(f"{p.name} {sha256(p.read_bytes())}\n" for p in reads)
    before = {"tokenizer": sha256(listed.encode())}

    def trained(folder, **changes):
        run = Run.begin(config.but(**changes), tmp_path / folder)
        run.start(), list(run.steps()), run.finish()
        return str(tmp_path / folder)

    runs = [trained("a"), trained("b", seed=1)]
    assert RunFolder.open(runs[0]).digests() == digests_now(config) == before
    assert [row["runs"] for row in vpo.compare(runs)] == [2]
    (model / "README.md").write_text("nothing that is read")
    assert digests_now(config) == before
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + "Shout. ")
    now = digests_now(config)["tokenizer"]
    assert now != before["tokenizer"]
    rows = vpo.compare([*runs, trained("c", seed=2)])
    assert [row["label"] for row in rows] == [
        f"{config.method}, tokenizer={digest[:8]}" for digest in (before["tokenizer"], now)
    ]
    assert rows[1]["other_problems"] == []  # the same problems, the same scorer
    what = f": tokenizer, chat template or settings of {model}\n"
    assert main(["evaluate", runs[0], "--json"]) == 0 and what in capsys.readouterr().err
    assert main(["train", "--resume", runs[0], "--steps", "2"]) == 0
    assert f"its steps are of both{what}" in capsys.readouterr().err
    assert main(["evaluate", runs[0], "--json"]) == 0 and what not in capsys.readouterr().err
    assert digests_now(config.but(model="some/model")) == {}  # of the hub
    shutil.rmtree(tmp_path / "b" / "adapter")
    assert main(["evaluate", runs[1]]) == 2
    assert "b/adapter: is not there; put it back, or name another" in capsys.readouterr().err


def test_task_and_rewards_count_too_and_what_ships_does_not(own, tmp_path):
    rewards = own("judges", "def {name}(completions, **_):\n    return [1.0] * len(completions)\n")
    data = tmp_path / "rows.jsonl"
    data.write_text('{"prompt": "Name a prime."}\n' * 2)
    task = dict(task="functions", data=str(data), model="some/model")
    config = vpo.TrainConfig(reward_funcs="in_judges:judges", **task)
    found = digests_now(config)
    assert found == {
        "data": sha256(data.read_bytes()),
        "reward_funcs": sha256(rewards.read_bytes()),
    }
    assert other_now(found, config) == {} == other_now({}, config)  # an older run keeps none
    data.write_text('{"prompt": "Name an odd number."}\n' * 2)
    assert other_now(found, config) == {}  # data that changed is refused, not noted
    assert digests_now(vpo.TrainConfig()) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        (METHOD, ("--K", "inf"), "line 6); with K = inf its weights are None: let it handle that"),
        (METHOD.replace("eps)", "epsilon)"), (), "name 'epsilon' is not defined (in_{name}.py, l"),
        (
            METHOD.replace("return score", "return score[0]"),
            (),
            "has shape (16,): expected (1, 16)",
        ),
    ],
)
def test_a_method_that_cannot_work_is_refused_before_anything_is_measured(
    own, tmp_path, capsys, text, flags, said
):
    own("failing", text)
    assert main(["train", "--method", "in_failing:failing", *flags, "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert said.format(name="failing") in error and error.count("\n") == 1, error
    assert "for a group in which no answer can be read: " in error
    assert not (tmp_path / "run").exists()


NEGATIVE = """
import numpy as np
from vpo_lite.tasks.maze import MazeTask

class Negative(MazeTask):
    def worst(self, instance):
        return -np.ones(4)

    def score(self, instances, answers):
        return [rewards - 1 for rewards in super().score(instances, answers)]

    def front(self, instance):
        return None
"""


def test_maxrl_is_refused_where_a_missing_answer_earns_less_than_nothing(own, tmp_path, capsys):
    own("negative", NEGATIVE)
    flags = ["--task", "in_negative:Negative", "--method", "maxrl", "--maze-seed", "7"]
    assert main(["train", *flags, "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "for a group in which no answer can be read: R gives the scalar reward -1" in error
    assert error.count("\n") == 1 and not (tmp_path / "run").exists()


def test_it_is_tried_on_a_group_of_the_worst_rewards_as_training_asks(small_config):
    seen = {}

    @estimators.method(weights="many")
    def watched(R, **given):
        seen.update(given, R=R)
        return np.zeros(R.shape[:2]), np.zeros(R.shape[:2])

    config = small_config.but(method="watched", K=5, alpha=0.5, k=1, eps=0.25)
    task = config.make_task()
    check_method(task, config)
    assert seen["R"].tolist() == [[[[0.0] * 4] * 2] * 2]  # P = 1, G = 2, m = 2: nothing is earned
    assert seen["weights"].shape == (1, 5, 4)
    np.testing.assert_allclose(seen["weights"].sum(-1), 1)
    assert (seen["alpha"], seen["k"], seen["eps"]) == (0.5, 1, 0.25)
    assert seen["w_star"].tolist() == [task.w_star(task.instance(1000)).tolist()]
    check_method(task, config.but(K=math.inf))
    assert seen["weights"] is None
    seen.clear()
    check_method(task, config.but(method="vpo"))  # those that ship are tested
    assert not seen


def test_a_method_that_names_weights_says_which(monkeypatch):
    """Without it weights were None, and a method that took None for the exact mean went on."""

    def drawn(R, *, weights, **_):
        return R[..., 0, 0], R[..., 0, 0]

    for wrong in ({}, {"weights": "none"}):
        with pytest.raises(ValueError, match="'drawn' names weights and says not which: write"):
            estimators.method(**wrong)(drawn)
    assert "drawn" not in estimators.METHODS
    for right in ("many", "one"):
        assert estimators.method(weights=right)(drawn) is drawn

    @estimators.method()
    def perhaps(R, *, weights=None, **_):
        return R[..., 0, 0], R[..., 0, 0] * (weights is None)

    assert vpo.advantages("perhaps", np.ones((1, 2, 1, 1))).tolist() == [[1, 1]]


def test_a_method_that_works_in_place_leaves_the_callers_rewards(monkeypatch):
    """Training measures them after it compared them."""

    @estimators.method(weights="many")
    def in_place(R, *, weights, w_star, **_):
        R -= R.max()
        weights *= 0
        w_star *= 0
        return R[..., 0, 0], R[..., 0, 0]

    R, W = np.ones((1, 2, 1, 2)), np.ones((1, 3, 2))
    assert vpo.advantages("in_place", R, weights=W).tolist() == [[0, 0]]
    assert (R == 1).all() and (W == 1).all()
    one_by_one = [np.ones((2, 1, 2)), np.ones((2, 1, 3))]
    vpo.advantages("in_place", one_by_one, weights=[W[0], np.ones((3, 3))])
    assert all((r == 1).all() for r in one_by_one)


def test_a_lab_takes_a_method_by_module_and_name(own):
    own("shared")
    session = Session(["vpo", "in_shared:shared"])
    assert session.methods == ("vpo", "shared")
    assert Session("in_shared:shared").methods == ("shared",)
    session.change(methods="in_shared:shared")
    assert session.methods == ("shared",)
    with pytest.raises(ValueError, match="in_shared has no 'absent'"):
        Session("in_shared:absent")


def test_a_share_code_imports_neither_methods_nor_rewards(own, tmp_path, capsys):
    """It imported reward functions: what a stranger wrote decided which module ran."""
    own("strange", "print('it ran')\n" + METHOD)
    own("judged", "print('it ran')\n\ndef {name}(completions, **_):\n    return completions\n")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Name a prime."}\n' * 2)
    task = {"task": "functions", "model": "some/model", "data": str(tmp_path / "rows.jsonl")}
    rewards = [task | {"reward_funcs": "in_judged:judged"}, {}, False]

    def code(methods, settings, *rest):
        text = json.dumps([methods, settings, *rest])
        return f"VPO2-{packed(text.encode(), safe=True)}"

    with pytest.raises(ValueError, match="expected one to 3 different names"):
        decode(code(["in_strange:strange"], {}, {}, False))
    with pytest.raises(ValueError, match="reward_funcs 'in_judged:judged' is not part of vpo_lite"):
        decode(code(["vpo"], *rewards))
    for of_ours in ("small", "small,many_divisors"):
        named = f"vpo_lite.tasks.example_rewards:{of_ours}"
        settings = decode(code(["vpo"], rewards[0] | {"reward_funcs": named}, {}, False))
        assert settings.config.task_options["reward_funcs"] == named
    assert not {"in_strange", "in_judged"} & set(sys.modules) and not capsys.readouterr().out
    importlib.import_module("in_judged")  # the reader trusts it
    assert decode(code(["vpo"], *rewards)).config.task_options["reward_funcs"] == "in_judged:judged"
    for name in (
        "os:system",
        "vpo_lite.files:os.system",
        "vpo_lite.files:json.dumps",
        "sys:modules.update",
        "builtins:str.join",
        "vpo_lite.estimators:METHODS.update",
    ):
        with pytest.raises(ValueError, match=f"reward_funcs '{name}' is not part of vpo_lite"):
            decode(code(["vpo"], task | {"reward_funcs": name}, {}, False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "file", "module"),
    [
        ("theirs", "evil_code.py", "theirs.evil_code"),
        ("seed-0", "evil_code.py", "seed-0.evil_code"),
        ("theirs", "evil-code.py", "theirs.evil-code"),
        ("a,b", "evil_code.py", "a,b.evil_code"),
        ("theirs", "evil_code/__init__.py", "theirs.evil_code"),
        ("theirs", "../text", "theirs.evil_code"),  # by a link
        ("theirs", "evil_code.py", "evil_code"),  # from inside of the folder
    ],
)
def test_a_run_folder_that_names_code_inside_of_it_imports_none(
    runs, tmp_path, monkeypatch, capsys, folder, file, module
):
    """Whoever hands over a run folder could decide what runs where it is compared."""
    theirs = shutil.copytree(runs / "finished", tmp_path / folder)
    monkeypatch.chdir(theirs if module == "evil_code" else tmp_path)
    (theirs / file).parent.mkdir(exist_ok=True)
    (theirs / file).write_text("print('it ran')\n")
    if file == "../text":
        (theirs / "evil_code.py").symlink_to(tmp_path / "text")
    told, name = json.loads((theirs / "config.json").read_text()), f"{module}:Task"
    for values, setting in (
        (told | {"task": name}, "task"),
        (told | {"method": name}, "method"),
        (told | {"task": "functions", "task_options": {"reward_funcs": name}}, "reward_funcs"),
    ):
        (theirs / "config.json").write_text(json.dumps(values))
        said = f"{setting} = '{name}': its code lies in the run's own folder"
        for command in ("compare", "evaluate", "train --resume"):
            assert main([*command.split(), str(theirs)]) != 0
            out, err = capsys.readouterr()
            assert said in err and "it ran" not in out, command
    assert not any("evil" in name for name in sys.modules)


def test_a_name_that_no_file_can_have_is_an_unknown_one(runs, tmp_path):
    theirs = shutil.copytree(runs / "finished", tmp_path / "theirs")
    told = json.loads((theirs / "config.json").read_text())
    for module in ("a" * 300, "a\0b", "", ".", "/", "a//b", "~"):
        (theirs / "config.json").write_text(json.dumps(told | {"task": f"{module}:Task"}))
        with pytest.raises(DamagedError, match=r"config\.json: task '.*cannot be found"):
            RunFolder.open(theirs).config()
    with pytest.raises(ValueError, match="at most 10,000 characters of names"):
        in_modules(f"{'a.' * 9000}b:c{',d' * 9000}")  # 16 million characters in all
