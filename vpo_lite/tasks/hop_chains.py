"""Small worlds of facts: people, relations, and several sources for every step of a question.

The archive is trusted and old, the news are fresh and doubtful, a report is between the two, and a
rumour answers the whole question at once. So no chain of facts is best in trust, freshness and
brevity. All chains of a question are scored, at most 82 of a drawn one, so the front is exact.
"""

from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..objective import nondominated

PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jane")
RELATIONS = ("boss", "friend", "teacher")
SOURCES = ("archive", "news", "report")  # of a single step; a rumour answers the whole question
RUMOUR = "rumour"
MOST_HOPS = 4
_LEVELS = {  # source -> its possible trusts and freshnesses, in tenths
    "archive": ((10,), (0, 1, 2, 3)),
    "news": ((0, 1, 2, 3), (10,)),
    "report": ((5, 6), (5, 6)),
    RUMOUR: ((0, 1, 2, 3), (0, 1, 2, 3)),
}


class Fact(NamedTuple):
    """That ``tail`` is the ``relation`` of ``head``; a rumour has no relation: it names the answer
    to the whole question. trust and fresh are 0 to 10, in tenths.

    >>> Fact("archive", "Ada", "boss", "Ben", 10, 2).symbol
    'archive:Ada.boss>Ben'
    """

    source: str
    head: str
    relation: str
    tail: str
    trust: int
    fresh: int

    @property
    def symbol(self) -> str:
        """The fact without its levels, as one word."""
        step = f":{self.head}.{self.relation}" if self.relation else ""
        return f"{self.source}{step}>{self.tail}"


def level_symbol(trust: int, fresh: int) -> str:
    """Trust and freshness as one word, such as ``t10f2``."""
    return f"t{trust}f{fresh}"


class HopQuestion(NamedTuple):
    """One problem: from ``start`` follow the relations. Facts are numbered from 1."""

    start: str
    relations: tuple[str, ...]
    facts: tuple[Fact, ...]

    @property
    def text(self) -> str:
        """The question in words, such as ``Who is the friend of the boss of Ada?``"""
        steps = "".join(f"the {relation} of " for relation in reversed(self.relations))
        return f"Who is {steps}{self.start}?"


def _symbols() -> frozenset[str]:
    pairs = [(head, tail) for head in PEOPLE for tail in PEOPLE if head != tail]
    facts = [Fact(s, h, r, t, 0, 0) for s in SOURCES for h, t in pairs for r in RELATIONS]
    return frozenset(f.symbol for f in [*facts, *(Fact(RUMOUR, "", "", t, 0, 0) for t in PEOPLE)])


FACT_SYMBOLS = _symbols()  # every fact that can be cited by its symbol


# --- the generator --------------------------------------------------------------------------------


def drawn(hops: int, facts: int, rng, *, rumour: bool = True, pairs: float = 0.4) -> HopQuestion:
    """A question with parallel facts for each step, a rumour, and others up to ``facts`` in all.

    Each step has the archive, the news and, with probability 0.3, a report between the two. The
    other facts are about other steps, most often of people whom the question passes; a share
    ``pairs`` of these steps has two sources.
    """
    path = [PEOPLE[i] for i in rng.choice(len(PEOPLE), hops + 1, replace=False)]
    relations = tuple(RELATIONS[i] for i in rng.integers(len(RELATIONS), size=hops))
    found = [_fact(RUMOUR, path[0], "", path[-1], rng)] if rumour else []
    for head, relation, tail in zip(path, relations, path[1:], strict=False):
        parallel = SOURCES if rng.random() < 0.3 else SOURCES[:2]
        found += [_fact(source, head, relation, tail, rng) for source in parallel]
    known = set(zip(path, relations, strict=False))
    while len(found) < facts:
        some = path if rng.random() < 0.6 else PEOPLE
        step = some[rng.integers(len(some))], RELATIONS[rng.integers(len(RELATIONS))]
        if step in known:
            continue
        known.add(step)
        others = [person for person in PEOPLE if person != step[0]]
        tail, first = others[rng.integers(len(others))], rng.integers(len(SOURCES))
        both = rng.random() < pairs and len(found) < facts - 1
        parallel = SOURCES[:2] if both else SOURCES[first : first + 1]
        found += [_fact(source, *step, tail, rng) for source in parallel]
    return HopQuestion(path[0], relations, tuple(found[i] for i in rng.permutation(len(found))))


