"""Ends what runs in the background, within a time that is kept.

Called by everything in libs.kafka that has a task or a client. The client can swallow a cancellation (before Python
3.12 its ``wait_for`` does when both happen at once), so one is never enough here.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any

log = logging.getLogger("kenari.kafka")

_CANCELS = 4
_CANCEL_S = 0.25


async def end(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task and wait until it is gone; one that will not go within a second is left alone."""
    if task is None:
        return
    for _ in range(_CANCELS):
        if task.done():
            break
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_S)
    else:
        log.error("a task does not end", extra={"reason": task.get_name()})
    task.add_done_callback(_see_error)


async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> None:
    """Run something to its end, or give it up after a while; what it raises is of no more interest."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        await end(task)


@contextlib.asynccontextmanager
async def at_most(seconds: float) -> AsyncIterator[None]:
    """Wait for something inside for a while at most, without an error when it does not come."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield


def _see_error(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()
