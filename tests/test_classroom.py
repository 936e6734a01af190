"""A class on this machine: copies of the notebooks, the check before it, the panel served."""

import ast
import asyncio
import contextlib
import functools
import http.client
import itertools
import json
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace

import browser_harness as harness
import pytest
from printed import refused

from vpo_lite import Lab
from vpo_lite.classroom import check, kernels, notebooks, serve
from vpo_lite.cli import machine, main
from vpo_lite.lab import recordings

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """As from a wheel: the package lies in a folder of its own, with the notebooks inside."""
    package = tmp_path / "site" / "vpo_lite"
    notebooks.copy(package / "notebooks")
    monkeypatch.setattr(notebooks, "PACKAGE", package)
    return package


@pytest.fixture
def taken():
    """A port on which something listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


# --- the notebooks --------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["course", "our course"])
def test_a_copy_holds_the_course_as_it_ships_and_says_what_is_next(folder, tmp_path, capsys):
    copied = tmp_path / "deep" / folder
    assert main(["notebooks", "copy", str(copied)]) == 0
    source = ROOT / "notebooks"
    wanted = [*source.glob("*.ipynb"), *source.glob("*.md"), *source.glob("images/*")]
    found = {p.relative_to(copied).as_posix(): p.read_bytes() for p in copied.rglob("*.*")}
    assert found == {p.relative_to(source).as_posix(): p.read_bytes() for p in wanted}
    said = capsys.readouterr().out
    assert (
        said.startswith(f"{len(wanted)} files copied")
        and shlex.join(["vpo-lite", "lab", str(copied)]) in said
    )


def test_no_link_leads_out_of_a_copy(tmp_path):
    notebooks.copy(tmp_path)
    texts = [page.read_text(encoding="utf-8") for page in tmp_path.glob("*.md")]
    for page in tmp_path.glob("*.ipynb"):
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
    links = [link for text in texts for link in re.findall(r"\]\(([^)#\s]+)", text)]
    beside = [link for link in links if "://" not in link]
    assert len(beside) > 10
    assert [link for link in beside if not (tmp_path / link).is_file()] == []


def test_a_copy_is_completed_and_nothing_else_is_written(tmp_path):
    notebooks.copy(tmp_path)
    (tmp_path / "03_the_maze.ipynb").unlink()
    (tmp_path / "mine.ipynb").write_text("{}")
    assert notebooks.copy(tmp_path) == ["03_the_maze.ipynb"]
    assert notebooks.copy(tmp_path) == []
    assert (tmp_path / "mine.ipynb").read_text() == "{}"


def test_a_changed_notebook_is_named_and_kept_and_nothing_is_copied(tmp_path, capsys):
    notebooks.copy(tmp_path)
    changed = tmp_path / "04_train_live.ipynb"
    changed.write_text("my work")
    (tmp_path / notebooks.FIRST).unlink()
    assert str(changed) in refused(capsys, "notebooks", "copy", str(tmp_path))
    assert changed.read_text() == "my work" and not (tmp_path / notebooks.FIRST).exists()


def test_a_folder_of_other_files_and_a_file_are_refused(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    assert "holds other files" in refused(capsys, "notebooks", "copy", str(tmp_path))
    file = str(tmp_path / "letter.txt")
    assert "is no folder" in refused(capsys, "notebooks", "copy", file)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_what_a_reader_left_beside_the_notebooks_is_not_copied(installed, tmp_path):
    for left in ("recordings/a/recording.json", ".ipynb_checkpoints/x.ipynb", "notes.txt"):
        path = installed / "notebooks" / left
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left")
    assert "notes.txt" not in notebooks.copy(tmp_path / "copy")
    assert not any(p.read_bytes() == b"left" for p in (tmp_path / "copy").rglob("*.*"))


def test_lab_without_a_repository_names_the_cure(installed, capsys):
    said = refused(capsys, "lab")
    assert "vpo-lite notebooks copy vpo_notebooks, then vpo-lite lab vpo_notebooks" in said
    assert notebooks.install_command("lab") == 'pip install "vpo_lite[lab]"'


def test_lab_refuses_a_folder_without_notebooks(tmp_path, capsys):
    assert "holds no notebooks" in refused(capsys, "lab", str(tmp_path))
    assert "no such folder" in refused(capsys, "lab", str(tmp_path / "nowhere"))


@pytest.mark.skipif(os.name == "nt", reason="JupyterLab does not take the place of the process")
@pytest.mark.parametrize("own", [True, False])
def test_lab_opens_the_first_notebook(tmp_path, monkeypatch, own):
    started = []
    monkeypatch.setattr(os, "execve", lambda program, command, env: started.extend(command))
    notebooks.copy(tmp_path)
    assert main(["lab", "--browser", "no", *([str(tmp_path)] if own else [])]) == 0
    root = tmp_path if own else ROOT
    assert f"--ServerApp.root_dir={root}" in started
    [url] = [part for part in started if part.startswith("--LabApp.default_url=/lab/tree/")]
    assert (root / url.removeprefix("--LabApp.default_url=/lab/tree/")).name == notebooks.FIRST
    assert (root / url.removeprefix("--LabApp.default_url=/lab/tree/")).is_file()


@pytest.mark.slow
def test_lab_shows_no_deprecation_of_jupyters_own_code(monkeypatch):
    """It was the first line that a newcomer saw: Voila, which JupyterLab loads, has it shown."""
    labapp = pytest.importorskip("jupyterlab.labapp")
    pytest.importorskip("voila")
    warn = functools.partial(warnings.warn_explicit, "old", DeprecationWarning, "traitlets.py", 1)
    monkeypatch.setattr(labapp, "main", lambda: warn(module="traitlets.traitlets", registry={}))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        labapp.main()
        assert len(shown) == 1
        exec(machine.JUPYTERLAB, {})
        assert len(shown) == 1


def test_lab_opens_a_notebook_of_any_name(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda program, command, env: started.extend(command))
    monkeypatch.setattr(subprocess, "call", lambda command, env: started.extend(command))  # Windows
    for name in ("my #1, 50% ü.ipynb", ".hidden.ipynb"):
        (tmp_path / name).write_text("{}")
    assert main(["lab", "--browser", "no", str(tmp_path)]) in (0, None)
    assert "--LabApp.default_url=/lab/tree/my%20%231%2C%2050%25%20%C3%BC.ipynb" in started


@pytest.mark.skipif(os.name == "nt", reason="JupyterLab does not take the place of the process")
def test_lab_asks_nobody_about_news(tmp_path, monkeypatch):
    """JupyterLab's question lay on the curves of every new account. A user's own setting wins."""
    (tmp_path / "own.ipynb").write_text("{}")
    started = {}
    monkeypatch.setattr(os, "execve", lambda program, command, env: started.update(env))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "mine")
    assert main(["lab", "--browser", "no", str(tmp_path)]) == 0
    ours, mine = started["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert mine == "mine" and os.environ["JUPYTER_CONFIG_PATH"] == "mine"
    asked = (
        "from jupyter_server.services.config.manager import ConfigManager as C; "
        "print(C(config_dir_name='labconfig').get('default_setting_overrides'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", asked], env=started, capture_output=True, text=True
    )
    settings = ast.literal_eval(found.stdout)["@jupyterlab/apputils-extension:notification"]
    assert settings["fetchNews"] == "false" and Path(ours).is_dir()


# --- the check of the day before ------------------------------------------------------------------


def test_each_check_is_a_line_with_its_cure_where_it_fails(capsys, monkeypatch):
    found = {
        "one": lambda: check.Checked(True, "1 of 1", "none needed"),
        "two": lambda: check.Checked(False, "0 of 2", "get more"),
    }
    monkeypatch.setattr(check, "CHECKS", found)
    assert main(["doctor", "--class"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["[+] ok   one: 1 of 1", "[!] FAIL two: 0 of 2; cure: get more"]
    assert len(lines) == 3 and "1 of 2" in lines[2]
    monkeypatch.setattr(check, "CHECKS", {"one": found["one"]})
    assert main(["doctor", "--class"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ready for a class"


def test_the_checks_find_this_machine_and_its_course(monkeypatch):
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert check.cores().value.startswith(f"{ours};")
    assert re.match(r"[\d.,]+ [GM]iB free", check.memory().value)
    assert check.packages().enough and "voila 0.5" in check.packages().value
    count = len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert check.notebooks_there() == (True, f"{count} in {ROOT / 'notebooks'}", "")


def test_the_checks_fail_where_something_is_missing(monkeypatch, taken, capsys):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert not check.cores().enough, "this process may use one of eight"
    machine.examine()
    said = capsys.readouterr().out
    assert "1 of 8 cores\n" in said and re.search(r"torch uses \d+ of 1,", said)
    monkeypatch.setattr(check, "MEMORY", 2**60)
    assert not check.memory().enough
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(check.shutil, "which", lambda name: None)
    assert not check.browser().enough
    monkeypatch.setattr(check, "LAB", ("voila", "no-such-package"))
    missing = check.packages()
    assert missing[:2] == (False, "no-such-package missing") and "[lab]" in missing.cure
    monkeypatch.setattr(check, "PORT", taken)
    ports = check.ports()
    assert not ports.enough and f"{taken} (classroom) taken" in ports.value
    monkeypatch.setattr(check, "PORT", harness.free_port())
    monkeypatch.setattr(check, "LAB_PORT", taken)
    assert check.ports().enough, "JupyterLab takes the next one that is free"
    monkeypatch.setattr(notebooks, "folder", lambda: None)
    assert not check.notebooks_there().enough


def test_a_folder_that_cannot_be_written_is_no_place_for_a_class(tmp_path, monkeypatch):
    """It told how much was free there."""

    def refused(**how):
        raise OSError(30, "Read-only file system")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check.tempfile, "TemporaryDirectory", refused)
    disk = check.disk()
    assert not disk.enough and "cannot be written (Read-only file system)" in disk.value


@pytest.mark.parametrize("variable", ["JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"])
def test_a_folder_in_which_jupyter_cannot_write_is_named(tmp_path, monkeypatch, variable):
    (tmp_path / "a file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "a file"))
    found = check.packages()
    assert not found.enough and "Jupyter cannot write there" in found.value, found
    assert found.cure.endswith(f"name another folder in {variable}")


@pytest.mark.parametrize(("free", "enough"), [(2**30, True), (2**30 - 1, False)])
def test_a_disk_that_is_nearly_full_is_told(tmp_path, monkeypatch, free, enough):
    monkeypatch.chdir(tmp_path)
    asked = []
    usage = SimpleNamespace(total=2**40, used=2**40 - free, free=free)
    monkeypatch.setattr(check.shutil, "disk_usage", lambda path: asked.append(path) or usage)
    found = check.CHECKS["disk"]()
    assert found.enough is enough and asked == [tmp_path] and "another disk" in found.cure
    said = "1.0 GiB" if enough else "1024 MiB"
    assert found.value == f"{said} free in {tmp_path}; a class needs 1.0 GiB"


@pytest.fixture
def unwritable(tmp_path, monkeypatch):
    """Jupyter's own folder is where none can be made, as in a home that is read-only."""
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "jupyter")
    monkeypatch.setenv("JUPYTER_DATA_DIR", folder)
    return folder


