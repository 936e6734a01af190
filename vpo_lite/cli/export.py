"""``vpo-lite export KIND``: what the kit knows, in a form that something else starts from."""

import contextlib
import sys
from functools import partial
from pathlib import Path

from ..messages import command
from .flags import (
    OF_A_PAGE,
    Command,
    add_number,
    add_settings,
    at_home,
    given_settings,
    measuring,
    note,
    path,
    progress,
    requests,
)
from .told import tell_of_records, warn_of_held_out, warn_of_one_problem


def _verl_flags(made, arguments) -> None:
    from ..training.config import TrainConfig

    made.add_argument(
        "--preset",
        default="gpu",
        metavar="NAME",
        help="set of defaults for the settings below: demo, patient, laptop, gpu or paper "
        "(default: gpu)",
    )
    made.add_argument("--out", type=path, required=True, metavar="FOLDER", help="a new folder")
    add_number(made, "--gpus", "GPUs on each node", default=1)
    add_number(made, "--nodes", "nodes of the cluster", default=1)
    made.add_argument(
        "--estimator",
        default="grpo",
        metavar="NAME",
        help="what normalises scores in a group: grpo, veRL's own (default), or vpo, ours: by "
        "the population's standard deviation and --eps; max_at_k and maxrl need vpo",
    )
    add_settings(made, arguments, TrainConfig.options(), "gpu")


def _verl(options) -> int:
    with requests():
        from ..integrations.verl_export import export
        from ..training.config import TrainConfig

        chosen = given_settings(TrainConfig.options(), options)
        config = TrainConfig.preset(options.preset, **chosen)
        with measuring(quiet=False) as tell:
            count = export(
                config,
                options.out,
                gpus=options.gpus,
                nodes=options.nodes,
                estimator=options.estimator,
                tell=tell,
            )
    tell_of_records(config)
    warn_of_held_out(config.make_task(), config.eval_problems)
    warn_of_one_problem(config, chosen)
    if not Path(config.model).is_dir():
        note(
            f"{config.model} is no folder here. veRL will ask the model hub for it; "
            "max_prompt_length in vpo.yaml is an upper bound, as no tokenizer counted"
        )
    listed = ", ".join(f"{name} ({n:,} rows)" for name, n in count.items())
    print(f"Written to {options.out}: {listed}, vpo.yaml, run.sh")
    print("README.md there says how to go on")
    return 0


def _lesson_flags(made, arguments) -> None:
    made.add_argument(
        "recordings",
        nargs="+",
        type=at_home,
        metavar="RECORDING",
        help="a folder that lab.record() wrote, or the name of a recording that ships, such as "
        "three_methods/seed-0; several must be of one problem",
    )
    made.add_argument("--out", type=path, required=True, metavar="FILE", help="new page, FILE.html")
    made.add_argument(
        "--unseen",
        action="store_true",
        help="open the page at step 1, without the true front and the best set, and draw its "
        "curves only up to the current step, so that a class can vote first",
    )


def _lesson(options) -> int:
    with requests():
        from ..lab.lesson import write_lesson

        bar = partial(progress, desc="judging", unit="alpha", delay=2, leave=False)
        written = write_lesson(options.recordings, options.out, options.unseen, bar)
    size = written.stat().st_size / 1000
    print(f"{written}: {size:,.0f} kB; {OF_A_PAGE}")
    return 0


def _model_flags(made, arguments) -> None:
    made.add_argument(
        "trained", type=at_home, metavar="RUN", help="a finished run, or the folder of an adapter"
    )
    made.add_argument("--out", type=path, required=True, metavar="FOLDER", help="a new folder")
    made.add_argument(
        "--base", type=at_home, metavar="NAME", help="folder of the base model, if it has moved"
    )
    made.add_argument(
        "--dtype",
        default="auto",
        metavar="NAME",
        help="number format of the parameters: auto (as the base's files; float32 for float16), "
        "bfloat16, float32",
    )


def _model(options) -> int:
    with requests():
        from ..policy.merged import check_merge, write_merged
        from ..policy.shipped import name_of_folder
        from ..training.folders import RunFolder

        base = options.base
        if base is None:
            with contextlib.suppress(ValueError):  # it may be an adapter alone
                base = name_of_folder(RunFolder.open(options.trained).config().base_model)
        asked = dict(base=base, dtype=options.dtype)
        check_merge(options.trained, options.out, **asked)
        print("adding the adapter to its base", file=sys.stderr)
        out = write_merged(options.trained, options.out, **asked, tell=note)
    size = sum(file.stat().st_size for file in out.glob("*.safetensors")) / 1e6
    print(f"{out}: one model of transformers, {size:,.1f} MB of parameters")
    print(f"{command('train', '--model', out)} puts a fresh adapter on it")
    return 0


KINDS = {
    "model": Command(
        "write base model and trained adapter as one model of transformers",
        _model_flags,
        _model,
        "vpo-lite export model runs/qwen --out merged",
    ),
    "verl": Command(
        "write a run as data and configuration of veRL, for a Ray cluster",
        _verl_flags,
        _verl,
        "vpo-lite export verl --model FOLDER --gpus 8 --nodes 2 --out runs/b",
    ),
    "lesson": Command(
        "write recorded runs as one HTML page for a class",
        _lesson_flags,
        _lesson,
        "vpo-lite export lesson three_methods/seed-0 --unseen --out lesson.html",
    ),
}
