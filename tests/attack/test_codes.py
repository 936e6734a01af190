"""Share codes under attack: a damaged or hostile one is one line, and changes nothing."""

import base64
import json
import random
import sys
import tracemalloc
import zlib

import pytest
from attacks import NASTY, check_error, json_text, mutated_bytes, mutated_json, seeds
from lab_attacks import draws, refused_or_works, snapshot

from vpo_lite.files import DamagedError
from vpo_lite.lab import Lab, Session
from vpo_lite.lab.codes import MOST_TEXT, decode

DRAWN = {"maze": "S . G\n. # L\nD . E", "maze_budget": 9}
CONTENTS = [  # as lab.share() packs them
    [["vpo", "maxrl"], {"K": "inf", "alpha": 0.07, "m": 5}, {"maze_seed": 1012}, False],
    [["grpo"], {"layout": "hard-8x8", "reward_mode": "convex_bonus"}, {}, True],
    [["gdpo"], {"model": "pocket-6x6", "seed": 3, "lr": 0.0003}, DRAWN, False],
    [["vpo"], {"alpha": 0.3, "steps": 17, "layout": "hard-8x8"}, {"maze_seed": 1003}, True],
]

pytestmark = pytest.mark.usefixtures("cold")


def packed(text, version="VPO2") -> str:
    """A share code by hand."""
    data = zlib.compress(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    return f"{version}-" + base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize("content", CONTENTS)
def test_the_contents_under_attack_are_sound(content):
    draws(Lab.from_code(packed(json.dumps(content))))


@seeds(120)
def test_a_mistyped_code_is_one_line_and_changes_nothing(seed):
    rng, lab = random.Random(f"codes {seed}"), Lab(maze_seed=1004)
    content = rng.choice(CONTENTS)
    code = packed(json.dumps(content))
    spoilt = mutated_bytes(code.encode(), rng).decode("latin-1")
    with refused_or_works(lab) as worked:
        lab.load(spoilt)
    read = "".join(spoilt.split()).strip("\"'`")  # what a mail or a careless copy adds
    assert not worked or read == code, "zlib's checksum finds every change"


@seeds(120)
def test_a_code_with_changed_content_is_one_line_or_works(seed):
    rng, lab = random.Random(f"contents {seed}"), Lab(maze_seed=1004)
    content = rng.choice(CONTENTS)
    text = json_text(mutated_json(content, rng))
    if rng.random() < 0.1:
        text = mutated_bytes(text.encode(), rng)
    with refused_or_works(lab) as worked:
        lab.load(packed(text))
    if worked:
        assert Lab.from_code(lab.share()).share() == lab.share()


@pytest.mark.parametrize("number", range(len(NASTY)))
def test_what_is_no_text_is_no_code(number):
    lab = Lab(maze_seed=1004)
    for request in (lab.load, Lab.from_code, Session.from_code):
        before = snapshot(lab)
        with pytest.raises(DamagedError, match="no share code") as found:
            request(NASTY[number])
        check_error(found.value)
        assert snapshot(lab) == before


# --- size: M4 -------------------------------------------------------------------------------------


def peak(request) -> tuple[BaseException, int]:
    """The error of a request, and the most bytes that it held."""
    Lab()  # what is loaded once is not the request's
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError) as found:
            request()
        return found.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bomb(size: int) -> str:
    """A code of so many bytes of blanks."""
    stream, blanks = zlib.compressobj(9), b" " * 2**20
    data = b"".join(stream.compress(blanks) for _ in range(size // 2**20)) + stream.flush()
    return "VPO2-" + base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(lambda: bomb(40 * 2**20), id="40 MB in a code of a code's size"),
        pytest.param(lambda: bomb(100 * 2**20), id="100 MB in a code that is too long"),
        pytest.param(lambda: "VPO2-" + "A" * 3_000_000, id="3 MB of code"),
        pytest.param(lambda: packed("[" * 100_000), id="100,000 brackets"),
        pytest.param(lambda: packed("[" * 100_000 + "]" * 100_000), id="closed, too"),
        pytest.param(lambda: packed("{" * 90_000), id="90,000 braces"),
        pytest.param(lambda: packed("[" + "[]," * 40_000 + "[]]"), id="40,000 lists"),
        pytest.param(lambda: packed("9" * 100_000), id="a number of 100,000 digits"),
    ],
)
def test_m4_a_code_takes_little_memory_whatever_it_unpacks_to(code):
    code = code()
    error, held = peak(lambda: decode(code))
    check_error(error)
    assert held < 10e6, f"{held / 1e6:.0f} MB"


M4 = [
    [["vpo"], {"model": 5}, {}, False],
    [["vpo"], {"method": "grpo"}, {}, False],
    [["vpo"], {"methods": ["grpo"]}, {}, False],
    [["vpo"], {"preset": "paper"}, {}, False],
    [["vpo"], {"many": True}, {}, False],
    [["vpo"], {"task_options": {"maze_seed": 3}}, {}, False],
    [["vpo"], {}, {"alpha": []}, False],
    [["vpo"], [], {}, False],
    [["vpo"], {}, {}, 1],
    ["vpo", {}, {}, False],
    [[["vpo"]], {}, {}, False],
    [[], {}, {}, False],
    [["vpo"], {"lr": 10**400}, {}, False],
    [["vpo"], {"alpha": -1}, {}, False],
    [["vpo"], {"colour": "red"}, {}, False],
    [["vpo"], {"task": "nowhere:Task"}, {}, False],
    [["vpo"], {}, {"maze_seed": -3}, False],
    [["vpo"], {}, {"maze": "S#E", "maze_budget": 9}, False],
    [["vpo"], {}, {"maze_seed": 1000}],
    [["ppo"], {}, {}, False],
    {"methods": ["vpo"]},
    None,
]


