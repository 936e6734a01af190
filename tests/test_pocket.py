"""The policies that ship: standard folders, and cards that tell what these models do."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.pocket import pretrain
from vpo_lite.pocket.card import model_card
from vpo_lite.pocket.demonstrations import Demonstrations
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.pocket.pretrain import HELD_OUT, held_out_figures, new_model
from vpo_lite.pocket.recipe import recipe_class, recipe_names
from vpo_lite.policy import shipped
from vpo_lite.policy.loading import fingerprint, load_policy
from vpo_lite.policy.tokenizer import encode, word_tokenizer
from vpo_lite.tasks.maze import MazeTask

NAMES = (
    *("pocket-6x6", "pocket-9x9"),
    *("pocket-calls", "pocket-chains", "pocket-hops", "pocket-programs"),
)
MAZES = NAMES[:2]
CHAIN_KINDS = ["5 open places, 80 %", "5 open places, 60 %", "2 open places, 60 %"]


def about(name):
    return json.loads((shipped.folder(name) / "pretrain.json").read_text())


def config_of(name):
    stored = about(name)
    return recipe_class(stored.get("task", "maze")).from_json(stored["config"])


@pytest.mark.parametrize("task", recipe_names())
def test_demonstrations_are_a_function_of_settings_and_number(task):
    recipe, small = recipe_class(task), dict(updates=10, batch=4)
    one, other = Demonstrations(recipe(**small)), Demonstrations(recipe(**small))
    seen = [one[i] for i in range(40)]
    assert recipe.task == task and len(one) == 40
    assert [other[i] for i in (39, 0, 7)] == [seen[i] for i in (39, 0, 7)]
    another = Demonstrations(recipe(**small, seed=1))
    assert seen[:10] != [another[i] for i in range(10)]
    assert len({tuple(row.prompt) for row in seen}) == 40
    assert max(len(row.prompt + row.completion) for row in seen) <= recipe.longest
    words = recipe().vocabulary()
    assert len(set(words)) == len(words)


def test_they_are_there():
    assert tuple(shipped.names()) == NAMES
    assert shipped.folder("pocket-7x7") is None and shipped.description("pocket-7x7") is None
    elsewhere = str(shipped.folder("pocket-6x6"))  # a folder says what it reads, too
    assert shipped.description(elsewhere) == shipped.description("pocket-6x6")
    with pytest.raises(ValueError, match="m = 6: this policy writes 1 to 5"):
        vpo.TrainConfig.preset("demo", model=elsewhere, m=6)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_card_tells_what_the_model_does(name):
    """30 of its held-out problems anew: within four standard errors of the card, for each kind that
    it speaks of.
    """
    policy, config, held_out = (
        load_policy(name, device="cpu"),
        config_of(name),
        about(name)["held_out"],
    )
    assert policy.model.config.hidden_size == config.width
    assert list(held_out) == list(config.measured())
    for kind, task in config.measured().items():
        seen = held_out_figures(policy, config, task, seeds=range(100, 130), sizes=(3,), seed=1)[
            "3"
        ]
        for figure in {"parse", "reach", "valid", "right", "distinct"} & set(seen):
            share = held_out[kind]["3"][figure]
            error = math.sqrt(share * (1 - share) / 30)
            assert abs(seen[figure] - share) < 4 * error + 0.02, (kind, figure)


@pytest.mark.parametrize("name", MAZES)
def test_policies_for_mazes_are_undecided_about_treasure(name):
    assert 0.25 < about(name)["held_out"][config_of(name).layout]["3"]["treasure"] < 0.75


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_the_one_that_pretraining_writes(name):
    parameters = sum(
        w.numel() for w in load_file(shipped.folder(name) / "model.safetensors").values()
    )
    card = model_card(config_of(name), name, parameters, about(name)["held_out"], HELD_OUT)
    assert (shipped.folder(name) / "README.md").read_text() == card


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_safetensors_and_nothing_pickled(name):
    folder = shipped.folder(name)
    files = {path.name for path in folder.iterdir()}
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "pretrain.json",
        "README.md",
    } <= files
    assert not {f for f in files if f.endswith((".bin", ".pt", ".pkl"))}
    weights = load_file(folder / "model.safetensors")
    size = sum(w.numel() * w.element_size() for w in weights.values())
    assert size < 8_000_000 and {str(w.dtype) for w in weights.values()} == {"torch.float32"}


@pytest.mark.parametrize("name", NAMES)
def test_its_tokens_are_those_of_the_vocabulary(name):
    config = config_of(name)
    stored = AutoTokenizer.from_pretrained(shipped.folder(name))
    made = word_tokenizer(config.vocabulary())
    assert stored.get_vocab() == made.get_vocab()
    task = next(iter(config.measured().values()))
    prompt = task.prompt(task.instance(0), 3, pocket=shipped.description(name))
    ids = encode(stored, prompt)
    assert ids == encode(made, prompt)
    assert made.decode(ids) == f"<bos> {prompt.symbols}"
    assert config.pocket() == shipped.description(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "board", "digest"),
    [
        ("pocket-6x6", 6, "d4d2db747d36bfdf4a397216da4fde5c"),
        ("pocket-9x9", 9, "5c26d0409c8df516280f7b42a9cc4aca"),
    ],
)
def test_it_says_what_it_reads_and_its_weights_are_those_that_adapters_were_trained_on(
    name, board, digest
):
    wanted = {"task": "maze", "board": board, "answers": 5, "budget": 60}
    assert shipped.description(name) == wanted
    assert load_policy(name, device="cpu").pocket == wanted
    assert new_model(config_of(name)).config.vpo_pocket == wanted
    assert fingerprint(name) == digest


@pytest.mark.slow
def test_the_figures_are_shares_of_what_was_asked_for(monkeypatch):
    """A policy that writes the same route twice and a malformed one, and one that writes nothing:
    the figures by hand.
    """
    policy, task = load_policy("pocket-6x6", device="cpu"), MazeTask()
    maze = task.instance(0)
    front = maze.pareto_front()
    route, reward = front.routes[0], front.rewards[0]
    texts = [task.write(maze, [route, route], {}) + " <route_3> b9 </route_3>"]
    monkeypatch.setattr(type(policy), "texts", lambda self, rollouts, *_: texts)
    assert held_out_figures(policy, MazeRecipe(), task, seeds=[0], sizes=(3,))["3"] == {
        "parse": 2 / 3,
        "reach": 2 / 3,
        "distinct": 0,
        "treasure": float(reward[1:3].any()),
        "lava": float(reward[3] < 1),
    }
    texts = [""]
    nothing = {"parse": 0, "reach": 0, "distinct": 0, "treasure": None, "lava": None}
    assert held_out_figures(policy, MazeRecipe(), task, seeds=[0], sizes=(3,)) == {"3": nothing}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kinds", "components", "modes"),
    [
        ("calls", ["two parts"], {4}, [None]),
        ("chains", CHAIN_KINDS, {5}, ["independent", "spreading"]),
        ("hops", ["3 steps", "4 steps"], {4}, [None]),
        ("programs", ["three rules", "two rules", "one rule"], {5, 6, 7, 8}, [None]),
    ],
)
def test_pretrain_makes_a_policy_that_can_be_trained(
    task, kinds, components, modes, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(pretrain, "HELD_OUT", range(3))
    made = ["pretrain", "--task", task, "--out", str(tmp_path / "p")]
    tiny = ["--updates", "2", "--batch", "2", "--width", "16", "--layers", "1", "--heads", "2"]
    assert main([*made, *tiny, "--mlp", "16", "--workers", "0", "--device", "cpu"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(kinds)
    assert json.loads((tmp_path / "p" / "pretrain.json").read_text())["task"] == task
    assert "--updates 2" in (tmp_path / "p" / "README.md").read_text()
    small = dict(model=str(tmp_path / "p"), steps=1, prompts=4, group_size=3, threads=1)
    for mode in modes:
        (record,) = vpo.train(vpo.TrainConfig.preset("demo", task=task, mode=mode, **small))
        shapes = {group.rewards.shape for group in record.groups}
        assert shapes <= {(3, 3, d) for d in components}
    with pytest.raises(ValueError, match=f"task = '{task}' there, 'maze' now"):
        pretrain.check_folder(MazeRecipe(), tmp_path / "p")
    with pytest.raises(ValueError, match=f"made for task '{task}', not for 'maze'"):
        vpo.TrainConfig.preset("demo", task="maze", model=str(tmp_path / "p"))
    assert main([*made, "--layout", "lite-6x6"]) == 2


def test_pretrain_says_which_task_has_no_recipe(tmp_path, capsys):
    assert main(["pretrain", "--task", "chess", "--out", str(tmp_path)]) == 2
    assert "'chess': has no recipe" in capsys.readouterr().err


@pytest.mark.parametrize("has_it", [True, False])
def test_an_emulated_bfloat16_is_no_fast_one(has_it, monkeypatch):
    def supported(including_emulation=True):
        return has_it or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert pretrain._has_fast_bf16(torch.device("cuda")) == has_it


def test_a_new_model_leaves_the_random_streams_of_gpus_alone(monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    new_model(MazeRecipe(width=32, layers=1, heads=2, mlp=48))
    assert not seeded
