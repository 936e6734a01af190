"""Small models of random parameters, and a tokenizer for them: what tests and benchmarks share."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import envs
from vpo_lite.tasks.maze import MazeTask

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# A model that thinks before it answers unless it is told not to (Qwen3).
THINKS = CHAT[: -len("{% endif %}")] + (
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
)


QWEN = {  # sizes of Qwen2.5, as of `config_of`
    "0.5b": (896, 4864, 24, 14, 2, 151_936),
    "3b": (2048, 11_008, 36, 16, 2, 151_936),
    "tiny": (32, 48, 2, 4, 2, 600),
}


def config_of(kind, *sizes, **more):
    """The config of a class of models. sizes: width, MLP, layers, heads, key heads, vocabulary."""
    return kind.config_class(**dict(zip(SIZES, sizes, strict=True)), **more)


def model_folder(path, tokenizer, *sizes, kind=LlamaForCausalLM, **more):
    """A model of random parameters and its tokenizer in a folder; returns the folder. sizes: as for
    `config_of`, without the vocabulary.
    """
    settings = dict(eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=None)
    config = config_of(kind, *sizes, len(tokenizer), **settings | more)
    torch.manual_seed(0)
    kind._from_config(config).save_pretrained(path)  # in the config's dtype
    tokenizer.save_pretrained(path)
    return path


def byte_model(path, *sizes, **more):
    """A Llama that reads and writes bytes, with a chat template; returns its folder."""
    more = dict(tie_word_embeddings=False, bos_token_id=1) | more
    return model_folder(path, byte_tokenizer(chat=True), *sizes, **more)


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer as Llama-2's: a blank is part of the word after it, and decoding drops the first
    one.
    """
    core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    core.train_from_iterator(
        ["<program_1> inc dbl neg </program_1> <route_1> UU RR </route_1> Go on hi user"] * 5,
        trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", bos_token="<s>")


def byte_tokenizer(chat: bool) -> PreTrainedTokenizerFast:
    """A byte-level BPE with a few merges: any text can be written and read back."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer, core.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    text = [MazeTask().prompt(envs.generate("lite-6x6", s), 3).text for s in range(5)]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    core.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=special,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>" if chat else "<|endoftext|>"
    )
    tokenizer.chat_template = CHAT if chat else None
    return tokenizer


def ending_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer without a chat template that ends each text with EOS."""
    tokenizer = byte_tokenizer(chat=False)
    end = (tokenizer.eos_token, tokenizer.eos_token_id)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end[0]}", special_tokens=[end]
    )
    return tokenizer
