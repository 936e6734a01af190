"""The exercises of notebook 06."""

from itertools import combinations, product

import numpy as np

from .kinds import function, number

WHOLE, SINGLE = 0.1892, 0.16536  # under w*: 2 rollouts of VPO, 6 answers of GRPO


def best_at_k(scores, k):
    """The solution of 06-a: the best of k answers, averaged over all choices of k."""
    return np.mean([max(drawn) for drawn in combinations(scores, k)])


def _pools():
    rng = np.random.default_rng(6)
    return [(rng.random(n).round(2), k) for n, k in ((5, 2), (6, 3), (4, 1), (5, 5))]


EXERCISES = (
    function(
        "06-a",
        "Write best@k",
        minutes=5,
        level=3,
        solution=best_at_k,
        cases=_pools,
        hint="`combinations(scores, k)` gives every choice of k answers. What is each one worth?",
        slips=(
            (
                lambda scores, k: np.mean([np.mean(c) for c in combinations(scores, k)]),
                "You average inside each choice, so k changes nothing. A search keeps the best.",
            ),
            (
                lambda scores, k: max(np.mean(c) for c in combinations(scores, k)),
                "Max and mean are swapped: you average k answers, and keep the best average. "
                "A search keeps the best of k, and chance decides which k it draws.",
            ),
            (
                lambda scores, k: max(scores),
                "This is the best of the whole pool, whatever k is. A search sees only k answers.",
            ),
            (
                lambda scores, k: max(scores[:k]),
                "You take the first k answers, so the order matters. Take every choice of k.",
            ),
            (
                lambda scores, k: np.mean([max(c) for c in product(scores, repeat=k)]),
                "You may draw an answer twice. A search draws k different ones from the pool.",
            ),
            (
                lambda scores, k: sum(max(c) for c in combinations(scores, k)),
                "You add up over the choices. best@k is their mean.",
            ),
        ),
        learned="best@k is a mean of maxima: chance draws k answers, the search keeps the best.",
    ),
    number(
        "06-b",
        "Six answers",
        minutes=4,
        level=2,
        solution=WHOLE - SINGLE,
        tolerance=0.0008,
        hint="Six answers are two whole rollouts of VPO. Which entries of both curves are those?",
        slips=(
            (
                0.2133 - SINGLE,
                "You counted k in rollouts: six rollouts of VPO hold 18 answers. Count answers.",
            ),
            (
                WHOLE - 0.15106,
                "You counted k in rollouts: two rollouts of VPO hold six answers, and you gave "
                "GRPO only two.",
            ),
            (
                0.18712 - SINGLE,
                "You broke the rollouts of VPO up. Here they stay whole.",
            ),
            (
                0.198 - 0.167,
                "One entry too far: Python counts from 0, and the first entry is one sample.",
            ),
            (SINGLE - WHOLE, "Turn it round: VPO minus GRPO."),
            (
                WHOLE,
                "This is what VPO's two rollouts find. Now subtract what GRPO's six answers find.",
            ),
            (0.02, "Nearly: keep three decimals or more."),
            (0.023, "Nearly: round to three decimals, do not cut the others off."),
        ),
        learned="VPO is ahead by 0.02 at six answers. Two rollouts beat two answers by 0.04.",
    ),
    number(
        "06-c",
        "How many of GRPO's answers",
        minutes=4,
        level=2,
        solution=53,
        tolerance=0.4,
        hint="The curve of GRPO, `best_of.best_at(pool, weights)`, has 192 entries. Look for the "
        "first that reaches VPO's best@1.",
        slips=(
            (52, "This is the entry of the list. Python counts from 0, and k from 1."),
            (
                1,
                "One answer suffices for a person who wants diamonds, or both. This person wants "
                "gold. "
                "`np.argmax` also gives 0 if no k is enough: use all 192 answers of a pool.",
            ),
            (117, "This is seed 1. Take seed 0, the first pool."),
            (190, "You compare with VPO's best of 192. One of its answers is asked for: best@1."),
        ),
        learned="53 of GRPO's answers find what one of VPO's is worth. In seed 1 it takes 117, and "
        "in seed 2 all 192 are not enough.",
    ),
)
