"""``vpo-lite pretrain``: make a pocket policy from a seed."""

import contextlib
import json
import math
import sys

from ..checks import shown
from ..tasks import DEFAULT
from .flags import (
    Wrong,
    add_device,
    add_number,
    add_options,
    given,
    named,
    path,
    progress,
    requests,
    say,
)
from .stopping import exit_status, patient


def flags(made, arguments) -> None:
    from ..pocket.recipe import recipe_class

    with requests():
        recipe = recipe_class(named(made, "--task", DEFAULT, arguments))
    made.add_argument(
        "--out",
        type=path,
        required=True,
        metavar="FOLDER",
        help="folder of the policy; a stopped one is continued",
    )
    made.add_argument(
        "--task",
        default=DEFAULT,
        metavar="NAME",
        help=f"task that it learns to answer (default: {DEFAULT})",
    )
    add_options(made, recipe.options())
    add_device(made)
    add_number(made, "--threads", "threads of torch on the CPU (default: torch decides)")
    add_number(
        made,
        "--workers",
        "processes that make demonstrations; 0: the training process does",
        default=1,
    )
    made.add_argument(
        "--compile", action="store_true", help="train through torch.compile (needs a C++ compiler)"
    )


def run(options) -> int:
    with requests():
        from ..pocket.pretrain import finish, pretrain
        from ..pocket.recipe import recipe_class
        from ..policy.decoder import compiler_missing
        from ..policy.loading import choose_device
        from ..policy.threads import torch_threads

        recipe = recipe_class(options.task)
        config = recipe(**given(recipe.options(), options))
        device = choose_device(options.device)
        for name, least in (("workers", 0), ("threads", 1)):
            count = getattr(options, name)
            if count is not None and not least <= count <= 1024:
                raise Wrong(f"--{name} {shown(count)}: expected {least} to 1024")
        if options.compile and (missing := compiler_missing(device)):
            raise Wrong(f"--compile: {missing}; leave it out, or fix this")
        settings = dict(device=device, workers=options.workers, compile=options.compile)
        work = pretrain(config, options.out, **settings)
    loss, done, asked, stopped = math.nan, 0, [], False
    with torch_threads(options.threads):
        try:
            with (
                patient(asked, unit="update"),
                contextlib.closing(work),  # stores its state
                progress(total=config.updates, unit="update") as bar,
            ):
                for done, now in work:
                    loss = now if math.isnan(loss) else 0.98 * loss + 0.02 * now
                    bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
                    bar.update(done - bar.n)
                    if stopped := bool(asked) and done < config.updates:
                        break
                else:
                    bar.update(config.updates - bar.n)  # of a folder that was finished before
        except KeyboardInterrupt:
            said = f"stopped after {done} updates; the same command goes on from the last saved one"
            return say(said, exit_status(asked))
        if stopped:
            said = f"stopped after {done} updates; the same command goes on there"
            return say(said, exit_status(asked))
        print("measuring the policy", file=sys.stderr)
        print(json.dumps(finish(config, options.out, device), indent=1))
    return 0
