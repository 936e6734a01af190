"""The exercises of notebook 01."""

import re

import numpy as np

from .kinds import choice, function, number

TOO_LARGE = "Nearly: what you add is too large. Add 1e-6, and to the standard deviation itself."


def _z(scores, eps=1e-6):
    return (scores - scores.mean()) / (scores.std() + eps)


def _over(scores, spread):
    return (scores - scores.mean()) / spread(scores)


def _scores(R, W):
    return (R @ W.T).max(axis=1).mean(axis=1)


def _advantages(R, W):
    return _z(_scores(R, W))


def _groups():
    rng = np.random.default_rng(1)
    answers = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    drawn = [(answers[rng.integers(3, size=(24, 3))], rng.dirichlet([1, 1], 64)) for _ in range(3)]
    return [*drawn, (np.tile(answers, (24, 1, 1)), drawn[0][1])]  # all rollouts alike


def _letters(text):
    """The answers that a set holds, in any order: "B, A" and "BA" are "A and B"."""
    words = re.sub(r"[,&+{}]", " ", text.casefold()).split()
    return " ".join(sorted("".join(word for word in words if word != "and")))


EXERCISES = (
    function(
        "01-a",
        "VPO's advantages",
        minutes=8,
        level=3,
        solution=_advantages,
        cases=_groups,
        hint="Go through the four steps one by one, and print the shape after each.",
        slips=(
            (
                lambda R, W: _z((R @ W.T).mean(axis=2).max(axis=1)),
                "Max and mean are swapped: you average over people first. Then only the average "
                "person counts. Take the best answer for each person first.",
            ),
            (
                lambda R, W: _z((R @ W.T).sum(axis=1).mean(axis=1)),
                "You add up the answers of a rollout, or average them: copies count. Take the max.",
            ),
            (
                lambda R, W: _z((R @ W.T).max(axis=2).mean(axis=1)),
                "You take the max over people. It belongs over the answers: axis 1 of the scores.",
            ),
            (
                lambda R, W: _z((R @ W.T).max(axis=(1, 2))),
                "You take the max over people, too. Then only one person counts: average over "
                "people.",
            ),
            (
                lambda R, W: np.zeros(len(R)),
                "All are 0: mean and deviation run over the wrong axis. Compare the G rollouts "
                "with each other.",
            ),
            (
                _scores,
                "This is U of each rollout. Step 4 is missing: compare them within the group.",
            ),
            (
                lambda R, W: (U := _scores(R, W)) - U.mean(),
                "The group's mean is subtracted. Now divide by the group's standard deviation.",
            ),
            (
                lambda R, W: _z(_scores(R, W)) * np.sqrt((len(R) - 1) / len(R)),
                "Nearly: your standard deviation divides by G - 1. VPO's divides by G (ddof = 0).",
            ),
            (
                lambda R, W: _z(_scores(R, W), eps=1e-4),
                TOO_LARGE,
            ),
            (lambda R, W: _z(_scores(R, W), eps=1e-5), TOO_LARGE),
            (
                lambda R, W: _over(_scores(R, W), lambda U: np.sqrt(U.var() + 1e-6)),
                TOO_LARGE,
            ),
            (
                lambda R, W: _over(_scores(R, W), lambda U: U.var() + 1e-6),
                "You divide by the variance. Divide by its root, the standard deviation.",
            ),
            (
                lambda R, W: np.mean([_z(U) for U in (R @ W.T).max(axis=1).T], axis=0),
                "You compare rollouts for each person alone. First average over people.",
            ),
            (
                lambda R, W: _z(R.mean(axis=(1, 2))),
                "This is the mean of all rewards: W is not in it. Begin with what each answer is "
                "worth to each person.",
            ),
        ),
        not_finite="In a group whose rollouts all score the same the deviation is 0, and 0 / 0 is "
        "no number. Add 1e-6 to the deviation.",
        learned="These are VPO's advantages. GRPO scores an answer by its mean.",
    ),
    number(
        "01-b",
        "A good compromise",
        minutes=3,
        level=2,
        solution=0.75,
        hint="{C, C, C} is worth c. What is {A, B, B} worth?",
        slips=(
            (
                0.5,
                "A and B are worth 0.5 each to the average person. As a set they are worth more.",
            ),
            (0.76, "This is what {A, B, C} is worth. The set here holds A and B only."),
            (1.0, "c can be smaller: A and B together are not worth 1 to everybody."),
        ),
        learned="With c below 0.75 the compromise is worth less than the two specialists.",
    ),
    choice(
        "01-c",
        "Two slots",
        {
            "A and B": None,
            "A and C": "{A, C} is worth 0.68. Is there a pair that is worth more?",
            "B and C": "{B, C} is worth 0.68. Is there a pair that is worth more?",
            "C and C": "A score by the sum over answers favours C and C. VPO is scored by U.",
        },
        minutes=3,
        level=2,
        read=_letters,
        learned="With two slots VPO gives up the compromise: {A, B} is worth 0.75, {A, C} 0.68.",
    ),
)
