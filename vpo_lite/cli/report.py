"""``vpo-lite report``: what a reward vector offers VPO, from answers of a policy or from a file."""

import dataclasses
import os
from functools import partial

import numpy as np

from ..checks import check_alpha, printable, told_of
from ..markup import count, in_lines
from ..messages import shown_path
from ..options import numbers_of
from ..tasks.records import told_before
from ..tasks.task_errors import is_ours
from .flags import (
    OF_A_PAGE,
    Wrong,
    add_number,
    add_settings,
    given_settings,
    path,
    print_json,
    progress,
    requests,
    say,
)
from .told import (
    HARDLY_WRITES,
    LEAST_READ,
    tell_of_records,
    warn_of_equal_problems,
    warn_of_one_problem,
)

PROBLEMS, ANSWERS = 32, 100  # fewer answers miss what the policy seldom writes
# Of a run's settings, those that say which answers are sampled
SETTINGS = ("task", "model", "m", "alpha", "max_new_tokens")
SETTINGS += ("dtype", "load_in", "seed", "device", "threads")


def flags(made, arguments) -> None:
    made.add_argument(
        "--rewards",
        type=path,
        metavar="FILE",
        help="rewards that you have; the report is about these, not about a task: FILE.npy, or "
        "FILE.json with lists, of shape (P, G, m, d), (P, n, d) or (n, d)",
    )
    made.add_argument(
        "--worst",
        nargs="+",
        metavar="X",
        help="with --rewards: the d rewards of a missing answer, or one for all, such as "
        "--worst=-1,-2 (default: 0)",
    )
    add_number(
        made, "--problems", f"held-out problems (default: {PROBLEMS}, or all where there are fewer)"
    )
    add_number(made, "--answers", f"answers sampled for each problem (default: {ANSWERS})")
    add_number(
        made,
        "--show",
        "also print the first request, and N completions with what their answers earn "
        "(default: 0, or 1 if no answer could be read)",
    )
    made.add_argument("--html", type=path, metavar="FILE", help="also write the report as a page")
    made.add_argument("--json", action="store_true", help="print all figures as JSON, without bar")
    add_settings(made, arguments, _settings(), "demo")


def _settings():
    from ..training.config import TrainConfig

    return tuple(option for option in TrainConfig.options() if option.name in SETTINGS)


def run(options) -> int:
    if options.html:
        with requests():
            from ..pages import check_page

            check_page(options.html)
    if options.rewards is not None:
        return _of_a_file(options)
    if options.worst is not None:
        raise Wrong("--worst: only with --rewards; a task knows its own")
    return _of_a_task(options)


def _of_a_file(options) -> int:
    from ..decomposition import read_rewards, reward_report

    with requests():
        given = given_settings(_settings(), options)
        alpha = check_alpha(given.pop("alpha", 1.0))
        given |= {
            n: v for n in ("problems", "answers", "show") if (v := getattr(options, n)) is not None
        }
        if given:
            raise Wrong(
                f"--rewards {options.rewards}: settings other than --alpha do not apply; leave out "
                f"{', '.join(sorted(given))}"
            )
        R = read_rewards(options.rewards)
        bar = _bar(options, "measuring")
        worst = None if options.worst is None else numbers_of("worst", ",".join(options.worst))
        if worst is not None and len(worst) == 1:  # one for all objectives
            worst = worst[0]
        with told_of(shown_path(options.rewards)):
            report = reward_report(R, worst=worst, alpha=alpha, progress=bar)
    told = f"{count(report.answers, 'answer')} to {count(report.problems, 'problem')}"
    head = f"{options.rewards}: {told}."
    return _tell(options, report, {"rewards": str(options.rewards)}, head)


def _bar(options, what: str):
    """A function that shows a bar for a loop over problems."""
    return partial(progress, desc=what, unit="problem", disable=options.json, delay=2, leave=False)


def _tell(options, report, figures: dict, head: str, more=(), seen=()) -> int:
    """Print the report, or all its figures as JSON, and then write the page that was asked for:
    what took long to sample is not lost where that fails. Returns the exit status.

    head, more, seen: as in :func:`vpo_lite.pages.write_rewards`
    """
    if options.json:
        print_json(figures | report.to_json())
    else:
        print("\n\n".join([head, str(report), *map(in_lines, more), *seen]))
    if options.html:
        from ..pages import write_rewards

        try:
            write_rewards(report, options.html, head=head, more=more, seen=seen)
        except ValueError as error:
            return say(error, 1)
        if not options.json:
            print(f"\n{options.html}: {OF_A_PAGE}")
    return 0


