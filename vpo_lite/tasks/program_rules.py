"""Small programs from examples: a stand-in for code with test cases, without running any code.

An input is four digits, a program one to three operations on them, and a prompt shows n tests
(``3072>2703``). d = n differs from prompt to prompt, as with the test cases of LiveCodeBench in
arXiv 2605.22817: one objective for each test, 0 or 1.

In mode ``conflict`` the tests come from two or three hidden branches, told apart by the first digit
of the input. Each branch has a program of its own, and the answers know no conditional. Tests that
one program covers to more than 0.85 are drawn anew. So no program passes all, and the front is
real. In mode ``single`` one program does. There are only 1,110 programs. All of them are run, so
the front is exact.
"""

from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ..checks import shown
from ..exact import best_single
from ..objective import nondominated
from ..randomness import generator
from .base import Option, Prompt, Task
from .program_search import conditionals_of, mutated, run_conditional
from .wording import numbered_form, weighed, weight_symbols

PLACES = 4  # digits of an input
LONGEST = 3  # operations in a program
SIZES = {1: (5, 6, 7, 8), 2: (4, 6, 8), 3: (5, 6, 7, 8)}  # tests of a problem, by its rules
MOST_SINGLE = 0.85  # of a front may be covered by one answer, else the tests hardly conflict

OPERATIONS = {  # name -> what it does to digits (..., 4)
    "reverse": lambda x: x[..., ::-1],
    "left": lambda x: x[..., [1, 2, 3, 0]],
    "right": lambda x: x[..., [3, 0, 1, 2]],
    "swap_first": lambda x: x[..., [1, 0, 2, 3]],
    "swap_last": lambda x: x[..., [0, 1, 3, 2]],
    "sort": lambda x: np.sort(x, axis=-1),
    "plus": lambda x: (x + 1) % 10,
    "minus": lambda x: (x + 9) % 10,
    "double": lambda x: x * 2 % 10,
    "max": lambda x: np.maximum(x, x[..., ::-1]),
}
_EXPLAINED = {
    "reverse": "writes the digits backwards: 3072 becomes 2703",
    "left": "moves the first digit to the end: 3072 becomes 0723",
    "right": "moves the last digit to the front: 3072 becomes 2307",
    "swap_first": "swaps the first two digits: 3072 becomes 0372",
    "swap_last": "swaps the last two digits: 3072 becomes 3027",
    "sort": "puts the digits in rising order: 3072 becomes 0237",
    "plus": "adds 1 to each digit, 9 becomes 0: 3072 becomes 4183",
    "minus": "takes 1 from each digit, 0 becomes 9: 3072 becomes 2961",
    "double": "doubles each digit and keeps its last digit: 3072 becomes 6044",
    "max": "takes at each place the larger digit of the number and of its reverse: 3072 becomes "
    "3773",
}
PROGRAMS = tuple(  # all of them, shorter ones first
    " ".join(names)
    for length in range(1, LONGEST + 1)
    for names in product(OPERATIONS, repeat=length)
)
_NUMBER = {program: i for i, program in enumerate(PROGRAMS)}


class Examples(NamedTuple):
    """One problem: n inputs and the outputs that are wanted, as texts of four digits.

    - rules: the hidden programs, one for each branch
    - branch: for each test, which rule it comes from
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rules: tuple[str, ...] = ()
    branch: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The tests alone, such as ``3072>2703 1145>5411``."""
        return " ".join(f"{a}>{b}" for a, b in zip(self.inputs, self.outputs, strict=True))


_OPTIONS = (
    Option("operations", int, 1, "most operations in a hidden rule, 1 to 3", least=1, most=LONGEST),
    Option("problem", int, None, "train on this one set of tests; without it, on many", least=0),
)