@pytest.mark.slow
def test_a_class_is_refused_where_jupyter_cannot_write(unwritable, monkeypatch, capsys):
    found = check.packages()
    assert not found.enough and unwritable in found.value and "JUPYTER_DATA_DIR" in found.cure
    monkeypatch.setattr(serve, "serve", lambda *a, **k: pytest.fail("served"))
    monkeypatch.setattr(os, "execve", lambda *a: pytest.fail("started"))
    for command in ("classroom", "lab"):
        said = refused(capsys, command, "--port", str(harness.free_port()))
        assert unwritable in said and "JUPYTER_DATA_DIR" in said


def test_a_damaged_recording_fails_the_check_by_name(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / recordings.FILE).write_text("{}")
    monkeypatch.setattr(recordings, "SHIPPED", tmp_path)
    found = check.recordings()
    assert not found.enough and str(folder) in found.value


@pytest.mark.parametrize(("seconds", "enough"), [(3.0, True), (3.1, False)])
def test_forty_steps_may_take_two_minutes(monkeypatch, seconds, enough):
    from vpo_lite.training import loop

    def steps(config):
        assert config.steps == 2
        return [SimpleNamespace(seconds=s) for s in (50.0, seconds)]  # the first one warms up

    monkeypatch.setattr(loop, "train", steps)
    found = check.training()
    assert found.enough is enough
    assert found.value == f"{seconds} s a step; 40 steps take about {40 * seconds:.0f} s"


