"""Chains of hidden entities, some with two candidates: a stand-in for EUREQA, and a negative case.

Five sentences lead from a country backwards to five hidden entities, entity_E first, as in EUREQA
(``chain_records``). Nothing needs to be known: the prompt lists the one or two candidates for each
place, the likelier one first, and how likely it is.

Nothing conflicts in truth. One gold chain is scored, and the true front is one point, (1, 1, 1, 1,
1). The gold is drawn from just these probabilities, so no policy can know it: a set of answers can
only hedge. The yardstick is therefore the best expected reward (:mod:`vpo_lite.hedging`), and what
is best depends on the goal. In mode ``independent`` the set that VPO asks for solves fewer problems
than others. In mode ``spreading`` the vectors are ordered, and VPO asks for the same as set_max.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from ..checks import shown
from ..randomness import generator
from .base import Option, Prompt, Task
from .wording import numbered_form, weighed, weight_symbols

LETTERS = "ABCDE"
_INVENTED = """\
Person Adela Bruno Clio Darvo Edda Falko Gerda Harun Ilva Jaro
Book Ashfall Bluebell Candle Driftwood Ember Firefly Goldleaf Harvest Icebound Jade
Town Arnwick Bellport Corham Dunmere Elsby Farrow Glenfield Hartwell Inverby Jorston
River Avel Brenna Corra Doun Erne Fiora Gavra Holm Isbeck Jura
Mountain Altenkopf Brackspitz Cairnoch Dornhorn Eiskamm Felsgrat Grauzahn Hochfirst Iselberg Joch
"""
NAMES = {kind: names for kind, *names in map(str.split, _INVENTED.splitlines())}
KINDS = tuple(NAMES)  # of the entities A to E
SENTENCES = (
    "Person A wrote Book B.",
    "Book B is set in Town C.",
    "Town C lies on River D.",
    "River D rises on Mountain E.",
    "Mountain E stands in Norland.",
)
PRIORS = (0.5, 0.6, 0.7, 0.8, 0.9)
NONE = "-"  # in symbols: there is no second candidate


class Puzzle(NamedTuple):
    """One problem: the candidates for each of the five places, and the hidden chain.

    - candidates: one or two names for each place, the likelier one first
    - prior: the probability of the first of two
    - gold: the five right names
    """

    candidates: tuple[tuple[str, ...], ...]
    prior: float
    gold: tuple[str, ...]


class IndependentChains(Task):
    """Five hidden entities, d = 5: entity_X is 1 if its name is right. w* is the mean.

    An answer is five names, entity_A first. It is solved if all of them are right, and valid if one
    is.

    >>> task = IndependentChains(uncertain=1)
    >>> x = Puzzle((("Edda",), ("Jade",), ("Elsby", "Corham"), ("Holm",), ("Eiskamm",)), 0.8,
    ...     ("Edda", "Jade", "Corham", "Holm", "Eiskamm"))
    >>> task.prompt(x, 2, pocket={}).symbols
    '<m2> <p8> Edda - Jade - Elsby Corham Holm - Eiskamm -'
    >>> a, b = "Edda Jade Elsby Holm Eiskamm", "Edda Jade Corham Holm Eiskamm"
    >>> task.score([x], [[a, b]])[0].tolist()
    [[1.0, 1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    >>> consistent(x)[0] == [a, b], consistent(x)[1].round(6).tolist()
    (True, [0.8, 0.2])
    """

    name = "chains"
    noun = "chain"
    about = "generated, a wrong entity leaves the others as they are"
    tag = "chain"
    answer_tokens = 40
    answer_symbols = len(LETTERS)
    pocket_policy = "pocket-chains"
    all_differ = True
    options = (
        Option(
            "uncertain",
            int,
            3,
            "places with two candidates, 1 to 5: 2 to 32 chains",
            least=1,
            most=5,
        ),
        Option(
            "prior", float, 0.6, "probability of the likelier candidate: 0.5, 0.6, 0.7, 0.8 or 0.9"
        ),
        Option(
            "problem",
            int,
            None,
            "train on this one chain, which can be found by trying; without it, on many",
            least=0,
        ),
    )
    singles_out = ("problem",)

    def __init__(self, **options):
        super().__init__(**options)
        if self.prior not in PRIORS:
            there = ", ".join(map(str, PRIORS))
            raise ValueError(f"prior = {shown(self.prior)}: give one of {there}")

    # --- problems ---------------------------------------------------------------------------------

    def instance(self, seed: int) -> Puzzle:
        """The chain with this seed, or the one that the option singles out. Both modes have the
        same problems.
        """
        seed = seed if self.problem is None else self.problem
        rng = generator(seed, "chains", self.uncertain, str(self.prior))
        open_places = set(rng.choice(len(KINDS), self.uncertain, replace=False).tolist())
        candidates, gold = [], []
        for place, kind in enumerate(KINDS):
            first, second = rng.choice(NAMES[kind], 2, replace=False).tolist()
            likelier_holds = rng.random() < self.prior
            candidates.append((first, second) if place in open_places else (first,))
            gold.append(second if place in open_places and not likelier_holds else first)
        return Puzzle(tuple(candidates), self.prior, tuple(gold))

    def objectives(self, instance) -> tuple[str, ...]:
        return tuple(f"entity_{letter}" for letter in LETTERS)

    def front(self, instance) -> np.ndarray:
        return np.ones((1, len(LETTERS)))

    def summary(self, instance) -> str:
        """The sentences and the candidates."""
        return "\n".join([*SENTENCES, *_listed(instance)])

    # --- the request for m chains, and its parser -------------------------------------------------

    def prompt(self, instance, m: int, *, weights=None, pocket: dict | None = None) -> Prompt:
        """The request for m chains: symbols for a pocket policy, otherwise words.

        The symbols are m, the probability of the likelier candidates in tenths, then two candidates
        for each place; ``-`` where there is no second one. Weights stand before their places.
        """
        if pocket is None:
            return Prompt.words(self._words(instance, m, weights))
        symbols, weighs = [f"<m{m}>", f"<p{round(10 * instance.prior)}>"], weight_symbols(weights)
        for i, names in enumerate(instance.candidates):
            symbols += [*weighs[i : i + 1], *[*names, NONE][:2]]
        return Prompt(symbols=" ".join(symbols))

    def _words(self, instance, m, weights) -> str:
        asked = "one chain" if m == 1 else f"{m} different chains"
        lines = [
            "The entities in these sentences are hidden behind what they are:",
            "",
            *SENTENCES,
            "",
            "Some of them are known, for the others there are two candidates:",
            "",
            *_listed(instance),
            "",
            self._counts,
        ]
        if weights is not None:
            lines.append(weighed("entities", self.objectives(instance), weights))
        lines += [
            f"Write {asked}: the five names from A to E with blanks between them, in exactly this "
            "form:",
            numbered_form(m, self.tag),
        ]
        return "\n".join(lines)

    _counts = "Each right name counts."

    def read(self, instance, body: str) -> str | None:
        """The five names of one answer; None where it is malformed.

        They may stand in any case, with blanks or commas between them. A name that is no candidate
        is wrong, not malformed.
        """
        names = body.replace(",", " ").split()
        plain = all(name.isascii() and name.isalpha() and len(name) <= 40 for name in names)
        return " ".join(map(str.capitalize, names)) if len(names) == 5 and plain else None

    # --- scoring ----------------------------------------------------------------------------------

    def score(self, instances, answers) -> list[np.ndarray]:
        return [self._scored(x.gold, row) for x, row in zip(instances, answers, strict=True)]

    def _scored(self, gold, answers) -> np.ndarray:
        right = [[a == b for a, b in zip(_names(text), gold, strict=True)] for text in answers]
        return self.counted(np.array(right, dtype=float).reshape(-1, len(LETTERS)))

    def counted(self, right: np.ndarray) -> np.ndarray:
        """What right names (..., 5), 0 or 1, earn."""
        return right

    def under_each(self, instance, answers) -> np.ndarray:
        """Rewards (g, n, 5) of n answers, as if each of the g consistent chains were the gold.

        With ``consistent(instance)`` it is what :mod:`vpo_lite.hedging` judges sets by.
        """
        golds = [chain.split() for chain in consistent(instance)[0]]
        return np.stack([self._scored(gold, answers) for gold in golds])


class SpreadingChains(IndependentChains):
    """The same problems, scored as if a wrong entity spoiled all that is inferred from it.

    The sentences are followed backwards. So entity_D was inferred from entity_E, and counts only if
    that is right, too. An answer is valid if entity_E is right. Given the gold, the vectors of any
    answers are then ordered: the best answer is the best under every weighting.

    >>> SpreadingChains().counted(np.array([1, 1, 0, 1, 1])).tolist()
    [0, 0, 0, 1, 1]
    """

    about = "generated, a wrong entity spoils all that is inferred from it"
    _counts = (
        "They are inferred backwards, E first. A right name counts only if all after it are right, "
        "too: A needs B, C, D and E."
    )

    def counted(self, right: np.ndarray) -> np.ndarray:
        return np.cumprod(right[..., ::-1], axis=-1)[..., ::-1]


def consistent(instance: Puzzle) -> tuple[list[str], np.ndarray]:
    """Every chain that fits the prompt, the likelier names first, and its probability.

    These are the probabilities that the gold was drawn with, so nobody can know more.
    """
    chains = [" ".join(names) for names in product(*instance.candidates)]
    p = instance.prior
    of_place = [(p, 1 - p) if len(names) == 2 else (1.0,) for names in instance.candidates]
    return chains, np.array([np.prod(parts) for parts in product(*of_place)])


def _names(answer: str) -> list[str]:
    names = answer.split()
    if len(names) != len(LETTERS):
        raise ValueError(f"chain {shown(answer)}: expected five names with blanks between them")
    return names


def _listed(instance: Puzzle) -> list[str]:
    """The candidates, a line for each place."""
    lines = []
    for letter, kind, names in zip(LETTERS, KINDS, instance.candidates, strict=True):
        chances = (round(100 * instance.prior), round(100 * (1 - instance.prior)))
        said = [f"{n} ({c} %)" for n, c in zip(names, chances, strict=False)]
        lines.append(f"{kind} {letter}: {' or '.join(said) if len(names) == 2 else names[0]}")
    return lines
