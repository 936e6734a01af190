"""Model and adapter folders under attack: a sound policy, or one line; nothing of a folder runs."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from attacks import (
    NASTY,
    TOO_LARGE,
    check_error,
    full_disk,
    mutated_bytes,
    mutated_json,
    seeds,
    tree,
)
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from small_models import CHAT, SIZES, byte_tokenizer, model_folder
from transformers import (
    AutoModelForCausalLM,
    BambaConfig,
    BertConfig,
    GPT2Config,
    GPTNeoConfig,
    GraniteMoeHybridConfig,
    Lfm2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MiniMaxConfig,
    Qwen2ForCausalLM,
    RobertaConfig,
    RwkvConfig,
)

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.cli.errors import of_a_file
from vpo_lite.pocket.maze import MazeRecipe
from vpo_lite.policy import adapter, base, fresh, room, shipped, weights
from vpo_lite.policy.adapter import fingerprint, quiet
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.sampling import HFForward
from vpo_lite.policy.tokenizer import word_tokenizer
from vpo_lite.tasks.base import Prompt
from vpo_lite.tasks.maze import MazeTask

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
ONE, ADAPTER = "model.safetensors", "adapter_model.safetensors"


def tiny_model(path, kind=LlamaForCausalLM, tied=True, chat=True, **more):
    """A random language model that is asked in words, in a folder."""
    more |= dict(tie_word_embeddings=tied, kind=kind)
    return model_folder(path, byte_tokenizer(chat), 16, 24, 2, 2, 1, **more)


def trained(folder, out):
    """An adapter with some weight, as a run leaves it."""
    policy = load_policy(folder, device="cpu", rank=2)
    torch.manual_seed(1)
    for name, p in policy.model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p, std=0.05)
    policy.save(out)
    return out


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("attacked") / "words")


@pytest.fixture(scope="session")
def targets(tiny_policy_folder, words, tmp_path_factory):
    """{name: folder} of what is attacked: two base models, an adapter on each."""
    home = tmp_path_factory.mktemp("adapters")
    return {
        "pocket": tiny_policy_folder,
        "words": words,
        "adapter of pocket": trained(tiny_policy_folder, home / "pocket" / "adapter"),
        "adapter of words": trained(words, home / "words" / "adapter"),
    }


@pytest.fixture(scope="session")
def sound(targets):
    """{name: parameters} of the policies before any attack."""
    found = {name: load_policy(folder, device="cpu") for name, folder in targets.items()}
    return {
        name: {n: p.detach().clone() for n, p in policy.model.named_parameters()}
        for name, policy in found.items()
    }


def copied(folder, to) -> Path:
    return Path(shutil.copytree(folder, to, copy_function=shutil.copyfile))


def edited(path, **changes):
    """Change entries of a JSON file; None removes one."""
    found = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in found.items() if v is not None}))


def sampled(policy):
    prompt = Prompt(symbols="<m2>") if policy.pocket else Prompt.words("Go.")
    return policy.sample([prompt], np.random.default_rng(0).random((1, 2, 5)))


def refused(folder, match, **arguments):
    """Loading this folder is one line, and leaves the folder as it was."""
    before = tree(folder) if isinstance(folder, Path) else None
    with pytest.raises(ValueError, match=match) as caught:
        load_policy(folder, device="cpu", **arguments)
    check_error(caught.value)
    assert before is None or tree(folder) == before
    return caught.value


# --- seeded mutations of every file ---------------------------------------------------------------


def attack(folder: Path, rng: random.Random) -> str:
    """Change one file of a folder. Returns its name and how."""
    path = rng.choice(sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors")))
    how = rng.choice(("change", "change", "change", "change", "replace"))
    if how == "change" and path.suffix == ".json" and rng.random() < 0.8:
        path.write_text(json.dumps(mutated_json(json.loads(path.read_text()), rng)))
        return f"{path.name}: JSON"
    if how == "change":
        path.write_bytes(mutated_bytes(path.read_bytes(), rng))
        return f"{path.name}: bytes"
    path.unlink()
    how = rng.choice(("gone", "empty", "pointer", "folder", "loop", "nasty", "code"))
    if how == "empty":
        path.touch()
    elif how == "pointer":
        path.write_bytes(POINTER)
    elif how == "folder":
        path.mkdir()
    elif how == "loop":
        path.symlink_to(path.name)
    elif how == "nasty":
        path.write_text(json.dumps(rng.choice(NASTY)))
    elif how == "code":
        remote = {f"Auto{kind}": "evil.Evil" for kind in ("Config", "ModelForCausalLM")}
        path.write_text(json.dumps({"auto_map": remote, "model_type": "evil"}))
    return f"{path.name}: {how}"


@seeds(200)
def test_a_changed_folder_gives_a_sound_policy_or_one_line(seed, targets, sound, tmp_path):
    rng = random.Random(seed)
    name = sorted(targets)[seed % len(targets)]
    folder, marker = copied(targets[name], tmp_path / "x"), tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    what = attack(folder, rng)
    before = tree(folder)
    stream = torch.get_rng_state()
    try:
        policy = load_policy(folder, device="cpu")
        rollouts = sampled(policy)
        policy.texts(rollouts)
        again = policy.token_logprobs(rollouts).logprobs
    except ValueError as error:
        check_error(error)
    else:
        assert rollouts.logprobs.isfinite().all() and again.isfinite().all(), what
        found = dict(policy.model.named_parameters())
        if "safetensors" not in what:
            lost = [n for n, p in sound[name].items() if not torch.equal(p, found[n])]
            assert lost == [], what
        assert all(p.isfinite().all() for p in found.values()), what
    assert tree(folder) == before, what
    assert not marker.exists() and "evil" not in sys.modules, what
    assert torch.equal(torch.get_rng_state(), stream), what


# --- H3, H4: tensors that are missing, unexpected, of another shape, or not finite ----------------


def without(part):
    return lambda found: {n: x for n, x in found.items() if part not in n}


def with_one(value):
    def spoil(found):
        name = sorted(found)[len(found) // 2]
        found[name].view(-1)[-1] = value
        return found

    return spoil


def with_another_shape(found):
    name = sorted(found)[1]
    return found | {name: torch.zeros(found[name].shape[0], 7)}


SPOILED = {
    "a layer's MLP": (without("layers.1.mlp"), r"tensors missing \(first '.*layers\.1\.mlp"),
    "one more": (lambda x: x | {"zz.weight": torch.ones(2)}, r"1 tensor unexpected \(first 'zz"),
    "NaN": (with_one(float("nan")), r"1 tensor not finite \(first '"),
    "infinity": (with_one(float("-inf")), r"1 tensor not finite \(first '"),
    "all": (lambda x: {}, "."),
}


@pytest.mark.parametrize("which", [*SPOILED, "the head", "shape"])
def test_h4_an_incomplete_base_model_is_refused(which, tmp_path):
    folder = tiny_model(tmp_path / "base", tied=False)
    more = {
        "the head": (without("lm_head"), r"1 tensor missing \(first 'lm_head\.weight'"),
        "shape": (with_another_shape, r"1 tensor of another shape \(first 'model\.embed"),
    }
    change, said = (SPOILED | more)[which]
    load_policy(folder, device="cpu")
    found = load_file(folder / ONE)
    save_file(change(found), folder / ONE, metadata={"format": "pt"})
    refused(folder, said)


@pytest.mark.parametrize("which", [*SPOILED, "half", "shape"])
def test_h3_an_incomplete_adapter_is_refused(which, words, tmp_path):
    folder = trained(words, tmp_path / "adapter")
    more = {
        "half": (without("lora_B"), r"14 tensors missing \(first '.*lora_B"),
        "shape": (with_another_shape, "size mismatch"),
    }
    change, said = (SPOILED | more)[which]
    save_file(change(load_file(folder / ADAPTER)), folder / ADAPTER, metadata={"format": "pt"})
    assert re.match(
        f"{re.escape(str(folder))}: this adapter cannot be loaded: ", str(refused(folder, said))
    )


@pytest.mark.parametrize("kind", [LlamaForCausalLM, Qwen2ForCausalLM])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_sound_models_load_tied_or_not_whole_or_in_shards(kind, tied, sharded, tmp_path):
    folder = tiny_model(tmp_path / "a", kind, tied)
    if sharded:
        model = AutoModelForCausalLM.from_pretrained(folder)
        (folder / ONE).unlink()
        with quiet():
            model.save_pretrained(folder, max_shard_size="20KB")
        assert len(weights.weight_files(folder)) > 1
    policy = load_policy(folder, device="cpu")
    expected = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    found = policy.model.get_base_model().state_dict()
    assert {n.replace(".base_layer", "") for n in found if "lora_" not in n} == set(expected)
    for name, x in found.items():
        if "lora_" not in name:
            assert torch.equal(x, expected[name.replace(".base_layer", "")])
    assert sampled(policy).logprobs.isfinite().all()


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj", "v_proj"]},
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {"target_modules": "all-linear", "use_dora": True, "rank_pattern": {"q_proj": 3}},
        {"target_modules": ["q_proj"], "bias": "all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("embeddings", ["auto", True])
def test_adapters_of_peft_itself_load(settings, embeddings, tmp_path):
    """They have no card of ours, and may hold layers of the base."""
    folder = tiny_model(tmp_path / "base", tied=False, attention_bias=True)
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(folder)
        whole = get_peft_model(model, LoraConfig(r=2, task_type="CAUSAL_LM", **settings))
        torch.manual_seed(2)
        for p in whole.parameters():
            if p.requires_grad:
                torch.nn.init.normal_(p, std=0.1)
        if embeddings is True:
            torch.nn.init.normal_(whole.get_input_embeddings().weight)
        whole.save_pretrained(tmp_path / "adapter", save_embedding_layers=embeddings)
    policy = load_policy(tmp_path / "adapter", device="cpu")
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        torch.testing.assert_close(policy.model(ids).logits, whole.eval()(ids).logits)
    if "modules_to_save" in settings:
        path = tmp_path / "adapter" / ADAPTER
        save_file(without("lm_head")(load_file(path)), path, metadata={"format": "pt"})
        refused(tmp_path / "adapter", "lm_head")


# --- H5: weights that are no safetensors ----------------------------------------------------------


class Evil:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth", "x.ckpt"])
def test_h5_pickled_weights_are_refused_by_name_and_never_read(name, words, tmp_path):
    folder, marker = copied(words, tmp_path / "base"), tmp_path / "ran"
    (folder / ONE).unlink()
    torch.save({"w": Evil(marker)}, folder / name)
    assert f"only pickled weights ('{name}')" in str(refused(folder, "save_pretrained"))
    with pytest.raises(ValueError, match="no weights") as caught:
        fingerprint(str(folder))
    check_error(caught.value)
    lora = trained(words, tmp_path / "adapter")
    (lora / ADAPTER).unlink()
    torch.save({"w": Evil(marker)}, lora / "adapter_model.bin")
    refused(lora, r"only pickled weights \('adapter_model\.bin'\)")
    (lora / "adapter_model.bin").unlink()
    refused(lora, r"adapter_model\.safetensors: is missing")
    assert not marker.exists()


def follow(error, monkeypatch, old, new=""):
    """Run the line of Python that a message offers as the cure."""
    line = re.search('python -c "(.*)"', str(error))[1]
    monkeypatch.chdir(Path(old).parent)
    with quiet():
        exec(line.replace("OLD", str(old)).replace("NEW", str(new)), {})


def test_h5_the_line_that_converts_pickled_weights_works(words, tmp_path, monkeypatch):
    folder = copied(words, tmp_path / "base")
    torch.save(load_file(folder / ONE), folder / "pytorch_model.bin")
    (folder / ONE).unlink()
    follow(refused(folder, "pickled"), monkeypatch, folder, tmp_path / "new")
    old, new = (load_policy(f, device="cpu").model.state_dict() for f in (words, tmp_path / "new"))
    assert all(torch.equal(x, new[name]) for name, x in old.items())
    lora = trained(words, tmp_path / "adapter")
    expected = load_policy(lora, device="cpu").model.state_dict()
    torch.save(load_file(lora / ADAPTER), lora / "adapter_model.bin")
    (lora / ADAPTER).unlink()
    follow(refused(lora, "pickled"), monkeypatch, lora / "adapter_model.bin")
    found = load_policy(lora, device="cpu").model.state_dict()
    assert all(torch.equal(x, found[name]) for name, x in expected.items())


def test_a_base_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    folder = tiny_model(tmp_path / "a")
    made, blake2b = [], hashlib.blake2b
    counted = SimpleNamespace(blake2b=lambda **how: made.append(1) or blake2b(**how))
    monkeypatch.setattr(adapter, "hashlib", counted)
    load_policy(str(folder), rank=2, device="cpu").save(tmp_path / "adapter")
    load_policy(str(tmp_path / "adapter"), device="cpu").save(tmp_path / "again")
    assert len(made) == 1
    save_file(with_one(0.5)(load_file(folder / ONE)), folder / ONE, metadata={"format": "pt"})
    card = json.loads((tmp_path / "again" / "policy.json").read_text())
    assert fingerprint(str(folder)) != card["fingerprint"] and len(made) == 2


def test_h5_the_fingerprint_covers_every_shard(tmp_path):
    folder = tiny_model(tmp_path / "a")
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / ONE).unlink()
    with quiet():
        model.save_pretrained(folder, max_shard_size="20KB")
    seen = {fingerprint(str(folder))}
    for path in weights.weight_files(folder):
        save_file(with_one(0.5)(load_file(path)), path, metadata={"format": "pt"})
        seen.add(fingerprint(str(folder)))
    assert len(seen) == 1 + len(weights.weight_files(folder)) > 2


@pytest.mark.parametrize(
    "shard",
    ["../secret.safetensors", "/tmp/x.safetensors", "a/b.safetensors", "model.bin", "", 5, None],
)
def test_shards_are_files_of_the_folder(shard, words, tmp_path):
    folder = copied(words, tmp_path / "base")
    (folder / ONE).rename(folder / "model-1.safetensors")
    index = folder / f"{ONE}.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": shard}}))
    refused(folder, r"model\.safetensors\.index\.json: field weight_map\.lm_head\.weight")
    index.write_text(json.dumps({"weight_map": {"x": "model-2.safetensors"}}))
    refused(folder, r"model-2\.safetensors: is missing")


# --- H6: code of the folder -----------------------------------------------------------------------


def with_code(folder, marker):
    """Make every loader of a folder want to run the folder's own code."""
    code = f"open({str(marker)!r}, 'w')\nfrom transformers import LlamaConfig as Evil\n"
    (folder / "evil.py").write_text(code)
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(code)
    names = ("Config", "ModelForCausalLM", "Tokenizer")
    edited(folder / "config.json", auto_map={f"Auto{n}": "evil.Evil" for n in names})
    edited(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]})
    return folder