@pytest.mark.long
def test_the_training_is_really_done_and_the_recordings_really_opened():
    assert re.fullmatch(r"[\d.]+ s a step; 40 steps take about \d+ s", check.training().value)
    assert check.recordings() == (True, f"{len(recordings.shipped())} can be opened", "")


# --- the panel, served ----------------------------------------------------------------------------


def opened(source):
    """The lab that the page's cell makes."""
    names = {}
    exec(source, names)
    return names["lab"]


@pytest.mark.slow
def test_the_page_shows_the_lab_of_a_code_in_large_letters():
    code = Lab("grpo", alpha=0.3, maze_seed=1001).share()
    lab = opened(serve.cell(code))
    assert (lab.methods, lab.config.alpha, lab.maze_seed) == (("grpo",), 0.3, 1001)
    assert lab.panel.controls.large.value is True
    lab.panel.controls.code.value = Lab("vpo").share()
    assert lab.methods == ("vpo",), "outside a room the field works"
    lab.close()


@pytest.mark.slow
def test_in_a_room_a_viewers_share_code_is_not_read():
    lab = opened(serve.cell(Lab("grpo").share(), room=True))
    lab.panel.controls.code.value = Lab("vpo").share()
    assert lab.methods == ("grpo",)
    lab.close()


@pytest.mark.slow
def test_no_page_records_even_if_it_presses_the_hidden_button(monkeypatch, tmp_path):
    """A page can send a press of any button, seen or not."""
    monkeypatch.chdir(tmp_path)
    lab = opened(serve.cell(recording="stuck/seed-0"))
    widgets = held_by(lab.panel.box)
    [record] = [one for one in widgets if getattr(one, "description", "") == "Record"]
    assert record.layout.display == "none"
    record.click()
    assert lab.last_error is None and list(tmp_path.iterdir()) == []
    lab.close()


