"""One decode step as a CUDA graph: its hundreds of small kernels start as one.

tests/gpu/ measures it. tests/test_device_paths.py records and replays a step on the CPU.
"""

import functools
import threading
import warnings
from collections.abc import Callable

import torch


def replayed(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """A function that does what ``step`` does, by replaying it. Without CUDA: ``step`` itself.

    ``step`` takes and returns nothing. It must have run once, with the same shapes. It changes
    tensors in place, and decides nothing by their values: Python runs it once more, now, to record
    it, and never again. Recording changes no tensor.

    A step that cannot be recorded is returned as it is, with a warning. Then sampling is slower.
    And in this process nothing is recorded any more: up to version 2.11 torch goes on as if that
    recording had no end (pytorch pull request 180395).
    """
    if device.type != "cuda" or _BROKEN.is_set():
        return step
    graph = torch.cuda.CUDAGraph()
    # Other threads, such as those of a live panel, may go on using the GPU meanwhile, but not
    # record: a recording begins with torch.cuda.synchronize, which breaks any other (error 900).
    how = dict(stream=_STREAMS.of(device), capture_error_mode="thread_local")
    try:
        # Where a recording fails, torch leaves its stream in use. The outer block takes it back.
        before = torch.cuda.stream(torch.cuda.current_stream(device))
        with _ONE_RECORDS, before, torch.cuda.graph(graph, **how):
            step()
    except RuntimeError as error:
        _BROKEN.set()
        # Torch's last error says only that the recording broke; the one before says where.
        reason = (str(error.__context__ or error).splitlines() or ["unknown reason"])[0]
        warnings.warn(
            f"sampling goes on without a CUDA graph, until Python is started again: {reason}",
            stacklevel=2,
        )
        return step
    return graph.replay


class _Streams(threading.local):
    """The stream on which a thread records steps of a GPU.

    Torch's own belongs to the GPU that recorded first: on another one it records nothing. And where
    a graph goes, newer versions free the memory that cuBLAS has for its stream, which the graph of
    another thread may need (pytorch issue 193402).
    """

    def __init__(self):
        self.of = functools.cache(torch.cuda.Stream)


_STREAMS, _ONE_RECORDS, _BROKEN = _Streams(), threading.Lock(), threading.Event()
