"""Recordings under attack: a damaged or hostile one is one line that names the file."""

import base64
import copy
import json
import random
import shutil
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from attacks import NASTY, check_error, json_text, mutated_bytes, mutated_json, seeds, tree
from lab_attacks import draws, refused_or_works, small_recording, snapshot

from vpo_lite.files import DamagedError
from vpo_lite.lab import Lab, Session
from vpo_lite.lab.recordings import FILE, Recording, read, write
from vpo_lite.lab.recordings.stored import MOST_BYTES, MOST_COMMAND, MOST_NUMBERS, checksum
from vpo_lite.tasks import program_records
from vpo_lite.training.config import TrainConfig
from vpo_lite.training.problems import problems_of_step

NUMBERS = {"answers": "<i4", "texts": "<i4", "rewards": "<f8", "advantages": "<f8"}

pytestmark = pytest.mark.usefixtures("cold")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The contents of small recordings: of many mazes, and of one."""
    folder = tmp_path_factory.mktemp("sound")
    files = [small_recording(folder / str(many), many=many) for many in (True, False)]
    return [json.loads(file.read_text()) for file in files]


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def put(folder, content) -> Path:
    """A recording of this content, by hand."""
    folder.mkdir(exist_ok=True)
    data = content if isinstance(content, bytes) else json_text(content).encode()
    (folder / FILE).write_bytes(data)
    return folder


def attacked(folder, content) -> None:
    """A recording of this content is one line that names the file, or it replays and is drawn."""
    put(folder, content)
    before = tree(folder)
    try:
        lab = Lab.replay(folder)
    except DamagedError as error:
        check_error(error)
        assert str(folder / FILE) in str(error)
    else:
        draws(lab)
        lab.look(1)
        draws(lab)
    assert tree(folder) == before


def refused(folder, content, match) -> None:
    with pytest.raises(DamagedError, match=match) as found:
        Lab.replay(put(folder, content))
    check_error(found.value)
    assert str(folder / FILE) in str(found.value)


def test_the_recordings_under_attack_are_sound(sound, tmp_path):
    for content in sound:
        lab = Lab.replay(put(tmp_path / "r", content))
        draws(lab)
        assert lab.state == "recorded" and len(lab.runs) in (1, 2)


@seeds(100)
def test_changed_fields_of_a_recording(seed, sound, tmp_path):
    rng = random.Random(f"recordings {seed}")
    attacked(tmp_path / "r", mutated_json(rng.choice(sound), rng))


@seeds(60)
def test_changed_settings_and_records_of_a_recording(seed, sound, tmp_path):
    rng = random.Random(f"records {seed}")
    content = copy.deepcopy(rng.choice(sound))
    run = rng.choice(content["runs"])
    if rng.random() < 0.4:
        run["config"] = mutated_json(run["config"], rng)
    else:
        records = mutated_json(json.loads(unpacked(run["records"])), rng)
        run["records"] = packed(json_text(records).encode())
    attacked(tmp_path / "r", content)


@seeds(100)
def test_changed_arrays_of_a_recording(seed, sound, tmp_path):
    rng = random.Random(f"arrays {seed}")
    content = copy.deepcopy(rng.choice(sound))
    run, field = rng.choice(content["runs"]), rng.choice(list(NUMBERS))
    numbers = np.frombuffer(unpacked(run[field]), NUMBERS[field]).copy()
    place = rng.randrange(len(numbers))
    if rng.random() < 0.5:
        nasty = [-9, -3, 10**6, 2**31 - 1, -(2**31)]
        if NUMBERS[field] == "<f8":
            nasty += [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-320]
        numbers[place] = rng.choice(nasty)
        data = numbers.tobytes()
    elif rng.random() < 0.5:
        data = numbers.astype(rng.choice(["<i2", "<i8", "<f4", ">i4", ">f8", "<f8"])).tobytes()
    else:
        data = mutated_bytes(numbers.tobytes(), rng)
    text = packed(data)
    if rng.random() < 0.2:
        text = mutated_bytes(text.encode(), rng).decode("latin-1")
    run[field] = text
    attacked(tmp_path / "r", content)


@seeds(30)
def test_changed_bytes_of_a_recording(seed, sound, tmp_path):
    rng = random.Random(f"bytes {seed}")
    content = rng.choice(sound)
    attacked(tmp_path / "r", mutated_bytes(json.dumps(content).encode(), rng))


# --- M5: each damage that was found ---------------------------------------------------------------


def change(content, **fields):
    return copy.deepcopy(content) | fields


def of_run(content, **fields):
    content = copy.deepcopy(content)
    content["runs"][0] |= fields
    return content


def with_numbers(content, field, value):
    content = copy.deepcopy(content)
    run = content["runs"][0]
    numbers = np.frombuffer(unpacked(run[field]), NUMBERS[field]).copy()
    numbers[0] = value
    run[field] = packed(numbers.tobytes())
    return content


def with_record(content, which, **fields):
    content = copy.deepcopy(content)
    run = content["runs"][0]
    records = json.loads(unpacked(run["records"]))
    records[which - 1] |= fields
    run["records"] = packed(json.dumps(records).encode())
    return content


def config_with(content, **fields):
    return of_run(content, config=content["runs"][0]["config"] | fields)


M5 = {
    "no zlib": (lambda c: of_run(c, rewards=base64.b64encode(b"x").decode()), "rewards"),
    "no base64": (lambda c: of_run(c, answers="~~~~"), "answers"),
    "cut": (lambda c: of_run(c, texts=c["runs"][0]["texts"][:-8]), "texts"),
    "more after it": (lambda c: of_run(c, texts=c["runs"][0]["texts"] + "AAAA"), "texts"),
    "no answers": (lambda c: {k: v for k, v in c.items() if k != "answers"}, "answers"),
    "no shapes": (lambda c: of_run(c, shapes=[]), "answers"),
    "fewer shapes": (
        lambda c: of_run(c, shapes=[c["runs"][0]["shapes"][0] * 2]),
        "another version",
    ),
    "no groups": (lambda c: of_run(c, shapes=[[], []]), "shapes"),
    "no rollouts": (lambda c: of_run(c, shapes=[[[0, 3, 4]] * 2] * 2), "shapes"),
    "negative": (lambda c: of_run(c, shapes=[[[-4, -3, 4]] * 2] * 2), "shapes"),
    "other groups": (lambda c: of_run(c, shapes=[[[2, 6, 4]] * 2] * 2), "texts"),
    "other d": (lambda c: of_run(c, shapes=[[[4, 4, 3]] * 2] * 2), "answers"),
    "uneven": (lambda c: of_run(c, shapes=[[[2, 3, 4], [6, 3, 4]]] * 2), "different shapes"),
    "huge": (lambda c: of_run(c, shapes=[[[4_000_000, 9, 9]] * 2] * 2), "numbers"),
    "-9": (lambda c: with_numbers(c, "answers", -9), "answers.*-9"),
    "answer 99": (lambda c: with_numbers(c, "answers", 99), "answers.*99"),
    "text 99": (lambda c: with_numbers(c, "texts", 99), "texts.*99"),
    "text -1": (lambda c: with_numbers(c, "texts", -1), "texts.*-1"),
    "reward NaN": (lambda c: with_numbers(c, "rewards", np.nan), "rewards.*finite"),
    "reward inf": (lambda c: with_numbers(c, "rewards", np.inf), "rewards.*finite"),
    "advantage inf": (lambda c: with_numbers(c, "advantages", -np.inf), "advantages.*finite"),
    "advantage NaN": (lambda c: with_numbers(c, "advantages", np.nan), "advantages.*NaN"),
    "unknown method": (lambda c: of_run(c, method="ppo"), "method"),
    "another method": (lambda c: of_run(c, method="gdpo"), "gdpo"),
    "unknown setting": (lambda c: config_with(c, colour="red"), "config.*colour"),
    "another task": (lambda c: config_with(c, task="os:path"), "config.*import it first"),
    "other problems": (lambda c: config_with(c, seed=5), "another version"),
    "two of one": (lambda c: change(c, runs=c["runs"][:1] * 2), "each method once"),
    "no runs": (lambda c: change(c, runs=[]), "runs"),
    "a route of letters": (lambda c: change(c, answers=["<b>x"] * 99), "answers"),
    "number as command": (lambda c: change(c, command=5), "command"),
    "long command": (lambda c: change(c, command="x" * (MOST_COMMAND + 1)), "command"),
    "damaged code": (lambda c: change(c, share=c["share"][:-1]), "share.*no share code"),
    "version 3": (lambda c: change(c, version=3), "version"),
    "version true": (lambda c: change(c, version=True), "version"),
    "one field more": (lambda c: change(c, colour="red"), "colour"),
    "other step": (lambda c: with_record(c, 2, step=3), "step 2.*is step 3"),
    "same step": (lambda c: with_record(c, 2, step=1), "step 2.*is step 1"),
    "other m": (lambda c: with_record(c, 1, m=2), "step 1.*m = 2"),
    "record's method": (lambda c: with_record(c, 1, method="grpo"), "step 1.*grpo"),
}


@pytest.mark.parametrize("damage", M5)
def test_m5_a_damaged_recording_names_the_field(damage, sound, tmp_path):
    spoil, match = M5[damage]
    refused(tmp_path / "r", spoil(sound[0]), match)


STEP = {
    "coverage": "high",
    "method": "ppo",
    "valid_rate": 2,
    "objectives": [1],
    "slots": None,
    "seconds": "1",
}


@pytest.mark.parametrize("field", STEP)
def test_m5_a_damaged_step_names_the_field(field, sound, tmp_path):
    """The schema of a step is training/record.py's."""
    refused(
        tmp_path / "r",
        with_record(sound[0], 1, **{field: STEP[field]}),
        f"step 1.*({field}|{STEP[field]})",
    )