def held_by(widget):
    return [widget, *itertools.chain(*map(held_by, getattr(widget, "children", ())))]


@pytest.mark.slow
def test_an_empty_folder_with_the_name_of_a_recording_hides_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stuck" / "seed-0").mkdir(parents=True)
    assert "Lab.replay('stuck/seed-0')" in serve.cell(recording="stuck/seed-0")


@pytest.mark.slow
def test_the_page_shows_a_recording_by_name_or_folder(tmp_path, monkeypatch):
    lab = opened(serve.cell(recording="stuck/seed-0"))
    assert lab.state == "recorded"
    lab.record(tmp_path / "mine")
    lab.close()
    monkeypatch.chdir(tmp_path)
    source = serve.cell(recording="mine")
    monkeypatch.chdir(ROOT)  # a kernel works in a folder of its own
    again = opened(source)
    assert again.state == "recorded" and again.maze_seed == lab.maze_seed
    again.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["VPO2-nonsense"], "no share code"),
        (["--recording", "no/such"], "no recording"),
        (["--recording", "three_methods"], "no recording; did you mean three_methods/seed-"),
        (["--recording", "a run"], "'a run': no recording, but a run of vpo-lite train; lab."),
        (["VPO2-x", "--recording", "y"], "name one of them"),
        (["--port", "70000"], "70000"),
        (["--viewers", "0"], "must be 1 to 1,000"),
        (["--viewers", "9" * 400], "must be 1 to 1,000"),
        (["--token", "abcdefghijklmnop"], "only with --room"),
        (["--room", "--browser", "yes"], "--browser yes: a room opens no window here"),
        (["--room", "--token", "short"], "expected 12 to 200 characters"),
        (["--room", "--token", ""], "expected 12 to 200 characters"),
        (["--room", "--token", "a" * 201], "expected 12 to 200 characters"),
        (["--room", "--token", "abcdefghijkl\n"], "expected 12 to 200 characters"),
        (["--room", "--token", "twelve&letters"], "of A-Z"),
    ],
)
def test_a_wrong_request_is_one_line_and_opens_nothing(
    monkeypatch, tmp_path, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a run").mkdir()
    (tmp_path / "a run" / "config.json").touch()
    monkeypatch.setattr(serve, "serve", lambda *a, **k: pytest.fail("served"))
    assert said in refused(capsys, "classroom", *arguments)


@pytest.mark.slow
def test_a_taken_port_is_one_line(monkeypatch, capsys, taken):
    monkeypatch.setattr(serve, "serve", lambda *a, **k: pytest.fail("served"))
    for room in ([], ["--room"]):
        said = refused(capsys, "classroom", "--port", str(taken), *room)
        assert f"port {taken} is taken" in said


def test_what_is_opened_is_said_and_a_room_has_a_new_token_each_time(monkeypatch, capsys):
    given = []
    monkeypatch.setattr(serve, "serve", lambda source, **settings: given.append(settings))
    port = str(harness.free_port())
    assert main(["classroom", "--port", port]) == 0
    alone = capsys.readouterr().out
    assert f"http://127.0.0.1:{port}/\n" in alone and "this machine only" in alone
    said = []
    for _ in range(2):
        assert main(["classroom", "--room", "--port", port, "--viewers", "7"]) == 0
        said.append(capsys.readouterr().out)
    tokens = [settings["token"] for settings in given]
    assert tokens[0] is None and len({*tokens}) == 3
    for text, token in zip(said, tokens[1:], strict=True):
        assert text.count(token) == 1 and f":{port}/?token={token}\n" in text
        assert all(word in text for word in ("every network interface", "at most 7", "Ctrl-C"))


@pytest.fixture
def manager(monkeypatch, tmp_path):
    """Jupyter's kernels of a room of two: a start waits until it may end."""
    pytest.importorskip("voila.app")
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager as Usual
    from traitlets.config import Config

    async def start(self, *, kernel_id):
        await self.may_start.acquire()
        if self.fails:
            raise OSError("no such file")
        self.running.append(kernel_id)
        return kernel_id

    async def end(self, kernel_id, now, restart):
        assert now, "it is killed"
        self.running.remove(kernel_id)

    async def usual_cull(self, kernel_id):
        self.usual.append(kernel_id)

    monkeypatch.setattr(Usual, "start_kernel", start)
    monkeypatch.setattr(Usual, "shutdown_kernel", end)
    monkeypatch.setattr(Usual, "cull_kernel_if_idle", usual_cull)
    monkeypatch.setattr(Usual, "list_kernel_ids", lambda self: list(self.running))
    monkeypatch.setattr(Usual, "__contains__", lambda self, kernel_id: kernel_id in self.running)
    settings = Config(serve._settings(tmp_path, 8866, None, 2, False))
    made = settings.VoilaConfiguration.multi_kernel_manager_class(config=settings)
    made.may_start, made.fails, made.running, made.usual = asyncio.Semaphore(0), False, [], []
    return made


def test_the_number_of_kernels_is_bounded_also_while_they_start(manager):
    tornado = pytest.importorskip("tornado.web")

    async def is_refused():
        with pytest.raises(tornado.HTTPError) as caught:
            await manager.start_kernel()
        return caught.value.status_code == 503 and "at most 2 at a time" in caught.value.reason

    async def story():
        first, second = (asyncio.create_task(manager.start_kernel()) for _ in range(2))
        await asyncio.sleep(0)
        assert await is_refused(), "two are starting"
        manager.may_start.release(), manager.may_start.release()
        assert len({await first, await second}) == 2
        assert await is_refused(), "both have started"
        await manager.shutdown_kernel(first.result())
        third = asyncio.create_task(manager.start_kernel())
        await asyncio.sleep(0)
        assert await is_refused(), "one has left, and another one came"
        manager.fails = True
        manager.may_start.release()
        with pytest.raises(OSError, match="no such file"):
            await third
        manager.fails = False
        fourth = asyncio.create_task(manager.start_kernel())
        await asyncio.sleep(0)
        fourth.cancel()
        await asyncio.gather(fourth, return_exceptions=True)
        manager.may_start.release()
        assert await manager.start_kernel(), "neither the third nor the fourth has a place"

    asyncio.run(story())


def test_the_kernel_of_a_forsaken_page_is_ended_after_two_minutes_also_while_it_trains(
    manager, monkeypatch
):
    """What a training kernel says counts as activity for Jupyter, which kept it for ever."""
    now, connection = [0.0], kernels.connection_class()
    for name in ("connect", "disconnect"):
        monkeypatch.setattr(connection.__base__, name, lambda self: None)

    class Page(connection):
        multi_kernel_manager, kernel_id = manager, "a"

        def __init__(self):
            pass

    monkeypatch.setattr(kernels.time, "monotonic", lambda: now[0])
    assert (manager.cull_idle_timeout, manager.cull_interval) == (120, 15)

    def at(second):
        """The kernels that run after the look at this second, and those that Jupyter judged."""
        now[0] = second
        manager.usual.clear()
        for kernel_id in list(manager.running):
            asyncio.run(manager.cull_kernel_if_idle(kernel_id))
        return list(manager.running), list(manager.usual)

    manager.running += ["a", "loads"]
    one, other, early = Page(), Page(), Page()
    assert at(0) == (["a", "loads"], ["a", "loads"]), "how long a page may load says Jupyter"
    one.connect(), other.connect(), one.disconnect(), one.disconnect()
    assert at(300) == (["a", "loads"], ["loads"]), "one is still there"
    other.disconnect()
    assert at(400) == (["a", "loads"], ["a", "loads"])
    one.connect()
    assert at(500) == (["a", "loads"], ["loads"]), "it came back"
    one.disconnect()
    assert at(620) == (["a", "loads"], ["a", "loads"]), "120 seconds"
    assert at(621) == (["loads"], ["loads"])
    early.disconnect()  # after the end: nothing is kept
    assert not manager.left and not manager.pages
    early.kernel_id = "loads"
    early.disconnect()  # it was closed before it was there
    assert at(741) == (["loads"], ["loads"]) and at(742) == ([], [])
    assert not manager.left and not manager.pages


@pytest.mark.parametrize("how", ["raises", "fails later", "is given up"])
def test_a_page_that_could_not_be_opened_is_gone(manager, monkeypatch, how):
    """Tornado tells nobody of it: its kernel kept a place for ever."""
    now, connection = [0.0], kernels.connection_class()
    monkeypatch.setattr(kernels.time, "monotonic", lambda: now[0])

    def connect(self):
        if how == "raises":
            raise OSError("too many open files")
        return self.opening

    monkeypatch.setattr(connection.__base__, "connect", connect)

    class Page(connection):
        multi_kernel_manager, kernel_id = manager, "a"

        def __init__(self):
            self.opening = asyncio.get_running_loop().create_future()

    async def story():
        page = Page()
        manager.running += ["a"]
        with contextlib.suppress(OSError):
            page.connect()
        await asyncio.sleep(0)
        if how == "fails later":
            page.opening.set_exception(TimeoutError())
        if how == "is given up":
            page.opening.cancel()
        await asyncio.sleep(0)
        now[0] = 121.0
        await manager.cull_kernel_if_idle("a")
        assert manager.running == []

    asyncio.run(story())


def test_a_server_tells_all_but_that_a_kernel_has_died(caplog):
    log = logging.getLogger("of a classroom")
    log.addFilter(serve._is_no_dead_kernel)
    for error in (RuntimeError("Kernel died before replying to kernel_info"), OSError("full")):
        try:
            raise error
        except Exception:
            log.exception("Error at server while executing cell: %r", {})
    log.error("Kernel died while waiting for execute reply.")
    log.error("100 % said")
    assert [record.msg for record in caplog.records] == [
        "Error at server while executing cell: %r",
        "100 % said",
    ]
    assert caplog.records[0].exc_info[1].args == ("full",)


@pytest.mark.parametrize("v1", [False, True])
def test_a_message_has_the_parts_that_it_says_it_has(v1):
    base = pytest.importorskip("jupyter_server.services.kernels.connection.base")
    parts = dict(header={"msg_type": "comm_msg"}, parent_header={}, metadata={}, content={"a": "é"})
    if v1:
        sound = base.serialize_msg_to_ws_v1(parts, "shell", pack=lambda x: json.dumps(x).encode())
        size, order = 8, "little"
    else:
        sound = base.serialize_binary_message(parts | {"buffers": [b"one", b"", b"three"]})
        size, order = 4, "big"
        assert kernels.is_sound(json.dumps(parts), v1=False)
    assert kernels.is_sound(sound, v1=v1)
    head, (first, second), rest = (
        sound[:size],
        (sound[size : 2 * size], sound[2 * size : 3 * size]),
        sound[3 * size :],
    )
    more = (int.from_bytes(head, order) + 1).to_bytes(size, order)
    for wrong in (
        b"",
        head,
        (2**24).to_bytes(size, order),
        b"\xff" * len(sound),
        (0).to_bytes(size, order) + first + second + rest,
        more + first + second + rest,  # its last offset is text
        head + second + first + rest,
        head + b"\0" * size + second + rest,  # a part that begins before the texts
        head + first + second + rest[: 3 * size],
    ):
        assert not kernels.is_sound(wrong, v1=v1), wrong
    assert not v1 or not kernels.is_sound(sound.decode("latin-1"), v1=True)


def test_a_page_sends_its_kernel_only_whole_messages():
    channels = pytest.importorskip("jupyter_server.services.kernels.connection.channels")
    made = serve._settings(Path(), 8866, None, 2, False)["Voila"]
    made = made["kernel_websocket_connection_class"]
    assert issubclass(made, channels.ZMQChannelsWebsocketConnection)
    page = SimpleNamespace(subprotocol="v1.kernel.websocket.jupyter.org")
    assert made.handle_incoming_message(page, (2**62).to_bytes(8, "little")) is None


def _begin():
    harness.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background hands down SIG_IGN


@contextlib.contextmanager
def classroom(*arguments, log=os.devnull, before=""):
    """The command itself in a process of its own; yields (process, address, what it printed).

    log: the file that gets what it and its kernels write beside that. before: code to run first
    """
    port = harness.free_port()
    code = f"{before}\nimport sys\nfrom vpo_lite.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", code, "classroom", "--port", str(port), *arguments]
    with (
        open(log, "w") as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=_begin if os.name == "posix" else None,
        ) as process,
    ):
        try:
            said = []
            while not said or not said[-1].strip().startswith("stop"):
                line = process.stdout.readline()
                assert line, "the command ended"
                said.append(line)
            deadline = time.monotonic() + 60
            while serve.port_is_free(port) and time.monotonic() < deadline:
                time.sleep(0.1)
            yield process, f"http://127.0.0.1:{port}", "".join(said)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def get(address, posted=None, **headers):
    """(status, body, where it redirects to) of one request. posted: fields of a form."""
    data = None if posted is None else urllib.parse.urlencode(posted).encode()
    request = urllib.request.Request(address, data, headers)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=120) as answer:
            return answer.status, answer.read().decode(), None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers.get("Location")


