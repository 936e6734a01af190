"""The live panel: train on a maze and watch which part of its Pareto front the answers cover, while you move the sliders.

    lab = Lab()          # in a notebook: the panel; anywhere: the same object without a screen
    lab.train()          # Train; also pause(), step(), stop(), reset(), reseed(), new_maze(), change(alpha=0.3)
    lab.join()           # wait for it
    lab.figure()         # a still picture

How it is built, and why it does not freeze or lie: training runs in one background thread; callbacks of the controls only
change settings or leave a request; one further thread draws all panels, each at most ten times a second, from a
snapshot (:class:`View`), so that what is drawn is a pure function of what has happened. A kernel trains in one panel at
a time: another panel, or the same cell run again, stops the one before.
"""

import atexit
import base64
import dataclasses
import functools
import html
import itertools
import json
import math
import os
import re
import sys
import threading
import time
import traceback
import weakref
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
from IPython.display import display

import envs
from envs.drawing import ROUTE_COLOURS

from . import metrics
from .estimators import METHODS
from .figures import FRONT, STYLES, look
from .objective import exact_set_reward, exact_shares, sample_weights, winners
from .randomness import generator
from .training.config import TrainConfig

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads of torch would starve the panel on small machines

AT_ONCE = ("alpha", "K", "m", "group_size", "prompts", "lr", "steps")  # act from the next step of a run under way
DEMONSTRATION = range(1000, 2000)  # seeds of the mazes that New maze goes through (all held out from training)
PAUSE = 0.1  # seconds between two drawings
MOST_RUNS = 3  # side by side
RECORDINGS = Path(__file__).parent / "recordings"
_OF_THE_MACHINE = ("threads", "device", "save_every")  # what a share code leaves out


# ---- what one step looked like -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """What the panel shows of one step: its maze; the distinct reward vectors (n, 4) of the answers with their counts (n,);
    one typical set of answers (the one of median set reward) with its vectors (m, 4); best@k {k: value}."""

    maze: envs.Maze
    points: np.ndarray
    counts: np.ndarray
    answers: tuple[str | None, ...]
    rewards: np.ndarray
    best_at_k: dict[int, float]

    @classmethod
    def of(cls, record, config: TrainConfig) -> "Moment":
        """From a StepRecord; with many mazes only its first maze is shown."""
        groups = record.groups if config.one_maze else record.groups[:1]
        pool = np.concatenate([g.rewards.reshape(-1, g.rewards.shape[-1]) for g in groups])
        answers = [answer for g in groups for rollout in g.answers for answer in rollout]
        size = min(config.compared_size, len(pool))
        sets = pool[: len(pool) // size * size].reshape(-1, size, pool.shape[-1])
        typical = int(np.argsort(exact_set_reward(sets), kind="stable")[len(sets) // 2])
        points, counts = np.unique(pool, axis=0, return_counts=True)
        scores = pool.mean(axis=-1)
        return cls(
            groups[0].instance, points, counts, tuple(answers[typical * size : (typical + 1) * size]), sets[typical],
            {k: float(metrics.best_at_k(scores, k)) for k in (1, 3, 10) if k <= len(pool)},
        )  # fmt: skip


@dataclass
class Run:
    """One method's run: its records and moments, step by step, and its learner (policy and optimizer) while it can go on."""

    method: str
    records: list = field(default_factory=list)
    moments: list = field(default_factory=list)
    learner: object = None

    def add(self, record, config):
        self.moments.append(Moment.of(record, config))
        self.records.append(record)


@functools.lru_cache(maxsize=256)
def _front(maze, reward_mode="linear"):
    return maze.pareto_front(reward_mode)


@functools.lru_cache(maxsize=256)
def _ceilings(maze, reward_mode="linear"):
    return metrics.price_of_conflict(_front(maze, reward_mode).rewards)


@dataclass(frozen=True)
class View:
    """All that a drawing needs, frozen: state of the lab, settings, the maze, and the runs with the steps seen so far.

    runs: (method, records, moments), in order; active: the methods of the run under way, or of the last one;
    message: the last thing to say about a request; error: one line in red.
    """

    state: str
    config: TrainConfig
    methods: tuple[str, ...]
    maze: envs.Maze
    maze_seed: int | None
    many: bool
    runs: tuple[tuple[str, tuple, tuple], ...]
    active: tuple[str, ...]
    message: str = ""
    error: str = ""
    restart: str = ""
    front_too: bool = False
    version: int = 0

    @property
    def focus(self):
        """(method, record, moment) of the first active run that has a step, or None."""
        seen = [(method, records[-1], moments[-1]) for method, records, moments in self.on_show() if method in self.active]
        return seen[0] if seen else None

    def on_show(self):
        """The runs whose answers are drawn: those of the active methods, then the latest others as far as there is room."""
        begun = [run for run in self.runs if run[1]]
        others = [run[0] for run in begun if run[0] not in self.active]
        kept = {*self.active, *others[max(0, len(others) - MOST_RUNS + len(self.active)) :]}
        return sorted((run for run in begun if run[0] in kept), key=lambda run: run[0] not in self.active)

    @property
    def seen_maze(self):
        return self.focus[2].maze if self.focus else self.maze

    @property
    def front(self):
        return _front(self.seen_maze, self.config.reward_mode)

    @property
    def ceiling(self):
        """Coverage of the best single answer on the maze; None with many mazes."""
        return None if self.many else _ceilings(self.maze, self.config.reward_mode)[1]

    def on_board(self):
        """The sets to draw: (method or None for the true front, routes, rewards)."""
        sets = [(method, moments[-1].answers, moments[-1].rewards) for method, _, moments in self.on_show()]
        return sets or [(None, self.front.routes, self.front.rewards)]

    def weightings(self):
        """The K weightings (K, d) that the step on the board drew at the settings of now; with K = infinity 512 of them, to
        look at."""
        step = self.focus[1].step - 1 if self.focus else 0
        key = f"{self.seen_maze.text}|{self.seen_maze.budget}#0"
        count = 512 if self.config.K == math.inf else self.config.K
        rng = generator(self.config.seed, "weights", step, key)
        return sample_weights(count, len(envs.OBJECTIVES), self.config.alpha, rng=rng)

    def shares(self, rewards):
        """How often each of the answers wins: under the K weightings, or exactly with K = infinity."""
        if self.config.K == math.inf:
            return exact_shares(rewards, self.config.alpha)
        return np.bincount(winners(rewards, self.weightings()), minlength=len(rewards)) / self.config.K


def sentence(view: View) -> str:
    """What is seen, in words and numbers; a line for each run."""
    front = view.front.rewards
    if not view.focus and view.many:
        return "Every step draws other mazes. The board shows the first maze of a step."
    if not view.focus:
        ceilings = _ceilings(view.maze, view.config.reward_mode)
        count = f"{len(front)} points" if len(front) > 1 else "one point"
        return (
            f"The true front of this maze has {count}. The best single answer covers {ceilings[1]:.2f} of it, the best two "
            f"{ceilings[2]:.2f}: whoever always gives the same answer stays at {ceilings[1]:.2f}."
        )
    lines = []
    for method, records, moments in view.on_show():
        record, moment = records[-1], moments[-1]
        line = f"{look(method)[0]}, step {record.step}: sets of {len(moment.rewards)} cover {record.coverage:.2f} of the front"
        if moment.maze == view.seen_maze:
            held = round(float(metrics.front_share(moment.rewards, front)) * len(front))
            line += f"; a typical one holds {held} of {len(front)} points"
        lines.append(f"{line}; diversity {record.diversity:.2f}; {record.reach_rate:.0%} of the answers reach E.")
    if view.ceiling is not None:
        lines.append(f"One answer alone covers {view.ceiling:.2f} at best.")
    return "\n".join(lines)


