"""Share codes: the settings of a lab as a short text, and back. They work offline.

A code is ``VPO2-`` and base64 of compressed JSON: [methods, settings, chosen problem, many].
Settings are those that differ from the preset demo, the task's options among them.

A code may come from a stranger. So its size is limited, and it imports no code.
"""

import functools
import inspect
import json
import sys

from pydantic import JsonValue

from ..checks import shortened, shown
from ..files import DamagedError, parse_json
from ..tasks import DEFAULT, Task
from ..tasks.by_name import in_modules, unwrapped
from ..tasks.functions import EXAMPLE_REWARDS
from ..tasks.registry import task_class, task_name
from ..training.config import OF_THE_MACHINE, TrainConfig
from .packing import packed, unpacked
from .settings import Settings

VERSION = "VPO2"  # of the codes
MOST_TEXT = 2**16  # characters of a code; of a drawn board of 26 x 26 it has about 500
MOST_CONTENT = 2**17  # bytes of its JSON

_LEFT_OUT = ("method", "task_options", *OF_THE_MACHINE)
_Values = dict[str, JsonValue]  # a config checks each by its Option
_CONTENT = tuple[list[str], _Values, _Values, bool]


def encode(settings: Settings) -> str:
    """The share code of these settings. What belongs to the machine is left out.

    Raises ValueError for settings whose texts are too long for a code.
    """
    usual, values = TrainConfig.preset("demo").to_json(), settings.config.to_json()
    if settings.config.model == "auto":
        values["model"] = usual["model"]
    changed = {k: v for k, v in values.items() if k not in _LEFT_OUT and usual[k] != v}
    if values["set_size"] != values["m"]:  # which it would else follow
        changed["set_size"] = values["set_size"]
    plain = [settings.methods, changed | settings.config.task_options, settings.chosen]
    text = json.dumps([*plain, settings.many], separators=(",", ":"), ensure_ascii=False).encode()
    code = f"{VERSION}-" + packed(text, safe=True)
    if len(text) > MOST_CONTENT or len(code) > MOST_TEXT:
        raise ValueError(
            f"the settings take {len(text):,} bytes, and {len(code):,} packed; a share code takes "
            f"{MOST_CONTENT:,} and {MOST_TEXT:,}: shorten the texts among the task's options"
        )
    return code


def decode(code: str, *, machine: dict | None = None) -> Settings:
    """The settings that a code describes.

    machine: values of `OF_THE_MACHINE`, which no code holds. Raises DamagedError for a text that is
    no code or was mistyped, and ValueError for a code that asks for what this version lacks.
    """
    methods, settings, chosen, many = _content(code)
    settings = {n: value for n, value in (settings | chosen).items() if n not in OF_THE_MACHINE}
    try:
        check_code(settings)
        settings |= machine or {}
        return Settings.of(methods, settings, many=many)
    except ValueError as error:
        why = shortened(str(error), 500)
        raise ValueError(f"code {shown(code)} cannot be used here: {why}") from error


def check_code(settings: dict) -> None:
    """Refuse a task, and functions among its options, outside of the package whose module is not
    imported yet. settings: those of a config and of its task, by name.

    What comes from a stranger may not name the code that is run here.

    >>> check_code({"task": DEFAULT})
    >>> check_code({"task": "antigravity:Task"})
    Traceback (most recent call last):
    ...
    ValueError: task 'antigravity:Task' is not part of vpo_lite: if you trust it, import it first
    """
    name = settings.get("task", DEFAULT)
    if isinstance(name, str) and ":" in name:  # a config refuses what is no name
        found = _imported(name)
        _check_known(isinstance(found, type) and issubclass(found, Task), "task", name)
    for option in task_class(task_name(name)).options:
        if option.code and isinstance(named := settings.get(option.name), str):
            for function in in_modules(named):
                of_ours = function.startswith(f"{EXAMPLE_REWARDS}:")
                _check_known(of_ours or callable(_imported(function)), option.name, function)


def _imported(name: str):
    """What ``package.module:name`` stands for if that is imported; else None."""
    module, _, path = name.partition(":")
    found = functools.reduce(
        lambda part, attribute: inspect.getattr_static(part, attribute, None),
        path.split("."),
        sys.modules.get(module),
    )
    home = getattr(unwrapped(found), "__module__", None)  # methods of builtin types have none
    homes = {name.partition(".")[0] for name in (module, home) if isinstance(name, str)}
    return found if isinstance(home, str) and not homes & sys.stdlib_module_names else None


def _check_known(known: bool, what: str, name: str) -> None:
    if not known:
        raise ValueError(
            f"{what} {shown(name)} is not part of vpo_lite: if you trust it, import it first"
        )


def _content(code: str) -> tuple:
    """(methods, settings, chosen problem, many) of a code."""
    # A mail may have wrapped it, and people copy the quotes, too.
    text = "".join(code.split()).strip("\"'`\u200b\ufeff") if isinstance(code, str) else ""
    version, _, rest = text.partition("-")
    what = f"code {shown(code)}: no share code, or mistyped; copy the whole share code again"
    if version != VERSION:
        raise DamagedError(f"{what} (it begins with {VERSION}-)")
    if len(text) > MOST_TEXT:
        raise DamagedError(f"{what} (at most {MOST_TEXT:,} characters)")
    try:
        plain = unpacked(rest, most=MOST_CONTENT, safe=True)
    except ValueError as error:
        raise DamagedError(f"{what} (it {error})") from error
    return parse_json(plain, _CONTENT, what)