def visit(address):
    """Ask for the page of a server that ends meanwhile."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        get(address)


def kernels_of(process):
    psutil = pytest.importorskip("psutil")
    return [child for child in psutil.Process(process.pid).children() if child.is_running()]


WIDGET = "application/vnd.jupyter.widget-view+json"


def lying(folder):
    """What lies there, but for torch's cache: a thread or a kernel that loads torch makes it."""
    return [path for path in folder.iterdir() if not path.name.startswith("torchinductor_")]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_the_folder_of_a_killed_process_is_deleted_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(serve.tempfile, "tempdir", str(tmp_path))
    code = (
        "from vpo_lite.classroom.serve import own_folder as own\nwith own() as f: print(f); input()"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    talk = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([sys.executable, "-c", code], **talk) for _ in range(2)]
    killed, alive = (Path(process.stdout.readline().strip()) for process in processes)
    processes[0].kill()
    processes[0].communicate()
    (other := tmp_path / f"{serve.FOLDER}notes").mkdir()
    (link := tmp_path / f"{serve.FOLDER}link").symlink_to(alive)
    assert killed.is_dir()
    with serve.own_folder() as mine:
        assert {*lying(tmp_path)} == {mine, alive, other, link}
        assert (alive / serve.PAGE).is_dir()
    processes[1].communicate("\n")
    assert {*lying(tmp_path)} == {other, link}, "a process that ends takes its folder along"


