"""Model families that a user may bring: prompts, ends and probabilities are those of plain
transformers and peft. Then what is said where a folder or a task cannot work. All models are small,
with random parameters and tokens of one byte.
"""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from test_any_task import Letters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

import vpo_lite as vpo
from vpo_lite.cli import main
from vpo_lite.integrations.verl_export import export
from vpo_lite.policy import base
from vpo_lite.policy.loading import load_policy, outline
from vpo_lite.policy.merged import share_kept, write_merged
from vpo_lite.policy.tokenizer import decode
from vpo_lite.tasks import Prompt, task_class
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.records import RecordTask
from vpo_lite.training.memory import Decoder
from vpo_lite.training.run import Run

TURNS = "{% for turn in messages %}"
ASSISTANT = "{% if add_generation_prompt %}"
ONLY_USER = (
    TURNS + "{% if turn['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}"
)
QWEN = (
    TURNS + "<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    f"{ASSISTANT}<|im_start|>assistant\n{{% endif %}}"
)
QWEN2 = "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are Qwen.<|im_end|>\n"
QWEN2 += "{% endif %}" + QWEN
LLAMA = (
    "{{ bos_token }}" + TURNS + "<|start_header_id|>{{ turn['role'] }}<|end_header_id|>\n\n"
    "{{ turn['content'] | trim }}<|eot_id|>{% endfor %}"
    f"{ASSISTANT}<|start_header_id|>assistant<|end_header_id|>\n\n{{% endif %}}"
)
GEMMA = (
    "{{ bos_token }}" + ONLY_USER + "<start_of_turn>{{ turn['role'] }}\n"
    "{{ turn['content'] | trim }}<end_of_turn>\n{% endfor %}"
    f"{ASSISTANT}<start_of_turn>model\n{{% endif %}}"
)
MISTRAL = (
    "{{ bos_token }}" + ONLY_USER + "{% if turn['role'] == 'user' %}[INST] {{ turn['content'] }} "
    "[/INST]{% else %}{{ turn['content'] + eos_token }}{% endif %}{% endfor %}"
)
PHI = (
    TURNS + "<|{{ turn['role'] }}|>\n{{ turn['content'] }}<|end|>\n{% endfor %}"
    f"{ASSISTANT}<|assistant|>\n{{% else %}}{{{{ eos_token }}}}{{% endif %}}"
)
IM = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SHAPE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2)
BY_LAYER = dict(
    layer_types=["sliding_attention", "full_attention"],
    sliding_window=8,
    hidden_size_per_layer_input=8,
    vocab_size_per_layer_input=261,
    num_kv_shared_layers=0,
)
EXPERTS = dict(num_experts_per_tok=2, num_local_experts=4)
GPT2 = dict(n_embd=32, n_layer=2, n_head=4, n_positions=64)


