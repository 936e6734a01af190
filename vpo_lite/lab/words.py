"""What is seen, in words and numbers: the sentence beside the pictures, and the status line."""

import numpy as np

import envs

from .. import metrics
from ..looks import look
from ..markup import Html, html, joined
from .view import Run, View

STATES = {  # state of the lab -> as the status line says it
    "idle": "ready",
    "running": "training",
    "pausing": "stopping",
    "recorded": "a recording",
}
MANY_CUT_OFF = 0.1  # share of rollouts


def sentence(view: View) -> str:
    """What is seen; a line for each run."""
    if view.focus is None:
        return _before_training(view)
    lines = [_of_a_run(view, run) for run in view.on_show()]
    if view.ceiling is not None:
        lines.append(f"One answer alone covers {view.ceiling:.2f} at best.")
    return "\n".join(lines)


def _before_training(view: View) -> str:
    noun = view.task.noun
    if view.many:
        board = f" The board shows the first {noun} of a step." * is_maze(view)
        return f"Every step draws other {noun}s.{board}"
    if view.front is None:
        return f"The true front of this {noun} is not known."
    points, ceilings = len(view.front), view.own.ceilings
    count = f"{points} points" if points > 1 else "one point"
    return (
        f"The true front of this {noun} has {count}. The best single answer covers "
        f"{ceilings[1]:.2f} of it, the best two {ceilings[2]:.2f}: whoever always gives the same "
        f"answer stays at {ceilings[1]:.2f}."
    )


def _of_a_run(view: View, run: Run) -> str:
    record, moment = run.record, run.moment
    line = f"{look(run.method).text}, step {record.step}: sets of {len(moment.rewards)} "
    if record.coverage is None:
        line += f"have set reward {record.set_reward:.2f}"
    else:
        line += f"cover {record.coverage:.2f} of the front"
    key = view.task.key
    if view.front is not None and key(moment.instance) == key(view.instance):
        held = round(float(metrics.front_share(moment.rewards, view.front)) * len(view.front))
        line += f"; a typical one holds {held} of {len(view.front)} points"
    valid = "reach E" if is_maze(view) else "are valid"
    return (
        f"{line}; diversity {record.diversity:.2f}; {record.valid_rate:.0%} of the answers {valid}."
    )


def status_line(view: View) -> Html:
    """State, step and time left, as HTML; then what there is to say, a line each."""
    runs = [run for run in view.runs if run.method in view.active]
    methods = view.active if runs else view.methods
    parts = [
        html("<b>{}</b>", " + ".join(look(m).text for m in methods)),
        STATES.get(view.state, view.state),
        f"{_where(view)}, seed {view.config.seed}",
    ]
    done = [len(run.records) for run in runs]
    if any(done):
        parts.insert(2, f"step {max(done)} of {max(view.config.steps, max(done))}")
        pace = sum(np.mean([r.seconds for r in run.records[-5:]]) for run in runs if run.records)
        if view.state == "running":
            left = pace * (view.config.steps - min(done))
            parts.insert(3, f"about {left:.0f} s left ({pace:.1f} s a step)")
    lines = [joined(parts, " · ")]
    if view.restart:
        again = html("That needs a fresh run: <b>Train anew</b> does it.")
        lines.append(html("Changed: {}. {}", view.restart, again))
    elif view.message:
        lines.append(view.message)
    lines += cut_off(view)
    if view.error:
        red = html('<span style="color:#D1362F;font-weight:600">{}</span>', view.error)
        lines.append(html("{} (traceback: lab.last_error)", red))
    return joined(lines, html("<br>"))


def cut_off(view: View) -> list[str]:
    """A line for each active run whose last step cut many rollouts off at the token limit."""
    return [
        f"{look(run.method).text}: {run.record.truncated_rate:.0%} of the rollouts were cut off at "
        f"{view.token_limit(run)} tokens: raise max_new_tokens."
        for run in view.runs
        if run.method in view.active and run.records and run.record.truncated_rate > MANY_CUT_OFF
    ]


def is_maze(view: View) -> bool:
    return isinstance(view.instance, envs.Maze)


def _where(view: View) -> str:
    noun = view.task.noun
    moves = f", {view.instance.budget} moves" if is_maze(view) else ""
    if view.many:
        return f"many {noun}s{moves}"
    seed = view.settings.chosen.get("maze_seed")
    if is_maze(view) and seed is None:
        return f"your maze{moves}"
    return f"{noun} {seed}{moves}" if seed is not None else f"one {noun}"
