"""Measuring a policy: a pool of answers for each problem."""

from collections.abc import Callable, Iterator, Sequence

from .. import estimators
from ..checks import is_whole, shown
from ..markup import count
from ..objective import sample_weights
from ..policy.policy import Policy
from ..policy.threads import torch_threads
from ..randomness import generator
from ..tasks.base import Task
from ..tasks.records import RecordTask
from .answers import Answers, merged
from .config import MOST_MEASURED, TrainConfig
from .contract import check_fit, check_request, check_seed, check_seeds
from .measure import gathered, means, pool_figures
from .problems import distinct_seeds
from .rollouts import draw_uniforms, sample_answers, token_limits
from .schemas import PER_PROBLEM

ROWS = 256  # completions sampled at a time, at most
PROBLEMS = 64  # measured where nobody asks for another number


def evaluate(
    policy: Policy,
    config: TrainConfig,
    *,
    problems: int | None = None,
    answers: int | None = None,
    seed: int | None = None,
    temperature: float = 1.0,
    task: Task | None = None,
    tell: Callable[[int, int], object] | None = None,
    keep: Callable[[Answers], object] | None = None,
) -> dict:
    """The figures of a policy: means over problems, from a pool of answers to each problem.

    - problems: how many, the first held-out ones that differ (:func:`held_out_seeds`); by default
      the config's ``eval_problems``. A run on one problem is evaluated on that problem
    - seed: of the sampling; by default that of the config
    - temperature: of the sampling, 0.01 to 100, whatever the config trained at
    - answers: in a pool; by default the config's ``eval_answers``. Rollouts hold one answer or m,
      and the pool is cut to this number
    - tell: called first, and after each problem, with the number of those that are done, and of all
    - keep: called with the `vpo_lite.training.answers.Answers` to each problem: texts, answers and
      rewards. They are whole rollouts, so there may be some answers more than ``answers``

    Every answer keeps its own reward vector, also a repeat. A set is one rollout, or ``set_size``
    consecutive single answers; with fewer ``answers`` than that, all of them. Answers that do not
    fill a last set count in all figures but set_reward and coverage: of 30 answers with m = 4 two.
    The dict holds

    - set_reward: mean over sets, K = infinity, at the run's alpha
    - coverage: mean over sets, at alpha = 1 (`metrics.coverage`); None unless every front is known
    - coverage_best_single: coverage of the best single answer there is; None without a known front
    - diversity: mean pairwise L1 distance among valid answers, 0 to d
    - diversity_all: the same among all answers
    - best_at_k {"1": ...}: best ``w* . r`` of k of the answers, mean over all such choices
    - best_of_rollout: best ``w* . r`` of a rollout's m answers, mean over rollouts: best@m as the
      paper draws it
    - any_at_k {"1": ...}: best_at_k under 50 held-out weights instead of w*, mean over them
    - pass_at_k {"1": ...}: probability that at least one of k answers is solved, unbiased
    - parse_rate, valid_rate, solved_rate, repeat_rate: shares of the answers
    - below_worst_rate: share of the answers that earn less than a missing one in some objective
    - above_front_rate: share of the answers that no point of the front reaches; 0 for a complete
      front, None without one
    - truncated_rate: share of the rollouts
    - objectives {name: mean}: empty where the names differ from problem to problem
    - reached {name: mean over problems}: the highest reward above that of a missing answer; empty
      there, too
    - spread {name: mean over problems}: the highest less the lowest reward among answers that could
      be read; empty there, too
    - tokens_per_answer: tokens sampled, per answer asked for
    - answers, problems: how many were measured
    - per_problem {figure: one value per problem; of best_at_k and any_at_k one such dict}: for
      intervals

    Raises ValueError for fewer than one problem or answer, for more problems than there are, for
    more than 2,000 answers, for a policy that does not fit the task, and for the name of a policy
    or a run in the place of policy or config.
    """
    check_config(config)
    task = task or config.make_task()
    check_fit(policy, task, config.answers)
    problems = config.eval_problems if problems is None else problems
    answers = config.measured_answers if answers is None else answers
    seed = check_seed(config.seed if seed is None else seed)
    check_answers(answers)
    temperature = check_temperature(temperature)
    instances = [task.instance(number) for number in held_out_seeds(task, problems)]
    limits = token_limits(policy, task, config.answers, instances, config.max_new_tokens)
    rows = []
    if tell is not None:
        tell(0, len(instances))
    with torch_threads(config.threads):
        pools = _pools(policy, task, config, instances, answers, seed, limits, temperature)
        for pool in pools:
            rows.append(pool_figures(task, config, pool, answers))
            if keep is not None:
                keep(pool)
            if tell is not None:
                tell(len(rows), len(instances))
    per_problem = {name: gathered([row[name] for row in rows]) for name in PER_PROBLEM}
    figures = means(rows)
    if len({tuple(row["objectives"]) for row in rows}) > 1:  # a name must mean the same everywhere
        figures |= {"objectives": {}, "reached": {}, "spread": {}}
    return figures | {"answers": int(answers), "problems": len(rows), "per_problem": per_problem}