def byte_tokenizer(special, template, bos=None, **names):
    """Each byte is a token, behind the special ones. With bos it begins every text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: i for i, word in enumerate([*special, *letters])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(special)
    if bos is not None:
        pairs = [(bos, vocabulary[bos])]
        core.post_processor = processors.TemplateProcessing(f"{bos} $A", special_tokens=pairs)
    made = hf.PreTrainedTokenizerFast(tokenizer_object=core, bos_token=bos, **names)
    made.chat_template = template
    return made


# class, its own settings, special tokens, template, their names, what generation_config.json says
# (ends, as ids), how many tokens of the beginning a prompt has
FAMILIES = {
    "qwen2, a system turn of its own": (
        "Qwen2",
        SHAPE | HEADS,
        IM,
        QWEN2,
        dict(eos_token=IM[2], pad_token=IM[0]),
        [2, 0],
        0,
    ),
    "qwen3": (
        "Qwen3",
        dict(**SHAPE, **HEADS, head_dim=16, tie_word_embeddings=True),
        IM,
        QWEN,
        dict(eos_token=IM[2], pad_token=IM[0]),
        [2, 0],
        0,
    ),
    "llama 3, three ends": (
        "Llama",
        SHAPE | HEADS,
        [
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eom_id|>",
            "<|eot_id|>",
        ],
        LLAMA,
        dict(bos="<|begin_of_text|>", eos_token="<|eot_id|>"),
        [1, 4, 5],
        1,
    ),
    "gemma 2, no system turn, windows": (
        "Gemma2",
        dict(**SHAPE, **HEADS, head_dim=16, sliding_window=8),
        ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"],
        GEMMA,
        dict(bos="<bos>", eos_token="<eos>", pad_token="<pad>"),
        [1, 4],
        1,
    ),
    "gemma 4, heads that differ from layer to layer": (
        "Gemma4Text",
        dict(**SHAPE, **HEADS, **BY_LAYER, head_dim=8, global_head_dim=16),
        ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"],
        GEMMA,
        dict(bos="<bos>", eos_token="<eos>", pad_token="<pad>"),
        [1, 4],
        1,
    ),
    "mistral, windows, no pad": (
        "Mistral",
        dict(**SHAPE, **HEADS, sliding_window=12),
        ["<unk>", "<s>", "</s>"],
        MISTRAL,
        dict(bos="<s>", eos_token="</s>"),
        [2],
        1,
    ),
    "phi 3, an end that is not the tokenizer's": (
        "Phi3",
        SHAPE | HEADS,
        ["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>"],
        PHI,
        dict(eos_token="<|endoftext|>", pad_token="<|endoftext|>"),
        [0, 1],
        0,
    ),
    "mixtral": (
        "Mixtral",
        SHAPE | HEADS | EXPERTS,
        ["<unk>", "<s>", "</s>"],
        MISTRAL,
        dict(bos="<s>", eos_token="</s>"),
        [2],
        1,
    ),
    "gpt 2, no template": (
        "GPT2",
        GPT2,
        ["<|endoftext|>"],
        None,
        dict(eos_token="<|endoftext|>"),
        [0],
        0,
    ),
    "llama, no template": (
        "Llama",
        SHAPE | HEADS,
        ["<s>", "</s>"],
        None,
        dict(bos="<s>", eos_token="</s>"),
        [1],
        1,
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """name of a family -> its folder, written once."""
    root, folders = tmp_path_factory.mktemp("families"), {}

    def folder(name):
        if name in folders:
            return folders[name]
        kind, settings, special, template, names, ends, _ = FAMILIES[name]
        tokenizer = byte_tokenizer(special, template, **names)
        first = getattr(hf, f"{kind}Config")
        ids = dict(eos_token_id=ends[0], bos_token_id=tokenizer.bos_token_id, pad_token_id=None)
        config = first(vocab_size=len(tokenizer), **settings, **ids)
        torch.manual_seed(0)
        model = hf.AutoModelForCausalLM.from_config(config)
        for part, parameter in model.named_parameters():
            if parameter.ndim > 1 or part.endswith("bias"):  # Qwen2 has some
                torch.nn.init.normal_(parameter, std=0.2 if parameter.ndim > 1 else 0.1)
        model.generation_config = hf.GenerationConfig(eos_token_id=ends, do_sample=True, top_k=5)
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
        return folders.setdefault(name, root / name)

    return folder


ASKED = [Prompt.words("Name one that is warm."), Prompt.words("Go.")]


@pytest.mark.parametrize("name", FAMILIES)
def test_prompts_and_ends_are_the_familys_own(name, made):
    *_, template, _, ends, begins = FAMILIES[name]
    policy, tokenizer = (
        load_policy(made(name), device="cpu", rank=2),
        hf.AutoTokenizer.from_pretrained(made(name)),
    )
    assert policy.eos_ids == set(ends) and policy.unheeded_end is None
    for prompt in ASKED:
        ids = policy.encode(prompt)
        if template is None:
            assert ids == tokenizer(prompt.text + "\n")["input_ids"]
        else:
            turns = list(prompt.messages)
            whole = tokenizer.apply_chat_template(turns, add_generation_prompt=True)
            assert ids == whole["input_ids"]
        assert ids.count(tokenizer.bos_token_id) == begins  # not once from the template, once more


# peft's notice on patterns of its own, for Mixtral's experts
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The following (rank|alpha)_pattern")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_trained_adapter_is_the_same_policy_in_plain_peft_and_in_one_model(name, made, tmp_path):
    """Sampled tokens, with padding, caches and windows, have the probabilities that whole rows
    without padding have there. They are drawn from all tokens, whatever generation_config.json
    says."""
    policy = load_policy(made(name), device="cpu", rank=2)
    torch.manual_seed(1)
    for parameter_name, parameter in policy.model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.3)
    rollouts = policy.sample(ASKED, np.random.default_rng(0).random((2, 3, 16)), 0.8)
    ours = policy.token_logprobs(rollouts, 0.8).logprobs
    policy.save(tmp_path / "adapter")
    plain = PeftModel.from_pretrained(
        hf.AutoModelForCausalLM.from_pretrained(made(name), dtype=torch.float32),
        tmp_path / "adapter",
    ).eval()
    merged = write_merged(tmp_path / "adapter", tmp_path / "merged")
    alone = hf.AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).eval()
    assert alone.generation_config.eos_token_id == plain.generation_config.eos_token_id
    assert hf.AutoTokenizer.from_pretrained(merged).chat_template == FAMILIES[name][3]
    for i, row in enumerate(rollouts.tokens):
        asked, used = policy.encode(ASKED[i // 3]), int(rollouts.mask[i].sum())
        whole = torch.tensor([[*asked, *row[:used].tolist()]])
        with torch.no_grad():
            logits = plain(input_ids=whole).logits[0, len(asked) - 1 : -1]
            same = alone(input_ids=whole).logits[0, len(asked) - 1 : -1]
        assert torch.allclose(same, logits, atol=1e-3)
        expected = (logits / 0.8).log_softmax(-1).gather(-1, row[:used, None])[:, 0]
        assert torch.allclose(rollouts.logprobs[i, :used], expected, atol=1e-4)
        assert torch.allclose(ours[i, :used], expected, atol=1e-4)


@pytest.mark.slow
def test_an_adapter_of_peft_becomes_one_model_that_a_new_run_starts_from(
    made, letters, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    source = made("gemma 2, no system turn, windows")
    bare = hf.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    torch.manual_seed(2)
    own = get_peft_model(bare, LoraConfig(r=2, target_modules=["q_proj", "up_proj"]))
    for name, parameter in own.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    own.save_pretrained("runs/qwen/adapter")
    with pytest.raises(ValueError, match="vpo-lite export model"):
        Run.begin(settings("runs/qwen/adapter"), "run")
    assert main(["export", "model", "runs/qwen", "--out", "merged"]) == 0
    assert "merged: one model of transformers, 0.1 MB of parameters" in capsys.readouterr().out
    merged = load_policy("merged", device="cpu", rank=2)
    ids = torch.tensor([merged.encode(ASKED[0])])
    with torch.no_grad():
        assert torch.allclose(merged.model(ids).logits, own.eval()(ids).logits, atol=1e-4)


def test_what_cannot_become_one_model_is_refused_and_nothing_is_written(made, tmp_path, capsys):
    policy = load_policy(made("qwen3"), device="cpu", rank=2)
    policy.save(tmp_path / "adapter")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    quantised = shutil.copytree(tmp_path / "adapter", tmp_path / "quantised")
    card = json.loads((quantised / "policy.json").read_text())
    (quantised / "policy.json").write_text(json.dumps(card | {"load_in": "4bit"}))
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    for run, out, said in (
        (made("qwen3"), "out", "no trained adapter is there"),
        (tmp_path / "adapter", "full", "exists already"),
        (quantised, "out", "was trained on a base in 4bit"),
        (tmp_path / "adapter", "out --dtype float16", "dtype = 'float16': expected one of auto"),
    ):
        assert main(f"export model {run} --out {tmp_path}/{out}".split()) == 2
        error = capsys.readouterr().err
        assert said in error and len(error.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "stored"), [("auto", "bfloat16"), ("float32", "float32"), ("bfloat16", "bfloat16")]
)
def test_one_model_has_the_number_format_of_its_base_or_the_one_asked_for(
    made, tmp_path, asked, stored
):
    base = hf.AutoModelForCausalLM.from_pretrained(made("qwen3"), dtype=torch.bfloat16)
    base.save_pretrained(tmp_path / "base")
    hf.AutoTokenizer.from_pretrained(made("qwen3")).save_pretrained(tmp_path / "base")
    load_policy(tmp_path / "base", device="cpu", rank=2).save(tmp_path / "adapter")
    write_merged(tmp_path / "adapter", tmp_path / "merged", dtype=asked)
    merged = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert {p.dtype for p in merged.parameters()} == {getattr(torch, stored)}
    for name, parameter in merged.named_parameters():  # a fresh adapter adds nothing
        assert torch.equal(parameter, base.get_parameter(name).to(parameter.dtype))


@pytest.mark.slow
@pytest.mark.parametrize("size, says", [(1e-4, True), (0.05, False)])
def test_training_that_bfloat16_rounds_away_is_told(made, tmp_path, size, says):
    """W + dW is rounded to 8 bits. Of changes far below W's steps nothing is left."""
    base = hf.AutoModelForCausalLM.from_pretrained(made("qwen3"), dtype=torch.bfloat16)
    base.save_pretrained(tmp_path / "base")
    hf.AutoTokenizer.from_pretrained(made("qwen3")).save_pretrained(tmp_path / "base")
    base.float().requires_grad_(False)
    policy, told = load_policy(tmp_path / "base", device="cpu", rank=2), []
    for name, parameter in policy.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=size)
    policy.save(tmp_path / "adapter")
    write_merged(tmp_path / "adapter", tmp_path / "merged", tell=told.append)
    write_merged(tmp_path / "adapter", tmp_path / "whole", dtype="float32", tell=told.append)
    assert len(told) == says and all("bfloat16 keeps " in text for text in told)
    merged, whole = (
        hf.AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32)
        for name in ("merged", "whole")
    )
    change, delta = (
        torch.cat([(p.detach() - base.get_parameter(n)).flatten() for n, p in m.named_parameters()])
        for m in (merged, whole)
    )
    share = share_kept(load_policy(tmp_path / "adapter", dtype="bfloat16", device="cpu").model)
    assert share == pytest.approx(float(change @ delta / (delta @ delta)), abs=0.02)
    assert (share < 0.95) == says


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
def test_an_adapter_on_an_embedding_that_is_the_output_layer_is_refused(made, tmp_path):
    config = hf.AutoConfig.from_pretrained(made("qwen3"))
    config.tie_word_embeddings = True
    tied = hf.AutoModelForCausalLM.from_config(config)
    tied.save_pretrained(tmp_path / "base")
    hf.AutoTokenizer.from_pretrained(made("qwen3")).save_pretrained(tmp_path / "base")
    for layer in ("embed_tokens", "lm_head"):
        base = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
        lora = LoraConfig(r=2, target_modules=["q_proj", layer])
        get_peft_model(base, lora).save_pretrained(tmp_path / layer)
        with pytest.raises(ValueError, match="which are one tensor in this model"):
            write_merged(tmp_path / layer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_model_stops_where_training_stopped(made, tmp_path):
    """At the tokenizer's end, too, where generation_config.json names another."""
    folder = shutil.copytree(made("qwen3"), tmp_path / "base")
    file = folder / "generation_config.json"
    other = 7
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": other}))
    policy = load_policy(folder, device="cpu", rank=2)
    policy.save(tmp_path / "adapter")
    merged = write_merged(tmp_path / "adapter", tmp_path / "merged")
    ends = hf.GenerationConfig.from_pretrained(merged).eos_token_id
    assert ends == sorted({other, policy.tokenizer.eos_token_id}) == sorted(policy.eos_ids)


@pytest.mark.slow
def test_rotary_angles_that_change_with_the_length_end_the_positions(made, tmp_path):
    """A cache of shorter rows, and the shorter rows of a batch, would be turned by other angles."""
    shape = dict(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=1)
    shape |= dict(num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=1)
    factors = dict(short_factor=[1.0] * 8, long_factor=[4.0] * 8)
    long = dict(rope_type="longrope", rope_theta=1e4, **factors)
    kinds = {
        60: hf.Phi3Config(
            **shape,
            max_position_embeddings=4096,
            original_max_position_embeddings=60,
            rope_parameters=long | {"original_max_position_embeddings": 60},
        ),
        70: hf.LlamaConfig(
            **shape,
            max_position_embeddings=70,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
        ),
        None: hf.LlamaConfig(**shape, max_position_embeddings=70),
    }
    for most, config in kinds.items():
        folder = tmp_path / str(most)
        hf.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        hf.AutoTokenizer.from_pretrained(made("qwen3")).save_pretrained(folder)
        policy = load_policy(folder, device="cpu", rank=2)
        assert policy.most_positions == most
        policy.check_room(30, 30)
        if most:
            with pytest.raises(TaskError, match=f"need more than the model's {most} positions"):
                policy.check_room(40, 31)


@pytest.mark.parametrize(
    ("kind", "more", "width"),
    [
        ("Gemma4Text", dict(head_dim=8, global_head_dim=16), 4 * 16),
        ("Gemma3nText", dict(head_dim=8, intermediate_size=[48, 96], laurel_rank=4), 4 * 8),
    ],
)
def test_memory_is_stated_where_layers_differ_in_width(kind, more, width):
    """Both ended in a traceback, before the first step. The widest layer counts."""
    more = SHAPE | HEADS | BY_LAYER | more
    if kind == "Gemma3nText":
        more |= dict(activation_sparsity_pattern=[0.0, 0.0])
    config = getattr(hf, f"{kind}Config")(vocab_size=261, **more)
    sizes = Decoder.of(outline(config, None, rank=2), 2)
    assert sizes.A == width and sizes.I == (96 if kind == "Gemma3nText" else 48)


def larger(kind, shape, **more):
    """A model that also sees, of tiny sizes."""
    sight = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)
    sight |= dict(image_size=28, patch_size=14)
    config = getattr(hf, f"{kind}Config")(
        text_config=dict(vocab_size=300, head_dim=8, **SHAPE, **HEADS, **shape),
        vision_config=sight | more.pop("sight", {}),
        **more,
    )
    torch.manual_seed(0)
    return getattr(hf, f"{kind}ForConditionalGeneration")(config)


