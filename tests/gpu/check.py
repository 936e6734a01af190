"""What only a GPU can show. `make gpu` starts it.

    python tests/gpu/check.py                                # all parts, which are
    python tests/gpu/check.py --only correctness speed demo  # six minutes of an H100,
    python tests/gpu/check.py --only commands                # three to five (it has not ended yet),
    python tests/gpu/check.py --only learning                # and five minutes of training
    python tests/gpu/check.py --device cpu --small           # in small, to prove the script

ORDER says what comes first: what the rest rests on, then figures, and last five minutes of
training. Each part's figures go to tests/benchmarks/results/gpu.json as soon as it has ended; other
parts in that file stay. A trial on the CPU writes nothing, unless --out names a file. A table comes
last.

An error in one part is recorded and does not stop the others. They run in a process of their own,
and in a new one where an error has broken the GPU for that process, or has ended it. A part that
takes longer than its limit counts as an error: its process is killed, after it has said where it
was. The limits are well above what an H100 should need; `--slower 2` doubles them. Where the whole
command has a limit, `--within 430` ends it, with the table, up to half a minute after that;
`--learn 200` makes the part learning shorter. Figures are stored as they come.

It needs no network and no installed vpo_lite, and of Python packages only: torch, transformers,
peft, safetensors, numpy, scipy, gymnasium, pydantic, filelock, and what these need. bitsandbytes
and TRL are used where they are installed. Those that a machine with torch and transformers lacks
can be carried there as wheels: `pip install --no-index --no-deps --target DIR *.whl`, and
PYTHONPATH=DIR. Where pyarrow is one of them, DIR must end with site-packages: dill, which hashes
TRL's rows, takes other modules for a user's own and fails on pyarrow's.
"""

import argparse
import contextlib
import datetime
import faulthandler
import gc
import importlib.util
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Where it is 1, as in NVIDIA's images, float32 products round their factors to 10 bits (TF32).
os.environ["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"] = "0"
ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks")]

import vpo_lite  # noqa: E402, F401  before torch: it sets how OpenMP's threads wait

# isort: split
import torch  # noqa: E402
from here import Here, Skipped  # noqa: E402

RESULTS = ROOT / "tests" / "benchmarks" / "results" / "gpu.json"
ORDER = """
correctness: logits sampler update steps panel attention bf16 nan stated_memory resume
speed: rollouts sampling_time sharing recording step_time
effect: demo
correctness: oom compiled quantised
commands: commands
speed: trl
effect: learning
"""
LIMIT, START_UP = 60, 60  # seconds of a part, and more for the first one of a process
LIMITS = {"rollouts": 180, "step_time": 120, "demo": 180, "resume": 120, "compiled": 150}
LIMITS |= {"commands": 300, "trl": 210, "learning": 480}
PACKAGES = ("torch", "transformers", "peft", "numpy", "scipy", "bitsandbytes", "trl")


START = [sys.executable, str(Path(__file__).resolve())]
BROKEN = 3  # how a process ends that can use its GPU no more


def chosen(names: list[str]) -> list[tuple[str, str]]:
    """(group, part) in their order. A name is a group's or a part's; none stands for all."""
    lines = [line.split(": ") for line in ORDER.strip().splitlines()]
    every = [(group, part) for group, parts in lines for part in parts.split()]
    unknown = set(names) - {name for pair in every for name in pair}
    if unknown:
        there = ", ".join(
            dict.fromkeys([group for group, _ in every] + [part for _, part in every])
        )
        sys.exit(f"--only {' '.join(sorted(unknown))}: there are {there}")
    return [pair for pair in every if not names or set(pair) & set(names)]


def run(group: str, part: str, here: Here) -> dict:
    """One part: its figures, whether it passed, and how long it took."""
    started, figures = time.perf_counter(), {}
    try:
        figures = getattr(importlib.import_module(group), part)(here)
        outcome = "passed"
    except Skipped as reason:
        outcome, figures = "skipped", {"said": str(reason)}
    except AssertionError as error:
        outcome, figures = "failed", {"said": str(error)}
    except Exception as error:
        traceback.print_exc()
        outcome, figures = "error", {"said": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"outcome": outcome, "seconds": round(time.perf_counter() - started, 1), **figures}


def answers(device: torch.device) -> bool:
    """Whether this process can go on using the device. After an illegal address it cannot."""
    gc.collect()  # models hold references in cycles
    try:
        if device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def run_here(
    wanted,
    device: torch.device,
    small: bool,
    rows: Path,
    out: Path | None,
    learn: float = 300,
    eager: bool = False,
) -> int:
    """Run the parts in this process. Each one's figures go to ``out``, and are a line of ``rows``.

    Returns BROKEN where an error left the GPU of no use to this process, else 0.
    """
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine()
    found = [p for p in PACKAGES if importlib.util.find_spec(p)]
    about = {"device": name, "cuda": torch.version.cuda, "small": small}
    versions = {package: version(package) for package in found}
    about |= {"versions": versions | {"torch": torch.__version__}}  # with its build: +cpu, +cu130

    def keep(figures: dict) -> None:  # of the part that runs
        kept.update(figures)
        if out:
            write(out, about, {part: dated({"outcome": "cut short", "device": name, **kept})})

    from vpo_lite.policy import graphs

    if eager:  # torch up to 2.11 goes on as if a recording that broke had no end
        graphs._BROKEN.set()
    with tempfile.TemporaryDirectory() as scratch:
        here = Here(device, small, Path(scratch), learn, keep)
        for group, part in wanted:
            print(f"== {part}", flush=True)
            kept = {}  # also where the part fails
            # of each part: a later command, for other parts, may get another card
            figures = run(group, part, here)
            row = dated({**kept, **figures, "device": name})
            row |= {"graphs": not graphs._BROKEN.is_set()} if on_gpu else {}
            print(json.dumps(row, indent=1), flush=True)
            if out:
                write(out, about, {part: row})
            with rows.open("a") as file:  # last: a part is done when its figures are on disk
                file.write(json.dumps([part, row]) + "\n")
            if not answers(device):
                return BROKEN
    return 0


