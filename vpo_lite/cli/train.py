"""``vpo-lite train``: a new run, or the rest of a run that was stopped."""

import itertools
import json
import os
import sys
import time
from pathlib import Path

from ..checks import shown
from ..markup import count
from ..messages import command
from ..tasks.task_errors import BelowWorst, TaskError
from .errors import ended, of_a_file, of_own_code
from .flags import (
    Wrong,
    add_settings,
    bars,
    given_settings,
    measuring,
    path,
    print_json,
    progress,
    requests,
    say,
    terminal_width,
)
from .stopping import exit_status, patient
from .told import (
    before_and_after,
    better_before,
    in_short,
    short,
    state_memory,
    tell_of_parts,
    tell_of_records,
    warn_after_training,
    warn_of_answers,
    warn_of_first_step,
    warn_of_held_out,
    warn_of_one_problem,
    warn_of_requests,
    warn_of_unused,
)

ENGINES = ("native", "trl")
OF_A_NEW_RUN = ("out", "preset", "engine", "engine_options")


def flags(made, arguments) -> None:
    from ..training.config import TrainConfig

    made.add_argument(
        "--preset",
        metavar="NAME",
        help="set of defaults for the settings below: demo, patient, laptop, gpu or paper "
        "(default: demo); --preset NAME --help shows them",
    )
    made.add_argument(
        "--out", type=path, metavar="FOLDER", help="new run folder (default: runs/TIME-METHOD)"
    )
    made.add_argument(
        "--resume",
        type=path,
        metavar="FOLDER",
        help="continue the run of this folder, with its settings; --steps may make it longer, or "
        "end it early, and how it is computed may change, such as --device and --micro-batch",
    )
    made.add_argument(
        "--engine",
        metavar="NAME",
        help="what samples and trains: native, or trl for several GPUs or machines (default: "
        "native)",
    )
    made.add_argument(
        "--engine-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="with --engine trl: fields of its GRPOConfig, such as use_vllm=true",
    )
    made.add_argument(
        "--json", action="store_true", help="print the summary as JSON, without bar and table"
    )
    add_settings(made, arguments, TrainConfig.options(), "demo")


def run(options) -> int:
    with requests():
        from ..training.config import TrainConfig
        from ..training.resuming import check_changes

        chosen = given_settings(TrainConfig.options(), options)
        if options.resume:
            given = [name for name in OF_A_NEW_RUN if getattr(options, name) is not None]
            check_changes(options.resume, [*given, *chosen])
            started = _engine(_engine_of(options.resume)).resume(options.resume, **chosen)
        else:
            config = TrainConfig.preset(
                "demo" if options.preset is None else options.preset, **chosen
            )
            extra = [_engine_options(options)] if options.engine_options else []
            started = _begun(_engine(options.engine or "native"), config, options.out, extra)
            if started.main:
                warn_of_unused(config, chosen)
                warn_of_one_problem(config, chosen)
    go_on = started.folder.go_on
    quiet, asked_to_stop = options.json or not started.main, []
    try:
        with (
            measuring(quiet) as started.on_problem,
            patient(asked_to_stop, lambda: started.in_step),
        ):
            return _drive(started, options.json, quiet, asked_to_stop)
    except KeyboardInterrupt:
        status = exit_status(asked_to_stop)
        then = f"go on with: {go_on}"
        if started.folder.finished:  # only the table was not printed
            then = f"the run is finished; see {command('compare', started.path)}"
        return say(f"stopped; {then}", status) if started.main else status
    except OSError as error:  # a full disk, for one
        if started.folder.finished:  # only the table could not be printed
            raise
        if not started.path.exists():
            there = "--resume and its new place"
            return say(f"{started.path}: this folder was moved or removed; go on with {there}", 1)
        return say(f"{of_own_code(error) or of_a_file(error)}; fix this, then: {go_on}", 1)
    except BelowWorst as error:
        anew = "start in another --out with the least reward of each function as --worst-reward=A,B"
        return say(f"{error.args[0]}; change the function, then: {go_on}; or {anew}", 1)
    except TaskError as error:  # of the task, or of the world around it
        return say(f"{error}; fix this, then: {go_on}", 1)
    except SystemExit as error:
        what = f"code of the task or of the method {ended(error)}"
        return say(f"{what}; fix it, then: {go_on}", 1)
    except Exception as error:
        if said := of_own_code(error):
            return say(f"{said}; fix this, then: {go_on}", 1)
        where = f"; an engine option at fault stands in {started.path / 'config.json'}"
        error.add_note(
            f"The run is kept{where * bool(started.engine.options)}. Go on with: {go_on}"
        )
        raise
    finally:
        started.close()


