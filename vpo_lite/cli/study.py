"""``vpo-lite study``: run a declared study, one run after the other, and print what came out."""

import sys

from ..checks import shown
from .flags import Wrong, path, requests, whole

OF_A_STUDY = ("out", "kinds", "seeds", "plan", "search", "table")
FIGURES = ["best@1", "best@30", "any@1", "any@3", "any@30", "coverage", "diversity", "valid"]


def flags(made, arguments) -> None:
    made.add_argument(
        "name", nargs="?", metavar="NAME", help="a declared study, or a file NAME.toml"
    )
    made.add_argument("--out", type=path, metavar="FOLDER", help="default: runs/study-NAME")
    made.add_argument("--kinds", nargs="+", metavar="KIND", help="these kinds of run alone")
    made.add_argument("--seeds", type=whole, metavar="N", help="at most so many seeds of each kind")
    what = made.add_mutually_exclusive_group()
    what.add_argument(
        "--plan", action="store_true", help="print the runs and which are finished; run nothing"
    )
    what.add_argument(
        "--search", action="store_true", help="evolution with the policies of the finished runs"
    )
    what.add_argument(
        "--table",
        nargs="*",
        metavar="FIGURE",
        help=f"print the means of the finished runs (default: {' '.join(FIGURES)}); search: the "
        "table of the searches",
    )


def run(options) -> int:
    with requests():
        from ..studies import declaration, results, searches, tables
        from ..studies.runner import jobs

        if options.name is None:
            if any(v for n, v in vars(options).items() if n in OF_A_STUDY) or options.table == []:
                raise Wrong(f"name a study: {', '.join(declaration.names())}, or a file NAME.toml")
            for name in declaration.names():
                print(f"{name}: {declaration.read(name).declared.about}")
            return 0
        study = declaration.read(options.name)
        for kind in options.kinds or ():
            if kind not in study.kinds:
                raise Wrong(f"--kinds {kind}: study {study.name} has {', '.join(study.kinds)}")
        if options.seeds is not None and options.seeds < 1:
            raise Wrong(f"--seeds {options.seeds}: must be 1 or more")
        if (options.search or options.table is not None) and (options.kinds or options.seeds):
            raise Wrong("--kinds and --seeds choose runs; leave them out with --search and --table")
        folder = options.out or path(f"runs/study-{study.name}")
        if folder.exists() and not folder.is_dir():
            raise Wrong(f"--out {folder}: is a file; name a folder")
        if options.table == ["search"]:
            if not searches.finished(study, folder):
                raise Wrong(f"{folder}: no finished searches; do them with --search")
        elif options.table is not None:
            figures = _figures(study, options.table)
            if not results.chosen(study, folder):
                raise Wrong(f"{folder}: no kind is finished at every learning rate; see --plan")
        elif options.search:
            if not searches.searches(study, folder):
                raise Wrong(f"{folder}: no finished run to search with; see --plan")
            searches.to_do(study, folder)
        elif not options.plan:
            (folder / "policies").mkdir(parents=True, exist_ok=True)
    if options.plan:
        for job in jobs(study, folder, options.kinds, options.seeds):
            state = "finished" if (folder / f"{job.key}.json").exists() else "to do"
            print(f"{state:8}  {job.key}  {study.kinds[job.kind].label}")
    elif options.table == ["search"]:
        print(searches.markdown(study, folder))
    elif options.table is not None:
        print(tables.markdown(study, folder, figures))
    elif options.search:
        _search(study, folder)
    else:
        _run(study, folder, options)
    return 0


def _figures(study, asked: list[str]) -> list[str]:
    """The figures that were asked for, or the usual ones. Wrong for one that is not measured."""
    from ..studies import tables

    there = tables.measured(study)
    for figure in asked:
        if figure == "search":
            raise Wrong("--table search: a table of its own; ask for it alone")
        if figure not in tables.WORDS:
            raise Wrong(f"--table {shown(figure)}: there are {', '.join(there)}, or search alone")
        if figure not in there:
            raise Wrong(
                f"--table {figure}: study {study.name} measures {study.measured.answers} answers; "
                f"there are {', '.join(there)}"
            )
    return asked or tables.measured(study, FIGURES)


def _run(study, folder, options) -> None:
    from tqdm import tqdm

    from ..studies.runner import run_study

    with tqdm(disable=not sys.stderr.isatty(), unit="step") as bar:

        def tell(key, step, steps):
            if step == 1:
                bar.reset(steps)
                bar.set_description(key)
            bar.update()

        for found in run_study(study, folder, kinds=options.kinds, seeds=options.seeds, tell=tell):
            last, best = found.last, found.last["best"]
            bar.write(
                f"{found.kind}, lr {found.config['lr']:g}, seed {found.seed}: "
                f"best@1 {best[0]:.3f}, best@{len(best)} {best[-1]:.3f}, "
                f"any@{len(best)} {last['any'][-1]:.3f}, diversity {last['diversity']:.2f}, "
                f"{found.checkpoints[-1].tokens:,} tokens, {found.seconds:.0f} s"
            )
            sys.stdout.flush()


def _search(study, folder) -> None:
    from tqdm import tqdm

    from ..studies import searches

    with tqdm(
        total=len(searches.to_do(study, folder)), disable=not sys.stderr.isatty(), unit="policy"
    ) as bar:
        for found in searches.run_searches(study, folder):
            bar.write(
                f"{found.run}: solved {found.solved_share.mean():.3f} with {found.answers} "
                f"answers, {found.seconds:.0f} s"
            )
            sys.stdout.flush()
            bar.update()
