"""Started by tests/test_trl.py in two processes: the same run whole, and with its parameters split
among the processes by FSDP 2, stopped and resumed.

accelerate chooses FSDP on GPUs alone. So it is told here that these processes have some.
"""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor

import vpo_lite as vpo
from vpo_lite.integrations.trl_run import TrlRun

FOLDER = Path(sys.argv[1])
SETTINGS = dict(maze_seed=1000, steps=3, prompts=1, group_size=6, m=2, K=1, device="cpu", threads=1)
SETTINGS |= dict(eval_every=1, eval_answers=2, save_every=2)  # a measurement needs a state, too
FSDP = dict(ACCELERATE_USE_FSDP="true", FSDP_VERSION="2", FSDP_STATE_DICT_TYPE="SHARDED_STATE_DICT")
FSDP |= dict(FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP", FSDP_RESHARD_AFTER_FORWARD="true")
made = AcceleratorState.__init__


def on_gpus(self, *arguments, **options):
    if not AcceleratorState._shared_state:
        PartialState(True)
        wanted = dict(distributed_type=DistributedType.MULTI_GPU, device=torch.device("cpu"))
        PartialState._shared_state.update(wanted)
    made(self, *arguments, **options)


def train(run, stop_after=None):
    """Train and finish; returns the shares of the adapter's matrices that this process holds."""
    trainers, build = [], run._trainer
    run._trainer = lambda tell: trainers.append(build(tell)) or trainers[-1]
    if run.train(lambda record: record.step == stop_after):
        run.finish()
    run.close()
    (trainer,) = trainers
    matrices = [p for p in trainer.model.parameters() if p.requires_grad]
    return [p.to_local().numel() / p.numel() if isinstance(p, DTensor) else 1 for p in matrices]


config = vpo.TrainConfig.preset("demo", **SETTINGS)
run = TrlRun.begin(config, FOLDER / "whole")
run.start()
whole = train(run)
os.environ.update(FSDP)
AcceleratorState.__init__ = on_gpus
run = TrlRun.begin(config, FOLDER / "split")
run.start()
split = train(run, stop_after=2)
train(TrlRun.resume(FOLDER / "split"))
if PartialState().is_main_process:
    (FOLDER / "found.json").write_text(json.dumps({"whole": whole, "split": split}))
