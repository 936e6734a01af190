"""Draws depend on their name alone: not on order, process, or the hash seed of Python."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from vpo_lite.randomness import generator, integer


def test_the_same_name_gives_the_same_numbers_in_any_order():
    names = [
        (0, "weights", 3, ("maze", 7)),
        (0, "weights", 4, ("maze", 7)),
        (1, "weights", 3, ("maze", 7)),
    ]
    forwards = {name: generator(*name).random(4).tolist() for name in names}
    backwards = {name: generator(*name).random(4).tolist() for name in reversed(names)}
    assert forwards == backwards


def test_any_difference_in_the_name_gives_other_numbers():
    keys = ["", "x", ("x",), ("x", 1), ("x", "1"), 1, "1"]
    names = [(0, "a", 0, key) for key in keys]
    names += [(1, "a"), (-1, "a"), (0, "b"), (0, "a1"), (0, "a", 1), (0, "a", 10)]
    assert len({integer(*name) for name in names}) == len(names)
    assert len({generator(*name).random() for name in names}) == len(names)


def test_kinds_of_number_and_sequence_do_not_matter():
    assert integer(np.int64(3), "a", np.int32(5), ("x", np.int64(1))) == integer(
        3, "a", 5, ["x", 1]
    )
    assert integer(3, "a", 0, {"x": 1, "y": 2}) == integer(3, "a", 0, {"y": 2, "x": 1})


@pytest.mark.slow
def test_another_process_with_another_hash_seed_draws_the_same():
    code = (
        "from vpo_lite.randomness import *; "
        "print(integer(5, 'x', 2, ('k', 1)), generator(5, 'x', 2, 'k').random())"
    )
    here = f"{integer(5, 'x', 2, ('k', 1))} {generator(5, 'x', 2, 'k').random()}"
    for seed in ("1", "2"):
        out = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert out.stdout.strip() == here, out.stderr


def test_streams_are_uniform_and_uncorrelated():
    draws = np.array([generator(0, "weights", step).random(8) for step in range(2000)])
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert abs(np.corrcoef(draws.T) - np.eye(8)).max() < 0.1
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.1  # neighbouring steps


def test_an_integer_is_the_hash_of_its_name():
    """63 bits of BLAKE2b over JSON; by default the step is 0 and the key empty."""
    names = {'[3,"a",7,["x",1]]': (3, "a", 7, ("x", 1)), '[5,"b",0,""]': (5, "b")}
    names |= {f'[{seed},"c",0,""]': (seed, "c") for seed in range(8)}
    for name, arguments in names.items():
        digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
        assert integer(*arguments) == int.from_bytes(digest, "little") % 2**63
        key = np.frombuffer(digest, "<u8")
        assert generator(*arguments).bit_generator.state["state"]["key"].tolist() == key.tolist()


def test_integers_fit_torch():
    numbers = [integer(s, "torch") for s in range(200)]
    assert min(numbers) >= 0 and max(numbers) < 2**63 and max(numbers) > 2**62


@pytest.mark.parametrize(
    "arguments",
    [
        (0, "a", 0, {1, 2}),
        (0, "a", 0, b"x"),
        (0, "a", 0, np.nan),
        (0, "a", 0, [-np.inf]),
        (0, "a", 1.5),
        (0, 3),
        (float("nan"), "a"),
        (object(), "a"),
    ],
)
def test_what_has_no_canonical_name_is_refused(arguments):
    with pytest.raises(ValueError, match="expected numbers, strings and tuples"):
        generator(*arguments)
