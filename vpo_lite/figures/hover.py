"""Values and hover texts of a plotly figure in words, for `words`."""

import base64
import re

import numpy as np

from ..markup import plain


def unpacked(value):
    """Plotly's JSON with lists in place of the arrays that it packs: in copies and in files.

    >>> unpacked({"y": {"dtype": "i1", "bdata": "AQP/BA==", "shape": "2, 2"}, "name": "VPO"})
    {'y': [[1, 3], [-1, 4]], 'name': 'VPO'}
    """
    if isinstance(value, dict) and "bdata" in value:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        shape = re.findall(r"\d+", str(value.get("shape", flat.size)))
        return flat.reshape([int(size) for size in shape]).tolist()
    if isinstance(value, dict):
        return {key: unpacked(part) for key, part in value.items()}
    return [unpacked(part) for part in value] if isinstance(value, list | tuple) else value


def number(value) -> str:
    """A number with three digits, from 1,000 on without its fraction; a name without its tags.

    >>> number(2 / 3), number(999.6), number(12345.6), number("<b>a</b>")
    ('0.667', '1,000', '12,346', 'a')
    """
    if not np.issubdtype(type(value), np.number):
        return plain(str(value))
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e15 else f"{float(value):.3g}"


def missing(value) -> bool:
    """Whether a value is None or NaN."""
    return value is None or value != value


def entry(values, i):
    """Entry i, None where there is none; a single text holds for all."""
    if values is None or isinstance(values, str):
        return values
    return values[i] if i < len(values) else None


def filled(template, **values) -> str:
    """plotly's template of a hover text with these values.

    >>> filled("<b>%{x:.1f}</b> %{y:$,.2f}<extra>VPO</extra>", x=0.25, y=3)
    '0.2 3'
    """

    def value(match):
        name, _, how = match[1].partition(":")
        try:
            return f"{values[name]:{how}}" if name in values else ""
        except (TypeError, ValueError):  # plotly has formats that Python has not
            return number(values[name])

    return plain(re.sub(r"%\{([^}]+)\}", value, without_extra(template)))


def without_extra(template) -> str:
    """The template without what plotly draws beside its box."""
    return re.sub(r"<extra>.*?</extra>", "", template)
