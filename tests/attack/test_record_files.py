"""Files of records, and of answers to them, that are cut, mistyped or made by somebody else."""

import json
import random

import numpy as np
import pytest
from attacks import check_error, json_text, mutated_bytes, mutated_json, seeds

from vpo_lite.cli import main
from vpo_lite.files import DamagedError
from vpo_lite.tasks.records import EXAMPLES, on_records
from vpo_lite.training.answers import judge

NAMES = ("calls", "hops", "chains")
WHOLE = {name: (EXAMPLES / f"{name}.jsonl").read_bytes() for name in NAMES}


def attacked(name, path) -> None:
    """Every line is a problem that can be asked and scored, or is dropped, or has one error."""
    cls = on_records(name)
    loaded = cls().load(path)
    for message in loaded.damaged.values():
        check_error(DamagedError(message))
        assert str(path) in message
    for why in loaded.dropped.values():
        check_error(ValueError(why))
    for x in loaded.records.values():
        task = cls()
        assert task.prompt(x, 3).text.encode()
        (judged,) = judge(task, [(x, task.asked_in_blocks(2, task.gold(x)), 2)])
        assert np.array_equal(judged.rewards, np.ones_like(judged.rewards))
        assert task.key(x) and task.kind(x) is not None
    try:
        loaded.usable()
    except DamagedError as error:
        check_error(error)


@seeds(120)
def test_changed_fields_of_a_record(seed, tmp_path):
    rng = random.Random(f"record {seed}")
    name = rng.choice(NAMES)
    rows = [json.loads(line) for line in WHOLE[name].splitlines()]
    for _ in range(rng.randrange(1, 4)):
        i = rng.randrange(len(rows))
        rows[i] = mutated_json(rows[i], rng)
    (tmp_path / "a.jsonl").write_text("\n".join(map(json_text, rows)))
    attacked(name, tmp_path / "a.jsonl")


@seeds(120)
def test_changed_bytes_of_a_file_of_records(seed, tmp_path):
    rng = random.Random(f"records {seed}")
    name = rng.choice(NAMES)
    (tmp_path / "a.jsonl").write_bytes(mutated_bytes(WHOLE[name], rng))
    attacked(name, tmp_path / "a.jsonl")


@seeds(100)
def test_changed_answers_are_scored_or_named_in_one_line(seed, tmp_path, capsys):
    rng = random.Random(f"answers {seed}")
    name = rng.choice(NAMES)
    task = on_records(name)()
    instances = list(task.load(task.path).usable().values())
    row = {"id": "a", "record": 0, "m": 2, "text": task.asked_in_blocks(2, task.gold(instances[0]))}
    if rng.random() < 0.5:
        content = json_text(mutated_json(row, rng)).encode()
    else:
        content = mutated_bytes(json.dumps(row).encode(), rng)
    (tmp_path / "a.jsonl").write_bytes(content)
    command = ["score", "--task", name, "--data", str(EXAMPLES / f"{name}.jsonl"), "--answers"]
    status = main([*command, str(tmp_path / "a.jsonl")])
    told = capsys.readouterr()
    if status == 0:
        for line in told.out.splitlines():
            rewards = np.array(json.loads(line)["rewards"])
            assert rewards.min() >= 0 and rewards.max() <= 1
    else:
        assert status == 2 and told.out == ""
        assert len(told.err.splitlines()) == 1
        assert "a.jsonl, line" in told.err or "a.jsonl: holds no answer" in told.err


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_one_data_set_are_none_of_another(name):
    for other in NAMES:
        loaded = on_records(name)().load(EXAMPLES / f"{other}.jsonl")
        assert bool(loaded.records) == (name == other) != bool(loaded.damaged)
