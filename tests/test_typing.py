"""What editors and type checkers are told: every public name, what it takes and what it returns."""

import ast
import importlib
import inspect
import typing
from importlib.util import resolve_name
from pathlib import Path

import pytest

import envs
import vpo_lite as vpo

ROOMS = (
    "envs",
    "vpo_lite",
    "vpo_lite.decomposition",
    "vpo_lite.figures",
    "vpo_lite.lab",
    "vpo_lite.search.best_of",
    "vpo_lite.tasks",
    "vpo_lite.teaching",
)


@pytest.mark.parametrize("room", [vpo, vpo.figures])
def test_the_names_that_type_checkers_see_are_those_that_are_loaded_on_first_use(room):
    tree = ast.parse(Path(room.__file__).read_text(encoding="utf-8"))
    (block,) = (node.body for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block:
        for alias in node.names:
            assert alias.asname == alias.name  # a plain import would not be public
            module = resolve_name("." * node.level + (node.module or ""), room.__name__)
            found = importlib.import_module(module)
            if not hasattr(found, alias.name):
                found = importlib.import_module(f"{module}.{alias.name}")
            seen[alias.name] = getattr(found, alias.name, found)
    public = {*room.__all__, *(["figures"] if room is vpo else [])}
    assert list(seen) and set(seen) == public <= set(dir(room))
    for name, value in seen.items():
        assert getattr(room, name) is value


def public() -> dict[str, typing.Any]:
    """The public functions and methods, by name. A public module stands for all that it defines."""
    found = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in [*module.__all__, "figures"] if module is vpo else module.__all__:
            value = getattr(module, name)
            parts = {name: value}
            if inspect.ismodule(value):
                room = own = value.__name__
                parts = {n: p for n, p in vars(value).items() if n[0] != "_"}
                parts = {n: p for n, p in parts.items() if getattr(p, "__module__", "") == own}
            for inner, part in parts.items():
                if inner not in vpo.METHODS:  # called by the table alone, which says with what
                    found |= functions_of(f"{room}.{inner}", part)
    return found


def functions_of(name, value) -> dict[str, typing.Any]:
    """The function itself; of a class its constructor, public methods and properties."""
    if inspect.isfunction(value):
        return {name: value}
    found = {}
    for attribute, part in vars(value).items() if inspect.isclass(value) else ():
        part = getattr(part, "__func__", getattr(part, "fget", getattr(part, "func", part)))
        if inspect.isfunction(part) and (attribute == "__init__" or attribute[0] != "_"):
            found[f"{name}.{attribute}"] = part
    return found


def lacks(function, made: bool) -> list[str]:
    """What of a function has no type: parameters, and its result, unless it is a constructor."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    missing = [p.name for p in parameters if p.annotation is p.empty]
    return missing + ["return"] * (not made and signature.return_annotation is signature.empty)


def test_public_functions_say_what_they_take_and_return():
    functions = public()
    missing = {name: lacks(f, name.endswith("__init__")) for name, f in functions.items()}
    untyped = {name: m for name, m in missing.items() if m}
    assert not untyped, f"annotate the parameters and the result of: {untyped}"
    assert len(functions) > 150
    later = dict.fromkeys(("Figure", "FigureWidget", "Panel"), object)  # read by checkers alone
    later |= {"Maze": envs.Maze, "StepRecord": vpo.StepRecord}
    for function in functions.values():
        typing.get_type_hints(function, localns=later)  # raises for a name that nothing has


def test_help_shows_types_by_their_names():
    """Not the protocols behind NumPy's ArrayLike: help(vpo.advantages) began with 2,000 letters."""
    shown = {name: str(inspect.signature(function)) for name, function in public().items()}
    assert not [name for name, text in shown.items() if "numpy._typing" in text]
    assert "R: 'Rewards'" in shown["vpo_lite.advantages"]


def test_a_missing_type_is_found():
    assert lacks(lambda x, *, y=1: x, made=False) == ["x", "y", "return"]