def check_config(config) -> None:
    """ValueError for what is often given in its place: the name of a preset or a run."""
    if not isinstance(config, TrainConfig):
        raise ValueError(f"config = {shown(config)}: expected a TrainConfig")


def check_answers(answers: int) -> None:
    """ValueError unless answers is 1 to 2,000. Diversity compares all pairs, hence the limit."""
    if not is_whole(answers) or not 1 <= answers <= MOST_MEASURED:
        raise ValueError(f"answers = {shown(answers)}: must be 1 to {MOST_MEASURED:,}")


def check_temperature(temperature) -> float:
    """The number. ValueError for one that a config refuses."""
    (setting,) = (option for option in TrainConfig.options() if option.name == "temperature")
    return setting.check(temperature)


def check_eval_every(config: TrainConfig) -> None:
    """ValueError where ``eval_every`` is beyond the last step: nothing would be measured on the
    way.
    """
    if config.eval_every and config.eval_every > config.steps:
        raise ValueError(
            f"eval_every = {config.eval_every:,} with steps = {config.steps:,}: nothing would be "
            "measured before the end; lower eval_every, or train more steps"
        )


def held_out_seeds(
    task: Task, problems: int | None = None, name: str = "problems"
) -> Sequence[int]:
    """The seeds of the problems to measure on, as :func:`evaluate` says: each problem once, since
    an interval takes problems for independent draws (`distinct_seeds`). So there may be fewer than
    asked for. ValueError, with the name of their number, where there are fewer seeds.
    """
    check_seeds(task)
    seeds = task.seeds["held_out"]
    wanted = asked_for(task, problems)
    if not is_whole(wanted) or not 1 <= wanted <= len(seeds):
        more = ""
        if isinstance(task, RecordTask) and is_whole(wanted) and wanted > 1:
            named = "another" if task.held_out_data else "a file as"
            more = f"; more need a run with {named} --held-out-data"
        raise ValueError(
            f"{name} = {shown(wanted)}: of the {count(len(seeds), 'held-out problem')} of task "
            f"{task.name!r} give 1{f' to {len(seeds):,}' * (len(seeds) > 1)}{more}"
        )
    return distinct_seeds(task, "held_out", 1 if task.single else wanted)


def asked_for(task: Task, problems: int | None) -> int:
    """How many held-out problems this number asks for: None for 64, or all where there are fewer
    seeds.
    """
    return min(PROBLEMS, len(task.seeds["held_out"])) if problems is None else problems


def sample_pools(
    policy: Policy,
    task: Task,
    config: TrainConfig,
    instances,
    answers: int,
    seed: int,
    temperature: float = 1.0,
) -> Iterator[Answers]:
    """One pool of at least ``answers`` answers for each instance, in whole rollouts.

    The pools come one by one, so that a caller can show how far it is. Draws depend on the seed,
    the problem and its place in the list, so that a problem that is there twice gets two pools. At
    another place it gets other answers; a call for each problem prevents this. Raises ValueError at
    once for fewer than one answer or more than 2,000, for a negative seed, for a policy that does
    not fit the task, for an empty list, for seeds or one problem in the place of a list of
    problems, and for problems of another task.
    """
    check_config(config)
    check_request(policy, task, instances, config.answers)
    check_answers(answers)
    seed = check_seed(seed)
    limits = token_limits(policy, task, config.answers, instances, config.max_new_tokens)
    temperature = check_temperature(temperature)
    return _pools(policy, task, config, instances, answers, seed, limits, temperature)


def _pools(
    policy, task, config, instances, answers: int, seed: int, limits: list[int], temperature: float
) -> Iterator[Answers]:
    m = config.answers
    copies = -(-answers // m)
    # A large model samples no more at a time than in a training step, whose memory is stated.
    stated = config.sample_batch or config.prompts * config.group_size
    at_once = ROWS if policy.pocket else min(ROWS, stated)
    step = max(1, at_once // copies)
    for first in range(0, len(instances), step):
        batch = instances[first : first + step]
        keys = [(seed, "evaluation", first + i, task.key(x)) for i, x in enumerate(batch)]
        uniforms = draw_uniforms(copies, limits[first : first + step], keys)
        how = dict(temperature=temperature, at_once=at_once)
        if estimators.METHODS[config.method].weight_in_prompt:
            yield from _one_prompt_per_answer(policy, task, config, batch, keys, uniforms, how)
        else:
            yield from sample_answers(policy, task, batch, m, uniforms, **how).groups


def _one_prompt_per_answer(policy, task, config, batch, keys, uniforms, how: dict) -> list[Answers]:
    """Pools of a policy that is shown its weights: each answer has its own weights and prompt.

    how: as for :func:`sample_answers`
    """
    copies, tokens = uniforms.shape[1:]
    weights = []
    for x, (seed, _, i, key) in zip(batch, keys, strict=True):
        rng = generator(seed, "evaluation weights", i, key)
        weights += list(sample_weights(copies, len(task.objectives(x)), config.alpha, rng=rng))
    repeated, rows = [x for x in batch for _ in range(copies)], uniforms.reshape(-1, 1, tokens)
    how = how | {"weights": weights}
    groups = sample_answers(policy, task, repeated, config.answers, rows, **how).groups
    return [merged(groups[i : i + copies]) for i in range(0, len(groups), copies)]
