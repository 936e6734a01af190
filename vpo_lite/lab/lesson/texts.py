"""What a lesson says: its title, what to try, what its words mean, and what was recorded.

It claims nothing of how a run ends: that is for the reader to see.
"""

import inspect
import math

from ...estimators import METHODS
from ...figures.looks import look
from ...training.method_settings import reads
from ..curves import changes
from ..drawings import rules
from ..faces import face_of
from ..words import where
from .content import Lesson, Shown

_RUN = (
    (
        "Policy",
        "The language model in training. In each step it writes many rollouts. Then those with a "
        "higher score than the others become more likely.",
    ),
    ("Rollout", "One text that the policy writes. It holds one answer or several."),
    (
        "Set",
        "What a run is judged by: the answers of one rollout, or as many single answers. Each "
        "board shows a typical set of its step, the one of median set reward.",
    ),
)
_JUDGED = (
    (
        "α",
        "How the weights are drawn. A small α puts most weight on one objective. A large α weights "
        "all objectives about equally. With α = 1 every w is equally likely.",
    ),
    (
        "Set reward",
        "For each w only the best answer of the set counts. The set reward is the mean over all w.",
    ),
    ("Win share", "How often an answer is the best of its set, over all w."),
    ("Diversity", "The mean distance (L1) between the reward vectors of two valid answers."),
)
WITH_FRONT = (
    (
        "True front",
        "The reward vectors that no other answer beats: none is at least as good in all objectives "
        "and better in one.",
    ),
    (
        "Coverage",
        "The set reward divided by that of the true front. At 1 no weights miss anything. A curve "
        "shows the mean over the sets of a step.",
    ),
    (
        "Best 1, best 2, ...",
        "What the best one, two, ... answers of the true front cover together. A policy that "
        "always writes the same answer cannot pass best 1.",
    ),
)


def title(lesson: Lesson) -> str:
    """The methods, and the problem."""
    *first, last = dict.fromkeys(look(one.run.method).text for one in lesson.shown)
    return f"{', '.join(first)}{' and ' * bool(first)}{last} on {where(lesson.view)}"


def tasks(lesson: Lesson) -> tuple[str, ...]:
    """Three things to do."""
    if lesson.known:
        first = "Which runs pass the dotted line of best 1, and at which step?"
    else:
        first = "Which run has the highest set reward at the end?"
    best = " Which answers does the best set hold now?" if lesson.known else ""
    return (
        f"Press Play and watch the boards. {first} Do the answers of a run become alike? Diversity "
        "shows it.",
        f"Stop at the last step. Predict first: does {lesson.judged} rise or fall if α becomes "
        f"small? Move α to the left end, then to the right end.{best}",
        "Choose another run at Who wins. How many of its answers win for some weights? What would "
        "you have to add to its set?",
    )


def words(lesson: Lesson) -> tuple[tuple[str, str], ...]:
    """The words of the page, each with what it means."""
    first = face_of(lesson.view).axis_names[0]
    weights = (
        f"How much each objective counts. A preference: somebody wants {first} most of all, "
        "somebody else weights everything equally."
    )
    own = rules(lesson.view)
    return own + _RUN + (("Weights w", weights),) + _JUDGED + WITH_FRONT * lesson.known


def settings(one: Shown) -> str:
    """The score of a run's method, its settings, and what made it."""
    config, record, name = one.run.config, one.run.records[0], one.run.method
    said = inspect.getdoc(METHODS[name].estimate) or "a method without a description"
    trained_on = said.splitlines()[0].rstrip(".").replace("`", "")
    used = [f"m = {record.m}", f"G = {len(record.groups[0].rewards)}", f"P = {len(record.groups)}"]
    if METHODS[name].weights == "many":
        used.append("K = ∞" if record.K == math.inf else f"K = {record.K}")
    if METHODS[name].weights != "none":
        used.append(f"α = {record.alpha:g}")
    if reads(name, "k"):
        used.append(f"k = {config.k}")
    parts = [
        f"{one.label} is a run of the method {name}. The score of {name}: {trained_on}",
        ", ".join([*used, f"seed {config.seed}", f"{len(one.run.records)} steps"]),
        *(f"From step {change.step} on: {change.said}" for change in changes(one.run)),
        f"Recording: {one.source}",
    ]
    if one.command:
        parts.append(f"Made by: {one.command}")
    return ". ".join(parts) + "."
