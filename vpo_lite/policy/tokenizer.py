"""From a task's prompt to token ids, for any model; and tokenizers whose tokens are whole words."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers

from ..tasks.base import Prompt, TaskError
from ..tasks.wording import ends_in_thought
from .libraries import PreTrainedTokenizerFast
from .weights import reason

# For every chat template, in every engine. Models that can think before they answer (Qwen3) do so
# unless they are told, and their thoughts would use up the tokens of a set. Others ignore it.
NO_THINKING = {"enable_thinking": False}


def encode(tokenizer, prompt: Prompt) -> list[int]:
    """Token ids of a prompt. Its prefix comes last, so the policy continues it.

    Symbols: ``<bos>``, then one token per word. Messages: all turns through the chat template,
    with the opening of the assistant's turn, and with thinking switched off where the template
    knows it. A tokenizer without a template gets the contents, joined by blank lines. Raises:
    ValueError naming the symbols that have no token, or where the chat template fails or the text
    has no token.

    >>> tokenizer = word_tokenizer(["<pad>", "<bos>", "<eos>", "up", "down"])
    >>> encode(tokenizer, Prompt(symbols="up down", prefix="up"))
    [1, 3, 4, 3]
    >>> encode(tokenizer, Prompt(symbols="up and down"))
    Traceback (most recent call last):
    ...
    vpo_lite.tasks.task_errors.TaskError: this policy has no token for: and
    """
    if prompt.symbols:
        begin = tokenizer.bos_token or "<bos>"
        return _word_ids(tokenizer, [begin, *prompt.symbols.split(), *prompt.prefix.split()])
    if tokenizer.chat_template:
        try:
            text = tokenizer.apply_chat_template(
                list(prompt.messages),
                tokenize=False,
                add_generation_prompt=True,
                **NO_THINKING,
            )
        except Exception as error:  # a template is a program of the model's makers
            system = any(turn["role"] == "system" for turn in prompt.messages)
            cure = "; some models take no system turn: ask in the user's alone" if system else ""
            raise TaskError(
                f"this model's chat template does not take the prompt: {reason(error)}{cure}"
            ) from error
        words = prompt.messages[-1]["content"].split()
        if words and not any(word in text for word in words):
            raise TaskError(
                "this model's chat template leaves the prompt out: it may read lists of parts only"
            )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = tokenizer(prompt.text + "\n")["input_ids"]
        if ids[-1:] == [tokenizer.eos_token_id]:  # some append it: the text would be over already
            ids = ids[:-1]
    if not ids:
        raise ValueError("this policy's tokenizer reads no token in the prompt")
    if not prompt.prefix:
        return ids
    return [*ids, *tokenizer(prompt.prefix, add_special_tokens=False)["input_ids"]]


def opens_thought(tokenizer) -> bool:
    """Whether a prompt in words ends in ``<think>``, so that the policy continues a thought. The
    templates of some reasoning models do so, whatever they are told.
    """
    if not tokenizer.chat_template:
        return False
    return ends_in_thought(tokenizer, encode(tokenizer, Prompt.words("?")))


def decode(tokenizer, rows: Sequence[list[int]], prefixes: Sequence[str] | None) -> list[str]:
    """Token ids (B) as text. prefixes (B): what the ids continue; their own text is cut off.

    Some tokenizers (Llama-2, Phi-3) drop the blank before the first word. It would be missing
    between a prefix and a completion that is decoded alone.
    """
    as_it_is = dict(clean_up_tokenization_spaces=False)  # some would write "x." for "x ."
    alone = tokenizer.batch_decode(rows, **as_it_is)
    if prefixes is None:
        return alone
    heads = {p: tokenizer(p, add_special_tokens=False)["input_ids"] for p in set(prefixes)}
    starts = {p: tokenizer.decode(ids, **as_it_is) for p, ids in heads.items()}
    continued = [heads[p] + row for p, row in zip(prefixes, rows, strict=True)]
    wholes = tokenizer.batch_decode(continued, **as_it_is)
    return [
        whole.removeprefix(starts[p]) if whole.startswith(starts[p]) else text
        for p, whole, text in zip(prefixes, wholes, alone, strict=True)
    ]


def _word_ids(tokenizer, words: list[str]) -> list[int]:
    known = tokenizer.get_vocab()
    unknown = sorted({word for word in words if word not in known})
    if unknown:
        more = ", ..." if len(unknown) > 5 else ""
        raise TaskError(f"this policy has no token for: {', '.join(unknown[:5])}{more}")
    return [known[word] for word in words]


def word_tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are whole words, separated by blanks.

    words: every token, in the order of the ids; ``<pad>``, ``<bos>`` and ``<eos>`` are among them.

    >>> tokenizer = word_tokenizer(["<pad>", "<bos>", "<eos>", "up", "down"])
    >>> tokenizer("down up")["input_ids"], tokenizer.decode([4, 3])
    ([4, 3], 'down up')
    """
    vocabulary = {word: i for i, word in enumerate(words)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=None))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