@pytest.mark.parametrize("content", M4, ids=lambda c: json.dumps(c)[:60])
def test_m4_wrong_types_and_names_are_refused(content):
    lab = Lab(maze_seed=1004)
    with refused_or_works(lab) as worked:
        lab.load(packed(json.dumps(content)))
    assert not worked


def test_settings_that_no_code_can_hold_are_refused_before_they_are_taken():
    lab = Lab()
    for settings in ({"model": "m" * 300_000}, {"model": "\ud800"}):
        with refused_or_works(lab) as worked:
            lab.change(**settings)
        assert not worked


# --- what stands after a code: Low ----------------------------------------------------------------


def test_low_rubbish_after_a_code_is_refused():
    lab, code = Lab(maze_seed=1004), Lab(alpha=0.3).share()
    rest = code.partition("-")[2]
    data = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
    longer = (base64.urlsafe_b64encode(data + more).decode() for more in (b"\0", data, b"x" * 99))
    spoilt = [f"{code}{more}" for more in ("=", "AAAA", " x", "\n\nx", "-", "\0", "é")]
    spoilt += [f"VPO2-{text.rstrip('=')}" for text in longer]
    for text in spoilt:
        with refused_or_works(lab) as worked:
            lab.load(text)
        assert not worked, text
    lab.load(f"  {code}\n")
    assert lab.config.alpha == 0.3


def test_low_unused_bits_at_the_end_of_a_code_must_be_zero():
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    tried = 0
    for seed in range(6):
        code = Lab(seed=seed).share()
        rest = code.partition("-")[2]
        data = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
        for letter in set(letters) - {code[-1]}:
            other = rest[:-1] + letter
            if base64.urlsafe_b64decode(other + "=" * (-len(other) % 4)) == data:
                tried += 1
                with pytest.raises(DamagedError, match="no share code"):
                    decode(f"VPO2-{other}")
    assert tried > 0


# --- code from a stranger -------------------------------------------------------------------------

HOSTILE = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()
from vpo_lite.tasks.maze import MazeTask
class Mine(MazeTask):
    class Inner(MazeTask):
        pass
def __getattr__(name):
    Path(__file__).with_suffix(".asked").touch()
    raise AttributeError(name)
"""


def test_a_code_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "hostile_tasks.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran, lab = tmp_path / "hostile_tasks.ran", Lab(maze_seed=1004)
    for task in ("hostile_tasks:Mine", "hostile_tasks:Mine.Inner", "hostile_tasks:"):
        parts = [["vpo"], {"task": task, "model": "any"}, {}, False]
        with pytest.raises(ValueError, match="import it first") as found:
            lab.load(packed(json.dumps(parts)))
        check_error(found.value)
        with pytest.raises(ValueError, match="import it first"):
            decode(packed(json.dumps([["vpo"], {}, {"task": task}, False])))
    assert not ran.exists() and "hostile_tasks" not in sys.modules

    import hostile_tasks  # who has imported it trusts it

    assert ran.exists()
    code = packed(json.dumps([["vpo"], {"task": "hostile_tasks:Mine"}, {}, True]))
    assert decode(code).config.task == "hostile_tasks:Mine"
    for task in ("hostile_tasks:Other", "hostile_tasks:Path", "os:system", "sys:modules"):
        with pytest.raises(ValueError, match="import it first"):
            decode(packed(json.dumps([["vpo"], {"task": task}, {}, True])))
    assert not (tmp_path / "hostile_tasks.asked").exists()
    del sys.modules[hostile_tasks.__name__]


def test_a_bad_code_touches_no_other_lab():
    class Watcher:
        woken = 0

        def wake(self):
            self.woken += 1

    watcher, lab, paused = Watcher(), Lab(), []
    lab.watch(watcher)
    lab.pause = paused.append
    Session._training, before = (lambda: lab), Session._training
    try:
        with pytest.raises(ValueError, match="code"):
            Lab.from_code("VPO2-abc")
        assert (watcher.woken, paused) == (0, [])
        made = Lab.from_code(Lab().share())
        assert not paused
        made.panel.draw()
        assert paused
    finally:
        Session._training = before


def test_messages_repeat_no_long_code():
    assert len("x" * MOST_TEXT) > 1000
    with pytest.raises(DamagedError) as found:
        decode("VPO2-" + "x" * 5000)
    assert len(str(found.value)) < 300


def test_a_code_that_a_mail_wrapped_or_that_was_copied_with_its_quotes_is_read():
    code = Lab("grpo", alpha=0.3, seed=7).share()
    half = len(code) // 2
    for wrapped in (
        f"{code[:half]}\r\n  {code[half:]}",
        f"`{code}`",
        f'"{code}"',
        f"\ufeff{code}\u200b",
    ):
        assert Lab.from_code(wrapped).share() == code