# ---- the session -------------------------------------------------------------------------------------------------------


class Lab:
    """A training session on a maze, with a panel. All of it works without a screen, too.

    methods: a name of ``vpo_lite.METHODS``, or up to three that train side by side on the same maze and seed.
    maze_seed: of the generated maze (layout as in TrainConfig); maze: text of a drawn one instead; many=True: train on many
    mazes (the maze is then the one to look at before). preset and further settings: see ``TrainConfig``.
    panel: "widgets", "plain" (pictures drawn anew, where custom widgets do not work), "auto".

    Attributes: state ("idle", "running", "stopping", "paused", "stopped", "finished", "failed", "recorded"); config;
    runs {method: Run};
    records (of the first method); last_error (traceback as text, or None).

    >>> lab = Lab(maze_seed=1000)
    >>> lab.state, lab.config.alpha, lab.methods
    ('idle', 1.0, ('vpo',))
    """

    _training = None  # weak reference to the lab whose thread trains
    _one_trainer = threading.Lock()

    def __init__(self, methods="vpo", *, preset="demo", maze_seed=1000, maze=None, many=False, panel="auto", **settings):
        if panel not in ("auto", "widgets", "plain"):
            raise ValueError(f"panel = {panel!r}: expected 'auto', 'widgets' or 'plain'")
        settings.setdefault("threads", max(1, min(4, _cores() - 1)))  # one core stays with the panel
        self._lock = threading.RLock()
        self._panel, self._panel_kind = None, panel
        self._state, self._job, self._thread = "idle", None, None
        self._message, self._error, self.last_error = "", "", None
        self._look, self._front_too, self._version = None, False, 0
        self.runs = {}
        self.methods = _methods(methods)
        self._config = TrainConfig.preset(preset, method=self.methods[0], **_plain_K(settings))
        self.many = bool(many)
        self.maze_seed = None if maze is not None else maze_seed
        self.maze = _maze(maze) if maze is not None else envs.generate(self._config.layout, maze_seed)
        other = Lab._training and Lab._training()
        if other is not None:
            other.pause("Paused: a newer panel was opened. Go on here whenever you like.")
            if other._panel is not None:
                other._panel.ask_whether_seen()

    # -- requests; each returns at once --

    def train(self, steps=None):
        """Start, or go on after a pause. With settings that need a fresh run, or after Stop, training starts from step 1."""
        if steps is not None:
            self.change(steps=steps)
        return self._start()

    def step(self):
        """One step of every run, then pause."""
        return self._start(sweeps=1)

    def pause(self, message="Paused. Train goes on."):
        """Stop after the step under way, to go on later."""
        return self._halt("paused", message)

    def stop(self):
        """Stop after the step under way; Train starts from step 1 again."""
        return self._halt("stopped", "Stopped. Train starts again from step 1.")

    def reset(self):
        """Forget all runs; the same maze and seed."""
        with self._lock:
            self._forget()
            self._say(f"Reset: seed {self._config.seed}, the same maze.")
        return self

    def reseed(self, seed=None):
        """Reset with another seed: the next one, or the one given."""
        with self._lock:
            self._config = self._config.but(seed=self._config.seed + 1 if seed is None else seed)
            self._forget()
            self._say(f"Reset: seed {self._config.seed}, the same maze.", outside=True)
        return self

    def new_maze(self, seed=None):
        """Another generated maze: the next of the demonstration mazes, or the one with this seed. Forgets all runs."""
        with self._lock:
            if seed is None:
                last = self.maze_seed if self.maze_seed in DEMONSTRATION else DEMONSTRATION[-1]
                seed = DEMONSTRATION[(DEMONSTRATION.index(last) + 1) % len(DEMONSTRATION)]
            maze = envs.generate(self._config.layout, seed)
            self._forget()
            self.maze, self.maze_seed = maze, int(seed)
            self._say(f"Maze {seed}.", outside=True)
        return self

    def set_maze(self, text, budget=None):
        """A drawn maze, as text. Keeps the budget if the way to E still fits it. Forgets all runs. ValueError: no maze."""
        with self._lock:
            maze = _maze(text, self.maze.budget if budget is None else budget)
            _front(maze)  # too many items for the exact front: refused here
            if maze != self.maze:
                self._forget()
                self.maze, self.maze_seed = maze, None
                self._say(f"Your maze; {maze.budget} moves.", outside=True)
        return self

    def change(self, *, methods=None, many=None, **settings):
        """Change settings. alpha, K, m, lr, group_size, prompts and steps act from the next step of a run under way;
        methods, many and all others with the next fresh run (the panel says so). ValueError: nothing is changed."""
        return self._change(methods, many, settings, outside=True)

    def _change(self, methods, many, settings, outside):
        with self._lock:
            names = self.methods if methods is None else _methods(methods)
            config = self._config.but(method=names[0], **_plain_K(settings))
            if "maze_seed" in settings or "maze" in settings:
                raise ValueError("maze, maze_seed: use new_maze(seed) or set_maze(text)")
            many = self.many if many is None else bool(many)
            if (names, many, config) != (self.methods, self.many, self._config):
                self.methods, self.many, self._config = names, many, config
                self._say("", outside)
        return self

    def look(self, step=None):
        """Show the runs as they were after this step; None: as they are."""
        return self._look_at(step, outside=True)

    def _look_at(self, step, outside):
        with self._lock:
            self._look = step
            self._version += outside
            self._changed()
        return self

    def show_front(self, on=True):
        """Draw the true front's routes beside the answers."""
        with self._lock:
            self._front_too = bool(on)
            self._changed()
        return self

    # -- share codes and recordings --

    def share(self) -> str:
        """A short code of maze, settings and seeds; `Lab.from_code` (or the panel) restores them exactly, offline.

        >>> code = Lab("grpo", maze_seed=1007, alpha=0.3).share()
        >>> lab = Lab.from_code(code)
        >>> lab.methods, lab.maze_seed, lab.config.alpha
        (('grpo',), 1007, 0.3)
        """
        usual = TrainConfig.preset("demo").to_json()
        settings = {k: v for k, v in self._config.to_json().items() if usual[k] != v and k not in ("method", *_OF_THE_MACHINE)}
        maze = self.maze_seed if self.maze_seed is not None else [self.maze.text.replace(" ", ""), self.maze.budget]
        plain = json.dumps([list(self.methods), maze, settings, self.many], separators=(",", ":"))
        return "VPO1-" + base64.urlsafe_b64encode(zlib.compress(plain.encode(), 9)).decode().rstrip("=")

    @classmethod
    def from_code(cls, code, **options) -> "Lab":
        """The lab that a share code describes. ValueError for a code that is none."""
        return cls(**options).load(code)

    def load(self, code):
        """Take over maze, settings and seeds of a share code; forgets all runs. ValueError: nothing is changed."""
        methods, maze, settings, many = _decoded(code)
        try:
            config = TrainConfig.preset("demo", method=_methods(methods)[0], **_plain_K(settings))
            config = config.but(**{name: getattr(self._config, name) for name in _OF_THE_MACHINE})
            shown = envs.generate(config.layout, maze) if isinstance(maze, int) else envs.Maze.from_text(*maze)
        except (ValueError, TypeError) as error:
            raise ValueError(f"code {code!r} was made by another version: {error}") from error
        with self._lock:
            self._forget()
            self.methods, self.many, self._config = _methods(methods), bool(many), config
            self.maze, self.maze_seed = shown, maze if isinstance(maze, int) else None
            self._say("Restored from its code.", outside=True)
        return self

    def record(self, folder, command=""):
        """Write the runs to ``folder``/recording.json (all answers of all steps; made from: ``command``); read by `replay`."""
        with self._lock:
            if not any(run.records for run in self.runs.values()) or self.many:
                raise ValueError("record: there must be runs, on one maze; train first")
            runs = [(m, list(run.records), self._run_config(m)) for m, run in self.runs.items() if run.records]
        routes = sorted({a for _, records, _ in runs for r in records for g in r.groups for row in g.answers for a in row if a})
        number = {route: i for i, route in enumerate(routes)} | {"": -1, None: -2}
        written = []
        for method, records, config in runs:
            answers = [[[[number[a] for a in row] for row in g.answers] for g in r.groups] for r in records]
            packed = b"".join(np.array(step, dtype="<i2").tobytes() for step in answers)
            written.append({
                "method": method, "config": config.but(threads=None).to_json(),
                "records": [_rounded(r.to_json()) for r in records], "shapes": [list(np.shape(step)) for step in answers],
                "answers": base64.b64encode(zlib.compress(packed, 9)).decode(),
            })  # fmt: skip
        lab = {"share": self.share(), "command": command, "maze": self.maze.text, "budget": self.maze.budget}
        path = Path(folder) / "recording.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": 1} | lab | {"routes": routes, "runs": written}) + "\n", encoding="utf-8")
        return path

    @classmethod
    def replay(cls, folder, **options) -> "Lab":
        """A lab that shows recorded runs, without any model: move the time slider, or press Train to do it again, live.

        folder: as written by `record`, or the name of a recording that the package carries. ValueError if it is none.
        """
        path = next((p for p in (Path(folder), RECORDINGS / folder) if (p / "recording.json").is_file()), None)
        if path is None:
            known = sorted(str(p.parent.relative_to(RECORDINGS)) for p in RECORDINGS.rglob("recording.json"))
            raise ValueError(f"{folder}: no recording; the package carries {', '.join(known)}")
        try:
            stored = json.loads((path / "recording.json").read_text(encoding="utf-8"))
            lab = cls.from_code(stored["share"], **options)
            lab.runs = {run["method"]: _restored(lab.maze, stored["routes"], run) for run in stored["runs"]}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path / 'recording.json'}: no recording that this version can read ({error})") from error
        lab._state, lab._message = "recorded", stored["command"] and f"Made by: {stored['command']}"
        return lab

    # -- what one can ask --

    @property
    def config(self) -> TrainConfig:
        """The settings of the first method's run."""
        return self._run_config(self.methods[0])

    @property
    def state(self) -> str:
        return self._state

    @property
    def records(self) -> list:
        """The step records of the first method's run."""
        return list(self.runs[self.methods[0]].records) if self.methods[0] in self.runs else []

    def join(self, timeout=None) -> bool:
        """Wait until training ends or pauses; False if it still runs after ``timeout`` seconds. An interrupt stops it."""
        thread = self._thread
        try:
            if thread is not None:
                thread.join(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        return thread is None or not thread.is_alive()

    def view(self) -> View:
        """A snapshot of everything that is drawn."""
        with self._lock:
            end = self._look
            runs = tuple((m, tuple(r.records[:end]), tuple(r.moments[:end])) for m, r in self.runs.items())
            return View(
                self._state, self._config, self.methods, self.maze, self.maze_seed, self.many, runs,
                self._job.methods if self._job else tuple(self.runs),
                self._message, self._error, self._restart(), self._front_too, self._version,
            )  # fmt: skip

    def sentence(self) -> str:
        """What is seen, in words and numbers."""
        return sentence(self.view())

    def figure(self, width=980) -> go.Figure:
        """A still picture of the plots."""
        plots = Plots(go.Figure)
        plots.draw(self.view(), width=width)
        return plots.figure

    def picture(self, method=None, width=380):
        """The maze with the answers of a typical set (of a method; the first run by default) as SVG."""
        for name, routes, _ in self.view().on_board():
            if method in (None, name):
                return envs.drawing.svg(self.view().seen_maze, [r for r in routes if r is not None], width=width)
        raise ValueError(f"method = {method!r}: no answers yet; there are runs of {', '.join(self.runs) or 'none'}")

    @property
    def panel(self):
        """The panel's widgets (made once)."""
        if self._panel is None:
            plain = self._panel_kind == "plain" or (self._panel_kind == "auto" and not _custom_widgets_work())
            self._panel = PlainPanel(self) if plain else Panel(self)
            _warm_up(self.config)
            self._changed()
        return self._panel

    def _ipython_display_(self):
        self.panel.display()

    def close(self):
        """Stop, and take the panel off the page."""
        with self._lock:
            self._forget()
        if self._panel is not None:
            self._panel.close()
            self._panel = None

    # -- inside; the lock is held where state changes --

    def _run_config(self, method, job=None):
        """The settings of one run: those of now; for a run under way only those that act at once, the others as it began."""
        config = self._config
        if job is not None:
            config = job.config.but(**{name: getattr(config, name) for name in AT_ONCE})
        maze = {}
        if not (self.many if job is None else job.many):
            drawn = self.maze_seed is None
            maze = {"maze": self.maze.text, "maze_budget": self.maze.budget} if drawn else {"maze_seed": self.maze_seed}
        return config.but(method=method, **maze)

    def _restart(self):
        """What has been changed that the run under way does not follow; '' if nothing."""
        job = self._job
        if job is None or self._state not in ("running", "stopping", "paused", "finished"):
            return ""
        changed = ["method"] * (job.methods != self.methods) + ["one maze or many"] * (job.many != self.many)
        changed += [
            f.name for f in dataclasses.fields(TrainConfig)
            if f.name not in (*AT_ONCE, "method") and getattr(self._config, f.name) != getattr(job.config, f.name)
        ]  # fmt: skip
        return ", ".join(changed)

    def _start(self, sweeps=None):
        with Lab._one_trainer, self._lock:
            before, restart, other = self._job, self._restart(), Lab._training and Lab._training()
            if self._state == "running" and not restart:
                self._say("It is training already.")
                return self
            if other is not None and other is not self:
                other.pause("Paused: another panel trains now. Go on here whenever you like.")
            if before is not None:
                before.halt.set()
            if self._goes_on(restart):
                runs = before.runs
            else:  # from step 1; curves of other methods stay, for comparison
                runs = {method: Run(method) for method in self.methods}
                for run in self.runs.values():
                    run.learner = None
                self.runs = {m: r for m, r in self.runs.items() if m not in runs} | runs
            self._look, self._state, self._error, self.last_error = None, "running", "", None
            self._job = job = _Job(self.methods, self._config, self.many, runs, sweeps)
            self._say("Loading the policy …" if "torch" not in sys.modules else "")
            wait_for = [lab._thread for lab in {self, other or self} if lab._thread is not None]
            self._thread = threading.Thread(target=self._work, args=(job, wait_for), name="vpo-lite training", daemon=True)
            Lab._training = weakref.ref(self)
            self._thread.start()
        return self

    def _goes_on(self, restart):
        """Whether Train continues the last stretch: it was paused, or steps were added, and nothing needs a fresh run."""
        job = self._job
        if job is None or restart:
            return False
        more = any(len(run.records) < self._config.steps for run in job.runs.values())
        return more and (self._state in ("paused", "finished") or (self._state == "stopping" and job.then[0] == "paused"))

    def _halt(self, then, message):
        with self._lock:
            if self._state in ("running", "stopping"):
                self._job.then = (then, message)
                self._job.halt.set()
                self._state = "stopping"
                self._say("Finishing this step …")
            elif self._state == "paused" and then == "stopped":
                self._state = "stopped"
                self._say(message)
        return self

    def _forget(self):
        if self._job is not None:
            self._job.halt.set()  # what its last step still sees goes into runs that nobody shows
        self._job, self.runs, self._look = None, {}, None
        self._state, self._error, self.last_error = "idle", "", None

    def _say(self, message, outside=False):
        self._message = message
        self._version += outside  # the controls must follow a change that did not come from them
        self._changed()

    def _changed(self):
        if self._panel is not None:
            _renderer.wake(self._panel)

    def _fail(self, error):
        with self._lock:
            self.last_error = "".join(traceback.format_exception(error))
            self._error = f"{type(error).__name__}: {error}".splitlines()[0]
            self._changed()

    def _work(self, job, wait_for):
        """The training thread: steps the runs in turn until they are done or somebody asks it to halt."""
        then = ("finished", "")
        try:
            for thread in [*wait_for, _warming]:
                if thread is not None:
                    thread.join()
            if not job.halt.is_set():
                done = self._steps(job)
                then = ("finished", "") if done else ("paused", "One step. Train goes on.")
            if job.halt.is_set():
                then = job.then
        except Exception as error:  # all of it belongs in the panel: nobody sees the traceback of a thread
            then = ("failed", "")
            if job is self._job:
                self._fail(error)
        with self._lock:
            if job is self._job:
                self._state = then[0]
                self._say(then[1])

    def _steps(self, job):
        """Step until done (True), or until halted or out of sweeps (False)."""
        from .training.loop import train
        from .training.step import Learner

        loops, begun, sweeps = {}, set(), 0
        for method, run in job.runs.items():
            config = self._run_config(method, job)
            run.learner = run.learner or Learner(config)
            loops[method] = train(config, learner=run.learner, first_step=len(run.records))
        while loops and (job.sweeps is None or sweeps < job.sweeps):
            for method, loop in list(loops.items()):
                if job.halt.is_set():
                    return False
                config = self._run_config(method, job)
                try:
                    record = loop.send(config if method in begun else None)  # a fresh generator takes no value
                except StopIteration:
                    del loops[method]
                    continue
                begun.add(method)
                moment = Moment.of(record, config)
                with self._lock:
                    job.runs[method].moments.append(moment)
                    job.runs[method].records.append(record)
                    self._message = ""
                    self._changed()
            sweeps += 1
        return all(len(run.records) >= self._config.steps for run in job.runs.values())


@atexit.register
def _stop_before_exit():
    """A thread inside torch while the interpreter ends would abort the process."""
    lab = Lab._training and Lab._training()
    if lab is not None:
        lab.stop()
        lab.join(10)


def _decoded(code):
    text = str(code).strip()
    try:
        if not text.startswith("VPO1-"):
            raise ValueError("it begins with VPO1-")
        data = text[5:] + "=" * (-len(text[5:]) % 4)
        methods, maze, settings, many = json.loads(zlib.decompress(base64.b64decode(data, altchars=b"-_", validate=True)))
    except (ValueError, zlib.error) as error:  # a letter lost or wrong: base64, the checksum of zlib, or JSON finds it
        raise ValueError(f"code {text[:60]!r}: no share code, or mistyped; copy the whole of what lab.share() gives") from error
    return methods, maze, settings, many


def _rounded(value):
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return round(value, 5) if isinstance(value, float) else value


def _restored(maze, routes, stored):
    """A Run from its stored form: rewards are scored again from the routes."""
    config = TrainConfig.from_json(stored["config"])
    known = [*routes, None, ""]  # numbers -2 and -1 count from the end
    vectors = np.vstack([envs.score_routes(maze, routes, config.reward_mode), np.zeros((2, len(envs.OBJECTIVES)))])
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(stored["answers"])), dtype="<i2")
    run, at = Run(stored["method"]), 0
    for values, shape in zip(stored["records"], stored["shapes"], strict=True):
        step = numbers[at : at + math.prod(shape)].reshape(shape)
        at += step.size
        groups = tuple(
            SimpleNamespace(instance=maze, answers=[[known[i] for i in row] for row in group], rewards=vectors[group])
            for group in step.tolist()
        )
        values = values | {"K": math.inf if values["K"] == "inf" else values["K"]}
        record = SimpleNamespace(**values, groups=groups)
        run.records.append(record)
        run.moments.append(Moment.of(record, config.but(m=record.m, group_size=shape[1], prompts=shape[0])))
    return run


