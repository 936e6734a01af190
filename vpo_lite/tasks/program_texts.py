"""Texts around programs: how a record keeps its tests, how a completion holds a set, and whether an
output is the one that is wanted. Nothing is run here, and nothing is unpickled.
"""

import base64
import binascii
import json
import keyword
import pickletools
import re
import zlib

from ..checks import shown
from ..files import DamagedError, parse_json
from .records import Dropped
from .rows import MOST_LINE, Row

# The operations of a pickle that holds one text and nothing else
_TEXT = {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
_AROUND = {"PROTO", "FRAME", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "STOP"}
KINDS = {"stdin", "functional"}
TESTS = (
    'write a list of {"input": text, "output": text, "testtype": "stdin" or "functional"} with '
    "json.dumps"
)
METADATA = 'for functional tests write json.dumps({"func_name": the name of the function})'
_FENCE = re.compile(r"```(?P<kind>[^\n`]*)\n(?P<code>.*?)(?:```|\Z)", re.DOTALL)
_PYTHON = re.compile(r"```[ \t]*py[^\n`]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*---[ \t\r]*$", re.MULTILINE)


class Test(Row):
    """One test of a record. testtype: one of :data:`KINDS`."""

    __test__ = False  # for pytest
    input: str
    output: str
    testtype: str


# --- tests ----------------------------------------------------------------------------------------


def tests_of(text: str) -> list[Test]:
    """The tests in a record's ``private_test_cases``: JSON text, or base64 of zlib of it, plain or
    as the only value of a pickle.

    Raises DamagedError for what LiveCodeBench never holds, and Dropped for no test, too many bytes,
    and a pickle that is not read.
    """
    if text.lstrip().startswith("{"):
        raise DamagedError(f"private_test_cases: a JSON object; {TESTS}")
    if not text.lstrip().startswith("["):
        text = _unpacked(text)
    try:
        tests = parse_json(text, list[Test], "private_test_cases")
    except DamagedError as error:
        raise DamagedError(f"{error}; {TESTS}") from error
    for test in tests:
        if test.testtype not in KINDS:
            raise DamagedError(f"private_test_cases: testtype {shown(test.testtype)}; {TESTS}")
    if not tests:
        raise Dropped("it has no private tests")
    return tests


def _unpacked(text: str) -> bytes | str:
    """The JSON text in base64 of zlib, or of zlib of a pickle that holds nothing but a text."""
    try:
        inflate = zlib.decompressobj()
        found = inflate.decompress(base64.b64decode(text, validate=True), MOST_LINE)
    except (ValueError, binascii.Error, zlib.error):
        raise DamagedError(
            f"private_test_cases: neither JSON nor base64 of zlib, {shown(text)}; {TESTS}"
        ) from None
    if inflate.unconsumed_tail:
        raise Dropped(f"its private tests have more than {MOST_LINE:,} bytes")
    if not inflate.eof:
        raise DamagedError(f"private_test_cases: cut off, or empty; {TESTS}")
    return found if found.lstrip().startswith(b"[") else _text_in_pickle(found)


def _text_in_pickle(data: bytes) -> str:
    """The text that a pickle holds, by its operations: none of them is done.

    Raises Dropped for a pickle with any other operation: it could run code where it is unpickled.

    >>> _text_in_pickle(b"\\x80\\x04\\x8c\\x02[]\\x94.")
    '[]'
    """
    try:
        found = [(operation.name, value) for operation, value, _ in pickletools.genops(data)]
    except Exception:  # damaged in any way
        found = []
    if not found:
        raise DamagedError(f"private_test_cases: neither JSON nor a readable pickle; {TESTS}")
    texts = [value for name, value in found if name in _TEXT]
    if len(texts) != 1 or not {name for name, _ in found} <= _TEXT | _AROUND:
        raise Dropped("its private tests are a pickle that holds more than a text: it is not read")
    return texts[0]


def function_of(metadata: str | None) -> str:
    """The function's name in a record's ``metadata``, a JSON text. DamagedError without one."""
    try:
        name = parse_json(metadata or "{}", dict, "metadata").get("func_name")
    except DamagedError as error:
        raise DamagedError(f"{error}; {METADATA}") from error
    if not (isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)):
        raise DamagedError(f"metadata: names no function, {shown(metadata)}; {METADATA}")
    return name


def arguments_of(text: str) -> list[str]:
    """The arguments of a call, each a JSON text on its line."""
    return [line for line in text.split("\n") if line.strip()]


def is_json(text: str) -> bool:
    """Whether Python reads a text as JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def passes(output: bytes | None, wanted: str, *, call: bool) -> bool:
    """Whether an answer's output is the wanted one. The answer ran elsewhere; here it is only read.

    - output: what it wrote, or as JSON what its function returned; None where it failed
    - call: whether it is a function

    >>> passes(b"1 \\n2\\n\\n", "1\\n2", call=False), passes(b"[1, 2.0]", "[1,2]", call=True)
    (True, True)
    """
    if output is None:
        return False
    if not call:
        return _lines(output.decode(errors="replace")) == _lines(wanted)
    try:
        return bool(json.loads(output) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


def _lines(text: str) -> list[str]:
    """The lines of an output, without blanks at their ends and without empty ones at the end.

    >>> _lines("1  2 \\n\\n 3\\t\\n \\n\\n")
    ['1  2', '', ' 3']
    """
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n").split("\n")


# --- sets -----------------------------------------------------------------------------------------


def in_training(text: str) -> list[str]:
    """The programs in a completion, as the paper's release reads them in training.

    >>> in_training("```\\na\\n```\\n---\\nb\\n ---\\n```py\\nc")
    ['a\\n', 'b', 'c']
    """
    fences = _PYTHON.findall(text)
    if len(fences) > 1:
        return fences
    parts = [part for part in _LINE.split(text) if part.strip()]
    return [_code_in(part) for part in parts]


def _code_in(part: str) -> str:
    """The first python fence, else the first fence of any kind, closed or not; else the text."""
    fences = list(_FENCE.finditer(part))
    python = [f for f in fences if f["kind"].strip().lower().startswith("py")]
    return next((f["code"] for f in (*python, *fences)), part.strip())


def in_evaluation(text: str) -> list[str]:
    """The programs in a completion, as the paper's release reads them in evaluation.

    >>> in_evaluation("a --- b"), in_evaluation("a --- ```python\\nb\\n```")
    (['a', 'b'], ['b\\n'])
    """
    return _PYTHON.findall(text) or [part.strip() for part in text.split("---") if part.strip()]
