"""The exercises of notebook 04."""

import numpy as np

from ...checks import shown
from ...metrics import coverage, diversity
from .kinds import Exercise, function, number, numbers_of

FRONT = np.array([[1, 1, 0, 1], [1, 1 / 2, 2 / 3, 1], [1, 0, 1, 1]])  # of maze 1000
SPREAD, CEILING = 4 / 3, 0.9010840108401084  # the front's diversity; coverage of its middle row

VECTORS = "Three rows of four numbers from 0 to 1 are asked for."
FAILS = (
    "A route that misses E earns four zeros, and diversity counts routes that reach E only. "
    "Completion must be 1 in each row."
)
TOO_GOOD = "No route of this maze earns that much: no row of the front is as good."
ALIKE = "These three are not diverse enough. What else can two routes differ in? Look at lava."
ALIKE_OVER_LAVA = (
    "These three are not diverse enough. They differ in lava already: let every two of them differ "
    "in two numbers or more."
)
GOOD = "Diverse, and too good: these three cover at least as much as the best single route."


def _judge_poor(answer):
    R = numbers_of(answer)
    if R is None or R.shape != (3, 4) or not ((R >= 0) & (R <= 1)).all():
        return f"{VECTORS} This is {shown(answer)}."
    if not (R[:, 0] == 1).all():
        return FAILS
    if not (R[:, None] <= FRONT + 0.005).all(axis=-1).any(axis=1).all():  # 0.67 is 2/3
        return TOO_GOOD
    spread, covered = float(diversity(R)), float(coverage(R, FRONT))
    if spread <= SPREAD + 1e-9:
        hint = ALIKE_OVER_LAVA if np.ptp(R[:, 3]) > 0 else ALIKE
        return f"{hint} Their diversity is {spread:.2f}, and the front has {SPREAD:.2f}."
    if covered >= CEILING:
        return f"{GOOD} They cover {covered:.2f}, and the best single route {CEILING:.2f}."
    return None


def earn_once(R, effects):
    """The solution of 04-c: the first of equal routes keeps its rewards."""
    first = [effects.index(effect) for effect in effects]
    return np.where((np.array(first) == np.arange(len(R)))[:, None], R, 0.0)


def _with_zeros(R, where):
    return np.where(np.array(where)[:, None], 0.0, R)


def _rollouts():
    rng = np.random.default_rng(4)
    values = rng.random((4, 4))
    values[1] = values[0]  # two routes that earn the same
    rollouts = ("UUR", "RUU"), ("UUR", "UUR"), ("UR", "RU", "UR", "UR"), ("DD", "DD", "RR", "RR")
    rollouts += (("UUR", "RRU", "RR", "RRU", "UUR"),)
    return [_earned(effects, values) for effects in rollouts]


def _earned(effects, values):
    kinds = sorted(set(effects))
    return values[[kinds.index(effect) for effect in effects]], list(effects)


EXERCISES = (
    number(
        "04-a",
        "Staying above the ceiling",
        minutes=4,
        level=2,
        solution=1728,
        tolerance=0.5,
        hint="Find the last step at which VPO is not above the ceiling. How many answers has it "
        "written one step later?",
        slips=(
            (1344, "At this step it is above the ceiling for the first time. Does it stay there?"),
            (1536, "One step too early: here it is below once more. (Lists count from 0.)"),
            (576, "You count rollouts. Each of them holds m answers."),
            (432, "You count the answers to one prompt. Each step has four prompts."),
            (9, "This is the step. How many answers has VPO written by then?"),
        ),
        learned="On this maze GRPO with G = 48 writes 7,680 answers, and never stays above the "
        "ceiling.",
    ),
    Exercise(
        "04-b",
        "Diverse, and poor",
        minutes=5,
        level=3,
        solution=((1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)),
        judge=_judge_poor,
        slips=(
            (((1, 0, 0, 1), (1, 0, 0, 1)), VECTORS),
            (((1, 1, 0, 1), (1, 0, 1, 1), (0, 0, 0, 0)), FAILS),
            (((1, 1, 1, 0), (1, 0, 0, 1), (1, 1, 0, 0)), TOO_GOOD),
            (FRONT, ALIKE),
            (((1, 0, 0, 1), (1, 0, 0, 0), (1, 1, 0, 0)), ALIKE_OVER_LAVA),
            (((1, 1, 0, 1), (1, 0, 1, 1), (1, 0, 0, 0)), GOOD),
        ),
        learned="Diversity is not quality. Three different routes can be worth less than one.",
    ),
    function(
        "04-c",
        "Each route earns once",
        minutes=6,
        level=3,
        solution=earn_once,
        cases=_rollouts,
        hint="Go through the routes in their order, and remember those that you have seen.",
        slips=(
            (
                lambda R, effects: _with_zeros(R, [effects.count(e) > 1 for e in effects]),
                "The first of equal routes is no repeat. It keeps its rewards.",
            ),
            (
                lambda R, effects: R,
                "Nothing changes: repeats still earn their rewards.",
            ),
            (
                lambda R, effects: _with_zeros(
                    R, [i > 0 and e == effects[i - 1] for i, e in enumerate(effects)]
                ),
                "You compare each route with the one just before. A repeat can come later, too.",
            ),
            (
                lambda R, effects: _with_zeros(
                    R, [e in effects[i + 1 :] for i, e in enumerate(effects)]
                ),
                "Yours rewards the last of equal routes. Reward the first one instead.",
            ),
            (
                lambda R, effects: _with_zeros(
                    R, [any((r == s).all() for s in R[:i]) for i, r in enumerate(R)]
                ),
                "You compare rewards. Two different routes may earn the same: compare the routes.",
            ),
        ),
        learned="This rule alone keeps the answers of Multi-RLVR different.",
    ),
)
