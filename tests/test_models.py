"""Any Hugging Face causal LM takes the pocket policy's place: random Qwen- and Llama-style folders
made here.
"""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from small_models import (
    THINKS,
    byte_tokenizer,
    config_of,
    ending_tokenizer,
    metaspace_tokenizer,
    model_folder,
)
from transformers import LlamaForCausalLM, Qwen2ForCausalLM

import envs
import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.policy import base, hub, loading
from vpo_lite.policy.decoder import DecoderView
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.sampling import Rollouts
from vpo_lite.policy.tokenizer import encode
from vpo_lite.tasks.base import Prompt
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.training.compare import _settings
from vpo_lite.training.finished import Finished
from vpo_lite.training.learner import Learner
from vpo_lite.training.schemas import Engine

ASKED = [Prompt.words("Go."), Prompt.words("Go on now.")]


@pytest.fixture(
    scope="module", params=["qwen2 with a chat template", "llama without one, no pad token"]
)
def folder(request, tmp_path_factory):
    chat = "chat" in request.param and "qwen" in request.param
    kind = Qwen2ForCausalLM if chat else LlamaForCausalLM
    path = tmp_path_factory.mktemp("hub") / ("qwen" if chat else "llama")
    return model_folder(path, byte_tokenizer(chat), 32, 48, 2, 4, 2, kind=kind)


def test_it_is_asked_in_words_through_its_chat_template(folder):
    policy = load_policy(folder, device="cpu")
    assert policy.pocket is None
    task = MazeTask()
    prompt = task.prompt(task.instance(0), 3)
    text = policy.tokenizer.decode(policy.encode(prompt))
    assert prompt.text in text
    assert ("<|im_start|>assistant" in text) == (policy.tokenizer.chat_template is not None)
    assert "<route_3>" in text


CONVERSATION = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which way?"},
    {"role": "assistant", "content": "Left."},
    {"role": "user", "content": "And then?"},
)


