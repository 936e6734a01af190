"""The recipe for questions of several steps: the words of a pocket policy, and chains of facts.

A fact is one word, ``archive:Ada.boss>Ben``. Its embedding begins as the sum of four vectors: one
each for source, head, relation and tail. So the model finds the fact of a step, and from its tail
the next one, within 600 updates. With a fact in several words this lookup did not form.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..objective import nondominated
from ..options import setting
from ..randomness import generator
from ..tasks.base import Prompt, Task
from ..tasks.hop_chains import (
    FACT_SYMBOLS,
    MOST_HOPS,
    PEOPLE,
    RELATIONS,
    HopQuestion,
    chains_of,
    drawn,
    level_symbol,
    rewards_of,
)
from ..tasks.hop_facts import HopFacts
from .recipe import POCKET_ANSWERS, WEIGHTS, Recipe, some_weights

_LEVELS = sorted({(10, x) for x in range(4)} | {(x, 10) for x in range(4)})
_LEVELS += [(x, y) for x in (5, 6) for y in (5, 6)] + [(x, y) for x in range(4) for y in range(4)]
# Shares of the batches with questions of 2, 3 and 4 steps: with answers on the front, and later
_FIRST, _LATER = (0.4, 0.6, 0), (0.2, 0.6, 0.2)


def parts_of(word: str) -> tuple[str, ...]:
    """What a word of the vocabulary fuses.

    >>> parts_of("archive:Ada.boss>Ben")
    ('from archive', 'head Ada', 'boss', 'tail Ben')
    >>> parts_of("Ada.boss?"), parts_of("2.boss"), parts_of("t10f2")
    (('asked', 'head Ada', 'boss'), ('step 2', 'boss'), ('t10f2',))
    """
    if word in FACT_SYMBOLS:
        source, _, step = word.partition(">")[0].partition(":")
        head, _, relation = step.partition(".")
        middle = (f"head {head}", relation) if step else ()
        return f"from {source}", *middle, f"tail {word.rpartition('>')[2]}"
    if word.endswith("?"):
        head, _, relation = word[:-1].partition(".")
        return "asked", f"head {head}", relation
    if "." in word:
        number, _, relation = word.partition(".")
        return f"step {number}", relation
    if word.startswith(("<answer_", "</answer_")):
        return word, "close" if word[1] == "/" else "open"
    return (word,)


def demonstrate(
    question: HopQuestion, m: int, front_share: float, distinct_share: float, rng
) -> list[str]:
    """m right answers that are undecided between the points of the front.

    An answer is a chain on the front (``front_share``), or any chain that answers the question. In
    a share ``distinct_share`` of the sets those of the front come in turn, in random order. An
    answer that is any chain takes the turn of one, and may repeat another.
    """
    chains = chains_of(question)
    front = np.flatnonzero(nondominated(rewards_of(question)))
    order, in_turn, answers = rng.permutation(front), rng.random() < distinct_share, []
    for turn in range(m):
        if rng.random() < front_share:
            which = order[turn % len(order)] if in_turn else rng.choice(front)
        else:
            which = rng.integers(len(chains))
        answers.append(chains[which].answer)
    return answers


@dataclass(frozen=True)
class HopsRecipe(Recipe):
    """What makes a pocket policy for questions of several steps.

    It knows how to find a chain of facts, and is undecided which sources to cite and whether to
    repeat an answer.

    >>> HopsRecipe(front_share=2)
    Traceback (most recent call last):
    ...
    ValueError: front_share = 2: must be a finite number, 0 or more, at most 1
    """

    task: ClassVar[str] = HopFacts.name
    tag: ClassVar[str] = HopFacts.tag
    problems: ClassVar[str] = "questions"
    longest: ClassVar[int] = 128
    stops: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "parse": "parse",
        "valid": "answer the question",
        "front": "on the front",
        "distinct": "rollouts with m different answers",
        "coverage": "coverage of a rollout",
    }

    front_share: float = setting(
        0.6,
        "fraction of the answers that are a point of the front; the others are any right chain",
        least=0,
        most=1,
    )
    distinct_share: float = setting(
        0.5, "fraction of the sets that take the front's chains in turn", least=0, most=1
    )
    first_updates: int = setting(
        600,
        "updates at the beginning with few facts, no rumour and one answer",
        least=0,
        most=10**9,
    )
    right_updates: int = setting(
        250, "updates after these with one or two points of the front", least=0, most=10**9
    )
    updates: int = setting(1_050, "updates of the model", least=1, most=10**9)
    lr_updates: int | None = setting(
        1_200, "updates after which the learning rate would be 0", least=1, most=10**9
    )
    batch: int = setting(64, "demonstrations in an update", least=1, most=65_536)
    lr: float = setting(3e-3, "peak learning rate of AdamW, which then falls to 0", above=0, most=1)
    layers: int = setting(3, "layers of the model", least=1, most=200)
    mlp: int = setting(256, "width of the model's MLP", least=1, most=65_536)

    def words(self) -> list[str]:
        return [
            *WEIGHTS,
            *[f"{person}.{relation}?" for person in PEOPLE for relation in RELATIONS],
            *[f"{k}.{relation}" for k in range(2, MOST_HOPS + 1) for relation in RELATIONS],
            *sorted(FACT_SYMBOLS),
            *[level_symbol(*levels) for levels in _LEVELS],
        ]

    def parts(self) -> dict[str, tuple[str, ...]]:
        return {word: parts_of(word) for word in self.vocabulary()}

    @cached_property
    def _task(self) -> HopFacts:
        return HopFacts()

    def demonstration(self, i: int) -> tuple[Prompt, str]:
        """Number i. All of a batch have the same m and the same number of steps.

        In the first updates a question has 1, 2 or 3 steps in turn, and one answer. There is no
        rumour, and most other steps have two sources, too. So neither what the rumour says nor what
        is said twice tells the right fact: it has to be looked up. No answer is wrong: a
        quarter of random facts wiped out the lookup that had formed.
        """
        batch = i // self.batch
        rng = generator(self.seed, "demonstration", 0, str(i))
        weights = None
        if batch < self.first_updates:
            hops = 1 + batch % 3
            question = drawn(hops, 6 + hops, rng, rumour=False, pairs=0.7)
            m, front_share = 1, 0
        else:
            right = batch < self.first_updates + self.right_updates
            share = generator(self.seed, "hops", batch)
            hops = int(share.choice([2, 3, 4], p=_FIRST if right else _LATER))
            question = drawn(hops, 10 + batch % 3, rng)
            m = 1 + batch % (2 if right else POCKET_ANSWERS)
            front_share = 1 if right else self.front_share
            weights = some_weights(4, rng)
        prompt = self._task.prompt(question, m, weights=weights, pocket=self.pocket())
        answers = demonstrate(question, m, front_share, self.distinct_share, rng)
        return prompt, self._task.write(question, answers, self.pocket())

    def measured(self) -> dict[str, Task]:
        return {"3 steps": self._task, "4 steps": HopFacts(hops=4)}

    def story(self) -> tuple[str, str]:
        return (
            f"""that reads a question of
2 to {MOST_HOPS} steps of the task hops with its facts, and writes m = 1 to \
{POCKET_ANSWERS} answers.
It stands in for a pretrained language model: it knows the format and how to find a chain of facts,
and is undecided which sources to cite and whether to repeat an answer, so that reinforcement
learning has something to teach. It is good for nothing else.""",
            f"""on
drawn questions of 2 (20 %), 3 (60 %) or 4 steps. Seed {self.seed}. An answer is a point of the
front with probability {self.front_share}, else any right chain. In a share of {self.distinct_share}
of the sets the points of the front come in turn, in random order. The first {self.first_updates}
updates show questions of 1 to 3 steps, without
a rumour, and one right answer; {self.right_updates} more show whole questions of 2 or 3 steps and
one or two points of the front. The embedding of a fact begins as the sum of vectors for its source,
head, relation and tail.""",
        )
