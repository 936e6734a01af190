"""Files and texts that come from outside: read by a schema, and written whole.

A run folder, a card, a recording or a share code may be cut, mistyped, made by somebody else, or of
another version. So each is read here, into a pydantic type that states every field with its type
and range. What does not fit is a :class:`DamagedError`. Nothing is corrected silently.
"""

import codecs
import contextlib
import functools
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from .checks import shortened, shown
from .locks import LOCK, lock_of
from .messages import did_you_mean, is_encodable, shown_path

STAGED = "staged"  # what write_files has not put in place yet
MOST_BYTES = 64 * 2**20  # of a JSON file; the largest that the kit writes has a tenth of it


class DamagedError(ValueError):
    """A file or a text from outside cannot be used. One line: where, which field, and why."""


class Schema(BaseModel):
    """A JSON object with exactly these fields. No value is converted; every number is finite.

    >>> class Point(Schema):
    ...     x: float
    >>> parse_json('{"x": 1}', Point, "a point").x
    1.0
    >>> parse_json('{"x": NaN}', Point, "a point")
    Traceback (most recent call last):
    ...
    vpo_lite.files.DamagedError: a point: field x should be a finite number, not nan
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


# --- reading --------------------------------------------------------------------------------------


def parse_json(text: str | bytes, schema: Any, what: str) -> Any:
    """The value of a JSON text, checked by a schema.

    - schema: a class derived from :class:`Schema`, or any type that pydantic knows
    - what: names the text in an error

    Raises DamagedError, also for a text of another encoding than UTF-8 and for deep nesting.
    """
    try:
        return _adapter(schema).validate_json(text, strict=True)
    except ValidationError as error:
        raise DamagedError(f"{what}: {_first_fault(error, schema)}") from error


def check(value: Any, schema: Any, what: str) -> Any:
    """A value that was read already, checked by a schema as in :func:`parse_json`."""
    try:
        return _adapter(schema).validate_python(value, strict=True)
    except ValidationError as error:
        raise DamagedError(f"{what}: {_first_fault(error, schema)}") from error


def read_json(path, schema: Any = dict[str, JsonValue]) -> Any:
    """The value of a JSON file. Raises DamagedError that names the path.

    Without a schema it is a dict of JSON values, not checked any further.
    """
    text = read_bytes(path)
    if text.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE)):  # as PowerShell's > writes
        text = text.decode(json.detect_encoding(text), "replace")
    return parse_json(text, schema, str(path))


def read_json_lines(path, schema: Any, *, whole: bool = False) -> list:
    """The values of a file with one JSON text a line; an empty list where there is no file.

    A last line without its line break is left out: its writer was killed. So are empty lines at the
    end. Raises DamagedError that names path and line.

    whole: the file was written at once, so its last line counts, too
    """
    if not os.path.lexists(path):
        return []
    *lines, last = read_bytes(path, most=16 * MOST_BYTES).split(b"\n")
    lines += [last] * whole
    while lines and not lines[-1].strip():
        lines.pop()
    return [parse_json(text, schema, f"{path}, line {i}") for i, text in enumerate(lines, 1)]


def read_bytes(path, *, most: int = MOST_BYTES) -> bytes:
    """The content of a file of at most ``most`` bytes. Raises DamagedError that names the path."""
    try:
        with open(path, "rb") as file:
            there = os.fstat(file.fileno()).st_size  # read(most) would take so much memory at once
            found = file.read(min(there, most) + 1)
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read ({error.strerror})") from error
    if len(found) > most:
        raise DamagedError(f"{path}: larger than {most:,} bytes; no file of this kit is")
    return found


def digest(path) -> str:
    """SHA-256 of a file's content, in hex. Raises DamagedError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read ({error.strerror})") from error


@functools.cache
def _adapter(schema) -> TypeAdapter:
    of_its_own = isinstance(schema, type) and issubclass(schema, BaseModel)
    return TypeAdapter(schema, config=None if of_its_own else Schema.model_config)