def _of_the_run(chosen: dict) -> dict:
    """The settings of the run whose folder is named as the model, where no task is: its task, and
    what its policy was asked for.
    """
    from ..estimators import METHODS
    from ..training.folders import METRICS, RunFolder

    if "task" in chosen or not os.path.isfile(os.path.join(chosen.get("model", ""), METRICS)):
        return {}
    run = RunFolder.open(chosen["model"]).config()
    kept = ("task", "alpha", "max_new_tokens", "dtype", "load_in")
    kept += ("method",) * METHODS[run.method].weight_in_prompt  # which shows weights
    asked = {"m": run.answers, "task_options": run.task_options}
    return {name: getattr(run, name) for name in kept} | asked


def _of_a_task(options) -> int:
    with requests():
        from ..policy.loading import load_policy
        from ..training.answers import BY_CHANCE, by_chance, differing, same_effect_rate
        from ..training.config import TrainConfig
        from ..training.contract import below_worst, check_early_problems
        from ..training.evaluate import check_answers, held_out_seeds
        from ..training.watch import faults

        chosen = given_settings(_settings(), options)
        config = TrainConfig.preset("demo", **_of_the_run(chosen) | chosen)
        warn_of_one_problem(config, chosen)
        task = config.make_task()
        task.check_machine()
        answers = ANSWERS if options.answers is None else options.answers
        check_answers(answers)
        if options.show is not None and options.show < 0:
            raise Wrong(f"--show {options.show}: must be 0 or more")
        seeds = held_out_seeds(task, options.problems)
        seeds = seeds[:PROBLEMS] if options.problems is None else seeds
        if options.problems:
            warn_of_equal_problems(task, options.problems)
        policy = load_policy(
            config.base_model, device=config.device, dtype=config.dtype, load_in=config.load_in
        )
        task.check_policy(config.answers, policy.pocket)
        check_early_problems(task, config.answers, policy.pocket)
    report, front, pools = _examine(policy, task, config, seeds, answers, options)
    head = (
        f"{config.base_model} on task {task.name!r}: {count(answers, 'answer')} to each of "
        f"{count(len(seeds), 'held-out problem')}, seed {config.seed}."
    )
    form = {
        "parse_rate": float(np.mean([x.parsed.mean() for x in pools])),
        "truncated_rate": float(np.mean([x.truncated.mean() for x in pools])),
    }
    ours = policy.pocket is not None
    head += _of_the_form(**form, more=config.max_new_tokens or not ours, ours=ours)
    more = [_of_the_front(front)] if front else []
    below = float(np.mean([below_worst(task, x.instance, x.rewards) for x in pools]))
    odd = {"below_worst_rate": below, "above_front_rate": front and front["above"]}
    odd["same_effect_rate"] = same_effect_rate(task, map(differing, pools))
    more += [f"{said}." for said in faults(task, odd).values()]
    if options.json:
        tell_of_records(config)
    else:
        more += told_before(task, config.task)
    unread = not any(x.parsed.any() for x in pools)
    seen = _seen(task, pools[0], unread if options.show is None else options.show)
    figures = {"task": config.task, "model": config.base_model, "seed": config.seed}
    figures |= {"true_front": front, "below_worst_rate": below} | form
    figures |= {"none": dict(task.reward_functions.nones)} if task.reward_functions else {}
    figures["by_chance"] = by_chance(task, pools[0])
    if figures["by_chance"]:
        more.append(f"{BY_CHANCE[0].upper()}{BY_CHANCE[1:]}.")
    return _tell(options, report, figures, head, more, seen)


