"""Asking a peer that may just be restarting.

Called by admission and funds.
"""

import asyncio
from typing import Any

from libs.core.retry import backoff
from libs.rpc.checks import CheckClient, CheckFailedError


async def ask_patiently(
    peer: CheckClient, kind: str, question: Any, timeout_s: float, patience_s: float, trace: str
) -> Any:
    """Ask; without an answer ask again, under the same request id, while patience lasts. Raise CheckFailedError."""
    give_up = asyncio.get_running_loop().time() + timeout_s + patience_s
    waits = backoff(0.02, 0.1)
    while True:
        try:
            return await peer.ask(kind, question, timeout_s, trace)
        except CheckFailedError:
            wait = next(waits)
            if asyncio.get_running_loop().time() + wait >= give_up:
                raise
            await asyncio.sleep(wait)
