"""What is seen, in words and numbers: the sentence beside the pictures, and the status line."""

import math

import numpy as np

from .. import metrics
from ..figures.looks import look
from ..markup import Html, html, in_lines, joined
from ..tasks.maze import MazeTask
from ..training import watch
from .view import SeenRun, View

STATES = {  # state of the lab -> as the status line says it
    "idle": "ready",
    "running": "training",
    "pausing": "stopping",
    "recorded": "a recording",
}
ALIKE = {  # least correlation of two scores -> how they rank, as ... would
    0.95: "almost as",
    0.7: "roughly as",
    -math.inf: "quite differently than",
}
TRACEBACK = "the traceback: print(lab.last_error)"  # a hint at the pointer: an audience has no cell


def sentence(view: View) -> str:
    """What is seen; a line for each run, or what the objective asks for before there is one."""
    if view.focus is None:
        return _before_training(view)
    lines = [_of_a_run(view, run) for run in view.on_show()]
    if view.ceilings:
        lines.append(_ceilings(view))
    agreement = view.agreement
    if agreement is not None:
        lines.append(_of_the_weights(view, agreement))
    return "\n".join(lines)


def printed(view: View) -> str:
    """The sentence in lines of 100 characters, to print it; before it an error of training."""
    error = [f"Error: {view.error} (traceback: last_error)"] if view.error else []
    return "\n".join(in_lines(line, indent=2) for line in [*error, *sentence(view).splitlines()])


def _before_training(view: View) -> str:
    noun = view.task.noun
    if view.many:
        board = f" The board shows the first {noun} of a step." * is_maze(view)
        return f"Every step draws other {noun}s.{board}"
    if view.front is None:
        return f"The true front of this {noun} is not known."
    points = len(view.front)
    count = f"{points} points" if points > 1 else "one point"
    lines = [f"The true front of this {noun} has {count}. {_ceilings(view)}"]
    if view.asked_for == 1:
        lines.append(
            "With one answer the best one is the same at every α. On average all objectives weigh "
            "the same, so the best mean decides."
        )
    return "\n".join(lines)


def _ceilings(view: View) -> str:
    """How much of the front the best few answers cover, as it is judged."""
    first, *others = view.ceilings
    rest = "".join(f", the best {i} cover {_part(x)}" for i, x in enumerate(others, start=2))
    at = f"At α = {view.judged_at:g}"
    return f"{at} the best single answer covers {_part(first)} of the front{rest}."


def _part(coverage: float) -> str:
    """In two digits; 1.00 only where nothing is missing."""
    return "more than 0.99" if 0.995 <= coverage < 1 - 1e-9 else f"{coverage:.2f}"


def _of_a_run(view: View, run: SeenRun) -> str:
    record, moment = run.record, run.moment
    answers, tokens = run.used
    line = f"{look(run.method).text}, step {record.step}: sets of {len(moment.rewards)} "
    covered = run.coverages(view.judged_at)[-1]
    if covered is None:
        line += f"have set reward {record.set_reward:.2f}"
    else:
        line += f"cover {_part(covered)} of the front"
    if view.front is not None:  # of the same problem: view.on_show
        held = round(float(metrics.front_share(moment.rewards, view.front)) * len(view.front))
        line += f"; a typical set {_of_the_front(view, held)}"
    valid = "reach E" if is_maze(view) else "are valid"
    line += f"; diversity {record.diversity:.2f}; {record.valid_rate:.0%} of the answers {valid}"
    told = f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f} k"
    return f"{line}. Used: {answers:,} answers, {told} tokens."


def _of_the_front(view: View, held: int) -> str:
    """That a set holds so many points of the front; of a maze they are routes."""
    noun, count = "route" if is_maze(view) else "point", len(view.front)
    if count == 1:
        return f"{'holds' if held else 'misses'} the one {noun} of the true front"
    return f"holds {held} of the {count} {noun}s of the true front"


def _of_the_weights(view: View, agreement: float) -> str:
    K = view.config.K
    if K == math.inf:
        return "With K = ∞ no weights are drawn: all weights together score this step's rollouts."
    alike = next(word for least, word in ALIKE.items() if agreement >= least)
    drawn = "1 weight, drawn anew, ranks" if K == 1 else f"{K:,} weights, drawn anew, rank"
    return (
        f"{drawn} this step's rollouts {alike} all weights together would "
        f"(correlation {agreement:.2f})."
    )


