"""Which failures of a handler pass by themselves, and what of an error's text may be kept.

Called by the consumer chain (to choose between waiting and a dead letter) and by dead letters.
"""

import re

import asyncpg
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from libs.core.errors import KenariError, Transient

_TEXT_LIMIT = 300

# A database that is away, restarting, failing over, out of slots, or that chose our transaction as a victim.
_TRANSIENT_SQLSTATES = ("08", "40", "53", "57P", "55P03", "57014", "25006")

_SECRETS = (
    (re.compile(r"\b(kn|sk|pk|rk)-[A-Za-z0-9_-]{8,}"), r"\1-***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 ***"),
    (re.compile(r"://[^/\s:@]+:[^/\s@]+@"), "://***@"),
    (re.compile(r"(?i)\b(password|passwd|secret|token|api[_-]?key)(\s*[=:]\s*)\S+"), r"\1\2***"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "***@***"),
)


def is_transient(error: BaseException) -> bool:
    """Whether trying the same record later can succeed.

    Handlers say so with ``Transient``. Lost connections count as well even when a handler forgot to say it: a
    database outage must never turn into a pile of dead letters.
    """
    if isinstance(error, Transient | ConnectionError | TimeoutError):
        return True
    if isinstance(error, KafkaError):
        return bool(error.retriable)
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_TRANSIENT_SQLSTATES)
    # asyncpg reports use of a connection that was closed under it this way.
    return isinstance(error, asyncpg.InterfaceError) and "clos" in str(error)


def error_class(error: BaseException) -> str:
    """A short, stable name for metrics, headers and ``--error``: our reason, else the exception's type."""
    return error.reason if isinstance(error, KenariError) else type(error).__name__


def safe_text(error: BaseException) -> str:
    """The error's message cut and without what looks like a secret; never the input that was refused."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        text = "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['type']}" for fault in faults)
    else:
        text = str(error).partition("\n")[0]
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text[:_TEXT_LIMIT]
