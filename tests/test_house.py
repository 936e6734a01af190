"""The house stands: packages and arrows, words, lengths. The tables are the rules.

Each check takes the root of a source tree and returns what is wrong, one line for each fault. The
first part applies the checks to this repository. The second part applies them to small trees, each
with one fault, and so proves that every check can fail.
"""

import ast
import functools
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

# --- the rules ------------------------------------------------------------------------------------

CORE = "objective exact estimators metrics randomness checks messages options files locks markup "
CORE += "hedging negative_controls intervals names odd_rewards awaiting lazy"
FILES = {  # files of vpo_lite that are no folder -> their package; a folder has its own name
    **dict.fromkeys(CORE.split(), "core"),
    "__init__": "front door",
    "pages": "pages",
}
ARROWS = {  # package -> the packages that it may import, besides itself
    "envs": "",
    "core": "",
    "tasks": "core",
    "policy": "core, tasks",
    "training": "core, tasks, policy",
    "pocket": "core, tasks, policy, training",
    "figures": "core",
    "search": "core, tasks, policy, training",
    "studies": "core, tasks, policy, training, search",
    "integrations": "core, tasks, policy, training",
    "decomposition": "core, figures",
    "pages": "core, training, figures, decomposition",
    "teaching": "core",
    "lab": "core, tasks, policy, training, figures",
    "classroom": "core, tasks, policy, training, lab",
    "cli": "core, tasks, policy, training, pocket, search, studies, lab, figures, "
    "decomposition, pages, integrations, classroom, teaching, front door",
    "front door": "core",  # the rest of its names are looked up in a table on first use
}
ON_MAZES = (  # files that may say the word, and import envs; each with its reason
    ("vpo_lite/tasks/maze.py", "the maze as a task"),
    ("vpo_lite/tasks/registry.py", "the table of tasks, and which is the default"),
    ("vpo_lite/pocket/maze.py", "how a policy for mazes is made"),
    ("vpo_lite/pocket/weights/*", "most policies that ship read mazes"),
    ("vpo_lite/lab/board.py", "the widget that draws a maze and lets people paint one"),
    ("vpo_lite/lab/board.js", "the same widget in the browser"),
    ("vpo_lite/lab/__init__.py", "names the session that the notebooks use"),
    ("vpo_lite/lab/maze_lab.py", "that session: choosing and drawing mazes"),
    ("vpo_lite/lab/gallery.py", "named mazes, with what to look for"),
    ("vpo_lite/lab/drawings.py", "routes and mazes as plain data for the board"),
    ("vpo_lite/lab/faces.py", "names the maze's objectives"),
    ("vpo_lite/lab/panel.py", "puts the board beside the plots"),
    ("vpo_lite/lab/player.py", "walks and draws mazes by hand"),
    ("vpo_lite/lab/controls.py", "its buttons choose mazes"),
    ("vpo_lite/lab/buttons.py", "one of them is for another maze"),
    ("vpo_lite/lab/words.py", "says what is seen on a maze, too"),
    ("vpo_lite/lab/lesson/content.py", "takes over the board of a maze"),
    ("vpo_lite/teaching/exercises/start_here.py", "exercises on the maze of notebook 00"),
    ("vpo_lite/teaching/exercises/__init__.py", "names the module of notebook 03"),
    ("vpo_lite/teaching/exercises/the_maze.py", "exercises on mazes and their fronts"),
    ("vpo_lite/teaching/exercises/train_live.py", "judges results on the maze of notebook 04"),
    ("vpo_lite/lab/recordings/__main__.py", "makes the recordings that ship"),
    ("vpo_lite/lab/recordings/*.json", "the recorded runs were made on mazes"),
    ("vpo_lite/studies/declared/*.toml", "two studies run on mazes"),
    ("vpo_lite/studies/shipped/*", "what these studies found"),
)
LIBRARIES = {  # library -> the packages or single modules that may import it
    "numpy": "envs, core, tasks, policy, training, pocket, search, studies, integrations, figures, "
    "decomposition, pages, lab, cli, teaching",
    "gymnasium": "envs",
    "scipy": "core",
    "moocore": "core",
    "torch": "policy, training, pocket, search, studies, integrations, lab, classroom.check, cli",
    "transformers": "policy.libraries, integrations.trl_run, integrations.trl_setup, "
    "integrations.trl_options, integrations.trl_steps, integrations.trl_surroundings",
    "peft": "policy.libraries",
    "tokenizers": "policy",
    "huggingface_hub": "policy, integrations.trl_surroundings",
    "safetensors": "policy, training, integrations.trl_states",
    "plotly": "figures, lab.plots, lab.ceilings, lab.panel, lab.session",
    "ipywidgets": "lab.panel, lab.controls, lab.knobs, lab.board, lab.player, teaching",
    "anywidget": "names, lab.board, lab.player",
    "traitlets": "figures.parts, lab.board, classroom.serve",
    "IPython": "figures.parts, lab.panel, lab.maze_lab",
    "tqdm": "cli",
    "pydantic": "core, tasks, policy, training, pocket, studies, lab",
    "filelock": "core",
    "pyarrow": "tasks, integrations.verl_export",
    "openevolve": "search",
    "verl": "integrations.verl, integrations.verl_estimator",
    "accelerate": "integrations.trl_run, integrations.trl_steps, integrations.trl_surroundings",
    "trl": "integrations",
    "datasets": "integrations",
    "jupyter_core": "classroom.serve",
    "voila": "classroom.serve",
    "tornado": "classroom.kernels, classroom.serve",
    "jupyter_server": "classroom.kernels",
}
LATE = {
    "IPython": "figures.parts",
    "traitlets": "figures.parts",
    "torch": "lab, classroom.check, cli",
    "jupyter_core": "classroom.serve",
    "voila": "classroom.serve",
    "tornado": "classroom.kernels, classroom.serve",
    "jupyter_server": "classroom.kernels",
    "ipywidgets": "teaching",
    "pyarrow": "tasks, integrations.verl_export",
    "openevolve": "search",
    "trl": "integrations",
    "datasets": "integrations",
}  # library -> the packages that may import it in functions only
LONGEST = 350  # lines of a file
ESCAPES = "vpo_lite/markup.py"  # the one file that turns texts into HTML
DRAWN_ELSEWHERE = {  # file that takes HTML as it is -> from whom
    "vpo_lite/pages.py": "plotly",
    "vpo_lite/lab/panel.py": "envs.drawing, which escapes for itself",
}
REASON = "Longer than 350 lines because"  # in the head of a longer file
UNFORMATTED = {}  # file -> why a table of numbers in it keeps its own layout


