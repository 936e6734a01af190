"""Predictions: asked for, kept in the kernel, shown against the outcome."""

import builtins
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vpo_lite.teaching import predict
from vpo_lite.teaching.predictions import KEPT

QUESTION, OPTIONS = "Which answers fill the slots?", ["A B C", "C C C"]


@pytest.fixture(autouse=True)
def kernel():
    """A kernel in which nothing was predicted before."""
    KEPT.clear()


def test_a_choice_is_kept_and_shown_against_the_outcome():
    guess = predict("fills", QUESTION, OPTIONS)
    assert guess.value is None
    assert guess.outcome("A B C").sentence == "You made no prediction. The outcome is A B C."
    guess.value = "C C C"
    assert guess.outcome("A B C").sentence == "You predicted C C C. The outcome is A B C."
    assert guess.outcome("C C C").sentence == "You predicted C C C. That is the outcome."
    assert repr(guess.outcome("C C C")) == f"{QUESTION} You predicted C C C. That is the outcome."
    assert repr(guess) == f"{QUESTION} [A B C | C C C] Your prediction: C C C"


def test_running_the_cell_again_keeps_the_choice():
    predict("fills", QUESTION, OPTIONS).value = "C C C"
    assert predict("fills", QUESTION, OPTIONS).value == "C C C"
    assert predict("other", QUESTION, OPTIONS).value is None
    assert predict("fills", "Another question?", OPTIONS).value is None


def test_a_number_may_be_asked_for():
    guess = predict("worth", "How much is it worth?")
    guess.value = np.float64(0.5)
    assert guess.outcome(np.float64(0.76)).sentence == "You predicted 0.5. The outcome is 0.76."
    assert guess.outcome(0.5).sentence == "You predicted 0.5. That is the outcome."
    guess.value = 999.7
    assert guess.outcome(2000).sentence == "You predicted 1000. The outcome is 2000."


@pytest.mark.parametrize(("predicted", "close"), [(4, True), (3.75, True), (3.7, False)])
def test_a_number_within_five_percent_is_close(predicted, close):
    guess = predict("noise", "The noise")
    guess.value = predicted
    outcome = guess.outcome(3.9)
    assert (outcome.close, outcome.right) == (close, False)
    assert ("That is close: the outcome is 3.9." in repr(outcome)) == close
    assert ("≈" in outcome._repr_html_()) == close
    assert not guess.outcome(0).close and not guess.outcome(-3.9).close


