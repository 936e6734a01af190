"""What ``vpo-lite train`` says of a run, before its first step and after its last."""

import sys
import time

from ..markup import count
from ..options import flag_of
from ..tasks.record_files import told_parted
from ..tasks.records import RecordTask, told_before
from . import study_workers
from .flags import note

LOOKING, MOST_LOOKED_AT = 1.0, 100_000  # seconds, problems: whether one is measured, too
MOST_TOLD = 8  # objectives whose means are printed
LEAST_READ = 0.1  # share of answers that can be read; below it a model hardly writes the form
HARDLY_WRITES = (
    "rarely writes the requested format, so there is nothing to reinforce yet; try an instruct "
    "model or a larger one, supervised fine-tuning on the format, or more max_new_tokens"
)


def before_and_after(summary: dict) -> str:
    """
    >>> now, before = {"gold": 0.75, "lava": 1.0}, {"gold": 0.5, "lava": 0.25}
    >>> before_and_after({"objectives": now, "start": {"objectives": before}})
    'gold 0.500 > 0.750, lava 0.250 > 1.000'
    """
    now, before = summary["objectives"], summary["start"]["objectives"]
    told = [f"{name} {before[name]:.3f} > {value:.3f}" for name, value in now.items()]
    more = [f"and {len(told) - MOST_TOLD} more in summary.json"] * (len(told) > MOST_TOLD)
    return ", ".join([*told[:MOST_TOLD], *more])


def state_memory(run, quiet: bool) -> None:
    """Print the memory that training needs and the memory there is; cures if it is too little."""
    from ..training.memory import available_memory, cures, size

    need, config, device = run.memory(), run.config, run.learner.policy.device
    if need is None:
        return
    found, native = available_memory(device), run.engine.name == "native"
    line = f"memory: {need}"
    line += f" in each of {run.processes} processes" if run.processes > 1 else ""
    line += f"; {size(found)} available on {device}" if found else ""
    rows = config.micro_batch
    line += f"; {count(rows, 'rollout')} in one forward pass" if rows else ""
    line += f"; {config.sample_batch} sampled at a time" if config.sample_batch else ""
    if found and need.peak > found:
        note(f"{line}: this may not be enough; {', or '.join(cures(need, config, native))}")
    elif not quiet:
        print(line, file=sys.stderr)


def warn_of_unused(config, given) -> None:
    """Name the given settings that the run's method does not use, in one line, and in another the
    clips of a step that makes one update.

    A method of single answers does not use m. That is said only where m differs from set_size: its
    sets would differ in size from those of other methods.
    """
    from ..estimators import METHODS
    from ..training.method_settings import CLIPS, reads, unused

    given_in_vain = [name for name in unused(config) if name in given]
    if clips := ", ".join(flag_of(name) for name in given_in_vain if name in CLIPS):
        do = "do" if "," in clips else "does"
        note(f"{clips} {do} nothing in steps of one update: --mini-batches 1, --epochs 1")
    names = [name for name in given_in_vain if name not in CLIPS]
    if config.m == config.compared_size and "m" in names:
        names.remove("m")
    flags = [option.flag for option in config.options() if option.name in names]
    said = [f"does not use {', '.join(flags)}"] if flags else []
    if "m" in names:
        said.append(f"--set-size {config.m} measures it in sets of {config.m}")
    drawn = METHODS[config.method].weights != "none"  # with alpha
    if "alpha" in given and not drawn and not reads(config.method, "alpha"):
        said.append("--alpha changes only its measured set reward, not its training")
    if config.task_options.get("reward_weights") and not reads(config.method, "w_star"):
        said.append("--reward-weights changes only its measured best@k, not its training")
    if said:
        note(f"method {config.method}: {'; '.join(said)}")


def warn_of_one_problem(config, given: dict) -> None:
    """Name the given settings that do nothing where one problem is trained on, in one line."""
    task = config.make_task()
    if not task.single:
        return
    names = [name for name in task.unused if name in given]
    names += ["eval_problems"] * (given.get("eval_problems", 1) != 1)
    if flags := ", ".join(map(flag_of, names)):
        do = "do" if len(names) > 1 else "does"
        note(f"there is one {task.noun} to train on and to measure: {flags} {do} nothing")


def warn_of_requests(run) -> None:
    """Warn of requests that change with the date, or exceed what the model was made for."""
    from ..policy.positions import beyond
    from ..training.memory import lengths

    if not run.main:
        return
    policy = run.learner.policy
    if policy.pocket is None and "strftime_now" in str(policy.tokenizer.chat_template):
        note(
            f"the chat template of {run.config.base_model} writes today's date into each prompt: "
            "on another day the same command trains on other prompts"
        )
    prompt, new = lengths(policy, run.config, run.learner.task)
    if policy.positions and prompt + new > policy.positions:
        note(beyond(prompt, new, policy.positions, run.config.base_model))


