"""Identifiers: time-ordered UUIDv7 request ids and prefixed ids of things.

Called by the edge for request ids and by the owners of accounts, keys and other rows.
"""

import os
import time
import uuid

_last_ms = 0
_counter = 0


def uuid7_hex(now_ms: int | None = None) -> str:
    """Return a UUIDv7 as 32 hex digits, increasing within this process.

    The 12 bits after the time count up within a millisecond, so ids made in order sort in order.
    """
    global _last_ms, _counter
    ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if ms > _last_ms:
        _last_ms, _counter = ms, int.from_bytes(os.urandom(1), "big")
    else:
        ms = _last_ms
        _counter += 1
        if _counter > 0xFFF:
            _last_ms = ms = ms + 1
            _counter = 0
    tail = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF
    return f"{(ms << 80) | (0x7000 | _counter) << 64 | 0x8000_0000_0000_0000 | tail:032x}"


def uuid7_unix_ms(value: str) -> int:
    """Return the Unix milliseconds inside a UUIDv7; raise ValueError for anything else."""
    parsed = uuid.UUID(value)
    if parsed.version != 7:
        raise ValueError(f"not a UUIDv7: {value}")
    return parsed.int >> 80


def prefixed_id(prefix: str) -> str:
    """Return a time-ordered id such as ``acct_0198...`` for a row that is not a request."""
    return f"{prefix}_{uuid7_hex()}"
