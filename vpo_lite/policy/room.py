"""How much memory a device has, and how much of it is free. A container's own limit counts."""

import os
from pathlib import Path

import torch

# What torch says without an error of its own: the CPU, an Apple GPU, and libraries on a full GPU.
SHORT = (
    "can't allocate",
    "MPS backend out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # Linux control groups


def size(count: float) -> str:
    """A number of bytes in a reader's unit.

    >>> size(800), size(3 * 2**20), size(1.5 * 2**30)
    ('1 MiB', '3 MiB', '1.5 GiB')
    """
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{max(1, round(count / 2**20))} MiB"


def total_memory(device: torch.device) -> int | None:
    """Bytes that the device has in all, or the container's limit; None where this is unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    if device.type == "meta":  # holds shapes without numbers
        return None
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return None
    return min([total, *(limit for limit, _ in _limits())])


def available_memory(device: torch.device) -> int | None:
    """Bytes that are free on the device or held by this process; None where this is unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, StopIteration):  # no Linux
        return None
    return max(0, min([1024 * int(free), *(limit - used for limit, used in _limits())])) + held


def is_short(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    >>> is_short(RuntimeError("CUDA error: out of memory")), is_short(RuntimeError("no such file"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in SHORT)


def _limits() -> list[tuple[int, int]]:
    """(limit, used) in bytes of every control group around this process that has a limit.

    A group counts the files that it has read as used memory. Those that have not been used lately
    (``inactive_file``) are given back when memory is short, so they do not count here.
    """
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":  # version 2
            top, names = GROUPS, ("memory.max", "memory.current", "inactive_file ")
        elif "memory" in kinds.split(","):  # version 1
            top = GROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")
        else:
            continue
        inner = top / path.lstrip("/")
        for group in (inner, *inner.parents):
            found += _limit(group, *names)
            if group == top:
                break
    return found


def _limit(group: Path, most: str, used: str, idle: str) -> list[tuple[int, int]]:
    try:
        limit, held = int((group / most).read_text()), int((group / used).read_text())
        stat = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no such group here, or "max": no limit
        return []
    given_back = sum(int(line.split()[1]) for line in stat if line.startswith(idle))
    return [(limit, max(0, held - given_back))]
