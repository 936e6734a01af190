"""HTML from texts, texts in lines, and the files of pages. The one place where a text is escaped
before it stands on a page.

A text may come from anywhere: a label, a setting, an error, the command of a recording. So a tag is
written in the template of :func:`html` or in a file of this package only, and what is put in is
escaped.
"""

import contextlib
import hashlib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape, unescape
from pathlib import Path

from .checks import shown
from .files import DamagedError, not_written, read_bytes, write_atomically
from .messages import shown_path

PACKAGE = Path(__file__).parent
WIDTH = 100  # columns of a printed text
LARGEST = 2**26  # bytes of a page that may be replaced


class Html(str):
    """A text that is HTML already: never escaped again. Only for what another library drew, and for
    constants and files of this package.
    """

    __slots__ = ()


def html(template: str, *parts) -> Html:
    """The template with these parts in place of its ``{}``, each escaped unless it is `Html`.

    >>> html("<b>{}</b>", "a < b")
    '<b>a &lt; b</b>'
    >>> html("<p>{}</p>", html("<b>{}</b>", 1))
    '<p><b>1</b></p>'
    """
    return Html(template.format(*map(_safe, parts)))


def plain(text: str) -> str:
    """The text of a label that may hold tags, without them and in one line.

    >>> plain("<b>a &lt; b</b><br>c")
    'a < b c'
    """
    words = unescape(re.sub(r"</?[a-zA-Z][^<>]*>", "", text.replace("<br>", " ")))
    return " ".join(words.split())


def in_lines(text: str, indent: int = 0) -> str:
    """The text in lines of at most 100 characters, to print it; all but the first are indented.

    >>> in_lines("front " + 20 * "point ", indent=6).splitlines()[1]
    '      point point point point point'
    """
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)


def count(n: int, noun: str) -> str:
    """A number with its noun, in the singular or the plural.

    >>> count(1, "problem"), count(1920, "answer")
    ('1 problem', '1,920 answers')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells as a table in Markdown; nothing is escaped.

    >>> print(markdown_table(["k", "best@k"], [["1", "0.50"], ["3", "0.75"]]))
    | k | best@k |
    |---|---|
    | 1 | 0.50 |
    | 3 | 0.75 |
    """
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([first, "|---" * len(heads) + "|", *others])


def joined(parts: Iterable, between: str = "") -> Html:
    """These parts one after the other, each escaped unless it is `Html`; so is ``between``.

    >>> joined(["<", html("<br>")], between=", ")
    '&lt;, <br>'
    """
    return Html(_safe(between).join(map(_safe, parts)))


def packaged(name: str) -> Html:
    """A file of this package as it is. It is ours: nothing in it is escaped."""
    return Html((PACKAGE / name).read_text(encoding="utf-8"))


def filled(name: str, **parts) -> Html:
    """The template in a file of this package with these parts in place of their ``{names}``, each
    escaped unless it is `Html`.
    """
    return Html(packaged(name).format_map({name: _safe(part) for name, part in parts.items()}))


def scripts(**files: str) -> Html:
    """Modules of this package as one script: each is a constant that the ones after it can use.

    files: the name of the constant and the module's file. A module imports nothing, and ends with
    its one ``export default``.
    """
    made = []
    for name, file in files.items():
        body = packaged(file).replace("export default ", "return ")
        made.append(f"const {name} = (() => {{\n{body}}})();\n")
    return Html("".join(made))


def data_block(value) -> Html:
    """A value as JSON that can stand in a script element: no text in it ends the element.

    >>> print(data_block({"a": "</script>"}))
    {"a":"\\u003c/script>"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c"))


def _safe(part) -> str:
    return part if isinstance(part, Html) else escape(str(part))


def page_path(path, what: str) -> Path:
    """The path of a page to be written: call it before long work.

    Raises ValueError for a folder, a name not in .html or .htm, a parent that is missing or
    read-only, and a file that `write_page` would not replace.
    """
    path = Path(path)
    if path.is_dir():
        inside = shown_path(path / "x.html")
        raise ValueError(f"{shown(str(path))} is a folder; name a file in it: {inside}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{shown(str(path))}: {what} is a page; name it FILE.html")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(
            f"{shown_path(path)}: cannot be written ({shown_path(folder)} is no folder, or one in "
            "which nothing may be written)"
        )
    _check_replaceable(path)
    return path


def write_page(path, page: str) -> Path:
    """Write a page, whole or not at all; a link stays a link. Returns its path.

    It replaces a page that was written here and not changed since. Raises ValueError for any other
    file, and where the page cannot be written.
    """
    _check_replaceable(path)
    try:
        page = page.encode(errors="backslashreplace").decode()  # of folders with odd names
        # Path.resolve fails where links go round
        write_atomically(os.path.realpath(path), f"{page.rstrip()}\n{_mark(page)}\n")
    except OSError as error:
        raise ValueError(not_written(path, error)) from error
    return Path(path)


def _mark(page: str) -> str:
    """The last line of a page: that we wrote it, and what it held. Its white space does not count:
    line ends depend on the system.
    """
    digest = hashlib.sha256("".join(page.split()).encode()).hexdigest()
    return f"<!-- written by vpo-lite: {digest[:16]} -->"


def _check_replaceable(path) -> None:
    place = os.path.realpath(path)
    if not os.path.lexists(place) or os.path.islink(place):  # a link that leads round holds nothing
        return
    with contextlib.suppress(DamagedError, UnicodeDecodeError):
        if os.path.isfile(place):  # the rest may block whoever opens it
            page, _, mark = read_bytes(place, most=LARGEST).decode().rstrip().rpartition("\n")
            if mark == _mark(page):
                return
    raise ValueError(
        f"{shown_path(path)}: exists, and vpo-lite did not write it, or it was changed since; name "
        "another file, or delete this one"
    )