LARGER = {
    "gemma 3": lambda: larger(
        "Gemma3",
        dict(sliding_window=8, layer_types=["sliding_attention", "full_attention"]),
        mm_tokens_per_image=1,
        image_token_index=299,
        boi_token_index=298,
        eoi_token_index=297,
    ),
    "gemma 4, with limits that are infinite": lambda: larger(
        "Gemma4",
        BY_LAYER | dict(vocab_size_per_layer_input=300),
        sight=dict(head_dim=8, num_key_value_heads=2, use_clipped_linears=True),
        audio_config=None,
        image_token_id=299,
    ),
    "llama 4, whose text alone is loaded": lambda: larger(
        "Llama4",
        dict(intermediate_size_mlp=48, num_local_experts=4, attention_chunk_size=8),
        sight=dict(vision_output_dim=16, projector_input_dim=16, projector_output_dim=16)
        | dict(pixel_shuffle_ratio=0.5),
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The following (rank|alpha)_pattern")
@pytest.mark.parametrize("name", LARGER)
def test_of_a_model_that_sees_the_language_alone_is_trained(name, tmp_path):
    """The tower that sees took a quarter of an adapter, and no gradient ever reached it. Llama 4
    was refused for the tensors of its own, and Gemma 4 for limits that are infinite."""
    *_, special, template, names, ends, _ = FAMILIES["gemma 2, no system turn, windows"]
    model = LARGER[name]()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    model.generation_config = hf.GenerationConfig(eos_token_id=ends)
    model.save_pretrained(tmp_path / "model")
    byte_tokenizer(special, template, **names).save_pretrained(tmp_path / "model")
    policy = load_policy(tmp_path / "model", device="cpu", rank=2)
    rollouts = policy.sample(ASKED, np.random.default_rng(0).random((2, 2, 6)), 1.0)
    scores = policy.token_logprobs(rollouts)
    assert torch.allclose(scores.logprobs * rollouts.mask, rollouts.logprobs, atol=1e-3)
    (scores.logprobs * rollouts.mask).sum().backward()
    trained = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    assert trained and not any("vision" in n or "multi_modal" in n for n in trained)
    assert all(p.grad is not None for p in trained.values())
    policy.save(tmp_path / "adapter")
    again = load_policy(tmp_path / "adapter", device="cpu")
    assert torch.equal(again.token_logprobs(rollouts).logprobs, scores.logprobs)


@pytest.mark.slow
def test_one_model_of_a_larger_one_has_the_number_format_of_its_language_model(tmp_path):
    """Today's configurations say it there alone: the merged model was twice the size."""
    model = LARGER["gemma 3"]().bfloat16()
    *_, special, template, names, ends, _ = FAMILIES["gemma 2, no system turn, windows"]
    model.generation_config = hf.GenerationConfig(eos_token_id=ends)
    model.save_pretrained(tmp_path / "model")
    byte_tokenizer(special, template, **names).save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config.pop("dtype", None)
    config["text_config"]["dtype"] = "bfloat16"
    path.write_text(json.dumps(config))
    load_policy(tmp_path / "model", device="cpu", rank=2).save(tmp_path / "adapter")
    merged = write_merged(tmp_path / "adapter", tmp_path / "merged")
    assert {x.dtype for x in load_file(merged / "model.safetensors").values()} == {torch.bfloat16}


def test_a_template_that_leaves_the_prompt_out_is_told(made):
    """It asked for nothing, and trained on that."""
    policy = load_policy(made("qwen3"), device="cpu", rank=2)
    policy.tokenizer.chat_template = QWEN.replace("{{ turn['content'] }}", "{{ turn['parts'] }}")
    with pytest.raises(TaskError, match="this model's chat template leaves the prompt out"):
        policy.encode(Prompt.words("Which way?"))


def test_what_is_scored_is_what_was_sampled_not_a_tidied_text(made):
    """A tokenizer that is no BPE may ask for "x." in the place of "x ."."""
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"x": 0, ".": 1, "n't": 2})),
        clean_up_tokenization_spaces=True,
    )
    assert tokenizer.decode([0, 1, 0, 2]) == "x. xn't"
    assert decode(tokenizer, [[0, 1, 0, 2]], None) == ["x . x n't"]


