"""Chains of hidden entities on EUREQA's records (Li et al. 2024, arXiv 2311.09702).

A record is a chain of sentences about entities that are named by their kind (Person A, Book B). The
last sentence names a real one, and each sentence leads one entity further. An answer names the five
hidden ones in ``<entity_A>`` to ``<entity_E>``. It is scored as in the release of the VPO paper
(arXiv 2605.22817): by the names that are right. Nothing is given to read, so it asks what a model
knows.

The paper trains on ``questions_normal_5`` and on half of ``questions_hard_5``, shuffled, and
evaluates on the other half: give the two parts as ``data`` and ``held_out_data``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .base import Prompt
from .matching import normalised
from .records import Dropped, RecordTask
from .rows import Row

LETTERS = "ABCDE"
_TAGS = [
    (re.compile(f"<entity_{x}>", re.IGNORECASE), re.compile(f"</entity_{x}>", re.IGNORECASE))
    for x in LETTERS
]


class ChainsRow(Row):
    """The fields of EUREQA's rows that are read."""

    question: list[str]
    entity_masks: list[str]
    entities: list[str]


@dataclass(frozen=True)
class Chain:
    """The sentences, what the five hidden entities are called in them, and their names."""

    sentences: tuple[str, ...]
    masks: tuple[str, ...]
    names: tuple[str, ...]


class ChainRecords(RecordTask):
    """Hidden entities for entity_A to entity_E: d = 5, w* is their mean.

    entity_X is 1 if the name is right: equal after underscores became blanks, in lower case,
    without articles and ASCII punctuation. An answer that names no entity is malformed.

    >>> task = ChainRecords()
    >>> x = task.instance(0)
    >>> x.masks[:2], x.names[:2]
    (('Person A', 'Book B'), ('Ina_Holt', 'Low_Tide'))
    >>> answer = "<entity_A>ina holt</entity_A> <Entity_B>The Low Tide!</Entity_B>"
    >>> task.score([x], [[answer]])[0].tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0]]
    """

    name = "chains"
    noun = "chain"
    row = ChainsRow
    completion_tokens = (512, 2048)
    meanings = tuple((f"entity_{x}", f"the name of entity {x} is right") for x in LETTERS)

    # --- records ----------------------------------------------------------------------------------

    def record(self, row: ChainsRow) -> Chain:
        d = len(LETTERS)
        if min(len(row.entity_masks), len(row.entities)) < d + 1:
            raise Dropped("it has fewer than six entities")
        if not all(name.strip() for name in row.entities[:d]):
            raise Dropped("an entity has no name")
        if not any(sentence.strip() for sentence in row.question):
            raise Dropped("it has no sentence")
        masks, names = (tuple(values[:d]) for values in (row.entity_masks, row.entities))
        return Chain(tuple(row.question), masks, names)

    def gold(self, instance: Chain) -> str:
        return _written(instance.names)

    # --- the request and the parser ---------------------------------------------------------------

    def prompt(
        self, instance: Chain, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        many = "" if m == 1 else f" Give {m} different attempts, with other candidates."
        lines = [
            "The entities in these sentences are hidden behind what they are. Only the last "
            "sentence names a real one. Work backwards from it.",
            "",
            *instance.sentences,
            "",
            "The hidden entities:",
            *(f"{x}: {mask}" for x, mask in zip(LETTERS, instance.masks, strict=True)),
            "",
            *([] if weights is None else [self.weighed(weights), ""]),
            "Write the name of each as the title of its Wikipedia page, with underscores, and "
            f"nothing else between its tags.{many} Use exactly this form:",
            self.asked_in_blocks(m, _written(("...",) * len(LETTERS))),
        ]
        return Prompt.words("\n".join(lines))

    def read(self, instance, body: str) -> str | None:
        """The text of one answer; None where it names no entity."""
        return body.strip() if any(self.named(body)) else None

    def named(self, text: str) -> tuple[str, ...]:
        """The five names of an answer: the first of each tag, in any case; empty where missing."""
        names = []
        for opening, closing in _TAGS:
            start = opening.search(text)
            end = closing.search(text, start.end()) if start else None
            names.append(text[start.end() : end.start()].strip() if end else "")
        return tuple(names)

    def effect(self, instance, answer: str):
        return tuple(map(_normalised, self.named(answer)))

    # --- scoring ----------------------------------------------------------------------------------

    def vector(self, instance: Chain, answer: str) -> list[float]:
        pairs = zip(self.named(answer), instance.names, strict=True)
        alike = ((_normalised(given), _normalised(name)) for given, name in pairs)
        return [float(given == name != "") for given, name in alike]


def _normalised(name: str) -> str:
    return normalised(name, articles=False, underscores=True)


def _written(names: Sequence[str]) -> str:
    return "\n".join(
        f"<entity_{x}>{name}</entity_{x}>" for x, name in zip(LETTERS, names, strict=True)
    )
