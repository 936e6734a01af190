"""The exercises of notebook 00."""

from .kinds import choice, number

EXERCISES = (
    number(
        "00-a",
        "Three people and three routes",
        minutes=3,
        level=2,
        solution=(0.9 + 3.5 / 6 + 0.9) / 3,
        hint="Each person takes the route that they like best. Then average over the people.",
        slips=(
            (
                3.5 / 6,
                "This is the best single route: first the mean over people, then the best. "
                "In a set each person chooses first: the max comes before the mean.",
            ),
            (
                (0.5 + 3.5 / 6 + 0.5) / 3,
                "This is the mean over routes, too. Nobody walks all three: take each person's "
                "best route.",
            ),
            (
                (0.9 + 0.65 + 0.9) / 3,
                "You take the best person for each route. Take the other axis: the best route for "
                "each person, then the mean.",
            ),
            (0.8, "Nearly: round at the end only, to two decimals."),
            (0.9 + 3.5 / 6 + 0.9, "This is the sum over the three people. U is their mean."),
        ),
        learned="First each person chooses, then we average over people. That is U.",
    ),
    number(
        "00-b",
        "Two routes of three",
        minutes=3,
        level=2,
        solution=0.9557522123893805,
        hint="Choose the maze in the panel, set m = 2 and α = 1, and point at the dotted "
        "line 2. Or ask `vpo.price_of_conflict`.",
        slips=(
            (0.7964601769911503, "This is the best single route. Two are allowed."),
            (
                1.0,
                "This is what three routes cover, or two on maze 1000. Choose the maze "
                "`three needed` and m = 2.",
            ),
            (
                0.9863414290909,
                "Is this maze `three needed`, and α 1? Two routes cover 0.99 there at α = 10, and "
                "on maze 1000 at any α.",
            ),
            (
                0.8996017306623,
                "Two routes cover this at α = 0.1, and one route on maze 1000. Move α back to 1, "
                "and choose `three needed`.",
            ),
            (1 - 0.9557522123893805, "This is what two routes leave uncovered."),
        ),
        learned="Two routes cover 0.96, three cover everything.",
    ),
    choice(
        "00-c",
        "Which two routes?",
        {
            "far apart": "Their distance is the largest, but diversity is not quality: a route "
            "that misses E serves nobody, so this set is worth what its one good route is worth.",
            "different": None,
            "alike": "The second route adds nothing: whoever likes it has it already.",
        },
        minutes=2,
        level=1,
        learned="A set needs routes that are good AND different. Either alone is not enough.",
    ),
)