SPEAKS = """
import atexit, os, sys
if "ipykernel_launcher" in sys.orig_argv:
    atexit.register(os.write, 2, b"a kernel that ends by itself")  # as libzmq did once
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_a_room_asks_for_the_token_and_has_as_many_places_as_was_said(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log, talkative = tmp_path.with_suffix(".log"), tmp_path.with_suffix(".site")
    talkative.mkdir()
    (talkative / "sitecustomize.py").write_text(SPEAKS)
    monkeypatch.setenv("PYTHONPATH", str(talkative))
    with classroom("--room", "--viewers", "1", log=log) as (process, address, said):
        token = re.search(r"token=(\S+)", said).group(1)
        for wrong in ("/", "/?token=", f"/?token={token[:-1]}", "/?token=aaaa-bbbb-cccc"):
            status, body, where = get(address + wrong)
            assert status == 302 and where.startswith("/login") and WIDGET not in body
        form = get(address + where)[1]
        assert "This is not the token." in form, "it was wrong in the address"
        form = get(f"{address}/login")[1]
        assert "This is not the token." not in form, "none was given yet"
        assert "new_password" not in form, "viewers set no password"
        assert "token that your teacher shows" in form and "jupyter server list" not in form
        status, body, _ = get(f"{address}/login", posted={"password": token[:-1]})
        assert status == 401 and "This is not the token." in body
        status, _, where = get(f"{address}/login", posted={"password": token})
        assert status == 302 and where == "/"
        status, body, where = get(f"{address}/api/kernels/0-0-0-0-0")
        assert status in (302, 403) and "name" not in body
        get(f"{address}/logout"), get(f"{address}/voila/static/%C2%9B%00")
        with contextlib.suppress(OSError):  # it closes the connection, and says so if there is time
            assert get(f"{address}/login", posted={"password": "a" * 2**17})[0] == 400
        assert kernels_of(process) == [], "nobody has started anything yet"
        status, body, _ = get(f"{address}/?token={token}&theme=%22%3E%3Cscript%3Eattack()")
        assert status == 200 and WIDGET in body and "Lab(" not in body and "attack()" not in body
        running = kernels_of(process)
        assert len(running) == 1
        if sys.platform == "linux":  # without memory, the system ends it first
            assert Path(f"/proc/{running[0].pid}/oom_score_adj").read_text() == "1000\n"
        [folder] = lying(tmp_path)  # also of the kernel's connection file: one to delete
        assert next(folder.glob("*/*.json")) and folder.name.startswith(serve.FOLDER)
        status, body, _ = get(f"{address}/?token={token}")
        assert status == 503 and "No place is free: at most 1" in body
        assert "location.reload" in body and "Stop trying" in body
        named = next(folder.glob("*/kernel-*.json")).stem.removeprefix("kernel-")
        assert get(f"{address}/voila/api/shutdown/{named}?token={token}", posted={})[0] == 204
        assert kernels_of(process) == [], "a closed page gives its place back"
        assert get(f"{address}/?token={token}")[0] == 200
        running += kernels_of(process)
        assert len(running) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert not any(kernel.is_running() for kernel in running)
        assert lying(tmp_path) == []
    assert log.read_text() == "", "nothing hides the address, or shows the token again"


SWALLOWS = """
import time
from pathlib import Path
from jupyter_client.multikernelmanager import MultiKernelManager

