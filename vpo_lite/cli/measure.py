"""``vpo-lite evaluate`` and ``vpo-lite compare``: figures of finished runs."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from ..tasks import task_class, task_names
from .flags import (
    OF_A_PAGE,
    Wrong,
    add_device,
    add_number,
    at_home,
    measuring,
    note,
    path,
    print_json,
    requests,
    terminal_width,
    whole,
)
from .told import tell_of_records, warn_of_equal_problems


def evaluate_flags(made, arguments) -> None:
    nouns = [task_class(name).noun for name in task_names()]  # what each task calls its problems
    made.add_argument("folder", type=path, metavar="RUN", help="folder of a finished run")
    instead = made.add_mutually_exclusive_group()
    instead.add_argument(
        "--adapter",
        type=path,
        metavar="FOLDER",
        help="measure this adapter of the run's model instead, such as RUN/adapter-20 or one that "
        "veRL trained",
    )
    instead.add_argument(
        "--model",
        type=at_home,
        metavar="NAME",
        help="measure this model instead, on the run's problems: one that anything else trained",
    )
    add_number(made, "--problems", "held-out problems (default: as in the run)")
    aliases = [f"--{noun}s" for noun in nouns if " " not in noun]
    made.add_argument(*aliases, dest="problems", type=whole, help=argparse.SUPPRESS)
    add_number(made, "--answers", "answers sampled for each problem (default: as in the run)")
    add_number(made, "--seed", "seed of the answers (default: as in the run)")
    help = "alpha of the set reward, to compare runs with different alphas (default: the run's)"
    made.add_argument("--alpha", metavar="X", help=help)
    made.add_argument(
        "--temperature", metavar="X", default="1", help="of the sampling (default: 1)"
    )
    add_device(made)
    add_number(made, "--threads", "threads of torch on the CPU (default: as in the run)")
    made.add_argument(
        "--texts",
        type=path,
        metavar="FILE",
        help="also write every completion, with what its answers earned: a new file of JSON lines",
    )
    made.add_argument("--json", action="store_true", help="print all figures as JSON")


def evaluate_runs(options) -> int:
    with requests():
        from ..training.digests import digests_now
        from ..training.evaluate import (
            check_answers,
            check_temperature,
            evaluate,
            held_out_seeds,
        )
        from ..training.finished import check_method
        from ..training.folders import RunFolder
        from ..training.memory import enough_memory

        folder = RunFolder.open(options.folder)
        config = folder.config()
        check_method(folder, config)
        _check_source(options, folder)
        known = {setting.name: setting for setting in config.options()}
        if options.alpha is not None:
            config = config.but(alpha=known["alpha"].read(options.alpha))
        if options.threads is not None:
            config = config.but(threads=options.threads)
        temperature = check_temperature(known["temperature"].read(options.temperature))
        seed = config.seed if options.seed is None else config.but(seed=options.seed).seed
        folder.check_files()
        answers = config.measured_answers if options.answers is None else options.answers
        check_answers(answers)
        if options.texts:
            _check_new(options.texts)
        task = config.make_task()
        task.check_machine()
        problems = config.eval_problems if options.problems is None else options.problems
        held_out_seeds(task, problems)  # refuses what cannot be measured
        warn_of_equal_problems(task, problems)
        if options.model is not None:
            is_folder = os.path.isdir(options.model)
            name = os.path.abspath(options.model) if is_folder else options.model
            config = config.but(model=name)
        # Of what is measured, and before it is read: they may be edited meanwhile.
        files = digests_now(config) if options.json else {}
        policy = _policy(options, folder, config)
    _tell_of_differences(options, folder, config, task, answers)
    tell_of_records(config)
    if not options.json:
        print("measuring the policy", file=sys.stderr)
    with (
        _texts_into(options.texts, task) as keep,
        enough_memory(config),
        measuring(options.json) as tell,
    ):
        asked = dict(problems=problems, answers=answers, seed=seed, temperature=temperature)
        figures = evaluate(policy, config, **asked, task=task, tell=tell, keep=keep)
    _print(options, folder, config, figures, task, asked, files)
    return 0


def _check_source(options, folder) -> None:
    """Raise Wrong where there is no policy to measure."""
    from ..policy.adapter import adapter_folder
    from ..training.folders import ADAPTER_FOLDER

    if options.model is not None:
        return
    if options.adapter is not None:
        if adapter_folder(options.adapter) is None:
            kept = sorted(map(str, folder.path.glob(f"{ADAPTER_FOLDER}*"))) or ["none"]
            cure = f"of this run there is {', '.join(kept)}"
            raise Wrong(f"--adapter {options.adapter}: holds no trained adapter; {cure}")
        return
    if not folder.finished:
        cure = f"go on with: {folder.go_on}"
        if folder.engine().name == "verl":
            cure = "README.md there says how to get the adapter from veRL; add --adapter FOLDER"
        raise Wrong(f"{options.folder}: not finished; {cure}")
    trained = folder.path / ADAPTER_FOLDER
    if not trained.is_dir():
        raise Wrong(f"{trained}: is not there; put it back, or name another --adapter")


def _policy(options, folder, config):
    """The policy that is asked for: a model, an adapter, or that of the run."""
    from ..policy.loading import load_policy
    from ..policy.shipped import name_of_folder

    if options.model is not None:
        how = dict(dtype=config.dtype, load_in=config.load_in)
        return load_policy(options.model, device=options.device, **how)
    if options.adapter is not None:
        how = dict(base=config.base_model, dtype=config.dtype)
        return load_policy(options.adapter, device=options.device, **how)
    base = name_of_folder(config.base_model)  # the adapter may name another one
    return load_policy(folder.path, base=base, device=options.device)


def _tell_of_differences(options, folder, config, task, answers: int) -> None:
    """Notes on what is measured otherwise than the run measured it."""
    from ..training.digests import TOKENIZER, named, other_now

    if answers < config.compared_size:
        sets = f"sets of {config.compared_size}"
        said = f"set reward and coverage are of sets of {answers}, and those of the run of {sets}"
        said = f"`vpo-lite compare` cannot read this, it compares {sets}" if options.json else said
        note(f"--answers {answers}: {said}")
    # Another model has its own tokenizer.
    expected = {"method"} if options.model is None else {"method", TOKENIZER}
    if changed := [n for n in other_now(folder.digests(), config) if n not in expected]:
        what = ", ".join(named(config, name) for name in changed)
        note(f"changed since the run; measured with the present version: {what}")
    if config.single and options.problems not in (None, 1):
        note(
            f"the run trained on one {task.noun} and is measured on that one: "
            f"--problems {options.problems} does nothing"
        )


def _print(options, folder, config, figures: dict, task, asked: dict, files: dict) -> None:
    from ..files import digest
    from ..tasks.records import counted
    from ..training.folders import CONFIG
    from ..training.side_by_side import intervals, table

    if options.json:
        adapter = options.adapter and os.path.abspath(options.adapter)
        how = {"run": os.path.abspath(folder.path), "adapter": adapter}
        how |= {} if options.model is None else {"model": config.model}
        how |= {"alpha": config.alpha, "files": files}
        how |= {name: asked[name] for name in ("seed", "temperature")}
        how |= {"settings": digest(folder.path / CONFIG), "records": counted(task)}
        return print_json(how | figures)
    size = min(config.compared_size, asked["answers"])
    row = figures | {"method": config.method, "set": size}
    lines = [table([row], terminal_width()), intervals(figures)]
    print("\n".join(line for line in lines if line))


def _check_new(file: Path) -> None:
    if os.path.lexists(file):
        raise Wrong(f"{file}: exists already; choose another --texts")
    if not file.parent.is_dir():
        raise Wrong(f"{file}: there is no folder {file.parent}; make it, or choose another --texts")


@contextlib.contextmanager
def _texts_into(file: Path | None, task):
    """A function that writes the completions of a problem; None without a file. The file is there
    when the context ends without an error.
    """
    if file is None:
        yield None
        return
    from ..files import replacing
    from ..training.texts import measured

    with replacing(file) as staging, staging.open("w", encoding="utf-8") as lines:
        yield lambda pool: lines.writelines(measured(pool, task))


def compare_flags(made, arguments) -> None:
    made.add_argument(
        "folders",
        nargs="+",
        type=path,
        metavar="RUN",
        help="folders of finished runs, or files with their output of evaluate --json",
    )
    made.add_argument(
        "--html", type=path, metavar="FILE", help="also write a report with curves, as a page"
    )
    made.add_argument("--json", action="store_true", help="print all figures as JSON")


def compare_runs(options) -> int:
    with requests():
        from ..training.compare import compare
        from ..training.confounders import in_one_line
        from ..training.side_by_side import differences, dropped, table, temperatures

        if options.html:
            from ..pages import check_page, write_report

            check_page(options.html)
        rows = compare(options.folders)
        if options.html:
            write_report([run for row in rows for run in row["folders"]], options.html, rows)
    if options.json:
        print_json(rows)
    else:
        lines = [table(rows, terminal_width()), in_one_line(rows), *differences(rows)]
        if {row["temperature"] for row in rows} != {1}:
            lines.append(f"Sampled at {temperatures(rows)}.")
        lines += dropped(rows)
        print("\n".join(line for line in lines if line))
        if options.html:
            print(f"\n{options.html}: {OF_A_PAGE}")
    return 0
