"""``vpo-lite study``: run a declared study, one run after the other, and print what came out."""

import contextlib
import sys
import warnings

from ..checks import shown
from ..messages import for_shell
from . import study_workers
from .flags import STOPPED, Wrong, add_number, at_home, bars, note, path, progress, requests, say
from .study_tables import FIGURES, print_table
from .told import LEAST_READ, tell_of_jobs

WANTED = ("kinds", "seeds", "every_rate")  # flags that choose runs
OF_A_STUDY = (*WANTED, "out", "workers", "plan", "commands", "run_key", "search", "table")


def flags(made, arguments) -> None:
    made.add_argument(
        "name",
        nargs="?",
        type=at_home,
        metavar="NAME",
        help="a declared study, or your file NAME.toml; default: list the declared ones",
    )
    made.add_argument(
        "--out", type=path, metavar="FOLDER", help="study folder (default: runs/study-NAME)"
    )
    made.add_argument("--kinds", nargs="+", metavar="KIND", help="only these kinds (default: all)")
    add_number(made, "--seeds", "at most N of each kind's seeds")
    made.add_argument(
        "--every-rate",
        action="store_true",
        help="every seed at every learning rate (default: only seed 0; others at the chosen rate)",
    )
    add_number(made, "--workers", "processes that share the runs, or the searches (default: 1)")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="list the runs and their state, and end")
    what.add_argument(
        "--commands",
        action="store_true",
        help="print a command for each run that can start now, for a scheduler, and end",
    )
    what.add_argument("--run", dest="run_key", metavar="KEY", help="only this run of the --plan")
    what.add_argument(
        "--search",
        action="store_true",
        help="evolution with the trained policies, in one process; --workers N: in several",
    )
    what.add_argument(
        "--table",
        nargs="*",
        metavar="FIGURE",
        help="print the means of the finished runs; + or -: significantly above or below the "
        f"baseline (default: {' '.join(FIGURES)}); --table search: print the searches; --table "
        "rates [FIGURE ...]: every learning rate",
    )


def run(options) -> int | None:
    study_workers.end_with_the_parent()
    with requests():
        from ..studies import declaration

        if options.name is None:
            return _names(options)
        study = declaration.read(options.name)
        folder = options.out or path(f"runs/study-{study.name}")
        _check(study, folder, options)
    if options.plan:
        return _plan(study, folder, options)
    if options.commands:
        return _commands(study, folder, options)
    if options.table is not None:
        return print_table(study, folder, options.table)
    if options.run_key is not None:
        return _run_one(study, folder, options.run_key)
    try:
        return (_search if options.search else _run_all)(study, folder, options)
    except KeyboardInterrupt:
        return say("stopped; the same command goes on", STOPPED)


def _names(options) -> None:
    """Print the declared studies, where no flag asks for more."""
    from ..studies import declaration

    if any(v for n, v in vars(options).items() if n in OF_A_STUDY) or options.table == []:
        raise Wrong(f"name a study: {', '.join(declaration.names())}, or a file NAME.toml")
    for name in declaration.names():
        print(f"{name}: {declaration.read(name).declared.about}")


