"""Any Hugging Face causal LM takes the pocket policy's place: random Qwen- and Llama-style folders made here."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

import envs
import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.policy.model import load_policy
from vpo_lite.tasks.maze import MazeTask

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(chat: bool) -> PreTrainedTokenizerFast:
    """A byte-level BPE with a few merges: any text can be written and read back."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    text = [MazeTask().request(envs.generate("lite-6x6", s), 3) for s in range(5)]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    core.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    )  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>" if chat else "<|endoftext|>")
    tokenizer.chat_template = CHAT if chat else None
    return tokenizer


@pytest.fixture(scope="module", params=["qwen2 with a chat template", "llama without one, no pad token"])
def folder(request, tmp_path_factory):
    chat = "chat" in request.param and "qwen" in request.param
    tokenizer = byte_tokenizer(chat)
    kind, config = (Qwen2ForCausalLM, Qwen2Config) if chat else (LlamaForCausalLM, LlamaConfig)
    shape = config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("hub") / ("qwen" if chat else "llama")
    kind(shape).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_it_is_asked_in_words_through_its_chat_template(folder):
    policy = load_policy(folder, device="cpu")
    assert policy.board is None
    task = MazeTask()
    prompt = task.request(task.instance(0), 3)
    text = policy.tokenizer.decode(policy.encode(prompt))
    assert prompt in text
    assert ("<|im_start|>assistant" in text) == (policy.tokenizer.chat_template is not None)
    assert "<route_3>" in text


def test_what_it_writes_comes_back_as_it_was(folder):
    policy = load_policy(folder, device="cpu")
    answer = "<route_1> UP RIGHT </route_1> <route_2> DOWN </route_2>"
    ids = policy.tokenizer(answer, add_special_tokens=False)["input_ids"]
    assert MazeTask().parse(envs.generate("lite-6x6", 0), policy.tokenizer.decode(ids), 2) == ["UR", "D"]
    rollouts = policy.sample(["Write."], np.random.default_rng(0).random((1, 4, 12)))
    assert len(policy.texts(rollouts)) == 4
    ends = {policy.tokenizer.eos_token_id}
    for row, mask in zip(rollouts.tokens.tolist(), rollouts.mask.tolist(), strict=True):
        assert not ends & set(row[: sum(mask) - 1])


def test_it_trains_from_the_command_line(folder, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = [
        "train",
        "--model",
        str(folder),
        "--layout",
        "tiny-4x4",
        "--steps",
        "2",
        "--prompts",
        "2",
        "--group-size",
        "4",
    ]
    assert (
        main([*arguments, "--max-new-tokens", "12", "--device", "cpu", "--maze-seed", "3", "--out", str(out), "--json"])
        == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["parse_rate"] == 0  # it has never seen a maze: every answer gets the worst vector, none is dropped
    assert summary["coverage"] == 0
    assert load_policy(out, device="cpu").base == str(folder)


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


def test_a_folder_that_is_no_model_is_one_clear_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(ValueError, match="cannot be loaded as a causal language model"):
        load_policy(tmp_path, device="cpu")
    with pytest.raises(ValueError, match=r"no pocket policy.*check the name"):
        load_policy("nobody/nothing", device="cpu")
