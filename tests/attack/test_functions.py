"""Reward functions that return, raise or switch off what no trainer can use."""

import asyncio
import warnings

import numpy as np
import pytest
import torch
from attacks import check_error
from small_models import byte_model

from vpo_lite.checks import shortened
from vpo_lite.cli import main
from vpo_lite.lab.session import Session
from vpo_lite.policy.drawing import Drawing
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.by_name import attribute
from vpo_lite.tasks.functions import FunctionsTask
from vpo_lite.tasks.reward_functions import RewardFunctions
from vpo_lite.teaching.exercises.kinds import returned


class NoNumber:
    def __float__(self):
        raise RuntimeError("no number")


class NoLength(list):
    def __len__(self):
        raise RuntimeError("no length")


class NoEntries(list):
    def __iter__(self):
        raise RuntimeError("no entries")


class NoDimensions:
    @property
    def ndim(self):
        raise RuntimeError("no dimensions")


RETURNED = {
    "complex": [1 + 0j],
    "complex64": np.ones(1, np.complex64),
    "complex128": np.ones(1, complex),
    "complex tensor": torch.ones(1, dtype=torch.complex64) * 1j,
    "a tensor without numbers": torch.ones(1, device="meta"),
    "no number": [NoNumber()],
    "no length": NoLength([1.0]),
    "no entries": NoEntries([1.0]),
    "no dimensions": NoDimensions(),
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_what_becomes_no_real_number_is_named(returned):
    with pytest.raises(TaskError, match=r"^<lambda> returned .*: expected a list") as caught:
        RewardFunctions([lambda completions: returned]).rewards(lambda: {"completions": [""]}, 1)
    check_error(caught.value, TaskError)


def test_a_tensor_with_gradients_is_read_without_a_word_of_torch():
    """A reward model was asked without torch.no_grad(): a warning would cut through the bar."""
    rewards = torch.tensor([0.5, 0.25], requires_grad=True) * 2
    for given in (rewards, [*rewards]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = RewardFunctions([lambda completions, given=given: given])
            assert found.rewards(lambda: {"completions": ["", ""]}, 2) == [[1.0], [0.5]]


class Panic(BaseException):
    """What libraries in Rust raise, such as tokenizers: it is no Exception."""


@pytest.mark.parametrize("error", [Panic("index"), asyncio.CancelledError("gone"), GeneratorExit()])
def test_an_error_that_is_no_exception_is_named(error):
    def fails(completions):
        raise error

    with pytest.raises(TaskError, match=f"^fails raised {type(error).__name__}"):
        RewardFunctions([fails]).rewards(lambda: {"completions": [""]}, 1)


class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises_it(*_, **__):
    raise Unsayable


def test_an_error_without_a_text_is_named_wherever_code_of_a_user_runs(tmp_path, monkeypatch):
    said = "Unsayable: its text raises RuntimeError"
    with pytest.raises(TaskError, match=f"^raises_it raised {said}"):
        RewardFunctions([raises_it]).rewards(lambda: {"completions": [""]}, 1)
    assert returned(raises_it, [(1,)]) == ([], f"Your function raises an error: {said}")
    session = Session()
    session.report(Unsayable())
    assert session.view().error == said
    session.report(ValueError(f"{'too much, ' * 50}lower prompts"))
    assert session.view().error.endswith("too much, lower prompts"), "the cure stands at the end"
    (tmp_path / "unsayable.py").write_text(
        "class Unsayable(Exception):\n"
        "    def __str__(self):\n"
        "        raise RuntimeError('no text')\n"
        "raise Unsayable\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=f"its module cannot be imported .{said}"):
        attribute("unsayable:f", "reward function")


def test_ctrl_c_in_a_function_stays_ctrl_c():
    def waits(completions):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RewardFunctions([waits]).rewards(lambda: {"completions": [""]}, 1)


def test_a_module_that_fails_when_a_name_is_looked_up_is_named(tmp_path, monkeypatch):
    """As transformers does for a class that needs a package which is not there."""
    text = "def __getattr__(name):\n    raise ImportError(f'{name} needs a package')\n"
    (tmp_path / "looked_up_late.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"looked_up_late:f.*ImportError: f needs a package"):
        attribute("looked_up_late:f", "reward function")


def test_no_name_at_all_stands_for_no_function(tmp_path):
    """An unset variable of the shell must not choose the functions that ship."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "limit": 5}\n' * 2)
    for none in ("", "  "):
        with pytest.raises(ValueError, match=r"reward_funcs = .*expected package.module:function"):
            FunctionsTask(data=rows, reward_funcs=none)


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains one step on a module's rewards, and returns the exit status."""
    model = byte_model(tmp_path / "model", 32, 64, 2, 2, 2)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small = "train --method grpo --steps 1 --prompts 1 --group-size 3 --max-new-tokens 8"
    small += " --eval-problems 1 --eval-answers 3 --data rows.jsonl --task functions --out run"
    small += " --device cpu"

    def run(name: str, body: str) -> int:
        lines = "import torch\ndef f(completions, **columns):\n"
        lines += f"    {body}\n    return [1 / (1 + len(text)) for text in completions]\n"
        (tmp_path / f"{name}.py").write_text(lines)
        return main([*small.split(), "--model", str(model), "--reward-funcs", f"{name}:f"])

    def started(name, body):
        try:
            return run(name, body)
        finally:
            torch.set_grad_enabled(True)
            torch.set_default_dtype(torch.float32)

    return started


@pytest.mark.parametrize(
    "body", ["torch.set_grad_enabled(False)", "torch.set_default_dtype(torch.float64)"]
)
def test_a_reward_model_that_changes_torch_for_all_does_not_end_the_run(train, tmp_path, body):
    name = f"changes_torch_{len(body)}"
    assert train(name, body) == 0
    assert (tmp_path / "run" / "summary.json").exists()


def test_drawn_logprobs_are_in_single_precision_whatever_the_default_is():
    torch.set_default_dtype(torch.float64)
    try:
        made = Drawing(np.full((1, 2, 1), 0.5), {0}, 0, 1.0, torch.device("cpu"))
        made.draw(torch.zeros(2, 4, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)
    assert made.logprobs.dtype is torch.float32
    assert made.logprobs[:, 0].tolist() == pytest.approx([np.log(0.25)] * 2)


def test_joiners_of_letters_stay_and_what_turns_a_line_around_is_written_out():
    persian, family = "\u0645\u06cc\u200c\u062e", "\U0001f468\u200d\U0001f469"
    assert shortened(f"{persian} {family}") == f"{persian} {family}"
    assert shortened("abc\u202edef") == r"abc\u202edef"


def test_control_characters_of_a_message_do_not_reach_the_terminal(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(r'{"prompt": "a", "\u001b[2J": 1, "\u001b[2J": 2}' + "\n")
    assert main(["data", "check", str(rows), "--task", "functions"]) in (1, 2)
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said and r"\x1b[2J" in said
