"""Python programs on LiveCodeBench's records (Jain et al. 2024, arXiv 2403.07974).

A record is a problem and its tests. An answer is a program that reads standard input, or a function
to call. It is scored as in the release of the VPO paper (arXiv 2605.22817): each hidden test is an
objective. Answers run in a sandbox only: see :mod:`vpo_lite.tasks.sandbox`.

The data set keeps most hidden tests as a pickle of one text, and a pickle may run code when it is
unpickled. So it is never unpickled: the text is found among the pickle's operations, and a record
whose pickle has any other operation is dropped.
"""

import ast
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import field_validator

from .base import Option, Prompt
from .program_texts import (
    arguments_of,
    function_of,
    in_evaluation,
    in_training,
    is_json,
    passes,
    tests_of,
)
from .records import RECORD_OPTIONS, Dropped, RecordTask
from .rows import Row
from .sandbox import Job, Limits, required, run
from .wording import weighed, without_thoughts

MOST_TESTS = 16
MOST_TEST = 8192  # characters of a test's input and output
MOST_CODE = 2**16  # characters of an answer
KEPT = 4096  # vectors of answers that ran; a repeat is not run again


class ProgramsRow(Row):
    """The fields of LiveCodeBench's rows that are read."""

    question_title: str | None = None
    question_content: str
    starter_code: str | None = None
    private_test_cases: str
    metadata: str | None = None

    @field_validator("private_test_cases", "metadata", mode="before")
    @classmethod
    def _is_text(cls, value):
        if isinstance(value, list | dict):
            raise ValueError("should be a JSON text: write it with json.dumps")
        return value


@dataclass(frozen=True)
class Problem:
    """A problem and its hidden tests.

    - call: the function that is called; None: a program from standard input to output
    - tests: (input, output), the shortest first
    """

    title: str
    statement: str
    starter: str
    call: str | None
    tests: tuple[tuple[str, str], ...]


