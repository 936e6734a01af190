"""Questions of several steps: every rule of the scorer against vectors worked by hand."""

import json
import random
from fractions import Fraction

import numpy as np
import pytest

from vpo_lite.files import DamagedError
from vpo_lite.tasks.hop_records import HopRecords, Question
from vpo_lite.tasks.matching import multiset_f1, normalised, token_f1
from vpo_lite.tasks.records import Dropped
from vpo_lite.training.answers import judge

TWO = Question("Where?", (), (0, 1), ("Lisse", "Lisse, Holland"))


def scores(x, text, **options):
    task = HopRecords(**options)
    (rewards,) = judge(task, [(x, text, 1)])[0].rewards.tolist()
    return rewards


def written(cited, answer="Lisse"):
    return f"<support>{cited}</support>\n<answer>{answer}</answer>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (written("0, 1"), (1, 1, 1, 1, 1)),
        (written("1,0"), (1, 1, 1, 1, 1)),  # the order does not matter
        (written("\n 0 ,\n1\n"), (1, 1, 1, 1, 1)),
        (written("00, 01"), (1, 1, 1, 1, 1)),
        (written("1"), (0, 1, 1, 1, 1)),
        (written(""), (0, 0, 1, 1, 1)),
        ("<answer>Lisse</answer>", (0, 0, 1, 1, 1)),
        (written("0, 0, 0, 0, 1"), (1, 1, 1, 1, 1)),  # four different ones count
        (written("5, 4, 3, 0, 1"), (1, 0, 1, 1, 1)),  # the fifth does not
        (written("97, 98, 99, 0, 1"), (1, 0, 1, 1, 1)),  # nor if there are no such paragraphs
        (written("[0], 1"), (0, 1, 1, 1, 1)),
        (written("0 1"), (0, 0, 1, 1, 1)),
        (written("0; 1"), (0, 0, 1, 1, 1)),
        (written("-0, +1, 1.0"), (0, 0, 1, 1, 1)),
        (written("²,٠, 1"), (1, 1, 1, 1, 1)),  # a digit of another script, and none of any number
        (written("9" * 5000 + ", 0, 1"), (1, 1, 1, 1, 1)),
        ("<SUPPORT>0, 1</SUPPORT><answer>Lisse</answer>", (0, 0, 1, 1, 1)),
        (
            "<support>0, 1<answer>Lisse</answer></support>",
            (1, 0, 1, 1, 1),
        ),  # "1<answer>..." is lost
        # without an answer nothing counts, whatever is cited
        (written("0, 1", ""), (0, 0, 0, 0, 0)),
        (written("0, 1", " \n "), (0, 0, 0, 0, 0)),
        ("<support>0, 1</support> Lisse", (0, 0, 0, 0, 0)),
        ("<support>0, 1</support><ANSWER>Lisse</ANSWER>", (0, 0, 0, 0, 0)),
        ("", (0, 0, 0, 0, 0)),
        ("junk", (0, 0, 0, 0, 0)),
        # the first of each tag counts
        (written("7") + written("0, 1"), (0, 0, 1, 1, 1)),
        (written("0, 1", "Breda") + written("0, 1"), (1, 1, 1, 1, 0)),
        (written("0, 1", "") + written("0, 1"), (0, 0, 0, 0, 0)),
        # words of the answer
        (written("0, 1", "Lisse, Holland"), (1, 1, 1, 1, 1)),
        (written("0, 1", "the LISSE!"), (1, 1, 1, 1, 1)),
        (written("0, 1", "in Lisse"), (1, 1, 1, 1, 2 / 3)),
        (
            written("0, 1", "Lisse in Holland"),
            (1, 1, 1, 1, 4 / 5),
        ),  # the second of the two is nearer
        (written("0, 1", "Lisse Lisse"), (1, 1, 1, 1, 2 / 3)),
        (written("0, 1", "<b>Lisse</b>"), (1, 1, 1, 1, 0)),  # tags are punctuation: blisseb
        (written("0, 1", "Lissé"), (1, 1, 1, 1, 0)),
        (written("0, 1", "the"), (1, 1, 1, 1, 0)),
        (written("0, 1", "«Lisse»"), (1, 1, 1, 1, 0)),  # only ASCII punctuation is dropped
    ],
)
def test_vectors_on_two_hops(text, expected):
    assert scores(TWO, text) == pytest.approx(expected)


