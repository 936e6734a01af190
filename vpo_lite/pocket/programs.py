"""The recipe for programs: the words of a pocket policy, and programs for many sets of tests.

A place with its two digits is one word: ``a32`` says that the first digit is 3 in the input and 2
in the output. So the model need not learn to count places before it can compare input and output,
and a prompt is half as long.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..options import setting
from ..randomness import generator
from ..tasks.base import Prompt, Task
from ..tasks.program_rules import OPERATIONS, HiddenRules
from ..tasks.programs import ProgramsTask
from .recipe import FIRST_SEED, POCKET_ANSWERS, WEIGHTS, Recipe, some_weights

# Shares of the batches with 1, 2 and 3 hidden rules: at first, and later
_FIRST, _LATER = (0.4, 0.2, 0.4), (0.1, 0.3, 0.6)


def demonstrate(rules, m: int, rule_share: float, distinct_share: float, rng) -> list[str]:
    """m programs that are undecided between the hidden rules, and about them.

    An answer is a rule (``rule_share``) or a random program, of one operation (70 %) or of two. The
    rules of a set come in random order, one after the other (``distinct_share``), or each is drawn
    anew.
    """
    order, names = rng.permutation(len(rules)), list(OPERATIONS)
    in_turn, used, programs = rng.random() < distinct_share, 0, []
    for _ in range(m):
        if rng.random() < rule_share:
            which = order[used % len(rules)] if in_turn else rng.integers(len(rules))
            programs.append(rules[which])
            used += 1
        else:
            length = 1 if rng.random() < 0.7 else 2
            programs.append(" ".join(names[k] for k in rng.integers(len(names), size=length)))
    return programs


@dataclass(frozen=True)
class ProgramsRecipe(Recipe):
    """What makes a pocket policy for programs.

    It knows how to find a hidden rule in the tests and is undecided which of them to write, whether
    to write it again, and whether to write one at all.

    >>> words = ProgramsRecipe().vocabulary()
    >>> len(words), words[:4], words[-1]
    (439, ['<pad>', '<bos>', '<eos>', '<m1>'], '</program_5>')
    >>> ProgramsRecipe(rule_share=2)
    Traceback (most recent call last):
    ...
    ValueError: rule_share = 2: must be a finite number, 0 or more, at most 1
    """

    task: ClassVar[str] = ProgramsTask.name
    tag: ClassVar[str] = HiddenRules.tag
    problems: ClassVar[str] = "sets of tests"
    longest: ClassVar[int] = 128
    columns: ClassVar[dict[str, str]] = {
        "parse": "parse",
        "valid": "pass a test",
        "front": "on the front",
        "distinct": "rollouts with m different programs",
        "coverage": "coverage of a rollout",
    }

    rule_share: float = setting(
        0.65,
        "fraction of the answers that are a hidden rule; the others are random",
        least=0,
        most=1,
    )
    distinct_share: float = setting(
        0.5, "fraction of the sets that take the rules in turn", least=0, most=1
    )
    first_updates: int = setting(
        400, "updates at the beginning that show rules only", least=0, most=10**9
    )
    updates: int = setting(700, "updates of the model", least=1, most=10**9)
    lr_updates: int | None = setting(
        1_000, "updates after which the learning rate would be 0", least=1, most=10**9
    )

    def words(self) -> list[str]:
        places = [f"{place}{digits:02}" for place in "abcd" for digits in range(100)]
        return [*WEIGHTS, *places, *OPERATIONS]

    @cached_property
    def _tasks(self) -> dict[int, ProgramsTask]:
        return {
            1: ProgramsTask(mode="single"),
            2: ProgramsTask(branches=2),
            3: ProgramsTask(branches=3),
        }

    def demonstration(self, i: int) -> tuple[Prompt, str]:
        """Number i. All of a batch have the same m and the same number of tests."""
        batch = i // self.batch
        first = batch < self.first_updates
        rules = generator(self.seed, "rules", batch).choice(3, p=_FIRST if first else _LATER) + 1
        rng = generator(self.seed, "demonstration", 0, str(i))
        task = self._tasks[int(rules)]
        tests = task.instance(FIRST_SEED + 12 * i + batch % 12)  # 12: batches go round all sizes
        m = 1 + batch % POCKET_ANSWERS
        weights = some_weights(len(tests.inputs), rng)
        prompt = task.prompt(tests, m, weights=weights, pocket=self.pocket())
        if first:
            return prompt, task.write(tests, demonstrate(tests.rules, m, 1, 1, rng))
        shares = self.rule_share, self.distinct_share
        return prompt, task.write(tests, demonstrate(tests.rules, m, *shares, rng))

    def measured(self) -> dict[str, Task]:
        return {
            "three rules": self._tasks[3],
            "two rules": self._tasks[2],
            "one rule": self._tasks[1],
        }

    def story(self) -> tuple[str, str]:
        return (
            f"""that reads 4 to 8 tests of the
task programs and writes m = 1 to {POCKET_ANSWERS} programs for them. It stands in for a pretrained
language model: it knows the format and how to find a rule that explains a part of the tests, and is
undecided which one to write and whether to repeat it, so that reinforcement learning has something
to teach. It is good for nothing else.""",
            f"""on
drawn tests (seeds from {FIRST_SEED:,}) with three hidden rules (60 % of the batches), two (30 %) or
one (10 %), each of one operation. Seed {self.seed}. An answer is a hidden rule with probability
{self.rule_share}, else a random program of one operation (70 %) or two. In a share of
{self.distinct_share} of the sets the rules come in turn, in random order. The first
{self.first_updates} updates show rules only, more often a single one.""",
        )