def status_line(view: View) -> Html:
    """State, step and time left, as HTML; then what there is to say, a line each."""
    runs = [run for run in view.runs if run.method in view.active]
    methods = view.active if runs else view.methods
    parts = [
        html("<b>{}</b>", " + ".join(look(m).text for m in methods)),
        STATES.get(view.state, view.state),
    ]
    done = [len(run.records) for run in runs]
    if any(done):
        parts.append(f"step {max(done)} of {max(view.config.steps, max(done))}")
        pace = sum(np.mean([r.seconds for r in run.records[-5:]]) for run in runs if run.records)
        if view.state == "running" and not view.restart:
            left = pace * (view.config.steps - min(done))
            parts.append(f"about {left:.0f} s left ({pace:.1f} s a step)")
    rest = _at_rest(view) if any(done) and not view.busy else []
    if not rest or len(runs) < 3:  # all that there is to say fits in one line
        problem = where(view) + f", seed {view.config.seed}" * (not rest or len(runs) == 1)
        parts.append(_aside(problem) if any(done) else problem)
    parts += rest
    if view.restart:
        parts.append(html("Changed: {}. Press <b>Train anew</b>.", view.restart))
    elif view.message:
        parts.append(view.message)
    lines = [*(f"Data: {said}" for said in view.data), *cut_off(view), *faults(view)]
    if view.error:
        lines.append(html('<span class="vpo-error" title="{}">{}</span>', TRACEBACK, view.error))
    return joined([_beside(parts), joined(lines, html("<br>"))])


def _beside(parts: list) -> Html:
    """Parts in a line, with dots between them; none where the line is full, and goes on below. For
    each dot stands left of its part, and `CSS` cuts off what is left of the line.
    """
    dot = html('<span class="vpo-dot">·\N{NO-BREAK SPACE}</span>')
    drawn = [
        html('<span class="vpo-part">{}{}</span>', dot if i else "", part)
        for i, part in enumerate(parts)
    ]
    return html('<div class="vpo-line">{}</div>', joined(drawn, " "))


def _at_rest(view: View) -> list[Html]:
    """What a turned knob changes, for the status line: it is in sight where the words are not."""
    if view.restart:
        return []
    if view.methods != view.active:
        named = " + ".join(look(method).text for method in view.methods)
        return [html("Train starts <b>{}</b> from step 1", named)]
    if view.agreement is None or view.message:
        return []
    K, said = view.config.K, "K = ∞: all weights"
    if K < math.inf:
        said = f"K = {K:,}: correlation {view.agreement:.2f} with K = ∞"
    said = html('<span title="of the scores of this step\'s rollouts">{}</span>', said)
    return [said if len(view.active) < 3 else _aside(said)]


def _aside(said: Html | str) -> Html:
    """Left out with large letters, which have no room for it: a line more would move the board."""
    return html('<span class="vpo-aside">{}</span>', said)


def cut_off(view: View) -> list[str]:
    """A line for each active run whose last step cut many rollouts off at the token limit."""
    active = [run for run in view.runs if run.method in view.active and run.records]
    return [f"{look(run.method).text}: {said}." for run in active if (said := _cut_off(view, run))]


def _cut_off(view: View, run: SeenRun) -> str:
    cut = run.record.truncated_rate
    on = watch.wrote_on(cut, run.record.parse_rate, run.config.answers, view.task)
    return watch.cut_off(run.config, lambda: f"{view.token_limit(run)} tokens", cut=cut, on=on)


def faults(view: View) -> list[str]:
    """A line for each kind of fault of the answers or their rewards, of the first active run that
    has it.
    """
    lines = {}
    for run in view.runs:
        for kind, said in run.faults.items() if run.method in view.active else ():
            lines.setdefault(kind, f"{look(run.method).text}: {said.rstrip('.')}.")
    return [*lines.values()]


def is_maze(view: View) -> bool:
    """Whether the task is the one of mazes: it alone says how their answers and rewards read."""
    return isinstance(view.task, MazeTask)


def where(view: View) -> str:
    """The problem in a few words: its number, or that somebody drew it."""
    noun = view.task.noun
    moves = f", {view.instance.budget} moves" if is_maze(view) else ""
    if view.many:
        return f"many {noun}s{moves}"
    seed = view.settings.chosen.get(view.task.numbered)
    if is_maze(view) and seed is None:
        return f"your maze{moves}"
    return f"{noun} {seed}{moves}" if seed is not None else f"one {noun}"
