"""The pocket policies' tokenizer, and the way from a task's prompt to token ids for any model.

A square and what lies on it are one token (``b3#``), a square alone is the token that routes are written with (``b3``).
Naming squares like a chess board is what lets one million parameters learn to walk.
"""

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SYMBOLS = ".SEGDLB#"
MAX_M = 5
MAX_BUDGET = 60


def pocket_vocabulary(board: int) -> list[str]:
    """Every token of the pocket policy for boards of ``board`` squares a side, in the order of their ids.

    >>> words = pocket_vocabulary(6)
    >>> len(words), words[:4], words[-1]
    (413, ['<pad>', '<bos>', '<eos>', '<m1>'], '</route_5>')
    """
    squares = [f"{chr(ord('a') + c)}{r + 1}" for r in range(board) for c in range(board)]
    return [
        *["<pad>", "<bos>", "<eos>"],
        *[f"<m{m}>" for m in range(1, MAX_M + 1)],
        *[f"<b{b}>" for b in range(1, MAX_BUDGET + 1)],
        *[f"<w{w}>" for w in range(11)],
        *[square + symbol for square in squares for symbol in SYMBOLS],
        *squares,
        *[tag for i in range(1, MAX_M + 1) for tag in (f"<route_{i}>", f"</route_{i}>")],
    ]


def pocket_tokenizer(board: int) -> PreTrainedTokenizerFast:
    """A word-level tokenizer over :func:`pocket_vocabulary`: words are split at blanks, an unknown word is an error.

    >>> tokenizer = pocket_tokenizer(6)
    >>> tokenizer.decode(tokenizer("<m1> <b9> a1S a2.")["input_ids"])
    '<m1> <b9> a1S a2.'
    """
    vocabulary = {word: i for i, word in enumerate(pocket_vocabulary(board))}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=None))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def encode_prompt(tokenizer, prompt: str, pocket: bool) -> list[int]:
    """Token ids of one prompt: behind ``<bos>`` for a pocket policy, through the chat template (if any) otherwise.

    Raises: ValueError naming the words that a pocket policy has no token for.
    """
    if pocket:
        known = tokenizer.get_vocab()
        unknown = sorted({word for word in prompt.split() if word not in known})
        if unknown:
            raise ValueError(
                f"this policy has no token for {', '.join(unknown[:5])}: it writes m = 1 to {MAX_M} routes within budgets of "
                f"1 to {MAX_BUDGET} moves"
            )
        return [tokenizer.bos_token_id, *(known[word] for word in prompt.split())]
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokenizer(prompt + "\n")["input_ids"]