def _check(study, folder, options) -> None:
    """Refuse flags that do not fit the study, or each other."""
    for kind in options.kinds or ():
        if kind not in study.kinds:
            raise Wrong(f"--kinds {kind}: study {study.name} has {', '.join(study.kinds)}")
    for name in ("seeds", "workers"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise Wrong(f"--{name} {getattr(options, name)}: must be 1 or more")
    most = max(map(study.seeds, options.kinds or study.kinds))
    if (options.seeds or 0) > most:
        raise Wrong(
            f"--seeds {options.seeds}: it takes the first of the study's seeds, and study "
            f"{study.name} states {most}; for more write seeds = {options.seeds} in its file"
        )
    of_one = options.table is not None or options.run_key is not None
    if (of_one or options.search) and any(_wanted(options).values()):
        raise Wrong(
            "--kinds, --seeds and --every-rate choose runs; leave them out with --search, --table "
            "and --run"
        )
    if (of_one or options.plan or options.commands) and options.workers:
        raise Wrong("--workers shares runs; leave it out with --plan, --commands, --table, --run")
    if folder.exists() and not folder.is_dir():
        raise Wrong(f"--out {folder}: is a file; name a folder")


def _wanted(options) -> dict:
    return {name: getattr(options, name) for name in WANTED}


def _jobs(study, folder, options, *states: str) -> list:
    """The chosen runs that are known by now and stand in one of these states; see `_state`."""
    from ..studies import plan

    chosen = plan.jobs(study, folder, **_wanted(options))
    return [job for job in chosen if _state(folder, job) in states]


def _state(folder, job) -> str:
    """As `results.state`, and "running" where a process works on it now."""
    from ..locks import is_locked
    from ..studies import results

    state = results.state(folder, job)
    running = state == "to do" and is_locked(results.workplace(folder, job.key))
    return "running" if running else state


def _make(folder) -> None:
    """Make the folder of a study, and in it that of its policies."""
    from ..studies.results import POLICIES

    ours = (folder / POLICIES).is_dir() or any(folder.glob("*-seed*.json"))
    if folder.is_dir() and any(folder.iterdir()) and not ours:
        raise Wrong(f"--out {folder}: holds files of something else; name a new folder")
    (folder / POLICIES).mkdir(parents=True, exist_ok=True)


def _commands(study, folder, options) -> None:
    with requests():
        left = _jobs(study, folder, options, "to do")
    for job in left:
        print(for_shell([*_command(options, folder), "--run", job.key]))


def _run_one(study, folder, key: str) -> int:
    """Do the run with this key. 1 where it failed, now or before: what waits must not start."""
    from ..studies.results import Failure, failure_path, read_result, state

    with requests():
        every = study.every_job()
        if key not in every:
            raise Wrong(f"--run {shown(key)}: there are {', '.join(every)}")
        _make(folder)
        if (there := state(folder, every[key])) == "finished":
            read_result(study, folder, every[key])  # refuses one that was made otherwise
            print(f"{key}: is done")
            return 0
        if there == "to do":
            tell_of_jobs(study, [every[key]])
    if there == "failed":
        why = failure_path(folder, every[key])
        return say(f"{key}: failed before; {why} says why, delete it to retry", 1)
    from ..studies.runner import run_job

    with _warnings_as_notes():
        found = run_job(study, every[key], folder)
    if isinstance(found, Failure):
        return say(_line(found), 1)
    print(_line(found))
    return 0


def _plan(study, folder, options) -> None:
    """Print the runs that are known by now, and on stderr how many are left and how long."""
    from ..studies import results
    from ..studies.plan import jobs, total

    with requests():
        if left := _jobs(study, folder, options, "to do", "running"):
            from ..studies.runner import check_sources

            check_sources(study, folder, left, download=False)
    seconds, done, every = [], 0, total(study, folder, **_wanted(options))
    known = list(jobs(study, folder, **_wanted(options)))
    for job in known:
        state = _state(folder, job)
        if state == "finished":
            try:
                seconds.append(results.read_result(study, folder, job).seconds)
            except ValueError as error:  # before such a file nothing begins, and no table is made
                state = "damaged"
                note(error)
        print(f"{state:8}  {job.key}  {study.kinds[job.kind].label}")
        done += state in ("finished", "failed")
    told = f"{every - done} of {every} runs are left"
    if len(known) < every:
        told += f", {every - len(known)} of them at learning rates that are not chosen yet"
    if seconds:
        told += f"; a finished one took {sum(seconds) / len(seconds) / 60:.1f} minutes on average"
    note(told)


def _command(options, folder) -> list[str]:
    """The command that does the same runs into the same folder."""
    return ["vpo-lite", "study", options.name, "--out", str(folder)]


def _share(study, folder, options) -> int:
    """Let several processes do these runs."""
    from ..studies.plan import total
    from ..studies.results import is_done

    kinds, most = options.kinds or study.kinds, options.seeds or 10**6
    mine = [j for j in study.every_job().values() if j.kind in kinds and j.seed < most]
    arguments = _command(options, folder)[1:]
    arguments += ["--kinds", *options.kinds] if options.kinds else []
    arguments += ["--seeds", str(options.seeds)] if options.seeds else []
    arguments += ["--every-rate"] * options.every_rate + ["--search"] * options.search
    failed = [] if options.search else _failed(study, folder, options)
    status = study_workers.share(
        arguments,
        options.workers,
        runs=None if options.search else total(study, folder, **_wanted(options)),
        done=lambda: sum(is_done(folder, job) for job in mine),
    )
    if status == 0:
        _tell_end(failed, options)
    return status


def _failed(study, folder, options) -> list[str]:
    """The files of the runs that failed before."""
    from ..studies.results import failure_path

    return [failure_path(folder, job).name for job in _jobs(study, folder, options, "failed")]


def _tell_end(failed: list[str], options) -> None:
    """Say which runs are left out, by their files, and how to see what came out."""
    why = "each of these files says why; delete it to retry the run"
    if failed:
        note(f"left out, since they failed before: {', '.join(failed)}; {why}")
    note(f"--table{' search' * options.search} prints what came out")


def _run_all(study, folder, options) -> int | None:
    from ..studies.runner import check_sources, run_study

    with requests():
        left = _jobs(study, folder, options, "to do", "running")
        check_sources(study, folder, left, download=True)
        _make(folder)
        tell_of_jobs(study, left)
    if (options.workers or 1) > 1:
        return _share(study, folder, options)
    failed = _failed(study, folder, options)
    with bars()(disable=not sys.stderr.isatty(), unit="step") as bar, _warnings_as_notes():

        def tell(key, step, steps):
            if step == 1:
                bar.reset(steps)
                bar.set_description(key)
            bar.update()

        found, wait = None, study_workers.waiting(bar, "does")
        for found in run_study(study, folder, **_wanted(options), tell=tell, wait=wait):
            bar.write(_line(found))
            sys.stdout.flush()
    if found is None and not failed:
        note("all these runs are finished")
    _tell_end(failed, options)


def _line(found) -> str:
    """One run in a line: what came out, or why it failed."""
    from ..studies.results import Failure

    if isinstance(found, Failure):
        return (
            f"{found.kind}, lr {found.lr:g}, seed {found.seed}: failed and is left out (its file "
            f"failed-...json says why; delete that file to retry). {found.error}"
        )
    last, best = found.last, found.last["best"]
    unread = f"; {last['parsed']:.1%} of its answers could be read" * (last["parsed"] < LEAST_READ)
    return (
        f"{found.kind}, lr {found.config['lr']:g}, seed {found.seed}: "
        f"best@1 {best[0]:.3f}, best@{len(best)} {best[-1]:.3f}, "
        f"any@{len(best)} {last['any'][-1]:.3f}, diversity {last['diversity']:.2f}, "
        f"{found.checkpoints[-1].tokens:,} tokens, {found.seconds:.0f} s{unread}"
    )


def _search(study, folder, options) -> int | None:
    from ..studies.searches import searches, to_do, waits_for_runs

    with requests():
        if not (known := searches(study, folder)):
            raise Wrong(f"{folder}: no finished run to search with; see --plan")
        to_do(study, folder)  # refuses a missing policy
        waiting = waits_for_runs(study, known)
        _make(folder)
    if waiting and not study_workers.is_one():
        note(f"leaving out policies of unfinished runs: {', '.join(waiting)}; see --plan")
    if (options.workers or 1) > 1:
        return _share(study, folder, options)
    from ..studies.searching import run_searches

    how = dict(unit="call", delay=2, leave=False, disable=study_workers.is_one())
    with progress(**how) as bar, _warnings_as_notes():

        def tell(run, done, calls):
            if not done:
                bar.reset(calls)
                bar.set_description(f"search with {run}", refresh=False)
            bar.update(done - bar.n)

        wait = study_workers.waiting(bar, "searches with")
        for found in run_searches(study, folder, tell=tell, wait=wait):
            bar.write(
                f"{found.run}: solved {found.solved_share.mean():.3f} with {found.answers} "
                f"answers, {found.seconds:.0f} s"
            )
            sys.stdout.flush()
    _tell_end([], options)


@contextlib.contextmanager
def _warnings_as_notes():
    """A context in which a warning is one line on stderr, as the command's own messages are."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(message)
        yield
