"""The exercises of notebook 07."""

from itertools import product

import numpy as np

from ...checks import shown
from ...metrics import price_of_conflict
from ...objective import nondominated
from .kinds import Exercise, number, numbers_of

ROW = "Give the row that `score([program])` returns: a 0 or a 1 for each of the eight tests."
NONE = "It passes no test. Perhaps A and B are swapped: A runs where the digit is t or more."
EDGE = "The two programs are right, but some tests get the wrong one: compare t with their digits."
ONE = (
    "Only one program works, as if it stood alone. Which program's tests have the large first "
    "digits?"
)
PAIR = "Another pair passes more. Choose two programs that pass three tests each."
MORE = "Six are asked for: two programs that pass three tests each, and a t between their digits."
MADE_UP = "No two of the rules, joined, pass just these tests. Give the row of your own program."
SWAPPED = "The two programs are right, but swapped: A runs where the digit is t or more."
SORT, PLUS_SORT, MAX_PLUS = RULES = (
    [1, 1, 1, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 1, 1],
    [0, 0, 0, 1, 1, 0, 0, 0],
)
JOINED = np.add(SORT, PLUS_SORT)  # ?5 plus sort : sort
FIRST = np.array([0, 1, 1, 3, 4, 6, 7, 7])  # the first digit of each test's input


def _joins(above, below):
    """The rows of all programs `?t A : B`. above, below: the rows of all A, of all B."""
    digits = range(1, 10)
    return {tuple(np.where(FIRST >= t, a, b)) for t, a, b in product(digits, above, below)}


def _judge_row(answer):
    row = numbers_of(answer)
    if row is None or row.size != 8 or not np.isin(row, (0, 1)).all():
        return f"{ROW} This is {shown(answer)}."
    row = row.ravel()
    passed = int(row.sum())
    if passed >= 6:
        once = _joins(RULES, RULES)  # joined again with a third rule is right, too
        return None if tuple(row) in _joins(once, RULES) | _joins(RULES, once) else MADE_UP
    if passed == 0:
        return NONE
    if row.tolist() in RULES:
        return ONE
    if tuple(row) in _joins([SORT], [PLUS_SORT]):
        return SWAPPED
    if row @ MAX_PLUS:
        return PAIR
    return EDGE if passed > 3 else MORE


POOL = "Give five to 100 answers, each with two rewards from 0 to 1: shape (n, 2)."
COPIES = "Copies count once: fewer than five of these answers differ."
DOMINATED = (
    "Not all of them are on the front: for some, another answer is at least as good in both "
    "rewards and better in one."
)
CONFLICT = (
    "The best single answer covers too little: for some people it is far from the best. Move the "
    "five closer together."
)
BEND = 0.01 * np.linspace(-1, 1, 5)


def _judge_front(answer):
    pool = numbers_of(answer)
    if pool is None or pool.ndim != 2 or pool.shape[1] != 2 or not 5 <= len(pool) <= 100:
        return f"{POOL} This is {shown(answer)}."
    if not ((pool >= 0) & (pool <= 1)).all():
        return f"{POOL} One of yours is outside."
    pool = np.unique(pool, axis=0)
    if len(pool) < 5:
        return COPIES
    front = pool[nondominated(pool)]
    if len(front) < len(pool):
        return f"{DOMINATED} On it are {len(front)} of your {len(pool)}."
    covered = price_of_conflict(front, sizes=(1,))[1]
    return None if covered > 0.98 else f"{CONFLICT} It covers {covered:.2f}."


HALF = 1 - (1 - 0.5 ** (1 / 16)) ** (1 / 3)

EXERCISES = (
    Exercise(
        "07-a",
        "Join two by hand",
        minutes=4,
        level=3,
        solution=JOINED,
        judge=_judge_row,
        slips=(
            (np.zeros(8), NONE),
            (SORT, ONE),
            ([1, 1, 1, 1, 1, 0, 0, 0], PAIR),
            ([1, 1, 1, 0, 0, 0, 1, 1], EDGE),
            ([1, 0, 0, 0, 0, 0, 1, 0], MORE),
            (6, ROW),
            ([1, 1, 1, 1, 1, 1, 0, 0], MADE_UP),
            ([0, 1, 1, 0, 0, 0, 0, 0], SWAPPED),  # ?1 sort : plus sort
        ),
        learned="No program of the policy passes more than three tests. Two joined pass "
        "six, and three joined all eight.",
    ),
    Exercise(
        "07-b",
        "A front that is worth nothing",
        minutes=5,
        level=3,
        solution=np.column_stack([0.5 + BEND, 0.5 - BEND]),
        judge=_judge_front,
        slips=(
            (np.full((5, 2), 0.5), COPIES),
            (np.column_stack([np.linspace(0.1, 0.9, 5)] * 2), DOMINATED),
            (np.vstack([np.column_stack([0.5 + BEND, 0.5 - BEND]), [0.1, 0.1]]), DOMINATED),
            (np.column_stack([np.linspace(0, 1, 5), np.linspace(1, 0, 5)]), CONFLICT),
            ([[0.5, 0.5]], POOL),
        ),
        learned="Five answers are on the front, and a set gains less than 0.02 of coverage.",
    ),
    number(
        "07-c",
        "When VPO falls silent",
        minutes=4,
        level=2,
        solution=HALF,
        tolerance=0.01,
        nearly=(0.04, "Nearly: only the second decimal is off. A table over p shows it."),
        hint="`quiet(q, 16)`: share of silent groups if rollouts are right with probability q. For "
        "VPO a rollout is a set of three answers.",
        slips=(
            (
                0.5 ** (1 / 16),
                "This is GRPO's. A rollout of VPO holds three answers. One right answer is enough.",
            ),
            (
                0.5 ** (1 / 48),
                "You ask that all 48 answers of a group are right. One right answer is enough for "
                "a set.",
            ),
            (
                1 - 0.5 ** (1 / 48),
                "This is the other end of the curve: below this p nearly no set is right.",
            ),
            (
                0.5,
                "Here half of the answers are right. Find where half of the groups are silent.",
            ),
        ),
        learned="From p = 0.65 on most groups teach VPO nothing. For GRPO this begins at 0.96.",
    ),
)
