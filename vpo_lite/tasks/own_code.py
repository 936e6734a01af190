"""Code of a user's own, by content: the files of the classes and functions that a setting names."""

import ast
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..files import DamagedError
from .by_name import attribute, in_modules, unwrapped

OURS = ("vpo_lite", "envs")  # packages
# Folders of Python and of installed packages.
INSTALLED = tuple(
    {os.path.realpath(path) + os.sep for path in map(sysconfig.get_path, ("stdlib", "purelib"))}
)


class _Seen(NamedTuple):
    """What a module's file held when it was first asked for, after the import with this spec."""

    spec: ModuleSpec | None
    source: bytes


_SEEN: dict[str, _Seen] = {}  # by the module's name


def code_digest(names: str) -> str | None:
    """SHA-256, in hex, of the files that hold these classes and functions, and of the files of a
    user's own that these import when they are imported themselves; for what a notebook's cell
    defines, of its source. names: with commas between. None where no source is found, and for what
    vpo_lite ships.

    Each file counts as it was when this process first asked for it: so it runs. DamagedError where
    it has been edited since and not been imported again.
    """
    sources: dict[bytes, None] = {}
    for name in in_modules(names):
        found = unwrapped(attribute(name, "code"))
        home = getattr(found, "__module__", None) or name.partition(":")[0]
        if home.partition(".")[0] in OURS:
            continue
        module = sys.modules.get(home)
        if (getattr(module, "__file__", None) or "").endswith(".py"):
            sources |= dict.fromkeys(map(_source, _with_imports(module)))
        else:
            try:
                sources[inspect.getsource(found).encode()] = None
            except (OSError, TypeError):  # a class of a cell, before Python 3.13
                continue
    sources.pop(b"", None)
    return hashlib.sha256(b"".join(sources)).hexdigest() if sources else None


def of_user(file: str, module: str) -> bool:
    """Whether neither this library, nor Python, nor an installed package holds this code."""
    ours = module.partition(".")[0] in OURS
    return not (ours or file.startswith("<") or os.path.realpath(file).startswith(INSTALLED))


def _with_imports(module: ModuleType) -> list[ModuleType]:
    """A module, then the modules of a user's own that it imports, and those that these import."""
    found, left = {module.__name__: module}, [module]
    while left:
        for name in _imported(left.pop()):
            other = sys.modules.get(name)
            file = getattr(other, "__file__", None) or ""
            if other and name not in found and file.endswith(".py") and of_user(file, name):
                found[name] = other
                left.append(other)
    first, *others = found
    return [found[first], *(found[name] for name in sorted(others))]


def _imported(module: ModuleType) -> Iterator[str]:
    """The names that may be modules among those that a module imports outside of functions."""
    left: list[Any] = list(ast.parse(_source(module)).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _and_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = (module.__package__ or "").split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join(filter(None, [*parts, base]))
            yield from _and_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def _and_parents(name: str) -> Iterator[str]:
    """A package is imported before what is in it.

    >>> list(_and_parents("a.b.c"))
    ['a', 'a.b', 'a.b.c']
    """
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _source(module: ModuleType) -> bytes:
    """What the file of a module holds; nothing where it cannot be read."""
    name, spec = module.__name__, getattr(module, "__spec__", None)
    try:
        source = Path(module.__file__ or "").read_bytes()
    except OSError:  # in an archive
        return b""
    seen = _SEEN.get(name)
    if seen is None or seen.spec is not spec:  # imported anew
        _SEEN[name] = seen = _Seen(spec, source)
    if seen.source != source:
        raise DamagedError(
            f"{module.__file__}: was edited after this process imported it, and what runs is as it "
            f"was; start anew, or call importlib.reload on {name}; or put the file back"
        )
    return source
