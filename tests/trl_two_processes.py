"""Started by tests/test_trl.py in two processes: a run on TRL whose every group is shared by both.

It compares the advantages that TRL gathered with the library's, from the answers of both processes;
once with keyed weights, once with weights that each process draws for itself.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from accelerate import PartialState
from accelerate.utils import gather_object
from brute_force import brute_force_max_at_k

import vpo_lite as vpo
from vpo_lite.integrations import rewards
from vpo_lite.integrations.trl_run import TrlRun
from vpo_lite.training.problems import draw_weights, problems_of_step

FOLDER = Path(sys.argv[1])
SETTINGS = dict(maze_seed=1000, steps=3, prompts=1, group_size=6, m=2, K=1, pay_repeats=True)
SETTINGS |= dict(eval_every=1, eval_answers=2)


def expected(config, record):
    """The advantages (G,) of the one group, with Bessel's deviation and eps 1e-4; for max_at_k
    those of both groups, from all pairs.
    """
    if config.method == "max_at_k":
        return np.concatenate([best_of_pairs(group) for group in record.groups])
    task, step = config.make_task(), record.step - 1
    (x,) = problems_of_step(task, config.seed, step, 1)
    (W,) = draw_weights(task, config, [x], [f"{task.key(x)}#0"], step)
    score = vpo.set_reward(record.groups[0].rewards, W)
    return (score - score.mean()) / (score.std(ddof=1) + 1e-4)


def best_of_pairs(group):
    r = group.rewards[:, 0] @ config.make_task().w_star(group.instance)
    return brute_force_max_at_k(r, 2)


def train(config, name, stop_after=None):
    """Gaps between TRL's advantages and ours, the largest advantage, rows by process."""
    run = TrlRun.begin(config, FOLDER / name)
    gaps, sizes, made, held = [], [], run._trainer, {}

    def compare(record):  # in the main process; TRL gathers the advantages of all
        theirs = np.array(held["trainer"]._logs["advantages"])
        gaps.append(float(abs(theirs - expected(config, record)).max()))
        sizes.append(float(abs(theirs).max()))
        return record.step == stop_after

    run._trainer = lambda tell: held.setdefault("trainer", made(tell))
    run.train(compare)
    run.close()
    rows = gather_object([held["trainer"].args.per_device_train_batch_size])
    return gaps, max(sizes, default=0), rows


def own_weights(task, how, instances, keys, step):
    rng = np.random.default_rng(100 * int(os.environ["RANK"]) + step)
    return [vpo.sample_weights(how.K, len(task.objectives(x)), rng=rng) for x in instances]


config = vpo.TrainConfig.preset("demo", device="cpu", threads=1, **SETTINGS)
keyed, size, rows = train(config, "run", stop_after=2)
run = TrlRun.resume(FOLDER / "run")
resumed = []
run.train(lambda record: resumed.append(record.step))
run.finish()
best = config.but(method="max_at_k", k=2, prompts=2, set_size=2)  # a whole group in each process
whole, *_ = train(best, "best", stop_after=2)
rewards.draw_weights = own_weights
wrong, *_ = train(config, "wrong", stop_after=2)
if PartialState().is_main_process:
    found = {
        "keyed": keyed,
        "whole groups": whole,
        "own generators": wrong,
        "size": size,
        "rows": rows,
    }
    found |= {"processes": PartialState().num_processes, "group": config.group_size}
    (FOLDER / "found.json").write_text(json.dumps(found | {"resumed": resumed}))
