"""Chains with two candidates: who can know what, how it is scored, and the best sets of guesses."""

import itertools
import random

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.estimators import estimate
from vpo_lite.hedging import best_sets, expected_rewards
from vpo_lite.tasks import task_class
from vpo_lite.tasks.ambiguous_chains import (
    NAMES,
    PRIORS,
    IndependentChains,
    Puzzle,
    SpreadingChains,
    consistent,
)
from vpo_lite.tasks.chain_records import ChainRecords
from vpo_lite.tasks.chains import ChainsTask
from vpo_lite.tasks.records import on_records
from vpo_lite.training.answers import read_answers

FIVE = {"uncertain": 5, "prior": 0.8}
TASK, SPREADING = IndependentChains(**FIVE), SpreadingChains(**FIVE)
HAND = Puzzle(
    (("Edda",), ("Jade", "Ember"), ("Elsby", "Corham"), ("Holm",), ("Eiskamm", "Joch")),
    0.8,
    ("Edda", "Ember", "Elsby", "Holm", "Eiskamm"),
)


def bits(*words):
    return np.array([[int(sign) for sign in word] for word in words])


# --- scoring --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "independent", "spreading"),
    [
        ("Edda Ember Elsby Holm Eiskamm", "11111", "11111"),
        ("Edda Jade Elsby Holm Eiskamm", "10111", "00111"),
        ("Edda Ember Elsby Holm Joch", "11110", "00000"),
        ("Harun Ember Elsby Holm Eiskamm", "01111", "01111"),
        ("Edda Ember Corham Holm Eiskamm", "11011", "00011"),
        ("Ember Edda Elsby Holm Eiskamm", "00111", "00111"),  # right names in wrong places
        ("X Y Z U V", "00000", "00000"),
    ],
)
def test_vectors_by_hand(answer, independent, spreading):
    for task, wanted in ((TASK, independent), (SPREADING, spreading)):
        (R,) = task.score([HAND], [[answer]])
        assert R.tolist() == bits(wanted).tolist()
        assert task.solved(HAND, R).tolist() == [wanted == "11111"]
        assert task.valid(HAND, R).tolist() == ["1" in wanted]


def test_the_rewards_of_a_step_have_the_shape_of_their_answers():
    found = TASK.score([HAND, HAND], [[], ["Edda Ember Elsby Holm Eiskamm"]])
    assert [part.shape for part in found] == [(0, 5), (1, 5)]
    assert TASK.objectives(HAND) == ChainRecords().objectives(None)
    assert TASK.w_star(HAND).tolist() == [0.2] * 5 and TASK.front(HAND).tolist() == [[1] * 5]
    with pytest.raises(ValueError, match="chain 'Edda': expected five names"):
        TASK.score([HAND], [["Edda"]])


def test_spreading_makes_vpo_and_set_max_one_method_and_independent_does_not():
    """K = infinity, on random sets: the advantages agree to rounding, or they do not."""
    right = np.random.default_rng(0).integers(0, 2, (40, 8, 3, 5)).astype(float)
    gaps = []
    for task in (TASK, SPREADING):
        R = task.counted(right)
        a, b = (estimate(method, R)[1] for method in ("vpo", "set_max"))
        gaps.append(abs(a - b).max())
    assert gaps[0] > 0.5 and gaps[1] < 1e-6
    for row in SPREADING.counted(right).reshape(-1, 5):
        assert sorted(row) == row.tolist()  # zeros first: all vectors are ordered


# --- what is known, and what is not ---------------------------------------------------------------


def test_the_prompt_does_not_depend_on_the_gold():
    for gold in consistent(HAND)[0]:
        other = HAND._replace(gold=tuple(gold.split()))
        for pocket in (None, {}):
            assert TASK.prompt(other, 3, pocket=pocket) == TASK.prompt(HAND, 3, pocket=pocket)
        assert TASK.summary(other) == TASK.summary(HAND)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.6, 0.8])