@pytest.mark.slow
def test_h6_no_model_runs_its_own_code_though_the_user_says_yes(words, tmp_path):
    """A folder, and a model of the hub as its cache holds it; of a known kind and of its own."""
    marker, cache = tmp_path / "ran", tmp_path / "hub"
    models = []
    for kind in ("llama", "evil"):
        home = cache / f"models--some--{kind}"
        (home / "refs").mkdir(parents=True)
        (home / "refs" / "main").write_text("0" * 40)
        (home / "snapshots").mkdir()
        for folder in (tmp_path / kind, home / "snapshots" / ("0" * 40)):
            with_code(copied(words, folder), marker)
            edited(folder / "config.json", model_type=kind)
        models += [str(tmp_path / kind), f"some/{kind}"]
    told = """
import sys
from vpo_lite.policy.loading import load_policy
for model in sys.argv[1:]:
    try:
        print(load_policy(model, device="cpu").base)
    except ValueError as error:
        print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", told, *models],
        input="y\n" * 200,
        cwd=Path(vpo.__file__).parent.parent,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    known, of_its_own = done.stdout.splitlines()[:2], done.stdout.splitlines()[2:]
    assert known == models[:2]
    assert len(of_its_own) == 2 and all(x.startswith("refused: model") for x in of_its_own)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("config.json", {"attn_implementation": "someone/kernel"}, "would load code from the hub"),
        ("config.json", {"transformers_weights": "x.safetensors"}, "names other weights"),
        ("adapter_config.json", {"megatron_config": {"a": 1}}, "megatron_config"),
        ("adapter_config.json", {"alora_invocation_tokens": [3, 4]}, "behind these tokens only"),
    ],
)
def test_h6_settings_that_name_code_or_other_weights_are_refused(
    file, changes, said, words, tmp_path
):
    lora = trained(words, tmp_path / "adapter")
    folder = lora if file == "adapter_config.json" else copied(words, tmp_path / "base")
    edited(folder / file, **changes)
    refused(folder, said)


# --- cards ----------------------------------------------------------------------------------------


def test_a_card_that_names_an_adapter_is_one_line(words, tmp_path):
    first, second = trained(words, tmp_path / "a"), trained(words, tmp_path / "b")
    for named in (second, first, second / "nothing"):
        edited(first / "policy.json", base=str(named))
        said = "model .*is a trained adapter" if named.exists() else "its base .*which is not there"
        assert str(refused(first, said)).startswith(f"{first}: this adapter cannot be loaded: ")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"base": 5}, "base"),
        ({"base": ""}, "base"),
        ({"base": "x" * 5000}, "model"),
        ({"dtype": "float16"}, "dtype"),
        ({"load_in": "3bit"}, "load_in"),
        ({"fingerprint": 7}, "fingerprint"),
        ({"fingerprint": "0" * 32}, "other parameters than those of"),
        ({"code": "x"}, "code"),
    ],
    ids=str,
)
def test_a_card_has_known_fields_of_known_types(changes, field, words, tmp_path):
    folder = trained(words, tmp_path / "a")
    edited(folder / "policy.json", **changes)
    refused(folder, field)


@pytest.mark.parametrize("value", [*NASTY[:1], 5, "x", [], {"task": "maze"}, {"answers": 10}])
def test_what_a_pocket_policy_says_of_itself_is_checked(value, tiny_policy_folder, tmp_path):
    folder = copied(tiny_policy_folder, tmp_path / "a")
    found = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(found | {"vpo_pocket": value}))
    if value is None:  # a model that is asked in words
        assert shipped.description(folder) is None
        return
    refused(folder, r"config\.json: field vpo_pocket")
    with pytest.raises(ValueError, match="vpo_pocket"):
        vpo.TrainConfig.preset("demo", model=str(folder))


@pytest.mark.parametrize("board", ["gone", None, "6", 0, 6.0, [6]])
def test_a_pocket_policy_without_its_board_is_one_line(board, tiny_policy_folder, tmp_path):
    folder = copied(tiny_policy_folder, tmp_path / "a")
    pocket = {"task": "maze", "answers": 5, "budget": 60, "board": board}
    if board == "gone":
        del pocket["board"]
    edited(folder / "config.json", vpo_pocket=pocket)
    with pytest.raises(ValueError, match="board") as caught:
        vpo.TrainConfig.preset("demo", model=str(folder))
    check_error(caught.value)
    with pytest.raises(ValueError, match="board") as caught:
        pocket = load_policy(folder, device="cpu").pocket
        task = MazeTask()
        task.prompt(task.instance(0), 3, pocket=pocket)
    check_error(caught.value)


# --- broken folders, by name ----------------------------------------------------------------------

BROKEN = {
    "negative eps": ("config.json", {"rms_norm_eps": -1e3}, "no finite logits"),
    "null config": ("config.json", "null", r"config\.json: "),
    "list": ("config.json", "[]", r"config\.json: "),
    "no heads": ("config.json", {"num_attention_heads": 0}, "."),
    "huge": ("config.json", {"hidden_size": 10**9}, "asks for"),
    "layers": ("config.json", {"num_hidden_layers": 10**9}, "tensors in all"),
    "endless layers": ("config.json", {"num_hidden_layers": 1e300}, "tensors in all"),
    "vocabulary": ("config.json", {"vocab_size": 10**12}, "asks for"),
    "text": ("config.json", {"hidden_size": "x"}, "."),
    "theta": ("config.json", {"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, "."),
    "generation": ("generation_config.json", "[]", r"generation_config\.json"),
    "cut generation": ("generation_config.json", "{", r"generation_config\.json"),
    "eos outside": ("generation_config.json", {"eos_token_id": [1, 10**6]}, "1000000 ends a text"),
    "eos text": ("generation_config.json", {"eos_token_id": "x"}, "."),
    "tokenizer {}": ("tokenizer.json", "{}", "."),
    "no tokenizer": ("tokenizer.json", "", "."),
    "special": ("special_tokens_map.json", "[1]", r"special_tokens_map\.json"),
    "tokenizer's settings": ("tokenizer_config.json", "[1]", r"tokenizer_config\.json"),
    "other eos": ("tokenizer_config.json", {"eos_token": "<|new|>"}, "400 ends a text"),
    "pointer": (ONE, POINTER.decode(), "git lfs pull"),
    "empty weights": (ONE, "", "no whole safetensors file"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_folder_is_one_line(which, words, tmp_path):
    file, change, said = BROKEN[which]
    folder = copied(words, tmp_path / "base")
    if isinstance(change, dict):
        edited(folder / file, **change)
    else:
        (folder / file).write_text(change)
    assert "base" in str(refused(folder, said))  # the folder or a file of it is named


def test_a_cut_weight_file_is_one_line(words, tmp_path):
    folder = copied(words, tmp_path / "base")
    whole = (folder / ONE).read_bytes()
    for length in (7, 8, 100, len(whole) // 2, len(whole) - 1):
        (folder / ONE).write_bytes(whole[:length])
        refused(folder, rf"{ONE}: no whole safetensors file")


def test_a_model_that_nothing_ends_is_refused(words, tmp_path):
    folder = copied(words, tmp_path / "base")
    for file, name in (
        ("config.json", "eos_token_id"),
        ("generation_config.json", "eos_token_id"),
        ("tokenizer_config.json", "eos_token"),
    ):
        edited(folder / file, **{name: None})
    refused(folder, "no token ends a text")


@pytest.mark.parametrize(
    "template", ["{{ no.such.thing }}", "{% for", "{{ raise_exception('no') }}", "{{ 1 / 0 }}"]
)
def test_a_broken_chat_template_is_one_line(template, words, tmp_path):
    folder = copied(words, tmp_path / "base")
    for path in folder.glob("*.jinja"):
        assert path.read_text() == CHAT
        path.write_text(template)
    policy = load_policy(folder, device="cpu")
    with pytest.raises(ValueError, match="this model's chat template") as caught:
        policy.encode(Prompt.words("Go."))
    check_error(caught.value)


def test_a_folder_without_models_says_what_is_missing(words, tmp_path):
    refused(tmp_path, r"this folder has no config.json, so it holds no model")
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path, "holds no weights")
    (tmp_path / "adapter").mkdir()
    refused(tmp_path, "only a trained adapter")
    shutil.copyfile(words / ONE, tmp_path / "adapter" / ADAPTER)
    refused(tmp_path, r"this adapter cannot be loaded: .*adapter_config\.json: cannot be read")


# --- sizes ----------------------------------------------------------------------------------------


def with_total(monkeypatch, total):
    for module in (base, fresh):
        monkeypatch.setattr(module, "total_memory", lambda device: total)


def test_a_base_that_cannot_fit_is_refused_before_it_is_built(words, monkeypatch):
    numbers = sum(x.numel() for x in load_file(words / ONE).values())
    with_total(monkeypatch, 4 * numbers)
    with monkeypatch.context() as patch:
        patch.setattr(base, "_check_ids", lambda *_: pytest.fail("the model was built"))
        with_total(monkeypatch, 4 * numbers - 1)
        error = refused(words, "choose load_in 4bit, dtype bfloat16 or a smaller model")
        assert "1 MiB" in str(error)
        with_total(monkeypatch, 2 * numbers - 1)
        refused(words, "its parameters need", dtype="bfloat16")
    with_total(monkeypatch, 10**9)
    load_policy(words, device="cpu")


def test_a_fresh_adapter_that_cannot_fit_is_refused_before_it_is_built(words, monkeypatch):
    shape = load_policy(words, device="cpu", rank=3).model
    need = 4 * 4 * sum(p.numel() for n, p in shape.named_parameters() if "lora_" in n)
    monkeypatch.setattr(fresh, "total_memory", lambda device: need)
    load_policy(words, device="cpu", rank=3)
    monkeypatch.setattr(fresh, "total_memory", lambda device: need - 1)
    monkeypatch.setattr(fresh, "get_peft_model", lambda *_: pytest.fail("it was built"))
    refused(words, r"^rank = 3: the adapter and its optimizer need .* smaller rank$", rank=3)


@pytest.mark.parametrize("rank", [10**9, 2**63, 10**400])
def test_a_huge_rank_is_refused(rank, words, tmp_path):
    refused(words, "^rank = ", rank=rank)
    folder = trained(words, tmp_path / "a")
    edited(folder / "adapter_config.json", r=rank)
    refused(folder, r"adapter_config\.json: .*r\b")


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_limit_counts_and_its_page_cache_does_not(version, tmp_path, monkeypatch):
    """4 GiB in the outer group, 3 of them used, 2 of these files that can be given back."""
    gib = 2**30
    top = tmp_path / "memory" if version == 1 else tmp_path
    most, used, idle = (
        ("memory__limit_in_bytes", "memory__usage_in_bytes", "total_inactive_file")
        if version == 1
        else ("memory__max", "memory__current", "inactive_file")
    )
    stat = f"anon {gib}\n{idle} {2 * gib}\ninactive_anon 5\n"
    group(top / "job", **{most: str(4 * gib), used: str(3 * gib), "memory__stat": stat})
    inner = {most: "max" if version == 2 else str(2**63 - 4096), used: "5", "memory__stat": stat}
    group(top / "job" / "step", **inner)
    (tmp_path / "cgroup").write_text(
        "9:cpu:/job\n4:memory:/job/step\n0::/\n" if version == 1 else "0::/job/step\n"
    )
    monkeypatch.setattr(room, "GROUPS", tmp_path)
    monkeypatch.setattr(room, "OWN_GROUP", tmp_path / "cgroup")
    cpu = torch.device("cpu")
    assert room.total_memory(cpu) == 4 * gib
    held = room.available_memory(cpu) - 3 * gib  # what this process holds comes on top
    assert 2**26 < held < 2**34
    (tmp_path / "cgroup").unlink()
    assert room.total_memory(cpu) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# --- arguments ------------------------------------------------------------------------------------

NAMES = (None, "", "  ", "x" * 5000, "x" * 300, "a\0b", "\ud800", "a\nb", 5, 0.5, [], {}, b"pocket")


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_name_that_can_name_nothing_is_one_line(name):
    assert str(refused(name, "^model = ")).startswith("model = ")


ARGUMENTS = [
    *[("device", x) for x in (None, 5, "", "gpu", "cuda:99", [], "x" * 5000, torch.device("meta"))],
    *[("rank", x) for x in (None, 0, -1, 0.5, "16", True, [], float("nan"), float("inf"))],
    *[("lora_alpha", x) for x in (None, 0, -1, "32", True, [], float("nan"), 1e308, 10**400)],
    *[("seed", x) for x in ([{}, set()], {1, 2}, object(), float("nan"), b"x")],
    *[("dtype", x) for x in (None, "float16", 5, [], torch.float32, "x" * 5000)],
    *[("load_in", x) for x in ("3bit", 4, ["4bit"], True)],
    *[
        ("target_modules", x)
        for x in ("", ",", "q_prj", "q_proj,,v_proj", "lm_head", None, ["q"], "*")
    ],
    *[("gradient_checkpointing", x) for x in ("yes", None, 1, [], float("nan"))],
]


@pytest.mark.parametrize(("name", "value"), ARGUMENTS, ids=lambda x: ascii(x)[:20])
def test_an_argument_of_another_type_or_range_is_one_line(name, value, words):
    with pytest.raises(ValueError) as caught:
        load_policy(words, **{"device": "cpu", name: value})
    check_error(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("alpha", [np.int64(4), np.float32(0.5), np.array(4), Fraction(1, 2)])
def test_numbers_of_numpy_are_arguments_and_are_saved(alpha, words, tmp_path):
    given = dict(device=torch.device("cpu"), rank=np.int64(3), lora_alpha=alpha, seed=np.int64(5))
    policy = load_policy(words, gradient_checkpointing=np.bool_(True), **given)
    plain = load_policy(words, device="cpu", rank=3, lora_alpha=float(alpha), seed=5)
    policy.save(tmp_path / "a")
    found = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert (found["r"], found["lora_alpha"]) == (3, float(alpha))
    again = load_policy(tmp_path / "a", device=torch.device("cpu")).model.state_dict()
    assert all(torch.equal(x, again[name]) for name, x in plain.model.state_dict().items())
    assert policy.checkpointing is True


def test_loading_leaves_the_random_stream_alone(targets):
    for folder in targets.values():
        torch.manual_seed(7)
        expected = torch.rand(3)
        torch.manual_seed(7)
        load_policy(folder, device="cpu")
        assert torch.equal(torch.rand(3), expected)


def test_a_failed_save_leaves_the_older_adapter(words, tmp_path, monkeypatch):
    folder = trained(words, tmp_path / "a")
    before = tree(tmp_path)
    policy = load_policy(folder, device="cpu")
    monkeypatch.setattr(adapter, "write_json", mock.Mock(side_effect=OSError(28, "disk full")))
    with pytest.raises(OSError, match="disk full"):
        policy.save(folder)
    assert tree(tmp_path) == before


def test_saving_removes_nothing_but_an_older_adapter(words, tmp_path, monkeypatch):
    policy, work = load_policy(words, device="cpu"), tmp_path / "work"
    policy.save(work / "kept")
    (work / "thesis.txt").write_text("years of work")
    before = tree(tmp_path)
    monkeypatch.chdir(work)
    file = "kept/adapter_model.safetensors"  # a file, where a folder is asked for
    for path in (work, work / "thesis.txt", ".", "kept/..", file):
        with pytest.raises(
            ValueError, match="which saving an adapter there would remove"
        ) as caught:
            policy.save(path)
        check_error(caught.value)
        assert tree(tmp_path) == before


def test_an_adapter_is_saved_where_a_link_leads(words, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "disk", target_is_directory=True)
    for _ in range(2):
        trained(words, tmp_path / "a")
    assert (tmp_path / "a").is_symlink() and len(list((tmp_path / "disk").iterdir())) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "disk"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(
    ("umask", "of_folder", "of_files"), [(0o027, 0o750, 0o640), (0o002, 0o775, 0o664)]
)
def test_an_adapter_has_the_permissions_of_the_umask(umask, of_folder, of_files, words, tmp_path):
    before = os.umask(umask)
    try:
        for _ in range(2):  # a new one, and one in the place of an older one
            folder = trained(words, tmp_path / "a")
            assert folder.stat().st_mode & 0o777 == of_folder
            found = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
            assert found == dict.fromkeys((ADAPTER, "adapter_config.json", "policy.json"), of_files)
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# --- tokens without a row in the embedding --------------------------------------------------------


def test_the_tokenizer_of_another_model_is_refused(tiny_policy_folder, tmp_path):
    folder = copied(tiny_policy_folder, tmp_path / "a")
    word_tokenizer(MazeRecipe(layout="paper-9x9").vocabulary()).save_pretrained(folder)
    refused(folder, "belong to different models")


def test_tokens_beyond_the_embedding_are_refused_only_where_they_are_fed(tmp_path):
    folder = tiny_model(tmp_path / "a", chat=False)
    expected = sampled(load_policy(folder, device="cpu"))
    tokenizer = byte_tokenizer(False)
    count = len(tokenizer)
    tokenizer.add_tokens(["<think>"])
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(folder)
    policy = load_policy(folder, device="cpu")
    assert policy.tokenizer.pad_token_id == count + 1 and policy.pad_id == policy.eos_ids.pop()
    assert torch.equal(sampled(policy).tokens, expected.tokens)
    two = [Prompt.words("Go."), Prompt.words("Go on now.")]  # of two lengths: one is padded
    rollouts = policy.sample(two, np.random.default_rng(0).random((2, 2, 5)))
    assert policy.token_logprobs(rollouts).logprobs.isfinite().all()
    with pytest.raises(
        ValueError, match="the token '<think>', which the model does not embed"
    ) as caught:
        policy.encode(Prompt.words("Go <think> on."))
    check_error(caught.value)
    assert "cure: model.resize_token_embeddings(len(tokenizer))" in str(caught.value)
    with quiet():  # the cure
        model = AutoModelForCausalLM.from_pretrained(folder)
        model.resize_token_embeddings(len(tokenizer))
        model.save_pretrained(folder)
    policy = load_policy(folder, device="cpu")
    assert policy.pad_id == count + 1 and count in policy.encode(Prompt.words("Go <think> on."))


@pytest.mark.parametrize(("added", "loads"), [(44, True), (45, False)])
def test_more_than_a_tenth_of_such_tokens_belongs_to_another_model(added, loads, tmp_path):
    folder = tiny_model(tmp_path / "a")
    tokenizer = byte_tokenizer(True)
    assert len(tokenizer) == 400  # a tenth of 444 is 44.4, of 445 it is 44.5
    tokenizer.add_tokens([f"<t{i}>" for i in range(added)])
    tokenizer.save_pretrained(folder)
    if loads:
        load_policy(folder, device="cpu")
    else:
        refused(folder, "belong to different models")


# --- tensors that are no parameters of the model --------------------------------------------------

SMALL = dict(zip(SIZES, (16, 24, 2, 2, 1, 400), strict=True))
SMALL |= dict(bos_token_id=None, pad_token_id=None)
OLD = {
    "gpt2": (
        GPT2Config(vocab_size=400, n_embd=16, n_layer=2, n_head=2, n_positions=64),
        "transformer.h.0.attn",
    ),
    "gpt_neo": (
        GPTNeoConfig(
            vocab_size=400,
            hidden_size=16,
            num_layers=2,
            num_heads=2,
            attention_types=[[["global", "local"], 1]],
        ),
        "transformer.h.1.attn.attention",
    ),
    "llama": (LlamaConfig(**SMALL), "model.layers.0.self_attn"),
}


def in_a_folder(config, path):
    """A random model of this config, with the tokenizer of all models here."""
    tokenizer = byte_tokenizer(True)
    config.eos_token_id = tokenizer.eos_token_id
    torch.manual_seed(0)
    with quiet():
        AutoModelForCausalLM.from_config(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def with_more(folder, more):
    save_file(load_file(folder / ONE) | more, folder / ONE, metadata={"format": "pt"})


@pytest.mark.parametrize("kind", OLD)
def test_constants_that_older_versions_saved_are_left_out(kind, tmp_path):
    config, attention = OLD[kind]
    folder = in_a_folder(config, tmp_path / "a")
    expected = load_policy(folder, device="cpu").model.state_dict()
    constants = {
        f"{attention}.bias": torch.ones(1, 1, 64, 64, dtype=torch.uint8).tril(),
        f"{attention}.masked_bias": torch.tensor(-1e4),
    }
    if kind == "llama":
        constants = {f"{attention}.rotary_emb.inv_freq": torch.ones(4)}
    with_more(folder, constants)
    found = load_policy(folder, device="cpu").model.state_dict()
    assert all(torch.equal(x, found[name]) for name, x in expected.items())
    assert found.keys() == expected.keys()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.0.attention.bias", (16,)),  # a bias that this model lacks, no mask
        ("model.layers.0.attn.bias", (16,)),
        ("model.layers.0.self_attn.q_proj.bias", (16,)),
        ("model.layers.0.c_attn.bias", (1, 1, 4, 4)),
        ("model.layers.0.masked_bias", (16,)),
        ("model.layers.0.inv_freq", (4,)),
        ("v_head.summary.weight", (1, 16)),
    ],
)
def test_other_tensors_are_refused_by_name_with_a_cure_that_works(
    name, shape, words, tmp_path, monkeypatch
):
    folder = copied(words, tmp_path / "old")
    with_more(folder, {name: torch.ones(shape)})
    error = refused(folder, rf"1 tensor unexpected \(first '{re.escape(name)}'\); .*value head")
    follow(error, monkeypatch, folder, tmp_path / "new")
    old, new = (load_policy(f, device="cpu").model.state_dict() for f in (words, tmp_path / "new"))
    assert all(torch.equal(x, new[name]) for name, x in old.items())


# --- caches of other kinds ------------------------------------------------------------------------

MAMBA = dict(mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8)
HYBRIDS = {
    "lfm2": lambda: Lfm2Config(**SMALL, layer_types=["conv", "full_attention"]),
    "bamba": lambda: BambaConfig(**SMALL, **MAMBA, attn_layer_indices=[1]),
    "granite": lambda: GraniteMoeHybridConfig(
        **SMALL,
        **MAMBA,
        shared_intermediate_size=24,
        layer_types=["mamba", "attention"],
        num_local_experts=0,
        num_experts_per_tok=0,
    ),
}


@pytest.mark.parametrize("kind", HYBRIDS)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_hybrid_models_are_sampled_as_whole_rows_say_and_can_be_trained(
    kind, checkpointing, tmp_path, monkeypatch
):
    folder = in_a_folder(HYBRIDS[kind](), tmp_path / "a")
    policy = load_policy(folder, device="cpu", gradient_checkpointing=checkpointing)
    for name, p in policy.model.named_parameters():
        if p.dim() > 1:  # large enough that every prompt and token matters
            torch.nn.init.normal_(p, std=0.3 if "lora_" not in name else 0.05)
    two = [Prompt.words("Go."), Prompt.words("Go on now.")]
    uniforms, kept = np.random.default_rng(0).random((2, 3, 6)), []
    uniforms[0, :, 2:] = np.nan  # the rows of the first prompt leave the batch
    with monkeypatch.context() as patch:
        keep = HFForward.keep
        patch.setattr(HFForward, "keep", lambda f, *rows: kept.append(rows) or keep(f, *rows))
        rollouts = policy.sample(two, uniforms)
    assert kept and rollouts.mask.sum(1).max() > 2
    for i, (tokens, mask) in enumerate(zip(rollouts.tokens, rollouts.mask, strict=True)):
        ids, tokens = policy.encode(two[i // 3]), tokens[mask]
        with torch.no_grad():  # one row, without padding and cache
            row = torch.tensor([[*ids, *tokens.tolist()]])
            logits = policy.model(input_ids=row, use_cache=False).logits[0, len(ids) - 1 : -1]
        expected = torch.log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]
        torch.testing.assert_close(rollouts.logprobs[i][mask], expected, atol=1e-4, rtol=0)
    logp = policy.token_logprobs(rollouts).logprobs
    torch.testing.assert_close(
        logp[rollouts.mask], rollouts.logprobs[rollouts.mask], atol=1e-4, rtol=0
    )
    logp[rollouts.mask].sum().backward()
    grads = [p.grad for p in policy.model.parameters() if p.requires_grad]
    assert grads and all(g is not None and g.isfinite().all() for g in grads)
    assert any(g.abs().max() > 0 for g in grads)


NO_CACHE = {
    "rwkv": lambda: RwkvConfig(vocab_size=400, hidden_size=16, num_hidden_layers=2),
    "minimax": lambda: MiniMaxConfig(
        **SMALL,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        num_local_experts=2,
        num_experts_per_tok=1,
    ),
}


@pytest.mark.parametrize("kind", NO_CACHE)
def test_a_model_that_cannot_be_sampled_is_refused_when_it_is_loaded(kind, tmp_path, capsys):
    folder = in_a_folder(NO_CACHE[kind](), tmp_path / "a")
    refused(folder, "keeps no cache that sampling can use .*choose another model")
    out = tmp_path / "run"
    assert main(["train", "--model", str(folder), "--out", str(out), "--device", "cpu"]) == 2
    assert "keeps no cache" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("config", [BertConfig, RobertaConfig])
def test_a_model_that_counts_positions_from_its_padding_is_refused(config, tmp_path):
    """BERT as a decoder counts from 0; RoBERTa counts from pad_token_id + 1."""
    made = config(**SMALL | {"pad_token_id": 1}, is_decoder=True, max_position_embeddings=64)
    folder = in_a_folder(made, tmp_path / "a")
    if config is BertConfig:
        assert vpo.load_policy(folder).positions == 64
    else:
        refused(folder, "RobertaForCausalLM does not count its positions from 0")


def test_a_tokenizer_that_a_full_disk_cuts_is_an_error_of_a_file(tmp_path):
    tokenizer, said = byte_tokenizer(chat=True).backend_tokenizer, f"be written: .*({TOO_LARGE})"
    with full_disk(100), pytest.raises(OSError, match=said), weights.writing("place"):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(KeyError), weights.writing("place"):  # a mistake of ours stays one
        raise KeyError


def test_an_error_of_a_full_disk_names_a_place(tmp_path):
    """Python's own names no file: a run said "a file cannot be written"."""
    with full_disk(100), pytest.raises(OSError) as full, weights.writing(tmp_path):
        (tmp_path / "x").write_text("x" * 200)
    assert of_a_file(full.value) == f"{tmp_path}: File too large"
    for other in (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), OSError("x")):
        with pytest.raises(OSError) as same, weights.writing(tmp_path):
            raise other
        assert same.value is other
    with pytest.raises(FileNotFoundError, match="no/x"), weights.writing("place"):
        (tmp_path / "no" / "x").write_text("x")


