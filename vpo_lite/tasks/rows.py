"""Rows of a data set, read one by one from JSON lines, or from parquet where pyarrow is installed.

Nothing is ever unpickled.
"""

from collections.abc import Iterator
from typing import Any

from ..checks import shown
from ..files import DamagedError, Schema, check, parse_json

MOST_LINE = 64 * 2**20  # bytes
TABLES = (".csv", ".tsv")  # they do not tell a number from a text
PYARROW = 15  # earlier versions could be made to unpickle


class Row(Schema):
    """A row with at least these fields. Further ones are left out; nothing is converted."""

    model_config = Schema.model_config | {"extra": "ignore"}


def rows_of(path, schema) -> Iterator[Any]:
    """The rows of a file in order, each checked by a schema; a DamagedError stands for a bad one.

    Raises DamagedError for a file that cannot be read at all.
    """
    place = str(path).lower()
    if place.endswith(TABLES):
        raise DamagedError(
            f"{path}: a table of texts; write the rows as JSON lines or parquet, such as with "
            f"pandas: read_csv(...).to_json('rows.jsonl', orient='records', lines=True)"
        )
    return (_parquet if place.endswith(".parquet") else _json_lines)(path, schema)


def _json_lines(path, schema) -> Iterator[Any]:
    try:
        with open(path, "rb") as file:
            for line, text in enumerate(iter(lambda: file.readline(MOST_LINE + 1), b""), 1):
                where = f"{path}, line {line}"
                if len(text) > MOST_LINE:
                    raise DamagedError(f"{where}: longer than {MOST_LINE:,} bytes")
                try:
                    text = text.removeprefix(b"\xef\xbb\xbf") if line == 1 else text
                    if not text.strip():
                        raise DamagedError(f"{where}: is empty; remove it")
                    if line == 1 and text.lstrip().startswith(b"["):
                        raise DamagedError(f"{where}: a JSON list")
                    yield parse_json(text, schema, where)
                except DamagedError as error:
                    if line == 1 and (text.strip()[:1], text.strip()[-1:]) != (b"{", b"}"):
                        error = DamagedError(f"{error}; write one object on each line")
                    yield error
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read ({error.strerror})") from error


def _parquet(path, schema) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DamagedError(
            f"{path}: reading parquet needs pyarrow (pip install pyarrow), or write the rows as "
            "JSON lines"
        ) from error
    if int(pyarrow.__version__.partition(".")[0]) < PYARROW:
        raise DamagedError(f"{path}: reading parquet needs pyarrow {PYARROW} or later")
    try:
        with parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(256) for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                try:
                    yield check(row, schema, f"{path}, row {number}")
                except DamagedError as error:
                    yield error
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DamagedError(f"{path}: cannot be read as parquet ({shown(str(error))})") from error
