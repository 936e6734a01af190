"""What a user types on one GPU: README's line for it, and what belongs to it."""

import json
import os
import signal
import subprocess
import sys
import time

from here import Here, Skipped, needs_trl


def commands(here: Here) -> dict:
    """`vpo-lite train --preset gpu` with each engine: killed, resumed, evaluated, and compared."""
    shell, found, engines = Shell(here), {}, ("native", "trl")
    try:
        needs_trl(here)
    except Skipped as reason:
        engines, found["trl"] = ("native",), str(reason)
    for engine in engines:
        found[engine] = shell.killed_and_resumed(engine, 4 if here.small else 12)
        here.keep(found)
    compared = shell("compare", *engines).splitlines()
    rows = [line for line in compared if line.startswith("vpo") and " > " in line]
    assert len(rows) == len(engines), compared
    said = "; ".join(f"{name} {found[name]['said']}" for name in engines)
    return {**found, "compared": compared, "seconds_by_command": shell.seconds, "said": said}


class Shell:
    """Runs vpo-lite in a folder of its own. ``seconds``: what each command took."""

    def __init__(self, here: Here):
        self.here, self.seconds = here, {}
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        self.how = dict(cwd=here.scratch, text=True, stdout=subprocess.PIPE)
        self.how["env"] = {**os.environ, **paths}

    def settings(self, engine: str, steps: int) -> list[str]:
        """Of a run. On a GPU no device is given: as for a user, it is found."""
        given = ["--engine", engine, "--preset", "gpu", "--out", engine]
        given += ["--steps", str(steps), "--save-every", "1"]
        given += ["--eval-problems", "8", "--eval-answers", "12"]
        if self.here.small:
            given += ["--prompts", "2", "--group-size", "4"]
        return given + ["--device", "cpu"] * (self.here.device.type == "cpu")

    def __call__(self, *arguments: str) -> str:
        """What the command prints. AssertionError if it fails."""
        started = time.perf_counter()
        ended = subprocess.run(vpo_lite(arguments), check=False, **self.how)
        self.seconds[" ".join(arguments[:3])] = round(time.perf_counter() - started, 1)
        assert ended.returncode == 0, f"{' '.join(arguments)}: status {ended.returncode}"
        return ended.stdout

    def killed_and_resumed(self, run: str, steps: int) -> dict:
        """A run that is killed after its second step, resumed, and evaluated once more.

        ``evaluate`` draws what the run drew when it ended, so its coverage is that of summary.json,
        up to a draw that is rounded differently.
        """
        folder = self.here.scratch / run
        command = vpo_lite(["train", *self.settings(run, steps)])
        process = subprocess.Popen(command, **{**self.how, "stdout": subprocess.DEVNULL})
        while process.poll() is None and done(folder) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        ended, killed = process.wait(), done(folder)
        assert ended == -signal.SIGKILL and killed < steps, f"status {ended}, {killed} steps"
        self("train", "--resume", run)
        summary = json.loads((folder / "summary.json").read_text())
        off = abs(json.loads(self("evaluate", run, "--json"))["coverage"] - summary["coverage"])
        assert summary["steps"] == done(folder) == steps, summary
        where = summary["device"]
        assert where.startswith(self.here.device.type), where
        assert off <= 0.02, f"coverage {summary['coverage']}, evaluated again {off} beside it"
        said = f"killed after step {killed} of {steps}, resumed on {where}, evaluated within {off}"
        return {"killed_after": killed, "device_of_run": where, "coverage_off": off, "said": said}


def vpo_lite(arguments) -> list[str]:
    return [sys.executable, "-m", "vpo_lite.cli", *arguments]


def done(folder) -> int:
    """The steps that a run has recorded."""
    metrics = folder / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0
