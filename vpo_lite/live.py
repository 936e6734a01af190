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
import json
import math
import os
import sys
import threading
import traceback
import weakref
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import plotly.graph_objects as go

import envs

from . import metrics
from .estimators import METHODS
from .objective import exact_set_reward, exact_shares, sample_weights, winners
from .panel import Panel, PlainPanel, renderer, sentence
from .plots import MOST_RUNS, Plots
from .randomness import generator
from .tasks.base import group_key
from .tasks.maze import MazeTask
from .training.config import TrainConfig

AT_ONCE = ("alpha", "K", "m", "group_size", "prompts", "lr", "steps")  # act from the next step of a run under way
DEMONSTRATION = range(1000, 2000)  # seeds of the mazes that New maze goes through (all held out from training)
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
        sets = metrics.as_sets(pool, config.compared_size)
        size = sets.shape[1]
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

    @property
    def ceilings(self):
        """Coverage of the best one, two, three answers that the lab's own maze has."""
        return _ceilings(self.maze, self.config.reward_mode)

    def on_board(self):
        """The sets to draw: (method or None for the true front, routes, rewards)."""
        sets = [(method, moments[-1].answers, moments[-1].rewards) for method, _, moments in self.on_show()]
        return sets or [(None, self.front.routes, self.front.rewards)]

    def weightings(self):
        """The K weightings (K, d) that the step on the board drew at the settings of now; with K = infinity 512 of them, to
        look at."""
        step = self.focus[1].step - 1 if self.focus else 0
        key = group_key(MazeTask(), self.seen_maze, 0)
        count = 512 if self.config.K == math.inf else self.config.K
        rng = generator(self.config.seed, "weights", step, key)
        return sample_weights(count, len(envs.OBJECTIVES), self.config.alpha, rng=rng)

    def shares(self, rewards):
        """How often each of the answers wins: under the K weightings, or exactly with K = infinity."""
        if self.config.K == math.inf:
            return exact_shares(rewards, self.config.alpha)
        return np.bincount(winners(rewards, self.weightings()), minlength=len(rewards)) / self.config.K


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
            renderer.wake(self._panel)

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
