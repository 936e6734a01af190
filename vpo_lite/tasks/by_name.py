"""What a name of the form ``package.module:Name`` stands for."""

import functools
import importlib.machinery
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from .. import estimators
from ..checks import raised, shortened, shown
from ..messages import did_you_mean

MOST_NAMES = 10_000  # characters
HERE = f"{Path(__file__).parent.parent}{os.sep}"


def attribute(name: str, what: str) -> Any:
    """The class, function or value that is named as ``package.module:Name``.

    The current folder is looked through, too. what: what it should be, for the message of the
    ValueError that is raised where nothing has this name, or where its module cannot be imported.

    >>> attribute("math:hypot", "function")(3, 4)
    5.0
    """
    module_name, _, path = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # an installed command starts without this folder
    try:
        found = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # an import can fail in any way, and end a script
        raise ValueError(f"{what} {shown(name)}: {_why(error, module_name)}") from error
    for part in path.split("."):
        try:
            there = hasattr(found, part)
        except Exception as error:  # a module may import what it names when it is asked for it
            failed = f"cannot be looked up ({raised(error)})"
            raise ValueError(f"{what} {shown(name)}: {failed}") from error
        if not there:
            near = did_you_mean([part], [n for n in dir(found) if not n.startswith("_")])
            cure = f"module {module_name} has no {shown(path)}{near}"
            own, file = f"{module_name}.py", getattr(sys.modules[module_name], "__file__", None)
            if os.path.exists(own) and not (file and os.path.samefile(file, own)):
                cure = f"module {module_name} is {file or 'built in'}; rename your {own}"
            if "<locals>" in path:
                cure = "it is defined inside of a function; define it outside of all functions"
            elif module_name == "__main__":
                cure = (
                    "what a notebook or a script defines is known there alone; write it into a "
                    f"file, mine.py, and name it as mine:{path}, also in the config.json of a run"
                )
            raise ValueError(f"{what} {shown(name)}: cannot be found; {cure}")
        found = getattr(found, part)
    return found


def lies_in(folder, name: str) -> bool:
    """Whether a file in this folder could be imported for ``package.module:Name``. Imports nothing.

    >>> lies_in(HERE, "vpo_lite.metrics:coverage"), lies_in(HERE, "json:loads")
    (True, False)
    """
    module, colon, _ = name.partition(":")
    suffixes = importlib.machinery.all_suffixes()
    ends = [*suffixes, *(f"{os.sep}__init__{suffix}" for suffix in suffixes)]
    files = []
    for place in {*sys.path, ""} if colon else ():
        for part in module.split("."):
            stem = os.path.join(place, part)
            files += [Path(stem + end) for end in ends if os.path.isfile(stem + end)]
            if not os.path.isdir(place := stem):
                break
    around = {place for f in files for place in (*f.absolute().parents, *f.resolve().parents)}
    return any(os.path.samefile(place, folder) for place in around)


def unwrapped(function: Any) -> Any:
    """The function inside of a functools.partial; anything else as it is."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def in_modules(names: str) -> list[str]:
    """The full names in a text of names between commas. One without a module is in the module
    before it; in the first place it stays without. Raises ValueError for a text that is too long.

    >>> in_modules("rewards:correct, brief, others:polite")
    ['rewards:correct', 'rewards:brief', 'others:polite']
    """
    if len(names) > MOST_NAMES:
        raise ValueError(f"{shown(names)}: at most {MOST_NAMES:,} characters of names")
    found, module = [], ""
    for part in names.split(","):
        before, colon, name = part.strip().rpartition(":")
        module = before if colon else module
        found.append(f"{module}:{name}" if module else name)
    return found


def method_name(method: Any) -> str:
    """The name in METHODS of a method, which may be named as ``package.module:function``. Then its
    module is imported if it is not there yet.

    Raises ValueError for an unknown method, and where a module registers no such method.
    """
    named = isinstance(method, str)
    _, colon, name = method.rpartition(":") if named else ("", "", "")
    if colon and full_name(name) != method:
        function = attribute(method, "method")
        name = getattr(function, "__name__", "")  # a package may give it another one
        if getattr(estimators.METHODS.get(name), "estimate", None) is not function:
            raise ValueError(f"method {shown(method)}: decorate it with @vpo.estimators.method()")
    if name not in estimators.METHODS:
        known = shortened(", ".join(estimators.METHODS), 500)
        raise ValueError(
            f"unknown method {shown(method)}: there are {known}, or yours as "
            f"'package.module:function'{did_you_mean([name], estimators.METHODS)}"
        )
    return name


def full_name(method: str) -> str:
    """The name under which :func:`method_name` finds a method again, also one in a class; that of a
    shipped one is short.
    """
    how = estimators.METHODS.get(method)
    if how is None or how.ours:
        return method
    function = how.estimate
    path = getattr(function, "__qualname__", method)
    in_a_class = path.endswith(f".{method}") and "<locals>" not in path
    return f"{function.__module__}:{path if in_a_class else method}"


def _why(error: BaseException, module: str) -> str:
    """Why a module cannot be imported: it is not there, or it is and fails."""
    kind, _, said = raised(error).partition(": ")
    absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
    odd = not module or module.startswith(".") or "/" in module
    if absent or odd:
        file = module.removesuffix(".py").replace(".", "/") + ".py"
        cure = f"start where {shown(file)} lies, or name that folder in PYTHONPATH"
        if "/" in module and (stem := Path(module).stem):
            cure = f"start in the folder of {stem}.py, and name it as {stem}:Name"
        elif module.endswith(".py"):
            cure = "name it without .py"
        elif odd:
            cure = "name it as package.module:Name"
        return f"cannot be found ({said}); {cure}"
    if isinstance(error, SystemExit):
        cure = 'put what runs as a script under if __name__ == "__main__"'
        return f"its module ends the process when it is imported (exit {said}); {cure}"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith((HERE, "<"))]  # nor made code
    at = (theirs or frames)[-1]  # what called a check of ours
    where = "" if isinstance(error, SyntaxError) else f", line {at.lineno} of {at.filename}"
    return f"its module cannot be imported ({kind}: {said}{where})"