def test_the_gold_is_drawn_from_the_posterior_that_the_prompt_shows(prior):
    """Chains of 1,000 problems, by the number of their unlikelier names: a binomial law."""
    task, counts = IndependentChains(uncertain=3, prior=prior), np.zeros(8)
    for seed in range(1_000):
        x = task.instance(seed)
        chains, posterior = consistent(x)
        assert len(chains) == 8 and sorted(map(len, x.candidates)) == [1, 1, 2, 2, 2]
        assert [round(p, 12) for p in posterior] == [
            round(float(np.prod(parts)), 12)
            for parts in itertools.product(*[(prior, 1 - prior)] * 3)
        ]
        counts[chains.index(" ".join(x.gold))] += 1
    noise = np.sqrt(1_000 * posterior * (1 - posterior))
    assert (abs(counts - 1_000 * posterior) < 4 * noise).all()
    assert np.sum((counts - 1_000 * posterior) ** 2 / (1_000 * posterior)) < 24.3  # 7 df, p = .001


def test_problems_by_their_settings():
    for n, prior in itertools.product(range(1, 6), PRIORS):
        x = IndependentChains(uncertain=n, prior=prior).instance(n)
        assert sum(map(len, x.candidates)) == 5 + n and len(consistent(x)[0]) == 2**n
        assert x == SpreadingChains(uncertain=n, prior=prior).instance(n)  # in both modes
        for names, there in zip(NAMES.values(), x.candidates, strict=True):
            assert set(there) <= set(names) and len(set(there)) == len(there)
    open_places = {
        tuple(len(c) for c in IndependentChains(uncertain=1).instance(s).candidates)
        for s in range(60)
    }
    assert len(open_places) == 5


PINNED = {
    0: "<m1> <p8> Jaro Adela Driftwood Harvest Bellport Farrow Fiora Avel Hochfirst Altenkopf = "
    "Adela Driftwood Bellport Avel Hochfirst",
    10_000: "<m1> <p8> Ilva Falko Driftwood Ember Hartwell Arnwick Doun Isbeck Joch Altenkopf = "
    "Ilva Driftwood Hartwell Doun Joch",
}


@pytest.mark.parametrize("seed", PINNED)
def test_pinned_problems(seed):
    """Policies and runs depend on them: a change of the generator needs a task of another name."""
    x = TASK.instance(seed)
    assert f"{TASK.prompt(x, 1, pocket={}).symbols} = {' '.join(x.gold)}" == PINNED[seed]


# --- the yardstick --------------------------------------------------------------------------------


def golden(uncertain, prior, spreading=False):
    """Answers as bits (0: the likelier name), their rewards under each truth, the posterior."""
    answers = np.array(list(itertools.product([0, 1], repeat=uncertain)))
    right = np.ones((len(answers), len(answers), 5))
    right[..., 5 - uncertain :] = answers[:, None] == answers
    if spreading:
        right = np.minimum.accumulate(right[..., ::-1], axis=-1)[..., ::-1]
    return answers, right, np.where(answers == 0, prior, 1 - prior).prod(axis=1)


def worth(words, R, posterior):
    return expected_rewards(R[:, [int(word, 2) for word in words]], posterior)


NEAR = ("00000", "00001", "00010")
GOLDEN = {  # (prior, goal) -> the best three answers: E_w max, best@3 of the mean, full solve
    (0.8, "set_reward"): (0.891, 0.839, 0.353),
    (0.8, "best"): (0.876, 0.872, 0.492),
    (0.8, "solved"): (0.876, 0.872, 0.492),
    (0.6, "set_reward"): (0.826, 0.759, 0.121),
    (0.6, "best"): (0.826, 0.759, 0.121),
    (0.6, "solved"): (0.744, 0.728, 0.181),
}


@pytest.mark.parametrize("prior", [0.8, 0.6])
def test_golden_values_of_five_uncertain_places(prior):
    _, R, posterior = golden(5, prior)
    for goal, found in best_sets(R, posterior, 3).items():
        assert np.round(found.expected, 3).tolist() == list(GOLDEN[prior, goal])
    single = {goal: s.answers for goal, s in best_sets(R, posterior, 1).items()}
    assert set(single.values()) == {(0,)}  # one answer: the likelier names, whatever the goal