def tell_of_records(*configs) -> None:
    """Say what is left out of the data files of runs with these settings, each file once."""
    asked = {repr((x.task, x.task_options)): x for x in configs}.values()
    for said in dict.fromkeys(said for x in asked for said in told_before(x.make_task(), x.task)):
        note(said)


def tell_of_parts(task) -> None:
    """Print how many records train and how many are held out, where no file names the latter."""
    if isinstance(task, RecordTask) and task.held_out_data is None:
        records = sum(len(task.seeds[split]) for split in ("train", "held_out"))
        print(told_parted(records, task.noun), file=sys.stderr)


def tell_of_jobs(study, jobs) -> None:
    """The same of runs of a study, and of problems that are in two of its splits. A worker is
    silent: the process that began it has said it.
    """
    from ..training.problems import all_differ

    if study_workers.is_one():
        return
    tell_of_records(*(config for job in jobs for config in (job.config, job.judged)))
    for job in {repr((x.judged.task, x.judged.task_options)): x for x in jobs}.values():
        task, trained_on = job.judged.make_task(), job.config.make_task()
        if not (task.single or all_differ(task)):
            _tell_of_splits(study, task, type(task) is type(trained_on))


def _tell_of_splits(study, task, trained_on: bool) -> None:
    """Warn of problems that are in two splits of a study. trained_on: whether it trains on this
    task, too.
    """
    from ..training.problems import distinct_seeds

    held_out = distinct_seeds(task, "held_out", study.measured.problems)
    validation = distinct_seeds(task, "validation", study.measured.validation)
    if trained_on:
        warn_of_trained(task, held_out)
        warn_of_trained(task, validation, "validation")
    keys = {task.key(task.instance(seed)) for seed in held_out}
    if both := sum(task.key(task.instance(seed)) in keys for seed in validation):
        note(
            f"{both:,} of the {len(validation):,} validation {task.noun}s "
            f"{'is' if both == 1 else 'are'} held out, too: "
            "learning rates are chosen by what is measured at the end"
        )


def warn_of_held_out(task, problems: int | None) -> None:
    """Warn of held-out problems that repeat others, or that are trained on, too."""
    from ..training.evaluate import held_out_seeds

    if not task.single:
        warn_of_equal_problems(task, problems)
        warn_of_trained(task, held_out_seeds(task, problems))


def warn_of_trained(task, measured, split: str = "held-out") -> None:
    """Warn of problems with these seeds, of a split in words, that are trained on, too."""
    if isinstance(task, RecordTask):
        seen, whole = task.asked_in_training(measured), True
        verbs, what = ("ask", "asks"), "the same as one to train on"
    else:
        seen, whole = _trained_on(task, measured)
        verbs, what = ("are", "is"), "trained on, too"
    if seen:
        noun = task.noun
        note(
            f"{'' if whole else 'at least '}{seen:,} of the {len(measured):,} {split} {noun}s "
            f"that are measured {verbs[seen == 1]} {what}: their figures say nothing about new "
            f"{noun}s"
        )


def _trained_on(task, measured) -> tuple[int, bool]:
    """How many of these seeds are training seeds, too, or give the problem of one: of as many as a
    second is enough for; and whether these were all.
    """
    from ..training.problems import all_differ

    train = task.seeds["train"]
    seeds = train if isinstance(train, range) else {*map(int, train)}
    if all_differ(task):
        return sum(seed in seeds for seed in measured), True
    known, until, whole = set(), time.monotonic() + LOOKING, len(train) <= MOST_LOOKED_AT
    for seed in train[:MOST_LOOKED_AT]:
        known.add(task.key(task.instance(int(seed))))
        if time.monotonic() > until:
            whole = False
            break
    same = sum(seed in seeds or task.key(task.instance(seed)) in known for seed in measured)
    return same, whole or same == len(measured)


def warn_of_equal_problems(task, problems: int | None) -> None:
    """Say where fewer problems are measured than asked for, since their seeds repeat problems."""
    from ..training.evaluate import asked_for, held_out_seeds

    asked, measured = asked_for(task, problems), len(held_out_seeds(task, problems))
    if measured < asked and not task.single:
        note(
            f"{count(measured, f'held-out {task.noun}')} of {asked:,}: the others repeat one of "
            "them, and each is measured once"
        )