# --- what is read from the source -----------------------------------------------------------------


class Import(NamedTuple):
    """One imported name: by which file, on which line, and whether only when a function runs."""

    file: str
    module: str
    line: int
    target: str
    late: bool


def listed(words):
    return words.split(", ") if words else []


def python_files(root, *folders):
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(root):
    """{dotted name: path from the root} of the library."""
    names = {}
    for path in python_files(root, "envs", "vpo_lite"):
        relative = path.relative_to(root)
        parts = relative.with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = relative.as_posix()
    return names


def package_of(module):
    """The package of a module of the library; None for a file that FILES does not know.

    >>> [package_of(f"vpo_lite{rest}") for rest in (".lab.panel", ".exact", "")]
    ['lab', 'core', 'front door']
    """
    first, *rest = module.split(".")
    if first == "envs":
        return "envs"
    name = rest[0] if rest else "__init__"
    return FILES.get(name, name if name in ARROWS else None)


def imports(root) -> Iterator[Import]:
    """Every import that runs, on top of a file or inside a function."""
    for module, file in modules(root).items():
        yield from imports_in((root / file).read_text(encoding="utf-8"), module, file)


@functools.cache  # three checks ask for those of the same file
def imports_in(text, module, file) -> list[Import]:
    package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]

    def visit(node, late):
        for target in targets(node, package):
            yield Import(file, module, node.lineno, target, late)
        inner = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            if getattr(getattr(child, "test", None), "id", "") != "TYPE_CHECKING":  # never runs
                yield from visit(child, inner)

    return [*visit(ast.parse(text), False)]


