"""Rows of a data set, read one by one from JSON lines, or from parquet where pyarrow is installed.

Nothing is ever unpickled.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from ..checks import shortened, shown
from ..files import DamagedError, Schema, check, parse_json

MOST_LINE = 64 * 2**20  # bytes
TABLES = (".csv", ".tsv")  # they do not tell a number from a text
SURROGATE = "it is half of a character, such as \\ud83d alone; remove it"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MAGIC = {  # how files in another format begin, with what to do about them
    b"\x1f\x8b": "is compressed with gzip; unpack the file with gunzip",
    b"PAR1": "is parquet; give the file a name that ends in .parquet",
}
PYARROW = 15  # earlier versions could be made to unpickle


class Row(Schema):
    """A row with at least these fields. Further ones are left out; nothing is converted."""

    model_config = Schema.model_config | {"extra": "ignore"}


def rows_of(path, schema) -> Iterator[tuple[int, Any]]:
    """The rows of a file in order, each with its place from 0: its line, or its row of parquet.

    Each is checked by a schema; a DamagedError stands for a bad one. Empty lines are no rows.

    Raises DamagedError for a file that cannot be read at all.
    """
    place = str(path).lower()
    if place.endswith(TABLES):
        raise DamagedError(
            f"{path}: a table of texts; write the rows as JSON lines or parquet, such as with "
            "pandas: read_csv(..., dtype=str, keep_default_na=False).to_json('rows.jsonl', "
            "orient='records', lines=True); all columns become texts: before .to_json convert "
            "those of numbers, such as with .astype({'limit': int})"
        )
    return (_parquet if place.endswith(".parquet") else _json_lines)(path, schema)


def _json_lines(path, schema) -> Iterator[tuple[int, Any]]:
    try:
        with open(path, "rb") as file:
            for line, text in enumerate(iter(lambda: file.readline(MOST_LINE + 1), b""), 1):
                where = f"{path}, line {line}"
                for magic, what in MAGIC.items():
                    if line == 1 and text.startswith(magic):
                        raise DamagedError(f"{path}: {what}")
                if len(text) > MOST_LINE:
                    raise DamagedError(
                        f"{where}: longer than {MOST_LINE:,} bytes; write one object on each line"
                    )
                text = text.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")  # joined files, too
                if not text.strip():
                    continue
                try:
                    if line == 1 and text.lstrip().startswith(b"["):
                        raise DamagedError(f"{where}: a JSON list")
                    row = parse_json(text, schema, where)
                    _check_names(text, where)
                except DamagedError as error:
                    row = _with_cure(error, text, where, line)
                yield line - 1, row
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read ({error.strerror})") from error


def _with_cure(error: DamagedError, text: bytes, where: str, line: int) -> DamagedError:
    """The error of a line, with what to do about a file in another format or encoding."""
    whole = (text.strip()[:1], text.strip()[-1:]) == (b"{", b"}")
    if not _is_utf8(text):
        return DamagedError(f"{where}: is no UTF-8 text; save the file as UTF-8")
    if "hex escape" in str(error) and _SURROGATE.search(text):
        return DamagedError(f"{where}: no JSON: a lone surrogate; {SURROGATE}")
    if (line == 1 and not whole) or "trailing characters" in str(error):
        return DamagedError(f"{error}; write one object on each line")
    return error


def _is_utf8(text: bytes) -> bool:
    """Whether bytes are JSON's encoding. UTF-16 without its mark shows by its zeros alone."""
    try:
        return "\0" not in text.decode()
    except UnicodeDecodeError:
        return False


def _check_names(text: bytes, where: str) -> None:
    """Raise DamagedError for an object that names a field twice: readers would keep the last."""

    def once(pairs: list) -> dict:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise DamagedError(f"{where}: field {shortened(twice)} is there twice; keep one")
        return fields

    json.loads(text, object_pairs_hook=once)


def _parquet(path, schema) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DamagedError(
            f"{path}: reading parquet needs pyarrow ({error}): pip install -U pyarrow numpy, or "
            "write the rows as JSON lines"
        ) from error
    if int(pyarrow.__version__.partition(".")[0]) < PYARROW:
        raise DamagedError(
            f"{path}: reading parquet needs pyarrow {PYARROW} or later, and there is "
            f"{pyarrow.__version__}: pip install -U pyarrow"
        )
    try:
        with parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(256) for row in batch.to_pylist())
            for number, row in enumerate(rows):
                try:
                    checked = check(row, schema, f"{path}, row {number + 1}")
                except DamagedError as error:
                    checked = error
                yield number, checked
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DamagedError(f"{path}: cannot be read as parquet ({shown(str(error))})") from error
