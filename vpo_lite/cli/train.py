"""``vpo-lite train``: a new run, or the rest of a run that was stopped."""

import contextlib
import json
import signal
import sys
import time
from pathlib import Path

from ..tasks import DEFAULT, task_class
from .flags import (
    Wrong,
    add_options,
    add_task_options,
    given,
    named_task,
    of_a_file,
    path,
    requests,
    say,
)


def flags(made, arguments) -> None:
    from ..training.config import TrainConfig

    made.add_argument(
        "--preset", metavar="NAME", help="demo, patient, laptop, gpu or paper (default: demo)"
    )
    made.add_argument(
        "--out", type=path, metavar="FOLDER", help="where the run goes (default: runs/TIME)"
    )
    made.add_argument(
        "--resume", type=path, metavar="FOLDER", help="go on with this run; the rest comes from it"
    )
    made.add_argument(
        "--json", action="store_true", help="print the summary as JSON, no bar, no table"
    )
    add_options(
        made.add_argument_group("settings, by default those of the preset"), TrainConfig.options()
    )
    with requests():
        task = named_task(made, arguments, DEFAULT)
    add_task_options(made, task)


def run(options) -> int:
    with requests():
        from ..training.config import TrainConfig
        from ..training.run import Run

        task = task_class(DEFAULT if options.task is None else options.task)
        chosen = given((*TrainConfig.options(), *task.options), options)
        if options.resume:
            extra = [*chosen, *(n for n in ("out", "preset") if getattr(options, n) is not None)]
            if extra:
                left_out = ", ".join(sorted(extra))
                raise Wrong(
                    f"--resume {options.resume}: everything else comes from the run; leave out "
                    f"{left_out}"
                )
            started = Run.resume(options.resume)
        else:
            config = TrainConfig.preset(
                "demo" if options.preset is None else options.preset, **chosen
            )
            started = Run.begin(
                config, options.out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
            )
    try:
        return _drive(started, options.json)
    except KeyboardInterrupt:
        return say(f"stopped; go on with: vpo-lite train --resume {started.path}", 1)
    except OSError as error:  # a full disk, for one
        if started.folder.finished:  # only the table could not be printed
            raise
        then = f"vpo-lite train --resume {started.path}"
        return say(f"{of_a_file(error)}; see to it, then: {then}", 1)
    finally:
        started.close()


def _drive(run, as_json: bool) -> int:
    from tqdm import tqdm

    from ..training.compare import table

    started, config = time.perf_counter(), run.config
    _state_memory(run, quiet=as_json)
    if run.folder.start() is None:
        _warn_of_answers(run, run.start())
    bar = tqdm(
        total=config.steps,
        initial=run.first,
        unit="step",
        disable=as_json,
        dynamic_ncols=True,
        file=sys.stderr,
    )
    with bar, _patient() as asked_to_stop:
        for record in run.steps():
            bar.update()
            bar.set_postfix_str(_short(record))
            if asked_to_stop and record.step < config.steps:
                run.save()
                bar.close()
                return say(
                    f"stopped after step {record.step}; go on with: vpo-lite train --resume "
                    f"{run.path}",
                    1,
                )
    summary = run.finish()
    _warn_of_truncation(summary["truncated_in_training"], config, "in training")
    if as_json:
        print(json.dumps(summary))
        return 0
    print(table([summary | {"set": config.compared_size}]))
    seconds = summary["seconds"]
    print(
        f"{config.steps} steps in {seconds:.1f} s ({config.steps / seconds:.2f} a second, "
        f"{summary['rollout_share']:.0%} of it sampling) on {summary['device']}; "
        f"{time.perf_counter() - started:.1f} s in all. Written to {run.path}"
    )
    return 0


def _state_memory(run, quiet: bool) -> None:
    """Print the memory that training needs and the memory there is; cures if it is too little."""
    from ..training.memory import available_memory, cures, memory_needed, size

    policy, config = run.learner.policy, run.config
    need, found = memory_needed(policy, config, run.learner.task), available_memory(policy.device)
    line = f"memory: {need}" + (f"; {size(found)} available on {policy.device}" if found else "")
    line += f"; {config.micro_batch} rollouts in one forward pass" if config.micro_batch else ""
    if found and need.peak > found:
        say(f"{line}: this may not be enough; {', or '.join(cures(need, config))}", 0)
    elif not quiet:
        print(line, file=sys.stderr)


def _warn_of_answers(run, start: dict) -> None:
    """Warn of a model that hardly writes the format: no answer then earns a reward."""
    if run.learner.policy.pocket is None and start["parse_rate"] < 0.1:
        say(
            f"before training, {start['parse_rate']:.1%} of the answers of "
            f"{run.config.base_model} could be read: it rarely writes the asked-for form, so there "
            "is nothing to reinforce yet; try an instruct model or a larger one, supervised "
            "fine-tuning on the form first, or more max_new_tokens "
            f"({run.config.max_new_tokens or 'as the task asks'}; it wrote "
            f"{start['tokens_per_answer']:.0f} tokens an answer)",
            0,
        )
    _warn_of_truncation(start["truncated_rate"], run.config, "before training")


def _warn_of_truncation(rate: float, config, when: str) -> None:
    if rate > 0.1:
        limit = config.max_new_tokens or "what the task asks"
        say(
            f"{when}, {rate:.0%} of the rollouts were cut off at the token limit ({limit}): "
            "raise max_new_tokens",
            0,
        )


@contextlib.contextmanager
def _patient():
    """A context in which Ctrl-C lets the step finish. A second Ctrl-C stops at once.

    It yields a list that is empty until Ctrl-C is pressed.
    """
    asked = []

    def ask(signum, frame):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.append(signum)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _short(record) -> str:
    seen = {
        "coverage": record.coverage,
        "set reward": record.set_reward,
        "valid": record.valid_rate,
    }
    return ", ".join(f"{k} {v:.2f}" for k, v in seen.items() if v is not None)