def _examine(policy, task, config, seeds, answers, options):
    """The report on sampled answers, what few of them cover of the true fronts, or None, and the
    answers.
    """
    from ..decomposition import reward_report
    from ..policy.threads import torch_threads
    from ..tasks import Task
    from ..training.contract import objectives_of, w_star_of, worst_of
    from ..training.evaluate import sample_pools
    from ..training.memory import enough_memory

    instances = [task.instance(seed) for seed in seeds]
    with torch_threads(config.threads), enough_memory(config):
        sampled = sample_pools(policy, task, config, instances, answers, config.seed)
        pools = list(_bar(options, "sampling")(sampled, total=len(seeds)))
    rewards, _, _, valid, _ = zip(*(x.pooled(answers) for x in pools), strict=True)
    names = [objectives_of(task, x) for x in instances]
    # A task may give less than its worst vector, too
    worst = [
        np.minimum(worst_of(task, x), r.min(0)) for x, r in zip(instances, rewards, strict=True)
    ]
    common = dict(w_star=[w_star_of(task, x) for x in instances], worst=worst, alpha=config.alpha)
    report = reward_report(
        rewards,
        None if type(task).valid is Task.valid else valid,  # by default it says no more than R
        **common,
        objectives=names[0] if len(set(names)) == 1 else None,
        progress=_bar(options, "measuring"),
    )
    cure = "" if is_ours(task) else "define `valid(instance, rewards)` in the class of your task"
    report = dataclasses.replace(report, valid_cure=cure)
    return report, _true_front(task, config.alpha, instances, rewards, worst), pools


def _true_front(task, alpha, instances, rewards, worst) -> dict | None:
    """Coverage of the true fronts: of their best 1, 2, 3 answers, and of all sampled ones."""
    from ..metrics import coverage, price_of_conflict
    from ..training.contract import NO_FRONT, above_front, blamed, front_of

    fronts = [front_of(task, x) for x in instances]
    if any(front is None for front in fronts):
        return None
    with blamed(task, "front(instance)", NO_FRONT):
        fronts = [f - low for f, low in zip(fronts, worst, strict=True)]
        pools = [pool - low for pool, low in zip(rewards, worst, strict=True)]
        best = [price_of_conflict(front, alpha=alpha) for front in fronts]
        above = list(map(above_front, fronts, pools))
        sampled = [coverage(*both, alpha) for both in zip(pools, fronts, strict=True)]
    return {
        "coverage": {m: float(np.mean([one[m] for one in best])) for m in best[0]},
        "sampled": float(np.mean(sampled)),
        "above": float(np.mean(above)),
    }


def _of_the_form(parse_rate: float, truncated_rate: float, more, ours: bool) -> str:
    """What the reader must know before the figures: how few answers are read, why, and what helps.

    more: whether a higher token limit may help: not where it holds a small policy's longest answers
    ours: whether the policy is a small one of this kit, which was taught the form

    >>> _of_the_form(0.25, 0.0, True, False)
    ' Only 25% of the answers could be read; the others earned what a missing one earns.'
    """
    said = ""
    if parse_rate < 0.5:
        said = f" Only {parse_rate:.0%} of the answers could be read; the others earned what a "
        said += "missing one earns."
    if parse_rate < LEAST_READ and not ours:
        said += f" The model {HARDLY_WRITES}."
    if truncated_rate > 0.1 and more:
        said += f" {truncated_rate:.0%} of the rollouts were cut off at the token limit: raise "
        said += "--max-new-tokens."
    return said


def _seen(task, pool, count: int) -> list[str]:
    """The request of a pool, and the first completions to it with what their answers earn."""
    from ..training.contract import objectives_of

    names = objectives_of(task, pool.instance)
    parts = [f"The first request:\n\n{printable(pool.prompt.text)}"] if count else []
    for i, text in enumerate(pool.texts[: int(count)]):
        earned = [
            "cannot be read"
            if answer is None
            else ", ".join(f"{n} {r:.3g}" for n, r in zip(names, rewards, strict=True))
            for answer, rewards in zip(pool.answers[i], pool.rewards[i], strict=True)
        ]
        lines = "\n".join(f"answer {j}: {one}" for j, one in enumerate(earned, 1))
        parts.append(f"Completion {i + 1}:\n\n{printable(text)}\n\n{lines}")
    return parts


def _of_the_front(front: dict) -> str:
    from ..decomposition.words import HARDLY, few, number

    text = (
        "This task knows its true front. Its coverage by the best of all possible answers: "
        f"{few(front['coverage'])}. All sampled answers together cover "
        f"{number(front['sampled'])} of it."
    )
    if front["sampled"] < HARDLY:
        text += " So part of the front was not sampled. Raise --answers, or use the true front's "
        text += "figures."
    return text
