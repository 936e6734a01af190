"""A run that is killed at every operation on a file, and what becomes of it.

    python crashes.py MODEL FOLDER

For n = 1, 2, ... a process trains into FOLDER/n and is ended, as by kill -9, just before its n-th
operation on a file of the run. A second process goes on. Then the same with a finished run of two
steps, which is made longer. The last line is two JSON lists: for each n the operation, whether the
run could be begun or resumed, and what the folder then holds.

Processes are forked from one that has loaded everything, a policy too, and that has no second
thread: the tokenizers' library starts none under RAYON_NUM_THREADS=1.
"""

import json
import os
import shutil
import sys
import traceback
from pathlib import Path

import torch
from safetensors import safe_open

from vpo_lite import TrainConfig
from vpo_lite.training.run import Run
from vpo_lite.training.step import Learner

EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.unlink")
KILLED, FAILED = 9, 3


def killed_at(count: int, folder: Path) -> None:
    """Let this process end before its ``count``-th operation on a file below the folder."""
    seen = 0

    def watch(event, arguments):
        nonlocal seen
        writes = event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike))
        writes = writes and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if not (writes or event in EVENTS) or not str(arguments[0]).startswith(str(folder)):
            return
        seen += 1
        if seen == count:
            (folder.parent / f"{folder.name}.operation").write_text(
                f"{event} {os.path.relpath(arguments[0], folder.parent)}"
            )
            os._exit(KILLED)

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


def train_and_die(config: TrainConfig, folder: Path, count: int) -> None:
    killed_at(count, folder)
    work(config, folder)


def main(model: str, root: Path) -> None:
    torch.set_num_threads(1)
    small = dict(steps=3, prompts=1, group_size=2, m=2, max_new_tokens=6, save_every=2)
    here = dict(model=model, maze_seed=1000, device="cpu", threads=1)
    config = TrainConfig.preset("demo", **small, **here)
    Learner(config)
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
    found, count = [], 0
    while not found or found[-1]["first"] == KILLED:
        count += 1
        folder = root / str(count)
        if start:
            shutil.copytree(start, folder)
        first = in_a_process(train_and_die, config, folder, count)
        second = in_a_process(work, config, folder) if first == KILLED else 0
        operation = root / f"{count}.operation"
        found.append(
            {
                "first": first,
                "second": second,
                "operation": operation.read_text() if operation.exists() else "",
                "same": held(folder) == held(whole),
                "names": sorted(held(folder)),
            }
        )
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