def test_all_turns_of_a_conversation_are_read_in_order(folder):
    tokenizer = load_policy(folder, device="cpu").tokenizer
    text = tokenizer.decode(encode(tokenizer, Prompt(messages=CONVERSATION)))
    if tokenizer.chat_template:
        assert text == (
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nWhich way?<|im_end|>\n"
            "<|im_start|>assistant\nLeft.<|im_end|>\n"
            "<|im_start|>user\nAnd then?<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
    else:
        assert text == "Be brief.\n\nWhich way?\n\nLeft.\n\nAnd then?\n"


def test_a_model_that_thinks_is_told_not_to():
    tokenizer = byte_tokenizer(chat=True)
    tokenizer.chat_template = THINKS
    assert tokenizer.decode(encode(tokenizer, Prompt.words("Which way?"))) == (
        "<|im_start|>user\nWhich way?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_the_tokens_of_a_prefix_stand_last(folder):
    tokenizer = load_policy(folder, device="cpu").tokenizer
    prefix = "<answer_1> left"
    whole = encode(tokenizer, Prompt(messages=CONVERSATION, prefix=prefix))
    begin = encode(tokenizer, Prompt(messages=CONVERSATION))
    end = tokenizer(prefix, add_special_tokens=False)["input_ids"]
    assert len(end) > 0 and whole == begin + end


def assert_goes_on_alike(policy, prompt, tokens: int, given: int):
    """Rollouts, and rollouts that get the first tokens of each as a prefix and the uniforms left
    over: the rest is the same."""
    uniforms = np.random.default_rng(3).random((1, 6, tokens))
    whole = policy.sample([prompt], uniforms)
    prefixes = [policy.tokenizer.decode(row[:given]) for row in whole.tokens]
    again = [Prompt(prompt.messages, prompt.symbols, prefix) for prefix in prefixes]
    begin = policy.encode(prompt)
    for row, more in zip(whole.tokens.tolist(), again, strict=True):
        assert policy.encode(more) == begin + row[:given]
    rest = policy.sample(again, uniforms[0, :, None, given:])
    assert rest.tokens.tolist() == whole.tokens[:, given:].tolist()
    assert rest.mask.tolist() == whole.mask[:, given:].tolist()
    assert torch.allclose(rest.logprobs, whole.logprobs[:, given:], atol=1e-4)
    assert len({tuple(row) for row in rest.tokens.tolist()}) > 1
    blank = " " if prompt.symbols else ""
    joined = [p + blank + text for p, text in zip(prefixes, policy.texts(rest), strict=True)]
    assert joined == policy.texts(whole)
    assert policy.texts(rest, again) == policy.texts(rest)


@pytest.mark.slow
def test_a_completion_goes_on_from_its_prefix_in_words(folder, monkeypatch):
    """A text need not be cut into the tokens that it was drawn in. Here it is: only signs that the
    tokenizer never merges can be drawn."""
    policy = load_policy(folder, device="cpu")
    signs = policy.tokenizer("~^@!$%&", add_special_tokens=False)["input_ids"]
    assert len(signs) == 7
    others = torch.full((len(policy.tokenizer),), -100.0)
    others[signs] = 0
    monkeypatch.setattr(DecoderView, "knows", staticmethod(lambda model: False))
    head = policy.model.get_base_model().get_output_embeddings()
    head.register_forward_hook(lambda module, inputs, logits: logits + others)
    assert_goes_on_alike(policy, ASKED[0], tokens=9, given=4)


@pytest.mark.slow
def test_a_completion_goes_on_from_its_prefix_in_symbols():
    policy, task = load_policy("pocket-6x6", device="cpu"), MazeTask()
    prompt = task.prompt(task.instance(0), 3, pocket=policy.pocket)
    assert_goes_on_alike(policy, prompt, tokens=30, given=5)


def test_the_blank_between_a_prefix_and_its_completion_is_read(tmp_path):
    """Llama-2's tokenizer drops the blank before the first word that it decodes."""
    tokenizer = metaspace_tokenizer()
    policy = load_policy(model_folder(tmp_path, tokenizer, 32, 48, 2, 4, 2), device="cpu")
    prefixes, rest = ["<program_1> inc", "", "<program_1>"], " dbl neg </program_1>"
    prompts = [replace(Prompt.words("hi"), prefix=prefix) for prefix in prefixes]
    rows = []
    for prefix in prefixes:
        whole, begun = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (prefix + rest, prefix)
        )
        assert whole[: len(begun)] == begun
        rows.append([*whole[len(begun) :], tokenizer.eos_token_id])
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True)
    mask = torch.arange(tokens.shape[1]) < torch.tensor([[len(row)] for row in rows])
    nothing = torch.zeros(3, 1, dtype=torch.long)
    rollouts = Rollouts(
        nothing, nothing == 0, torch.arange(3), tokens, mask, 0.0 * tokens, nothing[:, 0] > 0
    )
    texts = policy.texts(rollouts, prompts)
    assert texts == [rest, rest.strip(), rest]


def test_a_prompt_does_not_end_with_the_end():
    """Some tokenizers append EOS to each text. A policy would be asked to write after the end."""
    ends, plain = ending_tokenizer(), byte_tokenizer(chat=False)
    assert ends("Go.\n")["input_ids"] == [*plain("Go.\n")["input_ids"], ends.eos_token_id]
    for prompt in (*ASKED, replace(ASKED[0], prefix="So")):
        assert encode(ends, prompt) == encode(plain, prompt)


def test_a_policy_shows_itself_in_a_line():
    """A cell that ended with one printed all its layers."""
    shown = repr(load_policy("pocket-6x6", device="cpu"))
    assert shown.startswith("Policy(base='pocket-6x6', ") and len(shown) < 200


def test_symbols_are_words_behind_a_bos_and_unknown_ones_are_named():
    policy = load_policy("pocket-6x6", device="cpu")
    known = policy.tokenizer.get_vocab()
    prompt = Prompt(symbols="<m2>  a1S", prefix="<route_1> a2")
    words = ["<bos>", "<m2>", "a1S", "<route_1>", "a2"]
    assert policy.encode(prompt) == [known[word] for word in words]
    for wrong in (Prompt(symbols="<m2> zz <m9>"), Prompt(symbols="<m2>", prefix="<m9> zz")):
        with pytest.raises(ValueError, match=r"^this policy has no token for: <m9>, zz$"):
            policy.encode(wrong)
    with pytest.raises(ValueError, match=r"no token for: n0, n1, n2, n3, n4, \.\.\.$"):
        policy.encode(Prompt(symbols=" ".join(f"n{i}" for i in range(6))))


