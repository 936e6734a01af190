"""Names of a package that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy(package: str, modules: Mapping[str, str]) -> tuple[Callable, Callable]:
    """``__getattr__`` and ``__dir__`` of a package whose public names load their module, and what
    that imports, on first use.

    modules: {name: module}; a name that is its module's own is the whole module

    >>> load, _ = lazy("vpo_lite", {"markdown_table": "markup", "markup": "markup"})
    >>> load("markup").markdown_table is load("markdown_table")
    True
    """

    def load(name: str):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{modules[name]}", package)
        value = module if name == modules[name] else getattr(module, name)
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, names