def _first_fault(error: ValidationError, schema: Any) -> str:
    """The first fault of a validation: field, what was expected, what was found."""
    fault, *others = error.errors(include_url=False)
    if fault["type"] == "json_invalid":
        said = fault["msg"].removeprefix("Invalid JSON: ")
        said = said.replace(" at line 1 column ", " at column ")  # it is one line of a file, often
        return f"no JSON ({said})"
    place = fault["loc"]
    kinds = [f["loc"][-1] for f in (fault, *others) if f["loc"][:-1] == place[:-1] and place]
    if kinds == ["bool", "int", "float", "str"]:  # each kind that a value may have was tried
        place = place[:-1]
        fault = fault | {"msg": "should be true, false, a finite number or a text"}
    field = ".".join(str(part) for part in place)
    where = f"field {shortened(field)} " if field else "it "
    if fault["type"] in _WORDS:
        said = where + _WORDS[fault["type"]]
        if fault["type"] == "missing":
            for other in others:  # a name that was mistyped, perhaps
                if other["type"] == "extra_forbidden" and other["loc"][:-1] == place[:-1]:
                    return f"{said}, and {shortened(str(other['loc'][-1]))} is unknown"
            if isinstance(fault["input"], dict) and fault["input"]:
                return f"{said}; there is {shortened(', '.join(map(str, fault['input'])))}"
        if fault["type"] == "extra_forbidden":
            known = _fields(schema, place[:-1])
            near = did_you_mean([str(place[-1])], known)
            said += near or f"; there is {shortened(', '.join(known), 200)}" * bool(known)
        return said
    why = fault["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{where}{why}, not {shown(fault['input'])}"


def _fields(schema: Any, place: tuple) -> list[str]:
    """The fields of the object at this place of what a schema describes."""
    while get_origin(schema) in (Annotated, Union, UnionType):
        schema = get_args(schema)[0]
    fields = getattr(schema, "model_fields", {})
    if not place:
        return list(fields)
    of_each = (None, *get_args(schema))[-1]  # of a list or a dict
    return _fields(fields[place[0]].annotation if place[0] in fields else of_each, place[1:])


_WORDS = {"missing": "is missing", "extra_forbidden": "is unknown", "too_short": "is empty"}


# --- writing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path) -> Iterator[Path]:
    """A context that yields a new empty file beside ``path``, and moves it there at the end.

    A reader never meets half a file. If the block raises, nothing is left and ``path`` is as it
    was. After a kill a file with the name of :func:`leftovers` may be left.
    """
    path = Path(path)
    staging = path.parent / f".{path.name}-{secrets.token_hex(4)}"
    try:
        staging.touch(exist_ok=False)
        yield staging
        sync(staging)
        os.replace(staging, path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise


def write_atomically(path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as staging:
        staging.write_text(text, encoding="utf-8")


def not_written(path, error: OSError) -> str:
    """What to say of a file or folder that cannot be written."""
    return f"{shown_path(path)}: cannot be written ({error.strerror or error})"


def check_path(folder) -> None:
    """Raise ValueError for a path that libraries such as tokenizers and pyarrow cannot write to."""
    if not is_encodable(os.path.realpath(folder)):  # they speak of a codec
        raise ValueError(f"{shown_path(folder)}: its path is not UTF-8; choose another folder")


def write_files(folder, contents: dict[str, bytes]) -> None:
    """Write files into a folder, by their paths in it; none if one cannot be written.

    They are put in place one by one: where that fails, those before it stay. A killed writer may
    leave :func:`leftovers` of STAGED; the next one removes them. Raises ValueError if one fails.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder, [STAGED])
        with tempfile.TemporaryDirectory(prefix=f".{STAGED}-", dir=folder) as staging:
            for name, content in contents.items():
                for place in (staging, folder):
                    Path(place, name).parent.mkdir(exist_ok=True)
                Path(staging, name).write_bytes(content)
            for name in contents:
                os.replace(Path(staging, name), folder / name)
    except OSError as error:
        raise ValueError(not_written(folder, error)) from error


@contextlib.contextmanager
def making(folder) -> Iterator[Path]:
    """A context that yields a new folder, and finally moves it to ``folder``, which must be missing
    or empty; a link stays a link. If the block raises, nothing is left. Leftovers of a killed try
    are removed. If two processes make one folder, the first to end wins.

    Raises ValueError where the folder cannot be written, before the block where that is known.
    """
    check_path(folder)
    place = Path(os.path.realpath(folder))
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in leftovers(place.parent, [place.name]):
            with contextlib.suppress(OSError):  # a file, somebody else's, or (Timeout) being made
                if set(os.listdir(left)) - {LOCK} == {place.name}:  # no other folder is like this
                    with lock_of(left):
                        pass
                    shutil.rmtree(left)
        beside = tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent)
        with beside as staging, lock_of(staging):
            made = Path(staging, place.name)
            made.mkdir()  # with the umask's permissions
            yield made
            if place.is_dir():
                place.rmdir()
            made.rename(place)
    except BaseException as error:
        with contextlib.suppress(OSError):  # not there, or not empty
            for parent in missing:
                parent.rmdir()
        if not isinstance(error, OSError):
            raise
        raise ValueError(not_written(folder, error)) from error


def write_json(path, value) -> None:
    """Write a JSON file, whole or not at all. Raises ValueError for NaN and infinity."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def sync(path) -> None:
    """Wait until a file's content is on the disk."""
    with open(path, "rb" if os.name == "posix" else "r+b") as file:
        os.fsync(file.fileno())


def leftovers(folder, names) -> list[Path]:
    """What killed writers of these files left beside them in the folder."""
    beginnings = tuple(f".{name}-" for name in names)
    return sorted(p for p in Path(folder).iterdir() if p.name.startswith(beginnings))


def is_free(folder, names) -> bool:
    """Whether work may begin in a folder: there is none, or it holds nothing but what a writer of
    these files left that was killed before the first one was in place.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return not os.path.lexists(folder)
    return not set(folder.iterdir()) - {folder / LOCK, *leftovers(folder, names)}


def tidy(folder, names) -> None:
    """Remove the :func:`leftovers` of these files. The folder must be locked."""
    for left in leftovers(folder, names):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