def _fact(source, head, relation, tail, rng) -> Fact:
    trusts, freshs = _LEVELS[source]
    trust, fresh = trusts[rng.integers(len(trusts))], freshs[rng.integers(len(freshs))]
    return Fact(source, head, relation, tail, trust, fresh)


# --- all chains at once ---------------------------------------------------------------------------


class Chain(NamedTuple):
    """Numbers of facts that answer a question in this order, and the person to whom they lead.

    >>> Chain((2, 7), "Ada").answer
    '2 7 = Ada'
    """

    facts: tuple[int, ...]
    person: str

    @property
    def answer(self) -> str:
        """The answer that cites these facts."""
        return f"{' '.join(map(str, self.facts))} = {self.person}"


@lru_cache(maxsize=512)
def chains_of(question: HopQuestion) -> tuple[Chain, ...]:
    """Every chain that answers the question: one fact for each step, or one rumour.

    >>> boss, rumour = Fact("news", "Ada", "boss", "Ben", 1, 10), Fact("rumour", *"--", "Ben", 0, 1)
    >>> [chain.facts for chain in chains_of(HopQuestion("Ada", ("boss",), (boss, rumour, boss)))]
    [(1,), (3,), (2,)]
    """
    numbered = list(enumerate(question.facts, 1))
    found = [Chain((), question.start)]
    for relation in question.relations:
        found = [
            Chain((*chain.facts, i), fact.tail)
            for chain in found
            for i, fact in numbered
            if (fact.head, fact.relation) == (chain.person, relation)
        ]
    rumours = [Chain((i,), fact.tail) for i, fact in numbered if fact.source == RUMOUR]
    return (*found, *rumours)


def vectors_of(levels: np.ndarray, along: str = "mean") -> np.ndarray:
    """The rewards (..., 4) of chains of n facts with these trusts and freshnesses (..., n, 2).

    They are (1, trust, fresh, brevity): the mean over the facts or, with ``along="weakest"``, the
    least; brevity is (4 - n) / 3. Levels are given in tenths, 0 to 10.

    >>> vectors_of(np.array([[10, 2], [1, 10]])).round(3).tolist()
    [1.0, 0.55, 0.6, 0.667]
    >>> vectors_of(np.array([[10, 2], [1, 10]]), "weakest").round(3).tolist()
    [1.0, 0.1, 0.2, 0.667]
    """
    n = levels.shape[-2]
    joined = (levels.sum(axis=-2) / n if along == "mean" else levels.min(axis=-2)) / 10
    always, brevity = np.ones(levels.shape[:-2]), (MOST_HOPS - n) / (MOST_HOPS - 1)
    return np.stack([always, *np.moveaxis(joined, -1, 0), brevity * always], axis=-1)


@lru_cache(maxsize=1024)
def rewards_of(question: HopQuestion, along: str = "mean") -> np.ndarray:
    """The rewards (n, 4) of all chains, in the order of :func:`chains_of`."""
    levels = np.array([(fact.trust, fact.fresh) for fact in question.facts])
    alike = groupby((chain.facts for chain in chains_of(question)), key=len)  # rumours come last
    rows = [vectors_of(levels[np.array(list(some)) - 1], along) for _, some in alike]
    rewards = np.concatenate([np.empty((0, 4)), *rows]).round(12)
    rewards.flags.writeable = False  # it is kept
    return rewards


def front_of(question: HopQuestion, along: str = "mean") -> np.ndarray:
    """The exact front (f, 4): the non-dominated ones among the rewards of all chains."""
    rewards = rewards_of(question, along)
    return rewards[nondominated(rewards)]