@dataclass
class _Job:
    """One stretch of training: the settings it was started with, its runs, and the request to halt."""

    methods: tuple[str, ...]
    config: TrainConfig
    many: bool
    runs: dict[str, Run]
    sweeps: int | None = None
    then: tuple[str, str] = ("paused", "")
    halt: threading.Event = field(default_factory=threading.Event)


def _methods(names):
    names = (names,) if isinstance(names, str) else tuple(names)
    if not 1 <= len(names) <= MOST_RUNS or len(set(names)) < len(names) or not set(names) <= set(METHODS):
        raise ValueError(f"methods = {names!r}: expected one to {MOST_RUNS} different names out of {', '.join(METHODS)}")
    return names


def _plain_K(settings):
    return settings | {"K": math.inf} if settings.get("K") in ("inf", "∞") else settings


def _maze(text, budget=None):
    """A maze from text, or a maze; the budget is given up where the way to E no longer fits it."""
    if isinstance(text, envs.Maze):
        return text
    try:
        return envs.Maze.from_text(text, budget)
    except ValueError as error:
        if budget is None or not str(error).startswith("budget"):
            raise
        return envs.Maze.from_text(text)


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_warming = None


def _warm_up(config):
    """Load torch and the policy in the background while people look at the maze, so that the first step comes at once."""
    global _warming
    if _warming is None and not os.environ.get("VPO_LITE_COLD"):
        _warming = threading.Thread(target=_rehearse, args=(config,), name="vpo-lite warm-up", daemon=True)
        _warming.start()