def _begun(engine, config, out: Path | None, extra: list):
    """A new run. Of two that begin in one second without a folder the later one takes another."""
    for _ in range(3):
        folder = out or _new_folder(config.method)
        try:
            return engine.begin(config, folder, *extra)
        except ValueError:
            if out or not os.path.lexists(folder):
                raise
    return engine.begin(config, _new_folder(config.method), *extra)


def _new_folder(method: str) -> Path:
    """runs/TIME-METHOD; runs/TIME-METHOD-2 for a second run of that second, and so on."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{method}"
    names = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(path for name in names if not os.path.lexists(path := Path("runs") / name))


def _engine(name: str):
    """The class of the runs of an engine."""
    if name == "native":
        from ..training.run import Run

        return Run
    if name == "trl":
        from ..integrations.trl_setup import check_installed

        check_installed()
        from ..integrations.trl_run import TrlRun

        return TrlRun
    if name == "verl":
        raise Wrong("engine verl: vpo-lite export verl writes such a run, and its run.sh trains it")
    raise Wrong(f"--engine {shown(name)}: there are {', '.join(ENGINES)}")


def _engine_of(folder: Path) -> str:
    from ..training.folders import RunFolder

    try:
        return RunFolder.open(folder).engine().name
    except ValueError:
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        return "trl"  # the only engine of several processes; it says the error in all of them


def _engine_options(options) -> dict:
    """The values of --engine-options: JSON where they are, else texts."""
    if options.engine in (None, "native"):
        raise Wrong("--engine-options: the native engine has none; name another --engine")
    pairs = [text.partition("=") for text in options.engine_options]
    names = [name for name, *_ in pairs]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise Wrong(f"--engine-options {shown(name)}: expected NAME=VALUE")
        if names.count(name) > 1:
            raise Wrong(f"--engine-options {shown(name)}: given twice")
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str):
    try:
        return json.loads(text)
    except ValueError:
        return text


def _drive(run, as_json: bool, quiet: bool, asked_to_stop: list) -> int:
    started = time.perf_counter()
    state_memory(run, quiet)
    warn_of_requests(run)
    if run.first == 0:
        if run.main:
            tell_of_records(run.config)
        if not quiet:
            tell_of_parts(run.learner.task)
        if run.main:
            warn_of_held_out(run.learner.task, run.config.eval_problems)
    for note in () if quiet else run.notes:
        print(note, file=sys.stderr)
    if run.first == 0 and not quiet and run.folder.start() is None:
        print("measuring the policy before training", file=sys.stderr)
    start = run.start()
    if run.first == 0 and run.main:
        warn_of_answers(run, start)
    with progress(total=run.config.steps, initial=run.first, unit="step", disable=quiet) as bar:

        def tell(record) -> bool:
            text = short(record.coverage, record.set_reward, record.valid_rate)
            bar.set_postfix_str(text, refresh=False)
            bar.update()
            if record.step == 1:
                warn_of_first_step(start, record)
            return bool(asked_to_stop)

        def show(step: int, figures: dict) -> None:
            if not quiet:
                bars().write(f"measured after step {step}: {in_short(figures)}", file=sys.stderr)

        run.on_measured = show
        all_done = run.train(tell)
    if not all_done:
        then = f"go on with: {run.folder.go_on}"
        if run.config.lr_schedule == "constant":  # others end at their own step
            then += f"; --steps {run.done} ends it there"
        status = exit_status(asked_to_stop)
        return say(f"stopped after step {run.done}; {then}", status) if run.main else status
    if not quiet:
        print("measuring the trained policy", file=sys.stderr)
    summary = run.finish()
    if not run.main:
        return 0
    warn_after_training(summary, run)
    if as_json:
        print_json(summary)
    else:
        _print_summary(run, summary, time.perf_counter() - started)
    return 0


def _print_summary(run, summary: dict, took: float) -> None:
    """Print the table of a finished run, and how long it took."""
    from ..training.side_by_side import table

    steps = run.config.steps
    print(table([summary | {"set": run.config.compared_size}], terminal_width()))
    if summary["objectives"]:  # none where they differ from problem to problem
        print(f"mean of each objective: {before_and_after(summary)}")
    seconds, scoring = summary["seconds"], summary["scoring_share"]
    share = f"{summary['rollout_share']:.0%} of it sampling and scoring"
    share += "" if scoring is None else f", {scoring:.0%} scoring alone"
    since = " since it was resumed" * bool(run.first)
    took = f"measuring and training took {took:.1f} s{since}"
    print(
        f"{count(steps, 'step')} in {seconds:.1f} s ({steps / seconds:.2f} a second, {share}) on "
        f"{summary['device']}; {took}. Written to {run.path}"
    )
    if better := better_before(run.folder, summary):
        print(better)
