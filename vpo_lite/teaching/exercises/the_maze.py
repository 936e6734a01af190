"""The exercises of notebook 03."""

import numpy as np

import envs

from ...checks import shortened, shown
from .kinds import Exercise, function, number


def on_front(R):
    """The solution of 03-a: a result stays unless another one is as good and somewhere better."""
    as_good = (R[None] >= R[:, None]).all(axis=-1)  # [i, j]: row j is as good as row i
    better = (R[None] > R[:, None]).any(axis=-1)
    return ~(as_good & better).any(axis=1)


def _better_in_everything(R):
    return ~(R[None] > R[:, None]).all(axis=-1).any(axis=1)


def _better_in_something(R):
    return ~(R[None] > R[:, None]).any(axis=-1).any(axis=1)


def _without_copies(R):
    return (R[None] >= R[:, None]).all(axis=-1).sum(axis=1) == 1


FIRST = [[2, 0], [0, 2], [1, 1], [1, 0], [1, 1]]


def _results():
    rng = np.random.default_rng(3)
    drawn = [rng.integers(4, size=(12, 3)) / 3 for _ in range(6)]
    return [(R,) for R in (np.array(FIRST, dtype=float), *drawn)]


HASTE = (
    "The budget must not matter: use budget=100 in envs.Maze.from_text, on at most 7 × 7 squares."
)
NO_LAVA = "There is no lava, and time for everything: one route takes all that can be reached."
AROUND = "One route takes all treasure and touches no lava. Look for the way round, and close it."
FORCED = (
    "One route is best for everybody, and it touches lava: nobody can reach E without that. "
    "Leave a way to E that is free of lava."
)
NO_TREASURE = "There is no treasure in this maze. Add gold (G) or diamonds (D)."
OUT_OF_REACH = "No route that reaches E can take any treasure, with or without lava. Open a way."
ALL_IN_ONE = "One route is best for everybody. What if a treasure lay behind lava?"


def _judge_conflict(answer):
    try:
        budget, size, lava = int(answer.budget), int(answer.size), len(answer.lava)
        treasure = len(answer.gold) + len(answer.diamonds)
        find = answer.pareto_front
    except Exception:  # anything but a maze may raise anything
        return f"Give a maze: envs.Maze.from_text(...). This is {shown(answer)}."
    try:
        rewards = np.asarray(find().rewards, dtype=float)
        ((_, gold, diamond, avoided), *others) = rewards.tolist()
    except Exception as error:  # such as too many items
        return shortened(f"The front of this maze cannot be found: {error}", 200)
    if budget < 100 or size > 7:
        return HASTE
    if others:
        return None
    if not lava:
        return NO_LAVA
    if not treasure:
        return NO_TREASURE
    if gold == diamond == 0:
        return OUT_OF_REACH
    if avoided < 1:
        return FORCED
    return AROUND if gold == diamond == 1 else ALL_IN_ONE


EXERCISES = (
    function(
        "03-a",
        "The front in three lines",
        minutes=7,
        level=3,
        solution=on_front,
        cases=_results,
        hint="Return one True or False for each row. In the first case R is "
        f"{FIRST}: all rows but the fourth stay.",
        slips=(
            (
                _better_in_everything,
                "You keep too many. A row is dominated already if another row is as good in "
                "everything and better in something.",
            ),
            (
                _better_in_something,
                "You keep too few. A rival that is better in something may be worse in something "
                "else.",
            ),
            (
                _without_copies,
                "Two equal rows remove each other. Neither is better in anything, so both stay.",
            ),
            (
                lambda R: np.zeros(len(R)),
                "Nothing is left: each row is as good as itself. Also require better in one "
                "column.",
            ),
            (
                lambda R: ~on_front(R),
                "This marks the dominated results. Turn it round.",
            ),
            (
                lambda R: R.mean(axis=1) == R.mean(axis=1).max(),
                "You keep the best mean. That is one weighting, and the front needs none.",
            ),
            (
                lambda R: (R == R.max(axis=0)).any(axis=1),
                "You keep the best of each column. A compromise can be on the front, too.",
            ),
        ),
        learned="A front needs no weights: it only asks which rows are dominated.",
    ),
    number(
        "03-b",
        "Straight through the lava",
        minutes=3,
        level=2,
        solution=0.2855477855477855,
        tolerance=0.01,
        hint="Which of the four numbers does this route earn? What is that worth to people with "
        "random weights, and what is the whole front worth to them?",
        slips=(
            (
                0.25,
                "This is what the route is worth. Coverage divides that by the worth of the front.",
            ),
            (
                0.571095571095571,
                "This is the careful route. Yours walks through all the lava: which number does "
                "it lose?",
            ),
            (0.0, "It reaches E, so it earns completion. That is worth something."),
            (
                0.8566433566433566,
                "This is the best single route there is. Yours takes no treasure.",
            ),
            (0.5, "This is what the careful route is worth. Yours also loses avoid_lava."),
        ),
        learned="To reach E is already worth 0.29 of the front. Coverage does not begin at 0.",
    ),
    Exercise(
        "03-c",
        "A conflict with enough time",
        minutes=7,
        level=3,
        solution=envs.Maze.from_text("S L G\n. # #\n. D E", 100),
        judge=_judge_conflict,
        slips=(
            ("S L G", "Give a maze: envs.Maze.from_text(...)."),
            (envs.Maze.from_text("S . G\n. L .\nD . E", 4), HASTE),
            (envs.Maze.from_text("S . G\n. . .\nD . E", 100), NO_LAVA),
            (envs.Maze.from_text("S . G\n. L .\nD . E", 100), AROUND),
            (envs.Maze.from_text("S . .\nL L L\nG D E", 100), FORCED),
            (envs.Maze.from_text("S # G\n. L #\n. . E", 100), OUT_OF_REACH),
            (envs.Maze.from_text("S # G\n. L #\n. D E", 100), ALL_IN_ONE),
        ),
        learned="Lava creates this conflict: a route that avoids it misses what lies behind it.",
    ),
)
