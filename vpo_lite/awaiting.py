"""Results of asynchronous functions of a user, such as a judge over a network, for plain code."""

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

_one_at_a_time = threading.Lock()


def awaited(returned: Sequence) -> list[Callable[[], Any]]:
    """For each value that a call returned, a function that returns it. Where the value is awaitable
    the function returns its result, or raises its error. All of them are awaited at the same time.

    Everything is awaited on one event loop, in a thread of this process that never ends. A client
    that keeps its connections, as those of OpenAI and httpx do, works on no second loop. And the
    caller's thread may have a running loop of its own, as in a notebook.

    >>> async def judge():
    ...     return [1.0]
    >>> [result() for result in awaited([judge(), [0.5]])]
    [[1.0], [0.5]]
    """
    if not any(map(inspect.isawaitable, returned)):
        return [functools.partial(_again, x) for x in returned]
    with _one_at_a_time:
        loop = _loop(os.getpid())
    waiting = asyncio.run_coroutine_threadsafe(_together(returned), loop)
    try:
        return [functools.partial(_again, *outcome) for outcome in waiting.result()]
    finally:
        waiting.cancel()  # after Ctrl-C they would go on


async def _together(returned: Sequence) -> list[tuple]:
    return await asyncio.gather(*map(_outcome, returned))


async def _outcome(returned) -> tuple:
    try:
        return (await returned if inspect.isawaitable(returned) else returned), None
    except BaseException as error:  # a SystemExit would end the loop, and its caller would wait
        return None, error


def _again(result, error: BaseException | None = None):
    if error is not None:
        raise error
    return result


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a fork has the loop of its parent, but not the thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="awaiting", daemon=True).start()
    return loop
