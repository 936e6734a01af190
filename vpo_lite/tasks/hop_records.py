"""Questions of several steps on MuSiQue's records (Trivedi et al. 2022, arXiv 2108.00573).

A record is a question, the paragraphs that it can be answered from, and the paragraph of each step
(hop). An answer cites paragraphs in ``<support>`` and answers in ``<answer>``. It is scored as in
the release of the VPO paper (arXiv 2605.22817): by the steps whose paragraph is cited, and by the
words of the answer.
"""

import re
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from ..checks import shown
from ..files import DamagedError
from .base import Option, Prompt
from .matching import normalised, token_f1
from .records import RECORD_OPTIONS, Dropped, RecordTask
from .rows import Row
from .wording import between

HOPS = 4  # steps that are scored, and citations that count
MOST_DIGITS = 4300  # of a text that Python reads as a number
FORM = "<support>numbers of paragraphs, such as 3, 7</support>\n<answer>a short answer</answer>"


class _Paragraph(Row):
    idx: int
    title: str
    paragraph_text: str


class _Step(Row):
    paragraph_support_idx: int | None = None


class HopsRow(Row):
    """The fields of MuSiQue's rows that are read."""

    paragraphs: list[_Paragraph]
    question: str
    question_decomposition: list[_Step]
    answer: str
    answer_aliases: list[str] | None = None
    answerable: bool | None = None


@dataclass(frozen=True)
class Question:
    """A question, its paragraphs (number, title, text), the paragraph of each step in order, and
    the answers that are right, the record's own first.
    """

    question: str
    paragraphs: tuple[tuple[int, str, str], ...]
    support: tuple[int, ...]
    answers: tuple[str, ...]


