"""Per-request questions on one long-lived stream: everything asked in one loop turn travels in one message.

CheckClient is used by the edge, CheckServer by limiter, router and ledger. Measured, this costs about a
twentieth of unary calls. Messages are the ``CheckBatch``/``CheckReplies`` of each service's proto: items with
an id, a time limit, a trace context and one question or answer. The server opens a stream with an empty
message; then answers come in any order. A broken stream fails what waits on it as "unavailable", that is:
outcome unknown, safe to ask again under the same request id.
"""

from libs.rpc.checks.client import CheckClient, CheckFailedError
from libs.rpc.checks.server import Ask, CheckServer

__all__ = ["Ask", "CheckClient", "CheckFailedError", "CheckServer"]
