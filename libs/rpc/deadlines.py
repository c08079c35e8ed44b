"""The time a caller still waits, carried from an incoming call to the calls made for it.

Set by libs.rpc.server for each call, read by libs.rpc.client. The service-config timeout of gRPC is not used:
it fails calls below a second at once and sets no deadline on the server above it.
"""

import time
from contextvars import ContextVar

# Monotonic seconds at which the present caller gives up; 0 means that nobody waits.
_deadline: ContextVar[float] = ContextVar("kenari_deadline", default=0.0)


def enter(remaining_s: float) -> None:
    """Remember for this task that its caller waits ``remaining_s`` more."""
    _deadline.set(time.monotonic() + remaining_s)


def remaining(default_s: float) -> float:
    """Seconds for an onward call: the default, or what the caller has left if that is less (never below 0)."""
    until = _deadline.get()
    if not until:
        return default_s
    return max(0.0, min(default_s, until - time.monotonic()))
