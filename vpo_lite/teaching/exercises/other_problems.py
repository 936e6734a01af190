"""The exercises of notebook 05."""

import numpy as np

from ...exact import exact_set_reward
from .kinds import choice, function, number


def headroom(R):
    """The solution of 05-c: what the best single answer leaves uncovered."""
    return 1 - R.mean(axis=1).max() / exact_set_reward(R)


def _pools():
    rng = np.random.default_rng(5)
    return [(rng.random(shape),) for shape in ((6, 3), (5, 2), (8, 3))]


EXERCISES = (
    choice(
        "05-a",
        "A sixth component",
        {
            "form": "A well-formed reply can be the right one, too. It still earns everything.",
            "again": "A copy of a component counts it twice. The right answer still earns both.",
            "overlap": "The right solution contains all of its own words. So it still earns all.",
            "brevity": None,
        },
        minutes=3,
        level=2,
        learned="The right answer must name all paragraphs. A briefer answer gives up a component.",
    ),
    number(
        "05-b",
        "Guesses that complement each other",
        minutes=3,
        level=2,
        solution=0.52,
        hint="In which cases is one of the two chains right in both places? Add up their chances.",
        slips=(
            (
                1.0,
                "For each place some chain is right, but a solved chain needs both places at once.",
            ),
            (0.36, "This is the chance of the first chain alone. The second may be right, too."),
            (
                0.6,
                "This is the chance of the set {AB, Ab}, which agrees in the first place. The two "
                "chains here differ in both.",
            ),
            (
                0.84,
                "This is the chance that at least one place of AB is right. Both have to be.",
            ),
            (0.48, "This is the chance that no chain of the set is right."),
            (
                1 - (1 - 0.36) * (1 - 0.16),
                "You treat the two chains as independent. They cannot both be right, so their "
                "chances add up.",
            ),
        ),
        learned="The chance to solve is 0.52. For two guesses that share a place it is 0.60.",
    ),
    function(
        "05-c",
        "Headroom",
        minutes=6,
        level=3,
        solution=headroom,
        cases=_pools,
        hint="What is the best single answer worth, and what are all of them worth together?",
        slips=(
            (
                lambda R: 1 - headroom(R),
                "This is what the best single answer covers. Headroom is the rest.",
            ),
            (
                lambda R: exact_set_reward(R) - R.mean(axis=1).max(),
                "This is a difference in worth. Divide it by what all answers are worth together.",
            ),
            (
                lambda R: 1 - R.mean() / exact_set_reward(R),
                "You take the average answer. Take the best one.",
            ),
            (
                lambda R: 1 - R.sum(axis=1).max() / exact_set_reward(R),
                "You add up the rewards of an answer. The weights add up to 1, so a single answer "
                "is worth the mean of its rewards.",
            ),
            (
                lambda R: 1 - R.max() / exact_set_reward(R),
                "You take the largest single component. An answer is worth its components' mean.",
            ),
            (
                lambda R: 1 - R.mean(axis=1).max() / R.max(axis=0).mean(),
                "You divide by the best of each component. No person gets all of them: each takes "
                "ONE answer. Divide by vpo.exact_set_reward(R).",
            ),
            (
                lambda R: exact_set_reward(R) / R.mean(axis=1).max() - 1,
                "You divide by the worth of the best single answer. Coverage divides by the worth "
                "of all answers.",
            ),
        ),
        learned="One number, before any training: what a set can gain over one answer.",
    ),
)
