"""Questions of several steps on facts that were drawn: MuSiQue in small, with a real conflict.

A question asks for the teacher of the friend of the boss of Ada. The prompt holds about a dozen
facts (``hop_chains.py``). Each step has two or three parallel facts, which say the same and differ
in their source, and a rumour answers at once. So no answer is best in trust, freshness and brevity.
With MuSiQue's own records one answer earns every reward (``hop_records.py``).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..checks import shown
from ..exact import best_single
from ..randomness import generator
from .base import Option, Prompt, Task
from .hop_chains import (
    FACT_SYMBOLS,
    MOST_HOPS,
    PEOPLE,
    HopQuestion,
    chains_of,
    drawn,
    front_of,
    level_symbol,
    rewards_of,
)
from .wording import numbered_form, weighed, weight_symbols, write_numbered

MOST_SINGLE = 0.85  # of a front may be covered by one answer, else the facts hardly conflict
_PERSON = {name.lower(): name for name in PEOPLE}


class HopFacts(Task):
    """Questions of 2 to 4 steps, answered by facts that are trusted, fresh or few: d = 4.

    An answer cites facts, in any order, and names a person. It counts only if these facts are a
    chain that leads from the start of the question to that person; otherwise all four rewards are
    0. A fact cited twice counts once.

    - valid: 1
    - trust, fresh: the mean over the cited facts, or the least (``along="weakest"``); 0 to 1
    - brevity: (4 - facts) / 3

    w* weighs all four alike. A problem whose best single answer covers more than 0.85 of the front
    is drawn anew. An answer is solved if its reward vector is a point of the true front.

    >>> from vpo_lite.tasks.hop_chains import Fact
    >>> task = HopFacts()
    >>> facts = ("archive", "Ada", "boss", "Ben", 10, 2), ("news", "Ada", "boss", "Ben", 1, 10)
    >>> more = ("report", "Ben", "friend", "Eva", 5, 6), ("rumour", "Ada", "", "Eva", 3, 0)
    >>> x = HopQuestion("Ada", ("boss", "friend"), tuple(Fact(*fact) for fact in (*facts, *more)))
    >>> text = "<answer_1> 1, 3 = Eva </answer_1> <answer_2> rumour>Eva </answer_2>"
    >>> task.parse(x, text, 3)
    ['1 3 = Eva', '4 = Eva', None]
    >>> task.score([x], [["1 3 = Eva", "4 = Eva", "1 3 = Ben"]])[0].round(3).tolist()
    [[1.0, 0.75, 0.4, 0.667], [1.0, 0.3, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """

    name = "hops"
    noun = "question"
    about = "drawn facts, trusted or fresh but not both"
    tag = "answer"
    answer_tokens = 24
    answer_symbols = MOST_HOPS
    pocket_policy = "pocket-hops"
    all_differ = True
    options = (
        Option(
            "hops",
            int,
            3,
            "steps of a question, 2 to 4; most 2-step questions are redrawn, since one "
            "answer covers much of their front",
            least=2,
            most=MOST_HOPS,
        ),
        Option(
            "along",
            str,
            "mean",
            "trust and freshness of an answer: the mean over its facts (default), or its weakest "
            "fact",
            choices=("mean", "weakest"),
        ),
        Option("problem", int, None, "train on this one question; without it, on many", least=0),
    )
    singles_out = ("problem",)

    # --- problems ---------------------------------------------------------------------------------

    def instance(self, seed: int) -> HopQuestion:
        """The question with this seed, or the one that the option singles out. It has 10, 11 or 12
        facts in turn, and more where its steps need them.
        """
        seed = int(seed) if self.problem is None else self.problem
        return _question(seed, self.hops, self.along)

    def summary(self, instance: HopQuestion) -> str:
        """The question, and its facts by number."""
        return "\n".join([instance.text, *_listed(instance)])

    def objectives(self, instance) -> tuple[str, ...]:
        return "valid", "trust", "fresh", "brevity"

    def valid(self, instance, rewards: np.ndarray) -> np.ndarray:
        return np.asarray(rewards)[..., 0] > 0

    def front(self, instance: HopQuestion) -> np.ndarray:
        return front_of(instance, self.along)

    # --- the request for m answers, and their parser ----------------------------------------------

    def prompt(
        self, instance: HopQuestion, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        """The request for m answers: symbols for a pocket policy, otherwise words.

        A fact is two symbols: ``archive:Ada.boss>Ben`` and its trust and freshness, ``t10f2``.
        """
        if pocket is None:
            return Prompt.words(self._words(instance, m, weights))
        asked = [f"{k}.{relation}" for k, relation in enumerate(instance.relations, 1)]
        symbols = [
            f"<m{m}>",
            *weight_symbols(weights),
            f"{instance.start}.{instance.relations[0]}?",
            *asked[1:],
            *(s for f in instance.facts for s in (f.symbol, level_symbol(f.trust, f.fresh))),
        ]
        return Prompt(symbols=" ".join(symbols))

    def _words(self, question: HopQuestion, m: int, weights) -> str:
        many = "one answer" if m == 1 else f"{m} different answers, each good in another respect"
        over = "on average" if self.along == "mean" else "even the weakest of them"
        lines = [
            "Answer the question from these facts. Each has a source, a trust and a freshness from "
            "0 to 1.",
            "",
            *_listed(question),
            "",
            f"Question: {question.text}",
            "",
            f"An answer cites one fact for each step, or a rumour alone, and names the person to "
            f"whom they lead from {question.start}. It is good to cite facts that are trusted "
            f"({over}), facts that are fresh ({over}), and few facts. Perhaps no answer has all.",
        ]
        if weights is not None:
            lines.append(weighed("goals", self.objectives(question), weights))
        lines += [
            f"Write {many}, as the numbers of the cited facts, an equals sign and the person, such "
            f"as 2, 7 = {PEOPLE[0]}. Use exactly this form:",
            numbered_form(m, self.tag),
        ]
        return "\n".join(lines)

    def read(self, instance: HopQuestion, body: str) -> str | None:
        """One answer as numbers of facts and a person; None where it is malformed.

        A fact is cited by its number or by its symbol. A symbol of a fact that the prompt does not
        hold stays as it is. Without a person, the last symbol says whom the answer names.
        """
        words = body.translate(str.maketrans(",=[]", "    ")).split()
        person = _PERSON.get(words[-1].lower()) if words else None
        cited = words if person is None else words[:-1]
        if person is None and words and words[-1] in FACT_SYMBOLS:
            person = words[-1].rpartition(">")[2]
        if person is None or not cited or not all(map(_is_citation, cited)):
            return None
        number = {fact.symbol: str(i) for i, fact in enumerate(instance.facts, 1)}
        return f"{' '.join(number.get(w, w) for w in cited)} = {person}"

    def write(self, instance, answers: Sequence[str], pocket: dict | None = None) -> str:
        """Parsed answers, for a pocket policy with the symbols of their facts."""
        if pocket is None:
            return super().write(instance, answers)
        symbol = {str(i): fact.symbol for i, fact in enumerate(instance.facts, 1)}
        cited = (answer.rpartition(" = ")[0].split() for answer in answers)
        return write_numbered(
            (" ".join(symbol.get(w, w) for w in words) for words in cited), self.tag
        )

    # --- scoring ----------------------------------------------------------------------------------

    def vector(self, instance: HopQuestion, answer: str) -> np.ndarray:
        chains = [(frozenset(chain.facts), chain.person) for chain in chains_of(instance)]
        given = self.same_effect(instance, answer)
        if given not in chains:
            return np.zeros(4)
        return rewards_of(instance, self.along)[chains.index(given)]

    def same_effect(self, instance: HopQuestion, answer: str) -> tuple[frozenset, str]:
        """What is cited, in any order, and the person."""
        read = self.read(instance, answer)
        if read is None:
            raise ValueError(
                f"answer {shown(answer)}: expected numbers of facts, = and a person, such as "
                f"2 7 = {PEOPLE[0]}"
            )
        cited, _, person = read.rpartition(" = ")
        return frozenset(int(w) if w.isdecimal() else w for w in cited.split()), person

    def combine(self, instance, first: str, second: str) -> list[str]:
        """The first facts of one answer and the last ones of the other, of answers alike in length.

        >>> HopFacts().combine(None, "1 3 = Eva", "2 4 = Eva")
        ['1 4 = Eva', '2 3 = Eva']
        """
        (a, to_a), (b, to_b) = (
            (cited.split(), person)
            for cited, _, person in (answer.rpartition(" = ") for answer in (first, second))
        )
        if len(a) != len(b):
            return []
        return [
            f"{' '.join(head[:k] + tail[k:])} = {person}"
            for k in range(1, len(a))
            for head, tail, person in ((a, b, to_b), (b, a, to_a))
        ]


@lru_cache(maxsize=1024)  # with two steps most draws are refused, and a measurement comes again
def _question(seed: int, hops: int, along: str) -> HopQuestion:
    rng = generator(seed, "hops", hops)
    while True:
        question = drawn(hops, 10 + seed % 3, rng)
        if best_single(front_of(question, along)) <= MOST_SINGLE:
            return question


def _is_citation(word: str) -> bool:
    return word in FACT_SYMBOLS or (word.isascii() and word.isdecimal() and len(word) <= 3)


def _listed(question: HopQuestion) -> list[str]:
    """The facts in words, one line each."""
    lines = []
    for i, fact in enumerate(question.facts, 1):
        what = f"the {fact.relation} of {fact.head}" if fact.relation else "the answer"
        levels = f"trust {fact.trust / 10:.1f}, fresh {fact.fresh / 10:.1f}"
        lines.append(f"{i}. {fact.source} ({levels}): {what} is {fact.tail}")
    return lines