def _rehearse(config):
    try:
        from .training.loop import train

        list(train(config.but(steps=1, prompts=1, group_size=2)))
    except Exception:  # nobody asked for it: the same error comes, and is shown, when somebody presses Train
        pass


def _custom_widgets_work():
    """Whether a FigureWidget and the board can be shown: not without anywidget, nor in Colab."""
    if "google.colab" in sys.modules:
        return False
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return False
    return True


# ---- drawing -----------------------------------------------------------------------------------------------------------


class _Renderer:
    """The one thread that draws. The latest state wins; all panels together are drawn at most ten times a second."""

    def __init__(self):
        self._dirty, self._event, self._lock, self._thread = weakref.WeakSet(), threading.Event(), threading.Lock(), None

    def wake(self, panel):
        with self._lock:
            self._dirty.add(panel)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="vpo-lite drawing", daemon=True)
                self._thread.start()
        self._event.set()

    def _run(self):
        while self._event.wait():
            self._event.clear()
            with self._lock:
                panels = list(self._dirty)
                self._dirty.clear()
            started = time.monotonic()
            for panel in panels:
                panel.draw()
            panels = None  # hold none while waiting
            time.sleep(max(0.0, PAUSE - (time.monotonic() - started)))


_renderer = _Renderer()


def _curve(name):
    return lambda record, moment: getattr(record, name)


