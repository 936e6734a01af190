"""HTML from texts. The one place where a text is escaped before it stands on a page.

A text may come from anywhere: a label, a setting, an error, the command of a recording. So a tag is
written in the template of :func:`html` only, and what is put in is escaped.
"""

from collections.abc import Iterable
from html import escape


class Html(str):
    """A text that is HTML already: never escaped again. Only for what another library drew."""

    __slots__ = ()


def html(template: str, *parts) -> Html:
    """The template with these parts in place of its ``{}``, each escaped unless it is `Html`.

    >>> html("<b>{}</b>", "a < b")
    '<b>a &lt; b</b>'
    >>> html("<p>{}</p>", html("<b>{}</b>", 1))
    '<p><b>1</b></p>'
    """
    return Html(template.format(*map(_safe, parts)))


def joined(parts: Iterable, between: str = "") -> Html:
    """These parts one after the other, each escaped unless it is `Html`; so is ``between``.

    >>> joined(["<", html("<br>")], between=", ")
    '&lt;, <br>'
    """
    return Html(_safe(between).join(map(_safe, parts)))


def _safe(part) -> str:
    return part if isinstance(part, Html) else escape(str(part))