def targets(node, package):
    """The dotted names that one node imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = resolve_name("." * node.level + (node.module or ""), package)
        return [f"{base}.{alias.name}" for alias in node.names]
    called = node.func if isinstance(node, ast.Call) else None
    name = getattr(called, "attr", getattr(called, "id", ""))
    if name.endswith("import_module") and node.args and isinstance(node.args[0], ast.Constant):
        return [resolve_name(node.args[0].value, package)]
    return []


def module_of(target, names):
    """The module of the library that holds this dotted name; None where there is none."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target or None


def on_mazes(file):
    return any(fnmatch(file, pattern) for pattern, _ in ON_MAZES)


# --- the checks -----------------------------------------------------------------------------------


def wrong_arrows(root):
    """Imports that CONTRIBUTING, "Packages, and what they may import", does not allow."""
    names = modules(root)
    for module, file in names.items():
        if package_of(module) is None:
            yield f"{file}: belongs to no package"
    for found in imports(root):
        target = module_of(found.target, names)
        if target is None or None in (package_of(found.module), package_of(target)):
            continue
        here, there = package_of(found.module), package_of(target)
        to_envs = there == "envs" and on_mazes(found.file)
        if here != there and there not in listed(ARROWS[here]) and not to_envs:
            yield f"{found.file}:{found.line}: {here} imports {target}, which is in {there}"


def cycles(root):
    """Circles of modules that import each other, whether on top or in functions."""
    names = modules(root)
    graph = {name: set() for name in names}
    for found in imports(root):
        target = module_of(found.target, names)
        if target not in (None, found.module):
            graph[found.module].add(target)
    done = set()

    def visit(module, path):
        if module in path:
            yield " -> ".join([*path[path.index(module) :], module])
        elif module not in done:
            for target in sorted(graph[module]):
                yield from visit(target, [*path, module])
            done.add(module)

    for module in graph:
        yield from visit(module, [])


def wrong_libraries(root):
    """Imports of libraries against LIBRARIES and LATE."""
    names = modules(root)
    for found in imports(root):
        library = found.target.partition(".")[0]
        if module_of(found.target, names) or library in sys.stdlib_module_names:
            continue
        here = {package_of(found.module), found.module.removeprefix("vpo_lite.")}
        if not here & set(listed(LIBRARIES.get(library, ""))):
            yield f"{found.file}:{found.line}: may not import {library}"
        elif not found.late and here & set(listed(LATE.get(library, ""))):
            yield f"{found.file}:{found.line}: may import {library} in a function only"


def says_maze(root):
    """Places where the library says maze and is not about mazes."""
    for path in sorted((root / "vpo_lite").rglob("*")):
        file = path.relative_to(root).as_posix()
        if not path.is_file() or on_mazes(file) or path.suffix in (".pyc", ".safetensors"):
            continue
        if "maze" in file.lower():
            yield f"{file}: its name"
        lines = path.read_text(encoding="utf-8").splitlines()
        places = [(i, line) for i, line in enumerate(lines, start=1) if "maze" in line.lower()]
        yield from (f"{file}:{i}: {line.strip()}" for i, line in places)


TAG = re.compile(r"<(/?[a-zA-Z!]|/?$)")


def unescaped(root):
    """HTML that is not made by vpo_lite/markup.py, from a written template and escaped parts."""
    for module, file in modules(root).items():
        if file == ESCAPES or package_of(module) == "envs":
            continue
        tree = parsed(root / file)
        for found in imports_of(tree):
            if found.partition(".")[0] in ("html", "markupsafe", "jinja2"):
                yield f"{file}: imports {found.partition('.')[0]}"
        if package_of(module) in ("lab", "pages", "teaching"):
            for node in ast.walk(tree):
                if tags_by_hand(node, tree, file):
                    yield f"{file}:{node.lineno}: {ast.unparse(node)[:60]}"


