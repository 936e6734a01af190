"""The same policies inside OpenEvolve, the open AlphaEvolve, without a network.

:class:`Islands` is OpenEvolve's own population as the archive of
:func:`vpo_lite.search.evolution.evolve`. A set of m answers then gives m children a call, and
budgets are counted as in `evolve`. :func:`run_stock` runs OpenEvolve's whole program, with a policy
in place of its language model client. OpenEvolve takes one child from each call. It is the optional
extra ``openevolve``, and is imported when one of the two is used.
"""

import contextlib
import importlib
import json
import logging
import os
import random
import re
import signal
from collections.abc import Callable, Iterable, Iterator, MutableSet
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from ..checks import check_whole
from ..files import write_atomically
from ..policy.loading import check_there, load_policy
from ..policy.shipped import description
from ..randomness import generator
from ..tasks.registry import make_task, task_name
from ..tasks.task_errors import Raised, TaskError
from ..tasks.wording import known_answers
from ..training.answers import score_answers
from ..training.contract import check_seed, objectives_of, worst_of
from ..training.rollouts import draw_uniforms, sample_answers, token_limits
from .archive import Archive, Elite
from .one_problem import beginning, written

INSPIRATIONS = 5  # sampled with each parent, as OpenEvolve does
START = "nothing yet"  # what the search begins from
CURRENT = re.compile(r"# Current Program\n```text\n(.*?)\n?```", re.DOTALL)
EVALUATOR = """from pathlib import Path

from vpo_lite.search.openevolve import metrics_of


def evaluate(program_path):
    return metrics_of({name!r}, {options!r}, {problem!r}, Path(program_path).read_text("utf-8"))
"""


def _openevolve(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"openevolve.{module}")
    except ImportError as error:
        raise ValueError(
            f"OpenEvolve cannot be imported ({error}); in the repository: "
            "pip install -e '.[openevolve]'"
        ) from error


# --- its population as an archive -----------------------------------------------------------------


class Islands(Archive):
    """OpenEvolve's islands as the archive of a search: ``evolve(..., archive=Islands)``.

    Every valid answer becomes a program of the island whose turn it is. Parents are drawn by
    OpenEvolve's rules: at random, from its archive, or by fitness. A call is a generation of one
    island. When one island has had ``migration_interval`` of them, the best programs of each island
    go to its neighbours. Elites, coverage and QD score are over all islands.

    - weights (d,), bins: as in :class:`Archive`. The islands have the same cells: OpenEvolve scales
      features by the range seen so far, so it gets the range 0 to 1 first, then cell centres.
    - islands, migration_interval: as in OpenEvolve
    - database: OpenEvolve's ProgramDatabase

    Raises ValueError where OpenEvolve is not installed.
    """

    def __init__(
        self, weights, bins: int | None = None, *, islands: int = 3, migration_interval: int = 10
    ):
        super().__init__(weights, bins)
        for name, value in (("islands", islands), ("migration_interval", migration_interval)):
            check_whole(value, name)
        names = _features(len(self.weights))
        config = _openevolve("config").DatabaseConfig(
            num_islands=int(islands),
            migration_interval=int(migration_interval),
            feature_dimensions=names,
            feature_bins=dict.fromkeys(names, self.bins),
            random_seed=None,
            log_prompts=False,
        )
        self.database = _openevolve("database").ProgramDatabase(config)
        # Its sets of random names have another order in every process, and it draws from them.
        self.database.islands = [_Ordered() for _ in range(islands)]
        self.database.archive = _Ordered()
        for name in names:
            self.database.feature_stats[name] = {"min": 0.0, "max": 1.0, "values": []}
        self.island = self._added = 0
        self._known: dict[str, Elite] = {}

    def add(self, answer: str, rewards) -> Elite | None:
        middles = (np.array(self.cell(rewards)) + 0.5) / self.bins
        rewards = np.array(rewards, dtype=float)
        elite = self._known[answer] = Elite(answer, rewards, float(self.weights @ rewards))
        self._added += 1
        features = dict(zip(_features(len(rewards)), middles.tolist(), strict=True))
        program = _openevolve("database").Program(
            id=str(self._added),
            code=answer,
            language="text",
            generation=self.database.island_generations[self.island],
            metrics={"combined_score": elite.score, **features},
        )
        self.database.add(program, target_island=self.island)
        return super().add(answer, rewards)

    def parents(self, rng, count: int = 1, fit: Callable[[str], bool] | None = None) -> list[Elite]:
        """A parent and its inspirations, in this order, at most ``count`` of those that fit."""
        if not self.database.islands[self.island]:
            return []
        with _random_from(int(rng.integers(2**63))):
            parent, others = self.database.sample_from_island(self.island, INSPIRATIONS)
        answers = dict.fromkeys(program.code for program in (parent, *others))
        return [self._known[a] for a in answers if fit is None or fit(a)][:count]

    def end_call(self) -> None:
        """Ends the island's generation, migrates when due, and moves to the next island."""
        self.database.increment_island_generation(self.island)
        if self.database.should_migrate():
            self.database.migrate_programs()
        self.island = (self.island + 1) % len(self.database.islands)