class HopRecords(RecordTask):
    """Questions for hop_1 to hop_4 and answer_f1: d = 5, w* = (1, 1, 1, 1, 3) / 7.

    - hop_i: 1 if the paragraph of step i is among the first four different citations; 1 also for
      the steps that the question does not have
    - answer_f1: F1 of the words of the answer, the best over the record's answers

    Without an answer all five are 0. An answer is valid if it earns more than one that has nothing
    right: the steps that a question does not have count for nothing there.

    >>> task = HopRecords()
    >>> x = task.instance(0)
    >>> x.support, x.answers
    ((0, 1), ('Lisse', 'Lisse, Holland'))
    >>> R = task.score([x], [["<support>1, 7</support> <answer>in Lisse</answer>"]])[0]
    >>> R.round(3).tolist(), task.valid(x, R).tolist()
    ([[0.0, 1.0, 1.0, 1.0, 0.667]], [True])
    """

    name = "hops"
    noun = "question"
    row = HopsRow
    meanings = (
        *((f"hop_{i}", f"the paragraph of step {i} is cited") for i in range(1, HOPS + 1)),
        ("answer_f1", "the words of the answer are right"),
    )
    options = (
        *RECORD_OPTIONS,
        Option(
            "citations",
            str,
            "strict",
            "how citations are read: strict (default, as in the paper's release): numbers between "
            "commas, so [3] and 3 7 are lost; loose: every run of digits",
            choices=("strict", "loose"),
        ),
        Option(
            "answer_words",
            str,
            "release",
            "how an answer is cut into words: release (default): articles are dropped, then "
            "punctuation; musique: the other way round, as in the data set's own scorer (it makes "
            "a difference for 'a-team')",
            choices=("release", "musique"),
        ),
        Option(
            "held_out_order",
            str,
            "file",
            "order in which held-out questions are measured: file (default, as in the paper's "
            "release): as they stand; hops: 2, 3 and 4 steps in turn, so equally many of each, as "
            "the paper drew them",
            choices=("file", "hops"),
        ),
    )

    # --- records ----------------------------------------------------------------------------------

    def record(self, row: HopsRow) -> Question:
        numbers = [p.idx for p in row.paragraphs]
        support = [step.paragraph_support_idx for step in row.question_decomposition]
        if row.answerable is False:
            raise Dropped("it is marked as not answerable")
        if not 0 < len(support) <= HOPS:
            raise DamagedError(
                f"question_decomposition: {len(support)} steps; 1 to {HOPS} can be scored, so "
                "leave this record out"
            )
        if None in support:
            raise Dropped("a step names no paragraph")
        if not set(support) <= set(numbers):
            absent = min(set(support) - set(numbers))
            raise DamagedError(
                f"question_decomposition: paragraph_support_idx = {absent}, and no paragraph has "
                f"this idx; there are {shown(sorted(numbers))}"
            )
        if len(set(numbers)) < len(numbers):
            twice = next(n for n in numbers if numbers.count(n) > 1)
            raise DamagedError(
                f"paragraphs: idx {twice} is there twice; give each paragraph a number of its own"
            )
        if not row.question.strip():
            raise Dropped("its question is empty")
        if not row.answer.strip():
            raise Dropped("its answer is empty")
        if not self._counts(row.answer):
            raise Dropped("its answer is only articles and punctuation, which do not count")
        paragraphs = tuple((p.idx, p.title, p.paragraph_text) for p in row.paragraphs)
        aliases = filter(self._counts, row.answer_aliases or ())
        answers = tuple(dict.fromkeys((row.answer, *aliases)))
        return Question(row.question, paragraphs, tuple(support), answers)

    def gold(self, instance: Question) -> str:
        cited = ", ".join(map(str, dict.fromkeys(instance.support[:HOPS])))
        return f"<support>{cited}</support> <answer>{instance.answers[0]}</answer>"

    def kind(self, instance: Question) -> str:
        return f"{len(instance.support)} hops"

    def held_out(self, records: list[Question]) -> list[Question]:
        if self.held_out_order == "file":
            return records
        by_hops = {}
        for x in records:
            by_hops.setdefault(len(x.support), []).append(x)
        turns = zip_longest(*(by_hops[hops] for hops in sorted(by_hops)))
        return [x for turn in turns for x in turn if x is not None]

    # --- the request and the parser ---------------------------------------------------------------

    def prompt(
        self, instance: Question, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        many = "" if m == 1 else f" Give {m} different answers, each with its own paragraphs."
        lines = [
            "Answer the question from these paragraphs. It takes several steps, and each step "
            "rests on one paragraph.",
            "",
            *(f"[{i}] (Title: {title}) {text}" for i, title, text in instance.paragraphs),
            "",
            f"Question: {instance.question}",
            "",
            *([] if weights is None else [self.weighed(weights), ""]),
            "First think about which paragraphs are needed. Then write the number of the paragraph "
            f"of each step, with commas between them, and the answer.{many} Use exactly this form:",
            self.asked_in_blocks(m, FORM),
        ]
        return Prompt.words("\n".join(lines))

    def read(self, instance, body: str) -> str | None:
        """The text of one answer; None where it answers nothing, whatever it cites."""
        return body.strip() if self.answer(body) else None

    def answer(self, text: str) -> str:
        """What stands in the first ``<answer>``."""
        return (between(text, "answer") or "").strip()

    def cited(self, text: str) -> tuple[int, ...]:
        """The first four different citations in the first ``<support>``."""
        body = between(text, "support") or ""
        tokens = body.split(",") if self.citations == "strict" else re.findall(r"\d+", body)
        numbers = [t for t in map(str.strip, tokens) if t.isdecimal() and len(t) <= MOST_DIGITS]
        return tuple(dict.fromkeys(map(int, numbers)))[:HOPS]

    def effect(self, instance, answer: str):
        return frozenset(self.cited(answer)), normalised(self.answer(answer), **self._words)

    # --- scoring ----------------------------------------------------------------------------------

    @property
    def _words(self) -> dict[str, bool]:
        """How the words of answers are normalised: keywords of :func:`normalised`."""
        return {"articles": False, "punctuation_first": self.answer_words == "musique"}

    def _counts(self, answer: str) -> bool:
        """Whether an answer has words to compare."""
        return bool(normalised(answer, **self._words))

    def w_star(self, instance) -> np.ndarray:
        return np.array([1, 1, 1, 1, 3]) / 7

    def vector(self, instance: Question, text: str) -> list[float]:
        answer, cited = self.answer(text), self.cited(text)
        if not answer:
            return [0.0] * (HOPS + 1)
        hops = [float(i in cited) for i in instance.support[:HOPS]]
        f1 = max(token_f1(answer, right, **self._words) for right in instance.answers)
        return [*hops, *[1.0] * (HOPS - len(hops)), f1]

    def valid(self, instance: Question, rewards: np.ndarray) -> np.ndarray:
        rewards = np.asarray(rewards)
        asked = [*range(min(HOPS, len(instance.support))), HOPS]
        return (rewards[..., asked] > 0).any(axis=-1)
