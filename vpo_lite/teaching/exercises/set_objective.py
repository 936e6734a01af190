"""The exercises of notebook 02."""

import numpy as np

from ...checks import shown
from ...exact import exact_set_reward, exact_shares
from .kinds import Exercise, number, numbers_of, returned

SETS = np.array(  # (G, m, d): three specialists, three compromises, one of each kind
    [
        np.eye(3),
        np.full((3, 3), 0.4),
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.4]],
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    ]
)
# Under one weight the third rollout scores what the better of the two others does.
ONE_WEIGHT_TELLS = np.eye(3)[[[0, 0, 0], [1, 1, 1], [0, 1, 1]]]
FIFTH = np.array([0.6, 0.6, 0.1])


def score_group(R, K, rng):
    """The solution of 02-b: K weights that all rollouts share, then max inside mean."""
    W = rng.dirichlet(np.ones(R.shape[-1]), size=K)
    return (R @ W.T).max(axis=-2).mean(axis=-1)


def _unshared(R, K, rng):
    return np.array([score_group(R[None, i], K, rng)[0] for i in range(len(R))])


def _swapped(R, K, rng):
    W = rng.dirichlet(np.ones(R.shape[-1]), size=K)
    return (R @ W.T).mean(axis=-1).max(axis=-1)


def _averaged(R, K, rng):
    W = rng.dirichlet(np.ones(R.shape[-1]), size=K)
    return (R @ W.T).mean(axis=(-2, -1))


def _over_people(R, K, rng):
    W = rng.dirichlet(np.ones(R.shape[-1]), size=K)
    return (R @ W.T).max(axis=-1).mean(axis=-1)


def _one_weight(R, K, rng):
    return score_group(R, 1, rng)


def _one_more(R, K, rng):
    return score_group(R, K + 1, rng)


def _normalised(R, K, rng):
    W = rng.random((K, R.shape[-1]))
    return (R @ (W / W.sum(axis=1, keepdims=True)).T).max(axis=-2).mean(axis=-1)


def _compared(R, K, rng):
    scores = score_group(R, K, rng)
    return (scores - scores.mean()) / (scores.std() + 1e-6)


def _fixed(R, K, rng):
    return score_group(R, K, np.random.default_rng(0))


UNSHARED = (
    "Two rollouts with the same answers get different scores: each has weights of its own. "
    "Then noise becomes the training signal. Draw the weights once for the whole group."
)
SWAPPED = (
    "Max and mean are swapped: you average over the weights first. Take the best answer for "
    "each weight, then the mean."
)
AVERAGED = "You take the mean over answers. Take the best answer for each weight."
OVER_PEOPLE = (
    "You take the max over the weights. It belongs over the answers: axis 1 of the scores."
)
ADVANTAGES = "These are advantages. Return the scores: do not subtract or divide."
SUMMED = "You add up over the weights. U is their mean: divide by K."
FIXED = "The scores do not depend on `rng`: draw the weights from it."
NOT_FROM_RNG = "The same `rng` gives different scores the second time. Draw all weights from `rng`."
SQUARE = (
    "It does not work for every number of objectives. A weight has one number for each objective: "
    "the last axis of R. This R has the shape (4, 3, 2)."
)
NOT_K = "With K = 1 you do not draw one weight. Draw exactly K weights."
TOO_FEW = (
    "With K = 20,000 the scores still change with `rng`: you draw too few weights. Draw exactly K."
)
OTHER_WEIGHTS = "Are the weights drawn from Dir(1)?"


def _square(R, K, rng):
    W = rng.dirichlet(np.ones(R.shape[1]), size=K)
    return (R @ W.T).max(axis=1).mean(axis=-1)


def _without_rng(R, K, rng):
    return score_group(R, K, np.random.default_rng())


def _without_K(R, K, rng):
    return score_group(R, 20_000, rng)


