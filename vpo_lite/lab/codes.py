"""Share codes: the settings of a lab as a short text, and back. They work offline.

A code is ``VPO2-`` and base64 of compressed JSON: [methods, settings, chosen problem, many].
Settings are those that differ from the preset demo, the task's options among them. Codes of 0.1.0
begin with ``VPO1-`` and are read, too.
"""

import base64
import json
import zlib

from ..tasks import DEFAULT
from ..tasks.base import task_class
from ..training.config import TrainConfig
from .settings import NOT_SHARED, Settings

_LEFT_OUT = ("method", "task_options", *NOT_SHARED)


def encode(settings: Settings) -> str:
    """The share code of these settings. What belongs to the machine is left out."""
    usual, values = TrainConfig.preset("demo").to_json(), settings.config.to_json()
    if settings.config.model == "auto":
        values["model"] = usual["model"]
    changed = {k: v for k, v in values.items() if k not in _LEFT_OUT and usual[k] != v}
    plain = [settings.methods, changed | settings.config.task_options, settings.chosen]
    text = json.dumps([*plain, settings.many], separators=(",", ":"))
    return "VPO2-" + base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def decode(code: str, *, machine: dict | None = None) -> Settings:
    """The settings that a code describes.

    machine: values of `NOT_SHARED`, which no code holds. Raises ValueError for a text that is
    no code or was mistyped, and for a code of another version that asks for what this one lacks.
    """
    version, content = _unpacked(code)
    try:
        methods, settings, chosen, many = content if version == "VPO2" else _of_010(*content)
        return Settings.make(methods, many=many, **settings | chosen | (machine or {}))
    except (ValueError, TypeError) as error:
        raise ValueError(f"code {code!r} was made by another version: {error}") from error


def _unpacked(code: str) -> tuple[str, list]:
    text = str(code).strip()
    version, dash, rest = text.partition("-")
    try:
        if version not in ("VPO1", "VPO2") or not dash:
            raise ValueError("it begins with VPO2- or VPO1-")
        padded = rest + "=" * (-len(rest) % 4)
        packed = base64.b64decode(padded, altchars=b"-_", validate=True)
        return version, json.loads(zlib.decompress(packed))
    # A letter lost or wrong: base64, zlib's checksum or JSON finds it.
    except (ValueError, zlib.error) as error:
        cure = "no share code, or mistyped; copy the whole of what lab.share() gives"
        raise ValueError(f"code {text[:60]!r}: {cure}") from error


def _of_010(methods, problem, settings, many):
    """0.1.0 had one task, and named its problem by its seed or as [text, budget]."""
    seed, *drawn = task_class(DEFAULT).singles_out
    chosen = {seed: problem} if isinstance(problem, int) else dict(zip(drawn, problem, strict=True))
    return methods, settings, chosen, many