def test_an_adapter_of_a_hub_model_names_it_as_the_hub_does(made, tmp_path, monkeypatch):
    """Not as the folder of this machine's cache, in which nobody else would find it."""
    cache = made("qwen3")
    monkeypatch.setattr(base, "from_hub", lambda name: cache)
    load_policy("someone/tiny", device="cpu", rank=2).save(tmp_path / "adapter")
    peft = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert peft["target_modules"] == sorted(peft["target_modules"]), "equal runs write equal files"
    assert peft["base_model_name_or_path"] == "someone/tiny"


# --- what is said ---------------------------------------------------------------------------------


def settings(model, **changes):
    few = dict(task=Letters, steps=1, prompts=2, group_size=2, device="cpu", threads=1)
    return vpo.TrainConfig.preset("demo", model=str(model), **few | changes)


@pytest.fixture
def letters(monkeypatch):
    module = type(sys)("letters_of_the_test")
    module.Letters = Letters
    monkeypatch.setattr(Letters, "seeds", {"train": range(4), "held_out": [7, 8]})
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.slow
def test_more_tokens_than_positions_are_refused_before_a_run_is_made(made, letters, tmp_path):
    """GPT-2 here has 64 positions. The prompt takes p, so 64 - p tokens can follow."""
    policy = load_policy(made("gpt 2, no template"), device="cpu", rank=2)
    room = 64 - len(policy.encode(ASKED[0]))
    late = np.full((1, 1, room + 1), 0.99)  # never the end, which has the first id
    assert policy.sample(ASKED[:1], late[..., 1:]).tokens.shape[1] == room
    with pytest.raises(
        TaskError, match=r"and \d+ new ones need more than the model's 64 positions"
    ):
        policy.sample(ASKED[:1], late)
    with pytest.raises(ValueError, match="64 positions: lower max_new_tokens, shorten"):
        Run.begin(settings(made("gpt 2, no template"), max_new_tokens=60), tmp_path / "run")
    assert not list(tmp_path.iterdir())
    rotary = load_policy(made("qwen3"), device="cpu", rank=2)
    rotary.check_room(10**6, 10**6)