class ProgramRecords(RecordTask):
    """Programs for as many tests as they pass: d is the number of tests, 1 to 16; w* is their mean.

    The tests are the record's private ones, without those of more than 8,192 characters: the 16
    shortest, in order of length. A test is 1 if it is passed and 0 otherwise, also where the answer
    fails, or is too slow.

    - A function gets its arguments from JSON, one a line. What it returns must equal the expected
      value, both as JSON, where 1, 1.0 and true are equal, as in Python. It is a method of
      ``Solution`` where there is such a class.
    - What a program writes must equal the expected output, without blanks at the ends of lines and
      without empty lines at the end. With which status it ends does not matter, unless it fails.

    Answers may use Python's own library. Common names such as ``List`` and ``deque`` need no
    import. Repeats are answers with the same syntax tree.

    >>> task = ProgramRecords()
    >>> x = task.instance(0)
    >>> x.call, x.tests[0]
    ('rotate', ('[]\\n2', '[]'))
    >>> task.parse(x, "A loop:\\n```python\\nprint(1)\\n```\\n---\\n```\\nprint(2)\\n```", 3)
    ['print(1)', 'print(2)', None]
    """

    name = "programs"
    noun = "problem"
    about = "Python on records from a file, asked and scored as in the paper"
    row = ProgramsRow
    completion_tokens = (2048, 3072)
    options = (
        *RECORD_OPTIONS[:-1],
        replace(
            RECORD_OPTIONS[-1],  # repeats
            help="a repeat within a rollout: the same syntax tree (default, as in the paper's "
            "release), or the same reward vector; training gives it the worst vector",
        ),
        Option(
            "fences",
            str,
            "training",
            "how a completion is cut into programs: training (default, as the paper's release "
            "trains): two or more python fences, or else the parts between lines ---, with or "
            "without a fence; evaluation (as the release evaluates): the first m python fences, or "
            "else the parts between ---, even inside a line",
            choices=("training", "evaluation"),
        ),
        Option(
            "harness",
            str,
            "release",
            "how a program runs: release (default, as in the paper's release): standard input has "
            "no .buffer, and lines at top level that only call exit are left out; python: as usual",
            choices=("release", "python"),
        ),
        Option("seconds", float, 6.0, "seconds that one test may take", above=0, most=600),
        Option(
            "memory",
            int,
            1024,
            "MiB of memory for each process of an answer, 64 or more; the paper's release: 8192",
            least=64,
            most=2**20,
        ),
    )

    def __init__(self, **options):
        super().__init__(**options)
        self._known: OrderedDict[tuple[Problem, str], tuple[float, ...]] = OrderedDict()

    # --- records ----------------------------------------------------------------------------------

    def record(self, row: ProgramsRow) -> Problem:
        if not row.question_content.strip():
            raise Dropped("it has no statement")
        tests = tests_of(row.private_test_cases)
        kinds = {test.testtype for test in tests}
        if len(kinds) != 1:
            raise Dropped("its tests are neither all 'stdin' nor all 'functional'")
        call = function_of(row.metadata) if kinds == {"functional"} else None
        short = [x for x in tests if len(x.input) + len(x.output) <= MOST_TEST]
        short = sorted(short, key=lambda x: len(x.input) + len(x.output))[:MOST_TESTS]
        if not short:
            raise Dropped(f"it has no test of at most {MOST_TEST:,} characters")
        for test in short if call else ():
            if not all(map(is_json, [test.output, *arguments_of(test.input)])):
                raise Dropped("an argument or a result of a test is no JSON")
        return Problem(
            (row.question_title or "").strip(),
            row.question_content.strip(),
            (row.starter_code or "").strip(),
            call,
            tuple((test.input, test.output) for test in short),
        )

    def kind(self, instance: Problem) -> str:
        return "stdin" if instance.call is None else "functional"

    def objectives(self, instance: Problem) -> tuple[str, ...]:
        return tuple(f"test {i}" for i in range(1, len(instance.tests) + 1))

    def check_machine(self) -> None:
        required()

    # --- the request and the parser ---------------------------------------------------------------

    def prompt(
        self, instance: Problem, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        if instance.call is None:
            how = ["Read the input from standard input, and print the output."]
        else:
            how = [f"The function is called as {instance.call}."]
            how += ["", instance.starter] if instance.starter else []
        shown = []
        if weights is not None:
            shown = ["", weighed("hidden tests", self.objectives(instance), weights)]
        many = (
            "Write the program in a python fence:"
            if m == 1
            else f"Write {m} programs with different approaches, each whole and in a python fence "
            "of its own, with a line --- between them:"
        )
        lines = [
            "Solve this problem in Python. Hidden tests decide, and it is good to pass many.",
            "",
            *([instance.title, ""] if instance.title else []),
            instance.statement,
            "",
            *how,
            *shown,
            "",
            many,
            self.asked_in_blocks(m, "..."),
        ]
        return Prompt.words("\n".join(lines))

    def asked_in_blocks(self, m: int, inner: str) -> str:
        return self.write(None, [inner] * m)

    def write(self, instance, answers, pocket: dict | None = None) -> str:
        return "\n---\n".join(f"```python\n{code}\n```" for code in answers)

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        """The first m programs in a completion; None where there are fewer, and where one is empty
        or too long.
        """
        split = in_training if self.fences == "training" else in_evaluation
        parts = split(without_thoughts(text, self.tag))
        found = [self.read(instance, part) for part in parts]
        return [*found, *[None] * m][:m]

    def read(self, instance, body: str) -> str | None:
        """The program of one answer; None where it is empty or has over 65,536 characters."""
        code = body.strip("\r\n").rstrip()
        return code if 0 < len(code) <= MOST_CODE else None

    def effect(self, instance, answer: str) -> str:
        """Its syntax tree; of what is no Python, its words in lower case."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd literals
                return ast.dump(ast.parse(answer))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return " ".join(answer.lower().split())

    # --- scoring ----------------------------------------------------------------------------------

    def front(self, instance: Problem) -> np.ndarray:
        return np.ones((1, len(instance.tests)))  # a right program passes all tests

    def score(self, instances: Sequence[Problem], answers) -> list[np.ndarray]:
        """Rewards of all answers. All their tests run at once, on the cores that there are.

        Raises RefusedError (a ValueError) where this machine offers no sandbox.
        """
        asked = [(x, code) for x, row in zip(instances, answers, strict=True) for code in row]
        # another thread may remove a vector from those that are known while new ones are made
        found = {pair: v for pair in asked if (v := self._known.get(pair)) is not None}
        new = [pair for pair in dict.fromkeys(asked) if pair not in found]
        jobs = [Job(code, given, x.call, self.harness) for x, code in new for given, _ in x.tests]
        limits = Limits(self.seconds, self.memory * 2**20)
        outcomes = iter(run(jobs, limits) if jobs else ())
        for x, code in new:
            passed = [
                float(passes(next(outcomes).output, wanted, call=x.call is not None))
                for _, wanted in x.tests
            ]
            found[x, code] = self._known[x, code] = tuple(passed)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return [
            np.array([found[x, code] for code in row], float).reshape(-1, len(x.tests))
            for x, row in zip(instances, answers, strict=True)
        ]