def test_what_it_writes_comes_back_as_it_was(folder):
    policy = load_policy(folder, device="cpu")
    answer = "<route_1> UP RIGHT </route_1> <route_2> DOWN </route_2>"
    ids = policy.tokenizer(answer, add_special_tokens=False)["input_ids"]
    assert MazeTask().parse(envs.generate("lite-6x6", 0), policy.tokenizer.decode(ids), 2) == [
        "UR",
        "D",
    ]
    rollouts = policy.sample([Prompt.words("Write.")], np.random.default_rng(0).random((1, 4, 12)))
    assert len(policy.texts(rollouts)) == 4
    ends = {policy.tokenizer.eos_token_id}
    for row, mask in zip(rollouts.tokens.tolist(), rollouts.mask.tolist(), strict=True):
        assert not ends & set(row[: sum(mask) - 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompts", "shape", "how", "said"),
    [
        ("Write.", (1, 2, 3), {}, "prompts holds the text 'Write.': expected a list of Prompt"),
        (["Write."], (1, 2, 3), {}, "prompts holds the text 'Write.': expected a list of Prompt"),
        ([], (1, 2, 3), {}, "prompts is empty"),
        (1, (1, 3), {}, r"uniforms of shape \(1, 3\) for 1 prompts: expected an array \(P, G, T\)"),
        (2, (1, 2, 3), {}, r"uniforms of shape \(1, 2, 3\) for 2 prompts"),
        (1, (1, 2, 0), {}, r"uniforms of shape \(1, 2, 0\)"),
        (1, (1, 2, 3), {"temperature": 0}, "temperature = 0: expected a number of at least 1e-6"),
        (1, (1, 2, 3), {"dtype": "half"}, "dtype = 'half': expected one of auto"),
        (1, (1, 2, 3), {"at_once": 0}, "at_once = 0: expected a whole number of at least 1"),
        (1, (1, 2, 3), {"stop": "no such token"}, "stop = 'no such token': is no token"),
    ],
)
def test_what_cannot_be_sampled_is_said_in_one_line(prompts, shape, how, said):
    policy = load_policy("pocket-6x6", device="cpu")
    for odd in (np.nan, 1.0, -0.1):
        with pytest.raises(ValueError, match=r"^uniforms has .*: expected at least 0 and below 1"):
            policy.sample([Prompt.words("Write.")], np.full((1, 2, 3), odd))
    if isinstance(prompts, int):
        prompts = [Prompt.words("Write.")] * prompts
    with pytest.raises(ValueError, match=said):
        policy.sample(prompts, np.zeros(shape), **how)


def train(model, out, flags: str) -> int:
    """`vpo-lite train` on one small maze."""
    settings = "--layout tiny-4x4 --maze-seed 3 --device cpu --json"
    folders = ["--model", str(model), "--out", str(out)]
    return main(["train", *folders, *settings.split(), *flags.split()])


@pytest.mark.slow
def test_it_trains_from_the_command_line(folder, tmp_path, capsys):
    out = tmp_path / "run"
    assert train(folder, out, "--steps 2 --prompts 2 --group-size 4 --max-new-tokens 12") == 0
    captured = capsys.readouterr()
    # Said before training, as nothing can be learned from it.
    unread, cut = (line for line in captured.err.splitlines() if "before training" in line)
    for words in ("0.0% of the answers", "nothing to reinforce yet", "max_new_tokens (12"):
        assert words in unread
    assert "cut off at the token limit (12)" in cut
    summary = json.loads(captured.out)
    # It has never seen a maze: every answer gets the worst vector, none is dropped.
    assert summary["parse_rate"] == 0
    assert summary["coverage"] == 0
    assert load_policy(out, device="cpu").base == str(folder)


@pytest.mark.slow
def test_its_number_type_comes_from_the_command_line_and_stays_with_the_run(
    folder, tmp_path, capsys
):
    out = tmp_path / "run"
    settings = "--steps 1 --prompts 1 --group-size 3 --max-new-tokens 8"
    assert train(folder, out, f"{settings} --dtype bfloat16 --gradient-checkpointing") == 0
    config = json.loads((out / "config.json").read_text())
    assert (config["dtype"], config["gradient_checkpointing"], config["load_in"]) == (
        "bfloat16",
        True,
        None,
    )
    assert numbers(load_policy(out, device="cpu")) == ({torch.bfloat16}, {torch.float32})
    assert json.loads(capsys.readouterr().out)["parse_rate"] == 0
    assert main(["evaluate", str(out), "--device", "cpu", "--json"]) == 0


def test_a_larger_maze_is_no_hindrance_in_words(folder):
    config = vpo.TrainConfig.preset(
        "demo",
        model=str(folder),
        layout="paper-9x9",
        maze_seed=1,
        steps=1,
        prompts=1,
        group_size=2,
        max_new_tokens=4,
        device="cpu",
    )
    (record,) = vpo.train(config)
    assert record.silent_groups == 1  # no answer parses: all alike, advantage 0


@pytest.mark.parametrize("reached", [True, False])
def test_why_a_model_of_the_hub_is_not_to_be_had(reached, monkeypatch):
    def refused(name, **_):
        raise OSError("403 Client Error.\n\nAccess to model someone/gated is restricted.")

    monkeypatch.setattr(hub, "hub_in_reach", lambda: reached)
    monkeypatch.setattr(hub, "snapshot_download", refused)
    why = "403 Client Error. *Access to model someone/gated is restricted"
    with pytest.raises(ValueError, match=why if reached else "the hub cannot be reached") as found:
        load_policy("someone/gated", device="cpu")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("proxies", "by_itself", "reached"),
    [
        ({}, False, False),
        ({"https": "http://proxy:3128"}, False, True),
        ({"https": "http://proxy:3128"}, True, False),
        ({"ftp": "http://proxy:3128"}, False, False),
    ],
)
def test_behind_a_proxy_the_hub_is_asked_though_no_name_resolves(
    proxies, by_itself, reached, monkeypatch
):
    """As in companies and on clusters: there no model was downloaded."""

    def unknown(*_):
        raise OSError

    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.socket, "getaddrinfo", unknown)
    monkeypatch.setattr(hub, "getproxies", lambda: proxies)
    monkeypatch.setattr(hub, "proxy_bypass", lambda host: by_itself)
    assert hub.hub_in_reach() == reached