# what can be plotted over steps: text -> figure of one step
CURVES = {
    "coverage of the front": _curve("coverage"),
    "diversity": _curve("diversity"),
    "set reward": _curve("set_reward"),
    "share that reaches E": _curve("reach_rate"),
    "share of repeats": _curve("repeat_rate"),
    **{f"best@{k}": lambda record, moment, k=k: moment.best_at_k.get(k) for k in (1, 3, 10)},
    **{f"mean {n}": lambda record, moment, n=n: record.objectives.get(n) for n in ("gold", "diamond", "avoid_lava")},
    "entropy": _curve("entropy"),
    "KL to the start": _curve("kl"),
}
COVERAGE, DIVERSITY = list(CURVES)[:2]


class Plots:
    """The plots in one plotly figure that is made once and changed: objective space, simplex, two curves.

    figure_class: go.Figure, or go.FigureWidget for a live one. Only what differs from the last drawing is sent.
    """

    def __init__(self, figure_class):
        self.names, traces = {}, []

        def trace(name, kind=go.Scatter, **look_of):
            self.names[name] = len(traces)
            traces.append(kind(name=name, showlegend=False, **look_of))

        trace("true front", mode="markers", xaxis="x", yaxis="y", hoverinfo="text",
              marker={"symbol": "circle-open", "size": 30, "color": FRONT, "line": {"width": 3}})  # fmt: skip
        for i in range(MOST_RUNS):
            trace(f"answers {i}", mode="markers+text", xaxis="x", yaxis="y", hoverinfo="text", textposition="middle right")
        trace("typical", mode="text", xaxis="x", yaxis="y", hoverinfo="skip", textposition="top center")
        trace("weightings", go.Scatterternary, mode="markers", hoverinfo="skip", subplot="ternary")
        for c, axis in enumerate(("2", "3")):
            where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
            trace(f"level {c}", mode="lines+text", hoverinfo="skip", textposition="bottom left",
                  line={"color": FRONT, "dash": "dot", "width": 2}, **where)  # fmt: skip
            trace(f"marks {c}", mode="lines+text", hoverinfo="skip", textposition="top right",
                  line={"color": "#999999", "width": 1.5}, **where)  # fmt: skip
            for method, (text, colour, symbol, dash) in STYLES.items():
                hover = f"{text}, step %{{x}}: %{{y:.3f}}<extra></extra>"
                trace(f"{method} {c}", mode="lines+markers", legendgroup=method, hovertemplate=hover, marker={"symbol": symbol},
                      line={"color": colour, "dash": dash, "width": 3.5}, **where)  # fmt: skip
        layout = {"uirevision": "keep", "hovermode": "closest", "template": "plotly_white"}
        self.figure = figure_class(data=traces, layout=layout)
        self._sent, self._layout = {}, {}

    def draw(self, view, *, width=980, large=False, dark=False, curves=(COVERAGE, DIVERSITY)):
        """Bring the figure to this view; returns whether anything was changed."""
        data, layout = self._traces(view, large, dark, curves), _layout(width, large, dark)
        self._axes(view, layout, curves)
        changes = {}
        for name, values in data.items():
            sent = self._sent.setdefault(name, {})
            changes[name] = {k: v for k, v in values.items() if sent.get(k, _NEVER) != v}
            sent.update(changes[name])
        fresh = {k: v for k, v in layout.items() if self._layout.get(k, _NEVER) != v}
        self._layout |= fresh
        if not fresh and not any(changes.values()):
            return False
        with self.figure.batch_update():
            for name, values in changes.items():
                if values:
                    self.figure.data[self.names[name]].update(values)
            if fresh:
                self.figure.update_layout(fresh)
        return True

    def _traces(self, view, large, dark, curves):
        ink, size = ("#FFFFFF" if dark else "#000000"), (20 if large else 15)
        # an empty trace holds one gap: with nothing at all plotly.js writes errors to the page's console
        out = {name: {"x": [None], "y": [None], "showlegend": False} for name in self.names if name != "weightings"}
        front = view.front.rewards
        out["true front"] |= {
            "x": front[:, 1].tolist(), "y": front[:, 2].tolist(), "showlegend": True,
            "text": [_in_words("true front", r) for r in front],
            "marker_color": [_front_colour(r, dark) for r in front], "marker_size": 40 if large else 30,
        }  # fmt: skip
        runs = view.on_show()
        for i, (method, _, moments) in enumerate(runs):
            out[f"answers {i}"] |= _cloud(method, moments[-1], (i - (len(runs) - 1) / 2) * 0.035, ink, size)
        typical = view.focus[2].rewards if view.focus else front
        if view.focus:
            out["typical"] |= _numbers(typical, ink, size)
        out["weightings"] = _dots(view, typical)
        for c, curve in enumerate(curves):
            self._curves(view, c, curve, out, ink, size)
        return out

    def _curves(self, view, c, curve, out, ink, size):
        last = max([view.config.steps, *[len(records) for _, records, _ in view.runs]])
        if curve == COVERAGE and view.ceiling is not None:
            text = f"best single answer {view.ceiling:.2f}"
            font = {"size": size - 1, "color": ink}
            out[f"level {c}"] |= {"x": [1, last], "y": [view.ceiling] * 2, "text": ["", text], "textfont": font}
        low, high = _span(view, curve)
        marks = {"x": [None], "y": [None], "text": [""]}
        for method, records, moments in view.runs:
            if not records:
                continue
            values = [CURVES[curve](record, moment) for record, moment in zip(records, moments, strict=True)]
            out[f"{method} {c}"] |= {
                "x": [r.step for r in records], "y": values, "name": look(method)[0], "showlegend": c == 0,
                "opacity": 1.0 if method in view.active else 0.55,
                "marker_size": [9 if i == len(records) - 1 or i % 5 == 0 else 0 for i in range(len(records))],
            }  # fmt: skip
            if view.focus and method == view.focus[0]:
                for step, text in changes(records):
                    marks["x"] += [step, step, None]
                    marks["y"] += [low, low + 0.93 * (high - low), None]
                    marks["text"] += ["", text, ""]
        out[f"marks {c}"] |= marks | {"textfont": {"size": size - 2, "color": ink}}

    def _axes(self, view, layout, curves):
        last = max([view.config.steps, *[len(records) for _, records, _ in view.runs]])
        for axis, curve in zip(("2", "3"), curves, strict=True):
            layout[f"xaxis{axis}"]["range"] = [0.5, last + 0.5]
            layout[f"yaxis{axis}"]["range"] = list(_span(view, curve))
        who = look(view.focus[0])[0] if view.focus else "the front"
        where = f"of {who}: {view.config.K} weightings" if view.config.K != math.inf else f"of {who}: all weightings"
        named = [f"<b>{curve[0].upper()}{curve[1:]}</b>" for curve in curves]
        lava = " (open: over lava)" if view.seen_maze.lava else ""
        for i, text in enumerate([f"<b>Answers</b>{lava}", f"<b>Who wins</b> {where}", *named]):
            layout["annotations"][i]["text"] = text


_NEVER = object()


def changes(records):
    """Where alpha, K or m differ from the step before: [(step, text)].

    >>> changes([])
    []
    """
    found = []
    for before, now in itertools.pairwise(records):
        texts = [f"α {now.alpha:g}"] if now.alpha != before.alpha else []
        texts += ["K " + ("∞" if now.K == math.inf else f"{now.K}")] if now.K != before.K else []
        texts += [f"m {now.m}"] if now.m != before.m else []
        if texts:
            found.append((now.step, ", ".join(texts)))
    return found


def _span(view, curve):
    """The range of a curve's axis: wide enough for all its values and calm while they move a little."""
    values = [CURVES[curve](r, m) for _, records, moments in view.runs for r, m in zip(records, moments, strict=True)]
    values = [v for v in values if v is not None]
    if curve == COVERAGE:
        return min(0.5, math.floor(min(values, default=1) * 10) / 10), 1.05
    return min(0.0, min(values, default=0)), max(1.05, math.ceil(5 * max(values, default=0) + 0.2) / 5)


