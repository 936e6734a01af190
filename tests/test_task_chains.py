"""Chains of entities: every rule of the scorer against vectors worked by hand."""

import pytest

from vpo_lite.tasks.chain_records import Chain, ChainRecords
from vpo_lite.tasks.records import Dropped
from vpo_lite.training.answers import judge

NAMES = ("Ina_Holt", "The_Low_Tide", "St._Anne's_County", "Jon_Målø", "Norland!")
CHAIN = Chain(("Person A wrote Book B.",), ("Person A", "Book B", "County C", "D", "E"), NAMES)


def written(*names):
    return " ".join(
        f"<entity_{x}>{name}</entity_{x}>" for x, name in zip("ABCDE", names, strict=False)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (written(*NAMES), (1, 1, 1, 1, 1)),
        (
            written("ina holt", "Low Tide", "st annes county", "JON MÅLØ", "norland"),
            (1, 1, 1, 1, 1),
        ),
        (written("  Ina\n Holt ", "a low_tide", "St_Annes_County"), (1, 1, 1, 0, 0)),
        (
            written("InaHolt", "Tide", "Saint Anne's County", "Jon Malo", "?Norland"),
            (0, 0, 0, 0, 1),
        ),
        (written("Ina Holt of Harn"), (0, 0, 0, 0, 0)),  # named, and wrong
        (written("", "", "", "Jon_Målø", ""), (0, 0, 0, 1, 0)),
        (written("", "", "", "", ""), (0, 0, 0, 0, 0)),
        (written("", "", "", "", "the"), (0, 0, 0, 0, 0)),  # nothing is left of the name
        (written("The_Low_Tide", "Ina_Holt"), (0, 0, 0, 0, 0)),  # each name in its place
        ("<ENTITY_A>Ina_Holt</entity_a>", (1, 0, 0, 0, 0)),  # tags in any case
        (
            "<entity_E>Norland</entity_E> <entity_A>Ina_Holt</entity_A>",
            (1, 0, 0, 0, 1),
        ),  # in any order
        (written("Harn") + written("Ina_Holt"), (0, 0, 0, 0, 0)),  # the first of each tag
        (written("") + written("Ina_Holt"), (0, 0, 0, 0, 0)),
        ("<entity_A>Ina_Holt<entity_A></entity_A>", (0, 0, 0, 0, 0)),
        ("<entity_A><entity_B>The_Low_Tide</entity_B></entity_A>", (0, 1, 0, 0, 0)),
        ("<entity_A>Ina_Holt", (0, 0, 0, 0, 0)),
        ("</entity_A>Ina_Holt<entity_A>", (0, 0, 0, 0, 0)),
        ("</entity_A> <entity_A>Ina_Holt</entity_A>", (1, 0, 0, 0, 0)),
        ("Ina_Holt", (0, 0, 0, 0, 0)),
        ("", (0, 0, 0, 0, 0)),
        ("<entity_F>Norland</entity_F>", (0, 0, 0, 0, 0)),
    ],
)
def test_vectors(text, expected):
    (judged,) = judge(ChainRecords(), [(CHAIN, text, 1)])
    assert judged.rewards.tolist() == [list(expected)]
    assert judged.valid.tolist() == [any(expected)]
    assert judged.solved.tolist() == [all(expected)]


def test_a_name_of_which_nothing_is_left_makes_nothing_right():
    """Every article and sign was right for it. Its record is dropped: none earns this reward."""
    band = Chain(CHAIN.sentences, CHAIN.masks, ("The_The", *NAMES[1:]))
    for said in ("The_The", ",", "an", "!"):
        (judged,) = judge(ChainRecords(), [(band, written(said, NAMES[1]), 1)])
        assert judged.rewards.tolist() == [[0, 1, 0, 0, 0]]


def test_an_answer_that_names_nothing_is_malformed_and_a_wrong_one_is_not():
    task = ChainRecords()
    text = f"<response_1>{written('', ' ')}</response_1> <response_2>{written('Harn')}</response_2>"
    assert task.parse(CHAIN, text, 3) == [None, written("Harn"), None]
    assert task.w_star(CHAIN).tolist() == [1 / 5] * 5


def test_answers_of_equal_effect():
    task = ChainRecords()
    one = written("Ina_Holt", "Tide")
    assert task.same_effect(CHAIN, one) == task.same_effect(CHAIN, written("the ina holt", "Tide!"))
    assert task.same_effect(CHAIN, one) != task.same_effect(CHAIN, written("Ina_Holt", "Ebb"))
    by_vector = ChainRecords(repeats="vector")
    assert by_vector.same_effect(CHAIN, one) == by_vector.same_effect(CHAIN, written("Ina_Holt"))


ROW = {
    "question": ["Person A wrote Book B."],
    "entity_masks": [f"M{i}" for i in range(6)],
    "entities": [f"N{i}" for i in range(6)],
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"entities": ROW["entities"][:5]}, "fewer than six entities"),
        ({"entity_masks": ROW["entity_masks"][:5]}, "fewer than six entities"),
        ({"entities": ["a", "b", " ", "d", "e", "f"]}, "an entity has no name"),
        ({"question": [""]}, "it has no sentence"),
    ],
)
def test_rows_that_are_dropped(changed, why):
    row = ChainRecords.row.model_validate(ROW | changed)
    with pytest.raises(Dropped, match=why):
        ChainRecords().record(row)


def test_the_sixth_entity_is_not_asked_for():
    x = ChainRecords().record(ChainRecords.row.model_validate(ROW))
    assert x.names == ("N0", "N1", "N2", "N3", "N4")
    asked = ChainRecords().prompt(x, 1).text
    assert "M4" in asked and "M5" not in asked and "entity_F" not in asked