def test_of_a_hub_model_one_copy_of_the_weights_is_downloaded(monkeypatch):
    read = ["config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"]
    read += ["tokenizer.json", "tokenizer.model", "chat_template.jinja"]
    again = ["consolidated.safetensors", "consolidated-00001-of-00002.safetensors"]
    again += ["original/tokenizer.model", "onnx/model.safetensors", "onnx/config.json"]
    asked = []

    def listed(name, revision, local_files_only, **chosen):
        asked.append(sorted(filter_repo_objects([*read, *again], **chosen)))
        raise OSError

    monkeypatch.setattr(hub, "snapshot_download", listed)
    with pytest.raises(ValueError, match="no pocket policy"):
        hub.from_hub("someone/tiny")
    assert hub.in_cache("someone/tiny") is None and asked == [sorted(read)] * 2


def test_a_folder_that_is_no_model_is_one_clear_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(ValueError, match=r"holds no weights; a base model has model\.safetensors"):
        load_policy(tmp_path, device="cpu")
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(ValueError, match="a run that is not finished; go on with: vpo-lite train"):
        load_policy(tmp_path, device="cpu")
    save_file({"w": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"cannot be loaded as a causal language model: .*nothing"):
        load_policy(tmp_path, device="cpu")
    with pytest.raises(ValueError, match=r"no pocket policy.*check the name"):
        load_policy("nobody/nothing", device="cpu")


# --- number types, gradient checkpointing, quantised bases ----------------------------------------


def on(folder, **changes):
    """Settings of one small step on one maze with this model."""
    few = dict(
        maze_seed=1,
        layout="tiny-4x4",
        steps=1,
        prompts=1,
        group_size=4,
        max_new_tokens=8,
        device="cpu",
    )
    return vpo.TrainConfig.preset("demo", model=str(folder), **few | changes)


def numbers(policy):
    """Number types of the base's and of the adapter's parameters."""
    named = list(policy.model.named_parameters())
    return {p.dtype for n, p in named if "lora_" not in n}, {
        p.dtype for n, p in named if "lora_" in n
    }


def gradients(policy, value):
    policy.model.zero_grad()
    value.backward()
    return {n: p.grad.clone() for n, p in policy.model.named_parameters() if p.requires_grad}


def unfold_adapter(policy):
    """A fresh adapter changes nothing, and half its gradients are 0: give it some weight."""
    torch.manual_seed(1)
    for name, p in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.05)


