"""Plans of tool calls, generated: a small stand-in for ToolRL in which tools are a trade-off.

A request has two parts. Each part is served by three or four tools: a fast one, a cheap one, a
private one, and sometimes an all-rounder. An answer is a plan of two calls. In ToolRL's records one
right answer earns everything (arXiv 2605.22817 scores it so). Here no plan is fast, cheap and
private at once, so the front is real.

A plan takes one tool for each part, so there are 16 at most. All are scored: the front is exact.
"""

import re
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ..checks import shown
from ..exact import exact_set_reward
from ..objective import nondominated
from ..randomness import generator
from .base import Option, Prompt, Task
from .wording import numbered_form, weighed, weight_symbols

QUALITIES = ("speed", "price", "privacy")
KEYS = {  # intent -> the keys of its arguments: a digit, a letter, a flag
    "hotel": ("nights", "room", "breakfast"),
    "flight": ("bags", "row", "meal"),
    "taxi": ("seats", "zone", "pet"),
    "music": ("songs", "shelf", "loop"),
}
VALUES = tuple("0123456789"), tuple("abcdefghij"), ("yes", "no")
OWN, OTHER = (3, 4), (0, 1)  # quarters of a specialised tool: in its own quality, in the others
ALL_ROUNDER = "222"
PROFILES = (  # quarters of speed, price and privacy, as a tool's name tells them
    *(
        "".join(map(str, q))
        for k in range(3)
        for q in product(*[OTHER] * k, OWN, *[OTHER] * (2 - k))
    ),
    ALL_ROUNDER,
)
MOST_SINGLE = 0.85  # of a front may be covered by one plan, else the tools hardly conflict

_CALL = r"[a-z]+_[0-9]{3}(?: [a-z]+=[a-z0-9]+)*"
_PLAN = re.compile(rf"{_CALL}(?: ; {_CALL})?", re.ASCII)


class Part(NamedTuple):
    """One half of a request.

    - intent: what is wanted, such as ``hotel``
    - arguments: what a call must pass on, such as ``nights=4``
    - tools: names of the tools that serve it, such as ``hotel_410``: speed 4/4, price 1/4,
      privacy 0/4
    """

    intent: str
    arguments: tuple[str, ...]
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join((self.intent, *self.arguments, *self.tools))