def _in_words(who, vector, count=""):
    names = [f"{name.replace('_', ' ')} {value:.2f}" for name, value in zip(envs.OBJECTIVES, vector, strict=True)]
    return f"{who}{count}: {', '.join(names)}"


def _front_colour(vector, dark):
    return "#D55E00" if vector[3] < 1 else "#BBBBBB" if dark else FRONT


def _cloud(method, moment, aside, ink, size):
    """The answers of one step in objective space: a marker for each distinct vector, larger the more answers earn it; open
    if they touched lava; a cross at the corner for those that do not reach E."""
    text, colour, symbol, _ = look(method)
    share = moment.counts / moment.counts.sum()
    failed = moment.points[:, 0] <= 0
    lava = moment.points[:, 3] < 1
    return {
        "name": text, "text": [f"{s:.0%} miss E" if f else "" for s, f in zip(share, failed, strict=True)],
        "x": [-0.12 + aside if f else x + aside for x, f in zip(moment.points[:, 1].tolist(), failed, strict=True)],
        "y": [-0.12 + 2 * aside if f else y + aside for y, f in zip(moment.points[:, 2].tolist(), failed, strict=True)],
        "hovertext": [_in_words(text, p, f", {n} answers") for p, n in zip(moment.points, moment.counts, strict=True)],
        "textfont": {"size": size - 2, "color": ink},
        "marker": {
            "symbol": ["x" if f else symbol + "-open" if b else symbol for f, b in zip(failed, lava, strict=True)],
            "size": [12 if f else 8 + 30 * math.sqrt(s) for s, f in zip(share.tolist(), failed, strict=True)],
            "color": colour, "opacity": 0.85,
            "line": {"color": [colour if b or f else "#000000" for f, b in zip(failed, lava, strict=True)],
                     "width": [0 if f else 3 if b else 1 for f, b in zip(failed, lava, strict=True)]},
        },
    }  # fmt: skip


def _numbers(rewards, ink, size):
    """The numbers of the answers on the board, beside their points."""
    places = {}
    for i, vector in enumerate(rewards):
        if vector[0] > 0:
            places.setdefault((float(vector[1]), float(vector[2])), []).append(str(i + 1))
    return {
        "x": [x for x, _ in places], "y": [y + 0.055 for _, y in places],
        "text": [f"<b>{','.join(n)}</b>" for n in places.values()], "textfont": {"size": size + 2, "color": ink},
    }  # fmt: skip


def _dots(view, rewards):
    """The weightings on the triangle gold - diamond - no lava, each in the colour of the answer that it likes best.

    All answers that reach E complete alike, so who wins among them depends on the other three weights alone, and their
    shares of the rest are again Dirichlet distributed: the triangle loses nothing.
    """
    W = view.weightings()
    rest = W[:, 1:] / np.maximum(W[:, 1:].sum(axis=1, keepdims=True), 1e-12)
    won = winners(rewards, W)
    return {
        "a": rest[:, 0].tolist(), "b": rest[:, 1].tolist(), "c": rest[:, 2].tolist(),
        "marker": {
            "color": [ROUTE_COLOURS[i % len(ROUTE_COLOURS)] for i in won], "symbol": [_MARKERS[i % len(_MARKERS)] for i in won],
            "size": 6 if len(W) > 200 else 9, "opacity": 0.8, "line": {"width": 0.8, "color": "#FFFFFF"},
        },
    }  # fmt: skip


_MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down")


def _layout(width, large, dark):
    """Places and looks, top key by top key; two by two, or one below the other where it is narrow."""
    ink, grid, paper = ("#EEEEEE", "#444444", "#111111") if dark else ("#222222", "#E2E2E2", "#FFFFFF")
    size, columns = (20 if large else 15), (2 if width >= (820 if large else 600) else 1)
    cell, left, right, top, gap_x, gap_y = (330 if large else 240), 70, 18, 74, 84, 92
    rows = 4 // columns
    height = top + rows * cell + (rows - 1) * gap_y + 50
    inner_w, inner_h = width - left - right, height - top - 50
    legend = {"orientation": "h", "x": 0, "y": 1 + (top - 8) / inner_h, "yanchor": "top", "itemsizing": "constant"}
    layout = {
        "width": width, "height": height, "font": {"size": size, "color": ink}, "paper_bgcolor": paper, "plot_bgcolor": paper,
        "margin": {"l": left, "r": right, "t": top, "b": 50}, "legend": legend | {"font": {"size": size}},
    }  # fmt: skip
    wide = (inner_w - (columns - 1) * gap_x) / columns
    titles = []
    for i in range(4):
        row, column = divmod(i, columns)
        x = [column * (wide + gap_x) / inner_w, (column * (wide + gap_x) + wide) / inner_w]
        y = [1 - (row * (cell + gap_y) + cell) / inner_h, 1 - row * (cell + gap_y) / inner_h]
        titles.append({"x": x[0], "y": y[1], "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
                       "yshift": 6, "showarrow": False, "font": {"size": size + 2}})  # fmt: skip
        if i == 1:
            corner = {"ticks": "", "showticklabels": False, "showgrid": False, "linecolor": ink, "linewidth": 2}
            inside = {"x": [x[0] + 0.02, x[1] - 0.02], "y": [y[0], y[1] - 0.04]}
            layout["ternary"] = {"domain": inside, "sum": 1, "bgcolor": paper}
            for axis, text in zip("abc", ("gold", "diamond", "no lava"), strict=True):
                layout["ternary"][f"{axis}axis"] = corner | {"title": {"text": f"<b>{text}</b>"}}
            continue
        n = {0: "", 2: "2", 3: "3"}[i]
        common = {"gridcolor": grid, "zeroline": False, "linecolor": ink}
        names = ("step", "") if n else ("gold", "diamonds")
        for letter, span, other, text in (("x", x, "y", names[0]), ("y", y, "x", names[1])):
            title = {"text": text, "standoff": 4}
            layout[f"{letter}axis{n}"] = common | {"domain": span, "anchor": f"{other}{n}", "title": title}
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"range": [-0.22, 1.25], "tickvals": [0, 0.5, 1]}
    layout["annotations"] = titles
    return layout


# ---- the panel ---------------------------------------------------------------------------------------------------------

SIDE_BY_SIDE = (("vpo", "grpo"), ("vpo", "grpo", "multi_rlvr"))
WORDS = {"idle": "ready", "running": "training", "finished": "finished", "failed": "failed", "stopped": "stopped",
         "paused": "paused", "stopping": "stopping", "recorded": "a recording"}  # fmt: skip
CURVE_CHOICES = list(CURVES)


def _guarded(action):
    """A callback whose errors appear in the panel: nobody sees the traceback of a callback."""

    @functools.wraps(action)
    def call(self, *arguments):
        try:
            return action(self, *arguments)
        except Exception as error:
            self.lab._fail(error)

    return call