@pytest.mark.slow
def test_the_base_may_be_bfloat16_and_the_adapter_stays_float32(folder, tmp_path):
    assert numbers(load_policy(folder, device="cpu")) == ({torch.float32}, {torch.float32})
    learner = Learner(on(folder, dtype="bfloat16"))
    list(vpo.train(on(folder, dtype="bfloat16"), learner=learner))
    learner.policy.save(tmp_path / "adapter")
    again = load_policy(tmp_path / "adapter", device="cpu")
    for policy in (learner.policy, again):
        assert numbers(policy) == ({torch.bfloat16}, {torch.float32})
    moments = [
        m
        for state in learner.optimizer.state.values()
        for m in (state["exp_avg"], state["exp_avg_sq"])
    ]
    assert moments and {m.dtype for m in moments} == {torch.float32}
    assert numbers(load_policy(tmp_path / "adapter", device="cpu", dtype="float32"))[0] == {
        torch.float32
    }


@pytest.mark.parametrize(
    ("asked", "device", "has_it", "pocket", "number"),
    [
        ("auto", "cuda", True, False, torch.bfloat16),
        ("auto", "cuda", False, False, torch.float32),
        ("auto", "cuda", True, True, torch.float32),
        ("auto", "cpu", True, False, torch.float32),
        ("bfloat16", "cpu", False, True, torch.bfloat16),
        ("float32", "cuda", True, False, torch.float32),
    ],
)
def test_auto_is_bfloat16_for_language_models_on_a_gpu_that_has_it(
    monkeypatch, asked, device, has_it, pocket, number
):
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: has_it or including_emulation,
    )
    assert base._number_type(asked, torch.device(device), pocket) == number


@pytest.mark.slow
@pytest.mark.parametrize("names", ["q_proj", "self_attn.q_proj, down_proj"])
def test_lora_adapts_the_layers_that_are_named(folder, names, tmp_path):
    """Training moves these alone, sampler and update agree, and the adapter comes back."""
    few = dict(layout="tiny-4x4", maze_seed=1, prompts=1, group_size=4, steps=2, max_new_tokens=12)
    config = vpo.TrainConfig(model=str(folder), target_modules=names, device="cpu", **few)
    learner = vpo.Learner(config)
    last = {name.strip().rpartition(".")[2] for name in names.split(",")}
    found = [n for n, m in learner.policy.model.named_modules() if hasattr(m, "lora_A")]
    layers = learner.policy.model.get_base_model().config.num_hidden_layers
    assert len(found) == layers * len(last) and {n.rpartition(".")[2] for n in found} == last
    unfold_adapter(learner.policy)
    records = list(vpo.train(config, learner=learner))
    assert records[-1].sampler_gap < 1e-4
    learner.policy.save(tmp_path / "adapter")
    again = load_policy(tmp_path / "adapter", device="cpu")
    trained = [p for p in again.model.parameters() if p.requires_grad]
    assert all(map(torch.equal, trained, learner.parameters)) and len(trained) == 2 * len(found)


