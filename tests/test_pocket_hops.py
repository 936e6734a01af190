"""How a pocket policy for questions is made: its words and their parts, and what it is shown."""

from collections import Counter

import numpy as np
import pytest
import torch

import vpo_lite as vpo
from vpo_lite.pocket.hops import HopsRecipe, demonstrate, parts_of
from vpo_lite.pocket.pretrain import new_model
from vpo_lite.pocket.programs import ProgramsRecipe
from vpo_lite.tasks.hop_chains import Fact, HopQuestion
from vpo_lite.tasks.hop_facts import HopFacts
from vpo_lite.training.answers import read_answers

TASK = HopFacts()


def test_a_prompt_with_its_answers_always_fits():
    """Questions of 4 steps with weights, and the longest completion that is allowed."""
    recipe = HopsRecipe()
    words = set(recipe.vocabulary())
    for hops in (2, 3, 4):
        task, longest = HopFacts(hops=hops, along="weakest"), 0
        for seed in range(4):
            x = task.instance(seed)
            symbols = task.prompt(x, 5, weights=np.full(4, 0.25), pocket=recipe.pocket()).symbols
            answers = task.write(x, [f"{'1 ' * hops}= Ada"] * 5, recipe.pocket())
            assert {*symbols.split(), *answers.split()} <= words
            longest = max(longest, 1 + len(symbols.split()) + task.max_tokens(x, 5, {}))
        assert longest <= recipe.longest


def test_words_begin_as_the_sum_of_their_parts():
    """Cosines of embeddings: words that share s of 4 parts are near s / 4, and of none near 0."""
    assert parts_of("news:Ada.boss>Ben") == ("from news", "head Ada", "boss", "tail Ben")
    assert parts_of("rumour>Ben") == ("from rumour", "tail Ben")
    recipe = HopsRecipe()
    words, model = recipe.vocabulary(), new_model(recipe)
    for weight in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
        rows = torch.nn.functional.normalize(weight.detach(), dim=-1)
        rows = dict(zip(words, rows, strict=True))
        base = rows["news:Ada.boss>Ben"]
        for word, shared in (
            ("archive:Ada.boss>Ben", 3 / 4),
            ("archive:Ada.boss>Eva", 2 / 4),
            ("archive:Ben.boss>Ada", 1 / 4),  # as head and as tail a person is two parts
            ("archive:Eva.friend>Ivo", 0),
            ("Ada.boss?", 2 / 12**0.5),
            ("2.boss", 1 / 8**0.5),
            ("<eos>", 0),
        ):
            assert float(base @ rows[word]) == pytest.approx(shared, abs=0.2), word
    plain = new_model(ProgramsRecipe(width=16, layers=1, heads=2, mlp=16))
    assert float(plain.get_input_embeddings().weight.detach().std()) == pytest.approx(0.02, rel=0.1)


def test_a_demonstration_answers_its_prompt_and_a_batch_has_one_m():
    recipe = HopsRecipe(batch=4, first_updates=6, right_updates=0)
    for i in range(48):
        prompt, text = recipe.demonstration(i)
        symbols, first = prompt.symbols.split(), i < 24
        m = int(symbols[0][2])
        assert m == (1 if first else 1 + i // 4 % 5) and text.count("</answer_") == m
        assert len([*symbols, *text.split()]) + 2 <= recipe.longest  # with <bos> and <eos>
        assert any(s.startswith("rumour") for s in symbols) != first


HAND = HopQuestion(
    "Ada",
    ("boss",),
    (
        Fact("archive", "Ada", "boss", "Ben", 10, 3),
        Fact("news", "Ada", "boss", "Ben", 3, 10),
        Fact("rumour", "Ada", "", "Ben", 2, 2),
        Fact("news", "Ben", "boss", "Eva", 3, 10),
    ),
)


@pytest.mark.slow
def test_answers_are_shown_as_often_as_the_settings_say():
    """The front is archive and news (facts 1 and 2); the other right answer is the rumour."""
    rng = np.random.default_rng(0)
    sets = [demonstrate(HAND, 2, 0.5, 0.5, rng) for _ in range(2_500)]
    seen = Counter(answer for answers in sets for answer in answers)
    for i, expected in enumerate((5 / 12, 5 / 12, 1 / 6, 0), start=1):
        assert seen[f"{i} = Ben"] / 5_000 == pytest.approx(expected, abs=0.025)
    for turns, expected in ((1, 1), (0, 1 / 2)):
        sets = [demonstrate(HAND, 2, 1, turns, rng) for _ in range(1_000)]
        different = [one != other for one, other in sets]
        assert np.mean(different) == pytest.approx(expected, abs=0.04)
    first = Counter(answers[0] for answers in sets)
    assert set(first) == {"1 = Ben", "2 = Ben"} and min(first.values()) > 400


def test_the_figures_by_hand():
    """One rollout with both ends of the front, one with a repeat and a wrong answer."""
    archive, news, rumour, other = "1 = Ben", "2 = Ben", "3 = Ben", "4 = Eva"
    rows = [archive, news], [archive, archive], [rumour, other]
    groups = [read_answers(TASK, [HAND], [[TASK.write(HAND, row)]], 2)[0] for row in rows]
    half = float(vpo.coverage(TASK.front(HAND)[:1], TASK.front(HAND)))
    least = float(vpo.coverage([[1, 0.2, 0.2, 1]], TASK.front(HAND)))
    assert HopsRecipe().figures(groups) == {
        "parse": 1,
        "valid": 5 / 6,
        "front": 4 / 6,
        "distinct": 2 / 3,
        "coverage": pytest.approx((1 + half + least) / 3),
    }