def test_the_scorer_gives_nothing_without_an_answer_also_where_nobody_parsed_the_text():
    texts = ["<support>0, 1</support>", written("0, 1", " "), written("0, 1")]
    assert HopRecords().score([TWO], [texts])[0].tolist() == [[0] * 5, [0] * 5, [1] * 5]


@pytest.mark.parametrize(
    ("hops", "cited", "expected", "scalar"),
    [
        (2, "8, 9", (0, 0, 1, 1, 0), Fraction(2, 7)),  # the floor of an answer with nothing right
        (3, "8, 9", (0, 0, 0, 1, 0), Fraction(1, 7)),
        (4, "8, 9", (0, 0, 0, 0, 0), Fraction(0)),
        (4, "0, 1, 2, 3", (1, 1, 1, 1, 0), Fraction(4, 7)),
        (4, "3, 1", (0, 1, 0, 1, 0), Fraction(2, 7)),
        (5, "0, 1, 2, 3", (1, 1, 1, 1, 0), Fraction(4, 7)),  # a fifth step is not scored
        (5, "4, 3", (0, 0, 0, 1, 0), Fraction(1, 7)),
    ],
)
def test_vectors_on_more_hops_and_their_scalar(hops, cited, expected, scalar):
    x = Question("Where?", (), tuple(range(hops)), ("Lisse",))
    rewards = scores(x, written(cited, "Breda"))
    assert rewards == list(expected)
    task = HopRecords()
    assert task.w_star(x) @ rewards == pytest.approx(float(scalar))
    assert task.w_star(x) @ np.ones(5) == pytest.approx(1)
    whole = scores(x, written("0, 1, 2, 3"[: 3 * hops - 2]))
    assert whole == [1] * 5 and task.solved(x, np.array([whole])).all()


@pytest.mark.parametrize(
    ("cited", "strict", "loose"),
    [
        ("[0], [1]", (0, 0), (1, 1)),
        ("0 1", (0, 0), (1, 1)),
        ("paragraphs 0 and 1", (0, 0), (1, 1)),
        ("0, 1", (1, 1), (1, 1)),
        ("10", (0, 0), (0, 0)),
    ],
)
def test_loose_citations_are_an_option(cited, strict, loose):
    assert scores(TWO, written(cited))[:2] == list(strict)
    assert scores(TWO, written(cited), citations="loose")[:2] == list(loose)


def test_the_order_in_which_articles_and_punctuation_are_dropped_is_an_option():
    x = Question("Which?", (), (0,), ("a-team",))
    for answer, release, musique in (("team", 1, 0), ("the A-Team", 1, 1), ("ateam", 0, 1)):
        assert scores(x, written("0", answer))[-1] == release
        assert scores(x, written("0", answer), answer_words="musique")[-1] == musique


def test_an_answer_with_nothing_right_is_not_valid_whatever_the_number_of_hops():
    for hops in (2, 3, 4, 5):
        x = Question("Where?", (), tuple(range(hops)), ("Lisse",))
        texts = [written("9", "Breda"), written("0", "Breda"), written("9"), "junk"]
        R = np.array([scores(x, text) for text in texts])
        assert HopRecords().valid(x, R).tolist() == [False, True, True, False]
        assert HopRecords().valid(x, R[None]).shape == (1, 4)


def test_answers_of_equal_effect():
    task = HopRecords()
    one = written("0, 1")
    assert task.same_effect(TWO, one) == task.same_effect(TWO, written("1, 0, 0", "the lisse"))
    for other in (written("0"), written("0, 1", "Breda")):
        assert task.same_effect(TWO, one) != task.same_effect(TWO, other)
    wrong = [written("7", word) for word in ("Breda", "Harn")]
    assert len({task.same_effect(TWO, a) for a in wrong}) == 2
    assert len({HopRecords(repeats="vector").same_effect(TWO, a) for a in wrong}) == 1


def test_held_out_questions_in_turn():
    records = [
        Question(str(i), (), tuple(range(h)), ("x",)) for i, h in enumerate([2, 2, 2, 4, 3, 2, 3])
    ]
    assert HopRecords().held_out(records) == records
    turns = HopRecords(held_out_order="hops").held_out(records)
    assert [x.question for x in turns] == ["0", "4", "3", "1", "6", "2", "5"]  # 2 3 4, 2 3, 2, 2