class Controls:
    """The knobs and buttons. A callback changes the lab's settings or leaves a request, and returns."""

    def __init__(self, lab, act):
        self.lab, self._act = lab, act
        wide, style = widgets.Layout(width="340px"), {"description_width": "105px"}

        def knob(kind, name, description, *, hint="", **options):
            made = kind(description=description, layout=wide, style=style, tooltip=hint or description, **options)
            made.add_class(f"vpo-{name}")
            made.observe(lambda change: act(self._turn, name, change["new"]), "value")
            return made

        methods = [(look(m)[0], (m,)) for m in METHODS]
        together = [names for names in dict.fromkeys([*SIDE_BY_SIDE, lab.methods]) if len(names) > 1]
        methods[3:3] = [(" + ".join(look(m)[0] for m in names), names) for names in together]
        c = lab._config
        log = {"base": 10, "readout_format": ".2g"}
        K = sorted({*(2**i for i in range(9)), c.K})
        sizes = sorted({4, 8, 16, 32, c.group_size})
        self.knobs = {
            "methods": knob(widgets.Dropdown, "methods", "Method", options=methods, value=lab.methods),
            "alpha": knob(widgets.FloatLogSlider, "alpha", "α (weightings)", min=-1.3, max=1.3, step=0.05, value=c.alpha, **log,
                          hint="Dirichlet concentration: small = one objective counts, large = all count alike"),
            "K": knob(widgets.SelectionSlider, "K", "K weightings", value=c.K,
                      options=[("∞" if k == math.inf else f"{k:g}", k) for k in sorted({*K, math.inf})]),
            "m": knob(widgets.IntSlider, "m", "m answers", min=1, max=5, value=c.m),
            "group_size": knob(widgets.SelectionSlider, "group_size", "group size G", options=sizes, value=c.group_size),
            "lr": knob(widgets.FloatLogSlider, "lr", "learning rate", min=-4.3, max=-2, step=0.05, value=c.lr, **log),
            "steps": knob(widgets.IntSlider, "steps", "steps", min=1, max=max(100, c.steps), value=c.steps),
            "seed": knob(widgets.BoundedIntText, "seed", "seed", min=0, max=2**31 - 1, value=c.seed),
            "many": knob(widgets.Dropdown, "many", "train on", value=lab.many,
                         options=[("this maze", False), ("many mazes", True)]),
        }
        self.buttons = {}
        for name, text, icon, request, hint in (
            ("train", "Train", "play", lab.train, "start, or go on after a pause"),
            ("pause", "Pause", "pause", lab.pause, "finish this step; Train goes on"),
            ("stop", "Stop", "stop", lab.stop, "finish this step; Train starts again from step 1"),
            ("reset", "Reset", "undo", lab.reset, "forget the runs; same maze, same seed"),
            ("new_maze", "New maze", "random", lab.new_maze, "the next maze"),
            ("step", "One step", "step-forward", lab.step, "one step, then pause"),
            ("reseed", "Reseed", "refresh", lab.reseed, "forget the runs; same maze, next seed"),
        ):
            button = widgets.Button(description=text, icon=icon, tooltip=hint, layout=widgets.Layout(width="auto"))
            button.add_class(f"vpo-{name}")
            button.on_click(lambda _, request=request: act(request))
            self.buttons[name] = button
        self.buttons["train"].button_style = "primary"
        self.curves = [
            widgets.Dropdown(description=f"curve {i}", options=CURVE_CHOICES, value=value, layout=wide, style=style)
            for i, value in enumerate((COVERAGE, DIVERSITY), start=1)
        ]
        self.large = widgets.Checkbox(description="large (projector)", indent=False)
        self.front = widgets.Checkbox(description="true front's routes on the board", indent=False)
        self.look = widgets.IntSlider(description="look at step", min=1, max=1, value=1, layout=wide, style=style)
        self._play = widgets.Play(min=1, max=1, value=1, interval=350, show_repeat=False, description="play the run again")
        self._play.observe(lambda change: act(self._play_on, change["new"]), "value")
        self.code = widgets.Text(description="share code", continuous_update=False, layout=wide, style=style)
        self.code.observe(lambda change: act(self._load, change["new"]), "value")
        for name, made in (("large", self.large), ("front", self.front), ("look", self.look), ("code", self.code)):
            made.add_class(f"vpo-{name}")
        for made in (*self.curves, self.large):
            made.observe(lambda _: act(lab._changed), "value")
        self.front.observe(lambda change: act(lab.show_front, change["new"]), "value")
        self.look.observe(lambda change: act(self._look, change["new"]), "value")
        self.more = widgets.ToggleButton(description="More", icon="sliders", layout=widgets.Layout(width="auto"))
        self.more.add_class("vpo-more")
        k = self.knobs
        rest = [k[n] for n in ("K", "m", "group_size", "lr", "steps", "seed", "many")]
        again = [self.buttons["step"], self.buttons["reseed"]]
        self._rest = _row([*rest, *self.curves, self.code, *again, self.large, self.front])
        self._time = _row([self._play, self.look])
        self._rest.layout.display = "none"
        self.more.observe(lambda change: setattr(self._rest.layout, "display", "" if change["new"] else "none"), "value")
        first = [self.buttons[n] for n in ("train", "pause", "stop", "reset", "new_maze")]
        self.box = widgets.VBox([_row([k["methods"], k["alpha"]]), _row([*first, self.more]), self._rest, self._time])
        self._version, self._follower = lab.view().version, None

    def _turn(self, name, value):
        if not self._is_following():
            if name == "lr":
                value = float(f"{value:.3g}")
            if name == "alpha":
                value = float(f"{value:.4g}")
            named = {name: value} if name in ("methods", "many") else {"settings": {name: value}}
            self.lab._change(**{"methods": None, "many": None, "settings": {}} | named, outside=False)

    def _is_following(self):
        """Whether this very thread is setting the knobs; what a person turns meanwhile, in another thread, counts."""
        return self._follower == threading.get_ident()

    def _load(self, code):
        if not self._is_following() and code.strip() != self.lab.share():
            self.lab.load(code)

    def _play_on(self, step):
        if not self._is_following():
            self.look.value = step

    def _look(self, step):
        if not self._is_following() and self.lab.state not in ("running", "stopping"):
            self.lab._look_at(step if step < self.look.max else None, outside=False)

    def follow(self, view):
        """Bring buttons and, after a change from outside, the knobs to the view."""
        busy, b = view.state in ("running", "stopping"), self.buttons
        _set(b["train"], description="Train anew" if view.restart else "Go on" if view.state == "paused" else "Train",
             disabled=view.state == "stopping" or (view.state == "running" and not view.restart))  # fmt: skip
        _set(b["pause"], disabled=view.state != "running")
        _set(b["stop"], disabled=view.state not in ("running", "paused"))
        _set(b["step"], disabled=busy)
        steps = max([len(run.records) for run in list(self.lab.runs.values())], default=1)
        self._follower = threading.get_ident()
        try:
            at, most = steps if self.lab._look is None else self.lab._look, max(steps, 1)
            if not self.lab._look or busy or view.version != self._version:
                _set(self.look, min=1, max=max(most, self.look.max))
                _set(self.look, value=max(at, 1))
                _set(self.look, max=most)
                _set(self._play, max=most, value=most)
            _set(self._time.layout, display="none" if busy or steps < 2 else "")
            _set(self.code, value=self.lab.share())
            if view.version != self._version:
                self._version, c = view.version, view.config
                now = {name: getattr(c, name) for name in self.knobs if hasattr(c, name)}
                for name, value in (now | {"methods": view.methods, "many": view.many}).items():
                    self._put(self.knobs[name], value)
        finally:
            self._follower = None

    def _put(self, knob, value):
        """A value into a knob, which learns it if it does not know it."""
        if hasattr(knob, "options"):
            known = [o[1] if isinstance(o, tuple) else o for o in knob.options]
            if value not in known:
                text = " + ".join(look(m)[0] for m in value) if isinstance(value, tuple) else f"{value:g}"
                knob.options = [*knob.options, (text, value)]
        elif hasattr(knob, "max") and not hasattr(knob, "base") and value > knob.max:
            knob.max = value
        _set(knob, value=value)


