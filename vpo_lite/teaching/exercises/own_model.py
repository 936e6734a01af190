"""The exercises of notebook 08."""

import numpy as np

from ...checks import shown
from ...metrics import price_of_conflict
from ...objective import nondominated
from .kinds import NO_FUNCTION, Exercise, choice, number, returned

LIMIT = 99
NUMBERS = range(1, LIMIT + 1)
SMALL = 1 - np.array(NUMBERS) / LIMIT

NO_NUMBER = "Return one number for each n."
NOT_FINITE = f"{NO_NUMBER} NaN and infinity do not count."
OUTSIDE = "A reward lies from 0 to 1. Shift and divide until it does."
NO_CONFLICT = (
    "One number is the best for everybody, so a set gains nothing. What could 99 earn that 1 does "
    "not?"
)
DIVISORS = "This is the reward that you have already. Its best single number covers 0.86."
COMPROMISE = "Some number is still good at both rewards: let it earn less of the second."


def _divisors(n):
    return sum(n % i == 0 for i in range(1, n + 1)) / 12


def _judge_reward(answer):
    earned, refused = returned(answer, [(n,) for n in NUMBERS], NOT_FINITE)
    if refused:
        return refused
    if any(one.shape for one in earned):
        return f"{NO_NUMBER} Yours returns {shown(earned[0].tolist())}."
    second = np.array(earned)
    if not ((second >= 0) & (second <= 1)).all():
        return f"{OUTSIDE} Yours reaches {second[np.argmax(abs(second - 0.5))]:.3g}."
    rewards = np.column_stack([SMALL, second])
    front = rewards[nondominated(rewards)]
    if len(np.unique(front, axis=0)) == 1:
        return NO_CONFLICT
    if np.allclose(second, [_divisors(n) for n in NUMBERS]):
        return DIVISORS
    covered = price_of_conflict(front, sizes=(1,))[1]
    return None if covered < 0.7 else f"{COMPROMISE} It covers {covered:.2f} of the front."


EXERCISES = (
    Exercise(
        "08-a",
        "A reward that needs a set",
        minutes=5,
        level=3,
        solution=lambda n: n / LIMIT,
        judge=_judge_reward,
        slips=(
            (lambda n: 1 - n / LIMIT, NO_CONFLICT),
            (_divisors, DIVISORS),
            (lambda n: n % 2 == 0, COMPROMISE),
            (lambda n: n, OUTSIDE),
            (lambda n: (1 - n / LIMIT, n / LIMIT), NO_NUMBER),
            (0.5, NO_FUNCTION),
        ),
        learned="No number is good at both rewards, so one answer covers about two thirds.",
    ),
    number(
        "08-b",
        "Into 32 GiB",
        minutes=4,
        level=2,
        solution=128,
        tolerance=0.4,
        hint='Ask `needed("3 B", gradient_checkpointing=True, micro_batch=N).peak / GIB` for '
        "N = 1, 2, 4, ..., and take the largest N that fits.",
        slips=(
            (256, "256 rollouts need 37 GiB. Did you ask for 3 B?"),
            (64, "64 rollouts need only 14 GiB. Try more."),
            (32, "This is without gradient_checkpointing, which makes room for more rollouts."),
            (512, "All at once they need 66 GiB."),
        ),
        learned="128 rollouts at a time need 22 GiB, and 4 passes give the gradient of all 512.",
    ),
    choice(
        "08-c",
        "Which of four",
        {
            "A": "A set could gain much, but hardly any answer can be read. So nearly all groups "
            "are silent, and teach nothing.",
            "B": "Its answers can be read, but one answer is nearly the best for everybody. So a "
            "set has nearly nothing to gain.",
            "C": "Its answers differ most, but diversity is not quality: one answer covers nearly "
            "everything, and the others differ by being worse.",
            "D": None,
        },
        minutes=3,
        level=2,
        learned="Only D has both: answers that can be read, and much that a set can gain.",
    ),
)