def _features(d: int) -> list[str]:
    return [f"reward_{i}" for i in range(1, d + 1)]


class _Ordered(MutableSet):
    """A set in the order in which its members came."""

    def __init__(self, members: Iterable[str] = ()):
        self._members = dict.fromkeys(members)

    def __contains__(self, member) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: str) -> None:
        self._members[member] = None

    def discard(self, member: str) -> None:
        self._members.pop(member, None)


@contextlib.contextmanager
def _random_from(seed: int) -> Iterator[None]:
    """Inside, Python's shared random stream begins at a seed; afterwards it is as it was."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


# --- its whole program ----------------------------------------------------------------------------


def run_stock(
    policy: str,
    task: str,
    problem: int,
    *,
    m: int,
    iterations: int,
    seed: int,
    folder,
    options: dict | None = None,
    islands: int = 3,
    max_new_tokens: int | None = None,
):
    """Run OpenEvolve's own program on one problem. Returns its EvolutionResult: ``best_code`` is
    the best answer, ``best_score`` its w* . r; ``metrics`` has ``combined_score``, ``reward_1`` ..

    OpenEvolve starts a worker process, which loads the policy (seconds). A file in the folder
    scores answers. A script that calls this needs code under ``if __name__ == "__main__"``.

    One call of OpenEvolve is one child. With m > 1 the policy is asked once for m children. The
    next m - 1 calls take the others, not grown from the parents that OpenEvolve chose for these
    calls. A child loses the blanks around it, and ends at three backticks. A run cannot be repeated
    exactly: OpenEvolve draws from sets whose order varies. :class:`Islands` has no such flaws.

    - policy: a name or a folder, as for ``load_policy``
    - task, options, problem: the task's name or class, its options, the seed of the problem
    - folder: for its logs, checkpoints and the best program
    - max_new_tokens: of a rollout of m answers; None: what they may need

    It restores random streams, environment variables, log and signal handlers. Ctrl-C ends it
    early, with what was found. Raises ValueError without OpenEvolve, or for unfit arguments.
    """
    limit = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    for name, value in (dict(m=m, iterations=iterations, islands=islands) | limit).items():
        check_whole(value, name)
    check_seed(seed)
    task, options, folder = task_name(task), dict(options or {}), Path(folder)
    made = make_task(task, options)
    made.check_machine()
    check_there(policy, download=True)
    made.check_policy(m, description(policy))
    config, instance = _openevolve("config"), made.instance(problem)
    names = _features(len(made.objectives(instance)))
    bins = Archive(made.w_star(instance)).bins
    folder.mkdir(parents=True, exist_ok=True)
    evaluator, start = folder / "evaluator.py", folder / "start.txt"
    judge = EVALUATOR.format(name=task, options=options, problem=problem)
    for path, text in ((evaluator, judge), (start, START)):
        if path.exists() and path.read_text("utf-8") != text:
            raise ValueError(f"{path}: is not this search's; name another folder")
        write_atomically(path, text)
    client = partial(PolicyClient, policy, task, json.dumps(options), problem, m, seed, **limit)
    model = config.LLMModelConfig(name="policy", init_client=client)
    grid = dict(feature_dimensions=names, feature_bins=dict.fromkeys(names, bins))
    once = dict(parallel_evaluations=1, cascade_evaluation=False, max_retries=0)
    settings = config.Config(
        max_iterations=iterations,
        log_level="WARNING",
        random_seed=seed,
        language="text",
        file_suffix=".txt",
        diff_based_evolution=False,
        max_tasks_per_child=10**6,  # a new process instead of a fork, which may hang with torch
        llm=config.LLMConfig(models=[model], evaluator_models=[model]),
        database=config.DatabaseConfig(num_islands=islands, log_prompts=False, **grid),
        evaluator=config.EvaluatorConfig(**once),
    )
    with _undone():
        return _openevolve("api").run_evolution(
            start, evaluator, settings, iterations, str(folder), cleanup=False
        )


class PolicyClient:
    """A policy as OpenEvolve's client of a language model. It loads the policy on its first call.

    Settings are those of :func:`run_stock`, the options as JSON.
    """

    def __init__(self, policy, task, options, problem, m, seed, config=None, max_new_tokens=None):
        self.model = f"policy {policy}"  # OpenEvolve looks it up
        self.last_usage = None
        self._settings = policy, task, options, problem, m, seed, max_new_tokens
        self._waiting, self._calls, self._loaded = [], 0, None

    async def generate(self, prompt: str, **settings) -> str:
        return await self.generate_with_context("", [{"role": "user", "content": prompt}])

    async def generate_with_context(self, system_message: str, messages, **settings) -> str:
        """The next answer, in the form that OpenEvolve reads; empty where it was malformed."""
        if not self._waiting:
            found = CURRENT.findall(messages[-1]["content"])
            self._waiting = self._written(found[-1].strip() if found else "")
        answer = self._waiting.pop(0)
        return f"```text\n{answer}\n```" if answer else ""

    def _written(self, parent: str) -> list[str | None]:
        name, task, options, problem, m, seed, limit = self._settings
        if self._loaded is None:
            made = make_task(task, json.loads(options))
            self._loaded = load_policy(name), made, made.instance(problem)
        policy, task, instance = self._loaded
        key = task.key(instance)
        self._calls += 1
        limits = token_limits(policy, task, m, [instance], limit)
        uniforms = draw_uniforms(1, limits, [(seed, "openevolve tokens", self._calls, key)])
        begins = parent in ("", START)  # no answer yet, so nothing that a task can write
        if policy.pocket is None:
            begun = dict(notes=["" if begins else _note(task, instance, parent)])
        else:
            text = "" if begins else written(task, instance, parent, policy.pocket)
            rng = generator(seed, "openevolve", self._calls, key)
            begun = dict(prefixes=[beginning(text, rng) if text else ""])
        (group,) = sample_answers(policy, task, [instance], m, uniforms, **begun).groups
        self.last_usage = {"completion_tokens": int(group.tokens[0])}
        return group.answers[0]


def _note(task, instance, parent: str) -> str:
    """The parent with its rewards, for a model that is asked in words; empty if it has none."""
    if (rewards := _rewards(task, instance, parent)) is None:
        return ""
    return known_answers(objectives_of(task, instance), [(task.write(instance, [parent]), rewards)])


def _rewards(task, instance, answer: str) -> np.ndarray | None:
    """The rewards (d,) of an answer; None if it is malformed."""
    try:
        return score_answers(task, [instance], [[[answer]]])[0][0, 0]
    except ValueError as error:
        cause = error.__cause__ if isinstance(error, Raised) else error
        if isinstance(cause, ValueError) and not isinstance(cause, TaskError):
            return None
        raise  # the scorer itself failed, such as for want of a sandbox


def metrics_of(name: str, options: dict, problem: int, answer: str) -> dict[str, float]:
    """What OpenEvolve measures an answer by: ``combined_score`` (w* . r) and the rewards.

    It is read as a policy's. A malformed one has the worst rewards, and so has a search's start.

    >>> metrics_of("programs", {"mode": "single"}, 0, "no program")["combined_score"]
    0.0
    """
    task = make_task(name, options)
    instance = task.instance(problem)
    read = [task.read(instance, answer)] if task.tagged_alone else task.parse(instance, answer, 1)
    rewards = None if answer == START else _rewards(task, instance, *read)
    rewards = worst_of(task, instance) if rewards is None else rewards
    named = dict(zip(_features(len(rewards)), map(float, rewards), strict=True))
    return {"combined_score": float(task.w_star(instance) @ rewards), **named}


@contextlib.contextmanager
def _undone() -> Iterator[None]:
    """Around a run of OpenEvolve: what it changes of the process is put back."""
    root, python, arrays = logging.getLogger(), random.getstate(), np.random.get_state()
    level, handlers, variables = root.level, list(root.handlers), dict(os.environ)
    signals = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        for number, handler in signals.items():
            signal.signal(number, handler)
        for handler in [h for h in root.handlers if h not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        random.setstate(python)
        np.random.set_state(arrays)
