"""Results of asynchronous functions of a user, such as a judge over a network, for plain code."""

import asyncio
import functools
import inspect
import os
import threading

_one_at_a_time = threading.Lock()


def awaited(returned):
    """What a call returned or, where that is awaitable, its result.

    Everything is awaited on one event loop, in a thread of this process that never ends. A client
    that keeps its connections, as those of OpenAI and httpx do, works on no second loop. And the
    caller's thread may have a running loop of its own, as in a notebook.

    >>> async def judge():
    ...     return [1.0]
    >>> awaited(judge()), awaited([0.5])
    ([1.0], [0.5])
    """
    if not inspect.isawaitable(returned):
        return returned
    with _one_at_a_time:
        loop = _loop(os.getpid())
    waiting = asyncio.run_coroutine_threadsafe(_outcome(returned), loop)
    try:
        result, error = waiting.result()
    finally:
        waiting.cancel()  # after Ctrl-C it would go on
    if error is not None:
        raise error
    return result


async def together(awaitables) -> list:
    """The results of several awaitables, which run at the same time."""
    return await asyncio.gather(*awaitables)


async def _outcome(awaitable) -> tuple:
    try:
        return await awaitable, None
    except BaseException as error:  # a SystemExit would end the loop, and its caller would wait
        return None, error


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a fork has the loop of its parent, but not the thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="awaiting", daemon=True).start()
    return loop