class SingleRule(Task):
    """Programs of one to three operations, for as many of n tests as they pass: d = n, 5 to 8.

    One hidden rule explains all tests, so the front is one point.

    An answer is valid if it passes a test. It is solved if its reward vector is a point of the true
    front. Programs with equal outputs on these tests have the same effect.

    - rules: how many hidden rules the tests come from

    >>> task = SingleRule()
    >>> tests = Examples(("3072", "9154", "1145"), ("2703", "0265", "5411"))
    >>> task.prompt(tests, 2, pocket={}).symbols
    '<m2> a32 b07 c70 d23 a90 b12 c56 d45 a15 b14 c41 d51'
    >>> text = "<program_1> reverse </program_1> <program_2> minus, double </program_2>"
    >>> task.parse(tests, text, 3)
    ['reverse', 'minus double', None]
    >>> task.score([tests], [["reverse", "plus", "plus double"]])[0].tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    >>> task.score([tests], [["?4 plus : reverse"]])[0].tolist()  # made by a search
    [[1.0, 1.0, 1.0]]
    """

    name = "programs"
    noun = "set of tests"
    about = "one rule passes all tests"
    tag = "program"
    answer_tokens = 16
    answer_symbols = LONGEST
    pocket_policy = "pocket-programs"
    all_differ = True
    options = _OPTIONS
    singles_out = ("problem",)
    rules = 1

    # --- problems ---------------------------------------------------------------------------------

    def instance(self, seed: int) -> Examples:
        """The tests with this seed, or those that the option singles out. Their number cycles with
        the seed: 5, 6, 7, 8, 5, ...; with two rules 4, 6, 8, 4, ...
        """
        seed = seed if self.problem is None else self.problem
        rng = generator(seed, "programs", self.rules, self.operations)
        sizes = SIZES[self.rules]
        n = sizes[seed % len(sizes)]
        while True:
            tests = self._drawn(n, rng)
            if self.rules == 1 or best_single(_front(tests)) <= MOST_SINGLE:
                return tests

    def _drawn(self, n: int, rng) -> Examples:
        known = sum(len(OPERATIONS) ** k for k in range(1, self.operations + 1))
        rules = rng.choice(known, self.rules, replace=False)
        digits = np.sort(rng.choice(np.arange(1, 10), self.rules - 1, replace=False))
        edges = np.array([0, *digits, 10])  # the first digit of an input tells its branch
        branch = rng.permutation(np.arange(n) % self.rules)
        branch = rng.permutation(self.rules)[branch]  # any of them may have one test more
        first = rng.integers(edges[branch], edges[branch + 1])
        inputs = np.column_stack([first, rng.integers(0, 10, (n, PLACES - 1))])
        named = texts_of(inputs)
        return Examples(
            named,
            texts_of(_results(named)[rules[branch], np.arange(n)]),
            tuple(PROGRAMS[rule] for rule in rules),
            tuple(branch.tolist()),
        )

    def key(self, instance) -> str:
        return instance.text

    def summary(self, instance) -> str:
        """The tests, numbered."""
        tests = enumerate(instance.text.split(), start=1)
        lines = [f"test {i}: {test.replace('>', ' > ')}" for i, test in tests]
        return "\n".join(["Pass many of these tests:", *lines])

    def objectives(self, instance) -> tuple[str, ...]:
        return tuple(f"test {i}" for i in range(1, len(instance.inputs) + 1))

    def front(self, instance) -> np.ndarray:
        return _front(instance)

    # --- the request for m programs, and its parser -----------------------------------------------

    def prompt(self, instance, m: int, *, weights=None, pocket: dict | None = None) -> Prompt:
        """The request for m programs: symbols for a pocket policy, otherwise words.

        A symbol is a place with its digits: ``a32`` says that the first digit 3 becomes 2.
        """
        if pocket is None:
            return Prompt.words(self._words(instance, m, weights))
        symbols, weighs = [f"<m{m}>"], weight_symbols(weights)
        for i, (a, b) in enumerate(zip(instance.inputs, instance.outputs, strict=True)):
            symbols += [*weighs[i : i + 1], *map("".join, zip("abcd", a, b, strict=True))]
        return Prompt(symbols=" ".join(symbols))

    def _words(self, tests, m, weights) -> str:
        asked = "one program" if m == 1 else f"{m} different programs, each good for other tests"
        lines = [
            "A program turns four digits into four digits. It is a list of one to "
            f"{LONGEST} operations, which are done from left to right:",
            "",
            *(f"{name} {what}" for name, what in _EXPLAINED.items()),
            "",
            "These are the tests. Left of > is the input, right of it the output that is wanted:",
            "",
            *(f"test {i}: {pair}" for i, pair in enumerate(tests.text.split(), 1)),
            "",
            "It is good to pass many of these tests. Perhaps no program passes them all.",
        ]
        if weights is not None:
            lines.append(weighed("tests", self.objectives(tests), weights))
        lines += [
            f"Write {asked}, as operations with blanks between them, in exactly this form:",
            numbered_form(m, self.tag),
        ]
        return "\n".join(lines)

    def read(self, instance, body: str) -> str | None:
        """The program of one answer; None where it is malformed.

        It is one to three names of operations, with blanks or commas between them.
        """
        program = " ".join(body.replace(",", " ").split())
        program = program.lower() if program.isascii() else ""
        return program if program in _NUMBER else None

    # --- scoring ----------------------------------------------------------------------------------

    def vector(self, instance, answer: str) -> np.ndarray:
        return _run(instance, passes_of(instance), answer)

    def same_effect(self, instance, answer: str) -> bytes:
        return _run(instance, _results(instance.inputs), answer).tobytes()

    # --- search: with conditionals (program_search.py), some answers pass all tests ---------------

    def combine(self, instance, first: str, second: str) -> list[str]:
        return conditionals_of(first, second)

    def mutate(self, instance, answer: str | None, rng) -> str:
        return mutated(answer, tuple(OPERATIONS), rng)

    def target(self, instance, weights: np.ndarray) -> float:
        """The score of an answer that passes all tests: a conditional can. Unknown for weights
        below 0.
        """
        return np.inf if np.min(weights) < 0 else float(np.sum(weights))