def test_a_measured_request_longer_than_the_positions_is_refused_before_a_run_is_made(
    made, letters, tmp_path, monkeypatch
):
    """Of the held-out problems the third one's request takes more than GPT-2's 64 positions here.
    It has four objectives, as no other problem.
    """
    seeds = {"train": [0, 3, 6, 9], "held_out": [1, 0, 2]}
    monkeypatch.setattr(Letters, "seeds", seeds)
    asks = lambda self, x, m, **_: Prompt.words("Go. " * (60 if x == 4 else 1))  # noqa: E731
    monkeypatch.setattr(Letters, "prompt", asks)
    config = settings(made("gpt 2, no template"))
    with pytest.raises(ValueError, match=r"a prompt of \d+ tokens .* 64 positions"):
        Run.begin(config, tmp_path / "run")
    assert not list(tmp_path.iterdir())
    Run.begin(config.but(eval_problems=2), tmp_path / "run").close()  # it is not measured


@pytest.mark.slow
def test_a_turn_that_ends_no_completion_is_named(made, letters, tmp_path, capsys):
    """As in a base model whose tokenizer has the template of its instruct model."""
    folder = shutil.copytree(made("qwen3"), tmp_path / "base")
    for name, key, value in (
        ("generation_config.json", "eos_token_id", 0),
        ("tokenizer_config.json", "eos_token", "<|endoftext|>"),
    ):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert load_policy(folder, device="cpu", rank=2).unheeded_end == "<|im_end|>"
    few = "--steps 1 --prompts 1 --group-size 2 --device cpu --task letters_of_the_test:Letters"
    run = ["train", "--model", str(folder), "--out", str(tmp_path / "run"), *few.split()]
    assert main(run) == 0
    said = capsys.readouterr().err
    assert "ends an answer with <|im_end|>, but sampling ignores it" in said
    assert "cut off at the token limit (3): raise max_new_tokens" in said  # a letter is a token