def imports_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def tags_by_hand(node, tree, file):
    """Whether a node puts a tag and a value together, or takes a value for HTML."""
    if isinstance(node, ast.JoinedStr):
        return any(map(is_tag, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return is_tag(node.left) or is_tag(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_tag(node.func.value)  # "<b>{}</b>".format(x), "<br>".join(x)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "html":
            return not is_written(node.args[0], tree)
        if node.func.id == "Html":
            return file not in DRAWN_ELSEWHERE and not is_written(node.args[0], tree)
    return False


def is_tag(node):
    return isinstance(node, ast.Constant) and bool(TAG.search(str(node.value)))


def is_written(node, tree):
    """Whether it is a text in the source, or a name that stands for nothing else in this file."""
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.Constant)
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == node.id]
    given = [n for n in ast.walk(tree) if isinstance(n, ast.arg) and n.arg == node.id]
    made = [
        target
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
        for target in n.targets
    ]
    bound = [n for n in stored if isinstance(n.ctx, ast.Store)]
    return not given and bool(bound) and all(any(n is t for t in made) for n in bound)


def too_long(root):
    """Files of more than 350 lines whose head does not say "Longer than 350 lines because ..."."""
    for path in (*python_files(root, "envs", "vpo_lite"), *(root / "vpo_lite").rglob("*.js")):
        text = path.read_text(encoding="utf-8")
        count = len(text.splitlines())
        if count <= LONGEST:
            continue
        if path.suffix == ".py":
            head = ast.get_docstring(ast.parse(text)) or ""
        else:
            head = "\n".join(text.splitlines()[:10])
        if REASON not in " ".join(head.split()):
            yield f"{path.relative_to(root).as_posix()}: {count} lines"


def unformatted(root):
    """Code that is kept from the formatter, outside of the files that UNFORMATTED names."""
    for path in python_files(root, "envs", "vpo_lite", "tests"):
        file = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if "fmt:" not in text:  # soon read: most files
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kept = token.type == tokenize.COMMENT and re.search(r"fmt:\s*(skip|off)", token.string)
            if kept and file not in UNFORMATTED:
                yield f"{file}:{token.start[0]}: {token.string}"


def stubs(root):
    """Code that only stands for code: asserts of a constant, NotImplementedError."""
    for path in python_files(root, "envs", "vpo_lite", "tests"):
        for node in ast.walk(parsed(path)):
            constant = isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant)
            missing = isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node)
            if constant or missing:
                file = path.relative_to(root).as_posix()
                yield f"{file}:{node.lineno}: {ast.unparse(node)}"


def idle_rules(root):
    """Lines of the tables that no file needs any more."""
    packages = {package_of(module) for module in modules(root)}
    yield from (f"ARROWS: no file is in {name}" for name in ARROWS if name not in packages)
    for pattern, _ in ON_MAZES:
        paths = [p for p in root.glob("vpo_lite/**/*") if p.is_file() and p.suffix != ".pyc"]
        mine = [p for p in paths if fnmatch(p.relative_to(root).as_posix(), pattern)]
        if not any(re.search(b"maze|envs", p.read_bytes().lower()) for p in mine):
            yield f"ON_MAZES: no file needs {pattern}"
    for table, files in (("UNFORMATTED", UNFORMATTED), ("DRAWN_ELSEWHERE", DRAWN_ELSEWHERE)):
        yield from (f"{table}: no {file}" for file in files if not (root / file).exists())


# --- this repository ------------------------------------------------------------------------------

CHECKS = (
    wrong_arrows,
    cycles,
    wrong_libraries,
    says_maze,
    unescaped,
    too_long,
    unformatted,
    stubs,
    idle_rules,
)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_house_keeps_its_rules(check):
    wrong = list(check(ROOT))
    if wrong:
        pytest.fail("\n".join([check.__doc__, *wrong]), pytrace=False)


