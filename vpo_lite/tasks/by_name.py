"""What a name of the form ``package.module:Name`` stands for."""

import importlib
import os
import sys
from typing import Any

from ..checks import shortened, shown


def attribute(name: str, what: str) -> Any:
    """The class, function or value that is named as ``package.module:Name``.

    The current folder is looked through, too. what: what it should be, for the message of the
    ValueError that is raised where nothing has this name.

    >>> attribute("math:hypot", "function")(3, 4)
    5.0
    """
    module_name, _, path = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # an installed command starts without this folder
    try:
        found = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        file = module_name.removesuffix(".py").replace(".", "/") + ".py"
        cure = f"start where {shown(file)} lies, or name that folder in PYTHONPATH"
        if module_name.endswith(".py"):
            cure = "name it without .py"
        elif module_name == "__main__":
            cure = "what a notebook or a script defines is known there alone; write it into a file"
        raise ValueError(
            f"{what} {shown(name)}: cannot be found ({shortened(str(error), 300)}); {cure}"
        ) from error
    return found