class HiddenRules(SingleRule):
    """The same for tests of two or three hidden rules: d = 4 to 8, and a front of several points.

    Each rule explains a part of the tests, of equal size or one test more. A problem whose best
    single program covers more than 0.85 of the front is drawn anew.

    >>> task = HiddenRules(branches=2)
    >>> tests = task.instance(1000)
    >>> tests.branch, task.front(tests).astype(int).tolist()
    ((0, 1, 1, 0, 0, 1), [[0, 1, 1, 0, 0, 1], [1, 0, 0, 1, 1, 0]])
    """

    about = "several hidden rules, which no program fits"
    options = (
        Option("branches", int, None, "hidden rules, 2 or 3; default: 3", least=2, most=3),
        *_OPTIONS,
    )

    @property
    def rules(self) -> int:
        return self.branches or 3


def _run(tests: Examples, rows: np.ndarray, answer: str) -> np.ndarray:
    """The rows (n, ...) of an answer, from those of all programs: (1110, n, ...)."""
    digits = np.array([int(text[0]) for text in tests.inputs])
    return run_conditional(answer, digits, lambda program: rows[_number(program)])


def _number(program: str) -> int:
    if program not in _NUMBER:
        raise ValueError(
            f"program {shown(program)}: expected one to {LONGEST} of {', '.join(OPERATIONS)}, with "
            "blanks between them"
        )
    return _NUMBER[program]


# --- all programs at once -------------------------------------------------------------------------


def outputs_of(inputs: np.ndarray) -> np.ndarray:
    """What each of the 1,110 programs makes of n inputs: (n, 4) digits -> (1110, n, 4), in the
    order of ``PROGRAMS``.

    >>> found = outputs_of(np.array([[3, 0, 7, 2]]))
    >>> found.shape, found[PROGRAMS.index("reverse plus"), 0].tolist()
    ((1110, 1, 4), [3, 8, 1, 4])
    """
    found, longer = [], np.asarray(inputs, dtype=np.int8)[None]
    for _ in range(LONGEST):
        longer = np.stack([operate(longer) for operate in OPERATIONS.values()], axis=1)
        longer = longer.reshape(-1, *longer.shape[2:])  # the operation added last changes fastest
        found.append(longer)
    return np.concatenate(found)


@lru_cache(maxsize=128)
def _results(inputs: tuple[str, ...]) -> np.ndarray:
    found = outputs_of(np.array([list(map(int, text)) for text in inputs]))
    found.flags.writeable = False  # it is kept
    return found


@lru_cache(maxsize=512)
def passes_of(tests: Examples) -> np.ndarray:
    """Which tests each program passes: booleans (1110, n), in the order of ``PROGRAMS``."""
    wanted = np.array([list(map(int, text)) for text in tests.outputs])
    passes = (_results(tests.inputs) == wanted).all(axis=-1)
    passes.flags.writeable = False  # it is kept
    return passes


def _front(tests: Examples) -> np.ndarray:
    """The exact front (f, n): the non-dominated ones among what all programs pass.

    >>> _front(Examples(("3072", "9154"), ("2703", "0265"))).tolist()  # reverse, and plus
    [[0.0, 1.0], [1.0, 0.0]]
    """
    passes = passes_of(tests)
    bits = 1 << np.arange(passes.shape[1])[::-1]  # as numbers, equal rows are found faster
    kinds = np.unique(passes @ bits)
    rows = ((kinds[:, None] & bits) > 0).astype(float)
    return rows[nondominated(rows)]


def texts_of(digits: np.ndarray) -> tuple[str, ...]:
    """Rows of digits (n, 4) as texts."""
    return tuple("".join(map(str, row)) for row in digits.tolist())