def busy(self):
    try:
        Path({!r}).touch()
        time.sleep(3)
    except BaseException:  # as where an object is deleted
        pass
    return "some-id"

MultiKernelManager.new_kernel_id = busy
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_ends_the_server_whatever_it_is_doing(tmp_path):
    """One of some thousand was lost in a callback whose exceptions go nowhere."""
    busy = tmp_path / "busy"
    with classroom(before=SWALLOWS.format(str(busy))) as (process, address, _):
        threading.Thread(target=visit, args=[address]).start()
        while not busy.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


LOADS = """
import asyncio
from jupyter_client.manager import KernelManager
from vpo_lite.classroom import serve

clean = KernelManager._async_cleanup_resources

async def slowly(self, *arguments, **options):
    await asyncio.sleep(3)  # long enough to see that the kernel has died
    await clean(self, *arguments, **options)

KernelManager._async_cleanup_resources = slowly
serve.cell = lambda *_, **__: "import time; open({!r}, 'w').close(); time.sleep(99)"
"""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_a_page_that_is_closed_while_it_loads_says_nothing_nor_does_ctrl_c(tmp_path):
    """Each printed Voila's traceback of a dead kernel."""
    loads, log = tmp_path / "loads", tmp_path / "log"
    with classroom(log=log, before=LOADS.format(str(loads))) as (process, address, _):
        for closed in (True, False):
            threading.Thread(target=visit, args=[address]).start()
            deadline = time.monotonic() + 60
            while not loads.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert loads.exists(), "else the page does not load"
            if closed:
                loads.unlink()
                [kernel] = kernels_of(process)
                named = re.search(r"kernel-([0-9a-f-]+)\.json", " ".join(kernel.cmdline()))[1]
                assert get(f"{address}/voila/api/shutdown/{named}", posted={})[0] == 204
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert log.read_text() == ""