@pytest.mark.slow
def test_a_template_that_writes_the_date_is_named(made, letters, tmp_path, capsys):
    folder = shutil.copytree(made("qwen3"), tmp_path / "base")
    plain = (folder / "chat_template.jinja").read_text()
    few = "--steps 1 --prompts 1 --group-size 2 --device cpu --task letters_of_the_test:Letters"
    run = ["train", "--model", str(folder), *few.split()]
    for i, template in enumerate((plain, "{{ strftime_now('%d %b %Y') }}" + plain)):
        (folder / "chat_template.jinja").write_text(template)
        assert main([*run, "--out", f"{tmp_path}/{i}"]) == 0
        assert capsys.readouterr().err.count("writes today's date into each prompt") == i


@pytest.mark.parametrize("name", ["qwen3", "llama, no template"])
def test_a_folder_without_its_tokenizer_names_the_cure(name, made, tmp_path):
    folder = shutil.copytree(made(name), tmp_path / "bare")
    for path in [*folder.glob("tokenizer*"), *folder.glob("chat_template*")]:
        path.unlink()
    with pytest.raises(ValueError, match=r"(?s)bare.*tokenizer\.save_pretrained"):
        load_policy(folder, device="cpu")


@pytest.mark.slow
def test_an_adapter_whose_base_was_moved_says_where_it_was(made, tmp_path, capsys):
    folder = shutil.copytree(made("qwen3"), tmp_path / "old")
    load_policy(folder, device="cpu", rank=2).save(tmp_path / "adapter")
    folder.rename(tmp_path / "new")
    with pytest.raises(ValueError, match=r"folder '.*old', which is not there; put it back, or"):
        load_policy(tmp_path / "adapter", device="cpu")
    assert main(["export", "model", str(tmp_path / "adapter"), "--out", str(tmp_path / "one")]) == 2
    said = capsys.readouterr().err
    assert "old', which is not there; put it back, or name its new place as base" in said
    assert len(said.splitlines()) == 1
    new = str(tmp_path / "new")
    assert load_policy(tmp_path / "adapter", base=new, device="cpu").embedded
    moved = ["--out", str(tmp_path / "one"), "--base", new]
    assert main(["export", "model", str(tmp_path / "adapter"), *moved]) == 0


