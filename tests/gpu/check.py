"""What only a GPU can show, meant for ten minutes on one. `make gpu` starts it.

    python tests/gpu/check.py                             # all parts, in this order
    python tests/gpu/check.py --only correctness rollouts # a group, or parts by name
    python tests/gpu/check.py --device cpu --small        # every part in small, to prove the script

An error in one part is recorded and does not stop the others. A table comes last. Each part's
figures go to tests/benchmarks/results/gpu.json as soon as it has ended; other parts in that file
stay. A trial on the CPU writes nothing, unless --out names a file.

It needs no network and no installed vpo_lite, and of Python packages only: torch, transformers,
peft, safetensors, numpy, scipy, gymnasium, pydantic, filelock, and what these need. bitsandbytes
and TRL are used where they are installed.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks")]

import vpo_lite  # noqa: E402, F401  before torch: it sets how OpenMP's threads wait

# isort: split
import torch  # noqa: E402
from here import Here, Skipped  # noqa: E402

RESULTS = ROOT / "tests" / "benchmarks" / "results" / "gpu.json"
GROUPS = {
    "correctness": "logits sampler update steps bf16 resume nan quantised stated_memory oom",
    "effect": "demo learning",
    "speed": "rollouts step_time trl",
}
PACKAGES = ("torch", "transformers", "peft", "numpy", "scipy", "bitsandbytes", "trl")


def chosen(names: list[str]) -> list[tuple[str, str]]:
    """(group, part) in their order. A name is a group's or a part's; none stands for all."""
    every = [(group, part) for group, parts in GROUPS.items() for part in parts.split()]
    unknown = set(names) - {name for pair in every for name in pair}
    if unknown:
        there = ", ".join([*GROUPS, *(part for _, part in every)])
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
    if here.device.type == "cuda":
        torch.cuda.empty_cache()
    return {"outcome": outcome, "seconds": round(time.perf_counter() - started, 1), **figures}


def write(path: Path, about: dict, parts: dict) -> None:
    """The figures of these parts, beside those of other parts that the file holds."""
    kept = json.loads(path.read_text())["parts"] if path.exists() else {}
    path.write_text(json.dumps({**about, "parts": {**kept, **parts}}, indent=1) + "\n")


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
    options = parser.parse_args()
    wanted = chosen(options.only)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch sees no CUDA device here, so there is nothing to check")
        return 0
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine()
    found = [p for p in PACKAGES if importlib.util.find_spec(p)]
    out = options.out or (RESULTS if on_gpu and not options.small else None)
    done = {}
    with tempfile.TemporaryDirectory() as scratch:
        here = Here(device, options.small, Path(scratch))
        for group, part in wanted:
            print(f"== {part}", flush=True)
            row = done[part] = run(group, part, here)
            row["date"] = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
            print(json.dumps(row, indent=1), flush=True)
            about = {"device": name, "cuda": torch.version.cuda, "small": options.small}
            about |= {"versions": {package: version(package) for package in found}}
            if out:
                write(out, about, {part: row})
    print(f"\n{name}, torch {torch.__version__}" + (f", written to {out}" if out else ""))
    print(table(done))
    return int(any(row["outcome"] in ("failed", "error") for row in done.values()))


if __name__ == "__main__":
    sys.exit(main())