def test_golden_values_by_hand():
    """Near guesses. With p = .8 three places give .8 each. The other two are right at once unless
    both likelier names are wrong (.04): then one of them is, E max(w_1, w_2) = 3/4 (w_1 + w_2).
    """
    _, R, posterior = golden(5, 0.8)
    near = worth(NEAR, R, posterior)
    assert float(near.set_reward) == pytest.approx(0.48 + 0.96 * 0.4 + 0.04 * 0.4 * 3 / 4)
    assert float(near.best) == pytest.approx(0.48 + 0.96 * 0.4 + 0.04 * 0.2)
    assert float(near.solved) == pytest.approx(0.8**5 + 2 * 0.8**4 * 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "words"), [(0.8, ("00000", "00011", "11100")), (0.6, ("00001", "00110", "11000"))]
)
def test_the_best_sets_by_weights_and_truths_that_the_library_did_not_draw(prior, words):
    rng, (answers, R, posterior) = np.random.default_rng(3), golden(5, prior)
    W = rng.exponential(size=(200_000, 5))
    W = W / W.sum(axis=1, keepdims=True)
    truth = rng.random((200_000, 5)) >= prior
    right = truth[:, None] == answers[[int(word, 2) for word in words]]
    scores = np.einsum("nmd,nd->nm", right, W).max(axis=1)
    best = best_sets(R, posterior, 3)["set_reward"].expected
    assert scores.mean() == pytest.approx(float(best.set_reward), abs=0.0015)
    assert right.mean(axis=2).max(axis=1).mean() == pytest.approx(float(best.best), abs=0.0015)
    assert right.all(axis=2).any(axis=1).mean() == pytest.approx(float(best.solved), abs=0.004)


def test_golden_values_of_spreading_errors():
    """Two uncertain places of .6: every goal has the same best set, and one more guess adds the
    next likely chain: .36, + .24, + .24.
    """
    _, R, posterior = golden(2, 0.6, spreading=True)
    for m, solved in ((1, 0.36), (2, 0.60), (3, 0.84)):
        found = best_sets(R, posterior, m)
        assert len({s.answers for s in found.values()}) == 1
        for s in found.values():
            assert float(s.expected.solved) == pytest.approx(solved)
            assert float(s.expected.set_reward) == pytest.approx(float(s.expected.best))


def test_the_task_gives_the_yardstick_the_rewards_of_every_truth():
    """The best sets of a drawn problem are worth what those of the bits are."""
    for task, spreading in ((TASK, False), (SPREADING, True)):
        x = task.instance(5)
        chains, posterior = consistent(x)
        R = task.under_each(x, chains)
        assert R.shape == (32, 32, 5) and (R[range(32), range(32)] == 1).all()
        truth = chains.index(" ".join(x.gold))
        assert R[truth].tolist() == task.score([x], [chains])[0].tolist()
        _, bare, p = golden(5, 0.8, spreading)
        assert np.array_equal(R, bare) and np.allclose(posterior, p)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_best_sets_are_those_of_a_plain_search(alpha):
    """Three truths, five answers with rewards of any size: every pair by itself."""
    rng, p = np.random.default_rng(1), [0.5, 0.3, 0.2]
    R = rng.random((3, 5, 2)).round(1)
    R[0, 2] = R[1, 4] = 1
    found = best_sets(R, p, 2, alpha=alpha)
    pairs = list(itertools.combinations(range(5), 2))
    plain = {
        "set_reward": [
            sum(
                q * float(vpo.exact_set_reward(r[list(s)], alpha))
                for q, r in zip(p, R, strict=True)
            )
            for s in pairs
        ],
        "best": [
            sum(q * r[list(s)].mean(1).max() for q, r in zip(p, R, strict=True)) for s in pairs
        ],
        "solved": [
            sum(q * (r[list(s)] == 1).all(1).any() for q, r in zip(p, R, strict=True))
            for s in pairs
        ],
    }
    for goal, values in plain.items():
        assert float(getattr(found[goal].expected, goal)) == pytest.approx(max(values))
        assert found[goal].answers in [
            s for s, v in zip(pairs, values, strict=True) if v > max(values) - 1e-9
        ]


def test_a_truth_that_cannot_hold_counts_nothing():
    R = np.array([[[1.0, 0.0]], [[1.0, 1.0]]])  # under the first truth: mean .5, not solved
    assert [float(x) for x in expected_rewards(R, [1, 0])] == pytest.approx([0.5, 0.5, 0])


