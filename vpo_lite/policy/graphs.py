"""One decode step as a CUDA graph: its hundreds of small kernels start as one.

It has not run on a GPU yet. tests/test_device_paths.py records and replays a step on the CPU.
"""

import warnings
from collections.abc import Callable

import torch


def replayed(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """A function that does what ``step`` does, by replaying it. Without CUDA: ``step`` itself.

    ``step`` takes and returns nothing. It must have run once, with the same shapes. It changes
    tensors in place, and decides nothing by their values: Python runs it once more, now, to record
    it, and never again. Recording changes no tensor.

    A step that cannot be recorded is returned as it is, with a warning. Then sampling is slower.
    """
    if device.type != "cuda":
        return step
    graph = torch.cuda.CUDAGraph()
    try:
        # Other threads, such as those of a live panel, may go on using the GPU meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        warnings.warn(f"sampling goes on without a CUDA graph: {reason}", stacklevel=2)
        return step
    return graph.replay