def test_a_layer_that_is_not_there_is_named_with_those_that_are(folder):
    with pytest.raises(ValueError) as refused:
        load_policy(folder, device="cpu", target_modules="q_proj,qproj")
    assert str(refused.value) == (
        "target_modules = 'q_proj,qproj': no linear layer that LoRA can adapt is called 'qproj'; "
        "there are down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj, or all-linear"
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_checkpointing_recomputes_every_layer_for_the_same_gradient(folder, dtype, monkeypatch):
    monkeypatch.setattr(
        DecoderView, "knows", staticmethod(lambda model: False)
    )  # sampled by the layers themselves
    plain, spare = (
        load_policy(folder, device="cpu", dtype=dtype, gradient_checkpointing=on)
        for on in (False, True)
    )
    assert (plain.checkpointing, spare.checkpointing) == (False, True)
    uniforms = np.random.default_rng(0).random((2, 3, 6))
    unfold_adapter(plain)
    unfold_adapter(spare)
    drawn, again, lengths, wanted = [], [], [], []
    for policy in (plain, spare):
        layers = policy.model.get_base_model().model.layers
        seen = []
        note = lambda module, inputs: seen.append(inputs[0].shape[1])  # noqa: B023, E731
        hooks = [layer.mlp.register_forward_pre_hook(note) for layer in layers]
        drawn.append(policy.sample(ASKED, uniforms))
        lengths.append(list(seen))
        seen.clear()
        logp, _ = policy.token_logprobs(drawn[-1])
        seen.clear()
        wanted.append(gradients(policy, logp[drawn[-1].mask].sum()))
        again.append(len(seen))
        seen.clear()
        with policy.reference():
            policy.token_logprobs(drawn[-1])
        lengths.append(list(seen))
        [hook.remove() for hook in hooks]
        assert not any(
            module.training for module in policy.model.modules()
        )  # no dropout in the loss
    assert again == [0, len(layers)]  # layers that ran in the backward pass
    assert torch.equal(drawn[0].tokens, drawn[1].tokens)
    assert lengths[0] == lengths[2]  # sampling is as before: the cache is used, one token a step
    assert set(lengths[2][len(layers) :]) == {1}
    assert len(lengths[3]) == len(layers)  # nothing is recomputed where no gradient is wanted
    assert any(g.abs().max() > 0 for g in wanted[0].values())
    for name, gradient in wanted[
        0
    ].items():  # in bfloat16 whole rows and shared prompts round differently
        error = (wanted[1][name] - gradient).norm() / gradient.norm()
        assert error < (1e-6 if dtype == "float32" else 0.05)


@pytest.mark.slow
def test_checkpointing_frees_what_the_layers_would_keep(folder):
    kept = []
    for on_or_off in (False, True):
        policy = load_policy(folder, device="cpu", gradient_checkpointing=on_or_off)
        rollouts = policy.sample(ASKED[:1], np.random.default_rng(0).random((1, 4, 16)))
        storages = {}

        def note(x, storages=storages):
            storage = x.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            policy.token_logprobs(rollouts)
        kept.append(sum(storages.values()))
    assert kept[1] < kept[0] / 2


@pytest.mark.slow
def test_a_checkpointed_run_is_a_repetition_of_the_plain_one():
    few = dict(maze_seed=1000, steps=1, prompts=2, group_size=4, kl=0.1, device="cpu")
    plain, spare = (
        vpo.TrainConfig.preset("demo", gradient_checkpointing=on, **few) for on in (False, True)
    )
    (a,), (b,) = (list(vpo.train(config)) for config in (plain, spare))
    assert a.gradient_norm > 0 and a.tokens == b.tokens
    for name in ("gradient_norm", "loss", "entropy", "kl"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-4, abs=1e-7)
    measured = {"per_problem": {"coverage": [0.5]}}
    kind = lambda config: _settings(Finished(config, measured, "run", Engine(), {}))  # noqa: E731
    assert kind(plain) == kind(spare)
    for changes in ({"dtype": "bfloat16"}, {"load_in": "4bit"}):
        assert kind(plain) != kind(plain.but(**changes))


def test_a_model_without_such_layers_says_so():
    bare = LlamaForCausalLM(config_of(LlamaForCausalLM, 8, 8, 0, 1, 1, 8))
    with pytest.raises(ValueError, match=r"gradient_checkpointing = True.*leave it out"):
        loading.checkpoint_layers(get_peft_model(bare, LoraConfig(target_modules=["lm_head"])))


def test_a_quantised_base_without_bitsandbytes_is_one_clear_line(folder, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "bitsandbytes" else found(name, *a),
    )
    with pytest.raises(
        ValueError, match=r"^load_in = '4bit': needs bitsandbytes; cure: pip install 'bitsandbytes"
    ):
        load_policy(folder, device="cpu", load_in="4bit")
    with pytest.raises(ValueError, match="pocket policy"):
        load_policy("pocket-6x6", device="cpu", load_in="8bit")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A Llama whose rows hold whole blocks of 64 weights, as those of real models do."""
    pytest.importorskip("bitsandbytes")
    path = tmp_path_factory.mktemp("hub") / "wide"
    return model_folder(path, byte_tokenizer(chat=False), 128, 256, 2, 4, 2)


def restored(linear):
    """The weight that a quantised layer stands for, from its codes and scales."""
    import bitsandbytes as bnb

    if linear.weight.dtype == torch.int8:
        scales = linear.weight.SCB if linear.state.SCB is None else linear.state.SCB
        return linear.weight * scales[:, None] / 127
    return bnb.functional.dequantize_4bit(linear.weight, linear.weight.quant_state)


@pytest.mark.parametrize(("load_in", "bits", "alike"), [("8bit", 8, 0.99), ("4bit", 4, 0.999999)])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_quantised_base_gives_the_gradients_of_the_weights_it_stands_for(
    wide, load_in, bits, alike, checkpointing
):
    small = load_policy(wide, device="cpu", load_in=load_in, gradient_checkpointing=checkpointing)
    whole = load_policy(wide, device="cpu")
    layers = zip(
        small.model.get_base_model().model.layers,
        whole.model.get_base_model().model.layers,
        strict=True,
    )
    for few, full in layers:
        for name, linear in full.named_modules():
            if name.endswith("_proj"):
                quantised = few.get_submodule(name).base_layer
                assert 8 * quantised.weight.nbytes == bits * linear.base_layer.weight.numel()
                linear.base_layer.weight.data.copy_(restored(quantised))
    assert numbers(small)[1] == {torch.float32}
    assert small.model.get_base_model().lm_head.weight.dtype == torch.float32
    unfold_adapter(small)
    unfold_adapter(whole)
    rollouts = small.sample(ASKED, np.random.default_rng(0).random((2, 3, 6)))
    flat = []
    for policy in (small, whole):
        logp, _ = policy.token_logprobs(rollouts)
        torch.testing.assert_close(
            logp.detach()[rollouts.mask], rollouts.logprobs[rollouts.mask], atol=0.05, rtol=0
        )
        found = gradients(policy, logp[rollouts.mask].sum())
        flat.append(torch.cat([found[name].flatten() for name in sorted(found)]))
    assert torch.cosine_similarity(*flat, dim=0) > alike
    assert 0.98 < flat[0].norm() / flat[1].norm() < 1.02
    logp, _ = small.token_logprobs(rollouts)
    torch.testing.assert_close(
        logp[rollouts.mask], rollouts.logprobs[rollouts.mask], atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("load_in", ["8bit", "4bit"])
def test_a_run_on_a_quantised_base_comes_back_on_it(wide, load_in, tmp_path, capsys):
    out = tmp_path / "run"
    settings = "--steps 1 --prompts 1 --group-size 4 --max-new-tokens 8"
    assert train(wide, out, f"{settings} --load-in {load_in}") == 0
    policy = load_policy(out, device="cpu")
    assert policy.load_in == load_in and policy.model.get_base_model().is_quantized
    assert main(["evaluate", str(out), "--device", "cpu"]) == 0
