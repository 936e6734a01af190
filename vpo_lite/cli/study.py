"""``vpo-lite study``: run a declared study, one run after the other."""

import sys

from .flags import Wrong, path, requests, whole


def flags(made, arguments) -> None:
    made.add_argument(
        "name", nargs="?", metavar="NAME", help="a declared study, or a file NAME.toml"
    )
    made.add_argument("--out", type=path, metavar="FOLDER", help="default: runs/study-NAME")
    made.add_argument("--kinds", nargs="+", metavar="KIND", help="these kinds of run alone")
    made.add_argument("--seeds", type=whole, metavar="N", help="at most so many seeds of each kind")
    made.add_argument(
        "--plan", action="store_true", help="print the runs and which are finished; run nothing"
    )


def run(options) -> int:
    with requests():
        from ..studies import declaration

        if options.name is None:
            for name in declaration.names():
                print(f"{name}: {declaration.read(name).declared.about}")
            return 0
        study = declaration.read(options.name)
        for kind in options.kinds or ():
            if kind not in study.kinds:
                raise Wrong(f"--kinds {kind}: study {study.name} has {', '.join(study.kinds)}")
        if options.seeds is not None and options.seeds < 1:
            raise Wrong(f"--seeds {options.seeds}: must be 1 or more")
    folder = options.out or path(f"runs/study-{study.name}")
    from ..studies.runner import jobs, run_study

    if options.plan:
        for job in jobs(study, folder, options.kinds, options.seeds):
            state = "finished" if (folder / f"{job.key}.json").exists() else "to do"
            print(f"{state:8}  {job.key}  {study.kinds[job.kind].label}")
        return 0
    from tqdm import tqdm

    with requests(), tqdm(disable=not sys.stderr.isatty(), unit="step") as bar:

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
    return 0
