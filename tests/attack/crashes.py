"""A run that is killed at every operation on a file, and what becomes of it.

    python crashes.py MODEL FOLDER

A process trains. Just before its n-th operation on a file of the run, n = 1, 2, ..., the files are
copied: what a kill -9 would leave there. From each copy that differs from the ones before a second
process goes on. Then the same with a finished run of two steps, which is made longer. The last line
is two JSON lists: for each n the operation, how the second process ended, and what the folder then
holds. Their last row is that of the run that was copied.

Processes are forked from one that has loaded everything, a policy too, and that has no second
thread: the tokenizers' library starts none under RAYON_NUM_THREADS=1.
"""

import gc
import json
import os
import re
import shutil
import sys
import traceback
from pathlib import Path

import torch
from safetensors import safe_open

from vpo_lite import TrainConfig
from vpo_lite.training.learner import Learner
from vpo_lite.training.run import Run

EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.unlink")
FAILED = 3


def copied_before_operations(folder: Path) -> None:
    """Copy the folder before each operation of this process on a file in it: to 1, 2, ... beside
    it, with the operation in 1.operation, 2.operation, ...
    """
    seen = 0

    def watch(event, arguments):
        nonlocal seen
        writes = event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike))
        writes = writes and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if not (writes or event in EVENTS) or not str(arguments[0]).startswith(str(folder)):
            return
        seen += 1
        if folder.exists():
            shutil.copytree(folder, folder.parent / str(seen))
        operation = f"{event} {os.path.relpath(arguments[0], folder)}"
        (folder.parent / f"{seen}.operation").write_text(operation)

    sys.addaudithook(watch)


def work(config: TrainConfig, folder: Path) -> None:
    """Begin a run, or go on with it, to its end, or further to that of this config."""
    if (folder / "config.json").exists():
        try:
            run = Run.resume(folder, config.steps)
        except ValueError as error:
            if "is finished" in str(error):
                return
            raise
    else:
        run = Run.begin(config, folder)
    run.start()
    for _ in run.steps():
        pass
    run.finish()


def in_a_process(task, *arguments) -> int:
    """Do it in a forked process; returns its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            task(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def held(folder: Path) -> dict:
    """What a run folder holds, without what differs from run to run: times, and in safetensors the
    order of the metadata.
    """
    timings = ("seconds", "rollout_seconds", "scoring_seconds", "rollout_share", "scoring_share")

    def timeless(text):
        values = json.loads(text)
        return {k: v for k, v in values.items() if k not in timings}

    files = sorted(p for p in folder.rglob("*") if p.is_file())
    content = {p.relative_to(folder).as_posix(): p.read_bytes().hex() for p in files}
    if (folder / "summary.json").exists():
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        content["metrics.jsonl"] = [timeless(line) for line in lines]
        content["summary.json"] = timeless((folder / "summary.json").read_text())
    if (folder / "state.safetensors").exists():
        with safe_open(folder / "state.safetensors", "pt") as file:
            tensors = {name: file.get_tensor(name).tolist() for name in sorted(file.keys())}
            content["state.safetensors"] = [tensors, file.metadata()]
    return content


def left(folder: Path) -> dict | None:
    """Every file and folder that a kill left, without the random ends of names."""
    paths = sorted(folder.rglob("*"))
    content = {p.relative_to(folder).as_posix(): p.is_file() and p.read_bytes() for p in paths}
    named = {re.sub(r"-\w{8}(?=/|$)", "", name): value for name, value in content.items()}
    return named if folder.exists() else None


def train_and_copy(config: TrainConfig, folder: Path) -> None:
    copied_before_operations(folder)
    work(config, folder)


def main(model: str, root: Path) -> None:
    torch.set_num_threads(1)
    small = dict(steps=3, prompts=1, group_size=2, m=2, max_new_tokens=6, save_every=2)
    here = dict(model=model, maze_seed=1000, device="cpu", threads=1)
    config = TrainConfig.preset("demo", **small, **here)
    Learner(config)
    gc.freeze()  # a collection would copy every page to the fork
    assert in_a_process(work, config, root / "whole") == 0
    assert in_a_process(work, config.but(steps=2), root / "shorter") == 0
    from_nothing = attack(config, root / "begun", root / "whole")
    print(
        json.dumps(
            [from_nothing, attack(config, root / "longer", root / "whole", root / "shorter")]
        )
    )


def attack(config: TrainConfig, root: Path, whole: Path, start: Path | None = None) -> list[dict]:
    """What becomes of a run killed at each operation. start: what its folder holds at first."""
    root.mkdir()
    if start:
        shutil.copytree(start, root / "run")
    status, found, known = in_a_process(train_and_copy, config, root / "run"), [], []
    for n in range(1, len(list(root.glob("*.operation"))) + 1):
        copy = root / str(n)
        there = left(copy)
        ended = next((ended for other, ended in known if other == there), None)
        if ended is None:
            second = in_a_process(work, config, copy)
            ended = {"second": second, "same": held(copy) == held(whole)}
            known.append((there, ended))
        found.append(ended | {"operation": (root / f"{n}.operation").read_text()})
    names = sorted(held(root / "run"))
    return [*found, {"first": status, "same": held(root / "run") == held(whole), "names": names}]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