class CallPlans(Task):
    """Plans of two calls for served, speed, price and privacy: d = 4, w* is their mean.

    A call serves a part if its tool is listed there and its arguments are those of the part, in any
    order. It then earns 1 for served, and the three qualities of its tool; otherwise it earns 0 in
    all four. A plan earns the mean over the two parts. So a part that is left out costs in every
    objective, and is no trade-off. Of two calls that serve the same part the first one counts.

    A request whose best single plan covers more than 0.85 of the front is drawn anew. A plan is
    valid if both parts are served. It is solved if its reward vector is a point of the true front.

    >>> task = CallPlans()
    >>> x = (
    ...     Part("hotel", ("nights=4",), ("hotel_410", "hotel_041", "hotel_004")),
    ...     Part("taxi", ("zone=b", "pet=no"), ("taxi_300", "taxi_030", "taxi_003", "taxi_222")),
    ... )
    >>> text = "<plan_1> hotel_410 nights=4; taxi_222 pet=no, zone=b </plan_1>"
    >>> task.parse(x, text, 2)
    ['hotel_410 nights=4 ; taxi_222 pet=no zone=b', None]
    >>> task.score([x], [["hotel_410 nights=4 ; taxi_222 pet=no zone=b", "hotel_410"]])[0].tolist()
    [[1.0, 0.75, 0.375, 0.25], [0.0, 0.0, 0.0, 0.0]]
    """

    name = "calls"
    noun = "request"
    about = "generated requests, whose tools are fast, cheap or private"
    tag = "plan"
    answer_symbols = 2 * (1 + len(VALUES)) + 1  # two calls and the semicolon
    pocket_policy = "pocket-calls"
    all_differ = True
    options = (
        Option("problem", int, None, "train on this one request; without it, on many", least=0),
    )
    singles_out = ("problem",)

    # --- problems ---------------------------------------------------------------------------------

    def instance(self, seed: int) -> tuple[Part, Part]:
        """The request with this seed, or the one that the option singles out."""
        rng = generator(seed if self.problem is None else self.problem, "call plans")
        intents = list(KEYS)
        while True:
            first, second = sorted(rng.permutation(len(KEYS))[:2])
            request = _drawn(intents[first], rng), _drawn(intents[second], rng)
            if best_single(request) <= MOST_SINGLE:
                return request

    def key(self, instance) -> str:
        return " ; ".join(part.text for part in instance)

    def summary(self, instance) -> str:
        """Both parts with their tools."""
        lines = ["Serve both parts, fast, cheaply and privately:"]
        for part in instance:
            lines += [f"{part.intent} with {', '.join(part.arguments)}", *_table(part)]
        return "\n".join(lines)

    def objectives(self, instance) -> tuple[str, ...]:
        return ("served", *QUALITIES)

    def front(self, instance) -> np.ndarray:
        return front_of(instance)

    # --- the request for m plans, and its parser --------------------------------------------------

    def prompt(self, instance, m: int, *, weights=None, pocket: dict | None = None) -> Prompt:
        """The request for m plans: symbols for a pocket policy, otherwise words."""
        if pocket is None:
            return Prompt.words(self._words(instance, m, weights))
        return Prompt(symbols=" ".join([f"<m{m}>", *weight_symbols(weights), self.key(instance)]))

    def _words(self, request, m, weights) -> str:
        asked = "one plan" if m == 1 else f"{m} different plans, each good for other wishes"
        lines = ["A plan makes two calls of tools, one for each part of this request.", ""]
        for i, part in enumerate(request, 1):
            lines += [
                f"Part {i}: {part.intent} with {' '.join(part.arguments)}",
                *(f"- {line}" for line in _table(part)),
                "",
            ]
        lines += [
            "Write a call as the name of a tool and then exactly the arguments of its part, such "
            f"as: {self.call(request[0], 0)}",
            "A call earns the qualities of its tool: 1 is fastest, cheapest, most private. A call "
            "with a wrong tool, or with a wrong, missing or additional argument, earns nothing. "
            "Perhaps no plan is best in everything.",
        ]
        if weights is not None:
            lines.append(weighed("objectives", self.objectives(request), weights))
        lines += [
            f"Write {asked}, with a semicolon between the two calls, in exactly this form:",
            numbered_form(m, self.tag),
        ]
        return "\n".join(lines)

    def read(self, instance, body: str) -> str | None:
        """The plan of one answer; None where it is malformed.

        It is one or two calls with a semicolon between them. A call is the name of a tool, there
        or not, and arguments as key=value, with blanks or commas between them.
        """
        plan = " ".join(body.replace(",", " ").replace(";", " ; ").split())
        plan = plan.lower() if plan.isascii() else ""
        return plan if _PLAN.fullmatch(plan) else None

    def call(self, part: Part, tool: int) -> str:
        """The call of a part's tool number ``tool`` that serves it."""
        return " ".join((part.tools[tool], *part.arguments))

    # --- scoring ----------------------------------------------------------------------------------

    def vector(self, instance, answer: str) -> np.ndarray:
        return earned(self.same_effect(instance, answer))

    def same_effect(self, instance, answer: str) -> tuple[str | None, ...]:
        """The tool that serves each part; None where no call does."""
        if not _PLAN.fullmatch(answer):
            raise ValueError(
                f"plan {shown(answer)}: expected one or two calls, such as "
                f"'{' ; '.join(self.call(part, 0) for part in instance)}'"
            )
        calls = [call.split() for call in answer.split(" ; ")]
        return tuple(_served(part, calls) for part in instance)

    def valid(self, instance, rewards: np.ndarray) -> np.ndarray:
        return np.asarray(rewards)[..., 0] >= 1

    def combine(self, instance, first: str, second: str) -> list[str]:
        """The two plans with their calls for one part exchanged; none where a part is unserved."""
        (a, b), (c, d) = (self.same_effect(instance, plan) for plan in (first, second))
        return [
            " ; ".join(
                self.call(part, part.tools.index(tool))
                for part, tool in zip(instance, tools, strict=True)
            )
            for tools in ((a, d), (c, b))
            if None not in tools
        ]