# --- a save that is killed, and two at once -------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from vpo_lite.policy.adapter import replace_folder

rename, seen = os.rename, []

def killed(*paths, **how):
    seen.append(paths)
    if len(seen) == 2:
        os._exit(9)
    rename(*paths, **how)

os.rename = killed
replace_folder(*map(Path, sys.argv[1:]))
"""


class Kill(BaseException):
    pass


def is_trained(path):
    """Whether `load_policy` finds the adapter of `trained` there: in a new one B is 0."""
    named = load_policy(path, device="cpu").model.named_parameters()
    return any(p.any().item() for name, p in named if "lora_B" in name)


@pytest.fixture
def new(words):
    return load_policy(words, device="cpu", rank=2)


@pytest.fixture
def at_second_rename(monkeypatch):
    """Do this before the second rename from now on: the new adapter's, onto its path."""

    def install(act):
        rename, seen = os.rename, []

        def watched(*paths, **how):
            seen.append(paths)
            if len(seen) == 2:
                act()
            return rename(*paths, **how)

        monkeypatch.setattr(os, "rename", watched)

    return install


@pytest.mark.long
def test_an_adapter_outlives_a_process_that_is_killed_between_two_renames(words, tmp_path, new):
    path, made = trained(words, tmp_path / "work" / "a"), tmp_path / "made" / "a"
    new.save(made)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(made), str(path)], timeout=200)
    assert ended.returncode == 9 and not path.exists() and made.exists()
    assert is_trained(path)
    new.save(path)
    assert not is_trained(path)
    assert [p.name for p in path.parent.iterdir()] == ["a"]


