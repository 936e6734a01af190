"""How many CPU threads torch uses, for one block of code."""

import contextlib

import torch

# Multiplications in the largest matrix product of a sampling step and of an update. Below these a
# second thread costs more than it helps.
SMALL_STEP, SMALL_UPDATE = 3e7, 1e8


@contextlib.contextmanager
def torch_threads(count: int | None):
    """Give torch ``count`` CPU threads inside the block; afterwards it has as many as before.

    None leaves the number as it is.

    The number belongs to the Python thread that sets it; others keep theirs. A new thread takes,
    when it first uses torch, the number that was set last, wherever that was. Inside another
    thread's block that is the block's number, and the new thread keeps it. A thread that computes
    for long therefore sets its own, as every training step does.

    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    if count is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread_if_small(model, tokens: int, limit: float):
    """One CPU thread inside the block, if the model's largest product over ``tokens`` is small.

    Small means fewer than ``limit`` multiplications. Hundreds of short products are done before
    other threads have woken up. On other devices, and for larger products, nothing changes. What
    :func:`torch_threads` says of concurrent Python threads holds here too.
    """
    weights = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    if not weights or weights[0].device.type != "cpu":
        return torch_threads(None)
    largest = tokens * max(weight.numel() for weight in weights)
    return torch_threads(1 if largest < limit else None)
