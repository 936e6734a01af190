"""Prompts of rows, texts or chat messages, that ask for m answers in their numbered form."""

import re
from collections.abc import Mapping

from ..checks import shown
from ..messages import is_encodable
from .rows import SURROGATE
from .wording import numbered_form

MESSAGE = '{"role": text, "content": text}'
_MESSAGES = re.compile(r"""\s*\[\s*\{\s*(["'])(role|content)\1\s*:""")  # in JSON, or Python's repr
_FORM = re.compile(
    r"\n\nWrite ([1-9][0-9]{0,2}) different answers in exactly this form:\n(<[^\n]*)\Z"
)


def asking(prompt, m: int, tag: str = "answer", goals: str = ""):
    """A prompt, text or messages, that asks for m answers in their form; for one answer it asks for
    no form. A form that an earlier call wrote is replaced.

    goals: a sentence to put before the form. Raises ValueError for a prompt that ends with no text
    of the user.

    >>> print(asking("Name a prime.", 2))
    Name a prime.
    <BLANKLINE>
    Write 2 different answers in exactly this form:
    <answer_1> ... </answer_1> <answer_2> ... </answer_2>
    """
    prompt, more = without_form(prompt, tag), [goals] if goals else []
    if m > 1:
        form = numbered_form(m, tag)
        more.append(f"Write {m} different answers in exactly this form:\n{form}")
    if not more:
        return prompt
    if (text := _last_text(prompt)) is None:
        raise ValueError(
            f"prompt {shown(prompt)}: expected a text, or messages of which the last one is "
            "the user's and its content a text; the form of the answers is added there"
        )
    return _with_text(prompt, "\n\n".join([text, *more]))


def without_form(prompt, tag: str = "answer"):
    """A prompt as it was before :func:`asking`. One that asks for no such form is given back as
    this same object.

    >>> without_form(asking("Name a prime.", 2))
    'Name a prime.'
    """
    text = _last_text(prompt)
    found = None if text is None else _FORM.search(text)
    if found is None or found[2] != numbered_form(int(found[1]), tag):
        return prompt
    return _with_text(prompt, text[: found.start()])


def check_prompt(prompt) -> None:
    """Raise ValueError for what is no prompt of a row: a text, or messages of texts, the user's
    last. It names the message, and reads on after "field prompt".

    >>> check_prompt([{"role": "user", "content": None}])
    Traceback (most recent call last):
    ...
    ValueError: has content None in message 1: write what it holds as one text
    """
    if not (isinstance(prompt, str) or (isinstance(prompt, list) and prompt)):
        raise ValueError(f"should be a text, or a list of {MESSAGE}, not {shown(prompt)}")
    if isinstance(prompt, str) and _MESSAGES.match(prompt):
        cure = "write the list itself, without json.dumps or str"
        raise ValueError(f"should be messages, not a text of them, {shown(prompt)}: {cure}")
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    for i, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or not {"role", "content"} <= set(turn):
            raise ValueError(f"has {shown(turn)} as message {i}: expected {MESSAGE}")
        for name in ("role", "content"):
            if not isinstance(turn[name], str):
                found = f"has {name} {shown(turn[name])} in message {i}"
                raise ValueError(f"{found}: write what it holds as one text")
            if not is_encodable(turn[name]):
                raise ValueError(f"has a lone surrogate in message {i}: {SURROGATE}")
    if turns[-1]["role"] != "user":
        raise ValueError(
            f"should end with a message of the user, not with message {len(turns)} of role "
            f"{shown(turns[-1]['role'])}: write what it says into one of the user"
        )
    if not turns[-1]["content"].strip():
        raise ValueError(f"should ask something, not {shown(turns[-1]['content'])}")


def other_keys(prompt) -> list[str]:
    """The keys of a prompt's messages that no request holds; a null stands for an absent one.

    >>> other_keys([{"role": "user", "content": "Why?", "name": "Ann", "tool_calls": None}])
    ['name']
    """
    turns = prompt if isinstance(prompt, list) else []
    keys = (key for turn in turns for key, value in turn.items() if value is not None)
    return list(dict.fromkeys(key for key in keys if key not in ("role", "content")))


def _last_text(prompt) -> str | None:
    """What the user says last; None where that is no text."""
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if isinstance(prompt, list | tuple) and prompt else None
    asks = isinstance(last, Mapping) and last.get("role") == "user"
    return last["content"] if asks and isinstance(last.get("content"), str) else None


def _with_text(prompt, text: str):
    if isinstance(prompt, str):
        return text
    *before, last = prompt
    return [*before, {**last, "content": text}]
