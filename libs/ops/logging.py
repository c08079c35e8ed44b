"""Logs as JSON lines with the trace and request they belong to. Never bodies, keys or secrets.

Called once per process by libs.ops.telemetry; code logs through ``logging.getLogger("kenari.<service>")``.
"""

import json
import logging
import sys
from typing import Any

from libs.core.clock import rfc3339
from libs.ops.tracing import current_trace_id

# What a record may carry besides its message; anything else in ``extra`` is dropped rather than leaked.
ALLOWED_FIELDS = (
    "request_id",
    "account_id",
    "key_id",
    "code",
    "status",
    "reason",
    "topic",
    "partition",
    "offset",
    "upstream_id",
    "model",
    "attempt",
    "count",
    "seconds",
    "address",
    "version",
    "state",
    "outcome",
    "port",
    "path",
    "method",
)


class JsonFormatter(logging.Formatter):
    """One record as one line of JSON."""

    def __init__(self, service: str | None) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "service": self._service or _service_of(record.name),
            "message": record.getMessage(),
        }
        if trace_id := current_trace_id():
            line["trace_id"] = trace_id
        for field in ALLOWED_FIELDS:
            value = record.__dict__.get(field)
            if value is not None:
                line[field] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # ASCII: a lone surrogate from a client's text could not be written in any encoding, and the line would be lost.
        return json.dumps(line, default=str)


def _service_of(logger_name: str) -> str:
    parts = logger_name.split(".")
    return parts[1] if parts[0] == "kenari" and len(parts) > 1 else "kenari"


def configure(level: str, service: str | None = None) -> None:
    """Send all logs of this process to standard error as JSON lines.

    ``service`` names the process; without it (several services in one process) the logger's name tells.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # These report each lost connection many times over; what matters of it is logged by ours.
    for noisy in ("aiokafka", "faststream", "asyncio", "uvicorn.error", "uvicorn.access", "grpc"):
        logging.getLogger(noisy).setLevel("ERROR")
