"""One decode step as a CUDA graph: its hundreds of small kernels start as one.

It has not run on a GPU yet. tests/test_device_paths.py records and replays a step on the CPU.
"""

import functools
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
    # Other threads, such as those of a live panel, may go on using the GPU meanwhile.
    how = dict(stream=_recording_stream(device), capture_error_mode="thread_local")
    try:
        # Where a recording fails, torch leaves its stream in use. The outer block takes it back.
        with torch.cuda.stream(torch.cuda.current_stream(device)), torch.cuda.graph(graph, **how):
            step()
    except RuntimeError as error:
        # Torch's last error says only that the recording broke; the one before says where.
        reason = str(error.__context__ or error).splitlines()[0]
        warnings.warn(f"sampling goes on without a CUDA graph: {reason}", stacklevel=2)
        return step
    return graph.replay


@functools.cache
def _recording_stream(device: torch.device):
    """The stream on which this GPU's steps are recorded.

    Torch's own belongs to the GPU that recorded first: on another one it records nothing. There is
    one a GPU, since cuBLAS keeps memory for every stream.
    """
    return torch.cuda.Stream(device)