def _judge_scores(answer):
    """Draws differ from reader to reader, so this judges what holds for any draws."""
    rng = np.random.default_rng
    calls = [(np.broadcast_to(SETS[0], (8, 3, 3)), 4, rng(1)), (SETS, 4, rng(2)), (SETS, 4, rng(3))]
    calls += [(SETS, 4, rng(2)), *((SETS, 20_000, rng(seed)) for seed in (4, 15, 16))]
    calls += [(ONE_WEIGHT_TELLS, 1, rng(seed)) for seed in range(5, 15)]
    outputs, refused = returned(answer, calls)
    if refused:
        return refused
    equal, few, other, again, many, *as_many = outputs[:7]
    for scores, (R, _, _) in zip(outputs, calls, strict=True):
        if scores.shape != R.shape[:1]:
            return f"One score for each rollout is asked for, (G,). Yours has shape {scores.shape}."
    if np.ptp(equal) > 1e-9:
        return UNSHARED
    if abs(many.mean()) < 1e-6 < np.ptp(many):
        return ADVANTAGES
    exact = exact_set_reward(SETS)
    for wrong, hint in (
        (SETS.mean(axis=-1).max(axis=-1), SWAPPED),
        (SETS.mean(axis=(1, 2)), AVERAGED),
        (SETS.max(axis=2).mean(axis=1), OVER_PEOPLE),
        (exact * 20_000, SUMMED),
    ):
        if np.allclose(many, wrong, rtol=0.01, atol=0.01):
            return hint
    if abs(as_many - many).max() > 0.01 * max(1, abs(many).max()):  # with K weights: 0.004
        return TOO_FEW
    if not np.allclose(many, exact, atol=0.01):
        told = f"With 20,000 weights you get {many.round(3)}, and {exact.round(3)} is right."
        return f"{OTHER_WEIGHTS} {told}"
    if np.allclose(few, other):
        return FIXED
    if not np.allclose(few, again):
        return NOT_FROM_RNG
    if any(both > max(first, second) + 1e-6 for first, second, both in outputs[7:]):
        return NOT_K
    _, refused = returned(answer, [(SETS[..., :2], 4, rng(1))])
    return f"{SQUARE} {refused}" if refused else None


NUMBERS = "Three numbers from 0 to 1 are asked for."
COPY = "This is the fifth answer itself. Choose one that is better."
DOMINATED = (
    "The fifth still wins for some weights. One way: an answer that is at least as good in each "
    "objective."
)


def _judge_rival(answer):
    rival = numbers_of(answer)
    if rival is None or rival.shape != (3,) or not ((rival >= 0) & (rival <= 1)).all():
        return f"{NUMBERS} This is {shown(answer)}."
    if np.allclose(rival, FIFTH):
        return COPY
    wins = exact_shares(np.vstack([np.eye(3), rival, FIFTH]))[4]
    return None if wins < 1e-9 else f"{DOMINATED} It wins {wins:.1%} of the weights."


EXERCISES = (
    number(
        "02-a",
        "Specialists or a generalist",
        minutes=4,
        level=2,
        solution=3.0,
        tolerance=0.25,
        hint="Set m to 3 and all three answers to 1. Then move α until U (at K = ∞) is near 0.5.",
        slips=(
            (2.5, "At 2.5 U is still 0.51. Go one mark further."),
            (4.0, "At 4.0 U is only 0.48. Go back one mark."),
            (1.0, "At α = 1 three specialists are worth 11/18, more than 0.5. Move α on."),
            (
                0.33,
                "Move α up: with a small α people want one thing, so specialists are worth more.",
            ),
            (20.0, "There U is only 0.40. Go back to smaller α."),
        ),
        learned="From α = 3 on three specialists are worth less than one generalist.",
    ),
    Exercise(
        "02-b",
        "Score a group",
        minutes=6,
        level=3,
        solution=score_group,
        judge=_judge_scores,
        slips=(
            (_unshared, UNSHARED),
            (_swapped, SWAPPED),
            (_averaged, AVERAGED),
            (_over_people, OVER_PEOPLE),
            (_compared, ADVANTAGES),
            (lambda R, K, rng: K * score_group(R, K, rng), SUMMED),
            (_fixed, FIXED),
            (_without_rng, NOT_FROM_RNG),
            (_without_K, NOT_K),
            (_one_more, NOT_K),
            (_one_weight, TOO_FEW),
            (_normalised, OTHER_WEIGHTS),
            (_square, SQUARE),
        ),
        learned="Equal rollouts get equal scores, because the group shares its weights.",
    ),
    Exercise(
        "02-c",
        "An answer that wins nothing",
        minutes=3,
        level=2,
        solution=(0.6, 0.6, 0.2),
        judge=_judge_rival,
        slips=(
            (FIFTH, COPY),
            ((0.5, 0.5, 0.5), DOMINATED),
            ((0.6, 0.6), NUMBERS),
        ),
        learned="An answer without a region of its own adds nothing to its set.",
    ),
)