@pytest.fixture(scope="module")
def bomb():
    """A packed text of 200 MB."""
    stream, zeros = zlib.compressobj(1), bytes(2**20)
    data = b"".join(stream.compress(zeros) for _ in range(200)) + stream.flush()
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("field", ["texts", "rewards", "advantages", "answers", "records"])
def test_m5_a_recording_takes_little_memory_whatever_it_unpacks_to(field, bomb, sound, tmp_path):
    content = of_run(sound[0], **{field: bomb})
    folder = put(tmp_path / "r", content)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match=f"{field}.*unpacks to more than") as found:
            read(folder)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check_error(found.value)
    most = 3 * MOST_BYTES if field in ("records", "texts") else MOST_BYTES + 10e6
    assert held < most, f"{held / 1e6:.0f} MB"


def test_m5_a_file_that_is_too_large_is_not_read(tmp_path):
    folder = put(tmp_path / "r", b"{}")
    with open(folder / FILE, "ab") as file:
        file.truncate(MOST_BYTES + 1)
    refused_file = pytest.raises(DamagedError, match="larger than")
    with refused_file as found:
        Lab.replay(folder)
    check_error(found.value)


def test_a_recording_imports_nothing(sound, tmp_path, monkeypatch):
    (tmp_path / "hostile_recorded.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    refused(tmp_path / "r", config_with(sound[0], task="hostile_recorded:T"), "import it first")
    named = of_run(config_with(sound[0], method="hostile_recorded:m"), method="hostile_recorded:m")
    refused(tmp_path / "r", named, "config.*import it first")
    text = json.dumps([["vpo"], {"task": "hostile_recorded:T"}, {}, True])
    code = packed(text.encode()).translate(str.maketrans("+/", "-_", "="))
    refused(tmp_path / "r", change(sound[0], share=f"VPO2-{code}"), "import it first")
    assert "hostile_recorded" not in sys.modules


def test_a_recording_runs_none_of_its_answers(tmp_path, monkeypatch):
    """Where repeats are told by their rewards, programs ran as it was opened: as many as it held,
    for as long as it said.
    """
    program = "open('ran', 'w')"
    config = TrainConfig(
        **dict(method="grpo", task="programs", mode="faithful", repeats="vector", model="any"),
        **dict(group_size=2, prompts=1, set_size=1),
    )
    task = config.make_task()
    problems = problems_of_step(task, config.seed, 0, 1)
    d = len(task.objectives(problems[0]))
    zeros = {name: np.zeros(n) for name, n in {"rewards": 2 * d, "advantages": 2}.items()}
    numbers = {"answers": np.zeros(2), "texts": np.zeros(2)} | zeros
    run = {name: packed(of.astype(NUMBERS[name]).tobytes()) for name, of in numbers.items()}
    run |= {"method": "grpo", "config": config.to_json(), "records": packed(b"[{}]")}
    run |= {"shapes": [[[2, 1, d]]], "problems": checksum(task, problems)}
    about = {"version": 2, "share": Session("grpo").share(), "command": ""}
    content = about | {"answers": [program], "texts": packed(json.dumps([program]).encode())}
    called = []
    monkeypatch.setattr(program_records, "run", lambda *_, **__: called.append(1))
    refused(tmp_path / "r", content | {"runs": [run]}, "records, step 1")
    assert not called


def test_a_bad_recording_changes_no_lab(sound, tmp_path):
    lab = Lab()
    before = snapshot(lab)
    for value in NASTY:
        for kind in (Lab, Session):
            with pytest.raises(ValueError) as found:
                kind.replay(value)
            check_error(found.value)
    refused(tmp_path / "r", change(sound[0], runs=[]), "runs")
    assert snapshot(lab) == before


# --- H7: writing ----------------------------------------------------------------------------------


@pytest.fixture
def recorded(sound, tmp_path):
    """A lab with runs, and a folder that holds an earlier good recording of them."""
    lab = Lab.replay(put(tmp_path / "from", sound[0]))
    shutil.rmtree(tmp_path / "from")
    lab.record(tmp_path, "the first")
    return lab, tmp_path


def test_h7_a_write_that_fails_leaves_the_earlier_recording(recorded, monkeypatch):
    resource = pytest.importorskip("resource", reason="limits of a process")
    lab, folder = recorded
    before = tree(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))  # bytes that any file may have
    try:
        with refused_or_works(lab) as worked:
            lab.record(folder, "the second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not worked
    assert tree(folder) == before and read(folder).command == "the first"
    lab.record(folder, "the third")
    assert read(folder).command == "the third"
    assert list(tree(folder)) == [FILE]


@pytest.mark.parametrize(
    "call", ["os.fsync", "os.replace", "pathlib.Path.touch", "pathlib.Path.write_text"]
)
def test_h7_a_full_disk_leaves_the_earlier_recording(call, recorded, monkeypatch):
    lab, folder = recorded
    before = tree(folder)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(call, full)
        with refused_or_works(lab) as worked:
            lab.record(folder, "the second")
    assert not worked and tree(folder) == before


def test_what_could_not_be_read_back_is_not_written(recorded, monkeypatch):
    lab, folder = recorded
    before = tree(folder)
    with pytest.raises(ValueError, match="at most 1000 characters"):
        lab.record(folder, "x" * (MOST_COMMAND + 1))
    monkeypatch.setattr("vpo_lite.lab.recordings.MOST_NUMBERS", 10)
    with pytest.raises(ValueError, match="train fewer steps") as found:
        lab.record(folder, "too many")
    check_error(found.value)
    assert tree(folder) == before and MOST_NUMBERS > 10_000


def test_what_is_written_is_read_back_whole(sound, tmp_path):
    """Also one whose advantages nobody knows."""
    for folder in (put(tmp_path / "r", sound[1]), Path("silent_bug/a")):
        once = read(folder)
        write(tmp_path / "once", once)
        again = read(tmp_path / "once")
        assert isinstance(again, Recording) and again[:2] == once[:2]
        for ours, theirs in zip(once.runs, again.runs, strict=True):
            assert ours.records == theirs.records
            for a, b in zip(ours.records, theirs.records, strict=True):
                for g, h in zip(a.groups, b.groups, strict=True):
                    assert (g.texts, g.answers, g.instance) == (h.texts, h.answers, h.instance)
                    assert np.array_equal(g.rewards, h.rewards)
                    assert np.array_equal(g.advantages, h.advantages, equal_nan=True)


def test_the_path_that_record_returned_can_be_replayed(recorded):
    lab, folder = recorded
    path = lab.record(folder, "once more")
    assert path.name == FILE and read(path).command == "once more"
    assert Lab.replay(path).state == "recorded"
