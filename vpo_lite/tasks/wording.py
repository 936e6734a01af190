"""How requests and answers are worded: numbered tags, and the weights that a prompt shows."""

import re
from collections.abc import Iterable, Sequence

from ..checks import check_whole

_OF_FORM = re.compile(r"\A (.+) \Z", re.DOTALL)  # an answer between the blanks of the form


def numbered_form(m: int, tag: str) -> str:
    """How m answers are to be written. Raises ValueError for m < 1.

    >>> numbered_form(2, "route")
    '<route_1> ... </route_1> <route_2> ... </route_2>'
    """
    check_whole(m, "m")
    return write_numbered(["..."] * m, tag)


def write_numbered(bodies: Iterable[str], tag: str) -> str:
    """Answers between their numbered tags, as a pocket policy writes them.

    >>> write_numbered(["R", "L D"], "route")
    '<route_1> R </route_1> <route_2> L D </route_2>'
    """
    return " ".join(f"<{tag}_{i}> {body} </{tag}_{i}>" for i, body in enumerate(bodies, 1))


def read_numbered(text: str, m: int, tag: str) -> list[str | None]:
    """The texts in the first complete ``<tag_i> ... </tag_i>``, i = 1..m; None where there is none.

    A text keeps its blanks and line ends: ``strip()`` it before you compare it. It may hold other
    tags, but not the opening of another answer. Tags above m are not read, and neither is what a
    model thinks before it answers (:func:`without_thoughts`). Raises ValueError for m < 1.

    >>> read_numbered("<a_2> R <b>x</b> </a_2> <a_1> never closed", 2, "a")
    [None, ' R <b>x</b> ']
    """
    check_whole(m, "m")
    found: dict[int, str] = {}
    number = "[1-9][0-9]{0,2}" if m > 9 else "[1-9]"  # a text from elsewhere may hold over nine
    for match in re.finditer(_whole(tag, number), without_thoughts(text, tag), re.DOTALL):
        found.setdefault(int(match[1]), match[2])
    return [found.get(i) for i in range(1, m + 1)]


def read_with_blanks(text: str, m: int, tag: str) -> list[str | None]:
    """The m answers in a completion as they stand; None where one is missing or blank.

    A single answer (m = 1) is the whole completion. Of several, each stands between its tags: one
    blank after the opening and one before the closing belong to the form, where both are there.

    >>> read_with_blanks("<a_1> 4 </a_1> <a_2>    return 4</a_2> <a_3>  </a_3>", 3, "a")
    ['4', '    return 4', None]
    """
    bodies = [text]
    if m > 1:
        bodies = [_OF_FORM.sub(r"\1", body or "") for body in read_numbered(text, m, tag)]
    return [body if body.strip() else None for body in bodies]


def between(text: str, tag: str) -> str | None:
    """What stands between the first opening of a tag and the closing after it; None without both.

    >>> between("<a>1</a><a>2</a>", "a"), between("</a><a>", "a")
    ('1', None)
    """
    _, _, rest = text.partition(f"<{tag}>")
    body, closed, _ = rest.partition(f"</{tag}>")
    return body if closed else None


# How models mark what they think: most, Seed-OSS, Magistral, GPT-OSS. The last one's closing mark
# closes other things, too.
THOUGHTS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
)
CLOSINGS = [closing for _, closing in THOUGHTS[:-1]]
_THOUGHTS = "|".join(
    [rf"{re.escape(opening)}.*?(?:{re.escape(closing)}|\Z)" for opening, closing in THOUGHTS]
    + [re.escape(closing) for closing in CLOSINGS]
)


def without_thoughts(text: str, tag: str) -> str:
    """A completion without what stands in ``<think> ... </think>`` outside of its answers, or
    between other marks of :data:`THOUGHTS`.

    An answer ``<tag_i> ... </tag_i>`` keeps the thoughts in it. Where ``<think>`` is never closed,
    nothing after it is left. Where ``</think>`` was never opened, since the prompt did that,
    nothing before it is left.

    >>> without_thoughts("<think> <a_1> ... </a_1> </think><a_1> 4 </a_1>", "a")
    '<a_1> 4 </a_1>'
    >>> without_thoughts("I write <a_1> ... </a_1> </think><a_1> <think> so </think> 4 </a_1>", "a")
    '<a_1> <think> so </think> 4 </a_1>'
    """
    if not any(mark in text for pair in THOUGHTS for mark in pair):
        return text
    said, start = "", 0
    parts = rf"{_whole(tag, '[1-9][0-9]{0,2}')}|{_THOUGHTS}"
    for part in re.finditer(parts, text, re.DOTALL):
        if not part[1]:  # no answer
            said = "" if part[0] in CLOSINGS else said + text[start : part.start()]
            start = part.end()
    return said + text[start:]


def ends_in_thought(tokenizer, ids) -> bool:
    """Whether these token ids of a prompt end in ``<think>``, so that the policy goes on in it."""
    return tokenizer.decode(ids[-16:]).rstrip().endswith("<think>")


def begun_in_thought(text: str) -> str:
    """A completion whose prompt ends in ``<think>``: all of it is a thought unless that is closed.

    >>> begun_in_thought("The first is <a_1> 4 </a_1>, then"), begun_in_thought("so </think> 4")
    ('<think>The first is <a_1> 4 </a_1>, then', 'so </think> 4')
    """
    return text if "</think>" in text else f"<think>{text}"


def _whole(tag: str, number: str) -> str:
    """The pattern of an answer between its tags; its groups are the number and the text."""
    tag = re.escape(tag)
    return rf"<{tag}_({number})>((?:(?!<{tag}_{number}>).)*?)</{tag}_\1>"


def weighed(what: str, names: Iterable[str], weights) -> str:
    """The sentence with the weights (d,) that a prompt shows.

    >>> weighed("goals", ("gold", "lava"), [0.25, 0.75])
    'This time the goals weigh: gold 0.25, lava 0.75.'
    """
    named = (f"{name} {float(w):.2f}" for name, w in zip(names, weights, strict=True))
    return f"This time the {what} weigh: {', '.join(named)}."


def weight_symbols(weights) -> list[str]:
    """The weights (d,) that a prompt shows a pocket policy, in tenths; none where it shows none.

    >>> weight_symbols([0.25, 0.75]), weight_symbols(None)
    (['<w2>', '<w8>'], [])
    """
    return [] if weights is None else [f"<w{round(10 * float(w))}>" for w in weights]


def known_answers(names: Sequence[str], answers: Iterable[tuple[str, Sequence[float]]]) -> str:
    """Answers as they are written, with their rewards (d,), for a prompt that asks for better ones.

    >>> print(known_answers(("gold", "lava"), [("<a_1> R </a_1>", [0.5, 1])]))
    These answers are known, with what they earn. Write others that earn more.
    <BLANKLINE>
    <a_1> R </a_1>
    gold 0.50, lava 1.00
    """
    blocks = ["These answers are known, with what they earn. Write others that earn more."]
    for text, rewards in answers:
        earned = (f"{name} {float(r):.2f}" for name, r in zip(names, rewards, strict=True))
        blocks.append(f"{text}\n{', '.join(earned)}")
    return "\n\n".join(blocks)
