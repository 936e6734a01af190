"""Models that think before they answer: what stands in their thoughts is no answer."""

import pytest

from vpo_lite.tasks import numbered_form, read_numbered, task_class
from vpo_lite.tasks.functions import Asked, OfFunctions
from vpo_lite.tasks.records import on_records

FORM = numbered_form(2, "answer")
BOTH = "<answer_1> 4 </answer_1> <answer_2> 5 </answer_2>"
READ = [" 4 ", " 5 "]
OWN = "<answer_1> <think> a </think> 4 </answer_1> <answer_2> <think> b </think> 5 </answer_2>"
OWN_READ = [" <think> a </think> 4 ", " <think> b </think> 5 "]
NONE = [None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOTH, READ),
        (f"<think>I must write {FORM}</think>{BOTH}", READ),
        (f"\n<think>\n\n</think>\n\n{BOTH}", READ),
        (f"I must write {FORM}</think>{BOTH}", READ),  # the prompt opened the thoughts
        (f"To <think>, or {FORM}? </think>{BOTH}", READ),
        (f"I begin with <answer_1> </think>{BOTH}", READ),
        (f"<think>I must write {FORM}", NONE),
        (f"<think>{BOTH}", NONE),
        (f"{BOTH}</think>", NONE),
        (f"{BOTH}<think> or {FORM}", READ),
        (f"<think>a</think>Well.<think>{FORM}</think>{BOTH}", READ),
        (f"<think>I end with </think>, after {FORM}.</think>{BOTH}", READ),
        (f"<answer_1> 4 </answer_1> <think> {FORM} </think> <answer_2> 5 </answer_2>", READ),
        (OWN, OWN_READ),
        (f"<think>{FORM}</think>{OWN}", OWN_READ),
        (f"{FORM}</think>{OWN}", OWN_READ),
        (f"<Think>{BOTH}", READ),  # no such tag
    ],
)
def test_answers_are_read_outside_of_thoughts(text, expected):
    assert read_numbered(text, 2, "answer") == expected
    stripped = [None if body is None else body.strip() for body in expected]
    assert OfFunctions([len]).parse(Asked("?"), text, 2) == stripped


@pytest.mark.parametrize("text", ["<think>" * 20_000, "<answer_1>" * 20_000 + "</think>"])
def test_openings_alone_hold_no_answer(text):
    assert read_numbered(text, 2, "answer") == NONE


def test_a_single_answer_that_is_the_completion_keeps_its_thoughts():
    """Functions get it as TRL hands it over; a reward may count how it is thought."""
    text = "<think> 2 + 2 </think> 4"
    assert OfFunctions([len]).parse(Asked("?"), text, 1) == [text]
    task = on_records("calls")()
    assert task.parse(task.instance(0), text, 1) == [text]


@pytest.mark.parametrize("opening", ["<think>", ""])
@pytest.mark.parametrize("name", ["calls", "chains", "hops", "programs"])
@pytest.mark.parametrize("faithful", [False, True])
def test_every_parser_of_words_leaves_thoughts_out(name, faithful, opening):
    """The right answers are read behind thoughts that hold the form, as they are without them."""
    task = on_records(name)() if faithful else task_class(name)()
    x = task.instance(0)
    form = task.prompt(x, 2).text
    if faithful and name == "programs":
        answers = ["print(1)", "print(2)"]
    elif faithful:
        answers = [task.gold(x), task.gold(x)]
    else:
        answers = [
            task.read(
                x,
                {
                    "calls": "taxi_300 pet=no ; hotel_410 nights=4",
                    "chains": "Edda Ember Elsby Holm Joch",
                    "hops": "2 4 = Eva",
                    "programs": "left sort plus",
                }[name],
            )
        ] * 2
    said = task.write(x, answers)
    if faithful and name != "programs":
        said = "".join(f"<response_{i}>{a}</response_{i}>" for i, a in enumerate(answers, 1))
    assert None not in answers and task.parse(x, said, 2) == answers
    assert task.parse(x, f"{opening}So: {form}\n</think>\n{said}", 2) == answers
    never_ends = form if faithful and name == "calls" else said  # an answer there closes <think>
    assert task.parse(x, f"<think>{never_ends}", 2) == NONE
    if faithful and name != "calls":
        one = said if name == "programs" else answers[0]
        first = task.parse(x, one, 1)
        assert task.parse(x, f"{opening}{form} {one} </think>{one}", 1) == first


def test_any_word_may_be_the_tag_and_m_is_a_count():
    """The tag "c++" was a pattern, and m = 0 asked for nothing."""
    assert read_numbered("<c++_1> 4 </c++_1> <cc_2> 5 </cc_2>", 2, "c++") == [" 4 ", None]
    for m in (0, -1, 1.5):
        with pytest.raises(ValueError, match=rf"m = {m}: expected a whole number of at least 1"):
            numbered_form(m, "answer")
        with pytest.raises(ValueError, match=rf"m = {m}: expected a whole number of at least 1"):
            read_numbered(FORM, m, "answer")
