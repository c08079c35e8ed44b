"""Waiting between tries: capped exponential backoff with full jitter.

Called wherever something is tried again: connections at start, relays, replays of the spool.
"""

import random
from collections.abc import Iterator


def backoff(first_s: float = 0.05, cap_s: float = 5.0, factor: float = 2.0) -> Iterator[float]:
    """Yield waits in seconds for ever: random between half of and the whole of a growing, capped step."""
    step = first_s
    while True:
        yield step * (0.5 + random.random() / 2)
        step = min(cap_s, step * factor)