RINGS = "(t) => t.name === 'best 2' && t.x"  # the black rings in objective space


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_of_this_machine_has_no_code_and_alpha_moves_the_rings():
    code = Lab(maze_seed="alpha matters", m=2).share()
    with classroom(code) as (process, address, _), harness.browser(1280, 720) as context:
        assert get(f"{address}/", Host="evil.example")[0] == 403, "a name that somebody points here"
        opened = harness.Page(context, address)
        page = opened.page
        page.goto(address)
        page.wait_for_selector(".vpo-lab.vpo-large .vpo-board svg.maze")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        assert page.locator(".jp-InputArea, .jp-CodeMirrorEditor, pre").count() == 0
        assert "Lab" not in page.locator("body").inner_text()
        data = "document.querySelector('.js-plotly-plot').data"
        rings = f"JSON.stringify({data}.filter({RINGS}).map((t) => [...t.x, ...t.y]))"
        before = page.evaluate(rings)
        assert len(before) > len("[[]]")
        page.locator(".vpo-alpha .noUi-handle").focus()
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function(f"(before) => {rings} !== before", arg=before)
        assert len(kernels_of(process)) == 1
        page.close(run_before_unload=True)
        deadline = time.monotonic() + 30
        while kernels_of(process) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert kernels_of(process) == [], "a closed page gives its place back"
        assert not opened.wrong


@pytest.mark.long
@pytest.mark.browser
def test_a_page_that_is_loaded_again_while_it_loads_gives_its_place_back():
    with (
        classroom("--viewers", "4") as (process, address, _),
        harness.browser(1280, 720) as context,
    ):
        page = context.new_page()
        for _ in range(6):
            page.goto(address, wait_until="commit")
            page.wait_for_selector("#jupyter-config-data", state="attached")  # its kernel runs
            assert page.locator(".vpo-lab").count() == 0, "still loading"
        page.goto(address)
        page.wait_for_selector(".vpo-lab .vpo-board svg.maze")
        deadline = time.monotonic() + 30
        while len(kernels_of(process)) > 1 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert len(kernels_of(process)) == 1


@pytest.mark.long
@pytest.mark.browser
def test_a_page_whose_kernel_or_server_died_says_so_and_what_to_do():
    with classroom() as (process, address, _), harness.browser(1280, 720) as context:
        page = context.new_page()
        with page.expect_response(lambda answer: "/api/kernels/" in answer.url) as found:
            page.goto(address)
        assert found.value.ok
        page.wait_for_selector(".vpo-lab .vpo-board svg.maze")
        assert page.locator("#vpo-gone").inner_text() == ""
        again = page.locator("#vpo-gone button", has_text="Reload")
        kernels_of(process)[0].kill()  # as a machine without memory does; another takes its place
        again.click()
        page.wait_for_selector(".vpo-lab .vpo-board svg.maze")
        assert page.locator("#vpo-gone").inner_text() == ""
        process.kill()
        again.wait_for()
        said = page.locator("#vpo-gone").inner_text()
        assert "lost its server" in said and "start it again. Then reload the page" in said
        corner = page.locator("#vpo-gone").bounding_box()
        assert corner["y"] == 0, "in sight, wherever the page is scrolled to"