def _row(children):
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap", grid_gap="2px 14px"))


def _set(widget, **values):
    for name, value in values.items():
        if getattr(widget, name) != value:
            setattr(widget, name, value)


def status_line(view):
    """State, step, and time left, in words."""
    runs = [run for run in view.runs if run[0] in view.active]
    what = " + ".join(look(m)[0] for m in (view.active if runs else view.methods))
    where = "many mazes" if view.many else f"maze {view.maze_seed}" if view.maze_seed is not None else "your maze"
    parts = [f"<b>{what}</b>", WORDS[view.state], f"{where}, {view.seen_maze.budget} moves, seed {view.config.seed}"]
    done = [len(records) for _, records, _ in runs]
    if any(done):
        parts.insert(2, f"step {max(done)} of {max(view.config.steps, max(done))}")
        pace = sum(float(np.mean([r.seconds for r in records[-5:]])) for _, records, _ in runs if records)
        if view.state == "running":
            parts.insert(3, f"about {pace * (view.config.steps - min(done)):.0f} s left ({pace:.1f} s a step)")
    line = " · ".join(parts)
    if view.restart:
        line += f"<br>Changed: {html.escape(view.restart)}. That needs a fresh run: <b>Train anew</b> does it."
    elif view.message:
        line += f"<br>{html.escape(view.message)}"
    if view.error:
        line += f'<br><span style="color:#D1362F;font-weight:600">{html.escape(view.error)}</span> (traceback: lab.last_error)'
    return line


def _emphasised(text):
    """The sentence as HTML: the first words of a line in bold."""
    lines = [re.sub(r"^([^:]+, step \d+:)", r"<b>\1</b>", html.escape(line)) for line in text.splitlines()]
    return "".join(f'<p style="margin:0 0 6px">{line}</p>' for line in lines)


class Panel:
    """Board, plots and controls as live widgets. ``draw`` is called by the one drawing thread."""

    pause = 0.0  # least seconds between two drawings, beyond the renderer's own

    def __init__(self, lab):
        self.lab, self._drawing, self._last = lab, threading.Lock(), -math.inf
        self.controls = Controls(lab, self.act)
        self.status, self.words = widgets.HTML(), widgets.HTML()
        self.progress = widgets.FloatProgress(min=0, max=1, layout=widgets.Layout(width="auto", height="10px"))
        for name, made in (("status", self.status), ("words", self.words), ("progress", self.progress)):
            made.add_class(f"vpo-{name}")
        self.box = widgets.VBox([self.controls.box, self.status, self.progress, *self._pictures()])
        self.box.add_class("vpo-lab")
        self.draw()

    @_guarded
    def act(self, request, *arguments):
        self.lab._error = ""
        request(*arguments)

    def draw(self):
        """Bring everything to the lab's present state."""
        if time.monotonic() - self._last < self.pause:
            return _renderer.wake(self)
        with self._drawing:
            try:
                view = self.lab.view()
                self._draw(view, board_groups(view), self.controls.large.value)
                self._write(view, 20 if self.controls.large.value else 15)
            except Exception as error:
                self.lab.last_error = "".join(traceback.format_exception(error))
                self.status.value = f"<b>The panel cannot be drawn:</b> {html.escape(str(error))} (traceback: lab.last_error)"
            self._last = time.monotonic()

    def _write(self, view, size):
        self.controls.follow(view)
        role = f'<div role="status" style="line-height:1.4;font-size:{size}px">'
        _set(self.status, value=f"{role}{status_line(view)}</div>")
        _set(self.words, value=f"{role}{_emphasised(sentence(view))}</div>")
        done = [len(records) for method, records, _ in view.runs if method in view.active]
        _set(self.progress, value=sum(done) / (len(done) * max(view.config.steps, *done)) if any(done) else 0.0)

    def _pictures(self):
        from .board import MazeBoard

        self.board = MazeBoard(editable=True)
        self.board.observe(lambda change: self.act(self._paint, change["new"]), "edit")
        self.board.observe(lambda change: self.act(self.lab._changed), ["room", "dark", "ready"])
        self.plots = Plots(go.FigureWidget)
        right = widgets.VBox([self.words, self.plots.figure])
        right.layout.overflow = self.board.layout.overflow = "visible"
        return [_row([self.board, right])]

    def ask_whether_seen(self):
        """The page may just be dropping this panel (its cell was run again): hold the plots until the board answers."""
        self.board.ready = False

    def _paint(self, edit):
        try:
            self.lab.set_maze(edit["text"])
            self.board.note = ""
        except ValueError as error:
            self.board.note = str(error).removeprefix("text: ")

    def _draw(self, view, groups, large):
        from .board import describe

        room = (self.board.room or 960) - 8
        beside = room >= 860 and len(groups) <= 2
        left = min({1: 330, 2: 270}.get(len(groups), 290 * len(groups)) * (1.25 if large else 1), room)
        right = int(room - left - 16) if beside else room
        with self.board.hold_sync():
            _set(self.board, text=view.seen_maze.text, groups=groups, large=large, description=describe(view.seen_maze, groups))
        _set(self.board.layout, width=f"{left:.0f}px")
        _set(self.words.layout, width=f"{right}px", min_height="84px")
        curves = tuple(c.value for c in self.controls.curves)
        if not self.board.ready:  # the plots are about to appear; they take changes from then on
            return
        self.plots.draw(view, width=right, large=large, dark=self.board.dark, curves=curves)
        figure = self.plots.figure  # what a browser reload shows: plotly would go back to the first state
        figure._widget_data = [trace.to_plotly_json() for trace in figure.data]
        figure._widget_layout = figure.layout.to_plotly_json()

    def display(self):
        display(self.box)

    def close(self):
        for made in (self.box, self.board, self.plots.figure):  # first off the page
            made.close()


class PlainPanel(Panel):
    """The same panel without custom widgets: the maze as a picture, the figure drawn anew once a second."""

    pause = 1.0

    def _pictures(self):
        self.plots, self.maze, self._handle = Plots(go.Figure), widgets.HTML(), None
        return [self.maze, self.words]

    def ask_whether_seen(self):
        """Nothing to ask: a picture can always be changed."""

    def _draw(self, view, groups, large):
        parts = []
        for drawn in groups:
            picture = envs.drawing.svg(view.seen_maze, drawn["moves"], width=420 if large else 330)
            parts.append(f"<div><b>{html.escape(drawn['title'])}</b><br>{picture}</div>")
        _set(self.maze, value=f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(parts)}</div>')
        changed = self.plots.draw(view, large=large, curves=tuple(c.value for c in self.controls.curves))
        if changed and self._handle is not None:
            self._handle.update(self.plots.figure)

    def display(self):
        display(self.box)
        self._handle = display(self.plots.figure, display_id=True)

    def close(self):
        self.maze.close()
        self.box.close()


def board_groups(view):
    """The drawings of the board: one for each run that is shown, or the true front."""
    from .board import group

    front = (None, view.front.routes[: len(ROUTE_COLOURS) + 1], view.front.rewards[: len(ROUTE_COLOURS) + 1])
    sets = view.on_board()
    if sets[0][0] is None:
        sets = [front]
    elif view.front_too:
        sets = [*sets, front]
    out = []
    for method, routes, rewards in sets:
        title, colour = ("true front", "") if method is None else look(method)[:2]
        if method is not None:
            title += f": a typical set of {len(routes)}"
        out.append(group(view.seen_maze, title, routes, shares=view.shares(rewards), colour=colour, thin=method is None))
    return out