@pytest.mark.parametrize("given", ["the path", "its run", "a link", "nothing: it is saved again"])
def test_the_adapter_of_a_killed_save_is_found_however_it_is_named(
    words, tmp_path, new, monkeypatch, at_second_rename, given
):
    path = trained(words, tmp_path / "run" / "adapter")
    (tmp_path / "link").symlink_to(path, target_is_directory=True)
    at_second_rename(mock.Mock(side_effect=Kill))
    with pytest.raises(Kill):
        new.save(path)
    monkeypatch.undo()
    assert not path.exists()
    named = {"the path": path, "its run": path.parent, "a link": tmp_path / "link"}
    if given in named:
        assert is_trained(named[given]) and path.is_dir()
    new.save(path)
    assert not is_trained(path) and [p.name for p in path.parent.iterdir()] == ["adapter"]


def test_a_save_that_cannot_rename_leaves_the_older_adapter(words, tmp_path, new, monkeypatch):
    path, rename = trained(words, tmp_path / "a"), os.rename
    before = tree(tmp_path)

    def no_new(source, target, **how):
        if Path(source).name == "a" and Path(source) != path:
            raise OSError(13, "Permission denied")
        rename(source, target, **how)

    monkeypatch.setattr(os, "rename", no_new)
    with pytest.raises(OSError, match="Permission denied"):
        new.save(path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("other", ["saves", "loads"])
def test_a_save_ends_though_another_process_comes_between_its_renames(
    words, tmp_path, new, monkeypatch, at_second_rename, other
):
    """The last one stays, and nothing is left of the other."""
    path, between = trained(words, tmp_path / "a"), load_policy(words, device="cpu", rank=3)
    before = os.rename

    def act():
        monkeypatch.setattr(os, "rename", before)
        assert between.save(path) if other == "saves" else is_trained(path)

    at_second_rename(act)
    new.save(path)
    assert json.loads((path / "adapter_config.json").read_text())["r"] == 2
    assert not is_trained(path) and [p.name for p in tmp_path.iterdir()] == ["a"]


def test_nothing_but_an_adapter_takes_the_place_of_one_and_only_where_there_is_none(
    words, tmp_path, new
):
    path, old = tmp_path / "a", tmp_path / ".a-old"
    old.mkdir()
    (old / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="a"):
        load_policy(path, device="cpu")
    assert [p.name for p in tmp_path.iterdir()] == [".a-old"]
    shutil.rmtree(old)
    new.save(path)
    trained(words, tmp_path / "b").rename(old)  # killed before it was removed
    assert not is_trained(path) and old.exists()
    new.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