def warn_of_answers(run, start: dict) -> None:
    """Warn of a model that hardly writes the format, and of rewards that say little."""
    from ..training.answers import BY_CHANCE
    from ..training.watch import faults

    of_ours, unread = run.learner.policy.pocket is not None, start["parse_rate"] < LEAST_READ
    if unread and not of_ours:
        note(
            f"before training, {start['parse_rate']:.1%} of the answers of "
            f"{run.config.base_model} could be read: it {HARDLY_WRITES} ({_token_limit(run)}; it "
            f"wrote {start['tokens_per_answer']:.0f} tokens an answer); vpo-lite report --show 3 "
            "with the same task and model shows what it writes"
            + "; its chat template opens a thought, and what does not close it holds no answer"
            * run.learner.policy.opens_thought
        )
    if end := run.learner.policy.unheeded_end:
        note(
            f"the chat template of {run.config.base_model} ends an answer with {end}, but "
            "sampling ignores it: add it to eos_token_id in the model's generation_config.json"
        )
    if start.get("by_chance"):
        note(f"before training: {BY_CHANCE}")
    for said in faults(run.learner.task, start, small=of_ours or unread).values():
        note(f"before training, {said}")
    warn_of_truncation(run, "before training", cut=start["truncated_rate"])


def warn_of_first_step(start: dict, record) -> None:
    """Warn of an engine that reads answers otherwise than they are measured."""
    before, now = start["parse_rate"], record.parse_rate
    if before > LEAST_READ and now < before / 4:
        note(
            f"in step 1 {now:.1%} of the answers could be read, and {before:.1%} before training: "
            "is a text read otherwise there? --keep-texts 2 keeps some in texts.jsonl"
        )


def warn_of_truncation(run, when: str, **shares: float) -> bool:
    """Warn of rollouts that were cut off; whether there was something to say. shares: as in
    :func:`vpo_lite.training.watch.cut_off`
    """
    from ..training.watch import cut_off

    left_out = ", which --mask-truncated leaves out" * run.config.mask_truncated
    said = cut_off(run.config, lambda: f"the token limit ({_token_limit(run)}){left_out}", **shares)
    if said:
        note(f"{when}, {said}")
    return bool(said)


def warn_after_training(summary: dict, run) -> None:
    """Warn of a policy that training damaged, else of rollouts that were cut off: a damaged
    policy does not end its answers, and a higher limit does not help it, nor one that writes on.
    """
    from ..training.watch import wrote_on

    config, start = run.config, summary["start"]
    for name, what in (("parse_rate", "could be read"), ("valid_rate", "were valid")):
        if start[name] > 0.1 and summary[name] < start[name] / 2:
            kl = f"raise --kl, now {config.kl:g}" if config.kl else "add --kl"
            note(
                f"{start[name]:.1%} of the answers {what} before training, {summary[name]:.1%} "
                f"after it: the updates damaged the policy; lower --lr, now {config.lr:g}, or {kl}"
            )
            return
    silent = [record.silent_groups == 1 for record in run.folder.records()]
    if not config.kl and silent and all(silent):
        note(
            "in no step did two rollouts of a prompt differ in their score, so nothing was "
            "trained: raise --group-size, or see with vpo-lite report what the answers earn"
        )
        return
    rates = summary["truncated_rate"], summary["parse_rate"]
    on = wrote_on(*rates, config.answers, run.learner.task)
    if not warn_of_truncation(run, "after training", on=on):
        warn_of_truncation(run, "in training", cut=summary["truncated_in_training"])


def _token_limit(run) -> int:
    """What a rollout may need on the first training problems, unless the run has its own limit."""
    from ..training.contract import early_problems
    from ..training.rollouts import token_limits

    task, config, policy = run.learner.task, run.config, run.learner.policy
    early = early_problems(task)
    return max(token_limits(policy, task, config.answers, early, config.max_new_tokens))


def better_before(folder, summary: dict) -> str:
    """A line on the measurement with the highest set reward; "" where that is the last one."""
    best = max(folder.measured(), key=lambda row: row["set_reward"], default=summary)
    if best["set_reward"] <= summary["set_reward"]:
        return ""
    adapter = folder.adapter_after(best["step"])
    return (
        f"set reward was highest after step {best['step']}: {best['set_reward']:.3f}, at the end "
        f"{summary['set_reward']:.3f}; that adapter is kept in {adapter}"
    )


def short(coverage: float | None, set_reward: float, valid_rate: float) -> str:
    seen = {"coverage": coverage, "set reward": set_reward, "valid": valid_rate}
    return ", ".join(f"{k} {v:.2f}" for k, v in seen.items() if v is not None)


def in_short(figures: dict) -> str:
    """A measurement in one line: how good sets are, one answer, and the most answers.

    >>> in_short({"coverage": None, "set_reward": 0.5, "valid_rate": 1.0,
    ...     "best_at_k": {"1": 0.25, "30": 0.5}, "any_at_k": {"1": 0.25, "30": 0.75}})
    'set reward 0.50, valid 1.00, best@1 0.25, any@30 0.75'
    """
    words = short(figures["coverage"], figures["set_reward"], figures["valid_rate"])
    k, most = list(figures["any_at_k"].items())[-1]
    return f"{words}, best@1 {figures['best_at_k']['1']:.2f}, any@{k} {most:.2f}"