def test_what_the_yardstick_refuses():
    R = np.zeros((2, 40, 3))
    for p in ([0.5, 0.4], [1.0], [1.5, -0.5], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="expected 2 probabilities that add up to 1"):
            best_sets(R, p, 1)
    with pytest.raises(ValueError, match="m = 5: 658,008 sets of 40 answers, at most 50,000"):
        best_sets(R, [0.5, 0.5], 5)
    with pytest.raises(ValueError, match="m = 41"):
        best_sets(R, [0.5, 0.5], 41)
    with pytest.raises(ValueError, match=r"shape \(40, 3\): expected \(g, n, d\)"):
        best_sets(R[0], [0.5, 0.5], 1)
    with pytest.raises(ValueError, match=r"shape \(40, 3\): expected \(\.\.\., g, m, d\)"):
        expected_rewards(R[0], [0.5, 0.5])


# --- requests and answers -------------------------------------------------------------------------


def test_requests_by_hand():
    weights = [0.5, 0.06, 0.04, 0.1, 0.3]
    symbols = TASK.prompt(HAND, 2, weights=weights, pocket={}).symbols
    assert symbols == (
        "<m2> <p8> <w5> Edda - <w1> Jade Ember <w0> Elsby Corham <w1> Holm - <w3> Eiskamm Joch"
    )
    text = TASK.prompt(HAND, 2, weights=weights).text
    assert "Book B: Jade (80 %) or Ember (20 %)" in text and "Person A: Edda\n" in text
    assert "entity_B 0.06" in text and "Each right name counts." in text
    assert "A needs B, C, D and E" in SPREADING.prompt(HAND, 2).text
    even = HAND._replace(prior=0.5)
    assert "Jade (50 %) or Ember (50 %)" in TASK.summary(even)


@pytest.mark.parametrize("m", [1, 3, 9])
def test_written_chains_are_read_back(m):
    chains = random.Random(m).sample(consistent(TASK.instance(1))[0], m)
    assert TASK.parse(HAND, TASK.write(HAND, chains), m) == chains
    assert 1 + len(TASK.write(HAND, chains).split()) == TASK.max_tokens(HAND, m, {})
    filled = (
        TASK.prompt(HAND, m).text.splitlines()[-1].replace("...", "edda, EMBER,Elsby Holm joch")
    )
    assert TASK.parse(HAND, filled, m) == ["Edda Ember Elsby Holm Joch"] * m


JUNK = ("", " , ", "Edda Ember Elsby Holm", "A B C D E F", "Edda Ember Elsby Holm 7")
JUNK += (
    "Edda - Elsby Holm Joch",
    "É m b e r",
    "Edda Ember Elsby Holm " + "x" * 90_000,
    "\ud800" * 5,
)


@pytest.mark.parametrize("body", JUNK, ids=range(len(JUNK)))
def test_junk_is_no_answer_and_earns_nothing(body):
    text = f"<chain_1> {body} </chain_1> <chain_2> Edda a b c d </chain_2> <chain_3> Edda a, b c D"
    assert TASK.parse(HAND, text, 3) == [None, "Edda A B C D", None]
    (answers,) = read_answers(TASK, [HAND], [[text]], 3)
    assert answers.rewards[0].tolist() == bits("00000", "10000", "00000").tolist()
    assert answers.valid[0].tolist() == [False, True, False]


# --- options --------------------------------------------------------------------------------------


def test_modes_and_options():
    assert task_class("chains") is ChainsTask and on_records("chains") is ChainRecords
    assert [type(ChainsTask(mode=m)) for m in ("independent", "spreading", "faithful")] == [
        IndependentChains,
        SpreadingChains,
        ChainRecords,
    ]
    assert type(ChainsTask()) is IndependentChains and type(ChainsTask(data="x")) is ChainRecords
    with pytest.raises(ValueError, match="uncertain = 2 with mode = 'faithful'"):
        ChainsTask(mode="faithful", uncertain=2)
    for wrong in ({"uncertain": 0}, {"uncertain": 6}, {"problem": -1}, {"prior": 0.75}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ChainsTask(**wrong)
    with pytest.raises(ValueError, match=r"prior = 0\.75: give one of 0\.5, 0\.6"):
        IndependentChains(prior=0.75)


def test_one_chain_can_be_singled_out_and_held_out_ones_are_not_trained_on():
    one = ChainsTask(problem=7, **FIVE)
    assert one.single and not TASK.single and one.numbered == "problem"
    assert one.instance(10_000) == one.instance(3) == TASK.instance(7) != TASK.instance(3)
    seeds = TASK.seeds
    held_out = {TASK.instance(s) for s in seeds["held_out"][:200]}
    assert len(held_out) == 200 and not held_out & {TASK.instance(s) for s in seeds["train"][:200]}