ROW = {
    "paragraphs": [{"idx": i, "title": "t", "paragraph_text": "p"} for i in range(3)],
    "question": "Where?",
    "question_decomposition": [{"paragraph_support_idx": i} for i in (2, 0)],
    "answer": "Lisse",
    "answer_aliases": [],
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"answerable": False}, "it is marked as not answerable"),
        (
            {"question_decomposition": [{"paragraph_support_idx": None}]},
            "a step names no paragraph",
        ),
        ({"question_decomposition": [{}]}, "a step names no paragraph"),
        ({"answer": " "}, "its answer is empty"),
        ({"answer": "The ..."}, "its answer is only articles and punctuation, which do not count"),
        ({"question": " "}, "its question is empty"),
    ],
)
def test_rows_that_are_dropped(changed, why):
    with pytest.raises(Dropped, match=why):
        HopRecords().record(HopRecords.row.model_validate(ROW | changed))
    for null in ({}, {"answerable": None}):  # parquet writes it for a field that is not there
        assert HopRecords().record(HopRecords.row.model_validate(ROW | null)).support == (2, 0)


def test_an_alias_without_words_is_no_answer():
    """Any other answer without words would be right."""
    x = HopRecords().record(HopRecords.row.model_validate(ROW | {"answer_aliases": ["?", "L."]}))
    assert x.answers == ("Lisse", "L.")
    assert HopRecords().vector(x, "<support>2, 0</support> <answer>!</answer>")[4] == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"question_decomposition": []}, "question_decomposition: 0 steps; 1 to 4 can be scored"),
        (
            {"question_decomposition": [{"paragraph_support_idx": 0}] * 5},
            "question_decomposition: 5 steps; 1 to 4 can be scored, so leave this record out",
        ),
        (
            {"question_decomposition": [{"paragraph_support_idx": 3}]},
            "paragraph_support_idx = 3, and no paragraph has this idx; there are [0, 1, 2]",
        ),
        ({"paragraphs": ROW["paragraphs"] * 2}, "paragraphs: idx 0 is there twice"),
    ],
)
def test_what_is_no_record_of_musique_is_damaged(changed, why, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | changed)}\n")
    loaded = HopRecords().load(path)
    assert (list(loaded.records), list(loaded.damaged), loaded.dropped) == ([0], [1], {})
    assert loaded.damaged[1].startswith(f"{path}, line 2: ") and why in loaded.damaged[1]
    with pytest.raises(DamagedError, match="line 2"):
        loaded.usable()


# --- the F1 of words, and what is dropped from a text ---------------------------------------------


def shared(a, b):
    """How many items two lists share, each struck out once it is matched."""
    left = list(b)
    return sum(item in left and (left.remove(item) or True) for item in a)


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    draw = random.Random(0)
    for _ in range(500):
        a, b = (draw.choices("xyz", k=draw.randrange(6)) for _ in range(2))
        common = shared(a, b)
        if not a and not b:
            expected = 1
        elif common == 0:
            expected = 0
        else:
            precision, recall = Fraction(common, len(a)), Fraction(common, len(b))
            expected = 2 / (1 / precision + 1 / recall)
        assert multiset_f1(a, b) == pytest.approx(float(expected))
        assert token_f1(" ".join(a), ", ".join(b)) == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("  The  A-Team!\t", {}, "the ateam"),
        ("  The  A-Team!\t", {"articles": False}, "team"),
        ("Anna and the theatre", {"articles": False}, "anna and theatre"),
        ("an_apple", {"articles": False}, "anapple"),
        ("an_apple", {"articles": False, "underscores": True}, "apple"),
        ("a.b", {"articles": False}, "b"),
        ("a.b", {"articles": False, "punctuation_first": True}, "ab"),
        ("the.", {"articles": False, "punctuation_first": True}, ""),
        ("ÄÖ İ", {}, "äö i̇"),
        ("x\u00a0y", {}, "x y"),
        (None, {}, ""),
        (1.0, {}, "10"),
        (True, {}, "true"),
        ([1, "a"], {}, "1 a"),
    ],
)
def test_normalisation(text, options, expected):
    assert normalised(text, **options) == expected