def run_apart(
    wanted, command: list[str], rows: Path, out: Path | None, slower=1.0, within=math.inf
) -> dict:
    """Run the parts in processes that ``command`` starts. Where one ends early, another goes on
    with the parts that are left.

    slower: a factor of the limits; within: seconds after which no part goes on, and none begins
    """
    rows.touch()
    done, names, end = {}, [part for _, part in wanted], time.monotonic() + within
    vain = 0  # processes in a row that did no part
    while left := [name for name in names if name not in done]:
        if time.monotonic() > end:
            over = {"outcome": "skipped", "seconds": 0.0, "said": "the time was over"}
            return done | dict.fromkeys(left, over)
        limits = {name: slower * LIMITS.get(name, LIMIT) for name in left}
        broken = any(row.get("graphs") is False for row in done.values())
        rest = [*command, *["--eager"][:broken], "--rows", str(rows), "--only", *left]
        status, late = run_limited(rest, rows, limits, end)
        done |= dict(json.loads(line) for line in rows.read_text().splitlines())
        after = [name for name in left if name not in done]
        vain = vain + 1 if after == left and late is None else 0
        if vain == 3:
            over = {"outcome": "error", "seconds": 0.0}
            over["said"] = f"three processes ended with {status}, and none did a part"
            return done | dict.fromkeys(left, over)
        if late in after:
            lost, seconds, said = late, limits[late], f"not done after {limits[late]:g} s"
            if time.monotonic() > end:
                seconds, said = 0.0, f"cut short when {within:g} s were over"
        elif late is None and after and (status != BROKEN or after == left):
            lost, seconds, said = after[0], 0.0, f"its process ended with {status}"
        else:
            continue
        done[lost] = dated({"outcome": "error", "seconds": seconds, "said": said})
        if out:
            before = json.loads(out.read_text())["parts"].get(lost, {}) if out.exists() else {}
            cut = before if before.get("outcome") == "cut short" else {}
            write(out, {}, {lost: cut | done[lost]})
    return done


def run_limited(
    command: list[str], rows: Path, limits: dict, end: float = math.inf
) -> tuple[int | None, str | None]:
    """Run a command that does the parts of ``limits`` (part: seconds) one by one, and adds a line
    to ``rows`` after each. end: when it is killed in any case, on the monotonic clock.

    Returns its exit status, and the part at which it was killed because the limit was over. It has
    as long to end, when all is done, as to start.
    """
    parts, before = [*limits, None], len(rows.read_text().splitlines())
    at, until = 0, time.monotonic() + START_UP + limits[parts[0]]
    process = subprocess.Popen(command, process_group=0)
    try:
        while process.poll() is None:
            if (found := len(rows.read_text().splitlines()) - before) > at:
                at, until = found, time.monotonic() + limits.get(parts[found], START_UP)
            if time.monotonic() > min(until, end):
                process.send_signal(signal.SIGUSR1)  # it writes where each of its threads is
                time.sleep(1)
                return None, parts[at]
            time.sleep(0.1)
        return process.returncode, None
    finally:  # with what it has started itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may hold it
            process.wait(30)


def dated(row: dict) -> dict:
    return {**row, "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"}


def write(path: Path, about: dict, parts: dict) -> None:
    """The figures of these parts, beside those of other parts that the file holds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {}
    parts = {**kept.pop("parts", {}), **parts}
    staged = path.with_suffix(".new")  # whole or not at all, also where the time is up
    staged.write_text(json.dumps({**kept, **about, "parts": parts}, indent=1) + "\n")
    staged.replace(path)


def table(parts: dict) -> str:
    wide = max(map(len, parts))
    return "\n".join(
        f"{name:{wide}}  {row['outcome']:7}  {row['seconds']:6.1f} s  {row.get('said', '')}"
        for name, row in parts.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a trial on the CPU")
    parser.add_argument("--out", type=Path, help="the JSON file (default on a GPU: gpu.json)")
    parser.add_argument("--slower", type=float, default=1.0, help="factor of the parts' limits")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds for all parts")
    parser.add_argument("--learn", type=float, default=300, help="seconds of the part learning")
    parser.add_argument("--eager", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # of a process started here
    options = parser.parse_args()
    wanted, device = chosen(options.only), torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch sees no CUDA device here, so there is nothing to check")
        return 0
    out = options.out or (RESULTS if device.type == "cuda" and not options.small else None)
    if options.rows:
        faulthandler.register(signal.SIGUSR1, sys.__stderr__)
        small, rows, learn, eager = options.small, options.rows, options.learn, options.eager
        return run_here(wanted, device, small, rows, out, learn, eager)
    given = ["--device", options.device, *["--small"][: options.small]]
    given += ["--out", str(out)] if out else []
    given += ["--learn", str(options.learn)]
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch) / "rows"
        done = run_apart(wanted, [*START, *given], rows, out, options.slower, options.within)
    print(f"\ntorch {torch.__version__}" + (f", written to {out}" if out else ""))
    print(table(done))
    return int(any(row["outcome"] in ("failed", "error") for row in done.values()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the parts' process ends with this one
    sys.exit(main())