def _drawn(intent: str, rng) -> Part:
    """A part with 1 to 3 arguments; its tools come in random order."""
    kinds = sorted(rng.permutation(3)[: rng.integers(1, 4)])
    values = [f"{KEYS[intent][k]}={VALUES[k][rng.integers(len(VALUES[k]))]}" for k in kinds]
    profiles = [PROFILES[8 * kind + rng.integers(8)] for kind in range(3)]
    profiles += [ALL_ROUNDER] * int(rng.integers(2))
    tools = [f"{intent}_{profiles[i]}" for i in rng.permutation(len(profiles))]
    return Part(intent, tuple(values), tuple(tools))


def _table(part: Part) -> list[str]:
    """Each tool with its qualities, in words."""
    return [
        f"{tool}: "
        + ", ".join(f"{q} {x:.2f}" for q, x in zip(QUALITIES, qualities(tool), strict=True))
        for tool in part.tools
    ]


def _served(part: Part, calls: list[list[str]]) -> str | None:
    """The tool of the first call that serves the part; None where no call does."""
    for tool, *given in calls:
        if tool in part.tools and sorted(given) == sorted(part.arguments):
            return tool
    return None


def qualities(tool: str) -> np.ndarray:
    """Speed, price and privacy (3,) of a tool, which its name tells in quarters.

    >>> qualities("hotel_410").tolist()
    [1.0, 0.25, 0.0]
    """
    return np.array([int(quarter) for quarter in tool[-3:]]) / 4


def earned(tools) -> np.ndarray:
    """The reward vector (4,) of a plan: the mean over its parts, where None serves nothing.

    >>> earned(("hotel_410", None)).tolist()
    [0.5, 0.5, 0.125, 0.0]
    """
    return np.mean([np.zeros(4) if t is None else [1, *qualities(t)] for t in tools], axis=0)


# --- all plans at once ----------------------------------------------------------------------------


@lru_cache(maxsize=512)
def plans_of(request: tuple[Part, Part]) -> np.ndarray:
    """The reward vectors (n, 4) of all plans that serve both parts, n <= 16.

    Row i * (tools of the second part) + j takes tool i for the first part and j for the second.
    """
    first, second = (np.array([[1, *qualities(t)] for t in part.tools]) for part in request)
    rows = ((first[:, None] + second) / 2).reshape(-1, first.shape[1])
    rows.flags.writeable = False  # it is kept
    return rows


@lru_cache(maxsize=512)
def front_of(request: tuple[Part, Part]) -> np.ndarray:
    """The exact front (f, 4): the non-dominated ones among the vectors of all plans.

    >>> pure = Part("taxi", (), ("taxi_400", "taxi_040", "taxi_004"))
    >>> front_of((pure, pure))[:, 1:].tolist()  # doctest: +NORMALIZE_WHITESPACE
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5],
     [0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    """
    rows = plans_of(request)
    front = rows[nondominated(rows)]  # of plans that earn the same, one is kept
    front.flags.writeable = False
    return front


def best_single(request: tuple[Part, Part]) -> float:
    """The coverage of the best single plan at alpha = 1, exact.

    The best plan for weights w takes the best tool of each part. So the set reward of the front is
    the mean over the parts of E_w max_t w . (1, q_t), and there are few different parts to
    integrate. The best single plan takes the tools of the largest sum.

    >>> pure = Part("taxi", (), ("taxi_400", "taxi_040", "taxi_004"))
    >>> round(best_single((pure, pure)), 3)  # .5 of 17/24
    0.706
    """
    parts = [_best_and_all(tuple(sorted(tool[-3:] for tool in part.tools))) for part in request]
    best, whole = np.sum(parts, axis=0)
    return float(best / whole)


@lru_cache(maxsize=2048)
def _best_and_all(profiles: tuple[str, ...]) -> tuple[float, float]:
    rows = np.array([[1, *qualities(profile)] for profile in profiles])
    return float(rows.mean(axis=1).max()), float(exact_set_reward(rows))
