"""Names, paths, texts and commands in messages: what was probably meant, and what to paste."""

import os
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from .checks import shortened, shown

_OF_LETTERS = {"G": "group_size", "P": "prompts"}  # as the documents write them
OF_TRL = {  # fields of TRL's GRPOConfig whose setting here has another name
    "max_steps": "steps",
    "num_generations": "group_size",
    "generation_batch_size": "prompts",
    "per_device_train_batch_size": "micro_batch",
    "gradient_accumulation_steps": "micro_batch",
    "max_completion_length": "max_new_tokens",
    "learning_rate": "lr",
    "beta": "kl",
    "epsilon": "clip",
    "epsilon_high": "clip_high",
    "delta": "dual_clip",
    "mask_truncated_completions": "mask_truncated",
    "entropy_coef": "entropy",
    "loss_type": "aggregation",
    "num_iterations": "epochs",
    "save_steps": "save_every",
    "use_cpu": "device",
}
LONGEST = 900  # characters of a message
WINDOWS = os.name == "nt"


def did_you_mean(unknown: Iterable[str], names: Iterable[str]) -> str:
    """What to add to a message on unknown names: the nearest known one of each; "" without any.

    >>> did_you_mean(["lrr", "zzz"], ["lr", "rank"]), did_you_mean(["zzz"], ["lr", "rank"])
    ('; did you mean lr?', '')
    >>> did_you_mean(["--G"], ["--group-size"]), did_you_mean(["beta"], ["eta", "kl"])
    ('; did you mean --group-size?', '; did you mean kl?')
    >>> did_you_mean(["VPO"], ["grpo", "vpo"])
    '; did you mean vpo?'
    """
    names, near = list(names), []
    for name in unknown:
        plain = name.lstrip("-").replace("-", "_")
        ours = (_OF_LETTERS | OF_TRL).get(plain)
        near += (
            [n for n in names if ours and n.lstrip("-").replace("-", "_") == ours]
            or get_close_matches(name, names, 1, 0.7)
            or [n for n in names if n.casefold() == name.casefold()]
        )
    return f"; did you mean {', '.join(near)}?" if near else ""


def check_names(call: str, given, known, cure: str = "") -> None:
    """Raise ValueError for arguments, given by name, that this call does not take.

    >>> check_names("figure", {"drak": True}, ["width", "dark"])
    Traceback (most recent call last):
    ...
    ValueError: 'drak': figure takes width, dark; did you mean dark?
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        cure = f"; {cure}" if cure else did_you_mean(unknown, known)
        said = f"{shown(', '.join(unknown))}: {call} takes {', '.join(known)}"
        raise ValueError(said + cure)


def command(*words) -> str:
    """A command of ours, to be pasted into a shell; see :func:`for_shell`. A path that begins with
    a dash would read as a flag.

    >>> command("train", "--steps", 60), command("train", "--resume", Path("-a"))
    ('vpo-lite train --steps 60', 'vpo-lite train --resume ./-a')
    """
    typed = [f"./{w}" if isinstance(w, Path) and str(w).startswith("-") else str(w) for w in words]
    return for_shell(["vpo-lite", *typed])


def for_shell(words: Sequence[str]) -> str:
    """A line to be pasted into a shell of this system: on Windows, into PowerShell or cmd."""
    return (subprocess.list2cmdline if WINDOWS else shlex.join)(words)


def shown_path(path) -> str:
    """A file or folder for a message: its path in one line, cut where it is long.

    >>> shown_path("runs/first"), shown_path("x" * 300)[-20:]
    ('runs/first', 'xx… (300 characters)')
    """
    return shortened(str(path), 200)


def is_encodable(text: str) -> bool:
    """Whether a text can be written to a file: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_plain(text) -> bool:
    """Whether a value is a text for files and the operating system: no lone surrogate, no NUL.

    >>> is_plain("ü"), is_plain("a\\0b"), is_plain("\\ud800"), is_plain(5)
    (True, False, False, False)
    """
    return isinstance(text, str) and is_encodable(text) and "\0" not in text