def test_a_template_that_refuses_a_system_turn_says_what_to_do(made):
    policy = load_policy(made("mistral, windows, no pad"), device="cpu", rank=2)
    with pytest.raises(TaskError, match="System role not supported; some models take no system"):
        policy.encode(Prompt.words("Go.", system="Be brief."))


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("my.tasks:Sums", r"start where 'my/tasks\.py' lies, or name that folder in PYTHONPATH"),
        ("sums.py:Sums", r"name it without \.py"),
        (
            "__main__:Sums",
            "a notebook or a script defines .* into a file, mine.py, and name it as mine:Sums",
        ),
    ],
)
def test_a_task_that_cannot_be_found_names_the_cure(name, cure):
    with pytest.raises(ValueError, match=cure):
        task_class(name)


def test_a_class_of_a_notebook_is_not_exported_to_other_processes(made, tmp_path, monkeypatch):
    notebook = type("Sums", (Letters,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Sums", notebook, raising=False)
    with pytest.raises(ValueError, match="cannot import a class of a notebook"):
        export(settings(made("qwen3"), task=notebook, device="auto", threads=None), tmp_path / "v")
    assert not list(tmp_path.iterdir())


def test_a_task_on_records_without_a_file_asks_for_one():
    class Slogans(RecordTask):
        name = "slogans"

    with pytest.raises(TaskError, match="task 'slogans' has no records of its own: name a file"):
        len(Slogans().seeds["train"])
