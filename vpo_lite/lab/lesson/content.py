"""What a lesson shows: the runs of its recordings, side by side, as plain data."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...checks import shortened
from ...exact import exact_set_reward
from ...figures.looks import STYLES, Look, look
from ...objective import sample_weights, sampling_method
from ...randomness import generator
from ..codes import decode
from ..drawings import DASHES, FLOOR, MARKERS, ROUTE_COLOURS, describe, group_of, of_front
from ..faces import face_of
from ..judging import coverages, many_points, target, win_shares
from ..recordings import Recording
from ..view import SeenRun, View
from ..words import is_maze, where

MOST = 4  # runs side by side
ALPHAS = [float(f"{10**exponent:.2g}") for exponent in np.arange(-13, 14) / 10]  # the panel's range
LONGEST_NAME = 60  # letters of a recording's name
DOTS = 100  # weights that are drawn
STROKES = {  # plotly's name of a dash -> SVG's
    "solid": "",
    "dot": "2 6",
    "dash": "9 7",
    "longdash": "16 7",
    "dashdot": "9 6 2 6",
    "longdashdot": "16 6 2 6",
}


class Shown(NamedTuple):
    """A run with its label, the look of its curves, and the name of its recording."""

    run: SeenRun
    label: str
    look: Look
    source: str
    command: str


@dataclass(frozen=True)
class Lesson:
    """Runs on one problem, side by side. view: of the first recording, with all runs."""

    view: View
    shown: tuple[Shown, ...]

    @classmethod
    def of(cls, recorded: Mapping[str, Recording]) -> "Lesson":
        """From one recording or several, by the name that each was asked for by. ValueError where
        they do not fit together.
        """
        names, views = list(recorded), [_view(*one) for one in recorded.items()]
        runs = [(one, run) for one in recorded.items() for run in one[1].runs]
        for name, view in zip(names, views, strict=True):
            if _key(view) != _key(views[0]):
                raise ValueError(
                    f"{shortened(name, LONGEST_NAME)} is of {where(view)}, but "
                    f"{shortened(names[0], LONGEST_NAME)} of {where(views[0])}: a lesson shows one "
                    "problem; write a page for each"
                )
        if not 1 <= len(runs) <= MOST:
            several = f"{shortened(', '.join(names), 200)} hold {len(runs)} runs"
            raise ValueError(f"{several}: a lesson shows 1 to {MOST} side by side; name fewer")
        methods = [run.method for _, run in runs]
        shown, short = [], dict(zip(names, _told_apart(names), strict=True))
        for (name, recording), run in runs:
            text = look(run.method).text
            if methods.count(run.method) > 1:
                apart = _own_setting(run, [other for _, other in runs])
                text += f" ({apart or shortened(short[name], LONGEST_NAME)})"
            taken = [other.look for other in shown]
            shown.append(
                Shown(run, text, _look(run.method, methods, taken), name, recording.command)
            )
        active = tuple(dict.fromkeys(methods))
        all_runs = tuple(run for _, run in runs)
        return cls(replace(views[0], runs=all_runs, active=active), tuple(shown))

    @property
    def known(self) -> bool:
        """Whether the true front is known."""
        return self.view.front is not None

    @property
    def judged(self) -> str:
        """What the sets are judged by."""
        return "coverage" if self.known else "set reward"

    @property
    def problem(self) -> str:
        """The problem in words; "" where the board draws it."""
        return "" if is_maze(self.view) else self.view.task.summary(self.view.instance)

    @cached_property
    def size(self) -> int:
        """The size of the largest sets."""
        moments = [moment for one in self.shown for moment in one.run.moments]
        return max(sets.rewards.shape[1] for moment in moments for sets in moment.sets)

    def data(self, progress: Callable = iter) -> dict:
        """All that the page draws, as plain data. Reward vectors and answers are tables, and all
        else points into them. What depends on α is there for each that the page can show.

        progress: wraps the loop over them, such as tqdm
        """
        view, face = self.view, face_of(self.view)
        d, dotted = face.d, face.corners or face.d == 2
        points, answers, sets = _Table(), _Table(), _Table()
        runs = [_run(one, points, answers, sets) for one in self.shown]
        trained = {one.run.record.alpha for one in self.shown}
        alphas, begin = sorted({*ALPHAS, *trained}), trained.pop() if len(trained) == 1 else 1.0
        front = None
        if self.known:
            rows = zip(of_front(view), view.front, strict=True)
            front = [
                (answers.at((a, points.at(_plain(r)), True)), points.at(_plain(r))) for a, r in rows
            ]
        vectors = list(points)
        typical = [np.array([vectors[point] for point in rows]) for rows in sets]
        beyond = [name for i, name in enumerate(face.names) if i not in (face.corners or ())]
        return {
            "judged": self.judged,
            "text": view.instance.text if is_maze(view) else "",
            "description": describe(view.instance, []) if is_maze(view) else "",
            "noun": "route" if is_maze(view) else "answer",
            "d": d,
            "axes": face.axes,
            "axis_names": face.axis_names,
            "names": face.names,
            "corners": face.corners,
            "corner_names": face.corner_names,
            "beyond": beyond if face.corners else [],
            "missed": face.missed,
            "hollow": face.hollow,
            "styles": [
                {"colour": colour, "dash": dash, "marker": marker, "ink": FLOOR}
                for colour, dash, marker in zip(ROUTE_COLOURS, DASHES, MARKERS, strict=True)
            ],
            "alphas": alphas,
            "alpha": alphas.index(begin),  # that of the runs, if they share one
            "judged_at": [self._judged_at(alpha, typical) for alpha in progress(alphas)],
            "weights": [_weights(d, alpha) for alpha in alphas] if dotted else [],
            "front": front,
            "runs": runs,
            "points": vectors,
            "answers": [_drawn(view, face, a, vectors[p], thin) for a, p, thin in answers],
        }

    def _judged_at(self, alpha: float, sets: Sequence[np.ndarray]) -> dict:
        """What the page shows at this α.

        - curves: what the sets of each run are worth, step by step
        - shares: how often each answer of each of ``sets`` (m, d) wins
        - best, ceilings, best_shares: the best answers of the front, what the best 1, 2, ... cover,
          and how often each of the best ones wins; empty where no front is known
        """
        front, best, ceilings, best_shares = self.view.front, (), (), ()
        if self.known:
            best, ceilings = target(front, min(self.size, len(front)), alpha, self._points)
            best_shares = win_shares(front[list(best)], alpha)
        return {
            "curves": [_rounded(self._curve(one.run, alpha)) for one in self.shown],
            "shares": [_rounded(x) for x in _by_size(sets, partial(win_shares, alpha=alpha))],
            "best": best,
            "ceilings": _rounded(ceilings),
            "best_shares": _rounded(best_shares),
        }

    def _curve(self, run: SeenRun, alpha: float) -> list[float]:
        """The mean coverage of the sets of each step, or their set reward without a front."""
        if self.known:
            return coverages([moment.sets for moment in run.moments], alpha, self._points)
        steps = [sets for moment in run.moments for sets in moment.sets]  # one a step: one problem
        kinds = {R.tobytes(): R for sets in steps for R in sets.rewards}  # most come again
        judge = partial(exact_set_reward, alpha=alpha, points=self._points)
        worth = dict(zip(kinds, _by_size(list(kinds.values()), judge), strict=True))
        return [
            float(np.average([worth[R.tobytes()] for R in sets.rewards], weights=sets.counts))
            for sets in steps
        ]

    @property
    def _points(self) -> int:
        return many_points(self.shown[0].run.moment.rewards.shape[-1])


class _Table(dict):
    """Rows that are stored once, each with its number, in the order of the numbers."""

    def at(self, row) -> int:
        return self.setdefault(row, len(self))


def _by_size(sets: Sequence[np.ndarray], judge: Callable) -> list:
    """What ``judge`` says of each set (m, d), in one call (n, m, d) -> n for each size of sets."""
    found = {}
    for m in {len(R) for R in sets}:
        its = [i for i, R in enumerate(sets) if len(R) == m]
        found |= dict(zip(its, judge(np.stack([sets[i] for i in its])), strict=True))
    return [found[i] for i in range(len(sets))]


def _weights(d: int, alpha: float) -> list[list[float]]:
    """`DOTS` weights of this α, to two significant digits, so that small ones keep their place."""
    W = sample_weights(DOTS, d, alpha, rng=generator(0, "lesson"), method=sampling_method(alpha))
    return [[float(f"{value:.2g}") for value in w] for w in W]


def _rounded(values) -> list[float]:
    """Values to five decimals."""
    return np.round(values, 5).tolist()


def _view(name: str, recording: Recording) -> View:
    """What a lab shows of a recording. ValueError where its steps draw different problems."""
    settings = decode(recording.share)
    task = settings.task()
    if not all(run.config.make_task().single for run in recording.runs):
        cure = "record runs with many=False"
        if not task.singles_out:
            cure = f"task {task.name!r} needs an option that singles out one, named in singles_out"
        raise ValueError(
            f"{shortened(name, LONGEST_NAME)}: its steps draw different {task.noun}s; a lesson "
            f"shows one: {cure}"
        )
    return View(
        state="recorded",
        settings=settings,
        code=recording.share,
        task=task,
        own=recording.runs[0].moment.problem,
        runs=recording.runs,
        look=None,
        steps=max(len(run.records) for run in recording.runs),
        active=tuple(run.method for run in recording.runs),
    )


def _own_setting(run: SeenRun, runs: Sequence[SeenRun]) -> str:
    """What alone tells this run from the others of its method, as "G = 48"; "" if more does."""
    same = [other.config for other in runs if other.method == run.method]
    for name, letter in {"group_size": "G", "K": "K", "alpha": "α"}.items():
        own, values = getattr(run.config, name), {getattr(config, name) for config in same}
        if len(values) == len(same) and all(c.but(**{name: own}) == run.config for c in same):
            return f"{letter} = {own:g}".replace("inf", "∞")
    return ""


def _told_apart(names: list[str]) -> list[str]:
    """Paths without the folders that all of them begin or end with.

    >>> _told_apart(["runs/a/seed-0", "runs/b/seed-0"]), _told_apart(["a", "a/b"])
    (['a', 'b'], ['a', 'a/b'])
    """
    parts = [Path(name).parts for name in names]
    first = _shared(parts)
    last = _shared([own[first:][::-1] for own in parts])
    told = ["/".join(own[first : len(own) - last]) for own in parts]
    return told if all(told) else names


def _shared(paths) -> int:
    """How many parts all of these paths begin with."""
    alike = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return sum(1 for _ in alike)


def _key(view: View):
    """What tells problems apart."""
    return view.config.task, view.task.key(view.instance), np.asarray(view.front).tobytes()


def _look(method: str, methods: list[str], taken: list[Look]) -> Look:
    """The method's look; a second run of it keeps the colour, with a marker and a dash that are of
    none of the page's ``methods``, and not VPO's.
    """
    own, used = look(method), {one.marker for one in taken}
    if own.marker not in used:
        return own
    used |= {look(name).marker for name in ("vpo", *methods)}
    free = next(style for style in STYLES.values() if style.marker not in used)
    return own._replace(marker=free.marker, dash=free.dash)


def _run(one: Shown, points: _Table, answers: _Table, sets: _Table) -> dict:
    moments = []
    for record, moment in zip(one.run.records, one.run.moments, strict=True):
        number = [points.at(_plain(point)) for point in moment.points]
        cloud = zip(number, moment.counts.tolist(), moment.valid.tolist(), strict=True)
        typical = [points.at(_plain(r)) for r in moment.rewards]
        written = zip(moment.answers, typical, strict=True)
        moments.append(
            {
                "cloud": list(cloud),
                "typical": [(answers.at((a, p, False)), p) for a, p in written],
                "set": sets.at(tuple(typical)),
                "diversity": record.diversity,
                "valid": record.valid_rate,
            }
        )
    _, colour, marker, dash = one.look
    stroke = STROKES[dash] if dash in STROKES else dash.replace("px", "").replace(",", " ")
    return {
        "label": one.label,
        "colour": colour,
        "marker": marker,
        "dash": stroke,
        "steps": moments,
    }


def _plain(vector) -> tuple[float, ...]:
    return tuple(float(value) for value in vector)


def _drawn(view: View, face, answer, vector, thin: bool) -> dict:
    """What the board shows of an answer, without what its place in a set decides."""
    names = face.names
    found = group_of(view, "", [answer], [vector], names, thin=thin)["routes"][0]
    kept = ("what", "brief", "path", "reached", "text", "thin")
    squares = " ".join(view.instance.square_name(s) for s in found["path"]) if is_maze(view) else ""
    return {key: found[key] for key in kept if key in found} | {"by": squares}