RUN = "tests/data/run"
LIGHT = {  # what is done -> the libraries that it must not load
    "import vpo_lite": "gymnasium torch transformers peft plotly ipywidgets",
    "import vpo_lite; vpo_lite.advantages": "gymnasium torch scipy.stats",
    "import vpo_lite.cli.commands": "gymnasium torch transformers plotly ipywidgets scipy.stats",
    "import vpo_lite; vpo_lite.TrainConfig.preset('demo')": "torch transformers plotly ipywidgets",
    "from vpo_lite.lab import Lab; Lab()": "ipywidgets anywidget",
    f"import vpo_lite; vpo_lite.compare({RUN!r})": "torch transformers peft plotly",
    "from vpo_lite.studies import plan, searches, tables": "gymnasium torch transformers peft",
    "from vpo_lite.figures import looks": "torch plotly",
    "import vpo_lite.integrations.rewards": "gymnasium torch transformers peft plotly",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", LIGHT)
def test_loads_nothing_that_it_does_not_need(code):
    told = f"{code}; import sys; print(*set({LIGHT[code].split()}).intersection(sys.modules))"
    settings = {**os.environ, "VPO_LITE_COLD": "1"}  # no warming up in the background
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=ROOT, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_method_is_as_short_as_the_guide_says():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    part = guide.split("## The method in nine files")[1].split("\n## ")[0]
    said = int(re.search(r"less than ([\d,]+) lines", part)[1].replace(",", ""))
    files = [ROOT / "vpo_lite" / name for name in re.findall(r"`([a-z/]+\.py)`", part)]
    lines = sum(len(x.read_text(encoding="utf-8").splitlines()) for x in files)
    assert len(files) == 9 and said - 500 < lines < said


def test_the_map_in_contributing_shows_this_house():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in {*ARROWS} - {"front door", "core"}:
        assert re.search(rf"^\| `(vpo_lite/)?{name}[/.]", guide, re.MULTILINE), f"{name} is missing"
    named = re.findall(r"`((?:vpo_lite|envs|tests|notebooks)/[\w/.]*)`", guide)
    assert named
    gone = [path for path in named if not ((ROOT / path).exists() or re.search("NAME|NN", path))]
    assert not gone, gone


# --- small trees with one fault each --------------------------------------------------------------

LONG = "x = 1\n" * 360
SOUND = {
    **{file: "# a maze\n" for file, _ in ON_MAZES if "*" not in file},
    "envs/__init__.py": "from .front import front",
    "envs/front.py": "import gymnasium\nimport numpy as np\n",
    "vpo_lite/__init__.py": "from .objective import set_reward\n_LAZY = {'Lab': 'lab'}\n",
    "vpo_lite/objective.py": "from scipy import stats\ndef f():\n    from .exact import g\n",
    "vpo_lite/exact.py": f'"""Exact.\n\nLonger than 350\nlines because it is."""\n{LONG}',
    "vpo_lite/tasks/__init__.py": "from .base import Task\n",
    "vpo_lite/tasks/base.py": "from ..objective import set_reward\n",
    "vpo_lite/tasks/maze.py": "import envs  # mazes\nfrom .base import Task\n",
    "vpo_lite/policy/policy.py": "import torch\nfrom ..tasks.base import Task\n",
    "vpo_lite/training/step.py": "import torch\nfrom .. import objective\nfrom . import loss\n",
    "vpo_lite/training/loss.py": "import torch\n",
    "vpo_lite/pocket/maze.py": "import envs  # Mazes\n",
    "vpo_lite/pocket/pretrain.py": "import torch\nfrom ..training.step import Learner\n",
    "vpo_lite/pocket/weights/model.safetensors": "maze",
    "vpo_lite/search/best_of.py": "import numpy as np\n",
    "vpo_lite/studies/runner.py": "from ..search import best_of\n",
    "vpo_lite/studies/declared/one.toml": "layout = 'a maze'\n",
    "vpo_lite/studies/shipped/one/run.json": '{"task": "maze"}\n',
    "vpo_lite/integrations/rewards.py": "from ..training import step\n",
    "vpo_lite/figures/__init__.py": "",
    "vpo_lite/figures/series.py": "import plotly.graph_objects as go\n",
    "vpo_lite/decomposition/report.py": "def f():\n    from .. import figures\n",
    "vpo_lite/teaching/guess.py": "def f():\n    import ipywidgets\n",
    "vpo_lite/pages.py": "from . import figures\nx = '<p>{}'\nhtml(x, Html(f(x)))\n",
    "vpo_lite/lab/__init__.py": "from .session import Lab  # on a maze\n",
    "vpo_lite/lab/session.py": "def f():\n    import torch\n    from .panel import Panel\n",
    "vpo_lite/lab/panel.py": "import ipywidgets  # beside the maze\nfrom .board import Board\n",
    "vpo_lite/lab/board.py": "import envs, anywidget\nfrom envs.drawing import walk  # a maze\n",
    "vpo_lite/lab/board.js": "// The maze\n",
    "vpo_lite/lab/recordings/one/recording.json": '{"task": "maze"}\n',
    "vpo_lite/classroom/serve.py": "def f():\n    import voila\n",
    "vpo_lite/cli.py": "from . import __version__\ndef f():\n    from .pocket import pretrain\n",
    "tests/test_x.py": "def test_x():\n    text = 'fmt: skip'\n    assert text  # assert True\n",
}


def build(root, files):
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_sound_house_passes(tmp_path, check):
    assert list(check(build(tmp_path, SOUND))) == []


FAULTS = [
    (wrong_arrows, "vpo_lite/news.py", "", "vpo_lite/news.py: belongs to no package"),
    (wrong_arrows, "vpo_lite/nowhere/a.py", "", "vpo_lite/nowhere/a.py: belongs to no package"),
    (
        wrong_arrows,
        "vpo_lite/metrics.py",
        "from .tasks import Task",
        "vpo_lite/metrics.py:1: core imports vpo_lite.tasks, which is in tasks",
    ),
    (
        wrong_arrows,
        "vpo_lite/tasks/hops.py",
        "def f():\n    import vpo_lite.training.step",
        "vpo_lite/tasks/hops.py:2: tasks imports vpo_lite.training.step, which is in training",
    ),
    (
        wrong_arrows,
        "vpo_lite/policy/policy.py",
        "f = lambda: importlib.import_module('..lab', __package__)",
        "vpo_lite/policy/policy.py:1: policy imports vpo_lite.lab, which is in lab",
    ),
    (
        wrong_arrows,
        "vpo_lite/cli.py",
        "import envs",
        "vpo_lite/cli.py:1: cli imports envs, which is in envs",
    ),
    (
        wrong_arrows,
        "vpo_lite/lab/view.py",
        "from envs.front import front",
        "vpo_lite/lab/view.py:1: lab imports envs.front, which is in envs",
    ),
    (
        wrong_arrows,
        "envs/front.py",
        "import vpo_lite",
        "envs/front.py:1: envs imports vpo_lite, which is in front door",
    ),
    (
        wrong_arrows,
        "vpo_lite/training/step.py",
        "from .. import __version__",
        "vpo_lite/training/step.py:1: training imports vpo_lite, which is in front door",
    ),
    (
        cycles,
        "vpo_lite/exact.py",
        "from .objective import f",
        "vpo_lite.objective -> vpo_lite.exact -> vpo_lite.objective",
    ),
    (
        cycles,
        "vpo_lite/lab/board.py",
        "class A:\n    async def f(self):\n        from . import session",
        "vpo_lite.lab.session -> vpo_lite.lab.panel -> vpo_lite.lab.board -> vpo_lite.lab.session",
    ),
    (wrong_libraries, "envs/front.py", "import scipy", "envs/front.py:1: may not import scipy"),
    (
        wrong_libraries,
        "vpo_lite/objective.py",
        "import torch.nn",
        "vpo_lite/objective.py:1: may not import torch",
    ),
    (
        wrong_libraries,
        "vpo_lite/lab/view.py",
        "import plotly",
        "vpo_lite/lab/view.py:1: may not import plotly",
    ),
    (
        wrong_libraries,
        "vpo_lite/lab/session.py",
        "import torch",
        "vpo_lite/lab/session.py:1: may import torch in a function only",
    ),
    (
        wrong_libraries,
        "vpo_lite/teaching/guess.py",
        "import ipywidgets",
        "vpo_lite/teaching/guess.py:1: may import ipywidgets in a function only",
    ),
    (
        wrong_libraries,
        "vpo_lite/pages.py",
        "def f():\n    import pandas",
        "vpo_lite/pages.py:2: may not import pandas",
    ),
    (says_maze, "vpo_lite/cli.py", "x = 1\n# A Maze", "vpo_lite/cli.py:2: # A Maze"),
    (says_maze, "vpo_lite/lab/help.md", "MAZES", "vpo_lite/lab/help.md:1: MAZES"),
    (says_maze, "vpo_lite/lab/maze_view.py", "", "vpo_lite/lab/maze_view.py: its name"),
    (unescaped, "vpo_lite/cli.py", "import html", "vpo_lite/cli.py: imports html"),
    (
        unescaped,
        "vpo_lite/figures/series.py",
        "def f():\n    from markupsafe import Markup",
        "vpo_lite/figures/series.py: imports markupsafe",
    ),
    *(
        (unescaped, file, code, f"{file}:1: {code}")
        for file in ("vpo_lite/lab/session.py", "vpo_lite/pages.py", "vpo_lite/teaching/a.py")
        for code in (
            "f'<b>{x}</b>'",
            "f'<{x}>'",
            "'<b>' + x",
            "x % '</b>'",
            "'<p>{}'.format(x)",
            "'<br>'.join(x)",
            "html(x)",
            "html(f(x))",
        )
    ),
    (unescaped, "vpo_lite/lab/board.py", "Html(x)", "vpo_lite/lab/board.py:1: Html(x)"),
    (
        unescaped,
        "vpo_lite/lab/board.py",
        "t = '<b>'\ndef f(t):\n    html(t)",
        "vpo_lite/lab/board.py:3: html(t)",
    ),
    (too_long, "vpo_lite/cli.py", LONG, "vpo_lite/cli.py: 360 lines"),
    (too_long, "vpo_lite/lab/board.js", LONG, "vpo_lite/lab/board.js: 360 lines"),
    (too_long, "envs/front.py", f"{LONG}# {REASON}", "envs/front.py: 361 lines"),
    (unformatted, "vpo_lite/cli.py", "x = 1  # fmt: skip", "vpo_lite/cli.py:1: # fmt: skip"),
    (unformatted, "tests/test_x.py", "\n# fmt:off\nx = 1", "tests/test_x.py:2: # fmt:off"),
    (
        stubs,
        "tests/test_x.py",
        "def test_x():\n    assert True",
        "tests/test_x.py:2: assert True",
    ),
    (
        stubs,
        "vpo_lite/cli.py",
        "def f():\n    raise NotImplementedError('later')",
        "vpo_lite/cli.py:2: raise NotImplementedError('later')",
    ),
    (idle_rules, "vpo_lite/lab/board.js", "", "ON_MAZES: no file needs vpo_lite/lab/board.js"),
]


@pytest.mark.parametrize(
    ("check", "file", "text", "said"), FAULTS, ids=[f"{f[0].__name__}-{f[1]}" for f in FAULTS]
)
def test_a_fault_is_found(tmp_path, check, file, text, said):
    assert said in list(check(build(tmp_path, {**SOUND, file: text})))


def test_a_package_that_is_gone_leaves_an_idle_rule(tmp_path):
    sound = {file: text for file, text in SOUND.items() if "/policy/" not in file}
    assert list(idle_rules(build(tmp_path, sound))) == ["ARROWS: no file is in policy"]


def test_no_arrow_points_up():
    """The table itself has no circle, so the packages can be read from the bottom to the top."""
    below = {name: set(listed(others)) for name, others in ARROWS.items()}
    while below:
        lowest = {name for name, others in below.items() if not others}
        assert lowest, f"these packages import each other: {sorted(below)}"
        below = {name: others - lowest for name, others in below.items() if name not in lowest}