def test_a_text_is_never_close():
    guess = predict("fills", QUESTION, ["4", "3.9"])
    guess.value = "4"
    assert not guess.outcome("3.9").close


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("", QUESTION), "key = ''"),
        ((3, QUESTION), "key = 3"),
        (("fills", "two\nlines"), r"question = 'two\nlines'"),
        (("fills", QUESTION, "yes"), "options = 'yes'"),
        (("fills", QUESTION, ["only one"]), "options = ['only one']"),
        (("fills", QUESTION, ["same", "same"]), "options = ['same', 'same']"),
        (("fills", QUESTION, ["yes", 0]), "options = 0"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(arguments, named):
    with pytest.raises(ValueError) as refused:
        predict(*arguments)
    assert str(refused.value).startswith(f"{named}: expected ")
    assert len(str(refused.value).splitlines()) == 1
    assert not KEPT


@pytest.mark.parametrize("wrong", ["B B B", None, 1, "G" * 5000])
def test_an_outcome_that_is_no_option_is_refused_in_one_line(wrong):
    guess = predict("fills", QUESTION, OPTIONS)
    with pytest.raises(ValueError, match=r"^outcome = .*: expected one of A B C, C C C$"):
        guess.outcome(wrong)
    with pytest.raises(ValueError, match=r"^outcome = .*: expected a finite number$"):
        predict("worth", QUESTION).outcome("high")
    with pytest.raises(ValueError, match=r"^value = 'B B B': expected one of A B C, C C C$"):
        guess.value = "B B B"
    assert guess.value is None


def test_the_outcome_is_escaped_on_a_page():
    guess = predict("sign", "Which?", ["<b>", "a < b"])
    guess.value = "<b>"
    assert guess.outcome("<b>")._repr_html_() == (
        "<p>Which?<br><b>✓ You predicted &lt;b&gt;. That is the outcome.</b></p>"
    )
    assert "→ You predicted &lt;b&gt;." in guess.outcome("a < b")._repr_html_()


def test_what_is_chosen_is_stored():
    guess = predict("fills", QUESTION, OPTIONS)
    bundle = guess._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"].endswith("none yet")
    _, choices, note = guess._widget.children
    assert choices.options == tuple(OPTIONS) and choices.value is None
    choices.value = "C C C"
    assert guess.value == "C C C" and "Stored: C C C." in note.value


def test_the_field_takes_a_number_and_says_if_it_is_none():
    guess = predict("worth", "How much is it worth?")
    _, field, note = guess._widget.children
    field.value = "0,76"
    assert guess.value == 0.76 and "Stored: 0.76." in note.value
    for wrong in ("many", "nan", "1e999", "1/0", "95 % of", "/", "%"):
        field.value = wrong
        told = "Please type a finite number, such as 0.95, 95 % or 3/4. 0.76 is still stored."
        assert guess.value == 0.76 and told in note.value, wrong
    for wrong in ("1,728", "1,728,000", "-12,345 %", "1/1,000"):  # was 1.728, without a word
        field.value = wrong
        told = f"{wrong} may be two numbers: leave out the comma of thousands, or write a decimal "
        told += "point. 0.76 is still stored."
        assert guess.value == 0.76 and told in note.value, wrong
    for typed, number in (
        ("0,728", 0.728),
        ("1,72", 1.72),
        ("1,7284", 1.7284),
        ("1234,567", 1234.567),
    ):
        field.value = typed
        assert guess.value == number
    field.value = " "
    assert guess.value is None and "Nothing is stored." in note.value
    for typed, number in (("95%", 0.95), (" 3/4", 0.75), ("\N{MINUS SIGN}3", -3), ("-0", 0)):
        field.value = typed
        assert guess.value == number and math.copysign(1, guess.value) == (-1) ** (number < 0)
    assert "Stored: 0." in note.value


@pytest.mark.parametrize(
    ("options", "value", "field"),
    [(None, 12345.678, "12345.678"), (None, 0.1 + 0.2, "0.30000000000000004"), (None, 2, "2")]
    + [(OPTIONS, "C C C", "C C C"), (None, None, "")],
)
def test_what_code_sets_is_seen_in_the_field(options, value, field):
    guess = predict("worth", "Which?", options)
    shown = guess._widget.children[1]
    guess.value = value
    assert guess.value == value and shown.value == field


def test_large_numbers_are_the_outcome_only_where_they_are_alike():
    guess = predict("many", "How many?")
    guess.value = 12345
    assert "That is close: the outcome is 12300." in repr(guess.outcome(12300))
    assert "You predicted 12345." in repr(guess.outcome(7))


def test_without_the_widget_library_it_is_text(monkeypatch):
    usual = builtins.__import__

    def without(name, *rest):
        if name == "ipywidgets":
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    guess = predict("fills", QUESTION, OPTIONS)
    assert guess._repr_mimebundle_() == {"text/plain": repr(guess)}


@pytest.mark.slow
def test_asking_loads_no_widgets_and_no_torch():
    code = (
        "from vpo_lite.teaching import predict; g = predict('k', 'q?', ['a', 'b']); g.outcome('a');"
        "import sys; print(*{'torch', 'ipywidgets', 'IPython', 'plotly'}.intersection(sys.modules))"
    )
    here = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stdout.split(), done.stderr + done.stdout
