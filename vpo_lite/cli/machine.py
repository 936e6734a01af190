"""What this machine has for training and notebooks, and the start of JupyterLab."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from ..classroom import notebooks
from ..classroom.check import CHROMIUM, LAB, version
from ..classroom.notebooks import PACKAGE, install_command
from ..classroom.serve import check_jupyter_writes
from ..messages import shown_path
from ..policy import shipped
from ..tasks import sandbox

ROOT = PACKAGE.parent
# Voila, which JupyterLab loads, shows what is deprecated in Jupyter's own code: a newcomer's first
# line.
JUPYTERLAB = """
import contextlib, warnings
with contextlib.suppress(ImportError):
    import voila
warnings.filterwarnings("ignore", category=DeprecationWarning, module="traitlets")
from jupyterlab.labapp import main
main()
"""
DEFAULTS = PACKAGE / "classroom" / "etc"  # of JupyterLab: it asks nobody about news
_TRAINING = ["numpy", "scipy", "gymnasium", "moocore", "torch", "transformers", "peft"]
_TRAINING += ["safetensors", "pydantic", "filelock", "tqdm"]
_OPTIONAL = {  # what each is for
    "trl": "--engine trl",
    "verl": "training on a cluster",
    "pyarrow": "parquet, export verl",
    "bitsandbytes": "--load-in 8bit or 4bit",
    "openevolve": "vpo_lite.search.openevolve",
}


def examine() -> int:
    """Print what was found on this machine; returns 1 if something is missing, else 0."""
    faults = []
    print(
        f"python {platform.python_version()} on {platform.system()} {platform.machine()}, "
        f"{sandbox.cores()} of {os.cpu_count()} cores"
    )
    for title, names, cure in (
        ("training", _TRAINING, install_command()),
        ("notebooks", LAB, install_command("lab")),
    ):
        found = {name: version(name) for name in names}
        print(f"{title}: " + ", ".join(f"{n} {v}" for n, v in found.items() if v))
        missing = [n for n, v in found.items() if not v]
        if missing:
            faults.append(f"missing for {title}: {', '.join(missing)}; cure: {cure}")
    found = {name: version(name) for name in _OPTIONAL}
    there = [f"{name} {v or 'absent'} ({_OPTIONAL[name]})" for name, v in found.items()]
    print(f"optional: {', '.join(there)}")
    if version("torch"):
        _print_device()
    print(f"pocket policies: {', '.join(shipped.names()) or 'none'}")
    print(f"sandbox for answers in Python: {sandbox.described()}")
    if not shipped.names():
        faults.append(
            "missing: the pocket policies' parameters; cure: git checkout vpo_lite/pocket/weights"
        )
    ours, found = ROOT / "envs" / "__init__.py", importlib.util.find_spec("envs")
    if found is None or not ours.is_file():
        faults.append(f"the package envs is missing; cure: {install_command()}")
    elif found.origin is None or Path(found.origin) != ours:
        faults.append(
            f"another package named envs shadows ours: {found.origin}; "
            "cure: set PYTHONSAFEPATH=1, or start from another folder"
        )
    browsers = [name for name in CHROMIUM if shutil.which(name)]
    print(
        "browser for the tests: "
        f"{browsers[0] if browsers else 'none on PATH (only the browser tests need one)'}"
    )
    for fault in faults:
        print(fault, file=sys.stderr)
    print("ready" if not faults else f"{len(faults)} thing(s) missing")
    return 1 if faults else 0


def _print_device() -> None:
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        print(f"device: cuda, {torch.cuda.get_device_name(0)} with {memory:.0f} GiB")
    else:
        print("device: cpu (no GPU found; all that ships runs on it)")
    waiting = os.environ.get("OMP_WAIT_POLICY", "unset")
    print(
        f"threads: torch uses {torch.get_num_threads()} of {sandbox.cores()}, OMP_WAIT_POLICY "
        f"{waiting}"
    )


def opens_browser(browser: str) -> bool:
    """Whether to open a browser window: "yes", "no" or "auto", which is yes where there is a
    display.
    """
    display = (
        sys.platform in ("darwin", "win32")
        or os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
    )
    return browser == "yes" or (browser == "auto" and bool(display))


def start_jupyter(folder: Path | None, port: int, browser: str) -> int:
    """Start JupyterLab on the first notebook, also as root and without a display.

    folder: with the notebooks; None: those of the repository. browser: see :func:`opens_browser`.
    Raises ValueError where JupyterLab or the notebooks are missing, or Jupyter cannot write.
    """
    root, opened = _to_open(folder)
    if importlib.util.find_spec("jupyterlab") is None:
        raise ValueError(f"jupyterlab is not installed; cure: {install_command('lab')}")
    check_jupyter_writes()
    command = [
        sys.executable,
        "-c",
        JUPYTERLAB,
        f"--port={port}",
        f"--ServerApp.root_dir={root}",
        "--log-level=WARN",
        "--LabApp.log_level=WARN",
        f"--LabApp.default_url=/lab/tree/{quote(opened)}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
    ]
    if not opens_browser(browser):
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    # Defaults for settings that no option of the command line has; a user's own settings win.
    paths = filter(None, [str(DEFAULTS), os.environ.get("JUPYTER_CONFIG_PATH")])
    environment = {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    if os.name == "nt":
        return subprocess.call(command, env=environment)
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)
    return 0


def _to_open(folder: Path | None) -> tuple[Path, str]:
    """(JupyterLab's root folder, the notebook in it) for a folder with notebooks."""
    if folder is None:
        if not notebooks.in_repository():  # those of the package are not to be edited
            raise ValueError(
                "no notebooks here; cure: vpo-lite notebooks copy vpo_notebooks, then vpo-lite lab "
                "vpo_notebooks"
            )
        folder = notebooks.folder()
        return ROOT, f"{folder.name}/{notebooks.FIRST}"
    if not folder.is_dir():
        raise ValueError(
            f"{shown_path(folder)}: no such folder; cure: vpo-lite notebooks copy FOLDER"
        )
    there = [name for name in notebooks.names(folder) if not name.startswith(".")]
    first = next((name for name in there if name.endswith(".ipynb")), None)
    if first is None:
        raise ValueError(
            f"{shown_path(folder)}: holds no notebooks; cure: vpo-lite notebooks copy FOLDER"
        )
    return folder.resolve(), first
