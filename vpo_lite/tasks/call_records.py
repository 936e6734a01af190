"""Tool calls on ToolRL's records (Qian et al. 2025, arXiv 2504.13958).

A record is a dialogue and the calls that answer it, or a reply where no tool helps. An answer holds
``<think>`` and then ``<tool_call>`` with one JSON object for each call, or ``<response>``. It is
scored as in the release of the VPO paper (arXiv 2605.22817): by its form, and by the names, keys
and values of its calls.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .base import Option, Prompt
from .matching import multiset_f1, normalised, token_f1
from .records import RECORD_OPTIONS, Dropped, RecordTask
from .rows import Row
from .wording import between

DEEPEST = 100  # lists and objects in each other; deeper JSON is broken JSON here
_DECODER, _BETWEEN = json.JSONDecoder(), re.compile(r"[ \t\r\n,]*")
CURE = 'write each call as {"name": text, "parameters": object}, one a line'
NO_THOUGHT = "<think>\n\n</think>\n\n"


class _Turn(Row):
    role: str
    content: str


class _Gold(Row):
    ground_truth: str


class CallsRow(Row):
    """The fields of ToolRL's rows that are read."""

    prompt: list[_Turn]
    reward_model: _Gold


@dataclass(frozen=True)
class Call:
    """One call of a tool: its name, and its arguments by key."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """A dialogue (role, content) in turns, and the text that answers it with its calls."""

    turns: tuple[tuple[str, str], ...]
    answer: str
    calls: tuple[Call, ...]


class CallRecords(RecordTask):
    """Tool calls for format, tool_name, arg_key and arg_value: d = 4, w* is their mean.

    - format: 1 with ``<think>`` and, if the record has calls, a call that can be read; if it has
      none, with nothing in ``<tool_call>``
    - tool_name: F1 of the multisets of names
    - arg_key: mean over pairs of calls of the F1 of the keys
    - arg_value: mean over pairs of calls of the share of the record's values that match

    Each of the record's calls is paired in turn with the best call that is left: 100 for the name
    and 1 for each common key, and the earliest of equals. A call without a partner counts 0. On a
    record without calls an answer without calls has 1 in all three, and any call makes all four 0.
    One answer earns all four, and they mostly rise together. So this task is near a negative
    control: in the paper VPO's best@30 is .952, GRPO's .925, and Max@k's .954.

    >>> task = CallRecords()
    >>> x = task.instance(0)
    >>> task.calls(task.gold(x))
    (Call(name='find_ferry', arguments={'from': 'Oban', 'day': 3}),)
    >>> call = '{"name": "find_ferry", "parameters": {"day": 3}}'
    >>> answer = f"<think> One key is enough. </think> <tool_call> {call} </tool_call>"
    >>> task.score([x], [[answer]])[0].round(3).tolist()
    [[1.0, 1.0, 0.667, 0.5]]
    """

    name = "calls"
    noun = "request"
    row = CallsRow
    completion_tokens = (1024, 2048)
    meanings = (
        ("format", "thoughts in <think>, calls in <tool_call> where tools are needed"),
        ("tool_name", "the right tools are called"),
        ("arg_key", "the calls have the right arguments"),
        ("arg_value", "the arguments have the right values"),
    )
    options = (
        *RECORD_OPTIONS,
        Option(
            "single_answer",
            str,
            "block",
            "how a single answer (m = 1) is scored: block (default): like one of a set; training: "
            "as the paper's release trains, where a blank one counts; evaluation: as the release "
            "evaluates, after an empty think block",
            choices=("block", "training", "evaluation"),
        ),
    )

    # --- records ----------------------------------------------------------------------------------

    def record(self, row: CallsRow) -> Dialogue:
        turns = tuple((turn.role, turn.content) for turn in row.prompt)
        text = row.reward_model.ground_truth
        if not turns or turns[-1][0] != "user":
            raise Dropped("its last turn is not the user's")
        calls = gold_calls(text)
        if not calls and not _between_tags(text, "response").strip():
            raise Dropped("it has neither calls in <tool_call> nor a reply in <response>")
        return Dialogue(turns, text, calls)

    def gold(self, instance: Dialogue) -> str:
        return f"<think> </think>\n{instance.answer}"

    def kind(self, instance: Dialogue) -> str:
        count = len(instance.calls)
        return "reply only" if not count else "1 call" if count == 1 else f"{count} calls"

    # --- the request and the parser ---------------------------------------------------------------

    def prompt(
        self, instance: Dialogue, m: int, *, weights=None, pocket: dict | None = None
    ) -> Prompt:
        """The record's own dialogue. The request for m answers follows the user's last words."""
        *before, (role, asked) = instance.turns
        parts = [asked]
        if m > 1:
            parts.append(
                f"Instead of one answer write {m} different ones: other tools, other values or "
                "another line of thought, not the same in other words. Each has the form that was "
                "asked for above, with its own <think>, and stands in a numbered block:\n"
                + self.asked_in_blocks(m, "...")
            )
        if weights is not None:
            parts.append(self.weighed(weights))
        turns = (*before, (role, "\n\n".join(parts)))
        return Prompt(messages=tuple({"role": role, "content": text} for role, text in turns))

    def parse(self, instance, text: str, m: int) -> list[str | None]:
        if m > 1:
            return super().parse(instance, text, m)
        if self.single_answer == "training":
            return [text]
        if self.single_answer == "evaluation":
            return [NO_THOUGHT + text if text.strip() else None]
        return [self.read(instance, text)]  # its thoughts are a part of it

    def calls(self, answer: str) -> tuple[Call, ...]:
        """The calls of an answer, in order."""
        return read_calls(_between_tags(answer, "tool_call"))

    def effect(self, instance, answer: str):
        calls = [[call.name, call.arguments] for call in self.calls(answer)]
        reply = "" if calls else normalised(_between_tags(answer, "response"))
        thinks = between(answer, "think") is not None
        body = bool(_between_tags(answer, "tool_call").strip())  # also one that holds no call
        return thinks, body, json.dumps(calls, sort_keys=True), reply

    # --- scoring ----------------------------------------------------------------------------------

    def vector(self, instance: Dialogue, answer: str) -> tuple[float, ...]:
        body = _between_tags(answer, "tool_call").strip()
        calls = read_calls(body)
        formed = bool(calls) if instance.calls else not body
        thinks = between(answer, "think") is not None
        return float(thinks and formed), *compared(calls, instance.calls)


def read_calls(text: str) -> tuple[Call, ...]:
    """The calls in a text: a JSON array, or JSON objects with blanks or commas between them.

    A list that is broken anywhere holds no call. A sequence of objects holds those before its first
    broken one. Arguments stand under ``parameters``, else under ``arguments``; what is no object
    there counts as none. Never raises.

    >>> read_calls('{"name": "a"}, {"name": "b", "arguments": {"x": 1}} {"name": ')
    (Call(name='a', arguments={}), Call(name='b', arguments={'x': 1}))
    """
    items, left = _items(text)
    return _calls([] if left and text.lstrip().startswith("[") else items)


def _calls(items: list) -> tuple[Call, ...]:
    found = []
    for item in items:
        if isinstance(item, dict):
            given = item.get("parameters", item.get("arguments"))
            found.append(Call(str(item.get("name", "")), given if isinstance(given, dict) else {}))
    return tuple(found)


def gold_calls(text: str) -> tuple[Call, ...]:
    """The calls of a record's own answer. What is forgiven in a model's answer would make a truth
    of half a call here. So Dropped is raised where something is left over, a name is missing, or
    arguments are no object.

    >>> gold_calls('<tool_call>{"name": "a"}; {"name": "b"}</tool_call>')
    Traceback (most recent call last):
    ...
    vpo_lite.tasks.record_files.Dropped: its <tool_call> holds what is no call; write each call as \
{"name": text, "parameters": object}, one a line
    """
    _, opened, rest = text.partition("<tool_call>")
    body, closed, after = rest.partition("</tool_call>")
    items, left = _items(body)
    given = (x.get("parameters", x.get("arguments", {} if len(x) == 1 else None)) for x in items)
    if opened and not closed:
        wrong = "is not closed"
    elif "<tool_call>" in after:
        wrong = "is there twice"
    elif left or not all(isinstance(x, dict) for x in items):
        wrong = "holds what is no call"
    elif not all(isinstance(x.get("name"), str) and x["name"].strip() for x in items):
        wrong = "holds a call without a name"
    elif not all(isinstance(arguments, dict) for arguments in given):
        wrong = "holds a call without an object of parameters"
    else:
        return _calls(items)
    raise Dropped(f"its <tool_call> {wrong}; {CURE}")


def _items(text: str) -> tuple[list, str]:
    """What a text lists as calls, and what is left over of it."""
    text = text.strip()
    if text.startswith("["):
        listed, end = _json(text)
        return (listed or [], text[end:].strip())
    items, place = [], _BETWEEN.match(text).end()
    while text.startswith("{", place):
        found, end = _json(text, place)
        if found is None:
            break
        items.append(found)
        place = _BETWEEN.match(text, end).end()
    return items, text[place:]


def compared(given: Sequence[Call], gold: Sequence[Call]) -> tuple[float, float, float]:
    """tool_name, arg_key and arg_value of calls, as :class:`CallRecords` states them."""
    if not given and not gold:
        return 1.0, 1.0, 1.0
    names = multiset_f1([normalised(c.name) for c in given], [normalised(c.name) for c in gold])
    pairs, count = list(_paired(given, gold)), max(len(given), len(gold))
    keys = sum(multiset_f1(list(p.arguments), list(g.arguments)) for p, g in pairs if p)
    values = sum(_values_match(p.arguments, g.arguments) for p, g in pairs if p)
    return names, keys / count, values / count


def value_match(given, gold) -> float:
    """How well a value matches the record's, 0 to 1; the record's type decides.

    - a boolean on either side: equal truth values
    - numbers: equal; a text that reads as a number: equal to 1e-9
    - lists: F1 of the normalised items; what is no list is taken for a list of one
    - objects: F1 of the keys
    - texts: F1 of the words, articles included
    - anything else: equal when normalised

    >>> value_match("3.0", 3), value_match(True, "no"), value_match("the Oban pier", "Oban")
    (1.0, 1.0, 0.5)
    """
    if isinstance(given, bool) or isinstance(gold, bool):
        return float(bool(given) == bool(gold))
    if isinstance(gold, int | float):
        return float(_equal_numbers(given, gold))
    if isinstance(gold, list):
        listed = given if isinstance(given, list) else [given]
        return multiset_f1([normalised(v) for v in listed], [normalised(v) for v in gold])
    if isinstance(gold, dict):
        return multiset_f1(list(given), list(gold)) if isinstance(given, dict) else 0.0
    if isinstance(gold, str) and isinstance(given, str):
        return token_f1(given, gold)
    return float(normalised(given) == normalised(gold))


def _equal_numbers(given, gold: float) -> bool:
    if isinstance(given, int | float):
        return given == gold
    try:
        return abs(float(str(given)) - float(gold)) < 1e-9
    except (ValueError, OverflowError):  # no number; a number too large for a float
        return normalised(given) == normalised(gold)


def _values_match(given: dict, gold: dict) -> float:
    if not gold:
        return 1.0
    return sum(value_match(given[key], gold[key]) for key in gold if key in given) / len(gold)


def _paired(given: Sequence[Call], gold: Sequence[Call]) -> Iterator[tuple[Call | None, Call]]:
    """Each call of the record with the best one that is left, or with None."""
    left = list(given)
    for wanted in gold:
        if not left:
            yield None, wanted
            continue
        scores = [_fit(call, wanted) for call in left]
        yield left.pop(scores.index(max(scores))), wanted  # the earliest of equals


def _fit(given: Call, gold: Call) -> int:
    name = normalised(gold.name)
    named = bool(name) and normalised(given.name) == name
    return 100 * named + len(given.arguments.keys() & gold.arguments.keys())


def _json(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value that begins there, None for a broken or too deep one; and its end."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # a number of more digits than Python reads is the former
        return None, start
    layer = [value]
    for _ in range(DEEPEST):
        inner = [v for v in layer if isinstance(v, list | dict)]
        layer = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
    return (None if layer else value), end


def _between_tags(text: str, tag: str) -> str:
    return between(text, tag) or ""
